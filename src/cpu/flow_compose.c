/* flow_compose.c: flow followed over several frames. Positions are double as the definition asks; rows of queries run in
 * parallel. Backward: a frame of fflow or bflow has one owner, which goes through all walks that read it. */
#include "cpu/threads.h"
#include "cpu/video.h"
#include "op/geometry.h"

/* One step of a walk: where the field was read, what it said, and its slopes by the place. */
typedef struct Step {
    SnlsTaps y, x;
    double value[2], by_y[2], by_x[2]; /* components x, y */
    bool defined;
} Step;

typedef struct Field { /* one frame of fflow or bflow */
    const float *data;
    int64_t step_y, step_x, step_c, height, width;
} Field;

static Field field_of(const SnlsTensor *t, int64_t b, int64_t frame)
{
    return (Field){(const float *)t->data + snls_at5(t, b, frame, 0, 0, 0), t->stride[2], t->stride[3], t->stride[4], t->shape[2], t->shape[3]};
}

/* Nested, so that a constant field is read exactly; a tap of weight 0 is not touched. */
static double mix(const float *a, const float *b, double f) { return f == 0 ? *a : *a + f * ((double)*b - *a); }

static void read_component(const Field *field, Step *s, int c, bool slopes)
{
    const float *row0 = field->data + c * field->step_c + s->y.at[0] * field->step_y, *row1 = field->data + c * field->step_c + s->y.at[1] * field->step_y;
    const int64_t left = s->x.at[0] * field->step_x, right = s->x.at[1] * field->step_x;
    const double fy = s->y.weight[1], fx = s->x.weight[1];
    const double above = mix(row0 + left, row0 + right, fx);
    s->value[c] = fy == 0 ? above : above + fy * (mix(row1 + left, row1 + right, fx) - above);
    if (!slopes) return;
    s->by_y[c] = s->x.weight[0] * ((double)row1[left] - row0[left]);
    if (fx != 0) s->by_y[c] += fx * ((double)row1[right] - row0[right]);
    s->by_x[c] = s->y.weight[0] * ((double)row0[right] - row0[left]);
    if (fy != 0) s->by_x[c] += fy * ((double)row1[right] - row1[left]);
}

static void read_field(const Field *field, double y, double x, Step *s, bool slopes)
{
    s->defined = isfinite(y) && isfinite(x);
    s->value[0] = s->value[1] = NAN;
    if (!s->defined) return;
    s->y = snls_taps(snls_reflect_real(y, field->height), field->height);
    s->x = snls_taps(snls_reflect_real(x, field->width), field->width);
    const double slope_y = snls_reflect_slope(y, field->height), slope_x = snls_reflect_slope(x, field->width);
    for (int c = 0; c < 2; c++) {
        read_component(field, s, c, slopes);
        s->by_y[c] *= slope_y;
        s->by_x[c] *= slope_x;
    }
    s->defined = !isnan(s->value[0]) && !isnan(s->value[1]);
}

/* Slots 0 .. ahead-1 of a query's flow go forward through fflow, the rest backward through bflow. */
static int64_t slots_ahead(int64_t t, int64_t wt, int64_t frames)
{
    int64_t n = 0;
    while (n < 2 * wt && snls_slot_frame(t, n + 1, wt, frames) > t) n++;
    return n;
}

static SnlsStatus take(SnlsContext *ctx, const SnlsFlowCompose *s)
{
    SNLS_TRY(snls_cpu_take_numbers(ctx, "flow_compose", "fflow", &s->fflow));
    SNLS_TRY(snls_cpu_take_numbers(ctx, "flow_compose", "bflow", &s->bflow));
    return snls_cpu_take_numbers(ctx, "flow_compose", "flow", &s->flow);
}

static void compose_query(const SnlsFlowCompose *s, int64_t b, int64_t t, int64_t i, int64_t j, int64_t first, int64_t end, int64_t dir)
{
    const double y = (double)(i * s->params.stride0), x = (double)(j * s->params.stride0);
    double d[2] = {0, 0};
    for (int64_t slot = first; slot < end; slot++) {
        const Field field = field_of(dir > 0 ? &s->fflow : &s->bflow, b, t + dir * (slot - first));
        float *to = (float *)s->flow.data + snls_at5(&s->flow, b, t, slot, i, j);
        Step step = {.value = {0, 0}};
        read_field(&field, y + d[1], x + d[0], &step, false);
        for (int c = 0; c < 2; c++) to[c * s->flow.stride[5]] = (float)(d[c] += step.value[c]);
    }
}

SnlsStatus snls_cpu_flow_compose_forward(SnlsContext *ctx, const SnlsFlowCompose *s)
{
    SNLS_TRY(take(ctx, s));
    const int64_t frames = s->fflow.shape[1], wt = s->params.wt, rows = s->flow.shape[3], units = s->fflow.shape[0] * frames * rows;
#pragma omp parallel for num_threads(ctx->threads) schedule(static)
    for (int64_t u = 0; u < units; u++) {
        const int64_t i = u % rows, t = u / rows % frames, b = u / rows / frames, ahead = slots_ahead(t, wt, frames);
        for (int64_t j = 0; j < s->flow.shape[4]; j++) {
            compose_query(s, b, t, i, j, 0, ahead, 1);
            compose_query(s, b, t, i, j, ahead, 2 * wt, -1);
        }
    }
    return SNLS_OK;
}

