/* cpu.c: the table of backend cpu. */
#include "base/blas.h"
#include "nn/blas.h"
#include "nn/cpu.h"
#include "nn/dnnl.h"
#ifdef _OPENMP
#include <omp.h>
static bool has_openmp(void) { return true; }
#elif defined(__GNUC__) && defined(__ELF__)
/* Not ours in this build, but oneDNN's, where that was made with it. */
extern int omp_get_max_threads(void) __attribute__((weak));
extern void omp_set_num_threads(int) __attribute__((weak));
static bool has_openmp(void) { return omp_get_max_threads && omp_set_num_threads; }
#else
static bool has_openmp(void) { return false; }
static int omp_get_max_threads(void) { return 1; }
static void omp_set_num_threads(int threads) { (void)threads; }
#endif

/* oneDNN takes as many threads as OpenMP says, when a primitive is made as well as when it runs; OpenBLAS has a number of its own. */
static void swap_threads(SnlsContext *ctx, int32_t *threads)
{
    if (snls_nn_cpu_conv_by_blas()) *threads ? snls_blas_end() : snls_blas_begin();
    if (!has_openmp()) {
        *threads = !*threads;
        return;
    }
    const int32_t before = omp_get_max_threads();
    omp_set_num_threads(*threads ? *threads : ctx->threads);
    *threads = before;
}

SnlsStatus snls_nn_cpu_expect(SnlsContext *ctx, int32_t threads)
{
    if (!snls_nn_cpu_conv_by_blas()) return SNLS_OK;
    SNLS_TRY(snls_blas_require(ctx, "model", threads));
    snls_nn_blas_warm(ctx, threads);
    return SNLS_OK;
}

/* Not with more threads than the context has: in a process that was forked, others never come. */
static SnlsStatus open_network(SnlsContext *ctx, void **shared)
{
    SNLS_TRY(snls_nn_cpu_expect(ctx, ctx->threads));
#ifdef SNLS_HAVE_DNNL
    return snls_nn_dnnl_open(ctx, shared);
#else
    (void)shared;
    return SNLS_OK;
#endif
}

#define OURS(name) [NN_##name] = { snls_nn_cpu_##name##_forward, snls_nn_cpu_##name##_backward }
#define MATCH(name) [NN_##name] = { snls_nn_match_forward, snls_nn_match_backward }

const NnBackend snls_nn_cpu = {
    .name = "cpu",
    .op = {
        OURS(conv), OURS(norm), OURS(act), OURS(eca), OURS(attend), OURS(shuffle), OURS(concat), OURS(add), OURS(pad), OURS(pool),
        MATCH(search), MATCH(refine), MATCH(first), MATCH(weights),
        [NN_gather] = { snls_nn_cpu_gather_forward, snls_nn_match_backward },
    },
    .open = open_network,
#ifdef SNLS_HAVE_DNNL
    .close = snls_nn_dnnl_close,
#endif
    .release = snls_nn_cpu_release,
    .run = swap_threads,
    .room = snls_nn_cpu_room,
    .own = snls_nn_cpu_own,
};
