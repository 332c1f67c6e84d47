/* match_score.c: scores of the candidates of a window of one query. */
#include "cpu/match.h"
#include <string.h>

void snls_cpu_load_patch(const CpuMatch *c, const SnlsQuery *q, CpuMatchScratch *scratch)
{
    const SnlsMatch *m = &c->m;
    const int64_t channel = q->head * m->features;
    scratch->holes = false;
    for (int64_t r = 0; r < m->ps; r++)
        for (int64_t s = 0; s < m->ps; s++) {
            const int64_t y = q->i * m->stride0 + m->dilation * (r - m->ps / 2), x = q->j * m->stride0 + m->dilation * (s - m->ps / 2);
            const bool outside = y < 0 || y >= m->height || x < 0 || x >= m->width;
            const float *from = NULL;
            if (!outside || !m->drop)
                from = snls_cpu_pixel(&c->query, q->b, q->t, snls_reflect(y, m->height), snls_reflect(x, m->width)) + channel;
            float *to = scratch->patch + (r * m->ps + s) * m->features;
            if (from && m->ps > 1) from = memcpy(to, from, (size_t)m->features * sizeof *to); /* close together for the many reads to come */
            scratch->pixel[r * m->ps + s] = from;
            scratch->holes |= !from;
        }
}

CpuCells snls_cpu_cells(const SnlsMatch *m, const SnlsMatchWindow *w, int64_t window)
{
    CpuCells cells = {0};
    if (!w->valid || (m->exclude == SNLS_EXCLUDE_FRAME && window == 0)) return cells;
    snls_match_valid_run(w->y, m->stride1, w->origin_y, m->side, m->height, &cells.row, &cells.row_end);
    snls_match_valid_run(w->x, m->stride1, w->origin_x, m->side, m->width, &cells.column, &cells.column_end);
    return cells;
}

enum { APART_MAX = 4 };

/* Cells of an axis that lie at the same fraction of a pixel: `first` and every `apart`th after it. */
typedef struct Line { int64_t first, apart, count, low, step; double fraction; } Line; /* low: whole pixel of the first; step: pixels from each to the next */

/* Every how many cells the fraction is the same; 0: too many. */
static int64_t cells_apart(const SnlsMatch *m)
{
    if (m->stride1 == 1) return 1;
    for (int64_t n = 1; n <= APART_MAX; n++)
        if (m->stride1 * (double)n == floor(m->stride1 * (double)n)) return n;
    return 0;
}

static Line line_of(const SnlsMatch *m, double centre, int64_t origin, int64_t first, int64_t end, int64_t apart)
{
    const double place = snls_window_place(centre, m->stride1, first, origin);
    const int64_t low = first < end ? snls_floor_inside(place) : 0;
    const int64_t cells = first < end ? end - first : 0, count = apart == 1 ? cells : (cells + apart - 1) / apart; /* a division takes as long as a score */
    return (Line){first, apart, count, low, (int64_t)(m->stride1 * (double)apart), place - (double)low};
}

/* All pixels that patches around these places read are in the frame. */
static bool line_inside(const SnlsMatch *m, const Line *l, int64_t n)
{
    const int64_t before = m->dilation * (m->ps / 2), after = m->dilation * (m->ps - 1 - m->ps / 2);
    return l->count == 0 || (l->low >= before && l->low + (l->count - 1) * l->step + (l->fraction > 0) + after < n);
}

/* The query's patch and reads of as much. Pixels of a row that lie side by side are one piece. */
static SnlsReads reads_of(const CpuMatch *c, const CpuMatchScratch *scratch)
{
    const SnlsMatch *m = &c->m;
    const int64_t right = c->key.step[3], down = c->key.step[2];
    SnlsReads r = {.q = m->ps > 1 ? scratch->patch : scratch->pixel[0], .rows = m->ps, .run = m->ps, .n = m->features, .next_down = m->dilation * down,
                   .next_right = m->dilation * right, .right = right, .down = down, .prod = m->prod};
    if (m->dilation == 1 && right == m->features) r.run = 1, r.n = m->ps * m->features;
    return r;
}

