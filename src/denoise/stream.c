/* stream.c: the public functions: frames in and out, and which frame is worked on when.
 *
 * A scene is worked through frame by frame, twice. References in frame t look at 2*radius+1 frames around it (at the ends of
 * the scene, at its first or last so many), and at the partner of the last. So a frame's estimate is known when the
 * references radius frames later are done, and step 2 runs behind step 1 by its own window. Frames are held as long as
 * anything can look at them; what is done for a frame depends on its scene alone, not on when frames come and go. */
#include "base/finite.h"
#include "base/threads.h"
#include "denoise/nlb.h"
#include <math.h>
#include <string.h>

enum { GUESS_REACH = 8 }; /* frames back that a frame's noise is estimated from */

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t lesser(int64_t a, int64_t b) { return a < b ? a : b; }

/* ---- which frame is ready for what ---- */

int64_t snls_nlb_span(const SnlsDenoiser *d, int64_t t, int64_t *first)
{
    const int64_t whole = 2 * d->plan.radius + 1;
    *first = larger(t - d->plan.radius, d->begin);
    if (d->end < 0) return whole;
    const int64_t count = lesser(whole, d->end - d->begin);
    *first = lesser(*first, d->end - count);
    return count;
}

/* The end of the scene in work is known when the next has begun. Of frames that are gone, none was the first of a scene: they were looked at
 * while they were held. */
static void find_end(SnlsDenoiser *d)
{
    for (int64_t t = larger(d->begin + 1, d->pushed - d->plan.slots); d->end < 0 && t < d->pushed; t++)
        if (snls_nlb_frame(d, t)->first) d->end = t;
    if (d->end < 0 && d->finished) d->end = d->pushed;
}

static bool may_run(const SnlsDenoiser *d, int step)
{
    const int64_t t = d->done[step], have = step ? d->ready[step - 1] : d->end >= 0 ? d->end : d->pushed;
    if (d->end >= 0 && t >= d->end) return false;
    int64_t first;
    const int64_t past = snls_nlb_span(d, t, &first) + first + 1; /* the partner of the last frame */
    if (step && past - d->pulled > d->plan.lates) return false;   /* sums that wait to be pulled are in the way */
    return have >= (d->end >= 0 ? lesser(past, d->end) : past) && have > t;
}

/* No reference that is still to come has a patch in frame t. Near the scene's end all windows reach back to one frame. */
static bool is_final(const SnlsDenoiser *d, int step, int64_t t)
{
    if (d->end >= 0 && d->done[step] >= d->end) return true;
    const bool tail = d->end >= 0 && t >= d->end - 1 - 2 * d->plan.radius;
    return !tail && d->done[step] > t + d->plan.radius;
}

/* The oldest frame that work still to come can look at. */
static int64_t oldest(const SnlsDenoiser *d)
{
    int64_t t = d->done[d->plan.steps - 1] - d->plan.radius;
    if (d->end >= 0) t = lesser(t, d->end - 1 - 2 * d->plan.radius);
    return lesser(larger(t, d->begin), d->pulled);
}

/* ---- work ---- */

void snls_nlb_spread(const NlbPlan *p, NlbGuess *g)
{
    const double r = g->sigma[0] * g->sigma[0], green = g->sigma[1] * g->sigma[1], b = g->sigma[2] * g->sigma[2];
    const double of[3] = { (r + green + b) / 3, (r + b) / 2, (r + 4 * green + b) / 6 };
    for (int c = 0; c < 3; c++) g->noise[c] = sqrt(p->channels == 3 ? of[c] : r);
}

static double largest_sigma(const SnlsDenoiser *d, const NlbGuess *g)
{
    double most = 0;
    for (int64_t c = 0; c < d->plan.channels; c++) most = g->sigma[c] > most ? g->sigma[c] : most;
    return most;
}

/* Frames between those that have a guess: few enough that every window has one, and a part of SNLS_DENOISE_PERIOD, so that a
 * denoiser that begins on one of its multiples makes the same guesses. */
static int64_t guess_step(const SnlsDenoiser *d) { return d->plan.radius > 1 ? 4 : d->plan.radius + 1; }

/* Medians of the guesses from GUESS_REACH frames back up to the last frame that references in frame t look at: noise may change within a scene, as in
 * a fade. Where all of sigma is estimated, so is that of the decorrelated channels: cameras and codecs leave more of it in brightness than
 * in colour. */
