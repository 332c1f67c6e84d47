/* tile.c: drives the search on tiles: memory, frames into planes, slots, results. */
#include "cpu/tile.h"
#include "cpu/take.h"
#include "cpu/threads.h"
#include <math.h>
#include <string.h>

enum { SPAN_MAX = 64, PATCH_SPAN_MAX = 44, SIDE_MAX = 65, K_MAX = 64, SPREAD_MAX = 24, SCORES_MAX = 512, REACH_MAX = 16, PATCH_ROWS = 16, PATCH_PIXELS = 48, STRIP = 4 };

/* Planes have margins of some vectors: not for narrow frames or queries far apart, unless they are small anyway. */
static bool margins_pay(const SnlsMatch *m)
{
    const double width = (double)m->width + 3.0 * SNLS_TILE_LANES_MAX * (double)m->stride0 + 2.0 * (double)(m->ps * m->dilation);
    const double bytes = width * (double)m->height * (double)(m->features + 3) * (double)m->windows * sizeof(float);
    return width <= 3.0 * (double)m->width || bytes <= 4 << 20;
}

/* Patches share products only between queries of every pixel, and while they are not much larger than the tile. */
static bool patches_pay(const SnlsMatch *m) { return m->ps == 1 || (m->stride0 == 1 && m->ps <= REACH_MAX && (m->ps - 1) * m->dilation <= REACH_MAX); }

/* Threads meet after every frame: many tiny frames are better shared out query by query. Must not depend on the number of
 * threads, or results would. */
static bool frames_pay(const SnlsMatch *m)
{
    return m->rows * m->columns >= 1024 || m->batch * m->heads <= 256 / m->frames;
}

bool snls_cpu_tile_applies(const SnlsMatch *m)
{
    return !m->refine && !m->all && m->k <= K_MAX && m->anchor == SNLS_ANCHOR_NONE && m->exclude != SNLS_EXCLUDE_SELF &&
           m->side <= SIDE_MAX && m->stride1 * (double)(m->side - 1) <= (m->ps == 1 ? SPAN_MAX : PATCH_SPAN_MAX) && m->stride1 <= 2 && patches_pay(m) && margins_pay(m) && frames_pay(m) && m->height < 1 << 30 && m->width < 1 << 30 &&
           m->windows < 1 << 16 && m->windows * m->side * m->side < SNLS_TILE_NONE;
}

static CpuTile tile_of(SnlsContext *ctx, const CpuMatch *c)
{
    const SnlsMatch *m = &c->m;
    CpuTile tile = {.c = c, .whole = m->stride1 == floor(m->stride1), .cells = m->side * m->side};
    const bool fractions = !m->nearest && (m->flow_slots || !tile.whole);
    snls_tile_init(&tile.t, ctx->cpu_level);
    tile.lanes = tile.t.lanes;
    tile.rows = m->ps == 1 ? tile.t.rows : PATCH_ROWS;
    tile.items = tile.whole ? 1 : m->side;
    const int64_t span = (int64_t)ceil(m->stride1 * (double)(m->side - 1)) + 2, reach = (m->ps - 1) * m->dilation;
    tile.span = span;
    tile.box_max = span + SPREAD_MAX;
    /* A shift of the box costs a query two or three products of pixels (the tile's margin), a score on its own ps*ps. */
    tile.area_max = (m->ps == 1 ? 4 : m->ps == 2 ? 2 : m->ps * m->ps / 3 + 1) * span * span;
    tile.pixel_rows = tile.rows + reach;
    tile.pixel_columns = m->ps == 1 ? tile.lanes : PATCH_PIXELS; /* whole vectors, of which the patches' reach is no query */
    tile.columns = tile.pixel_columns - reach;
    tile.blocks = (tile.columns + tile.lanes - 1) / tile.lanes;
    tile.runs = tile.rows * tile.blocks;
    snls_tile_planes_layout(&tile.planes, m, tile.pixel_columns, fractions && !m->prod);
    tile.slots = 1;
    while (!m->each && snls_tile_careful(&tile) && tile.slots < m->windows && (tile.slots + 1) * tile.cells <= SCORES_MAX) tile.slots++;
    tile.keep = tile.t.keep(c->k);
    return tile;
}

static void take_axis(SnlsArena *arena, const CpuTile *tile, CpuTake take, CpuAxis *axis)
{
    axis->index = take(arena, tile->items * tile->lanes, sizeof *axis->index);
    axis->fraction = take(arena, tile->items * tile->lanes, sizeof *axis->fraction);
    /* mix_each walks the items of x with side entries, whole or not */
    axis->low = take(arena, tile->c->m.side, sizeof *axis->low);
    axis->high = take(arena, tile->c->m.side, sizeof *axis->high);
}

