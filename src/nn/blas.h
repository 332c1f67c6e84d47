/* blas.h: convolutions by sgemm, where there is no oneDNN or its are slower (cpu_conv.c). Values are f32 or bf16, sums f32. */
#ifndef SNLS_NN_BLAS_H
#define SNLS_NN_BLAS_H

#include "nn/nn.h"

NnFunction snls_nn_blas_conv_forward, snls_nn_blas_conv_backward;
void       snls_nn_blas_conv_release(SnlsContext *ctx, NnStep *step);
int64_t    snls_nn_blas_conv_room(SnlsContext *ctx, const NnStep *step); /* bytes of scratch that forward takes */

bool snls_nn_blas_is_fast(void); /* it is OpenBLAS, not the reference */
void snls_nn_blas_warm(SnlsContext *ctx, int32_t threads); /* before so many threads ask for products */
/* While networks run, products are done by the thread that asks for them. Every begin has its end; they may come from any thread. */
void snls_nn_blas_begin(void);
void snls_nn_blas_end(void);

#endif
