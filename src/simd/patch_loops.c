/* patch_loops.c: the loops over patches for any machine, and the choice of a level. */
#include "simd/dsp.h"
#define PATCH_LOOPS patch_loops_c
#define PATCH_LANES 4
#define PATCH_SCOPE static
#include "simd/patch_loops_body.h"

void snls_patch_loops(SnlsPatchLoops *loops, int level)
{
    const int max = snls_dsp_level_max();
    if (level > max) level = max;
    patch_loops_c(loops);
#if defined(__x86_64__)
    if (level >= 2) snls_patch_loops_avx2(loops);
    if (level >= 3) snls_patch_loops_avx512(loops);
#endif
}
