/* cpu_pixel.c: layer norm, activations, channel attention and sums on rows of f32 or bf16. Sums over pixels are made in a fixed
 * number of parts that are added in their order, so the number of threads does not change a bit. */
#include "nn/cpu.h"
#include "nn/gelu.h"
#include "simd/layers.h"
#include <math.h>
#include <string.h>

enum { PARTS = 32 }; /* of the pixels: one thread owns one */

typedef struct Rows { /* pixels and channels of a step, and scratch of each part */
    int64_t pixels, channels;
    float  *scratch; /* PARTS blocks of each floats */
    int64_t each;
} Rows;

static int64_t part_begin(const Rows *r, int64_t part) { return r->pixels * part / PARTS; }
static float *part_scratch(const Rows *r, int64_t part) { return r->scratch + part * r->each; }

static SnlsStatus rows_of(SnlsContext *ctx, const NnStep *s, int64_t blocks, const char *op, Rows *r)
{
    const int64_t channels = s->x[0].shape[s->x[0].ndim - 1];
    SNLS_REQUIRE(ctx, s->x[0].dtype == SNLS_F32 || s->x[0].dtype == SNLS_BF16, SNLS_ERR_UNSUPPORTED, "network: %s on backend cpu is in f32 or bf16", op);
    *r = (Rows){ .channels = channels, .pixels = snls_tensor_elements(&s->x[0]) / channels, .each = blocks * channels };
    snls_arena_begin(&ctx->arena);
    snls_arena_plan(&ctx->arena, PARTS * r->each, sizeof(float));
    SNLS_TRY(snls_scratch_commit(ctx, op));
    r->scratch = snls_arena_claim(&ctx->arena, PARTS * r->each, sizeof(float));
    return SNLS_OK;
}

static SnlsStatus only_f32(SnlsContext *ctx, const NnStep *s, const char *op)
{
    SNLS_REQUIRE(ctx, s->x[0].dtype == SNLS_F32, SNLS_ERR_UNSUPPORTED, "network: gradients of %s on backend cpu are in f32", op);
    return SNLS_OK;
}

static SnlsRows part_rows(const Rows *r, const NnStep *s, int64_t begin, int64_t end) { return (SnlsRows){ end - begin, r->channels, s->x[0].dtype == SNLS_BF16 }; }

/* The channels of a pixel. */
static void *row_at(const SnlsTensor *t, int64_t pixel, int64_t channels) { return (char *)t->data + pixel * channels * snls_dtype_size((SnlsDtype)t->dtype); }

/* ---- norm ---- */

typedef struct Moments { float mean, scale; } Moments;

static Moments moments_of(const float *x, int64_t n, double eps)
{
    float sum = 0, square = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) sum += x[i];
    const float mean = sum / (float)n;
#pragma omp simd reduction(+ : square)
    for (int64_t i = 0; i < n; i++) square += (x[i] - mean) * (x[i] - mean);
    return (Moments){ mean, (float)(1 / sqrt((double)(square / (float)n) + eps)) };
}

SnlsStatus snls_nn_cpu_norm_forward(SnlsContext *ctx, NnStep *s)
{
    Rows r;
    SnlsLayers loops;
    SNLS_TRY(rows_of(ctx, s, SNLS_NORM_ROWS, "norm", &r));
    snls_layers(&loops, ctx->cpu_level);
#pragma omp parallel for num_threads(ctx->threads) schedule(static)
    for (int part = 0; part < PARTS; part++) {
        const int64_t begin = part_begin(&r, part);
        const SnlsRows rows = part_rows(&r, s, begin, part_begin(&r, part + 1));
        loops.norm(row_at(&s->y[0], begin, r.channels), row_at(&s->x[0], begin, r.channels), s->p[0].data, s->p[1].data, s->u.norm.eps, &rows, part_scratch(&r, part));
    }
    return SNLS_OK;
}

