/* test_tile.c: search at sizes where queries are worked on in tiles (frames wider than a vector, smooth flow), against every
 * candidate of ref's search_all. test_ops draws from the whole parameter space, where such cases are rare.
 *   test_tile [--backend cuda] [--products | --few | --long | --steps | --patches | --frames | --apart | --rough | --stacks | --even | --norms] [SEED [COUNT]]
 * --products: single pixels of many features compared by products, which a GPU's matrix units do, and which may take matrix tiles of a CPU two parts.
 * --few: 3 x 3 patches of several heads with few features in small windows, and l2 of single pixels, which a GPU does four features a lane.
 * --long: lists of 11 to 64 by l2 of single pixels, and as many given places ranked anew by refine.
 * --steps: single pixels of many features, several candidates to a pixel, which matrix tiles, and without them short lists, take by cells.
 * --patches: patches of many features, which are worked on in parts.
 * --frames: longer videos, several of whose frames are searched together, mostly by single pixels.
 * --apart: queries some pixels apart that look anywhere, which matrix tiles take in boxes of every width, narrow and wide ones by turns.
 * --rough: patches where flow has edges and errors, so that queries of a tile are sorted into several boxes of shifts.
 * --stacks: patches in frames of several tiles above each other, which hand products down; what the windows of one have in common with those of the next drifts, and jumps.
 * --norms: patches of many features by l2, of videos that have some pieces in common: distances from norms, where digits are lost here and there.
 * --even: single pixels of many features where all queries look at the same shifts, or all but one: tiles of matrix tiles have another shape there. */
/* ctest: sanitized=6 args=1 22 */
/* ctest: name=products sanitized=4 args=--products 1 10 */
/* ctest: name=steps args=--steps 1 12 */
/* ctest: name=steps-many label=slow timeout=600 args=--steps 1000 120 */
/* ctest: name=patches sanitized=3 args=--patches 1 8 */
/* ctest: name=patches-many label=slow timeout=900 args=--patches 1000 5 */
/* ctest: name=frames args=--frames 1 12 */
/* ctest: name=frames-many label=slow timeout=600 args=--frames 1000 40 */
/* ctest: name=apart args=--apart 1 16 */
/* ctest: name=apart-many label=slow timeout=600 args=--apart 1000 100 */
/* ctest: name=rough sanitized=2 args=--rough 1 6 */
/* ctest: name=rough-many label=slow timeout=900 args=--rough 1000 6 */
/* ctest: name=stacks sanitized=2 args=--stacks 1 6 */
/* ctest: name=stacks-many label=slow timeout=600 args=--stacks 1000 24 */
/* ctest: name=norms sanitized=2 args=--norms 40 8 */
/* ctest: name=norms-many label=slow timeout=600 args=--norms 1000 40 */
/* ctest: name=even sanitized=4 args=--even 1 14 */
/* ctest: name=even-many label=slow timeout=600 args=--even 1000 24 */
/* ctest: name=cuda label=cuda args=--backend cuda 1 300 */
/* ctest: name=cuda-products label=cuda args=--backend cuda --products 1 150 */
/* ctest: name=cuda-few label=cuda args=--backend cuda --few 1 200 */
/* ctest: name=cuda-long label=cuda args=--backend cuda --long 1 200 */
/* ctest: name=many label=slow timeout=600 args=1000 36 */
#include "tile.h"
#include <ctype.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const kinds[] = {"", " --products", " --few", " --long", " --steps", " --patches", " --frames", " --apart", " --rough", " --stacks", " --even", " --norms"};

/* ---- gradients of 3 x 3 patches, which a GPU takes together ---- */

static SnlsTensor like(Rng *rng, const SnlsTensor *t, const SnlsTensor *values, bool absolute)
{
    const SnlsTensor copy = tensor_new(rng, SNLS_F32, t->ndim, t->shape, LAYOUT_PLAIN);
    for (int64_t i = 0; i < tensor_count(&copy); i++) tensor_set(&copy, i, values ? (absolute ? fabs(tensor_get(values, i)) : tensor_get(values, i)) : 0);
    return copy;
}

