/* train_gpu.c: training on a device. The first steps are plain launches, which make plans and take memory; then a step is captured once
 * and launched as one graph. */
#include "model/train.h"
#include "nn/device.h"

enum { PLAIN_STEPS = 2 };

static SnlsStatus take(SnlsTrainer *t, int64_t bytes, void **block)
{
    TrainGpu *g = &t->gpu;
    SNLS_REQUIRE(t->ctx, g->block_count < (int32_t)(sizeof g->blocks / sizeof *g->blocks), SNLS_ERR_ARG, "train: too many blocks");
    SNLS_TRY(snls_device_alloc(t->ctx, block, bytes));
    g->blocks[g->block_count++] = *block;
    return SNLS_OK;
}

static SnlsStatus send_decay(SnlsTrainer *t, void *to)
{
    uint8_t *flags = snls_mem_alloc(&t->ctx->allocator, t->params.total);
    SNLS_REQUIRE(t->ctx, flags, SNLS_ERR_MEMORY, "train: no memory for %lld bytes", (long long)t->params.total);
    for (int64_t i = 0; i < t->params.count; i++)
        for (int64_t k = 0; k < t->params.list[i].count; k++) flags[t->params.list[i].offset + k] = (uint8_t)(t->params.list[i].decay != 0);
    const SnlsStatus status = snls_device_copy(t->ctx, to, flags, t->params.total, SNLS_COPY_TO_DEVICE);
    snls_mem_free(&t->ctx->allocator, flags);
    return status;
}

static SnlsStatus take_blocks(SnlsTrainer *t)
{
    TrainState *s = &t->gpu.state;
    const int64_t floats = (int64_t)sizeof(float), total = t->params.total * floats, pixels = (int64_t)t->p.batch * t->p.frames * t->p.crop * t->p.crop * 3 * floats;
    void *decay = NULL;
    SNLS_TRY(take(t, total, (void **)&s->weights.m));
    SNLS_TRY(take(t, total, (void **)&s->weights.v));
    SNLS_TRY(take(t, total, (void **)&s->weights.e));
    SNLS_TRY(take(t, pixels, (void **)&s->clean));
    SNLS_TRY(take(t, pixels, (void **)&s->noisy));
    SNLS_TRY(take(t, (int64_t)sizeof *s->step, (void **)&s->step));
    SNLS_TRY(take(t, TRAIN_NUMBERS * (int64_t)sizeof(double), (void **)&s->numbers));
    SNLS_TRY(take(t, TRAIN_PARTS * TRAIN_NUMBERS * (int64_t)sizeof(double), (void **)&s->parts));
    SNLS_TRY(take(t, t->params.total, &decay));
    s->decay = decay;
    return send_decay(t, decay);
}

SnlsStatus snls_train_gpu_open(SnlsTrainer *t)
{
    const NnCuda *cuda = NULL;
    TrainGpu *g = &t->gpu;
    SNLS_TRY(snls_nn_load_cuda(t->ctx, &cuda));
    g->device = cuda->train;
    g->stream_before = t->ctx->stream;
    SNLS_TRY(g->device->stream_open(t->ctx, &g->stream));
    SNLS_TRY(snls_device_set_stream(t->ctx, g->stream));
    SNLS_TRY(take_blocks(t));
    TrainState *s = &g->state;
    const NnValue *in = &t->net.values[t->ends.in], *out = &t->net.values[t->ends.out];
    s->p = t->p, s->in = in->t, s->out = out->t, s->d_out = out->grad;
    s->weights.w = t->params.device_value, s->weights.g = t->params.device_grad;
    s->total = t->params.total;
    return snls_train_gpu_send(t);
}

void snls_train_gpu_close(SnlsTrainer *t)
{
    TrainGpu *g = &t->gpu;
    if (!g->device) return;
    (void)snls_device_wait(t->ctx);
    g->device->graph_close(g->graph);
    for (int32_t i = 0; i < g->block_count; i++) snls_device_free(t->ctx, g->blocks[i]);
    snls_device_free(t->ctx, g->clips);
    (void)snls_device_set_stream(t->ctx, g->stream_before);
    g->device->stream_close(g->stream);
    *g = (TrainGpu){ 0 };
}

/* ---- what both sides hold ---- */

