/* match.c: walks the queries, keeps the k best candidates of each, writes them. */
#include "cpu/match.h"
#include "cpu/threads.h"

/* key without a candidate */
#define NO_KEY UINT64_MAX

/* Writes one place of the output; NO_KEY: no neighbour. windows: those of this query. */
static void write_place(const SnlsMatch *m, const SnlsQuery *q, int64_t kept, uint64_t key, const SnlsMatchWindow *windows)
{
    float *dist = (float *)m->dist.data + snls_at6(&m->dist, q->b, q->head, q->t, q->i, q->j, kept);
    float *offset = (float *)m->offset.data + snls_at6(&m->offset, q->b, q->head, q->t, q->i, q->j, kept);
    const int64_t step = m->offset.stride[6], id = key == NO_KEY ? -1 : snls_best_id(key);
    if (m->index.data) ((int32_t *)m->index.data)[snls_at6(&m->index, q->b, q->head, q->t, q->i, q->j, kept)] = (int32_t)id;
    if (id < 0) {
        *dist = m->prod ? -INFINITY : INFINITY;
        offset[0] = offset[step] = offset[2 * step] = 0;
        return;
    }
    /* 32 bits: divisions of candidate numbers are what this function spends its time on */
    const uint32_t side = (uint32_t)m->side, cells = side * side, cell = (uint32_t)id % cells, row = cell / side;
    const SnlsMatchWindow *w = &windows[(uint32_t)id / cells];
    *dist = snls_best_dist(key, m->prod);
    offset[0] = (float)(w->frame - q->t);
    offset[step] = (float)(snls_match_y(m, w, row) - (double)(q->i * m->stride0));
    offset[2 * step] = (float)(snls_match_x(m, w, cell - row * side) - (double)(q->j * m->stride0));
}

/* The next rows of these cells that are scored at once; false: there are none left. */
static bool next_rows(const SnlsMatch *m, const CpuCells *cells, CpuCells *some)
{
    const int64_t row = some->row_end;
    *some = *cells;
    some->row = row;
    some->row_end = cells->row_end - row < snls_cpu_rows(m) ? cells->row_end : row + snls_cpu_rows(m);
    return row < cells->row_end && cells->column < cells->column_end;
}

/* Cells whose scores are not above the last of a full list, without a branch for each: mostly few are, and nobody can tell which. NaN never is. */
static int64_t pick_close(const SnlsMatch *m, const CpuCells *cells, const CpuBest *top, const CpuMatchScratch *scratch)
{
    const float last = top->n < top->k ? (m->prod ? -INFINITY : INFINITY) : snls_best_dist(top->key[top->k - 1], m->prod);
    int64_t n = 0;
    for (int64_t row = 0; row < cells->row_end - cells->row; row++)
        for (int64_t i = row * m->side + cells->column; i < row * m->side + cells->column_end; i++) {
            scratch->close[n] = (int32_t)i;
            n += m->prod ? scratch->score[i] >= last : scratch->score[i] <= last;
        }
    return n;
}

/* Scores one window and hands its candidates to `top`; the anchor's key, if there is one, to *anchor. */
static void scan_window(const CpuMatch *c, const SnlsQuery *q, int64_t window, CpuBest *top, uint64_t *anchor, const CpuMatchScratch *scratch)
{
    const SnlsMatch *m = &c->m;
    const SnlsMatchWindow *w = &scratch->window[window];
    const CpuCells cells = snls_cpu_cells(m, w, window);
    CpuCells some = {.row_end = cells.row};
    *anchor = NO_KEY;
    if (cells.row == cells.row_end) return;
    const SnlsMatchSpecial special = snls_match_special(m, q, w, window);
    while (next_rows(m, &cells, &some)) {
        const int64_t first = some.row * m->side, id = window * m->side * m->side + first;
        snls_cpu_score_window(c, q, w, &some, scratch);
        const float *score = scratch->score;
        if (snls_cpu_is_cell(&some, special.anchored, m->side) && !isnan(score[special.anchored - first])) *anchor = snls_best_key(score[special.anchored - first], m->prod, id + special.anchored - first);
        const int64_t n = pick_close(m, &some, top, scratch);
        for (int64_t i = 0; i < n; i++) {
            const int64_t at = scratch->close[i];
            if (first + at != special.excluded && first + at != special.anchored) snls_best_insert(top, snls_best_key(score[at], m->prod, id + at));
        }
    }
}

