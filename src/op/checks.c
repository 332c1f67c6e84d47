/* checks.c: what every operator checks in the same way. */
#include "op/tables.h"

SnlsStatus snls_params_check(SnlsContext *ctx, const char *op, const SnlsOption *table, const void *params,
                             const int32_t *reserved, int count)
{
    SNLS_TRY(snls_options_check(ctx, op, table, params));
    for (int i = 0; i < count; i++)
        SNLS_REQUIRE(ctx, reserved[i] == 0, SNLS_ERR_ARG, "%s: reserved[%d] of params is %d, must be 0 (call snls_%s_defaults first)",
                     op, i, (int)reserved[i], op);
    return SNLS_OK;
}

SnlsStatus snls_operand(SnlsContext *ctx, const char *op, const char *name, const SnlsTensor *t, int32_t ndim, const int64_t *want,
                        const char *layout, int32_t role)
{
    SNLS_TRY(snls_tensor_require(ctx, op, name, t, ndim, want, layout, role));
    if (!t->data || (role & SNLS_ROLE_SHAPE_ONLY)) return SNLS_OK;
    SNLS_REQUIRE(ctx, t->device == ctx->backend->device, SNLS_ERR_SHAPE, "%s: %s is on device type %d, backend %s works on %d", op, name,
                 (int)t->device, ctx->backend->name, (int)ctx->backend->device);
    return SNLS_OK;
}

SnlsStatus snls_outputs_apart(SnlsContext *ctx, const char *op, const SnlsNamed *outputs, const SnlsNamed *inputs)
{
    for (; outputs->name; outputs++)
        for (const SnlsNamed *in = inputs; in->name; in++)
            SNLS_REQUIRE(ctx, !snls_tensor_shares(outputs->tensor, in->tensor), SNLS_ERR_ARG, "%s: %s shares memory with %s, must be apart from all that is read", op,
                         outputs->name, in->name);
    return SNLS_OK;
}

void snls_output_shape(SnlsTensor *t, int32_t ndim, const int64_t *shape)
{
    if (t->data) return;
    t->ndim = ndim;
    for (int32_t i = 0; i < ndim; i++) t->shape[i] = shape[i];
    snls_tensor_contiguous(t);
}
