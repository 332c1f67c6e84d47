/* aggregate.h: gather, gather_add and scatter_add of the cpu backend, built from three loops: gather.c reads sources into
 * destinations, scatter.c pushes destinations to sources, pull.c has the gradients of weights and offsets.
 * A neighbour whose whole patch lies inside its frame (almost all do) is one place, computed once: pixels of its patch are
 * steps from there, with the same four weights. The others go pixel by pixel, reflected or dropped. */
#ifndef SNLS_CPU_AGGREGATE_H
#define SNLS_CPU_AGGREGATE_H

#include "cpu/threads.h"
#include "cpu/video.h"
#include "op/aggregate.h"

enum { CPU_SHAPES = 4, CPU_OUTSIDE = 4, CPU_LISTS = 5 }; /* one list for each shape of SnlsGrid, one for neighbours not inside */

/* The two sides of the ties between query patches and neighbours. channels: floats of one pixel of one head. */
typedef struct CpuAggregate {
    SnlsAggregate a;
    CpuVideo source;      /* video (b,t,y,x): what the neighbours' places are read from or written to */
    CpuVideo destination; /* video, or stack (b,head,k,t,y,x): what lies under the query patches; no data: all ones */
    bool stack;           /* destination is a stack */
    bool divide;          /* by the number of query patches over a destination pixel */
    bool overwrite;       /* gather: the destination is not added to */
    bool set;             /* ... and each of its pixels has one query, which writes it */
    int64_t channels;
    const SnlsDsp *dsp;
    char *space;          /* CpuSpace's arrays, for each thread */
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

/* A row or column of a patch that is reflected pixel by pixel. */
typedef struct CpuAxis {
    SnlsTaps taps;
    double slope;
    bool dropped;
} CpuAxis;

/* What one thread works in: arrays for all neighbours of a few queries next to each other in a row. */
typedef struct CpuSpace {
    int64_t queries;               /* so many at once */
    SnlsPlaces all, sorted[CPU_LISTS];
    unsigned char *shape;
    float *x;                      /* columns from the first query */
    float *offset, *weight, *sums; /* 3, 1 and 4 a neighbour */
    float *pulled[3];              /* what these sums make for its weight, and along y and x */
    CpuAxis *axis_y, *axis_x;      /* one a row and a column of a patch */
    const float **bent_row;        /* rows and columns of one that crosses a border */
    ptrdiff_t *bent_column;
    int64_t *bent_number;          /* of these rows */
    bool even;                     /* all have one shape; all and shape are of the queries from `first` on */
    int64_t first;
} CpuSpace;

/* The neighbours of a query by shape, those not inside last (of them k alone): from number start on. */
typedef struct CpuLists {
    const SnlsPlaces *of[CPU_LISTS];
    int64_t start[CPU_LISTS], count[CPU_LISTS];
} CpuLists;

int64_t snls_cpu_space_size(const SnlsAggregate *a); /* bytes for one thread */
CpuSpace snls_cpu_space(const CpuAggregate *c);  /* of this thread */

/* Frames and steps of a source; slopes: taps right and below must exist even where their weight is 0. */
SnlsSite snls_cpu_site(const CpuAggregate *c, bool slopes);
/* ... and the row of queries; base is the pixel that makes `at` the upper left one of the patch. */
void snls_cpu_site_query(SnlsSite *site, const CpuAggregate *c, const CpuQuery *q);

/* Places the neighbours of query q and some after it in its row, before column end; returns how many queries. weighted: weights are times the
 * neighbour's, else those along the axes (SnlsDsp.place). */
int64_t snls_cpu_places(CpuSpace *space, const CpuAggregate *c, SnlsSite *site, const CpuQuery *q, int64_t end, bool weighted);
/* Of these, the neighbours of query q. */
void snls_cpu_lists(CpuLists *lists, const CpuSpace *space, const CpuAggregate *c, const CpuQuery *q);

/* The end of the queries from q on, before `end`, whose neighbours all have one shape and whose patches do not reach beyond the sides of the frame. */
int64_t snls_cpu_end_of_run(const CpuAggregate *c, const CpuSpace *space, const CpuQuery *q, int64_t end);

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

/* Rows and columns of the patch around a neighbour that is not inside. */
void snls_cpu_axes(const CpuSpace *space, const CpuAggregate *c, const SnlsNeighbour *n);

/* The same where nothing is dropped and pixels do not lie apart: rows and columns of pixels that are read around a neighbour, one more than its patch has, each reflected on its own.
 * (Reflecting the pixels on both sides of a place is reflecting the place.) The upper, lower and left, right ones have the same weights all over the patch. */
typedef struct CpuBend { double y[2], x[2]; } CpuBend;
static inline bool snls_cpu_bends(const SnlsAggregate *a) { return a->dilation == 1 && !a->drop; }
CpuBend snls_cpu_bend(const CpuSpace *space, const CpuAggregate *c, const CpuQuery *q, const SnlsNeighbour *n);

/* ---- pixels ---- */

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

/* What a query sends: the patch of rows x run pixels around (y, x) of the destination, and its first pixel; ones where there is no destination (accumulated weights). */
static inline SnlsPatch snls_cpu_sent(const CpuAggregate *c, int64_t rows, int64_t run)
{
    if (!c->destination.data) return (SnlsPatch){0, 0, rows, run, 0};
    return (SnlsPatch){snls_cpu_step_x(c), snls_cpu_step_y(c), rows, run, snls_cpu_step_k(c)};
}

static inline const float *snls_cpu_sent_pixel(const CpuAggregate *c, const CpuQuery *q, int64_t k, int64_t y, int64_t x)
{
    static const float one = 1;
    return c->destination.data ? snls_cpu_destination(c, q, k, y, x) : &one;
}

static inline SnlsGrid snls_cpu_grid(const CpuAggregate *c, int shape)
{
    return (SnlsGrid){.right = c->source.step[3], .down = c->source.step[2], .n = c->channels, .shape = shape};
}

/* True when one factor holds for the whole patch of a query: (1 / *divisor). */
bool snls_cpu_even(const CpuAggregate *c, const CpuQuery *q, float *divisor);
/* ... for those of all queries from q on, before `end`, and they lie in the frame. */
bool snls_cpu_even_run(const CpuAggregate *c, const CpuQuery *q, int64_t end, float *divisor);

/* Rows of a frame in one unit of work: enough units to share among threads. Sums do not depend on it. */
int64_t snls_cpu_band(const SnlsContext *ctx, int64_t planes, int64_t height, int64_t most);

/* Columns of queries whose neighbours' surroundings, some rows of up to CPU_FRAMES frames, stay in the second-level cache from
 * row to row. They order the sums of pixels near their border, so they are the same for any number of threads. */
enum { CPU_FRAMES = 8, CPU_AROUND = 9 }; /* CPU_AROUND: rows that neighbours are looked for in */
int64_t snls_cpu_columns_at_once(const CpuAggregate *c);

/* ---- the loops ---- */

/* Rows that the neighbours of a row of queries (all heads) may write to: for scatter, which looks for them. */
typedef struct CpuReach {
    int64_t first, last;
    bool plain; /* nothing else is reached; else all rows may be, and more is not known */
} CpuReach;

/* destination += weight * source / divisor; one owner per destination row */
void snls_cpu_gather_rows(SnlsContext *ctx, const CpuAggregate *c);
/* source += weight * destination / divisor; one owner per band of source rows. reach: one for each (b, t, row of queries) */
void snls_cpu_reach(SnlsContext *ctx, const CpuAggregate *c, CpuReach *reach);
void snls_cpu_scatter_bands(SnlsContext *ctx, const CpuAggregate *c, const CpuReach *reach);
/* gradients of weight and offset, added; one owner per query. Either may have no data. */
void snls_cpu_pull_weights(SnlsContext *ctx, const CpuAggregate *c, const SnlsTensor *weight, const SnlsTensor *offset);

#endif