static void norm_pixel_backward(const NnStep *s, const Rows *r, int64_t at, float *sums)
{
    const float *x = (const float *)s->x[0].data + at, *dy = (const float *)s->dy[0].data + at, *gamma = s->p[0].data;
    const int64_t n = r->channels;
    const Moments m = moments_of(x, n, s->u.norm.eps);
    float mean = 0, along = 0, *restrict d_gamma = sums, *restrict d_beta = sums + n;
#pragma omp simd reduction(+ : mean, along)
    for (int64_t i = 0; i < n; i++) mean += gamma[i] * dy[i], along += gamma[i] * dy[i] * ((x[i] - m.mean) * m.scale);
    mean /= (float)n, along /= (float)n;
    for (int64_t i = 0; i < n; i++) d_gamma[i] += dy[i] * ((x[i] - m.mean) * m.scale), d_beta[i] += dy[i];
    float *dx = s->dx[0].data ? (float *)s->dx[0].data + at : NULL;
    for (int64_t i = 0; dx && i < n; i++) dx[i] += (gamma[i] * dy[i] - mean - (x[i] - m.mean) * m.scale * along) * m.scale;
}

SnlsStatus snls_nn_cpu_norm_backward(SnlsContext *ctx, NnStep *s)
{
    Rows r;
    SNLS_TRY(only_f32(ctx, s, "norm"));
    SNLS_TRY(rows_of(ctx, s, 2, "norm", &r));
    memset(r.scratch, 0, sizeof(float) * (size_t)(PARTS * r.each));
#pragma omp parallel for num_threads(ctx->threads) schedule(static)
    for (int part = 0; part < PARTS; part++)
        for (int64_t p = part_begin(&r, part); p < part_begin(&r, part + 1); p++) norm_pixel_backward(s, &r, p * r.channels, part_scratch(&r, part));
    for (int k = 0; k < 2; k++)
        for (int64_t i = 0; s->dp[k].data && i < PARTS * r.channels; i++)
            ((float *)s->dp[k].data)[i % r.channels] += part_scratch(&r, i / r.channels)[k * r.channels + i % r.channels];
    return SNLS_OK;
}

/* ---- act ---- */

static float slope_of(const NnStep *s) { return s->u.act.act == NN_PRELU ? *(const float *)s->p[0].data : s->u.act.act == NN_LEAKY ? (float)s->u.act.slope : 0; }

static void act_row(const NnStep *s, const float *x, float *y, int64_t n)
{
    const float slope = slope_of(s);
    if (s->u.act.act == NN_GELU)
        for (int64_t i = 0; i < n; i++) y[i] = snls_nn_gelu_of(x[i]);
    else
        for (int64_t i = 0; i < n; i++) y[i] = x[i] * (x[i] > 0 ? 1 : slope);
}

SnlsStatus snls_nn_cpu_act_forward(SnlsContext *ctx, NnStep *s)
{
    Rows r;
    SNLS_TRY(rows_of(ctx, s, 2, "act", &r));
#pragma omp parallel for num_threads(ctx->threads) schedule(static)
    for (int part = 0; part < PARTS; part++)
        for (int64_t p = part_begin(&r, part); p < part_begin(&r, part + 1); p++) {
            float *room = part_scratch(&r, part);
            act_row(s, snls_nn_row(&s->x[0], p * r.channels, r.channels, room), room + r.channels, r.channels);
            snls_nn_put_row(&s->y[0], p * r.channels, r.channels, room + r.channels);
        }
    return SNLS_OK;
}

/* Returns the part's share of the gradient by prelu's slope. */
static double act_part_backward(const NnStep *s, int64_t begin, int64_t end)
{
    const float *restrict x = s->x[0].data, *restrict dy = s->dy[0].data, slope = slope_of(s);
    float *restrict dx = s->dx[0].data;
    double sum = 0;
    if (dx && s->u.act.act == NN_GELU)
        for (int64_t i = begin; i < end; i++) dx[i] += dy[i] * snls_nn_gelu_slope(x[i]);
    else if (dx)
        for (int64_t i = begin; i < end; i++) dx[i] += dy[i] * (x[i] > 0 ? 1 : slope);
    for (int64_t i = begin; i < end && s->dp[0].data; i++) sum += x[i] <= 0 ? (double)dy[i] * (double)x[i] : 0;
    return sum;
}