/* Anchors first, in slot order, then the best of the rest. */
static void select_group(const CpuMatch *c, const SnlsQuery *q, int64_t first, int64_t end, int64_t kept, const CpuMatchScratch *scratch)
{
    const SnlsMatch *m = &c->m;
    CpuBest top = {.key = scratch->best, .k = c->k};
    for (int64_t window = first; window < end; window++) scan_window(c, q, window, &top, &scratch->anchor[window], scratch);
    int64_t n = 0;
    for (int64_t window = first; window < end && n < m->k; window++)
        if (scratch->anchor[window] != NO_KEY) write_place(m, q, kept + n++, scratch->anchor[window], scratch->window);
    for (int64_t i = 0; n < m->k; i++) write_place(m, q, kept + n++, i < top.n ? top.key[i] : NO_KEY, scratch->window);
}

/* search_all: a row of a window in raster order. */
static void write_row(const SnlsMatch *m, const SnlsQuery *q, const SnlsMatchWindow *w, int64_t window, int64_t row, const CpuCells *cells, int64_t excluded, const float *score) /* of the row */
{
    const int64_t kept = (window * m->side + row) * m->side, step = m->offset.stride[6];
    const bool scored = row >= cells->row && row < cells->row_end;
    const float none = m->prod ? -INFINITY : INFINITY, dt = (float)(w->frame - q->t), dy = (float)(snls_match_y(m, w, row) - (double)(q->i * m->stride0));
    float *dist = (float *)m->dist.data + snls_at6(&m->dist, q->b, q->head, q->t, q->i, q->j, kept);
    float *offset = (float *)m->offset.data + snls_at6(&m->offset, q->b, q->head, q->t, q->i, q->j, kept);
    int32_t *index = m->index.data ? (int32_t *)m->index.data + snls_at6(&m->index, q->b, q->head, q->t, q->i, q->j, kept) : NULL;
    for (int64_t column = 0; column < m->side; column++, dist += m->dist.stride[5], offset += m->offset.stride[5]) {
        const int64_t cell = row * m->side + column;
        const bool there = scored && column >= cells->column && column < cells->column_end && cell != excluded && !isnan(score[column]);
        *dist = there ? score[column] + 0.0f : none; /* no -0 */
        offset[0] = there ? dt : 0;
        offset[step] = there ? dy : 0;
        offset[2 * step] = there ? (float)(snls_match_x(m, w, column) - (double)(q->j * m->stride0)) : 0;
        if (index) index[column * m->index.stride[5]] = there ? (int32_t)(kept + column) : -1;
    }
}

static void write_all(const CpuMatch *c, const SnlsQuery *q, const CpuMatchScratch *scratch)
{
    const SnlsMatch *m = &c->m;
    for (int64_t window = 0; window < m->windows; window++) {
        const SnlsMatchWindow *w = &scratch->window[window];
        const CpuCells cells = snls_cpu_cells(m, w, window);
        const int64_t excluded = cells.row < cells.row_end ? snls_match_special(m, q, w, window).excluded : -1;
        CpuCells some = {.row_end = cells.row};
        for (int64_t row = 0; row < m->side; row++) {
            if (row == some.row_end && next_rows(m, &cells, &some)) snls_cpu_score_window(c, q, w, &some, scratch);
            write_row(m, q, w, window, row, &cells, excluded, scratch->score + (row < some.row || row >= some.row_end ? 0 : row - some.row) * m->side);
        }
    }
}

