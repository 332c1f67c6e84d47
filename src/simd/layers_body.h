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

/* Sums of a few pixels at a time, so that none waits for the one before: of x, or of squares of x - mean. Each is made in PARTS parts
 * that are added in one order. */
ALWAYS void sum_group(const float *restrict x, int64_t n, int count, const float *restrict mean, int squares, float *restrict sums)
{
    float part[SNLS_NORM_ROWS][PARTS] = { { 0 } };
    for (int p = 0; p < count; p++) {
        const float *row = x + p * n, m = squares ? mean[p] : 0;
        int64_t i = 0;
        for (; i + PARTS <= n; i += PARTS)
            VECTORS for (int k = 0; k < PARTS; k++) part[p][k] += squares ? (row[i + k] - m) * (row[i + k] - m) : row[i + k];
        for (int k = 0; i + k < n; k++) part[p][k] += squares ? (row[i + k] - m) * (row[i + k] - m) : row[i + k];
    }
    for (int step = PARTS / 2; step > 0; step /= 2)
        for (int p = 0; p < count; p++)
            VECTORS for (int i = 0; i < step; i++) part[p][i] += part[p][i + step];
    for (int p = 0; p < count; p++) sums[p] = part[p][0];
}

ALWAYS void norm_group(char *restrict y, const char *restrict x, const float *restrict gamma, const float *restrict beta, double eps, int64_t n, int count, float *restrict room, int bf16)
{
    float mean[SNLS_NORM_ROWS], scale[SNLS_NORM_ROWS];
    VECTORS for (int64_t i = 0; i < count * n; i++) room[i] = get(x, i, bf16);
    sum_group(room, n, count, NULL, 0, mean);
    for (int p = 0; p < count; p++) mean[p] /= (float)n;
    sum_group(room, n, count, mean, 1, scale);
    VECTORS for (int p = 0; p < count; p++) scale[p] = (float)(1 / sqrt((double)(scale[p] / (float)n) + eps));
    for (int p = 0; p < count; p++)
        VECTORS for (int64_t i = 0; i < n; i++) put(y, p * n + i, gamma[i] * ((room[p * n + i] - mean[p]) * scale[p]) + beta[i], bf16);
}

ALWAYS void norm_rows(char *restrict y, const char *restrict x, const float *gamma, const float *beta, double eps, const SnlsRows *rows, float *room, int bf16)
{
    const int64_t n = rows->channels, size = bf16 ? 2 : 4;
    int64_t p = 0;
    for (; p + SNLS_NORM_ROWS <= rows->pixels; p += SNLS_NORM_ROWS) norm_group(y + p * n * size, x + p * n * size, gamma, beta, eps, n, SNLS_NORM_ROWS, room, bf16);
    for (; p < rows->pixels; p++) norm_group(y + p * n * size, x + p * n * size, gamma, beta, eps, n, 1, room, bf16);
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

ALWAYS void gate_rows(void *restrict y, const void *restrict x, const float *restrict factor, const void *restrict z, const SnlsRows *rows, int bf16)
{
    const int64_t n = rows->channels;
    for (int64_t p = 0; p < rows->pixels; p++)
        VECTORS for (int64_t i = 0; i < n; i++) put(y, p * n + i, get(x, p * n + i, bf16) * factor[i] + get(z, p * n + i, bf16), bf16);
}

static void gate(void *y, const void *x, const float *factor, const void *z, const SnlsRows *rows)
{
    if (rows->bf16) gate_rows(y, x, factor, z, rows, 1);
    else gate_rows(y, x, factor, z, rows, 0);
}

/* x times the normal distribution's integral, which is 0.5 + x p(x*x) up to GELU_END, and 0 or 1 beyond; p is the polynomial whose largest error
 * times |x| is smallest, with x p = 0.5 at the end. */
#define GELU_END 4.4f
static void gelu(uint16_t *y, int64_t n)
{
    VECTORS for (int64_t i = 0; i < n; i++) {
        const float x = get(y, i, 1), t = x * x;
        float p = 3.5694232e-11f;
        p = p * t + -3.7540429e-09f;
        p = p * t + 1.7408449e-07f;
        p = p * t + -4.7248632e-06f;
        p = p * t + 8.4292951e-05f;
        p = p * t + -1.0549921e-03f;
        p = p * t + 9.6430266e-03f;
        p = p * t + -6.6076428e-02f;
        p = p * t + 3.9876160e-01f;
        const float inside = 0.5f + x * p;
        put(y, i, x * (x > GELU_END ? 1 : x < -GELU_END ? 0 : inside), 1);
    }
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

LAYERS_SCOPE void LAYERS(SnlsLayers *layers) { *layers = (SnlsLayers){ norm, scale, gate, gelu, sum, add }; }
