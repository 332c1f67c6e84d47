/* gather.c: checks gather, gather_add and scatter_add and hands them on; no arithmetic. */
#include "op/aggregate.h"
#include "op/tables.h"

static const char video_layout[] = "(B,T,H,W,C)", stack_layout[] = "(B,heads,K,T,H,W,F)", total_layout[] = "(B,T,H,W,heads)";
static const char weight_layout[] = "(B,heads,T,nH,nW,K)", offset_layout[] = "(B,heads,T,nH,nW,K,3)";

static SnlsStatus check_inputs(SnlsContext *ctx, const char *op, const SnlsGatherParams *p, const SnlsTensor *value, const SnlsTensor *weight,
                               const SnlsTensor *offset, int32_t role)
{
    const int64_t any[5] = {SNLS_ANY, SNLS_ANY, SNLS_ANY, SNLS_ANY, SNLS_ANY}, *v = value->shape;
    SNLS_TRY(snls_params_check(ctx, op, snls_gather_table, p, p->reserved, 10));
    SNLS_TRY(snls_operand(ctx, op, "value", value, 5, any, video_layout, role));
    for (int i = 1; i < 5; i++)
        SNLS_REQUIRE(ctx, v[i] > 0, SNLS_ERR_SHAPE, "%s: value has length 0 on axis %d, must be at least 1", op, i);
    const int64_t rows = (v[2] - 1) / p->stride0 + 1, columns = (v[3] - 1) / p->stride0 + 1;
    const int64_t want[6] = {v[0], p->heads ? p->heads : SNLS_ANY, v[1], rows, columns, SNLS_ANY};
    SNLS_TRY(snls_operand(ctx, op, "weight", weight, 6, want, weight_layout, role));
    const int64_t *w = weight->shape;
    SNLS_REQUIRE(ctx, w[1] > 0, SNLS_ERR_SHAPE, "%s: weight has 0 heads, must have at least 1", op);
    SNLS_REQUIRE(ctx, v[4] % w[1] == 0, SNLS_ERR_ARG, "%s: weight has %lld heads, they must divide the %lld channels of value", op,
                 (long long)w[1], (long long)v[4]);
    const int64_t places[7] = {w[0], w[1], w[2], w[3], w[4], w[5], 3};
    return snls_operand(ctx, op, "offset", offset, 7, places, offset_layout, role);
}

static SnlsStatus check_output(SnlsContext *ctx, const SnlsAggregate *a, const char *name, const SnlsTensor *out, int32_t role)
{
    const int64_t stack[7] = {a->batch, a->heads, a->neighbours, a->frames, a->height, a->width, a->features};
    return a->stack ? snls_operand(ctx, a->op, name, out, 7, stack, stack_layout, role)
                    : snls_operand(ctx, a->op, name, out, 5, a->value.shape, video_layout, role);
}

/* Gradients by the inputs, which the three operators have in common. */
static SnlsStatus check_grad(SnlsContext *ctx, const SnlsAggregate *a, const SnlsTensor *value, const SnlsTensor *weight, const SnlsTensor *offset)
{
    const int32_t out = SNLS_ROLE_OPTIONAL | SNLS_ROLE_OUT;
    SNLS_TRY(snls_operand(ctx, a->op, "gradient of value", value, 5, a->value.shape, video_layout, out));
    SNLS_TRY(snls_operand(ctx, a->op, "gradient of weight", weight, 6, a->weight.shape, weight_layout, out));
    SNLS_TRY(snls_operand(ctx, a->op, "gradient of offset", offset, 7, a->offset.shape, offset_layout, out));
    SNLS_REQUIRE(ctx, !offset->data || !a->nearest, SNLS_ERR_UNSUPPORTED, "%s: interp is nearest, which has no gradient to offset", a->op);
    return SNLS_OK;
}

/* Places are read long after others were written. total: of scatter_add, else NULL. */
static SnlsStatus check_apart(SnlsContext *ctx, const SnlsAggregate *a, const SnlsTensor *out, const SnlsTensor *total)
{
    const SnlsNamed inputs[] = {{"value", &a->value}, {"weight", &a->weight}, {"offset", &a->offset}, {NULL, NULL}};
    const SnlsNamed outputs[] = {{"out", out}, {total ? "total" : NULL, total}, {NULL, NULL}};
    return snls_outputs_apart(ctx, a->op, outputs, inputs);
}

