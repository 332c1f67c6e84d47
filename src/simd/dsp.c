/* dsp.c: the plain C version of every inner loop, and the choice among the instruction sets.
 * To be built with -ffp-contract=off, so that it gives the same bits on every machine. */
#include "simd/dsp.h"
#include "simd/place.h"
#include "simd/pull_list.h"
#include "simd/slopes.h"
#include "simd/settle_body.h"

#include <string.h>
#if defined(__x86_64__)
#  include <cpuid.h>
#endif

/* Sums run in LANES partial sums, element i in lane i % LANES: more exact than one, and compilers make vectors of it
 * (of a local array, which no pointer reaches). */
#define LANES 8

static float lanes_sum(const float s[LANES])
{
    return ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
}

static float dot_c(const float *a, const float *b, ptrdiff_t n)
{
    float s[LANES] = { 0 };
    ptrdiff_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++) s[k] += a[i + k] * b[i + k];
    for (int k = 0; i < n; i++, k++) s[k] += a[i] * b[i];
    return lanes_sum(s);
}

static float l2_c(const float *a, const float *b, ptrdiff_t n)
{
    float s[LANES] = { 0 };
    ptrdiff_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++) {
            const float d = a[i + k] - b[i + k];
            s[k] += d * d;
        }
    for (int k = 0; i < n; i++, k++) s[k] += (a[i] - b[i]) * (a[i] - b[i]);
    return lanes_sum(s);
}

static void dot_row_c(float *out, const float *q, const float *key, ptrdiff_t step, ptrdiff_t m, ptrdiff_t n)
{
    for (ptrdiff_t j = 0; j < m; j++) out[j] += dot_c(q, key + j * step, n);
}

static void l2_row_c(float *out, const float *q, const float *key, ptrdiff_t step, ptrdiff_t m, ptrdiff_t n)
{
    for (ptrdiff_t j = 0; j < m; j++) out[j] += l2_c(q, key + j * step, n);
}

static void axpy_c(float *y, float a, const float *x, ptrdiff_t n)
{
    for (ptrdiff_t i = 0; i < n; i++) y[i] += a * x[i];
}

static void blend_c(float *out, const float *const *tap, const float *w, int taps, ptrdiff_t n)
{
    const float *const a = tap[0], u = w[0];
    if (taps == 1) {
        for (ptrdiff_t i = 0; i < n; i++) out[i] = u * a[i];
        return;
    }
    const float *const b = tap[1], v = w[1];
    for (ptrdiff_t i = 0; i < n; i++) out[i] = u * a[i] + v * b[i];
    for (int t = 2; t < taps; t++) axpy_c(out, w[t], tap[t], n);
}

/* The blend from element i on, as much as fits in v; returns how much. A full piece is whole lanes, so that a sum over
 * pieces is the sum over the blended array. */
#define PIECE (8 * LANES)

static ptrdiff_t blend_piece(float v[PIECE], const float *const *tap, const float *w, int taps, ptrdiff_t i, ptrdiff_t n)
{
    const ptrdiff_t count = n - i < PIECE ? n - i : PIECE;
    const float *at[4] = { tap[0] + i };
    for (int t = 1; t < taps; t++) at[t] = tap[t] + i;
    blend_c(v, at, w, taps, count);
    return count;
}

/* The terms of a blend added to lanes that hold sums. */
static void add_blend(float s[LANES], const float *q, const float *const *tap, const float *w, int taps, ptrdiff_t n, int prod)
{
    float v[PIECE];
    for (ptrdiff_t i = 0; i < n; i += PIECE) {
        const ptrdiff_t count = blend_piece(v, tap, w, taps, i, n);
        const float *const x = q + i;
        ptrdiff_t j = 0;
        if (!prod)
            for (ptrdiff_t l = 0; l < count; l++) v[l] = x[l] - v[l];
        const float *const y = prod ? x : v;
        for (; j + LANES <= count; j += LANES)
            for (int k = 0; k < LANES; k++) s[k] += y[j + k] * v[j + k];
        for (int k = 0; j < count; j++, k++) s[k] += y[j] * v[j];
    }
}

