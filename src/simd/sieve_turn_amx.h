/* sieve_turn_amx.h: keys and queries as the numbers of 16 bits that matrix tiles take, in one part or two. Included once by each file that says what these are:
 *   __m512i numbers_of(const __m512 v[2])         32 of them, v[0] first, the nearest there are; NaN: any
 *   __m512 widen(__m512i numbers, int half)       what 16 of them say */
#ifndef SNLS_SIEVE_TURN_AMX_H
#define SNLS_SIEVE_TURN_AMX_H

#include "simd/sieve.h"
#include "simd/unroll.h"
#include "simd/zmm.h"

enum { LANES = SNLS_SIEVE_LANES, CHUNK = SNLS_SIEVE_CHUNK };

/* ---- parts ---- */

typedef struct Chunk { __m512i high, low; } Chunk;

/* What is summed over the features of a pixel: squares, those of what rounding to one part takes off, products with another vector. */
typedef struct Sums { __m512 norm, lost, along; } Sums;

enum { ONE_ROUNDED, ONE, TWO }; /* parts, and what lengths are those of */

/* Features f .. f+31 of (in - centre)*scale as one part or two; all: they are all there. along: NULL, or a vector to be multiplied with. */
ALWAYS Chunk split_chunk(const float *in, ptrdiff_t f, const int all, const SnlsSieveParts *as, const int way, __m512 scale, const float *along, Sums *sum)
{
    __m512 v[2];
UNROLLED(2)
    for (int h = 0; h < 2; h++) {
        const __mmask16 there = all ? 0xffff : zmm_first(as->features - f - 16 * h);
        v[h] = _mm512_maskz_loadu_ps(there, in + f + 16 * h);
        if (along) sum->along = _mm512_fmadd_ps(v[h], _mm512_maskz_loadu_ps(there, along + f + 16 * h), sum->along);
        if (as->centre) v[h] = _mm512_sub_ps(v[h], _mm512_maskz_loadu_ps(there, as->centre + f + 16 * h));
        v[h] = _mm512_mul_ps(v[h], scale);
        if (way != ONE_ROUNDED) sum->norm = _mm512_fmadd_ps(v[h], v[h], sum->norm);
    }
    Chunk c = {numbers_of(v), _mm512_setzero_si512()};
UNROLLED(2)
    for (int h = 0; h < 2; h++) {
        const __m512 said = widen(c.high, h);
        if (way == ONE_ROUNDED) sum->norm = _mm512_fmadd_ps(said, said, sum->norm);
        v[h] = _mm512_sub_ps(v[h], said);
        if (way != TWO) sum->lost = _mm512_fmadd_ps(v[h], v[h], sum->lost);
    }
    if (way == TWO) c.low = numbers_of(v);
    return c;
}

/* Squared lengths of sixteen pixels; not finite where a feature is not, of which rounding may have made a number. */
ALWAYS __m512 lengths_of(const __m512 square[LANES], __m512 lost, const int way)
{
    const __m512 all = zmm_sums(square);
    return way == ONE_ROUNDED ? _mm512_fmadd_ps(_mm512_setzero_ps(), lost, all) : all;
}

ALWAYS void split_at(uint16_t *out, ptrdiff_t f, const int all, const SnlsSieveParts *as, const int way, const float *in, __m512 scale, Sums *sum)
{
    const Chunk c = split_chunk(in, f, all, as, way, scale, NULL, sum);
    _mm512_storeu_si512(out + f, c.high);
    if (way == TWO) _mm512_storeu_si512(out + as->padded + f, c.low);
}

ALWAYS void split_pixels(uint16_t *out, const SnlsSieveParts *as, const int way, const float *in, ptrdiff_t step, ptrdiff_t n, float *norm, float *most, float *most_lost)
{
    __m512 square[LANES], lost[LANES];
    const ptrdiff_t pixel = (way == TWO ? 2 : 1) * as->padded;
    const __m512 scale = _mm512_set1_ps(as->scale), zero = _mm512_setzero_ps();
    for (ptrdiff_t i = 0; i < LANES; i++) {
        Sums sum = {zero, zero, zero};
        ptrdiff_t f = i < n ? 0 : as->padded;
        for (; f + CHUNK <= as->features; f += CHUNK) split_at(out + i * pixel, f, 1, as, way, in + i * step, scale, &sum);
        if (f < as->padded) split_at(out + i * pixel, f, 0, as, way, in + i * step, scale, &sum);
        square[i] = sum.norm, lost[i] = sum.lost;
    }
    const __m512 all_lost = way != TWO ? zmm_sums(lost) : zero, all = lengths_of(square, all_lost, way);
    _mm512_mask_storeu_ps(norm, zmm_first(n), all);
    *most = zmm_largest(all); /* pixels that are not there have 0 */
    if (way != TWO) *most_lost = zmm_largest(all_lost);
}

ALWAYS int way_of(const SnlsSieveParts *as) { return as->parts > 1 ? TWO : as->rounded ? ONE_ROUNDED : ONE; }

