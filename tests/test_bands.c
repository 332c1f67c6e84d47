/* test_bands.c: aggregations, search backward and flow_compose at sizes where the cpu backend cuts frames into several bands of rows and tiles
 * of columns, against ref. test_ops draws from the whole parameter space, where frames are too small for that. Features,
 * weights and places are such that every sum is exact in f32, so nothing may differ, whatever the order of the terms; only
 * where gather divides by the number of patches some roundings are allowed.
 *   test_bands [SEED [COUNT]] */
/* ctest: sanitized=4 args=1 12 */
/* ctest: name=many label=slow timeout=900 args=1000 5 */
#include "check.h"
#include "case.h"
#include <math.h>
#include <snls/snls.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 8 };

/* What a call writes, by name; the values are those of the first context that ran it. */
typedef struct Written {
    const char *name;
    const SnlsTensor *tensor;
    double *want;
} Written;

typedef struct Job {
    Written written[MOST];
    int count;
    bool divides;
} Job;

typedef struct Size { int64_t T, H, W, F, K; } Size;

static SnlsTensor whole_numbers(Rng *rng, int32_t ndim, const int64_t *shape, int low, int high, double unit)
{
    const SnlsTensor t = tensor_new(rng, SNLS_F32, ndim, shape, LAYOUT_PLAIN);
    for (int64_t i = 0; i < tensor_count(&t); i++) tensor_set(&t, i, unit * (double)rng_int(rng, low, high));
    return t;
}

static void zero(const SnlsTensor *t)
{
    for (int64_t i = 0; i < tensor_count(t); i++) tensor_set(t, i, 0);
}

static void add_written(Job *job, const char *name, const SnlsTensor *t) { job->written[job->count++] = (Written){name, t, NULL}; }

static bool same(double got, double want, double slack) { return got == want || fabs(got - want) <= slack || (isnan(got) && isnan(want)); }

/* The first run says what is wanted; the others must have it. */
static void compare(Job *job, const char *who)
{
    for (Written *w = job->written; w < job->written + job->count; w++) {
        if (!w->want) {
            w->want = tensor_doubles(w->tensor);
            continue;
        }
        int64_t wrong = 0, first = -1;
        double slack = 0;
        for (int64_t i = 0; job->divides && i < tensor_count(w->tensor); i++)
            if (isfinite(w->want[i])) slack = fmax(slack, 16 * EPS_F32 * fabs(w->want[i]));
        for (int64_t i = 0; i < tensor_count(w->tensor); i++) {
            if (same(tensor_get(w->tensor, i), w->want[i], slack)) continue;
            if (!wrong++) first = i;
        }
        CHECK(!wrong, "%s %s: %lld differ, first [%lld] is %.9g, want %.9g", who, w->name, (long long)wrong, (long long)first,
              first < 0 ? 0 : tensor_get(w->tensor, first), first < 0 ? 0 : w->want[first]);
    }
}

typedef SnlsStatus Run(SnlsContext *ctx, void *call);

/* ref, then cpu at every level on one to several threads. */
static void run_everywhere(Job *job, Run *run, void *call, const char *op)
{
    char who[80];
    SnlsContext *ref = context_open("ref", 0, 1);
    CHECK(run(ref, call) >= 0, "%s: %s", op, snls_error(ref));
    compare(job, op);
    snls_close(&ref);
    for (int32_t level = SNLS_CPU_C; level <= SNLS_CPU_AVX512; level++)
        for (int32_t threads = 1; threads < 6; threads += level == SNLS_CPU_AVX512 ? 1 : 3) {
            SnlsContext *cpu = context_open("cpu", level, threads);
            for (Written *w = job->written; w < job->written + job->count; w++) zero(w->tensor);
            CHECK(run(cpu, call) >= 0, "%s: %s", op, snls_error(cpu));
            snprintf(who, sizeof who, "%s, level %d, %d threads", op, (int)level, (int)threads);
            compare(job, who);
            snls_close(&cpu);
        }
}

