/* check_match_forward.c: the outputs of search, search_all and refine against the model. Top-k by recomputed distance:
 * every returned candidate has its own distance and offset, the list is sorted, and nothing better was left out. */
#include "match.h"
#include <math.h>
#include <stdio.h>

typedef struct Got { double dist, dt, dy, dx; int64_t index; } Got;

static Got got_at(const Match *m, int64_t place)
{
    return (Got){tensor_get(m->dist, place), tensor_get(m->offset, 3 * place), tensor_get(m->offset, 3 * place + 1),
                 tensor_get(m->offset, 3 * place + 2), m->index->data ? (int64_t)tensor_get(m->index, place) : -2};
}

static const char *where(const Match *m, int64_t query, int64_t place)
{
    static char text[160];
    const MatchQuery q = match_query(m, query);
    snprintf(text, sizeof text, "%s: batch %d head %d time %d row %d column %d place %d", m->op, (int)q.b, (int)q.head, (int)q.t,
             (int)q.i, (int)q.j, (int)place);
    return text;
}

/* dist and offset of a candidate that the backend says is number index of its query */
static bool check_own(const Match *m, int64_t query, int64_t place, const Got *got, int64_t index, double eps)
{
    const MatchQuery q = match_query(m, query);
    const MatchCandidate *c = &m->candidates[query * match_per_query(m) + index];
    const MatchWindow *w = &m->windows_of[query * m->windows + index / (m->side * m->side)];
    const double tolerance = model_score_tolerance(&c->score, eps, m->dist->dtype);
    bool ok = CHECK(c->valid, "%s: candidate %lld is not valid", where(m, query, place), (long long)index);
    ok = ok && CHECK(fabs(got->dist - c->score.value) <= tolerance, "%s: candidate %lld has dist %.9g, expected %.9g within %.3g",
                     where(m, query, place), (long long)index, got->dist, c->score.value, tolerance);
    const double dt = (double)(w->frame - q.t), dy = c->y - (double)(q.i * m->stride0), dx = c->x - (double)(q.j * m->stride0);
    const double slack = 2 * dtype_rounding(m->offset->dtype) * (fabs(dy) + fabs(dx)) + 1e-13 * (double)(m->q.H + m->q.W);
    return ok && CHECK(got->dt == dt && fabs(got->dy - dy) <= slack && fabs(got->dx - dx) <= slack,
                       "%s: candidate %lld has offset (%g, %.9g, %.9g), expected (%g, %.9g, %.9g)", where(m, query, place), (long long)index,
                       got->dt, got->dy, got->dx, dt, dy, dx);
}

static void check_empty(const Match *m, int64_t query, int64_t place, const Got *got)
{
    const double none = m->patch.prod ? -INFINITY : INFINITY;
    CHECK(got->dist == none && got->dt == 0 && got->dy == 0 && got->dx == 0 && (got->index == -1 || !m->index->data),
          "%s: no candidate left, but dist %g offset (%g, %g, %g) index %lld", where(m, query, place), got->dist, got->dt, got->dy, got->dx,
          (long long)got->index);
}

/* Without index the candidate is known by its offset; where two share one (refine) either will do. */
static int64_t index_of(const Match *m, int64_t query, const Got *got, const bool *taken)
{
    if (got->index != -2) return got->index;
    const MatchQuery q = match_query(m, query);
    int64_t best = -1;
    double least = INFINITY;
    for (int64_t i = 0; i < match_per_query(m); i++) {
        const MatchCandidate *c = &m->candidates[query * match_per_query(m) + i];
        const MatchWindow *w = &m->windows_of[query * m->windows + i / (m->side * m->side)];
        if (!c->valid || taken[i] || (double)(w->frame - q.t) != got->dt) continue;
        const double off = fabs(c->y - (double)(q.i * m->stride0) - got->dy) + fabs(c->x - (double)(q.j * m->stride0) - got->dx);
        if (off < least) { least = off; best = i; }
    }
    return best;
}

static void check_all(const Match *m, int64_t query, double eps)
{
    for (int64_t i = 0; i < m->kept; i++) {
        const Got got = got_at(m, query * m->kept + i);
        if (!m->candidates[query * m->kept + i].valid) check_empty(m, query, i, &got);
        else if (check_own(m, query, i, &got, i, eps) && m->index->data)
            CHECK(got.index == i, "%s: index is %lld", where(m, query, i), (long long)got.index);
    }
}

