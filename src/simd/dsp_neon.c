/* dsp_neon.c: the inner loops for NEON, which every AArch64 machine has. The loops are in neon.h and neon_map.h; here they get
 * their names, and a constant for each case. */
#include "simd/dsp.h"

#if defined(__aarch64__)
#include "simd/neon_map.h"
#include <string.h>

static float dot_neon(const float *a, const float *b, ptrdiff_t n) { return neon_one(a, b, n, DOT); }
static float l2_neon(const float *a, const float *b, ptrdiff_t n) { return neon_one(a, b, n, L2); }

ALWAYS void row(float *out, const float *q, const float *key, ptrdiff_t step, ptrdiff_t m, ptrdiff_t n, const int kind)
{
    if (n > 4 || n <= 0) neon_row(out, q, key, step, m, n, kind);
    else if (n == 3 && step == 3) neon_row_pixels(out, q, key, m, 3, kind);
    else if (n == 2 && step == 2) neon_row_pixels(out, q, key, m, 2, kind);
    else if (n == 1 && step == 1) neon_row_pixels(out, q, key, m, 1, kind);
    else neon_row_short(out, q, key, step, m, n, kind);
}

static void dot_row_neon(float *out, const float *q, const float *key, ptrdiff_t step, ptrdiff_t m, ptrdiff_t n)
{
    row(out, q, key, step, m, n, DOT);
}

static void l2_row_neon(float *out, const float *q, const float *key, ptrdiff_t step, ptrdiff_t m, ptrdiff_t n)
{
    row(out, q, key, step, m, n, L2);
}

ALWAYS void blend_by(float *out, const float *const *tap, const float *w, const int taps, ptrdiff_t n)
{
    const Taps t = taps_read(tap, w, taps);
    neon_blend(out, &t, taps, n);
}

static void blend_neon(float *out, const float *const *tap, const float *w, int taps, ptrdiff_t n)
{
    if (taps == 1) blend_by(out, tap, w, 1, n);
    else if (taps == 2) blend_by(out, tap, w, 2, n);
    else blend_by(out, tap, w, 4, n);
}

ALWAYS float blend_sum_by(const float *q, const float *const *tap, const float *w, const int taps, ptrdiff_t n, const int kind)
{
    const Taps t = taps_read(tap, w, taps);
    return neon_blend_sum(q, &t, taps, n, kind);
}

ALWAYS float blend_sum(const float *q, const float *const *tap, const float *w, int taps, ptrdiff_t n, const int kind)
{
    if (taps == 1) return blend_sum_by(q, tap, w, 1, n, kind);
    if (taps == 2) return blend_sum_by(q, tap, w, 2, n, kind);
    return blend_sum_by(q, tap, w, 4, n, kind);
}

static float dot_blend_neon(const float *q, const float *const *tap, const float *w, int taps, ptrdiff_t n)
{
    return blend_sum(q, tap, w, taps, n, DOT);
}

static float l2_blend_neon(const float *q, const float *const *tap, const float *w, int taps, ptrdiff_t n)
{
    return blend_sum(q, tap, w, taps, n, L2);
}

ALWAYS void blend_sub_by(float *out, const float *q, const float *const *tap, const float *w, const int taps, ptrdiff_t n)
{
    const Taps t = taps_read(tap, w, taps);
    neon_blend_sub(out, q, &t, taps, n);
}

static void blend_sub_neon(float *out, const float *q, const float *const *tap, const float *w, int taps, ptrdiff_t n)
{
    if (taps == 1) blend_sub_by(out, q, tap, w, 1, n);
    else if (taps == 2) blend_sub_by(out, q, tap, w, 2, n);
    else blend_sub_by(out, q, tap, w, 4, n);
}

ALWAYS void unblend_by(float *const *y, const float *w, const int taps, const float *x, ptrdiff_t n)
{
    const Heaps h = heaps_read(y, w, taps);
    neon_unblend(&h, taps, x, n);
}

