/* few_gather.cu: all gradients of gather_add in one pass, for 3 x 3 patches of few features a head (few.h), where the order of a sum does not
 * matter. The query's nine pixels stay in registers; a neighbour's 4 x 4 pixels are read once, for the gradients by weight and
 * offset, and added to once. With few features a neighbour has little to add, and sorting neighbours by target first
 * (splat.cu) costs more than it saves. */
#include "cuda/aggregate.cuh"
#include "cuda/few_patch.h"

/* A neighbour, in shared memory; then what was found. */
typedef struct FewTie {
    int32_t y, x, frame; /* taps of its place; frame -1: none */
    int8_t  slope_y, slope_x, outside, unused; /* outside: some pixel of the patch is a whole one beyond the frame */
    float   fy, fx, weight, by_weight, by_y, by_x; /* fractions folded */
} FewTie;

typedef struct FewGather {
    SnlsAggJob job;    /* from: value; to: gradient of out; by_weight, by_offset */
    CudaSink value;    /* its gradient */
    int64_t units;     /* B*T*rows*columns */
    int32_t parts;
} FewGather;

static __device__ __forceinline__ FewLane few_owner(const FewGather *p, int64_t unit, int head, int part)
{
    FewLane o = {.head = head, .part = part, .there = unit < p->units};
    const uint32_t at = (uint32_t)(o.there ? unit : p->units - 1), line = snls_divide(at, p->job.columns);
    const uint32_t plane = snls_divide(line, p->job.rows), clip = snls_divide(plane, p->job.frames);
    o.b = (int32_t)clip;
    o.t = (int32_t)(plane - clip * p->job.frames.divisor);
    o.i = (int32_t)(line - plane * p->job.rows.divisor);
    o.j = (int32_t)(at - line * p->job.columns.divisor);
    return o;
}

static __device__ __forceinline__ FewTie few_tie(const FewGather *p, const FewLane *o, int k)
{
    const SnlsAggregate *a = &p->job.a;
    FewTie tie = {.frame = -1};
    SnlsAggNear n;
    if (!snls_agg_near(&p->job, snls_at6(&a->offset, o->b, o->head, o->t, o->i, o->j, k), o->t, o->i * (int32_t)a->stride0, o->j * (int32_t)a->stride0, &n)) return tie;
    tie.frame = n.frame;
    tie.y = (int32_t)n.y;
    tie.x = (int32_t)n.x;
    tie.fy = snls_fold(n.y - (double)tie.y);
    tie.fx = snls_fold(n.x - (double)tie.x);
    tie.slope_y = (int8_t)n.slope_y;
    tie.slope_x = (int8_t)n.slope_x;
    tie.weight = snls_agg_weight(&p->job, snls_at6(&a->weight, o->b, o->head, o->t, o->i, o->j, k));
    tie.outside = (tie.fy == 0 && (tie.y == 0 || tie.y == a->height - 1)) || (tie.fx == 0 && (tie.x == 0 || tie.x == a->width - 1));
    return tie;
}

/* Pixel (r, c) of the query's patch is in the frame. */
static __device__ __forceinline__ bool few_inside(const SnlsAggregate *a, const FewLane *o, int r, int c)
{
    const int32_t y = few_y(o, a->stride0, r), x = few_x(o, a->stride0, c);
    return y >= 0 && y < (int32_t)a->height && x >= 0 && x < (int32_t)a->width;
}

/* What arrives at it, divided by its cover; 0 outside. */
static __device__ __forceinline__ float4 few_arriving(const FewGather *p, const FewLane *o, int r, int c)
{
    const SnlsAggregate *a = &p->job.a;
    const int32_t y = few_y(o, a->stride0, r), x = few_x(o, a->stride0, c);
    if (!few_inside(a, o, r, c)) return make_float4(0, 0, 0, 0);
    const float by = 1 / (snls_agg_cover(a, y, (int32_t)a->height) * snls_agg_cover(a, x, (int32_t)a->width));
    return few_times(by, __ldg((const float4 *)((const float *)p->job.to.data + snls_at5(&p->job.to, o->b, o->t, y, x, o->head * a->features + 4 * o->part))));
}

typedef struct FewSlopes { float weight, y, x; } FewSlopes;

