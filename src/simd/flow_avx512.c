/* flow_avx512.c: the row loops of optical flow, compiled for AVX-512. */
#define FLOW_LOOPS snls_flow_loops_avx512
#define FLOW_LANES 16
#define FLOW_SCOPE
#include "simd/flow_body.h"
