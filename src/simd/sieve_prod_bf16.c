/* sieve_prod_bf16.c: rough products on AArch64 and their scan. Sums of BFMMLA become 16-bit numbers as soon as they are complete, multiples of
 * a lane's unit, so that eight lanes are interpolated and compared at a time. A unit is |q||k|/2^14 or so, bf16 is good for |q||k|/2^8: what is lost is little
 * (SnlsSieve.grain). Squared distances keep f32 (sieve_scan_bf16.c): those of pixels much alike are small against |q||k|. */
#if defined(__aarch64__) && defined(SNLS_HAVE_BF16)
#include "simd/sieve_bf16.h"
#include "simd/sieve_make_bf16.h"
#include <math.h>

enum { WIDTH = 8, FOUR = 4, SIDE = SNLS_SIEVE_SIDE, NONE = INT16_MAX, ROWS = 2 }; /* NONE: no candidate; ROWS: of products that are held */

typedef int16x8_t Vec;
typedef struct Least { Vec first, second, third; } Least;

/* Cells of the lanes that look into the box, from its origin; others have none. part, part_end: of four lanes together. */
typedef struct Range { int16_t first[LANES]; uint16_t size[LANES]; int32_t part[LANES / FOUR], part_end[LANES / FOUR]; } Range;

/* Numbers of the candidates of a lane that are in the frame, the first of the box's origin is 0; fraction: of the first of a cell, in 2^-15. */
typedef struct Axis { int16_t low[LANES], high[LANES], fraction[LANES]; } Axis;

/* What the scan of a box holds. Of columns: keep, the bits of a score that are kept, none where the lane has no cell; mark, the number of the column, or NONE there;
 * f, with several candidates a cell, fractions of the first and the last; two, at pixels and halves, no bits where the cell ends with its first pixel; above, between
 * rows, scores in the row above. */
typedef struct Scan {
    SnlsSieveRows *to;
    const SnlsSieveMake *box;
    Axis y, x;
    Range rows;
    float grain[LANES / 2][4]; /* of two queries, for two keys: what makes sums numbers */
    int steps, step;           /* candidates of a cell; from one to the next in 2^-15 */
    uint16_t keep[SIDE][LANES], two[SIDE][LANES];
    int16_t mark[SIDE][LANES], above[SIDE][LANES], f[SIDE][2][LANES];
    int16_t top[SNLS_SIEVE_KEPT][LANES]; /* the least of this box so far */
    ptrdiff_t k;
} Scan;

/* ---- the least of a row ---- */

ALWAYS Least no_least(void) { return (Least){vdupq_n_s16(NONE), vdupq_n_s16(NONE), vdupq_n_s16(NONE)}; }

ALWAYS Least with_cell(Least least, Vec v, const Scan *s, int c, const int h)
{
    v = vbslq_s16(vld1q_u16(s->keep[c] + h), v, vld1q_s16(s->mark[c] + h));
    const Vec worse = vmaxq_s16(least.first, v);
    least.first = vminq_s16(v, least.first);
    least.third = vminq_s16(vmaxq_s16(least.second, worse), least.third);
    least.second = vminq_s16(worse, least.second);
    return least;
}

/* b - a. Lanes whose products were not wanted hold anything: theirs may wrap around. */
ALWAYS Vec apart(Vec b, Vec a) { return vreinterpretq_s16_u16(vsubq_u16(vreinterpretq_u16_s16(b), vreinterpretq_u16_s16(a))); }

/* a + f*(b - a) */
ALWAYS Vec mix(Vec a, Vec b, Vec f) { return vqrdmlahq_s16(a, apart(b, a), f); }

/* Eight lanes, or all sixteen side by side, of a row of products into scores of a row of cells: the row itself, or, between rows, the one before. by, bx: fractions along
 * y, along x. Row -1 of cells is only remembered. */
ALWAYS void scan_row(Scan *s, const int16_t *product, int cell, const int h, const int count, const int by, const int bx, Least *least)
{
    const int columns = s->to->columns;
    Vec here[2], fy[2], fx[2];
    for (int i = 0; i < count; i++) {
        least[i] = no_least();
        here[i] = vld1q_s16(product + h + i * WIDTH);
        fy[i] = vld1q_s16(s->y.fraction + h + i * WIDTH), fx[i] = vld1q_s16(s->x.fraction + h + i * WIDTH);
    }
    for (int c = 0; c < columns; c++)
        for (int i = 0; i < count; i++) {
            const int at = h + i * WIDTH;
            Vec v = bx ? here[i] : vld1q_s16(product + c * LANES + at);
            if (bx) here[i] = vld1q_s16(product + (c + 1) * LANES + at);
            if (bx) v = mix(v, here[i], fx[i]);
            if (by) {
                const Vec above = vld1q_s16(s->above[c] + at);
                vst1q_s16(s->above[c] + at, v);
                if (cell < 0) continue;
                v = mix(above, v, fy[i]);
            }
            least[i] = with_cell(least[i], v, s, c, at);
        }
}

