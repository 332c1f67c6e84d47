/* tile_shift.c: scores of patches from matrix tiles, for products of 3x3, 5x5 and 7x7 patches. Lanes are the shifts of a query along x (simd/shift.h) until its
 * candidates' scores are mixed; then they are turned over, and queries are in lanes as everywhere else. */
#include "cpu/tile.h"
#include <math.h>

enum { LANES = SNLS_SHIFT_LANES, TILE = LANES * LANES, PAD = 4 * LANES, FEATURES_MAX = 512 };

/* By what searches took, 7x7: 490 ns and 17 for every feature, padded ones too, against 160 and 26; and 280 to spare, since
 * a busy third cache holds tiles up more than planes. Of fewer terms two bf16 parts would not have digits enough. */
static bool features_pay(int64_t features) { return features <= FEATURES_MAX && 6 * features >= 4 * 32 * snls_shift_chunks(features) + 140; }

bool snls_tile_shift_applies(const SnlsMatch *m)
{
    return m->prod && m->stride0 == 1 && m->dilation == 1 && (m->ps == 3 || m->ps == 5 || m->ps == 7) && features_pay(m->features);
}

static int64_t vectors(int64_t n) { return (n + LANES - 1) / LANES; }

int64_t snls_tile_shift_box(const CpuTile *tile, int64_t area) { return tile->rows * tile->pixel_columns * (area + LANES * tile->box_max) + TILE * tile->box_max; }

void snls_tile_shift_take(SnlsArena *arena, const CpuTile *tile, CpuTake take, CpuShifted *s)
{
    const SnlsMatch *m = &tile->c->m;
    const int64_t runs = tile->pixel_columns / LANES, box = tile->box_max, area = box * box < tile->area_max ? box * box : tile->area_max, windows = m->side * LANES;
    s->query = take(arena, tile->pixel_rows * runs * snls_shift_tiles(m->features) * SNLS_SHIFT_TILE, sizeof(uint16_t));
    s->key = take(arena, (tile->pixel_rows + box) * (runs + vectors(box)) * snls_shift_words(m->features) * LANES, sizeof(uint32_t));
    s->work = take(arena, SNLS_SHIFT_WORK, sizeof(float));
    s->run = take(arena, LANES * (area + LANES * box) + (box + 1) * LANES + PAD, sizeof(float));
    s->turned = take(arena, (area > windows ? area : windows) * LANES, sizeof(float));
}

/* Products of smaller numbers would lose digits or be nothing on matrix tiles, which know no numbers below 2^-126. */
bool snls_tile_shift_bearable(double query_peak, double key_peak)
{
    const double product = query_peak * key_peak;
    return product == 0 || (product > 1e-24 && query_peak > 1e-30 && key_peak > 1e-30);
}

/* Beyond the frame there is room for a tile whose windows end there, its shifts in whole vectors, and a run more. */
void snls_tile_shift_layout(CpuPlanes *p, const SnlsMatch *m, int64_t columns)
{
    p->margin = vectors(p->margin) * LANES;
    p->row = (vectors(p->margin + m->width + p->after + 2 + columns + 2 * LANES) + 1) * p->features * LANES;
    p->frame_size = p->row * m->height;
}

/* Words of pixel x of a row, LANES apart. */
static uint32_t *words_of(const CpuPlanes *p, uint32_t *row, int64_t x)
{
    const int64_t at = x + p->margin;
    return row + at / LANES * p->features * LANES + at % LANES;
}

/* A row of keys and what patches see beyond it. */
float snls_tile_shift_keys(const CpuTile *tile, const CpuTilePlace *at, int64_t frame, int64_t y, float *out)
{
    const SnlsMatch *m = &tile->c->m;
    const CpuPlanes *p = &tile->planes;
    uint32_t *row = (uint32_t *)(void *)out;
    const float *in = snls_cpu_pixel(&tile->c->key, at->b, frame, y, 0) + at->head * m->features;
    const float peak = tile->shift.keys(words_of(p, row, 0), in, tile->c->key.step[3], m->width, m->features);
    for (int64_t x = -p->before; x < m->width + p->after + 1; x++) {
        if (x == 0) x = m->width;
        uint32_t *to = words_of(p, row, x);
        const uint32_t *from = words_of(p, row, snls_reflect(x, m->width));
        for (int64_t w = 0; w < p->features; w++) to[w * LANES] = from[w * LANES];
    }
    return peak;
}

