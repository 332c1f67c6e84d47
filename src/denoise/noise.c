/* noise.c: Gaussian noise from a counter: value i of a seed is the same however the work is cut up. */
#include "denoise/nlb.h"
#include <math.h>

/* splitmix64 (Steele, Lea, Flood, 2014): a bijection that mixes well, of a counter. */
static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static double uniform(uint64_t bits) { return ((double)(bits >> 11) + 0.5) * 0x1p-53; } /* in (0,1) */

/* Draw number i: Box and Muller's cosine for even numbers, the sine of the same pair for odd. */
static double normal(uint64_t seed, uint64_t i)
{
    const uint64_t pair = mix(mix(seed) + (i >> 1) * 0xd1342543de82ef95u);
    const double radius = sqrt(-2 * log(uniform(pair))), angle = 6.283185307179586477 * uniform(mix(pair));
    return radius * (i & 1 ? sin(angle) : cos(angle));
}

SnlsStatus snls_noise_add(SnlsContext *ctx, float *values, int64_t count, int64_t first, double sigma, uint64_t seed)
{
    if (!ctx) return SNLS_ERR_ARG;
    SNLS_REQUIRE(ctx, count >= 0 && first >= 0 && (values || !count), SNLS_ERR_ARG,
                 "noise: count is %lld and first %lld, must not be negative", (long long)count, (long long)first);
    SNLS_REQUIRE(ctx, isfinite(sigma) && sigma >= 0, SNLS_ERR_ARG, "noise: sigma is %g, must be 0 or more", sigma);
#pragma omp parallel for num_threads(ctx->threads) schedule(static)
    for (int64_t i = 0; i < count; i++) values[i] += (float)(sigma * normal(seed, (uint64_t)(first + i)));
    return SNLS_OK;
}
