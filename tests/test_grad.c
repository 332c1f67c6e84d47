/* test_grad.c: backward of ref against differences of its forward, in double, away from kinks; and the documented sides at them.
 *   test_grad [--op NAME] [SEED [COUNT]] */
/* ctest: sanitized=30 args=1 60 */
/* ctest: name=many label=slow timeout=1200 args=100000 60 */
#include "case.h"
#include <snls/snls.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Positions move by 2h at most; draw_motion keeps 0.025 from every kink. */
static const double h = 1e-4;

static int rejected;

/* L = sum over outputs of gradient * output; neighbours that are not there (infinite) do not count. */
static double loss(Call *call, double *magnitude)
{
    double sum = 0;
    for (const Slot *s = call->op->test->slots; s->name; s++) {
        const SnlsTensor *out = call_tensor(call, s), *g = s->role == ROLE_OUT ? call_find(call, ROLE_GRAD_IN, s->name) : NULL;
        for (int64_t i = g && g->data ? tensor_count(out) : 0; i-- > 0;) {
            const double x = tensor_get(out, i);
            if (!isfinite(x)) continue;
            sum += tensor_get(g, i) * x;
            *magnitude += fabs(tensor_get(g, i) * x);
        }
    }
    return sum;
}

static uint64_t choice(Call *call)
{
    const SnlsTensor *index = call_find(call, ROLE_OUT, "index");
    return index && index->data ? tensor_hash(index) : 0;
}

typedef struct Probe { Call *call; SnlsContext *ctx; const SnlsTensor *x; const double *at, *v; uint64_t chosen; bool moved; double magnitude; } Probe;

/* L at x + step*v */
static double probe(Probe *p, double step)
{
    const int64_t n = tensor_count(p->x);
    for (int64_t i = 0; i < n; i++) tensor_set(p->x, i, p->at[i] + step * p->v[i]);
    p->call->op->forward(p->ctx, p->call);
    p->moved = p->moved || choice(p->call) != p->chosen; /* selection has no gradient */
    p->magnitude = 0;
    return loss(p->call, &p->magnitude);
}

/* Five points: exact up to the fourth power of h. */
static double difference(Probe *p)
{
    const double far = probe(p, 2 * h) - probe(p, -2 * h), near = probe(p, h) - probe(p, -h);
    for (int64_t i = tensor_count(p->x); i-- > 0;) tensor_set(p->x, i, p->at[i]);
    return (8 * near - far) / (12 * h);
}

static void check_direction(Probe *p, const char *name, const double *gradient)
{
    double want = 0, scale = 0;
    for (int64_t i = tensor_count(p->x); i-- > 0;) {
        want += gradient[i] * p->v[i];
        scale += fabs(gradient[i] * p->v[i]);
    }
    p->moved = false;
    const double got = difference(p), tolerance = 1e-7 * scale + 1e-9 * (1 + p->magnitude);
    if (p->moved) { rejected++; return; }
    CHECK(fabs(got - want) <= tolerance, "%s: gradient of %s: the difference is %.10g, backward says %.10g (within %.2g)", p->call->op->name,
          name, got, want, tolerance);
}

static void check_input(Call *call, SnlsContext *ctx, const Slot *slot, const double *gradient)
{
    const SnlsTensor *x = call_find(call, ROLE_IN, slot->name);
    const int64_t n = tensor_count(x);
    double *v = check_alloc(n, sizeof *v);
    Probe p = {.call = call, .ctx = ctx, .x = x, .at = tensor_doubles(x), .v = v};
    call->op->forward(ctx, call);
    p.chosen = choice(call);
    for (int64_t i = 0; i < n; i++) v[i] = rng_real(&call->rng, -1, 1);
    check_direction(&p, slot->name, gradient);
    for (int one = 0; n && one < 4; one++) {
        for (int64_t i = 0; i < n; i++) v[i] = 0;
        v[rng_int(&call->rng, 0, n - 1)] = 1;
        check_direction(&p, slot->name, gradient);
    }
}

/* A broadcast axis has several gradients at one place: such an input cannot be moved element by element. */
static bool is_broadcast(const SnlsTensor *t)
{
    for (int32_t i = 0; i < t->ndim; i++)
        if (t->stride[i] == 0 && t->shape[i] > 1) return true;
    return false;
}

static void run_case(SnlsContext *ctx, const Operator *op, uint64_t seed)
{
    Call call;
    call_make(&call, op, seed, CALL_SMOOTH);
    check_repeat("test_grad --op %s %llu", op->name, (unsigned long long)seed);
    if (op->test->margin && op->test->margin(&call) < 4 * h * 100) { /* a read of a read may move a hundred times as far */
        rejected++;
        tensors_free();
        return;
    }
    const bool ran = CHECK(call_forward(&call, ctx) >= 0, "%s forward: %s", op->name, snls_error(ctx)) &&
                     CHECK(call_backward(&call, ctx) >= 0, "%s backward: %s", op->name, snls_error(ctx));
    for (const Slot *s = op->test->slots; ran && s->name; s++) {
        const SnlsTensor *g = call_tensor(&call, s);
        if (s->role != ROLE_GRAD_OUT || !g->data || is_broadcast(call_find(&call, ROLE_IN, s->name))) continue;
        double *gradient = tensor_doubles(g);
        for (int64_t i = 0; i < tensor_count(g); i++) gradient[i] -= tensor_was(g, i); /* it was added */
        check_input(&call, ctx, s, gradient);
    }
    tensors_free();
}

/* ---- sides at kinks: one row of L pixels, one query a pixel, ws 1 and ps 1, so that p = reflect(b + flow) ---- */

typedef struct Row { SnlsSearch s; SnlsSearchGrad g; } Row;