static void estimate_noise(const SnlsDenoiser *d, int64_t t, NlbGuess *use)
{
    int64_t first, count = 0;
    const int64_t past = snls_nlb_span(d, t, &first) + first;
    NlbGuess all[GUESSES];
    double room[GUESSES];
    for (int64_t i = larger(lesser(t - GUESS_REACH, first), d->begin); i < past; i++)
        all[count++] = d->guess[i % GUESSES];
    bool whole = true;
    for (int64_t c = 0; c < d->plan.channels; c++) {
        const bool given = d->params.sigma[c] >= 0;
        whole &= !given;
        use->sigma[c] = given ? d->params.sigma[c] : snls_nlb_median(&all[0].sigma[c], count, sizeof *all / sizeof(double), room);
        use->noise[c] = snls_nlb_median(&all[0].noise[c], count, sizeof *all / sizeof(double), room);
    }
    if (!whole) snls_nlb_spread(&d->plan, use);
}

/* Before the first step comes to frame t. */
static void find_noise(SnlsDenoiser *d, int64_t t)
{
    NlbFrame *f = snls_nlb_frame(d, t);
    f->use = d->told;
    f->quiet = d->told_quiet;
    if (!d->estimates) return;
    estimate_noise(d, t, &f->use);
    f->quiet = largest_sigma(d, &f->use) < SNLS_NO_NOISE;
}

static void set_variance(SnlsDenoiser *d, const NlbGuess *use)
{
    for (int c = 0; c < 3; c++) {
        d->variance[c] = (float)(use->noise[c] * use->noise[c]);
        if (d->variance[c] < 1e-6f) d->variance[c] = 1e-6f;
    }
}

static void pass_on(SnlsDenoiser *d, int step, int64_t t)
{
    const NlbFrame *f = snls_nlb_frame(d, t);
    memcpy(f->sum[step], f->noisy, (size_t)(d->plan.channels * d->plan.plane) * sizeof(float));
}

/* Sums of the frames that references in frame t can reach are cleared, the motion between them is found. Frames before them, where
 * there was nothing to filter, may be gone. */
static SnlsStatus open_frames(SnlsDenoiser *d, int step, int64_t t)
{
    const NlbPlan *p = &d->plan;
    int64_t first, past = snls_nlb_span(d, t, &first) + first + 1;
    if (d->end >= 0) past = lesser(past, d->end);
    const int64_t begin = d->opened[step] = larger(d->opened[step], first);
    for (; d->opened[step] < past; d->opened[step]++) {
        const NlbFrame *f = snls_nlb_frame(d, d->opened[step]);
        memset(f->sum[step], 0, (size_t)(p->channels * p->plane) * sizeof(float));
        if (f->corners[step]) memset(f->corners[step], 0, (size_t)p->plane * sizeof(int32_t));
        if (d->opened[step] > (begin == first ? first : d->begin)) SNLS_TRY(snls_nlb_motion(d, step, d->opened[step]));
    }
    return SNLS_OK;
}

/* Every so many frames of a scene nothing counts as covered by groups of earlier frames: what comes depends on nothing older. Step 2
 * forgets later by as many frames as an estimate of step 1 can reach back. */
static void forget(SnlsDenoiser *d, int step)
{
    const int64_t t = d->done[step], late = step ? 2 * d->plan.radius + 2 : 0;
    const NlbStep *s = &d->plan.step[step];
    if (t - d->begin <= late || (t - snls_nlb_frame(d, t)->origin - late) % SNLS_DENOISE_PERIOD) return;
    for (int64_t i = t; i < d->pushed && (d->end < 0 || i < d->end); i++)
        memset(snls_nlb_frame(d, i)->used[step], 0, (size_t)(s->rows * s->columns));
}

/* The references of frame t, if it has noise. */
static SnlsStatus filter(SnlsDenoiser *d, int step, int64_t t)
{
    if (!step) find_noise(d, t);
    const NlbFrame *f = snls_nlb_frame(d, t);
    if (d->plan.method == SNLS_DENOISE_VNLB) forget(d, step);
    if (f->quiet) return SNLS_OK;
    set_variance(d, &f->use);
    SNLS_TRY(open_frames(d, step, t));
    return snls_nlb_step(d, step, t);
}

/* One step for one frame, and the estimates that are final then. */
static SnlsStatus run(SnlsDenoiser *d, int step)
{
    d->depth = d->end >= 0 && d->end - d->begin == 1 ? 1 : d->plan.depth;
    SNLS_TRY(filter(d, step, d->done[step]));
    d->done[step]++;
    for (; d->ready[step] < d->done[step] && is_final(d, step, d->ready[step]); d->ready[step]++) {
        const int64_t t = d->ready[step];
        if (snls_nlb_frame(d, t)->quiet) pass_on(d, step, t);
        else snls_nlb_estimate(d, step, t);
    }
    return SNLS_OK;
}