SnlsStatus snls_nn_cpu_act_backward(SnlsContext *ctx, NnStep *s)
{
    const int64_t count = snls_tensor_elements(&s->x[0]);
    double sums[PARTS], sum = 0;
    SNLS_TRY(only_f32(ctx, s, "act"));
#pragma omp parallel for num_threads(ctx->threads) schedule(static)
    for (int part = 0; part < PARTS; part++) sums[part] = act_part_backward(s, count * part / PARTS, count * (part + 1) / PARTS);
    for (int part = 0; part < PARTS; part++) sum += sums[part];
    if (s->dp[0].data) *(float *)s->dp[0].data += (float)sum;
    return SNLS_OK;
}

/* ---- eca ---- */

/* Sums of a frame's pixels by channel, of x or (f32) of x times other: to (channels), through the parts' scratch. */
static void sum_frame(SnlsContext *ctx, const NnStep *s, const Rows *r, int64_t n, const SnlsTensor *other, double *to)
{
    const int64_t pixels = s->x[0].shape[1] * s->x[0].shape[2], c = r->channels;
    SnlsLayers loops;
    snls_layers(&loops, ctx->cpu_level);
#pragma omp parallel for num_threads(ctx->threads) schedule(static)
    for (int part = 0; part < PARTS; part++) {
        const int64_t begin = n * pixels + pixels * part / PARTS, end = n * pixels + pixels * (part + 1) / PARTS;
        const SnlsRows rows = part_rows(r, s, begin, end);
        float *restrict sums = part_scratch(r, part);
        memset(sums, 0, sizeof(float) * (size_t)c);
        if (!other) loops.sum(sums, row_at(&s->x[0], begin, c), &rows);
        for (int64_t p = begin; other && p < end; p++) {
            const float *x = (const float *)s->x[0].data + p * c, *z = (const float *)other->data + p * c;
            for (int64_t i = 0; i < c; i++) sums[i] += x[i] * z[i];
        }
    }
    for (int64_t i = 0; i < c; i++) to[i] = 0;
    for (int64_t i = 0; i < PARTS * c; i++) to[i % c] += part_scratch(r, i / c)[i % c];
}

/* y = x * factor, or (f32) y += x * factor + term, pixel by pixel of frame n; y, x: values or gradients */
static void scale_frame(SnlsContext *ctx, const NnStep *s, const Rows *r, int64_t n, const SnlsTensor *x, const SnlsTensor *y, const float *factor, const float *term)
{
    const int64_t pixels = s->x[0].shape[1] * s->x[0].shape[2], c = r->channels;
    SnlsLayers loops;
    snls_layers(&loops, ctx->cpu_level);
#pragma omp parallel for num_threads(ctx->threads) schedule(static)
    for (int part = 0; part < PARTS; part++) {
        const int64_t begin = n * pixels + pixels * part / PARTS, end = n * pixels + pixels * (part + 1) / PARTS;
        const SnlsRows rows = part_rows(r, s, begin, end);
        if (!term) loops.scale(row_at(y, begin, c), row_at(x, begin, c), factor, &rows);
        for (int64_t p = begin; term && p < end; p++) {
            const float *from = (const float *)x->data + p * c;
            float *restrict to = (float *)y->data + p * c;
            for (int64_t i = 0; i < c; i++) to[i] += from[i] * factor[i] + term[i];
        }
    }
}

static SnlsStatus eca_scratch(SnlsContext *ctx, const NnStep *s, Rows *r, double **sums, float **gates)
{
    const int64_t c = s->x[0].shape[3];
    SNLS_TRY(rows_of(ctx, s, 2, "eca", r)); /* checks the type */
    snls_arena_begin(&ctx->arena);
    snls_arena_plan(&ctx->arena, PARTS * r->each, sizeof(float));
    snls_arena_plan(&ctx->arena, 2 * c, sizeof(double));
    snls_arena_plan(&ctx->arena, 2 * c, sizeof(float));
    SNLS_TRY(snls_scratch_commit(ctx, "eca"));
    r->scratch = snls_arena_claim(&ctx->arena, PARTS * r->each, sizeof(float));
    *sums = snls_arena_claim(&ctx->arena, 2 * c, sizeof(double));
    *gates = snls_arena_claim(&ctx->arena, 2 * c, sizeof(float));
    return SNLS_OK;
}

