/* faults.h: memory that runs out where a test wants it. */
#ifndef FAULTS_H
#define FAULTS_H

#include "check.h"
#include <snls/context.h>

typedef struct CountedMemory {
    int64_t made, live, fail_at; /* allocations; allocation number fail_at, from 0, fails; -1: none */
    int64_t held, most;          /* bytes */
} CountedMemory;

SnlsStatus open_counted(CountedMemory *m, const char *backend, int32_t threads, SnlsContext **ctx); /* m must outlive it */

#endif
