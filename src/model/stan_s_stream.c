/* stan_s_stream.c: STAN-S frame after frame, on this processor. Each frame is encoded once, each block of the lowest level is done as
 * soon as the frames about are there, each frame is decoded once; inside a frame work goes band by band. Channel attention, which
 * weighs by means over the whole frame, comes between the parts (snls_stan_s_part): a part writes features and adds up their sums, the
 * next reads them times their gates. So neither bands nor the length of a clip change what comes out, but for the order of sums. */
#include "model/stan_s_stream.h"
#include "model/bands.h"
#include <string.h>
#ifdef _OPENMP
#include <omp.h>
#endif

/* Up to so many threads each take whole bands, with networks of their own; more would have too few bands and too much memory, and share each band instead.
 * Whole bands need no waiting for each other between layers, stay in one core's cache, and let a core that is disturbed take fewer. */
enum { MIN_FRAMES = 5, KINDS = STAN_S_OUT + 1, MOST_WORKERS = 4 };

typedef struct Plane { char *data; int64_t h, w, c; } Plane; /* elements of the model's type */

typedef struct Part { NnNet net; StanSPart is; Bands bands; int64_t w; } Part;

typedef struct Worker { SnlsContext ctx; Part *parts; SnlsStatus status; } Worker; /* parts: one of each kind, and behind them those that every block has its own of */

typedef struct Held { /* a frame from its push to its pull */
    float  *noisy, *small; /* (h,w,3) as given; (H/4,W/4,4) averaged, 0..1 */
    Plane   skip0, skip1;  /* skip0: before its gates */
    float  *gates;         /* of skip0 */
    int32_t *match;        /* (2 wt + 1, H/4 * W/4): the pixel found in the frame of each slot */
    bool    matched;
} Held;

typedef struct Level { Plane *x, *norm; int64_t done; } Level; /* after block i: rings of 2 wt + 1 frames */

struct StanSStream {
    SnlsModel  *m;
    StanSConfig c;
    bool        lean;
    int64_t     h, w, H, W, room, slots; /* of a frame; padded to multiples of 4; frames held; frames a search sees */
    Worker      workers[MOST_WORKERS];
    int32_t     worker_count;
    Part       *lists; /* of all workers; held, levels and their planes follow */
    Held       *held;
    Level      *levels;
    Plane       in, half[4], quarter[2], full[2], colours; /* in work; in: colours 0..1 and sigma; half[0], half[2]: x, half[1], half[3]: features */
    float      *gates, *dist, *offset;
    double     *sums, sigma; /* sums: of the channels of each band */
    int64_t     most_bands;
    int64_t     pushed, real, pulled; /* frames of the scene; real: without mirrored ones at its end */
    bool        finished;
    char       *block;
    int64_t     used; /* of block, while it is laid out */
};

/* ---- memory: one function lays everything out, with a block or only counting ---- */

static void *claim(StanSStream *s, int64_t bytes)
{
    char *at = s->block ? s->block + s->used : NULL;
    s->used += (bytes + SNLS_ALIGN - 1) / SNLS_ALIGN * SNLS_ALIGN;
    return at;
}

static Plane plane(StanSStream *s, int64_t scale, int64_t c)
{
    const int64_t h = s->H / scale, w = s->W / scale;
    return (Plane){ claim(s, h * w * c * snls_dtype_size((SnlsDtype)s->m->dtype)), h, w, c };
}

static void lay_out_frame(StanSStream *s, Held *f)
{
    const int64_t floats = sizeof(float), lowest = s->H / STAN_S_SCALE * (s->W / STAN_S_SCALE);
    f->noisy = claim(s, s->h * s->w * 3 * floats);
    f->small = claim(s, lowest * 4 * floats);
    f->match = claim(s, lowest * s->slots * (int64_t)sizeof(int32_t));
    f->gates = claim(s, s->c.width * floats);
    if (s->lean && f != s->held) f->skip0 = s->held->skip0, f->skip1 = s->held->skip1; /* made anew when they are wanted */
    else f->skip0 = plane(s, 1, s->c.width), f->skip1 = plane(s, 2, 2 * s->c.width);
}

