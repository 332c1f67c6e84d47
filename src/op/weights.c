/* weights.c: checks a softmax and hands it on; no arithmetic. */
#include "op/tables.h"

static const char layout[] = "(B,heads,T,nH,nW,K)";

static SnlsStatus check_inputs(SnlsContext *ctx, const SnlsWeights *s, int32_t role)
{
    const int64_t any[6] = {SNLS_ANY, SNLS_ANY, SNLS_ANY, SNLS_ANY, SNLS_ANY, SNLS_ANY};
    SNLS_TRY(snls_params_check(ctx, "weights", snls_weights_table, &s->params, s->params.reserved, 13));
    return snls_operand(ctx, "weights", "dist", &s->dist, 6, any, layout, role);
}

void snls_weights_defaults(SnlsWeightsParams *params)
{
    if (!params) return;
    *params = (SnlsWeightsParams){0};
    snls_options_default(snls_weights_table, params);
}

SnlsStatus snls_weights_shape(SnlsContext *ctx, SnlsWeights *s)
{
    SNLS_CHECK_CALL(ctx, "weights", s);
    SNLS_TRY(check_inputs(ctx, s, SNLS_ROLE_SHAPE_ONLY));
    snls_output_shape(&s->weight, 6, s->dist.shape);
    return SNLS_OK;
}

SnlsStatus snls_weights_forward(SnlsContext *ctx, const SnlsWeights *s)
{
    SNLS_CHECK_CALL(ctx, "weights", s);
    SNLS_TRY(check_inputs(ctx, s, SNLS_ROLE_IN));
    SNLS_TRY(snls_operand(ctx, "weights", "weight", &s->weight, 6, s->dist.shape, layout, SNLS_ROLE_OUT));
    return SNLS_DISPATCH(ctx, "weights", s->dist.shape[0], weights_forward, s);
}

SnlsStatus snls_weights_backward(SnlsContext *ctx, const SnlsWeights *s, const SnlsWeightsGrad *g)
{
    SNLS_CHECK_CALL(ctx, "weights", s, g);
    SNLS_TRY(check_inputs(ctx, s, SNLS_ROLE_IN));
    SNLS_TRY(snls_operand(ctx, "weights", "weight", &s->weight, 6, s->dist.shape, layout, SNLS_ROLE_IN));
    SNLS_TRY(snls_operand(ctx, "weights", "gradient of weight", &g->weight, 6, s->dist.shape, layout, SNLS_ROLE_IN));
    SNLS_TRY(snls_operand(ctx, "weights", "gradient of dist", &g->dist, 6, s->dist.shape, layout, SNLS_ROLE_OUT | SNLS_ROLE_OPTIONAL));
    return SNLS_DISPATCH(ctx, "weights", s->dist.shape[0], weights_backward, s, g);
}
