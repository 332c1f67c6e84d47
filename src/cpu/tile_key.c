/* tile_key.c: keys of patches of one pixel. A thread walks down a strip of tiles and holds the rows of keys that their windows touch, features in
 * planes as lanes want them, turned over from the video when a tile first needs them: few enough to stay in the second cache, where the third
 * would give them more slowly than they are multiplied. Frames take turns at every step down, so that a row turned over serves all of them. */
#include "cpu/tile.h"
#include <string.h>

enum { BLOCK = SNLS_TILE_KEY_BLOCK, LINE = 16, SLACK = 16, STRIP_MAX = 64, CACHE = 1200 << 10, CHUNK_MAX = 16, CHUNK_MIN = 4, UNITS = 16 };

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* Bytes that the rows of one frame take in the caches. */
static int64_t live_bytes(const CpuTile *tile, int64_t blocks)
{
    return ((tile->rows - 1) * tile->c->m.stride0 + tile->span) * blocks * BLOCK * tile->c->m.features * (int64_t)sizeof(float);
}

/* How wide a strip and how many frames together: what turns over the fewest keys for a query, of what the cache holds. */
static void choose_strip(const CpuTile *tile, CpuKeys *k)
{
    const SnlsMatch *m = &tile->c->m;
    double least = 0;
    for (int64_t strip = STRIP_MAX; strip >= tile->lanes; strip /= 2) {
        const int64_t blocks = ceil_div(strip * m->stride0 + tile->span - 2, BLOCK), held = CACHE / live_bytes(tile, blocks);
        const int64_t room = held < m->frames ? held - (m->windows - 1) : m->frames, together = room < 1 ? 1 : room;
        const int64_t frames = together + m->windows - 1 < m->frames ? together + m->windows - 1 : m->frames;
        const double cost = (double)(blocks * BLOCK * frames) / (double)(strip * together);
        if (strip > tile->lanes && room < 1) continue;
        if (least > 0 && cost >= least) continue;
        least = cost;
        k->strip = strip;
        k->together = together;
    }
}

/* Must not depend on the number of threads: how far features are looked at to tell whether interpolation is safe does. */
void snls_tile_keys_layout(CpuTile *tile)
{
    const SnlsMatch *m = &tile->c->m;
    CpuKeys *k = &tile->keys;
    choose_strip(tile, k);
    const int64_t strips = ceil_div(m->columns, k->strip), down = ceil_div(m->rows, tile->rows);
    k->chunk = CHUNK_MAX;
    while (k->chunk > CHUNK_MIN && strips * ceil_div(down, k->chunk) * ceil_div(m->frames, k->together) < UNITS) k->chunk /= 2;
    while (k->together > 1 && strips * ceil_div(down, k->chunk) * ceil_div(m->frames, k->together) < UNITS) k->together--;
    k->frames = k->together + m->windows - 1 < m->frames ? k->together + m->windows - 1 : m->frames;
    k->phase = ceil_div(k->strip + ceil_div(tile->box_max + 2 * SLACK, m->stride0), LINE) * LINE;
    k->pitch = k->phase * m->stride0;
    if (k->pitch / LINE % 2 == 0) k->pitch += LINE; /* an odd number of cache lines: else features would fight for a few sets of the first cache */
    k->row = k->pitch * m->features;
    k->rows = (tile->rows - 1) * m->stride0 + tile->box_max;
    if (k->rows > m->height) k->rows = m->height;
}

void snls_tile_keys_begin(const CpuTile *tile, CpuTileScratch *s)
{
    for (int64_t i = 0; i < tile->keys.frames; i++) s->keys[i].rows = 0;
}

/* Pixels x, x + stride0, ... of a row, whole blocks of them; 0 outside the frame. Returns the largest |feature|. */
static float turn_over(const CpuTile *tile, const float *row, int64_t x, int64_t n, float *out)
{
    const SnlsMatch *m = &tile->c->m;
    const int64_t step = tile->c->key.step[3] * m->stride0, skip = x < 0 ? ceil_div(-x, m->stride0) : 0;
    const int64_t first = skip < n ? skip : n, left = x < m->width ? ceil_div(m->width - x, m->stride0) : 0, end = left < n ? left : n;
    for (int64_t f = 0; end - first < n && f < m->features; f++) memset(out + f * tile->keys.pitch, 0, (size_t)n * sizeof *out);
    if (first >= end) return 0;
    return tile->t.planes(out + first, tile->keys.pitch, row + x * tile->c->key.step[3] + first * step, step, end - first, m->features);
}

