/* group_avx2.c: the matrices of a group, compiled for AVX2. */
#include <immintrin.h>
#define GROUP_LOOPS snls_group_loops_avx2
#define GROUP_LANES 8
#define GROUP_ROWS 4
#define GROUP_SCOPE
#define GROUP_MADD(a, b, c) ((Lanes)_mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c)))
#include "simd/group_body.h"
