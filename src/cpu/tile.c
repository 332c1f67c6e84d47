/* tile.c: drives the search on tiles: memory, frames into planes, slots, results. */
#include "cpu/tile.h"
#include "cpu/threads.h"
#include <math.h>

enum { SPAN_MAX = 64, PATCH_SPAN_MAX = 44, SIDE_MAX = 65, K_MAX = 64, SPREAD_MAX = 24, SPREAD = 4, SCORES_MAX = 1024, HELD = 3, REACH_MAX = SNLS_TILE_REACH_MAX, PATCH_ROWS = 16, STACKED_ROWS = 8, STACK_MAX = 8, STACKS = 4, TURNS = 8, PATCH_PIXELS = 48, PLANES_MORE = 16 << 20 };

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
    return !m->refine && !m->all && m->k <= K_MAX && m->anchor == SNLS_ANCHOR_NONE && (m->exclude != SNLS_EXCLUDE_SELF || m->k < K_MAX) &&
           m->side <= SIDE_MAX && m->stride1 * (double)(m->side - 1) <= (m->ps == 1 ? SPAN_MAX : PATCH_SPAN_MAX) && m->stride1 <= 2 && patches_pay(m) && margins_pay(m) && frames_pay(m) && m->height < 1 << 30 && m->width < 1 << 30 &&
           m->windows < SNLS_LIST_SLOTS && m->windows * m->side * m->side < SNLS_TILE_NONE;
}

/* The sieve has the better of it for l2 between pixels, and where several candidates of a pixel are not looked at by cells. */
bool snls_cpu_tile_instead(const CpuMatch *c)
{
    const SnlsMatch *m = &c->m;
    if (!snls_cpu_tile_applies(m)) return false;
    if (m->stride1 != 1) return snls_tile_cells_steps(c) > 0;
    return m->prod || m->nearest || !m->flow_slots || c->whole_flow;
}

/* Frames that could be searched together: more planes are held than those of a window, a few megabytes at most. */
static int64_t frames_at_most(const CpuTile *tile)
{
    const int64_t bytes = tile->planes.frame_size * (int64_t)sizeof(float), frames = tile->c->m.frames; /* none: single pixels without corrections */
    return bytes && PLANES_MORE / bytes + 1 < frames ? PLANES_MORE / bytes + 1 : frames;
}

/* Tiles of patches above each other, of the same number or nearly in each stack, two at least; fewer where frames searched together would have less than a few stacks for each thread. Results depend on
 * what a tile is, but not on how many are stacked. */
static void set_stack(CpuTile *tile, int threads)
{
    const SnlsMatch *m = &tile->c->m;
    const int64_t tiles = (m->rows + STACKED_ROWS - 1) / STACKED_ROWS, strips = (m->columns + tile->columns - 1) / tile->columns;
    int64_t stacks = (tiles + STACK_MAX - 1) / STACK_MAX;
    tile->stack = 1;
    if (m->ps == 1 || tile->slots > 1 || tiles < 2 || !snls_tile_carries(tile, STACKED_ROWS)) return;
    while (threads > 1 && stacks * strips * frames_at_most(tile) < STACKS * threads && stacks < tiles / 2) stacks++;
    tile->stack = (tiles + stacks - 1) / stacks;
    tile->rows = STACKED_ROWS;
}

static int64_t stacks_down(const CpuTile *tile) { return (tile->c->m.rows + tile->rows * tile->stack - 1) / (tile->rows * tile->stack); }
static int64_t stacks_of(const CpuTile *tile) { return stacks_down(tile) * ((tile->c->m.columns + tile->columns - 1) / tile->columns); }

/* Single pixels: the parts of a strip that a thread walks down, and all of those of some frames that take turns. */
static int64_t chunks_down(const CpuTile *tile) { return (tile->c->m.rows + tile->keys.chunk * tile->rows - 1) / (tile->keys.chunk * tile->rows); }
static int64_t chunks_of(const CpuTile *tile) { return chunks_down(tile) * ((tile->c->m.columns + tile->keys.strip - 1) / tile->keys.strip); }

