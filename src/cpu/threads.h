/* threads.h: which thread this is, with or without OpenMP. */
#ifndef SNLS_CPU_THREADS_H
#define SNLS_CPU_THREADS_H
#ifdef _OPENMP
#include <omp.h>
static inline int snls_cpu_thread(void) { return omp_get_thread_num(); }
#else
static inline int snls_cpu_thread(void) { return 0; }
#endif
#endif
