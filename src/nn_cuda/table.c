/* table.c: handles and memory of a network on a GPU, and what libsnls_nn_cuda.so exports. */
#include "model/train_device.h"
#include "nn_cuda/layers.h"
#include "nn_cuda/shared.h"
#include <string.h>

SnlsStatus snls_nn_cuda_check(SnlsContext *ctx, cudaError_t error, const char *what)
{
    if (error == cudaSuccess) return SNLS_OK;
    (void)cudaGetLastError(); /* told once */
    return snls_fail(ctx, error == cudaErrorMemoryAllocation ? SNLS_ERR_MEMORY : SNLS_ERR_DEVICE, "network: CUDA says %s to %s", cudaGetErrorString(error), what);
}

static SnlsStatus check_blas(SnlsContext *ctx, cublasStatus_t status, const char *what)
{
    SNLS_REQUIRE(ctx, status == CUBLAS_STATUS_SUCCESS, SNLS_ERR_DEVICE, "network: cuBLAS says %s to %s", cublasGetStatusString(status), what);
    return SNLS_OK;
}

enum { BLAS_WORKSPACE = 32 << 20 }; /* what cuBLAS asks for on recent GPUs; its own would be taken inside a capture */

/* The context's GPU is current from the first call to the second, which gives the thread's own back; *state: 0 before the first. */
static void swap_device(SnlsContext *ctx, int32_t *state)
{
    int now = 0;
    if (*state) {
        (void)cudaSetDevice(*state - 1);
        return;
    }
    (void)cudaGetDevice(&now); /* what fails here fails again in what follows, which tells */
    (void)cudaSetDevice(ctx->device_id);
    *state = now + 1;
}

static SnlsStatus open_handles(SnlsContext *ctx, NnCudaShared *s)
{
    const float one = 1;
    CUDNN(ctx, cudnnCreate(&s->cudnn), "a handle");
    SNLS_TRY(check_blas(ctx, cublasCreate(&s->cublas), "a handle"));
    CUDA(ctx, cudaMalloc(&s->blas_workspace, BLAS_WORKSPACE), "memory for products");
    CUDA(ctx, cudaMalloc((void **)&s->one, sizeof one), "memory");
    CUDA(ctx, cudaMemcpy(s->one, &one, sizeof one, cudaMemcpyHostToDevice), "copying");
    for (int i = 0; i < 2; i++) CUDA(ctx, cudaEventCreate(&s->clock[i]), "a clock");
    return SNLS_OK;
}

SnlsStatus snls_nn_cuda_open(SnlsContext *ctx, void **out)
{
    int32_t device = 0;
    NnCudaShared *s = snls_mem_alloc(&ctx->allocator, sizeof *s);
    SNLS_REQUIRE(ctx, s, SNLS_ERR_MEMORY, "network: no memory for its handles");
    memset(s, 0, sizeof *s);
    *out = s;
    swap_device(ctx, &device);
    const SnlsStatus status = open_handles(ctx, s);
    swap_device(ctx, &device);
    return status;
}

void snls_nn_cuda_close(SnlsContext *ctx, void *shared)
{
    NnCudaShared *s = shared;
    int32_t device = 0;
    swap_device(ctx, &device);
    (void)cudaStreamSynchronize((cudaStream_t)ctx->stream);
    snls_nn_cuda_plans_free(ctx, s);
    if (s->cudnn) (void)cudnnDestroy(s->cudnn);
    if (s->cublas) (void)cublasDestroy(s->cublas);
    for (int i = 0; i < SLOTS; i++) (void)cudaFree(s->slot[i]);
    (void)cudaFree(s->workspace), (void)cudaFree(s->blas_workspace), (void)cudaFree(s->one);
    for (int i = 0; i < 2; i++)
        if (s->clock[i]) (void)cudaEventDestroy(s->clock[i]);
    swap_device(ctx, &device);
    snls_mem_free(&ctx->allocator, s);
}

SnlsStatus snls_nn_cuda_slot(SnlsContext *ctx, NnCudaShared *s, Slot slot, int64_t bytes, void **room)
{
    if (bytes > s->slot_bytes[slot]) {
        CUDA(ctx, cudaStreamSynchronize((cudaStream_t)ctx->stream), "waiting");
        CUDA(ctx, cudaFree(s->slot[slot]), "giving memory back");
        s->slot[slot] = NULL, s->slot_bytes[slot] = 0;
        CUDA(ctx, cudaMalloc(&s->slot[slot], (size_t)bytes), "memory for a layer");
        s->slot_bytes[slot] = bytes;
    }
    *room = s->slot[slot];
    return SNLS_OK;
}

/* The context's stream may change between runs. */
static SnlsStatus prepare(SnlsContext *ctx, void *shared)
{
    NnCudaShared *s = shared;
    CUDNN(ctx, cudnnSetStream(s->cudnn, (cudaStream_t)ctx->stream), "a stream");
    SNLS_TRY(check_blas(ctx, cublasSetStream(s->cublas, (cudaStream_t)ctx->stream), "a stream"));
    return check_blas(ctx, cublasSetWorkspace(s->cublas, s->blas_workspace, BLAS_WORKSPACE), "memory");
}

static SnlsStatus clear(SnlsContext *ctx, void *block, int64_t bytes)
{
    int32_t device = 0;
    swap_device(ctx, &device);
    const cudaError_t error = cudaMemsetAsync(block, 0, (size_t)bytes, (cudaStream_t)ctx->stream);
    swap_device(ctx, &device);
    return snls_nn_cuda_check(ctx, error, "clearing memory");
}

static const float *one_of(void *shared) { return ((const NnCudaShared *)shared)->one; }

#define OURS(name) [NN_##name] = { snls_nn_cuda_##name##_forward, snls_nn_cuda_##name##_backward }

/* Search, refine, weights and gather are the core's: it knows the way to libsnls_cuda.so. */
static const NnBackend backend = {
    .name = "cuda",
    .op = { OURS(conv), OURS(norm), OURS(act), OURS(eca), OURS(attend), OURS(shuffle), OURS(concat), OURS(add), OURS(pad), OURS(pool), OURS(first) },
    .open = snls_nn_cuda_open,
    .release = snls_nn_cuda_conv_release,
    .close = snls_nn_cuda_close,
    .run = swap_device,
    .prepare = prepare,
    .clear = clear,
    .one = one_of,
};

#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
const NnCuda *snls_nn_cuda(int32_t api_version, size_t context_size, size_t step_size);

const NnCuda *snls_nn_cuda(int32_t api_version, size_t context_size, size_t step_size)
{
    static const NnCuda all = { &backend, &snls_train_cuda };
    return api_version == SNLS_API_VERSION && context_size == sizeof(SnlsContext) && step_size == sizeof(NnStep) ? &all : NULL;
}
