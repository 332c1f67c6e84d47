/* test_cuda.c: what only a GPU backend has: device memory, scratch that does not grow twice, calls inside a CUDA graph, sizes
 * beyond 16 and 32 bits. The operators themselves are tested by test_ops and test_tile. */
/* ctest: label=cuda timeout=600 */
#include "case.h"
#include <dlfcn.h>
#include <math.h>
#include <snls/snls.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A search whose tensors are on the device. */
typedef struct Job { SnlsSearch s; SnlsSearchGrad g; } Job;

static void to_device(SnlsContext *ctx, SnlsTensor *t)
{
    void *there = NULL;
    const int64_t bytes = snls_tensor_elements(t) * snls_dtype_size((SnlsDtype)t->dtype);
    CHECK(snls_device_alloc(ctx, &there, bytes) == SNLS_OK && snls_device_copy(ctx, there, t->data, bytes, SNLS_COPY_TO_DEVICE) == SNLS_OK, "%s", snls_error(ctx));
    t->data = there;
    t->device = SNLS_DEVICE_CUDA;
}

static SnlsTensor filled(SnlsContext *ctx, Rng *rng, int32_t ndim, const int64_t *shape, double low, double high)
{
    SnlsTensor t = tensor_new(rng, SNLS_F32, ndim, shape, LAYOUT_PLAIN);
    tensor_fill(&t, rng, low, high);
    to_device(ctx, &t);
    return t;
}

static SnlsTensor room(SnlsContext *ctx, const SnlsTensor *like, int32_t dtype)
{
    SnlsTensor t = *like;
    t.dtype = dtype;
    t.data = check_alloc(snls_tensor_elements(&t), 4);
    to_device(ctx, &t);
    return t;
}

static Job make(SnlsContext *ctx, Rng *rng, int64_t batch, int64_t height, int64_t width, int64_t channels, int32_t heads, int32_t ws, int32_t ps)
{
    Job j;
    memset(&j, 0, sizeof j);
    snls_search_defaults(&j.s.params);
    j.s.params.heads = heads;
    j.s.params.ws = ws;
    j.s.params.ps = ps;
    j.s.params.k = 2;
    const int64_t shape[5] = {batch, 1, height, width, channels}, flow[6] = {batch, 1, 1, height, width, 2};
    j.s.query = filled(ctx, rng, 5, shape, -1, 1);
    j.s.key = filled(ctx, rng, 5, shape, -1, 1);
    j.s.flow = filled(ctx, rng, 6, flow, -0.4, 0.4);
    CHECK(snls_search_shape(ctx, &j.s) == SNLS_OK, "%s", snls_error(ctx));
    j.s.dist = room(ctx, &j.s.dist, SNLS_F32);
    j.s.offset = room(ctx, &j.s.offset, SNLS_F32);
    j.s.index = room(ctx, &j.s.index, SNLS_I32);
    j.g.dist = filled(ctx, rng, 6, j.s.dist.shape, -1, 1);
    j.g.query = filled(ctx, rng, 5, shape, 0, 0);
    j.g.key = filled(ctx, rng, 5, shape, 0, 0);
    j.g.flow = filled(ctx, rng, 6, flow, 0, 0);
    return j;
}

static void free_on_device(SnlsContext *ctx, Job *j)
{
    SnlsTensor *const all[] = {&j->s.query, &j->s.key, &j->s.flow, &j->s.dist, &j->s.offset, &j->s.index, &j->g.dist, &j->g.query, &j->g.key, &j->g.flow};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) snls_device_free(ctx, all[i]->data);
}

static void release(SnlsContext *ctx, Job *j)
{
    free_on_device(ctx, j);
    tensors_free();
}

static float *fetch(SnlsContext *ctx, const SnlsTensor *t)
{
    const int64_t n = snls_tensor_elements(t);
    float *copy = check_alloc(n, sizeof *copy);
    CHECK(snls_device_copy(ctx, copy, t->data, n * 4, SNLS_COPY_FROM_DEVICE) == SNLS_OK, "%s", snls_error(ctx));
    return copy;
}

/* ---- scratch and time ---- */

static void zeros(SnlsContext *ctx)
{
    Rng rng = {2};
    SnlsTensor t = filled(ctx, &rng, 1, (const int64_t[]){50}, 1, 2);
    CHECK(snls_device_zero(ctx, (float *)t.data + 3, 40 * 4) == SNLS_OK, "%s", snls_error(ctx));
    float *now = fetch(ctx, &t);
    for (int i = 0; i < 50; i++) CHECK((now[i] == 0) == (i >= 3 && i < 43), "number %d is %g", i, now[i]);
    snls_device_free(ctx, t.data);
}

