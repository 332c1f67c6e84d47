/* few_grad.cu: gradients of search and refine by 3 x 3 patches, few features a head (few.h). A lane has four features of a query: what
 * goes to its nine pixels is summed over the neighbours in registers. A neighbour's patch touches 4 x 4 key pixels; each is read once
 * and added to once. Beyond the frame pixels are the mirrored ones, which gives the same values and, between pixels, the same
 * slopes; on whole pixels beyond the frame the slope is that of the definition, from its other side (pull_outside). */
#include "cuda/few_patch.h"
#include "cuda/match_grad.h"

enum { FEW_PLACES = 16 }; /* most windows a query may have */

/* A kept neighbour, in shared memory. */
typedef struct FewKept {
    int32_t y, x, frame;     /* taps of its centre; frame -1: none */
    int16_t window;
    int8_t  slope_y, slope_x;
    float   fy, fx, g;       /* fractions folded */
    int32_t outside;         /* some pixel of the patch is a whole one beyond the frame */
} FewKept;

static __device__ __forceinline__ FewLane few_lane(const CudaGrad *p, int64_t unit, int head, int part)
{
    const SnlsMatch *m = &p->c.m;
    FewLane q = {.head = head, .part = part, .there = unit < p->units};
    const uint32_t at = (uint32_t)(p->first + (q.there ? unit : p->units - 1)), columns = (uint32_t)m->columns, rows = (uint32_t)m->rows, frames = (uint32_t)m->frames;
    const uint32_t line = at / columns, plane = line / rows, clip = plane / frames;
    q.b = (int32_t)clip;
    q.t = (int32_t)(plane - clip * frames);
    q.i = (int32_t)(line - plane * rows);
    q.j = (int32_t)(at - line * columns);
    return q;
}

static __device__ __forceinline__ bool few_outside(int32_t tap, float fraction, int64_t n) { return fraction == 0 && (tap == 0 || tap == n - 1); }

static __device__ __forceinline__ FewKept few_find(const CudaGrad *p, const FewLane *lane, int64_t kept)
{
    const SnlsMatch *m = &p->c.m;
    const SnlsQuery q = few_query(lane);
    FewKept k = {.frame = -1};
    const int32_t id = ((const int32_t *)m->index.data)[snls_at6(&m->index, q.b, q.head, q.t, q.i, q.j, kept)];
    if (id < 0 || id >= m->windows * m->side * m->side) return k;
    const uint32_t side = (uint32_t)m->side, window = (uint32_t)id / (side * side), cell = (uint32_t)id - window * side * side, row = cell / side;
    const SnlsMatchWindow w = snls_match_window(m, &q, window);
    const double y = snls_match_y(m, &w, row), x = snls_match_x(m, &w, cell - row * side);
    if (!w.valid || !snls_inside(y, m->height) || !snls_inside(x, m->width)) return k;
    const int64_t frame = q.b * m->frames + w.frame;
    if (p->key.mode && (frame < p->key.first || frame >= p->key.end)) return k; /* not of this chunk */
    k.y = (int32_t)y;
    k.x = (int32_t)x;
    k.fy = snls_fold(y - (double)k.y);
    k.fx = snls_fold(x - (double)k.x);
    k.frame = (int32_t)w.frame;
    k.window = (int16_t)window;
    k.slope_y = (int8_t)w.slope_y;
    k.slope_x = (int8_t)w.slope_x;
    k.g = ((const float *)p->dist.data)[snls_at6(&p->dist, q.b, q.head, q.t, q.i, q.j, kept)];
    k.outside = few_outside(k.y, k.fy, m->height) || few_outside(k.x, k.fx, m->width);
    return k;
}

/* dL/d place of this lane's features, pixel by pixel as the definition has it. */
static __device__ __forceinline__ float2 pull_outside(const CudaGrad *p, FewLane lane, const FewKept *k)
{
    const CudaMatch *c = &p->c;
    const SnlsQuery q = few_query(&lane);
    const double y = (double)k->y + snls_unfold(k->fy), x = (double)k->x + snls_unfold(k->fx);
    float2 place = make_float2(0, 0);
    for (int i = 0; i < 9; i++) {
        CudaAxis v, h;
        snls_cuda_axis(&c->m, q.i, y, i / 3, c->m.height, &v);
        snls_cuda_axis(&c->m, q.j, x, i % 3, c->m.width, &h);
        const CudaPair pair = snls_cuda_pair(c, &q, k->frame, &v, &h);
        const float4 a = pair.query[lane.part], b = snls_cuda_blend(&pair, lane.part), by_key = c->m.prod ? scaled(a, k->g) : scaled(snls_cuda_minus(a, b), -2 * k->g);
        for (int n = 0; n < 2; n++) {
            if (h.key.weight[n] != 0)
                place.x += (float)(v.slope * h.key.weight[n]) * snls_cuda_dot(by_key, snls_cuda_minus(pair.key[1][n][lane.part], pair.key[0][n][lane.part]), 0);
            if (v.key.weight[n] != 0)
                place.y += (float)(h.slope * v.key.weight[n]) * snls_cuda_dot(by_key, snls_cuda_minus(pair.key[n][1][lane.part], pair.key[n][0][lane.part]), 0);
        }
    }
    return place; /* along y, along x */
}

