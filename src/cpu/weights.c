/* weights.c: softmax over the neighbours. K numbers a query in f32 storage; sums in double, they are few. */
#include "cpu/video.h"
#include <math.h>
#include <string.h>

/* Lines of queries: all axes but the last two, flattened. */
typedef struct Lines { int64_t count, heads, frames, rows, columns, n; } Lines;

static Lines lines_of(const SnlsTensor *t)
{
    return (Lines){t->shape[0] * t->shape[1] * t->shape[2] * t->shape[3], t->shape[1], t->shape[2], t->shape[3], t->shape[4], t->shape[5]};
}

/* First number of a line in a tensor. */
static float *line_at(const SnlsTensor *t, const Lines *l, int64_t line)
{
    const int64_t i = line % l->rows, f = line / l->rows % l->frames;
    const int64_t head = line / l->rows / l->frames % l->heads, b = line / l->rows / l->frames / l->heads;
    return (float *)t->data + snls_at5(t, b, head, f, i, 0);
}

/* e^x for x <= 0, to 1e-11 of itself: 2^n * e^r, |r| <= ln(2)/2, by its series. What no float can hold becomes 0. */
static double exp_negative(double x)
{
    static const double series[] = {1. / 362880, 1. / 40320, 1. / 5040, 1. / 720, 1. / 120, 1. / 24, 1. / 6, 0.5, 1, 1};
    x = x > -120 ? x : -120;
    const double shifted = x * 0x1.71547652b82fep+0 + 0x1.8p52, n = shifted - 0x1.8p52;
    const double r = (x - n * 0x1.62e42fefa4p-1) + n * 0x1.8432a1b0e2634p-43; /* ln(2) in two parts, the first short */
    double p = series[0];
    for (int i = 1; i < 10; i++) p = p * r + series[i];
    int64_t power; /* n stands in the low bits of shifted */
    memcpy(&power, &shifted, sizeof power);
    power = (int64_t)((uint64_t)(power + 1023) << 52);
    double scale;
    memcpy(&scale, &power, sizeof scale);
    return p * scale;
}

static void softmax_row(const float *dist, int64_t from, float *weight, int64_t to, int64_t n, double factor)
{
    double top = -INFINITY, sum = 0;
    for (int64_t k = 0; k < n; k++) {
        const double s = factor * dist[k * from];
        top = isfinite(dist[k * from]) && s > top ? s : top;
    }
    for (int64_t k = 0; k < n; k++) {
        const double e = isfinite(dist[k * from]) ? exp_negative(factor * dist[k * from] - top) : 0;
        weight[k * to] = (float)e;
        sum += e;
    }
    const double scale = 1 / sum;
    for (int64_t k = 0; k < n; k++)
        if (weight[k * to] != 0) weight[k * to] = (float)(weight[k * to] * scale);
}

static double factor_of(const SnlsWeightsParams *p) { return p->dist == SNLS_DIST_PROD ? p->scale : -p->scale; }

SnlsStatus snls_cpu_weights_forward(SnlsContext *ctx, const SnlsWeights *s)
{
    SNLS_TRY(snls_cpu_take_numbers(ctx, "weights", "dist", &s->dist));
    SNLS_TRY(snls_cpu_take_numbers(ctx, "weights", "weight", &s->weight));
    const Lines lines = lines_of(&s->dist);
    const double factor = factor_of(&s->params);
#pragma omp parallel for num_threads(ctx->threads) schedule(static)
    for (int64_t l = 0; l < lines.count; l++) {
        const float *dist = line_at(&s->dist, &lines, l);
        float *weight = line_at(&s->weight, &lines, l);
        for (int64_t j = 0; j < lines.columns; j++)
            softmax_row(dist + j * s->dist.stride[4], s->dist.stride[5], weight + j * s->weight.stride[4], s->weight.stride[5], lines.n, factor);
    }
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
    const Lines lines = lines_of(&s->weight);
    const double factor = factor_of(&s->params);
#pragma omp parallel for num_threads(ctx->threads) schedule(static)
    for (int64_t l = 0; l < lines.count; l++) {
        const float *weight = line_at(&s->weight, &lines, l), *by = line_at(&g->weight, &lines, l);
        float *to = line_at(&g->dist, &lines, l);
        for (int64_t j = 0; j < lines.columns; j++)
            softmax_row_grad(weight + j * s->weight.stride[4], s->weight.stride[5], by + j * g->weight.stride[4], g->weight.stride[5],
                             to + j * g->dist.stride[4], g->dist.stride[5], lines.n, factor);
    }
    return SNLS_OK;
}
