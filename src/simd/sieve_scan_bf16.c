/* sieve_scan_bf16.c: rough squared distances on AArch64: products by BFMMLA, scores between pixels from them, the least of every cell and row. A row of products is scanned
 * while it is in the first cache, four lanes at a time. Products alone: sieve_prod_bf16.c. */
#if defined(__aarch64__) && defined(SNLS_HAVE_BF16)
#include "simd/sieve_bf16.h"
#include "simd/sieve_make_bf16.h"
#include "simd/unroll.h"
#include <math.h>

enum { WIDTH = 4, POINTS = SNLS_SIEVE_STEPS, SIDE = SNLS_SIEVE_SIDE }; /* candidates of a cell that are looked at along an axis */

typedef float32x4_t Vec;
#define EACH_PART for (int h = 0; h < LANES; h += WIDTH) /* h: its first lane */

ALWAYS Vec v_set(float x) { return vdupq_n_f32(x); }
ALWAYS Vec v_madd(Vec a, Vec b, Vec c) { return vfmaq_f32(c, a, b); }  /* a*b + c */
ALWAYS Vec v_nmadd(Vec a, Vec b, Vec c) { return vfmsq_f32(c, a, b); } /* c - a*b */
ALWAYS Vec v_min(Vec a, Vec b) { return vminnmq_f32(a, b); }           /* of a number and NaN the number */
ALWAYS Vec v_max(Vec a, Vec b) { return vmaxq_f32(a, b); }             /* of a number and NaN NaN */

/* Candidates of the cells of a lane: [low, high] is what lies in the frame, in pixels from the box's origin, the fraction taken off. */
typedef struct Axis { float fraction[LANES], low[LANES], high[LANES]; } Axis;

/* Cells of the lanes that look into the box, from its origin; others have none. part, part_end: of four lanes together. */
typedef struct Range { int32_t first[LANES]; uint32_t size[LANES]; int32_t part[LANES / WIDTH], part_end[LANES / WIDTH]; } Range;

/* What the scan of a box holds. bend: weights of a lane for l2 between pixels, one candidate a cell: of right, of both, of lower, of lower one column on
 * (docs/performance.md). Of columns: mark is the number, or NaN where the lane has no cell; above, with one candidate a cell, its score in the row above;
 * f, g: fractions f of candidates and f*(1 - f), what l2 between pixels is corrected by. */
typedef struct Scan {
    SnlsSieveRows *to;
    const SnlsSieveMake *box;
    Axis y, x;
    Range rows;
    float bend[4][LANES];
    float last; /* from the first to the last candidate of a cell */
    uint32_t clear;
    uint32_t mark[SIDE][LANES];
    float above[SIDE][LANES], f[SIDE][POINTS][LANES], g[SIDE][POINTS][LANES];
    float *top;
    ptrdiff_t k;
} Scan;

typedef struct Least { Vec first, second, third; } Least;

ALWAYS Least no_least(void) { return (Least){v_set(__builtin_inff()), v_set(__builtin_inff()), v_set(__builtin_inff())}; }

/* A cell's score into the three least; mark: NaN where the lane has no such cell, which leaves them as they are. */
ALWAYS Least with_cell(Least least, Vec v, const uint32_t *mark, uint32x4_t clear)
{
    v = vreinterpretq_f32_u32(vorrq_u32(vandq_u32(vreinterpretq_u32_f32(v), clear), vld1q_u32(mark)));
    const Vec worse = v_max(least.first, v);
    least.first = v_min(v, least.first);
    least.third = v_min(v_max(least.second, worse), least.third);
    least.second = v_min(worse, least.second);
    return least;
}

/* Four lanes from h on, or eight side by side, of key row `row` of products into scores of a row of cells: the row itself, or, between rows, the one before. by, bx:
 * fractions along y, along x; bend: see sieve.h. Row -1 of cells is only remembered. */
