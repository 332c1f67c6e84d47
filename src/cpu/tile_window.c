/* tile_window.c: where the windows of a tile's queries are in one slot, and the box of shifts around them. A candidate at
 * place p of a query at b is described by index = floor(p) - b - origin of the box, and fraction = p - floor(p). */
#include "cpu/tile.h"
#include <string.h>

/* Index (still from the query, not from the box) and fraction of every item of one axis of one lane. */
static void set_lane(const CpuTile *tile, CpuAxis *axis, int64_t l, double centre, int64_t origin, int64_t query)
{
    const double step = tile->c->m.stride1;
    for (int64_t a = 0; a < tile->items; a++) {
        const double place = snls_window_place(centre, step, a, origin);
        const int64_t low = snls_floor_inside(place);
        axis->index[a * tile->lanes + l] = (int32_t)(low - query);
        axis->fraction[a * tile->lanes + l] = (float)(place - (double)low);
    }
}

/* A lane whose window is not plain: reflected, slid, cut, undefined. */
static void set_special(const CpuTile *tile, const CpuTilePlace *p, int64_t r, int64_t l, int64_t slot, CpuTileWindow *out, CpuTileScratch *s)
{
    const SnlsMatch *m = &tile->c->m;
    const SnlsQuery q = snls_tile_query(tile, p, r, l);
    const SnlsMatchWindow w = snls_match_window(m, &q, slot);
    out->valid[l] = w.valid;
    out->y[l] = w.y;
    out->x[l] = w.x;
    out->origin_y[l] = (int32_t)w.origin_y;
    out->origin_x[l] = (int32_t)w.origin_x;
    s->together[r * tile->lanes + l] = snls_tile_whole_window(m, &w);
    if (!s->together[r * tile->lanes + l]) return;
    set_lane(tile, &s->y[r], l, w.y, w.origin_y, q.i * m->stride0);
    set_lane(tile, &s->x[r], l, w.x, w.origin_x, q.j * m->stride0);
}

/* The flow of a run's queries side by side; false: none in this slot. */
static bool run_flow(const CpuTile *tile, const SnlsQuery *q, int64_t slot, int64_t active, float *flow_y, float *flow_x)
{
    const SnlsMatch *m = &tile->c->m;
    if (!snls_match_has_centre(m, slot)) return false;
    const float *flow = (const float *)m->centre.data + snls_match_centre_at(m, q, slot);
    const int64_t step = m->centre.stride[m->centre.ndim - 2], step_y = snls_match_step_y(m);
    for (int64_t l = 0; l < tile->lanes; l++) {
        const float *at = flow + (l < active ? l : active - 1) * step;
        flow_y[l] = m->nearest ? rintf(at[step_y]) : at[step_y];
        flow_x[l] = m->nearest ? rintf(at[0]) : at[0];
    }
    return true;
}

static void run_windows(const CpuTile *tile, const CpuTilePlace *p, int64_t r, int64_t slot, CpuTileScratch *s)
{
    const SnlsMatch *m = &tile->c->m;
    const int64_t active = snls_tile_active(tile, p, r), origin = (m->side - 1) / 2;
    uint8_t *together = s->together + r * tile->lanes;
    for (int64_t l = 0; l < tile->lanes; l++) together[l] = 0;
    if (active <= 0) return;
    float flow_y[SNLS_TILE_LANES_MAX], flow_x[SNLS_TILE_LANES_MAX];
    CpuTileWindow *w = &s->window[slot * tile->runs + r];
    const SnlsQuery q = snls_tile_query(tile, p, r, 0);
    const bool flow = run_flow(tile, &q, slot, active, flow_y, flow_x);
    const SnlsTileWindows in = {flow ? flow_y : NULL, flow ? flow_x : NULL, (double)(q.i * m->stride0), (double)(q.j * m->stride0), (double)m->stride0,
                                m->stride1 * (double)origin, m->stride1 * (double)(m->side - 1 - origin), (double)(m->height - 1), (double)(m->width - 1)};
    SnlsTileAxis y = {w->y, s->y[r].index, s->y[r].fraction}, x = {w->x, s->x[r].index, s->x[r].fraction};
    tile->t.windows(&in, &y, &x, together);
    for (int64_t l = 0; l < tile->lanes; l++) {
        w->valid[l] = together[l];
        w->origin_y[l] = w->origin_x[l] = (int32_t)origin;
        if (l >= active) together[l] = 0;
        else if (!together[l]) set_special(tile, p, r, l, slot, w, s);
        else if (tile->items > 1) { /* every item has a fraction of its own */
            set_lane(tile, &s->y[r], l, w->y[l], origin, q.i * m->stride0);
            set_lane(tile, &s->x[r], l, w->x[l], origin, (q.j + l) * m->stride0);
        }
    }
}

