/* stack.cu: gather of single pixels into a stack, and its gradient by value, where channels lie side by side, by eights: what a network
 * does to features of many channels. Forward a warp works out 32 neighbours, one a lane, then its lanes copy their channels; where it is the
 * neighbours that lie side by side in the stack, they are turned around on the way. Backward
 * the taps of all neighbours are sorted by the pixel they read, and each pixel adds what reached it: in f32, whatever the type of
 * the gradient, and with `ordered` in the same order every time. */
#include "cuda/aggregate.cuh"
#include "cuda/bins.cuh"

enum { EIGHT = 8, AHEAD = 4, TAPS = 4, SCRATCH_MOST = 96 << 20 };

typedef struct StackJob {
    SnlsAggJob job;
    SnlsBins bins;       /* entries: TAPS a neighbour; cells: pixels of value, head by head */
    uint2 *records;      /* in the order of the bins: first piece of eight at the destination, weight */
    int64_t entries;     /* neighbours */
    int32_t pieces;      /* of eight channels, of a head */
    SnlsDivisor by_pieces;
} StackJob;

/* One neighbour: where it is read, by up to four taps, and where it goes; elements of channel 0. */
typedef struct StackEntry { int64_t from, to; int32_t down, right; float weight, tap[TAPS]; } StackEntry;
typedef struct StackPlace { int32_t plane, frame, y[2], x[2]; } StackPlace; /* of the taps */

static __device__ bool find_entry(const SnlsAggJob *job, uint32_t number, StackEntry *e, StackPlace *p)
{
    const SnlsAggregate *a = &job->a;
    const uint32_t query = snls_divide(number, job->neighbours), line = snls_divide(query, job->columns), clip = snls_divide(line, job->rows), plane = snls_divide(clip, job->frames);
    const int32_t k = (int32_t)(number - query * job->neighbours.divisor), j = (int32_t)(query - line * job->columns.divisor), i = (int32_t)(line - clip * job->rows.divisor);
    const int32_t t = (int32_t)(clip - plane * job->frames.divisor), b = (int32_t)snls_divide(plane, job->heads), head = (int32_t)plane - b * (int32_t)job->heads.divisor;
    SnlsAggNear n;
    e->to = snls_at6(&a->out, b, head, k, t, i, j);
    e->weight = 0;
    for (int c = 0; c < TAPS; c++) e->tap[c] = 0;
    e->from = e->down = e->right = 0;
    if (!snls_agg_near(job, snls_at6(&a->offset, b, head, t, i, j, k), t, i, j, &n)) return false;
    const SnlsAggAxis v = snls_agg_axis(n.y, (int32_t)a->height, false), u = snls_agg_axis(n.x, (int32_t)a->width, false);
    e->weight = snls_agg_weight(job, snls_at6(&a->weight, b, head, t, i, j, k));
    e->from = snls_at5(&a->value, b, n.frame, v.at[0], u.at[0], head * a->features);
    e->down = (int32_t)((v.at[1] - v.at[0]) * a->value.stride[2]);
    e->right = (int32_t)((u.at[1] - u.at[0]) * a->value.stride[3]);
    p->plane = (int32_t)plane, p->frame = n.frame;
    for (int c = 0; c < 2; c++) p->y[c] = v.at[c], p->x[c] = u.at[c];
    for (int c = 0; c < TAPS; c++) e->tap[c] = v.weight[c / 2] * u.weight[c % 2];
    return true;
}

/* ---- eight channels ---- */

typedef struct Eight { float4 low, high; } Eight;

