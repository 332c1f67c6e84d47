/* few_patch.h: a 3 x 3 patch between pixels, four features a lane: the 4 x 4 pixels it touches are read once and added to once. */
#ifndef SNLS_CUDA_FEW_PATCH_H
#define SNLS_CUDA_FEW_PATCH_H

#include "cuda/few.h"
#include "cuda/fold.h"
#include "cuda/sink.h"

/* Where a lane adds to a frame: number of its head at pixel (0, 0), or of its floats there where they are added in place; from row to row and
 * pixel to pixel. SCRATCH: the deterministic way, through integers (sink.h). */
typedef struct FewTarget {
    const CudaSink *sink;
    int64_t base, down, right;
    int32_t part;
} FewTarget;

template <bool SCRATCH> static __device__ __forceinline__ FewTarget few_target(const CudaSink *s, int32_t b, int64_t frame, int32_t head, int32_t part)
{
    if (SCRATCH) return {s, (b * s->frames + frame - s->first) * s->height * s->width * s->heads + head, s->width * s->heads, s->heads, part};
    return {s, b * s->step[0] + frame * s->step[1] + head * s->features + 4 * part, s->step[2], s->step[3], part};
}

template <bool SCRATCH> static __device__ __forceinline__ void few_put(const FewTarget *t, int64_t at, float4 v)
{
    if (!SCRATCH) {
        snls_cuda_add4(t->sink->data + at, v);
        return;
    }
    const float term[4] = {v.x, v.y, v.z, v.w};
    const CudaSink *s = t->sink;
    const int64_t element = at * s->features + 4 * t->part;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        if (s->mode == SINK_LARGEST) atomicMax(&s->largest[element + i], __float_as_uint(fabsf(term[i])));
        else snls_sink_fixed(s, element + i, s->count[at], term[i]);
    }
    if (s->mode == SINK_LARGEST && t->part == 0) atomicAdd(&s->count[at], 1u);
}

static __device__ __forceinline__ float4 few_either(bool first, float4 a, float4 b)
{
    return make_float4(first ? a.x : b.x, first ? a.y : b.y, first ? a.z : b.z, first ? a.w : b.w);
}

/* Weights of two taps. */
typedef struct FewMix { float low, high; } FewMix;

static __device__ __forceinline__ FewMix few_mix(float folded) { return {snls_fold_low(folded), snls_fold_high(folded)}; }

/* Of a and b, where b counts; it may be anything where it does not. */
static __device__ __forceinline__ float4 few_between(float4 a, float4 b, FewMix m) { return few_either(m.high != 0, few_blend(m.low, a, m.high, b), a); }

/* Row y of four pixels gets its share of two rows of the patch: of `upper`, whose lower row of taps it is, and of `lower`. */
template <bool SCRATCH> static __device__ __forceinline__ void few_flush(const FewTarget *t, int32_t y, const int32_t (&column)[4], FewMix my, FewMix mx, const float4 (&upper)[3],
                                                                        const float4 (&lower)[3], bool has_lower)
{
    const float4 zero = make_float4(0, 0, 0, 0);
    const int64_t at = t->base + y * t->down;
    float4 row[3];
#pragma unroll
    for (int i = 0; i < 3; i++) {
        row[i] = few_either(my.high != 0, few_times(my.high, upper[i]), zero);
        if (has_lower) snls_cuda_axpy(&row[i], my.low, lower[i]);
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float4 sum = i > 0 ? few_either(mx.high != 0, few_times(mx.high, row[i > 0 ? i - 1 : 0]), zero) : zero;
        if (i < 3) snls_cuda_axpy(&sum, mx.low, row[i < 3 ? i : 0]);
        if (i < 3 || mx.high != 0) few_put<SCRATCH>(t, at + column[i] * t->right, sum);
    }
}

#endif
