/* sieve_hits_bf16.c: who may be among the best, given the least rough scores of every row of cells: f32, or 16-bit numbers of products (sieve_prod_bf16.c). */
#if defined(__aarch64__) && defined(SNLS_HAVE_BF16)
#include "simd/sieve_bf16.h"
#include "simd/unroll.h"

enum { WIDTH = 8 };

/* Sixteen lanes as bits. */
ALWAYS uint32_t bits_of(uint16x8_t low, uint16x8_t high)
{
    static const uint8_t bit[LANES] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    const uint8x16_t bits = vandq_u8(vuzp1q_u8(vreinterpretq_u8_u16(low), vreinterpretq_u8_u16(high)), vld1q_u8(bit));
    return (uint32_t)vaddv_u8(vget_low_u8(bits)) | (uint32_t)vaddv_u8(vget_high_u8(bits)) << 8;
}

ALWAYS uint16x8_t not_above_eight(const float *p, const float *limit)
{
    const uint32x4_t low = vcleq_f32(vld1q_f32(p), vld1q_f32(limit)), high = vcleq_f32(vld1q_f32(p + 4), vld1q_f32(limit + 4));
    return vuzp1q_u16(vreinterpretq_u16_u32(low), vreinterpretq_u16_u32(high));
}

ALWAYS uint32_t not_above(const float *p, const float *limit) { return bits_of(not_above_eight(p, limit), not_above_eight(p + WIDTH, limit + WIDTH)); }

ALWAYS uint32_t not_above_16(const int16_t *p, const int16_t *limit)
{
    return bits_of(vcleq_s16(vld1q_s16(p), vld1q_s16(limit)), vcleq_s16(vld1q_s16(p + WIDTH), vld1q_s16(limit + WIDTH)));
}

/* Four scores, whose lowest bits say a column. */
ALWAYS uint32x4_t scores_of(const SnlsSieveRows *from, int i, int row, int h, const int numbers)
{
    const float *f = from->least[i] + row * LANES + h;
    const int16_t *n = (const int16_t *)(const void *)from->least[i] + row * LANES + h;
    return numbers ? vreinterpretq_u32_s32(vmovl_s16(vld1_s16(n))) : vreinterpretq_u32_f32(vld1q_f32(f));
}

/* Entries of those lanes of a row whose bits are set, with the column of score i, without a branch for each: nobody could foresee them. */
ALWAYS void append(SnlsSieveEntries *to, uint32_t lanes, uint32_t entry, const SnlsSieveRows *from, int i, int row, const int numbers)
{
    static const uint32_t lane[LANES] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    uint32_t all[LANES], *at = to->at + to->count;
    if (!lanes) return;
    const uint32x4_t mask = vdupq_n_u32((1u << from->bits) - 1);
    for (int h = 0; h < LANES; h += 4) {
        const uint32x4_t column = vandq_u32(scores_of(from, i, row, h, numbers), mask);
        vst1q_u32(all + h, vorrq_u32(vorrq_u32(vshlq_n_u32(column, 4), vdupq_n_u32(entry)), vld1q_u32(lane + h)));
    }
UNROLLED(16)
    for (int l = 0; l < LANES; l++) {
        *at = all[l];
        at += lanes >> l & 1;
    }
    to->count = at - to->at;
}

/* All cells of a row of some lanes. */
static void append_all(SnlsSieveEntries *to, uint32_t lanes, uint32_t entry, const SnlsSieveLanes *x, int32_t origin)
{
    for (; lanes; lanes &= lanes - 1) {
        const int l = __builtin_ctz(lanes);
        for (int32_t c = x->first[l] - origin; c < x->end[l] - origin; c++) to->at[to->count++] = entry | (uint32_t)c << 4 | (uint32_t)l;
    }
}

/* One more than there are is written. */
static int is_full(const SnlsSieveEntries *cells, const SnlsSieveEntries *pixels, int columns)
{
    return cells->room - cells->count <= 4 * columns * LANES || pixels->room - pixels->count <= LANES;
}

/* ---- f32 ---- */

static int hits_in_floats(const SnlsSieveRows *from, const SnlsSieveTable *table, ptrdiff_t box, int row, const float *bar, SnlsSieveEntries *cells, SnlsSieveEntries *pixels)
{
    const SnlsSieveLanes *x = &table->x[table->slot[box]];
    for (; row < from->rows && !is_full(cells, pixels, from->columns); row++) {
        const float *least[3] = {from->least[0] + row * LANES, from->least[1] + row * LANES, from->least[2] + row * LANES};
        const uint32_t entry = snls_sieve_entry((uint32_t)box, (uint32_t)row, 0, 0), first = not_above(least[0], bar);
        if (!first) continue;
        const uint32_t second = not_above(least[1], bar), all = not_above(least[2], bar);
        append(cells, first & ~all, entry, from, 0, row, 0);
        append(cells, second & ~all, entry, from, 1, row, 0);
        append_all(cells, all, entry, x, table->origin_x[box]);
    }
    return row;
}

/* ---- 16-bit numbers ---- */

/* At pixels and halves: lanes whose cells have a second candidate up to a column, and up to a row; and lanes of which all such cells have another cell beside and
 * below them, all bits of those. */
typedef struct Edges { int16_t two_y[LANES], two_x[LANES]; uint16_t whole[LANES]; } Edges;

