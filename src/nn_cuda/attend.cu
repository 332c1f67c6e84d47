/* attend.cu: attention inside windows. A block takes one window and head at a time: its tokens, their scores and, going backward,
 * the scores' gradients lie in shared memory as far as it reaches, the rest in scratch of the block's own. Every block has a fixed
 * list of windows and its own part of the gradients of parameters, so sums are made in a fixed order. */
#include "nn_cuda/attend.cuh"

typedef struct Head {
    float *plane[PLANES];
    int32_t *pixel, *region, *line; /* of each token; line: its row in the table, but for a constant */
    int32_t head;
} Head;

static __device__ Head head_in(const AttendJob *s, float *shared)
{
    Head h;
    h.pixel = (int32_t *)shared, h.region = h.pixel + s->tokens, h.line = h.region + s->tokens;
    for (int i = 0; i < PLANES; i++) h.plane[i] = s->far[i] ? s->scratch + blockIdx.x * s->each + s->at[i] : shared + s->at[i];
    return h;
}

static __device__ void find_tokens(const AttendJob *s, int64_t window, const Head *h)
{
    for (int i = (int)threadIdx.x; i < s->tokens; i += NN_THREADS) attend_token(s, window, i, &h->pixel[i], &h->region[i], &h->line[i]);
    __syncthreads();
}

/* ---- planes: tokens x features, pitched so that a column lies in all banks ---- */

template <typename T> static __device__ void load_plane(const AttendJob *s, const Head *h, int plane, const void *from, int32_t channels, int32_t first)
{
    const int n = s->tokens * s->features;
    for (int i = (int)threadIdx.x; i < n; i += NN_THREADS) {
        const int token = i / s->features, f = i % s->features;
        float v = plane != OUT && s->bias ? s->bias[first + f] : 0; /* what padding is */
        if (h->pixel[token] >= 0) nn_load<1>((const T *)from + (int64_t)h->pixel[token] * channels + first + f, &v);
        h->plane[plane][token * s->pitch + f] = v;
    }
}

template <typename T> static __device__ void load_head(const AttendJob *s, const Head *h)
{
    for (int part = QUERY; part <= VALUE; part++) load_plane<T>(s, h, part, s->x, 3 * s->channels, part * s->channels + h->head * s->features);
}

/* c (m x n) = factor * a * b, element (i, l) of a at i * ai + l * al, (l, j) of b at l * bl + j * bj. A thread has 4 x 4 of c, far
 * apart, so that neighbouring threads have neighbouring columns. */
static __device__ void product(float *c, int pitch, const float *a, int ai, int al, const float *b, int bl, int bj, int m, int n, int k, float factor)
{
    const int down = (m + 3) / 4, across = (n + 3) / 4;
    for (int tile = (int)threadIdx.x; tile < down * across; tile += NN_THREADS) {
        float sum[4][4] = {};
        int i[4], j[4];
#pragma unroll
        for (int r = 0; r < 4; r++) i[r] = tile / across + r * down, j[r] = tile % across + r * across;
        for (int l = 0; l < k; l++) {
            float x[4], y[4];
#pragma unroll
            for (int r = 0; r < 4; r++) x[r] = a[min(i[r], m - 1) * ai + l * al], y[r] = b[l * bl + min(j[r], n - 1) * bj];
#pragma unroll
            for (int r = 0; r < 16; r++) sum[r / 4][r % 4] += x[r / 4] * y[r % 4];
        }
#pragma unroll
        for (int r = 0; r < 16; r++)
            if (i[r / 4] < m && j[r % 4] < n) c[i[r / 4] * pitch + j[r % 4]] = factor * sum[r / 4][r % 4];
    }
    __syncthreads();
}

