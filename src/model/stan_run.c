/* stan_run.c: STAN and STAN-S on clips: windows of frames that overlap, sizes that are no multiple of four, flow. Values are 0..1
 * inside. */
#include "model/stan_s_stream.h"
#include <math.h>
#include <string.h>

enum { RADIUS = 2, LONGEST = 12, SCALE = 4, FARTHEST = 16 }; /* LONGEST: frames of a window, so that memory does not grow with the clip */

typedef struct Job {
    SnlsModel *m;
    const SnlsModelRun *run;
    int64_t h, w, padded_h, padded_w, frames, channels; /* frames: of a window */
} Job;

/* Frames first .. of the clip, mirrored at its ends where it is shorter than a window, and at the right and lower border. */
static void put_frames(const Job *j, int64_t first, const SnlsTensor *in)
{
    const float *clip = j->run->frames.data;
    const int64_t pixels = j->padded_h * j->padded_w;
#pragma omp parallel for num_threads(j->m->here->threads) schedule(static)
    for (int64_t i = 0; i < j->frames * pixels; i++) {
        const int64_t t = snls_reflect(first + i / pixels, j->run->frames.shape[0]), y = snls_reflect(i / j->padded_w % j->padded_h, j->h), x = snls_reflect(i % j->padded_w, j->w);
        const float *p = clip + ((t * j->h + y) * j->w + x) * 3;
        for (int64_t c = 0; c < j->channels; c++) snls_store(in, i * j->channels + c, (c < 3 ? p[c] : j->run->sigma) / 255);
    }
}

/* Frame t of the clip from place of the window. STAN's output is the picture, STAN-S's what is added to the noisy one. */
static void take_frame(const Job *j, int64_t t, int64_t place, const SnlsTensor *out)
{
    float *to = (float *)j->run->out.data + (t - j->run->first) * j->h * j->w * 3;
    const float *noisy = (const float *)j->run->frames.data + t * j->h * j->w * 3;
    const bool added = j->channels == 4;
#pragma omp parallel for num_threads(j->m->here->threads) schedule(static)
    for (int64_t i = 0; i < j->h * j->w; i++)
        for (int64_t c = 0; c < 3; c++) {
            const double y = snls_load(out, ((place * j->padded_h + i / j->w) * j->padded_w + i % j->w) * 3 + c);
            to[3 * i + c] = added ? snls_stan_s_result(noisy[3 * i + c], y, j->run->sigma) : (float)(255 * y);
        }
}

/* ---- flow of STAN: frame to frame at full resolution, shrunk, then followed to every frame of the search ---- */

static SnlsTensor plane(float *data, int64_t h, int64_t w, int64_t c) { return snls_tensor(data, SNLS_F32, 3, (const int64_t[]){ h, w, c }); }

static SnlsFlowPair pair_of(const Job *j, int64_t from, int64_t to, float *flow)
{
    const int64_t frames = j->run->frames.shape[0], size = j->h * j->w * 3;
    float *clip = j->run->frames.data;
    return (SnlsFlowPair){ plane(clip + snls_reflect(from, frames) * size, j->h, j->w, 3), plane(clip + snls_reflect(to, frames) * size, j->h, j->w, 3), plane(flow, j->h, j->w, 2) };
}

