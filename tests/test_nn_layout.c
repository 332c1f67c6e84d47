/* test_nn_layout.c: values of a network that are alive together do not lie on one another, but for the one case where that is meant; and memory is
 * not wasted: no network takes much more than what is alive at its fullest step.
 *   test_nn_layout [SEED] */
#include "check.h"
#include "model/stan.h"
#include <snls/snls.h>
#include <stdlib.h>
#include <string.h>

/* Value b is made in place of a: a is the residual of the convolution that makes b, and nobody reads it afterwards. */
static bool in_place(const NnNet *net, int64_t a, int64_t b)
{
    const NnValue *v = &net->values[b];
    return v->first >= 0 && net->steps[v->first].op == NN_conv && net->steps[v->first].xi[1] == a && net->values[a].last == v->first && net->values[a].place == v->place;
}

static bool alive(const NnValue *v, int64_t step) { return v->kept || (v->first <= step && step <= v->last); }

/* Most bytes that any step needs at once. */
static int64_t fullest(const NnNet *net)
{
    int64_t most = 0;
    for (int64_t step = 0; step < net->step_count; step++) {
        int64_t sum = 0;
        for (int64_t i = 0; i < net->value_count; i++) sum += alive(&net->values[i], step) ? snls_nn_value_bytes(&net->values[i]) : 0;
        most = sum > most ? sum : most;
    }
    return most;
}

static void check_layout(NnNet *net, const char *what, double waste)
{
    const int64_t bytes = snls_nn_bytes(net);
    if (!CHECK(net->status >= 0 && bytes > 0, "%s: status %d", what, (int)net->status)) return;
    int64_t shared = 0;
    for (int64_t i = 0; i < net->value_count; i++) {
        const NnValue *a = &net->values[i];
        CHECK(a->place >= 0 && a->place % 64 == 0 && a->place + snls_nn_value_bytes(a) <= bytes, "%s: value %lld is outside the block", what, (long long)i);
        for (int64_t j = 0; j < i; j++) {
            const NnValue *b = &net->values[j];
            if (a->place + snls_nn_value_bytes(a) <= b->place || b->place + snls_nn_value_bytes(b) <= a->place) continue;
            shared++;
            const bool together = a->kept || b->kept || (a->first <= b->last && b->first <= a->last);
            if (!CHECK(!together || in_place(net, j, i), "%s: values %lld and %lld are alive together and overlap", what, (long long)j, (long long)i)) return;
        }
    }
    CHECK(net->step_count < 10 || net->train || shared > 0, "%s: no memory is used twice", what);
    CHECK(net->train || (double)bytes <= waste * (double)fullest(net), "%s: %lld bytes, of which %lld are needed at once", what, (long long)bytes, (long long)fullest(net));
}

/* Layers with and without residuals that read any value so far of their size. */
static void random_net(uint64_t seed, SnlsContext *ctx)
{
    Rng rng = { seed };
    NnParams params = { .dtype = SNLS_F32 };
    NnNet net;
    snls_nn_begin(&net, ctx, &params, SNLS_F32, rng_one_in(&rng, 4));
    int32_t made[64], n = 1;
    made[0] = snls_nn_input(&net, 1, 8, 8, 4);
    for (const int32_t end = (int32_t)rng_int(&rng, 2, 40); n < end; n++) {
        const int32_t a = made[rng_int(&rng, n < 4 ? 0 : n - 4, n - 1)], b = made[rng_int(&rng, n < 8 ? 0 : n - 8, n - 1)];
        switch (rng_int(&rng, 0, 3)) {
        case 0: made[n] = snls_nn_add(&net, a, 1, b, 1); break;
        case 1: made[n] = snls_nn_conv3(&net, snls_nn_concat(&net, a, b), snls_nn_name("wide%d", (int)n).text, 4, NN_LINEAR, rng_one_in(&rng, 2) ? b : -1); break;
        case 2: made[n] = snls_nn_act(&net, a, NN_RELU, 0, NULL); break;
        default: made[n] = snls_nn_conv3(&net, a, snls_nn_name("conv%d", (int)n).text, 4, NN_LINEAR, rng_one_in(&rng, 2) ? b : -1);
        }
        if (rng_one_in(&rng, 8)) snls_nn_keep(&net, made[n]);
    }
    snls_nn_keep(&net, made[n - 1]);
    check_layout(&net, "a random network", 2.5);
    snls_nn_free(&net);
    snls_nn_params_free(ctx, &params);
}

static void models(SnlsContext *ctx)
{
    for (int which = 0; which < 2; which++) {
        NnParams params = { .dtype = SNLS_F32 };
        NnNet net;
        const StanConfig stan = snls_stan_config();
        const StanSConfig small = snls_stan_s_config();
        snls_nn_begin(&net, ctx, &params, SNLS_BF16, false);
        const StanShape shape = { 1, 10, 480, 480 };
        const StanNet made = which ? snls_stan_s_build(&net, &small, &shape) : snls_stan_build(&net, &stan, &shape);
        snls_nn_keep(&net, made.out);
        check_layout(&net, which ? "STAN-S" : "STAN", 1.1);
        if (!which) CHECK(snls_nn_bytes(&net) < (int64_t)2 << 30, "STAN: %lld bytes of values for ten frames of 480x480", (long long)snls_nn_bytes(&net));
        snls_nn_free(&net);
        snls_nn_params_free(ctx, &params);
    }
}

int main(int argc, char **argv)
{
    static const char *const backends[] = { "ref", "cpu" };
    const uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    check_repeat("test_nn_layout");
    for (int b = 0; b < 2; b++) {
        SnlsContext *ctx = NULL;
        if (!CHECK(snls_open(&ctx, &(SnlsContextParams){ .backend = backends[b], .threads = 1 }) == SNLS_OK, "open")) break;
        for (uint64_t i = 0; i < 200; i++) random_net(seed + i, ctx);
        models(ctx);
        snls_close(&ctx);
    }
    return check_end();
}
