/* flow_compose.cu: flow followed over several frames, a thread a query, positions in double as the reference has them.
 * Backward: the same walk, then back along it. What each step pulls at the place it read is added there at once, in whatever order;
 * in deterministic mode it goes into bins (bins.cuh), and every pixel of the fields fetches what is pulled at it. */
#include "cuda/aggregate.cuh"
#include "cuda/bins.cuh"

enum { THREADS = 128 };

/* What a step pulls: where between the pixels (folded), and how much. Before that: where the walk was before the step. */
typedef union __align__(16) Step {
    struct { float fy, fx, x, y; } pull;
    struct { double x, y; } moved;
} Step;

typedef struct ComposeJob {
    SnlsTensor field[2], flow, by_field[2]; /* forward, backward; flow: the output, in the backward pass its gradient */
    int64_t frames, height, width, rows, columns, wt, stride0;
    SnlsDivisor by_frames, by_rows, by_columns;
    SnlsBins bins;                          /* deterministic mode alone */
    Step *steps;
    int64_t source, source_lines, targets_at, target_lines, owner, owner_lines; /* lines, as in spread.cu; of a plane 2*T*H are cells */
} ComposeJob;

typedef struct Query { int64_t b, t, i, j, ahead; } Query;

static __device__ __forceinline__ Query query_of(const ComposeJob *s, uint32_t number)
{
    Query q;
    const uint32_t row = snls_divide(number, s->by_columns), line = row + (uint32_t)s->source, clip = snls_divide(line, s->by_rows);
    const uint32_t b = snls_divide(clip, s->by_frames);
    q.j = number - row * s->by_columns.divisor;
    q.i = line - clip * s->by_rows.divisor;
    q.t = clip - b * s->by_frames.divisor;
    q.b = b;
    /* slots 1 to ahead go forward: frames t+1 to the window's last */
    const int64_t before = q.t - s->wt < 0 ? q.t - s->wt : 0, after = q.t + s->wt - (s->frames - 1) > 0 ? q.t + s->wt - (s->frames - 1) : 0;
    const int64_t last = q.t + s->wt - (before + after);
    q.ahead = (last < s->frames - 1 ? last : s->frames - 1) - q.t;
    return q;
}

/* As SnlsTaps. */
typedef struct FlowTaps { int32_t at[2]; double weight[2]; } FlowTaps;

static __device__ __forceinline__ FlowTaps taps_at(double z, int32_t n)
{
    const int32_t i = (int32_t)z;
    const double f = z - (double)i;
    const FlowTaps taps = {{i, i + 1 < n ? i + 1 : n > 1 ? n - 2 : 0}, {1 - f, f}};
    return taps;
}

typedef struct FlowRead { FlowTaps y, x; double value[2], by_y[2], by_x[2]; bool valid; } FlowRead;

/* Nested, so that a constant field is read exactly; a tap of weight 0 is not read. */
static __device__ __forceinline__ double mix_taps(const float tap[4], const FlowRead *r)
{
    const double up = r->x.weight[1] == 0 ? (double)tap[0] : (double)tap[0] + r->x.weight[1] * ((double)tap[1] - (double)tap[0]);
    if (r->y.weight[1] == 0) return up;
    const double low = r->x.weight[1] == 0 ? (double)tap[2] : (double)tap[2] + r->x.weight[1] * ((double)tap[3] - (double)tap[2]);
    return up + r->y.weight[1] * (low - up);
}

static __device__ __forceinline__ void mix_slopes(const float tap[4], int c, float slope_y, float slope_x, FlowRead *r)
{
    const double *const wx = r->x.weight, *const wy = r->y.weight;
    double by_y = 0, by_x = 0;
    if (wx[0] != 0) by_y += wx[0] * ((double)tap[2] - (double)tap[0]);
    if (wx[1] != 0) by_y += wx[1] * ((double)tap[3] - (double)tap[1]);
    if (wy[0] != 0) by_x += wy[0] * ((double)tap[1] - (double)tap[0]);
    if (wy[1] != 0) by_x += wy[1] * ((double)tap[3] - (double)tap[2]);
    r->by_y[c] = (double)slope_y * by_y;
    r->by_x[c] = (double)slope_x * by_x;
}

