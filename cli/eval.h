/* eval.h: what the files of `snls eval` share: one clip with one noise, denoised and measured, frame after frame. */
#ifndef SNLS_CLI_EVAL_H
#define SNLS_CLI_EVAL_H

#include "compare.h"

typedef struct EvalJob { /* what is done with every clip */
    SnlsDenoiseParams params; /* first: the option table counts from here; sigma below 0 where the denoiser is not told */
    int32_t crop, frames;
    SnlsContext *ctx, *model_ctx; /* the network's may be on a GPU; clips and metrics are this processor's */
    SnlsModel *model;             /* a network instead of the denoiser */
    Reading reading;
    uint64_t seed;
    double sigma; /* of the noise that is added */
} EvalJob;

/* ---- eval_filter.c: what denoises, the denoiser or a network, and the time that takes ---- */

typedef struct Filter {
    const EvalJob *job;
    SnlsDenoiser *denoiser;
    SnlsModelStream *stream; /* one of the two */
    SnlsTensor three;        /* a grey frame as a network takes it; without data: colour */
    int64_t pixels;
    double seconds, processor; /* so far: of the clock, of all processors together */
} Filter;

int filter_open(Filter *f, const EvalJob *job, const int64_t size[3]); /* height, width, channels (1 or 3) */
int64_t filter_delay(const Filter *f);          /* most frames that were pushed and not yet pulled */
int filter_push(Filter *f, const float *frame); /* then pull until nothing is there */
int filter_finish(Filter *f);
int filter_pull(Filter *f, float *frame, bool *there);
void filter_sigma(const Filter *f, double sigma[3]);    /* what the last pulled frame was taken to have; of grey, three times the same */
void filter_groups(const Filter *f, int64_t groups[2]); /* of patches, of both steps, so far; 0 for a network */
void filter_close(Filter *f);

/* ---- eval_clip.c ---- */

typedef struct Used { /* noise that frames were taken to have, as `snls denoise` tells it */
    double sigma[3];    /* mean over the frames where some was found */
    double least, most; /* of those frames: the mean over the channels */
    int64_t without;    /* frames where none was, which were copied */
} Used;

typedef struct Score {
    double noisy, psnr, ssim, strred; /* NaN: there is none */
    double seconds, processor;        /* per megapixel and frame: of the clock, of all processors together */
    double groups[2];                 /* of patches, of both steps, per megapixel and frame */
    Used used;
    char no_ssim[512], no_strred[512]; /* why there is none; "": there is */
} Score;

int eval_clip(const EvalJob *job, const char *path, Score *score);

#endif
