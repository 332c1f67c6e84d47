/* flow.c: optical flow of a pair and of a clip: checks, frames to luma, the method, the result to the caller's view. */
#include "base/finite.h"
#include "flow/check.h"
#include "flow/methods.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SIDE_MAX = 32767 };
#define LARGEST 1e9F /* beyond it sums of squares and of their products, which all methods make, are no numbers any more; the denoiser's limit too */
#define PIXELS_MAX ((int64_t)1 << 29) /* places in a plane are 32-bit numbers */

static SnlsStatus check_size(SnlsContext *ctx, const char *who, const char *name, int64_t height, int64_t width)
{
    SNLS_REQUIRE(ctx,
                 height >= 1 && width >= 1 && height <= SIDE_MAX && width <= SIDE_MAX && height * width <= PIXELS_MAX,
                 SNLS_ERR_SHAPE, "%s: %s is %lld x %lld pixels, must be 1 to %d each way and at most %lld in all", who,
                 name, (long long)width, (long long)height, SIDE_MAX, (long long)PIXELS_MAX);
    return SNLS_OK;
}

static SnlsStatus check_view(SnlsContext *ctx, const char *who, const char *name, const SnlsTensor *t, int32_t ndim,
                             const char *layout, int32_t role)
{
    static const int64_t any[4] = { SNLS_ANY, SNLS_ANY, SNLS_ANY, SNLS_ANY };
    SNLS_REQUIRE(ctx, t->device == SNLS_DEVICE_CPU, SNLS_ERR_SHAPE, "%s: %s is not in CPU memory", who, name);
    if (t->dtype != SNLS_U8) return snls_tensor_require(ctx, who, name, t, ndim, any, layout, role);
    SnlsTensor shape = *t; /* bytes have no alignment; the rest is checked as for any other type */
    shape.dtype = SNLS_F16;
    SNLS_TRY(snls_tensor_require(ctx, who, name, &shape, ndim, any, layout, role | SNLS_ROLE_SHAPE_ONLY));
    SNLS_REQUIRE(ctx, t->data, SNLS_ERR_ARG, "%s: %s has no data", who, name);
    return SNLS_OK;
}

SnlsStatus snls_flow_check_places(SnlsContext *ctx, const char *who, const char *name, const SnlsTensor *t)
{
    SNLS_REQUIRE(ctx, snls_tensor_is_aligned(t), SNLS_ERR_ARG, "%s: %s is not aligned to its elements", who, name);
    SNLS_REQUIRE(ctx, snls_tensor_fits(t), SNLS_ERR_SHAPE, "%s: %s is larger than memory can be", who, name);
    SNLS_REQUIRE(ctx, snls_tensor_is_injective(t), SNLS_ERR_ARG, "%s: %s is an output whose elements overlap", who, name);
    return SNLS_OK;
}

static SnlsStatus check_pixels(SnlsContext *ctx, const char *who, const char *name, const SnlsTensor *t)
{
    SNLS_REQUIRE(ctx, t->dtype == SNLS_U8 || snls_is_float(t->dtype), SNLS_ERR_SHAPE,
                 "%s: %s has element type %s, must be f32, f16, bf16, f64 or u8", who, name, snls_dtype_name((SnlsDtype)t->dtype));
    return SNLS_OK;
}

SnlsStatus snls_flow_check_image(SnlsContext *ctx, const char *who, const char *name, const SnlsTensor *t)
{
    SNLS_TRY(check_pixels(ctx, who, name, t));
    SNLS_TRY(check_view(ctx, who, name, t, t->ndim == 2 ? 2 : 3, t->ndim == 2 ? "(H,W)" : "(H,W,C)", SNLS_ROLE_IN));
    SNLS_REQUIRE(ctx, t->ndim == 2 || t->shape[2] >= 1, SNLS_ERR_SHAPE, "%s: %s has no channels", who, name);
    return check_size(ctx, who, name, t->shape[0], t->shape[1]);
}

SnlsStatus snls_flow_check_field(SnlsContext *ctx, const char *who, const char *name, const SnlsTensor *t, bool output)
{
    SNLS_REQUIRE(ctx, t->dtype == SNLS_F32 || t->dtype == SNLS_F64, SNLS_ERR_SHAPE,
                 "%s: %s has element type %s, must be f32 or f64", who, name, snls_dtype_name((SnlsDtype)t->dtype));
    SNLS_TRY(check_view(ctx, who, name, t, 3, "(H,W,2)", output ? SNLS_ROLE_OUT : SNLS_ROLE_IN));
    SNLS_REQUIRE(ctx, t->shape[2] == 2, SNLS_ERR_SHAPE, "%s: %s has %lld components, must be (H,W,2)", who, name,
                 (long long)t->shape[2]);
    return check_size(ctx, who, name, t->shape[0], t->shape[1]);
}

