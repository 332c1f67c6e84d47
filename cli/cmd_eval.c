/* cmd_eval.c: clean clips, noise, denoiser, metrics: the table that papers print. */
#define _XOPEN_SOURCE 700
#include "clips.h"
#include "denoise_args.h"
#include "eval.h"
#include "mean.h"
#include "weights.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { SIGMAS_MAX = 16 };

typedef struct Eval {
    EvalJob job; /* first: the option table counts from here */
    Common common;
    const char *data, *only, *model_path;
    Network network; /* --method stan and its like */
    bool blind;      /* the denoiser is not told sigma */
    double sigma[SIGMAS_MAX];
    int sigmas;
    Clips clips;
    json_t *rows, *missing; /* missing: lines about metrics that a clip has none of */
} Eval;

/* ---- the table ---- */

/* Of a terminal; printf counts bytes. */
static int columns_of(const char *text)
{
    int columns = 0;
    for (; *text; text++) columns += (*text & 0xc0) != 0x80; /* UTF-8: bytes that begin a character */
    return columns;
}

/* What was found in the frames: their mean, and how far it goes up and down. */
static void print_used(const Used *u)
{
    printf("   %.2f %.2f %.2f   %.2f to %.2f", u->sigma[0], u->sigma[1], u->sigma[2], u->least, u->most);
    if (u->without) printf(", none in %lld frame%s", (long long)u->without, u->without == 1 ? "" : "s");
}

static int print_row(const Eval *e, const char *name, double sigma, const Score *s)
{
    if (e->common.json) return EXIT_DONE;
    const int columns = columns_of(name);
    printf("%s%*s %5g  %7.3f %8.3f %7.4f %9.5f %9.3f %9.3f", name, columns < 24 ? 24 - columns : 0, "", sigma, s->noisy, s->psnr, s->ssim, s->strred,
           s->seconds, s->processor);
    if (e->blind) print_used(&s->used);
    printf("\n");
    return flush_stdout();
}

static json_t *row_json(const char *name, double sigma, const Score *s)
{
    return json_pack("{s:o, s:f, s:o, s:o, s:o, s:o, s:f, s:f, s:[f,f], s:[f,f,f], s:[f,f], s:I}", "clip", json_text(name), "sigma", sigma,
                     "psnr_noisy", json_real_or_null(s->noisy), "psnr", json_real_or_null(s->psnr), "ssim",
                     json_real_or_null(s->ssim), "strred", json_real_or_null(s->strred), "seconds_per_megapixel_frame",
                     s->seconds, "processor_seconds_per_megapixel_frame", s->processor,
                     "groups_per_megapixel_frame", s->groups[0], s->groups[1], "sigma_used", s->used.sigma[0],
                     s->used.sigma[1], s->used.sigma[2], "sigma_range", s->used.least, s->used.most, "frames_without_noise", (json_int_t)s->used.without);
}

typedef struct MeanScore {
    Score score;
    Mean ssim, strred; /* which a clip may be too small for */
    Mean sigma[3];     /* of clips with noise */
} MeanScore;

static void add_used(MeanScore *mean, const Used *u)
{
    Used *sum = &mean->score.used;
    sum->without += u->without;
    if (!(u->most > 0)) return; /* a clip without noise has no bounds, and says nothing of what was used in others */
    for (int c = 0; c < 3; c++) mean_add(&mean->sigma[c], u->sigma[c]), sum->sigma[c] = mean_of(&mean->sigma[c], 0);
    if (sum->most == 0 || u->least < sum->least) sum->least = u->least;
    if (u->most > sum->most) sum->most = u->most;
}

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
    add_used(mean, &s->used);
}

/* Once, whatever the number of sigmas. */
static void note_missing(Eval *e, const char *clip, const char *metric, const char *why)
{
    char line[1024];
    size_t i;
    json_t *said;
    if (!*why) return;
    snprintf(line, sizeof line, "%s: no %s: %s", clip, metric, why);
    json_array_foreach(e->missing, i, said) if (!strcmp(json_string_value(said), line)) return;
    json_array_append_new(e->missing, json_stringn_nocheck(line, strlen(line)));
}

/* At the end: where something fails, that is the one line. */
static void tell_missing(const Eval *e)
{
    size_t i;
    json_t *line;
    json_array_foreach(e->missing, i, line) fprintf(stderr, "snls eval: %s\n", json_string_value(line));
}

