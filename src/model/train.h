/* train.h: what a trainer holds. */
#ifndef SNLS_TRAIN_PRIVATE_H
#define SNLS_TRAIN_PRIVATE_H

#include "model/stan.h"
#include "nn/nn.h"
#include <snls/train.h>

typedef struct TrainClip { uint8_t *pixels; int64_t frames, h, w; } TrainClip; /* (T,H,W,3) */


struct SnlsTrainer {
    SnlsContext    *ctx;
    SnlsTrainParams p;
    NnParams        params;
    NnNet           net;
    StanNet         ends;
    TrainClip      *clips;
    int64_t         clip_count, clip_room, step;
    float          *state[3]; /* AdamW's means of gradients and of their squares; the mean of the weights */
    float          *clean, *noisy; /* (batch*frames, crop, crop, 3), 0..255 */
    double         *sigma;    /* of each clip of the batch */
};

/* train_batch.c: the clips of a step: crops, flips, time turned round, noise; fills clean, noisy, sigma and the network's input. */
SnlsStatus snls_train_batch(SnlsTrainer *t);

/* train_optimise.c */
double snls_train_rate(const SnlsTrainParams *p, int64_t step);
double snls_train_norm(const NnParams *params);            /* of the gradient */
void   snls_train_update(SnlsTrainer *t, double factor);   /* AdamW with gradients times factor, then the mean of the weights */


#endif