/* Luma of one pixel; three channels are red, green, blue, summed in float as the loop over packed rows does: methods make more of a
 * difference in the last bit than the bit is worth, and a frame's strides and type are not to show. */
static float pixel_luma(const SnlsTensor *image, int64_t y, int64_t x)
{
    const int64_t at = y * image->stride[0] + x * image->stride[1], channels = image->ndim == 2 ? 1 : image->shape[2];
    if (channels == 3) {
        float rgb[3];
        for (int64_t c = 0; c < 3; c++) rgb[c] = (float)snls_flow_load(image, at + c * image->stride[2]);
        return 0.299f * rgb[0] + 0.587f * rgb[1] + 0.114f * rgb[2];
    }
    double sum = 0;
    for (int64_t c = 0; c < channels; c++) sum += 1.0 / (double)channels * snls_flow_load(image, at + (channels > 1 ? c * image->stride[2] : 0));
    return (float)sum;
}

/* Before the first of several pairs is begun: a call that fails writes nothing. */
static SnlsStatus check_finite(SnlsContext *ctx, const char *name, const SnlsTensor *image)
{
    const int64_t height = image->shape[0], width = image->shape[1], channels = image->ndim == 2 ? 1 : image->shape[2];
    const bool rows = image->dtype == SNLS_F32 && image->stride[1] == channels && (channels == 1 || image->stride[2] == 1);
    int bad = 0;
    if (image->dtype == SNLS_U8) return SNLS_OK;
#pragma omp parallel for num_threads(ctx->threads) schedule(static) reduction(| : bad)
    for (int64_t y = 0; y < height; y++) {
        if (rows) bad |= !snls_all_up_to((const float *)image->data + y * image->stride[0], width * channels, LARGEST);
        for (int64_t x = 0; !rows && x < width; x++) bad |= !(fabsf(pixel_luma(image, y, x)) <= LARGEST);
    }
    SNLS_REQUIRE(ctx, !bad, SNLS_ERR_ARG, "flow: frame %s holds a value that is not finite or beyond %g", name, (double)LARGEST);
    return SNLS_OK;
}

static SnlsStatus load_luma(const SnlsFlowJob *job, const SnlsPlane *plane, const SnlsTensor *image, const char *name)
{
    const bool packed = image->dtype == SNLS_F32 && image->ndim == 3 && image->shape[2] == 3 && image->stride[2] == 1 &&
                        image->stride[1] == 3;
    int bad = 0;
#pragma omp parallel for num_threads(job->threads) schedule(static) reduction(| : bad)
    for (int64_t y = 0; y < plane->height; y++) {
        float *row = snls_plane_row(plane, y);
        if (packed) job->loops.luma(row, (const float *)image->data + y * image->stride[0], plane->width);
        else
            for (int64_t x = 0; x < plane->width; x++) row[x] = pixel_luma(image, y, x);
        bad |= !snls_all_up_to(row, plane->width, LARGEST);
    }
    SNLS_REQUIRE(job->ctx, !bad, SNLS_ERR_ARG, "flow: frame %s holds a value that is not finite or beyond %g", name, (double)LARGEST);
    return SNLS_OK;
}

static void store_flow(const SnlsFlowJob *job, const SnlsFlowFrames *frames, const SnlsTensor *flow)
{
#pragma omp parallel for num_threads(job->threads) schedule(static)
    for (int64_t y = 0; y < frames->u.height; y++)
        for (int64_t x = 0; x < frames->u.width; x++) {
            const int64_t at = y * flow->stride[0] + x * flow->stride[1];
            snls_store(flow, at, snls_plane_row(&frames->u, y)[x]);
            snls_store(flow, at + flow->stride[2], snls_plane_row(&frames->v, y)[x]);
        }
}

/* Scratch of a pair: planes for the frames, then the method's own. */
typedef struct Work {
    SnlsFlowFrames frames;
    SnlsFarneback farneback;
    SnlsTvl1 tvl1;
    SnlsDis dis;
} Work;