static SnlsStatus check_grad_apart(SnlsContext *ctx, const SnlsAggregate *a, const SnlsGatherGrad *g, const SnlsTensor *total)
{
    const SnlsNamed inputs[] = {{"value", &a->value}, {"weight", &a->weight}, {"offset", &a->offset}, {"gradient of out", &g->out},
                                {total ? "gradient of total" : NULL, total}, {NULL, NULL}};
    const SnlsNamed outputs[] = {{"gradient of value", &g->value}, {"gradient of weight", &g->weight}, {"gradient of offset", &g->offset}, {NULL, NULL}};
    return snls_outputs_apart(ctx, a->op, outputs, inputs);
}

static SnlsStatus gather_check(SnlsContext *ctx, const SnlsGather *s, bool stack, int32_t output, SnlsAggregate *a)
{
    SNLS_TRY(check_inputs(ctx, stack ? "gather" : "gather_add", &s->params, &s->value, &s->weight, &s->offset, SNLS_ROLE_IN));
    *a = snls_aggregate_of_gather(s, stack);
    return check_output(ctx, a, "out", &s->out, output);
}

static SnlsStatus gather_check_grad(SnlsContext *ctx, const SnlsGather *s, const SnlsGatherGrad *g, bool stack)
{
    SnlsAggregate a;
    SNLS_TRY(gather_check(ctx, s, stack, SNLS_ROLE_OPTIONAL, &a));
    SNLS_TRY(check_output(ctx, &a, "gradient of out", &g->out, SNLS_ROLE_IN));
    SNLS_TRY(check_grad(ctx, &a, &g->value, &g->weight, &g->offset));
    return check_grad_apart(ctx, &a, g, NULL);
}

static SnlsStatus gather_fill_shape(SnlsContext *ctx, SnlsGather *s, bool stack)
{
    SNLS_TRY(check_inputs(ctx, stack ? "gather" : "gather_add", &s->params, &s->value, &s->weight, &s->offset, SNLS_ROLE_SHAPE_ONLY));
    const SnlsAggregate a = snls_aggregate_of_gather(s, stack);
    const int64_t shape[7] = {a.batch, a.heads, a.neighbours, a.frames, a.height, a.width, a.features};
    snls_output_shape(&s->out, stack ? 7 : 5, stack ? shape : s->value.shape);
    return SNLS_OK;
}

static SnlsStatus covered(SnlsStatus status, const SnlsAggregate *a)
{
    return status == SNLS_OK && !snls_aggregate_covered(a) ? SNLS_UNCOVERED : status;
}

void snls_gather_defaults(SnlsGatherParams *params)
{
    if (!params) return;
    *params = (SnlsGatherParams){0};
    snls_options_default(snls_gather_table, params);
}
void snls_gather_add_defaults(SnlsGatherAddParams *params) { snls_gather_defaults(params); }
void snls_scatter_add_defaults(SnlsScatterAddParams *params) { snls_gather_defaults(params); }

SnlsStatus snls_gather_shape(SnlsContext *ctx, SnlsGather *s)
{
    SNLS_CHECK_CALL(ctx, "gather", s);
    return gather_fill_shape(ctx, s, true);
}

SnlsStatus snls_gather_forward(SnlsContext *ctx, const SnlsGather *s)
{
    SnlsAggregate a;
    SNLS_CHECK_CALL(ctx, "gather", s);
    SNLS_TRY(gather_check(ctx, s, true, SNLS_ROLE_OUT, &a));
    SNLS_TRY(check_apart(ctx, &a, &s->out, NULL));
    return covered(SNLS_DISPATCH(ctx, "gather", s->value.shape[0], gather_forward, s), &a);
}

SnlsStatus snls_gather_backward(SnlsContext *ctx, const SnlsGather *s, const SnlsGatherGrad *g)
{
    SNLS_CHECK_CALL(ctx, "gather", s, g);
    SNLS_TRY(gather_check_grad(ctx, s, g, true));
    return SNLS_DISPATCH(ctx, "gather", s->value.shape[0], gather_backward, s, g);
}

