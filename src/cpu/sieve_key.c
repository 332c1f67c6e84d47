/* sieve_key.c: frames in bf16 parts, and what l2 needs beside them. */
#include "cpu/sieve.h"
#include "cpu/threads.h"
#include <math.h>
#include <string.h>

enum { LINE = 32, PAGE_LINES = 64, SPREAD_LINES = 4 }; /* numbers in a cache line; lines after which places in the first cache repeat; lines of a pixel that are spread */

/* Rows whose distance is near a multiple of a page would fight for the same places in the cache. Pixels of many lines would take many columns to avoid it,
 * and have the cache to themselves anyway. */
static int64_t spread(int64_t width, int64_t lines)
{
    while (width * lines % PAGE_LINES < 12 || width * lines % PAGE_LINES > PAGE_LINES - 12) width++;
    return width;
}

static int64_t whole_pairs(int64_t pixels) { return (pixels + SNLS_SIEVE_PAIR - 1) / SNLS_SIEVE_PAIR * SNLS_SIEVE_PAIR; }

void snls_sieve_keys_layout(CpuSieve *v)
{
    const SnlsMatch *m = &v->c->m;
    CpuSieveKeys *k = &v->keys;
    const int64_t chunk = v->s.bytes ? SNLS_SIEVE_BYTES : SNLS_SIEVE_CHUNK;
    k->padded = (m->features + chunk - 1) / chunk * chunk;
    k->pixel = v->s.bytes ? (k->padded + SNLS_SIEVE_HEAD) / 2 : k->parts * k->padded;
    k->rows = m->height + 1;
    k->width = m->width + v->columns_max + SNLS_SIEVE_PAIR - 1;
    k->blocks = (m->width + SIEVE_LANES - 1) / SIEVE_LANES;
    const int64_t lines = (k->pixel + LINE - 1) / LINE;
    if (lines <= SPREAD_LINES) k->width = spread(k->width, lines);
    k->width = whole_pairs(k->width);
}

enum { SAMPLES = 16 }; /* along each axis */

/* Some pixels, spread over all frames: the first may be black. */
static const float *sample(const CpuSieve *v, int64_t b, int64_t head, int64_t i)
{
    const SnlsMatch *m = &v->c->m;
    return snls_cpu_pixel(&v->c->key, b, (i + i / SAMPLES) % m->frames, i / SAMPLES * m->height / SAMPLES, i % SAMPLES * m->width / SAMPLES) + head * m->features;
}

/* What makes the numbers of those pixels, less their centre, about 1: any power of two is right, and what it makes too large or too small is seen to be lost. */
static float scale_of(const CpuSieve *v, int64_t b, int64_t head)
{
    enum { FARTHEST = 40 };
    const SnlsMatch *m = &v->c->m;
    double sum = 0;
    for (int64_t i = 0; i < SAMPLES * SAMPLES; i++) {
        const float *pixel = sample(v, b, head, i);
        for (int64_t f = 0; f < m->features; f++) sum += ((double)pixel[f] - (double)v->keys.centre[f]) * ((double)pixel[f] - (double)v->keys.centre[f]);
    }
    const double size = sqrt(sum / (double)(SAMPLES * SAMPLES * m->features));
    if (!(size > 0 && size < INFINITY)) return 1;
    return (float)exp2(fmax(-FARTHEST, fmin(FARTHEST, -rint(log2(size)))));
}

/* A mean of some pixels: any centre is right, a good one makes the parts small. */
static void set_centre(const CpuSieve *v, int64_t b, int64_t head)
{
    const SnlsMatch *m = &v->c->m;
    float *centre = v->keys.centre;
    for (int64_t f = 0; f < m->features; f++) {
        double sum = 0;
        for (int64_t i = 0; i < SAMPLES * SAMPLES; i++)
            sum += (double)sample(v, b, head, i)[f];
        const float mean = (float)(sum / (SAMPLES * SAMPLES));
        centre[f] = fabsf(mean) < 1e15f ? mean : 0; /* also for NaN */
    }
    centre[m->features] = sqrtf(v->c->dsp->dot(centre, centre, m->features));
    centre[m->features + 1] = v->s.scaled ? scale_of(v, b, head) : 1;
}