static void take(SnlsFlowJob *job, Work *work, const SnlsFlowParams *p, int64_t height, int64_t width)
{
    SnlsPlane *const planes[4] = { &work->frames.from, &work->frames.to, &work->frames.u, &work->frames.v };
    for (int i = 0; i < 4; i++) *planes[i] = snls_flow_plane(job, height, width);
    if (p->method == SNLS_FLOW_FARNEBACK) snls_farneback_take(job, &work->farneback, &p->farneback, height, width);
    else if (p->method == SNLS_FLOW_TVL1) snls_tvl1_take(job, &work->tvl1, &p->tvl1, height, width);
    else snls_dis_take(job, &work->dis, &p->dis, height, width);
}

static void run(const SnlsFlowJob *job, Work *work, const SnlsFlowParams *p)
{
    if (p->method == SNLS_FLOW_FARNEBACK) snls_farneback_run(job, &work->farneback, &work->frames);
    else if (p->method == SNLS_FLOW_TVL1) snls_tvl1_run(job, &work->tvl1, &work->frames);
    else snls_dis_run(job, &work->dis, &work->frames);
}

static SnlsStatus check_pair(SnlsContext *ctx, const SnlsFlowPair *pair)
{
    SNLS_TRY(snls_flow_check_image(ctx, "flow", "from", &pair->from));
    SNLS_TRY(snls_flow_check_image(ctx, "flow", "to", &pair->to));
    SNLS_TRY(snls_flow_check_field(ctx, "flow", "flow", &pair->flow, true));
    for (int i = 0; i < 2; i++)
        SNLS_REQUIRE(ctx, pair->from.shape[i] == pair->to.shape[i] && pair->from.shape[i] == pair->flow.shape[i],
                     SNLS_ERR_SHAPE, "flow: from, to and flow are %lld, %lld and %lld pixels %s, must be the same",
                     (long long)pair->from.shape[i], (long long)pair->to.shape[i], (long long)pair->flow.shape[i],
                     i ? "wide" : "high");
    return SNLS_OK;
}

static SnlsFlowJob job_of(SnlsContext *ctx)
{
    SnlsFlowJob job = { .ctx = ctx, .threads = ctx->threads };
    snls_flow_loops(&job.loops, ctx->cpu_level ? ctx->cpu_level : SNLS_CPU_C);
    return job;
}

/* Memory for a pair of this size, which the context keeps. */
static SnlsStatus reserve(SnlsContext *ctx, const SnlsFlowParams *params, int64_t height, int64_t width)
{
    Work work = { .frames = { .from = { 0 } } };
    SnlsFlowJob job = job_of(ctx);
    snls_arena_begin(&ctx->arena);
    take(&job, &work, params, height, width);
    return snls_scratch_commit(ctx, "flow");
}

static SnlsStatus flow_of(SnlsContext *ctx, const SnlsFlowPair *pair, const SnlsFlowParams *params)
{
    const int64_t height = pair->from.shape[0], width = pair->from.shape[1];
    Work work = { .frames = { .from = { 0 } } };
    SnlsFlowJob job = job_of(ctx);
    SNLS_TRY(reserve(ctx, params, height, width));
    job.claim = true;
    take(&job, &work, params, height, width);
    SNLS_TRY(load_luma(&job, &work.frames.from, &pair->from, "from"));
    SNLS_TRY(load_luma(&job, &work.frames.to, &pair->to, "to"));
    run(&job, &work, params);
    store_flow(&job, &work.frames, &pair->flow);
    return SNLS_OK;
}

SnlsStatus snls_flow(SnlsContext *ctx, const SnlsFlowPair *pair, const SnlsFlowParams *params)
{
    if (!ctx) return SNLS_ERR_ARG;
    SNLS_REQUIRE(ctx, pair && params, SNLS_ERR_ARG, "flow: a struct is missing (NULL)");
    SNLS_TRY(snls_flow_check_params(ctx, params));
    SNLS_TRY(check_pair(ctx, pair));
    SnlsContext own, *host = snls_host_begin(ctx, &own);
    return snls_host_end(ctx, host, flow_of(host, pair, params));
}

/* ---- several pairs, each on one thread: a pair has stages of few rows, which many threads have to wait for ---- */

#define BESIDE_MAX ((int64_t)1 << 30) /* bytes of scratch of all of them */

/* A context with one thread, and how the pairs it took went. */
typedef struct Worker { SnlsContext ctx; SnlsStatus status; } Worker;

