/* tile_select.h: windows of a tile's queries, candidates from the scores of the box, the best of them. A position of the tile belongs to one
 * lane; lanes of a warp go through rows and columns of cells together. */
#ifndef SNLS_CUDA_TILE_SELECT_H
#define SNLS_CUDA_TILE_SELECT_H

#include "cuda/score.h"
#include "cuda/tile.h"

/* ---- lists: the values and numbers of a position, `positions` apart in shared memory ---- */

/* The list of a position, in registers where it is short: at the end of them, behind places that nothing displaces. */
template <int LENGTH> static __device__ __forceinline__ TileBest<LENGTH> tile_best_load(const TileWork *t, int position)
{
    TileBest<LENGTH> best;
    const int before = LENGTH - (int)t->p->c.k;
#pragma unroll
    for (int i = 0; i < LENGTH; i++) {
        best.value[i] = i < before ? INFINITY : tile_value(t, position)[(i - before) * t->p->positions];
        best.id[i] = i < before ? 0 : tile_id(t, position)[(i - before) * t->p->positions];
    }
    return best;
}

template <int LENGTH> static __device__ __forceinline__ void tile_best_store(const TileWork *t, int position, const TileBest<LENGTH> *best)
{
    const int before = LENGTH - (int)t->p->c.k;
#pragma unroll
    for (int i = 0; i < LENGTH; i++)
        if (i >= before) {
            tile_value(t, position)[(i - before) * t->p->positions] = best->value[i];
            tile_id(t, position)[(i - before) * t->p->positions] = best->id[i];
        }
}

/* In front of what is worse and of empty places, which NaN makes worse than anything. value is no NaN. */
template <int LENGTH> static __device__ __forceinline__ void tile_best_insert(TileBest<LENGTH> *best, float value, uint32_t id)
{
    bool before[LENGTH];
#pragma unroll
    for (int i = 0; i < LENGTH; i++) before[i] = !(value <= best->value[i]);
#pragma unroll
    for (int i = LENGTH - 1; i >= 0; i--) {
        const bool from_above = i > 0 && before[i > 0 ? i - 1 : 0];
        best->value[i] = from_above ? best->value[i > 0 ? i - 1 : 0] : before[i] ? value : best->value[i];
        best->id[i] = from_above ? best->id[i > 0 ? i - 1 : 0] : before[i] ? id : best->id[i];
    }
}

/* The same in shared memory, any length k; places are `step` apart. */
static __device__ __noinline__ void tile_insert(float *values, uint32_t *ids, int step, int k, float value, uint32_t id)
{
    int at = k - 1;
    if (value <= values[at * step]) return;
    for (; at > 0 && !(value <= values[(at - 1) * step]); at--) {
        values[at * step] = values[(at - 1) * step];
        ids[at * step] = ids[(at - 1) * step];
    }
    values[at * step] = value;
    ids[at * step] = id;
}

/* The worst value of the list; NaN while a place is empty. */
static __device__ __forceinline__ float tile_bar(const TileWork *t, int position) { return tile_value(t, position)[(t->p->c.k - 1) * t->p->positions]; }

static __device__ __noinline__ void tile_clear_lists(const TileWork *t)
{
    for (int position = (int)threadIdx.x; position < t->p->positions; position += TILE_THREADS)
        for (int i = 0; i < t->p->c.k; i++) tile_value(t, position)[i * t->p->positions] = NAN;
}