template <int DTYPE> static __device__ __forceinline__ Eight load_eight(const void *data, int64_t at)
{
    if (DTYPE == SNLS_F32) {
        const Eight e = {snls_agg_load4<DTYPE, true>(data, at, 1, 4), snls_agg_load4<DTYPE, true>(data, at + 4, 1, 4)};
        return e;
    }
    const uint4 u = __ldg((const uint4 *)((const unsigned short *)data + at));
    const Eight e = {make_float4(__uint_as_float(u.x << 16), __uint_as_float(u.x & 0xffff0000u), __uint_as_float(u.y << 16), __uint_as_float(u.y & 0xffff0000u)),
                     make_float4(__uint_as_float(u.z << 16), __uint_as_float(u.z & 0xffff0000u), __uint_as_float(u.w << 16), __uint_as_float(u.w & 0xffff0000u))};
    return e;
}

static __device__ __forceinline__ uint32_t two_of(float x, float y)
{
    const __nv_bfloat162 v = __floats2bfloat162_rn(x, y);
    uint32_t u;
    memcpy(&u, &v, sizeof u);
    return u;
}

template <int DTYPE> static __device__ __forceinline__ void store_eight(void *data, int64_t at, Eight e)
{
    if (DTYPE == SNLS_F32) {
        ((float4 *)((float *)data + at))[0] = e.low;
        ((float4 *)((float *)data + at))[1] = e.high;
        return;
    }
    *(uint4 *)((unsigned short *)data + at) = make_uint4(two_of(e.low.x, e.low.y), two_of(e.low.z, e.low.w), two_of(e.high.x, e.high.y), two_of(e.high.z, e.high.w));
}

static __device__ __forceinline__ void add_eight(Eight *sum, float w, Eight e)
{
    snls_agg_fma(&sum->low, w, e.low);
    snls_agg_fma(&sum->high, w, e.high);
}

/* ---- forward ---- */

/* What lane `from` worked out. */
static __device__ __forceinline__ StackEntry entry_of(const StackEntry *mine, int from, bool whole)
{
    StackEntry e;
    e.from = __shfl_sync(0xffffffffu, mine->from, from);
    e.to = __shfl_sync(0xffffffffu, mine->to, from);
    e.weight = __shfl_sync(0xffffffffu, mine->weight, from);
    if (whole) return e;
    e.down = __shfl_sync(0xffffffffu, mine->down, from);
    e.right = __shfl_sync(0xffffffffu, mine->right, from);
    for (int c = 0; c < TAPS; c++) e.tap[c] = __shfl_sync(0xffffffffu, mine->tap[c], from);
    return e;
}

/* The read first, the neighbour's weight then: it may be infinite. A tap that weighs nothing is not read. */
template <int DTYPE> static __device__ __forceinline__ Eight read_entry(const void *data, const StackEntry *e, int channel, bool whole)
{
    Eight sum = {}, read = {};
    if (whole) read = load_eight<DTYPE>(data, e->from + channel);
    else
#pragma unroll
        for (int c = 0; c < TAPS; c++)
            if (e->tap[c] != 0) add_eight(&read, e->tap[c], load_eight<DTYPE>(data, e->from + (c / 2 ? e->down : 0) + (c % 2 ? e->right : 0) + channel));
    add_eight(&sum, e->weight, read);
    return sum;
}

/* Entries of this warp's 32, their channels AHEAD at a time: all loads before the first store. */
template <int DTYPE> static __device__ __forceinline__ void copy_entries(const StackJob *s, const StackEntry *mine, int count, bool whole)
{
    const int lane = (int)threadIdx.x % 32;
    for (int first = 0; first < count * s->pieces; first += 32 * AHEAD) {
        Eight v[AHEAD];
        int64_t to[AHEAD];
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            const int piece = first + i * 32 + lane, entry = (int)snls_divide((uint32_t)piece, s->by_pieces), channel = (piece - entry * s->pieces) * EIGHT;
            const bool there = piece < count * s->pieces;
            const StackEntry e = entry_of(mine, there ? entry : 0, whole);
            to[i] = there ? e.to + channel : -1;
            if (there) v[i] = read_entry<DTYPE>(s->job.a.value.data, &e, channel, whole);
        }
#pragma unroll
        for (int i = 0; i < AHEAD; i++)
            if (to[i] >= 0) store_eight<DTYPE>(s->job.a.out.data, to[i], v[i]);
    }
}