static int run_sigma(Eval *e, double sigma)
{
    MeanScore mean = { 0 };
    int code = EXIT_DONE;
    e->job.sigma = sigma;
    for (int c = 0; c < 3; c++) e->job.params.sigma[c] = e->blind ? -1 : sigma;
    for (int i = 0; i < e->clips.count && !code; i++) {
        Score score;
        const char *name = name_of(e->clips.path[i]);
        code = eval_clip(&e->job, e->clips.path[i], &score);
        if (!code) code = print_row(e, name, sigma, &score);
        if (code) break;
        json_array_append_new(e->rows, row_json(name, sigma, &score));
        note_missing(e, name, "SSIM", score.no_ssim);
        note_missing(e, name, "ST-RRED", score.no_strred);
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
    int code = open_context(&here, &e->job.ctx);
    if (code || !e->model_path) return code;
    code = open_context(&e->common, &e->job.model_ctx);
    return code ? code : network_open(&e->network, e->job.model_ctx, e->model_path, &e->job.model);
}

/* Which of them cannot be read at all is known before the first is denoised. */
static int check_clips(Eval *e)
{
    const SnlsReaderParams params = reading_params(&e->job.reading);
    for (int i = 0; i < e->clips.count; i++) {
        SnlsReader *reader;
        struct stat info;
        const bool is_pipe = !strcmp(e->clips.path[i], "-") || (!stat(e->clips.path[i], &info) && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode));
        if (is_pipe && e->sigmas > 1) return fail(EXIT_USAGE, "--sigma lists %d, but %s is a pipe, which can be read once: one sigma", e->sigmas, e->clips.path[i]);
        if (is_pipe) continue;
        const SnlsStatus status = snls_reader_open(&reader, e->job.ctx, e->clips.path[i], &params);
        snls_reader_close(&reader);
        if (status < 0) return fail_library(e->job.ctx, status, false);
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
               e->blind ? "   sigma used, from frame to frame" : "");
    for (int i = 0; i < e->sigmas && !code; i++) code = run_sigma(e, e->sigma[i]);
    if (!code) tell_missing(e);
    if (code || !e->common.json) return code;
    json_t *report = report_begin(e->job.ctx);
    json_object_set(report, "rows", e->rows);
    return report_print(report);
}

/* The denoiser's options and two of our own, as one table over EvalJob. */
static void make_options(SnlsOption *list, int room)
{
    static const SnlsOption own[] = { { "crop", "side of the middle part that is used; 0: whole frames",
                                        SNLS_OPTION_INT, offsetof(EvalJob, crop), 0, 0, 32767, NULL },
                                      { "frames", "first frames that are used; 0: all", SNLS_OPTION_INT,
                                        offsetof(EvalJob, frames), 0, 0, 100000, NULL } };
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
    const Arg args[] = { { "data", "DIR", "folder of clean clips: folders of images, .npy, videos; or one clip", &e.data },
                         { "sigma", "LIST", "standard deviations of the noise (10,20,30,40,50)", &sigma },
                         { "only", "TEXT", "only clips whose name holds this", &e.only },
                         { "model", "PATH",
                           "denoise with the network of these weights: a .safetensors file, or a folder (dvdnet)",
                           &e.model_path },
                         PRECISION_ARG(e.network),
                         { "blind", NULL, "the denoiser estimates sigma itself", &e.blind },
                         READING_ARGS(e.job.reading) };
    const ArgTable table = { .summary = "adds noise to the clips of a folder, denoises, measures, prints a table",
                             .examples = "  snls eval --data clips/ --sigma 20,50 --preset slow --crop 240\n"
                                         "  snls eval --data clips/ --sigma 10,20,30,40,50 --json\n"
                                         "  snls eval --data clips/ --sigma 50 --method stan\n"
                                         "  snls eval --data clips/ --sigma 50 --method dvdnet --model folder/\n",
                             .args = args,
                             .arg_count = sizeof args / sizeof *args,
                             .options = options,
                             .params = &e.job,
                             .options_given = &set };
    make_options(options, 64);
    snls_denoise_defaults(&e.job.params);
    code = network_take(argc, argv, argv, &argc, &e.network);
    if (code || !parse_args(argc, argv, &table, &e.common, &code)) return code;
    code = network_find(&e.network, &e.model_path);
    if (!code) code = network_check(&e.network, options, set, &e.job.params, e.model_path);
    if (code) return code;
    if (!e.data) return fail(EXIT_USAGE, "--data is missing: a folder of clips");
    e.job.seed = e.common.seed;
    e.rows = json_array();
    e.missing = json_array();
    if (e.model_path && e.blind)
        return fail(EXIT_USAGE, "--blind has no meaning with a network, which is told sigma");
    code = parse_numbers("sigma", sigma ? sigma : "10,20,30,40,50", e.sigma, SIGMAS_MAX, &e.sigmas);
    for (int i = 0; !code && i < e.sigmas; i++) code = network_check_sigma(e.model_path, e.sigma[i]);
    if (!code) code = work(&e);
    snls_model_close(&e.job.model);
    snls_close(&e.job.model_ctx);
    snls_close(&e.job.ctx);
    clips_free(&e.clips);
    json_decref(e.rows);
    json_decref(e.missing);
    return code;
}
