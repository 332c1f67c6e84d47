/* call.cu: errors, scratch and element types of a call: what libsnls_nn_cuda.so has a copy of as well. */
#include "cuda/cuda.h"

SnlsStatus snls_cuda_check(SnlsContext *ctx, const char *op, cudaError_t error)
{
    if (error == cudaSuccess) return SNLS_OK;
    (void)cudaGetLastError(); /* told once; what cannot be cleared comes again with the next call */
    const SnlsStatus status = error == cudaErrorMemoryAllocation ? SNLS_ERR_MEMORY : SNLS_ERR_DEVICE;
    return snls_fail(ctx, status, "%s: CUDA says %s (%s)", op, cudaGetErrorString(error), cudaGetErrorName(error));
}

SnlsStatus snls_cuda_enter(SnlsContext *ctx, const char *op, int *before)
{
    SNLS_CUDA_TRY(ctx, op, cudaGetDevice(before));
    return snls_cuda_check(ctx, op, cudaSetDevice(snls_cuda(ctx)->device));
}

SnlsStatus snls_cuda_leave(int before, SnlsStatus status)
{
    (void)cudaSetDevice(before);
    return status;
}

SnlsStatus snls_cuda_allow_shared(SnlsContext *ctx, const char *op, const void *kernel, size_t own)
{
    const size_t most = (snls_cuda(ctx)->shared_limit - own) / 1024 * 1024; /* it is handed out in larger units than bytes */
    return snls_cuda_check(ctx, op, cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)most));
}

SnlsStatus snls_cuda_commit(SnlsContext *ctx, const char *op)
{
    cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    if (ctx->stream) SNLS_CUDA_TRY(ctx, op, cudaStreamIsCapturing(snls_cuda_stream(ctx), &capture)); /* the default stream cannot be captured */
    if (capture != cudaStreamCaptureStatusNone) {
        SNLS_REQUIRE(ctx, ctx->arena.planned <= ctx->arena.capacity, SNLS_ERR_DEVICE,
                     "%s: needs more scratch, which cannot be taken while the stream is captured; make this call once before", op);
        ctx->arena.captured |= ctx->arena.planned > 0;
    }
    return snls_scratch_commit(ctx, op);
}

/* ---- types ---- */

SnlsStatus snls_cuda_take_video(SnlsContext *ctx, const char *op, const char *name, const SnlsTensor *t)
{
    SNLS_REQUIRE(ctx, !t->data || t->dtype == SNLS_F32 || t->dtype == SNLS_F16 || t->dtype == SNLS_BF16, SNLS_ERR_UNSUPPORTED,
                 "%s: %s is %s, backend cuda takes f32, f16 and bf16 (f64 is backend ref's)", op, name, snls_dtype_name((SnlsDtype)t->dtype));
    return SNLS_OK;
}

SnlsStatus snls_cuda_take_numbers(SnlsContext *ctx, const char *op, const char *name, const SnlsTensor *t)
{
    SNLS_REQUIRE(ctx, !t->data || t->dtype == SNLS_F32, SNLS_ERR_UNSUPPORTED, "%s: %s is %s, backend cuda takes f32", op, name,
                 snls_dtype_name((SnlsDtype)t->dtype));
    return SNLS_OK;
}
