/* zmm.h: sixteen vectors of sixteen turned over, or summed up into one. AVX-512. */
#ifndef SNLS_ZMM_H
#define SNLS_ZMM_H

#include "simd/unroll.h"
#include <immintrin.h>
#include <stddef.h>

static inline __attribute__((always_inline)) __m512 zmm_join(__m512 a, __m512 b, const int most) { return most ? _mm512_max_ps(a, b) : _mm512_add_ps(a, b); }

/* Lane i of the result is the sum of v[i], or the largest of it. All are joined in the same order. */
static inline __attribute__((always_inline)) __m512 zmm_across(const __m512 v[16], const int most)
{
    __m512 two[8], four[4], eight[2];
UNROLLED(8)
    for (int i = 0; i < 8; i++) two[i] = zmm_join(_mm512_unpacklo_ps(v[2 * i], v[2 * i + 1]), _mm512_unpackhi_ps(v[2 * i], v[2 * i + 1]), most);
UNROLLED(4)
    for (int i = 0; i < 4; i++)
        four[i] = zmm_join(_mm512_shuffle_ps(two[2 * i], two[2 * i + 1], 0x44), _mm512_shuffle_ps(two[2 * i], two[2 * i + 1], 0xee), most);
    for (int i = 0; i < 2; i++)
        eight[i] = zmm_join(_mm512_shuffle_f32x4(four[2 * i], four[2 * i + 1], 0x88), _mm512_shuffle_f32x4(four[2 * i], four[2 * i + 1], 0xdd), most);
    return zmm_join(_mm512_shuffle_f32x4(eight[0], eight[1], 0x88), _mm512_shuffle_f32x4(eight[0], eight[1], 0xdd), most);
}

static inline __attribute__((always_inline)) __m512 zmm_sums(const __m512 v[16]) { return zmm_across(v, 0); }
static inline __attribute__((always_inline)) __m512 zmm_most(const __m512 v[16]) { return zmm_across(v, 1); } /* none is NaN */

/* The largest of sixteen, NaN if one is. */
static inline __attribute__((always_inline)) float zmm_largest(__m512 v) { return _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q) ? __builtin_nanf("") : _mm512_reduce_max_ps(v); }

/* Word j of v[i] becomes word i of v[j]. */
static inline __attribute__((always_inline)) void zmm_turn(__m512i v[16])
{
    __m512i t[16];
UNROLLED(8)
    for (int i = 0; i < 16; i += 2) {
        t[i] = _mm512_unpacklo_epi32(v[i], v[i + 1]);
        t[i + 1] = _mm512_unpackhi_epi32(v[i], v[i + 1]);
    }
UNROLLED(4)
    for (int i = 0; i < 16; i += 4) {
        v[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
        v[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
        v[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
        v[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
    }
UNROLLED(4)
    for (int i = 0; i < 4; i++) { /* v[4*g + i]: words i, 4+i, 8+i, 12+i of pixels 4g .. 4g+3 */
        t[i] = _mm512_shuffle_i32x4(v[i], v[4 + i], 0x88);
        t[4 + i] = _mm512_shuffle_i32x4(v[i], v[4 + i], 0xdd);
        t[8 + i] = _mm512_shuffle_i32x4(v[8 + i], v[12 + i], 0x88);
        t[12 + i] = _mm512_shuffle_i32x4(v[8 + i], v[12 + i], 0xdd);
    }
UNROLLED(4)
    for (int i = 0; i < 4; i++) {
        v[i] = _mm512_shuffle_i32x4(t[i], t[8 + i], 0x88);
        v[8 + i] = _mm512_shuffle_i32x4(t[i], t[8 + i], 0xdd);
        v[4 + i] = _mm512_shuffle_i32x4(t[4 + i], t[12 + i], 0x88);
        v[12 + i] = _mm512_shuffle_i32x4(t[4 + i], t[12 + i], 0xdd);
    }
}

/* The first n of sixteen lanes. */
static inline __mmask16 zmm_first(ptrdiff_t n) { return n >= 16 ? 0xffff : n <= 0 ? 0 : (__mmask16)((1u << n) - 1); }

#endif
