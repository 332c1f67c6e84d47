/* group.h: the matrices of one group of patches, one table of loops for each instruction set, made from one text
 * (group_body.h). A group is some tens of patches of at most 98 values: too little for a BLAS to warm up.
 *
 * Matrices are row-major; their rows have room for a multiple of SNLS_GROUP_LANES floats, and what is behind the last column
 * is 0. Every element of a result is one sum in the order of its terms, so a level differs from another only by whether a
 * product is rounded before it is added (it is not where there are fused instructions). Knows nothing of the library. */
#ifndef SNLS_SIMD_GROUP_H
#define SNLS_SIMD_GROUP_H

#include <stdbool.h>
#include <stdint.h>

enum { SNLS_GROUP_LANES = 16 };

/* c[i][j] = scale * sum over k < depth of a[i * a_row + k * a_depth] * b[k][j], i < rows, j < columns */
typedef struct SnlsGroupProduct {
    float *c;
    const float *a, *b;
    int64_t c_pitch, a_row, a_depth, b_pitch;
    int64_t rows, columns, depth; /* columns: a multiple of SNLS_GROUP_LANES */
    float scale;
    bool upper; /* what is left of the diagonal's run of lanes is not wanted */
} SnlsGroupProduct;

typedef struct SnlsGroupLoops {
    /* x[r * side + c][i] = at[i][r * stride + c] for the count patches at[]; a float behind each row of a patch is read.
     * Columns past count hold anything finite. */
    void (*gather)(float *x, int64_t pitch, const float *const *at, int64_t count, int64_t stride, int64_t side);
    /* mean[r] of each row's first count columns, taken off them; the others become 0. Returns the sum of squares then. */
    float (*centre)(float *x, int64_t pitch, int64_t rows, int64_t count, float *mean);
    /* out[i * rows + r] = x[r][i] + mean[r], i < count */
    void (*scatter)(float *out, const float *x, int64_t pitch, int64_t rows, int64_t count, const float *mean);
    void (*product)(const SnlsGroupProduct *p);
    /* x (n, pitch): in its first n columns a symmetric matrix, of which the upper half is read, and in the columns from
     * right on as many right sides, which become the solutions. false: the matrix is not positive definite. */
    bool (*solve)(float *x, int64_t pitch, int64_t n, int64_t right);
    /* Rows become orthonormal, one after the other; one that adds nothing becomes 0. */
    void (*orthonormal)(float *q, int64_t pitch, int64_t rows);
    /* c[i * rows + j] = sum over a[i] b[j], both (rows, pitch) */
    void (*dots)(float *c, const float *a, const float *b, int64_t pitch, int64_t rows);
} SnlsGroupLoops;

void snls_group_loops(SnlsGroupLoops *loops, int level); /* SnlsCpuLevel; levels this machine lacks fall back */

void snls_group_loops_avx2(SnlsGroupLoops *loops);
void snls_group_loops_avx512(SnlsGroupLoops *loops);
void snls_group_loops_neon(SnlsGroupLoops *loops);

#endif
