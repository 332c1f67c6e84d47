/* blas_quick.h: three taps beside each other give four results by six products instead of twelve (Winograd's F(4,3), along a row): pixels, weights and results are
 * added up before and after, in numbers that take part with factors of 8 at most. Rounding is some times that of plain sums. */
#ifndef SNLS_NN_BLAS_QUICK_H
#define SNLS_NN_BLAS_QUICK_H

#include <stdint.h>

enum { NN_QUICK_RESULTS = 4, NN_QUICK_PIXELS = 6, NN_QUICK_PRODUCTS = 6, NN_QUICK_TAPS = 3 };

/* Channels of six pixels, `channels` apart in pixels, become six numbers a channel, `apart` apart in to. */
static inline void snls_nn_quick_pixels(const float *restrict pixels, int64_t channels, float *restrict to, int64_t apart, int64_t count)
{
    for (int64_t c = 0; c < count; c++) {
        const float d0 = pixels[c], d1 = pixels[channels + c], d2 = pixels[2 * channels + c], d3 = pixels[3 * channels + c], d4 = pixels[4 * channels + c], d5 = pixels[5 * channels + c];
        const float even = d4 - 4 * d2, odd = d3 - 4 * d1, far = d4 - d2, wide = 2 * (d3 - d1);
        to[c] = 4 * d0 - 5 * d2 + d4;
        to[apart + c] = even + odd;
        to[2 * apart + c] = even - odd;
        to[3 * apart + c] = far + wide;
        to[4 * apart + c] = far - wide;
        to[5 * apart + c] = 4 * d1 - 5 * d3 + d5;
    }
}

/* Weights of three taps, `apart` apart, become six, as far apart. */
static inline void snls_nn_quick_weights(const float *restrict taps, float *restrict to, int64_t apart)
{
    for (int64_t i = 0; i < apart; i++) {
        const float a = taps[i], b = taps[apart + i], c = taps[2 * apart + i];
        to[i] = a / 4;
        to[apart + i] = -(a + b + c) / 6;
        to[2 * apart + i] = -(a - b + c) / 6;
        to[3 * apart + i] = (a + 2 * b + 4 * c) / 24;
        to[4 * apart + i] = (a - 2 * b + 4 * c) / 24;
        to[5 * apart + i] = c;
    }
}

/* Six sums a channel become four results, one pixel after the other, of which `results` are wanted. */
static inline void snls_nn_quick_results(const float *restrict sums, int64_t apart, float *restrict to, int64_t channels, int64_t results)
{
    for (int64_t c = 0; c < channels; c++) {
        const float m1 = sums[apart + c], m2 = sums[2 * apart + c], m3 = sums[3 * apart + c], m4 = sums[4 * apart + c];
        to[c] = sums[c] + (m1 + m2) + (m3 + m4);
        if (results > 1) to[channels + c] = (m1 - m2) + 2 * (m3 - m4);
        if (results > 2) to[2 * channels + c] = (m1 + m2) + 4 * (m3 + m4);
        if (results > 3) to[3 * channels + c] = (m1 - m2) + 8 * (m3 - m4) + sums[5 * apart + c];
    }
}

#endif
