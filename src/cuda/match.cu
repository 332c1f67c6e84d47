/* match.cu: forward of search, search_all and refine for any parameters: a warp for each query. Candidates of a window are
 * scored side by side, each by `parts` lanes, from interpolated pixels as docs/operators.md has it; the best are kept by the warp.
 * box.cu, warp.cu, few.cu, few_pixel.cu, few_long.cu, places.cu and tile.cu do the common cases faster. */
#include "cuda/box.h"
#include "cuda/few.h"
#include "cuda/match.h"
#include "cuda/match_query.h"
#include "cuda/places.h"
#include "cuda/tile.h"
#include "cuda/warp.h"

enum { WARPS = 4 };

static __global__ void __launch_bounds__(32 * WARPS) match_any(const __grid_constant__ CudaMatch c)
{
    const int lane = (int)(threadIdx.x % 32);
    const int64_t warp = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32, warps = (int64_t)gridDim.x * WARPS;
    CudaBest best = {c.lists ? c.lists + warp * c.k : NULL, 0, 0, c.k};
    for (int64_t n = warp; n < c.queries; n += warps) {
        const SnlsQuery q = snls_cuda_query(&c.m, n);
        snls_cuda_match_query(&c, &q, &best, lane);
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
    const bool patches = snls_cuda_few_applies(&c), pixels = snls_cuda_few_pixel_applies(&c), places = snls_cuda_places_applies(&c);
    const bool lengthy = !patches && !pixels && snls_cuda_few_long_applies(ctx, &c), listed = c.k > 32 && !lengthy && !places;
    if (listed && blocks > 1 + LIST_BYTES / (8 * WARPS) / c.k) blocks = 1 + LIST_BYTES / (8 * WARPS) / c.k;
    SNLS_TRY(take_tensors(ctx, m));
    snls_arena_begin(&ctx->arena);
    snls_cuda_video_plan(ctx, &m->query, m->heads);
    snls_cuda_video_plan(ctx, &m->key, m->heads);
    if (listed) snls_arena_plan(&ctx->arena, blocks * WARPS * c.k, sizeof(uint64_t));
    if (!patches && !pixels && !lengthy && !places) snls_cuda_tile_plan(ctx, &c);
    SNLS_TRY(snls_cuda_commit(ctx, m->op));
    SNLS_TRY(snls_cuda_video_claim(ctx, m->op, &c.query, &m->query, m->heads, lengthy || places));
    SNLS_TRY(snls_cuda_video_claim(ctx, m->op, &c.key, &m->key, m->heads, lengthy || places));
    if (listed) c.lists = (uint64_t *)snls_arena_claim(&ctx->arena, blocks * WARPS * c.k, sizeof(uint64_t));
    if (snls_cuda_box_applies(&c)) return snls_cuda_box_forward(ctx, &c);
    if (snls_cuda_warp_applies(ctx, &c)) return snls_cuda_warp_forward(ctx, &c);
    if (patches) return snls_cuda_few_forward(ctx, &c);
    if (pixels) return snls_cuda_few_pixel_forward(ctx, &c);
    if (lengthy) return snls_cuda_few_long_forward(ctx, &c);
    if (places) return snls_cuda_places_forward(ctx, &c);
    if (snls_cuda_tile_applies(ctx, &c)) return snls_cuda_tile_forward(ctx, &c);
    match_any<<<(unsigned)blocks, 32 * WARPS, 0, snls_cuda_stream(ctx)>>>(c);
    return snls_cuda_check(ctx, m->op, cudaGetLastError());
}
