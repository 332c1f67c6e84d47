/* check.h: checks of what came from outside, and single elements of any type. */
#ifndef SNLS_FLOW_CHECK_H
#define SNLS_FLOW_CHECK_H

#include "base/options.h"
#include "base/tensor.h"
#include <snls/flow.h>

SnlsStatus snls_flow_check_params(SnlsContext *ctx, const SnlsFlowParams *params);

/* (H,W,2) of f32 or f64 in CPU memory. */
SnlsStatus snls_flow_check_field(SnlsContext *ctx, const char *who, const char *name, const SnlsTensor *t, bool output);

/* (H,W) or (H,W,C), any float type or u8, in CPU memory. */
SnlsStatus snls_flow_check_image(SnlsContext *ctx, const char *who, const char *name, const SnlsTensor *t);

/* Of a view that is written, when its type and shape are known to be right: every element in a place of its own, where such an element may be. */
SnlsStatus snls_flow_check_places(SnlsContext *ctx, const char *who, const char *name, const SnlsTensor *t);

static inline double snls_flow_load(const SnlsTensor *t, int64_t at)
{
    return t->dtype == SNLS_U8 ? ((const uint8_t *)t->data)[at] : snls_load(t, at);
}

#endif