/* ---- several candidates to a pixel ---- */

/* Fractions of the first and the last candidate of a cell: products are linear along each axis, so that one of them is the least. Where not all of a lane's candidates
 * are in the frame, some of those that are stand in for the others. */
ALWAYS Vec fraction_of(const Axis *a, int cell, int number, int steps, int step, const int h)
{
    const Vec first = vdupq_n_s16((int16_t)(cell * steps)), low = vld1q_s16(a->low + h), high = vld1q_s16(a->high + h);
    const Vec at = vminq_s16(vmaxq_s16(vaddq_s16(first, vdupq_n_s16((int16_t)number)), low), high);
    const Vec in = vminq_s16(vmaxq_s16(vsubq_s16(at, first), vdupq_n_s16(0)), vdupq_n_s16((int16_t)(steps - 1))); /* of lanes without the cell anything will do */
    return vmlaq_n_s16(vld1q_s16(a->fraction + h), in, (int16_t)step);
}

typedef struct Edge { Vec first, last; } Edge;

ALWAYS Edge edge_of(const int16_t *above, const int16_t *below, int c, const int at, Vec first, Vec last)
{
    const Vec a = vld1q_s16(above + c * LANES + at), down = apart(vld1q_s16(below + c * LANES + at), a);
    return (Edge){vqrdmlahq_s16(a, down, first), vqrdmlahq_s16(a, down, last)};
}

/* The least scores of a row of cells that hold several candidates: mixed along y, then along x. Eight lanes or all sixteen. */
ALWAYS void scan_cells(const Scan *s, const int16_t *above, const int16_t *below, int cell, const int h, const int count, Least *least)
{
    Vec first[2], last[2];
    Edge right[2];
    for (int i = 0; i < count; i++) {
        const int at = h + i * WIDTH;
        first[i] = fraction_of(&s->y, cell, 0, s->steps, s->step, at), last[i] = fraction_of(&s->y, cell, s->steps - 1, s->steps, s->step, at);
        least[i] = no_least();
        right[i] = edge_of(above, below, 0, at, first[i], last[i]);
    }
    for (int c = 0; c < s->to->columns; c++)
        for (int i = 0; i < count; i++) {
            const int at = h + i * WIDTH;
            const Vec f = vld1q_s16(s->f[c][0] + at), g = vld1q_s16(s->f[c][1] + at);
            const Edge left = right[i];
            right[i] = edge_of(above, below, c + 1, at, first[i], last[i]);
            const Vec up = apart(right[i].first, left.first), down = apart(right[i].last, left.last);
            const Vec upper = vqrdmlahq_s16(left.first, up, vbslq_s16(vcltzq_s16(up), g, f)); /* downhill the last is the least */
            const Vec lower = vqrdmlahq_s16(left.last, down, vbslq_s16(vcltzq_s16(down), g, f));
            least[i] = with_cell(least[i], vminq_s16(upper, lower), s, c, at);
        }
}

/* The lesser where all bits are set, else the first. */
ALWAYS Vec min_where(uint16x8_t where, Vec a, Vec b, const int all) { return all ? vminq_s16(a, b) : vbslq_s16(where, vminq_s16(a, b), a); }

/* The same at pixels and halves: of a, (a + b)/2, (a + c)/2 and (a + b + c + d)/4 the least: the mean of a and min(a, b), and, with the means of columns, that of
 * (a + c)/2 and min((a + c)/2, (b + d)/2). all: every lane has both rows and both columns. */
ALWAYS Vec least_of_halves(Vec a, Vec b, Vec mean_a, Vec mean_b, uint16x8_t two, uint16x8_t rows, const int all)
{
    const Vec row = vhaddq_s16(a, min_where(two, a, b, all)), half = vhaddq_s16(mean_a, min_where(two, mean_a, mean_b, all));
    return min_where(rows, row, half, all);
}

/* Two rows of products on the way from left to right: the last column, and its mean with the row below. */
typedef struct Corner { Vec at, mean; } Corner;

