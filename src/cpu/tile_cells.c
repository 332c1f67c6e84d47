/* tile_cells.c: single pixels by prod, several candidates to a pixel. What lies between a whole pixel and the next along both axes is a cell. Only the least of its candidates goes
 * into a list of cells: the best k candidates lie in the k cells whose least are the least. When some slots are done, the candidates of those are compared, from the scores at whole pixels,
 * which are kept so long. Where a score is no number, those of all cells are. */
#include "cpu/tile.h"
#include <math.h>
#include <string.h>

int snls_tile_cells_steps(const CpuMatch *c)
{
    const SnlsMatch *m = &c->m;
    const int steps = m->stride1 == 0.5 ? 2 : m->stride1 == 0.25 ? 4 : 0;
    return steps && m->ps == 1 && m->prod && !m->nearest && c->k <= SNLS_TILE_SHORT && m->side > steps && (m->side - 1) % steps == 0 ? steps : 0;
}

/* With room for a row after the last and a column after the last, which are read in vain. */
int64_t snls_tile_cells_box(const CpuTile *tile, int64_t area) { return tile->runs * tile->lanes * (area + tile->box_max) + 2 * tile->lanes; }

int64_t snls_tile_cells_places(const CpuTile *tile) { return tile->steps ? tile->held * (tile->beyond + 1) * (tile->beyond + 1) : 0; }

static int64_t cells_along(const CpuTile *tile) { return tile->beyond + 1; }

static SnlsTileCells *cells_of(const CpuTile *tile, int64_t held, int64_t r, const CpuTileScratch *s) { return &s->cells[held * tile->runs + r]; }

static void clear(const CpuTile *tile, int64_t r, const CpuTileScratch *s)
{
    SnlsTileCellLists *lists = &s->cell_lists[r];
    for (int64_t i = 0; i < tile->c->k * tile->lanes; i++) lists->top[i] = INFINITY, lists->number[i] = 0; /* some cell: lanes that are not there may never get another */
    for (int64_t l = 0; l < tile->lanes; l++) lists->left_out[l] = INFINITY, lists->sum[l] = 0;
}

void snls_tile_cells_begin(const CpuTile *tile, CpuTileScratch *s)
{
    s->holding = 0;
    for (int64_t r = 0; r < tile->runs; r++) clear(tile, r, s);
}

void snls_tile_cells_hold(const CpuTile *tile, CpuTileScratch *s)
{
    const int64_t box = tile->box_max, area = box * box < tile->area_max ? box * box : tile->area_max;
    s->box = s->boxes + s->holding * snls_tile_cells_box(tile, area);
    for (int64_t r = 0; r < tile->runs; r++) cells_of(tile, s->holding, r, s)->used = 0;
    s->holding++;
}

static void set_axis(const CpuTile *tile, const CpuAxis *from, SnlsTileCellAxis *to)
{
    for (int64_t l = 0; l < tile->lanes; l++) {
        const float skip = (float)(int)(from->fraction[l] * (float)tile->steps);
        to->first[l] = from->fraction[l];
        to->skip[l] = skip;
        to->phase[l] = from->fraction[l] - skip / (float)tile->steps; /* exact */
    }
}

/* Rows of the box beyond the frame have weight 0, but what is there must be a number. */
static void clear_beyond(const CpuTile *tile, const CpuTilePlace *p, int64_t r, float *box, CpuTileScratch *s)
{
    const int64_t first = tile->c->m.height - (p->i0 + r) * tile->c->m.stride0 - s->origin_y;
    for (int64_t j = first; j < s->size_y; j++)
        if (j >= 0) memset(box + j * tile->rows * s->size_x * tile->lanes, 0, (size_t)(s->size_x * tile->lanes) * sizeof(float));
}

void snls_tile_cells_start(const CpuTile *tile, const CpuTilePlace *p, int64_t r, CpuTileScratch *s)
{
    SnlsTileCells *w = cells_of(tile, s->holding - 1, r, s);
    const CpuAxis *y = &s->y[r], *x = &s->x[r];
    float *box = s->box + r * s->size_x * tile->lanes;
    set_axis(tile, y, &w->y);
    set_axis(tile, x, &w->x);
    memcpy(w->index_y, y->index, (size_t)tile->lanes * sizeof *w->index_y);
    memcpy(w->index_x, x->index, (size_t)tile->lanes * sizeof *w->index_x);
    w->box = box;
    w->row = tile->rows * s->size_x * tile->lanes;
    w->low_y = y->low[0], w->high_y = y->high[0], w->low_x = x->low[0], w->high_x = x->high[0];
    w->between_y = y->between, w->between_x = x->between;
    w->used = 1;
    clear_beyond(tile, p, r, box, s);
}

/* Row of whole pixels number `row`, where lanes lie side by side: in the box, if they do there. */
static const float *straight_row(const CpuTile *tile, int64_t r, const SnlsTileCells *w, int64_t row, CpuTileScratch *s, bool make)
{
    const int64_t n = cells_along(tile);
    float *out = s->straight + (2 * r + row % 2) * (n + 1) * tile->lanes;
    if (w->low_y == w->high_y && w->low_x == w->high_x) return w->box + (w->low_y + row) * w->row + w->low_x * tile->lanes;
    if (make) tile->t.straight(out, w, row, n, s->mixed);
    return out;
}

