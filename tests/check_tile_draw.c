/* check_tile_draw.c: what the cases of test_tile are made of: parameters, shapes, features and flow of a search. */
#include "tile.h"
#include <math.h>
#include <string.h>

/* How flow runs over the frame: what decides which lanes are worked on together. */
enum { FLOW_NONE, FLOW_CONSTANT, FLOW_WHOLE, FLOW_SMOOTH, FLOW_OUTWARD, FLOW_STEP, FLOW_HAIR, FLOW_RANDOM, FLOW_KINDS, FLOW_PARTS, FLOW_DRIFT };

enum { JUMP = 29 }; /* rows */

static double flow_at(int kind, double level, Rng *rng, int64_t y, int64_t x, int axis)
{
    switch (kind) {
    case FLOW_CONSTANT: return level;
    case FLOW_WHOLE: return rint(level);
    case FLOW_SMOOTH: return level + 0.07 * (double)x - 0.05 * (double)y * (axis ? 1 : -1);
    case FLOW_OUTWARD: return level + 12 + 0.3 * (double)x; /* leaves the frame: reflected centres run backwards */
    case FLOW_STEP: return level + (x > 11 ? 7.25 : 0);
    case FLOW_HAIR: return RNG_PICK(rng, 0, -1e-9, -1e-9, -3e-8, -1e-12, 1e-9, 0.49999998); /* a fraction that rounds to one, or to a half */
    case FLOW_PARTS: /* things that move past each other, and flow that is wrong here and there */
        if (rng_one_in(rng, 40)) return rng_real(rng, -20, 20);
        return level + 5.5 * (double)((x / 9 + (axis ? y / 6 : 0)) % 3 - 1) + 0.04 * (double)y;
    case FLOW_DRIFT: return level * ((axis ? 0.05 : -0.06) * (double)y + 0.03 * (double)(y % 5) + 0.004 * (double)x) + (level > 3 ? 15 * (double)(y / JUMP % 2) : 0);
    default: return rng_real(rng, -20, 20);
    }
}

