/* device.h: what libsnls_nn_cuda.so offers: the layers on a GPU, through cuDNN, cuBLAS and kernels of its own. The core is linked with
 * nothing of it. */
#ifndef SNLS_NN_DEVICE_H
#define SNLS_NN_DEVICE_H

#include "nn/nn.h"

struct TrainDevice; /* model/train_device.h */

typedef struct NnCuda {
    const NnBackend          *backend;
    const struct TrainDevice *train;
} NnCuda;

/* Loaded when the first network begins on a GPU, kept until the process ends. SNLS_ERR_DEVICE with a sentence where it cannot be. */
SnlsStatus snls_nn_load_cuda(SnlsContext *ctx, const NnCuda **cuda);

/* What the library exports. NULL: made for another version of these headers. */
typedef const NnCuda *NnCudaEntry(int32_t api_version, size_t context_size, size_t step_size);
#define NN_CUDA_ENTRY "snls_nn_cuda"

#endif
