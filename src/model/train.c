/* train.c: a trainer: opening, clips, steps. Batches, the optimiser, GPUs and files have files of their own. */
#include "base/options.h"
#include "model/model.h"
#include "model/train.h"
#include <string.h>

static const char *const loss_names[] = { "charbonnier", "l1", "mse", NULL };
static const char *const store_names[] = { "f32", "f16", NULL };
static const char *const precision_names[] = { "auto", "f32", "bf16", NULL };

/* clang-format off */
#define AT(field) offsetof(SnlsTrainParams, field)
#define INT(field, def, min, max, help) {#field, help, SNLS_OPTION_INT, AT(field), def, min, max, NULL}
#define REAL(field, def, min, max, help) {#field, help, SNLS_OPTION_REAL, AT(field), def, min, max, NULL}
static const SnlsOption table[] = {
    INT(width, 32, 1, 256, "channels of the upper level; 2 and 4 times as many below"),
    INT(blocks, 4, 0, 64, "blocks of the lowest level"),
    INT(ws, 13, 1, 255, "side of the search window, in pixels of the lowest level"),
    INT(wt, 2, 0, 2, "temporal radius of the search; 0: single frames"),
    INT(batch, 8, 1, 4096, "clips of a step"),
    INT(frames, 7, 1, 64, "frames of a clip"),
    INT(crop, 128, 8, 4096, "side of the part of the frames that is used, a multiple of 4"),
    INT(steps, 20000, 1, 2000000000, "steps of the whole run"),
    INT(warmup, 500, 0, 2000000000, "steps until the full learning rate"),
    {"loss", "what is made small", SNLS_OPTION_ENUM, AT(loss), SNLS_LOSS_CHARBONNIER, 0, 2, loss_names},
    INT(seed, 1, 0, 2147483647, "of every random choice"),
    {"precision", "of the values between layers; auto: bf16 on a GPU, f32 elsewhere", SNLS_OPTION_ENUM, AT(precision), SNLS_TRAIN_AUTO, 0, 2, precision_names},
    {"store", "element type of the weights that are written", SNLS_OPTION_ENUM, AT(store), SNLS_STORE_F32, 0, 1, store_names},
    REAL(rate, 4e-4, 0, 1, "learning rate"),
    {"rate-end", "learning rate at the end of its cosine", SNLS_OPTION_REAL, AT(rate_end), 1e-6, 0, 1, NULL},
    REAL(beta1, 0.9, 0, 0.999999, "AdamW: mean of the gradients"),
    REAL(beta2, 0.99, 0, 0.999999, "AdamW: mean of their squares"),
    REAL(decay, 1e-4, 0, 1, "AdamW: decay of the weights of convolutions"),
    REAL(clip, 1, 1e-9, 1e9, "largest norm of a gradient"),
    REAL(ema, 0.999, 0, 0.9999999, "mean of the weights that is exported"),
    {"sigma-low", "smallest standard deviation of the noise", SNLS_OPTION_REAL, AT(sigma_low), 0, 0, 255, NULL},
    {"sigma-high", "largest standard deviation of the noise", SNLS_OPTION_REAL, AT(sigma_high), 55, 0, 255, NULL},
    {NULL, NULL, 0, 0, 0, 0, 0, NULL}};
/* clang-format on */

const SnlsOption *snls_train_options(void) { return table; }

void snls_train_defaults(SnlsTrainParams *params)
{
    if (!params) return;
    *params = (SnlsTrainParams){ 0 };
    snls_options_default(table, params);
}

SnlsStatus snls_train_check(SnlsContext *ctx, const SnlsTrainParams *p)
{
    SNLS_TRY(snls_options_check(ctx, "train", table, p));
    SNLS_TRY(snls_reserved_check(ctx, "train", "snls_train_defaults", p->reserved, sizeof p->reserved / sizeof *p->reserved));
    SNLS_REQUIRE(ctx, p->crop % 4 == 0, SNLS_ERR_ARG, "train: crop is %d, must be a multiple of 4", (int)p->crop);
    SNLS_REQUIRE(ctx, p->frames >= 2 * p->wt + 1, SNLS_ERR_ARG, "train: frames is %d, must be at least 2*wt+1, which is %d", (int)p->frames, (int)(2 * p->wt + 1));
    SNLS_REQUIRE(ctx, p->sigma_low <= p->sigma_high, SNLS_ERR_ARG, "train: sigma-low is %g, above sigma-high, which is %g", p->sigma_low, p->sigma_high);
    return SNLS_OK;
}

