/* spread.cu: every pixel of the output fetches what is pushed to it: to[source] = sum of w * tap weight * from[destination]. The
 * neighbours of all queries are sorted by the pixel they point at (bins.cuh); the owner of a pixel goes through those around it
 * whose patches reach it. The reflected frame is an image that goes on beyond its borders, linear between its pixels: an owner
 * near the border also goes through what reaches the mirrored pixels that show it. */
#include "cuda/spread.cuh"

enum { TABLE = 8 }; /* rows of cells looked up at once */

/* ---- into the bins ---- */

static __global__ void __launch_bounds__(SNLS_AGG_THREADS) count_entries(const __grid_constant__ SpreadJob s)
{
    const SnlsAggregate *a = &s.job.a;
    for (SNLS_CUDA_EACH(e, s.bins.entries)) {
        const Source q = source_of(&s, (uint32_t)e);
        SnlsAggNear n;
        uint32_t cell = SNLS_BIN_NONE;
        if (near_of(&s, &q, &n)) {
            const int64_t line = (q.plane * a->frames + n.frame) * a->height + (int32_t)n.y - s.targets_at;
            if (line >= 0 && line < s.target_lines) cell = (uint32_t)(line * a->width + (int32_t)n.x);
        }
        snls_bin_count(&s.bins, e, cell);
    }
}

/* number of the entry as it is kept. */
static __device__ __forceinline__ uint32_t pack_number(const SpreadJob *s, const Source *q, uint32_t number, int32_t anchor)
{
    const SnlsAggregate *a = &s->job.a;
    const int32_t y = q->i * (int32_t)a->stride0, x = q->j * (int32_t)a->stride0, most = (int32_t)a->ps - 1; /* half or more before a border: full cover */
    const bool inside = y >= most && y < (int32_t)a->height - most && x >= most && x < (int32_t)a->width - most;
    if (!s->pixel_y || !inside) return number;
    const uint32_t pixel = (uint32_t)(q->t * s->pixel_t + y * s->pixel_y + x + q->k * s->pixel_k);
    return PACKED | ((uint32_t)anchor & ((1u << COLUMN_BITS) - 1)) << PIXEL_BITS | pixel;
}

static __device__ __forceinline__ void write_entry(const SpreadJob *s, uint32_t number, uint32_t to)
{
    const Source q = source_of(s, number);
    SnlsAggNear n;
    SpreadEntry e;
    if (!near_of(s, &q, &n)) return;
    e.number = pack_number(s, &q, number, (int32_t)n.x);
    e.fy = snls_fold(n.y - (double)(int32_t)n.y);
    e.fx = snls_fold(n.x - (double)(int32_t)n.x);
    e.weight = snls_agg_weight(&s->job, number_at(s, &s->job.a.weight, &q));
    s->entries[to] = e;
}

/* In the order of the list ... */
static __global__ void __launch_bounds__(SNLS_AGG_THREADS) expand_entries(const __grid_constant__ SpreadJob s)
{
    const int64_t all = s.bins.ends[s.bins.cells - 1];
    for (SNLS_CUDA_EACH(at, all)) write_entry(&s, s.bins.list[at], (uint32_t)at);
}

/* ... or as they come, without one. */
static __global__ void __launch_bounds__(SNLS_AGG_THREADS) fill_entries(const __grid_constant__ SpreadJob s)
{
    for (SNLS_CUDA_EACH(e, s.bins.entries)) {
        const uint32_t cell = s.bins.keys[e];
        if (cell != SNLS_BIN_NONE) write_entry(&s, (uint32_t)e, atomicAdd(&s.bins.ends[cell], 1u));
    }
}

/* ---- out of them ---- */

/* What one neighbour gives to the owner: up to four destination pixels (a row and a column back from the first). */
typedef struct __align__(16) SpreadTap {
    int64_t at;
    uint32_t flags, unused; /* bit 2*a+b: pixel (a, b) counts */
    float weight[4];
} SpreadTap;
enum { UNITS = sizeof(SpreadTap) / sizeof(float4) };

