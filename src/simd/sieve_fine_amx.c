/* sieve_fine_amx.c: the exact half of the sieve: windows, scores in f32 of what is left, the sorted lists, the results. */
#if defined(__x86_64__) && defined(SNLS_HAVE_AMX)
#include "simd/lanes_avx512.h"
#include "simd/sieve.h"

enum { LANES = SNLS_SIEVE_LANES };

/* ---- entries ---- */

/* Sixteen pointers. */
typedef struct Pointers { __m512i low, high; } Pointers;

ALWAYS Pointers boxes_of(const SnlsSieveTable *t, __m512i box)
{
    return (Pointers){_mm512_i32gather_epi64(_mm512_castsi512_si256(box), (const void *)t->at, 8),
                      _mm512_i32gather_epi64(_mm512_extracti64x4_epi64(box, 1), (const void *)t->at, 8)};
}

/* The pixels so many floats on. */
ALWAYS void write_pixels(const float **out, Pointers from, __m512i floats)
{
    const __m512i more_low = _mm512_slli_epi64(_mm512_cvtepi32_epi64(_mm512_castsi512_si256(floats)), 2);
    const __m512i more_high = _mm512_slli_epi64(_mm512_cvtepi32_epi64(_mm512_extracti64x4_epi64(floats, 1)), 2);
    _mm512_storeu_si512(out, _mm512_add_epi64(from.low, more_low));
    _mm512_storeu_si512(out + 8, _mm512_add_epi64(from.high, more_high));
}

ALWAYS void write_queries(const float **out, const SnlsSieveTable *t, __m512i lane)
{
    const __m512i low = _mm512_loadu_si512(t->query), high = _mm512_loadu_si512(t->query + 8);
    _mm512_storeu_si512(out, _mm512_permutex2var_epi64(low, _mm512_cvtepu32_epi64(_mm512_castsi512_si256(lane)), high));
    _mm512_storeu_si512(out + 8, _mm512_permutex2var_epi64(low, _mm512_cvtepu32_epi64(_mm512_extracti64x4_epi64(lane, 1)), high));
}

ALWAYS void look_up_taps(SnlsSievePairs *out, const SnlsSieveTable *t, Pointers from, __m512i at, __m512i y, __m512i x, __m512i floats)
{
    /* beyond the frame a tap has weight 0: any pixel will do */
    const __m512i right = _mm512_maskz_set1_epi32(_mm512_cmplt_epi32_mask(x, _mm512_set1_epi32(t->last_x)), (int)t->right);
    const __m512i down = _mm512_maskz_set1_epi32(_mm512_cmplt_epi32_mask(y, _mm512_set1_epi32(t->last_y)), (int)t->down);
    const __m512 fy = _mm512_i32gather_ps(at, t->fraction_y, 4), fx = _mm512_i32gather_ps(at, t->fraction_x, 4), one = _mm512_set1_ps(1);
    const __m512 gy = _mm512_sub_ps(one, fy), gx = _mm512_sub_ps(one, fx);
    write_pixels(out->tap[1], from, _mm512_add_epi32(floats, right));
    write_pixels(out->tap[2], from, _mm512_add_epi32(floats, down));
    write_pixels(out->tap[3], from, _mm512_add_epi32(floats, _mm512_add_epi32(right, down)));
    _mm512_storeu_ps(out->weight[0], _mm512_mul_ps(gy, gx));
    _mm512_storeu_ps(out->weight[1], _mm512_mul_ps(gy, fx));
    _mm512_storeu_ps(out->weight[2], _mm512_mul_ps(fy, gx));
    _mm512_storeu_ps(out->weight[3], _mm512_mul_ps(fy, fx));
}

