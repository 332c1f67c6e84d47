/* check_match_backward.c: gradients of search, search_all and refine against the model, from the backend's own choice. */
#include "match.h"
#include <math.h>

typedef struct Pulls { Sums q, k, motion; bool near_kink; } Pulls;

/* A place as one sum among others: its own magnitude and read error go along. */
static void add_pull(Sums *s, int64_t at, double slope, double pull, double magnitude, double read, double terms, double g_offset)
{
    s->value[at] += slope * (pull + g_offset);
    s->magnitude[at] += magnitude + fabs(g_offset);
    s->read[at] += read;
    s->terms[at] += terms + 1;
}

static void add_place(const Match *m, const MatchQuery *q, int64_t index, double g, double gy, double gx, Pulls *out)
{
    const MatchCandidate *c = &m->candidates[q->number * match_per_query(m) + index];
    const MatchWindow *w = &m->windows_of[q->number * m->windows + index / (m->side * m->side)];
    const ModelPair pair = {q->b, q->head, q->t, q->i * m->stride0, q->j * m->stride0, w->frame, c->y, c->x};
    const ModelPull pull = model_pull(&m->patch, &m->q, &m->k, &pair, g, &out->q, &out->k);
    if (w->motion_at < 0 || !out->motion.count) return;
    const int64_t y = w->motion_at + 1, x = m->refine ? w->motion_at + 2 : w->motion_at;
    add_pull(&out->motion, y, w->slope_y, pull.y, pull.y_magnitude, pull.y_read, pull.terms, gy);
    add_pull(&out->motion, x, w->slope_x, pull.x, pull.x_magnitude, pull.x_read, pull.terms, gx);
    if (fmin(pull.kink, w->kink) < 1e-9) out->near_kink = true;
}

void match_check_backward(Call *call, double eps)
{
    const Match *m = match_of(call);
    Pulls out = {sums_prefilled(m->g_q), sums_prefilled(m->g_k), sums_prefilled(m->g_motion), false};
    for (int64_t place = 0; place < match_queries(m) * m->kept; place++) {
        const MatchQuery q = match_query(m, place / m->kept);
        const int64_t index = m->all ? place % m->kept : (int64_t)tensor_get(m->index, place);
        if (index < 0 || !m->candidates[q.number * match_per_query(m) + index].valid) continue;
        const double g = m->g_dist->data ? tensor_get(m->g_dist, place) : 0;
        const double gy = m->g_offset->data ? tensor_get(m->g_offset, 3 * place + 1) : 0;
        const double gx = m->g_offset->data ? tensor_get(m->g_offset, 3 * place + 2) : 0;
        add_place(m, &q, index, g, gy, gx, &out);
    }
    if (m->g_q->data) check_sums("gradient of query", m->g_q, &out.q, eps);
    if (m->g_k->data) check_sums("gradient of key", m->g_k, &out.k, eps);
    if (m->g_motion->data && !out.near_kink) check_sums("gradient of flow or centre", m->g_motion, &out.motion, eps);
}
