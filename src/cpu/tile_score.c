/* tile_score.c: products of a tile with the key pixels at every shift of the box, and the candidates' scores from them. */
#include "cpu/tile.h"

/* Key row y against the tile's rows [first, end), at every shift of the box along x. */
static void products_of_row(const CpuTile *tile, CpuTileScratch *s, const float *key_row, int64_t y, const int64_t *query_y, int64_t first, int64_t end)
{
    const SnlsMatch *m = &tile->c->m;
    const int64_t pitch = tile->planes.pitch;
    float *out[SNLS_TILE_ROWS_MAX];
    const float *query[SNLS_TILE_ROWS_MAX], *key[SNLS_TILE_COLUMNS_MAX];
    for (int64_t f = 0; f < m->features; f += SNLS_TILE_FEATURES) {
        const int64_t features = m->features - f < SNLS_TILE_FEATURES ? m->features - f : SNLS_TILE_FEATURES;
        for (int64_t d = 0; d < s->size_x; d += tile->t.columns) {
            const int columns = (int)(s->size_x - d < tile->t.columns ? s->size_x - d : tile->t.columns);
            for (int64_t r = first; r < end; r++) {
                const int64_t shift = y - query_y[r] - s->origin_y;
                out[r - first] = snls_tile_box(tile, s, r, shift) + d * tile->lanes; /* a tile is one block wide */
                query[r - first] = s->query + (r * m->features + f) * tile->lanes;
            }
            for (int i = 0; i < columns; i++) key[i] = key_row + f * pitch + s->place[d + i];
            (m->prod ? tile->t.dots : tile->t.squares)(out, tile->lanes, query, (int)(end - first), key, columns, tile->lanes, pitch, features, f > 0,
                                                       tile->planes.row);
        }
    }
}

/* Patches of one pixel: a tile is one run wide. */
static void pixel_scores(const CpuTile *tile, const CpuTilePlace *p, int64_t frame, CpuTileScratch *s)
{
    const SnlsMatch *m = &tile->c->m;
    int64_t query_y[SNLS_TILE_ROWS_MAX];
    for (int64_t r = 0; r < p->rows; r++) query_y[r] = (p->i0 + r) * m->stride0;
    const int64_t from = query_y[0] + s->origin_y, to = query_y[p->rows - 1] + s->origin_y + s->size_y;
    for (int64_t y = from < 0 ? 0 : from; y < to && y < m->height; y++) {
        int64_t first = 0, end = p->rows; /* rows whose box holds y: a run, since query_y rises */
        while (first < end && y - query_y[first] - s->origin_y >= s->size_y) first++;
        while (end > first && y - query_y[end - 1] - s->origin_y < 0) end--;
        if (end > first) products_of_row(tile, s, snls_tile_plane_row(tile, frame, y), y, query_y, first, end);
    }
}

/* Rows of the planes of corrections as runs for mix: number j of plane n is shift origin_y + j of row r. */
static void point_bends(const CpuTile *tile, const CpuTilePlace *p, int64_t frame, int64_t r, CpuTileScratch *s)
{
    const SnlsMatch *m = &tile->c->m;
    const int64_t query_y = (p->i0 + r / tile->blocks) * m->stride0, across = r % tile->blocks * tile->lanes; /* stride0 is 1 where blocks are several */
    for (int64_t j = 0; j <= s->size_y; j++) { /* rows outside the frame have weight 0: any will do */
        const float *row = snls_tile_plane_row(tile, frame, query_y + s->origin_y + j) + m->features * tile->planes.pitch + across;
        for (int n = 0; n < 3; n++) s->bend_runs[n * (tile->box_max + 2) + j] = row + n * tile->planes.pitch;
    }
}

/* Scores of the candidates of row a of a run's windows: interpolated along y for every shift along x that the run needs, then along x. */
static void mix_row(const CpuTile *tile, int64_t r, int64_t a, CpuTileScratch *s, float *out)
{
    const SnlsMatch *m = &tile->c->m;
    const SnlsTile *t = &tile->t;
    const CpuAxis *y = &s->y[r], *x = &s->x[r];
    const int64_t item = tile->whole ? 0 : a, shift = tile->whole ? a * (int64_t)m->stride1 : 0;
    const int64_t last = x->high[m->side - 1] + s->first[m->side - 1] + 1, x0 = x->low[0], n = (last < s->size_x ? last + 1 : s->size_x) - x0;
    const int32_t *index = y->index + item * tile->lanes;
    const float *fraction = y->fraction + item * tile->lanes;
    const bool bend = tile->planes.bend, bent = bend && x->between;
    const float **right = s->bend_runs + shift, **lower = right + tile->box_max + 2, **across = lower + tile->box_max + 2;
    float *most = bend ? s->most + r * tile->lanes : NULL;
    const int low = y->low[item], high = y->high[item];
    if (!x->between && tile->whole && m->stride1 == 1 && x->low[0] == x->high[0]) { /* the candidates are a stretch of the box */
        t->mix(out, s->runs + shift, s->item + x0, m->side, low, high, index, fraction, bend && y->between ? lower : NULL, s->place + x0, most);
        return;
    }
    t->mix(s->mixed + x0 * tile->lanes, s->runs + shift, s->item + x0, n, low, high, index, fraction, bend && y->between ? lower : NULL, s->place + x0, most);
    if (bent) t->mix(s->bends + x0 * tile->lanes, right, s->place + x0, n, low, high, index, fraction, y->between ? across : NULL, s->place + x0, NULL);
    t->mix_each(out, s->mixed, bent ? s->bends : NULL, m->side, s->first, x->low, x->high, x->index, x->fraction, tile->whole ? 0 : tile->lanes, most);
}

void snls_tile_box_scores(const CpuTile *tile, const CpuTilePlace *p, int64_t slot, CpuTileScratch *s)
{
    const SnlsMatch *m = &tile->c->m;
    const int64_t frame = snls_slot_frame(p->t, slot, m->wt, m->frames);
    for (int64_t d = 0; d < s->size_x; d++) {
        const int64_t x = p->j0 * m->stride0 + s->origin_x + d + tile->planes.margin;
        s->place[d] = x % m->stride0 * tile->planes.phase + x / m->stride0;
        s->item[d] = d * tile->blocks * tile->lanes;
    }
    if (m->ps == 1) pixel_scores(tile, p, frame, s);
    else snls_tile_patch_scores(tile, p, frame, s);
}

void snls_tile_scores(const CpuTile *tile, const CpuTilePlace *p, int64_t r, int64_t slot, float *value, CpuTileScratch *s)
{
    const SnlsMatch *m = &tile->c->m;
    const int64_t active = snls_tile_active(tile, p, r);
    if (s->shared[r]) {
        for (int64_t j = 0; j <= s->size_y; j++) s->runs[j] = snls_tile_box(tile, s, r, j < s->size_y ? j : 0);
        if (tile->planes.bend) point_bends(tile, p, snls_slot_frame(p->t, slot, m->wt, m->frames), r, s);
        for (int64_t a = 0; a < m->side; a++) mix_row(tile, r, a, s, value + a * m->side * tile->lanes);
    }
    for (int64_t l = 0; s->shared[r] < active && l < active; l++)
        if (!s->together[r * tile->lanes + l]) snls_tile_score_alone(tile, p, r, l, slot, value, s);
}
