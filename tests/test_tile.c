/* test_tile.c: search at sizes where queries are worked on in tiles (frames wider than a vector, smooth flow), against every
 * candidate of ref's search_all. test_ops draws from the whole parameter space, where such cases are rare.
 *   test_tile [--backend cuda] [--products | --few | --long | --steps | --patches | --frames | --apart] [SEED [COUNT]]
 * --products: single pixels of many features compared by products, which a GPU's matrix units do, and which may take matrix tiles of a CPU two parts.
 * --few: 3 x 3 patches of several heads with few features in small windows, and l2 of single pixels, which a GPU does four features a lane.
 * --long: lists of 11 to 64 by l2 of single pixels, and as many given places ranked anew by refine.
 * --steps: single pixels of many features, several candidates to a pixel, which matrix tiles, and without them short lists, take by cells.
 * --patches: patches of many features, which matrix tiles take with shifts in lanes.
 * --frames: single pixels of longer videos, several of whose frames are searched together.
 * --apart: queries some pixels apart that look anywhere, which matrix tiles take in boxes of every width, narrow and wide ones by turns. */
/* ctest: args=1 22 */
/* ctest: name=products args=--products 1 10 */
/* ctest: name=steps args=--steps 1 12 */
/* ctest: name=steps-many label=slow timeout=600 args=--steps 1000 60 */
/* ctest: name=patches args=--patches 1 8 */
/* ctest: name=patches-many label=slow timeout=900 args=--patches 1000 15 */
/* ctest: name=frames args=--frames 1 6 */
/* ctest: name=frames-many label=slow timeout=600 args=--frames 1000 40 */
/* ctest: name=apart args=--apart 1 16 */
/* ctest: name=apart-many label=slow timeout=600 args=--apart 1000 100 */
/* ctest: name=cuda label=cuda args=--backend cuda 1 300 */
/* ctest: name=cuda-products label=cuda args=--backend cuda --products 1 150 */
/* ctest: name=cuda-few label=cuda args=--backend cuda --few 1 200 */
/* ctest: name=cuda-long label=cuda args=--backend cuda --long 1 200 */
/* ctest: name=many label=slow timeout=600 args=1000 120 */
#include "case.h"
#include <math.h>
#include <snls/snls.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum TileKind { ANY, PRODUCTS, FEW, LONG, STEPS, PATCHES, FRAMES, APART } TileKind;
static const char *const kinds[] = {"", " --products", " --few", " --long", " --steps", " --patches", " --frames", " --apart"};

typedef struct TileCase {
    SnlsSearch s, all;
    double largest;  /* |feature| */
    bool exact;      /* small whole features and places at eighths: sums round nothing, and many tie */
    bool alike;      /* every feature of the query is 0: every candidate ties, exactly */
    int64_t per_query;
} TileCase;

/* How flow runs over the frame: what decides which lanes are worked on together. */
enum { FLOW_NONE, FLOW_CONSTANT, FLOW_WHOLE, FLOW_SMOOTH, FLOW_OUTWARD, FLOW_STEP, FLOW_RANDOM, FLOW_KINDS };

static double flow_at(int kind, double level, Rng *rng, int64_t y, int64_t x, int axis)
{
    switch (kind) {
    case FLOW_CONSTANT: return level;
    case FLOW_WHOLE: return rint(level);
    case FLOW_SMOOTH: return level + 0.07 * (double)x - 0.05 * (double)y * (axis ? 1 : -1);
    case FLOW_OUTWARD: return level + 12 + 0.3 * (double)x; /* leaves the frame: reflected centres run backwards */
    case FLOW_STEP: return level + (x > 11 ? 7.25 : 0);
    default: return rng_real(rng, -20, 20);
    }
}

