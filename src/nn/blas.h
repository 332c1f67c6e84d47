/* blas.h: convolutions by sgemm, where there is no oneDNN or its are slower (cpu_conv.c). Values are f32 or bf16, sums f32. */
#ifndef SNLS_NN_BLAS_H
#define SNLS_NN_BLAS_H

#include "nn/nn.h"

NnFunction snls_nn_blas_conv_forward, snls_nn_blas_conv_backward;
void       snls_nn_blas_conv_release(SnlsContext *ctx, NnStep *step);
int64_t    snls_nn_blas_conv_room(SnlsContext *ctx, const NnStep *step); /* bytes of scratch that forward takes */

void snls_nn_blas_warm(SnlsContext *ctx, int32_t threads); /* before so many threads ask for products */

#endif
