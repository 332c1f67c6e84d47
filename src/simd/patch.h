/* patch.h: the loops of the denoiser over patches, one table for each instruction set. Made from one text (patch_loops_body.h)
 * without contraction; no sum goes across lanes, so that all levels give the same bits. Knows nothing of the library. */
#ifndef SNLS_SIMD_PATCH_H
#define SNLS_SIMD_PATCH_H

#include <stdint.h>

enum { SNLS_PATCH_LANES = 16 }; /* columns of a window are scored in runs of so many, wanted or not */

typedef struct SnlsPatchLoops {
    /* Scores of a window: dist[r * pitch + c] += sum of squared differences between the side x side patches at query and at
     * key + r * stride + c. Columns up to the next multiple of SNLS_PATCH_LANES are computed, and their pixels read. */
    void (*score)(float *dist, int64_t pitch, const float *query, const float *key, int64_t stride, int64_t side,
                  int64_t rows, int64_t columns);
    /* The same for at most 8 columns, in shorter vectors, which cross fewer lines of the cache. */
    void (*score_narrow)(float *dist, int64_t pitch, const float *query, const float *key, int64_t stride, int64_t side,
                         int64_t rows, int64_t columns);
    /* patch[y * side + x] = from[y * stride + x] */
    void (*take)(float *patch, const float *from, int64_t stride, int64_t side);
    /* sum[y * stride + x] += patch[y * side + x] */
    void (*add)(float *sum, int64_t stride, const float *patch, int64_t side);
} SnlsPatchLoops;

void snls_patch_loops(SnlsPatchLoops *loops, int level); /* SnlsCpuLevel; levels this machine lacks fall back */

void snls_patch_loops_avx2(SnlsPatchLoops *loops);
void snls_patch_loops_avx512(SnlsPatchLoops *loops);

#endif