typedef struct Owner { /* the frame of a field whose gradient this thread sums, and rows [first, end) of it */
    const SnlsFlowCompose *s;
    const SnlsTensor *seed, *to; /* gradient by flow; by fflow or bflow */
    int64_t b, frame, dir, first, end;
    Step *steps;                 /* 2*wt */
} Owner;

static void spread(const Owner *o, const Step *step, const double pull[2])
{
    for (int a = 0; a < 2; a++)
        for (int e = 0; e < 2; e++) {
            const double weight = step->y.weight[a] * step->x.weight[e];
            if (weight == 0 || step->y.at[a] < o->first || step->y.at[a] >= o->end) continue;
            float *to = (float *)o->to->data + snls_at5(o->to, o->b, o->frame, step->y.at[a], step->x.at[e], 0);
            for (int c = 0; c < 2; c++) to[c * o->to->stride[4]] += (float)(weight * pull[c]);
        }
}

/* Walks query (t, i, j) to its end, then back to the step that read the owner's frame. */
static void pull_walk(const Owner *o, int64_t t, int64_t i, int64_t j, int64_t first, int64_t end)
{
    const SnlsFlowCompose *s = o->s;
    const double y = (double)(i * s->params.stride0), x = (double)(j * s->params.stride0);
    const int64_t length = end - first, mine = (o->frame - t) * o->dir;
    double d[2] = {0, 0}, pull[2] = {0, 0};
    for (int64_t n = 0; n < length; n++) {
        const Field field = field_of(o->dir > 0 ? &s->fflow : &s->bflow, o->b, t + o->dir * n);
        read_field(&field, y + d[1], x + d[0], &o->steps[n], true);
        for (int c = 0; c < 2; c++) d[c] += o->steps[n].value[c];
    }
    for (int64_t n = length; n-- > mine;) {
        const Step *step = &o->steps[n];
        const float *seed = (const float *)o->seed->data + snls_at5(o->seed, o->b, t, first + n, i, j);
        if (!step->defined) { pull[0] = pull[1] = 0; continue; } /* nothing to learn from an undefined walk */
        for (int c = 0; c < 2; c++) pull[c] += seed[c * o->seed->stride[5]];
        if (n == mine) spread(o, step, pull);
        const double by_y = pull[0] * step->by_y[0] + pull[1] * step->by_y[1], by_x = pull[0] * step->by_x[0] + pull[1] * step->by_x[1];
        pull[0] += by_x; /* the displacement before this step moves the result and the place it was read at */
        pull[1] += by_y;
    }
}

static void pull_frame(const Owner *o)
{
    const int64_t frames = o->s->fflow.shape[1], wt = o->s->params.wt;
    for (int64_t t = 0; t < frames; t++) {
        const int64_t ahead = slots_ahead(t, wt, frames), first = o->dir > 0 ? 0 : ahead, end = o->dir > 0 ? ahead : 2 * wt;
        const int64_t mine = (o->frame - t) * o->dir;
        if (mine < 0 || mine >= end - first) continue;
        for (int64_t i = 0; i < o->s->flow.shape[3]; i++)
            for (int64_t j = 0; j < o->s->flow.shape[4]; j++) pull_walk(o, t, i, j, first, end);
    }
}

SnlsStatus snls_cpu_flow_compose_backward(SnlsContext *ctx, const SnlsFlowCompose *s, const SnlsFlowComposeGrad *g)
{
    SNLS_TRY(take(ctx, s));
    SNLS_TRY(snls_cpu_take_numbers(ctx, "flow_compose", "gradient of flow", &g->flow));
    SNLS_TRY(snls_cpu_take_numbers(ctx, "flow_compose", "gradient of fflow", &g->fflow));
    SNLS_TRY(snls_cpu_take_numbers(ctx, "flow_compose", "gradient of bflow", &g->bflow));
    const int64_t frames = s->fflow.shape[1], height = s->fflow.shape[2], planes = s->fflow.shape[0] * frames, length = 2 * (int64_t)s->params.wt;
    snls_arena_begin(&ctx->arena);
    snls_arena_plan(&ctx->arena, ctx->threads * length, sizeof(Step));
    SNLS_TRY(snls_scratch_commit(ctx, "flow_compose"));
    Step *steps = snls_arena_claim(&ctx->arena, ctx->threads * length, sizeof *steps);
    int64_t bands = planes ? (ctx->threads + planes - 1) / planes : 1; /* the sums do not depend on it */
    if (bands > height) bands = height;
    SnlsFlowCompose shaped = *s; /* backward needs no flow, but its shape */
    shaped.flow = g->flow;
#pragma omp parallel for num_threads(ctx->threads) schedule(dynamic, 1)
    for (int64_t u = 0; u < 2 * planes * bands; u++) {
        const int64_t band = u % bands, plane = u / bands % planes;
        const bool forward = u / bands / planes == 0;
        const Owner o = {.s = &shaped, .seed = &g->flow, .to = forward ? &g->fflow : &g->bflow, .b = plane / frames, .frame = plane % frames,
                         .dir = forward ? 1 : -1, .first = band * height / bands, .end = (band + 1) * height / bands,
                         .steps = steps + snls_cpu_thread() * length};
        if (o.to->data) pull_frame(&o);
    }
    return SNLS_OK;
}
