/* eca.cu: channel attention, y_c = x_c * a_c with a = sigmoid(taps * mean over the frame). One pass sums each frame in a fixed
 * number of parts; in the other every block adds the parts of its frame anew, which is cheaper than a pass between. */
#include "nn_cuda/value.cuh"

enum { CHANNELS_MOST = 2048, PARTS_MOST = 128 };

typedef struct EcaJob {
    const void *x, *dy;
    void *to;           /* y, or dx */
    const float *taps;
    float *sums;        /* (N, parts, columns): of x and, going backward, of dy * x */
    float *by_taps;     /* (N, 3) */
    int64_t pixels;     /* of a frame */
    int32_t frames, channels, columns, parts;
    NnLanes lanes;
    bool fresh;         /* dx is still 0 */
} EcaJob;

/* Pixels of a block: parts of a frame lie in one another, so that neighbouring blocks read neighbouring memory. */
#define EACH_PIXEL(p) int64_t p = (int64_t)blockIdx.x * s.lanes.rows + threadIdx.x / (unsigned)s.lanes.lanes; p < s.pixels; p += (int64_t)gridDim.x * s.lanes.rows

template <typename T, int V, bool BACK> static __global__ void __launch_bounds__(NN_THREADS) eca_sums(const __grid_constant__ EcaJob s)
{
    __shared__ float shared[NN_THREADS * V];
    const int group = (int)blockIdx.z * s.lanes.lanes + (int)threadIdx.x % s.lanes.lanes, chunk = (int)blockIdx.z * s.lanes.lanes * V;
    const int64_t frame = blockIdx.y * s.pixels * s.channels;
    float sum[V] = {}, dot[V] = {};
    if (group < s.lanes.groups)
#pragma unroll 4
        for (EACH_PIXEL(p)) {
            float x[V], d[V];
            nn_load<V>((const T *)s.x + frame + p * s.channels + group * V, x);
            if (BACK) nn_load<V>((const T *)s.dy + frame + p * s.channels + group * V, d);
#pragma unroll
            for (int i = 0; i < V; i++) {
                sum[i] += x[i];
                if (BACK) dot[i] += d[i] * x[i];
            }
        }
    float *const to = s.sums + ((int64_t)blockIdx.y * s.parts + blockIdx.x) * s.columns + chunk;
    nn_sum_rows<V>(sum, shared, s.lanes.lanes, s.lanes.rows, to, s.channels - chunk);
    if (BACK) nn_sum_rows<V>(dot, shared, s.lanes.lanes, s.lanes.rows, to + s.channels, s.channels - chunk);
}

/* ---- what every block of a frame finds first: totals, then gates; all threads take part ---- */

/* to[0 .. columns) = the sum over parts. room: a float for each thread; few columns are shared out in several segments of parts. */
static __device__ void add_parts(const EcaJob *s, int frame, float *room, float *to)
{
    const float *const from = s->sums + (int64_t)frame * s->parts * s->columns;
    const int threads = (int)blockDim.x, segments = s->columns < threads ? threads / s->columns : 1;
    for (int first = 0; first < s->columns; first += threads) {
        const int column = first + (int)threadIdx.x % (s->columns < threads ? s->columns : threads), segment = (int)threadIdx.x / s->columns;
        float sum = 0;
        if (column < s->columns && segment < segments)
#pragma unroll 8
            for (int p = segment; p < s->parts; p += segments) sum += from[(int64_t)p * s->columns + column];
        room[threadIdx.x] = sum;
        __syncthreads();
        if (column < s->columns && segment == 0) {
            for (int k = 1; k < segments; k++) sum += room[k * s->columns + column];
            to[column] = sum;
        }
        __syncthreads();
    }
}

static __device__ __forceinline__ float neighbour(const float *v, int c, int channels) { return c >= 0 && c < channels ? v[c] : 0; }

/* mean: what add_parts found of x, becomes the means */
static __device__ void find_gates(const EcaJob *s, float *mean, float *gate)
{
    for (int c = (int)threadIdx.x; c < s->channels; c += (int)blockDim.x) mean[c] /= (float)s->pixels;
    __syncthreads();
    for (int c = (int)threadIdx.x; c < s->channels; c += (int)blockDim.x) {
        float z = 0;
        for (int k = 0; k < 3; k++) z += s->taps[k] * neighbour(mean, c + k - 1, s->channels);
        gate[c] = 1 / (1 + expf(-z));
    }
    __syncthreads();
}

