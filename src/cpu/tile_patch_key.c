/* tile_patch_key.c: keys of patches with many features. A thread holds those that the boxes of a stack of tiles touch, of a few frames, features in planes as lanes want them: turned over from the video when
 * a tile first needs them, and kept for the next frames of queries. Planes of whole frames would take the memory of several frames, and be read in pieces of a few lines, each a row of the frame from the
 * next. With few features those are small, and turning over is much of what a product takes: then they serve (tile_plane.c). */
#include "cpu/tile.h"

/* FEATURES: from so many on. BLOCK: pixels that are turned over together. BESIDE: pixels that boxes may move to either side before rows are begun anew. ENOUGH: bytes for all threads; more only where planes
 * would take as much. */
enum { FEATURES = 16, BLOCK = 8, LINE = 16, BESIDE = 16, ENOUGH = 64 << 20 };

static int64_t pitch_of(const CpuTile *tile)
{
    const int64_t lines = (tile->pixel_columns + tile->box_max + 2 * BESIDE + LINE - 1) / LINE;
    return (lines | 1) * LINE; /* an odd number of cache lines: else features would fight for a few sets of the first cache */
}

bool snls_tile_patch_keys_hold_rows(const CpuTile *tile, int64_t rows, int threads)
{
    const SnlsMatch *m = &tile->c->m;
    const double pixel = (double)(m->features * m->windows) * sizeof(float), reach = (double)((m->ps - 1) * m->dilation);
    const double held = (double)threads * (double)pitch_of(tile) * ((double)rows + reach + (double)tile->box_max) * pixel;
    const double planes = (double)m->height * ((double)m->width + 2.0 * (double)tile->pixel_columns + 2 * reach) * pixel;
    return m->ps > 1 && m->features >= FEATURES && (held <= ENOUGH || held <= planes);
}

void snls_tile_patch_keys_layout(CpuTile *tile)
{
    const SnlsMatch *m = &tile->c->m;
    CpuKeys *k = &tile->keys;
    k->frames = m->windows;
    k->pitch = pitch_of(tile);
    k->row = k->pitch * tile->layers;
    k->rows = tile->rows * tile->stack + tile->planes.before + tile->planes.after + tile->box_max;
}

void snls_tile_patch_keys_begin(const CpuTile *tile, CpuTileScratch *s)
{
    for (int64_t i = 0; i < tile->keys.frames; i++) s->keys[i].frame = -1;
}

/* Pixels i .. i+n-1 of a row of keys: n pixels of the frame one after the other, forwards or backwards, from `at` on. */
typedef struct Piece { int64_t i, n, at, step; } Piece;

/* Those from i on, up to `end` or where the row is mirrored. Some more where that makes whole blocks: beyond, or again. */
static Piece piece_of(const CpuTile *tile, const CpuKeyFrame *k, int64_t i, int64_t end)
{
    const int64_t width = tile->c->m.width, at = snls_reflect(k->base + i, width), step = snls_reflect(k->base + i + 1, width) - at;
    const int64_t ahead = step > 0 ? width - at : step < 0 ? at : 1, behind = step > 0 ? at : step < 0 ? width - 1 - at : 0;
    Piece p = {i, ahead < end - i ? ahead : end - i, at, step};
    const int64_t more = (BLOCK - p.n % BLOCK) % BLOCK;
    if (p.n + more <= ahead && i + p.n + more <= tile->keys.pitch) p.n += more;
    else if (more <= behind && more <= i) p = (Piece){i - more, p.n + more, at - step * more, step};
    return p;
}

/* Blocks [first, end) of a row. */
static void load_blocks(const CpuTile *tile, const CpuTilePlace *p, CpuKeyFrame *k, const CpuKeyRow *held, int64_t first, int64_t end)
{
    const SnlsMatch *m = &tile->c->m;
    const int64_t pixel = tile->c->key.step[3];
    const float *row = snls_cpu_pixel(&tile->c->key, p->b, k->frame, snls_reflect(held->y, m->height), 0) + p->head * m->features;
    float *out = k->data + (held - k->held) * tile->keys.row;
    for (int64_t i = first * BLOCK; i < end * BLOCK;) {
        const Piece piece = piece_of(tile, k, i, end * BLOCK);
        tile->t.planes(out + piece.i, tile->keys.pitch, row + piece.at * pixel, piece.step * pixel, piece.n, m->features);
        if (tile->norms) tile->t.norms(out + m->features * tile->keys.pitch + piece.i, out + piece.i, tile->keys.pitch, piece.n, m->features);
        i = piece.i + piece.n;
    }
}

/* Nothing is held of a frame, or boxes are elsewhere. */
static void start(const CpuTile *tile, int64_t frame, const CpuShifts *at, CpuKeyFrame *k)
{
    const int64_t left = (at->x + at->x_end - tile->keys.pitch) / 2, lines = left / LINE - (left % LINE < 0);
    k->frame = frame;
    k->base = lines * LINE;
    k->rows = tile->keys.rows;
    for (int64_t i = 0; i < k->rows; i++) k->held[i] = (CpuKeyRow){INT64_MIN, 0, 0, 0};
}

int64_t snls_tile_patch_keys(const CpuTile *tile, const CpuTilePlace *p, int64_t frame, const CpuShifts *at, const float **rows, CpuTileScratch *s)
{
    CpuKeyFrame *k = snls_tile_key_frame(tile, s, frame);
    if (frame != k->frame || at->x < k->base || at->x_end > k->base + tile->keys.pitch) start(tile, frame, at, k);
    const int64_t first = (at->x - k->base) / BLOCK, end = (at->x_end - 1 - k->base) / BLOCK + 1;
    int64_t place = (at->y % k->rows + k->rows) % k->rows;
    for (int64_t y = at->y; y < at->y_end; y++, place = place + 1 < k->rows ? place + 1 : 0) {
        CpuKeyRow *held = &k->held[place];
        if (held->y != y) *held = (CpuKeyRow){y, first, first, 0};
        if (first < held->first) load_blocks(tile, p, k, held, first, held->first), held->first = first;
        if (end > held->end) load_blocks(tile, p, k, held, held->end, end), held->end = end;
        rows[y - at->y] = k->data + place * tile->keys.row;
    }
    return k->base;
}
