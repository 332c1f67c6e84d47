/* group_avx512.c: the matrices of a group, compiled for AVX-512. */
#include <immintrin.h>
#define GROUP_LOOPS snls_group_loops_avx512
#define GROUP_LANES 16
#define GROUP_ROWS 8
#define GROUP_SCOPE
#define GROUP_MADD(a, b, c) ((Lanes)_mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c)))
#include "simd/group_body.h"
