/* stream.c: frames one after the other through a network: by its own stream where it has one, else by runs on a window that slides along
 * the scene, a chunk of frames at a time with all that they depend on on either side. */
#include "model/stan_s_stream.h"
#include "base/options.h"
#include <string.h>

struct SnlsModelStream {
    SnlsModel *m;
    SnlsModelStreamParams params;
    StanSStream *own;
    /* window (room,H,W,3): the first `done` frames are only there as neighbours; out (chunk,H,W,3) */
    float  *window, *out;
    int64_t room, count, done, radius, chunk;
    int64_t ready, given; /* frames in out, of them pulled */
    double  sigma;
    bool    finished;
};

static int64_t frame_floats(const SnlsModelStreamParams *p) { return p->height * p->width * 3; }
static int64_t chunk_of(const SnlsModel *m) { return m->architecture->chunk > snls_model_reach(m) ? m->architecture->chunk : snls_model_reach(m); }
static int64_t window_frames(const SnlsModel *m) { return chunk_of(m) + 2 * snls_model_reach(m); }

static SnlsStatus check_params(const SnlsModel *m, const SnlsModelStreamParams *p)
{
    SnlsContext *ctx = m->ctx;
    SNLS_REQUIRE(ctx, p, SNLS_ERR_ARG, "model_stream: params is NULL");
    SNLS_TRY(snls_model_size_check(m, "model_stream", SNLS_ERR_ARG, p->height, p->width));
    SNLS_TRY(snls_flag_check(ctx, "model_stream", "lean", p->lean));
    return snls_reserved_check(ctx, "model_stream", NULL, p->reserved, sizeof p->reserved / sizeof *p->reserved);
}

static SnlsStatus open_stream(SnlsModelStream *s)
{
    SnlsContext *ctx = s->m->ctx;
    if (snls_stan_s_streams(s->m)) return snls_stan_s_stream_open(&s->own, s->m, &s->params);
    s->radius = snls_model_reach(s->m), s->chunk = chunk_of(s->m), s->room = window_frames(s->m);
    s->window = snls_mem_alloc(&ctx->allocator, (s->room + s->chunk) * frame_floats(&s->params) * (int64_t)sizeof(float));
    SNLS_REQUIRE(ctx, s->window, SNLS_ERR_MEMORY, "model: no memory for a window of %lld frames", (long long)s->room);
    s->out = s->window + s->room * frame_floats(&s->params);
    return SNLS_OK;
}

SnlsStatus snls_model_stream_open(SnlsModelStream **out, SnlsModel *m, const SnlsModelStreamParams *params)
{
    if (!m) return SNLS_ERR_ARG;
    SNLS_REQUIRE(m->ctx, out, SNLS_ERR_ARG, "model_stream_open: out is NULL");
    *out = NULL;
    SNLS_TRY(check_params(m, params));
    SnlsModelStream *s = snls_mem_alloc(&m->ctx->allocator, sizeof *s);
    SNLS_REQUIRE(m->ctx, s, SNLS_ERR_MEMORY, "model: no memory for a stream");
    *s = (SnlsModelStream){ .m = m, .params = *params };
    *out = s;
    const SnlsStatus status = open_stream(s);
    if (status < 0) snls_model_stream_close(out);
    return status;
}

void snls_model_stream_close(SnlsModelStream **stream)
{
    if (!stream || !*stream) return;
    SnlsModelStream *s = *stream;
    snls_stan_s_stream_close(&s->own);
    snls_mem_free(&s->m->ctx->allocator, s->window);
    snls_mem_free(&s->m->ctx->allocator, s);
    *stream = NULL;
}

int64_t snls_model_stream_memory(SnlsModel *m, const SnlsModelStreamParams *params)
{
    if (!m || check_params(m, params) < 0) return -1;
    if (snls_stan_s_streams(m)) return snls_stan_s_stream_memory(m, params);
    const int64_t run = m->architecture->memory(m, window_frames(m), params->height, params->width);
    return run < 0 ? -1 : run + (window_frames(m) + chunk_of(m)) * frame_floats(params) * (int64_t)sizeof(float);
}

