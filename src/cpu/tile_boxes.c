/* tile_boxes.c: which queries of a tile of patches are scored together in a slot. Patches share products only with neighbours that look at the same shifts. Where flow is
 * smooth one box of shifts holds all windows of a tile. Where something moves before something else, or flow is wrong here and there, one box would hold mostly shifts that
 * nobody asks for: then queries are sorted into several boxes by where their windows begin, the most crowded place first, as long as that is cheaper than to score them alone. */
#include "cpu/tile.h"
#include <string.h>

enum { PLACES = 512, VECTORS_MAX = SNLS_TILE_VECTORS, TRIES = 2 * SNLS_TILE_BOXES };

/* Shifts at which windows begin. */
typedef struct Range { int32_t first, end; } Range;
typedef struct Where { Range y, x; } Where;

static const Where anywhere = {{INT32_MIN, INT32_MAX}, {INT32_MIN, INT32_MAX}};

static bool is_in(const CpuSpot *q, const Where *w) { return q->y >= w->y.first && q->y < w->y.end && q->x >= w->x.first && q->x < w->x.end; }

static int64_t reach_of(const CpuTile *tile) { return tile->planes.before + tile->planes.after; }

/* Queries whose windows lie in the frame as a whole; how many. */
static int64_t collect(const CpuTile *tile, const CpuTilePlace *p, CpuTileScratch *s)
{
    const int64_t last = (tile->places - 1) * tile->lanes;
    int64_t n = 0;
    for (int64_t r = 0; r < p->rows * tile->blocks; r++)
        for (uint32_t rest = s->together[r]; rest; rest &= rest - 1) {
            const int l = __builtin_ctz(rest);
            const int32_t *y = s->y[r].index, *x = s->x[r].index;
            s->spot[n++] = (CpuSpot){y[l], x[l], (int32_t)(y[last + l] + tile->beyond), (int32_t)(x[last + l] + tile->beyond), (int16_t)r, (int16_t)l};
        }
    return n;
}

/* Some queries: the box of their windows, and what it would take, in cycles. */
typedef struct Tally { CpuBox box; int64_t queries, runs; double cycles; } Tally;

static void widen(CpuBox *b, const CpuSpot *q)
{
    b->y = q->y < b->y ? q->y : b->y;
    b->x = q->x < b->x ? q->x : b->x;
    b->y_end = q->last_y + 2 > b->y_end ? q->last_y + 2 : b->y_end; /* one for the tap after the last */
    b->x_end = q->last_x + 2 > b->x_end ? q->last_x + 2 : b->x_end;
}

static double area_of(const CpuBox *b) { return (double)(b->y_end - b->y) * (double)(b->x_end - b->x); }

static const CpuBox empty = {INT64_MAX, INT64_MIN, INT64_MAX, INT64_MIN, INT64_MAX, 0};

/* By what searches took: a vector of products of pixels 0.7 cycles a feature, squares without norms twice that, sums down 2; of each run sums across and 20 a candidate. */
static Tally tally(const CpuTile *tile, const CpuSpot *spot, int64_t n, const Where *where)
{
    const SnlsMatch *m = &tile->c->m;
    Tally t = {.box = empty};
    CpuBox vector[VECTORS_MAX];
    int64_t run = -1;
    for (int v = 0; v < VECTORS_MAX; v++) vector[v] = empty;
    for (int64_t i = 0; i < n; i++) {
        const CpuSpot *q = &spot[i];
        if (!is_in(q, where)) continue;
        const int64_t row = q->run / tile->blocks, block = q->run % tile->blocks;
        widen(&t.box, q);
        t.box.row = row < t.box.row ? row : t.box.row;
        t.box.row_end = row + 1; /* spots are in the order of their runs */
        for (int64_t v = block; v <= block + (q->lane + reach_of(tile)) / tile->lanes && v < VECTORS_MAX; v++) widen(&vector[v], q);
        t.queries++;
        t.runs += q->run != run;
        run = q->run;
    }
    if (!t.queries) return t;
    const double rows = (double)(t.box.row_end - t.box.row + reach_of(tile)), shift = (double)m->features * (m->prod || tile->norms ? 0.7 : 1.4) + 2;
    for (int v = 0; v < VECTORS_MAX; v++)
        if (vector[v].y_end > vector[v].y) t.cycles += area_of(&vector[v]) * rows * shift;
    t.cycles += (double)t.runs * (3 * area_of(&t.box) + 20 * (double)tile->cells);
    return t;
}