/* Entries first .. of this warp, one a lane; whether all of them lie on whole pixels. */
static __device__ __forceinline__ bool find_entries(const StackJob *s, int64_t first, int count, StackEntry *e)
{
    const int lane = (int)threadIdx.x % 32;
    StackPlace p;
    bool found = true;
    if (lane < count) found = find_entry(&s->job, (uint32_t)(first + lane), e, &p);
    return __all_sync(0xffffffffu, lane >= count || (found && e->tap[1] == 0 && e->tap[2] == 0 && e->tap[3] == 0));
}

template <int DTYPE> static __global__ void __launch_bounds__(SNLS_AGG_THREADS) stack_forward(const __grid_constant__ StackJob s)
{
    const int64_t first = ((int64_t)blockIdx.x * SNLS_AGG_THREADS + threadIdx.x) / 32 * 32, left = s.entries - first;
    const int count = left < 32 ? (int)left : 32;
    StackEntry e;
    if (left <= 0) return;
    if (find_entries(&s, first, count, &e)) copy_entries<DTYPE>(&s, &e, count, true);
    else copy_entries<DTYPE>(&s, &e, count, false);
}

/* ---- forward where the neighbours of a channel lie side by side, the channels of a head behind each other ---- */

/* A warp has as many queries as it has lanes for their neighbours, and turns them around in shared memory. */
template <int DTYPE, typename T> static __device__ __forceinline__ void turn_entries(const StackJob *s, const StackEntry *mine, int count, bool whole, T *own)
{
    const int lane = (int)threadIdx.x % 32, k = (int)s->job.neighbours.divisor, size = k * s->pieces * EIGHT;
    for (int first = 0; first < count * s->pieces; first += 32) {
        const int piece = first + lane, entry = (int)snls_divide((uint32_t)piece, s->by_pieces), query = (int)snls_divide((uint32_t)entry, s->job.neighbours);
        const bool there = piece < count * s->pieces;
        const StackEntry e = entry_of(mine, there ? entry : 0, whole);
        if (!there) continue;
        const int channel = (piece - entry * s->pieces) * EIGHT;
        const Eight v = read_entry<DTYPE>(s->job.a.value.data, &e, channel, whole);
        const float of[EIGHT] = {v.low.x, v.low.y, v.low.z, v.low.w, v.high.x, v.high.y, v.high.z, v.high.w};
        T *to = own + query * size + channel * k + (entry - query * k);
#pragma unroll
        for (int i = 0; i < EIGHT; i++) to[i * k] = (T)of[i];
    }
}

template <int DTYPE, typename T> static __global__ void __launch_bounds__(SNLS_AGG_THREADS) stack_turned(const __grid_constant__ StackJob s)
{
    extern __shared__ __align__(16) char turned[];
    constexpr int WIDE = 16 / sizeof(T);
    const int lane = (int)threadIdx.x % 32, k = (int)s.job.neighbours.divisor, queries = 32 / k, size = k * s.pieces * EIGHT;
    const int64_t first = ((int64_t)blockIdx.x * SNLS_AGG_THREADS + threadIdx.x) / 32 * queries * k, left = s.entries - first;
    const int count = (int)min(left, (int64_t)queries * k);
    T *own = (T *)turned + (int)threadIdx.x / 32 * queries * size;
    StackEntry e;
    if (left <= 0) return;
    if (find_entries(&s, first, count, &e)) turn_entries<DTYPE>(&s, &e, count, true, own);
    else turn_entries<DTYPE>(&s, &e, count, false, own);
    __syncwarp();
    for (int query = 0; query * k < count; query++) {
        uint4 *to = (uint4 *)((T *)s.job.a.out.data + __shfl_sync(0xffffffffu, e.to, query * k));
        for (int i = lane; i < size / WIDE; i += 32) to[i] = ((const uint4 *)(own + query * size))[i];
    }
}

