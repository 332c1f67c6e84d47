/* refine.c: checks a refine and hands it on; no arithmetic. */
#include "op/match.h"
#include "op/tables.h"

static SnlsStatus check_params(SnlsContext *ctx, const SnlsRefineParams *p)
{
    SNLS_TRY(snls_params_check(ctx, "refine", snls_refine_table, p, p->reserved, 20));
    SNLS_REQUIRE(ctx, p->interp != SNLS_INTERP_NEAREST || p->stride1 == rint(p->stride1), SNLS_ERR_ARG,
                 "refine: stride1 is %g, must be an integer with interp nearest", p->stride1);
    return SNLS_OK;
}

static SnlsStatus check_inputs(SnlsContext *ctx, const SnlsRefine *s, int32_t role)
{
    const int64_t any[5] = {SNLS_ANY, SNLS_ANY, SNLS_ANY, SNLS_ANY, SNLS_ANY};
    const int64_t *shape = s->query.shape;
    const int64_t heads = s->params.heads, stride0 = s->params.stride0;
    SNLS_TRY(snls_operand(ctx, "refine", "query", &s->query, 5, any, "(B,T,H,W,C)", role));
    SNLS_TRY(snls_operand(ctx, "refine", "key", &s->key, 5, shape, "(B,T,H,W,C)", role));
    for (int i = 1; i < 5; i++)
        SNLS_REQUIRE(ctx, shape[i] > 0, SNLS_ERR_SHAPE, "refine: query has length 0 on axis %d, must be at least 1", i);
    SNLS_REQUIRE(ctx, shape[4] % heads == 0, SNLS_ERR_ARG, "refine: heads is %d, must divide the %lld channels", (int)heads, (long long)shape[4]);
    const int64_t want[7] = {shape[0], heads, shape[1], (shape[2] - 1) / stride0 + 1, (shape[3] - 1) / stride0 + 1, SNLS_ANY, 3};
    SNLS_TRY(snls_operand(ctx, "refine", "centre", &s->centre, 7, want, "(B,heads,T,nH,nW,Kin,3)", role));
    const int64_t cells = (int64_t)s->params.wr * s->params.wr;
    SNLS_REQUIRE(ctx, s->centre.shape[5] <= INT32_MAX / cells, SNLS_ERR_ARG, "refine: wr %d with %lld given places gives more than 2^31 candidates per query",
                 (int)s->params.wr, (long long)s->centre.shape[5]);
    return SNLS_OK;
}

static SnlsStatus check_call(SnlsContext *ctx, const SnlsRefine *s, int32_t outputs, SnlsMatch *m)
{
    SNLS_TRY(check_params(ctx, &s->params));
    SNLS_TRY(check_inputs(ctx, s, SNLS_ROLE_IN));
    *m = snls_match_of_refine(s);
    const int64_t shape[7] = {m->batch, m->heads, m->frames, m->rows, m->columns, m->kept, 3};
    SNLS_TRY(snls_operand(ctx, "refine", "dist", &s->dist, 6, shape, "(B,heads,T,nH,nW,k)", outputs));
    SNLS_TRY(snls_operand(ctx, "refine", "offset", &s->offset, 7, shape, "(B,heads,T,nH,nW,k,3)", outputs));
    return snls_operand(ctx, "refine", "index", &s->index, 6, shape, "(B,heads,T,nH,nW,k)", outputs | SNLS_ROLE_OPTIONAL | SNLS_ROLE_INDEX);
}

static SnlsStatus check_grad(SnlsContext *ctx, const SnlsRefine *s, const SnlsRefineGrad *g, const SnlsMatch *m)
{
    const int64_t shape[7] = {m->batch, m->heads, m->frames, m->rows, m->columns, m->kept, 3};
    const int32_t in = SNLS_ROLE_OPTIONAL, out = SNLS_ROLE_OPTIONAL | SNLS_ROLE_OUT;
    SNLS_TRY(snls_operand(ctx, "refine", "gradient of dist", &g->dist, 6, shape, "(B,heads,T,nH,nW,k)", in));
    SNLS_TRY(snls_operand(ctx, "refine", "gradient of offset", &g->offset, 7, shape, "(B,heads,T,nH,nW,k,3)", in));
    SNLS_TRY(snls_operand(ctx, "refine", "gradient of query", &g->query, 5, s->query.shape, "(B,T,H,W,C)", out));
    SNLS_TRY(snls_operand(ctx, "refine", "gradient of key", &g->key, 5, s->query.shape, "(B,T,H,W,C)", out));
    SNLS_TRY(snls_operand(ctx, "refine", "gradient of centre", &g->centre, 7, s->centre.shape, "the shape of centre", out));
    SNLS_REQUIRE(ctx, !g->centre.data || !m->nearest, SNLS_ERR_UNSUPPORTED, "refine: interp is nearest, which has no gradient to centre");
    SNLS_REQUIRE(ctx, s->index.data || !m->batch, SNLS_ERR_ARG, "refine: backward needs index, the third output of forward");
    return SNLS_OK;
}

void snls_refine_defaults(SnlsRefineParams *params)
{
    if (!params) return;
    *params = (SnlsRefineParams){0};
    snls_options_default(snls_refine_table, params);
}

SnlsStatus snls_refine_shape(SnlsContext *ctx, SnlsRefine *s)
{
    SNLS_CHECK_CALL(ctx, "refine", s);
    SNLS_TRY(check_params(ctx, &s->params));
    SNLS_TRY(check_inputs(ctx, s, SNLS_ROLE_SHAPE_ONLY));
    const SnlsMatch m = snls_match_of_refine(s);
    const int64_t shape[7] = {m.batch, m.heads, m.frames, m.rows, m.columns, m.kept, 3};
    snls_output_shape(&s->dist, 6, shape);
    snls_output_shape(&s->offset, 7, shape);
    if (!s->index.data) s->index.dtype = SNLS_I32;
    snls_output_shape(&s->index, 6, shape);
    return SNLS_OK;
}

SnlsStatus snls_refine_forward(SnlsContext *ctx, const SnlsRefine *s)
{
    SnlsMatch m;
    SNLS_CHECK_CALL(ctx, "refine", s);
    SNLS_TRY(check_call(ctx, s, SNLS_ROLE_OUT, &m));
    return SNLS_DISPATCH(ctx, "refine", m.batch, refine_forward, s);
}

SnlsStatus snls_refine_backward(SnlsContext *ctx, const SnlsRefine *s, const SnlsRefineGrad *g)
{
    SnlsMatch m;
    SNLS_CHECK_CALL(ctx, "refine", s, g);
    SNLS_TRY(check_call(ctx, s, SNLS_ROLE_OPTIONAL, &m));
    SNLS_TRY(check_grad(ctx, s, g, &m));
    return SNLS_DISPATCH(ctx, "refine", m.batch, refine_backward, s, g);
}
