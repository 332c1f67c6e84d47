/* tensor.c: views: making, permuting, checking. */
#include "base/tensor.h"
#include <stdio.h>
#include <stdlib.h>

int64_t snls_dtype_size(SnlsDtype dtype)
{
    switch (dtype) {
    case SNLS_F64: return 8;
    case SNLS_F32: case SNLS_I32: return 4;
    case SNLS_F16: case SNLS_BF16: return 2;
    case SNLS_U8: return 1;
    }
    return 0;
}

const char *snls_dtype_name(SnlsDtype dtype)
{
    static const char *const names[] = {"f32", "f64", "f16", "bf16", "i32", "u8"};
    return (int)dtype >= 0 && dtype <= SNLS_U8 ? names[dtype] : "?";
}

void snls_tensor_contiguous(SnlsTensor *t)
{
    int64_t step = 1;
    for (int32_t i = t->ndim; i-- > 0;) {
        t->stride[i] = step;
        if (t->shape[i] > 0 && !snls_mul_size(step, t->shape[i], &step)) step = 0; /* refused later: no such memory */
    }
}

SnlsTensor snls_tensor(void *data, SnlsDtype dtype, int32_t ndim, const int64_t *shape)
{
    SnlsTensor t = {.dtype = dtype, .device = SNLS_DEVICE_CPU};
    if (ndim < 0 || ndim > SNLS_MAX_DIM || (ndim && !shape)) return t;
    t.data = data;
    t.ndim = ndim;
    for (int32_t i = 0; i < ndim; i++) t.shape[i] = shape[i];
    snls_tensor_contiguous(&t);
    return t;
}

SnlsStatus snls_tensor_permute(SnlsTensor *view, const int32_t *order)
{
    if (!view || !order || view->ndim < 0 || view->ndim > SNLS_MAX_DIM) return SNLS_ERR_ARG;
    SnlsTensor t = *view;
    uint32_t seen = 0;
    for (int32_t i = 0; i < t.ndim; i++) {
        if (order[i] < 0 || order[i] >= t.ndim || (seen >> order[i] & 1)) return SNLS_ERR_ARG;
        seen |= 1u << order[i];
        t.shape[i] = view->shape[order[i]];
        t.stride[i] = view->stride[order[i]];
    }
    *view = t;
    return SNLS_OK;
}

int64_t snls_tensor_elements(const SnlsTensor *view)
{
    if (!view || view->ndim < 0 || view->ndim > SNLS_MAX_DIM) return -1;
    int64_t n = 1;
    for (int32_t i = 0; i < view->ndim; i++)
        if (!snls_mul_size(n, view->shape[i], &n)) return -1;
    return n;
}

void snls_shape_text(char *text, size_t size, const int64_t *shape, int32_t ndim)
{
    size_t at = 0;
    if (size) text[0] = 0;
    for (int32_t i = 0; i < ndim && at < size; i++) {
        const char *before = i ? "," : "(";
        const int n = shape[i] == SNLS_ANY ? snprintf(text + at, size - at, "%s*", before)
                                           : snprintf(text + at, size - at, "%s%lld", before, (long long)shape[i]);
        at += n > 0 ? (size_t)n : 0;
    }
    if (at < size) snprintf(text + at, size - at, "%s", ndim ? ")" : "()");
}

/* The distance in bytes from the lowest to the highest element. */
bool snls_tensor_fits(const SnlsTensor *t)
{
    int64_t sum = 1;
    for (int32_t i = 0; i < t->ndim; i++) {
        if (t->shape[i] <= 1) continue;
        if (t->stride[i] == INT64_MIN) return false;
        const int64_t step = t->stride[i] < 0 ? -t->stride[i] : t->stride[i];
        int64_t reach;
        if (!snls_mul_size(step, t->shape[i] - 1, &reach) || !snls_add_size(sum, reach, &sum)) return false;
    }
    return snls_mul_size(sum, snls_dtype_size((SnlsDtype)t->dtype), &sum) && sum <= PTRDIFF_MAX;
}

bool snls_tensor_is_aligned(const SnlsTensor *t)
{
    return (uintptr_t)t->data % (uintptr_t)snls_dtype_size((SnlsDtype)t->dtype) == 0;
}

bool snls_tensor_is_contiguous(const SnlsTensor *t)
{
    int64_t step = 1;
    if (snls_tensor_elements(t) == 0) return true;
    for (int32_t i = t->ndim; i-- > 0;) {
        if (t->shape[i] != 1 && t->stride[i] != step) return false;
        if (!snls_mul_size(step, t->shape[i], &step)) return false;
    }
    return true;
}