/* Places are numbers in double, whose last digits depend on how a compiler joins operations: where one is a hair from a pixel, the pixel beyond it gets that hair's share, rightly or not. */
static double share_of_hair(const SnlsTensor *size)
{
    double most = 0;
    for (int64_t i = 0; size && i < tensor_count(size); i++)
        if (isfinite(tensor_get(size, i))) most = fmax(most, fabs(tensor_get(size, i)));
    return 64 * DBL_EPSILON * most;
}

static void check_near(const char *of, const SnlsTensor *got, const SnlsTensor *want, const SnlsTensor *size, double eps)
{
    const double hair = share_of_hair(size);
    for (int64_t i = 0; i < tensor_count(got); i++) {
        const double have = tensor_get(got, i), right = tensor_get(want, i);
        if (isfinite(right))
            CHECK(fabs(have - right) <= eps * (size ? fabs(tensor_get(size, i)) : 1) + hair, "d %s element %lld: %.9g, not %.9g", of, (long long)i, have, right);
    }
}

static SnlsSearchGrad grads_of(Rng *rng, const SnlsSearch *s, SnlsTensor by_dist)
{
    SnlsSearchGrad g = {.dist = by_dist, .query = like(rng, &s->query, NULL, false), .key = like(rng, &s->query, NULL, false)};
    if (s->flow.data && s->params.interp == SNLS_INTERP_BILINEAR) g.flow = like(rng, &s->flow, NULL, false);
    return g;
}

/* Gradients of a search against those of ref. Sums of |terms| are what ref says of absolute values, the key's negated where differences
 * are squared; a pixel gets fewer terms than 16 times what the neighbours of nine patches give it, four taps each. */
static void check_grad(const TileCase *c, Rng *rng, SnlsContext *ref, SnlsContext *cuda)
{
    SnlsTensor by_dist = like(rng, &c->s.dist, NULL, false);
    tensor_fill(&by_dist, rng, -1, 1);
    SnlsSearch s = c->s, absolute = c->s;
    const SnlsSearchGrad want = grads_of(rng, &s, by_dist), size = grads_of(rng, &s, like(rng, &by_dist, &by_dist, true));
    SnlsSearchGrad got = grads_of(rng, &s, by_dist);
    absolute.query = like(rng, &s.query, &s.query, true);
    absolute.key = like(rng, &s.key, &s.key, true);
    for (int64_t i = 0; s.params.dist == SNLS_DIST_L2 && i < tensor_count(&s.key); i++) tensor_set(&absolute.key, i, -tensor_get(&absolute.key, i));
    CHECK(snls_search_backward(ref, &s, &want) >= 0 && snls_search_backward(ref, &absolute, &size) >= 0, "%s", snls_error(ref));
    SnlsTensor *all[] = {&s.query, &s.key, &s.flow, &s.dist, &s.offset, &s.index, &got.dist, &got.query, &got.key, &got.flow};
    for (int i = 0; i < 10; i++) tensor_lend(cuda, all[i]);
    const SnlsStatus status = snls_search_backward(cuda, &s, &got);
    for (int i = 0; i < 10; i++) tensor_return(cuda, all[i]);
    CHECK(status >= 0, "%s", snls_error(cuda));
    const double kept = (double)s.dist.shape[5], terms = 36 * kept * (double)s.query.shape[4], eps = 16 * 36 * kept * EPS_F32;
    check_near("query", &got.query, &want.query, &size.query, eps);
    check_near("key", &got.key, &want.key, &size.key, eps);
    if (got.flow.data) check_near("flow", &got.flow, &want.flow, NULL, terms * EPS_F32 * 16 * c->largest * c->largest); /* of all heads */
}

/* ---- given places ranked anew ---- */

