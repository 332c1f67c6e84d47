/* test_corners.c: calls that random ones seldom or never are: keys that run backwards in memory and are otherwise plain, numbers beyond f32 between which finite ones lie, windows
 * of one cell far apart, 16-bit sums of more neighbours than one pass holds, calls of two threads that want different amounts of shared memory. Against ref, or what is known.
 *   test_corners [--backend cuda] */
/* ctest: cost=20 */
/* ctest: name=cuda label=cuda args=--backend cuda */
#include "case.h"
#include <math.h>
#include <pthread.h>
#include <snls/snls.h>
#include <stdio.h>
#include <string.h>

static bool gpu;
static SnlsContext *ref, *ctx;

/* ---- searches ---- */

static SnlsSearch make_search(Rng *rng, SnlsSearchParams params, const int64_t *shape)
{
    SnlsSearch s = {.params = params};
    s.query = tensor_new(rng, SNLS_F32, 5, shape, LAYOUT_PLAIN);
    s.key = tensor_new(rng, SNLS_F32, 5, shape, LAYOUT_PLAIN);
    tensor_fill(&s.query, rng, -1, 1);
    tensor_fill(&s.key, rng, -1, 1);
    return s;
}

static bool is_near(double got, double want) { return got == want || fabs(got - want) <= 1e-4 * (1 + fabs(want)); }

/* Distances, and whether there is a neighbour; which one only where distances are not equal. */
static void compare(const char *what, const SnlsTensor *dist, const SnlsTensor *index, const SnlsTensor *want_dist, const SnlsTensor *want_index)
{
    for (int64_t i = 0; i < tensor_count(dist); i++) {
        const double got = tensor_get(dist, i), want = tensor_get(want_dist, i), at = tensor_get(index, i), want_at = tensor_get(want_index, i);
        if (!CHECK(is_near(got, want) && (at < 0) == (want_at < 0), "%s: place %lld is at %g with number %g, ref has %g with %g", what, (long long)i, got, at, want, want_at)) return;
    }
}

static SnlsSearch with_outputs(Rng *rng, SnlsSearch s)
{
    CHECK(snls_search_shape(ref, &s) >= 0, "%s", snls_error(ref));
    s.dist = tensor_new(rng, SNLS_F32, 6, s.dist.shape, LAYOUT_PLAIN);
    s.offset = tensor_new(rng, SNLS_F32, 7, s.offset.shape, LAYOUT_PLAIN);
    s.index = tensor_new(rng, SNLS_I32, 6, s.index.shape, LAYOUT_PLAIN);
    return s;
}

static void check_search(const char *what, Rng *rng, SnlsSearch s)
{
    SnlsSearch both[2] = {with_outputs(rng, s), with_outputs(rng, s)};
    CHECK(snls_search_forward(ref, &both[0]) >= 0, "%s: %s", what, snls_error(ref));
    SnlsTensor *const all[] = {&both[1].query, &both[1].key, &both[1].flow, &both[1].dist, &both[1].offset, &both[1].index};
    for (int i = 0; i < 6; i++)
        if (all[i]->data) tensor_lend(ctx, all[i]);
    const SnlsStatus status = snls_search_forward(ctx, &both[1]);
    for (int i = 0; i < 6; i++)
        if (all[i]->data) tensor_return(ctx, all[i]);
    if (CHECK(status >= 0, "%s: %s", what, snls_error(ctx))) compare(what, &both[1].dist, &both[1].index, &both[0].dist, &both[0].index);
    tensors_free();
}

