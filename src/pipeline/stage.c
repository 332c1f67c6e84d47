/* stage.c: the denoiser streams by itself; a network is run on a window that slides along the clip, CHUNK frames at a time with its
 * radius on either side, and never across a scene cut. */
#include "pipeline/stage.h"
#include <string.h>

enum { CHUNK = 4, SAMPLE = 5 }; /* frames for one run; frames that an estimate of the noise looks at, at most */

static int64_t frame_floats(const SnlsStage *s) { return s->height * s->width * s->channels; }

static SnlsStatus open_model(SnlsStage *s, const SnlsDenoiseParams *params)
{
    SnlsModelInfo info;
    SNLS_REQUIRE(s->ctx, s->channels == 3, SNLS_ERR_UNSUPPORTED, "denoise: networks take colour, this clip is grey");
    SNLS_TRY(snls_model_info(s->model, &info));
    s->radius = info.radius;
    s->room = CHUNK + 2 * s->radius;
    memcpy(s->sigma, params->sigma, sizeof s->sigma);
    s->window = snls_mem_alloc(&s->ctx->allocator, (s->room + 1 + CHUNK) * frame_floats(s) * (int64_t)sizeof(float));
    SNLS_REQUIRE(s->ctx, s->window, SNLS_ERR_MEMORY, "denoise: out of memory for a window of %lld frames",
                 (long long)s->room);
    s->held = s->window + s->room * frame_floats(s);
    s->out = s->held + frame_floats(s);
    return SNLS_OK;
}

SnlsStatus snls_stage_open(SnlsStage *s, SnlsContext *ctx, const SnlsDenoiseParams *params, SnlsModel *model,
                           int64_t height, int64_t width, int64_t channels)
{
    *s = (SnlsStage){ .ctx = ctx, .model = model, .height = height, .width = width, .channels = channels };
    if (model) return open_model(s, params);
    return snls_denoiser_open(&s->denoiser, ctx, params, height, width, channels);
}

SnlsStatus snls_stage_push(SnlsStage *s, const float *frame, bool cut)
{
    if (s->denoiser) return snls_denoiser_push(s->denoiser, frame, cut);
    const size_t bytes = (size_t)frame_floats(s) * sizeof(float);
    SNLS_REQUIRE(s->ctx, !s->holds && s->count < s->room, SNLS_ERR_ARG,
                 "denoise: finished frames have not been pulled");
    s->holds = s->ending = cut && s->count > 0;
    if (s->holds) memcpy(s->held, frame, bytes);
    else memcpy(s->window + s->count++ * frame_floats(s), frame, bytes);
    return SNLS_OK;
}

/* Networks are told one number: the mean over the channels, estimated once from the first frames. */
static SnlsStatus find_sigma(SnlsStage *s, double *sigma)
{
    if (s->sigma[0] < 0)
        SNLS_TRY(snls_noise_estimate(s->ctx, s->window, s->count < SAMPLE ? s->count : SAMPLE, s->height, s->width,
                                     s->channels, s->sigma));
    *sigma = (s->sigma[0] + s->sigma[1] + s->sigma[2]) / 3;
    return SNLS_OK;
}

static SnlsStatus run_model(SnlsStage *s, int64_t count)
{
    SnlsModelRun run = { .first = s->done, .count = count };
    const int64_t floats = frame_floats(s), drop = s->done + count > s->radius ? s->done + count - s->radius : 0;
    SNLS_TRY(find_sigma(s, &run.sigma));
    run.frames = snls_tensor(s->window, SNLS_F32, 4, (const int64_t[]){ s->count, s->height, s->width, s->channels });
    run.out = snls_tensor(s->out, SNLS_F32, 4, (const int64_t[]){ count, s->height, s->width, s->channels });
    SNLS_TRY(snls_model_run(s->model, &run));
    memmove(s->window, s->window + drop * floats, (size_t)((s->count - drop) * floats) * sizeof(float));
    s->count -= drop;
    s->done += count - drop;
    s->ready = count;
    s->given = 0;
    return SNLS_OK;
}

/* The scene is through: the next one begins with the frame that was held. */
static void next_scene(SnlsStage *s)
{
    if (!s->holds) return;
    s->count = s->done = 0;
    s->holds = s->ending = false;
    memcpy(s->window, s->held, (size_t)frame_floats(s) * sizeof(float));
    s->count = 1;
}

SnlsStatus snls_stage_pull(SnlsStage *s, float *frame)
{
    if (s->denoiser) return snls_denoiser_pull(s->denoiser, frame);
    if (s->given == s->ready) {
        const int64_t left = s->count - s->done;
        if (s->ending && left > 0) SNLS_TRY(run_model(s, left < CHUNK ? left : CHUNK));
        else if (s->ending) return next_scene(s), SNLS_END;
        else if (left >= CHUNK + s->radius) SNLS_TRY(run_model(s, CHUNK));
        else return SNLS_END;
    }
    memcpy(frame, s->out + s->given++ * frame_floats(s), (size_t)frame_floats(s) * sizeof(float));
    return SNLS_OK;
}

SnlsStatus snls_stage_finish(SnlsStage *s)
{
    if (s->denoiser) return snls_denoiser_finish(s->denoiser);
    s->ending = true;
    return SNLS_OK;
}

int64_t snls_stage_delay(const SnlsStage *s) { return s->denoiser ? snls_denoiser_delay(s->denoiser) : s->room; }

void snls_stage_noise(const SnlsStage *s, double noise[SNLS_NOISE])
{
    if (s->denoiser) {
        snls_denoiser_sigma(s->denoiser, noise);
        snls_denoiser_noise(s->denoiser, noise + 3);
    } else memcpy(noise, s->sigma, sizeof s->sigma);
}

SnlsStatus snls_stage_set_noise(SnlsStage *s, const double noise[SNLS_NOISE])
{
    return s->denoiser ? snls_denoiser_set_noise(s->denoiser, noise + 3) : SNLS_OK;
}

bool snls_stage_flow(const SnlsStage *s, float *flow)
{
    return s->denoiser && snls_denoiser_flow(s->denoiser, flow) == SNLS_OK;
}

void snls_stage_close(SnlsStage *s)
{
    snls_denoiser_close(&s->denoiser);
    if (s->ctx) snls_mem_free(&s->ctx->allocator, s->window);
    *s = (SnlsStage){ 0 };
}
