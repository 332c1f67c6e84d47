/* aggregate.h: gather, gather_add and scatter_add of the cpu backend, built from three loops: gather.c reads sources into
 * destinations, scatter.c pushes destinations to sources, pull.c has the gradients of weights and offsets.
 * A neighbour whose whole patch lies inside its frame (almost all do) is one place, computed once: pixels of its patch are
 * steps from there, with the same four weights. The others go pixel by pixel, reflected or dropped. */
#ifndef SNLS_CPU_AGGREGATE_H
#define SNLS_CPU_AGGREGATE_H

#include "cpu/taps.h"
#include "cpu/threads.h"
#include "cpu/video.h"
#include "op/aggregate.h"

enum { CPU_SHAPES = 4, CPU_LISTS = 5 }; /* lists of taps: one for each shape of SnlsGrid, then the neighbours not inside */

/* The two sides of the ties between query patches and neighbours. channels: floats of one pixel of one head. */
typedef struct CpuAggregate {
    SnlsAggregate a;
    CpuVideo source;      /* video (b,t,y,x): what the neighbours' places are read from or written to */
    CpuVideo destination; /* video, or stack (b,head,k,t,y,x): what lies under the query patches; no data: all ones */
    bool stack;           /* destination is a stack */
    bool divide;          /* by the number of query patches over a destination pixel */
    bool overwrite;       /* gather: the destination is not added to */
    int64_t channels;
    const SnlsDsp *dsp;
    SnlsTap *taps;        /* CPU_LISTS lists of neighbours per thread */
    float *sums;          /* four per neighbour and thread */
    float *over_y, *over_x; /* query patches over a row, a column of pixels; 1 without divide */
} CpuAggregate;

typedef struct CpuQuery { int64_t b, head, t, i, j; } CpuQuery;

/* Pixels of a patch before and after its centre. */
static inline int64_t snls_cpu_before(const SnlsAggregate *a) { return a->dilation * (a->ps / 2); }
static inline int64_t snls_cpu_after(const SnlsAggregate *a) { return a->dilation * (a->ps - 1 - a->ps / 2); }

static inline int64_t snls_cpu_y(const SnlsAggregate *a, const CpuQuery *q, int64_t r) { return q->i * a->stride0 + a->dilation * (r - a->ps / 2); }
static inline int64_t snls_cpu_x(const SnlsAggregate *a, const CpuQuery *q, int64_t s) { return q->j * a->stride0 + a->dilation * (s - a->ps / 2); }

/* Pixels s of a patch of dilation 1 whose destination lies in the frame: [first, end). */
typedef struct CpuRange { int64_t first, end; } CpuRange;

static inline CpuRange snls_cpu_range(int64_t start, int64_t ps, int64_t length)
{
    return (CpuRange){start < 0 ? -start : 0, start + ps > length ? length - start : ps};
}

/* ---- places ---- */

/* Centres whose patch needs no reflection, and how numbers become addresses. */
typedef struct CpuInside {
    double frame, y0, y1, x0, x1; /* frame <= last, y0 <= y < y1, x0 <= x < x1 */
    int64_t step_t, step_y, step_x;
    bool nearest;
} CpuInside;

/* slopes: the taps right and below must exist even where their weight is 0 */
CpuInside snls_cpu_inside(const CpuAggregate *c, bool slopes);

/* A place: floats from the first pixel of (batch, head) to its upper left tap, and the fractions beyond it. */
typedef struct CpuSpot {
    int64_t at, frame, y;
    double fy, fx;
} CpuSpot;

/* Rounds half to even, wherever the result can matter: a larger number is in no frame. */
static inline double snls_cpu_round(double x) { return (x + 0x1.8p52) - 0x1.8p52; }

/* o: offset (dt, dy, dx) in steps; (t, y, x): the query. False: not finite, or not inside, or between frames. */
static inline bool snls_cpu_spot(CpuSpot *spot, const CpuInside *in, const float *o, int64_t step, double t, double y, double x)
{
    double dy = o[step], dx = o[2 * step];
    if (in->nearest) dy = snls_cpu_round(dy), dx = snls_cpu_round(dx);
    t += o[0], y += dy, x += dx;
    if (!((t >= 0) & (t <= in->frame) & (y >= in->y0) & (y < in->y1) & (x >= in->x0) & (x < in->x1))) return false;
    spot->frame = (int64_t)t;
    spot->y = (int64_t)y;
    const int64_t column = (int64_t)x;
    spot->fy = y - (double)spot->y;
    spot->fx = x - (double)column;
    spot->at = spot->frame * in->step_t + spot->y * in->step_y + column * in->step_x;
    return (double)spot->frame == t;
}

