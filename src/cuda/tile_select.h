/* tile_select.h: windows of a tile's queries, candidates from the scores of the box, the best of them. A position of the tile belongs to one
 * lane; lanes of a warp go through rows and columns of cells together. */
#ifndef SNLS_CUDA_TILE_SELECT_H
#define SNLS_CUDA_TILE_SELECT_H

#include "cuda/score.h"
#include "cuda/tile.h"

/* ---- lists: k keys of a position, `positions` apart ---- */

static __device__ __forceinline__ uint64_t tile_bar(const TileWork *t, int position) { return tile_list(t, position)[(t->p->c.k - 1) * t->p->positions]; }

static __device__ __noinline__ void tile_insert(const TileWork *t, int position, uint64_t key)
{
    uint64_t *list = tile_list(t, position);
    const int step = t->p->positions;
    int at = (int)t->p->c.k - 1;
    if (key >= list[at * step]) return;
    for (; at > 0 && list[(at - 1) * step] > key; at--) list[at * step] = list[(at - 1) * step];
    list[at * step] = key;
}

static __device__ __noinline__ void tile_clear_lists(const TileWork *t)
{
    for (int position = (int)threadIdx.x; position < t->p->positions; position += TILE_THREADS)
        for (int i = 0; i < t->p->c.k; i++) tile_list(t, position)[i * t->p->positions] = SNLS_NO_KEY;
}

/* Places from `kept` on; those that no candidate is left for have no neighbour. */
static __device__ __noinline__ void tile_write_lists(const TileWork *t, int64_t kept)
{
    const SnlsMatch *m = &t->p->c.m;
    for (int position = (int)threadIdx.x; position < t->p->positions; position += TILE_THREADS) {
        SnlsQuery q;
        if (!tile_query(t, position, &q)) continue;
        for (int64_t i = 0; i < m->k; i++)
            snls_cuda_write_found(m, &q, kept + i, i < t->p->c.k ? tile_list(t, position)[i * t->p->positions] : SNLS_NO_KEY);
    }
}

/* ---- windows ---- */

/* Box of one window: shifts from the query to the taps of its cells, [low, high] along y and x. */
typedef struct TileBox { int32_t low_y, high_y, low_x, high_x; } TileBox;

/* Lowest and highest tap of cells [first, end) of an axis, as shifts from the query. */
static __device__ __forceinline__ void tile_reach(double low, double high, int64_t from, int32_t *first, int32_t *last)
{
    const int64_t below = snls_floor_inside(high);
    *first = (int32_t)(snls_floor_inside(low) - from);
    *last = (int32_t)(below + ((float)(high - (double)below) != 0 ? 1 : 0) - from);
}

/* The window of a position into shared memory; false: it has no cell that counts. */
static __device__ bool tile_window(const TileWork *t, int position, TileBox *box)
{
    const SnlsMatch *m = &t->p->c.m;
    TileQuery *s = tile_state(t, position);
    SnlsQuery q;
    s->row = s->row_end = 0;
    if (!tile_query(t, position, &q)) return false;
    const SnlsMatchWindow w = snls_match_window(m, &q, t->slot);
    int64_t row0, row1, column0, column1;
    if (!w.valid) return false;
    snls_match_valid_run(w.y, m->stride1, w.origin_y, m->side, m->height, &row0, &row1);
    snls_match_valid_run(w.x, m->stride1, w.origin_x, m->side, m->width, &column0, &column1);
    if (row0 >= row1 || column0 >= column1) return false;
    *s = {.y = w.y, .x = w.x, .origin_y = (int32_t)w.origin_y, .origin_x = (int32_t)w.origin_x, .row = (int16_t)row0, .row_end = (int16_t)row1,
          .column = (int16_t)column0, .column_end = (int16_t)column1};
    tile_reach(snls_match_y(m, &w, row0), snls_match_y(m, &w, row1 - 1), q.i, &box->low_y, &box->high_y);
    tile_reach(snls_match_x(m, &w, column0), snls_match_x(m, &w, column1 - 1), q.j, &box->low_x, &box->high_x);
    return true;
}

/* Windows of all positions; the box that holds them. rows = 0: none counts. */
static __device__ __noinline__ void tile_windows(TileWork *t)
{
    int32_t *box = (int32_t *)(t->shared + t->p->box);
    __syncthreads();
    if (threadIdx.x < 4) box[threadIdx.x] = threadIdx.x % 2 ? INT32_MIN : INT32_MAX;
    __syncthreads();
    for (int position = (int)threadIdx.x; position < t->p->positions; position += TILE_THREADS) {
        TileBox one = {INT32_MAX, INT32_MIN, INT32_MAX, INT32_MIN};
        tile_window(t, position, &one);
        for (int step = 16; step > 0; step /= 2) {
            one.low_y = min(one.low_y, __shfl_xor_sync(SNLS_WARP, one.low_y, step));
            one.high_y = max(one.high_y, __shfl_xor_sync(SNLS_WARP, one.high_y, step));
            one.low_x = min(one.low_x, __shfl_xor_sync(SNLS_WARP, one.low_x, step));
            one.high_x = max(one.high_x, __shfl_xor_sync(SNLS_WARP, one.high_x, step));
        }
        if (threadIdx.x % 32) continue;
        atomicMin(&box[0], one.low_y);
        atomicMax(&box[1], one.high_y);
        atomicMin(&box[2], one.low_x);
        atomicMax(&box[3], one.high_x);
    }
    __syncthreads();
    t->shift_y = box[0];
    t->shift_x = box[2];
    t->rows = box[1] < box[0] ? 0 : min(box[1] - box[0], TILE_ROWS) + 1;
    t->columns = box[3] < box[2] ? 0 : min(box[3] - box[2], TILE_COLUMNS) + 1;
}