/* As the published network has it: bilinear, corner on corner, in pixels of the smaller frame. */
static void shrink_flow(const Job *j, const float *from, float *to)
{
    const int64_t h = j->h / SCALE, w = j->w / SCALE;
    const double dy = h > 1 ? (double)(j->h - 1) / (double)(h - 1) : 0, dx = w > 1 ? (double)(j->w - 1) / (double)(w - 1) : 0;
    for (int64_t i = 0; i < h * w; i++) {
        const double y = dy * (double)(i / w), x = dx * (double)(i % w), fy = y - floor(y), fx = x - floor(x);
        const int64_t y0 = (int64_t)y, x0 = (int64_t)x, y1 = y0 + 1 < j->h ? y0 + 1 : y0, x1 = x0 + 1 < j->w ? x0 + 1 : x0;
        for (int c = 0; c < 2; c++) {
            const double top = (1 - fx) * (double)from[(y0 * j->w + x0) * 2 + c] + fx * (double)from[(y0 * j->w + x1) * 2 + c];
            const double bottom = (1 - fx) * (double)from[(y1 * j->w + x0) * 2 + c] + fx * (double)from[(y1 * j->w + x1) * 2 + c];
            to[2 * i + c] = (float)(((1 - fy) * top + fy * bottom) * (c ? (double)h / (double)j->h : (double)w / (double)j->w));
        }
    }
}

/* Flow from frame to frame and back of a window, at full resolution in full, shrunk in forward and backward. */
static SnlsStatus small_flows(Job *j, int64_t first, float *full, float *forward, float *backward)
{
    const int64_t size = j->h / SCALE * (j->w / SCALE) * 2, field = j->h * j->w * 2;
    SnlsFlowPair pairs[2 * LONGEST];
    int64_t n = 0;
    for (int64_t t = 0; t + 1 < j->frames; t++)
        for (int back = 0; back < 2; back++, n++) pairs[n] = pair_of(j, first + t + back, first + t + 1 - back, full + n * field);
    SnlsFlowParams params;
    snls_flow_defaults(&params);
    params.method = j->m->params.flow;
    SNLS_TRY(snls_flow_pairs(j->m->here, pairs, n, &params));
    for (int64_t i = 0; i < n; i++) shrink_flow(j, full + i * field, i % 2 ? backward + (i / 2 + 1) * size : forward + i / 2 * size);
    return SNLS_OK;
}

static SnlsStatus put_flow(Job *j, int64_t first, const SnlsTensor *flow)
{
    const int64_t h = j->h / SCALE, w = j->w / SCALE, size = h * w * 2, fields = 2 * (j->frames - 1) * j->h * j->w * 2;
    SNLS_TRY(snls_model_scratch(j->m, fields + 2 * j->frames * size));
    float *forward = j->m->scratch + fields, *backward = forward + j->frames * size;
    memset(forward, 0, sizeof(float) * (size_t)(2 * j->frames * size));
    SNLS_TRY(small_flows(j, first, j->m->scratch, forward, backward));
    const int64_t shape[5] = { 1, j->frames, h, w, 2 };
    SnlsFlowCompose c = { .fflow = snls_tensor(forward, SNLS_F32, 5, shape), .bflow = snls_tensor(backward, SNLS_F32, 5, shape), .flow = *flow };
    snls_flow_compose_defaults(&c.params);
    c.params.wt = (int32_t)(flow->shape[2] / 2);
    return snls_flow_compose_forward(j->m->here, &c);
}

/* ---- windows ---- */

static SnlsStatus run_window(Job *j, int64_t first, int64_t from, int64_t to, bool flow)
{
    Stage *s = &j->m->stage[0];
    SnlsTensor in[2], out;
    SNLS_TRY(snls_model_views(s, flow ? 2 : 1, in, &out));
    put_frames(j, first, &in[0]);
    if (flow) SNLS_TRY(put_flow(j, first, &in[1]));
    SNLS_TRY(snls_model_forward(s, flow ? 2 : 1));
    for (int64_t t = from; t < to; t++) take_frame(j, t, t - first, &out);
    return SNLS_OK;
}

/* Of a window the frames that have radius others beside them, or the end of the clip, are kept. */
static SnlsStatus run_windows_of(Job *j, int64_t longest, int64_t radius, bool flow)
{
    const int64_t clip = j->run->frames.shape[0], end = j->run->first + j->run->count;
    j->frames = clip < 2 * RADIUS + 1 ? 2 * RADIUS + 1 : clip > longest ? longest : clip;
    SNLS_TRY(snls_model_stage(j->m, 0, j->frames, j->padded_h, j->padded_w));
    for (int64_t from = j->run->first; from < end;) {
        int64_t first = from - radius;
        if (first > clip - j->frames) first = clip - j->frames;
        if (first < 0) first = 0;
        int64_t to = first + j->frames >= clip ? clip : first + j->frames - radius;
        if (to > end) to = end;
        SNLS_TRY(run_window(j, first, from, to, flow));
        from = to;
    }
    return SNLS_OK;
}

