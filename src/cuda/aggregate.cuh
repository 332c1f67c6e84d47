/* aggregate.cuh: what the kernels of gather, gather_add and scatter_add share. The three operators and their gradients are three
 * kinds of sum over the ties between the pixels of a query's patch (destination) and the places around its neighbours (source):
 *   pull    to[destination] = sum of w * from[source]     gather, gather_add; scatter_add's gradient by value (pull.cu, patch.cu, stack.cu)
 *   spread  to[source] = sum of w * from[destination]     scatter_add; the gathers' gradient by value (bins.cu, spread.cu, stack.cu)
 *   dots    sums over channels of destination * source    gradients by weight and offset (dots.cu, dots_patch.cu)
 * Each sum has one owner and one order: no floating-point atomics, the same bits in every run.
 * An owner is a group of 2^lanes_log2 neighbouring lanes of a warp, each with four channels. */
#ifndef SNLS_CUDA_AGGREGATE_H
#define SNLS_CUDA_AGGREGATE_H

#include "cuda/cuda.h"
#include "cuda/fold.h"

enum { SNLS_AGG_THREADS = 256 };

/* n / d for 0 <= n < 2^31: a multiplication in place of some twenty instructions. */
typedef struct SnlsDivisor { uint32_t divisor, magic, shift; } SnlsDivisor;

static inline SnlsDivisor snls_divisor(int64_t d)
{
    SnlsDivisor r = {(uint32_t)d, 0, 0};
    while (((uint64_t)1 << r.shift) < (uint64_t)d) r.shift++;
    r.magic = (uint32_t)((((uint64_t)1 << 32) * (((uint64_t)1 << r.shift) - (uint64_t)d)) / (uint64_t)d + 1);
    return r;
}

static __device__ __forceinline__ uint32_t snls_divide(uint32_t n, SnlsDivisor d) { return (__umulhi(n, d.magic) + n) >> d.shift; }

typedef struct SnlsAggJob {
    SnlsAggregate a;        /* sizes, weight, offset */
    SnlsTensor from, to;    /* videos; the one at the destination is a stack where a.stack */
    SnlsTensor by_weight, by_offset; /* dots: what is added to; may have no data */
    SnlsDivisor height, width, frames, heads, rows, columns, neighbours, side, links; /* links: ps*ps */
    int64_t line0;          /* the owners' first line */
    uint32_t tiles_x;       /* tiles in a line of owners */
    SnlsDivisor by_tiles_x, chunks;
    int32_t lanes_log2, tile_log2; /* tile: width of a block's tile of owners */
    bool add;               /* to is added to, else written */
    bool to_vector;         /* dots: the destination can be read four channels at a time */
} SnlsAggJob;

/* ---- channels, four at a time ---- */

template <int DTYPE> static __device__ __forceinline__ float snls_agg_load1(const void *data, int64_t at)
{
    if (DTYPE == SNLS_F32) return __ldg((const float *)data + at);
    if (DTYPE == SNLS_F16) return __half2float(__ldg((const __half *)data + at));
    return __uint_as_float((uint32_t)__ldg((const unsigned short *)data + at) << 16);
}

/* VECTOR: the four lie side by side, on a boundary of four. Else `count` (0 to 4) of them, `step` apart. */
template <int DTYPE, bool VECTOR> static __device__ __forceinline__ float4 snls_agg_load4(const void *data, int64_t at, int64_t step, int count)
{
    if (VECTOR && DTYPE == SNLS_F32) return __ldg((const float4 *)((const float *)data + at));
    if (VECTOR) {
        const uint2 u = __ldg((const uint2 *)((const unsigned short *)data + at));
        if (DTYPE == SNLS_F16) {
            const float2 low = __half22float2(*(const __half2 *)&u.x), high = __half22float2(*(const __half2 *)&u.y);
            return make_float4(low.x, low.y, high.x, high.y);
        }
        return make_float4(__uint_as_float(u.x << 16), __uint_as_float(u.x & 0xffff0000u), __uint_as_float(u.y << 16), __uint_as_float(u.y & 0xffff0000u));
    }
    float4 v = make_float4(0, 0, 0, 0);
    if (count > 0) v.x = snls_agg_load1<DTYPE>(data, at);
    if (count > 1) v.y = snls_agg_load1<DTYPE>(data, at + step);
    if (count > 2) v.z = snls_agg_load1<DTYPE>(data, at + 2 * step);
    if (count > 3) v.w = snls_agg_load1<DTYPE>(data, at + 3 * step);
    return v;
}

