/* flow_compose.c: checks a flow composition and hands it on; no arithmetic. */
#include "op/tables.h"

static void flow_shape(const SnlsFlowCompose *s, int64_t shape[6])
{
    const int64_t step = s->params.stride0, *in = s->fflow.shape;
    const int64_t out[6] = {in[0], in[1], 2 * (int64_t)s->params.wt, (in[2] - 1) / step + 1, (in[3] - 1) / step + 1, 2};
    for (int i = 0; i < 6; i++) shape[i] = out[i];
}

static SnlsStatus check_inputs(SnlsContext *ctx, const SnlsFlowCompose *s, int32_t role)
{
    const SnlsFlowComposeParams *p = &s->params;
    const int64_t any[5] = {SNLS_ANY, SNLS_ANY, SNLS_ANY, SNLS_ANY, 2};
    SNLS_TRY(snls_params_check(ctx, "flow_compose", snls_flow_compose_table, p, p->reserved, 14));
    SNLS_TRY(snls_operand(ctx, "flow_compose", "fflow", &s->fflow, 5, any, "(B,T,H,W,2)", role));
    SNLS_TRY(snls_operand(ctx, "flow_compose", "bflow", &s->bflow, 5, s->fflow.shape, "(B,T,H,W,2)", role));
    for (int i = 1; i < 4; i++)
        SNLS_REQUIRE(ctx, s->fflow.shape[i] > 0, SNLS_ERR_SHAPE, "flow_compose: fflow has length 0 on axis %d, must be at least 1", i);
    SNLS_REQUIRE(ctx, s->fflow.shape[1] >= 2 * (int64_t)p->wt + 1, SNLS_ERR_ARG,
                 "flow_compose: wt is %d, which needs %lld frames; fflow has %lld", (int)p->wt, 2 * (long long)p->wt + 1,
                 (long long)s->fflow.shape[1]);
    return SNLS_OK;
}

static SnlsStatus check_call(SnlsContext *ctx, const SnlsFlowCompose *s, int32_t output)
{
    int64_t shape[6];
    SNLS_TRY(check_inputs(ctx, s, SNLS_ROLE_IN));
    flow_shape(s, shape);
    return snls_operand(ctx, "flow_compose", "flow", &s->flow, 6, shape, "(B,T,2*wt,nH,nW,2)", output);
}

void snls_flow_compose_defaults(SnlsFlowComposeParams *params)
{
    if (!params) return;
    *params = (SnlsFlowComposeParams){0};
    snls_options_default(snls_flow_compose_table, params);
}

SnlsStatus snls_flow_compose_shape(SnlsContext *ctx, SnlsFlowCompose *s)
{
    int64_t shape[6];
    SNLS_CHECK_CALL(ctx, "flow_compose", s);
    SNLS_TRY(check_inputs(ctx, s, SNLS_ROLE_SHAPE_ONLY));
    flow_shape(s, shape);
    snls_output_shape(&s->flow, 6, shape);
    return SNLS_OK;
}

SnlsStatus snls_flow_compose_forward(SnlsContext *ctx, const SnlsFlowCompose *s)
{
    SNLS_CHECK_CALL(ctx, "flow_compose", s);
    SNLS_TRY(check_call(ctx, s, SNLS_ROLE_OUT));
    return SNLS_DISPATCH(ctx, "flow_compose", s->fflow.shape[0], flow_compose_forward, s);
}

SnlsStatus snls_flow_compose_backward(SnlsContext *ctx, const SnlsFlowCompose *s, const SnlsFlowComposeGrad *g)
{
    int64_t shape[6];
    const int32_t out = SNLS_ROLE_OPTIONAL | SNLS_ROLE_OUT;
    SNLS_CHECK_CALL(ctx, "flow_compose", s, g);
    SNLS_TRY(check_call(ctx, s, SNLS_ROLE_OPTIONAL));
    flow_shape(s, shape);
    SNLS_TRY(snls_operand(ctx, "flow_compose", "gradient of flow", &g->flow, 6, shape, "(B,T,2*wt,nH,nW,2)", SNLS_ROLE_IN));
    SNLS_TRY(snls_operand(ctx, "flow_compose", "gradient of fflow", &g->fflow, 5, s->fflow.shape, "(B,T,H,W,2)", out));
    SNLS_TRY(snls_operand(ctx, "flow_compose", "gradient of bflow", &g->bflow, 5, s->fflow.shape, "(B,T,H,W,2)", out));
    return SNLS_DISPATCH(ctx, "flow_compose", s->fflow.shape[0], flow_compose_backward, s, g);
}
