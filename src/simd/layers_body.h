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

#include "simd/layers_norm.h"

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
