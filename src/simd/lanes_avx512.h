/* lanes_avx512.h: windows of sixteen queries and neighbours of sixteen queries, eight lanes of doubles at a time: what the tiles and the sieve have in common. */
#ifndef SNLS_LANES_AVX512_H
#define SNLS_LANES_AVX512_H

#include "simd/inline.h"
#include "simd/list.h"
#include "simd/zmm.h"
#include "simd/unroll.h"

/* ---- windows ---- */

/* Eight windows along an axis. in: all of it lies inside the frame, and its centre did before any reflection. */
typedef struct Half { __m512d centre, origin; __mmask8 in; } Half;

ALWAYS __m512d half_place(const Half *h, double step, double cell)
{
    return _mm512_add_pd(h->centre, _mm512_mul_pd(_mm512_set1_pd(step), _mm512_sub_pd(_mm512_set1_pd(cell), h->origin)));
}

ALWAYS __mmask8 half_inside(const Half *h, const SnlsLaneWindows *in, double end)
{
    return _mm512_cmp_pd_mask(half_place(h, in->step, 0), _mm512_setzero_pd(), _CMP_GE_OQ) &
           _mm512_cmp_pd_mask(half_place(h, in->step, in->span), _mm512_set1_pd(end), _CMP_LE_OQ);
}

/* As snls_window_origin does. */
ALWAYS void half_slide(Half *h, const SnlsLaneWindows *in, double end)
{
    const __m512d step = _mm512_set1_pd(in->step), last = _mm512_set1_pd(end), zero = _mm512_setzero_pd();
    const __mmask8 centred = _mm512_cmp_pd_mask(h->centre, zero, _CMP_GE_OQ) & _mm512_cmp_pd_mask(h->centre, last, _CMP_LE_OQ);
    const __mmask8 early = _mm512_cmp_pd_mask(half_place(h, in->step, 0), zero, _CMP_LT_OQ);
    h->origin = _mm512_mask_roundscale_pd(h->origin, early, _mm512_div_pd(h->centre, step), _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
    const __mmask8 late = _mm512_cmp_pd_mask(half_place(h, in->step, in->span), last, _CMP_GT_OQ);
    const __m512d from_end = _mm512_add_pd(_mm512_div_pd(_mm512_sub_pd(h->centre, last), step), _mm512_set1_pd(in->span));
    h->origin = _mm512_mask_roundscale_pd(h->origin, late, from_end, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC);
    h->in = half_inside(h, in, end) & centred;
}

ALWAYS Half half_axis(const SnlsLaneWindows *in, __m512d query, __m256 flow, double end)
{
    Half h;
    h.centre = _mm512_add_pd(query, _mm512_cvtps_pd(flow));
    h.origin = _mm512_set1_pd(in->origin);
    h.in = half_inside(&h, in, end);
    if (in->slide && h.in != 0xff) half_slide(&h, in, end);
    return h;
}

/* Floor and the rest of places that are not negative: cutting off is floor. Elsewhere 0. */
ALWAYS __m256i half_floor(__m512d place, __mmask8 in, float *fraction)
{
    const __m256i low = _mm512_maskz_cvttpd_epi32(in, place);
    _mm256_storeu_ps(fraction, _mm512_maskz_cvtpd_ps(in, _mm512_sub_pd(place, _mm512_cvtepi32_pd(low))));
    return low;
}

/* ---- neighbours ---- */

typedef struct Neighbour { __m512 dist, t, y, x; } Neighbour;

/* centre + step*(cell - origin) - query of eight lanes, in double, rounded once. */
ALWAYS __m256 half_offset(const double *centre, const int32_t *origin, const double *query, __m256i at, __m256i cell, double step, __mmask8 there)
{
    const __m512d middle = _mm512_mask_i32gather_pd(_mm512_setzero_pd(), there, at, centre, 8);
    const __m256i first = _mm256_mmask_i32gather_epi32(_mm256_setzero_si256(), there, at, origin, 4);
    const __m512d cells = _mm512_cvtepi32_pd(_mm256_sub_epi32(cell, first));
    const __m512d place = _mm512_add_pd(middle, _mm512_mul_pd(_mm512_set1_pd(step), cells));
    return _mm512_maskz_cvtpd_ps(there, _mm512_sub_pd(place, _mm512_loadu_pd(query)));
}

ALWAYS __m512 axis_offsets(const double *centre, const int32_t *origin, const double *query, __m512i at, __m512i cell, double step, __mmask16 there)
{
    const __m256 a = half_offset(centre, origin, query, _mm512_castsi512_si256(at), _mm512_castsi512_si256(cell), step, (__mmask8)there);
    const __m256 b = half_offset(centre, origin, query + 8, _mm512_extracti64x4_epi64(at, 1), _mm512_extracti64x4_epi64(cell, 1), step, (__mmask8)(there >> 8));
    return _mm512_insertf32x8(_mm512_castps256_ps512(a), b, 1);
}

ALWAYS void write_index(const SnlsListOutput *o, ptrdiff_t i, __m512i slot, __m512i row, __m512i column, __mmask16 there)
{
    int32_t id[16];
    const __m512i side = _mm512_set1_epi32((int)o->side), cell = _mm512_add_epi32(_mm512_mullo_epi32(_mm512_add_epi32(_mm512_mullo_epi32(slot, side), row), side), column);
    _mm512_storeu_si512(id, _mm512_mask_blend_epi32(there, _mm512_set1_epi32(-1), cell));
    for (uint32_t rest = o->active; rest; rest &= rest - 1) {
        const int l = __builtin_ctz(rest);
        o->index[o->index_at[l] + i * o->index_step] = id[l];
    }
}

ALWAYS Neighbour neighbour_of(const SnlsListOutput *o, ptrdiff_t i, __m512 score, __m512i place)
{
    const __mmask16 there = _mm512_cmpneq_epi32_mask(place, _mm512_set1_epi32((int)SNLS_LIST_NONE));
    const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15), ten = _mm512_set1_epi32(1023);
    const __m512i slot = _mm512_maskz_srli_epi32(there, place, 20), row = _mm512_and_si512(_mm512_srli_epi32(place, 10), ten), column = _mm512_and_si512(place, ten);
    const __m512i at = _mm512_add_epi32(_mm512_mullo_epi32(slot, _mm512_set1_epi32((int)o->apart)), lane);
    score = _mm512_mask_blend_ps(there, _mm512_set1_ps(__builtin_inff()), score);
    Neighbour n;
    n.dist = o->prod ? _mm512_sub_ps(_mm512_setzero_ps(), score) : _mm512_add_ps(score, _mm512_setzero_ps()); /* no -0 */
    n.t = _mm512_mask_i32gather_ps(_mm512_setzero_ps(), there, slot, o->dt, 4);
    n.y = axis_offsets(o->centre_y, o->origin_y, o->y, at, row, o->step, there);
    n.x = axis_offsets(o->centre_x, o->origin_x, o->x, at, column, o->step, there);
    if (o->index) write_index(o, i, slot, row, column, there);
    return n;
}

