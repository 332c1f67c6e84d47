/* group_loops.c: the matrices of a group for any machine, and the choice of a level. */
#include "simd/dsp.h"
#define GROUP_LOOPS group_loops_c
#define GROUP_LANES 4
#define GROUP_ROWS 4
#define GROUP_SCOPE static
#define GROUP_MADD(a, b, c) ((a) * (b) + (c))
#include "simd/group_body.h"

void snls_group_loops(SnlsGroupLoops *loops, int level)
{
    const int max = snls_dsp_level_max();
    if (level > max) level = max;
    group_loops_c(loops);
#if defined(__x86_64__)
    if (level >= 2) snls_group_loops_avx2(loops);
    if (level >= 3) snls_group_loops_avx512(loops);
#elif defined(__aarch64__)
    if (level >= 2) snls_group_loops_neon(loops);
#endif
}
