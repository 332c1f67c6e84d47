/* weights.cu: softmax over the neighbours, one thread a query. Where both tensors are contiguous and K is small a block takes its
 * rows through shared memory, so that memory is read and written in whole lines; else every thread walks its own row. */
#include "cuda/aggregate.cuh"

enum { ROWS = 256, K_MAX = 20 }; /* two tensors of K_MAX in 48 KB */

typedef struct WeightsJob {
    SnlsTensor dist, weight, by_weight; /* dist: the input; in the backward pass its gradient */
    double factor;
    int64_t rows;
    int32_t k, pitch; /* pitch: from row to row in shared memory; k, or odd where rows would lie in the same banks */
    SnlsDivisor by_k;
} WeightsJob;

static __device__ int64_t row_at(const SnlsTensor *t, int64_t row)
{
    int64_t at = 0;
    for (int i = 4; i >= 0; i--) {
        const int64_t rest = row / t->shape[i];
        at += (row - rest * t->shape[i]) * t->stride[i];
        row = rest;
    }
    return at;
}

/* Weights of one row: exp(factor * (d - best)) over their sum. The difference first, so that no score overflows. */
static __device__ __forceinline__ void softmax(const float *dist, int64_t dist_step, float *weight, int64_t step, int32_t k, float factor)
{
    float best = factor < 0 ? INFINITY : -INFINITY, sum = 0;
    for (int32_t i = 0; i < k; i++) {
        const float d = dist[i * dist_step];
        if (isfinite(d)) best = factor < 0 ? fminf(best, d) : fmaxf(best, d);
    }
    for (int32_t i = 0; i < k; i++) {
        const float d = dist[i * dist_step], e = !isfinite(d) ? 0 : factor == 0 ? 1 : expf(factor * (d - best));
        weight[i * step] = e; /* may be where d was */
        sum += e;
    }
    const float by = sum > 0 ? 1 / sum : 0;
    for (int32_t i = 0; i < k; i++) weight[i * step] *= by;
}

static __global__ void __launch_bounds__(ROWS) forward_any(const __grid_constant__ WeightsJob s)
{
    for (SNLS_CUDA_EACH(row, s.rows))
        softmax((const float *)s.dist.data + row_at(&s.dist, row), s.dist.stride[5], (float *)s.weight.data + row_at(&s.weight, row), s.weight.stride[5], s.k,
                (float)s.factor);
}

/* Where element i of a block's rows lies in shared memory. */
static __device__ __forceinline__ uint32_t place_of(const WeightsJob *s, uint32_t i)
{
    return s->pitch == s->k ? i : i + snls_divide(i, s->by_k) * (uint32_t)(s->pitch - s->k);
}

static __global__ void __launch_bounds__(ROWS) forward_packed(const __grid_constant__ WeightsJob s)
{
    extern __shared__ float rows[];
    const int64_t first = (int64_t)blockIdx.x * ROWS, left = s.rows - first;
    const uint32_t count = (uint32_t)(left < ROWS ? left : ROWS) * (uint32_t)s.k;
    const float *const from = (const float *)s.dist.data + first * s.k;
    float *const to = (float *)s.weight.data + first * s.k;
    for (uint32_t i = threadIdx.x; i < count; i += ROWS) rows[place_of(&s, i)] = from[i];
    __syncthreads();
    float *const own = rows + threadIdx.x * (uint32_t)s.pitch;
    if (threadIdx.x < left) softmax(own, 1, own, 1, s.k, (float)s.factor);
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < count; i += ROWS) to[i] = rows[place_of(&s, i)];
}

/* d dist += factor * w * (g - sum w g); a weight of 0 has no part in it */
static __device__ float mean_of(const float *weight, int64_t step, const float *g, int64_t g_step, int64_t k)
{
    float mean = 0;
    for (int64_t i = 0; i < k; i++) {
        const float w = weight[i * step];
        if (w != 0) mean = fmaf(w, g[i * g_step], mean);
    }
    return mean;
}

static __global__ void __launch_bounds__(ROWS) backward_any(const __grid_constant__ WeightsJob s)
{
    for (SNLS_CUDA_EACH(row, s.rows)) {
        const float *const weight = (const float *)s.weight.data + row_at(&s.weight, row), *const g = (const float *)s.by_weight.data + row_at(&s.by_weight, row);
        float *const to = (float *)s.dist.data + row_at(&s.dist, row);
        const float mean = mean_of(weight, s.weight.stride[5], g, s.by_weight.stride[5], s.k);
        for (int64_t i = 0; i < s.k; i++) {
            const float w = weight[i * s.weight.stride[5]];
            if (w != 0) to[i * s.dist.stride[5]] += (float)s.factor * w * (g[i * s.by_weight.stride[5]] - mean);
        }
    }
}