/* Scores at pixels are infinite where those between them are not, or are not all the same. */
static void beyond_range(int64_t features, int32_t ps)
{
    Rng rng = {3};
    const int64_t shape[5] = {1, 1, 16, 16, features};
    SnlsSearchParams params;
    snls_search_defaults(&params);
    params.ws = 5, params.stride1 = 0.5, params.k = 25, params.ps = ps;
    SnlsSearch s = make_search(&rng, params, shape);
    tensor_set(&s.key, (8 * 16 + 8) * features, INFINITY);
    check_search("one infinite key", &rng, s);
    for (int prod = 0; prod < (ps > 1 ? 1 : 2); prod++) { /* a sum over pixels whose products are beyond range on both sides is no number in f32 */
        params.dist = prod ? SNLS_DIST_PROD : SNLS_DIST_L2, params.k = prod ? 25 : 1;
        s = make_search(&rng, params, shape);
        for (int64_t i = 0; i < tensor_count(&s.key); i++) {
            tensor_set(&s.query, i, prod ? 1e20 : 0);
            tensor_set(&s.key, i, i / features % 2 ? -2e19 : 2e19);
        }
        check_search(prod ? "products of either sign beyond range" : "distances beyond range about 0", &rng, s);
    }
}

/* Places of a window a whole number of pixels apart are not when the first is a hair below a pixel: 1 - 1e-16 and one more are 0.9999999999999999 and 2. Windows far from their neighbours' are scored alone. */
static void hairs(int32_t ps)
{
    Rng rng = {4};
    const int64_t shape[5] = {1, 1, 40, 40, 3}, flow[6] = {1, 1, 1, 40, 40, 2};
    SnlsSearchParams params;
    snls_search_defaults(&params);
    params.ws = 3, params.k = 4, params.ps = ps;
    for (int n = 0; n < 12; n++) {
        SnlsSearch s = make_search(&rng, params, shape);
        s.flow = tensor_new(&rng, SNLS_F32, 6, flow, LAYOUT_PLAIN);
        for (int64_t i = 0; i < tensor_count(&s.flow); i++) tensor_set(&s.flow, i, RNG_PICK(&rng, -6e-17, -1.2e-16, -2.3e-16, 4.5e-16, -3.6e-15, 1e-17, -13.5, 17.25));
        check_search("places a hair from a pixel", &rng, s);
    }
}

/* One pixel whose distance from others is beyond range is still a neighbour where all are wanted, and is far longer than what 16 bits hold of it. */
static void one_far_pixel(int64_t features, double length)
{
    Rng rng = {9};
    const int64_t shape[5] = {1, 1, 24, 40, features};
    SnlsSearchParams params;
    snls_search_defaults(&params);
    params.ws = 3, params.k = 9;
    SnlsSearch s = make_search(&rng, params, shape);
    for (int64_t f = 0; f < features; f++) tensor_set(&s.key, (10 * 40 + 20) * features + f, f % 2 ? length : -length);
    for (int64_t f = 0; f < features; f++) tensor_set(&s.query, (15 * 40 + 30) * features + f, length);
    check_search("one pixel far from all others", &rng, s);
}

/* A fraction that rounds to one: what was to be the pixel after the first is the first, and several candidates to a pixel are counted from there. */
static void fraction_of_one(int64_t features, double stride1, double below_y, double below_x)
{
    Rng rng = {8};
    const int64_t shape[5] = {1, 1, 24, 40, features}, flow[6] = {1, 1, 1, 24, 40, 2};
    SnlsSearchParams params;
    snls_search_defaults(&params);
    params.ws = stride1 == 0.5 ? 5 : 9, params.k = 3, params.stride1 = stride1, params.dist = SNLS_DIST_PROD;
    SnlsSearch s = make_search(&rng, params, shape);
    s.flow = tensor_new(&rng, SNLS_F32, 6, flow, LAYOUT_PLAIN);
    for (int64_t i = 0; i < tensor_count(&s.flow); i++) tensor_set(&s.flow, i, i % 2 ? -below_y : -below_x);
    check_search("a fraction that rounds to one", &rng, s);
}

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
enum { SANITIZED = 1 };
#elif defined __has_feature
enum { SANITIZED = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) };
#else
enum { SANITIZED = 0 };
#endif

