/* aggregate.h: gather, gather_add and scatter_add of the cpu backend, built from three loops: gather.c reads sources into
 * destinations, scatter.c pushes destinations to sources, pull.c has the gradients of weights and offsets. */
#ifndef SNLS_CPU_AGGREGATE_H
#define SNLS_CPU_AGGREGATE_H

#include "cpu/taps.h"
#include "cpu/video.h"
#include "op/aggregate.h"

/* The two sides of the ties between query patches and neighbours. channels: floats of one pixel of one head. */
typedef struct CpuAggregate {
    SnlsAggregate a;
    CpuVideo source;      /* video (b,t,y,x): what the neighbours' places are read from or written to */
    CpuVideo destination; /* video, or stack (b,head,k,t,y,x): what lies under the query patches; no data: all ones */
    bool stack;           /* destination is a stack */
    bool divide;          /* by the number of query patches over a destination pixel */
    int64_t channels;
    const SnlsDsp *dsp;
    float *spare;         /* a pixel of floats per thread */
    int64_t spare_size;
} CpuAggregate;

/* The neighbour's source pixel for pixel (r, s) of the patch; false: dropped. */
static inline bool snls_cpu_source_taps(CpuTaps *taps, const CpuAggregate *c, int64_t b, int64_t head, const SnlsNeighbour *n, int64_t r, int64_t s)
{
    const SnlsAggregate *a = &c->a;
    return snls_cpu_taps(taps, &c->source, b, n->frame, head * c->channels, n->y + (double)(a->dilation * (r - a->ps / 2)),
                         n->x + (double)(a->dilation * (s - a->ps / 2)), a->height, a->width, a->drop);
}

static inline float *snls_cpu_destination(const CpuAggregate *c, int64_t b, int64_t head, int64_t k, int64_t t, int64_t y, int64_t x)
{
    const int64_t *step = c->destination.step;
    if (c->stack) return c->destination.data + b * step[0] + head * step[1] + k * step[2] + t * step[3] + y * step[4] + x * step[5];
    return snls_cpu_pixel(&c->destination, b, t, y, x) + head * c->channels;
}

static inline float snls_cpu_weight(const SnlsAggregate *a, int64_t b, int64_t head, int64_t t, int64_t i, int64_t j, int64_t k)
{
    return ((const float *)a->weight.data)[snls_at6(&a->weight, b, head, t, i, j, k)];
}

static inline SnlsNeighbour snls_cpu_neighbour(const SnlsAggregate *a, int64_t b, int64_t head, int64_t t, int64_t i, int64_t j, int64_t k)
{
    return snls_neighbour(a, snls_at6(&a->offset, b, head, t, i, j, k), t, i * a->stride0, j * a->stride0);
}

static inline double snls_cpu_divisor(const CpuAggregate *c, int64_t y, int64_t x)
{
    const SnlsAggregate *a = &c->a;
    if (!c->divide) return 1;
    return (double)(snls_cover_count(y, a->height, a->ps, a->dilation, a->stride0) * snls_cover_count(x, a->width, a->ps, a->dilation, a->stride0));
}

/* destination += weight * source / divisor; one owner per destination row */
void snls_cpu_gather_rows(SnlsContext *ctx, const CpuAggregate *c);
/* source += weight * destination / divisor; one owner per band of source rows */
void snls_cpu_scatter_bands(SnlsContext *ctx, const CpuAggregate *c);
/* gradients of weight and offset, added; one owner per query. Either may have no data. */
void snls_cpu_pull_weights(SnlsContext *ctx, const CpuAggregate *c, const SnlsTensor *weight, const SnlsTensor *offset);

#endif