/* Frames the other way round: what the sums read last is still in the cache. */
static __device__ __forceinline__ int frame_of(const EcaJob *s) { return s->frames - 1 - (int)blockIdx.y; }

template <typename T, int V> static __global__ void __launch_bounds__(NN_THREADS) eca_scale(const __grid_constant__ EcaJob s)
{
    extern __shared__ float shared[]; /* mean, gate: channels each; room: threads */
    const int group = (int)blockIdx.z * s.lanes.lanes + (int)threadIdx.x % s.lanes.lanes;
    const int64_t frame = (int64_t)frame_of(&s) * s.pixels * s.channels;
    float *const gates = shared + s.channels, gate[V];
    add_parts(&s, frame_of(&s), gates + s.channels, shared);
    find_gates(&s, shared, gates);
    if (group >= s.lanes.groups) return;
#pragma unroll
    for (int i = 0; i < V; i++) gate[i] = gates[group * V + i];
    for (EACH_PIXEL(p)) {
        float x[V];
        nn_load<V>((const T *)s.x + frame + p * s.channels + group * V, x);
#pragma unroll
        for (int i = 0; i < V; i++) x[i] *= gate[i];
        nn_store<V>((T *)s.to + frame + p * s.channels + group * V, x);
    }
}

/* dots, the sums of dy * x, become the gradients by z; then shift: what reaches every pixel of a channel through the mean. */
static __device__ void find_shifts(const EcaJob *s, const float *gate, float *dots, float *shift)
{
    for (int c = (int)threadIdx.x; c < s->channels; c += (int)blockDim.x) dots[c] *= gate[c] * (1 - gate[c]);
    __syncthreads();
    for (int c = (int)threadIdx.x; c < s->channels; c += (int)blockDim.x) {
        float sum = 0;
        for (int k = 0; k < 3; k++) sum += s->taps[k] * neighbour(dots, c + 1 - k, s->channels);
        shift[c] = sum / (float)s->pixels;
    }
    __syncthreads();
}

static __device__ void pull_taps(const EcaJob *s, const float *mean, const float *dz)
{
    const int k = (int)threadIdx.x;
    float sum = 0;
    if (k >= 3) return;
    for (int c = 0; c < s->channels; c++) sum += dz[c] * neighbour(mean, c + k - 1, s->channels);
    s->by_taps[3 * frame_of(s) + k] = sum;
}

template <typename T, int V> static __global__ void __launch_bounds__(NN_THREADS) eca_backward(const __grid_constant__ EcaJob s)
{
    extern __shared__ float shared[]; /* mean, dots, gate, shift: channels each; room: threads */
    const int group = (int)blockIdx.z * s.lanes.lanes + (int)threadIdx.x % s.lanes.lanes;
    const int64_t frame = (int64_t)frame_of(&s) * s.pixels * s.channels;
    float *const dots = shared + s.channels, *const gates = dots + s.channels, *const shifts = gates + s.channels, gate[V], shift[V];
    add_parts(&s, frame_of(&s), shifts + s.channels, shared);
    find_gates(&s, shared, gates);
    find_shifts(&s, gates, dots, shifts);
    if (s.by_taps && blockIdx.x == 0 && blockIdx.z == 0) pull_taps(&s, shared, dots);
    if (group >= s.lanes.groups || !s.to) return;
#pragma unroll
    for (int i = 0; i < V; i++) gate[i] = gates[group * V + i], shift[i] = shifts[group * V + i];
    for (EACH_PIXEL(p)) {
        float d[V];
        nn_load<V>((const T *)s.dy + frame + p * s.channels + group * V, d);
#pragma unroll
        for (int i = 0; i < V; i++) d[i] = d[i] * gate[i] + shift[i];
        nn_add_to<V>((T *)s.to + frame + p * s.channels + group * V, d, s.fresh);
    }
}

/* ---- launches ---- */

