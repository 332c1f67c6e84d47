/* dvdnet.c: DVDnet (Tassano, Delon, Veit, 2019): every frame denoised alone, its neighbours moved onto it by optical flow, the five
 * fused. Values are 0..1. Written from the paper and a description of the published weights' layers. */
#include "model/bands.h"
#include "model/model.h"
#include <string.h>

enum { SPATIAL = 0, TEMPORAL = 1, WIDTH = 96, RADIUS = 2, WINDOW = 2 * RADIUS + 1, BODY = 10, FLOW_BYTES = 100 };

static int32_t conv(NnNet *net, int32_t x, const char *name, int64_t out, NnConv c, bool bias, int32_t residual)
{
    const NnConvSpec spec = { .conv = c, .out = out, .no_bias = !bias, .residual = residual, .init = NN_INIT_NORMAL, .scale = 0.02 };
    return snls_nn_conv(net, x, name, &spec);
}

static NnConv kernel(int64_t side, int64_t stride, int32_t act) { return (NnConv){ side, stride, side / 2, 1, 0, act, 0 }; }

/* in (n,h,w,3): a noisy frame; the noise level goes in beside it, at half resolution, as three planes that come first */
static void build_spatial(Stage *s, int64_t n, int64_t h, int64_t w)
{
    NnNet *net = &s->net;
    s->in = snls_nn_input(net, n, h, w, 3);
    const int32_t sigma = snls_nn_input(net, n, h / 2, w / 2, 3); /* the value after s->in */
    int32_t x = snls_nn_concat(net, sigma, snls_nn_shuffle(net, s->in, 2, true));
    x = conv(net, x, "module.conv_relu_bn.0", WIDTH, kernel(3, 1, NN_RELU), false, -1);
    for (int i = 0; i < BODY; i++) x = conv(net, x, snls_nn_name("module.conv_relu_bn.%d", 2 + 3 * i).text, WIDTH, kernel(3, 1, NN_RELU), true, -1);
    x = conv(net, x, "module.conv_relu_bn.32", 12, kernel(3, 1, NN_LINEAR), false, -1);
    s->out = snls_nn_add(net, s->in, 1, snls_nn_shuffle(net, x, 2, false), -1);
}

/* in (n,h,w,18): three planes of the noise level, then five frames */
static void build_temporal(Stage *s, int64_t n, int64_t h, int64_t w)
{
    NnNet *net = &s->net;
    s->in = snls_nn_input(net, n, h, w, 3 + 3 * WINDOW);
    const int32_t y = conv(net, s->in, "module.down_conv.0", WIDTH, kernel(5, 2, NN_RELU), true, -1);
    int32_t z = y;
    for (int i = 0; i < 4; i++) z = conv(net, z, snls_nn_name("module.block_conv.%d", 3 * i).text, WIDTH, kernel(3, 1, NN_RELU), true, -1);
    z = conv(net, y, "module.conv1x1", WIDTH, kernel(1, 1, NN_LINEAR), false, z);
    z = conv(net, z, "module.out_conv.0", WIDTH, kernel(3, 1, NN_RELU), true, -1);
    s->out = snls_nn_shuffle(net, conv(net, z, "module.out_conv.3", 12, kernel(3, 1, NN_LINEAR), false, -1), 2, false);
}

static void build(SnlsModel *m, Stage *s, int stage, int64_t n, int64_t h, int64_t w)
{
    (void)m;
    if (stage == SPATIAL) build_spatial(s, n, h, w);
    else build_temporal(s, n, h, w);
}

static SnlsStatus load(SnlsModel *m, Stage *s, int stage, const SnlsSafetensors *file, int64_t *used)
{
    static const char *const temporal[][2] = { { "module.down_conv.0", "module.down_conv.1" },   { "module.block_conv.0", "module.block_conv.1" },
                                               { "module.block_conv.3", "module.block_conv.4" }, { "module.block_conv.6", "module.block_conv.7" },
                                               { "module.block_conv.9", "module.block_conv.10" }, { "module.conv1x1", NULL },
                                               { "module.out_conv.0", "module.out_conv.1" },     { "module.out_conv.3", NULL } };
    for (int i = 0; stage == TEMPORAL && i < 8; i++) SNLS_TRY(snls_model_fold(m, file, temporal[i][0], temporal[i][1], &s->params, used));
    if (stage == TEMPORAL) return SNLS_OK;
    SNLS_TRY(snls_model_fold(m, file, "module.conv_relu_bn.0", NULL, &s->params, used));
    for (int i = 0; i < BODY; i++)
        SNLS_TRY(snls_model_fold(m, file, snls_nn_name("module.conv_relu_bn.%d", 2 + 3 * i).text, snls_nn_name("module.conv_relu_bn.%d", 3 + 3 * i).text, &s->params, used));
    return snls_model_fold(m, file, "module.conv_relu_bn.32", NULL, &s->params, used);
}

