/* dots.cu: gradients by weight and offset: for each neighbour of each query the products of the destination's channels with the
 * source's, summed over the patch: by weight sum(g * v), by offset w * sum(g * slope of v). A group of lanes owns a query; the
 * neighbour's three sums are added over its lanes at the end. Any patch, stride and layout; dots_patch.cu is faster for its few. */
#include "cuda/aggregate.cuh"

typedef struct __align__(16) DotTap {
    int64_t base, down, right;    /* at the source */
    int64_t destination;
    float wy[2], wx[2];           /* of the taps */
    float scale;                  /* 1 / cover */
    float slope_y, slope_x;       /* scale, weight and the signs of both reflections */
    uint32_t valid;
} DotTap;

enum { UNITS = sizeof(DotTap) / sizeof(float4) };

/* Link l of a query: neighbour l / (ps*ps), patch pixel l % (ps*ps). */
static __device__ __forceinline__ void find_tap(const SnlsAggJob *job, const SnlsAggOwner *o, uint32_t link, DotTap *tap)
{
    const SnlsAggregate *a = &job->a;
    const int32_t ps = (int32_t)a->ps, height = (int32_t)a->height, width = (int32_t)a->width;
    const uint32_t k = snls_divide(link, job->links), cell = link - k * job->links.divisor, row = snls_divide(cell, job->side);
    const int32_t dy = (int32_t)a->dilation * ((int32_t)row - ps / 2), dx = (int32_t)a->dilation * ((int32_t)(cell - row * job->side.divisor) - ps / 2);
    const int32_t qy = o->i * (int32_t)a->stride0, qx = o->j * (int32_t)a->stride0, y = qy + dy, x = qx + dx;
    SnlsAggNear n;
    tap->valid = 0;
    if (!o->valid || k >= (uint32_t)a->neighbours || y < 0 || y >= height || x < 0 || x >= width) return;
    if (!snls_agg_near(job, snls_agg_at(&a->offset, o->offsets, o->i, o->j, (int32_t)k), o->t, qy, qx, &n)) return;
    const SnlsAggAxis v = snls_agg_axis(n.y + (double)dy, height, a->drop), u = snls_agg_axis(n.x + (double)dx, width, a->drop);
    if (!v.inside || !u.inside) return;
    const float w = snls_agg_weight(job, snls_agg_at(&a->weight, o->weights, o->i, o->j, (int32_t)k));
    const int64_t *const by_axis = job->to.stride + (a->stack ? 3 : 1); /* of frames, rows, columns */
    tap->base = o->from + n.frame * job->from.stride[1] + v.at[0] * job->from.stride[2] + u.at[0] * job->from.stride[3];
    tap->down = (v.at[1] - v.at[0]) * job->from.stride[2];
    tap->right = (u.at[1] - u.at[0]) * job->from.stride[3];
    tap->destination = o->to + (a->stack ? k * job->to.stride[2] : 0) + o->t * by_axis[0] + y * by_axis[1] + x * by_axis[2];
    for (int c = 0; c < 2; c++) {
        tap->wy[c] = v.weight[c];
        tap->wx[c] = u.weight[c];
    }
    const float scale = 1 / (snls_agg_cover(a, y, height) * snls_agg_cover(a, x, width));
    tap->scale = scale;
    tap->slope_y = scale * w * n.slope_y * v.slope;
    tap->slope_x = scale * w * n.slope_x * u.slope;
    tap->valid = 1;
}

typedef struct Dots { float weight, y, x; } Dots;

/* Four channels of one tap, into the lane's sums. A tap of weight 0 counts for the slope alone. */
template <int DTYPE, bool VECTOR>
static __device__ __forceinline__ void add_channels(Dots *d, const SnlsAggJob *job, const DotTap *tap, int64_t first, int count)
{
    const int64_t to_step = snls_aggregate_out_step(&job->a, &job->to), step = job->from.stride[4], at = tap->base + first * step;
    const bool up = tap->wy[0] != 0, low = tap->wy[1] != 0, left = tap->wx[0] != 0, right = tap->wx[1] != 0;
    const bool slopes = job->by_offset.data != NULL;
    float4 g = make_float4(1, 1, 1, 1);
    if (job->to_vector) g = snls_agg_load_any<true>(&job->to, tap->destination + first, 1, 4);
    else if (job->to.data) g = snls_agg_load_any<false>(&job->to, tap->destination + first * to_step, to_step, count);
    float s[4] = {0, 0, 0, 0};
    if (up || left) s[0] = snls_agg_dot(g, snls_agg_load4<DTYPE, VECTOR>(job->from.data, at, step, count), 0);
    if ((slopes && up) || right) s[1] = snls_agg_dot(g, snls_agg_load4<DTYPE, VECTOR>(job->from.data, at + tap->right, step, count), 0);
    if ((slopes && left) || low) s[2] = snls_agg_dot(g, snls_agg_load4<DTYPE, VECTOR>(job->from.data, at + tap->down, step, count), 0);
    if (low || right) s[3] = snls_agg_dot(g, snls_agg_load4<DTYPE, VECTOR>(job->from.data, at + tap->down + tap->right, step, count), 0);
    const float *wy = tap->wy, *wx = tap->wx;
    if (up && left) d->weight = fmaf(tap->scale * wy[0] * wx[0], s[0], d->weight);
    if (up && right) d->weight = fmaf(tap->scale * wy[0] * wx[1], s[1], d->weight);
    if (low && left) d->weight = fmaf(tap->scale * wy[1] * wx[0], s[2], d->weight);
    if (low && right) d->weight = fmaf(tap->scale * wy[1] * wx[1], s[3], d->weight);
    if (!slopes) return;
    if (left) d->y = fmaf(tap->slope_y * wx[0], s[2] - s[0], d->y);
    if (right) d->y = fmaf(tap->slope_y * wx[1], s[3] - s[1], d->y);
    if (up) d->x = fmaf(tap->slope_x * wy[0], s[1] - s[0], d->x);
    if (low) d->x = fmaf(tap->slope_x * wy[1], s[3] - s[2], d->x);
}

