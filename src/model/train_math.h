/* train_math.h: what a step of training draws and computes, number by number, for this processor and for a GPU. Every choice is a hash
 * of seed, step, clip and purpose: nothing to store, nothing that depends on what came before. */
#ifndef SNLS_TRAIN_MATH_H
#define SNLS_TRAIN_MATH_H

#include "base/noise.h"
#include <snls/train.h>

typedef struct TrainClip { uint8_t *pixels; int64_t frames, h, w; } TrainClip; /* (T,H,W,3) */

/* ---- what a step is trained on ---- */

typedef enum TrainPurpose { TRAIN_CLIP, TRAIN_TIME, TRAIN_TOP, TRAIN_LEFT, TRAIN_TURN, TRAIN_SIGMA, TRAIN_NOISE } TrainPurpose;

static inline SNLS_HD uint64_t train_draw(const SnlsTrainParams *p, int64_t step, int64_t sample, TrainPurpose purpose)
{
    return snls_mix(snls_mix(snls_mix((uint64_t)p->seed) ^ (uint64_t)step) ^ (uint64_t)(sample * 16 + purpose));
}

static inline SNLS_HD int64_t train_below(const SnlsTrainParams *p, int64_t step, int64_t sample, TrainPurpose purpose, int64_t n)
{
    return (int64_t)(train_draw(p, step, sample, purpose) % (uint64_t)n);
}

typedef struct TrainCut { /* one clip of a batch; turn: mirrored left and right, up and down, along the diagonal, in time */
    const TrainClip *clip;
    int64_t  first, top, left, turn;
    double   sigma;
    uint64_t noise;
} TrainCut;

static inline SNLS_HD TrainCut train_cut(const SnlsTrainParams *p, int64_t step, int64_t sample, const TrainClip *clips, int64_t count)
{
    TrainCut c;
    c.clip = &clips[train_below(p, step, sample, TRAIN_CLIP, count)];
    c.first = train_below(p, step, sample, TRAIN_TIME, c.clip->frames - p->frames + 1);
    c.top = train_below(p, step, sample, TRAIN_TOP, c.clip->h - p->crop + 1);
    c.left = train_below(p, step, sample, TRAIN_LEFT, c.clip->w - p->crop + 1);
    c.turn = train_below(p, step, sample, TRAIN_TURN, 16);
    c.sigma = p->sigma_low + (p->sigma_high - p->sigma_low) * ((double)(train_draw(p, step, sample, TRAIN_SIGMA) >> 11) * 0x1p-53);
    c.noise = train_draw(p, step, sample, TRAIN_NOISE);
    return c;
}

/* Where pixel i of the cut (frames, crop, crop) lies in its clip: number of its first colour. */
static inline SNLS_HD int64_t train_pixel(const SnlsTrainParams *p, const TrainCut *c, int64_t i)
{
    const int64_t side = p->crop, area = side * side;
    int64_t f = i / area, y = i / side % side, x = i % side;
    if (c->turn & 4) { const int64_t was = y; y = x, x = was; }
    if (c->turn & 1) x = side - 1 - x;
    if (c->turn & 2) y = side - 1 - y;
    if (c->turn & 8) f = p->frames - 1 - f;
    return (((c->first + f) * c->clip->h + c->top + y) * c->clip->w + c->left + x) * 3;
}

/* ---- loss ---- */

#define CHARBONNIER_EPS 1e-3

typedef struct TrainTerm { double loss, slope; } TrainTerm; /* of one number's error, 0..1 scale */

static inline SNLS_HD TrainTerm train_term(int32_t loss, double error)
{
    const double root = sqrt(error * error + CHARBONNIER_EPS * CHARBONNIER_EPS);
    TrainTerm t = { root, error / root };
    if (loss == SNLS_LOSS_L1) t.loss = fabs(error), t.slope = error > 0 ? 1 : error < 0 ? -1 : 0;
    if (loss == SNLS_LOSS_MSE) t.loss = error * error, t.slope = 2 * error;
    return t;
}

/* ---- AdamW (Loshchilov, Hutter, 2019), its rate, and the mean of the weights ---- */

static inline SNLS_HD double train_rate(const SnlsTrainParams *p, int64_t step)
{
    if (step < p->warmup) return p->rate * (double)(step + 1) / (double)p->warmup;
    const double left = (double)(step - p->warmup) / (double)(p->steps > p->warmup ? p->steps - p->warmup : 1);
    return p->rate_end + (p->rate - p->rate_end) * 0.5 * (1 + cos(3.141592653589793 * (left > 1 ? 1 : left)));
}

typedef struct TrainUpdate { double rate, factor, beta1, beta2, bias1, bias2, mean; } TrainUpdate;

static inline SNLS_HD TrainUpdate train_update(const SnlsTrainParams *p, int64_t step, double norm)
{
    const double n = (double)step + 1, young = n / (n + 10); /* a young mean forgets sooner, or it would remember chance */
    const TrainUpdate u = { train_rate(p, step), norm > p->clip ? p->clip / norm : 1, p->beta1, p->beta2, 1 - pow(p->beta1, n), 1 - pow(p->beta2, n), young < p->ema ? young : p->ema };
    return u;
}

#define ADAM_EPS 1e-8

typedef struct TrainWeights { float *w, *m, *v, *e; const float *g; } TrainWeights; /* weights; means of g, of its square, of w; gradients */

static inline SNLS_HD void train_move(const TrainUpdate *u, const TrainWeights *t, int64_t i, double decay)
{
    const double gradient = u->factor * (double)t->g[i];
    t->m[i] = (float)(u->beta1 * (double)t->m[i] + (1 - u->beta1) * gradient);
    t->v[i] = (float)(u->beta2 * (double)t->v[i] + (1 - u->beta2) * gradient * gradient);
    const double move = (double)t->m[i] / u->bias1 / (sqrt((double)t->v[i] / u->bias2) + ADAM_EPS);
    t->w[i] = (float)((double)t->w[i] - u->rate * (move + decay * (double)t->w[i]));
    t->e[i] = (float)(u->mean * (double)t->e[i] + (1 - u->mean) * (double)t->w[i]);
}

#endif
