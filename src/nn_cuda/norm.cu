/* norm.cu: layer norm over the channels of a pixel. A few neighbouring lanes of a warp have a pixel, in registers; going backward
 * mean and scale are found again, which costs no memory. Channels that are no multiple
 * of 8, or very many, go another way, which reads again. */
#include "nn_cuda/value.cuh"

typedef struct NormJob {
    const void *x, *dy;
    void *y, *dx;
    const float *gamma, *beta;
    float *parts;               /* (blocks or slots, 2, channels): of gamma and beta */
    int64_t pixels;
    int32_t channels, lanes;    /* lanes: a power of two */
    float eps, by_channels;     /* by_channels: 1 / channels */
    bool fresh;                 /* dx is still 0 */
} NormJob;

/* ---- in registers: R groups of 8 channels a lane ---- */

template <typename T, int R> static __device__ __forceinline__ void load_groups(const NormJob *s, const void *from, int64_t pixel, int lane, float (*v)[NN_WIDE])
{
#pragma unroll
    for (int r = 0; r < R; r++) {
        const int channel = (r * s->lanes + lane) * NN_WIDE;
        if (pixel < s->pixels && channel < s->channels) nn_load<NN_WIDE>((const T *)from + pixel * s->channels + channel, v[r]);
        else
#pragma unroll
            for (int i = 0; i < NN_WIDE; i++) v[r][i] = 0;
    }
}

/* Takes the mean from x (what lies past the channels is and stays 0) and returns 1 / sqrt(variance + eps). */
template <int R> static __device__ __forceinline__ float take_mean(const NormJob *s, int lane, float (*x)[NN_WIDE])
{
    float sum = 0, square = 0;
#pragma unroll
    for (int r = 0; r < R; r++)
#pragma unroll
        for (int i = 0; i < NN_WIDE; i++) sum += x[r][i];
    const float mean = nn_lane_sum(sum, s->lanes) * s->by_channels;
#pragma unroll
    for (int r = 0; r < R; r++) {
        const float here = (r * s->lanes + lane) * NN_WIDE < s->channels ? mean : 0;
#pragma unroll
        for (int i = 0; i < NN_WIDE; i++) {
            x[r][i] -= here;
            square += x[r][i] * x[r][i];
        }
    }
    return rsqrtf(nn_lane_sum(square, s->lanes) * s->by_channels + s->eps);
}

template <int R> static __device__ __forceinline__ void load_parameters(const NormJob *s, const float *from, int lane, float (*v)[NN_WIDE])
{
#pragma unroll
    for (int r = 0; r < R; r++)
#pragma unroll
        for (int i = 0; i < NN_WIDE; i++) {
            const int channel = (r * s->lanes + lane) * NN_WIDE + i;
            v[r][i] = channel < s->channels ? from[channel] : 0;
        }
}

/* Pixels of a block's turn; all threads stay, since lanes talk to each other. */
#define EACH_PIXELS(pixel, s, ahead)                                                                                               \
    int64_t per_ = NN_THREADS / (s)->lanes, first_ = blockIdx.x * per_, pixel = first_ + threadIdx.x / (unsigned)(s)->lanes; first_ < (s)->pixels; \
    first_ += (ahead) * gridDim.x * per_, pixel += (ahead) * gridDim.x * per_
#define EACH_PIXEL(pixel, s) EACH_PIXELS(pixel, s, 1)

template <typename T, int R> static __global__ void __launch_bounds__(NN_THREADS) norm_forward(const __grid_constant__ NormJob s)
{
    constexpr int AHEAD = R == 1 ? 2 : 1; /* pixels at a time, so that one loads while the other is summed */
    const int lane = (int)threadIdx.x % s.lanes;
    const int64_t step = (int64_t)gridDim.x * (NN_THREADS / s.lanes);
    float gamma[R][NN_WIDE], beta[R][NN_WIDE];
    load_parameters<R>(&s, s.gamma, lane, gamma);
    load_parameters<R>(&s, s.beta, lane, beta);
    for (EACH_PIXELS(pixel, &s, AHEAD)) {
        float x[AHEAD][R][NN_WIDE], scale[AHEAD];
#pragma unroll
        for (int a = 0; a < AHEAD; a++) load_groups<T, R>(&s, s.x, pixel + a * step, lane, x[a]);
#pragma unroll
        for (int a = 0; a < AHEAD; a++) scale[a] = take_mean<R>(&s, lane, x[a]);
#pragma unroll
        for (int r = 0; r < AHEAD * R; r++) {
            const int channel = (r % R * s.lanes + lane) * NN_WIDE, a = r / R;
            const int64_t at = pixel + a * step;
            float *const v = x[a][r % R];
#pragma unroll
            for (int i = 0; i < NN_WIDE; i++) v[i] = v[i] * scale[a] * gamma[r % R][i] + beta[r % R][i];
            if (at < s.pixels && channel < s.channels) nn_store<NN_WIDE>((T *)s.y + at * s.channels + channel, v);
        }
    }
}

