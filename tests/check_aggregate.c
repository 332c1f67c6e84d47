/* check_aggregate.c: the model of gather, gather_add and scatter_add: one walk over all links between a pixel of a query's
 * patch (destination) and the place around a neighbour it is tied to (source); what is summed depends on the operator. */
#include "case.h"
#include <math.h>
#include <string.h>

typedef struct Link {
    int64_t b, head, t, k, y, x;  /* destination */
    int64_t at;                   /* number of (query, k): weight element, offset element / 3 */
    int64_t frame;
    ModelTaps sy, sx;             /* source */
    double weight, cover, slope_y, slope_x;
} Link;

typedef struct Aggregate {
    Call *call;
    ModelVideo value;
    int64_t heads, F, K, rows, columns;
    bool stack, scatter, nearest, drop;
    const SnlsGatherParams *p;
    double *weight, *offset;
    Sums out, total;                      /* forward */
    double *g_out, *g_total;              /* backward, NULL = zero */
    Sums d_value, d_weight, d_offset;
    bool near_kink;
} Aggregate;

/* Everything the three structs share stands at the same offsets: value, weight, offset, out follow params. */
static void open_model(Aggregate *a, Call *call)
{
    const SnlsGather *s = &call->s.gather;
    memset(a, 0, sizeof *a);
    a->call = call;
    a->p = &s->params;
    a->value = model_video(&s->value);
    a->heads = s->weight.shape[1];
    a->F = a->value.C / a->heads;
    a->rows = s->weight.shape[3];
    a->columns = s->weight.shape[4];
    a->K = s->weight.shape[5];
    a->stack = !strcmp(call->op->name, "gather");
    a->scatter = !strcmp(call->op->name, "scatter_add");
    a->nearest = a->p->interp == SNLS_INTERP_NEAREST;
    a->drop = a->p->border == SNLS_BORDER_DROP;
    a->weight = tensor_doubles(&s->weight);
    a->offset = tensor_doubles(&s->offset);
}

typedef void (*Visit)(Aggregate *a, const Link *link);

/* One query, one neighbour: all patch pixels. */
static void walk_patch(Aggregate *a, Link *l, int64_t i, int64_t j, Visit visit)
{
    const SnlsGatherParams *p = a->p;
    const double *o = a->offset + 3 * l->at;
    if (!isfinite(o[0]) || !isfinite(o[1]) || !isfinite(o[2])) return;
    const double y = (double)(i * p->stride0) + (a->nearest ? nearbyint(o[1]) : o[1]);
    const double x = (double)(j * p->stride0) + (a->nearest ? nearbyint(o[2]) : o[2]);
    const double ny = model_reflect(y, a->value.H, &l->slope_y), nx = model_reflect(x, a->value.W, &l->slope_x);
    l->frame = model_round_frame((double)l->t + nearbyint(o[0]), a->value.T);
    l->weight = a->weight[l->at];
    if (fmin(model_kink(y), model_kink(x)) < 1e-9) a->near_kink = true;
    for (int64_t r = 0; r < p->ps; r++)
        for (int64_t c = 0; c < p->ps; c++) {
            const int64_t dy = p->dilation * (r - p->ps / 2), dx = p->dilation * (c - p->ps / 2);
            l->y = i * p->stride0 + dy;
            l->x = j * p->stride0 + dx;
            if (l->y < 0 || l->y >= a->value.H || l->x < 0 || l->x >= a->value.W) continue;
            l->sy = model_taps(ny + (double)dy, a->value.H);
            l->sx = model_taps(nx + (double)dx, a->value.W);
            if (a->drop && !(l->sy.inside && l->sx.inside)) continue;
            l->cover = a->scatter ? 1 : (double)(model_cover(l->y, a->value.H, p->ps, p->dilation, p->stride0) *
                                                 model_cover(l->x, a->value.W, p->ps, p->dilation, p->stride0));
            visit(a, l);
        }
}