static void draw_flow(TileCase *c, Rng *rng, bool anywhere)
{
    const int kind = anywhere ? FLOW_RANDOM : (int)rng_int(rng, 0, FLOW_KINDS - 1);
    const int64_t *q = c->s.query.shape, slots = 2 * c->s.params.wt + (int64_t)rng_one_in(rng, 2);
    const int64_t step = c->s.params.stride0, shape[6] = {q[0], q[1], slots, (q[2] + step - 1) / step, (q[3] + step - 1) / step, 2};
    if (kind == FLOW_NONE || !slots) return;
    c->s.flow = tensor_new(rng, SNLS_F32, 6, shape, rng_one_in(rng, 3) ? LAYOUT_INPUT : LAYOUT_PLAIN);
    const double level[2] = {rng_real(rng, -4, 4), rng_real(rng, -4, 4)};
    int64_t flat = 0;
    for (int64_t plane = 0; plane < shape[0] * shape[1] * shape[2]; plane++)
        for (int64_t y = 0; y < shape[3]; y++)
            for (int64_t x = 0; x < shape[4]; x++)
                for (int axis = 0; axis < 2; axis++)
                    tensor_set(&c->s.flow, flat++, rng_one_in(rng, 500) ? NAN : flow_at(kind, level[axis], rng, y, x, axis));
}

static void draw_tile_params(SnlsSearchParams *p, Rng *rng)
{
    snls_search_defaults(p);
    p->ws = (int32_t)rng_int(rng, 1, 7);
    p->wt = (int32_t)rng_int(rng, 0, 1);
    p->ps = (int32_t)RNG_PICK(rng, 1, 1, 2, 3, 4, 5, 7);
    p->k = (int32_t)RNG_PICK(rng, 1, 2, 3, 4, 6, 8, 10, 13, 64); /* lists of every length have code of their own */
    p->stride0 = p->ps == 1 ? (int32_t)RNG_PICK(rng, 1, 1, 2, 3) : 1;
    p->stride1 = RNG_PICK(rng, 1, 1, 1, 0.5, 0.25, 1.1, 2, 1.5);
    p->dilation = p->ps > 1 ? (int32_t)RNG_PICK(rng, 1, 1, 2) : 1;
    p->dist = (int32_t)rng_int(rng, 0, 1);
    p->interp = p->stride1 == rint(p->stride1) && rng_one_in(rng, 4);
    p->border = rng_one_in(rng, 3);
    p->window = rng_one_in(rng, 5);
    p->topk = rng_one_in(rng, 4);
    p->exclude = rng_one_in(rng, 6) ? SNLS_EXCLUDE_FRAME : SNLS_EXCLUDE_NONE;
}

static void draw_few_params(SnlsSearchParams *p, Rng *rng)
{
    p->ws = (int32_t)rng_int(rng, 1, 5);
    p->wt = (int32_t)rng_int(rng, 0, 2);
    p->ps = 3;
    p->dilation = 1;
    p->k = (int32_t)RNG_PICK(rng, 1, 3, 10);
    p->stride0 = (int32_t)RNG_PICK(rng, 1, 1, 2);
    p->stride1 = RNG_PICK(rng, 0.5, 0.5, 1);
    p->heads = (int32_t)rng_int(rng, 1, 3);
    p->interp = p->stride1 == 1 && rng_one_in(rng, 4);
    p->border = SNLS_BORDER_REFLECT;
    if (!rng_one_in(rng, 4)) return;
    p->ps = 1;
    p->ws = (int32_t)rng_int(rng, 6, 9);
    p->wt = (int32_t)rng_int(rng, 0, 1);
    p->dist = SNLS_DIST_L2;
}

static void draw_long_params(SnlsSearchParams *p, Rng *rng)
{
    p->ps = p->dilation = 1;
    p->dist = SNLS_DIST_L2;
    p->ws = (int32_t)rng_int(rng, 6, 9);
    p->wt = (int32_t)rng_int(rng, 0, 2);
    p->k = (int32_t)RNG_PICK(rng, 11, 20, 32, 33, 50, 64);
    p->heads = (int32_t)rng_int(rng, 1, 3);
    p->stride0 = (int32_t)RNG_PICK(rng, 1, 1, 2);
    p->stride1 = RNG_PICK(rng, 1, 1, 0.5);
    p->interp = p->stride1 == 1 && rng_one_in(rng, 4);
}

static void draw_steps_params(SnlsSearchParams *p, Rng *rng)
{
    p->ps = p->dilation = 1;
    p->interp = SNLS_INTERP_BILINEAR;
    p->ws = (int32_t)RNG_PICK(rng, 1, 2, 3, 4, 5, 7, 8, 9, 15);
    p->k = (int32_t)RNG_PICK(rng, 1, 2, 3, 3, 4, 5, 10, 13);
    p->stride1 = RNG_PICK(rng, 0.5, 0.5, 0.25);
}

