/* stan_s_stream.c: STAN-S frame after frame, on this processor. Each frame is encoded once, each block of the lowest level is done as
 * soon as the frames about are there, each frame is decoded once; inside a frame work goes band by band. Channel attention, which
 * weighs by means over the whole frame, comes between the parts (snls_stan_s_part): a part writes features and adds up their sums, the
 * next reads them times their gates. So neither bands nor the length of a clip change what comes out, but for the order of sums. */
#include "model/stan_s_stream.h"
#include "model/stan_s_parts.h"
#include "op/op.h"
#include <string.h>

enum { MIN_FRAMES = 5 };

typedef struct Held { /* a frame from its push to its pull */
    float  *noisy, *small; /* (h,w,3) as given; (H/4,W/4,4) averaged, 0..1 */
    Plane   skip0, skip1;  /* skip0: before its gates */
    float  *gates;         /* of skip0 */
    int32_t *match;        /* (2 wt + 1, H/4 * W/4): the pixel found in the frame of each slot */
    bool    matched;
    double  sigma;
} Held;

typedef struct Level { Plane *x, *norm; int64_t done, before; } Level; /* after block i: rings of 2 wt + 1 frames; before: done when the push in work began */

struct StanSStream {
    SnlsModel  *m;
    StanSConfig c;
    bool        lean;
    int64_t     h, w, H, W, room, slots; /* of a frame; padded to multiples of 4; frames held; frames a search sees */
    StanSParts  parts;
    Held       *held; /* one block with levels and their planes */
    Level      *levels;
    Plane       in, half[4], quarter[2], full[2], colours; /* in work; in: colours 0..1 and sigma; half[0], half[2]: x, half[1], half[3]: features */
    float      *gates, *dist, *offset;
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
    s->parts.sums = claim(s, s->parts.most_bands * 4 * s->c.width * (int64_t)sizeof(double));
    s->dist = claim(s, lowest * (int64_t)sizeof(float));
    s->offset = claim(s, lowest * 3 * (int64_t)sizeof(float));
}

/* ---- one frame ---- */

static NnRows rows_of(const Plane *p, int64_t rows, int32_t dtype) { return (NnRows){ rows * p->w, p->c, dtype }; }

static Held *frame(const StanSStream *s, int64_t t) { return &s->held[t % s->room]; }

static float *number_row(const StanSStream *s, int64_t y) { return (float *)(void *)(s->in.data + y * s->W * 4 * (int64_t)sizeof(float)); }
static uint16_t *half_row(const StanSStream *s, int64_t y) { return (uint16_t *)(void *)(s->in.data + y * s->W * 4 * (int64_t)sizeof(uint16_t)); }

