/* sieve_bf16.c: what the rough half of the sieve begins with on AArch64: bf16 parts as BFMMLA takes them, and who fits a box. Rough scores:
 * sieve_prod_bf16.c and sieve_scan_bf16.c; who may be among the best: sieve_hits_bf16.c. */
#if defined(__aarch64__) && defined(SNLS_HAVE_BF16)
#include "simd/sieve_bf16.h"

enum { CHUNK = SNLS_SIEVE_CHUNK };

/* ---- bf16 parts ---- */

typedef struct Eight { float32x4_t low, high; } Eight;           /* features f .. f+7 */
typedef struct Part { bfloat16x8_t high, low; } Part;            /* the same as one part or two */
typedef struct Sums { float32x4_t norm[2], lost[2], along[2]; } Sums; /* over the features of a pixel: squares, those of what rounding to one part takes off, products with another vector */

enum { ONE_ROUNDED, ONE, TWO }; /* parts, and what lengths are those of */

ALWAYS Eight load_eight(const float *in, ptrdiff_t left) /* zeros after so many */
{
    if (left >= 8) return (Eight){vld1q_f32(in), vld1q_f32(in + 4)};
    float part[8] = {0};
    for (ptrdiff_t i = 0; i < left; i++) part[i] = in[i];
    return (Eight){vld1q_f32(part), vld1q_f32(part + 4)};
}

ALWAYS bfloat16x8_t round_eight(Eight v) { return vcvtq_high_bf16_f32(vcvtq_low_bf16_f32(v.low), v.high); }
ALWAYS Eight widen(bfloat16x8_t v) { return (Eight){vcvtq_low_f32_bf16(v), vcvtq_high_f32_bf16(v)}; }
ALWAYS Eight minus(Eight a, Eight b) { return (Eight){vsubq_f32(a.low, b.low), vsubq_f32(a.high, b.high)}; }

ALWAYS void add_products(float32x4_t sum[2], Eight a, Eight b)
{
    sum[0] = vfmaq_f32(sum[0], a.low, b.low);
    sum[1] = vfmaq_f32(sum[1], a.high, b.high);
}

/* Features f .. f+7 of (in - centre)*scale. along: NULL, or a vector to be multiplied with. */
ALWAYS Part split_eight(const float *in, ptrdiff_t f, const SnlsSieveParts *as, const int way, float scale, const float *along, Sums *sum)
{
    const ptrdiff_t left = as->features - f;
    Eight v = load_eight(in + (left > 0 ? f : 0), left);
    if (along && left > 0) add_products(sum->along, v, load_eight(along + f, left));
    if (as->centre && left > 0) v = minus(v, load_eight(as->centre + f, left));
    v = (Eight){vmulq_n_f32(v.low, scale), vmulq_n_f32(v.high, scale)};
    if (way != ONE_ROUNDED) add_products(sum->norm, v, v);
    Part p = {.high = round_eight(v)};
    p.low = p.high;
    if (way == ONE_ROUNDED) add_products(sum->norm, widen(p.high), widen(p.high));
    const Eight left_out = minus(v, widen(p.high));
    if (way == TWO) p.low = round_eight(left_out);
    else add_products(sum->lost, left_out, left_out);
    return p;
}

ALWAYS float total(const float32x4_t sum[2]) { return vaddvq_f32(vaddq_f32(sum[0], sum[1])); }
ALWAYS Sums no_sums(void) { return (Sums){{vdupq_n_f32(0), vdupq_n_f32(0)}, {vdupq_n_f32(0), vdupq_n_f32(0)}, {vdupq_n_f32(0), vdupq_n_f32(0)}}; }

/* Four features of two pixels are an operand. */
ALWAYS void store_pair(uint16_t *to, ptrdiff_t apart, bfloat16x8_t a, bfloat16x8_t b)
{
    const uint64x2_t x = vreinterpretq_u64_bf16(a), y = vreinterpretq_u64_bf16(b);
    vst1q_u16(to, vreinterpretq_u16_u64(vzip1q_u64(x, y)));
    vst1q_u16(to + apart, vreinterpretq_u16_u64(vzip2q_u64(x, y)));
}

/* Two pixels, or one and nothing. */
ALWAYS void split_pair(uint16_t *out, const SnlsSieveParts *as, const int way, const float *a, const float *b, float norm[2], float lost[2])
{
    Sums sum_a = no_sums(), sum_b = sum_a;
    for (ptrdiff_t f = 0; f < as->padded; f += 8) {
        const Part p = split_eight(a, f, as, way, 1, NULL, &sum_a), none = {vreinterpretq_bf16_u16(vdupq_n_u16(0)), vreinterpretq_bf16_u16(vdupq_n_u16(0))};
        const Part q = b ? split_eight(b, f, as, way, 1, NULL, &sum_b) : none;
        store_pair(out + 2 * f, 8, p.high, q.high);
        if (way == TWO) store_pair(out + 2 * (as->padded + f), 8, p.low, q.low);
    }
    norm[0] = total(sum_a.norm), norm[1] = total(sum_b.norm);
    lost[0] = total(sum_a.lost), lost[1] = total(sum_b.lost);
}

