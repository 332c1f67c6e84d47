/* pull.cu: every pixel of the output fetches what it is made of: to[y] = (1/c(y)) * sum over the queries whose patch covers y, and
 * their neighbours, of w * from[source]. One group of lanes owns a pixel (four channels a lane); in a stack it writes one layer
 * after another. Any patch, stride and layout; patch.cu is faster for its few. */
#include "cuda/aggregate.cuh"

/* One read of four taps: the lanes of a group compute one each, then all go through them. */
typedef struct __align__(16) PullTap {
    int64_t base, down, right; /* element of the first tap (channel 0 of the head), steps to the others */
    uint32_t flags, unused;    /* bit 2*a+b: tap (a, b) counts */
    float weight[4];           /* of the taps, times that of the neighbour */
} PullTap;

/* Link l of a pixel: neighbour l / (ps*ps), patch pixel l % (ps*ps) of the query whose patch has it over the owner. */
static __device__ __noinline__ PullTap find_tap(const SnlsAggJob *job, const SnlsAggOwner *o, uint32_t link)
{
    const SnlsAggregate *a = &job->a;
    PullTap tap;
    tap.flags = 0;
    const uint32_t k = snls_divide(link, job->links), cell = link - k * job->links.divisor, row = snls_divide(cell, job->side);
    const int64_t dy = a->dilation * ((int64_t)row - a->ps / 2), dx = a->dilation * ((int64_t)(cell - row * job->side.divisor) - a->ps / 2);
    const int64_t y = o->i - dy, x = o->j - dx; /* the query */
    if (!o->valid || k >= a->neighbours || y < 0 || y >= a->height || x < 0 || x >= a->width) return tap;
    const int64_t i = a->stride0 == 1 ? y : y / a->stride0, j = a->stride0 == 1 ? x : x / a->stride0;
    if (i * a->stride0 != y || j * a->stride0 != x) return tap;
    const SnlsNeighbour n = snls_neighbour(a, snls_at6(&a->offset, o->b, o->head, o->t, i, j, k), o->t, y, x);
    if (!n.valid) return tap;
    const SnlsAggAxis v = snls_agg_axis(n.y + (double)dy, a->height, a->drop), u = snls_agg_axis(n.x + (double)dx, a->width, a->drop);
    if (!v.inside || !u.inside) return tap;
    const float w = __ldg((const float *)a->weight.data + snls_at6(&a->weight, o->b, o->head, o->t, i, j, k));
    tap.base = snls_at5(&job->from, o->b, n.frame, v.at[0], u.at[0], o->head * a->features);
    tap.down = (v.at[1] - v.at[0]) * job->from.stride[2];
    tap.right = (u.at[1] - u.at[0]) * job->from.stride[3];
#pragma unroll
    for (int c = 0; c < 4; c++) {
        tap.weight[c] = v.weight[c / 2] * u.weight[c % 2] * w;
        tap.flags |= (uint32_t)(v.weight[c / 2] != 0 && u.weight[c % 2] != 0) << c;
    }
    return tap;
}

/* What a lane needs of a video: its channels. */
typedef struct Channels { int64_t first, step; int count; } Channels;

template <int DTYPE, bool VECTOR> static __device__ __forceinline__ void read_tap(float4 *sum, const void *data, const PullTap *tap, const Channels *c)
{
    const int64_t at = tap->base + c->first;
    if (tap->flags & 1) snls_agg_fma(sum, tap->weight[0], snls_agg_load4<DTYPE, VECTOR>(data, at, c->step, c->count));
    if (tap->flags & 2) snls_agg_fma(sum, tap->weight[1], snls_agg_load4<DTYPE, VECTOR>(data, at + tap->right, c->step, c->count));
    if (tap->flags & 4) snls_agg_fma(sum, tap->weight[2], snls_agg_load4<DTYPE, VECTOR>(data, at + tap->down, c->step, c->count));
    if (tap->flags & 8) snls_agg_fma(sum, tap->weight[3], snls_agg_load4<DTYPE, VECTOR>(data, at + tap->down + tap->right, c->step, c->count));
}