ALWAYS Corner corner_of(const int16_t *above, const int16_t *below, int c, const int h)
{
    const Vec at = vld1q_s16(above + c * LANES + h);
    return (Corner){at, vhaddq_s16(at, vld1q_s16(below + c * LANES + h))};
}

/* Eight lanes or all sixteen. full: columns before the first that is some lane's last. */
ALWAYS void scan_halves(const Scan *s, const int16_t *above, const int16_t *below, int cell, const int h, const int count, int full, Least *least)
{
    uint16x8_t rows[2];
    Corner right[2];
    int c = 0, whole = full;
    for (int i = 0; i < count; i++) {
        least[i] = no_least();
        right[i] = corner_of(above, below, 0, h + i * WIDTH);
        rows[i] = vmvnq_u16(vceqq_s16(vld1q_s16(s->y.high + h + i * WIDTH), vdupq_n_s16((int16_t)(2 * cell))));
        whole = vminvq_u16(rows[i]) ? whole : 0;
    }
    for (; c < whole; c++) /* every lane that has a cell has all of it */
        for (int i = 0; i < count; i++) {
            const Corner left = right[i];
            right[i] = corner_of(above, below, c + 1, h + i * WIDTH);
            least[i] = with_cell(least[i], least_of_halves(left.at, right[i].at, left.mean, right[i].mean, rows[i], rows[i], 1), s, c, h + i * WIDTH);
        }
    for (; c < s->to->columns; c++)
        for (int i = 0; i < count; i++) {
            const Corner left = right[i];
            right[i] = corner_of(above, below, c + 1, h + i * WIDTH);
            least[i] = with_cell(least[i], least_of_halves(left.at, right[i].at, left.mean, right[i].mean, vld1q_u16(s->two[c] + h + i * WIDTH), rows[i], 0), s, c, h + i * WIDTH);
        }
}

/* ---- lists ---- */

/* Three sorted ones into the sorted lists, in one pass over them. */
ALWAYS void enter_three(Scan *s, Vec a, Vec b, Vec c, const int h)
{
    if (!vmaxvq_u16(vcltq_s16(a, vld1q_s16(s->top[s->k - 1] + h)))) return;
    for (ptrdiff_t j = 0; j < s->k; j++) {
        const Vec have = vld1q_s16(s->top[j] + h), x = vminq_s16(a, have), y = vminq_s16(b, x);
        vst1q_s16(s->top[j] + h, vminq_s16(c, y));
        a = vmaxq_s16(a, have);
        b = vmaxq_s16(b, x);
        c = vmaxq_s16(c, y);
    }
}

/* The three least of two sorted threes, sorted: no branch that nobody could foresee. */
ALWAYS void merge_three(Scan *s, Vec first, Vec second, Vec third, const int h)
{
    const Vec a = vminq_s16(vld1q_s16(s->top[0] + h), third), b = vminq_s16(vld1q_s16(s->top[1] + h), second), c = vminq_s16(vld1q_s16(s->top[2] + h), first);
    const Vec low = vminq_s16(a, b), high = vmaxq_s16(a, b), middle = vminq_s16(high, c);
    vst1q_s16(s->top[0] + h, vminq_s16(low, c));
    vst1q_s16(s->top[1] + h, vmaxq_s16(low, middle));
    vst1q_s16(s->top[2] + h, vmaxq_s16(high, c));
}

ALWAYS int16_t *least_at(const SnlsSieveRows *r, int i, int row) { return (int16_t *)(void *)r->least[i] + row * LANES; }

/* The least of a row of cells, for lanes that have cells in it. */
ALWAYS void note(Scan *s, int cell, Least least, const int h)
{
    const uint16x8_t from = vsubq_u16(vdupq_n_u16((uint16_t)cell), vreinterpretq_u16_s16(vld1q_s16(s->rows.first + h)));
    const uint16x8_t in = vcltq_u16(from, vld1q_u16(s->rows.size + h));
    const Vec none = vdupq_n_s16(NONE), a = vbslq_s16(in, least.first, none), b = vbslq_s16(in, least.second, none), c = vbslq_s16(in, least.third, none);
    vst1q_s16(least_at(s->to, 0, cell) + h, a);
    vst1q_s16(least_at(s->to, 1, cell) + h, b);
    vst1q_s16(least_at(s->to, 2, cell) + h, c);
    if (s->k == 3) merge_three(s, a, b, c, h);
    else enter_three(s, a, b, c, h);
}