/* One neighbour: `sum` gets what goes to the query's pixels. Gives dL/d place, this lane's share. */
template <bool PLACE, bool L2, bool SCRATCH> static __device__ __forceinline__ float2 few_neighbour(const CudaGrad *p, const FewLane *q, const FewKept *shared, float4 (&sum)[3][3])
{
    const CudaMatch *c = &p->c;
    const SnlsMatch *m = &c->m;
    const FewKept k = *shared;
    const FewMix my = few_mix(k.fy), mx = few_mix(k.fx);
    const int height = (int)m->height, width = (int)m->width;
    const float4 *key = snls_cuda_pixel(&c->key, q->b, q->head, k.frame, 0, 0) + q->part;
    const FewTarget to = few_target<SCRATCH>(&p->key, q->b, k.frame, q->head, q->part);
    const int32_t x = q->j * (int32_t)m->stride0 - 1, y = q->i * (int32_t)m->stride0 - 1;
    int32_t column[4];
#pragma unroll
    for (int i = 0; i < 4; i++) column[i] = few_near(k.x - 1 + i, width);
    float4 across[2][3], slope[2][3], by_key[2][3] = {};
    float2 place = make_float2(0, 0);
#pragma unroll
    for (int r = 0; r < 4; r++) {
        const float4 *line = key + few_near(k.y - 1 + r, height) * c->key.step[2];
        float4 pixel[4];
#pragma unroll
        for (int i = 0; i < 4; i++) pixel[i] = __ldg(line + column[i] * c->key.step[3]);
#pragma unroll
        for (int i = 0; i < 3; i++) {
            across[r % 2][i] = few_between(pixel[i], pixel[i + 1], mx);
            if (PLACE) slope[r % 2][i] = snls_cuda_minus(pixel[i + 1], pixel[i]);
        }
        if (r == 0) continue;
        const int above = (r + 1) % 2, below = r % 2;
        const float4 *query = snls_cuda_pixel(&c->query, q->b, q->head, q->t, few_near(y + r - 1, height), 0) + q->part;
#pragma unroll
        for (int i = 0; i < 3; i++) {
            const float4 a = __ldg(query + few_near(x + i, width) * c->query.step[3]), b = few_between(across[above][i], across[below][i], my);
            const float4 d = L2 ? few_times(2 * k.g, snls_cuda_minus(b, a)) : few_times(k.g, a);
            by_key[below][i] = d; /* of patch row r - 1 */
            if (L2) sum[r - 1][i] = snls_cuda_minus(sum[r - 1][i], d);
            else snls_cuda_axpy(&sum[r - 1][i], k.g, b);
            if (PLACE) {
                place.x = snls_cuda_dot(d, snls_cuda_minus(across[below][i], across[above][i]), place.x);
                place.y = snls_cuda_dot(d, few_between(slope[above][i], slope[below][i], my), place.y);
            }
        }
        if (p->key.mode) few_flush<SCRATCH>(&to, few_near(k.y - 2 + r, height), column, my, mx, by_key[above], by_key[below], true);
    }
    if (p->key.mode && my.high != 0) few_flush<SCRATCH>(&to, few_near(k.y + 2, height), column, my, mx, by_key[1], by_key[1], false);
    return place;
}

/* What a neighbour says of the flow vector or given offset of its window, to the query's sums. */
static __device__ __forceinline__ void few_place(const CudaGrad *p, const FewLane *q, const FewKept *k, bool valid, float2 place, int64_t kept, float2 *places)
{
    for (int step = p->c.parts / 2; step > 0; step /= 2) {
        place.x += __shfl_xor_sync(SNLS_WARP, place.x, step);
        place.y += __shfl_xor_sync(SNLS_WARP, place.y, step);
    }
    if (!valid || q->part || !snls_match_has_centre(&p->c.m, k->window)) return;
    if (k->outside) place = make_float2(0, 0); /* few_places_outside */
    if (p->offset.data) {
        const float *d = (const float *)p->offset.data + snls_at6(&p->offset, q->b, q->head, q->t, q->i, q->j, kept);
        place.x += d[p->offset.stride[6]];
        place.y += d[2 * p->offset.stride[6]];
    }
    places[k->window].x += (float)k->slope_y * place.x;
    places[k->window].y += (float)k->slope_x * place.y;
}