ALWAYS void scan_row(Scan *s, const float *product, int row, const int h, const int count, const int by, const int bx, const int bend, Least *least)
{
    const SnlsSieveKeys *k = &s->box->keys;
    const int cell = row - by, columns = s->to->columns;
    const float *plus = k->add + row * k->add_down;
    const float *right = bend ? k->bend[0] + row * k->add_down : NULL, *lower = bend ? k->bend[1] + cell * k->add_down : NULL,
                *both = bend ? k->bend[2] + cell * k->add_down : NULL;
    const uint32x4_t clear = vdupq_n_u32(s->clear);
    Vec fy[2], fx[2], weight[2][4], here[2];
    for (int i = 0; i < count; i++) {
        const int at = h + i * WIDTH;
        least[i] = no_least();
        fy[i] = vld1q_f32(s->y.fraction + at), fx[i] = vld1q_f32(s->x.fraction + at);
        for (int n = 0; n < 4; n++) weight[i][n] = vld1q_f32(s->bend[n] + at);
        here[i] = vaddq_f32(vld1q_f32(product + at), v_set(plus[0]));
    }
    for (int c = 0; c < columns; c++)
        for (int i = 0; i < count; i++) {
            const int at = h + i * WIDTH;
            Vec v = here[i];
            if (bx || c + 1 < columns) here[i] = vaddq_f32(vld1q_f32(product + (c + 1) * LANES + at), v_set(plus[c + 1]));
            if (bx) v = v_madd(fx[i], vsubq_f32(here[i], v), v);
            if (bx && bend) v = v_nmadd(weight[i][0], v_set(right[c]), v);
            if (by) {
                const Vec above = vld1q_f32(s->above[c] + at);
                vst1q_f32(s->above[c] + at, v);
                if (cell < 0) continue;
                v = v_madd(fy[i], vsubq_f32(v, above), above);
            }
            if (by && bend) {
                v = v_nmadd(weight[i][2], v_set(lower[c]), v);
                if (bx) v = v_madd(weight[i][1], v_set(both[c]), v_nmadd(weight[i][3], v_set(lower[c + 1]), v));
            }
            least[i] = with_cell(least[i], v, s->mark[c] + at, clear);
        }
}

/* ---- several candidates to a pixel ---- */

/* Fractions of the candidates of a cell, as many as may be the least: distances are not linear, so all of them. Where not all of a
 * lane's candidates are in the frame, some of those that are stand in for the others. */
static void points_of(const Axis *a, float last, int cell, int points, float f[POINTS][LANES])
{
    for (int i = 0; i < points; i++)
        for (int l = 0; l < LANES; l++) {
            const float low = a->low[l] - (float)cell, high = a->high[l] - (float)cell, at = (float)i * last / (float)(points - 1), up = at > low ? at : low;
            f[i][l] = a->fraction[l] + (up < high ? up : high);
        }
}

static void bows_of(float g[POINTS][LANES], float f[POINTS][LANES], int points)
{
    for (int i = 0; i < points; i++)
        for (int l = 0; l < LANES; l++) g[i][l] = f[i][l] * (1 - f[i][l]);
}

/* Between two rows of keys. */
typedef struct Between {
    const float *above, *below;             /* products */
    const float *plus_above, *plus_below;   /* l2: what is added to them; corrections of docs/performance.md */
    const float *lower, *right_above, *right_below, *both;
    float fy[POINTS][LANES], gy[POINTS][LANES];
} Between;

static Between between_rows(const Scan *s, const float *above, const float *below, int cell, int points)
{
    Between b = {.above = above, .below = below};
    const SnlsSieveKeys *k = &s->box->keys;
    const ptrdiff_t at = cell * k->add_down;
    points_of(&s->y, s->last, cell, points, b.fy);
    bows_of(b.gy, b.fy, points);
    b.plus_above = k->add + at, b.plus_below = b.plus_above + k->add_down;
    b.right_above = k->bend[0] + at, b.right_below = b.right_above + k->add_down;
    b.lower = k->bend[1] + at, b.both = k->bend[2] + at;
    return b;
}

/* Scores in column c of keys, at the candidates' rows. */
typedef struct Edge { Vec at[POINTS]; } Edge;

ALWAYS Edge edge_of(const Between *b, int c, const int h, const int points)
{
    Vec above = vld1q_f32(b->above + c * LANES + h), below = vld1q_f32(b->below + c * LANES + h);
    above = vaddq_f32(above, v_set(b->plus_above[c])), below = vaddq_f32(below, v_set(b->plus_below[c]));
    const Vec down = vsubq_f32(below, above);
    Edge e;
UNROLLED(4)
    for (int i = 0; i < points; i++) {
        e.at[i] = v_madd(vld1q_f32(b->fy[i] + h), down, above);
        e.at[i] = v_nmadd(vld1q_f32(b->gy[i] + h), v_set(b->lower[c]), e.at[i]);
    }
    return e;
}

