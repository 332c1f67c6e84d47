/* test_close.c: candidates that are much alike: so near each other that bf16 can not tell them apart, but f32 can. What a machine with matrix tiles sifts out first
 * (src/cpu/sieve_pick.c) must not be one of the best. Against ref, distance by distance: one that was lost leaves a larger one in its place.
 *   test_close [--worst|--below] [SEED [COUNT]]
 * Most of the frame is random, and has candidates of all kinds; where too many are near each other a search would take another way. Here and there is a block of pixels about
 * a vector of its own, longer or shorter than others, with little or less between them. Some videos also have lone pixels far beyond the others, or features that are no numbers.
 * --worst: numbers that rounding to bf16 takes the most off, and in such a way that the best candidate seems to be worse than another by as much as that can make it.
 * --below: places a little below a pixel, or next to each other, where a candidate that is nearly the query lies beside one that is far from it: interpolation must leave the near one its digits. */
/* ctest: sanitized=2 args=1 8 */
/* ctest: name=worst args=--worst 1 12 */
/* ctest: name=below args=--below 1 24 */
/* ctest: name=many label=slow timeout=600 args=1000 9 */
#include "case.h"
#include <math.h>
#include <snls/snls.h>
#include <stdlib.h>
#include <string.h>

enum { FRAMES = 3, BLOCK = 11, SELDOM = 9, LONE = 1500, BROKEN = 40000, FEATURES_MAX = 96 };

typedef struct Block { bool close; double length, apart, about[FEATURES_MAX]; } Block;

/* wide: longer or shorter than the rest by more than numbers of 16 bits can be; so are some pixels alone. */
static Block draw_block(Rng *rng, int64_t features, bool wide)
{
    Block b = {.close = rng_one_in(rng, SELDOM), .length = exp2(wide ? rng_real(rng, -30, 20) : rng_real(rng, -4, 4)), .apart = exp2(rng_real(rng, -12, -2))};
    for (int64_t f = 0; f < features; f++) b.about[f] = rng_real(rng, -1, 1);
    return b;
}

/* Pixels of the two videos: the same blocks, with a difference each. */
static void draw_videos(Rng *rng, SnlsTensor *query, SnlsTensor *key, double level)
{
    const bool wide = rng_one_in(rng, 4), broken = rng_one_in(rng, 4);
    const double unit = RNG_PICK(rng, 1, 1, 0x1p-30, 0x1p30);
    const int64_t height = query->shape[2], width = query->shape[3], features = query->shape[4], across = (width + BLOCK - 1) / BLOCK;
    Block *blocks = check_alloc(across * ((height + BLOCK - 1) / BLOCK), sizeof *blocks);
    for (int64_t i = 0; i < across * ((height + BLOCK - 1) / BLOCK); i++) blocks[i] = draw_block(rng, features, wide);
    int64_t flat = 0;
    for (int64_t t = 0; t < FRAMES; t++)
        for (int64_t y = 0; y < height; y++)
            for (int64_t x = 0; x < width; x++) {
                const double alone = wide && rng_one_in(rng, LONE) ? 0x1p20 : 1;
                for (int64_t f = 0; f < features; f++, flat++) {
                    const Block *b = &blocks[y / BLOCK * across + x / BLOCK];
                    for (int i = 0; i < 2; i++) {
                        tensor_set(i ? key : query, flat, unit * alone * (level + (b->close ? b->length * (b->about[f] + b->apart * rng_real(rng, -1, 1)) : rng_real(rng, -1, 1))));
                        if (broken && rng_one_in(rng, BROKEN)) tensor_set(i ? key : query, flat, RNG_PICK(rng, NAN, INFINITY, -INFINITY));
                    }
                }
            }
}

static void make_tensors(Rng *rng, SnlsSearch *s, const int64_t *video, const int64_t *field)
{
    s->query = tensor_new(rng, SNLS_F32, 5, video, LAYOUT_PLAIN);
    s->key = tensor_new(rng, SNLS_F32, 5, video, LAYOUT_PLAIN);
    s->dist = tensor_new(rng, SNLS_F32, 6, field, LAYOUT_PLAIN);
    s->offset = tensor_new(rng, SNLS_F32, 7, field, LAYOUT_PLAIN);
}

