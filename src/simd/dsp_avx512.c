/* dsp_avx512.c: the inner loops for AVX-512 F, BW, DQ and VL; short and left over parts are those of ymm.h and ymm_map.h.
 *
 * Sums of more than 8 elements: element i in lane i % 16 of one register, then lanes at distance 1, 2, 4 and 8 added,
 * for a single key as for one in a row. */
#include "simd/dsp.h"

#if defined(__x86_64__)
#include "simd/ymm_map.h"

ALWAYS __mmask16 mask_of(ptrdiff_t r) /* the first r of 16 lanes */
{
    return r >= 16 ? 0xffff : r <= 0 ? 0 : (__mmask16)((1u << r) - 1);
}

ALWAYS __m512 zmm_term(__m512 sum, __m512 q, __m512 k, int kind)
{
    if (kind == DOT) return _mm512_fmadd_ps(q, k, sum);
    const __m512 d = _mm512_sub_ps(q, k);
    return _mm512_fmadd_ps(d, d, sum);
}

/* ---- from the lanes of a register to one number a key: fold_d adds lanes at distance d, of a where lane & d is 0,
 * of b elsewhere. One blend and one shuffle each, for the shuffles have one port only. ---- */

ALWAYS __m512 fold1(__m512 a, __m512 b)
{
    const __m512i swap = _mm512_setr_epi32(1, 16, 3, 18, 5, 20, 7, 22, 9, 24, 11, 26, 13, 28, 15, 30);
    return _mm512_add_ps(_mm512_mask_blend_ps(0xaaaa, a, b), _mm512_permutex2var_ps(a, swap, b));
}

ALWAYS __m512 fold2(__m512 a, __m512 b)
{
    return _mm512_add_ps(_mm512_mask_blend_ps(0xcccc, a, b), _mm512_shuffle_ps(a, b, 0x4e));
}

ALWAYS __m512 fold4(__m512 a, __m512 b)
{
    const __m512i swap = _mm512_setr_epi32(4, 5, 6, 7, 16, 17, 18, 19, 12, 13, 14, 15, 24, 25, 26, 27);
    return _mm512_add_ps(_mm512_mask_blend_ps(0xf0f0, a, b), _mm512_permutex2var_ps(a, swap, b));
}

ALWAYS __m256 fold8(__m512 v) { return _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1)); }

ALWAYS __m128 zmm_sum4(__m512 s0, __m512 s1, __m512 s2, __m512 s3)
{
    const __m512 v = fold2(fold1(s0, s1), fold1(s2, s3));
    return _mm256_castps256_ps128(fold8(_mm512_add_ps(v, _mm512_shuffle_f32x4(v, v, 0xb1))));
}

ALWAYS float zmm_sum(__m512 v)
{
    v = _mm512_add_ps(v, _mm512_permute_ps(v, 0xb1));
    v = _mm512_add_ps(v, _mm512_permute_ps(v, 0x4e));
    v = _mm512_add_ps(v, _mm512_shuffle_f32x4(v, v, 0xb1));
    return _mm256_cvtss_f32(fold8(v));
}

/* ---- one query, several keys: as in ymm.h ---- */

#define PART(p) _mm512_maskz_loadu_ps(mask, p)

ALWAYS float zmm_one(const float *q, const float *key, ptrdiff_t n, int kind)
{
    __m512 sum = _mm512_setzero_ps();
    for (; n >= 16; n -= 16, q += 16, key += 16) sum = zmm_term(sum, _mm512_loadu_ps(q), _mm512_loadu_ps(key), kind);
    if (n > 0) {
        const __mmask16 mask = mask_of(n);
        sum = zmm_term(sum, PART(q), PART(key), kind);
    }
    return zmm_sum(sum);
}

ALWAYS __m128 zmm_group4(const float *q, const float *key, ptrdiff_t step, ptrdiff_t n, int kind)
{
    __m512 s0 = _mm512_setzero_ps(), s1 = s0, s2 = s0, s3 = s0;
    ptrdiff_t triple = 3 * step;
    OPAQUE(triple);
#define TERMS(load)                                       \
    do {                                                  \
        const __m512 x = load(q);                         \
        s0 = zmm_term(s0, x, load(key), kind);            \
        s1 = zmm_term(s1, x, load(key + step), kind);     \
        s2 = zmm_term(s2, x, load(key + 2 * step), kind); \
        s3 = zmm_term(s3, x, load(key + triple), kind);   \
    } while (0)
    for (; n >= 16; n -= 16, q += 16, key += 16) TERMS(_mm512_loadu_ps);
    if (n > 0) {
        const __mmask16 mask = mask_of(n);
        TERMS(PART);
    }
#undef TERMS
    return zmm_sum4(s0, s1, s2, s3);
}

