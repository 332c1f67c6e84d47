/* rows.c: what norm and channel attention do to pixels, for those who have them outside of a network. */
#include "nn/nn.h"
#include "simd/layers.h"
#include <string.h>

enum { PARTS = 8 }; /* of the pixels: one thread owns one */

static int64_t part_begin(const NnRows *r, int part) { return r->pixels * part / PARTS; }

static SnlsRows part_of(const NnRows *r, int part) { return (SnlsRows){ part_begin(r, part + 1) - part_begin(r, part), r->channels, r->dtype == SNLS_BF16 }; }

static int64_t bytes_before(const NnRows *r, int part) { return part_begin(r, part) * r->channels * snls_dtype_size((SnlsDtype)r->dtype); }

void snls_nn_rows_gate(SnlsContext *ctx, void *y, const void *x, const float *gates, const void *z, const NnRows *r)
{
    SnlsLayers loops;
    snls_layers(&loops, ctx->cpu_level);
#pragma omp parallel for num_threads(ctx->threads) schedule(static)
    for (int part = 0; part < PARTS; part++) {
        const SnlsRows rows = part_of(r, part);
        const int64_t at = bytes_before(r, part);
        if (z) loops.gate((char *)y + at, (const char *)x + at, gates, (const char *)z + at, &rows);
        else loops.scale((char *)y + at, (const char *)x + at, gates, &rows);
    }
}

void snls_nn_rows_norm(SnlsContext *ctx, void *y, const void *x, const SnlsTensor *scale, const SnlsTensor *shift, double eps, const NnRows *r)
{
    SnlsLayers loops;
    snls_layers(&loops, ctx->cpu_level);
#pragma omp parallel for num_threads(ctx->threads) schedule(static)
    for (int part = 0; part < PARTS; part++) {
        float room[SNLS_NORM_ROWS * NN_ROWS_MOST];
        const SnlsRows rows = part_of(r, part);
        const int64_t at = bytes_before(r, part);
        loops.norm((char *)y + at, (const char *)x + at, scale->data, shift->data, eps, &rows, room);
    }
}

void snls_nn_rows_gelu(SnlsContext *ctx, uint16_t *y, const NnRows *r)
{
    SnlsLayers loops;
    snls_layers(&loops, ctx->cpu_level);
#pragma omp parallel for num_threads(ctx->threads) schedule(static)
    for (int part = 0; part < PARTS; part++) loops.gelu(y + part_begin(r, part) * r->channels, (part_begin(r, part + 1) - part_begin(r, part)) * r->channels);
}

/* In parts that do not depend on the number of threads, added in their order. */
void snls_nn_rows_sum(SnlsContext *ctx, double *sums, const void *x, const NnRows *r)
{
    float part_sums[PARTS][NN_ROWS_MOST];
    SnlsLayers loops;
    snls_layers(&loops, ctx->cpu_level);
#pragma omp parallel for num_threads(ctx->threads) schedule(static)
    for (int part = 0; part < PARTS; part++) {
        const SnlsRows rows = part_of(r, part);
        memset(part_sums[part], 0, sizeof(float) * (size_t)r->channels);
        loops.sum(part_sums[part], (const char *)x + bytes_before(r, part), &rows);
    }
    for (int part = 0; part < PARTS; part++)
        for (int64_t c = 0; c < r->channels; c++) sums[c] += part_sums[part][c];
}

void snls_nn_gates(float *gates, const double *sums, double pixels, const float *taps, int64_t channels)
{
    for (int64_t i = 0; i < channels; i++) {
        const double z = (i ? taps[0] * sums[i - 1] : 0) + taps[1] * sums[i] + (i + 1 < channels ? taps[2] * sums[i + 1] : 0);
        gates[i] = (float)(1 / (1 + exp(-z / pixels)));
    }
}
