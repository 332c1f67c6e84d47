/* denoise.c: the run of `snls denoise`: open, plan memory, pipeline, watch, report. */
#define _POSIX_C_SOURCE 200809L
#include "denoise.h"
#include "denoise_args.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- numbers of the command line ---- */

static int parse_count(const char *option, const char *text, int64_t least, int64_t *to)
{
    char *end;
    if (!text) return EXIT_DONE;
    const long long value = strtoll(text, &end, 10);
    if (!strchr("+0123456789", *text) || end == text || *end || value < least || value > 1000000000)
        return fail(EXIT_USAGE, "--%s is %s, must be %lld to 1000000000", option, text, (long long)least);
    *to = value;
    return EXIT_DONE;
}

static int parse_real(const char *option, const char *text, double low, double high, double *to)
{
    char *end;
    if (!text) return EXIT_DONE;
    const double value = read_number(text, &end);
    if (end == text || *end || !(value >= low && value <= high))
        return fail(EXIT_USAGE, "--%s is %s, must be %g to %g", option, text, low, high);
    *to = value;
    return EXIT_DONE;
}

static int reader_params(const Denoise *d, SnlsReaderParams *p)
{
    int64_t last = -1, frames = 0;
    *p = reading_params(&d->reading);
    int code = parse_count("first", d->first, 0, &p->first);
    if (!code) code = parse_count("last", d->last, 0, &last);
    if (!code) code = parse_count("frames", d->frames, 1, &frames);
    if (!code) code = parse_rate(d->fps, &p->rate);
    if (code) return code;
    if (d->last && last < p->first)
        return fail(EXIT_USAGE, "--last is %lld, must not be before --first, which is %lld", (long long)last,
                    (long long)p->first);
    if (d->last) p->count = last - p->first + 1;
    if (d->frames && (!p->count || frames < p->count)) p->count = frames;
    return EXIT_DONE;
}

/* ---- opening ---- */

/* A folder that is there may have any name, but one that ends as pictures do is a pattern all the same. */
static bool is_pattern(const char *path)
{
    struct stat info;
    char name[4200];
    if (snls_path_ends(path, ".png")) return strchr(path, '%');
    return snls_path_number(name_of(path), 0, name, sizeof name) && (stat(path, &info) || !S_ISDIR(info.st_mode));
}

static bool is_folder(const char *path)
{
    struct stat info;
    const char *name = name_of(path);
    if (!strcmp(path, "-") || is_pattern(path) || output_special(path)) return false;
    return (!stat(path, &info) && S_ISDIR(info.st_mode)) || !*name || !strchr(name, '.');
}

/* The writer's thread makes files, which a signal that meets another thread would leave behind: it waits from here until the frame is done with. */
static void hold(Denoise *d)
{
    if (d->holding) return;
    d->holding = true;
    stop_hold();
}

static void release(Denoise *d)
{
    if (!d->holding) return;
    d->holding = false;
    stop_release();
}

/* Pictures are added one by one, as they come: each is a .part until all are there. */
static const char *name_picture(void *opaque, const char *name)
{
    Denoise *d = opaque;
    hold(d);
    if (!strcmp(name, d->out)) return output_path(name); /* OUT is one picture, and an output already */
    return output_member_held(name, d->common.overwrite) ? NULL : output_path(name);
}

/* How pictures are called; NULL: OUT is a file. */
static const char *picture_pattern(const Denoise *d, char *pattern, size_t size)
{
    snprintf(pattern, size, is_folder(d->out) ? "%s/%%05d.png" : "%s", d->out);
    return is_folder(d->out) || is_pattern(d->out) ? pattern : NULL;
}

static int check_pictures(const Denoise *d)
{
    char pattern[4200];
    Length clip = { .path = d->in, .frames = d->info.frames, .exact = d->info.frames_exact };
    const int code = reader_params(d, &clip.params);
    picture_pattern(d, pattern, sizeof pattern);
    return code ? code : frames_free(d->ctx[1], &clip, 0, pattern, d->common.overwrite);
}

static int add_output(Denoise *d)
{
    if (!strcmp(d->out, "-"))
        return d->common.json ? fail(EXIT_USAGE, "OUT is standard output, and so is --json: one of them") : EXIT_DONE;
    if (is_folder(d->out)) {
        const int code = output_folder(d->out);
        return code ? code : check_pictures(d);
    }
    if (is_pattern(d->out)) {
        const int code = output_folder_of(d->out);
        return code ? code : check_pictures(d);
    }
    return output_add(d->out, d->common.overwrite);
}

