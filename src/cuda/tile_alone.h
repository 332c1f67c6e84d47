/* tile_alone.h: the queries of a tile one by one, a warp each, where their windows have too little in common. Products: scores on the
 * whole pixels under the window once, then candidates by interpolation as in a tile. l2: every candidate from its pixels. */
#ifndef SNLS_CUDA_TILE_ALONE_H
#define SNLS_CUDA_TILE_ALONE_H

#include "cuda/tile_select.h"
#include "cuda/turn.h"

/* The list of a position, place i in lane i. */
typedef struct TileHeld { float value, bar; uint32_t id; } TileHeld;

static __device__ __forceinline__ TileHeld tile_hold(const TileWork *t, int position)
{
    const int lane = (int)threadIdx.x % 32, k = (int)t->p->c.k;
    TileHeld held = {NAN, tile_bar(t, position), 0};
    if (lane < k) held.value = tile_value(t, position)[lane * t->p->positions], held.id = tile_id(t, position)[lane * t->p->positions];
    return held;
}

static __device__ __forceinline__ void tile_put_back(const TileWork *t, int position, const TileHeld *held)
{
    const int lane = (int)threadIdx.x % 32;
    __syncwarp(); /* all lanes have read the bar */
    if (lane < t->p->c.k) tile_value(t, position)[lane * t->p->positions] = held->value, tile_id(t, position)[lane * t->p->positions] = held->id;
    __syncwarp();
}

/* A candidate from every lane that has one, in the order of lanes, which is that of their numbers. */
static __device__ __forceinline__ void tile_offer(TileHeld *held, int k, bool there, float value, uint32_t id)
{
    const int lane = (int)threadIdx.x % 32;
    unsigned waiting = __ballot_sync(SNLS_WARP, there && !isnan(value) && !(value <= held->bar));
    for (; waiting; waiting &= waiting - 1) {
        const int from = __ffs(waiting) - 1;
        const float next = __shfl_sync(SNLS_WARP, value, from), above = __shfl_up_sync(SNLS_WARP, held->value, 1);
        const uint32_t number = __shfl_sync(SNLS_WARP, id, from), id_above = __shfl_up_sync(SNLS_WARP, held->id, 1);
        const int place = __popc(__ballot_sync(SNLS_WARP, lane < k && next <= held->value));
        if (lane == place) held->value = next, held->id = number;
        else if (lane > place) held->value = above, held->id = id_above;
        held->bar = __shfl_sync(SNLS_WARP, held->value, k - 1);
    }
}

/* Every candidate from its pixels. */
static __device__ void tile_alone_pixels(const TileWork *t, int position, const SnlsQuery *q, TileHeld *held)
{
    const CudaMatch *c = &t->p->c;
    const TileQuery *s = tile_state(t, position);
    const SnlsMatchWindow w = snls_match_window(&c->m, q, t->slot);
    const int lane = (int)threadIdx.x % 32, part = lane & (c->parts - 1), columns = s->column_end - s->column, n = columns * (s->row_end - s->row);
    for (int base = 0; base < n; base += 32 / c->parts) {
        const int at = base + lane / c->parts;
        const uint64_t key = snls_cuda_candidate(c, q, &w, t->slot, s->row + at / columns, s->column + at % columns, at < n, part);
        const float dist = snls_key_dist(key, c->m.prod);
        tile_offer(held, (int)c->k, part == 0 && key != SNLS_NO_KEY, c->m.prod ? dist : -dist, (uint32_t)key);
    }
}

