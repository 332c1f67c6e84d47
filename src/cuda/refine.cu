/* refine.cu: refine of the cuda backend. */
#include "cuda/match.h"

SnlsStatus snls_cuda_refine_forward(SnlsContext *ctx, const SnlsRefine *s)
{
    const SnlsMatch m = snls_match_of_refine(s);
    return snls_cuda_match_forward(ctx, &m);
}

SnlsStatus snls_cuda_refine_backward(SnlsContext *ctx, const SnlsRefine *s, const SnlsRefineGrad *g)
{
    const SnlsMatch m = snls_match_of_refine(s);
    const SnlsMatchGrad grad = snls_match_grad_of_refine(g);
    return snls_cuda_match_backward(ctx, &m, &grad);
}
