/* blas_conv.c: convolution, plain and transposed, forward and backward, as sums over windows (blas_filter.h). Small and large grid are those of ref_conv.c.
 * Sums for small pixels read large ones a stride apart. Large pixels whose places have the same remainder by the stride, a phase, are met by
 * the same taps of the kernel: each phase is a sum over neighbouring small pixels, with those taps in reverse. */
#include "nn/blas.h"
#ifdef SNLS_HAVE_LAPACK
#include "nn/blas_filter.h"
#include "nn/cpu.h"
#include "nn/gelu.h"
#include "simd/layers.h"
#ifdef _OPENMP
#include <omp.h>
#endif

typedef struct Grids {
    const NnConv *v;
    const int64_t *small, *large; /* shapes */
    int64_t per_small, per_large; /* channels of a group */
} Grids;

static Grids grids_of(const NnStep *s)
{
    const NnConv *v = &s->u.conv;
    Grids q = { .v = v, .small = v->transposed ? s->x[0].shape : s->y[0].shape, .large = v->transposed ? s->y[0].shape : s->x[0].shape };
    q.per_small = q.small[3] / v->groups, q.per_large = q.large[3] / v->groups;
    return q;
}

/* ---- the two ways ---- */

typedef struct Way { NnFilter filter; int64_t first[2], apart; } Way; /* result (y,x) is pixel first + apart * (y,x) of its grid */

/* May be quick: not where weights' gradients are made of the windows. */
static Way finish_way(Way w, bool may)
{
    if (!w.filter.count[0] || !w.filter.count[1]) return w;
    w.filter.quick = may && snls_nn_filter_may_be_quick(&w.filter);
    snls_nn_filter_tiles(&w.filter);
    return w;
}

static Way to_small(const Grids *q, const SnlsTensor *from, bool may)
{
    const NnConv *v = q->v;
    Way w = { .filter = { .from = *from, .groups = v->groups, .in = q->per_large, .out = q->per_small, .taps = { v->kernel, v->kernel }, .step = v->stride,
                          .origin = { -v->pad, -v->pad }, .count = { q->small[1], q->small[2] } }, .apart = 1 };
    return finish_way(w, may);
}

static int64_t phase_taps(const NnConv *v, int64_t remainder) { return remainder < v->kernel ? (v->kernel - remainder + v->stride - 1) / v->stride : 0; }

static Way to_large(const Grids *q, const SnlsTensor *from, int64_t phase)
{
    const NnConv *v = q->v;
    Way w = { .filter = { .from = *from, .groups = v->groups, .in = q->per_small, .out = q->per_large, .step = 1 }, .apart = v->stride };
    for (int i = 0; i < 2; i++) {
        const int64_t remainder = i ? phase % v->stride : phase / v->stride, taps = phase_taps(v, remainder);
        const int64_t nearest = v->pad > remainder ? (v->pad - remainder + v->stride - 1) / v->stride : 0; /* small pixel of the first large one, if all were there */
        w.first[i] = nearest * v->stride + remainder - v->pad;
        w.filter.count[i] = w.first[i] < q->large[1 + i] ? (q->large[1 + i] - w.first[i] + v->stride - 1) / v->stride : 0;
        w.filter.taps[i] = taps, w.filter.origin[i] = nearest - taps + 1;
    }
    return finish_way(w, true);
}

static int64_t phases(const Grids *q, bool large) { return large ? q->v->stride * q->v->stride : 1; }
static Way way_of(const Grids *q, const SnlsTensor *from, bool large, int64_t phase) { return large ? to_large(q, from, phase) : to_small(q, from, true); }

/* ---- weights, in the order of the filters ---- */

static int64_t weight_count(const Grids *q) { return q->small[3] * q->per_large * q->v->kernel * q->v->kernel; }

static int64_t weights_before(const Grids *q, int64_t phase)
{
    int64_t taps = 0;
    for (int64_t i = 0; i < phase; i++) taps += phase_taps(q->v, i / q->v->stride) * phase_taps(q->v, i % q->v->stride);
    return taps * q->small[3] * q->per_large;
}

/* Where the weights [in][out] of a tap and a group begin. */
static int64_t tap_at(const Grids *q, bool large, int64_t ky, int64_t kx, int64_t group)
{
    const int64_t k = q->v->kernel, s = q->v->stride, size = q->per_small * q->per_large;
    if (!large) return ((ky * q->v->groups + group) * k + kx) * size;
    const int64_t rows = phase_taps(q->v, ky % s), columns = phase_taps(q->v, kx % s), y = rows - 1 - ky / s, x = columns - 1 - kx / s;
    return weights_before(q, ky % s * s + kx % s) + ((y * q->v->groups + group) * columns + x) * size;
}

