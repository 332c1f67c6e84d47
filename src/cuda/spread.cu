/* spread.cu: every pixel of the output fetches what is pushed to it: to[source] = sum of w * tap weight * from[destination]. The
 * neighbours of all queries are sorted by the pixel they point at (bins.cuh); the owner of a pixel goes through those around it
 * whose patches reach it. The reflected frame is an image that goes on beyond its borders, linear between its pixels: an owner
 * near the border also goes through what reaches the mirrored pixels that show it. */
#include "cuda/aggregate.cuh"
#include "cuda/bins.cuh"

enum { TABLE = 8 }; /* rows of cells looked up at once */

/* A neighbour as its bin keeps it. */
typedef struct __align__(16) SpreadEntry { uint32_t number; float fy, fx, weight; } SpreadEntry; /* fractions folded */

typedef struct SpreadJob {
    SnlsAggJob job;
    SnlsTensor total;           /* may have no data */
    SnlsBins bins;
    SpreadEntry *entries;       /* in the order of bins.list */
    int64_t source, targets_at; /* first line of queries of this part; first line of cells */
    int64_t target_lines;       /* lines of cells, with those around the owners' */
    int64_t owner, owner_lines; /* lines of owners */
    SnlsDivisor dilation;
    bool add;
} SpreadJob;

/* ---- into the bins ---- */

typedef struct Source { int32_t b, head, t, i, j; uint32_t k; } Source;

static __device__ __forceinline__ Source source_of(const SpreadJob *s, uint32_t number)
{
    const SnlsAggJob *job = &s->job;
    Source r;
    const uint32_t query = snls_divide(number, job->neighbours), row = snls_divide(query, job->columns);
    const uint32_t line = (uint32_t)s->source + row, clip = snls_divide(line, job->rows), plane = snls_divide(clip, job->frames);
    r.k = number - query * job->neighbours.divisor;
    r.j = (int32_t)(query - row * job->columns.divisor);
    r.i = (int32_t)(line - clip * job->rows.divisor);
    r.t = (int32_t)(clip - plane * job->frames.divisor);
    r.b = (int32_t)snls_divide(plane, job->heads);
    r.head = (int32_t)(plane - (uint32_t)r.b * job->heads.divisor);
    return r;
}

static __device__ __forceinline__ SnlsNeighbour neighbour_of(const SpreadJob *s, const Source *q)
{
    const SnlsAggregate *a = &s->job.a;
    return snls_neighbour(a, snls_at6(&a->offset, q->b, q->head, q->t, q->i, q->j, q->k), q->t, q->i * a->stride0, q->j * a->stride0);
}

static __global__ void __launch_bounds__(SNLS_AGG_THREADS) count_entries(const __grid_constant__ SpreadJob s)
{
    const SnlsAggregate *a = &s.job.a;
    for (SNLS_CUDA_EACH(e, s.bins.entries)) {
        const Source q = source_of(&s, (uint32_t)e);
        const SnlsNeighbour n = neighbour_of(&s, &q);
        uint32_t cell = SNLS_BIN_NONE;
        if (n.valid) {
            const int64_t line = (((int64_t)q.b * a->heads + q.head) * a->frames + n.frame) * a->height + snls_floor_inside(n.y) - s.targets_at;
            if (line >= 0 && line < s.target_lines) cell = (uint32_t)(line * a->width + snls_floor_inside(n.x));
        }
        snls_bin_count(&s.bins, e, cell);
    }
}

static __global__ void __launch_bounds__(SNLS_AGG_THREADS) expand_entries(const __grid_constant__ SpreadJob s)
{
    const SnlsAggregate *a = &s.job.a;
    const int64_t all = s.bins.ends[s.bins.cells - 1];
    for (SNLS_CUDA_EACH(at, all)) {
        const uint32_t number = s.bins.list[at];
        const Source q = source_of(&s, number);
        const SnlsNeighbour n = neighbour_of(&s, &q);
        SpreadEntry e;
        e.number = number;
        e.fy = snls_agg_fold(n.y - floor(n.y));
        e.fx = snls_agg_fold(n.x - floor(n.x));
        e.weight = __ldg((const float *)a->weight.data + snls_at6(&a->weight, q.b, q.head, q.t, q.i, q.j, q.k));
        s.entries[at] = e;
    }
}

