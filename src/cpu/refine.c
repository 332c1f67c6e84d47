/* refine.c: refine of the cpu backend. */
#include "cpu/match.h"

SnlsStatus snls_cpu_refine_forward(SnlsContext *ctx, const SnlsRefine *s)
{
    const SnlsMatch m = snls_match_of_refine(s);
    return snls_cpu_match_forward(ctx, &m);
}

SnlsStatus snls_cpu_refine_backward(SnlsContext *ctx, const SnlsRefine *s, const SnlsRefineGrad *g)
{
    const SnlsMatch m = snls_match_of_refine(s);
    const SnlsMatchGrad grad = snls_match_grad_of_refine(g);
    return snls_cpu_match_backward(ctx, &m, &grad);
}
