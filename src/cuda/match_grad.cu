/* match_grad.cu: gradients of search, search_all and refine (docs/operators.md section 6). A warp has a few places of the query grid.
 * First each lane finds one of their kept neighbours again from its number; then the neighbours of a query are worked on side by
 * side, each by `parts` lanes. What goes to the query's pixel is summed over the neighbours first; what goes to the flow has this
 * warp as its owner; what goes to key pixels is added through a sink (sink.h). Patches of 3 x 3 inside the frame: match_patch.h. */
#include "cuda/match_patch.h"

enum { WARPS = 4, CHUNK_BYTES = 48 << 20 };

static __device__ Kept find_kept(const CudaGrad *p, int64_t unit, int64_t head, int64_t kept)
{
    const SnlsMatch *m = &p->c.m;
    const int64_t line = unit / m->columns, plane = line / m->rows;
    const SnlsQuery q = {plane / m->frames, head, plane % m->frames, line - plane * m->rows, unit - line * m->columns};
    Kept k = {.b = (int32_t)q.b, .t = (int32_t)q.t, .i = (int32_t)q.i, .j = (int32_t)q.j};
    const int32_t id = ((const int32_t *)m->index.data)[snls_at6(&m->index, q.b, q.head, q.t, q.i, q.j, kept)];
    if (id < 0 || id >= m->windows * m->side * m->side) return k;
    const uint32_t side = (uint32_t)m->side, window = (uint32_t)id / (side * side), cell = (uint32_t)id - window * side * side, row = cell / side;
    const SnlsMatchWindow w = snls_match_window(m, &q, window);
    const int64_t frame = q.b * m->frames + w.frame;
    k.window = (int32_t)window;
    k.frame = (int32_t)w.frame;
    k.slope_y = (float)w.slope_y;
    k.slope_x = (float)w.slope_x;
    k.y = snls_match_y(m, &w, row);
    k.x = snls_match_x(m, &w, cell - row * side);
    k.valid = w.valid && snls_inside(k.y, m->height) && snls_inside(k.x, m->width);
    if (p->dist.data) k.g = ((const float *)p->dist.data)[snls_at6(&p->dist, q.b, q.head, q.t, q.i, q.j, kept)];
    if (p->key.mode) k.valid = k.valid && frame >= p->key.first && frame < p->key.end; /* else not of this chunk */
    return k;
}

/* d place: by_key with the differences of the taps along each axis. A column (row) of weight 0 is not read. */
static __device__ void pull_place(Place *place, const CudaPair *pair, const CudaAxis *y, const CudaAxis *x, int64_t quad, float4 by_key)
{
    float down = 0, right = 0;
    for (int i = 0; i < 2; i++) {
        if (x->key.weight[i] != 0)
            down += (float)x->key.weight[i] * snls_cuda_dot(by_key, snls_cuda_minus(pair->key[1][i][quad], pair->key[0][i][quad]), 0);
        if (y->key.weight[i] != 0)
            right += (float)y->key.weight[i] * snls_cuda_dot(by_key, snls_cuda_minus(pair->key[i][1][quad], pair->key[i][0][quad]), 0);
    }
    place->y += (float)y->slope * down;
    place->x += (float)x->slope * right;
}