SnlsListOutput snls_cpu_list_output(const SnlsMatch *m, const SnlsQuery *q, int64_t kept)
{
    SnlsListOutput out = {.step = m->stride1, .side = (uint32_t)m->side, .prod = m->prod, .dist_step = m->dist.stride[5], .offset_step = m->offset.stride[5],
                          .component = m->offset.stride[6]};
    out.dist = (float *)m->dist.data + snls_at6(&m->dist, q->b, q->head, q->t, q->i, q->j, kept);
    out.offset = (float *)m->offset.data + snls_at6(&m->offset, q->b, q->head, q->t, q->i, q->j, kept);
    if (!m->index.data) return out;
    out.index = (int32_t *)m->index.data + snls_at6(&m->index, q->b, q->head, q->t, q->i, q->j, kept);
    out.index_step = m->index.stride[5];
    return out;
}

void snls_cpu_match_query(const CpuMatch *c, const SnlsQuery *q, CpuMatchScratch *scratch)
{
    const SnlsMatch *m = &c->m;
    snls_cpu_load_patch(c, q, scratch);
    for (int64_t window = 0; window < m->windows; window++) scratch->window[window] = snls_match_window(m, q, window);
    if (m->all) write_all(c, q, scratch);
    else if (m->each) for (int64_t w = 0; w < m->windows; w++) select_group(c, q, w, w + 1, w * m->k, scratch);
    else select_group(c, q, 0, m->windows, 0, scratch);
}

static void plan_scratch(SnlsContext *ctx, const CpuMatch *c)
{
    const SnlsMatch *m = &c->m;
    const int64_t places = snls_cpu_places(m);
    int64_t pixels = 0, floats = 0;
    if (!snls_mul_size(m->ps, m->ps, &pixels) || !snls_mul_size(pixels, m->features, &floats)) ctx->arena.overflow = true;
    for (int i = 0; i < ctx->threads; i++) {
        snls_arena_plan(&ctx->arena, c->k, sizeof(uint64_t));
        snls_arena_plan(&ctx->arena, m->windows, sizeof(uint64_t));
        snls_arena_plan(&ctx->arena, m->windows, sizeof(SnlsMatchWindow));
        snls_arena_plan(&ctx->arena, floats, sizeof(float));
        snls_arena_plan(&ctx->arena, pixels, sizeof(float *));
        snls_arena_plan(&ctx->arena, places, sizeof(float));
        snls_arena_plan(&ctx->arena, places, sizeof(float));
        snls_arena_plan(&ctx->arena, places, sizeof(float *));
        snls_arena_plan(&ctx->arena, places, sizeof(int32_t));
    }
    snls_arena_plan(&ctx->arena, ctx->threads, sizeof(CpuMatchScratch));
}

static CpuMatchScratch *claim_scratch(SnlsContext *ctx, const CpuMatch *c)
{
    const SnlsMatch *m = &c->m;
    SnlsArena *arena = &ctx->arena;
    const int64_t pixels = m->ps * m->ps, places = snls_cpu_places(m);
    CpuMatchScratch *all = snls_arena_claim(arena, ctx->threads, sizeof *all);
    for (int i = 0; i < ctx->threads; i++)
        all[i] = (CpuMatchScratch){.best = snls_arena_claim(arena, c->k, sizeof(uint64_t)),
                                   .anchor = snls_arena_claim(arena, m->windows, sizeof(uint64_t)),
                                   .window = snls_arena_claim(arena, m->windows, sizeof(SnlsMatchWindow)),
                                   .patch = snls_arena_claim(arena, pixels * m->features, sizeof(float)),
                                   .pixel = snls_arena_claim(arena, pixels, sizeof(float *)),
                                   .score = snls_arena_claim(arena, places, sizeof(float)),
                                   .part = snls_arena_claim(arena, places, sizeof(float)),
                                   .place = snls_arena_claim(arena, places, sizeof(float *)),
                                   .close = snls_arena_claim(arena, places, sizeof(int32_t))};
    return all;
}

