/* gather.c: sources read into destinations: gather, gather_add, and the value gradient of scatter_add. */
#include "cpu/aggregate.h"
#include "cpu/threads.h"

/* All neighbours of query (i, j) onto pixel (y, x), which is pixel (r, s) of its patch. */
static void add_query(const CpuAggregate *c, int64_t b, int64_t head, int64_t t, int64_t i, int64_t j, int64_t r, int64_t s, int64_t y, int64_t x,
                      float divisor, float *blend)
{
    const SnlsAggregate *a = &c->a;
    for (int64_t k = 0; k < a->neighbours; k++) {
        const SnlsNeighbour n = snls_cpu_neighbour(a, b, head, t, i, j, k);
        CpuTaps taps;
        if (!n.valid || !snls_cpu_source_taps(&taps, c, b, head, &n, r, s)) continue;
        c->dsp->blend(blend, taps.at, taps.weight, taps.count, c->channels);
        c->dsp->axpy(snls_cpu_destination(c, b, head, k, t, y, x), snls_cpu_weight(a, b, head, t, i, j, k) / divisor, blend, c->channels);
    }
}

static void add_pixel(const CpuAggregate *c, int64_t b, int64_t head, int64_t t, int64_t y, int64_t x, float *blend)
{
    const SnlsAggregate *a = &c->a;
    const float divisor = (float)snls_cpu_divisor(c, y, x);
    for (int64_t r = 0; r < a->ps; r++) {
        const int64_t qy = y - a->dilation * (r - a->ps / 2);
        if (qy < 0 || qy >= a->height || qy % a->stride0) continue;
        for (int64_t s = 0; s < a->ps; s++) {
            const int64_t qx = x - a->dilation * (s - a->ps / 2);
            if (qx < 0 || qx >= a->width || qx % a->stride0) continue;
            add_query(c, b, head, t, qy / a->stride0, qx / a->stride0, r, s, y, x, divisor, blend);
        }
    }
}

void snls_cpu_gather_rows(SnlsContext *ctx, const CpuAggregate *c)
{
    const SnlsAggregate *a = &c->a;
    const int64_t units = a->batch * a->frames * a->height;
#pragma omp parallel for num_threads(ctx->threads) schedule(dynamic, 1)
    for (int64_t u = 0; u < units; u++) {
        const int64_t y = u % a->height, t = u / a->height % a->frames, b = u / a->height / a->frames;
        for (int64_t x = 0; x < a->width; x++)
            for (int64_t head = 0; head < a->heads; head++) add_pixel(c, b, head, t, y, x, c->spare + snls_cpu_thread() * c->spare_size);
    }
}