/* One quad of features of one pair of pixels. there: this lane has a neighbour, and the quad is one. All lanes come here. */
static __device__ __forceinline__ void pull_quad(const CudaGrad *p, const SnlsQuery *q, const Kept *k, Place *place, const CudaPair *pair, const CudaAxis *y,
                                                 const CudaAxis *x, int64_t qy, int64_t qx, int64_t quad, bool there, int lane)
{
    const CudaMatch *c = &p->c;
    const int64_t left = c->m.features - 4 * quad;
    const int n = left < 4 ? (int)left : 4;
    float4 by_query = make_float4(0, 0, 0, 0);
    if (there) {
        const float4 a = pair->query[quad], b = snls_cuda_blend(pair, quad), difference = scaled(snls_cuda_minus(a, b), 2 * k->g);
        const float4 by_key = c->m.prod ? scaled(a, k->g) : scaled(difference, -1);
        by_query = c->m.prod ? scaled(b, k->g) : difference;
        for (int i = 0; p->key.mode && i < 4; i++)
            if (pair->weight[i / 2][i % 2] != 0)
                snls_sink_add(&p->key, q->b, k->frame, y->key.at[i / 2], x->key.at[i % 2], q->head, 4 * quad, scaled(by_key, pair->weight[i / 2][i % 2]), n);
        if (p->want_place) pull_place(place, pair, y, x, quad, by_key);
    }
    if (!p->query.mode) return;
    for (int step = c->parts; step < 32; step *= 2) { /* over the neighbours side by side */
        by_query.x += __shfl_xor_sync(SNLS_WARP, by_query.x, step);
        by_query.y += __shfl_xor_sync(SNLS_WARP, by_query.y, step);
        by_query.z += __shfl_xor_sync(SNLS_WARP, by_query.z, step);
        by_query.w += __shfl_xor_sync(SNLS_WARP, by_query.w, step);
    }
    if (lane < c->parts && n > 0) snls_sink_add(&p->query, q->b, q->t, qy, qx, q->head, 4 * quad, by_query, n);
}

/* All pixels of the patch; lanes without a neighbour come along, for the sums over lanes. */
static __device__ __forceinline__ void pull_patch(const CudaGrad *p, const SnlsQuery *q, const Kept *k, bool valid, Place *place, int lane)
{
    const CudaMatch *c = &p->c;
    const SnlsMatch *m = &c->m;
    const int64_t rounds = (c->query.quads + c->parts - 1) / c->parts;
    const int part = lane & (c->parts - 1);
    for (int64_t pixel = 0; pixel < m->ps * m->ps; pixel++) {
        const int64_t r = pixel / m->ps, s = pixel % m->ps;
        const int64_t qy = q->i * m->stride0 + m->dilation * (r - m->ps / 2), qx = q->j * m->stride0 + m->dilation * (s - m->ps / 2);
        CudaAxis y, x;
        CudaPair pair;
        if (m->drop && (qy < 0 || qy >= m->height || qx < 0 || qx >= m->width)) continue;
        bool there = valid && snls_cuda_axis(m, q->i, k->y, r, m->height, &y) && snls_cuda_axis(m, q->j, k->x, s, m->width, &x);
        if (there) pair = snls_cuda_pair(c, q, k->frame, &y, &x);
        if (!__any_sync(SNLS_WARP, there)) continue;
        for (int64_t round = 0; round < rounds; round++) {
            const int64_t quad = round * c->parts + part;
            pull_quad(p, q, k, place, &pair, &y, &x, snls_reflect(qy, m->height), snls_reflect(qx, m->width), quad, there && quad < c->query.quads, lane);
        }
    }
}

/* To the flow vector or given offset that the window has. One neighbour after the other: two may have the same window. */
static __device__ void add_place(const CudaGrad *p, const SnlsQuery *q, const Kept *k, bool valid, Place place, int64_t kept, int lane)
{
    const SnlsMatch *m = &p->into;
    for (int step = p->c.parts / 2; step > 0; step /= 2) {
        place.y += __shfl_xor_sync(SNLS_WARP, place.y, step);
        place.x += __shfl_xor_sync(SNLS_WARP, place.x, step);
    }
    const bool adds = valid && snls_match_has_centre(m, k->window) && (lane & (p->c.parts - 1)) == 0;
    if (adds && p->offset.data) {
        const float *d = (const float *)p->offset.data + snls_at6(&p->offset, q->b, q->head, q->t, q->i, q->j, kept);
        place.y += d[p->offset.stride[6]];
        place.x += d[2 * p->offset.stride[6]];
    }
    for (int from = 0; from < 32; from += p->c.parts) {
        if (lane == from && adds) {
            float *to = (float *)m->centre.data + snls_match_centre_at(m, q, k->window);
            to[snls_match_step_y(m)] += k->slope_y * place.y;
            to[snls_match_step_x(m)] += k->slope_x * place.x;
        }
        __syncwarp();
    }
}