static int64_t longest_window(const SnlsModel *m)
{
    const int64_t all = 3 * snls_model_reach(m);
    return m->short_windows || all < LONGEST ? LONGEST : all;
}

/* Windows as long as frames depend on one another; where a GPU has no memory for them short ones, whose frames miss the farthest. */
static SnlsStatus run_windows(Job *j, bool flow)
{
    SnlsModel *m = j->m;
    const SnlsStatus status = run_windows_of(j, longest_window(m), m->short_windows ? RADIUS : snls_model_reach(m), flow);
    if (status != SNLS_ERR_MEMORY || longest_window(m) == LONGEST) return status;
    m->short_windows = true;
    return run_windows_of(j, LONGEST, RADIUS, flow);
}

/* room: scratch that is taken at least. On a GPU, whose memory is its own, 0. */
static int64_t window_memory(SnlsModel *m, int64_t frames, int64_t h, int64_t w, int64_t room)
{
    const int64_t values = snls_model_stage_bytes(m, 0, frames < longest_window(m) ? frames : longest_window(m), h, w, &room);
    return values < 1 ? values : values + room;
}

/* ---- STAN ---- */

static void build_stan(SnlsModel *m, Stage *s, int stage, int64_t n, int64_t h, int64_t w)
{
    const StanConfig c = snls_stan_config();
    (void)m, (void)stage;
    const StanNet net = snls_stan_build(&s->net, &c, &(StanShape){ 1, n, h, w });
    s->in = net.in, s->out = net.out; /* the flow is the value after the input */
}

static SnlsStatus run_stan(SnlsModel *m, const SnlsModelRun *run)
{
    Job j = { .m = m, .run = run, .h = run->frames.shape[1], .w = run->frames.shape[2], .channels = 3 };
    SNLS_REQUIRE(m->ctx, j.h >= SCALE && j.w >= SCALE, SNLS_ERR_UNSUPPORTED, "model: frames are %lld x %lld pixels, stan takes %d x %d at least", (long long)j.w, (long long)j.h, SCALE, SCALE);
    j.padded_h = j.h, j.padded_w = j.w;
    return run_windows(&j, true);
}

/* Values, flow, and scratch for a part of the stack once more, in the order that its convolution wants. */
static int64_t stan_memory(SnlsModel *m, int64_t frames, int64_t h, int64_t w)
{
    const StanConfig c = snls_stan_config();
    const int64_t n = frames < LONGEST ? frames : LONGEST, small = n * (h / SCALE) * (w / SCALE);
    const int64_t stack = small * c.heads[2] / STAN_PARTS * 2 * c.per_head * c.used * snls_dtype_size((SnlsDtype)m->dtype), run = window_memory(m, frames, h, w, stack);
    return run < 0 ? -1 : run + (2 * (n - 1) * h * w * 2 + 2 * small * 2) * (int64_t)sizeof(float);
}

const Architecture snls_stan = { .name = "stan", .radius = RADIUS, .chunk = 4, .stages = 1, .build = build_stan, .run = run_stan, .memory = stan_memory, .side = MODEL_FLOW_SIDE, .parameters = 12073694 };

/* ---- STAN-S ---- */

static SnlsStatus configure(SnlsModel *m, const SnlsSafetensors *file)
{
    m->stan_s = snls_stan_s_config();
    SNLS_TRY(snls_model_setting(m, file, "width", 1, 256, &m->stan_s.width));
    SNLS_TRY(snls_model_setting(m, file, "blocks", 0, 64, &m->stan_s.blocks));
    SNLS_TRY(snls_model_setting(m, file, "ws", 1, 255, &m->stan_s.ws));
    return snls_model_setting(m, file, "wt", 0, RADIUS, &m->stan_s.wt);
}