ALWAYS __m256 zmm_group8(const float *q, const float *key, ptrdiff_t step, ptrdiff_t n, int kind)
{
    __m512 s0 = _mm512_setzero_ps(), s1 = s0, s2 = s0, s3 = s0, s4 = s0, s5 = s0, s6 = s0, s7 = s0;
    const float *half = key + 4 * step;
    ptrdiff_t triple = 3 * step;
    OPAQUE(half);
    OPAQUE(triple);
#define TERMS(load)                                        \
    do {                                                   \
        const __m512 x = load(q);                          \
        s0 = zmm_term(s0, x, load(key), kind);             \
        s1 = zmm_term(s1, x, load(key + step), kind);      \
        s2 = zmm_term(s2, x, load(key + 2 * step), kind);  \
        s3 = zmm_term(s3, x, load(key + triple), kind);    \
        s4 = zmm_term(s4, x, load(half), kind);            \
        s5 = zmm_term(s5, x, load(half + step), kind);     \
        s6 = zmm_term(s6, x, load(half + 2 * step), kind); \
        s7 = zmm_term(s7, x, load(half + triple), kind);   \
    } while (0)
    for (; n >= 16; n -= 16, q += 16, key += 16, half += 16) TERMS(_mm512_loadu_ps);
    if (n > 0) {
        const __mmask16 mask = mask_of(n);
        TERMS(PART);
    }
#undef TERMS
    s0 = fold2(fold1(s0, s1), fold1(s2, s3));
    s4 = fold2(fold1(s4, s5), fold1(s6, s7));
    return fold8(fold4(s0, s4));
}

ALWAYS void zmm_row(float *out, const float *q, const float *key, ptrdiff_t step, ptrdiff_t m, ptrdiff_t n, int kind)
{
    const float *const first = key;
    for (; m >= 8; m -= 8, out += 8, key += 8 * step) ymm_add8(out, zmm_group8(q, key, step, n, kind));
    if (m >= 4) {
        ymm_add4(out, zmm_group4(q, key, step, n, kind));
        m -= 4, out += 4, key += 4 * step;
    }
    if (m > 1 && key != first) /* the last four keys once more, of which m are new */
        ymm_add_some(out + m - 4, zmm_group4(q, key + (m - 4) * step, step, n, kind), 4 - (int)m, 4);
    else
        for (; m > 0; m--, out++, key += step) *out += zmm_one(q, key, n, kind);
}

/* ---- n <= 3, keys without gaps (pixels): lanes run over 16 keys, in the order of summation of ymm.h ---- */

ALWAYS __m512 pixels_sum(__m512 a, __m512 b, __m512 c, const __m512 *q, int n, int kind)
{
    const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i first = n == 1 ? lane : _mm512_mullo_epi32(lane, _mm512_set1_epi32(n));
    const __m512 zero = _mm512_setzero_ps();
    __m512 s[3];
    for (int i = 0; i < n; i++) { /* element i of key j is number n*j + i of the 16*n */
        const __m512i place = _mm512_add_epi32(first, _mm512_set1_epi32(i));
        __m512 v = n == 1 ? a : _mm512_permutex2var_ps(a, place, b);
        if (n == 3) v = _mm512_mask_permutexvar_ps(v, _mm512_cmpge_epi32_mask(place, _mm512_set1_epi32(32)), place, c);
        s[i] = zmm_term(zero, q[i], v, kind);
    }
    for (int i = 1; i < n; i++) s[0] = _mm512_add_ps(s[0], s[i]);
    return _mm512_add_ps(s[0], zero);
}