static float dot_blend_c(const float *q, const float *const *tap, const float *w, int taps, ptrdiff_t n)
{
    float s[LANES] = { 0 };
    add_blend(s, q, tap, w, taps, n, 1);
    return lanes_sum(s);
}

static float l2_blend_c(const float *q, const float *const *tap, const float *w, int taps, ptrdiff_t n)
{
    float s[LANES] = { 0 };
    add_blend(s, q, tap, w, taps, n, 0);
    return lanes_sum(s);
}

static void score_places_c(float *out, const float *const *at, ptrdiff_t count, const SnlsReads *r)
{
    const float w[4] = { r->shape ? r->w[0] : 1, r->w[r->shape == 2 ? 2 : 1], r->w[2], r->w[3] };
    const int taps = r->shape == 3 ? 4 : r->shape ? 2 : 1;
    for (ptrdiff_t i = 0; i < count; i++) {
        float s[LANES] = { 0 };
        for (ptrdiff_t p = 0; p < r->rows * r->run; p++) {
            const float *const from = at[i] + p / r->run * r->next_down + p % r->run * r->next_right, *tap[4] = { from };
            if (taps > 1) tap[1] = from + (r->shape == 2 ? r->down : r->right);
            if (taps > 2) tap[2] = from + r->down, tap[3] = from + r->down + r->right;
            add_blend(s, r->q + p * r->n, tap, w, taps, r->n, r->prod);
        }
        out[i] = lanes_sum(s);
    }
}

static void blend_sub_c(float *out, const float *q, const float *const *tap, const float *w, int taps, ptrdiff_t n)
{
    float v[PIECE];
    for (ptrdiff_t i = 0; i < n; i += PIECE) {
        const ptrdiff_t count = blend_piece(v, tap, w, taps, i, n);
        for (ptrdiff_t j = 0; j < count; j++) out[i + j] = v[j] - q[i + j];
    }
}

static void dots_c(float *out, const float *x, const float *const *tap, ptrdiff_t n)
{
    for (int t = 0; t < 4; t++) out[t] = dot_c(x, tap[t], n);
}

static void unblend_c(float *const *y, const float *w, int taps, const float *x, ptrdiff_t n)
{
    for (int t = 0; t < taps; t++) axpy_c(y[t], w[t], x, n);
}

static void scale_c(float *y, float a, ptrdiff_t n)
{
    for (ptrdiff_t i = 0; i < n; i++) y[i] *= a;
}

static void sub_c(float *out, const float *a, const float *b, ptrdiff_t n)
{
    for (ptrdiff_t i = 0; i < n; i++) out[i] = a[i] - b[i];
}

static void mix_pixel_c(float *out, const SnlsPlaces *from, ptrdiff_t i, ptrdiff_t count, ptrdiff_t shift, const SnlsGrid *grid)
{
    const ptrdiff_t right = grid->right, down = grid->down, n = grid->n;
    for (ptrdiff_t k = i; k < i + count; k++) {
        const float *const at = from->at[k] + shift;
        axpy_c(out, from->w[0][k], at, n);
        if (grid->shape & 1) axpy_c(out, from->w[1][k], at + right, n);
        if (grid->shape & 2) axpy_c(out, from->w[2][k], at + down, n);
        if (grid->shape == 3) axpy_c(out, from->w[3][k], at + down + right, n);
    }
}

static void mix_c(float *out, const SnlsPatch *patch, const SnlsPlaces *from, ptrdiff_t i, ptrdiff_t count, ptrdiff_t shift, const SnlsGrid *grid)
{
    for (ptrdiff_t r = 0; r < patch->rows; r++)
        for (ptrdiff_t s = 0; s < patch->run; s++)
            mix_pixel_c(out + r * patch->down + s * patch->right, from, i, count, shift + r * grid->down + s * grid->right, grid);
}