/* As above where the type is known at run time alone: for what is read once. */
template <bool VECTOR> static __device__ __forceinline__ float4 snls_agg_load_any(const SnlsTensor *t, int64_t at, int64_t step, int count)
{
    if (t->dtype == SNLS_F32) return snls_agg_load4<SNLS_F32, VECTOR>(t->data, at, step, count);
    if (t->dtype == SNLS_F16) return snls_agg_load4<SNLS_F16, VECTOR>(t->data, at, step, count);
    return snls_agg_load4<SNLS_BF16, VECTOR>(t->data, at, step, count);
}

static __device__ __forceinline__ void snls_agg_fma(float4 *sum, float factor, float4 v)
{
    sum->x = fmaf(factor, v.x, sum->x);
    sum->y = fmaf(factor, v.y, sum->y);
    sum->z = fmaf(factor, v.z, sum->z);
    sum->w = fmaf(factor, v.w, sum->w);
}

static __device__ __forceinline__ float snls_agg_dot(float4 a, float4 b, float sum)
{
    return fmaf(a.x, b.x, fmaf(a.y, b.y, fmaf(a.z, b.z, fmaf(a.w, b.w, sum))));
}

/* Writes or adds, whatever the type and the strides. */
static __device__ __forceinline__ void snls_agg_store(const SnlsTensor *t, int64_t at, int64_t step, int count, float4 v, bool add)
{
    if (t->dtype == SNLS_F32 && step == 1 && count == 4 && !((uintptr_t)((float *)t->data + at) & 15)) {
        float4 *to = (float4 *)((float *)t->data + at);
        if (add) { const float4 was = *to; v.x += was.x; v.y += was.y; v.z += was.z; v.w += was.w; }
        *to = v;
        return;
    }
    const float four[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int i = 0; i < 4; i++)
        if (i < count) snls_cuda_store(t, at + i * step, four[i] + (add ? snls_cuda_load(t, at + i * step) : 0));
}