/* As many as there are threads and pairs; none where they would take too much memory. */
static int32_t open_workers(SnlsContext *ctx, Worker *workers, int64_t count, const SnlsFlowPair *pair, const SnlsFlowParams *params)
{
    const int32_t wanted = count < ctx->threads ? (int32_t)count : ctx->threads;
    int32_t n = 0;
    bool fits = true;
    for (; fits && n < wanted; n++) {
        SnlsContext *own = &workers[n].ctx;
        *own = *ctx;
        own->threads = 1;
        own->scratch = ctx->allocator;
        own->arena = (SnlsArena){ 0 };
        workers[n].status = SNLS_OK;
        fits = reserve(own, params, pair->from.shape[0], pair->from.shape[1]) >= 0 && own->arena.capacity <= BESIDE_MAX / wanted;
    }
    while (!fits && n > 0) snls_arena_release(&workers[--n].ctx.arena, &ctx->allocator);
    return n;
}

/* What the workers hold is the context's too. */
static void note_peak(SnlsContext *ctx, const Worker *workers, int32_t n)
{
    int64_t bytes = ctx->arena.capacity + ctx->arena.held_back;
    for (int32_t i = 0; i < n; i++) bytes += workers[i].ctx.arena.capacity;
    if (!ctx->arena.device && bytes > ctx->arena.peak) ctx->arena.peak = bytes;
}

static SnlsStatus run_beside(SnlsContext *ctx, Worker *workers, int32_t n, const SnlsFlowPair *pairs, int64_t count, const SnlsFlowParams *params)
{
    note_peak(ctx, workers, n);
#pragma omp parallel for num_threads(n) schedule(dynamic, 1)
    for (int64_t i = 0; i < count; i++) {
        Worker *w = &workers[snls_flow_thread()];
        if (w->status >= 0) w->status = flow_of(&w->ctx, &pairs[i], params);
    }
    SnlsStatus status = SNLS_OK;
    for (int32_t i = 0; i < n; i++) {
        if (status >= 0 && workers[i].status < 0) status = snls_fail(ctx, workers[i].status, "%s", workers[i].ctx.error);
        snls_arena_release(&workers[i].ctx.arena, &ctx->allocator);
    }
    return status;
}

/* One after the other, each on all threads. */
static SnlsStatus run_in_turn(SnlsContext *ctx, const SnlsFlowPair *pairs, int64_t count, const SnlsFlowParams *params)
{
    SnlsContext own, *host = snls_host_begin(ctx, &own);
    SnlsStatus status = SNLS_OK;
    for (int64_t i = 0; i < count && status >= 0; i++) status = flow_of(host, &pairs[i], params);
    return snls_host_end(ctx, host, status);
}

static SnlsStatus run_pairs(SnlsContext *ctx, const SnlsFlowPair *pairs, int64_t count, const SnlsFlowParams *params)
{
    Worker *workers = ctx->threads > 1 && count > 1 && !ctx->scratch_limit ? snls_mem_alloc(&ctx->allocator, ctx->threads * (int64_t)sizeof *workers) : NULL;
    const int32_t n = workers ? open_workers(ctx, workers, count, &pairs[0], params) : 0;
    const SnlsStatus status = n ? run_beside(ctx, workers, n, pairs, count, params) : run_in_turn(ctx, pairs, count, params);
    snls_mem_free(&ctx->allocator, workers);
    return status;
}

SnlsStatus snls_flow_pairs(SnlsContext *ctx, const SnlsFlowPair *pairs, int64_t count, const SnlsFlowParams *params)
{
    if (!ctx) return SNLS_ERR_ARG;
    SNLS_REQUIRE(ctx, count >= 0, SNLS_ERR_ARG, "flow_pairs: count is %lld, must not be negative", (long long)count);
    SNLS_REQUIRE(ctx, (pairs || !count) && params, SNLS_ERR_ARG, "flow_pairs: a struct is missing (NULL)");
    SNLS_TRY(snls_flow_check_params(ctx, params));
    for (int64_t i = 0; i < count; i++) {
        SNLS_TRY(check_pair(ctx, &pairs[i]));
        SNLS_REQUIRE(ctx, pairs[i].from.shape[0] == pairs[0].from.shape[0] && pairs[i].from.shape[1] == pairs[0].from.shape[1], SNLS_ERR_SHAPE,
                     "flow_pairs: pair %lld is %lld x %lld pixels, the first is %lld x %lld", (long long)i, (long long)pairs[i].from.shape[1], (long long)pairs[i].from.shape[0],
                     (long long)pairs[0].from.shape[1], (long long)pairs[0].from.shape[0]);
    }
    for (int64_t i = 0; count > 1 && i < count; i++) {
        SNLS_TRY(check_finite(ctx, "from", &pairs[i].from));
        SNLS_TRY(check_finite(ctx, "to", &pairs[i].to));
    }
    return run_pairs(ctx, pairs, count, params);
}

/* ---- clips ---- */

