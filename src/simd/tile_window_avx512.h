/* tile_window_avx512.h: windows and results of a run of sixteen queries. */
#include "simd/lanes_avx512.h"
#include "simd/tile.h"

typedef struct Flow { __m512 y, x; } Flow;

ALWAYS Flow load_flow(const SnlsTileWindows *in)
{
    Flow f = {_mm512_setzero_ps(), _mm512_setzero_ps()};
    if (!in->flow) return f;
    if (in->active == 16 && in->flow_step == 2 && in->flow_y == 1) { /* as a field of (x, y) lies in memory */
        const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
        const __m512 a = _mm512_loadu_ps(in->flow), b = _mm512_loadu_ps(in->flow + 16);
        f.x = _mm512_permutex2var_ps(a, even, b);
        f.y = _mm512_permutex2var_ps(a, _mm512_add_epi32(even, _mm512_set1_epi32(1)), b);
    } else {
        float y[16] = {0}, x[16] = {0};
        for (int l = 0; l < in->active; l++) {
            y[l] = in->flow[l * in->flow_step + in->flow_y];
            x[l] = in->flow[l * in->flow_step];
        }
        f.y = _mm512_loadu_ps(y);
        f.x = _mm512_loadu_ps(x);
    }
    if (!in->all.nearest) return f;
    f.y = _mm512_roundscale_ps(f.y, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    f.x = _mm512_roundscale_ps(f.x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    return f;
}

/* Eight lanes of an axis, of all items; those inside the frame. */
ALWAYS __mmask8 half_windows(const SnlsTileWindows *in, __m512d query, __m256 flow, double end, const SnlsTileAxis *out, int lane)
{
    const Half h = half_axis(&in->all, query, flow, end);
    const __m256i whole = _mm512_cvttpd_epi32(query);
    _mm512_storeu_pd(out->centre + lane, h.centre);
    _mm256_storeu_si256((__m256i *)(out->origin + lane), _mm512_cvttpd_epi32(h.origin));
    for (ptrdiff_t a = 0; a < in->items; a++) {
        const __m256i low = half_floor(half_place(&h, in->all.step, (double)a), h.in, out->fraction + a * LANES + lane);
        _mm256_storeu_si256((__m256i *)(out->index + a * LANES + lane), _mm256_sub_epi32(low, whole));
    }
    return h.in;
}

ALWAYS uint32_t run_windows(const SnlsTileWindows *in, __m512d first, __m512d second, __m512 flow, double end, const SnlsTileAxis *out)
{
    const uint32_t a = half_windows(in, first, _mm512_castps512_ps256(flow), end, out, 0);
    return a | (uint32_t)half_windows(in, second, _mm512_extractf32x8_ps(flow, 1), end, out, 8) << 8;
}

static uint32_t windows(const SnlsTileWindows *in, SnlsTileAxis *y, SnlsTileAxis *x)
{
    const Flow flow = load_flow(in);
    const __m512d lane = _mm512_setr_pd(0, 1, 2, 3, 4, 5, 6, 7), down = _mm512_set1_pd(in->y), apart = _mm512_set1_pd(in->apart);
    const __m512d across = _mm512_add_pd(_mm512_set1_pd(in->x), _mm512_mul_pd(apart, lane));
    const uint32_t plain = run_windows(in, down, down, flow.y, in->all.end_y, y);
    return plain & run_windows(in, across, _mm512_add_pd(across, _mm512_mul_pd(apart, _mm512_set1_pd(8))), flow.x, in->all.end_x, x) & zmm_first(in->active);
}

/* Smallest and largest at once: the largest is the smallest of the complements. */
ALWAYS void least_and_most(__m512i v, int *least, int *most)
{
    const __m512i turned = _mm512_xor_si512(v, _mm512_set1_epi32(-1));
    __m512i m = _mm512_min_epi32(_mm512_shuffle_i64x2(v, turned, 0x44), _mm512_shuffle_i64x2(v, turned, 0xee)); /* halves of one, halves of the other */
    m = _mm512_min_epi32(m, _mm512_shuffle_i64x2(m, m, 0xb1));
    m = _mm512_min_epi32(m, _mm512_shuffle_epi32(m, 0x4e));
    m = _mm512_min_epi32(m, _mm512_shuffle_epi32(m, 0xb1));
    *least = _mm_cvtsi128_si32(_mm512_castsi512_si128(m));
    *most = ~_mm_cvtsi128_si32(_mm512_extracti32x4_epi32(m, 2));
}

static int ranges(const SnlsTileAxis *axis, ptrdiff_t items, uint32_t together, int *low, int *high)
{
    const __mmask16 here = (__mmask16)together;
    const __m512i like = _mm512_set1_epi32(__builtin_ctz(together));
    __mmask16 between = 0;
    for (ptrdiff_t a = 0; a < items; a++) {
        __m512i index = _mm512_loadu_si512(axis->index + a * LANES);
        index = _mm512_mask_permutexvar_epi32(index, (__mmask16)~here, like, index);
        const __m512 fraction = _mm512_maskz_loadu_ps(here, axis->fraction + a * LANES);
        _mm512_storeu_si512(axis->index + a * LANES, index);
        _mm512_storeu_ps(axis->fraction + a * LANES, fraction);
        between |= _mm512_cmp_ps_mask(fraction, _mm512_setzero_ps(), _CMP_NEQ_UQ);
        least_and_most(index, &low[a], &high[a]);
    }
    return between != 0;
}

static void write_lists(const SnlsListOutput *o, const float *top, const float *number, ptrdiff_t k, ptrdiff_t have, const uint32_t *cell)
{
    const __m512i none = _mm512_set1_epi32((int)SNLS_LIST_NONE);
    for (ptrdiff_t i = 0; i < k; i += LIST_PART) {
        const ptrdiff_t n = k - i < LIST_PART ? k - i : LIST_PART;
        Neighbour near[LIST_PART];
        for (ptrdiff_t j = 0; j < n; j++) {
            const __m512 id = i + j < have ? _mm512_loadu_ps(number + (i + j) * LANES) : _mm512_set1_ps(SNLS_TILE_NONE);
            const __mmask16 there = _mm512_cmp_ps_mask(id, _mm512_set1_ps(SNLS_TILE_NONE), _CMP_LT_OQ);
            const __m512 score = i + j < have ? _mm512_loadu_ps(top + (i + j) * LANES) : _mm512_setzero_ps();
            near[j] = neighbour_of(o, i + j, score, _mm512_mask_i32gather_epi32(none, there, _mm512_cvttps_epi32(id), cell, 4));
        }
        for (ptrdiff_t j = n; j < LIST_PART; j++) near[j] = near[0]; /* not written, but turned over with the others */
        write_part(o, i, n, near);
    }
}
