/* aggregate.c: the entries of gather, gather_add and scatter_add: memory, then the loops of gather.c, scatter.c, pull.c. */
#include "cpu/aggregate.h"
#include <string.h>

static SnlsStatus take_inputs(SnlsContext *ctx, const SnlsAggregate *a)
{
    SNLS_TRY(snls_cpu_take_video(ctx, a->op, "value", &a->value));
    SNLS_TRY(snls_cpu_take_numbers(ctx, a->op, "weight", &a->weight));
    return snls_cpu_take_numbers(ctx, a->op, "offset", &a->offset);
}

static CpuAggregate make(SnlsContext *ctx, const SnlsAggregate *a)
{
    return (CpuAggregate){.a = *a, .dsp = snls_cpu_dsp(ctx), .stack = a->stack, .divide = !a->scatter, .channels = a->features};
}

static bool same(const float *over, int64_t first, int64_t end)
{
    for (int64_t i = first + 1; i < end; i++)
        if (over[i] != over[first]) return false;
    return true;
}

bool snls_cpu_even(const CpuAggregate *c, const CpuQuery *q, float *divisor)
{
    const SnlsAggregate *a = &c->a;
    const int64_t y = snls_cpu_y(a, q, 0), x = snls_cpu_x(a, q, 0);
    if (a->dilation > 1 && a->ps > 1) return false;
    const CpuRange r = snls_cpu_range(y, a->ps, a->height), s = snls_cpu_range(x, a->ps, a->width);
    *divisor = c->over_y[y + r.first] * c->over_x[x + s.first];
    return !c->divide || (same(c->over_y, y + r.first, y + r.end) && same(c->over_x, x + s.first, x + s.end));
}

bool snls_cpu_even_run(const CpuAggregate *c, const CpuQuery *q, int64_t end, float *divisor)
{
    const SnlsAggregate *a = &c->a;
    const int64_t y = snls_cpu_y(a, q, 0), x = snls_cpu_x(a, q, 0), right = (end - 1) * a->stride0 + snls_cpu_after(a) + 1;
    if ((a->dilation > 1 && a->ps > 1) || y < 0 || y + a->ps > a->height || x < 0 || right > a->width) return false;
    *divisor = c->over_y[y] * c->over_x[x];
    if (!c->divide || a->ps == 1) return true;
    return same(c->over_y, y, y + a->ps) && same(c->over_x, x, right);
}

int64_t snls_cpu_band(const SnlsContext *ctx, int64_t planes, int64_t height, int64_t most)
{
    int64_t rows = most;
    while (rows > 2 && planes * ((height + rows - 1) / rows) < (ctx->threads > 1 ? 4 * ctx->threads : 1)) rows /= 2;
    return rows;
}

/* Work space of every loop: lists of neighbours, sums, the divisors along both axes. */
static void plan_space(SnlsContext *ctx, const SnlsAggregate *a)
{
    snls_arena_plan(&ctx->arena, ctx->threads, snls_cpu_space_size(a));
    snls_arena_plan(&ctx->arena, a->height, sizeof(float));
    snls_arena_plan(&ctx->arena, a->width, sizeof(float));
}

static void fill_over(const CpuAggregate *c, float *over, int64_t length)
{
    const SnlsAggregate *a = &c->a;
    for (int64_t i = 0; i < length; i++) over[i] = c->divide ? (float)snls_cover_count(i, length, a->ps, a->dilation, a->stride0) : 1;
}

static void claim_space(SnlsContext *ctx, CpuAggregate *c)
{
    const SnlsAggregate *a = &c->a;
    c->space = snls_arena_claim(&ctx->arena, ctx->threads, snls_cpu_space_size(a));
    c->over_y = snls_arena_claim(&ctx->arena, a->height, sizeof(float));
    c->over_x = snls_arena_claim(&ctx->arena, a->width, sizeof(float));
    fill_over(c, c->over_y, a->height);
    fill_over(c, c->over_x, a->width);
}

static int64_t reach_count(const SnlsAggregate *a) { return a->batch * a->frames * a->rows; }
static void plan_reach(SnlsContext *ctx, const SnlsAggregate *a) { snls_arena_plan(&ctx->arena, reach_count(a), sizeof(CpuReach)); }
static CpuReach *claim_reach(SnlsContext *ctx, const SnlsAggregate *a) { return snls_arena_claim(&ctx->arena, reach_count(a), sizeof(CpuReach)); }