/* Sums that are rounded have the same bits for every number of threads, whatever is done at once or twice for it. given: what numbers are drawn for; NULL ends it. */
static void check_bits(Job *job, Run *run, void *call, const SnlsTensor *const *given, Rng *rng, const char *op)
{
    job->divides = false;
    for (; *given; given++) tensor_fill(*given, rng, -1, 1);
    for (int32_t level = SNLS_CPU_C; level <= SNLS_CPU_AVX512; level++) {
        for (Written *w = job->written; w < job->written + job->count; w++) w->want = NULL;
        for (int32_t threads = 1; threads <= 5; threads += level == SNLS_CPU_AVX512 ? 2 : 3) {
            char who[80];
            SnlsContext *cpu = context_open("cpu", level, threads);
            for (Written *w = job->written; w < job->written + job->count; w++) zero(w->tensor);
            CHECK(run(cpu, call) >= 0, "%s: %s", op, snls_error(cpu));
            snprintf(who, sizeof who, "%s, rounded, level %d, %d threads", op, (int)level, (int)threads);
            compare(job, who);
            snls_close(&cpu);
        }
    }
}

/* ---- aggregations ---- */

typedef struct Gathering {
    SnlsGather s;
    SnlsGatherGrad g;
    bool stack;
} Gathering;

static SnlsStatus run_gather(SnlsContext *ctx, void *call)
{
    Gathering *c = call;
    const SnlsStatus status = (c->stack ? snls_gather_forward : snls_gather_add_forward)(ctx, &c->s);
    return status < 0 ? status : (c->stack ? snls_gather_backward : snls_gather_add_backward)(ctx, &c->s, &c->g);
}

typedef struct Scattering {
    SnlsScatterAdd s;
    SnlsScatterAddGrad g;
} Scattering;

static SnlsStatus run_scatter(SnlsContext *ctx, void *call)
{
    Scattering *c = call;
    const SnlsStatus status = snls_scatter_add_forward(ctx, &c->s);
    return status < 0 ? status : snls_scatter_add_backward(ctx, &c->s, &c->g);
}

/* Small and wide enough: a column of pixels counts frames * (9 + ps) * F floats against the cache. */
static Size draw_size_of(Rng *rng, int64_t ps)
{
    if (rng_one_in(rng, 2)) return (Size){rng_int(rng, 1, 2), rng_int(rng, 66, 140), rng_int(rng, 8, 20), rng_int(rng, 1, 9), rng_int(rng, 1, 3)};
    const int64_t T = rng_int(rng, 2, 3), W = rng_int(rng, 60, 110);
    return (Size){T, rng_int(rng, 5, 12), W, 262144 / (T * (9 + ps) * (W / 2)), rng_int(rng, 1, 12)};
}

static void draw_params_of(Rng *rng, SnlsGatherParams *p)
{
    p->ps = (int32_t)RNG_PICK(rng, 1, 1, 2, 3, 3, 5);
    p->stride0 = (int32_t)RNG_PICK(rng, 1, 1, 1, 2);
    p->dilation = (int32_t)RNG_PICK(rng, 1, 1, 1, 2);
    p->border = rng_one_in(rng, 3);
}

/* Places in halves of pixels, most of them near. */
static void draw_offsets(Rng *rng, const SnlsTensor *t)
{
    for (int64_t i = 0; i < tensor_count(t); i++) {
        const int64_t far = rng_one_in(rng, 40) ? 60 : 6;
        tensor_set(t, i, i % 3 ? 0.5 * (double)rng_int(rng, -far, far) : (double)rng_int(rng, -2, 2));
    }
}

/* ... and then anywhere between pixels. */
static void draw_fractions(Rng *rng, const SnlsTensor *t)
{
    for (int64_t i = 0; i < tensor_count(t); i++)
        if (i % 3) tensor_set(t, i, tensor_get(t, i) + rng_real(rng, -0.25, 0.25));
}

