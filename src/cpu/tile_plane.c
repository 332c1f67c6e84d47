/* tile_plane.c: frames turned from pixels of features into planes of pixels. */
#include "cpu/tile.h"
#include <math.h>
#include <string.h>

enum { AT_ONCE = 240 };

void snls_tile_planes_layout(CpuPlanes *p, const SnlsMatch *m, int64_t columns, int64_t layers, bool bend)
{
    p->features = layers;
    p->frames = m->windows;
    p->bend = bend;
    p->before = m->dilation * (m->ps / 2);
    p->after = m->dilation * (m->ps - 1 - m->ps / 2);
    p->margin = columns * m->stride0 + p->before;
    const int64_t length = p->margin + m->width + p->after + (columns + 1) * m->stride0 + 2;
    p->phase = (length + m->stride0 - 1) / m->stride0 + SNLS_TILE_LANES_MAX;
    p->pitch = (p->phase * m->stride0 + 15) / 16 * 16;
    if (p->pitch / 16 % 2 == 0) p->pitch += 16; /* an odd number of cache lines: else features would fight for a few sets of the first cache */
    p->row = p->pitch * (p->features + (bend ? 3 : 0));
    p->frame_size = p->row * m->height;
}

static float *plane_row(const CpuTile *tile, int64_t frame, int64_t y)
{
    const CpuPlanes *p = &tile->planes;
    return p->data + frame % p->frames * p->frame_size + y * p->row;
}

const float *snls_tile_plane_row(const CpuTile *tile, int64_t frame, int64_t y) { return plane_row(tile, frame, snls_reflect(y, tile->c->m.height)); }

static int64_t place_of(const CpuTile *tile, int64_t x)
{
    const int64_t at = x + tile->planes.margin, stride0 = tile->c->m.stride0;
    return at % stride0 * tile->planes.phase + at / stride0;
}

/* Returns the largest |feature| of the row. */
static float load_features(const CpuTile *tile, const CpuTilePlace *at, int64_t frame, int64_t y)
{
    const SnlsMatch *m = &tile->c->m;
    const CpuPlanes *p = &tile->planes;
    float *out = plane_row(tile, frame, y);
    const float *in = snls_cpu_pixel(&tile->c->key, at->b, frame, y, 0) + at->head * m->features;
    const float peak = tile->t.planes(out + p->margin, p->pitch, in, tile->c->key.step[3], m->width, m->features); /* patches have stride0 1 */
    if (tile->norms) tile->t.norms(out + m->features * p->pitch + p->margin, out + p->margin, p->pitch, m->width, m->features);
    for (int64_t x = -p->before; x < m->width + p->after + 1; x++) { /* what patches see beyond the frame, and the tap after it */
        if (x == 0) x = m->width;
        const int64_t to = place_of(tile, x), from = place_of(tile, snls_reflect(x, m->width));
        for (int64_t f = 0; f < m->features + tile->norms; f++) out[f * p->pitch + to] = out[f * p->pitch + from];
    }
    return peak;
}

/* The same where there are no planes of features. */
static float peak_of_row(const CpuTile *tile, const CpuTilePlace *at, int64_t frame, int64_t y)
{
    const SnlsMatch *m = &tile->c->m;
    const int64_t step = tile->c->key.step[3];
    const bool packed = step == m->features;
    const float *row = snls_cpu_pixel(&tile->c->key, at->b, frame, y, 0) + at->head * m->features;
    float peak = 0;
    for (int64_t x = 0; x < (packed ? 1 : m->width); x++) {
        const float most = tile->t.peak(row + x * step, packed ? m->width * m->features : m->features);
        peak = most > peak ? most : peak;
    }
    return peak;
}

/* What no pixel is written to, lanes that no query needs look at all the same. Interpolation counts corrections for `most`, so they must not be what happens to lie
 * there. Products nobody asks for, but a processor may take a hundred times as long for numbers below 2^-126, and much that lies there looks like one. */
