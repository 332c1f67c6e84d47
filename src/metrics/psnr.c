/* psnr.c: peak signal to noise ratio, and the checks that all metrics share. */
#include "metrics/check.h"
#include <math.h>

static SnlsStatus check_one(SnlsContext *ctx, const char *who, const char *name, const SnlsTensor *t)
{
    SNLS_REQUIRE(ctx, t->device == SNLS_DEVICE_CPU, SNLS_ERR_SHAPE, "%s: %s is not in CPU memory", who, name);
    SNLS_REQUIRE(ctx, t->dtype == SNLS_U8 || snls_is_float(t->dtype), SNLS_ERR_SHAPE,
                 "%s: %s has element type %s, must be u8 or a float type", who, name,
                 snls_dtype_name((SnlsDtype)t->dtype));
    SNLS_REQUIRE(ctx, t->data, SNLS_ERR_ARG, "%s: %s has no data", who, name);
    SNLS_REQUIRE(ctx, snls_tensor_is_aligned(t), SNLS_ERR_ARG, "%s: %s is not aligned to its elements", who, name);
    return SNLS_OK;
}

SnlsStatus snls_metrics_check(SnlsContext *ctx, const char *who, const SnlsTensor *clean, const SnlsTensor *test,
                              int32_t ndim_min, int32_t ndim_max)
{
    if (!ctx) return SNLS_ERR_ARG;
    SNLS_REQUIRE(ctx, clean && test, SNLS_ERR_ARG, "%s: a view is missing (NULL)", who);
    SNLS_TRY(check_one(ctx, who, "clean", clean));
    SNLS_TRY(check_one(ctx, who, "test", test));
    SNLS_REQUIRE(ctx, clean->ndim >= ndim_min && clean->ndim <= ndim_max, SNLS_ERR_SHAPE,
                 "%s: clean has %d axes, must have %d to %d", who, (int)clean->ndim, (int)ndim_min, (int)ndim_max);
    bool same = clean->ndim == test->ndim;
    for (int32_t i = 0; same && i < clean->ndim; i++) same = clean->shape[i] == test->shape[i];
    char a[128], b[128];
    snls_shape_text(a, sizeof a, clean->shape, clean->ndim);
    snls_shape_text(b, sizeof b, test->shape, test->ndim < 0 || test->ndim > SNLS_MAX_DIM ? 0 : test->ndim);
    SNLS_REQUIRE(ctx, same, SNLS_ERR_SHAPE, "%s: clean has shape %s, test has %s, must be the same", who, a, b);
    SNLS_REQUIRE(ctx, snls_tensor_elements(clean) >= 0, SNLS_ERR_SHAPE, "%s: clean has shape %s, negative or larger than memory can be", who, a);
    SNLS_REQUIRE(ctx, snls_tensor_elements(clean) > 0, SNLS_ERR_SHAPE, "%s: clean has shape %s, nothing to compare",
                 who, a);
    SNLS_REQUIRE(ctx, snls_tensor_fits(clean) && snls_tensor_fits(test), SNLS_ERR_SHAPE, "%s: the strides of clean or test reach beyond what memory can be", who);
    return SNLS_OK;
}

/* Sum of squared differences, axis by axis. */
static double squares(const SnlsTensor *a, const SnlsTensor *b, int32_t axis, int64_t at_a, int64_t at_b)
{
    double sum = 0;
    if (axis == a->ndim) {
        const double e = snls_pixel(a, at_a) - snls_pixel(b, at_b);
        return e * e;
    }
    for (int64_t i = 0; i < a->shape[axis]; i++)
        sum += squares(a, b, axis + 1, at_a + i * a->stride[axis], at_b + i * b->stride[axis]);
    return sum;
}

SnlsStatus snls_psnr(SnlsContext *ctx, const SnlsTensor *clean, const SnlsTensor *test, double *psnr)
{
    SNLS_TRY(snls_metrics_check(ctx, "psnr", clean, test, 0, SNLS_MAX_DIM));
    SNLS_REQUIRE(ctx, psnr, SNLS_ERR_ARG, "psnr: the result is missing (NULL)");
    const double mean = squares(clean, test, 0, 0, 0) / (double)snls_tensor_elements(clean);
    *psnr = mean > 0 || isnan(mean) ? 10 * log10(255.0 * 255.0 / mean) : INFINITY;
    return SNLS_OK;
}
