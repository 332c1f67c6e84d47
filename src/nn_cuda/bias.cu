/* bias.cu: what surrounds a convolution's product: bias, activation and residual in one pass, their gradients in one pass; and the
 * second half of every sum over pixels. */
#include "nn_cuda/value.cuh"

/* ---- sums of parts ---- */

enum { SUM_SIDE = 32 };

typedef struct PartsJob { const float *parts; int64_t rows, columns, split; float *first, *second; } PartsJob;

static __global__ void __launch_bounds__(SUM_SIDE *SUM_SIDE) sum_parts(const __grid_constant__ PartsJob s)
{
    __shared__ float sums[SUM_SIDE][SUM_SIDE + 1];
    const int64_t column = (int64_t)blockIdx.x * SUM_SIDE + threadIdx.x;
    float sum = 0;
    if (column < s.columns)
#pragma unroll 4
        for (int64_t r = threadIdx.y; r < s.rows; r += SUM_SIDE) sum += s.parts[r * s.columns + column];
    sums[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    sum = snls_cuda_warp_sum(sums[threadIdx.x][threadIdx.y]);
    const int64_t c = (int64_t)blockIdx.x * SUM_SIDE + threadIdx.y;
    float *const to = c < s.split ? s.first : s.second;
    if (threadIdx.x == 0 && c < s.columns && to) to[c < s.split ? c : c - s.split] += sum;
}

extern "C" SnlsStatus snls_nn_cuda_sum_parts(SnlsContext *ctx, const float *parts, int64_t rows, int64_t columns, int64_t split, float *first, float *second)
{
    const PartsJob job = {parts, rows, columns, split, first, second};
    sum_parts<<<snls_cuda_blocks(columns, SUM_SIDE, 0), dim3(SUM_SIDE, SUM_SIDE), 0, snls_cuda_stream(ctx)>>>(job);
    SNLS_CUDA_LAUNCHED(ctx, "sum of parts");
    return SNLS_OK;
}

/* ---- forward ---- */

typedef struct EpilogueJob {
    void *y; /* forward: read and written; backward: read */
    const void *residual, *dy;
    void *dz, *dresidual;
    const float *bias;
    float *parts;
    int64_t pixels, channels;
    NnLanes lanes;
    int32_t act;
    float slope;
    bool fresh; /* dresidual is still 0 */
} EpilogueJob;

template <typename T> static __device__ __forceinline__ float act_of(float x, int32_t act, float slope)
{
    if (act == NN_LINEAR || (x > 0 && act != NN_GELU)) return x;
    return act == NN_GELU ? nn_gelu<T>(x) : act == NN_LEAKY ? slope * x : 0;
}

template <typename T, int V> static __global__ void __launch_bounds__(NN_THREADS) epilogue(const __grid_constant__ EpilogueJob s)
{
    const int lane = (int)threadIdx.x % s.lanes.lanes, row = (int)threadIdx.x / s.lanes.lanes, group = (int)blockIdx.y * s.lanes.lanes + lane;
    if (group >= s.lanes.groups) return;
    float bias[V];
#pragma unroll
    for (int i = 0; i < V; i++) bias[i] = s.bias ? s.bias[group * V + i] : 0;
    for (int64_t p = (int64_t)blockIdx.x * s.lanes.rows + row; p < s.pixels; p += (int64_t)gridDim.x * s.lanes.rows) {
        const int64_t at = p * s.channels + group * V;
        float y[V], more[V] = {};
        nn_load<V>((const T *)s.y + at, y);
        if (s.residual) nn_load<V>((const T *)s.residual + at, more);
#pragma unroll
        for (int i = 0; i < V; i++) y[i] = act_of<T>(y[i] + bias[i], s.act, s.slope) + more[i];
        nn_store<V>((T *)s.y + at, y);
    }
}

static EpilogueJob job_of(const SnlsTensor *y, int32_t act, float slope, bool wide)
{
    EpilogueJob job = {};
    job.channels = nn_channels(y);
    job.pixels = snls_tensor_elements(y) / job.channels;
    job.lanes = nn_lanes(job.channels, wide);
    job.act = act;
    job.slope = slope;
    return job;
}

static dim3 grid_of(const SnlsContext *ctx, const EpilogueJob *job, int64_t each)
{
    return dim3(snls_cuda_blocks(job->pixels, job->lanes.rows, each * snls_cuda(ctx)->multiprocessors), (unsigned)job->lanes.chunks);
}

extern "C" SnlsStatus snls_nn_cuda_epilogue(SnlsContext *ctx, const SnlsTensor *y, const SnlsTensor *bias, const SnlsTensor *residual, int32_t act, float slope)
{
    SNLS_TRY(nn_take(ctx, "epilogue", y));
    if (!snls_tensor_elements(y) || (act == NN_LINEAR && !bias->data && !residual->data)) return SNLS_OK;
    const bool wide = nn_channels(y) % NN_WIDE == 0 && nn_aligned(y->data) && nn_aligned(residual->data);
    EpilogueJob job = job_of(y, act, slope, wide);
    job.y = y->data, job.residual = residual->data, job.bias = (const float *)bias->data;
    const dim3 grid = grid_of(ctx, &job, 32);
    const unsigned threads = (unsigned)(job.lanes.lanes * job.lanes.rows);
    NN_BY_TYPE_AND_WIDTH(y->dtype, wide, epilogue<T, V><<<grid, threads, 0, snls_cuda_stream(ctx)>>>(job));
    SNLS_CUDA_LAUNCHED(ctx, "epilogue");
    return SNLS_OK;
}

/* ---- backward ---- */

enum { PARTS_EACH = 4 }; /* blocks that a multiprocessor has at once */

template <typename T, int V> struct Pull { NnPiece<T, V> y, dy, more; }; /* more: what dresidual was */

template <typename T, int V> static __device__ __forceinline__ Pull<T, V> load_pull(const EpilogueJob *s, int64_t at)
{
    Pull<T, V> p = {};
    p.dy = *(const NnPiece<T, V> *)((const T *)s->dy + at);
    if (s->act != NN_LINEAR) p.y = *(const NnPiece<T, V> *)((const T *)s->y + at);
    if (s->dresidual && !s->fresh) p.more = *(const NnPiece<T, V> *)((const T *)s->dresidual + at);
    return p;
}

template <typename T, int V> static __device__ __forceinline__ void apply_pull(const EpilogueJob *s, int64_t at, const Pull<T, V> *p, float *sum)
{
    const float below = s->act == NN_LEAKY ? s->slope : 0;
    float d[V], v[V];
    nn_load<V>((const T *)&p->dy, d);
    if (s->dresidual) {
        nn_load<V>((const T *)&p->more, v);
#pragma unroll
        for (int i = 0; i < V; i++) v[i] += d[i];
        nn_store<V>((T *)s->dresidual + at, v);
    }
    nn_load<V>((const T *)&p->y, v);
#pragma unroll
    for (int i = 0; i < V; i++) {
        if (s->act != NN_LINEAR && !(v[i] > 0)) d[i] *= below;
        sum[i] += d[i];
    }
    if (s->dz) nn_store<V>((T *)s->dz + at, d);
}

template <typename T, int V> static __global__ void __launch_bounds__(NN_THREADS, PARTS_EACH) epilogue_backward(const __grid_constant__ EpilogueJob s)
{
    constexpr int AHEAD = sizeof(T) == 2 ? 2 : 1; /* pixels at a time: all loads before the first store */
    __shared__ float shared[NN_THREADS * V];
    const int lane = (int)threadIdx.x % s.lanes.lanes, row = (int)threadIdx.x / s.lanes.lanes, group = (int)blockIdx.y * s.lanes.lanes + lane;
    const int64_t step = (int64_t)gridDim.x * s.lanes.rows, first = (int64_t)blockIdx.y * s.lanes.lanes * V;
    float sum[V] = {};
    for (int64_t p = (int64_t)blockIdx.x * s.lanes.rows + row; group < s.lanes.groups && p < s.pixels; p += AHEAD * step) {
        Pull<T, V> pull[AHEAD];
#pragma unroll
        for (int a = 0; a < AHEAD; a++)
            if (p + a * step < s.pixels) pull[a] = load_pull<T, V>(&s, (p + a * step) * s.channels + group * V);
#pragma unroll
        for (int a = 0; a < AHEAD; a++)
            if (p + a * step < s.pixels) apply_pull<T, V>(&s, (p + a * step) * s.channels + group * V, &pull[a], sum);
    }
    if (s.parts) nn_sum_rows<V>(sum, shared, s.lanes.lanes, s.lanes.rows, s.parts + blockIdx.x * s.channels + first, (int)(s.channels - first));
}

extern "C" int64_t snls_nn_cuda_epilogue_parts(const SnlsContext *ctx, const SnlsTensor *dy)
{
    return (int64_t)PARTS_EACH * snls_cuda(ctx)->multiprocessors * nn_channels(dy);
}

extern "C" SnlsStatus snls_nn_cuda_epilogue_backward(SnlsContext *ctx, const NnEpilogueGrad *g)
{
    SNLS_TRY(nn_take(ctx, "epilogue", &g->dy));
    SNLS_REQUIRE(ctx, g->act != NN_GELU && g->act != NN_PRELU, SNLS_ERR_UNSUPPORTED, "epilogue: the result of this activation does not tell its derivative");
    SNLS_REQUIRE(ctx, !g->dbias.data || g->parts, SNLS_ERR_ARG, "epilogue: a gradient of the bias needs scratch");
    if (!snls_tensor_elements(&g->dy) || (!g->dz.data && !g->dresidual.data && !g->dbias.data)) return SNLS_OK;
    const bool wide = nn_channels(&g->dy) % NN_WIDE == 0 && nn_aligned(g->y.data) && nn_aligned(g->dy.data) && nn_aligned(g->dz.data) && nn_aligned(g->dresidual.data);
    EpilogueJob job = job_of(&g->dy, g->act, g->slope, wide);
    job.y = g->y.data, job.dy = g->dy.data, job.dz = g->dz.data, job.dresidual = g->dresidual.data, job.parts = g->dbias.data ? g->parts : NULL, job.fresh = g->fresh;
    const dim3 grid = grid_of(ctx, &job, PARTS_EACH);
    const unsigned threads = (unsigned)(job.lanes.lanes * job.lanes.rows);
    NN_BY_TYPE_AND_WIDTH(g->dy.dtype, wide, epilogue_backward<T, V><<<grid, threads, 0, snls_cuda_stream(ctx)>>>(job));
    SNLS_CUDA_LAUNCHED(ctx, "epilogue");
    return job.parts ? snls_nn_cuda_sum_parts(ctx, job.parts, grid.x, job.channels, job.channels, (float *)g->dbias.data, NULL) : SNLS_OK;
}
