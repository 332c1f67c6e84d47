/* layers.h: layers of networks that only pass over memory, one table for each instruction set: rows of f32, or of bf16 that are f32
 * on the way. The same C text (layers_body.h) is compiled for every level without contraction, and sums over channels are made in
 * sixteen parts that are added in one order, so that all levels give the same bits;
 * with AVX-512 norm has loops of its own for some numbers of channels, in the same order. Knows nothing of the rest of the library. */
#ifndef SNLS_SIMD_LAYERS_H
#define SNLS_SIMD_LAYERS_H

#include <stdint.h>

typedef struct SnlsRows { int64_t pixels, channels; int bf16; } SnlsRows; /* contiguous; of values, not of what they are scaled with */

enum { SNLS_NORM_ROWS = 8 }; /* pixels that norm has in work at a time */

typedef struct SnlsLayers {
    /* y = gamma * (x - mean) / sqrt(variance + eps) + beta over the channels of each pixel. room: SNLS_NORM_ROWS rows. */
    void (*norm)(void *y, const void *x, const float *gamma, const float *beta, double eps, const SnlsRows *rows, float *room);
    void (*scale)(void *y, const void *x, const float *factor, const SnlsRows *rows); /* y = x * factor of its channel */
    void (*gate)(void *y, const void *x, const float *factor, const void *z, const SnlsRows *rows); /* y = x * factor of its channel + z */
    void (*gelu)(uint16_t *y, int64_t n); /* bf16, in place, to 5e-5: less than bf16 tells apart from 0.02 on */
    void (*sum)(float *sums, const void *x, const SnlsRows *rows);                    /* sums of the channels += pixels */
    void (*add)(void *y, const void *x, float a, const void *z, float b, const SnlsRows *rows); /* y = a*x + b*z; z may be NULL */
} SnlsLayers;

void snls_layers(SnlsLayers *layers, int level); /* SnlsCpuLevel; levels this machine lacks fall back */

void snls_layers_avx2(SnlsLayers *layers);
void snls_layers_avx512(SnlsLayers *layers);

#endif