/* Places from `kept` on; those that no candidate is left for have no neighbour. */
static __device__ __noinline__ void tile_write_lists(const TileWork *t, int64_t kept)
{
    const SnlsMatch *m = &t->p->c.m;
    const uint32_t cells = (uint32_t)(m->side * m->side);
    for (int position = (int)threadIdx.x; position < t->p->positions; position += TILE_THREADS) {
        SnlsQuery q;
        if (!tile_query(t, position, &q)) continue;
        SnlsMatchWindow w = {};
        uint32_t of = UINT32_MAX; /* whose window w is */
        for (int64_t i = 0; i < m->k; i++) {
            const float value = i < t->p->c.k ? tile_value(t, position)[i * t->p->positions] : NAN;
            const uint32_t id = i < t->p->c.k ? tile_id(t, position)[i * t->p->positions] : 0;
            if (!isnan(value) && id / cells != of) w = snls_match_window(m, &q, of = id / cells);
            snls_cuda_write(m, &q, kept + i, isnan(value) ? SNLS_NO_KEY : snls_key(m->prod ? value : -value, m->prod, id), &w);
        }
    }
}

/* ---- windows ---- */

/* Lowest and highest tap of the cells from `low` to `high` along an axis, as shifts from the query. */
static __device__ __forceinline__ void tile_reach(double low, double high, int64_t from, int32_t *first, int32_t *last)
{
    const int64_t below = snls_floor_inside(high);
    *first = (int32_t)(snls_floor_inside(low) - from);
    *last = (int32_t)(below + ((float)(high - (double)below) != 0 ? 1 : 0) - from);
}

/* The window of a position into shared memory; its box, untouched where it has no cell that counts. */
static __device__ void tile_window(const TileWork *t, int position, TileBox *box)
{
    const SnlsMatch *m = &t->p->c.m;
    TileQuery *s = tile_state(t, position);
    SnlsQuery q;
    s->row = s->row_end = 0;
    if (!tile_query(t, position, &q)) return;
    const SnlsMatchWindow w = snls_match_window(m, &q, t->slot);
    int64_t row0, row1, column0, column1;
    if (!w.valid) return;
    snls_match_valid_run(w.y, m->stride1, w.origin_y, m->side, m->height, &row0, &row1);
    snls_match_valid_run(w.x, m->stride1, w.origin_x, m->side, m->width, &column0, &column1);
    if (row0 >= row1 || column0 >= column1) return;
    *s = {.y = w.y, .x = w.x, .origin_y = (int8_t)w.origin_y, .origin_x = (int8_t)w.origin_x, .row = (uint8_t)row0, .row_end = (uint8_t)row1,
          .column = (uint8_t)column0, .column_end = (uint8_t)column1};
    tile_reach(snls_match_y(m, &w, row0), snls_match_y(m, &w, row1 - 1), q.i, &box->low_y, &box->high_y);
    tile_reach(snls_match_x(m, &w, column0), snls_match_x(m, &w, column1 - 1), q.j, &box->low_x, &box->high_x);
}

static __device__ __forceinline__ void tile_box_join(TileBox *box, int step)
{
    box->low_y = min(box->low_y, __shfl_xor_sync(SNLS_WARP, box->low_y, step));
    box->high_y = max(box->high_y, __shfl_xor_sync(SNLS_WARP, box->high_y, step));
    box->low_x = min(box->low_x, __shfl_xor_sync(SNLS_WARP, box->low_x, step));
    box->high_x = max(box->high_x, __shfl_xor_sync(SNLS_WARP, box->high_x, step));
}

/* Windows of all positions, and boxes: a group has one for all four. */
static __device__ __forceinline__ void tile_windows(const TileWork *t)
{
    for (int position = (int)threadIdx.x; position < t->p->positions; position += TILE_THREADS) {
        TileBox box = {INT32_MAX, INT32_MIN, INT32_MAX, INT32_MIN};
        tile_window(t, position, &box);
        if (t->p->c.m.ps == 1) {
            tile_box_join(&box, 1);
            tile_box_join(&box, 2);
        }
        *tile_box(t, position) = box;
    }
}

/* What is known of the boxes that are left, in shared memory. */
typedef struct TileExtent { int32_t low_y, low_x, last_y, high_y, high_x, rows, columns, active; } TileExtent; /* last: highest low */

static __device__ __forceinline__ int32_t tile_least(int32_t x)
{
    for (int step = 16; step > 0; step /= 2) x = min(x, __shfl_xor_sync(SNLS_WARP, x, step));
    return x;
}