/* Keys by rows: some frames one after the other, of those that are searched together, or fewer where that makes too few units for the threads. */
static void set_turns(CpuTile *tile, int threads, int64_t most)
{
    if (tile->together < TURNS) tile->together = most < TURNS ? most : TURNS;
    tile->turns = tile->together < TURNS ? tile->together : TURNS;
    while (threads > 1 && tile->turns > 1 && (tile->together + tile->turns - 1) / tile->turns * stacks_of(tile) < 2 * STACKS * threads) tile->turns = (tile->turns + 1) / 2;
}

/* As few frames as have a few units for each thread; of those that take turns all or none, so that a chunk is the same for any number of threads. */
static void set_together(CpuTile *tile, int threads)
{
    const SnlsMatch *m = &tile->c->m;
    const int64_t turns = m->ps == 1 ? tile->keys.together : 1, units = m->ps == 1 ? chunks_of(tile) : stacks_of(tile), most = frames_at_most(tile);
    const int64_t wanted = threads == 1 || units == 0 ? turns : (STACKS * threads + units - 1) / units * turns;
    tile->together = wanted <= most || most == m->frames ? wanted : most < turns ? turns : most / turns * turns;
    tile->turns = 1;
    if (tile->by_rows) set_turns(tile, threads, most);
    const int64_t held = m->windows + tile->together - 1;
    tile->planes.frames = held < m->frames ? held : m->frames;
}

/* norms: whether they are in use; there is room for them wherever they might be, so that what is planned does not depend on what a video holds. */
static CpuTile tile_of(SnlsContext *ctx, const CpuMatch *c, bool norms)
{
    const SnlsMatch *m = &c->m;
    CpuTile tile = {.c = c, .whole = m->stride1 == floor(m->stride1), .cells = m->side * m->side, .norms = norms, .layers = m->features + snls_tile_norms_apply(m)};
    const bool fractions = !m->nearest && ((m->flow_slots && !c->whole_flow) || !tile.whole);
    snls_tile_init(&tile.t, ctx->cpu_level);
    tile.lanes = tile.t.lanes;
    tile.rows = m->ps == 1 ? tile.t.rows : PATCH_ROWS;
    tile.items = tile.whole ? 1 : m->side;
    tile.steps = snls_tile_cells_steps(c);
    tile.places = tile.steps ? 1 : tile.items;
    tile.beyond = tile.steps ? (m->side - 1) / tile.steps : tile.whole ? (int64_t)m->stride1 * (m->side - 1) : 0;
    tile.held = m->each || m->windows < HELD ? (m->each ? 1 : m->windows) : HELD;
    const int64_t span = (int64_t)ceil(m->stride1 * (double)(m->side - 1)) + 2, reach = (m->ps - 1) * m->dilation;
    tile.span = span;
    tile.box_max = span + SPREAD_MAX;
    /* A shift of the box costs a query two or three products of pixels (the tile's margin), a score on its own ps*ps. */
    tile.area_max = (m->ps == 1 ? 4 : m->ps == 2 ? 2 : m->ps * m->ps / 3 + 1) * span * span;
    tile.spread = SPREAD;
    if (m->ps > 1 && tile.area_max < (span + SPREAD) * (span + SPREAD)) tile.area_max = (span + SPREAD) * (span + SPREAD);
    tile.pixel_columns = m->ps == 1 ? tile.lanes : PATCH_PIXELS; /* whole vectors, of which the patches' reach is no query */
    tile.columns = tile.pixel_columns - reach;
    tile.blocks = (tile.columns + tile.lanes - 1) / tile.lanes;
    tile.by_rows = snls_tile_patch_keys_hold_rows(&tile, m->rows < STACKED_ROWS * STACK_MAX ? m->rows + STACKED_ROWS : STACKED_ROWS * STACK_MAX, ctx->threads);
    snls_tile_planes_layout(&tile.planes, m, tile.pixel_columns, m->ps == 1 || tile.by_rows ? 0 : tile.layers, fractions && !m->prod);
    if (m->ps == 1) snls_tile_keys_layout(&tile);
    tile.slots = 1;
    while (!m->each && snls_tile_careful(&tile) && tile.slots < m->windows && (tile.slots + 1) * tile.cells <= SCORES_MAX) tile.slots++;
    set_stack(&tile, ctx->threads);
    if (tile.by_rows) snls_tile_patch_keys_layout(&tile);
    set_together(&tile, ctx->threads);
    tile.runs = tile.rows * tile.blocks;
    tile.pixel_rows = tile.rows * tile.stack + reach;
    tile.at = snls_tile_queries_at(&tile);
    tile.keep = tile.t.keep(c->k);
    for (int64_t l = 0; l < tile.lanes; l++) {
        tile.dist_at[l] = l * m->dist.stride[4];
        tile.offset_at[l] = l * m->offset.stride[4];
        tile.index_at[l] = m->index.data ? l * m->index.stride[4] : 0;
    }
    return tile;
}

