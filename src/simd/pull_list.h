/* pull_list.h: neighbour i of a list, as pull_pixel takes it. */
#ifndef SNLS_PULL_LIST_H
#define SNLS_PULL_LIST_H

#include "simd/dsp.h"
#include "simd/inline.h"

/* 0: nothing is wanted of it. */
ALWAYS int snls_pull_pixel(SnlsPixel *p, const SnlsSettled *s, ptrdiff_t i, const SnlsPulls *c)
{
    const ptrdiff_t channel = c->head[i] * c->n;
    p->q = c->q + s->column[i] * c->q_step + channel;
    p->at = c->key + s->at[i] + channel;
    p->to = c->to ? c->to + s->column[i] * c->to_step + channel : NULL;
    p->rows = s->rows[i];
    p->out = c->out && p->rows ? c->out + s->out[i] + channel : NULL;
    p->right = s->right[i] * c->right, p->down = s->down[i] * c->down;
    p->out_right = s->right[i] * c->out_right, p->out_down = s->down[i] * c->out_down;
    p->n = c->n;
    for (int k = 0; k < 4; k++) p->w[k] = s->w[k][i];
    p->g = c->twice * c->g[i];
    p->shape = s->shape[i];
    p->prod = c->prod;
    return p->to || p->out || s->window[i] >= c->first_along;
}

#endif
