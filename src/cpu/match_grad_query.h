/* match_grad_query.h: what the pass of the queries shares with its lists of single pixels (match_grad_single.c). */
#ifndef SNLS_CPU_MATCH_GRAD_QUERY_H
#define SNLS_CPU_MATCH_GRAD_QUERY_H

#include "cpu/match_grad.h"

/* A band of rows of the query video at work on a row of queries. */
typedef struct CpuQueryBand {
    CpuGradBand at;        /* rows of the video */
    int64_t left, right;   /* columns of the row of queries */
    CpuKept *list;
    bool    own;           /* the query at hand stands in this band */
    bool    want_query, want_key;
    bool    want_any;      /* else only reaches are looked for */
    bool    want_reach;
    bool    want_place;    /* of the neighbour at hand */
    double  by_y, by_x;    /* dL/d position of the neighbour at hand */
} CpuQueryBand;

/* Where the gradients of a row of queries by their centres begin, and seeds of the offsets: of column and head 0, the first place and window. */
typedef struct CpuCentres {
    float *sums;
    const float *seeds;  /* NULL: none */
    int64_t first;       /* window with a centre */
} CpuCentres;

static inline CpuCentres snls_grad_centres(const CpuGrad *p, const CpuGradBand *at)
{
    const SnlsMatch *m = &p->c.m;
    const SnlsTensor *seeds = &p->g.offset, *sums = &p->g.centre;
    CpuCentres c = {sums->data, seeds->data ? (const float *)seeds->data + snls_at6(seeds, at->b, 0, at->t, at->i, 0, 0) : NULL, m->refine ? 0 : m->windows - m->flow_slots};
    if (!c.sums) return c;
    if (m->refine) c.sums += snls_at6(sums, at->b, 0, at->t, at->i, 0, 0) + sums->stride[sums->ndim - 1]; /* past dt */
    else if (sums->ndim == 7) c.sums += snls_at6(sums, at->b, 0, at->t, 0, at->i, 0);
    else c.sums += snls_at5(sums, at->b, at->t, 0, at->i, 0);
    return c;
}

static inline void snls_grad_add_centre(const CpuGrad *p, const CpuCentres *c, const CpuKept *kept, double by_y, double by_x)
{
    const SnlsTensor *seeds = &p->g.offset, *sums = &p->g.centre;
    const int64_t step = sums->stride[sums->ndim - 1], at_y = p->c.m.refine ? 0 : step, at_x = step - at_y; /* offsets are (dt,dy,dx), flow is (x,y) */
    if (c->seeds) {
        const float *seed = c->seeds + kept->head * seeds->stride[1] + kept->j * seeds->stride[4] + kept->place * seeds->stride[5];
        by_y += seed[seeds->stride[6]];
        by_x += seed[2 * seeds->stride[6]];
    }
    float *to = c->sums + kept->head * p->sums_head + kept->j * p->sums_column + (kept->window - c->first) * p->sums_window;
    to[at_y] += (float)(kept->slope_y * by_y);
    to[at_x] += (float)(kept->slope_x * by_x);
}

/* match_grad_single.c: a row of queries of a search by single pixels; whether it is one that this can do. */
bool snls_grad_settles(const CpuGrad *p, const CpuQueryBand *band);
void snls_grad_single_row(const CpuGrad *p, const CpuQueryBand *band);

#endif
