/* warp_select.h: windows of a group's queries, candidates from their scores, the best of them. Lane q has the left CELLS columns of cells
 * of query q, lane 16 + q those to the right. */
#ifndef SNLS_CUDA_WARP_SELECT_H
#define SNLS_CUDA_WARP_SELECT_H

#include "cuda/score.h"
#include "cuda/warp_score.h"

/* ---- lists. Best first; NaN: an empty place. Candidates of a lane come in the order of their numbers, so of equals the one that came
 * first stays in front. ---- */

/* Short lists are at the end of the registers, behind places that nothing displaces; of long ones only the bar is here. */
typedef struct WarpBest {
    float    value[WARP_SHORT]; /* long: value[3] is the worst of the list */
    uint32_t id[WARP_SHORT];
    int      broken;            /* a score was not finite: what is here does not count */
} WarpBest;

template <bool SHORT> static __device__ __forceinline__ void warp_clear(const WarpWork *t, WarpBest *best)
{
    const int k = (int)t->p->c.k;
    best->broken = 0;
#pragma unroll
    for (int i = 0; i < WARP_SHORT; i++) {
        best->value[i] = i < WARP_SHORT - k ? INFINITY : NAN;
        best->id[i] = 0;
    }
    for (int i = 0; i < k && !SHORT; i++) warp_values(t)[32 * i] = NAN;
}

static __device__ __forceinline__ void warp_insert(WarpBest *best, float value, uint32_t id)
{
    bool before[WARP_SHORT];
#pragma unroll
    for (int i = 0; i < WARP_SHORT; i++) before[i] = i == WARP_SHORT - 1 || !(value <= best->value[i]);
#pragma unroll
    for (int i = WARP_SHORT - 1; i >= 0; i--) {
        const bool from_above = i > 0 && before[i > 0 ? i - 1 : 0];
        best->value[i] = from_above ? best->value[i > 0 ? i - 1 : 0] : before[i] ? value : best->value[i];
        best->id[i] = from_above ? best->id[i > 0 ? i - 1 : 0] : before[i] ? id : best->id[i];
    }
}

static __device__ __forceinline__ float warp_insert_long(const WarpWork *t, float value, uint32_t id)
{
    float *values = warp_values(t);
    uint32_t *ids = warp_ids(t);
    const int last = 32 * ((int)t->p->c.k - 1);
    int at = last;
    for (; at > 0 && !(value <= values[at - 32]); at -= 32) {
        values[at] = values[at - 32];
        ids[at] = ids[at - 32];
    }
    values[at] = value;
    ids[at] = id;
    return values[last];
}

/* A candidate that is above the bar. */
template <bool SHORT> static __device__ __forceinline__ void warp_enter(const WarpWork *t, WarpBest *best, float value, uint32_t id)
{
    if (SHORT) warp_insert(best, value, id);
    else best->value[WARP_SHORT - 1] = warp_insert_long(t, value, id);
}

/* A score, if it is this lane's; NaN is above every bar here. A list with a value that is not finite is not used. */
template <bool SHORT> static __device__ __forceinline__ void warp_offer(const WarpWork *t, WarpBest *best, bool own, float value, uint32_t id)
{
    if (own & !(value <= best->value[WARP_SHORT - 1])) {
        if (!isfinite(value)) best->broken = 1;
        warp_enter<SHORT>(t, best, value, id);
    }
}

