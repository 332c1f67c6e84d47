/* train_history.c: what a run was made by: the commands that started it and made it go on, and which clips it has. */
#include "model/train.h"
#include "base/utf8.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- commands ---- */

enum { KEY = 32 };

static char *copy_text(SnlsTrainer *t, const char *text)
{
    char *copy = snls_mem_alloc(&t->ctx->allocator, (int64_t)strlen(text) + 1);
    return copy ? strcpy(copy, text) : NULL;
}

static SnlsStatus add_pair(SnlsTrainer *t, const char *key, const char *text)
{
    TrainHistory *h = &t->history;
    char **more = snls_mem_alloc(&t->ctx->allocator, 2 * (h->count + 1) * (int64_t)sizeof *more);
    char *pair[2] = { copy_text(t, key), copy_text(t, text) };
    if (!more || !pair[0] || !pair[1]) {
        snls_mem_free(&t->ctx->allocator, (void *)more);
        for (int i = 0; i < 2; i++) snls_mem_free(&t->ctx->allocator, pair[i]);
        return snls_fail(t->ctx, SNLS_ERR_MEMORY, "train: no memory for the run's history");
    }
    if (h->count) memcpy(more, h->pair, 2 * (size_t)h->count * sizeof *more);
    memcpy(more + 2 * h->count++, pair, sizeof pair);
    snls_mem_free(&t->ctx->allocator, (void *)h->pair);
    h->pair = more;
    return SNLS_OK;
}

static bool has_command(const TrainHistory *h) { return h->count && !strcmp(h->pair[0], "command"); }

static void resume_key(char key[KEY], int64_t number) { snprintf(key, KEY, "resume %lld", (long long)number); }

SnlsStatus snls_trainer_command(SnlsTrainer *t, const char *command)
{
    if (!t) return SNLS_ERR_ARG;
    SNLS_REQUIRE(t->ctx, command, SNLS_ERR_ARG, "trainer_command: command is NULL");
    SNLS_REQUIRE(t->ctx, snls_is_utf8(command), SNLS_ERR_ARG, "trainer_command: command is no UTF-8, which checkpoints hold");
    const TrainHistory *h = &t->history;
    if (!h->resumed && !h->count) return add_pair(t, "command", command);
    const size_t room = strlen(command) + 48;
    char key[KEY], *text = snls_mem_alloc(&t->ctx->allocator, (int64_t)room);
    SNLS_REQUIRE(t->ctx, text, SNLS_ERR_MEMORY, "train: no memory for the run's history");
    snprintf(text, room, "from step %lld: %s", (long long)t->step, command);
    resume_key(key, h->count - has_command(h) + 1);
    const SnlsStatus status = add_pair(t, key, text);
    snls_mem_free(&t->ctx->allocator, text);
    return status;
}

SnlsStatus snls_train_history_read(SnlsTrainer *t, const SnlsSafetensors *file)
{
    TrainHistory *h = &t->history;
    const char *clips = snls_safetensors_metadata(file, "clips"), *place = snls_safetensors_metadata(file, "place"), *text = snls_safetensors_metadata(file, "command");
    char key[KEY];
    h->resumed = true;
    snprintf(h->clips_were, sizeof h->clips_were, "%s", clips ? clips : "");
    snprintf(h->place_was, sizeof h->place_was, "%s", place ? place : "");
    if (text) SNLS_TRY(add_pair(t, "command", text));
    for (int64_t i = 1; resume_key(key, i), text = snls_safetensors_metadata(file, key); i++) SNLS_TRY(add_pair(t, key, text));
    return SNLS_OK;
}

void snls_train_history_free(SnlsTrainer *t)
{
    TrainHistory *h = &t->history;
    for (int64_t i = 0; i < 2 * h->count; i++) snls_mem_free(&t->ctx->allocator, h->pair[i]);
    snls_mem_free(&t->ctx->allocator, (void *)h->pair);
    *h = (TrainHistory){ 0 };
}

/* ---- clips ---- */

static uint64_t mix(uint64_t h, uint64_t word)
{
    h = (h ^ word) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 32;
}

uint64_t snls_train_mix(uint64_t h, const void *bytes, int64_t count)
{
    const char *from = bytes;
    uint64_t word = 0;
    for (int64_t i = 0; i + 8 <= count; i += 8) {
        memcpy(&word, from + i, 8);
        h = mix(h, word);
    }
    word = 0;
    memcpy(&word, from + count / 8 * 8, (size_t)(count % 8));
    return mix(h, word);
}

void snls_train_history_clip(SnlsTrainer *t, const TrainClip *clip, const uint8_t *pixels)
{
    const uint64_t h = mix(mix(mix(t->history.clips, (uint64_t)clip->frames), (uint64_t)clip->h), (uint64_t)clip->w);
    t->history.clips = snls_train_mix(h, pixels, clip->frames * clip->h * clip->w * 3);
}

void snls_train_clips_text(const SnlsTrainer *t, char text[TRAIN_CLIPS_TEXT])
{
    if (t->clip_count) snprintf(text, TRAIN_CLIPS_TEXT, "%lld %016llx", (long long)t->clip_count, (unsigned long long)t->history.clips);
    else snprintf(text, TRAIN_CLIPS_TEXT, "%s", t->history.clips_were);
}

SnlsStatus snls_trainer_same_clips(SnlsTrainer *t)
{
    char now[TRAIN_CLIPS_TEXT];
    if (!t) return SNLS_ERR_ARG;
    snls_train_clips_text(t, now); /* without clips the text of the checkpoint, so they are counted first */
    const char *then = t->history.clips_were;
    const long long count = strtoll(then, NULL, 10);
    if (!*then) return SNLS_OK;
    SNLS_REQUIRE(t->ctx, count == t->clip_count, SNLS_ERR_ARG, "train: the number of clips is %lld, but the run began with %lld", (long long)t->clip_count, count);
    SNLS_REQUIRE(t->ctx, !strcmp(now, then), SNLS_ERR_ARG, "train: the clips are not those that the run began with, or in another order");
    return SNLS_OK;
}

/* ---- place ---- */

void snls_train_place_text(const SnlsTrainer *t, char text[TRAIN_PLACE_TEXT])
{
    const char *name = snls_backend_name(t->ctx);
    if (snls_device_type(t->ctx) != SNLS_DEVICE_CPU) snprintf(text, TRAIN_PLACE_TEXT, "%s", name);
    else snprintf(text, TRAIN_PLACE_TEXT, "%s, --threads %d", name, (int)t->ctx->threads);
}

SnlsStatus snls_trainer_same_place(SnlsTrainer *t)
{
    char now[TRAIN_PLACE_TEXT];
    if (!t) return SNLS_ERR_ARG;
    const char *then = t->history.place_was;
    snls_train_place_text(t, now);
    SNLS_REQUIRE(t->ctx, !*then || !strcmp(now, then), SNLS_ERR_ARG, "train: the run was made by --backend %s and goes on by --backend %s: it may differ in the last bits", then, now);
    return SNLS_OK;
}
