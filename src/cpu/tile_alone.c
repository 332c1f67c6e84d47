/* tile_alone.c: one query of a tile scored on its own, because its window is cut or far from the others'. */
#include "cpu/tile.h"
#include <math.h>

/* Patches of the query and of every candidate lie inside the frame, or pixels outside are mirrored: then scores between
 * pixels follow from scores at pixels. (With border drop a pixel counts or not by its real place, and they do not.) */
static bool can_interpolate(const CpuTile *tile, const SnlsQuery *q, const SnlsMatchWindow *w)
{
    const SnlsMatch *m = &tile->c->m;
    const CpuPlanes *planes = &tile->planes;
    if (m->nearest || (!planes->bend && !m->prod)) return false;
    if (!m->drop || m->ps == 1) return true;
    const double reach = (double)(m->side - 1) * m->stride1, before = (double)planes->before, after = (double)planes->after + 1;
    const double y = snls_match_y(m, w, 0), x = snls_match_x(m, w, 0), qy = (double)(q->i * m->stride0), qx = (double)(q->j * m->stride0);
    return snls_inside(qy - before, m->height) && snls_inside(qy + after, m->height) && snls_inside(qx - before, m->width) &&
           snls_inside(qx + after, m->width) && snls_inside(y - before, m->height) && snls_inside(y + reach + after, m->height) &&
           snls_inside(x - before, m->width) && snls_inside(x + reach + after, m->width);
}

/* The three planes of corrections in row y of a frame and in the one below. */
typedef struct Bends { const float *here, *below; } Bends;

static Bends bends_of(const CpuTile *tile, int64_t frame, int64_t y, float fy)
{
    const int64_t at = tile->planes.features * tile->planes.pitch;
    const float *here = snls_tile_plane_row(tile, frame, y) + at;
    return (Bends){here, fy == 0 ? here : snls_tile_plane_row(tile, frame, y + 1) + at};
}

/* Where pixel x is in a plane. */
static int64_t column_of(const CpuTile *tile, int64_t x)
{
    const int64_t at = x + tile->planes.margin, stride0 = tile->c->m.stride0;
    return stride0 == 1 ? at : at % stride0 * tile->planes.phase + at / stride0; /* divisions would be most of the time */
}

/* b not looked at where f is 0. From the nearer end, as in simd/tile_body.h (Share). */
static float between(const float *a, const float *b, float f) { return f == 0 ? *a : f <= 0.5f ? *a + f * (*b - *a) : *b + (f - 1) * (*b - *a); }

/* What linear interpolation of squared distances is too large by (docs/performance.md). */
static float correction(const CpuTile *tile, const Bends *bends, int64_t x, float fy, float fx)
{
    const int64_t pitch = tile->planes.pitch, at = column_of(tile, x);
    float sum = 0;
    if (fx != 0) {
        const float right = between(&bends->here[at], &bends->below[at], fy);
        sum += fx * (1 - fx) * (fy == 0 ? right : right - fy * (1 - fy) * bends->here[2 * pitch + at]);
    }
    if (fy != 0) sum += fy * (1 - fy) * between(&bends->here[pitch + at], &bends->here[pitch + (fx == 0 ? at : column_of(tile, x + 1))], fx);
    return sum;
}

/* Scores at whole pixels around the window, then the candidates between them. false: some score leaves the range where differences are safe, or there is no room: a place that is a hair
 * below a pixel is on it a few pixels on, rounded to double, and the window is one pixel longer than its places say. */
static bool interpolate(const CpuTile *tile, const SnlsQuery *q, const SnlsMatchWindow *w, float *out, float *most, CpuTileScratch *s)
{
    const SnlsMatch *m = &tile->c->m;
    const int64_t y0 = snls_floor_inside(snls_match_y(m, w, 0)), x0 = snls_floor_inside(snls_match_x(m, w, 0)), span = tile->span;
    const int64_t rows = snls_floor_inside(snls_match_y(m, w, m->side - 1)) - y0 + 2, columns = snls_floor_inside(snls_match_x(m, w, m->side - 1)) - x0 + 2;
    if (rows > span || columns > span) return false;
    for (int64_t y = 0; y < rows; y++) snls_cpu_score_whole(tile->c, q, w->frame, y0 + y, x0, 1, columns, s->single, s->grid + y * span);
    for (int64_t y = 0; y < rows; y++)
        for (int64_t x = 0; x < columns; x++)
            if (!(fabsf(s->grid[y * span + x]) < 1e36f)) return false; /* NaN may be a sum that went beyond on both sides */
    for (int64_t row = 0; row < m->side; row++) {
        const double py = snls_match_y(m, w, row);
        const int64_t y = snls_floor_inside(py);
        const float fy = (float)(py - (double)y), *grid = s->grid + (y - y0) * span;
        const Bends bends = tile->planes.bend ? bends_of(tile, w->frame, y, fy) : (Bends){NULL, NULL};
        for (int64_t c = 0; c < m->side; c++) {
            const double px = snls_match_x(m, w, c);
            const int64_t x = snls_floor_inside(px);
            const float fx = (float)(px - (double)x), *at = grid + (x - x0), above = between(at, at + 1, fx);
            const float below = fy == 0 ? above : between(at + span, at + span + 1, fx), less = tile->planes.bend ? correction(tile, &bends, x, fy, fx) : 0;
            const float score = between(&above, &below, fy) - less;
            if (less > *most) *most = less;
            out[(row * m->side + c) * tile->lanes] = m->prod ? -score : score;
        }
    }
    return true;
}

/* Candidates inside the frame, each on its own. */
static void one_by_one(const CpuTile *tile, const SnlsQuery *q, const SnlsMatchWindow *w, int64_t slot, float *out, CpuTileScratch *s)
{
    const SnlsMatch *m = &tile->c->m;
    const CpuCells cells = snls_cpu_cells(m, w, slot);
    if (cells.row == cells.row_end || cells.column == cells.column_end) return;
    snls_cpu_score_window(tile->c, q, w, &cells, s->single);
    for (int64_t row = 0; row < cells.row_end - cells.row; row++) /* sides are short enough here for all rows at once */
        for (int64_t c = cells.column; c < cells.column_end; c++) {
            const float score = s->single->score[row * m->side + c];
            out[((cells.row + row) * m->side + c) * tile->lanes] = m->prod ? -score : score;
        }
}

void snls_tile_score_alone(const CpuTile *tile, const CpuTilePlace *p, int64_t run, int64_t l, int64_t slot, float *value, CpuTileScratch *s)
{
    const SnlsMatch *m = &tile->c->m;
    float *out = value + l;
    for (int64_t i = 0; i < tile->cells; i++) out[i * tile->lanes] = NAN;
    if (l >= snls_tile_active(tile, p, run)) return;
    const SnlsMatchWindow w = snls_tile_window(tile, p, &s->window, slot, run, l);
    if (!w.valid) return;
    const SnlsQuery q = snls_tile_query(tile, p, run, l);
    snls_cpu_load_patch(tile->c, &q, s->single);
    if (snls_tile_whole_window(m, &w) && can_interpolate(tile, &q, &w) && interpolate(tile, &q, &w, out, &s->most[run * tile->lanes + l], s)) return;
    one_by_one(tile, &q, &w, slot, out, s);
}