/* Weights of row i: softmax of scores, bias and mask, by one warp. */
static __device__ void softmax_row(const AttendJob *s, const Head *h, int i, int lane)
{
    float *const row = h->plane[SCORE] + (int64_t)i * s->wide, largest = -INFINITY, sum = 0;
    for (int j = lane; j < s->tokens; j += 32) {
        const float bias = s->table[(h->line[i] - h->line[j] + s->origin) * s->heads + h->head];
        row[j] += bias + (h->region[i] != h->region[j] ? (float)NN_MASKED : 0);
        largest = fmaxf(largest, row[j]);
    }
    for (int step = 16; step > 0; step /= 2) largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, step));
    for (int j = lane; j < s->tokens; j += 32) sum += row[j] = expf(row[j] - largest);
    const float by = 1 / snls_cuda_warp_sum(sum);
    for (int j = lane; j < s->tokens; j += 32) row[j] *= by;
}

static __device__ void find_weights(const AttendJob *s, const Head *h)
{
    const int n = s->tokens;
    __syncthreads();
    product(h->plane[SCORE], s->wide, h->plane[QUERY], s->pitch, 1, h->plane[KEY], 1, s->pitch, n, n, s->features, s->scale);
    for (int i = (int)threadIdx.x / 32; i < n; i += NN_THREADS / 32) softmax_row(s, h, i, (int)threadIdx.x % 32);
    __syncthreads();
}

template <typename T> static __global__ void __launch_bounds__(NN_THREADS) attend_forward(const __grid_constant__ AttendJob s)
{
    extern __shared__ float shared[];
    Head h = head_in(&s, shared);
    const int n = s.tokens, f = s.features;
    for (int64_t job = blockIdx.x; job < s.jobs; job += gridDim.x) {
        h.head = (int32_t)(job % s.heads);
        find_tokens(&s, job / s.heads, &h);
        load_head<T>(&s, &h);
        find_weights(&s, &h);
        product(h.plane[OUT], s.pitch, h.plane[SCORE], s.wide, 1, h.plane[VALUE], s.pitch, 1, n, f, n, 1);
        for (int i = (int)threadIdx.x; i < n * f; i += NN_THREADS)
            if (h.pixel[i / f] >= 0) nn_store<1>((T *)s.y + (int64_t)h.pixel[i / f] * s.channels + h.head * f + i % f, &h.plane[OUT][i / f * s.pitch + i % f]);
        __syncthreads();
    }
}

/* ---- backward ---- */

static __device__ void through_softmax(const AttendJob *s, const Head *h)
{
    const int lane = (int)threadIdx.x % 32;
    for (int i = (int)threadIdx.x / 32; i < s->tokens; i += NN_THREADS / 32) {
        const float *const a = h->plane[SCORE] + (int64_t)i * s->wide;
        float *const d = h->plane[BY_SCORE] + (int64_t)i * s->wide, along = 0;
        for (int j = lane; j < s->tokens; j += 32) along += d[j] * a[j];
        along = snls_cuda_warp_sum(along);
        for (int j = lane; j < s->tokens; j += 32) d[j] = (d[j] - along) * a[j];
    }
    __syncthreads();
}

/* A thread has a row of the table, and finds the pairs of tokens that stand so to each other. */
static __device__ void pull_table(const AttendJob *s, const Head *h, float *part)
{
    for (int row = (int)threadIdx.x; row < s->rows; row += NN_THREADS) {
        const AttendStep by = attend_step(s, row);
        const int step = (int)((by.d * s->w.window[1] + by.h) * s->w.window[2]) + by.w;
        float sum = 0;
        for (int j = max(0, -step); j < s->tokens && j + step < s->tokens; j++)
            if (h->line[j + step] - h->line[j] + s->origin == row) sum += h->plane[BY_SCORE][(int64_t)(j + step) * s->wide + j];
        part[row * s->heads + h->head] += sum;
    }
}

/* Gradients of a plane to x, and those of padding to the bias it stands for. */
template <typename T> static __device__ void give_back(const AttendJob *s, const Head *h, int plane, int part, float *by_bias)
{
    const int f = s->features, first = part * s->channels + h->head * f;
    for (int i = (int)threadIdx.x; s->dx && i < s->tokens * f; i += NN_THREADS)
        if (h->pixel[i / f] >= 0) nn_add_to<1>((T *)s->dx + (int64_t)h->pixel[i / f] * 3 * s->channels + first + i % f, &h->plane[plane][i / f * s->pitch + i % f], s->fresh);
    for (int k = (int)threadIdx.x; by_bias && k < f; k += NN_THREADS) {
        float sum = 0;
        for (int i = 0; i < s->tokens; i++) sum += h->pixel[i] < 0 ? h->plane[plane][i * s->pitch + k] : 0;
        by_bias[first + k] += sum;
    }
}