static SnlsStatus take(SnlsTrainer *t, void **block, int64_t count, int64_t size)
{
    *block = snls_mem_alloc(&t->ctx->allocator, count * size);
    SNLS_REQUIRE(t->ctx, *block, SNLS_ERR_MEMORY, "train: no memory for %lld bytes", (long long)(count * size));
    memset(*block, 0, (size_t)(count * size));
    return SNLS_OK;
}

static SnlsStatus build(SnlsTrainer *t)
{
    const StanSConfig c = { t->p.width, t->p.blocks, t->p.ws, t->p.wt };
    const bool gpu = snls_device_type(t->ctx) != SNLS_DEVICE_CPU;
    t->params.dtype = SNLS_F32;
    SNLS_REQUIRE(t->ctx, gpu || t->p.precision != SNLS_TRAIN_BF16, SNLS_ERR_UNSUPPORTED, "train: precision is bf16, must be auto or f32 on a CPU");
    snls_nn_begin(&t->net, t->ctx, &t->params, gpu && t->p.precision != SNLS_TRAIN_F32 ? SNLS_BF16 : SNLS_F32, true);
    t->ends = snls_stan_s_build(&t->net, &c, &(StanShape){ t->p.batch, t->p.frames, t->p.crop, t->p.crop });
    if (t->net.status >= 0) SNLS_TRY(snls_nn_params_allocate(t->ctx, &t->params, true));
    SNLS_TRY(snls_nn_commit(&t->net));
    snls_nn_params_init(&t->params, (uint64_t)t->p.seed);
    const int64_t pixels = (int64_t)t->p.batch * t->p.frames * t->p.crop * t->p.crop * 3;
    for (int i = 0; i < 3; i++) SNLS_TRY(take(t, (void **)&t->state[i], t->params.total, sizeof(float)));
    memcpy(t->state[2], t->params.value, sizeof(float) * (size_t)t->params.total);
    if (gpu) return snls_train_gpu_open(t);
    SNLS_TRY(take(t, (void **)&t->clean, pixels, sizeof(float)));
    return take(t, (void **)&t->noisy, pixels, sizeof(float));
}

SnlsStatus snls_trainer_open(SnlsTrainer **out, SnlsContext *ctx, const SnlsTrainParams *params)
{
    if (!ctx) return SNLS_ERR_ARG;
    SNLS_REQUIRE(ctx, out, SNLS_ERR_ARG, "trainer_open: out is NULL");
    *out = NULL;
    SNLS_REQUIRE(ctx, params, SNLS_ERR_ARG, "trainer_open: params is NULL");
    SNLS_TRY(snls_train_check(ctx, params));
    SnlsTrainer *t = snls_mem_alloc(&ctx->allocator, sizeof *t);
    SNLS_REQUIRE(ctx, t, SNLS_ERR_MEMORY, "train: no memory");
    *t = (SnlsTrainer){ .ctx = ctx, .p = *params };
    const SnlsStatus status = build(t);
    if (status < 0) snls_trainer_close(&t);
    *out = t;
    return status;
}

void snls_trainer_close(SnlsTrainer **trainer)
{
    if (!trainer || !*trainer) return;
    SnlsTrainer *t = *trainer;
    const SnlsAllocator allocator = t->ctx->allocator;
    snls_train_gpu_close(t);
    snls_train_history_free(t);
    snls_nn_free(&t->net);
    snls_nn_params_free(t->ctx, &t->params);
    for (int64_t i = 0; i < t->clip_count; i++) snls_device_free(t->ctx, t->clips[i].pixels);
    for (int i = 0; i < 3; i++) snls_mem_free(&allocator, t->state[i]);
    snls_mem_free(&allocator, t->clips);
    snls_mem_free(&allocator, t->clean);
    snls_mem_free(&allocator, t->noisy);
    snls_mem_free(&allocator, t);
    *trainer = NULL;
}

int64_t snls_trainer_done(const SnlsTrainer *t) { return t ? t->step : 0; }
int64_t snls_trainer_parameters(const SnlsTrainer *t) { return t ? t->params.total : 0; }

SnlsStatus snls_trainer_params(const SnlsTrainer *t, SnlsTrainParams *params)
{
    if (!t) return SNLS_ERR_ARG;
    SNLS_REQUIRE(t->ctx, params, SNLS_ERR_ARG, "trainer_params: params is NULL");
    *params = t->p;
    return SNLS_OK;
}

static size_t size_of(const SnlsOption *o) { return o->type == SNLS_OPTION_REAL ? sizeof(double) : sizeof(int32_t); }