static void take_axis(SnlsArena *arena, const CpuTile *tile, CpuTake take, CpuAxis *axis)
{
    axis->index = take(arena, tile->items * tile->lanes, sizeof *axis->index);
    axis->fraction = take(arena, tile->items * tile->lanes, sizeof *axis->fraction);
    axis->low = take(arena, tile->items, sizeof *axis->low);
    axis->high = take(arena, tile->items, sizeof *axis->high);
}

static void take_windows(SnlsArena *arena, const CpuTile *tile, CpuTake take, CpuTileWindows *w)
{
    const int64_t runs = tile->stack * tile->c->m.windows * tile->runs, lanes = runs * tile->lanes;
    w->y = take(arena, lanes, sizeof(double));
    w->x = take(arena, lanes, sizeof(double));
    w->origin_y = take(arena, lanes, sizeof(int32_t));
    w->origin_x = take(arena, lanes, sizeof(int32_t));
    w->valid = take(arena, runs, sizeof(uint32_t));
}

static void take_scratch(SnlsArena *arena, const CpuTile *tile, CpuTake take, CpuTileScratch *s)
{
    const SnlsMatch *m = &tile->c->m;
    const int64_t lanes = tile->lanes, queries = tile->runs * lanes, box = tile->box_max, area = box * box < tile->area_max ? box * box : tile->area_max;
    const int64_t pixels = tile->pixel_rows * tile->pixel_columns;
    s->stacked.query = take(arena, pixels * tile->layers, sizeof(float));
    s->row_peak = take(arena, tile->pixel_rows, sizeof(float));
    s->keys = take(arena, tile->keys.frames, sizeof(CpuKeyFrame));
    for (int64_t i = 0; i < tile->keys.frames; i++) {
        CpuKeyFrame none, *k = s->keys ? &s->keys[i] : &none;
        k->held = take(arena, tile->keys.rows, sizeof(CpuKeyRow));
        k->data = take(arena, tile->keys.rows * tile->keys.row, sizeof(float));
    }
    const bool patches = m->ps > 1;
    s->product = take(arena, patches ? snls_tile_patch_ring(tile) : 0, sizeof(float));
    s->carried.product = take(arena, snls_tile_carried(tile), sizeof(float));
    s->sums = take(arena, patches ? (area + box + 2) * lanes : 0, sizeof(float)); /* interpolation may look one shift past the end */
    /* single pixels: a power of two of rows, one shift past the end likewise; patches: sums across look further than they need to */
    s->boxes = s->box = take(arena, tile->steps ? tile->held * snls_tile_cells_box(tile, area) : patches ? tile->rows * tile->pixel_columns * area + 2 * lanes : queries * 2 * area + 2 * lanes, sizeof(float));
    s->mixed = take(arena, 2 * (box + 1) * lanes, sizeof(float));
    s->bends = take(arena, (box + 1) * lanes, sizeof(float));
    s->value = take(arena, tile->cells * lanes * (m->ps == 1 || tile->slots > 1 ? tile->runs * tile->slots : 1), sizeof(float));
    s->stacked.most = take(arena, tile->stack * queries, sizeof(float));
    s->stacked.norm = take(arena, tile->layers > m->features ? tile->stack * queries : 0, sizeof(float));
    s->work = take(arena, (tile->keep + 1 + 2 * SNLS_TILE_LIST) * lanes, sizeof(float));
    s->below = take(arena, tile->slots * tile->cells * (lanes + 1), sizeof(uint32_t));
    s->frame = take(arena, m->ps == 1 && tile->planes.bend ? m->windows : 0, sizeof(float *));
    s->stacked.top = take(arena, tile->stack * queries * tile->keep, sizeof(float));
    s->stacked.number = take(arena, tile->stack * queries * tile->keep, sizeof(float));
    s->cells = take(arena, tile->steps ? tile->held * tile->runs : 0, sizeof(SnlsTileCells));
    s->cell_lists = take(arena, tile->steps ? tile->runs : 0, sizeof(SnlsTileCellLists));
    s->cell_place = take(arena, snls_tile_cells_places(tile), sizeof(uint32_t));
    s->straight = take(arena, tile->steps ? tile->runs * 2 * (tile->beyond + 2) * lanes : 0, sizeof(float));
    take_windows(arena, tile, take, &s->stacked.window);
    s->together = take(arena, tile->runs, sizeof(uint32_t));
    s->item = take(arena, box + 1, sizeof(ptrdiff_t));
    s->place = take(arena, box + 1, sizeof(ptrdiff_t));
    s->key_place = take(arena, m->ps == 1 ? box + 1 : 0, sizeof(ptrdiff_t));
    const int64_t tables = m->ps == 1 ? tile->runs : 1;
    s->runs = take(arena, tables * (box + 2), sizeof(float *));
    s->bend_runs = take(arena, tables * 3 * (box + 2), sizeof(float *));
    s->taken = take(arena, tile->runs, sizeof(CpuTaken));
    s->key_rows = take(arena, m->ps > 1 ? box + tile->rows + tile->planes.before + tile->planes.after : 0, sizeof(float *));
    s->box_of = take(arena, m->ps > 1 ? SNLS_TILE_BOXES : 0, sizeof(CpuBox));
    s->box_lanes = take(arena, m->ps > 1 ? SNLS_TILE_BOXES * tile->runs : 0, sizeof(uint32_t));
    s->begun = take(arena, m->ps > 1 ? tile->runs : 0, sizeof(uint32_t));
    s->spot = take(arena, m->ps > 1 ? queries : 0, sizeof(CpuSpot));
    s->part = take(arena, m->ps > 1 && tile->slots > 1 ? tile->cells * lanes : 0, sizeof(float));
    s->cell = take(arena, m->windows * tile->cells, sizeof(uint32_t));
    s->dt = take(arena, m->windows, sizeof(float));
    s->first = take(arena, m->side, sizeof(int));
    s->grid = take(arena, tile->span * tile->span, sizeof(float));
    s->y = take(arena, tile->runs, sizeof(CpuAxis));
    s->x = take(arena, tile->runs, sizeof(CpuAxis));
    for (int64_t r = 0; r < tile->runs; r++) {
        CpuAxis none;
        take_axis(arena, tile, take, s->y ? &s->y[r] : &none);
        take_axis(arena, tile, take, s->x ? &s->x[r] : &none);
    }
    s->kept = take(arena, m->ps > 1 ? 2 * tile->runs : 0, sizeof(CpuAxis));
    for (int64_t i = 0; m->ps > 1 && i < 2 * tile->runs; i++) {
        CpuAxis none;
        take_axis(arena, tile, take, s->kept ? &s->kept[i] : &none);
    }
}