static __device__ __forceinline__ bool tile_is_left(const TileWork *t, int position) { return tile_state(t, position)->row < tile_state(t, position)->row_end; }

static __device__ void tile_extend(TileExtent *all, const TileBox *box, bool fits)
{
    const unsigned those = __ballot_sync(SNLS_WARP, fits);
    const int32_t none = -INT32_MAX, low_y = fits ? box->low_y : none, high_y = fits ? box->high_y : none, high_x = fits ? box->high_x : none;
    const int32_t rows = fits ? box->high_y - box->low_y + 1 : 0, columns = fits ? box->high_x - box->low_x + 1 : 0;
    const int32_t most[5] = {-tile_least(-low_y), -tile_least(-high_y), -tile_least(-high_x), -tile_least(-rows), -tile_least(-columns)};
    if (threadIdx.x % 32 || !those) return;
    atomicMax(&all->last_y, most[0]);
    atomicMax(&all->high_y, most[1]);
    atomicMax(&all->high_x, most[2]);
    atomicMax(&all->rows, most[3]);
    atomicMax(&all->columns, most[4]);
    atomicAdd(&all->active, __popc(those));
}

/* Which boxes are worked on next: those near the leftmost that is left, and of these near the topmost. left: whether there are any, be it
 * too large ones. */
static __device__ __forceinline__ void tile_choose(TileWork *t)
{
    TileExtent *all = (TileExtent *)(tile_memory() + t->p->extent);
    __syncthreads();
    if (threadIdx.x == 0) *all = {INT32_MAX, INT32_MAX, -INT32_MAX, -INT32_MAX, -INT32_MAX, 0, 0, 0};
    __syncthreads();
    for (int position = (int)threadIdx.x; position < t->p->positions; position += TILE_THREADS) {
        const int32_t low = tile_least(tile_is_left(t, position) ? tile_box(t, position)->low_x : INT32_MAX);
        if (threadIdx.x % 32 == 0) atomicMin(&all->low_x, low);
    }
    __syncthreads();
    t->shift_x = all->low_x;
    for (int position = (int)threadIdx.x; position < t->p->positions; position += TILE_THREADS) {
        const TileBox *box = tile_box(t, position);
        const int32_t low = tile_least(tile_is_left(t, position) && tile_fits_x(t, box, t->shift_x) ? box->low_y : INT32_MAX);
        if (threadIdx.x % 32 == 0) atomicMin(&all->low_y, low);
    }
    __syncthreads();
    t->shift_y = all->low_y;
    for (int position = (int)threadIdx.x; position < t->p->positions; position += TILE_THREADS)
        tile_extend(all, tile_box(t, position), tile_is_left(t, position) && tile_fits(t, tile_box(t, position), t->shift_y, t->shift_x));
    __syncthreads();
    const bool one = t->p->c.m.ps > 1; /* box for the whole tile */
    t->left = all->low_x != INT32_MAX;
    t->active = all->active;
    t->rows = one ? all->high_y - t->shift_y + 1 : all->rows;
    t->columns = one ? all->high_x - t->shift_x + 1 : all->columns;
    t->spread = one ? 0 : all->last_y - t->shift_y;
    t->width = TILE_WIDE + all->high_x - t->shift_x;
}

/* Column of the box and fraction of every column of cells. */
static __device__ __forceinline__ void tile_columns(const TileWork *t)
{
    const SnlsMatch *m = &t->p->c.m;
    for (int position = (int)threadIdx.x; position < t->p->positions; position += TILE_THREADS) {
        TileQuery *s = tile_state(t, position);
        const int64_t from = t->first.j + position % TILE_WIDE + t->shift_x + tile_group(t, position).shift_x;
        TileColumn last = {0, 0};
        bool regular = true;
        for (int column = s->column; s->row < s->row_end && column < s->column_end; column++) {
            const double x = snls_window_place(s->x, m->stride1, column, s->origin_x);
            const int64_t tap = snls_floor_inside(x);
            const TileColumn at = {(float)(x - (double)tap), (int32_t)(tap - from)};
            regular = regular && (column == s->column || (at.fraction == last.fraction && at.cell == last.cell + 1));
            tile_fraction(t, position)[column * t->p->positions] = at.fraction;
            tile_cell(t, position)[column * t->p->positions] = (uint8_t)at.cell;
            last = at;
        }
        s->regular = regular;
    }
}

