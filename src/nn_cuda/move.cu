/* move.cu: steps that only move numbers: shuffle, concat, pad, pool, first. Blocks go over rows of pixels, so that within a row 32
 * bits number everything; going backward a thread has the place that is added to, so no two write the same. */
#include "nn_cuda/value.cuh"

typedef struct MoveJob {
    const void *from[2];          /* read */
    void *to[2];                  /* written, or added to */
    int64_t rows;                 /* of the side the threads are on */
    int32_t width, height;        /* of that side, in pixels */
    int32_t other_width, other_height;
    int32_t channels, split;      /* of y; of the first part of a concat */
    int32_t top, left, r, only;   /* only: 1 the first, 2 the second part, 3 both */
    bool fresh[2];                /* what is added to is still 0 */
} MoveJob;

#define EACH_ROW(row) int64_t row = blockIdx.y; row < s.rows; row += gridDim.y
#define EACH_IN_ROW(i, n) int i = (int)(blockIdx.x * NN_THREADS + threadIdx.x); i < (n); i += (int)gridDim.x * NN_THREADS

template <bool ADD, int V, typename T> static __device__ __forceinline__ void put(T *to, const float *v, bool fresh)
{
    if (ADD) nn_add_to<V>(to, v, fresh);
    else nn_store<V>(to, v);
}

static dim3 grid_of(int64_t rows, int64_t in_row) { return dim3(snls_cuda_blocks(in_row, NN_THREADS, 0), snls_cuda_blocks(rows, 1, UINT16_MAX)); }

static SnlsStatus take(SnlsContext *ctx, const char *op, const SnlsTensor *t)
{
    SNLS_REQUIRE(ctx, t->shape[2] * t->shape[3] < INT32_MAX - NN_THREADS, SNLS_ERR_UNSUPPORTED, "%s: a row of more numbers than backend cuda takes", op);
    return nn_take(ctx, op, t);
}

static bool all_aligned(const MoveJob *j) { return nn_aligned(j->from[0]) && nn_aligned(j->from[1]) && nn_aligned(j->to[0]) && nn_aligned(j->to[1]); }

/* The side of t has the threads. */
static MoveJob job_on(const SnlsTensor *t, const SnlsTensor *other)
{
    MoveJob job = {};
    job.rows = t->shape[0] * t->shape[1];
    job.height = (int32_t)t->shape[1], job.width = (int32_t)t->shape[2], job.channels = (int32_t)t->shape[3];
    job.other_height = (int32_t)other->shape[1], job.other_width = (int32_t)other->shape[2];
    return job;
}

#define LAUNCH(op, type, wide, kernel)                                                                                               \
    do {                                                                                                                            \
        if (!job.rows || !job.width) return SNLS_OK;                                                                                \
        const dim3 grid = grid_of(job.rows, (int64_t)job.width * job.channels / ((wide) ? NN_WIDE : 1));                            \
        NN_BY_TYPE_AND_WIDTH(type, wide, kernel<<<grid, NN_THREADS, 0, snls_cuda_stream(ctx)>>>(job));                              \
        SNLS_CUDA_LAUNCHED(ctx, op);                                                                                                \
    } while (0)
#define KERNEL(...) __VA_ARGS__

/* ---- concat: threads on y ---- */

template <typename T, int V, bool BACK> static __global__ void __launch_bounds__(NN_THREADS) concat(const __grid_constant__ MoveJob s)
{
    const int groups = s.channels / V;
    for (EACH_ROW(row))
        for (EACH_IN_ROW(i, s.width * groups)) {
            const int c = i % groups * V, part = c >= s.split;
            const int64_t pixel = row * s.width + i / groups, at = pixel * s.channels + c;
            const int64_t there = part ? pixel * (s.channels - s.split) + c - s.split : pixel * s.split + c;
            float v[V];
            if (BACK && !(s.only >> part & 1 && s.to[part])) continue;
            nn_load<V>(BACK ? (const T *)s.from[0] + at : (const T *)s.from[part] + there, v);
            put<BACK, V>(BACK ? (T *)s.to[part] + there : (T *)s.to[0] + at, v, s.fresh[part]);
        }
}

static MoveJob concat_job(const NnStep *s)
{
    MoveJob job = job_on(&s->y[0], &s->y[0]);
    job.split = (int32_t)s->x[0].shape[3];
    job.only = 3;
    job.fresh[0] = s->fresh[0], job.fresh[1] = s->fresh[1];
    return job;
}

