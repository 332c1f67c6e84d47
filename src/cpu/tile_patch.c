/* tile_patch.c: scores of patches. A product of one query pixel with one key pixel belongs to all patches that hold the
 * pixel, as long as neighbouring queries look at the same shift: so products are made once for every pixel of the tile and
 * every shift that some patch with it needs, and summed over patches afterwards, down and then across. A band of shifts at a time
 * for one vector of pixel columns, so that products stay in the first cache until they are summed; sums down of the whole box are in the second.
 * Patches of 7 x 7 have six rows of pixels in common with those of the tile below: in a stack of tiles products of these rows stay where they are, in the second cache, for the shifts that the tile
 * below looks at too (CpuCarried). It makes the others, then goes on. */
#include "cpu/tile.h"

/* RING: floats of products that may wait for their sums, about half of the first cache. CARRIED_SPREAD: of a vector so many shifts more than a window touches can be carried along an axis. */
enum { RING = 6656, CARRIED_SPREAD = 8 };

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

/* Those that patches need which reach into vector n of the pixel columns. */
static CpuShifts shifts_of(const CpuTile *tile, const CpuTilePlace *p, int64_t n, const CpuTileScratch *s)
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

static int64_t carried_side(const CpuTile *tile) { return tile->span + CARRIED_SPREAD; }

int64_t snls_tile_carried(const CpuTile *tile)
{
    return tile->stack > 1 ? tile->pixel_columns / tile->lanes * carried_side(tile) * carried_side(tile) * ring_of(tile) : 0;
}

/* The ring's rows are those of the tile below. */
bool snls_tile_carries(const CpuTile *tile, int64_t rows) { return rows % snls_tile_ring(tile->c->m.ps, tile->c->m.dilation) == 0; }

static bool is_empty(const CpuShifts *a) { return a->y >= a->y_end || a->x >= a->x_end; }

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

static CpuShifts common(const CpuShifts *a, const CpuShifts *b)
{
    return (CpuShifts){larger(a->y, b->y), smaller(a->y_end, b->y_end), larger(a->x, b->x), smaller(a->x_end, b->x_end)};
}

static CpuShifts moved(const CpuShifts *a, int64_t y, int64_t x) { return (CpuShifts){a->y + y, a->y_end + y, a->x + x, a->x_end + x}; }

/* Pixel rows of a band, and those of them whose products are in its ring; where rings are that stay, or NULL. */
typedef struct Rows { int64_t count, begun; const CpuCarriedVector *carried; } Rows;

static void band(const CpuTile *tile, int64_t n, const CpuShifts *part, const Rows *rows, CpuTileScratch *s)
{
    const SnlsMatch *m = &tile->c->m;
    const CpuCarriedVector *v = rows->carried;
    const int64_t lanes = tile->lanes, column = tile->pixel_columns, row = s->size_x * column, side = carried_side(tile), ring = ring_of(tile);
    float *products = v ? s->carried.product + ((n * side + s->origin_y + part->y - v->y) * side + s->origin_x + part->x - v->x) * ring : s->product;
    const SnlsTileBand b = {.out = s->box + (s->row * s->size_y + part->y) * row + part->x * column + n * lanes, .out_row = s->size_y * row, .out_down = row, .out_across = column, .ring = products,
                            .ring_down = (v ? side : part->x_end - part->x) * ring, .begun = rows->begun,
                            .query = s->query + n * tile->pixel_rows * tile->layers * lanes + s->row * tile->at.row, .at = tile->at, .key = s->key_rows + part->y,
                            .key_at = s->key_first + part->x + n * lanes, .key_pitch = tile->by_rows ? tile->keys.pitch : tile->planes.pitch, .features = m->features, .rows = rows->count,
                            .down = (int)(part->y_end - part->y), .across = (int)(part->x_end - part->x), .side = (int)m->ps, .apart = (int)m->dilation, .square = !m->prod && !tile->norms, .norms = tile->norms};
    tile->t.band(&b);
}

/* Shifts of one vector of pixel columns, in bands of nearly the same size. */
static void bands(const CpuTile *tile, int64_t n, const CpuShifts *all, const Rows *rows, CpuTileScratch *s)
{
    if (is_empty(all)) return;
    const int64_t size_y = all->y_end - all->y, size_x = all->x_end - all->x;
    const int64_t down = (size_y + tile->t.patch_rows - 1) / tile->t.patch_rows, most = snls_tile_patch_ring(tile) / (ring_of(tile) * ((size_y + down - 1) / down));
    const int64_t across = (size_x + most - 1) / most;
    for (int64_t i = 0; i < down * across; i++) {
        const int64_t y = i / across, x = i % across;
        const CpuShifts part = {all->y + y * size_y / down, all->y + (y + 1) * size_y / down, all->x + x * size_x / across, all->x + (x + 1) * size_x / across};
        band(tile, n, &part, rows, s);
    }
}

