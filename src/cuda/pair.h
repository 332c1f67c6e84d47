/* pair.h: one pixel of a query's patch against one of a candidate's: where both are, and their features. Forward and backward
 * walk patches with these, so they cannot disagree. */
#ifndef SNLS_CUDA_PAIR_H
#define SNLS_CUDA_PAIR_H

#include "cuda/match.h"

typedef struct CudaAxis {
    int64_t  query; /* inside the frame */
    SnlsTaps key;
    double   slope; /* of the reflection */
} CudaAxis;

/* Pixel number r of a patch along one axis of length n; false: border drop leaves it out. number: of the query on its grid; place:
 * of the candidate. */
static __device__ __forceinline__ bool snls_cuda_axis(const SnlsMatch *m, int64_t number, double place, int64_t r, int64_t n, CudaAxis *axis)
{
    const int64_t by = m->dilation * (r - m->ps / 2), q = number * m->stride0 + by;
    const double u = place + (double)by;
    if (m->drop && (q < 0 || q >= n || !snls_inside(u, n))) return false;
    axis->query = snls_reflect(q, n);
    axis->key = snls_taps(snls_reflect_real(u, n), n);
    axis->slope = snls_reflect_slope(u, n);
    return true;
}

typedef struct CudaPair {
    const float4 *query, *key[2][2]; /* [row][column] of the taps */
    float weight[2][2];              /* a tap of weight 0 is not read */
} CudaPair;

static __device__ __forceinline__ CudaPair snls_cuda_pair(const CudaMatch *c, const SnlsQuery *q, int64_t frame, const CudaAxis *y, const CudaAxis *x)
{
    CudaPair pair;
    pair.query = snls_cuda_pixel(&c->query, q->b, q->head, q->t, y->query, x->query);
    for (int a = 0; a < 2; a++)
        for (int b = 0; b < 2; b++) {
            pair.key[a][b] = snls_cuda_pixel(&c->key, q->b, q->head, frame, y->key.at[a], x->key.at[b]);
            pair.weight[a][b] = (float)(y->key.weight[a] * x->key.weight[b]);
        }
    return pair;
}

static __device__ __forceinline__ void snls_cuda_axpy(float4 *sum, float w, float4 x)
{
    sum->x = fmaf(w, x.x, sum->x);
    sum->y = fmaf(w, x.y, sum->y);
    sum->z = fmaf(w, x.z, sum->z);
    sum->w = fmaf(w, x.w, sum->w);
}

static __device__ __forceinline__ float4 snls_cuda_blend(const CudaPair *pair, int64_t quad)
{
    float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll
    for (int a = 0; a < 2; a++)
#pragma unroll
        for (int b = 0; b < 2; b++)
            if (pair->weight[a][b] != 0) snls_cuda_axpy(&sum, pair->weight[a][b], pair->key[a][b][quad]);
    return sum;
}

static __device__ __forceinline__ float snls_cuda_dot(float4 a, float4 b, float sum)
{
    return fmaf(a.w, b.w, fmaf(a.z, b.z, fmaf(a.y, b.y, fmaf(a.x, b.x, sum))));
}

static __device__ __forceinline__ float4 snls_cuda_minus(float4 a, float4 b) { return make_float4(a.x - b.x, a.y - b.y, a.z - b.z, a.w - b.w); }

static __device__ __forceinline__ float snls_cuda_square(float4 a, float4 b, float sum)
{
    const float4 d = snls_cuda_minus(a, b);
    return snls_cuda_dot(d, d, sum);
}

#endif
