/* tile_score.c: products of a tile with the key pixels at every shift of the box, and the candidates' scores from them. */
#include "cpu/tile.h"

/* Rows of the planes of corrections as runs for mix: number j of plane n is shift origin_y + j of row r. */
static void point_bends(const CpuTile *tile, const CpuTilePlace *p, int64_t frame, int64_t r, CpuTileScratch *s)
{
    const SnlsMatch *m = &tile->c->m;
    const int64_t query_y = (p->i0 + r / tile->blocks) * m->stride0, across = r % tile->blocks * tile->lanes; /* stride0 is 1 where blocks are several */
    const float **runs = snls_tile_bend_runs(tile, s, r);
    for (int64_t j = 0; j <= s->size_y; j++) { /* rows outside the frame have weight 0: any will do */
        const float *row = snls_tile_plane_row(tile, frame, query_y + s->origin_y + j) + tile->planes.features * tile->planes.pitch + across;
        for (int n = 0; n < 3; n++) runs[n * (tile->box_max + 2) + j] = row + n * tile->planes.pitch;
    }
}

/* Scores of run r at shift j of the box, ps 1: a tile is one block wide. */
static float *box_row(const CpuTile *tile, const CpuTileScratch *s, int64_t r, int64_t j)
{
    return s->box + ((j & (s->depth - 1)) * tile->rows + r) * s->size_x * tile->lanes;
}

/* Where run r's scores at each shift along y are, and its corrections. */
static void point_runs(const CpuTile *tile, const CpuTilePlace *p, int64_t frame, int64_t r, CpuTileScratch *s)
{
    const float **runs = snls_tile_runs(tile, s, r);
    for (int64_t j = 0; j < s->size_y; j++) runs[j] = tile->c->m.ps == 1 ? box_row(tile, s, r, j) : s->sums + j * s->size_x * tile->lanes;
    runs[s->size_y] = runs[0];
    if (tile->planes.bend) point_bends(tile, p, frame, r, s);
}

/* The candidates of a row of the windows are a stretch of a row of the box, if there is nothing between pixels. */
static bool is_stretch(const CpuTile *tile, const CpuAxis *x) { return !x->between && tile->whole && tile->c->m.stride1 == 1 && x->low[0] == x->high[0]; }

/* Scores of the candidates of row a of a run's windows: interpolated along y for every shift along x that the run needs, then along x. */
static void mix_row(const CpuTile *tile, int64_t r, int64_t a, CpuTileScratch *s, float *out)
{
    const SnlsMatch *m = &tile->c->m;
    const SnlsTile *t = &tile->t;
    const CpuAxis *y = &s->y[r], *x = &s->x[r];
    const int64_t item = tile->whole ? 0 : a, shift = tile->whole ? a * (int64_t)m->stride1 : 0;
    const int64_t last = x->high[tile->items - 1] + s->first[m->side - 1] + 1, x0 = x->low[0], n = (last < s->size_x ? last + 1 : s->size_x) - x0;
    const int32_t *index = y->index + item * tile->lanes;
    const float *fraction = y->fraction + item * tile->lanes;
    const bool bend = tile->planes.bend, bent = bend && x->between;
    const float **runs = snls_tile_runs(tile, s, r) + shift;
    const float **right = snls_tile_bend_runs(tile, s, r) + shift, **lower = right + tile->box_max + 2, **across = lower + tile->box_max + 2;
    float *most = bend ? s->most + r * tile->lanes : NULL;
    const int low = y->low[item], high = y->high[item];
    if (is_stretch(tile, x)) {
        t->mix(out, runs, s->item + x0, m->side, low, high, index, fraction, bend && y->between ? lower : NULL, s->place + x0, most);
        return;
    }
    t->mix(s->mixed + x0 * tile->lanes, runs, s->item + x0, n, low, high, index, fraction, bend && y->between ? lower : NULL, s->place + x0, most);
    if (bent) t->mix(s->bends + x0 * tile->lanes, right, s->place + x0, n, low, high, index, fraction, y->between ? across : NULL, s->place + x0, NULL);
    t->mix_each(out, s->mixed, bent ? s->bends : NULL, m->side, s->first, x->low, x->high, x->index, x->fraction, tile->whole ? 0 : tile->lanes, most);
}

/* Key rows of a slot against the tile. */
typedef struct Rows {
    const CpuTilePlace *p;
    const CpuKeyFrame *keys;
    int64_t slot, at; /* at: place of the key row */
} Rows;

/* Shift along y, in the box, of key row y for the queries of row r. */
static int64_t shift_of(const CpuTile *tile, const CpuTilePlace *p, int64_t r, int64_t y, const CpuTileScratch *s)
{
    return y - (p->i0 + r) * tile->c->m.stride0 - s->origin_y;
}

