/* place_avx512.h: `place` of dsp.h, eight neighbours at a time, in double like the plain one, or sixteen in float where that
 * gives the same bits. Included by dsp_avx512.c. Registers of 64 bytes have two ports; what is not needed for every neighbour
 * is behind a branch. */

typedef struct Place8 {
    __mmask8 inside, below, beside; /* lanes that count; with a row below, a column beside */
} Place8;

/* A site as it is used, read once: steps in bytes. */
typedef struct Site8 {
    __m512d t, y, x, last_t, y0, y1, x0, x1, step_t, step_y, step_x;
    __m512i base;
    double fold_t, fold_y, fold_x;
    int nearest, slopes;
} Site8;

ALWAYS Site8 site_read(const SnlsSite *s)
{
    const double bytes = sizeof(float);
    return (Site8){ _mm512_set1_pd(s->t), _mm512_set1_pd(s->y), _mm512_set1_pd(s->x), _mm512_set1_pd(0.5 * s->fold_t), _mm512_set1_pd(s->y0), _mm512_set1_pd(s->y1),
                    _mm512_set1_pd(s->x0), _mm512_set1_pd(s->x1), _mm512_set1_pd(bytes * (double)s->step_t), _mm512_set1_pd(bytes * (double)s->step_y),
                    _mm512_set1_pd(bytes * (double)s->step_x), _mm512_set1_epi64((long long)(intptr_t)s->base), s->fold_t, s->fold_y, s->fold_x, s->nearest, s->slopes };
}

/* Three times eight floats, or as many as there are, to three registers of doubles. */
ALWAYS void read_offsets(__m512d d[3], const float *offset, ptrdiff_t count, const int full)
{
    const __mmask16 first = full ? 0xffff : mask_of(3 * count), second = full ? 0xff : mask_of(3 * count - 16);
    const __m512 a = _mm512_maskz_loadu_ps(first, offset), b = _mm512_castps256_ps512(_mm256_maskz_loadu_ps((__mmask8)second, offset + 16));
    const __m512i at = _mm512_setr_epi32(0, 3, 6, 9, 12, 15, 18, 21, 0, 0, 0, 0, 0, 0, 0, 0);
    for (int i = 0; i < 3; i++)
        d[i] = _mm512_cvtps_pd(_mm512_castps512_ps256(_mm512_permutex2var_ps(a, _mm512_add_epi32(at, _mm512_set1_epi32(i)), b)));
}

ALWAYS __m256 read_eight(const float *from, __mmask8 lanes, const int full) { return full ? _mm256_loadu_ps(from) : _mm256_maskz_loadu_ps(lanes, from); }

ALWAYS void write_weights(const SnlsPlaces *to, ptrdiff_t i, __m512d fy, __m512d fx, const float *weight, __mmask8 lanes, const int full)
{
    const __m512d one = _mm512_set1_pd(1);
    __m256 w[4] = { _mm512_cvtpd_ps(_mm512_sub_pd(one, fy)), _mm512_cvtpd_ps(fy), _mm512_cvtpd_ps(_mm512_sub_pd(one, fx)), _mm512_cvtpd_ps(fx) };
    if (weight) {
        const __m256 by = read_eight(weight + i, lanes, full), upper = _mm256_mul_ps(w[0], by), lower = _mm256_mul_ps(w[1], by), left = w[2], right = w[3];
        w[0] = _mm256_mul_ps(upper, left), w[1] = _mm256_mul_ps(upper, right);
        w[2] = _mm256_mul_ps(lower, left), w[3] = _mm256_mul_ps(lower, right);
    }
    for (int m = 0; m < 4; m++) _mm256_storeu_ps(to->w[m] + i, w[m]);
}

#define DOWN (_MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC) /* of what is not below 0; rounded to minus infinity, 1 - 1 would be -0 */
#define INFINITE 0x18 /* of either sign */
#define BELOW (_MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC)
#define NEAREST (_MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)

ALWAYS __m512d fold_once(__m512d z, double fold)
{
    z = _mm512_abs_pd(z);
    return _mm512_min_pd(z, _mm512_sub_pd(_mm512_set1_pd(fold), z));
}

ALWAYS __mmask8 within(__mmask8 lanes, __m512d z, __m512d first, __m512d end)
{
    return _mm512_mask_cmp_pd_mask(_mm512_mask_cmp_pd_mask(lanes, z, first, _CMP_GE_OQ), z, end, _CMP_LT_OQ);
}

