/* stan_weights.c: a file of weights of STAN as training would begin with: nobody has published trained ones, and time does not depend on them.
 * Not part of the library.
 *   cc -O1 -Iinclude -Isrc lab/stan_weights.c build/libsnls.a -ljansson -lpng -ljpeg -lopenblas -ldnnl -lm -lpthread -ldl -fopenmp -o stan_weights
 *   ./stan_weights stan.safetensors                     then: snls model stan.safetensors --time 10x480x480 [--backend cuda] */
#include "model/stan.h"
#include <snls/snls.h>
#include <snls/safetensors.h>
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv)
{
    SnlsContext *ctx;
    NnParams params = { .dtype = SNLS_F32 };
    NnNet net;
    if (argc < 2 || snls_open(&ctx, &(SnlsContextParams){ .backend = "cpu", .threads = 1 }) < 0) return 1;
    const StanConfig c = snls_stan_config();
    snls_nn_begin(&net, ctx, &params, SNLS_F32, false);
    snls_stan_build(&net, &c, &(StanShape){ 1, 5, 32, 32 });
    if (snls_nn_params_allocate(ctx, &params, false) < 0) return 1;
    snls_nn_params_init(&params, 1);
    SnlsNamedTensor *list = calloc((size_t)params.count, sizeof *list);
    for (int64_t i = 0; i < params.count; i++) list[i] = (SnlsNamedTensor){ params.list[i].name, snls_nn_param_view(&params, &params.list[i], params.value) };
    const char *meta[2] = { "architecture", "stan" };
    const int s = snls_safetensors_write(ctx, argv[1], &(SnlsSafetensors){ list, params.count, meta, 1, NULL });
    printf("%d %s\n", s, s < 0 ? snls_error(ctx) : "written");
    return s < 0;
}