static void take_planes(SnlsArena *arena, CpuTile *tile, CpuTake take)
{
    const SnlsMatch *m = &tile->c->m;
    CpuPlanes *p = &tile->planes;
    p->data = take(arena, p->frame_size * p->frames, sizeof(float));
    p->raw = take(arena, p->bend && m->ps > 1 ? 3 * (m->height + p->before + p->after) * (m->width + p->before + p->after) : 0, sizeof(float));
    p->frame = take(arena, p->frames, sizeof(int64_t));
    p->peak = take(arena, p->frames * m->height, sizeof(float));
}

void snls_cpu_tile_plan(SnlsContext *ctx, const CpuMatch *c)
{
    CpuTile tile = tile_of(ctx, c, false);
    CpuTileScratch none;
    snls_arena_plan(&ctx->arena, ctx->threads, sizeof none);
    take_planes(&ctx->arena, &tile, snls_take_plan);
    for (int i = 0; i < ctx->threads; i++) take_scratch(&ctx->arena, &tile, snls_take_plan, &none);
}

/* Scores of a run in a slot, and of those that wait for it, into the lists. */
static void sort_out(const CpuTile *tile, const CpuTilePlace *p, int64_t r, int64_t slot, CpuTileScratch *s)
{
    const float *value = snls_tile_value(tile, s, r) - s->waiting * tile->cells * tile->lanes;
    snls_tile_sort_out(tile, p, r, value, s->waiting + 1, slot - s->waiting, s);
}

