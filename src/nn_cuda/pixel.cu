/* pixel.cu: what is done to each number alone: activations and sums of two values. */
#include "nn_cuda/value.cuh"

typedef struct PixelJob {
    const void *x[2], *dy;
    void *y, *dx[2];
    const float *slope_at; /* prelu's, NULL: slope */
    float *parts;          /* of prelu's gradient, one for each block */
    int64_t count;
    float a, b, slope;
    int32_t act;
    bool fresh[2]; /* dx is still 0 */
} PixelJob;

/* Every piece of V numbers from the first on; what is left, fewer than V, a second walk with V = 1 takes. */
#define EACH_PIECE(i, first, count) \
    int64_t i = (first) + ((int64_t)blockIdx.x * NN_THREADS + threadIdx.x) * V; i + V <= (count); i += (int64_t)gridDim.x * NN_THREADS * V

/* ---- act ---- */

static __device__ __forceinline__ float slope_of(const PixelJob *s) { return s->slope_at ? *s->slope_at : s->slope; }

template <typename T, int V> static __device__ void act_pieces(const PixelJob *s, int64_t first)
{
    const float slope = slope_of(s);
    for (EACH_PIECE(at, first, s->count)) {
        float v[V];
        nn_load<V>((const T *)s->x[0] + at, v);
#pragma unroll
        for (int i = 0; i < V; i++) v[i] = s->act == NN_GELU ? nn_gelu<T>(v[i]) : v[i] > 0 ? v[i] : slope * v[i];
        nn_store<V>((T *)s->y + at, v);
    }
}

template <typename T> static __device__ __forceinline__ float gelu_slope(float x)
{
    const NnNormal n = nn_normal<T>(x);
    return n.upto + x * 0.39894228f * n.bell;
}

/* Returns this thread's part of the slope's gradient. */
template <typename T, int V> static __device__ float act_pieces_backward(const PixelJob *s, int64_t first)
{
    const float slope = slope_of(s);
    float sum = 0;
    for (EACH_PIECE(at, first, s->count)) {
        float x[V], d[V];
        nn_load<V>((const T *)s->x[0] + at, x);
        nn_load<V>((const T *)s->dy + at, d);
#pragma unroll
        for (int i = 0; i < V; i++) {
            if (!(x[i] > 0)) sum += d[i] * x[i];
            d[i] *= s->act == NN_GELU ? gelu_slope<T>(x[i]) : x[i] > 0 ? 1 : slope;
        }
        if (s->dx[0]) nn_add_to<V>((T *)s->dx[0] + at, d, s->fresh[0]);
    }
    return sum;
}

template <typename T, int V> static __global__ void __launch_bounds__(NN_THREADS) act_forward(const __grid_constant__ PixelJob s)
{
    act_pieces<T, V>(&s, 0);
    if (V > 1) act_pieces<T, 1>(&s, s.count / V * V);
}

template <typename T, int V> static __global__ void __launch_bounds__(NN_THREADS) act_backward(const __grid_constant__ PixelJob s)
{
    __shared__ float sums[NN_THREADS / 32];
    float sum = act_pieces_backward<T, V>(&s, 0);
    if (V > 1) sum += act_pieces_backward<T, 1>(&s, s.count / V * V);
    if (!s.parts) return;
    sum = snls_cuda_warp_sum(sum);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x) return;
    for (int i = 1; i < NN_THREADS / 32; i++) sum += sums[i];
    s.parts[blockIdx.x] = sum;
}

static PixelJob act_job(const NnStep *s)
{
    PixelJob job = {};
    job.x[0] = s->x[0].data, job.y = s->y[0].data, job.dy = s->dy[0].data, job.dx[0] = s->dx[0].data;
    job.fresh[0] = s->fresh[0];
    job.count = snls_tensor_elements(&s->x[0]);
    job.act = s->u.act.act;
    job.slope = job.act == NN_LEAKY ? (float)s->u.act.slope : 0;
    job.slope_at = job.act == NN_PRELU ? (const float *)s->p[0].data : NULL;
    return job;
}

static bool pieces_aligned(const PixelJob *j) { return nn_aligned(j->x[0]) && nn_aligned(j->x[1]) && nn_aligned(j->dy) && nn_aligned(j->y) && nn_aligned(j->dx[0]) && nn_aligned(j->dx[1]); }

static unsigned blocks_for(const SnlsContext *ctx, const PixelJob *job, bool wide, int64_t each)
{
    return snls_cuda_blocks(job->count, NN_THREADS * (wide ? NN_WIDE : 1), each * snls_cuda(ctx)->multiprocessors);
}

extern "C" SnlsStatus snls_nn_cuda_act_forward(SnlsContext *ctx, NnStep *s)
{
    SNLS_TRY(nn_take(ctx, "act", &s->x[0]));
    const PixelJob job = act_job(s);
    const bool wide = pieces_aligned(&job);
    const unsigned blocks = blocks_for(ctx, &job, wide, 32);
    NN_BY_TYPE_AND_WIDTH(s->x[0].dtype, wide, act_forward<T, V><<<blocks, NN_THREADS, 0, snls_cuda_stream(ctx)>>>(job));
    SNLS_CUDA_LAUNCHED(ctx, "act");
    return SNLS_OK;
}

