/* neon_map.h: loops that work element by element, and blends, in 128-bit registers. What is left after the last full register
 * goes one by one; OPAQUE, lest compilers make vectors of those few once more. An array may be its own output. */
#ifndef SNLS_NEON_MAP_H
#define SNLS_NEON_MAP_H

#include "simd/neon.h"
#include "simd/taps.h"

/* ---- blends ---- */

ALWAYS float32x4_t neon_taps(const Taps *t, const int taps, ptrdiff_t i)
{
    float32x4_t v = vmulq_n_f32(vld1q_f32(t->p0 + i), t->w0);
    if (taps > 1) v = vfmaq_n_f32(v, vld1q_f32(t->p1 + i), t->w1);
    if (taps > 2) v = vfmaq_n_f32(vfmaq_n_f32(v, vld1q_f32(t->p2 + i), t->w2), vld1q_f32(t->p3 + i), t->w3);
    return v;
}

ALWAYS float32x4_t neon_taps_part(const Taps *t, const int taps, ptrdiff_t i, ptrdiff_t r)
{
    float32x4_t v = vmulq_n_f32(neon_load_part(t->p0 + i, r), t->w0);
    if (taps > 1) v = vfmaq_n_f32(v, neon_load_part(t->p1 + i, r), t->w1);
    if (taps > 2) v = vfmaq_n_f32(vfmaq_n_f32(v, neon_load_part(t->p2 + i, r), t->w2), neon_load_part(t->p3 + i, r), t->w3);
    return neon_keep(v, r); /* an infinite weight times nothing */
}

ALWAYS void neon_blend(float *out, const Taps *t, const int taps, ptrdiff_t n)
{
    ptrdiff_t i = 0;
    for (; i + 4 <= n; i += 4) vst1q_f32(out + i, neon_taps(t, taps, i));
    for (; i < n; i++) { OPAQUE(i); out[i] = taps_at(t, taps, i); }
}

ALWAYS float neon_blend_sum(const float *q, const Taps *t, const int taps, ptrdiff_t n, const int kind)
{
    float32x4_t s0 = vdupq_n_f32(0), s1 = s0;
    ptrdiff_t i = 0;
    for (; i + 8 <= n; i += 8) {
        s0 = neon_term(s0, vld1q_f32(q + i), neon_taps(t, taps, i), kind);
        s1 = neon_term(s1, vld1q_f32(q + i + 4), neon_taps(t, taps, i + 4), kind);
    }
    if (i < n) s0 = neon_term(s0, neon_load_part(q + i, n - i), neon_taps_part(t, taps, i, n - i), kind);
    if (i + 4 < n) s1 = neon_term(s1, neon_load_part(q + i + 4, n - i - 4), neon_taps_part(t, taps, i + 4, n - i - 4), kind);
    return neon_sum(vaddq_f32(s0, s1));
}

ALWAYS void neon_blend_sub(float *out, const float *q, const Taps *t, const int taps, ptrdiff_t n)
{
    ptrdiff_t i = 0;
    for (; i + 4 <= n; i += 4) vst1q_f32(out + i, vsubq_f32(neon_taps(t, taps, i), vld1q_f32(q + i)));
    for (; i < n; i++) { OPAQUE(i); out[i] = taps_at(t, taps, i) - q[i]; }
}

ALWAYS void neon_unblend(const Heaps *h, const int taps, const float *x, ptrdiff_t n)
{
    ptrdiff_t i = 0;
#define HEAP(k) vst1q_f32(h->p##k + i, vfmaq_n_f32(vld1q_f32(h->p##k + i), v, h->w##k))
    for (; i + 4 <= n; i += 4) {
        const float32x4_t v = vld1q_f32(x + i);
        HEAP(0);
        if (taps > 1) HEAP(1);
        if (taps > 2) { HEAP(2); HEAP(3); }
    }
#undef HEAP
#define HEAP(k) h->p##k[i] = fmaf(h->w##k, x[i], h->p##k[i])
    for (; i < n; i++) {
        OPAQUE(i);
        HEAP(0);
        if (taps > 1) HEAP(1);
        if (taps > 2) { HEAP(2); HEAP(3); }
    }
#undef HEAP
}