/* Some lines that the tile below will need. */
static void fetch(CpuFetch *f, int64_t lines)
{
    if (f->rows <= 0) return;
    const int64_t n = f->lines - f->done < lines ? f->lines - f->done : lines;
    for (int64_t i = 0; i < n; i++) __builtin_prefetch(f->at + (f->done + i) * 64, 0, 2);
    f->done += n;
    if (f->done < f->lines) return;
    f->done = 0;
    f->at += f->step;
    f->rows--;
}

/* Key row y against the tile's rows [first, end), at every shift of the box along x: features from f on, so many. */
static void products_of_row(const CpuTile *tile, const Rows *w, int64_t y, int64_t first, int64_t end, int64_t f, int64_t features, CpuTileScratch *s)
{
    const SnlsMatch *m = &tile->c->m;
    const int64_t pitch = tile->keys.pitch, next = w->at + 1 < w->keys->rows ? 1 : 1 - w->keys->rows;
    const float *row = w->keys->data + w->at * tile->keys.row + f * pitch;
    float *line[SNLS_TILE_ROWS_MAX];
    SnlsTileDots dots = {.out_step = m->stride0 * tile->lanes, .query = s->query + first * tile->at.row + f * tile->at.step, .at = tile->at,
                         .key_pitch = pitch, .ahead = next * tile->keys.row, .features = features, .rows = (int)(end - first), .add = f > 0, .square = !m->prod};
    for (int64_t r = first; r < end; r++) line[r - first] = box_row(tile, s, r, shift_of(tile, w->p, r, y, s));
    for (int64_t phase = 0; phase < m->stride0; phase++) /* shifts whose keys lie side by side */
        for (int64_t d = phase; d < s->size_x; d += tile->t.columns * m->stride0) {
            const int64_t columns = m->stride0 == 1 ? s->size_x - d : (s->size_x - d + m->stride0 - 1) / m->stride0; /* divisions are slow */
            dots.columns = (int)(columns < tile->t.columns ? columns : tile->t.columns);
            dots.key = row + s->key_place[d];
            for (int64_t r = 0; r < end - first; r++) dots.out[r] = line[r] + d * tile->lanes;
            fetch(&s->fetch[0], features / 16);
            fetch(&s->fetch[1], features / 16);
            tile->t.dots(&dots);
        }
}

/* Rows of the box that row a of the run's windows needs end here. */
static int64_t last_shift(const CpuTile *tile, const CpuAxis *y, int64_t a)
{
    return (tile->whole ? y->high[0] + a * (int64_t)tile->c->m.stride1 : y->high[a]) + y->between;
}

/* Rows of windows whose scores are there as soon as the box is done up to shift j: into the lists at once, or into value. */
static void take_rows(const CpuTile *tile, int64_t r, int64_t slot, int64_t j, CpuTileScratch *s)
{
    const SnlsMatch *m = &tile->c->m;
    CpuTaken *taken = &s->taken[r];
    if (taken->cells) {
        snls_tile_cells_take(tile, r, j, s);
        return;
    }
    float *value = snls_tile_value(tile, s, r);
    for (; taken->rows < m->side && last_shift(tile, &s->y[r], taken->rows) <= j; taken->rows++) {
        mix_row(tile, r, taken->rows, s, value + (taken->entered ? 0 : taken->rows * m->side * tile->lanes));
        if (taken->entered) snls_tile_enter_row(tile, r, slot, taken->rows, value, s);
    }
}

/* The same where scores lie in the box as they are wanted. */
static void take_plain(const CpuTile *tile, int64_t r, int64_t slot, int64_t j, CpuTileScratch *s)
{
    const int64_t a = j - s->y[r].low[0];
    if (a < 0 || a >= tile->c->m.side) return;
    snls_tile_enter_row(tile, r, slot, a, box_row(tile, s, r, j) + s->x[r].low[0] * tile->lanes, s);
}

/* Rows of the box that have to be there at the same time. */
static int64_t box_depth(const CpuTile *tile, const CpuTilePlace *p, const CpuTileScratch *s)
{
    int64_t need = tile->steps ? s->size_y : 2, depth = 1;
    for (int64_t r = 0; r < p->rows && !tile->steps; r++)
        for (int64_t a = 0; s->together[r] && a < tile->items; a++) need = s->y[r].high[a] - s->y[r].low[a] + 2 > need ? s->y[r].high[a] - s->y[r].low[a] + 2 : need;
    if (tile->c->m.features > SNLS_TILE_FEATURES || need > s->size_y) need = s->size_y;
    while (depth < need) depth *= 2;
    return depth;
}

/* Of a place a hair below a pixel the fraction is 1, rounded to f32: the cells of such a lane begin at that pixel, one further than those of the others. */
static bool has_whole_fraction(const CpuTile *tile, const CpuAxis *axis)
{
    for (int64_t l = 0; l < tile->lanes; l++)
        if (axis->fraction[l] >= 1) return true;
    return false;
}