template <typename T> static __global__ void __launch_bounds__(NN_THREADS) attend_backward(const __grid_constant__ AttendJob s)
{
    extern __shared__ float shared[];
    Head h = head_in(&s, shared);
    const int n = s.tokens, f = s.features, p = s.pitch, columns = s.rows * s.heads + (s.bias ? 3 * s.channels : 0);
    float *const part = s.parts ? s.parts + (int64_t)blockIdx.x * columns : NULL, *const by_bias = part && s.bias ? part + s.rows * s.heads : NULL;
    float *const *const v = h.plane;
    for (int i = (int)threadIdx.x; part && i < columns; i += NN_THREADS) part[i] = 0;
    for (int64_t job = blockIdx.x; job < s.jobs; job += gridDim.x) {
        h.head = (int32_t)(job % s.heads);
        find_tokens(&s, job / s.heads, &h);
        load_head<T>(&s, &h);
        load_plane<T>(&s, &h, OUT, s.dy, s.channels, h.head * f);
        find_weights(&s, &h);
        product(v[BY_SCORE], s.wide, v[OUT], p, 1, v[VALUE], 1, p, n, n, f, 1);
        product(v[VALUE], p, v[SCORE], 1, s.wide, v[OUT], p, 1, n, f, n, 1); /* what is no longer needed makes room */
        through_softmax(&s, &h);
        product(v[OUT], p, v[BY_SCORE], s.wide, 1, v[KEY], p, 1, n, f, n, s.scale);
        product(v[KEY], p, v[BY_SCORE], 1, s.wide, v[QUERY], p, 1, n, f, n, s.scale);
        give_back<T>(&s, &h, OUT, QUERY, by_bias);
        give_back<T>(&s, &h, KEY, KEY, by_bias);
        give_back<T>(&s, &h, VALUE, VALUE, by_bias);
        if (part) pull_table(&s, &h, part);
        __syncthreads();
    }
}

/* ---- launches ---- */

static AttendJob attend_job(const NnStep *s)
{
    AttendJob job = {};
    job.w = snls_nn_windows(s);
    job.x = s->x[0].data, job.y = s->y[0].data, job.dy = s->dy[0].data, job.dx = s->dx[0].data;
    job.table = (const float *)s->p[0].data, job.bias = (const float *)s->p[1].data;
    job.tokens = (int32_t)job.w.tokens, job.features = (int32_t)job.w.features, job.heads = (int32_t)job.w.heads, job.rows = (int32_t)s->p[0].shape[0];
    job.channels = (int32_t)nn_channels(&s->y[0]);
    job.pitch = job.features | 1, job.wide = job.tokens;
    job.jobs = snls_nn_window_count(&job.w) * job.heads;
    job.line[1] = 2 * (int32_t)job.w.window[2] - 1, job.line[0] = job.line[1] * (2 * (int32_t)job.w.window[1] - 1);
    job.origin = (int32_t)snls_nn_window_bias(&job.w, 0, 0);
    job.scale = 1 / sqrtf((float)job.features);
    job.fresh = s->fresh[0];
    return job;
}

/* Planes into shared memory as long as they fit; returns its bytes. */
static size_t lay_out(AttendJob *job, int planes, size_t limit)
{
    int64_t near = 3 * (int64_t)job->tokens;
    for (int i = 0; i < planes; i++) {
        const int64_t size = (int64_t)job->tokens * (i < SCORE ? job->pitch : job->wide);
        job->far[i] = (size_t)(near + size) * sizeof(float) > limit;
        int64_t *const end = job->far[i] ? &job->each : &near;
        job->at[i] = *end;
        *end += size;
    }
    return (size_t)near * sizeof(float);
}