static void draw_patches_params(SnlsSearchParams *p, Rng *rng)
{
    p->ps = (int32_t)RNG_PICK(rng, 3, 5, 7, 7);
    p->dilation = 1;
    p->dist = rng_one_in(rng, 5) ? SNLS_DIST_L2 : SNLS_DIST_PROD;
    p->heads = rng_one_in(rng, 4) ? 2 : 1;
    p->ws = (int32_t)rng_int(rng, 1, 6);
    if (rng_one_in(rng, 6)) p->ws = (int32_t)RNG_PICK(rng, 9, 15, 16, 17, 19); /* as wide as a vector, and wider */
    if (rng_one_in(rng, 2)) p->stride1 = 1;
}

static void draw_frames_params(SnlsSearchParams *p, Rng *rng)
{
    p->ps = p->dilation = 1;
    p->wt = (int32_t)rng_int(rng, 0, 2);
    p->ws = (int32_t)rng_int(rng, 1, 5);
    p->k = (int32_t)RNG_PICK(rng, 1, 2, 3, 4, 6);
    p->heads = rng_one_in(rng, 3) ? 2 : 1;
    if (rng_one_in(rng, 2)) p->stride1 = 1;
}

static void draw_apart_params(SnlsSearchParams *p, Rng *rng)
{
    draw_steps_params(p, rng);
    p->wt = rng_one_in(rng, 3);
    p->ws = (int32_t)rng_int(rng, 1, 9);
    p->stride0 = (int32_t)RNG_PICK(rng, 2, 3, 5, 5);
    p->stride1 = RNG_PICK(rng, 1, 1, 0.5, 0.25);
}

/* alike stays set where the video is all alike and whole. */
static SnlsTensor draw_video(Rng *rng, SnlsDtype type, const int64_t *shape, double scale, double level, bool *alike)
{
    const SnlsTensor v = tensor_new(rng, type, 5, shape, LAYOUT_PLAIN);
    const double range = rng_one_in(rng, 10) ? 0 : scale; /* all alike: every candidate ties */
    tensor_fill(&v, rng, -range, range);
    for (int64_t i = 0; i < tensor_count(&v); i++) tensor_set(&v, i, tensor_get(&v, i) + level);
    int64_t broken = rng_one_in(rng, 6) ? rng_int(rng, 1, 9) : 0;
    *alike = *alike && range == 0 && !broken;
    for (; broken > 0; broken--) tensor_set(&v, rng_int(rng, 0, tensor_count(&v) - 1), NAN);
    return v;
}

/* Features that rise evenly over the frame, and queries that lie between pixels, half a step down and to the left, but for a little: the
 * distance there is small beside those at the pixels about, of which an interpolated one is made, and keeps few of their digits.
 * Along columns features may be level: then many candidates are as near, and lost digits decide which seem to be the best. */
static void draw_slopes(TileCase *c, Rng *rng)
{
    enum { STEEP = 30 };
    const int64_t *n = c->s.query.shape;
    const bool level = rng_one_in(rng, 2);
    double slope[2] = {0, 0};
    for (int64_t f = 0; f < n[4]; f++) {
        for (int axis = level; axis < 2; axis++) slope[axis] = rng_real(rng, -STEEP, STEEP);
        for (int64_t i = f; i < tensor_count(&c->s.query); i += n[4]) {
            const double y = (double)(i / n[4] / n[3] % n[2]), x = (double)(i / n[4] % n[3]);
            tensor_set(&c->s.key, i, slope[0] * y + slope[1] * x + rng_real(rng, -0.01, 0.01));
            tensor_set(&c->s.query, i, slope[0] * (y + 0.5) + slope[1] * (x - 0.5) + rng_real(rng, -0.01, 0.01));
        }
    }
    c->largest = STEEP * (double)(n[2] + n[3]);
    c->alike = false;
}

/* Features 0 but the first, places of the flow at eighths of a pixel: scores are sums of small multiples of 1/4096, which float holds. */
static void make_exact(TileCase *c, Rng *rng)
{
    SnlsTensor *video[2] = {&c->s.query, &c->s.key};
    const int64_t often = RNG_PICK(rng, 0, 0, 300); /* one of so many is no number */
    for (int n = 0; n < 2; n++)
        for (int64_t i = 0; i < tensor_count(video[n]); i++) tensor_set(video[n], i, i % c->s.query.shape[4] != 0 ? 0 : often && rng_one_in(rng, often) ? NAN : (double)rng_int(rng, -1, 1));
    for (int64_t i = 0; c->s.flow.data && i < tensor_count(&c->s.flow); i++) tensor_set(&c->s.flow, i, rint(8 * tensor_get(&c->s.flow, i)) / 8);
    c->exact = true;
    c->alike = false;
}

