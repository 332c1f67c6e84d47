/* weights.c: softmax over the neighbours (docs/operators.md section 4). */
#include "ref/ref.h"

/* Visits every row of K numbers: element numbers of its first entries in two tensors of one shape. */
#define FOR_EACH_ROW(t)                                                                          \
    for (int64_t b = 0; b < (t)->shape[0]; b++)                                                  \
        for (int64_t h = 0; h < (t)->shape[1]; h++)                                              \
            for (int64_t f = 0; f < (t)->shape[2]; f++)                                          \
                for (int64_t i = 0; i < (t)->shape[3]; i++)                                      \
                    for (int64_t j = 0; j < (t)->shape[4]; j++)

static void softmax_row(const SnlsTensor *dist, int64_t from, const SnlsTensor *weight, int64_t to, double factor)
{
    const int64_t n = dist->shape[5], step = dist->stride[5];
    double top = -INFINITY, sum = 0;
    for (int64_t k = 0; k < n; k++) {
        const double d = snls_load(dist, from + k * step);
        if (isfinite(d)) top = fmax(top, factor * d);
    }
    for (int64_t k = 0; k < n; k++) {
        const double d = snls_load(dist, from + k * step);
        if (isfinite(d)) sum += exp(factor * d - top);
    }
    for (int64_t k = 0; k < n; k++) {
        const double d = snls_load(dist, from + k * step);
        snls_store(weight, to + k * weight->stride[5], isfinite(d) ? exp(factor * d - top) / sum : 0);
    }
}

static double factor_of(const SnlsWeightsParams *p) { return p->dist == SNLS_DIST_PROD ? p->scale : -p->scale; }

SnlsStatus snls_ref_weights_forward(SnlsContext *ctx, const SnlsWeights *s)
{
    (void)ctx;
    FOR_EACH_ROW(&s->dist)
        softmax_row(&s->dist, snls_at5(&s->dist, b, h, f, i, j), &s->weight, snls_at5(&s->weight, b, h, f, i, j), factor_of(&s->params));
    return SNLS_OK;
}

/* d dist += factor * w * (g - sum w g) */
static void softmax_row_grad(const SnlsTensor *weight, int64_t from, const SnlsTensor *g, int64_t seed, const SnlsTensor *to, int64_t at, double factor)
{
    const int64_t n = weight->shape[5];
    double mean = 0;
    for (int64_t k = 0; k < n; k++) {
        const double w = snls_load(weight, from + k * weight->stride[5]);
        if (w != 0) mean += w * snls_load(g, seed + k * g->stride[5]);
    }
    for (int64_t k = 0; k < n; k++) {
        const double w = snls_load(weight, from + k * weight->stride[5]);
        const int64_t place = at + k * to->stride[5];
        if (w != 0) snls_store(to, place, snls_load(to, place) + factor * w * (snls_load(g, seed + k * g->stride[5]) - mean));
    }
}

SnlsStatus snls_ref_weights_backward(SnlsContext *ctx, const SnlsWeights *s, const SnlsWeightsGrad *g)
{
    (void)ctx;
    if (!g->dist.data) return SNLS_OK;
    FOR_EACH_ROW(&s->weight)
        softmax_row_grad(&s->weight, snls_at5(&s->weight, b, h, f, i, j), &g->weight, snls_at5(&g->weight, b, h, f, i, j), &g->dist,
                         snls_at5(&g->dist, b, h, f, i, j), factor_of(&s->params));
    return SNLS_OK;
}
