/* match_grad_query.c: d query, and d flow (or d centre). A band of rows of the query video takes from every patch that
 * covers it, in the order of the queries; the band where a query stands also has the gradient by its flow. */
#include "cpu/match_grad_query.h"
#include "cpu/threads.h"
#include <math.h>

/* Slopes of the key along y and x, times the pull on it: from the products of the pull with the four corners */
static inline void add_place(CpuQueryBand *band, const double wy[2], const double wx[2], const float *along, double scale_y, double scale_x)
{
    double dy = 0, dx = 0;
    for (int i = 0; i < 2; i++) {
        if (wx[i] != 0) dy += wx[i] * ((double)along[2 + i] - along[i]);
        if (wy[i] != 0) dx += wy[i] * ((double)along[2 * i + 1] - along[2 * i]);
    }
    band->by_y += scale_y * dy;
    band->by_x += scale_x * dx;
}

/* Corners that only a slope needs are read too, the one that neither needs is not. */
static inline void pull_place(const CpuGrad *p, CpuQueryBand *band, const CpuPair *pair, const float *frame, const float *pull, float scale, int64_t n)
{
    const int64_t *step = p->c.key.step, right = (pair->x.at[1] - pair->x.at[0]) * step[3], down = (pair->y.at[1] - pair->y.at[0]) * step[2];
    const float *first = frame + pair->y.at[0] * step[2] + pair->x.at[0] * step[3];
    const bool last = pair->y.weight[1] != 0 || pair->x.weight[1] != 0;
    const float *const corner[4] = {first, first + right, first + down, last ? first + down + right : first};
    float along[4];
    p->c.dsp->dots(along, pull, corner, n);
    add_place(band, pair->y.weight, pair->x.weight, along, pair->slope_y * scale, pair->slope_x * scale);
}

/* n floats: dL/dk is g*q (prod) or 2g(k - q) (l2), dL/dq is g*k or 2g(q - k). frame: of the key, moved on with the pixel */
static inline void pull_run(const CpuGrad *p, CpuQueryBand *band, const CpuPair *pair, float *frame, const float *q, float *to, float g, int64_t n)
{
    const SnlsDsp *dsp = p->c.dsp;
    float *tap[4], weight[4];
    if (p->c.m.prod) {
        if (to) {
            const int taps = snls_grad_taps(pair, frame, p->c.key.step, 0, INT64_MAX, 1, tap, weight);
            dsp->blend(band->at.spare, (const float *const *)tap, weight, taps, n);
            dsp->axpy(to, g, band->at.spare, n);
        }
        if (band->want_place) pull_place(p, band, pair, frame, q, g, n);
        return;
    }
    const int taps = snls_grad_taps(pair, frame, p->c.key.step, 0, INT64_MAX, 1, tap, weight);
    dsp->blend_sub(band->at.spare, q, (const float *const *)tap, weight, taps, n);
    if (to) dsp->axpy(to, -2 * g, band->at.spare, n);
    if (band->want_place) pull_place(p, band, pair, frame, band->at.spare, 2 * g, n);
}

static inline void pull_pair(const CpuGrad *p, const CpuKept *kept, const CpuPair *pair, void *user)
{
    const SnlsMatch *m = &p->c.m;
    CpuQueryBand *band = user;
    const bool here = band->want_query && pair->query_y >= band->at.first && pair->query_y < band->at.end;
    if (!here && !band->want_place) return;
    const int64_t joined = p->pixels > 1 ? pair->pixels : 1, channel = kept->head * m->features;
    float *frame = snls_cpu_pixel(&p->c.key, band->at.b, kept->frame, 0, 0) + channel;
    const float *q = snls_cpu_pixel(&p->c.query, band->at.b, band->at.t, pair->query_y, pair->query_x) + channel;
    float *to = here ? snls_cpu_pixel(&p->d_query, band->at.b, band->at.t, pair->query_y, pair->query_x) + channel : NULL;
    pull_run(p, band, pair, frame, q, to, kept->g, joined * m->features);
    for (int64_t i = joined; i < pair->pixels; i++) {
        frame += m->dilation * p->c.key.step[3];
        q += m->dilation * p->c.query.step[3];
        if (to) to += m->dilation * p->d_query.step[3];
        pull_run(p, band, pair, frame, q, to, kept->g, m->features);
    }
}

