/* train_batch.c: what a step is trained on. Every choice is a hash of seed, step, clip and purpose: nothing to store, nothing
 * that depends on what came before. */
#include "model/train.h"
#include <math.h>
#include <snls/denoise.h>

typedef enum Purpose { CLIP, TIME, TOP, LEFT, TURN, SIGMA, NOISE } Purpose;

static uint64_t mix(uint64_t x) /* splitmix64 */
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static uint64_t draw(const SnlsTrainer *t, int64_t sample, Purpose purpose)
{
    return mix(mix(mix((uint64_t)t->p.seed) ^ (uint64_t)t->step) ^ (uint64_t)(sample * 16 + purpose));
}

static int64_t draw_below(const SnlsTrainer *t, int64_t sample, Purpose purpose, int64_t n) { return (int64_t)(draw(t, sample, purpose) % (uint64_t)n); }

/* One clip into the batch: bits of turn: mirrored left and right, up and down, along the diagonal, in time. */
static void cut(const SnlsTrainer *t, int64_t sample)
{
    const TrainClip *c = &t->clips[draw_below(t, sample, CLIP, t->clip_count)];
    const int64_t side = t->p.crop, frames = t->p.frames, first = draw_below(t, sample, TIME, c->frames - frames + 1);
    const int64_t top = draw_below(t, sample, TOP, c->h - side + 1), left = draw_below(t, sample, LEFT, c->w - side + 1), turn = draw_below(t, sample, TURN, 16);
    float *to = t->clean + sample * frames * side * side * 3;
    for (int64_t i = 0; i < frames * side * side; i++) {
        int64_t f = i / (side * side), y = i / side % side, x = i % side;
        if (turn & 4) { const int64_t was = y; y = x, x = was; }
        if (turn & 1) x = side - 1 - x;
        if (turn & 2) y = side - 1 - y;
        if (turn & 8) f = frames - 1 - f;
        const uint8_t *from = c->pixels + (((first + f) * c->h + top + y) * c->w + left + x) * 3;
        for (int k = 0; k < 3; k++) to[3 * i + k] = from[k];
    }
}

SnlsStatus snls_train_batch(SnlsTrainer *t)
{
    const int64_t size = (int64_t)t->p.frames * t->p.crop * t->p.crop * 3, pixels = size / 3;
    const SnlsTensor *in = &t->net.values[t->ends.in].t;
    SNLS_REQUIRE(t->ctx, t->clip_count, SNLS_ERR_ARG, "train: no clip was added");
    for (int64_t b = 0; b < t->p.batch; b++) {
        const double level = (double)(draw(t, b, SIGMA) >> 11) * 0x1p-53;
        t->sigma[b] = t->p.sigma_low + (t->p.sigma_high - t->p.sigma_low) * level;
        cut(t, b);
        for (int64_t i = 0; i < size; i++) t->noisy[b * size + i] = t->clean[b * size + i];
        SNLS_TRY(snls_noise_add(t->ctx, t->noisy + b * size, size, 0, t->sigma[b], draw(t, b, NOISE)));
        for (int64_t i = 0; i < 4 * pixels; i++)
            ((float *)in->data)[4 * b * pixels + i] = i % 4 == 3 ? (float)(t->sigma[b] / 255) : t->noisy[b * size + i / 4 * 3 + i % 4] / 255;
    }
    return SNLS_OK;
}
