/* stan_s_parts.c: a part of STAN-S over a frame: its bands go to threads, each with networks of its own, which read frames where they lie
 * or gated into their own memory, and write what is not shared with other bands where it belongs. */
#include "model/stan_s_parts.h"
#include <string.h>
#ifdef _OPENMP
#include <omp.h>
#endif

enum { KINDS = STAN_S_OUT + 1 };

/* ---- networks ---- */

/* Frames that more than one thread is worth it for. Who sets the rows of bands has reasons of his own. */
static bool is_large(const StanSParts *s) { return s->m->params.rows || s->H * s->W >= 256 * 256; }

static bool is_numbered(StanSPartKind kind) { return kind == STAN_S_MID || kind == STAN_S_FUSE; }

static int64_t part_count(const StanSParts *s) { return KINDS + 2 * s->c.blocks; }

static int64_t part_number(const StanSParts *s, StanSPartKind kind, int64_t number)
{
    return !is_numbered(kind) ? (int64_t)kind : KINDS + (kind == STAN_S_FUSE ? s->c.blocks : 0) + number;
}

/* Rows that stay in one core's second cache, with weights beside them. */
static int64_t few_rows(const StanSParts *s, int64_t row_bytes)
{
    enum { CACHE = 1 << 20 };
    return s->m->params.rows ? s->m->params.rows : row_bytes > CACHE ? 1 : CACHE / row_bytes;
}

static Bands bands_of(const StanSParts *s, StanSPartKind kind, int64_t *w)
{
    static const struct { int64_t scale, halo, channels; } shapes[KINDS] = { /* of the coarsest value; channels: of the largest, in widths, a row of the coarsest */
        [STAN_S_IN] = { 1, 3, 1 },    [STAN_S_DOWN0] = { 2, 0, 4 },  [STAN_S_ENC10] = { 2, 2, 2 }, [STAN_S_ENC11] = { 2, 2, 2 }, [STAN_S_DOWN1] = { 4, 0, 8 },
        [STAN_S_MID] = { 4, 2, 4 },   [STAN_S_FUSE] = { 4, 0, 4 },   [STAN_S_JOIN1] = { 4, 0, 16 }, [STAN_S_DEC10] = { 2, 2, 2 }, [STAN_S_DEC11] = { 2, 2, 2 },
        [STAN_S_JOIN0] = { 2, 0, 8 }, [STAN_S_DEC0] = { 1, 2, 1 },   [STAN_S_OUT] = { 1, 1, 1 } };
    const int64_t scale = shapes[kind].scale, halo = shapes[kind].halo, channels = shapes[kind].channels * (kind == STAN_S_FUSE ? 2 * s->c.wt + 1 : 1) * s->c.width;
    *w = s->W / scale;
    const int64_t row = *w * channels * snls_dtype_size((SnlsDtype)s->m->dtype);
    return snls_bands_shared(s->H / scale, halo ? snls_model_band(s->m, row) : few_rows(s, row), halo, s->worker_count);
}

static void build_part(StanSParts *s, StanSWorker *worker, StanSPartKind kind, int64_t number)
{
    StanSNet *p = &worker->nets[part_number(s, kind, number)];
    snls_nn_begin(&p->net, &worker->ctx, &s->m->stage[0].params, s->m->dtype, false);
    int64_t w;
    p->bands = bands_of(s, kind, &w);
    p->is = snls_stan_s_part(&p->net, &s->c, kind, number, p->bands.rows, w);
    if (is_large(s)) p->net.one_thread = 0; /* a band is small, the frame is not */
    const int64_t bands = snls_bands_count(&p->bands);
    if (bands > s->most_bands) s->most_bands = bands;
}

static void build_parts(StanSParts *s)
{
    for (int32_t w = 0; w < s->worker_count; w++)
        for (int kind = 0; kind < KINDS; kind++)
            for (int64_t i = 0; i < (is_numbered((StanSPartKind)kind) ? s->c.blocks : 1); i++) build_part(s, &s->workers[w], (StanSPartKind)kind, i);
}

static void open_workers(StanSParts *s)
{
    const int32_t threads = s->m->ctx->threads;
    s->worker_count = is_large(s) && threads <= STAN_S_WORKERS ? threads : 1;
    for (int32_t i = 0; i < s->worker_count; i++) {
        StanSWorker *w = &s->workers[i];
        w->ctx = *s->m->ctx;
        w->ctx.arena = (SnlsArena){ 0 };
        if (s->worker_count > 1) w->ctx.threads = 1;
        w->nets = s->nets + i * part_count(s);
    }
}