static void check_gather(Rng *rng, bool stack)
{
    Gathering c;
    memset(&c, 0, sizeof c);
    c.stack = stack;
    (stack ? snls_gather_defaults : snls_gather_add_defaults)(&c.s.params);
    draw_params_of(rng, &c.s.params);
    const Size z = draw_size_of(rng, c.s.params.ps);
    const int64_t step = c.s.params.stride0, video[5] = {1, z.T, z.H, z.W, z.F}, layers[7] = {1, 1, z.K, z.T, z.H, z.W, z.F};
    const int64_t field[7] = {1, 1, z.T, (z.H + step - 1) / step, (z.W + step - 1) / step, z.K, 3};
    c.s.value = whole_numbers(rng, 5, video, -8, 8, 1);
    c.s.weight = whole_numbers(rng, 6, field, -4, 4, 0.25);
    c.s.offset = whole_numbers(rng, 7, field, 0, 0, 1);
    draw_offsets(rng, &c.s.offset);
    c.s.out = whole_numbers(rng, stack ? 7 : 5, stack ? layers : video, 0, 0, 1);
    c.g.out = whole_numbers(rng, stack ? 7 : 5, stack ? layers : video, -4, 4, 1);
    c.g.value = whole_numbers(rng, 5, video, 0, 0, 1);
    c.g.weight = whole_numbers(rng, 6, field, 0, 0, 1);
    c.g.offset = whole_numbers(rng, 7, field, 0, 0, 1);
    Job job = {.divides = c.s.params.ps > 1};
    add_written(&job, "out", &c.s.out);
    add_written(&job, "gradient of value", &c.g.value);
    add_written(&job, "gradient of weight", &c.g.weight);
    add_written(&job, "gradient of offset", &c.g.offset);
    run_everywhere(&job, run_gather, &c, stack ? "gather" : "gather_add");
    draw_fractions(rng, &c.s.offset);
    check_bits(&job, run_gather, &c, (const SnlsTensor *const[]){&c.s.value, &c.s.weight, &c.g.out, NULL}, rng, stack ? "gather" : "gather_add");
}

static void check_scatter(Rng *rng)
{
    Scattering c;
    memset(&c, 0, sizeof c);
    snls_scatter_add_defaults(&c.s.params);
    draw_params_of(rng, &c.s.params);
    const Size z = draw_size_of(rng, c.s.params.ps);
    const int64_t step = c.s.params.stride0, video[5] = {1, z.T, z.H, z.W, z.F}, totals[5] = {1, z.T, z.H, z.W, 1};
    const int64_t field[7] = {1, 1, z.T, (z.H + step - 1) / step, (z.W + step - 1) / step, z.K, 3};
    c.s.value = whole_numbers(rng, 5, video, -8, 8, 1);
    c.s.weight = whole_numbers(rng, 6, field, -4, 4, 0.25);
    c.s.offset = whole_numbers(rng, 7, field, 0, 0, 1);
    draw_offsets(rng, &c.s.offset);
    c.s.out = whole_numbers(rng, 5, video, 0, 0, 1);
    c.s.total = whole_numbers(rng, 5, totals, 0, 0, 1);
    c.g.out = whole_numbers(rng, 5, video, -4, 4, 1);
    c.g.total = whole_numbers(rng, 5, totals, -4, 4, 1);
    c.g.value = whole_numbers(rng, 5, video, 0, 0, 1);
    c.g.weight = whole_numbers(rng, 6, field, 0, 0, 1);
    c.g.offset = whole_numbers(rng, 7, field, 0, 0, 1);
    Job job = {.divides = false};
    add_written(&job, "out", &c.s.out);
    add_written(&job, "total", &c.s.total);
    add_written(&job, "gradient of value", &c.g.value);
    add_written(&job, "gradient of weight", &c.g.weight);
    add_written(&job, "gradient of offset", &c.g.offset);
    run_everywhere(&job, run_scatter, &c, "scatter_add");
    draw_fractions(rng, &c.s.offset);
    check_bits(&job, run_scatter, &c, (const SnlsTensor *const[]){&c.s.value, &c.s.weight, &c.g.out, &c.g.total, NULL}, rng, "scatter_add");
}

/* ---- search backward ---- */

typedef struct Searching {
    SnlsSearch s;
    SnlsSearchGrad g;
} Searching;

static SnlsStatus run_search_backward(SnlsContext *ctx, void *call)
{
    Searching *c = call;
    return snls_search_backward(ctx, &c->s, &c->g);
}

