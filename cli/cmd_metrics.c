/* cmd_metrics.c: a clip against the clean one. */
#include "clip_in.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { CLEAN, TEST, CLIPS };

typedef struct Metrics {
    SnlsContext *ctx;
    Common common;
    Reading reading;
    bool no_clamp, no_strred;
    char why[512]; /* there is none: told at the end, since an error would be a second line */
    ClipIn clip[CLIPS];
    SnlsTensor pair[CLIPS]; /* two frames at a time, as ST-RRED takes them */
    int64_t frames;
    double psnr, ssim; /* sums over the frames, then their means */
    SnlsStrred strred; /* likewise, over the pairs */
    json_t *psnr_list, *ssim_list, *pairs; /* of every frame; of every pair */
} Metrics;

static int measure_frame(Metrics *m, const SnlsTensor *clean, const SnlsTensor *test)
{
    double psnr, ssim;
    SnlsStatus status = snls_psnr(m->ctx, clean, test, &psnr);
    if (status >= 0) status = ssim_or_nan(m->ctx, clean, test, &ssim);
    if (status < 0) return fail_library(m->ctx, status, false);
    if (isnan(ssim) && !isnan(m->ssim)) fprintf(stderr, "snls metrics: no SSIM: %s\n", snls_error(m->ctx));
    m->psnr += psnr;
    m->ssim += ssim;
    m->frames++;
    json_array_append_new(m->psnr_list, json_real_or_null(psnr));
    json_array_append_new(m->ssim_list, json_real_or_null(ssim));
    return EXIT_DONE;
}

/* Missing where it has no meaning (one frame, small frames) or no LAPACK; anything else is an error. */
static int measure_pair(Metrics *m, const SnlsTensor *clean, const SnlsTensor *test)
{
    SnlsStrred one = { 0 }, *all = &m->strred;
    const SnlsStatus status = snls_strred(m->ctx, clean, test, &one);
    if (status == SNLS_ERR_SHAPE || status == SNLS_ERR_UNSUPPORTED) {
        snprintf(m->why, sizeof m->why, "%s", snls_error(m->ctx));
        m->no_strred = true;
        return EXIT_DONE;
    }
    if (status < 0) return fail_library(m->ctx, status, false);
    all->pairs++;
    all->spatial += one.spatial, all->temporal += one.temporal;
    all->reduced_spatial += one.reduced_spatial, all->reduced_temporal += one.reduced_temporal;
    json_array_append_new(m->pairs, json_pack("{s:o, s:o}", "spatial", json_real_or_null(one.spatial), "temporal", json_real_or_null(one.temporal)));
    return EXIT_DONE;
}

/* Up to two frames of both clips, and how many there were. */
static int measure_next(Metrics *m, int *count)
{
    int code = EXIT_DONE;
    bool there[CLIPS] = { true, true };
    for (*count = 0; !code && *count < 2; ++*count) {
        SnlsTensor frame[CLIPS];
        for (int i = 0; !code && i < CLIPS; i++) {
            frame[i] = frame_of(&m->pair[i], *count);
            code = clip_in_next(m->ctx, &m->clip[i], frame[i].data, &there[i]);
            if (!code && there[i] && !m->no_clamp) frames_clamp(&frame[i]);
        }
        if (!code && (!there[CLEAN] || !there[TEST])) break;
        if (!code) code = measure_frame(m, &frame[CLEAN], &frame[TEST]);
    }
    SnlsTensor clean = m->pair[CLEAN], test = m->pair[TEST];
    clean.shape[0] = test.shape[0] = *count;
    const bool odd = *count == 1 && m->frames > 1; /* a last frame that has no other is left out */
    return code || *count == 0 || odd || m->no_strred ? code : measure_pair(m, &clean, &test);
}

static int open_clips(Metrics *m, const char *const *given)
{
    SnlsTensor frame[CLIPS];
    int code = EXIT_DONE;
    for (int i = 0; !code && i < CLIPS; i++) {
        code = clip_in_open(m->ctx, given[i], &m->reading, 0, &m->clip[i]);
        const int64_t *size = m->clip[i].shape, shape[4] = { 2, size[0], size[1], size[2] };
        frame[i] = snls_tensor(NULL, SNLS_F32, 3, size);
        if (!code) code = alloc_array(m->ctx, given[i], &m->pair[i], SNLS_F32, 4, shape);
    }
    if (code || !memcmp(m->clip[CLEAN].shape, m->clip[TEST].shape, sizeof m->clip[CLEAN].shape)) return code;
    const ShapeText clean = shape_text(&frame[CLEAN]), test = shape_text(&frame[TEST]);
    return fail(EXIT_INPUT, "%s: has frames of %s, %s has %s, must be the same", input_name(given[1]), test.text, input_name(given[0]), clean.text);
}

