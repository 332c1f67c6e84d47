/* walk_loops.c: walks through fields of motion for any machine, and the choice of a level. */
#include "simd/dsp.h"
#define WALK_LOOPS walk_loops_c
#define WALK_LANES 2
#define WALK_SCOPE static
#include "simd/walk_body.h"

void snls_walk_loops(SnlsWalkLoops *loops, int level)
{
    const int max = snls_dsp_level_max();
    if (level > max) level = max;
    walk_loops_c(loops);
#if defined(__x86_64__)
    if (level >= 2) snls_walk_loops_avx2(loops);
    if (level >= 3) snls_walk_loops_avx512(loops);
#endif
}