/* Range of every item of an axis. Lanes scored alone follow lane `like`, so that they read nothing odd. */
static void find_range(const CpuTile *tile, CpuAxis *axis, const uint8_t *together, int64_t like)
{
    axis->between = false;
    for (int64_t a = 0; a < tile->items; a++) {
        int32_t *index = axis->index + a * tile->lanes;
        float *fraction = axis->fraction + a * tile->lanes;
        for (int64_t l = 0; l < tile->lanes; l++) {
            index[l] = together[l] ? index[l] : index[like];
            fraction[l] = together[l] ? fraction[l] : 0;
        }
        axis->between |= tile->t.range(index, fraction, &axis->low[a], &axis->high[a]);
    }
}

static void run_ranges(const CpuTile *tile, int64_t r, CpuTileScratch *s)
{
    const uint8_t *together = s->together + r * tile->lanes;
    int64_t count = 0, like = 0;
    for (int64_t l = tile->lanes; l-- > 0;) {
        count += together[l];
        like = together[l] ? l : like;
    }
    s->shared[r] = (int)count;
    if (!count) return;
    find_range(tile, &s->y[r], together, like);
    find_range(tile, &s->x[r], together, like);
}

/* The box along an axis: first shift and number of shifts, over all runs. */
static bool extent(const CpuTile *tile, const CpuAxis *axes, const int *shared, int64_t *origin, int64_t *size)
{
    const int64_t beyond = tile->whole ? (int64_t)tile->c->m.stride1 * (tile->c->m.side - 1) : 0;
    int64_t first = 0, last = 0;
    bool any = false, between = false;
    for (int64_t r = 0; r < tile->runs; r++) {
        if (!shared[r]) continue;
        const int64_t low = axes[r].low[0], high = axes[r].high[tile->items - 1] + beyond;
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
    for (int64_t i = 0; i < tile->items * tile->lanes; i++) axis->index[i] -= (int32_t)origin;
    for (int64_t a = 0; a < tile->items; a++) {
        axis->low[a] -= (int)origin;
        axis->high[a] -= (int)origin;
    }
    for (int64_t a = tile->items; a < tile->c->m.side; a++) { /* whole: the cells share what the first has */
        axis->low[a] = axis->low[0];
        axis->high[a] = axis->high[0];
    }
}

/* With border drop, pixels outside the frame leave patches: then only tiles that stay inside are scored together. */
static bool leaves_frame(const CpuTile *tile, const CpuTilePlace *p, const CpuTileScratch *s)
{
    const SnlsMatch *m = &tile->c->m;
    const CpuPlanes *planes = &tile->planes;
    const int64_t top = p->i0 * m->stride0 - planes->before, left = p->j0 * m->stride0 - planes->before;
    const int64_t bottom = (p->i0 + p->rows - 1) * m->stride0 + planes->after, right = (p->j0 + p->columns - 1) * m->stride0 + planes->after;
    return top < 0 || left < 0 || bottom >= m->height || right >= m->width || top + s->origin_y < 0 || left + s->origin_x < 0 ||
           bottom + s->origin_y + s->size_y > m->height || right + s->origin_x + s->size_x > m->width;
}

bool snls_tile_windows(const CpuTile *tile, const CpuTilePlace *p, int64_t slot, CpuTileScratch *s)
{
    const SnlsMatch *m = &tile->c->m;
    for (int64_t r = 0; r < tile->runs; r++) {
        run_windows(tile, p, r, slot, s);
        run_ranges(tile, r, s);
    }
    bool any = extent(tile, s->y, s->shared, &s->origin_y, &s->size_y) && extent(tile, s->x, s->shared, &s->origin_x, &s->size_x);
    if (s->size_y > tile->box_max || s->size_x > tile->box_max || s->size_y * s->size_x > tile->area_max) any = false; /* too far apart to share */
    if (any && !snls_tile_keys_ready(tile, p, snls_slot_frame(p->t, slot, m->wt, m->frames), s)) any = false;
    if (any && m->drop && m->ps > 1 && leaves_frame(tile, p, s)) any = false;
    for (int64_t r = 0; r < tile->runs; r++) {
        if (!any) s->shared[r] = 0;
        if (!any) memset(s->together + r * tile->lanes, 0, (size_t)tile->lanes);
        if (!s->shared[r]) continue;
        settle(tile, &s->y[r], s->origin_y);
        settle(tile, &s->x[r], s->origin_x);
    }
    return any;
}