/* One axis of a tap: weights of the destinations that see virtual pixel v as their upper (0) and lower (1) tap, 0 where there is
 * none. reach: v - anchor + half, so patch pixel i is the one with dilation*i = reach - tap. */
typedef struct SpreadAxis { float weight[2]; uint32_t flags; } SpreadAxis;

static __device__ __forceinline__ SpreadAxis spread_axis(const SpreadJob *s, float folded, int32_t reach, int32_t query, int32_t v, int32_t n)
{
    const SnlsAggregate *a = &s->job.a;
    const float tap[2] = {snls_fold_low(folded), snls_fold_high(folded)};
    SpreadAxis r;
    r.flags = 0;
#pragma unroll
    for (int c = 0; c < 2; c++) {
        const int32_t step = reach - c, place = query + step - s->half, floor_u = v - c;
        const uint32_t i = snls_divide((uint32_t)max(step, 0), s->dilation);
        const bool in_patch = step >= 0 && i < s->job.side.divisor && i * s->dilation.divisor == (uint32_t)step;
        const bool kept = !a->drop || (floor_u >= 0 && (floor_u < n - 1 || (floor_u == n - 1 && tap[1] == 0)));
        const bool counts = in_patch && kept && tap[c] != 0 && place >= 0 && place < n;
        const float cover = counts ? snls_agg_cover(a, place, n) : 1;
        r.flags |= (uint32_t)counts << c;
        r.weight[c] = cover == s->full_cover ? tap[c] * s->by_full_cover : tap[c] / cover;
    }
    return r;
}

static __device__ __forceinline__ void set_tap(SpreadTap *tap, const SpreadAxis *v, const SpreadAxis *u, float weight)
{
    uint32_t flags = 0;
#pragma unroll
    for (int c = 0; c < 4; c++) {
        tap->weight[c] = v->weight[c / 2] * u->weight[c % 2] * weight;
        flags |= (v->flags >> c / 2 & u->flags >> c % 2 & 1u) << c;
    }
    tap->flags = flags;
}

/* An entry that is not packed, in row `row` of the cells around virtual pixel (y, x); anchor: its column. */
static __device__ __forceinline__ void find_tap(const SpreadJob *s, const SnlsAggOwner *o, int32_t y, int32_t x, int32_t row, int32_t anchor, const SpreadEntry *e, SpreadTap *tap)
{
    const SnlsAggregate *a = &s->job.a;
    const Source q = source_of(s, e->number);
    const int32_t qy = q.i * (int32_t)a->stride0, qx = q.j * (int32_t)a->stride0, column = x + s->half - anchor;
    const SpreadAxis v = spread_axis(s, e->fy, row, qy, y, (int32_t)a->height), u = spread_axis(s, e->fx, column, qx, x, (int32_t)a->width);
    const int64_t *const by_axis = s->job.from.stride + (a->stack ? 3 : 1); /* of frames, rows, columns */
    tap->at = o->from + (a->stack ? q.k * s->job.from.stride[2] : 0) + q.t * by_axis[0] + (qy + row - s->half) * by_axis[1] + (qx + column - s->half) * by_axis[2];
    set_tap(tap, &v, &u, e->weight);
}

/* As spread_axis where every destination is inside and under full cover, dilation 1. */
static __device__ __forceinline__ SpreadAxis packed_axis(const SpreadJob *s, float folded, int32_t reach, int32_t v, int32_t n)
{
    const float tap[2] = {snls_fold_low(folded), snls_fold_high(folded)};
    SpreadAxis r;
    bool upper = reach < (int32_t)s->job.side.divisor && tap[0] != 0, lower = reach > 0 && tap[1] != 0;
    if (s->job.a.drop) {
        upper = upper && v >= 0 && (v < n - 1 || (v == n - 1 && tap[1] == 0));
        lower = lower && v >= 1 && v - 1 < n - 1;
    }
    r.flags = (uint32_t)upper | (uint32_t)lower << 1;
    r.weight[0] = tap[0] * s->by_full_cover;
    r.weight[1] = tap[1] * s->by_full_cover;
    return r;
}