/* What only says how long the run is, or what becomes of its weights. */
static bool may_change(const SnlsOption *o) { return o->offset == AT(steps) || o->offset == AT(store); }

SnlsStatus snls_trainer_change(SnlsTrainer *t, const SnlsTrainParams *params)
{
    if (!t) return SNLS_ERR_ARG;
    SNLS_REQUIRE(t->ctx, params, SNLS_ERR_ARG, "trainer_change: params is NULL");
    SNLS_TRY(snls_train_check(t->ctx, params));
    for (const SnlsOption *o = table; o->name; o++) {
        char now[48], then[48];
        if (may_change(o) || !memcmp((const char *)params + o->offset, (const char *)&t->p + o->offset, size_of(o))) continue;
        snls_option_format(o, params, now, sizeof now);
        snls_option_format(o, &t->p, then, sizeof then);
        return snls_fail(t->ctx, SNLS_ERR_ARG, "train: %s is %s, but the run began with %s", o->name, now, then);
    }
    SNLS_REQUIRE(t->ctx, params->steps >= t->step, SNLS_ERR_ARG, "train: steps is %d, but %lld are done", (int)params->steps, (long long)t->step);
    t->p = *params;
    return snls_train_gpu_change(t);
}

/* ---- clips ---- */

static SnlsStatus room_for_clip(SnlsTrainer *t)
{
    if (t->clip_count < t->clip_room) return SNLS_OK;
    const int64_t room = t->clip_room ? 2 * t->clip_room : 16;
    void *more = NULL;
    SNLS_TRY(take(t, &more, room, sizeof *t->clips));
    if (t->clip_count) memcpy(more, t->clips, sizeof *t->clips * (size_t)t->clip_count);
    snls_mem_free(&t->ctx->allocator, t->clips);
    t->clips = more;
    t->clip_room = room;
    return SNLS_OK;
}

static uint8_t rounded(float x) { return (uint8_t)(x > 0 ? x < 255 ? nearbyintf(x) : 255 : 0); }

/* Pixels as bytes where the network works: by way of this processor's memory where that is another. */
static SnlsStatus place_pixels(SnlsTrainer *t, const SnlsTensor *clip, TrainClip *c)
{
    const int64_t count = snls_tensor_elements(clip);
    const bool bytes = clip->dtype == SNLS_U8;
    uint8_t *plain = bytes ? clip->data : NULL;
    if (!bytes) SNLS_TRY(take(t, (void **)&plain, count, 1));
    for (int64_t i = 0; !bytes && i < count; i++) plain[i] = rounded(((const float *)clip->data)[i]);
    SnlsStatus status = snls_device_alloc(t->ctx, (void **)&c->pixels, count);
    if (status >= 0) status = snls_device_copy(t->ctx, c->pixels, plain, count, SNLS_COPY_TO_DEVICE);
    if (status >= 0) snls_train_history_clip(t, c, plain);
    if (!bytes) snls_mem_free(&t->ctx->allocator, plain);
    return status;
}

SnlsStatus snls_trainer_add_clip(SnlsTrainer *t, const SnlsTensor *clip)
{
    if (!t) return SNLS_ERR_ARG;
    SNLS_REQUIRE(t->ctx, !clip || clip->ndim != 4 || clip->shape[3] == 3, SNLS_ERR_SHAPE, "train: a clip has frames of %lld channel%s, must have 3", (long long)clip->shape[3], clip->shape[3] == 1 ? "" : "s");
    SNLS_REQUIRE(t->ctx, clip && clip->data && clip->ndim == 4 && clip->shape[3] == 3 && (clip->dtype == SNLS_F32 || clip->dtype == SNLS_U8), SNLS_ERR_SHAPE,
                 "train: a clip must be (T,H,W,3), f32 or u8");
    SNLS_REQUIRE(t->ctx, clip->device == SNLS_DEVICE_CPU, SNLS_ERR_SHAPE, "train: a clip is not in CPU memory");
    SNLS_REQUIRE(t->ctx, snls_tensor_elements(clip) >= 0, SNLS_ERR_SHAPE, "train: a clip of %lld frames of %lldx%lld is negative or larger than memory can be", (long long)clip->shape[0],
                 (long long)clip->shape[2], (long long)clip->shape[1]);
    SNLS_REQUIRE(t->ctx, snls_tensor_is_contiguous(clip), SNLS_ERR_SHAPE, "train: a clip must be contiguous");
    SNLS_REQUIRE(t->ctx, snls_tensor_is_aligned(clip), SNLS_ERR_ARG, "train: a clip is not aligned to its elements");
    SNLS_REQUIRE(t->ctx, clip->shape[0] >= t->p.frames && clip->shape[1] >= t->p.crop && clip->shape[2] >= t->p.crop, SNLS_ERR_SHAPE,
                 "train: a clip has %lld frames of %lldx%lld, must have at least %d of %dx%d", (long long)clip->shape[0], (long long)clip->shape[2], (long long)clip->shape[1],
                 (int)t->p.frames, (int)t->p.crop, (int)t->p.crop);
    SNLS_REQUIRE(t->ctx, clip->dtype == SNLS_U8 || snls_all_finite(clip->data, snls_tensor_elements(clip)), SNLS_ERR_ARG, "train: a clip holds a value that is not finite");
    SNLS_TRY(room_for_clip(t));
    TrainClip c = { NULL, clip->shape[0], clip->shape[1], clip->shape[2] };
    const SnlsStatus status = place_pixels(t, clip, &c);
    if (status < 0) snls_device_free(t->ctx, c.pixels);
    else t->clips[t->clip_count++] = c;
    return status;
}

