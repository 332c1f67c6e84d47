/* plan.c: parameters and presets to the numbers that the denoiser works with, and the memory that they take. */
#include "base/options.h"
#include "denoise/nlb.h"
#include <math.h>

enum { FRAME_SIDE_MAX = 32767, BATCH_PER_THREAD = 32 };

typedef struct Preset {
    int32_t flow, radius, depth;
    struct {
        int32_t window, patches, stride, rank, reuse, start;
    } step[STEPS];
} Preset;

static const Preset presets[] = {
    [SNLS_DENOISE_FAST] = { SNLS_DENOISE_FLOW_DIS, 2, 2, { { 7, 40, 5, 98, 2, 4 }, { 7, 40, 5, 0, 2, 0 } } },
    [SNLS_DENOISE_MEDIUM] = { SNLS_DENOISE_FLOW_DIS, 3, 2, { { 9, 64, 3, 98, 1, 8 }, { 9, 64, 3, 0, 1, 0 } } },
    [SNLS_DENOISE_SLOW] = { SNLS_DENOISE_FLOW_DIS, 4, 2, { { 15, 100, 3, 98, 1, 0 }, { 15, 60, 3, 0, 1, 0 } } },
};

static SnlsStatus check_params(SnlsContext *ctx, const SnlsDenoiseParams *p)
{
    SNLS_TRY(snls_options_check(ctx, "denoise", snls_denoise_options(), p));
    SNLS_TRY(snls_reserved_check(ctx, "denoise", "snls_denoise_defaults", p->reserved, sizeof p->reserved / sizeof *p->reserved));
    for (int c = 0; c < 3; c++)
        SNLS_REQUIRE(ctx, isfinite(p->sigma[c]) && p->sigma[c] <= 1000, SNLS_ERR_ARG,
                     "denoise: sigma[%d] is %g, must be 0 to 1000, or negative to have it estimated", c, p->sigma[c]);
    return SNLS_OK;
}

static SnlsStatus check_size(SnlsContext *ctx, int64_t height, int64_t width, int64_t channels)
{
    SNLS_REQUIRE(ctx,
                 height >= 1 && width >= 1 && height <= FRAME_SIDE_MAX && width <= FRAME_SIDE_MAX &&
                     height * width <= (int64_t)1 << 29,
                 SNLS_ERR_SHAPE,
                 "denoise: frames are %lld x %lld pixels, must be 1 to %d each way and at most 2^29 in all",
                 (long long)width, (long long)height, FRAME_SIDE_MAX);
    SNLS_REQUIRE(ctx, channels == 1 || channels == 3, SNLS_ERR_SHAPE,
                 "denoise: frames have %lld channels, must be 1 or 3", (long long)channels);
    return SNLS_OK;
}

static int64_t given(int32_t value, int32_t unset, int32_t preset) { return value == unset ? preset : value; }

#define UNEQUAL 1.5 /* times the noise in one colour that another has */

static bool is_unequal(const double sigma[3], int64_t channels)
{
    const double most = fmax(sigma[0], fmax(sigma[1], sigma[2])), least = fmin(sigma[0], fmin(sigma[1], sigma[2]));
    return channels == 3 && least >= 0 && most > UNEQUAL * least;
}

static int64_t cells(int64_t length, int64_t side, int64_t stride) { return (length - side + stride - 1) / stride + 1; }

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

SnlsStatus snls_nlb_plan(SnlsContext *ctx, const SnlsDenoiseParams *p, int64_t height, int64_t width, int64_t channels,
                         NlbPlan *plan)
{
    SNLS_REQUIRE(ctx, p, SNLS_ERR_ARG, "denoise: the parameters are missing (NULL)");
    SNLS_TRY(check_params(ctx, p));
    SNLS_TRY(check_size(ctx, height, width, channels));
    const Preset *preset = &presets[p->preset];
    const int32_t window[STEPS] = { p->window1, p->window2 }, patches[STEPS] = { p->patches1, p->patches2 },
                  stride[STEPS] = { p->step1, p->step2 }, rank[STEPS] = { p->rank1, 0 },
                  reuse[STEPS] = { p->reuse1, p->reuse2 };
    const int64_t side = least(SIDE_MAX, least(height, width)), radius = given(p->radius, -1, preset->radius);
    *plan = (NlbPlan){ .height = height,
                       .width = width,
                       .channels = channels,
                       .plane = height * width + SNLS_PATCH_LANES,
                       .side = side,
                       .radius = radius,
                       .depth = radius ? given(p->depth, 0, preset->depth) : 1,
                       .slots = 4 * radius + 4,
                       .lates = 2 * radius + 3,
                       .method = p->method,
                       .unequal = is_unequal(p->sigma, channels),
                       .flow = (int32_t)given(p->flow, SNLS_DENOISE_FLOW_PRESET, preset->flow),
                       .steps = p->method == SNLS_DENOISE_VNLB ? 2 : 1 };
    for (int i = 0; i < STEPS; i++) {
        const int64_t fits = least(height, width) - side + 1, wanted = given(window[i], 0, preset->step[i].window);
        NlbStep *s = &plan->step[i];
        *s = (NlbStep){ .window = least(wanted, fits),
                        .patches = given(patches[i], 0, preset->step[i].patches),
                        .stride =
                            least(given(stride[i], 0, preset->step[i].stride), side), /* no pixel between patches */
                        .rank = given(rank[i], 0, preset->step[i].rank),
                        .theta = p->theta1,
                        .start = preset->step[i].start,
                        .reuse = given(reuse[i], -1, preset->step[i].reuse) };
        s->rows = cells(height, side, s->stride);
        s->columns = cells(width, side, s->stride);
    }
    return SNLS_OK;
}

