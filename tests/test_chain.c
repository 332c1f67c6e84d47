/* test_chain.c: the whole way: flow_compose -> search -> weights -> gather_add, forward and back again. The gradient that arrives at
 * the frame-to-frame flows, at query, key and value, against differences of the whole chain in double (ref); and the same chain on
 * cpu against ref. What a network does, and what the flow's gradient is for. */
#include "spec.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { T = 3, H = 6, W = 7, F = 3, HEADS = 2, C = HEADS * F, K = 5, WT = 1, SLOTS = 2 * WT };
enum { IN_FFLOW, IN_BFLOW, IN_QUERY, IN_KEY, IN_VALUE, INPUTS };
static const char *const names[INPUTS] = {"fflow", "bflow", "query", "key", "value"};

typedef struct Chain {
    SnlsFlowCompose compose; SnlsFlowComposeGrad d_compose;
    SnlsSearch search; SnlsSearchGrad d_search;
    SnlsWeights weights; SnlsWeightsGrad d_weights;
    SnlsGatherAdd gather; SnlsGatherAddGrad d_gather;
    SnlsTensor in[INPUTS], d_in[INPUTS];
} Chain;

static void make_inputs(Chain *c, int32_t dtype, Rng *rng)
{
    for (int i = 0; i < INPUTS; i++) {
        const int64_t shape[5] = {1, T, H, W, i < IN_QUERY ? 2 : C};
        c->in[i] = spec_tensor(dtype, 5, shape);
        c->d_in[i] = spec_tensor(dtype, 5, shape);
        for (int64_t n = 0; n < tensor_count(&c->in[i]); n++) /* smooth flows: the second step must stay off the kinks as well */
            tensor_set(&c->in[i], n, i < IN_QUERY ? 0.3 + 0.2 * rng_real(rng, -1, 1) + (n % 2 ? 0.9 : -1.4) : rng_real(rng, -1, 1));
    }
}

/* Tensors between the operators belong to the caller; each has its gradient beside it. */
static Chain make_chain(int32_t dtype, uint64_t seed)
{
    Chain c;
    Rng rng = {seed};
    memset(&c, 0, sizeof c);
    make_inputs(&c, dtype, &rng);
    snls_flow_compose_defaults(&c.compose.params);
    snls_search_defaults(&c.search.params);
    snls_weights_defaults(&c.weights.params);
    snls_gather_add_defaults(&c.gather.params);
    c.compose.params.wt = c.search.params.wt = WT;
    c.search.params.ws = 3; c.search.params.k = K; c.search.params.heads = HEADS; c.search.params.ps = c.gather.params.ps = 2; c.search.params.stride1 = 0.5;
    c.weights.params.scale = 0.5;
    c.compose.fflow = c.in[IN_FFLOW]; c.compose.bflow = c.in[IN_BFLOW];
    c.compose.flow = c.search.flow = spec_tensor(dtype, SHAPE(1, T, SLOTS, H, W, 2));
    c.search.query = c.in[IN_QUERY]; c.search.key = c.in[IN_KEY];
    c.search.dist = c.weights.dist = spec_tensor(dtype, SHAPE(1, HEADS, T, H, W, K));
    c.search.offset = c.gather.offset = spec_tensor(dtype, SHAPE(1, HEADS, T, H, W, K, 3));
    c.search.index = spec_tensor(SNLS_I32, SHAPE(1, HEADS, T, H, W, K));
    c.weights.weight = c.gather.weight = spec_tensor(dtype, SHAPE(1, HEADS, T, H, W, K));
    c.gather.value = c.in[IN_VALUE];
    c.gather.out = spec_tensor(dtype, SHAPE(1, T, H, W, C));
    c.d_gather.out = spec_tensor(dtype, SHAPE(1, T, H, W, C));
    spec_random(&c.d_gather.out, &rng);
    c.d_gather.value = c.d_in[IN_VALUE];
    c.d_gather.weight = c.d_weights.weight = spec_tensor(dtype, SHAPE(1, HEADS, T, H, W, K));
    c.d_gather.offset = c.d_search.offset = spec_tensor(dtype, SHAPE(1, HEADS, T, H, W, K, 3));
    c.d_weights.dist = c.d_search.dist = spec_tensor(dtype, SHAPE(1, HEADS, T, H, W, K));
    c.d_search.query = c.d_in[IN_QUERY]; c.d_search.key = c.d_in[IN_KEY];
    c.d_search.flow = c.d_compose.flow = spec_tensor(dtype, SHAPE(1, T, SLOTS, H, W, 2));
    c.d_compose.fflow = c.d_in[IN_FFLOW]; c.d_compose.bflow = c.d_in[IN_BFLOW];
    return c;
}

