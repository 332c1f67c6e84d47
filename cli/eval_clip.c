/* eval_clip.c: a clean clip, noise, what denoises, metrics, a frame at a time: only frames whose result is not there yet are held. */
#include "clip_in.h"
#include "eval.h"
#include <math.h>
#include <string.h>

typedef struct Run {
    const EvalJob *job;
    ClipIn clip;
    int64_t from[2], size[3]; /* first row and column, shape of what is used of a frame */
    SnlsTensor whole, noisy;  /* a frame as it is read; of that shape */
    SnlsTensor waiting;       /* (N,H,W,C): clean frame t is at t % N until it is compared */
    int64_t pushed;
    double noisy_sum; /* PSNR */
    Filter filter;
    Compare compare;
    Used *used;
} Run;

/* ---- opening ---- */

/* The middle of each frame. */
static void choose_part(Run *r)
{
    for (int i = 0; i < 3; i++) r->size[i] = r->clip.shape[i];
    for (int i = 0; r->job->crop && i < 2; i++) {
        if (r->job->crop >= r->size[i]) continue;
        r->from[i] = (r->size[i] - r->job->crop) / 2;
        r->size[i] = r->job->crop;
    }
}

static int open_run(Run *r, const char *path)
{
    SnlsContext *ctx = r->job->ctx;
    int code = clip_in_open(ctx, path, &r->job->reading, 0, &r->clip);
    if (code) return code;
    if (r->clip.shape[2] != 1 && r->clip.shape[2] != 3) return fail(EXIT_INPUT, "%s: has %lld channels, must be 1 or 3 (the last axis)", path, (long long)r->clip.shape[2]);
    choose_part(r);
    code = filter_open(&r->filter, r->job, r->size);
    const int64_t shape[4] = { code ? 1 : filter_delay(&r->filter) + 1, r->size[0], r->size[1], r->size[2] };
    if (!code) code = alloc_array(ctx, path, &r->whole, SNLS_F32, 3, r->clip.shape);
    if (!code) code = alloc_array(ctx, "a noisy frame", &r->noisy, SNLS_F32, 3, r->size);
    if (!code) code = alloc_array(ctx, "clean frames", &r->waiting, SNLS_F32, 4, shape);
    return code ? code : compare_open(&r->compare, ctx, r->size);
}

static void close_run(Run *r)
{
    SnlsTensor *const all[] = { &r->whole, &r->noisy, &r->waiting };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) snls_array_free(r->job->ctx, all[i]);
    filter_close(&r->filter);
    compare_close(&r->compare);
    clip_in_close(r->job->ctx, &r->clip);
}

/* ---- a frame ---- */

static SnlsTensor clean_frame(const Run *r, int64_t t) { return frame_of(&r->waiting, t % r->waiting.shape[0]); }

/* The part that is used, and the same with noise: draw i of the clip goes to value i of the parts. */
static SnlsStatus make_noisy(Run *r, const SnlsTensor *clean)
{
    const int64_t count = snls_tensor_elements(clean);
    double psnr = 0;
    SnlsTensor part = r->whole;
    for (int i = 0; i < 2; i++) part.data = (float *)part.data + r->from[i] * part.stride[i];
    for (int i = 0; i < 3; i++) part.shape[i] = r->size[i];
    SnlsStatus status = snls_array_copy(r->job->ctx, clean, &part);
    if (status >= 0) status = snls_array_copy(r->job->ctx, &r->noisy, clean);
    if (status >= 0) status = snls_noise_add(r->job->ctx, r->noisy.data, count, r->pushed * count, r->job->sigma, r->job->seed);
    if (status >= 0) status = snls_psnr(r->job->ctx, clean, &r->noisy, &psnr);
    r->noisy_sum += psnr;
    return status;
}

/* The noise of one more frame into the means and bounds. */
static void add_used(Run *r)
{
    Used *u = r->used;
    double sigma[3];
    filter_sigma(&r->filter, sigma);
    const double mean = (sigma[0] + sigma[1] + sigma[2]) / 3, n = (double)(r->compare.frames - u->without);
    if (r->job->params.sigma[0] < 0 && fmax(sigma[0], fmax(sigma[1], sigma[2])) < SNLS_NO_NOISE) {
        u->without++;
        return;
    }
    for (int c = 0; c < 3; c++) u->sigma[c] += (sigma[c] - u->sigma[c]) / n;
    if (n == 1 || mean < u->least) u->least = mean;
    if (n == 1 || mean > u->most) u->most = mean;
}

/* Both as they can be shown. */
static int compare_result(Run *r)
{
    const SnlsTensor clean = compare_room(&r->compare, COMPARE_CLEAN), test = compare_room(&r->compare, COMPARE_TEST), kept = clean_frame(r, r->compare.frames);
    memcpy(clean.data, kept.data, (size_t)snls_tensor_elements(&kept) * sizeof(float));
    frames_clamp(&clean);
    frames_clamp(&test);
    const int code = compare_frame(&r->compare);
    if (!code) add_used(r);
    return code;
}

static int take_results(Run *r)
{
    int code = EXIT_DONE;
    for (bool there = true; !code && there;) {
        code = filter_pull(&r->filter, compare_room(&r->compare, COMPARE_TEST).data, &there);
        if (!code && there) code = compare_result(r);
    }
    return code;
}

static int next_frame(Run *r, bool *there)
{
    const SnlsTensor clean = clean_frame(r, r->pushed);
    int code = clip_in_next(r->job->ctx, &r->clip, r->whole.data, there);
    if (code || !*there) return code;
    const SnlsStatus status = make_noisy(r, &clean);
    if (status < 0) return fail_library(r->job->ctx, status, false);
    code = filter_push(&r->filter, r->noisy.data);
    r->pushed++;
    return code ? code : take_results(r);
}

/* ---- all of them ---- */

static int run_all(Run *r)
{
    int code = EXIT_DONE;
    for (bool there = true; !code && there;) {
        if (r->job->frames && r->pushed == r->job->frames) break;
        code = next_frame(r, &there);
    }
    if (!code) clip_in_tell(&r->clip);
    if (!code) code = frames_enough(r->clip.path, r->pushed, 1);
    if (!code) code = filter_finish(&r->filter);
    if (!code) code = take_results(r);
    return code ? code : compare_end(&r->compare);
}

static void take_score(const Run *r, Score *s)
{
    const double megapixels = (double)(r->pushed * r->size[0] * r->size[1]) * 1e-6;
    const Compare *c = &r->compare;
    int64_t groups[2];
    filter_groups(&r->filter, groups);
    for (int i = 0; i < 2; i++) s->groups[i] = (double)groups[i] / megapixels;
    s->seconds = r->filter.seconds / megapixels;
    s->processor = r->filter.processor / megapixels;
    s->noisy = r->noisy_sum / (double)r->pushed;
    s->psnr = c->psnr_mean;
    s->ssim = c->ssim_mean;
    s->strred = *c->no_strred ? NAN : c->strred.score;
    memcpy(s->no_ssim, c->no_ssim, sizeof s->no_ssim);
    memcpy(s->no_strred, c->no_strred, sizeof s->no_strred);
}

int eval_clip(const EvalJob *job, const char *path, Score *score)
{
    Run r = { .job = job, .used = &score->used };
    *score = (Score){ 0 };
    int code = open_run(&r, path);
    if (!code) code = run_all(&r);
    if (!code) take_score(&r, score);
    close_run(&r);
    return code;
}