/* ---- memory ----
 * take() lays everything out twice: first without a block, to count, then to give out its pieces. */

typedef struct Layout {
    char *base; /* NULL: only count */
    int64_t used;
} Layout;

static void *piece(Layout *l, int64_t count, int64_t size)
{
    void *at = l->base ? l->base + l->used : NULL;
    l->used += (count * size + SNLS_ALIGN - 1) / SNLS_ALIGN * SNLS_ALIGN;
    return at;
}

static void take_frame(Layout *l, const NlbPlan *p, NlbFrame *f)
{
    *f = (NlbFrame){ 0 };
    f->noisy = piece(l, p->channels * p->plane, sizeof(float));
    f->sum[0] = piece(l, p->channels * p->plane, sizeof(float));
    if (p->unequal) f->came = piece(l, p->channels * p->height * p->width, sizeof(float));
    for (int i = 0; i < p->steps; i++) f->used[i] = piece(l, p->step[i].rows * p->step[i].columns, 1);
}

static void take_late(Layout *l, const NlbPlan *p, NlbLate *late)
{
    *late = (NlbLate){ 0 };
    if (p->steps > 1) late->sum = piece(l, p->channels * p->plane, sizeof(float));
    for (int i = 0; i < p->steps; i++) {
        if (p->method != SNLS_DENOISE_NLM) late->corners[i] = piece(l, p->plane, sizeof(int32_t));
        for (int way = 0; way < 2; way++)
            late->motion[i][way] =
                p->flow == SNLS_DENOISE_FLOW_NONE ? NULL : piece(l, p->height * p->width * 2, sizeof(int16_t));
    }
}

static int64_t most_patches(const NlbPlan *p)
{
    const int64_t a = p->step[0].patches, b = p->step[1].patches;
    return a > b ? a : b;
}

static void take_work(Layout *l, const NlbPlan *p, NlbWork *w)
{
    const int64_t n = most_patches(p), dim = snls_nlb_dim(p), m = n > dim ? n : dim, wide = snls_nlb_pitch(m),
                  group = m * wide, span = 2 * p->radius + 1,
                  side = p->step[0].window > p->step[1].window ? p->step[0].window : p->step[1].window,
                  pitch = (side + SNLS_PATCH_LANES - 1) / SNLS_PATCH_LANES * SNLS_PATCH_LANES;
    w->dist = piece(l, span * side * pitch, sizeof(float));
    w->key = piece(l, span * side * side, sizeof(uint64_t));
    w->at = piece(l, n, sizeof *w->at);
    w->noisy = piece(l, p->channels * group, sizeof(float));
    w->basic = piece(l, group, sizeof(float));
    w->mean = piece(l, (p->channels + 1) * dim, sizeof(float));
    w->matrix = piece(l, 2 * m * wide, sizeof(float));
    w->values = piece(l, m, sizeof(float));
    w->vectors = piece(l, m * wide, sizeof(float));
    w->left = piece(l, m * wide, sizeof(float));
    w->right = piece(l, m * wide, sizeof(float));
    w->lapack = piece(l, snls_nlb_lapack_room(m), sizeof(float));
    w->lapack_int = piece(l, snls_nlb_lapack_int_room(m), sizeof(int32_t));
    w->small = piece(l, m * m, sizeof(float));
}

static void take_nlm(Layout *l, const NlbPlan *p, NlbNlm *n)
{
    snls_nlb_nlm_sizes(p, n);
    const int64_t cells = n->rows * n->columns, lists = cells * n->k * (2 * p->radius + 1);
    n->dist = piece(l, lists, sizeof(float));
    n->offset = piece(l, 3 * lists, sizeof(float));
    n->weight = piece(l, lists, sizeof(float));
    n->flow = piece(l, 2 * cells, sizeof(float));
    n->out = piece(l, p->channels * p->plane, sizeof(float));
}

