/* dots_patch.cu: gradients by weight and offset for patches of three by three (dilation 1, channels side by side). The query's nine
 * destination pixels stay in registers; a neighbour's patch is 16 pixels of the source, each of which meets the destinations that
 * have it as one of their taps. What is summed are the four products s[a][b] of the destinations with their taps (a, b): weight
 * and slopes are combinations of them. */
#include "cuda/aggregate.cuh"

/* As in patch.cu; a patch inside may have any fraction here, since sums of taps that weigh 0 are left out at the end. Where the
 * query's own patch crosses the border every neighbour is odd. */
typedef enum DotKind { DOT_NONE, DOT_INSIDE, DOT_WHOLE, DOT_ODD } DotKind;

typedef struct __align__(16) DotPlace {
    double y, x;
    int64_t base; /* element of the patch's first pixel, channel 0 of the head */
    float fy, fx; /* folded */
    int32_t kind, frame, unused[2];
} DotPlace;

typedef struct Mine { float weight, slope_y, slope_x; bool valid; } Mine; /* what the neighbour's own lane keeps of it */
typedef struct Dots { float weight, y, x; } Dots;

enum { UNITS = sizeof(DotPlace) / sizeof(float4) };

static __device__ __forceinline__ void find_place(const SnlsAggJob *job, const SnlsAggOwner *o, int32_t k, DotPlace *p, Mine *mine)
{
    const SnlsAggregate *a = &job->a;
    const int32_t height = (int32_t)a->height, width = (int32_t)a->width, qy = o->i * (int32_t)a->stride0, qx = o->j * (int32_t)a->stride0;
    SnlsAggNear n;
    p->kind = DOT_NONE;
    mine->valid = false;
    if (!o->valid || k >= a->neighbours || !snls_agg_near(job, snls_agg_at(&a->offset, o->offsets, o->i, o->j, k), o->t, qy, qx, &n)) return;
    const int32_t y = (int32_t)n.y, x = (int32_t)n.x;
    const float fy = snls_agg_fold(n.y - (double)y), fx = snls_agg_fold(n.x - (double)x);
    mine->valid = true;
    mine->weight = snls_agg_weight(job, snls_agg_at(&a->weight, o->weights, o->i, o->j, k));
    mine->slope_y = n.slope_y;
    mine->slope_x = n.slope_x;
    p->y = n.y;
    p->x = n.x;
    p->frame = n.frame;
    p->fy = fy;
    p->fx = fx;
    p->base = o->from + n.frame * job->from.stride[1] + (y - 1) * job->from.stride[2] + (x - 1) * job->from.stride[3];
    const bool own = qy >= 1 && qy + 1 < height && qx >= 1 && qx + 1 < width;
    const bool nine = own && y >= 1 && y + 1 < height && x >= 1 && x + 1 < width, sixteen = nine && y + 2 < height && x + 2 < width;
    p->kind = !job->by_offset.data && fy == 0 && fx == 0 && nine ? DOT_WHOLE : sixteen ? DOT_INSIDE : DOT_ODD;
}

/* Four channels of a destination pixel, divided by its cover. */
static __device__ __forceinline__ float4 load_pixel(const SnlsAggJob *job, const SnlsAggOwner *o, int32_t k, int32_t y, int32_t x, int32_t first)
{
    const SnlsAggregate *a = &job->a;
    const int64_t *const by_axis = job->to.stride + (a->stack ? 3 : 1); /* of frames, rows, columns */
    const int64_t at = o->to + (a->stack ? k * job->to.stride[2] : 0) + o->t * by_axis[0] + y * by_axis[1] + x * by_axis[2] + first;
    const float by = 1 / (snls_agg_cover(a, y, (int32_t)a->height) * snls_agg_cover(a, x, (int32_t)a->width));
    const float4 v = snls_agg_load_any<true>(&job->to, at, 1, 4);
    return make_float4(v.x * by, v.y * by, v.z * by, v.w * by);
}

/* The nine of a query; 0 outside the frame, where nobody looks at them. */
static __device__ __forceinline__ void load_patch(float4 g[3][3], const SnlsAggJob *job, const SnlsAggOwner *o, int32_t k, int32_t first)
{
    const SnlsAggregate *a = &job->a;
#pragma unroll
    for (int r = 0; r < 3; r++)
#pragma unroll
        for (int c = 0; c < 3; c++) {
            const int32_t y = o->i * (int32_t)a->stride0 + r - 1, x = o->j * (int32_t)a->stride0 + c - 1;
            const bool there = o->valid && y >= 0 && y < a->height && x >= 0 && x < a->width;
            g[r][c] = there ? load_pixel(job, o, k, y, x, first) : make_float4(0, 0, 0, 0);
        }
}