/* Sanitizers take more stack; with so much a large clip tells nothing that a small one does not. */
enum { STACK = SANITIZED ? 8 << 20 : 256 << 10, STACK_ROWS = SANITIZED ? 12 : 40 };

static void *search_here(void *search) { return (void *)(intptr_t)snls_search_forward(ctx, search); }

/* As much stack as docs/embedding.md asks of a thread that calls. */
static void small_stack(int dist, int32_t ps, double stride1)
{
    Rng rng = {10};
    const int64_t shape[5] = {1, 3, STACK_ROWS, 48, 32}, flow[6] = {1, 3, 3, STACK_ROWS, 48, 2};
    SnlsSearchParams params;
    snls_search_defaults(&params);
    params.ws = 9, params.wt = 1, params.k = 10, params.dist = dist, params.ps = ps, params.stride1 = stride1;
    SnlsSearch s = make_search(&rng, params, shape);
    s.flow = tensor_new(&rng, SNLS_F32, 6, flow, LAYOUT_PLAIN);
    tensor_fill(&s.flow, &rng, -3, 3);
    s = with_outputs(&rng, s);
    pthread_attr_t small;
    pthread_t thread;
    void *status = NULL;
    pthread_attr_init(&small);
    CHECK(!pthread_attr_setstacksize(&small, STACK) && !pthread_create(&thread, &small, search_here, &s) && !pthread_join(thread, &status) && !status, "on a small stack: %s", snls_error(ctx));
    pthread_attr_destroy(&small);
    tensors_free();
}

/* Frames of queries one after the other look at keys of a frame that are further from each other than a thread holds rows or columns of (src/cpu/tile_patch_key.c). */
static void keys_far_apart(int32_t level, int64_t height, int64_t width, double y, double x)
{
    Rng rng = {12};
    const int64_t shape[5] = {1, 3, height, width, 16}, flow[6] = {1, 3, 3, height, width, 2};
    SnlsSearchParams params;
    snls_search_defaults(&params);
    params.ws = 3, params.wt = 1, params.k = 2, params.ps = 3, params.dist = SNLS_DIST_PROD;
    SnlsSearch s = make_search(&rng, params, shape);
    s.flow = tensor_new(&rng, SNLS_F32, 6, flow, LAYOUT_PLAIN);
    for (int64_t i = 0; i < tensor_count(&s.flow); i++) {
        const bool second = i / (6 * height * width) == 1, lower = i / 2 / width % height >= height / 2, right = i / 2 % width >= width / 2;
        tensor_set(&s.flow, i, !second ? 0 : i % 2 ? (lower ? -y : y) : right ? -x : x);
    }
    SnlsContext *const others = ctx;
    ctx = context_open("cpu", level, 1); /* several threads would share out the frames */
    check_search("keys far apart", &rng, s);
    snls_close(&ctx);
    ctx = others;
}

/* All candidates are the same: the first ones are kept, in their order, wherever the flow points. */
static void flat(int32_t ps, int dist, double stride1)
{
    Rng rng = {6};
    const int64_t shape[5] = {1, 2, 40, 48, 16}, flow[6] = {1, 2, 1, 40, 48, 2};
    SnlsSearchParams params;
    snls_search_defaults(&params);
    params.ws = 5, params.k = 4, params.ps = ps, params.dist = dist, params.stride1 = stride1, params.wt = 0;
    SnlsSearch s = make_search(&rng, params, shape);
    for (int64_t i = 0; i < tensor_count(&s.key); i++) tensor_set(&s.query, i, 0.3), tensor_set(&s.key, i, 0.7);
    s.flow = tensor_new(&rng, SNLS_F32, 6, flow, LAYOUT_PLAIN);
    tensor_fill(&s.flow, &rng, -3, 3);
    s = with_outputs(&rng, s);
    CHECK(snls_search_forward(ctx, &s) >= 0, "%s", snls_error(ctx));
    for (int64_t i = 0; i < tensor_count(&s.index); i++)
        if (!CHECK(tensor_get(&s.index, i) == (double)(i % 4), "flat, ps %d, %s, stride1 %g: place %d of query %d is candidate %g", (int)ps, dist == SNLS_DIST_PROD ? "prod" : "l2", stride1,
                   (int)(i % 4), (int)(i / 4), tensor_get(&s.index, i)))
            break;
    tensors_free();
}

