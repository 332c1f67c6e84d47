/* flow_avx2.c: the row loops of optical flow, compiled for AVX2. */
#define FLOW_LOOPS snls_flow_loops_avx2
#define FLOW_LANES 8
#define FLOW_SCOPE
#include "simd/flow_body.h"