ALWAYS void pixels_row(float *out, const float *q, const float *key, ptrdiff_t m, int n, int kind)
{
    const __m512 x[3] = { _mm512_set1_ps(q[0]), _mm512_set1_ps(q[n > 1]), _mm512_set1_ps(q[n - 1]) };
    for (; m >= 16; m -= 16, out += 16, key += 16 * n) {
        const __m512 a = _mm512_loadu_ps(key), b = n > 1 ? _mm512_loadu_ps(key + 16) : a;
        const __m512 c = n > 2 ? _mm512_loadu_ps(key + 32) : a, sums = pixels_sum(a, b, c, x, n, kind);
        _mm512_storeu_ps(out, _mm512_add_ps(_mm512_loadu_ps(out), sums));
    }
    if (m <= 0) return;
    const ptrdiff_t rest = m * n;
    const __m512 a = _mm512_maskz_loadu_ps(mask_of(rest), key);
    const __m512 b = rest > 16 ? _mm512_maskz_loadu_ps(mask_of(rest - 16), key + 16) : a;
    const __m512 c = rest > 32 ? _mm512_maskz_loadu_ps(mask_of(rest - 32), key + 32) : a;
    const __m512 sums = pixels_sum(a, b, c, x, n, kind);
    ymm_add_first(out, _mm512_castps512_ps256(sums), m);
    if (m > 8) ymm_add_first(out + 8, _mm512_extractf32x8_ps(sums, 1), m - 8);
}

/* ---- the table ---- */

ALWAYS void row(float *out, const float *q, const float *key, ptrdiff_t step, ptrdiff_t m, ptrdiff_t n, int kind)
{
    if (n > 8) zmm_row(out, q, key, step, m, n, kind);
    else if (n == 3 && step == 3) pixels_row(out, q, key, m, 3, kind);
    else if (n == 2 && step == 2) pixels_row(out, q, key, m, 2, kind);
    else if (n == 1 && step == 1) pixels_row(out, q, key, m, 1, kind);
    else ymm_row_short(out, q, key, step, m, n, kind);
}

static float dot_avx512(const float *a, const float *b, ptrdiff_t n)
{
    return n > 8 ? zmm_one(a, b, n, DOT) : ymm_one(a, b, n, DOT);
}

static float l2_avx512(const float *a, const float *b, ptrdiff_t n)
{
    return n > 8 ? zmm_one(a, b, n, L2) : ymm_one(a, b, n, L2);
}

static void dot_row_avx512(float *out, const float *q, const float *key, ptrdiff_t step, ptrdiff_t m, ptrdiff_t n)
{
    row(out, q, key, step, m, n, DOT);
}

static void l2_row_avx512(float *out, const float *q, const float *key, ptrdiff_t step, ptrdiff_t m, ptrdiff_t n)
{
    row(out, q, key, step, m, n, L2);
}

ALWAYS __m512 zmm_taps(const Taps *t, int taps, ptrdiff_t i, __mmask16 mask)
{
#define TAP(k) _mm512_set1_ps(t->w##k), PART(t->p##k + i)
    __m512 v = _mm512_mul_ps(TAP(0));
    if (taps > 1) v = _mm512_fmadd_ps(TAP(1), v);
    if (taps > 2) v = _mm512_fmadd_ps(TAP(3), _mm512_fmadd_ps(TAP(2), v));
    return v;
#undef TAP
}

ALWAYS void blend_by(float *out, const float *const *tap, const float *w, int taps, ptrdiff_t n)
{
    const Taps t = taps_read(tap, w, taps);
    ptrdiff_t i = 0;
    for (; i + 16 <= n; i += 16) _mm512_storeu_ps(out + i, zmm_taps(&t, taps, i, 0xffff));
    ymm_blend(out, &t, taps, i, n);
}

static void blend_avx512(float *out, const float *const *tap, const float *w, int taps, ptrdiff_t n)
{
    if (taps == 1) blend_by(out, tap, w, 1, n);
    else if (taps == 2) blend_by(out, tap, w, 2, n);
    else blend_by(out, tap, w, 4, n);
}

ALWAYS float blend_sum_by(const float *q, const float *const *tap, const float *w, int taps, ptrdiff_t n, int kind)
{
    const Taps t = taps_read(tap, w, taps);
    if (n <= 8) return ymm_blend_sum(q, &t, taps, n, kind);
    __m512 sum = _mm512_setzero_ps();
    ptrdiff_t i = 0;
    for (; i + 16 <= n; i += 16) sum = zmm_term(sum, _mm512_loadu_ps(q + i), zmm_taps(&t, taps, i, 0xffff), kind);
    if (i < n) { /* lanes beyond n: an infinite weight times nothing must not count */
        const __mmask16 mask = mask_of(n - i);
        const __m512 v = _mm512_maskz_mov_ps(mask, zmm_taps(&t, taps, i, mask));
        sum = zmm_term(sum, PART(q + i), v, kind);
    }
    return zmm_sum(sum);
}

