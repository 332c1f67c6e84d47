/* pull.cu: every pixel of the output fetches what it is made of: to[y] = (1/c(y)) * sum over the queries whose patch covers y, and
 * their neighbours, of w * from[source]. One group of lanes owns a pixel (four channels a lane); in a stack it writes one layer
 * after another. Any patch, stride and layout; patch.cu is faster for its few. */
#include "cuda/aggregate.cuh"

/* One read of four taps: the lanes of a group compute one each, then all go through them. */
typedef struct __align__(16) PullTap {
    int64_t base, down, right; /* element of the first tap (channel 0 of the head), steps to the others */
    uint32_t flags;            /* bit 2*a+b: tap (a, b) counts */
    float infinite;            /* weight of the neighbour where it is infinite: a factor of the read, not of the taps; else 0 */
    float weight[4];           /* of the taps, times that of the neighbour where it is finite */
} PullTap;
enum { UNITS = sizeof(PullTap) / sizeof(float4) };

/* Link l of a pixel: neighbour l / (ps*ps), patch pixel l % (ps*ps) of the query whose patch has it over the owner. */
static __device__ __forceinline__ void find_tap(const SnlsAggJob *job, const SnlsAggOwner *o, uint32_t link, PullTap *tap)
{
    const SnlsAggregate *a = &job->a;
    const int32_t ps = (int32_t)a->ps, height = (int32_t)a->height, width = (int32_t)a->width, stride0 = (int32_t)a->stride0;
    const uint32_t k = snls_divide(link, job->links), cell = link - k * job->links.divisor, row = snls_divide(cell, job->side);
    const int32_t dy = (int32_t)a->dilation * ((int32_t)row - ps / 2), dx = (int32_t)a->dilation * ((int32_t)(cell - row * job->side.divisor) - ps / 2);
    const int32_t y = o->i - dy, x = o->j - dx; /* the query */
    tap->flags = 0;
    if (!o->valid || k >= (uint32_t)a->neighbours || y < 0 || y >= height || x < 0 || x >= width) return;
    const int32_t i = stride0 == 1 ? y : y / stride0, j = stride0 == 1 ? x : x / stride0;
    SnlsAggNear n;
    if (i * stride0 != y || j * stride0 != x || !snls_agg_near(job, snls_agg_at(&a->offset, o->offsets, i, j, (int32_t)k), o->t, y, x, &n)) return;
    const SnlsAggAxis v = snls_agg_axis(n.y + (double)dy, height, a->drop), u = snls_agg_axis(n.x + (double)dx, width, a->drop);
    if (!v.inside || !u.inside) return;
    const float w = snls_agg_weight(job, snls_agg_at(&a->weight, o->weights, i, j, (int32_t)k));
    tap->base = o->from + n.frame * job->from.stride[1] + v.at[0] * job->from.stride[2] + u.at[0] * job->from.stride[3];
    tap->down = (v.at[1] - v.at[0]) * job->from.stride[2];
    tap->right = (u.at[1] - u.at[0]) * job->from.stride[3];
    uint32_t flags = 0;
    tap->infinite = isinf(w) ? w : 0;
#pragma unroll
    for (int c = 0; c < 4; c++) {
        tap->weight[c] = v.weight[c / 2] * u.weight[c % 2] * (isinf(w) ? 1 : w);
        flags |= (uint32_t)(v.weight[c / 2] != 0 && u.weight[c % 2] != 0) << c;
    }
    tap->flags = flags;
}

/* What a lane needs of a video: its channels. */
typedef struct Channels { int64_t first, step; int count; } Channels;

template <int DTYPE, bool VECTOR> static __device__ __forceinline__ void read_tap(float4 *sum, const void *data, const PullTap *tap, const Channels *c)
{
    const PullTap t = *tap;
    const int64_t at = t.base + c->first;
    float4 v[4];
#pragma unroll
    for (int i = 0; i < 4; i++) { /* all loads before the first sum */
        const int64_t place = at + (i / 2 ? t.down : 0) + (i % 2 ? t.right : 0);
        v[i] = make_float4(0, 0, 0, 0);
        if (t.flags >> i & 1) v[i] = snls_agg_load4<DTYPE, VECTOR>(data, place, c->step, c->count);
    }
    if (t.infinite != 0) {
        float4 read = make_float4(0, 0, 0, 0);
        for (int i = 0; i < 4; i++)
            if (t.flags >> i & 1) snls_agg_fma(&read, t.weight[i], v[i]);
        if (t.flags) snls_agg_fma(sum, t.infinite, read);
        return;
    }
#pragma unroll
    for (int i = 0; i < 4; i++)
        if (t.flags >> i & 1) snls_agg_fma(sum, t.weight[i], v[i]);
}

static __device__ __forceinline__ void store_sum(const SnlsAggJob *job, const SnlsAggOwner *o, int64_t k, int64_t first, int count, float cover, float4 sum)
{
    const SnlsAggregate *a = &job->a;
    if (!o->valid || !count) return;
    const int64_t step = snls_aggregate_out_step(a, &job->to);
    const int64_t *const by_axis = job->to.stride + (a->stack ? 3 : 1); /* of frames, rows, columns */
    const int64_t at = o->to + (a->stack ? k * job->to.stride[2] : 0) + o->t * by_axis[0] + o->i * by_axis[1] + o->j * by_axis[2] + first * step;
    const float by = cover > 0 ? cover : 1; /* under no patch: the sum is 0 */
    const float4 v = make_float4(sum.x / by, sum.y / by, sum.z / by, sum.w / by);
    snls_agg_store(&job->to, at, step, count, v, job->add);
}

template <int DTYPE, bool VECTOR> static __global__ void __launch_bounds__(SNLS_AGG_THREADS) pull_kernel(const __grid_constant__ SnlsAggJob job)
{
    __shared__ float4 shared[SNLS_AGG_SHARED(UNITS)];
    const SnlsAggregate *a = &job.a;
    SnlsAggOwner o = snls_agg_owner(&job, a->batch * a->heads * a->frames * a->height, (int32_t)a->width, job.height);
    snls_agg_bases(&job, &o);
    const int lanes = 1 << job.lanes_log2;
    const int64_t first = 4 * ((int64_t)o.chunk * lanes + o.lane);
    const Channels c = {first * job.from.stride[4], job.from.stride[4], o.valid ? snls_agg_count(&job, first) : 0};
    const float cover = snls_agg_cover(a, o.i, (int32_t)a->height) * snls_agg_cover(a, o.j, (int32_t)a->width);
    const uint32_t links = (uint32_t)a->neighbours * job.links.divisor;
    PullTap *const group = (PullTap *)snls_agg_records(shared, job.lanes_log2, UNITS);
    float4 sum = make_float4(0, 0, 0, 0);
    uint32_t cell = 0, k = 0;
    for (uint32_t begin = 0; begin < links; begin += (uint32_t)lanes) {
        __syncwarp();
        find_tap(&job, &o, begin + (uint32_t)o.lane, &group[o.lane]);
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