static void lay_out(StanSStream *s)
{
    const int64_t lowest = s->H / STAN_S_SCALE * (s->W / STAN_S_SCALE);
    for (int64_t i = 0; i < s->room; i++) lay_out_frame(s, &s->held[i]);
    for (int64_t i = 0; i < s->c.blocks * s->slots; i++) {
        Level *l = &s->levels[i / s->slots];
        l->x[i % s->slots] = plane(s, 4, 4 * s->c.width);
        l->norm[i % s->slots] = plane(s, 4, 4 * s->c.width);
    }
    for (int i = 0; i < 4; i++) s->half[i] = plane(s, 2, 2 * s->c.width);
    for (int i = 0; i < 2; i++) s->quarter[i] = plane(s, 4, 4 * s->c.width);
    s->in = plane(s, 1, 4);
    for (int i = 0; i < 2; i++) s->full[i] = plane(s, 1, s->c.width);
    s->colours = plane(s, 1, 3);
    s->gates = claim(s, 4 * s->c.width * (int64_t)sizeof(float));
    s->sums = claim(s, s->most_bands * 4 * s->c.width * (int64_t)sizeof(double));
    s->dist = claim(s, lowest * (int64_t)sizeof(float));
    s->offset = claim(s, lowest * 3 * (int64_t)sizeof(float));
}

/* ---- parts ---- */

/* Frames that more than one thread is worth it for. Who sets the rows of bands has reasons of his own. */
static bool is_large(const StanSStream *s) { return s->m->params.rows || s->H * s->W >= 256 * 256; }

static bool is_numbered(StanSPartKind kind) { return kind == STAN_S_MID || kind == STAN_S_FUSE; }

static int64_t part_count(const StanSStream *s) { return KINDS + 2 * s->c.blocks; }

static int64_t part_number(const StanSStream *s, StanSPartKind kind, int64_t number)
{
    return !is_numbered(kind) ? (int64_t)kind : KINDS + (kind == STAN_S_FUSE ? s->c.blocks : 0) + number;
}

/* Rows that stay in one core's second cache, with weights beside them. */
static int64_t few_rows(const StanSStream *s, int64_t row_bytes)
{
    enum { CACHE = 1 << 20 };
    return s->m->params.rows ? s->m->params.rows : row_bytes > CACHE ? 1 : CACHE / row_bytes;
}

static Bands bands_of(const StanSStream *s, StanSPartKind kind, int64_t *w)
{
    static const struct { int64_t scale, halo, channels; } shapes[KINDS] = { /* of the coarsest value; channels: of the largest, in widths, a row of the coarsest */
        [STAN_S_IN] = { 1, 3, 1 },    [STAN_S_DOWN0] = { 2, 0, 4 },  [STAN_S_ENC10] = { 2, 2, 2 }, [STAN_S_ENC11] = { 2, 2, 2 }, [STAN_S_DOWN1] = { 4, 0, 8 },
        [STAN_S_MID] = { 4, 2, 4 },   [STAN_S_FUSE] = { 4, 0, 4 },   [STAN_S_JOIN1] = { 4, 0, 16 }, [STAN_S_DEC10] = { 2, 2, 2 }, [STAN_S_DEC11] = { 2, 2, 2 },
        [STAN_S_JOIN0] = { 2, 0, 8 }, [STAN_S_DEC0] = { 1, 2, 1 },   [STAN_S_OUT] = { 1, 1, 1 } };
    const int64_t scale = shapes[kind].scale, halo = shapes[kind].halo, channels = shapes[kind].channels * (kind == STAN_S_FUSE ? s->slots : 1) * s->c.width;
    *w = s->W / scale;
    const int64_t row = *w * channels * snls_dtype_size((SnlsDtype)s->m->dtype);
    return snls_bands_shared(s->H / scale, halo ? snls_model_band(s->m, row) : few_rows(s, row), halo, s->worker_count);
}

static void build_part(StanSStream *s, Worker *worker, StanSPartKind kind, int64_t number)
{
    Part *p = &worker->parts[part_number(s, kind, number)];
    snls_nn_begin(&p->net, &worker->ctx, &s->m->stage[0].params, s->m->dtype, false);
    p->bands = bands_of(s, kind, &p->w);
    p->is = snls_stan_s_part(&p->net, &s->c, kind, number, p->bands.rows, p->w);
    if (is_large(s)) p->net.one_thread = 0; /* a band is small, the frame is not */
    const int64_t bands = snls_bands_count(&p->bands);
    if (bands > s->most_bands) s->most_bands = bands;
}

static void build_parts(StanSStream *s)
{
    for (int32_t w = 0; w < s->worker_count; w++)
        for (int kind = 0; kind < KINDS; kind++)
            for (int64_t i = 0; i < (is_numbered((StanSPartKind)kind) ? s->c.blocks : 1); i++) build_part(s, &s->workers[w], (StanSPartKind)kind, i);
}

