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

/* What is summed over the features of a pixel, see SnlsSieveNorms. */
typedef struct Sums { __m512 norm, loss, lean, along; } Sums;

/* Features f .. f+31 of (in - centre)*scale as one part or two. along: NULL, or a vector to be multiplied with. */
ALWAYS Chunk split_chunk(const float *in, ptrdiff_t f, const SnlsSieveParts *as, const int parts, __m512 scale, const float *along, Sums *sum)
{
    __m512 v[2];
#pragma GCC unroll 2
    for (int h = 0; h < 2; h++) {
        const __mmask16 there = zmm_first(as->features - f - 16 * h);
        v[h] = _mm512_maskz_loadu_ps(there, in + f + 16 * h);
        if (along) sum->along = _mm512_fmadd_ps(v[h], _mm512_maskz_loadu_ps(there, along + f + 16 * h), sum->along);
        if (as->centre) v[h] = _mm512_sub_ps(v[h], _mm512_maskz_loadu_ps(there, as->centre + f + 16 * h));
        sum->norm = _mm512_fmadd_ps(v[h], v[h], sum->norm);
        v[h] = _mm512_mul_ps(v[h], scale);
    }
    Chunk c = {(__m512i)_mm512_cvtne2ps_pbh(v[1], v[0]), _mm512_setzero_si512()};
    const __m512 less[2] = {_mm512_sub_ps(v[0], widen(c.high, 0)), _mm512_sub_ps(v[1], widen(c.high, 1))};
    if (parts > 1) {
        c.low = (__m512i)_mm512_cvtne2ps_pbh(less[1], less[0]);
        return c;
    }
#pragma GCC unroll 2
    for (int h = 0; h < 2; h++) {
        sum->loss = _mm512_fmadd_ps(less[h], less[h], sum->loss);
        sum->lean = _mm512_fmadd_ps(less[h], v[h], sum->lean);
    }
    return c;
}

/* Sums of sixteen pixels. */
typedef struct Lengths { __m512 norm[LANES], loss[LANES], lean[LANES], along[LANES]; } Lengths;

ALWAYS Sums sums_of(const Lengths *of, int i) { return (Sums){of->norm[i], of->loss[i], of->lean[i], of->along[i]}; }
ALWAYS void set_sums(Lengths *of, int i, const Sums *s) { of->norm[i] = s->norm, of->loss[i] = s->loss, of->lean[i] = s->lean, of->along[i] = s->along; }

/* unit: 1/scale^2. */
ALWAYS void write_lengths(const SnlsSieveNorms *out, ptrdiff_t at, __mmask16 there, Lengths *of, const int parts, const int along, float unit)
{
    const __m512 zero = _mm512_setzero_ps(), factor = _mm512_set1_ps(unit);
    _mm512_mask_storeu_ps(out->norm + at, there, zmm_sums(of->norm));
    _mm512_mask_storeu_ps(out->loss + at, there, parts > 1 ? zero : _mm512_mul_ps(factor, zmm_sums(of->loss)));
    if (out->lean) _mm512_mask_storeu_ps(out->lean + at, there, parts > 1 ? zero : _mm512_mul_ps(factor, zmm_sums(of->lean)));
    if (along) _mm512_mask_storeu_ps(out->along + at, there, zmm_sums(of->along));
}

ALWAYS void split_pixels(uint16_t *out, const SnlsSieveParts *as, const int parts, const float *in, ptrdiff_t step, ptrdiff_t n, ptrdiff_t at, const SnlsSieveNorms *of)
{
    Lengths lengths;
    const __m512 one = _mm512_set1_ps(1), zero = _mm512_setzero_ps();
    for (int i = 0; i < LANES; i++) {
        Sums sum = {zero, zero, zero, zero};
        for (ptrdiff_t f = 0; i < n && f < as->padded; f += CHUNK) {
            const Chunk c = split_chunk(in + i * step, f, as, parts, one, NULL, &sum);
            _mm512_storeu_si512(out + i * parts * as->padded + f, c.high);
            if (parts > 1) _mm512_storeu_si512(out + (i * parts + 1) * as->padded + f, c.low);
        }
        set_sums(&lengths, i, &sum);
    }
    write_lengths(of, at, zmm_first(n), &lengths, parts, 0, 1);
}

ALWAYS float most_of(const float *of, __mmask16 there)
{
    const __m512 v = _mm512_abs_ps(_mm512_maskz_loadu_ps(there, of));
    return _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q) ? __builtin_nanf("") : _mm512_reduce_max_ps(v);
}

static void split(uint16_t *out, const SnlsSieveParts *as, const float *in, ptrdiff_t step, ptrdiff_t n, const SnlsSieveNorms *of, const SnlsSieveMost *most)
{
    for (ptrdiff_t i = 0; i < n; i += LANES) {
        uint16_t *to = out + i * as->parts * as->padded;
        const ptrdiff_t left = n - i < LANES ? n - i : LANES;
        if (as->parts > 1) split_pixels(to, as, 2, in + i * step, step, left, i, of);
        else split_pixels(to, as, 1, in + i * step, step, left, i, of);
        most->norm[i / LANES] = most_of(of->norm + i, zmm_first(left));
        most->loss[i / LANES] = most_of(of->loss + i, zmm_first(left));
        most->lean[i / LANES] = of->lean ? most_of(of->lean + i, zmm_first(left)) : 0;
    }
}

ALWAYS void turn_queries(uint16_t *out, const SnlsSieveParts *as, const int parts, const float *const *in, float scale, const float *along, const SnlsSieveNorms *of)
{
    Lengths lengths;
    const __m512 zero = _mm512_setzero_ps();
    for (int l = 0; l < LANES; l++) set_sums(&lengths, l, &(Sums){zero, zero, zero, zero});
    for (ptrdiff_t f = 0; f < as->padded; f += CHUNK) {
        __m512i high[LANES], low[LANES];
        for (int l = 0; l < LANES; l++) {
            Sums sum = sums_of(&lengths, l);
            const Chunk c = split_chunk(in[l], f, as, parts, _mm512_set1_ps(scale), along, &sum);
            set_sums(&lengths, l, &sum);
            high[l] = c.high;
            low[l] = c.low;
        }
        zmm_turn(high);
        for (int p = 0; p < LANES; p++) _mm512_storeu_si512(out + f * LANES + p * CHUNK, high[p]);
        if (parts < 2) continue;
        zmm_turn(low);
        for (int p = 0; p < LANES; p++) _mm512_storeu_si512(out + (as->padded + f) * LANES + p * CHUNK, low[p]);
    }
    write_lengths(of, 0, 0xffff, &lengths, parts, along != NULL, 1 / (scale * scale));
}

static void queries(uint16_t *out, const SnlsSieveParts *as, const float *const *in, float scale, const float *along, const SnlsSieveNorms *of)
{
    if (as->parts > 1) turn_queries(out, as, 2, in, scale, along, of);
    else turn_queries(out, as, 1, in, scale, along, of);
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