/* ---- backward ---- */

static __global__ void __launch_bounds__(SNLS_AGG_THREADS) count_taps(const __grid_constant__ StackJob s)
{
    for (SNLS_CUDA_EACH(n, s.entries)) {
        const SnlsAggregate *a = &s.job.a;
        StackEntry e;
        StackPlace p;
        const bool found = find_entry(&s.job, (uint32_t)n, &e, &p);
        for (int c = 0; c < TAPS; c++) {
            uint32_t cell = SNLS_BIN_NONE;
            if (found && e.tap[c] != 0) cell = (uint32_t)(((p.plane * (int32_t)a->frames + p.frame) * (int32_t)a->height + p.y[c / 2]) * (int32_t)a->width + p.x[c % 2]);
            snls_bin_count(&s.bins, TAPS * n + c, cell);
        }
    }
}

static __global__ void __launch_bounds__(SNLS_AGG_THREADS) fill_taps(const __grid_constant__ StackJob s)
{
    for (SNLS_CUDA_EACH(n, s.entries)) {
        const uint4 cells = ((const uint4 *)s.bins.keys)[n];
        const uint32_t cell[TAPS] = {cells.x, cells.y, cells.z, cells.w};
        StackEntry e;
        StackPlace p;
        find_entry(&s.job, (uint32_t)n, &e, &p);
        for (int c = 0; c < TAPS; c++)
            if (cell[c] != SNLS_BIN_NONE) s.records[atomicAdd(&s.bins.ends[cell[c]], 1u)] = make_uint2((uint32_t)(e.to / EIGHT), __float_as_uint(e.weight * e.tap[c]));
    }
}

/* The same from a list in which each cell's taps rise. */
static __global__ void __launch_bounds__(SNLS_AGG_THREADS) expand_taps(const __grid_constant__ StackJob s)
{
    for (SNLS_CUDA_EACH(at, s.bins.ends[s.bins.cells - 1])) {
        const uint32_t tap = s.bins.list[at];
        StackEntry e;
        StackPlace p;
        find_entry(&s.job, tap / TAPS, &e, &p);
        s.records[at] = make_uint2((uint32_t)(e.to / EIGHT), __float_as_uint(e.weight * e.tap[tap % TAPS]));
    }
}

/* Everything that reached a pixel, AHEAD at a time: lists of pixels that many found are long. */
template <int DTYPE> static __device__ __forceinline__ Eight sum_records(const StackJob *s, const uint2 *records, uint32_t count, int32_t piece)
{
    Eight sum = {};
    for (uint32_t first = 0; first < count; first += AHEAD) {
        Eight v[AHEAD];
        float weight[AHEAD];
#pragma unroll
        for (uint32_t i = 0; i < AHEAD; i++) {
            if (first + i >= count) continue;
            const uint2 r = __ldg(records + first + i);
            weight[i] = __uint_as_float(r.y);
            v[i] = load_eight<DTYPE>(s->job.from.data, ((int64_t)r.x + piece) * EIGHT);
        }
#pragma unroll
        for (uint32_t i = 0; i < AHEAD; i++)
            if (first + i < count) add_eight(&sum, weight[i], v[i]);
    }
    return sum;
}

template <int DTYPE> static __global__ void __launch_bounds__(SNLS_AGG_THREADS) stack_backward(const __grid_constant__ StackJob s)
{
    const SnlsAggregate *a = &s.job.a;
    for (SNLS_CUDA_EACH(n, s.bins.cells * s.pieces)) {
        const uint32_t cell = snls_divide((uint32_t)n, s.by_pieces), begin = snls_bin_begin(&s.bins, cell), count = s.bins.ends[cell] - begin;
        const int32_t piece = (int32_t)((uint32_t)n - cell * s.by_pieces.divisor);
        const uint32_t line = snls_divide(cell, s.job.width), clip = snls_divide(line, s.job.height), plane = snls_divide(clip, s.job.frames), b = snls_divide(plane, s.job.heads);
        const int64_t to = snls_at5(&s.job.to, b, clip - plane * s.job.frames.divisor, line - clip * s.job.height.divisor, cell - line * s.job.width.divisor,
                                    (plane - b * s.job.heads.divisor) * a->features + piece * EIGHT);
        if (!count) continue;
        Eight sum = sum_records<DTYPE>(&s, s.records + begin, count, piece);
        add_eight(&sum, 1, load_eight<DTYPE>(s.job.to.data, to));
        store_eight<DTYPE>(s.job.to.data, to, sum);
    }
}

