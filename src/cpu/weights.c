/* weights.c: softmax over the neighbours. K numbers a query in f32 storage; sums in double, they are few. */
#include "cpu/video.h"
#include <math.h>

typedef struct Rows { int64_t count, heads, frames, rows, columns, n; } Rows;

static Rows rows_of(const SnlsTensor *t)
{
    return (Rows){t->shape[0] * t->shape[1] * t->shape[2] * t->shape[3] * t->shape[4], t->shape[1], t->shape[2], t->shape[3], t->shape[4], t->shape[5]};
}

/* First number of a row in a tensor. */
static float *row_at(const SnlsTensor *t, const Rows *r, int64_t row)
{
    const int64_t j = row % r->columns, i = row / r->columns % r->rows, f = row / r->columns / r->rows % r->frames;
    const int64_t head = row / r->columns / r->rows / r->frames % r->heads, b = row / r->columns / r->rows / r->frames / r->heads;
    return (float *)t->data + snls_at5(t, b, head, f, i, j);
}

static void softmax_row(const float *dist, int64_t from, float *weight, int64_t to, int64_t n, double factor)
{
    double top = -INFINITY, sum = 0;
    for (int64_t k = 0; k < n; k++)
        if (isfinite(dist[k * from])) top = fmax(top, factor * dist[k * from]);
    for (int64_t k = 0; k < n; k++) {
        const double e = isfinite(dist[k * from]) ? exp(factor * dist[k * from] - top) : 0;
        weight[k * to] = (float)e;
        sum += e;
    }
    for (int64_t k = 0; k < n; k++)
        if (weight[k * to] != 0) weight[k * to] = (float)(weight[k * to] / sum);
}

static double factor_of(const SnlsWeightsParams *p) { return p->dist == SNLS_DIST_PROD ? p->scale : -p->scale; }

SnlsStatus snls_cpu_weights_forward(SnlsContext *ctx, const SnlsWeights *s)
{
    SNLS_TRY(snls_cpu_take_numbers(ctx, "weights", "dist", &s->dist));
    SNLS_TRY(snls_cpu_take_numbers(ctx, "weights", "weight", &s->weight));
    const Rows rows = rows_of(&s->dist);
    const double factor = factor_of(&s->params);
#pragma omp parallel for num_threads(ctx->threads) schedule(static)
    for (int64_t r = 0; r < rows.count; r++)
        softmax_row(row_at(&s->dist, &rows, r), s->dist.stride[5], row_at(&s->weight, &rows, r), s->weight.stride[5], rows.n, factor);
    return SNLS_OK;
}

/* d dist += factor * w * (g - sum w g) */
static void softmax_row_grad(const float *w, int64_t step_w, const float *g, int64_t step_g, float *to, int64_t step, int64_t n, double factor)
{
    double mean = 0;
    for (int64_t k = 0; k < n; k++)
        if (w[k * step_w] != 0) mean += (double)w[k * step_w] * g[k * step_g];
    for (int64_t k = 0; k < n; k++)
        if (w[k * step_w] != 0) to[k * step] += (float)(factor * w[k * step_w] * (g[k * step_g] - mean));
}

SnlsStatus snls_cpu_weights_backward(SnlsContext *ctx, const SnlsWeights *s, const SnlsWeightsGrad *g)
{
    SNLS_TRY(snls_cpu_take_numbers(ctx, "weights", "weight", &s->weight));
    SNLS_TRY(snls_cpu_take_numbers(ctx, "weights", "gradient of weight", &g->weight));
    SNLS_TRY(snls_cpu_take_numbers(ctx, "weights", "gradient of dist", &g->dist));
    if (!g->dist.data) return SNLS_OK;
    const Rows rows = rows_of(&s->weight);
    const double factor = factor_of(&s->params);
#pragma omp parallel for num_threads(ctx->threads) schedule(static)
    for (int64_t r = 0; r < rows.count; r++)
        softmax_row_grad(row_at(&s->weight, &rows, r), s->weight.stride[5], row_at(&g->weight, &rows, r), g->weight.stride[5],
                         row_at(&g->dist, &rows, r), g->dist.stride[5], rows.n, factor);
    return SNLS_OK;
}
