/* ymm.h: sums in 256-bit registers, shared by dsp_avx2.c and dsp_avx512.c (which takes them for short n).
 * Only static inline: nothing compiled with the flags of one instruction set can be linked into another file.
 *
 * Every sum, single or in a row, is built the same way: element i in lane i % 8 of one register, then lanes at
 * distance 1, 2 and 4 added. So a number never depends on the row it was computed in. */
#ifndef SNLS_YMM_H
#define SNLS_YMM_H

#include "simd/inline.h"
#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

#define V_REGISTER "+v"
#define v_store4(p, x) _mm_storeu_ps(p, x)

ALWAYS __m256i ymm_mask(ptrdiff_t r) /* the first r of 8 lanes */
{
    static const int32_t ones[16] = { -1, -1, -1, -1, -1, -1, -1, -1 };
    return _mm256_loadu_si256((const __m256i *)(ones + 8 - (r < 0 ? 0 : r > 8 ? 8 : r)));
}

ALWAYS __m256 ymm_term(__m256 sum, __m256 q, __m256 k, int kind)
{
    if (kind == DOT) return _mm256_fmadd_ps(q, k, sum);
    const __m256 d = _mm256_sub_ps(q, k);
    return _mm256_fmadd_ps(d, d, sum);
}

/* ---- from the lanes of a register to one number a key ---- */

ALWAYS __m256 ymm_fold(__m256 a, __m256 b) /* neighbours added: a01 a23 b01 b23, in each half */
{
    return _mm256_add_ps(_mm256_shuffle_ps(a, b, 0x88), _mm256_shuffle_ps(a, b, 0xdd));
}

ALWAYS float ymm_sum(__m256 v)
{
    v = _mm256_add_ps(v, _mm256_permute_ps(v, 0xb1));
    v = _mm256_add_ps(v, _mm256_permute_ps(v, 0x4e));
    return _mm_cvtss_f32(_mm_add_ss(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1)));
}

ALWAYS __m128 ymm_sum4(__m256 s0, __m256 s1, __m256 s2, __m256 s3)
{
    const __m256 v = ymm_fold(ymm_fold(s0, s1), ymm_fold(s2, s3));
    return _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
}

ALWAYS __m256 ymm_sum8(__m256 s0, __m256 s1, __m256 s2, __m256 s3, __m256 s4, __m256 s5, __m256 s6, __m256 s7)
{
    const __m256 a = ymm_fold(ymm_fold(s0, s1), ymm_fold(s2, s3));
    const __m256 b = ymm_fold(ymm_fold(s4, s5), ymm_fold(s6, s7));
    return _mm256_add_ps(_mm256_blend_ps(a, b, 0xf0), _mm256_permute2f128_ps(a, b, 0x21));
}

/* ---- out[j] += sums[j]. Rows are added to the same out again and again: each store has the size of the load that
 * reads it in the next call, for a masked or overlapping one would have to reach the cache first. ---- */

ALWAYS void ymm_add4(float *out, __m128 sums) { _mm_storeu_ps(out, _mm_add_ps(_mm_loadu_ps(out), sums)); }
ALWAYS void ymm_add8(float *out, __m256 sums) { _mm256_storeu_ps(out, _mm256_add_ps(_mm256_loadu_ps(out), sums)); }

ALWAYS void ymm_add_some(float *out, __m128 sums, int from, int to) /* lanes from .. to-1 */
{
    float s[4];
    _mm_storeu_ps(s, sums);
    for (int j = from; j < to; j++) out[j] += s[j];
}

ALWAYS void ymm_add_first(float *out, __m256 sums, ptrdiff_t r) /* the first r of 8 */
{
    if (r >= 8) { ymm_add8(out, sums); return; }
    __m128 half = _mm256_castps256_ps128(sums);
    if (r >= 4) {
        ymm_add4(out, half);
        half = _mm256_extractf128_ps(sums, 1);
        r -= 4, out += 4;
    }
    ymm_add_some(out, half, 0, (int)r);
}

/* ---- one query, several keys ---- */

#define PART(p) _mm256_maskload_ps(p, mask)

