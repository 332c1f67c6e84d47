/* threads.h: how many threads this process may use. */
#ifndef SNLS_THREADS_H
#define SNLS_THREADS_H
#include <stdint.h>

enum { SNLS_THREADS_MOST = 1024 }; /* more are not there, and OpenMP ends a program whose system cannot start them */

/* What was asked for; 0: what OMP_NUM_THREADS, affinity and the CPU quota of its control groups allow, 1024 at most. One in a build without OpenMP. */
int32_t snls_threads_of(int32_t asked);
#endif