float snls_tile_shift_load_query(const CpuTile *tile, const CpuTilePlace *p, uint16_t *out)
{
    const SnlsMatch *m = &tile->c->m;
    const int64_t before = tile->planes.before, rows = p->rows + before + tile->planes.after, runs = vectors(p->columns + before + tile->planes.after);
    float peak = 0;
    for (int64_t i = 0; i < rows * runs; i++, out += snls_shift_tiles(m->features) * SNLS_SHIFT_TILE) {
        const float *row = snls_cpu_pixel(&tile->c->query, p->b, p->t, snls_reflect(p->i0 + i % rows - before, m->height), 0) + p->head * m->features, *pixel[LANES];
        const int64_t x = p->j0 - before + i / rows * LANES, step = tile->c->query.step[3];
        for (int64_t l = 0; l < LANES; l++) pixel[l] = row + (x + l >= 0 && x + l < m->width ? x + l : snls_reflect(x + l, m->width)) * step;
        const float most = tile->shift.queries(out, pixel, m->features);
        peak = most > peak ? most : peak;
    }
    return peak;
}

void snls_tile_shift_scores(const CpuTile *tile, const CpuTilePlace *p, int64_t frame, CpuTileScratch *s)
{
    const SnlsMatch *m = &tile->c->m;
    const CpuPlanes *planes = &tile->planes;
    const int64_t reach = planes->before + planes->after, rows = s->row_end - s->row + reach, blocks = vectors(p->columns + reach), wide = vectors(s->size_x);
    const int64_t tiles = snls_shift_words(m->features) / LANES, runs = blocks + wide, left = p->j0 - planes->before + s->origin_x + planes->margin;
    for (int64_t j = 0; j < rows + s->size_y - 1; j++) {
        const float *row = snls_tile_plane_row(tile, frame, p->i0 + s->row - planes->before + s->origin_y + j);
        tile->shift.copy(s->shifted.key + j * runs * tiles * TILE, (const uint32_t *)(const void *)row, left, runs, m->features);
    }
    SnlsShiftScores in = {.key_row = runs * tiles, .features = m->features, .rows = rows, .blocks = 1, .side = (int)m->ps, .out_row = wide * blocks * s->size_y * TILE, .work = s->shifted.work};
    for (int64_t n = 0; n < blocks; n++) {
        const CpuShifts need = snls_tile_patch_shifts(tile, p, n, s);
        in.query = s->shifted.query + (n * (p->rows + reach) + s->row) * snls_shift_tiles(m->features) * SNLS_SHIFT_TILE;
        in.shifts = need.y_end - need.y;
        if (in.shifts <= 0) continue; /* no query needs these pixels */
        for (int64_t c = need.x / LANES; c * LANES < need.x_end; c++) {
            in.key = s->shifted.key + (need.y * runs + n + c) * tiles * TILE;
            in.out = s->box + s->row * in.out_row + ((c * blocks + n) * s->size_y + need.y) * TILE;
            tile->shift.scores(&in);
        }
    }
}

bool snls_tile_shift_values(const CpuTile *tile, const CpuTilePlace *p, int64_t r, float *value, CpuTileScratch *s)
{
    const SnlsMatch *m = &tile->c->m;
    const int64_t blocks = vectors(p->columns + tile->planes.before + tile->planes.after), wide = vectors(s->size_x), down = wide * LANES, query = s->size_y * down;
    const int64_t block = s->size_y * TILE, n = r % tile->blocks;
    const float *in = s->box + (r / tile->blocks * wide * blocks + n) * block;
    for (int64_t c = 0; c < wide; c++, in += blocks * block) /* queries of the last block have all their pixels in it */
        tile->shift.across(s->shifted.run + c * LANES, query, down, in, n + 1 < blocks ? in + block : in, s->size_y, (int)m->ps);
    const SnlsShiftPlaces at = {s->y[r].index, s->x[r].index, s->y[r].fraction, s->x[r].fraction};
    if (tile->whole && m->stride1 == 1 && m->side <= LANES) {
        tile->shift.candidates(value, m->side, s->shifted.run, query, down, &at, s->shifted.turned);
        return true;
    }
    const float **runs = snls_tile_runs(tile, s, r);
    for (int64_t j = 0; j < s->size_y; j++) {
        float *out = s->shifted.turned + j * s->size_x * LANES;
        tile->shift.turn(out, s->shifted.run + j * down, query, s->size_x);
        runs[j] = out;
    }
    runs[s->size_y] = runs[0];
    return false;
}