/* A file of its own beside OUT, which no input and no other output may be. */
static int name_journal(Denoise *d)
{
    size_t n = strlen(d->out);
    if (denoise_is_copy(d) || d->no_journal || !strcmp(d->out, "-") || output_special(d->out)) return EXIT_DONE; /* beside a pipe there is no place */
    while (n > 1 && d->out[n - 1] == '/') n--;
    snprintf(d->journal, sizeof d->journal, "%.*s.resume", (int)n, d->out);
    const int code = output_spares_inputs(d->journal);
    if (!code) output_note(d->journal);
    return code;
}

static int add_outputs(Denoise *d)
{
    char pattern[4200];
    int code = name_journal(d);
    if (!code) code = add_output(d);
    if (!code && d->report) code = output_add(d->report, d->common.overwrite);
    return code ? code : progress_place(&d->progress, d->progress_to, picture_pattern(d, pattern, sizeof pattern), d->common.overwrite, d->resume);
}

static int open_contexts(Denoise *d)
{
    int code = open_context(&d->common, &d->ctx[0]);
    Common one = d->common;
    one.backend = "cpu";
    for (int i = 1; !code && i < 4; i++) code = open_context(&one, &d->ctx[i]);
    return code;
}

static int open_reader(Denoise *d)
{
    SnlsReaderParams params;
    int code = reader_params(d, &params);
    if (code) return code;
    if (strcmp(d->in, "-")) input_note(d->in);
    SnlsStatus status = snls_reader_open(&d->reader, d->ctx[1], d->in, &params);
    if (status < 0) return fail_library(d->ctx[1], status, false);
    snls_reader_info(d->reader, &d->info);
    if (d->fps && strcmp(d->info.container, "images") && strcmp(d->info.container, "npy"))
        return fail(EXIT_USAGE, "--fps is %s, but %s has times of its own (%.3f frames a second); it is for pictures and arrays",
                    d->fps, d->in, d->info.rate);
    code = check_sigma_channels(d->sigma, d->in, d->info.channels);
    if (code) return code;
    if (!d->clean) return EXIT_DONE;
    input_note(d->clean);
    status = snls_reader_open(&d->clean_reader, d->ctx[3], d->clean, &params);
    if (status < 0) return fail_library(d->ctx[3], status, false);
    SnlsVideoInfo clean;
    snls_reader_info(d->clean_reader, &clean);
    if (clean.width == d->info.width && clean.height == d->info.height && clean.channels == d->info.channels)
        return EXIT_DONE;
    return fail(EXIT_INPUT, "%s: is %lld x %lld pixels of %d channels, %s is %lld x %lld of %d, must be the same",
                d->clean, (long long)clean.width, (long long)clean.height, (int)clean.channels, d->in,
                (long long)d->info.width, (long long)d->info.height, (int)d->info.channels);
}

static int open_writer(Denoise *d)
{
    SnlsWriterParams p;
    snls_writer_defaults(&p);
    int code = parse_real("crf", d->crf, 0, 63, &p.crf);
    if (code) return code;
    if (d->crf && d->lossless) return fail(EXIT_USAGE, "--lossless and --crf %s: a quality is for lossy encoding, give one of them", d->crf);
    p.like = d->reader;
    p.path = d->out;
    p.codec = d->codec;
    p.format = d->format;
    p.options = d->options;
    p.no_copy = d->no_copy;
    p.listen = 1;
    p.lossless = d->lossless || (denoise_is_copy(d) && !d->codec && !d->crf && !d->option_count);
    p.rename = name_picture;
    p.opaque = d;
    const char *path = is_folder(d->out) || !strcmp(d->out, "-") ? d->out : output_path(d->out);
    const SnlsStatus status = snls_writer_open(&d->writer, d->ctx[2], path, &p);
    if (status < 0) return fail_clip(status, true, d->out, snls_error(d->ctx[2]));
    snls_writer_info(d->writer, &d->out_info);
    const char *asked = d->codec ? "vcodec" : d->crf ? "crf" : d->format ? "pix-fmt" : d->option_count ? "enc-opt" : NULL;
    if (asked && (!strcmp(d->out_info.container, "npy") || !strcmp(d->out_info.container, "images")))
        return fail(EXIT_USAGE, "--%s has no meaning for %s: pictures and arrays have no encoder", asked, d->out);
    return EXIT_DONE;
}

static void tell_once(Denoise *d)
{
    if (!d->told && !d->quiet) print_notes(&d->info), print_notes(&d->out_info);
    d->told = true;
}

/* ---- the watcher: metrics and report, in the writer's thread ---- */

