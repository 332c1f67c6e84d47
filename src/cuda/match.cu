/* match.cu: forward of search, search_all and refine for any parameters: a warp for each query. Candidates of a window are
 * scored side by side, each by `parts` lanes, from interpolated pixels as docs/operators.md has it; the best are kept by the warp.
 * tile.cu does the common cases faster. */
#include "cuda/box.h"
#include "cuda/match.h"
#include "cuda/score.h"
#include "cuda/tile.h"
#include "cuda/warp.h"

enum { WARPS = 4 };

/* Cells of a window that are looked at: all of them where all are written, else those inside the frame. */
typedef struct Cells { int64_t row0, row1, column0, column1; } Cells;

static __device__ Cells cells_of(const SnlsMatch *m, const SnlsMatchWindow *w)
{
    Cells cells = {0, m->side, 0, m->side};
    if (m->all) return cells;
    snls_match_valid_run(w->y, m->stride1, w->origin_y, m->side, m->height, &cells.row0, &cells.row1);
    snls_match_valid_run(w->x, m->stride1, w->origin_x, m->side, m->width, &cells.column0, &cells.column1);
    return cells;
}

/* Where the next output of a group goes, and how many anchors stand before it. */
typedef struct Group { int64_t first, anchors; } Group;

static __device__ void scan_window(const CudaMatch *c, const SnlsQuery *q, int64_t window, CudaBest *best, Group *group, int lane)
{
    const SnlsMatch *m = &c->m;
    SnlsMatchWindow w = snls_match_window(m, q, window);
    if (m->exclude == SNLS_EXCLUDE_FRAME && window == 0) w.valid = false;
    if (!w.valid && !m->all) return;
    SnlsMatchSpecial special = {-1, -1};
    if (w.valid) special = snls_match_special(m, q, &w, window);
    const Cells cells = cells_of(m, &w);
    const uint32_t columns = (uint32_t)(cells.column1 - cells.column0), n = (uint32_t)(cells.row1 - cells.row0) * columns;
    const int part = lane & (c->parts - 1), side_by_side = 32 / c->parts;
    for (uint32_t base = 0; base < n; base += (uint32_t)side_by_side) {
        const uint32_t at = base + (uint32_t)(lane / c->parts), line = columns ? at / columns : 0;
        const int64_t row = cells.row0 + line, column = cells.column0 + (at - line * columns), cell = row * m->side + column;
        uint64_t key = snls_cuda_candidate(c, q, &w, window, row, column, at < n && cell != special.excluded, part);
        if (m->all) {
            if (at < n && part == 0) snls_cuda_write(m, q, window * m->side * m->side + cell, key, &w);
            continue;
        }
        if (part) key = SNLS_NO_KEY; /* one of the lanes that have it */
        const bool anchored = key != SNLS_NO_KEY && cell == special.anchored;
        if (anchored) snls_cuda_write(m, q, group->first + group->anchors, key, &w);
        if (__any_sync(SNLS_WARP, anchored)) group->anchors++;
        snls_best_offer(best, lane, anchored ? SNLS_NO_KEY : key);
    }
}

/* The list behind the anchors; places that are left have no neighbour. */
static __device__ void write_group(const CudaMatch *c, const SnlsQuery *q, const CudaBest *best, const Group *group, int lane)
{
    for (int64_t i = lane; group->anchors + i < c->m.k; i += 32) {
        const uint64_t key = i >= c->k ? SNLS_NO_KEY : best->list ? best->list[i] : best->held;
        snls_cuda_write_found(&c->m, q, group->first + group->anchors + i, key);
    }
}

static __device__ void match_query(const CudaMatch *c, const SnlsQuery *q, CudaBest *best, int lane)
{
    const SnlsMatch *m = &c->m;
    Group group = {0, 0};
    snls_best_clear(best, lane);
    for (int64_t window = 0; window < m->windows; window++) {
        scan_window(c, q, window, best, &group, lane);
        if (!m->each) continue;
        write_group(c, q, best, &group, lane);
        snls_best_clear(best, lane);
        group.first += m->k;
        group.anchors = 0;
    }
    if (!m->each && !m->all) write_group(c, q, best, &group, lane);
}

