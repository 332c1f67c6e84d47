/* video.c: packing videos into f32 with contiguous channels, and adding sums back. */
#include "cpu/video.h"
#include <string.h>

SnlsStatus snls_cpu_take_video(SnlsContext *ctx, const char *op, const char *name, const SnlsTensor *t)
{
    SNLS_REQUIRE(ctx, !t->data || t->dtype != SNLS_F64, SNLS_ERR_UNSUPPORTED, "%s: %s is f64, backend cpu takes f32, f16 or bf16", op, name);
    return SNLS_OK;
}

SnlsStatus snls_cpu_take_numbers(SnlsContext *ctx, const char *op, const char *name, const SnlsTensor *t)
{
    SNLS_REQUIRE(ctx, !t->data || t->dtype == SNLS_F32, SNLS_ERR_UNSUPPORTED, "%s: %s is %s, backend cpu takes f32", op, name,
                 snls_dtype_name((SnlsDtype)t->dtype));
    return SNLS_OK;
}

static bool usable(const SnlsTensor *t)
{
    const int32_t last = t->ndim - 1;
    return t->dtype == SNLS_F32 && (t->stride[last] == 1 || t->shape[last] == 1);
}

static void point_at(CpuVideo *v, const SnlsTensor *t)
{
    v->data = t->data;
    for (int32_t i = 0; i < t->ndim - 1; i++) v->step[i] = t->stride[i];
}

static void point_at_scratch(SnlsContext *ctx, CpuVideo *v, const SnlsTensor *t)
{
    int64_t step = 1;
    v->packed = true;
    v->data = snls_arena_claim(&ctx->arena, snls_tensor_elements(t), sizeof(float));
    for (int32_t i = t->ndim - 2; i >= 0; i--) v->step[i] = step *= t->shape[i + 1];
}

/* A tensor as rows of pixels: all axes but the last two, flattened. at: element number of a row's first pixel. */
static int64_t row_count(const SnlsTensor *t)
{
    int64_t n = 1;
    for (int32_t i = 0; i < t->ndim - 2; i++) n *= t->shape[i];
    return n;
}

static int64_t row_at(const SnlsTensor *t, int64_t row)
{
    int64_t at = 0;
    for (int32_t i = t->ndim - 3; i >= 0; i--) {
        at += row % t->shape[i] * t->stride[i];
        row /= t->shape[i];
    }
    return at;
}

void snls_cpu_video_plan(SnlsContext *ctx, const SnlsTensor *t)
{
    if (t->data && !usable(t)) snls_arena_plan(&ctx->arena, snls_tensor_elements(t), sizeof(float));
}

static void unpack_run(const SnlsDsp *dsp, float *out, const SnlsTensor *t, int64_t at, int64_t n)
{
    switch (t->dtype) {
    case SNLS_F16: dsp->from_f16(out, (const uint16_t *)t->data + at, n); break;
    case SNLS_BF16: dsp->from_bf16(out, (const uint16_t *)t->data + at, n); break;
    default: memcpy(out, (const float *)t->data + at, (size_t)n * sizeof *out);
    }
}

/* One row of pixels. Channels may lie apart (PyTorch's BTCHW): then each is walked along x, so that reads stay in order. */
static void pack_row(const SnlsDsp *dsp, float *out, const SnlsTensor *t, int64_t at)
{
    const int64_t width = t->shape[t->ndim - 2], channels = t->shape[t->ndim - 1];
    const int64_t step_x = t->stride[t->ndim - 2], step_c = t->stride[t->ndim - 1];
    if (step_c == 1 || channels == 1) {
        if (step_x == channels) { unpack_run(dsp, out, t, at, width * channels); return; }
        for (int64_t x = 0; x < width; x++) unpack_run(dsp, out + x * channels, t, at + x * step_x, channels);
        return;
    }
    for (int64_t c = 0; c < channels; c++)
        for (int64_t x = 0; x < width; x++) out[x * channels + c] = (float)snls_load(t, at + x * step_x + c * step_c);
}

void snls_cpu_video_claim(SnlsContext *ctx, CpuVideo *v, const SnlsTensor *t)
{
    *v = (CpuVideo){0};
    if (!t->data) return;
    if (usable(t)) { point_at(v, t); return; }
    point_at_scratch(ctx, v, t);
    const SnlsDsp *dsp = snls_cpu_dsp(ctx);
    const int64_t rows = row_count(t), length = t->shape[t->ndim - 2] * t->shape[t->ndim - 1];
#pragma omp parallel for num_threads(ctx->threads) schedule(static)
    for (int64_t r = 0; r < rows; r++) pack_row(dsp, v->data + r * length, t, row_at(t, r));
}

void snls_cpu_sum_plan(SnlsContext *ctx, const SnlsTensor *t) { snls_cpu_video_plan(ctx, t); }

void snls_cpu_sum_claim(SnlsContext *ctx, CpuVideo *v, const SnlsTensor *t)
{
    *v = (CpuVideo){0};
    if (!t->data) return;
    if (usable(t)) { point_at(v, t); return; }
    point_at_scratch(ctx, v, t);
    if (v->data) memset(v->data, 0, (size_t)snls_tensor_elements(t) * sizeof *v->data);
}

/* Row of sums added to t, or (in NULL) t zeroed. */
static void add_row(const float *in, const SnlsTensor *t, int64_t at)
{
    const int64_t width = t->shape[t->ndim - 2], channels = t->shape[t->ndim - 1];
    for (int64_t x = 0; x < width; x++)
        for (int64_t c = 0; c < channels; c++) {
            const int64_t to = at + x * t->stride[t->ndim - 2] + c * t->stride[t->ndim - 1];
            snls_store(t, to, in ? snls_load(t, to) + in[x * channels + c] : 0);
        }
}

void snls_cpu_sum_finish(SnlsContext *ctx, const CpuVideo *v, const SnlsTensor *t)
{
    if (!t->data || !v->packed) return;
    const int64_t rows = row_count(t), length = t->shape[t->ndim - 2] * t->shape[t->ndim - 1];
#pragma omp parallel for num_threads(ctx->threads) schedule(static)
    for (int64_t r = 0; r < rows; r++) add_row(v->data + r * length, t, row_at(t, r));
}

void snls_cpu_clear(SnlsContext *ctx, const SnlsTensor *t)
{
    if (!t->data) return;
    const int64_t rows = row_count(t);
#pragma omp parallel for num_threads(ctx->threads) schedule(static)
    for (int64_t r = 0; r < rows; r++) add_row(NULL, t, row_at(t, r));
}
