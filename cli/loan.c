/* loan.c: arrays in CPU memory, lent for one call to a context that computes elsewhere: copied there, and what the call
 * wrote copied back. Contexts that compute in CPU memory take the arrays as they are. */
#include "cli.h"

/* Bytes from the first element to the last; strides are not negative. */
static int64_t bytes_of(const SnlsTensor *t)
{
    int64_t last = 0;
    for (int32_t i = 0; i < t->ndim; i++) {
        if (!t->shape[i]) return 0;
        last += (t->shape[i] - 1) * t->stride[i];
    }
    return (last + 1) * snls_dtype_size((SnlsDtype)t->dtype);
}

static SnlsStatus give(SnlsContext *ctx, Loan *loan)
{
    SnlsTensor *t = loan->tensor;
    const int64_t bytes = bytes_of(t);
    void *there;
    const SnlsStatus status = snls_device_alloc(ctx, &there, bytes ? bytes : 1);
    if (status < 0) return status;
    loan->here = t->data;
    t->data = there;
    t->device = snls_device_type(ctx);
    return snls_device_copy(ctx, there, loan->here, bytes, SNLS_COPY_TO_DEVICE);
}

SnlsStatus loans_give(SnlsContext *ctx, Loan *loans, int count)
{
    SnlsStatus status = SNLS_OK;
    for (int i = 0; i < count; i++) loans[i].here = NULL;
    if (snls_device_type(ctx) == SNLS_DEVICE_CPU) return SNLS_OK;
    for (int i = 0; i < count && status >= 0; i++)
        if (loans[i].tensor->data) status = give(ctx, &loans[i]);
    return status;
}

SnlsStatus loans_return(SnlsContext *ctx, Loan *loans, int count, SnlsStatus status)
{
    for (int i = 0; i < count; i++) {
        SnlsTensor *t = loans[i].tensor;
        void *there = t->data;
        if (!loans[i].here) continue;
        t->data = loans[i].here;
        t->device = SNLS_DEVICE_CPU;
        if (status >= 0 && loans[i].written) {
            const SnlsStatus copied = snls_device_copy(ctx, t->data, there, bytes_of(t), SNLS_COPY_FROM_DEVICE);
            if (copied < 0) status = copied;
        }
        snls_device_free(ctx, there);
    }
    return status;
}