static void outputs(SnlsSearch *s, SnlsContext *ctx, bool all)
{
    const SnlsStatus status = (all ? snls_search_all_shape : snls_search_shape)(ctx, s);
    CHECK(status >= 0, "shape: %s", snls_error(ctx));
    s->dist.data = check_alloc(snls_tensor_elements(&s->dist), sizeof(float));
    s->offset.data = check_alloc(snls_tensor_elements(&s->offset), sizeof(float));
    s->index.data = check_alloc(snls_tensor_elements(&s->index), sizeof(int32_t));
}

static void draw(TileCase *c, Rng *rng, SnlsContext *ref, TileKind kind)
{
    const bool products = kind == PRODUCTS;
    memset(c, 0, sizeof *c);
    draw_tile_params(&c->s.params, rng);
    const bool slopes = kind == ANY && rng_one_in(rng, 5);
    if (slopes) c->s.params.stride1 = 0.5, c->s.params.dist = SNLS_DIST_L2, c->s.params.interp = SNLS_INTERP_BILINEAR;
    if (products) c->s.params.ps = c->s.params.dilation = 1, c->s.params.dist = SNLS_DIST_PROD;
    if (products && rng_one_in(rng, 3)) c->s.params.ws = (int32_t)rng_int(rng, 8, 16);
    if (kind == FEW) draw_few_params(&c->s.params, rng);
    if (kind == LONG) draw_long_params(&c->s.params, rng);
    if (kind == STEPS) draw_steps_params(&c->s.params, rng);
    if (kind == PATCHES) draw_patches_params(&c->s.params, rng);
    if (kind == FRAMES) draw_frames_params(&c->s.params, rng);
    if (kind == APART) draw_apart_params(&c->s.params, rng);
    const int64_t reach = c->s.params.ps > 3 ? 4 : 8, side = c->s.params.ws > 5 ? 26 : 40;
    int64_t shape[5] = {1, 2 * c->s.params.wt + 1 + rng_int(rng, 0, 1), rng_int(rng, 1, 22), rng_int(rng, 1, side), rng_int(rng, 1, reach)};
    if (c->s.params.ps == 1 && (products || rng_one_in(rng, 2))) shape[4] = RNG_PICK(rng, 16, 16, 19, 31, 33, 70); /* chunks of features */
    if (kind != LONG && c->s.params.ps == 1 && rng_one_in(rng, 10)) c->s.params.ws = (int32_t)RNG_PICK(rng, 14, 19, 33); /* windows wider than a vector */
    if (kind == FEW) {
        shape[2] = rng_int(rng, 1, 14);
        shape[3] = rng_int(rng, 1, 22);
        shape[4] = c->s.params.heads * (c->s.params.ps == 1 ? RNG_PICK(rng, 32, 16, 5, 20, 40) : RNG_PICK(rng, 4, 8, 8, 16, rng_int(rng, 1, 16)));
    }
    if (kind == LONG) {
        shape[2] = rng_int(rng, 1, 14);
        shape[3] = rng_int(rng, 1, 22);
        shape[4] = c->s.params.heads * RNG_PICK(rng, 16, 16, 5, 20, 32, 40);
    }
    if (kind == STEPS) {
        shape[2] = rng_int(rng, 1, 14);
        shape[3] = rng_int(rng, 1, 22);
        shape[4] = RNG_PICK(rng, 16, 19, 32, 33, 64, 70);
    }
    const bool exact = kind == STEPS && rng_one_in(rng, 2);
    if (exact) { /* windows that fit the frame */
        c->s.params.ws = (int32_t)RNG_PICK(rng, 3, 5, 5, 9);
        shape[2] = rng_int(rng, 6, 12);
        shape[3] = rng_int(rng, 12, 24);
    }
    if (kind == APART) {
        shape[2] = rng_int(rng, 10, 40);
        shape[3] = rng_int(rng, 30, 60);
        shape[4] = RNG_PICK(rng, 16, 19, 32, 33, 64);
    }
    if (kind == PATCHES) { /* up to three blocks of pixels and more than a tile */
        shape[2] = rng_int(rng, 1, rng_one_in(rng, 3) ? 36 : 18);
        shape[3] = c->s.params.ws > 8 ? rng_int(rng, 1, 24) : rng_int(rng, 1, shape[2] > 18 ? 20 : 60);
        shape[4] = c->s.params.heads * RNG_PICK(rng, 31, 64, 88, 90, 96, 112);
    }
    if (kind == FRAMES) { /* a few frames stay held from one batch or head to the next, of many none does */
        shape[0] = rng_int(rng, 1, 2);
        shape[1] = rng_int(rng, 2 * c->s.params.wt + 1, rng_one_in(rng, 2) ? 7 : 16);
        shape[2] = rng_int(rng, 1, 9);
        shape[3] = rng_int(rng, 1, 12);
        shape[4] = c->s.params.heads * RNG_PICK(rng, 16, 20, 32, 40);
    }
    if (kind == ANY && c->s.params.ps == 1 && rng_one_in(rng, 8)) { /* several strips of tiles, each cut more than once on its way down */
        shape[2] = rng_int(rng, 41, 60);
        shape[3] = rng_int(rng, 60, 130);
        shape[4] = rng_int(rng, 1, 3);
        c->s.params.ws = (int32_t)rng_int(rng, 1, 3);
    }
    const SnlsDtype type = kind == LONG && rng_one_in(rng, 3) ? SNLS_BF16 : SNLS_F32;
    const double scale = RNG_PICK(rng, 1, 50), level = RNG_PICK(rng, 0, 0, 128);
    c->largest = scale + level;
    c->alike = level == 0; /* then nothing is rounded */
    c->s.query = draw_video(rng, type, shape, scale, level, &c->alike);
    c->s.key = !slopes && rng_one_in(rng, 2) ? c->s.query : draw_video(rng, type, shape, scale, level, &c->alike);
    if (slopes) draw_slopes(c, rng);
    if (products && rng_one_in(rng, 4)) { /* a query of zeros: whatever is no NaN ties */
        for (int64_t i = 0; i < tensor_count(&c->s.query); i++) tensor_set(&c->s.query, i, 0);
        c->alike = true;
    }
    draw_flow(c, rng, kind == APART);
    if (exact) make_exact(c, rng);
    c->all = c->s;
    c->all.params.topk = SNLS_TOPK_ALL;
    outputs(&c->s, ref, false);
    outputs(&c->all, ref, true);
    c->per_query = c->all.dist.shape[5];
}