static void open_workers(StanSStream *s, Part *parts)
{
    const int32_t threads = s->m->ctx->threads;
    s->worker_count = is_large(s) && threads <= MOST_WORKERS ? threads : 1;
    for (int32_t i = 0; i < s->worker_count; i++) {
        Worker *w = &s->workers[i];
        w->ctx = *s->m->ctx;
        w->ctx.arena = (SnlsArena){ 0 };
        if (s->worker_count > 1) w->ctx.threads = 1;
        w->parts = parts + i * part_count(s);
    }
}

/* Where an input's rows come from: features times gates, plus x where there is one (no gates: features alone); or what the
 * search has found at a level. store: keeps the rows that come out. */
typedef enum SourceKind { FEATURES, FOUND } SourceKind;
typedef struct Source { SourceKind kind; const Plane *features, *x, *store; const float *gates; int64_t level; } Source;
static void fill_found(const StanSStream *s, const SnlsContext *ctx, int64_t t, int64_t level, int64_t from, int64_t rows, const SnlsTensor *to);

static char *row_of(const Plane *p, const SnlsTensor *like, int64_t y) { return p->data + y * p->w * p->c * snls_dtype_size((SnlsDtype)like->dtype); }

static NnRows rows_of(const Plane *p, int64_t rows, int32_t dtype) { return (NnRows){ rows * p->w, p->c, dtype }; }

static void copy_rows(const StanSStream *s, const SnlsContext *ctx, const Plane *to, const char *from, int64_t y, int64_t rows)
{
    const int64_t bytes = to->w * to->c * snls_dtype_size((SnlsDtype)s->m->dtype);
    char *at = to->data + y * bytes;
    (void)ctx;
#pragma omp parallel for num_threads(ctx->threads) schedule(static)
    for (int64_t i = 0; i < rows; i++) memcpy(at + i * bytes, from + i * bytes, (size_t)bytes);
}

/* What is only read is read where it lies. */
static void load(const StanSStream *s, Worker *w, int64_t t, const Source *src, const Bands *b, NnNet *net, int32_t value)
{
    const SnlsTensor *to = &net->values[value].t;
    const int64_t scale = to->shape[1] / b->rows, from = b->from * scale, rows = b->rows * scale;
    const NnRows all = { rows * to->shape[2], to->shape[3], to->dtype };
    if (src->kind == FOUND) fill_found(s, &w->ctx, t, src->level, from, rows, to);
    else if (src->gates) snls_nn_rows_gate(&w->ctx, to->data, row_of(src->features, to, from), src->gates, src->x ? row_of(src->x, to, from) : NULL, &all);
    else snls_nn_place_at(net, value, row_of(src->features, to, from));
    if (src->store) copy_rows(s, &w->ctx, src->store, row_of(&(Plane){ to->data, rows, to->shape[2], to->shape[3] }, to, (b->low - b->from) * scale), b->low * scale, (b->high - b->low) * scale);
}

/* Rows low .. high of a network's output into a plane, where it has not written them itself. */
static const char *unload(const StanSStream *s, const SnlsContext *ctx, const SnlsTensor *from, const Bands *b, const Plane *to)
{
    const int64_t scale = from->shape[1] / b->rows;
    const char *rows = row_of(&(Plane){ from->data, from->shape[1], from->shape[2], from->shape[3] }, from, (b->low - b->from) * scale);
    if (rows != row_of(to, from, b->low * scale)) copy_rows(s, ctx, to, rows, b->low * scale, (b->high - b->low) * scale);
    return rows;
}

/* A part over frame t: where its inputs come from and where its output goes. sums: those of the output's channels are wanted. */
typedef struct Run { StanSStream *s; int64_t part, t; const Source *src; const Plane *out; bool sums; } Run;

static SnlsStatus run_band(const Run *r, Worker *w, const Bands *b, int64_t number)
{
    Part *p = &w->parts[r->part];
    const Plane *out = r->out;
    const SnlsTensor *made = &p->net.values[p->is.out].t;
    const bool whole = b->low == b->from && b->high == b->from + b->rows; /* no rows of other bands */
    for (int i = 0; i < 2 && p->is.in[i] >= 0; i++) load(r->s, w, r->t, &r->src[i], b, &p->net, p->is.in[i]);
    snls_nn_place_at(&p->net, p->is.out, whole ? row_of(out, made, b->low * (made->shape[1] / b->rows)) : NULL);
    SNLS_TRY(snls_nn_forward(&p->net));
    const char *rows = unload(r->s, &w->ctx, made, b, out);
    if (r->sums) snls_nn_rows_sum(&w->ctx, r->s->sums + number * out->c, rows, &(NnRows){ (b->high - b->low) * (out->h / b->h) * out->w, out->c, r->s->m->dtype });
    return SNLS_OK;
}

