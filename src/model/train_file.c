/* train_file.c: checkpoints, which hold a run to the last bit, and exported weights. Both are safetensors. */
#include "model/train.h"
#include "base/number.h"
#include <math.h>
#include <snls/safetensors.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT = 48, OPTIONS = 32, STATES = 4, SQUARES = 2 };
static const char *const state_names[STATES] = { "weights", "gradient_mean", "square_mean", "weights_mean" };
#define CHECKPOINT "stan-s checkpoint"

static SnlsTensor flat(const SnlsTrainer *t, int i)
{
    void *const blocks[STATES] = { t->params.value, t->state[0], t->state[1], t->state[2] };
    return snls_tensor(blocks[i], SNLS_F32, 1, &t->params.total);
}

/* What no training could go on with, and no network could use, is not written: the file that is there stays. */
static SnlsStatus require_sound(SnlsTrainer *t, const char *path, const SnlsNamedTensor *list, int64_t tensors)
{
    for (int64_t n = 0; n < tensors; n++)
        for (int64_t i = 0; i < snls_tensor_elements(&list[n].tensor); i++)
            SNLS_REQUIRE(t->ctx, isfinite(snls_load(&list[n].tensor, i)), SNLS_ERR_ARG, "%.200s: not written, since number %lld of %.80s is not finite%s", path, (long long)i, list[n].name,
                         list[n].tensor.dtype == SNLS_F16 ? " in f16; store f32 has the range" : "; a smaller rate may help");
    return SNLS_OK;
}

static bool holds_key(const char *const *pair, int64_t count, const char *key)
{
    for (int64_t i = 0; i < count; i++)
        if (pair[2 * i] && !strcmp(pair[2 * i], key)) return true;
    return false;
}

/* Writes own pairs of metadata and, behind them, those of the history and count more, which replace those of the history. */
static SnlsStatus write_file(SnlsTrainer *t, const char *path, const char *const *own, int64_t own_count, const char *const *more, int64_t count, SnlsNamedTensor *list, int64_t tensors)
{
    SNLS_TRY(require_sound(t, path, list, tensors));
    const struct { const char *const *pair; int64_t count; } parts[] = { { own, own_count }, { (const char *const *)t->history.pair, t->history.count }, { more, count } };
    const char **metadata = snls_mem_alloc(&t->ctx->allocator, 2 * (own_count + t->history.count + count) * (int64_t)sizeof *metadata);
    int64_t texts = 0;
    SNLS_REQUIRE(t->ctx, metadata, SNLS_ERR_MEMORY, "train: no memory for metadata");
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        for (int64_t k = 0; k < parts[i].count; k++) {
            if (parts[i].pair == (const char *const *)t->history.pair && holds_key(more, count, parts[i].pair[2 * k])) continue;
            metadata[texts++] = parts[i].pair[2 * k];
            metadata[texts++] = parts[i].pair[2 * k + 1];
        }
    const SnlsStatus status = snls_safetensors_write(t->ctx, path, &(SnlsSafetensors){ list, tensors, metadata, texts / 2, NULL });
    snls_mem_free(&t->ctx->allocator, (void *)metadata);
    return status;
}

static uint64_t mix_text(uint64_t h, const SnlsSafetensors *file, const char *key)
{
    const char *text = snls_safetensors_metadata(file, key);
    return text ? snls_train_mix(h, text, (int64_t)strlen(text)) : h;
}

/* Of all that the rest of the run depends on. */
static void checksum_text(const SnlsSafetensors *file, char text[TEXT])
{
    uint64_t h = mix_text(mix_text(1, file, "step"), file, "clips");
    for (const SnlsOption *o = snls_train_options(); o->name; o++) h = mix_text(h, file, o->name);
    for (int i = 0; i < STATES; i++) {
        const SnlsTensor *t = snls_safetensors_find(file, state_names[i]);
        h = snls_train_mix(h, t->data, (int64_t)sizeof(float) * t->shape[0]);
    }
    snprintf(text, TEXT, "%016llx", (unsigned long long)h);
}

