/* finite.h: are all numbers of an array finite? */
#ifndef SNLS_BASE_FINITE_H
#define SNLS_BASE_FINITE_H

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

/* None beyond +-largest, none NaN. Whole numbers are ored, which compilers make vectors of; sums of floats have an order. */
static inline bool snls_all_up_to(const float *x, int64_t count, float largest)
{
    int bad = 0;
    for (int64_t i = 0; i < count; i++) bad |= !(fabsf(x[i]) <= largest);
    return !bad;
}

static inline bool snls_all_finite(const float *x, int64_t count) { return snls_all_up_to(x, count, FLT_MAX); }

#endif
