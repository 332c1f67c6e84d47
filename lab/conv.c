/* conv.c: processor time of convolutions of backend cpu on one thread, by BLAS and by oneDNN, forward and backward: the best of seven runs.
 * Not part of the library.
 *   cc -O2 -DSNLS_HAVE_DNNL -DSNLS_HAVE_LAPACK -Iinclude -Isrc lab/conv.c build/libsnls.a -ljansson -lpng -ljpeg -lopenblas -ldnnl -lm -lpthread -ldl -fopenmp -o conv
 *   OPENBLAS_NUM_THREADS=1 ./conv                                     layers of STAN-S at 854x480 (bands of them) and of DVDnet
 *   OPENBLAS_NUM_THREADS=1 ./conv HEIGHT WIDTH IN OUT KERNEL STRIDE   one */
#define _POSIX_C_SOURCE 200809L
#include "nn/blas.h"
#include "nn/dnnl.h"
#include <snls/snls.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef struct Layer { int64_t h, w, in, out, kernel, stride; } Layer;
typedef struct Way { const char *name; NnFunction *forward, *backward; void (*release)(SnlsContext *ctx, NnStep *step); } Way;

static const Way ways[] = { { "BLAS", snls_nn_blas_conv_forward, snls_nn_blas_conv_backward, snls_nn_blas_conv_release },
                            { "oneDNN", snls_nn_dnnl_conv_forward, snls_nn_dnnl_conv_backward, snls_nn_dnnl_release } };

static double processor_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double best(SnlsContext *ctx, NnFunction *function, NnStep *step)
{
    double least = 1e9;
    for (int i = 0; i < 7; i++) {
        const double start = processor_seconds();
        if (function(ctx, step) < 0) return -1;
        const double took = processor_seconds() - start;
        if (took < least) least = took;
    }
    return least;
}

/* A 1x1 before it, so that its input has a gradient. */
static void time_layer(SnlsContext *ctx, const Layer *l, const Way *way)
{
    NnParams params = { .dtype = SNLS_F32 };
    NnNet net;
    snls_nn_begin(&net, ctx, &params, SNLS_F32, true);
    const int32_t x = snls_nn_linear(&net, snls_nn_input(&net, 1, l->h, l->w, l->in), "first", l->in, true, -1);
    const NnConvSpec spec = { .conv = { l->kernel, l->stride, l->stride > 1 ? 0 : l->kernel / 2, 1, 0, NN_RELU, 0 }, .out = l->out, .residual = -1, .init = NN_INIT_NORMAL, .scale = 0.1 };
    snls_nn_conv(&net, x, "timed", &spec);
    NnBackend table = *net.backend;
    table.op[NN_conv].forward = way->forward, table.op[NN_conv].backward = way->backward, table.release = way->release;
    net.backend = &table;
    if (snls_nn_params_allocate(ctx, &params, true) < 0 || snls_nn_commit(&net) < 0) exit(1);
    snls_nn_params_init(&params, 1);
    NnStep *step = &net.steps[1];
    const double operations = 2.0 * (double)(step->y[0].shape[1] * step->y[0].shape[2] * l->kernel * l->kernel * l->in * l->out);
    const double forward = best(ctx, way->forward, step), backward = best(ctx, way->backward, step);
    printf("%-6s %4lld x %3lld, %3lld to %3lld channels, %lldx%lld, stride %lld: forward %6.1f GFLOP/s (%.2f ms), backward %6.1f GFLOP/s (%.2f ms)\n", way->name, (long long)l->w, (long long)l->h, (long long)l->in,
           (long long)l->out, (long long)l->kernel, (long long)l->kernel, (long long)l->stride, operations / forward * 1e-9, forward * 1e3, 2 * operations / backward * 1e-9, backward * 1e3);
    snls_nn_free(&net);
    snls_nn_params_free(ctx, &params);
}

int main(int argc, char **argv)
{
    Layer layers[] = { { 64, 854, 4, 32, 3, 1 },   { 37, 854, 32, 32, 3, 1 }, { 36, 427, 64, 64, 3, 1 },  { 33, 214, 128, 128, 3, 1 }, { 12, 214, 640, 256, 1, 1 },
                       { 32, 854, 32, 64, 2, 2 }, { 37, 854, 32, 3, 3, 1 },  { 40, 427, 96, 96, 3, 1 }, { 32, 32, 128, 128, 3, 1 } };
    int count = sizeof layers / sizeof *layers;
    SnlsContext *ctx;
    if (snls_open(&ctx, &(SnlsContextParams){ .backend = "cpu", .threads = 1 }) < 0) return 1;
    if (argc == 7) layers[0] = (Layer){ atoll(argv[1]), atoll(argv[2]), atoll(argv[3]), atoll(argv[4]), atoll(argv[5]), atoll(argv[6]) }, count = 1;
    for (int i = 0; i < count; i++)
        for (int k = 0; k < 2; k++) time_layer(ctx, &layers[i], &ways[k]);
    snls_close(&ctx);
    return 0;
}
