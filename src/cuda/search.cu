/* search.cu: search and search_all of the cuda backend. */
#include "cuda/match.h"

SnlsStatus snls_cuda_search_forward(SnlsContext *ctx, const SnlsSearch *s)
{
    const SnlsMatch m = snls_match_of_search(s, false);
    return snls_cuda_match_forward(ctx, &m);
}

SnlsStatus snls_cuda_search_backward(SnlsContext *ctx, const SnlsSearch *s, const SnlsSearchGrad *g)
{
    const SnlsMatch m = snls_match_of_search(s, false);
    const SnlsMatchGrad grad = snls_match_grad_of_search(g);
    return snls_cuda_match_backward(ctx, &m, &grad);
}

SnlsStatus snls_cuda_search_all_forward(SnlsContext *ctx, const SnlsSearchAll *s)
{
    const SnlsMatch m = snls_match_of_search(s, true);
    return snls_cuda_match_forward(ctx, &m);
}

SnlsStatus snls_cuda_search_all_backward(SnlsContext *ctx, const SnlsSearchAll *s, const SnlsSearchAllGrad *g)
{
    const SnlsMatch m = snls_match_of_search(s, true);
    const SnlsMatchGrad grad = snls_match_grad_of_search(g);
    return snls_cuda_match_backward(ctx, &m, &grad);
}
