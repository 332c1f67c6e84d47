/* tables.h: the option tables (options.c) and the checks that every operator begins with. */
#ifndef SNLS_TABLES_H
#define SNLS_TABLES_H

#include "base/options.h"
#include "base/tensor.h"
#include "op/op.h"

extern const SnlsOption snls_search_table[], snls_refine_table[], snls_flow_compose_table[], snls_weights_table[], snls_gather_table[];

/* Range of every field, and reserved room that a caller of a newer header may have filled. */
SnlsStatus snls_params_check(SnlsContext *ctx, const char *op, const SnlsOption *table, const void *params,
                             const int32_t *reserved, int count);

/* A tensor of an operator: as snls_tensor_require, and on the backend's device. */
SnlsStatus snls_operand(SnlsContext *ctx, const char *op, const char *name, const SnlsTensor *t, int32_t ndim, const int64_t *want,
                        const char *layout, int32_t role);

/* Outputs (checked, like inputs, by snls_operand) that share memory with an input, as far as that is told cheaply (snls_tensor_shares), are refused.
 * Lists end with a name NULL; those without data are passed over. */
typedef struct SnlsNamed { const char *name; const SnlsTensor *tensor; } SnlsNamed;
SnlsStatus snls_outputs_apart(SnlsContext *ctx, const char *op, const SnlsNamed *outputs, const SnlsNamed *inputs);

/* Gives an output without data its shape, contiguous; keeps dtype and device. */
void snls_output_shape(SnlsTensor *t, int32_t ndim, const int64_t *shape);

#define SNLS_CHECK_CALL(ctx, op, ...)                                                                          \
    do {                                                                                                       \
        if (!(ctx)) return SNLS_ERR_ARG;                                                                       \
        const void *const snls_given_[] = {__VA_ARGS__};                                                       \
        for (size_t snls_i_ = 0; snls_i_ < sizeof snls_given_ / sizeof *snls_given_; snls_i_++)                 \
            if (!snls_given_[snls_i_]) return snls_fail((ctx), SNLS_ERR_ARG, op ": a struct is missing (NULL)");\
    } while (0)

/* Hands a checked call to the backend. A batch of nothing is done at once: its other axes may be longer than any memory. */
#define SNLS_DISPATCH(ctx, op, batch, entry, ...)                                                                           \
    ((batch) == 0           ? SNLS_OK                                                                                       \
     : (ctx)->backend->entry ? (ctx)->backend->entry((ctx), __VA_ARGS__)                                                    \
                             : snls_fail((ctx), SNLS_ERR_UNSUPPORTED, "%s: backend %s has no %s", op, (ctx)->backend->name, #entry))

#endif