/* ---- when, and how ---- */

/* Steps along axes before `last` but one are eights. */
static bool in_eights(const SnlsTensor *t, int last, int but)
{
    if (t->dtype != SNLS_F32 && t->dtype != SNLS_BF16) return false;
    if (!t->data || (uintptr_t)t->data % 16) return false;
    for (int i = 0; i < last; i++)
        if (i != but && t->shape[i] > 1 && (t->stride[i] % EIGHT || t->stride[i] < 0)) return false;
    return true;
}

static bool by_eights(const SnlsTensor *t, int last) { return in_eights(t, last, -1) && (t->shape[last] == 1 || t->stride[last] == 1); }

/* A stack whose neighbours lie side by side. */
static bool by_neighbours(const SnlsTensor *t) { return in_eights(t, 6, 2) && t->shape[2] > 1 && t->shape[2] <= 32 && t->stride[2] == 1 && t->stride[6] == t->shape[2]; }

/* value and out: tensors of the call, or their gradients. */
static bool applies(const SnlsAggJob *job, const SnlsTensor *value, const SnlsTensor *out, StackJob *s)
{
    const SnlsAggregate *a = &job->a;
    const int64_t queries = a->batch * a->heads * a->frames * a->rows * a->columns;
    if (!a->stack || a->ps != 1 || a->stride0 != 1 || a->features % EIGHT || value->dtype != out->dtype || !by_eights(value, 4)) return false;
    if (queries < 1 || a->neighbours < 1 || a->features < 1 || queries >= INT32_MAX / a->neighbours / TAPS || queries >= INT32_MAX / a->features) return false;
    if (a->height * value->stride[2] >= INT32_MAX) return false;
    memset(s, 0, sizeof *s);
    s->job = *job;
    s->job.a.value = *value;
    s->job.a.out = *out;
    s->entries = queries * a->neighbours;
    s->pieces = (int32_t)(a->features / EIGHT);
    s->by_pieces = snls_divisor(s->pieces);
    return true;
}

static SnlsStatus forward_turned(SnlsContext *ctx, const StackJob *s, bool *done)
{
    const int64_t k = s->job.a.neighbours, queries = 32 / k, warps = SNLS_AGG_THREADS / 32;
    const int64_t bytes = warps * queries * k * s->job.a.features * snls_dtype_size((SnlsDtype)s->job.a.out.dtype);
    *done = bytes <= 48 << 10;
    if (!*done) return SNLS_OK;
    const unsigned blocks = snls_cuda_blocks(s->entries, queries * k * warps, 0);
    if (s->job.a.out.dtype == SNLS_F32) stack_turned<SNLS_F32, float><<<blocks, SNLS_AGG_THREADS, (size_t)bytes, snls_cuda_stream(ctx)>>>(*s);
    else stack_turned<SNLS_BF16, __nv_bfloat16><<<blocks, SNLS_AGG_THREADS, (size_t)bytes, snls_cuda_stream(ctx)>>>(*s);
    return snls_cuda_check(ctx, s->job.a.op, cudaGetLastError());
}