static void next_scene(SnlsDenoiser *d)
{
    d->begin = d->end;
    d->end = -1;
    for (int i = 0; i < STEPS; i++) d->opened[i] = d->done[i] = d->ready[i] = d->begin;
}

/* One piece of work. SNLS_END: there is none. */
static SnlsStatus advance(SnlsDenoiser *d)
{
    find_end(d);
    for (int step = d->plan.steps - 1; step >= 0; step--)
        if (may_run(d, step)) return run(d, step);
    if (d->end < 0 || d->ready[d->plan.steps - 1] < d->end || d->end >= d->pushed) return SNLS_END;
    next_scene(d);
    return SNLS_OK;
}

/* ---- open and close ---- */

static bool wants_estimate(const SnlsDenoiser *d)
{
    bool any = false;
    for (int64_t c = 0; c < d->plan.channels; c++) any |= d->params.sigma[c] < 0;
    return any;
}

static bool wants_copy(const SnlsDenoiser *d)
{
    bool all = true;
    for (int64_t c = 0; c < d->plan.channels; c++) all &= d->params.sigma[c] == 0;
    return all;
}

static SnlsStatus check_build(SnlsContext *ctx, const SnlsDenoiseParams *p)
{
#ifndef SNLS_HAVE_LAPACK
    SNLS_REQUIRE(ctx, p->method != SNLS_DENOISE_VNLB, SNLS_ERR_UNSUPPORTED,
                 "denoise: method vnlb needs LAPACK, which this build was made without; nlm does not");
#endif
    SNLS_REQUIRE(ctx, snls_device_type(ctx) == SNLS_DEVICE_CPU, SNLS_ERR_UNSUPPORTED,
                 "denoise: works in CPU memory, the context's backend is %s", snls_backend_name(ctx));
    (void)p;
    return SNLS_OK;
}

SnlsStatus snls_denoiser_open(SnlsDenoiser **out, SnlsContext *ctx, const SnlsDenoiseParams *params, int64_t height,
                              int64_t width, int64_t channels)
{
    if (out) *out = NULL;
    if (!ctx) return SNLS_ERR_ARG;
    NlbPlan plan;
    SNLS_REQUIRE(ctx, out, SNLS_ERR_ARG, "denoise: the result is missing (NULL)");
    SNLS_TRY(snls_nlb_plan(ctx, params, height, width, channels, &plan));
    SNLS_TRY(check_build(ctx, params));
    SnlsDenoiser *d = snls_mem_alloc(&ctx->allocator, sizeof *d);
    SNLS_REQUIRE(ctx, d, SNLS_ERR_MEMORY, "denoise: out of memory");
    *d = (SnlsDenoiser){ .ctx = ctx, .params = *params, .plan = plan, .end = -1 };
    const SnlsStatus status = snls_nlb_take(d);
    if (status < 0) snls_denoiser_close(&d);
    if (status < 0) return status;
    const int level = ctx->cpu_level ? ctx->cpu_level : SNLS_CPU_C;
    snls_patch_loops(&d->loops, level);
    snls_group_loops(&d->group_loops, level);
    memcpy(d->told.sigma, params->sigma, sizeof d->told.sigma);
    d->copy = wants_copy(d);
    d->estimates = wants_estimate(d);
    if (!d->estimates) snls_nlb_spread(&plan, &d->told);
    *out = d;
    return SNLS_OK;
}

void snls_denoiser_close(SnlsDenoiser **d)
{
    if (!d || !*d) return;
    const SnlsAllocator allocator = (*d)->ctx->allocator;
    snls_mem_free(&allocator, (*d)->block);
    snls_mem_free(&allocator, *d);
    *d = NULL;
}

/* ---- in ---- */

