/* weights.c: softmax over the neighbours: lines of queries are given to the loops of simd/softmax.h. */
#include "cpu/video.h"
#include "simd/softmax.h"

/* Lines of queries: all axes but the last two, flattened. */
typedef struct Lines { int64_t count, heads, frames, rows, columns, n; } Lines;

static Lines lines_of(const SnlsTensor *t)
{
    return (Lines){t->shape[0] * t->shape[1] * t->shape[2] * t->shape[3], t->shape[1], t->shape[2], t->shape[3], t->shape[4], t->shape[5]};
}

/* The queries of a line in a tensor. */
static SnlsSoftmaxRow row_at(const SnlsTensor *t, const Lines *l, int64_t line)
{
    const int64_t i = line % l->rows, f = line / l->rows % l->frames;
    const int64_t head = line / l->rows / l->frames % l->heads, b = line / l->rows / l->frames / l->heads;
    return (SnlsSoftmaxRow){(float *)t->data + snls_at5(t, b, head, f, i, 0), t->stride[4], t->stride[5]};
}

static double factor_of(const SnlsWeightsParams *p) { return p->dist == SNLS_DIST_PROD ? p->scale : -p->scale; }

SnlsStatus snls_cpu_weights_forward(SnlsContext *ctx, const SnlsWeights *s)
{
    SNLS_TRY(snls_cpu_take_numbers(ctx, "weights", "dist", &s->dist));
    SNLS_TRY(snls_cpu_take_numbers(ctx, "weights", "weight", &s->weight));
    const Lines lines = lines_of(&s->dist);
    const double factor = factor_of(&s->params);
    SnlsSoftmax loops;
    snls_softmax(&loops, ctx->cpu_level);
#pragma omp parallel for num_threads(ctx->threads) schedule(static)
    for (int64_t l = 0; l < lines.count; l++) {
        const SnlsSoftmaxRow dist = row_at(&s->dist, &lines, l), weight = row_at(&s->weight, &lines, l);
        loops.forward(&weight, &dist, lines.columns, lines.n, factor);
    }
    return SNLS_OK;
}

SnlsStatus snls_cpu_weights_backward(SnlsContext *ctx, const SnlsWeights *s, const SnlsWeightsGrad *g)
{
    SNLS_TRY(snls_cpu_take_numbers(ctx, "weights", "weight", &s->weight));
    SNLS_TRY(snls_cpu_take_numbers(ctx, "weights", "gradient of weight", &g->weight));
    SNLS_TRY(snls_cpu_take_numbers(ctx, "weights", "gradient of dist", &g->dist));
    if (!g->dist.data) return SNLS_OK;
    const Lines lines = lines_of(&s->weight);
    const double factor = factor_of(&s->params);
    SnlsSoftmax loops;
    snls_softmax(&loops, ctx->cpu_level);
#pragma omp parallel for num_threads(ctx->threads) schedule(static)
    for (int64_t l = 0; l < lines.count; l++) {
        const SnlsSoftmaxRow weight = row_at(&s->weight, &lines, l), by = row_at(&g->weight, &lines, l), to = row_at(&g->dist, &lines, l);
        loops.backward(&to, &weight, &by, lines.columns, lines.n, factor);
    }
    return SNLS_OK;
}
