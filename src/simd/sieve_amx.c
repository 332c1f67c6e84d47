/* sieve_amx.c: what the rough half of the sieve begins with: bf16 parts, the shape of matrix tiles, who fits a box. sieve_scan_amx.c goes on. */
#if defined(__x86_64__) && defined(SNLS_HAVE_AMX)
#include "simd/sieve.h"
#include "simd/zmm.h"

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

/* Features f .. f+31 of (in - centre)*scale as two parts; their squares (before scale) added to *norm. */
ALWAYS Chunk split_chunk(const float *in, ptrdiff_t f, ptrdiff_t features, const float *centre, const int parts, __m512 scale, __m512 *norm)
{
    __m512 v[2];
#pragma GCC unroll 2
    for (int h = 0; h < 2; h++) {
        const __mmask16 there = zmm_first(features - f - 16 * h);
        v[h] = _mm512_maskz_loadu_ps(there, in + f + 16 * h);
        if (centre) v[h] = _mm512_sub_ps(v[h], _mm512_maskz_loadu_ps(there, centre + f + 16 * h));
        *norm = _mm512_fmadd_ps(v[h], v[h], *norm);
        v[h] = _mm512_mul_ps(v[h], scale);
    }
    Chunk c = {(__m512i)_mm512_cvtne2ps_pbh(v[1], v[0]), _mm512_setzero_si512()};
    if (parts > 1) c.low = (__m512i)_mm512_cvtne2ps_pbh(_mm512_sub_ps(v[1], widen(c.high, 1)), _mm512_sub_ps(v[0], widen(c.high, 0)));
    return c;
}

ALWAYS void split_pixels(uint16_t *out, ptrdiff_t padded, const int parts, const float *in, ptrdiff_t step, ptrdiff_t n, ptrdiff_t features, const float *centre,
                         float *norm)
{
    __m512 sum[LANES];
    const __m512 one = _mm512_set1_ps(1);
    for (ptrdiff_t i = 0; i < LANES; i++) {
        sum[i] = _mm512_setzero_ps();
        for (ptrdiff_t f = 0; i < n && f < padded; f += CHUNK) {
            const Chunk c = split_chunk(in + i * step, f, features, centre, parts, one, &sum[i]);
            _mm512_storeu_si512(out + i * parts * padded + f, c.high);
            if (parts > 1) _mm512_storeu_si512(out + (i * parts + 1) * padded + f, c.low);
        }
    }
    _mm512_mask_storeu_ps(norm, zmm_first(n), zmm_sums(sum));
}

static void split(uint16_t *out, ptrdiff_t padded, int parts, const float *in, ptrdiff_t step, ptrdiff_t n, ptrdiff_t features, const float *centre, float *norm)
{
    for (ptrdiff_t i = 0; i < n; i += LANES) {
        uint16_t *to = out + i * parts * padded;
        const ptrdiff_t left = n - i < LANES ? n - i : LANES;
        if (parts > 1) split_pixels(to, padded, 2, in + i * step, step, left, features, centre, norm + i);
        else split_pixels(to, padded, 1, in + i * step, step, left, features, centre, norm + i);
    }
}

ALWAYS void turn_queries(uint16_t *out, ptrdiff_t padded, const int parts, const float *const *in, ptrdiff_t features, const float *centre, float scale, float *norm)
{
    __m512 sum[LANES];
    for (int l = 0; l < LANES; l++) sum[l] = _mm512_setzero_ps();
    for (ptrdiff_t f = 0; f < padded; f += CHUNK) {
        __m512i high[LANES], low[LANES];
        for (int l = 0; l < LANES; l++) {
            const Chunk c = split_chunk(in[l], f, features, centre, parts, _mm512_set1_ps(scale), &sum[l]);
            high[l] = c.high;
            low[l] = c.low;
        }
        zmm_turn(high);
        for (int p = 0; p < LANES; p++) _mm512_storeu_si512(out + f * LANES + p * CHUNK, high[p]);
        if (parts < 2) continue;
        zmm_turn(low);
        for (int p = 0; p < LANES; p++) _mm512_storeu_si512(out + (padded + f) * LANES + p * CHUNK, low[p]);
    }
    _mm512_storeu_ps(norm, zmm_sums(sum));
}

static void queries(uint16_t *out, ptrdiff_t padded, int parts, const float *const *in, ptrdiff_t features, const float *centre, float scale, float *norm)
{
    if (parts > 1) turn_queries(out, padded, 2, in, features, centre, scale, norm);
    else turn_queries(out, padded, 1, in, features, centre, scale, norm);
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

/* ---- boxes ---- */

static int between(const SnlsSieveLanes *axis, uint32_t lanes, int32_t steps)
{
    return steps > 1 || _mm512_mask_cmp_ps_mask((__mmask16)lanes, _mm512_loadu_ps(axis->fraction), _mm512_setzero_ps(), _CMP_NEQ_OQ) != 0;
}

static uint32_t fit(const SnlsSieveLanes *axis, uint32_t lanes, int32_t size, SnlsSieveSpan *span)
{
    const __m512i first = _mm512_loadu_si512(axis->first), end = _mm512_loadu_si512(axis->end);
    span->first = _mm512_mask_reduce_min_epi32((__mmask16)lanes, first);
    const __mmask16 taken = _mm512_mask_cmplt_epi32_mask((__mmask16)lanes, end, _mm512_set1_epi32(span->first + size));
    span->end = _mm512_mask_reduce_max_epi32(taken, end);
    return taken;
}

void snls_sieve_init_amx(SnlsSieve *sieve)
{
    *sieve = (SnlsSieve){.start = start, .stop = stop, .split = split, .queries = queries, .fit = fit, .between = between};
    snls_sieve_init_scan_amx(sieve);
    snls_sieve_init_fine_amx(sieve);
}

#else
typedef int snls_sieve_amx_is_empty;
#endif
