/* taps.h: the arrays of a blend and its adjoint, in plain C; every instruction set has its own loops over them. */
#ifndef SNLS_SIMD_TAPS_H
#define SNLS_SIMD_TAPS_H

#include "simd/inline.h"
#include <math.h>
#include <stddef.h>

/* Read once, so that a store to the output cannot make the compiler read the addresses again; no arrays,
 * which it would copy by registers wider than what the caller has just written. taps is always a constant. */

typedef struct Taps {
    const float *p0, *p1, *p2, *p3;
    float w0, w1, w2, w3;
} Taps;

ALWAYS Taps taps_read(const float *const *tap, const float *w, int taps)
{
    Taps t;
    t.p0 = tap[0], t.w0 = w[0];
    t.p1 = t.p0, t.w1 = 0;
    if (taps > 1) t.p1 = tap[1], t.w1 = w[1];
    t.p2 = t.p3 = t.p0, t.w2 = t.w3 = 0;
    if (taps > 2) t.p2 = tap[2], t.w2 = w[2], t.p3 = tap[3], t.w3 = w[3];
    return t;
}

ALWAYS float taps_at(const Taps *t, int taps, ptrdiff_t i)
{
    float v = t->w0 * t->p0[i];
    if (taps > 1) v = fmaf(t->w1, t->p1[i], v);
    if (taps > 2) v = fmaf(t->w3, t->p3[i], fmaf(t->w2, t->p2[i], v));
    return v;
}

/* Arrays to add to, as Taps are to read from. Each store comes before the next array's load: they may overlap. */
typedef struct Heaps {
    float *p0, *p1, *p2, *p3;
    float w0, w1, w2, w3;
} Heaps;

ALWAYS Heaps heaps_read(float *const *y, const float *w, int taps)
{
    Heaps h;
    h.p0 = y[0], h.w0 = w[0];
    h.p1 = h.p0, h.w1 = 0;
    if (taps > 1) h.p1 = y[1], h.w1 = w[1];
    h.p2 = h.p3 = h.p0, h.w2 = h.w3 = 0;
    if (taps > 2) h.p2 = y[2], h.w2 = w[2], h.p3 = y[3], h.w3 = w[3];
    return h;
}

#endif
