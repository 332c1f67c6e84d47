/* tile_window.c: where the windows of a tile's queries are in one slot, and the box of shifts around them. A candidate at
 * place p of a query at b is described by index = floor(p) - b - origin of the box, and fraction = p - floor(p). */
#include "cpu/tile.h"

enum { FLOW_FETCHED = 64 }; /* floats */

/* Index (still from the query, not from the box) and fraction of every item of one axis of one lane. */
static void set_lane(const CpuTile *tile, CpuAxis *axis, int64_t l, double centre, int64_t origin, int64_t query)
{
    const double step = tile->c->m.stride1;
    for (int64_t a = 0; a < tile->places; a++) {
        const double place = snls_window_place(centre, step, a, origin);
        const int64_t low = snls_floor_inside(place);
        axis->index[a * tile->lanes + l] = (int32_t)(low - query);
        axis->fraction[a * tile->lanes + l] = (float)(place - (double)low);
    }
}

/* A lane whose window is not plain: reflected, slid, cut, undefined. */
static void set_special(const CpuTile *tile, const CpuTilePlace *p, int64_t r, int64_t l, int64_t slot, CpuTileScratch *s)
{
    const SnlsMatch *m = &tile->c->m;
    const SnlsQuery q = snls_tile_query(tile, p, r, l);
    const SnlsMatchWindow w = snls_match_window(m, &q, slot);
    const CpuTileWindows *out = &s->window;
    const int64_t run = slot * tile->runs + r, at = run * tile->lanes + l;
    out->valid[run] |= (uint32_t)w.valid << l;
    out->y[at] = w.y;
    out->x[at] = w.x;
    out->origin_y[at] = (int32_t)w.origin_y;
    out->origin_x[at] = (int32_t)w.origin_x;
    if (!snls_tile_whole_window(m, &w)) return;
    s->together[r] |= 1u << l;
    set_lane(tile, &s->y[r], l, w.y, w.origin_y, q.i * m->stride0);
    set_lane(tile, &s->x[r], l, w.x, w.origin_x, q.j * m->stride0);
}

/* What the windows of all runs of a slot have in common. */
static SnlsTileWindows plain_windows(const CpuTile *tile, int64_t slot)
{
    const SnlsMatch *m = &tile->c->m;
    SnlsTileWindows in = {.all = snls_cpu_lane_windows(m), .apart = (double)m->stride0, .items = tile->places};
    if (!snls_match_has_centre(m, slot)) return in;
    in.flow_step = m->centre.stride[m->centre.ndim - 2];
    in.flow_y = snls_match_step_y(m);
    return in;
}

/* What the tile below will ask for. */
static void fetch_flow(const float *from, int64_t floats)
{
    if (floats > FLOW_FETCHED) floats = FLOW_FETCHED; /* vectors far apart: not worth it */
    for (int64_t i = 0; i < floats; i += 16) __builtin_prefetch(from + i);
}

static void run_windows(const CpuTile *tile, const CpuTilePlace *p, int64_t r, int64_t slot, SnlsTileWindows *in, CpuTileScratch *s)
{
    const SnlsMatch *m = &tile->c->m;
    const int64_t active = snls_tile_active(tile, p, r), run = slot * tile->runs + r, at = run * tile->lanes;
    s->together[r] = 0;
    if (active <= 0) return;
    const SnlsQuery q = snls_tile_query(tile, p, r, 0);
    SnlsTileAxis y = {s->window.y + at, s->window.origin_y + at, s->y[r].index, s->y[r].fraction}, x = {s->window.x + at, s->window.origin_x + at, s->x[r].index, s->x[r].fraction};
    in->flow = snls_match_has_centre(m, slot) ? (const float *)m->centre.data + snls_match_centre_at(m, &q, slot) : NULL;
    if (in->flow) fetch_flow(in->flow + tile->rows * m->centre.stride[m->centre.ndim - 3], in->flow_step * active);
    in->active = (int)active;
    in->y = (double)(q.i * m->stride0);
    in->x = (double)(q.j * m->stride0);
    const uint32_t plain = tile->t.windows(in, &y, &x);
    s->window.valid[run] = s->together[r] = plain;
    for (uint32_t rest = snls_tile_lanes(active) & ~plain; rest; rest &= rest - 1) set_special(tile, p, r, __builtin_ctz(rest), slot, s);
    if (!s->together[r]) return;
    s->y[r].between = tile->t.ranges(&y, tile->places, s->together[r], s->y[r].low, s->y[r].high);
    s->x[r].between = tile->t.ranges(&x, tile->places, s->together[r], s->x[r].low, s->x[r].high);
}

/* The box along an axis: first shift and number of shifts, over all runs. */
static bool extent(const CpuTile *tile, const CpuAxis *axes, const uint32_t *together, int64_t *origin, int64_t *size)
{
    int64_t first = 0, last = 0;
    bool any = false, between = false;
    for (int64_t r = 0; r < tile->runs; r++) {
        if (!together[r]) continue;
        const int64_t low = axes[r].low[0], high = axes[r].high[tile->places - 1] + tile->beyond;
        if (!any || low < first) first = low;
        if (!any || high > last) last = high;
        any = true;
        between |= axes[r].between;
    }
    *origin = first;
    *size = last - first + (between ? 2 : 1); /* the tap after the last */
    return any;
}

/* Index from the box's origin. */
static void settle(const CpuTile *tile, CpuAxis *axis, int64_t origin)
{
    for (int64_t i = 0; i < tile->places * tile->lanes; i++) axis->index[i] -= (int32_t)origin;
    for (int64_t a = 0; a < tile->places; a++) {
        axis->low[a] -= (int)origin;
        axis->high[a] -= (int)origin;
    }
}

void snls_tile_find_windows(const CpuTile *tile, const CpuTilePlace *p, int64_t slot, CpuTileScratch *s)
{
    SnlsTileWindows in = plain_windows(tile, slot);
    for (int64_t r = 0; r < tile->runs; r++) run_windows(tile, p, r, slot, &in, s);
}

bool snls_tile_find_box(const CpuTile *tile, CpuTileScratch *s)
{
    if (!extent(tile, s->y, s->together, &s->origin_y, &s->size_y) || !extent(tile, s->x, s->together, &s->origin_x, &s->size_x)) return false;
    return s->size_y <= tile->box_max && s->size_x <= tile->box_max && s->size_y * s->size_x <= tile->area_max;
}

void snls_tile_settle(const CpuTile *tile, CpuTileScratch *s)
{
    for (int64_t r = 0; r < tile->runs; r++) {
        if (!s->together[r]) continue;
        settle(tile, &s->y[r], s->origin_y);
        settle(tile, &s->x[r], s->origin_x);
    }
}

bool snls_tile_windows(const CpuTile *tile, const CpuTilePlace *p, int64_t slot, CpuTileScratch *s)
{
    const SnlsMatch *m = &tile->c->m;
    snls_tile_find_windows(tile, p, slot, s);
    if (snls_tile_find_box(tile, s) && snls_tile_keys_ready(tile, p, snls_slot_frame(p->t, slot, m->wt, m->frames), s)) {
        snls_tile_settle(tile, s);
        return true;
    }
    for (int64_t r = 0; r < tile->runs; r++) s->together[r] = 0; /* too far apart to share */
    return false;
}
