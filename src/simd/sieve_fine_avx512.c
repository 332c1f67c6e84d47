/* sieve_fine_avx512.c: what the sieve does in f32 whatever its rough products are made of: windows and who fits a box, scores of what is left, the sorted lists, the
 * results. */
#include "simd/lanes_avx512.h"
#include "simd/sieve.h"
#include "simd/unroll.h"

enum { LANES = SNLS_SIEVE_LANES };

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

/* ---- entries ---- */

/* Which of a tile's slots and lanes sixteen entries are of. few: slots and boxes are so few that their numbers fit registers, where looking up takes a few
 * cycles instead of the twenty of a gather. */
enum { FEW_SLOTS = SNLS_SIEVE_FEW_SLOTS, FEW_BOXES = SNLS_SIEVE_FEW_BOXES, APART = sizeof(SnlsSieveLanes) / 4 };
typedef struct Whose { __m512i slot, lane; } Whose;

/* Of each entry's slot and lane; table: of slot 0, lane 0. */
ALWAYS __m512i of_lane(const void *table, const Whose *w, const int few)
{
    const int32_t *at = table;
    if (!few) return _mm512_i32gather_epi32(_mm512_add_epi32(_mm512_mullo_epi32(w->slot, _mm512_set1_epi32(APART)), w->lane), at, 4);
    const __m512i number = _mm512_or_si512(_mm512_slli_epi32(w->slot, 4), w->lane); /* bits above the lowest five are not looked at */
    const __m512i early = _mm512_permutex2var_epi32(_mm512_loadu_si512(at), number, _mm512_loadu_si512(at + APART));
    const __m512i late = _mm512_permutex2var_epi32(_mm512_loadu_si512(at + 2 * APART), number, _mm512_loadu_si512(at + 3 * APART));
    return _mm512_mask_blend_epi32(_mm512_test_epi32_mask(w->slot, _mm512_set1_epi32(2)), early, late);
}

ALWAYS __m512i of_box(const int32_t *table, __m512i box, const int few)
{
    return few ? _mm512_permutexvar_epi32(box, _mm512_maskz_loadu_epi32(0xff, table)) : _mm512_i32gather_epi32(box, table, 4);
}

/* Sixteen pointers. */
typedef struct Pointers { __m512i low, high; } Pointers;