static void equal_calls_take_scratch_once(SnlsContext *ctx)
{
    Rng rng = {3};
    Job j = make(ctx, &rng, 1, 20, 30, 6, 1, 5, 3); /* 6 channels: packed into scratch */
    CHECK(snls_search_forward(ctx, &j.s) == SNLS_OK && snls_search_backward(ctx, &j.s, &j.g) == SNLS_OK, "%s", snls_error(ctx));
    const int64_t held = snls_scratch_bytes(ctx);
    CHECK(held > 0, "nothing was packed");
    for (int i = 0; i < 3; i++) CHECK(snls_search_forward(ctx, &j.s) == SNLS_OK && snls_search_backward(ctx, &j.s, &j.g) == SNLS_OK, "%s", snls_error(ctx));
    CHECK(snls_scratch_bytes(ctx) == held && snls_scratch_peak(ctx) == held, "scratch grew from %lld to %lld bytes", (long long)held, (long long)snls_scratch_peak(ctx));
    double ms = -1;
    CHECK(snls_device_clock(ctx, &ms) == SNLS_OK && snls_device_clock(ctx, &ms) == SNLS_OK && ms >= 0, "the clock says %g", ms);
    release(ctx, &j);
}

/* ---- graphs: through the driver, which is there wherever the backend opens ---- */

typedef struct Driver {
    int (*stream_create)(void **, unsigned), (*begin)(void *, int), (*end)(void *, void **), (*instantiate)(void **, void *, unsigned long long),
        (*launch)(void *, void *), (*wait)(void *);
} Driver;

static bool load(void *library, const char *name, void *function)
{
    void *symbol = dlsym(library, name);
    memcpy(function, &symbol, sizeof symbol);
    return symbol != NULL;
}

static bool load_driver(Driver *d)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    return library && load(library, "cuStreamCreate", &d->stream_create) && load(library, "cuStreamBeginCapture_v2", &d->begin) &&
           load(library, "cuStreamEndCapture", &d->end) && load(library, "cuGraphInstantiateWithFlags", &d->instantiate) &&
           load(library, "cuGraphLaunch", &d->launch) && load(library, "cuStreamSynchronize", &d->wait);
}

/* Calls that need more and memory that others take in between do not reach what the graph works with. */
static void graph_keeps_its_scratch(SnlsContext *ctx, const Driver *d, void *graph, void *stream, const Job *j, const float *want)
{
    enum { BLOCKS = 32, BYTES = 1 << 20 };
    Rng rng = {6};
    void *block[BLOCKS];
    const int64_t n = snls_tensor_elements(&j->s.dist), captured = snls_scratch_captured(ctx);
    char *byte = check_alloc(BYTES, 1), *now = check_alloc(BYTES, 1);
    CHECK(captured > 0, "nothing was captured");
    Job large = make(ctx, &rng, 1, 150, 170, 6, 2, 5, 3);
    CHECK(snls_search_forward(ctx, &large.s) == SNLS_OK && snls_device_wait(ctx) == SNLS_OK, "%s", snls_error(ctx));
    CHECK(snls_scratch_captured(ctx) == captured && snls_scratch_bytes(ctx) > captured, "%lld of %lld bytes are the graph's", (long long)snls_scratch_captured(ctx), (long long)snls_scratch_bytes(ctx));
    memset(byte, 0x5a, BYTES);
    for (int i = 0; i < BLOCKS; i++)
        CHECK(snls_device_alloc(ctx, &block[i], BYTES) == SNLS_OK && snls_device_copy(ctx, block[i], byte, BYTES, SNLS_COPY_TO_DEVICE) == SNLS_OK, "%s", snls_error(ctx));
    CHECK(snls_device_zero(ctx, j->s.dist.data, n * 4) == SNLS_OK && !d->launch(graph, stream) && !d->wait(stream), "the graph does not run again");
    CHECK(!memcmp(want, fetch(ctx, &j->s.dist), (size_t)n * 4), "the graph gives other distances after a larger call");
    for (int i = 0; i < BLOCKS; i++) {
        CHECK(snls_device_copy(ctx, now, block[i], BYTES, SNLS_COPY_FROM_DEVICE) == SNLS_OK && !memcmp(now, byte, BYTES), "the graph wrote into memory that is not its own");
        snls_device_free(ctx, block[i]);
    }
    free_on_device(ctx, &large);
}

static void calls_can_be_captured(SnlsContext *ctx)
{
    Driver d = {0};
    Rng rng = {5};
    void *stream = NULL, *graph = NULL, *ready = NULL;
    const bool loaded = load_driver(&d);
    CHECK(loaded, "libcuda.so.1 lacks a function");
    if (!loaded) return;
    Job j = make(ctx, &rng, 1, 33, 47, 6, 2, 5, 3);
    CHECK(!d.stream_create(&stream, 1) && snls_device_set_stream(ctx, stream) == SNLS_OK, "no stream");
    CHECK(snls_search_forward(ctx, &j.s) == SNLS_OK && snls_search_backward(ctx, &j.s, &j.g) == SNLS_OK, "%s", snls_error(ctx));
    CHECK(snls_device_wait(ctx) == SNLS_OK, "%s", snls_error(ctx));
    const int64_t n = snls_tensor_elements(&j.s.dist);
    float *want = fetch(ctx, &j.s.dist), *zero = check_alloc(n, sizeof *zero);
    CHECK(snls_device_copy(ctx, j.s.dist.data, zero, n * 4, SNLS_COPY_TO_DEVICE) == SNLS_OK, "%s", snls_error(ctx));
    CHECK(!d.begin(stream, 0), "capture does not begin");
    CHECK(snls_search_forward(ctx, &j.s) == SNLS_OK && snls_search_backward(ctx, &j.s, &j.g) == SNLS_OK, "in a capture: %s", snls_error(ctx));
    CHECK(!d.end(stream, &graph) && graph, "the capture broke");
    CHECK(!d.instantiate(&ready, graph, 0) && !d.launch(ready, stream) && !d.wait(stream), "the graph does not run");
    CHECK(!memcmp(want, fetch(ctx, &j.s.dist), (size_t)n * 4), "the graph gives other distances");
    graph_keeps_its_scratch(ctx, &d, ready, stream, &j, want);
    snls_scratch_release(ctx); /* so that the call has to allocate, which a capture cannot */
    CHECK(!d.begin(stream, 0), "capture does not begin");
    CHECK(snls_search_forward(ctx, &j.s) == SNLS_ERR_DEVICE && strstr(snls_error(ctx), "captured"), "scratch taken inside a capture: %s", snls_error(ctx));
    (void)d.end(stream, &graph);
    CHECK(snls_device_set_stream(ctx, NULL) == SNLS_OK, "%s", snls_error(ctx));
    release(ctx, &j);
}

