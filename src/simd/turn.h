/* turn.h: blocks of floats in memory turned over: 8 by 8 with 256-bit registers, 16 by 16 or fewer columns with AVX-512. */
#ifndef SNLS_TURN_H
#define SNLS_TURN_H

#include "simd/unroll.h"
#include <immintrin.h>
#include <stddef.h>

/* Row i becomes column i. */
static inline void turn_8(__m256 row[8])
{
    __m256 pair[8], four[8];
    for (int i = 0; i < 8; i += 2) { /* features 0 1 4 5 and 2 3 6 7 of two pixels */
        pair[i] = _mm256_unpacklo_ps(row[i], row[i + 1]);
        pair[i + 1] = _mm256_unpackhi_ps(row[i], row[i + 1]);
    }
    for (int h = 0; h < 8; h += 4) /* of four pixels */
        for (int i = 0; i < 2; i++) {
            four[h + 2 * i] = _mm256_shuffle_ps(pair[h + i], pair[h + i + 2], 0x44);
            four[h + 2 * i + 1] = _mm256_shuffle_ps(pair[h + i], pair[h + i + 2], 0xee);
        }
    for (int i = 0; i < 4; i++) { /* of eight */
        row[i] = _mm256_permute2f128_ps(four[i], four[i + 4], 0x20);
        row[i + 4] = _mm256_permute2f128_ps(four[i], four[i + 4], 0x31);
    }
}

/* Eight by eight from memory to memory; *most is raised to the largest magnitude, lane by lane. */
static inline __attribute__((always_inline)) void turn_8_most(float *out, ptrdiff_t pitch, const float *in, ptrdiff_t step, __m256 *most)
{
    const __m256 sign = _mm256_set1_ps(-0.0f);
    __m256 row[8];
    for (int i = 0; i < 8; i++) row[i] = _mm256_loadu_ps(in + i * step);
    for (int i = 0; i < 8; i++) *most = _mm256_max_ps(_mm256_andnot_ps(sign, row[i]), *most); /* a NaN leaves *most as it is */
    turn_8(row);
    for (int i = 0; i < 8; i++) _mm256_storeu_ps(out + i * pitch, row[i]);
}

#ifdef __AVX512F__
/* Four neighbouring floats of sixteen rows, `step` floats apart: rows i, i+4, i+8, i+12 are put together by loads, so that few shuffles are left. */
static inline __attribute__((always_inline)) void load_fours(__m512 four[4], const float *in, ptrdiff_t step)
{
UNROLLED(4)
    for (int i = 0; i < 4; i++) {
        const float *at = in + i * step;
        __m512 x = _mm512_insertf32x4(_mm512_castps128_ps512(_mm_loadu_ps(at)), _mm_loadu_ps(at + 4 * step), 1);
        x = _mm512_insertf32x4(x, _mm_loadu_ps(at + 8 * step), 2);
        four[i] = _mm512_insertf32x4(x, _mm_loadu_ps(at + 12 * step), 3);
    }
}

/* Their columns, the first n of the four, as rows `pitch` floats apart. */
static inline __attribute__((always_inline)) void store_turned(float *out, ptrdiff_t pitch, const __m512 four[4], ptrdiff_t n)
{
    const __m512 a = _mm512_unpacklo_ps(four[0], four[1]), b = _mm512_unpackhi_ps(four[0], four[1]);
    const __m512 c = _mm512_unpacklo_ps(four[2], four[3]), d = _mm512_unpackhi_ps(four[2], four[3]);
    _mm512_storeu_ps(out, _mm512_shuffle_ps(a, c, 0x44));
    if (n > 1) _mm512_storeu_ps(out + pitch, _mm512_shuffle_ps(a, c, 0xee));
    if (n > 2) _mm512_storeu_ps(out + 2 * pitch, _mm512_shuffle_ps(b, d, 0x44));
    if (n > 3) _mm512_storeu_ps(out + 3 * pitch, _mm512_shuffle_ps(b, d, 0xee));
}

/* Sixteen by sixteen, four features at a time. */
static inline __attribute__((always_inline)) void turn_16_most(float *out, ptrdiff_t pitch, const float *in, ptrdiff_t step, __m512 *most)
{
UNROLLED(4)
    for (int g = 0; g < 4; g++, in += 4, out += 4 * pitch) {
        __m512 four[4];
        load_fours(four, in, step);
UNROLLED(4)
        for (int i = 0; i < 4; i++) *most = _mm512_max_ps(_mm512_abs_ps(four[i]), *most);
        store_turned(out, pitch, four, 4);
    }
}
#endif

#endif
