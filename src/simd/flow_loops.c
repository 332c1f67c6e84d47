/* flow_loops.c: the row loops of optical flow for any machine, and the choice of a level. */
#include "simd/dsp.h"
#define FLOW_LOOPS flow_loops_c
#define FLOW_LANES 4
#define FLOW_SCOPE static
#include "simd/flow_body.h"

void snls_flow_loops(SnlsFlowLoops *loops, int level)
{
    const int max = snls_dsp_level_max();
    if (level > max) level = max;
    flow_loops_c(loops);
#if defined(__x86_64__)
    if (level >= 2) snls_flow_loops_avx2(loops);
    if (level >= 3) snls_flow_loops_avx512(loops);
#endif
}