/* ---- out of them ---- */

/* What one neighbour gives to the owner: up to four destination pixels (a row and a column back from the first). */
typedef struct __align__(16) SpreadTap {
    int64_t at;
    uint32_t flags, unused; /* bit 2*a+b: pixel (a, b) counts */
    float weight[4];
} SpreadTap;

/* One axis of a tap: weights of the destinations that see virtual pixel v as their upper (0) and lower (1) tap, 0 where there is
 * none. reach: v - anchor + half, so patch pixel i is the one with dilation*i = reach - tap. */
typedef struct SpreadAxis { float weight[2]; uint32_t flags; } SpreadAxis;

static __device__ __forceinline__ SpreadAxis spread_axis(const SpreadJob *s, float folded, int32_t reach, int64_t query, int64_t v, int64_t n)
{
    const SnlsAggregate *a = &s->job.a;
    const float tap[2] = {snls_agg_low(folded), snls_agg_high(folded)};
    SpreadAxis r;
    r.flags = 0;
#pragma unroll
    for (int c = 0; c < 2; c++) {
        const int32_t step = reach - c;
        const int64_t place = query + step - a->dilation * (a->ps / 2), floor_u = v - c;
        const uint32_t i = step < 0 ? 0 : snls_divide((uint32_t)step, s->dilation);
        const bool in_patch = step >= 0 && i < (uint32_t)a->ps && i * s->dilation.divisor == (uint32_t)step;
        const bool kept = !a->drop || (floor_u >= 0 && (floor_u < n - 1 || (floor_u == n - 1 && tap[1] == 0)));
        const bool counts = in_patch && kept && tap[c] != 0 && place >= 0 && place < n;
        r.flags |= (uint32_t)counts << c;
        r.weight[c] = counts ? tap[c] / snls_agg_cover(a, place, n) : 0;
    }
    return r;
}

/* Entry number `at` of the bins, in row `row` of the cells around virtual pixel (y, x). */
static __device__ __noinline__ SpreadTap find_tap(const SpreadJob *s, const SnlsAggOwner *o, int64_t y, int64_t x, int32_t row, uint32_t at)
{
    const SnlsAggregate *a = &s->job.a;
    const int64_t half = a->dilation * (a->ps / 2), line = o->line + s->owner - o->i + y + half - row - s->targets_at;
    int64_t anchor = x + half - (a->dilation * (a->ps - 1) + 1); /* the leftmost cell of the row */
    if (anchor < 0) anchor = 0;
    while (at >= s->bins.ends[line * a->width + anchor]) anchor++;
    const SpreadEntry e = s->entries[at];
    const Source q = source_of(s, e.number);
    const int64_t qy = q.i * a->stride0, qx = q.j * a->stride0;
    const int32_t column = (int32_t)(x + half - anchor);
    const SpreadAxis v = spread_axis(s, e.fy, row, qy, y, a->height), u = spread_axis(s, e.fx, column, qx, x, a->width);
    SpreadTap tap;
    tap.at = snls_aggregate_out_at(a, &s->job.from, q.b, q.head, q.k, q.t, qy + row - half, qx + column - half);
    tap.flags = 0;
#pragma unroll
    for (int c = 0; c < 4; c++) {
        tap.weight[c] = v.weight[c / 2] * u.weight[c % 2] * e.weight;
        tap.flags |= (v.flags >> c / 2 & u.flags >> c % 2 & 1u) << c;
    }
    return tap;
}

