/* dots_patch.cu: gradients by weight and offset for patches of one pixel or three by three (PS; dilation 1, channels side by side). The
 * query's destination pixels stay in registers; a neighbour's patch is (PS+1)^2 pixels of the source, each of which meets the
 * destinations that have it as one of their taps. What is summed are the four products s[a][b] of the destinations with their taps (a, b): weight
 * and slopes are combinations of them. */
#include "cuda/aggregate.cuh"

/* As in patch.cu; a patch inside may have any fraction here, since sums of taps that weigh 0 are left out at the end. EDGE: the
 * neighbour's patch or the query's own crosses the border. There the slope at a whole place is that of the reflected side: odd. */
typedef enum DotKind { DOT_NONE, DOT_INSIDE, DOT_WHOLE, DOT_EDGE, DOT_ODD } DotKind;

typedef struct __align__(16) DotPlace {
    double y, x;
    int64_t base; /* element of the patch's first pixel, channel 0 of the head */
    float fy, fx; /* folded */
    int32_t kind, frame;
    float weight, slope_y, slope_x; /* of the neighbour: what its own lane needs at the end */
    float odd_weight, odd_y, odd_x; /* sums of an odd one */
} DotPlace;

typedef struct Dots { float weight, y, x; } Dots;

enum { UNITS = sizeof(DotPlace) / sizeof(float4) };

template <int PS> static __device__ __forceinline__ void find_place(const SnlsAggJob *job, const SnlsAggOwner *o, int32_t k, DotPlace *p)
{
    const SnlsAggregate *a = &job->a;
    const int32_t height = (int32_t)a->height, width = (int32_t)a->width, qy = o->i * (int32_t)a->stride0, qx = o->j * (int32_t)a->stride0;
    SnlsAggNear n;
    p->kind = DOT_NONE;
    if (!o->valid || k >= a->neighbours || !snls_agg_near(job, snls_agg_at(&a->offset, o->offsets, o->i, o->j, k), o->t, qy, qx, &n)) return;
    const int32_t y = (int32_t)n.y, x = (int32_t)n.x;
    const float fy = snls_fold(n.y - (double)y), fx = snls_fold(n.x - (double)x);
    p->weight = snls_agg_weight(job, snls_agg_at(&a->weight, o->weights, o->i, o->j, k));
    p->slope_y = n.slope_y;
    p->slope_x = n.slope_x;
    p->odd_weight = p->odd_y = p->odd_x = 0;
    p->y = n.y;
    p->x = n.x;
    p->frame = n.frame;
    p->fy = fy;
    p->fx = fx;
    p->base = o->from + n.frame * job->from.stride[1] + (y - PS / 2) * job->from.stride[2] + (x - PS / 2) * job->from.stride[3];
    const int32_t before = PS / 2, after = PS - 1 - PS / 2; /* pixels of a patch beside its centre */
    const bool own = qy >= before && qy + after < height && qx >= before && qx + after < width;
    const bool pixels = own && y >= before && y + after < height && x >= before && x + after < width; /* PS of them in a row */
    const bool taps = pixels && y + after + 1 < height && x + after + 1 < width;                     /* and one more */
    const bool whole = !job->by_offset.data && fy == 0 && fx == 0, edge = !a->drop && height > 2 && width > 2 && (!job->by_offset.data || (fy != 0 && fx != 0));
    p->kind = whole && pixels ? DOT_WHOLE : taps ? DOT_INSIDE : edge ? DOT_EDGE : DOT_ODD;
}

/* Element of the destination's pixel (0, 0), channel `first` of the head: its frame, and the neighbour's layer of a stack. */
static __device__ __forceinline__ int64_t destination_of(const SnlsAggJob *job, const SnlsAggOwner *o, int32_t k, int32_t first)
{
    return o->to + (job->a.stack ? k * job->to.stride[2] + o->t * job->to.stride[3] : o->t * job->to.stride[1]) + first;
}

/* Four channels of a destination pixel, divided by its cover. */
template <int PS> static __device__ __forceinline__ float4 load_pixel(const SnlsAggJob *job, int64_t destination, int32_t y, int32_t x)
{
    const SnlsAggregate *a = &job->a;
    const int64_t *const by_axis = job->to.stride + (a->stack ? 4 : 2); /* of rows, columns */
    const bool usual = a->stride0 == 1 && !a->scatter && (PS == 1 || (y > 0 && y + 1 < a->height && x > 0 && x + 1 < a->width)); /* full cover */
    const float by = usual ? 1.0f / (PS * PS) : 1 / (snls_agg_cover(a, y, (int32_t)a->height) * snls_agg_cover(a, x, (int32_t)a->width));
    const float4 v = snls_agg_load_any<true>(&job->to, destination + y * by_axis[0] + x * by_axis[1], 1, 4);
    return make_float4(v.x * by, v.y * by, v.z * by, v.w * by);
}

