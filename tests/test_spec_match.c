/* test_spec_match.c: facts about search and refine that need no second implementation (docs/operators.md sections 2 and 8).
 *   test_spec_match [FACT] */
#include "spec.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static SnlsSearchParams defaults_of(void)
{
    SnlsSearchParams p;
    snls_search_defaults(&p);
    return p;
}

/* 8.4: with whole flow and step, bilinear reads the pixels themselves. Small integers: the two may sum in another order. */
static void bilinear_is_nearest(SnlsContext *ctx)
{
    Rng rng = {4};
    for (int round = 0; round < 12; round++) {
        SnlsSearchParams p = defaults_of();
        p.ws = (int32_t)rng_int(&rng, 1, 6); p.wt = 1; p.ps = (int32_t)rng_int(&rng, 1, 4); p.k = 5; p.stride1 = (double)rng_int(&rng, 1, 3);
        p.dist = round % 2; p.stride0 = (int32_t)rng_int(&rng, 1, 2); p.border = round / 2 % 2; p.window = round / 4 % 2;
        SnlsSearch a = spec_search(&p, 1, 3, 7, 9, 5);
        spec_small_integers(&a.query, &rng);
        spec_small_integers(&a.key, &rng);
        spec_flow(&a, 2);
        for (int64_t i = 0; i < tensor_count(&a.flow); i++) tensor_set(&a.flow, i, (double)rng_int(&rng, -20, 20));
        spec_outputs(&a, false);
        SnlsSearch b = a;
        b.params.interp = SNLS_INTERP_NEAREST;
        spec_outputs(&b, false);
        if (!spec_run(ctx, &a, false) || !spec_run(ctx, &b, false)) return;
        CHECK(same_bits(&a.dist, &b.dist) && same_bits(&a.offset, &b.offset) && same_bits(&a.index, &b.index), "round %d: bilinear and nearest differ", round);
        tensors_free();
    }
}

/* Nearest rounds flow half to even before it is added. */
static void nearest_rounds_to_even(SnlsContext *ctx)
{
    static const double flow[] = {0.5, 1.5, 2.5, -0.5, -1.5, 0.49, 3.7}, want[] = {0, 2, 2, 0, -2, 0, 4};
    SnlsSearchParams p = defaults_of();
    p.ws = 1;
    p.interp = SNLS_INTERP_NEAREST;
    SnlsSearch s = spec_search(&p, 1, 1, 1, 15, 1);
    spec_flow(&s, 1);
    spec_outputs(&s, false);
    for (int i = 0; i < 7; i++) {
        tensor_set(&s.flow, 2 * 7, flow[i]);
        if (!spec_run(ctx, &s, false)) return;
        CHECK(tensor_get(&s.offset, 3 * 7 + 2) == want[i], "flow %g moves %g pixels, expected %g", flow[i], tensor_get(&s.offset, 3 * 7 + 2), want[i]);
    }
}

/* 8.5: a key that is the query moved by d; flow is d with an error that the window can make good. */
static void shift_is_found(SnlsContext *ctx)
{
    enum { N = 16, DY = 2, DX = -3 };
    Rng rng = {5};
    SnlsSearchParams p = defaults_of();
    p.ws = 5; p.ps = 3; p.k = 1;
    SnlsSearch s = spec_search(&p, 1, 1, N, N, 4);
    spec_random(&s.query, &rng);
    spec_random(&s.key, &rng);
    for (int64_t y = 0; y < N; y++)
        for (int64_t x = 0; x < N; x++)
            for (int64_t c = 0; c < 4; c++)
                if (y + DY < N && x + DX >= 0)
                    tensor_set(&s.key, AT(&s.key, 0, 0, y + DY, x + DX, c), tensor_get(&s.query, AT(&s.query, 0, 0, y, x, c)));
    spec_flow(&s, 1);
    for (int64_t i = 0; i < N * N; i++) {
        tensor_set(&s.flow, 2 * i, DX + (double)rng_int(&rng, -2, 2));
        tensor_set(&s.flow, 2 * i + 1, DY + (double)rng_int(&rng, -2, 2));
    }
    spec_outputs(&s, false);
    if (!spec_run(ctx, &s, false)) return;
    for (int64_t y = 2; y < N - 5; y++)
        for (int64_t x = 6; x < N - 2; x++) {
            const int64_t q = y * N + x;
            CHECK(tensor_get(&s.dist, q) == 0 && tensor_get(&s.offset, 3 * q + 1) == DY && tensor_get(&s.offset, 3 * q + 2) == DX,
                  "(%d,%d): distance %g, offset (%g, %g)", (int)y, (int)x, tensor_get(&s.dist, q), tensor_get(&s.offset, 3 * q + 1),
                  tensor_get(&s.offset, 3 * q + 2));
        }
}