static __device__ __forceinline__ FlowRead read_flow(const SnlsTensor *t, int64_t b, int64_t frame, double y, double x, bool slopes)
{
    FlowRead r;
    const int32_t height = (int32_t)t->shape[2], width = (int32_t)t->shape[3];
    r.valid = isfinite(y) && isfinite(x); /* an undefined position has an undefined motion */
    r.value[0] = r.value[1] = NAN;
    if (!r.valid) return r;
    float slope_y, slope_x, tap[2][4];
    r.y = taps_at(snls_agg_reflect(y, height, &slope_y), height);
    r.x = taps_at(snls_agg_reflect(x, width, &slope_x), width);
    const float *const at = (const float *)t->data + b * t->stride[0] + frame * t->stride[1];
    const int64_t rows[2] = {r.y.at[0] * t->stride[2], r.y.at[1] * t->stride[2]}, columns[2] = {r.x.at[0] * t->stride[3], r.x.at[1] * t->stride[3]};
#pragma unroll
    for (int i = 0; i < 4; i++) { /* all four lie in the frame */
        tap[0][i] = __ldg(at + rows[i / 2] + columns[i % 2]);
        tap[1][i] = __ldg(at + rows[i / 2] + columns[i % 2] + t->stride[4]);
    }
#pragma unroll
    for (int c = 0; c < 2; c++) {
        r.value[c] = mix_taps(tap[c], &r);
        if (slopes) mix_slopes(tap[c], c, slope_y, slope_x, &r);
    }
    r.valid = !isnan(r.value[0]) && !isnan(r.value[1]);
    return r;
}

static __global__ void __launch_bounds__(THREADS) walk_forward(const __grid_constant__ ComposeJob s)
{
    for (SNLS_CUDA_EACH(number, s.source_lines * s.columns)) {
        const Query q = query_of(&s, (uint32_t)number);
        float *const to = (float *)s.flow.data + snls_at5(&s.flow, q.b, q.t, 0, q.i, q.j);
        double x = 0, y = 0;
        for (int32_t slot = 0; slot < 2 * (int32_t)s.wt; slot++) {
            const bool back = slot >= q.ahead;
            if (slot == q.ahead) x = y = 0;
            const int32_t frame = (int32_t)(back ? q.t - (slot - q.ahead) : q.t + slot);
            const FlowRead f = read_flow(&s.field[back], q.b, frame, (double)(q.i * s.stride0) + y, (double)(q.j * s.stride0) + x, false);
            x += f.value[0];
            y += f.value[1];
            to[slot * s.flow.stride[2]] = (float)x;
            to[slot * s.flow.stride[2] + s.flow.stride[5]] = (float)y;
        }
    }
}

/* ---- backward ---- */

/* What a step pulls goes to the taps it read, at once. */
static __device__ void add_pull(const SnlsTensor *to, int64_t b, int64_t frame, const FlowRead *f, double x, double y)
{
#pragma unroll
    for (int tap = 0; tap < 4; tap++) {
        const double w = f->y.weight[tap / 2] * f->x.weight[tap % 2];
        if (w == 0) continue;
        float *const at = (float *)to->data + b * to->stride[0] + frame * to->stride[1] + f->y.at[tap / 2] * to->stride[2] + f->x.at[tap % 2] * to->stride[3];
        atomicAdd(at, (float)(w * x));
        atomicAdd(at + to->stride[4], (float)(w * y));
    }
}

/* ... or into its bin. */
static __device__ void keep_pull(const ComposeJob *s, const Query *q, int back, int64_t frame, const FlowRead *f, double x, double y, int64_t entry)
{
    const int64_t line = ((q->b * 2 + back) * s->frames + frame) * s->height + f->y.at[0] - s->targets_at;
    const bool here = line >= 0 && line < s->target_lines;
    s->steps[entry].pull = {snls_fold(f->y.weight[1]), snls_fold(f->x.weight[1]), (float)x, (float)y};
    snls_bin_count(&s->bins, entry, here ? (uint32_t)(line * s->width + f->x.at[0]) : SNLS_BIN_NONE);
}

/* The walk, its steps kept for the way back: the first few here, all of them in the bins' steps where there are any. */
enum { KEPT = 8 };