static __global__ void __launch_bounds__(32 * WARPS) match_any(const __grid_constant__ CudaMatch c)
{
    const int lane = (int)(threadIdx.x % 32);
    const int64_t warp = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32, warps = (int64_t)gridDim.x * WARPS;
    CudaBest best = {c.lists ? c.lists + warp * c.k : NULL, 0, 0, c.k};
    for (int64_t n = warp; n < c.queries; n += warps) {
        const SnlsQuery q = snls_cuda_query(&c.m, n);
        match_query(&c, &q, &best, lane);
    }
}

static SnlsStatus take_tensors(SnlsContext *ctx, const SnlsMatch *m)
{
    SNLS_TRY(snls_cuda_take_video(ctx, m->op, "query", &m->query));
    SNLS_TRY(snls_cuda_take_video(ctx, m->op, "key", &m->key));
    SNLS_TRY(snls_cuda_take_numbers(ctx, m->op, m->refine ? "centre" : "flow", &m->centre));
    SNLS_TRY(snls_cuda_take_numbers(ctx, m->op, "dist", &m->dist));
    return snls_cuda_take_numbers(ctx, m->op, "offset", &m->offset);
}

int snls_cuda_parts(int64_t features)
{
    int parts = 1;
    while (parts < 8 && parts < snls_cuda_quads(features)) parts *= 2;
    return parts;
}

enum { LIST_BYTES = 32 << 20 }; /* lists that do not fit in the lanes: as many warps as this pays for */

SnlsStatus snls_cuda_match_forward(SnlsContext *ctx, const SnlsMatch *m)
{
    CudaMatch c = {.m = *m, .queries = m->batch * m->heads * m->frames * m->rows * m->columns, .parts = snls_cuda_parts(m->features)};
    const int64_t group = (m->each ? 1 : m->windows) * m->side * m->side;
    c.k = m->all ? 1 : m->k < group ? m->k : group;
    int64_t blocks = snls_cuda_blocks(c.queries, WARPS, 64 * (int64_t)snls_cuda(ctx)->multiprocessors);
    const bool listed = c.k > 32;
    if (listed && blocks > 1 + LIST_BYTES / (8 * WARPS) / c.k) blocks = 1 + LIST_BYTES / (8 * WARPS) / c.k;
    SNLS_TRY(take_tensors(ctx, m));
    snls_arena_begin(&ctx->arena);
    snls_cuda_video_plan(ctx, &m->query, m->heads);
    snls_cuda_video_plan(ctx, &m->key, m->heads);
    if (listed) snls_arena_plan(&ctx->arena, blocks * WARPS * c.k, sizeof(uint64_t));
    snls_cuda_tile_plan(ctx, &c);
    SNLS_TRY(snls_cuda_commit(ctx, m->op));
    SNLS_TRY(snls_cuda_video_claim(ctx, m->op, &c.query, &m->query, m->heads));
    SNLS_TRY(snls_cuda_video_claim(ctx, m->op, &c.key, &m->key, m->heads));
    if (listed) c.lists = (uint64_t *)snls_arena_claim(&ctx->arena, blocks * WARPS * c.k, sizeof(uint64_t));
    if (snls_cuda_box_applies(&c)) return snls_cuda_box_forward(ctx, &c);
    if (snls_cuda_warp_applies(ctx, &c)) return snls_cuda_warp_forward(ctx, &c);
    if (snls_cuda_tile_applies(ctx, &c)) return snls_cuda_tile_forward(ctx, &c);
    match_any<<<(unsigned)blocks, 32 * WARPS, 0, snls_cuda_stream(ctx)>>>(c);
    return snls_cuda_check(ctx, m->op, cudaGetLastError());
}
