/* noise.c: Gaussian noise from a counter: value i of a seed is the same however the work is cut up. */
#include "base/noise.h"
#include "denoise/nlb.h"
#include <math.h>

SnlsStatus snls_noise_add(SnlsContext *ctx, float *values, int64_t count, int64_t first, double sigma, uint64_t seed)
{
    if (!ctx) return SNLS_ERR_ARG;
    SNLS_REQUIRE(ctx, values || !count, SNLS_ERR_ARG, "noise: the values are missing (NULL)");
    SNLS_REQUIRE(ctx, count >= 0 && first >= 0, SNLS_ERR_ARG,
                 "noise: count is %lld and first %lld, must not be negative", (long long)count, (long long)first);
    SNLS_REQUIRE(ctx, isfinite(sigma) && sigma >= 0, SNLS_ERR_ARG, "noise: sigma is %g, must be 0 or more", sigma);
#pragma omp parallel for num_threads(ctx->threads) schedule(static)
    for (int64_t i = 0; i < count; i++) values[i] += (float)(sigma * snls_normal(seed, (uint64_t)first + (uint64_t)i));
    return SNLS_OK;
}