SnlsStatus snls_agg_stack_forward(SnlsContext *ctx, const SnlsAggJob *job, bool *done)
{
    StackJob s;
    *done = applies(job, &job->from, &job->to, &s);
    if (*done && by_neighbours(&job->to)) return forward_turned(ctx, &s, done);
    /* few channels in f32: a lane for each pixel and four channels (pull.cu) is faster, 0.39 ms against 0.48 in case D */
    *done = *done && (job->from.dtype == SNLS_BF16 || job->a.features > 32) && by_eights(&job->to, 6);
    if (!*done) return SNLS_OK;
    const unsigned blocks = snls_cuda_blocks(s.entries, SNLS_AGG_THREADS, 0);
    if (job->from.dtype == SNLS_F32) stack_forward<SNLS_F32><<<blocks, SNLS_AGG_THREADS, 0, snls_cuda_stream(ctx)>>>(s);
    else stack_forward<SNLS_BF16><<<blocks, SNLS_AGG_THREADS, 0, snls_cuda_stream(ctx)>>>(s);
    return snls_cuda_check(ctx, job->a.op, cudaGetLastError());
}

/* Elements of the destination, by eights, are numbered in 32 bits. */
static bool is_small(const SnlsTensor *out)
{
    double last = 0;
    for (int i = 0; i < 6; i++) last += (double)(out->shape[i] - 1) * (double)out->stride[i];
    return last / 8 < UINT32_MAX - 1;
}

static SnlsStatus sort_taps(SnlsContext *ctx, StackJob *s, bool ordered)
{
    const char *op = s->job.a.op;
    const int64_t taps = TAPS * s->entries, cells = s->entries / s->job.a.neighbours; /* a query a pixel */
    const unsigned blocks = snls_cuda_blocks(s->entries, SNLS_AGG_THREADS, 0);
    snls_arena_begin(&ctx->arena);
    snls_bins_plan(ctx, taps, cells);
    snls_arena_plan(&ctx->arena, taps, sizeof(uint2));
    SNLS_TRY(snls_cuda_commit(ctx, op));
    snls_bins_claim(ctx, &s->bins, taps, cells);
    s->records = (uint2 *)snls_arena_claim(&ctx->arena, taps, sizeof(uint2));
    SNLS_TRY(snls_bins_begin(ctx, op, &s->bins));
    count_taps<<<blocks, SNLS_AGG_THREADS, 0, snls_cuda_stream(ctx)>>>(*s);
    SNLS_CUDA_LAUNCHED(ctx, op);
    SNLS_TRY(snls_bins_scan(ctx, op, &s->bins));
    if (ordered) SNLS_TRY(snls_bins_fill(ctx, op, &s->bins, true));
    if (ordered) expand_taps<<<TAPS * blocks, SNLS_AGG_THREADS, 0, snls_cuda_stream(ctx)>>>(*s);
    else fill_taps<<<blocks, SNLS_AGG_THREADS, 0, snls_cuda_stream(ctx)>>>(*s);
    return snls_cuda_check(ctx, op, cudaGetLastError());
}

SnlsStatus snls_agg_stack_backward(SnlsContext *ctx, const SnlsAggJob *job, bool ordered, bool *done)
{
    StackJob s;
    *done = job->add && applies(job, &job->to, &job->from, &s) && by_eights(&job->from, 6) && is_small(&job->from) && s.entries * TAPS * (int64_t)(2 * sizeof(uint32_t) + sizeof(uint2)) <= SCRATCH_MOST;
    if (!*done) return SNLS_OK;
    SNLS_TRY(sort_taps(ctx, &s, ordered));
    const unsigned blocks = snls_cuda_blocks(s.bins.cells * s.pieces, SNLS_AGG_THREADS, 0);
    if (job->to.dtype == SNLS_F32) stack_backward<SNLS_F32><<<blocks, SNLS_AGG_THREADS, 0, snls_cuda_stream(ctx)>>>(s);
    else stack_backward<SNLS_BF16><<<blocks, SNLS_AGG_THREADS, 0, snls_cuda_stream(ctx)>>>(s);
    return snls_cuda_check(ctx, job->a.op, cudaGetLastError());
}
