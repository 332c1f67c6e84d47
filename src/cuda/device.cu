/* device.cu: memory, order and time of the device for callers without CUDA of their own, and what the device can do at best. */
#include "cuda/cuda.h"

static SnlsStatus device_alloc(SnlsContext *ctx, void **out, int64_t bytes)
{
    int before = 0;
    SNLS_TRY(snls_cuda_enter(ctx, "device_alloc", &before));
    return snls_cuda_leave(before, snls_cuda_check(ctx, "device_alloc", cudaMalloc(out, bytes ? (size_t)bytes : 1)));
}

static void device_free(SnlsContext *ctx, void *ptr)
{
    (void)ctx;
    (void)cudaFree(ptr);
}

static SnlsStatus device_wait(SnlsContext *ctx)
{
    int before = 0;
    SNLS_TRY(snls_cuda_enter(ctx, "device_wait", &before));
    return snls_cuda_leave(before, snls_cuda_check(ctx, "device_wait", cudaStreamSynchronize(snls_cuda_stream(ctx))));
}

static SnlsStatus device_copy(SnlsContext *ctx, void *to, const void *from, int64_t bytes, int32_t direction)
{
    static const enum cudaMemcpyKind kinds[] = {cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice};
    int before = 0;
    SNLS_TRY(snls_cuda_enter(ctx, "device_copy", &before));
    cudaError_t error = cudaMemcpyAsync(to, from, (size_t)bytes, kinds[direction], snls_cuda_stream(ctx));
    if (error == cudaSuccess) error = cudaStreamSynchronize(snls_cuda_stream(ctx));
    return snls_cuda_leave(before, snls_cuda_check(ctx, "device_copy", error));
}

static SnlsStatus device_zero(SnlsContext *ctx, void *to, int64_t bytes)
{
    int before = 0;
    SNLS_TRY(snls_cuda_enter(ctx, "device_zero", &before));
    return snls_cuda_leave(before, snls_cuda_check(ctx, "device_zero", cudaMemsetAsync(to, 0, (size_t)bytes, snls_cuda_stream(ctx))));
}

static SnlsStatus read_clock(SnlsContext *ctx, double *ms)
{
    SnlsCuda *cuda = snls_cuda(ctx);
    const int now = cuda->clocks & 1;
    float passed = 0;
    SNLS_CUDA_TRY(ctx, "device_clock", cudaEventRecord(cuda->clock[now], snls_cuda_stream(ctx)));
    SNLS_CUDA_TRY(ctx, "device_clock", cudaEventSynchronize(cuda->clock[now]));
    if (cuda->clocks) SNLS_CUDA_TRY(ctx, "device_clock", cudaEventElapsedTime(&passed, cuda->clock[1 - now], cuda->clock[now]));
    cuda->clocks = cuda->clocks ? 3 - cuda->clocks : 1; /* 0, 1, 2, 1, 2, ... */
    *ms = passed;
    return SNLS_OK;
}

static SnlsStatus device_clock(SnlsContext *ctx, double *ms)
{
    int before = 0;
    SNLS_TRY(snls_cuda_enter(ctx, "device_clock", &before));
    return snls_cuda_leave(before, read_clock(ctx, ms));
}

static SnlsStatus device_set_stream(SnlsContext *ctx, void *stream)
{
    if (ctx->stream == stream) return SNLS_OK;
    SNLS_TRY(device_wait(ctx)); /* scratch is the context's: two streams may not use it at once */
    ctx->stream = stream;
    return SNLS_OK;
}

static const char *device_name(const SnlsContext *ctx) { return snls_cuda(ctx)->name; }

/* ---- rates ---- */

static __global__ void read_all(const float4 *from, int64_t n, float *to)
{
    float sum = 0;
    for (SNLS_CUDA_EACH(i, n)) {
        const float4 v = from[i];
        sum += v.x + v.y + v.z + v.w;
    }
    if (sum == 1e30f) *to = sum; /* never: the loads must not be left out */
}

enum { FMA_CHAINS = 8, FMA_STEPS = 4096 };

static __global__ void multiply_add(float *to, float a, float b)
{
    float x[FMA_CHAINS];
    for (int i = 0; i < FMA_CHAINS; i++) x[i] = (float)threadIdx.x + (float)i;
#pragma unroll 16
    for (int step = 0; step < FMA_STEPS; step++)
#pragma unroll
        for (int i = 0; i < FMA_CHAINS; i++) x[i] = fmaf(x[i], a, b);
    float sum = 0;
    for (int i = 0; i < FMA_CHAINS; i++) sum += x[i];
    if (sum == 1e30f) *to = sum;
}

static __global__ void add_atomically(float *to, int64_t n)
{
    for (SNLS_CUDA_EACH(i, n)) atomicAdd(to + i, 1.0f);
}

/* One run of a kind over `bytes` of memory; *amount: what was done, in the units of SnlsRate. */
static cudaError_t run_rate(SnlsContext *ctx, int32_t kind, void *memory, int64_t bytes, double *amount)
{
    cudaStream_t stream = snls_cuda_stream(ctx);
    const int blocks = 16 * snls_cuda(ctx)->multiprocessors, threads = 512;
    const int64_t half = bytes / 2;
    *amount = (double)bytes;
    if (kind == SNLS_RATE_COPY) return cudaMemcpyAsync((char *)memory + half, memory, (size_t)half, cudaMemcpyDeviceToDevice, stream);
    if (kind == SNLS_RATE_READ) {
        read_all<<<blocks, threads, 0, stream>>>((const float4 *)memory, bytes / 16, (float *)memory);
    } else if (kind == SNLS_RATE_FMA) {
        *amount = (double)((int64_t)2 * FMA_CHAINS * FMA_STEPS * blocks * threads);
        multiply_add<<<blocks, threads, 0, stream>>>((float *)memory, 0.999f, 0.5f);
    } else {
        *amount = (double)(bytes / 4);
        add_atomically<<<blocks, threads, 0, stream>>>((float *)memory, bytes / 4);
    }
    return cudaGetLastError();
}

static SnlsStatus best_rate(SnlsContext *ctx, int32_t kind, void *memory, int64_t bytes, double *per_second)
{
    double amount, ms;
    *per_second = 0;
    SNLS_CUDA_TRY(ctx, "device_rate", cudaMemsetAsync(memory, 0, (size_t)bytes, snls_cuda_stream(ctx)));
    for (int run = 0; run < 6; run++) {
        SNLS_TRY(read_clock(ctx, &ms));
        SNLS_CUDA_TRY(ctx, "device_rate", run_rate(ctx, kind, memory, bytes, &amount));
        SNLS_TRY(read_clock(ctx, &ms));
        if (run && ms > 0 && amount / ms * 1e3 > *per_second) *per_second = amount / ms * 1e3;
    }
    return SNLS_OK;
}

static SnlsStatus device_rate(SnlsContext *ctx, int32_t kind, double *per_second)
{
    const int64_t bytes = (int64_t)1 << 30; /* many times the second-level cache */
    void *memory = NULL;
    int before = 0;
    SNLS_TRY(device_alloc(ctx, &memory, bytes));
    SnlsStatus status = snls_cuda_enter(ctx, "device_rate", &before);
    if (status >= 0) status = snls_cuda_leave(before, best_rate(ctx, kind, memory, bytes, per_second));
    device_free(ctx, memory);
    return status;
}

extern "C" const SnlsDevice snls_cuda_device = {.alloc = device_alloc, .free = device_free, .copy = device_copy, .wait = device_wait,
                                                .clock = device_clock, .set_stream = device_set_stream, .rate = device_rate, .name = device_name, .zero = device_zero};
