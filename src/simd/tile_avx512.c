/* tile_avx512.c: tile loops, sixteen lanes. */
#if defined(__x86_64__)
#include "simd/turn.h"
#include <immintrin.h>
#include <stdint.h>

#define LANES 16
#define ROWS 5
#define COLUMNS 5
#define PATCH_ROWS 5
#define PATCH_COLUMNS 6
#define PATCH_SUMS 25
#define TILE_INIT snls_tile_init_avx512

typedef __m512 Vec;
typedef __mmask16 Mask;
#define v_load(p) _mm512_loadu_ps(p)
#define v_store(p, x) _mm512_storeu_ps(p, x)
#define v_set(x) _mm512_set1_ps(x)
#define v_zero() _mm512_setzero_ps()
#define v_add(a, b) _mm512_add_ps(a, b)
#define v_sub(a, b) _mm512_sub_ps(a, b)
#define v_mul(a, b) _mm512_mul_ps(a, b)
#define v_fma(a, b, c) _mm512_fmadd_ps(a, b, c)
#define v_min(a, b) _mm512_min_ps(a, b)
#define v_max(a, b) _mm512_max_ps(a, b)
#define m_equal(p, n) _mm512_cmpeq_epi32_mask(_mm512_loadu_si512(p), _mm512_set1_epi32(n))
#define m_nonzero(x) _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_NEQ_OQ)
#define m_number(x) _mm512_cmp_ps_mask(x, x, _CMP_ORD_Q)
#define m_not_below(m, a, b) _mm512_mask_cmp_ps_mask(m, a, b, _CMP_NLE_UQ)
#define m_le(a, b) _mm512_cmp_ps_mask(a, b, _CMP_LE_OQ)
#define m_below(a, b) _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ)
#define m_or(a, b) _kor_mask16(a, b)
#define v_pick(m, no, yes) _mm512_mask_blend_ps(m, no, yes)
#define v_fma_where(m, a, b, c) _mm512_mask3_fmadd_ps(a, b, c, m)
#define m_bits(p, q) ((uint32_t)_mm512_cmp_ps_mask(_mm512_loadu_ps(p), _mm512_loadu_ps(q), _CMP_LE_OQ))
#define SORT_BY_LEAST 0
#define SWAP_WHERE(m, a, b) { const __m512 was = a; a = _mm512_mask_blend_ps(m, a, b); b = _mm512_mask_blend_ps(m, b, was); }
#define v_after(a, b, n) _mm512_castsi512_ps(_mm512_alignr_epi32(_mm512_castps_si512(b), _mm512_castps_si512(a), n))

static inline int append_lanes(uint32_t *out, uint32_t base, uint32_t bits)
{
    const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    _mm512_storeu_si512(out, _mm512_maskz_compress_epi32((__mmask16)bits, _mm512_add_epi32(lane, _mm512_set1_epi32((int)base))));
    return __builtin_popcount(bits);
}
#define append_lanes append_lanes

#define IN_REGISTER(v) __asm__("" : "+v"(v))
#define TURN turn_16_most

static inline void turn_eight(float *out, ptrdiff_t pitch, const float *in, ptrdiff_t step, Vec *most)
{
    __m256 half = _mm512_castps512_ps256(*most);
    turn_8_most(out, pitch, in, step, &half);
    *most = _mm512_mask_blend_ps(0xff, *most, _mm512_castps256_ps512(half));
}
#define TURN_EIGHT turn_eight

#define OWN_WINDOWS
#include "simd/tile_window_avx512.h"
#define OWN_EXACT
#include "simd/tile_exact_avx512.h"
#include "simd/tile_body.h"
#else
typedef int snls_tile_avx512_is_empty;
#endif