/* Products of the first rows at shifts that the tile above did not look at, so that all of them are there. */
static void catch_up(const CpuTile *tile, int64_t n, const CpuShifts *all, const CpuShifts *have, const CpuCarriedVector *v, CpuTileScratch *s)
{
    const Rows rows = {reach_of(tile), 0, v};
    const CpuShifts above = {all->y, have->y, all->x, all->x_end}, below = {have->y_end, all->y_end, all->x, all->x_end};
    const CpuShifts left = {have->y, have->y_end, all->x, have->x}, right = {have->y, have->y_end, have->x_end, all->x_end};
    bands(tile, n, &above, &rows, s);
    bands(tile, n, &below, &rows, s);
    bands(tile, n, &left, &rows, s);
    bands(tile, n, &right, &rows, s);
}

/* Room for shifts `all` among those that are carried, with what the tile above left if it is still in the right place; false: there are too many. */
static bool make_room(const CpuTile *tile, const CpuShifts *all, CpuCarriedVector *v)
{
    const int64_t side = carried_side(tile);
    if (all->y_end - all->y > side || all->x_end - all->x > side) return false;
    if (!is_empty(&v->have) && all->y >= v->y && all->x >= v->x && all->y_end <= v->y + side && all->x_end <= v->x + side) return true;
    *v = (CpuCarriedVector){.y = (all->y + all->y_end - side) / 2, .x = (all->x + all->x_end - side) / 2};
    return true;
}

static void vector_scores(const CpuTile *tile, int64_t n, int64_t rows, bool carries, const CpuShifts *all, CpuTileScratch *s)
{
    CpuCarriedVector *v = &s->carried.vector[n];
    const CpuShifts wanted = moved(all, s->origin_y, s->origin_x);
    Rows go = {.count = rows};
    if (carries && make_room(tile, &wanted, v)) {
        const CpuShifts both = common(&wanted, &v->have), have = moved(&both, -s->origin_y, -s->origin_x);
        go.carried = v;
        if (!is_empty(&both)) {
            catch_up(tile, n, all, &have, v, s);
            go.begun = reach_of(tile);
        }
    }
    bands(tile, n, all, &go, s);
    v->have = go.carried ? wanted : (CpuShifts){0};
}

/* Keys that vectors of pixels look at with those shifts, rows of them into key_rows. */
static void find_keys(const CpuTile *tile, const CpuTilePlace *p, int64_t frame, const CpuShifts *all, int64_t vectors, int64_t rows, CpuTileScratch *s)
{
    const int64_t y0 = p->i0 + s->row - tile->planes.before + s->origin_y, x0 = p->j0 - tile->planes.before + s->origin_x;
    CpuShifts at = {INT64_MAX, INT64_MIN, INT64_MAX, INT64_MIN};
    for (int64_t n = 0; n < vectors; n++) {
        if (is_empty(&all[n])) continue;
        at.y = smaller(at.y, y0 + all[n].y), at.y_end = larger(at.y_end, y0 + all[n].y_end + rows - 1);
        at.x = smaller(at.x, x0 + n * tile->lanes + all[n].x), at.x_end = larger(at.x_end, x0 + (n + 1) * tile->lanes + all[n].x_end - 1);
    }
    if (is_empty(&at)) return;
    if (tile->by_rows) {
        s->key_first = x0 - snls_tile_patch_keys(tile, p, frame, &at, s->key_rows + (at.y - y0), s);
        return;
    }
    s->key_first = x0 + tile->planes.margin; /* stride0 is 1 */
    for (int64_t y = at.y; y < at.y_end; y++) s->key_rows[y - y0] = snls_tile_plane_row(tile, frame, y);
}

void snls_tile_patch_scores(const CpuTile *tile, const CpuTilePlace *p, int64_t frame, CpuTileScratch *s)
{
    const int64_t rows = s->row_end - s->row + reach_of(tile), vectors = (p->columns + reach_of(tile) + tile->lanes - 1) / tile->lanes;
    const bool carries = tile->stack > 1 && !s->sorted;
    CpuCarried *c = &s->carried;
    CpuShifts all[SNLS_TILE_VECTORS];
    for (int64_t n = 0; n < vectors; n++) all[n] = shifts_of(tile, p, n, s);
    find_keys(tile, p, frame, all, vectors, rows, s);
    for (int64_t n = 0; n < vectors; n++) {
        if (c->row != p->i0 || is_empty(&all[n])) c->vector[n].have = (CpuShifts){0};
        if (!is_empty(&all[n])) vector_scores(tile, n, rows, carries, &all[n], s); /* else no query needs these pixels */
    }
    c->row = p->i0 + p->rows;
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