static void draw_flow(TileCase *c, Rng *rng, TileKind of)
{
    const int kind = of == TILE_APART ? FLOW_RANDOM : of == TILE_ROUGH ? FLOW_PARTS : of == TILE_STACKS ? FLOW_DRIFT : (int)rng_int(rng, 0, FLOW_KINDS - 1);
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

/* Whole and the same for all queries of a plane, mostly; seldom one of all is another. */
static void draw_even_flow(TileCase *c, Rng *rng)
{
    const int64_t *q = c->s.query.shape, step = c->s.params.stride0, shape[6] = {q[0], q[1], 2 * c->s.params.wt, (q[2] + step - 1) / step, (q[3] + step - 1) / step, 2};
    if (!shape[2] || rng_one_in(rng, 4)) return;
    c->s.flow = tensor_new(rng, SNLS_F32, 6, shape, LAYOUT_PLAIN);
    const int64_t count = tensor_count(&c->s.flow), plane = 2 * shape[3] * shape[4], far = RNG_PICK(rng, 0, 2, 9);
    for (int64_t at = 0; at < count; at += plane) {
        const double level[2] = {(double)rng_int(rng, -far, far), (double)rng_int(rng, -far, far)};
        for (int64_t i = 0; i < plane; i++) tensor_set(&c->s.flow, at + i, level[i % 2]);
    }
    if (rng_one_in(rng, 4)) tensor_set(&c->s.flow, rng_int(rng, 0, count - 1), RNG_PICK(rng, 0.5, 7, NAN));
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
    p->ps = rng_one_in(rng, 3) ? (int32_t)RNG_PICK(rng, 2, 3, 5) : 1;
    p->dilation = 1;
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

/* many: more features than are worked on at a time. */
static void draw_rough_params(SnlsSearchParams *p, Rng *rng, bool many)
{
    p->ps = many ? 3 : (int32_t)RNG_PICK(rng, 2, 3, 3, 5, 7);
    p->dilation = !many && rng_one_in(rng, 6) ? 2 : 1;
    p->dist = many ? SNLS_DIST_PROD : p->dist;
    p->interp = rng_one_in(rng, 6);
    p->wt = 1;
    p->ws = (int32_t)rng_int(rng, 1, 4);
    p->stride1 = p->interp ? 1 : RNG_PICK(rng, 1, 1, 0.5);
    p->heads = rng_one_in(rng, 4) ? 2 : 1;
}

/* Enough terms for lists that wait for no other slot. */
static int64_t draw_stacks_params(SnlsSearchParams *p, Rng *rng)
{
    p->ps = (int32_t)RNG_PICK(rng, 3, 5, 7, 7, 4);
    p->dilation = rng_one_in(rng, 6) ? 2 : 1;
    p->interp = rng_one_in(rng, 6);
    p->ws = (int32_t)rng_int(rng, 4, 7);
    p->stride1 = p->interp ? 1 : RNG_PICK(rng, 1, 1, 1, 0.5);
    p->k = (int32_t)RNG_PICK(rng, 1, 3, 4, 10);
    return 128 / (p->ps * p->ps) + rng_int(rng, 1, 4);
}

static void draw_norms_params(SnlsSearchParams *p, Rng *rng)
{
    p->ps = (int32_t)RNG_PICK(rng, 2, 2, 3, 3, 3, 5, 7);
    p->dilation = rng_one_in(rng, 6) ? 2 : 1;
    p->dist = SNLS_DIST_L2;
    p->heads = rng_one_in(rng, 6) ? 2 : 1;
    p->wt = rng_one_in(rng, 3);
    p->stride1 = RNG_PICK(rng, 1, 1, 1, 1, 2, 0.5);
    p->ws = (int32_t)(p->stride1 == 1 ? rng_int(rng, 7, 9) : p->stride1 == 2 ? rng_int(rng, 4, 5) : 13); /* smaller windows have no norms */
    p->interp = p->stride1 >= 1 && rng_one_in(rng, 4);
    p->border = rng_one_in(rng, 8); /* patches that leave the frame are scored alone where their pixels are dropped */
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

/* A piece of the query, as it is or nearly so, in the key: distances there are small beside the norms of the patches. At the upper right or the lower left: the queries that a search looks at first lie
 * along the other diagonal, and if they saw it there would be no norms. flat: the piece is nearly the same pixel all over, so that all candidates
 * in it are as near, and lost digits decide which seem to be the best. */
static void draw_copy(TileCase *c, Rng *rng, bool flat)
{
    const int64_t *n = c->s.query.shape, from = rng_int(rng, 0, n[1] - 1), to = rng_int(rng, 0, n[1] - 1), dy = rng_int(rng, -2, 2), dx = rng_int(rng, -2, 2);
    const bool low = rng_one_in(rng, 2);
    const int64_t top = low ? rng_int(rng, n[2] * 2 / 3, n[2] - 1) : rng_int(rng, 0, n[2] / 3), left = low ? rng_int(rng, 0, n[3] / 4) : rng_int(rng, n[3] * 3 / 5, n[3] - 1);
    const int64_t size = (c->s.params.ps - 1) * c->s.params.dilation + rng_int(rng, 2, 3) + 3 * flat, first = ((from * n[2] + top) * n[3] + left) * n[4];
    const double off = flat ? RNG_PICK(rng, 0.001, 0.01) : RNG_PICK(rng, 0, 0, 0.001, 0.1);
    for (int64_t y = top; y < n[2] && y < top + size; y++)
        for (int64_t x = left; x < n[3] && x < left + size; x++)
            for (int64_t f = 0; f < n[4]; f++) {
                const int64_t at = ((from * n[2] + y) * n[3] + x) * n[4] + f, to_y = y + dy, to_x = x + dx;
                if (flat && at > first + f) tensor_set(&c->s.query, at, tensor_get(&c->s.query, first + f) + off * rng_real(rng, -1, 1));
                if (to_y < 0 || to_y >= n[2] || to_x < 0 || to_x >= n[3]) continue;
                tensor_set(&c->s.key, ((to * n[2] + to_y) * n[3] + to_x) * n[4] + f, tensor_get(&c->s.query, at) + off * rng_real(rng, -1, 1));
            }
    c->alike = false;
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

void tile_draw(TileCase *c, Rng *rng, SnlsContext *ref, TileKind kind)
{
    const bool products = kind == TILE_PRODUCTS;
    memset(c, 0, sizeof *c);
    draw_tile_params(&c->s.params, rng);
    const bool slopes = kind == TILE_ANY && rng_one_in(rng, 5);
    if (slopes) c->s.params.stride1 = 0.5, c->s.params.dist = SNLS_DIST_L2, c->s.params.interp = SNLS_INTERP_BILINEAR;
    if (products) c->s.params.ps = c->s.params.dilation = 1, c->s.params.dist = SNLS_DIST_PROD;
    if (products && rng_one_in(rng, 3)) c->s.params.ws = (int32_t)rng_int(rng, 8, 16);
    if (kind == TILE_FEW) draw_few_params(&c->s.params, rng);
    if (kind == TILE_LONG) draw_long_params(&c->s.params, rng);
    if (kind == TILE_STEPS) draw_steps_params(&c->s.params, rng);
    if (kind == TILE_PATCHES) draw_patches_params(&c->s.params, rng);
    if (kind == TILE_NORMS) draw_norms_params(&c->s.params, rng);
    if (kind == TILE_FRAMES) draw_frames_params(&c->s.params, rng);
    if (kind == TILE_APART) draw_apart_params(&c->s.params, rng);
    const bool many = kind == TILE_ROUGH && rng_one_in(rng, 3);
    if (kind == TILE_ROUGH) draw_rough_params(&c->s.params, rng, many);
    const int64_t stacked = kind == TILE_STACKS ? draw_stacks_params(&c->s.params, rng) : 0;
    if (kind == TILE_EVEN) c->s.params.ps = c->s.params.dilation = 1, c->s.params.stride1 = rng_one_in(rng, 8) ? 0.5 : 1, c->s.params.ws = (int32_t)RNG_PICK(rng, 1, 3, 4, 5, 7, 8, 9, 9, 9, 17, 18), c->s.params.heads = (int32_t)RNG_PICK(rng, 1, 1, 2);
    if (kind == TILE_EVEN && rng_one_in(rng, 4)) c->s.params.k = 24; /* the longest lists of matrix tiles */
    const int64_t reach = c->s.params.ps > 3 ? 4 : 8, side = c->s.params.ws > 5 ? 26 : 40;
    int64_t shape[5] = {1, 2 * c->s.params.wt + 1 + rng_int(rng, 0, 1), rng_int(rng, 1, 22), rng_int(rng, 1, side), rng_int(rng, 1, reach)};
    if (c->s.params.ps == 1 && (products || rng_one_in(rng, 2))) shape[4] = RNG_PICK(rng, 16, 16, 19, 31, 33, 70); /* chunks of features */
    if (kind != TILE_LONG && c->s.params.ps == 1 && rng_one_in(rng, 10)) c->s.params.ws = (int32_t)RNG_PICK(rng, 14, 19, 33); /* windows wider than a vector */
    if (kind == TILE_FEW) {
        shape[2] = rng_int(rng, 1, 14);
        shape[3] = rng_int(rng, 1, 22);
        shape[4] = c->s.params.heads * (c->s.params.ps == 1 ? RNG_PICK(rng, 32, 16, 5, 20, 40) : RNG_PICK(rng, 4, 8, 8, 16, rng_int(rng, 1, 16)));
    }
    if (kind == TILE_LONG) {
        shape[2] = rng_int(rng, 1, 14);
        shape[3] = rng_int(rng, 1, 22);
        shape[4] = c->s.params.heads * RNG_PICK(rng, 16, 16, 5, 20, 32, 40);
    }
    if (kind == TILE_STEPS) {
        shape[2] = rng_int(rng, 1, 14);
        shape[3] = rng_int(rng, 1, 22);
        shape[4] = RNG_PICK(rng, 16, 19, 32, 33, 64, 70);
    }
    const bool exact = kind == TILE_STEPS && rng_one_in(rng, 2);
    if (exact) { /* windows that fit the frame, of many features where few go another way; even ones begin at a pixel and end between two */
        c->s.params.ws = (int32_t)RNG_PICK(rng, 3, 5, 5, 9, 6, 10);
        if (rng_one_in(rng, 2)) shape[4] = RNG_PICK(rng, 64, 70);
        shape[2] = rng_int(rng, 6, 12);
        shape[3] = rng_int(rng, 12, 24);
    }
    if (kind == TILE_EVEN) {
        shape[0] = RNG_PICK(rng, 1, 1, 2);
        shape[2] = rng_int(rng, 1, 24);
        shape[3] = rng_int(rng, 1, 40);
        shape[4] = c->s.params.heads * RNG_PICK(rng, 33, 40, 64, 70, 100, 130);
    }
    if (kind == TILE_APART) {
        shape[2] = rng_int(rng, 10, 40);
        shape[3] = rng_int(rng, 30, 60);
        shape[4] = RNG_PICK(rng, 16, 19, 32, 33, 64);
    }
    if (kind == TILE_PATCHES) { /* up to three blocks of pixels and more than a tile */
        shape[2] = rng_int(rng, 1, rng_one_in(rng, 3) ? 36 : 18);
        shape[3] = c->s.params.ws > 8 ? rng_int(rng, 1, 24) : rng_int(rng, 1, shape[2] > 18 ? 20 : 60);
        shape[4] = c->s.params.heads * RNG_PICK(rng, 31, 64, 65, 90, 112, 130);
    }
    if (kind == TILE_NORMS) {
        shape[2] = rng_int(rng, 8, 18);
        shape[3] = rng_int(rng, 10, c->s.params.ps > 3 ? 22 : 34);
        shape[4] = c->s.params.heads * RNG_PICK(rng, 32, 32, 33, 40, 70);
    }
    if (kind == TILE_ROUGH) { /* a tile or two */
        shape[1] = 3;
        shape[2] = rng_int(rng, 8, many ? 30 : 20);
        shape[3] = rng_int(rng, many ? 20 : 30, many ? 30 : 56);
        shape[4] = c->s.params.heads * (many ? 90 : RNG_PICK(rng, 1, 3, 3, 4, 9));
    }
    if (kind == TILE_STACKS) {
        shape[1] = 2 * c->s.params.wt + 1;
        const bool narrow = rng_one_in(rng, 2); /* and so high that there are several stacks */
        shape[2] = narrow ? rng_int(rng, 65, 110) : rng_int(rng, 17, 40);
        shape[3] = narrow ? rng_int(rng, 4, 8) : rng_int(rng, 18, c->s.params.wt ? 26 : 50);
        shape[4] = rng_one_in(rng, 2) && stacked < 16 ? rng_int(rng, 16, 20) : stacked; /* keys by rows from 16 on */
    }
    if (kind == TILE_FRAMES) { /* a few frames stay held from one batch or head to the next, of many none does */
        shape[0] = rng_int(rng, 1, 2);
        shape[1] = rng_int(rng, 2 * c->s.params.wt + 1, rng_one_in(rng, 2) ? 7 : 16);
        shape[2] = rng_int(rng, 1, 9);
        shape[3] = rng_int(rng, 1, 12);
        shape[4] = c->s.params.heads * RNG_PICK(rng, 16, 20, 32, 40);
    }
    if (kind == TILE_FRAMES && c->s.params.ps > 1) { /* more than are searched together for want of stacks */
        shape[1] = rng_int(rng, 14, 22);
        shape[3] = rng_int(rng, 6, 12);
        shape[4] = c->s.params.heads * (rng_one_in(rng, 3) ? rng_int(rng, 16, 18) : rng_int(rng, 1, 5));
    }
    if (kind == TILE_ANY && c->s.params.ps == 1 && rng_one_in(rng, 8)) { /* several strips of tiles, each cut more than once on its way down */
        shape[2] = rng_int(rng, 41, 60);
        shape[3] = rng_int(rng, 60, 130);
        shape[4] = rng_int(rng, 1, 3);
        c->s.params.ws = (int32_t)rng_int(rng, 1, 3);
    }
    const SnlsDtype type = kind == TILE_LONG && rng_one_in(rng, 3) ? SNLS_BF16 : SNLS_F32;
    const double scale = RNG_PICK(rng, 1, 50), level = kind == TILE_NORMS ? scale * RNG_PICK(rng, 0, 0, 1, 3) : RNG_PICK(rng, 0, 0, 128);
    c->largest = scale + level;
    c->alike = level == 0; /* then nothing is rounded */
    c->s.query = draw_video(rng, type, shape, scale, level, &c->alike);
    c->s.key = !slopes && rng_one_in(rng, kind == TILE_NORMS ? 8 : 2) ? c->s.query : draw_video(rng, type, shape, scale, level, &c->alike);
    if (slopes) draw_slopes(c, rng);
    for (int64_t n = kind == TILE_NORMS ? rng_int(rng, 1, 3) : 0; n > 0; n--) draw_copy(c, rng, n % 2);
    if (products && rng_one_in(rng, 4)) { /* a query of zeros: whatever is no NaN ties */
        for (int64_t i = 0; i < tensor_count(&c->s.query); i++) tensor_set(&c->s.query, i, 0);
        c->alike = true;
    }
    if (kind == TILE_EVEN) draw_even_flow(c, rng);
    else draw_flow(c, rng, kind);
    if (exact) make_exact(c, rng);
    c->all = c->s;
    c->all.params.topk = SNLS_TOPK_ALL;
    outputs(&c->s, ref, false);
    outputs(&c->all, ref, true);
    c->per_query = c->all.dist.shape[5];
}
