/* match_grad_query.c: d query, and d flow (or d centre). A band of rows of the query video takes from every patch that
 * covers it, in the order of the queries; the band where a query stands also has the gradient by its flow. */
#include "cpu/match_grad.h"
#include "cpu/threads.h"

typedef struct Band {
    int64_t first, end; /* rows */
    float  *spare;
    bool    own;        /* the query at hand stands in this band */
    bool    want_query;
    bool    want_place; /* of the neighbour at hand */
    double  by_y, by_x; /* dL/d position of the neighbour at hand */
} Band;

/* A sum over the taps for each slope, from the four products of the pull on the key with them */
static inline void add_place(Band *band, const CpuPair *pair, const float *along, float scale)
{
    double dy = 0, dx = 0;
    for (int i = 0; i < 2; i++) {
        if (pair->x.weight[i] != 0) dy += pair->x.weight[i] * ((double)along[2 + i] - along[i]);
        if (pair->y.weight[i] != 0) dx += pair->y.weight[i] * ((double)along[2 * i + 1] - along[2 * i]);
    }
    band->by_y += pair->slope_y * scale * dy;
    band->by_x += pair->slope_x * scale * dx;
}

/* n floats: dL/dk is g*q (prod) or 2g(k - q) (l2), dL/dq is g*k or 2g(q - k) */
static inline void pull_run(const CpuGrad *p, Band *band, const CpuPair *pair, const CpuCorners *c, const float *q, float *to, float g, int64_t n)
{
    const SnlsDsp *dsp = p->c.dsp;
    float along[4];
    if (p->c.m.prod) {
        if (to) {
            dsp->blend(band->spare, c->tap, c->weight, c->count, n);
            dsp->axpy(to, g, band->spare, n);
        }
        if (!band->want_place) return;
        dsp->dots(along, q, c->corner, n);
        add_place(band, pair, along, g);
        return;
    }
    dsp->blend_sub(band->spare, q, c->tap, c->weight, c->count, n);
    if (to) dsp->axpy(to, -2 * g, band->spare, n);
    if (!band->want_place) return;
    dsp->dots(along, band->spare, c->corner, n);
    add_place(band, pair, along, 2 * g);
}

static inline void pull_pair(const CpuGrad *p, const CpuGradQuery *at, const CpuKept *kept, const CpuPair *pair, void *user)
{
    const SnlsMatch *m = &p->c.m;
    Band *band = user;
    const bool here = band->want_query && pair->query_y >= band->first && pair->query_y < band->end;
    if (!here && !band->want_place) return;
    const int64_t joined = p->pixels > 1 ? pair->pixels : 1, channel = at->q.head * m->features;
    CpuCorners c = snls_grad_corners(p, at, kept->frame, pair);
    const float *q = snls_cpu_pixel(&p->c.query, at->q.b, at->q.t, pair->query_y, pair->query_x) + channel;
    float *to = here ? snls_cpu_pixel(&p->d_query, at->q.b, at->q.t, pair->query_y, pair->query_x) + channel : NULL;
    pull_run(p, band, pair, &c, q, to, kept->g, joined * m->features);
    for (int64_t i = joined; i < pair->pixels; i++) {
        snls_grad_advance(&c, m->dilation * p->c.key.step[3]);
        q += m->dilation * p->c.query.step[3];
        if (to) to += m->dilation * p->d_query.step[3];
        pull_run(p, band, pair, &c, q, to, kept->g, m->features);
    }
}

static void add_centre(const CpuGrad *p, const CpuGradQuery *at, int64_t place, const CpuKept *kept, Band *band)
{
    SnlsMatch const *m = &p->c.m;
    const SnlsTensor *seeds = &p->g.offset, *sums = &p->g.centre;
    const SnlsQuery *q = &at->q;
    if (seeds->data) {
        const float *seed = (const float *)seeds->data + snls_at6(seeds, q->b, q->head, q->t, q->i, q->j, place);
        band->by_y += seed[seeds->stride[6]];
        band->by_x += seed[2 * seeds->stride[6]];
    }
    const int64_t slot = kept->window - (m->windows - m->flow_slots), step = sums->stride[sums->ndim - 1];
    float *to = (float *)sums->data;
    if (m->refine) to += snls_at6(sums, q->b, q->head, q->t, q->i, q->j, kept->window) + step; /* past dt */
    else if (sums->ndim == 7) to += snls_at6(sums, q->b, q->head, q->t, slot, q->i, q->j);
    else to += snls_at5(sums, q->b, q->t, slot, q->i, q->j);
    to[m->refine ? 0 : step] += (float)(kept->slope_y * band->by_y); /* offsets are (dt,dy,dx), flow is (x,y) */
    to[m->refine ? step : 0] += (float)(kept->slope_x * band->by_x);
}