/* Column of the box and fraction of every column of cells. */
static __device__ __noinline__ void tile_columns(const TileWork *t)
{
    const SnlsMatch *m = &t->p->c.m;
    for (int position = (int)threadIdx.x; position < t->p->positions; position += TILE_THREADS) {
        const TileQuery *s = tile_state(t, position);
        const int64_t from = t->first.j + position % TILE_WIDE + t->shift_x;
        for (int column = s->column; s->row < s->row_end && column < s->column_end; column++) {
            const double x = snls_window_place(s->x, m->stride1, column, s->origin_x);
            const int64_t tap = snls_floor_inside(x);
            tile_fraction(t)[column * t->p->positions + position] = (float)(x - (double)tap);
            tile_cell(t)[column * t->p->positions + position] = (uint8_t)(tap - from);
        }
    }
}

/* ---- candidates ---- */

/* A row of cells of one lane: two rows of scores, and where. */
typedef struct TileRow {
    bool  ready;
    int   position, row;
    double y;
    int64_t tap;                        /* floor(y) */
    float fraction;
    const float *top, *bottom;          /* column 0 of this position */
    int   top_step, bottom_step;        /* to the next column */
} TileRow;

static __device__ __forceinline__ float tile_blend(float a, float b, float f) { return f == 0 ? a : fmaf(f, b, (1 - f) * a); }

static __device__ __forceinline__ float tile_across(const float *scores, int step, int cell, float f)
{
    const float left = scores[cell * step];
    return f == 0 ? left : tile_blend(left, scores[(cell + 1) * step], f);
}

static __device__ __forceinline__ float tile_between(const TileRow *r, int cell, float f)
{
    const float above = tile_across(r->top, r->top_step, cell, f);
    return r->fraction == 0 ? above : tile_blend(above, tile_across(r->bottom, r->bottom_step, cell, f), r->fraction);
}

/* l2: what interpolation of scores has too much. (y, x): first tap. */
static __device__ float tile_correction(const TileWork *t, int64_t y, int64_t x, float fy, float fx)
{
    const SnlsMatch *m = &t->p->c.m;
    const float4 *plane = t->p->planes + ((t->first.b * m->heads + t->first.head) * m->frames + t->frame) * m->height * m->width + y * m->width + x;
    const float4 d = *plane;
    const float gy = 1 - fy, gx = 1 - fx;
    float sum = gy * gy * gx * fx * d.x + gy * fy * gx * gx * d.y;
    if (fy != 0 && fx != 0) sum += fy * fy * gx * fx * plane[m->width].x + gy * fy * fx * fx * plane[1].y + gy * fy * gx * fx * (d.z + d.w);
    return sum;
}

/* l2: candidates that may enter their lane's list are scored from their pixels, some side by side. All lanes come here. */
static __device__ __noinline__ void tile_rescore(const TileWork *t, const TileRow *r, bool contends, int column)
{
    const CudaMatch *c = &t->p->c;
    const int lane = (int)threadIdx.x % 32, mine = lane / c->parts;
    unsigned waiting = __ballot_sync(SNLS_WARP, contends);
    const double x = contends ? snls_window_place(tile_state(t, r->position)->x, c->m.stride1, column, tile_state(t, r->position)->origin_x) : 0;
    while (waiting) {
        const unsigned before = waiting;
        int from = -1;
        for (int group = 0; group < 32 / c->parts && waiting; group++, waiting &= waiting - 1)
            if (group == mine) from = __ffs(waiting) - 1;
        const int source = from < 0 ? 0 : from, position = __shfl_sync(SNLS_WARP, r->position, source);
        const double y = __shfl_sync(SNLS_WARP, r->y, source), place = __shfl_sync(SNLS_WARP, x, source);
        SnlsQuery q;
        const bool there = tile_query(t, position, &q) && from >= 0;
        float sum = there ? snls_cuda_score(c, &q, t->frame, y, place, lane & (c->parts - 1)) : 0;
        for (int step = c->parts / 2; step > 0; step /= 2) sum += __shfl_xor_sync(SNLS_WARP, sum, step);
        const bool taken = (before & ~waiting) >> lane & 1;
        const float dist = __shfl_sync(SNLS_WARP, sum, taken ? __popc(before & ((1u << lane) - 1)) * c->parts : 0);
        if (taken && !isnan(dist))
            tile_insert(t, r->position, snls_key(dist, c->m.prod, (uint32_t)((t->slot * c->m.side + r->row) * c->m.side + column)));
    }
}