static SnlsStatus copy_state(SnlsTrainer *t, int32_t direction)
{
    const TrainWeights *w = &t->gpu.state.weights;
    float *const there[4] = { w->w, w->m, w->v, w->e }, *const here[4] = { t->params.value, t->state[0], t->state[1], t->state[2] };
    for (int i = 0; i < 4; i++) {
        const bool to = direction == SNLS_COPY_TO_DEVICE;
        SNLS_TRY(snls_device_copy(t->ctx, to ? there[i] : here[i], to ? here[i] : there[i], t->params.total * (int64_t)sizeof(float), direction));
    }
    return SNLS_OK;
}

SnlsStatus snls_train_gpu_send(SnlsTrainer *t)
{
    if (!t->gpu.device) return SNLS_OK;
    SNLS_TRY(copy_state(t, SNLS_COPY_TO_DEVICE));
    return snls_device_copy(t->ctx, t->gpu.state.step, &t->step, (int64_t)sizeof t->step, SNLS_COPY_TO_DEVICE);
}

SnlsStatus snls_train_gpu_fetch(SnlsTrainer *t) { return t->gpu.device ? copy_state(t, SNLS_COPY_FROM_DEVICE) : SNLS_OK; }

SnlsStatus snls_train_gpu_change(SnlsTrainer *t)
{
    TrainGpu *g = &t->gpu;
    if (!g->device) return SNLS_OK;
    SNLS_TRY(snls_device_wait(t->ctx));
    g->device->graph_close(g->graph); /* it knows the old ones */
    g->graph = NULL;
    g->state.p = t->p;
    return SNLS_OK;
}

static SnlsStatus send_clips(SnlsTrainer *t)
{
    TrainGpu *g = &t->gpu;
    const int64_t bytes = t->clip_count * (int64_t)sizeof *t->clips;
    if (g->clips_sent == t->clip_count) return SNLS_OK;
    SNLS_TRY(snls_device_wait(t->ctx));
    g->device->graph_close(g->graph); /* it knows the old list */
    g->graph = NULL;
    snls_device_free(t->ctx, g->clips);
    g->clips = NULL;
    SNLS_TRY(snls_device_alloc(t->ctx, (void **)&g->clips, bytes));
    SNLS_TRY(snls_device_copy(t->ctx, g->clips, t->clips, bytes, SNLS_COPY_TO_DEVICE));
    g->state.clips = g->clips, g->state.clip_count = g->clips_sent = t->clip_count;
    return SNLS_OK;
}

/* ---- steps ---- */

static SnlsStatus plain_step(SnlsTrainer *t)
{
    const TrainGpu *g = &t->gpu;
    t->params.version++; /* so that weights are packed anew */
    SNLS_TRY(g->device->batch(t->ctx, &g->state));
    SNLS_TRY(snls_nn_forward(&t->net));
    SNLS_TRY(snls_nn_zero_grad(&t->net));
    SNLS_TRY(t->net.backend->clear(t->ctx, t->params.device_grad, t->params.total * (int64_t)sizeof(float)));
    SNLS_TRY(g->device->judge(t->ctx, &g->state));
    SNLS_TRY(snls_nn_backward(&t->net));
    return g->device->update(t->ctx, &g->state);
}

static SnlsStatus capture(SnlsTrainer *t)
{
    TrainGpu *g = &t->gpu;
    SNLS_TRY(g->device->capture_begin(t->ctx));
    const SnlsStatus status = plain_step(t), ended = g->device->capture_end(t->ctx, &g->graph);
    if (status >= 0 && ended >= 0) return SNLS_OK;
    g->device->graph_close(g->graph);
    g->graph = NULL;
    return status < 0 ? status : ended;
}

SnlsStatus snls_train_gpu_step(SnlsTrainer *t, SnlsTrainReport *report)
{
    TrainGpu *g = &t->gpu;
    double numbers[TRAIN_NUMBERS];
    SNLS_TRY(send_clips(t));
    if (g->plain >= PLAIN_STEPS && !g->graph) SNLS_TRY(capture(t));
    SNLS_TRY(g->graph ? g->device->launch(t->ctx, g->graph) : plain_step(t));
    g->plain++;
    t->step++;
    if (!report) return SNLS_OK;
    SNLS_TRY(snls_device_copy(t->ctx, numbers, g->state.numbers, (int64_t)sizeof numbers, SNLS_COPY_FROM_DEVICE));
    numbers[TRAIN_NORM] = sqrt(numbers[TRAIN_NORM]);
    return snls_train_report(t, t->step, numbers, report);
}
