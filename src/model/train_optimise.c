/* train_optimise.c: the optimiser on this processor. */
#include "model/train.h"

double snls_train_norm(const NnParams *params)
{
    double sum = 0;
    const float *g = params->grad;
    for (int64_t i = 0; i < params->total; i++) sum += (double)g[i] * (double)g[i];
    return sqrt(sum);
}

void snls_train_update(SnlsTrainer *t, double norm)
{
    const TrainUpdate u = train_update(&t->p, t->step, norm);
    const TrainWeights w = { t->params.value, t->state[0], t->state[1], t->state[2], t->params.grad };
    for (int64_t i = 0; i < t->params.count; i++) {
        const NnParam *p = &t->params.list[i];
        for (int64_t k = p->offset; k < p->offset + p->count; k++) train_move(&u, &w, k, p->decay ? t->p.decay : 0);
    }
    t->params.version++;
}