static Worker *this_worker(StanSStream *s)
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
        Worker *w = this_worker(r->s);
        const Bands band = snls_bands_at(&w->parts[r->part].bands, i);
        if (w->status >= 0) w->status = run_band(r, w, &band, i);
    }
}

static SnlsStatus run_part(StanSStream *s, StanSPartKind kind, int64_t number, int64_t t, const Source *src, const Plane *out, bool sums)
{
    const int64_t which = part_number(s, kind, number);
    run_bands(&(Run){ .s = s, .part = which, .t = t, .src = src, .out = out, .sums = sums }, snls_bands_count(&s->workers[0].parts[which].bands));
    for (int32_t i = 0; i < s->worker_count; i++)
        if (s->workers[i].status < 0) return snls_fail(s->m->ctx, s->workers[i].status, "%s", s->workers[i].ctx.error);
    return SNLS_OK;
}

/* A block's features, and the gates that go with them. Bands go to whoever is free; their sums are added in the order of bands, so that it
 * does not matter who that was. */
static SnlsStatus run_block(StanSStream *s, StanSPartKind kind, int64_t number, int64_t t, const Source *src, const Plane *out, const char *name, float *gates)
{
    const Part *p = &s->workers[0].parts[part_number(s, kind, number)];
    const int64_t c = out->c, numbers = snls_bands_count(&p->bands) * c;
    memset(s->sums, 0, (size_t)numbers * sizeof *s->sums);
    SNLS_TRY(run_part(s, kind, number, t, src, out, true));
    for (int64_t i = c; i < numbers; i++) s->sums[i % c] += s->sums[i];
    const NnParam *taps = snls_nn_params_find(p->net.params, snls_nn_name("%s.eca.weight", name).text);
    snls_nn_gates(gates, s->sums, (double)(out->h * out->w), snls_nn_param_view(p->net.params, taps, p->net.params->value).data, c);
    return SNLS_OK;
}

/* ---- one frame ---- */

static Held *frame(const StanSStream *s, int64_t t) { return &s->held[t % s->room]; }

static float *number_row(const StanSStream *s, int64_t y) { return (float *)(void *)(s->in.data + y * s->W * 4 * (int64_t)sizeof(float)); }
static uint16_t *half_row(const StanSStream *s, int64_t y) { return (uint16_t *)(void *)(s->in.data + y * s->W * 4 * (int64_t)sizeof(uint16_t)); }

/* Row y of the network's input: mirrored at the right and lower border where the frame's sides are no multiples of four. */
static void read_row(StanSStream *s, const float *noisy, int64_t y)
{
    const float *from = noisy + snls_reflect(y, s->h) * s->w * 3, sigma = (float)(s->sigma / 255);
    for (int64_t x = 0; x < s->W; x++) {
        const float *p = from + snls_reflect(x, s->w) * 3;
        const float pixel[4] = { p[0] / 255, p[1] / 255, p[2] / 255, sigma };
        for (int c = 0; c < 4; c++)
            if (s->m->dtype == SNLS_BF16) half_row(s, y)[4 * x + c] = snls_float_to_bf16(pixel[c]);
            else number_row(s, y)[4 * x + c] = pixel[c];
    }
}

static void read_frame(StanSStream *s, int64_t t)
{
    const float *noisy = frame(s, t)->noisy;
#pragma omp parallel for num_threads(s->m->ctx->threads) schedule(static)
    for (int64_t y = 0; y < s->H; y++) read_row(s, noisy, y);
}