SnlsStatus snls_stan_s_parts_begin(StanSParts *s, SnlsModel *m, int64_t H, int64_t W)
{
    *s = (StanSParts){ .m = m, .c = m->stan_s, .H = H, .W = W };
    const int64_t bytes = part_count(s) * STAN_S_WORKERS * (int64_t)sizeof *s->nets;
    s->nets = snls_mem_alloc(&m->ctx->allocator, bytes);
    SNLS_REQUIRE(m->ctx, s->nets, SNLS_ERR_MEMORY, "model: no memory for its parts");
    memset(s->nets, 0, (size_t)bytes);
    open_workers(s);
    build_parts(s);
    return SNLS_OK;
}

/* Of the first worker, and of the first block where every block has its own: the others are alike. */
static bool is_first(const StanSParts *s, int64_t i) { return i <= KINDS || i == KINDS + s->c.blocks; }

static int64_t net_count(const StanSParts *s) { return s->nets ? s->worker_count * part_count(s) : 0; }

int64_t snls_stan_s_parts_bytes(StanSParts *s)
{
    int64_t bytes = 0, room = 0; /* room: of one worker, of whom all are alike */
    const int64_t packed = s->m->stage[0].params.total * snls_dtype_size((SnlsDtype)s->m->dtype); /* weights as layers want them; those of one are counted with the parameters */
    for (int64_t i = 0; bytes >= 0 && i < net_count(s); i++) {
        NnNet *net = &s->nets[i].net;
        const int64_t values = net->ctx ? snls_nn_bytes(net) : 0, scratch = net->ctx && i < part_count(s) ? snls_nn_room(net) : 0;
        bytes = values < 0 ? -1 : bytes + values + (net->ctx && is_first(s, i) ? snls_nn_own(net) : 0);
        if (scratch > room) room = scratch;
    }
    return bytes < 0 ? -1 : bytes + s->worker_count * room + (s->worker_count - 1) * packed;
}

SnlsStatus snls_stan_s_parts_commit(StanSParts *s)
{
    SNLS_TRY(snls_nn_cpu_expect(s->m->ctx, s->worker_count)); /* each network alone knows of one thread */
    for (int64_t i = 0; i < net_count(s); i++) {
        const SnlsStatus status = s->nets[i].net.ctx ? snls_nn_commit(&s->nets[i].net) : SNLS_OK;
        if (status < 0) return snls_fail(s->m->ctx, status, "%s", s->nets[i].net.ctx->error);
    }
    return SNLS_OK;
}

void snls_stan_s_parts_free(StanSParts *s)
{
    if (!s->m) return;
    for (int64_t i = 0; i < net_count(s); i++) snls_nn_free(&s->nets[i].net);
    for (int32_t i = 0; i < s->worker_count; i++) snls_arena_release(&s->workers[i].ctx.arena, &s->workers[i].ctx.scratch);
    snls_mem_free(&s->m->ctx->allocator, s->nets);
}

/* ---- a band ---- */

static char *row_of(const Plane *p, const SnlsTensor *like, int64_t y) { return p->data + y * p->w * p->c * snls_dtype_size((SnlsDtype)like->dtype); }

static void copy_rows(const StanSParts *s, const SnlsContext *ctx, const Plane *to, const char *from, int64_t y, int64_t rows)
{
    const int64_t bytes = to->w * to->c * snls_dtype_size((SnlsDtype)s->m->dtype);
    char *at = to->data + y * bytes;
    (void)ctx;
#pragma omp parallel for num_threads(ctx->threads) schedule(static)
    for (int64_t i = 0; i < rows; i++) memcpy(at + i * bytes, from + i * bytes, (size_t)bytes);
}

/* What is only read is read where it lies. */
static void load(const StanSParts *s, StanSWorker *w, const Source *src, const Bands *b, NnNet *net, int32_t value)
{
    const SnlsTensor *to = &net->values[value].t;
    const int64_t scale = to->shape[1] / b->rows, from = b->from * scale, rows = b->rows * scale;
    const NnRows all = { rows * to->shape[2], to->shape[3], to->dtype };
    if (src->fill) src->fill(&w->ctx, src, from, rows, to);
    else if (src->gates) snls_nn_rows_gate(&w->ctx, to->data, row_of(src->features, to, from), src->gates, src->x ? row_of(src->x, to, from) : NULL, &all);
    else snls_nn_place_at(net, value, row_of(src->features, to, from));
    if (src->store) copy_rows(s, &w->ctx, src->store, row_of(&(Plane){ to->data, rows, to->shape[2], to->shape[3] }, to, (b->low - b->from) * scale), b->low * scale, (b->high - b->low) * scale);
}

