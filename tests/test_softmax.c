/* test_softmax.c: softmax and its gradient give the same bits on every instruction set (simd/softmax.h says so) and near those of double arithmetic: few
 * and many numbers a query, any number of queries, numbers side by side or apart, infinite and NaN ones, queries without any.
 *   test_softmax [SEED [COUNT]] */
#include "check.h"
#include "simd/dsp.h"
#include "simd/softmax.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { QUERIES = 40, NUMBERS = 150, GAP = 2, FLOATS = QUERIES * (NUMBERS + GAP) };

typedef struct Case { int64_t count, n; bool apart; double factor; float dist[FLOATS], by[FLOATS], was[FLOATS]; } Case;
typedef struct Results { float weight[FLOATS], slope[FLOATS]; } Results;

/* Queries side by side with a gap, or numbers side by side with queries apart. */
static SnlsSoftmaxRow row_of(const Case *c, const float *data)
{
    return c->apart ? (SnlsSoftmaxRow){ (float *)data, 1, QUERIES } : (SnlsSoftmaxRow){ (float *)data, c->n + GAP, 1 };
}

static float *at(SnlsSoftmaxRow row, int64_t q, int64_t k) { return row.data + q * row.of_query + k * row.of_number; }

static void draw(Rng *rng, Case *c)
{
    c->count = rng_int(rng, 1, QUERIES);
    c->n = (int64_t)RNG_PICK(rng, 1, 2, 10, 15, 16, 17, 64, 65, NUMBERS);
    c->apart = rng_one_in(rng, 3);
    c->factor = RNG_PICK(rng, -10, 10, 1, 0, -0.1, 300);
    const double reach = RNG_PICK(rng, 1, 30, 1e4);
    for (int i = 0; i < FLOATS; i++) {
        c->dist[i] = rng_one_in(rng, 12) ? (float)RNG_PICK(rng, NAN, INFINITY, -INFINITY, FLT_MAX) : (float)rng_real(rng, -reach, reach);
        c->by[i] = (float)rng_real(rng, -2, 2);
        c->was[i] = (float)rng_real(rng, -2, 2);
    }
    const int64_t none = rng_int(rng, 0, c->count - 1); /* a query without a number */
    for (int64_t k = 0; k < c->n; k++) *at(row_of(c, c->dist), none, k) = k % 2 ? INFINITY : NAN;
    *at(row_of(c, c->by), none, 0) = NAN; /* beside a weight of 0 */
}

static void run(int level, const Case *c, Results *r)
{
    SnlsSoftmax loops;
    snls_softmax(&loops, level);
    for (int i = 0; i < FLOATS; i++) r->weight[i] = 7; /* what lies between queries stays */
    memcpy(r->slope, c->was, sizeof r->slope);
    const SnlsSoftmaxRow dist = row_of(c, c->dist), by = row_of(c, c->by), weight = row_of(c, r->weight), slope = row_of(c, r->slope);
    loops.forward(&weight, &dist, c->count, c->n, c->factor);
    loops.backward(&slope, &weight, &by, c->count, c->n, c->factor);
}

/* weight: a few roundings of f32, and those of a subnormal number. */
static void check_weights(const Case *c, const Results *r, int64_t q)
{
    const SnlsSoftmaxRow dist = row_of(c, c->dist), weight = row_of(c, r->weight);
    double top = -INFINITY, sum = 0;
    for (int64_t k = 0; k < c->n; k++) top = isfinite(*at(dist, q, k)) ? fmax(top, c->factor * *at(dist, q, k)) : top;
    for (int64_t k = 0; k < c->n; k++) sum += isfinite(*at(dist, q, k)) ? exp(c->factor * *at(dist, q, k) - top) : 0;
    for (int64_t k = 0; k < c->n; k++) {
        const double want = isfinite(*at(dist, q, k)) ? exp(c->factor * *at(dist, q, k) - top) / sum : 0, got = *at(weight, q, k);
        CHECK(fabs(got - want) <= 2 * FLT_EPSILON * want + 2 * FLT_TRUE_MIN, "query %lld, number %lld of %lld: weight %.9g, want %.9g", (long long)q,
              (long long)k, (long long)c->n, got, want);
    }
}

static void check_slopes(const Case *c, const Results *r, int64_t q)
{
    const SnlsSoftmaxRow weight = row_of(c, r->weight), by = row_of(c, c->by), was = row_of(c, c->was), slope = row_of(c, r->slope);
    double mean = 0;
    for (int64_t k = 0; k < c->n; k++) mean += *at(weight, q, k) != 0 ? (double)*at(weight, q, k) * *at(by, q, k) : 0;
    for (int64_t k = 0; k < c->n; k++) {
        const double w = *at(weight, q, k), add = w != 0 ? c->factor * w * (*at(by, q, k) - mean) : 0, want = *at(was, q, k) + add, got = *at(slope, q, k);
        CHECK(fabs(got - want) <= FLT_EPSILON * (fabs(add) + fabs(want)), "query %lld, number %lld of %lld: gradient %.9g, want %.9g", (long long)q, (long long)k,
              (long long)c->n, got, want);
    }
}

int main(int argc, char **argv)
{
    static Case c;
    static Results plain, other;
    const uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1, count = argc > 2 ? strtoull(argv[2], NULL, 10) : argc > 1 ? 1 : 300;
    for (uint64_t seed = first; seed < first + count; seed++) {
        Rng rng = { seed };
        check_repeat("test_softmax %llu", (unsigned long long)seed);
        draw(&rng, &c);
        run(1, &c, &plain);
        for (int64_t q = 0; q < c.count; q++) {
            check_weights(&c, &plain, q);
            check_slopes(&c, &plain, q);
        }
        for (int level = 2; level <= snls_dsp_level_max(); level++) {
            run(level, &c, &other);
            CHECK(!memcmp(&plain, &other, sizeof plain), "level %d gives other bits, %lld queries of %lld numbers", level, (long long)c.count, (long long)c.n);
        }
    }
    return check_end();
}
