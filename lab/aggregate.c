/* aggregate.c: how long the parts of the aggregation take on a GPU: forward, each gradient alone, all of them; weights at a size beyond
 * the second-level cache; flow_compose. snls bench times whole calls; this says where their time goes, and is small enough to
 * run under a profiler. Not part of the library.
 *   cc -O2 -Iinclude lab/aggregate.c -Lbuild -lsnls -lm -Wl,-rpath,build -o aggregate
 *   SNLS_CUDA_LIBRARY=build/libsnls_cuda.so ./aggregate [RUNS [CASES [deterministic]]]     CASES: D32p1,weights; all without
 *   ncu --clock-control none -k regex:patch_kernel ./aggregate 0 D32p3 */
#include <snls/snls.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static SnlsContext *ctx;
static int runs = 15;

static void must(SnlsStatus status)
{
    if (status >= 0) return;
    printf("FAIL %s\n", snls_error(ctx));
    exit(1);
}

static double next(void)
{
    static uint64_t state = 1;
    uint64_t x = state += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return (double)((x ^ x >> 31) >> 11) * 0x1p-53;
}

/* On the device, uniform numbers; places: every third is a dt of -1, 0 or 1. */
static SnlsTensor make(int32_t ndim, const int64_t *shape, double low, double high, int places)
{
    SnlsTensor t = snls_tensor(NULL, SNLS_F32, ndim, shape);
    int64_t n = 1;
    t.ndim = ndim;
    for (int32_t i = ndim; i-- > 0; n *= shape[i]) {
        t.shape[i] = shape[i];
        t.stride[i] = n;
    }
    float *host = malloc((size_t)n * sizeof *host);
    if (!host) exit(1);
    for (int64_t i = 0; i < n; i++) host[i] = (float)(low + (high - low) * next());
    for (int64_t i = 0; places && i < n; i += 3) host[i] = (float)(i / 3 % 3 - 1);
    must(snls_device_alloc(ctx, &t.data, n * 4));
    must(snls_device_copy(ctx, t.data, host, n * 4, SNLS_COPY_TO_DEVICE));
    free(host);
    t.device = SNLS_DEVICE_CUDA;
    return t;
}

static int rising(const void *a, const void *b) { return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b); }

/* Two calls that do not count, then the median of `runs`. */
#define TIME(name, call)                                                             \
    do {                                                                             \
        double ms[64] = {0};                                                         \
        must(call);                                                                  \
        must(call);                                                                  \
        for (int run = 0; run < runs && run < 64; run++) {                           \
            must(snls_device_clock(ctx, &ms[run]));                                  \
            must(call);                                                              \
            must(snls_device_clock(ctx, &ms[run]));                                  \
        }                                                                            \
        qsort(ms, (size_t)(runs < 64 ? runs : 64), sizeof *ms, rising);              \
        printf("  %-24s %8.4f ms\n", name, ms[runs / 2]);                            \
    } while (0)

typedef struct Work { const char *name; int64_t height, features, heads; int32_t ps, interp; int stack, scatter; } Work;

static const Work works[] = {
    {"D32p1", 320, 32, 1, 1, SNLS_INTERP_BILINEAR, 0, 0},      {"D32p3", 320, 32, 1, 3, SNLS_INTERP_BILINEAR, 0, 0},
    {"D32p1near", 320, 32, 1, 1, SNLS_INTERP_NEAREST, 0, 0},   {"D32p3near", 320, 32, 1, 3, SNLS_INTERP_NEAREST, 0, 0},
    {"D64p1", 320, 64, 1, 1, SNLS_INTERP_BILINEAR, 0, 0},      {"D64p3", 320, 64, 1, 3, SNLS_INTERP_BILINEAR, 0, 0},
    {"D32p1stack", 320, 32, 1, 1, SNLS_INTERP_BILINEAR, 1, 0}, {"D32p3stack", 320, 32, 1, 3, SNLS_INTERP_BILINEAR, 1, 0},
    {"D64p1stack", 320, 64, 1, 1, SNLS_INTERP_BILINEAR, 1, 0}, {"C16p3", 128, 16, 2, 3, SNLS_INTERP_BILINEAR, 0, 0},
    {"S32p3", 320, 32, 1, 3, SNLS_INTERP_BILINEAR, 0, 1},      {"S32p1", 320, 32, 1, 1, SNLS_INTERP_BILINEAR, 0, 1}};

static SnlsStatus forward(const SnlsGather *s, int stack) { return stack ? snls_gather_forward(ctx, s) : snls_gather_add_forward(ctx, s); }
static SnlsStatus backward(const SnlsGather *s, const SnlsGatherGrad *g, int stack)
{
    return stack ? snls_gather_backward(ctx, s, g) : snls_gather_add_backward(ctx, s, g);
}

