/* shared.h: what a network on a GPU keeps for all its steps. */
#ifndef SNLS_NN_CUDA_SHARED_H
#define SNLS_NN_CUDA_SHARED_H

#include "nn_cuda/nn_cuda.h"
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <cudnn.h>

typedef enum Slot { SLOT_X, SLOT_Y, SLOT_DZ, SLOT_DX, SLOT_DW, SLOT_PARTS, SLOTS } Slot; /* what one step needs while it runs */

struct NnCudaShared {
    cudnnHandle_t  cudnn;
    cublasHandle_t cublas;
    void          *workspace, *blas_workspace;
    int64_t        workspace_bytes;
    float         *one; /* a 1 on the device */
    void          *slot[SLOTS];
    int64_t        slot_bytes[SLOTS];
    ConvPlan      *plans;
    int64_t        plan_count, plan_room;
    cudaEvent_t    clock[2];
};

SnlsStatus snls_nn_cuda_check(SnlsContext *ctx, cudaError_t error, const char *what);
#define CUDA(ctx, call, what) SNLS_TRY(snls_nn_cuda_check((ctx), (call), (what)))
SnlsStatus snls_nn_cudnn_check(SnlsContext *ctx, cudnnStatus_t status, const char *what);
#define CUDNN(ctx, call, what) SNLS_TRY(snls_nn_cudnn_check((ctx), (call), (what)))

/* Room in a slot: grows when a network runs for the first time, then stays. */
SnlsStatus snls_nn_cuda_slot(SnlsContext *ctx, NnCudaShared *shared, Slot slot, int64_t bytes, void **room);

void snls_nn_cuda_plans_free(SnlsContext *ctx, NnCudaShared *shared);

#endif