SnlsStatus snls_gather_add_shape(SnlsContext *ctx, SnlsGatherAdd *s)
{
    SNLS_CHECK_CALL(ctx, "gather_add", s);
    return gather_fill_shape(ctx, s, false);
}

SnlsStatus snls_gather_add_forward(SnlsContext *ctx, const SnlsGatherAdd *s)
{
    SnlsAggregate a;
    SNLS_CHECK_CALL(ctx, "gather_add", s);
    SNLS_TRY(gather_check(ctx, s, false, SNLS_ROLE_OUT, &a));
    SNLS_TRY(check_apart(ctx, &a, &s->out, NULL));
    return covered(SNLS_DISPATCH(ctx, "gather_add", s->value.shape[0], gather_add_forward, s), &a);
}

SnlsStatus snls_gather_add_backward(SnlsContext *ctx, const SnlsGatherAdd *s, const SnlsGatherAddGrad *g)
{
    SNLS_CHECK_CALL(ctx, "gather_add", s, g);
    SNLS_TRY(gather_check_grad(ctx, s, g, false));
    return SNLS_DISPATCH(ctx, "gather_add", s->value.shape[0], gather_add_backward, s, g);
}

static SnlsStatus scatter_check(SnlsContext *ctx, const SnlsScatterAdd *s, int32_t output, SnlsAggregate *a)
{
    SNLS_TRY(check_inputs(ctx, "scatter_add", &s->params, &s->value, &s->weight, &s->offset, SNLS_ROLE_IN));
    *a = snls_aggregate_of_scatter(s);
    const int64_t total[5] = {a->batch, a->frames, a->height, a->width, a->heads};
    SNLS_TRY(check_output(ctx, a, "out", &s->out, output));
    return snls_operand(ctx, "scatter_add", "total", &s->total, 5, total, total_layout, output | SNLS_ROLE_OPTIONAL);
}

SnlsStatus snls_scatter_add_shape(SnlsContext *ctx, SnlsScatterAdd *s)
{
    SNLS_CHECK_CALL(ctx, "scatter_add", s);
    SNLS_TRY(check_inputs(ctx, "scatter_add", &s->params, &s->value, &s->weight, &s->offset, SNLS_ROLE_SHAPE_ONLY));
    const int64_t *v = s->value.shape, total[5] = {v[0], v[1], v[2], v[3], s->weight.shape[1]};
    snls_output_shape(&s->out, 5, v);
    snls_output_shape(&s->total, 5, total);
    return SNLS_OK;
}

SnlsStatus snls_scatter_add_forward(SnlsContext *ctx, const SnlsScatterAdd *s)
{
    SnlsAggregate a;
    SNLS_CHECK_CALL(ctx, "scatter_add", s);
    SNLS_TRY(scatter_check(ctx, s, SNLS_ROLE_OUT, &a));
    SNLS_TRY(check_apart(ctx, &a, &s->out, &s->total));
    return SNLS_DISPATCH(ctx, "scatter_add", s->value.shape[0], scatter_add_forward, s);
}

SnlsStatus snls_scatter_add_backward(SnlsContext *ctx, const SnlsScatterAdd *s, const SnlsScatterAddGrad *g)
{
    SnlsAggregate a;
    SNLS_CHECK_CALL(ctx, "scatter_add", s, g);
    SNLS_TRY(scatter_check(ctx, s, SNLS_ROLE_OPTIONAL, &a));
    const int64_t total[5] = {a.batch, a.frames, a.height, a.width, a.heads};
    SNLS_TRY(check_output(ctx, &a, "gradient of out", &g->out, SNLS_ROLE_OPTIONAL));
    SNLS_TRY(snls_operand(ctx, "scatter_add", "gradient of total", &g->total, 5, total, total_layout, SNLS_ROLE_OPTIONAL));
    SNLS_TRY(check_grad(ctx, &a, &g->value, &g->weight, &g->offset));
    const SnlsGatherGrad grad = {.out = g->out, .value = g->value, .weight = g->weight, .offset = g->offset};
    SNLS_TRY(check_grad_apart(ctx, &a, &grad, &g->total));
    return SNLS_DISPATCH(ctx, "scatter_add", s->value.shape[0], scatter_add_backward, s, g);
}
