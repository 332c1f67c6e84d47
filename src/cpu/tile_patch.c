/* tile_patch.c: scores of patches. A product of one query pixel with one key pixel belongs to all patches that hold the
 * pixel, as long as neighbouring queries look at the same shift: so products are made once for every pixel of the tile and
 * every shift of the box, and summed over patches afterwards. A part of the box at a time, as many shifts as there are sums in
 * registers, so that what is between products and sums stays in the nearest caches. */
#include "cpu/tile.h"

/* Shifts [y, y + rows) x [x, x + columns) of the box. */
typedef struct Part { int64_t y, rows, x, columns; } Part;

/* Pixel rows of the tile with the reach of its patches. */
static int64_t pixel_rows(const CpuTile *tile, const CpuTilePlace *p) { return p->rows + tile->planes.before + tile->planes.after; }

/* Key rows j, j+1, ... (from the tile's first pixel row, less the box's origin), `steps` of them, against pixel rows r0 .. r1-1 of column block n,
 * one further down each time; row r has shift j - r along y. */
static void products_of_rows(const CpuTile *tile, const Part *part, int64_t j, int64_t steps, int64_t r0, int64_t r1, int64_t n, int64_t rows, CpuTileScratch *s)
{
    const SnlsMatch *m = &tile->c->m;
    const int64_t lanes = tile->lanes;
    for (int64_t f = 0; f < m->features; f += SNLS_TILE_FEATURES) {
        const SnlsTileProducts p = {.out = s->product + ((j - r0 - part->y) * part->columns * rows + r0) * lanes,
                                    .out_row = (1 - part->columns * rows) * lanes, /* a row further down is a shift less */
                                    .out_column = rows * lanes,
                                    .query = s->query + ((n * rows + r0) * m->features + f) * lanes,
                                    .query_row = m->features * lanes,
                                    .key = s->key_rows + j,
                                    .key_at = f * tile->planes.pitch + s->place[part->x] + n * lanes - tile->planes.before,
                                    .key_pitch = tile->planes.pitch,
                                    .ahead = tile->planes.row,
                                    .features = m->features - f < SNLS_TILE_FEATURES ? m->features - f : SNLS_TILE_FEATURES,
                                    .steps = steps,
                                    .rows = (int)(r1 - r0),
                                    .columns = (int)part->columns,
                                    .add = f > 0,
                                    .square = !m->prod};
        tile->t.products(&p);
    }
}

/* Products of one column block for a part of the box, summed down into its columns of sums. */
static void column_block(const CpuTile *tile, const CpuTilePlace *p, const Part *part, int64_t n, CpuTileScratch *s)
{
    const SnlsMatch *m = &tile->c->m;
    const int64_t rows = pixel_rows(tile, p), end = part->y + part->rows + rows - 1;
    for (int64_t j = part->y, steps; j < end; j += steps) {
        const int64_t last = j - part->y, first = last - part->rows + 1, r0 = first > 0 ? first : 0, r1 = last < rows ? last + 1 : rows;
        steps = r1 - r0 == part->rows ? rows - r1 + 1 : 1; /* as long as all shifts of the part have a row */
        products_of_rows(tile, part, j, steps, r0, r1, n, rows, s);
    }
    for (int64_t i = 0; i < part->rows * part->columns; i++)
        tile->t.column_sums(s->sums + i * p->rows * tile->pixel_columns + n * tile->lanes, tile->pixel_columns, s->product + i * rows * tile->lanes, p->rows, m->ps,
                            m->dilation);
}

static void shifts(const CpuTile *tile, const CpuTilePlace *p, const Part *part, CpuTileScratch *s)
{
    const SnlsMatch *m = &tile->c->m;
    const int64_t step = tile->blocks * tile->lanes, reach = tile->planes.before + tile->planes.after;
    for (int64_t n = 0; n * tile->lanes < p->columns + reach; n++) column_block(tile, p, part, n, s);
    for (int64_t i = 0; i < part->rows * part->columns; i++) {
        float *out = snls_tile_box(tile, s, 0, part->y + i / part->columns) + (part->x + i % part->columns) * step;
        tile->t.row_sums(out, s->size_x * step, tile->lanes, s->sums + i * p->rows * tile->pixel_columns,
                         tile->pixel_columns, p->rows, (p->columns + tile->lanes - 1) / tile->lanes, m->ps, m->dilation);
    }
}

void snls_tile_patch_scores(const CpuTile *tile, const CpuTilePlace *p, int64_t frame, CpuTileScratch *s)
{
    const SnlsTile *t = &tile->t;
    const int64_t across = (s->size_x + t->patch_columns - 1) / t->patch_columns, wide = (s->size_x + across - 1) / across;
    const int64_t most = t->patch_sums / wide < t->patch_rows ? t->patch_sums / wide : t->patch_rows, down = (s->size_y + most - 1) / most;
    for (int64_t j = 0; j < s->size_y + pixel_rows(tile, p) - 1; j++) s->key_rows[j] = snls_tile_plane_row(tile, frame, p->i0 - tile->planes.before + s->origin_y + j);
    for (int64_t i = 0; i < down * across; i++) { /* parts of nearly the same size */
        const int64_t y = i / across * s->size_y / down, x = i % across * s->size_x / across;
        const Part part = {y, (i / across + 1) * s->size_y / down - y, x, (i % across + 1) * s->size_x / across - x};
        shifts(tile, p, &part, s);
    }
}