/* Clips of one length; of the longer one the rest is counted. */
static int same_length(Metrics *m)
{
    int code = EXIT_DONE;
    for (int i = 0; !code && i < CLIPS; i++) code = clip_in_count(m->ctx, &m->clip[i]);
    const ClipIn *clean = &m->clip[CLEAN], *test = &m->clip[TEST];
    if (code || clean->given == test->given) return code;
    return fail(EXIT_INPUT, "%s: holds %lld frame%s, %s holds %lld, must be as many", input_name(test->path), (long long)test->given, test->given == 1 ? "" : "s", input_name(clean->path),
                (long long)clean->given);
}

static void take_means(Metrics *m)
{
    SnlsStrred *s = &m->strred;
    const double frames = (double)m->frames, pairs = (double)s->pairs;
    m->psnr /= frames, m->ssim /= frames;
    if (!s->pairs) return;
    s->spatial /= pairs, s->temporal /= pairs, s->reduced_spatial /= pairs, s->reduced_temporal /= pairs;
    s->score = s->spatial * s->temporal;
    s->reduced = s->reduced_spatial * s->reduced_temporal;
}

static int print_json(Metrics *m)
{
    json_t *report = report_begin(m->ctx);
    json_object_set_new(report, "frames", json_integer(m->frames));
    json_object_set_new(report, "psnr",
                        json_pack("{s:o, s:O}", "mean", json_real_or_null(m->psnr), "frames", m->psnr_list));
    json_object_set_new(report, "ssim", json_pack("{s:o, s:O}", "mean", json_real_or_null(m->ssim), "frames", m->ssim_list));
    const SnlsStrred *s = &m->strred;
    json_object_set_new(report, "strred",
                        !m->no_strred
                            ? json_pack("{s:o, s:o, s:o, s:o, s:O}", "score", json_real_or_null(s->score), "spatial",
                                        json_real_or_null(s->spatial), "temporal", json_real_or_null(s->temporal),
                                        "reduced", json_real_or_null(s->reduced), "pairs", m->pairs)
                            : json_null());
    return report_print(report);
}

static int print_text(const Metrics *m)
{
    printf("frame     PSNR    SSIM\n");
    for (size_t t = 0; t < json_array_size(m->psnr_list); t++) {
        const json_t *psnr = json_array_get(m->psnr_list, t), *ssim = json_array_get(m->ssim_list, t);
        printf("%5zu %8.3f %7.5f\n", t, json_is_null(psnr) ? INFINITY : json_real_value(psnr), json_is_null(ssim) ? NAN : json_real_value(ssim));
    }
    printf(" mean %8.3f %7.5f", m->psnr, m->ssim);
    if (!m->no_strred) printf("   ST-RRED %.6g", m->strred.score);
    printf("\n");
    return flush_stdout();
}

static int work(Metrics *m, const char *const *given)
{
    if (!strcmp(given[0], "-") && !strcmp(given[1], "-")) return fail(EXIT_USAGE, "CLEAN and TEST are both standard input, which holds one clip");
    int code = open_context(&m->common, &m->ctx), count = 2;
    if (!code) code = open_clips(m, given);
    while (!code && count == 2) code = measure_next(m, &count);
    if (!code) code = same_length(m);
    if (!code) take_means(m);
    if (!code && m->no_strred) fprintf(stderr, "snls metrics: no ST-RRED: %s\n", m->why);
    return code ? code : m->common.json ? print_json(m) : print_text(m);
}

int cmd_metrics(int argc, char **argv)
{
    static const char *const names[] = { "CLEAN", "TEST" };
    static const char *const help[] = { "a video, a folder of images, a pattern (dir/%05d.png), an image or .npy [T,H,W,C]",
                                        "the same, of the same shape" };
    int code;
    Metrics m = { .psnr_list = json_array(), .ssim_list = json_array(), .pairs = json_array() };
    const char *given[2] = { NULL, NULL };
    const Arg args[] = { { "no-clamp", NULL, "both are compared as they are, not clamped to 0..255", &m.no_clamp },
                         READING_ARGS(m.reading) };
    const ArgTable table = { .summary = "PSNR, SSIM and ST-RRED of a clip against the clean one",
                             .examples =
                                 "  snls metrics clean/ denoised/\n  snls metrics clean.npy denoised.npy --json\n",
                             .args = args,
                             .arg_count = sizeof args / sizeof *args,
                             .positional_names = names,
                             .positional_help = help,
                             .positional = given,
                             .positional_min = 2,
                             .positional_max = 2 };
    if (parse_args(argc, argv, &table, &m.common, &code)) code = work(&m, given);
    for (int i = 0; i < CLIPS; i++) {
        clip_in_close(m.ctx, &m.clip[i]);
        snls_array_free(m.ctx, &m.pair[i]);
    }
    snls_close(&m.ctx);
    json_decref(m.psnr_list);
    json_decref(m.ssim_list);
    json_decref(m.pairs);
    return code;
}