void snls_tile_planes_clear(SnlsContext *ctx, const CpuTile *tile)
{
    const SnlsMatch *m = &tile->c->m;
    const CpuPlanes *p = &tile->planes;
    const int64_t left = p->margin - p->before, written = m->width + p->before + p->after + 1;
#pragma omp parallel for num_threads(ctx->threads) schedule(static)
    for (int64_t r = 0; r < p->frames * m->height; r++) {
        float *row = p->data + r * p->row;
        for (int64_t f = 0; f < p->features; f++) { /* patches have stride0 1 */
            memset(row + f * p->pitch, 0, (size_t)left * sizeof *row);
            memset(row + f * p->pitch + left + written, 0, (size_t)(p->pitch - left - written) * sizeof *row);
        }
        if (p->bend) memset(row + p->features * p->pitch, 0, (size_t)(3 * p->pitch) * sizeof *row);
    }
}

bool snls_tile_keys_ready(const CpuTile *tile, const CpuTilePlace *p, int64_t frame, CpuTileScratch *s)
{
    const SnlsMatch *m = &tile->c->m;
    const double key = m->ps == 1 ? snls_tile_hold_keys(tile, p, frame, s) : tile->planes.peak[frame % tile->planes.frames * m->height]; /* row 0 holds the frame's */
    const double sum = key + s->peak;
    const bool bearable = sum * sum * (double)(m->features * m->ps * m->ps) < 1e36;
    if (bearable && key > s->key_peak) s->key_peak = (float)key;
    return bearable;
}

/* Row y of the three planes of the mirrored frame before the sums, x from -before on. */
static float *raw_row(const CpuTile *tile, int64_t plane, int64_t y)
{
    const SnlsMatch *m = &tile->c->m;
    const CpuPlanes *p = &tile->planes;
    const int64_t width = m->width + p->before + p->after, height = m->height + p->before + p->after;
    return p->raw + (plane * height + y + p->before) * width + p->before;
}

static void load_raw_bends(const CpuTile *tile, const CpuTilePlace *at, int64_t frame, int64_t y)
{
    const CpuPlanes *p = &tile->planes;
    for (int64_t x = -p->before; x < tile->c->m.width + p->after; x++) {
        float bend[3];
        snls_cpu_bends(tile->c, at->b, at->head, frame, y, x, bend);
        for (int n = 0; n < 3; n++) raw_row(tile, n, y)[x] = bend[n];
    }
}

/* Sums over the patches around n pixels of row y from x on: down, then across. */
static void patch_sums(const CpuTile *tile, int64_t plane, int64_t y, int64_t x, int64_t n, float *out)
{
    const SnlsMatch *m = &tile->c->m;
    const int64_t before = tile->planes.before, wide = n + before + tile->planes.after;
    float down[AT_ONCE + SNLS_TILE_REACH_MAX];
    memset(down, 0, (size_t)wide * sizeof *down);
    for (int64_t a = 0; a < m->ps; a++) {
        const float *row = raw_row(tile, plane, y + m->dilation * (a - m->ps / 2)) + x - before;
        for (int64_t i = 0; i < wide; i++) down[i] += row[i];
    }
    memcpy(out, down, (size_t)n * sizeof *out);
    for (int64_t b = 1; b < m->ps; b++)
        for (int64_t i = 0; i < n; i++) out[i] += down[i + b * m->dilation];
}

static void load_bends(const CpuTile *tile, const CpuTilePlace *at, int64_t frame, int64_t y)
{
    const SnlsMatch *m = &tile->c->m;
    const CpuPlanes *p = &tile->planes;
    float *out = plane_row(tile, frame, y) + p->features * p->pitch;
    for (int64_t x = 0; m->ps > 1 && x < m->width; x += AT_ONCE) /* patches have stride0 1 */
        for (int n = 0; n < 3; n++) patch_sums(tile, n, y, x, m->width - x < AT_ONCE ? m->width - x : AT_ONCE, out + n * p->pitch + p->margin + x);
    for (int64_t x = 0; m->ps == 1 && x < m->width; x++) {
        float bend[3];
        snls_cpu_bends(tile->c, at->b, at->head, frame, y, x, bend);
        for (int n = 0; n < 3; n++) out[n * p->pitch + place_of(tile, x)] = bend[n];
    }
}

