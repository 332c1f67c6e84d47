/* ymm_map.h: loops that work element by element, and blends, in 256-bit registers; shared like ymm.h.
 * What is left after the last full register goes one by one: a masked store would delay the load that follows it, and
 * on some processors is slow in itself. OPAQUE, lest compilers make vectors of those few once more.
 * An array may be its own output. */
#ifndef SNLS_YMM_MAP_H
#define SNLS_YMM_MAP_H

#include "simd/taps.h"
#include "simd/ymm.h"

/* ---- blends ---- */

ALWAYS __m256 ymm_taps(const Taps *t, int taps, ptrdiff_t i)
{
#define TAP(k) _mm256_set1_ps(t->w##k), _mm256_loadu_ps(t->p##k + i)
    __m256 v = _mm256_mul_ps(TAP(0));
    if (taps > 1) v = _mm256_fmadd_ps(TAP(1), v);
    if (taps > 2) v = _mm256_fmadd_ps(TAP(3), _mm256_fmadd_ps(TAP(2), v));
    return v;
#undef TAP
}

ALWAYS __m256 ymm_taps_part(const Taps *t, int taps, ptrdiff_t i, __m256i mask)
{
#define TAP(k) _mm256_set1_ps(t->w##k), _mm256_maskload_ps(t->p##k + i, mask)
    __m256 v = _mm256_mul_ps(TAP(0));
    if (taps > 1) v = _mm256_fmadd_ps(TAP(1), v);
    if (taps > 2) v = _mm256_fmadd_ps(TAP(3), _mm256_fmadd_ps(TAP(2), v));
    return _mm256_and_ps(v, _mm256_castsi256_ps(mask)); /* an infinite weight times nothing */
#undef TAP
}

ALWAYS void ymm_blend(float *out, const Taps *t, int taps, ptrdiff_t i, ptrdiff_t n)
{
    for (; i + 8 <= n; i += 8) _mm256_storeu_ps(out + i, ymm_taps(t, taps, i));
    for (; i < n; i++) { OPAQUE(i); out[i] = taps_at(t, taps, i); }
}

ALWAYS float ymm_blend_sum(const float *q, const Taps *t, int taps, ptrdiff_t n, int kind)
{
    __m256 sum = _mm256_setzero_ps();
    ptrdiff_t i = 0;
    for (; i + 8 <= n; i += 8) sum = ymm_term(sum, _mm256_loadu_ps(q + i), ymm_taps(t, taps, i), kind);
    if (i < n) {
        const __m256i mask = ymm_mask(n - i);
        sum = ymm_term(sum, _mm256_maskload_ps(q + i, mask), ymm_taps_part(t, taps, i, mask), kind);
    }
    return ymm_sum(sum);
}

/* ---- from element i on ---- */

ALWAYS void ymm_blend_sub(float *out, const float *q, const Taps *t, int taps, ptrdiff_t i, ptrdiff_t n)
{
    for (; i + 8 <= n; i += 8) _mm256_storeu_ps(out + i, _mm256_sub_ps(ymm_taps(t, taps, i), _mm256_loadu_ps(q + i)));
    for (; i < n; i++) { OPAQUE(i); out[i] = taps_at(t, taps, i) - q[i]; }
}

ALWAYS void ymm_unblend(const Heaps *h, int taps, const float *x, ptrdiff_t i, ptrdiff_t n)
{
#define HEAP(k) _mm256_storeu_ps(h->p##k + i, _mm256_fmadd_ps(_mm256_set1_ps(h->w##k), v, _mm256_loadu_ps(h->p##k + i)))
    for (; i + 8 <= n; i += 8) {
        const __m256 v = _mm256_loadu_ps(x + i);
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

ALWAYS void ymm_axpy(float *y, float a, const float *x, ptrdiff_t i, ptrdiff_t n)
{
    const __m256 v = _mm256_set1_ps(a);
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(y + i, _mm256_fmadd_ps(v, _mm256_loadu_ps(x + i), _mm256_loadu_ps(y + i)));
    for (; i < n; i++) { OPAQUE(i); y[i] = fmaf(a, x[i], y[i]); }
}

ALWAYS void ymm_scale(float *y, float a, ptrdiff_t i, ptrdiff_t n)
{
    const __m256 v = _mm256_set1_ps(a);
    for (; i + 8 <= n; i += 8) _mm256_storeu_ps(y + i, _mm256_mul_ps(v, _mm256_loadu_ps(y + i)));
    for (; i < n; i++) { OPAQUE(i); y[i] *= a; }
}

ALWAYS void ymm_sub(float *out, const float *a, const float *b, ptrdiff_t i, ptrdiff_t n)
{
    for (; i + 8 <= n; i += 8) _mm256_storeu_ps(out + i, _mm256_sub_ps(_mm256_loadu_ps(a + i), _mm256_loadu_ps(b + i)));
    for (; i < n; i++) { OPAQUE(i); out[i] = a[i] - b[i]; }
}

/* ---- storage types ---- */

ALWAYS void ymm_from_f16(float *out, const uint16_t *in, ptrdiff_t i, ptrdiff_t n)
{
    for (; i + 8 <= n; i += 8) _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(in + i))));
    for (; i < n; i++) { OPAQUE(i); out[i] = _cvtsh_ss(in[i]); }
}

ALWAYS void ymm_to_f16(uint16_t *out, const float *in, ptrdiff_t i, ptrdiff_t n)
{
    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((__m128i *)(out + i), _mm256_cvtps_ph(_mm256_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT));
    for (; i < n; i++) { OPAQUE(i); out[i] = (uint16_t)_cvtss_sh(in[i], _MM_FROUND_TO_NEAREST_INT); }
}

ALWAYS __m256 ymm_widen_bf16(__m128i h) { return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16)); }

ALWAYS void ymm_from_bf16(float *out, const uint16_t *in, ptrdiff_t i, ptrdiff_t n)
{
    for (; i + 8 <= n; i += 8) _mm256_storeu_ps(out + i, ymm_widen_bf16(_mm_loadu_si128((const __m128i *)(in + i))));
    for (; i < n; i++) { OPAQUE(i); out[i] = _mm256_cvtss_f32(ymm_widen_bf16(_mm_cvtsi32_si128(in[i]))); }
}

ALWAYS __m128i ymm_round_bf16(__m256 x)
{
    const __m256i u = _mm256_castps_si256(x), high = _mm256_srli_epi32(u, 16);
    const __m256i half = _mm256_add_epi32(_mm256_set1_epi32(0x7fff), _mm256_and_si256(high, _mm256_set1_epi32(1)));
    const __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(u, half), 16);
    const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    const __m256i v = _mm256_blendv_epi8(rounded, _mm256_or_si256(high, _mm256_set1_epi32(0x40)), nan);
    return _mm_packus_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
}

ALWAYS void ymm_to_bf16(uint16_t *out, const float *in, ptrdiff_t i, ptrdiff_t n)
{
    for (; i + 8 <= n; i += 8) _mm_storeu_si128((__m128i *)(out + i), ymm_round_bf16(_mm256_loadu_ps(in + i)));
    for (; i < n; i++) { OPAQUE(i); out[i] = (uint16_t)_mm_cvtsi128_si32(ymm_round_bf16(_mm256_set1_ps(in[i]))); }
}

#endif