ALWAYS void note_nothing(const Scan *s, int cell, const int h)
{
    for (int i = 0; i < 3; i++) vst1q_s16(least_at(s->to, i, cell) + h, vdupq_n_s16(NONE));
}

ALWAYS float32x4_t in_units(int16x4_t v, float32x4_t unit)
{
    const int32x4_t wide = vmovl_s16(v);
    return vbslq_f32(vceqq_s32(wide, vdupq_n_s32(NONE)), vdupq_n_f32(INFINITY), vmulq_f32(vcvtq_f32_s32(wide), unit));
}

/* The box's list into that of the tile, three places at a time. */
static void end_list(const Scan *s, float *top)
{
    for (int h = 0; h < LANES; h += FOUR) {
        const float32x4_t unit = vld1q_f32(s->to->unit + h);
        for (ptrdiff_t j = 0; j < s->k; j += 3) {
            const int16x4_t none = vdup_n_s16(NONE);
            float32x4_t a = in_units(vld1_s16(s->top[j] + h), unit), b = in_units(j + 1 < s->k ? vld1_s16(s->top[j + 1] + h) : none, unit),
                        c = in_units(j + 2 < s->k ? vld1_s16(s->top[j + 2] + h) : none, unit);
            for (ptrdiff_t i = 0; i < s->k; i++) {
                const float32x4_t have = vld1q_f32(top + i * LANES + h), x = vminq_f32(a, have), y = vminq_f32(b, x);
                vst1q_f32(top + i * LANES + h, vminq_f32(c, y));
                a = vmaxq_f32(a, have), b = vmaxq_f32(b, x), c = vmaxq_f32(c, y);
            }
        }
    }
}

/* ---- a box ---- */

static void set_range(Range *r, const SnlsSieveLanes *axis, uint32_t lanes, int32_t origin)
{
    for (int h = 0; h < LANES; h += FOUR) {
        const uint32x4_t in = which_lanes(lanes, h);
        const int32x4_t first = vbslq_s32(in, vsubq_s32(vld1q_s32(axis->first + h), vdupq_n_s32(origin)), vdupq_n_s32(SIDE));
        const int32x4_t end = vbslq_s32(in, vsubq_s32(vld1q_s32(axis->end + h), vdupq_n_s32(origin)), vdupq_n_s32(0));
        vst1_s16(r->first + h, vmovn_s32(first));
        vst1_u16(r->size + h, vmovn_u32(vreinterpretq_u32_s32(vmaxq_s32(vsubq_s32(end, first), vdupq_n_s32(0)))));
        r->part[h / FOUR] = vminvq_s32(first), r->part_end[h / FOUR] = vmaxvq_s32(end);
    }
}

static void set_axis(Axis *a, const SnlsSieveLanes *axis, uint32_t lanes, int32_t origin, int32_t steps)
{
    for (int h = 0; h < LANES; h += FOUR) {
        const uint32x4_t in = which_lanes(lanes, h);
        const int32x4_t base = vsubq_s32(vld1q_s32(axis->base + h), vdupq_n_s32(origin * steps));
        const float32x4_t fraction = vminq_f32(vmulq_n_f32(vld1q_f32(axis->fraction + h), 0x1p15f), vdupq_n_f32(0x1p15f / (float)steps - 1));
        const int32x4_t low = vaddq_s32(vld1q_s32(axis->from + h), base), high = vsubq_s32(vaddq_s32(vld1q_s32(axis->to + h), base), vdupq_n_s32(1));
        vst1_s16(a->low + h, vmovn_s32(vandq_s32(low, vreinterpretq_s32_u32(in))));
        vst1_s16(a->high + h, vmovn_s32(vandq_s32(high, vreinterpretq_s32_u32(in))));
        vst1_s16(a->fraction + h, vmovn_s32(vandq_s32(vcvtnq_s32_f32(fraction), vreinterpretq_s32_u32(in))));
    }
}

/* Whether some candidate of a lane lies between pixels. */
static int is_between(const Axis *a) { return vmaxvq_s16(vmaxq_s16(vld1q_s16(a->fraction), vld1q_s16(a->fraction + WIDTH))) > 0; }

/* Whether the first candidate of every cell is at a pixel and in the frame, and the other half a pixel on: zero flow and windows that are not cut amiss. Exactly so: the
 * candidate at the pixel may then be scored alone, and a fraction too small for 2^-15 still counts. */