ALWAYS float blend_sum(const float *q, const float *const *tap, const float *w, int taps, ptrdiff_t n, int kind)
{
    if (taps == 1) return blend_sum_by(q, tap, w, 1, n, kind);
    if (taps == 2) return blend_sum_by(q, tap, w, 2, n, kind);
    return blend_sum_by(q, tap, w, 4, n, kind);
}

static float dot_blend_avx512(const float *q, const float *const *tap, const float *w, int taps, ptrdiff_t n)
{
    return blend_sum(q, tap, w, taps, n, DOT);
}

static float l2_blend_avx512(const float *q, const float *const *tap, const float *w, int taps, ptrdiff_t n)
{
    return blend_sum(q, tap, w, taps, n, L2);
}

ALWAYS void blend_sub_by(float *out, const float *q, const float *const *tap, const float *w, int taps, ptrdiff_t n)
{
    const Taps t = taps_read(tap, w, taps);
    ptrdiff_t i = 0;
    for (; i + 16 <= n; i += 16) _mm512_storeu_ps(out + i, _mm512_sub_ps(zmm_taps(&t, taps, i, 0xffff), _mm512_loadu_ps(q + i)));
    ymm_blend_sub(out, q, &t, taps, i, n);
}

static void blend_sub_avx512(float *out, const float *q, const float *const *tap, const float *w, int taps, ptrdiff_t n)
{
    if (taps == 1) blend_sub_by(out, q, tap, w, 1, n);
    else if (taps == 2) blend_sub_by(out, q, tap, w, 2, n);
    else blend_sub_by(out, q, tap, w, 4, n);
}

static void dots_avx512(float *out, const float *x, const float *const *tap, ptrdiff_t n)
{
    if (n <= 8) { ymm_dots(out, x, tap, n); return; }
    const float *const a = tap[0], *const b = tap[1], *const c = tap[2], *const d = tap[3];
    __m512 s0 = _mm512_setzero_ps(), s1 = s0, s2 = s0, s3 = s0;
    for (ptrdiff_t i = 0; i < n; i += 16) {
        const __mmask16 mask = mask_of(n - i);
        const __m512 v = PART(x + i);
        s0 = zmm_term(s0, v, PART(a + i), DOT);
        s1 = zmm_term(s1, v, PART(b + i), DOT);
        s2 = zmm_term(s2, v, PART(c + i), DOT);
        s3 = zmm_term(s3, v, PART(d + i), DOT);
    }
    _mm_storeu_ps(out, zmm_sum4(s0, s1, s2, s3));
}

ALWAYS void unblend_by(float *const *y, const float *w, int taps, const float *x, ptrdiff_t n)
{
    const Heaps h = heaps_read(y, w, taps);
    ptrdiff_t i = 0;
#define HEAP(k) _mm512_storeu_ps(h.p##k + i, _mm512_fmadd_ps(_mm512_set1_ps(h.w##k), v, _mm512_loadu_ps(h.p##k + i)))
    for (; i + 16 <= n; i += 16) {
        const __m512 v = _mm512_loadu_ps(x + i);
        HEAP(0);
        if (taps > 1) HEAP(1);
        if (taps > 2) { HEAP(2); HEAP(3); }
    }
#undef HEAP
    ymm_unblend(&h, taps, x, i, n);
}

static void unblend_avx512(float *const *y, const float *w, int taps, const float *x, ptrdiff_t n)
{
    if (taps == 1) unblend_by(y, w, 1, x, n);
    else if (taps == 2) unblend_by(y, w, 2, x, n);
    else unblend_by(y, w, 4, x, n);
}

static void axpy_avx512(float *y, float a, const float *x, ptrdiff_t n)
{
    const __m512 v = _mm512_set1_ps(a);
    ptrdiff_t i = 0;
    for (; i + 16 <= n; i += 16)
        _mm512_storeu_ps(y + i, _mm512_fmadd_ps(v, _mm512_loadu_ps(x + i), _mm512_loadu_ps(y + i)));
    ymm_axpy(y, a, x, i, n);
}

