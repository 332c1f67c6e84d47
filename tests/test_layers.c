/* test_layers.c: layers that only pass over memory give the same bits on every instruction set (simd/layers.h says so), with any number of channels and with
 * those that have loops of their own; norm is also near what it should be, in double.
 *   test_layers [SEED [COUNT]] */
#include "check.h"
#include "simd/dsp.h"
#include "simd/layers.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PIXELS = 37, CHANNELS = 160, NUMBERS = PIXELS * CHANNELS, EPS_INVERSE = 1000000 };

typedef struct Case { SnlsRows rows; float x[NUMBERS], z[NUMBERS], factor[CHANNELS], shift[CHANNELS]; uint16_t half_x[NUMBERS], half_z[NUMBERS]; } Case;

typedef struct Results { float norm[NUMBERS], scale[NUMBERS], gate[NUMBERS], add[NUMBERS], sums[CHANNELS]; uint16_t gelu[NUMBERS]; } Results; /* of bf16: the first half of each */

static uint16_t upper_half(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return (uint16_t)(u >> 16);
}

static void draw(Rng *rng, Case *c)
{
    c->rows = (SnlsRows){ rng_int(rng, 1, PIXELS), (int64_t)RNG_PICK(rng, 1, 3, 16, 17, 32, 48, 64, 96, 128, 160), rng_one_in(rng, 2) };
    const double spread = RNG_PICK(rng, 1e-3, 1, 100), mean = RNG_PICK(rng, 0, 3);
    for (int i = 0; i < CHANNELS; i++) c->factor[i] = (float)rng_real(rng, -2, 2), c->shift[i] = (float)rng_real(rng, -2, 2);
    for (int i = 0; i < NUMBERS; i++) c->x[i] = (float)(mean + rng_real(rng, -spread, spread)), c->z[i] = (float)rng_real(rng, -5, 5);
    if (rng_one_in(rng, 4)) c->x[rng_int(rng, 0, c->rows.pixels * c->rows.channels - 1)] = rng_one_in(rng, 2) ? NAN : INFINITY;
    for (int i = 0; i < NUMBERS; i++) c->half_x[i] = upper_half(c->x[i]), c->half_z[i] = upper_half(c->z[i]);
}

static void run(int level, const Case *c, Results *r)
{
    static float room[SNLS_NORM_ROWS * CHANNELS];
    const void *x = c->rows.bf16 ? (const void *)c->half_x : c->x, *z = c->rows.bf16 ? (const void *)c->half_z : c->z;
    SnlsLayers layers;
    snls_layers(&layers, level);
    memset(r, 0, sizeof *r);
    memcpy(r->gelu, c->half_x, sizeof r->gelu);
    layers.norm(r->norm, x, c->factor, c->shift, 1.0 / EPS_INVERSE, &c->rows, room);
    layers.scale(r->scale, x, c->factor, &c->rows);
    layers.gate(r->gate, x, c->factor, z, &c->rows);
    layers.add(r->add, x, 0.5f, z, -2, &c->rows);
    layers.sum(r->sums, x, &c->rows);
    layers.gelu(r->gelu, c->rows.pixels * c->rows.channels);
}

/* In f32, pixels without NaN or infinity. */
static void check_norm(const Case *c, const Results *r, uint64_t seed)
{
    const int64_t n = c->rows.channels;
    for (int64_t p = 0; !c->rows.bf16 && p < c->rows.pixels; p++) {
        const float *x = c->x + p * n;
        double mean = 0, square = 0;
        for (int64_t i = 0; i < n; i++) mean += x[i] / (double)n;
        for (int64_t i = 0; i < n; i++) square += (x[i] - mean) * (x[i] - mean) / (double)n;
        for (int64_t i = 0; isfinite(mean) && i < n; i++) {
            const double want = c->factor[i] * (x[i] - mean) / sqrt(square + 1.0 / EPS_INVERSE) + c->shift[i], off = fabs(want - (double)r->norm[p * n + i]);
            CHECK(off <= 2e-3, "seed %llu, %lld channels: norm is off by %g", (unsigned long long)seed, (long long)n, off);
        }
    }
}

int main(int argc, char **argv)
{
    static Case c;
    static Results plain, other;
    const uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1, count = argc > 2 ? strtoull(argv[2], NULL, 10) : argc > 1 ? 1 : 200;
    for (uint64_t seed = first; seed < first + count; seed++) {
        Rng rng = { seed };
        check_repeat("test_layers %llu", (unsigned long long)seed);
        draw(&rng, &c);
        run(1, &c, &plain);
        check_norm(&c, &plain, seed);
        for (int level = 2; level <= snls_dsp_level_max(); level++) {
            run(level, &c, &other);
            CHECK(!memcmp(&plain, &other, sizeof plain), "seed %llu: level %d gives other bits, %lld pixels of %lld channels%s", (unsigned long long)seed, level,
                  (long long)c.rows.pixels, (long long)c.rows.channels, c.rows.bf16 ? " in bf16" : "");
        }
    }
    return check_end();
}
