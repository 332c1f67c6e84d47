/* stage.c: the denoiser streams by itself, and so does a network, but for what it must be told: the noise, estimated from a few
 * frames where it is not given, and where a scene ends. Frames wait here until it can be told. */
#include "pipeline/stage.h"
#include <math.h>
#include <string.h>

enum { SAMPLE = 5, ROOM = SNLS_STAGE_WAITING }; /* frames that an estimate of the noise looks at, at most; frames that wait */

static int64_t frame_floats(const SnlsStage *s) { return s->height * s->width * s->channels; }

static float *waiting(const SnlsStage *s, int64_t i) { return s->window + i * frame_floats(s); }

static SnlsStatus open_model(SnlsStage *s, const SnlsDenoiseParams *params, bool lean)
{
    const SnlsModelStreamParams p = { .height = s->height, .width = s->width, .lean = lean };
    SNLS_REQUIRE(s->ctx, s->channels == 3 || s->channels == 1, SNLS_ERR_UNSUPPORTED, "denoise: networks take colour or grey, this clip has %lld channels", (long long)s->channels);
    for (int c = 0; c < 3; c++) s->sigma[c] = params->sigma[s->channels == 1 ? 0 : c];
    s->estimates = s->sigma[0] < 0;
    SNLS_TRY(snls_model_stream_open(&s->stream, s->model, &p)); /* before anything is taken for frames of a size that it refuses */
    s->window = snls_mem_alloc(&s->ctx->allocator, (ROOM * frame_floats(s) + 3 * s->height * s->width) * (int64_t)sizeof(float));
    SNLS_REQUIRE(s->ctx, s->window, SNLS_ERR_MEMORY, "denoise: out of memory for %d frames", (int)ROOM);
    s->colour = waiting(s, ROOM);
    SNLS_REQUIRE(s->ctx, snls_model_stream_delay(s->stream) <= SNLS_STAGE_HELD, SNLS_ERR_UNSUPPORTED, "denoise: this network holds %lld frames, must be %d at most",
                 (long long)snls_model_stream_delay(s->stream), (int)SNLS_STAGE_HELD);
    return SNLS_OK;
}

SnlsStatus snls_stage_open(SnlsStage *s, SnlsContext *ctx, const SnlsDenoiseParams *params, SnlsModel *model, bool lean,
                           int64_t height, int64_t width, int64_t channels)
{
    *s = (SnlsStage){ .ctx = ctx, .model = model, .height = height, .width = width, .channels = channels };
    if (model) return open_model(s, params, lean);
    return snls_denoiser_open(&s->denoiser, ctx, params, height, width, channels);
}

int64_t snls_stage_model_memory(SnlsModel *model, bool lean, int64_t height, int64_t width)
{
    const SnlsModelStreamParams p = { .height = height, .width = width, .lean = lean };
    const int64_t stream = snls_model_stream_memory(model, &p);
    return stream < 0 ? -1 : stream + (ROOM + 1) * height * width * 3 * (int64_t)sizeof(float);
}

SnlsStatus snls_stage_push(SnlsStage *s, const float *frame, bool cut)
{
    if (s->denoiser) return snls_denoiser_push(s->denoiser, frame, cut);
    SNLS_REQUIRE(s->ctx, s->count < ROOM, SNLS_ERR_ARG, "denoise: finished frames have not been pulled");
    s->cut[s->count] = cut;
    memcpy(waiting(s, s->count++), frame, (size_t)frame_floats(s) * sizeof *frame);
    return SNLS_OK;
}

/* Estimates the noise from the first frames of each period of a scene, which a resumed run begins on too. SNLS_END: more of them are to come. */
static SnlsStatus find_sigma(SnlsStage *s)
{
    int64_t sample = 1;
    if (s->sigma[0] >= 0) return SNLS_OK;
    while (sample < s->count && sample < SAMPLE && !s->cut[sample]) sample++;
    if (!s->count || (sample == s->count && sample < SAMPLE && !s->ending)) return SNLS_END;
    SNLS_TRY(snls_noise_level(s->ctx, s->window, sample, s->height, s->width, s->channels, s->sigma));
    for (int c = 0; c < 3; c++) s->sigma[c] = fmin(s->sigma[0], 255);
    return SNLS_OK;
}

static bool finds_none(const SnlsStage *s) { return s->estimates && s->sigma[0] < SNLS_NO_NOISE; }

/* Networks are told one number for the noise: the mean over the channels. A grey frame goes in as three equal channels: their noise is equal too, so their mean has as
 * much of it as that of three channels with noise of their own has where each has sqrt(3) times as much, which is what networks know. */