/* Places anywhere, also not finite: near, whole, the same as the one before, far outside. */
static SnlsTensor draw_places(Rng *rng, const SnlsSearch *s, int64_t given)
{
    const int64_t *d = s->dist.shape, shape[7] = {d[0], d[1], d[2], d[3], d[4], given, 3}, *video = s->query.shape;
    const SnlsTensor t = tensor_new(rng, SNLS_F32, 7, shape, LAYOUT_PLAIN);
    for (int64_t i = 0; i < tensor_count(&t); i++) {
        const int axis = (int)(i % 3);
        const double reach = axis ? (double)video[1 + axis] * (rng_one_in(rng, 4) ? 3 : 0.3) + 1 : 2 * (double)video[1], x = rng_real(rng, -reach, reach);
        if (rng_one_in(rng, 5) && i >= 3) tensor_set(&t, i, tensor_get(&t, i - 3));
        else tensor_set(&t, i, rng_one_in(rng, 900) ? NAN : rng_one_in(rng, 900) ? INFINITY : rng_one_in(rng, 4) ? rint(x) : x);
    }
    return t;
}

/* Every place with its distance, by its number: what ref says when it ranks them all. */
static void spread(const SnlsRefine *ranked, SnlsSearch *all)
{
    const int64_t n = ranked->dist.shape[5], queries = snls_tensor_elements(&ranked->dist) / n;
    for (int64_t i = 0; i < queries * n; i++) ((int32_t *)all->index.data)[i] = -1;
    for (int64_t i = 0; i < queries * n; i++) {
        const int32_t number = ((const int32_t *)ranked->index.data)[i];
        if (number < 0) continue;
        const int64_t at = i / n * n + number;
        ((int32_t *)all->index.data)[at] = number;
        ((float *)all->dist.data)[at] = ((const float *)ranked->dist.data)[i];
        memcpy((float *)all->offset.data + 3 * at, (const float *)ranked->offset.data + 3 * i, 3 * sizeof(float));
    }
}

static void places_outputs(SnlsRefine *r, SnlsContext *ctx, int32_t k)
{
    r->params.k = k;
    r->dist = r->offset = r->index = (SnlsTensor){0};
    CHECK(snls_refine_shape(ctx, r) >= 0, "shape: %s", snls_error(ctx));
    r->dist.data = check_alloc(snls_tensor_elements(&r->dist), sizeof(float));
    r->offset.data = check_alloc(snls_tensor_elements(&r->offset), sizeof(float));
    r->index.data = check_alloc(snls_tensor_elements(&r->index), sizeof(int32_t));
}

static void check_places(const TileCase *c, Rng *rng, SnlsContext *ref, SnlsContext *cuda)
{
    const int64_t given = RNG_PICK(rng, 1, 10, 31, 50, 70, 130);
    SnlsRefine r = {.query = c->s.query, .key = c->s.key, .centre = draw_places(rng, &c->s, given)};
    snls_refine_defaults(&r.params);
    r.params.wr = 1;
    r.params.heads = c->s.params.heads;
    r.params.stride0 = c->s.params.stride0;
    r.params.dist = (int32_t)rng_int(rng, 0, 1);
    r.params.interp = rng_one_in(rng, 4);
    r.params.border = rng_one_in(rng, 3);
    places_outputs(&r, ref, (int32_t)given);
    CHECK(snls_refine_forward(ref, &r) >= 0, "%s", snls_error(ref));
    TileCase got = *c;
    got.alike = c->alike && r.params.dist == SNLS_DIST_L2;
    got.s.params.dist = r.params.dist;
    got.s.params.topk = SNLS_TOPK_ALL;
    got.per_query = given;
    const SnlsRefine ranked = r;
    places_outputs(&r, ref, (int32_t)given);
    got.all = (SnlsSearch){.dist = r.dist, .offset = r.offset, .index = r.index};
    spread(&ranked, &got.all);
    places_outputs(&r, ref, (int32_t)RNG_PICK(rng, 1, 10, 32, 50, 64));
    SnlsTensor *all[] = {&r.query, &r.key, &r.centre, &r.dist, &r.offset, &r.index};
    for (int i = 0; i < 6; i++) tensor_lend(cuda, all[i]);
    const SnlsStatus status = snls_refine_forward(cuda, &r);
    for (int i = 0; i < 6; i++) tensor_return(cuda, all[i]);
    CHECK(status >= 0, "%s", snls_error(cuda));
    got.s.params.k = r.params.k;
    got.s.dist = r.dist, got.s.offset = r.offset, got.s.index = r.index;
    float *sorted = check_alloc(given, sizeof *sorted);
    for (int64_t q = 0; q < snls_tensor_elements(&r.dist) / r.params.k; q++) tile_check_list(&got, q, 0, 0, given, sorted);
}