static void take_scratch(SnlsArena *arena, const CpuTile *tile, CpuTake take, CpuTileScratch *s)
{
    const SnlsMatch *m = &tile->c->m;
    const int64_t lanes = tile->lanes, queries = tile->runs * lanes, box = tile->box_max, area = box * box < tile->area_max ? box * box : tile->area_max;
    const int64_t pixels = tile->pixel_rows * tile->pixel_columns;
    s->query = take(arena, pixels * m->features, sizeof(float));
    const int64_t shifts = m->ps > 1 ? tile->t.patch_rows * tile->t.patch_columns : 0;
    s->product = take(arena, shifts * (tile->pixel_rows + 3) * lanes, sizeof(float)); /* sums look further than they need to */
    s->sums = take(arena, shifts * tile->rows * tile->pixel_columns + 2 * lanes, sizeof(float));
    s->box = take(arena, queries * area + 2 * tile->blocks * lanes, sizeof(float)); /* interpolation may look one shift past the end */
    s->mixed = take(arena, (box + 1) * lanes, sizeof(float));
    s->bends = take(arena, (box + 1) * lanes, sizeof(float));
    s->value = take(arena, tile->cells * lanes * (tile->slots > 1 ? tile->runs * tile->slots : 1), sizeof(float));
    s->most = take(arena, queries, sizeof(float));
    s->work = take(arena, (tile->keep + 1 + 2 * SNLS_TILE_LIST) * lanes, sizeof(float));
    s->below = take(arena, tile->slots * tile->cells * (lanes + 1), sizeof(uint32_t));
    s->top = take(arena, queries * tile->keep, sizeof(float));
    s->number = take(arena, queries * tile->keep, sizeof(float));
    s->window = take(arena, tile->runs * m->windows, sizeof(CpuTileWindow));
    s->together = take(arena, queries, sizeof(uint8_t));
    s->shared = take(arena, tile->runs, sizeof(int));
    s->item = take(arena, box + 1, sizeof(ptrdiff_t));
    s->place = take(arena, box + 1, sizeof(ptrdiff_t));
    s->runs = take(arena, box + 2, sizeof(float *));
    s->bend_runs = take(arena, 3 * (box + 2), sizeof(float *));
    s->key_rows = take(arena, m->ps > 1 ? box + tile->pixel_rows : 0, sizeof(float *));
    s->cell = take(arena, m->windows * tile->cells, sizeof(CpuTileCell));
    s->first = take(arena, m->side, sizeof(int));
    s->grid = take(arena, tile->span * tile->span, sizeof(float));
    s->y = take(arena, tile->runs, sizeof(CpuAxis));
    s->x = take(arena, tile->runs, sizeof(CpuAxis));
    for (int64_t r = 0; r < tile->runs; r++) {
        CpuAxis none;
        take_axis(arena, tile, take, s->y ? &s->y[r] : &none);
        take_axis(arena, tile, take, s->x ? &s->x[r] : &none);
    }
}

static void take_planes(SnlsArena *arena, CpuTile *tile, CpuTake take)
{
    const SnlsMatch *m = &tile->c->m;
    CpuPlanes *p = &tile->planes;
    p->data = take(arena, p->frame_size * m->windows, sizeof(float));
    p->raw = take(arena, p->bend && m->ps > 1 ? 3 * (m->height + p->before + p->after) * (m->width + p->before + p->after) : 0, sizeof(float));
    p->frame = take(arena, m->windows, sizeof(int64_t));
    p->peak = take(arena, m->windows * m->height, sizeof(float));
}

void snls_cpu_tile_plan(SnlsContext *ctx, const CpuMatch *c)
{
    CpuTile tile = tile_of(ctx, c);
    CpuTileScratch none;
    snls_arena_plan(&ctx->arena, ctx->threads, sizeof none);
    take_planes(&ctx->arena, &tile, snls_take_plan);
    for (int i = 0; i < ctx->threads; i++) take_scratch(&ctx->arena, &tile, snls_take_plan, &none);
}