static void set_edges(Edges *e, const SnlsSieveTable *t, ptrdiff_t box)
{
    const SnlsSieveLanes *y = &t->y[t->slot[box]], *x = &t->x[t->slot[box]];
    for (int l = 0; l < LANES; l++) {
        const int32_t until_y = (y->to[l] + y->base[l]) >> 1, until_x = (x->to[l] + x->base[l]) >> 1;
        e->two_y[l] = (int16_t)(until_y - t->origin_y[box]), e->two_x[l] = (int16_t)(until_x - t->origin_x[box]);
        e->whole[l] = until_y < y->end[l] && until_x < x->end[l] ? UINT16_MAX : 0;
    }
}

/* The three least of eight lanes of a row of cells and the columns of the first two. */
typedef struct Trio { int16x8_t least[3], column[2]; } Trio;

ALWAYS const int16_t *least_of(const SnlsSieveRows *from, int i, int row) { return (const int16_t *)(const void *)from->least[i] + row * LANES; }

ALWAYS Trio trio_of(const SnlsSieveRows *from, int row, int h)
{
    const int16x8_t mask = vdupq_n_s16((int16_t)((1 << from->bits) - 1));
    Trio t;
    for (int i = 0; i < 3; i++) t.least[i] = row < from->rows ? vld1q_s16(least_of(from, i, row) + h) : vdupq_n_s16(INT16_MAX);
    for (int i = 0; i < 2; i++) t.column[i] = vandq_s16(t.least[i], mask);
    return t;
}

/* Lanes in whose least cell only the candidate at the pixel a can be below the limit. The others are means of a and its neighbours b, c and d, which are not below
 * the scores of the cells they begin: those of the first two of a row are known, others are not below the third. d may be the least of its row. */
ALWAYS uint16x8_t only_first(const Trio *here, const Trio *next, int row, const Edges *e, int h, int16x8_t limit)
{
    const int16x8_t column = here->column[0], beside = vaddq_s16(column, vdupq_n_s16(1)), a = here->least[0];
    const uint16x8_t right = vcltq_s16(column, vld1q_s16(e->two_x + h)), down = vcgtq_s16(vld1q_s16(e->two_y + h), vdupq_n_s16((int16_t)row));
    int16x8_t b = vbslq_s16(vceqq_s16(here->column[1], beside), here->least[1], here->least[2]);
    int16x8_t c = vbslq_s16(vceqq_s16(next->column[1], column), next->least[1], next->least[2]);
    c = vbslq_s16(vceqq_s16(next->column[0], column), next->least[0], c);
    const uint16x8_t beside_it = vcgtq_s16(vhaddq_s16(a, b), limit), below_it = vcgtq_s16(vhaddq_s16(a, c), limit);
    const uint16x8_t across = vcgtq_s16(vhaddq_s16(vhaddq_s16(a, b), vhaddq_s16(c, next->least[0])), limit);
    const uint16x8_t no_right = vmvnq_u16(right), no_down = vmvnq_u16(down);
    const uint16x8_t above = vandq_u16(vandq_u16(vorrq_u16(beside_it, no_right), vorrq_u16(below_it, no_down)), vorrq_u16(across, vorrq_u16(no_right, no_down)));
    return vandq_u16(above, vld1q_u16(e->whole + h));
}

ALWAYS uint32_t alone_in(const SnlsSieveRows *from, int row, const Edges *edges, const int16_t *limit)
{
    uint16x8_t where[2];
    for (int i = 0; i < 2; i++) {
        const Trio here = trio_of(from, row, i * WIDTH), next = trio_of(from, row + 1, i * WIDTH);
        where[i] = only_first(&here, &next, row, edges, i * WIDTH, vld1q_s16(limit + i * WIDTH));
    }
    return bits_of(where[0], where[1]);
}

/* Bars in units, rounded up; the largest number is no candidate. */
static void set_limits(int16_t *limit, const float *bar, const float *unit)
{
    for (int h = 0; h < LANES; h += 4) {
        const int32x4_t whole = vcvtpq_s32_f32(vdivq_f32(vld1q_f32(bar + h), vld1q_f32(unit + h)));
        vst1_s16(limit + h, vmin_s16(vqmovn_s32(whole), vdup_n_s16(INT16_MAX - 1)));
    }
}

static int hits_in_numbers(const SnlsSieveRows *from, const SnlsSieveTable *table, ptrdiff_t box, int row, const float *bar, SnlsSieveEntries *cells, SnlsSieveEntries *pixels)
{
    const SnlsSieveLanes *x = &table->x[table->slot[box]];
    int16_t limit[LANES];
    Edges edges;
    set_limits(limit, bar, from->unit);
    if (from->halves) set_edges(&edges, table, box);
    for (; row < from->rows && !is_full(cells, pixels, from->columns); row++) {
        const uint32_t entry = snls_sieve_entry((uint32_t)box, (uint32_t)row, 0, 0), first = not_above_16(least_of(from, 0, row), limit);
        if (!first) continue;
        const uint32_t second = not_above_16(least_of(from, 1, row), limit), all = not_above_16(least_of(from, 2, row), limit);
        const uint32_t alone = from->halves ? first & ~all & alone_in(from, row, &edges, limit) : 0;
        append(pixels, alone, entry, from, 0, row, 1);
        append(cells, first & ~all & ~alone, entry, from, 0, row, 1);
        append(cells, second & ~all, entry, from, 1, row, 1);
        append_all(cells, all, entry, x, table->origin_x[box]);
    }
    return row;
}

int snls_sieve_hits_bf16(const SnlsSieveRows *from, const SnlsSieveTable *table, ptrdiff_t box, int row, const float *bar, SnlsSieveEntries *cells, SnlsSieveEntries *pixels)
{
    return (from->unit[0] > 0 ? hits_in_numbers : hits_in_floats)(from, table, box, row, bar, cells, pixels);
}

#else
typedef int snls_sieve_hits_bf16_is_empty;
#endif