/* The same ties with the accumulated weight: one channel, ones at the destination. */
static CpuAggregate of_total(const CpuAggregate *c, const CpuVideo *total)
{
    CpuAggregate one = *c;
    one.source = *total;
    one.destination = (CpuVideo){0};
    one.channels = 1;
    return one;
}

static void scatter(SnlsContext *ctx, const CpuAggregate *c, CpuReach *reach)
{
    snls_cpu_reach(ctx, c, reach);
    snls_cpu_scatter_bands(ctx, c, reach);
}

/* An output about to be added to: the fast way where it is not scratch, which is zero anyway. */
static void clear(SnlsContext *ctx, const CpuVideo *v, const SnlsTensor *t)
{
    int64_t run = 1;
    for (int32_t i = t->ndim - 1; i >= 0 && t->stride[i] == run; i--) run *= t->shape[i];
    if (t->data && !v->packed && run == snls_tensor_elements(t)) memset(t->data, 0, (size_t)run * sizeof(float));
    else snls_cpu_clear(ctx, t);
}

static SnlsStatus gather_forward(SnlsContext *ctx, const SnlsAggregate *a)
{
    CpuAggregate c = make(ctx, a);
    SNLS_TRY(take_inputs(ctx, a));
    SNLS_TRY(snls_cpu_take_video(ctx, a->op, "out", &a->out));
    snls_arena_begin(&ctx->arena);
    snls_cpu_video_plan(ctx, &a->value);
    snls_cpu_sum_plan(ctx, &a->out);
    plan_space(ctx, a);
    SNLS_TRY(snls_scratch_commit(ctx, a->op));
    snls_cpu_video_claim(ctx, &c.source, &a->value);
    snls_cpu_sum_claim(ctx, &c.destination, &a->out);
    claim_space(ctx, &c);
    c.overwrite = !c.destination.packed;
    c.set = c.overwrite && a->ps == 1 && a->stride0 == 1;
    if (c.destination.packed) snls_cpu_clear(ctx, &a->out);
    snls_cpu_gather_rows(ctx, &c);
    snls_cpu_sum_finish(ctx, &c.destination, &a->out);
    return SNLS_OK;
}

static SnlsStatus take_grad(SnlsContext *ctx, const SnlsAggregate *a, const SnlsTensor *out, const SnlsTensor *value, const SnlsTensor *weight, const SnlsTensor *offset)
{
    SNLS_TRY(snls_cpu_take_video(ctx, a->op, "gradient of out", out));
    SNLS_TRY(snls_cpu_take_video(ctx, a->op, "gradient of value", value));
    SNLS_TRY(snls_cpu_take_numbers(ctx, a->op, "gradient of weight", weight));
    return snls_cpu_take_numbers(ctx, a->op, "gradient of offset", offset);
}

static SnlsStatus gather_backward(SnlsContext *ctx, const SnlsAggregate *a, const SnlsGatherGrad *g)
{
    CpuAggregate read = make(ctx, a), write; /* value is read for the weights' gradient, its own gradient is written */
    SNLS_TRY(take_inputs(ctx, a));
    SNLS_TRY(take_grad(ctx, a, &g->out, &g->value, &g->weight, &g->offset));
    snls_arena_begin(&ctx->arena);
    snls_cpu_video_plan(ctx, &a->value);
    snls_cpu_video_plan(ctx, &g->out);
    plan_space(ctx, a);
    snls_cpu_sum_plan(ctx, &g->value);
    plan_reach(ctx, a);
    SNLS_TRY(snls_scratch_commit(ctx, a->op));
    snls_cpu_video_claim(ctx, &read.source, &a->value);
    snls_cpu_video_claim(ctx, &read.destination, &g->out);
    claim_space(ctx, &read);
    write = read;
    snls_cpu_sum_claim(ctx, &write.source, &g->value);
    snls_cpu_pull_weights(ctx, &read, &g->weight, &g->offset);
    if (g->value.data) scatter(ctx, &write, claim_reach(ctx, a));
    snls_cpu_sum_finish(ctx, &write.source, &g->value);
    return SNLS_OK;
}

SnlsStatus snls_cpu_gather_forward(SnlsContext *ctx, const SnlsGather *s)
{
    const SnlsAggregate a = snls_aggregate_of_gather(s, true);
    return gather_forward(ctx, &a);
}