/* (terms + 2) eps sum|term| and what interpolation may add, by Cauchy-Schwarz from the distance and the largest feature. */
static double tolerance(const TileCase *c, double dist)
{
    const double terms = (double)c->s.query.shape[4] / c->s.params.heads * c->s.params.ps * c->s.params.ps, norm = sqrt(terms) * c->largest;
    if (c->s.params.dist == SNLS_DIST_PROD) return (terms + 8) * EPS_F32 * norm * norm;
    return (terms + 2) * EPS_F32 * dist + 12 * EPS_F32 * sqrt(dist) * norm + 36 * EPS_F32 * EPS_F32 * norm * norm;
}

static int rising(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return x < y ? -1 : x > y;
}

/* Candidates [from, from+n) that come before number `index`: those with a better score, and of equal ones the first. */
static int64_t before(const float *every, const int32_t *there, int64_t from, int64_t n, int64_t index, double sign)
{
    int64_t count = 0;
    for (int64_t i = from; i < from + n; i++)
        if (there[i] >= 0) count += sign * every[i] < sign * every[index] || (every[i] == every[index] && i < index);
    return count;
}

/* Places [first, first+k) of a query against candidates [from, from+n) of the same query. */
static void check_group(const TileCase *c, int64_t query, int64_t first, int64_t from, int64_t n, float *sorted)
{
    const float *dist = (const float *)c->s.dist.data + query * c->s.dist.shape[5] + first, *every = (const float *)c->all.dist.data + query * c->per_query;
    const int32_t *index = (const int32_t *)c->s.index.data + query * c->s.dist.shape[5] + first;
    const int32_t *there = (const int32_t *)c->all.index.data + query * c->per_query;
    const float *offset = (const float *)c->s.offset.data + (query * c->s.dist.shape[5] + first) * 3, *places = (const float *)c->all.offset.data + query * c->per_query * 3;
    const double sign = c->s.params.dist == SNLS_DIST_PROD ? -1 : 1;
    int64_t count = 0, next = from;
    for (int64_t i = from; i < from + n; i++)
        if (there[i] >= 0) sorted[count++] = (float)(sign * every[i]);
    qsort(sorted, (size_t)count, sizeof *sorted, rising);
    for (int64_t k = 0; k < c->s.params.k; k++) {
        if (k >= count) {
            CHECK(index[k] == -1 && isinf(dist[k]), "query %lld place %lld: candidate %d, there are only %lld", (long long)query, (long long)k, index[k], (long long)count);
            continue;
        }
        if (!CHECK(index[k] >= from && index[k] < from + n && there[index[k]] >= 0, "query %lld place %lld: candidate %d", (long long)query, (long long)k, index[k])) continue;
        const double slack = tolerance(c, fabs(sorted[k]));
        CHECK(fabs(sign * dist[k] - sorted[k]) <= slack, "query %lld place %lld: distance %.9g, best left %.9g within %.3g", (long long)query, (long long)k, dist[k], sign * sorted[k], slack);
        CHECK(fabs(dist[k] - every[index[k]]) <= slack, "query %lld place %lld: distance %.9g, candidate %d has %.9g", (long long)query, (long long)k, dist[k], index[k], every[index[k]]);
        CHECK(!memcmp(offset + 3 * k, places + 3 * (int64_t)index[k], 3 * sizeof *offset), "query %lld place %lld: offset of another candidate", (long long)query, (long long)k);
        while (there[next] < 0) next++; /* of those that tie the first come first */
        if (c->alike) CHECK(index[k] == next, "query %lld place %lld: candidate %d, all tie and %lld is left", (long long)query, (long long)k, index[k], (long long)next);
        if (c->exact) CHECK(before(every, there, from, n, index[k], sign) == k, "query %lld place %lld: candidate %d is not the next", (long long)query, (long long)k, index[k]);
        next++;
        CHECK(!k || index[k] != index[k - 1], "query %lld: candidate %d twice", (long long)query, index[k]);
    }
}