static void walk(Aggregate *a, Visit visit)
{
    const int64_t n = a->value.B * a->heads * a->value.T * a->rows * a->columns * a->K;
    for (int64_t at = 0; at < n; at++) {
        Link l = {.at = at, .k = at % a->K};
        int64_t rest = at / a->K;
        const int64_t j = rest % a->columns;
        rest /= a->columns;
        const int64_t i = rest % a->rows;
        rest /= a->rows;
        l.t = rest % a->value.T;
        rest /= a->value.T;
        l.head = rest % a->heads;
        l.b = rest / a->heads;
        walk_patch(a, &l, i, j, visit);
    }
}

/* Element of out that a destination pixel belongs to, gather's way. */
static int64_t out_at(const Aggregate *a, const Link *l, int64_t f)
{
    if (!a->stack) return model_at(&a->value, l->b, l->t, l->y, l->x, l->head * a->F + f);
    const int64_t layer = ((l->b * a->heads + l->head) * a->K + l->k) * a->value.T + l->t;
    return ((layer * a->value.H + l->y) * a->value.W + l->x) * a->F + f;
}

static int64_t tap_at(const Aggregate *a, const Link *l, int tap, int64_t c)
{
    return model_at(&a->value, l->b, l->frame, l->sy.at[tap / 2], l->sx.at[tap % 2], c);
}

static double tap_weight(const Link *l, int tap) { return l->sy.weight[tap / 2] * l->sx.weight[tap % 2]; }

static void visit_gather(Aggregate *a, const Link *l)
{
    for (int64_t f = 0; f < a->F; f++) {
        const ModelRead r = model_read(&a->value, l->b, l->frame, &l->sy, &l->sx, l->head * a->F + f);
        sums_add(&a->out, out_at(a, l, f), l->weight * r.value / l->cover, 6 * fabs(l->weight) * r.absolute / l->cover);
    }
}

static void visit_scatter(Aggregate *a, const Link *l)
{
    for (int tap = 0; tap < 4; tap++) {
        const double w = l->weight * tap_weight(l, tap);
        if (tap_weight(l, tap) == 0) continue;
        for (int64_t f = 0; f < a->F; f++) {
            const int64_t c = l->head * a->F + f;
            const double term = w * a->value.v[model_at(&a->value, l->b, l->t, l->y, l->x, c)];
            sums_add(&a->out, tap_at(a, l, tap, c), term, 4 * fabs(term));
        }
        sums_add(&a->total, tap_at(a, l, tap, 0) / a->value.C * a->heads + l->head, w, 4 * fabs(w));
    }
}

static bool uncovered(const Aggregate *a)
{
    const SnlsGatherParams *p = a->p;
    bool all = true;
    for (int64_t y = 0; y < a->value.H; y++) all = all && model_cover(y, a->value.H, p->ps, p->dilation, p->stride0);
    for (int64_t x = 0; x < a->value.W; x++) all = all && model_cover(x, a->value.W, p->ps, p->dilation, p->stride0);
    return !all;
}

void aggregate_check_forward(Call *call, double eps)
{
    Aggregate a;
    open_model(&a, call);
    a.out = sums_new(tensor_count(&call->s.gather.out));
    if (a.scatter) a.total = sums_new(a.value.B * a.value.T * a.value.H * a.value.W * a.heads);
    walk(&a, a.scatter ? visit_scatter : visit_gather);
    check_sums("out", &call->s.gather.out, &a.out, eps);
    if (a.scatter && call->s.scatter_add.total.data) check_sums("total", &call->s.scatter_add.total, &a.total, eps);
    const SnlsStatus want = !a.scatter && uncovered(&a) ? SNLS_UNCOVERED : SNLS_OK;
    CHECK(call->status == want, "%s: status is %d, expected %d", call->op->name, (int)call->status, (int)want);
}

/* What a link pulls: G at the destination (gather) or at the source (scatter), and the video read at the other end. */
typedef struct LinkPull { double dot, absolute, y, x, y_abs, x_abs; } LinkPull;

