/* spread.cuh: what spread.cu and splat.cu share: neighbours as sources that are sorted by the pixel they point at. */
#ifndef SNLS_CUDA_SPREAD_H
#define SNLS_CUDA_SPREAD_H

#include "cuda/aggregate.cuh"
#include "cuda/bins.cuh"

/* A neighbour as its bin keeps it. Mostly its query's patch is inside the frame and under full cover, and from is laid out in whole
 * pixels: then `number` has PACKED set, the last bits of its anchor's column, and how many pixels after the clip's first (of the
 * neighbour's layer, in a stack) its query is. Else it is its number among the sources, and the rest is worked out again. */
typedef struct __align__(16) SpreadEntry { uint32_t number; float fy, fx, weight; } SpreadEntry; /* fractions folded */
enum { PIXEL_BITS = 28, COLUMN_BITS = 3 };
#define PACKED 0x80000000u

typedef struct SpreadJob {
    SnlsAggJob job;
    SnlsTensor total;           /* may have no data */
    SnlsBins bins;
    SpreadEntry *entries;       /* in the order of bins.list */
    int64_t source, targets_at; /* first line of queries of this part; first line of cells */
    int64_t target_lines;       /* lines of cells, with those around the owners' */
    int64_t owner, owner_lines; /* lines of owners */
    SnlsDivisor dilation;
    int32_t half, span;         /* pixels of a patch before its centre; from its first to its last, and one more for the taps */
    float full_cover, by_full_cover; /* along an axis, away from the borders; its inverse */
    int32_t pixel_t, pixel_y, pixel_k; /* pixels of from to the next frame, row and layer; pixel_y 0: from is not laid out so */
    bool add;
    bool ordered;               /* the same order of sums in every run */
    bool splat;                 /* each cell adds to the pixels around it, in any order */
} SpreadJob;

typedef struct Source { int32_t plane, t, i, j, k; } Source;

static __device__ __forceinline__ Source source_of(const SpreadJob *s, uint32_t number)
{
    const SnlsAggJob *job = &s->job;
    Source r;
    const uint32_t query = snls_divide(number, job->neighbours), row = snls_divide(query, job->columns);
    const uint32_t line = (uint32_t)s->source + row, clip = snls_divide(line, job->rows), plane = snls_divide(clip, job->frames);
    r.k = (int32_t)(number - query * job->neighbours.divisor);
    r.j = (int32_t)(query - row * job->columns.divisor);
    r.i = (int32_t)(line - clip * job->rows.divisor);
    r.t = (int32_t)(clip - plane * job->frames.divisor);
    r.plane = (int32_t)plane;
    return r;
}

/* Element of a neighbour in weight or offset. */
static __device__ __forceinline__ int64_t number_at(const SpreadJob *s, const SnlsTensor *t, const Source *q)
{
    const int32_t b = (int32_t)snls_divide((uint32_t)q->plane, s->job.heads), head = q->plane - b * (int32_t)s->job.heads.divisor;
    return b * t->stride[0] + head * t->stride[1] + q->t * t->stride[2] + q->i * t->stride[3] + q->j * t->stride[4] + q->k * t->stride[5];
}

static __device__ __forceinline__ bool near_of(const SpreadJob *s, const Source *q, SnlsAggNear *n)
{
    const SnlsAggregate *a = &s->job.a;
    return snls_agg_near(&s->job, number_at(s, &a->offset, q), q->t, q->i * (int32_t)a->stride0, q->j * (int32_t)a->stride0, n);
}

/* The sums of each cell's neighbours, added to to where they belong; bins.list is filled, in any order. */
SnlsStatus snls_agg_splat(SnlsContext *ctx, SpreadJob *s);
bool snls_agg_can_splat(const SnlsAggJob *job);

#endif