void snls_tile_planes_load(SnlsContext *ctx, const CpuTile *tile, const CpuTilePlace *at, int64_t frame)
{
    const SnlsMatch *m = &tile->c->m;
    const CpuPlanes *p = &tile->planes;
    int64_t *held = &p->frame[frame % p->frames];
    float *peak = p->peak + frame % p->frames * m->height;
    if (*held == frame || !(p->features || tile->by_rows || p->bend)) return;
    *held = frame;
#pragma omp parallel num_threads(ctx->threads)
    {
        if (p->bend && m->ps > 1) {
#pragma omp for schedule(static)
            for (int64_t y = -p->before; y < m->height + p->after; y++) load_raw_bends(tile, at, frame, y);
        }
#pragma omp for schedule(static)
        for (int64_t y = 0; y < m->height; y++) {
            if (m->ps > 1) peak[y] = (tile->by_rows ? peak_of_row : load_features)(tile, at, frame, y);
            if (p->bend) load_bends(tile, at, frame, y);
        }
    }
    for (int64_t y = 1; m->ps > 1 && y < m->height; y++) peak[0] = peak[y] > peak[0] ? peak[y] : peak[0];
}

/* Long vectors lie row by row, each with its features. Of short ones the rows of a feature lie side by side: loads of a few lines in order are cheaper than
 * those of many lines that are a power of two apart. */
SnlsTileQueries snls_tile_queries_at(const CpuTile *tile)
{
    const int64_t width = tile->t.width;
    if (width == tile->lanes) return (SnlsTileQueries){.row = tile->layers * width, .step = width};
    return (SnlsTileQueries){.row = width, .step = tile->pixel_rows * width, .part = tile->layers * tile->pixel_rows * width};
}

/* A vector of pixels of a row, from x0 on, mirrored beyond the frame. Returns the largest |feature|. */
static float load_query_vector(const CpuTile *tile, const float *row, int64_t x0, float *out)
{
    const SnlsMatch *m = &tile->c->m;
    const int64_t step = tile->c->query.step[3] * m->stride0, lanes = tile->t.width, pitch = tile->at.step;
    int64_t first = x0 < 0 ? -x0 : 0, end = m->columns - x0 < lanes ? m->columns - x0 : lanes; /* lanes inside the frame */
    float peak = 0;
    if (end < first) end = first;
    if (first < end) peak = tile->t.planes(out + first, pitch, row + (x0 + first) * step, step, end - first, m->features);
    for (int64_t l = 0; l < lanes; l++) {
        if (l == first) l = end;
        if (l >= lanes) break;
        const float *pixel = row + snls_reflect(x0 + l, m->columns) * step;
        for (int64_t f = 0; f < m->features; f++) {
            peak = fabsf(pixel[f]) > peak ? fabsf(pixel[f]) : peak;
            out[f * pitch + l] = pixel[f];
        }
    }
    if (tile->norms) snls_tile_query_norms(tile, out);
    return peak;
}

void snls_tile_load_query(const CpuTile *tile, const CpuTilePlace *p, float *out, CpuTileScratch *s)
{
    const SnlsMatch *m = &tile->c->m;
    const int64_t rows = p->rows + tile->planes.before + tile->planes.after, run = tile->pixel_rows * tile->layers * tile->lanes, runs = tile->pixel_columns / tile->lanes, width = tile->t.width;
    s->query_rows = rows;
    for (int64_t i = 0; i < rows; i++) s->row_peak[i] = 0;
    for (int64_t i = 0; i < rows * runs; i++) {
        const int64_t y = snls_reflect((p->i0 + i % rows) * m->stride0 - tile->planes.before, m->height);
        const float *row = snls_cpu_pixel(&tile->c->query, p->b, p->t, y, 0) + p->head * m->features;
        for (int64_t l = 0; l < tile->lanes; l += width) {
            const float most = load_query_vector(tile, row, p->j0 - tile->planes.before + i / rows * tile->lanes + l, out + i / rows * run + i % rows * tile->at.row + l / width * tile->at.part);
            s->row_peak[i % rows] = most > s->row_peak[i % rows] ? most : s->row_peak[i % rows];
        }
    }
    if (m->prod) /* so that a smaller score is the better one, as in l2 */
        for (int64_t i = 0; i < runs * run; i++) out[i] = -out[i]; /* of rows that are not there too: nobody looks at them */
}
