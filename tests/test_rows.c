/* test_rows.c: passes over rows of pixels (nn/nn.h, rows.c) against plain sums in double, on every instruction set: GELU of every bf16 number,
 * gates, norms and sums of odd sizes.
 *   test_rows */
#include "check.h"
#include "nn/gelu.h"
#include "nn/nn.h"
#include <math.h>
#include <snls/snls.h>
#include <stdlib.h>
#include <string.h>

static void every_gelu(SnlsContext *ctx)
{
    enum { ALL = 1 << 16 };
    uint16_t *x = check_alloc(ALL, sizeof *x);
    for (int64_t i = 0; i < ALL; i++) x[i] = (uint16_t)i;
    snls_nn_rows_gelu(ctx, x, &(NnRows){ ALL / 64, 64, SNLS_BF16 });
    for (int64_t i = 0; i < ALL; i++) {
        const double from = (double)snls_bf16_to_float((uint16_t)i), got = (double)snls_bf16_to_float(x[i]), want = snls_nn_gelu(from);
        if (isnan(from)) CHECK(isnan(got), "gelu(NaN) is %g", got);
        else if (fabs(from) < 1e30) CHECK(fabs(got - want) <= 5e-5 + fabs(want) / 256 + 1e-7 * fabs(from), "gelu(%g) is %g, must be %g", from, got, want);
    }
}

/* In f32: NaN of either sign comes out as NaN, and no number becomes a whole one that is not there. */
static void gelu_of_nan(void)
{
    for (int sign = -1; sign < 2; sign += 2) {
        const float nan = copysignf(NAN, (float)sign);
        CHECK(snls_nn_at_most_87(nan) == 87, "%gNaN is not bounded", sign * 1.0);
        CHECK(isnan(snls_nn_gelu_of(nan)) && isnan(snls_nn_gelu_slope(nan)), "gelu of %gNaN is %g", sign * 1.0, (double)snls_nn_gelu_of(nan));
    }
}

typedef struct Case { int64_t pixels, channels; int32_t dtype; SnlsTensor x, z, y; float gates[NN_ROWS_MOST], shift[NN_ROWS_MOST]; } Case;

static SnlsTensor draw(Rng *rng, const Case *c)
{
    const SnlsTensor t = snls_tensor(check_alloc(c->pixels * c->channels, sizeof(float)), (SnlsDtype)c->dtype, 2, (const int64_t[]){ c->pixels, c->channels });
    for (int64_t i = 0; i < c->pixels * c->channels; i++) snls_store(&t, i, rng_real(rng, -2, 2));
    return t;
}

static void check_value(const Case *c, const char *what, int64_t i, double want)
{
    const double eps = c->dtype == SNLS_BF16 ? 1.0 / 256 : 1e-5, got = snls_load(&c->y, i);
    CHECK(fabs(got - want) <= eps * (fabs(want) + 0.1), "%s of %d pixels, %d channels: element %d is %g, must be %g", what, (int)c->pixels, (int)c->channels, (int)i, got, want);
}

static void norm_pixel(const Case *c, int64_t pixel)
{
    const int64_t n = c->channels, at = pixel * n;
    double mean = 0, square = 0;
    for (int64_t i = 0; i < n; i++) mean += snls_load(&c->x, at + i) / (double)n;
    for (int64_t i = 0; i < n; i++) square += pow(snls_load(&c->x, at + i) - mean, 2) / (double)n;
    for (int64_t i = 0; i < n; i++) check_value(c, "norm", at + i, (double)c->gates[i] * (snls_load(&c->x, at + i) - mean) / sqrt(square + 1e-3) + (double)c->shift[i]);
}

static void one_case(SnlsContext *ctx, uint64_t seed)
{
    static Case c;
    Rng rng = { seed };
    c = (Case){ .pixels = rng_int(&rng, 1, 40), .channels = rng_int(&rng, 1, 70), .dtype = seed % 2 ? SNLS_BF16 : SNLS_F32 };
    c.x = draw(&rng, &c), c.z = draw(&rng, &c), c.y = draw(&rng, &c);
    for (int64_t i = 0; i < c.channels; i++) c.gates[i] = (float)rng_real(&rng, 0, 1), c.shift[i] = (float)rng_real(&rng, -1, 1);
    const NnRows rows = { c.pixels, c.channels, c.dtype };
    const int64_t count = c.pixels * c.channels;
    for (int with = 0; with < 2; with++) {
        snls_nn_rows_gate(ctx, c.y.data, c.x.data, c.gates, with ? c.z.data : NULL, &rows);
        for (int64_t i = 0; i < count; i++) check_value(&c, "gate", i, snls_load(&c.x, i) * (double)c.gates[i % c.channels] + (with ? snls_load(&c.z, i) : 0));
    }
    const SnlsTensor scale = snls_tensor(c.gates, SNLS_F32, 1, &c.channels), shift = snls_tensor(c.shift, SNLS_F32, 1, &c.channels);
    snls_nn_rows_norm(ctx, c.y.data, c.x.data, &scale, &shift, 1e-3, &rows);
    for (int64_t p = 0; p < c.pixels; p++) norm_pixel(&c, p);
    double sums[NN_ROWS_MOST] = { 0 }, want[NN_ROWS_MOST] = { 0 };
    snls_nn_rows_sum(ctx, sums, c.x.data, &rows);
    for (int64_t i = 0; i < count; i++) want[i % c.channels] += snls_load(&c.x, i);
    for (int64_t i = 0; i < c.channels; i++) CHECK(fabs(sums[i] - want[i]) < 1e-4, "the sum of channel %d is %g, must be %g", (int)i, sums[i], want[i]);
}

int main(int argc, char **argv)
{
    (void)argc;
    gelu_of_nan();
    for (int level = SNLS_CPU_C; level <= snls_cpu_level_max(); level++) {
        SnlsContext *ctx = NULL;
        if (snls_open(&ctx, &(SnlsContextParams){ .backend = "cpu", .threads = 2 }) < 0) return 1;
        ctx->cpu_level = level;
        check_repeat("%s, level %d", argv[0], level);
        every_gelu(ctx);
        for (uint64_t seed = 1; seed <= 40; seed++) one_case(ctx, seed);
        snls_close(&ctx);
    }
    return check_end();
}
