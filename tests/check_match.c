/* check_match.c: builds the model of a search, search_all or refine: windows, candidates, anchors (match.h). */
#include "match.h"
#include <math.h>
#include <string.h>

int64_t match_queries(const Match *m) { return m->q.B * m->heads * m->q.T * m->rows * m->columns; }
int64_t match_per_query(const Match *m) { return m->windows * m->side * m->side; }

MatchQuery match_query(const Match *m, int64_t number)
{
    MatchQuery q = {.number = number};
    q.j = number % m->columns;
    number /= m->columns;
    q.i = number % m->rows;
    number /= m->rows;
    q.t = number % m->q.T;
    number /= m->q.T;
    q.head = number % m->heads;
    q.b = number / m->heads;
    return q;
}

/* Element number of what moves a window, -1 where nothing does. */
static int64_t motion_at(const Match *m, const MatchQuery *q, int64_t window)
{
    if (m->refine) return (q->number * m->windows + window) * 3;
    const int64_t slot = window - (m->windows - m->slots);
    if (!m->slots || slot < 0) return -1;
    const int64_t lead = m->motion->ndim == 7 ? q->b * m->heads + q->head : q->b;
    return ((((lead * m->q.T + q->t) * m->slots + slot) * m->rows + q->i) * m->columns + q->j) * 2;
}

static MatchWindow window_of(const Match *m, const MatchQuery *q, int64_t number)
{
    MatchWindow w = {.finite = true, .motion_at = motion_at(m, q, number), .kink = 1};
    double dt = 0, dy = 0, dx = 0;
    if (w.motion_at >= 0) {
        const double *move = m->moves + w.motion_at;
        dt = m->refine ? move[0] : 0;
        dy = move[1];
        dx = m->refine ? move[2] : move[0];
        w.finite = isfinite(dt) && isfinite(dy) && isfinite(dx);
        if (!w.finite) return w;
        if (m->nearest) { dy = nearbyint(dy); dx = nearbyint(dx); }
    }
    const double y = (double)(q->i * m->stride0) + dy, x = (double)(q->j * m->stride0) + dx;
    w.frame = m->refine ? model_round_frame((double)q->t + nearbyint(dt), m->q.T) : model_frame(q->t, number, m->wt, m->q.T);
    w.y = model_reflect(y, m->q.H, &w.slope_y);
    w.x = model_reflect(x, m->q.W, &w.slope_x);
    w.origin_y = model_origin(w.y, m->side, m->step, m->q.H, m->slide);
    w.origin_x = model_origin(w.x, m->side, m->step, m->q.W, m->slide);
    w.kink = fmin(model_kink(y), model_kink(x));
    return w;
}

static void place_candidates(const Match *m, const MatchQuery *q, int64_t window, const MatchWindow *w, MatchCandidate *list)
{
    for (int64_t r = 0; r < m->side; r++)
        for (int64_t c = 0; c < m->side; c++) {
            MatchCandidate *a = &list[r * m->side + c];
            a->y = w->y + m->step * ((double)r - w->origin_y);
            a->x = w->x + m->step * ((double)c - w->origin_x);
            a->inside = w->finite && a->y >= 0 && a->y <= (double)(m->q.H - 1) && a->x >= 0 && a->x <= (double)(m->q.W - 1);
            if (m->exclude == SNLS_EXCLUDE_FRAME && window == 0) a->inside = false;
            if (!a->inside) continue;
            const ModelPair pair = {q->b, q->head, q->t, q->i * m->stride0, q->j * m->stride0, w->frame, a->y, a->x};
            a->score = model_score(&m->patch, &m->q, &m->k, &pair);
            a->valid = !isnan(a->score.value);
        }
}

/* Slot 0's candidate nearest the query's own place, -1 when slot 0 has none. */
static int64_t nearest_self(const Match *m, const MatchQuery *q, const MatchCandidate *slot0)
{
    int64_t best = -1;
    double least = INFINITY;
    for (int64_t i = 0; i < m->side * m->side; i++) {
        const double dy = slot0[i].y - (double)(q->i * m->stride0), dx = slot0[i].x - (double)(q->j * m->stride0);
        if (!slot0[i].inside || !(dy * dy + dx * dx < least)) continue;
        least = dy * dy + dx * dx;
        best = i;
    }
    return best;
}