/* ---- candidates ---- */

/* A row of cells of one lane: two rows of scores, and where. */
typedef struct TileRow {
    bool  ready;
    int   position, row;
    double y;
    int64_t tap;                 /* floor(y) */
    float fraction;
    const float *top, *bottom;   /* column 0 of this position */
    int   top_step, bottom_step; /* to the next column */
    const float4 *plane;         /* l2 between pixels: of column 0 of the box */
} TileRow;

static __device__ __forceinline__ float tile_blend(float a, float b, float f) { return fmaf(f, b, (1 - f) * a); }

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

/* l2: what interpolation of scores has too much. plane: of the first tap; width: to the row below. */
static __device__ __forceinline__ float tile_correction(const float4 *plane, int64_t width, float fy, float fx)
{
    const float4 d = *plane;
    const float gy = 1 - fy, gx = 1 - fx;
    float sum = gy * gy * gx * fx * d.x + gy * fy * gx * gx * d.y;
    if (fy != 0 && fx != 0) sum += fy * fy * gx * fx * plane[width].x + gy * fy * fx * fx * plane[1].y + gy * fy * gx * fx * (d.z + d.w);
    return sum;
}

/* l2: distances of the lanes that contend, from their pixels, some side by side. All lanes come here; NaN for those that do not. */
static __device__ __noinline__ float tile_rescore(const TileWork *t, int position, double y, double x, bool contends)
{
    const CudaMatch *c = &t->p->c;
    const int lane = (int)threadIdx.x % 32, mine = lane / c->parts;
    unsigned waiting = __ballot_sync(SNLS_WARP, contends);
    float result = NAN;
    while (waiting) {
        const unsigned before = waiting;
        int from = -1;
        for (int group = 0; group < 32 / c->parts && waiting; group++, waiting &= waiting - 1)
            if (group == mine) from = __ffs(waiting) - 1;
        const int source = from < 0 ? 0 : from, whose = __shfl_sync(SNLS_WARP, position, source);
        const double place_y = __shfl_sync(SNLS_WARP, y, source), place_x = __shfl_sync(SNLS_WARP, x, source);
        SnlsQuery q;
        const bool there = tile_query(t, whose, &q) && from >= 0;
        float sum = there ? snls_cuda_score(c, &q, t->frame, place_y, place_x, lane & (c->parts - 1)) : 0;
        for (int step = c->parts / 2; step > 0; step /= 2) sum += __shfl_xor_sync(SNLS_WARP, sum, step);
        const bool taken = (before & ~waiting) >> lane & 1;
        const float dist = __shfl_sync(SNLS_WARP, sum, taken ? __popc(before & ((1u << lane) - 1)) * c->parts : 0);
        if (taken) result = dist;
    }
    return result;
}

/* Products: the score of a candidate from its pixels, by this lane alone. */
static __device__ __noinline__ float tile_exact(const TileWork *t, int position, double y, double x)
{
    const CudaMatch *c = &t->p->c;
    SnlsQuery q;
    float sum = 0;
    if (!tile_query(t, position, &q)) return NAN;
    for (int part = 0; part < c->parts; part++) sum += snls_cuda_score(c, &q, t->frame, y, x, part);
    return sum;
}

/* What a candidate must exceed. */
template <int LENGTH> static __device__ __forceinline__ float tile_bar_of(const TileWork *t, int position, const TileBest<LENGTH> *best)
{
    return LENGTH ? best->value[LENGTH ? LENGTH - 1 : 0] : tile_bar(t, position);
}

