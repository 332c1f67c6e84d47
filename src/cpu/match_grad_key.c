/* match_grad_key.c: d key. A band of rows of a key frame looks through the queries that may reach it, in their order, and
 * takes what falls in it. Looking is cheap: numbers of the frame's window are picked out of a row of queries first. */
#include "cpu/match_grad.h"
#include "cpu/threads.h"

/* A kept neighbour in the band's frame: query (j, head), place and number. */
typedef struct Hit {
    int64_t j, place;
    int32_t head, id;
} Hit;

enum { HITS = 512, PLACES = 64 }; /* hits of a list; places looked at before it is seen whether the list is full */

typedef struct Band {
    int64_t b, frame, first, end; /* rows [first, end) */
    int64_t low, count;           /* numbers of the frame's window; unused by refine */
    int64_t hits;
    Hit    *hit;
    float  *spare;
} Band;

int64_t snls_grad_key_spare(void) { return (int64_t)(HITS * sizeof(Hit) / sizeof(float)); }

static inline void spread_run(const CpuGrad *p, const Band *band, const CpuCorners *c, const float *q, float *const *to, const float *weight,
                              int taps, int64_t n)
{
    if (p->c.m.prod) {
        p->c.dsp->unblend(to, weight, taps, q, n);
        return;
    }
    p->c.dsp->blend_sub(band->spare, q, c->tap, c->weight, c->count, n);
    p->c.dsp->unblend(to, weight, taps, band->spare, n);
}

static inline void spread_pair(const CpuGrad *p, const CpuGradQuery *at, const CpuKept *kept, const CpuPair *pair, void *user)
{
    const SnlsMatch *m = &p->c.m;
    const Band *band = user;
    const int64_t joined = p->pixels > 1 ? pair->pixels : 1, channel = at->q.head * m->features;
    const float g = m->prod ? kept->g : 2 * kept->g;
    float *to[4], weight[4];
    int taps = 0;
    for (int a = 0; a < 2; a++) {
        if (pair->y.weight[a] == 0 || pair->y.at[a] < band->first || pair->y.at[a] >= band->end) continue;
        float *row = snls_cpu_pixel(&p->d_key, band->b, band->frame, pair->y.at[a], pair->x.at[0]) + channel;
        to[taps] = row;
        weight[taps++] = g * (float)(pair->y.weight[a] * pair->x.weight[0]);
        if (pair->x.weight[1] == 0) continue;
        to[taps] = row + (pair->x.at[1] - pair->x.at[0]) * p->d_key.step[3];
        weight[taps++] = g * (float)(pair->y.weight[a] * pair->x.weight[1]);
    }
    if (!taps) return;
    CpuCorners c = snls_grad_corners(p, at, band->frame, pair);
    const float *q = snls_cpu_pixel(&p->c.query, band->b, at->q.t, pair->query_y, pair->query_x) + channel;
    spread_run(p, band, &c, q, to, weight, taps, joined * m->features);
    for (int64_t i = joined; i < pair->pixels; i++) {
        snls_grad_advance(&c, m->dilation * p->c.key.step[3]);
        q += m->dilation * p->c.query.step[3];
        for (int k = 0; k < taps; k++) to[k] += m->dilation * p->d_key.step[3];
        spread_run(p, band, &c, q, to, weight, taps, m->features);
    }
}

static void take_hits(const CpuGrad *p, const CpuGradQuery *row, Band *band)
{
    const bool single = p->c.m.ps == 1;
    for (int64_t i = 0; i < band->hits; i++) {
        const Hit *hit = &band->hit[i];
        const CpuGradQuery at = snls_grad_query(p, row, hit->j, hit->head);
        CpuKept kept;
        if (!snls_grad_kept(p, &at, hit->id, &kept) || kept.frame != band->frame) continue;
        kept.g = snls_grad_dist(p, &at, hit->place);
        if (single) snls_grad_single(p, &at, &kept, spread_pair, band);
        else snls_grad_walk(p, &at, &kept, spread_pair, band);
    }
    band->hits = 0;
}

/* The list grows by one for every place, and is cut back by one where that was no hit: no branch to guess. */
static inline void look_at_places(const CpuGrad *p, const CpuGradQuery *at, int64_t first, int64_t end, Band *band)
{
    const bool refine = p->c.m.refine;
    int64_t hits = band->hits;
    for (int64_t place = first; place < end; place++) {
        const int32_t id = snls_grad_number(p, at, place);
        band->hit[hits] = (Hit){at->q.j, place, (int32_t)at->q.head, id};
        if (!refine) { hits += (uint64_t)((int64_t)id - band->low) < (uint64_t)band->count; continue; }
        if (id < 0) continue;
        const int64_t frame = snls_grad_frame(p, at, (uint32_t)id / p->cells);
        hits += frame == band->frame || frame < 0; /* below 0: the definition will tell */
    }
    band->hits = hits;
}

static void key_row(const CpuGrad *p, int64_t t, int64_t i, Band *band)
{
    const SnlsMatch *m = &p->c.m;
    const CpuGradQuery row = snls_grad_row(p, band->b, t, i);
    for (int64_t j = 0; j < m->columns; j++)
        for (int64_t head = 0; head < m->heads; head++) {
            const CpuGradQuery at = snls_grad_query(p, &row, j, head);
            for (int64_t first = 0; first < m->kept; first += PLACES) {
                if (band->hits > HITS - PLACES) take_hits(p, &row, band);
                look_at_places(p, &at, first, first + PLACES < m->kept ? first + PLACES : m->kept, band);
            }
        }
    take_hits(p, &row, band);
}

/* The slot in which queries of time t see the band's frame; false: none. */
static bool find_slot(const SnlsMatch *m, int64_t t, Band *band)
{
    for (int64_t slot = 0; slot < m->windows; slot++)
        if (snls_slot_frame(t, slot, m->wt, m->frames) == band->frame) {
            band->count = m->side * m->side;
            band->low = slot * band->count;
            return true;
        }
    return false;
}

static void key_band(const CpuGrad *p, Band *band)
{
    const SnlsMatch *m = &p->c.m;
    for (int64_t t = 0; t < m->frames; t++) {
        if (!m->refine && !find_slot(m, t, band)) continue;
        const CpuReach *reach = p->reach ? p->reach + (band->b * m->frames + t) * m->rows : NULL;
        for (int64_t i = 0; i < m->rows; i++) {
            if (reach && (reach[i].top >= band->end || reach[i].bottom < band->first || reach[i].first_frame > band->frame ||
                          reach[i].last_frame < band->frame))
                continue;
            key_row(p, t, i, band);
        }
    }
}

void snls_grad_keys(SnlsContext *ctx, const CpuGrad *p, int64_t bands)
{
    const SnlsMatch *m = &p->c.m;
    const int64_t units = m->batch * m->frames * bands;
#pragma omp parallel for num_threads(ctx->threads) schedule(dynamic, 1)
    for (int64_t u = 0; u < units; u++) {
        const int64_t band = u % bands, plane = u / bands;
        float *spare = p->spare + snls_cpu_thread() * p->spare_size;
        Band at = {.b = plane / m->frames, .frame = plane % m->frames, .first = band * m->height / bands, .end = (band + 1) * m->height / bands};
        at.hit = (Hit *)(void *)spare;
        at.spare = spare + snls_grad_key_spare();
        key_band(p, &at);
    }
}
