/* softmax_loops.c: softmax for any machine, and the choice of a level. */
#include "simd/dsp.h"
#define SOFTMAX softmax_c
#define SOFTMAX_SCOPE static
#define SOFTMAX_TURN_IN turn_in
#define SOFTMAX_TURN_OUT turn_out
#include "simd/softmax_turn.h"
#include "simd/softmax_body.h"

void snls_softmax(SnlsSoftmax *loops, int level)
{
    const int max = snls_dsp_level_max();
    if (level > max) level = max;
    softmax_c(loops);
#if defined(__x86_64__)
    if (level >= 2) snls_softmax_avx2(loops);
    if (level >= 3) snls_softmax_avx512(loops);
#endif
}
