/* denoise_memory.c: what a run of `snls denoise` needs, planned before anything is done. Where that is more than it may have, the
 * frames that the denoiser holds lie in a file: it works tile by tile, so that what it looks at is a small part of them. */
#define _POSIX_C_SOURCE 200809L
#include "denoise.h"
#include "held.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GIB (1024.0 * 1024 * 1024)

/* "900M", "2G", "1.5GiB", "800000000" */
static int parse_size(const char *option, const char *text, double *bytes)
{
    char *end;
    if (!text) return EXIT_DONE;
    double value = strtod(text, &end);
    const char *const letters = "KMGT";
    const char *letter = *end ? strchr(letters, *end & ~32) : NULL;
    for (long i = letter ? letter - letters : -1; i >= 0; i--) value *= 1024;
    if (letter) end++;
    if (letter && (!strcmp(end, "iB") || !strcmp(end, "B") || !strcmp(end, "b"))) end += strlen(end);
    if (end == text || *end || !(value > 0))
        return fail(EXIT_USAGE, "--%s is %s, must be a size such as 900M or 2G", option, text);
    *bytes = value;
    return EXIT_DONE;
}

/* Pictures that decoder and encoder keep for themselves: H.264 at its defaults, measured, rounded up. */
static double codec_bytes(const SnlsVideoInfo *info)
{
    return 48.0 * 1024 * 1024 + 90.0 * (double)(info->width * info->height) * 1.5 * (info->depth > 8 ? 2 : 1);
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

int denoise_plan_memory(const Denoise *d, const SnlsPipelineParams *p)
{
    double limit = memory_limit();
    const int code = parse_size("mem", d->mem, &limit);
    if (code) return code;
    if (d->model)
        return d->mem ? fail(EXIT_UNSUPPORTED, "--mem: what a network needs is not known beforehand") : EXIT_DONE;
    const int32_t threads = snls_threads(d->ctx[0]);
    const int64_t ours = snls_pipeline_memory(p, &d->info, &d->params, threads),
                  frames = snls_denoiser_memory(&d->params, d->info.height, d->info.width, d->info.channels, threads);
    const double need = (double)(ours > 0 ? ours : 0) + codec_bytes(&d->info), held = frames > 0 ? (double)frames : 0,
                 least = need - 0.8 * held; /* flow and the tiles in work are a tenth of what is held */
    if (need <= limit) return EXIT_DONE;
    if (ours > held && least <= limit) return hold(d, limit, held);
    if (d->mem)
        return fail(EXIT_MEMORY, "--mem %s: this run needs about %.2f GiB, or %.2f GiB with frames held in a file",
                    d->mem, need / GIB, least / GIB);
    return fail(EXIT_MEMORY, "%s: %.2f GiB are needed, this machine has %.2f GiB", d->in, need / GIB, limit / GIB);
}
