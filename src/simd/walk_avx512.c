/* walk_avx512.c: walks through fields of motion, compiled for AVX-512. */
#define WALK_LOOPS snls_walk_loops_avx512
#define WALK_LANES 8
#define WALK_SCOPE
#include "simd/walk_body.h"
