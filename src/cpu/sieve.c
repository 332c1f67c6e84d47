/* sieve.c: drives the search through the sieve: memory, frames, tiles, results. */
#include "cpu/sieve.h"
#include "cpu/take.h"
#include "cpu/threads.h"
#include <math.h>
#include <string.h>

#define LARGE 1e34f /* a squared length below it: products and sums stay within the range of f32 */

enum { WINDOWS_MAX = 512, SLACK = 12, ROWS_MAX = 1024, BOXES = 4096, TRIED = 4, PIECE = 16, TOGETHER = 5, SHORT_LIST = 4, SMALL = 4, STRIP_BYTES = 2 << 20 };

/* Whole pixels between the first and the last candidate of a window. */
static int64_t reach_of(const SnlsMatch *m) { return (int64_t)floor(m->stride1 * (double)(m->side - 1)); }

/* Flow is reached by 32-bit numbers from a tile's first query. */
static bool strides_fit(const SnlsTensor *t, int axis_i, int axis_j)
{
    if (!t->data) return true;
    const int64_t limit = INT32_MAX / (2 * SIEVE_ACROSS), i = t->stride[axis_i], j = t->stride[axis_j];
    return i > -limit && i < limit && j > -limit && j < limit;
}

/* Floats of a row of keys, packed or as they are. */
static int64_t row_of_key(const SnlsMatch *m)
{
    const int64_t packed = m->width * m->heads * m->features, there = m->key.stride[2] < 0 ? -m->key.stride[2] : m->key.stride[2];
    const int64_t across = m->key.stride[3] < 0 ? -m->key.stride[3] : m->key.stride[3];
    return packed > there ? (packed > across ? packed : across) : (there > across ? there : across);
}

bool snls_cpu_sieve_applies(SnlsContext *ctx, const SnlsMatch *m)
{
    SnlsSieve s;
    const bool kind = !m->refine && !m->all && m->ps == 1 && m->k <= SNLS_SIEVE_KEPT && m->anchor == SNLS_ANCHOR_NONE && m->exclude != SNLS_EXCLUDE_SELF;
    const bool steps = m->stride1 == 1 || m->stride1 == 0.5 || m->stride1 == 0.25;
    const bool tiles = m->prod && m->stride1 < 1 && m->features < SNLS_SIEVE_MANY && m->k <= SHORT_LIST && reach_of(m) <= SMALL;
    const bool few = m->features < 16; /* padding to a chunk would take several times the memory of the frames, and gains little */
    const bool size = !few && reach_of(m) + 2 + (SIEVE_DOWN - 1) < SNLS_SIEVE_SIDE && m->side < 1024 && m->windows <= WINDOWS_MAX && m->height < 1 << 30 && m->width < 1 << 30;
    const bool reachable = strides_fit(&m->centre, m->centre.ndim - 3, m->centre.ndim - 2) && row_of_key(m) < INT32_MAX / SNLS_SIEVE_SIDE;
    return kind && steps && !tiles && size && reachable && snls_sieve_init(&s, ctx->cpu_level);
}

bool snls_cpu_sieve_has_parts(SnlsContext *ctx)
{
    SnlsSieve s;
    return snls_sieve_init(&s, ctx->cpu_level) && (s.parts > 1 || s.scaled);
}

static int64_t at_most(int64_t a, int64_t b) { return a < b ? a : b; }

/* Frames that are searched together share their keys while these are near: five frames with wt 1 read each key 1.4 times from the third cache instead of three
 * times. Their bf16 parts may take a quarter of what the keys take; long lists spend their time elsewhere, and get nothing for the memory. */
static void set_together(CpuSieve *v)
{
    const SnlsMatch *m = &v->c->m;
    const int64_t more = m->k > SHORT_LIST ? 0 : at_most(TOGETHER - 1, m->frames / 2);
    v->keys.ring = at_most(m->frames, m->windows + more);
    v->together = more && v->keys.ring == m->frames ? m->frames : more + 1;
}

/* Whether candidates may lie between pixels. */
static bool has_bends(const CpuMatch *c, int32_t steps) { return !c->m.nearest && ((c->m.flow_slots && !c->whole_flow) || steps > 1); }