static SnlsStatus take(SnlsContext *ctx, const NnStep *s)
{
    SNLS_TRY(nn_take(ctx, "attend", &s->x[0]));
    const int64_t pixels = s->y[0].shape[0] * s->y[0].shape[1] * s->y[0].shape[2];
    SNLS_REQUIRE(ctx, pixels < INT32_MAX && 12 * snls_nn_windows(s).tokens <= (int64_t)snls_cuda(ctx)->shared_limit, SNLS_ERR_UNSUPPORTED,
                 "attend: a video or a window is larger than backend cuda takes");
    return SNLS_OK;
}

SnlsStatus snls_nn_cuda_attend_run(SnlsContext *ctx, AttendJob *job, const void *kernel, size_t bytes, int64_t columns, unsigned *blocks)
{
    int fit = 0;
    SNLS_TRY(snls_cuda_allow_shared(ctx, "attend", kernel, 0));
    SNLS_CUDA_TRY(ctx, "attend", cudaOccupancyMaxActiveBlocksPerMultiprocessor(&fit, kernel, NN_THREADS, bytes));
    *blocks = snls_cuda_blocks(job->jobs, 1, (fit > 0 ? fit : 1) * snls_cuda(ctx)->multiprocessors);
    snls_arena_begin(&ctx->arena);
    snls_arena_plan(&ctx->arena, *blocks * job->each, sizeof(float));
    snls_arena_plan(&ctx->arena, *blocks * columns, sizeof(float));
    SNLS_TRY(snls_cuda_commit(ctx, "attend"));
    job->scratch = (float *)snls_arena_claim(&ctx->arena, *blocks * job->each, sizeof(float));
    job->parts = (float *)snls_arena_claim(&ctx->arena, *blocks * columns, sizeof(float));
    void *args[] = {job};
    return snls_cuda_check(ctx, "attend", cudaLaunchKernel(kernel, dim3(*blocks), dim3(NN_THREADS), args, bytes, snls_cuda_stream(ctx)));
}

extern "C" SnlsStatus snls_nn_cuda_attend_forward(SnlsContext *ctx, NnStep *s)
{
    size_t bytes;
    unsigned blocks;
    if (!snls_tensor_elements(&s->y[0])) return SNLS_OK;
    SNLS_TRY(take(ctx, s));
    AttendJob job = attend_job(s);
    const void *kernel = snls_nn_cuda_attend_mma(ctx, &job, s->x[0].dtype, false, &bytes);
    if (!kernel) {
        bytes = lay_out(&job, BY_SCORE, snls_cuda(ctx)->shared_limit);
        kernel = s->x[0].dtype == SNLS_F32 ? (const void *)attend_forward<float> : (const void *)attend_forward<__nv_bfloat16>;
    }
    return snls_nn_cuda_attend_run(ctx, &job, kernel, bytes, 0, &blocks);
}

extern "C" SnlsStatus snls_nn_cuda_attend_backward(SnlsContext *ctx, NnStep *s)
{
    size_t bytes;
    unsigned blocks;
    if (!snls_tensor_elements(&s->y[0])) return SNLS_OK;
    SNLS_TRY(take(ctx, s));
    AttendJob job = attend_job(s);
    const int64_t table = (int64_t)job.rows * job.heads, columns = s->dp[0].data || s->dp[1].data ? table + (job.bias ? 3 * job.channels : 0) : 0;
    const void *kernel = snls_nn_cuda_attend_mma(ctx, &job, s->x[0].dtype, true, &bytes);
    if (!kernel) {
        bytes = lay_out(&job, PLANES, snls_cuda(ctx)->shared_limit);
        kernel = s->x[0].dtype == SNLS_F32 ? (const void *)attend_backward<float> : (const void *)attend_backward<__nv_bfloat16>;
    }
    SNLS_TRY(snls_nn_cuda_attend_run(ctx, &job, kernel, bytes, columns, &blocks));
    return columns ? snls_nn_cuda_sum_parts(ctx, job.parts, blocks, columns, table, (float *)s->dp[0].data, (float *)s->dp[1].data) : SNLS_OK;
}
