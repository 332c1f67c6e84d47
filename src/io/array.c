/* array.c: arrays in a context's memory, and copies between views of any strides and types. */
#include "io/array.h"
#include "base/half.h"
#include "base/tensor.h"
#include "io/file.h"
#include <math.h>
#include <snls/io.h>
#include <string.h>

/* Bytes of an array; an axis of length 0 counts as 1 on the way, so that the strides of an empty array fit as well. */
static bool array_bytes(SnlsDtype dtype, int32_t ndim, const int64_t *shape, int64_t *bytes)
{
    bool empty = false;
    *bytes = snls_dtype_size(dtype);
    for (int32_t i = 0; i < ndim; i++) {
        empty |= shape[i] == 0;
        if (!snls_mul_size(*bytes, shape[i] ? shape[i] : 1, bytes)) return false;
    }
    if (empty) *bytes = 0;
    return true;
}

SnlsStatus snls_array_alloc(SnlsContext *ctx, SnlsTensor *view, SnlsDtype dtype, int32_t ndim, const int64_t *shape)
{
    if (!ctx) return SNLS_ERR_ARG;
    SNLS_REQUIRE(ctx, view, SNLS_ERR_ARG, "array_alloc: view is NULL");
    view->data = NULL;
    SNLS_REQUIRE(ctx, snls_dtype_size(dtype), SNLS_ERR_ARG, "array_alloc: unknown element type %d", (int)dtype);
    SNLS_REQUIRE(ctx, ndim >= 0 && ndim <= SNLS_MAX_DIM, SNLS_ERR_ARG, "array_alloc: %d axes, must be 0 to %d",
                 (int)ndim, SNLS_MAX_DIM);
    SNLS_REQUIRE(ctx, shape || !ndim, SNLS_ERR_ARG, "array_alloc: shape is NULL, there are %d axes", (int)ndim);
    for (int32_t i = 0; i < ndim; i++)
        SNLS_REQUIRE(ctx, shape[i] >= 0, SNLS_ERR_ARG, "array_alloc: axis %d has length %lld", (int)i,
                     (long long)shape[i]);
    char text[200];
    int64_t bytes;
    snls_shape_text(text, sizeof text, shape, ndim);
    SNLS_REQUIRE(ctx, array_bytes(dtype, ndim, shape, &bytes), SNLS_ERR_MEMORY,
                 "an array of shape %s is larger than memory can be", text);
    void *data = snls_mem_alloc(&ctx->allocator, bytes);
    SNLS_REQUIRE(ctx, data, SNLS_ERR_MEMORY, "out of memory for an array of shape %s, %s", text,
                 snls_io_bytes(bytes).text);
    memset(data, 0, (size_t)bytes);
    *view = snls_tensor(data, dtype, ndim, shape); /* only now: shape may be view's own */
    return SNLS_OK;
}

void snls_array_free(SnlsContext *ctx, SnlsTensor *view)
{
    if (!ctx || !view) return;
    snls_mem_free(&ctx->allocator, view->data);
    view->data = NULL;
}

SnlsStatus snls_array_require(SnlsContext *ctx, const char *who, const char *name, const SnlsTensor *view)
{
    SNLS_REQUIRE(ctx, snls_dtype_size((SnlsDtype)view->dtype), SNLS_ERR_ARG, "%s: %s has unknown element type %d", who,
                 name, (int)view->dtype);
    SNLS_REQUIRE(ctx, view->device == SNLS_DEVICE_CPU, SNLS_ERR_SHAPE, "%s: %s is not in CPU memory", who, name);
    const int64_t elements = snls_tensor_elements(view);
    SNLS_REQUIRE(ctx, elements >= 0, SNLS_ERR_ARG, "%s: %s has an impossible shape", who, name);
    SNLS_REQUIRE(ctx, !elements || snls_tensor_fits(view), SNLS_ERR_ARG, "%s: %s reaches beyond what memory can be", who, name);
    SNLS_REQUIRE(ctx, view->data || !elements, SNLS_ERR_ARG, "%s: %s has no data", who, name);
    return SNLS_OK;
}

bool snls_rows_step(SnlsRows *rows, const SnlsTensor *shape)
{
    for (int32_t i = shape->ndim - 1; i-- > 0;) {
        if (++rows->index[i] < shape->shape[i]) return true;
        rows->index[i] = 0;
    }
    return false;
}