extern "C" SnlsStatus snls_nn_cuda_concat_forward(SnlsContext *ctx, NnStep *s)
{
    SNLS_TRY(take(ctx, "concat", &s->y[0]));
    MoveJob job = concat_job(s);
    job.from[0] = s->x[0].data, job.from[1] = s->x[1].data, job.to[0] = s->y[0].data;
    const bool wide = job.channels % NN_WIDE == 0 && job.split % NN_WIDE == 0 && all_aligned(&job);
    LAUNCH("concat", s->y[0].dtype, wide, KERNEL(concat<T, V, false>));
    return SNLS_OK;
}

/* A value beside itself gets one half after the other. */
extern "C" SnlsStatus snls_nn_cuda_concat_backward(SnlsContext *ctx, NnStep *s)
{
    SNLS_TRY(take(ctx, "concat", &s->y[0]));
    MoveJob job = concat_job(s);
    job.from[0] = s->dy[0].data, job.to[0] = s->dx[0].data, job.to[1] = s->dx[1].data;
    const bool wide = job.channels % NN_WIDE == 0 && job.split % NN_WIDE == 0 && all_aligned(&job), twice = job.to[0] && job.to[0] == job.to[1];
    if (!job.to[0] && !job.to[1]) return SNLS_OK;
    for (int k = twice ? 1 : 3; k <= (twice ? 2 : 3); k++) {
        job.only = k;
        LAUNCH("concat", s->y[0].dtype, wide, KERNEL(concat<T, V, true>));
    }
    return SNLS_OK;
}

/* ---- pad: forward threads on y, backward on x ---- */

template <typename T, int V, bool BACK> static __global__ void __launch_bounds__(NN_THREADS) pad(const __grid_constant__ MoveJob s)
{
    const int groups = s.channels / V;
    for (EACH_ROW(row))
        for (EACH_IN_ROW(i, s.width * groups)) {
            const int c = i % groups * V, x = i / groups + s.left;
            const int64_t y = row % s.height + s.top, frame = row / s.height;
            const bool inside = x >= 0 && y >= 0 && x < s.other_width && y < s.other_height;
            float v[V] = {};
            if (BACK && !inside) continue;
            if (inside) nn_load<V>((const T *)s.from[0] + ((frame * s.other_height + y) * s.other_width + x) * s.channels + c, v);
            put<BACK, V>((T *)s.to[0] + row * s.width * s.channels + (int64_t)i * V, v, s.fresh[0]);
        }
}

extern "C" SnlsStatus snls_nn_cuda_pad_forward(SnlsContext *ctx, NnStep *s)
{
    SNLS_TRY(take(ctx, "pad", &s->y[0]));
    MoveJob job = job_on(&s->y[0], &s->x[0]);
    job.from[0] = s->x[0].data, job.to[0] = s->y[0].data;
    job.top = (int32_t)-s->u.pad.top, job.left = (int32_t)-s->u.pad.left;
    LAUNCH("pad", s->y[0].dtype, job.channels % NN_WIDE == 0 && all_aligned(&job), KERNEL(pad<T, V, false>));
    return SNLS_OK;
}

extern "C" SnlsStatus snls_nn_cuda_pad_backward(SnlsContext *ctx, NnStep *s)
{
    SNLS_TRY(take(ctx, "pad", &s->x[0]));
    MoveJob job = job_on(&s->x[0], &s->y[0]);
    job.from[0] = s->dy[0].data, job.to[0] = s->dx[0].data;
    job.top = (int32_t)s->u.pad.top, job.left = (int32_t)s->u.pad.left, job.fresh[0] = s->fresh[0];
    if (!job.to[0]) return SNLS_OK;
    LAUNCH("pad", s->x[0].dtype, job.channels % NN_WIDE == 0 && all_aligned(&job), KERNEL(pad<T, V, true>));
    return SNLS_OK;
}

/* ---- pool: forward threads on y, backward on x ---- */

template <typename T, int V> static __global__ void __launch_bounds__(NN_THREADS) pool(const __grid_constant__ MoveJob s)
{
    const int groups = s.channels / V;
    const float weight = 1 / (float)(s.r * s.r);
    for (EACH_ROW(row))
        for (EACH_IN_ROW(i, s.width * groups)) {
            const int64_t first = (row / s.height * s.other_height + row % s.height * s.r) * s.other_width + i / groups * s.r;
            float sum[V] = {}, v[V];
            for (int dy = 0; dy < s.r; dy++)
                for (int dx = 0; dx < s.r; dx++) {
                    nn_load<V>((const T *)s.from[0] + (first + dy * s.other_width + dx) * s.channels + i % groups * V, v);
#pragma unroll
                    for (int k = 0; k < V; k++) sum[k] += v[k];
                }
#pragma unroll
            for (int k = 0; k < V; k++) sum[k] *= weight;
            nn_store<V>((T *)s.to[0] + row * s.width * s.channels + (int64_t)i * V, sum);
        }
}