/* A window is one cell; the queries that a warp looks after are up to 23 pixels apart. */
static void lone_cells(void)
{
    Rng rng = {5};
    const int64_t shape[5] = {1, 1, 64, 64, 32}, flow[6] = {1, 1, 1, 10, 10, 2};
    SnlsSearchParams params;
    snls_search_defaults(&params);
    params.ws = 1, params.stride0 = 7, params.dist = SNLS_DIST_PROD;
    SnlsSearch s = make_search(&rng, params, shape);
    s.flow = tensor_new(&rng, SNLS_F32, 6, flow, LAYOUT_PLAIN);
    for (int64_t i = 0; i < 200; i++) tensor_set(&s.flow, i, i % 2 == 0 && i / 2 % 10 % 4 == 3 ? 2 : 0);
    check_search("windows of one cell", &rng, s);
}

/* ---- refine: keys whose last row, column or frame comes first in memory ---- */

static SnlsTensor turned_round(const SnlsTensor *t, int axis)
{
    SnlsTensor r = *t;
    r.data = (float *)t->data + (t->shape[axis] - 1) * t->stride[axis];
    r.stride[axis] = -t->stride[axis];
    return r;
}

static void keys_that_run_backwards(int axis)
{
    Rng rng = {7};
    const int64_t shape[5] = {1, 3, 8, 9, 4}, places[7] = {1, 1, 3, 8, 9, 3, 3};
    SnlsRefine both[2];
    memset(both, 0, sizeof both);
    snls_refine_defaults(&both[0].params);
    both[0].params.k = 2;
    both[0].query = tensor_new(&rng, SNLS_F32, 5, shape, LAYOUT_PLAIN);
    const SnlsTensor key = tensor_new(&rng, SNLS_F32, 5, shape, LAYOUT_PLAIN);
    both[0].centre = tensor_new(&rng, SNLS_F32, 7, places, LAYOUT_PLAIN);
    tensor_fill(&both[0].query, &rng, -1, 1);
    tensor_fill(&key, &rng, -1, 1);
    tensor_fill(&both[0].centre, &rng, -2, 2);
    both[0].key = turned_round(&key, axis);
    CHECK(snls_refine_shape(ref, &both[0]) >= 0, "%s", snls_error(ref));
    both[1] = both[0];
    for (int i = 0; i < 2; i++) {
        both[i].dist = tensor_new(&rng, SNLS_F32, 6, both[0].dist.shape, LAYOUT_PLAIN);
        both[i].offset = tensor_new(&rng, SNLS_F32, 7, both[0].offset.shape, LAYOUT_PLAIN);
        both[i].index = tensor_new(&rng, SNLS_I32, 6, both[0].index.shape, LAYOUT_PLAIN);
    }
    CHECK(snls_refine_forward(ref, &both[0]) >= 0, "%s", snls_error(ref));
    SnlsTensor *const all[] = {&both[1].query, &both[1].key, &both[1].centre, &both[1].dist, &both[1].offset, &both[1].index};
    for (int i = 0; i < 6; i++) tensor_lend(ctx, all[i]);
    const SnlsStatus status = snls_refine_forward(ctx, &both[1]);
    for (int i = 0; i < 6; i++) tensor_return(ctx, all[i]);
    if (CHECK(status >= 0, "%s", snls_error(ctx))) compare("keys that run backwards", &both[1].dist, &both[1].index, &both[0].dist, &both[0].index);
    tensors_free();
}

/* ---- scatter_add: 25 of one number and 25 of another come to every pixel of frame 0, half of them late ---- */