/* The parameter is (small channel, large channel of its group, ky, kx). */
static void turn_weights(const Grids *q, bool large, const float *parameter, float *weights)
{
    const int64_t k = q->v->kernel, ps = q->per_small, pl = q->per_large;
    for (int64_t i = 0; i < k * k * q->v->groups; i++) {
        const int64_t tap = i % (k * k), group = i / (k * k);
        float *to = weights + tap_at(q, large, tap / k, tap % k, group);
        const float *from = parameter + group * ps * pl * k * k + tap;
        for (int64_t a = 0; a < ps; a++)
            for (int64_t b = 0; b < pl; b++) to[large ? a * pl + b : b * ps + a] = from[(a * pl + b) * k * k];
    }
}

/* Gradients in the order of sums for small pixels. */
static void add_turned(const Grids *q, const float *weights, float *parameter)
{
    const int64_t k = q->v->kernel, ps = q->per_small, pl = q->per_large;
    for (int64_t i = 0; i < k * k * q->v->groups; i++) {
        const int64_t tap = i % (k * k), group = i / (k * k);
        const float *from = weights + tap_at(q, false, tap / k, tap % k, group);
        float *to = parameter + group * ps * pl * k * k + tap;
        for (int64_t a = 0; a < ps; a++)
            for (int64_t b = 0; b < pl; b++) to[(a * pl + b) * k * k] += from[b * ps + a];
    }
}

/* Kept with the step, anew whenever the parameters have changed. */
typedef struct Packed { int32_t version; float weights[]; } Packed;

static SnlsStatus pack(SnlsContext *ctx, NnStep *s, const Grids *q, const float **weights)
{
    Packed *p = s->state;
    if (!p) {
        s->state = p = snls_mem_alloc(&ctx->allocator, (int64_t)sizeof *p + weight_count(q) * (int64_t)sizeof(float));
        SNLS_REQUIRE(ctx, p, SNLS_ERR_MEMORY, "network: no memory for packed weights");
        p->version = *s->version - 1;
    }
    if (p->version != *s->version) turn_weights(q, q->v->transposed, s->p[0].data, p->weights);
    p->version = *s->version;
    *weights = p->weights;
    return SNLS_OK;
}

void snls_nn_blas_conv_release(SnlsContext *ctx, NnStep *s)
{
    snls_mem_free(&ctx->allocator, s->state);
    s->state = NULL;
}

/* ---- what becomes of sums ---- */

static void finish(const NnStep *s, float *restrict sums, int64_t at, int64_t pixels)
{
    const NnConv *v = &s->u.conv;
    const SnlsTensor *y = &s->y[0], *residual = &s->x[1];
    const int64_t channels = y->shape[3], n = pixels * channels;
    const float *restrict bias = s->p[1].data;
    const float slope = v->act == NN_LEAKY ? (float)v->slope : v->act == NN_RELU ? 0 : 1;
    for (int64_t p = 0; p < pixels && bias; p++)
        for (int64_t c = 0; c < channels; c++) sums[p * channels + c] += bias[c];
    for (int64_t i = 0; i < n && slope != 1; i++) sums[i] *= sums[i] > 0 ? 1 : slope;
    if (v->act == NN_GELU && y->dtype == SNLS_F32)
        for (int64_t i = 0; i < n; i++) sums[i] = snls_nn_gelu_of(sums[i]);
    if (residual->data && residual->dtype == SNLS_F32)
        for (int64_t i = 0; i < n; i++) sums[i] += ((const float *)residual->data)[at + i]; /* may be y itself */
    else if (residual->data)
        for (int64_t i = 0; i < n; i++) sums[i] += snls_bf16_to_float(((const uint16_t *)residual->data)[at + i]);
    snls_nn_put_row(y, at, n, sums);
}

static void add_to(float *restrict to, const float *restrict from, int64_t n)
{
    for (int64_t i = 0; i < n; i++) to[i] += from[i];
}

/* Of a tile to its grid: forward they become values, backward they are added to a gradient. */
static void put_tile(const NnStep *s, const SnlsLayers *loops, const Way *w, const NnTile *t, float *sums, float *gradient)
{
    const int64_t *shape = (gradient ? &s->x[0] : &s->y[0])->shape, channels = shape[3], run = w->apart == 1 ? t->columns : 1;
    for (int64_t i = 0; i < t->rows * t->columns; i += run) {
        const int64_t y = w->first[0] + (t->y + i / t->columns) * w->apart, x = w->first[1] + (t->x + i % t->columns) * w->apart, at = ((t->n * shape[1] + y) * shape[2] + x) * channels;
        if (gradient) add_to(gradient + at, sums + i * channels, run * channels);
        else finish(s, sums + i * channels, at, run);
        if (!gradient && s->u.conv.act == NN_GELU && s->y[0].dtype == SNLS_BF16) loops->gelu((uint16_t *)s->y[0].data + at, run * channels);
    }
}