static int measure(Denoise *d, const SnlsPipelineFrame *f)
{
    SnlsFrame *frame = NULL;
    const int64_t shape[3] = { d->info.height, d->info.width, d->info.channels };
    const SnlsStatus read = snls_reader_next(d->clean_reader, &frame);
    if (read == SNLS_END)
        return fail(EXIT_INPUT, "%s: ends after %lld frames, %s has more", d->clean, (long long)f->number, d->in);
    if (read < 0) return fail_library(d->ctx[3], read, false);
    SnlsTensor clean = { 0 };
    int code = alloc_array(d->ctx[3], "a frame", &clean, SNLS_F32, 3, shape);
    if (!code && snls_frame_read(frame, clean.data) < 0) code = fail(EXIT_MEMORY, "%s: out of memory for a frame", d->clean);
    snls_frame_free(&frame);
    const SnlsTensor before = snls_tensor((void *)f->before, SNLS_F32, 3, shape),
                     after = snls_tensor((void *)f->after, SNLS_F32, 3, shape);
    double noisy = 0, psnr = 0, ssim = 0;
    SnlsStatus status = code ? SNLS_OK : snls_psnr(d->ctx[3], &clean, &before, &noisy);
    if (!code && status >= 0) status = snls_psnr(d->ctx[3], &clean, &after, &psnr);
    if (!code && status >= 0) status = ssim_or_nan(d->ctx[3], &clean, &after, &ssim);
    snls_array_free(d->ctx[3], &clean);
    if (status < 0) return fail_library(d->ctx[3], status, false);
    json_array_append_new(d->psnr_before, json_real_or_null(noisy));
    json_array_append_new(d->psnr, json_real_or_null(psnr));
    if (!isnan(ssim)) json_array_append_new(d->ssim, json_real(ssim)); /* none on small frames */
    d->sums[0] += noisy, d->sums[1] += psnr, d->sums[2] += ssim;
    return code;
}

static SnlsStatus watch(void *opaque, const SnlsPipelineFrame *f)
{
    Denoise *d = opaque;
    if (!d->watch_code && d->clean) d->watch_code = measure(d, f);
    if (!d->watch_code && d->report && html_wants(&d->html, f->number)) {
        hold(d);
        d->watch_code = html_add(&d->html, f);
    }
    return d->watch_code ? SNLS_ERR_ARG : SNLS_OK;
}

static void on_progress(void *opaque, int64_t frames)
{
    Denoise *d = opaque;
    release(d);
    if (d->progress.bar || seconds_now() - d->progress.start >= NOTES_SECONDS) tell_once(d); /* a bar comes behind them */
    if (d->result.resumed > d->progress.resumed) d->progress.resumed = d->result.resumed;
    progress_frame(&d->progress, frames);
}

/* ---- the run ---- */

/* What a network's result depends on, besides the clip. */
static void network_text(const Denoise *d, char *text, size_t size)
{
    struct stat info = { 0 };
    SnlsModelInfo model;
    *text = 0;
    if (!d->model || snls_model_info(d->model, &model) < 0) return;
    stat(d->model_path, &info);
    snprintf(text, size, "|%s|%s|%lld|%lld|%s|%d", model.architecture, d->model_path, (long long)info.st_size,
             (long long)info.st_mtime, snls_backend_name(d->ctx[0]), (int)model.dtype);
}

/* Two runs with equal texts give equal frames. */
static void fingerprint(const Denoise *d, char *text, size_t size)
{
    struct stat info = { 0 };
    char network[512];
    uint64_t sum = 14695981039346656037u;
    for (size_t i = 0; i < sizeof d->params; i++) sum = (sum ^ ((const unsigned char *)&d->params)[i]) * 1099511628211u;
    stat(d->in, &info);
    network_text(d, network, sizeof network);
    snprintf(text, size, "%s|%s|%lld|%lld|%s|%s|%s|%d%d%d|%016llx|%s|%s|%lldx%lld%s", snls_version(), d->in,
             (long long)info.st_size, (long long)info.st_mtime, d->first ? d->first : "", d->last ? d->last : "",
             d->frames ? d->frames : "", d->reading.lenient, d->reading.progressive, d->no_cuts,
             (unsigned long long)sum, d->out_info.codec, d->out_info.pixel_format, (long long)d->info.width,
             (long long)d->info.height, network);
}

static void plan_journal(Denoise *d, SnlsPipelineParams *p)
{
    if (!*d->journal) return;
    p->journal = d->journal;
    p->keep_journal = 1; /* the report and the last names come after the last frame */
    p->resume = d->resume;
    p->overwrite_journal = d->common.overwrite;
    stop_words("; with --resume the same command goes on", d->journal);
}