/* 8.5: on a ramp, which bilinear reads exactly, a shift between the pixels is found. */
static void ramp_shift_is_found(SnlsContext *ctx)
{
    enum { N = 14 };
    const double dy = 0.75, dx = -1.25;
    SnlsSearchParams p = defaults_of();
    p.ws = 9; p.ps = 3; p.stride1 = 0.25;
    SnlsSearch s = spec_search(&p, 1, 1, N, N, 2);
    for (int64_t i = 0; i < N * N; i++) {
        const double y = (double)(i / N), x = (double)(i % N);
        tensor_set(&s.query, 2 * i, y);
        tensor_set(&s.query, 2 * i + 1, x);
        tensor_set(&s.key, 2 * i, y - dy);
        tensor_set(&s.key, 2 * i + 1, x - dx);
    }
    spec_flow(&s, 1);
    for (int64_t i = 0; i < N * N; i++) tensor_set(&s.flow, 2 * i, -1);
    for (int64_t i = 0; i < N * N; i++) tensor_set(&s.flow, 2 * i + 1, 1);
    spec_outputs(&s, false);
    if (!spec_run(ctx, &s, false)) return;
    for (int64_t y = 2; y < N - 3; y++)
        for (int64_t x = 4; x < N - 2; x++) {
            const int64_t q = y * N + x;
            CHECK(tensor_get(&s.dist, q) == 0 && tensor_get(&s.offset, 3 * q + 1) == dy && tensor_get(&s.offset, 3 * q + 2) == dx,
                  "(%d,%d): distance %g, offset (%g, %g), expected (%g, %g)", (int)y, (int)x, tensor_get(&s.dist, q), tensor_get(&s.offset, 3 * q + 1),
                  tensor_get(&s.offset, 3 * q + 2), dy, dx);
        }
}

static SnlsSearch tied_search(Rng *rng, const SnlsSearchParams *p, int64_t T, bool broken)
{
    SnlsSearch s = spec_search(p, 1, T, 6, 7, 2 * p->heads);
    spec_small_integers(&s.query, rng);
    spec_small_integers(&s.key, rng);
    for (int i = 0; broken && i < 9; i++) tensor_set(&s.key, rng_int(rng, 0, tensor_count(&s.key) - 1), NAN);
    spec_flow(&s, 2 * p->wt + 1);
    for (int64_t i = 0; i < tensor_count(&s.flow); i++) tensor_set(&s.flow, i, (double)rng_int(rng, -12, 12) / 4);
    return s;
}

/* 8.6: refine with wr 1 of a search is that search. */
static void refine_of_search(SnlsContext *ctx)
{
    Rng rng = {6};
    for (int round = 0; round < 8; round++) {
        SnlsSearchParams p = defaults_of();
        p.ws = 3; p.wt = 1; p.k = 7; p.heads = 2; p.ps = 1 + round % 3; p.stride1 = round % 2 ? 0.5 : 1; p.dist = round / 2 % 2; p.border = round / 4 % 2;
        SnlsSearch s = tied_search(&rng, &p, 3, false);
        spec_outputs(&s, false);
        if (!spec_run(ctx, &s, false)) return;
        SnlsRefine r;
        memset(&r, 0, sizeof r);
        snls_refine_defaults(&r.params);
        r.params.k = p.k; r.params.heads = 2; r.params.ps = p.ps; r.params.dist = p.dist; r.params.border = p.border;
        r.query = s.query; r.key = s.key; r.centre = s.offset;
        r.dist = spec_tensor(SNLS_F32, s.dist.ndim, s.dist.shape);
        r.offset = spec_tensor(SNLS_F32, s.offset.ndim, s.offset.shape);
        CHECK(snls_refine_forward(ctx, &r) == SNLS_OK, "%s", snls_error(ctx));
        CHECK(same_bits(&s.dist, &r.dist) && same_bits(&s.offset, &r.offset), "round %d: refine with wr 1 differs from its search", round);
        tensors_free();
    }
}