ALWAYS __mmask8 between(__mmask8 lanes, __m512d z, __m512d last)
{
    return _mm512_mask_cmp_pd_mask(_mm512_mask_cmp_pd_mask(lanes, z, _mm512_setzero_pd(), _CMP_GE_OQ), z, last, _CMP_LE_OQ);
}

ALWAYS Place8 place_eight(const SnlsPlaces *to, ptrdiff_t i, const float *offset, const float *column, const float *weight,
                          ptrdiff_t count, const Site8 *s, const int full)
{
    const __mmask8 lanes = full ? 0xff : (__mmask8)mask_of(count);
    const __m512d zero = _mm512_setzero_pd();
    __m512d d[3];
    read_offsets(d, offset + 3 * i, count, full);
    for (int m = 1; s->nearest && m < 3; m++) d[m] = _mm512_roundscale_pd(d[m], NEAREST);
    __m512d t = _mm512_add_pd(d[0], s->t), y = _mm512_add_pd(d[1], s->y);
    __m512d x = _mm512_add_pd(d[2], _mm512_add_pd(s->x, _mm512_cvtps_pd(read_eight(column + i, lanes, full))));
    __mmask8 in = within(within(lanes, y, s->y0, s->y1), x, s->x0, s->x1), timely = between(lanes, t, s->last_t);
    if (timely != lanes) timely = between(lanes, t = fold_once(t, s->fold_t), s->last_t);
    if (in != lanes && !s->slopes) { /* those inside stay what they are */
        y = fold_once(y, s->fold_y), x = fold_once(x, s->fold_x);
        in = within(within(lanes, y, s->y0, s->y1), x, s->x0, s->x1);
    }
    in = _mm512_mask_cmp_pd_mask(in & timely, _mm512_reduce_pd(t, DOWN), zero, _CMP_EQ_OQ);
    if (weight) in &= (__mmask8)~_mm256_fpclass_ps_mask(read_eight(weight + i, lanes, full), INFINITE);
    const __m512d fy = _mm512_maskz_reduce_pd(in, y, DOWN), fx = _mm512_maskz_reduce_pd(in, x, DOWN);
    const __m512d row = _mm512_sub_pd(y, fy), beside = _mm512_sub_pd(x, fx); /* what is not inside is not used */
    const __m512d bytes = _mm512_fmadd_pd(t, s->step_t, _mm512_fmadd_pd(row, s->step_y, _mm512_mul_pd(beside, s->step_x)));
    _mm512_storeu_si512(to->at + i, _mm512_add_epi64(_mm512_cvttpd_epi64(bytes), s->base)); /* whole numbers, exact */
    if (to->row) _mm512_storeu_si512(to->row + i, _mm512_cvttpd_epi64(row));
    write_weights(to, i, fy, fx, weight, lanes, full);
    return (Place8){ in, _mm512_cmp_pd_mask(fy, zero, _CMP_NEQ_OQ), _mm512_cmp_pd_mask(fx, zero, _CMP_NEQ_OQ) };
}

/* ---- sixteen ----
 * Rows and columns are whole numbers, fractions those of the offsets, and all of it is exact in float: of fractions nearer
 * to 0 or 1 than NEAR, the sum in double (frames are smaller than 2^15) would have lost bits that the offset has. */

#define NEAR 0x1p-14f

typedef struct Site16 {
    __m512i t, y, x, frames, fold, top, rows, left, columns, width, height, step, base; /* pixels inside: [top, top + rows), ... */
    int nearest, usable;
} Site16;

ALWAYS Site16 site_sixteen(const SnlsSite *s)
{
    const double top = ceil(s->y0), left = ceil(s->x0), rows = floor(s->y1) - top, columns = floor(s->x1) - left; /* without the last, which has none beside it */
    const int usable = s->lines > 0 && s->fold_y < 0x1p16 && s->fold_x < 0x1p16 && s->step_x > 0 && s->step_x < 1 << 29 && rows >= 1 && columns >= 1;
    if (!usable) return (Site16){ .usable = 0 };
    return (Site16){ _mm512_set1_epi32((int)s->t), _mm512_set1_epi32((int)s->y), _mm512_set1_epi32((int)s->x), _mm512_set1_epi32((int)(s->fold_t / 2) + 1), _mm512_set1_epi32((int)s->fold_t),
                     _mm512_set1_epi32((int)top), _mm512_set1_epi32((int)rows), _mm512_set1_epi32((int)left), _mm512_set1_epi32((int)columns), _mm512_set1_epi32((int)s->columns),
                     _mm512_set1_epi32((int)s->lines), _mm512_set1_epi64(4 * s->step_x), _mm512_set1_epi64((long long)(intptr_t)s->base), s->nearest, 1 };
}