/* Of a query scored alone. */
static double alone(const CpuTile *tile)
{
    const SnlsMatch *m = &tile->c->m;
    return 4000 + (double)(tile->span * tile->span * m->ps * m->ps) * (8 + 2 * (double)m->features / (double)tile->lanes);
}

/* The `size` neighbouring places along an axis where most windows begin, of those in `within`. Places far beyond the first are not looked at. */
static Range crowded(const CpuSpot *spot, int64_t n, const Where *within, bool along_x, int32_t size)
{
    int16_t count[PLACES] = {0};
    int32_t base = INT32_MAX, here = 0, most = 0, at = 0;
    for (int64_t i = 0; i < n; i++) {
        const int32_t place = along_x ? spot[i].x : spot[i].y;
        if (is_in(&spot[i], within) && place < base) base = place;
    }
    for (int64_t i = 0; i < n; i++) {
        const int32_t place = along_x ? spot[i].x : spot[i].y;
        if (is_in(&spot[i], within) && place < base + PLACES) count[place - base]++;
    }
    for (int32_t i = 0; i < PLACES; i++) {
        here += count[i] - (i >= size ? count[i - size] : 0);
        if (here > most) most = here, at = i;
    }
    return (Range){base + at - size + 1, base + at + 1};
}

static bool fits(const CpuTile *tile, const CpuBox *b)
{
    const int64_t y = b->y_end - b->y, x = b->x_end - b->x;
    return y <= tile->box_max && x <= tile->box_max && y * x <= tile->area_max;
}

/* With border drop, pixels outside the frame leave patches: then only boxes that stay inside are scored together. */
static bool leaves_frame(const CpuTile *tile, const CpuTilePlace *p, const CpuBox *b)
{
    const SnlsMatch *m = &tile->c->m;
    const CpuPlanes *planes = &tile->planes;
    const int64_t top = p->i0 + b->row - planes->before, left = p->j0 - planes->before, bottom = p->i0 + b->row_end - 1 + planes->after, right = p->j0 + p->columns - 1 + planes->after;
    return m->drop && (top < 0 || left < 0 || bottom >= m->height || right >= m->width || top + b->y < 0 || left + b->x < 0 || bottom + b->y_end > m->height || right + b->x_end > m->width);
}

static uint32_t *lanes_of(const CpuTile *tile, const CpuTileScratch *s, int64_t box) { return s->box_lanes + box * tile->runs; }

/* Those of `where` are one box, or are left alone; the others stay, in their order. */
static int64_t take(const CpuTile *tile, const CpuBox *box, const Where *where, int64_t n, CpuTileScratch *s)
{
    uint32_t *lanes = box ? lanes_of(tile, s, s->box_count) : NULL;
    int64_t left = 0;
    for (int64_t r = 0; lanes && r < tile->runs; r++) lanes[r] = 0;
    for (int64_t i = 0; i < n; i++) {
        if (!is_in(&s->spot[i], where)) s->spot[left++] = s->spot[i];
        else if (lanes) lanes[s->spot[i].run] |= 1u << s->spot[i].lane;
    }
    if (box) s->box_of[s->box_count++] = *box;
    return left;
}

/* Boxes where windows crowd; what they take, and those that are left alone. */
static double sort(const CpuTile *tile, const CpuTilePlace *p, int64_t n, CpuTileScratch *s)
{
    const int32_t size = (int32_t)tile->spread + 1;
    double cycles = 0;
    for (int tries = 0; n && s->box_count < SNLS_TILE_BOXES && tries < TRIES; tries++) {
        Where where = anywhere;
        where.y = crowded(s->spot, n, &where, false, size);
        where.x = crowded(s->spot, n, &where, true, size);
        const Tally t = tally(tile, s->spot, n, &where);
        const bool pays = t.cycles < (double)t.queries * alone(tile) && fits(tile, &t.box) && !leaves_frame(tile, p, &t.box);
        cycles += pays ? t.cycles : (double)t.queries * alone(tile);
        n = take(tile, pays ? &t.box : NULL, &where, n, s);
    }
    return cycles + (double)n * alone(tile);
}

static void keep_axes(const CpuTile *tile, CpuTileScratch *s)
{
    const size_t n = (size_t)(tile->items * tile->lanes);
    for (int64_t r = 0; r < tile->runs; r++)
        for (int axis = 0; axis < 2; axis++) {
            const CpuAxis *a = axis ? &s->x[r] : &s->y[r], *k = &s->kept[2 * r + axis];
            memcpy(k->index, a->index, n * sizeof *a->index);
            memcpy(k->fraction, a->fraction, n * sizeof *a->fraction);
        }
}