static SnlsStatus take_tensors(SnlsContext *ctx, const SnlsMatch *m)
{
    SNLS_TRY(snls_cpu_take_video(ctx, m->op, "query", &m->query));
    SNLS_TRY(snls_cpu_take_video(ctx, m->op, "key", &m->key));
    SNLS_TRY(snls_cpu_take_numbers(ctx, m->op, m->refine ? "centre" : "flow", &m->centre));
    SNLS_TRY(snls_cpu_take_numbers(ctx, m->op, "dist", &m->dist));
    return snls_cpu_take_numbers(ctx, m->op, "offset", &m->offset);
}

static void plan_query(SnlsContext *ctx, const CpuMatch *c)
{
    snls_arena_begin(&ctx->arena);
    snls_cpu_video_plan(ctx, &c->m.query);
    snls_cpu_video_plan(ctx, &c->m.key);
    plan_scratch(ctx, c);
}

static CpuMatchScratch *claim_query(SnlsContext *ctx, CpuMatch *c)
{
    snls_cpu_video_claim(ctx, &c->query, &c->m.query);
    snls_cpu_video_claim(ctx, &c->key, &c->m.key);
    return claim_scratch(ctx, c);
}

/* Whether tiles are the better way, and have the memory. A few queries may have been written: a call that fails writes nothing, so without it the sieve has to do. */
static bool turn_to_tiles(SnlsContext *ctx, const CpuMatch *c, int parts)
{
    if (!(parts > 1 ? snls_cpu_tile_instead(c) : snls_cpu_tile_applies(&c->m))) return false;
    plan_query(ctx, c);
    snls_cpu_tile_plan(ctx, c);
    return snls_arena_commit(&ctx->arena, &ctx->scratch, ctx->scratch_limit);
}

/* *begun: frames that are done, all; or none, if tiles are the better way. Memory for two parts is taken only where two are wanted; without it one part has to do. */
static SnlsStatus run_sieve(SnlsContext *ctx, CpuMatch *c, int64_t *begun, CpuMatchScratch **scratch)
{
    const SnlsMatch *m = &c->m;
    const int parts = snls_cpu_sieve_has_parts(ctx) ? 2 : 1;
    CpuSieveWay way = {.parts = 1};
    while ((*begun = way.begun) < m->batch * m->heads * m->frames) {
        if (way.many && way.begun == 0 && turn_to_tiles(ctx, c, parts)) return SNLS_OK;
        if (way.many) way.parts = parts;
        way.settled |= way.many;
        way.many = false;
        plan_query(ctx, c);
        snls_cpu_sieve_plan(ctx, c, &way);
        if (way.parts > 1 && !snls_arena_commit(&ctx->arena, &ctx->scratch, ctx->scratch_limit)) {
            way.parts = 1;
            continue;
        }
        SNLS_TRY(snls_scratch_commit(ctx, m->op));
        *scratch = claim_query(ctx, c);
        snls_cpu_sieve_run(ctx, c, *scratch, &way);
    }
    return SNLS_OK;
}

static void run_one_by_one(SnlsContext *ctx, const CpuMatch *c, CpuMatchScratch *scratch)
{
    const SnlsMatch *m = &c->m;
    const int64_t units = m->batch * m->heads * m->frames * m->rows;
#pragma omp parallel for num_threads(ctx->threads) schedule(dynamic, 1)
    for (int64_t u = 0; u < units; u++) {
        SnlsQuery q = {.i = u % m->rows, .t = u / m->rows % m->frames, .head = u / m->rows / m->frames % m->heads,
                       .b = u / m->rows / m->frames / m->heads};
        for (q.j = 0; q.j < m->columns; q.j++) snls_cpu_match_query(c, &q, &scratch[snls_cpu_thread()]);
    }
}

static int64_t list_length(const SnlsMatch *m, int64_t k)
{
    const int64_t group = (m->each ? 1 : m->windows) * m->side * m->side;
    return k < group ? k : group;
}