template <typename T, int V> static __global__ void __launch_bounds__(NN_THREADS) pool_backward(const __grid_constant__ MoveJob s)
{
    const int groups = s.channels / V;
    const float weight = 1 / (float)(s.r * s.r);
    for (EACH_ROW(row))
        for (EACH_IN_ROW(i, s.width * groups)) {
            const int64_t y = row % s.height / s.r, x = i / groups / s.r;
            float v[V];
            if (y >= s.other_height || x >= s.other_width) continue;
            nn_load<V>((const T *)s.from[0] + ((row / s.height * s.other_height + y) * s.other_width + x) * s.channels + i % groups * V, v);
#pragma unroll
            for (int k = 0; k < V; k++) v[k] *= weight;
            nn_add_to<V>((T *)s.to[0] + row * s.width * s.channels + (int64_t)i * V, v, s.fresh[0]);
        }
}

extern "C" SnlsStatus snls_nn_cuda_pool_forward(SnlsContext *ctx, NnStep *s)
{
    SNLS_TRY(take(ctx, "pool", &s->y[0]));
    MoveJob job = job_on(&s->y[0], &s->x[0]);
    job.from[0] = s->x[0].data, job.to[0] = s->y[0].data, job.r = (int32_t)s->u.pool.r;
    LAUNCH("pool", s->y[0].dtype, job.channels % NN_WIDE == 0 && all_aligned(&job), KERNEL(pool<T, V>));
    return SNLS_OK;
}

extern "C" SnlsStatus snls_nn_cuda_pool_backward(SnlsContext *ctx, NnStep *s)
{
    SNLS_TRY(take(ctx, "pool", &s->x[0]));
    MoveJob job = job_on(&s->x[0], &s->y[0]);
    job.from[0] = s->dy[0].data, job.to[0] = s->dx[0].data, job.r = (int32_t)s->u.pool.r, job.fresh[0] = s->fresh[0];
    if (!job.to[0]) return SNLS_OK;
    LAUNCH("pool", s->x[0].dtype, job.channels % NN_WIDE == 0 && all_aligned(&job), KERNEL(pool_backward<T, V>));
    return SNLS_OK;
}

/* ---- shuffle: threads on the deep side, which has the channels; the other is wide, and may have pixels that fill no square. UP: from
 * deep to wide ---- */

/* Pixel of the wide side's square that pixel x of a deep row stands for: its first. */
static __device__ __forceinline__ int64_t square_of(const MoveJob *s, int64_t row, int x)
{
    return (row / s->height * s->other_height + row % s->height * s->r) * s->other_width + (int64_t)x * s->r;
}

template <typename T, bool UP, bool ADD> static __global__ void __launch_bounds__(NN_THREADS) shuffle(const __grid_constant__ MoveJob s)
{
    const int taps = s.r * s.r, channels = s.channels / taps;
    for (EACH_ROW(row))
        for (EACH_IN_ROW(i, s.width * s.channels)) {
            const int c = i % s.channels;
            const int64_t pixel = square_of(&s, row, i / s.channels) + c / s.r % s.r * s.other_width + c % s.r;
            const int64_t deep = row * s.width * s.channels + i, wide = pixel * channels + c / taps;
            float v;
            nn_load<1>((const T *)s.from[0] + (UP ? deep : wide), &v);
            put<ADD, 1>((T *)s.to[0] + (UP ? wide : deep), &v, false);
        }
}

/* r = 2, channels of 8 on the wide side: a thread turns 32 channels of a deep pixel, 8 of each of four wide ones. */
template <typename T, bool UP, bool ADD> static __global__ void __launch_bounds__(NN_THREADS) shuffle_wide(const __grid_constant__ MoveJob s)
{
    const int channels = s.channels / 4, groups = channels / NN_WIDE;
    for (EACH_ROW(row))
        for (EACH_IN_ROW(i, s.width * groups)) {
            const int x = i / groups, g = i % groups;
            float deep[4 * NN_WIDE], v[NN_WIDE];
            const T *from = (const T *)s.from[0];
            T *to = (T *)s.to[0];
            const int64_t at_deep = (row * s.width + x) * s.channels + g * 4 * NN_WIDE;
#pragma unroll
            for (int k = 0; UP && k < 4; k++) nn_load<NN_WIDE>(from + at_deep + k * NN_WIDE, deep + k * NN_WIDE);
#pragma unroll
            for (int tap = 0; tap < 4; tap++) {
                const int64_t at_wide = (square_of(&s, row, x) + tap / 2 * s.other_width + tap % 2) * channels + g * NN_WIDE;
                if (!UP) nn_load<NN_WIDE>(from + at_wide, v);
#pragma unroll
                for (int k = 0; k < NN_WIDE; k++)
                    if (UP) v[k] = deep[4 * k + tap];
                    else deep[4 * k + tap] = v[k];
                if (UP) put<ADD, NN_WIDE>(to + at_wide, v, false);
            }
#pragma unroll
            for (int k = 0; !UP && k < 4; k++) put<ADD, NN_WIDE>(to + at_deep + k * NN_WIDE, deep + k * NN_WIDE, false);
        }
}