typedef struct SpreadSums { float4 sum; float total; } SpreadSums;
typedef struct SpreadLane { int64_t first, down, right, step; int count; } SpreadLane; /* of the lane's channels in from */

template <int DTYPE, bool VECTOR>
static __device__ __forceinline__ void add_tap(SpreadSums *sums, const SpreadJob *s, const SpreadTap *tap, const SpreadLane *c)
{
    const int64_t at = tap->at + c->first;
    if (s->total.data)
        for (int i = 0; i < 4; i++) sums->total += tap->flags >> i & 1 ? tap->weight[i] : 0;
    if (!c->count) return;
    if (tap->flags & 1) snls_agg_fma(&sums->sum, tap->weight[0], snls_agg_load4<DTYPE, VECTOR>(s->job.from.data, at, c->step, c->count));
    if (tap->flags & 2) snls_agg_fma(&sums->sum, tap->weight[1], snls_agg_load4<DTYPE, VECTOR>(s->job.from.data, at - c->right, c->step, c->count));
    if (tap->flags & 4) snls_agg_fma(&sums->sum, tap->weight[2], snls_agg_load4<DTYPE, VECTOR>(s->job.from.data, at - c->down, c->step, c->count));
    if (tap->flags & 8) snls_agg_fma(&sums->sum, tap->weight[3], snls_agg_load4<DTYPE, VECTOR>(s->job.from.data, at - c->down - c->right, c->step, c->count));
}

/* The next virtual pixel along an axis that shows pixel p: p itself, then those of the mirrored frame that a patch can reach. */
static __device__ __forceinline__ bool next_virtual(const SnlsAggregate *a, int64_t *v, int64_t p, int64_t n)
{
    const int64_t before = a->dilation * (a->ps / 2), after = a->dilation * (a->ps - 1 - a->ps / 2) + 1;
    if (a->drop || (p > before && p < n - 1 - after)) return false;
    int64_t at = *v == p ? -before : *v + 1;
    for (; at < n + after; at++) {
        if (at == 0) at = n;
        if (snls_reflect(at, n) == p) break;
    }
    *v = at;
    return at < n + after;
}

/* Rows `from` on of the cells around a virtual pixel: where their entries begin, and how many. */
static __device__ __forceinline__ void look_up(const SpreadJob *s, const SnlsAggOwner *o, int64_t y, int64_t x, int32_t from, int32_t rows, bool active, uint2 *table)
{
    const SnlsAggregate *a = &s->job.a;
    const int64_t half = a->dilation * (a->ps / 2), span = a->dilation * (a->ps - 1) + 1;
    const int64_t right = x + half < a->width - 1 ? x + half : a->width - 1, left = x + half - span > 0 ? x + half - span : 0;
    for (int32_t r = o->lane; r < rows; r += 1 << s->job.lanes_log2) {
        const int64_t anchor = y + half - from - r;
        uint2 found = make_uint2(0, 0);
        if (active && anchor >= 0 && anchor < a->height && left <= right) {
            const int64_t line = (o->line + s->owner - o->i + anchor - s->targets_at) * a->width;
            found.x = snls_bin_begin(&s->bins, line + left);
            found.y = s->bins.ends[line + right] - found.x;
        }
        table[r] = found;
    }
}

