/* patch_avx2.c: the loops over patches, compiled for AVX2. */
#define PATCH_LOOPS snls_patch_loops_avx2
#define PATCH_LANES 8
#define PATCH_SCOPE
#include "simd/patch_loops_body.h"