/* Slopes of the neighbours that have whole pixels beyond the frame. Apart: they are rare. */
static __device__ __noinline__ void few_places_outside(const CudaGrad *p, FewLane q, const FewKept *found, float2 *places)
{
    for (int kept = 0; kept < (int)p->c.m.kept; kept++) {
        const FewKept *k = &found[kept];
        const bool valid = q.there && k->frame >= 0 && k->outside && snls_match_has_centre(&p->c.m, k->window);
        float2 place = make_float2(0, 0);
        if (valid) place = pull_outside(p, q, k);
        __syncwarp();
        for (int step = p->c.parts / 2; step > 0; step /= 2) {
            place.x += __shfl_xor_sync(SNLS_WARP, place.x, step);
            place.y += __shfl_xor_sync(SNLS_WARP, place.y, step);
        }
        if (!valid || q.part) continue;
        places[k->window].x += (float)k->slope_y * place.x;
        places[k->window].y += (float)k->slope_x * place.y;
    }
    __syncwarp();
}

/* Sums of the warp's queries to the centres, which have one owner: heads that share a flow are in one warp. */
static __device__ __forceinline__ void few_give_places(const CudaGrad *p, int64_t first, int pixels, const float2 *places)
{
    const SnlsMatch *m = &p->into;
    const int heads = (int)m->heads, windows = (int)m->windows, owners = m->refine || m->centre.ndim == 7 ? heads : 1;
    for (int at = (int)threadIdx.x % 32; at < pixels * owners * windows; at += 32) {
        const int window = at % windows, head = at / windows % owners, pixel = at / windows / owners;
        const FewLane lane = few_lane(p, first + pixel, head, 0);
        if (!lane.there || !snls_match_has_centre(m, window)) continue;
        const SnlsQuery q = {lane.b, head, lane.t, lane.i, lane.j};
        float2 sum = make_float2(0, 0);
        for (int h = head; h < (owners == 1 ? heads : head + 1); h++) {
            sum.x += places[(pixel * heads + h) * windows + window].x;
            sum.y += places[(pixel * heads + h) * windows + window].y;
        }
        float *to = (float *)m->centre.data + snls_match_centre_at(m, &q, window);
        to[snls_match_step_y(m)] += sum.x;
        to[snls_match_step_x(m)] += sum.y;
    }
}

template <bool SCRATCH> static __device__ __forceinline__ void few_give_query(const CudaGrad *p, const FewLane *q, const float4 (&sum)[3][3])
{
    const SnlsMatch *m = &p->c.m;
    const FewTarget to = few_target<SCRATCH>(&p->query, q->b, q->t, q->head, q->part);
#pragma unroll
    for (int i = 0; i < 9; i++) {
        const int32_t y = few_near(q->i * (int32_t)m->stride0 + i / 3 - 1, (int32_t)m->height), x = few_near(q->j * (int32_t)m->stride0 + i % 3 - 1, (int32_t)m->width);
        few_put<SCRATCH>(&to, to.base + y * to.down + x * to.right, sum[i / 3][i % 3]);
    }
}

/* All neighbours of the warp's queries, before anything else takes registers. */
static __device__ __forceinline__ void few_find_all(const CudaGrad *p, int64_t first, int queries, FewKept *found)
{
    const int heads = (int)p->c.m.heads, kept = (int)p->c.m.kept;
    for (int at = (int)threadIdx.x % 32; at < queries * kept; at += 32) {
        const int query = at / kept;
        const FewLane q = few_lane(p, first + query / heads, query % heads, 0);
        FewKept k = {.frame = -1};
        if (q.there) k = few_find(p, &q, at % kept);
        found[at] = k;
    }
}