static void sums_are_rounded_once(int64_t side)
{
    enum { T = 10, K = 5 };
    Rng rng = {9};
    const int64_t video[5] = {1, T, side, side, 1}, weight[6] = {1, 1, T, side, side, K}, offset[7] = {1, 1, T, side, side, K, 3}, frame = side * side;
    SnlsScatterAdd s = {.params = {0}};
    snls_scatter_add_defaults(&s.params);
    s.value = tensor_new(&rng, SNLS_F32, 5, video, LAYOUT_PLAIN);
    s.weight = tensor_new(&rng, SNLS_F32, 6, weight, LAYOUT_PLAIN);
    s.offset = tensor_new(&rng, SNLS_F32, 7, offset, LAYOUT_PLAIN);
    s.out = tensor_new(&rng, SNLS_BF16, 5, video, LAYOUT_OUTPUT);
    s.total = tensor_new(&rng, SNLS_BF16, 5, video, LAYOUT_OUTPUT);
    float *const value = s.value.data, *const w = s.weight.data, *const o = s.offset.data;
    memset(o, 0, (size_t)(3 * T * K * frame) * sizeof *o);
    for (int64_t i = 0; i < T * frame; i++) value[i] = 1; /* out and total are to be the same */
    for (int64_t i = 0; i < T * K * frame; i++) w[i] = i < T / 2 * K * frame ? 10.25f : -10.1875f, o[3 * i] = -(float)(i / K / frame);
    SnlsTensor *const all[] = {&s.value, &s.weight, &s.offset, &s.out, &s.total};
    for (int i = 0; i < 5; i++) tensor_lend(ctx, all[i]);
    const SnlsStatus status = snls_scatter_add_forward(ctx, &s);
    for (int i = 0; i < 5; i++) tensor_return(ctx, all[i]);
    CHECK(status >= 0, "%s", snls_error(ctx));
    for (int64_t i = 0; i < T * frame; i++) {
        const double want = i < frame ? 25 * 10.25 - 25 * 10.1875 : 0;
        if (!CHECK(tensor_get(&s.out, i) == want && tensor_get(&s.total, i) == want, "pixel %lld gets %g and %g, not %g", (long long)i, tensor_get(&s.out, i), tensor_get(&s.total, i), want)) break;
    }
    tensors_free();
}

static void compare_16_bits(const char *what, const SnlsTensor *got, const SnlsTensor *want)
{
    for (int64_t i = 0; i < tensor_count(want); i++) {
        const double g = tensor_get(got, i), w = tensor_get(want, i);
        if (!CHECK(fabs(g - w) <= 2 * dtype_rounding(SNLS_BF16) * fabs(w) + 1e-3, "%s: element %lld is %g, cpu has %g", what, (long long)i, g, w)) return; /* next to a middle both neighbours are right */
    }
}

