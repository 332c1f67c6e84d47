/* sieve_vnni.c: what the rough half of the sieve begins with where products are those of bytes: keys and queries in units, and how much of them that loses.
 * sieve_scan_vnni.c goes on. */
#include "simd/sieve.h"
#include "simd/unroll.h"
#include "simd/zmm.h"
#include <string.h>

#define ALWAYS static inline __attribute__((always_inline))
enum { LANES = SNLS_SIEVE_LANES, AT_ONCE = SNLS_SIEVE_BYTES, FOUR = 4, TURNED = 64 }; /* TURNED: features that are turned over at a time */

/* Features f .. f+15 of in - centre. */
ALWAYS __m512 features_of(const float *in, ptrdiff_t f, const SnlsSieveParts *as)
{
    const __mmask16 there = zmm_first(as->features - f);
    const __m512 v = _mm512_maskz_loadu_ps(there, in + f);
    return as->centre ? _mm512_sub_ps(v, _mm512_maskz_loadu_ps(there, as->centre + f)) : v;
}

/* Sums over the features of a pixel: of what its bytes say, in units, and of squares: of that if `rounded`, of what it is, of what bytes lose. */
typedef struct Sums { __m512 said, squares, whole, lost; } Sums;

/* Whole units, from -128 to 127: 127 for NaN, of which all is lost. */
ALWAYS __m128i bytes_of(__m512 v, __m512 unit, __m512 per_unit, const int rounded, Sums *sum)
{
    const __m512 most = _mm512_set1_ps(127), least = _mm512_set1_ps(-128);
    const __m512i whole = _mm512_cvtps_epi32(_mm512_max_ps(_mm512_min_ps(_mm512_mul_ps(v, per_unit), most), least));
    const __m512 said = _mm512_cvtepi32_ps(whole), lost = _mm512_fnmadd_ps(said, unit, v);
    sum->said = _mm512_add_ps(said, sum->said);
    if (rounded) sum->squares = _mm512_fmadd_ps(said, said, sum->squares);
    sum->whole = _mm512_fmadd_ps(v, v, sum->whole);
    sum->lost = _mm512_fmadd_ps(lost, lost, sum->lost);
    return _mm512_cvtepi32_epi8(whole);
}

/* Those of sixteen pixels. */
typedef struct AllSums { __m512 said[LANES], squares[LANES], whole[LANES], lost[LANES]; } AllSums;

ALWAYS void put_sums(AllSums *all, ptrdiff_t i, const Sums *sum) { all->said[i] = sum->said, all->squares[i] = sum->squares, all->whole[i] = sum->whole, all->lost[i] = sum->lost; }

/* Squared lengths, not finite where a feature is not: of what bytes say if `rounded`. */
ALWAYS __m512 lengths_of(const AllSums *sums, __m512 unit, const int rounded)
{
    const __m512 all = zmm_sums(sums->whole);
    if (!rounded) return all;
    const __m512 rough = _mm512_mul_ps(zmm_sums(sums->squares), _mm512_mul_ps(unit, unit));
    return _mm512_mask_mov_ps(all, _mm512_cmp_ps_mask(all, _mm512_set1_ps(__builtin_inff()), _CMP_LT_OQ), rough);
}

/* A unit for each of sixteen pixels, of which its largest feature is 127: not too small to divide by, nor too large for what comes of it. */
typedef struct Units { float unit[LANES], per_unit[LANES]; __m512 all; } Units;

ALWAYS Units units_of(const float *const *in, const SnlsSieveParts *as)
{
    __m512 most[LANES];
    Units u;
    for (int l = 0; l < LANES; l++) {
        most[l] = _mm512_setzero_ps();
        for (ptrdiff_t f = 0; f < as->padded; f += AT_ONCE) most[l] = _mm512_max_ps(_mm512_abs_ps(features_of(in[l], f, as)), most[l]); /* NaN: the other */
    }
    const __m512 unit = _mm512_mul_ps(zmm_most(most), _mm512_set1_ps(1.0f / 127));
    u.all = _mm512_max_ps(_mm512_min_ps(unit, _mm512_set1_ps(0x1p100f)), _mm512_set1_ps(0x1p-100f));
    _mm512_storeu_ps(u.unit, u.all);
    _mm512_storeu_ps(u.per_unit, _mm512_div_ps(_mm512_set1_ps(1), u.all));
    return u;
}

/* ---- keys ---- */

/* What is before the bytes of a key. */
typedef struct Head { int32_t begin; float unit; } Head;

ALWAYS void write_heads(uint8_t *out, ptrdiff_t pixel, ptrdiff_t n, const float *unit, __m512 said)
{
    int32_t begin[LANES];
    _mm512_storeu_si512(begin, _mm512_slli_epi32(_mm512_cvtps_epi32(_mm512_sub_ps(_mm512_setzero_ps(), said)), 7));
    for (ptrdiff_t i = 0; i < n; i++) {
        const Head head = {begin[i], unit[i]};
        memcpy(out + i * pixel, &head, sizeof head);
    }
}