/* Neighbours [start, start + n) of one query, found before. */
template <bool PATCH> static __device__ void pull_query(const CudaGrad *p, const Kept *found, int64_t head, int64_t start, int n, int lane)
{
    const SnlsQuery q = {found->b, head, found->t, found->i, found->j};
    for (int base = 0; base < n; base += 32 / p->c.parts) {
        const int at = base + lane / p->c.parts;
        const Kept *k = &found[at < n ? at : 0];
        const bool valid = at < n && k->valid;
        Place place = {0, 0};
        if (!__any_sync(SNLS_WARP, valid)) continue;
        if (PATCH && __all_sync(SNLS_WARP, !valid || snls_grad_inside(&p->c.m, &q, k))) snls_grad_patch(p, &q, k, valid, &place, lane);
        else if (p->dist.data) pull_patch(p, &q, k, valid, &place, lane);
        if (p->want_place) add_place(p, &q, k, valid, place, start + at, lane);
    }
}

/* PATCH: patches of 3 x 3 next to each other. */
template <bool PATCH> static __global__ void __launch_bounds__(32 * WARPS, PATCH ? 3 : 4) pull(const __grid_constant__ CudaGrad p)
{
    __shared__ Kept all[WARPS][32];
    Kept *found = all[threadIdx.x / 32];
    const int64_t kept = p.c.m.kept;
    const int lane = (int)(threadIdx.x % 32), together = kept < 32 ? 32 / (int)kept : 1; /* queries */
    const int64_t warps = (int64_t)gridDim.x * WARPS * together;
    for (int64_t first = ((int64_t)blockIdx.x * WARPS + threadIdx.x / 32) * together; first < p.units; first += warps)
        for (int64_t head = 0; head < p.c.m.heads; head++)
            for (int64_t start = 0; start < kept; start += 32) {
                const int n = (int)(kept - start < 32 ? kept - start : 32), whose = lane / n;
                const bool mine = whose < together && first + whose < p.units;
                __syncwarp();
                found[lane] = mine ? find_kept(&p, p.first + first + whose, head, start + lane % n) : Kept{};
                __syncwarp();
                for (int i = 0; i < together && first + i < p.units; i++) pull_query<PATCH>(&p, found + i * n, head, start, n, lane);
            }
}

/* The chunk in scratch is added to the caller's tensor, in one rounding. */
static __global__ void finish(const __grid_constant__ CudaSink s, const __grid_constant__ SnlsTensor to, int64_t n)
{
    for (SNLS_CUDA_EACH(i, n)) {
        const int64_t channels = s.heads * s.features, c = i % channels, pixel = i / channels, x = pixel % s.width, y = pixel / s.width % s.height;
        const int64_t frame = s.first + pixel / s.width / s.height;
        const int64_t at = snls_at5(&to, frame / s.frames, frame % s.frames, y, x, c);
        const double sum = s.mode == SINK_ADD || s.mode == SINK_OWNED ? (double)s.data[frame * s.step[1] + y * s.step[2] + x * s.step[3] + c]
                                                                      : snls_sink_value(&s, i, s.count[i / s.features]);
        snls_cuda_store(&to, at, (float)((double)snls_cuda_load(&to, at) + sum));
    }
}

/* ---- the host's side ---- */

static SnlsStatus launch(SnlsContext *ctx, const CudaGrad *p)
{
    if (p->units <= 0) return SNLS_OK;
    if (snls_cuda_few_grad_applies(p)) return snls_cuda_few_grad(ctx, p);
    const int64_t together = p->c.m.kept < 32 ? 32 / p->c.m.kept : 1;
    const unsigned blocks = snls_cuda_blocks(p->units, WARPS * together, 64 * (int64_t)snls_cuda(ctx)->multiprocessors);
    if (p->c.m.ps == 3 && p->c.m.dilation == 1 && p->dist.data) pull<true><<<blocks, 32 * WARPS, 0, snls_cuda_stream(ctx)>>>(*p);
    else pull<false><<<blocks, 32 * WARPS, 0, snls_cuda_stream(ctx)>>>(*p);
    return snls_cuda_check(ctx, p->c.m.op, cudaGetLastError());
}

