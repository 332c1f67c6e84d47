/* place_avx512.h: `place` of dsp.h, eight neighbours at a time, in double like the plain one. Included by dsp_avx512.c. */

typedef struct Place8 {
    __mmask8 inside, below, beside; /* lanes that count; with a row below, a column beside */
} Place8;

/* Three times eight floats to three registers of doubles. */
ALWAYS void read_offsets(__m512d d[3], const float *offset, __mmask8 lanes, ptrdiff_t count)
{
    const __m512 a = _mm512_maskz_loadu_ps(mask_of(3 * count), offset), b = count > 5 ? _mm512_maskz_loadu_ps(mask_of(3 * count - 16), offset + 16) : a;
    const __m512i at = _mm512_setr_epi32(0, 3, 6, 9, 12, 15, 18, 21, 0, 0, 0, 0, 0, 0, 0, 0);
    for (int i = 0; i < 3; i++) {
        const __m512i pick = _mm512_add_epi32(at, _mm512_set1_epi32(i));
        d[i] = _mm512_maskz_cvtps_pd(lanes, _mm512_castps512_ps256(_mm512_permutex2var_ps(a, pick, b)));
    }
}

ALWAYS void write_weights(const SnlsPlaces *to, ptrdiff_t i, __m512d fy, __m512d fx, const float *weight, __mmask8 lanes)
{
    const __m512d one = _mm512_set1_pd(1);
    __m512d w[4] = { _mm512_sub_pd(one, fy), fy, _mm512_sub_pd(one, fx), fx };
    if (weight) {
        const __m512d by = _mm512_cvtps_pd(_mm256_maskz_loadu_ps(lanes, weight + i));
        const __m512d upper = _mm512_mul_pd(w[0], by), lower = _mm512_mul_pd(w[1], by), left = w[2];
        w[0] = _mm512_mul_pd(upper, left), w[1] = _mm512_mul_pd(upper, fx);
        w[2] = _mm512_mul_pd(lower, left), w[3] = _mm512_mul_pd(lower, fx);
    }
    for (int m = 0; m < 4; m++) _mm256_storeu_ps(to->w[m] + i, _mm512_cvtpd_ps(w[m]));
}

#define DOWN (_MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC)

ALWAYS Place8 place_eight(const SnlsPlaces *to, ptrdiff_t i, const float *offset, const double *column, const float *weight,
                          ptrdiff_t count, const SnlsSite *s)
{
    const __mmask8 lanes = (__mmask8)mask_of(count > 8 ? 8 : count);
    __m512d d[3];
    read_offsets(d, offset + 3 * i, lanes, count > 8 ? 8 : count);
    for (int m = 1; s->nearest && m < 3; m++) d[m] = _mm512_roundscale_pd(d[m], _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    const __m512d t = _mm512_add_pd(d[0], _mm512_set1_pd(s->t)), y = _mm512_add_pd(d[1], _mm512_set1_pd(s->y));
    const __m512d x = _mm512_add_pd(d[2], _mm512_maskz_loadu_pd(lanes, column + i));
    __mmask8 in = _mm512_mask_cmp_pd_mask(lanes, t, _mm512_setzero_pd(), _CMP_GE_OQ);
    in = _mm512_mask_cmp_pd_mask(in, t, _mm512_set1_pd(s->last), _CMP_LE_OQ);
    in = _mm512_mask_cmp_pd_mask(in, y, _mm512_set1_pd(s->y0), _CMP_GE_OQ);
    in = _mm512_mask_cmp_pd_mask(in, y, _mm512_set1_pd(s->y1), _CMP_LT_OQ);
    in = _mm512_mask_cmp_pd_mask(in, x, _mm512_set1_pd(s->x0), _CMP_GE_OQ);
    in = _mm512_mask_cmp_pd_mask(in, x, _mm512_set1_pd(s->x1), _CMP_LT_OQ);
    const __m512d row = _mm512_maskz_roundscale_pd(in, y, DOWN), beside = _mm512_maskz_roundscale_pd(in, x, DOWN);
    in = _mm512_mask_cmp_pd_mask(in, _mm512_roundscale_pd(t, DOWN), t, _CMP_EQ_OQ);
    const __m512d fy = _mm512_maskz_sub_pd(in, y, row), fx = _mm512_maskz_sub_pd(in, x, beside);
    const __m512d floats = _mm512_fmadd_pd(_mm512_maskz_mov_pd(in, t), _mm512_set1_pd((double)s->step_t),
                                           _mm512_fmadd_pd(row, _mm512_set1_pd((double)s->step_y), _mm512_mul_pd(beside, _mm512_set1_pd((double)s->step_x))));
    const __m512i bytes = _mm512_slli_epi64(_mm512_cvttpd_epi64(floats), 2); /* whole numbers, exact */
    _mm512_storeu_si512(to->at + i, _mm512_add_epi64(bytes, _mm512_set1_epi64((long long)(intptr_t)s->base)));
    write_weights(to, i, fy, fx, weight, lanes);
    return (Place8){ in, _mm512_cmp_pd_mask(fy, _mm512_setzero_pd(), _CMP_NEQ_OQ), _mm512_cmp_pd_mask(fx, _mm512_setzero_pd(), _CMP_NEQ_OQ) };
}

static int place_avx512(const SnlsPlaces *to, unsigned char *shape, const float *offset, const double *x, const float *weight, ptrdiff_t count,
                        const SnlsSite *site)
{
    unsigned some = 0, every = 7; /* bits of shapes that some, that all have */
    for (ptrdiff_t i = 0; i < count; i += 8) {
        const Place8 p = place_eight(to, i, offset, x, weight, count - i, site);
        const __m128i one = _mm_set1_epi8(1), two = _mm_set1_epi8(2), four = _mm_set1_epi8(4);
        __m128i v = _mm_or_si128(_mm_maskz_mov_epi8(p.beside, one), _mm_maskz_mov_epi8(p.below, two));
        v = _mm_mask_mov_epi8(v, (__mmask16)(p.inside ^ 0xff), four);
        _mm_storel_epi64((__m128i *)(void *)(shape + i), v);
        const unsigned lanes = mask_of(count - i > 8 ? 8 : count - i);
        const unsigned have[3] = { p.beside & lanes, p.below & lanes, ~p.inside & lanes };
        for (int m = 0; m < 3; m++) {
            some |= (unsigned)(have[m] != 0) << m;
            every &= ~((unsigned)(have[m] != lanes) << m);
        }
    }
    return count > 0 && some == every ? (int)some : -1;
}