static void look_up(SnlsSievePairs *out, const uint32_t *entry, ptrdiff_t n, const SnlsSieveTable *t, int taps)
{
    const __m512i e = _mm512_mask_loadu_epi32(_mm512_set1_epi32((int)entry[0]), zmm_first(n), entry);
    const __m512i box = _mm512_srli_epi32(e, 16), lane = _mm512_and_si512(e, _mm512_set1_epi32(15)), at = _mm512_add_epi32(_mm512_slli_epi32(box, 4), lane);
    const __m512i row = _mm512_and_si512(_mm512_srli_epi32(e, 10), _mm512_set1_epi32(63)), column = _mm512_and_si512(_mm512_srli_epi32(e, 4), _mm512_set1_epi32(63));
    const __m512i floats = _mm512_add_epi32(_mm512_mullo_epi32(row, _mm512_set1_epi32((int)t->down)), _mm512_mullo_epi32(column, _mm512_set1_epi32((int)t->right)));
    const __m512i y = _mm512_add_epi32(row, _mm512_i32gather_epi32(box, t->origin_y, 4)), x = _mm512_add_epi32(column, _mm512_i32gather_epi32(box, t->origin_x, 4));
    const __m512i rows = _mm512_sub_epi32(y, _mm512_i32gather_epi32(at, t->base_y, 4)), columns = _mm512_sub_epi32(x, _mm512_i32gather_epi32(at, t->base_x, 4));
    const __m512i cells = _mm512_mullo_epi32(_mm512_add_epi32(_mm512_slli_epi32(rows, 10), columns), _mm512_set1_epi32(t->phases));
    const Pointers from = boxes_of(t, box);
    _mm512_storeu_si512(out->lane, lane);
    _mm512_storeu_si512(out->place, _mm512_add_epi32(_mm512_i32gather_epi32(box, t->head, 4), cells));
    write_queries(out->query, t, lane);
    write_pixels(out->tap[0], from, floats);
    if (taps > 1) look_up_taps(out, t, from, at, y, x, floats);
    for (int tap = 0; tap < taps; tap++)
        for (int i = 0; i < LANES; i++) __builtin_prefetch(out->tap[tap][i]);
}

/* ---- scores ---- */

ALWAYS __m512 tap_or_blend(const SnlsSievePairs *p, int i, ptrdiff_t f, __mmask16 there, const int taps)
{
    __m512 key = _mm512_maskz_loadu_ps(there, p->tap[0][i] + f);
    if (taps == 1) return key;
    key = _mm512_mul_ps(key, _mm512_set1_ps(p->weight[0][i]));
#pragma GCC unroll 4
    for (int t = 1; t < 4; t++) key = _mm512_fmadd_ps(_mm512_maskz_loadu_ps(there, p->tap[t][i] + f), _mm512_set1_ps(p->weight[t][i]), key);
    return key;
}

ALWAYS __m512 add_features(__m512 sum, const SnlsSievePairs *p, int i, ptrdiff_t f, __mmask16 there, const int taps, const int prod)
{
    const __m512 q = _mm512_maskz_loadu_ps(there, p->query[i] + f), k = tap_or_blend(p, i, f, there, taps);
    const __m512 d = prod ? q : _mm512_sub_ps(q, k);
    return _mm512_fmadd_ps(d, prod ? k : d, sum);
}

ALWAYS void score_pairs(float *out, const SnlsSievePairs *p, ptrdiff_t n, const int taps, const int prod)
{
    __m512 sum[LANES];
    for (int i = 0; i < LANES; i++) {
        __m512 s = _mm512_setzero_ps();
        ptrdiff_t f = 0;
        for (; f + 16 <= n; f += 16) s = add_features(s, p, i, f, 0xffff, taps, prod);
        sum[i] = f < n ? add_features(s, p, i, f, zmm_first(n - f), taps, prod) : s;
    }
    const __m512 all = zmm_sums(sum);
    _mm512_storeu_ps(out, prod ? _mm512_sub_ps(_mm512_setzero_ps(), all) : all);
}

static void scores(float *out, const SnlsSievePairs *pairs, int taps, int prod, ptrdiff_t n)
{
    if (prod) {
        if (taps == 1) score_pairs(out, pairs, n, 1, 1);
        else score_pairs(out, pairs, n, 4, 1);
    } else {
        if (taps == 1) score_pairs(out, pairs, n, 1, 0);
        else score_pairs(out, pairs, n, 4, 0);
    }
}

/* ---- lists ---- */