/* ---- maps ---- */

ALWAYS void neon_axpy(float *y, float a, const float *x, ptrdiff_t n)
{
    ptrdiff_t i = 0;
    for (; i + 4 <= n; i += 4) vst1q_f32(y + i, vfmaq_n_f32(vld1q_f32(y + i), vld1q_f32(x + i), a));
    for (; i < n; i++) { OPAQUE(i); y[i] = fmaf(a, x[i], y[i]); }
}

ALWAYS void neon_scale(float *y, float a, ptrdiff_t n)
{
    ptrdiff_t i = 0;
    for (; i + 4 <= n; i += 4) vst1q_f32(y + i, vmulq_n_f32(vld1q_f32(y + i), a));
    for (; i < n; i++) { OPAQUE(i); y[i] *= a; }
}

ALWAYS void neon_sub(float *out, const float *a, const float *b, ptrdiff_t n)
{
    ptrdiff_t i = 0;
    for (; i + 4 <= n; i += 4) vst1q_f32(out + i, vsubq_f32(vld1q_f32(a + i), vld1q_f32(b + i)));
    for (; i < n; i++) { OPAQUE(i); out[i] = a[i] - b[i]; }
}

/* ---- storage types ---- */

ALWAYS float32x4_t neon_widen_f16(uint16x4_t h) { return vcvt_f32_f16(vreinterpret_f16_u16(h)); }
ALWAYS uint16x4_t neon_round_f16(float32x4_t x) { return vreinterpret_u16_f16(vcvt_f16_f32(x)); }
ALWAYS float32x4_t neon_widen_bf16(uint16x4_t h) { return vreinterpretq_f32_u32(vshll_n_u16(h, 16)); }

ALWAYS uint16x4_t neon_round_bf16(float32x4_t x)
{
    const uint32x4_t u = vreinterpretq_u32_f32(x), odd = vandq_u32(vshrq_n_u32(u, 16), vdupq_n_u32(1));
    const uint16x4_t rounded = vaddhn_u32(u, vaddq_u32(odd, vdupq_n_u32(0x7fff)));
    const uint16x4_t quiet = vorr_u16(vshrn_n_u32(u, 16), vdup_n_u16(0x40));
    return vbsl_u16(vmovn_u32(vceqq_f32(x, x)), rounded, quiet);
}

#define FROM_HALF(name)                                                                                                        \
    ALWAYS void neon_from_##name(float *out, const uint16_t *in, ptrdiff_t n)                                                  \
    {                                                                                                                          \
        ptrdiff_t i = 0;                                                                                                       \
        for (; i + 4 <= n; i += 4) vst1q_f32(out + i, neon_widen_##name(vld1_u16(in + i)));                                    \
        for (; i < n; i++) { OPAQUE(i); out[i] = vgetq_lane_f32(neon_widen_##name(vdup_n_u16(in[i])), 0); }                    \
    }
#define TO_HALF(name)                                                                                                          \
    ALWAYS void neon_to_##name(uint16_t *out, const float *in, ptrdiff_t n)                                                    \
    {                                                                                                                          \
        ptrdiff_t i = 0;                                                                                                       \
        for (; i + 4 <= n; i += 4) vst1_u16(out + i, neon_round_##name(vld1q_f32(in + i)));                                    \
        for (; i < n; i++) { OPAQUE(i); out[i] = vget_lane_u16(neon_round_##name(vdupq_n_f32(in[i])), 0); }                    \
    }
FROM_HALF(f16)
FROM_HALF(bf16)
TO_HALF(f16)
TO_HALF(bf16)
#undef FROM_HALF
#undef TO_HALF

#endif
