/* match_grad.c: gradients of search, search_all and refine. Three passes, each with one owner per sum and a fixed order:
 *   places:  d flow (or d centre), owned by the query;
 *   queries: d query, owned by a row of the query video, which gathers from every patch that covers it;
 *   keys:    d key, owned by a band of rows of a key frame, which looks through all queries for taps that fall in it. */
#include "cpu/match.h"
#include "cpu/threads.h"
#include <string.h>

typedef struct Grad {
    CpuMatch c;
    SnlsMatchGrad g;
    CpuVideo d_query, d_key;
    float *spare;       /* a pixel of F floats per thread */
    int64_t spare_size; /* floats per thread */
} Grad;

/* A kept neighbour: where it is and dL/ddist. */
typedef struct Kept {
    int64_t window, frame;
    double y, x, slope_y, slope_x;
    float g;
} Kept;

/* Which candidate stands at a place; -1: none. */
static int64_t candidate_at(const SnlsMatch *m, const SnlsQuery *q, int64_t place)
{
    const int64_t id = ((const int32_t *)m->index.data)[snls_at6(&m->index, q->b, q->head, q->t, q->i, q->j, place)];
    return id >= 0 && id < m->windows * m->side * m->side ? id : -1;
}

/* False: no neighbour there. The frame alone decides for most callers, so it is asked first. */
static bool kept_at(const Grad *p, const SnlsQuery *q, int64_t place, int64_t only_frame, Kept *kept)
{
    const SnlsMatch *m = &p->c.m;
    const int64_t id = candidate_at(m, q, place), cells = m->side * m->side;
    if (id < 0) return false;
    kept->window = id / cells;
    if (!m->refine && only_frame >= 0 && snls_slot_frame(q->t, kept->window, m->wt, m->frames) != only_frame) return false;
    const SnlsMatchWindow w = snls_match_window(m, q, kept->window);
    if (!w.valid || (only_frame >= 0 && w.frame != only_frame)) return false;
    const int64_t cell = id % cells;
    kept->frame = w.frame;
    kept->slope_y = w.slope_y;
    kept->slope_x = w.slope_x;
    kept->y = snls_match_y(m, &w, cell / m->side);
    kept->x = snls_match_x(m, &w, cell % m->side);
    if (!snls_inside(kept->y, m->height) || !snls_inside(kept->x, m->width)) return false;
    kept->g = p->g.dist.data ? ((const float *)p->g.dist.data)[snls_at6(&p->g.dist, q->b, q->head, q->t, q->i, q->j, place)] : 0;
    return true;
}

/* Pixel (r, s) of a query's patch; NULL where border drop leaves it out. */
static const float *query_pixel(const CpuMatch *c, const SnlsQuery *q, int64_t r, int64_t s)
{
    const SnlsMatch *m = &c->m;
    const int64_t y = q->i * m->stride0 + m->dilation * (r - m->ps / 2), x = q->j * m->stride0 + m->dilation * (s - m->ps / 2);
    if (m->drop && (y < 0 || y >= m->height || x < 0 || x >= m->width)) return NULL;
    return snls_cpu_pixel(&c->query, q->b, q->t, snls_reflect(y, m->height), snls_reflect(x, m->width)) + q->head * m->features;
}

static bool key_taps(CpuTaps *taps, const CpuMatch *c, const SnlsQuery *q, const Kept *kept, int64_t r, int64_t s)
{
    const SnlsMatch *m = &c->m;
    return snls_cpu_taps(taps, &c->key, q->b, kept->frame, q->head * m->features, kept->y + (double)(m->dilation * (r - m->ps / 2)),
                         kept->x + (double)(m->dilation * (s - m->ps / 2)), m->height, m->width, m->drop);
}

/* dL/dk of one pair of pixels, F floats: g*q (prod) or 2g(k - q) (l2) */
static void pull_on_key(const Grad *p, const Kept *kept, const float *pixel, const CpuTaps *taps, float *out)
{
    const SnlsDsp *dsp = p->c.dsp;
    const int64_t n = p->c.m.features;
    if (p->c.m.prod) {
        memcpy(out, pixel, (size_t)n * sizeof *out);
        dsp->scale(out, kept->g, n);
        return;
    }
    dsp->blend(out, taps->at, taps->weight, taps->count, n);
    dsp->sub(out, out, pixel, n);
    dsp->scale(out, 2 * kept->g, n);
}