/* Those around the query at (qy, qx); 0 outside the frame, where nobody looks at them. */
template <int PS> static __device__ __forceinline__ void load_patch(float4 g[PS][PS], const SnlsAggJob *job, int64_t destination, int32_t qy, int32_t qx)
{
#pragma unroll
    for (int r = 0; r < PS; r++)
#pragma unroll
        for (int c = 0; c < PS; c++) {
            const int32_t y = qy + r - PS / 2, x = qx + c - PS / 2;
            const bool there = y >= 0 && y < job->a.height && x >= 0 && x < job->a.width;
            g[r][c] = there ? load_pixel<PS>(job, destination, y, x) : make_float4(0, 0, 0, 0);
        }
}

static __device__ __forceinline__ void combine(Dots *d, const float s[4], const float wy[2], const float wx[2], float slope_y, float slope_x)
{
    d->weight += (wy[0] != 0 && wx[0] != 0 ? wy[0] * wx[0] * s[0] : 0) + (wy[0] != 0 && wx[1] != 0 ? wy[0] * wx[1] * s[1] : 0) +
                 (wy[1] != 0 && wx[0] != 0 ? wy[1] * wx[0] * s[2] : 0) + (wy[1] != 0 && wx[1] != 0 ? wy[1] * wx[1] * s[3] : 0);
    d->y += slope_y * ((wx[0] != 0 ? wx[0] * (s[2] - s[0]) : 0) + (wx[1] != 0 ? wx[1] * (s[3] - s[1]) : 0));
    d->x += slope_x * ((wy[0] != 0 ? wy[0] * (s[1] - s[0]) : 0) + (wy[1] != 0 ? wy[1] * (s[3] - s[2]) : 0));
}

/* Pixel (r, c) of those around the neighbour is tap (a, b) of destination (r - a, c - b). */
template <int PS>
static __device__ __forceinline__ void meet(float s[4], const float4 g[PS][PS], const bool rows[PS], const bool columns[PS], int r, int c, float4 v)
{
#pragma unroll
    for (int tap = 0; tap < 4; tap++) {
        const int i = r - tap / 2, j = c - tap % 2;
        if (i >= 0 && i < PS && j >= 0 && j < PS && rows[(i + PS) % PS] && columns[(j + PS) % PS])
            s[tap] = snls_agg_dot(g[(i + PS) % PS][(j + PS) % PS], v, s[tap]);
    }
}

template <int DTYPE, int PS>
static __device__ __forceinline__ void dot_inside(float s[4], const SnlsAggJob *job, const DotPlace *p, const float4 g[PS][PS], int32_t first)
{
    const bool all[3] = {true, true, true};
    int64_t at = p->base + first;
#pragma unroll
    for (int r = 0; r <= PS; r++, at += job->from.stride[2])
#pragma unroll
        for (int c = 0; c <= PS; c++) meet<PS>(s, g, all, all, r, c, snls_agg_load4<DTYPE, true>(job->from.data, at + c * job->from.stride[3], 1, 4));
}

/* Over a border: of the mirrored frame, and without destinations outside the frame, whose taps must not come in: 0 times NaN is not
 * 0. Apart, so that what it needs does not crowd the registers of the usual case; it reads the destinations itself. */
template <int DTYPE, int PS>
static __device__ __noinline__ float4 dot_edge(const SnlsAggJob *job, int64_t frame, int64_t destination, int32_t y, int32_t x, int32_t qy, int32_t qx)
{
    const int32_t height = (int32_t)job->a.height, width = (int32_t)job->a.width;
    float4 g[PS][PS];
    bool rows[PS], columns[PS];
    float s[4] = {0, 0, 0, 0};
    load_patch<PS>(g, job, destination, qy, qx);
#pragma unroll
    for (int c = 0; c < PS; c++) {
        rows[c] = qy + c - PS / 2 >= 0 && qy + c - PS / 2 < height;
        columns[c] = qx + c - PS / 2 >= 0 && qx + c - PS / 2 < width;
    }
#pragma unroll
    for (int r = 0; r <= PS; r++)
#pragma unroll
        for (int c = 0; c <= PS; c++) {
            const int64_t at = frame + snls_agg_mirror(y + r - PS / 2, height) * job->from.stride[2] + snls_agg_mirror(x + c - PS / 2, width) * job->from.stride[3];
            meet<PS>(s, g, rows, columns, r, c, snls_agg_load4<DTYPE, true>(job->from.data, at, 1, 4));
        }
    return make_float4(s[0], s[1], s[2], s[3]);
}

