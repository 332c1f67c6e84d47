/* few.cu: forward of search by 3 x 3 patches with few features a head, windows up to 5 x 5 of step 1 or 1/2 (few.h). Rows of interpolated key
 * pixels are made in registers, from the top of the windows to the bottom; each serves the candidates of up to three rows of cells.
 * So every candidate is scored from its pixels as docs/operators.md has it: nothing cancels, and smooth flow is not needed. Queries
 * with a score that is not finite are done again by match_query.h, which reads no tap of weight 0. */
#include "cuda/few_list.h"

enum { FEW_COLUMNS = 5 };

/* Row of the query's patch against a row of interpolated key pixels, for all columns of cells. */
template <bool L2, int STEP, int PLACES> static __device__ __forceinline__ void few_add(float (&sum)[FEW_COLUMNS], const float4 (&query)[3], const float4 (&key)[PLACES])
{
#pragma unroll
    for (int i = 0; i < 3; i++)
#pragma unroll
        for (int n = 0; n < FEW_COLUMNS; n++)
            sum[n] = L2 ? snls_cuda_square(query[i], key[n + STEP * i], sum[n]) : snls_cuda_dot(query[i], key[n + STEP * i], sum[n]);
}

/* All candidates of a slot. Whether their scores are finite. */
template <bool HALF, bool L2, int PARTS>
static __device__ __forceinline__ bool few_slot(const CudaMatch *c, const FewLane *q, const float4 (&query)[3][3], int slot, const FewWindow *w, FewBest<FEW_LIST> *best)
{
    constexpr int STEP = HALF ? 2 : 1, PLACES = FEW_COLUMNS + 2 * STEP, TAPS = HALF ? (PLACES + 3) / 2 : PLACES + 1, DEPTH = 2 * STEP + 1;
    const SnlsMatch *m = &c->m;
    const int height = (int)m->height, side = (int)m->side;
    const float4 *key = snls_cuda_pixel(&c->key, q->b, q->head, snls_slot_frame(q->t, slot, m->wt, m->frames), 0, 0) + q->part;
    const FewColumns<TAPS> x = few_columns<TAPS>(c, w);
    const int count_y = q->there ? w->count[0] : 0, count_x = w->count[1];
    uint32_t id = (uint32_t)((slot * side + w->first[0]) * side + w->first[1]);
    float sum[DEPTH][FEW_COLUMNS] = {};
    bool finite = true;
#pragma unroll 1
    for (int h = 0; h < side + 2 * STEP; h++) {
        const bool odd = HALF && h & 1;
        const int32_t tap = w->tap[0] - 1 + h / STEP + (odd ? w->next[0] : 0);
        float4 row[PLACES];
        few_row<HALF>(key + (int64_t)few_near(tap, height) * c->key.step[2], key + (int64_t)few_near(tap + 1, height) * c->key.step[2], w->part[0][odd], &x, row);
        if (h < side) few_add<L2, STEP>(sum[0], query[0], row);
        if (h >= STEP && h < side + STEP) few_add<L2, STEP>(sum[STEP], query[1], row);
        if (h >= 2 * STEP) {
            few_add<L2, STEP>(sum[2 * STEP], query[2], row);
            float total[(FEW_COLUMNS + PARTS - 1) / PARTS];
            few_share<PARTS>(sum[2 * STEP], q->part, total);
#pragma unroll
            for (int i = 0; i < (FEW_COLUMNS + PARTS - 1) / PARTS; i++) {
                const int column = i * PARTS + q->part;
                if (!few_offer<L2>(total[i], h - 2 * STEP < count_y && column < count_x, id + (uint32_t)column, best)) finite = false;
            }
            id += (uint32_t)side;
        }
#pragma unroll
        for (int d = DEPTH - 1; d >= 0; d--)
#pragma unroll
            for (int n = 0; n < FEW_COLUMNS; n++) sum[d][n] = d > 0 ? sum[d > 0 ? d - 1 : 0][n] : 0;
    }
    return finite;
}

