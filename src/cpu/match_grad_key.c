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
    CpuGradBand at;
    int64_t frame;                /* of the key */
    int64_t left, right;          /* columns of the row of queries */
    int64_t low, count;           /* numbers of the frame's window; unused by refine */
    int64_t hits;
    Hit     *hit;
    CpuKept *list;
} Band;

#define LIST_FLOATS (SNLS_GRAD_LIST * sizeof(CpuKept) / sizeof(float))
#define HIT_FLOATS (HITS * sizeof(Hit) / sizeof(float))

int64_t snls_grad_spare(void) { return (int64_t)(LIST_FLOATS + HIT_FLOATS); }

static inline void spread_run(const CpuGrad *p, const CpuGradBand *band, const CpuPair *pair, float *frame, const float *q, float *to, float g, int64_t n)
{
    const SnlsDsp *dsp = p->c.dsp;
    float *tap[4], weight[4];
    if (!p->c.m.prod) {
        const int taps = snls_grad_taps(pair, frame, p->c.key.step, 0, INT64_MAX, 1, tap, weight);
        dsp->blend_sub(band->spare, q, (const float *const *)tap, weight, taps, n);
        q = band->spare;
    }
    dsp->unblend(tap, weight, snls_grad_taps(pair, to, p->d_key.step, band->first, band->end, g, tap, weight), q, n);
}

static inline void spread_pair(const CpuGrad *p, const CpuKept *kept, const CpuPair *pair, void *user)
{
    const SnlsMatch *m = &p->c.m;
    const CpuGradBand *band = user;
    bool here = false;
    for (int a = 0; a < 2; a++) here |= pair->y.weight[a] != 0 && pair->y.at[a] >= band->first && pair->y.at[a] < band->end;
    if (!here) return;
    const int64_t joined = p->pixels > 1 ? pair->pixels : 1, channel = kept->head * m->features;
    const float g = m->prod ? kept->g : 2 * kept->g, *q = snls_cpu_pixel(&p->c.query, band->b, band->t, pair->query_y, pair->query_x) + channel;
    float *frame = snls_cpu_pixel(&p->c.key, band->b, kept->frame, 0, 0) + channel;
    float *to = snls_cpu_pixel(&p->d_key, band->b, kept->frame, 0, 0) + channel;
    spread_run(p, band, pair, frame, q, to, g, joined * m->features);
    for (int64_t i = joined; i < pair->pixels; i++) {
        frame += m->dilation * p->c.key.step[3];
        to += m->dilation * p->d_key.step[3];
        q += m->dilation * p->c.query.step[3];
        spread_run(p, band, pair, frame, q, to, g, m->features);
    }
}

/* Rows of the patch that spread into the band. */
static void cut_patch(const CpuGradBand *band, CpuInside *in)
{
    const int64_t above = band->first - in->key_y - (in->grid.shape >> 1), first = above > 0 ? above : 0, below = band->end - in->key_y;
    in->patch.rows = (below < in->patch.rows ? below : in->patch.rows) - first;
    in->pair.at += first * in->grid.down, in->pair.q += first * in->patch.down;
    in->key_y += first, in->query_y += first;
}

/* A whole patch: the pull on each of its pixels, unless that is made, spread over the taps in the band. */
static void spread_inside(const CpuGrad *p, const CpuGradBand *band, const CpuKept *kept, CpuInside *in)
{
    const SnlsMatch *m = &p->c.m;
    if (!snls_grad_spreads(p, band, in)) return;
    const SnlsGrid to = {p->d_key.step[3], p->d_key.step[2], m->features, in->grid.shape};
    float w[4];
    snls_grad_weights(p, kept, in, w);
    if (!m->prod && !in->pair.out) {
        cut_patch(band, in);
        in->pair.out = snls_grad_pull_at(p, band, in);
        p->c.dsp->pull_patch(NULL, NULL, 0, &in->pair, &in->patch, &in->grid);
    }
    SnlsPatch patch = in->patch;
    if (!m->prod) patch.right = m->features, patch.down = in->pair.out_down;
    float *at = snls_cpu_pixel(&p->d_key, band->b, kept->frame, in->key_y, in->key_x) + kept->head * m->features;
    p->c.dsp->spread_patch(at, w, m->prod ? in->pair.q : in->pair.out, &patch, band->first - in->key_y, band->end - in->key_y, &to);
}

void snls_grad_spread(const CpuGrad *p, const CpuGradBand *band, const CpuKept *kept, CpuInside *in)
{
    if (in) spread_inside(p, band, kept, in);
    else snls_grad_walk(p, band->i, kept, spread_pair, (void *)(uintptr_t)band);
}

