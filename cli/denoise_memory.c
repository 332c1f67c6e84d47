/* denoise_memory.c: what a run of `snls denoise` needs, planned before anything is done. Where that is more than it may have, the
 * frames that the denoiser holds lie in a file: it works tile by tile, so that what it looks at is a small part of them. */
#define _POSIX_C_SOURCE 200809L
#include "denoise.h"
#include "denoise_args.h"
#include "held.h"
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GIB (1024.0 * 1024 * 1024)

typedef struct Size { char text[32]; } Size;

/* Rounded up, so that --mem with what is told is enough. */
static Size size_of(double bytes)
{
    Size size;
    if (bytes < GIB) snprintf(size.text, sizeof size.text, "%.0f MiB", ceil(bytes * 1024 / GIB));
    else snprintf(size.text, sizeof size.text, "%.2f GiB", ceil(bytes * 100 / GIB) / 100);
    return size;
}

/* "900M", "2G", "1.5GiB", "800000000" */
static int parse_size(const char *option, const char *text, double *bytes)
{
    char *end;
    if (!text) return EXIT_DONE;
    double value = read_number(text, &end);
    const char *const letters = "KkMmGgTt";
    const char *letter = *end ? strchr(letters, *end) : NULL;
    for (long i = letter ? (letter - letters) / 2 : -1; i >= 0; i--) value *= 1024;
    if (letter) end++;
    if (letter && (!strcmp(end, "iB") || !strcmp(end, "B") || !strcmp(end, "b"))) end += strlen(end);
    if (end == text || *end || !(value > 0 && value <= DBL_MAX))
        return fail(EXIT_USAGE, "--%s is %s, must be a size such as 900M or 2G", option, text);
    *bytes = value;
    return EXIT_DONE;
}

/* Pictures that decoder and encoder keep for themselves: H.264 at its defaults, measured, rounded up. */
static double codec_bytes(const SnlsVideoInfo *info)
{
    return 48.0 * 1024 * 1024 + 90.0 * (double)(info->width * info->height) * 1.5 * (info->depth > 8 ? 2 : 1);
}

/* Weights, as they lie and as layers pack them, the library that multiplies, and what a thread has for itself: its search and its stack. */
static double network_bytes(const SnlsModel *model, int32_t threads)
{
    SnlsModelInfo info = { .parameters = 0 };
    snls_model_info(model, &info);
    return (48.0 + 3.0 * threads) * 1024 * 1024 + 12.0 * (double)info.parameters;
}

/* Of what a network holds, oneDNN's own descriptions stay in memory: they grow with a row, up to the width that its layers are cut into. */
static double network_stays(const SnlsVideoInfo *info)
{
    return 12.0 * 1024 * (double)(info->width < 4096 ? info->width : 4096);
}

/* Where the output goes; for a pipe, where temporary files do. */
static void folder_of(const char *out, char *folder, size_t size)
{
    const char *tmp = getenv("TMPDIR");
    size_t n = strlen(out);
    while (n > 1 && out[n - 1] == '/') n--;
    while (n > 0 && out[n - 1] != '/') n--;
    while (n > 1 && out[n - 1] == '/') n--;
    if (!strcmp(out, "-")) snprintf(folder, size, "%s", tmp && *tmp ? tmp : "/tmp");
    else snprintf(folder, size, "%.*s", n ? (int)n : 1, n ? out : ".");
}

static int hold(const Denoise *d, double limit, double held)
{
    char folder[4096];
    folder_of(d->out, folder, sizeof folder);
    const int code = hold_in_files(folder, limit, held);
    if (!code && !d->quiet)
        fprintf(stderr, "snls denoise: frames are held in a file of %.2f GiB in %s, to stay below %.2f GiB of memory\n",
                held / GIB, folder, limit / GIB);
    return code;
}

/* What a run needs in all, and what of it is frames and features that can lie in a file. all < 0: there is no run of this size, which is said when it begins. */
typedef struct Need { double all, held; } Need;

static Need need_of(const Denoise *d, const SnlsPipelineParams *p)
{
    const int32_t threads = snls_threads(d->ctx[0]);
    const SnlsModelStreamParams size = { .height = d->info.height, .width = d->info.width, .lean = p->lean };
    const int64_t ours = snls_pipeline_memory(p, &d->info, &d->params, d->model, threads),
                  held = d->model ? snls_model_stream_memory(d->model, &size)
                                  : snls_denoiser_memory(&d->params, size.height, size.width, d->info.channels, threads);
    if (ours < 0) return (Need){ -1, 0 };
    return (Need){ (double)ours + codec_bytes(&d->info) + (d->model ? network_bytes(d->model, threads) : 0), ours > held && held > 0 ? (double)held : 0 };
}

int denoise_plan_memory(const Denoise *d, SnlsPipelineParams *p)
{
    double limit = memory_limit();
    const int code = parse_size("mem", d->mem, &limit);
    if (code) return code;
    Need need = need_of(d, p);
    if (need.all <= limit) return EXIT_DONE;
    p->lean = d->model != NULL; /* a quarter more to compute */
    if (d->model) need = need_of(d, p);
    if (need.all <= limit) return EXIT_DONE;
    const double stays = d->model ? network_stays(&d->info) : 0;
    const double least = need.all - 0.8 * (need.held > stays ? need.held - stays : 0); /* flow and the tiles in work are a tenth of what is held */
    if (need.held > 0 && least <= limit) return hold(d, limit, need.held);
    if (d->mem)
        return fail(EXIT_MEMORY, "--mem %s: this run needs about %s, or %s with frames held in a file", d->mem, size_of(need.all).text, size_of(least).text);
    return fail(EXIT_MEMORY, "%s: %.2f GiB are needed, this process may have %.2f GiB", d->in, need.all / GIB, limit / GIB);
}
