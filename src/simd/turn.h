/* turn.h: an 8 by 8 block of floats turned over, with 256-bit registers. */
#ifndef SNLS_TURN_H
#define SNLS_TURN_H

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

static inline void turn_8_by_8(float *out, ptrdiff_t pitch, const float *in, ptrdiff_t step)
{
    __m256 row[8];
    for (int i = 0; i < 8; i++) row[i] = _mm256_loadu_ps(in + i * step);
    turn_8(row);
    for (int i = 0; i < 8; i++) _mm256_storeu_ps(out + i * pitch, row[i]);
}

#endif