/* Means of squares of 4 x 4 pixels of the input, in which the search looks. Sigma, a constant plane, adds nothing to a distance. */
static void average(StanSStream *s, Held *f)
{
    const int64_t w = s->W / STAN_S_SCALE, lowest = s->H / STAN_S_SCALE * w;
    const bool bf16 = s->m->dtype == SNLS_BF16;
#pragma omp parallel for num_threads(s->m->ctx->threads) schedule(static)
    for (int64_t i = 0; i < lowest; i++) {
        double sum[4] = { 0 };
        for (int64_t q = 0; q < STAN_S_SCALE; q++) {
            const int64_t y = i / w * STAN_S_SCALE + q, x = i % w * STAN_S_SCALE;
            for (int k = 0; k < 4 * STAN_S_SCALE; k++) sum[k % 4] += bf16 ? snls_bf16_to_float(half_row(s, y)[4 * x + k]) : number_row(s, y)[4 * x + k];
        }
        for (int c = 0; c < 4; c++) f->small[4 * i + c] = c == 3 ? 0 : (float)snls_rounded(s->m->dtype, sum[c] / (STAN_S_SCALE * STAN_S_SCALE));
    }
}

/* The upper levels of frame t: features before gates in skip0; x and features of the half level in half[2], half[3], gates in s->gates. */
static SnlsStatus encode_upper(StanSStream *s, int64_t t)
{
    Held *f = frame(s, t);
    read_frame(s, t);
    SNLS_TRY(run_block(s, STAN_S_IN, 0, t, &(Source){ .features = &s->in }, &f->skip0, "enc0.0", f->gates));
    SNLS_TRY(run_part(s, STAN_S_DOWN0, 0, t, &(Source){ .features = &f->skip0, .gates = f->gates }, &s->half[0], false));
    SNLS_TRY(run_block(s, STAN_S_ENC10, 0, t, &(Source){ .features = &s->half[0] }, &s->half[1], "enc1.0", s->gates));
    return run_block(s, STAN_S_ENC11, 0, t, &(Source){ .features = &s->half[1], .x = &s->half[0], .gates = s->gates, .store = &s->half[2] }, &s->half[3], "enc1.1", s->gates);
}

static SnlsTensor parameter(const StanSStream *s, const char *name)
{
    const NnParams *params = &s->m->stage[0].params;
    return snls_nn_param_view(params, snls_nn_params_find(params, name), params->value);
}

/* Block number of frame t: x = quarter[0] + gates * features, and its norm, which fusions read; row by row, so that norms find x in a cache. */
static SnlsStatus run_mid(StanSStream *s, int64_t number, int64_t t)
{
    Level *l = &s->levels[number];
    const Plane *x = &l->x[t % s->slots], *norm = &l->norm[t % s->slots];
    const NnRows row = rows_of(x, 1, s->m->dtype);
    const int64_t bytes = row.pixels * row.channels * snls_dtype_size((SnlsDtype)row.dtype);
    const SnlsTensor scale = parameter(s, snls_nn_name("mid.%d.fusion.norm.weight", (int)number).text), shift = parameter(s, snls_nn_name("mid.%d.fusion.norm.bias", (int)number).text);
    SNLS_TRY(run_block(s, STAN_S_MID, number, t, &(Source){ .features = &s->quarter[0] }, &s->quarter[1], snls_nn_name("mid.%d", (int)number).text, s->gates));
#pragma omp parallel for num_threads(s->m->ctx->threads) schedule(static)
    for (int64_t y = 0; y < x->h; y++) {
        const int64_t at = y * bytes;
        snls_nn_rows_gate(s->m->ctx, x->data + at, s->quarter[1].data + at, s->gates, s->quarter[0].data + at, &row);
        snls_nn_rows_norm(s->m->ctx, norm->data + at, x->data + at, &scale, &shift, STAN_S_EPS, &row);
    }
    l->done = t + 1;
    return SNLS_OK;
}

static SnlsStatus encode(StanSStream *s, int64_t t)
{
    Held *f = frame(s, t);
    f->matched = false;
    SNLS_TRY(encode_upper(s, t));
    average(s, f);
    SNLS_TRY(run_part(s, STAN_S_DOWN1, 0, t, &(Source){ .features = &s->half[3], .x = &s->half[2], .gates = s->gates, .store = &f->skip1 }, &s->quarter[0], false));
    return run_mid(s, 0, t);
}

/* ---- frames about ---- */

static int64_t last_of_window(const StanSStream *s, int64_t t)
{
    const int64_t last = t + s->c.wt < s->slots ? s->slots - 1 : t + s->c.wt;
    return s->finished && last >= s->pushed ? s->pushed - 1 : last;
}

/* The frame of a slot: upwards from t, then downwards, in a window that stays inside the scene. */
static int64_t frame_of_slot(const StanSStream *s, int64_t t, int64_t slot)
{
    const int64_t last = last_of_window(s, t);
    return slot <= last - t ? t + slot : t - (slot - (last - t));
}