static inline void snls_cpu_spot_weights(float w[4], const CpuSpot *spot, double weight)
{
    const double upper = (1 - spot->fy) * weight, lower = spot->fy * weight, left = 1 - spot->fx, right = spot->fx;
    w[0] = (float)(upper * left);
    w[1] = (float)(upper * right);
    w[2] = (float)(lower * left);
    w[3] = (float)(lower * right);
}

static inline int snls_cpu_spot_shape(const CpuSpot *spot) { return (spot->fy != 0) * 2 + (spot->fx != 0); }

static inline const float *snls_cpu_offset(const SnlsAggregate *a, const CpuQuery *q, int64_t k)
{
    return (const float *)a->offset.data + snls_at6(&a->offset, q->b, q->head, q->t, q->i, q->j, k);
}

static inline float snls_cpu_weight(const SnlsAggregate *a, const CpuQuery *q, int64_t k)
{
    return ((const float *)a->weight.data)[snls_at6(&a->weight, q->b, q->head, q->t, q->i, q->j, k)];
}

static inline SnlsNeighbour snls_cpu_neighbour(const SnlsAggregate *a, const CpuQuery *q, int64_t k)
{
    return snls_neighbour(a, snls_at6(&a->offset, q->b, q->head, q->t, q->i, q->j, k), q->t, q->i * a->stride0, q->j * a->stride0);
}

/* ---- pixels ---- */

/* The neighbour's source pixel for pixel (r, s) of the patch; false: dropped. */
static inline bool snls_cpu_source_taps(CpuTaps *taps, const CpuAggregate *c, const CpuQuery *q, const SnlsNeighbour *n, int64_t r, int64_t s)
{
    const SnlsAggregate *a = &c->a;
    return snls_cpu_taps(taps, &c->source, q->b, n->frame, q->head * c->channels, n->y + (double)(a->dilation * (r - a->ps / 2)),
                         n->x + (double)(a->dilation * (s - a->ps / 2)), a->height, a->width, a->drop);
}

static inline float *snls_cpu_destination(const CpuAggregate *c, const CpuQuery *q, int64_t k, int64_t y, int64_t x)
{
    const int64_t *step = c->destination.step;
    if (c->stack) return c->destination.data + q->b * step[0] + q->head * step[1] + k * step[2] + q->t * step[3] + y * step[4] + x * step[5];
    return snls_cpu_pixel(&c->destination, q->b, q->t, y, x) + q->head * c->channels;
}

/* Floats between destination pixels along y and x, and between neighbours. */
static inline int64_t snls_cpu_step_y(const CpuAggregate *c) { return c->destination.step[c->stack ? 4 : 2]; }
static inline int64_t snls_cpu_step_x(const CpuAggregate *c) { return c->destination.step[c->stack ? 5 : 3]; }
static inline int64_t snls_cpu_step_k(const CpuAggregate *c) { return c->stack ? c->destination.step[2] : 0; }

static inline SnlsGrid snls_cpu_grid(const CpuAggregate *c, int shape)
{
    return (SnlsGrid){.right = c->source.step[3], .down = c->source.step[2], .n = c->channels, .shape = shape};
}

/* True when one factor holds for the whole patch of a query: (1 / *divisor). */
bool snls_cpu_even(const CpuAggregate *c, const CpuQuery *q, float *divisor);

/* Rows of a frame in one unit of work: enough units to share among threads. Sums do not depend on it. */
int64_t snls_cpu_band(const SnlsContext *ctx, int64_t planes, int64_t height);

/* ---- the loops ---- */

/* Where the neighbours of a row of queries (all heads) may write: for scatter, which looks for them. */
typedef struct CpuReach {
    int64_t first_frame, last_frame, first_row, last_row;
    bool plain; /* all neighbours are at whole frames and at rows inside them; else all may be reached */
} CpuReach;

/* destination += weight * source / divisor; one owner per destination row */
void snls_cpu_gather_rows(SnlsContext *ctx, const CpuAggregate *c);
/* source += weight * destination / divisor; one owner per band of source rows. reach: one for each (b, t, row of queries) */
void snls_cpu_reach(SnlsContext *ctx, const CpuAggregate *c, CpuReach *reach);
void snls_cpu_scatter_bands(SnlsContext *ctx, const CpuAggregate *c, const CpuReach *reach);
/* gradients of weight and offset, added; one owner per query. Either may have no data. */
void snls_cpu_pull_weights(SnlsContext *ctx, const CpuAggregate *c, const SnlsTensor *weight, const SnlsTensor *offset);

#endif
