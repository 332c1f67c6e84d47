/* layers_body.h: the loops in plain C, included once for each instruction set with LAYERS as the name of the function that fills the
 * table. */
#include "simd/layers.h"
#include <math.h>
#include <string.h>

#define VECTORS _Pragma("omp simd") /* the turns of the loop do not depend on each other */
#define ALWAYS static inline __attribute__((always_inline))

enum { PARTS = 16 };

/* ---- numbers ---- */

ALWAYS float from_bits(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

ALWAYS uint32_t bits_of(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

ALWAYS float get(const void *from, int64_t i, int bf16) { return bf16 ? from_bits((uint32_t)((const uint16_t *)from)[i] << 16) : ((const float *)from)[i]; }

ALWAYS void put(void *to, int64_t i, float x, int bf16) /* to nearest even; a NaN stays one */
{
    const uint32_t u = bits_of(x), nan = u >> 16 | 0x40, rounded = (u + 0x7fff + (u >> 16 & 1)) >> 16;
    if (bf16) ((uint16_t *)to)[i] = (uint16_t)((u & 0x7fffffff) > 0x7f800000 ? nan : rounded);
    else ((float *)to)[i] = x;
}

/* ---- norm ---- */

ALWAYS float add_parts(const float *part)
{
    float half[PARTS];
    memcpy(half, part, sizeof half);
    for (int step = PARTS / 2; step > 0; step /= 2)
        for (int i = 0; i < step; i++) half[i] += half[i + step];
    return half[0];
}

/* Sum of x, or of squares of x - mean. */
ALWAYS float sum_row(const float *x, int64_t n, float mean, int squares)
{
    float part[PARTS] = { 0 };
    int64_t i = 0;
    for (; i + PARTS <= n; i += PARTS)
        VECTORS for (int k = 0; k < PARTS; k++) part[k] += squares ? (x[i + k] - mean) * (x[i + k] - mean) : x[i + k];
    for (int k = 0; i + k < n; k++) part[k] += squares ? (x[i + k] - mean) * (x[i + k] - mean) : x[i + k];
    return add_parts(part);
}

ALWAYS void norm_rows(void *restrict y, const void *restrict x, const float *restrict gamma, const float *restrict beta, double eps, const SnlsRows *rows, float *restrict room, int bf16)
{
    const int64_t n = rows->channels;
    for (int64_t p = 0; p < rows->pixels; p++) {
        VECTORS for (int64_t i = 0; i < n; i++) room[i] = get(x, p * n + i, bf16);
        const float mean = sum_row(room, n, 0, 0) / (float)n;
        const float scale = (float)(1 / sqrt((double)(sum_row(room, n, mean, 1) / (float)n) + eps));
        VECTORS for (int64_t i = 0; i < n; i++) put(y, p * n + i, gamma[i] * ((room[i] - mean) * scale) + beta[i], bf16);
    }
}

static void norm(void *y, const void *x, const float *gamma, const float *beta, double eps, const SnlsRows *rows, float *room)
{
    if (rows->bf16) norm_rows(y, x, gamma, beta, eps, rows, room, 1);
    else norm_rows(y, x, gamma, beta, eps, rows, room, 0);
}

/* ---- the others ---- */

ALWAYS void scale_rows(void *restrict y, const void *restrict x, const float *restrict factor, const SnlsRows *rows, int bf16)
{
    const int64_t n = rows->channels;
    for (int64_t p = 0; p < rows->pixels; p++) VECTORS for (int64_t i = 0; i < n; i++) put(y, p * n + i, get(x, p * n + i, bf16) * factor[i], bf16);
}

static void scale(void *y, const void *x, const float *factor, const SnlsRows *rows)
{
    if (rows->bf16) scale_rows(y, x, factor, rows, 1);
    else scale_rows(y, x, factor, rows, 0);
}

ALWAYS void sum_pixels(float *restrict sums, const void *restrict x, const SnlsRows *rows, int bf16)
{
    const int64_t n = rows->channels;
    for (int64_t p = 0; p < rows->pixels; p++) VECTORS for (int64_t i = 0; i < n; i++) sums[i] += get(x, p * n + i, bf16);
}

static void sum(float *sums, const void *x, const SnlsRows *rows)
{
    if (rows->bf16) sum_pixels(sums, x, rows, 1);
    else sum_pixels(sums, x, rows, 0);
}

ALWAYS void add_numbers(void *restrict y, const void *restrict x, float a, const void *restrict z, float b, int64_t n, int bf16)
{
    if (z) VECTORS for (int64_t i = 0; i < n; i++) put(y, i, a * get(x, i, bf16) + b * get(z, i, bf16), bf16);
    else VECTORS for (int64_t i = 0; i < n; i++) put(y, i, a * get(x, i, bf16), bf16);
}

static void add(void *y, const void *x, float a, const void *z, float b, const SnlsRows *rows)
{
    const int64_t n = rows->pixels * rows->channels;
    if (rows->bf16) add_numbers(y, x, a, z, b, n, 1);
    else add_numbers(y, x, a, z, b, n, 0);
}

LAYERS_SCOPE void LAYERS(SnlsLayers *layers) { *layers = (SnlsLayers){ norm, scale, sum, add }; }