/* The pixel that the first pixel of a patch is compared with where the patch's centre is at (y, x). */
static const float *patch_at(const CpuMatch *c, const SnlsQuery *q, int64_t frame, int64_t y, int64_t x)
{
    const SnlsMatch *m = &c->m;
    const int64_t before = m->dilation * (m->ps / 2);
    return snls_cpu_pixel(&c->key, q->b, frame, y - before, x - before) + q->head * m->features;
}

static void score_lines(const CpuMatch *c, const SnlsQuery *q, int64_t frame, const Line *y, const Line *x, const CpuMatchScratch *scratch, float *score)
{
    const double fy = y->fraction, fx = x->fraction;
    SnlsReads reads = reads_of(c, scratch);
    int64_t n = 0;
    if (y->count == 0 || x->count == 0) return;
    reads.shape = (fx != 0) + 2 * (fy != 0);
    for (int i = 0; i < 4; i++) reads.w[i] = (float)((i / 2 ? fy : 1 - fy) * (i % 2 ? fx : 1 - fx));
    for (int64_t i = 0; i < y->count; i++) {
        const float *at = patch_at(c, q, frame, y->low + i * y->step, x->low);
        for (int64_t j = 0; j < x->count; j++, at += x->step * c->key.step[3]) scratch->place[n++] = at;
    }
    const bool all = y->apart == 1 && x->count == c->m.side; /* whole rows: they are where they belong */
    c->dsp->score_places(all ? score : scratch->part, scratch->place, n, &reads);
    if (all) return;
    const float *from = scratch->part;
    for (int64_t i = 0; i < y->count; i++) {
        float *to = score + i * y->apart * c->m.side + x->first;
        for (int64_t j = 0; j < x->count; j++) to[j * x->apart] = *from++;
    }
}

/* false: some pixel is outside, or all fractions differ. */
static bool score_together(const CpuMatch *c, const SnlsQuery *q, const SnlsMatchWindow *w, const CpuCells *cells, const CpuMatchScratch *scratch)
{
    const SnlsMatch *m = &c->m;
    const int64_t apart = cells_apart(m);
    Line y[APART_MAX], x[APART_MAX];
    if (!apart || scratch->holes) return false;
    for (int64_t i = 0; i < apart; i++) {
        y[i] = line_of(m, w->y, w->origin_y, cells->row + i, cells->row_end, apart);
        x[i] = line_of(m, w->x, w->origin_x, cells->column + i, cells->column_end, apart);
        if (!line_inside(m, &y[i], m->height) || !line_inside(m, &x[i], m->width)) return false;
    }
    for (int64_t i = 0; i < apart; i++)
        for (int64_t j = 0; j < apart; j++) score_lines(c, q, w->frame, &y[i], &x[j], scratch, scratch->score + i * m->side);
    return true;
}

/* One pixel of the query's patch against the key pixels x, x+step, ... of row y: out[i] += score */
static void add_run(const CpuMatch *c, const float *pixel, const float *key_row, int64_t x, int64_t step, int64_t n, float *out)
{
    const SnlsMatch *m = &c->m;
    const int64_t apart = c->key.step[3];
    void (*run)(float *, const float *, const float *, ptrdiff_t, ptrdiff_t, ptrdiff_t) = m->prod ? c->dsp->dot_row : c->dsp->l2_row;
    int64_t low = x < 0 ? (-x + step - 1) / step : 0; /* cells before this one fall left of the frame */
    int64_t high = x > m->width - 1 ? 0 : (m->width - 1 - x) / step + 1;
    if (high > n) high = n;
    if (low > high) low = high;
    if (high > low) run(out + low, pixel, key_row + (x + low * step) * apart, step * apart, high - low, m->features);
    for (int64_t i = 0; i < n && !m->drop; i++) {
        if (i == low) i = high;
        if (i >= n) break;
        run(out + i, pixel, key_row + snls_reflect(x + i * step, m->width) * apart, 0, 1, m->features);
    }
}