/* Clips, heads and patches of which each has more neighbours than one pass holds, and more lines than there is room for the sums of, against cpu: what is scattered, and added to a gradient. */
static void sums_in_many_parts(void)
{
    enum { B = 2, T = 3, SIDE = 430, HEADS = 2, F = 32, K = 5 };
    Rng rng = {13};
    const int64_t video[5] = {B, T, SIDE, SIDE, HEADS * F}, weight[6] = {B, HEADS, T, SIDE, SIDE, K}, offset[7] = {B, HEADS, T, SIDE, SIDE, K, 3}, total[5] = {B, T, SIDE, SIDE, HEADS};
    SnlsContext *const cpu = context_open("cpu", 0, 0), *const each[2] = {cpu, ctx};
    SnlsScatterAdd s = {.params = {0}}, both[2];
    SnlsGatherAdd gather = {.params = {0}}, lent;
    SnlsGatherAddGrad grad[2];
    memset(grad, 0, sizeof grad);
    snls_scatter_add_defaults(&s.params);
    s.params.ps = 3;
    s.value = tensor_new(&rng, SNLS_BF16, 5, video, LAYOUT_PLAIN);
    s.weight = tensor_new(&rng, SNLS_F32, 6, weight, LAYOUT_PLAIN);
    s.offset = tensor_new(&rng, SNLS_F32, 7, offset, LAYOUT_PLAIN);
    tensor_fill(&s.value, &rng, -1, 1);
    tensor_fill(&s.weight, &rng, 0, 1);
    tensor_fill(&s.offset, &rng, -5, 5);
    gather.params = s.params, gather.value = s.value, gather.weight = s.weight, gather.offset = s.offset;
    for (int i = 0; i < 2; i++) {
        both[i] = s;
        both[i].out = tensor_new(&rng, SNLS_BF16, 5, video, LAYOUT_PLAIN);
        both[i].total = tensor_new(&rng, SNLS_BF16, 5, total, LAYOUT_PLAIN);
        grad[i].out = s.value;
        grad[i].value = tensor_new(&rng, SNLS_BF16, 5, video, LAYOUT_PLAIN);
        for (int64_t n = 0; n < tensor_count(&grad[i].value); n++) ((uint16_t *)grad[i].value.data)[n] = 0x3f80; /* 1: added to */
        lent = gather;
        SnlsTensor *const all[] = {&both[i].value, &both[i].weight, &both[i].offset, &both[i].out, &both[i].total, &lent.value, &lent.weight, &lent.offset, &grad[i].out, &grad[i].value};
        for (size_t n = 0; n < sizeof all / sizeof *all; n++) tensor_lend(each[i], all[n]);
        CHECK(snls_scatter_add_forward(each[i], &both[i]) >= 0 && snls_gather_add_backward(each[i], &lent, &grad[i]) >= 0, "%s", snls_error(each[i]));
        for (size_t n = 0; n < sizeof all / sizeof *all; n++) tensor_return(each[i], all[n]);
    }
    compare_16_bits("scattered", &both[1].out, &both[0].out);
    compare_16_bits("total", &both[1].total, &both[0].total);
    compare_16_bits("gradient", &grad[1].value, &grad[0].value);
    SnlsContext *closing = cpu;
    snls_close(&closing);
    tensors_free();
}

/* ---- two threads, one kernel, two amounts of shared memory ---- */

enum { CALLS = 3000 };
typedef struct Turn { SnlsContext *ctx; SnlsSearch s; int failed; char why[256]; } Turn;

static void *call_often(void *user)
{
    Turn *t = user;
    for (int i = 0; i < CALLS; i++)
        if (snls_search_forward(t->ctx, &t->s) < 0 && !t->failed++) snprintf(t->why, sizeof t->why, "%s", snls_error(t->ctx));
    (void)snls_device_wait(t->ctx);
    return NULL;
}

static void threads_with_different_lists(void)
{
    Rng rng = {11};
    const int64_t shape[5] = {1, 1, 48, 48, 8};
    Turn turn[2];
    memset(turn, 0, sizeof turn);
    pthread_t thread[2];
    for (int i = 0; i < 2; i++) {
        SnlsSearchParams params;
        snls_search_defaults(&params);
        params.ps = 5, params.k = i ? 12 : 1;
        turn[i].ctx = context_open_cuda(false);
        turn[i].s = make_search(&rng, params, shape);
        CHECK(snls_search_shape(turn[i].ctx, &turn[i].s) >= 0, "%s", snls_error(turn[i].ctx));
        turn[i].s.dist = tensor_new(&rng, SNLS_F32, 6, turn[i].s.dist.shape, LAYOUT_PLAIN);
        turn[i].s.offset = tensor_new(&rng, SNLS_F32, 7, turn[i].s.offset.shape, LAYOUT_PLAIN);
        turn[i].s.index.data = NULL;
        SnlsTensor *const all[] = {&turn[i].s.query, &turn[i].s.key, &turn[i].s.dist, &turn[i].s.offset};
        for (int k = 0; k < 4; k++) tensor_lend(turn[i].ctx, all[k]);
    }
    for (int i = 0; i < 2; i++) pthread_create(&thread[i], NULL, call_often, &turn[i]);
    for (int i = 0; i < 2; i++) pthread_join(thread[i], NULL);
    for (int i = 0; i < 2; i++) {
        SnlsTensor *const all[] = {&turn[i].s.query, &turn[i].s.key, &turn[i].s.dist, &turn[i].s.offset};
        for (int k = 0; k < 4; k++) tensor_return(turn[i].ctx, all[k]);
        CHECK(!turn[i].failed, "%d of %d calls failed: %s", turn[i].failed, CALLS, turn[i].why);
        snls_close(&turn[i].ctx);
    }
    tensors_free();
}