/* Into the caller's tensor where it lies. */
static CudaSink sink_in_place(const SnlsMatch *m, const SnlsTensor *t, int mode)
{
    CudaSink s = {.mode = mode, .data = (float *)t->data, .first = 0, .end = m->batch * m->frames, .frames = m->frames, .height = m->height, .width = m->width, .heads = m->heads,
                  .features = m->features};
    s.quads = t->stride[4] == 1 && m->features % 4 == 0 && (uintptr_t)t->data % 16 == 0;
    for (int i = 0; i < 5; i++) s.step[i] = t->stride[i];
    for (int i = 0; i < 4; i++) s.quads = s.quads && (t->shape[i] == 1 || t->stride[i] % 4 == 0);
    return s;
}

/* Bytes of scratch for a frame, for the two ways of summing. */
static int64_t frame_bytes(const SnlsMatch *m, bool fixed)
{
    const int64_t pixels = m->height * m->width;
    return pixels * m->heads * (m->features * (fixed ? 12 : 4) + 4);
}

static int64_t chunk_frames(const SnlsMatch *m, bool fixed)
{
    const int64_t all = m->batch * m->frames, fit = CHUNK_BYTES / frame_bytes(m, fixed);
    return fit < 1 ? 1 : fit < all ? fit : all;
}

/* A sink over scratch, zeroed, for frames [first, end). */
static SnlsStatus sink_in_scratch(SnlsContext *ctx, const SnlsMatch *m, char *scratch, int mode, int64_t first, int64_t end, CudaSink *s)
{
    const int64_t channels = m->heads * m->features, pixels = (end - first) * m->height * m->width;
    *s = {.mode = mode, .quads = m->features % 4 == 0, .first = first, .end = end, .frames = m->frames, .height = m->height, .width = m->width, .heads = m->heads,
          .features = m->features};
    s->fixed = (unsigned long long *)scratch;
    s->largest = (uint32_t *)(scratch + 8 * pixels * channels);
    s->count = s->largest + pixels * channels;
    s->step[4] = 1;
    s->step[3] = channels;
    s->step[2] = m->width * channels;
    s->step[1] = m->height * s->step[2];
    s->step[0] = m->frames * s->step[1];
    s->data = (float *)scratch - first * s->step[1];
    const int64_t bytes = mode == SINK_LARGEST ? pixels * m->heads * (m->features * 12 + 4) : 4 * pixels * channels;
    return snls_cuda_check(ctx, m->op, cudaMemsetAsync(scratch, 0, (size_t)bytes, snls_cuda_stream(ctx)));
}

/* One of the two videos' gradients, chunk by chunk through scratch. target: p->query or p->key. */
static SnlsStatus pull_in_chunks(SnlsContext *ctx, CudaGrad *p, CudaSink *target, const SnlsTensor *to, int mode, char *scratch)
{
    const SnlsMatch *m = &p->c.m;
    const int64_t all = m->batch * m->frames, step = chunk_frames(m, mode == SINK_LARGEST), grid = m->rows * m->columns;
    for (int64_t first = 0; first < all; first += step) {
        const int64_t end = first + step < all ? first + step : all;
        const bool keys = target == &p->key; /* any query of the same clip may have its neighbour here */
        const int64_t from = keys ? first / m->frames * m->frames : first, until = keys ? (end - 1) / m->frames * m->frames + m->frames : end;
        SNLS_TRY(sink_in_scratch(ctx, m, scratch, mode, first, end, target));
        p->first = from * grid;
        p->units = (until - from) * grid;
        SNLS_TRY(launch(ctx, p));
        if (mode == SINK_LARGEST) {
            target->mode = SINK_FIXED;
            SNLS_TRY(launch(ctx, p));
        }
        const int64_t n = (end - first) * m->height * m->width * m->heads * m->features;
        finish<<<snls_cuda_blocks(n, 256, 64 * (int64_t)snls_cuda(ctx)->multiprocessors), 256, 0, snls_cuda_stream(ctx)>>>(*target, *to, n);
        SNLS_CUDA_LAUNCHED(ctx, m->op);
    }
    target->mode = SINK_NONE;
    return SNLS_OK;
}