/* ---- running ---- */

static int32_t this_thread(void)
{
#ifdef _OPENMP
    return omp_get_thread_num();
#else
    return 0;
#endif
}

static int64_t tile_floats(const Way *w) { return snls_nn_filter_window_floats(&w->filter) + snls_nn_filter_sum_floats(&w->filter); }

static int64_t on_lines(int64_t floats) { return (floats + SNLS_ALIGN - 1) / SNLS_ALIGN * SNLS_ALIGN; }

/* For a tile of any phase. */
static int64_t way_floats(const Grids *q, const SnlsTensor *from, bool large)
{
    int64_t most = 0;
    for (int64_t i = 0; i < phases(q, large); i++) {
        const Way w = way_of(q, from, large, i);
        if (w.filter.count[0] && w.filter.count[1] && tile_floats(&w) > most) most = tile_floats(&w);
    }
    return on_lines(most);
}

/* For a run: weights of a quick one, and a tile for each thread. */
static int64_t run_floats(const Grids *q, const SnlsTensor *from, bool large, int32_t threads)
{
    const Way w = way_of(q, from, large, 0); /* a quick one has no further phase */
    return way_floats(q, from, large) * threads + (w.filter.quick ? on_lines(snls_nn_filter_quick_floats(&w.filter)) : 0);
}

static void run_way(SnlsContext *ctx, const NnStep *s, const Way *w, float *gradient, float *room, int64_t each)
{
    const NnFilter *f = &w->filter;
    SnlsLayers loops;
    snls_layers(&loops, ctx->cpu_level);
    if (!f->count[0] || !f->count[1]) return;
    (void)each;
#pragma omp parallel for num_threads(ctx->threads) schedule(static) if (ctx->threads > 1)
    for (int64_t i = 0; i < snls_nn_filter_count(f); i++) {
        const NnTile t = snls_nn_filter_tile(f, i);
        float *windows = room + (ctx->threads > 1 ? this_thread() * each : 0), *sums = windows + snls_nn_filter_window_floats(f);
        snls_nn_filter_load(f, &t, windows);
        snls_nn_filter_sum(f, &t, windows, sums);
        put_tile(s, &loops, w, &t, sums, gradient);
    }
}

static void run_ways(SnlsContext *ctx, const NnStep *s, const SnlsTensor *from, bool large, const float *weights, float *gradient, float *room)
{
    const Grids q = grids_of(s);
    const int64_t each = way_floats(&q, from, large);
    for (int64_t i = 0; i < phases(&q, large); i++) {
        Way w = way_of(&q, from, large, i);
        w.filter.weights = weights + (large ? weights_before(&q, i) : 0);
        if (w.filter.quick) {
            float *quick = room + each * ctx->threads;
            snls_nn_filter_quick_weights(&w.filter, w.filter.weights, quick);
            w.filter.weights = quick;
        }
        run_way(ctx, s, &w, gradient, room, each);
    }
}

int64_t snls_nn_blas_conv_room(SnlsContext *ctx, const NnStep *s)
{
    const Grids q = grids_of(s);
    return run_floats(&q, &s->x[0], q.v->transposed, ctx->threads) * (int64_t)sizeof(float);
}

SnlsStatus snls_nn_blas_conv_forward(SnlsContext *ctx, NnStep *s)
{
    const Grids q = grids_of(s);
    const float *weights = NULL;
    const int64_t bytes = snls_nn_blas_conv_room(ctx, s);
    SNLS_TRY(pack(ctx, s, &q, &weights));
    snls_arena_begin(&ctx->arena);
    snls_arena_plan(&ctx->arena, bytes, 1);
    SNLS_TRY(snls_scratch_commit(ctx, "conv"));
    run_ways(ctx, s, &s->x[0], q.v->transposed, weights, NULL, snls_arena_claim(&ctx->arena, bytes, 1));
    return SNLS_OK;
}

/* ---- backward ---- */

enum { PARTS = 8 }; /* of the tiles: each has its own sum of weights' gradients, and they are added in their order, whoever made them */

/* Gradient by what came out of the convolution, before the activation. */
static const float *pull_of(const NnStep *s, float *restrict scratch, int32_t threads)
{
    const float *restrict dy = s->dy[0].data, *restrict y = s->y[0].data;
    const float slope = s->u.conv.act == NN_LEAKY ? (float)s->u.conv.slope : 0;
    const int64_t n = snls_tensor_elements(&s->y[0]);
    (void)threads;
    if (s->u.conv.act == NN_LINEAR) return dy;
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int64_t i = 0; i < n; i++) scratch[i] = dy[i] * (y[i] > 0 ? 1 : slope);
    return scratch;
}

