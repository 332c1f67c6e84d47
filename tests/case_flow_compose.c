/* case_flow_compose.c: random flow compositions and their model: the chain of reads, forward and backward. */
#include "case.h"
#include <math.h>

static const Slot slots[] = {
    {"fflow", ROLE_IN, offsetof(SnlsFlowCompose, fflow)},             {"bflow", ROLE_IN, offsetof(SnlsFlowCompose, bflow)},
    {"flow", ROLE_OUT, offsetof(SnlsFlowCompose, flow)},              {"flow", ROLE_GRAD_IN, offsetof(SnlsFlowComposeGrad, flow)},
    {"fflow", ROLE_GRAD_OUT, offsetof(SnlsFlowComposeGrad, fflow)},   {"bflow", ROLE_GRAD_OUT, offsetof(SnlsFlowComposeGrad, bflow)},
    {NULL, ROLE_IN, 0}};

static void draw_field(Call *call, SnlsTensor *t, Motion motion)
{
    for (int64_t i = 0; i < tensor_count(t); i++)
        tensor_set(t, i, draw_motion(call, motion, t->shape[i % 2 ? 2 : 3], (double)(i / 2 % t->shape[3])));
}

static void make(Call *call)
{
    static const Cap caps[] = {{"wt", 2}, {"stride0", 4}, {NULL, 0}};
    Rng *rng = &call->rng;
    SnlsFlowCompose *s = &call->s.flow_compose;
    SnlsFlowComposeGrad *g = &call->g.flow_compose;
    snls_flow_compose_defaults(&s->params);
    draw_params(rng, "flow_compose", &s->params, caps);
    if (call->kind == CALL_SMALL) s->params.wt = 1, s->params.stride0 = 2;
    const int64_t T = 2 * s->params.wt + 1 + (call->kind == CALL_SMALL ? 0 : rng_int(rng, 0, 3)), step = s->params.stride0;
    const int64_t field[5] = {rng_int(rng, 1, 2), T, draw_size(rng), draw_size(rng), 2};
    const int64_t shape[6] = {field[0], T, 2 * s->params.wt, (field[2] + step - 1) / step, (field[3] + step - 1) / step, 2};
    const int32_t dtype = call->kind == CALL_SMOOTH || (call->kind == CALL_ANY && rng_one_in(rng, 6)) ? SNLS_F64 : SNLS_F32;
    const Motion motion = call->kind == CALL_SMALL ? MOTION_REAL : (Motion)rng_int(rng, 0, MOTION_FAR);
    call->exact = call->kind == CALL_ANY && (motion == MOTION_ZERO || motion == MOTION_WHOLE);
    s->fflow = tensor_new(rng, dtype, 5, field, LAYOUT_INPUT);
    s->bflow = tensor_new(rng, dtype, 5, field, LAYOUT_INPUT);
    draw_field(call, &s->fflow, motion);
    draw_field(call, &s->bflow, motion);
    s->flow = tensor_new(rng, dtype, 6, shape, LAYOUT_OUTPUT);
    while (!g->flow.data) draw_grad(call, &g->flow, &s->flow, false);
    draw_grad(call, &g->fflow, &s->fflow, true);
    draw_grad(call, &g->bflow, &s->bflow, true);
}

/* One query's walk in one direction: the steps it takes. */
enum { STEPS_MAX = 16 };
typedef struct Step { ModelTaps y, x; ModelRead u, v; int64_t frame, slot; double kink; } Step;
typedef struct Chain {
    int64_t count;
    Step step[STEPS_MAX];
    double px[STEPS_MAX + 1], py[STEPS_MAX + 1]; /* positions */
    double slack[STEPS_MAX + 1];                 /* how far a position may be off, in eps */
} Chain;

typedef struct Walk { const SnlsFlowCompose *s; ModelVideo fields[2]; int64_t b, t, i, j; bool back; } Walk;

static Chain follow(const Walk *w)
{
    const int64_t wt = w->s->params.wt, step = w->s->params.stride0;
    const ModelVideo *field = &w->fields[w->back];
    Chain c = {.count = 0};
    c.px[0] = (double)(w->j * step);
    c.py[0] = (double)(w->i * step);
    for (int64_t slot = 1; slot <= 2 * wt; slot++) {
        const int64_t target = model_frame(w->t, slot, wt, field->T);
        if ((target < w->t) != w->back) continue;
        Step *s = &c.step[c.count];
        const double x = c.px[c.count], y = c.py[c.count];
        s->slot = slot - 1;
        s->frame = w->back ? target + 1 : target - 1;
        s->y = model_taps(y, field->H);
        s->x = model_taps(x, field->W);
        s->u = model_read(field, w->b, s->frame, &s->y, &s->x, 0);
        s->v = model_read(field, w->b, s->frame, &s->y, &s->x, 1);
        s->kink = fmin(model_kink(x), model_kink(y));
        const double stretch = 1 + s->u.dx_abs + s->u.dy_abs + s->v.dx_abs + s->v.dy_abs;
        c.slack[c.count + 1] = c.slack[c.count] * stretch + 6 * (s->u.absolute + s->v.absolute) + fabs(x) + fabs(y);
        c.count++;
        c.px[c.count] = x + s->u.value;
        c.py[c.count] = y + s->v.value;
    }
    return c;
}

static int64_t flow_at(const Walk *w, int64_t slot)
{
    const int64_t *n = w->s->flow.shape;
    return ((((w->b * n[1] + w->t) * n[2] + slot) * n[3] + w->i) * n[4] + w->j) * 2;
}

