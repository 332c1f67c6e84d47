/* cmd_eval.c: clean clips, noise, denoiser, metrics: the table that papers print. */
#define _XOPEN_SOURCE 700
#include "clips.h"
#include "denoise_args.h"
#include "frames.h"
#include "mean.h"
#include "weights.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum { SIGMAS_MAX = 16 };

typedef struct Score {
    double noisy, psnr, ssim, strred; /* NaN: not known */
    double seconds, processor;        /* per megapixel and frame: of the clock, of all processors together */
    double groups[2];                 /* of patches, of both steps, per megapixel and frame */
    double sigma[3];                  /* in use */
} Score;

typedef struct Eval {
    SnlsDenoiseParams params; /* first: the option table counts from here */
    int32_t crop, frames;
    SnlsContext *ctx, *model_ctx; /* the network's may be on a GPU; clips and metrics are this processor's */
    Common common;
    const char *data, *only, *out, *model_path;
    Network network; /* --method stan and its like */
    SnlsModel *model; /* a network instead of the denoiser */
    Reading reading;
    bool blind;       /* the denoiser is not told sigma */
    double sigma[SIGMAS_MAX];
    int sigmas;
    Clips clips;
    json_t *rows;
} Eval;

/* The first frames and the middle of a clip, contiguous. */
static int load_clip(Eval *e, const char *path, SnlsTensor *clip)
{
    SnlsTensor whole;
    int code = frames_load(e->ctx, path, &e->reading, 1, &whole);
    if (code) {
        snls_array_free(e->ctx, &whole);
        return code;
    }
    int64_t shape[4] = { whole.shape[0], whole.shape[1], whole.shape[2], whole.shape[3] }, from[3] = { 0 };
    const int64_t wanted[3] = { e->frames, e->crop, e->crop };
    for (int i = 0; i < 3; i++)
        if (wanted[i] && wanted[i] < shape[i]) {
            from[i] = i ? (shape[i] - wanted[i]) / 2 : 0;
            shape[i] = wanted[i];
        }
    SnlsTensor view = whole;
    for (int i = 0; i < 3; i++) {
        view.data = (float *)view.data + from[i] * view.stride[i];
        view.shape[i] = shape[i];
    }
    code = alloc_array(e->ctx, path, clip, SNLS_F32, 4, shape);
    if (!code && snls_array_copy(e->ctx, clip, &view) < 0) code = fail_library(e->ctx, SNLS_ERR_SHAPE, false);
    snls_array_free(e->ctx, &whole);
    return code;
}

/* ---- one clip, one sigma ---- */

static SnlsStatus pull_all(SnlsDenoiser *d, const SnlsTensor *out, int64_t *pulled)
{
    SnlsStatus status;
    while ((status = snls_denoiser_pull(d, (float *)out->data + *pulled * out->stride[0])) == SNLS_OK) ++*pulled;
    return status;
}

static int denoise(Eval *e, const SnlsTensor *noisy, const SnlsTensor *out, Score *score)
{
    const int64_t frames = noisy->shape[0], pixels = noisy->shape[1] * noisy->shape[2];
    const double start = seconds_now();
    const clock_t ticks = clock();
    SnlsDenoiser *d = NULL;
    int64_t pulled = 0;
    SnlsStatus status = snls_denoiser_open(&d, e->ctx, &e->params, noisy->shape[1], noisy->shape[2], noisy->shape[3]);
    for (int64_t t = 0; t < frames && status >= 0; t++) {
        status = snls_denoiser_push(d, (const float *)noisy->data + t * noisy->stride[0], 0);
        if (status >= 0) status = pull_all(d, out, &pulled);
    }
    if (status >= 0) status = snls_denoiser_finish(d);
    if (status >= 0) status = pull_all(d, out, &pulled);
    int64_t groups[2] = { 0 };
    if (status >= 0) snls_denoiser_sigma(d, score->sigma);
    snls_denoiser_groups(d, groups);
    for (int i = 0; i < 2; i++) score->groups[i] = (double)groups[i] / ((double)(frames * pixels) * 1e-6);
    score->seconds = (seconds_now() - start) / ((double)(frames * pixels) * 1e-6);
    score->processor = (double)(clock() - ticks) / CLOCKS_PER_SEC / ((double)(frames * pixels) * 1e-6);
    snls_denoiser_close(&d);
    return status < 0 ? fail_library(e->ctx, status, false) : EXIT_DONE;
}

static SnlsStatus pull_model(SnlsModelStream *s, const SnlsTensor *out, int64_t *pulled)
{
    SnlsStatus status;
    while ((status = snls_model_stream_pull(s, (float *)out->data + *pulled * out->stride[0])) == SNLS_OK) ++*pulled;
    return status;
}

