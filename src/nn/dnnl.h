/* dnnl.h: convolutions through oneDNN's C API. Primitives, packed weights and views are made at the first run of a step. */
#ifndef SNLS_NN_DNNL_H
#define SNLS_NN_DNNL_H

#include "nn/nn.h"

SnlsStatus snls_nn_dnnl_open(SnlsContext *ctx, void **shared);
void       snls_nn_dnnl_close(SnlsContext *ctx, void *shared);
void       snls_nn_dnnl_release(SnlsContext *ctx, NnStep *step);
NnFunction snls_nn_dnnl_conv_forward, snls_nn_dnnl_conv_backward;

#endif
