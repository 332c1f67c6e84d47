/* match_anchor.c: anchors put first in lists that were made without regard to them. Lists of the k best of all candidates hold the best of those that are no anchors, in
 * order: an anchor that is among them moves to the front, one that is not takes the place of the last. So the fast ways need not know of anchors. */
#include "cpu/match.h"
#include "cpu/threads.h"

/* A neighbour in the outputs. */
typedef struct Kept { float dist, offset[3]; int32_t index; } Kept;

static Kept read_kept(const SnlsMatch *m, const SnlsQuery *q, int64_t place)
{
    const float *offset = (const float *)m->offset.data + snls_at6(&m->offset, q->b, q->head, q->t, q->i, q->j, place);
    Kept kept = {.dist = ((const float *)m->dist.data)[snls_at6(&m->dist, q->b, q->head, q->t, q->i, q->j, place)]};
    for (int i = 0; i < 3; i++) kept.offset[i] = offset[i * m->offset.stride[6]];
    if (m->index.data) kept.index = ((const int32_t *)m->index.data)[snls_at6(&m->index, q->b, q->head, q->t, q->i, q->j, place)];
    return kept;
}

static void write_kept(const SnlsMatch *m, const SnlsQuery *q, int64_t place, const Kept *kept)
{
    float *offset = (float *)m->offset.data + snls_at6(&m->offset, q->b, q->head, q->t, q->i, q->j, place);
    ((float *)m->dist.data)[snls_at6(&m->dist, q->b, q->head, q->t, q->i, q->j, place)] = kept->dist;
    for (int i = 0; i < 3; i++) offset[i * m->offset.stride[6]] = kept->offset[i];
    if (m->index.data) ((int32_t *)m->index.data)[snls_at6(&m->index, q->b, q->head, q->t, q->i, q->j, place)] = kept->index;
}

/* Where the anchor is among places first .. first+k-1, or k. Candidates of a window are further apart than the roundings of their offsets. A place without a neighbour has
 * an infinite distance and offsets 0: where there are no numbers to tell them apart, only an anchor that is infinitely far is taken for it, which makes no difference. */
static int64_t find(const SnlsMatch *m, const SnlsQuery *q, int64_t first, const Kept *anchor)
{
    for (int64_t at = 0; at < m->k; at++) {
        const Kept kept = read_kept(m, q, first + at);
        const bool same = kept.offset[0] == anchor->offset[0] && kept.offset[1] == anchor->offset[1] && kept.offset[2] == anchor->offset[2];
        if (m->index.data ? kept.index == anchor->index : same && (isfinite(kept.dist) || kept.dist == anchor->dist)) return at;
    }
    return m->k;
}

/* The anchor of a window, its distance not yet known; false: there is none. */
static bool anchor_of(const SnlsMatch *m, const SnlsQuery *q, const SnlsMatchWindow *w, int64_t window, Kept *kept, int64_t *row, int64_t *column)
{
    const CpuCells cells = snls_cpu_cells(m, w, window);
    if (cells.row == cells.row_end) return false;
    const int64_t cell = snls_match_special(m, q, w, window).anchored;
    if (!snls_cpu_is_cell(&cells, cell, m->side)) return false;
    *row = cell / m->side;
    *column = cell % m->side;
    const double y = snls_match_y(m, w, *row), x = snls_match_x(m, w, *column);
    *kept = (Kept){.offset = {(float)(w->frame - q->t), (float)(y - (double)(q->i * m->stride0)), (float)(x - (double)(q->j * m->stride0))},
                   .index = (int32_t)(window * m->side * m->side + cell)};
    return true;
}

/* The anchor of a window to the front of places first .. first+k-1. */
static void put_first(const CpuMatch *c, const SnlsQuery *q, int64_t window, int64_t first, CpuMatchScratch *scratch)
{
    const SnlsMatch *m = &c->m;
    const SnlsMatchWindow w = snls_match_window(m, q, window);
    Kept anchor;
    int64_t row, column;
    if (!anchor_of(m, q, &w, window, &anchor, &row, &column)) return;
    int64_t at = find(m, q, first, &anchor);
    if (at < m->k) anchor.dist = read_kept(m, q, first + at).dist;
    else {
        const CpuCells cell = {row, row + 1, column, column + 1};
        snls_cpu_load_patch(c, q, scratch);
        snls_cpu_score_window(c, q, &w, &cell, scratch);
        anchor.dist = scratch->score[column] + 0.0f;
        if (isnan(anchor.dist)) return;
        at = find(m, q, first, &anchor);
        if (at == m->k) at--;
    }
    for (; at > 0; at--) {
        const Kept before = read_kept(m, q, first + at - 1);
        write_kept(m, q, first + at, &before);
    }
    write_kept(m, q, first, &anchor);
}

/* From the last window to the first, so that anchors come in the order of their windows. */
static void put_all_first(const CpuMatch *c, const SnlsQuery *q, CpuMatchScratch *scratch)
{
    const SnlsMatch *m = &c->m;
    for (int64_t window = m->windows - 1; window >= 0; window--)
        if (window == 0 || m->anchor == SNLS_ANCHOR_EACH) put_first(c, q, window, m->each ? window * m->k : 0, scratch);
}

void snls_cpu_match_anchor(SnlsContext *ctx, const CpuMatch *c, CpuMatchScratch *scratch)
{
    const SnlsMatch *m = &c->m;
    const int64_t units = m->batch * m->heads * m->frames * m->rows;
#pragma omp parallel for num_threads(ctx->threads) schedule(static)
    for (int64_t u = 0; u < units; u++) {
        SnlsQuery q = {.i = u % m->rows, .t = u / m->rows % m->frames, .head = u / m->rows / m->frames % m->heads, .b = u / m->rows / m->frames / m->heads};
        for (q.j = 0; q.j < m->columns; q.j++) put_all_first(c, &q, &scratch[snls_cpu_thread()]);
    }
}