/* The small pixels of a tile, one after the other. */
static void load_small(const Grids *q, const SnlsTensor *small, const NnTile *t, float *to)
{
    const int64_t channels = q->small[3], row = t->columns * channels;
    for (int64_t y = 0; y < t->rows; y++)
        memcpy(to + y * row, (const float *)small->data + ((t->n * q->small[1] + t->y + y) * q->small[2] + t->x) * channels, (size_t)row * sizeof *to);
}

static void weight_part(const Grids *q, const Way *w, const SnlsTensor *small, int part, float *sums, float *windows)
{
    const int64_t count = snls_nn_filter_count(&w->filter);
    float *pixels = windows + snls_nn_filter_window_floats(&w->filter);
    memset(sums, 0, (size_t)weight_count(q) * sizeof *sums);
    for (int64_t i = count * part / PARTS; i < count * (part + 1) / PARTS; i++) {
        const NnTile t = snls_nn_filter_tile(&w->filter, i);
        snls_nn_filter_load(&w->filter, &t, windows);
        load_small(q, small, &t, pixels);
        snls_nn_filter_weights(&w->filter, &t, windows, pixels, sums);
    }
}

static void weight_gradient(SnlsContext *ctx, const NnStep *s, const SnlsTensor *large, const SnlsTensor *small, float *sums, float *room)
{
    const Grids q = grids_of(s);
    const Way w = to_small(&q, large, false);
    const int64_t each = on_lines(tile_floats(&w)), count = weight_count(&q);
    (void)each;
#pragma omp parallel for num_threads(ctx->threads) schedule(static) if (ctx->threads > 1)
    for (int part = 0; part < PARTS; part++) weight_part(&q, &w, small, part, sums + part * count, room + (ctx->threads > 1 ? this_thread() * each : 0));
    for (int part = 1; part < PARTS; part++) add_to(sums, sums + part * count, count);
    add_turned(&q, sums, s->dp[0].data);
}

static void bias_gradient(const SnlsContext *ctx, const NnStep *s, const float *pull, float *sums)
{
    const int64_t channels = s->y[0].shape[3], pixels = snls_tensor_elements(&s->y[0]) / channels;
    memset(sums, 0, (size_t)(PARTS * channels) * sizeof *sums);
    (void)ctx;
#pragma omp parallel for num_threads(ctx->threads) schedule(static) if (ctx->threads > 1)
    for (int part = 0; part < PARTS; part++)
        for (int64_t p = pixels * part / PARTS; p < pixels * (part + 1) / PARTS; p++) add_to(sums + part * channels, pull + p * channels, channels);
    for (int part = 1; part < PARTS; part++) add_to(sums, sums + part * channels, channels);
    add_to(s->dp[1].data, sums, channels);
}

SnlsStatus snls_nn_blas_conv_backward(SnlsContext *ctx, NnStep *s)
{
    SNLS_REQUIRE(ctx, s->y[0].dtype == SNLS_F32, SNLS_ERR_UNSUPPORTED, "network: gradients on backend cpu are in f32, not in %s", snls_dtype_name((SnlsDtype)s->y[0].dtype));
    const Grids q = grids_of(s);
    SnlsTensor pull = s->y[0];
    const bool turned = q.v->transposed;
    const SnlsTensor *large = turned ? &pull : &s->x[0], *small = turned ? &s->x[0] : &pull;
    const Way by_weights = to_small(&q, large, false);
    const int64_t data_floats = run_floats(&q, &pull, !turned, ctx->threads), weight_floats = on_lines(tile_floats(&by_weights)) * ctx->threads;
    const int64_t sizes[4] = { snls_tensor_elements(&pull), weight_count(&q), PARTS * (weight_count(&q) + pull.shape[3]), data_floats > weight_floats ? data_floats : weight_floats };
    float *room[4];
    snls_arena_begin(&ctx->arena);
    for (int i = 0; i < 4; i++) snls_arena_plan(&ctx->arena, sizes[i], sizeof(float));
    SNLS_TRY(snls_scratch_commit(ctx, "conv"));
    for (int i = 0; i < 4; i++) room[i] = snls_arena_claim(&ctx->arena, sizes[i], sizeof(float));
    pull.data = (void *)(uintptr_t)pull_of(s, room[0], ctx->threads);
    if (s->dx[0].data) {
        turn_weights(&q, !turned, s->p[0].data, room[1]);
        run_ways(ctx, s, &pull, !turned, room[1], s->dx[0].data, room[3]);
    }
    if (s->dp[0].data) weight_gradient(ctx, s, large, small, room[2], room[3]);
    if (s->dp[1].data) bias_gradient(ctx, s, pull.data, room[2] + PARTS * weight_count(&q));
    if (s->dx[1].data) add_to(s->dx[1].data, s->dy[0].data, sizes[0]);
    return SNLS_OK;
}

#else
typedef int snls_nn_no_blas; /* a file must hold something */
#endif