/* Of the shifts that windows of runs touch along an axis, those of blocks [first, end). */
static int64_t extent(const CpuTile *tile, const CpuTilePlace *p, const CpuAxis *axis, int64_t first, int64_t end, const CpuTileScratch *s)
{
    int64_t low = INT64_MAX, high = INT64_MIN;
    for (int64_t row = 0; row < p->rows; row++)
        for (int64_t r = row * tile->blocks + first; r < row * tile->blocks + end; r++) {
            if (!s->together[r]) continue;
            low = axis[r].low[0] < low ? axis[r].low[0] : low;
            high = axis[r].high[tile->places - 1] > high ? axis[r].high[tile->places - 1] : high;
        }
    return high < low ? 0 : high - low + tile->beyond + 2;
}

/* Whether one box is good enough: vectors of pixels, which make products only at shifts that their own patches look at, do so at fewer than two windows touch. A box of several is hardly smaller
 * than that. */
static bool is_even(const CpuTile *tile, const CpuTilePlace *p, const CpuTileScratch *s)
{
    const int64_t vectors = tile->pixel_columns / tile->lanes, beside = (reach_of(tile) + tile->lanes - 1) / tile->lanes;
    int64_t area = 0, used = 0;
    for (int64_t n = 0; n < vectors; n++) {
        const int64_t first = n > beside ? n - beside : 0, end = n + 1 < tile->blocks ? n + 1 : tile->blocks;
        const int64_t y = extent(tile, p, s->y, first, end, s), x = extent(tile, p, s->x, first, end, s);
        area += y * x;
        used += y > 0;
    }
    return area <= 2 * used * tile->span * tile->span;
}

int snls_tile_boxes(const CpuTile *tile, const CpuTilePlace *p, int64_t slot, CpuTileScratch *s)
{
    const SnlsMatch *m = &tile->c->m;
    const Where all = anywhere;
    s->box_count = 0;
    s->sorted = false;
    snls_tile_find_windows(tile, p, slot, s);
    if (!snls_tile_keys_ready(tile, p, snls_slot_frame(p->t, slot, m->wt, m->frames), s)) return 0;
    CpuBox whole = {0};
    const bool fitting = snls_tile_find_box(tile, s);
    if (fitting) whole = (CpuBox){s->origin_y, s->origin_y + s->size_y, s->origin_x, s->origin_x + s->size_x, 0, p->rows};
    const bool possible = fitting && !leaves_frame(tile, p, &whole);
    if (!possible || (s->size_y * s->size_x > 2 * tile->span * tile->span && !is_even(tile, p, s))) {
        const int64_t n = collect(tile, p, s);
        const double cycles = tally(tile, s->spot, n, &all).cycles; /* before spots are sorted */
        s->sorted = n > 0 && (sort(tile, p, n, s) < cycles || !possible);
        if (s->sorted) keep_axes(tile, s);
        if (s->sorted || !n) return s->box_count;
    }
    memcpy(lanes_of(tile, s, 0), s->together, (size_t)tile->runs * sizeof *s->together);
    s->box_of[0] = whole;
    return s->box_count = 1;
}

uint32_t snls_tile_box_lanes(const CpuTile *tile, int64_t run, const CpuTileScratch *s)
{
    uint32_t lanes = 0;
    for (int b = 0; b < s->box_count; b++) lanes |= lanes_of(tile, s, b)[run];
    return lanes;
}

void snls_tile_use_box(const CpuTile *tile, int box, CpuTileScratch *s)
{
    const CpuBox *b = &s->box_of[box];
    const size_t n = (size_t)(tile->items * tile->lanes);
    for (int64_t r = 0; r < tile->runs; r++) {
        s->together[r] = lanes_of(tile, s, box)[r];
        for (int axis = 0; s->sorted && s->together[r] && axis < 2; axis++) { /* of other lanes nothing is left after `ranges` */
            CpuAxis *a = axis ? &s->x[r] : &s->y[r];
            const CpuAxis *k = &s->kept[2 * r + axis];
            memcpy(a->index, k->index, n * sizeof *a->index);
            memcpy(a->fraction, k->fraction, n * sizeof *a->fraction);
            const SnlsTileAxis in = {.index = a->index, .fraction = a->fraction};
            a->between = tile->t.ranges(&in, tile->places, s->together[r], a->low, a->high);
        }
    }
    s->row = b->row;
    s->row_end = b->row_end;
    snls_tile_find_box(tile, s);
    snls_tile_settle(tile, s);
}