/* Patches of one pixel: mostly into the lists at once, as long as they are in the first cache. */
static void run_pixels(const CpuTile *tile, const CpuTilePlace *p, int64_t slot, bool last, CpuTileScratch *s)
{
    for (int64_t r = 0; r < tile->runs; r++) s->taken[r].entered = false;
    if (snls_tile_windows(tile, p, slot, s)) snls_tile_box_scores(tile, p, slot, s);
    for (int64_t r = 0; r < p->rows * tile->blocks; r++) {
        const int64_t active = snls_tile_active(tile, p, r);
        if (active <= 0 || s->taken[r].entered) continue;
        snls_tile_scores(tile, p, r, slot, snls_tile_lanes(active) & ~s->together[r], snls_tile_value(tile, s, r), s);
        if (last) sort_out(tile, p, r, slot, s);
    }
}

/* Scores of `lanes` from another place, or none if there is no other. */
static void join(const CpuTile *tile, float *value, const float *from, uint32_t lanes)
{
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        const int l = __builtin_ctz(rest);
        for (int64_t i = l; i < tile->cells * tile->lanes; i += tile->lanes) value[i] = from ? from[i] : NAN;
    }
}

/* Scores of a run's lanes that are in the box; with the first of them those of lanes that are in none. Where no scores wait, lanes of other boxes enter the lists another time. */
static void run_patches_of(const CpuTile *tile, const CpuTilePlace *p, int64_t r, int64_t slot, CpuTileScratch *s)
{
    const uint32_t active = snls_tile_lanes(snls_tile_active(tile, p, r)), here = s->together[r], boxed = s->sorted ? snls_tile_box_lanes(tile, r, s) : here;
    const uint32_t alone = s->begun[r] ? 0 : active & ~boxed;
    const bool joins = tile->slots > 1 && s->begun[r];
    float *value = snls_tile_value(tile, s, r);
    snls_tile_scores(tile, p, r, slot, alone, joins ? s->part : value, s);
    if (joins) join(tile, value, s->part, here);
    else if (active & ~(here | alone)) join(tile, value, NULL, active & ~(here | alone));
    if (tile->slots == 1) sort_out(tile, p, r, slot, s);
    s->begun[r] |= here | alone;
}

