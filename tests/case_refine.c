/* case_refine.c: random refinements: given places anywhere, also outside the clip and not finite. */
#include "match.h"
#include <math.h>

static const Slot slots[] = {
    {"query", ROLE_IN, offsetof(SnlsRefine, query)},         {"key", ROLE_IN, offsetof(SnlsRefine, key)},
    {"centre", ROLE_IN, offsetof(SnlsRefine, centre)},       {"dist", ROLE_OUT, offsetof(SnlsRefine, dist)},
    {"offset", ROLE_OUT, offsetof(SnlsRefine, offset)},      {"index", ROLE_OUT, offsetof(SnlsRefine, index)},
    {"dist", ROLE_GRAD_IN, offsetof(SnlsRefineGrad, dist)},  {"offset", ROLE_GRAD_IN, offsetof(SnlsRefineGrad, offset)},
    {"query", ROLE_GRAD_OUT, offsetof(SnlsRefineGrad, query)}, {"key", ROLE_GRAD_OUT, offsetof(SnlsRefineGrad, key)},
    {"centre", ROLE_GRAD_OUT, offsetof(SnlsRefineGrad, centre)}, {NULL, ROLE_IN, 0}};

typedef struct Sizes { int64_t B, T, H, W, F, given, rows, columns; } Sizes;

static void draw_sizes(Call *call, SnlsRefineParams *p, Sizes *z)
{
    static const Cap caps[] = {{"wr", 5}, {"ps", 4}, {"k", 8}, {"heads", 3}, {"stride0", 4}, {"stride1", 2}, {"dilation", 3}, {NULL, 0}};
    Rng *rng = &call->rng;
    draw_params(rng, "refine", p, caps);
    p->stride1 = draw_step(rng, call->kind, call->exact);
    if (call->kind == CALL_SMOOTH) p->interp = SNLS_INTERP_BILINEAR;
    if (p->interp == SNLS_INTERP_NEAREST) p->stride1 = fmax(1, nearbyint(p->stride1));
    *z = (Sizes){.B = rng_int(rng, 1, 2), .T = rng_int(rng, 1, 5), .H = draw_size(rng), .W = draw_size(rng),
                 .F = rng_one_in(rng, 3) ? rng_int(rng, 1, 40) : rng_int(rng, 1, 8), .given = rng_int(rng, 1, 5)};
    const double budget = draw_budget * (call->kind == CALL_SMOOTH ? 1.5e4 : 2e5);
    for (;;) {
        const double queries = (double)(z->B * p->heads * z->T) * ceil((double)z->H / p->stride0) * ceil((double)z->W / p->stride0);
        const double cost = queries * (double)z->given * p->wr * p->wr;
        if (cost <= budget / 8 && cost * p->ps * p->ps * (double)z->F <= budget) break;
        switch (rng_int(rng, 0, 6)) {
        case 0: z->H = (z->H + 1) / 2; break;
        case 1: z->W = (z->W + 1) / 2; break;
        case 2: p->wr = (p->wr + 1) / 2; break;
        case 3: p->ps = (p->ps + 1) / 2; break;
        case 4: z->given = (z->given + 1) / 2; break;
        case 5: z->F = (z->F + 1) / 2; break;
        case 6: z->B = 1; break;
        }
    }
    p->k = (int32_t)rng_int(rng, 1, rng_one_in(rng, 2) ? z->given * p->wr * p->wr + 2 : 5);
}

static void draw_small(SnlsRefineParams *p, Sizes *z)
{
    snls_refine_defaults(p);
    p->wr = 3; p->ps = 2; p->k = 4; p->heads = 2; p->stride1 = 0.5;
    *z = (Sizes){.B = 1, .T = 3, .H = 5, .W = 6, .F = 3, .given = 3};
}

static void draw_centre(Call *call, SnlsRefine *s, const Sizes *z)
{
    Rng *rng = &call->rng;
    const int64_t shape[7] = {z->B, s->params.heads, z->T, z->rows, z->columns, z->given, 3};
    const Motion motion = call->kind == CALL_SMALL ? MOTION_REAL : (Motion)rng_int(rng, 0, MOTION_COUNT - 1);
    s->centre = tensor_new(rng, s->query.dtype == SNLS_F64 ? SNLS_F64 : SNLS_F32, 7, shape, LAYOUT_INPUT);
    for (int64_t i = 0; i < tensor_count(&s->centre); i += 3) {
        const double ramp = (double)(i / 3 / z->given % z->columns);
        tensor_set(&s->centre, i, (double)rng_int(rng, -2 * z->T, 2 * z->T) + draw_time_fraction(call));
        tensor_set(&s->centre, i + 1, draw_motion(call, motion, z->H, ramp));
        tensor_set(&s->centre, i + 2, draw_motion(call, motion, z->W, ramp));
        if (motion == MOTION_BROKEN && rng_one_in(rng, 9)) tensor_set(&s->centre, i, NAN);
    }
}

static void make(Call *call)
{
    Rng *rng = &call->rng;
    SnlsRefine *s = &call->s.refine;
    SnlsRefineGrad *g = &call->g.refine;
    Sizes z;
    call->exact = call->kind == CALL_ANY && rng_one_in(rng, 2);
    snls_refine_defaults(&s->params);
    if (call->kind == CALL_SMALL) draw_small(&s->params, &z);
    else draw_sizes(call, &s->params, &z);
    if (36.0 * 256 * s->params.ps * s->params.ps * (double)z.F >= 16777216) call->exact = false;
    z.rows = (z.H + s->params.stride0 - 1) / s->params.stride0;
    z.columns = (z.W + s->params.stride0 - 1) / s->params.stride0;
    const int64_t video[5] = {z.B, z.T, z.H, z.W, s->params.heads * z.F};
    const int64_t shape[7] = {z.B, s->params.heads, z.T, z.rows, z.columns, s->params.k, 3};
    s->query = tensor_new(rng, draw_dtype(rng, call->kind), 5, video, LAYOUT_INPUT);
    s->key = tensor_new(rng, s->query.dtype, 5, video, LAYOUT_INPUT);
    draw_features(call, &s->query);
    draw_features(call, &s->key);
    draw_centre(call, s, &z);
    s->dist = tensor_new(rng, s->centre.dtype, 6, shape, LAYOUT_OUTPUT);
    s->offset = tensor_new(rng, s->centre.dtype, 7, shape, LAYOUT_OUTPUT);
    s->index = tensor_new(rng, SNLS_I32, 6, shape, LAYOUT_OUTPUT);
    draw_grad(call, &g->dist, &s->dist, false);
    draw_grad(call, &g->offset, &s->offset, false);
    draw_grad(call, &g->query, &s->query, true);
    draw_grad(call, &g->key, &s->key, true);
    if (s->params.interp == SNLS_INTERP_BILINEAR) draw_grad(call, &g->centre, &s->centre, true);
}

const Case case_refine = {slots, make, match_check_forward, match_check_backward, NULL};
