/* train.cu: what a step of training does beside the network: batches, loss, optimiser; and its capture as a graph. */
#include "cuda/cuda.h"
extern "C" {
#include "model/train_device.h"
}

enum { THREADS = 256 };

#define LAUNCHED(ctx) SNLS_CUDA_TRY(ctx, "train", cudaGetLastError())

/* ---- batches: noise is drawn in f32 (the counter's bits are the same as elsewhere, the last digits of a logarithm are not) ---- */

static __device__ float normal(uint64_t seed, uint64_t i)
{
    const uint64_t pair = snls_mix(snls_mix(seed) + (i >> 1) * 0xd1342543de82ef95u);
    const float radius = sqrtf(-2 * logf((float)snls_uniform(pair))), turns = 2 * (float)snls_uniform(snls_mix(pair));
    return radius * (i & 1 ? sinpif(turns) : cospif(turns));
}

static __global__ void __launch_bounds__(THREADS) draw_batch(const __grid_constant__ TrainState s)
{
    const int64_t pixels = (int64_t)s.p.frames * s.p.crop * s.p.crop, sample = blockIdx.y;
    const TrainCut c = train_cut(&s.p, *s.step, sample, s.clips, s.clip_count);
    for (SNLS_CUDA_EACH(i, pixels)) {
        const uint8_t *from = c.clip->pixels + train_pixel(&s.p, &c, i);
        const int64_t at = sample * pixels + i;
        for (int k = 0; k < 3; k++) {
            const float clean = from[k], noisy = clean + (float)c.sigma * normal(c.noise, (uint64_t)(3 * i + k));
            s.clean[3 * at + k] = clean;
            s.noisy[3 * at + k] = noisy;
            snls_cuda_store(&s.in, 4 * at + k, noisy / 255);
        }
        snls_cuda_store(&s.in, 4 * at + 3, (float)(c.sigma / 255));
    }
}

static SnlsStatus draw(SnlsContext *ctx, const TrainState *s)
{
    const int64_t pixels = (int64_t)s->p.frames * s->p.crop * s->p.crop;
    draw_batch<<<dim3(snls_cuda_blocks(pixels, THREADS, 0), (unsigned)s->p.batch), THREADS, 0, snls_cuda_stream(ctx)>>>(*s);
    LAUNCHED(ctx);
    return SNLS_OK;
}

/* ---- sums: each block's threads in a tree, then the blocks in their order ---- */

static __device__ double block_sum(double x)
{
    __shared__ double sums[THREADS];
    __syncthreads();
    sums[threadIdx.x] = x;
    for (int step = THREADS / 2; step > 0; step /= 2) {
        __syncthreads();
        if ((int)threadIdx.x < step) sums[threadIdx.x] += sums[threadIdx.x + step];
    }
    __syncthreads();
    return sums[0];
}

/* One block: numbers first .. first+count-1 from their parts. */
static __global__ void __launch_bounds__(THREADS) add_parts(const __grid_constant__ TrainState s, int first, int count)
{
    for (int n = first; n < first + count; n++) {
        double sum = 0;
        for (int i = (int)threadIdx.x; i < TRAIN_PARTS; i += THREADS) sum += s.parts[i * TRAIN_NUMBERS + n];
        sum = block_sum(sum);
        if (threadIdx.x == 0) s.numbers[n] = sum;
    }
}

/* ---- loss ---- */

static __global__ void __launch_bounds__(THREADS) find_loss(const __grid_constant__ TrainState s, int64_t count)
{
    double loss = 0, square = 0, square_noisy = 0;
    for (SNLS_CUDA_EACH(i, count)) {
        const double noise = ((double)s.noisy[i] - (double)s.clean[i]) / 255, error = noise + (double)snls_cuda_load(&s.out, i);
        const TrainTerm t = train_term(s.p.loss, error);
        loss += t.loss, square += error * error, square_noisy += noise * noise;
        snls_cuda_store(&s.d_out, i, (float)(t.slope / (double)count));
    }
    const double sums[3] = {block_sum(loss), block_sum(square), block_sum(square_noisy)};
    if (threadIdx.x < 3) s.parts[blockIdx.x * TRAIN_NUMBERS + threadIdx.x] = sums[threadIdx.x];
}

static SnlsStatus find_losses(SnlsContext *ctx, const TrainState *s)
{
    find_loss<<<TRAIN_PARTS, THREADS, 0, snls_cuda_stream(ctx)>>>(*s, snls_tensor_elements(&s->out));
    LAUNCHED(ctx);
    add_parts<<<1, THREADS, 0, snls_cuda_stream(ctx)>>>(*s, TRAIN_LOSS, 3);
    LAUNCHED(ctx);
    return SNLS_OK;
}

