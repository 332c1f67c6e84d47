/* gelu.h: GELU and its derivative in f32, in arithmetic that compilers turn into vectors, as they do not with erff. */
#ifndef SNLS_NN_GELU_H
#define SNLS_NN_GELU_H

#include <math.h>
#include <stdint.h>
#include <string.h>

/* At most 87, t >= 0: as whole numbers, which have the same order and which compilers compare without a branch. NaN of either sign is above all of them. */
static inline float snls_nn_at_most_87(float t)
{
    const uint32_t most = 0x42ae0000;
    uint32_t bits;
    memcpy(&bits, &t, sizeof bits);
    bits = bits < most ? bits : most;
    memcpy(&t, &bits, sizeof t);
    return t;
}

/* exp(-t), t >= 0: a power of two times a series; never less than exp(-87). */
static inline float snls_nn_decay(float t)
{
    const float s = snls_nn_at_most_87(t), n = (float)(int32_t)(s * 1.44269504f + 0.5f), r = (n * 0.693359375f - s) + n * -2.12194440e-4f; /* log 2 in two parts */
    float p = 1.0f / 5040;
    p = p * r + 1.0f / 720;
    p = p * r + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = p * r + 1;
    p = p * r + 1;
    const uint32_t bits = (uint32_t)(127 - (int32_t)n) << 23;
    float power;
    memcpy(&power, &bits, sizeof power);
    return p * power;
}

/* How much of the normal distribution lies below x, to 2e-7 (Abramowitz and Stegun, 7.1.26); decay: exp(-x*x/2). */
static inline float snls_nn_below(float x, float decay)
{
    const float t = 1 / (1 + 0.231641888f * fabsf(x));
    float p = 0.5307027145f;
    p = p * t + -0.7265760135f;
    p = p * t + 0.7107068705f;
    p = p * t + -0.142248368f;
    p = p * t + 0.127414796f;
    return 0.5f + copysignf(0.5f - p * t * decay, x);
}

static inline float snls_nn_gelu_of(float x) { return x * snls_nn_below(x, snls_nn_decay(0.5f * x * x)); }

static inline float snls_nn_gelu_slope(float x)
{
    const float decay = snls_nn_decay(0.5f * x * x);
    return snls_nn_below(x, decay) + x * 0.39894228f * decay;
}

#endif
