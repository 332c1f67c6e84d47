/* test_cuda_aggregate.c: aggregation, weights and flow_compose inside a CUDA graph: all of them captured once, run twice, the same
 * bits as outside; and scratch that is taken once. What they compute is tested by test_ops and test_aggregate. */
/* ctest: label=cuda timeout=300 */
#include "case.h"
#include <dlfcn.h>
#include <snls/snls.h>
#include <stdio.h>
#include <string.h>

enum { MOST = 32 };

/* The calls of one pass, and every tensor they write. */
typedef struct Pass {
    SnlsGather gather;
    SnlsGatherGrad gather_grad;
    SnlsScatterAdd scatter;
    SnlsWeights weights;
    SnlsWeightsGrad weights_grad;
    SnlsFlowCompose compose;
    SnlsFlowComposeGrad compose_grad;
    const SnlsTensor *written[MOST];
    int count;
    void *owned[MOST];
    int owned_count;
} Pass;

static SnlsTensor on_device(SnlsContext *ctx, Pass *p, Rng *rng, int32_t ndim, const int64_t *shape, double reach)
{
    SnlsTensor t = tensor_new(rng, SNLS_F32, ndim, shape, LAYOUT_PLAIN);
    void *there = NULL;
    tensor_fill(&t, rng, -reach, reach);
    const int64_t bytes = snls_tensor_elements(&t) * 4;
    CHECK(snls_device_alloc(ctx, &there, bytes) == SNLS_OK && snls_device_copy(ctx, there, t.data, bytes, SNLS_COPY_TO_DEVICE) == SNLS_OK, "%s", snls_error(ctx));
    t.data = p->owned[p->owned_count++] = there;
    t.device = SNLS_DEVICE_CUDA;
    return t;
}

static void make(SnlsContext *ctx, Pass *p)
{
    Rng rng = {9};
    const int64_t video[5] = {1, 3, 19, 37, 16}, places[7] = {1, 2, 3, 19, 37, 5, 3}, total[5] = {1, 3, 19, 37, 2};
    const int64_t field[5] = {1, 3, 19, 37, 2}, flow[6] = {1, 3, 2, 19, 37, 2};
    memset(p, 0, sizeof *p);
    snls_gather_defaults(&p->gather.params);
    snls_weights_defaults(&p->weights.params);
    snls_flow_compose_defaults(&p->compose.params);
    p->gather.params.ps = 3;
    p->compose.params.wt = 1;
    p->gather.value = on_device(ctx, p, &rng, 5, video, 1);
    p->gather.weight = on_device(ctx, p, &rng, 6, places, 1);
    p->gather.offset = on_device(ctx, p, &rng, 7, places, 3);
    p->gather.out = on_device(ctx, p, &rng, 5, video, 0);
    p->gather_grad = (SnlsGatherGrad){on_device(ctx, p, &rng, 5, video, 1), on_device(ctx, p, &rng, 5, video, 0), on_device(ctx, p, &rng, 6, places, 0),
                                      on_device(ctx, p, &rng, 7, places, 0)};
    p->scatter = (SnlsScatterAdd){p->gather.params, p->gather.value, p->gather.weight, p->gather.offset, on_device(ctx, p, &rng, 5, video, 0),
                                  on_device(ctx, p, &rng, 5, total, 0)};
    p->weights.dist = on_device(ctx, p, &rng, 6, places, 1);
    p->weights.weight = on_device(ctx, p, &rng, 6, places, 0);
    p->weights_grad = (SnlsWeightsGrad){p->gather.weight, on_device(ctx, p, &rng, 6, places, 0)};
    p->compose.fflow = on_device(ctx, p, &rng, 5, field, 2);
    p->compose.bflow = on_device(ctx, p, &rng, 5, field, 2);
    p->compose.flow = on_device(ctx, p, &rng, 6, flow, 0);
    p->compose_grad = (SnlsFlowComposeGrad){on_device(ctx, p, &rng, 6, flow, 1), on_device(ctx, p, &rng, 5, field, 0), on_device(ctx, p, &rng, 5, field, 0)};
    const SnlsTensor *const written[] = {&p->gather.out, &p->gather_grad.value, &p->gather_grad.weight, &p->gather_grad.offset, &p->scatter.out, &p->scatter.total,
                                         &p->weights.weight, &p->weights_grad.dist, &p->compose.flow, &p->compose_grad.fflow, &p->compose_grad.bflow};
    p->count = (int)(sizeof written / sizeof *written);
    memcpy(p->written, written, sizeof written);
}

