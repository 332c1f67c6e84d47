/* neon.h: sums in 128-bit registers of AArch64, for dsp_neon.c. Only static inline.
 *
 * Every sum, single or in a row, is built the same way: element i in lane i % 8 of two registers, these added, then lanes at
 * distance 1 and 2. So a number never depends on the row it was computed in. There are no masked loads: what is left of an
 * array is read in pieces, and what is behind it never. */
#ifndef SNLS_NEON_H
#define SNLS_NEON_H

#include "simd/inline.h"
#include "simd/unroll.h"
#include <arm_neon.h>
#include <stddef.h>
#include <stdint.h>

#define V_REGISTER "+w"
#define v_store4(p, x) vst1q_f32(p, x)
#define EACH UNROLLED(8)

/* The first r of four lanes, the others 0; r is 1 or more. */
ALWAYS float32x4_t neon_load_part(const float *p, ptrdiff_t r)
{
    if (r >= 4) return vld1q_f32(p);
    if (r == 1) return vsetq_lane_f32(*p, vdupq_n_f32(0), 0);
    const float32x4_t two = vcombine_f32(vld1_f32(p), vdup_n_f32(0));
    return r == 2 ? two : vld1q_lane_f32(p + 2, two, 2);
}

ALWAYS void neon_store_part(float *p, ptrdiff_t r, float32x4_t x)
{
    if (r >= 4) {
        vst1q_f32(p, x);
        return;
    }
    if (r == 1) vst1q_lane_f32(p, x, 0);
    else vst1_f32(p, vget_low_f32(x));
    if (r == 3) vst1q_lane_f32(p + 2, x, 2);
}

/* x where its lane is one of the first r, else 0 */
ALWAYS float32x4_t neon_keep(float32x4_t x, ptrdiff_t r)
{
    static const int32_t lane[4] = { 0, 1, 2, 3 };
    const uint32x4_t kept = vcltq_s32(vld1q_s32(lane), vdupq_n_s32((int32_t)r));
    return vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(x), kept));
}

ALWAYS float32x4_t neon_term(float32x4_t sum, float32x4_t q, float32x4_t k, const int kind)
{
    if (kind == DOT) return vfmaq_f32(sum, q, k);
    const float32x4_t d = vsubq_f32(q, k);
    return vfmaq_f32(sum, d, d);
}

/* ---- from the lanes of registers to one number a key ---- */

ALWAYS float neon_sum(float32x4_t v) { return vpadds_f32(vget_low_f32(vpaddq_f32(v, v))); }

ALWAYS float32x4_t neon_sum4(float32x4_t a, float32x4_t b, float32x4_t c, float32x4_t d)
{
    return vpaddq_f32(vpaddq_f32(a, b), vpaddq_f32(c, d));
}

/* The sums of four keys, two registers each. */
ALWAYS float32x4_t neon_sum_pairs(const float32x4_t s[8])
{
    return neon_sum4(vaddq_f32(s[0], s[1]), vaddq_f32(s[2], s[3]), vaddq_f32(s[4], s[5]), vaddq_f32(s[6], s[7]));
}

ALWAYS void neon_add4(float *out, float32x4_t sums) { vst1q_f32(out, vaddq_f32(vld1q_f32(out), sums)); }

ALWAYS void neon_add_some(float *out, float32x4_t sums, int from, int to) /* lanes from .. to-1 */
{
    float s[4];
    vst1q_f32(s, sums);
    for (int j = from; j < to; j++) out[j] += s[j];
}

/* ---- one query, several keys ---- */

/* Adds to s[2*j], s[2*j + 1] the terms of key j. */
ALWAYS void neon_terms(float32x4_t *s, const float *q, const float *key, ptrdiff_t step, ptrdiff_t n, const int keys, const int kind)
{
    for (; n >= 8; n -= 8, q += 8, key += 8) {
        const float32x4_t x = vld1q_f32(q), y = vld1q_f32(q + 4);
        EACH for (int j = 0; j < keys; j++) {
            s[2 * j] = neon_term(s[2 * j], x, vld1q_f32(key + j * step), kind);
            s[2 * j + 1] = neon_term(s[2 * j + 1], y, vld1q_f32(key + j * step + 4), kind);
        }
    }
    if (n <= 0) return;
    const float32x4_t x = neon_load_part(q, n);
    EACH for (int j = 0; j < keys; j++) s[2 * j] = neon_term(s[2 * j], x, neon_load_part(key + j * step, n), kind);
    if (n <= 4) return;
    const float32x4_t y = neon_load_part(q + 4, n - 4);
    EACH for (int j = 0; j < keys; j++) s[2 * j + 1] = neon_term(s[2 * j + 1], y, neon_load_part(key + j * step + 4, n - 4), kind);
}

