/* test_nn_wide.c: convolutions over rows so wide that they are made in pieces give what plain loops give, at the seams too, in the scratch that was planned; what a library
 * beneath keeps for them stops growing with the width.
 *   test_nn_wide [SEED] */
#include "check_net.h"
#include <math.h>
#include <snls/snls.h>
#include <stdlib.h>

static int32_t conv(NnNet *net, int32_t x, const char *name, int64_t out, NnConv c, int32_t residual)
{
    const NnConvSpec spec = { .conv = c, .out = out, .residual = residual, .init = NN_INIT_NORMAL, .scale = 0.02 };
    return snls_nn_conv(net, x, name, &spec);
}

/* Every kind that networks have: padded, with a residual that is overwritten and one that is not, in steps of two, without padding. */
static int32_t build(NnNet *net, Rng *rng, int32_t x, void *opaque)
{
    (void)rng, (void)opaque;
    const int32_t a = conv(net, x, "a", 8, (NnConv){ 3, 1, 1, 1, 0, NN_RELU, 0 }, -1), b = conv(net, a, "b", 8, (NnConv){ 3, 1, 1, 1, 0, NN_LINEAR, 0 }, a);
    const int32_t c = conv(net, a, "c", 8, (NnConv){ 3, 1, 1, 2, 0, NN_LINEAR, 0 }, b);
    const int32_t d = conv(net, c, "d", 8, (NnConv){ 5, 2, 2, 1, 0, NN_LEAKY, 0.1 }, -1);
    return snls_nn_concat(net, conv(net, c, "e", 8, (NnConv){ 2, 2, 0, 1, 0, NN_LINEAR, 0 }, -1), d);
}

/* Values of the reference, as the other stores them; the reference then has the same. */
static void share(const SnlsTensor *a, const SnlsTensor *b)
{
    for (int64_t i = 0; i < snls_tensor_elements(a); i++) {
        snls_store(b, i, snls_load(a, i));
        snls_store(a, i, snls_load(b, i));
    }
}

static void share_all(const TestNet *a, const TestNet *b)
{
    share(&a->x, &b->x);
    for (int64_t i = 0; i < a->params.count; i++) {
        const SnlsTensor from = snls_nn_param_view(&a->params, &a->params.list[i], a->params.value), to = snls_nn_param_view(&b->params, &b->params.list[i], b->params.value);
        share(&from, &to);
    }
}

/* Four layers of up to 200 terms, each of a few units at most: f32 rounds each sum, bf16 each result. */
static void compare(const TestNet *got, const TestNet *want, int32_t dtype, int64_t width)
{
    double most = 1;
    for (int64_t i = 0; i < snls_tensor_elements(&want->y); i++) most = fmax(most, fabs(snls_load(&want->y, i)));
    const double bound = most * (dtype == SNLS_F32 ? 200 * EPS_F32 : 16.0 / 256);
    for (int64_t i = 0; i < snls_tensor_elements(&want->y); i++) {
        const double g = snls_load(&got->y, i), w = snls_load(&want->y, i);
        if (!CHECK(fabs(g - w) <= bound, "%d columns, %s: number %lld is %.9g, the reference has %.9g (bound %.3g)", (int)width, dtype == SNLS_F32 ? "f32" : "bf16", (long long)i, g, w, bound)) return;
    }
}

static void check_width(uint64_t seed, int64_t width, int32_t dtype, int32_t threads)
{
    Rng rng = { seed }, again = { seed };
    SnlsContext *ref = NULL, *cpu = NULL;
    TestNet a, b;
    const int64_t shape[4] = { 1, 2, width, 4 };
    check_repeat("test_nn_wide %llu", (unsigned long long)seed);
    if (snls_open(&ref, &(SnlsContextParams){ .backend = "ref" }) < 0 || snls_open(&cpu, &(SnlsContextParams){ .backend = "cpu", .threads = threads }) < 0) exit(1);
    if (test_net_open(&a, ref, &rng, SNLS_F64, false, shape, build, NULL) && test_net_open(&b, cpu, &again, dtype, false, shape, build, NULL)) {
        share_all(&a, &b);
        const int64_t room = snls_nn_room(&b.net);
        test_net_loss(&a), test_net_loss(&b);
        compare(&b, &a, dtype, width);
        CHECK(snls_scratch_peak(cpu) <= room + 1024, "%d columns: %lld bytes of scratch are planned, %lld taken", (int)width, (long long)room, (long long)snls_scratch_peak(cpu));
    }
    test_net_close(&a), test_net_close(&b);
    snls_close(&ref);
    snls_close(&cpu);
}

static int64_t own_bytes(SnlsContext *ctx, int64_t width)
{
    NnParams params = { .dtype = SNLS_F32 };
    NnNet net;
    snls_nn_begin(&net, ctx, &params, SNLS_F32, false);
    build(&net, NULL, snls_nn_input(&net, 1, 4, width, 4), NULL);
    const int64_t bytes = snls_nn_own(&net);
    snls_nn_free(&net);
    snls_nn_params_free(ctx, &params);
    return bytes;
}

int main(int argc, char **argv)
{
    const uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    SnlsContext *ctx = NULL;
    if (snls_open(&ctx, &(SnlsContextParams){ .backend = "cpu", .threads = 1 }) < 0) return 1;
    CHECK(own_bytes(ctx, 1 << 18) <= own_bytes(ctx, 1 << 14) + (64 << 10), "%lld bytes are kept for 2^18 columns, %lld for 2^14", (long long)own_bytes(ctx, 1 << 18), (long long)own_bytes(ctx, 1 << 14));
    snls_close(&ctx);
    check_width(seed, 4097, SNLS_F32, 1);
    check_width(seed + 1, 8322, SNLS_F32, 2);
    check_width(seed + 2, 8201, SNLS_BF16, 2);
    return check_end();
}