ALWAYS void split_pixels(uint8_t *out, const SnlsSieveParts *as, const int rounded, const float *in, ptrdiff_t step, ptrdiff_t n, float *norm, float *most, float *most_lost)
{
    AllSums all;
    const float *at[LANES];
    const ptrdiff_t pixel = as->padded + SNLS_SIEVE_HEAD;
    const __m512 zero = _mm512_setzero_ps();
    for (ptrdiff_t i = 0; i < LANES; i++) at[i] = in + (i < n ? i : 0) * step;
    const Units units = units_of(at, as);
    for (ptrdiff_t i = 0; i < LANES; i++) {
        const __m512 unit = _mm512_set1_ps(units.unit[i]), per_unit = _mm512_set1_ps(units.per_unit[i]);
        Sums sum = {zero, zero, zero, zero};
        for (ptrdiff_t f = 0; i < n && f < as->padded; f += AT_ONCE)
            _mm_storeu_si128((__m128i *)(void *)(out + i * pixel + SNLS_SIEVE_HEAD + f), bytes_of(features_of(at[i], f, as), unit, per_unit, rounded, &sum));
        put_sums(&all, i, &sum);
    }
    const __m512 lengths = lengths_of(&all, units.all, rounded);
    _mm512_mask_storeu_ps(norm, zmm_first(n), lengths);
    *most = zmm_largest(lengths); /* pixels that are not there have 0 */
    *most_lost = zmm_largest(zmm_sums(all.lost));
    write_heads(out, pixel, n, units.unit, zmm_sums(all.said));
}

static void split(uint16_t *out, const SnlsSieveParts *as, const float *in, ptrdiff_t step, ptrdiff_t n, float *norm, float *most)
{
    for (ptrdiff_t i = 0; i < n; i += LANES) {
        uint8_t *to = (uint8_t *)out + i * (as->padded + SNLS_SIEVE_HEAD);
        const ptrdiff_t left = n - i < LANES ? n - i : LANES;
        if (as->rounded) split_pixels(to, as, 1, in + i * step, step, left, norm + i, most + i / LANES, as->lost + i / LANES);
        else split_pixels(to, as, 0, in + i * step, step, left, norm + i, most + i / LANES, as->lost + i / LANES);
    }
}

/* ---- queries ---- */

/* Products of each query with a vector. */
static void products_with(const float *along, const float *const *in, const SnlsSieveParts *as, float *product)
{
    __m512 sum[LANES];
    for (int l = 0; l < LANES; l++) {
        sum[l] = _mm512_setzero_ps();
        for (ptrdiff_t f = 0; f < as->features; f += AT_ONCE) {
            const __mmask16 there = zmm_first(as->features - f);
            sum[l] = _mm512_fmadd_ps(_mm512_maskz_loadu_ps(there, in[l] + f), _mm512_maskz_loadu_ps(there, along + f), sum[l]);
        }
    }
    _mm512_storeu_ps(product, zmm_sums(sum));
}

/* 64 bytes of each of sixteen queries, as far as there are so many, four of each in turn, 128 more. */
ALWAYS void turn_bytes(uint8_t *out, const int8_t bytes[LANES][TURNED], ptrdiff_t count)
{
    __m512i v[LANES];
    for (int l = 0; l < LANES; l++) v[l] = _mm512_loadu_si512(bytes[l]);
    zmm_turn(v);
UNROLLED(16)
    for (int g = 0; g < TURNED / FOUR; g++)
        if (g * FOUR < count) _mm512_storeu_si512(out + g * FOUR * LANES, _mm512_xor_si512(v[g], _mm512_set1_epi8(-128)));
}

ALWAYS void turn_queries(SnlsSieveBytes *to, const SnlsSieveParts *as, const int rounded, const float *const *in, float scale, float *norm)
{
    const Units units = units_of(in, as);
    const __m512 zero = _mm512_setzero_ps();
    int8_t bytes[LANES][TURNED];
    AllSums all;
    for (int l = 0; l < LANES; l++) all.said[l] = all.squares[l] = all.whole[l] = all.lost[l] = zero;
    for (ptrdiff_t f = 0; f < as->padded; f += TURNED) {
        for (int l = 0; l < LANES; l++) {
            const __m512 unit = _mm512_set1_ps(units.unit[l]), per_unit = _mm512_set1_ps(units.per_unit[l]);
            Sums sum = {all.said[l], all.squares[l], all.whole[l], all.lost[l]};
            for (ptrdiff_t i = 0; i < TURNED && f + i < as->padded; i += AT_ONCE)
                _mm_storeu_si128((__m128i *)(void *)(bytes[l] + i), bytes_of(features_of(in[l], f + i, as), unit, per_unit, rounded, &sum));
            put_sums(&all, l, &sum);
        }
        turn_bytes(to->at + f * LANES, (const int8_t(*)[TURNED])bytes, as->padded - f);
    }
    _mm512_storeu_ps(as->lost, zmm_sums(all.lost));
    _mm512_storeu_ps(to->unit, _mm512_mul_ps(units.all, _mm512_set1_ps(scale)));
    _mm512_storeu_ps(norm, lengths_of(&all, units.all, rounded));
}

static void queries(uint16_t *out, const SnlsSieveParts *as, const float *const *in, float scale, float *norm, const float *along, float *product)
{
    SnlsSieveBytes *to = (SnlsSieveBytes *)(void *)out;
    if (as->rounded) turn_queries(to, as, 1, in, scale, norm);
    else turn_queries(to, as, 0, in, scale, norm);
    if (along) products_with(along, in, as, product);
}

static void nothing(void) {}

void snls_sieve_init_vnni(SnlsSieve *sieve)
{
    *sieve = (SnlsSieve){.start = nothing, .stop = nothing, .split = split, .queries = queries, .bytes = 1, .parts = 1};
    snls_sieve_init_scan_vnni(sieve);
    snls_sieve_init_fine_avx512(sieve);
}
