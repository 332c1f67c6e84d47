/* train.h: what a trainer holds. */
#ifndef SNLS_TRAIN_PRIVATE_H
#define SNLS_TRAIN_PRIVATE_H

#include "model/stan.h"
#include "model/train_device.h"
#include "nn/nn.h"
#include <snls/safetensors.h>

typedef struct TrainGpu { /* the run on a device; device NULL: there is none */
    const TrainDevice *device;
    TrainState         state;
    TrainClip         *clips;       /* there */
    int64_t            clips_sent;
    void              *blocks[9];   /* memory there */
    int32_t            block_count;
    void              *stream, *stream_before, *graph;
    int64_t            plain;       /* steps that were done without the graph: they make plans and take memory */
} TrainGpu;

enum { TRAIN_CLIPS_TEXT = 48, TRAIN_PLACE_TEXT = 48 };

typedef struct TrainHistory { /* what made the run, since its beginning; checkpoints keep it */
    char  **pair;   /* key, text, key, text, ... */
    int64_t count;  /* pairs */
    bool    resumed;
    uint64_t clips; /* a number that depends on every pixel of the clips and their order */
    char    clips_were[TRAIN_CLIPS_TEXT]; /* those of the checkpoint, as snls_train_clips_text tells them; empty: not known */
    char    place_was[TRAIN_PLACE_TEXT];  /* where it was saved, as snls_train_place_text tells it; empty: not known */
} TrainHistory;

struct SnlsTrainer {
    SnlsContext    *ctx;
    SnlsTrainParams p;
    NnParams        params;
    NnNet           net;
    StanNet         ends;
    TrainClip      *clips;    /* pixels are where the network works */
    int64_t         clip_count, clip_room, step;
    float          *state[3]; /* AdamW's means of gradients and of their squares; the mean of the weights */
    float          *clean, *noisy; /* (batch*frames, crop, crop, 3), 0..255; on this processor */
    TrainGpu        gpu;
    TrainHistory    history;
};

/* train_batch.c: the clips of a step: crops, flips, time turned round, noise; fills clean, noisy and the network's input. */
SnlsStatus snls_train_batch(SnlsTrainer *t);

/* train_optimise.c */
double snls_train_norm(const NnParams *params);          /* of the gradient */
void   snls_train_update(SnlsTrainer *t, double norm);   /* AdamW with clipped gradients, then the mean of the weights */

/* train_gpu.c: the same on a device. */
SnlsStatus snls_train_gpu_open(SnlsTrainer *t);
void       snls_train_gpu_close(SnlsTrainer *t);
SnlsStatus snls_train_gpu_step(SnlsTrainer *t, SnlsTrainReport *report); /* report NULL: nothing is waited for */
SnlsStatus snls_train_gpu_send(SnlsTrainer *t);                          /* weights, means and the number of the step */
SnlsStatus snls_train_gpu_fetch(SnlsTrainer *t);
SnlsStatus snls_train_gpu_change(SnlsTrainer *t);                        /* after a change of t->p */

/* train_history.c */
uint64_t   snls_train_mix(uint64_t h, const void *bytes, int64_t count); /* a number that depends on h and on every byte */
void       snls_train_history_clip(SnlsTrainer *t, const TrainClip *clip, const uint8_t *pixels); /* one more; pixels: on this processor */
void       snls_train_clips_text(const SnlsTrainer *t, char text[TRAIN_CLIPS_TEXT]);              /* empty: none are known */
void       snls_train_place_text(const SnlsTrainer *t, char text[TRAIN_PLACE_TEXT]);              /* who computes, as far as the last bits depend on it */
SnlsStatus snls_train_history_read(SnlsTrainer *t, const SnlsSafetensors *file);
void       snls_train_history_free(SnlsTrainer *t);

/* train.c: means from sums, SNLS_ERR_ARG where they are not finite; whether parameters can be trained with */
SnlsStatus snls_train_report(SnlsTrainer *t, int64_t step, const double *numbers, SnlsTrainReport *report);
SnlsStatus snls_train_check(SnlsContext *ctx, const SnlsTrainParams *params);

#endif