/* By a stream, as `snls denoise` does it: windows of another length would be another result. */
static SnlsStatus stream_model(SnlsModel *model, const SnlsTensor *noisy, const SnlsTensor *out, double sigma)
{
    const SnlsModelStreamParams params = { .height = noisy->shape[1], .width = noisy->shape[2] };
    SnlsModelStream *s = NULL;
    int64_t pulled = 0;
    SnlsStatus status = snls_model_stream_open(&s, model, &params);
    for (int64_t t = 0; t < noisy->shape[0] && status >= 0; t++) {
        status = snls_model_stream_push(s, (const float *)noisy->data + t * noisy->stride[0], sigma);
        if (status >= 0) status = pull_model(s, out, &pulled);
    }
    if (status >= 0) status = snls_model_stream_finish(s);
    if (status >= 0) status = pull_model(s, out, &pulled);
    snls_model_stream_close(&s);
    return status;
}

static int run_model(Eval *e, const SnlsTensor *noisy, const SnlsTensor *out, double sigma, Score *score)
{
    const double start = seconds_now(),
                 megapixels = (double)(noisy->shape[0] * noisy->shape[1] * noisy->shape[2]) * 1e-6;
    const clock_t ticks = clock();
    const SnlsStatus status = stream_model(e->model, noisy, out, sigma);
    score->seconds = (seconds_now() - start) / megapixels;
    score->processor = (double)(clock() - ticks) / CLOCKS_PER_SEC / megapixels;
    for (int c = 0; c < 3; c++) score->sigma[c] = sigma;
    return status < 0 ? fail_library(e->model_ctx, status, false) : EXIT_DONE;
}

/* Grey as `snls denoise` does it: three equal channels, whose mean has the noise of channels with sqrt(3) times as much each; their mean comes out. */
static int run_grey(Eval *e, const SnlsTensor *noisy, const SnlsTensor *out, double sigma, Score *score)
{
    const int64_t shape[4] = { noisy->shape[0], noisy->shape[1], noisy->shape[2], 3 }, count = snls_tensor_elements(noisy);
    SnlsTensor three = { 0 }, back = { 0 };
    int code = alloc_array(e->ctx, "three channels", &three, SNLS_F32, 4, shape);
    if (!code) code = alloc_array(e->ctx, "denoised", &back, SNLS_F32, 4, shape);
    for (int64_t i = 0; !code && i < 3 * count; i++) ((float *)three.data)[i] = ((const float *)noisy->data)[i / 3];
    if (!code) code = run_model(e, &three, &back, fmin(sqrt(3) * sigma, 255), score);
    const float *y = back.data;
    for (int64_t i = 0; !code && i < count; i++) ((float *)out->data)[i] = (y[3 * i] + y[3 * i + 1] + y[3 * i + 2]) / 3;
    for (int c = 0; c < 3; c++) score->sigma[c] = sigma;
    snls_array_free(e->ctx, &three);
    snls_array_free(e->ctx, &back);
    return code;
}

static int mean_psnr(Eval *e, const SnlsTensor *clean, const SnlsTensor *test, double *psnr)
{
    *psnr = 0;
    for (int64_t t = 0; t < clean->shape[0]; t++) {
        const SnlsTensor a = frame_of(clean, t), b = frame_of(test, t);
        double one;
        const SnlsStatus status = snls_psnr(e->ctx, &a, &b, &one);
        if (status < 0) return fail_library(e->ctx, status, false);
        *psnr += one / (double)clean->shape[0];
    }
    return EXIT_DONE;
}

/* SSIM and ST-RRED have no meaning on small frames or single ones: NaN there. */
static int measure(Eval *e, const SnlsTensor *clean, const SnlsTensor *test, Score *score)
{
    score->ssim = 0;
    for (int64_t t = 0; t < clean->shape[0]; t++) {
        const SnlsTensor a = frame_of(clean, t), b = frame_of(test, t);
        double one;
        score->ssim += snls_ssim(e->ctx, &a, &b, &one) < 0 ? NAN : one / (double)clean->shape[0];
    }
    SnlsStrred strred;
    score->strred = snls_strred(e->ctx, clean, test, &strred) < 0 ? NAN : strred.score;
    return mean_psnr(e, clean, test, &score->psnr);
}

/* Both as they can be shown; the clean clip's copy takes the noisy one's place. */
static int measure_shown(Eval *e, const SnlsTensor *clean, const SnlsTensor *room, const SnlsTensor *out, Score *score)
{
    const SnlsStatus status = snls_array_copy(e->ctx, room, clean);
    if (status < 0) return fail_library(e->ctx, status, false);
    frames_clamp(room);
    frames_clamp(out);
    return measure(e, room, out, score);
}