static __device__ __forceinline__ void combine(Dots *d, const float s[4], const float wy[2], const float wx[2], float slope_y, float slope_x)
{
    d->weight += (wy[0] != 0 && wx[0] != 0 ? wy[0] * wx[0] * s[0] : 0) + (wy[0] != 0 && wx[1] != 0 ? wy[0] * wx[1] * s[1] : 0) +
                 (wy[1] != 0 && wx[0] != 0 ? wy[1] * wx[0] * s[2] : 0) + (wy[1] != 0 && wx[1] != 0 ? wy[1] * wx[1] * s[3] : 0);
    d->y += slope_y * ((wx[0] != 0 ? wx[0] * (s[2] - s[0]) : 0) + (wx[1] != 0 ? wx[1] * (s[3] - s[1]) : 0));
    d->x += slope_x * ((wy[0] != 0 ? wy[0] * (s[1] - s[0]) : 0) + (wy[1] != 0 ? wy[1] * (s[3] - s[2]) : 0));
}

template <int DTYPE>
static __device__ __forceinline__ void dot_inside(Dots *d, const SnlsAggJob *job, const DotPlace *p, const float4 g[3][3], int32_t first)
{
    int64_t at = p->base + first;
    float s[4] = {0, 0, 0, 0};
#pragma unroll
    for (int r = 0; r < 4; r++, at += job->from.stride[2])
#pragma unroll
        for (int c = 0; c < 4; c++) {
            const float4 v = snls_agg_load4<DTYPE, true>(job->from.data, at + c * job->from.stride[3], 1, 4);
            if (r < 3 && c < 3) s[0] = snls_agg_dot(g[r % 3][c % 3], v, s[0]);
            if (r < 3 && c > 0) s[1] = snls_agg_dot(g[r % 3][(c + 2) % 3], v, s[1]);
            if (r > 0 && c < 3) s[2] = snls_agg_dot(g[(r + 2) % 3][c % 3], v, s[2]);
            if (r > 0 && c > 0) s[3] = snls_agg_dot(g[(r + 2) % 3][(c + 2) % 3], v, s[3]);
        }
    const float wy[2] = {snls_agg_low(p->fy), snls_agg_high(p->fy)}, wx[2] = {snls_agg_low(p->fx), snls_agg_high(p->fx)};
    combine(d, s, wy, wx, 1, 1);
}

template <int DTYPE>
static __device__ __forceinline__ void dot_whole(Dots *d, const SnlsAggJob *job, const DotPlace *p, const float4 g[3][3], int32_t first)
{
    int64_t at = p->base + first;
#pragma unroll
    for (int r = 0; r < 3; r++, at += job->from.stride[2])
#pragma unroll
        for (int c = 0; c < 3; c++)
            d->weight = snls_agg_dot(g[r][c], snls_agg_load4<DTYPE, true>(job->from.data, at + c * job->from.stride[3], 1, 4), d->weight);
}

/* One pixel by the rules: destination g against place (y, x) of the frame that begins at element `frame`. Apart, so that what it
 * needs does not crowd the registers of the usual case. */
typedef struct OddFrame { const void *data; int64_t down, right; int32_t height, width; bool drop; } OddFrame;

template <int DTYPE> static __device__ __noinline__ Dots odd_pixel(OddFrame f, int64_t frame, double y, double x, float4 g)
{
    const SnlsAggAxis v = snls_agg_axis(y, f.height, f.drop), u = snls_agg_axis(x, f.width, f.drop);
    Dots d = {0, 0, 0};
    if (!v.inside || !u.inside) return d;
    float s[4];
#pragma unroll
    for (int tap = 0; tap < 4; tap++)
        s[tap] = snls_agg_dot(g, snls_agg_load4<DTYPE, true>(f.data, frame + v.at[tap / 2] * f.down + u.at[tap % 2] * f.right, 1, 4), 0);
    combine(&d, s, v.weight, u.weight, v.slope, u.slope);
    return d;
}

template <int DTYPE>
static __device__ __forceinline__ void dot_odd(Dots *d, const SnlsAggJob *job, const SnlsAggOwner *o, const DotPlace *p, int32_t k, int32_t first)
{
    const SnlsAggregate *a = &job->a;
    const OddFrame f = {job->from.data, job->from.stride[2], job->from.stride[3], (int32_t)a->height, (int32_t)a->width, a->drop};
    const int64_t frame = o->from + p->frame * job->from.stride[1] + first;
#pragma unroll 1
    for (int cell = 0; cell < 9; cell++) {
        const int32_t dy = cell / 3 - 1, dx = cell % 3 - 1, y = o->i * (int32_t)a->stride0 + dy, x = o->j * (int32_t)a->stride0 + dx;
        if (y < 0 || y >= a->height || x < 0 || x >= a->width) continue;
        const Dots one = odd_pixel<DTYPE>(f, frame, p->y + dy, p->x + dx, load_pixel(job, o, k, y, x, first));
        d->weight += one.weight;
        d->y += one.y;
        d->x += one.x;
    }
}