/* Entry number `at` of the bins, in row `row` of the cells around virtual pixel (y, x); clip: line of cells of the frame's top. */
static __device__ __forceinline__ void read_entry(const SpreadJob *s, const SnlsAggOwner *o, int32_t clip, int32_t y, int32_t x, int32_t row, uint32_t at, SpreadTap *tap)
{
    const SpreadEntry e = s->entries[at];
    if (e.number & PACKED) {
        const int32_t column = (x + s->half - (int32_t)(e.number >> PIXEL_BITS)) & ((1 << COLUMN_BITS) - 1);
        const int32_t pixel = (int32_t)(e.number & ((1u << PIXEL_BITS) - 1)) + (row - s->half) * s->pixel_y + column - s->half;
        const SpreadAxis v = packed_axis(s, e.fy, row, y, (int32_t)s->job.a.height), u = packed_axis(s, e.fx, column, x, (int32_t)s->job.a.width);
        tap->at = o->from + pixel * s->job.from.stride[s->job.a.stack ? 5 : 3];
        set_tap(tap, &v, &u, e.weight);
        return;
    }
    int32_t anchor = max(x + s->half - s->span, 0); /* the leftmost cell of the row */
    const uint32_t *const ends = s->bins.ends + (int64_t)(clip + y + s->half - row) * (int32_t)s->job.a.width;
    while (at >= __ldg(ends + anchor)) anchor++;
    find_tap(s, o, y, x, row, anchor, &e, tap);
}

typedef struct SpreadSums { float4 sum; float total; } SpreadSums;
typedef struct SpreadLane { int64_t first, down, right, step; int count; } SpreadLane; /* of the lane's channels in from */

template <int DTYPE, bool VECTOR>
static __device__ __forceinline__ void add_tap(SpreadSums *sums, const SpreadJob *s, const SpreadTap *tap, const SpreadLane *c)
{
    const SpreadTap t = *tap;
    const int64_t at = t.at + c->first;
    float4 v[4];
    if (s->total.data)
        for (int i = 0; i < 4; i++) sums->total += t.flags >> i & 1 ? t.weight[i] : 0;
    if (!c->count) return;
#pragma unroll
    for (int i = 0; i < 4; i++) { /* all loads before the first sum */
        v[i] = make_float4(0, 0, 0, 0);
        if (t.flags >> i & 1) v[i] = snls_agg_load4<DTYPE, VECTOR>(s->job.from.data, at - (i / 2 ? c->down : 0) - (i % 2 ? c->right : 0), c->step, c->count);
    }
#pragma unroll
    for (int i = 0; i < 4; i++)
        if (t.flags >> i & 1) snls_agg_fma(&sums->sum, t.weight[i], v[i]);
}

/* The next virtual pixel along an axis that shows pixel p: p itself, then those of the mirrored frame that a patch can reach. */
static __device__ __noinline__ int32_t search_virtual(int32_t from, int32_t end, int32_t p, int32_t n)
{
    for (; from < end; from++) {
        if (from == 0) from = n;
        if (snls_reflect(from, n) == p) break;
    }
    return from;
}

static __device__ __forceinline__ bool next_virtual(const SpreadJob *s, int32_t *v, int32_t p, int32_t n)
{
    const int32_t after = s->span - s->half;
    if (s->job.a.drop || (p > s->half && p < n - 1 - after)) return false;
    *v = search_virtual(*v == p ? -s->half : *v + 1, n + after, p, n);
    return *v < n + after;
}

/* Rows `from` on of the cells around a virtual pixel: where their entries begin, and how many. */
static __device__ __forceinline__ void look_up(const SpreadJob *s, const SnlsAggOwner *o, int32_t clip, int32_t y, int32_t x, int32_t from, int32_t rows, bool active,
                                               uint2 *table)
{
    const int32_t height = (int32_t)s->job.a.height, width = (int32_t)s->job.a.width;
    const int32_t right = min(x + s->half, width - 1), left = max(x + s->half - s->span, 0);
    for (int32_t r = o->lane; r < rows; r += 1 << s->job.lanes_log2) {
        const int32_t anchor = y + s->half - from - r;
        uint2 found = make_uint2(0, 0);
        if (active && anchor >= 0 && anchor < height && left <= right) {
            const int64_t line = (int64_t)(clip + anchor) * width;
            found.x = snls_bin_begin(&s->bins, line + left);
            found.y = s->bins.ends[line + right] - found.x;
        }
        table[r] = found;
    }
}