/* 8.6: slot by slot, topk each is the paired search of the query's frame against the slot's. */
static void paired_is_each(SnlsContext *ctx)
{
    enum { T = 5, SLOTS = 3, K = 4, Q = 6 * 7 };
    Rng rng = {66};
    SnlsSearchParams p = defaults_of();
    p.ws = 3; p.wt = 1; p.k = K; p.ps = 2; p.stride1 = 0.5; p.topk = SNLS_TOPK_EACH;
    SnlsSearch s = tied_search(&rng, &p, T, false);
    spec_outputs(&s, false);
    if (!spec_run(ctx, &s, false)) return;
    p.wt = 0;
    p.topk = SNLS_TOPK_ALL;
    for (int64_t t = 0; t < T; t++)
        for (int64_t slot = 0; slot < SLOTS; slot++) {
            SnlsSearch one = spec_search(&p, 1, 1, 6, 7, 2);
            const int64_t frame = model_frame(t, slot, 1, T);
            spec_flow(&one, 1);
            spec_outputs(&one, false);
            for (int64_t i = 0; i < Q * 2; i++) {
                tensor_set(&one.query, i, tensor_get(&s.query, t * Q * 2 + i));
                tensor_set(&one.key, i, tensor_get(&s.key, frame * Q * 2 + i));
                tensor_set(&one.flow, i, tensor_get(&s.flow, (t * SLOTS + slot) * Q * 2 + i));
            }
            if (!spec_run(ctx, &one, false)) return;
            for (int64_t i = 0; i < Q * K; i++) {
                const int64_t at = ((t * Q + i / K) * SLOTS + slot) * K + i % K;
                CHECK(tensor_get(&s.dist, at) == tensor_get(&one.dist, i) && tensor_get(&s.offset, 3 * at + 1) == tensor_get(&one.offset, 3 * i + 1) &&
                          tensor_get(&s.offset, 3 * at + 2) == tensor_get(&one.offset, 3 * i + 2) && (int64_t)tensor_get(&s.offset, 3 * at) == frame - t,
                      "time %d slot %d place %d: paired search differs", (int)t, (int)slot, (int)i);
            }
        }
}

/* 8.7: the kept k are the first k of all candidates in the total order, k from 1 to beyond the valid ones. */
typedef struct Entry { double dist; int64_t number; bool larger; } Entry;

static int by_order(const void *a, const void *b)
{
    const Entry *x = a, *y = b;
    if (x->dist != y->dist) return (x->dist < y->dist) != x->larger ? -1 : 1;
    return x->number < y->number ? -1 : x->number > y->number;
}

static bool same_as_sorted(const SnlsSearch *all, const SnlsSearch *s, int64_t query, int64_t candidates)
{
    Entry *list = check_alloc(candidates, sizeof *list);
    int64_t n = 0;
    for (int64_t i = 0; i < candidates; i++) {
        const double d = tensor_get(&all->dist, query * candidates + i);
        if (isfinite(d)) list[n++] = (Entry){d, i, s->params.dist == SNLS_DIST_PROD};
    }
    qsort(list, (size_t)n, sizeof *list, by_order);
    bool same = true;
    for (int64_t k = 0; k < s->params.k; k++) {
        const int64_t at = query * s->params.k + k, index = (int64_t)tensor_get(&s->index, at);
        same = same && index == (k < n ? list[k].number : -1);
        if (k < n) same = same && tensor_get(&s->dist, at) == list[k].dist;
        for (int c = 0; k < n && c < 3; c++)
            same = same && tensor_get(&s->offset, 3 * at + c) == tensor_get(&all->offset, 3 * (query * candidates + list[k].number) + c);
    }
    return same;
}

