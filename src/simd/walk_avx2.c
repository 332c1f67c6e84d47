/* walk_avx2.c: walks through fields of motion, compiled for AVX2. */
#define WALK_LOOPS snls_walk_loops_avx2
#define WALK_LANES 4
#define WALK_SCOPE
#include "simd/walk_body.h"
