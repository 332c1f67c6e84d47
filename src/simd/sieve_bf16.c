/* sieve_bf16.c: what the rough half of the sieve begins with on AArch64: bf16 parts as BFMMLA takes them, who fits a box, who may be among the best.
 * sieve_scan_bf16.c makes the rough scores. */
#if defined(__aarch64__) && defined(SNLS_HAVE_BF16)
#include "simd/sieve.h"
#include <arm_neon.h>
#include <float.h>

#define ALWAYS static inline __attribute__((always_inline))
enum { LANES = SNLS_SIEVE_LANES, CHUNK = SNLS_SIEVE_CHUNK };

/* ---- bf16 parts ---- */

typedef struct Eight { float32x4_t low, high; } Eight;           /* features f .. f+7 */
typedef struct Part { bfloat16x8_t high, low; } Part;            /* the same as one part or two */
typedef struct Sums { float32x4_t norm[2], along[2]; } Sums;     /* over the features of a pixel: squares, products with another vector */

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
    if (way == TWO) p.low = round_eight(minus(v, widen(p.high)));
    return p;
}

ALWAYS float total(const float32x4_t sum[2]) { return vaddvq_f32(vaddq_f32(sum[0], sum[1])); }
ALWAYS Sums no_sums(void) { return (Sums){{vdupq_n_f32(0), vdupq_n_f32(0)}, {vdupq_n_f32(0), vdupq_n_f32(0)}}; }

/* Four features of two pixels are an operand. */
ALWAYS void store_pair(uint16_t *to, ptrdiff_t apart, bfloat16x8_t a, bfloat16x8_t b)
{
    const uint64x2_t x = vreinterpretq_u64_bf16(a), y = vreinterpretq_u64_bf16(b);
    vst1q_u16(to, vreinterpretq_u16_u64(vzip1q_u64(x, y)));
    vst1q_u16(to + apart, vreinterpretq_u16_u64(vzip2q_u64(x, y)));
}

/* Two pixels, or one and nothing. */
ALWAYS void split_pair(uint16_t *out, const SnlsSieveParts *as, const int way, const float *a, const float *b, float norm[2])
{
    Sums sum_a = no_sums(), sum_b = sum_a;
    for (ptrdiff_t f = 0; f < as->padded; f += 8) {
        const Part p = split_eight(a, f, as, way, 1, NULL, &sum_a), none = {vreinterpretq_bf16_u16(vdupq_n_u16(0)), vreinterpretq_bf16_u16(vdupq_n_u16(0))};
        const Part q = b ? split_eight(b, f, as, way, 1, NULL, &sum_b) : none;
        store_pair(out + 2 * f, 8, p.high, q.high);
        if (way == TWO) store_pair(out + 2 * (as->padded + f), 8, p.low, q.low);
    }
    norm[0] = total(sum_a.norm), norm[1] = total(sum_b.norm);
}

