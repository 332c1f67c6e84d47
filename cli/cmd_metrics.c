/* cmd_metrics.c: a clip against the clean one. */
#include "clip_in.h"
#include "compare.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct Metrics {
    SnlsContext *ctx;
    Common common;
    Reading reading;
    bool no_clamp;
    ClipIn clip[COMPARE_CLIPS];
    Compare compare;
    json_t *psnr_list, *ssim_list, *pairs; /* of every frame; of every pair */
} Metrics;

static int measure_frame(Metrics *m)
{
    const Compare *c = &m->compare;
    const int64_t pairs = c->strred.pairs;
    const int code = compare_frame(&m->compare);
    if (code) return code;
    json_array_append_new(m->psnr_list, json_real_or_null(c->psnr));
    json_array_append_new(m->ssim_list, json_real_or_null(c->ssim));
    if (c->strred.pairs > pairs)
        json_array_append_new(m->pairs, json_pack("{s:o, s:o}", "spatial", json_real_or_null(c->last.spatial), "temporal", json_real_or_null(c->last.temporal)));
    return EXIT_DONE;
}

/* A frame of each clip, as long as both have one. */
static int measure_next(Metrics *m, bool *more)
{
    int code = EXIT_DONE;
    *more = true;
    for (int i = 0; !code && i < COMPARE_CLIPS; i++) {
        bool there = false;
        const SnlsTensor frame = compare_room(&m->compare, i);
        code = clip_in_next(m->ctx, &m->clip[i], frame.data, &there);
        if (!code && there && !m->no_clamp) frames_clamp(&frame);
        *more &= there;
    }
    return code || !*more ? code : measure_frame(m);
}

static int open_clips(Metrics *m, const char *const *given)
{
    SnlsTensor frame[COMPARE_CLIPS];
    int code = EXIT_DONE;
    for (int i = 0; !code && i < COMPARE_CLIPS; i++) {
        code = clip_in_open(m->ctx, given[i], &m->reading, 0, &m->clip[i]);
        frame[i] = snls_tensor(NULL, SNLS_F32, 3, m->clip[i].shape);
    }
    if (code) return code;
    if (!memcmp(m->clip[0].shape, m->clip[1].shape, sizeof m->clip[0].shape)) return compare_open(&m->compare, m->ctx, m->clip[0].shape);
    const ShapeText clean = shape_text(&frame[0]), test = shape_text(&frame[1]);
    return fail(EXIT_INPUT, "%s: has frames of %s, %s has %s, must be the same", input_name(given[1]), test.text, input_name(given[0]), clean.text);
}

/* Clips of one length; of the longer one the rest is counted. */
static int same_length(Metrics *m)
{
    int code = EXIT_DONE;
    for (int i = 0; !code && i < COMPARE_CLIPS; i++) code = clip_in_count(m->ctx, &m->clip[i]);
    const ClipIn *clean = &m->clip[COMPARE_CLEAN], *test = &m->clip[COMPARE_TEST];
    if (code || clean->given == test->given) return code;
    return fail(EXIT_INPUT, "%s: holds %lld frame%s, %s holds %lld, must be as many", input_name(test->path), (long long)test->given, test->given == 1 ? "" : "s", input_name(clean->path),
                (long long)clean->given);
}

static int print_json(Metrics *m)
{
    json_t *report = report_begin(m->ctx);
    const Compare *c = &m->compare;
    json_object_set_new(report, "frames", json_integer(c->frames));
    json_object_set_new(report, "psnr",
                        json_pack("{s:o, s:O}", "mean", json_real_or_null(c->psnr_mean), "frames", m->psnr_list));
    json_object_set_new(report, "ssim", json_pack("{s:o, s:O}", "mean", json_real_or_null(c->ssim_mean), "frames", m->ssim_list));
    const SnlsStrred *s = &c->strred;
    json_object_set_new(report, "strred",
                        !*c->no_strred
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
    printf(" mean %8.3f %7.5f", m->compare.psnr_mean, m->compare.ssim_mean);
    if (!*m->compare.no_strred) printf("   ST-RRED %.6g", m->compare.strred.score);
    printf("\n");
    return flush_stdout();
}

/* At the end: where something fails, that is the one line. */
static void tell_missing(const Compare *c)
{
    if (*c->no_ssim) fprintf(stderr, "snls metrics: no SSIM: %s\n", c->no_ssim);
    if (*c->no_strred) fprintf(stderr, "snls metrics: no ST-RRED: %s\n", c->no_strred);
}

static int work(Metrics *m, const char *const *given)
{
    if (!strcmp(given[0], "-") && !strcmp(given[1], "-")) return fail(EXIT_USAGE, "CLEAN and TEST are both standard input, which holds one clip");
    int code = open_context(&m->common, &m->ctx);
    if (!code) code = open_clips(m, given);
    for (bool more = true; !code && more;) code = measure_next(m, &more);
    if (!code) code = same_length(m);
    if (!code) code = compare_end(&m->compare);
    if (!code) tell_missing(&m->compare);
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
    for (int i = 0; i < COMPARE_CLIPS; i++) clip_in_close(m.ctx, &m.clip[i]);
    compare_close(&m.compare);
    snls_close(&m.ctx);
    json_decref(m.psnr_list);
    json_decref(m.ssim_list);
    json_decref(m.pairs);
    return code;
}