/* Everything that reaches virtual pixel (y, x). All lanes of the warp come here together; active: the group has such a pixel. */
template <int DTYPE, bool VECTOR>
static __device__ __forceinline__ void add_virtual(SpreadSums *sums, const SpreadJob *s, const SnlsAggOwner *o, int32_t clip, int32_t y, int32_t x, bool active,
                                                   const SpreadLane *c, SpreadTap *group, uint2 *table)
{
    const int lanes = 1 << s->job.lanes_log2;
    const int32_t all = s->span + 1;
    for (int32_t from = 0; from < all; from += TABLE) {
        const int32_t rows = min(all - from, (int32_t)TABLE);
        uint32_t count = 0;
        __syncwarp();
        look_up(s, o, clip, y, x, from, rows, active, table);
        __syncwarp();
        for (int32_t r = 0; r < rows; r++) count += table[r].y;
        for (uint32_t begin = 0; __any_sync(0xffffffffu, begin < count); begin += (uint32_t)lanes) {
            uint32_t mine = begin + (uint32_t)o->lane;
            int32_t r = 0;
            __syncwarp();
            if (mine < count) {
                for (uint32_t here = table[0].y; mine >= here; here = table[++r].y) mine -= here;
                read_entry(s, o, clip, y, x, from + r, table[r].x + mine, &group[o->lane]);
            }
            __syncwarp();
            const int n = begin >= count ? 0 : (int)min(count - begin, (uint32_t)lanes);
            for (int i = 0; i < n; i++) add_tap<DTYPE, VECTOR>(sums, s, &group[i], c);
        }
    }
}

template <int DTYPE, bool VECTOR> static __global__ void __launch_bounds__(SNLS_AGG_THREADS, 3) spread_kernel(const __grid_constant__ SpreadJob s)
{
    __shared__ float4 shared[SNLS_AGG_SHARED(UNITS)];
    __shared__ uint2 tables[SNLS_AGG_THREADS][TABLE];
    const SnlsAggJob *job = &s.job;
    const SnlsAggregate *a = &job->a;
    SnlsAggOwner o = snls_agg_owner(job, s.owner_lines, (int32_t)a->width, job->height);
    snls_agg_bases(job, &o);
    const int lanes = 1 << job->lanes_log2, axis = a->stack ? 4 : 2; /* of rows in from */
    const int64_t first = 4 * ((int64_t)o.chunk * lanes + o.lane), step = snls_aggregate_out_step(a, &job->from);
    const SpreadLane c = {first * step, job->from.stride[axis], job->from.stride[axis + 1], step, o.valid ? snls_agg_count(job, first) : 0};
    const int32_t clip = (int32_t)(o.line + s.owner - o.i - s.targets_at); /* below 0 where the frame's top is not among the cells */
    SpreadTap *const group = (SpreadTap *)snls_agg_records(shared, job->lanes_log2, UNITS);
    SpreadSums sums = {make_float4(0, 0, 0, 0), 0};
    int32_t y = o.i;
    for (bool more_y = o.valid; __any_sync(0xffffffffu, more_y); more_y = more_y && next_virtual(&s, &y, o.i, (int32_t)a->height)) {
        int32_t x = o.j;
        for (bool more_x = more_y; __any_sync(0xffffffffu, more_x); more_x = more_x && next_virtual(&s, &x, o.j, (int32_t)a->width))
            add_virtual<DTYPE, VECTOR>(&sums, &s, &o, clip, y, x, more_x, &c, group, tables[threadIdx.x >> job->lanes_log2]);
    }
    if (!o.valid) return;
    if (c.count)
        snls_agg_store(&job->to, snls_at5(&job->to, o.b, o.t, o.i, o.j, o.head * a->features + first), job->to.stride[4], c.count, sums.sum, s.add);
    if (s.total.data && first == 0) {
        const int64_t at = snls_at5(&s.total, o.b, o.t, o.i, o.j, o.head);
        snls_cuda_store(&s.total, at, sums.total + (s.add ? snls_cuda_load(&s.total, at) : 0));
    }
}

