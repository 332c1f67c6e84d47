/* test_spec_choice.c: which candidates are kept: anchor, exclude, topk in every combination (docs/operators.md section 2).
 *   test_spec_choice [FACT] */
#include "spec.h"
#include <math.h>
#include <string.h>

enum { N = 5, T = 3, WS = 3, SLOTS = 3, CELLS = WS * WS, ALL = SLOTS * CELLS };

/* A search of 3 frames of 5x5 pixels with ties, no flow in slot 0, one pixel to the right in the others. */
static SnlsSearch make_search(int32_t anchor, int32_t exclude, int32_t topk, int32_t k, uint64_t seed)
{
    Rng rng = {seed};
    SnlsSearchParams p;
    snls_search_defaults(&p);
    p.ws = WS; p.wt = 1; p.anchor = anchor; p.exclude = exclude; p.topk = topk; p.k = k;
    SnlsSearch s = spec_search(&p, 1, T, N, N, 2);
    spec_small_integers(&s.query, &rng);
    spec_small_integers(&s.key, &rng);
    spec_flow(&s, 2);
    for (int64_t i = 0; i < tensor_count(&s.flow); i += 2) tensor_set(&s.flow, i, 1);
    spec_outputs(&s, false);
    return s;
}

/* Distances of all candidates of the same search; excluded ones are not finite. */
static SnlsSearch list_all(SnlsContext *ctx, const SnlsSearch *s, int32_t exclude)
{
    SnlsSearch all = *s;
    all.params.anchor = SNLS_ANCHOR_NONE;
    all.params.topk = SNLS_TOPK_ALL;
    all.params.exclude = exclude;
    spec_outputs(&all, true);
    spec_run(ctx, &all, true);
    return all;
}

/* Slot 0's candidate on the query itself; the window of 3 always holds it. */
static int64_t self_of(const SnlsSearch *all, int64_t query)
{
    for (int64_t c = 0; c < CELLS; c++)
        if (tensor_get(&all->offset, 3 * (query * ALL + c) + 1) == 0 && tensor_get(&all->offset, 3 * (query * ALL + c) + 2) == 0 &&
            isfinite(tensor_get(&all->dist, query * ALL + c))) return c;
    return -1;
}

/* The candidate of a slot at the reflected flow target: (0, 1), but (0, -1) from the last column, and (0, 0) in slot 0. */
static int64_t target_of(const SnlsSearch *all, int64_t query, int64_t slot)
{
    const double dx = slot == 0 ? 0 : query % N == N - 1 ? -1 : 1;
    for (int64_t c = slot * CELLS; c < (slot + 1) * CELLS; c++)
        if (tensor_get(&all->offset, 3 * (query * ALL + c) + 1) == 0 && tensor_get(&all->offset, 3 * (query * ALL + c) + 2) == dx &&
            isfinite(tensor_get(&all->dist, query * ALL + c))) return c;
    return -1;
}

/* The list a query must have: anchors first, then by (distance, number) from the given slots. */
typedef struct Wanted { int64_t list[ALL]; int64_t n; bool taken[ALL]; } Wanted;

static void want(Wanted *w, int64_t candidate)
{
    if (candidate < 0) return;
    w->taken[candidate] = true;
    w->list[w->n++] = candidate;
}

static void want_best(Wanted *w, const SnlsSearch *all, int64_t query, int64_t first, int64_t end, int64_t k)
{
    while (w->n < k) {
        int64_t best = -1;
        for (int64_t c = first * CELLS; c < end * CELLS; c++) {
            const double d = tensor_get(&all->dist, query * ALL + c);
            if (isfinite(d) && !w->taken[c] && (best < 0 || d < tensor_get(&all->dist, query * ALL + best))) best = c;
        }
        if (best < 0) return;
        want(w, best);
    }
}