/* x, without its mean, becomes xhat, d becomes gamma * dy; both sums over the pixel. Along the way the parameters' gradients. */
template <int R> static __device__ __forceinline__ void find_pulls(float scale, const float (*gamma)[NN_WIDE], float (*x)[NN_WIDE], float (*d)[NN_WIDE],
                                                                   float (*by_gamma)[NN_WIDE], float (*by_beta)[NN_WIDE], float *sum, float *along)
{
    *sum = *along = 0;
#pragma unroll
    for (int r = 0; r < R; r++)
#pragma unroll
        for (int i = 0; i < NN_WIDE; i++) {
            x[r][i] *= scale;
            by_gamma[r][i] += d[r][i] * x[r][i];
            by_beta[r][i] += d[r][i];
            d[r][i] *= gamma[r][i];
            *sum += d[r][i];
            *along += d[r][i] * x[r][i];
        }
}

/* Blocks that a multiprocessor has at once: what registers leave room for. */
#define BLOCKS_EACH(R) ((R) == 1 ? 4 : (R) == 2 ? 2 : 1)

/* dx += (g - mean(g) - xhat * mean(g * xhat)) * scale, g = gamma * dy. What lies past the channels or the pixels has dy = 0. */
template <typename T, int R> static __global__ void __launch_bounds__(NN_THREADS, BLOCKS_EACH(R)) norm_backward(const __grid_constant__ NormJob s)
{
    __shared__ float shared[NN_THREADS * NN_WIDE];
    const int lane = (int)threadIdx.x % s.lanes;
    float gamma[R][NN_WIDE], by_gamma[R][NN_WIDE] = {}, by_beta[R][NN_WIDE] = {};
    load_parameters<R>(&s, s.gamma, lane, gamma);
    for (EACH_PIXEL(pixel, &s)) {
        NnPiece<T, NN_WIDE> was[R]; /* what dx was: asked for as early as the rest */
        float x[R][NN_WIDE], d[R][NN_WIDE], mean, along;
#pragma unroll
        for (int r = 0; r < R; r++) {
            const int channel = (r * s.lanes + lane) * NN_WIDE;
            was[r] = {};
            if (s.dx && !s.fresh && pixel < s.pixels && channel < s.channels) was[r] = *(const NnPiece<T, NN_WIDE> *)((const T *)s.dx + pixel * s.channels + channel);
        }
        load_groups<T, R>(&s, s.x, pixel, lane, x);
        load_groups<T, R>(&s, s.dy, pixel, lane, d);
        const float scale = take_mean<R>(&s, lane, x);
        find_pulls<R>(scale, gamma, x, d, by_gamma, by_beta, &mean, &along);
        mean = nn_lane_sum(mean, s.lanes) * s.by_channels;
        along = nn_lane_sum(along, s.lanes) * s.by_channels;
#pragma unroll
        for (int r = 0; r < R; r++) {
            const int channel = (r * s.lanes + lane) * NN_WIDE;
            float sum[NN_WIDE];
            nn_load<NN_WIDE>((const T *)&was[r], sum);
#pragma unroll
            for (int i = 0; i < NN_WIDE; i++) sum[i] += (d[r][i] - mean - x[r][i] * along) * scale;
            if (s.dx && pixel < s.pixels && channel < s.channels) nn_store<NN_WIDE>((T *)s.dx + pixel * s.channels + channel, sum);
        }
    }
    float *const to = s.parts + (int64_t)blockIdx.x * 2 * s.channels;
#pragma unroll
    for (int r = 0; s.parts && r < R; r++) {
        const int first = r * s.lanes * NN_WIDE;
        nn_sum_rows<NN_WIDE>(by_gamma[r], shared, s.lanes, NN_THREADS / s.lanes, to + first, s.channels - first);
        nn_sum_rows<NN_WIDE>(by_beta[r], shared, s.lanes, NN_THREADS / s.lanes, to + s.channels + first, s.channels - first);
    }
}

