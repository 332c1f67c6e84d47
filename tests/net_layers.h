/* net_layers.h: a random example of every layer, for tests of gradients and of backends. */
#ifndef NET_LAYERS_H
#define NET_LAYERS_H

#include "check_net.h"

typedef struct Layer {
    const char *name;
    Build      *build;
    int64_t     frames;       /* N is a multiple of it */
    int64_t     channels;     /* C is a multiple of it */
    int64_t     least;        /* H and W at least */
    int32_t     op;           /* what it is an example of */
} Layer;
extern const Layer net_layers[];
extern const int   net_layer_count;

void net_layer_shape(const Layer *l, Rng *rng, int64_t *shape); /* a random (N,H,W,C) that it takes */

#endif
