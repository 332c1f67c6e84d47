/* conv_move.cu: weights into the order of a convolution and gradients back, and pixels of more or fewer channels. */
#include "cuda/cuda.h"
#include "nn_cuda/nn_cuda.h"
extern "C" {
#include "nn_cuda/layers.h"
}

enum { THREADS = 256 };

static __device__ __forceinline__ float load(const void *p, int32_t dtype, int64_t at) { return dtype == SNLS_F32 ? ((const float *)p)[at] : __bfloat162float(((const __nv_bfloat16 *)p)[at]); }

static __device__ __forceinline__ void store(void *p, int32_t dtype, int64_t at, float value)
{
    if (dtype == SNLS_F32) ((float *)p)[at] = value;
    else ((__nv_bfloat16 *)p)[at] = __float2bfloat16_rn(value);
}

static __global__ void pack(Packing p, const float *from, void *to)
{
    const int64_t area = p.k * p.k;
    for (SNLS_CUDA_EACH(i, p.rows * area * p.columns)) {
        const int64_t b = i % p.columns, tap = i / p.columns % area, a = i / (p.columns * area);
        store(to, p.dtype, i, a < p.a && b < p.b ? from[(a * p.b + b) * area + tap] : 0.0f);
    }
}

static __global__ void unpack_add(Packing p, const void *from, float *to)
{
    const int64_t area = p.k * p.k;
    for (SNLS_CUDA_EACH(i, p.a * p.b * area)) {
        const int64_t tap = i % area, b = i / area % p.b, a = i / (area * p.b);
        to[i] += load(from, p.dtype, (a * area + tap) * p.columns + b);
    }
}

static __global__ void channels(Channels c, const void *from, void *to)
{
    for (SNLS_CUDA_EACH(i, c.pixels * c.to)) {
        const bool small = i <= UINT32_MAX; /* divisions of 32 bits cost a fifth */
        const int64_t pixel = small ? (uint32_t)i / (uint32_t)c.to : i / c.to, at = i - pixel * c.to;
        const float value = at < c.from ? load(from, c.dtype, pixel * c.from + at) : 0.0f;
        store(to, c.dtype, i, c.add ? load(to, c.dtype, i) + value : value);
    }
}

extern "C" SnlsStatus snls_nn_cuda_pack(SnlsContext *ctx, const Packing *p, const float *from, void *to)
{
    pack<<<snls_cuda_blocks(p->rows * p->k * p->k * p->columns, THREADS, 0), THREADS, 0, snls_cuda_stream(ctx)>>>(*p, from, to);
    SNLS_CUDA_LAUNCHED(ctx, "network");
    return SNLS_OK;
}

extern "C" SnlsStatus snls_nn_cuda_unpack_add(SnlsContext *ctx, const Packing *p, const void *from, float *to)
{
    unpack_add<<<snls_cuda_blocks(p->a * p->b * p->k * p->k, THREADS, 0), THREADS, 0, snls_cuda_stream(ctx)>>>(*p, from, to);
    SNLS_CUDA_LAUNCHED(ctx, "network");
    return SNLS_OK;
}

extern "C" SnlsStatus snls_nn_cuda_channels(SnlsContext *ctx, const Channels *c, const void *from, void *to)
{
    if (c->from == c->to && c->add) return snls_nn_cuda_add_to(ctx, c->dtype, c->pixels * c->to, from, to);
    channels<<<snls_cuda_blocks(c->pixels * c->to, THREADS, 0), THREADS, 0, snls_cuda_stream(ctx)>>>(*c, from, to);
    SNLS_CUDA_LAUNCHED(ctx, "network");
    return SNLS_OK;
}