/* Everything that reaches virtual pixel (y, x). All lanes of the warp come here together; active: the group has such a pixel. */
template <int DTYPE, bool VECTOR>
static __device__ __forceinline__ void add_virtual(SpreadSums *sums, const SpreadJob *s, const SnlsAggOwner *o, int64_t y, int64_t x, bool active, const SpreadLane *c,
                                                   SpreadTap *taps, uint2 *table)
{
    const int lanes = 1 << s->job.lanes_log2;
    const int32_t all = (int32_t)(s->job.a.dilation * (s->job.a.ps - 1) + 2);
    const SpreadTap *group = taps + (threadIdx.x & ~(unsigned)(lanes - 1));
    for (int32_t from = 0; from < all; from += TABLE) {
        const int32_t rows = all - from < TABLE ? all - from : TABLE;
        uint32_t count = 0;
        __syncwarp();
        look_up(s, o, y, x, from, rows, active, table);
        __syncwarp();
        for (int32_t r = 0; r < rows; r++) count += table[r].y;
        for (uint32_t begin = 0; __any_sync(0xffffffffu, begin < count); begin += (uint32_t)lanes) {
            uint32_t mine = begin + (uint32_t)o->lane;
            int32_t r = 0;
            __syncwarp();
            if (mine < count) {
                while (mine >= table[r].y) mine -= table[r++].y;
                taps[threadIdx.x] = find_tap(s, o, y, x, from + r, table[r].x + mine);
            }
            __syncwarp();
            const int n = begin >= count ? 0 : count - begin < (uint32_t)lanes ? (int)(count - begin) : lanes;
            for (int i = 0; i < n; i++) add_tap<DTYPE, VECTOR>(sums, s, &group[i], c);
        }
    }
}