/* The sum over the lanes of a group, in every lane of it, in a fixed order. */
static __device__ __forceinline__ float snls_agg_group_sum(float x, int lanes)
{
    for (int step = lanes / 2; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
    return x;
}

/* ---- who owns what ---- */

/* Owners are the cells of `lines` lines of `columns` cells; a block has a tile of them. Lines run over rows, then frames, heads,
 * batch: a tile may lie over the end of a frame. */
typedef struct SnlsAggOwner {
    bool valid;
    int32_t b, head, t, i, j; /* i: row */
    int64_t line;             /* from line0 on */
    int32_t lane, chunk;      /* of the group; of the channels */
    int64_t offsets, weights, from, to; /* elements of row 0, column 0, neighbour 0 (0 in frame 0: from) of its clip */
} SnlsAggOwner;

/* Where the tensors of a clip begin, so that the rest is indexed by small numbers. at_source: from is read there. */
static __device__ __forceinline__ void snls_agg_bases(const SnlsAggJob *job, SnlsAggOwner *o)
{
    o->offsets = snls_at5(&job->a.offset, o->b, o->head, o->t, 0, 0);
    o->weights = snls_at5(&job->a.weight, o->b, o->head, o->t, 0, 0);
    o->from = job->from.ndim == 7 ? snls_at5(&job->from, o->b, o->head, 0, 0, 0) : snls_at5(&job->from, o->b, 0, 0, 0, o->head * job->a.features);
    o->to = job->to.ndim == 7 ? snls_at5(&job->to, o->b, o->head, 0, 0, 0) : snls_at5(&job->to, o->b, 0, 0, 0, o->head * job->a.features);
}

static __device__ __forceinline__ SnlsAggOwner snls_agg_owner(const SnlsAggJob *job, int64_t lines, int32_t columns, SnlsDivisor rows)
{
    SnlsAggOwner o;
    const int lanes = 1 << job->lanes_log2, group = (int)threadIdx.x >> job->lanes_log2;
    const uint32_t rest = snls_divide(blockIdx.x, job->chunks), row = snls_divide(rest, job->by_tiles_x);
    o.chunk = (int32_t)(blockIdx.x - rest * job->chunks.divisor);
    o.lane = (int)threadIdx.x & (lanes - 1);
    o.j = (int32_t)((rest - row * job->tiles_x) << job->tile_log2) + (group & ((1 << job->tile_log2) - 1));
    const int64_t line = (int64_t)row * (SNLS_AGG_THREADS >> job->lanes_log2 >> job->tile_log2) + (group >> job->tile_log2);
    o.valid = line < lines && o.j < columns;
    o.line = o.valid ? line : 0;
    const uint32_t l = (uint32_t)(job->line0 + o.line), clip = snls_divide(l, rows), plane = snls_divide(clip, job->frames);
    o.i = (int32_t)(l - clip * rows.divisor);
    o.t = (int32_t)(clip - plane * job->frames.divisor);
    o.b = (int32_t)snls_divide(plane, job->heads);
    o.head = (int32_t)(plane - (uint32_t)o.b * job->heads.divisor);
    if (!o.valid) o.j = 0;
    return o;
}

/* How many of the lane's four channels there are. */
static __device__ __forceinline__ int snls_agg_count(const SnlsAggJob *job, int64_t first)
{
    const int64_t left = job->a.features - first;
    return left < 0 ? 0 : left > 4 ? 4 : (int)left;
}

/* ---- where a neighbour is, and where a patch pixel is read ---- */

/* Beyond the frame: rare, and long, so apart. The sign carries the slope: -0 is no place with a slope of -1. */
static __device__ __noinline__ double snls_agg_far(double u, int32_t n)
{
    const double z = snls_reflect_real(u, n);
    return snls_reflect_slope(u, n) < 0 ? -z : z;
}

static __device__ __forceinline__ double snls_agg_reflect(double u, int32_t n, float *slope)
{
    *slope = n > 1 ? 1 : 0;
    if (u >= 0 && u <= (double)(n - 1)) return u;
    if (n == 1) return 0;
    const double z = snls_agg_far(u, n);
    if (z < 0) *slope = -1;
    return fabs(z);
}

typedef struct SnlsAggNear { int32_t frame; double y, x; float slope_y, slope_x; } SnlsAggNear;

/* As snls_neighbour, for a query at (t, y, x) whose offset is element `at`; false: not finite. */
static __device__ __forceinline__ bool snls_agg_near(const SnlsAggJob *job, int64_t at, int32_t t, int32_t y, int32_t x, SnlsAggNear *n)
{
    const SnlsAggregate *a = &job->a;
    const float *const o = (const float *)a->offset.data + at;
    const float dt = rintf(__ldg(o));
    float dy = __ldg(o + a->offset.stride[6]), dx = __ldg(o + 2 * a->offset.stride[6]);
    if (!isfinite(dt) || !isfinite(dy) || !isfinite(dx)) return false;
    if (a->nearest) { dy = rintf(dy); dx = rintf(dx); }
    const int32_t frames = (int32_t)a->frames, frame = fabsf(dt) < 1e6f && t < 1000000000 ? t + (int32_t)dt : -1;
    n->frame = frame >= 0 && frame < frames ? frame : (int32_t)fabs(snls_agg_far((double)t + (double)dt, frames));
    n->y = snls_agg_reflect((double)y + (double)dy, (int32_t)a->height, &n->slope_y);
    n->x = snls_agg_reflect((double)x + (double)dx, (int32_t)a->width, &n->slope_x);
    return true;
}

static __device__ __forceinline__ float snls_agg_weight(const SnlsAggJob *job, int64_t at) { return __ldg((const float *)job->a.weight.data + at); }

/* Element of a query's neighbour in a tensor shaped like weight (or offset), from where its clip begins. */
static __device__ __forceinline__ int64_t snls_agg_at(const SnlsTensor *t, int64_t clip, int32_t i, int32_t j, int32_t k)
{
    return clip + i * t->stride[3] + j * t->stride[4] + k * t->stride[5];
}

/* One axis of a read at u: taps and their weights; inside: the border rule keeps it. A tap of weight 0 is not read for a value. */
typedef struct SnlsAggAxis { int32_t at[2]; float weight[2], slope; bool inside; } SnlsAggAxis;

static __device__ __forceinline__ SnlsAggAxis snls_agg_axis(double u, int32_t n, bool drop)
{
    SnlsAggAxis r;
    r.inside = !drop || (u >= 0 && u <= (double)(n - 1));
    const double z = snls_agg_reflect(u, n, &r.slope);
    const int32_t i = (int32_t)z;
    r.at[0] = i;
    r.at[1] = i + 1 < n ? i + 1 : n > 1 ? n - 2 : 0;
    r.weight[0] = (float)(1 - (z - (double)i));
    r.weight[1] = (float)(z - (double)i);
    return r;
}

/* Pixel i of the mirrored frame, where one reflection is enough: -n < i < 2n-1. */
static __device__ __forceinline__ int32_t snls_agg_mirror(int32_t i, int32_t n) { i = abs(i); return i < n ? i : 2 * (n - 1) - i; }

/* Query patches over pixel y, each axis apart. The long way is rare. */
static __device__ __noinline__ int32_t snls_agg_count_cover(int32_t y, int32_t n, int32_t ps, int32_t dilation, int32_t stride0)
{
    return (int32_t)snls_cover_count(y, n, ps, dilation, stride0);
}

static __device__ __forceinline__ float snls_agg_cover(const SnlsAggregate *a, int32_t y, int32_t n)
{
    if (a->scatter) return 1;
    const int32_t ps = (int32_t)a->ps, after = ps / 2, before = ps - 1 - after; /* reach of a patch below and above its query */
    if (a->stride0 == 1 && a->dilation == 1) return (float)(min(y + after, n - 1) - max(y - before, 0) + 1);
    return (float)snls_agg_count_cover(y, n, ps, (int32_t)a->dilation, (int32_t)a->stride0);
}

/* ---- what a group shares ---- */

/* The lanes of a group lay out records of `units` float4 in shared memory, which all of them then read: the group's records
 * begin at an odd place, so that the groups of a warp read from different banks. SNLS_AGG_SHARED(units) is room for a block. */
#define SNLS_AGG_SHARED(units) (SNLS_AGG_THREADS * ((units) + 1))
static __device__ __forceinline__ float4 *snls_agg_records(float4 *shared, int lanes_log2, int units)
{
    return shared + ((int)threadIdx.x >> lanes_log2) * ((units << lanes_log2) | 1);
}

/* ---- host side ---- */

/* Sizes and divisors; from, to, add are the caller's. False with a sentence where an axis is beyond this backend. */
SnlsStatus snls_agg_job(SnlsContext *ctx, SnlsAggJob *job, const SnlsAggregate *a);
/* Groups for owners with videos from and to; vector: both can be read four channels at a time. chunked: a group has four
 * channels of each lane and no more, so owners come once for every chunk of channels. Returns the number of blocks. */
SnlsStatus snls_agg_lay_out(SnlsContext *ctx, SnlsAggJob *job, int64_t lines, int64_t columns, bool chunked, bool *vector, unsigned *blocks);
bool snls_agg_is_vector(const SnlsAggregate *a, const SnlsTensor *video, bool stack);

SnlsStatus snls_agg_pull(SnlsContext *ctx, SnlsAggJob *job);   /* to (destination) from from (source) */
SnlsStatus snls_agg_spread(SnlsContext *ctx, SnlsAggJob *job, const SnlsTensor *total, bool ordered);
SnlsStatus snls_agg_dots(SnlsContext *ctx, SnlsAggJob *job);   /* by_weight, by_offset; from at the source, to at the destination */

/* stack.cu: pull and spread of single pixels to and from a stack, many channels; done: it applies. */
SnlsStatus snls_agg_stack_forward(SnlsContext *ctx, const SnlsAggJob *job, bool *done);
SnlsStatus snls_agg_stack_backward(SnlsContext *ctx, const SnlsAggJob *job, bool ordered, bool *done);

/* few_gather.cu: all gradients of a gather at once; done: it applies. job as for dots, value: the gradient by it. */
SnlsStatus snls_agg_few_backward(SnlsContext *ctx, const SnlsAggJob *job, const SnlsTensor *value, bool *done);

/* LAUNCH(type) for the type that elements have. */
#define SNLS_AGG_BY_TYPE(dtype, LAUNCH)                       \
    do {                                                      \
        if ((dtype) == SNLS_F32) { LAUNCH(SNLS_F32); }        \
        else if ((dtype) == SNLS_F16) { LAUNCH(SNLS_F16); }   \
        else { LAUNCH(SNLS_BF16); }                           \
    } while (0)

#endif
