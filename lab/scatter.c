/* scatter.c: processor time of aggregation that writes to neighbours, or multiplies with them, on one thread, the least of several runs: the gradients of gather_add, each kind alone and all, and scatter_add,
 * forward with and without accumulated weights and backward. snls bench times whole calls; this says which part takes how long, and can be repeated on a busy machine. Not part of the library.
 *   cc -O2 -Iinclude lab/scatter.c -Lbuild -lsnls -lm -Wl,-rpath,build -o scatter
 *   ./scatter SIDE F PS K REACH [RUNS]    neighbours up to REACH pixels away in the own frame and the two beside it
 *   THREADS=2 ./scatter ...               on so many threads, the time that is waited for */
#define _POSIX_C_SOURCE 200809L
#include "lab.h"
#include <math.h>
#include <snls/snls.h>
#include <stdio.h>
#include <stdlib.h>

enum { FRAMES = 5 };

static SnlsContext *ctx;
static int runs = 10;

static void must(SnlsStatus status)
{
    if (status >= 0) return;
    printf("%s\n", snls_error(ctx));
    exit(1);
}

static SnlsTensor make(int32_t ndim, const int64_t *shape, double low, double high)
{
    SnlsTensor t;
    must(snls_array_alloc(ctx, &t, SNLS_F32, ndim, shape));
    float *to = t.data;
    for (int64_t i = 0; i < snls_tensor_elements(&t); i++) to[i] = (float)(low + (high - low) * uniform());
    return t;
}

#define TIME(name, call)                                                                        \
    do {                                                                                        \
        double best = INFINITY;                                                                 \
        for (int r = 0; r < runs; r++) {                                                        \
            const double start = now();                                                         \
            must(call);                                                                         \
            best = fmin(best, now() - start);                                                   \
        }                                                                                       \
        printf("%-44s %8.2f ms, %7.1f ns a query\n", name, 1e3 * best, 1e9 * best / queries);    \
    } while (0)

int main(int argc, char **argv)
{
    SnlsContextParams params;
    snls_context_defaults(&params);
    params.backend = "cpu";
    if (getenv("THREADS")) threads = atoi(getenv("THREADS"));
    params.threads = threads;
    if (argc < 6 || snls_open(&ctx, &params) < 0) return 2;
    const int64_t side = atoi(argv[1]), features = atoi(argv[2]), k = atoi(argv[4]);
    const double reach = atof(argv[5]), queries = (double)(FRAMES * side * side);
    if (argc > 6) runs = atoi(argv[6]);
    const int64_t video[] = { 1, FRAMES, side, side, features }, one[] = { 1, FRAMES, side, side, 1 }, field[] = { 1, 1, FRAMES, side, side, k, 3 };
    const SnlsTensor value = make(5, video, -1, 1), weight = make(6, field, 0, 0.1), offset = make(7, field, -reach, reach), out = make(5, video, 0, 0), none = { 0 };
    const SnlsTensor by_out = make(5, video, -1, 1), by_value = make(5, video, 0, 0), by_weight = make(6, field, 0, 0), by_offset = make(7, field, 0, 0);
    for (int64_t i = 0; i < FRAMES * side * side * k; i++) ((float *)offset.data)[3 * i] = (float)(i % 3 - 1);

    SnlsGatherAdd g = { .value = value, .weight = weight, .offset = offset, .out = out };
    snls_gather_add_defaults(&g.params);
    g.params.ps = atoi(argv[3]);
    SnlsGatherAddGrad d = { .out = by_out, .value = by_value };
    TIME("gather_add", snls_gather_add_forward(ctx, &g));
    TIME("gather_add, gradient of value", snls_gather_add_backward(ctx, &g, &d));
    d.value = none, d.weight = by_weight, d.offset = by_offset;
    TIME("gather_add, gradients of weight and offset", snls_gather_add_backward(ctx, &g, &d));
    d.value = by_value;
    TIME("gather_add, backward", snls_gather_add_backward(ctx, &g, &d));

    SnlsScatterAdd s = { .value = value, .weight = weight, .offset = offset, .out = out };
    snls_scatter_add_defaults(&s.params);
    s.params.ps = g.params.ps;
    TIME("scatter_add without total", snls_scatter_add_forward(ctx, &s));
    s.total = make(5, one, 0, 0);
    TIME("scatter_add", snls_scatter_add_forward(ctx, &s));
    const SnlsScatterAddGrad e = { .out = by_out, .total = make(5, one, -1, 1), .value = by_value, .weight = by_weight, .offset = by_offset };
    TIME("scatter_add, backward", snls_scatter_add_backward(ctx, &s, &e));
    snls_close(&ctx);
    return 0;
}
