/* test_nn_grad.c: gradients of every layer of the reference against central differences, in double.
 *   test_nn_grad [SEED [LAYER]] */
#include "net_layers.h"
#include <snls/snls.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static SnlsContext *ctx;

static void check_layer(const Layer *l, uint64_t seed)
{
    Rng rng = { seed };
    TestNet t;
    int64_t shape[4];
    net_layer_shape(l, &rng, shape);
    check_repeat("test_nn_grad %llu %s", (unsigned long long)seed, l->name);
    if (test_net_open(&t, ctx, &rng, SNLS_F64, true, shape, l->build, NULL)) check_net_gradient(l->name, &t, &rng, 1, 1e-5, 1e-6);
    test_net_close(&t);
}

int main(int argc, char **argv)
{
    const uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1, count = argc > 1 ? 1 : 12;
    if (snls_open(&ctx, &(SnlsContextParams){ .backend = "ref" }) < 0) return 1;
    for (int i = 0; i < net_layer_count; i++)
        for (uint64_t seed = first; seed < first + count; seed++)
            if (argc < 3 || !strcmp(argv[2], net_layers[i].name)) check_layer(&net_layers[i], seed);
    if (argc < 2) check_net_few_flips();
    snls_close(&ctx);
    return check_end();
}