static SnlsTensor lowest_tensor(const StanSStream *s, float *data, int32_t dims, int64_t last)
{
    const int64_t h = s->H / STAN_S_SCALE, w = s->W / STAN_S_SCALE, shape[7] = { 1, 1, dims == 5 ? h : 1, dims == 5 ? w : h, dims == 5 ? last : w, 1, last };
    return snls_tensor(data, SNLS_F32, dims, shape);
}

static SnlsStatus match(StanSStream *s, int64_t t)
{
    Held *f = frame(s, t);
    const int64_t w = s->W / STAN_S_SCALE, lowest = s->H / STAN_S_SCALE * w;
    SnlsSearch q = { .params = snls_stan_s_search(&s->c), .query = lowest_tensor(s, f->small, 5, 4), .dist = lowest_tensor(s, s->dist, 6, 1), .offset = lowest_tensor(s, s->offset, 7, 3) };
    q.params.wt = 0;
    for (int64_t slot = 0; slot < s->slots; slot++) {
        q.key = lowest_tensor(s, frame(s, frame_of_slot(s, t, slot))->small, 5, 4);
        SNLS_TRY(snls_search_forward(s->m->ctx, &q));
        int32_t *to = f->match + slot * lowest;
        for (int64_t i = 0; i < lowest; i++) to[i] = (int32_t)(i + (int64_t)s->offset[3 * i + 1] * w + (int64_t)s->offset[3 * i + 2]);
    }
    f->matched = true;
    return SNLS_OK;
}

/* What the search has found in the frames about, side by side. */
static void fill_found(const StanSStream *s, const SnlsContext *ctx, int64_t t, int64_t level, int64_t from, int64_t rows, const SnlsTensor *to)
{
    const int64_t w = s->W / STAN_S_SCALE, lowest = s->H / STAN_S_SCALE * w, bytes = 4 * s->c.width * snls_dtype_size((SnlsDtype)to->dtype), slots = s->slots;
    const int32_t *found = frame(s, t)->match;
    const char *planes[2 * STAN_S_WT_MOST + 1];
    for (int64_t k = 0; k < slots; k++) planes[k] = s->levels[level].norm[frame_of_slot(s, t, k) % slots].data;
    (void)ctx;
#pragma omp parallel for num_threads(ctx->threads) schedule(static)
    for (int64_t i = 0; i < rows * w; i++)
        for (int64_t k = 0; k < slots; k++) memcpy((char *)to->data + (i * slots + k) * bytes, planes[k] + found[k * lowest + from * w + i] * bytes, (size_t)bytes);
}

/* Block number of frame t with what was found for it: x in quarter[0]. */
static SnlsStatus fuse(StanSStream *s, int64_t number, int64_t t)
{
    const Source src[] = { { .kind = FOUND, .level = number }, { .features = &s->levels[number].x[t % s->slots] } };
    if (!frame(s, t)->matched) SNLS_TRY(match(s, t));
    return run_part(s, STAN_S_FUSE, number, t, src, &s->quarter[0], false);
}

static SnlsStatus next_block(StanSStream *s, int64_t number)
{
    const int64_t t = s->levels[number].done;
    SNLS_TRY(fuse(s, number - 1, t));
    return run_mid(s, number, t);
}

/* After a push: every block as far as the one before allows, which is one frame each, but for the first three. */
static SnlsStatus advance(StanSStream *s)
{
    for (int64_t i = 1; i < s->c.blocks; i++)
        while (last_of_window(s, s->levels[i].done) < s->levels[i - 1].done) SNLS_TRY(next_block(s, i));
    return SNLS_OK;
}

/* At the end: as far as is asked for, since rings hold no more frames than a window has. */
static SnlsStatus bring(StanSStream *s, int64_t number, int64_t frames)
{
    while (s->levels[number].done < frames) {
        SNLS_TRY(bring(s, number - 1, last_of_window(s, s->levels[number].done) + 1));
        SNLS_TRY(next_block(s, number));
    }
    return SNLS_OK;
}