/* dL/d place from the sums along the taps. */
static void add_along(const CpuGrad *p, CpuQueryBand *band, const CpuKept *kept, const CpuInside *in, const float along[4])
{
    const double scale = p->c.m.prod ? kept->g : 2 * (double)kept->g;
    if (band->want_place) add_place(band, in->along_y, in->along_x, along, scale, scale);
}

/* All gradients of a whole patch that the band owns whole; false: not in one go. */
static bool draw_inside(const CpuGrad *p, const CpuQueryBand *band, const CpuKept *kept, const CpuInside *in, float *along, float *to, float g)
{
    const SnlsMatch *m = &p->c.m;
    const SnlsGrid grid = {p->d_key.step[3], p->d_key.step[2], m->features, in->grid.shape};
    float w[4];
    if (in->key_y < band->at.first || in->key_y + m->ps + (in->grid.shape >> 1) > band->at.end) return false;
    snls_grad_weights(p, kept, in, w);
    float *key = snls_cpu_pixel(&p->d_key, band->at.b, kept->frame, in->key_y, in->key_x) + kept->head * m->features;
    return p->c.dsp->draw_patch(along, to, g, &in->pair, &in->patch, &in->grid, key, w, &grid);
}

/* A whole patch: all rows for the place, those in the band for the query, and what it pulls at the key. The sums for the place are made in one call
 * whatever the band is, so that they do not depend on it. */
static void pull_inside(const CpuGrad *p, CpuQueryBand *band, const CpuKept *kept, CpuInside *in)
{
    const SnlsMatch *m = &p->c.m;
    const SnlsDsp *dsp = p->c.dsp;
    const int64_t first = in->query_y < band->at.first ? band->at.first - in->query_y : 0, end = in->query_y + m->ps > band->at.end ? band->at.end - in->query_y : m->ps;
    const float g = m->prod ? kept->g : -2 * kept->g;
    float sums[4], *along = band->want_place ? sums : NULL;
    float *to = band->want_query && end > first ? snls_cpu_pixel(&p->d_query, band->at.b, band->at.t, in->query_y, in->query_x) + kept->head * m->features : NULL;
    const bool whole = end - first == m->ps, key = band->want_key && snls_grad_spreads(p, &band->at, in);
    if (to && whole && key && draw_inside(p, band, kept, in, along, to, g)) {
        add_along(p, band, kept, in, sums);
        return;
    }
    if (along || (to && whole)) {
        in->pair.out = key && !m->prod ? snls_grad_pull_at(p, &band->at, in) : NULL;
        dsp->pull_patch(along, whole ? to : NULL, g, &in->pair, &in->patch, &in->grid);
        add_along(p, band, kept, in, sums);
    }
    if (to && !whole) {
        SnlsPair pair = in->pair;
        SnlsPatch patch = in->patch;
        pair.at += first * in->grid.down, pair.q += first * patch.down;
        pair.out = NULL;
        patch.rows = end - first;
        dsp->pull_patch(NULL, to + first * patch.down, g, &pair, &patch, &in->grid);
    }
    if (key) snls_grad_spread(p, &band->at, kept, in);
}