void snls_cpu_score_whole(const CpuMatch *c, const SnlsQuery *q, int64_t frame, int64_t y, int64_t x, int64_t step, int64_t n, const CpuMatchScratch *scratch,
                          float *out)
{
    const SnlsMatch *m = &c->m;
    const Line row = {.count = 1, .low = y}, column = {.count = n, .low = x, .step = step};
    if (n <= snls_cpu_places(m) && !scratch->holes && line_inside(m, &row, m->height) && line_inside(m, &column, m->width)) {
        const SnlsReads reads = reads_of(c, scratch);
        for (int64_t i = 0; i < n; i++) scratch->place[i] = patch_at(c, q, frame, y, x + i * step);
        c->dsp->score_places(out, scratch->place, n, &reads);
        return;
    }
    memset(out, 0, (size_t)n * sizeof *out);
    for (int64_t r = 0; r < m->ps; r++) {
        const int64_t ky = y + m->dilation * (r - m->ps / 2);
        if (m->drop && (ky < 0 || ky >= m->height)) continue;
        const float *key_row = snls_cpu_pixel(&c->key, q->b, frame, snls_reflect(ky, m->height), 0) + q->head * m->features;
        for (int64_t s = 0; s < m->ps; s++) {
            const float *pixel = scratch->pixel[r * m->ps + s];
            if (pixel) add_run(c, pixel, key_row, x + m->dilation * (s - m->ps / 2), step, n, out);
        }
    }
}

float snls_cpu_score_at(const CpuMatch *c, const SnlsQuery *q, int64_t frame, double y, double x, const CpuMatchScratch *scratch)
{
    const SnlsMatch *m = &c->m;
    float sum = 0;
    for (int64_t r = 0; r < m->ps; r++)
        for (int64_t s = 0; s < m->ps; s++) {
            const float *pixel = scratch->pixel[r * m->ps + s];
            const double u = y + (double)(m->dilation * (r - m->ps / 2)), v = x + (double)(m->dilation * (s - m->ps / 2));
            CpuTaps taps;
            if (!pixel || !snls_cpu_taps(&taps, &c->key, q->b, frame, q->head * m->features, u, v, m->height, m->width, m->drop)) continue;
            sum += (m->prod ? c->dsp->dot_blend : c->dsp->l2_blend)(pixel, taps.at, taps.weight, taps.count, m->features);
        }
    return sum;
}

/* Cells of a row, wherever their patches are. */
static void score_row(const CpuMatch *c, const SnlsQuery *q, const SnlsMatchWindow *w, int64_t row, const CpuCells *cells, const CpuMatchScratch *scratch)
{
    const SnlsMatch *m = &c->m;
    const double y = snls_match_y(m, w, row), x = snls_match_x(m, w, cells->column);
    const bool whole = y == floor(y) && x == floor(x) && m->stride1 == floor(m->stride1);
    float *out = scratch->score + (row - cells->row) * m->side;
    if (whole) {
        snls_cpu_score_whole(c, q, w->frame, (int64_t)y, (int64_t)x, (int64_t)m->stride1, cells->column_end - cells->column, scratch, out + cells->column);
        return;
    }
    for (int64_t column = cells->column; column < cells->column_end; column++)
        out[column] = snls_cpu_score_at(c, q, w->frame, y, snls_match_x(m, w, column), scratch);
}

void snls_cpu_score_window(const CpuMatch *c, const SnlsQuery *q, const SnlsMatchWindow *w, const CpuCells *cells, const CpuMatchScratch *scratch)
{
    if (score_together(c, q, w, cells, scratch)) return;
    for (int64_t row = cells->row; row < cells->row_end; row++) score_row(c, q, w, row, cells, scratch);
}

void snls_cpu_bends(const CpuMatch *c, int64_t b, int64_t head, int64_t frame, int64_t y, int64_t x, float out[3])
{
    const SnlsMatch *m = &c->m;
    const int64_t up = snls_cpu_reflect(y, m->height), down = snls_cpu_reflect(y + 1, m->height), left = snls_cpu_reflect(x, m->width), right = snls_cpu_reflect(x + 1, m->width);
    const float *upper = snls_cpu_pixel(&c->key, b, frame, up, 0) + head * m->features, *lower = snls_cpu_pixel(&c->key, b, frame, down, 0) + head * m->features;
    const int64_t step = c->key.step[3];
    c->dsp->bends(out, upper + left * step, upper + right * step, lower + left * step, lower + right * step, m->features);
}