static void keep(float *best, uint32_t *best_place, ptrdiff_t k, const float *score, const uint32_t *place, ptrdiff_t n)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        __m512 s = _mm512_loadu_ps(score + i * LANES);
        __m512i p = _mm512_loadu_si512(place + i * LANES);
        for (ptrdiff_t j = 0; j < k; j++) {
            const __m512 have = _mm512_loadu_ps(best + j * LANES);
            const __m512i there = _mm512_loadu_si512(best_place + j * LANES);
            const __mmask16 tie = _mm512_cmp_ps_mask(s, have, _CMP_EQ_OQ);
            const __mmask16 before = _mm512_cmp_ps_mask(s, have, _CMP_LT_OQ) | _mm512_mask_cmplt_epu32_mask(tie, p, there);
            _mm512_storeu_ps(best + j * LANES, _mm512_mask_blend_ps(before, have, s));
            _mm512_storeu_si512(best_place + j * LANES, _mm512_mask_blend_epi32(before, there, p));
            s = _mm512_mask_blend_ps(before, s, have);
            p = _mm512_mask_blend_epi32(before, p, there);
        }
    }
}

/* ---- windows ---- */

ALWAYS uint32_t axis_windows(const SnlsSieveWindows *in, __m512 flow, const double *query, double end, double *centre, int32_t *origin, SnlsSieveLanes *out)
{
    if (in->all.nearest) flow = _mm512_roundscale_ps(flow, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    const Half a = half_axis(&in->all, _mm512_loadu_pd(query), _mm512_castps512_ps256(flow), end);
    const Half b = half_axis(&in->all, _mm512_loadu_pd(query + 8), _mm512_extractf32x8_ps(flow, 1), end);
    const __m256i low = half_floor(half_place(&a, in->all.step, in->first), a.in, out->fraction);
    const __m256i high = half_floor(half_place(&b, in->all.step, in->first), b.in, out->fraction + 8);
    const __m512i base = _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
    _mm512_storeu_pd(centre, a.centre);
    _mm512_storeu_pd(centre + 8, b.centre);
    _mm512_storeu_si512(out->base, base);
    _mm512_storeu_si512(out->first, base);
    _mm512_storeu_si512(out->end, _mm512_add_epi32(base, _mm512_set1_epi32(in->side)));
    _mm256_storeu_si256((__m256i *)origin, _mm512_cvttpd_epi32(a.origin));
    _mm256_storeu_si256((__m256i *)(origin + 8), _mm512_cvttpd_epi32(b.origin));
    return (uint32_t)a.in | (uint32_t)b.in << 8;
}

static uint32_t windows(const SnlsSieveWindows *in, SnlsSieveLanes *y, SnlsSieveLanes *x)
{
    __m512 flow_x = _mm512_setzero_ps(), flow_y = flow_x;
    if (in->flow) {
        const __m512i at = _mm512_loadu_si512(in->at);
        flow_x = _mm512_i32gather_ps(at, in->flow, 4);
        flow_y = _mm512_i32gather_ps(at, in->flow + in->step_y, 4);
    }
    return axis_windows(in, flow_y, in->y, in->all.end_y, in->centre_y, in->origin_y, y) & axis_windows(in, flow_x, in->x, in->all.end_x, in->centre_x, in->origin_x, x);
}

/* ---- results ---- */

static void write(const SnlsListOutput *out, const float *best, const uint32_t *place, ptrdiff_t k, ptrdiff_t have)
{
    for (ptrdiff_t i = 0; i < k; i += LIST_PART) {
        const ptrdiff_t n = k - i < LIST_PART ? k - i : LIST_PART;
        Neighbour near[LIST_PART];
        for (ptrdiff_t j = i; j < i + n; j++)
            near[j - i] = neighbour_of(out, j, j < have ? _mm512_loadu_ps(best + j * LANES) : _mm512_setzero_ps(),
                                       j < have ? _mm512_loadu_si512(place + j * LANES) : _mm512_set1_epi32((int)SNLS_LIST_NONE));
        for (ptrdiff_t j = n; j < LIST_PART; j++) near[j] = near[0]; /* not written, but turned over with the others */
        write_part(out, i, n, near);
    }
}

void snls_sieve_init_fine_amx(SnlsSieve *sieve)
{
    sieve->look_up = look_up;
    sieve->scores = scores;
    sieve->keep = keep;
    sieve->windows = windows;
    sieve->write = write;
}

#else
typedef int snls_sieve_fine_amx_is_empty;
#endif