SnlsStatus snls_trainer_save(SnlsTrainer *t, const char *path)
{
    SnlsNamedTensor list[STATES];
    char text[OPTIONS][TEXT], clips[TRAIN_CLIPS_TEXT], place[TRAIN_PLACE_TEXT];
    const char *metadata[2 * OPTIONS];
    int64_t pairs = 3;
    if (!t) return SNLS_ERR_ARG;
    SNLS_TRY(snls_train_gpu_fetch(t));
    metadata[0] = "architecture", metadata[1] = CHECKPOINT;
    metadata[2] = "step", metadata[3] = text[1];
    snprintf(text[1], TEXT, "%lld", (long long)t->step);
    metadata[4] = "place", metadata[5] = place;
    snls_train_place_text(t, place);
    snls_train_clips_text(t, clips);
    if (*clips) metadata[2 * pairs] = "clips", metadata[2 * pairs + 1] = clips, pairs++;
    for (const SnlsOption *o = snls_train_options(); o->name && pairs < OPTIONS - 1; o++, pairs++) {
        if (o->type == SNLS_OPTION_REAL) snls_number_text(text[pairs], TEXT, "%.17g", *(const double *)(const void *)((const char *)&t->p + o->offset));
        else snls_option_format(o, &t->p, text[pairs], TEXT);
        metadata[2 * pairs] = o->name, metadata[2 * pairs + 1] = text[pairs];
    }
    for (int i = 0; i < STATES; i++) list[i] = (SnlsNamedTensor){ state_names[i], flat(t, i) };
    checksum_text(&(SnlsSafetensors){ list, STATES, metadata, pairs, NULL }, text[0]);
    metadata[2 * pairs] = "checksum", metadata[2 * pairs + 1] = text[0], pairs++;
    return write_file(t, path, metadata, pairs, NULL, 0, list, STATES);
}

static SnlsStatus read_params(SnlsContext *ctx, const char *path, const SnlsSafetensors *file, SnlsTrainParams *p)
{
    const char *kind = snls_safetensors_metadata(file, "architecture");
    SNLS_REQUIRE(ctx, kind && !strcmp(kind, CHECKPOINT), SNLS_ERR_FORMAT, "%.200s: is no checkpoint of a training", path);
    snls_train_defaults(p);
    for (const SnlsOption *o = snls_train_options(); o->name; o++) {
        char why[160];
        const char *text = snls_safetensors_metadata(file, o->name);
        SNLS_REQUIRE(ctx, text, SNLS_ERR_FORMAT, "%.200s: the checkpoint does not tell %s", path, o->name);
        SNLS_REQUIRE(ctx, snls_option_parse(o, p, text, why, sizeof why) >= 0, SNLS_ERR_FORMAT, "%.200s: %s %s", path, o->name, why);
    }
    if (snls_train_check(ctx, p) < 0) { /* it is the file that is wrong */
        char why[160];
        snprintf(why, sizeof why, "%s", snls_error(ctx));
        return snls_fail(ctx, SNLS_ERR_FORMAT, "%.200s: %s", path, why);
    }
    return SNLS_OK;
}

/* How many numbers a network of these options has; known without memory for them. */
static SnlsStatus count_parameters(SnlsContext *ctx, const SnlsTrainParams *p, int64_t *total)
{
    enum { SMALL = 8 }; /* a size that can be built */
    NnParams params = { .dtype = SNLS_F32 };
    NnNet net;
    snls_nn_begin(&net, ctx, &params, SNLS_F32, false);
    snls_stan_s_build(&net, &(StanSConfig){ p->width, p->blocks, p->ws, p->wt }, &(StanShape){ 1, 2 * p->wt + 1, SMALL, SMALL });
    const SnlsStatus status = net.status;
    *total = params.total;
    snls_nn_free(&net);
    snls_nn_params_free(ctx, &params);
    return status;
}

/* One number that is not finite (in f32, which weights are) would be in every weight a step later; so would the root of a negative one of the means of squares. */
static SnlsStatus require_finite(SnlsContext *ctx, const char *path, const char *name, const SnlsTensor *list, bool squares)
{
    for (int64_t i = 0; i < snls_tensor_elements(list); i++) {
        const double x = (double)(float)snls_load(list, i);
        SNLS_REQUIRE(ctx, isfinite(x) && !(squares && x < 0), SNLS_ERR_FORMAT, "%.200s: number %lld of %s is %g, must %s", path, (long long)i, name, x, isfinite(x) ? "not be negative" : "be finite");
    }
    return SNLS_OK;
}