static void mix_run_c(float *out, const SnlsPatch *patch, const SnlsRun *run, const SnlsPlaces *from, ptrdiff_t i, ptrdiff_t shift, const SnlsGrid *grid)
{
    for (ptrdiff_t q = 0; q < run->queries; q++, out += run->step, i += run->places) {
        if (run->set) memset(out, 0, (size_t)grid->n * sizeof *out);
        mix_c(out, patch, from, i, run->count, shift, grid);
    }
}

static void mix_bent_c(float *out, const SnlsPatch *patch, const float *const *row, const ptrdiff_t *column, const float w[4], const SnlsGrid *grid)
{
    for (ptrdiff_t r = 0; r < patch->rows; r++)
        for (ptrdiff_t s = 0; s < patch->run; s++)
            for (int m = 0; m < 4; m++)
                if ((m & grid->shape) == m) axpy_c(out + r * patch->down + s * patch->right, w[m], row[r + (m >> 1)] + column[s + (m & 1)], grid->n);
}

static void dot_patch_c(float *out, const SnlsPlaces *from, ptrdiff_t count, ptrdiff_t shift, const float *g, const SnlsPatch *patch, const SnlsGrid *grid)
{
    for (ptrdiff_t i = 0; i < count; i++, out += 4) {
        out[0] = out[1] = out[2] = out[3] = 0;
        for (ptrdiff_t r = 0; r < patch->rows; r++)
            for (ptrdiff_t s = 0; s < patch->run; s++) {
                const float *const pixel = g + from->k[i] * patch->of_k + r * patch->down + s * patch->right;
                const float *const at = from->at[i] + shift + r * grid->down + s * grid->right;
                for (int m = 0; m < 4; m++)
                    if ((m & grid->shape) == m) out[m] += dot_c(pixel, at + (m & 1) * grid->right + (m >> 1) * grid->down, grid->n);
            }
    }
}

static void spread_patch_c(float *out, const float *w, const float *g, const SnlsPatch *patch, ptrdiff_t first, ptrdiff_t end, const SnlsGrid *grid)
{
    for (ptrdiff_t r = 0; r < patch->rows; r++)
        for (ptrdiff_t s = 0; s < patch->run; s++)
            for (int m = 0; m < 4; m++) {
                const ptrdiff_t row = r + (m >> 1), column = s + (m & 1);
                if ((m & grid->shape) != m || row < first || row >= end) continue;
                axpy_c(out + row * grid->down + column * grid->right, w[m], g + r * patch->down + s * patch->right, grid->n);
            }
}

static void spread_places_c(const SnlsPlaces *to, ptrdiff_t i, ptrdiff_t count, float factor, ptrdiff_t shift, const float *g, const SnlsPatch *patch, const SnlsGrid *grid)
{
    for (ptrdiff_t k = i; k < i + count; k++) {
        const float w[4] = { factor * to->w[0][k], factor * to->w[1][k], factor * to->w[2][k], factor * to->w[3][k] };
        spread_patch_c((float *)(uintptr_t)to->at[k] + shift, w, g + to->k[k] * patch->of_k, patch, 0, patch->rows + 1, grid);
    }
}

static float read_c(const SnlsPair *pair, const float *at, const SnlsGrid *grid)
{
    float sum = pair->w[0] * at[0];
    if (grid->shape & 1) sum += pair->w[1] * at[grid->right];
    if (grid->shape & 2) sum += pair->w[2] * at[grid->down];
    if (grid->shape == 3) sum += pair->w[3] * at[grid->down + grid->right];
    return sum;
}

