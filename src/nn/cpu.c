/* cpu.c: the table of backend cpu. Convolutions are oneDNN's where the build has it, else products of BLAS, else those of ref. */
#include "nn/blas.h"
#include "nn/cpu.h"
#include "nn/dnnl.h"
#ifdef _OPENMP
#include <omp.h>
#endif

#ifdef SNLS_HAVE_DNNL
/* oneDNN takes as many threads as OpenMP says, when a primitive is made as well as when it runs. */
static void swap_threads(SnlsContext *ctx, int32_t *threads)
{
#ifdef _OPENMP
    const int32_t before = omp_get_max_threads();
    omp_set_num_threads(*threads ? *threads : ctx->threads);
    *threads = before;
#else
    (void)ctx, (void)threads;
#endif
}
#endif

#define OURS(name) [NN_##name] = { snls_nn_cpu_##name##_forward, snls_nn_cpu_##name##_backward }
#define MATCH(name) [NN_##name] = { snls_nn_match_forward, snls_nn_match_backward }

const NnBackend snls_nn_cpu = {
    .name = "cpu",
    .op = {
#ifdef SNLS_HAVE_DNNL
        [NN_conv] = { snls_nn_dnnl_conv_forward, snls_nn_dnnl_conv_backward },
#elif defined(SNLS_HAVE_LAPACK)
        [NN_conv] = { snls_nn_blas_conv_forward, snls_nn_blas_conv_backward },
#else
        [NN_conv] = { snls_nn_ref_conv_forward, snls_nn_ref_conv_backward },
#endif
        OURS(norm), OURS(act), OURS(eca), OURS(attend), OURS(shuffle), OURS(concat), OURS(add), OURS(pad), OURS(pool),
        MATCH(search), MATCH(refine), MATCH(first), MATCH(weights),
        [NN_gather] = { snls_nn_cpu_gather_forward, snls_nn_match_backward },
    },
#ifdef SNLS_HAVE_DNNL
    .open = snls_nn_dnnl_open,
    .release = snls_nn_dnnl_release,
    .close = snls_nn_dnnl_close,
    .run = swap_threads,
#endif
};