template <int LENGTH> static __device__ __forceinline__ void tile_enter(const TileWork *t, int position, TileBest<LENGTH> *best, float value, uint32_t id)
{
    if (isnan(value) || value <= tile_bar_of<LENGTH>(t, position, best)) return;
    if constexpr (LENGTH > 0) tile_best_insert<LENGTH>(best, value, id);
    else tile_insert(tile_value(t, position), tile_id(t, position), t->p->positions, (int)t->p->c.k, value, id);
}

/* Products: one that is not finite says nothing of what lies between pixels, and is made from the pixels themselves. What is below the bar mostly leaves here at once. */
template <int LENGTH> static __device__ __forceinline__ void tile_enter_product(const TileWork *t, const TileRow *r, TileBest<LENGTH> *best, float value, int column)
{
    const SnlsMatch *m = &t->p->c.m;
    if (value <= tile_bar_of<LENGTH>(t, r->position, best) && value >= -FLT_MAX) return;
    if (!isfinite(value)) {
        const TileQuery *s = tile_state(t, r->position);
        const TileWork lent = *t;
        value = tile_exact(&lent, r->position, r->y, snls_window_place(s->x, m->stride1, column, s->origin_x));
    }
    tile_enter<LENGTH>(t, r->position, best, value, (uint32_t)((t->slot * m->side + r->row) * m->side + column));
}

/* One row of cells of a lane whose columns are regular; products. */
template <int LENGTH> static __device__ __forceinline__ void tile_scan_regular(const TileWork *t, const TileRow *r, TileBest<LENGTH> *best)
{
    const TileQuery *s = tile_state(t, r->position);
    const int cell = tile_cell(t, r->position)[s->column * t->p->positions];
    const float *top = r->top + cell * r->top_step, *bottom = r->bottom + cell * r->bottom_step;
    const float f = tile_fraction(t, r->position)[s->column * t->p->positions], g = r->fraction;
    float left = g == 0 ? *top : tile_blend(*top, *bottom, g);
    for (int column = s->column; column < s->column_end; column++) {
        top += r->top_step;
        bottom += r->bottom_step;
        const float right = g == 0 ? *top : tile_blend(*top, *bottom, g); /* of the last column: read, and used only where f is not 0 */
        tile_enter_product<LENGTH>(t, r, best, f == 0 ? left : tile_blend(left, right, f), column);
        left = right;
    }
}

/* One row of cells. Lanes that are not ready come along. */
template <bool L2, int LENGTH> static __device__ __forceinline__ void tile_scan_row(const TileWork *t, const TileRow *r, TileBest<LENGTH> *best)
{
    const SnlsMatch *m = &t->p->c.m;
    const TileQuery *s = tile_state(t, r->position);
    const int positions = t->p->positions, from = s->column, end = r->ready ? s->column_end : 0;
    const uint32_t id = (uint32_t)((t->slot * m->side + r->row) * m->side);
    for (int column = 0; column < (int)m->side; column++) {
        const bool there = column >= from && column < end;
        bool contends = false;
        float value = NAN;
        if (there) {
            const TileColumn at = {tile_fraction(t, r->position)[column * positions], tile_cell(t, r->position)[column * positions]};
            const float score = tile_between(r, at.cell, at.fraction);
            value = L2 ? -score : score;
            if (L2 && (at.fraction != 0 || r->fraction != 0)) {
                const float less = tile_correction(r->plane + at.cell, m->width, r->fraction, at.fraction), bar = tile_bar_of<LENGTH>(t, r->position, best);
                value = less - score;
                if (!(2 * less <= score && score <= FLT_MAX)) { /* digits were lost, or something is not finite */
                    contends = !(value + t->p->slack * (score + less) <= bar);
                    value = NAN;
                }
            }
        }
        if (L2 && __any_sync(SNLS_WARP, contends)) {
            const TileWork lent = *t;
            const float dist = tile_rescore(&lent, r->position, r->y, contends ? snls_window_place(s->x, m->stride1, column, s->origin_x) : 0, contends);
            if (contends) value = -dist;
        }
        if constexpr (L2) tile_enter<LENGTH>(t, r->position, best, value, id + (uint32_t)column);
        else if (there) tile_enter_product<LENGTH>(t, r, best, value, column);
    }
}

