/* few_pixel.h: scores of a slot by squared differences of single pixels, windows of 6 x 6 to 9 x 9 of step 1 or 1/2 (few.h). Rows of interpolated key
 * pixels are made in registers, two rows of cells at a time, so that their candidates are shared out among the lanes with few left
 * over. Every candidate is scored from its pixels: nothing cancels, as it would in |q|^2 - 2 q k + |k|^2. */
#ifndef SNLS_CUDA_FEW_PIXEL_H
#define SNLS_CUDA_FEW_PIXEL_H

#include "cuda/few_list.h"

enum { FEW_COLUMNS = 9, FEW_LEAST = 6 };

typedef float FewSums[2][FEW_COLUMNS]; /* of two rows of cells */

template <bool HALF> struct FewTaps { static constexpr int COUNT = HALF ? (FEW_COLUMNS + 3) / 2 : FEW_COLUMNS + 1; };

/* Differences of a quad of features with a row of cells. */
static __device__ __forceinline__ void few_differ(const float4 (&cells)[FEW_COLUMNS], float4 query, float (&sum)[FEW_COLUMNS])
{
#pragma unroll
    for (int n = 0; n < FEW_COLUMNS; n++) sum[n] = snls_cuda_square(query, cells[n], sum[n]);
}

/* Cells lie on pixels. */
template <int TAPS> static __device__ __forceinline__ void few_whole(const float4 *line, const FewColumns<TAPS> *x, float4 query, float (&sum)[FEW_COLUMNS])
{
    float4 cells[FEW_COLUMNS];
#pragma unroll
    for (int n = 0; n < FEW_COLUMNS; n++) cells[n] = line[x->at[n]];
    few_differ(cells, query, sum);
}

/* Two rows of cells. key: the quad's; second: there is a second row. */
template <bool HALF> static __device__ __forceinline__ void few_two_rows(const float4 *key, int64_t step, int height, const FewWindow *w, int row, bool second, bool whole,
                                                                        const FewColumns<FewTaps<HALF>::COUNT> *x, float4 query, FewSums &sum)
{
    constexpr int TAPS = FewTaps<HALF>::COUNT;
    const int32_t top = w->tap[0] + (HALF ? row / 2 : row), next = top + (HALF ? w->next[0] : 1);
    float4 cells[FEW_COLUMNS];
    const float4 *upper = key + few_near(top, height) * step, *middle = key + few_near(next, height) * step;
    if (!HALF && whole) {
        few_whole(upper, x, query, sum[0]);
        if (second) few_whole(middle, x, query, sum[1]);
        return;
    }
    few_row<HALF, TAPS>(upper, key + few_near(top + 1, height) * step, w->part[0][0], x, cells);
    few_differ(cells, query, sum[0]);
    if (!second) return;
    few_row<HALF, TAPS>(middle, key + few_near(next + 1, height) * step, w->part[0][HALF], x, cells);
    few_differ(cells, query, sum[1]);
}

/* All candidates of a slot, offered to `best`. Whether their scores are finite. */
template <bool HALF, int PARTS, typename Best>
static __device__ __forceinline__ bool few_slot(const CudaMatch *c, const FewLane *q, const float4 *query, int slot, const FewWindow *w, Best *best)
{
    constexpr int OWN = (2 * FEW_COLUMNS + PARTS - 1) / PARTS;
    const SnlsMatch *m = &c->m;
    const int height = (int)m->height, side = (int)m->side, quads = (int)c->key.quads;
    const float4 *key = snls_cuda_pixel(&c->key, q->b, q->head, snls_slot_frame(q->t, slot, m->wt, m->frames), 0, 0);
    const FewColumns<FewTaps<HALF>::COUNT> x = few_columns<FewTaps<HALF>::COUNT>(c, w);
    const int count_y = q->there ? w->count[0] : 0, count_x = w->count[1];
    const uint32_t id = (uint32_t)((slot * side + w->first[0]) * side + w->first[1]);
    const bool whole = !HALF && __all_sync(SNLS_WARP, w->part[0][0] == 0 && w->part[1][0] == 0);
    bool finite = true;
#pragma unroll 1
    for (int row = 0; row < side; row += 2) {
        FewSums sum = {};
        float both[2 * FEW_COLUMNS], total[OWN];
#pragma unroll 1
        for (int quad = q->part; quad < quads; quad += PARTS) few_two_rows<HALF>(key + quad, c->key.step[2], height, w, row, row + 1 < side, whole, &x, query[quad], sum);
        __syncwarp(); /* the last quads may be fewer than lanes */
#pragma unroll
        for (int i = 0; i < 2 * FEW_COLUMNS; i++) both[i] = sum[i / FEW_COLUMNS][i % FEW_COLUMNS];
        few_share<PARTS>(both, q->part, total);
#pragma unroll
        for (int i = 0; i < OWN; i++) {
            const int at = i * PARTS + q->part, below = at >= FEW_COLUMNS, column = at - below * FEW_COLUMNS;
            const bool valid = at < 2 * FEW_COLUMNS && row + below < count_y && column < count_x;
            if (!few_offer<true>(total[i], valid, id + (uint32_t)((row + below) * side + column), best)) finite = false;
        }
    }
    return finite;
}

/* ---- the host's side ---- */

static inline int few_parts_of(const SnlsMatch *m) { return m->features > 16 ? 8 : 4; }

static inline bool few_pixel_takes(const SnlsMatch *m) { return m->ps == 1 && !m->prod && m->side >= FEW_LEAST && m->side <= FEW_COLUMNS; }

#endif