static int whole_and_half(const Axis *a, const SnlsSieveLanes *axis, uint32_t lanes)
{
    const Vec odd = vorrq_s16(vandq_s16(vld1q_s16(a->low), vdupq_n_s16(1)), vandq_s16(vld1q_s16(a->low + WIDTH), vdupq_n_s16(1)));
    uint32x4_t amiss = vdupq_n_u32(0);
    for (int h = 0; h < LANES; h += FOUR) amiss = vorrq_u32(amiss, vbicq_u32(which_lanes(lanes, h), vceqzq_f32(vld1q_f32(axis->fraction + h))));
    return !vmaxvq_s16(odd) && !vmaxvq_u32(amiss);
}

static void set_units(Scan *s, const SnlsSieveView *w)
{
    for (int h = 0; h < LANES; h += FOUR) {
        const float32x4_t most = vsqrtq_f32(vmulq_n_f32(vld1q_f32(w->norm + h), w->key_norm));
        vst1q_f32(s->to->unit + h, vmaxq_f32(vmulq_n_f32(most, SNLS_SIEVE_GRAIN), vdupq_n_f32(0x1p-100f)));
    }
    for (int l = 0; l < LANES; l++) s->grain[l / 2][l % 2] = s->grain[l / 2][2 + l % 2] = 1 / s->to->unit[l];
}

static void set_columns(Scan *s, const SnlsSieveView *w, int halves)
{
    const Vec clear = vdupq_n_s16((int16_t)(~0u << s->to->bits));
    Range x;
    set_range(&x, w->x, w->lanes, w->origin_x);
    for (int c = 0; c < s->to->columns; c++)
        for (int h = 0; h < LANES; h += WIDTH) {
            const Vec column = vdupq_n_s16((int16_t)c);
            const uint16x8_t in = vcltq_u16(vreinterpretq_u16_s16(vsubq_s16(column, vld1q_s16(x.first + h))), vld1q_u16(x.size + h));
            vst1q_u16(s->keep[c] + h, vandq_u16(in, vreinterpretq_u16_s16(clear)));
            vst1q_s16(s->mark[c] + h, vbslq_s16(in, column, vdupq_n_s16(NONE)));
            if (halves) vst1q_u16(s->two[c] + h, vmvnq_u16(vceqq_s16(vld1q_s16(s->x.high + h), vaddq_s16(column, column))));
            else if (s->steps > 1) {
                vst1q_s16(s->f[c][0] + h, fraction_of(&s->x, c, 0, s->steps, s->step, h));
                vst1q_s16(s->f[c][1] + h, fraction_of(&s->x, c, s->steps - 1, s->steps, s->step, h));
            }
        }
}

/* From the first of a pair of keys on; what a scan looks at begins `skip` keys later. */
ALWAYS int16_t *products_of(const Scan *s, int row) { return (int16_t *)(void *)s->box->out + row % ROWS * (SIDE + 4) * LANES; }

/* Whether some of four or eight lanes have cells in rows from .. to. A tile of queries has four rows of four: three quarters of its box are some lanes' concern. */
ALWAYS int part_has(const Scan *s, int from, int to, int part) { return to >= s->rows.part[part] && from < s->rows.part_end[part]; }
ALWAYS int has_rows(const Scan *s, int from, int to, int h) { return part_has(s, from, to, h / FOUR) || part_has(s, from, to, h / FOUR + 1); }

/* Products of a row of keys for those lanes that look into it or, between rows, into the row before. */
static void make_products(const Scan *s, int row, int by, int columns)
{
    int first = LANES, end = 0;
    for (int part = 0; part < LANES / FOUR; part++) {
        if (!part_has(s, row - by, row, part)) continue;
        first = part * FOUR < first ? part * FOUR : first;
        end = part * FOUR + FOUR;
    }
    if (first < end) make_row(products_of(s, row), s->box, row, columns + s->box->keys.skip, first, end, s->grain);
}

ALWAYS void note_or_nothing(Scan *s, int cell, Least least, const int h)
{
    if (has_rows(s, cell, cell, h)) note(s, cell, least, h);
    else note_nothing(s, cell, h);
}