/* Keys along an axis that so many queries side by side look at, if all look alike. */
static int64_t keys_of(const CpuSieve *v, int64_t queries) { return reach_of(&v->c->m) + 1 + has_bends(v->c, v->steps) + (queries - 1) * v->c->m.stride0; }

/* What all tiles of a frame take, in units of products: a tile takes about what BESIDE of them do for windows, the scan and lists. */
static int64_t units_of_frame(const CpuSieve *v, int64_t down, int64_t across)
{
    enum { BESIDE = 20 };
    const SnlsMatch *m = &v->c->m;
    const int64_t tiles = (m->rows + down - 1) / down * ((m->columns + across - 1) / across);
    return tiles * (BESIDE + keys_of(v, down) * ((keys_of(v, across) + SIEVE_LANES - 1) / SIEVE_LANES));
}

/* Where all queries look at the same shifts, at pixels, boxes are known beforehand: for windows of 9 x 9 twelve keys by twelve with 4 x 4 queries, ten by sixteen with 2 x 8. These are 16 keys more to look at,
 * but where products come in runs of sixteen keys ten units of them instead of twelve; where features are one chunk a unit takes no longer than its 16 keys. Windows that differ want 4 x 4, whose boxes have room for it in
 * sixteen columns, and narrow frames whose last tiles would be half empty. */
static void set_shape(CpuSieve *v)
{
    enum { LOW = SIEVE_DOWN / SIEVE_GROUP, NARROW = SIEVE_ACROSS / SIEVE_GROUP };
    const bool even = v->s.runs && v->c->even_flow && v->steps == 1 && v->c->m.features > SNLS_SIEVE_CHUNK;
    const bool wide = even && keys_of(v, SIEVE_ACROSS) <= SNLS_SIEVE_SIDE && units_of_frame(v, LOW, SIEVE_ACROSS) < units_of_frame(v, SIEVE_DOWN, NARROW);
    v->down = wide ? LOW : SIEVE_DOWN;
    v->across = wide ? SIEVE_ACROSS : NARROW;
}

static CpuSieve sieve_of(SnlsContext *ctx, const CpuMatch *c, int parts)
{
    const SnlsMatch *m = &c->m;
    CpuSieve v = {.c = c, .steps = (int32_t)(1 / m->stride1)};
    snls_sieve_init(&v.s, ctx->cpu_level);
    if (parts > 1 && v.s.scaled) snls_sieve_init(&v.s, SNLS_CPU_AMX); /* f16 numbers come in one part, bf16 numbers in two */
    set_shape(&v);
    v.columns_max = at_most((keys_of(&v, v.across) + SIEVE_LANES - 1) / SIEVE_LANES * SIEVE_LANES, SNLS_SIEVE_SIDE);
    v.cells_max = (int32_t)v.columns_max + !has_bends(c, v.steps);
    v.rows_alike = at_most(keys_of(&v, SIEVE_DOWN), SNLS_SIEVE_SIDE);
    v.rows_max = at_most(v.rows_alike + SLACK, SNLS_SIEVE_SIDE);
    v.bits = v.columns_max <= 16 ? 4 : v.columns_max <= 32 ? 5 : 6;
    v.room = at_most((m->each ? 1 : m->windows) * v.rows_max, ROWS_MAX);
    v.boxes = at_most(v.room, BOXES);
    if (v.boxes < SNLS_SIEVE_FEW_BOXES) v.boxes = SNLS_SIEVE_FEW_BOXES;
    v.keys.parts = parts < v.s.parts ? parts : v.s.parts;
    v.awake = v.s.awake && m->k <= SHORT_LIST;
    v.rounded = v.keys.parts == 1 && !m->prod && !has_bends(c, v.steps);
    set_together(&v);
    snls_sieve_keys_layout(&v);
    return v;
}

static void take_table(SnlsArena *arena, const CpuSieve *v, CpuTake take, SnlsSieveTable *t)
{
    const SnlsMatch *m = &v->c->m;
    t->at = take(arena, v->boxes, sizeof(float *));
    t->slot = take(arena, v->boxes, sizeof(int32_t));
    t->origin_y = take(arena, v->boxes, sizeof(int32_t));
    t->origin_x = take(arena, v->boxes, sizeof(int32_t));
    t->down = v->c->key.step[2];
    t->right = v->c->key.step[3];
    t->last_y = (int32_t)(m->height - 1);
    t->last_x = (int32_t)(m->width - 1);
    t->steps = v->steps;
    t->slots = (int32_t)m->windows;
}