/* What was only found on the way. */
static void tell_later(Denoise *d)
{
    SnlsVideoInfo in, out;
    snls_reader_info(d->reader, &in);
    snls_writer_info(d->writer, &out);
    d->out_info.lossless = out.lossless;
    if (d->quiet) return;
    tell_once(d);
    print_later_notes(&d->info, &in);
    print_later_notes(&d->out_info, &out);
    if (!d->clean_reader) return;
    SnlsVideoInfo clean;
    snls_reader_info(d->clean_reader, &clean);
    print_damage(d->clean, &clean);
}

static int run_pipeline(Denoise *d, SnlsPipeline *job)
{
    const double start = seconds_now();
    const SnlsStatus status = snls_pipeline_run(job, &d->result);
    release(d); /* of a frame that failed */
    d->seconds = seconds_now() - start;
    progress_end(&d->progress, status >= 0);
    if (d->watch_code == EXIT_INPUT && *d->journal) unlink(d->journal); /* the clean clip does not fit: nothing to go on with */
    if (d->watch_code) return d->watch_code;
    if (status >= 0) return tell_later(d), EXIT_DONE;
    return fail_clip(status, d->result.writing, d->out, d->result.error);
}

static int denoise_all(Denoise *d)
{
    char text[2048];
    SnlsPipeline job = {
        .reader = d->reader, .writer = d->writer, .ctx = d->ctx[0], .denoise = &d->params, .model = d->model
    };
    snls_pipeline_defaults(&job.params);
    if (d->info.width * d->info.height > 1 << 20) job.params.queue = 1; /* denoising such a frame takes seconds */
    job.params.find_cuts = !d->no_cuts;
    job.params.progress = on_progress;
    job.params.watch = d->report || d->clean ? watch : NULL;
    job.params.opaque = d;
    plan_journal(d, &job.params);
    fingerprint(d, text, sizeof text);
    job.params.fingerprint = text;
    int code = denoise_plan_memory(d, &job.params);
    if (!code && d->resume && !job.params.journal && !denoise_is_copy(d))
        code = fail(EXIT_USAGE, "--resume: there is no journal for %s", d->out);
    if (!code) code = progress_begin(&d->progress, d->info.frames, d->info.rate, d->quiet);
    return code ? code : run_pipeline(d, &job);
}

static int finish(Denoise *d)
{
    char pattern[4200];
    json_t *report = denoise_report(d);
    if (picture_pattern(d, pattern, sizeof pattern)) output_ends(pattern, d->result.frames, d->common.overwrite);
    int code = d->report ? html_write(&d->html, output_path(d->report), d->in, report, d->psnr_before, d->psnr, d->ssim)
                         : EXIT_DONE;
    if (!code) denoise_note_copied(d);
    if (!code) code = outputs_commit(); /* before anything says that it is done: who reads that may look for OUT at once */
    if (!code && *d->journal) unlink(d->journal);
    if (code || !d->common.json) return json_decref(report), code ? code : denoise_print(d);
    denoise_add_metrics(d, report);
    return report_print(report);
}

static int open_model(Denoise *d)
{
    if (!d->model_path || denoise_is_copy(d)) return EXIT_DONE;
    return network_open(&d->network, d->ctx[0], d->model_path, &d->model);
}

static int work(Denoise *d)
{
    int code = progress_spares_stdout(d->progress_to, d->common.json ? "--json" : strcmp(d->out, "-") ? NULL : "OUT");
    if (!code) code = progress_check(d->progress_to);
    if (!code) code = parse_sigma(d->sigma, true, d->params.sigma);
    for (int c = 0; !code && c < 3; c++) code = network_check_sigma(d->model_path, d->params.sigma[c]);
    if (!code) code = open_contexts(d);
    if (!code) code = open_model(d);
    if (!code) code = open_reader(d);
    if (!code) code = add_outputs(d);
    if (!code) code = open_writer(d);
    if (code) return code;
    if (d->report)
        code = html_begin(&d->html, d->ctx[3], output_special(d->report) ? NULL : output_path(d->report), d->info.height, d->info.width, d->info.channels,
                   d->info.frames);
    if (!code) code = denoise_all(d);
    return code ? code : finish(d);
}

int denoise_run(Denoise *d)
{
    d->psnr = json_array();
    d->ssim = json_array();
    d->psnr_before = json_array();
    const int code = work(d);
    html_free(&d->html);
    snls_model_close(&d->model);
    snls_writer_close(&d->writer);
    snls_reader_close(&d->reader);
    snls_reader_close(&d->clean_reader);
    for (int i = 0; i < 4; i++) snls_close(&d->ctx[i]);
    json_decref(d->psnr);
    json_decref(d->ssim);
    json_decref(d->psnr_before);
    return code;
}