static void draw_search(Rng *rng, SnlsSearchParams *p)
{
    snls_search_defaults(p);
    p->ws = (int32_t)rng_int(rng, 2, 5);
    p->wt = (int32_t)rng_int(rng, 0, 1);
    p->ps = (int32_t)RNG_PICK(rng, 1, 1, 3, 3, 4, 7);
    p->k = (int32_t)RNG_PICK(rng, 1, 3, 10);
    p->stride0 = (int32_t)RNG_PICK(rng, 1, 1, 1, 2);
    p->stride1 = RNG_PICK(rng, 1, 1, 0.5);
    p->dilation = (int32_t)RNG_PICK(rng, 1, 1, 1, 2);
    p->dist = (int32_t)rng_int(rng, 0, 1);
    p->border = rng_one_in(rng, 3);
}

/* Steps of half a pixel: all queries alike, changing slowly, or each its own. */
static void draw_flow(Rng *rng, const SnlsTensor *t)
{
    const int64_t kind = rng_int(rng, 0, 2), width = t->shape[4];
    for (int64_t i = 0; i < tensor_count(t); i++) {
        const int64_t x = i / 2 % width, y = i / 2 / width % t->shape[3];
        tensor_set(t, i, kind == 0 ? 1.5 : kind == 1 ? 0.5 * (double)((x + 2 * y) / 9 % 7) - 1 : 0.5 * (double)rng_int(rng, -9, 9));
    }
}

/* All upwards or all downwards, by up to 60 pixels: centres beyond the border are reflected far into the frame. */
static void draw_far_flow(Rng *rng, const SnlsTensor *t)
{
    const double sign = rng_one_in(rng, 2) ? -0.5 : 0.5;
    for (int64_t i = 0; i < tensor_count(t); i++) tensor_set(t, i, i % 2 ? sign * (double)rng_int(rng, 0, 120) : 0.5 * (double)rng_int(rng, -3, 3));
}

static void forward_by_ref(Searching *c, Rng *rng)
{
    SnlsContext *ref = context_open("ref", 0, 1);
    CHECK(snls_search_shape(ref, &c->s) >= 0, "shape: %s", snls_error(ref));
    const SnlsTensor like = c->s.offset;
    c->s.dist = whole_numbers(rng, 6, like.shape, 0, 0, 1);
    c->s.offset = whole_numbers(rng, 7, like.shape, 0, 0, 1);
    c->s.index = tensor_new(rng, SNLS_I32, 6, like.shape, LAYOUT_PLAIN);
    CHECK(snls_search_forward(ref, &c->s) >= 0, "search: %s", snls_error(ref));
    snls_close(&ref);
}

static void check_search(Rng *rng, bool far)
{
    Searching c;
    memset(&c, 0, sizeof c);
    draw_search(rng, &c.s.params);
    if (far) c.s.params.wt = 1, c.s.params.ps = (int32_t)RNG_PICK(rng, 1, 1, 3), c.s.params.dilation = 1;
    const SnlsSearchParams *p = &c.s.params;
    const int64_t T = 2 * p->wt + 1 + rng_int(rng, 0, 1), F = RNG_PICK(rng, 1, 3, 8, 16, 24) > 8 && p->ps < 4 ? 16 : rng_int(rng, 1, 8);
    const bool wide = rng_one_in(rng, 3) && !far;
    const int64_t video[5] = {1, T, wide ? rng_int(rng, 9, 20) : rng_int(rng, 66, 130), wide ? rng_int(rng, 100, 300) : rng_int(rng, 8, 20), F};
    const int64_t flow[6] = {1, T, 2 * p->wt + 1, (video[2] + p->stride0 - 1) / p->stride0, (video[3] + p->stride0 - 1) / p->stride0, 2};
    c.s.query = whole_numbers(rng, 5, video, -4, 4, 1);
    c.s.key = whole_numbers(rng, 5, video, -4, 4, 1);
    c.s.flow = whole_numbers(rng, 6, flow, 0, 0, 1);
    (far ? draw_far_flow : draw_flow)(rng, &c.s.flow);
    forward_by_ref(&c, rng);
    c.g.dist = whole_numbers(rng, 6, c.s.dist.shape, -3, 3, 1);
    c.g.offset = whole_numbers(rng, 7, c.s.offset.shape, -3, 3, 1);
    c.g.query = whole_numbers(rng, 5, video, 0, 0, 1);
    c.g.key = whole_numbers(rng, 5, video, 0, 0, 1);
    if (!rng_one_in(rng, 4)) c.g.flow = whole_numbers(rng, 6, flow, 0, 0, 1);
    Job job = {.divides = false};
    add_written(&job, "gradient of query", &c.g.query);
    add_written(&job, "gradient of key", &c.g.key);
    if (c.g.flow.data) add_written(&job, "gradient of flow", &c.g.flow);
    run_everywhere(&job, run_search_backward, &c, "search");
    const SnlsTensor *const given[] = {&c.s.query, &c.s.key, &c.g.dist, NULL};
    check_bits(&job, run_search_backward, &c, given, rng, "search");
}