/* ---- sizes ---- */

/* B*heads beyond 65535, which is as far as two of a grid's axes go. One pixel a frame: every window is that pixel. */
static void many_batches(SnlsContext *ctx, int32_t ps)
{
    enum { B = 70001, F = 4 };
    Rng rng = {7};
    Job j = make(ctx, &rng, B, 1, 1, F, 1, 1, ps);
    CHECK(snls_search_forward(ctx, &j.s) == SNLS_OK && snls_search_backward(ctx, &j.s, &j.g) == SNLS_OK && snls_device_wait(ctx) == SNLS_OK, "%s", snls_error(ctx));
    const float *q = fetch(ctx, &j.s.query), *k = fetch(ctx, &j.s.key), *dist = fetch(ctx, &j.s.dist), *g = fetch(ctx, &j.g.dist), *dq = fetch(ctx, &j.g.query);
    for (int64_t b = 0; b < B; b++) {
        double sum = 0;
        for (int f = 0; f < F; f++) sum += ps * ps * pow((double)q[b * F + f] - k[b * F + f], 2);
        if (!CHECK(fabs(dist[2 * b] - sum) <= 1e-4 * (1 + sum) && isinf(dist[2 * b + 1]), "clip %lld: %g, not %g", (long long)b, dist[2 * b], sum)) break;
        const double d = 2 * ps * ps * (double)g[2 * b] * ((double)q[b * F] - k[b * F]);
        if (!CHECK(fabs(dq[b * F] - d) <= 1e-4 * (1 + fabs(d)), "clip %lld: gradient %g, not %g", (long long)b, dq[b * F], d)) break;
    }
    release(ctx, &j);
}

/* More than 2^31 candidates in all, and a key that is the query moved: every query must find itself. */
static void many_candidates(SnlsContext *ctx)
{
    enum { SIDE = 480, WS = 101 };
    const int64_t shape[5] = {1, 1, SIDE, SIDE, 4};
    Rng rng = {11};
    SnlsTensor q = tensor_new(&rng, SNLS_F32, 5, shape, LAYOUT_PLAIN);
    tensor_fill(&q, &rng, -1, 1);
    SnlsSearch s;
    memset(&s, 0, sizeof s);
    snls_search_defaults(&s.params);
    s.params.ws = WS;
    _Static_assert((int64_t)SIDE * SIDE * WS * WS > INT32_MAX, "too few candidates");
    s.query = s.key = q;
    CHECK(snls_search_shape(ctx, &s) == SNLS_OK, "%s", snls_error(ctx));
    to_device(ctx, &s.query);
    s.key.data = s.query.data;
    s.key.device = s.query.device;
    s.dist = room(ctx, &s.dist, SNLS_F32);
    s.offset = room(ctx, &s.offset, SNLS_F32);
    s.index.data = NULL;
    CHECK(snls_search_forward(ctx, &s) == SNLS_OK && snls_device_wait(ctx) == SNLS_OK, "%s", snls_error(ctx));
    const float *dist = fetch(ctx, &s.dist), *offset = fetch(ctx, &s.offset);
    for (int64_t i = 0; i < (int64_t)SIDE * SIDE; i++)
        if (!CHECK(dist[i] == 0 && offset[3 * i] == 0 && offset[3 * i + 1] == 0 && offset[3 * i + 2] == 0, "query %lld is at distance %g from itself", (long long)i, dist[i])) break;
    snls_device_free(ctx, s.query.data);
    snls_device_free(ctx, s.dist.data);
    snls_device_free(ctx, s.offset.data);
    tensors_free();
}

int main(void)
{
    SnlsContext *ctx = context_open_cuda(false);
    check_repeat("test_cuda");
    zeros(ctx);
    equal_calls_take_scratch_once(ctx);
    calls_can_be_captured(ctx);
    many_batches(ctx, 1);
    many_batches(ctx, 2);
    many_candidates(ctx);
    snls_close(&ctx);
    return check_end();
}