/* One neighbour; inside: bits of the patch's pixels that are in the frame. */
static __device__ __forceinline__ FewSlopes few_follow(const FewGather *p, const FewLane *o, const FewTie *shared, const float4 (&arriving)[3][3], unsigned inside)
{
    const SnlsAggregate *a = &p->job.a;
    const int64_t *stride = p->job.from.stride;
    const FewTie tie = *shared;
    const FewMix my = few_mix(tie.fy), mx = few_mix(tie.fx);
    const int height = (int)a->height, width = (int)a->width;
    const float *from = (const float *)p->job.from.data + o->b * stride[0] + tie.frame * stride[1] + o->head * a->features + 4 * o->part;
    const FewTarget to = few_target<false>(&p->value, o->b, tie.frame, o->head, o->part);
    int32_t column[4];
#pragma unroll
    for (int i = 0; i < 4; i++) column[i] = few_near(tie.x - 1 + i, width);
    float4 across[2][3], slope[2][3], share[2][3] = {};
    FewSlopes s = {0, 0, 0};
#pragma unroll
    for (int r = 0; r < 4; r++) {
        const float *line = from + few_near(tie.y - 1 + r, height) * stride[2];
        float4 pixel[4];
#pragma unroll
        for (int i = 0; i < 4; i++) pixel[i] = __ldg((const float4 *)(line + column[i] * stride[3]));
#pragma unroll
        for (int i = 0; i < 3; i++) {
            across[r % 2][i] = few_between(pixel[i], pixel[i + 1], mx);
            slope[r % 2][i] = snls_cuda_minus(pixel[i + 1], pixel[i]);
        }
        if (r == 0) continue;
        const int above = (r + 1) % 2, below = r % 2;
#pragma unroll
        for (int i = 0; i < 3; i++) {
            const float4 g = arriving[r - 1][i];
            const bool counts = inside >> (3 * (r - 1) + i) & 1; /* 0 times what is not finite is not 0 */
            share[below][i] = counts ? few_times(tie.weight, g) : make_float4(0, 0, 0, 0);
            s.weight = counts ? snls_cuda_dot(g, few_between(across[above][i], across[below][i], my), s.weight) : s.weight;
            s.y = counts ? snls_cuda_dot(g, snls_cuda_minus(across[below][i], across[above][i]), s.y) : s.y;
            s.x = counts ? snls_cuda_dot(g, few_between(slope[above][i], slope[below][i], my), s.x) : s.x;
        }
        if (p->value.mode) few_flush<false>(&to, few_near(tie.y - 2 + r, height), column, my, mx, share[above], share[below], true);
    }
    if (p->value.mode && my.high != 0) few_flush<false>(&to, few_near(tie.y + 2, height), column, my, mx, share[1], share[1], false);
    return s;
}

/* Slopes pixel by pixel, as the definition has it. */
static __device__ __forceinline__ FewSlopes few_follow_outside(const FewGather *p, const FewLane *o, const FewTie *tie)
{
    const SnlsAggregate *a = &p->job.a;
    const float *from = (const float *)p->job.from.data + snls_at5(&p->job.from, o->b, tie->frame, 0, 0, o->head * a->features + 4 * o->part);
    FewSlopes s = {0, 0, 0};
    for (int i = 0; i < 9; i++) {
        if (!few_inside(a, o, i / 3, i % 3)) continue;
        const SnlsAggAxis v = snls_agg_axis((double)tie->y + snls_unfold(tie->fy) + i / 3 - 1, (int32_t)a->height, false);
        const SnlsAggAxis u = snls_agg_axis((double)tie->x + snls_unfold(tie->fx) + i % 3 - 1, (int32_t)a->width, false);
        const float4 g = few_arriving(p, o, i / 3, i % 3);
        float dot[4];
        for (int tap = 0; tap < 4; tap++)
            dot[tap] = snls_cuda_dot(g, *(const float4 *)(from + v.at[tap / 2] * p->job.from.stride[2] + u.at[tap % 2] * p->job.from.stride[3]), 0);
        for (int n = 0; n < 2; n++) {
            if (u.weight[n] != 0) s.y += v.slope * u.weight[n] * (dot[2 + n] - dot[n]);
            if (v.weight[n] != 0) s.x += u.slope * v.weight[n] * (dot[2 * n + 1] - dot[2 * n]);
        }
    }
    return s;
}

/* Neighbours that have whole pixels beyond the frame. Apart: they are rare. */
static __device__ __noinline__ void few_slopes_outside(const FewGather *p, FewLane o, FewTie *ties)
{
    for (int k = 0; k < (int)p->job.a.neighbours; k++) {
        const bool valid = o.there && ties[k].frame >= 0 && ties[k].outside;
        FewSlopes s = {0, 0, 0};
        if (valid) s = few_follow_outside(p, &o, &ties[k]);
        __syncwarp();
        s.y = few_sum(s.y, p->parts);
        s.x = few_sum(s.x, p->parts);
        if (valid && !o.part) ties[k].by_y = s.y, ties[k].by_x = s.x;
        __syncwarp();
    }
}

static __device__ __forceinline__ void few_write(const FewGather *p, const FewLane *o, int k, const FewTie *tie)
{
    const SnlsAggJob *job = &p->job;
    if (!o->there || tie->frame < 0) return;
    if (job->by_weight.data) ((float *)job->by_weight.data)[snls_at6(&job->by_weight, o->b, o->head, o->t, o->i, o->j, k)] += tie->by_weight;
    if (!job->by_offset.data) return;
    float *to = (float *)job->by_offset.data + snls_at6(&job->by_offset, o->b, o->head, o->t, o->i, o->j, k);
    to[job->by_offset.stride[6]] += tie->weight * (float)tie->slope_y * tie->by_y;
    to[2 * job->by_offset.stride[6]] += tie->weight * (float)tie->slope_x * tie->by_x;
}

