/* box.cu: search by l2 of patches of up to four channels, the best of each frame, windows about the query itself, whole pixels. All
 * queries of a tile are then compared at the same displacements: squared differences of pixels are found once and summed over
 * columns by the lanes of a warp, which are neighbours, and over rows as the warp walks down the tile. A patch beyond the border goes
 * on in the mirrored frame on either side, so it is a box there as well. Warps share out the displacements; a lane keeps the best of
 * each query of its column in registers. */
#include "cuda/box.h"
#include "cuda/score.h"

enum { WARPS = 8, ROWS = 8, GROUP = 4, SIDE_MOST = 15 }; /* ROWS: of queries of a tile; GROUP: displacements along x at a time */
#define COLUMNS(PS) (32 - (PS) + 1)
#define QUERY_ROWS(PS) (ROWS + (PS) - 1)

typedef struct BoxJob {
    CudaMatch c;
    uint32_t tiles_x, tiles_y; /* of a frame */
    int64_t tiles;             /* in all: clip, head, frame, slot, y, x */
    int32_t key_rows, key_columns; /* of shared memory */
} BoxJob;

typedef struct Tile {
    SnlsQuery q;            /* the first query */
    int32_t slot, frame, y, x;
    int32_t least_y, count_y, least_x, groups; /* displacements: from least on; along x in groups */
} Tile;

/* Displacements to the cells of a query's window that lie in the frame, along one axis; start: of the window. */
typedef struct Run { int32_t first, last, start; } Run;

static __device__ Run run_of(const SnlsMatch *m, int32_t at, int64_t n)
{
    const int32_t start = at - (int32_t)snls_window_origin((double)at, m->side, 1, n, m->slide);
    const Run r = {max(start, 0) - at, min(start + (int32_t)m->side, (int32_t)n) - 1 - at, start};
    return r;
}

static __device__ __forceinline__ int32_t mirrored(int32_t i, int32_t n) { return i >= 0 && i < n ? i : (int32_t)snls_reflect(i, n); }

static __device__ __forceinline__ int32_t warp_least(int32_t x)
{
    for (int step = 16; step > 0; step /= 2) x = min(x, __shfl_xor_sync(SNLS_WARP, x, step));
    return x;
}

static __device__ Tile tile_of(const BoxJob *s, int64_t number)
{
    const SnlsMatch *m = &s->c.m;
    Tile t;
    const uint32_t in_frame = s->tiles_x * s->tiles_y, place = (uint32_t)(number % in_frame);
    int64_t rest = number / in_frame;
    t.slot = (int32_t)(rest % m->windows), rest /= m->windows;
    t.q.t = rest % m->frames, rest /= m->frames;
    t.q.head = rest % m->heads, t.q.b = rest / m->heads;
    t.frame = (int32_t)snls_slot_frame(t.q.t, t.slot, m->wt, m->frames);
    t.y = (int32_t)(place / s->tiles_x);
    t.x = (int32_t)(place % s->tiles_x);
    return t;
}

/* Mirrored pixels from (y, x) on into shared memory. */
static __device__ void load_pixels(const SnlsMatch *m, const CudaVideo *v, const Tile *t, int64_t frame, int32_t y, int32_t x, int32_t rows, int32_t columns, float4 *to)
{
    const float4 *const from = snls_cuda_pixel(v, t->q.b, t->q.head, frame, 0, 0);
    for (int32_t i = (int32_t)threadIdx.x; i < rows * columns; i += 32 * WARPS) {
        const int32_t row = mirrored(y + i / columns, (int32_t)m->height), column = mirrored(x + i % columns, (int32_t)m->width);
        to[i] = from[row * v->step[2] + column * v->step[3]];
    }
}

/* The sum of e over PS lanes from this one on. */
template <int PS> static __device__ __forceinline__ float sum_across(float e)
{
    const float two = e + __shfl_down_sync(SNLS_WARP, e, 1);
    if (PS == 3) return two + __shfl_down_sync(SNLS_WARP, e, 2);
    const float four = two + __shfl_down_sync(SNLS_WARP, two, 2);
    if (PS == 5) return four + __shfl_down_sync(SNLS_WARP, e, 4);
    return four + (__shfl_down_sync(SNLS_WARP, two, 4) + __shfl_down_sync(SNLS_WARP, e, 6));
}

typedef struct Best { float dist[ROWS]; int32_t id[ROWS]; } Best; /* id: number of the displacement, -1 = none */

/* GROUP displacements of all queries of the tile. wanted: rows of queries that have them in their windows; from: keys of the first row
 * and the lane's column. */