/* Blocks [first, end) of a row. */
static void load_blocks(const CpuTile *tile, const CpuTilePlace *p, int64_t frame, CpuKeyFrame *k, CpuKeyRow *held, int64_t first, int64_t end)
{
    const SnlsMatch *m = &tile->c->m;
    const float *row = snls_cpu_pixel(&tile->c->key, p->b, frame, held->y, 0) + p->head * m->features;
    for (int64_t phase = 0; first < end && phase < m->stride0; phase++) {
        float *out = k->data + (held - k->held) * tile->keys.row + phase * tile->keys.phase + first * BLOCK;
        const float peak = turn_over(tile, row, k->base + phase + first * BLOCK * m->stride0, (end - first) * BLOCK, out);
        held->peak = peak > held->peak ? peak : held->peak;
    }
}

/* Forgets the rows: the windows are elsewhere or larger. */
static void start(const CpuTile *tile, const CpuTilePlace *p, int64_t x, int64_t rows, CpuKeyFrame *k)
{
    k->base = x - SLACK - p->j0 % tile->keys.strip * tile->c->m.stride0;
    k->rows = rows + 2 < tile->keys.rows ? rows + 2 : tile->keys.rows; /* hardly more than needed: rows that come round again are still in the cache */
    for (int64_t i = 0; i < k->rows; i++) k->held[i].y = -1;
}

/* What the tile below will need is fetched into the second cache meanwhile: its queries, and the keys below those of this tile in its own frame. */
static void plan_fetch(const CpuTile *tile, const CpuTilePlace *p, int64_t x, int64_t y, CpuTileScratch *s)
{
    const SnlsMatch *m = &tile->c->m;
    const CpuVideo *query = &tile->c->query, *key = &tile->c->key;
    const int64_t below = (p->i0 + p->rows) * m->stride0, left = x < 0 ? 0 : x, right = x + tile->lanes * m->stride0;
    s->fetch[0] = (CpuFetch){.lines = 0};
    s->fetch[1] = (CpuFetch){.lines = 0};
    if (p->i0 + p->rows + tile->rows > m->rows) return;
    s->fetch[0] = (CpuFetch){(const char *)snls_cpu_pixel(query, p->b, p->t, below, p->j0 * m->stride0), query->step[2] * m->stride0 * 4, ceil_div(p->columns * m->stride0 * query->step[3], 16), tile->rows, 0};
    if (left >= right || right > m->width || y + tile->rows * m->stride0 > m->height) return;
    s->fetch[1] = (CpuFetch){(const char *)snls_cpu_pixel(key, p->b, p->t, y, left), key->step[2] * 4, ceil_div((right - left) * key->step[3], 16), tile->rows * m->stride0, 0};
}

float snls_tile_hold_keys(const CpuTile *tile, const CpuTilePlace *p, int64_t frame, CpuTileScratch *s)
{
    const SnlsMatch *m = &tile->c->m;
    CpuKeyFrame *k = snls_tile_key_frame(tile, s, frame);
    const int64_t x0 = p->j0 * m->stride0 + s->origin_x, x1 = x0 + (tile->lanes - 1) * m->stride0 + s->size_x;
    const int64_t from = p->i0 * m->stride0 + s->origin_y, to = from + (p->rows - 1) * m->stride0 + s->size_y;
    const int64_t y0 = from < 0 ? 0 : from, y1 = to > m->height ? m->height : to;
    if (y1 - y0 > k->rows || x0 < k->base || x1 > k->base + tile->keys.phase * m->stride0) start(tile, p, x0, y1 - y0, k);
    const int64_t first = (x0 - k->base) / m->stride0 / BLOCK, end = (x1 - 1 - k->base) / m->stride0 / BLOCK + 1;
    float peak = 0;
    if (frame == p->t) plan_fetch(tile, p, x0 + s->size_x / 2, to, s);
    CpuKeyRow *held = k->held + y0 % k->rows;
    for (int64_t y = y0; y < y1; y++, held = held + 1 == k->held + k->rows ? k->held : held + 1) {
        if (held->y != y) *held = (CpuKeyRow){y, first, first, 0};
        if (first < held->first) load_blocks(tile, p, frame, k, held, first, held->first), held->first = first;
        if (end > held->end) load_blocks(tile, p, frame, k, held, held->end, end), held->end = end;
        peak = held->peak > peak ? held->peak : peak;
    }
    return peak;
}