static SnlsStatus prepare(SnlsContext *ctx, const NnStep *s, bool back, EcaJob *job, bool *wide)
{
    const SnlsTensor *const to = back ? &s->dx[0] : &s->y[0];
    SNLS_TRY(nn_take(ctx, "eca", &s->x[0]));
    SNLS_REQUIRE(ctx, nn_channels(&s->x[0]) <= CHANNELS_MOST, SNLS_ERR_UNSUPPORTED, "eca: more than %d channels, which backend cuda does not take", CHANNELS_MOST);
    SNLS_REQUIRE(ctx, s->x[0].shape[0] <= UINT16_MAX, SNLS_ERR_UNSUPPORTED, "eca: more than %d frames, which backend cuda does not take", UINT16_MAX);
    memset(job, 0, sizeof *job);
    *wide = nn_channels(&s->x[0]) % NN_WIDE == 0 && nn_aligned(s->x[0].data) && nn_aligned(s->dy[0].data) && nn_aligned(to->data);
    job->x = s->x[0].data, job->dy = s->dy[0].data, job->to = to->data, job->taps = (const float *)s->p[0].data;
    job->frames = (int32_t)s->x[0].shape[0], job->pixels = s->x[0].shape[1] * s->x[0].shape[2], job->channels = (int32_t)nn_channels(&s->x[0]);
    job->fresh = s->fresh[0];
    job->columns = back ? 2 * job->channels : job->channels;
    job->lanes = nn_lanes(job->channels, *wide);
    const int64_t each = 8 * snls_cuda(ctx)->multiprocessors / job->frames + 1;
    job->parts = (int32_t)snls_cuda_blocks(job->pixels, 4 * job->lanes.rows, each < PARTS_MOST ? each : PARTS_MOST);
    const int64_t sums = (int64_t)job->frames * job->parts * job->columns, taps = back && s->dp[0].data ? 3 * (int64_t)job->frames : 0;
    snls_arena_begin(&ctx->arena);
    snls_arena_plan(&ctx->arena, sums, sizeof(float));
    snls_arena_plan(&ctx->arena, taps, sizeof(float));
    SNLS_TRY(snls_cuda_commit(ctx, "eca"));
    job->sums = (float *)snls_arena_claim(&ctx->arena, sums, sizeof(float));
    job->by_taps = (float *)snls_arena_claim(&ctx->arena, taps, sizeof(float));
    return SNLS_OK;
}

static dim3 grid_of(const EcaJob *job) { return dim3((unsigned)job->parts, (unsigned)job->frames, (unsigned)job->lanes.chunks); }
static unsigned threads_of(const EcaJob *job) { return (unsigned)(job->lanes.lanes * job->lanes.rows); }
static size_t room_of(const EcaJob *job, int planes) { return (size_t)(planes * job->channels + NN_THREADS) * sizeof(float); }

extern "C" SnlsStatus snls_nn_cuda_eca_forward(SnlsContext *ctx, NnStep *s)
{
    EcaJob job;
    bool wide;
    if (!snls_tensor_elements(&s->x[0])) return SNLS_OK;
    SNLS_TRY(prepare(ctx, s, false, &job, &wide));
    NN_BY_TYPE_AND_WIDTH(s->x[0].dtype, wide, eca_sums<T, V, false><<<grid_of(&job), threads_of(&job), 0, snls_cuda_stream(ctx)>>>(job));
    SNLS_CUDA_LAUNCHED(ctx, "eca");
    NN_BY_TYPE_AND_WIDTH(s->x[0].dtype, wide, eca_scale<T, V><<<grid_of(&job), threads_of(&job), room_of(&job, 2), snls_cuda_stream(ctx)>>>(job));
    SNLS_CUDA_LAUNCHED(ctx, "eca");
    return SNLS_OK;
}

extern "C" SnlsStatus snls_nn_cuda_eca_backward(SnlsContext *ctx, NnStep *s)
{
    EcaJob job;
    bool wide;
    if (!snls_tensor_elements(&s->x[0]) || (!s->dx[0].data && !s->dp[0].data)) return SNLS_OK;
    SNLS_TRY(prepare(ctx, s, true, &job, &wide));
    NN_BY_TYPE_AND_WIDTH(s->x[0].dtype, wide, eca_sums<T, V, true><<<grid_of(&job), threads_of(&job), 0, snls_cuda_stream(ctx)>>>(job));
    SNLS_CUDA_LAUNCHED(ctx, "eca");
    NN_BY_TYPE_AND_WIDTH(s->x[0].dtype, wide, eca_backward<T, V><<<grid_of(&job), threads_of(&job), room_of(&job, 4), snls_cuda_stream(ctx)>>>(job));
    SNLS_CUDA_LAUNCHED(ctx, "eca");
    return job.by_taps ? snls_nn_cuda_sum_parts(ctx, job.by_taps, job.frames, 3, 3, (float *)s->dp[0].data, NULL) : SNLS_OK;
}