static void pull_patch_c(float *along, float *to, float g, const SnlsPair *pair, const SnlsPatch *patch, const SnlsGrid *grid)
{
    float s[4][LANES] = { { 0 } };
    for (ptrdiff_t e = 0; e < patch->rows * patch->run; e++) {
        const ptrdiff_t r = e / patch->run, c = e % patch->run, there = r * patch->down + c * patch->right;
        const float *const at = pair->at + r * grid->down + c * grid->right, *const q = pair->q + there;
        for (ptrdiff_t i = 0; i < grid->n; i++) {
            const float read = read_c(pair, at + i, grid), d = pair->prod ? read : read - q[i], x = pair->prod ? q[i] : d;
            if (to) to[there + i] += g * d;
            if (pair->out && !pair->prod) pair->out[r * pair->out_down + c * grid->n + i] = d;
            for (int m = 0; along && m < 4; m++) s[m][i % LANES] += x * at[i + (m & 1) * grid->right + (m >> 1) * grid->down];
        }
    }
    for (int m = 0; along && m < 4; m++) along[m] = lanes_sum(s[m]);
}

static int draw_patch_c(float *along, float *to, float g, const SnlsPair *pair, const SnlsPatch *patch, const SnlsGrid *grid, float *out, const float w[4], const SnlsGrid *out_grid)
{
    (void)along, (void)to, (void)g, (void)pair, (void)patch, (void)grid, (void)out, (void)w, (void)out_grid;
    return 0; /* pays where there are registers enough */
}

static void pull_pixel_c(float *along, const SnlsPixel *p)
{
    float s[4][LANES] = {{0}};
    const float g = p->prod ? p->g : -p->g;
    for (ptrdiff_t i = 0; i < p->n; i++) {
        const float *at = p->at + i;
        float read = p->w[0] * at[0];
        for (int m = 1; m < 4; m++)
            if ((p->shape & m) == m) read += p->w[m] * at[(m & 1) * p->right + (m >> 1) * p->down];
        const float e = p->prod ? read : read - p->q[i], d = p->prod ? p->q[i] : e;
        if (p->to) p->to[i] += g * e;
        for (int m = 0; along && m < 4; m++) s[m][i % LANES] += d * at[(m & 1) * p->right + (m >> 1) * p->down];
        for (int m = 0; p->out && m < 4; m++)
            if ((p->shape & m) == m && p->rows >> (m >> 1) & 1) p->out[i + (m & 1) * p->out_right + (m >> 1) * p->out_down] += p->g * p->w[m] * d;
    }
    for (int m = 0; along && m < 4; m++) along[m] = lanes_sum(s[m]);
}

static void pull_list_c(const SnlsSettled *s, ptrdiff_t n, const SnlsPulls *c)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        SnlsPixel p;
        if (snls_pull_pixel(&p, s, i, c)) pull_pixel_c(s->window[i] >= c->first_along ? c->along[i] : NULL, &p);
    }
}

/* The same conversions as base/half.h, which simd/ may not include; test_dsp holds the two equal, bit for bit. */

static uint32_t bits_of(float x) { uint32_t u; memcpy(&u, &x, sizeof u); return u; }
static float float_of(uint32_t u) { float x; memcpy(&x, &u, sizeof x); return x; }

static float f16_to_float(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000u) << 16, magnitude = h & 0x7fffu;
    if (magnitude > 0x7c00u) return float_of(sign | 0x7fc00000u | magnitude << 13); /* NaN, made quiet */
    if (magnitude == 0x7c00u) return float_of(sign | 0x7f800000u);
    if (magnitude >= 0x400u) return float_of(sign | ((magnitude << 13) + 0x38000000u));
    return float_of(sign | bits_of((float)magnitude * 0x1p-24f)); /* denormal in binary16, exact in float */
}

static uint16_t float_to_f16(float x)
{
    const uint32_t u = bits_of(x), sign = u >> 16 & 0x8000u, magnitude = u & 0x7fffffffu;
    uint32_t h;
    if (magnitude > 0x7f800000u) h = 0x7e00u | (magnitude >> 13 & 0x3ffu); /* NaN, made quiet */
    else if (magnitude >= 0x477ff000u) h = 0x7c00u;                        /* rounds past 65504 */
    else if (magnitude >= 0x38800000u) h = (magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1)) >> 13;
    else h = bits_of(float_of(magnitude) + 0.5f) - 0x3f000000u; /* one unit of 0.5f is the smallest denormal */
    return (uint16_t)(sign | h);
}

