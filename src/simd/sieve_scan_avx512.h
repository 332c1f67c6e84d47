/* sieve_scan_avx512.h: the rough half of the sieve: scores between pixels from products, the least of every cell and row, and who may be among the best. Included once
 * by each file that says how products are made: rows of them are at snls_sieve_unit, after
 *   make_some(box, next, row, rows, keys, at_once)   those of row `row` of `rows` of the box, `keys` of them, or what may be made ahead of it
 *   make_next(next)                                  what the next box is to begin with, or NULL. */
#ifndef SNLS_SIEVE_SCAN_AVX512_H
#define SNLS_SIEVE_SCAN_AVX512_H

#include "simd/zmm.h"
#include "simd/unroll.h"
#include <float.h>

/* ---- scores ---- */

enum { POINTS = SNLS_SIEVE_STEPS, HALVES = -2, MANY_ROWS = 4, SOME_ROWS = 2 }; /* candidates of a cell that are looked at along an axis; HALVES: 2, at pixels and halves */

/* Of a column of cells. f, g: fractions f of its candidates and f*(1 - f), what l2 between pixels is corrected by. */
typedef struct Column {
    __m512i mark; /* its number, or NaN where the lane has no cell */
    __m512 above; /* one candidate a cell: its score in the row above */
    __m512 f[POINTS], g[POINTS];
    __mmask16 two; /* whole pixels and halves: lanes that have both here */
} Column;

/* Candidates of the cells of a lane: [low, high] is what lies in the frame, in pixels from the box's origin, the fraction taken off. */
typedef struct Axis { __m512 fraction, low, high; } Axis;

/* What the scan of a box holds. bend: weights of a lane for l2 between pixels, one candidate a cell: of right, of both, of lower, of lower one column on
 * (docs/performance.md). */
typedef struct Scan {
    SnlsSieveRows *to;
    const SnlsSieveKeys *keys;
    Axis y, x;
    __m512 bend[4];
    float last; /* from the first to the last candidate of a cell */
    __m512i clear;
    Column column[SNLS_SIEVE_SIDE];
} Scan;

/* Corrections along y of the cell in column c, those along x done with; lower and both point at its row. */
ALWAYS __m512 unbend(const __m512 weight[4], __m512 v, const float *lower, const float *both, int c, const int bx)
{
    v = _mm512_fnmadd_ps(weight[2], _mm512_set1_ps(lower[c]), v);
    if (!bx) return v;
    v = _mm512_fnmadd_ps(weight[3], _mm512_set1_ps(lower[c + 1]), v);
    return _mm512_fmadd_ps(weight[1], _mm512_set1_ps(both[c]), v);
}

typedef struct Least { __m512 first, second, third; } Least;

/* A cell's score into the three least; mark: NaN where the lane has no such cell. */
ALWAYS Least with_cell(Least least, __m512 v, __m512i mark, __m512i clear)
{
    v = _mm512_castsi512_ps(_mm512_ternarylogic_epi32(_mm512_castps_si512(v), clear, mark, 0xea)); /* (v & clear) | mark */
    /* Where v is NaN, max(other, v) is NaN and min(v, other) the other: such lanes stay as they are. */
    const __m512 worse = _mm512_max_ps(least.first, v);
    least.first = _mm512_min_ps(v, least.first);
    least.third = _mm512_min_ps(_mm512_max_ps(least.second, worse), least.third);
    least.second = _mm512_min_ps(worse, least.second);
    return least;
}

/* Key row `row` of products into scores of a row of cells: the row itself, or, between rows, the one before. by, bx: fractions along
 * y, along x; add, bend: see sieve.h. Row -1 of cells is only remembered. */