static void run_all(int32_t level)
{
    beyond_range(4, 1);
    beyond_range(4, 3);
    beyond_range(32, 1);
    hairs(1);
    hairs(3);
    for (int n = 0; n < 6; n++) one_far_pixel(n & 1 ? 32 : 16, n < 2 ? 1e17 : n < 4 ? 4e18 : 3e19);
    for (int n = 0; n < 4; n++) fraction_of_one(n & 1 ? 32 : 8, n & 2 ? 0.25 : 0.5, n % 3 ? 1e-9 : 0, n ? 1e-12 : 3e-8);
    for (int n = 0; n < 8 && !gpu; n++) small_stack(n & 1 ? SNLS_DIST_PROD : SNLS_DIST_L2, n & 2 ? 3 : 1, n & 4 ? 0.5 : 1);
    lone_cells();
    for (int n = 0; n < 8 && !gpu; n++) flat(n & 1 ? 3 : 1, n & 2 ? SNLS_DIST_PROD : SNLS_DIST_L2, n & 4 ? 0.5 : 1);
    for (int axis = 1; axis < 4; axis++) keys_that_run_backwards(axis);
    if (!gpu) keys_far_apart(level, 110, 8, 52, 0), keys_far_apart(level, 5, 200, 0, 95);
    sums_are_rounded_once(gpu ? 256 : 24);
}

/* Distances of patches that are not made of norms after a look at the video, where there would have been room for norms: eight threads, whose rows of keys are more than the planes of the video's frames. Key and
 * query are the same, so the nearest is the query itself. */
static void norms_not_taken(void)
{
    const int64_t shape[] = {1, 11, 97, 29, 40};
    Rng rng = {7};
    SnlsContext *many = context_open("cpu", snls_cpu_level_max(), 8);
    SnlsSearchParams p;
    snls_search_defaults(&p);
    p.ps = 3, p.ws = 9, p.wt = 2, p.k = 3, p.dist = SNLS_DIST_L2;
    SnlsSearch s = make_search(&rng, p, shape);
    s.key = s.query;
    s = with_outputs(&rng, s);
    if (CHECK(snls_search_forward(many, &s) >= 0, "norms not taken: %s", snls_error(many)))
        for (int64_t i = 0; i < tensor_count(&s.dist); i += p.k) CHECK(tensor_get(&s.dist, i) == 0, "norms not taken: query %lld has distance %g of itself", (long long)(i / p.k), tensor_get(&s.dist, i));
    snls_close(&many);
    tensors_free();
}

int main(int argc, char **argv)
{
    gpu = argc > 2 && !strcmp(argv[1], "--backend") && !strcmp(argv[2], "cuda");
    check_repeat("test_corners%s", gpu ? " --backend cuda" : "");
    ref = context_open("ref", 0, 1);
    for (int32_t level = gpu ? 0 : SNLS_CPU_C; level <= (gpu ? 0 : snls_cpu_level_max()); level++) {
        ctx = gpu ? context_open_cuda(false) : context_open("cpu", level, 2);
        run_all(level);
        if (gpu) sums_in_many_parts();
        if (gpu) threads_with_different_lists();
        snls_close(&ctx);
    }
    if (!gpu) norms_not_taken();
    snls_close(&ref);
    return check_end();
}
