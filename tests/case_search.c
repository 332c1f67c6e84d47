/* case_search.c: random searches over the whole legal space; also draws those of search_all. */
#include "match.h"
#include <math.h>
#include <string.h>

static const Slot slots[] = {
    {"query", ROLE_IN, offsetof(SnlsSearch, query)},         {"key", ROLE_IN, offsetof(SnlsSearch, key)},
    {"flow", ROLE_IN, offsetof(SnlsSearch, flow)},           {"dist", ROLE_OUT, offsetof(SnlsSearch, dist)},
    {"offset", ROLE_OUT, offsetof(SnlsSearch, offset)},      {"index", ROLE_OUT, offsetof(SnlsSearch, index)},
    {"dist", ROLE_GRAD_IN, offsetof(SnlsSearchGrad, dist)},  {"offset", ROLE_GRAD_IN, offsetof(SnlsSearchGrad, offset)},
    {"query", ROLE_GRAD_OUT, offsetof(SnlsSearchGrad, query)}, {"key", ROLE_GRAD_OUT, offsetof(SnlsSearchGrad, key)},
    {"flow", ROLE_GRAD_OUT, offsetof(SnlsSearchGrad, flow)}, {NULL, ROLE_IN, 0}};

typedef struct Sizes { int64_t B, T, H, W, F; } Sizes;

static double candidates(const SnlsSearchParams *p, const Sizes *z)
{
    const double queries = (double)(z->B * p->heads * z->T) * ceil((double)z->H / p->stride0) * ceil((double)z->W / p->stride0);
    return queries * (2 * p->wt + 1) * p->ws * p->ws;
}

/* Halves one size at a time until the reference is quick. */
static void shrink(Rng *rng, SnlsSearchParams *p, Sizes *z, double budget)
{
    while (candidates(p, z) > budget / 8 || candidates(p, z) * p->ps * p->ps * (double)z->F > budget) {
        switch (rng_int(rng, 0, 6)) {
        case 0: z->H = (z->H + 1) / 2; break;
        case 1: z->W = (z->W + 1) / 2; break;
        case 2: p->ws = (p->ws + 1) / 2; break;
        case 3: p->ps = (p->ps + 1) / 2; break;
        case 4: p->heads = (p->heads + 1) / 2; break;
        case 5: z->F = (z->F + 1) / 2; break;
        case 6: z->B = 1; break;
        }
    }
}

/* Parameters that conflict are argument errors (test_api); here they are brought into line. */
static void make_legal(Rng *rng, SnlsSearchParams *p, bool all)
{
    const int32_t slots_in_time = 2 * p->wt + 1;
    if (p->interp == SNLS_INTERP_NEAREST) p->stride1 = fmax(1, nearbyint(p->stride1));
    if (all) {
        p->anchor = SNLS_ANCHOR_NONE;
        p->topk = SNLS_TOPK_ALL;
    }
    if (p->anchor == SNLS_ANCHOR_SELF) p->exclude = SNLS_EXCLUDE_NONE;
    if (p->anchor == SNLS_ANCHOR_EACH && p->exclude == SNLS_EXCLUDE_SELF) p->exclude = SNLS_EXCLUDE_NONE;
    p->k = (int32_t)rng_int(rng, 1, rng_one_in(rng, 3) ? (int64_t)slots_in_time * p->ws * p->ws + 3 : 8);
    if (p->k > 60) p->k = 60;
    if (p->anchor == SNLS_ANCHOR_EACH && p->topk == SNLS_TOPK_ALL && p->k < slots_in_time) p->k = slots_in_time;
}

static void draw_small(SnlsSearchParams *p, Sizes *z)
{
    snls_search_defaults(p);
    p->ws = 3; p->wt = 1; p->ps = 2; p->k = 4; p->heads = 2; p->stride1 = 0.5;
    *z = (Sizes){1, 3, 5, 6, 3};
}

/* Rows longer than a vector, as real frames have them: fast paths that take many queries at once begin there. */
static void draw_wide(Rng *rng, SnlsSearchParams *p, Sizes *z)
{
    *z = (Sizes){1, rng_int(rng, 1, 3), rng_int(rng, 1, 9), rng_int(rng, 20, 50), rng_int(rng, 1, 5)};
    p->ws = (int32_t)rng_int(rng, 1, 5);
    p->ps = (int32_t)rng_int(rng, 1, 3);
    p->heads = 1;
    p->stride0 = (int32_t)RNG_PICK(rng, 1, 1, 1, 2);
}

