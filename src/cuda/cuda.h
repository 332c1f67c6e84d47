/* cuda.h: what every file of the cuda backend includes: the core's headers as device code may use them, launches that are
 * checked, elements of tensors. The language is C as nvcc compiles it (C++20 without classes and templates but for constants of
 * a kernel's size). Files are compiled with -fmad=false, so that src/op/geometry.h gives the same bits as on the CPU; inner
 * loops write fmaf where they mean it.
 *
 * A call: take the tensors (refuse types), plan scratch, commit, claim, launch, SNLS_CUDA_LAUNCHED. Nothing else allocates and
 * nothing waits, so a call whose scratch was there before can be captured in a CUDA graph. */
#ifndef SNLS_CUDA_H
#define SNLS_CUDA_H

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

extern "C" {
#include "base/tensor.h"
#include "op/aggregate.h"
#include "op/match.h"
#include "op/op.h"
}

/* ctx->priv */
typedef struct SnlsCuda {
    int device, multiprocessors, capability; /* capability: 90 for 9.0 */
    size_t shared_limit;                     /* bytes of shared memory a block may ask for */
    cudaEvent_t clock[2];
    int clocks;                              /* how often the clock was read */
    char name[256];
    struct CudaKept *kept;                   /* scratch of captured graphs that the context no longer uses */
} SnlsCuda;

static inline SnlsCuda *snls_cuda(const SnlsContext *ctx) { return (SnlsCuda *)ctx->priv; }
static inline cudaStream_t snls_cuda_stream(const SnlsContext *ctx) { return (cudaStream_t)ctx->stream; }

/* SNLS_OK, or SNLS_ERR_DEVICE (SNLS_ERR_MEMORY where memory ran out) with "op: what CUDA says". */
SnlsStatus snls_cuda_check(SnlsContext *ctx, const char *op, cudaError_t error);
#define SNLS_CUDA_TRY(ctx, op, call) SNLS_TRY(snls_cuda_check((ctx), (op), (call)))
/* After every <<<...>>>. */
#define SNLS_CUDA_LAUNCHED(ctx, op) SNLS_CUDA_TRY(ctx, op, cudaGetLastError())

/* The context's GPU becomes the thread's current one: the default stream is that of the current GPU, and kernels go where it is. leave: the caller's is current
 * again; returns status. */
SnlsStatus snls_cuda_enter(SnlsContext *ctx, const char *op, int *before);
SnlsStatus snls_cuda_leave(int before, SnlsStatus status);

/* How much shared memory a kernel may be launched with belongs to the kernel, not to a call: threads that each set what they need would take it from each other. So it
 * is always all that there can be; own: bytes of arrays whose size the kernel itself says. */
SnlsStatus snls_cuda_allow_shared(SnlsContext *ctx, const char *op, const void *kernel, size_t own);

/* As snls_scratch_commit. Growing inside a capture is refused with a sentence: the first call of a size comes before. */
SnlsStatus snls_cuda_commit(SnlsContext *ctx, const char *op);

/* Types: videos f32, f16, bf16; numbers (flow, offsets, weights, distances) f32 alone. SNLS_ERR_UNSUPPORTED otherwise; a
 * tensor without data passes. */
SnlsStatus snls_cuda_take_video(SnlsContext *ctx, const char *op, const char *name, const SnlsTensor *t);
SnlsStatus snls_cuda_take_numbers(SnlsContext *ctx, const char *op, const char *name, const SnlsTensor *t);

/* Blocks for so many units of work, at most 2^31-1 and at most `most` (0: no such bound): kernels loop, see SNLS_CUDA_EACH. */
static inline unsigned snls_cuda_blocks(int64_t units, int64_t per_block, int64_t most)
{
    int64_t blocks = (units + per_block - 1) / per_block;
    if (most > 0 && blocks > most) blocks = most;
    if (blocks > INT32_MAX) blocks = INT32_MAX;
    return blocks < 1 ? 1u : (unsigned)blocks;
}

/* Every unit once, whatever the grid: for (SNLS_CUDA_EACH(i, n)) */
#define SNLS_CUDA_EACH(i, n)                                                                                       \
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < (n); i += (int64_t)gridDim.x * blockDim.x

/* ---- elements ---- */

static __device__ __forceinline__ float snls_cuda_load(const SnlsTensor *t, int64_t at)
{
    if (t->dtype == SNLS_F32) return ((const float *)t->data)[at];
    if (t->dtype == SNLS_F16) return __half2float(((const __half *)t->data)[at]);
    return __bfloat162float(((const __nv_bfloat16 *)t->data)[at]);
}

/* Rounded to nearest even, as src/base/half.h does. */
static __device__ __forceinline__ void snls_cuda_store(const SnlsTensor *t, int64_t at, float value)
{
    if (t->dtype == SNLS_F32) ((float *)t->data)[at] = value;
    else if (t->dtype == SNLS_F16) ((__half *)t->data)[at] = __float2half_rn(value);
    else ((__nv_bfloat16 *)t->data)[at] = __float2bfloat16_rn(value);
}

/* Atomically, to four floats on a boundary of four: at once where the device can (9.0 on). */
static __device__ __forceinline__ void snls_cuda_add4(float *to, float4 v)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    atomicAdd((float4 *)to, v);
#else
    atomicAdd(to, v.x);
    atomicAdd(to + 1, v.y);
    atomicAdd(to + 2, v.z);
    atomicAdd(to + 3, v.w);
#endif
}

/* The sum of x over a warp, in a fixed order, in every lane. */
static __device__ __forceinline__ float snls_cuda_warp_sum(float x)
{
    for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
    return x;
}

/* Operators: one that nobody has written yet is a NULL in the table, and so SNLS_ERR_UNSUPPORTED. */
extern "C" {
#define X(op, Op)                                                                                           \
    __attribute__((weak)) SnlsStatus snls_cuda_##op##_forward(SnlsContext *ctx, const Snls##Op *s);         \
    __attribute__((weak)) SnlsStatus snls_cuda_##op##_backward(SnlsContext *ctx, const Snls##Op *s, const Snls##Op##Grad *g);
SNLS_OPS(X)
#undef X
extern const SnlsDevice snls_cuda_device;
}

#endif