static int run_one(Eval *e, const SnlsTensor *clean, double sigma, Score *score)
{
    SnlsTensor noisy = { 0 }, out = { 0 };
    int code = alloc_array(e->ctx, "noisy", &noisy, SNLS_F32, 4, clean->shape);
    if (!code) code = alloc_array(e->ctx, "denoised", &out, SNLS_F32, 4, clean->shape);
    SnlsStatus status = code ? SNLS_ERR_MEMORY : snls_array_copy(e->ctx, &noisy, clean);
    if (status >= 0)
        status = snls_noise_add(e->ctx, noisy.data, snls_tensor_elements(&noisy), 0, sigma, e->common.seed);
    if (!code && status < 0) code = fail_library(e->ctx, status, false);
    for (int c = 0; c < 3; c++) e->params.sigma[c] = e->blind ? -1 : sigma;
    if (!code) code = !e->model ? denoise(e, &noisy, &out, score) : (clean->shape[3] == 1 ? run_grey : run_model)(e, &noisy, &out, sigma, score);
    if (!code) code = mean_psnr(e, clean, &noisy, &score->noisy);
    if (!code) code = measure_shown(e, clean, &noisy, &out, score);
    snls_array_free(e->ctx, &noisy);
    snls_array_free(e->ctx, &out);
    return code;
}

/* ---- the table ---- */

/* Of a terminal; printf counts bytes. */
static int columns_of(const char *text)
{
    int columns = 0;
    for (; *text; text++) columns += (*text & 0xc0) != 0x80; /* UTF-8: bytes that begin a character */
    return columns;
}

static int print_row(const Eval *e, const char *name, double sigma, const Score *s)
{
    if (e->common.json) return EXIT_DONE;
    const int columns = columns_of(name);
    printf("%s%*s %5g  %7.3f %8.3f %7.4f %9.5f %9.3f %9.3f", name, columns < 24 ? 24 - columns : 0, "", sigma, s->noisy, s->psnr, s->ssim, s->strred,
           s->seconds, s->processor);
    if (e->blind) printf("   %.2f %.2f %.2f", s->sigma[0], s->sigma[1], s->sigma[2]);
    printf("\n");
    return flush_stdout();
}

static json_t *row_json(const char *name, double sigma, const Score *s)
{
    return json_pack("{s:o, s:f, s:o, s:o, s:o, s:o, s:f, s:f, s:[f,f], s:[f,f,f]}", "clip", json_text(name), "sigma", sigma,
                     "psnr_noisy", json_real_or_null(s->noisy), "psnr", json_real_or_null(s->psnr), "ssim",
                     json_real_or_null(s->ssim), "strred", json_real_or_null(s->strred), "seconds_per_megapixel_frame",
                     s->seconds, "processor_seconds_per_megapixel_frame", s->processor,
                     "groups_per_megapixel_frame", s->groups[0], s->groups[1], "sigma_used", s->sigma[0],
                     s->sigma[1], s->sigma[2]);
}

typedef struct MeanScore {
    Score score;
    Mean ssim, strred; /* which a clip may be too small for */
} MeanScore;

static void add_score(MeanScore *mean, const Score *s, double share)
{
    Score *sum = &mean->score;
    sum->noisy += share * s->noisy;
    sum->psnr += share * s->psnr;
    mean_add(&mean->ssim, s->ssim), sum->ssim = mean_of(&mean->ssim, NAN);
    mean_add(&mean->strred, s->strred), sum->strred = mean_of(&mean->strred, NAN);
    sum->seconds += share * s->seconds;
    sum->processor += share * s->processor;
    for (int i = 0; i < 2; i++) sum->groups[i] += share * s->groups[i];
    for (int c = 0; c < 3; c++) sum->sigma[c] += share * s->sigma[c];
}

static int run_sigma(Eval *e, double sigma)
{
    MeanScore mean = { 0 };
    int code = EXIT_DONE;
    for (int i = 0; i < e->clips.count && !code; i++) {
        SnlsTensor clean = { 0 };
        Score score = { 0 };
        code = load_clip(e, e->clips.path[i], &clean);
        if (!code) code = run_one(e, &clean, sigma, &score);
        snls_array_free(e->ctx, &clean);
        if (!code) code = print_row(e, name_of(e->clips.path[i]), sigma, &score);
        if (code) break;
        json_array_append_new(e->rows, row_json(name_of(e->clips.path[i]), sigma, &score));
        add_score(&mean, &score, 1 / (double)e->clips.count);
    }
    if (code) return code;
    json_array_append_new(e->rows, row_json("mean", sigma, &mean.score));
    return print_row(e, "mean", sigma, &mean.score);
}

static int open_contexts(Eval *e)
{
    Common here = e->common;
    if (e->model_path && !(here.backend && !strcmp(here.backend, "ref"))) here.backend = "cpu", here.device = NULL;
    int code = open_context(&here, &e->ctx);
    if (code || !e->model_path) return code;
    code = open_context(&e->common, &e->model_ctx);
    return code ? code : network_open(&e->network, e->model_ctx, e->model_path, &e->model);
}