static void time_gather(const Work *w, const SnlsGather *s, SnlsGatherGrad g)
{
    const SnlsGatherGrad all = g;
    const SnlsTensor none = {0};
    TIME("forward", forward(s, w->stack));
    g.weight = g.offset = none;
    TIME("backward value", backward(s, &g, w->stack));
    g.weight = all.weight;
    g.value = none;
    TIME("backward weight", backward(s, &g, w->stack));
    g.offset = all.offset;
    if (all.offset.data) TIME("backward weight, offset", backward(s, &g, w->stack));
    TIME("backward all", backward(s, &all, w->stack));
}

static void time_scatter(const SnlsGather *from, const SnlsGatherGrad *g, const int64_t *total)
{
    SnlsScatterAdd s = {.params = from->params, .value = from->value, .weight = from->weight, .offset = from->offset, .out = from->out};
    const SnlsScatterAddGrad grad = {.out = g->out, .value = g->value, .weight = g->weight, .offset = g->offset};
    s.total = make(5, total, 0, 0, 0);
    TIME("scatter_add forward", snls_scatter_add_forward(ctx, &s));
    TIME("scatter_add backward", snls_scatter_add_backward(ctx, &s, &grad));
    snls_device_free(ctx, s.total.data);
}

static void time_work(const Work *w)
{
    const int64_t side = w->height, video[5] = {1, 5, side, side, w->features}, places[7] = {1, w->heads, 5, side, side, 10, 3};
    const int64_t stack[7] = {1, w->heads, 10, 5, side, side, w->features / w->heads}, total[5] = {1, 5, side, side, w->heads};
    const int64_t *out = w->stack ? stack : video;
    SnlsGather s = {0};
    SnlsGatherGrad g = {0};
    snls_gather_defaults(&s.params);
    s.params.ps = w->ps;
    s.params.interp = w->interp;
    s.value = make(5, video, 0, 1, 0);
    s.weight = make(6, places, 0, 0.1, 0);
    s.offset = make(7, places, -4, 4, 1);
    s.out = make(w->stack ? 7 : 5, out, 0, 0, 0);
    g.out = make(w->stack ? 7 : 5, out, -1, 1, 0);
    g.value = make(5, video, 0, 0, 0);
    g.weight = make(6, places, 0, 0, 0);
    if (w->interp == SNLS_INTERP_BILINEAR) g.offset = make(7, places, 0, 0, 0);
    printf("%s\n", w->name);
    if (w->scatter) time_scatter(&s, &g, total);
    else time_gather(w, &s, g);
    printf("  scratch %.1f MB\n", (double)snls_scratch_peak(ctx) / 1e6);
    snls_scratch_release(ctx);
    void *const all[] = {s.value.data, s.weight.data, s.offset.data, s.out.data, g.out.data, g.value.data, g.weight.data, g.offset.data};
    for (int i = 0; i < 8; i++) snls_device_free(ctx, all[i]);
}

static void time_weights(int64_t batch)
{
    const int64_t shape[6] = {batch, 1, 5, 320, 320, 10};
    SnlsWeights s = {.dist = make(6, shape, 0, 1, 0), .weight = make(6, shape, 0, 1, 0)};
    const SnlsWeightsGrad g = {.weight = make(6, shape, -1, 1, 0), .dist = make(6, shape, 0, 0, 0)};
    snls_weights_defaults(&s.params);
    printf("weights, %lld times 5x320x320, K 10\n", (long long)batch);
    TIME("forward", snls_weights_forward(ctx, &s));
    TIME("backward", snls_weights_backward(ctx, &s, &g));
}

static void time_compose(void)
{
    const int64_t field[5] = {1, 5, 480, 854, 2}, flow[6] = {1, 5, 4, 480, 854, 2};
    SnlsFlowCompose s = {.fflow = make(5, field, -3, 3, 0), .bflow = make(5, field, -3, 3, 0), .flow = make(6, flow, 0, 0, 0)};
    const SnlsFlowComposeGrad g = {.flow = make(6, flow, -1, 1, 0), .fflow = make(5, field, 0, 0, 0), .bflow = make(5, field, 0, 0, 0)};
    snls_flow_compose_defaults(&s.params);
    s.params.wt = 2;
    printf("compose, 5x480x854, wt 2\n");
    TIME("forward", snls_flow_compose_forward(ctx, &s));
    TIME("backward", snls_flow_compose_backward(ctx, &s, &g));
}

int main(int argc, char **argv)
{
    char why[512] = "";
    SnlsContextParams params;
    const char *const only = argc > 2 ? argv[2] : NULL;
    snls_context_defaults(&params);
    params.backend = "cuda";
    params.error_text = why;
    params.error_size = sizeof why;
    params.deterministic = argc > 3;
    if (argc > 1) runs = atoi(argv[1]);
    if (snls_open(&ctx, &params) < 0) {
        printf("%s\n", why);
        return 1;
    }
    for (size_t i = 0; i < sizeof works / sizeof *works; i++)
        if (!only || strstr(only, works[i].name)) time_work(&works[i]);
    if (!only || strstr(only, "weights")) time_weights(1), time_weights(16);
    if (!only || strstr(only, "compose")) time_compose();
    snls_close(&ctx);
    return 0;
}