/* Before memory is taken for what a few bytes of metadata may ask for. */
static SnlsStatus check_state(SnlsContext *ctx, const char *path, const SnlsSafetensors *file, const SnlsTrainParams *p)
{
    int64_t total;
    SNLS_TRY(count_parameters(ctx, p, &total));
    for (int i = 0; i < STATES; i++) {
        const SnlsTensor *from = snls_safetensors_find(file, state_names[i]);
        SNLS_REQUIRE(ctx, from && from->dtype == SNLS_F32 && from->ndim == 1, SNLS_ERR_FORMAT, "%.200s: %s is missing or no list of numbers in f32", path, state_names[i]);
        SNLS_REQUIRE(ctx, from->shape[0] == total, SNLS_ERR_FORMAT, "%.200s: %s has %lld numbers, a network of its options has %lld", path, state_names[i], (long long)from->shape[0], (long long)total);
        SNLS_TRY(require_finite(ctx, path, state_names[i], from, i == SQUARES));
    }
    return SNLS_OK;
}

static SnlsStatus read_state(SnlsTrainer *t, const char *path, const SnlsSafetensors *file)
{
    const char *step = snls_safetensors_metadata(file, "step"), *then = snls_safetensors_metadata(file, "checksum");
    char *end = NULL, now[TEXT];
    t->step = step ? strtoll(step, &end, 10) : -1;
    SNLS_REQUIRE(t->ctx, t->step >= 0 && end > step && !*end && t->step <= t->p.steps, SNLS_ERR_FORMAT, "%.200s: the checkpoint does not tell its step, a number from 0 to %d", path, (int)t->p.steps);
    checksum_text(file, now);
    SNLS_REQUIRE(t->ctx, !then || !strcmp(then, now), SNLS_ERR_FORMAT, "%.200s: the checkpoint's checksum is %.32s, that of its content %s: it was changed or is damaged", path, then, now);
    for (int i = 0; i < STATES; i++) {
        const SnlsTensor *from = snls_safetensors_find(file, state_names[i]), to = flat(t, i);
        memcpy(to.data, from->data, sizeof(float) * (size_t)to.shape[0]);
    }
    t->params.version++;
    return snls_train_gpu_send(t);
}

SnlsStatus snls_trainer_resume(SnlsTrainer **out, SnlsContext *ctx, const char *path)
{
    SnlsSafetensors file;
    SnlsTrainParams p;
    if (!ctx) return SNLS_ERR_ARG;
    SNLS_REQUIRE(ctx, out, SNLS_ERR_ARG, "trainer_resume: out is NULL");
    *out = NULL;
    SNLS_TRY(snls_safetensors_read(ctx, path, &file));
    SnlsStatus status = read_params(ctx, path, &file, &p);
    if (status >= 0) status = check_state(ctx, path, &file, &p);
    if (status >= 0) status = snls_trainer_open(out, ctx, &p);
    if (status >= 0) status = read_state(*out, path, &file);
    if (status >= 0) status = snls_train_history_read(*out, &file);
    snls_safetensors_free(ctx, &file);
    if (status < 0) snls_trainer_close(out);
    return status;
}

/* ---- weights of a network ---- */

/* All of them, and nothing else: the first blocks of a deeper network would be another one. */
static SnlsStatus check_weights(SnlsTrainer *t, const char *path, const SnlsSafetensors *file)
{
    const char *kind = snls_safetensors_metadata(file, "architecture");
    SNLS_REQUIRE(t->ctx, kind && !strcmp(kind, "stan-s"), SNLS_ERR_FORMAT, "%.200s: holds no weights of stan-s", path);
    for (int64_t i = 0; i < t->params.count; i++) {
        const NnParam *p = &t->params.list[i];
        const SnlsTensor *from = snls_safetensors_find(file, p->name);
        bool same = from && snls_is_float(from->dtype) && from->ndim == p->ndim;
        for (int32_t k = 0; same && k < p->ndim; k++) same = from->shape[k] == p->shape[k];
        SNLS_REQUIRE(t->ctx, same, SNLS_ERR_FORMAT, "%.200s: %s is missing or does not fit the network", path, p->name);
        SNLS_TRY(require_finite(t->ctx, path, p->name, from, false));
    }
    SNLS_REQUIRE(t->ctx, file->count == t->params.count, SNLS_ERR_FORMAT, "%.200s: there are %lld tensors, a network of these options has %lld", path, (long long)file->count, (long long)t->params.count);
    return SNLS_OK;
}