ALWAYS float ymm_one(const float *q, const float *key, ptrdiff_t n, int kind)
{
    __m256 sum = _mm256_setzero_ps();
    for (; n >= 8; n -= 8, q += 8, key += 8) sum = ymm_term(sum, _mm256_loadu_ps(q), _mm256_loadu_ps(key), kind);
    if (n > 0) {
        const __m256i mask = ymm_mask(n);
        sum = ymm_term(sum, PART(q), PART(key), kind);
    }
    return ymm_sum(sum);
}

ALWAYS __m128 ymm_group4(const float *q, const float *key, ptrdiff_t step, ptrdiff_t n, int kind)
{
    __m256 s0 = _mm256_setzero_ps(), s1 = s0, s2 = s0, s3 = s0;
    ptrdiff_t triple = 3 * step;
    OPAQUE(triple);
#define TERMS(load)                                       \
    do {                                                  \
        const __m256 x = load(q);                         \
        s0 = ymm_term(s0, x, load(key), kind);            \
        s1 = ymm_term(s1, x, load(key + step), kind);     \
        s2 = ymm_term(s2, x, load(key + 2 * step), kind); \
        s3 = ymm_term(s3, x, load(key + triple), kind);   \
    } while (0)
    for (; n >= 8; n -= 8, q += 8, key += 8) TERMS(_mm256_loadu_ps);
    if (n > 0) {
        const __m256i mask = ymm_mask(n);
        TERMS(PART);
    }
#undef TERMS
    return ymm_sum4(s0, s1, s2, s3);
}

/* Eight sums in flight cover the latency of the multiplier, so one register a key is enough. */
ALWAYS __m256 ymm_group8(const float *q, const float *key, ptrdiff_t step, ptrdiff_t n, int kind)
{
    __m256 s0 = _mm256_setzero_ps(), s1 = s0, s2 = s0, s3 = s0, s4 = s0, s5 = s0, s6 = s0, s7 = s0;
    const float *half = key + 4 * step;
    ptrdiff_t triple = 3 * step;
    OPAQUE(half);
    OPAQUE(triple);
#define TERMS(load)                                        \
    do {                                                   \
        const __m256 x = load(q);                          \
        s0 = ymm_term(s0, x, load(key), kind);             \
        s1 = ymm_term(s1, x, load(key + step), kind);      \
        s2 = ymm_term(s2, x, load(key + 2 * step), kind);  \
        s3 = ymm_term(s3, x, load(key + triple), kind);    \
        s4 = ymm_term(s4, x, load(half), kind);            \
        s5 = ymm_term(s5, x, load(half + step), kind);     \
        s6 = ymm_term(s6, x, load(half + 2 * step), kind); \
        s7 = ymm_term(s7, x, load(half + triple), kind);   \
    } while (0)
    for (; n >= 8; n -= 8, q += 8, key += 8, half += 8) TERMS(_mm256_loadu_ps);
    if (n > 0) {
        const __m256i mask = ymm_mask(n);
        TERMS(PART);
    }
#undef TERMS
    return ymm_sum8(s0, s1, s2, s3, s4, s5, s6, s7);
}

ALWAYS void ymm_row(float *out, const float *q, const float *key, ptrdiff_t step, ptrdiff_t m, ptrdiff_t n, int kind)
{
    const float *const first = key;
    for (; m >= 8; m -= 8, out += 8, key += 8 * step) ymm_add8(out, ymm_group8(q, key, step, n, kind));
    if (m >= 4) {
        ymm_add4(out, ymm_group4(q, key, step, n, kind));
        m -= 4, out += 4, key += 4 * step;
    }
    if (m > 1 && key != first) /* the last four keys once more, of which m are new */
        ymm_add_some(out + m - 4, ymm_group4(q, key + (m - 4) * step, step, n, kind), 4 - (int)m, 4);
    else
        for (; m > 0; m--, out++, key += step) *out += ymm_one(q, key, n, kind);
}

