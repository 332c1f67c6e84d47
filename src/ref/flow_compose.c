/* flow_compose.c: flow from frame to frame, followed over several frames (docs/operators.md section 3). */
#include "ref/ref.h"

/* A flow field read at a real place, with its derivatives by that place. Nested linear interpolation, so that a constant
 * field is read exactly. A tap of weight 0 is not read for the value. */
typedef struct FlowRead {
    RefRead read;
    double value[2];    /* x, y */
    double by_y[2], by_x[2];
} FlowRead;

static double mix(double a, double b, double f) { return a + f * (b - a); }

static double read_component(const SnlsTensor *flow, int64_t base, const RefRead *r)
{
    double row[2] = {0, 0};
    for (int a = 0; a < 2; a++) {
        if (r->y.weight[a] == 0) continue;
        const int64_t at = base + r->y.at[a] * flow->stride[2];
        const double left = snls_load(flow, at + r->x.at[0] * flow->stride[3]);
        row[a] = r->x.weight[1] == 0 ? left : mix(left, snls_load(flow, at + r->x.at[1] * flow->stride[3]), r->x.weight[1]);
    }
    return r->y.weight[1] == 0 ? row[0] : mix(row[0], row[1], r->y.weight[1]);
}

static FlowRead read_flow(const SnlsTensor *flow, int64_t b, int64_t t, double y, double x, bool slopes)
{
    FlowRead f = {.value = {NAN, NAN}};
    if (!isfinite(y) || !isfinite(x)) return f; /* an undefined position has an undefined motion */
    snls_ref_read_at(&f.read, y, x, flow->shape[2], flow->shape[3], false);
    for (int c = 0; c < 2; c++) {
        const int64_t base = snls_at5(flow, b, t, 0, 0, c);
        f.value[c] = read_component(flow, base, &f.read);
        if (!slopes) continue;
        f.by_y[c] = snls_ref_slope_y(flow, base, flow->stride[2], flow->stride[3], &f.read);
        f.by_x[c] = snls_ref_slope_x(flow, base, flow->stride[2], flow->stride[3], &f.read);
    }
    return f;
}

/* One query's walk in one direction: slots [first, end), from the query's own place. dir +1 reads fflow, -1 bflow. */
typedef struct Walk {
    const SnlsFlowCompose *s;
    int64_t b, t, i, j, first, end, dir;
} Walk;

static const SnlsTensor *walk_field(const Walk *w) { return w->dir > 0 ? &w->s->fflow : &w->s->bflow; }

static void walk_forward(const Walk *w)
{
    const SnlsTensor *field = walk_field(w), *out = &w->s->flow;
    const double y = (double)(w->i * w->s->params.stride0), x = (double)(w->j * w->s->params.stride0);
    double d[2] = {0, 0}; /* displacement so far, (x,y) */
    for (int64_t slot = w->first; slot < w->end; slot++) {
        const FlowRead f = read_flow(field, w->b, w->t + w->dir * (slot - w->first), y + d[1], x + d[0], false);
        for (int c = 0; c < 2; c++) {
            d[c] += f.value[c];
            snls_store(out, snls_at6(out, w->b, w->t, slot, w->i, w->j, c), d[c]);
        }
    }
}

/* Recomputes the walk to each slot from the start: the definition, not the fast way. pull = dL/d displacement. */
static void walk_backward(const Walk *w, const SnlsFlowComposeGrad *g, const RefSum *sum)
{
    const SnlsTensor *field = walk_field(w);
    const double y = (double)(w->i * w->s->params.stride0), x = (double)(w->j * w->s->params.stride0);
    double pull[2] = {0, 0};
    for (int64_t slot = w->end; slot-- > w->first;) {
        double d[2] = {0, 0};
        FlowRead f = {.value = {0, 0}};
        for (int64_t n = w->first; n <= slot; n++) {
            d[0] += f.value[0];
            d[1] += f.value[1];
            f = read_flow(field, w->b, w->t + w->dir * (n - w->first), y + d[1], x + d[0], true);
        }
        if (isnan(f.value[0]) || isnan(f.value[1])) { pull[0] = pull[1] = 0; continue; } /* nothing to learn from an undefined walk */
        for (int c = 0; c < 2; c++) pull[c] += snls_load(&g->flow, snls_at6(&g->flow, w->b, w->t, slot, w->i, w->j, c));
        const int64_t t = w->t + w->dir * (slot - w->first);
        for (int c = 0; c < 2; c++)
            if (sum->view.data)
                snls_ref_spread(sum, snls_at5(&sum->view, w->b, t, 0, 0, c), sum->view.stride[2], sum->view.stride[3], &f.read, pull[c]);
        const double by_y = pull[0] * f.by_y[0] + pull[1] * f.by_y[1], by_x = pull[0] * f.by_x[0] + pull[1] * f.by_x[1];
        pull[0] += by_x; /* the displacement before this step moves the result and the place it was read at */
        pull[1] += by_y;
    }
}

/* Slots 0 .. ahead-1 go forward, the others backward. */
static int64_t slots_ahead(int64_t t, int64_t wt, int64_t frames)
{
    int64_t n = 0;
    while (n < 2 * wt && snls_slot_frame(t, n + 1, wt, frames) > t) n++;
    return n;
}

static void for_each_walk(const SnlsFlowCompose *s, void (*visit)(const Walk *, void *), void *user)
{
    const int64_t step = s->params.stride0, wt = s->params.wt, frames = s->fflow.shape[1];
    Walk w = {.s = s};
    for (w.b = 0; w.b < s->fflow.shape[0]; w.b++)
        for (w.t = 0; w.t < frames; w.t++) {
            const int64_t ahead = slots_ahead(w.t, wt, frames);
            for (w.i = 0; w.i * step < s->fflow.shape[2]; w.i++)
                for (w.j = 0; w.j * step < s->fflow.shape[3]; w.j++) {
                    w.first = 0, w.end = ahead, w.dir = 1;
                    visit(&w, user);
                    w.first = ahead, w.end = 2 * wt, w.dir = -1;
                    visit(&w, user);
                }
        }
}

static void visit_forward(const Walk *w, void *user)
{
    (void)user;
    walk_forward(w);
}

typedef struct ComposeSums { const SnlsFlowComposeGrad *g; RefSum fflow, bflow; } ComposeSums;

static void visit_backward(const Walk *w, void *user)
{
    const ComposeSums *sums = user;
    walk_backward(w, sums->g, w->dir > 0 ? &sums->fflow : &sums->bflow);
}

SnlsStatus snls_ref_flow_compose_forward(SnlsContext *ctx, const SnlsFlowCompose *s)
{
    (void)ctx;
    for_each_walk(s, visit_forward, NULL);
    return SNLS_OK;
}

SnlsStatus snls_ref_flow_compose_backward(SnlsContext *ctx, const SnlsFlowCompose *s, const SnlsFlowComposeGrad *g)
{
    ComposeSums sums = {.g = g};
    snls_arena_begin(&ctx->arena);
    snls_ref_sum_plan(ctx, &g->fflow);
    snls_ref_sum_plan(ctx, &g->bflow);
    SNLS_TRY(snls_scratch_commit(ctx, "flow_compose"));
    snls_ref_sum_claim(ctx, &sums.fflow, &g->fflow);
    snls_ref_sum_claim(ctx, &sums.bflow, &g->bflow);
    for_each_walk(s, visit_backward, &sums);
    snls_ref_sum_finish(&sums.fflow);
    snls_ref_sum_finish(&sums.bflow);
    return SNLS_OK;
}