static SnlsStatus check_push(SnlsDenoiser *d, const float *frame)
{
    const int64_t count = d->plan.height * d->plan.width * d->plan.channels;
    SNLS_REQUIRE(d->ctx, frame, SNLS_ERR_ARG, "denoise: the frame is missing (NULL)");
    SNLS_REQUIRE(d->ctx, !d->finished, SNLS_ERR_ARG, "denoise: a frame was pushed after finish");
    SNLS_REQUIRE(d->ctx, snls_all_up_to(frame, count, d->copy ? FLT_MAX : NLB_LARGEST), SNLS_ERR_ARG, "denoise: frame %lld holds a value that is not finite or beyond %g",
                 (long long)d->pushed, (double)NLB_LARGEST);
    SnlsStatus status = SNLS_OK;
    while (!d->copy && d->pushed - oldest(d) >= d->plan.slots && status == SNLS_OK) status = advance(d);
    if (status < 0) return status;
    SNLS_REQUIRE(d->ctx, d->pushed - (d->copy ? d->pulled : oldest(d)) < d->plan.slots, SNLS_ERR_ARG,
                 "denoise: no room for frame %lld, finished frames must be pulled first", (long long)d->pushed);
    return SNLS_OK;
}

static SnlsStatus make_guess(SnlsDenoiser *d, const float *frame, const float *planes)
{
    NlbGuess *g = &d->guess[d->pushed % GUESSES];
    if (!d->estimates) return SNLS_OK;
    for (int c = 0; c < 3; c++) g->sigma[c] = g->noise[c] = SAYS_NOTHING;
    const bool may_turn = snls_nlb_may_turn(d, planes);
    if ((d->pushed - d->scene) % guess_step(d) && !d->silent && !may_turn) return SNLS_OK;
    SNLS_TRY(snls_nlb_guess(d->ctx, &d->plan, planes, frame, g));
    d->silent = g->sigma[0] < 0 && g->sigma[1] < 0 && g->sigma[2] < 0; /* then the next frame is asked too */
    snls_nlb_frame(d, d->pushed)->first |= may_turn && snls_nlb_turned(d);
    return SNLS_OK;
}

/* A new frame takes its place in turn. */
static NlbFrame *take_place(const SnlsDenoiser *d, bool first)
{
    const NlbPlan *p = &d->plan;
    NlbFrame *f = snls_nlb_frame(d, d->pushed);
    const NlbLate *late = &d->late[d->pushed % p->lates];
    f->first = first;
    f->sum[1] = late->sum;
    for (int i = 0; i < p->steps; i++) {
        f->corners[i] = late->corners[i];
        for (int way = 0; way < 2; way++) f->motion[i][way] = late->motion[i][way];
        memset(f->used[i], 0, (size_t)(p->step[i].rows * p->step[i].columns));
    }
    return f;
}

SnlsStatus snls_denoiser_push(SnlsDenoiser *d, const float *frame, int32_t cut)
{
    if (!d) return SNLS_ERR_ARG;
    SNLS_TRY(check_push(d, frame));
    NlbFrame *f = take_place(d, cut || !d->pushed);
    if (d->copy) memcpy(f->noisy, frame, (size_t)(d->plan.height * d->plan.width * d->plan.channels) * sizeof *frame);
    else snls_nlb_load(&d->plan, f->noisy, frame);
    if (f->came) memcpy(f->came, frame, (size_t)(d->plan.height * d->plan.width * d->plan.channels) * sizeof *frame);
    if (f->first) d->scene = d->pushed;
    f->origin = d->scene;
    if (!d->copy) SNLS_TRY(make_guess(d, frame, f->noisy));
    d->pushed++;
    return SNLS_OK;
}

SnlsStatus snls_denoiser_finish(SnlsDenoiser *d)
{
    if (!d) return SNLS_ERR_ARG;
    d->finished = true;
    return SNLS_OK;
}

/* ---- out ---- */

static void keep_flow(SnlsDenoiser *d, int64_t t)
{
    const int last = d->plan.steps - 1;
    const int16_t *motion = snls_nlb_frame(d, t)->motion[last][0];
    d->has_flow = motion && d->late[t % d->plan.lates].holder[last] == t;
    if (d->has_flow) memcpy(d->flow_out, motion, (size_t)(2 * d->plan.height * d->plan.width) * sizeof *motion);
}

SnlsStatus snls_denoiser_pull(SnlsDenoiser *d, float *frame)
{
    if (!d) return SNLS_ERR_ARG;
    SNLS_REQUIRE(d->ctx, frame, SNLS_ERR_ARG, "denoise: the frame is missing (NULL)");
    const int last = d->plan.steps - 1;
    SnlsStatus status = SNLS_OK;
    if (d->copy && d->pulled == d->pushed) return SNLS_END;
    while (!d->copy && d->ready[last] <= d->pulled && status == SNLS_OK) status = advance(d);
    if (status != SNLS_OK) return status;
    const NlbFrame *f = snls_nlb_frame(d, d->pulled);
    if (d->copy) memcpy(frame, f->noisy, (size_t)(d->plan.height * d->plan.width * d->plan.channels) * sizeof *frame);
    else snls_nlb_store(&d->plan, frame, f->sum[last]);
    if (!d->copy && f->came) snls_nlb_mix(&d->plan, frame, f->came, f->use.sigma);
    if (!d->copy) keep_flow(d, d->pulled);
    d->last = d->copy ? d->told : f->use;
    d->pulled++;
    return SNLS_OK;
}