/* up: whether the data goes from deep to wide */
static SnlsStatus run_shuffle(SnlsContext *ctx, const NnStep *s, const void *from, void *to, bool up, bool add)
{
    const SnlsTensor *const deep = s->u.shuffle.inverse ? &s->y[0] : &s->x[0], *const wide = s->u.shuffle.inverse ? &s->x[0] : &s->y[0];
    SNLS_TRY(take(ctx, "shuffle", deep));
    MoveJob job = job_on(deep, wide);
    job.from[0] = from, job.to[0] = to, job.r = (int32_t)s->u.shuffle.r;
    const bool turned = job.r == 2 && job.channels % (4 * NN_WIDE) == 0 && all_aligned(&job);
    const dim3 grid = grid_of(job.rows, (int64_t)job.width * job.channels / (turned ? 4 * NN_WIDE : 1));
    cudaStream_t stream = snls_cuda_stream(ctx);
    if (!job.rows || !job.width) return SNLS_OK;
#define RUN(UP, ADD)                                                                                       \
    do {                                                                                                   \
        if (turned) NN_BY_TYPE(deep->dtype, shuffle_wide<T, UP, ADD><<<grid, NN_THREADS, 0, stream>>>(job)); \
        else NN_BY_TYPE(deep->dtype, shuffle<T, UP, ADD><<<grid, NN_THREADS, 0, stream>>>(job));             \
    } while (0)
    if (up && add) RUN(true, true);
    else if (up) RUN(true, false);
    else if (add) RUN(false, true);
    else RUN(false, false);
#undef RUN
    SNLS_CUDA_LAUNCHED(ctx, "shuffle");
    return SNLS_OK;
}

extern "C" SnlsStatus snls_nn_cuda_shuffle_forward(SnlsContext *ctx, NnStep *s)
{
    return run_shuffle(ctx, s, s->x[0].data, s->y[0].data, !s->u.shuffle.inverse, false);
}

extern "C" SnlsStatus snls_nn_cuda_shuffle_backward(SnlsContext *ctx, NnStep *s)
{
    if (!s->dx[0].data) return SNLS_OK;
    return run_shuffle(ctx, s, s->dy[0].data, s->dx[0].data, s->u.shuffle.inverse, !s->fresh[0]);
}

/* ---- first: lists are f32 ---- */

typedef struct FirstJob { const float *from; float *to; int64_t count; int32_t in, out, add; } FirstJob; /* in, out: numbers of a list */

/* From the longer lists to the shorter, or added the other way. */
static __global__ void __launch_bounds__(NN_THREADS) first(const __grid_constant__ FirstJob s)
{
    for (SNLS_CUDA_EACH(i, s.count)) {
        const int64_t there = i / s.out * s.in + i % s.out;
        if (s.add) s.to[there] += s.from[i];
        else s.to[i] = s.from[there];
    }
}

static SnlsStatus run_first(SnlsContext *ctx, const SnlsTensor *shorter, const SnlsTensor *longer, const void *from, void *to, int64_t each, bool add)
{
    const FirstJob job = {(const float *)from, (float *)to, snls_tensor_elements(shorter), (int32_t)(longer->shape[5] * each), (int32_t)(shorter->shape[5] * each), add};
    SNLS_REQUIRE(ctx, shorter->dtype == SNLS_F32, SNLS_ERR_UNSUPPORTED, "first: lists of backend cuda are f32");
    if (!job.count) return SNLS_OK;
    first<<<snls_cuda_blocks(job.count, NN_THREADS, 0), NN_THREADS, 0, snls_cuda_stream(ctx)>>>(job);
    SNLS_CUDA_LAUNCHED(ctx, "first");
    return SNLS_OK;
}

extern "C" SnlsStatus snls_nn_cuda_first_forward(SnlsContext *ctx, NnStep *s)
{
    SNLS_TRY(run_first(ctx, &s->y[0], &s->x[0], s->x[0].data, s->y[0].data, 1, false));
    return run_first(ctx, &s->y[1], &s->x[1], s->x[1].data, s->y[1].data, 3, false);
}

extern "C" SnlsStatus snls_nn_cuda_first_backward(SnlsContext *ctx, NnStep *s)
{
    if (!s->dx[0].data || !s->dy[0].data) return SNLS_OK;
    return run_first(ctx, &s->y[0], &s->x[0], s->dy[0].data, s->dx[0].data, 1, true);
}