/* What the two pixels of row i of a cell's candidates are apart, squared. */
ALWAYS Vec apart_of(const Between *b, int c, int i, const int h)
{
    const float above = b->right_above[c];
    const Vec mixed = v_madd(vld1q_f32(b->fy[i] + h), v_set(b->right_below[c] - above), v_set(above));
    return v_nmadd(vld1q_f32(b->gy[i] + h), v_set(b->both[c]), mixed);
}

/* The least scores of a row of cells that hold several candidates: mixed along y, then along x. */
ALWAYS Least scan_cells(const Scan *s, const Between *b, const int h, const int points)
{
    const uint32x4_t clear = vdupq_n_u32(s->clear);
    Least least = no_least();
    Edge left, right = edge_of(b, 0, h, points);
    for (int c = 0; c < s->to->columns; c++) {
        Vec v = v_set(__builtin_inff());
        left = right;
        right = edge_of(b, c + 1, h, points);
UNROLLED(4)
        for (int i = 0; i < points; i++) {
            const Vec across = vsubq_f32(right.at[i], left.at[i]), apart = apart_of(b, c, i, h);
UNROLLED(4)
            for (int j = 0; j < points; j++) {
                Vec one = v_madd(vld1q_f32(s->f[c][j] + h), across, left.at[i]);
                one = v_nmadd(vld1q_f32(s->g[c][j] + h), apart, one);
                v = v_min(one, v);
            }
        }
        least = with_cell(least, v, s->mark[c] + h, clear);
    }
    return least;
}

/* ---- lists ---- */

/* Three sorted ones into the sorted lists, in one pass over them. */
ALWAYS void enter_three(float *top, ptrdiff_t k, Vec a, Vec b, Vec c)
{
    if (!vmaxvq_u32(vcltq_f32(a, vld1q_f32(top + (k - 1) * LANES)))) return;
    for (ptrdiff_t j = 0; j < k; j++) {
        const Vec have = vld1q_f32(top + j * LANES), x = v_min(a, have), y = v_min(b, x);
        vst1q_f32(top + j * LANES, v_min(c, y));
        a = v_max(a, have);
        b = v_max(b, x);
        c = v_max(c, y);
    }
}

/* The three least of two sorted threes, sorted: no branch that nobody could foresee. */
ALWAYS void merge_three(float *top, Vec first, Vec second, Vec third)
{
    const Vec a = v_min(vld1q_f32(top), third), b = v_min(vld1q_f32(top + LANES), second), c = v_min(vld1q_f32(top + 2 * LANES), first);
    const Vec low = v_min(a, b), high = v_max(a, b), middle = v_min(high, c);
    vst1q_f32(top, v_min(low, c));
    vst1q_f32(top + LANES, v_max(low, middle));
    vst1q_f32(top + 2 * LANES, v_max(high, c));
}

/* The least of a row of cells, for lanes that have cells in it. */
ALWAYS void note(const Scan *s, int cell, Least least, const int h)
{
    const uint32x4_t from = vsubq_u32(vdupq_n_u32((uint32_t)cell), vreinterpretq_u32_s32(vld1q_s32(s->rows.first + h)));
    const uint32x4_t in = vcltq_u32(from, vld1q_u32(s->rows.size + h));
    const Vec none = v_set(__builtin_inff());
    const Vec a = vbslq_f32(in, least.first, none), b = vbslq_f32(in, least.second, none), c = vbslq_f32(in, least.third, none);
    vst1q_f32(s->to->least[0] + cell * LANES + h, a);
    vst1q_f32(s->to->least[1] + cell * LANES + h, b);
    vst1q_f32(s->to->least[2] + cell * LANES + h, c);
    if (s->k == 3) merge_three(s->top + h, a, b, c);
    else enter_three(s->top + h, s->k, a, b, c);
}

/* ---- a box ---- */