ALWAYS void split_row(uint16_t *out, const SnlsSieveParts *as, const int way, const float *in, ptrdiff_t step, ptrdiff_t n, float *norm, float *most)
{
    for (ptrdiff_t i = 0; i < n; i += 2) {
        float both[2];
        split_pair(out + i * as->parts * as->padded, as, way, in + i * step, i + 1 < n ? in + (i + 1) * step : NULL, both);
        for (ptrdiff_t j = i; j < i + 2 && j < n; j++) {
            const float before = j % LANES ? most[j / LANES] : 0;
            norm[j] = both[j - i];
            most[j / LANES] = norm[j] != norm[j] || norm[j] > before ? norm[j] : before; /* NaN stays: nothing is above it */
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

/* ---- who may be among the best ---- */

/* At pixels and halves: lanes whose cells have a second candidate up to a column, and up to a row; and lanes of which all such cells have another cell beside and
 * below them, all bits of those. */
typedef struct Edges { int32_t two_y[LANES], two_x[LANES]; uint32_t whole[LANES]; } Edges;

static Edges edges_of(const SnlsSieveTable *t, ptrdiff_t box)
{
    const SnlsSieveLanes *y = &t->y[t->slot[box]], *x = &t->x[t->slot[box]];
    Edges e;
    for (int l = 0; l < LANES; l++) {
        const int32_t until_y = (y->to[l] + y->base[l]) >> 1, until_x = (x->to[l] + x->base[l]) >> 1;
        e.two_y[l] = until_y - t->origin_y[box], e.two_x[l] = until_x - t->origin_x[box];
        e.whole[l] = until_y < y->end[l] && until_x < x->end[l] ? ~0u : 0;
    }
    return e;
}

/* The three least of four lanes of a row of cells and the columns of the first two. */
typedef struct Trio { float32x4_t least[3]; int32x4_t column[2]; } Trio;

ALWAYS Trio trio_of(const SnlsSieveRows *from, int row, int h)
{
    const int32x4_t mask = vdupq_n_s32((1 << from->bits) - 1);
    Trio t;
    for (int i = 0; i < 3; i++) t.least[i] = row < from->rows ? vld1q_f32(from->least[i] + row * LANES + h) : vdupq_n_f32(__builtin_inff());
    for (int i = 0; i < 2; i++) t.column[i] = vandq_s32(vreinterpretq_s32_f32(t.least[i]), mask);
    return t;
}

/* Lanes in whose least cell only the candidate at the pixel a can be below the limit. The others are means of a and its neighbours b, c and d, which are not below
 * the scores of the cells they begin: those of the first two of a row are known, others are not below the third. d may be the least of its row. */
ALWAYS uint32x4_t only_first(const Trio *here, const Trio *next, int row, const Edges *e, int h, float32x4_t limit)
{
    const int32x4_t column = here->column[0], beside = vaddq_s32(column, vdupq_n_s32(1));
    const uint32x4_t right = vcltq_s32(column, vld1q_s32(e->two_x + h)), down = vcgtq_s32(vld1q_s32(e->two_y + h), vdupq_n_s32(row));
    const float32x4_t none = vdupq_n_f32(__builtin_inff()), a = here->least[0];
    float32x4_t b = vbslq_f32(vceqq_s32(here->column[1], beside), here->least[1], here->least[2]);
    float32x4_t c = vbslq_f32(vceqq_s32(next->column[1], column), next->least[1], next->least[2]);
    c = vbslq_f32(vceqq_s32(next->column[0], column), next->least[0], c);
    b = vbslq_f32(right, b, none), c = vbslq_f32(down, c, none); /* where there is none */
    const float32x4_t ab = vaddq_f32(a, b), ac = vaddq_f32(a, c), all = vaddq_f32(ab, vaddq_f32(c, next->least[0])), twice = vaddq_f32(limit, limit);
    const uint32x4_t above = vandq_u32(vandq_u32(vcgtq_f32(ab, twice), vcgtq_f32(ac, twice)), vcgtq_f32(all, vaddq_f32(twice, twice)));
    return vandq_u32(above, vld1q_u32(e->whole + h));
}

/* Sixteen lanes as bits. */
ALWAYS uint32_t bits_of(const uint32x4_t where[LANES / 4])
{
    static const uint8_t bit[LANES] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    const uint16x8_t low = vuzp1q_u16(vreinterpretq_u16_u32(where[0]), vreinterpretq_u16_u32(where[1]));
    const uint16x8_t high = vuzp1q_u16(vreinterpretq_u16_u32(where[2]), vreinterpretq_u16_u32(where[3]));
    const uint8x16_t bits = vandq_u8(vuzp1q_u8(vreinterpretq_u8_u16(low), vreinterpretq_u8_u16(high)), vld1q_u8(bit));
    return (uint32_t)vaddv_u8(vget_low_u8(bits)) | (uint32_t)vaddv_u8(vget_high_u8(bits)) << 8;
}

ALWAYS uint32_t not_above(const float *p, const float *limit)
{
    uint32x4_t where[LANES / 4];
    for (int i = 0; i < LANES / 4; i++) where[i] = vcleq_f32(vld1q_f32(p + 4 * i), vld1q_f32(limit + 4 * i));
    return bits_of(where);
}

/* Entries of those lanes of a row whose bits are set, without a branch for each: nobody could foresee them. */
ALWAYS void append(SnlsSieveEntries *to, uint32_t lanes, uint32_t entry, const SnlsSieveRows *from, const float *least)
{
    uint32_t all[LANES], *at = to->at + to->count;
    const uint32x4_t mask = vdupq_n_u32((1u << from->bits) - 1);
    static const uint32_t lane[LANES] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    if (!lanes) return;
    for (int h = 0; h < LANES; h += 4) {
        const uint32x4_t column = vshlq_n_u32(vandq_u32(vreinterpretq_u32_f32(vld1q_f32(least + h)), mask), 4);
        vst1q_u32(all + h, vorrq_u32(vorrq_u32(column, vdupq_n_u32(entry)), vld1q_u32(lane + h)));
    }
#pragma GCC unroll 16
    for (int l = 0; l < LANES; l++) {
        *at = all[l];
        at += lanes >> l & 1;
    }
    to->count = at - to->at;
}

ALWAYS uint32_t alone_in(const SnlsSieveRows *from, int row, const Edges *edges, const float *limit)
{
    uint32x4_t where[LANES / 4];
    for (int h = 0; h < LANES; h += 4) {
        const Trio here = trio_of(from, row, h), next = trio_of(from, row + 1, h);
        where[h / 4] = only_first(&here, &next, row, edges, h, vld1q_f32(limit + h));
    }
    return bits_of(where);
}

static int hits(const SnlsSieveRows *from, const SnlsSieveTable *table, ptrdiff_t box, int row, const float *bar, SnlsSieveEntries *cells, SnlsSieveEntries *pixels)
{
    const SnlsSieveLanes *x = &table->x[table->slot[box]];
    const int halves = from->scale > 1, origin = table->origin_x[box];
    float limit[LANES];
    Edges edges;
    if (halves) edges = edges_of(table, box);
    for (int l = 0; l < LANES; l++) limit[l] = bar[l] * from->scale < FLT_MAX ? bar[l] * from->scale : FLT_MAX;
    for (; row < from->rows; row++) {
        if (cells->room - cells->count <= 4 * from->columns * LANES || pixels->room - pixels->count <= LANES) break; /* one more than there are is written */
        const float *least[3] = {from->least[0] + row * LANES, from->least[1] + row * LANES, from->least[2] + row * LANES};
        const uint32_t entry = snls_sieve_entry((uint32_t)box, (uint32_t)row, 0, 0), first = not_above(least[0], limit);
        if (!first) continue;
        const uint32_t all = not_above(least[2], limit), alone = halves ? first & ~all & alone_in(from, row, &edges, limit) : 0;
        append(pixels, alone, entry, from, least[0]);
        append(cells, first & ~all & ~alone, entry, from, least[0]);
        append(cells, not_above(least[1], limit) & ~all, entry, from, least[1]);
        for (uint32_t rest = all; rest; rest &= rest - 1) {
            const int l = __builtin_ctz(rest);
            for (int c = x->first[l] - origin; c < x->end[l] - origin; c++) cells->at[cells->count++] = entry | (uint32_t)c << 4 | (uint32_t)l;
        }
    }
    return row;
}

void snls_sieve_init_bf16(SnlsSieve *sieve)
{
    *sieve = (SnlsSieve){.start = start, .stop = stop, .split = split, .queries = queries, .fit = fit, .between = between, .hits = hits};
    snls_sieve_init_scan_bf16(sieve);
    snls_sieve_init_fine_neon(sieve);
}

#else
typedef int snls_sieve_bf16_is_empty;
#endif