extern "C" SnlsStatus snls_nn_cuda_act_backward(SnlsContext *ctx, NnStep *s)
{
    SNLS_TRY(nn_take(ctx, "act", &s->x[0]));
    PixelJob job = act_job(s);
    const bool wide = pieces_aligned(&job);
    const unsigned blocks = blocks_for(ctx, &job, wide, 8);
    snls_arena_begin(&ctx->arena);
    snls_arena_plan(&ctx->arena, s->dp[0].data ? blocks : 0, sizeof(float));
    SNLS_TRY(snls_cuda_commit(ctx, "act"));
    job.parts = (float *)snls_arena_claim(&ctx->arena, s->dp[0].data ? blocks : 0, sizeof(float));
    NN_BY_TYPE_AND_WIDTH(s->x[0].dtype, wide, act_backward<T, V><<<blocks, NN_THREADS, 0, snls_cuda_stream(ctx)>>>(job));
    SNLS_CUDA_LAUNCHED(ctx, "act");
    return job.parts ? snls_nn_cuda_sum_parts(ctx, job.parts, blocks, 1, 1, (float *)s->dp[0].data, NULL) : SNLS_OK;
}

/* ---- add ---- */

template <typename T, int V> static __device__ void add_pieces(const PixelJob *s, int64_t first)
{
    for (EACH_PIECE(at, first, s->count)) {
        float v[V], w[V] = {};
        nn_load<V>((const T *)s->x[0] + at, v);
        if (s->x[1]) nn_load<V>((const T *)s->x[1] + at, w);
#pragma unroll
        for (int i = 0; i < V; i++) v[i] = s->a * v[i] + s->b * w[i];
        nn_store<V>((T *)s->y + at, v);
    }
}

/* One after the other: both may be the same value. */
template <typename T, int V> static __device__ void add_pieces_backward(const PixelJob *s, int64_t first)
{
    for (EACH_PIECE(at, first, s->count)) {
        float d[V], v[V];
        nn_load<V>((const T *)s->dy + at, d);
#pragma unroll
        for (int k = 0; k < 2; k++) {
#pragma unroll
            for (int i = 0; i < V; i++) v[i] = (k ? s->b : s->a) * d[i];
            if (s->dx[k]) nn_add_to<V>((T *)s->dx[k] + at, v, s->fresh[k]);
        }
    }
}

template <typename T, int V> static __global__ void __launch_bounds__(NN_THREADS) add_forward(const __grid_constant__ PixelJob s)
{
    add_pieces<T, V>(&s, 0);
    if (V > 1) add_pieces<T, 1>(&s, s.count / V * V);
}

template <typename T, int V> static __global__ void __launch_bounds__(NN_THREADS) add_backward(const __grid_constant__ PixelJob s)
{
    add_pieces_backward<T, V>(&s, 0);
    if (V > 1) add_pieces_backward<T, 1>(&s, s.count / V * V);
}

static PixelJob add_job(const NnStep *s)
{
    PixelJob job = {};
    for (int i = 0; i < 2; i++) job.x[i] = s->x[i].data, job.dx[i] = s->dx[i].data, job.fresh[i] = s->fresh[i];
    job.y = s->y[0].data, job.dy = s->dy[0].data;
    job.count = snls_tensor_elements(&s->y[0]);
    job.a = (float)s->u.add.a, job.b = (float)s->u.add.b;
    return job;
}

static SnlsStatus run_add(SnlsContext *ctx, const PixelJob *job, int32_t dtype)
{
    const bool wide = pieces_aligned(job);
    const unsigned blocks = blocks_for(ctx, job, wide, 32);
    NN_BY_TYPE_AND_WIDTH(dtype, wide, add_forward<T, V><<<blocks, NN_THREADS, 0, snls_cuda_stream(ctx)>>>(*job));
    SNLS_CUDA_LAUNCHED(ctx, "add");
    return SNLS_OK;
}

extern "C" SnlsStatus snls_nn_cuda_add_forward(SnlsContext *ctx, NnStep *s)
{
    SNLS_TRY(nn_take(ctx, "add", &s->y[0]));
    const PixelJob job = add_job(s);
    return run_add(ctx, &job, s->y[0].dtype);
}

extern "C" SnlsStatus snls_nn_cuda_add_to(SnlsContext *ctx, int32_t dtype, int64_t count, const void *from, void *to)
{
    PixelJob job = {};
    job.x[0] = from, job.x[1] = job.y = to;
    job.count = count;
    job.a = job.b = 1;
    return run_add(ctx, &job, dtype);
}

extern "C" SnlsStatus snls_nn_cuda_add_backward(SnlsContext *ctx, NnStep *s)
{
    SNLS_TRY(nn_take(ctx, "add", &s->y[0]));
    const PixelJob job = add_job(s);
    const bool wide = pieces_aligned(&job);
    const unsigned blocks = blocks_for(ctx, &job, wide, 32);
    if (!job.dx[0] && !job.dx[1]) return SNLS_OK;
    NN_BY_TYPE_AND_WIDTH(s->y[0].dtype, wide, add_backward<T, V><<<blocks, NN_THREADS, 0, snls_cuda_stream(ctx)>>>(job));
    SNLS_CUDA_LAUNCHED(ctx, "add");
    return SNLS_OK;
}