static void set_axis(Axis *a, const SnlsSieveLanes *axis, uint32_t lanes, int32_t origin, int32_t steps)
{
    const float share = 1 / (float)steps; /* a power of two */
    EACH_PART {
        const uint32x4_t in = which_lanes(lanes, h);
        const int32x4_t base = vsubq_s32(vld1q_s32(axis->base + h), vdupq_n_s32(origin * steps)), mask = vreinterpretq_s32_u32(in);
        const int32x4_t low = vandq_s32(vaddq_s32(vld1q_s32(axis->from + h), base), mask), end = vandq_s32(vaddq_s32(vld1q_s32(axis->to + h), base), mask);
        vst1q_f32(a->fraction + h, vbslq_f32(in, vld1q_f32(axis->fraction + h), v_set(0)));
        vst1q_f32(a->low + h, vmulq_n_f32(vcvtq_f32_s32(low), share));
        vst1q_f32(a->high + h, vmulq_n_f32(vcvtq_f32_s32(vsubq_s32(end, vdupq_n_s32(1))), share));
    }
}

static void set_range(Range *r, const SnlsSieveLanes *axis, uint32_t lanes, int32_t origin)
{
    EACH_PART {
        const uint32x4_t in = which_lanes(lanes, h);
        const int32x4_t first = vbslq_s32(in, vsubq_s32(vld1q_s32(axis->first + h), vdupq_n_s32(origin)), vdupq_n_s32(SIDE));
        const int32x4_t end = vbslq_s32(in, vsubq_s32(vld1q_s32(axis->end + h), vdupq_n_s32(origin)), vdupq_n_s32(0));
        vst1q_s32(r->first + h, first);
        vst1q_u32(r->size + h, vreinterpretq_u32_s32(vmaxq_s32(vsubq_s32(end, first), vdupq_n_s32(0))));
        r->part[h / WIDTH] = vminvq_s32(first), r->part_end[h / WIDTH] = vmaxvq_s32(end);
    }
}

static void set_bends(Scan *s)
{
    for (int l = 0; l < LANES; l++) {
        const float fy = s->y.fraction[l], fx = s->x.fraction[l], gy = fy * (1 - fy), gx = fx * (1 - fx);
        s->bend[0][l] = gx;
        s->bend[1][l] = gx * gy;
        s->bend[2][l] = gy * (1 - fx);
        s->bend[3][l] = gy * fx;
    }
}

static void set_columns(Scan *s, const SnlsSieveView *w, int points)
{
    Range x;
    set_range(&x, w->x, w->lanes, w->origin_x);
    for (int c = 0; c < s->to->columns; c++) {
        EACH_PART {
            const uint32x4_t column = vdupq_n_u32((uint32_t)c), from = vsubq_u32(column, vreinterpretq_u32_s32(vld1q_s32(x.first + h)));
            vst1q_u32(s->mark[c] + h, vbslq_u32(vcltq_u32(from, vld1q_u32(x.size + h)), column, vdupq_n_u32(0x7fffffffu)));
        }
        if (points > 1) points_of(&s->x, s->last, c, points, s->f[c]);
        if (points > 1) bows_of(s->g[c], s->f[c], points);
    }
}

static int is_between(const Axis *a)
{
    Vec most = v_set(0);
    EACH_PART most = vmaxq_f32(most, vld1q_f32(a->fraction + h));
    return vmaxvq_f32(most) > 0;
}

enum { ROWS = 2 }; /* of products that are held */

/* From the first of a pair of keys on; what a scan looks at begins `skip` keys later. */
ALWAYS float *products_of(const Scan *s, int row) { return s->box->out + row % ROWS * (SIDE + 4) * LANES; }

/* Whether lanes h and on have cells in rows from .. to. A tile of queries has four rows of four: three quarters of its box are some lanes' concern. */
ALWAYS int has_rows(const Scan *s, int from, int to, int h) { return to >= s->rows.part[h / WIDTH] && from < s->rows.part_end[h / WIDTH]; }

/* Products of a row of keys for those lanes that look into it or, between rows, into the row before. */
static void make_products(const Scan *s, int row, int by, int columns)
{
    int first = LANES, end = 0;
    EACH_PART {
        if (!has_rows(s, row - by, row, h)) continue;
        first = h < first ? h : first;
        end = h + WIDTH;
    }
    if (first < end) make_row(products_of(s, row), s->box, row, columns + s->box->keys.skip, first, end, NULL);
}

