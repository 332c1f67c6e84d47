/* gather.c: gather, gather_add and scatter_add (docs/operators.md sections 5 and 6): one walk, four visitors. */
#include "op/aggregate.h"
#include "ref/ref.h"

/* One pixel of a query's patch and the place it is tied to. */
typedef struct Tie {
    const SnlsAggregate *a;
    int64_t b, head, t, i, j, k;
    int64_t y, x;        /* destination pixel, frame t */
    int64_t frame;       /* source frame ... */
    RefRead read;        /* ... and place */
    double weight;
    double count;        /* query patches over the destination; 1 for scatter_add */
    double slope_y, slope_x; /* of the neighbour's own reflection */
} Tie;

typedef void (*TieVisitor)(const Tie *, void *);

static void tie_patch(Tie *tie, const SnlsNeighbour *n, TieVisitor visit, void *user)
{
    const SnlsAggregate *a = tie->a;
    for (int64_t r = 0; r < a->ps; r++)
        for (int64_t c = 0; c < a->ps; c++) {
            const int64_t dy = a->dilation * (r - a->ps / 2), dx = a->dilation * (c - a->ps / 2);
            tie->y = tie->i * a->stride0 + dy;
            tie->x = tie->j * a->stride0 + dx;
            if (tie->y < 0 || tie->y >= a->height || tie->x < 0 || tie->x >= a->width) continue;
            if (!snls_ref_read_at(&tie->read, n->y + (double)dy, n->x + (double)dx, a->height, a->width, a->drop)) continue;
            const int64_t covers = snls_cover_count(tie->y, a->height, a->ps, a->dilation, a->stride0) *
                                   snls_cover_count(tie->x, a->width, a->ps, a->dilation, a->stride0);
            tie->count = a->scatter ? 1 : (double)covers;
            visit(tie, user);
        }
}

static void tie_query(Tie *tie, TieVisitor visit, void *user)
{
    const SnlsAggregate *a = tie->a;
    for (tie->k = 0; tie->k < a->neighbours; tie->k++) {
        const int64_t at = snls_at6(&a->offset, tie->b, tie->head, tie->t, tie->i, tie->j, tie->k);
        const SnlsNeighbour n = snls_neighbour(a, at, tie->t, tie->i * a->stride0, tie->j * a->stride0);
        if (!n.valid) continue;
        tie->frame = n.frame;
        tie->slope_y = n.slope_y;
        tie->slope_x = n.slope_x;
        tie->weight = snls_load(&a->weight, snls_at6(&a->weight, tie->b, tie->head, tie->t, tie->i, tie->j, tie->k));
        tie_patch(tie, &n, visit, user);
    }
}

static void for_each_tie(const SnlsAggregate *a, TieVisitor visit, void *user)
{
    Tie tie = {.a = a};
    for (tie.b = 0; tie.b < a->batch; tie.b++)
        for (tie.head = 0; tie.head < a->heads; tie.head++)
            for (tie.t = 0; tie.t < a->frames; tie.t++)
                for (tie.i = 0; tie.i < a->rows; tie.i++)
                    for (tie.j = 0; tie.j < a->columns; tie.j++) tie_query(&tie, visit, user);
}

/* Element number of channel f of the tie's head: destination in an output, destination and frame origin in a video. */
static int64_t out_at(const Tie *e, const SnlsTensor *out, int64_t f)
{
    return snls_aggregate_out_at(e->a, out, e->b, e->head, e->k, e->t, e->y, e->x) + f * snls_aggregate_out_step(e->a, out);
}
static int64_t video_at(const Tie *e, const SnlsTensor *v, int64_t t, int64_t y, int64_t x, int64_t f)
{
    return snls_at5(v, e->b, t, y, x, e->head * e->a->features + f);
}

static void gather_tie(const Tie *e, void *user)
{
    const RefSum *out = user;
    const SnlsTensor *v = &e->a->value;
    for (int64_t f = 0; f < e->a->features; f++) {
        const double value = snls_ref_value(v, video_at(e, v, e->frame, 0, 0, f), v->stride[2], v->stride[3], &e->read);
        snls_ref_add(out, out_at(e, &out->view, f), e->weight * value / e->count);
    }
}

typedef struct ScatterSums { RefSum out, total; } ScatterSums;

static void scatter_tie(const Tie *e, void *user)
{
    const ScatterSums *sums = user;
    const SnlsTensor *v = &e->a->value, *out = &sums->out.view, *total = &sums->total.view;
    for (int64_t f = 0; f < e->a->features; f++)
        snls_ref_spread(&sums->out, video_at(e, out, e->frame, 0, 0, f), out->stride[2], out->stride[3], &e->read,
                        e->weight * snls_load(v, video_at(e, v, e->t, e->y, e->x, f)));
    if (total->data)
        snls_ref_spread(&sums->total, snls_at5(total, e->b, e->frame, 0, 0, e->head), total->stride[2], total->stride[3], &e->read, e->weight);
}

/* Gradients of both: in gather the source is read and the destination written, in scatter_add the other way round. */
typedef struct PullSums {
    SnlsTensor by_out, by_total;
    RefSum value, weight, offset;
} PullSums;

/* dL/dw and dL/d place of one channel: with r = what is read at the source, d = what stands at the destination,
 * L = w * d * r, so dw = d * r and d place = w * d * slope of r */