/* ---- steps ---- */

/* Sums of loss, squared errors and squared noise; the gradient goes to the network's output. */
static void judge(SnlsTrainer *t, double *numbers)
{
    const float *out = t->net.values[t->ends.out].t.data;
    float *gradient = t->net.values[t->ends.out].grad.data;
    const int64_t count = snls_tensor_elements(&t->net.values[t->ends.out].t);
    numbers[TRAIN_LOSS] = numbers[TRAIN_SQUARE] = numbers[TRAIN_SQUARE_NOISY] = 0;
    for (int64_t i = 0; i < count; i++) {
        const double noise = ((double)t->noisy[i] - (double)t->clean[i]) / 255, error = noise + (double)out[i];
        const TrainTerm term = train_term(t->p.loss, error);
        numbers[TRAIN_LOSS] += term.loss, numbers[TRAIN_SQUARE] += error * error, numbers[TRAIN_SQUARE_NOISY] += noise * noise;
        gradient[i] = (float)(term.slope / (double)count);
    }
}

SnlsStatus snls_train_report(SnlsTrainer *t, int64_t step, const double *numbers, SnlsTrainReport *r)
{
    const double count = (double)snls_tensor_elements(&t->net.values[t->ends.out].t);
    *r = (SnlsTrainReport){ .step = step, .loss = numbers[TRAIN_LOSS] / count, .psnr = -10 * log10(numbers[TRAIN_SQUARE] / count),
                            .psnr_noisy = -10 * log10(numbers[TRAIN_SQUARE_NOISY] / count), .rate = numbers[TRAIN_RATE], .norm = numbers[TRAIN_NORM] };
    SNLS_REQUIRE(t->ctx, isfinite(r->loss), SNLS_ERR_ARG, "train: the loss of step %lld is not finite; a smaller rate may help", (long long)step);
    SNLS_REQUIRE(t->ctx, isfinite(r->norm), SNLS_ERR_ARG, "train: the gradient of step %lld is not finite; a smaller rate may help", (long long)step);
    return SNLS_OK;
}

static SnlsStatus step_here(SnlsTrainer *t, SnlsTrainReport *r)
{
    double numbers[TRAIN_NUMBERS] = { 0 };
    SNLS_TRY(snls_train_batch(t));
    SNLS_TRY(snls_nn_forward(&t->net));
    SNLS_TRY(snls_nn_zero_grad(&t->net));
    memset(t->params.grad, 0, sizeof(float) * (size_t)t->params.total);
    judge(t, numbers);
    SNLS_TRY(snls_nn_backward(&t->net));
    numbers[TRAIN_NORM] = snls_train_norm(&t->params);
    numbers[TRAIN_RATE] = train_rate(&t->p, t->step);
    SNLS_TRY(snls_train_report(t, t->step + 1, numbers, r));
    snls_train_update(t, numbers[TRAIN_NORM]);
    t->step++;
    return SNLS_OK;
}

SnlsStatus snls_trainer_step(SnlsTrainer *t, SnlsTrainReport *report)
{
    SnlsTrainReport r;
    if (!t) return SNLS_ERR_ARG;
    if (t->step >= t->p.steps) return SNLS_END;
    SNLS_REQUIRE(t->ctx, t->clip_count, SNLS_ERR_ARG, "train: no clip was added");
    if (t->gpu.device) return snls_train_gpu_step(t, report);
    SNLS_TRY(step_here(t, &r));
    if (report) *report = r;
    return SNLS_OK;
}