static SnlsStatus push_first(SnlsStage *s)
{
    const double sigma = finds_none(s) ? 0 : s->sigma[0];
    s->told[s->pushed % SNLS_STAGE_HELD] = sigma;
    if (s->channels == 3) return snls_model_stream_push(s->stream, s->window, s->estimates ? sigma : (s->sigma[0] + s->sigma[1] + s->sigma[2]) / 3);
    for (int64_t i = 0; i < 3 * s->height * s->width; i++) s->colour[i] = s->window[i / 3];
    return snls_model_stream_push(s->stream, s->colour, sigma > 255 ? sigma : fmin(sqrt(3) * sigma, 255)); /* which refuses the first */
}

static SnlsStatus pull_stream(SnlsStage *s, float *frame)
{
    const SnlsStatus status = snls_model_stream_pull(s->stream, s->channels == 3 ? frame : s->colour);
    for (int64_t i = 0; status == SNLS_OK && s->channels == 1 && i < s->height * s->width; i++) frame[i] = (s->colour[3 * i] + s->colour[3 * i + 1] + s->colour[3 * i + 2]) / 3;
    s->pulled += status == SNLS_OK;
    return status;
}

/* Frames without noise tell nothing of those behind them either. */
static void forget_sigma(SnlsStage *s)
{
    if (s->estimates && (s->number % SNLS_MODEL_PERIOD == 0 || finds_none(s))) s->sigma[0] = -1;
}

/* The first frame that waits goes to the network; a scene cut before it ends the scene there. */
static SnlsStatus feed(SnlsStage *s)
{
    const bool scene_ends = s->count ? s->cut[0] && s->in_scene : s->in_scene;
    if (scene_ends) {
        s->in_scene = false;
        s->number = 0;
        forget_sigma(s);
        return snls_model_stream_finish(s->stream);
    }
    const SnlsStatus known = find_sigma(s);
    if (known != SNLS_OK) return known;
    SNLS_TRY(push_first(s));
    s->in_scene = true;
    s->number++;
    s->pushed++;
    forget_sigma(s);
    s->count--;
    memmove(s->window, waiting(s, 1), (size_t)(s->count * frame_floats(s)) * sizeof *s->window);
    memmove(s->cut, s->cut + 1, (size_t)s->count * sizeof *s->cut);
    return SNLS_OK;
}

SnlsStatus snls_stage_pull(SnlsStage *s, float *frame)
{
    if (s->denoiser) return snls_denoiser_pull(s->denoiser, frame);
    for (;;) {
        const SnlsStatus status = pull_stream(s, frame);
        if (status != SNLS_END || !(s->count || (s->ending && s->in_scene))) return status;
        const SnlsStatus fed = feed(s);
        if (fed != SNLS_OK) return fed;
    }
}

SnlsStatus snls_stage_finish(SnlsStage *s)
{
    if (s->denoiser) return snls_denoiser_finish(s->denoiser);
    s->ending = true;
    return SNLS_OK;
}

int64_t snls_stage_delay(const SnlsStage *s)
{
    return s->denoiser ? snls_denoiser_delay(s->denoiser) : snls_model_stream_delay(s->stream) + ROOM;
}

int64_t snls_stage_period(const SnlsStage *s) { return s->denoiser ? SNLS_DENOISE_PERIOD : SNLS_MODEL_PERIOD; }

static double told_last(const SnlsStage *s) { return s->told[(s->pulled - 1) % SNLS_STAGE_HELD]; }

bool snls_stage_quiet(const SnlsStage *s) { return s->estimates && s->pulled && told_last(s) == 0; }

void snls_stage_noise(const SnlsStage *s, double noise[SNLS_NOISE])
{
    if (s->denoiser) {
        snls_denoiser_sigma(s->denoiser, noise);
        snls_denoiser_noise(s->denoiser, noise + 3);
    } else
        for (int i = 0; i < SNLS_NOISE; i++) noise[i] = s->estimates && s->pulled ? told_last(s) : s->sigma[i % 3];
}

bool snls_stage_flow(const SnlsStage *s, float *flow)
{
    return s->denoiser && snls_denoiser_flow(s->denoiser, flow) == SNLS_OK;
}

void snls_stage_close(SnlsStage *s)
{
    snls_denoiser_close(&s->denoiser);
    snls_model_stream_close(&s->stream);
    if (s->ctx) snls_mem_free(&s->ctx->allocator, s->window);
    *s = (SnlsStage){ 0 };
}
