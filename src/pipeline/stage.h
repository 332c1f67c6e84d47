/* stage.h: what stands between reader and writer: the streaming denoiser, or a network that is given windows of frames. */
#ifndef SNLS_PIPELINE_STAGE_H
#define SNLS_PIPELINE_STAGE_H

#include "base/context.h"
#include "pipeline/journal.h"
#include <snls/denoise.h>
#include <snls/model.h>
#include <stdbool.h>

typedef struct SnlsStage {
    SnlsContext *ctx;
    SnlsDenoiser *denoiser; /* or: */
    SnlsModel *model;
    int64_t height, width, channels, radius;
    double sigma[3];
    /* a network's window: (room,H,W,C), the first `done` frames are only there as neighbours */
    float *window, *held, *out;
    int64_t room, count, done;
    int64_t ready, given; /* frames in out, of them pulled */
    bool holds, ending;   /* held begins the next scene; no more frames come to this one */
} SnlsStage;

/* model wins where it is not NULL. */
SnlsStatus snls_stage_open(SnlsStage *s, SnlsContext *ctx, const SnlsDenoiseParams *params, SnlsModel *model,
                           int64_t height, int64_t width, int64_t channels);
SnlsStatus snls_stage_push(SnlsStage *s, const float *frame, bool cut);
SnlsStatus snls_stage_pull(SnlsStage *s, float *frame); /* SNLS_END: nothing is ready */
SnlsStatus snls_stage_finish(SnlsStage *s);
int64_t snls_stage_delay(const SnlsStage *s);
void snls_stage_noise(const SnlsStage *s, double noise[SNLS_NOISE]);
SnlsStatus snls_stage_set_noise(SnlsStage *s, const double noise[SNLS_NOISE]); /* as it was told by another */
bool snls_stage_flow(const SnlsStage *s, float *flow);
void snls_stage_close(SnlsStage *s);

#endif