int64_t snls_rows_at(const SnlsRows *rows, const SnlsTensor *view)
{
    int64_t at = 0;
    for (int32_t i = 0; i + 1 < view->ndim; i++) at += rows->index[i] * view->stride[i];
    return at;
}

int64_t snls_rows_length(const SnlsTensor *view) { return view->ndim ? view->shape[view->ndim - 1] : 1; }

static double load(const SnlsTensor *t, int64_t at)
{
    if (t->dtype == SNLS_U8) return ((const uint8_t *)t->data)[at];
    if (t->dtype == SNLS_I32) return ((const int32_t *)t->data)[at];
    return snls_load(t, at);
}

static uint8_t to_u8(double x)
{
    if (!(x > 0)) return 0; /* NaN too */
    return x >= 255 ? 255 : (uint8_t)nearbyint(x);
}

static void store(const SnlsTensor *t, int64_t at, double value)
{
    if (t->dtype == SNLS_U8) ((uint8_t *)t->data)[at] = to_u8(value);
    else if (t->dtype == SNLS_I32) ((int32_t *)t->data)[at] = (int32_t)value; /* from i32 only */
    else snls_store(t, at, value);
}

/* The same by way of a place where any element may be: views from outside may begin anywhere. */
static void move(const SnlsTensor *to, int64_t at_to, const SnlsTensor *from, int64_t at_from)
{
    const int64_t size_to = snls_dtype_size((SnlsDtype)to->dtype), size_from = snls_dtype_size((SnlsDtype)from->dtype);
    union { double f64; float f32; int32_t i32; uint16_t f16; uint8_t u8; } in, out;
    memcpy(&in, (const char *)from->data + at_from * size_from, (size_t)size_from);
    store(&(SnlsTensor){ .data = &out, .dtype = to->dtype }, 0, load(&(SnlsTensor){ .data = &in, .dtype = from->dtype }, 0));
    memcpy((char *)to->data + at_to * size_to, &out, (size_t)size_to);
}

SnlsStatus snls_array_copy(SnlsContext *ctx, const SnlsTensor *to, const SnlsTensor *from)
{
    if (!ctx) return SNLS_ERR_ARG;
    SNLS_REQUIRE(ctx, to && from, SNLS_ERR_ARG, "array_copy: source or target is NULL");
    SNLS_TRY(snls_array_require(ctx, "array_copy", "source", from));
    SNLS_TRY(snls_array_require(ctx, "array_copy", "target", to));
    bool same = to->ndim == from->ndim;
    for (int32_t i = 0; same && i < to->ndim; i++) same = to->shape[i] == from->shape[i];
    SNLS_REQUIRE(ctx, same, SNLS_ERR_SHAPE, "array_copy: source and target differ in shape");
    SNLS_REQUIRE(ctx, snls_tensor_is_injective(to), SNLS_ERR_ARG, "array_copy: target is an output whose elements overlap");
    SNLS_REQUIRE(ctx, (to->dtype == SNLS_I32) == (from->dtype == SNLS_I32), SNLS_ERR_UNSUPPORTED,
                 "array_copy: i32 is copied to i32 only, not %s to %s", snls_dtype_name((SnlsDtype)from->dtype),
                 snls_dtype_name((SnlsDtype)to->dtype));
    if (!snls_tensor_elements(to)) return SNLS_OK;
    const int64_t n = snls_rows_length(to);
    const int64_t step_to = to->ndim ? to->stride[to->ndim - 1] : 0,
                  step_from = from->ndim ? from->stride[from->ndim - 1] : 0;
    const size_t size = (size_t)snls_dtype_size((SnlsDtype)to->dtype);
    const bool aligned = snls_tensor_is_aligned(to) && snls_tensor_is_aligned(from);
    SnlsRows rows = { { 0 } };
    do {
        const int64_t at_to = snls_rows_at(&rows, to), at_from = snls_rows_at(&rows, from);
        if (to->dtype == from->dtype && step_to == 1 && step_from == 1) /* bits as they are, NaN payloads included */
            memmove((char *)to->data + at_to * (int64_t)size, (const char *)from->data + at_from * (int64_t)size,
                    (size_t)n * size);
        else if (aligned)
            for (int64_t i = 0; i < n; i++) store(to, at_to + i * step_to, load(from, at_from + i * step_from));
        else
            for (int64_t i = 0; i < n; i++) move(to, at_to + i * step_to, from, at_from + i * step_from);
    } while (snls_rows_step(&rows, to));
    return SNLS_OK;
}