/* One row of cells. Lanes that are not ready come along. */
template <bool L2> static __device__ void tile_scan_row(const TileWork *t, const TileRow *r)
{
    const SnlsMatch *m = &t->p->c.m;
    const TileQuery *s = tile_state(t, r->position);
    const int positions = t->p->positions;
    uint64_t bar = tile_bar(t, r->position);
    const uint32_t id = (uint32_t)((t->slot * m->side + r->row) * m->side);
    const int from = s->column, end = r->ready ? s->column_end : 0;
    for (int column = 0; column < (int)m->side; column++) {
        const bool there = column >= from && column < end;
        bool contends = false;
        if (there) {
            const float f = tile_fraction(t)[column * positions + r->position];
            const int cell = tile_cell(t)[column * positions + r->position];
            const float score = tile_between(r, cell, f);
            if (L2 && (f != 0 || r->fraction != 0)) {
                const float less = tile_correction(t, r->tap, t->first.j + r->position % TILE_WIDE + t->shift_x + cell, r->fraction, f);
                const float least = score - less - t->p->slack * (score + less);
                contends = bar == SNLS_NO_KEY || !(least > snls_key_dist(bar, false));
            } else if (!isnan(score)) {
                const uint64_t key = snls_key(score, !L2, id + (uint32_t)column);
                if (key < bar) {
                    tile_insert(t, r->position, key);
                    bar = tile_bar(t, r->position);
                }
            }
        }
        if (L2 && __any_sync(SNLS_WARP, contends)) {
            tile_rescore(t, r, contends, column);
            bar = tile_bar(t, r->position);
        }
    }
}

/* The next row of cells of a position, if the scores it needs are among rows [first - 1, end) of the box. */
template <int HIGH> static __device__ TileRow tile_next_row(const TileWork *t, int position, int first, int end)
{
    const TileQuery *s = tile_state(t, position);
    TileRow r = {.ready = s->row < s->row_end, .position = position, .row = s->row};
    if (!r.ready) return r;
    r.y = snls_window_place(s->y, t->p->c.m.stride1, s->row, s->origin_y);
    r.tap = snls_floor_inside(r.y);
    r.fraction = (float)(r.y - (double)r.tap);
    const int row = (int)(r.tap - (t->first.i + position / TILE_WIDE)) - t->shift_y;
    r.ready = row + (r.fraction != 0 ? 1 : 0) < end;
    const int step = HIGH * TILE_WIDE;
    const bool kept = row < first; /* the last row of the step before */
    r.top = kept ? tile_retained(t) + position : tile_scores(t) + (row - first) * TILE_COLUMNS * step + position;
    r.top_step = kept ? t->p->positions : step;
    r.bottom = tile_scores(t) + (row + 1 - first) * TILE_COLUMNS * step + position;
    r.bottom_step = step;
    return r;
}

/* All rows of cells whose scores are there; then the last row of scores is kept for the next step. */
template <int HIGH, bool L2> static __device__ void tile_select(const TileWork *t, int first, int count)
{
    for (int position = (int)threadIdx.x; position < t->p->positions; position += TILE_THREADS) {
        for (;;) {
            const TileRow r = tile_next_row<HIGH>(t, position, first, first + count);
            if (!__any_sync(SNLS_WARP, r.ready)) break;
            tile_scan_row<L2>(t, &r);
            if (r.ready) tile_state(t, position)->row++;
        }
        const float *last = tile_scores(t) + (count - 1) * TILE_COLUMNS * HIGH * TILE_WIDE + position;
        for (int column = 0; column < t->columns; column++) tile_retained(t)[column * t->p->positions + position] = last[column * HIGH * TILE_WIDE];
    }
}

/* A box that is too large: the queries one by one, a warp each. */
static __device__ __noinline__ void tile_alone(const TileWork *t)
{
    const CudaMatch *c = &t->p->c;
    const SnlsMatch *m = &c->m;
    const int lane = (int)threadIdx.x % 32, part = lane & (c->parts - 1);
    for (int position = (int)threadIdx.x / 32; position < t->p->positions; position += TILE_WARPS) {
        const TileQuery *s = tile_state(t, position);
        SnlsQuery q;
        if (!tile_query(t, position, &q) || s->row >= s->row_end) continue;
        const SnlsMatchWindow w = snls_match_window(m, &q, t->slot);
        const int columns = s->column_end - s->column, n = columns * (s->row_end - s->row);
        for (int base = 0; base < n; base += 32 / c->parts) {
            const int at = base + lane / c->parts, row = s->row + at / columns, column = s->column + at % columns;
            uint64_t key = snls_cuda_candidate(c, &q, &w, t->slot, row, column, at < n, part);
            unsigned waiting = __ballot_sync(SNLS_WARP, part == 0 && key < tile_bar(t, position));
            for (; waiting; waiting &= waiting - 1) {
                const uint64_t next = __shfl_sync(SNLS_WARP, key, __ffs(waiting) - 1);
                if (lane == 0) tile_insert(t, position, next);
            }
            __syncwarp();
        }
    }
}

#endif