/* One group of places: all windows, or one window with topk each. */
typedef struct Group { int64_t query, first_window, windows, first_place, places, anchors, valid; } Group;

static Group group_of(const Match *m, int64_t query, int64_t number)
{
    const int64_t cells = m->side * m->side;
    Group g = {.query = query, .first_window = m->each ? number : 0, .windows = m->each ? 1 : m->windows,
               .first_place = m->each ? number * m->keep : 0, .places = m->keep};
    for (int64_t w = g.first_window; w < g.first_window + g.windows; w++) g.anchors += m->anchors[query * m->windows + w] >= 0;
    for (int64_t i = g.first_window * cells; i < (g.first_window + g.windows) * cells; i++)
        g.valid += m->candidates[query * match_per_query(m) + i].valid;
    return g;
}

static int64_t anchor_number(const Match *m, const Group *g, int64_t place)
{
    for (int64_t w = g->first_window; w < g->first_window + g->windows; w++)
        if (m->anchors[g->query * m->windows + w] >= 0 && place-- == 0) return m->anchors[g->query * m->windows + w];
    return -1;
}

static bool before(const Match *m, const Got *a, int64_t ia, const Got *b, int64_t ib)
{
    if (a->dist != b->dist) return m->patch.prod ? a->dist > b->dist : a->dist < b->dist;
    return ia < ib || !m->index->data;
}

/* Walks the places of a group; marks what was taken; false when an index makes no sense. */
static bool check_places(const Match *m, const Group *g, bool *taken, Got *last, double eps)
{
    Got previous = {0};
    int64_t previous_index = -1;
    for (int64_t j = 0; j < g->places; j++) {
        const int64_t place = g->first_place + j;
        const Got got = got_at(m, g->query * m->kept + place);
        if (j >= g->valid) { check_empty(m, g->query, place, &got); continue; }
        const int64_t index = index_of(m, g->query, &got, taken), window = index / (m->side * m->side);
        if (!CHECK(index >= 0 && index < match_per_query(m) && window >= g->first_window && window < g->first_window + g->windows,
                   "%s: index is %lld", where(m, g->query, place), (long long)index)) return false;
        if (!CHECK(!taken[index], "%s: candidate %lld twice", where(m, g->query, place), (long long)index)) return false;
        taken[index] = true;
        if (!check_own(m, g->query, place, &got, index, eps)) return false;
        const int64_t anchor = anchor_number(m, g, j);
        if (anchor >= 0) CHECK(index == anchor, "%s: candidate %lld, the anchor is %lld", where(m, g->query, place), (long long)index, (long long)anchor);
        if (j > g->anchors) CHECK(before(m, &previous, previous_index, &got, index), "%s: not sorted: %.9g (candidate %lld) before %.9g (%lld)",
                                  where(m, g->query, place), previous.dist, (long long)previous_index, got.dist, (long long)index);
        previous = *last = got;
        previous_index = index;
    }
    return true;
}

static void check_nothing_better(const Match *m, const Group *g, const bool *taken, const Got *last, double eps)
{
    const int64_t cells = m->side * m->side;
    if (g->places <= g->anchors) return;
    for (int64_t i = g->first_window * cells; i < (g->first_window + g->windows) * cells; i++) {
        const MatchCandidate *c = &m->candidates[g->query * match_per_query(m) + i];
        if (!c->valid || taken[i]) continue;
        const double tolerance = model_score_tolerance(&c->score, eps, m->dist->dtype);
        const double better = m->patch.prod ? c->score.value - last->dist : last->dist - c->score.value;
        CHECK(better <= tolerance, "%s: candidate %lld with %.9g was left out, the last kept has %.9g", where(m, g->query, g->first_place),
              (long long)i, c->score.value, last->dist);
    }
}

void match_check_forward(Call *call, double eps)
{
    const Match *m = match_of(call);
    const int64_t queries = match_queries(m);
    bool *taken = check_alloc(match_per_query(m), sizeof *taken);
    for (int64_t query = 0; query < queries; query++) {
        if (m->all) { check_all(m, query, eps); continue; }
        for (int64_t i = 0; i < match_per_query(m); i++) taken[i] = false;
        for (int64_t number = 0; number < (m->each ? m->windows : 1); number++) {
            const Group g = group_of(m, query, number);
            Got last = {0};
            if (check_places(m, &g, taken, &last, eps) && g.valid > g.places) check_nothing_better(m, &g, taken, &last, eps);
        }
    }
}