static SnlsTensor slice(const SnlsTensor *t, int64_t index) /* of the first axis */
{
    SnlsTensor s = *t;
    s.data = (char *)t->data + index * t->stride[0] * snls_dtype_size((SnlsDtype)t->dtype);
    s.ndim--;
    for (int32_t i = 0; i < s.ndim; i++) {
        s.shape[i] = t->shape[i + 1];
        s.stride[i] = t->stride[i + 1];
    }
    return s;
}

static void fill_zero(const SnlsTensor *flow)
{
    for (int64_t y = 0; y < flow->shape[0]; y++)
        for (int64_t x = 0; x < flow->shape[1]; x++)
            for (int64_t c = 0; c < 2; c++)
                snls_store(flow, y * flow->stride[0] + x * flow->stride[1] + c * flow->stride[2], 0);
}

static SnlsStatus check_clip(SnlsContext *ctx, const SnlsTensor *video, const char *name, const SnlsTensor *flow)
{
    if (!flow->data) return SNLS_OK;
    const int64_t want[4] = { video->shape[0], video->shape[1], video->shape[2], 2 };
    SNLS_REQUIRE(ctx, flow->dtype == SNLS_F32 || flow->dtype == SNLS_F64, SNLS_ERR_SHAPE,
                 "flow_clip: %s has element type %s, must be f32 or f64", name,
                 snls_dtype_name((SnlsDtype)flow->dtype));
    return snls_tensor_require(ctx, "flow_clip", name, flow, 4, want, "(T,H,W,2)", SNLS_ROLE_OUT);
}

/* The pairs of one direction. */
static int64_t clip_pairs(const SnlsFlowClip *clip, const SnlsTensor *out, int64_t step, SnlsFlowPair *pairs)
{
    int64_t n = 0;
    for (int64_t t = 0; out->data && t < clip->video.shape[0]; t++)
        if (t + step >= 0 && t + step < clip->video.shape[0]) pairs[n++] = (SnlsFlowPair){ slice(&clip->video, t), slice(&clip->video, t + step), slice(out, t) };
    return n;
}

static SnlsStatus check_pairs(SnlsContext *ctx, const SnlsFlowClip *clip, const SnlsFlowPair *pairs, int64_t count)
{
    for (int64_t i = 0; i < count; i++) SNLS_TRY(check_pair(ctx, &pairs[i]));
    for (int64_t t = 0; count && t < clip->video.shape[0]; t++) {
        const SnlsTensor frame = slice(&clip->video, t);
        char name[32];
        snprintf(name, sizeof name, "%lld", (long long)t);
        SNLS_TRY(check_finite(ctx, name, &frame));
    }
    return SNLS_OK;
}

/* Of the frame that has none to go to. */
static void clear_end(const SnlsTensor *out, int64_t t)
{
    if (!out->data || out->shape[0] < 1) return;
    const SnlsTensor flow = slice(out, t);
    fill_zero(&flow);
}

SnlsStatus snls_flow_clip(SnlsContext *ctx, const SnlsFlowClip *clip, const SnlsFlowParams *params)
{
    if (!ctx) return SNLS_ERR_ARG;
    SNLS_REQUIRE(ctx, clip && params, SNLS_ERR_ARG, "flow_clip: a struct is missing (NULL)");
    SNLS_TRY(snls_flow_check_params(ctx, params));
    SNLS_TRY(check_pixels(ctx, "flow_clip", "video", &clip->video));
    SNLS_TRY(check_view(ctx, "flow_clip", "video", &clip->video, 4, "(T,H,W,C)", SNLS_ROLE_IN));
    SNLS_TRY(check_clip(ctx, &clip->video, "forward", &clip->forward));
    SNLS_TRY(check_clip(ctx, &clip->video, "backward", &clip->backward));
    SnlsFlowPair *pairs = snls_mem_alloc(&ctx->allocator, 2 * clip->video.shape[0] * (int64_t)sizeof *pairs);
    SNLS_REQUIRE(ctx, pairs, SNLS_ERR_MEMORY, "flow_clip: no memory for a list of %lld frames", (long long)clip->video.shape[0]);
    int64_t n = clip_pairs(clip, &clip->forward, 1, pairs);
    n += clip_pairs(clip, &clip->backward, -1, pairs + n);
    SnlsStatus status = check_pairs(ctx, clip, pairs, n);
    if (status >= 0) status = run_pairs(ctx, pairs, n, params);
    snls_mem_free(&ctx->allocator, pairs);
    if (status < 0) return status;
    clear_end(&clip->forward, clip->forward.shape[0] - 1);
    clear_end(&clip->backward, 0);
    return status;
}