/* Larger patches: box by box. */
static void run_patches(const CpuTile *tile, const CpuTilePlace *p, int64_t slot, bool last, CpuTileScratch *s)
{
    const int boxes = snls_tile_boxes(tile, p, slot, s);
    for (int64_t r = 0; r < tile->runs; r++) s->begun[r] = 0;
    for (int b = 0; b < boxes; b++) {
        snls_tile_use_box(tile, b, s);
        snls_tile_box_scores(tile, p, slot, s);
        for (int64_t r = s->row * tile->blocks; r < s->row_end * tile->blocks; r++)
            if (s->together[r]) run_patches_of(tile, p, r, slot, s);
    }
    for (int64_t r = 0; r < p->rows * tile->blocks; r++) {
        if (snls_tile_active(tile, p, r) <= 0) continue;
        s->together[r] = 0;
        if (!s->begun[r]) run_patches_of(tile, p, r, slot, s);
        if (last && tile->slots > 1) sort_out(tile, p, r, slot, s);
    }
}

/* Of rows [first, end) of query pixels, those that are there. */
static float peak_of(const CpuTileScratch *s, int64_t first, int64_t end)
{
    float peak = 0;
    for (int64_t i = first; i < end && i < s->query_rows; i++) peak = s->row_peak[i] > peak ? s->row_peak[i] : peak;
    return peak;
}

/* Tile n of a stack: the scratch of its own, and where it is. */
static CpuTilePlace use_tile(const CpuTile *tile, const CpuTilePlace *stack, int64_t n, CpuTileScratch *s)
{
    const int64_t runs = tile->runs, queries = runs * tile->lanes, windows = tile->c->m.windows, left = stack->rows - n * tile->rows;
    const CpuStacked *all = &s->stacked;
    CpuTilePlace p = *stack;
    s->query = all->query + n * tile->rows * tile->at.row;
    s->top = all->top + n * queries * tile->keep;
    s->number = all->number + n * queries * tile->keep;
    s->most = all->most + n * queries;
    s->norm = tile->norms ? all->norm + n * queries : NULL;
    s->peak = peak_of(s, n * tile->rows, (n + 1) * tile->rows + (tile->c->m.ps - 1) * tile->c->m.dilation);
    s->window = (CpuTileWindows){all->window.y + n * windows * queries, all->window.x + n * windows * queries, all->window.origin_y + n * windows * queries,
                                 all->window.origin_x + n * windows * queries, all->window.valid + n * windows * runs};
    p.i0 += n * tile->rows;
    p.rows = left < tile->rows ? left : tile->rows;
    return p;
}

/* One slot of all tiles of a stack. */
static void run_slot(const CpuTile *tile, const CpuTilePlace *stack, int64_t slot, bool last, CpuTileScratch *s)
{
    s->carried.row = -1;
    if (tile->steps) snls_tile_cells_hold(tile, s);
    for (int64_t n = 0; n * tile->rows < stack->rows; n++) {
        const CpuTilePlace p = use_tile(tile, stack, n, s);
        (tile->c->m.ps == 1 ? run_pixels : run_patches)(tile, &p, slot, last, s);
        if (tile->steps && (s->holding == tile->held || slot == tile->c->m.windows - 1)) snls_tile_cells_enter(tile, &p, slot, s);
    }
    s->waiting = last ? 0 : s->waiting + 1;
}

static void begin_lists(const CpuTile *tile, const CpuTilePlace *stack, CpuTileScratch *s)
{
    for (int64_t n = 0; n * tile->rows < stack->rows; n++) {
        use_tile(tile, stack, n, s);
        snls_tile_begin_lists(tile, s);
    }
}

static void write_lists(const CpuTile *tile, const CpuTilePlace *stack, int64_t kept, CpuTileScratch *s)
{
    for (int64_t n = 0; n * tile->rows < stack->rows; n++) {
        const CpuTilePlace p = use_tile(tile, stack, n, s);
        snls_tile_write_lists(tile, &p, kept, s);
    }
}

