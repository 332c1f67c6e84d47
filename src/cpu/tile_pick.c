/* tile_pick.c: the best candidates of a tile's queries: sorted lists, lane by lane, and the outputs from them. */
#include "cpu/tile.h"
#include <float.h>
#include <math.h>

static float *top_of(const CpuTile *tile, const CpuTileScratch *s, int64_t r) { return s->top + r * tile->keep * tile->lanes; }

static float *number_of(const CpuTile *tile, const CpuTileScratch *s, int64_t r) { return s->number + r * tile->keep * tile->lanes; }

void snls_tile_begin_lists(const CpuTile *tile, CpuTileScratch *s)
{
    const int64_t queries = tile->runs * tile->lanes;
    for (int64_t i = 0; i < queries * tile->keep; i++) s->top[i] = NAN;
    for (int64_t i = 0; i < queries * tile->keep; i++) s->number[i] = SNLS_TILE_NONE;
    for (int64_t i = 0; i < queries; i++) s->most[i] = 0;
}

/* How far an interpolated l2 may be off, twice: rounding of the sums at the grid and of what is subtracted from them. */
static float slack(const CpuTile *tile, float bar, float most)
{
    const float eps = FLT_EPSILON * (float)(tile->c->m.features + 2 * tile->c->m.ps + 16);
    return isfinite(bar) ? 2 * eps * (fabsf(bar) + 4 * most) : 0;
}

/* Where candidate id of lane l of run r is. */
typedef struct Spot { int64_t slot; double y, x; } Spot;

static inline Spot spot_of(const CpuTile *tile, int64_t r, int64_t l, int64_t id, const CpuTileScratch *s)
{
    const CpuTileCell c = s->cell[id];
    const CpuTileWindow *w = &s->window[c.slot * tile->runs + r];
    const double step = tile->c->m.stride1;
    return (Spot){c.slot, snls_window_place(w->y[l], step, c.row, w->origin_y[l]), snls_window_place(w->x[l], step, c.column, w->origin_x[l])};
}

static int64_t frame_of(const CpuTile *tile, const CpuTilePlace *p, int64_t slot) { return snls_slot_frame(p->t, slot, tile->c->m.wt, tile->c->m.frames); }

/* With few terms most of the best lose digits. Each costs more than it does to hold scores back until all slots have lowered the bar. */
bool snls_tile_careful(const CpuTile *tile) { return tile->planes.bend && tile->c->m.features * tile->c->m.ps * tile->c->m.ps < 128; }

/* The interpolated l2 is a sum less a correction. Where the correction outweighs the result, digits are lost: some eight
 * roundings of value + 4*most against the (terms + 2) roundings of value that a plain sum may make. Then the distance is
 * summed anew from the pixels. */
static bool loses_digits(const CpuTile *tile, float value, float most)
{
    const int64_t terms = tile->c->m.features * tile->c->m.ps * tile->c->m.ps;
    return tile->planes.bend && (terms < 8 || value * (float)terms < 64 * most);
}

static void fetch(const CpuTile *tile, const CpuTilePlace *p, const Spot *at)
{
    const float *pixel = snls_cpu_pixel(&tile->c->key, p->b, frame_of(tile, p, at->slot), (int64_t)at->y, (int64_t)at->x) + p->head * tile->c->m.features;
    __builtin_prefetch(pixel);
    __builtin_prefetch(pixel + tile->c->key.step[2]); /* beyond the last row: a hint about memory nobody reads is ignored */
}

static void insert_one(const CpuTile *tile, int64_t r, int64_t l, int64_t id, float value, const CpuTileScratch *s)
{
    const int64_t lanes = tile->lanes;
    float *top = top_of(tile, s, r) + l, *number = number_of(tile, s, r) + l;
    int64_t i = tile->keep - 1;
    if (top[i * lanes] <= value) return; /* candidates come in order: an equal one before stays before */
    for (; i > 0 && !(top[(i - 1) * lanes] <= value); i--) {
        top[i * lanes] = top[(i - 1) * lanes];
        number[i * lanes] = number[(i - 1) * lanes];
    }
    top[i * lanes] = value;
    number[i * lanes] = (float)id;
}

static void enter(const CpuTile *tile, const CpuTilePlace *p, int64_t r, int64_t l, int64_t id, float value, CpuTileScratch *s)
{
    if (loses_digits(tile, value, s->most[r * tile->lanes + l])) {
        const SnlsQuery q = snls_tile_query(tile, p, r, l);
        const Spot at = spot_of(tile, r, l, id, s);
        if (at.y != floor(at.y) || at.x != floor(at.x)) { /* on a pixel there is no correction: the best match of all, a query with itself, is there */
            snls_cpu_load_patch(tile->c, &q, s->single);
            value = snls_cpu_score_at(tile->c, &q, frame_of(tile, p, at.slot), at.y, at.x, s->single);
            if (isnan(value)) return;
        }
    }
    insert_one(tile, r, l, id, value, s);
}

