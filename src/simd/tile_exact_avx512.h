/* tile_exact_avx512.h: l2 of sixteen candidates at a time from their pixels, features in lanes; the next sixteen are fetched meanwhile. */
#include "simd/lanes_avx512.h"
#include "simd/tile.h"

typedef struct Pairs {
    SnlsPairs at;
    int taps;
} Pairs;

/* The pixels before sixteen places along an axis; how far they are from there into fraction. */
ALWAYS __m256i half_spot(const double *centre, const int32_t *origin, __m256i at, __m256i cell, double step, float *fraction)
{
    const __m512d cells = _mm512_cvtepi32_pd(_mm256_sub_epi32(cell, _mm256_i32gather_epi32(origin, at, 4)));
    return half_floor(_mm512_add_pd(_mm512_i32gather_pd(at, centre, 8), _mm512_mul_pd(_mm512_set1_pd(step), cells)), 0xff, fraction);
}

ALWAYS __m512i spots(const double *centre, const int32_t *origin, __m512i at, __m512i cell, double step, float *fraction)
{
    const __m256i a = half_spot(centre, origin, _mm512_castsi512_si256(at), _mm512_castsi512_si256(cell), step, fraction);
    const __m256i b = half_spot(centre, origin, _mm512_extracti64x4_epi64(at, 1), _mm512_extracti64x4_epi64(cell, 1), step, fraction + 8);
    return _mm512_inserti64x4(_mm512_castsi256_si512(a), b, 1);
}

/* Eight of the sixteen. A tap of weight 0 does not count, even if it is no number or outside the frame: the pixel itself stands in. */
ALWAYS void half_taps(Pairs *out, int i, const SnlsTileExact *in, __m256i slot, __m256i lane, __m256i y, __m256i x)
{
    const __m512i down = _mm512_set1_epi64(4 * in->down), right = _mm512_set1_epi64(4 * in->right);
    const __m512i more = _mm512_add_epi64(_mm512_mullo_epi64(_mm512_cvtepi32_epi64(y), down), _mm512_mullo_epi64(_mm512_cvtepi32_epi64(x), right));
    const __m512i at = _mm512_add_epi64(_mm512_i32gather_epi64(slot, (const void *)in->frame, 8), more);
    const __mmask8 between_y = _mm256_cmp_ps_mask(_mm256_loadu_ps(out->at.fraction_y + i), _mm256_setzero_ps(), _CMP_NEQ_UQ);
    const __mmask8 between_x = _mm256_cmp_ps_mask(_mm256_loadu_ps(out->at.fraction_x + i), _mm256_setzero_ps(), _CMP_NEQ_UQ);
    const __m512i below = _mm512_mask_add_epi64(at, between_y, at, down);
    const __m512i query = _mm512_mullo_epi64(_mm512_cvtepi32_epi64(lane), _mm512_set1_epi64(4 * in->query_step));
    _mm512_storeu_si512(out->at.query + i, _mm512_add_epi64(query, _mm512_set1_epi64((long long)(intptr_t)in->query)));
    _mm512_storeu_si512(out->at.tap[0] + i, at);
    _mm512_storeu_si512(out->at.tap[1] + i, _mm512_mask_add_epi64(at, between_x, at, right));
    _mm512_storeu_si512(out->at.tap[2] + i, below);
    _mm512_storeu_si512(out->at.tap[3] + i, _mm512_mask_add_epi64(below, between_x, below, right));
    if (between_y | between_x) out->taps = 4;
}

static void look_up(Pairs *out, const uint32_t *candidate, ptrdiff_t n, const SnlsTileExact *in)
{
    const __m512i c = _mm512_mask_loadu_epi32(_mm512_set1_epi32((int)candidate[0]), zmm_first(n), candidate), ten = _mm512_set1_epi32(1023);
    const __m512i lane = _mm512_and_si512(c, _mm512_set1_epi32(15)), cell = _mm512_i32gather_epi32(_mm512_srli_epi32(c, 4), in->cell, 4);
    const __m512i slot = _mm512_srli_epi32(cell, 20), at = _mm512_add_epi32(_mm512_mullo_epi32(slot, _mm512_set1_epi32((int)in->apart)), lane);
    const __m512i y = spots(in->centre_y, in->origin_y, at, _mm512_and_si512(_mm512_srli_epi32(cell, 10), ten), in->step, out->at.fraction_y);
    const __m512i x = spots(in->centre_x, in->origin_x, at, _mm512_and_si512(cell, ten), in->step, out->at.fraction_x);
    out->taps = 1;
    half_taps(out, 0, in, _mm512_castsi512_si256(slot), _mm512_castsi512_si256(lane), _mm512_castsi512_si256(y), _mm512_castsi512_si256(x));
    half_taps(out, 8, in, _mm512_extracti64x4_epi64(slot, 1), _mm512_extracti64x4_epi64(lane, 1), _mm512_extracti64x4_epi64(y, 1), _mm512_extracti64x4_epi64(x, 1));
    for (int t = 0; t < out->taps; t++)
        for (int i = 0; i < 16; i++) __builtin_prefetch(out->at.tap[t][i]);
}

static void exact(float *out, const uint32_t *candidate, ptrdiff_t n, const SnlsTileExact *in)
{
    Pairs pairs[2];
    if (n > 0) look_up(&pairs[0], candidate, n, in);
    for (ptrdiff_t i = 0; i < n; i += 16) {
        const Pairs *now = &pairs[i / 16 % 2];
        if (n - i > 16) look_up(&pairs[(i / 16 + 1) % 2], candidate + i + 16, n - i - 16, in);
        _mm512_storeu_ps(out + i, now->taps == 1 ? pair_sums(&now->at, in->features, 1, 0) : pair_sums(&now->at, in->features, 4, 0));
    }
}

/* Floats of a row of keys, mixed along x. */
ALWAYS __m512 patch_row(__mmask16 there, const float *key, ptrdiff_t right, __m512 fx)
{
    const __m512 left = _mm512_maskz_loadu_ps(there, key);
    return _mm512_fmadd_ps(fx, _mm512_sub_ps(_mm512_maskz_loadu_ps(there, key + right), left), left);
}

static float exact_patch(const SnlsTilePatch *p)
{
    const ptrdiff_t right = p->fraction_x != 0 ? p->right : 0, next = p->fraction_y != 0 ? p->down : 0;
    const __m512 fy = _mm512_set1_ps(p->fraction_y), fx = _mm512_set1_ps(p->fraction_x);
    __m512 sum = _mm512_setzero_ps();
    for (ptrdiff_t f = 0; f < p->n; f += 16) {
        const __mmask16 there = zmm_first(p->n - f);
        const float *query = p->query + f, *key = p->key + f;
        __m512 above = patch_row(there, key, right, fx);
        for (ptrdiff_t r = 0; r < p->side; r++, query += p->query_down, key += p->down) {
            if (!next) above = patch_row(there, key, right, fx);
            const __m512 below = next ? patch_row(there, key + next, right, fx) : above;
            const __m512 d = _mm512_sub_ps(_mm512_maskz_loadu_ps(there, query), _mm512_fmadd_ps(fy, _mm512_sub_ps(below, above), above));
            sum = _mm512_fmadd_ps(d, d, sum);
            above = below;
        }
    }
    return _mm512_reduce_add_ps(sum);
}