/* ---- optimiser ---- */

static __global__ void __launch_bounds__(THREADS) find_norm(const __grid_constant__ TrainState s)
{
    double sum = 0;
    for (SNLS_CUDA_EACH(i, s.total)) sum += (double)s.weights.g[i] * (double)s.weights.g[i];
    sum = block_sum(sum);
    if (threadIdx.x == 0) s.parts[blockIdx.x * TRAIN_NUMBERS + TRAIN_NORM] = sum;
}

static __global__ void __launch_bounds__(THREADS) move_weights(const __grid_constant__ TrainState s)
{
    const double norm = sqrt(s.numbers[TRAIN_NORM]);
    if (!isfinite(norm) || !isfinite(s.numbers[TRAIN_LOSS])) return;
    const TrainUpdate u = train_update(&s.p, *s.step, norm);
    for (SNLS_CUDA_EACH(i, s.total)) train_move(&u, &s.weights, i, s.decay[i] ? s.p.decay : 0);
}

static __global__ void count_step(const __grid_constant__ TrainState s)
{
    s.numbers[TRAIN_RATE] = train_rate(&s.p, *s.step);
    ++*s.step;
}

static SnlsStatus move_all(SnlsContext *ctx, const TrainState *s)
{
    cudaStream_t stream = snls_cuda_stream(ctx);
    find_norm<<<TRAIN_PARTS, THREADS, 0, stream>>>(*s);
    LAUNCHED(ctx);
    add_parts<<<1, THREADS, 0, stream>>>(*s, TRAIN_NORM, 1);
    LAUNCHED(ctx);
    move_weights<<<snls_cuda_blocks(s->total, THREADS, 1024), THREADS, 0, stream>>>(*s);
    LAUNCHED(ctx);
    count_step<<<1, 1, 0, stream>>>(*s);
    LAUNCHED(ctx);
    return SNLS_OK;
}

/* ---- graphs ---- */

static SnlsStatus stream_open(SnlsContext *ctx, void **stream)
{
    int before = 0;
    SNLS_TRY(snls_cuda_enter(ctx, "train", &before));
    return snls_cuda_leave(before, snls_cuda_check(ctx, "train", cudaStreamCreateWithFlags((cudaStream_t *)stream, cudaStreamNonBlocking)));
}

static void stream_close(void *stream)
{
    if (stream) (void)cudaStreamDestroy((cudaStream_t)stream);
}

static SnlsStatus capture_begin(SnlsContext *ctx)
{
    return snls_cuda_check(ctx, "train", cudaStreamBeginCapture(snls_cuda_stream(ctx), cudaStreamCaptureModeThreadLocal));
}

static SnlsStatus capture_end(SnlsContext *ctx, void **graph)
{
    cudaGraph_t captured = NULL;
    cudaGraphExec_t ready = NULL;
    *graph = NULL;
    SNLS_CUDA_TRY(ctx, "train", cudaStreamEndCapture(snls_cuda_stream(ctx), &captured));
    const cudaError_t error = cudaGraphInstantiate(&ready, captured, 0);
    (void)cudaGraphDestroy(captured);
    *graph = ready;
    return snls_cuda_check(ctx, "train", error);
}

static SnlsStatus launch(SnlsContext *ctx, void *graph)
{
    int before = 0;
    SNLS_TRY(snls_cuda_enter(ctx, "train", &before));
    return snls_cuda_leave(before, snls_cuda_check(ctx, "train", cudaGraphLaunch((cudaGraphExec_t)graph, snls_cuda_stream(ctx))));
}

static void graph_close(void *graph)
{
    if (graph) (void)cudaGraphExecDestroy((cudaGraphExec_t)graph);
}

/* ---- the table: every part of a step with the context's GPU current ---- */

#define PART(name, work)                                               \
    static SnlsStatus name(SnlsContext *ctx, const TrainState *s)      \
    {                                                                  \
        int before = 0;                                                \
        SNLS_TRY(snls_cuda_enter(ctx, "train", &before));              \
        return snls_cuda_leave(before, work(ctx, s));                  \
    }
PART(batch, draw)
PART(judge, find_losses)
PART(update, move_all)
#undef PART

extern "C" const TrainDevice snls_train_cuda = {.batch = batch, .judge = judge, .update = update, .stream_open = stream_open, .stream_close = stream_close,
                                                .capture_begin = capture_begin, .capture_end = capture_end, .launch = launch, .graph_close = graph_close};