/* ---- any number of channels: a lane has every lanes-th ---- */

#define EACH_CHANNEL(c, s) int c = (int)threadIdx.x % (s)->lanes; c < (s)->channels; c += (s)->lanes

template <typename T> static __device__ __forceinline__ float one(const void *from, int64_t at)
{
    float v;
    nn_load<1>((const T *)from + at, &v);
    return v;
}

typedef struct Moments { float mean, scale; } Moments; /* scale: 1 / sqrt(variance + eps) */

template <typename T> static __device__ Moments moments_any(const NormJob *s, int64_t pixel)
{
    const int64_t at = pixel * s->channels;
    float sum = 0, square = 0;
    for (EACH_CHANNEL(c, s)) sum += pixel < s->pixels ? one<T>(s->x, at + c) : 0;
    const float mean = nn_lane_sum(sum, s->lanes) / (float)s->channels;
    for (EACH_CHANNEL(c, s)) {
        const float x = pixel < s->pixels ? one<T>(s->x, at + c) - mean : 0;
        square += x * x;
    }
    const Moments m = {mean, rsqrtf(nn_lane_sum(square, s->lanes) / (float)s->channels + s->eps)};
    return m;
}

template <typename T> static __global__ void __launch_bounds__(NN_THREADS) norm_forward_any(const __grid_constant__ NormJob s)
{
    for (EACH_PIXEL(pixel, &s)) {
        const Moments m = moments_any<T>(&s, pixel);
        const int64_t at = pixel * s.channels;
        for (EACH_CHANNEL(c, &s)) {
            if (pixel >= s.pixels) break;
            const float y = s.gamma[c] * (one<T>(s.x, at + c) - m.mean) * m.scale + s.beta[c];
            nn_store<1>((T *)s.y + at + c, &y);
        }
    }
}

/* The lanes of a slot are the only ones that write its row of parts. */
template <typename T> static __device__ void pixel_backward_any(const NormJob *s, int64_t pixel, float *part)
{
    const Moments m = moments_any<T>(s, pixel);
    const int64_t at = pixel * s->channels;
    const bool inside = pixel < s->pixels;
    float mean = 0, along = 0;
    for (EACH_CHANNEL(c, s)) {
        if (!inside) break;
        const float d = one<T>(s->dy, at + c), hat = (one<T>(s->x, at + c) - m.mean) * m.scale;
        mean += s->gamma[c] * d;
        along += s->gamma[c] * d * hat;
        if (part) part[c] += d * hat, part[s->channels + c] += d;
    }
    mean = nn_lane_sum(mean, s->lanes) / (float)s->channels;
    along = nn_lane_sum(along, s->lanes) / (float)s->channels;
    for (EACH_CHANNEL(c, s)) {
        if (!inside || !s->dx) break;
        const float hat = (one<T>(s->x, at + c) - m.mean) * m.scale, d = (s->gamma[c] * one<T>(s->dy, at + c) - mean - hat * along) * m.scale;
        nn_add_to<1>((T *)s->dx + at + c, &d, s->fresh);
    }
}

template <typename T> static __global__ void __launch_bounds__(NN_THREADS) norm_backward_any(const __grid_constant__ NormJob s)
{
    const int64_t slot = (int64_t)blockIdx.x * (NN_THREADS / s.lanes) + threadIdx.x / (unsigned)s.lanes;
    float *const part = s.parts ? s.parts + slot * 2 * s.channels : NULL;
    if (part)
        for (EACH_CHANNEL(c, &s)) part[c] = part[s.channels + c] = 0;
    for (EACH_PIXEL(pixel, &s)) pixel_backward_any<T>(&s, pixel, part);
}

/* ---- launches ---- */

enum { R_MOST = 4, SLOT_BLOCKS = 64 }; /* groups of 8 a lane keeps; blocks of the way for any number, going backward */

static int power_of_two(int64_t least)
{
    int n = 1;
    while (n < least && n < 32) n *= 2;
    return n;
}