SnlsStatus snls_nn_cpu_eca_forward(SnlsContext *ctx, NnStep *s)
{
    Rows r;
    double *sums;
    float *gates;
    const int64_t pixels = s->x[0].shape[1] * s->x[0].shape[2];
    SNLS_TRY(eca_scratch(ctx, s, &r, &sums, &gates));
    for (int64_t n = 0; n < s->x[0].shape[0]; n++) {
        sum_frame(ctx, s, &r, n, NULL, sums);
        snls_nn_gates(gates, sums, (double)pixels, s->p[0].data, r.channels);
        scale_frame(ctx, s, &r, n, &s->x[0], &s->y[0], gates, NULL);
    }
    return SNLS_OK;
}

/* d z of each channel from the sums of dy*x, then what every pixel gets through the mean. */
static void eca_through_mean(const NnStep *s, int64_t c, double pixels, const double *sums, double *dz, const float *gates, float *term)
{
    const float *taps = s->p[0].data;
    float *d_taps = s->dp[0].data;
    for (int64_t i = 0; i < c; i++) dz[i] *= gates[i] * (1 - gates[i]);
    for (int64_t i = 0; i < c; i++) {
        term[i] = (float)(((i + 1 < c ? taps[0] * dz[i + 1] : 0) + taps[1] * dz[i] + (i ? taps[2] * dz[i - 1] : 0)) / pixels);
        for (int64_t k = 0; d_taps && k < 3; k++)
            if (i + k - 1 >= 0 && i + k - 1 < c) d_taps[k] += (float)(dz[i] * sums[i + k - 1] / pixels);
    }
}

SnlsStatus snls_nn_cpu_eca_backward(SnlsContext *ctx, NnStep *s)
{
    Rows r;
    double *sums;
    float *gates;
    const int64_t pixels = s->x[0].shape[1] * s->x[0].shape[2];
    SNLS_TRY(only_f32(ctx, s, "eca"));
    SNLS_TRY(eca_scratch(ctx, s, &r, &sums, &gates));
    for (int64_t n = 0; n < s->x[0].shape[0]; n++) {
        sum_frame(ctx, s, &r, n, NULL, sums);
        snls_nn_gates(gates, sums, (double)pixels, s->p[0].data, r.channels);
        sum_frame(ctx, s, &r, n, &s->dy[0], sums + r.channels);
        eca_through_mean(s, r.channels, (double)pixels, sums, sums + r.channels, gates, gates + r.channels);
        if (s->dx[0].data) scale_frame(ctx, s, &r, n, &s->dy[0], &s->dx[0], gates, gates + r.channels);
    }
    return SNLS_OK;
}

/* ---- add ---- */

SnlsStatus snls_nn_cpu_add_forward(SnlsContext *ctx, NnStep *s)
{
    Rows r;
    SnlsLayers loops;
    SNLS_TRY(rows_of(ctx, s, 0, "add", &r));
    snls_layers(&loops, ctx->cpu_level);
#pragma omp parallel for num_threads(ctx->threads) schedule(static)
    for (int part = 0; part < PARTS; part++) {
        const int64_t begin = part_begin(&r, part), c = r.channels;
        const SnlsRows rows = part_rows(&r, s, begin, part_begin(&r, part + 1));
        loops.add(row_at(&s->y[0], begin, c), row_at(&s->x[0], begin, c), (float)s->u.add.a, s->x[1].data ? row_at(&s->x[1], begin, c) : NULL, (float)s->u.add.b, &rows);
    }
    return SNLS_OK;
}

SnlsStatus snls_nn_cpu_add_backward(SnlsContext *ctx, NnStep *s)
{
    const float factor[2] = { (float)s->u.add.a, (float)s->u.add.b }, *restrict dy = s->dy[0].data;
    const int64_t count = snls_tensor_elements(&s->y[0]);
    SNLS_TRY(only_f32(ctx, s, "add"));
    for (int k = 0; k < 2; k++) {
        float *restrict dx = s->dx[k].data;
        if (!dx) continue;
#pragma omp parallel for num_threads(ctx->threads) schedule(static) if (ctx->threads > 1)
        for (int64_t i = 0; i < count; i++) dx[i] += factor[k] * dy[i];
    }
    return SNLS_OK;
}