static SnlsStatus decode(StanSStream *s, int64_t t, float *out)
{
    const Held *f = frame(s, t);
    if (s->lean) {
        const NnRows rows = rows_of(&f->skip1, f->skip1.h, s->m->dtype);
        SNLS_TRY(encode_upper(s, t));
        snls_nn_rows_gate(s->m->ctx, f->skip1.data, s->half[3].data, s->gates, s->half[2].data, &rows);
    }
    const Source low[] = { { .features = &s->quarter[0] }, { .features = &f->skip1 } };
    const Source half[] = { { .features = &s->half[3], .x = &s->half[2], .gates = s->gates }, { .features = &f->skip0, .gates = f->gates } };
    SNLS_TRY(fuse(s, s->c.blocks - 1, t));
    SNLS_TRY(run_part(s, STAN_S_JOIN1, 0, t, low, &s->half[0], false));
    SNLS_TRY(run_block(s, STAN_S_DEC10, 0, t, &(Source){ .features = &s->half[0] }, &s->half[1], "dec1.0", s->gates));
    SNLS_TRY(run_block(s, STAN_S_DEC11, 0, t, &(Source){ .features = &s->half[1], .x = &s->half[0], .gates = s->gates, .store = &s->half[2] }, &s->half[3], "dec1.1", s->gates));
    SNLS_TRY(run_part(s, STAN_S_JOIN0, 0, t, half, &s->full[0], false));
    SNLS_TRY(run_block(s, STAN_S_DEC0, 0, t, &(Source){ .features = &s->full[0] }, &s->full[1], "dec0.0", s->gates));
    SNLS_TRY(run_part(s, STAN_S_OUT, 0, t, &(Source){ .features = &s->full[1], .gates = s->gates }, &s->colours, false));
    const SnlsTensor added = snls_tensor(s->colours.data, (SnlsDtype)s->m->dtype, 3, (const int64_t[]){ s->H, s->W, 3 });
#pragma omp parallel for num_threads(s->m->ctx->threads) schedule(static)
    for (int64_t y = 0; y < s->h; y++)
        for (int64_t i = 0; i < 3 * s->w; i++) out[y * s->w * 3 + i] = (float)(255 * snls_load(&added, y * s->W * 3 + i) + (double)f->noisy[y * s->w * 3 + i]);
    return SNLS_OK;
}

/* ---- the stream ---- */

static int64_t net_count(const StanSStream *s) { return s->worker_count * part_count(s); }

static int64_t most_frames(const StanSConfig *c)
{
    const int64_t frames = c->wt * (c->blocks + 1) + 1;
    return frames < MIN_FRAMES ? MIN_FRAMES : frames;
}

static SnlsStatus make_lists(StanSStream *s)
{
    const SnlsAllocator *a = &s->m->ctx->allocator;
    const int64_t parts = part_count(s) * MOST_WORKERS, planes = 2 * s->c.blocks * s->slots;
    const int64_t bytes = parts * (int64_t)sizeof(Part) + s->room * (int64_t)sizeof(Held) + s->c.blocks * (int64_t)sizeof(Level) + planes * (int64_t)sizeof(Plane);
    char *block = snls_mem_alloc(a, bytes);
    SNLS_REQUIRE(s->m->ctx, block, SNLS_ERR_MEMORY, "model: no memory for its lists");
    memset(block, 0, (size_t)bytes);
    s->lists = (Part *)(void *)block;
    s->held = (Held *)(void *)(s->lists + parts);
    s->levels = (Level *)(void *)(s->held + s->room);
    Plane *plane_list = (Plane *)(void *)(s->levels + s->c.blocks);
    for (int64_t i = 0; i < s->c.blocks; i++) s->levels[i].x = plane_list + 2 * i * s->slots, s->levels[i].norm = s->levels[i].x + s->slots;
    return SNLS_OK;
}

bool snls_stan_s_streams(const SnlsModel *m) { return m->architecture == &snls_stan_s && m->stan_s.blocks > 0 && snls_nn_is_cpu(m->ctx); }

static SnlsStatus begin(StanSStream **out, SnlsModel *m, const SnlsModelStreamParams *p)
{
    StanSStream *s = snls_mem_alloc(&m->ctx->allocator, sizeof *s);
    SNLS_REQUIRE(m->ctx, s, SNLS_ERR_MEMORY, "model: no memory for a stream");
    *s = (StanSStream){ .m = m, .c = m->stan_s, .lean = p->lean != 0, .h = p->height, .w = p->width, .slots = 2 * m->stan_s.wt + 1, .room = most_frames(&m->stan_s) };
    s->H = (s->h + STAN_S_SCALE - 1) / STAN_S_SCALE * STAN_S_SCALE, s->W = (s->w + STAN_S_SCALE - 1) / STAN_S_SCALE * STAN_S_SCALE;
    *out = s;
    SNLS_TRY(make_lists(s));
    open_workers(s, s->lists);
    build_parts(s);
    lay_out(s);
    return SNLS_OK;
}