static void run_stack(const CpuTile *tile, const CpuTilePlace *p, CpuTileScratch *s)
{
    const SnlsMatch *m = &tile->c->m;
    snls_tile_load_query(tile, p, s->stacked.query, s);
    if (tile->norms) snls_tile_patch_norms(tile, p, s);
    s->key_peak = 0;
    if (m->ps == 1 && tile->planes.bend) snls_tile_exact_begin(tile, p, s);
    s->waiting = 0;
    s->fetch[0] = s->fetch[1] = (CpuFetch){.rows = 0}; /* nothing to fetch ahead until the tile's own frame says what */
    begin_lists(tile, p, s);
    if (tile->steps) snls_tile_cells_begin(tile, s);
    for (int64_t slot = 0; slot < m->windows; slot++) {
        const bool last = slot == m->windows - 1 || m->each || s->waiting + 1 == tile->slots;
        if (slot > 0 || m->exclude != SNLS_EXCLUDE_FRAME) run_slot(tile, p, slot, last, s);
        if (!m->each) continue;
        write_lists(tile, p, slot * m->k, s);
        begin_lists(tile, p, s);
    }
    if (!m->each) write_lists(tile, p, 0, s);
}

/* Planes of the frames that frames [at.t, end) look into. */
static void load_planes(SnlsContext *ctx, const CpuTile *tile, CpuTilePlace at, int64_t end)
{
    const SnlsMatch *m = &tile->c->m;
    for (; at.t < end; at.t++)
        for (int64_t slot = 0; slot < m->windows; slot++) snls_tile_planes_load(ctx, tile, &at, snls_slot_frame(at.t, slot, m->wt, m->frames));
}

/* The stack of tiles with its first query at (i0, j0). */
static void run_stack_at(const CpuTile *tile, CpuTilePlace p, int64_t i0, int64_t j0, CpuTileScratch *s)
{
    const SnlsMatch *m = &tile->c->m;
    p.i0 = i0;
    p.j0 = j0;
    p.rows = m->rows - i0 < tile->rows * tile->stack ? m->rows - i0 : tile->rows * tile->stack;
    p.columns = m->columns - j0 < tile->columns ? m->columns - j0 : tile->columns;
    run_stack(tile, &p, s);
}

/* Tiles are handed out in parts that grow smaller, so that threads end together although tiles differ: at the frame's end they are cut, at its border boxes are larger.
 * Halves (OpenMP's guided on two threads) would be too large to begin with; single tiles would lose the key rows that a thread has at hand from the one above.
 * The first tile of a part. */
static int64_t part_begin(int64_t tiles, int threads, int64_t part)
{
    int64_t at = 0;
    for (int64_t i = 0; i < part && at < tiles; i++) {
        const int64_t share = (tiles - at) / (2 * threads);
        at += share > 1 ? share : 1;
    }
    return at;
}

static int64_t part_count(int64_t tiles, int threads)
{
    int64_t parts = 0;
    while (part_begin(tiles, threads, parts) < tiles) parts++;
    return parts;
}

/* Of those searched together. */
static int64_t end_of(const CpuTile *tile, const CpuTilePlace *at) { return at->t + tile->together < tile->c->m.frames ? at->t + tile->together : tile->c->m.frames; }

/* Unit u of frames [at.t, end): a stack, down a strip of tiles, which share most of their key rows, in some frames one after the other. */
static void run_unit(const CpuTile *tile, CpuTilePlace at, int64_t end, int64_t u, CpuTileScratch *s)
{
    const int64_t stacks = stacks_of(tile), down = stacks_down(tile), i0 = u % stacks % down * tile->rows * tile->stack, j0 = u % stacks / down * tile->columns;
    at.t += u / stacks * tile->turns;
    if (at.t + tile->turns < end) end = at.t + tile->turns;
    if (tile->by_rows) snls_tile_patch_keys_begin(tile, s);
    for (; at.t < end; at.t++) run_stack_at(tile, at, i0, j0, s);
}

/* Patches of several pixels: some frames together. */
static void run_stacks(SnlsContext *ctx, const CpuTile *tile, CpuTilePlace at, CpuTileScratch *scratch)
{
    const int64_t end = end_of(tile, &at), units = (end - at.t + tile->turns - 1) / tile->turns * stacks_of(tile), parts = part_count(units, ctx->threads);
    load_planes(ctx, tile, at, end);
#pragma omp parallel for num_threads(ctx->threads) schedule(dynamic, 1)
    for (int64_t part = 0; part < parts; part++) {
        const int64_t after = part_begin(units, ctx->threads, part + 1);
        for (int64_t u = part_begin(units, ctx->threads, part); u < after; u++) run_unit(tile, at, end, u, &scratch[snls_cpu_thread()]);
    }
}

