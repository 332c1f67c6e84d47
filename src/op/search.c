/* search.c: checks a search or search_all and hands it on; no arithmetic. */
#include "op/match.h"
#include "op/tables.h"

static SnlsStatus check_params(SnlsContext *ctx, const char *op, const SnlsSearchParams *p, bool all)
{
    SNLS_TRY(snls_params_check(ctx, op, snls_search_table, p, p->reserved, 16));
    const int64_t slots = 2 * (int64_t)p->wt + 1;
    SNLS_REQUIRE(ctx, (int64_t)p->ws * p->ws <= INT32_MAX / slots, SNLS_ERR_ARG, "%s: ws %d and wt %d give more than 2^31 candidates per query",
                 op, (int)p->ws, (int)p->wt);
    SNLS_REQUIRE(ctx, p->interp != SNLS_INTERP_NEAREST || p->stride1 == rint(p->stride1), SNLS_ERR_ARG,
                 "%s: stride1 is %g, must be an integer with interp nearest", op, p->stride1);
    if (all) {
        SNLS_REQUIRE(ctx, p->anchor == SNLS_ANCHOR_NONE, SNLS_ERR_ARG, "%s: anchor is %s, must be none: every candidate is returned", op,
                     p->anchor == SNLS_ANCHOR_SELF ? "self" : "each");
        SNLS_REQUIRE(ctx, p->topk == SNLS_TOPK_ALL, SNLS_ERR_ARG, "%s: topk is each, must be all: every candidate is returned", op);
        return SNLS_OK;
    }
    SNLS_REQUIRE(ctx, p->anchor != SNLS_ANCHOR_SELF || p->exclude == SNLS_EXCLUDE_NONE, SNLS_ERR_ARG,
                 "%s: anchor self conflicts with exclude %s, which must be none", op, p->exclude == SNLS_EXCLUDE_SELF ? "self" : "frame");
    SNLS_REQUIRE(ctx, p->anchor != SNLS_ANCHOR_EACH || p->exclude != SNLS_EXCLUDE_SELF, SNLS_ERR_ARG,
                 "%s: anchor each conflicts with exclude self", op);
    SNLS_REQUIRE(ctx, p->anchor != SNLS_ANCHOR_EACH || p->topk != SNLS_TOPK_ALL || p->k >= slots, SNLS_ERR_ARG,
                 "%s: k is %d, must be at least 2*wt+1 = %lld with anchor each and topk all", op, (int)p->k, (long long)slots);
    return SNLS_OK;
}

static SnlsStatus check_video(SnlsContext *ctx, const char *op, const SnlsSearch *s, int32_t role)
{
    const int64_t any[5] = {SNLS_ANY, SNLS_ANY, SNLS_ANY, SNLS_ANY, SNLS_ANY};
    const int64_t *shape = s->query.shape;
    SNLS_TRY(snls_operand(ctx, op, "query", &s->query, 5, any, "(B,T,H,W,C)", role));
    SNLS_TRY(snls_operand(ctx, op, "key", &s->key, 5, shape, "(B,T,H,W,C)", role));
    for (int i = 1; i < 5; i++)
        SNLS_REQUIRE(ctx, shape[i] > 0, SNLS_ERR_SHAPE, "%s: query has length 0 on axis %d, must be at least 1", op, i);
    SNLS_REQUIRE(ctx, shape[1] >= 2 * (int64_t)s->params.wt + 1, SNLS_ERR_ARG, "%s: wt is %d, which needs %lld frames; the video has %lld",
                 op, (int)s->params.wt, 2 * (long long)s->params.wt + 1, (long long)shape[1]);
    SNLS_REQUIRE(ctx, shape[4] % s->params.heads == 0, SNLS_ERR_ARG, "%s: heads is %d, must divide the %lld channels", op,
                 (int)s->params.heads, (long long)shape[4]);
    return SNLS_OK;
}

