/* blas.h: convolutions by sgemm, row by row and tap by tap, where there is no oneDNN. */
#ifndef SNLS_NN_BLAS_H
#define SNLS_NN_BLAS_H

#include "nn/nn.h"

NnFunction snls_nn_blas_conv_forward, snls_nn_blas_conv_backward;

#endif