/* Groups a lane has, 0 = any number. Lanes: as many as divide the groups where they do not get more than R_MOST, so that none idles. */
static int choose_lanes(NormJob *job, bool aligned)
{
    const int groups = job->channels / NN_WIDE, pieces = groups & -groups, even = pieces < 32 ? pieces : 32;
    if (job->channels % NN_WIDE || !aligned || groups > 32 * R_MOST) return job->lanes = power_of_two(job->channels), 0;
    job->lanes = groups / even <= R_MOST ? even : power_of_two(groups);
    return (groups + job->lanes - 1) / job->lanes;
}

static NormJob norm_job(const NnStep *s)
{
    NormJob job = {};
    job.x = s->x[0].data, job.dy = s->dy[0].data, job.y = s->y[0].data, job.dx = s->dx[0].data;
    job.gamma = (const float *)s->p[0].data, job.beta = (const float *)s->p[1].data;
    job.channels = (int32_t)nn_channels(&s->x[0]);
    job.pixels = snls_tensor_elements(&s->x[0]) / job.channels;
    job.eps = (float)s->u.norm.eps, job.by_channels = 1 / (float)job.channels;
    job.fresh = s->fresh[0];
    return job;
}

#define BY_GROUPS(r, kernel, any, blocks)                                                                          \
    do {                                                                                                           \
        if ((r) == 1) NN_BY_TYPE(s->x[0].dtype, kernel<T, 1><<<blocks, NN_THREADS, 0, snls_cuda_stream(ctx)>>>(job));      \
        else if ((r) == 2) NN_BY_TYPE(s->x[0].dtype, kernel<T, 2><<<blocks, NN_THREADS, 0, snls_cuda_stream(ctx)>>>(job)); \
        else if ((r) == 3) NN_BY_TYPE(s->x[0].dtype, kernel<T, 3><<<blocks, NN_THREADS, 0, snls_cuda_stream(ctx)>>>(job)); \
        else if ((r) == 4) NN_BY_TYPE(s->x[0].dtype, kernel<T, 4><<<blocks, NN_THREADS, 0, snls_cuda_stream(ctx)>>>(job)); \
        else NN_BY_TYPE(s->x[0].dtype, any<T><<<blocks, NN_THREADS, 0, snls_cuda_stream(ctx)>>>(job));                     \
    } while (0)

extern "C" SnlsStatus snls_nn_cuda_norm_forward(SnlsContext *ctx, NnStep *s)
{
    SNLS_TRY(nn_take(ctx, "norm", &s->x[0]));
    NormJob job = norm_job(s);
    const int r = choose_lanes(&job, nn_aligned(job.x) && nn_aligned(job.y));
    const unsigned blocks = snls_cuda_blocks(job.pixels, NN_THREADS / job.lanes, 16 * snls_cuda(ctx)->multiprocessors);
    BY_GROUPS(r, norm_forward, norm_forward_any, blocks);
    SNLS_CUDA_LAUNCHED(ctx, "norm");
    return SNLS_OK;
}

extern "C" SnlsStatus snls_nn_cuda_norm_backward(SnlsContext *ctx, NnStep *s)
{
    SNLS_TRY(nn_take(ctx, "norm", &s->x[0]));
    NormJob job = norm_job(s);
    const int r = choose_lanes(&job, nn_aligned(job.x) && nn_aligned(job.dy) && nn_aligned(job.dx));
    const unsigned blocks = snls_cuda_blocks(job.pixels, NN_THREADS / job.lanes, r ? BLOCKS_EACH(r) * snls_cuda(ctx)->multiprocessors : SLOT_BLOCKS);
    const int64_t rows = s->dp[0].data || s->dp[1].data ? r ? blocks : (int64_t)blocks * (NN_THREADS / job.lanes) : 0;
    snls_arena_begin(&ctx->arena);
    snls_arena_plan(&ctx->arena, rows * 2 * job.channels, sizeof(float));
    SNLS_TRY(snls_cuda_commit(ctx, "norm"));
    job.parts = (float *)snls_arena_claim(&ctx->arena, rows * 2 * job.channels, sizeof(float));
    BY_GROUPS(r, norm_backward, norm_backward_any, blocks);
    SNLS_CUDA_LAUNCHED(ctx, "norm");
    return rows ? snls_nn_cuda_sum_parts(ctx, job.parts, rows, 2 * job.channels, job.channels, (float *)s->dp[0].data, (float *)s->dp[1].data) : SNLS_OK;
}