static void add_link_pull(LinkPull *pull, double factor, const ModelRead *r)
{
    pull->dot += factor * r->value;
    pull->absolute += fabs(factor) * r->absolute;
    pull->y += factor * r->dy;
    pull->x += factor * r->dx;
    pull->y_abs += fabs(factor) * r->dy_abs;
    pull->x_abs += fabs(factor) * r->dx_abs;
}

static void add_many(Sums *s, int64_t at, double value, double magnitude, double terms)
{
    if (!s->count) return;
    s->value[at] += value;
    s->magnitude[at] += magnitude;
    s->read[at] += 6 * magnitude;
    s->terms[at] += terms;
}

static void finish_link(Aggregate *a, const Link *l, const LinkPull *pull)
{
    const double w = l->weight, terms = (double)a->F + 1;
    add_many(&a->d_weight, l->at, pull->dot, pull->absolute, terms);
    add_many(&a->d_offset, 3 * l->at + 1, w * l->slope_y * l->sy.slope * pull->y, fabs(w) * pull->y_abs, terms);
    add_many(&a->d_offset, 3 * l->at + 2, w * l->slope_x * l->sx.slope * pull->x, fabs(w) * pull->x_abs, terms);
}

static void visit_gather_grad(Aggregate *a, const Link *l)
{
    LinkPull pull = {0};
    for (int64_t f = 0; f < a->F; f++) {
        const int64_t c = l->head * a->F + f;
        const double G = a->g_out[out_at(a, l, f)] / l->cover;
        const ModelRead r = model_read(&a->value, l->b, l->frame, &l->sy, &l->sx, c);
        add_link_pull(&pull, G, &r);
        for (int tap = 0; a->d_value.count && tap < 4; tap++)
            if (tap_weight(l, tap) != 0) sums_add(&a->d_value, tap_at(a, l, tap, c), l->weight * tap_weight(l, tap) * G, 6 * fabs(l->weight * tap_weight(l, tap) * G));
    }
    finish_link(a, l, &pull);
}

static void visit_scatter_grad(Aggregate *a, const Link *l)
{
    LinkPull pull = {0};
    const ModelVideo G = {a->g_out, a->value.B, a->value.T, a->value.H, a->value.W, a->value.C};
    const ModelVideo total = {a->g_total, a->value.B, a->value.T, a->value.H, a->value.W, a->heads};
    for (int64_t f = 0; G.v && f < a->F; f++) {
        const int64_t c = l->head * a->F + f, here = model_at(&a->value, l->b, l->t, l->y, l->x, c);
        const ModelRead r = model_read(&G, l->b, l->frame, &l->sy, &l->sx, c);
        add_link_pull(&pull, a->value.v[here], &r);
        if (a->d_value.count) sums_add(&a->d_value, here, l->weight * r.value, 6 * fabs(l->weight) * r.absolute);
    }
    if (total.v) {
        const ModelRead r = model_read(&total, l->b, l->frame, &l->sy, &l->sx, l->head);
        add_link_pull(&pull, 1, &r);
    }
    finish_link(a, l, &pull);
}

void aggregate_check_backward(Call *call, double eps)
{
    Aggregate a;
    open_model(&a, call);
    const SnlsTensor *out = call_find(call, ROLE_GRAD_IN, "out"), *total = call_find(call, ROLE_GRAD_IN, "total");
    const SnlsTensor *value = call_find(call, ROLE_GRAD_OUT, "value"), *weight = call_find(call, ROLE_GRAD_OUT, "weight");
    const SnlsTensor *offset = call_find(call, ROLE_GRAD_OUT, "offset");
    a.g_out = out->data ? tensor_doubles(out) : NULL;
    a.g_total = total && total->data ? tensor_doubles(total) : NULL;
    a.d_value = sums_prefilled(value);
    a.d_weight = sums_prefilled(weight);
    a.d_offset = sums_prefilled(offset);
    walk(&a, a.scatter ? visit_scatter_grad : visit_gather_grad);
    if (value->data) check_sums("gradient of value", value, &a.d_value, eps);
    if (weight->data) check_sums("gradient of weight", weight, &a.d_weight, eps);
    if (offset->data && !a.near_kink) check_sums("gradient of offset", offset, &a.d_offset, eps);
}