static SnlsSearch draw(Rng *rng)
{
    SnlsSearch s = {0};
    snls_search_defaults(&s.params);
    s.params.dist = rng_one_in(rng, 2) ? SNLS_DIST_PROD : SNLS_DIST_L2;
    s.params.ws = (int32_t)RNG_PICK(rng, 5, 7, 9), s.params.wt = 1, s.params.k = (int32_t)rng_int(rng, 1, 12);
    s.params.stride1 = RNG_PICK(rng, 1, 1, 1, 0.5);
    const int64_t height = rng_int(rng, 50, 90), width = rng_int(rng, 20, 60), features = (int64_t)RNG_PICK(rng, 16, 31, 32, 48, 96);
    const int64_t video[] = {1, FRAMES, height, width, features}, flow[] = {1, FRAMES, 2, height, width, 2}, field[] = {1, 1, FRAMES, height, width, s.params.k, 3};
    make_tensors(rng, &s, video, field);
    draw_videos(rng, &s.query, &s.key, RNG_PICK(rng, 0, 0, 3));
    if (rng_one_in(rng, 3)) return s;
    s.flow = tensor_new(rng, SNLS_F32, 6, flow, LAYOUT_PLAIN);
    const double whole = RNG_PICK(rng, 0, 1), at = rng_real(rng, -2, 2);
    for (int64_t i = 0; i < tensor_count(&s.flow); i++) tensor_set(&s.flow, i, whole ? rint(at) : at + 0.03 * (double)(i / 2 % width));
    return s;
}

/* ---- the worst that rounding can do ---- */

enum { SIDE = 64, EACH = 8, SAMPLED = 4 }; /* a pair of candidates in every square of EACH pixels; pixels that SAMPLED divides are those whose mean is taken off keys */

/* 1 + 2^-8 lies halfway between two numbers of bf16: a little more is rounded up, a little less down. The two keys have one half of the features each, in which their product with the
 * query, or their distance from it, seems larger by all that rounding can take off, or smaller by as much; by right the second, IS, is the better one by a little. */
enum { QUERY, SEEMS, IS };

static double worst_of(bool prod, int which, int64_t f, int64_t features, double tiny)
{
    const bool first = f < features / 2;
    const double here = 1 + (first == prod ? 1 + tiny : 1 - tiny) * 0x1p-8;
    if (which == QUERY) return here;
    if (prod) return which == SEEMS ? (first ? here : 0) : (first ? 0x1p-8 : here);
    return which == SEEMS ? (first ? -here : here) : f == features - 1 ? -0.97 : (first ? here : -here);
}

static void set_pixel(SnlsTensor *v, int64_t y, int64_t x, bool prod, int which, double unit, double tiny)
{
    const int64_t features = v->shape[4];
    for (int64_t f = 0; f < features; f++) tensor_set(v, (y * SIDE + x) * features + f, unit * worst_of(prod, which, f, features, tiny));
}

/* What is neither of the two is far from being the best; where the mean is taken it is 0. */
static void set_others(Rng *rng, SnlsTensor *key, bool prod, double unit)
{
    const int64_t features = key->shape[4];
    const double most = prod ? 0.25 : 1.5;
    for (int64_t i = 0; i < tensor_count(key); i++) {
        const int64_t x = i / features % SIDE, y = i / features / SIDE, turns = i % features + (x + y) / SAMPLED;
        const bool mean = x % SAMPLED == 0 && y % SAMPLED == 0;
        tensor_set(key, i, unit * (mean ? (turns % 2 ? most : -most) : rng_real(rng, -most, -most / 3)));
    }
}

static SnlsSearch draw_worst(Rng *rng)
{
    SnlsSearch s = {0};
    snls_search_defaults(&s.params);
    const bool prod = rng_one_in(rng, 2);
    s.params.dist = prod ? SNLS_DIST_PROD : SNLS_DIST_L2;
    s.params.ws = 9, s.params.wt = 0, s.params.k = (int32_t)rng_int(rng, 1, 2);
    const int64_t features = (int64_t)RNG_PICK(rng, 32, 48, 64, 96), video[] = {1, 1, SIDE, SIDE, features}, field[] = {1, 1, 1, SIDE, SIDE, s.params.k, 3};
    const double unit = exp2(rint(rng_real(rng, -10, 10))), tiny = exp2(rint(rng_real(rng, -9, -6)));
    make_tensors(rng, &s, video, field);
    set_others(rng, &s.key, prod, unit);
    for (int64_t y = 0; y < SIDE; y++)
        for (int64_t x = 0; x < SIDE; x++) set_pixel(&s.query, y, x, prod, QUERY, unit, tiny);
    for (int64_t y = 0; y < SIDE; y += EACH)
        for (int64_t x = 0; x < SIDE; x += EACH)
            for (int which = SEEMS; which <= IS; which++) set_pixel(&s.key, y + SAMPLED * rng_int(rng, 0, 1) + which, x + rng_int(rng, 0, EACH - 1), prod, which, unit, tiny);
    return s;
}

/* ---- near ones beside far ones ---- */

static double tile_of_four(int64_t y, int64_t x, int64_t f) { return (double)((y % 2 * 2 + x % 2) * 7919 * (f + 1) % 5); }