static __device__ __forceinline__ double2 place_of(const ComposeJob *s, const Query *q, int back, int64_t first, int64_t slot, const double2 *kept, int64_t entry)
{
    if (slot - first < KEPT) return kept[slot - first];
    if (s->steps) return make_double2(s->steps[entry + slot].moved.x, s->steps[entry + slot].moved.y);
    double x = kept[KEPT - 1].x, y = kept[KEPT - 1].y; /* a long walk without steps: once more from the last one kept */
    for (int64_t n = KEPT - 1; n < slot - first; n++) {
        const FlowRead f = read_flow(&s->field[back], q->b, back ? q->t - n : q->t + n, (double)(q->i * s->stride0) + y, (double)(q->j * s->stride0) + x, false);
        x += f.value[0];
        y += f.value[1];
    }
    return make_double2(x, y);
}

static __device__ void walk_back(const ComposeJob *s, const Query *q, int back, int64_t entry)
{
    const SnlsTensor *const field = &s->field[back];
    const int64_t first = back ? q->ahead : 0, end = back ? 2 * s->wt : q->ahead;
    const double qy = (double)(q->i * s->stride0), qx = (double)(q->j * s->stride0);
    double2 kept[KEPT];
    double x = 0, y = 0;
    for (int64_t slot = first; slot < end; slot++) {
        if (slot - first < KEPT) kept[slot - first] = make_double2(x, y);
        else if (s->steps) s->steps[entry + slot].moved = {x, y};
        else break;
        if (slot + 1 == end) continue;
        const FlowRead f = read_flow(field, q->b, back ? q->t - (slot - first) : q->t + slot - first, qy + y, qx + x, false);
        x += f.value[0];
        y += f.value[1];
    }
    x = y = 0; /* now what is pulled */
    for (int64_t slot = end; slot-- > first;) {
        const double2 moved = place_of(s, q, back, first, slot, kept, entry);
        const int64_t frame = back ? q->t - (slot - first) : q->t + slot - first;
        const FlowRead f = read_flow(field, q->b, frame, qy + moved.y, qx + moved.x, true);
        if (!f.valid) { /* nothing to learn from an undefined walk */
            x = y = 0;
            if (s->steps) snls_bin_count(&s->bins, entry + slot, SNLS_BIN_NONE);
            continue;
        }
        const float *const g = (const float *)s->flow.data + snls_at6(&s->flow, q->b, q->t, slot, q->i, q->j, 0);
        x += g[0];
        y += g[s->flow.stride[5]];
        if (s->steps) keep_pull(s, q, back, frame, &f, x, y, entry + slot);
        else add_pull(&s->by_field[back], q->b, frame, &f, x, y);
        const double by_x = x * f.by_x[0] + y * f.by_x[1], by_y = x * f.by_y[0] + y * f.by_y[1];
        x += by_x; /* the way before this step moves the result and the place it was read at */
        y += by_y;
    }
}

/* A direction whose gradient nobody wants has no part in the bins. */
static __device__ void leave_out(const ComposeJob *s, const Query *q, int back, int64_t entry)
{
    const int64_t first = back ? q->ahead : 0, end = back ? 2 * s->wt : q->ahead;
    for (int64_t slot = first; s->steps && slot < end; slot++) snls_bin_count(&s->bins, entry + slot, SNLS_BIN_NONE);
}

static __global__ void __launch_bounds__(THREADS) walk_backward(const __grid_constant__ ComposeJob s)
{
    for (SNLS_CUDA_EACH(number, s.source_lines * s.columns * 2)) {
        const Query q = query_of(&s, (uint32_t)(number / 2));
        const int back = (int)(number % 2);
        if (s.by_field[back].data) walk_back(&s, &q, back, number / 2 * 2 * s.wt);
        else leave_out(&s, &q, back, number / 2 * 2 * s.wt);
    }
}

static __device__ __forceinline__ void fetch_cell(const ComposeJob *s, int64_t cell, bool low_y, bool low_x, double *x, double *y)
{
    for (uint32_t at = snls_bin_begin(&s->bins, cell); at < s->bins.ends[cell]; at++) {
        const Step step = s->steps[s->bins.list[at]];
        const float wy = low_y ? snls_fold_high(step.pull.fy) : snls_fold_low(step.pull.fy), wx = low_x ? snls_fold_high(step.pull.fx) : snls_fold_low(step.pull.fx);
        if (wy == 0 || wx == 0) continue;
        *x += (double)(wy * wx) * (double)step.pull.x;
        *y += (double)(wy * wx) * (double)step.pull.y;
    }
}