/* L = <out, d_out> */
static double forward(SnlsContext *ctx, const Chain *c)
{
    const bool ok = snls_flow_compose_forward(ctx, &c->compose) == SNLS_OK && snls_search_forward(ctx, &c->search) == SNLS_OK &&
                    snls_weights_forward(ctx, &c->weights) == SNLS_OK && snls_gather_add_forward(ctx, &c->gather) == SNLS_OK;
    CHECK(ok, "forward: %s", snls_error(ctx));
    double sum = 0;
    for (int64_t i = 0; i < tensor_count(&c->gather.out); i++) sum += tensor_get(&c->gather.out, i) * tensor_get(&c->d_gather.out, i);
    return sum;
}

static void backward(SnlsContext *ctx, const Chain *c)
{
    const bool ok = snls_gather_add_backward(ctx, &c->gather, &c->d_gather) == SNLS_OK && snls_weights_backward(ctx, &c->weights, &c->d_weights) == SNLS_OK &&
                    snls_search_backward(ctx, &c->search, &c->d_search) == SNLS_OK && snls_flow_compose_backward(ctx, &c->compose, &c->d_compose) == SNLS_OK;
    CHECK(ok, "backward: %s", snls_error(ctx));
}

static double moved(SnlsContext *ctx, const Chain *c, int input, const double *at, const double *v, double step, uint64_t chosen, bool *other)
{
    for (int64_t i = 0; i < tensor_count(&c->in[input]); i++) tensor_set(&c->in[input], i, at[i] + step * v[i]);
    const double loss = forward(ctx, c);
    *other = *other || tensor_hash(&c->search.index) != chosen;
    return loss;
}

static int compared[INPUTS];

static void check_differences(SnlsContext *ctx, uint64_t seed)
{
    const Chain c = make_chain(SNLS_F64, seed);
    const double h = 1e-5;
    Rng rng = {seed * 77};
    forward(ctx, &c);
    backward(ctx, &c);
    const uint64_t chosen = tensor_hash(&c.search.index);
    for (int input = 0; input < INPUTS; input++) {
        const int64_t n = tensor_count(&c.in[input]);
        double *at = tensor_doubles(&c.in[input]), *v = check_alloc(n, sizeof *v), want = 0, scale = 0;
        for (int64_t i = 0; i < n; i++) {
            v[i] = rng_real(&rng, -1, 1);
            want += v[i] * tensor_get(&c.d_in[input], i);
            scale += fabs(v[i] * tensor_get(&c.d_in[input], i));
        }
        bool other = false;
        const double near = moved(ctx, &c, input, at, v, h, chosen, &other) - moved(ctx, &c, input, at, v, -h, chosen, &other);
        const double far = moved(ctx, &c, input, at, v, 2 * h, chosen, &other) - moved(ctx, &c, input, at, v, -2 * h, chosen, &other);
        moved(ctx, &c, input, at, v, 0, chosen, &other);
        const double got = (8 * near - far) / (12 * h);
        if (other || fabs(near / (2 * h) - far / (4 * h)) > 1e-4 * scale) continue; /* the choice changed, or a kink lies between */
        compared[input]++;
        CHECK(scale > 1e-3 && fabs(got - want) <= 1e-6 * scale, "seed %d: gradient of %s: the difference is %.10g, backward says %.10g", (int)seed, names[input], got, want);
    }
    tensors_free();
}

/* cpu in f32 on the same numbers: the same choice nearly everywhere, so gradients agree in the large. */
static void check_backend(SnlsContext *ref, SnlsContext *cpu, uint64_t seed)
{
    const Chain a = make_chain(SNLS_F32, seed), b = make_chain(SNLS_F32, seed);
    const double x = forward(ref, &a), y = forward(cpu, &b);
    CHECK(fabs(x - y) < 1e-3 * (1 + fabs(x)), "seed %d: the chain gives %.9g on ref and %.9g on %s", (int)seed, x, y, spec_where(cpu));
    backward(ref, &a);
    backward(cpu, &b);
    for (int input = 0; same_bits(&a.search.index, &b.search.index) && input < INPUTS; input++) {
        double off = 0, size = 0;
        for (int64_t i = 0; i < tensor_count(&a.d_in[input]); i++) {
            off += fabs(tensor_get(&a.d_in[input], i) - tensor_get(&b.d_in[input], i));
            size += fabs(tensor_get(&a.d_in[input], i));
        }
        CHECK(off < 1e-4 * size, "seed %d: gradient of %s on %s: off by %g of %g", (int)seed, names[input], spec_where(cpu), off, size);
    }
    tensors_free();
}

int main(void)
{
    SnlsContext *ref = context_open("ref", 0, 1);
    check_repeat("test_chain");
    for (uint64_t seed = 1; seed <= 16; seed++) check_differences(ref, seed);
    for (int input = 0; input < INPUTS; input++) CHECK(compared[input] >= 4, "only %d of 16 differences by %s could be compared", compared[input], names[input]);
    for (int32_t level = 1; level <= snls_cpu_level_max(); level++) {
        SnlsContext *cpu = context_open("cpu", level, 2);
        for (uint64_t seed = 1; seed <= 5; seed++) check_backend(ref, cpu, seed);
        snls_close(&cpu);
    }
    snls_close(&ref);
    return check_end();
}