template <int PS> static __device__ __forceinline__ void scan(const float4 *query, const float4 *key, int32_t key_columns, uint32_t wanted, const bool (&valid)[GROUP], int32_t id, Best *best)
{
    float rows[GROUP][PS]; /* sums of the last PS rows; constant places, as the loop is unrolled */
    uint32_t needed = 0;
#pragma unroll
    for (int r = 0; r < PS; r++) needed |= wanted << r;
#pragma unroll
    for (int r = 0; r < QUERY_ROWS(PS); r++) {
        if (!(needed >> r & 1)) continue;
        const float4 a = query[r * 32];
#pragma unroll
        for (int g = 0; g < GROUP; g++) rows[g][r % PS] = sum_across<PS>(snls_cuda_square(a, key[r * key_columns + g], 0));
        if (r < PS - 1 || !(wanted >> (r - PS + 1) & 1)) continue;
        const int y = r < PS - 1 ? 0 : r - PS + 1;
#pragma unroll
        for (int g = 0; g < GROUP; g++) {
            float sum = rows[g][0];
#pragma unroll
            for (int i = 1; i < PS; i++) sum += rows[g][i];
            if (valid[g] && sum < best->dist[y]) best->dist[y] = sum, best->id[y] = id + g;
        }
    }
}

/* One whose candidates are all infinite or no numbers: cell by cell, as the definition says. */
static __device__ __noinline__ uint64_t search_again(const CudaMatch *c, const SnlsQuery *q, int64_t slot)
{
    const SnlsMatchWindow w = snls_match_window(&c->m, q, slot);
    uint64_t best = SNLS_NO_KEY;
    for (int64_t row = 0; row < c->m.side; row++)
        for (int64_t column = 0; column < c->m.side; column++) {
            const uint64_t key = snls_cuda_candidate(c, q, &w, slot, row, column, true, 0);
            best = key < best ? key : best;
        }
    return best;
}

/* The best of all warps: a thread a query. */
static __device__ void write_best(const BoxJob *s, const Tile *t, const Best *mine, float *dists, int32_t *ids, int columns)
{
    const SnlsMatch *m = &s->c.m;
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    __syncthreads();
#pragma unroll
    for (int y = 0; y < ROWS; y++) dists[(warp * ROWS + y) * 32 + lane] = mine->dist[y], ids[(warp * ROWS + y) * 32 + lane] = mine->id[y];
    __syncthreads();
    SnlsQuery q = t->q;
    q.i = (int64_t)t->y * ROWS + warp, q.j = (int64_t)t->x * columns + lane;
    if (lane >= columns || q.i >= m->height || q.j >= m->width) return;
    float dist = INFINITY;
    int32_t id = -1;
    for (int w = 0; w < WARPS; w++) {
        const float d = dists[(w * ROWS + warp) * 32 + lane];
        const int32_t other = ids[(w * ROWS + warp) * 32 + lane];
        if (other >= 0 && (d < dist || (d == dist && other < id))) dist = d, id = other;
    }
    const int32_t dy = t->least_y + id / (t->groups * GROUP), dx = t->least_x + id % (t->groups * GROUP);
    const int32_t row = (int32_t)q.i + dy - run_of(m, (int32_t)q.i, m->height).start, column = (int32_t)q.j + dx - run_of(m, (int32_t)q.j, m->width).start;
    const uint64_t key = id < 0 ? search_again(&s->c, &q, t->slot) : snls_key(dist, false, (uint32_t)((t->slot * m->side + row) * m->side + column));
    snls_cuda_write_found(m, &q, t->slot, key);
}