static inline void extend(const SnlsMatch *m, const CpuKept *kept, CpuReach *reach)
{
    const int64_t row = snls_floor_inside(kept->y), half = m->ps / 2;
    int64_t top = row - m->dilation * half, bottom = row + m->dilation * (m->ps - 1 - half) + (kept->y > (double)row);
    snls_grad_fold(m->height, &top, &bottom);
    if (top < reach->top) reach->top = top;
    if (bottom > reach->bottom) reach->bottom = bottom;
    if (kept->frame < reach->first_frame) reach->first_frame = kept->frame;
    if (kept->frame > reach->last_frame) reach->last_frame = kept->frame;
}

static inline void query(const CpuGrad *p, const CpuGradQuery *at, Band *band, CpuReach *reach)
{
    const SnlsMatch *m = &p->c.m;
    for (int64_t place = 0; place < m->kept; place++) {
        CpuKept kept;
        const int32_t id = snls_grad_number(p, at, place);
        if (id < 0 || !snls_grad_kept(p, at, id, &kept)) continue;
        if (p->reach) extend(m, &kept, reach);
        kept.g = snls_grad_dist(p, at, place);
        const bool want_centre = p->g.centre.data && band->own && snls_match_has_centre(m, kept.window);
        band->want_place = want_centre && p->g.dist.data;
        band->by_y = band->by_x = 0;
        if (!band->want_query && !want_centre) continue;
        if (m->ps == 1) snls_grad_single(p, at, &kept, pull_pair, band);
        else snls_grad_walk(p, at, &kept, pull_pair, band);
        if (want_centre) add_centre(p, at, place, &kept, band);
    }
}

static void query_row(const CpuGrad *p, int64_t b, int64_t t, int64_t i, Band *band)
{
    const SnlsMatch *m = &p->c.m;
    const CpuGradQuery row = snls_grad_row(p, b, t, i);
    CpuReach reach = {m->height, -1, m->frames, -1};
    for (int64_t j = 0; j < m->columns; j++)
        for (int64_t head = 0; head < m->heads; head++) { /* heads may share a flow: one owner takes all */
            const CpuGradQuery at = snls_grad_query(p, &row, j, head);
            query(p, &at, band, &reach);
        }
    if (p->reach && band->own) p->reach[(b * m->frames + t) * m->rows + i] = reach;
}

static void query_band(const CpuGrad *p, int64_t b, int64_t t, Band *band)
{
    const SnlsMatch *m = &p->c.m;
    for (int64_t i = 0; i < m->rows; i++) {
        const int64_t y = i * m->stride0, half = m->ps / 2;
        int64_t top = y - m->dilation * half, bottom = y + m->dilation * (m->ps - 1 - half);
        snls_grad_fold(m->height, &top, &bottom);
        band->own = y >= band->first && y < band->end;
        if (band->own || (band->want_query && top < band->end && bottom >= band->first)) query_row(p, b, t, i, band);
    }
}

void snls_grad_queries(SnlsContext *ctx, const CpuGrad *p, int64_t bands)
{
    const SnlsMatch *m = &p->c.m;
    const int64_t units = m->batch * m->frames * bands;
#pragma omp parallel for num_threads(ctx->threads) schedule(dynamic, 1)
    for (int64_t u = 0; u < units; u++) {
        const int64_t band = u % bands, plane = u / bands;
        Band at = {.first = band * m->height / bands, .end = (band + 1) * m->height / bands};
        at.spare = p->spare + snls_cpu_thread() * p->spare_size;
        at.want_query = p->d_query.data && p->g.dist.data;
        query_band(p, plane / m->frames, plane % m->frames, &at);
    }
}