ALWAYS Least scan_row(Scan *s, const float *product, int row, const int by, const int bx, const int add, const int bend)
{
    const SnlsSieveKeys *k = s->keys;
    const int cell = row - by, columns = s->to->columns;
    const float *plus = add ? k->add + row * k->add_down : NULL;
    const float *right = bend ? k->bend[0] + row * k->add_down : NULL, *lower = bend ? k->bend[1] + cell * k->add_down : NULL,
                *both = bend ? k->bend[2] + cell * k->add_down : NULL;
    const __m512 none = _mm512_set1_ps(__builtin_inff());
    /* of its own, since the compiler must think that what is stored in `above` might change s */
    const __m512 fy = s->y.fraction, fx = s->x.fraction, weight[4] = {s->bend[0], s->bend[1], s->bend[2], s->bend[3]};
    const __m512i clear = s->clear;
    Least least = {none, none, none};
    __m512 here = _mm512_loadu_ps(product);
    if (add) here = _mm512_add_ps(here, _mm512_set1_ps(plus[0]));
    for (int c = 0; c < columns; c++) {
        __m512 v = here;
        if (bx || c + 1 < columns) {
            here = _mm512_loadu_ps(product + (c + 1) * LANES);
            if (add) here = _mm512_add_ps(here, _mm512_set1_ps(plus[c + 1]));
        }
        if (bx) v = _mm512_fmadd_ps(fx, _mm512_sub_ps(here, v), v);
        if (bx && bend) v = _mm512_fnmadd_ps(weight[0], _mm512_set1_ps(right[c]), v);
        if (by) {
            const __m512 above = s->column[c].above;
            s->column[c].above = v;
            if (cell < 0) continue;
            v = _mm512_fmadd_ps(fy, _mm512_sub_ps(v, above), above);
        }
        if (by && bend) v = unbend(weight, v, lower, both, c, bx);
        least = with_cell(least, v, s->column[c].mark, clear);
    }
    return least;
}

/* Fractions of the candidates of a cell, so many of them that one is the least: with prod, linear along each axis, the first and the last. Where not all of a
 * lane's candidates are in the frame, some of those that are stand in for the others. */
ALWAYS void points_of(const Axis *a, float last, int cell, const int points, __m512 *f)
{
    const __m512 here = _mm512_set1_ps((float)cell), low = _mm512_sub_ps(a->low, here), high = _mm512_sub_ps(a->high, here);
UNROLLED(4)
    for (int i = 0; i < points; i++)
        f[i] = _mm512_add_ps(a->fraction, _mm512_min_ps(_mm512_max_ps(_mm512_set1_ps((float)i * last / (float)(points - 1)), low), high));
}

ALWAYS __m512 bow(__m512 f) { return _mm512_mul_ps(f, _mm512_sub_ps(_mm512_set1_ps(1), f)); }

/* Between two rows of keys. */
typedef struct Between {
    const float *above, *below;             /* products */
    const float *plus_above, *plus_below;   /* l2: what is added to them; corrections of docs/performance.md */
    const float *lower, *right_above, *right_below, *both;
    __m512 fy[POINTS], gy[POINTS];
} Between;

ALWAYS Between between_rows(const Scan *s, const float *above, const float *below, int cell, const int points, const int l2)
{
    Between b = {.above = above, .below = below};
    const SnlsSieveKeys *k = s->keys;
    const ptrdiff_t at = cell * k->add_down;
    points_of(&s->y, s->last, cell, points, b.fy);
    if (!l2) return b;
    for (int i = 0; i < points; i++) b.gy[i] = bow(b.fy[i]);
    b.plus_above = k->add + at, b.plus_below = b.plus_above + k->add_down;
    b.right_above = k->bend[0] + at, b.right_below = b.right_above + k->add_down;
    b.lower = k->bend[1] + at, b.both = k->bend[2] + at;
    return b;
}

/* Scores in column c of keys, at the candidates' rows. */
typedef struct Edge { __m512 at[POINTS]; } Edge;

ALWAYS Edge edge_of(const Between *b, int c, const int points, const int l2)
{
    __m512 above = _mm512_loadu_ps(b->above + c * LANES), below = _mm512_loadu_ps(b->below + c * LANES);
    if (l2) {
        above = _mm512_add_ps(above, _mm512_set1_ps(b->plus_above[c]));
        below = _mm512_add_ps(below, _mm512_set1_ps(b->plus_below[c]));
    }
    const __m512 down = _mm512_sub_ps(below, above);
    Edge e;
UNROLLED(4)
    for (int i = 0; i < points; i++) {
        e.at[i] = _mm512_fmadd_ps(b->fy[i], down, above);
        if (l2) e.at[i] = _mm512_fnmadd_ps(b->gy[i], _mm512_set1_ps(b->lower[c]), e.at[i]);
    }
    return e;
}