static void pull_weight(const Tie *e, const PullSums *p, const SnlsTensor *source, int64_t base, double destination)
{
    const int64_t step_y = source->stride[2], step_x = source->stride[3];
    if (p->weight.view.data)
        snls_ref_add(&p->weight, snls_at6(&p->weight.view, e->b, e->head, e->t, e->i, e->j, e->k),
                     destination * snls_ref_value(source, base, step_y, step_x, &e->read));
    if (!p->offset.view.data) return;
    const int64_t at = snls_at6(&p->offset.view, e->b, e->head, e->t, e->i, e->j, e->k);
    const double pull = e->weight * destination;
    snls_ref_add(&p->offset, at + 1, pull * e->slope_y * snls_ref_slope_y(source, base, step_y, step_x, &e->read));
    snls_ref_add(&p->offset, at + 2, pull * e->slope_x * snls_ref_slope_x(source, base, step_y, step_x, &e->read));
}

static void gather_pull(const Tie *e, void *user)
{
    const PullSums *p = user;
    const SnlsTensor *v = &e->a->value, *to = &p->value.view;
    for (int64_t f = 0; f < e->a->features; f++) {
        const double g = snls_load(&p->by_out, out_at(e, &p->by_out, f)) / e->count;
        if (to->data)
            snls_ref_spread(&p->value, video_at(e, to, e->frame, 0, 0, f), to->stride[2], to->stride[3], &e->read, e->weight * g);
        pull_weight(e, p, v, video_at(e, v, e->frame, 0, 0, f), g);
    }
}

static void scatter_pull(const Tie *e, void *user)
{
    const PullSums *p = user;
    const SnlsTensor *v = &e->a->value, *g = &p->by_out, *to = &p->value.view;
    for (int64_t f = 0; g->data && f < e->a->features; f++) {
        const int64_t base = video_at(e, g, e->frame, 0, 0, f);
        if (to->data)
            snls_ref_add(&p->value, video_at(e, to, e->t, e->y, e->x, f), e->weight * snls_ref_value(g, base, g->stride[2], g->stride[3], &e->read));
        pull_weight(e, p, g, base, snls_load(v, video_at(e, v, e->t, e->y, e->x, f)));
    }
    if (p->by_total.data) pull_weight(e, p, &p->by_total, snls_at5(&p->by_total, e->b, e->frame, 0, 0, e->head), 1);
}

static SnlsStatus run_forward(SnlsContext *ctx, const SnlsAggregate *a)
{
    ScatterSums sums;
    snls_arena_begin(&ctx->arena);
    snls_ref_sum_plan(ctx, &a->out);
    snls_ref_sum_plan(ctx, &a->total);
    SNLS_TRY(snls_scratch_commit(ctx, a->op));
    snls_ref_sum_claim(ctx, &sums.out, &a->out);
    snls_ref_sum_claim(ctx, &sums.total, &a->total);
    if (a->scatter) for_each_tie(a, scatter_tie, &sums);
    else for_each_tie(a, gather_tie, &sums.out);
    snls_ref_fill(&a->out, 0);
    snls_ref_sum_finish(&sums.out);
    if (a->total.data) snls_ref_fill(&a->total, 0);
    snls_ref_sum_finish(&sums.total);
    return SNLS_OK;
}

static SnlsStatus run_backward(SnlsContext *ctx, const SnlsAggregate *a, PullSums *p, const SnlsTensor *value, const SnlsTensor *weight, const SnlsTensor *offset)
{
    snls_arena_begin(&ctx->arena);
    snls_ref_sum_plan(ctx, value);
    snls_ref_sum_plan(ctx, weight);
    snls_ref_sum_plan(ctx, offset);
    SNLS_TRY(snls_scratch_commit(ctx, a->op));
    snls_ref_sum_claim(ctx, &p->value, value);
    snls_ref_sum_claim(ctx, &p->weight, weight);
    snls_ref_sum_claim(ctx, &p->offset, offset);
    for_each_tie(a, a->scatter ? scatter_pull : gather_pull, p);
    snls_ref_sum_finish(&p->value);
    snls_ref_sum_finish(&p->weight);
    snls_ref_sum_finish(&p->offset);
    return SNLS_OK;
}

static SnlsStatus gather_backward(SnlsContext *ctx, const SnlsGather *s, const SnlsGatherGrad *g, bool stack)
{
    const SnlsAggregate a = snls_aggregate_of_gather(s, stack);
    PullSums p = {.by_out = g->out};
    return run_backward(ctx, &a, &p, &g->value, &g->weight, &g->offset);
}

SnlsStatus snls_ref_gather_forward(SnlsContext *ctx, const SnlsGather *s)
{
    const SnlsAggregate a = snls_aggregate_of_gather(s, true);
    return run_forward(ctx, &a);
}
SnlsStatus snls_ref_gather_backward(SnlsContext *ctx, const SnlsGather *s, const SnlsGatherGrad *g) { return gather_backward(ctx, s, g, true); }

SnlsStatus snls_ref_gather_add_forward(SnlsContext *ctx, const SnlsGatherAdd *s)
{
    const SnlsAggregate a = snls_aggregate_of_gather(s, false);
    return run_forward(ctx, &a);
}
SnlsStatus snls_ref_gather_add_backward(SnlsContext *ctx, const SnlsGatherAdd *s, const SnlsGatherAddGrad *g) { return gather_backward(ctx, s, g, false); }

SnlsStatus snls_ref_scatter_add_forward(SnlsContext *ctx, const SnlsScatterAdd *s)
{
    const SnlsAggregate a = snls_aggregate_of_scatter(s);
    return run_forward(ctx, &a);
}

SnlsStatus snls_ref_scatter_add_backward(SnlsContext *ctx, const SnlsScatterAdd *s, const SnlsScatterAddGrad *g)
{
    const SnlsAggregate a = snls_aggregate_of_scatter(s);
    PullSums p = {.by_out = g->out, .by_total = g->total};
    return run_backward(ctx, &a, &p, &g->value, &g->weight, &g->offset);
}