static void take_scratch(SnlsArena *arena, const CpuSieve *v, CpuTake take, CpuSieveScratch *s)
{
    const int64_t lanes = SIEVE_LANES, k = v->c->k, windows = v->c->m.windows;
    s->query = take(arena, 2 * v->keys.padded * lanes, sizeof(uint16_t));
    for (int i = 0; i < 3; i++) s->least[i] = take(arena, v->room * lanes, sizeof(float));
    s->top = take(arena, k * lanes, sizeof(float));
    s->best = take(arena, k * lanes, sizeof(float));
    s->place = take(arena, k * lanes, sizeof(uint32_t));
    s->slot = take(arena, windows, sizeof(CpuSieveSlot));
    s->rows = take(arena, v->boxes, sizeof(SnlsSieveRows));
    s->between = take(arena, v->boxes, sizeof(uint8_t));
    const int64_t slots = windows < SNLS_SIEVE_FEW_SLOTS ? SNLS_SIEVE_FEW_SLOTS : windows;
    s->axis_y = take(arena, slots, sizeof(SnlsSieveLanes));
    s->axis_x = take(arena, slots, sizeof(SnlsSieveLanes));
    take_table(arena, v, take, &s->table);
    s->table.y = s->axis_y, s->table.x = s->axis_x;
    s->centre_y = take(arena, windows * lanes, sizeof(double));
    s->centre_x = take(arena, windows * lanes, sizeof(double));
    s->origin_y = take(arena, windows * lanes, sizeof(int32_t));
    s->origin_x = take(arena, windows * lanes, sizeof(int32_t));
    s->dt = take(arena, windows, sizeof(float));
}

/* The tiles of a group share what is used up at once. */
static void take_group(SnlsArena *arena, const CpuSieve *v, CpuTake take, CpuSieveJobs *jobs, CpuSieveScratch *s)
{
    for (int i = 0; i < 2; i++) jobs->product[i] = take(arena, v->rows_max * v->columns_max * SIEVE_LANES, sizeof(float));
    uint32_t *whole = take(arena, SIEVE_ENTRIES, sizeof(uint32_t)), *between = take(arena, SIEVE_ENTRIES, sizeof(uint32_t));
    for (int i = 0; i < SIEVE_GROUP; i++) {
        take_scratch(arena, v, take, &s[i]);
        s[i].entry[0] = whole;
        s[i].entry[1] = between;
    }
}

static void take_keys(SnlsArena *arena, int threads, CpuSieve *v, CpuTake take)
{
    const SnlsMatch *m = &v->c->m;
    CpuSieveKeys *k = &v->keys;
    const int64_t pixels = k->ring * k->rows * k->width, noted = k->ring * k->blocks * k->rows, bends = has_bends(v->c, v->steps) ? pixels : 0;
    k->data = take(arena, pixels * k->pixel, sizeof(uint16_t));
    k->peak = take(arena, noted, sizeof(float));
    if (k->parts == 1) k->lost = take(arena, noted, sizeof(float));
    k->frame = take(arena, k->ring, sizeof(int64_t));
    k->centre = take(arena, m->features + 2, sizeof(float));
    v->norms = take(arena, threads * snls_sieve_keys_noted(v), sizeof(float));
    v->taken = take(arena, threads, sizeof(int64_t));
    if (m->prod) return;
    k->add = take(arena, pixels, sizeof(float));
    for (int n = 0; bends && n < 3; n++) k->bend[n] = take(arena, pixels, sizeof(float));
}

void snls_cpu_sieve_plan(SnlsContext *ctx, const CpuMatch *c, const CpuSieveWay *way)
{
    CpuSieve v = sieve_of(ctx, c, way->parts);
    CpuSieveScratch none[SIEVE_GROUP];
    CpuSieveJobs no_jobs;
    snls_arena_plan(&ctx->arena, ctx->threads, sizeof(CpuSieveJobs));
    snls_arena_plan(&ctx->arena, ctx->threads * SIEVE_GROUP, sizeof(CpuSieveScratch));
    take_keys(&ctx->arena, ctx->threads, &v, snls_take_plan);
    for (int i = 0; i < ctx->threads; i++) take_group(&ctx->arena, &v, snls_take_plan, &no_jobs, none);
}

