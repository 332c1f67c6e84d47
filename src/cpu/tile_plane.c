/* tile_plane.c: frames turned from pixels of features into planes of pixels. */
#include "cpu/tile.h"
#include <string.h>

void snls_tile_planes_layout(CpuPlanes *p, const SnlsMatch *m, int64_t lanes, bool bend)
{
    p->features = m->features;
    p->bend = bend;
    p->margin = lanes * m->stride0;
    const int64_t length = p->margin + m->width + (lanes + 1) * m->stride0 + 2;
    p->phase = (length + m->stride0 - 1) / m->stride0 + lanes;
    p->pitch = (p->phase * m->stride0 + 15) / 16 * 16;
    if (p->pitch % 256 == 0) p->pitch += 16; /* planes a multiple of 1 KiB apart would fight for the same cache lines */
    p->row = p->pitch * (p->features + (bend ? 3 : 0));
    p->frame_size = p->row * m->height;
}

const float *snls_tile_plane_row(const CpuTile *tile, int64_t frame, int64_t y)
{
    const CpuPlanes *p = &tile->planes;
    return p->data + frame % tile->c->m.windows * p->frame_size + y * p->row;
}

/* |k - right|^2, |k - lower|^2, |k - right - lower + both|^2, mirrored beyond the last pixel */
static void bend_of_pixel(const CpuTile *tile, int64_t b, int64_t frame, int64_t channel, int64_t y, int64_t x, float out[3])
{
    const SnlsMatch *m = &tile->c->m;
    const CpuVideo *key = &tile->c->key;
    const int64_t down = snls_reflect(y + 1, m->height), right = snls_reflect(x + 1, m->width);
    const float *k = snls_cpu_pixel(key, b, frame, y, x) + channel, *r = snls_cpu_pixel(key, b, frame, y, right) + channel;
    const float *d = snls_cpu_pixel(key, b, frame, down, x) + channel, *both = snls_cpu_pixel(key, b, frame, down, right) + channel;
    float across = 0;
    for (int64_t f = 0; f < m->features; f++) {
        const float e = k[f] - r[f] - d[f] + both[f];
        across += e * e;
    }
    out[0] = tile->c->dsp->l2(k, r, m->features);
    out[1] = tile->c->dsp->l2(k, d, m->features);
    out[2] = across;
}

static void load_row(const CpuTile *tile, int64_t b, int64_t head, int64_t frame, int64_t y)
{
    const SnlsMatch *m = &tile->c->m;
    const CpuPlanes *p = &tile->planes;
    const int64_t channel = head * m->features;
    float *out = p->data + frame % m->windows * p->frame_size + y * p->row;
    const float *in = snls_cpu_pixel(&tile->c->key, b, frame, y, 0) + channel;
    if (m->stride0 == 1) {
        tile->t.planes(out + p->margin, p->pitch, in, tile->c->key.step[3], m->width, m->features);
    } else {
        for (int64_t x = 0; x < m->width; x++) {
            const int64_t at = x + p->margin, place = at % m->stride0 * p->phase + at / m->stride0;
            for (int64_t f = 0; f < m->features; f++) out[f * p->pitch + place] = in[x * tile->c->key.step[3] + f];
        }
    }
    for (int64_t x = 0; p->bend && x < m->width; x++) {
        const int64_t at = x + p->margin, place = at % m->stride0 * p->phase + at / m->stride0;
        float bend[3];
        bend_of_pixel(tile, b, frame, channel, y, x, bend);
        for (int i = 0; i < 3; i++) out[(p->features + i) * p->pitch + place] = bend[i];
    }
}

void snls_tile_planes_load(SnlsContext *ctx, const CpuTile *tile, int64_t b, int64_t head, int64_t frame)
{
    const SnlsMatch *m = &tile->c->m;
    int64_t *held = &tile->planes.frame[frame % m->windows];
    if (*held == frame) return;
    *held = frame;
#pragma omp parallel for num_threads(ctx->threads) schedule(static)
    for (int64_t y = 0; y < m->height; y++) load_row(tile, b, head, frame, y);
}

void snls_tile_load_query(const CpuTile *tile, const CpuTilePlace *p, float *out)
{
    const SnlsMatch *m = &tile->c->m;
    const int64_t step = tile->c->query.step[3] * m->stride0, size = m->features * tile->lanes;
    for (int64_t r = 0; r < p->rows; r++) {
        const float *in = snls_cpu_pixel(&tile->c->query, p->b, p->t, (p->i0 + r) * m->stride0, p->j0 * m->stride0) + p->head * m->features;
        if (p->lanes < tile->lanes) memset(out + r * size, 0, (size_t)size * sizeof *out); /* lanes beyond the frame */
        tile->t.planes(out + r * size, tile->lanes, in, step, p->lanes, m->features);
    }
}