/* ---- flow_compose ---- */

typedef struct Composing {
    SnlsFlowCompose s;
    SnlsFlowComposeGrad g;
} Composing;

static SnlsStatus run_compose(SnlsContext *ctx, void *call)
{
    Composing *c = call;
    const SnlsStatus status = snls_flow_compose_forward(ctx, &c->s);
    return status < 0 ? status : snls_flow_compose_backward(ctx, &c->s, &c->g);
}

/* Most motions are short; some leave the frame many times over, some are none. */
static void draw_motions(Rng *rng, const SnlsTensor *t, double unit, bool wild)
{
    for (int64_t i = 0; i < tensor_count(t); i++) {
        const int64_t far = rng_one_in(rng, 60) ? 500 : 3;
        tensor_set(t, i, wild && rng_one_in(rng, 60) ? RNG_PICK(rng, NAN, INFINITY, -INFINITY) : unit * (double)rng_int(rng, -far, far));
    }
}

/* Fields of whole numbers: every place is a pixel and every sum exact. Of halves: a few roundings. */
static void check_compose(Rng *rng)
{
    Composing c;
    memset(&c, 0, sizeof c);
    snls_flow_compose_defaults(&c.s.params);
    c.s.params.wt = 1;
    c.s.params.stride0 = (int32_t)RNG_PICK(rng, 1, 1, 2);
    const bool whole = rng_one_in(rng, 2), wild = rng_one_in(rng, 2);
    const int64_t step = c.s.params.stride0, field[5] = {1, rng_int(rng, 3, 4), rng_int(rng, 1, 140), rng_int(rng, 1, 150), 2};
    const int64_t flow[6] = {1, field[1], 2, (field[2] + step - 1) / step, (field[3] + step - 1) / step, 2};
    c.s.fflow = whole_numbers(rng, 5, field, 0, 0, 1);
    c.s.bflow = whole_numbers(rng, 5, field, 0, 0, 1);
    draw_motions(rng, &c.s.fflow, whole ? 1 : 0.5, wild);
    draw_motions(rng, &c.s.bflow, whole ? 1 : 0.5, wild);
    c.s.flow = whole_numbers(rng, 6, flow, 0, 0, 1);
    c.g.flow = whole_numbers(rng, 6, flow, -4, 4, 1);
    c.g.fflow = whole_numbers(rng, 5, field, 0, 0, 1);
    if (!rng_one_in(rng, 4)) c.g.bflow = whole_numbers(rng, 5, field, 0, 0, 1);
    Job job = {.divides = !whole};
    add_written(&job, "flow", &c.s.flow);
    add_written(&job, "gradient of fflow", &c.g.fflow);
    if (c.g.bflow.data) add_written(&job, "gradient of bflow", &c.g.bflow);
    run_everywhere(&job, run_compose, &c, "flow_compose");
    const SnlsTensor *const given[] = {&c.g.flow, &c.s.fflow, &c.s.bflow, NULL};
    check_bits(&job, run_compose, &c, given, rng, "flow_compose");
}

int main(int argc, char **argv)
{
    const uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1, count = argc > 2 ? strtoull(argv[2], NULL, 10) : argc > 1 ? 1 : 12;
    for (uint64_t seed = first; seed < first + count; seed++) {
        Rng rng = {seed};
        check_repeat("test_bands %llu", (unsigned long long)seed);
        switch (seed % 4) {
        case 0: check_gather(&rng, rng_one_in(&rng, 3)); break;
        case 1: check_scatter(&rng); break;
        default: check_search(&rng, false);
        }
        if (seed % 3 == 0) check_compose(&rng);
        if (seed % 4 == 2) check_search(&rng, true);
        tensors_free();
    }
    return check_end();
}
