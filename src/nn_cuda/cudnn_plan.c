/* cudnn_plan.c: a convolution through cuDNN's graph interface: what it proposes is tried, and the fastest kept. Steps of one shape share
 * a plan. */
#include "nn_cuda/shared.h"
#include <string.h>

struct ConvPlan {
    ConvShape                shape;
    ConvJob                  job;
    cudnnBackendDescriptor_t plan;
    int64_t                  workspace;
};

enum { X = 1, W = 2, Y = 3, PROPOSALS = 8, TRIALS = 3, NOTES = 16 };
/* Bytes an engine may ask for. The others also run without training (transposed convolutions are by data), where memory is for frames. */
static int64_t most_workspace(ConvJob job) { return (int64_t)(job == CONV_BY_WEIGHTS ? 512 : 128) << 20; }

typedef cudnnBackendDescriptor_t Descriptor;

SnlsStatus snls_nn_cudnn_check(SnlsContext *ctx, cudnnStatus_t status, const char *what)
{
    if (status == CUDNN_STATUS_SUCCESS) return SNLS_OK;
    return snls_fail(ctx, status == CUDNN_STATUS_ALLOC_FAILED ? SNLS_ERR_MEMORY : SNLS_ERR_DEVICE, "network: cuDNN says %s to %s", cudnnGetErrorString(status), what);
}

static void destroy(Descriptor *d)
{
    if (*d) (void)cudnnBackendDestroyDescriptor(*d);
    *d = NULL;
}

/* ---- descriptions ---- */

typedef struct Attribute { cudnnBackendAttributeName_t name; cudnnBackendAttributeType_t type; int64_t count; const void *value; } Attribute;

static SnlsStatus make(SnlsContext *ctx, Descriptor *d, cudnnBackendDescriptorType_t type, const Attribute *list, int count, const char *what)
{
    CUDNN(ctx, cudnnBackendCreateDescriptor(type, d), what);
    for (int i = 0; i < count; i++) CUDNN(ctx, cudnnBackendSetAttribute(*d, list[i].name, list[i].type, list[i].count, list[i].value), what);
    CUDNN(ctx, cudnnBackendFinalize(*d), what);
    return SNLS_OK;
}

static cudnnDataType_t type_of(int64_t dtype) { return dtype == SNLS_BF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT; }

/* (a,h,w,c) in memory; cuDNN names the axes a, c, h, w */
static SnlsStatus describe_tensor(SnlsContext *ctx, Descriptor *d, const int64_t *shape, int64_t dtype, int64_t number)
{
    const cudnnDataType_t type = type_of(dtype);
    const int64_t dims[4] = { shape[0], shape[3], shape[1], shape[2] }, align = 16;
    const int64_t strides[4] = { shape[1] * shape[2] * shape[3], 1, shape[2] * shape[3], shape[3] };
    const Attribute list[] = { { CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type }, { CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, dims },
                               { CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, strides },     { CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &number },
                               { CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &align } };
    return make(ctx, d, CUDNN_BACKEND_TENSOR_DESCRIPTOR, list, 5, "a tensor");
}

static SnlsStatus describe_convolution(SnlsContext *ctx, Descriptor *d, const ConvShape *s)
{
    const cudnnDataType_t sums = CUDNN_DATA_FLOAT;
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    const int64_t axes = 2, ones[2] = { 1, 1 }, stride[2] = { s->stride, s->stride }, pad[2] = { s->pad, s->pad };
    const Attribute list[] = { { CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &sums },
                               { CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode },
                               { CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &axes },
                               { CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, ones },
                               { CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2, stride },
                               { CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, pad },
                               { CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2, pad } };
    return make(ctx, d, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, list, 7, "a convolution");
}

typedef struct Graph { Descriptor x, w, y, convolution, operation, graph; } Graph;

static void free_graph(Graph *g)
{
    destroy(&g->graph), destroy(&g->operation), destroy(&g->convolution), destroy(&g->y), destroy(&g->w), destroy(&g->x);
}

