/* flow_compose.c: flow followed over several frames. Blocks of queries of a row walk side by side (simd/walk.h); rows run in
 * parallel. Backward: a band of rows of all frames of fflow or bflow has one owner, which goes through all walks that reach it. */
#include "cpu/threads.h"
#include "cpu/video.h"
#include "op/geometry.h"
#include "simd/walk.h"
#include <string.h>

typedef struct Compose {
    const SnlsTensor *flow;  /* what is written, or the gradient by it */
    CpuVideo field[2], to[2];/* fflow and bflow, and the gradients by them */
    SnlsWalkLoops loops;
    int64_t frames, height, width, rows, columns, wt, stride0;
} Compose;

typedef struct Block { /* queries of a row on their way in one direction */
    const Compose *c;
    int64_t b, t, i, j, queries, dir;      /* dir: 0 through fflow, 1 through bflow */
    int64_t first, length;                 /* slots */
    SnlsWalkStart start;
    double moved[2 * SNLS_WALK];
    float room[2 * SNLS_WALK], *out;       /* where the displacements go */
} Block;

/* Slots 0 .. ahead-1 of a query's flow go forward through fflow, the rest backward through bflow. */
static int64_t slots_ahead(int64_t t, int64_t wt, int64_t frames)
{
    int64_t n = 0;
    while (n < 2 * wt && snls_slot_frame(t, n + 1, wt, frames) > t) n++;
    return n;
}

static SnlsStatus take(SnlsContext *ctx, const SnlsFlowCompose *s)
{
    SNLS_TRY(snls_cpu_take_numbers(ctx, "flow_compose", "fflow", &s->fflow));
    SNLS_TRY(snls_cpu_take_numbers(ctx, "flow_compose", "bflow", &s->bflow));
    return snls_cpu_take_numbers(ctx, "flow_compose", "flow", &s->flow);
}

static Compose compose_of(SnlsContext *ctx, const SnlsFlowCompose *s, const SnlsTensor *flow)
{
    Compose c = {.flow = flow, .frames = s->fflow.shape[1], .height = s->fflow.shape[2], .width = s->fflow.shape[3], .rows = flow->shape[3],
                 .columns = flow->shape[4], .wt = s->params.wt, .stride0 = s->params.stride0};
    snls_walk_loops(&c.loops, ctx->cpu_level);
    return c;
}

/* ---- walks ---- */

static void block_begin(Block *k, int64_t j)
{
    const Compose *c = k->c;
    const int64_t ahead = slots_ahead(k->t, c->wt, c->frames);
    k->j = j;
    k->queries = c->columns - j < SNLS_WALK ? c->columns - j : SNLS_WALK;
    k->first = k->dir ? ahead : 0;
    k->length = k->dir ? 2 * c->wt - ahead : ahead;
    k->start = (SnlsWalkStart){(double)(j * c->stride0), (double)(k->i * c->stride0), (double)c->stride0};
    k->out = k->room;
    memset(k->moved, 0, sizeof k->moved);
}

static SnlsWalkField field_of(const Compose *c, const CpuVideo *v, int64_t b, int64_t frame)
{
    return (SnlsWalkField){snls_cpu_pixel(v, b, frame, 0, 0), {v->step[3], v->step[2]}, {c->width, c->height}};
}

/* Queries of whole vectors; those behind the last go on in its row. */
static int64_t whole(const Block *k) { return (k->queries + SNLS_WALK_MULTIPLE - 1) / SNLS_WALK_MULTIPLE * SNLS_WALK_MULTIPLE; }

/* Places of those that fold left: reflected any number of times. Returns a bit for each query whose position is not finite; it reads anything then. */
static uint64_t fold_far(const Block *k, SnlsWalkStep *step)
{
    const int64_t size[2] = {k->c->width, k->c->height};
    uint64_t lost = 0;
    for (int64_t i = 0; i < 2 * whole(k); i++) {
        const double start = i % 2 ? k->start.y : k->start.x + (double)(i / 2) * k->start.step, x = start + k->moved[i];
        if (!isfinite(x)) lost |= (uint64_t)1 << i / 2;
        if (step->place[i] >= 0 && step->place[i] <= (double)(size[i % 2] - 1)) continue;
        step->place[i] = isfinite(x) ? snls_reflect_real(x, size[i % 2]) : 0;
        step->slope[i] = isfinite(x) ? snls_reflect_slope(x, size[i % 2]) : 0;
    }
    return lost;
}

/* A position that is not finite has no motion. */
static void lose(Block *k, SnlsWalkStep *step, uint64_t lost)
{
    for (int64_t i = 0; i < 2 * whole(k); i++)
        if (lost >> i / 2 & 1) {
            k->moved[i] = k->out[i] = NAN;
            step->defined[i] = 0;
        }
}