/* Rows in which lanes have no cells are told apart from those whose cells have no score: nobody looks at them. */
static void note_nothing(const Scan *s, int cell, int h)
{
    for (int i = 0; i < 3; i++) vst1q_f32(s->to->least[i] + cell * LANES + h, v_set(__builtin_inff()));
}

ALWAYS void note_or_nothing(const Scan *s, int cell, Least least, const int h)
{
    if (has_rows(s, cell, cell, h)) note(s, cell, least, h);
    else note_nothing(s, cell, h);
}

ALWAYS void scan_box(Scan *s, const int by, const int bx, const int bend)
{
    const int rows = s->to->rows + by;
    for (int row = 0; row < rows; row++) {
        const float *product = products_of(s, row) + s->box->keys.skip * LANES;
        make_products(s, row, by, s->to->columns + bx);
        for (int h = 0; h < LANES; h += 2 * WIDTH) {
            const int cell = row - by, first = has_rows(s, cell, row, h), second = has_rows(s, cell, row, h + WIDTH);
            Least least[2] = {no_least(), no_least()};
            if (first && second) scan_row(s, product, row, h, 2, by, bx, bend, least);
            else if (first) scan_row(s, product, row, h, 1, by, bx, bend, least);
            else if (second) scan_row(s, product, row, h + WIDTH, 1, by, bx, bend, least + 1);
            if (cell < 0) continue;
            note_or_nothing(s, cell, least[0], h);
            note_or_nothing(s, cell, least[1], h + WIDTH);
        }
    }
}

ALWAYS void scan_box_of_cells(Scan *s, const int points)
{
    for (int row = 0; row <= s->to->rows; row++) {
        const float *above = products_of(s, row + 1) + s->box->keys.skip * LANES, *below = products_of(s, row) + s->box->keys.skip * LANES;
        make_products(s, row, 1, s->to->columns + 1);
        if (!row) continue;
        const Between b = between_rows(s, above, below, row - 1, points);
        EACH_PART {
            if (!has_rows(s, row - 1, row - 1, h)) note_nothing(s, row - 1, h);
            else note(s, row - 1, scan_cells(s, &b, h, points), h);
        }
    }
}

static void scan_pixels(Scan *s, int by, int bx)
{
    if (by && bx) scan_box(s, 1, 1, 1);
    else if (by) scan_box(s, 1, 0, 1);
    else if (bx) scan_box(s, 0, 1, 1);
    else scan_box(s, 0, 0, 0);
}

static void scan_squares(SnlsSieveRows *to, const SnlsSieveMake *made, const SnlsSieveView *view, float *top, ptrdiff_t k)
{
    const int points = view->steps > 2 ? 4 : view->steps;
    Scan s;
    s.to = to, s.box = made, s.top = top, s.k = k;
    set_axis(&s.y, view->y, view->lanes, view->origin_y, view->steps);
    set_axis(&s.x, view->x, view->lanes, view->origin_x, view->steps);
    set_range(&s.rows, view->y, view->lanes, view->origin_y);
    s.last = 1 - 1 / (float)view->steps;
    s.clear = ~0u << to->bits;
    to->unit[0] = 0;
    set_columns(&s, view, points);
    set_bends(&s);
    if (points == 1) scan_pixels(&s, is_between(&s.y), is_between(&s.x));
    else if (points == 2) scan_box_of_cells(&s, 2);
    else scan_box_of_cells(&s, 4);
}

/* Products are made row by row, as they are scanned. */
static void scan(SnlsSieveRows *to, SnlsSieveMake *made, const SnlsSieveView *view, float *top, ptrdiff_t k, SnlsSieveMake *next)
{
    (void)next;
    (made->keys.add ? scan_squares : snls_sieve_scan_prod_bf16)(to, made, view, top, k);
}

static void make(SnlsSieveMake *box) { (void)box; }

void snls_sieve_init_scan_bf16(SnlsSieve *sieve)
{
    sieve->make = make;
    sieve->scan = scan;
}

#else
typedef int snls_sieve_scan_bf16_is_empty;
#endif