static Row row_of(Rng *rng, int64_t L, int32_t dtype)
{
    const int64_t video[5] = {1, 1, 1, L, 2}, flow[6] = {1, 1, 1, 1, L, 2}, shape[7] = {1, 1, 1, 1, L, 1, 3};
    Row r;
    memset(&r, 0, sizeof r);
    snls_search_defaults(&r.s.params);
    r.s.params.ws = 1;
    r.s.query = tensor_new(rng, dtype, 5, video, LAYOUT_PLAIN);
    r.s.key = tensor_new(rng, dtype, 5, video, LAYOUT_PLAIN);
    r.s.flow = tensor_new(rng, dtype, 6, flow, LAYOUT_PLAIN);
    r.s.dist = tensor_new(rng, dtype, 6, shape, LAYOUT_PLAIN);
    r.s.offset = tensor_new(rng, dtype, 7, shape, LAYOUT_PLAIN);
    r.s.index = tensor_new(rng, SNLS_I32, 6, shape, LAYOUT_PLAIN);
    r.g.dist = tensor_new(rng, dtype, 6, shape, LAYOUT_PLAIN);
    r.g.flow = tensor_new(rng, dtype, 6, flow, LAYOUT_PLAIN);
    for (int64_t i = 0; i < 2 * L; i++) {
        tensor_set(&r.s.query, i, (double)rng_int(rng, -3, 3));
        tensor_set(&r.s.key, i, (double)rng_int(rng, -3, 3));
        tensor_set(&r.s.flow, i, 0);
        tensor_set(&r.g.flow, i, 0);
        tensor_set(&r.g.dist, i / 2, 1);
    }
    return r;
}

static double row_dist(SnlsContext *ctx, const Row *r, int64_t j, double x)
{
    tensor_set(&r->s.flow, 2 * j, x - (double)j);
    snls_search_forward(ctx, &r->s);
    return tensor_get(&r->s.dist, j);
}

/* Whole positions from three frames left to three right: right-sided, but left-sided strictly inside a descending branch. */
static void check_sides(SnlsContext *ctx, int64_t L)
{
    Rng rng = {(uint64_t)L};
    const Row r = row_of(&rng, L, SNLS_F64);
    const int64_t j = L / 2;
    for (int64_t x = -3 * L; x <= 3 * L; x++) {
        double slope = 0;
        model_reflect((double)x, L, &slope);
        const double here = row_dist(ctx, &r, j, (double)x), right = row_dist(ctx, &r, j, (double)x + 1e-6), left = row_dist(ctx, &r, j, (double)x - 1e-6);
        row_dist(ctx, &r, j, (double)x);
        tensor_set(&r.g.flow, 2 * j, 0);
        CHECK(snls_search_backward(ctx, &r.s, &r.g) == SNLS_OK, "search backward: %s", snls_error(ctx));
        const double got = tensor_get(&r.g.flow, 2 * j), want = L == 1 ? 0 : slope > 0 ? (right - here) * 1e6 : (here - left) * 1e6;
        CHECK(fabs(got - want) < 1e-3, "L %d, position %d: d dist / d flow is %g, the %s difference is %g", (int)L, (int)x, got,
              slope > 0 ? "right" : "left", want);
        CHECK(tensor_get(&r.g.flow, 2 * j + 1) == 0, "an axis of length 1 has gradient %g", tensor_get(&r.g.flow, 2 * j + 1));
    }
    tensors_free();
}

/* ps 3 at pixel 0: the pixel at -1 is read at 1 with its slope turned round: 2(-K1(K2-K1) + K0(K1-K0) + K1(K2-K1)). */
static void check_reflected_patch(const char *backend, int32_t dtype)
{
    Rng rng = {7};
    SnlsContext *ctx = context_open(backend, 0, 1);
    Row r = row_of(&rng, 4, dtype);
    r.s.params.ps = 3;
    const double k[4] = {1, 3, -2, 5};
    for (int64_t i = 0; i < 8; i++) {
        tensor_set(&r.s.query, i, 0);
        tensor_set(&r.s.key, i, i % 2 ? 0 : k[i / 2]);
    }
    CHECK(snls_search_forward(ctx, &r.s) == SNLS_OK && snls_search_backward(ctx, &r.s, &r.g) == SNLS_OK, "search: %s", snls_error(ctx));
    const double want = 3 * 2 * (-k[1] * (k[2] - k[1]) + k[0] * (k[1] - k[0]) + k[1] * (k[2] - k[1])); /* three patch rows, all row 0 */
    CHECK(tensor_get(&r.g.flow, 0) == want, "%s: a patch over the border pulls %g, expected %g", backend, tensor_get(&r.g.flow, 0), want);
    tensors_free();
    snls_close(&ctx);
}

int main(int argc, char **argv)
{
    const Operator *only = NULL;
    int first = 1;
    if (argc > 2 && !strcmp(argv[1], "--op")) {
        only = operator_named(argv[2]);
        first = 3;
    }
    const uint64_t seed = argc > first ? strtoull(argv[first], NULL, 10) : 1;
    const uint64_t count = argc > first + 1 ? strtoull(argv[first + 1], NULL, 10) : argc > first ? 1 : 60;
    SnlsContext *ctx = context_open("ref", 0, 1);
    for (uint64_t i = seed; i < seed + count; i++)
        for (int n = 0; n < operator_count; n++)
            if (!only || only == &operators[n]) run_case(ctx, &operators[n], i);
    check_repeat("test_grad");
    for (int64_t L = 1; L < 8; L++) check_sides(ctx, L);
    check_reflected_patch("ref", SNLS_F64);
    check_reflected_patch("cpu", SNLS_F32);
    snls_close(&ctx);
    printf("%d differences rejected: too near a kink or a change of choice\n", rejected);
    return check_end();
}
