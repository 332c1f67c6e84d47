/* tensor.h: reading and writing one element of any float type, and checks of views that came from outside. */
#ifndef SNLS_TENSOR_H
#define SNLS_TENSOR_H

#include "base/context.h"
#include "base/hd.h"
#include "base/half.h"
#include <stdbool.h>

/* Element number (in elements from data) of an index of 5, 6 or 7 axes. */
static inline SNLS_HD int64_t snls_at5(const SnlsTensor *t, int64_t a, int64_t b, int64_t c, int64_t d, int64_t e)
{
    return a * t->stride[0] + b * t->stride[1] + c * t->stride[2] + d * t->stride[3] + e * t->stride[4];
}
static inline SNLS_HD int64_t snls_at6(const SnlsTensor *t, int64_t a, int64_t b, int64_t c, int64_t d, int64_t e, int64_t f)
{
    return snls_at5(t, a, b, c, d, e) + f * t->stride[5];
}
static inline SNLS_HD int64_t snls_at7(const SnlsTensor *t, int64_t a, int64_t b, int64_t c, int64_t d, int64_t e, int64_t f, int64_t g)
{
    return snls_at6(t, a, b, c, d, e, f) + g * t->stride[6];
}

static inline SNLS_HD double snls_load(const SnlsTensor *t, int64_t at)
{
    switch (t->dtype) {
    case SNLS_F32: return ((const float *)t->data)[at];
    case SNLS_F64: return ((const double *)t->data)[at];
    case SNLS_F16: return snls_f16_to_float(((const uint16_t *)t->data)[at]);
    case SNLS_BF16: return snls_bf16_to_float(((const uint16_t *)t->data)[at]);
    }
    return 0;
}

static inline SNLS_HD void snls_store(const SnlsTensor *t, int64_t at, double value)
{
    switch (t->dtype) {
    case SNLS_F32: ((float *)t->data)[at] = (float)value; break;
    case SNLS_F64: ((double *)t->data)[at] = value; break;
    case SNLS_F16: ((uint16_t *)t->data)[at] = snls_float_to_f16((float)value); break;
    case SNLS_BF16: ((uint16_t *)t->data)[at] = snls_float_to_bf16((float)value); break;
    }
}

/* value as it would come back from storage of this type */
static inline SNLS_HD double snls_rounded(int32_t dtype, double value)
{
    switch (dtype) {
    case SNLS_F32: return (float)value;
    case SNLS_F16: return snls_f16_to_float(snls_float_to_f16((float)value));
    case SNLS_BF16: return snls_bf16_to_float(snls_float_to_bf16((float)value));
    }
    return value;
}

static inline SNLS_HD bool snls_is_float(int32_t dtype)
{
    return dtype == SNLS_F32 || dtype == SNLS_F64 || dtype == SNLS_F16 || dtype == SNLS_BF16;
}

/* Contiguous strides for the shape it has. */
void snls_tensor_contiguous(SnlsTensor *t);

/* Of views from outside: can all of it lie in memory, as far as lengths and strides tell (of a shape that snls_tensor_elements counts); does it begin where its
 * elements may; is it in C order without gaps, in which the stride of an axis of one element tells nothing. */
bool snls_tensor_fits(const SnlsTensor *t);
bool snls_tensor_is_aligned(const SnlsTensor *t);
bool snls_tensor_is_contiguous(const SnlsTensor *t);

/* True when every element lies at its own place: sorted by stride, each axis steps over all of the one below. */
bool snls_tensor_is_injective(const SnlsTensor *t);

/* True only when the two have a byte in common: they begin at one place, or one has no gaps and the other's first or last byte lies in it.
 * Two views with gaps may also be found apart that are not: whether they meet between their ends is not told so cheaply. */
bool snls_tensor_shares(const SnlsTensor *a, const SnlsTensor *b);

/* "(1,5,8,8,3)" */
void snls_shape_text(char *text, size_t size, const int64_t *shape, int32_t ndim);

#define SNLS_ANY (-1) /* in an expected shape: any length */

typedef enum SnlsRole {
    SNLS_ROLE_IN = 0,
    SNLS_ROLE_OUT = 1,      /* must not overlap itself */
    SNLS_ROLE_OPTIONAL = 2, /* may have no data, then nothing is checked */
    SNLS_ROLE_INDEX = 4,    /* i32 instead of a float type */
    SNLS_ROLE_SHAPE_ONLY = 8/* data is not looked at */
} SnlsRole;

/* One sentence for everything that can be wrong with a view: "search: key has shape (1,2), must be (B,T,H,W,C)".
 * want may hold SNLS_ANY; layout is its description for the message. */
SnlsStatus snls_tensor_require(SnlsContext *ctx, const char *op, const char *name, const SnlsTensor *t, int32_t ndim,
                               const int64_t *want, const char *layout, int32_t role);

#endif