/* --- places --- */

/* dL/d position of a neighbour: the slope of the key at each patch pixel, along y and x */
static void add_place(const Grad *p, const SnlsQuery *q, const Kept *kept, int64_t r, int64_t s, const float *pull, double *by_y, double *by_x)
{
    const SnlsMatch *m = &p->c.m;
    const double u = kept->y + (double)(m->dilation * (r - m->ps / 2)), v = kept->x + (double)(m->dilation * (s - m->ps / 2));
    const SnlsTaps ty = snls_taps(snls_reflect_real(u, m->height), m->height), tx = snls_taps(snls_reflect_real(v, m->width), m->width);
    double along[2][2] = {{0, 0}, {0, 0}}; /* <pull, tap> */
    for (int a = 0; a < 2; a++)
        for (int b = 0; b < 2; b++) {
            if (ty.weight[a] == 0 && tx.weight[b] == 0) continue; /* counts for neither slope */
            const float *tap = snls_cpu_pixel(&p->c.key, q->b, kept->frame, ty.at[a], tx.at[b]) + q->head * m->features;
            along[a][b] = p->c.dsp->dot(pull, tap, m->features);
        }
    double dy = 0, dx = 0;
    for (int i = 0; i < 2; i++) {
        if (tx.weight[i] != 0) dy += tx.weight[i] * (along[1][i] - along[0][i]);
        if (ty.weight[i] != 0) dx += ty.weight[i] * (along[i][1] - along[i][0]);
    }
    *by_y += snls_reflect_slope(u, m->height) * dy;
    *by_x += snls_reflect_slope(v, m->width) * dx;
}

static void pull_place(const Grad *p, const SnlsQuery *q, int64_t place, const Kept *kept, float *pull, double *by_y, double *by_x)
{
    const SnlsMatch *m = &p->c.m;
    for (int64_t r = 0; p->g.dist.data && r < m->ps; r++)
        for (int64_t s = 0; s < m->ps; s++) {
            const float *pixel = query_pixel(&p->c, q, r, s);
            CpuTaps taps;
            if (!pixel || !key_taps(&taps, &p->c, q, kept, r, s)) continue;
            pull_on_key(p, kept, pixel, &taps, pull);
            add_place(p, q, kept, r, s, pull, by_y, by_x);
        }
    if (!p->g.offset.data) return;
    const float *seed = (const float *)p->g.offset.data + snls_at6(&p->g.offset, q->b, q->head, q->t, q->i, q->j, place);
    *by_y += seed[p->g.offset.stride[6]];
    *by_x += seed[2 * p->g.offset.stride[6]];
}

/* Heads share a flow without a heads axis, so one owner takes all heads of a query. */
static void places_of_query(const Grad *p, SnlsQuery q, float *pull)
{
    const SnlsMatch *m = &p->c.m;
    SnlsMatch into = *m;
    into.centre = p->g.centre;
    for (q.head = 0; q.head < m->heads; q.head++)
        for (int64_t place = 0; place < m->kept; place++) {
            Kept kept;
            double by_y = 0, by_x = 0;
            if (!kept_at(p, &q, place, -1, &kept) || !snls_match_has_centre(m, kept.window)) continue;
            pull_place(p, &q, place, &kept, pull, &by_y, &by_x);
            float *to = (float *)p->g.centre.data + snls_match_centre_at(&into, &q, kept.window);
            to[snls_match_step_y(&into)] += (float)(kept.slope_y * by_y);
            to[snls_match_step_x(&into)] += (float)(kept.slope_x * by_x);
        }
}