static SnlsStatus check_flow(SnlsContext *ctx, const char *op, const char *name, const SnlsTensor *flow, const SnlsMatch *m, int32_t role)
{
    if (!flow->data) return SNLS_OK;
    const bool per_head = flow->ndim == 7;
    int64_t slots = m->windows;
    if ((flow->ndim == 6 || per_head) && flow->shape[flow->ndim - 4] == m->windows - 1) slots = m->windows - 1;
    const int64_t plain[6] = {m->batch, m->frames, slots, m->rows, m->columns, 2};
    const int64_t heads[7] = {m->batch, m->heads, m->frames, slots, m->rows, m->columns, 2};
    return per_head ? snls_operand(ctx, op, name, flow, 7, heads, "(B,heads,T,2*wt or 2*wt+1,nH,nW,2)", role)
                    : snls_operand(ctx, op, name, flow, 6, plain, "(B,T,2*wt or 2*wt+1,nH,nW,2)", role);
}

/* outputs: the role of dist, offset and index; backward does without the first two and only reads the third */
static SnlsStatus check_call(SnlsContext *ctx, const SnlsSearch *s, bool all, int32_t outputs, SnlsMatch *m)
{
    const char *op = all ? "search_all" : "search";
    SNLS_TRY(check_params(ctx, op, &s->params, all));
    SNLS_TRY(check_video(ctx, op, s, SNLS_ROLE_IN));
    if (s->flow.data) /* its rank is read by the view below */
        SNLS_REQUIRE(ctx, s->flow.ndim == 6 || s->flow.ndim == 7, SNLS_ERR_SHAPE,
                     "%s: flow has %d axes, must be (B,T,S,nH,nW,2) or (B,heads,T,S,nH,nW,2)", op, (int)s->flow.ndim);
    *m = snls_match_of_search(s, all);
    SNLS_TRY(check_flow(ctx, op, "flow", &s->flow, m, SNLS_ROLE_IN));
    const int64_t shape[7] = {m->batch, m->heads, m->frames, m->rows, m->columns, m->kept, 3};
    SNLS_TRY(snls_operand(ctx, op, "dist", &s->dist, 6, shape, "(B,heads,T,nH,nW,K)", outputs));
    SNLS_TRY(snls_operand(ctx, op, "offset", &s->offset, 7, shape, "(B,heads,T,nH,nW,K,3)", outputs));
    return snls_operand(ctx, op, "index", &s->index, 6, shape, "(B,heads,T,nH,nW,K)", outputs | SNLS_ROLE_OPTIONAL | SNLS_ROLE_INDEX);
}

static SnlsStatus check_grad(SnlsContext *ctx, const SnlsSearch *s, const SnlsSearchGrad *g, const SnlsMatch *m)
{
    const int64_t shape[7] = {m->batch, m->heads, m->frames, m->rows, m->columns, m->kept, 3};
    const int32_t in = SNLS_ROLE_OPTIONAL, out = SNLS_ROLE_OPTIONAL | SNLS_ROLE_OUT;
    SNLS_TRY(snls_operand(ctx, m->op, "gradient of dist", &g->dist, 6, shape, "(B,heads,T,nH,nW,K)", in));
    SNLS_TRY(snls_operand(ctx, m->op, "gradient of offset", &g->offset, 7, shape, "(B,heads,T,nH,nW,K,3)", in));
    SNLS_TRY(snls_operand(ctx, m->op, "gradient of query", &g->query, 5, s->query.shape, "(B,T,H,W,C)", out));
    SNLS_TRY(snls_operand(ctx, m->op, "gradient of key", &g->key, 5, s->query.shape, "(B,T,H,W,C)", out));
    SNLS_REQUIRE(ctx, s->index.data || !m->batch, SNLS_ERR_ARG, "%s: backward needs index, the third output of forward", m->op);
    if (!g->flow.data) return SNLS_OK;
    SNLS_REQUIRE(ctx, s->flow.data, SNLS_ERR_ARG, "%s: the gradient of flow is asked for, but there is no flow", m->op);
    SNLS_REQUIRE(ctx, !m->nearest, SNLS_ERR_UNSUPPORTED, "%s: interp is nearest, which has no gradient to flow", m->op);
    return snls_operand(ctx, m->op, "gradient of flow", &g->flow, s->flow.ndim, s->flow.shape, "the shape of flow", out);
}