ALWAYS void read_sixteen(__m512 d[3], const float *offset)
{
    const __m512 a = _mm512_loadu_ps(offset), b = _mm512_loadu_ps(offset + 16), c = _mm512_loadu_ps(offset + 32);
    const __m512i at = _mm512_setr_epi32(0, 3, 6, 9, 12, 15, 18, 21, 24, 27, 30, 33, 36, 39, 42, 45);
    for (int i = 0; i < 3; i++) {
        const __m512i from = _mm512_add_epi32(at, _mm512_set1_epi32(i));
        d[i] = _mm512_mask_permutexvar_ps(_mm512_permutex2var_ps(a, from, b), _mm512_cmpge_epi32_mask(from, _mm512_set1_epi32(32)), from, c);
    }
}

/* first <= i < first + count, by one comparison of what is not below 0 any more */
ALWAYS __mmask16 within_sixteen(__mmask16 lanes, __m512i i, __m512i first, __m512i count) { return _mm512_mask_cmplt_epu32_mask(lanes, _mm512_sub_epi32(i, first), count); }

/* Lanes with a fraction, and whether that is NEAR in any; f + g = 1. */
ALWAYS __mmask16 fractions(__m512 f, __m512 g, __mmask16 *near)
{
    const __mmask16 some = _mm512_cmp_ps_mask(f, _mm512_setzero_ps(), _CMP_NEQ_OQ);
    *near |= _mm512_mask_cmp_ps_mask(some, _mm512_min_ps(f, g), _mm512_set1_ps(NEAR), _CMP_LT_OQ);
    return some;
}

ALWAYS void write_sixteen(const SnlsPlaces *to, ptrdiff_t i, __m512i pixel, __m512i row, const Site16 *s)
{
    const __m512i low = _mm512_cvtepu32_epi64(_mm512_castsi512_si256(pixel)), high = _mm512_cvtepu32_epi64(_mm512_extracti64x4_epi64(pixel, 1));
    _mm512_storeu_si512(to->at + i, _mm512_add_epi64(_mm512_mul_epu32(low, s->step), s->base));
    _mm512_storeu_si512(to->at + i + 8, _mm512_add_epi64(_mm512_mul_epu32(high, s->step), s->base));
    if (!to->row) return;
    _mm512_storeu_si512(to->row + i, _mm512_cvtepu32_epi64(_mm512_castsi512_si256(row)));
    _mm512_storeu_si512(to->row + i + 8, _mm512_cvtepu32_epi64(_mm512_extracti64x4_epi64(row, 1)));
}

/* The shapes of the sixteen, one for all or -1; -2: one of them needs more, nothing was written that counts. */
ALWAYS int place_sixteen(const SnlsPlaces *to, unsigned char *shape, ptrdiff_t i, const float *offset, const float *column, const float *weight, const Site16 *s)
{
    const __m512 one = _mm512_set1_ps(1), by = weight ? _mm512_loadu_ps(weight + i) : one;
    __m512 d[3];
    for (int m = 0; m < 3; m++) _mm_prefetch((const char *)(offset + 3 * i + 16 * m) + 1920, _MM_HINT_T0);
    if (weight) _mm_prefetch((const char *)(weight + i) + 640, _MM_HINT_T0);
    read_sixteen(d, offset + 3 * i);
    for (int m = 1; s->nearest && m < 3; m++) d[m] = _mm512_roundscale_ps(d[m], NEAREST);
    const __m512 y = _mm512_roundscale_ps(d[1], BELOW), x = _mm512_roundscale_ps(d[2], BELOW);
    const __m512i dt = _mm512_cvttps_epi32(d[0]), unfolded = _mm512_abs_epi32(_mm512_add_epi32(dt, s->t)), t = _mm512_min_epi32(unfolded, _mm512_sub_epi32(s->fold, unfolded)), row = _mm512_add_epi32(_mm512_cvttps_epi32(y), s->y);
    const __m512i at = _mm512_add_epi32(_mm512_cvttps_epi32(x), _mm512_add_epi32(s->x, _mm512_cvttps_epi32(_mm512_loadu_ps(column + i))));
    __mmask16 in = _mm512_mask_cmp_ps_mask(within_sixteen(0xffff, t, _mm512_setzero_si512(), s->frames), _mm512_cvtepi32_ps(dt), d[0], _CMP_EQ_OQ), near = weight ? _mm512_fpclass_ps_mask(by, INFINITE) : 0;
    in = within_sixteen(within_sixteen(in, row, s->top, s->rows), at, s->left, s->columns);
    const __m512 fy = _mm512_sub_ps(d[1], y), fx = _mm512_sub_ps(d[2], x), gy = _mm512_sub_ps(_mm512_add_ps(y, one), d[1]), gx = _mm512_sub_ps(_mm512_add_ps(x, one), d[2]);
    const unsigned below = fractions(fy, gy, &near), beside = fractions(fx, gx, &near);
    if (in != 0xffff || near) return -2;
    write_sixteen(to, i, _mm512_add_epi32(_mm512_mullo_epi32(_mm512_add_epi32(_mm512_mullo_epi32(t, s->height), row), s->width), at), row, s);
    const __m512 upper = _mm512_mul_ps(gy, by), lower = _mm512_mul_ps(fy, by);
    _mm512_storeu_ps(to->w[0] + i, weight ? _mm512_mul_ps(upper, gx) : gy);
    _mm512_storeu_ps(to->w[1] + i, weight ? _mm512_mul_ps(upper, fx) : fy);
    _mm512_storeu_ps(to->w[2] + i, weight ? _mm512_mul_ps(lower, gx) : gx);
    _mm512_storeu_ps(to->w[3] + i, weight ? _mm512_mul_ps(lower, fx) : fx);
    _mm_storeu_si128((__m128i *)(void *)(shape + i), _mm_or_si128(_mm_maskz_mov_epi8((__mmask16)beside, _mm_set1_epi8(1)), _mm_maskz_mov_epi8((__mmask16)below, _mm_set1_epi8(2))));
    return (beside == 0 || beside == 0xffff) && (below == 0 || below == 0xffff) ? (int)(below & 2) + (int)(beside & 1) : -1;
}

