/* warp.cu: the kernel of the fast search by products, and when it applies. warp.h says how it works. */
#include "cuda/warp_select.h"

/* How the rows of a pass are scored. KEEP: the queries stay in registers. */
template <int TILES, bool KEEP> struct Together {
    static constexpr int STEP = WARP_STEP(KEEP);
    const WarpQueries (&held)[2];
    WarpKeys<TILES> keys;
    WarpPixels<TILES, STEP> ahead;
    __device__ __forceinline__ void score(const WarpWork *t, const WarpPass *pass, int row) { warp_products<TILES, KEEP>(t, pass, &keys, held, &ahead, row); }
};
template <int TILES, int ROWS> struct Alone {
    static constexpr int STEP = ROWS;
    __device__ __forceinline__ void score(const WarpWork *t, const WarpPass *pass, int row) { warp_lines<TILES, STEP>(t, pass, row); }
};

/* CELLS: columns of cells of a lane. TILES: groups of eight key pixels of a row. SHORT: lists stay in registers. */
template <int CELLS, int TILES, bool SHORT, bool WHOLE, typename Way> static __device__ __forceinline__ void search_rows(const WarpWork *t, const WarpPass *pass, const WarpWindow *w, Way *way, WarpBest *best)
{
    WarpScan<CELLS> scan = warp_scan_of<CELLS>(t, pass, w, WHOLE);
    for (int row = 0; row < pass->rows; row += Way::STEP) {
        way->score(t, pass, row);
#pragma unroll 1
        for (int of = 0; of < Way::STEP; of++)
            if (WHOLE) warp_scan_whole<CELLS, TILES, SHORT>(t, &scan, best, row + of, of);
            else warp_scan_any<CELLS, TILES, SHORT>(t, pass, w, &scan, best, row + of, of);
    }
}

template <int CELLS, int TILES, bool SHORT, typename Way> static __device__ __forceinline__ void search_pass(const WarpWork *t, const WarpPass *pass, const WarpWindow *w, Way *way, WarpBest *best)
{
    const bool whole = __all_sync(SNLS_WARP, !(pass->active >> t->lane & 1) || w->whole);
    if (whole) search_rows<CELLS, TILES, SHORT, true>(t, pass, w, way, best);
    else search_rows<CELLS, TILES, SHORT, false>(t, pass, w, way, best);
}

/* A function of its own, so that the other way keeps its registers. */
template <int CELLS, int TILES, int STEP, bool SHORT> static __device__ __noinline__ void search_alone(const WarpWork *t, const WarpPass *pass, const WarpWindow *w, WarpBest *best)
{
    const WarpWork work = *t;
    const WarpPass copy = *pass;
    const WarpWindow window = *w;
    WarpBest own = *best;
    Alone<TILES, STEP> way;
    search_pass<CELLS, TILES, SHORT>(&work, &copy, &window, &way, &own);
    *best = own;
}

template <int CELLS, int TILES, bool KEEP, bool SHORT> static __device__ __forceinline__ void search_slot(WarpWork *t, const WarpQueries (&held)[2], WarpBest *best)
{
    WarpWindow w = {};
    t->frame = snls_slot_frame(warp_first(t)->t, t->slot, t->p->c.m.wt, t->p->c.m.frames);
    unsigned left = __ballot_sync(SNLS_WARP, warp_window(t, &w));
    while (left) {
        const WarpPass pass = warp_choose<TILES>(t, &w, left);
        if (pass.alone) {
            const WarpWork lent = *t;
            const WarpWindow window = w;
            WarpBest copy = *best;
            search_alone<CELLS, TILES, WARP_STEP(KEEP), SHORT>(&lent, &pass, &window, &copy);
            *best = copy;
        } else {
            Together<TILES, KEEP> way = {held, warp_keys<TILES>(t, &pass)};
            if (KEEP) way.ahead = warp_load_keys<TILES, WARP_STEP(KEEP)>(t, &pass, &way.keys, 0, 0);
            search_pass<CELLS, TILES, SHORT>(t, &pass, &w, &way, best);
        }
        left &= ~pass.active;
    }
}