static __device__ __forceinline__ void store_dots(const SnlsAggJob *job, const SnlsAggOwner *o, int64_t k, const Mine *mine, const Dots *d)
{
    if (!mine->valid) return;
    if (job->by_weight.data) ((float *)job->by_weight.data)[snls_at6(&job->by_weight, o->b, o->head, o->t, o->i, o->j, k)] += d->weight;
    if (!job->by_offset.data) return;
    float *const to = (float *)job->by_offset.data + snls_at6(&job->by_offset, o->b, o->head, o->t, o->i, o->j, k);
    to[job->by_offset.stride[6]] += mine->weight * mine->slope_y * d->y;
    to[2 * job->by_offset.stride[6]] += mine->weight * mine->slope_x * d->x;
}

template <int DTYPE, bool STACK>
static __global__ void __launch_bounds__(SNLS_AGG_THREADS, 2) dots_patch_kernel(const __grid_constant__ SnlsAggJob job)
{
    __shared__ float4 shared[SNLS_AGG_SHARED(UNITS)];
    const SnlsAggregate *a = &job.a;
    SnlsAggOwner o = snls_agg_owner(&job, a->batch * a->heads * a->frames * a->rows, (int32_t)a->columns, job.rows);
    snls_agg_bases(&job, &o);
    const int lanes = 1 << job.lanes_log2;
    const int32_t all = (int32_t)a->neighbours, features = (int32_t)a->features;
    DotPlace *const group = (DotPlace *)snls_agg_records(shared, job.lanes_log2, UNITS);
    for (int32_t begin = 0; begin < all; begin += lanes) {
        Mine mine;
        Dots own = {0, 0, 0};
        __syncwarp();
        find_place(&job, &o, begin + o.lane, &group[o.lane], &mine);
        __syncwarp();
        const int n = min(all - begin, lanes);
        for (int32_t chunk = 0; chunk < features; chunk += 4 * lanes) {
            const int32_t first = chunk + 4 * o.lane;
            const bool has = first < features;
            float4 g[3][3];
            if (!STACK && has) load_patch(g, &job, &o, 0, first);
            for (int s = 0; s < n; s++) {
                const DotPlace *p = &group[s];
                Dots d = {0, 0, 0};
                if (STACK && has && p->kind != DOT_NONE) load_patch(g, &job, &o, begin + s, first);
                if (has && p->kind == DOT_INSIDE) dot_inside<DTYPE>(&d, &job, p, g, first);
                else if (has && p->kind == DOT_WHOLE) dot_whole<DTYPE>(&d, &job, p, g, first);
                else if (has && p->kind == DOT_ODD) dot_odd<DTYPE>(&d, &job, &o, p, begin + s, first);
                __syncwarp();
                d.weight = snls_agg_group_sum(d.weight, lanes);
                d.y = snls_agg_group_sum(d.y, lanes);
                d.x = snls_agg_group_sum(d.x, lanes);
                if (s == o.lane) { own.weight += d.weight; own.y += d.y; own.x += d.x; }
            }
        }
        store_dots(&job, &o, begin + o.lane, &mine, &own);
    }
}

SnlsStatus snls_agg_dots_patch(SnlsContext *ctx, SnlsAggJob *job, bool *done)
{
    const SnlsAggregate *a = &job->a;
    bool vector;
    unsigned blocks;
    *done = a->ps == 3 && a->dilation == 1 && job->to_vector && snls_agg_is_vector(a, &job->from, false);
    if (!*done) return SNLS_OK;
    SNLS_TRY(snls_agg_lay_out(ctx, job, a->batch * a->heads * a->frames * a->rows, a->columns, false, &vector, &blocks));
#define LAUNCH(type) \
    if (a->stack) dots_patch_kernel<type, true><<<blocks, SNLS_AGG_THREADS, 0, snls_cuda_stream(ctx)>>>(*job); \
    else dots_patch_kernel<type, false><<<blocks, SNLS_AGG_THREADS, 0, snls_cuda_stream(ctx)>>>(*job)
    if (job->from.dtype == SNLS_F32) { LAUNCH(SNLS_F32); }
    else if (job->from.dtype == SNLS_F16) { LAUNCH(SNLS_F16); }
    else { LAUNCH(SNLS_BF16); }
#undef LAUNCH
    SNLS_CUDA_LAUNCHED(ctx, a->op);
    return SNLS_OK;
}
