/* sieve_amx.c: what the rough half of the sieve begins with: bf16 parts, the shape of matrix tiles. sieve_scan_amx.c goes on. */
#if defined(__x86_64__) && defined(SNLS_HAVE_AMX)
#include "simd/sieve.h"
#include "simd/zmm.h"
#include "simd/unroll.h"

#define ALWAYS static inline __attribute__((always_inline))
enum { LANES = SNLS_SIEVE_LANES, CHUNK = SNLS_SIEVE_CHUNK };

/* ---- bf16 parts ---- */

/* The f32 values of 16 of 32 bf16 numbers. */
ALWAYS __m512 widen(__m512i parts, const int half)
{
    const __m256i part = half ? _mm512_extracti64x4_epi64(parts, 1) : _mm512_castsi512_si256(parts);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(part), 16));
}

typedef struct Chunk { __m512i high, low; } Chunk;

/* What is summed over the features of a pixel: squares, those of what rounding to one part takes off, products with another vector. */
typedef struct Sums { __m512 norm, lost, along; } Sums;

enum { ONE_ROUNDED, ONE, TWO }; /* parts, and what lengths are those of */

/* Features f .. f+31 of (in - centre)*scale as one part or two. along: NULL, or a vector to be multiplied with. */
ALWAYS Chunk split_chunk(const float *in, ptrdiff_t f, const SnlsSieveParts *as, const int way, __m512 scale, const float *along, Sums *sum)
{
    __m512 v[2];
UNROLLED(2)
    for (int h = 0; h < 2; h++) {
        const __mmask16 there = zmm_first(as->features - f - 16 * h);
        v[h] = _mm512_maskz_loadu_ps(there, in + f + 16 * h);
        if (along) sum->along = _mm512_fmadd_ps(v[h], _mm512_maskz_loadu_ps(there, along + f + 16 * h), sum->along);
        if (as->centre) v[h] = _mm512_sub_ps(v[h], _mm512_maskz_loadu_ps(there, as->centre + f + 16 * h));
        v[h] = _mm512_mul_ps(v[h], scale);
        if (way != ONE_ROUNDED) sum->norm = _mm512_fmadd_ps(v[h], v[h], sum->norm);
    }
    const __m512bh high = _mm512_cvtne2ps_pbh(v[1], v[0]);
    Chunk c = {(__m512i)high, _mm512_setzero_si512()};
    if (way == ONE_ROUNDED) sum->norm = _mm512_dpbf16_ps(sum->norm, high, high);
UNROLLED(2)
    for (int h = 0; h < 2; h++) {
        v[h] = _mm512_sub_ps(v[h], widen(c.high, h));
        if (way != TWO) sum->lost = _mm512_fmadd_ps(v[h], v[h], sum->lost);
    }
    if (way == TWO) c.low = (__m512i)_mm512_cvtne2ps_pbh(v[1], v[0]);
    return c;
}

ALWAYS void split_pixels(uint16_t *out, const SnlsSieveParts *as, const int way, const float *in, ptrdiff_t step, ptrdiff_t n, float *norm, float *most, float *most_lost)
{
    __m512 square[LANES], lost[LANES];
    const int parts = way == TWO ? 2 : 1;
    const __m512 one = _mm512_set1_ps(1), zero = _mm512_setzero_ps();
    for (ptrdiff_t i = 0; i < LANES; i++) {
        Sums sum = {zero, zero, zero};
        for (ptrdiff_t f = 0; i < n && f < as->padded; f += CHUNK) {
            const Chunk c = split_chunk(in + i * step, f, as, way, one, NULL, &sum);
            _mm512_storeu_si512(out + i * parts * as->padded + f, c.high);
            if (way == TWO) _mm512_storeu_si512(out + (i * parts + 1) * as->padded + f, c.low);
        }
        square[i] = sum.norm, lost[i] = sum.lost;
    }
    const __m512 all = zmm_sums(square);
    _mm512_mask_storeu_ps(norm, zmm_first(n), all);
    *most = zmm_largest(all); /* pixels that are not there have 0 */
    if (way != TWO) *most_lost = zmm_largest(zmm_sums(lost));
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

ALWAYS void turn_queries(uint16_t *out, const SnlsSieveParts *as, const int way, const float *const *in, float scale, float *norm, const float *along, float *product)
{
    __m512 square[LANES], lost[LANES], across[LANES];
    for (int l = 0; l < LANES; l++) square[l] = lost[l] = across[l] = _mm512_setzero_ps();
    for (ptrdiff_t f = 0; f < as->padded; f += CHUNK) {
        __m512i high[LANES], low[LANES];
        for (int l = 0; l < LANES; l++) {
            Sums sum = {square[l], lost[l], across[l]};
            const Chunk c = split_chunk(in[l], f, as, way, _mm512_set1_ps(scale), along, &sum);
            square[l] = sum.norm, lost[l] = sum.lost;
            if (along) across[l] = sum.along;
            high[l] = c.high;
            low[l] = c.low;
        }
        zmm_turn(high);
        for (int p = 0; p < LANES; p++) _mm512_storeu_si512(out + f * LANES + p * CHUNK, high[p]);
        if (way != TWO) continue;
        zmm_turn(low);
        for (int p = 0; p < LANES; p++) _mm512_storeu_si512(out + (as->padded + f) * LANES + p * CHUNK, low[p]);
    }
    const __m512 unscaled = _mm512_set1_ps(1 / (scale * scale));
    _mm512_storeu_ps(norm, _mm512_mul_ps(unscaled, zmm_sums(square)));
    if (way != TWO) _mm512_storeu_ps(as->lost, _mm512_mul_ps(unscaled, zmm_sums(lost)));
    if (along) _mm512_storeu_ps(product, zmm_sums(across));
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

void snls_sieve_init_amx(SnlsSieve *sieve)
{
    *sieve = (SnlsSieve){.start = start, .stop = stop, .split = split, .queries = queries};
    snls_sieve_init_scan_amx(sieve);
    snls_sieve_init_fine_avx512(sieve);
}

#else
typedef int snls_sieve_amx_is_empty;
#endif
