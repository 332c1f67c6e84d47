/* faults.h: memory that runs out where a test wants it. */
#ifndef FAULTS_H
#define FAULTS_H

#include "check.h"
#include <snls/context.h>

typedef struct CountedMemory { int64_t made, live, fail_at; } CountedMemory; /* allocation number fail_at, from 0, fails; -1: none */

SnlsStatus open_counted(CountedMemory *m, const char *backend, SnlsContext **ctx); /* on three threads; m must outlive it */

#endif