static void check_case(const TileCase *c)
{
    const int64_t slots = 2 * c->s.params.wt + 1, queries = snls_tensor_elements(&c->s.dist) / c->s.dist.shape[5], cells = c->per_query / slots;
    float *sorted = check_alloc(c->per_query, sizeof *sorted);
    for (int64_t q = 0; q < queries; q++) {
        if (c->s.params.topk == SNLS_TOPK_ALL) check_group(c, q, 0, 0, c->per_query, sorted);
        for (int64_t s = 0; c->s.params.topk == SNLS_TOPK_EACH && s < slots; s++) check_group(c, q, s * c->s.params.k, s * cells, cells, sorted);
    }
}

/* Memory that holds something odd: results must not depend on what scratch held before. */
static void *alloc_filled(size_t bytes, void *opaque)
{
    void *block = malloc(bytes);
    if (block) memset(block, *(const int *)opaque, bytes);
    return block;
}
static void free_filled(void *block, void *opaque)
{
    (void)opaque;
    free(block);
}

static uint64_t hash(const SnlsTensor *t)
{
    const unsigned char *bytes = t->data;
    uint64_t sum = 1469598103934665603u;
    for (int64_t i = 0; i < 4 * snls_tensor_elements(t); i++) sum = (sum ^ bytes[i]) * 1099511628211u;
    return sum;
}

/* The same bits from other scratch and another number of threads. */
static void check_again(const TileCase *c, SnlsContextParams params, int32_t threads, int fill)
{
    const uint64_t dist = hash(&c->s.dist), index = hash(&c->s.index);
    SnlsContext *ctx = NULL;
    params.threads = threads;
    params.allocator = (SnlsAllocator){alloc_filled, free_filled, &fill};
    if (!CHECK(snls_open(&ctx, &params) >= 0, "open cpu")) return;
    CHECK(snls_search_forward(ctx, &c->s) >= 0, "%s", snls_error(ctx));
    CHECK(hash(&c->s.dist) == dist && hash(&c->s.index) == index, "other bits on %d threads with scratch of 0x%02x", (int)threads, fill);
    snls_close(&ctx);
}