/* The group of this warp; false: the frame has none there. */
static __device__ __forceinline__ bool take_group(const WarpWork *t, int64_t tile)
{
    const CudaWarp *p = t->p;
    const SnlsMatch *m = &p->c.m;
    const int warp = (int)threadIdx.x / 32;
    const int64_t plane = tile / (p->tiles_x * p->tiles_y), in_plane = tile - plane * p->tiles_x * p->tiles_y;
    const SnlsQuery first = {.b = plane / m->frames / m->heads, .head = plane / m->frames % m->heads, .t = plane % m->frames,
                             .i = (in_plane / p->tiles_x * 2 + warp / 2) * WARP_SIDE, .j = (in_plane % p->tiles_x * 2 + warp % 2) * WARP_SIDE};
    __syncwarp();
    if (t->lane == 0) *warp_first(t) = first;
    __syncwarp();
    return first.i < m->rows && first.j < m->columns;
}

template <int CELLS, bool SHORT> static __device__ __forceinline__ void finish(const WarpWork *t, WarpBest *best)
{
    const SnlsMatch *m = &t->p->c.m;
    const WarpWork lent = *t;
    WarpBest copy = *best;
    if (__any_sync(SNLS_WARP, best->broken)) warp_again<SHORT>(&lent, &copy, CELLS, m->each ? t->slot : 0, t->slot + 1);
    warp_write<SHORT>(&lent, &copy, m->each ? t->slot * m->k : 0);
    warp_clear<SHORT>(t, best);
}

template <int CELLS, int TILES, bool KEEP, bool SHORT> static __global__ void __launch_bounds__(32 * WARP_GROUPS, 3) search_warps(const __grid_constant__ CudaWarp p)
{
    const SnlsMatch *m = &p.c.m;
    for (int64_t tile = blockIdx.x; tile < p.tiles; tile += gridDim.x) {
        WarpWork t = {.p = &p, .lane = (int)threadIdx.x % 32, .memory = (int)threadIdx.x / 32 * p.bytes};
        if (!take_group(&t, tile)) continue;
        WarpQueries held[2] = {};
        if (KEEP) held[0] = warp_load_queries(&t, 0), held[1] = warp_load_queries(&t, p.c.query.quads > 4);
        WarpBest best;
        warp_clear<SHORT>(&t, &best);
        for (; t.slot < (int)m->windows; t.slot++) {
            if (t.slot || m->exclude != SNLS_EXCLUDE_FRAME) search_slot<CELLS, TILES, KEEP, SHORT>(&t, held, &best);
            if (m->each || t.slot + 1 == (int)m->windows) finish<CELLS, SHORT>(&t, &best);
        }
    }
}

/* ---- the host's side ---- */

/* Key pixels of a row that a group's queries need where flow is constant, and one more. */
static double columns_of(const SnlsMatch *m) { return m->stride1 * (double)(m->side - 1) + 2 + (double)((WARP_SIDE - 1) * m->stride0) + 1; }

static int tiles_of(const SnlsMatch *m) { return m->side <= 10 && columns_of(m) <= 16 ? 2 : 3; }

static bool keeps(const CudaMatch *c) { return snls_cuda_quads(c->m.features) <= 8; }