static void split(uint16_t *out, const SnlsSieveParts *as, const float *in, ptrdiff_t step, ptrdiff_t n, float *norm, float *most)
{
    for (ptrdiff_t i = 0; i < n; i += LANES) {
        uint16_t *to = out + i * as->parts * as->padded;
        const ptrdiff_t left = n - i < LANES ? n - i : LANES;
        switch (way_of(as)) {
        case ONE_ROUNDED: split_pixels(to, as, ONE_ROUNDED, in + i * step, step, left, norm + i, most + i / LANES, as->lost + i / LANES); break;
        case ONE: split_pixels(to, as, ONE, in + i * step, step, left, norm + i, most + i / LANES, as->lost + i / LANES); break;
        default: split_pixels(to, as, TWO, in + i * step, step, left, norm + i, most + i / LANES, NULL);
        }
    }
}

/* As `awake` in sieve_make_amx.h: queries that come from afar take longer than a matrix unit waits. */
#define KEEP_AWAKE _tile_dpbf16ps(0, 4, 6)

/* Of sixteen queries. */
typedef struct AllSums { __m512 norm[LANES], lost[LANES], along[LANES]; } AllSums;

ALWAYS void turn_at(uint16_t *out, ptrdiff_t f, const int all, const SnlsSieveParts *as, const int way, const float *const *in, __m512 scale, const float *along, AllSums *sums)
{
    __m512i high[LANES], low[LANES];
    for (int l = 0; l < LANES; l++) {
        if (as->awake && l % 4 == 0) KEEP_AWAKE;
        Sums sum = {sums->norm[l], sums->lost[l], sums->along[l]};
        const Chunk c = split_chunk(in[l], f, all, as, way, scale, along, &sum);
        sums->norm[l] = sum.norm, sums->lost[l] = sum.lost;
        if (along) sums->along[l] = sum.along;
        high[l] = c.high;
        low[l] = c.low;
    }
    zmm_turn(high);
    if (as->awake) KEEP_AWAKE;
    for (int p = 0; p < LANES; p++) _mm512_storeu_si512(out + f * LANES + p * CHUNK, high[p]);
    if (way != TWO) return;
    zmm_turn(low);
    for (int p = 0; p < LANES; p++) _mm512_storeu_si512(out + (as->padded + f) * LANES + p * CHUNK, low[p]);
}

ALWAYS void turn_queries(uint16_t *out, const SnlsSieveParts *as, const int way, const float *const *in, float scale, float *norm, const float *along, float *product)
{
    AllSums sums;
    const __m512 both = _mm512_set1_ps(scale * as->scale), unscaled = _mm512_set1_ps(1 / (scale * scale));
    for (int l = 0; l < LANES; l++) sums.norm[l] = sums.lost[l] = sums.along[l] = _mm512_setzero_ps();
    ptrdiff_t f = 0;
    for (; f + CHUNK <= as->features; f += CHUNK) turn_at(out, f, 1, as, way, in, both, along, &sums);
    if (f < as->padded) turn_at(out, f, 0, as, way, in, both, along, &sums);
    const __m512 all_lost = way != TWO ? zmm_sums(sums.lost) : _mm512_setzero_ps();
    _mm512_storeu_ps(norm, _mm512_mul_ps(unscaled, lengths_of(sums.norm, all_lost, way)));
    if (way != TWO) _mm512_storeu_ps(as->lost, _mm512_mul_ps(unscaled, all_lost));
    if (along) _mm512_storeu_ps(product, zmm_sums(sums.along));
}

/* Without `along` as a number that is known to be NULL, its sums are not held. */
ALWAYS void turn_along(uint16_t *out, const SnlsSieveParts *as, const int way, const float *const *in, float scale, float *norm, const float *along, float *product)
{
    if (along) turn_queries(out, as, way, in, scale, norm, along, product);
    else turn_queries(out, as, way, in, scale, norm, NULL, NULL);
}

static void queries(uint16_t *out, const SnlsSieveParts *as, const float *const *in, float scale, float *norm, const float *along, float *product)
{
    switch (way_of(as)) {
    case ONE_ROUNDED: turn_along(out, as, ONE_ROUNDED, in, scale, norm, along, product); break;
    case ONE: turn_along(out, as, ONE, in, scale, norm, along, product); break;
    default: turn_along(out, as, TWO, in, scale, norm, along, product);
    }
}

/* ---- tiles ---- */

/* Eight tiles of 16 rows of 64 bytes: palette, 15 bytes, bytes of a row (16 bits, 16 times), rows (16 times). Constant memory: gcc does not see that
 * all of it is read. */
static void start(void)
{
    static const struct Shape { uint8_t palette, start_row, reserved[14]; uint16_t bytes[16]; uint8_t rows[16]; } shape = {
        1, 0, {0}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};
    _tile_loadconfig(&shape);
}

static void stop(void) { _tile_release(); }

#endif