/* By the sieve or by tiles, which know no anchors: those are put first afterwards. *done: one of them applies. */
static SnlsStatus run_fast(SnlsContext *ctx, CpuMatch *c, bool *done)
{
    const int32_t anchor = c->m.anchor;
    CpuMatchScratch *scratch = NULL;
    c->m.anchor = SNLS_ANCHOR_NONE;
    c->k = list_length(&c->m, c->m.k + (c->m.exclude == SNLS_EXCLUDE_SELF));
    const bool sieve = snls_cpu_sieve_applies(ctx, &c->m), tiles = snls_cpu_tile_applies(&c->m);
    int64_t begun = 0;
    if (sieve || (tiles && !c->m.prod)) snls_cpu_look_at_flow(ctx, c); /* tiles want to know for l2 only */
    if (sieve) SNLS_TRY(run_sieve(ctx, c, &begun, &scratch));
    *done = begun > 0 || tiles;
    if (begun == 0 && tiles) {
        plan_query(ctx, c);
        snls_cpu_tile_plan(ctx, c);
        SNLS_TRY(snls_scratch_commit(ctx, c->m.op));
        scratch = claim_query(ctx, c);
        snls_cpu_tile_run(ctx, c, scratch);
    }
    c->m.anchor = anchor;
    if (*done && anchor != SNLS_ANCHOR_NONE) snls_cpu_match_anchor(ctx, c, scratch);
    return SNLS_OK;
}

SnlsStatus snls_cpu_match_forward(SnlsContext *ctx, const SnlsMatch *m)
{
    CpuMatch c = {.m = *m, .dsp = snls_cpu_dsp(ctx)};
    bool done = false;
    SNLS_TRY(take_tensors(ctx, m));
    SNLS_TRY(run_fast(ctx, &c, &done));
    if (done) return SNLS_OK;
    c.k = m->all ? 1 : list_length(m, m->k);
    plan_query(ctx, &c);
    SNLS_TRY(snls_scratch_commit(ctx, m->op));
    CpuMatchScratch *scratch = claim_query(ctx, &c);
    run_one_by_one(ctx, &c, scratch);
    return SNLS_OK;
}

/* ---- memory ---- */

static void keep_most(SnlsContext *ctx, int64_t *most)
{
    const int64_t bytes = ctx->arena.overflow ? INT64_MAX / 2 : ctx->arena.planned;
    if (bytes > *most) *most = bytes;
}

/* All ways that a search could go, whichever it will be: that may depend on what its tensors hold. */
static int64_t most_at_level(SnlsContext *ctx, const SnlsMatch *m)
{
    CpuMatch c = {.m = *m, .k = list_length(m, m->k)};
    int64_t most = 0;
    plan_query(ctx, &c);
    keep_most(ctx, &most);
    c.m.anchor = SNLS_ANCHOR_NONE;
    c.k = list_length(m, m->k + (m->exclude == SNLS_EXCLUDE_SELF));
    for (int flow = 0; flow < 4; flow++) {
        c.whole_flow = flow & 1, c.even_flow = flow & 2;
        if (snls_cpu_tile_applies(&c.m)) {
            plan_query(ctx, &c);
            snls_cpu_tile_plan(ctx, &c);
            keep_most(ctx, &most);
        }
        for (int parts = snls_cpu_sieve_applies(ctx, &c.m) ? 1 : 3; parts < 3; parts++) {
            plan_query(ctx, &c);
            snls_cpu_sieve_plan(ctx, &c, &(CpuSieveWay){.parts = parts});
            keep_most(ctx, &most);
        }
    }
    return most;
}

int64_t snls_cpu_search_bytes(const SnlsSearch *s, int32_t threads, int32_t level)
{
    const SnlsMatch m = snls_match_of_search(s, false);
    int64_t most = 0;
    for (int32_t l = level ? level : SNLS_CPU_C; l <= (level ? level : snls_cpu_level_max()); l++) {
        SnlsContext ctx = {.threads = threads, .cpu_level = l};
        const int64_t bytes = most_at_level(&ctx, &m);
        if (bytes > most) most = bytes;
    }
    return most + SNLS_ALIGN;
}