template <bool PLACE, bool L2, bool SCRATCH> static __global__ void __launch_bounds__(32 * FEW_WARPS, 3) pull_few(const __grid_constant__ CudaGrad p, int bytes)
{
    extern __shared__ __align__(16) char memory[];
    const SnlsMatch *m = &p.c.m;
    const int lane = (int)threadIdx.x % 32, heads = (int)m->heads, each = heads * p.c.parts, pixels = 32 / each, queries = pixels * heads, kept = (int)m->kept;
    const int query = min(lane / p.c.parts, queries - 1);
    FewKept *found = (FewKept *)(memory + (int)threadIdx.x / 32 * bytes), *own = found + query * kept;
    float2 *places = (float2 *)(found + queries * kept), *own_places = places + query * m->windows;
    const int64_t warps = (int64_t)gridDim.x * FEW_WARPS * pixels;
    for (int64_t first = ((int64_t)blockIdx.x * FEW_WARPS + threadIdx.x / 32) * pixels; first < p.units; first += warps) {
        few_find_all(&p, first, queries, found);
        for (int i = lane; PLACE && i < queries * (int)m->windows; i += 32) places[i] = make_float2(0, 0);
        __syncwarp();
        FewLane q = few_lane(&p, first + query / heads, query % heads, lane % p.c.parts);
        q.there = q.there && lane < pixels * each;
        float4 sum[3][3] = {};
        bool outside = false;
#pragma unroll 1
        for (int n = 0; n < kept; n++) {
            const bool valid = q.there && own[n].frame >= 0;
            float2 place = make_float2(0, 0);
            if (valid) place = few_neighbour<PLACE, L2, SCRATCH>(&p, &q, &own[n], sum);
            __syncwarp();
            if (PLACE) few_place(&p, &q, &own[n], valid, place, n, own_places);
            outside = outside || (valid && own[n].outside);
        }
        if (p.query.mode && q.there) few_give_query<SCRATCH>(&p, &q, sum);
        __syncwarp();
        if (PLACE && __any_sync(SNLS_WARP, outside)) few_places_outside(&p, q, own, own_places);
        if (PLACE) few_give_places(&p, first, pixels, places);
        __syncwarp();
    }
}

/* ---- the host's side ---- */

static bool in_scratch(const CudaSink *s) { return s->mode == SINK_LARGEST || s->mode == SINK_FIXED; }
static bool fits(const CudaSink *s) { return s->mode == SINK_NONE || ((s->mode == SINK_ADD || in_scratch(s)) && s->quads); }

/* Shared memory of a warp. */
static int64_t bytes_of(const CudaGrad *p)
{
    const int64_t queries = 32 / (p->c.m.heads * p->c.parts) * p->c.m.heads;
    return queries * p->c.m.kept * (int64_t)sizeof(FewKept) + (queries * p->c.m.windows + 1) / 2 * 2 * (int64_t)sizeof(float2);
}

bool snls_cuda_few_grad_applies(const CudaGrad *p)
{
    const SnlsMatch *m = &p->c.m;
    if (m->all || m->ps != 3 || m->dilation != 1 || m->drop || !p->dist.data || m->windows > FEW_PLACES || m->kept > 64) return false;
    if (m->height > INT32_MAX / 4 || m->width > INT32_MAX / 4 || p->first + p->units > UINT32_MAX) return false;
    if (p->want_place && (in_scratch(&p->query) || in_scratch(&p->key))) return false;
    return p->c.key.quads == p->c.parts && p->c.parts <= FEW_QUADS && m->heads * p->c.parts <= 32 && fits(&p->query) && fits(&p->key) &&
           FEW_WARPS * bytes_of(p) <= 48 << 10;
}

template <bool PLACE, bool L2, bool SCRATCH> static SnlsStatus launch(SnlsContext *ctx, const CudaGrad *p)
{
    const int64_t pixels = 32 / (p->c.m.heads * p->c.parts);
    const int bytes = (int)bytes_of(p);
    const unsigned blocks = snls_cuda_blocks(p->units, FEW_WARPS * pixels, 64 * (int64_t)snls_cuda(ctx)->multiprocessors);
    pull_few<PLACE, L2, SCRATCH><<<blocks, 32 * FEW_WARPS, (size_t)(FEW_WARPS * bytes), snls_cuda_stream(ctx)>>>(*p, bytes);
    return snls_cuda_check(ctx, p->c.m.op, cudaGetLastError());
}

/* Integers in scratch are summed for one video at a time, and places with nothing else: see snls_cuda_match_backward. */
SnlsStatus snls_cuda_few_grad(SnlsContext *ctx, const CudaGrad *p)
{
    if (in_scratch(&p->query) || in_scratch(&p->key)) return p->c.m.prod ? launch<false, false, true>(ctx, p) : launch<false, true, true>(ctx, p);
    if (p->want_place) return p->c.m.prod ? launch<true, false, false>(ctx, p) : launch<true, true, false>(ctx, p);
    return p->c.m.prod ? launch<false, false, false>(ctx, p) : launch<false, true, false>(ctx, p);
}