template <int DTYPE, int PS>
static __device__ __forceinline__ void dot_whole(float s[4], const SnlsAggJob *job, const DotPlace *p, const float4 g[PS][PS], int32_t first)
{
    int64_t at = p->base + first;
#pragma unroll
    for (int r = 0; r < PS; r++, at += job->from.stride[2])
#pragma unroll
        for (int c = 0; c < PS; c++) s[0] = snls_agg_dot(g[r][c], snls_agg_load4<DTYPE, true>(job->from.data, at + c * job->from.stride[3], 1, 4), s[0]);
}

/* By the rules, pixel by pixel. */
template <int DTYPE, int PS>
static __device__ __noinline__ float4 dot_odd(const SnlsAggJob *job, int64_t frame, int64_t destination, double y, double x, int32_t qy, int32_t qx)
{
    const SnlsAggregate *a = &job->a;
    Dots d = {0, 0, 0};
    for (int cell = 0; cell < PS * PS; cell++) {
        const int32_t dy = cell / PS - PS / 2, dx = cell % PS - PS / 2;
        if (qy + dy < 0 || qy + dy >= a->height || qx + dx < 0 || qx + dx >= a->width) continue;
        const SnlsAggAxis v = snls_agg_axis(y + dy, (int32_t)a->height, a->drop), u = snls_agg_axis(x + dx, (int32_t)a->width, a->drop);
        if (!v.inside || !u.inside) continue;
        const float4 g = load_pixel<PS>(job, destination, qy + dy, qx + dx);
        float s[4];
#pragma unroll
        for (int tap = 0; tap < 4; tap++) {
            const int64_t at = frame + v.at[tap / 2] * job->from.stride[2] + u.at[tap % 2] * job->from.stride[3];
            s[tap] = snls_agg_dot(g, snls_agg_load4<DTYPE, true>(job->from.data, at, 1, 4), 0);
        }
        combine(&d, s, v.weight, u.weight, v.slope, u.slope);
    }
    return make_float4(d.weight, d.y, d.x, 0);
}

/* s: sums of a patch that was read as a whole; those of an odd one stand in its place. */
static __device__ __forceinline__ void store_dots(const SnlsAggJob *job, const SnlsAggOwner *o, int32_t k, const DotPlace *p, const float s[4])
{
    if (p->kind == DOT_NONE) return;
    const float wy[2] = {snls_fold_low(p->fy), snls_fold_high(p->fy)}, wx[2] = {snls_fold_low(p->fx), snls_fold_high(p->fx)};
    Dots d = {p->odd_weight, p->odd_y, p->odd_x};
    combine(&d, s, wy, wx, 1, 1);
    if (job->by_weight.data) ((float *)job->by_weight.data)[snls_at6(&job->by_weight, o->b, o->head, o->t, o->i, o->j, k)] += d.weight;
    if (!job->by_offset.data) return;
    float *const to = (float *)job->by_offset.data + snls_at6(&job->by_offset, o->b, o->head, o->t, o->i, o->j, k);
    to[job->by_offset.stride[6]] += p->weight * p->slope_y * d.y;
    to[2 * job->by_offset.stride[6]] += p->weight * p->slope_x * d.x;
}