/* Row y of the network's input: mirrored at the right and lower border where the frame's sides are no multiples of four. */
static void read_row(StanSStream *s, const Held *f, int64_t y)
{
    const float *from = f->noisy + snls_reflect(y, s->h) * s->w * 3, sigma = (float)(f->sigma / 255);
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
    const Held *f = frame(s, t);
#pragma omp parallel for num_threads(s->m->ctx->threads) schedule(static)
    for (int64_t y = 0; y < s->H; y++) read_row(s, f, y);
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
    SNLS_TRY(snls_stan_s_run_block(&s->parts, STAN_S_IN, 0, &(Source){ .features = &s->in }, &f->skip0, "enc0.0", f->gates));
    SNLS_TRY(snls_stan_s_run(&s->parts, STAN_S_DOWN0, 0, &(Source){ .features = &f->skip0, .gates = f->gates }, &s->half[0]));
    SNLS_TRY(snls_stan_s_run_block(&s->parts, STAN_S_ENC10, 0, &(Source){ .features = &s->half[0] }, &s->half[1], "enc1.0", s->gates));
    return snls_stan_s_run_block(&s->parts, STAN_S_ENC11, 0, &(Source){ .features = &s->half[1], .x = &s->half[0], .gates = s->gates, .store = &s->half[2] }, &s->half[3], "enc1.1", s->gates);
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
    SNLS_TRY(snls_stan_s_run_block(&s->parts, STAN_S_MID, number, &(Source){ .features = &s->quarter[0] }, &s->quarter[1], snls_nn_name("mid.%d", (int)number).text, s->gates));
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
    SNLS_TRY(snls_stan_s_run(&s->parts, STAN_S_DOWN1, 0, &(Source){ .features = &s->half[3], .x = &s->half[2], .gates = s->gates, .store = &f->skip1 }, &s->quarter[0]));
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

static SnlsSearch search_of(const StanSStream *s, float *query)
{
    SnlsSearch q = { .params = snls_stan_s_search(&s->c), .query = lowest_tensor(s, query, 5, 4), .dist = lowest_tensor(s, s->dist, 6, 1), .offset = lowest_tensor(s, s->offset, 7, 3) };
    q.params.wt = 0;
    return q;
}

/* Scratch of the model's context, which the parts have none of. */
static int64_t search_bytes(const StanSStream *s)
{
    float there = 0; /* is not read */
    SnlsSearch q = search_of(s, &there);
    q.key = q.query;
    return snls_cpu_search_bytes(&q, s->m->ctx->threads, s->m->ctx->cpu_level);
}

static SnlsStatus match(StanSStream *s, int64_t t)
{
    Held *f = frame(s, t);
    const int64_t w = s->W / STAN_S_SCALE, lowest = s->H / STAN_S_SCALE * w;
    SnlsSearch q = search_of(s, f->small);
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
static void fill_found(const SnlsContext *ctx, const Source *src, int64_t from, int64_t rows, const SnlsTensor *to)
{
    const StanSStream *s = src->filler;
    const int64_t w = s->W / STAN_S_SCALE, lowest = s->H / STAN_S_SCALE * w, bytes = 4 * s->c.width * snls_dtype_size((SnlsDtype)to->dtype), slots = s->slots;
    const int32_t *found = frame(s, src->frame)->match;
    const char *planes[2 * STAN_S_WT_MOST + 1];
    for (int64_t k = 0; k < slots; k++) planes[k] = s->levels[src->level].norm[frame_of_slot(s, src->frame, k) % slots].data;
    (void)ctx;
#pragma omp parallel for num_threads(ctx->threads) schedule(static)
    for (int64_t i = 0; i < rows * w; i++)
        for (int64_t k = 0; k < slots; k++) memcpy((char *)to->data + (i * slots + k) * bytes, planes[k] + found[k * lowest + from * w + i] * bytes, (size_t)bytes);
}

/* Block number of frame t with what was found for it: x in quarter[0]. */
static SnlsStatus fuse(StanSStream *s, int64_t number, int64_t t)
{
    const Source src[] = { { .fill = fill_found, .filler = s, .frame = t, .level = number }, { .features = &s->levels[number].x[t % s->slots] } };
    if (!frame(s, t)->matched) SNLS_TRY(match(s, t));
    return snls_stan_s_run(&s->parts, STAN_S_FUSE, number, src, &s->quarter[0]);
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
    SNLS_TRY(snls_stan_s_run(&s->parts, STAN_S_JOIN1, 0, low, &s->half[0]));
    SNLS_TRY(snls_stan_s_run_block(&s->parts, STAN_S_DEC10, 0, &(Source){ .features = &s->half[0] }, &s->half[1], "dec1.0", s->gates));
    SNLS_TRY(snls_stan_s_run_block(&s->parts, STAN_S_DEC11, 0, &(Source){ .features = &s->half[1], .x = &s->half[0], .gates = s->gates, .store = &s->half[2] }, &s->half[3], "dec1.1", s->gates));
    SNLS_TRY(snls_stan_s_run(&s->parts, STAN_S_JOIN0, 0, half, &s->full[0]));
    SNLS_TRY(snls_stan_s_run_block(&s->parts, STAN_S_DEC0, 0, &(Source){ .features = &s->full[0] }, &s->full[1], "dec0.0", s->gates));
    SNLS_TRY(snls_stan_s_run(&s->parts, STAN_S_OUT, 0, &(Source){ .features = &s->full[1], .gates = s->gates }, &s->colours));
    const SnlsTensor added = snls_tensor(s->colours.data, (SnlsDtype)s->m->dtype, 3, (const int64_t[]){ s->H, s->W, 3 });
#pragma omp parallel for num_threads(s->m->ctx->threads) schedule(static)
    for (int64_t y = 0; y < s->h; y++)
        for (int64_t i = 0; i < 3 * s->w; i++) out[y * s->w * 3 + i] = snls_stan_s_result(f->noisy[y * s->w * 3 + i], snls_load(&added, y * s->W * 3 + i), f->sigma);
    return SNLS_OK;
}

/* ---- the stream ---- */

static int64_t most_frames(const StanSConfig *c)
{
    const int64_t frames = c->wt * (c->blocks + 1) + 1;
    return frames < MIN_FRAMES ? MIN_FRAMES : frames;
}

static SnlsStatus make_lists(StanSStream *s)
{
    const int64_t planes = 2 * s->c.blocks * s->slots, bytes = s->room * (int64_t)sizeof(Held) + s->c.blocks * (int64_t)sizeof(Level) + planes * (int64_t)sizeof(Plane);
    s->held = snls_mem_alloc(&s->m->ctx->allocator, bytes);
    SNLS_REQUIRE(s->m->ctx, s->held, SNLS_ERR_MEMORY, "model: no memory for its lists");
    memset(s->held, 0, (size_t)bytes);
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
    SNLS_TRY(snls_stan_s_parts_begin(&s->parts, m, s->H, s->W));
    lay_out(s);
    return SNLS_OK;
}

SnlsStatus snls_stan_s_stream_open(StanSStream **out, SnlsModel *m, const SnlsModelStreamParams *p)
{
    SNLS_TRY(begin(out, m, p));
    StanSStream *s = *out;
    const int64_t bytes = s->used;
    SNLS_TRY(snls_stan_s_parts_commit(&s->parts));
    s->block = snls_mem_alloc(&m->ctx->allocator, bytes + SNLS_ALIGN);
    SNLS_REQUIRE(m->ctx, s->block, SNLS_ERR_MEMORY, "model: no memory for %lld bytes of frames", (long long)bytes);
    s->used = (int64_t)((SNLS_ALIGN - (uintptr_t)s->block % SNLS_ALIGN) % SNLS_ALIGN);
    lay_out(s);
    return SNLS_OK;
}

int64_t snls_stan_s_stream_memory(SnlsModel *m, const SnlsModelStreamParams *p)
{
    StanSStream *s = NULL;
    const int64_t values = begin(&s, m, p) < 0 ? -1 : snls_stan_s_parts_bytes(&s->parts), bytes = values < 0 ? -1 : s->used + values + search_bytes(s);
    snls_stan_s_stream_close(&s);
    return bytes;
}

void snls_stan_s_stream_close(StanSStream **stream)
{
    StanSStream *s = *stream;
    if (!s) return;
    const SnlsAllocator *a = &s->m->ctx->allocator;
    snls_stan_s_parts_free(&s->parts);
    snls_mem_free(a, s->held);
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

/* The frame whose push has failed, as if nobody had given it. What its blocks have overwritten in the rings lies before every window that is still to come. */
static void take_back(StanSStream *s)
{
    for (int64_t i = 0; i < s->c.blocks; i++) s->levels[i].done = s->levels[i].before;
    for (int64_t t = s->pushed < s->slots ? 0 : s->pushed - s->slots + 1; t < s->pushed; t++)
        if (last_of_window(s, t) >= s->pushed) frame(s, t)->matched = false;
}

static SnlsStatus add_frame(StanSStream *s, const float *pixels, double sigma)
{
    SNLS_REQUIRE(s->m->ctx, s->pushed - s->pulled < s->room, SNLS_ERR_ARG, "model: finished frames have not been pulled");
    Held *f = frame(s, s->pushed);
    memcpy(f->noisy, pixels, (size_t)(s->h * s->w * 3) * sizeof *pixels);
    f->sigma = sigma;
    for (int64_t i = 0; i < s->c.blocks; i++) s->levels[i].before = s->levels[i].done;
    SnlsStatus status = encode(s, s->pushed);
    if (status >= 0) status = advance(s);
    if (status >= 0) s->pushed++;
    else take_back(s);
    return status;
}

SnlsStatus snls_stan_s_stream_push(StanSStream *s, const float *pixels, double sigma)
{
    if (s->finished) snls_stan_s_stream_restart(s);
    SNLS_REQUIRE(s->m->ctx, s->pushed == s->real, SNLS_ERR_ARG, "model: the scene is half finished, finish must be called again first");
    SNLS_TRY(add_frame(s, pixels, sigma));
    s->real++;
    return SNLS_OK;
}

/* A scene shorter than a window goes on as its mirror image. */
SnlsStatus snls_stan_s_stream_finish(StanSStream *s)
{
    if (s->finished || !s->real) return SNLS_OK;
    while (s->pushed < MIN_FRAMES) {
        const Held *mirrored = frame(s, snls_reflect(s->pushed, s->real));
        SNLS_TRY(add_frame(s, mirrored->noisy, mirrored->sigma));
    }
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