void snls_sieve_keys_begin(const CpuSieve *v, int64_t b, int64_t head)
{
    for (int64_t i = 0; i < v->keys.ring; i++) v->keys.frame[i] = -1;
    set_centre(v, b, head);
}

int64_t snls_sieve_keys_noted(const CpuSieve *v) { return v->keys.width + 2 * v->keys.blocks; }

static void load_bends(const CpuSieve *v, int64_t b, int64_t head, int64_t frame, int64_t y)
{
    const CpuSieveKeys *k = &v->keys;
    const int64_t row = (frame % k->ring * k->rows + y) * k->width;
    const float scale = snls_sieve_scale(v);
    for (int64_t x = 0; x < v->c->m.width; x++) {
        float bend[3];
        snls_cpu_bends(v->c, b, head, frame, y, x, bend);
        for (int n = 0; n < 3; n++) k->bend[n][row + x] = bend[n] * scale * scale;
    }
}

/* The largest of every block and those after it that a box may reach into. */
static void note_peaks(const CpuSieve *v, float *to, int64_t place, int64_t y, const float *of)
{
    const CpuSieveKeys *k = &v->keys;
    const int64_t span = v->columns_max / SIEVE_LANES + 1;
    for (int64_t b = 0; b < k->blocks; b++) {
        float most = of[b];
        for (int64_t i = b + 1; i < b + span && i < k->blocks; i++) most = snls_sieve_larger(most, of[i]);
        to[(place * k->blocks + b) * k->rows + y] = most;
    }
}

static void load_row(const CpuSieve *v, int64_t b, int64_t head, int64_t frame, int64_t y, float *norm)
{
    const SnlsMatch *m = &v->c->m;
    const CpuSieveKeys *k = &v->keys;
    const int64_t place = frame % k->ring, row = place * k->rows + y, pixel = k->pixel, filled = y < m->height ? m->width : 0;
    uint16_t *out = k->data + row * k->width * pixel;
    float *most = norm + k->width, *lost = most + k->blocks;
    memset(most, 0, (size_t)(2 * k->blocks) * sizeof *most);
    if (filled) {
        const SnlsSieveParts as = snls_sieve_parts(v, true, lost);
        v->s.split(out, &as, snls_cpu_pixel(&v->c->key, b, frame, y, 0) + head * m->features, v->c->key.step[3], m->width, norm, most);
    }
    memset(out + whole_pairs(filled) * pixel, 0, (size_t)((k->width - whole_pairs(filled)) * pixel) * sizeof *out);
    note_peaks(v, k->peak, place, y, most);
    if (k->lost) note_peaks(v, k->lost, place, y, lost);
    if (!k->add) return;
    memcpy(k->add + row * k->width, norm, (size_t)filled * sizeof *norm);
    memset(k->add + row * k->width + filled, 0, (size_t)(k->width - filled) * sizeof *norm);
    for (int n = 0; k->bend[0] && n < 3; n++) memset(k->bend[n] + row * k->width, 0, (size_t)k->width * sizeof(float));
    if (k->bend[0] && filled) load_bends(v, b, head, frame, y);
}

void snls_sieve_keys_load(SnlsContext *ctx, const CpuSieve *v, int64_t b, int64_t head, int64_t frame)
{
    int64_t *held = &v->keys.frame[frame % v->keys.ring];
    if (*held == frame) return;
    *held = frame;
#pragma omp parallel for num_threads(ctx->threads) schedule(static)
    for (int64_t y = 0; y < v->keys.rows; y++) load_row(v, b, head, frame, y, v->norms + snls_cpu_thread() * snls_sieve_keys_noted(v));
}
