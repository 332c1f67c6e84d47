/* value.cuh: values as the kernels of layers see them: V neighbouring channels at a time, as f32; a block's threads spread over
 * the channels of pixels; sums over pixels in a fixed order. */
#ifndef SNLS_NN_CUDA_VALUE_CUH
#define SNLS_NN_CUDA_VALUE_CUH

#include "cuda/cuda.h"
extern "C" {
#include "nn_cuda/layers.h"
}

enum { NN_THREADS = 256, NN_WIDE = 8 }; /* of a block; channels of 16 bytes of bf16 */

/* ---- V channels: 16-byte loads where V is 8, which needs addresses of 16 bytes; else one ---- */

template <int V> static __device__ __forceinline__ void nn_load(const float *from, float *v)
{
    if constexpr (V == 1) v[0] = from[0];
    else
#pragma unroll
        for (int i = 0; i < V / 4; i++) {
            const float4 q = ((const float4 *)from)[i];
            v[4 * i] = q.x, v[4 * i + 1] = q.y, v[4 * i + 2] = q.z, v[4 * i + 3] = q.w;
        }
}

template <int V> static __device__ __forceinline__ void nn_load(const __nv_bfloat16 *from, float *v)
{
    if constexpr (V == 1) v[0] = __bfloat162float(from[0]);
    else {
        const uint4 q = *(const uint4 *)from;
        const uint32_t pair[4] = {q.x, q.y, q.z, q.w};
#pragma unroll
        for (int i = 0; i < 4; i++) v[2 * i] = __uint_as_float(pair[i] << 16), v[2 * i + 1] = __uint_as_float(pair[i] & 0xffff0000u);
    }
}

template <int V> static __device__ __forceinline__ void nn_store(float *to, const float *v)
{
    if constexpr (V == 1) to[0] = v[0];
    else
#pragma unroll
        for (int i = 0; i < V / 4; i++) ((float4 *)to)[i] = make_float4(v[4 * i], v[4 * i + 1], v[4 * i + 2], v[4 * i + 3]);
}

template <int V> static __device__ __forceinline__ void nn_store(__nv_bfloat16 *to, const float *v)
{
    if constexpr (V == 1) to[0] = __float2bfloat16_rn(v[0]);
    else {
        uint32_t pair[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const __nv_bfloat162 two = __floats2bfloat162_rn(v[2 * i], v[2 * i + 1]);
            memcpy(pair + i, &two, sizeof two);
        }
        *(uint4 *)to = make_uint4(pair[0], pair[1], pair[2], pair[3]);
    }
}

/* V channels as they lie in memory: to have them on the way in few registers. */
template <typename T, int V> struct NnPiece { T at[V]; };
template <> struct NnPiece<float, NN_WIDE> { float4 at[2]; };
template <> struct NnPiece<__nv_bfloat16, NN_WIDE> { uint4 at; };

/* A gradient is added to; one that is still 0 (fresh) need not be read. */
template <int V, typename T> static __device__ __forceinline__ void nn_add_to(T *to, const float *v, bool fresh)
{
    float sum[V] = {};
    if (!fresh) nn_load<V>(to, sum);
#pragma unroll
    for (int i = 0; i < V; i++) sum[i] += v[i];
    nn_store<V>(to, sum);
}

/* The normal distribution up to x, and exp(-x^2 / 2). For bf16 by a short sum (Abramowitz and Stegun 7.1.26: within 1e-7). */
typedef struct NnNormal { float upto, bell; } NnNormal;
template <typename T> static __device__ __forceinline__ NnNormal nn_normal(float x)
{
    NnNormal n;
    if constexpr (sizeof(T) == sizeof(float)) {
        n.upto = 0.5f * (1 + erff(x * 0.70710678f));
        n.bell = expf(-0.5f * x * x);
        return n;
    }
    const float t = __fdividef(1, fmaf(0.3275911f * 0.70710678f, fabsf(x), 1));
    n.bell = __expf(-0.5f * x * x);
    const float beyond = 0.5f * t * n.bell * fmaf(t, fmaf(t, fmaf(t, fmaf(t, 1.061405429f, -1.453152027f), 1.421413741f), -0.284496736f), 0.254829592f);
    n.upto = x > 0 ? 1 - beyond : beyond;
    return n;
}

