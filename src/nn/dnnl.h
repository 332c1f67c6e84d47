/* dnnl.h: convolutions through oneDNN's C API. Primitives, packed weights and views are made at the first run of a step. */
#ifndef SNLS_NN_DNNL_H
#define SNLS_NN_DNNL_H

#include "nn/nn.h"

SnlsStatus snls_nn_dnnl_open(SnlsContext *ctx, void **shared);
void       snls_nn_dnnl_close(SnlsContext *ctx, void *shared);
void       snls_nn_dnnl_release(SnlsContext *ctx, NnStep *step);
NnFunction snls_nn_dnnl_conv_forward, snls_nn_dnnl_conv_backward;
int64_t    snls_nn_dnnl_conv_room(SnlsContext *ctx, const NnStep *step); /* bytes of scratch that forward takes */
int64_t    snls_nn_dnnl_conv_own(const NnStep *step); /* bytes that oneDNN keeps for it by itself, at most; equal ones share them */

/* What it has for this processor: nothing, loops for any, code of its own. */
typedef enum NnDnnlConv { NN_DNNL_NONE, NN_DNNL_PLAIN, NN_DNNL_FAST } NnDnnlConv;
NnDnnlConv snls_nn_dnnl_conv(int32_t dtype); /* for convolutions of this element type, as networks have them */

#endif