/* The neighbours of a batch, one after the other; the sums of number `lane` stay with that lane. */
template <int DTYPE, int PS, bool STACK>
static __device__ __forceinline__ void dot_batch(const SnlsAggJob *job, const SnlsAggOwner *o, DotPlace *group, int32_t begin, int n, int32_t first, float4 g[PS][PS], float own[4])
{
    const int lanes = 1 << job->lanes_log2;
    const bool has = first < job->a.features;
    const int32_t qy = o->i * (int32_t)job->a.stride0, qx = o->j * (int32_t)job->a.stride0;
    for (int i = 0; i < n; i++) {
        DotPlace *p = &group[i];
        const int kind = has ? p->kind : DOT_NONE;
        float s[4] = {0, 0, 0, 0};
        if (STACK && (kind == DOT_INSIDE || kind == DOT_WHOLE)) load_patch<PS>(g, job, destination_of(job, o, begin + i, first), qy, qx);
        if (kind == DOT_INSIDE) dot_inside<DTYPE, PS>(s, job, p, g, first);
        else if (kind == DOT_WHOLE) dot_whole<DTYPE, PS>(s, job, p, g, first);
        if (__any_sync(0xffffffffu, kind > DOT_WHOLE)) {
            float4 four = make_float4(0, 0, 0, 0);
            const int64_t frame = o->from + p->frame * job->from.stride[1] + first, destination = destination_of(job, o, begin + i, first);
            if (kind == DOT_EDGE) four = dot_edge<DTYPE, PS>(job, frame, destination, (int32_t)p->y, (int32_t)p->x, qy, qx);
            if (kind == DOT_EDGE) { s[0] = four.x; s[1] = four.y; s[2] = four.z; s[3] = four.w; }
            four = make_float4(0, 0, 0, 0);
            if (kind == DOT_ODD) four = dot_odd<DTYPE, PS>(job, frame, destination, p->y, p->x, qy, qx);
            four.x = snls_agg_group_sum(four.x, lanes);
            four.y = snls_agg_group_sum(four.y, lanes);
            four.z = snls_agg_group_sum(four.z, lanes);
            if (i == o->lane) { p->odd_weight = four.x; p->odd_y = four.y; p->odd_x = four.z; }
        }
#pragma unroll
        for (int tap = 0; tap < 4; tap++) {
            const float sum = snls_agg_group_sum(s[tap], lanes);
            if (i == o->lane) own[tap] = sum;
        }
    }
}

template <int DTYPE, int PS, bool STACK>
static __global__ void __launch_bounds__(SNLS_AGG_THREADS, PS == 1 ? 3 : 2) dots_patch_kernel(const __grid_constant__ SnlsAggJob job)
{
    __shared__ float4 shared[SNLS_AGG_SHARED(UNITS)];
    const SnlsAggregate *a = &job.a;
    SnlsAggOwner o = snls_agg_owner(&job, a->batch * a->heads * a->frames * a->rows, (int32_t)a->columns, job.rows);
    snls_agg_bases(&job, &o);
    const int lanes = 1 << job.lanes_log2;
    const int32_t all = (int32_t)a->neighbours, features = (int32_t)a->features;
    DotPlace *const group = (DotPlace *)snls_agg_records(shared, job.lanes_log2, UNITS);
    for (int32_t chunk = 0; chunk < features; chunk += 4 * lanes) {
        const int32_t first = chunk + 4 * o.lane;
        float4 g[PS][PS];
        if (!STACK && first < features && o.valid) load_patch<PS>(g, &job, destination_of(&job, &o, 0, first), o.i * (int32_t)a->stride0, o.j * (int32_t)a->stride0);
        for (int32_t begin = 0; begin < all; begin += lanes) {
            float own[4] = {0, 0, 0, 0};
            __syncwarp();
            find_place<PS>(&job, &o, begin + o.lane, &group[o.lane]);
            __syncwarp();
            dot_batch<DTYPE, PS, STACK>(&job, &o, group, begin, min(all - begin, lanes), first, g, own);
            store_dots(&job, &o, begin + o.lane, &group[o.lane], own);
        }
    }
}

SnlsStatus snls_agg_dots_patch(SnlsContext *ctx, SnlsAggJob *job, bool *done)
{
    const SnlsAggregate *a = &job->a;
    bool vector;
    unsigned blocks;
    *done = (a->ps == 3 || a->ps == 1) && a->dilation == 1 && job->to_vector && snls_agg_is_vector(a, &job->from, false);
    if (!*done) return SNLS_OK;
    SNLS_TRY(snls_agg_lay_out(ctx, job, a->batch * a->heads * a->frames * a->rows, a->columns, false, &vector, &blocks));
#define LAUNCH(type) \
    if (a->stack && a->ps == 1) dots_patch_kernel<type, 1, true><<<blocks, SNLS_AGG_THREADS, 0, snls_cuda_stream(ctx)>>>(*job); \
    else if (a->stack) dots_patch_kernel<type, 3, true><<<blocks, SNLS_AGG_THREADS, 0, snls_cuda_stream(ctx)>>>(*job); \
    else if (a->ps == 1) dots_patch_kernel<type, 1, false><<<blocks, SNLS_AGG_THREADS, 0, snls_cuda_stream(ctx)>>>(*job); \
    else dots_patch_kernel<type, 3, false><<<blocks, SNLS_AGG_THREADS, 0, snls_cuda_stream(ctx)>>>(*job)
    SNLS_AGG_BY_TYPE(job->from.dtype, LAUNCH);
#undef LAUNCH
    SNLS_CUDA_LAUNCHED(ctx, a->op);
    return SNLS_OK;
}