/* Windows [slot, end) anew, every candidate from its pixels by its lane alone, as the definition has it. */
template <bool SHORT> static __device__ __noinline__ void warp_again(const WarpWork *t, WarpBest *best, int cells_of_lane, int slot, int end)
{
    const CudaMatch *c = &t->p->c;
    const SnlsMatch *m = &c->m;
    SnlsQuery q;
    const bool there = warp_query(t, warp_number(t), &q);
    const int first = warp_half(t) * cells_of_lane, columns = min((int)m->side - first, cells_of_lane);
    warp_clear<SHORT>(t, best);
    for (; slot < end && there; slot++) {
        const SnlsMatchWindow w = snls_match_window(m, &q, slot);
        if (!w.valid || (slot == 0 && m->exclude == SNLS_EXCLUDE_FRAME)) continue;
        for (int at = 0; at < (int)m->side * columns; at++) {
            const int row = at / columns, column = first + at % columns;
            const double y = snls_match_y(m, &w, row), x = snls_match_x(m, &w, column);
            if (!snls_inside(y, m->height) || !snls_inside(x, m->width)) continue;
            float value = 0;
            for (int part = 0; part < c->parts; part++) value += snls_cuda_score(c, &q, w.frame, y, x, part);
            if (!isnan(value) && !(value <= best->value[WARP_SHORT - 1])) warp_enter<SHORT>(t, best, value, (uint32_t)((slot * m->side + row) * m->side + column));
        }
    }
}

/* Both lanes' lists into one, in shared memory: values [query][place], then numbers. An entry's place is its number in the own list and how many of
 * the other are before it. */
template <bool SHORT> static __device__ __forceinline__ float *warp_merge(const WarpWork *t, const WarpBest *best)
{
    const int k = (int)t->p->c.k, to_other = warp_half(t) ? -WARP_QUERIES : WARP_QUERIES;
    float *values = SHORT ? warp_scores(t) + t->lane : warp_values(t), *merged = warp_scores(t) + (SHORT ? 2 * 32 * WARP_SHORT : 0);
    uint32_t *ids = SHORT ? (uint32_t *)values + 32 * WARP_SHORT : warp_ids(t);
    __syncwarp();
#pragma unroll
    for (int i = 0; i < WARP_SHORT && SHORT; i++)
        if (i >= WARP_SHORT - k) values[32 * (i - WARP_SHORT + k)] = best->value[i], ids[32 * (i - WARP_SHORT + k)] = best->id[i];
    __syncwarp();
    float *to = merged + warp_number(t) * k;
    int own = 0, others = 0;
    for (; own + others < k && !isnan(values[32 * own]); own++) {
        const float value = values[32 * own];
        const uint32_t id = ids[32 * own];
        for (; others < k; others++) {
            const float other = values[32 * others + to_other];
            if (!(other > value || (other == value && ids[32 * others + to_other] < id))) break;
        }
        if (own + others < k) to[own + others] = value, ((uint32_t *)to)[WARP_QUERIES * k + own + others] = id;
    }
    int filled = 0;
    while (filled < k && !isnan(values[32 * filled])) filled++;
    filled += __shfl_xor_sync(SNLS_WARP, filled, WARP_QUERIES);
    for (int i = filled; i < k && !warp_half(t); i++) to[i] = NAN;
    __syncwarp();
    return merged;
}

/* Places from `kept` on; those that no candidate is left for have no neighbour. */
template <bool SHORT> static __device__ __noinline__ void warp_write(const WarpWork *t, const WarpBest *best, int64_t kept)
{
    const SnlsMatch *m = &t->p->c.m;
    const int k = (int)t->p->c.k;
    const float *merged = warp_merge<SHORT>(t, best);
    SnlsQuery q;
    for (int at = t->lane; at < WARP_QUERIES * k; at += 32) {
        if (!warp_query(t, at / k, &q)) continue;
        const float value = merged[at];
        const uint64_t key = isnan(value) ? SNLS_NO_KEY : snls_key(value, true, ((const uint32_t *)merged)[WARP_QUERIES * k + at]);
        snls_cuda_write_found(m, &q, kept + at % k, key);
    }
    for (int64_t i = k; i < m->k; i++)
        if (t->lane < WARP_QUERIES && warp_query(t, t->lane, &q)) snls_cuda_write_found(m, &q, kept + i, SNLS_NO_KEY);
    __syncwarp();
}

/* ---- windows ---- */