static void take_singles(const CpuGrad *p, const Band *band, int64_t n)
{
    const CpuGradSingles singles = snls_grad_singles(p, &band->at, false, true);
    SnlsPixel pixel;
    for (const CpuKept *kept = band->list; kept < band->list + n; kept++) {
        snls_grad_single(&singles, kept, &pixel);
        if (pixel.out) p->c.dsp->pull_pixel(NULL, &pixel);
    }
}

static void take_patches(const CpuGrad *p, const Band *band, int64_t n)
{
    CpuInside in;
    CpuLaid laid;
    for (const CpuKept *kept = band->list; kept < band->list + n; kept++) {
        const bool inside = snls_grad_inside(p, band->at.b, band->at.t, band->at.i, kept, &in);
        if (!inside && !snls_grad_key_touches(&p->c.m, &band->at, kept)) continue;
        if (!inside && snls_grad_lay(p, &band->at, kept, &laid)) snls_grad_edge(p, &band->at, kept, &laid, NULL, false, true);
        else snls_grad_spread(p, &band->at, kept, inside ? &in : NULL);
    }
}

static void take_list(const CpuGrad *p, const Band *band, int64_t n)
{
    if (p->c.m.ps == 1) take_singles(p, band, n);
    else take_patches(p, band, n);
}

static void take_hits(const CpuGrad *p, const CpuGradQuery *row, Band *band)
{
    const SnlsMatch *m = &p->c.m;
    int64_t n = 0;
    for (const Hit *hit = band->hit; hit < band->hit + band->hits; hit++) {
        const CpuGradQuery at = snls_grad_query(p, row, hit->j, hit->head);
        CpuKept *kept = &band->list[n];
        if (!snls_grad_kept(p, &at, hit->id, kept) || kept->frame != band->frame) continue;
        kept->g = snls_grad_dist(p, &at, hit->place);
        if (m->ps == 1) {
            if (!m->prod) snls_grad_prefetch(&p->c.key, band->at.b, kept, m->features);
            snls_grad_prefetch(&p->d_key, band->at.b, kept, m->features);
        }
        if (++n < SNLS_GRAD_LIST) continue;
        take_list(p, band, n);
        n = 0;
    }
    take_list(p, band, n);
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

static void key_row(const CpuGrad *p, Band *band)
{
    const SnlsMatch *m = &p->c.m;
    const CpuGradQuery row = snls_grad_row(p, band->at.b, band->at.t, band->at.i);
    for (int64_t j = band->left; j < band->right; j++)
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
static bool find_slot(const SnlsMatch *m, Band *band)
{
    const int64_t turned = snls_slot_frame(band->at.t, m->windows, m->wt, m->frames) + m->windows; /* slot s there: turned - s */
    const int64_t slot = band->frame >= band->at.t ? band->frame - band->at.t : turned - band->frame;
    if (slot < 0 || slot >= m->windows || snls_slot_frame(band->at.t, slot, m->wt, m->frames) != band->frame) return false;
    band->count = m->side * m->side;
    band->low = slot * band->count;
    return true;
}

static bool touches(const CpuReach *r, const Band *band)
{
    return r->top < band->at.end && r->bottom >= band->at.first && r->first_frame <= band->frame && r->last_frame >= band->frame;
}

/* A row of queries at a time, if it may reach the band. */
static void key_time(const CpuGrad *p, Band *band, int64_t t, int64_t i)
{
    const SnlsMatch *m = &p->c.m;
    const CpuReach *reach = p->reach ? &p->reach[(band->at.b * m->frames + t) * m->rows + i] : NULL;
    band->at.t = t;
    band->at.i = i;
    if ((!reach || touches(reach, band)) && (m->refine || find_slot(m, band))) key_row(p, band);
}

/* Single pixels: times inside rows, so that what the queries of one row at all times reach is still at hand. Patches: times outside, as where both
 * gradients are summed in one pass. */
static void key_band(const CpuGrad *p, Band *band)
{
    const SnlsMatch *m = &p->c.m;
    const int64_t far = m->refine ? m->frames : 2 * m->wt, columns = m->columns;
    const int64_t begin = band->frame > far ? band->frame - far : 0, end = band->frame + far < m->frames ? band->frame + far + 1 : m->frames;
    const int64_t times = p->inside ? 1 : end - begin;
    for (int64_t from = begin; from < end; from += times)
        for (band->left = 0; band->left < columns; band->left = band->right) {
            band->right = band->left + p->tile < columns ? band->left + p->tile : columns;
            for (int64_t i = 0; i < m->rows; i++)
                for (int64_t t = from; t < from + times; t++) key_time(p, band, t, i);
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
        Band at = {.frame = plane % m->frames};
        at.at = (CpuGradBand){.b = plane / m->frames, .first = band * m->height / bands, .end = (band + 1) * m->height / bands, .spare = spare + snls_grad_spare()};
        at.list = (CpuKept *)(void *)spare;
        at.hit = (Hit *)(void *)(spare + LIST_FLOATS);
        key_band(p, &at);
    }
}