/* ---- host side ---- */

static SnlsStatus run_part(SnlsContext *ctx, SpreadJob *s)
{
    const char *op = s->job.a.op;
    const cudaStream_t stream = snls_cuda_stream(ctx);
    const unsigned blocks = snls_cuda_blocks(s->bins.entries, SNLS_AGG_THREADS, 0);
    bool vector;
    unsigned owners;
    SNLS_TRY(snls_bins_begin(ctx, op, &s->bins));
    count_entries<<<blocks, SNLS_AGG_THREADS, 0, stream>>>(*s);
    SNLS_CUDA_LAUNCHED(ctx, op);
    SNLS_TRY(snls_bins_scan(ctx, op, &s->bins));
    if (s->splat) {
        SNLS_TRY(snls_bins_fill(ctx, op, &s->bins, false));
        return snls_agg_splat(ctx, s);
    }
    if (s->ordered) {
        SNLS_TRY(snls_bins_fill(ctx, op, &s->bins, true));
        expand_entries<<<blocks, SNLS_AGG_THREADS, 0, stream>>>(*s);
    } else {
        fill_entries<<<blocks, SNLS_AGG_THREADS, 0, stream>>>(*s);
    }
    SNLS_CUDA_LAUNCHED(ctx, op);
    SNLS_TRY(snls_agg_lay_out(ctx, &s->job, s->owner_lines, s->job.a.width, true, &vector, &owners));
#define LAUNCH(type) \
    if (vector) spread_kernel<type, true><<<owners, SNLS_AGG_THREADS, 0, stream>>>(*s); \
    else spread_kernel<type, false><<<owners, SNLS_AGG_THREADS, 0, stream>>>(*s)
    SNLS_AGG_BY_TYPE(s->job.from.dtype, LAUNCH);
#undef LAUNCH
    SNLS_CUDA_LAUNCHED(ctx, op);
    return SNLS_OK;
}

/* Lines `begin` on of the sources go to lines `at` on of their planes' [from, last). */
static SnlsStatus run_lines(SnlsContext *ctx, SpreadJob *s, const SnlsBinCut *cut, int64_t begin, int64_t count, int64_t at, int64_t from, int64_t last)
{
    const SnlsAggregate *a = &s->job.a;
    const int64_t reach = s->splat ? 0 : a->dilation * a->ps + 1;
    s->source = begin;
    s->owner = s->job.line0 = at;
    s->owner_lines = last - at < cut->targets ? last - at : cut->targets;
    s->targets_at = at - reach > from ? at - reach : from;
    s->target_lines = (at + s->owner_lines + reach < last ? at + s->owner_lines + reach : last) - s->targets_at;
    s->bins.entries = count * a->columns * a->neighbours;
    s->bins.cells = s->target_lines * a->width;
    return run_part(ctx, s);
}

/* All lines, source by source: of a plane the first write, the others add. */
static SnlsStatus run_all(SnlsContext *ctx, SpreadJob *s, const SnlsBinCut *cut)
{
    const int64_t all = cut->planes * cut->source_lines;
    for (int64_t begin = 0; begin < all;) {
        const int64_t end = cut->sources < cut->source_lines ? (begin / cut->source_lines + 1) * cut->source_lines : all; /* parts of a plane end with it */
        const int64_t count = end - begin < cut->sources ? end - begin : cut->sources;
        const int64_t plane = begin / cut->source_lines, planes = (count + cut->source_lines - 1) / cut->source_lines;
        const int64_t from = plane * cut->target_lines, last = (plane + planes) * cut->target_lines;
        s->add = s->job.add || begin % cut->source_lines != 0;
        for (int64_t at = from; at < last; at += cut->targets) SNLS_TRY(run_lines(ctx, s, cut, begin, count, at, from, last));
        begin += count;
    }
    return SNLS_OK;
}

/* ---- 16-bit outputs of many parts: sums of the lines at hand are held in f32, and rounded once ---- */

