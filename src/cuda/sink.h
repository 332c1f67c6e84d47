/* sink.h: where gradients of a video go when several queries add to one pixel. Three ways:
 *   add      f32 atomics, where the caller's tensor lies or in scratch. The order of the terms, and so the last bits, change
 *            from run to run.
 *   largest, then fixed   the deterministic way: a first pass finds for each element the largest |term| and for each pixel the
 *            number of terms; the second adds terms as integers of 64 bits, scaled so that their sum cannot overflow. Integers
 *            may be added in any order. Of a term at most 2^-60 of the largest sum is lost, far below f32's own rounding.
 * Scratch holds a chunk of frames at a time, so its size does not grow with the clip. */
#ifndef SNLS_CUDA_SINK_H
#define SNLS_CUDA_SINK_H

#include "cuda/cuda.h"

enum { SINK_NONE, SINK_OWNED, SINK_ADD, SINK_LARGEST, SINK_FIXED }; /* owned: one warp alone adds to a pixel */

typedef struct CudaSink {
    int      mode;
    bool     quads;               /* four channels are one aligned access */
    float   *data;                /* owned, add */
    int64_t  step[5];             /* floats along b, t, y, x, c */
    int64_t  first, end;          /* frames b*T + t that are in it */
    int64_t  frames, height, width, heads, features;
    uint32_t *largest, *count;    /* (frame, y, x, c): bits of |term|; (frame, y, x, head): terms */
    unsigned long long *fixed;    /* (frame, y, x, c) */
} CudaSink;

/* Power of two that a term is multiplied by: n terms of at most `largest` stay below 2^61. sign -1: its inverse. */
static __device__ __forceinline__ double snls_sink_scale(uint32_t largest, uint32_t n, int sign)
{
    int exponent;
    (void)frexpf(__uint_as_float(largest), &exponent);
    const int shift = 61 - exponent - (n > 1 ? 32 - __clz((int)(n - 1)) : 0); /* -99 to 209: a normal double */
    return __hiloint2double((1023 + sign * shift) << 20, 0);
}

#define SINK_NAN 4u
#define SINK_NOT_FINITE 0x7f800000u

/* Terms that are not finite make the sum so, whatever the order: bits say which there were. */
static __device__ __forceinline__ void snls_sink_fixed(const CudaSink *s, int64_t element, uint32_t n, float term)
{
    const uint32_t largest = s->largest[element];
    if (largest >= SINK_NOT_FINITE) {
        if (!isfinite(term)) atomicOr(&s->fixed[element], isnan(term) ? SINK_NAN : term > 0 ? 1u : 2u);
    } else if (largest) {
        atomicAdd(&s->fixed[element], (unsigned long long)llrint((double)term * snls_sink_scale(largest, n, 1)));
    }
}

static __device__ __forceinline__ double snls_sink_value(const CudaSink *s, int64_t element, uint32_t n)
{
    const uint32_t largest = s->largest[element];
    const unsigned long long sum = s->fixed[element];
    if (largest >= SINK_NOT_FINITE) return sum == 1 ? INFINITY : sum == 2 ? -INFINITY : NAN;
    return largest ? (double)(long long)sum * snls_sink_scale(largest, n, -1) : 0;
}

static __device__ __forceinline__ void snls_sink_scratch(const CudaSink *s, int64_t frame, int64_t y, int64_t x, int64_t head, int64_t f, const float *term, int n)
{
    const int64_t owner = (((frame - s->first) * s->height + y) * s->width + x) * s->heads + head;
    for (int i = 0; i < n; i++) {
        const int64_t element = owner * s->features + f + i;
        if (s->mode == SINK_LARGEST) atomicMax(&s->largest[element], __float_as_uint(fabsf(term[i])));
        else snls_sink_fixed(s, element, s->count[owner], term[i]);
    }
    if (s->mode == SINK_LARGEST && f == 0) atomicAdd(&s->count[owner], 1u);
}

/* Features f .. f+n-1 (n 1 to 4) of a head of a pixel. */
static __device__ __forceinline__ void snls_sink_add(const CudaSink *s, int64_t b, int64_t t, int64_t y, int64_t x, int64_t head, int64_t f, float4 v, int n)
{
    const float term[4] = {v.x, v.y, v.z, v.w};
    if (s->mode >= SINK_LARGEST) {
        snls_sink_scratch(s, b * s->frames + t, y, x, head, f, term, n);
        return;
    }
    float *to = s->data + b * s->step[0] + t * s->step[1] + y * s->step[2] + x * s->step[3] + (head * s->features + f) * s->step[4];
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    if (s->quads && s->mode == SINK_ADD) {
        atomicAdd((float4 *)to, v);
        return;
    }
#endif
#pragma unroll
    for (int i = 0; i < 4; i++) {
        if (i >= n) break;
        if (s->mode == SINK_ADD) atomicAdd(to + i * s->step[4], term[i]);
        else to[i * s->step[4]] += term[i];
    }
}

/* One feature. */
static __device__ __forceinline__ void snls_sink_add_one(const CudaSink *s, int64_t b, int64_t t, int64_t y, int64_t x, int64_t head, int64_t f, float term)
{
    if (s->mode >= SINK_LARGEST) {
        snls_sink_scratch(s, b * s->frames + t, y, x, head, f, &term, 1);
        return;
    }
    float *to = s->data + b * s->step[0] + t * s->step[1] + y * s->step[2] + x * s->step[3] + (head * s->features + f) * s->step[4];
    if (s->mode == SINK_ADD) atomicAdd(to, term);
    else *to += term;
}

#endif