static SnlsStatus take_tensors(SnlsContext *ctx, const SnlsMatch *m, const SnlsMatchGrad *g)
{
    SNLS_TRY(snls_cuda_take_video(ctx, m->op, "query", &m->query));
    SNLS_TRY(snls_cuda_take_video(ctx, m->op, "key", &m->key));
    SNLS_TRY(snls_cuda_take_numbers(ctx, m->op, m->refine ? "centre" : "flow", &m->centre));
    SNLS_TRY(snls_cuda_take_video(ctx, m->op, "gradient of query", &g->query));
    SNLS_TRY(snls_cuda_take_video(ctx, m->op, "gradient of key", &g->key));
    SNLS_TRY(snls_cuda_take_numbers(ctx, m->op, m->refine ? "gradient of centre" : "gradient of flow", &g->centre));
    SNLS_TRY(snls_cuda_take_numbers(ctx, m->op, "gradient of dist", &g->dist));
    return snls_cuda_take_numbers(ctx, m->op, "gradient of offset", &g->offset);
}

/* How a gradient is summed, and whether where it lies. A query's pixel has one owner where patches are single pixels. */
static int mode_of(const SnlsContext *ctx, const SnlsMatch *m, bool query) { return query && m->ps == 1 ? SINK_OWNED : ctx->deterministic ? SINK_LARGEST : SINK_ADD; }
static bool lies_in_place(const SnlsTensor *t, int mode) { return t->dtype == SNLS_F32 && mode != SINK_LARGEST; }

static void plan_chunk(SnlsContext *ctx, const SnlsMatch *m, const SnlsTensor *t, int mode, int64_t *bytes)
{
    const int64_t need = t->data && !lies_in_place(t, mode) ? chunk_frames(m, mode == SINK_LARGEST) * frame_bytes(m, mode == SINK_LARGEST) : 0;
    if (need > *bytes) *bytes = need;
    (void)ctx;
}

SnlsStatus snls_cuda_match_backward(SnlsContext *ctx, const SnlsMatch *m, const SnlsMatchGrad *g)
{
    const SnlsTensor none = {};
    const SnlsTensor query = g->dist.data ? g->query : none, key = g->dist.data ? g->key : none;
    const int query_mode = mode_of(ctx, m, true), key_mode = mode_of(ctx, m, false);
    CudaGrad p = {.c = {.m = *m, .parts = snls_cuda_parts(m->features)}, .into = *m, .dist = g->dist, .offset = g->offset, .want_place = g->centre.data != NULL};
    int64_t bytes = 0;
    p.into.centre = g->centre;
    p.units = m->batch * m->frames * m->rows * m->columns;
    SNLS_TRY(take_tensors(ctx, m, g));
    plan_chunk(ctx, m, &query, query_mode, &bytes);
    plan_chunk(ctx, m, &key, key_mode, &bytes);
    snls_arena_begin(&ctx->arena);
    snls_cuda_video_plan(ctx, &m->query, m->heads);
    snls_cuda_video_plan(ctx, &m->key, m->heads);
    snls_arena_plan(&ctx->arena, bytes, 1);
    SNLS_TRY(snls_cuda_commit(ctx, m->op));
    SNLS_TRY(snls_cuda_video_claim(ctx, m->op, &p.c.query, &m->query, m->heads, false));
    SNLS_TRY(snls_cuda_video_claim(ctx, m->op, &p.c.key, &m->key, m->heads, false));
    char *scratch = (char *)snls_arena_claim(&ctx->arena, bytes, 1);
    if (query.data && lies_in_place(&query, query_mode)) p.query = sink_in_place(m, &query, query_mode);
    if (key.data && lies_in_place(&key, key_mode)) p.key = sink_in_place(m, &key, key_mode);
    if (p.query.mode || p.key.mode || p.want_place) SNLS_TRY(launch(ctx, &p));
    const bool query_left = query.data && !p.query.mode, key_left = key.data && !p.key.mode;
    p.want_place = false;
    p.query.mode = p.key.mode = SINK_NONE;
    if (query_left) SNLS_TRY(pull_in_chunks(ctx, &p, &p.query, &query, query_mode, scratch));
    if (key_left) SNLS_TRY(pull_in_chunks(ctx, &p, &p.key, &key, key_mode, scratch));
    return SNLS_OK;
}
