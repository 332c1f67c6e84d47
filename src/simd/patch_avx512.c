/* patch_avx512.c: the loops over patches, compiled for AVX-512. */
#define PATCH_LOOPS snls_patch_loops_avx512
#define PATCH_LANES 16
#define PATCH_SCOPE
#include "simd/patch_loops_body.h"
