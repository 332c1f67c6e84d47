/* tile_avx2.c: tile loops, eight lanes; three by three sums fill the sixteen registers. */
#if defined(__x86_64__)
#include "simd/turn.h"
#include <immintrin.h>
#include <math.h>

#define LANES 8
#define ROWS 3
#define COLUMNS 3
#define PATCH_ROWS 3
#define PATCH_COLUMNS 3
#define PATCH_SUMS 9
#define TILE_INIT snls_tile_init_avx2

typedef __m256 Vec;
typedef __m256 Mask;
#define v_load(p) _mm256_loadu_ps(p)
#define v_store(p, x) _mm256_storeu_ps(p, x)
#define v_set(x) _mm256_set1_ps(x)
#define v_zero() _mm256_setzero_ps()
#define v_add(a, b) _mm256_add_ps(a, b)
#define v_sub(a, b) _mm256_sub_ps(a, b)
#define v_mul(a, b) _mm256_mul_ps(a, b)
#define v_fma(a, b, c) _mm256_fmadd_ps(a, b, c)
#define v_min(a, b) _mm256_min_ps(a, b)
#define v_max(a, b) _mm256_max_ps(a, b)
#define m_equal(p, n) _mm256_castsi256_ps(_mm256_cmpeq_epi32(_mm256_loadu_si256((const __m256i *)(const void *)(p)), _mm256_set1_epi32(n)))
#define m_nonzero(x) _mm256_cmp_ps(x, _mm256_setzero_ps(), _CMP_NEQ_OQ)
#define m_number(x) _mm256_cmp_ps(x, x, _CMP_ORD_Q)
#define m_not_below(m, a, b) _mm256_and_ps(m, _mm256_cmp_ps(a, b, _CMP_NLE_UQ))
#define m_le(a, b) _mm256_cmp_ps(a, b, _CMP_LE_OQ)
#define m_below(a, b) _mm256_cmp_ps(a, b, _CMP_LT_OQ)
#define m_or(a, b) _mm256_or_ps(a, b)
#define v_pick(m, no, yes) _mm256_blendv_ps(no, yes, m)
#define v_fma_where(m, a, b, c) _mm256_blendv_ps(c, _mm256_fmadd_ps(a, b, c), m)
#define m_bits(p, q) ((uint32_t)_mm256_movemask_ps(_mm256_cmp_ps(_mm256_loadu_ps(p), _mm256_loadu_ps(q), _CMP_LE_OQ)))

/* Blends are two or three steps each on Intel's processors: scores are sorted by minimum and maximum, and four instructions exchange numbers. */
#define SORT_BY_LEAST 1
#define SWAP_WHERE(m, a, b) { const __m256 change = _mm256_and_ps(m, _mm256_xor_ps(a, b)); a = _mm256_xor_ps(a, change); b = _mm256_xor_ps(b, change); }

#define IN_REGISTER(v) __asm__("" : "+x"(v))
#define TURN turn_8_most

#include "simd/tile_body.h"
#else
typedef int snls_tile_avx2_is_empty;
#endif