/* Groups and what filters them. */
static void take_groups(Layout *l, SnlsDenoiser *d, int32_t threads)
{
    const NlbPlan *p = &d->plan;
    const int64_t n = most_patches(p), cells1 = p->step[0].rows * p->step[0].columns,
                  cells2 = p->step[1].rows * p->step[1].columns;
    NlbGroup *groups = piece(l, d->batch, sizeof *groups);
    NlbWork *works = piece(l, threads, sizeof *works);
    for (int64_t i = 0; i < d->batch; i++) {
        NlbGroup *g = groups ? &groups[i] : &(NlbGroup){ 0 };
        g->patch = piece(l, n, sizeof *g->patch);
        g->value = piece(l, p->channels * n * snls_nlb_dim(p), sizeof(float));
    }
    for (int32_t i = 0; i < threads; i++) take_work(l, p, works ? &works[i] : &(NlbWork){ 0 });
    d->half = piece(l, d->batch * n * p->depth, sizeof *d->half);
    d->cover = piece(l, 2 * p->width * threads, sizeof *d->cover);
    d->cell = piece(l, cells1 > cells2 ? cells1 : cells2, sizeof *d->cell);
    d->group = groups;
    d->work = works;
}

static void take(Layout *l, SnlsDenoiser *d, int32_t threads)
{
    const NlbPlan *p = &d->plan;
    const int64_t pixels = p->height * p->width;
    NlbFrame *frames = piece(l, p->slots, sizeof *frames);
    NlbLate *lates = piece(l, p->lates, sizeof *lates);
    for (int64_t i = 0; i < p->slots; i++) take_frame(l, p, frames ? &frames[i] : &(NlbFrame){ 0 });
    for (int64_t i = 0; i < p->lates; i++) take_late(l, p, lates ? &lates[i] : &(NlbLate){ 0 });
    d->frame = frames;
    d->late = lates;
    if (p->method == SNLS_DENOISE_NLM) take_nlm(l, p, &d->nlm);
    else take_groups(l, d, threads);
    if (p->flow == SNLS_DENOISE_FLOW_NONE) return;
    for (int i = 0; i < 2; i++) d->luma[i] = piece(l, pixels, sizeof(float));
    d->flow_out = piece(l, 2 * pixels, sizeof(int16_t));
    d->flow_pair = piece(l, 2 * pixels, sizeof(float));
}

static int64_t block_bytes(const NlbPlan *plan, int32_t threads)
{
    SnlsDenoiser d = { .plan = *plan, .batch = BATCH_PER_THREAD * threads };
    Layout l = { 0 };
    take(&l, &d, threads);
    return l.used + SNLS_ALIGN;
}

/* Scratch of the flow methods, of search, of gather_add and of the noise estimate, which they take from the context one after the other: bounds
 * on what they plan, bytes a pixel and bytes a thread for each row and column. That of search is what search itself plans. */
static int64_t scratch_bytes(const NlbPlan *p, int32_t threads)
{
    static const int64_t of_flow[] = {
        [SNLS_DENOISE_FLOW_FARNEBACK] = 104, [SNLS_DENOISE_FLOW_TVL1] = 100, [SNLS_DENOISE_FLOW_DIS] = 54
    };
    const int64_t of_gather = p->method == SNLS_DENOISE_NLM ? 12 * p->channels : 0,
                  pixel = of_flow[p->flow] > of_gather ? of_flow[p->flow] : of_gather,
                  bytes = pixel * p->height * p->width + threads * (720 * (p->height + p->width) + 98304) + 1048576,
                  search = p->method == SNLS_DENOISE_NLM ? snls_nlb_nlm_scratch(p, threads) : 0;
    return bytes > search + 4096 ? bytes : search + 4096; /* a host that counts sees the context itself too */
}

int64_t snls_nlb_bytes(const NlbPlan *plan, int32_t threads)
{
    return block_bytes(plan, threads) + scratch_bytes(plan, threads);
}

SnlsStatus snls_nlb_take(SnlsDenoiser *d)
{
    const int32_t threads = d->ctx->threads;
    const int64_t bytes = block_bytes(&d->plan, threads);
    d->batch = BATCH_PER_THREAD * threads;
    d->block = snls_mem_alloc(&d->ctx->allocator, bytes);
    SNLS_REQUIRE(d->ctx, d->block, SNLS_ERR_MEMORY,
                 "denoise: %.1f MiB for frames of %lld x %lld pixels could not be had", (double)bytes / 1048576,
                 (long long)d->plan.width, (long long)d->plan.height);
    Layout l = { .base = (char *)(((uintptr_t)d->block + SNLS_ALIGN - 1) / SNLS_ALIGN * SNLS_ALIGN) };
    take(&l, d, threads);
    for (int64_t i = 0; i < d->plan.lates; i++)
        for (int step = 0; step < STEPS; step++) d->late[i].holder[step] = -1;
    return SNLS_OK;
}
