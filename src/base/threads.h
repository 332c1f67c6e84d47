/* threads.h: how many threads this process may use. */
#ifndef SNLS_THREADS_H
#define SNLS_THREADS_H
#include <stdint.h>
int32_t snls_threads_available(void); /* >= 1: OMP_NUM_THREADS, affinity and the cgroup's CPU quota respected */
#endif