template <typename T> static __device__ __forceinline__ float nn_gelu(float x) { return x * nn_normal<T>(x).upto; }

/* The sum over `lanes` neighbouring threads of a warp, a power of two, in each of them. All threads of the warp take part. */
static __device__ __forceinline__ float nn_lane_sum(float x, int lanes)
{
    for (int step = 1; step < lanes; step *= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
    return x;
}

/* ---- which kernel: T and V from tensors ---- */

static inline SnlsStatus nn_take(SnlsContext *ctx, const char *op, const SnlsTensor *t)
{
    SNLS_REQUIRE(ctx, !t->data || t->dtype == SNLS_F32 || t->dtype == SNLS_BF16, SNLS_ERR_UNSUPPORTED, "%s: values are %s, backend cuda takes f32 and bf16", op,
                 snls_dtype_name((SnlsDtype)t->dtype));
    return SNLS_OK;
}

/* Whether pieces of 8 can be loaded at once from this base (none: yes). */
static inline bool nn_aligned(const void *p) { return (uintptr_t)p % 16 == 0; }

#define NN_BY_TYPE(type, ...)                                         \
    do {                                                              \
        if ((type) == SNLS_F32) { typedef float T; __VA_ARGS__; }     \
        else { typedef __nv_bfloat16 T; __VA_ARGS__; }                \
    } while (0)

#define NN_BY_TYPE_AND_WIDTH(type, wide, ...)                                    \
    do {                                                                         \
        if (wide) { constexpr int V = NN_WIDE; NN_BY_TYPE(type, __VA_ARGS__); }  \
        else { constexpr int V = 1; NN_BY_TYPE(type, __VA_ARGS__); }             \
    } while (0)

static inline int64_t nn_channels(const SnlsTensor *t) { return t->shape[t->ndim - 1]; }

/* ---- a block as rows of lanes: a thread has the same V channels of every pixel it visits ---- */

typedef struct NnLanes { int32_t groups, lanes, rows, chunks; } NnLanes; /* groups: of V channels; chunks: blocks that share a pixel */

static inline NnLanes nn_lanes(int64_t channels, bool wide)
{
    NnLanes l = {(int32_t)(wide ? channels / NN_WIDE : channels), 0, 0, 0};
    l.lanes = l.groups < NN_THREADS ? l.groups : NN_THREADS;
    l.rows = NN_THREADS / l.lanes;
    l.chunks = (l.groups + l.lanes - 1) / l.lanes;
    return l;
}

/* The sums of a block's threads over its rows, one number for each channel of its lanes, to `to`. shared: a float for each thread
 * and V. All threads take part, in several segments of rows where there are few columns; left: channels there are from `to` on. */
template <int V> static __device__ void nn_sum_rows(const float *own, float *shared, int lanes, int rows, float *to, int left)
{
    const int columns = lanes * V, used = columns < left ? columns : left, thread = (int)threadIdx.x;
    const int segments = columns < (int)blockDim.x ? (int)blockDim.x / columns : 1, segment = thread / columns;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < V; i++) shared[thread * V + i] = own[i];
    __syncthreads();
    for (int c = segments > 1 ? thread % columns : thread; c < columns && segment < segments; c += segments > 1 ? columns : (int)blockDim.x) {
        float sum = 0;
        for (int r = segment; r < rows; r += segments) sum += shared[r * columns + c];
        shared[segment * columns + c] = sum; /* row `segment`: nobody else's */
    }
    __syncthreads();
    for (int c = thread; c < used; c += (int)blockDim.x) {
        float sum = shared[c];
        for (int k = 1; k < segments && k < rows; k++) sum += shared[k * columns + c];
        to[c] = sum;
    }
}

#endif