static __global__ void __launch_bounds__(ROWS) backward_packed(const __grid_constant__ WeightsJob s)
{
    extern __shared__ float rows[]; /* weights, then gradients */
    __shared__ float means[ROWS];
    const int64_t first = (int64_t)blockIdx.x * ROWS, left = s.rows - first;
    const uint32_t count = (uint32_t)(left < ROWS ? left : ROWS) * (uint32_t)s.k, second = ROWS * (uint32_t)s.pitch;
    for (uint32_t i = threadIdx.x; i < count; i += ROWS) {
        const uint32_t at = place_of(&s, i);
        rows[at] = ((const float *)s.weight.data)[first * s.k + i];
        rows[second + at] = ((const float *)s.by_weight.data)[first * s.k + i];
    }
    __syncthreads();
    const float *const own = rows + threadIdx.x * (uint32_t)s.pitch;
    if (threadIdx.x < left) means[threadIdx.x] = mean_of(own, 1, own + second, 1, s.k);
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < count; i += ROWS) {
        const uint32_t row = snls_divide(i, s.by_k), at = place_of(&s, i);
        if (rows[at] != 0) ((float *)s.dist.data)[first * s.k + i] += (float)s.factor * rows[at] * (rows[second + at] - means[row]);
    }
}

static bool is_packed(const SnlsTensor *t)
{
    SnlsTensor plain = *t;
    snls_tensor_contiguous(&plain);
    for (int i = 0; i < 6; i++)
        if (t->shape[i] > 1 && t->stride[i] != plain.stride[i]) return false;
    return true;
}

static WeightsJob job_of(const SnlsWeights *s, const SnlsTensor *dist, const SnlsTensor *by_weight)
{
    WeightsJob job = {*dist, s->weight, *by_weight, s->params.dist == SNLS_DIST_PROD ? s->params.scale : -s->params.scale, 0, 0, 0, {0, 0, 0}};
    const int64_t k = dist->shape[5];
    job.rows = k ? snls_tensor_elements(dist) / k : 0;
    job.k = (int32_t)(k < INT32_MAX ? k : 0);
    job.pitch = job.k % 8 ? job.k : job.k | 1;
    job.by_k = snls_divisor(job.k > 0 ? job.k : 1);
    return job;
}

extern "C" SnlsStatus snls_cuda_weights_forward(SnlsContext *ctx, const SnlsWeights *s)
{
    const SnlsTensor none = {};
    SNLS_TRY(snls_cuda_take_numbers(ctx, "weights", "dist", &s->dist));
    SNLS_TRY(snls_cuda_take_numbers(ctx, "weights", "weight", &s->weight));
    SNLS_REQUIRE(ctx, s->dist.shape[5] < INT32_MAX, SNLS_ERR_UNSUPPORTED, "weights: more neighbours than backend cuda takes");
    const WeightsJob job = job_of(s, &s->dist, &none);
    if (!job.rows) return SNLS_OK;
    const unsigned blocks = snls_cuda_blocks(job.rows, ROWS, 0);
    if (job.k <= 2 * K_MAX && is_packed(&s->dist) && is_packed(&s->weight) && (int64_t)blocks * ROWS >= job.rows)
        forward_packed<<<blocks, ROWS, (size_t)(ROWS * job.pitch) * sizeof(float), snls_cuda_stream(ctx)>>>(job);
    else
        forward_any<<<blocks, ROWS, 0, snls_cuda_stream(ctx)>>>(job);
    SNLS_CUDA_LAUNCHED(ctx, "weights");
    return SNLS_OK;
}

extern "C" SnlsStatus snls_cuda_weights_backward(SnlsContext *ctx, const SnlsWeights *s, const SnlsWeightsGrad *g)
{
    SNLS_TRY(snls_cuda_take_numbers(ctx, "weights", "weight", &s->weight));
    SNLS_TRY(snls_cuda_take_numbers(ctx, "weights", "gradient of weight", &g->weight));
    SNLS_TRY(snls_cuda_take_numbers(ctx, "weights", "gradient of dist", &g->dist));
    SNLS_REQUIRE(ctx, s->dist.shape[5] < INT32_MAX, SNLS_ERR_UNSUPPORTED, "weights: more neighbours than backend cuda takes");
    if (!g->dist.data) return SNLS_OK;
    const WeightsJob job = job_of(s, &g->dist, &g->weight);
    if (!job.rows) return SNLS_OK;
    const unsigned blocks = snls_cuda_blocks(job.rows, ROWS, 0);
    if (job.k <= K_MAX && is_packed(&s->weight) && is_packed(&g->weight) && is_packed(&g->dist) && (int64_t)blocks * ROWS >= job.rows)
        backward_packed<<<blocks, ROWS, (size_t)(2 * ROWS * job.pitch) * sizeof(float), snls_cuda_stream(ctx)>>>(job);
    else
        backward_any<<<blocks, ROWS, 0, snls_cuda_stream(ctx)>>>(job);
    SNLS_CUDA_LAUNCHED(ctx, "weights");
    return SNLS_OK;
}