/* ---- a tile ---- */

/* Numbers from lane 0 of a tile to each lane. */
static void lane_steps(const CpuSieve *v, int64_t down, int64_t right, ptrdiff_t *at)
{
    for (int64_t l = 0; l < SIEVE_LANES; l++) at[l] = l / v->across * down + l % v->across * right;
}

static void set_lanes(CpuSieve *v)
{
    const SnlsMatch *m = &v->c->m;
    lane_steps(v, m->dist.stride[3], m->dist.stride[4], v->dist_at);
    lane_steps(v, m->offset.stride[3], m->offset.stride[4], v->offset_at);
    if (m->index.data) lane_steps(v, m->index.stride[3], m->index.stride[4], v->index_at);
    if (m->flow_slots) lane_steps(v, m->centre.stride[m->centre.ndim - 3], m->centre.stride[m->centre.ndim - 2], v->flow_at);
    for (int64_t l = 0; l < SIEVE_LANES; l++) {
        v->lane_y[l] = (double)(l / v->across * m->stride0);
        v->lane_x[l] = (double)(l % v->across * m->stride0);
    }
    for (int64_t l = 0; l < SIEVE_LANES; l++) v->pixel_at[l] = (l / v->across * v->c->query.step[2] + l % v->across * v->c->query.step[3]) * m->stride0;
}

/* Of pixels as they are, and of what they are multiplied with. */
static float largest_norm(const CpuSieve *v) { return LARGE * fminf(1, snls_sieve_scale(v) * snls_sieve_scale(v)); }

/* Queries of the tile; lanes that do not exist stand in for the first. */
static void begin_tile(const CpuSieve *v, const CpuSieveTile *p, CpuSieveScratch *s)
{
    const SnlsMatch *m = &v->c->m;
    const float *pixel = snls_cpu_pixel(&v->c->query, p->b, p->t, p->i0 * m->stride0, p->j0 * m->stride0) + p->head * m->features;
    const double y = (double)(p->i0 * m->stride0), x = (double)(p->j0 * m->stride0);
    const bool whole = p->active == (1u << SIEVE_LANES) - 1; /* outside the loop: then compilers make vectors of it */
    for (int64_t l = 0; l < SIEVE_LANES; l++) {
        const int64_t from = whole || p->active >> l & 1 ? l : 0;
        s->y[l] = y + v->lane_y[from];
        s->x[l] = x + v->lane_x[from];
        s->pixel[l] = pixel + v->pixel_at[from];
        s->flow_at[l] = (int32_t)v->flow_at[from];
    }
    s->table.query = s->pixel;
    const SnlsSieveParts as = snls_sieve_parts(v, !m->prod, s->lost);
    float along[SIEVE_LANES] = {0};
    v->s.queries(s->query, &as, s->pixel, m->prod ? -1.0f : -2.0f, s->norm, m->prod && v->steps > 1 ? v->keys.centre : NULL, along);
    int bearable = 1;
    const float most = largest_norm(v), scale = snls_sieve_scale(v);
    for (int64_t l = 0; l < SIEVE_LANES; l++) bearable &= s->norm[l] < most; /* NaN is not */
    for (int64_t l = 0; l < SIEVE_LANES; l++) s->lack[l] = m->prod ? (v->steps > 1 ? -along[l] * scale * scale : INFINITY) : s->norm[l];
    s->boxes = s->used = 0;
    s->bearable = bearable;
    s->alone = false;
}

/* No product or sum leaves the range of f32 or is none. */
static bool bearable(const CpuSieve *v, const CpuSieveScratch *s) { return s->bearable && s->key_norm < largest_norm(v); }

static void write_tile(const CpuSieve *v, const CpuSieveTile *p, int64_t kept, const CpuSieveScratch *s)
{
    const SnlsMatch *m = &v->c->m;
    const SnlsQuery q = snls_sieve_query(p, 0);
    SnlsListOutput out = snls_cpu_list_output(m, &q, kept);
    out.y = s->y, out.x = s->x;
    out.centre_y = s->centre_y, out.centre_x = s->centre_x;
    out.origin_y = s->origin_y, out.origin_x = s->origin_x;
    out.apart = SIEVE_LANES;
    out.dt = s->dt;
    out.active = p->active;
    out.dist_at = v->dist_at, out.offset_at = v->offset_at, out.index_at = v->index_at;
    v->s.write(&out, s->best, s->place, m->k, v->c->k);
    snls_sieve_keep_awake(v);
}