static void check_list(const SnlsSearch *s, const SnlsSearch *all, int64_t query, int64_t place, int64_t k, const Wanted *w)
{
    for (int64_t i = 0; i < k; i++) {
        const int64_t at = query * s->dist.shape[5] + place + i, got = (int64_t)tensor_get(&s->index, at), c = i < w->n ? w->list[i] : -1;
        bool same = got == c && tensor_get(&s->dist, at) == (c < 0 ? INFINITY : tensor_get(&all->dist, query * ALL + c));
        for (int axis = 0; axis < 3; axis++) /* its own true offset, 0 where there is none */
            same = same && tensor_get(&s->offset, 3 * at + axis) == (c < 0 ? 0 : tensor_get(&all->offset, 3 * (query * ALL + c) + axis));
        CHECK(same, "anchor %d exclude %d topk %d k %d, query %d, place %d: candidate %d at distance %g, expected %d", (int)s->params.anchor,
              (int)s->params.exclude, (int)s->params.topk, (int)s->params.k, (int)query, (int)(place + i), (int)got, tensor_get(&s->dist, at), (int)c);
    }
}

static void check_combination(SnlsContext *ctx, int32_t anchor, int32_t exclude, int32_t topk, int32_t k)
{
    SnlsSearch s = make_search(anchor, exclude, topk, k, (uint64_t)(anchor * 100 + exclude * 10 + topk));
    const SnlsSearch all = list_all(ctx, &s, exclude), whole = list_all(ctx, &s, SNLS_EXCLUDE_NONE);
    if (!spec_run(ctx, &s, false)) return;
    for (int64_t q = 0; q < T * N * N; q++) {
        const bool each = topk == SNLS_TOPK_EACH;
        CHECK(exclude != SNLS_EXCLUDE_SELF || !isfinite(tensor_get(&all.dist, q * ALL + self_of(&whole, q))), "exclude self leaves the query in");
        for (int64_t group = 0; group < (each ? SLOTS : 1); group++) {
            Wanted w = {.n = 0};
            if (anchor == SNLS_ANCHOR_SELF && group == 0) want(&w, self_of(&all, q));
            for (int64_t slot = each ? group : 0; anchor == SNLS_ANCHOR_EACH && slot < (each ? group + 1 : SLOTS); slot++) want(&w, target_of(&all, q, slot));
            want_best(&w, &all, q, each ? group : 0, each ? group + 1 : SLOTS, k);
            check_list(&s, &all, q, each ? group * k : 0, k, &w);
        }
    }
    tensors_free();
}

static bool conflict(int32_t anchor, int32_t exclude, int32_t topk, int32_t k)
{
    if (anchor == SNLS_ANCHOR_SELF && exclude != SNLS_EXCLUDE_NONE) return true;
    if (anchor == SNLS_ANCHOR_EACH && exclude == SNLS_EXCLUDE_SELF) return true;
    return anchor == SNLS_ANCHOR_EACH && topk == SNLS_TOPK_ALL && k < SLOTS;
}

static void combinations(SnlsContext *ctx)
{
    static const int32_t ks[] = {1, 2, 3, 4, 9, 12, 27, 30};
    for (int32_t anchor = 0; anchor < 3; anchor++)
        for (int32_t exclude = 0; exclude < 3; exclude++)
            for (int32_t topk = 0; topk < 2; topk++)
                for (int i = 0; i < 8; i++)
                    if (!conflict(anchor, exclude, topk, ks[i])) check_combination(ctx, anchor, exclude, topk, ks[i]);
}

static void conflicts(SnlsContext *ctx)
{
    for (int32_t anchor = 0; anchor < 3; anchor++)
        for (int32_t exclude = 0; exclude < 3; exclude++)
            for (int32_t topk = 0; topk < 2; topk++)
                for (int32_t k = 1; k < 5; k++) {
                    SnlsSearch s = make_search(anchor, exclude, topk, k, 1);
                    const SnlsStatus status = snls_search_forward(ctx, &s), wanted = conflict(anchor, exclude, topk, k) ? SNLS_ERR_ARG : SNLS_OK;
                    CHECK(status == wanted, "anchor %d exclude %d topk %d k %d: status %d, expected %d", (int)anchor, (int)exclude, (int)topk, (int)k, (int)status, (int)wanted);
                    tensors_free();
                }
}

/* exclude frame with wt 0 leaves nothing at all. */
static void exclude_everything(SnlsContext *ctx)
{
    SnlsSearch s = make_search(SNLS_ANCHOR_NONE, SNLS_EXCLUDE_FRAME, SNLS_TOPK_ALL, 3, 2);
    s.params.wt = 0;
    s.flow.data = NULL;
    spec_outputs(&s, false);
    if (!spec_run(ctx, &s, false)) return;
    int64_t wrong = 0;
    for (int64_t i = 0; i < tensor_count(&s.dist); i++) wrong += tensor_get(&s.dist, i) != INFINITY || tensor_get(&s.index, i) != -1;
    CHECK(wrong == 0, "exclude frame with wt 0: %d places are valid", (int)wrong);
}