static void pull_places(SnlsContext *ctx, const Grad *p)
{
    const SnlsMatch *m = &p->c.m;
    const int64_t units = m->batch * m->frames * m->rows;
#pragma omp parallel for num_threads(ctx->threads) schedule(dynamic, 1)
    for (int64_t u = 0; u < units; u++) {
        SnlsQuery q = {.i = u % m->rows, .t = u / m->rows % m->frames, .b = u / m->rows / m->frames};
        for (q.j = 0; q.j < m->columns; q.j++) places_of_query(p, q, p->spare + snls_cpu_thread() * p->spare_size);
    }
}

/* --- queries --- */

/* Row r of the patches of all queries of grid row q.i, which covers video row y: d query += by every neighbour */
static void query_row(const Grad *p, SnlsQuery q, int64_t r, int64_t y, float *blend)
{
    const SnlsMatch *m = &p->c.m;
    const SnlsDsp *dsp = p->c.dsp;
    const int64_t n = m->features;
    for (q.j = 0; q.j < m->columns; q.j++)
        for (q.head = 0; q.head < m->heads; q.head++)
            for (int64_t place = 0; place < m->kept; place++) {
                Kept kept;
                if (!kept_at(p, &q, place, -1, &kept)) continue;
                for (int64_t s = 0; s < m->ps; s++) {
                    const float *pixel = query_pixel(&p->c, &q, r, s);
                    CpuTaps taps;
                    if (!pixel || !key_taps(&taps, &p->c, &q, &kept, r, s)) continue;
                    const int64_t x = snls_reflect(q.j * m->stride0 + m->dilation * (s - m->ps / 2), m->width);
                    float *to = snls_cpu_pixel(&p->d_query, q.b, q.t, y, x) + q.head * n;
                    dsp->blend(blend, taps.at, taps.weight, taps.count, n);
                    if (!m->prod) dsp->sub(blend, pixel, blend, n);
                    dsp->axpy(to, m->prod ? kept.g : 2 * kept.g, blend, n);
                }
            }
}

static void pull_queries(SnlsContext *ctx, const Grad *p)
{
    const SnlsMatch *m = &p->c.m;
    const int64_t units = m->batch * m->frames * m->height;
#pragma omp parallel for num_threads(ctx->threads) schedule(dynamic, 1)
    for (int64_t u = 0; u < units; u++) {
        const int64_t y = u % m->height;
        SnlsQuery q = {.t = u / m->height % m->frames, .b = u / m->height / m->frames};
        for (q.i = 0; q.i < m->rows; q.i++)
            for (int64_t r = 0; r < m->ps; r++) {
                const int64_t at = q.i * m->stride0 + m->dilation * (r - m->ps / 2);
                if (m->drop && (at < 0 || at >= m->height)) continue;
                if (snls_reflect(at, m->height) == y) query_row(p, q, r, y, p->spare + snls_cpu_thread() * p->spare_size);
            }
    }
}

/* --- keys --- */

typedef struct Band { int64_t frame, first, end; } Band; /* rows [first, end) of a key frame */

static void key_of_neighbour(const Grad *p, const SnlsQuery *q, const Kept *kept, const Band *band, float *pull)
{
    const SnlsMatch *m = &p->c.m;
    for (int64_t r = 0; r < m->ps; r++)
        for (int64_t s = 0; s < m->ps; s++) {
            const float *pixel = query_pixel(&p->c, q, r, s);
            CpuTaps taps;
            if (!pixel || !key_taps(&taps, &p->c, q, kept, r, s)) continue;
            bool ready = false;
            for (int i = 0; i < taps.count; i++) {
                if (taps.y[i] < band->first || taps.y[i] >= band->end) continue;
                if (!ready) pull_on_key(p, kept, pixel, &taps, pull);
                ready = true;
                p->c.dsp->axpy(snls_cpu_pixel(&p->d_key, q->b, band->frame, taps.y[i], taps.x[i]) + q->head * m->features, taps.weight[i], pull, m->features);
            }
        }
}