static void one_by_one(const CpuSieve *v, const CpuSieveTile *p, CpuSieveScratch *s)
{
    for (uint32_t rest = p->active; rest; rest &= rest - 1) {
        const SnlsQuery q = snls_sieve_query(p, __builtin_ctz(rest));
        snls_cpu_match_query(v->c, &q, s->single);
    }
}

static void plan_tile(const CpuSieve *v, const CpuSieveTile *p, int64_t slot, CpuSieveJobs *jobs, CpuSieveScratch *s)
{
    snls_sieve_keep_awake(v);
    snls_sieve_slot(v, p, slot, s);
    for (uint32_t lanes = s->slot[slot].valid; (lanes = snls_sieve_plan_slot(v, p, slot, lanes, jobs, s)) != 0;) {
        if (!bearable(v, s)) break;
        snls_sieve_run_jobs(v, jobs);
        snls_sieve_pick(v, s);
    }
    s->alone = !bearable(v, s);
}

/* Lists of a tile into places kept and on of the outputs. */
static void end_tile(const CpuSieve *v, const CpuSieveTile *p, int64_t kept, CpuSieveScratch *s)
{
    snls_sieve_keep_awake(v);
    snls_sieve_pick(v, s);
    snls_sieve_keep_awake(v);
    write_tile(v, p, kept, s);
    if (v->c->m.each) snls_sieve_begin_lists(v, s);
}

static void run_group(const CpuSieve *v, const CpuSieveTile *p, int count, CpuSieveJobs *jobs, CpuSieveScratch *s)
{
    const SnlsMatch *m = &v->c->m;
    for (int i = 0; i < count; i++) {
        begin_tile(v, &p[i], &s[i]);
        snls_sieve_begin_lists(v, &s[i]);
    }
    for (int64_t slot = 0; slot < m->windows; slot++) {
        const bool skipped = slot == 0 && m->exclude == SNLS_EXCLUDE_FRAME, done = m->each || slot + 1 == m->windows;
        for (int i = 0; i < count; i++)
            if (!skipped && !s[i].alone) plan_tile(v, &p[i], slot, jobs, &s[i]);
        if (done) snls_sieve_run_jobs(v, jobs);
        for (int i = 0; done && i < count; i++)
            if (!s[i].alone) end_tile(v, &p[i], m->each ? slot * m->k : 0, &s[i]);
    }
    for (int i = 0; i < count; i++)
        if (s[i].alone) one_by_one(v, &p[i], &s[i]);
}

/* ---- frames ---- */

/* Queries side by side whose keys fit the second cache together with the rows they share: those of lanes that look alike, as most do. */
static int64_t strip_of(const CpuSieve *v)
{
    const SnlsMatch *m = &v->c->m;
    const int64_t pixel = v->keys.pixel * (int64_t)sizeof(uint16_t) + m->features * (int64_t)sizeof(float);
    const int64_t columns = STRIP_BYTES / (pixel * v->rows_alike * v->keys.ring * m->stride0);
    return columns < PIECE ? PIECE : columns;
}

static uint32_t active_lanes(const CpuSieve *v, const CpuSieveTile *p)
{
    const int64_t rows = at_most(v->down, v->c->m.rows - p->i0), columns = at_most(v->across, v->c->m.columns - p->j0);
    uint32_t active = 0;
    for (int64_t i = 0; i < rows; i++) active |= ((1u << columns) - 1) << i * v->across;
    return active;
}