/* False: no cell of it counts. */
static __device__ __forceinline__ bool warp_window(const WarpWork *t, WarpWindow *w)
{
    const SnlsMatch *m = &t->p->c.m;
    SnlsQuery q;
    if (!warp_query(t, warp_number(t), &q)) return false;
    const SnlsMatchWindow of = snls_match_window(m, &q, t->slot);
    int64_t row0, row1, column0, column1;
    if (!of.valid) return false;
    snls_match_valid_run(of.y, m->stride1, of.origin_y, m->side, m->height, &row0, &row1);
    snls_match_valid_run(of.x, m->stride1, of.origin_x, m->side, m->width, &column0, &column1);
    if (row0 >= row1 || column0 >= column1) return false;
    *w = {.y = of.y, .x = of.x, .origin_y = (int)of.origin_y, .origin_x = (int)of.origin_x, .row = (int)row0, .row_end = (int)row1,
          .column = (int)column0, .column_end = (int)column1};
    const double high_y = snls_match_y(m, &of, row1 - 1), high_x = snls_match_x(m, &of, column1 - 1);
    const int below = (int)high_y, right = (int)high_x; /* places are not negative */
    w->tap_y = (int)snls_match_y(m, &of, row0);
    w->tap_x = (int)snls_match_x(m, &of, column0);
    w->last_y = below + 1; /* be its weight 0 */
    w->last_x = right + ((float)(high_x - right) != 0);
    w->whole = m->stride1 == 1 && row1 - row0 == m->side && column1 - column0 == m->side;
    return true;
}

static __device__ __forceinline__ int warp_least(int x)
{
#if __CUDA_ARCH__ >= 800
    return __reduce_min_sync(SNLS_WARP, x);
#else
    return x;
#endif
}
static __device__ __forceinline__ int warp_most(int x) { return -warp_least(-x); }

/* What is scored next of what is left: the windows near the leftmost, and of these near the topmost; or all, each alone. */
template <int TILES> static __device__ __forceinline__ WarpPass warp_choose(const WarpWork *t, const WarpWindow *w, unsigned left)
{
    const bool mine = left >> t->lane & 1;
    WarpPass pass = {};
    pass.low_x = warp_least(mine ? w->tap_x : INT32_MAX);
    bool fits = mine && w->last_x - pass.low_x < 8 * TILES;
    pass.low_y = warp_least(fits ? w->tap_y : INT32_MAX);
    fits = fits && w->tap_y - pass.low_y <= t->p->spread;
    pass.active = __ballot_sync(SNLS_WARP, fits);
    pass.alone = __popc(pass.active) < 2 * WARP_FEW;
    if (pass.alone) {
        pass.active = left;
        pass.low_y = w->tap_y;
        pass.low_x = w->tap_x;
        fits = mine;
    }
    pass.columns = warp_most(fits ? w->last_x - pass.low_x + 1 : 0);
    pass.rows = warp_most(fits ? w->last_y - pass.low_y + 1 : 0);
    return pass;
}

/* ---- candidates ---- */

static __device__ __forceinline__ float warp_blend(float a, float b, float f) { return fmaf(f, b, (1 - f) * a); }

/* A lane's candidates: its columns of cells, and the row of scores above the one at hand, interpolated along x. */
template <int CELLS> struct WarpScan {
    int   at[CELLS];        /* float number of a column's first pixel in a row of scores; whole windows: at[0], the others follow */
    float fx[CELLS];        /* whole: fx[0] for all */
    float above[CELLS];
    int   cells;            /* columns; 0: the lane is not active */
    int   row, row_end;     /* next row of cells */
    int   tap;              /* row of the pass that its first pixels are in */
    float fy;
};