/* What the two pixels of row i of a cell's candidates are apart, squared. */
ALWAYS __m512 apart_of(const Between *b, int c, int i)
{
    const float above = b->right_above[c];
    const __m512 mixed = _mm512_fmadd_ps(b->fy[i], _mm512_set1_ps(b->right_below[c] - above), _mm512_set1_ps(above));
    return _mm512_fnmadd_ps(b->gy[i], _mm512_set1_ps(b->both[c]), mixed);
}

/* The least scores of a row of cells that hold several candidates: mixed along y, then along x. */
ALWAYS Least scan_cells(const Scan *s, const Between *b, const int points, const int l2)
{
    const __m512 none = _mm512_set1_ps(__builtin_inff());
    Least least = {none, none, none};
    Edge left, right = edge_of(b, 0, points, l2);
    for (int c = 0; c < s->to->columns; c++) {
        const Column *at = &s->column[c];
        __m512 v = none;
        left = right;
        right = edge_of(b, c + 1, points, l2);
UNROLLED(4)
        for (int i = 0; i < points; i++) {
            const __m512 across = _mm512_sub_ps(right.at[i], left.at[i]), apart = l2 ? apart_of(b, c, i) : none;
UNROLLED(4)
            for (int j = 0; j < points; j++) {
                __m512 one = _mm512_fmadd_ps(at->f[j], across, left.at[i]);
                if (l2) one = _mm512_fnmadd_ps(at->g[j], apart, one);
                v = i + j ? _mm512_min_ps(one, v) : one;
            }
        }
        least = with_cell(least, v, at->mark, s->clear);
    }
    return least;
}

ALWAYS Least scan_between(const Scan *s, const float *above, const float *below, int cell, const int points, const int l2)
{
    const Between b = between_rows(s, above, below, cell, points, l2);
    return scan_cells(s, &b, points, l2);
}

