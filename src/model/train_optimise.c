/* train_optimise.c: AdamW (Loshchilov, Hutter, 2019), its rate, and the mean of the weights. */
#include "model/train.h"
#include <math.h>

#define ADAM_EPS 1e-8

double snls_train_rate(const SnlsTrainParams *p, int64_t step)
{
    if (step < p->warmup) return p->rate * (double)(step + 1) / (double)p->warmup;
    const double left = (double)(step - p->warmup) / (double)(p->steps > p->warmup ? p->steps - p->warmup : 1);
    return p->rate_end + (p->rate - p->rate_end) * 0.5 * (1 + cos(3.141592653589793 * (left > 1 ? 1 : left)));
}

double snls_train_norm(const NnParams *params)
{
    double sum = 0;
    const float *g = params->grad;
    for (int64_t i = 0; i < params->total; i++) sum += (double)g[i] * (double)g[i];
    return sqrt(sum);
}

typedef struct Update { double rate, factor, beta1, beta2, bias1, bias2, mean; } Update;

static void update_param(SnlsTrainer *t, const NnParam *p, const Update *u, double decay)
{
    float *w = (float *)t->params.value + p->offset, *m = t->state[0] + p->offset, *v = t->state[1] + p->offset, *e = t->state[2] + p->offset;
    const float *g = (const float *)t->params.grad + p->offset;
    for (int64_t i = 0; i < p->count; i++) {
        const double gradient = u->factor * (double)g[i];
        m[i] = (float)(u->beta1 * (double)m[i] + (1 - u->beta1) * gradient);
        v[i] = (float)(u->beta2 * (double)v[i] + (1 - u->beta2) * gradient * gradient);
        const double move = (double)m[i] / u->bias1 / (sqrt((double)v[i] / u->bias2) + ADAM_EPS);
        w[i] = (float)((double)w[i] - u->rate * (move + decay * (double)w[i]));
        e[i] = (float)(u->mean * (double)e[i] + (1 - u->mean) * (double)w[i]);
    }
}

void snls_train_update(SnlsTrainer *t, double factor)
{
    const SnlsTrainParams *p = &t->p;
    const double n = (double)t->step + 1, young = n / (n + 10); /* a young mean forgets sooner, or it would remember chance */
    const Update u = { snls_train_rate(p, t->step), factor, p->beta1, p->beta2, 1 - pow(p->beta1, n), 1 - pow(p->beta2, n), young < p->ema ? young : p->ema };
    for (int64_t i = 0; i < t->params.count; i++) update_param(t, &t->params.list[i], &u, t->params.list[i].decay ? p->decay : 0);
    t->params.version++;
}