bool snls_tensor_is_injective(const SnlsTensor *t)
{
    bool used[SNLS_MAX_DIM] = {false};
    int64_t below = 1; /* elements spanned by the axes taken so far */
    for (int32_t i = 0; i < t->ndim; i++)
        if (t->shape[i] == 0) return true; /* NumPy gives the other axes of an empty array stride 0 */
    for (int32_t round = 0; round < t->ndim; round++) {
        int32_t best = -1;
        for (int32_t i = 0; i < t->ndim; i++) {
            if (used[i] || t->shape[i] <= 1) continue;
            if (best < 0 || llabs(t->stride[i]) < llabs(t->stride[best])) best = i;
        }
        if (best < 0) break;
        used[best] = true;
        const int64_t step = llabs(t->stride[best]);
        if (step < below) return false;
        below = step * (t->shape[best] - 1) + below; /* fits: snls_tensor_fits was asked first */
    }
    return true;
}

/* Of a view that has elements: its first byte and its last, and whether all between are its own. */
typedef struct Span { uintptr_t first, last; bool dense; } Span;

static Span span_of(const SnlsTensor *t)
{
    SnlsTensor once = *t; /* a broadcast axis adds no places */
    int64_t low = 0, high = 0;
    for (int32_t i = 0; i < t->ndim; i++) {
        if (t->stride[i] == 0) once.shape[i] = 1;
        const int64_t reach = (once.shape[i] - 1) * t->stride[i]; /* fits: snls_tensor_fits was asked first */
        if (reach < 0) low += reach;
        else high += reach;
    }
    const uintptr_t size = (uintptr_t)snls_dtype_size((SnlsDtype)t->dtype), data = (uintptr_t)t->data;
    return (Span){ data + (uintptr_t)low * size, data + (uintptr_t)high * size + size - 1,
                   snls_tensor_is_injective(&once) && snls_tensor_elements(&once) == high - low + 1 };
}

static bool meets(const Span *dense, const Span *other)
{
    return dense->dense && ((other->first >= dense->first && other->first <= dense->last) || (other->last >= dense->first && other->last <= dense->last));
}

bool snls_tensor_shares(const SnlsTensor *a, const SnlsTensor *b)
{
    if (!a->data || !b->data || snls_tensor_elements(a) <= 0 || snls_tensor_elements(b) <= 0) return false;
    const Span one = span_of(a), two = span_of(b);
    return a->data == b->data || meets(&one, &two) || meets(&two, &one);
}

static SnlsStatus require_shape(SnlsContext *ctx, const char *op, const char *name, const SnlsTensor *t, int32_t ndim,
                                const int64_t *want, const char *layout)
{
    bool same = t->ndim == ndim;
    for (int32_t i = 0; same && i < ndim; i++) same = want[i] == SNLS_ANY ? t->shape[i] >= 0 : t->shape[i] == want[i];
    if (same && snls_tensor_elements(t) >= 0 && snls_tensor_fits(t)) return SNLS_OK;
    char have[128], must[128];
    const int32_t shown = t->ndim < 0 ? 0 : t->ndim > SNLS_MAX_DIM ? SNLS_MAX_DIM : t->ndim;
    for (int32_t i = 0; i < shown; i++)
        SNLS_REQUIRE(ctx, t->shape[i] >= 0, SNLS_ERR_SHAPE, "%s: axis %d of %s has length %lld, must not be negative", op, (int)i, name, (long long)t->shape[i]);
    snls_shape_text(have, sizeof have, t->shape, shown);
    if (same) return snls_fail(ctx, SNLS_ERR_SHAPE, "%s: %s of shape %s is larger than memory can be", op, name, have);
    snls_shape_text(must, sizeof must, want, ndim);
    return snls_fail(ctx, SNLS_ERR_SHAPE, "%s: %s has shape %s, must be %s = %s", op, name, have, layout, must);
}

SnlsStatus snls_tensor_require(SnlsContext *ctx, const char *op, const char *name, const SnlsTensor *t, int32_t ndim,
                               const int64_t *want, const char *layout, int32_t role)
{
    if (!t->data && (role & SNLS_ROLE_OPTIONAL)) return SNLS_OK;
    const bool wants_index = role & SNLS_ROLE_INDEX;
    SNLS_REQUIRE(ctx, wants_index ? t->dtype == SNLS_I32 : snls_is_float(t->dtype), SNLS_ERR_SHAPE,
                 "%s: %s has element type %s, must be %s", op, name, snls_dtype_name((SnlsDtype)t->dtype),
                 wants_index ? "i32" : "f32, f16, bf16 or f64");
    SNLS_TRY(require_shape(ctx, op, name, t, ndim, want, layout));
    if (role & SNLS_ROLE_SHAPE_ONLY) return SNLS_OK;
    SNLS_REQUIRE(ctx, t->data || snls_tensor_elements(t) == 0, SNLS_ERR_ARG, "%s: %s has no data", op, name);
    SNLS_REQUIRE(ctx, snls_tensor_is_aligned(t), SNLS_ERR_ARG, "%s: %s is not aligned to its elements", op, name);
    if (role & SNLS_ROLE_OUT)
        SNLS_REQUIRE(ctx, snls_tensor_is_injective(t), SNLS_ERR_ARG, "%s: %s is an output whose elements overlap", op, name);
    return SNLS_OK;
}