static void draw_sizes(Call *call, SnlsSearchParams *p, Sizes *z)
{
    static const Cap caps[] = {{"ws", 9}, {"wt", 2}, {"ps", 5}, {"k", 8}, {"heads", 3}, {"stride0", 4}, {"stride1", 2}, {"dilation", 3}, {NULL, 0}};
    Rng *rng = &call->rng;
    draw_params(rng, "search", p, caps);
    p->stride1 = draw_step(rng, call->kind, call->exact);
    *z = (Sizes){rng_int(rng, 1, 2), rng_int(rng, 1, 5), draw_size(rng), draw_size(rng), rng_one_in(rng, 3) ? rng_int(rng, 1, 40) : rng_int(rng, 1, 8)};
    const bool wide = call->kind == CALL_ANY && draw_budget == 1 && rng_one_in(rng, 6);
    if (wide) draw_wide(rng, p, z);
    if (p->wt > (z->T - 1) / 2) p->wt = (int32_t)((z->T - 1) / 2);
    if (call->kind == CALL_SMOOTH) p->interp = SNLS_INTERP_BILINEAR;
    shrink(rng, p, z, draw_budget * (call->kind == CALL_SMOOTH ? 1.5e4 : wide || rng_one_in(rng, 16) ? 1.2e6 : 2e5));
}

static void draw_flow(Call *call, SnlsSearch *s, const Sizes *z)
{
    Rng *rng = &call->rng;
    const SnlsSearchParams *p = &s->params;
    const int64_t rows = (z->H + p->stride0 - 1) / p->stride0, columns = (z->W + p->stride0 - 1) / p->stride0;
    const bool per_head = rng_one_in(rng, 2), own = p->wt == 0 ? !rng_one_in(rng, 5) : rng_one_in(rng, 2);
    const int64_t S = 2 * p->wt + (own ? 1 : 0);
    const int64_t plain[6] = {z->B, z->T, S, rows, columns, 2}, heads[7] = {z->B, p->heads, z->T, S, rows, columns, 2};
    const Motion motion = call->kind == CALL_SMALL ? MOTION_REAL : (Motion)rng_int(rng, 0, MOTION_COUNT - 1);
    const int32_t dtype = s->query.dtype == SNLS_F64 ? SNLS_F64 : SNLS_F32;
    s->flow = tensor_new(rng, dtype, per_head ? 7 : 6, per_head ? heads : plain, LAYOUT_INPUT);
    for (int64_t i = 0; i < tensor_count(&s->flow); i++)
        tensor_set(&s->flow, i, draw_motion(call, motion, i % 2 ? z->H : z->W, (double)(i / 2 % columns) - (double)(i / 2 / columns % rows)));
}

static void draw_outputs(Call *call, SnlsSearch *s, const Sizes *z, bool all)
{
    Rng *rng = &call->rng;
    const SnlsSearchParams *p = &s->params;
    const int64_t slots_in_time = 2 * p->wt + 1, rows = (z->H + p->stride0 - 1) / p->stride0, columns = (z->W + p->stride0 - 1) / p->stride0;
    const int64_t K = all ? slots_in_time * p->ws * p->ws : p->topk == SNLS_TOPK_EACH ? slots_in_time * p->k : p->k;
    const int64_t shape[7] = {z->B, p->heads, z->T, rows, columns, K, 3};
    const int32_t dtype = s->query.dtype == SNLS_F64 ? SNLS_F64 : SNLS_F32;
    s->dist = tensor_new(rng, dtype, 6, shape, LAYOUT_OUTPUT);
    s->offset = tensor_new(rng, dtype, 7, shape, LAYOUT_OUTPUT);
    s->index = tensor_new(rng, SNLS_I32, 6, shape, LAYOUT_OUTPUT);
}

static void draw_grads(Call *call)
{
    SnlsSearch *s = &call->s.search;
    SnlsSearchGrad *g = &call->g.search;
    draw_grad(call, &g->dist, &s->dist, false);
    draw_grad(call, &g->offset, &s->offset, false);
    draw_grad(call, &g->query, &s->query, true);
    draw_grad(call, &g->key, &s->key, true);
    if (s->flow.data && s->params.interp == SNLS_INTERP_BILINEAR) draw_grad(call, &g->flow, &s->flow, true);
}

void search_make(Call *call, bool all)
{
    Rng *rng = &call->rng;
    SnlsSearch *s = &call->s.search;
    Sizes z;
    call->exact = call->kind == CALL_ANY && rng_one_in(rng, 2);
    snls_search_defaults(&s->params);
    if (call->kind == CALL_SMALL) draw_small(&s->params, &z);
    else {
        draw_sizes(call, &s->params, &z);
        make_legal(rng, &s->params, all);
    }
    if (36.0 * 256 * s->params.ps * s->params.ps * (double)z.F >= 16777216) call->exact = false;
    const int64_t shape[5] = {z.B, z.T, z.H, z.W, s->params.heads * z.F};
    const int32_t dtype = draw_dtype(rng, call->kind);
    const bool mixed = call->kind == CALL_ANY && dtype != SNLS_F64 && rng_one_in(rng, 6);
    s->query = tensor_new(rng, dtype, 5, shape, LAYOUT_INPUT);
    s->key = tensor_new(rng, mixed ? SNLS_BF16 : dtype, 5, shape, LAYOUT_INPUT);
    draw_features(call, &s->query);
    draw_features(call, &s->key);
    if (call->kind != CALL_ANY || !rng_one_in(rng, 4)) draw_flow(call, s, &z);
    draw_outputs(call, s, &z, all);
    draw_grads(call);
}

static void make(Call *call) { search_make(call, false); }

const Case case_search = {slots, make, match_check_forward, match_check_backward, NULL};