template <int PS> static __global__ void __launch_bounds__(32 * WARPS, 3) search_boxes(const __grid_constant__ BoxJob s)
{
    extern __shared__ float4 shared[]; /* query: QUERY_ROWS x 32, key: key_rows x key_columns */
    __shared__ uint32_t wanted[2 * SIDE_MOST]; /* rows of queries for each displacement along y */
    const SnlsMatch *m = &s.c.m;
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    float4 *const query = shared, *const key = shared + QUERY_ROWS(PS) * 32;
    Tile t = tile_of(&s, blockIdx.x);
    const int32_t y = t.y * ROWS, x = t.x * COLUMNS(PS), height = (int32_t)m->height;
    const bool there = lane < COLUMNS(PS) && x + lane < (int32_t)m->width;
    const Run across = run_of(m, min(x + lane, (int32_t)m->width - 1), m->width), down = run_of(m, min(y + lane % ROWS, height - 1), m->height);
    t.least_y = warp_least(down.first), t.count_y = -warp_least(-down.last) - t.least_y + 1;
    t.least_x = warp_least(there ? across.first : 0), t.groups = (-warp_least(there ? -across.last : 0) - t.least_x) / GROUP + 1;
    load_pixels(m, &s.c.query, &t, t.q.t, y - PS / 2, x - PS / 2, QUERY_ROWS(PS), 32, query);
    load_pixels(m, &s.c.key, &t, t.frame, y - PS / 2 + t.least_y, x - PS / 2 + t.least_x, QUERY_ROWS(PS) + t.count_y - 1, s.key_columns, key);
    if (warp == 0 && lane < 2 * SIDE_MOST) {
        uint32_t rows = 0;
        for (int r = 0; r < ROWS && y + r < height; r++) {
            const Run run = run_of(m, y + r, m->height);
            rows |= (uint32_t)(t.least_y + lane >= run.first && t.least_y + lane <= run.last) << r;
        }
        wanted[lane] = rows;
    }
    __syncthreads();
    Best best;
#pragma unroll
    for (int i = 0; i < ROWS; i++) best.dist[i] = INFINITY, best.id[i] = -1;
    for (int item = warp; item < t.count_y * t.groups; item += WARPS) {
        const int dy = item / t.groups, dx = item % t.groups * GROUP;
        bool valid[GROUP];
#pragma unroll
        for (int g = 0; g < GROUP; g++) valid[g] = there && t.least_x + dx + g >= across.first && t.least_x + dx + g <= across.last;
        scan<PS>(query + lane, key + dy * s.key_columns + dx + lane, s.key_columns, wanted[dy], valid, dy * t.groups * GROUP + dx, &best);
    }
    write_best(&s, &t, &best, (float *)shared, (int32_t *)shared + WARPS * ROWS * 32, COLUMNS(PS));
}

/* ---- when, and how large ---- */

bool snls_cuda_box_applies(const CudaMatch *c)
{
    const SnlsMatch *m = &c->m;
    if (m->refine || m->all || m->prod || m->anchor != SNLS_ANCHOR_NONE || m->exclude != SNLS_EXCLUDE_NONE || m->flow_slots) return false;
    if (m->k != 1 || (!m->each && m->windows > 1) || m->side > SIDE_MOST || m->stride0 != 1 || m->stride1 != 1) return false;
    if ((m->ps != 3 && m->ps != 5 && m->ps != 7) || m->dilation != 1 || m->drop || m->features > 4) return false;
    return m->height < INT32_MAX / 4 && m->width < INT32_MAX / 4;
}

template <int PS> static SnlsStatus launch(SnlsContext *ctx, const CudaMatch *c)
{
    const SnlsMatch *m = &c->m;
    BoxJob job = {*c, (uint32_t)((m->width + COLUMNS(PS) - 1) / COLUMNS(PS)), (uint32_t)((m->height + ROWS - 1) / ROWS), 0, 0, 0};
    const int32_t reach = 2 * ((int32_t)m->side - 1); /* displacements along an axis, less one: windows slide at either border */
    job.key_rows = QUERY_ROWS(PS) + reach;
    job.key_columns = 32 + reach + GROUP - 1;
    job.tiles = m->batch * m->heads * m->frames * m->windows * job.tiles_x * job.tiles_y;
    const size_t pixels = (size_t)(QUERY_ROWS(PS) * 32 + job.key_rows * job.key_columns) * sizeof(float4), lists = WARPS * ROWS * 32 * (sizeof(float) + sizeof(int32_t));
    SNLS_REQUIRE(ctx, job.tiles <= INT32_MAX, SNLS_ERR_UNSUPPORTED, "%s: more queries than backend cuda takes in one call", m->op);
    SNLS_TRY(snls_cuda_allow_shared(ctx, m->op, (const void *)search_boxes<PS>, 2 * SIDE_MOST * sizeof(uint32_t)));
    if (job.tiles) search_boxes<PS><<<(unsigned)job.tiles, 32 * WARPS, pixels > lists ? pixels : lists, snls_cuda_stream(ctx)>>>(job);
    return snls_cuda_check(ctx, m->op, cudaGetLastError());
}

SnlsStatus snls_cuda_box_forward(SnlsContext *ctx, const CudaMatch *c)
{
    return c->m.ps == 3 ? launch<3>(ctx, c) : c->m.ps == 5 ? launch<5>(ctx, c) : launch<7>(ctx, c);
}