/* A band of four rows of queries across a strip. */
static void run_band(const CpuSieve *v, const CpuSieveTile *at, int64_t i0, int64_t first, int64_t end, CpuSieveJobs *jobs, CpuSieveScratch *s)
{
    for (int64_t j0 = first; j0 < end; j0 += SIEVE_ACROSS) {
        CpuSieveTile p[SIEVE_GROUP];
        int count = 0;
        for (int64_t n = 0; n < SIEVE_GROUP; n++) {
            CpuSieveTile tile = *at;
            tile.across_bits = __builtin_ctz((unsigned)v->across); /* a power of two: lanes are asked for too often to be divided */
            tile.i0 = i0 + n * v->down % SIEVE_DOWN;
            tile.j0 = j0 + n * v->across % SIEVE_ACROSS;
            if (tile.i0 >= v->c->m.rows || tile.j0 >= end) continue;
            tile.active = active_lanes(v, &tile);
            p[count++] = tile;
        }
        run_group(v, p, count, jobs, s);
    }
}

/* A piece of a band of a strip is a unit of work. */
typedef struct Units { int64_t strip, strips, bands, pieces; } Units;

static Units units_of(const CpuSieve *v)
{
    const SnlsMatch *m = &v->c->m;
    const int64_t most = strip_of(v), strips = (m->columns + most - 1) / most;
    const int64_t strip = ((m->columns + strips - 1) / strips + SIEVE_ACROSS - 1) / SIEVE_ACROSS * SIEVE_ACROSS; /* alike: a narrow one would read keys for a few queries */
    return (Units){strip, (m->columns + strip - 1) / strip, (m->rows + SIEVE_DOWN - 1) / SIEVE_DOWN, (strip + PIECE - 1) / PIECE};
}

/* Each thread has bands of its own, about those whose keys it loaded and still has in its cache, and does them strip by strip; when they are done it
 * takes what others have not begun. */
typedef struct Share { int64_t first, bands, units; } Share;

/* Of all bands of a frame those few, spread over it, that are tried first, or the others. */
typedef struct Bands { int64_t count, all, few; bool others; } Bands;

static int64_t tried_band(const Bands *b, int64_t i) { return (2 * i + 1) * b->all / (2 * b->few); }

static int64_t band_of(const Bands *b, int64_t i)
{
    if (!b->others) return tried_band(b, i);
    for (int64_t n = 0; n < b->few; n++) i += tried_band(b, n) <= i;
    return i;
}

static Share share_of(const Units *n, const Bands *b, int64_t thread, int64_t threads)
{
    const int64_t first = b->count * thread / threads, end = b->count * (thread + 1) / threads;
    return (Share){first, end - first, (end - first) * n->pieces * n->strips};
}

/* The next unit of a share, or one past its end. */
static int64_t take_unit(int64_t *taken)
{
    int64_t u;
#pragma omp atomic capture
    u = (*taken)++;
    return u;
}

static void run_share(const CpuSieve *v, const CpuSieveTile *at, int64_t frames, const Units *n, const Bands *bands, const Share *share, int64_t *taken, CpuSieveJobs *jobs, CpuSieveScratch *s)
{
    for (int64_t u; (u = take_unit(taken)) < share->units;) {
        const int64_t band = u / n->pieces, left = band / share->bands * n->strip, right = at_most(left + n->strip, v->c->m.columns);
        const int64_t x = left + u % n->pieces * PIECE, y = band_of(bands, share->first + band % share->bands) * SIEVE_DOWN;
        for (CpuSieveTile in = *at; in.t < at->t + frames; in.t++) run_band(v, &in, y, x, at_most(x + PIECE, right), jobs, s);
    }
}

/* How many candidates were scored exactly. */
static int64_t run_bands(SnlsContext *ctx, const CpuSieve *v, const CpuSieveTile *at, int64_t frames, const Bands *bands, CpuSieveJobs *jobs, CpuSieveScratch *scratch)
{
    const Units units = units_of(v);
    const int threads = ctx->threads;
    int64_t hits = 0;
    for (int n = 0; n < threads; n++) v->taken[n] = 0;
#pragma omp parallel num_threads(threads) reduction(+ : hits)
    {
        const int own = snls_cpu_thread();
        CpuSieveScratch *s = &scratch[own * SIEVE_GROUP];
        for (int n = 0; n < SIEVE_GROUP; n++) s[n].hits = 0;
        v->s.start();
        for (int n = 0; n < threads; n++) {
            const int whose = (own + n) % threads;
            const Share share = share_of(&units, bands, whose, threads);
            run_share(v, at, frames, &units, bands, &share, &v->taken[whose], &jobs[own], s);
        }
        v->s.stop();
        for (int n = 0; n < SIEVE_GROUP; n++) hits += s[n].hits;
    }
    return hits;
}

