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

/* One pixel a patch and a query a pixel: nothing to look for, and a place that is reflected already. */
static __device__ __forceinline__ SnlsAggAxis axis_at(double z, int32_t n)
{
    const int32_t i = (int32_t)z;
    const double f = z - (double)i;
    const SnlsAggAxis r = {{i, i + 1 < n ? i + 1 : n > 1 ? n - 2 : 0}, {(float)(1 - f), (float)f}, 0, true};
    return r;
}

static __device__ __forceinline__ void set_tap(const SnlsAggJob *job, const SnlsAggOwner *o, int32_t frame, const SnlsAggAxis *v, const SnlsAggAxis *u, float w, PullTap *tap)
{
    uint32_t flags = 0;
    tap->base = o->from + frame * job->from.stride[1] + v->at[0] * job->from.stride[2] + u->at[0] * job->from.stride[3];
    tap->down = (v->at[1] - v->at[0]) * job->from.stride[2];
    tap->right = (u->at[1] - u->at[0]) * job->from.stride[3];
    tap->infinite = isinf(w) ? w : 0;
#pragma unroll
    for (int c = 0; c < 4; c++) {
        tap->weight[c] = v->weight[c / 2] * u->weight[c % 2] * (isinf(w) ? 1 : w);
        flags |= (uint32_t)(v->weight[c / 2] != 0 && u->weight[c % 2] != 0) << c;
    }
    tap->flags = flags;
}

static __device__ __forceinline__ void find_single(const SnlsAggJob *job, const SnlsAggOwner *o, int32_t k, PullTap *tap)
{
    const SnlsAggregate *a = &job->a;
    SnlsAggNear n;
    tap->flags = 0;
    if (!o->valid || k >= (int32_t)a->neighbours || !snls_agg_near(job, snls_agg_at(&a->offset, o->offsets, o->i, o->j, k), o->t, o->i, o->j, &n)) return;
    const SnlsAggAxis v = axis_at(n.y, (int32_t)a->height), u = axis_at(n.x, (int32_t)a->width);
    set_tap(job, o, n.frame, &v, &u, snls_agg_weight(job, snls_agg_at(&a->weight, o->weights, o->i, o->j, k)), tap);
}

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
    set_tap(job, o, n.frame, &v, &u, snls_agg_weight(job, snls_agg_at(&a->weight, o->weights, i, j, (int32_t)k)), tap);
}

/* What a lane needs of a video: its channels. */
typedef struct Channels { int64_t first, step; int count; } Channels;

template <int DTYPE, bool VECTOR> static __device__ __forceinline__ void read_tap(float4 *sum, const void *data, const PullTap *tap, const Channels *c)
{
    const PullTap t = *tap;
    const int64_t at = t.base + c->first;
    float4 v[4]; /* what is not read is not used */
#pragma unroll
    for (int i = 0; i < 4; i++) { /* all loads before the first sum */
        const int64_t place = at + (i / 2 ? t.down : 0) + (i % 2 ? t.right : 0);
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

static __device__ __forceinline__ void store_sum(const SnlsAggJob *job, int64_t at, int64_t step, int count, float cover, float4 sum)
{
    if (!count) return;
    if (cover > 1) sum = make_float4(sum.x / cover, sum.y / cover, sum.z / cover, sum.w / cover); /* under no patch: 0 */
    snls_agg_store(&job->to, at, step, count, sum, job->add);
}

template <int DTYPE, bool VECTOR, bool SINGLE> static __global__ void __launch_bounds__(SNLS_AGG_THREADS, SINGLE ? 4 : 3) pull_kernel(const __grid_constant__ SnlsAggJob job)
{
    __shared__ float4 shared[SNLS_AGG_SHARED(UNITS)];
    const SnlsAggregate *a = &job.a;
    SnlsAggOwner o = snls_agg_owner(&job, a->batch * a->heads * a->frames * a->height, (int32_t)a->width, job.height);
    snls_agg_bases(&job, &o);
    const int lanes = 1 << job.lanes_log2;
    const int64_t first = 4 * ((int64_t)o.chunk * lanes + o.lane), to_step = snls_aggregate_out_step(a, &job.to);
    const int64_t *const by_axis = job.to.stride + (a->stack ? 3 : 1); /* of frames, rows, columns */
    const Channels c = {first * job.from.stride[4], job.from.stride[4], o.valid ? snls_agg_count(&job, first) : 0};
    const float cover = SINGLE ? 1 : snls_agg_cover(a, o.i, (int32_t)a->height) * snls_agg_cover(a, o.j, (int32_t)a->width);
    const uint32_t links = (uint32_t)a->neighbours * job.links.divisor;
    PullTap *const group = (PullTap *)snls_agg_records(shared, job.lanes_log2, UNITS);
    int64_t at = o.to + o.t * by_axis[0] + o.i * by_axis[1] + o.j * by_axis[2] + first * to_step;
    float4 sum = make_float4(0, 0, 0, 0);
    uint32_t cell = 0;
    for (uint32_t begin = 0; begin < links; begin += (uint32_t)lanes) {
        __syncwarp();
        if (SINGLE) find_single(&job, &o, (int32_t)begin + o.lane, &group[o.lane]);
        else find_tap(&job, &o, begin + (uint32_t)o.lane, &group[o.lane]);
        __syncwarp();
        const int n = (int)min(links - begin, (uint32_t)lanes);
        for (int s = 0; s < n; s++) {
            if (c.count) read_tap<DTYPE, VECTOR>(&sum, job.from.data, &group[s], &c);
            if (!a->stack || (!SINGLE && ++cell < job.links.divisor)) continue;
            store_sum(&job, at, to_step, c.count, cover, sum);
            sum = make_float4(0, 0, 0, 0);
            cell = 0;
            at += job.to.stride[2];
        }
    }
    if (!a->stack) store_sum(&job, at, to_step, c.count, cover, sum);
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
    const bool single = a->ps == 1 && a->stride0 == 1;
#define LAUNCH(type) \
    if (vector && single) pull_kernel<type, true, true><<<blocks, SNLS_AGG_THREADS, 0, snls_cuda_stream(ctx)>>>(*job); \
    else if (vector) pull_kernel<type, true, false><<<blocks, SNLS_AGG_THREADS, 0, snls_cuda_stream(ctx)>>>(*job); \
    else pull_kernel<type, false, false><<<blocks, SNLS_AGG_THREADS, 0, snls_cuda_stream(ctx)>>>(*job)
    SNLS_AGG_BY_TYPE(job->from.dtype, LAUNCH);
#undef LAUNCH
    SNLS_CUDA_LAUNCHED(ctx, a->op);
    return SNLS_OK;
}