static SnlsStatus describe_operation(SnlsContext *ctx, Graph *g, ConvJob job)
{
    static const cudnnBackendDescriptorType_t types[CONV_JOBS] = { CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                                                                   CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                                                                   CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR };
    static const cudnnBackendAttributeName_t names[CONV_JOBS][6] = {
        { CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y },
        { CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY },
        { CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY } };
    const float alpha = 1, beta = 0;
    const cudnnBackendAttributeName_t *n = names[job];
    const Attribute list[] = { { n[0], CUDNN_TYPE_FLOAT, 1, &alpha },
                               { n[1], CUDNN_TYPE_FLOAT, 1, &beta },
                               { n[2], CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &g->convolution },
                               { n[3], CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &g->x },
                               { n[4], CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &g->w },
                               { n[5], CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &g->y } };
    return make(ctx, &g->operation, types[job], list, 6, "an operation");
}

static SnlsStatus describe_graph(SnlsContext *ctx, const NnCudaShared *shared, const ConvShape *s, ConvJob job, Graph *g)
{
    SNLS_TRY(describe_tensor(ctx, &g->x, s->x, s->dtype, X));
    SNLS_TRY(describe_tensor(ctx, &g->w, s->w, s->dtype, W));
    SNLS_TRY(describe_tensor(ctx, &g->y, s->y, s->dtype, Y));
    SNLS_TRY(describe_convolution(ctx, &g->convolution, s));
    SNLS_TRY(describe_operation(ctx, g, job));
    const Attribute list[] = { { CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &g->operation },
                               { CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &shared->cudnn } };
    return make(ctx, &g->graph, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, list, 2, "a graph");
}

/* ---- proposals ---- */

/* What an engine does to numbers: bits by cudnnBackendNumericalNote_t. */
static unsigned notes_of(Descriptor config)
{
    Descriptor engine = NULL;
    cudnnBackendNumericalNote_t notes[NOTES];
    int64_t count = 0;
    unsigned bits = 0;
    if (cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine) != CUDNN_STATUS_SUCCESS) return 0;
    if (cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &engine) == CUDNN_STATUS_SUCCESS &&
        cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, NOTES, &count, notes) == CUDNN_STATUS_SUCCESS)
        for (int64_t i = 0; i < count && i < NOTES; i++) bits |= 1u << notes[i];
    destroy(&engine);
    return bits;
}

/* f32 means f32: no engine that takes fewer bits; winograd's larger errors and fft are not wanted either. */
static bool acceptable(const SnlsContext *ctx, const ConvShape *s, unsigned notes)
{
    const unsigned rough = 1u << CUDNN_NUMERICAL_NOTE_TENSOR_CORE | 1u << CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS | 1u << CUDNN_NUMERICAL_NOTE_FFT |
                           1u << CUDNN_NUMERICAL_NOTE_WINOGRAD | 1u << CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4 | 1u << CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6 |
                           1u << CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13 | 1u << CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION;
    if (ctx->deterministic && notes & 1u << CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) return false;
    if (notes & 1u << CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION) return false;
    return s->dtype != SNLS_F32 || !(notes & rough);
}

/* The plan of a proposal; NULL where the engine refuses. */
static Descriptor plan_of(const NnCudaShared *shared, Descriptor config, ConvJob job, int64_t *workspace)
{
    Descriptor plan = NULL;
    int64_t count = 0;
    if (cudnnBackendCreateDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &plan) != CUDNN_STATUS_SUCCESS) return NULL;
    const bool good = cudnnBackendSetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &shared->cudnn) == CUDNN_STATUS_SUCCESS &&
                      cudnnBackendSetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &config) == CUDNN_STATUS_SUCCESS &&
                      cudnnBackendFinalize(plan) == CUDNN_STATUS_SUCCESS &&
                      cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &count, workspace) == CUDNN_STATUS_SUCCESS;
    if (!good || *workspace > most_workspace(job)) destroy(&plan);
    return plan;
}