ALWAYS void scan_box(Scan *s, const int by, const int bx)
{
    const int rows = s->to->rows + by;
    for (int row = 0; row < rows; row++) {
        const int16_t *product = products_of(s, row) + s->box->keys.skip * LANES;
        const int cell = row - by, low = has_rows(s, cell, row, 0), high = has_rows(s, cell, row, WIDTH);
        Least least[2] = {no_least(), no_least()};
        make_products(s, row, by, s->to->columns + bx);
        if (low && high) scan_row(s, product, cell, 0, 2, by, bx, least);
        else if (low) scan_row(s, product, cell, 0, 1, by, bx, least);
        else if (high) scan_row(s, product, cell, WIDTH, 1, by, bx, least + 1);
        if (cell < 0) continue;
        note_or_nothing(s, cell, least[0], 0);
        note_or_nothing(s, cell, least[1], WIDTH);
    }
}

static void scan_box_of_cells(Scan *s)
{
    for (int row = 0; row <= s->to->rows; row++) {
        const int16_t *above = products_of(s, row + 1) + s->box->keys.skip * LANES, *below = products_of(s, row) + s->box->keys.skip * LANES;
        const int cell = row - 1, low = has_rows(s, cell, cell, 0), high = has_rows(s, cell, cell, WIDTH);
        Least least[2] = {no_least(), no_least()};
        make_products(s, row, 1, s->to->columns + 1);
        if (cell < 0) continue;
        if (low && high) scan_cells(s, above, below, cell, 0, 2, least);
        else if (low) scan_cells(s, above, below, cell, 0, 1, least);
        else if (high) scan_cells(s, above, below, cell, WIDTH, 1, least + 1);
        note_or_nothing(s, cell, least[0], 0);
        note_or_nothing(s, cell, least[1], WIDTH);
    }
}

/* Whether some lane's window ends half a pixel after its last cell begins. Mostly none does: then nobody looks at keys after the last row and column of cells. */
static int ends_with_half(const Axis *a) { return vmaxvq_s16(vandq_s16(vorrq_s16(vld1q_s16(a->high), vld1q_s16(a->high + WIDTH)), vdupq_n_s16(1))); }

static void scan_box_of_halves(Scan *s)
{
    const int rows = s->to->rows, more_y = ends_with_half(&s->y), more_x = ends_with_half(&s->x);
    int full = 0;
    while (full < s->to->columns && vminvq_u16(vandq_u16(vld1q_u16(s->two[full]), vld1q_u16(s->two[full] + WIDTH)))) full++;
    for (int row = 0; row <= rows; row++) {
        const int16_t *above = products_of(s, row + 1) + s->box->keys.skip * LANES, *below = products_of(s, row) + s->box->keys.skip * LANES;
        const int cell = row - 1, low = has_rows(s, cell, cell, 0), high = has_rows(s, cell, cell, WIDTH);
        Least least[2] = {no_least(), no_least()};
        if (row < rows + more_y) make_products(s, row, more_y, s->to->columns + more_x);
        if (cell < 0) continue;
        if (low && high) scan_halves(s, above, below, cell, 0, 2, full, least);
        else if (low) scan_halves(s, above, below, cell, 0, 1, full, least);
        else if (high) scan_halves(s, above, below, cell, WIDTH, 1, full, least + 1);
        note_or_nothing(s, cell, least[0], 0);
        note_or_nothing(s, cell, least[1], WIDTH);
    }
}

void snls_sieve_scan_prod_bf16(SnlsSieveRows *to, const SnlsSieveMake *made, const SnlsSieveView *view, float *top, ptrdiff_t k)
{
    Scan s;
    s.to = to, s.box = made, s.k = k, s.steps = view->steps, s.step = (1 << 15) / view->steps;
    set_axis(&s.y, view->y, view->lanes, view->origin_y, view->steps);
    set_axis(&s.x, view->x, view->lanes, view->origin_x, view->steps);
    set_range(&s.rows, view->y, view->lanes, view->origin_y);
    set_units(&s, view);
    to->halves = view->steps == 2 && whole_and_half(&s.y, view->y, view->lanes) && whole_and_half(&s.x, view->x, view->lanes);
    set_columns(&s, view, to->halves);
    for (ptrdiff_t i = 0; i < k; i++)
        for (int h = 0; h < LANES; h += WIDTH) vst1q_s16(s.top[i] + h, vdupq_n_s16(NONE));
    const int by = is_between(&s.y), bx = is_between(&s.x);
    if (to->halves) scan_box_of_halves(&s);
    else if (view->steps > 1) scan_box_of_cells(&s);
    else if (by && bx) scan_box(&s, 1, 1);
    else if (by) scan_box(&s, 1, 0);
    else if (bx) scan_box(&s, 0, 1);
    else scan_box(&s, 0, 0);
    end_list(&s, top);
}

#else
typedef int snls_sieve_prod_bf16_is_empty;
#endif