static void run_tile(const CpuTile *tile, const CpuTilePlace *p, CpuTileScratch *s)
{
    const SnlsMatch *m = &tile->c->m;
    snls_tile_load_query(tile, p, s->query);
    s->peak = tile->t.peak(s->query, (p->rows + tile->planes.before + tile->planes.after) * m->features * tile->pixel_columns);
    snls_tile_begin_lists(tile, s);
    for (int64_t slot = 0, n = 0; slot < m->windows; slot++) { /* n: slots whose scores wait */
        const bool skipped = slot == 0 && m->exclude == SNLS_EXCLUDE_FRAME, last = slot == m->windows - 1 || m->each;
        if (!skipped && snls_tile_windows(tile, p, slot, s)) snls_tile_box_scores(tile, p, slot, s);
        n += !skipped;
        for (int64_t r = 0; n && r < p->rows * tile->blocks; r++) {
            float *value = s->value + (tile->slots > 1 ? r * tile->slots * tile->cells * tile->lanes : 0);
            if (snls_tile_active(tile, p, r) <= 0) continue;
            if (!skipped) snls_tile_scores(tile, p, r, slot, value + (n - 1) * tile->cells * tile->lanes, s);
            if (last || n == tile->slots) snls_tile_sort_out(tile, p, r, value, n, slot - n + 1, s); /* mostly at once: scores are in the first cache */
        }
        if (last || n == tile->slots) n = 0;
        if (!m->each) continue;
        snls_tile_write_lists(tile, p, slot * m->k, s);
        snls_tile_begin_lists(tile, s);
    }
    if (!m->each) snls_tile_write_lists(tile, p, 0, s);
}

static void run_frame(SnlsContext *ctx, const CpuTile *tile, CpuTilePlace at, CpuTileScratch *scratch)
{
    const SnlsMatch *m = &tile->c->m;
    const int64_t width = tile->columns, down = (m->rows + tile->rows - 1) / tile->rows, across = (m->columns + width - 1) / width;
    for (int64_t slot = 0; slot < m->windows; slot++) snls_tile_planes_load(ctx, tile, &at, snls_slot_frame(at.t, slot, m->wt, m->frames));
    /* Down a strip of tiles, which share most of their key rows; a strip is wide enough to use the cache lines it fetches. */
    const int64_t strip = m->ps == 1 ? STRIP : 1, strips = (across + strip - 1) / strip;
#pragma omp parallel for num_threads(ctx->threads) schedule(dynamic, 8 * strip)
    for (int64_t u = 0; u < strips * down * strip; u++) {
        CpuTilePlace p = at;
        const int64_t column = u / (down * strip) * strip + u % strip;
        if (column >= across) continue;
        p.i0 = u / strip % down * tile->rows;
        p.j0 = column * width;
        p.rows = m->rows - p.i0 < tile->rows ? m->rows - p.i0 : tile->rows;
        p.columns = m->columns - p.j0 < width ? m->columns - p.j0 : width;
        run_tile(tile, &p, &scratch[snls_cpu_thread()]);
    }
}

/* Interpolation looks at corrections beyond the frame on behalf of lanes that do not need them. They count for `most`, so
 * they must not be what happens to lie there. */
static void clear_bends(const CpuTile *tile)
{
    const CpuPlanes *p = &tile->planes;
    const int64_t rows = tile->c->m.windows * tile->c->m.height;
    for (int64_t r = 0; p->bend && r < rows; r++) memset(p->data + r * p->row + p->features * p->pitch, 0, (size_t)(3 * p->pitch) * sizeof *p->data);
}

void snls_cpu_tile_run(SnlsContext *ctx, const CpuMatch *c, CpuMatchScratch *single)
{
    const SnlsMatch *m = &c->m;
    CpuTile tile = tile_of(ctx, c);
    CpuTilePlace at = {0};
    CpuTileScratch *scratch = snls_arena_claim(&ctx->arena, ctx->threads, sizeof *scratch);
    take_planes(&ctx->arena, &tile, snls_arena_claim);
    for (int i = 0; i < ctx->threads; i++) {
        take_scratch(&ctx->arena, &tile, snls_arena_claim, &scratch[i]);
        scratch[i].single = &single[i];
        for (int64_t a = 0; a < m->side; a++) scratch[i].first[a] = tile.whole ? (int)(a * (int64_t)m->stride1) : 0;
        for (int64_t j = 0; j < m->windows * tile.cells; j++)
            scratch[i].cell[j] = (CpuTileCell){(uint16_t)(j / tile.cells), (uint8_t)(j % tile.cells / m->side), (uint8_t)(j % m->side)};
    }
    clear_bends(&tile);
    for (at.b = 0; at.b < m->batch; at.b++)
        for (at.head = 0; at.head < m->heads; at.head++) {
            for (int64_t i = 0; i < m->windows; i++) tile.planes.frame[i] = -1;
            for (at.t = 0; at.t < m->frames; at.t++) run_frame(ctx, &tile, at, scratch);
        }
}
