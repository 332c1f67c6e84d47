/* match_query.h: search, search_all and refine of one query by a warp, for any parameters: candidates of a window are scored side by side,
 * each by `parts` lanes, from interpolated pixels as docs/operators.md has it; the best are kept by the warp. */
#ifndef SNLS_CUDA_MATCH_QUERY_H
#define SNLS_CUDA_MATCH_QUERY_H

#include "cuda/match.h"
#include "cuda/score.h"

/* Cells of a window that are looked at: all of them where all are written, else those inside the frame. */
typedef struct Cells { int64_t row0, row1, column0, column1; } Cells;

static __device__ inline Cells cells_of(const SnlsMatch *m, const SnlsMatchWindow *w)
{
    Cells cells = {0, m->side, 0, m->side};
    if (m->all) return cells;
    snls_match_valid_run(w->y, m->stride1, w->origin_y, m->side, m->height, &cells.row0, &cells.row1);
    snls_match_valid_run(w->x, m->stride1, w->origin_x, m->side, m->width, &cells.column0, &cells.column1);
    return cells;
}

/* Where the next output of a group goes, and how many anchors stand before it. */
typedef struct Group { int64_t first, anchors; } Group;

static __device__ inline void scan_window(const CudaMatch *c, const SnlsQuery *q, int64_t window, CudaBest *best, Group *group, int lane)
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
static __device__ inline void write_group(const CudaMatch *c, const SnlsQuery *q, const CudaBest *best, const Group *group, int lane)
{
    for (int64_t i = lane; group->anchors + i < c->m.k; i += 32) {
        const uint64_t key = i >= c->k ? SNLS_NO_KEY : best->list ? best->list[i] : best->held;
        snls_cuda_write_found(&c->m, q, group->first + group->anchors + i, key);
    }
}

static __device__ inline void snls_cuda_match_query(const CudaMatch *c, const SnlsQuery *q, CudaBest *best, int lane)
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

#endif