/* Whether the first candidate of every cell is at a pixel and in the frame, and the other half a pixel on: zero flow and windows that are not cut amiss. */
ALWAYS int whole_and_half(const Axis *a, uint32_t lanes)
{
    const __m512 low = a->low, floor = _mm512_roundscale_ps(low, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
    return !((_mm512_cmp_ps_mask(a->fraction, _mm512_setzero_ps(), _CMP_NEQ_OQ) | _mm512_cmp_ps_mask(low, floor, _CMP_NEQ_OQ)) & lanes);
}

/* Lanes with both candidates in a cell. */
ALWAYS __mmask16 have_both(const Axis *a, int cell) { return _mm512_cmp_ps_mask(a->high, _mm512_set1_ps((float)cell), _CMP_GT_OQ); }

/* The same for prod at pixels and halves: of a, (a + b)/2, (a + c)/2 and (a + b + c + d)/4 the least, times four: a + min(a, b), twice, and, with the sums of
 * columns, (a + c) + min(a + c, b + d). */
ALWAYS Least scan_halves(const Scan *s, const float *above, const float *below, int cell)
{
    const __m512 none = _mm512_set1_ps(__builtin_inff());
    const __mmask16 rows = have_both(&s->y, cell);
    Least least = {none, none, none};
    __m512 b = _mm512_loadu_ps(above), sum_b = _mm512_add_ps(b, _mm512_loadu_ps(below));
    for (int c = 0; c < s->to->columns; c++) {
        const Column *at = &s->column[c];
        const __m512 a = b, sum_a = sum_b;
        b = _mm512_loadu_ps(above + (c + 1) * LANES);
        sum_b = _mm512_add_ps(b, _mm512_loadu_ps(below + (c + 1) * LANES));
        const __m512 row = _mm512_add_ps(a, _mm512_mask_min_ps(a, at->two, a, b)), twice = _mm512_add_ps(row, row);
        const __m512 half = _mm512_add_ps(sum_a, _mm512_mask_min_ps(sum_a, at->two, sum_a, sum_b));
        least = with_cell(least, _mm512_mask_min_ps(twice, rows, twice, half), at->mark, s->clear);
    }
    return least;
}

/* Three sorted ones into the sorted lists, in one pass over them. Without a test whether some lane has use for the second or third: with sixteen lanes one mostly
 * has, and nobody could foresee it. */
ALWAYS void enter_three(float *top, ptrdiff_t k, const __m512 *with)
{
    __m512 a = with[0], b = with[1], c = with[2];
    if (!_mm512_cmp_ps_mask(a, _mm512_loadu_ps(top + (k - 1) * LANES), _CMP_LT_OQ)) return;
    for (ptrdiff_t j = 0; j < k; j++) {
        const __m512 have = _mm512_loadu_ps(top + j * LANES), x = _mm512_min_ps(a, have), y = _mm512_min_ps(b, x);
        _mm512_storeu_ps(top + j * LANES, _mm512_min_ps(c, y));
        a = _mm512_max_ps(a, have);
        b = _mm512_max_ps(b, x);
        c = _mm512_max_ps(c, y);
    }
}

/* The three least of two sorted threes, sorted: no branch that nobody could foresee. */
ALWAYS void merge_three(float *top, const __m512 *with)
{
    const __m512 a = _mm512_min_ps(_mm512_loadu_ps(top), with[2]), b = _mm512_min_ps(_mm512_loadu_ps(top + LANES), with[1]),
                 c = _mm512_min_ps(_mm512_loadu_ps(top + 2 * LANES), with[0]);
    const __m512 low = _mm512_min_ps(a, b), high = _mm512_max_ps(a, b), middle = _mm512_min_ps(high, c);
    _mm512_storeu_ps(top, _mm512_min_ps(low, c));
    _mm512_storeu_ps(top + LANES, _mm512_max_ps(low, middle));
    _mm512_storeu_ps(top + 2 * LANES, _mm512_max_ps(high, c));
}

/* Cells of the lanes that look into the box, from its origin; others have none. */
typedef struct Range { __m512i first, size; } Range;

ALWAYS Range range_of(const SnlsSieveLanes *axis, uint32_t lanes, int32_t origin)
{
    const __m512i first = _mm512_loadu_si512(axis->first);
    return (Range){_mm512_sub_epi32(first, _mm512_set1_epi32(origin)), _mm512_maskz_sub_epi32((__mmask16)lanes, _mm512_loadu_si512(axis->end), first)};
}

/* The least of a row of cells, for lanes that have cells in it. */
ALWAYS void note(const Scan *s, int cell, Least least, const Range *y, float *top, ptrdiff_t k)
{
    const __mmask16 in = _mm512_cmplt_epu32_mask(_mm512_sub_epi32(_mm512_set1_epi32(cell), y->first), y->size);
    const __m512 none = _mm512_set1_ps(__builtin_inff());
    const __m512 three[3] = {_mm512_mask_blend_ps(in, none, least.first), _mm512_mask_blend_ps(in, none, least.second), _mm512_mask_blend_ps(in, none, least.third)};
    for (int i = 0; i < 3; i++) _mm512_storeu_ps(s->to->least[i] + cell * LANES, three[i]);
    const __m512 unit = _mm512_set1_ps(1 / s->to->scale), scores[3] = {_mm512_mul_ps(three[0], unit), _mm512_mul_ps(three[1], unit), _mm512_mul_ps(three[2], unit)};
    if (k == 3) merge_three(top, scores);
    else enter_three(top, k, scores);
}

ALWAYS Axis axis_of(const SnlsSieveLanes *axis, uint32_t lanes, int32_t origin, int32_t steps)
{
    const __mmask16 in = (__mmask16)lanes;
    const __m512i zero = _mm512_set1_epi32(origin * steps), base = _mm512_sub_epi32(_mm512_loadu_si512(axis->base), zero);
    const __m512i from = _mm512_maskz_add_epi32(in, _mm512_loadu_si512(axis->from), base), to = _mm512_maskz_add_epi32(in, _mm512_loadu_si512(axis->to), base);
    const __m512 step = _mm512_set1_ps(1 / (float)steps);
    return (Axis){_mm512_maskz_loadu_ps(in, axis->fraction), _mm512_mul_ps(_mm512_cvtepi32_ps(from), step),
                  _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_sub_epi32(to, _mm512_set1_epi32(1))), step)};
}

