/* test_close.c: candidates that are much alike: so near each other that bf16 can not tell them apart, but f32 can. What a machine with matrix tiles sifts out first
 * (src/cpu/sieve_pick.c) must not be one of the best. Against ref, distance by distance: one that was lost leaves a larger one in its place.
 *   test_close [SEED [COUNT]]
 * Most of the frame is random, and has candidates of all kinds; where too many are near each other a search would take another way. Here and there is a block of pixels about
 * a vector of its own, longer or shorter than others, with little or less between them. */
/* ctest: sanitized=2 args=1 8 */
/* ctest: name=many label=slow timeout=600 args=1000 14 */
#include "case.h"
#include <math.h>
#include <snls/snls.h>
#include <stdlib.h>

enum { FRAMES = 3, BLOCK = 11, SELDOM = 9, FEATURES_MAX = 96 };

typedef struct Block { bool close; double length, apart, about[FEATURES_MAX]; } Block;

static Block draw_block(Rng *rng, int64_t features)
{
    Block b = {.close = rng_one_in(rng, SELDOM), .length = exp2(rng_real(rng, -4, 4)), .apart = exp2(rng_real(rng, -12, -2))};
    for (int64_t f = 0; f < features; f++) b.about[f] = rng_real(rng, -1, 1);
    return b;
}

/* Pixels of the two videos: the same blocks, with a difference each. */
static void draw_videos(Rng *rng, SnlsTensor *query, SnlsTensor *key, double level)
{
    const int64_t height = query->shape[2], width = query->shape[3], features = query->shape[4], across = (width + BLOCK - 1) / BLOCK;
    Block *blocks = check_alloc(across * ((height + BLOCK - 1) / BLOCK), sizeof *blocks);
    for (int64_t i = 0; i < across * ((height + BLOCK - 1) / BLOCK); i++) blocks[i] = draw_block(rng, features);
    int64_t flat = 0;
    for (int64_t t = 0; t < FRAMES; t++)
        for (int64_t y = 0; y < height; y++)
            for (int64_t x = 0; x < width; x++)
                for (int64_t f = 0; f < features; f++, flat++) {
                    const Block *b = &blocks[y / BLOCK * across + x / BLOCK];
                    for (int i = 0; i < 2; i++)
                        tensor_set(i ? key : query, flat, level + (b->close ? b->length * (b->about[f] + b->apart * rng_real(rng, -1, 1)) : rng_real(rng, -1, 1)));
                }
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
    s.query = tensor_new(rng, SNLS_F32, 5, video, LAYOUT_PLAIN);
    s.key = tensor_new(rng, SNLS_F32, 5, video, LAYOUT_PLAIN);
    s.dist = tensor_new(rng, SNLS_F32, 6, field, LAYOUT_PLAIN);
    s.offset = tensor_new(rng, SNLS_F32, 7, field, LAYOUT_PLAIN);
    draw_videos(rng, &s.query, &s.key, RNG_PICK(rng, 0, 0, 3));
    if (rng_one_in(rng, 3)) return s;
    s.flow = tensor_new(rng, SNLS_F32, 6, flow, LAYOUT_PLAIN);
    const double whole = RNG_PICK(rng, 0, 1), at = rng_real(rng, -2, 2);
    for (int64_t i = 0; i < tensor_count(&s.flow); i++) tensor_set(&s.flow, i, whole ? rint(at) : at + 0.03 * (double)(i / 2 % width));
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
    for (int64_t p = 0; p < tensor_count(v) / v->shape[4]; p++) most = fmax(most, length_at(v, p));
    return most;
}

/* What sums in f32 may be off. Squared distances: of differences, whose pixels are rounded when they are mixed. */
static double allowed(const SnlsSearch *s, double dist, double query, double key)
{
    const double unit = 0x1p-24, n = (double)s->query.shape[4];
    if (s->params.dist == SNLS_DIST_PROD) return unit * (n / 2 + 16) * query * key;
    const double d = sqrt(fmax(dist, 0)), near = query + d;
    return unit * ((n + 16) * dist + 16 * near * d + 64 * unit * near * near);
}

static void compare(const SnlsSearch *s, const double *want)
{
    const int64_t k = s->params.k;
    const double key = longest(&s->key);
    for (int64_t i = 0; i < tensor_count(&s->dist); i++) {
        const double have = tensor_get(&s->dist, i), most = allowed(s, want[i], length_at(&s->query, i / k), key);
        if (!CHECK(fabs(have - want[i]) <= most, "neighbour %d of query %d: %.9g, %.9g in ref", (int)(i % k), (int)(i / k), have, want[i])) return;
    }
}

int main(int argc, char **argv)
{
    const long long seed = argc > 1 ? atoll(argv[1]) : 1, count = argc > 2 ? atoll(argv[2]) : 1;
    SnlsContext *ref = context_open("ref", 0, 1);
    for (long long n = seed; n < seed + count; n++) {
        Rng rng = {(uint64_t)n};
        SnlsSearch s = draw(&rng);
        CHECK(snls_search_forward(ref, &s) >= 0, "%s", snls_error(ref));
        const double *want = tensor_doubles(&s.dist);
        for (int32_t level = SNLS_CPU_C; level <= snls_cpu_level_max(); level++) {
            check_repeat("test_close %lld # level %s", n, snls_cpu_level_name(level));
            SnlsContext *cpu = context_open("cpu", level, (int32_t)rng_int(&rng, 1, 3));
            CHECK(snls_search_forward(cpu, &s) >= 0, "%s", snls_error(cpu));
            compare(&s, want);
            snls_close(&cpu);
        }
        tensors_free();
    }
    snls_close(&ref);
    return check_end();
}