SnlsStatus snls_cpu_gather_backward(SnlsContext *ctx, const SnlsGather *s, const SnlsGatherGrad *g)
{
    const SnlsAggregate a = snls_aggregate_of_gather(s, true);
    return gather_backward(ctx, &a, g);
}

SnlsStatus snls_cpu_gather_add_forward(SnlsContext *ctx, const SnlsGatherAdd *s)
{
    const SnlsAggregate a = snls_aggregate_of_gather(s, false);
    return gather_forward(ctx, &a);
}

SnlsStatus snls_cpu_gather_add_backward(SnlsContext *ctx, const SnlsGatherAdd *s, const SnlsGatherAddGrad *g)
{
    const SnlsAggregate a = snls_aggregate_of_gather(s, false);
    return gather_backward(ctx, &a, g);
}

SnlsStatus snls_cpu_scatter_add_forward(SnlsContext *ctx, const SnlsScatterAdd *s)
{
    const SnlsAggregate a = snls_aggregate_of_scatter(s);
    CpuAggregate c = make(ctx, &a);
    CpuVideo total;
    SNLS_TRY(take_inputs(ctx, &a));
    SNLS_TRY(snls_cpu_take_video(ctx, a.op, "out", &a.out));
    SNLS_TRY(snls_cpu_take_video(ctx, a.op, "total", &a.total));
    snls_arena_begin(&ctx->arena);
    snls_cpu_video_plan(ctx, &a.value);
    snls_cpu_sum_plan(ctx, &a.out);
    snls_cpu_sum_plan(ctx, &a.total);
    plan_space(ctx, &a);
    plan_reach(ctx, &a);
    SNLS_TRY(snls_scratch_commit(ctx, a.op));
    snls_cpu_video_claim(ctx, &c.destination, &a.value);
    snls_cpu_sum_claim(ctx, &c.source, &a.out);
    snls_cpu_sum_claim(ctx, &total, &a.total);
    claim_space(ctx, &c);
    CpuReach *const reach = claim_reach(ctx, &a);
    clear(ctx, &c.source, &a.out);
    scatter(ctx, &c, reach);
    snls_cpu_sum_finish(ctx, &c.source, &a.out);
    if (!a.total.data) return SNLS_OK;
    const CpuAggregate one = of_total(&c, &total);
    clear(ctx, &total, &a.total);
    snls_cpu_scatter_bands(ctx, &one, reach);
    snls_cpu_sum_finish(ctx, &total, &a.total);
    return SNLS_OK;
}

SnlsStatus snls_cpu_scatter_add_backward(SnlsContext *ctx, const SnlsScatterAdd *s, const SnlsScatterAddGrad *g)
{
    const SnlsAggregate a = snls_aggregate_of_scatter(s);
    CpuAggregate read = make(ctx, &a), write;
    CpuVideo by_total;
    SNLS_TRY(take_inputs(ctx, &a));
    SNLS_TRY(take_grad(ctx, &a, &g->out, &g->value, &g->weight, &g->offset));
    SNLS_TRY(snls_cpu_take_video(ctx, a.op, "gradient of total", &g->total));
    snls_arena_begin(&ctx->arena);
    snls_cpu_video_plan(ctx, &a.value);
    snls_cpu_video_plan(ctx, &g->out);
    snls_cpu_video_plan(ctx, &g->total);
    plan_space(ctx, &a);
    snls_cpu_sum_plan(ctx, &g->value);
    SNLS_TRY(snls_scratch_commit(ctx, a.op));
    snls_cpu_video_claim(ctx, &read.destination, &a.value);
    snls_cpu_video_claim(ctx, &read.source, &g->out);
    snls_cpu_video_claim(ctx, &by_total, &g->total);
    claim_space(ctx, &read);
    write = read;
    snls_cpu_sum_claim(ctx, &write.destination, &g->value);
    const CpuAggregate one = of_total(&read, &by_total);
    if (g->out.data) snls_cpu_pull_weights(ctx, &read, &g->weight, &g->offset);
    if (g->total.data) snls_cpu_pull_weights(ctx, &one, &g->weight, &g->offset);
    if (g->out.data && g->value.data) snls_cpu_gather_rows(ctx, &write);
    snls_cpu_sum_finish(ctx, &write.destination, &g->value);
    return SNLS_OK;
}
