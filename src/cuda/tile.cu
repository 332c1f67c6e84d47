/* tile.cu: the kernel of the fast search, and when it applies. tile.h says how it works. */
#include "cuda/tile.h"
#include "cuda/tile_alone.h"
#include "cuda/tile_score.h"
#include "cuda/tile_select.h"

/* So few queries are quicker alone than in a pass of their own. */
static __device__ __forceinline__ int few_of(const SnlsMatch *m, bool l2) { return m->ps > 1 ? 6 : l2 ? 8 : 24; }

/* One slot of one tile. */
template <int RA, bool L2> static __device__ __forceinline__ void search_slot(TileWork *t)
{
    const SnlsMatch *m = &t->p->c.m;
    t->frame = snls_slot_frame(t->first.t, t->slot, m->wt, m->frames);
    __syncthreads();
    tile_windows(t);
    for (;;) {
        tile_choose(t);
        if (!t->left) return;
        if (t->active < few_of(m, L2)) break;
        tile_columns(t);
        tile_offsets(t, TILE_HIGH(RA));
        for (int row = 0; row < t->rows; row += TILE_RB(RA)) {
            const TileWork lent = *t;
            tile_score_rows<RA, L2>(&lent, row);
            tile_select<TILE_HIGH(RA), L2>(t, row, TILE_RB(RA));
        }
    }
    const TileWork lent = *t;
    tile_alone(&lent);
}

static __device__ __forceinline__ TileWork work_of(const CudaTile *p, int64_t tile)
{
    const SnlsMatch *m = &p->c.m;
    TileWork t = {.p = p};
    const int64_t plane = tile / (p->tiles_x * p->tiles_y), in_plane = tile - plane * p->tiles_x * p->tiles_y;
    t.first.i = in_plane / p->tiles_x * p->high;
    t.first.j = in_plane % p->tiles_x * p->wide;
    t.first.t = plane % m->frames;
    t.first.head = plane / m->frames % m->heads;
    t.first.b = plane / m->frames / m->heads;
    return t;
}

template <int RA, bool L2> static __global__ void __launch_bounds__(TILE_THREADS, RA == 1 ? 4 : RA == 2 ? 3 : 2) search_tiles(const __grid_constant__ CudaTile p)
{
    const SnlsMatch *m = &p.c.m;
    for (int64_t tile = blockIdx.x; tile < p.tiles; tile += gridDim.x) {
        TileWork t = work_of(&p, tile);
        __syncthreads();
        const TileWork lent = t; /* for what needs only the tile */
        tile_clear_lists(&lent);
        for (t.slot = 0; t.slot < m->windows; t.slot++) {
            if (t.slot || m->exclude != SNLS_EXCLUDE_FRAME) search_slot<RA, L2>(&t);
            if (!m->each) continue;
            __syncthreads(); /* lists of queries that were scored alone are other warps' */
            tile_write_lists(&lent, t.slot * m->k);
            __syncthreads();
            tile_clear_lists(&lent);
        }
        __syncthreads();
        if (!m->each) tile_write_lists(&lent, 0);
    }
}

/* ---- differences of neighbouring key pixels, summed over patches: a warp for each pixel ---- */

typedef struct Planes {
    CudaMatch c;
    float4 *planes;
    int64_t n; /* B*heads*T*H*W */
} Planes;

static __device__ const float4 *mirrored(const CudaMatch *c, const SnlsQuery *q, int64_t y, int64_t x)
{
    return snls_cuda_pixel(&c->key, q->b, q->head, q->t, snls_reflect(y, c->m.height), snls_reflect(x, c->m.width));
}

