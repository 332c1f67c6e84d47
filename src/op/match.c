/* match.c: the common view of search, search_all and refine. */
#include "op/match.h"

static void take_video(SnlsMatch *m, const SnlsTensor *query, const SnlsTensor *key, int64_t heads, int64_t stride0)
{
    m->query = *query;
    m->key = *key;
    m->batch = query->shape[0];
    m->frames = query->shape[1];
    m->height = query->shape[2];
    m->width = query->shape[3];
    m->heads = heads;
    m->features = query->shape[4] / heads;
    m->stride0 = stride0;
    m->rows = (m->height - 1) / stride0 + 1;
    m->columns = (m->width - 1) / stride0 + 1;
}

SnlsMatch snls_match_of_search(const SnlsSearch *s, bool all)
{
    const SnlsSearchParams *p = &s->params;
    SnlsMatch m = {.op = all ? "search_all" : "search", .centre = s->flow, .dist = s->dist, .offset = s->offset, .index = s->index,
                   .side = p->ws, .k = p->k, .wt = p->wt, .ps = p->ps, .dilation = p->dilation, .stride1 = p->stride1,
                   .all = all, .each = p->topk == SNLS_TOPK_EACH, .prod = p->dist == SNLS_DIST_PROD,
                   .nearest = p->interp == SNLS_INTERP_NEAREST, .drop = p->border == SNLS_BORDER_DROP,
                   .slide = p->window == SNLS_WINDOW_SLIDE, .anchor = p->anchor, .exclude = p->exclude};
    take_video(&m, &s->query, &s->key, p->heads, p->stride0);
    m.windows = 2 * m.wt + 1;
    m.flow_slots = s->flow.data ? s->flow.shape[s->flow.ndim - 4] : 0;
    m.kept = all ? m.windows * m.side * m.side : m.each ? m.windows * m.k : m.k;
    return m;
}

SnlsMatch snls_match_of_refine(const SnlsRefine *s)
{
    const SnlsRefineParams *p = &s->params;
    SnlsMatch m = {.op = "refine", .centre = s->centre, .dist = s->dist, .offset = s->offset, .index = s->index,
                   .side = p->wr, .k = p->k, .ps = p->ps, .dilation = p->dilation, .stride1 = p->stride1, .refine = true,
                   .prod = p->dist == SNLS_DIST_PROD, .nearest = p->interp == SNLS_INTERP_NEAREST,
                   .drop = p->border == SNLS_BORDER_DROP, .slide = p->window == SNLS_WINDOW_SLIDE};
    take_video(&m, &s->query, &s->key, p->heads, p->stride0);
    m.windows = s->centre.shape[5];
    m.kept = m.k;
    return m;
}

SnlsMatchGrad snls_match_grad_of_search(const SnlsSearchGrad *g)
{
    return (SnlsMatchGrad){.dist = g->dist, .offset = g->offset, .query = g->query, .key = g->key, .centre = g->flow};
}

SnlsMatchGrad snls_match_grad_of_refine(const SnlsRefineGrad *g)
{
    return (SnlsMatchGrad){.dist = g->dist, .offset = g->offset, .query = g->query, .key = g->key, .centre = g->centre};
}
