/* train_batch.c: the clips of a step on this processor. */
#include "model/train.h"
#include <snls/denoise.h>

static void fill(SnlsTrainer *t, int64_t sample, const TrainCut *c)
{
    const int64_t pixels = (int64_t)t->p.frames * t->p.crop * t->p.crop;
    float *clean = t->clean + sample * pixels * 3, *noisy = t->noisy + sample * pixels * 3;
    for (int64_t i = 0; i < pixels; i++) {
        const uint8_t *from = c->clip->pixels + train_pixel(&t->p, c, i);
        for (int k = 0; k < 3; k++) clean[3 * i + k] = noisy[3 * i + k] = from[k];
    }
}

SnlsStatus snls_train_batch(SnlsTrainer *t)
{
    const int64_t pixels = (int64_t)t->p.frames * t->p.crop * t->p.crop, size = 3 * pixels;
    float *in = t->net.values[t->ends.in].t.data;
    for (int64_t b = 0; b < t->p.batch; b++) {
        const TrainCut c = train_cut(&t->p, t->step, b, t->clips, t->clip_count);
        fill(t, b, &c);
        SNLS_TRY(snls_noise_add(t->ctx, t->noisy + b * size, size, 0, c.sigma, c.noise));
        for (int64_t i = 0; i < 4 * pixels; i++) in[4 * b * pixels + i] = i % 4 == 3 ? (float)(c.sigma / 255) : t->noisy[b * size + i / 4 * 3 + i % 4] / 255;
    }
    return SNLS_OK;
}