/* On the device; twice, for the same bits. */
static void run_cuda(TileCase *c, Rng *rng, SnlsContext *ref, SnlsContext *ctx, TileKind kind)
{
    SnlsTensor *all[] = {&c->s.query, &c->s.key, &c->s.flow, &c->s.dist, &c->s.offset, &c->s.index};
    uint64_t before = 0;
    for (int run = 0; run < 2; run++) {
        for (int i = 0; i < 6; i++) tensor_lend(ctx, all[i]);
        const SnlsStatus status = snls_search_forward(ctx, &c->s);
        for (int i = 0; i < 6; i++) tensor_return(ctx, all[i]);
        CHECK(status >= 0, "%s", snls_error(ctx));
        if (!run) tile_check(c);
        const uint64_t now = tile_hash(&c->s.dist) ^ tile_hash(&c->s.index) * 31;
        CHECK(!run || now == before, "other bits when run again");
        before = now;
    }
    if (c->s.params.ps == 3 && c->s.params.dilation == 1) check_grad(c, rng, ref, ctx);
    if (kind == TILE_LONG) check_places(c, rng, ref, ctx);
}

int main(int argc, char **argv)
{
    SnlsContext *cuda = NULL;
    if (argc > 2 && !strcmp(argv[1], "--backend")) {
        cuda = context_open_cuda(false);
        argc -= 2;
        argv += 2;
    }
    TileKind kind = TILE_ANY;
    for (size_t i = TILE_PRODUCTS; i < sizeof kinds / sizeof *kinds && argc > 1; i++)
        if (!strcmp(argv[1], kinds[i] + 1)) kind = (TileKind)i;
    if (kind == TILE_ANY && argc > 1 && !isdigit((unsigned char)*argv[1])) return fprintf(stderr, "test_tile: %s is none of its options\n", argv[1]), 2;
    argc -= kind != TILE_ANY;
    argv += kind != TILE_ANY;
    const long long seed = argc > 1 ? atoll(argv[1]) : 1, count = argc > 2 ? atoll(argv[2]) : 1;
    SnlsContextParams params;
    SnlsContext *ref = NULL, *cpu = NULL;
    snls_context_defaults(&params);
    params.backend = "ref";
    if (!CHECK(snls_open(&ref, &params) >= 0, "open ref")) return check_end();
    for (long long n = seed; n < seed + count; n++) {
        Rng rng = {(uint64_t)n};
        TileCase c;
        tile_draw(&c, &rng, ref, kind);
        check_repeat("test_tile%s %lld", kinds[kind], n);
        CHECK(snls_search_all_forward(ref, &c.all) >= 0, "%s", snls_error(ref));
        if (cuda) {
            check_repeat("test_tile --backend cuda%s %lld", kinds[kind], n);
            run_cuda(&c, &rng, ref, cuda, kind);
        }
        for (int32_t level = SNLS_CPU_C; !cuda && level <= snls_cpu_level_max(); level++) {
            params.backend = "cpu";
            params.cpu_level = level;
            params.threads = (int32_t)rng_int(&rng, 1, 3);
            check_repeat("test_tile%s %lld # level %s", kinds[kind], n, snls_cpu_level_name(level));
            if (!CHECK(snls_open(&cpu, &params) >= 0, "open cpu")) break;
            CHECK(snls_search_forward(cpu, &c.s) >= 0, "%s", snls_error(cpu));
            tile_check(&c);
            snls_close(&cpu);
            tile_check_again(&c, params, 1, 0x00);
            tile_check_again(&c, params, 3, 0x7f); /* floats of 3e38 */
            tile_check_again(&c, params, 2, 0xff); /* NaN */
            tile_check_less(&c, params);
        }
        tensors_free();
    }
    snls_close(&ref);
    snls_close(&cuda);
    return check_end();
}
