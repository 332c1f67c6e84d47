/* tile_window.c: where the windows of a tile's queries are in one slot, and the box of shifts around them. A candidate at
 * place p of a query at b is described by index = floor(p) - b - origin of the box, and fraction = p - floor(p). */
#include "cpu/tile.h"

/* The window lies inside the frame as a whole: what a lane needs to be scored with the others. */
static bool is_whole(const SnlsMatch *m, const SnlsMatchWindow *w)
{
    return w->valid && snls_inside(snls_match_y(m, w, 0), m->height) && snls_inside(snls_match_y(m, w, m->side - 1), m->height) &&
           snls_inside(snls_match_x(m, w, 0), m->width) && snls_inside(snls_match_x(m, w, m->side - 1), m->width);
}

/* Index (still from the query, not from the box) and fraction of every item of one axis of one lane. */
static void set_lane(const CpuTile *tile, CpuAxis *axis, int64_t l, double centre, int64_t origin, int64_t query)
{
    const double step = tile->c->m.stride1;
    for (int64_t a = 0; a < tile->items; a++) {
        const double place = snls_window_place(centre, step, a, origin), low = floor(place);
        axis->index[a * tile->lanes + l] = (int32_t)((int64_t)low - query);
        axis->fraction[a * tile->lanes + l] = (float)(place - low);
    }
}

static void run_windows(const CpuTile *tile, const CpuTilePlace *p, int64_t r, int64_t slot, CpuTileScratch *s)
{
    const SnlsMatch *m = &tile->c->m;
    for (int64_t l = 0; l < tile->lanes; l++) {
        uint8_t *together = &s->together[r * tile->lanes + l];
        *together = false;
        if (l >= p->lanes) continue;
        const SnlsQuery q = snls_tile_query(p, r, l);
        SnlsMatchWindow *w = &s->window[(r * tile->lanes + l) * m->windows + slot];
        *w = snls_match_window(m, &q, slot);
        *together = is_whole(m, w);
        if (!*together) continue;
        set_lane(tile, &s->y[r], l, w->y, w->origin_y, q.i * m->stride0);
        set_lane(tile, &s->x[r], l, w->x, w->origin_x, q.j * m->stride0);
    }
}

/* Smallest first and largest last index of an axis over all lanes of all rows. */
static bool extent(const CpuTile *tile, const CpuTilePlace *p, const CpuAxis *axes, const uint8_t *together, int64_t *first, int64_t *last)
{
    const int64_t lanes = tile->lanes, end = (tile->items - 1) * lanes;
    const int64_t beyond = tile->whole ? (int64_t)tile->c->m.stride1 * (tile->c->m.side - 1) : 0;
    bool any = false;
    for (int64_t r = 0; r < p->rows; r++)
        for (int64_t l = 0; l < lanes; l++) {
            if (!together[r * lanes + l]) continue;
            const int64_t low = axes[r].index[l], high = axes[r].index[end + l] + beyond;
            if (!any || low < *first) *first = low;
            if (!any || high > *last) *last = high;
            any = true;
        }
    return any;
}

/* Index from the box's origin; range per item. Lanes scored alone follow one that is not, so that they read nothing odd. */
static void settle(const CpuTile *tile, CpuAxis *axis, const uint8_t *together, int64_t origin)
{
    const int64_t lanes = tile->lanes;
    axis->between = false;
    for (int64_t a = 0; a < tile->items; a++) {
        int32_t *index = axis->index + a * lanes;
        float *fraction = axis->fraction + a * lanes;
        int low = 0, high = 0;
        bool any = false;
        for (int64_t l = 0; l < lanes; l++) {
            if (!together[l]) continue;
            index[l] -= (int32_t)origin;
            if (!any || index[l] < low) low = index[l];
            if (!any || index[l] > high) high = index[l];
            any = true;
            axis->between |= fraction[l] != 0;
        }
        for (int64_t l = 0; l < lanes; l++)
            if (!together[l]) { index[l] = low; fraction[l] = 0; }
        axis->low[a] = low;
        axis->high[a] = high;
    }
    for (int64_t a = tile->items; a < tile->c->m.side; a++) { /* whole: the cells share what the first has */
        axis->low[a] = axis->low[0];
        axis->high[a] = axis->high[0];
    }
}

bool snls_tile_windows(const CpuTile *tile, const CpuTilePlace *p, int64_t slot, CpuTileScratch *s)
{
    int64_t last_y = 0, last_x = 0;
    for (int64_t r = 0; r < p->rows; r++) run_windows(tile, p, r, slot, s);
    bool any = extent(tile, p, s->y, s->together, &s->origin_y, &last_y) && extent(tile, p, s->x, s->together, &s->origin_x, &last_x);
    s->size_y = last_y - s->origin_y + 2; /* the tap after the last */
    s->size_x = last_x - s->origin_x + 2;
    if (any && (s->size_y > tile->box_max || s->size_x > tile->box_max)) any = false; /* too far apart to share */
    for (int64_t i = 0; !any && i < tile->rows * tile->lanes; i++) s->together[i] = false;
    for (int64_t r = 0; any && r < p->rows; r++) {
        settle(tile, &s->y[r], s->together + r * tile->lanes, s->origin_y);
        settle(tile, &s->x[r], s->together + r * tile->lanes, s->origin_x);
    }
    return any;
}
