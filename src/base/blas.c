/* blas.c: OpenBLAS on one thread while the library calls it. */
#include "base/blas.h"
#ifdef SNLS_HAVE_LAPACK
#include <pthread.h>

/* Another BLAS does not have these. */
#if defined(__GNUC__) && defined(__ELF__)
extern int openblas_get_num_threads(void) __attribute__((weak));
extern void openblas_set_num_threads(int) __attribute__((weak));
#else
#    define openblas_get_num_threads ((int (*)(void))0)
#    define openblas_set_num_threads ((void (*)(int))0)
#endif

/* The number is one for the whole process: whoever ends first must not give it back while others still count on it. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int running, before; /* who calls it; threads before the first of them */

bool snls_blas_is_fast(void) { return openblas_get_num_threads && openblas_set_num_threads; }

void snls_blas_begin(void)
{
    if (!snls_blas_is_fast()) return;
    pthread_mutex_lock(&lock);
    if (!running++) {
        before = openblas_get_num_threads();
        if (before != 1) openblas_set_num_threads(1);
    }
    pthread_mutex_unlock(&lock);
}

void snls_blas_end(void)
{
    if (!snls_blas_is_fast()) return;
    pthread_mutex_lock(&lock);
    if (!--running && before != 1) openblas_set_num_threads(before);
    pthread_mutex_unlock(&lock);
}
#else
bool snls_blas_is_fast(void) { return false; }
void snls_blas_begin(void) {}
void snls_blas_end(void) {}
#endif
