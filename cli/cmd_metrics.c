/* cmd_metrics.c: a clip against the clean one. */
#include "frames.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct Metrics {
    SnlsContext *ctx;
    Common common;
    Reading reading;
    bool no_clamp, has_strred;
    SnlsTensor clean, test;
    double psnr, ssim;
    SnlsStrred strred;
    json_t *psnr_list, *ssim_list, *pairs; /* of every frame; of every pair */
} Metrics;

static int measure_frames(Metrics *m)
{
    const int64_t frames = m->clean.shape[0];
    for (int64_t t = 0; t < frames; t++) {
        const SnlsTensor clean = frame_of(&m->clean, t), test = frame_of(&m->test, t);
        double psnr, ssim;
        SnlsStatus status = snls_psnr(m->ctx, &clean, &test, &psnr);
        if (status >= 0) status = ssim_or_nan(m->ctx, &clean, &test, &ssim);
        if (status < 0) return fail_library(m->ctx, status, false);
        m->psnr += psnr / (double)frames;
        m->ssim += ssim / (double)frames;
        json_array_append_new(m->psnr_list, json_real_or_null(psnr));
        json_array_append_new(m->ssim_list, json_real_or_null(ssim));
    }
    if (isnan(m->ssim)) fprintf(stderr, "snls metrics: no SSIM: %s\n", snls_error(m->ctx));
    return EXIT_DONE;
}

static SnlsTensor two_frames(const SnlsTensor *video, int64_t t)
{
    SnlsTensor pair = *video;
    pair.data = (float *)video->data + t * video->stride[0];
    pair.shape[0] = 2;
    return pair;
}

/* Missing where it has no meaning (one frame, small frames) or no LAPACK; anything else is an error. */
static int measure_strred(Metrics *m)
{
    SnlsStatus status = snls_strred(m->ctx, &m->clean, &m->test, &m->strred);
    m->has_strred = status >= 0;
    if (status == SNLS_ERR_SHAPE || status == SNLS_ERR_UNSUPPORTED) {
        fprintf(stderr, "snls metrics: no ST-RRED: %s\n", snls_error(m->ctx));
        return EXIT_DONE;
    }
    for (int64_t p = 0; status >= 0 && p < m->strred.pairs; p++) {
        const SnlsTensor clean = two_frames(&m->clean, 2 * p), test = two_frames(&m->test, 2 * p);
        SnlsStrred one = { 0 };
        status = snls_strred(m->ctx, &clean, &test, &one);
        json_array_append_new(m->pairs, json_pack("{s:o, s:o}", "spatial", json_real_or_null(one.spatial), "temporal",
                                                  json_real_or_null(one.temporal)));
    }
    return status < 0 ? fail_library(m->ctx, status, false) : EXIT_DONE;
}

static int print_json(Metrics *m)
{
    json_t *report = report_begin(m->ctx);
    json_object_set_new(report, "frames", json_integer(m->clean.shape[0]));
    json_object_set_new(report, "psnr",
                        json_pack("{s:o, s:O}", "mean", json_real_or_null(m->psnr), "frames", m->psnr_list));
    json_object_set_new(report, "ssim", json_pack("{s:o, s:O}", "mean", json_real_or_null(m->ssim), "frames", m->ssim_list));
    const SnlsStrred *s = &m->strred;
    json_object_set_new(report, "strred",
                        m->has_strred
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
    if (m->has_strred) printf("   ST-RRED %.6g", m->strred.score);
    printf("\n");
    return flush_stdout();
}

static int work(Metrics *m, const char *const *given)
{
    if (!strcmp(given[0], "-") && !strcmp(given[1], "-")) return fail(EXIT_USAGE, "CLEAN and TEST are both standard input, which holds one clip");
    int code = open_context(&m->common, &m->ctx);
    if (!code) code = frames_load(m->ctx, given[0], &m->reading, 1, &m->clean);
    if (!code) code = frames_load(m->ctx, given[1], &m->reading, 1, &m->test);
    for (int i = 0; !code && i < 4; i++)
        if (m->clean.shape[i] != m->test.shape[i]) {
            const ShapeText clean = shape_text(&m->clean), test = shape_text(&m->test);
            code = fail(EXIT_INPUT, "%s: has shape %s, %s has %s, must be the same", given[1], test.text, given[0],
                        clean.text);
        }
    if (code) return code;
    if (!m->no_clamp) frames_clamp(&m->test), frames_clamp(&m->clean);
    code = measure_frames(m);
    if (!code) code = measure_strred(m);
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
    snls_array_free(m.ctx, &m.clean);
    snls_array_free(m.ctx, &m.test);
    snls_close(&m.ctx);
    json_decref(m.psnr_list);
    json_decref(m.ssim_list);
    json_decref(m.pairs);
    return code;
}