static void find_anchors(const Match *m, const MatchQuery *q, MatchCandidate *list, const MatchWindow *w, int64_t *anchors)
{
    const int64_t cells = m->side * m->side, self = nearest_self(m, q, list);
    for (int64_t n = 0; n < m->windows; n++) {
        anchors[n] = -1;
        if (m->anchor == SNLS_ANCHOR_SELF && n == 0) anchors[n] = self;
        if (m->anchor == SNLS_ANCHOR_EACH) anchors[n] = n * cells + (int64_t)(w[n].origin_y * (double)m->side + w[n].origin_x);
        if (anchors[n] >= 0 && !list[anchors[n]].valid) anchors[n] = -1; /* a distance that is NaN, or a slot left out */
    }
    if (m->exclude == SNLS_EXCLUDE_SELF && self >= 0) list[self].inside = list[self].valid = false;
}

static void take_videos(Match *m, const SnlsTensor *query, const SnlsTensor *key, int64_t heads, int64_t stride0)
{
    m->q = model_video(query);
    m->k = model_video(key);
    m->heads = heads;
    m->stride0 = stride0;
    m->rows = (m->q.H + stride0 - 1) / stride0;
    m->columns = (m->q.W + stride0 - 1) / stride0;
    m->patch.features = m->q.C / heads;
}

static void take_search(Match *m, Call *call)
{
    SnlsSearch *s = &call->s.search;
    SnlsSearchGrad *g = &call->g.search;
    const SnlsSearchParams *p = &s->params;
    m->patch = (ModelPatch){.ps = p->ps, .dilation = p->dilation, .prod = p->dist == SNLS_DIST_PROD, .drop = p->border == SNLS_BORDER_DROP};
    take_videos(m, &s->query, &s->key, p->heads, p->stride0);
    m->all = !strcmp(call->op->name, "search_all");
    m->each = p->topk == SNLS_TOPK_EACH;
    m->wt = p->wt;
    m->windows = 2 * p->wt + 1;
    m->side = p->ws;
    m->keep = p->k;
    m->step = p->stride1;
    m->slide = p->window == SNLS_WINDOW_SLIDE;
    m->nearest = p->interp == SNLS_INTERP_NEAREST;
    m->anchor = p->anchor;
    m->exclude = p->exclude;
    m->motion = &s->flow;
    m->slots = s->flow.data ? s->flow.shape[s->flow.ndim - 4] : 0;
    m->dist = &s->dist; m->offset = &s->offset; m->index = &s->index;
    m->g_dist = &g->dist; m->g_offset = &g->offset; m->g_q = &g->query; m->g_k = &g->key; m->g_motion = &g->flow;
}

static void take_refine(Match *m, Call *call)
{
    SnlsRefine *s = &call->s.refine;
    SnlsRefineGrad *g = &call->g.refine;
    const SnlsRefineParams *p = &s->params;
    m->patch = (ModelPatch){.ps = p->ps, .dilation = p->dilation, .prod = p->dist == SNLS_DIST_PROD, .drop = p->border == SNLS_BORDER_DROP};
    take_videos(m, &s->query, &s->key, p->heads, p->stride0);
    m->refine = true;
    m->windows = s->centre.shape[5];
    m->side = p->wr;
    m->keep = p->k;
    m->step = p->stride1;
    m->slide = p->window == SNLS_WINDOW_SLIDE;
    m->nearest = p->interp == SNLS_INTERP_NEAREST;
    m->motion = &s->centre;
    m->dist = &s->dist; m->offset = &s->offset; m->index = &s->index;
    m->g_dist = &g->dist; m->g_offset = &g->offset; m->g_q = &g->query; m->g_k = &g->key; m->g_motion = &g->centre;
}

Match *match_of(Call *call)
{
    if (call->model) return call->model;
    Match *m = call->model = check_alloc(1, sizeof *m);
    if (!strcmp(call->op->name, "refine")) take_refine(m, call);
    else take_search(m, call);
    m->op = call->op->name;
    m->moves = tensor_doubles(m->motion);
    const int64_t n = match_queries(m), each = match_per_query(m);
    m->kept = m->all ? each : m->each ? m->windows * m->keep : m->keep;
    m->candidates = check_alloc(n * each, sizeof *m->candidates);
    m->windows_of = check_alloc(n * m->windows, sizeof *m->windows_of);
    m->anchors = check_alloc(n * m->windows, sizeof *m->anchors);
    for (int64_t i = 0; i < n; i++) {
        const MatchQuery q = match_query(m, i);
        MatchCandidate *list = m->candidates + i * each;
        MatchWindow *w = m->windows_of + i * m->windows;
        for (int64_t j = 0; j < m->windows; j++) {
            w[j] = window_of(m, &q, j);
            place_candidates(m, &q, j, &w[j], list + j * m->side * m->side);
        }
        find_anchors(m, &q, list, w, m->anchors + i * m->windows);
    }
    return m;
}