/* One array against four. */
ALWAYS void ymm_dots(float *out, const float *x, const float *const *tap, ptrdiff_t n)
{
    const float *const a = tap[0], *const b = tap[1], *const c = tap[2], *const d = tap[3];
    __m256 s0 = _mm256_setzero_ps(), s1 = s0, s2 = s0, s3 = s0;
    ptrdiff_t i = 0;
#define TERMS(load)                                \
    do {                                           \
        const __m256 v = load(x + i);              \
        s0 = ymm_term(s0, v, load(a + i), DOT);    \
        s1 = ymm_term(s1, v, load(b + i), DOT);    \
        s2 = ymm_term(s2, v, load(c + i), DOT);    \
        s3 = ymm_term(s3, v, load(d + i), DOT);    \
    } while (0)
    for (; i + 8 <= n; i += 8) TERMS(_mm256_loadu_ps);
    if (i < n) {
        const __m256i mask = ymm_mask(n - i);
        TERMS(PART);
    }
#undef TERMS
    _mm_storeu_ps(out, ymm_sum4(s0, s1, s2, s3));
}

/* The same for n <= 8: the query stays in one register. */
ALWAYS void ymm_row_short(float *out, const float *q, const float *key, ptrdiff_t step, ptrdiff_t m, ptrdiff_t n, int kind)
{
    const __m256i mask = ymm_mask(n);
    const __m256 x = PART(q), zero = _mm256_setzero_ps();
    const ptrdiff_t triple = 3 * step;
#define TERM(p) ymm_term(zero, x, PART(p), kind)
    for (; m >= 8; m -= 8, out += 8, key += 8 * step) {
        const float *const half = key + 4 * step;
        ymm_add8(out, ymm_sum8(TERM(key), TERM(key + step), TERM(key + 2 * step), TERM(key + triple),
                               TERM(half), TERM(half + step), TERM(half + 2 * step), TERM(half + triple)));
    }
    if (m >= 4) {
        ymm_add4(out, ymm_sum4(TERM(key), TERM(key + step), TERM(key + 2 * step), TERM(key + triple)));
        m -= 4, out += 4, key += 4 * step;
    }
    for (; m > 0; m--, out++, key += step) *out += ymm_sum(TERM(key));
#undef TERM
}

/* n = 3, keys without gaps (RGB pixels): lanes run over eight keys. The order of summation is still that of the top:
 * neighbours first, then nothing but zeros, of which one is enough to give a zero its sign. */
ALWAYS __m256 ymm_rgb(__m256 a, __m256 b, __m256 c, const __m256 q[3], int kind)
{
    const __m256 zero = _mm256_setzero_ps();
#define PICK(ab, abc, ...) \
    _mm256_permutevar8x32_ps(_mm256_blend_ps(_mm256_blend_ps(a, b, ab), c, abc), _mm256_setr_epi32(__VA_ARGS__))
    const __m256 s0 = ymm_term(zero, q[0], PICK(0x92, 0x24, 0, 3, 6, 1, 4, 7, 2, 5), kind);
    const __m256 s1 = ymm_term(zero, q[1], PICK(0x24, 0x49, 1, 4, 7, 2, 5, 0, 3, 6), kind);
    const __m256 s2 = ymm_term(zero, q[2], PICK(0x49, 0x92, 2, 5, 0, 3, 6, 1, 4, 7), kind);
#undef PICK
    return _mm256_add_ps(_mm256_add_ps(_mm256_add_ps(s0, s1), s2), zero);
}

ALWAYS void ymm_row_rgb(float *out, const float *q, const float *key, ptrdiff_t m, int kind)
{
    const __m256 x[3] = { _mm256_set1_ps(q[0]), _mm256_set1_ps(q[1]), _mm256_set1_ps(q[2]) };
    for (; m >= 8; m -= 8, out += 8, key += 24)
        ymm_add8(out, ymm_rgb(_mm256_loadu_ps(key), _mm256_loadu_ps(key + 8), _mm256_loadu_ps(key + 16), x, kind));
    if (m <= 0) return;
    const ptrdiff_t rest = 3 * m;
    const __m256 a = _mm256_maskload_ps(key, ymm_mask(rest));
    const __m256 b = rest > 8 ? _mm256_maskload_ps(key + 8, ymm_mask(rest - 8)) : a;
    const __m256 c = rest > 16 ? _mm256_maskload_ps(key + 16, ymm_mask(rest - 16)) : a;
    ymm_add_first(out, ymm_rgb(a, b, c, x, kind), m);
}

#undef PART
#endif