/* Bit 0: a column beside, bit 1: a row below, 4: not inside. */
ALWAYS void write_shapes(unsigned char *shape, const Place8 *p)
{
    const __m128i one = _mm_set1_epi8(1), two = _mm_set1_epi8(2), four = _mm_set1_epi8(4);
    const __m128i v = _mm_or_si128(_mm_maskz_mov_epi8(p->beside, one), _mm_maskz_mov_epi8(p->below, two));
    _mm_storel_epi64((__m128i *)(void *)shape, _mm_mask_mov_epi8(v, (__mmask16)(p->inside ^ 0xff), four));
}

/* The shape of all eight, or -1. */
ALWAYS int one_shape(const Place8 *p)
{
    const unsigned beside = p->beside, below = p->below;
    if (p->inside == 0) return 4;
    return p->inside == 0xff && (beside == 0 || beside == 0xff) && (below == 0 || below == 0xff) ? (int)(below & 2) + (int)(beside & 1) : -1;
}

ALWAYS int place_all(const SnlsPlaces *to, unsigned char *shape, const float *offset, const float *x, const float *weight, ptrdiff_t count,
                     const SnlsSite *site)
{
    const Site8 s = site_read(site);
    const SnlsPlaces places = *to; /* lest what is written be thought to change it */
    ptrdiff_t i = 0;
    int all = count > 0 ? -2 : -1; /* -2: any yet */
    const Site16 sixteen = site_sixteen(site);
    while (i + 8 <= count) {
        if (i + 16 <= count && sixteen.usable) {
            const int one = place_sixteen(&places, shape, i, offset, x, weight, &sixteen);
            if (one != -2) {
                all = all == -2 || all == one ? one : -1;
                i += 16;
                continue;
            }
        }
        const Place8 p = place_eight(&places, i, offset, x, weight, 8, &s, 1);
        const int one = one_shape(&p);
        if (one < 0) write_shapes(shape + i, &p);
        else _mm_storel_epi64((__m128i *)(void *)(shape + i), _mm_set1_epi8((char)one));
        all = all == -2 || all == one ? one : -1;
        i += 8;
    }
    if (i == count) return all;
    const Place8 p = place_eight(&places, i, offset, x, weight, count - i, &s, 0);
    write_shapes(shape + i, &p);
    for (; i < count; i++) all = all == -2 || all == shape[i] ? shape[i] : -1;
    return all;
}

static int place_avx512(const SnlsPlaces *to, unsigned char *shape, const float *offset, const float *x, const float *weight, ptrdiff_t count,
                        const SnlsSite *site)
{
    return weight ? place_all(to, shape, offset, x, weight, count, site) : place_all(to, shape, offset, x, NULL, count, site);
}
