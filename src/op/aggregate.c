/* aggregate.c: the common view of gather, gather_add and scatter_add. */
#include "op/aggregate.h"

static SnlsAggregate make(const SnlsGatherParams *p, const SnlsTensor *value, const SnlsTensor *weight, const SnlsTensor *offset)
{
    return (SnlsAggregate){
        .value = *value, .weight = *weight, .offset = *offset,
        .batch = value->shape[0], .frames = value->shape[1], .height = value->shape[2], .width = value->shape[3],
        .heads = weight->shape[1], .features = value->shape[4] / weight->shape[1],
        .rows = weight->shape[3], .columns = weight->shape[4], .neighbours = weight->shape[5],
        .ps = p->ps, .dilation = p->dilation, .stride0 = p->stride0,
        .nearest = p->interp == SNLS_INTERP_NEAREST, .drop = p->border == SNLS_BORDER_DROP};
}

SnlsAggregate snls_aggregate_of_gather(const SnlsGather *s, bool stack)
{
    SnlsAggregate a = make(&s->params, &s->value, &s->weight, &s->offset);
    a.op = stack ? "gather" : "gather_add";
    a.out = s->out;
    a.stack = stack;
    return a;
}

SnlsAggregate snls_aggregate_of_scatter(const SnlsScatterAdd *s)
{
    SnlsAggregate a = make(&s->params, &s->value, &s->weight, &s->offset);
    a.op = "scatter_add";
    a.out = s->out;
    a.total = s->total;
    a.scatter = true;
    return a;
}

static bool axis_covered(int64_t n, const SnlsAggregate *a)
{
    for (int64_t y = 0; y < n; y++)
        if (!snls_cover_count(y, n, a->ps, a->dilation, a->stride0)) return false;
    return true;
}

bool snls_aggregate_covered(const SnlsAggregate *a) { return !a->batch || (axis_covered(a->height, a) && axis_covered(a->width, a)); }