/* "Nearest the query itself", where slot 0 is shifted and no candidate is on the query: Euclidean, lower number on a tie. */
static void nearest_self(SnlsContext *ctx)
{
    static const struct { double x, y; int64_t want; } worked[] = {
        {0, 0, 4}, {0.5, 0, 3}, {-0.5, 0, 4}, {0.5, 0.5, 0}, {-0.5, 0.5, 1}, {2, 0, 3}, {0, 2, 1}, {-2, -2, 8}, {2, 2, 0}};
    for (int i = 0; i < 9; i++) {
        SnlsSearch s = make_search(SNLS_ANCHOR_SELF, SNLS_EXCLUDE_NONE, SNLS_TOPK_EACH, 2, 3);
        s.params.window = SNLS_WINDOW_CUT;
        spec_flow(&s, 3);
        for (int64_t q = 0; q < N * N; q++) {
            const int64_t at = AT(&s.flow, 0, 1, 0, q / N, q % N, 0);
            tensor_set(&s.flow, at, worked[i].x);
            tensor_set(&s.flow, at + 1, worked[i].y);
        }
        if (!spec_run(ctx, &s, false)) return;
        const int64_t got = (int64_t)tensor_get(&s.index, AT(&s.index, 0, 0, 1, 2, 2, 0));
        CHECK(got == worked[i].want, "flow (%g, %g): candidate %d is said to be nearest the query, expected %d", worked[i].x, worked[i].y, (int)got, (int)worked[i].want);
        tensors_free();
    }
}

/* An anchor whose distance is NaN is invalid: it is not kept, and the others move up. */
static void anchor_without_distance(SnlsContext *ctx)
{
    SnlsSearch s = make_search(SNLS_ANCHOR_SELF, SNLS_EXCLUDE_NONE, SNLS_TOPK_ALL, 27, 4);
    tensor_set(&s.key, AT(&s.key, 0, 1, 2, 2, 0), NAN);
    if (!spec_run(ctx, &s, false)) return;
    bool found = false;
    for (int64_t k = 0; k < 27; k++) {
        const int64_t at = AT(&s.index, 0, 0, 1, 2, 2, k);
        found = found || tensor_get(&s.index, at) == 4;
        CHECK((tensor_get(&s.index, at) < 0) == (k == 26), "place %d holds candidate %g", (int)k, tensor_get(&s.index, at));
    }
    CHECK(!found, "the query itself was kept, although its distance is NaN");
}

/* A key pixel that is NaN spoils the reads that need it, and none whose weight for it is 0. */
static void nan_behind_weight_zero(SnlsContext *ctx)
{
    SnlsSearchParams p;
    snls_search_defaults(&p);
    p.ws = 3;
    p.stride1 = 0.5;
    SnlsSearch s = spec_search(&p, 1, 1, 1, 7, 3);
    tensor_set(&s.key, AT(&s.key, 0, 0, 0, 4, 1), NAN);
    spec_outputs(&s, true);
    if (!spec_run(ctx, &s, true)) return;
    for (int64_t j = 0; j < 7; j++)
        for (int64_t c = 0; c < 3; c++) {
            const double x = j == 0 ? 0.5 * (double)c : j == 6 ? 5 + 0.5 * (double)c : (double)j + 0.5 * (double)(c - 1);
            const double d = tensor_get(&s.dist, j * 9 + 6 + c);
            CHECK(x > 3 && x < 5 ? d == INFINITY : d == 0, "NaN at 4: the candidate at %g has distance %g", x, d);
        }
}

int main(int argc, char **argv)
{
    static const Fact facts[] = {{"combinations", combinations}, {"conflicts", conflicts}, {"exclude_everything", exclude_everything},
                                 {"nearest_self", nearest_self}, {"anchor_without_distance", anchor_without_distance}, {"nan_behind_weight_zero", nan_behind_weight_zero}};
    spec_run_facts("test_spec_choice", facts, (int)(sizeof facts / sizeof *facts), argc, argv);
    return check_end();
}