static __global__ void difference_planes(const __grid_constant__ Planes p)
{
    const SnlsMatch *m = &p.c.m; /* stride0 is 1: pixels are queries */
    const int lane = (int)(threadIdx.x % 32), part = lane & (p.c.parts - 1), together = 32 / p.c.parts;
    const int64_t warps = (int64_t)gridDim.x * TILE_WARPS, warp = (int64_t)blockIdx.x * TILE_WARPS + threadIdx.x / 32;
    for (int64_t base = warp * together; base < p.n; base += warps * together) {
        const int64_t at = base + lane / p.c.parts;
        float sum[4] = {0, 0, 0, 0};
        const SnlsQuery q = snls_cuda_query(m, at < p.n ? at : p.n - 1);
        for (int64_t i = 0; i < m->ps * m->ps; i++) {
            const int64_t y = q.i + i / m->ps - m->ps / 2, x = q.j + i % m->ps - m->ps / 2;
            const float4 *here = mirrored(&p.c, &q, y, x), *right = mirrored(&p.c, &q, y, x + 1), *below = mirrored(&p.c, &q, y + 1, x),
                         *diagonal = mirrored(&p.c, &q, y + 1, x + 1);
            for (int64_t quad = part; quad < p.c.key.quads; quad += p.c.parts) {
                sum[0] = snls_cuda_square(here[quad], right[quad], sum[0]);
                sum[1] = snls_cuda_square(here[quad], below[quad], sum[1]);
                sum[2] = snls_cuda_square(here[quad], diagonal[quad], sum[2]);
                sum[3] = snls_cuda_square(right[quad], below[quad], sum[3]);
            }
        }
        for (int step = p.c.parts / 2; step > 0; step /= 2)
            for (int i = 0; i < 4; i++) sum[i] += __shfl_xor_sync(SNLS_WARP, sum[i], step);
        if (part == 0 && at < p.n) p.planes[at] = make_float4(sum[0], sum[1], sum[2], sum[3]);
    }
}

/* ---- the host's side ---- */

/* Groups of eight rows of pixels: patches need a tile that is larger than they are. */
static int groups_of(const SnlsMatch *m) { return m->ps == 1 ? 1 : m->ps <= 3 ? 2 : 4; }

static int32_t part_of(int32_t *bytes, int64_t size)
{
    const int32_t at = *bytes;
    *bytes += (int32_t)((size + 15) / 16 * 16);
    return at;
}

static CudaTile tile_of(const CudaMatch *c)
{
    static const int64_t stage[] = {0, TILE_STAGE_BYTES(1), TILE_STAGE_BYTES(2), 0, TILE_STAGE_BYTES(4)};
    static const int64_t scores[] = {0, TILE_SCORE_BYTES(1), TILE_SCORE_BYTES(2), 0, TILE_SCORE_BYTES(4)};
    const SnlsMatch *m = &c->m;
    const int groups = groups_of(m);
    CudaTile p = {.c = *c, .wide = (int32_t)(TILE_WIDE - m->ps + 1), .high = (int32_t)(TILE_HIGH(groups) - m->ps + 1)};
    p.columns = m->stride1 * (double)(m->side - 1) <= 2 ? 8 : TILE_COLUMNS; /* a small window: more blocks share a multiprocessor */
    p.positions = (p.high * TILE_WIDE + 31) / 32 * 32; /* whole warps: lanes go through them together */
    p.tiles_x = (m->columns + p.wide - 1) / p.wide;
    p.tiles_y = (m->rows + p.high - 1) / p.high;
    p.tiles = m->batch * m->heads * m->frames * p.tiles_x * p.tiles_y;
    part_of(&p.bytes, stage[groups] > scores[groups] ? stage[groups] : scores[groups]);
    p.retained = part_of(&p.bytes, 4 * (int64_t)p.columns * p.positions);
    p.fraction = part_of(&p.bytes, 4 * m->side * p.positions);
    p.cell = part_of(&p.bytes, m->side * p.positions);
    p.query = part_of(&p.bytes, (int64_t)sizeof(TileQuery) * p.positions);
    p.boxes = part_of(&p.bytes, (int64_t)sizeof(TileBox) * p.positions);
    p.value = part_of(&p.bytes, 4 * c->k * p.positions);
    p.id = part_of(&p.bytes, 4 * c->k * p.positions);
    p.offset = part_of(&p.bytes, 8 * (TILE_OFFSETS + TILE_HIGH(groups)));
    p.extent = part_of(&p.bytes, sizeof(TileExtent));
    p.slack = ((float)(m->features * m->ps * m->ps) + 32) * FLT_EPSILON;
    return p;
}