/* ---- running: frames are worked on at even sizes, mirrored at the right and lower border where they are odd ---- */

typedef struct Job {
    SnlsModel *m;
    const SnlsModelRun *run;
    int64_t h, w, even_h, even_w, pixels; /* pixels: of an even frame */
    float *spatial, *rounded;             /* (T, even_h, even_w, 3): the first stage's results; the same in steps of 1/255, clamped */
    float *flow, *warped;                 /* of one pair; the frames about, moved onto one */
} Job;

/* Bands, in rows of half resolution: each convolution of 3 x 3 there takes a row at either end of a band, the first of the fusion, 5 x 5
 * in steps of two, another. Rows of a frame are twice as many. */
static Bands bands_of(const SnlsModel *m, int stage, int64_t even_h, int64_t even_w)
{
    const int64_t halo = stage == SPATIAL ? BODY + 2 : 7, row = even_w / 2 * WIDTH * snls_dtype_size((SnlsDtype)m->dtype);
    return snls_bands(even_h / 2, snls_model_band(m, row), halo);
}

static void fill_plane(const SnlsTensor *t, double value)
{
    const int64_t n = snls_tensor_elements(t);
    for (int64_t i = 0; i < n; i++) snls_store(t, i, value);
}

static SnlsStatus denoise_alone(Job *j, int64_t t)
{
    Stage *s = &j->m->stage[SPATIAL];
    const float *frame = (const float *)j->run->frames.data + t * j->h * j->w * 3;
    float *to = j->spatial + t * j->pixels * 3;
    SnlsTensor in[2], out;
    SNLS_TRY(snls_model_views(s, 2, in, &out));
    fill_plane(&in[1], j->run->sigma / 255);
    for (Bands b = bands_of(j->m, SPATIAL, j->even_h, j->even_w); snls_bands_next(&b);) {
        const int64_t above = 2 * b.from * j->even_w;
        for (int64_t i = 0; i < 2 * b.rows * j->even_w; i++) {
            const float *p = frame + (snls_reflect((above + i) / j->even_w, j->h) * j->w + snls_reflect(i % j->even_w, j->w)) * 3;
            for (int c = 0; c < 3; c++) snls_store(&in[0], i * 3 + c, p[c] / 255);
        }
        SNLS_TRY(snls_model_forward(s, 2));
        for (int64_t i = 2 * b.low * j->even_w * 3; i < 2 * b.high * j->even_w * 3; i++) to[i] = (float)snls_load(&out, i - above * 3);
    }
    snls_model_unit(to, j->pixels * 3);
    snls_model_round(j->rounded + t * j->pixels * 3, to, j->pixels * 3);
    return SNLS_OK;
}

static SnlsTensor view(float *data, const Job *j, int64_t channels) { return snls_tensor(data, SNLS_F32, 3, (const int64_t[]){ j->even_h, j->even_w, channels }); }

/* Frame other, moved onto frame t. The flow is looked for on the 0..255 scale, on which its constants are. */
static SnlsStatus move_onto(Job *j, int64_t t, int64_t other, float *moved)
{
    const int64_t n = j->pixels * 3;
    SnlsFlowParams params;
    snls_flow_defaults(&params);
    params.method = j->m->params.flow;
    SnlsFlowPair pair = { view(j->rounded + t * n, j, 3), view(j->rounded + other * n, j, 3), view(j->flow, j, 2) };
    const SnlsTensor out = view(moved, j, 3);
    SNLS_TRY(snls_flow(j->m->here, &pair, &params));
    return snls_flow_warp(j->m->here, &pair.to, &pair.flow, &out);
}

/* The frames side by side, rows of a band of them. */
static void put_frames(const Job *j, const Bands *b, const SnlsTensor *in, const float *const frames[WINDOW], const float scale[WINDOW])
{
    const int64_t first = 2 * b->from * j->even_w;
    for (int64_t i = 0; i < 2 * b->rows * j->even_w; i++)
        for (int64_t c = 0; c < 3 * WINDOW; c++) snls_store(in, i * (3 + 3 * WINDOW) + 3 + c, frames[c / 3][3 * (first + i) + c % 3] * scale[c / 3]);
}