static void unblend_neon(float *const *y, const float *w, int taps, const float *x, ptrdiff_t n)
{
    if (taps == 1) unblend_by(y, w, 1, x, n);
    else if (taps == 2) unblend_by(y, w, 2, x, n);
    else unblend_by(y, w, 4, x, n);
}

static void dots_neon(float *out, const float *x, const float *const *tap, ptrdiff_t n) { neon_dots(out, x, tap, n); }
static void axpy_neon(float *y, float a, const float *x, ptrdiff_t n) { neon_axpy(y, a, x, n); }
static void scale_neon(float *y, float a, ptrdiff_t n) { neon_scale(y, a, n); }
static void sub_neon(float *out, const float *a, const float *b, ptrdiff_t n) { neon_sub(out, a, b, n); }
static void from_f16_neon(float *out, const uint16_t *in, ptrdiff_t n) { neon_from_f16(out, in, n); }
static void from_bf16_neon(float *out, const uint16_t *in, ptrdiff_t n) { neon_from_bf16(out, in, n); }
static void to_f16_neon(uint16_t *out, const float *in, ptrdiff_t n) { neon_to_f16(out, in, n); }
static void to_bf16_neon(uint16_t *out, const float *in, ptrdiff_t n) { neon_to_bf16(out, in, n); }

#define LANES 4
#define VECTOR_REGISTERS 32
#define WIDE 1
#define APART static __attribute__((noinline)) /* in a larger function gcc copies sums from register to register */
typedef float32x4_t Vec;
typedef ptrdiff_t Mask; /* how many lanes there are */
#define v_mask(r) (r)
#define v_load(p) vld1q_f32(p)
#define v_load_part(p, m) neon_load_part(p, m)
#define v_store(p, x) vst1q_f32(p, x)
#define v_store_part(p, m, x) neon_store_part(p, m, x)
#define v_set(x) vdupq_n_f32(x)
#define v_zero() vdupq_n_f32(0)
#define v_add(a, b) vaddq_f32(a, b)
#define v_fma(a, b, c) vfmaq_f32(c, a, b)
#define v_mul(a, b) vmulq_f32(a, b)
#define v_sub(a, b) vsubq_f32(a, b)
#define v_sum4(a, b, c, d) neon_sum4(a, b, c, d)
#if !defined(__clang__) /* `before` of spread_chunk is set in the first turn of a loop, used from the second on */
#    pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include "simd/patch_body.h"
#include "simd/pull_list.h"
#include "simd/pair_body.h"
#include "simd/reads_body.h"
#include "simd/place.h"
#include "simd/slopes.h"
#include "simd/settle_body.h"
#include "simd/place_neon.h"

void snls_dsp_init_neon(SnlsDsp *dsp)
{
    *dsp = (SnlsDsp){
        .dot = dot_neon, .l2 = l2_neon, .dot_row = dot_row_neon, .l2_row = l2_row_neon,
        .blend = blend_neon, .dot_blend = dot_blend_neon, .l2_blend = l2_blend_neon, .score_places = score_places, .bends = bends,
        .blend_sub = blend_sub_neon, .dots = dots_neon, .unblend = unblend_neon,
        .axpy = axpy_neon, .scale = scale_neon, .sub = sub_neon, .place = place_neon,
        .mix = mix, .mix_run = mix_run, .mix_bent = mix_bent, .spread_places = spread_places, .slopes = snls_slopes, .spread_patch = spread_patch,
        .dot_patch = dot_patch, .settle = settle, .aim = aim, .tilt = tilt, .pull_patch = pull_patch, .draw_patch = dsp->draw_patch, .pull_pixel = pull_pixel, .pull_list = pull_list,
        .from_f16 = from_f16_neon, .from_bf16 = from_bf16_neon, .to_f16 = to_f16_neon, .to_bf16 = to_bf16_neon,
    };
}
#else
typedef int snls_dsp_neon_is_empty;
#endif
