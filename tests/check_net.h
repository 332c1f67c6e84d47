/* check_net.h: networks in tests: random values, a loss that is a random sum of the output, gradients by central differences. */
#ifndef CHECK_NET_H
#define CHECK_NET_H

#include "check.h"
#include "nn/nn.h"

/* Adds layers to net between input x and the value it returns. */
typedef int32_t Build(NnNet *net, Rng *rng, int32_t x, void *opaque);

typedef struct TestNet {
    NnParams params;
    NnNet    net;
    int32_t  in, out;
    SnlsTensor x, y, dx, dy; /* input, output and their gradients as this processor sees them */
    double  *pull; /* of the loss: sum of pull * output */
} TestNet;

/* shape: (N,H,W,C) of the input. Parameters and input random; everything that a run needs is there. */
bool   test_net_open(TestNet *t, SnlsContext *ctx, Rng *rng, int32_t dtype, bool train, const int64_t *shape, Build *build, void *opaque);
double test_net_loss(TestNet *t);      /* forward, then the sum */
bool   test_net_backward(TestNet *t);  /* forward and backward: gradients of parameters and input */
bool   test_net_again(TestNet *t);     /* backward once more: gradients add */
void   test_net_close(TestNet *t);

/* The derivative along a random direction of the input, and of each parameter (of every n-th: the first of them is drawn), by
 * backward and by central differences: a check of all their elements at once. */
void check_net_gradient(const char *what, TestNet *t, Rng *rng, int64_t every, double step, double tolerance);
bool check_net_few_flips(void); /* at the end: few cases could not be compared */

#endif