ALWAYS float neon_one(const float *q, const float *key, ptrdiff_t n, const int kind)
{
    float32x4_t s[2] = { vdupq_n_f32(0), vdupq_n_f32(0) };
    neon_terms(s, q, key, 0, n, 1, kind);
    return neon_sum(vaddq_f32(s[0], s[1]));
}

ALWAYS float32x4_t neon_group4(const float *q, const float *key, ptrdiff_t step, ptrdiff_t n, const int kind)
{
    float32x4_t s[8];
    EACH for (int i = 0; i < 8; i++) s[i] = vdupq_n_f32(0);
    neon_terms(s, q, key, step, n, 4, kind);
    return neon_sum_pairs(s);
}

ALWAYS void neon_row(float *out, const float *q, const float *key, ptrdiff_t step, ptrdiff_t m, ptrdiff_t n, const int kind)
{
    const float *const first = key;
    for (; m >= 4; m -= 4, out += 4, key += 4 * step) neon_add4(out, neon_group4(q, key, step, n, kind));
    if (m > 1 && key != first) /* the last four keys once more, of which m are new */
        neon_add_some(out + m - 4, neon_group4(q, key + (m - 4) * step, step, n, kind), 4 - (int)m, 4);
    else
        for (; m > 0; m--, out++, key += step) *out += neon_one(q, key, n, kind);
}

/* The same for 0 < n <= 4: the query stays in one register. The other one of each sum would be zeros, of which one is enough to
 * give a zero its sign. */
ALWAYS void neon_row_short(float *out, const float *q, const float *key, ptrdiff_t step, ptrdiff_t m, ptrdiff_t n, const int kind)
{
    const float32x4_t x = neon_load_part(q, n), zero = vdupq_n_f32(0);
#define TERM(j) neon_term(zero, x, neon_load_part(key + (j) * step, n), kind)
    for (; m >= 4; m -= 4, out += 4, key += 4 * step) neon_add4(out, vaddq_f32(neon_sum4(TERM(0), TERM(1), TERM(2), TERM(3)), zero));
    for (; m > 0; m--, out++, key += step) *out += neon_sum(vaddq_f32(TERM(0), zero));
#undef TERM
}

/* n <= 3, keys without gaps (pixels): lanes run over four keys, in the same order of summation, which
 * ends with zeros. */
ALWAYS void neon_row_pixels(float *out, const float *q, const float *key, ptrdiff_t m, const int n, const int kind)
{
    const float32x4_t zero = vdupq_n_f32(0);
    for (; m >= 4; m -= 4, out += 4, key += 4 * n) {
        float32x4_t k[3];
        if (n == 1) k[0] = vld1q_f32(key);
        if (n == 2) { const float32x4x2_t v = vld2q_f32(key); k[0] = v.val[0], k[1] = v.val[1]; }
        if (n == 3) { const float32x4x3_t v = vld3q_f32(key); k[0] = v.val[0], k[1] = v.val[1], k[2] = v.val[2]; }
        float32x4_t sum = neon_term(zero, vdupq_n_f32(q[0]), k[0], kind);
        for (int i = 1; i < n; i++) sum = vaddq_f32(sum, neon_term(zero, vdupq_n_f32(q[i]), k[i], kind));
        neon_add4(out, vaddq_f32(sum, zero));
    }
    neon_row_short(out, q, key, n, m, n, kind);
}

/* One array against four. */
ALWAYS void neon_dots(float *out, const float *x, const float *const *tap, ptrdiff_t n)
{
    const float *const from[4] = { tap[0], tap[1], tap[2], tap[3] };
    float32x4_t s[8];
    ptrdiff_t i = 0;
    EACH for (int m = 0; m < 8; m++) s[m] = vdupq_n_f32(0);
    for (; i + 8 <= n; i += 8) {
        const float32x4_t a = vld1q_f32(x + i), b = vld1q_f32(x + i + 4);
        EACH for (int m = 0; m < 4; m++) {
            s[2 * m] = vfmaq_f32(s[2 * m], a, vld1q_f32(from[m] + i));
            s[2 * m + 1] = vfmaq_f32(s[2 * m + 1], b, vld1q_f32(from[m] + i + 4));
        }
    }
    for (int half = 0; i < n; half++, i += 4) {
        const float32x4_t a = neon_load_part(x + i, n - i);
        EACH for (int m = 0; m < 4; m++) {
            const float32x4_t b = neon_load_part(from[m] + i, n - i);
            if (half == 0) s[2 * m] = vfmaq_f32(s[2 * m], a, b);
            else s[2 * m + 1] = vfmaq_f32(s[2 * m + 1], a, b);
        }
    }
    vst1q_f32(out, neon_sum_pairs(s));
}

#endif
