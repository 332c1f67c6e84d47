/* dsp_avx2.c: the inner loops for AVX2 with FMA and F16C. The loops are in ymm.h and ymm_map.h; here they get their
 * names, and a constant for each case. */
#include "simd/dsp.h"

#if defined(__x86_64__)
#include "simd/ymm_map.h"

static float dot_avx2(const float *a, const float *b, ptrdiff_t n) { return ymm_one(a, b, n, DOT); }
static float l2_avx2(const float *a, const float *b, ptrdiff_t n) { return ymm_one(a, b, n, L2); }

ALWAYS void row(float *out, const float *q, const float *key, ptrdiff_t step, ptrdiff_t m, ptrdiff_t n, int kind)
{
    if (n == 3 && step == 3) ymm_row_rgb(out, q, key, m, kind);
    else if (n <= 8) ymm_row_short(out, q, key, step, m, n, kind);
    else ymm_row(out, q, key, step, m, n, kind);
}

static void dot_row_avx2(float *out, const float *q, const float *key, ptrdiff_t step, ptrdiff_t m, ptrdiff_t n)
{
    row(out, q, key, step, m, n, DOT);
}

static void l2_row_avx2(float *out, const float *q, const float *key, ptrdiff_t step, ptrdiff_t m, ptrdiff_t n)
{
    row(out, q, key, step, m, n, L2);
}

ALWAYS void blend_by(float *out, const float *const *tap, const float *w, int taps, ptrdiff_t n)
{
    const Taps t = taps_read(tap, w, taps);
    ymm_blend(out, &t, taps, 0, n);
}

static void blend_avx2(float *out, const float *const *tap, const float *w, int taps, ptrdiff_t n)
{
    if (taps == 1) blend_by(out, tap, w, 1, n);
    else if (taps == 2) blend_by(out, tap, w, 2, n);
    else blend_by(out, tap, w, 4, n);
}

ALWAYS float blend_sum_by(const float *q, const float *const *tap, const float *w, int taps, ptrdiff_t n, int kind)
{
    const Taps t = taps_read(tap, w, taps);
    return ymm_blend_sum(q, &t, taps, n, kind);
}

ALWAYS float blend_sum(const float *q, const float *const *tap, const float *w, int taps, ptrdiff_t n, int kind)
{
    if (taps == 1) return blend_sum_by(q, tap, w, 1, n, kind);
    if (taps == 2) return blend_sum_by(q, tap, w, 2, n, kind);
    return blend_sum_by(q, tap, w, 4, n, kind);
}

static float dot_blend_avx2(const float *q, const float *const *tap, const float *w, int taps, ptrdiff_t n)
{
    return blend_sum(q, tap, w, taps, n, DOT);
}

static float l2_blend_avx2(const float *q, const float *const *tap, const float *w, int taps, ptrdiff_t n)
{
    return blend_sum(q, tap, w, taps, n, L2);
}

ALWAYS void blend_sub_by(float *out, const float *q, const float *const *tap, const float *w, int taps, ptrdiff_t n)
{
    const Taps t = taps_read(tap, w, taps);
    ymm_blend_sub(out, q, &t, taps, 0, n);
}

static void blend_sub_avx2(float *out, const float *q, const float *const *tap, const float *w, int taps, ptrdiff_t n)
{
    if (taps == 1) blend_sub_by(out, q, tap, w, 1, n);
    else if (taps == 2) blend_sub_by(out, q, tap, w, 2, n);
    else blend_sub_by(out, q, tap, w, 4, n);
}

ALWAYS void unblend_by(float *const *y, const float *w, int taps, const float *x, ptrdiff_t n)
{
    const Heaps h = heaps_read(y, w, taps);
    ymm_unblend(&h, taps, x, 0, n);
}

static void unblend_avx2(float *const *y, const float *w, int taps, const float *x, ptrdiff_t n)
{
    if (taps == 1) unblend_by(y, w, 1, x, n);
    else if (taps == 2) unblend_by(y, w, 2, x, n);
    else unblend_by(y, w, 4, x, n);
}

static void dots_avx2(float *out, const float *x, const float *const *tap, ptrdiff_t n) { ymm_dots(out, x, tap, n); }
static void axpy_avx2(float *y, float a, const float *x, ptrdiff_t n) { ymm_axpy(y, a, x, 0, n); }
static void scale_avx2(float *y, float a, ptrdiff_t n) { ymm_scale(y, a, 0, n); }
static void sub_avx2(float *out, const float *a, const float *b, ptrdiff_t n) { ymm_sub(out, a, b, 0, n); }
static void from_f16_avx2(float *out, const uint16_t *in, ptrdiff_t n) { ymm_from_f16(out, in, 0, n); }
static void from_bf16_avx2(float *out, const uint16_t *in, ptrdiff_t n) { ymm_from_bf16(out, in, 0, n); }
static void to_f16_avx2(uint16_t *out, const float *in, ptrdiff_t n) { ymm_to_f16(out, in, 0, n); }
static void to_bf16_avx2(uint16_t *out, const float *in, ptrdiff_t n) { ymm_to_bf16(out, in, 0, n); }

#define LANES 8
#define VECTOR_REGISTERS 16
#define WIDE 0
#define APART static
typedef __m256 Vec;
typedef __m256i Mask;
#define v_mask(r) ymm_mask(r)
#define v_load(p) _mm256_loadu_ps(p)
#define v_load_part(p, m) _mm256_maskload_ps(p, m)
#define v_store(p, x) _mm256_storeu_ps(p, x)
#define v_store_part(p, m, x) _mm256_maskstore_ps(p, m, x)
#define v_set(x) _mm256_set1_ps(x)
#define v_zero() _mm256_setzero_ps()
#define v_add(a, b) _mm256_add_ps(a, b)
#define v_fma(a, b, c) _mm256_fmadd_ps(a, b, c)
#define v_mul(a, b) _mm256_mul_ps(a, b)
#define v_sub(a, b) _mm256_sub_ps(a, b)
#define v_sum4(a, b, c, d) ymm_sum4(a, b, c, d)
#include "simd/patch_body.h"
#include "simd/pull_list.h"
#include "simd/pair_body.h"
#include "simd/reads_body.h"
#include "simd/place.h"
#include "simd/slopes.h"
#include "simd/settle_body.h"

void snls_dsp_init_avx2(SnlsDsp *dsp)
{
    *dsp = (SnlsDsp){
        .dot = dot_avx2, .l2 = l2_avx2, .dot_row = dot_row_avx2, .l2_row = l2_row_avx2,
        .blend = blend_avx2, .dot_blend = dot_blend_avx2, .l2_blend = l2_blend_avx2,
        .blend_sub = blend_sub_avx2, .dots = dots_avx2, .unblend = unblend_avx2,
        .axpy = axpy_avx2, .scale = scale_avx2, .sub = sub_avx2,
        .score_places = score_places, .bends = bends, .place = snls_place, .mix = mix, .mix_run = mix_run, .mix_bent = mix_bent, .spread_places = spread_places, .slopes = snls_slopes, .pull_patch = pull_patch, .draw_patch = dsp->draw_patch, .pull_pixel = pull_pixel, .pull_list = pull_list, .dot_patch = dot_patch, .settle = settle, .aim = aim, .tilt = tilt, .spread_patch = spread_patch,
        .from_f16 = from_f16_avx2, .from_bf16 = from_bf16_avx2, .to_f16 = to_f16_avx2, .to_bf16 = to_bf16_avx2,
    };
}
#endif
