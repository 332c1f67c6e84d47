/* backend.cu: opening the cuda backend, its scratch, and its table, the only thing that libsnls_cuda.so exports. */
#include "cuda/cuda.h"

/* ---- scratch: the context's arena over memory of the device ---- */

static void *scratch_alloc(size_t bytes, void *opaque)
{
    void *block = NULL;
    (void)opaque;
    if (cudaMalloc(&block, bytes) == cudaSuccess) return block;
    (void)cudaGetLastError();
    return NULL;
}

/* A block that a captured graph uses, which may be run as long as the context is open. */
typedef struct CudaKept { void *block; struct CudaKept *next; } CudaKept;

static void free_block(void *block)
{
    if (cudaFree(block) != cudaSuccess) (void)cudaGetLastError(); /* waits for the work that uses it */
}

static void scratch_free(void *block, void *opaque)
{
    SnlsContext *ctx = (SnlsContext *)opaque;
    SnlsCuda *cuda = snls_cuda(ctx);
    if (!ctx->arena.captured) {
        free_block(block);
        return;
    }
    CudaKept *kept = (CudaKept *)snls_mem_alloc(&ctx->allocator, sizeof *kept);
    if (!kept) return; /* no memory to remember it by: it stays until the process ends */
    *kept = {block, cuda->kept};
    cuda->kept = kept;
}

static void free_kept(SnlsContext *ctx)
{
    SnlsCuda *cuda = snls_cuda(ctx);
    while (cuda->kept) {
        CudaKept *kept = cuda->kept;
        cuda->kept = kept->next;
        free_block(kept->block);
        snls_mem_free(&ctx->allocator, kept);
    }
}

/* ---- opening ---- */

static SnlsStatus describe(SnlsContext *ctx, SnlsCuda *cuda)
{
    cudaDeviceProp prop;
    SNLS_CUDA_TRY(ctx, "open", cudaGetDeviceProperties(&prop, cuda->device));
    cuda->multiprocessors = prop.multiProcessorCount;
    cuda->capability = 10 * prop.major + prop.minor;
    cuda->shared_limit = prop.sharedMemPerBlockOptin;
    snprintf(cuda->name, sizeof cuda->name, "%s", prop.name);
    SNLS_REQUIRE(ctx, cuda->capability >= 75, SNLS_ERR_DEVICE, "open: GPU %d (%s) has compute capability %d.%d, 7.5 is needed", cuda->device,
                 prop.name, prop.major, prop.minor);
    for (int i = 0; i < 2; i++) SNLS_CUDA_TRY(ctx, "open", cudaEventCreate(&cuda->clock[i]));
    return SNLS_OK;
}

static SnlsStatus cuda_open(SnlsContext *ctx)
{
    int count = 0, before = 0;
    const cudaError_t error = cudaGetDeviceCount(&count);
    if (error != cudaSuccess) (void)cudaGetLastError();
    SNLS_REQUIRE(ctx, error == cudaSuccess && count > 0, SNLS_ERR_DEVICE, "open: backend cuda finds no GPU: %s",
                 error == cudaSuccess ? "the driver shows none" : cudaGetErrorString(error));
    SNLS_REQUIRE(ctx, ctx->device_id >= 0 && ctx->device_id < count, SNLS_ERR_DEVICE, "open: device_id is %d, there are %d GPUs", (int)ctx->device_id, count);
    SnlsCuda *cuda = (SnlsCuda *)snls_mem_alloc(&ctx->allocator, sizeof *cuda);
    if (!cuda) return snls_fail(ctx, SNLS_ERR_MEMORY, "open: out of memory");
    memset(cuda, 0, sizeof *cuda);
    cuda->device = ctx->device_id;
    ctx->priv = cuda;
    ctx->cpu_level = SNLS_CPU_C;
    ctx->scratch.alloc = scratch_alloc;
    ctx->scratch.free = scratch_free;
    ctx->scratch.opaque = ctx;
    ctx->arena.device = true;
    SNLS_TRY(snls_cuda_enter(ctx, "open", &before));
    return snls_cuda_leave(before, describe(ctx, cuda));
}

static void cuda_close(SnlsContext *ctx)
{
    SnlsCuda *cuda = snls_cuda(ctx);
    if (cuda) free_kept(ctx);
    for (int i = 0; cuda && i < 2; i++)
        if (cuda->clock[i]) (void)cudaEventDestroy(cuda->clock[i]);
    snls_mem_free(&ctx->allocator, cuda);
    ctx->priv = NULL;
}

/* ---- the table: every call runs with the context's GPU current and leaves the caller's ---- */

#define X(op, Op)                                                                                          \
    static SnlsStatus op##_forward(SnlsContext *ctx, const Snls##Op *s)                                    \
    {                                                                                                      \
        int before = 0;                                                                                    \
        SNLS_TRY(snls_cuda_enter(ctx, #op, &before));                                                      \
        return snls_cuda_leave(before, snls_cuda_##op##_forward(ctx, s));                                  \
    }                                                                                                      \
    static SnlsStatus op##_backward(SnlsContext *ctx, const Snls##Op *s, const Snls##Op##Grad *g)          \
    {                                                                                                      \
        int before = 0;                                                                                    \
        SNLS_TRY(snls_cuda_enter(ctx, #op, &before));                                                      \
        return snls_cuda_leave(before, snls_cuda_##op##_backward(ctx, s, g));                              \
    }
SNLS_OPS(X)
#undef X

static SnlsBackend make_table(void)
{
    SnlsBackend table = {};
    table.name = "cuda";
    table.device = SNLS_DEVICE_CUDA;
    table.memory = &snls_cuda_device;
    table.open = cuda_open;
    table.close = cuda_close;
#define X(op, Op)                                                                    \
    table.op##_forward = snls_cuda_##op##_forward ? op##_forward : NULL;             \
    table.op##_backward = snls_cuda_##op##_backward ? op##_backward : NULL;
    SNLS_OPS(X)
#undef X
    return table;
}

/* The table is filled once, by whoever asks first: contexts of other threads read it meanwhile. */
extern "C" SNLS_API const SnlsBackend *snls_cuda_backend(int32_t api_version, size_t context_size)
{
    static const SnlsBackend table = make_table();
    return api_version == SNLS_API_VERSION && context_size == sizeof(SnlsContext) ? &table : NULL;
}