/* Scores of run r one by one, candidates from number `id` on: those that no rounding could keep out of the lists. */
static void one_by_one(const CpuTile *tile, const CpuTilePlace *p, int64_t r, const float *value, int64_t n, int64_t id, CpuTileScratch *s)
{
    const int64_t lanes = tile->lanes, active = snls_tile_active(tile, p, r);
    float *bar = s->work;
    tile->t.lower_bar(bar, top_of(tile, s, r), value, n, tile->c->k, s->work + lanes);
    for (int64_t l = 0; l < lanes; l++) bar[l] = l < active ? bar[l] + slack(tile, bar[l], s->most[r * lanes + l]) : NAN;
    const ptrdiff_t count = tile->t.below(s->below, value, n, bar, s->below + n * lanes);
    for (ptrdiff_t i = 0; i < count; i++) {
        const int64_t l = s->below[i] % 16, c = s->below[i] / 16;
        if (i + 4 < count) {
            const Spot next = spot_of(tile, r, s->below[i + 4] % 16, id + s->below[i + 4] / 16, s);
            fetch(tile, p, &next);
        }
        enter(tile, p, r, l, id + c, value[c * lanes + l], s);
    }
}

/* Some score of the run needs another look before it can be compared. */
static bool needs_care(const CpuTile *tile, int64_t r, int64_t active, const float *value, int64_t n, CpuTileScratch *s)
{
    if (!tile->planes.bend) return false;
    tile->t.least(s->work, value, n);
    for (int64_t l = 0; l < active; l++)
        if (loses_digits(tile, s->work[l], s->most[r * tile->lanes + l])) return true;
    return false;
}

void snls_tile_sort_out(const CpuTile *tile, const CpuTilePlace *p, int64_t r, const float *value, int64_t n, int64_t slot, CpuTileScratch *s)
{
    const int64_t id = slot * tile->cells, active = snls_tile_active(tile, p, r), count = n * tile->cells;
    if (needs_care(tile, r, active, value, count, s)) one_by_one(tile, p, r, value, count, id, s);
    else tile->t.insert(top_of(tile, s, r), number_of(tile, s, r), tile->c->k, value, count, (float)id, (int)active, s->work, s->below);
}

bool snls_tile_enters_rows(const CpuTile *tile) { return !tile->planes.bend && tile->c->k <= SNLS_TILE_SHORT; }

void snls_tile_enter_row(const CpuTile *tile, int64_t r, int64_t slot, int64_t row, const float *value, CpuTileScratch *s)
{
    const int64_t side = tile->c->m.side, id = slot * tile->cells + row * side;
    tile->t.insert(top_of(tile, s, r), number_of(tile, s, r), tile->c->k, value, side, (float)id, (int)tile->lanes, s->work, s->below);
}

/* Neighbours of one query from the list into places kept .. kept+k-1 of the outputs. */
static void write_query(const CpuTile *tile, const CpuTilePlace *p, int64_t r, int64_t l, int64_t kept, const CpuTileScratch *s)
{
    const SnlsMatch *m = &tile->c->m;
    const SnlsQuery q = snls_tile_query(tile, p, r, l);
    const int64_t step = m->offset.stride[6];
    const float *top = top_of(tile, s, r) + l, *number = number_of(tile, s, r) + l;
    const double y = (double)(q.i * m->stride0), x = (double)(q.j * m->stride0);
    float *dist = (float *)m->dist.data + snls_at6(&m->dist, q.b, q.head, q.t, q.i, q.j, kept);
    float *offset = (float *)m->offset.data + snls_at6(&m->offset, q.b, q.head, q.t, q.i, q.j, kept);
    int32_t *index = m->index.data ? (int32_t *)m->index.data + snls_at6(&m->index, q.b, q.head, q.t, q.i, q.j, kept) : NULL;
    for (int64_t i = 0; i < m->k; i++, dist += m->dist.stride[5], offset += m->offset.stride[5]) {
        const bool there = i < tile->c->k && number[i * tile->lanes] < SNLS_TILE_NONE;
        const int32_t id = there ? (int32_t)number[i * tile->lanes] : -1;
        const Spot at = there ? spot_of(tile, r, l, id, s) : (Spot){0, y, x}; /* slot 0 is the query's own frame */
        const float value = there ? top[i * tile->lanes] : INFINITY;
        *dist = (m->prod ? -value : value) + 0.0f; /* no -0 */
        offset[0] = (float)(frame_of(tile, p, at.slot) - p->t);
        offset[step] = (float)(at.y - y);
        offset[2 * step] = (float)(at.x - x);
        if (index) index[i * m->index.stride[5]] = id;
    }
}

void snls_tile_write_lists(const CpuTile *tile, const CpuTilePlace *p, int64_t kept, const CpuTileScratch *s)
{
    for (int64_t r = 0; r < p->rows * tile->blocks; r++)
        for (int64_t l = 0; l < snls_tile_active(tile, p, r); l++) write_query(tile, p, r, l, kept, s);
}