template <int CELLS> static __device__ __forceinline__ WarpScan<CELLS> warp_scan_of(const WarpWork *t, const WarpPass *pass, const WarpWindow *w, bool whole)
{
    const int first = warp_half(t) * CELLS;
    const bool active = pass->active >> t->lane & 1;
    WarpScan<CELLS> s = {};
    s.cells = active ? min((int)t->p->c.m.side - first, CELLS) : 0;
    s.tap = w->tap_y - pass->low_y;
    s.fy = (float)(w->y - (double)(int)w->y);
    s.fx[0] = (float)(w->x - (double)(int)w->x);
    s.at[0] = (active ? (w->tap_x - pass->low_x + first) * WARP_PITCH : 0) + warp_number(t);
    if (whole) return s;
    s.row = w->row;
    s.row_end = active ? w->row_end : 0;
#pragma unroll
    for (int i = 0; i < CELLS; i++) {
        const bool there = active && first + i >= w->column && first + i < w->column_end;
        const double x = there ? snls_window_place(w->x, t->p->c.m.stride1, first + i, w->origin_x) : 0;
        s.at[i] = there ? ((int)x - pass->low_x) * WARP_PITCH + warp_number(t) : -1;
        s.fx[i] = (float)(x - (double)(int)x);
    }
    return s;
}

/* All windows whole: row n of cells lies between rows n and n + 1 of the window's own pixels. row: of the pass; of: of the step. On whole pixels the
 * last cell has no column to its right: what an earlier kernel left in shared memory there may be NaN, and 0 times NaN would have the group done again,
 * rightly but in other bits. */
template <int CELLS, int TILES, bool SHORT> static __device__ __forceinline__ void warp_scan_whole(const WarpWork *t, WarpScan<CELLS> *s, WarpBest *best, int row, int of)
{
    const int side = (int)t->p->c.m.side, n = row - s->tap - 1, cells = n >= 0 && n < side ? s->cells : 0;
    const uint32_t id = (uint32_t)((t->slot * side + n) * side + warp_half(t) * CELLS);
    const float *scores = warp_row<TILES>(t, of) + s->at[0];
    float left = scores[0];
#pragma unroll
    for (int i = 0; i < CELLS; i++) {
        const float right = scores[(i + 1) * WARP_PITCH], here = s->fx[0] == 0 ? left : warp_blend(left, right, s->fx[0]), value = warp_blend(s->above[i], here, s->fy);
        warp_offer<SHORT>(t, best, i < cells, value, id + (uint32_t)i);
        s->above[i] = here;
        left = right;
    }
}

/* Any windows: the rows of cells between the row above and this one. A place on a row of pixels counts as above with weight 1. */
template <int CELLS, int TILES, bool SHORT> static __device__ __forceinline__ void warp_scan_any(const WarpWork *t, const WarpPass *pass, const WarpWindow *w, WarpScan<CELLS> *s, WarpBest *best, int row, int of)
{
    const SnlsMatch *m = &t->p->c.m;
    const float *scores = warp_row<TILES>(t, of);
    float here[CELLS];
#pragma unroll
    for (int i = 0; i < CELLS; i++) {
        const float *at = scores + max(s->at[i], 0);
        here[i] = s->fx[i] == 0 ? at[0] : warp_blend(at[0], at[WARP_PITCH], s->fx[i]);
    }
    for (;;) {
        const double y = snls_window_place(w->y, m->stride1, s->row, w->origin_y);
        const bool ready = s->row < s->row_end && (int)y - pass->low_y + 1 == row;
        if (!__any_sync(SNLS_WARP, ready)) break;
        const float fy = (float)(y - (double)(int)y);
        const uint32_t id = (uint32_t)((t->slot * m->side + s->row) * m->side) + warp_half(t) * CELLS;
#pragma unroll
        for (int i = 0; i < CELLS; i++) warp_offer<SHORT>(t, best, ready && s->at[i] >= 0, warp_blend(s->above[i], here[i], fy), id + (uint32_t)i);
        if (ready) s->row++;
    }
#pragma unroll
    for (int i = 0; i < CELLS; i++) s->above[i] = here[i];
}

#endif
