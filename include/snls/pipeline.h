/* pipeline.h: a clip from reader to writer through a denoiser, decoding, denoising and encoding at the same time.
 *
 *   SnlsPipeline job = { .reader = in, .writer = out, .ctx = ctx, .denoise = &params };   // three contexts, see below
 *   SnlsPipelineResult result;
 *   snls_pipeline_defaults(&job.params);
 *   if (snls_pipeline_run(&job, &result) < 0) puts(result.error);
 *
 * Memory does not grow with the length of the clip: queues are bounded, and the denoiser keeps its temporal window.
 * Scene cuts are found and not searched across. A journal keeps finished frames, so that a run that was stopped can go on:
 * the frames that are in it are written as they are, and the result is that of a run that was not stopped. */
#ifndef SNLS_PIPELINE_H
#define SNLS_PIPELINE_H

#include <snls/context.h>
#include <snls/denoise.h>
#include <snls/model.h>
#include <snls/types.h>
#include <snls/video.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct SnlsPipelineFrame { /* what a watcher sees of a finished frame; good during the call only */
    int64_t      number;
    double       time;           /* seconds */
    int32_t      cut, resumed;   /* begins a scene; comes from the journal */
    const float *before, *after; /* (H,W,C) */
    const float *flow;           /* (H,W,2) to the next frame; NULL: none */
} SnlsPipelineFrame;

typedef struct SnlsPipelineParams {
    int32_t     queue;       /* frames between two stages, 1 to 64 (2) */
    int32_t     find_cuts;   /* 1: scene cuts are looked for (1) */
    int32_t     resume;      /* 1: goes on from the journal where there is one (0) */
    int32_t     lean;        /* 1: a network computes again what would take much memory to keep (0) */
    int32_t     keep_journal; /* 1: the journal stays when all is done too, for who has more to write than the clip and removes it then (0) */
    int32_t     overwrite_journal; /* 1: a file of the journal's name that is no journal is written over; else it is refused (0) */
    int32_t     reserved[10]; /* zero */
    const char *journal;     /* a file for finished frames, removed when all is done, as is a journal that is there before; NULL: none (NULL) */
    const char *fingerprint; /* what input and settings are; a journal of others is refused (NULL) */
    void (*progress)(void *opaque, int64_t frames);                     /* after each frame written, in the writer's thread */
    SnlsStatus (*watch)(void *opaque, const SnlsPipelineFrame *frame);  /* in order, in the writer's thread; an error ends the run */
    void       *opaque;
} SnlsPipelineParams;

/* The three contexts (reader's, writer's, ctx) must differ: they work at the same time. */
typedef struct SnlsPipeline {
    SnlsReader              *reader;
    SnlsWriter              *writer;
    SnlsContext             *ctx;     /* the denoiser's */
    const SnlsDenoiseParams *denoise; /* NULL, or sigma 0 in all channels of the clip: frames are copied as they are */
    SnlsModel               *model;   /* a network opened with ctx, that denoises instead; of denoise only sigma is read (NULL) */
    SnlsPipelineParams       params;
} SnlsPipeline;

typedef struct SnlsPipelineResult {
    int64_t frames, resumed, cuts; /* written; of them from the journal; scenes but one */
    double  sigma[3];              /* in use, the mean over the frames where noise was found; 0 for a copy */
    int32_t writing;               /* the failure was one of writing */
    char    error[512];            /* the sentence of a failure, whatever failed */
    double  sigma_least, sigma_most; /* of those frames: the mean over the channels where it was least and most */
    double  noise[3];              /* of the channels that are filtered (snls_denoiser_noise), as sigma */
    int64_t quiet;                 /* frames without noise to be found, which were copied */
    int64_t reserved[8];           /* zero */
} SnlsPipelineResult;

SNLS_API void snls_pipeline_defaults(SnlsPipelineParams *params);

/* Blocks until the writer is finished or something failed. The journal stays where writing failed; other failures, which would
 * come again, remove it. A run that fails after frames were read leaves neither reader nor writer to go on with, since frames on their way are gone:
 * both are opened again, and until then refused (SNLS_ERR_ARG), as is a writer that is finished. */
SNLS_API SnlsStatus snls_pipeline_run(const SnlsPipeline *pipeline, SnlsPipelineResult *result);

/* Bytes that a run will hold at most, by this library's own account: codecs add their own. denoise NULL: a copy; model NULL: no network.
 * -1: in has no size, or one that is beyond what is denoised, or a field of params is out of range. */
SNLS_API int64_t snls_pipeline_memory(const SnlsPipelineParams *params, const SnlsVideoInfo *in, const SnlsDenoiseParams *denoise, SnlsModel *model, int32_t threads);

#ifdef __cplusplus
}
#endif
#endif
