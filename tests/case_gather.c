/* case_gather.c: random aggregations; the draw also serves gather_add and scatter_add, which take the same inputs. */
#include "case.h"
#include <math.h>
#include <string.h>

static const Slot slots[] = {
    {"value", ROLE_IN, offsetof(SnlsGather, value)},           {"weight", ROLE_IN, offsetof(SnlsGather, weight)},
    {"offset", ROLE_IN, offsetof(SnlsGather, offset)},         {"out", ROLE_OUT, offsetof(SnlsGather, out)},
    {"out", ROLE_GRAD_IN, offsetof(SnlsGatherGrad, out)},      {"value", ROLE_GRAD_OUT, offsetof(SnlsGatherGrad, value)},
    {"weight", ROLE_GRAD_OUT, offsetof(SnlsGatherGrad, weight)}, {"offset", ROLE_GRAD_OUT, offsetof(SnlsGatherGrad, offset)},
    {NULL, ROLE_IN, 0}};

typedef struct Sizes { int64_t B, T, H, W, F, K, heads, rows, columns; } Sizes;

static void draw_sizes(Call *call, SnlsGatherParams *p, Sizes *z)
{
    static const Cap caps[] = {{"ps", 5}, {"stride0", 4}, {"dilation", 3}, {"heads", 3}, {NULL, 0}};
    Rng *rng = &call->rng;
    draw_params(rng, call->op->name, p, caps);
    if (call->kind == CALL_SMOOTH) p->interp = SNLS_INTERP_BILINEAR;
    *z = (Sizes){.B = rng_int(rng, 1, 2), .T = rng_int(rng, 1, 5), .H = draw_size(rng), .W = draw_size(rng),
                 .F = rng_one_in(rng, 3) ? rng_int(rng, 1, 40) : rng_int(rng, 1, 8), .K = rng_int(rng, 1, 5),
                 .heads = p->heads ? p->heads : rng_int(rng, 1, 3)};
    const double budget = draw_budget * (call->kind == CALL_SMOOTH ? 1e4 : rng_one_in(rng, 16) ? 4e5 : 1e5);
    while ((double)(z->B * z->T * z->heads * z->F * z->K * p->ps * p->ps) * (double)((z->H + p->stride0 - 1) / p->stride0) *
               (double)((z->W + p->stride0 - 1) / p->stride0) > budget) {
        switch (rng_int(rng, 0, 5)) {
        case 0: z->H = (z->H + 1) / 2; break;
        case 1: z->W = (z->W + 1) / 2; break;
        case 2: p->ps = (p->ps + 1) / 2; break;
        case 3: z->K = (z->K + 1) / 2; break;
        case 4: z->F = (z->F + 1) / 2; break;
        case 5: z->B = 1; break;
        }
    }
}

static void draw_small(SnlsGatherParams *p, Sizes *z)
{
    p->ps = 3;
    *z = (Sizes){.B = 1, .T = 3, .H = 5, .W = 6, .F = 3, .K = 3, .heads = 2};
}

static void draw_neighbours(Call *call, SnlsGather *s, const Sizes *z)
{
    Rng *rng = &call->rng;
    const Motion motion = call->kind == CALL_SMALL ? MOTION_REAL : (Motion)rng_int(rng, 0, MOTION_COUNT - 1);
    tensor_fill(&s->weight, rng, -1, 1);
    for (int64_t i = 0; i < tensor_count(&s->weight); i++) {
        const double ramp = (double)(i / z->K % z->columns);
        if (rng_one_in(rng, 8)) tensor_set(&s->weight, i, 0);
        tensor_set(&s->offset, 3 * i, (double)rng_int(rng, -2 * z->T, 2 * z->T) + draw_time_fraction(call));
        tensor_set(&s->offset, 3 * i + 1, draw_motion(call, motion, z->H, ramp));
        tensor_set(&s->offset, 3 * i + 2, draw_motion(call, motion, z->W, ramp));
        if (motion == MOTION_BROKEN && rng_one_in(rng, 9)) tensor_set(&s->offset, 3 * i, INFINITY);
    }
}

static void draw_out(Call *call, SnlsGather *s, const Sizes *z)
{
    Rng *rng = &call->rng;
    const int64_t stack[7] = {z->B, z->heads, z->K, z->T, z->H, z->W, z->F}, total[5] = {z->B, z->T, z->H, z->W, z->heads};
    const bool stacked = !strcmp(call->op->name, "gather"), scatter = !strcmp(call->op->name, "scatter_add");
    const int32_t dtype = s->value.dtype == SNLS_F64 || rng_one_in(rng, 2) ? s->value.dtype : SNLS_F32;
    s->out = tensor_new(rng, dtype, stacked ? 7 : 5, stacked ? stack : s->value.shape, LAYOUT_OUTPUT);
    if (scatter && (call->kind != CALL_ANY || !rng_one_in(rng, 3)))
        call->s.scatter_add.total = tensor_new(rng, s->weight.dtype, 5, total, LAYOUT_OUTPUT);
}

void aggregate_make(Call *call)
{
    Rng *rng = &call->rng;
    SnlsGather *s = &call->s.gather; /* scatter_add begins with the same fields */
    Sizes z;
    snls_gather_defaults(&s->params);
    if (call->kind == CALL_SMALL) draw_small(&s->params, &z);
    else draw_sizes(call, &s->params, &z);
    z.rows = (z.H + s->params.stride0 - 1) / s->params.stride0;
    z.columns = (z.W + s->params.stride0 - 1) / s->params.stride0;
    const int64_t video[5] = {z.B, z.T, z.H, z.W, z.heads * z.F}, places[7] = {z.B, z.heads, z.T, z.rows, z.columns, z.K, 3};
    const int32_t dtype = draw_dtype(rng, call->kind), plain = dtype == SNLS_F64 ? SNLS_F64 : SNLS_F32;
    s->value = tensor_new(rng, dtype, 5, video, LAYOUT_INPUT);
    draw_features(call, &s->value);
    s->weight = tensor_new(rng, plain, 6, places, LAYOUT_INPUT);
    s->offset = tensor_new(rng, plain, 7, places, LAYOUT_INPUT);
    draw_neighbours(call, s, &z);
    draw_out(call, s, &z);
    const bool scatter = !strcmp(call->op->name, "scatter_add");
    SnlsTensor *g_out = call_find(call, ROLE_GRAD_IN, "out");
    draw_grad(call, g_out, &s->out, false);
    while (!scatter && !g_out->data) draw_grad(call, g_out, &s->out, false); /* only scatter_add may go without */
    if (scatter) draw_grad(call, &call->g.scatter_add.total, &call->s.scatter_add.total, false);
    draw_grad(call, call_find(call, ROLE_GRAD_OUT, "value"), &s->value, true);
    draw_grad(call, call_find(call, ROLE_GRAD_OUT, "weight"), &s->weight, true);
    if (s->params.interp == SNLS_INTERP_BILINEAR) draw_grad(call, call_find(call, ROLE_GRAD_OUT, "offset"), &s->offset, true);
}

const Case case_gather = {slots, aggregate_make, aggregate_check_forward, aggregate_check_backward, NULL};