static void run(SnlsContext *ctx, const Pass *p)
{
    const bool forward = snls_gather_add_forward(ctx, &p->gather) >= 0 && snls_scatter_add_forward(ctx, &p->scatter) >= 0 &&
                         snls_weights_forward(ctx, &p->weights) >= 0 && snls_flow_compose_forward(ctx, &p->compose) >= 0;
    CHECK(forward, "forward: %s", snls_error(ctx));
    const bool backward = snls_gather_add_backward(ctx, &p->gather, &p->gather_grad) >= 0 && snls_weights_backward(ctx, &p->weights, &p->weights_grad) >= 0 &&
                          snls_flow_compose_backward(ctx, &p->compose, &p->compose_grad) >= 0;
    CHECK(backward, "backward: %s", snls_error(ctx));
}

/* Everything written is 0 again: gradients are added to. */
static void clear(SnlsContext *ctx, const Pass *p)
{
    for (int i = 0; i < p->count; i++) {
        const int64_t n = snls_tensor_elements(p->written[i]);
        float *zero = check_alloc(n, sizeof *zero);
        CHECK(snls_device_copy(ctx, p->written[i]->data, zero, n * 4, SNLS_COPY_TO_DEVICE) == SNLS_OK, "%s", snls_error(ctx));
    }
}

static void fetch(SnlsContext *ctx, const Pass *p, float **to)
{
    for (int i = 0; i < p->count; i++) {
        const int64_t n = snls_tensor_elements(p->written[i]);
        to[i] = check_alloc(n, sizeof **to);
        CHECK(snls_device_copy(ctx, to[i], p->written[i]->data, n * 4, SNLS_COPY_FROM_DEVICE) == SNLS_OK, "%s", snls_error(ctx));
    }
}

static void compare(const Pass *p, float *const *got, float *const *want, const char *what)
{
    for (int i = 0; i < p->count; i++) {
        const int64_t n = snls_tensor_elements(p->written[i]);
        bool empty = true;
        for (int64_t j = 0; j < n; j++) empty = empty && want[i][j] == 0;
        CHECK(!empty, "tensor %d was not written", i);
        CHECK(!memcmp(got[i], want[i], (size_t)n * 4), "%s gives other bits in tensor %d", what, i);
    }
}

typedef struct Driver {
    int (*stream_create)(void **, unsigned), (*begin)(void *, int), (*end)(void *, void **), (*instantiate)(void **, void *, unsigned long long),
        (*launch)(void *, void *), (*wait)(void *);
} Driver;

static bool load(void *library, const char *name, void *function)
{
    void *symbol = library ? dlsym(library, name) : NULL;
    memcpy(function, &symbol, sizeof symbol);
    return symbol != NULL;
}

static bool load_driver(Driver *d)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    return load(library, "cuStreamCreate", &d->stream_create) && load(library, "cuStreamBeginCapture_v2", &d->begin) &&
           load(library, "cuStreamEndCapture", &d->end) && load(library, "cuGraphInstantiateWithFlags", &d->instantiate) &&
           load(library, "cuGraphLaunch", &d->launch) && load(library, "cuStreamSynchronize", &d->wait);
}

static void capture(SnlsContext *ctx, const Pass *p, const Driver *d, void *stream, float *const *want)
{
    void *graph = NULL, *ready = NULL;
    float *got[MOST];
    CHECK(!d->begin(stream, 0), "capture does not begin");
    run(ctx, p);
    CHECK(!d->end(stream, &graph) && graph, "the capture broke");
    if (!CHECK(!d->instantiate(&ready, graph, 0), "the graph is not accepted")) return;
    for (int i = 0; i < 2; i++) {
        clear(ctx, p);
        CHECK(!d->launch(ready, stream) && !d->wait(stream), "the graph does not run");
        fetch(ctx, p, got);
        compare(p, got, want, "the graph");
    }
}

int main(void)
{
    SnlsContext *ctx = context_open_cuda(true); /* deterministic: gradients can be compared bit by bit */
    Driver d = {0};
    Pass p;
    void *stream = NULL;
    float *want[MOST], *again[MOST];
    check_repeat("test_cuda_aggregate");
    make(ctx, &p);
    if (CHECK(load_driver(&d), "libcuda.so.1 lacks a function")) {
        CHECK(!d.stream_create(&stream, 1) && snls_device_set_stream(ctx, stream) == SNLS_OK, "no stream");
        run(ctx, &p);
        fetch(ctx, &p, want);
        const int64_t held = snls_scratch_bytes(ctx);
        clear(ctx, &p);
        run(ctx, &p);
        fetch(ctx, &p, again);
        compare(&p, again, want, "a second pass");
        CHECK(held > 0 && snls_scratch_bytes(ctx) == held, "scratch went from %lld to %lld bytes", (long long)held, (long long)snls_scratch_bytes(ctx));
        capture(ctx, &p, &d, stream, want);
        CHECK(snls_device_set_stream(ctx, NULL) == SNLS_OK, "%s", snls_error(ctx));
    }
    for (int i = 0; i < p.owned_count; i++) snls_device_free(ctx, p.owned[i]);
    tensors_free();
    snls_close(&ctx);
    return check_end();
}