static __global__ void __launch_bounds__(32 * FEW_WARPS, 3) follow_few(const __grid_constant__ FewGather p, int bytes)
{
    extern __shared__ __align__(16) char memory[];
    const SnlsAggregate *a = &p.job.a;
    const int lane = (int)threadIdx.x % 32, heads = (int)a->heads, each = heads * p.parts, pixels = 32 / each, queries = pixels * heads, all = (int)a->neighbours;
    const int query = min(lane / p.parts, queries - 1);
    FewTie *ties = (FewTie *)(memory + (int)threadIdx.x / 32 * bytes), *own = ties + query * all;
    const int64_t warps = (int64_t)gridDim.x * FEW_WARPS * pixels;
    for (int64_t first = ((int64_t)blockIdx.x * FEW_WARPS + threadIdx.x / 32) * pixels; first < p.units; first += warps) {
        for (int at = lane; at < queries * all; at += 32) {
            const int whose = at / all;
            const FewLane o = few_owner(&p, first + whose / heads, whose % heads, 0);
            FewTie tie = {.frame = -1};
            if (o.there) tie = few_tie(&p, &o, at - whose * all);
            ties[at] = tie;
        }
        __syncwarp();
        FewLane o = few_owner(&p, first + query / heads, query % heads, lane % p.parts);
        o.there = o.there && lane < pixels * each;
        float4 arriving[3][3];
        unsigned inside = 0;
#pragma unroll
        for (int i = 0; i < 9; i++) {
            arriving[i / 3][i % 3] = few_arriving(&p, &o, i / 3, i % 3);
            inside |= few_inside(a, &o, i / 3, i % 3) ? 1u << i : 0;
        }
        bool outside = false;
#pragma unroll 1
        for (int k = 0; k < all; k++) {
            const bool valid = o.there && own[k].frame >= 0;
            FewSlopes s = {0, 0, 0};
            if (valid) s = few_follow(&p, &o, &own[k], arriving, inside);
            __syncwarp();
            s.weight = few_sum(s.weight, p.parts);
            s.y = few_sum(s.y, p.parts);
            s.x = few_sum(s.x, p.parts);
            if (valid && !o.part) own[k].by_weight = s.weight, own[k].by_y = s.y, own[k].by_x = s.x;
            outside = outside || (valid && own[k].outside);
        }
        __syncwarp();
        if (p.job.by_offset.data && __any_sync(SNLS_WARP, outside)) few_slopes_outside(&p, o, own);
        __syncwarp();
        for (int at = lane; at < queries * all; at += 32) {
            const int whose = at / all;
            const FewLane owner = few_owner(&p, first + whose / heads, whose % heads, 0);
            few_write(&p, &owner, at - whose * all, &ties[at]);
        }
        __syncwarp();
    }
}

/* ---- the host's side ---- */

SnlsStatus snls_agg_few_backward(SnlsContext *ctx, const SnlsAggJob *job, const SnlsTensor *value, bool *done)
{
    const SnlsAggregate *a = &job->a;
    FewGather p = {.job = *job, .units = a->batch * a->frames * a->rows * a->columns, .parts = (int32_t)(a->features / 4)};
    *done = false;
    if (ctx->deterministic || a->stack || a->ps != 3 || a->dilation != 1 || a->drop || (a->features != 4 && a->features != 8 && a->features != 16)) return SNLS_OK;
    if (a->heads * p.parts > 32 || p.units >= INT32_MAX || a->height > INT32_MAX / 4 || a->width > INT32_MAX / 4 || a->neighbours < 1) return SNLS_OK;
    if (job->from.dtype != SNLS_F32 || job->to.dtype != SNLS_F32 || !snls_agg_is_vector(a, &job->from, false) || !snls_agg_is_vector(a, &job->to, false)) return SNLS_OK;
    if (value->data && (value->dtype != SNLS_F32 || !snls_agg_is_vector(a, value, false))) return SNLS_OK;
    p.value = {.mode = value->data ? SINK_ADD : SINK_NONE, .data = (float *)value->data, .features = a->features};
    for (int i = 0; i < 4; i++) p.value.step[i] = value->stride[i];
    const int64_t pixels = 32 / (a->heads * p.parts), bytes = pixels * a->heads * a->neighbours * (int64_t)sizeof(FewTie);
    if (FEW_WARPS * bytes > 48 << 10) return SNLS_OK;
    *done = true;
    const unsigned blocks = snls_cuda_blocks(p.units, FEW_WARPS * pixels, 64 * (int64_t)snls_cuda(ctx)->multiprocessors);
    follow_few<<<blocks, 32 * FEW_WARPS, (size_t)(FEW_WARPS * bytes), snls_cuda_stream(ctx)>>>(p, (int)bytes);
    return snls_cuda_check(ctx, a->op, cudaGetLastError());
}