/* The same four pixels again and again, in the key with a little noise. */
static SnlsSearch draw_below(Rng *rng)
{
    SnlsSearch s = {0};
    snls_search_defaults(&s.params);
    const bool fine = rng_one_in(rng, 3); /* candidates nearly at the same place, in no flow */
    s.params.ws = 5, s.params.k = (int32_t)RNG_PICK(rng, 1, 1, 2, 8), s.params.ps = (int32_t)RNG_PICK(rng, 1, 1, 3);
    if (fine) s.params.stride1 = RNG_PICK(rng, 1e-6, 1e-5, 1e-4), s.params.window = SNLS_WINDOW_CUT;
    const int64_t height = 24, width = 40, features = (int64_t)RNG_PICK(rng, 3, 6, 16, 32), video[] = {1, 1, height, width, features}, flow[] = {1, 1, 1, height, width, 2};
    const int64_t field[] = {1, 1, 1, height, width, s.params.k, 3};
    const double noise = fine ? 0 : exp2(rng_real(rng, -18, -6)), below = exp2(rng_real(rng, -20, -5)), turn = RNG_PICK(rng, 0, 0, 1);
    make_tensors(rng, &s, video, field);
    for (int64_t i = 0; i < tensor_count(&s.key); i++) {
        const double at = tile_of_four(i / features / width, i / features % width, i % features);
        tensor_set(&s.query, i, at);
        tensor_set(&s.key, i, at + noise * rng_real(rng, 0, 1));
    }
    if (fine) return s;
    s.flow = tensor_new(rng, SNLS_F32, 6, flow, LAYOUT_PLAIN); /* some are far from their neighbours', and are scored alone */
    for (int64_t i = 0; i < tensor_count(&s.flow); i++) tensor_set(&s.flow, i, 1 - below + (turn && i / 2 % 7 == 3 ? 8 : 0));
    return s;
}

/* Length of a video's longest pixel, and of one pixel. */
static double length_at(const SnlsTensor *v, int64_t pixel)
{
    const int64_t features = v->shape[4];
    double sum = 0;
    for (int64_t f = 0; f < features; f++) sum += pow(tensor_get(v, pixel * features + f), 2);
    return sqrt(sum);
}

static double longest(const SnlsTensor *v)
{
    double most = 0;
    for (int64_t p = 0; p < tensor_count(v) / v->shape[4]; p++) most = fmax(most, isfinite(length_at(v, p)) ? length_at(v, p) : 0);
    return most;
}

/* What sums in f32 may be off. Squared distances: of differences, whose pixels are rounded when they are mixed; near_ones: with others like the query only. */
static double allowed(const SnlsSearch *s, double dist, double query, double key, bool near_ones)
{
    const double unit = 0x1p-24, n = (double)s->query.shape[4] * s->params.ps * s->params.ps;
    query *= s->params.ps, key *= s->params.ps; /* of patches of such pixels */
    if (s->params.dist == SNLS_DIST_PROD) return unit * (n / 2 + 16) * query * key;
    const double d = sqrt(fmax(dist, 0)), near = (near_ones ? query : key) + d;
    return unit * ((n + 16) * dist + 16 * near * d + 64 * unit * near * near);
}

static void compare(const SnlsSearch *s, const double *want, bool near_ones)
{
    const int64_t k = s->params.k;
    const double key = longest(&s->key);
    for (int64_t i = 0; i < tensor_count(&s->dist); i++) {
        const double have = tensor_get(&s->dist, i), most = allowed(s, want[i], length_at(&s->query, i / k), key, near_ones);
        const bool same = isfinite(want[i]) ? fabs(have - want[i]) <= most : isnan(want[i]) ? isnan(have) : have == want[i];
        if (!CHECK(same, "neighbour %d of query %d: %.9g, %.9g in ref", (int)(i % k), (int)(i / k), have, want[i])) return;
    }
}

int main(int argc, char **argv)
{
    const bool worst = argc > 1 && !strcmp(argv[1], "--worst"), below = argc > 1 && !strcmp(argv[1], "--below");
    argv += worst || below, argc -= worst || below;
    const long long seed = argc > 1 ? atoll(argv[1]) : 1, count = argc > 2 ? atoll(argv[2]) : 1;
    SnlsContext *ref = context_open("ref", 0, 1);
    for (long long n = seed; n < seed + count; n++) {
        Rng rng = {(uint64_t)n};
        SnlsSearch s = worst ? draw_worst(&rng) : below ? draw_below(&rng) : draw(&rng);
        CHECK(snls_search_forward(ref, &s) >= 0, "%s", snls_error(ref));
        const double *want = tensor_doubles(&s.dist);
        for (int32_t level = SNLS_CPU_C; level <= snls_cpu_level_max(); level++) {
            check_repeat("test_close %s%lld # level %s", worst ? "--worst " : below ? "--below " : "", n, snls_cpu_level_name(level));
            SnlsContext *cpu = context_open("cpu", level, (int32_t)rng_int(&rng, 1, 3));
            CHECK(snls_search_forward(cpu, &s) >= 0, "%s", snls_error(cpu));
            compare(&s, want, !below);
            snls_close(&cpu);
        }
        tensors_free();
    }
    snls_close(&ref);
    return check_end();
}
