/* turn.h: sums of sixteen values over eight lanes. */
#ifndef SNLS_CUDA_TURN_H
#define SNLS_CUDA_TURN_H

#include "cuda/best.h"

/* Each step exchanges half of what a lane has left. Lane `part` of the eight ends with sums snls_cuda_turned(part) and the one after,
 * as (*a, *b). */
static __device__ __forceinline__ void snls_cuda_turn(float (&sum)[16], int part, float *a, float *b)
{
#pragma unroll
    for (int half = 8, step = 4; half > 1; half /= 2, step /= 2) {
        const bool upper = part & step;
#pragma unroll
        for (int i = 0; i < 8; i++)
            if (i < half) {
                const float give = upper ? sum[i] : sum[i + half], keep = upper ? sum[i + half] : sum[i];
                sum[i] = keep + __shfl_xor_sync(SNLS_WARP, give, step);
            }
    }
    *a = sum[0];
    *b = sum[1];
}

static __device__ __forceinline__ int snls_cuda_turned(int part) { return (part & 4 ? 8 : 0) + (part & 2 ? 4 : 0) + (part & 1 ? 2 : 0); }

#endif