static uint16_t float_to_bf16(float x)
{
    const uint32_t u = bits_of(x);
    if ((u & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(u >> 16 | 0x40); /* rounding could make it infinite */
    return (uint16_t)((u + 0x7fffu + (u >> 16 & 1)) >> 16);
}

static void from_f16_c(float *out, const uint16_t *in, ptrdiff_t n)
{
    for (ptrdiff_t i = 0; i < n; i++) out[i] = f16_to_float(in[i]);
}

static void from_bf16_c(float *out, const uint16_t *in, ptrdiff_t n)
{
    for (ptrdiff_t i = 0; i < n; i++) out[i] = float_of((uint32_t)in[i] << 16);
}

static void to_f16_c(uint16_t *out, const float *in, ptrdiff_t n)
{
    for (ptrdiff_t i = 0; i < n; i++) out[i] = float_to_f16(in[i]);
}

static void to_bf16_c(uint16_t *out, const float *in, ptrdiff_t n)
{
    for (ptrdiff_t i = 0; i < n; i++) out[i] = float_to_bf16(in[i]);
}

static void bends_c(float out[3], const float *k, const float *right, const float *lower, const float *both, ptrdiff_t n)
{
    float across = 0;
    for (ptrdiff_t i = 0; i < n; i++) {
        const float e = (k[i] - right[i]) - (lower[i] - both[i]);
        across += e * e;
    }
    out[0] = l2_c(k, right, n);
    out[1] = l2_c(k, lower, n);
    out[2] = across;
}

void snls_dsp_init_c(SnlsDsp *dsp)
{
    *dsp = (SnlsDsp){
        .dot = dot_c, .l2 = l2_c, .dot_row = dot_row_c, .l2_row = l2_row_c,
        .blend = blend_c, .dot_blend = dot_blend_c, .l2_blend = l2_blend_c, .score_places = score_places_c, .bends = bends_c,
        .blend_sub = blend_sub_c, .dots = dots_c, .unblend = unblend_c,
        .axpy = axpy_c, .scale = scale_c, .sub = sub_c,
        .place = snls_place, .mix = mix_c, .mix_run = mix_run_c, .mix_bent = mix_bent_c, .spread_places = spread_places_c, .slopes = snls_slopes, .pull_patch = pull_patch_c, .draw_patch = draw_patch_c, .pull_pixel = pull_pixel_c, .pull_list = pull_list_c, .dot_patch = dot_patch_c, .settle = settle, .aim = aim, .tilt = tilt, .spread_patch = spread_patch_c,
        .from_f16 = from_f16_c, .from_bf16 = from_bf16_c, .to_f16 = to_f16_c, .to_bf16 = to_bf16_c,
    };
}

#if defined(__x86_64__)

/* __builtin_cpu_supports also asks whether the operating system saves the registers. Not every compiler that has it
 * knows "f16c", so that bit is read here; it needs no state beyond AVX's. */
static int has_f16c(void)
{
    unsigned eax, ebx, ecx, edx;
    return __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & bit_F16C);
}

static int detect_level(void)
{
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !has_f16c()) return 1;
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") ? 3 : 2;
}

/* Asked once: in a virtual machine cpuid takes microseconds, and every search asks. */
int snls_dsp_level_max(void)
{
    static _Atomic int known; /* 0: not asked yet; threads that ask at once find the same */
    if (!known) known = detect_level();
    return known;
}

#elif defined(__aarch64__)

int snls_dsp_level_max(void) { return 2; }

#else

int snls_dsp_level_max(void) { return 1; }

#endif

void snls_dsp_init(SnlsDsp *dsp, int level)
{
    const int max = snls_dsp_level_max();
    if (level > max) level = max;
    snls_dsp_init_c(dsp);
#if defined(__x86_64__)
    if (level >= 2) snls_dsp_init_avx2(dsp);
    if (level >= 3) snls_dsp_init_avx512(dsp);
#elif defined(__aarch64__)
    if (level >= 2) snls_dsp_init_neon(dsp);
#endif
}
