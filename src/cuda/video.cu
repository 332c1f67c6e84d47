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

typedef struct PackJob {
    SnlsTensor t;
    float4 *to;
    int64_t step[4], head, heads, quads, features, n; /* n: quads of the copy */
    bool whole;                                       /* four channels are one aligned read */
} PackJob;

static __device__ __forceinline__ float4 pack_quad(const PackJob *s, int64_t at, int64_t f)
{
    if (s->whole && s->t.dtype == SNLS_BF16) {
        const uint2 u = *(const uint2 *)((const uint16_t *)s->t.data + at);
        return make_float4(__uint_as_float(u.x << 16), __uint_as_float(u.x & 0xffff0000u), __uint_as_float(u.y << 16), __uint_as_float(u.y & 0xffff0000u));
    }
    float v[4];
#pragma unroll
    for (int i = 0; i < 4; i++) v[i] = f + i < s->features ? snls_cuda_load(&s->t, at + i * s->t.stride[4]) : 0.0f;
    return make_float4(v[0], v[1], v[2], v[3]);
}

/* One thread a quad, in the order of the source: (pixel, head, quad). Index: 32 bits where they are enough. */
template <typename Index> static __global__ void pack(const __grid_constant__ PackJob s)
{
    for (SNLS_CUDA_EACH(i, s.n)) {
        const Index at = (Index)i, quads = (Index)s.quads, heads = (Index)s.heads, width = (Index)s.t.shape[3], height = (Index)s.t.shape[2], frames = (Index)s.t.shape[1];
        const Index pair = at / quads, quad = at - pair * quads, pixel = pair / heads, head = pair - pixel * heads;
        const Index line = pixel / width, x = pixel - line * width, plane = line / height, y = line - plane * height, b = plane / frames, t = plane - b * frames;
        const int64_t f = 4 * (int64_t)quad, from = snls_at5(&s.t, b, t, y, x, (int64_t)head * s.features + f);
        s.to[(int64_t)b * s.step[0] + (int64_t)t * s.step[1] + (int64_t)y * s.step[2] + (int64_t)x * s.step[3] + (int64_t)head * s.head + quad] = pack_quad(&s, from, f);
    }
}

static void pack_steps(CudaVideo *v, const SnlsTensor *t, int64_t heads, bool apart)
{
    v->step[3] = apart ? v->quads : heads * v->quads;
    for (int i = 2; i >= 0; i--) v->step[i] = v->step[i + 1] * t->shape[i + 1];
    v->head = apart ? v->step[0] : v->quads;
    if (apart) v->step[0] *= heads;
}

static bool in_quads(const SnlsTensor *t, int64_t features)
{
    bool whole = t->stride[4] == 1 && features % 4 == 0 && (uintptr_t)t->data % (4 * (size_t)snls_dtype_size((SnlsDtype)t->dtype)) == 0;
    for (int i = 0; i < 4; i++) whole = whole && (t->shape[i] == 1 || t->stride[i] % 4 == 0);
    return whole;
}

SnlsStatus snls_cuda_video_claim(SnlsContext *ctx, const char *op, CudaVideo *v, const SnlsTensor *t, int64_t heads, bool apart)
{
    const int64_t features = t->shape[4] / heads;
    v->quads = v->head = snls_cuda_quads(features);
    if (is_plain(t, heads)) {
        v->data = (const float4 *)t->data;
        for (int i = 0; i < 4; i++) v->step[i] = t->shape[i] == 1 ? 0 : t->stride[i] / 4;
        return SNLS_OK;
    }
    PackJob job = {.t = *t, .heads = heads, .quads = v->quads, .features = features, .n = pixels_of(t) * heads * v->quads, .whole = in_quads(t, features)};
    job.to = (float4 *)snls_arena_claim(&ctx->arena, 4 * job.n, sizeof(float));
    pack_steps(v, t, heads, apart);
    v->data = job.to;
    for (int i = 0; i < 4; i++) job.step[i] = v->step[i];
    job.head = v->head;
    const unsigned blocks = snls_cuda_blocks(job.n, 256, 64 * (int64_t)snls_cuda(ctx)->multiprocessors);
    if (job.n <= INT32_MAX) pack<uint32_t><<<blocks, 256, 0, snls_cuda_stream(ctx)>>>(job);
    else pack<uint64_t><<<blocks, 256, 0, snls_cuda_stream(ctx)>>>(job);
    return snls_cuda_check(ctx, op, cudaGetLastError());
}