/* Every query whose windows may reach the band's frame, in a fixed order. */
static void key_band(const Grad *p, int64_t b, const Band *band, float *pull)
{
    const SnlsMatch *m = &p->c.m;
    SnlsQuery q = {.b = b};
    for (q.t = 0; q.t < m->frames; q.t++) {
        if (!m->refine && (q.t - band->frame > 2 * m->wt || band->frame - q.t > 2 * m->wt)) continue;
        for (q.i = 0; q.i < m->rows; q.i++)
            for (q.j = 0; q.j < m->columns; q.j++)
                for (q.head = 0; q.head < m->heads; q.head++)
                    for (int64_t place = 0; place < m->kept; place++) {
                        Kept kept;
                        if (kept_at(p, &q, place, band->frame, &kept)) key_of_neighbour(p, &q, &kept, band, pull);
                    }
    }
}

static void pull_keys(SnlsContext *ctx, const Grad *p)
{
    const SnlsMatch *m = &p->c.m;
    const int64_t planes = m->batch * m->frames;
    int64_t bands = planes ? (2 * ctx->threads + planes - 1) / planes : 1; /* enough to share; the sums do not depend on it */
    if (bands > m->height) bands = m->height;
    const int64_t units = planes * bands;
#pragma omp parallel for num_threads(ctx->threads) schedule(dynamic, 1)
    for (int64_t u = 0; u < units; u++) {
        const int64_t band = u % bands, frame = u / bands % m->frames;
        const Band at = {frame, band * m->height / bands, (band + 1) * m->height / bands};
        key_band(p, u / bands / m->frames, &at, p->spare + snls_cpu_thread() * p->spare_size);
    }
}

static SnlsStatus take_tensors(SnlsContext *ctx, const SnlsMatch *m, const SnlsMatchGrad *g)
{
    SNLS_TRY(snls_cpu_take_video(ctx, m->op, "query", &m->query));
    SNLS_TRY(snls_cpu_take_video(ctx, m->op, "key", &m->key));
    SNLS_TRY(snls_cpu_take_numbers(ctx, m->op, m->refine ? "centre" : "flow", &m->centre));
    SNLS_TRY(snls_cpu_take_video(ctx, m->op, "gradient of query", &g->query));
    SNLS_TRY(snls_cpu_take_video(ctx, m->op, "gradient of key", &g->key));
    SNLS_TRY(snls_cpu_take_numbers(ctx, m->op, m->refine ? "gradient of centre" : "gradient of flow", &g->centre));
    SNLS_TRY(snls_cpu_take_numbers(ctx, m->op, "gradient of dist", &g->dist));
    return snls_cpu_take_numbers(ctx, m->op, "gradient of offset", &g->offset);
}

SnlsStatus snls_cpu_match_backward(SnlsContext *ctx, const SnlsMatch *m, const SnlsMatchGrad *g)
{
    Grad p = {.c = {.m = *m, .dsp = snls_cpu_dsp(ctx)}, .g = *g, .spare_size = (m->features + 15) / 16 * 16};
    SNLS_TRY(take_tensors(ctx, m, g));
    snls_arena_begin(&ctx->arena);
    snls_cpu_video_plan(ctx, &m->query);
    snls_cpu_video_plan(ctx, &m->key);
    snls_cpu_sum_plan(ctx, &g->query);
    snls_cpu_sum_plan(ctx, &g->key);
    snls_arena_plan(&ctx->arena, ctx->threads * p.spare_size, sizeof(float));
    SNLS_TRY(snls_scratch_commit(ctx, m->op));
    snls_cpu_video_claim(ctx, &p.c.query, &m->query);
    snls_cpu_video_claim(ctx, &p.c.key, &m->key);
    snls_cpu_sum_claim(ctx, &p.d_query, &g->query);
    snls_cpu_sum_claim(ctx, &p.d_key, &g->key);
    p.spare = snls_arena_claim(&ctx->arena, ctx->threads * p.spare_size, sizeof(float));
    if (g->centre.data) pull_places(ctx, &p);
    if (g->query.data && g->dist.data) pull_queries(ctx, &p);
    if (g->key.data && g->dist.data) pull_keys(ctx, &p);
    snls_cpu_sum_finish(ctx, &p.d_query, &g->query);
    snls_cpu_sum_finish(ctx, &p.d_key, &g->key);
    return SNLS_OK;
}
