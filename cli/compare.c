/* compare.c: the metrics of a clip. */
#include "compare.h"
#include <math.h>
#include <stdio.h>

int compare_open(Compare *c, SnlsContext *ctx, const int64_t size[3])
{
    static const char *const names[COMPARE_CLIPS] = { "clean frames", "frames to compare" };
    const int64_t shape[4] = { 2, size[0], size[1], size[2] };
    int code = EXIT_DONE;
    *c = (Compare){ .ctx = ctx };
    for (int i = 0; !code && i < COMPARE_CLIPS; i++) code = alloc_array(ctx, names[i], &c->pair[i], SNLS_F32, 4, shape);
    return code;
}

SnlsTensor compare_room(const Compare *c, int which) { return frame_of(&c->pair[which], c->frames % 2); }

/* Of the first count frames of the pair. What is missing for want of memory would look like a clip that is too small: that is an error. */
static int measure_pair(Compare *c, int64_t count)
{
    SnlsTensor clean = c->pair[COMPARE_CLEAN], test = c->pair[COMPARE_TEST];
    SnlsStrred *one = &c->last, *all = &c->strred;
    clean.shape[0] = test.shape[0] = count;
    const SnlsStatus status = snls_strred(c->ctx, &clean, &test, one);
    if (status == SNLS_ERR_SHAPE || status == SNLS_ERR_UNSUPPORTED) return snprintf(c->no_strred, sizeof c->no_strred, "%s", snls_error(c->ctx)), EXIT_DONE;
    if (status < 0) return fail_library(c->ctx, status, false);
    all->pairs++;
    all->spatial += one->spatial, all->temporal += one->temporal;
    all->reduced_spatial += one->reduced_spatial, all->reduced_temporal += one->reduced_temporal;
    return EXIT_DONE;
}

int compare_frame(Compare *c)
{
    const SnlsTensor clean = compare_room(c, COMPARE_CLEAN), test = compare_room(c, COMPARE_TEST);
    SnlsStatus status = snls_psnr(c->ctx, &clean, &test, &c->psnr);
    if (status >= 0) status = ssim_or_nan(c->ctx, &clean, &test, &c->ssim);
    if (status < 0) return fail_library(c->ctx, status, false);
    if (isnan(c->ssim)) snprintf(c->no_ssim, sizeof c->no_ssim, "%s", snls_error(c->ctx));
    c->psnr_mean += c->psnr;
    c->ssim_mean += c->ssim;
    return ++c->frames % 2 || *c->no_strred ? EXIT_DONE : measure_pair(c, 2);
}

int compare_end(Compare *c)
{
    SnlsStrred *s = &c->strred;
    const double frames = (double)c->frames, pairs = (double)s->pairs;
    const int code = c->frames == 1 ? measure_pair(c, 1) : EXIT_DONE; /* which says why not; of more frames an odd last one is left out */
    c->psnr_mean /= frames, c->ssim_mean /= frames;
    if (code || !s->pairs) return code;
    s->spatial /= pairs, s->temporal /= pairs, s->reduced_spatial /= pairs, s->reduced_temporal /= pairs;
    s->score = s->spatial * s->temporal;
    s->reduced = s->reduced_spatial * s->reduced_temporal;
    return EXIT_DONE;
}

void compare_close(Compare *c)
{
    for (int i = 0; i < COMPARE_CLIPS; i++) snls_array_free(c->ctx, &c->pair[i]);
}