/* The next row of cells of a position, if the scores it needs are among rows [first - 1, end) of its box. */
template <int HIGH> static __device__ __forceinline__ TileRow tile_next_row(const TileWork *t, int position, bool fits, int shift, int first, int end)
{
    const TileQuery *s = tile_state(t, position);
    TileRow r = {.ready = fits && s->row < s->row_end, .position = position, .row = s->row};
    if (!r.ready) return r;
    r.y = snls_window_place(s->y, t->p->c.m.stride1, s->row, s->origin_y);
    r.tap = snls_floor_inside(r.y);
    r.fraction = (float)(r.y - (double)r.tap);
    const int row = (int)(r.tap - (t->first.i + position / TILE_WIDE)) - shift;
    r.ready = row + (r.fraction != 0 ? 1 : 0) < end;
    const int step = HIGH * TILE_WIDE;
    const bool kept = row < first; /* the last row of the step before */
    r.top = kept ? tile_retained(t) + position : tile_scores(t) + (row - first) * TILE_COLUMNS * step + position;
    r.top_step = kept ? t->p->positions : step;
    r.bottom = tile_scores(t) + (row + 1 - first) * TILE_COLUMNS * step + position;
    r.bottom_step = step;
    if (t->p->planes) {
        const SnlsMatch *m = &t->p->c.m;
        const int64_t plane = (t->first.b * m->heads + t->first.head) * m->frames + t->frame;
        const int64_t x = t->first.j + position % TILE_WIDE + t->shift_x + tile_group(t, position).shift_x;
        r.plane = t->p->planes + (plane * m->height + r.tap) * m->width + x;
    }
    return r;
}

template <int HIGH, bool L2, int LENGTH> static __device__ __forceinline__ void tile_select_position(const TileWork *t, int position, int first, int count)
{
    const int shift = t->shift_y + tile_group(t, position).shift_y;
    const bool fits = tile_fits(t, tile_box(t, position), t->shift_y, t->shift_x);
    TileBest<LENGTH> best = {};
    if constexpr (LENGTH > 0) best = tile_best_load<LENGTH>(t, position);
    for (;;) {
        const TileRow r = tile_next_row<HIGH>(t, position, fits, shift, first, first + count);
        if (!__any_sync(SNLS_WARP, r.ready)) break;
        if (!L2 && __all_sync(SNLS_WARP, !r.ready || tile_state(t, position)->regular)) {
            if (r.ready) tile_scan_regular<LENGTH>(t, &r, &best);
        } else {
            tile_scan_row<L2, LENGTH>(t, &r, &best);
        }
        if (r.ready) tile_state(t, position)->row++;
    }
    if constexpr (LENGTH > 0) tile_best_store<LENGTH>(t, position, &best);
}

/* All rows of cells whose scores are there; then the last row of scores is kept for the next step. */
template <int HIGH, bool L2> static __device__ __forceinline__ void tile_select(const TileWork *t, int first, int count)
{
    for (int position = (int)threadIdx.x; position < t->p->positions; position += TILE_THREADS) {
        if (t->p->c.k <= TILE_SHORT) tile_select_position<HIGH, L2, TILE_SHORT>(t, position, first, count);
        else if (t->p->c.k <= TILE_MIDDLE) tile_select_position<HIGH, L2, TILE_MIDDLE>(t, position, first, count);
        else tile_select_position<HIGH, L2, 0>(t, position, first, count);
        const float *last = tile_scores(t) + (count - 1) * TILE_COLUMNS * HIGH * TILE_WIDE + position;
        for (int column = 0; column < t->columns; column++) tile_retained(t)[column * t->p->positions + position] = last[column * HIGH * TILE_WIDE];
    }
}

#endif