void snls_tile_cells_take(const CpuTile *tile, int64_t r, int64_t j, CpuTileScratch *s)
{
    const SnlsTileCells *w = cells_of(tile, s->holding - 1, r, s);
    CpuTaken *taken = &s->taken[r];
    SnlsTileCellRow row = {.cells = cells_along(tile), .steps = tile->steps};
    const int64_t rows = row.cells + (w->between_y ? 1 : 0);
    for (; taken->rows <= row.cells && (taken->rows >= rows || w->high_y + taken->rows <= j); taken->rows++) {
        const bool there = taken->rows < rows; /* else windows end at the row above, which stands in for it */
        row.above = straight_row(tile, r, w, taken->rows - 1, s, false);
        row.below = there ? straight_row(tile, r, w, taken->rows, s, true) : row.above;
        row.row = taken->rows - 1;
        row.first = (float)(((s->holding - 1) * row.cells + row.row) * row.cells);
        if (taken->rows > 0) tile->t.cells(&s->cell_lists[r], w, &row, tile->c->k);
    }
}

typedef enum Doubt { NONE, TIES, NO_NUMBERS } Doubt;

/* Whether some lane's list of cells does not tell which ones hold the best candidates. */
static Doubt doubt_of(const CpuTile *tile, int64_t active, const SnlsTileCellLists *lists)
{
    const float *last = lists->top + (tile->c->k - 1) * tile->lanes;
    int ties = 0, odd = 0;
    for (int64_t l = 0; l < active; l++) {
        ties |= !(last[l] < lists->left_out[l]);
        odd |= lists->sum[l] != lists->sum[l];
    }
    return odd ? NO_NUMBERS : ties ? TIES : NONE;
}

/* Candidates of the kept cells. Where a cell that is left out ties with the last kept, so may one with a lower number: not in a row of cells further down, but in the same one,
 * of which then all cells count. */
static void enter_kept(const CpuTile *tile, int64_t r, const SnlsTileExpand *in, bool ties, CpuTileScratch *s)
{
    const float *number = s->cell_lists[r].number, *final = number + (tile->c->k - 1) * tile->lanes;
    float *top = snls_tile_top(tile, s, r), *numbers = snls_tile_number(tile, s, r);
    uint32_t place[SNLS_TILE_LANES_MAX], last[SNLS_TILE_LANES_MAX];
    for (int64_t l = 0; l < tile->lanes; l++) last[l] = s->cell_place[(int32_t)final[l]];
    for (int64_t i = 0; i < tile->c->k; i++) {
        uint32_t elsewhere = 0;
        for (int64_t l = 0; l < tile->lanes; l++) place[l] = s->cell_place[(int32_t)number[i * tile->lanes + l]];
        for (int64_t l = 0; ties && l < tile->lanes; l++) elsewhere |= (uint32_t)(place[l] >> 10 != last[l] >> 10) << l;
        tile->t.expand(top, numbers, tile->c->k, place, ties ? elsewhere : UINT32_MAX, in);
    }
    for (uint32_t c = 0; ties && c < (uint32_t)cells_along(tile); c++) {
        for (int64_t l = 0; l < tile->lanes; l++) place[l] = (last[l] & ~1023u) | c;
        tile->t.expand(top, numbers, tile->c->k, place, UINT32_MAX, in);
    }
}

static void enter_all(const CpuTile *tile, int64_t r, const SnlsTileExpand *in, CpuTileScratch *s)
{
    const int64_t n = cells_along(tile) * cells_along(tile);
    uint32_t place[SNLS_TILE_LANES_MAX];
    for (int64_t i = 0; i < s->holding * n; i++) {
        if (!cells_of(tile, i / n, r, s)->used) continue;
        for (int64_t l = 0; l < tile->lanes; l++) place[l] = s->cell_place[i];
        tile->t.expand(snls_tile_top(tile, s, r), snls_tile_number(tile, s, r), tile->c->k, place, UINT32_MAX, in);
    }
}

void snls_tile_cells_enter(const CpuTile *tile, const CpuTilePlace *p, int64_t slot, CpuTileScratch *s)
{
    for (int64_t r = 0; r < p->rows; r++) {
        const SnlsTileExpand in = {.window = cells_of(tile, 0, r, s), .apart = tile->runs, .slot = (float)(slot - s->holding + 1), .slots = (int)s->holding, .steps = tile->steps, .side = (int)tile->c->m.side};
        bool used = false;
        for (int64_t i = 0; i < s->holding; i++) used |= cells_of(tile, i, r, s)->used;
        if (!used) continue;
        const Doubt doubt = doubt_of(tile, snls_tile_active(tile, p, r), &s->cell_lists[r]);
        if (doubt == NO_NUMBERS) enter_all(tile, r, &in, s);
        else enter_kept(tile, r, &in, doubt == TIES, s);
        clear(tile, r, s);
    }
    s->holding = 0;
}

void snls_tile_cells_spread(const CpuTile *tile, int64_t r, CpuTileScratch *s)
{
    CpuAxis *axes[2] = {&s->y[r], &s->x[r]};
    for (int n = 0; n < 2; n++) {
        CpuAxis *axis = axes[n];
        SnlsTileCellAxis cells;
        set_axis(tile, axis, &cells);
        for (int64_t a = tile->items - 1; a >= 0; a--) {
            axis->low[a] = INT32_MAX, axis->high[a] = INT32_MIN;
            for (int64_t l = 0; l < tile->lanes; l++) {
                const int step = (int)cells.skip[l] + (int)a, index = axis->index[l] + step / tile->steps;
                axis->index[a * tile->lanes + l] = index;
                axis->fraction[a * tile->lanes + l] = cells.phase[l] + (float)(step % tile->steps) / (float)tile->steps;
                if (index < axis->low[a]) axis->low[a] = index;
                if (index > axis->high[a]) axis->high[a] = index;
            }
        }
        axis->between = true;
    }
}
