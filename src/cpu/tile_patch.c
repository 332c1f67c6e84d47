/* tile_patch.c: scores of patches. A product of one query pixel with one key pixel belongs to all patches that hold the
 * pixel, as long as neighbouring queries look at the same shift: so products are made once for every pixel of the tile and
 * every shift that some patch with it needs, and summed over patches afterwards, down and then across. A band of shifts at a time
 * for one vector of pixel columns, so that products stay in the first cache until they are summed; sums down of the whole box are in the second. */
#include "cpu/tile.h"

enum { RING = 6656 }; /* floats of products that may wait for their sums: about half of the first cache */

static int64_t reach_of(const CpuTile *tile) { return tile->planes.before + tile->planes.after; }

static int64_t ring_of(const CpuTile *tile) { return snls_tile_ring(tile->c->m.ps, tile->c->m.dilation) * tile->lanes; }

int64_t snls_tile_patch_ring(const CpuTile *tile)
{
    const int64_t least = tile->t.patch_rows * tile->t.patch_columns * ring_of(tile);
    return least > RING ? least : RING;
}

/* Where row r's sums down begin: (box along y, box along x, pixel columns). */
static float *sums_of(const CpuTile *tile, const CpuTileScratch *s, int64_t r) { return s->box + r * s->size_y * s->size_x * tile->pixel_columns; }

/* [*first, *end) made larger by the shifts that lanes l0 and on of a run need along an axis. */
static void widen(const CpuTile *tile, const CpuAxis *axis, int64_t l0, int64_t *first, int64_t *end)
{
    const int64_t beyond = tile->whole ? (int64_t)tile->c->m.stride1 * (tile->c->m.side - 1) : 0, last = (tile->items - 1) * tile->lanes;
    int64_t low = axis->low[0], high = axis->high[tile->items - 1];
    if (l0 > 0) low = axis->index[l0], high = axis->index[last + l0];
    for (int64_t l = l0 + 1; l0 > 0 && l < tile->lanes; l++) {
        low = axis->index[l] < low ? axis->index[l] : low;
        high = axis->index[last + l] > high ? axis->index[last + l] : high;
    }
    high += beyond + 1 + axis->between;
    if (low < *first) *first = low;
    if (high > *end) *end = high;
}

CpuShifts snls_tile_patch_shifts(const CpuTile *tile, const CpuTilePlace *p, int64_t n, const CpuTileScratch *s)
{
    CpuShifts all = {s->size_y, 0, s->size_x, 0};
    for (int64_t r = 0; r < p->rows * tile->blocks; r++) {
        const int64_t beside = n - r % tile->blocks, l0 = beside * tile->lanes - reach_of(tile); /* lane l reaches pixels l .. l + reach of its run's vector and on */
        if (beside < 0 || l0 >= tile->lanes || !s->together[r]) continue;
        widen(tile, &s->y[r], l0, &all.y, &all.y_end);
        widen(tile, &s->x[r], l0, &all.x, &all.x_end);
    }
    return all;
}

static void band(const CpuTile *tile, int64_t n, const CpuShifts *part, CpuTileScratch *s)
{
    const SnlsMatch *m = &tile->c->m;
    const int64_t rows = s->row_end - s->row + reach_of(tile), lanes = tile->lanes, column = tile->pixel_columns, row = s->size_x * column;
    const SnlsTileBand b = {.out = s->box + (s->row * s->size_y + part->y) * row + part->x * column + n * lanes, .out_row = s->size_y * row, .out_down = row, .out_across = column, .ring = s->product,
                            .query = s->query + n * tile->pixel_rows * m->features * lanes + s->row * tile->at.row, .at = tile->at, .key = s->key_rows + part->y,
                            .key_at = s->place[part->x] + n * lanes - tile->planes.before, .key_pitch = tile->planes.pitch, .features = m->features, .rows = rows,
                            .down = (int)(part->y_end - part->y), .across = (int)(part->x_end - part->x), .side = (int)m->ps, .apart = (int)m->dilation, .square = !m->prod};
    tile->t.band(&b);
}

void snls_tile_patch_scores(const CpuTile *tile, const CpuTilePlace *p, int64_t frame, CpuTileScratch *s)
{
    const int64_t rows = s->row_end - s->row + reach_of(tile);
    for (int64_t j = 0; j < s->size_y + rows - 1; j++) s->key_rows[j] = snls_tile_plane_row(tile, frame, p->i0 + s->row - tile->planes.before + s->origin_y + j);
    for (int64_t n = 0; n * tile->lanes < p->columns + reach_of(tile); n++) {
        const CpuShifts all = snls_tile_patch_shifts(tile, p, n, s);
        const int64_t size_y = all.y_end - all.y, size_x = all.x_end - all.x;
        if (size_y <= 0) continue; /* no query needs these pixels */
        const int64_t down = (size_y + tile->t.patch_rows - 1) / tile->t.patch_rows, most = snls_tile_patch_ring(tile) / (ring_of(tile) * ((size_y + down - 1) / down));
        const int64_t across = (size_x + most - 1) / most;
        for (int64_t i = 0; i < down * across; i++) { /* bands of nearly the same size */
            const int64_t y = i / across, x = i % across;
            const CpuShifts part = {all.y + y * size_y / down, all.y + (y + 1) * size_y / down, all.x + x * size_x / across, all.x + (x + 1) * size_x / across};
            band(tile, n, &part, s);
        }
    }
}

bool snls_tile_patch_values(const CpuTile *tile, int64_t r, float *value, CpuTileScratch *s)
{
    const SnlsMatch *m = &tile->c->m;
    const CpuAxis *y = &s->y[r], *x = &s->x[r];
    const int64_t column = tile->pixel_columns, row = s->size_x * column;
    const bool between = y->between || x->between, straight = tile->whole && m->stride1 == 1 && !(tile->planes.bend && between);
    const bool plain = straight && !between && y->low[0] == y->high[0] && x->low[0] == x->high[0]; /* scores at shifts are the candidates' */
    CpuShifts own = {s->size_y, 0, s->size_x, 0};
    widen(tile, y, 0, &own.y, &own.y_end);
    widen(tile, x, 0, &own.x, &own.x_end);
    const float *in = sums_of(tile, s, r / tile->blocks) + own.y * row + own.x * column + r % tile->blocks * tile->lanes;
    float *out = plain ? value : s->sums + (own.y * s->size_x + own.x) * tile->lanes;
    tile->t.run_sums(out, (plain ? m->side : s->size_x) * tile->lanes, in, row, column, own.y_end - own.y, own.x_end - own.x, m->ps, m->dilation);
    if (plain || !straight) return plain;
    const SnlsTileMix mix = {.out = value, .in = s->sums, .row = s->size_x * tile->lanes, .side = m->side, .index_y = y->index, .index_x = x->index, .fraction_y = y->fraction,
                             .fraction_x = x->fraction, .low_y = y->low[0], .high_y = y->high[0], .low_x = x->low[0], .high_x = x->high[0], .work = s->mixed};
    tile->t.mix_window(&mix);
    return true;
}
