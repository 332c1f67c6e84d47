/* cpu_move.c: shuffle, concat, pad and pool on f32 or bf16, rows of channels at a time. */
#include "nn/cpu.h"
#include <string.h>

/* Elements of two or four bytes that are only moved. */
typedef struct Copy { const char *from; char *to; int64_t size; } Copy;

static SnlsStatus copy_of(SnlsContext *ctx, const NnStep *s, const SnlsTensor *x, Copy *c)
{
    SNLS_REQUIRE(ctx, x->dtype == SNLS_F32 || x->dtype == SNLS_BF16, SNLS_ERR_UNSUPPORTED, "network: backend cpu moves f32 or bf16");
    *c = (Copy){ x->data, s->y[0].data, snls_dtype_size((SnlsDtype)x->dtype) };
    return SNLS_OK;
}

static void copy_run(const Copy *c, int64_t to, int64_t from, int64_t n) { memcpy(c->to + to * c->size, c->from + from * c->size, (size_t)(n * c->size)); }

/* to[i*step_to] = from[i*step_from] */
static void copy_spread(const Copy *c, int64_t to, int64_t step_to, int64_t from, int64_t step_from, int64_t n)
{
    if (c->size == 4)
        for (int64_t i = 0; i < n; i++) ((uint32_t *)(void *)c->to)[to + i * step_to] = ((const uint32_t *)(const void *)c->from)[from + i * step_from];
    else
        for (int64_t i = 0; i < n; i++) ((uint16_t *)(void *)c->to)[to + i * step_to] = ((const uint16_t *)(const void *)c->from)[from + i * step_from];
}

static void add_spread(float *to, int64_t step_to, const float *from, int64_t step_from, int64_t n, float factor)
{
    for (int64_t i = 0; i < n; i++) to[i * step_to] += factor * from[i * step_from];
}

static SnlsStatus need_f32(SnlsContext *ctx, const NnStep *s)
{
    SNLS_REQUIRE(ctx, s->dy[0].dtype == SNLS_F32, SNLS_ERR_UNSUPPORTED, "network: gradients on backend cpu are in f32");
    return SNLS_OK;
}

/* Pixel (n, y, x) of the deep side is r*r pixels of the wide one: for part q = i*r + j of them, channels c*r*r + q stand at wide's c. */
static int64_t wide_at(const SnlsTensor *wide, const SnlsTensor *deep, int64_t pixel, int64_t q, int64_t r)
{
    const int64_t w = deep->shape[2], h = deep->shape[1];
    return snls_nn_at4(wide, pixel / w / h, pixel / w % h * r + q / r, pixel % w * r + q % r, 0);
}

SnlsStatus snls_nn_cpu_shuffle_forward(SnlsContext *ctx, NnStep *s)
{
    const int64_t r = s->u.shuffle.r, parts = r * r;
    const SnlsTensor *wide = s->u.shuffle.inverse ? &s->x[0] : &s->y[0], *deep = s->u.shuffle.inverse ? &s->y[0] : &s->x[0];
    const int64_t pixels = snls_tensor_elements(deep) / deep->shape[3], n = wide->shape[3], c = deep->shape[3];
    Copy copy = { 0 };
    SNLS_TRY(copy_of(ctx, s, &s->x[0], &copy));
#pragma omp parallel for num_threads(ctx->threads) schedule(static)
    for (int64_t i = 0; i < pixels * parts; i++) {
        const int64_t at = wide_at(wide, deep, i / parts, i % parts, r), other = i / parts * c + i % parts;
        if (s->u.shuffle.inverse) copy_spread(&copy, other, parts, at, 1, n);
        else copy_spread(&copy, at, 1, other, parts, n);
    }
    return SNLS_OK;
}

SnlsStatus snls_nn_cpu_shuffle_backward(SnlsContext *ctx, NnStep *s)
{
    const int64_t r = s->u.shuffle.r, parts = r * r;
    const SnlsTensor *wide = s->u.shuffle.inverse ? &s->x[0] : &s->y[0], *deep = s->u.shuffle.inverse ? &s->y[0] : &s->x[0];
    const int64_t pixels = snls_tensor_elements(deep) / deep->shape[3], n = wide->shape[3], c = deep->shape[3];
    const float *dy = s->dy[0].data;
    float *dx = s->dx[0].data;
    SNLS_TRY(need_f32(ctx, s));
    for (int64_t i = 0; i < pixels * parts; i++) {
        const int64_t at = wide_at(wide, deep, i / parts, i % parts, r), other = i / parts * c + i % parts;
        if (s->u.shuffle.inverse) add_spread(dx + at, 1, dy + other, parts, n, 1);
        else add_spread(dx + other, parts, dy + at, 1, n, 1);
    }
    return SNLS_OK;
}