/* Products on whole pixels: `grid` gets rows of 16. Four rows at a time, each by eight lanes that share the features. (y, x): first pixel. */
static __device__ void tile_alone_grid(const TileWork *t, const SnlsQuery *q, int64_t y, int64_t x, int rows, int columns, float *grid)
{
    const CudaMatch *c = &t->p->c;
    const int lane = (int)threadIdx.x % 32, part = lane % 8;
    const float4 *query = snls_cuda_pixel(&c->query, q->b, q->head, q->t, q->i, q->j);
    for (int row = lane / 8; row < (rows + 3) / 4 * 4; row += 4) {
        const int64_t line = y + row < c->m.height ? y + row : c->m.height - 1; /* what is beyond is not used */
        const float4 *key = snls_cuda_pixel(&c->key, q->b, q->head, t->frame, line, x);
        float sum[16], a, b;
#pragma unroll
        for (int i = 0; i < 16; i++) sum[i] = 0;
        for (int64_t quad = part; quad < c->key.quads && row < rows; quad += 8) {
            const float4 v = query[quad];
#pragma unroll
            for (int i = 0; i < 16; i++)
                if (i < columns) sum[i] = snls_cuda_dot(v, key[i * c->key.step[3] + quad], sum[i]);
        }
        snls_cuda_turn(sum, part, &a, &b);
        *(float2 *)(grid + row * 16 + snls_cuda_turned(part)) = make_float2(a, b);
    }
    __syncwarp();
}

/* Candidates of a position by interpolation on its grid, 32 at a time. low: first tap along y and x. */
static __device__ void tile_alone_candidates(const TileWork *t, int position, int64_t low_y, int64_t low_x, const float *grid, TileHeld *held)
{
    const SnlsMatch *m = &t->p->c.m;
    const TileQuery *s = tile_state(t, position);
    const int lane = (int)threadIdx.x % 32, columns = s->column_end - s->column, n = columns * (s->row_end - s->row);
    for (int base = 0; base < n; base += 32) {
        const int at = min(base + lane, n - 1), row = s->row + at / columns, column = s->column + at % columns;
        const double y = snls_window_place(s->y, m->stride1, row, s->origin_y), x = snls_window_place(s->x, m->stride1, column, s->origin_x);
        const int64_t tap_y = snls_floor_inside(y), tap_x = snls_floor_inside(x);
        const float fy = (float)(y - (double)tap_y), fx = (float)(x - (double)tap_x);
        const float *top = grid + (tap_y - low_y) * 16;
        float value = tile_across(top, 1, (int)(tap_x - low_x), fx);
        if (fy != 0) value = tile_blend(value, tile_across(top + 16, 1, (int)(tap_x - low_x), fx), fy);
        if (!isfinite(value)) value = tile_exact(t, position, y, x);
        tile_offer(held, (int)t->p->c.k, base + lane < n, value, (uint32_t)((t->slot * m->side + row) * m->side + column));
    }
}

static __device__ __noinline__ void tile_alone(const TileWork *t)
{
    const SnlsMatch *m = &t->p->c.m;
    const bool grids = m->prod && m->ps == 1;
    float *grid = tile_scores(t) + (int)threadIdx.x / 32 * 16 * 20; /* rows: at most 17, in fours */
    for (int position = (int)threadIdx.x / 32; position < t->p->positions; position += TILE_WARPS) {
        const TileQuery *s = tile_state(t, position);
        SnlsQuery q;
        if (!tile_query(t, position, &q) || s->row >= s->row_end) continue;
        TileBox box;
        tile_reach(snls_window_place(s->y, m->stride1, s->row, s->origin_y), snls_window_place(s->y, m->stride1, s->row_end - 1, s->origin_y), 0, &box.low_y, &box.high_y);
        tile_reach(snls_window_place(s->x, m->stride1, s->column, s->origin_x), snls_window_place(s->x, m->stride1, s->column_end - 1, s->origin_x), 0, &box.low_x, &box.high_x);
        const int rows = box.high_y - box.low_y + 1, columns = box.high_x - box.low_x + 1;
        TileHeld held = tile_hold(t, position);
        if (!grids || rows > 16 || columns > 16) {
            tile_alone_pixels(t, position, &q, &held);
        } else {
            __syncwarp(); /* the grid of the query before is read no more */
            tile_alone_grid(t, &q, box.low_y, box.low_x, rows, columns, grid);
            tile_alone_candidates(t, position, box.low_y, box.low_x, grid, &held);
        }
        tile_put_back(t, position, &held);
    }
}

#endif
