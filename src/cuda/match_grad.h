/* match_grad.h: what the gradients of a search share. */
#ifndef SNLS_CUDA_MATCH_GRAD_H
#define SNLS_CUDA_MATCH_GRAD_H

#include "cuda/match.h"
#include "cuda/pair.h"
#include "cuda/sink.h"

typedef struct CudaGrad {
    CudaMatch c;
    SnlsMatch into;          /* c.m with the gradient of centre in place of centre */
    SnlsTensor dist, offset; /* gradients, in */
    CudaSink query, key;
    bool want_place;
    int64_t first, units;    /* places (b, t, i, j) of the query grid */
} CudaGrad;

/* A kept neighbour, in shared memory. */
typedef struct Kept {
    double  y, x;
    int32_t b, t, i, j;       /* whose it is */
    int32_t valid, window, frame;
    float   g;                /* dL/ddist */
    float   slope_y, slope_x; /* d centre / d flow */
} Kept;

/* dL/d place, this lane's share. */
typedef struct Place { float y, x; } Place;

/* few_grad.cu: where it applies. */
bool       snls_cuda_few_grad_applies(const CudaGrad *p);
SnlsStatus snls_cuda_few_grad(SnlsContext *ctx, const CudaGrad *p);

static __device__ __forceinline__ float4 scaled(float4 v, float by) { return make_float4(v.x * by, v.y * by, v.z * by, v.w * by); }

#endif