SnlsStatus snls_nn_cpu_concat_forward(SnlsContext *ctx, NnStep *s)
{
    const int64_t channels = s->y[0].shape[3], pixels = snls_tensor_elements(&s->y[0]) / channels;
    for (int in = 0; in < 2; in++) {
        const int64_t n = s->x[in].shape[3], first = in ? channels - n : 0;
        Copy copy = { 0 };
        SNLS_TRY(copy_of(ctx, s, &s->x[in], &copy));
#pragma omp parallel for num_threads(ctx->threads) schedule(static)
        for (int64_t i = 0; i < pixels; i++) copy_run(&copy, i * channels + first, i * n, n);
    }
    return SNLS_OK;
}

SnlsStatus snls_nn_cpu_concat_backward(SnlsContext *ctx, NnStep *s)
{
    const int64_t channels = s->y[0].shape[3], pixels = snls_tensor_elements(&s->y[0]) / channels;
    SNLS_TRY(need_f32(ctx, s));
    for (int in = 0; in < 2; in++) {
        const int64_t n = s->x[in].shape[3], first = in ? channels - n : 0;
        float *dx = s->dx[in].data;
        for (int64_t i = 0; dx && i < pixels; i++) add_spread(dx + i * n, 1, (const float *)s->dy[0].data + i * channels + first, 1, n, 1);
    }
    return SNLS_OK;
}

/* The part of row y of frame n that x and its padded picture share: *from, *to: elements; returns how many, 0 for none. */
static int64_t shared_run(const NnStep *s, int64_t n, int64_t y, int64_t *from, int64_t *to)
{
    const SnlsTensor *x = &s->x[0], *big = &s->y[0];
    const int64_t row = y + s->u.pad.top, left = s->u.pad.left, begin = left < 0 ? -left : 0;
    const int64_t end = x->shape[2] + left > big->shape[2] ? big->shape[2] - left : x->shape[2];
    if (row < 0 || row >= big->shape[1] || end <= begin) return 0;
    *from = snls_nn_at4(x, n, y, begin, 0);
    *to = snls_nn_at4(big, n, row, begin + left, 0);
    return (end - begin) * x->shape[3];
}

SnlsStatus snls_nn_cpu_pad_forward(SnlsContext *ctx, NnStep *s)
{
    const int64_t h = s->x[0].shape[1];
    Copy copy = { 0 };
    SNLS_TRY(copy_of(ctx, s, &s->x[0], &copy));
    memset(s->y[0].data, 0, (size_t)(snls_tensor_elements(&s->y[0]) * copy.size));
    for (int64_t i = 0; i < s->x[0].shape[0] * h; i++) {
        int64_t from, to;
        const int64_t n = shared_run(s, i / h, i % h, &from, &to);
        if (n) copy_run(&copy, to, from, n);
    }
    return SNLS_OK;
}

SnlsStatus snls_nn_cpu_pad_backward(SnlsContext *ctx, NnStep *s)
{
    const int64_t h = s->x[0].shape[1];
    SNLS_TRY(need_f32(ctx, s));
    for (int64_t i = 0; i < s->x[0].shape[0] * h; i++) {
        int64_t from, to;
        const int64_t n = shared_run(s, i / h, i % h, &from, &to);
        if (n) add_spread((float *)s->dx[0].data + from, 1, (const float *)s->dy[0].data + to, 1, n, 1);
    }
    return SNLS_OK;
}

static void pool_pixel(const NnStep *s, int64_t pixel)
{
    const int64_t *d = s->y[0].shape, r = s->u.pool.r, c = d[3];
    const int64_t x = pixel % d[2], y = pixel / d[2] % d[1], n = pixel / d[2] / d[1];
    for (int64_t i = 0; i < c; i++) {
        double sum = 0;
        for (int64_t q = 0; q < r * r; q++) sum += snls_load(&s->x[0], snls_nn_at4(&s->x[0], n, y * r + q / r, x * r + q % r, i));
        snls_store(&s->y[0], pixel * c + i, sum / (double)(r * r));
    }
}

SnlsStatus snls_nn_cpu_pool_forward(SnlsContext *ctx, NnStep *s)
{
    const int64_t pixels = s->y[0].shape[0] * s->y[0].shape[1] * s->y[0].shape[2];
    (void)ctx;
#pragma omp parallel for num_threads(ctx->threads) schedule(static)
    for (int64_t i = 0; i < pixels; i++) pool_pixel(s, i);
    return SNLS_OK;
}

SnlsStatus snls_nn_cpu_pool_backward(SnlsContext *ctx, NnStep *s)
{
    const int64_t *d = s->y[0].shape, r = s->u.pool.r, c = d[3];
    SNLS_TRY(need_f32(ctx, s));
    for (int64_t i = 0; i < d[0] * d[1] * d[2] * r * r; i++) {
        const int64_t pixel = i / (r * r), q = i % (r * r), x = pixel % d[2] * r + q % r, y = pixel / d[2] % d[1] * r + q / r;
        add_spread((float *)s->dx[0].data + snls_nn_at4(&s->x[0], pixel / d[2] / d[1], y, x, 0), 1, (const float *)s->dy[0].data + pixel * c, 1, c, 1.0f / (float)(r * r));
    }
    return SNLS_OK;
}