/* Rows low .. high of a network's output into a plane, where it has not written them itself. */
static const char *unload(const StanSParts *s, const SnlsContext *ctx, const SnlsTensor *from, const Bands *b, const Plane *to)
{
    const int64_t scale = from->shape[1] / b->rows;
    const char *rows = row_of(&(Plane){ from->data, from->shape[1], from->shape[2], from->shape[3] }, from, (b->low - b->from) * scale);
    if (rows != row_of(to, from, b->low * scale)) copy_rows(s, ctx, to, rows, b->low * scale, (b->high - b->low) * scale);
    return rows;
}

/* A part over a frame: where its inputs come from and where its output goes. sums: those of the output's channels are wanted. */
typedef struct Run { StanSParts *s; int64_t part; const Source *src; const Plane *out; bool sums; } Run;

static SnlsStatus run_band(const Run *r, StanSWorker *w, const Bands *b, int64_t number)
{
    StanSNet *p = &w->nets[r->part];
    const Plane *out = r->out;
    const SnlsTensor *made = &p->net.values[p->is.out].t;
    const bool whole = b->low == b->from && b->high == b->from + b->rows; /* no rows of other bands */
    for (int i = 0; i < 2 && p->is.in[i] >= 0; i++) load(r->s, w, &r->src[i], b, &p->net, p->is.in[i]);
    snls_nn_place_at(&p->net, p->is.out, whole ? row_of(out, made, b->low * (made->shape[1] / b->rows)) : NULL);
    SNLS_TRY(snls_nn_forward(&p->net));
    const char *rows = unload(r->s, &w->ctx, made, b, out);
    if (r->sums) snls_nn_rows_sum(&w->ctx, r->s->sums + number * out->c, rows, &(NnRows){ (b->high - b->low) * (out->h / b->h) * out->w, out->c, r->s->m->dtype });
    return SNLS_OK;
}

/* ---- all bands ---- */

static StanSWorker *this_worker(StanSParts *s)
{
#ifdef _OPENMP
    return &s->workers[s->worker_count > 1 ? omp_get_thread_num() : 0];
#else
    return &s->workers[0];
#endif
}

static void run_bands(const Run *r, int64_t count)
{
    for (int32_t i = 0; i < r->s->worker_count; i++) r->s->workers[i].status = SNLS_OK;
#pragma omp parallel for num_threads(r->s->worker_count) schedule(dynamic, 1) if (r->s->worker_count > 1)
    for (int64_t i = 0; i < count; i++) {
        StanSWorker *w = this_worker(r->s);
        const Bands band = snls_bands_at(&w->nets[r->part].bands, i);
        if (w->status >= 0) w->status = run_band(r, w, &band, i);
    }
}

static SnlsStatus run_part(StanSParts *s, StanSPartKind kind, int64_t number, const Source *src, const Plane *out, bool sums)
{
    const int64_t which = part_number(s, kind, number);
    run_bands(&(Run){ .s = s, .part = which, .src = src, .out = out, .sums = sums }, snls_bands_count(&s->workers[0].nets[which].bands));
    for (int32_t i = 0; i < s->worker_count; i++)
        if (s->workers[i].status < 0) return snls_fail(s->m->ctx, s->workers[i].status, "%s", s->workers[i].ctx.error);
    return SNLS_OK;
}

SnlsStatus snls_stan_s_run(StanSParts *s, StanSPartKind kind, int64_t number, const Source *src, const Plane *out) { return run_part(s, kind, number, src, out, false); }

/* Bands go to whoever is free; their sums are added in the order of bands, so that it does not matter who that was. */
SnlsStatus snls_stan_s_run_block(StanSParts *s, StanSPartKind kind, int64_t number, const Source *src, const Plane *out, const char *name, float *gates)
{
    const StanSNet *p = &s->workers[0].nets[part_number(s, kind, number)];
    const int64_t c = out->c, numbers = snls_bands_count(&p->bands) * c;
    memset(s->sums, 0, (size_t)numbers * sizeof *s->sums);
    SNLS_TRY(run_part(s, kind, number, src, out, true));
    for (int64_t i = c; i < numbers; i++) s->sums[i % c] += s->sums[i];
    const NnParam *taps = snls_nn_params_find(p->net.params, snls_nn_name("%s.eca.weight", name).text);
    snls_nn_gates(gates, s->sums, (double)(out->h * out->w), snls_nn_param_view(p->net.params, taps, p->net.params->value).data, c);
    return SNLS_OK;
}
