/* aggregate.cu: jobs of the aggregation kernels, and the three operators put together from pull, spread and dots. */
#include "cuda/aggregate.cuh"

SnlsStatus snls_agg_job(SnlsContext *ctx, SnlsAggJob *job, const SnlsAggregate *a)
{
    const int64_t sizes[] = {a->frames, a->height, a->width, a->heads, a->rows, a->columns, 2 * a->features};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        SNLS_REQUIRE(ctx, sizes[i] < INT32_MAX, SNLS_ERR_UNSUPPORTED, "%s: an axis has length %lld, backend cuda takes less than 2^31-1", a->op,
                     (long long)sizes[i]);
    SNLS_REQUIRE(ctx, a->ps * a->dilation < INT32_MAX && a->neighbours < INT32_MAX / (a->ps * a->ps), SNLS_ERR_UNSUPPORTED,
                 "%s: ps*ps times %lld neighbours, or ps*dilation, is beyond what backend cuda takes (2^31-1)", a->op, (long long)a->neighbours);
    memset(job, 0, sizeof *job);
    job->a = *a;
    job->height = snls_divisor(a->height);
    job->width = snls_divisor(a->width);
    job->frames = snls_divisor(a->frames);
    job->heads = snls_divisor(a->heads);
    job->rows = snls_divisor(a->rows);
    job->columns = snls_divisor(a->columns);
    job->neighbours = snls_divisor(a->neighbours > 0 ? a->neighbours : 1);
    job->side = snls_divisor(a->ps);
    job->links = snls_divisor(a->ps * a->ps);
    return SNLS_OK;
}

bool snls_agg_is_vector(const SnlsAggregate *a, const SnlsTensor *video, bool stack)
{
    const int last = stack ? 6 : 4;
    if (a->features % 4 || (video->shape[last] > 1 && video->stride[last] != 1)) return false;
    for (int i = 0; i < last; i++)
        if (video->shape[i] > 1 && video->stride[i] % 4) return false;
    return (uintptr_t)video->data % (uintptr_t)(4 * snls_dtype_size((SnlsDtype)video->dtype)) == 0;
}

/* The widest group that leaves few lanes without channels; one lane where channels are not side by side: then neighbouring
 * lanes have neighbouring pixels, which are. */
static int lanes_for(int64_t fours, bool side_by_side)
{
    int best = 0;
    if (!side_by_side) return 0;
    for (int log2 = 1; log2 <= 5; log2++) {
        const int64_t lanes = (int64_t)1 << log2, best_lanes = (int64_t)1 << best;
        const int64_t used = (fours + lanes - 1) / lanes * lanes, best_used = (fours + best_lanes - 1) / best_lanes * best_lanes;
        if (used * 8 <= best_used * 9) best = log2;
    }
    return best;
}

SnlsStatus snls_agg_lay_out(SnlsContext *ctx, SnlsAggJob *job, int64_t lines, int64_t columns, bool chunked, bool *vector, unsigned *blocks)
{
    const SnlsAggregate *a = &job->a;
    const int64_t fours = (a->features + 3) / 4;
    const int last = job->from.ndim - 1; /* 6 in a stack, 4 in a plain video */
    *vector = snls_agg_is_vector(a, &job->from, last == 6);
    job->lanes_log2 = lanes_for(fours, job->from.stride[last] == 1 || job->from.shape[last] == 1);
    job->tile_log2 = job->lanes_log2 < 2 ? 5 : 3;
    const int64_t lanes = (int64_t)1 << job->lanes_log2, tile = (int64_t)1 << job->tile_log2;
    const int64_t chunks = chunked ? (fours + lanes - 1) / lanes : 1, high = SNLS_AGG_THREADS / lanes / tile;
    const int64_t tiles_x = (columns + tile - 1) / tile, tiles_y = (lines + high - 1) / high;
    const bool fits = lines < INT32_MAX && chunks < INT32_MAX / tiles_x && tiles_y < INT32_MAX / (tiles_x * chunks);
    SNLS_REQUIRE(ctx, fits, SNLS_ERR_UNSUPPORTED, "%s: %lld lines of %lld pixels are beyond what backend cuda takes in one call", a->op,
                 (long long)lines, (long long)columns);
    job->tiles_x = (uint32_t)tiles_x;
    job->by_tiles_x = snls_divisor(tiles_x);
    job->chunks = snls_divisor(chunks);
    *blocks = (unsigned)(tiles_x * tiles_y * chunks);
    return SNLS_OK;
}

/* ---- the operators ---- */

static SnlsStatus take(SnlsContext *ctx, const SnlsAggregate *a, const SnlsTensor *total)
{
    SNLS_TRY(snls_cuda_take_video(ctx, a->op, "value", &a->value));
    SNLS_TRY(snls_cuda_take_video(ctx, a->op, "out", &a->out));
    SNLS_TRY(snls_cuda_take_video(ctx, a->op, "total", total));
    SNLS_TRY(snls_cuda_take_numbers(ctx, a->op, "weight", &a->weight));
    return snls_cuda_take_numbers(ctx, a->op, "offset", &a->offset);
}