static __device__ __forceinline__ void store_sum(const SnlsAggJob *job, const SnlsAggOwner *o, int64_t k, int64_t first, int count, float cover, float4 sum)
{
    const SnlsAggregate *a = &job->a;
    if (!o->valid || !count) return;
    const int64_t step = snls_aggregate_out_step(a, &job->to);
    const int64_t at = snls_aggregate_out_at(a, &job->to, o->b, o->head, k, o->t, o->i, o->j) + first * step;
    const float by = cover > 0 ? cover : 1; /* under no patch: the sum is 0 */
    const float4 v = make_float4(sum.x / by, sum.y / by, sum.z / by, sum.w / by);
    snls_agg_store(&job->to, at, step, count, v, job->add);
}

template <int DTYPE, bool VECTOR> static __global__ void __launch_bounds__(SNLS_AGG_THREADS) pull_kernel(const __grid_constant__ SnlsAggJob job)
{
    __shared__ PullTap taps[SNLS_AGG_THREADS];
    const SnlsAggregate *a = &job.a;
    const SnlsAggOwner o = snls_agg_owner(&job, a->batch * a->heads * a->frames * a->height, (int32_t)a->width, job.height);
    const int lanes = 1 << job.lanes_log2;
    const int64_t first = 4 * ((int64_t)o.chunk * lanes + o.lane);
    const Channels c = {first * job.from.stride[4], job.from.stride[4], o.valid ? snls_agg_count(&job, first) : 0};
    const float cover = snls_agg_cover(a, o.i, a->height) * snls_agg_cover(a, o.j, a->width);
    const uint32_t links = (uint32_t)a->neighbours * job.links.divisor;
    const PullTap *group = taps + (threadIdx.x & ~(unsigned)(lanes - 1));
    float4 sum = make_float4(0, 0, 0, 0);
    uint32_t cell = 0, k = 0;
    for (uint32_t begin = 0; begin < links; begin += (uint32_t)lanes) {
        __syncwarp();
        taps[threadIdx.x] = find_tap(&job, &o, begin + (uint32_t)o.lane);
        __syncwarp();
        const int n = links - begin < (uint32_t)lanes ? (int)(links - begin) : lanes;
        for (int s = 0; s < n; s++) {
            if (c.count) read_tap<DTYPE, VECTOR>(&sum, job.from.data, &group[s], &c);
            if (!a->stack || ++cell < job.links.divisor) continue;
            store_sum(&job, &o, k, first, c.count, cover, sum);
            sum = make_float4(0, 0, 0, 0);
            cell = 0;
            k++;
        }
    }
    if (!a->stack) store_sum(&job, &o, 0, first, c.count, cover, sum);
}

SnlsStatus snls_agg_pull_patch(SnlsContext *ctx, const SnlsAggJob *job, bool *done);

SnlsStatus snls_agg_pull(SnlsContext *ctx, SnlsAggJob *job)
{
    const SnlsAggregate *a = &job->a;
    bool vector, done = false;
    unsigned blocks;
    SNLS_TRY(snls_agg_pull_patch(ctx, job, &done));
    if (done) return SNLS_OK;
    SNLS_TRY(snls_agg_lay_out(ctx, job, a->batch * a->heads * a->frames * a->height, a->width, true, &vector, &blocks));
#define LAUNCH(type) \
    if (vector) pull_kernel<type, true><<<blocks, SNLS_AGG_THREADS, 0, snls_cuda_stream(ctx)>>>(*job); \
    else pull_kernel<type, false><<<blocks, SNLS_AGG_THREADS, 0, snls_cuda_stream(ctx)>>>(*job)
    if (job->from.dtype == SNLS_F32) { LAUNCH(SNLS_F32); }
    else if (job->from.dtype == SNLS_F16) { LAUNCH(SNLS_F16); }
    else { LAUNCH(SNLS_BF16); }
#undef LAUNCH
    SNLS_CUDA_LAUNCHED(ctx, a->op);
    return SNLS_OK;
}