/* ---- questions ---- */

int64_t snls_denoiser_memory(const SnlsDenoiseParams *params, int64_t height, int64_t width, int64_t channels,
                             int32_t threads)
{
    NlbPlan plan;
    SnlsContext *ctx = NULL;
#ifndef SNLS_HAVE_LAPACK
    if (params && params->method == SNLS_DENOISE_VNLB) return -1;
#endif
    if (threads < 0 || threads > SNLS_THREADS_MOST || snls_nlb_plan(NULL, params, height, width, channels, &plan) < 0) return -1;
    if (!threads) {
        if (snls_open(&ctx, NULL) < 0) return -1;
        threads = snls_threads(ctx);
        snls_close(&ctx);
    }
    return snls_nlb_bytes(&plan, threads) + (int64_t)sizeof(SnlsDenoiser);
}

int64_t snls_denoiser_delay(const SnlsDenoiser *d) { return d && !d->copy ? d->plan.slots : 1; }

SnlsStatus snls_denoiser_groups(const SnlsDenoiser *d, int64_t groups[2])
{
    if (!d) return SNLS_ERR_ARG;
    SNLS_REQUIRE(d->ctx, groups, SNLS_ERR_ARG, "denoise: groups is NULL");
    for (int i = 0; i < STEPS; i++) groups[i] = d->groups[i];
    return SNLS_OK;
}

/* What the last pulled frame was filtered by; where it was told, that is known from the beginning. NULL: not known yet. */
static const NlbGuess *in_use(const SnlsDenoiser *d) { return !d->estimates ? &d->told : d->pulled ? &d->last : NULL; }

SnlsStatus snls_denoiser_sigma(const SnlsDenoiser *d, double sigma[3])
{
    if (!d) return SNLS_ERR_ARG;
    SNLS_REQUIRE(d->ctx, sigma, SNLS_ERR_ARG, "denoise: sigma is NULL");
    const NlbGuess *use = in_use(d);
    for (int c = 0; use && c < 3; c++) sigma[c] = use->sigma[d->plan.channels == 1 ? 0 : c];
    return use ? SNLS_OK : SNLS_END;
}

SnlsStatus snls_denoiser_noise(const SnlsDenoiser *d, double noise[3])
{
    if (!d) return SNLS_ERR_ARG;
    SNLS_REQUIRE(d->ctx, noise, SNLS_ERR_ARG, "denoise: noise is NULL");
    const NlbGuess *use = in_use(d);
    for (int c = 0; use && c < 3; c++) noise[c] = use->noise[d->plan.channels == 1 ? 0 : c];
    return use ? SNLS_OK : SNLS_END;
}

SnlsStatus snls_denoiser_set_noise(SnlsDenoiser *d, const double noise[3])
{
    if (!d) return SNLS_ERR_ARG;
    SNLS_REQUIRE(d->ctx, noise && !d->estimates && !d->pushed, SNLS_ERR_ARG,
                 "denoise: the noise of channels is set before the first frame, and with sigma given");
    for (int c = 0; c < 3; c++)
        SNLS_REQUIRE(d->ctx, noise[c] >= 0 && noise[c] <= 1000, SNLS_ERR_ARG,
                     "denoise: noise[%d] is %g, must be 0 to 1000", c, noise[c]);
    memcpy(d->told.noise, noise, sizeof d->told.noise);
    d->told_quiet = largest_sigma(d, &d->told) < SNLS_NO_NOISE; /* as an estimate would be */
    return SNLS_OK;
}

SnlsStatus snls_denoiser_flow(const SnlsDenoiser *d, float *flow)
{
    if (!d) return SNLS_ERR_ARG;
    SNLS_REQUIRE(d->ctx, flow, SNLS_ERR_ARG, "denoise: flow is NULL");
    if (!d->has_flow) return SNLS_END;
    for (int64_t i = 0; i < 2 * d->plan.height * d->plan.width; i++) flow[i] = d->flow_out[i];
    return SNLS_OK;
}