/* With a byte less than it took: no memory, or the same bits in another way. */
static void check_less(const TileCase *c, SnlsContextParams params)
{
    const uint64_t dist = hash(&c->s.dist), index = hash(&c->s.index);
    SnlsContext *ctx = NULL;
    if (!CHECK(snls_open(&ctx, &params) >= 0, "open cpu")) return;
    CHECK(snls_search_forward(ctx, &c->s) >= 0, "%s", snls_error(ctx));
    params.scratch_limit = snls_scratch_peak(ctx) - 1;
    snls_close(&ctx);
    if (params.scratch_limit < 1 || !CHECK(snls_open(&ctx, &params) >= 0, "open cpu")) return;
    const SnlsStatus status = snls_search_forward(ctx, &c->s);
    CHECK(status >= 0 || status == SNLS_ERR_MEMORY, "with less scratch: %s", snls_error(ctx));
    CHECK(status < 0 || (hash(&c->s.dist) == dist && hash(&c->s.index) == index), "other bits with less scratch");
    CHECK(snls_scratch_peak(ctx) <= params.scratch_limit, "%lld bytes of scratch, %lld are allowed", (long long)snls_scratch_peak(ctx), (long long)params.scratch_limit);
    snls_close(&ctx);
}

/* ---- gradients of 3 x 3 patches, which a GPU takes together ---- */

static SnlsTensor like(Rng *rng, const SnlsTensor *t, const SnlsTensor *values, bool absolute)
{
    const SnlsTensor copy = tensor_new(rng, SNLS_F32, t->ndim, t->shape, LAYOUT_PLAIN);
    for (int64_t i = 0; i < tensor_count(&copy); i++) tensor_set(&copy, i, values ? (absolute ? fabs(tensor_get(values, i)) : tensor_get(values, i)) : 0);
    return copy;
}

static void check_near(const char *of, const SnlsTensor *got, const SnlsTensor *want, const SnlsTensor *size, double eps)
{
    for (int64_t i = 0; i < tensor_count(got); i++) {
        const double have = tensor_get(got, i), right = tensor_get(want, i);
        if (isfinite(right))
            CHECK(fabs(have - right) <= eps * (size ? fabs(tensor_get(size, i)) : 1), "d %s element %lld: %.9g, not %.9g", of, (long long)i, have, right);
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
    for (int64_t q = 0; q < snls_tensor_elements(&r.dist) / r.params.k; q++) check_group(&got, q, 0, 0, given, sorted);
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
        if (!run) check_case(c);
        const uint64_t now = hash(&c->s.dist) ^ hash(&c->s.index) * 31;
        CHECK(!run || now == before, "other bits when run again");
        before = now;
    }
    if (c->s.params.ps == 3 && c->s.params.dilation == 1) check_grad(c, rng, ref, ctx);
    if (kind == LONG) check_places(c, rng, ref, ctx);
}

int main(int argc, char **argv)
{
    SnlsContext *cuda = NULL;
    if (argc > 2 && !strcmp(argv[1], "--backend")) {
        cuda = context_open_cuda(false);
        argc -= 2;
        argv += 2;
    }
    TileKind kind = ANY;
    for (int i = PRODUCTS; i <= APART && argc > 1; i++)
        if (!strcmp(argv[1], kinds[i] + 1)) kind = (TileKind)i;
    argc -= kind != ANY;
    argv += kind != ANY;
    const long long seed = argc > 1 ? atoll(argv[1]) : 1, count = argc > 2 ? atoll(argv[2]) : 1;
    SnlsContextParams params;
    SnlsContext *ref = NULL, *cpu = NULL;
    snls_context_defaults(&params);
    params.backend = "ref";
    if (!CHECK(snls_open(&ref, &params) >= 0, "open ref")) return check_end();
    for (long long n = seed; n < seed + count; n++) {
        Rng rng = {(uint64_t)n};
        TileCase c;
        draw(&c, &rng, ref, kind);
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
            check_case(&c);
            snls_close(&cpu);
            check_again(&c, params, 1, 0x00);
            check_again(&c, params, 3, 0x7f); /* floats of 3e38 */
            check_again(&c, params, 2, 0xff); /* NaN */
            check_less(&c, params);
        }
        tensors_free();
    }
    snls_close(&ref);
    snls_close(&cuda);
    return check_end();
}