static void scale_avx512(float *y, float a, ptrdiff_t n)
{
    const __m512 v = _mm512_set1_ps(a);
    ptrdiff_t i = 0;
    for (; i + 16 <= n; i += 16) _mm512_storeu_ps(y + i, _mm512_mul_ps(v, _mm512_loadu_ps(y + i)));
    ymm_scale(y, a, i, n);
}

static void sub_avx512(float *out, const float *a, const float *b, ptrdiff_t n)
{
    ptrdiff_t i = 0;
    for (; i + 16 <= n; i += 16)
        _mm512_storeu_ps(out + i, _mm512_sub_ps(_mm512_loadu_ps(a + i), _mm512_loadu_ps(b + i)));
    ymm_sub(out, a, b, i, n);
}

static void from_f16_avx512(float *out, const uint16_t *in, ptrdiff_t n)
{
    ptrdiff_t i = 0;
    for (; i + 16 <= n; i += 16)
        _mm512_storeu_ps(out + i, _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(in + i))));
    ymm_from_f16(out, in, i, n);
}

static void to_f16_avx512(uint16_t *out, const float *in, ptrdiff_t n)
{
    ptrdiff_t i = 0;
    for (; i + 16 <= n; i += 16)
        _mm256_storeu_si256((__m256i *)(out + i), _mm512_cvtps_ph(_mm512_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT));
    ymm_to_f16(out, in, i, n);
}

#define LANES 16
#define VECTOR_REGISTERS 32
#define WIDE 0
#define APART static
typedef __m512 Vec;
typedef __mmask16 Mask;
#define v_mask(r) mask_of(r)
#define v_load(p) _mm512_loadu_ps(p)
#define v_load_part(p, m) _mm512_maskz_loadu_ps(m, p)
#define v_store(p, x) _mm512_storeu_ps(p, x)
#define v_store_part(p, m, x) _mm512_mask_storeu_ps(p, m, x)
#define v_set(x) _mm512_set1_ps(x)
#define v_zero() _mm512_setzero_ps()
#define v_add(a, b) _mm512_add_ps(a, b)
#define v_fma(a, b, c) _mm512_fmadd_ps(a, b, c)
#define v_mul(a, b) _mm512_mul_ps(a, b)
#define v_sub(a, b) _mm512_sub_ps(a, b)
#define v_sum4(a, b, c, d) zmm_sum4(a, b, c, d)
#include "simd/patch_body.h"
#include "simd/pull_list.h"
#include "simd/pair_body.h"
#include "simd/draw_body.h"
#include "simd/reads_body.h"
#include "simd/place_avx512.h"
#include "simd/slopes.h"
#include "simd/settle_body.h"

void snls_dsp_init_avx512(SnlsDsp *dsp) /* bfloat16 stays with AVX2: two shifts and a store either way */
{
    dsp->dot = dot_avx512;
    dsp->l2 = l2_avx512;
    dsp->dot_row = dot_row_avx512;
    dsp->l2_row = l2_row_avx512;
    dsp->blend = blend_avx512;
    dsp->dot_blend = dot_blend_avx512;
    dsp->l2_blend = l2_blend_avx512;
    dsp->score_places = score_places;
    dsp->bends = bends;
    dsp->blend_sub = blend_sub_avx512;
    dsp->dots = dots_avx512;
    dsp->unblend = unblend_avx512;
    dsp->axpy = axpy_avx512;
    dsp->scale = scale_avx512;
    dsp->sub = sub_avx512;
    dsp->place = place_avx512;
    dsp->mix = mix;
    dsp->mix_run = mix_run;
    dsp->mix_bent = mix_bent;
    dsp->spread_places = spread_places;
    dsp->slopes = snls_slopes;
    dsp->pull_patch = pull_patch;
    dsp->pull_pixel = pull_pixel;
    dsp->pull_list = pull_list;
    dsp->draw_patch = draw_patch;
    dsp->dot_patch = dot_patch;
    dsp->settle = settle;
    dsp->aim = aim;
    dsp->tilt = tilt;
    dsp->spread_patch = spread_patch;
    dsp->from_f16 = from_f16_avx512;
    dsp->to_f16 = to_f16_avx512;
}
#endif
