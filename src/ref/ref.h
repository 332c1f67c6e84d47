/* ref.h: the reference backend: docs/operators.md as plain loops in double, one thread, any element type, any strides.
 * It is the definition: clarity before speed. */
#ifndef SNLS_REF_H
#define SNLS_REF_H

#include "base/tensor.h"
#include "op/geometry.h"
#include "op/op.h"

/* A read of one pixel at a real place of a frame: four taps. A tap of weight 0 is not read for the value. */
typedef struct RefRead {
    SnlsTaps y, x;
    double slope_y, slope_x; /* of the reflection: d place / d position before it */
} RefRead;

/* The pixel at (u, v) of a height x width frame, reflected; false: outside, and border is drop. */
bool snls_ref_read_at(RefRead *read, double u, double v, int64_t height, int64_t width, bool drop);

/* Value and derivatives of channel c, given the element numbers: base of the frame, strides of rows, columns. */
double snls_ref_value(const SnlsTensor *t, int64_t base, int64_t step_y, int64_t step_x, const RefRead *read);
double snls_ref_slope_y(const SnlsTensor *t, int64_t base, int64_t step_y, int64_t step_x, const RefRead *read);
double snls_ref_slope_x(const SnlsTensor *t, int64_t base, int64_t step_y, int64_t step_x, const RefRead *read);

/* Sums of one gradient in double, added to the caller's tensor in one rounding at the end. sum is contiguous in the
 * tensor's logical order; NULL where the gradient is not wanted. */
typedef struct RefSum {
    SnlsTensor view; /* over sum: f64, contiguous */
    SnlsTensor to;
} RefSum;

void snls_ref_sum_plan(SnlsContext *ctx, const SnlsTensor *to);
void snls_ref_sum_claim(SnlsContext *ctx, RefSum *sum, const SnlsTensor *to);
void snls_ref_sum_finish(const RefSum *sum); /* to += sum */
void snls_ref_fill(const SnlsTensor *t, double value);

static inline void snls_ref_add(const RefSum *sum, int64_t at, double value) { ((double *)sum->view.data)[at] += value; }

/* Adds value*weight to the four taps of a read; at: channel's element number in pixel (0,0). */
void snls_ref_spread(const RefSum *sum, int64_t base, int64_t step_y, int64_t step_x, const RefRead *read, double value);

#define X(op, Op)                                                                \
    SnlsStatus snls_ref_##op##_forward(SnlsContext *ctx, const Snls##Op *s);     \
    SnlsStatus snls_ref_##op##_backward(SnlsContext *ctx, const Snls##Op *s, const Snls##Op##Grad *g);
SNLS_OPS(X)
#undef X

#endif