static void begin_rows(const CpuTile *tile, Rows *w, int64_t frame, CpuTileScratch *s)
{
    const SnlsMatch *m = &tile->c->m;
    s->depth = box_depth(tile, w->p, s);
    for (int64_t r = 0; r < w->p->rows; r++) {
        const CpuAxis *x = &s->x[r], *y = &s->y[r];
        CpuTaken *taken = &s->taken[r];
        taken->rows = s->together[r] ? 0 : m->side;
        taken->entered = s->together[r] && s->together[r] == snls_tile_lanes(snls_tile_active(tile, w->p, r)) && snls_tile_enters_rows(tile);
        taken->cells = taken->entered && tile->steps && !has_whole_fraction(tile, x) && !has_whole_fraction(tile, y);
        if (taken->cells) snls_tile_cells_start(tile, w->p, r, s);
        else if (tile->steps && s->together[r]) snls_tile_cells_spread(tile, r, s);
        taken->plain = taken->entered && !taken->cells && is_stretch(tile, x) && !y->between && y->low[0] == y->high[0];
        if (s->together[r] && !taken->plain && !taken->cells) point_runs(tile, w->p, frame, r, s);
    }
    for (int64_t d = 0; d < s->size_x; d++) {
        const int64_t x = w->p->j0 * m->stride0 + s->origin_x + d - w->keys->base;
        s->key_place[d] = m->stride0 == 1 ? x : x % m->stride0 * tile->keys.phase + x / m->stride0;
    }
}

/* Patches of one pixel: a tile is one run wide. Scores are taken from the box while they are in the first cache. With many features some of
 * them for all rows before the next, so that the queries stay there. */
static void pixel_scores(const CpuTile *tile, const CpuTilePlace *p, int64_t slot, CpuTileScratch *s)
{
    const SnlsMatch *m = &tile->c->m;
    const int64_t frame = snls_slot_frame(p->t, slot, m->wt, m->frames);
    Rows w = {.p = p, .keys = snls_tile_key_frame(tile, s, frame), .slot = slot};
    begin_rows(tile, &w, frame, s);
    const int64_t from = p->i0 * m->stride0 + s->origin_y, to = from + (p->rows - 1) * m->stride0 + s->size_y, top = from < 0 ? 0 : from;
    for (int64_t f = 0; f < m->features; f += SNLS_TILE_FEATURES) {
        const int64_t left = m->features - f, features = left < SNLS_TILE_FEATURES ? left : SNLS_TILE_FEATURES;
        w.at = top % w.keys->rows;
        for (int64_t y = top; y < to && y < m->height; y++, w.at = w.at + 1 < w.keys->rows ? w.at + 1 : 0) {
            int64_t first = 0, end = p->rows; /* rows whose box holds y */
            while (first < end && shift_of(tile, p, first, y, s) >= s->size_y) first++;
            while (end > first && shift_of(tile, p, end - 1, y, s) < 0) end--;
            if (end <= first) continue;
            products_of_row(tile, &w, y, first, end, f, features, s);
            for (int64_t r = first; features == left && r < end; r++)
                (s->taken[r].plain ? take_plain : take_rows)(tile, r, slot, shift_of(tile, p, r, y, s), s);
        }
    }
    for (int64_t r = 0; r < p->rows; r++) /* those next to rows beyond the frame, which they do not need */
        if (!s->taken[r].plain) take_rows(tile, r, slot, INT64_MAX, s);
}

void snls_tile_box_scores(const CpuTile *tile, const CpuTilePlace *p, int64_t slot, CpuTileScratch *s)
{
    const SnlsMatch *m = &tile->c->m;
    for (int64_t d = 0; d < s->size_x; d++) {
        const int64_t x = p->j0 * m->stride0 + s->origin_x + d + tile->planes.margin;
        s->place[d] = m->stride0 == 1 ? x : x % m->stride0 * tile->planes.phase + x / m->stride0;
        s->item[d] = d * tile->lanes;
    }
    if (m->ps == 1) pixel_scores(tile, p, slot, s);
    else snls_tile_patch_scores(tile, p, snls_slot_frame(p->t, slot, m->wt, m->frames), s);
}

void snls_tile_scores(const CpuTile *tile, const CpuTilePlace *p, int64_t r, int64_t slot, uint32_t alone, float *value, CpuTileScratch *s)
{
    const SnlsMatch *m = &tile->c->m;
    if (s->together[r] && m->ps > 1 && !snls_tile_patch_values(tile, r, value, s)) {
        point_runs(tile, p, snls_slot_frame(p->t, slot, m->wt, m->frames), r, s);
        for (int64_t a = 0; a < m->side; a++) mix_row(tile, r, a, s, value + a * m->side * tile->lanes);
    }
    for (uint32_t rest = alone; rest; rest &= rest - 1) snls_tile_score_alone(tile, p, r, __builtin_ctz(rest), slot, value, s);
}