/* Which of them cannot be read at all is known before the first is denoised. */
static int check_clips(Eval *e)
{
    const SnlsReaderParams params = reading_params(&e->reading);
    for (int i = 0; i < e->clips.count; i++) {
        SnlsReader *reader;
        struct stat info;
        const bool is_pipe = !stat(e->clips.path[i], &info) && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode);
        if (is_pipe && e->sigmas > 1) return fail(EXIT_USAGE, "--sigma lists %d, but %s is a pipe, which can be read once: one sigma", e->sigmas, e->clips.path[i]);
        if (is_pipe) continue;
        const SnlsStatus status = snls_reader_open(&reader, e->ctx, e->clips.path[i], &params);
        snls_reader_close(&reader);
        if (status < 0) return fail_library(e->ctx, status, false);
    }
    return EXIT_DONE;
}

static int work(Eval *e)
{
    int code = clips_list(&e->clips, e->data, e->only);
    if (!code) code = open_contexts(e);
    if (!code) code = check_clips(e);
    if (!code && !e->common.json)
        printf("clip                     sigma    noisy     PSNR    SSIM   ST-RRED  s/Mpx/frame processor%s\n",
               e->blind ? "   sigma used" : "");
    for (int i = 0; i < e->sigmas && !code; i++) code = run_sigma(e, e->sigma[i]);
    if (code || !e->common.json) return code;
    json_t *report = report_begin(e->ctx);
    json_object_set(report, "rows", e->rows);
    return report_print(report);
}

/* The denoiser's options and two of our own, as one table over Eval. */
static void make_options(SnlsOption *list, int room)
{
    static const SnlsOption own[] = { { "crop", "side of the middle part that is used; 0: whole frames",
                                        SNLS_OPTION_INT, offsetof(Eval, crop), 0, 0, 32767, NULL },
                                      { "frames", "first frames that are used; 0: all", SNLS_OPTION_INT,
                                        offsetof(Eval, frames), 0, 0, 100000, NULL } };
    int count = 0;
    network_options(list, room - 2);
    while (list[count].name) count++;
    for (int i = 0; i < 2; i++) list[count++] = own[i];
    list[count] = (SnlsOption){ 0 };
}

int cmd_eval(int argc, char **argv)
{
    static Eval e;
    int code;
    SnlsOption options[64];
    uint64_t set = 0;
    const char *sigma = NULL;
    const Arg args[] = { { "data", "DIR", "folder of clean clips: folders of images, .npy, videos; or one .npy or video", &e.data },
                         { "sigma", "LIST", "standard deviations of the noise (10,20,30,40,50)", &sigma },
                         { "only", "TEXT", "only clips whose name holds this", &e.only },
                         { "model", "PATH",
                           "denoise with the network of these weights: a .safetensors file, or a folder (dvdnet)",
                           &e.model_path },
                         PRECISION_ARG(e.network),
                         { "blind", NULL, "the denoiser estimates sigma itself", &e.blind },
                         READING_ARGS(e.reading) };
    const ArgTable table = { .summary = "adds noise to the clips of a folder, denoises, measures, prints a table",
                             .examples = "  snls eval --data clips/ --sigma 20,50 --preset slow --crop 240\n"
                                         "  snls eval --data clips/ --sigma 10,20,30,40,50 --json\n"
                                         "  snls eval --data clips/ --sigma 50 --method stan\n"
                                         "  snls eval --data clips/ --sigma 50 --method dvdnet --model folder/\n",
                             .args = args,
                             .arg_count = sizeof args / sizeof *args,
                             .options = options,
                             .params = &e,
                             .options_given = &set };
    make_options(options, 64);
    snls_denoise_defaults(&e.params);
    code = network_take(argc, argv, argv, &argc, &e.network);
    if (code || !parse_args(argc, argv, &table, &e.common, &code)) return code;
    code = network_find(&e.network, &e.model_path);
    if (!code) code = network_check(&e.network, options, set, &e.params, e.model_path);
    if (code) return code;
    if (!e.data) return fail(EXIT_USAGE, "--data is missing: a folder of clips");
    e.rows = json_array();
    if (e.model_path && e.blind)
        return fail(EXIT_USAGE, "--blind has no meaning with a network, which is told sigma");
    code = parse_numbers("sigma", sigma ? sigma : "10,20,30,40,50", e.sigma, SIGMAS_MAX, &e.sigmas);
    for (int i = 0; !code && i < e.sigmas; i++) code = network_check_sigma(e.model_path, e.sigma[i]);
    if (!code) code = work(&e);
    snls_model_close(&e.model);
    snls_close(&e.model_ctx);
    snls_close(&e.ctx);
    clips_free(&e.clips);
    json_decref(e.rows);
    return code;
}
