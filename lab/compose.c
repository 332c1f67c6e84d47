/* compose.c: processor time of weights and flow_compose on one thread of the cpu backend, forward and backward, the least of
 * RUNS: what they cost where others use the machine too, and the clock says little. Not part of the library.
 *   cc -O2 -Iinclude lab/compose.c -Lbuild -lsnls -lm -o compose
 *   LD_LIBRARY_PATH=build ./compose [RUNS]     SNLS_CPU=avx2 for that level, another folder for an older library */
#define _POSIX_C_SOURCE 199309L
#include <math.h>
#include <snls/snls.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static SnlsContext *ctx;
static int runs = 10;

static double processor_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static SnlsTensor make(int32_t ndim, const int64_t *shape)
{
    int64_t n = 1;
    for (int32_t i = 0; i < ndim; i++) n *= shape[i];
    float *data = aligned_alloc(64, (size_t)(n * 4 + 63) / 64 * 64);
    if (!data) exit(1);
    for (int64_t i = 0; i < n; i++) data[i] = (float)(i * 7919 % 10007) / 10007;
    return snls_tensor(data, SNLS_F32, ndim, shape);
}

/* Waves of three and two pixels, as snls bench has them. */
static void fill_motion(const SnlsTensor *t, double sign)
{
    float *to = t->data;
    for (int64_t i = 0; i < t->shape[1] * t->shape[2] * t->shape[3]; i++) {
        const double x = (double)(i % t->shape[3]), y = (double)(i / t->shape[3] % t->shape[2]), frame = (double)(i / t->shape[3] / t->shape[2]);
        to[2 * i] = (float)(sign * 3 * sin(0.05 * x + 0.03 * y + frame));
        to[2 * i + 1] = (float)(sign * 2 * cos(0.04 * x - 0.02 * y + frame));
    }
}

#define TIME(name, call)                                               \
    do {                                                               \
        double least = INFINITY;                                       \
        for (int run = 0; run < runs; run++) {                         \
            const double from = processor_ms();                        \
            if ((call) < 0) printf("FAIL %s\n", snls_error(ctx));      \
            least = fmin(least, processor_ms() - from);                \
        }                                                              \
        printf("%-24s %8.1f ms\n", name, least);                       \
    } while (0)

int main(int argc, char **argv)
{
    const int64_t field[5] = {1, 5, 480, 854, 2}, flow[6] = {1, 5, 4, 480, 854, 2}, rows[6] = {1, 1, 5, 480, 854, 10};
    if (argc > 1) runs = atoi(argv[1]);
    SnlsContextParams params;
    snls_context_defaults(&params);
    params.threads = 1;
    if (snls_open(&ctx, &params) < 0) return 1;
    SnlsWeights w = {.dist = make(6, rows), .weight = make(6, rows)};
    const SnlsWeightsGrad wg = {.weight = make(6, rows), .dist = make(6, rows)};
    snls_weights_defaults(&w.params);
    TIME("weights forward", snls_weights_forward(ctx, &w));
    TIME("weights backward", snls_weights_backward(ctx, &w, &wg));
    SnlsFlowCompose c = {.fflow = make(5, field), .bflow = make(5, field), .flow = make(6, flow)};
    const SnlsFlowComposeGrad cg = {.flow = make(6, flow), .fflow = make(5, field), .bflow = make(5, field)};
    snls_flow_compose_defaults(&c.params);
    c.params.wt = 2;
    fill_motion(&c.fflow, 1);
    fill_motion(&c.bflow, -1);
    TIME("flow_compose forward", snls_flow_compose_forward(ctx, &c));
    TIME("flow_compose backward", snls_flow_compose_backward(ctx, &c, &cg));
    snls_close(&ctx);
    return 0;
}