template <int DTYPE, bool VECTOR> static __global__ void __launch_bounds__(SNLS_AGG_THREADS) spread_kernel(const __grid_constant__ SpreadJob s)
{
    __shared__ SpreadTap taps[SNLS_AGG_THREADS];
    __shared__ uint2 tables[SNLS_AGG_THREADS][TABLE];
    const SnlsAggJob *job = &s.job;
    const SnlsAggregate *a = &job->a;
    const SnlsAggOwner o = snls_agg_owner(job, s.owner_lines, (int32_t)a->width, job->height);
    const int lanes = 1 << job->lanes_log2, axis = a->stack ? 4 : 2; /* of rows in from */
    const int64_t first = 4 * ((int64_t)o.chunk * lanes + o.lane), step = snls_aggregate_out_step(a, &job->from);
    const SpreadLane c = {first * step, job->from.stride[axis], job->from.stride[axis + 1], step, o.valid ? snls_agg_count(job, first) : 0};
    SpreadSums sums = {make_float4(0, 0, 0, 0), 0};
    int64_t y = o.i;
    for (bool more_y = o.valid; __any_sync(0xffffffffu, more_y); more_y = more_y && next_virtual(a, &y, o.i, a->height)) {
        int64_t x = o.j;
        for (bool more_x = more_y; __any_sync(0xffffffffu, more_x); more_x = more_x && next_virtual(a, &x, o.j, a->width))
            add_virtual<DTYPE, VECTOR>(&sums, &s, &o, y, x, more_x, &c, taps, tables[threadIdx.x >> job->lanes_log2]);
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

static SnlsStatus run_part(SnlsContext *ctx, SpreadJob *s, bool ordered)
{
    const char *op = s->job.a.op;
    const cudaStream_t stream = snls_cuda_stream(ctx);
    const unsigned blocks = snls_cuda_blocks(s->bins.entries, SNLS_AGG_THREADS, 0);
    bool vector;
    unsigned owners;
    SNLS_TRY(snls_bins_begin(ctx, op, &s->bins));
    count_entries<<<blocks, SNLS_AGG_THREADS, 0, stream>>>(*s);
    SNLS_CUDA_LAUNCHED(ctx, op);
    SNLS_TRY(snls_bins_sort(ctx, op, &s->bins, ordered));
    expand_entries<<<blocks, SNLS_AGG_THREADS, 0, stream>>>(*s);
    SNLS_CUDA_LAUNCHED(ctx, op);
    SNLS_TRY(snls_agg_lay_out(ctx, &s->job, s->owner_lines, s->job.a.width, true, &vector, &owners));
#define LAUNCH(type) \
    if (vector) spread_kernel<type, true><<<owners, SNLS_AGG_THREADS, 0, stream>>>(*s); \
    else spread_kernel<type, false><<<owners, SNLS_AGG_THREADS, 0, stream>>>(*s)
    if (s->job.from.dtype == SNLS_F32) { LAUNCH(SNLS_F32); }
    else if (s->job.from.dtype == SNLS_F16) { LAUNCH(SNLS_F16); }
    else { LAUNCH(SNLS_BF16); }
#undef LAUNCH
    SNLS_CUDA_LAUNCHED(ctx, op);
    return SNLS_OK;
}

/* Lines `begin` on of the sources go to all lines of their planes. The first of a plane write, the others add. */
static SnlsStatus run_sources(SnlsContext *ctx, SpreadJob *s, const SnlsBinCut *cut, int64_t begin, int64_t count, bool ordered)
{
    const SnlsAggregate *a = &s->job.a;
    const int64_t plane = begin / cut->source_lines, planes = (count + cut->source_lines - 1) / cut->source_lines;
    const int64_t from = plane * cut->target_lines, last = (plane + planes) * cut->target_lines, reach = a->dilation * a->ps + 1;
    s->source = begin;
    s->add = s->job.add || begin % cut->source_lines != 0;
    for (int64_t at = from; at < last; at += cut->targets) {
        s->owner = s->job.line0 = at;
        s->owner_lines = last - at < cut->targets ? last - at : cut->targets;
        s->targets_at = at - reach > from ? at - reach : from;
        s->target_lines = (at + s->owner_lines + reach < last ? at + s->owner_lines + reach : last) - s->targets_at;
        s->bins.entries = count * a->columns * a->neighbours;
        s->bins.cells = s->target_lines * a->width;
        SNLS_TRY(run_part(ctx, s, ordered));
    }
    return SNLS_OK;
}

SnlsStatus snls_agg_spread(SnlsContext *ctx, SnlsAggJob *job, const SnlsTensor *total, bool ordered)
{
    const SnlsAggregate *a = &job->a;
    const SnlsTensor *const tensors[] = {&job->from, &job->to, &a->weight, &a->offset, total};
    const int64_t entry = SNLS_BIN_ENTRY + (int64_t)sizeof(SpreadEntry), row = a->columns * a->neighbours, reach = 2 * (a->dilation * a->ps + 1);
    SnlsBinCut cut = {a->batch * a->heads, a->frames * a->rows, a->frames * a->height, 0, 0};
    SNLS_REQUIRE(ctx, cut.planes < INT32_MAX / cut.target_lines && snls_bins_cut(&cut, snls_bins_budget(tensors, 5), row, a->width, entry), SNLS_ERR_UNSUPPORTED,
                 "%s: more rows of pixels than backend cuda takes in one call", a->op);
    const int64_t lines = cut.targets + reach < cut.planes * cut.target_lines ? cut.targets + reach : cut.planes * cut.target_lines;
    SpreadJob s;
    memset(&s, 0, sizeof s);
    snls_arena_begin(&ctx->arena);
    snls_bins_plan(ctx, cut.sources * row, lines * a->width);
    snls_arena_plan(&ctx->arena, cut.sources * row, sizeof *s.entries);
    SNLS_TRY(snls_cuda_commit(ctx, a->op));
    snls_bins_claim(ctx, &s.bins, cut.sources * row, lines * a->width);
    s.entries = (SpreadEntry *)snls_arena_claim(&ctx->arena, cut.sources * row, sizeof *s.entries);
    s.job = *job;
    s.total = *total;
    s.dilation = snls_divisor(a->dilation);
    const int64_t all = cut.planes * cut.source_lines;
    for (int64_t begin = 0; begin < all;) {
        const int64_t end = cut.sources < cut.source_lines ? (begin / cut.source_lines + 1) * cut.source_lines : all; /* parts of a plane end with it */
        const int64_t count = end - begin < cut.sources ? end - begin : cut.sources;
        SNLS_TRY(run_sources(ctx, &s, &cut, begin, count, ordered));
        begin += count;
    }
    return SNLS_OK;
}