ALWAYS void set_bends(Scan *s)
{
    const __m512 one = _mm512_set1_ps(1), fy = s->y.fraction, fx = s->x.fraction, gy = bow(fy), gx = bow(fx);
    s->bend[0] = gx;
    s->bend[1] = _mm512_mul_ps(gx, gy);
    s->bend[2] = _mm512_mul_ps(gy, _mm512_sub_ps(one, fx));
    s->bend[3] = _mm512_mul_ps(gy, fx);
}

ALWAYS void set_columns(Scan *s, const SnlsSieveView *w, const int points, const int l2)
{
    const Range x = range_of(w->x, w->lanes, w->origin_x);
    for (int c = 0; c < s->to->columns; c++) {
        Column *at = &s->column[c];
        const __m512i number = _mm512_set1_epi32(c);
        const __mmask16 in = _mm512_cmplt_epu32_mask(_mm512_sub_epi32(number, x.first), x.size);
        at->mark = _mm512_mask_mov_epi32(_mm512_set1_epi32(0x7fffffff), in, number);
        if (points == HALVES) at->two = have_both(&s->x, c);
        else if (points > 1) points_of(&s->x, s->last, c, points, at->f);
        for (int i = 0; l2 && points > 1 && i < points; i++) at->g[i] = bow(at->f[i]);
    }
}

static void prepare(Scan *s, const SnlsSieveView *w)
{
    const int l2 = s->keys->add != NULL;
    s->y = axis_of(w->y, w->lanes, w->origin_y, w->steps);
    s->x = axis_of(w->x, w->lanes, w->origin_x, w->steps);
    s->last = 1 - 1 / (float)w->steps;
    s->to->scale = w->steps == 2 && !l2 && whole_and_half(&s->y, w->lanes) && whole_and_half(&s->x, w->lanes) ? 4 : 1;
    s->clear = _mm512_set1_epi32((int)(~0u << s->to->bits));
    if (w->steps == 1) {
        set_bends(s);
        set_columns(s, w, 1, 0);
    } else if (s->to->scale > 1) set_columns(s, w, HALVES, 0);
    else if (!l2) set_columns(s, w, 2, 0);
    else if (w->steps == 2) set_columns(s, w, 2, 1);
    else set_columns(s, w, 4, 1);
}

typedef struct Work {
    Range y;
    SnlsSieveMake *box, *next;
    float *top;
    ptrdiff_t k;
} Work;

ALWAYS void scan_box(Scan *s, const Work *w, const int by, const int bx, const int add, const int bend)
{
    const int rows = s->to->rows + by;
    for (int row = 0; row < rows; row++) {
        make_some(w->box, w->next, row, rows, s->to->columns + bx, bend ? MANY_ROWS : 1);
        const Least least = scan_row(s, snls_sieve_unit(w->box, row * w->box->tiles), row, by, bx, add, bend);
        if (row >= by) note(s, row - by, least, &w->y, w->top, w->k);
    }
    make_next(w->next);
}

ALWAYS void scan_box_of_cells(Scan *s, const Work *w, const int points, const int l2)
{
    const int rows = s->to->rows + 1;
    for (int row = 0; row < rows; row++) {
        make_some(w->box, w->next, row, rows, s->to->columns + 1, l2 ? SOME_ROWS : MANY_ROWS);
        if (!row) continue;
        const float *above = snls_sieve_unit(w->box, (row - 1) * w->box->tiles), *below = snls_sieve_unit(w->box, row * w->box->tiles);
        const Least least = points == HALVES ? scan_halves(s, above, below, row - 1) : scan_between(s, above, below, row - 1, points, l2);
        note(s, row - 1, least, &w->y, w->top, w->k);
    }
    make_next(w->next);
}

static void scan_l2(Scan *s, const Work *w, int by, int bx)
{
    if (by && bx) scan_box(s, w, 1, 1, 1, 1);
    else if (by) scan_box(s, w, 1, 0, 1, 1);
    else if (bx) scan_box(s, w, 0, 1, 1, 1);
    else scan_box(s, w, 0, 0, 1, 0);
}

static void scan_prod(Scan *s, const Work *w, int by, int bx)
{
    if (by && bx) scan_box(s, w, 1, 1, 0, 0);
    else if (by) scan_box(s, w, 1, 0, 0, 0);
    else if (bx) scan_box(s, w, 0, 1, 0, 0);
    else scan_box(s, w, 0, 0, 0, 0);
}