/* No more lines at once than have room for their sums, `line` bytes each. */
static void hold_fewer_lines(SnlsBinCut *cut, int64_t budget, int64_t line)
{
    const int64_t most = budget / line > 1 ? budget / line : 1;
    if (cut->targets > most) cut->targets = most;
}

static bool is_narrow(const SnlsTensor *t) { return t->data && t->dtype != SNLS_F32; }

/* From the sums of s to where they belong. */
static __global__ void __launch_bounds__(SNLS_AGG_THREADS) settle_sums(const __grid_constant__ SpreadJob s, const __grid_constant__ SnlsTensor to, const __grid_constant__ SnlsTensor total)
{
    const SnlsAggregate *a = &s.job.a;
    const int64_t row = a->width * a->features, lines = a->frames * a->height, plane = s.owner / lines, b = plane / a->heads, head = plane - b * a->heads;
    for (SNLS_CUDA_EACH(n, s.owner_lines * row)) {
        const int64_t line = s.owner + n / row - plane * lines, t = line / a->height, i = line - t * a->height, j = n % row / a->features, c = n % a->features;
        const int64_t from = snls_at5(&s.job.to, b, t, i, j, head * a->features + c), at = snls_at5(&to, b, t, i, j, head * a->features + c);
        snls_cuda_store(&to, at, snls_cuda_load(&s.job.to, from) + (s.job.add ? snls_cuda_load(&to, at) : 0));
        if (c == 0 && total.data) snls_cuda_store(&total, snls_at5(&total, b, t, i, j, head), snls_cuda_load(&s.total, snls_at5(&s.total, b, t, i, j, head)));
    }
}

/* Views of sums [lines, width, features] and totals [lines, width] in which line `at` of all lines is the first, by the numbers of the outputs. */
static void view_sums(SpreadJob *s, float *sums, float *totals, int64_t at)
{
    const SnlsAggregate *a = &s->job.a;
    const int64_t lines = a->frames * a->height, plane = at / lines, line = at - plane * lines, row = a->width * a->features;
    const int64_t to[5] = {0, a->height * row, row, a->features, 1}, total[5] = {0, a->height * a->width, a->width, 1, 0};
    s->job.to.data = sums - line * row - plane % a->heads * a->features;
    s->job.to.dtype = SNLS_F32;
    memcpy(s->job.to.stride, to, sizeof to);
    if (!s->total.data) return;
    s->total.data = totals - line * a->width;
    s->total.dtype = SNLS_F32;
    memcpy(s->total.stride, total, sizeof total);
}

/* All lines, target by target. */
static SnlsStatus run_narrow(SnlsContext *ctx, SpreadJob *s, const SnlsBinCut *cut, float *sums, float *totals)
{
    const SnlsTensor to = s->job.to, total = s->total;
    const int64_t all = cut->planes * cut->target_lines;
    for (int64_t at = 0; at < all;) {
        const int64_t plane = at / cut->target_lines, from = plane * cut->target_lines, last = from + cut->target_lines;
        const int64_t first = plane * cut->source_lines, end = first + cut->source_lines;
        view_sums(s, sums, totals, at);
        for (int64_t begin = first; begin < end; begin += cut->sources) {
            s->add = begin != first;
            SNLS_TRY(run_lines(ctx, s, cut, begin, end - begin < cut->sources ? end - begin : cut->sources, at, from, last));
        }
        const int64_t numbers = s->owner_lines * s->job.a.width * s->job.a.features;
        settle_sums<<<snls_cuda_blocks(numbers, SNLS_AGG_THREADS, 0), SNLS_AGG_THREADS, 0, snls_cuda_stream(ctx)>>>(*s, to, total);
        SNLS_CUDA_LAUNCHED(ctx, s->job.a.op);
        at += s->owner_lines;
    }
    return SNLS_OK;
}

