/* slopes.h: `slopes` of dsp.h in plain C, which compilers make vectors of. Only static: each file that includes it has its own, with its own flags. */
#ifndef SNLS_SLOPES_H
#define SNLS_SLOPES_H

#include "simd/dsp.h"

/* a*x + b*y without what has no weight: that may be no number. */
static inline float snls_slopes_add(float a, float x, float b, float y)
{
    const float first = a * x, second = b * y;
    return (a != 0 ? first : 0) + (b != 0 ? second : 0);
}

static void snls_slopes(float *restrict value, float *restrict by_y, float *restrict by_x, const float *restrict sums, const SnlsPlaces *from, ptrdiff_t i, ptrdiff_t count)
{
    const float *restrict upper = from->w[0] + i, *restrict lower = from->w[1] + i, *restrict left = from->w[2] + i, *restrict right = from->w[3] + i;
    for (ptrdiff_t k = 0; k < count; k++) {
        const float a = sums[4 * k], b = sums[4 * k + 1], c = sums[4 * k + 2], d = sums[4 * k + 3];
        const float over = snls_slopes_add(left[k], a, right[k], b), under = snls_slopes_add(left[k], c, right[k], d);
        value[k] = snls_slopes_add(upper[k], over, lower[k], under);
        by_y[k] = snls_slopes_add(left[k], c - a, right[k], d - b);
        by_x[k] = snls_slopes_add(upper[k], b - a, lower[k], d - c);
    }
}

#endif