static SnlsStatus resize_workspace(SnlsContext *ctx, NnCudaShared *shared, int64_t bytes)
{
    CUDA(ctx, cudaStreamSynchronize((cudaStream_t)ctx->stream), "waiting");
    CUDA(ctx, cudaFree(shared->workspace), "giving memory back");
    shared->workspace = NULL, shared->workspace_bytes = 0;
    if (bytes) CUDA(ctx, cudaMalloc(&shared->workspace, (size_t)bytes), "memory for a convolution");
    shared->workspace_bytes = bytes;
    return SNLS_OK;
}

static SnlsStatus need_workspace(SnlsContext *ctx, NnCudaShared *shared, int64_t bytes)
{
    return bytes <= shared->workspace_bytes ? SNLS_OK : resize_workspace(ctx, shared, bytes);
}

/* As much as the plans need: what only those needed that were tried and not taken is given back, and what a trial that found no memory gave back is taken again. */
static SnlsStatus fit_workspace(SnlsContext *ctx, NnCudaShared *shared)
{
    int64_t most = 0;
    for (int64_t i = 0; i < shared->plan_count; i++)
        if (shared->plans[i].workspace > most) most = shared->plans[i].workspace;
    return most != shared->workspace_bytes ? resize_workspace(ctx, shared, most) : SNLS_OK;
}

static SnlsStatus execute(SnlsContext *ctx, const NnCudaShared *shared, Descriptor plan, const ConvData *data)
{
    Descriptor pack = NULL;
    void *const pointers[3] = { data->x, data->w, data->y };
    const int64_t numbers[3] = { X, W, Y };
    const Attribute list[] = { { CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 3, pointers },
                               { CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 3, numbers },
                               { CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &shared->workspace } };
    SnlsStatus status = make(ctx, &pack, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, list, 3, "the places of tensors");
    if (status >= 0) status = snls_nn_cudnn_check(ctx, cudnnBackendExecute(shared->cudnn, plan, pack), "run a convolution");
    destroy(&pack);
    return status;
}

/* Milliseconds; a plan that fails is none. */
static bool time_plan(SnlsContext *ctx, NnCudaShared *shared, Descriptor plan, int64_t workspace, const ConvData *data, float *best)
{
    cudaStream_t stream = (cudaStream_t)ctx->stream;
    if (need_workspace(ctx, shared, workspace) < 0 || execute(ctx, shared, plan, data) < 0) return false;
    *best = 1e30f;
    for (int i = 0; i < TRIALS; i++) {
        float ms = 0;
        if (cudaEventRecord(shared->clock[0], stream) != cudaSuccess || execute(ctx, shared, plan, data) < 0 ||
            cudaEventRecord(shared->clock[1], stream) != cudaSuccess || cudaEventSynchronize(shared->clock[1]) != cudaSuccess ||
            cudaEventElapsedTime(&ms, shared->clock[0], shared->clock[1]) != cudaSuccess)
            return false;
        if (ms < *best) *best = ms;
    }
    return true;
}

typedef struct Choice { Descriptor plan; int64_t workspace; float ms; } Choice;

static void consider(SnlsContext *ctx, NnCudaShared *shared, const ConvShape *s, ConvJob job, Descriptor config, const ConvData *data, Choice *best)
{
    Choice c = { 0 };
    if (!acceptable(ctx, s, notes_of(config)) || (ctx->deterministic && best->plan)) return;
    c.plan = plan_of(shared, config, job, &c.workspace);
    if (!c.plan) return;
    if (ctx->deterministic ? need_workspace(ctx, shared, c.workspace) >= 0 : time_plan(ctx, shared, c.plan, c.workspace, data, &c.ms)) {
        if (!best->plan || c.ms < best->ms * (c.workspace > best->workspace ? 0.97f : 1)) { /* memory is not worth the last percents */
            const Choice was = *best;
            *best = c, c = was;
        }
    }
    destroy(&c.plan);
}

