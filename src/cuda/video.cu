/* video.cu: packing of videos that the kernels cannot read in place. */
#include "cuda/video.h"

static bool is_plain(const SnlsTensor *t, int64_t heads)
{
    bool plain = t->dtype == SNLS_F32 && t->stride[4] == 1 && t->shape[4] / heads % 4 == 0 && (uintptr_t)t->data % 16 == 0;
    for (int i = 0; i < 4; i++) plain = plain && (t->shape[i] == 1 || t->stride[i] % 4 == 0);
    return plain;
}

static int64_t pixels_of(const SnlsTensor *t) { return t->shape[0] * t->shape[1] * t->shape[2] * t->shape[3]; }

void snls_cuda_video_plan(SnlsContext *ctx, const SnlsTensor *t, int64_t heads)
{
    int64_t floats;
    if (is_plain(t, heads)) return;
    if (!snls_mul_size(pixels_of(t), 4 * heads * snls_cuda_quads(t->shape[4] / heads), &floats)) ctx->arena.overflow = true;
    else snls_arena_plan(&ctx->arena, floats, sizeof(float));
}

/* One thread a float of the copy: (pixel, head, feature). */
static __global__ void pack(const __grid_constant__ SnlsTensor t, float *to, int64_t features, int64_t padded, int64_t heads, int64_t n)
{
    for (SNLS_CUDA_EACH(i, n)) {
        const int64_t f = i % padded, head = i / padded % heads, pixel = i / (padded * heads);
        const int64_t x = pixel % t.shape[3], line = pixel / t.shape[3], y = line % t.shape[2], frame = line / t.shape[2];
        const int64_t at = snls_at5(&t, frame / t.shape[1], frame % t.shape[1], y, x, head * features + f);
        to[i] = f < features ? snls_cuda_load(&t, at) : 0.0f;
    }
}

SnlsStatus snls_cuda_video_claim(SnlsContext *ctx, const char *op, CudaVideo *v, const SnlsTensor *t, int64_t heads)
{
    v->quads = snls_cuda_quads(t->shape[4] / heads);
    if (is_plain(t, heads)) {
        v->data = (const float4 *)t->data;
        for (int i = 0; i < 4; i++) v->step[i] = t->shape[i] == 1 ? 0 : t->stride[i] / 4;
        return SNLS_OK;
    }
    const int64_t n = pixels_of(t) * heads * v->quads * 4;
    float *to = (float *)snls_arena_claim(&ctx->arena, n, sizeof(float));
    v->data = (const float4 *)to;
    v->step[3] = heads * v->quads;
    for (int i = 2; i >= 0; i--) v->step[i] = v->step[i + 1] * t->shape[i + 1];
    pack<<<snls_cuda_blocks(n, 256, 64 * (int64_t)snls_cuda(ctx)->multiprocessors), 256, 0, snls_cuda_stream(ctx)>>>(*t, to, t->shape[4] / heads,
                                                                                                              4 * v->quads, heads, n);
    return snls_cuda_check(ctx, op, cudaGetLastError());
}