template <bool HALF, bool L2, int PARTS> static __global__ void __launch_bounds__(32 * FEW_WARPS, 3) search_few(const __grid_constant__ CudaFew p)
{
    extern __shared__ __align__(16) char memory[];
    const SnlsMatch *m = &p.c.m;
    const int lane = (int)threadIdx.x % 32;
    FewWindow *windows = (FewWindow *)(memory + (int)threadIdx.x / 32 * p.bytes), *own = windows + lane / PARTS * m->windows;
    uint2 *found = (uint2 *)(windows + 32 / PARTS * m->windows);
    for (int64_t group = blockIdx.x; group < p.groups; group += gridDim.x) {
        FewLane q;
        int32_t first;
        if (!few_lane<PARTS>(&p, group, &q, &first)) continue; /* the whole warp */
        few_windows<HALF>(m, &q, first, 32 / PARTS, windows);
        float4 query[3][3];
#pragma unroll
        for (int i = 0; i < 9; i++) {
            const int32_t y = few_near(few_y(&q, m->stride0, i / 3), (int32_t)m->height), x = few_near(few_x(&q, m->stride0, i % 3), (int32_t)m->width);
            query[i / 3][i % 3] = snls_cuda_pixel(&p.c.query, q.b, q.head, q.t, y, x)[q.part];
        }
        bool finite = true;
        FewBest<FEW_LIST> best;
        few_clear(&best);
#pragma unroll 1
        for (int slot = 0; slot < (int)m->windows; slot++) {
            if ((slot || m->exclude != SNLS_EXCLUDE_FRAME) && !few_slot<HALF, L2, PARTS>(&p.c, &q, query, slot, &own[slot], &best)) finite = false;
            if (m->each || slot + 1 == m->windows) few_finish<PARTS>(m, &q, first, m->each ? slot * m->k : 0, &best, windows, found);
        }
        const unsigned again = __ballot_sync(SNLS_WARP, !finite);
        if (again) few_again(&p.c, q, PARTS, again, NULL);
    }
}

/* ---- the host's side ---- */

bool snls_cuda_few_applies(const CudaMatch *c)
{
    const SnlsMatch *m = &c->m;
    if (m->ps != 3 || m->dilation != 1 || m->drop || m->side > FEW_COLUMNS) return false;
    return snls_cuda_quads(m->features) == c->parts && c->parts <= FEW_QUADS && few_takes(c) && few_fits(c, c->parts);
}

template <bool HALF, bool L2> static void launch(SnlsContext *ctx, const CudaFew *p)
{
    const unsigned blocks = snls_cuda_blocks(p->groups, 1, 0);
    const size_t bytes = (size_t)(FEW_WARPS * p->bytes);
    switch (p->c.parts) {
    case 1: search_few<HALF, L2, 1><<<blocks, 32 * FEW_WARPS, bytes, snls_cuda_stream(ctx)>>>(*p); break;
    case 2: search_few<HALF, L2, 2><<<blocks, 32 * FEW_WARPS, bytes, snls_cuda_stream(ctx)>>>(*p); break;
    default: search_few<HALF, L2, 4><<<blocks, 32 * FEW_WARPS, bytes, snls_cuda_stream(ctx)>>>(*p);
    }
}

SnlsStatus snls_cuda_few_forward(SnlsContext *ctx, const CudaMatch *c)
{
    const SnlsMatch *m = &c->m;
    const CudaFew p = few_job(c, c->parts);
    if (m->stride1 == 1 && m->prod) launch<false, false>(ctx, &p);
    else if (m->stride1 == 1) launch<false, true>(ctx, &p);
    else if (m->prod) launch<true, false>(ctx, &p);
    else launch<true, true>(ctx, &p);
    return snls_cuda_check(ctx, m->op, cudaGetLastError());
}