typedef struct Compose {
    Call *call;
    Sums flow, grad[2];
    double margin; /* from the next kink, pixels */
    double steady; /* the same in units of what a position may be off by, per eps */
    double *g;
    bool backward;
} Compose;

/* Forward: the displacement after each step. */
static void record(Compose *m, const Walk *w, const Chain *c)
{
    for (int64_t n = 0; n < c->count; n++) {
        const int64_t at = flow_at(w, c->step[n].slot);
        const double dx = c->px[n + 1] - c->px[0], dy = c->py[n + 1] - c->py[0];
        sums_add(&m->flow, at, dx, c->slack[n + 1]);
        sums_add(&m->flow, at + 1, dy, c->slack[n + 1]);
        m->margin = fmin(m->margin, c->step[n].kink);
        m->steady = fmin(m->steady, c->step[n].kink / (1 + c->slack[n]));
    }
}

/* A pull on a position: value, and what it may be off by, in eps. */
typedef struct Pull { double x, y, off_x, off_y; } Pull;

/* Through one step: the position before it moves the result and the place that was read. */
static Pull hand_down(const Pull *p, const Step *s, double slack)
{
    const double dx = s->x.slope * (p->x * s->u.dx + p->y * s->v.dx), dy = s->y.slope * (p->x * s->u.dy + p->y * s->v.dy);
    /* the slopes change with the place that was read, which may be off by slack */
    const double bend = slack * (fabs(p->x * s->u.cross) + fabs(p->y * s->v.cross));
    const double rough_x = fabs(p->x) * s->u.dx_abs + fabs(p->y) * s->v.dx_abs, rough_y = fabs(p->x) * s->u.dy_abs + fabs(p->y) * s->v.dy_abs;
    Pull q = {p->x + dx, p->y + dy, 0, 0};
    q.off_x = p->off_x * (1 + fabs(s->u.dx)) + p->off_y * fabs(s->v.dx) + bend + 8 * rough_x + fabs(q.x);
    q.off_y = p->off_y * (1 + fabs(s->v.dy)) + p->off_x * fabs(s->u.dy) + bend + 8 * rough_y + fabs(q.y);
    return q;
}

/* Backward: the pull on the position after the last step, handed down step by step. */
static void pull_back(Compose *m, const Walk *w, const Chain *c)
{
    Sums *grad = &m->grad[w->back];
    Pull p = {0, 0, 0, 0};
    for (int64_t n = c->count; n-- > 0;) {
        const Step *s = &c->step[n];
        const int64_t at = flow_at(w, s->slot);
        p.x += m->g[at]; p.y += m->g[at + 1];
        p.off_x += fabs(p.x); p.off_y += fabs(p.y);
        for (int tap = 0; grad->count && tap < 4; tap++) {
            const double weight = s->y.weight[tap / 2] * s->x.weight[tap % 2], shaky = 6 * weight + 2 * c->slack[n];
            const int64_t to = model_at(&w->fields[0], w->b, s->frame, s->y.at[tap / 2], s->x.at[tap % 2], 0);
            if (weight == 0) continue;
            sums_add(grad, to, weight * p.x, weight * p.off_x + shaky * fabs(p.x));
            sums_add(grad, to + 1, weight * p.y, weight * p.off_y + shaky * fabs(p.y));
        }
        p = hand_down(&p, s, c->slack[n]);
    }
}

static void run_model(Compose *m)
{
    const SnlsFlowCompose *s = &m->call->s.flow_compose;
    const int64_t *n = s->flow.shape;
    Walk w = {.s = s, .fields = {model_video(&s->fflow), model_video(&s->bflow)}};
    m->margin = m->steady = 1;
    for (int64_t q = 0; q < n[0] * n[1] * n[3] * n[4] * 2; q++) {
        int64_t rest = q / 2;
        w.back = q % 2;
        w.j = rest % n[4]; rest /= n[4];
        w.i = rest % n[3]; rest /= n[3];
        w.t = rest % n[1];
        w.b = rest / n[1];
        const Chain c = follow(&w);
        record(m, &w, &c);
        if (m->backward) pull_back(m, &w, &c);
    }
}

static void check_forward(Call *call, double eps)
{
    Compose m = {.call = call, .flow = sums_new(tensor_count(&call->s.flow_compose.flow))};
    run_model(&m);
    check_sums("flow", &call->s.flow_compose.flow, &m.flow, eps);
}

static void check_backward(Call *call, double eps)
{
    const SnlsFlowComposeGrad *g = &call->g.flow_compose;
    Compose m = {.call = call, .flow = sums_new(tensor_count(&call->s.flow_compose.flow)), .backward = true, .g = tensor_doubles(&g->flow)};
    m.grad[0] = sums_prefilled(&g->fflow);
    m.grad[1] = sums_prefilled(&g->bflow);
    run_model(&m);
    if (m.steady < 8 * eps) return; /* a rounded position may read other taps */
    if (g->fflow.data) check_sums("gradient of fflow", &g->fflow, &m.grad[0], eps);
    if (g->bflow.data) check_sums("gradient of bflow", &g->bflow, &m.grad[1], eps);
}

static double margin(Call *call)
{
    Compose m = {.call = call, .flow = sums_new(tensor_count(&call->s.flow_compose.flow))};
    run_model(&m);
    return m.margin;
}

const Case case_flow_compose = {slots, make, check_forward, check_backward, margin};
