/* denoise.h: what the files of `snls denoise` share: the options as given, and the run. */
#ifndef SNLS_CLI_DENOISE_H
#define SNLS_CLI_DENOISE_H

#include "frames.h"
#include "html.h"
#include "progress.h"
#include "weights.h"

typedef struct Denoise {
    Common common;
    const char *in, *out;
    /* as given */
    Network network; /* --method stan and its like */
    const char *sigma, *model_path, *report, *clean, *first, *last, *frames, *fps, *codec, *crf, *format, *mem,
        *progress_to;
    const char *options[33]; /* of the encoder, ended by NULL */
    int option_count;
    Reading reading;
    bool resume, no_journal, no_copy, no_cuts, lossless, quiet;
    SnlsDenoiseParams params;
    /* the run */
    SnlsContext *ctx[4]; /* denoiser, reader, writer, watcher */
    SnlsModel *model;    /* a network instead of the denoiser */
    SnlsReader *reader, *clean_reader;
    SnlsWriter *writer;
    SnlsVideoInfo info, out_info;
    bool told;              /* notes of info and out_info are printed */
    SnlsPipelineResult result;
    Progress progress;
    Html html;
    json_t *psnr, *ssim, *psnr_before; /* of each frame, with --clean */
    double sums[3];
    int watch_code; /* first failure of the watcher */
    bool holding;   /* signals wait: the writer's thread is making files */
    char journal[4200]; /* "": none */
    double seconds;
} Denoise;

int denoise_run(Denoise *d);                                               /* denoise.c */
int denoise_plan_memory(const Denoise *d, SnlsPipelineParams *p); /* denoise_memory.c: an exit code */

/* ---- denoise_tell.c ---- */

bool denoise_is_copy(const Denoise *d);                      /* sigma is 0 */
json_t *denoise_report(const Denoise *d);                    /* of --json and of the page */
void denoise_add_metrics(const Denoise *d, json_t *report);
void denoise_note_copied(const Denoise *d); /* what is copied though nobody asked for a copy */
int denoise_print(const Denoise *d);

#endif