/* The n-th step of a walk. */
static void block_step(Block *k, int64_t n, SnlsWalkStep *step, bool slopes)
{
    const Compose *c = k->c;
    const SnlsWalkField field = field_of(c, &c->field[k->dir], k->b, k->dir ? k->t - n : k->t + n);
    const bool far = c->loops.fold(step, &k->start, k->moved, field.size, whole(k));
    const uint64_t lost = far ? fold_far(k, step) : 0;
    (slopes ? c->loops.read_slopes : c->loops.read)(k->out, k->moved, step, &field, whole(k));
    if (lost) lose(k, step, lost);
}

/* ---- forward ---- */

static float *flow_at(const Block *k, int64_t n)
{
    return (float *)k->c->flow->data + snls_at6(k->c->flow, k->b, k->t, k->first + n, k->i, k->j, 0);
}

/* Pairs of a row of flow: side by side in most arrays. */
static bool in_order(const SnlsTensor *flow) { return flow->stride[5] == 1 && flow->stride[4] == 2; }

static void put_flow(const Block *k, int64_t n)
{
    const SnlsTensor *flow = k->c->flow;
    float *to = flow_at(k, n);
    if (in_order(flow)) { memcpy(to, k->out, (size_t)k->queries * 2 * sizeof *to); return; }
    for (int64_t i = 0; i < 2 * k->queries; i++) to[i / 2 * flow->stride[4] + i % 2 * flow->stride[5]] = k->out[i];
}

static void compose_row(Block *k, SnlsWalkStep *step)
{
    for (int64_t j = 0; j < k->c->columns; j += SNLS_WALK) {
        block_begin(k, j);
        for (int64_t n = 0; n < k->length; n++) {
            const bool in_place = in_order(k->c->flow) && whole(k) == k->queries;
            k->out = in_place ? flow_at(k, n) : k->room;
            block_step(k, n, step, false);
            if (!in_place) put_flow(k, n);
        }
    }
}

SnlsStatus snls_cpu_flow_compose_forward(SnlsContext *ctx, const SnlsFlowCompose *s)
{
    SNLS_TRY(take(ctx, s));
    Compose c = compose_of(ctx, s, &s->flow);
    snls_arena_begin(&ctx->arena);
    snls_cpu_video_plan(ctx, &s->fflow);
    snls_cpu_video_plan(ctx, &s->bflow);
    SNLS_TRY(snls_scratch_commit(ctx, "flow_compose"));
    snls_cpu_video_claim(ctx, &c.field[0], &s->fflow);
    snls_cpu_video_claim(ctx, &c.field[1], &s->bflow);
    const int64_t units = s->fflow.shape[0] * c.frames * c.rows;
#pragma omp parallel for num_threads(ctx->threads) schedule(static)
    for (int64_t u = 0; u < units; u++)
        for (int dir = 0; dir < 2; dir++) {
            Block block = {.c = &c, .b = u / c.rows / c.frames, .t = u / c.rows % c.frames, .i = u % c.rows, .dir = dir};
            SnlsWalkStep step;
            compose_row(&block, &step);
        }
    return SNLS_OK;
}

/* ---- backward ---- */

typedef struct Reach { double low, high; } Reach; /* places of a row's walks along y */

typedef struct Owner { /* rows [first, end) of the gradients of one direction's fields */
    const Compose *c;
    int64_t b, dir, first, end;
    const Reach *reach;  /* of a row of queries, (frames, rows); NULL: not known */
    SnlsWalkStep *steps; /* 2*wt */
} Owner;

static void note_reach(Reach *reach, const SnlsWalkStep *step, int64_t queries)
{
    double low = reach->low, high = reach->high;
    for (int64_t q = 0; q < queries; q++) {
        low = step->place[2 * q + 1] < low ? step->place[2 * q + 1] : low;
        high = step->place[2 * q + 1] > high ? step->place[2 * q + 1] : high;
    }
    *reach = (Reach){low, high};
}

static void reach_row(Block *k, SnlsWalkStep *step, Reach *reach)
{
    *reach = (Reach){INFINITY, -INFINITY};
    for (int64_t j = 0; j < k->c->columns; j += SNLS_WALK) {
        block_begin(k, j);
        for (int64_t n = 0; n < k->length; n++) {
            block_step(k, n, step, false);
            note_reach(reach, step, k->queries);
        }
    }
}

static void take_seed(const Block *k, int64_t n, float *seed)
{
    const SnlsTensor *flow = k->c->flow;
    const float *from = flow_at(k, n);
    if (in_order(flow)) { memcpy(seed, from, (size_t)k->queries * 2 * sizeof *seed); return; }
    for (int64_t i = 0; i < 2 * k->queries; i++) seed[i] = from[i / 2 * flow->stride[4] + i % 2 * flow->stride[5]];
}