static void take_rows(const Job *j, const Bands *b, const SnlsTensor *out, float *to)
{
    const int64_t end = 2 * b->high < j->h ? 2 * b->high : j->h;
    for (int64_t i = 2 * b->low * j->w * 3; i < end * j->w * 3; i++) {
        const double y = snls_load(out, ((i / 3 / j->w - 2 * b->from) * j->even_w + i / 3 % j->w) * 3 + i % 3);
        to[i] = (float)(255 * (y < 0 ? 0 : y > 1 ? 1 : y));
    }
}

static SnlsStatus fuse(Job *j, int64_t t)
{
    Stage *s = &j->m->stage[TEMPORAL];
    const int64_t frames = j->run->frames.shape[0], n = j->pixels * 3;
    const float *beside[WINDOW];
    float scale[WINDOW];
    SnlsTensor in, out;
    SNLS_TRY(snls_model_views(s, 1, &in, &out));
    fill_plane(&in, j->run->sigma / 255);
    for (int64_t k = 0; k < WINDOW; k++) {
        const int64_t other = snls_model_clamp_frame(t + k - RADIUS, frames);
        float *moved = j->warped + k * n;
        if (other != t) SNLS_TRY(move_onto(j, t, other, moved));
        beside[k] = other == t ? j->spatial + t * n : moved, scale[k] = other == t ? 1 : 1.0f / 255;
    }
    for (Bands b = bands_of(j->m, TEMPORAL, j->even_h, j->even_w); snls_bands_next(&b);) {
        put_frames(j, &b, &in, beside, scale);
        SNLS_TRY(snls_model_forward(s, 1));
        take_rows(j, &b, &out, (float *)j->run->out.data + (t - j->run->first) * j->h * j->w * 3);
    }
    return SNLS_OK;
}

static int64_t scratch_floats(int64_t frames, int64_t pixels) { return pixels * (6 * frames + 2 + 3 * WINDOW); }

static SnlsStatus run(SnlsModel *m, const SnlsModelRun *r)
{
    Job j = { .m = m, .run = r, .h = r->frames.shape[1], .w = r->frames.shape[2] };
    const int64_t frames = r->frames.shape[0];
    j.even_h = (j.h + 1) / 2 * 2, j.even_w = (j.w + 1) / 2 * 2, j.pixels = j.even_h * j.even_w;
    SNLS_TRY(snls_model_scratch(m, scratch_floats(frames, j.pixels)));
    j.spatial = m->scratch, j.rounded = j.spatial + 3 * frames * j.pixels, j.flow = j.rounded + 3 * frames * j.pixels, j.warped = j.flow + 2 * j.pixels;
    for (int stage = SPATIAL; stage <= TEMPORAL; stage++) SNLS_TRY(snls_model_stage(m, stage, 1, 2 * bands_of(m, stage, j.even_h, j.even_w).rows, j.even_w));
    const int64_t first = r->first < RADIUS ? 0 : r->first - RADIUS, last = snls_model_clamp_frame(r->first + r->count - 1 + RADIUS, frames);
    for (int64_t t = first; t <= last; t++) SNLS_TRY(denoise_alone(&j, t));
    for (int64_t i = first * j.pixels * 3; i < (last + 1) * j.pixels * 3; i++) j.rounded[i] *= 255;
    for (int64_t t = r->first; t < r->first + r->count; t++) SNLS_TRY(fuse(&j, t));
    return SNLS_OK;
}

static int64_t memory(SnlsModel *m, int64_t frames, int64_t h, int64_t w)
{
    const int64_t even_h = (h + 1) / 2 * 2, even_w = (w + 1) / 2 * 2;
    int64_t bytes = scratch_floats(frames, even_h * even_w) * (int64_t)sizeof(float) + even_h * even_w * FLOW_BYTES, room = 0;
    for (int stage = SPATIAL; stage <= TEMPORAL && bytes >= 0; stage++) {
        const int64_t values = snls_model_stage_bytes(m, stage, 1, 2 * bands_of(m, stage, even_h, even_w).rows, even_w, &room);
        bytes = values < 0 ? -1 : bytes + values;
    }
    return bytes < 0 ? -1 : bytes + room;
}

const Architecture snls_dvdnet = { .name = "dvdnet", .radius = RADIUS, .chunk = 8, .stages = 2, .build = build, .load = load, .run = run, .memory = memory,
                                   .side = MODEL_FLOW_SIDE - 1, /* an even number */
                                   .files = { "dvdnet_spatial.safetensors", "dvdnet_temporal.safetensors" } };