static CudaWarp warp_of(const CudaMatch *c)
{
    const SnlsMatch *m = &c->m;
    CudaWarp p = {.c = *c, .spread = m->stride0 == 1 ? 8 : 16};
    const int64_t side = 2 * WARP_SIDE, row = WARP_ROW_FLOATS(tiles_of(m));
    p.tiles_x = (m->columns + side - 1) / side;
    p.tiles_y = (m->rows + side - 1) / side;
    p.tiles = m->batch * m->heads * m->frames * p.tiles_x * p.tiles_y;
    const int64_t scores = WARP_STEP(keeps(c)) * row + WARP_BEYOND, merged = 2 * WARP_QUERIES * c->k + 2 * 32 * WARP_SHORT;
    p.first = (int32_t)(((scores > merged ? scores : merged) + 3) / 4 * 4);
    p.lists = p.first + (int32_t)(sizeof(SnlsQuery) + 15) / 16 * 4;
    p.bytes = 4 * (p.lists + (c->k > WARP_SHORT ? 2 * 32 * (int32_t)c->k : 0));
    return p;
}

/* Code that was compiled for less than 8.0 has no matrix instructions in it, whatever GPU it runs on. */
static __global__ void compiled(void) {}
static bool has_instructions(void)
{
    cudaFuncAttributes code;
    return cudaFuncGetAttributes(&code, compiled) == cudaSuccess && code.ptxVersion >= 80;
}

bool snls_cuda_warp_applies(const SnlsContext *ctx, const CudaMatch *c)
{
    const SnlsMatch *m = &c->m;
    if (snls_cuda(ctx)->capability < 80 || !m->prod || m->ps != 1 || m->features < 16) return false;
    if (m->refine || m->all || m->anchor != SNLS_ANCHOR_NONE || m->exclude == SNLS_EXCLUDE_SELF) return false;
    if (m->side > WARP_CELLS || c->k > WARP_LIST || m->height > INT32_MAX / 2 || m->width > INT32_MAX / 2) return false;
    const int64_t quads = m->height * c->key.step[2] + m->width * c->key.step[3] + c->key.quads; /* of a key frame: numbered in 32 bits */
    if (c->key.data && (quads > INT32_MAX || c->key.step[2] < 0 || c->key.step[3] < 0)) return false;
    const double span = m->stride1 * (double)(m->side - 1) + 2; /* pixels along an axis; a wide grid is cheaper cell by cell */
    if (span > 24 || span > 2 * (double)m->side + 1) return false;
    return (size_t)(WARP_GROUPS * warp_of(c).bytes) <= snls_cuda(ctx)->shared_limit && has_instructions();
}

template <int CELLS, int TILES, bool KEEP, bool SHORT> static SnlsStatus launch(SnlsContext *ctx, const CudaWarp *p)
{
    const int bytes = WARP_GROUPS * p->bytes;
    SNLS_TRY(snls_cuda_allow_shared(ctx, p->c.m.op, (const void *)search_warps<CELLS, TILES, KEEP, SHORT>, 0));
    search_warps<CELLS, TILES, KEEP, SHORT><<<snls_cuda_blocks(p->tiles, 1, 0), 32 * WARP_GROUPS, (size_t)bytes, snls_cuda_stream(ctx)>>>(*p);
    return snls_cuda_check(ctx, p->c.m.op, cudaGetLastError());
}

template <int CELLS, int TILES> static SnlsStatus launch_sized(SnlsContext *ctx, const CudaWarp *p)
{
    const bool keep = keeps(&p->c), brief = p->c.k <= WARP_SHORT;
    if (keep) return brief ? launch<CELLS, TILES, true, true>(ctx, p) : launch<CELLS, TILES, true, false>(ctx, p);
    return brief ? launch<CELLS, TILES, false, true>(ctx, p) : launch<CELLS, TILES, false, false>(ctx, p);
}

SnlsStatus snls_cuda_warp_forward(SnlsContext *ctx, const CudaMatch *c)
{
    const CudaWarp p = warp_of(c);
    const int64_t side = c->m.side;
    if (tiles_of(&c->m) == 2) return side <= 6 ? launch_sized<3, 2>(ctx, &p) : launch_sized<5, 2>(ctx, &p);
    return side <= 10 ? launch_sized<5, 3>(ctx, &p) : launch_sized<8, 3>(ctx, &p);
}