static __device__ __forceinline__ void store_dots(const SnlsAggJob *job, const SnlsAggOwner *o, int64_t k, const Dots *d)
{
    if (job->by_weight.data) ((float *)job->by_weight.data)[snls_at6(&job->by_weight, o->b, o->head, o->t, o->i, o->j, k)] += d->weight;
    if (!job->by_offset.data) return;
    float *const to = (float *)job->by_offset.data + snls_at6(&job->by_offset, o->b, o->head, o->t, o->i, o->j, k);
    to[job->by_offset.stride[6]] += d->y;
    to[2 * job->by_offset.stride[6]] += d->x;
}

template <int DTYPE, bool VECTOR> static __global__ void __launch_bounds__(SNLS_AGG_THREADS) dots_kernel(const __grid_constant__ SnlsAggJob job)
{
    __shared__ float4 shared[SNLS_AGG_SHARED(UNITS)];
    const SnlsAggregate *a = &job.a;
    SnlsAggOwner o = snls_agg_owner(&job, a->batch * a->heads * a->frames * a->rows, (int32_t)a->columns, job.rows);
    snls_agg_bases(&job, &o);
    const int lanes = 1 << job.lanes_log2;
    const uint32_t links = (uint32_t)a->neighbours * job.links.divisor;
    DotTap *const group = (DotTap *)snls_agg_records(shared, job.lanes_log2, UNITS);
    Dots d = {0, 0, 0};
    uint32_t cell = 0, k = 0;
    for (uint32_t begin = 0; begin < links; begin += (uint32_t)lanes) {
        __syncwarp();
        find_tap(&job, &o, begin + (uint32_t)o.lane, &group[o.lane]);
        __syncwarp();
        const int n = links - begin < (uint32_t)lanes ? (int)(links - begin) : lanes;
        for (int s = 0; s < n; s++) {
            if (group[s].valid)
                for (int32_t first = 4 * o.lane; first < (int32_t)a->features; first += 4 * lanes)
                    add_channels<DTYPE, VECTOR>(&d, &job, &group[s], first, snls_agg_count(&job, first));
            if (++cell < job.links.divisor) continue;
            d.weight = snls_agg_group_sum(d.weight, lanes);
            d.y = snls_agg_group_sum(d.y, lanes);
            d.x = snls_agg_group_sum(d.x, lanes);
            if (o.valid && o.lane == 0) store_dots(&job, &o, k, &d);
            d.weight = d.y = d.x = 0;
            cell = 0;
            k++;
        }
    }
}

SnlsStatus snls_agg_dots_patch(SnlsContext *ctx, SnlsAggJob *job, bool *done);

SnlsStatus snls_agg_dots(SnlsContext *ctx, SnlsAggJob *job)
{
    const SnlsAggregate *a = &job->a;
    bool vector, done = false;
    unsigned blocks;
    job->to_vector = job->to.data && snls_agg_is_vector(a, &job->to, a->stack);
    SNLS_TRY(snls_agg_dots_patch(ctx, job, &done));
    if (done) return SNLS_OK;
    SNLS_TRY(snls_agg_lay_out(ctx, job, a->batch * a->heads * a->frames * a->rows, a->columns, false, &vector, &blocks));
#define LAUNCH(type) \
    if (vector) dots_kernel<type, true><<<blocks, SNLS_AGG_THREADS, 0, snls_cuda_stream(ctx)>>>(*job); \
    else dots_kernel<type, false><<<blocks, SNLS_AGG_THREADS, 0, snls_cuda_stream(ctx)>>>(*job)
    SNLS_AGG_BY_TYPE(job->from.dtype, LAUNCH);
#undef LAUNCH
    SNLS_CUDA_LAUNCHED(ctx, a->op);
    return SNLS_OK;
}