static void topk_is_sort(SnlsContext *ctx)
{
    static const int32_t ks[] = {1, 2, 3, 7, 8, 9, 16, 17, 26, 27, 28, 40};
    Rng rng = {7};
    for (int round = 0; round < 48; round++) {
        SnlsSearchParams p = defaults_of();
        p.ws = 3; p.wt = 1; p.k = ks[round % 12]; p.dist = round / 12 % 2; p.window = round / 24; p.exclude = round % 3;
        SnlsSearch s = tied_search(&rng, &p, 3, round % 4 == 1), all = s;
        spec_outputs(&s, false);
        spec_outputs(&all, true);
        if (!spec_run(ctx, &s, false) || !spec_run(ctx, &all, true)) return;
        for (int64_t q = 0; q < 3 * 6 * 7; q++) CHECK(same_as_sorted(&all, &s, q, 27), "k %d, query %d: not the first k of all in order", (int)p.k, (int)q);
        tensors_free();
    }
}

/* index is optional, and S = 0 is no flow at all. */
static void optional_tensors(SnlsContext *ctx)
{
    Rng rng = {8};
    SnlsSearchParams p = defaults_of();
    p.ws = 4; p.k = 3;
    SnlsSearch a = tied_search(&rng, &p, 2, true);
    a.flow.data = NULL;
    spec_outputs(&a, false);
    SnlsSearch b = a, c = a;
    spec_outputs(&b, false);
    spec_outputs(&c, false);
    b.index.data = NULL;
    spec_flow(&c, 0);
    if (!spec_run(ctx, &a, false) || !spec_run(ctx, &b, false) || !spec_run(ctx, &c, false)) return;
    CHECK(same_bits(&a.dist, &b.dist) && same_bits(&a.offset, &b.offset), "without index the result differs");
    CHECK(same_bits(&a.dist, &c.dist) && same_bits(&a.offset, &c.offset) && same_bits(&a.index, &c.index), "a flow of no slots differs from no flow");
}

/* 8.12: more than 65535 batches and heads; more than 2^31 candidates, of which one a query is valid (cpu: ref lists them all). */
static void many(SnlsContext *ctx)
{
    SnlsSearchParams p = defaults_of();
    p.ws = 2;
    p.heads = 300;
    Rng rng = {9};
    SnlsSearch s = spec_search(&p, 300, 1, 1, 1, 300);
    spec_small_integers(&s.query, &rng);
    spec_small_integers(&s.key, &rng);
    spec_outputs(&s, false);
    if (!spec_run(ctx, &s, false)) return;
    int64_t wrong = 0;
    for (int64_t i = 0; i < 90000; i++) {
        const double d = tensor_get(&s.query, i) - tensor_get(&s.key, i);
        wrong += tensor_get(&s.dist, i) != d * d || tensor_get(&s.index, i) != 3;
    }
    CHECK(wrong == 0, "90000 batches and heads: %d queries are wrong", (int)wrong);
    if (!strcmp(snls_backend_name(ctx), "ref")) return;
    p.ws = 32767;
    p.heads = 1;
    SnlsSearch large = spec_search(&p, 1, 3, 1, 2, 1);
    spec_outputs(&large, false);
    if (!spec_run(ctx, &large, false)) return;
    for (int64_t i = 0; i < 6; i++)
        CHECK(tensor_get(&large.dist, i) == 0 && tensor_get(&large.index, i) >= 32766.0 * 32767, "6.4e9 candidates: query %d keeps number %.0f at distance %g", (int)i,
              tensor_get(&large.index, i), tensor_get(&large.dist, i));
}

int main(int argc, char **argv)
{
    static const Fact facts[] = {{"bilinear_is_nearest", bilinear_is_nearest}, {"nearest_rounds_to_even", nearest_rounds_to_even},
                                 {"shift_is_found", shift_is_found}, {"ramp_shift_is_found", ramp_shift_is_found}, {"refine_of_search", refine_of_search},
                                 {"paired_is_each", paired_is_each}, {"topk_is_sort", topk_is_sort}, {"optional_tensors", optional_tensors}, {"many", many}};
    spec_run_facts("test_spec_match", facts, (int)(sizeof facts / sizeof *facts), argc, argv);
    return check_end();
}
