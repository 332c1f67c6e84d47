/* nn_cuda.h: what the files of libsnls_nn_cuda.so share: handles, workspace and plans of a network, steps by cuDNN and cuBLAS, and the
 * kernels about them. Values are f32 or bf16, (N,H,W,C); parameters and their gradients f32.
 *
 * The first run of a network makes plans and takes memory; those that follow only launch, so they can be captured in a CUDA graph. */
#ifndef SNLS_NN_CUDA_H
#define SNLS_NN_CUDA_H

#ifdef __cplusplus
extern "C" {
#endif

#include "nn/device.h"

/* ---- cudnn_plan.c: one convolution as cuDNN does it ---- */

typedef enum ConvJob { CONV_FORWARD = 0, CONV_BY_DATA = 1, CONV_BY_WEIGHTS = 2, CONV_JOBS = 3 } ConvJob;

typedef struct ConvShape { /* of the convolution itself; a transposed one runs it the other way */
    int64_t x[4], y[4];    /* N, H, W, C */
    int64_t w[4];          /* out, k, k, in of a group: as packed */
    int64_t stride, pad;
    int64_t dtype;         /* of x, y and w */
} ConvShape;

typedef struct ConvPlan ConvPlan; /* the network keeps a list of them; steps know their numbers */
typedef struct NnCudaShared NnCudaShared;

typedef struct ConvData { void *x, *w, *y; } ConvData;

/* Tries what cuDNN proposes on the data itself (which is overwritten where the job writes) and keeps the fastest; a deterministic
 * context takes the first that always gives the same bits. */
SnlsStatus snls_nn_cuda_plan(SnlsContext *ctx, NnCudaShared *shared, const ConvShape *shape, ConvJob job, const ConvData *data, int64_t *plan);
SnlsStatus snls_nn_cuda_conv_run(SnlsContext *ctx, NnCudaShared *shared, int64_t plan, const ConvData *data);

/* ---- gemm.c: products of matrices stored by rows, c = a b, of numbers of dtype, sums in f32 ---- */

typedef struct Product {
    const void *a, *b;
    void       *c;
    int64_t     m, n, k;        /* c is (m,n) */
    int32_t     a_by_columns, b_by_columns; /* a is stored as (k,m), b as (n,k) */
    int32_t     dtype, c_dtype; /* SnlsDtype */
    int32_t     add;            /* c += instead of c = */
} Product;
SnlsStatus snls_nn_cuda_product(SnlsContext *ctx, NnCudaShared *shared, const Product *p);

/* ---- table.c ---- */

SnlsStatus snls_nn_cuda_open(SnlsContext *ctx, void **shared);
void       snls_nn_cuda_close(SnlsContext *ctx, void *shared);

/* ---- conv.c ---- */

NnFunction snls_nn_cuda_conv_forward, snls_nn_cuda_conv_backward;
void       snls_nn_cuda_conv_release(SnlsContext *ctx, NnStep *step);

/* ---- conv_move.cu ---- */

/* Weights (a,b,k,k) in f32 to (rows,k,k,columns) in dtype; what is beyond a and b is 0. */
typedef struct Packing { int64_t a, b, k, rows, columns; int32_t dtype; } Packing;
SnlsStatus snls_nn_cuda_pack(SnlsContext *ctx, const Packing *p, const float *from, void *to);
SnlsStatus snls_nn_cuda_unpack_add(SnlsContext *ctx, const Packing *p, const void *from, float *to); /* back, added */
/* Pixels of `from` channels to pixels of `to` channels: more are 0, fewer are left out. */
typedef struct Channels { int64_t pixels, from, to; int32_t dtype, add; } Channels;
SnlsStatus snls_nn_cuda_channels(SnlsContext *ctx, const Channels *c, const void *from, void *to);

#ifdef __cplusplus
}
#endif
#endif