SnlsStatus snls_stan_s_stream_open(StanSStream **out, SnlsModel *m, const SnlsModelStreamParams *p)
{
    SNLS_TRY(begin(out, m, p));
    StanSStream *s = *out;
    const int64_t bytes = s->used;
    for (int64_t i = 0; i < net_count(s); i++) {
        const SnlsStatus status = s->lists[i].net.ctx ? snls_nn_commit(&s->lists[i].net) : SNLS_OK;
        if (status < 0) return snls_fail(m->ctx, status, "%s", s->lists[i].net.ctx->error);
    }
    s->block = snls_mem_alloc(&m->ctx->allocator, bytes + SNLS_ALIGN);
    SNLS_REQUIRE(m->ctx, s->block, SNLS_ERR_MEMORY, "model: no memory for %lld bytes of frames", (long long)bytes);
    s->used = (int64_t)((SNLS_ALIGN - (uintptr_t)s->block % SNLS_ALIGN) % SNLS_ALIGN);
    lay_out(s);
    return SNLS_OK;
}

int64_t snls_stan_s_stream_memory(SnlsModel *m, const SnlsModelStreamParams *p)
{
    StanSStream *s = NULL;
    int64_t bytes = begin(&s, m, p) < 0 ? -1 : s->used;
    for (int64_t i = 0; bytes >= 0 && i < net_count(s); i++) {
        const int64_t values = s->lists[i].net.ctx ? snls_nn_bytes(&s->lists[i].net) : 0;
        bytes = values < 0 ? -1 : bytes + values;
    }
    snls_stan_s_stream_close(&s);
    return bytes;
}

void snls_stan_s_stream_close(StanSStream **stream)
{
    StanSStream *s = *stream;
    if (!s) return;
    const SnlsAllocator *a = &s->m->ctx->allocator;
    for (int64_t i = 0; s->lists && i < net_count(s); i++) snls_nn_free(&s->lists[i].net);
    for (int32_t i = 0; i < s->worker_count; i++) snls_arena_release(&s->workers[i].ctx.arena, &s->workers[i].ctx.scratch);
    snls_mem_free(a, s->lists);
    snls_mem_free(a, s->block);
    snls_mem_free(a, s);
    *stream = NULL;
}

void snls_stan_s_stream_restart(StanSStream *s)
{
    s->pushed = s->real = s->pulled = 0;
    s->finished = false;
    for (int64_t i = 0; i < s->c.blocks; i++) s->levels[i].done = 0;
}

static SnlsStatus add_frame(StanSStream *s, const float *pixels)
{
    SNLS_REQUIRE(s->m->ctx, s->pushed - s->pulled < s->room, SNLS_ERR_ARG, "model: finished frames have not been pulled");
    memcpy(frame(s, s->pushed)->noisy, pixels, (size_t)(s->h * s->w * 3) * sizeof *pixels);
    SNLS_TRY(encode(s, s->pushed));
    s->pushed++;
    return advance(s);
}

SnlsStatus snls_stan_s_stream_push(StanSStream *s, const float *pixels, double sigma)
{
    if (s->finished) snls_stan_s_stream_restart(s);
    s->sigma = sigma;
    SNLS_TRY(add_frame(s, pixels));
    s->real++;
    return SNLS_OK;
}

/* A scene shorter than a window goes on as its mirror image. */
SnlsStatus snls_stan_s_stream_finish(StanSStream *s)
{
    if (s->finished || !s->real) return SNLS_OK;
    while (s->pushed < MIN_FRAMES) SNLS_TRY(add_frame(s, frame(s, snls_reflect(s->pushed, s->real))->noisy));
    s->finished = true;
    return SNLS_OK;
}

SnlsStatus snls_stan_s_stream_pull(StanSStream *s, float *out)
{
    const int64_t t = s->pulled, wanted = last_of_window(s, t) + 1, last = s->c.blocks - 1;
    if (t >= s->real || (!s->finished && s->levels[last].done < wanted)) return SNLS_END;
    SNLS_TRY(bring(s, last, wanted));
    if (out) SNLS_TRY(decode(s, t, out));
    s->pulled++;
    return SNLS_OK;
}

int64_t snls_stan_s_stream_delay(const StanSStream *s) { return s->room; }