static void load_keys(SnlsContext *ctx, const CpuSieve *v, const CpuSieveTile *at, int64_t frames)
{
    const SnlsMatch *m = &v->c->m;
    for (int64_t t = at->t; t < at->t + frames; t++)
        for (int64_t slot = 0; slot < m->windows; slot++) snls_sieve_keys_load(ctx, v, at->b, at->head, snls_slot_frame(t, slot, m->wt, m->frames));
}

/* One part is fastest while few candidates are near the bar. An exact score takes what it takes to read, other ways have more arithmetic: the more features the
 * longer both. The count is the same for any number of threads. */
static int64_t enough_hits(const SnlsMatch *m) { return 2 * m->k + 6 + m->features / 16; }

static bool too_many(const CpuSieve *v, int64_t hits, int64_t queries) { return hits >= enough_hits(&v->c->m) * queries; }

/* The first frames of a call try a few bands before the rest, unless keys are bytes: then sieve_guess.c has looked. */
static void run_frame(SnlsContext *ctx, const CpuSieve *v, const CpuSieveTile *at, CpuSieveJobs *jobs, CpuSieveScratch *scratch, CpuSieveWay *way)
{
    const SnlsMatch *m = &v->c->m;
    const bool asks = way->parts == 1 && !way->settled && !v->s.bytes;
    const int64_t all = units_of(v).bands, few = way->begun == 0 && asks ? at_most(TRIED, (all + 7) / 8) : 0, frames = at_most(v->together, m->frames - at->t), queries = frames * m->rows * m->columns;
    const Bands trial = {few, all, few, false}, others = {all - few, all, few, true};
    load_keys(ctx, v, at, frames);
    const int64_t tried = few ? run_bands(ctx, v, at, frames, &trial, jobs, scratch) : 0;
    way->many = few && too_many(v, tried, queries * few / all);
    if (way->many) return;
    const int64_t rest = run_bands(ctx, v, at, frames, &others, jobs, scratch);
    way->begun += frames;
    way->many = asks && !m->prod && too_many(v, tried + rest, queries); /* products gain nothing by a second part */
}

static void begin_scratch(CpuSieveScratch *s, CpuMatchScratch *single)
{
    s->single = single;
    for (int r = 0; r < SIEVE_BATCH; r++)
        for (int l = 0; l < SIEVE_LANES; l++) {
            s->score[r][l] = INFINITY;
            s->score_place[r][l] = UINT32_MAX;
        }
    memset(s->waiting, 0, sizeof s->waiting);
}

void snls_cpu_sieve_run(SnlsContext *ctx, const CpuMatch *c, CpuMatchScratch *single, CpuSieveWay *way)
{
    const SnlsMatch *m = &c->m;
    const int64_t first = way->begun, all = m->batch * m->heads * m->frames;
    CpuSieve v = sieve_of(ctx, c, way->parts);
    CpuSieveJobs *jobs = snls_arena_claim(&ctx->arena, ctx->threads, sizeof *jobs);
    CpuSieveScratch *scratch = snls_arena_claim(&ctx->arena, ctx->threads * SIEVE_GROUP, sizeof *scratch);
    take_keys(&ctx->arena, ctx->threads, &v, snls_arena_claim);
    set_lanes(&v);
    for (int i = 0; i < ctx->threads; i++) {
        take_group(&ctx->arena, &v, snls_arena_claim, &jobs[i], &scratch[i * SIEVE_GROUP]);
        jobs[i].count = 0;
        for (int n = 0; n < SIEVE_GROUP; n++) begin_scratch(&scratch[i * SIEVE_GROUP + n], &single[i]);
    }
    if (v.s.bytes && !way->settled) {
        snls_sieve_keys_begin(&v, 0, 0);
        way->many = !snls_sieve_promising(&v, enough_hits(m));
    }
    while (way->begun < all && !way->many) {
        const CpuSieveTile at = {.b = way->begun / m->frames / m->heads, .head = way->begun / m->frames % m->heads, .t = way->begun % m->frames};
        if (at.t == 0 || way->begun == first) snls_sieve_keys_begin(&v, at.b, at.head);
        run_frame(ctx, &v, &at, jobs, scratch, way);
    }
}