enum { LIST_PART = 4 }; /* neighbours written together: their distances and offsets are the sixteen vectors that zmm_turn turns over */

ALWAYS void write_strided(const SnlsListOutput *o, ptrdiff_t i, const Neighbour *near)
{
    float dist[16], t[16], y[16], x[16];
    _mm512_storeu_ps(dist, near->dist);
    _mm512_storeu_ps(t, near->t);
    _mm512_storeu_ps(y, near->y);
    _mm512_storeu_ps(x, near->x);
    for (uint32_t rest = o->active; rest; rest &= rest - 1) {
        const int l = __builtin_ctz(rest);
        float *offset = o->offset + o->offset_at[l] + i * o->offset_step;
        o->dist[o->dist_at[l] + i * o->dist_step] = dist[l];
        offset[0] = t[l];
        offset[o->component] = y[l];
        offset[2 * o->component] = x[l];
    }
}

/* Neighbours i .. i+n-1 of every lane, one after the other in memory. */
ALWAYS void write_packed(const SnlsListOutput *o, ptrdiff_t i, ptrdiff_t n, const Neighbour *near)
{
    __m512i v[16];
    const __mmask16 offsets = zmm_first(3 * n);
    const __mmask8 dists = (__mmask8)zmm_first(n);
UNROLLED(4)
    for (int j = 0; j < LIST_PART; j++) {
        v[3 * j] = _mm512_castps_si512(near[j].t);
        v[3 * j + 1] = _mm512_castps_si512(near[j].y);
        v[3 * j + 2] = _mm512_castps_si512(near[j].x);
        v[12 + j] = _mm512_castps_si512(near[j].dist);
    }
    zmm_turn(v);
UNROLLED(16)
    for (int l = 0; l < 16; l++) {
        if (!(o->active >> l & 1)) continue;
        _mm512_mask_storeu_epi32(o->offset + o->offset_at[l] + 3 * i, offsets, v[l]);
        __m128i dist = _mm512_extracti32x4_epi32(v[l], 3);
        __asm__("" : "+v"(dist)); /* or the compiler makes one instruction of both, which faults where memory ends even at places it does not write */
        _mm_mask_storeu_epi32(o->dist + o->dist_at[l] + i, dists, dist);
    }
}

ALWAYS void write_part(const SnlsListOutput *o, ptrdiff_t i, ptrdiff_t n, const Neighbour *near)
{
    if (o->dist_step == 1 && o->offset_step == 3 && o->component == 1) write_packed(o, i, n, near);
    else for (ptrdiff_t j = 0; j < n; j++) write_strided(o, i + j, &near[j]);
}

/* ---- pairs ---- */

ALWAYS __m512 weigh(__m512 a, __m512 b, __m512 f) { return _mm512_fmadd_ps(f, _mm512_sub_ps(b, a), a); }

/* Features of pair i: taps is 1 or 4. */
ALWAYS __m512 add_features(__m512 sum, const SnlsPairs *p, int i, ptrdiff_t f, __mmask16 there, const int taps, const int prod)
{
    const __m512 q = _mm512_maskz_loadu_ps(there, p->query[i] + f);
    __m512 k[4];
UNROLLED(4)
    for (int t = 0; t < taps; t++) k[t] = _mm512_maskz_loadu_ps(there, p->tap[t][i] + f);
    if (taps > 1) {
        const __m512 fx = _mm512_set1_ps(p->fraction_x[i]), fy = _mm512_set1_ps(p->fraction_y[i]);
        k[0] = weigh(weigh(k[0], k[1], fx), weigh(k[2], k[3], fx), fy);
    }
    const __m512 d = prod ? q : _mm512_sub_ps(q, k[0]);
    return _mm512_fmadd_ps(d, prod ? k[0] : d, sum);
}

/* Products or squared distances of the pairs over n features. */
ALWAYS __m512 pair_sums(const SnlsPairs *p, ptrdiff_t n, const int taps, const int prod)
{
    __m512 sum[16];
    for (int i = 0; i < 16; i++) {
        __m512 s = _mm512_setzero_ps();
        ptrdiff_t f = 0;
        for (; f + 16 <= n; f += 16) s = add_features(s, p, i, f, 0xffff, taps, prod);
        sum[i] = f < n ? add_features(s, p, i, f, zmm_first(n - f), taps, prod) : s;
    }
    return zmm_sums(sum);
}

#endif