static SnlsStatus fill_shape(SnlsContext *ctx, SnlsSearch *s, bool all)
{
    const char *op = all ? "search_all" : "search";
    SNLS_TRY(check_params(ctx, op, &s->params, all));
    SNLS_TRY(check_video(ctx, op, s, SNLS_ROLE_SHAPE_ONLY));
    SnlsSearch bare = *s; /* the outputs' shapes do not depend on the flow */
    bare.flow.data = NULL;
    const SnlsMatch m = snls_match_of_search(&bare, all);
    const int64_t shape[7] = {m.batch, m.heads, m.frames, m.rows, m.columns, m.kept, 3};
    snls_output_shape(&s->dist, 6, shape);
    snls_output_shape(&s->offset, 7, shape);
    if (!s->index.data) s->index.dtype = SNLS_I32;
    snls_output_shape(&s->index, 6, shape);
    return SNLS_OK;
}

void snls_search_defaults(SnlsSearchParams *params)
{
    if (!params) return;
    *params = (SnlsSearchParams){0};
    snls_options_default(snls_search_table, params);
}

SnlsStatus snls_search_shape(SnlsContext *ctx, SnlsSearch *s)
{
    SNLS_CHECK_CALL(ctx, "search", s);
    return fill_shape(ctx, s, false);
}

SnlsStatus snls_search_forward(SnlsContext *ctx, const SnlsSearch *s)
{
    SnlsMatch m = {0};
    SNLS_CHECK_CALL(ctx, "search", s);
    SNLS_TRY(check_call(ctx, s, false, SNLS_ROLE_OUT, &m));
    return SNLS_DISPATCH(ctx, "search", m.batch, search_forward, s);
}

SnlsStatus snls_search_backward(SnlsContext *ctx, const SnlsSearch *s, const SnlsSearchGrad *g)
{
    SnlsMatch m = {0};
    SNLS_CHECK_CALL(ctx, "search", s, g);
    SNLS_TRY(check_call(ctx, s, false, SNLS_ROLE_OPTIONAL, &m));
    SNLS_TRY(check_grad(ctx, s, g, &m));
    return SNLS_DISPATCH(ctx, "search", m.batch, search_backward, s, g);
}

void snls_search_all_defaults(SnlsSearchAllParams *params) { snls_search_defaults(params); }

SnlsStatus snls_search_all_shape(SnlsContext *ctx, SnlsSearchAll *s)
{
    SNLS_CHECK_CALL(ctx, "search_all", s);
    return fill_shape(ctx, s, true);
}

SnlsStatus snls_search_all_forward(SnlsContext *ctx, const SnlsSearchAll *s)
{
    SnlsMatch m = {0};
    SNLS_CHECK_CALL(ctx, "search_all", s);
    SNLS_TRY(check_call(ctx, s, true, SNLS_ROLE_OUT, &m));
    return SNLS_DISPATCH(ctx, "search_all", m.batch, search_all_forward, s);
}

SnlsStatus snls_search_all_backward(SnlsContext *ctx, const SnlsSearchAll *s, const SnlsSearchAllGrad *g)
{
    SnlsMatch m = {0};
    SNLS_CHECK_CALL(ctx, "search_all", s, g);
    SNLS_TRY(check_call(ctx, s, true, SNLS_ROLE_OPTIONAL, &m));
    SNLS_TRY(check_grad(ctx, s, g, &m));
    return SNLS_DISPATCH(ctx, "search_all", m.batch, search_all_backward, s, g);
}
