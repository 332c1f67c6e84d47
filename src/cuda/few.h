/* few.h: where a head has few features: a lane has four features of one query and everything about them in registers, a query as many lanes
 * side by side as its head has quads; heads of a pixel, then pixels of a row follow each other, so that lanes read what lies together.
 *   few.cu         search by 3 x 3 patches in small windows
 *   few_pixel.cu   search by squared differences of single pixels; with many features lanes go through them
 *   few_long.cu    the same for long lists: scores in shared memory, the best chosen from them at the end
 *   few_grad.cu    gradients of searches by 3 x 3 patches
 *   few_gather.cu  gradients of gather_add by 3 x 3 patches */
#ifndef SNLS_CUDA_FEW_H
#define SNLS_CUDA_FEW_H

#include "cuda/match.h"
#include "cuda/pair.h"

enum { FEW_WARPS = 4, FEW_QUADS = 4 };

/* What a lane works on: quad `part` of a query's features. there: the query exists; else it stands for another. apart: queries of a row are
 * numbered head by head, else pixel by pixel. */
typedef struct FewLane { int32_t b, head, t, i, j, part; bool there, apart; } FewLane;

static __device__ __forceinline__ SnlsQuery few_query(const FewLane *q) { return {q->b, q->head, q->t, q->i, q->j}; }

/* Pixel number r (0 to 2) of its patch along y and x, inside the frame or not. */
static __device__ __forceinline__ int32_t few_y(const FewLane *q, int64_t stride0, int r) { return q->i * (int32_t)stride0 + r - 1; }
static __device__ __forceinline__ int32_t few_x(const FewLane *q, int64_t stride0, int r) { return q->j * (int32_t)stride0 + r - 1; }

/* The sum of x over the lanes of a query. */
static __device__ __forceinline__ float few_sum(float x, int parts)
{
    for (int step = parts / 2; step > 0; step /= 2) x += __shfl_xor_sync(SNLS_WARP, x, step);
    return x;
}

/* Mirrored, of a pixel at most one beyond the frame; of those further away some pixel of the frame, whose value is not used. */
static __device__ __forceinline__ int32_t few_near(int32_t i, int32_t n)
{
    const int32_t a = abs(i);
    return max(min(a, 2 * (n - 1) - a), 0);
}

static __device__ __forceinline__ float4 few_times(float w, float4 a) { return make_float4(w * a.x, w * a.y, w * a.z, w * a.w); }

static __device__ __forceinline__ float4 few_blend(float wa, float4 a, float wb, float4 b)
{
    float4 sum = few_times(wa, a);
    snls_cuda_axpy(&sum, wb, b);
    return sum;
}

/* Quads of features of a key frame are numbered in 32 bits, where the video lies or packed (video.h). */
static inline bool few_is_small(const SnlsMatch *m)
{
    const SnlsTensor *t = &m->key;
    return t->stride[2] >= 0 && t->stride[3] >= 0 && (m->height * t->stride[2] + m->width * t->stride[3]) / 4 + m->features <= INT32_MAX &&
           m->height * m->width * m->heads * snls_cuda_quads(m->features) <= INT32_MAX;
}

/* Before or after the claims of the videos. */
bool       snls_cuda_few_applies(const CudaMatch *c);
SnlsStatus snls_cuda_few_forward(SnlsContext *ctx, const CudaMatch *c);
bool       snls_cuda_few_long_applies(const SnlsContext *ctx, const CudaMatch *c);
SnlsStatus snls_cuda_few_long_forward(SnlsContext *ctx, const CudaMatch *c);
bool       snls_cuda_few_pixel_applies(const CudaMatch *c);
SnlsStatus snls_cuda_few_pixel_forward(SnlsContext *ctx, const CudaMatch *c);

#endif
