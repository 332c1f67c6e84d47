/* layers.h: the steps of backend cuda that are not convolutions, and what a convolution needs around its product. Pointers are of
 * the device; everything goes to the context's stream, and sums are made in a fixed order, so a run repeats bit for bit. */
#ifndef SNLS_NN_CUDA_LAYERS_H
#define SNLS_NN_CUDA_LAYERS_H

#include "nn/nn.h"

#define NN_CUDA_LAYERS(X) X(norm) X(act) X(eca) X(attend) X(shuffle) X(concat) X(add) X(pad) X(pool) X(first)

#define X(op) NnFunction snls_nn_cuda_##op##_forward, snls_nn_cuda_##op##_backward;
NN_CUDA_LAYERS(X)
#undef X

/* ---- bias.cu ---- */

/* y = act(y + bias) + residual, in place. y (..., C) f32 or bf16; bias f32 (C) or no data; residual as y or no data. */
SnlsStatus snls_nn_cuda_epilogue(SnlsContext *ctx, const SnlsTensor *y, const SnlsTensor *bias, const SnlsTensor *residual, int32_t act, float slope);

/* dz = dy * act'(told by y's sign), dresidual += dy, dbias += the sum of dz over pixels: one pass. y is not read where act is
 * linear, and dz may be without data then; dresidual and dbias may be without data. The arena is the caller's, who may have claims
 * in it: parts is scratch for snls_nn_cuda_epilogue_parts floats, NULL where there is no dbias. */
typedef struct NnEpilogueGrad {
    SnlsTensor y, dy;                /* read */
    SnlsTensor dz, dresidual, dbias; /* set, added to, added to (f32) */
    float     *parts;
    int32_t    act;
    float      slope;
    bool       fresh;                /* dresidual is still 0 */
} NnEpilogueGrad;
int64_t    snls_nn_cuda_epilogue_parts(const SnlsContext *ctx, const SnlsTensor *dy);
SnlsStatus snls_nn_cuda_epilogue_backward(SnlsContext *ctx, const NnEpilogueGrad *g);

/* to += from, count numbers of a dtype that values have */
SnlsStatus snls_nn_cuda_add_to(SnlsContext *ctx, int32_t dtype, int64_t count, const void *from, void *to);

/* first[i] (i < split) or second[i - split] += the sum over rows of parts (rows, columns); NULL is not wanted. */
SnlsStatus snls_nn_cuda_sum_parts(SnlsContext *ctx, const float *parts, int64_t rows, int64_t columns, int64_t split, float *first, float *second);

#endif
