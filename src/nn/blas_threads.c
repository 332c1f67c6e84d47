/* blas_threads.c: the memory of its own that OpenBLAS works in. */
#include "base/blas.h"
#include "nn/blas.h"
#ifdef SNLS_HAVE_LAPACK
#include <pthread.h>
#include <string.h>
#ifdef _OPENMP
#include <omp.h>
#endif

static pthread_mutex_t warming = PTHREAD_MUTEX_INITIALIZER;

enum { SIDE = 128, DEPTH = 700, TIMES = 4 }; /* fills the buffer for one operand to its end */

void sgemm_(const char *turn_a, const char *turn_b, const int *m, const int *n, const int *k, const float *alpha, const float *a, const int *lda,
            const float *b, const int *ldb, const float *beta, float *c, const int *ldc);

static void multiply(const float *operand, float *to)
{
    const int side = SIDE, depth = DEPTH;
    const float one = 1, zero = 0;
    for (int i = 0; i < TIMES; i++) sgemm_("N", "N", &side, &side, &depth, &one, operand, &side, operand, &depth, &zero, to, &side);
}

/* At the same time, so that each has a buffer of its own. Returns how many there were. One needs no region, for which OpenMP might wake threads that a fork has left behind. */
static int32_t multiply_together(const float *operand, float *to, int32_t threads)
{
    int32_t were = 1;
    if (threads < 2) return multiply(operand, to), were;
#pragma omp parallel num_threads(threads)
    {
#ifdef _OPENMP
#pragma omp single
        were = omp_get_num_threads();
        multiply(operand, to + (int64_t)omp_get_thread_num() * SIDE * SIDE);
#else
        multiply(operand, to);
#endif
    }
    return were;
}

/* OpenBLAS has a buffer for each thread that is in it, and its loops fetch ahead beyond what they packed there. On pages that nobody has written yet, each fetch
 * looks for the page in vain: products of 32 x 32 weights took five times as long on AArch64 until larger ones had been there. */
void snls_nn_blas_warm(SnlsContext *ctx, int32_t threads)
{
    static int32_t warm;
    if (!snls_blas_is_fast()) return;
    snls_blas_begin();
    pthread_mutex_lock(&warming);
    const int64_t floats = SIDE * DEPTH + (int64_t)threads * SIDE * SIDE;
    float *room = threads > warm ? snls_mem_alloc(&ctx->allocator, floats * (int64_t)sizeof *room) : NULL; /* without, it is only slower */
    if (room) {
        memset(room, 0, (size_t)floats * sizeof *room);
        const int32_t were = multiply_together(room, room + SIDE * DEPTH, threads);
        if (were > warm) warm = were;
    }
    snls_mem_free(&ctx->allocator, room);
    pthread_mutex_unlock(&warming);
    snls_blas_end();
}

#else
void snls_nn_blas_warm(SnlsContext *ctx, int32_t threads) { (void)ctx, (void)threads; }
#endif