static void scan_steps(Scan *s, const Work *w, int steps, int l2)
{
    if (s->to->scale > 1) scan_box_of_cells(s, w, HALVES, 0);
    else if (!l2) scan_box_of_cells(s, w, 2, 0);
    else if (steps == 2) scan_box_of_cells(s, w, 2, 1);
    else scan_box_of_cells(s, w, 4, 1);
}

ALWAYS int is_between(__m512 fraction) { return _mm512_cmp_ps_mask(fraction, _mm512_setzero_ps(), _CMP_NEQ_OQ) != 0; }

static void scan(SnlsSieveRows *to, SnlsSieveMake *made, const SnlsSieveView *view, float *top, ptrdiff_t k, SnlsSieveMake *next)
{
    Scan s;
    s.to = to;
    s.keys = &made->keys;
    prepare(&s, view);
    const Work w = {range_of(view->y, view->lanes, view->origin_y), made, next, top, k};
    const int l2 = made->keys.add != NULL;
    if (view->steps > 1) scan_steps(&s, &w, view->steps, l2);
    else (l2 ? scan_l2 : scan_prod)(&s, &w, is_between(s.y.fraction), is_between(s.x.fraction));
}

/* ---- who may be among the best ---- */

/* The entries of some lanes of a row, appended. */
ALWAYS uint32_t *append(uint32_t *to, __mmask16 lanes, __m512i row, __m512i column)
{
    _mm512_storeu_si512(to, _mm512_maskz_compress_epi32(lanes, _mm512_or_si512(row, _mm512_slli_epi32(column, 4))));
    return to + __builtin_popcount(lanes);
}

/* At pixels and halves: lanes whose cells have a second candidate up to a column, and up to a row; and lanes of which all such cells have another cell beside and
 * below them. */
typedef struct Edges { __m512i two_x, two_y; __mmask16 lanes; } Edges;

ALWAYS __m512i two_until(const SnlsSieveLanes *axis, int32_t origin, __mmask16 *lanes)
{
    const __m512i until = _mm512_srai_epi32(_mm512_add_epi32(_mm512_loadu_si512(axis->to), _mm512_loadu_si512(axis->base)), 1);
    *lanes = _mm512_mask_cmplt_epi32_mask(*lanes, until, _mm512_loadu_si512(axis->end));
    return _mm512_sub_epi32(until, _mm512_set1_epi32(origin));
}

ALWAYS Edges edges_of(const SnlsSieveTable *t, ptrdiff_t box)
{
    Edges e = {.lanes = 0xffff};
    e.two_y = two_until(&t->y[t->slot[box]], t->origin_y[box], &e.lanes);
    e.two_x = two_until(&t->x[t->slot[box]], t->origin_x[box], &e.lanes);
    return e;
}

/* The three least of a row of cells and the columns of the first two. */
typedef struct Trio { __m512 least[3]; __m512i column[2]; } Trio;

ALWAYS Trio trio_of(const SnlsSieveRows *from, int row, __m512i mask)
{
    Trio t;
    for (int i = 0; i < 3; i++) t.least[i] = row < from->rows ? _mm512_loadu_ps(from->least[i] + row * LANES) : _mm512_set1_ps(__builtin_inff());
    for (int i = 0; i < 2; i++) t.column[i] = _mm512_and_si512(_mm512_castps_si512(t.least[i]), mask);
    return t;
}

/* Lanes in whose least cell only the candidate at the pixel a can be below the limit. The others are means of a and its neighbours b, c and d, which are not below
 * the scores of the cells they begin: those of the first two of a row are known, others are not below the third. d may be the least of its row. */