/* The largest so far, pixel by pixel; NaN stays: nothing is above it. */
ALWAYS float larger(float a, float before) { return a != a || a > before ? a : before; }

ALWAYS void split_row(uint16_t *out, const SnlsSieveParts *as, const int way, const float *in, ptrdiff_t step, ptrdiff_t n, float *norm, float *most)
{
    for (ptrdiff_t i = 0; i < n; i += 2) {
        float both[2], lost[2];
        split_pair(out + i * as->parts * as->padded, as, way, in + i * step, i + 1 < n ? in + (i + 1) * step : NULL, both, lost);
        for (ptrdiff_t j = i; j < i + 2 && j < n; j++) {
            const ptrdiff_t block = j / LANES;
            norm[j] = both[j - i];
            most[block] = larger(norm[j], j % LANES ? most[block] : 0);
            if (way != TWO) as->lost[block] = larger(lost[j - i], j % LANES ? as->lost[block] : 0);
        }
    }
}

ALWAYS int way_of(const SnlsSieveParts *as) { return as->parts > 1 ? TWO : as->rounded ? ONE_ROUNDED : ONE; }

static void split(uint16_t *out, const SnlsSieveParts *as, const float *in, ptrdiff_t step, ptrdiff_t n, float *norm, float *most)
{
    switch (way_of(as)) {
    case ONE_ROUNDED: split_row(out, as, ONE_ROUNDED, in, step, n, norm, most); break;
    case ONE: split_row(out, as, ONE, in, step, n, norm, most); break;
    default: split_row(out, as, TWO, in, step, n, norm, most);
    }
}

/* Four features of all pairs of queries lie side by side. */
ALWAYS void pair_queries(uint16_t *out, const SnlsSieveParts *as, const int way, const float *const *in, float scale, float *norm, const float *along, float *product)
{
    for (int l = 0; l < LANES; l += 2) {
        Sums a = no_sums(), b = a;
        for (ptrdiff_t f = 0; f < as->padded; f += 8) {
            const Part p = split_eight(in[l], f, as, way, scale, along, &a), q = split_eight(in[l + 1], f, as, way, scale, along, &b);
            store_pair(out + f * LANES + 4 * l, 4 * LANES, p.high, q.high);
            if (way == TWO) store_pair(out + (as->padded + f) * LANES + 4 * l, 4 * LANES, p.low, q.low);
        }
        norm[l] = total(a.norm) / (scale * scale), norm[l + 1] = total(b.norm) / (scale * scale);
        if (way != TWO) as->lost[l] = total(a.lost) / (scale * scale), as->lost[l + 1] = total(b.lost) / (scale * scale);
        if (along) product[l] = total(a.along), product[l + 1] = total(b.along);
    }
}

static void queries(uint16_t *out, const SnlsSieveParts *as, const float *const *in, float scale, float *norm, const float *along, float *product)
{
    switch (way_of(as)) {
    case ONE_ROUNDED: pair_queries(out, as, ONE_ROUNDED, in, scale, norm, along, product); break;
    case ONE: pair_queries(out, as, ONE, in, scale, norm, along, product); break;
    default: pair_queries(out, as, TWO, in, scale, norm, along, product);
    }
}

static void start(void) {}
static void stop(void) {}

/* ---- boxes ---- */

static int between(const SnlsSieveLanes *axis, uint32_t lanes, int32_t steps)
{
    uint32_t some = 0;
    for (int l = 0; l < LANES; l++) some |= (uint32_t)(axis->fraction[l] > 0 || axis->fraction[l] < 0) << l;
    return steps > 1 || (some & lanes) != 0;
}

static uint32_t fit(const SnlsSieveLanes *axis, uint32_t lanes, int32_t size, SnlsSieveSpan *span)
{
    int32_t first = INT32_MAX, end = INT32_MIN;
    uint32_t taken = 0;
    for (int l = 0; l < LANES; l++) {
        const int32_t here = lanes >> l & 1 ? axis->first[l] : INT32_MAX;
        first = here < first ? here : first;
    }
    const int64_t limit = (int64_t)first + size;
    for (int l = 0; l < LANES; l++) {
        const int in = (lanes >> l & 1) && axis->end[l] < limit;
        const int32_t here = in ? axis->end[l] : INT32_MIN;
        end = here > end ? here : end;
        taken |= (uint32_t)in << l;
    }
    *span = (SnlsSieveSpan){first, end};
    return taken;
}

void snls_sieve_init_bf16(SnlsSieve *sieve)
{
    *sieve = (SnlsSieve){.start = start, .stop = stop, .split = split, .queries = queries, .fit = fit, .between = between, .hits = snls_sieve_hits_bf16, .parts = 2, .grain = SNLS_SIEVE_GRAIN};
    snls_sieve_init_scan_bf16(sieve);
    snls_sieve_init_fine_neon(sieve);
}

#else
typedef int snls_sieve_bf16_is_empty;
#endif