static SnlsStatus take_weights(SnlsTrainer *t, const char *path, const SnlsSafetensors *file)
{
    SNLS_TRY(check_weights(t, path, file));
    for (int64_t i = 0; i < t->params.count; i++) {
        const NnParam *p = &t->params.list[i];
        const SnlsTensor *from = snls_safetensors_find(file, p->name), to = snls_nn_param_view(&t->params, p, t->params.value);
        for (int64_t k = 0; k < p->count; k++) snls_store(&to, k, snls_load(from, k));
    }
    memcpy(t->state[2], t->params.value, sizeof(float) * (size_t)t->params.total);
    t->params.version++;
    return snls_train_gpu_send(t);
}

SnlsStatus snls_trainer_load(SnlsTrainer *t, const char *path)
{
    SnlsSafetensors file;
    if (!t) return SNLS_ERR_ARG;
    SNLS_REQUIRE(t->ctx, path, SNLS_ERR_ARG, "train: path is NULL");
    SNLS_TRY(snls_safetensors_read(t->ctx, path, &file));
    const SnlsStatus status = take_weights(t, path, &file);
    snls_safetensors_free(t->ctx, &file);
    return status;
}

/* The mean weights in f16: room is for all of them. */
static void halve(const SnlsTrainer *t, uint16_t *room)
{
    const SnlsTensor to = snls_tensor(room, SNLS_F16, 1, &t->params.total);
    for (int64_t i = 0; i < t->params.total; i++) snls_store(&to, i, t->state[2][i]);
}

/* The mean weights, as views in list, of the type that files are to have; room is for all of them in f16. */
static void list_weights(const SnlsTrainer *t, SnlsNamedTensor *list, uint16_t *room)
{
    NnParams view = t->params; /* where each parameter lies in a block of another type */
    view.dtype = t->p.store == SNLS_STORE_F16 ? SNLS_F16 : SNLS_F32;
    if (t->p.store == SNLS_STORE_F16) halve(t, room);
    for (int64_t i = 0; i < t->params.count; i++)
        list[i] = (SnlsNamedTensor){ t->params.list[i].name, snls_nn_param_view(&view, &t->params.list[i], t->p.store == SNLS_STORE_F16 ? (void *)room : t->state[2]) };
}

SnlsStatus snls_trainer_export(SnlsTrainer *t, const char *path, const char *const *more, int64_t count)
{
    enum { OWN = 6, MORE = 32 };
    const char *metadata[2 * OWN];
    char text[OWN][TEXT];
    if (!t) return SNLS_ERR_ARG;
    SNLS_TRY(snls_train_gpu_fetch(t));
    SNLS_REQUIRE(t->ctx, more || count <= 0, SNLS_ERR_ARG, "train: metadata is NULL, there are %lld texts", (long long)count);
    SNLS_REQUIRE(t->ctx, count >= 0 && count <= MORE, SNLS_ERR_ARG, "train: %lld texts, must be 0 to %d", (long long)count, MORE);
    const struct { const char *key; int64_t value; } own[OWN - 1] = { { "width", t->p.width }, { "blocks", t->p.blocks }, { "ws", t->p.ws }, { "wt", t->p.wt }, { "steps", t->step } };
    metadata[0] = "architecture", metadata[1] = "stan-s";
    for (int i = 1; i < OWN; i++) {
        snprintf(text[i], TEXT, "%lld", (long long)own[i - 1].value);
        metadata[2 * i] = own[i - 1].key, metadata[2 * i + 1] = text[i];
    }
    SnlsNamedTensor *list = snls_mem_alloc(&t->ctx->allocator, t->params.count * (int64_t)sizeof *list);
    uint16_t *room = snls_mem_alloc(&t->ctx->allocator, t->params.total * (int64_t)sizeof *room);
    if (list && room) list_weights(t, list, room);
    const SnlsStatus status = list && room ? write_file(t, path, metadata, OWN, more, count, list, t->params.count) : snls_fail(t->ctx, SNLS_ERR_MEMORY, "train: no memory for a list");
    snls_mem_free(&t->ctx->allocator, list);
    snls_mem_free(&t->ctx->allocator, room);
    return status;
}