ALWAYS __mmask16 only_first(const Trio *here, const Trio *next, int row, const Edges *e, __m512 limit)
{
    const __m512i column = here->column[0], beside = _mm512_add_epi32(column, _mm512_set1_epi32(1));
    const __mmask16 right = _mm512_cmplt_epi32_mask(column, e->two_x), down = _mm512_cmpgt_epi32_mask(e->two_y, _mm512_set1_epi32(row));
    __m512 b = _mm512_set1_ps(__builtin_inff()), c = b; /* where there is none */
    b = _mm512_mask_mov_ps(b, right, here->least[2]);
    b = _mm512_mask_mov_ps(b, _mm512_mask_cmpeq_epi32_mask(right, here->column[1], beside), here->least[1]);
    c = _mm512_mask_mov_ps(c, down, next->least[2]);
    c = _mm512_mask_mov_ps(c, _mm512_mask_cmpeq_epi32_mask(down, next->column[1], column), next->least[1]);
    c = _mm512_mask_mov_ps(c, _mm512_mask_cmpeq_epi32_mask(down, next->column[0], column), next->least[0]);
    const __m512 ab = _mm512_add_ps(here->least[0], b), ac = _mm512_add_ps(here->least[0], c), all = _mm512_add_ps(ab, _mm512_add_ps(c, next->least[0])), twice = _mm512_add_ps(limit, limit);
    const __mmask16 above = _mm512_mask_cmp_ps_mask(_mm512_mask_cmp_ps_mask(e->lanes, ab, twice, _CMP_GT_OQ), ac, twice, _CMP_GT_OQ);
    return _mm512_mask_cmp_ps_mask(above, all, _mm512_add_ps(twice, twice), _CMP_GT_OQ);
}

/* No branch for each entry: which rows and lanes have one is as good as random. */
ALWAYS int hits_of(const SnlsSieveRows *from, const SnlsSieveTable *table, ptrdiff_t box, int row, const float *bar, SnlsSieveEntries *cells, SnlsSieveEntries *pixels, const int halves)
{
    const __m512 limit = _mm512_min_ps(_mm512_mul_ps(_mm512_loadu_ps(bar), _mm512_set1_ps(from->scale)), _mm512_set1_ps(FLT_MAX));
    const __m512i mask = _mm512_set1_epi32((1 << from->bits) - 1), lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const SnlsSieveLanes *x = &table->x[table->slot[box]];
    const Edges edges = halves ? edges_of(table, box) : (Edges){.lanes = 0};
    const int origin = table->origin_x[box];
    uint32_t *to = cells->at + cells->count, *to_pixels = pixels->at + pixels->count;
    Trio next = trio_of(from, row, mask);
    for (; row < from->rows; row++) {
        if (cells->room - (to - cells->at) <= 4 * from->columns * LANES || pixels->room - (to_pixels - pixels->at) <= LANES) break; /* whole vectors are written */
        const uint32_t entry = snls_sieve_entry((uint32_t)box, (uint32_t)row, 0, 0);
        const __m512i entries = _mm512_add_epi32(_mm512_set1_epi32((int)entry), lane);
        const Trio here = next;
        next = trio_of(from, row + 1, mask);
        const __mmask16 all = _mm512_cmp_ps_mask(here.least[2], limit, _CMP_LE_OQ);
        __mmask16 first = _mm512_cmp_ps_mask(here.least[0], limit, _CMP_LE_OQ) & (__mmask16)~all;
        if (halves) {
            const __mmask16 alone = first & only_first(&here, &next, row, &edges, limit);
            to_pixels = append(to_pixels, alone, entries, here.column[0]);
            first &= (__mmask16)~alone;
        }
        to = append(to, first, entries, here.column[0]);
        to = append(to, _mm512_cmp_ps_mask(here.least[1], limit, _CMP_LE_OQ) & (__mmask16)~all, entries, here.column[1]);
        for (uint32_t rest = all; rest; rest &= rest - 1) {
            const int l = __builtin_ctz(rest);
            for (int c = x->first[l] - origin; c < x->end[l] - origin; c++) *to++ = entry | (uint32_t)c << 4 | (uint32_t)l;
        }
    }
    cells->count = to - cells->at;
    if (halves) pixels->count = to_pixels - pixels->at;
    return row;
}

static int hits(const SnlsSieveRows *from, const SnlsSieveTable *table, ptrdiff_t box, int row, const float *bar, SnlsSieveEntries *cells, SnlsSieveEntries *pixels)
{
    if (from->scale > 1) return hits_of(from, table, box, row, bar, cells, pixels, 1);
    return hits_of(from, table, box, row, bar, cells, pixels, 0);
}

#endif
