/* call.cu: errors and scratch of a call: what libsnls_nn_cuda.so has a copy of as well. */
#include "cuda/cuda.h"

SnlsStatus snls_cuda_check(SnlsContext *ctx, const char *op, cudaError_t error)
{
    if (error == cudaSuccess) return SNLS_OK;
    (void)cudaGetLastError(); /* told once; what cannot be cleared comes again with the next call */
    const SnlsStatus status = error == cudaErrorMemoryAllocation ? SNLS_ERR_MEMORY : SNLS_ERR_DEVICE;
    return snls_fail(ctx, status, "%s: CUDA says %s (%s)", op, cudaGetErrorString(error), cudaGetErrorName(error));
}

SnlsStatus snls_cuda_commit(SnlsContext *ctx, const char *op)
{
    if (ctx->arena.planned > ctx->arena.capacity) {
        cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
        SNLS_CUDA_TRY(ctx, op, cudaStreamIsCapturing(snls_cuda_stream(ctx), &capture));
        SNLS_REQUIRE(ctx, capture == cudaStreamCaptureStatusNone, SNLS_ERR_DEVICE,
                     "%s: needs more scratch, which cannot be taken while the stream is captured; make this call once before", op);
    }
    return snls_scratch_commit(ctx, op);
}
