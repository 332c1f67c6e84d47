/* softmax_body.h: the loops in plain C, included once for each instruction set with SOFTMAX as the name of the function that
 * fills the table, and with SOFTMAX_TURN_IN and SOFTMAX_TURN_OUT of softmax_turn.h or as these. Blocks of LANES queries, up to KEPT
 * numbers of each at a time. backward only where SOFTMAX_IN_REGISTERS: four blocks turned over one by one take longer than single queries do. */
#include "simd/softmax.h"
#include <float.h>
#include <math.h>
#include <string.h>

#define VECTORS _Pragma("omp simd") /* the turns of the loop do not depend on each other */
#define ALWAYS static inline __attribute__((always_inline))

enum { KEPT = 64 }; /* numbers of a block that stay in the first cache */

typedef struct Block {
    float  number[KEPT][LANES];
    double power[KEPT][LANES];
    float  top[LANES];
    double sum[LANES];
} Block;

ALWAYS int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

ALWAYS SnlsSoftmaxRow row_from(const SnlsSoftmaxRow *row, int64_t query)
{
    return (SnlsSoftmaxRow){ row->data + query * row->of_query, row->of_query, row->of_number };
}

/* x, or 0 where condition is 0. By its bits: of `condition ? x : 0` compilers make a branch, lest x be found for nothing, and then no vectors. */
ALWAYS double if_so(int64_t condition, double x)
{
    int64_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits &= -condition;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* e^x for x <= 0: 2^n * e^r, |r| <= ln(2)/2. The argument is cut up in double, so that a large one costs no digits; e^r is a
 * polynomial in float (interpolated at Chebyshev's nodes, off by 7e-8 of itself with its roundings). 0 for NaN and for what no
 * float can hold: what is found there may be anything. */
ALWAYS double exp_negative(double x)
{
    const double shifted = x * 0x1.71547652b82fep+0 + 0x1.8p52, n = shifted - 0x1.8p52;
    const float r = (float)(x - n * 0x1.62e42fefa39efp-1);
    const float p = (((0.0013926176f * r + 0.0083631733f) * r + 0.041666556f) * r + 0.16666578f) * r + 0.5f;
    const float e = 1 + (r + r * r * p);
    uint64_t power; /* n stands in the low bits of shifted */
    memcpy(&power, &shifted, sizeof power);
    power = (power + 1023) << 52;
    double scale;
    memcpy(&scale, &power, sizeof scale);
    return if_so(x > -104, (double)e * scale);
}

/* ---- forward ---- */

/* Numbers that count the more the larger they are: those of a negative factor change their sign, those not finite are -infinity. */
ALWAYS void take_numbers(Block *b, const SnlsSoftmaxRow *dist, int64_t count, int64_t first, int64_t n, double factor)
{
    const float sign = factor < 0 ? -1 : 1;
    SOFTMAX_TURN_IN(b->number, dist, count, first, n);
    for (int64_t k = 0; k < n; k++)
        VECTORS for (int q = 0; q < LANES; q++) {
            const float x = b->number[k][q] * sign;
            b->number[k][q] = fabsf(x) <= FLT_MAX ? x : -INFINITY;
        }
}

ALWAYS void raise_top(Block *b, int64_t n)
{
    for (int64_t k = 0; k < n; k++)
        VECTORS for (int q = 0; q < LANES; q++) b->top[q] = b->number[k][q] > b->top[q] ? b->number[k][q] : b->top[q];
}

/* power: e to the scaled distance from the top. Infinities are no numbers here: less another one, or times 0, they are NaN. */
ALWAYS void take_powers(Block *b, int64_t n, double factor)
{
    const double steep = fabs(factor);
    for (int64_t k = 0; k < n; k++)
        VECTORS for (int q = 0; q < LANES; q++) b->power[k][q] = exp_negative(steep * b->number[k][q] - steep * b->top[q]);
}

ALWAYS void add_powers(Block *b, int64_t n)
{
    for (int64_t k = 0; k < n; k++)
        VECTORS for (int q = 0; q < LANES; q++) b->sum[q] += b->power[k][q];
}

/* sum becomes what powers are multiplied with; 0 where there is none. */
ALWAYS void invert_sum(Block *b)
{
    VECTORS for (int q = 0; q < LANES; q++) b->sum[q] = if_so(b->sum[q] > 0, 1 / b->sum[q]);
}

ALWAYS void put_weights(Block *b, const SnlsSoftmaxRow *weight, int64_t count, int64_t first, int64_t n)
{
    for (int64_t k = 0; k < n; k++)
        VECTORS for (int q = 0; q < LANES; q++) b->number[k][q] = (float)(b->power[k][q] * b->sum[q]);
    SOFTMAX_TURN_OUT(weight, b->number, count, first, n);
}

/* Numbers that do not all fit are read three times, and their powers found twice. */
static void forward_long(Block *b, const SnlsSoftmaxRow *weight, const SnlsSoftmaxRow *dist, int64_t count, int64_t n, double factor)
{
    for (int64_t k = 0; k < n; k += KEPT) {
        take_numbers(b, dist, count, k, least(KEPT, n - k), factor);
        raise_top(b, least(KEPT, n - k));
    }
    for (int64_t k = 0; k < n; k += KEPT) {
        take_numbers(b, dist, count, k, least(KEPT, n - k), factor);
        take_powers(b, least(KEPT, n - k), factor);
        add_powers(b, least(KEPT, n - k));
    }
    invert_sum(b);
    for (int64_t k = 0; k < n; k += KEPT) {
        take_numbers(b, dist, count, k, least(KEPT, n - k), factor);
        take_powers(b, least(KEPT, n - k), factor);
        put_weights(b, weight, count, k, least(KEPT, n - k));
    }
}

static void forward_short(Block *b, const SnlsSoftmaxRow *weight, const SnlsSoftmaxRow *dist, int64_t count, int64_t n, double factor)
{
    take_numbers(b, dist, count, 0, n, factor);
    raise_top(b, n);
    take_powers(b, n, factor);
    add_powers(b, n);
    invert_sum(b);
    put_weights(b, weight, count, 0, n);
}

static void forward(const SnlsSoftmaxRow *weight, const SnlsSoftmaxRow *dist, int64_t count, int64_t n, double factor)
{
    Block b;
    for (int64_t j = 0; j < count; j += LANES) {
        const SnlsSoftmaxRow from = row_from(dist, j), to = row_from(weight, j);
        for (int q = 0; q < LANES; q++) b.top[q] = -INFINITY, b.sum[q] = 0;
        if (n <= KEPT) forward_short(&b, &to, &from, least(LANES, count - j), n, factor);
        else forward_long(&b, &to, &from, least(LANES, count - j), n, factor);
    }
}

#if SOFTMAX_IN_REGISTERS
/* ---- backward ---- */

/* x or, where condition is 0, -0, which changes nothing that it is added to. */
ALWAYS float if_so_or_minus_zero(int32_t condition, float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits = (bits & (uint32_t)-condition) | (uint32_t)(1 - condition) << 31;
    memcpy(&x, &bits, sizeof x);
    return x;
}

typedef struct Slopes {
    float  weight[KEPT][LANES], by[KEPT][LANES];
    double mean[LANES];
} Slopes;

ALWAYS void take_slopes(Slopes *s, const SnlsSoftmaxRow *weight, const SnlsSoftmaxRow *by, int64_t count, int64_t first, int64_t n)
{
    SOFTMAX_TURN_IN(s->weight, weight, count, first, n);
    SOFTMAX_TURN_IN(s->by, by, count, first, n);
}

ALWAYS void add_mean(Slopes *s, int64_t n)
{
    for (int64_t k = 0; k < n; k++)
        VECTORS for (int q = 0; q < LANES; q++) {
            const double term = (double)s->weight[k][q] * s->by[k][q];
            s->mean[q] += if_so(s->weight[k][q] != 0, term);
        }
}

ALWAYS void put_slopes(Slopes *s, const SnlsSoftmaxRow *to, int64_t count, int64_t first, int64_t n, double factor)
{
    float (*const out)[LANES] = s->by;
    for (int64_t k = 0; k < n; k++)
        VECTORS for (int q = 0; q < LANES; q++) {
            const float slope = (float)(factor * s->weight[k][q] * (s->by[k][q] - s->mean[q]));
            out[k][q] = if_so_or_minus_zero(s->weight[k][q] != 0, slope);
        }
    float (*const was)[LANES] = s->weight;
    SOFTMAX_TURN_IN(was, to, count, first, n);
    for (int64_t k = 0; k < n; k++)
        VECTORS for (int q = 0; q < LANES; q++) out[k][q] += was[k][q];
    SOFTMAX_TURN_OUT(to, out, count, first, n);
}

static void backward(const SnlsSoftmaxRow *to, const SnlsSoftmaxRow *weight, const SnlsSoftmaxRow *by, int64_t count, int64_t n, double factor)
{
    Slopes s;
    for (int64_t j = 0; j < count; j += LANES) {
        const SnlsSoftmaxRow w = row_from(weight, j), g = row_from(by, j), out = row_from(to, j);
        const int64_t queries = least(LANES, count - j);
        for (int q = 0; q < LANES; q++) s.mean[q] = 0;
        for (int64_t k = 0; k < n; k += KEPT) {
            take_slopes(&s, &w, &g, queries, k, least(KEPT, n - k));
            add_mean(&s, least(KEPT, n - k));
        }
        for (int64_t k = 0; k < n; k += KEPT) {
            if (n > KEPT) take_slopes(&s, &w, &g, queries, k, least(KEPT, n - k));
            put_slopes(&s, &out, queries, k, least(KEPT, n - k), factor);
        }
    }
}

#endif

SOFTMAX_SCOPE void SOFTMAX(SnlsSoftmax *loops)
{
    loops->forward = forward;
#if SOFTMAX_IN_REGISTERS
    loops->backward = backward;
#endif
}