static SnlsStatus consider_proposals(SnlsContext *ctx, NnCudaShared *shared, const ConvShape *s, ConvJob job, const Graph *g, cudnnBackendHeurMode_t mode, const ConvData *data, Choice *best)
{
    Descriptor heuristic = NULL, configs[PROPOSALS] = { NULL };
    int64_t count = 0;
    const Attribute list[] = { { CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &g->graph }, { CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode } };
    SnlsStatus status = make(ctx, &heuristic, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, list, 2, "proposals");
    for (int i = 0; status >= 0 && i < PROPOSALS; i++)
        status = snls_nn_cudnn_check(ctx, cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &configs[i]), "proposals");
    if (status >= 0)
        status = snls_nn_cudnn_check(ctx, cudnnBackendGetAttribute(heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, PROPOSALS, &count, configs), "proposals");
    for (int64_t i = 0; status >= 0 && i < count && i < PROPOSALS; i++) consider(ctx, shared, s, job, configs[i], data, best);
    for (int i = 0; i < PROPOSALS; i++) destroy(&configs[i]);
    destroy(&heuristic);
    return status;
}

/* ---- plans of a network ---- */

static ConvPlan *room_for_plan(SnlsContext *ctx, NnCudaShared *shared)
{
    if (shared->plan_count == shared->plan_room) {
        const int64_t room = shared->plan_room ? 2 * shared->plan_room : 64;
        ConvPlan *more = snls_mem_alloc(&ctx->allocator, room * (int64_t)sizeof *more);
        if (!more) return NULL;
        if (shared->plan_count) memcpy(more, shared->plans, (size_t)shared->plan_count * sizeof *more);
        snls_mem_free(&ctx->allocator, shared->plans);
        shared->plans = more, shared->plan_room = room;
    }
    return &shared->plans[shared->plan_count];
}

SnlsStatus snls_nn_cuda_plan(SnlsContext *ctx, NnCudaShared *shared, const ConvShape *shape, ConvJob job, const ConvData *data, int64_t *plan)
{
    for (int64_t i = 0; i < shared->plan_count; i++)
        if (shared->plans[i].job == job && !memcmp(&shared->plans[i].shape, shape, sizeof *shape)) return *plan = i, SNLS_OK;
    Graph g = { 0 };
    Choice best = { 0 };
    SnlsStatus status = describe_graph(ctx, shared, shape, job, &g);
    if (status >= 0) status = consider_proposals(ctx, shared, shape, job, &g, CUDNN_HEUR_MODE_A, data, &best);
    if (status >= 0 && !best.plan) status = consider_proposals(ctx, shared, shape, job, &g, CUDNN_HEUR_MODE_FALLBACK, data, &best);
    free_graph(&g);
    SNLS_TRY(status);
    SNLS_REQUIRE(ctx, best.plan, SNLS_ERR_UNSUPPORTED, "network: cuDNN has no way to do a convolution of %lld channels to %lld with a %lldx%lld kernel", (long long)shape->x[3],
                 (long long)shape->y[3], (long long)shape->w[1], (long long)shape->w[1]);
    ConvPlan *p = room_for_plan(ctx, shared);
    if (!p) destroy(&best.plan);
    SNLS_REQUIRE(ctx, p, SNLS_ERR_MEMORY, "network: no memory for a list of convolutions");
    *p = (ConvPlan){ *shape, job, best.plan, best.workspace };
    *plan = shared->plan_count++;
    return fit_workspace(ctx, shared);
}

SnlsStatus snls_nn_cuda_conv_run(SnlsContext *ctx, NnCudaShared *shared, int64_t plan, const ConvData *data) { return execute(ctx, shared, shared->plans[plan].plan, data); }

void snls_nn_cuda_plans_free(SnlsContext *ctx, NnCudaShared *shared)
{
    for (int64_t i = 0; i < shared->plan_count; i++) destroy(&shared->plans[i].plan);
    snls_mem_free(&ctx->allocator, shared->plans);
    shared->plans = NULL, shared->plan_count = shared->plan_room = 0;
}