int64_t snls_model_stream_delay(const SnlsModelStream *s) { return !s ? 0 : s->own ? snls_stan_s_stream_delay(s->own) : s->room; }

/* Those that nobody looks at any more, not before their place is wanted: the last frames of a scene then have a whole window too. */
static void drop_frames(SnlsModelStream *s)
{
    const int64_t drop = s->done > s->radius ? s->done - s->radius : 0, floats = frame_floats(&s->params);
    memmove(s->window, s->window + drop * floats, (size_t)((s->count - drop) * floats) * sizeof(float));
    s->count -= drop;
    s->done -= drop;
}

SnlsStatus snls_model_stream_push(SnlsModelStream *s, const float *frame, double sigma)
{
    if (!s) return SNLS_ERR_ARG;
    SNLS_REQUIRE(s->m->ctx, frame && sigma >= 0 && sigma <= 255, SNLS_ERR_ARG, "model_stream: a frame and a sigma of 0 to 255 are needed, sigma is %g", sigma);
    SNLS_REQUIRE(s->m->ctx, snls_all_finite(frame, frame_floats(&s->params)), SNLS_ERR_ARG, "model_stream: a frame holds a value that is not finite");
    if (s->own) return snls_stan_s_stream_push(s->own, frame, sigma);
    if (s->finished) s->count = s->done = 0, s->finished = false;
    if (s->count == s->room) drop_frames(s);
    SNLS_REQUIRE(s->m->ctx, s->count < s->room, SNLS_ERR_ARG, "model: finished frames have not been pulled");
    if (sigma > 0 || !s->count) s->sigma = sigma; /* frames without noise leave those beside them theirs */
    memcpy(s->window + s->count++ * frame_floats(&s->params), frame, (size_t)frame_floats(&s->params) * sizeof *frame);
    return SNLS_OK;
}

SnlsStatus snls_model_stream_finish(SnlsModelStream *s)
{
    if (!s) return SNLS_ERR_ARG;
    if (s->own) return snls_stan_s_stream_finish(s->own);
    s->finished = true;
    return SNLS_OK;
}

static SnlsStatus run_window(SnlsModelStream *s, int64_t count)
{
    const int64_t h = s->params.height, w = s->params.width;
    const SnlsModelRun run = { .first = s->done, .count = count, .sigma = s->sigma,
                               .frames = snls_tensor(s->window, SNLS_F32, 4, (const int64_t[]){ s->count, h, w, 3 }), .out = snls_tensor(s->out, SNLS_F32, 4, (const int64_t[]){ count, h, w, 3 }) };
    SNLS_TRY(s->m->architecture->run(s->m, &run)); /* push has looked at the frames */
    s->done += count;
    s->ready = count;
    s->given = 0;
    return SNLS_OK;
}

static SnlsStatus pull_any(SnlsModelStream *s, float *frame)
{
    if (s->own) return snls_stan_s_stream_pull(s->own, frame);
    if (s->given == s->ready) {
        const int64_t left = s->count - s->done;
        if (s->finished && left > 0) SNLS_TRY(run_window(s, left < s->chunk ? left : s->chunk));
        else if (!s->finished && left >= s->chunk + s->radius) SNLS_TRY(run_window(s, s->chunk));
        else return SNLS_END;
    }
    memcpy(frame, s->out + s->given++ * frame_floats(&s->params), (size_t)frame_floats(&s->params) * sizeof *frame);
    return SNLS_OK;
}

SnlsStatus snls_model_stream_pull(SnlsModelStream *s, float *frame)
{
    if (!s) return SNLS_ERR_ARG;
    SNLS_REQUIRE(s->m->ctx, frame, SNLS_ERR_ARG, "model_stream_pull: frame is NULL");
    const SnlsStatus status = pull_any(s, frame);
    if (status != SNLS_OK) return status;
    return snls_model_check(s->m, frame, frame_floats(&s->params));
}