static __global__ void __launch_bounds__(THREADS) fetch(const __grid_constant__ ComposeJob s)
{
    for (SNLS_CUDA_EACH(pixel, s.owner_lines * s.width)) {
        const int64_t j = pixel % s.width, line = pixel / s.width + s.owner, i = line % s.height;
        const int64_t plane = line / s.height, frame = plane % s.frames, b = plane / s.frames / 2, back = plane / s.frames % 2;
        const int64_t cell = (line - s.targets_at) * s.width + j;
        const SnlsTensor *const to = back ? &s.by_field[1] : &s.by_field[0];
        if (!to->data) continue;
        double x = 0, y = 0;
        fetch_cell(&s, cell, false, false, &x, &y);
        if (j > 0) fetch_cell(&s, cell - 1, false, true, &x, &y);
        if (i > 0) fetch_cell(&s, cell - s.width, true, false, &x, &y);
        if (i > 0 && j > 0) fetch_cell(&s, cell - s.width - 1, true, true, &x, &y);
        float *const at = (float *)to->data + snls_at5(to, b, frame, i, j, 0);
        at[0] = (float)((double)at[0] + x);
        at[to->stride[4]] = (float)((double)at[to->stride[4]] + y);
    }
}

/* ---- host side ---- */

static ComposeJob job_of(const SnlsFlowCompose *s)
{
    ComposeJob job;
    memset(&job, 0, sizeof job);
    job.field[0] = s->fflow;
    job.field[1] = s->bflow;
    job.flow = s->flow;
    job.frames = s->fflow.shape[1];
    job.height = s->fflow.shape[2];
    job.width = s->fflow.shape[3];
    job.wt = s->params.wt;
    job.stride0 = s->params.stride0;
    job.rows = (job.height - 1) / job.stride0 + 1;
    job.columns = (job.width - 1) / job.stride0 + 1;
    job.source_lines = s->fflow.shape[0] * job.frames * job.rows;
    job.by_frames = snls_divisor(job.frames);
    job.by_rows = snls_divisor(job.rows);
    job.by_columns = snls_divisor(job.columns);
    return job;
}

static SnlsStatus take(SnlsContext *ctx, const SnlsFlowCompose *s)
{
    SNLS_TRY(snls_cuda_take_numbers(ctx, "flow_compose", "fflow", &s->fflow));
    SNLS_TRY(snls_cuda_take_numbers(ctx, "flow_compose", "bflow", &s->bflow));
    const int64_t *const n = s->fflow.shape;
    SNLS_REQUIRE(ctx, n[2] < INT32_MAX && n[3] < INT32_MAX && n[1] < INT32_MAX / n[2] && n[0] < INT32_MAX / (n[1] * n[2]) &&
                 n[0] * n[1] * n[2] < INT32_MAX / n[3], SNLS_ERR_UNSUPPORTED, "flow_compose: backend cuda takes less than 2^31-1 pixels in one call");
    return snls_cuda_take_numbers(ctx, "flow_compose", "flow", &s->flow);
}

extern "C" SnlsStatus snls_cuda_flow_compose_forward(SnlsContext *ctx, const SnlsFlowCompose *s)
{
    SNLS_TRY(take(ctx, s));
    const ComposeJob job = job_of(s);
    if (!job.wt) return SNLS_OK;
    walk_forward<<<snls_cuda_blocks(job.source_lines * job.columns, THREADS, 0), THREADS, 0, snls_cuda_stream(ctx)>>>(job);
    SNLS_CUDA_LAUNCHED(ctx, "flow_compose");
    return SNLS_OK;
}

static SnlsStatus run_part(SnlsContext *ctx, const ComposeJob *job)
{
    const cudaStream_t stream = snls_cuda_stream(ctx);
    SNLS_TRY(snls_bins_begin(ctx, "flow_compose", &job->bins));
    walk_backward<<<snls_cuda_blocks(job->source_lines * job->columns * 2, THREADS, 0), THREADS, 0, stream>>>(*job);
    SNLS_CUDA_LAUNCHED(ctx, "flow_compose");
    SNLS_TRY(snls_bins_scan(ctx, "flow_compose", &job->bins));
    SNLS_TRY(snls_bins_fill(ctx, "flow_compose", &job->bins, true));
    fetch<<<snls_cuda_blocks(job->owner_lines * job->width, THREADS, 0), THREADS, 0, stream>>>(*job);
    SNLS_CUDA_LAUNCHED(ctx, "flow_compose");
    return SNLS_OK;
}