/* Candidates between pixels can occur. */
static bool has_fractions(const SnlsMatch *m) { return !m->nearest && (m->flow_slots > 0 || m->stride1 != rint(m->stride1)); }

bool snls_cuda_tile_applies(const SnlsContext *ctx, const CudaMatch *c)
{
    const SnlsMatch *m = &c->m;
    if (m->refine || m->all || m->anchor != SNLS_ANCHOR_NONE || m->exclude == SNLS_EXCLUDE_SELF || m->stride0 != 1) return false;
    if (m->ps > 9 || (m->ps > 1 && (m->dilation != 1 || m->drop))) return false;
    if (m->side > TILE_SIDE || c->k > TILE_LIST || m->height > INT32_MAX / 2 || m->width > INT32_MAX / 2) return false;
    const double span = m->stride1 * (double)(m->side - 1) + 2; /* pixels along an axis; a wide grid is cheaper cell by cell */
    if (span > (double)TILE_COLUMNS || span > 2 * (double)m->side + 1) return false;
    return (size_t)tile_of(c).bytes <= snls_cuda(ctx)->shared_limit;
}

static int64_t plane_pixels(const SnlsMatch *m) { return m->prod || !has_fractions(m) ? 0 : m->batch * m->heads * m->frames * m->height * m->width; }

void snls_cuda_tile_plan(SnlsContext *ctx, const CudaMatch *c)
{
    if (snls_cuda_tile_applies(ctx, c)) snls_arena_plan(&ctx->arena, plane_pixels(&c->m), sizeof(float4));
}

static SnlsStatus make_planes(SnlsContext *ctx, CudaTile *p)
{
    Planes planes = {.c = p->c, .n = plane_pixels(&p->c.m)};
    if (!planes.n) return SNLS_OK;
    planes.planes = (float4 *)snls_arena_claim(&ctx->arena, planes.n, sizeof(float4));
    p->planes = planes.planes;
    const unsigned blocks = snls_cuda_blocks(planes.n * p->c.parts, TILE_THREADS, 64 * (int64_t)snls_cuda(ctx)->multiprocessors);
    difference_planes<<<blocks, TILE_THREADS, 0, snls_cuda_stream(ctx)>>>(planes);
    return snls_cuda_check(ctx, p->c.m.op, cudaGetLastError());
}

template <int RA, bool L2> static SnlsStatus launch(SnlsContext *ctx, const CudaTile *p)
{
    SNLS_TRY(snls_cuda_allow_shared(ctx, p->c.m.op, (const void *)search_tiles<RA, L2>, 0));
    search_tiles<RA, L2><<<snls_cuda_blocks(p->tiles, 1, 0), TILE_THREADS, (size_t)p->bytes, snls_cuda_stream(ctx)>>>(*p);
    return snls_cuda_check(ctx, p->c.m.op, cudaGetLastError());
}

SnlsStatus snls_cuda_tile_forward(SnlsContext *ctx, const CudaMatch *c)
{
    CudaTile p = tile_of(c);
    SNLS_TRY(make_planes(ctx, &p));
    switch (groups_of(&c->m)) {
    case 1: return c->m.prod ? launch<1, false>(ctx, &p) : launch<1, true>(ctx, &p);
    case 2: return c->m.prod ? launch<2, false>(ctx, &p) : launch<2, true>(ctx, &p);
    default: return c->m.prod ? launch<4, false>(ctx, &p) : launch<4, true>(ctx, &p);
    }
}
