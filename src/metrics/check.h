/* check.h: checks of two clips that are compared, and single pixels of any type. */
#ifndef SNLS_METRICS_CHECK_H
#define SNLS_METRICS_CHECK_H

#include "base/tensor.h"
#include <snls/metrics.h>

/* Both in CPU memory, of one shape with ndim_min to ndim_max axes, with at least one element. */
SnlsStatus snls_metrics_check(SnlsContext *ctx, const char *who, const SnlsTensor *clean, const SnlsTensor *test,
                              int32_t ndim_min, int32_t ndim_max);

static inline double snls_pixel(const SnlsTensor *t, int64_t at)
{
    return t->dtype == SNLS_U8 ? ((const uint8_t *)t->data)[at] : snls_load(t, at);
}

#endif
