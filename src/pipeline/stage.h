/* stage.h: what stands between reader and writer: the streaming denoiser, or a network that is given windows of frames. */
#ifndef SNLS_PIPELINE_STAGE_H
#define SNLS_PIPELINE_STAGE_H

#include "base/context.h"
#include "pipeline/journal.h"
#include <snls/denoise.h>
#include <snls/model.h>
#include <stdbool.h>

enum { SNLS_STAGE_WAITING = 6, SNLS_STAGE_HELD = 256 }; /* frames that wait for a network; most that it holds */

typedef struct SnlsStage {
    SnlsContext *ctx;
    SnlsDenoiser *denoiser; /* or: */
    SnlsModel *model;
    SnlsModelStream *stream;
    int64_t height, width, channels;
    double sigma[3]; /* of a network; negative: not known yet */
    double told[SNLS_STAGE_HELD]; /* an estimate for each frame that the network holds, 0: it has no noise; a ring */
    int64_t pushed, pulled;       /* frames that went to the network, of them came back */
    bool estimates;  /* it is to be estimated */
    int64_t number;  /* of the first frame that waits, in its scene */
    float *window;   /* frames that wait for it, count of them */
    float *colour;   /* one frame (H,W,3), where they are grey */
    int64_t count;
    bool cut[SNLS_STAGE_WAITING]; /* it begins a scene */
    bool in_scene, ending;        /* the network has begun a scene; no more frames come */
} SnlsStage;

/* model wins where it is not NULL; lean: it keeps little. */
SnlsStatus snls_stage_open(SnlsStage *s, SnlsContext *ctx, const SnlsDenoiseParams *params, SnlsModel *model, bool lean,
                           int64_t height, int64_t width, int64_t channels);
int64_t snls_stage_model_memory(SnlsModel *model, bool lean, int64_t height, int64_t width); /* bytes; -1: a size that cannot be */
SnlsStatus snls_stage_push(SnlsStage *s, const float *frame, bool cut);
SnlsStatus snls_stage_pull(SnlsStage *s, float *frame); /* SNLS_END: nothing is ready */
bool snls_stage_quiet(const SnlsStage *s); /* no noise was found in the last frame that was pulled, and the caller, who has it, is to give it as it came: networks make something else of it */
SnlsStatus snls_stage_finish(SnlsStage *s);
int64_t snls_stage_delay(const SnlsStage *s);
int64_t snls_stage_period(const SnlsStage *s); /* frames of a scene after which it may begin anew, given the frames of one delay before */
void snls_stage_noise(const SnlsStage *s, double noise[SNLS_NOISE]);
bool snls_stage_flow(const SnlsStage *s, float *flow);
void snls_stage_close(SnlsStage *s);

#endif
