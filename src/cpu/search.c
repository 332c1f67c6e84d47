/* search.c: search and search_all of the cpu backend. */
#include "cpu/match.h"

SnlsStatus snls_cpu_search_forward(SnlsContext *ctx, const SnlsSearch *s)
{
    const SnlsMatch m = snls_match_of_search(s, false);
    return snls_cpu_match_forward(ctx, &m);
}

SnlsStatus snls_cpu_search_backward(SnlsContext *ctx, const SnlsSearch *s, const SnlsSearchGrad *g)
{
    const SnlsMatch m = snls_match_of_search(s, false);
    const SnlsMatchGrad grad = snls_match_grad_of_search(g);
    return snls_cpu_match_backward(ctx, &m, &grad);
}

SnlsStatus snls_cpu_search_all_forward(SnlsContext *ctx, const SnlsSearchAll *s)
{
    const SnlsMatch m = snls_match_of_search(s, true);
    return snls_cpu_match_forward(ctx, &m);
}

SnlsStatus snls_cpu_search_all_backward(SnlsContext *ctx, const SnlsSearchAll *s, const SnlsSearchAllGrad *g)
{
    const SnlsMatch m = snls_match_of_search(s, true);
    const SnlsMatchGrad grad = snls_match_grad_of_search(g);
    return snls_cpu_match_backward(ctx, &m, &grad);
}
