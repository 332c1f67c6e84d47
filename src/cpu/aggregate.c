/* aggregate.c: the entries of gather, gather_add and scatter_add: memory, then the loops of gather.c, scatter.c, pull.c. */
#include "cpu/aggregate.h"

static SnlsStatus take_inputs(SnlsContext *ctx, const SnlsAggregate *a)
{
    SNLS_TRY(snls_cpu_take_video(ctx, a->op, "value", &a->value));
    SNLS_TRY(snls_cpu_take_numbers(ctx, a->op, "weight", &a->weight));
    return snls_cpu_take_numbers(ctx, a->op, "offset", &a->offset);
}

static CpuAggregate make(SnlsContext *ctx, const SnlsAggregate *a)
{
    return (CpuAggregate){.a = *a, .dsp = snls_cpu_dsp(ctx), .stack = a->stack, .divide = !a->scatter, .channels = a->features,
                          .spare_size = (a->features + 15) / 16 * 16};
}

static void plan_spare(SnlsContext *ctx, const CpuAggregate *c) { snls_arena_plan(&ctx->arena, ctx->threads * c->spare_size, sizeof(float)); }
static void claim_spare(SnlsContext *ctx, CpuAggregate *c) { c->spare = snls_arena_claim(&ctx->arena, ctx->threads * c->spare_size, sizeof(float)); }

/* The same ties with the accumulated weight: one channel, ones at the destination. */
static CpuAggregate of_total(const CpuAggregate *c, const CpuVideo *total)
{
    CpuAggregate one = *c;
    one.source = *total;
    one.destination = (CpuVideo){0};
    one.channels = 1;
    return one;
}

static SnlsStatus gather_forward(SnlsContext *ctx, const SnlsAggregate *a)
{
    CpuAggregate c = make(ctx, a);
    SNLS_TRY(take_inputs(ctx, a));
    SNLS_TRY(snls_cpu_take_video(ctx, a->op, "out", &a->out));
    snls_arena_begin(&ctx->arena);
    snls_cpu_video_plan(ctx, &a->value);
    snls_cpu_sum_plan(ctx, &a->out);
    plan_spare(ctx, &c);
    SNLS_TRY(snls_scratch_commit(ctx, a->op));
    snls_cpu_video_claim(ctx, &c.source, &a->value);
    snls_cpu_sum_claim(ctx, &c.destination, &a->out);
    claim_spare(ctx, &c);
    snls_cpu_clear(ctx, &a->out);
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
    CpuAggregate read = make(ctx, a), write = read; /* value is read for the weights' gradient, its own gradient is written */
    SNLS_TRY(take_inputs(ctx, a));
    SNLS_TRY(take_grad(ctx, a, &g->out, &g->value, &g->weight, &g->offset));
    snls_arena_begin(&ctx->arena);
    snls_cpu_video_plan(ctx, &a->value);
    snls_cpu_video_plan(ctx, &g->out);
    snls_cpu_sum_plan(ctx, &g->value);
    SNLS_TRY(snls_scratch_commit(ctx, a->op));
    snls_cpu_video_claim(ctx, &read.source, &a->value);
    snls_cpu_video_claim(ctx, &read.destination, &g->out);
    snls_cpu_sum_claim(ctx, &write.source, &g->value);
    write.destination = read.destination;
    snls_cpu_pull_weights(ctx, &read, &g->weight, &g->offset);
    if (g->value.data) snls_cpu_scatter_bands(ctx, &write);
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
    SNLS_TRY(snls_scratch_commit(ctx, a.op));
    snls_cpu_video_claim(ctx, &c.destination, &a.value);
    snls_cpu_sum_claim(ctx, &c.source, &a.out);
    snls_cpu_sum_claim(ctx, &total, &a.total);
    snls_cpu_clear(ctx, &a.out);
    snls_cpu_scatter_bands(ctx, &c);
    snls_cpu_sum_finish(ctx, &c.source, &a.out);
    if (!a.total.data) return SNLS_OK;
    const CpuAggregate one = of_total(&c, &total);
    snls_cpu_clear(ctx, &a.total);
    snls_cpu_scatter_bands(ctx, &one);
    snls_cpu_sum_finish(ctx, &total, &a.total);
    return SNLS_OK;
}

SnlsStatus snls_cpu_scatter_add_backward(SnlsContext *ctx, const SnlsScatterAdd *s, const SnlsScatterAddGrad *g)
{
    const SnlsAggregate a = snls_aggregate_of_scatter(s);
    CpuAggregate read = make(ctx, &a), write = read;
    CpuVideo by_total;
    SNLS_TRY(take_inputs(ctx, &a));
    SNLS_TRY(take_grad(ctx, &a, &g->out, &g->value, &g->weight, &g->offset));
    SNLS_TRY(snls_cpu_take_video(ctx, a.op, "gradient of total", &g->total));
    snls_arena_begin(&ctx->arena);
    snls_cpu_video_plan(ctx, &a.value);
    snls_cpu_video_plan(ctx, &g->out);
    snls_cpu_video_plan(ctx, &g->total);
    snls_cpu_sum_plan(ctx, &g->value);
    plan_spare(ctx, &write);
    SNLS_TRY(snls_scratch_commit(ctx, a.op));
    snls_cpu_video_claim(ctx, &read.destination, &a.value);
    snls_cpu_video_claim(ctx, &read.source, &g->out);
    snls_cpu_video_claim(ctx, &by_total, &g->total);
    snls_cpu_sum_claim(ctx, &write.destination, &g->value);
    claim_spare(ctx, &write);
    write.source = read.source;
    const CpuAggregate one = of_total(&read, &by_total);
    if (g->out.data) snls_cpu_pull_weights(ctx, &read, &g->weight, &g->offset);
    if (g->total.data) snls_cpu_pull_weights(ctx, &one, &g->weight, &g->offset);
    if (g->out.data && g->value.data) snls_cpu_gather_rows(ctx, &write);
    snls_cpu_sum_finish(ctx, &write.destination, &g->value);
    return SNLS_OK;
}