/* One that crosses the border. query, key: rows of either are the band's. */
static void pull_edge(const CpuGrad *p, CpuQueryBand *band, const CpuKept *kept, CpuLaid *laid, bool query, bool key)
{
    float along[4];
    snls_grad_edge(p, &band->at, kept, laid, band->want_place ? along : NULL, query, key);
    add_along(p, band, kept, &laid->in, along);
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

static void pull_patch(const CpuGrad *p, CpuQueryBand *band, const CpuKept *kept)
{
    CpuInside in;
    CpuLaid laid;
    if (snls_grad_inside(p, band->at.b, band->at.t, band->at.i, kept, &in)) {
        pull_inside(p, band, kept, &in);
        return;
    }
    const bool query = band->want_query && snls_grad_query_touches(&p->c.m, &band->at), key = band->want_key && snls_grad_key_touches(&p->c.m, &band->at, kept);
    if (!query && !key && !band->want_place) return;
    if (snls_grad_lay(p, &band->at, kept, &laid)) {
        pull_edge(p, band, kept, &laid, query, key);
    } else {
        snls_grad_walk(p, band->at.i, kept, pull_pair, band);
        if (band->want_key) snls_grad_spread(p, &band->at, kept, NULL);
    }
}

static void take_patches(const CpuGrad *p, CpuQueryBand *band, int64_t n)
{
    const CpuCentres centres = snls_grad_centres(p, &band->at);
    for (const CpuKept *kept = band->list; kept < band->list + n; kept++) {
        const bool want_centre = centres.sums && band->own && snls_match_has_centre(&p->c.m, kept->window);
        band->want_place = want_centre && p->g.dist.data;
        band->by_y = band->by_x = 0;
        pull_patch(p, band, kept);
        if (want_centre) snls_grad_add_centre(p, &centres, kept, band->by_y, band->by_x);
    }
}

/* ---- single pixels: addresses and weights of a list, then what they pull at, then their centres. Loops of their own, so that none waits for another. ---- */

/* dL/d place from the products of the pull with the four taps; what a weight of 0 belongs to was perhaps no number. */
static inline double slope_of(double near, double far, const float *along, int across, int next)
{
    const double first = near != 0 ? near * ((double)along[next] - along[0]) : 0, last = far != 0 ? far * ((double)along[next + across] - along[across]) : 0;
    return first + last;
}

static void add_single_centres(const CpuGrad *p, const CpuQueryBand *band, float (*along)[4], int64_t n)
{
    const SnlsMatch *m = &p->c.m;
    const CpuCentres centres = snls_grad_centres(p, &band->at);
    const double twice = m->prod ? 1 : 2, tall = m->height > 1, wide = m->width > 1;
    if (!centres.sums || !band->own) return;
    for (int64_t i = 0; i < n; i++) {
        const CpuKept *kept = &band->list[i];
        const double fy = kept->y - (double)(int64_t)kept->y, fx = kept->x - (double)(int64_t)kept->x, scale = twice * (double)kept->g;
        if (!snls_match_has_centre(m, kept->window)) continue;
        const double by_y = p->g.dist.data ? tall * scale * slope_of(1 - fx, fx, along[i], 1, 2) : 0, by_x = p->g.dist.data ? wide * scale * slope_of(1 - fy, fy, along[i], 2, 1) : 0;
        snls_grad_add_centre(p, &centres, kept, by_y, by_x);
    }
}

static void take_singles(const CpuGrad *p, CpuQueryBand *band, int64_t n)
{
    SnlsPixel pixel[SNLS_GRAD_LIST];
    float along[SNLS_GRAD_LIST][4];
    const SnlsMatch *m = &p->c.m;
    const CpuGradSingles singles = snls_grad_singles(p, &band->at, band->want_query && band->own, band->want_key);
    const bool want_place = p->g.centre.data && band->own && p->g.dist.data;
    for (int64_t i = 0; i < n; i++) snls_grad_single(&singles, &band->list[i], &pixel[i]);
    for (int64_t i = 0; i < n; i++) {
        const bool place = want_place && snls_match_has_centre(m, band->list[i].window);
        if (pixel[i].to || pixel[i].out || place) p->c.dsp->pull_pixel(place ? along[i] : NULL, &pixel[i]);
    }
    add_single_centres(p, band, along, n);
}

static void take_list(const CpuGrad *p, CpuQueryBand *band, int64_t n)
{
    if (p->c.m.ps == 1) take_singles(p, band, n);
    else take_patches(p, band, n);
}

/* Whether a neighbour of one pixel lies in rows of the band. */
static inline bool touches(const CpuQueryBand *band, const CpuKept *kept)
{
    return kept->y < (double)band->at.end && kept->y > (double)(band->at.first - 1);
}

/* The neighbours of one query to the list; returns how many it then holds. */
static inline int64_t find(const CpuGrad *p, const CpuGradQuery *at, CpuQueryBand *band, int64_t n, CpuReach *reach)
{
    const SnlsMatch *m = &p->c.m;
    for (int64_t place = 0; place < m->kept; place++) {
        CpuKept *kept = &band->list[n];
        const int32_t id = snls_grad_number(p, at, place);
        if (id < 0 || !snls_grad_kept(p, at, id, kept)) continue;
        if (band->want_reach) extend(m, kept, reach);
        if (!band->want_any || (m->ps == 1 && !band->own && !touches(band, kept))) continue;
        kept->place = place;
        kept->g = snls_grad_dist(p, at, place);
        if (m->ps == 1) snls_grad_prefetch(&p->c.key, band->at.b, kept, m->features);
        if (m->ps == 1 && band->want_key) snls_grad_prefetch(&p->d_key, band->at.b, kept, m->features);
        if (++n < SNLS_GRAD_LIST) continue;
        take_list(p, band, n);
        n = 0;
    }
    return n;
}

static void query_row(const CpuGrad *p, CpuQueryBand *band)
{
    const SnlsMatch *m = &p->c.m;
    if (snls_grad_settles(p, band)) {
        snls_grad_single_row(p, band);
        return;
    }
    const CpuGradQuery row = snls_grad_row(p, band->at.b, band->at.t, band->at.i);
    CpuReach none = {m->height, -1, m->frames, -1}, reach = none, *all = &none;
    if (band->want_reach && band->own) all = &p->reach[(band->at.b * m->frames + band->at.t) * m->rows + band->at.i];
    if (band->left > 0) reach = *all;
    int64_t n = 0;
    for (int64_t j = band->left; j < band->right; j++)
        for (int64_t head = 0; head < m->heads; head++) { /* heads may share a flow: one owner takes all */
            const CpuGradQuery at = snls_grad_query(p, &row, j, head);
            n = find(p, &at, band, n, &reach);
        }
    take_list(p, band, n);
    *all = reach;
}

static bool reaches(const CpuGrad *p, const CpuQueryBand *band)
{
    if (!band->want_key || !p->reach) return band->want_key;
    const CpuReach *r = &p->reach[(band->at.b * p->c.m.frames + band->at.t) * p->c.m.rows + band->at.i];
    return r->top < band->at.end && r->bottom >= band->at.first;
}

/* The band at hand takes what it owns of a row of queries, if there is anything. */
static void visit_row(const CpuGrad *p, CpuQueryBand *band)
{
    const SnlsMatch *m = &p->c.m;
    const int64_t y = band->at.i * m->stride0;
    band->own = y >= band->at.first && y < band->at.end;
    if (band->own || (band->want_query && snls_grad_query_touches(m, &band->at)) || reaches(p, band)) query_row(p, band);
}

/* Frames [t, end), all of them for a row of queries before the next row. */
static void query_band(const CpuGrad *p, CpuQueryBand *band, int64_t t, int64_t end)
{
    const SnlsMatch *m = &p->c.m;
    for (band->left = 0; band->left < m->columns; band->left = band->right) {
        band->right = band->left + p->tile < m->columns ? band->left + p->tile : m->columns;
        for (band->at.i = 0; band->at.i < m->rows; band->at.i++)
            for (band->at.t = t; band->at.t < end; band->at.t++) visit_row(p, band);
    }
}

static CpuQueryBand band_of(const CpuGrad *p, int64_t b, int64_t t)
{
    float *spare = p->spare + snls_cpu_thread() * p->spare_size;
    return (CpuQueryBand){.at = {.b = b, .t = t, .end = p->c.m.height, .spare = spare + snls_grad_spare()}, .list = (CpuKept *)(void *)spare};
}

/* Of refine, whose centres may be anywhere: by its neighbours. */
static void reach_by_neighbours(const CpuGrad *p, int64_t b, int64_t t, int64_t i)
{
    CpuQueryBand band = band_of(p, b, t);
    band.at.i = i;
    band.right = p->c.m.columns;
    band.own = band.want_reach = true;
    query_row(p, &band);
}

/* Of a search by its flow alone, a row or two more than need be. Windows are slid into the frame, or what is outside is left out. */
static CpuReach reach_by_flow(const CpuGrad *p, int64_t b, int64_t t, int64_t i)
{
    const SnlsMatch *m = &p->c.m;
    const double y = (double)(i * m->stride0), last = (double)(m->height - 1), around = (double)(m->dilation * (m->ps / 2) + 2);
    double least = 0, most = 0; /* of the flow */
    SnlsQuery q = {.b = b, .t = t, .i = i};
    for (q.head = 0; m->flow_slots && q.head < (m->centre.ndim == 7 ? m->heads : 1); q.head++)
        for (int64_t window = m->windows - m->flow_slots; window < m->windows; window++)
            for (q.j = 0; q.j < m->columns; q.j++) {
                const double dy = ((const float *)m->centre.data)[snls_match_centre_at(m, &q, window) + snls_match_step_y(m)];
                least = dy < least ? dy : least; /* a window at NaN has no candidates */
                most = dy > most ? dy : most;
            }
    double low = y + least, high = y + most; /* centres; those beyond the frame are reflected */
    if (!(low >= -last && high <= 2 * last)) return (CpuReach){0, m->height - 1, 0, m->frames - 1};
    const double back = -low, on = 2 * last - high;
    if (back > 0) low = 0, high = fmax(high, back);
    if (on < last) high = last, low = fmin(low, fmax(on, 0));
    const double span = p->before + p->after + around, top = fmax(fmin(low - p->before - around, last - span), 0), bottom = fmin(fmax(high + p->after + around, span), last);
    return (CpuReach){(int64_t)top, (int64_t)bottom, 0, m->frames - 1};
}

void snls_grad_reaches(SnlsContext *ctx, const CpuGrad *p)
{
    const SnlsMatch *m = &p->c.m;
#pragma omp parallel for num_threads(ctx->threads) schedule(dynamic, 16)
    for (int64_t u = 0; u < m->batch * m->frames * m->rows; u++) {
        const int64_t b = u / m->rows / m->frames, t = u / m->rows % m->frames, i = u % m->rows;
        if (m->refine) reach_by_neighbours(p, b, t, i);
        else p->reach[u] = reach_by_flow(p, b, t, i);
    }
}

void snls_grad_queries(SnlsContext *ctx, const CpuGrad *p, int64_t bands, bool both)
{
    const SnlsMatch *m = &p->c.m;
    const int64_t times = both ? m->frames : 1, units = m->batch * m->frames / times * bands; /* both: a band has its rows of all frames */
#pragma omp parallel for num_threads(ctx->threads) schedule(dynamic, 1)
    for (int64_t u = 0; u < units; u++) {
        const int64_t number = u % bands, plane = u / bands * times;
        CpuQueryBand band = band_of(p, plane / m->frames, plane % m->frames);
        band.at.first = number * m->height / bands;
        band.at.end = (number + 1) * m->height / bands;
        band.want_query = p->d_query.data && p->g.dist.data;
        band.want_key = both;
        band.want_any = band.want_query || p->g.centre.data || both;
        band.want_reach = p->reach && !both;
        const int64_t begin = plane % m->frames, at_once = m->ps == 1 ? times : 1; /* the order of sums is that of snls_grad_keys */
        for (int64_t t = begin; t < begin + times; t += at_once) query_band(p, &band, t, t + at_once);
    }
}