static SnlsStatus take_grads(SnlsContext *ctx, const char *op, const SnlsTensor *out, const SnlsTensor *value, const SnlsTensor *weight, const SnlsTensor *offset)
{
    SNLS_TRY(snls_cuda_take_video(ctx, op, "gradient of out", out));
    SNLS_TRY(snls_cuda_take_video(ctx, op, "gradient of value", value));
    SNLS_TRY(snls_cuda_take_numbers(ctx, op, "gradient of weight", weight));
    return snls_cuda_take_numbers(ctx, op, "gradient of offset", offset);
}

static SnlsStatus gather_forward(SnlsContext *ctx, const SnlsGather *s, bool stack)
{
    SnlsAggJob job;
    const SnlsAggregate a = snls_aggregate_of_gather(s, stack);
    SNLS_TRY(take(ctx, &a, &a.total));
    SNLS_TRY(snls_agg_job(ctx, &job, &a));
    job.from = s->value;
    job.to = s->out;
    bool done;
    SNLS_TRY(snls_agg_stack_forward(ctx, &job, &done));
    return done ? SNLS_OK : snls_agg_pull(ctx, &job);
}

static SnlsStatus gather_backward(SnlsContext *ctx, const SnlsGather *s, const SnlsGatherGrad *g, bool stack)
{
    SnlsAggJob job;
    SnlsAggregate a = snls_aggregate_of_gather(s, stack);
    a.out.data = NULL; /* not read, may not be there */
    SNLS_TRY(take(ctx, &a, &a.total));
    SNLS_TRY(take_grads(ctx, a.op, &g->out, &g->value, &g->weight, &g->offset));
    SNLS_TRY(snls_agg_job(ctx, &job, &a));
    job.from = s->value;
    job.to = g->out;
    job.by_weight = g->weight;
    job.by_offset = g->offset;
    bool done;
    SNLS_TRY(snls_agg_few_backward(ctx, &job, &g->value, &done));
    if (done) return SNLS_OK;
    if (g->weight.data || g->offset.data) SNLS_TRY(snls_agg_dots(ctx, &job));
    if (!g->value.data) return SNLS_OK;
    const SnlsTensor none = {};
    job.from = g->out;
    job.to = g->value;
    job.add = true;
    SNLS_TRY(snls_agg_stack_backward(ctx, &job, ctx->deterministic != 0, &done));
    return done ? SNLS_OK : snls_agg_spread(ctx, &job, &none, ctx->deterministic != 0);
}

extern "C" SnlsStatus snls_cuda_gather_forward(SnlsContext *ctx, const SnlsGather *s) { return gather_forward(ctx, s, true); }
extern "C" SnlsStatus snls_cuda_gather_add_forward(SnlsContext *ctx, const SnlsGatherAdd *s) { return gather_forward(ctx, s, false); }
extern "C" SnlsStatus snls_cuda_gather_backward(SnlsContext *ctx, const SnlsGather *s, const SnlsGatherGrad *g) { return gather_backward(ctx, s, g, true); }
extern "C" SnlsStatus snls_cuda_gather_add_backward(SnlsContext *ctx, const SnlsGatherAdd *s, const SnlsGatherAddGrad *g)
{
    return gather_backward(ctx, s, g, false);
}

extern "C" SnlsStatus snls_cuda_scatter_add_forward(SnlsContext *ctx, const SnlsScatterAdd *s)
{
    SnlsAggJob job;
    const SnlsAggregate a = snls_aggregate_of_scatter(s);
    SNLS_TRY(take(ctx, &a, &s->total));
    SNLS_TRY(snls_agg_job(ctx, &job, &a));
    job.from = s->value;
    job.to = s->out;
    return snls_agg_spread(ctx, &job, &s->total, true);
}

/* The weight that arrives is a video of one channel a head to which every destination gives 1. */
static SnlsStatus dots_of_total(SnlsContext *ctx, const SnlsAggregate *a, const SnlsScatterAddGrad *g)
{
    SnlsAggJob job;
    SnlsAggregate one = *a;
    one.features = 1;
    SNLS_TRY(snls_agg_job(ctx, &job, &one));
    job.from = g->total;
    job.by_weight = g->weight;
    job.by_offset = g->offset;
    return snls_agg_dots(ctx, &job);
}

extern "C" SnlsStatus snls_cuda_scatter_add_backward(SnlsContext *ctx, const SnlsScatterAdd *s, const SnlsScatterAddGrad *g)
{
    SnlsAggJob job;
    SnlsAggregate a = snls_aggregate_of_scatter(s);
    a.out.data = NULL; /* not read, may not be there */
    const bool dots = g->weight.data || g->offset.data;
    SNLS_TRY(take(ctx, &a, &g->total));
    SNLS_TRY(take_grads(ctx, a.op, &g->out, &g->value, &g->weight, &g->offset));
    SNLS_TRY(snls_agg_job(ctx, &job, &a));
    if (dots && g->total.data) SNLS_TRY(dots_of_total(ctx, &a, g));
    if (!g->out.data) return SNLS_OK;
    job.from = g->out;
    job.to = s->value;
    job.by_weight = g->weight;
    job.by_offset = g->offset;
    if (dots) SNLS_TRY(snls_agg_dots(ctx, &job));
    if (!g->value.data) return SNLS_OK;
    job.to = g->value;
    job.add = true;
    return snls_agg_pull(ctx, &job);
}