/* To the end of the walks of a row, then back; a step reads the field that it pulls on. */
static void pull_row(const Owner *o, Block *k)
{
    for (int64_t j = 0; j < o->c->columns; j += SNLS_WALK) {
        double pull[2 * SNLS_WALK] = {0};
        float seed[2 * SNLS_WALK] = {0};
        block_begin(k, j);
        for (int64_t n = 0; n < k->length; n++) block_step(k, n, &o->steps[n], true);
        for (int64_t n = k->length; n-- > 0;) {
            const SnlsWalkField to = field_of(o->c, &o->c->to[o->dir], o->b, o->dir ? k->t - n : k->t + n);
            take_seed(k, n, seed);
            o->c->loops.pull(&to, o->first, o->end, pull, seed, &o->steps[n], k->queries);
        }
    }
}

static void pull_band(const Owner *o)
{
    for (int64_t u = 0; u < o->c->frames * o->c->rows; u++) {
        Block block = {.c = o->c, .b = o->b, .t = u / o->c->rows, .i = u % o->c->rows, .dir = o->dir};
        if (o->reach && (o->reach[u].high + 1 < (double)o->first || o->reach[u].low >= (double)o->end)) continue;
        pull_row(o, &block);
    }
}

/* Bands enough to keep all threads at work, of rows enough that few walks reach two. The sums do not depend on it. */
static int64_t band_count(const SnlsContext *ctx, const Compose *c, int64_t clips)
{
    enum { LEAST_ROWS = 16 };
    if (ctx->threads == 1 || !clips) return 1;
    const int64_t wanted = (4 * ctx->threads + 2 * clips - 1) / (2 * clips), most = c->height / LEAST_ROWS;
    return wanted < most ? wanted : most > 0 ? most : 1;
}

/* How far the walks of each row of queries go: (direction, clip, frame, row). */
static void note_all(SnlsContext *ctx, const Compose *c, int64_t clips, Reach *reach)
{
    const int64_t rows = clips * c->frames * c->rows;
#pragma omp parallel for num_threads(ctx->threads) schedule(static)
    for (int64_t u = 0; u < 2 * rows; u++) {
        Block block = {.c = c, .b = u % rows / c->rows / c->frames, .t = u / c->rows % c->frames, .i = u % c->rows, .dir = u / rows};
        SnlsWalkStep step;
        if (c->to[block.dir].data) reach_row(&block, &step, &reach[u]);
    }
}

static void pull_all(SnlsContext *ctx, const Compose *c, int64_t clips, int64_t bands, const Reach *reach, SnlsWalkStep *steps)
{
#pragma omp parallel for num_threads(ctx->threads) schedule(dynamic, 1)
    for (int64_t u = 0; u < 2 * clips * bands; u++) {
        const int64_t band = u % bands, clip = u / bands; /* of both directions */
        const Owner o = {.c = c, .b = clip % clips, .dir = clip / clips, .first = band * c->height / bands, .end = (band + 1) * c->height / bands,
                         .reach = reach ? reach + clip * c->frames * c->rows : NULL, .steps = steps + snls_cpu_thread() * 2 * c->wt};
        if (c->to[o.dir].data) pull_band(&o);
    }
}

SnlsStatus snls_cpu_flow_compose_backward(SnlsContext *ctx, const SnlsFlowCompose *s, const SnlsFlowComposeGrad *g)
{
    SNLS_TRY(take(ctx, s));
    SNLS_TRY(snls_cpu_take_numbers(ctx, "flow_compose", "gradient of flow", &g->flow));
    SNLS_TRY(snls_cpu_take_numbers(ctx, "flow_compose", "gradient of fflow", &g->fflow));
    SNLS_TRY(snls_cpu_take_numbers(ctx, "flow_compose", "gradient of bflow", &g->bflow));
    Compose c = compose_of(ctx, s, &g->flow); /* backward needs no flow, but its shape */
    const SnlsTensor *in[2] = {&s->fflow, &s->bflow}, *out[2] = {&g->fflow, &g->bflow};
    const int64_t clips = s->fflow.shape[0], bands = band_count(ctx, &c, clips), noted = bands > 1 ? 2 * clips * c.frames * c.rows : 0;
    snls_arena_begin(&ctx->arena);
    for (int d = 0; d < 2; d++) snls_cpu_video_plan(ctx, in[d]), snls_cpu_sum_plan(ctx, out[d]);
    snls_arena_plan(&ctx->arena, ctx->threads * 2 * c.wt, sizeof(SnlsWalkStep));
    snls_arena_plan(&ctx->arena, noted, sizeof(Reach));
    SNLS_TRY(snls_scratch_commit(ctx, "flow_compose"));
    for (int d = 0; d < 2; d++) snls_cpu_video_claim(ctx, &c.field[d], in[d]), snls_cpu_sum_claim(ctx, &c.to[d], out[d]);
    SnlsWalkStep *steps = snls_arena_claim(&ctx->arena, ctx->threads * 2 * c.wt, sizeof *steps);
    Reach *reach = snls_arena_claim(&ctx->arena, noted, sizeof *reach);
    if (noted) note_all(ctx, &c, clips, reach);
    pull_all(ctx, &c, clips, bands, noted ? reach : NULL, steps);
    for (int d = 0; d < 2; d++) snls_cpu_sum_finish(ctx, &c.to[d], out[d]);
    return SNLS_OK;
}
