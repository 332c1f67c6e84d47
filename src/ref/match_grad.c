/* match_grad.c: gradients of search, search_all and refine (docs/operators.md section 6). */
#include "ref/match.h"

typedef struct Pull {
    const SnlsMatch *m;
    const SnlsQuery *q;
    int64_t frame;
    double g;                  /* dL/ddist of this neighbour */
    const RefSum *query, *key; /* without data: not wanted */
    bool want_place;
    double place_y, place_x;   /* dL/d candidate position, summed over the patch */
} Pull;

/* Every channel of one pair of pixels: dist += d(q, k) with d' by q and by k */
static void pull_pair(const RefPair *pair, void *user)
{
    Pull *p = user;
    const SnlsMatch *m = p->m;
    const SnlsTensor *query = &m->query, *key = &m->key;
    for (int64_t f = 0; f < m->features; f++) {
        const int64_t c = p->q->head * m->features + f, base = snls_at5(key, p->q->b, p->frame, 0, 0, c);
        const double a = snls_load(query, snls_at5(query, p->q->b, p->q->t, pair->qy, pair->qx, c));
        const double b = snls_ref_value(key, base, key->stride[2], key->stride[3], &pair->read);
        const double by_query = p->g * (m->prod ? b : 2 * (a - b)), by_key = p->g * (m->prod ? a : -2 * (a - b));
        if (p->query->view.data)
            snls_ref_add(p->query, snls_at5(&p->query->view, p->q->b, p->q->t, pair->qy, pair->qx, c), by_query);
        if (p->key->view.data)
            snls_ref_spread(p->key, snls_at5(&p->key->view, p->q->b, p->frame, 0, 0, c), p->key->view.stride[2], p->key->view.stride[3],
                            &pair->read, by_key);
        if (p->want_place) {
            p->place_y += by_key * snls_ref_slope_y(key, base, key->stride[2], key->stride[3], &pair->read);
            p->place_x += by_key * snls_ref_slope_x(key, base, key->stride[2], key->stride[3], &pair->read);
        }
    }
}

typedef struct MatchSums { RefSum query, key, centre; } MatchSums;

/* Which candidate stands at a place of the output; -1: none. */
static int64_t candidate_at(const SnlsMatch *m, const SnlsQuery *q, int64_t kept)
{
    const int64_t id = ((const int32_t *)m->index.data)[snls_at6(&m->index, q->b, q->head, q->t, q->i, q->j, kept)];
    return id >= 0 && id < m->windows * m->side * m->side ? id : -1;
}

static void pull_place(const SnlsMatch *m, const SnlsMatchGrad *g, const SnlsQuery *q, int64_t kept, const MatchSums *sums)
{
    const int64_t id = candidate_at(m, q, kept), cells = m->side * m->side;
    if (id < 0) return;
    const int64_t window = id / cells, cell = id % cells;
    const SnlsMatchWindow w = snls_match_window(m, q, window);
    if (!w.valid) return;
    const double y = snls_match_y(m, &w, cell / m->side), x = snls_match_x(m, &w, cell % m->side);
    if (!snls_inside(y, m->height) || !snls_inside(x, m->width)) return;
    const int64_t at = snls_at6(&g->offset, q->b, q->head, q->t, q->i, q->j, kept), step = g->offset.stride[6];
    Pull pull = {.m = m, .q = q, .frame = w.frame, .query = &sums->query, .key = &sums->key};
    pull.g = g->dist.data ? snls_load(&g->dist, snls_at6(&g->dist, q->b, q->head, q->t, q->i, q->j, kept)) : 0;
    pull.want_place = sums->centre.view.data && snls_match_has_centre(m, window);
    if (g->dist.data) snls_ref_for_each_pair(m, q, y, x, pull_pair, &pull);
    if (!pull.want_place) return;
    if (g->offset.data) {
        pull.place_y += snls_load(&g->offset, at + step);
        pull.place_x += snls_load(&g->offset, at + 2 * step);
    }
    SnlsMatch into = *m; /* the same place in the sum's own layout */
    into.centre = sums->centre.view;
    const int64_t to = snls_match_centre_at(&into, q, window);
    snls_ref_add(&sums->centre, to + snls_match_step_y(&into), w.slope_y * pull.place_y);
    snls_ref_add(&sums->centre, to + snls_match_step_x(&into), w.slope_x * pull.place_x);
}

SnlsStatus snls_ref_match_backward(SnlsContext *ctx, const SnlsMatch *m, const SnlsMatchGrad *g)
{
    MatchSums sums;
    SnlsQuery q;
    snls_arena_begin(&ctx->arena);
    snls_ref_sum_plan(ctx, &g->query);
    snls_ref_sum_plan(ctx, &g->key);
    snls_ref_sum_plan(ctx, &g->centre);
    SNLS_TRY(snls_scratch_commit(ctx, m->op));
    snls_ref_sum_claim(ctx, &sums.query, &g->query);
    snls_ref_sum_claim(ctx, &sums.key, &g->key);
    snls_ref_sum_claim(ctx, &sums.centre, &g->centre);
    for (q.b = 0; q.b < m->batch; q.b++)
        for (q.head = 0; q.head < m->heads; q.head++)
            for (q.t = 0; q.t < m->frames; q.t++)
                for (q.i = 0; q.i < m->rows; q.i++)
                    for (q.j = 0; q.j < m->columns; q.j++)
                        for (int64_t kept = 0; kept < m->kept; kept++) pull_place(m, g, &q, kept, &sums);
    snls_ref_sum_finish(&sums.query);
    snls_ref_sum_finish(&sums.key);
    snls_ref_sum_finish(&sums.centre);
    return SNLS_OK;
}