ALWAYS Pointers boxes_of(const SnlsSieveTable *t, __m512i box, const int few)
{
    const __m256i low = _mm512_castsi512_si256(box), high = _mm512_extracti64x4_epi64(box, 1);
    if (!few) return (Pointers){_mm512_i32gather_epi64(low, (const void *)t->at, 8), _mm512_i32gather_epi64(high, (const void *)t->at, 8)};
    const __m512i all = _mm512_loadu_si512(t->at);
    return (Pointers){_mm512_permutexvar_epi64(_mm512_cvtepu32_epi64(low), all), _mm512_permutexvar_epi64(_mm512_cvtepu32_epi64(high), all)};
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

/* Of each entry, along an axis: the pixel, and the number of its first candidate in the window. */
typedef struct Number { __m512i pixel, first; } Number;

ALWAYS Number number_of(const SnlsSieveLanes *axis, const Whose *w, __m512i cell, __m512i origin, int32_t steps, const int few)
{
    const __m512i pixel = _mm512_add_epi32(cell, origin);
    return (Number){pixel, _mm512_sub_epi32(_mm512_mullo_epi32(pixel, _mm512_set1_epi32(steps)), of_lane(axis->base, w, few))};
}

ALWAYS void set_in(uint16_t *in, const SnlsSieveLanes *axis, const Whose *w, __m512i first, __mmask16 there, int32_t steps, const int few)
{
    const __m512i from = of_lane(axis->from, w, few), size = _mm512_sub_epi32(of_lane(axis->to, w, few), from);
    for (int32_t j = 0; j < steps; j++)
        in[j] = _mm512_mask_cmplt_epu32_mask(there, _mm512_sub_epi32(_mm512_add_epi32(first, _mm512_set1_epi32(j)), from), size);
}

ALWAYS void look_up_taps(SnlsSievePairs *out, const SnlsSieveTable *t, Pointers from, const Whose *w, __m512i y, __m512i x, __m512i floats, const int few)
{
    /* beyond the frame a tap has weight 0: any pixel will do */
    const __m512i right = _mm512_maskz_set1_epi32(_mm512_cmplt_epi32_mask(x, _mm512_set1_epi32(t->last_x)), (int)t->right);
    const __m512i down = _mm512_maskz_set1_epi32(_mm512_cmplt_epi32_mask(y, _mm512_set1_epi32(t->last_y)), (int)t->down);
    write_pixels(out->at.tap[1], from, _mm512_add_epi32(floats, right));
    write_pixels(out->at.tap[2], from, _mm512_add_epi32(floats, down));
    write_pixels(out->at.tap[3], from, _mm512_add_epi32(floats, _mm512_add_epi32(right, down)));
    _mm512_storeu_si512(out->at.fraction_y, of_lane(t->y->fraction, w, few));
    _mm512_storeu_si512(out->at.fraction_x, of_lane(t->x->fraction, w, few));
}

ALWAYS void look_up_all(SnlsSievePairs *out, const uint32_t *entry, ptrdiff_t n, const SnlsSieveTable *t, int taps, const int few)
{
    const __mmask16 there = zmm_first(n);
    const __m512i e = _mm512_mask_loadu_epi32(_mm512_set1_epi32((int)entry[0]), there, entry);
    const __m512i box = _mm512_srli_epi32(e, 16), lane = _mm512_and_si512(e, _mm512_set1_epi32(15)), slot = of_box(t->slot, box, few);
    const __m512i row = _mm512_and_si512(_mm512_srli_epi32(e, 10), _mm512_set1_epi32(63)), column = _mm512_and_si512(_mm512_srli_epi32(e, 4), _mm512_set1_epi32(63));
    const __m512i floats = _mm512_add_epi32(_mm512_mullo_epi32(row, _mm512_set1_epi32((int)t->down)), _mm512_mullo_epi32(column, _mm512_set1_epi32((int)t->right)));
    const Whose whose = {slot, lane};
    const Number y = number_of(t->y, &whose, row, of_box(t->origin_y, box, few), t->steps, few);
    const Number x = number_of(t->x, &whose, column, of_box(t->origin_x, box, few), t->steps, few);
    const Pointers from = boxes_of(t, box, few);
    _mm512_storeu_si512(out->lane, lane);
    _mm512_storeu_si512(out->place, _mm512_add_epi32(_mm512_slli_epi32(slot, 20), _mm512_add_epi32(_mm512_slli_epi32(y.first, 10), x.first)));
    out->steps = taps > 1 ? t->steps : 1;
    out->in_y[0] = out->in_x[0] = there;
    if (out->steps > 1) {
        set_in(out->in_y, t->y, &whose, y.first, there, t->steps, few);
        set_in(out->in_x, t->x, &whose, x.first, there, t->steps, few);
    }
    write_queries(out->at.query, t, lane);
    write_pixels(out->at.tap[0], from, floats);
    if (taps > 1) look_up_taps(out, t, from, &whose, y.pixel, x.pixel, floats, few);
}

static void look_up(SnlsSievePairs *out, const uint32_t *entry, ptrdiff_t n, const SnlsSieveTable *t, int taps)
{
    if (t->slots <= FEW_SLOTS && t->boxes <= FEW_BOXES) look_up_all(out, entry, n, t, taps, 1);
    else look_up_all(out, entry, n, t, taps, 0);
    for (int tap = 0; tap < taps; tap++)
        for (int i = 0; i < LANES; i++) __builtin_prefetch(out->at.tap[tap][i]);
}

/* ---- scores ---- */

/* Candidates that are there and not above the limit, appended. */
ALWAYS void append_found(SnlsSieveFound *out, __mmask16 there, __m512 score, __m512i lane, __m512i place, __m512 limit)
{
    const __mmask16 in = _mm512_mask_cmp_ps_mask(there, score, limit, _CMP_LE_OQ);
    _mm512_storeu_ps(out->score + out->count, _mm512_maskz_compress_ps(in, score));
    _mm512_storeu_si512(out->lane + out->count, _mm512_maskz_compress_epi32(in, lane));
    _mm512_storeu_si512(out->place + out->count, _mm512_maskz_compress_epi32(in, place));
    out->count += __builtin_popcount(in);
}

ALWAYS void score_pairs(SnlsSieveFound *out, const SnlsSievePairs *p, ptrdiff_t n, const float *limit, const int taps, const int prod)
{
    const __m512 all = pair_sums(&p->at, n, taps, prod);
    const __m512i lane = _mm512_loadu_si512(p->lane);
    append_found(out, p->in_y[0], prod ? _mm512_sub_ps(_mm512_setzero_ps(), all) : all, lane, _mm512_loadu_si512(p->place),
                 _mm512_permutexvar_ps(lane, _mm512_loadu_ps(limit)));
}

/* Four candidates of a pair, two by two, at the fractions y, y + step and x, x + step. */
typedef struct Square { float step, y, x; } Square;

/* Products with the cell's pixels: all its candidates are mixes of the four. */
ALWAYS void add_corners(__m512 *sum, const SnlsSievePairs *p, int i, ptrdiff_t f, __mmask16 there)
{
    const __m512 q = _mm512_maskz_loadu_ps(there, p->at.query[i] + f);
UNROLLED(4)
    for (int t = 0; t < 4; t++) sum[t] = _mm512_fmadd_ps(_mm512_maskz_loadu_ps(there, p->at.tap[t][i] + f), q, sum[t]);
}

ALWAYS __m512 add_square(__m512 sum, __m512 a, __m512 b)
{
    const __m512 d = _mm512_sub_ps(a, b);
    return _mm512_fmadd_ps(d, d, sum);
}

ALWAYS void add_squares(__m512 *sum, const SnlsSievePairs *p, int i, ptrdiff_t f, __mmask16 there, const Square *at)
{
    const __m512 q = _mm512_maskz_loadu_ps(there, p->at.query[i] + f);
    __m512 k[4];
UNROLLED(4)
    for (int t = 0; t < 4; t++) k[t] = _mm512_maskz_loadu_ps(there, p->at.tap[t][i] + f);
UNROLLED(2)
    for (int x = 0; x < 2; x++) {
        const __m512 fx = _mm512_set1_ps(p->at.fraction_x[i] + (at->x + (float)x * at->step));
        const __m512 above = weigh(k[0], k[1], fx), below = weigh(k[2], k[3], fx);
UNROLLED(2)
        for (int y = 0; y < 2; y++) sum[2 * y + x] = add_square(sum[2 * y + x], q, weigh(above, below, _mm512_set1_ps(p->at.fraction_y[i] + (at->y + (float)y * at->step))));
    }
}

ALWAYS void add_four(__m512 *sum, const SnlsSievePairs *p, int i, ptrdiff_t f, __mmask16 there, const Square *at, const int prod)
{
    if (prod) add_corners(sum, p, i, f, there);
    else add_squares(sum, p, i, f, there, at);
}

/* Sums over features, four a pair. */
ALWAYS void sum_cells(__m512 *four, const SnlsSievePairs *p, ptrdiff_t n, const Square *at, const int prod)
{
    __m512 sum[4][LANES];
    for (int i = 0; i < LANES; i++) {
        __m512 s[4] = {_mm512_setzero_ps(), _mm512_setzero_ps(), _mm512_setzero_ps(), _mm512_setzero_ps()};
        ptrdiff_t f = 0;
        for (; f + 16 <= n; f += 16) add_four(s, p, i, f, 0xffff, at, prod);
        if (f < n) add_four(s, p, i, f, zmm_first(n - f), at, prod);
        for (int t = 0; t < 4; t++) sum[t][i] = s[t];
    }
    for (int t = 0; t < 4; t++) four[t] = zmm_sums(sum[t]);
}

ALWAYS void mix_corners(__m512 *four, const SnlsSievePairs *p, const Square *at)
{
    const __m512 corner[4] = {four[0], four[1], four[2], four[3]}, zero = _mm512_setzero_ps();
    for (int j = 0; j < 4; j++) {
        const __m512 fx = _mm512_add_ps(_mm512_loadu_ps(p->at.fraction_x), _mm512_set1_ps(at->x + (float)(j % 2) * at->step));
        const __m512 fy = _mm512_add_ps(_mm512_loadu_ps(p->at.fraction_y), _mm512_set1_ps(at->y + (float)(j / 2) * at->step));
        four[j] = _mm512_sub_ps(zero, weigh(weigh(corner[0], corner[1], fx), weigh(corner[2], corner[3], fx), fy));
    }
}

ALWAYS void score_cells(SnlsSieveFound *out, const SnlsSievePairs *p, ptrdiff_t n, const float *limit, const int prod)
{
    const float step = 1 / (float)p->steps;
    const __m512i lane = _mm512_loadu_si512(p->lane), place = _mm512_loadu_si512(p->place);
    const __m512 limits = _mm512_permutexvar_ps(lane, _mm512_loadu_ps(limit));
    for (int y = 0; y < p->steps; y += 2)
        for (int x = 0; x < p->steps; x += 2) {
            const Square at = {step, (float)y * step, (float)x * step};
            __m512 four[4];
            sum_cells(four, p, n, &at, prod);
            if (prod) mix_corners(four, p, &at);
            for (int j = 0; j < 4; j++) {
                const int row = y + j / 2, column = x + j % 2;
                append_found(out, p->in_y[row] & p->in_x[column], four[j], lane, _mm512_add_epi32(place, _mm512_set1_epi32(row << 10 | column)), limits);
            }
        }
}

static void scores(SnlsSieveFound *out, const SnlsSievePairs *pairs, int taps, int prod, ptrdiff_t n, const float *limit)
{
    out->count = 0;
    if (pairs->steps > 1) {
        if (prod) score_cells(out, pairs, n, limit, 1);
        else score_cells(out, pairs, n, limit, 0);
    } else if (prod) {
        if (taps == 1) score_pairs(out, pairs, n, limit, 1, 1);
        else score_pairs(out, pairs, n, limit, 4, 1);
    } else {
        if (taps == 1) score_pairs(out, pairs, n, limit, 1, 0);
        else score_pairs(out, pairs, n, limit, 4, 0);
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
    /* counted in candidates, the frame's first pixel is at 0 and cells begin at multiples of steps, a power of two */
    const __m512d steps = _mm512_set1_pd(in->steps);
    float fraction[LANES];
    const __m256i low = half_floor(_mm512_mul_pd(half_place(&a, in->all.step, 0), steps), a.in, fraction);
    const __m256i high = half_floor(_mm512_mul_pd(half_place(&b, in->all.step, 0), steps), b.in, fraction + 8);
    const __m512i base = _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1), side = _mm512_set1_epi32(in->side);
    const __m128i shift = _mm_cvtsi32_si128(__builtin_ctz((unsigned)in->steps));
    _mm512_storeu_pd(centre, a.centre);
    _mm512_storeu_pd(centre + 8, b.centre);
    _mm512_storeu_ps(out->fraction, _mm512_mul_ps(_mm512_loadu_ps(fraction), _mm512_set1_ps(1 / (float)in->steps)));
    _mm512_storeu_si512(out->base, base);
    _mm512_storeu_si512(out->from, _mm512_setzero_si512());
    _mm512_storeu_si512(out->to, side);
    _mm512_storeu_si512(out->first, _mm512_srl_epi32(base, shift));
    _mm512_storeu_si512(out->end, _mm512_add_epi32(_mm512_srl_epi32(_mm512_add_epi32(base, _mm512_sub_epi32(side, _mm512_set1_epi32(1))), shift), _mm512_set1_epi32(1)));
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

void snls_sieve_init_fine_avx512(SnlsSieve *sieve)
{
    sieve->fit = fit;
    sieve->between = between;
    sieve->look_up = look_up;
    sieve->scores = scores;
    sieve->keep = keep;
    sieve->windows = windows;
    sieve->write = write;
}