/* Part u of the strips of the frames from at.t on: some steps down one of them, some frames by turns. */
static void run_chunk(const CpuTile *tile, CpuTilePlace at, int64_t u, CpuTileScratch *s)
{
    const SnlsMatch *m = &tile->c->m;
    const CpuKeys *k = &tile->keys;
    const int64_t chunks = chunks_of(tile), down = chunks_down(tile);
    const int64_t top = u % chunks % down * k->chunk * tile->rows, bottom = top + k->chunk * tile->rows, left = u % chunks / down * k->strip, right = left + k->strip;
    at.t += u / chunks * k->together;
    const int64_t end = at.t + k->together < m->frames ? at.t + k->together : m->frames;
    snls_tile_keys_begin(tile, s);
    for (int64_t i0 = top; i0 < bottom && i0 < m->rows; i0 += tile->rows)
        for (CpuTilePlace p = at; p.t < end; p.t++)
            for (int64_t j0 = left; j0 < right && j0 < m->columns; j0 += tile->columns) run_stack_at(tile, p, i0, j0, s);
}

/* Patches of one pixel: some frames together. */
static void run_chunks(SnlsContext *ctx, const CpuTile *tile, CpuTilePlace at, CpuTileScratch *scratch)
{
    const int64_t turns = tile->keys.together, end = end_of(tile, &at), chunks = (end - at.t + turns - 1) / turns * chunks_of(tile);
    load_planes(ctx, tile, at, end);
#pragma omp parallel for num_threads(ctx->threads) schedule(dynamic, 1)
    for (int64_t u = 0; u < chunks; u++) run_chunk(tile, at, u, &scratch[snls_cpu_thread()]);
}

void snls_cpu_tile_run(SnlsContext *ctx, const CpuMatch *c, CpuMatchScratch *single)
{
    const SnlsMatch *m = &c->m;
    CpuTile tile = tile_of(ctx, c, snls_tile_norms_apply(m) && snls_tile_norms_pay(c, single));
    CpuTilePlace at = {0};
    CpuTileScratch *scratch = snls_arena_claim(&ctx->arena, ctx->threads, sizeof *scratch);
    take_planes(&ctx->arena, &tile, snls_arena_claim);
    for (int i = 0; i < ctx->threads; i++) {
        take_scratch(&ctx->arena, &tile, snls_arena_claim, &scratch[i]);
        scratch[i].single = &single[i];
        for (int64_t a = 0; a < m->side; a++) scratch[i].first[a] = tile.whole ? (int)(a * (int64_t)m->stride1) : 0;
        for (int64_t j = 0; j < m->windows * tile.cells; j++)
            scratch[i].cell[j] = snls_list_place((uint32_t)(j / tile.cells), (uint32_t)(j % tile.cells / m->side), (uint32_t)(j % m->side));
    }
    for (int i = 0; i < ctx->threads; i++)
        for (int64_t j = 0, n = tile.beyond + 1; j < snls_tile_cells_places(&tile); j++)
            scratch[i].cell_place[j] = snls_list_place((uint32_t)(j / (n * n)), (uint32_t)(j / n % n), (uint32_t)(j % n));
    snls_tile_planes_clear(ctx, &tile);
    for (at.b = 0; at.b < m->batch; at.b++)
        for (at.head = 0; at.head < m->heads; at.head++) {
            for (int64_t i = 0; i < tile.planes.frames; i++) tile.planes.frame[i] = -1;
            for (at.t = 0; at.t < m->frames; at.t += tile.together) (m->ps == 1 ? run_chunks : run_stacks)(ctx, &tile, at, scratch);
        }
}