/* Where from is laid out in whole pixels, few enough to be numbered, entries can be packed. */
static void plan_packing(SpreadJob *s)
{
    const SnlsAggregate *a = &s->job.a;
    const int64_t *const step = s->job.from.stride + (a->stack ? 3 : 1); /* of frames, rows, columns */
    const int64_t pixel = step[2], layer = a->stack ? s->job.from.stride[2] : 0;
    if (a->stride0 != 1 || a->dilation != 1 || s->span >= 1 << COLUMN_BITS || pixel <= 0) return;
    if (step[0] % pixel || step[1] % pixel || layer % pixel || step[0] < 0 || step[1] <= 0 || layer < 0) return;
    const double last = (double)step[0] / (double)pixel * (double)a->frames + (double)step[1] / (double)pixel * (double)a->height + (double)a->width +
                        (double)layer / (double)pixel * (double)a->neighbours;
    if (last >= (double)(1 << PIXEL_BITS)) return;
    s->pixel_t = (int32_t)(step[0] / pixel);
    s->pixel_y = (int32_t)(step[1] / pixel);
    s->pixel_k = (int32_t)(layer / pixel);
}

SnlsStatus snls_agg_spread(SnlsContext *ctx, SnlsAggJob *job, const SnlsTensor *total, bool ordered)
{
    const SnlsAggregate *a = &job->a;
    const SnlsTensor *const tensors[] = {&job->from, &job->to, &a->weight, &a->offset, total};
    const bool splat = !ordered && !total->data && snls_agg_can_splat(job);
    const int64_t kept = splat ? 0 : (int64_t)sizeof(SpreadEntry), entry = SNLS_BIN_ENTRY + kept, row = a->columns * a->neighbours;
    const int64_t reach = splat ? 0 : 2 * (a->dilation * a->ps + 1);
    SnlsBinCut cut = {a->batch * a->heads, a->frames * a->rows, a->frames * a->height, 0, 0};
    SNLS_REQUIRE(ctx, cut.planes < INT32_MAX / cut.target_lines && snls_bins_cut(&cut, snls_bins_budget(tensors, 5), row, a->width, entry), SNLS_ERR_UNSUPPORTED,
                 "%s: more rows of pixels than backend cuda takes in one call", a->op);
    const bool narrow = cut.sources < cut.source_lines && (is_narrow(&job->to) || is_narrow(total));
    if (narrow) hold_fewer_lines(&cut, snls_bins_budget(tensors, 5), a->width * (a->features + 1) * (int64_t)sizeof(float));
    const int64_t lines = cut.targets + reach < cut.planes * cut.target_lines ? cut.targets + reach : cut.planes * cut.target_lines;
    SpreadJob s;
    memset(&s, 0, sizeof s);
    snls_arena_begin(&ctx->arena);
    snls_bins_plan(ctx, cut.sources * row, lines * a->width);
    snls_arena_plan(&ctx->arena, splat ? 0 : cut.sources * row, sizeof *s.entries);
    snls_arena_plan(&ctx->arena, narrow ? cut.targets * a->width * a->features : 0, sizeof(float));
    snls_arena_plan(&ctx->arena, narrow ? cut.targets * a->width : 0, sizeof(float));
    SNLS_TRY(snls_cuda_commit(ctx, a->op));
    snls_bins_claim(ctx, &s.bins, cut.sources * row, lines * a->width);
    s.entries = (SpreadEntry *)snls_arena_claim(&ctx->arena, splat ? 0 : cut.sources * row, sizeof *s.entries);
    float *const sums = (float *)snls_arena_claim(&ctx->arena, narrow ? cut.targets * a->width * a->features : 0, sizeof(float));
    float *const totals = (float *)snls_arena_claim(&ctx->arena, narrow ? cut.targets * a->width : 0, sizeof(float));
    s.splat = splat;
    s.ordered = ordered;
    s.job = *job;
    s.total = *total;
    s.dilation = snls_divisor(a->dilation);
    s.half = (int32_t)(a->dilation * (a->ps / 2));
    s.span = (int32_t)(a->dilation * (a->ps - 1) + 1);
    s.full_cover = a->scatter ? 1 : (float)a->ps;
    s.by_full_cover = 1 / s.full_cover;
    plan_packing(&s);
    return narrow ? run_narrow(ctx, &s, &cut, sums, totals) : run_all(ctx, &s, &cut);
}
