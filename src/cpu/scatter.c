/* scatter.c: destinations pushed to sources: scatter_add, and the value gradients of gather and gather_add. A band of
 * source rows has one owner, which looks through all neighbours for taps that fall in it, in a fixed order. */
#include "cpu/aggregate.h"

typedef struct Band { int64_t b, frame, first, end; } Band; /* rows [first, end) of a source frame */

static void push_neighbour(const CpuAggregate *c, const Band *band, int64_t head, int64_t t, int64_t i, int64_t j, int64_t k, const SnlsNeighbour *n)
{
    static const float one = 1;
    const SnlsAggregate *a = &c->a;
    const float weight = snls_cpu_weight(a, band->b, head, t, i, j, k);
    for (int64_t r = 0; r < a->ps; r++)
        for (int64_t s = 0; s < a->ps; s++) {
            const int64_t y = i * a->stride0 + a->dilation * (r - a->ps / 2), x = j * a->stride0 + a->dilation * (s - a->ps / 2);
            CpuTaps taps;
            if (y < 0 || y >= a->height || x < 0 || x >= a->width || !snls_cpu_source_taps(&taps, c, band->b, head, n, r, s)) continue;
            const float *from = c->destination.data ? snls_cpu_destination(c, band->b, head, k, t, y, x) : &one;
            const float factor = weight / (float)snls_cpu_divisor(c, y, x);
            for (int m = 0; m < taps.count; m++) {
                if (taps.y[m] < band->first || taps.y[m] >= band->end) continue;
                float *to = snls_cpu_pixel(&c->source, band->b, band->frame, taps.y[m], taps.x[m]) + head * c->channels;
                c->dsp->axpy(to, factor * taps.weight[m], from, c->channels);
            }
        }
}

static void push_query(const CpuAggregate *c, const Band *band, int64_t head, int64_t t, int64_t i, int64_t j)
{
    const SnlsAggregate *a = &c->a;
    for (int64_t k = 0; k < a->neighbours; k++) {
        const SnlsNeighbour n = snls_cpu_neighbour(a, band->b, head, t, i, j, k);
        if (n.valid && n.frame == band->frame) push_neighbour(c, band, head, t, i, j, k, &n);
    }
}

static void push_band(const CpuAggregate *c, const Band *band)
{
    const SnlsAggregate *a = &c->a;
    for (int64_t t = 0; t < a->frames; t++)
        for (int64_t i = 0; i < a->rows; i++)
            for (int64_t j = 0; j < a->columns; j++)
                for (int64_t head = 0; head < a->heads; head++) push_query(c, band, head, t, i, j);
}

void snls_cpu_scatter_bands(SnlsContext *ctx, const CpuAggregate *c)
{
    const SnlsAggregate *a = &c->a;
    const int64_t planes = a->batch * a->frames;
    int64_t bands = planes ? (2 * ctx->threads + planes - 1) / planes : 1; /* enough to share; the sums do not depend on it */
    if (bands > a->height) bands = a->height;
    const int64_t units = planes * bands;
#pragma omp parallel for num_threads(ctx->threads) schedule(dynamic, 1)
    for (int64_t u = 0; u < units; u++) {
        const int64_t n = u % bands;
        const Band band = {u / bands / a->frames, u / bands % a->frames, n * a->height / bands, (n + 1) * a->height / bands};
        push_band(c, &band);
    }
}