/* Lines `begin` on of the sources, to every line of their planes. */
static SnlsStatus run_sources(SnlsContext *ctx, ComposeJob *job, const SnlsBinCut *cut, int64_t begin, int64_t count)
{
    const int64_t plane = begin / cut->source_lines, planes = (count + cut->source_lines - 1) / cut->source_lines;
    const int64_t last = (plane + planes) * cut->target_lines;
    job->source = begin;
    job->source_lines = count;
    for (int64_t at = plane * cut->target_lines; at < last; at += cut->targets) {
        job->owner = at;
        job->owner_lines = last - at < cut->targets ? last - at : cut->targets;
        job->targets_at = at > plane * cut->target_lines ? at - 1 : at; /* the line above reaches down */
        job->target_lines = at + job->owner_lines - job->targets_at;
        job->bins.entries = count * job->columns * 2 * job->wt;
        job->bins.cells = job->target_lines * job->width;
        SNLS_TRY(run_part(ctx, job));
    }
    return SNLS_OK;
}

static SnlsStatus run_ordered(SnlsContext *ctx, const SnlsFlowCompose *s, const SnlsFlowComposeGrad *g, ComposeJob *job)
{
    const SnlsTensor *const tensors[] = {&s->fflow, &s->bflow, &g->flow, &g->fflow, &g->bflow};
    const int64_t line = job->columns * 2 * job->wt;
    SnlsBinCut cut = {s->fflow.shape[0], job->frames * job->rows, 2 * job->frames * job->height, 0, 0};
    SNLS_REQUIRE(ctx, snls_bins_cut(&cut, snls_bins_budget(tensors, 5), line, job->width, SNLS_BIN_ENTRY + (int64_t)sizeof(Step)), SNLS_ERR_UNSUPPORTED,
                 "flow_compose: rows are longer than backend cuda takes");
    snls_arena_begin(&ctx->arena);
    snls_bins_plan(ctx, cut.sources * line, (cut.targets + 1) * job->width);
    snls_arena_plan(&ctx->arena, cut.sources * line, sizeof(Step));
    SNLS_TRY(snls_cuda_commit(ctx, "flow_compose"));
    snls_bins_claim(ctx, &job->bins, cut.sources * line, (cut.targets + 1) * job->width);
    job->steps = (Step *)snls_arena_claim(&ctx->arena, cut.sources * line, sizeof(Step));
    const int64_t all = cut.planes * cut.source_lines;
    for (int64_t begin = 0; begin < all;) {
        const int64_t end = cut.sources < cut.source_lines ? (begin / cut.source_lines + 1) * cut.source_lines : all; /* parts of a plane end with it */
        const int64_t count = end - begin < cut.sources ? end - begin : cut.sources;
        SNLS_TRY(run_sources(ctx, job, &cut, begin, count));
        begin += count;
    }
    return SNLS_OK;
}

extern "C" SnlsStatus snls_cuda_flow_compose_backward(SnlsContext *ctx, const SnlsFlowCompose *s, const SnlsFlowComposeGrad *g)
{
    SnlsFlowCompose inputs = *s;
    inputs.flow = g->flow;
    SNLS_TRY(take(ctx, &inputs));
    SNLS_TRY(snls_cuda_take_numbers(ctx, "flow_compose", "gradient of fflow", &g->fflow));
    SNLS_TRY(snls_cuda_take_numbers(ctx, "flow_compose", "gradient of bflow", &g->bflow));
    ComposeJob job = job_of(&inputs);
    if (!job.wt || (!g->fflow.data && !g->bflow.data)) return SNLS_OK;
    job.by_field[0] = g->fflow;
    job.by_field[1] = g->bflow;
    if (ctx->deterministic) return run_ordered(ctx, s, g, &job);
    walk_backward<<<snls_cuda_blocks(job.source_lines * job.columns * 2, THREADS, 0), THREADS, 0, snls_cuda_stream(ctx)>>>(job);
    SNLS_CUDA_LAUNCHED(ctx, "flow_compose");
    return SNLS_OK;
}
