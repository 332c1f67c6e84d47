/* tile_patch.c: scores of patches. A product of one query pixel with one key pixel belongs to all patches that hold the
 * pixel, as long as neighbouring queries look at the same shift: so products are made once for every pixel of the tile and
 * every shift of the box, and summed over patches afterwards. */
#include "cpu/tile.h"

/* Products for shift number d along x of the box, shift g of those along y that are made at once. */
static float *products_at(const CpuTile *tile, const CpuTileScratch *s, int64_t g, int64_t d)
{
    return s->product + (g * s->size_x + d) * tile->pixel_rows * tile->pixel_columns;
}

/* The size of equal parts, as few as there can be when none is larger than most. */
static int64_t part_of(int64_t size, int64_t most)
{
    const int64_t parts = (size + most - 1) / most;
    return (size + parts - 1) / parts;
}

/* Key row y against pixel rows y - shift of the tile, for shifts [first, end) along y (from the box's origin) and all along
 * x. top: the video row of the tile's first pixel row. */
static void products_of_row(const CpuTile *tile, CpuTileScratch *s, const float *key_row, int64_t y, int64_t top, int64_t start, int64_t first, int64_t end)
{
    const SnlsMatch *m = &tile->c->m;
    const int64_t pitch = tile->planes.pitch, columns = tile->pixel_columns, step = tile->pixel_rows * columns, across = part_of(s->size_x, tile->t.columns);
    float *out[SNLS_TILE_ROWS_MAX];
    const float *query[SNLS_TILE_ROWS_MAX], *key[SNLS_TILE_COLUMNS_MAX];
    for (int64_t f = 0; f < m->features; f += SNLS_TILE_FEATURES) {
        const int64_t features = m->features - f < SNLS_TILE_FEATURES ? m->features - f : SNLS_TILE_FEATURES;
        for (int64_t c = 0; c < columns; c += tile->lanes)
            for (int64_t d = 0; d < s->size_x; d += across) {
                const int count = (int)(s->size_x - d < across ? s->size_x - d : across);
                for (int64_t g = first; g < end; g++) {
                    const int64_t r = y - s->origin_y - g - top; /* pixel row of the tile */
                    out[g - first] = products_at(tile, s, g - start, d) + r * columns + c;
                    query[g - first] = s->query + (r * m->features + f) * columns + c;
                }
                for (int i = 0; i < count; i++) key[i] = key_row + f * pitch + s->place[d + i] + c - tile->planes.before;
                (m->prod ? tile->t.dots : tile->t.squares)(out, step, query, (int)(end - first), key, count, columns, pitch, features, f > 0, tile->planes.row);
            }
    }
}

/* Shifts [start, stop) along y: products of all pixels, then sums over patches. */
static void shifts(const CpuTile *tile, const CpuTilePlace *p, int64_t frame, int64_t start, int64_t stop, CpuTileScratch *s)
{
    const SnlsMatch *m = &tile->c->m;
    const int64_t top = p->i0 - tile->planes.before, rows = p->rows + tile->planes.before + tile->planes.after;
    for (int64_t y = top + s->origin_y + start; y < top + rows + s->origin_y + stop - 1; y++) {
        int64_t first = start, end = stop; /* shifts for which y - shift is a pixel row of the tile */
        while (first < end && y - s->origin_y - first >= top + rows) first++;
        while (end > first && y - s->origin_y - (end - 1) < top) end--;
        if (end > first) products_of_row(tile, s, snls_tile_plane_row(tile, frame, y), y, top, start, first, end);
    }
    const int64_t run = s->size_y * s->size_x * tile->lanes;
    for (int64_t g = start; g < stop; g++)
        for (int64_t d = 0; d < s->size_x; d++)
            tile->t.patch_sums(snls_tile_box(tile, s, 0) + (g * s->size_x + d) * tile->lanes, run * tile->blocks, run, products_at(tile, s, g - start, d),
                               tile->pixel_columns, p->rows, tile->blocks, m->ps, m->dilation, s->sums);
}

void snls_tile_patch_scores(const CpuTile *tile, const CpuTilePlace *p, int64_t frame, CpuTileScratch *s)
{
    const int64_t down = part_of(s->size_y, tile->t.rows);
    for (int64_t start = 0; start < s->size_y; start += down) shifts(tile, p, frame, start, start + down < s->size_y ? start + down : s->size_y, s);
}