/* Each fusion looks wt frames further, at the ends of a clip twice as far to one side. */
static int64_t stan_s_far(const SnlsModel *m) { return m->stan_s.blocks ? m->stan_s.wt * (m->stan_s.blocks + 1) : 0; }

static int64_t stan_s_reach(const SnlsModel *m)
{
    const int64_t far = stan_s_far(m);
    return far < RADIUS ? RADIUS : far > FARTHEST ? FARTHEST : far;
}

static void build_stan_s(SnlsModel *m, Stage *s, int stage, int64_t n, int64_t h, int64_t w)
{
    (void)stage;
    const StanNet net = snls_stan_s_build(&s->net, &m->stan_s, &(StanShape){ 1, n, h, w });
    s->in = net.in, s->out = net.out;
}

static SnlsStatus stream_for(SnlsModel *m, int64_t h, int64_t w)
{
    if (m->stream && m->stream_size[0] == h && m->stream_size[1] == w) return SNLS_OK;
    snls_stan_s_stream_close(&m->stream);
    const SnlsStatus status = snls_stan_s_stream_open(&m->stream, m, &(SnlsModelStreamParams){ .height = h, .width = w });
    if (status < 0) snls_stan_s_stream_close(&m->stream);
    m->stream_size[0] = h, m->stream_size[1] = w;
    return status;
}

/* What is ready, of it what is wanted. */
static SnlsStatus pull_ready(SnlsModel *m, const SnlsModelRun *run, int64_t *t)
{
    const int64_t floats = run->frames.shape[1] * run->frames.shape[2] * 3;
    for (SnlsStatus status;; ++*t) {
        const bool wanted = *t >= run->first && *t < run->first + run->count;
        status = snls_stan_s_stream_pull(m->stream, wanted ? (float *)run->out.data + (*t - run->first) * floats : NULL);
        if (status != SNLS_OK) return status;
    }
}

static SnlsStatus run_stream(SnlsModel *m, const SnlsModelRun *run)
{
    int64_t t = 0;
    SNLS_TRY(stream_for(m, run->frames.shape[1], run->frames.shape[2]));
    snls_stan_s_stream_restart(m->stream);
    for (int64_t i = 0; i < run->frames.shape[0]; i++) {
        SNLS_TRY(snls_stan_s_stream_push(m->stream, (const float *)run->frames.data + i * run->frames.stride[0], run->sigma));
        SNLS_TRY(pull_ready(m, run, &t));
    }
    SNLS_TRY(snls_stan_s_stream_finish(m->stream));
    const SnlsStatus status = pull_ready(m, run, &t);
    return status < 0 ? status : SNLS_OK;
}

static SnlsStatus run_stan_s(SnlsModel *m, const SnlsModelRun *run)
{
    if (snls_stan_s_streams(m)) return run_stream(m, run);
    Job j = { .m = m, .run = run, .h = run->frames.shape[1], .w = run->frames.shape[2], .channels = 4 };
    j.padded_h = (j.h + SCALE - 1) / SCALE * SCALE, j.padded_w = (j.w + SCALE - 1) / SCALE * SCALE;
    return run_windows(&j, false);
}

static int64_t stan_s_memory(SnlsModel *m, int64_t frames, int64_t h, int64_t w) { return window_memory(m, frames, (h + SCALE - 1) / SCALE * SCALE, (w + SCALE - 1) / SCALE * SCALE, 0); }

const Architecture snls_stan_s = { .name = "stan-s", .radius = RADIUS, .chunk = 4, .stages = 1, .configure = configure, .build = build_stan_s, .run = run_stan_s, .memory = stan_s_memory,
                                   .far = stan_s_far, .reach = stan_s_reach };
