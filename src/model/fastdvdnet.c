/* fastdvdnet.c: FastDVDnet (Tassano, Delon, Veit, 2020): two U-Nets in a row, each over three frames, no flow. Values are 0..1.
 * Written from the paper. Both stages have their weights in one file, as module.temp1 and module.temp2. */
#include "model/bands.h"
#include "model/model.h"
#include <string.h>

enum { RADIUS = 2, FRAMES = 3 };

/* A convolution without bias and its batch norm, folded: weight and bias. */
static int32_t conv(NnNet *net, int32_t x, const char *block, const char *layer, int64_t out, int64_t stride, int64_t groups, int32_t act, bool norm)
{
    const NnConvSpec spec = { .conv = { 3, stride, 1, groups, 0, act, 0 }, .out = out, .no_bias = !norm, .residual = -1, .init = NN_INIT_NORMAL, .scale = 0.02 };
    return snls_nn_conv(net, x, snls_nn_name("%s.%s", block, layer).text, &spec);
}

typedef struct Layer { const char *conv, *norm; } Layer;
static const Layer layers[] = {
    { "inc.convblock.0", "inc.convblock.1" }, { "inc.convblock.3", "inc.convblock.4" },
    { "downc0.convblock.0", "downc0.convblock.1" }, { "downc0.convblock.3.convblock.0", "downc0.convblock.3.convblock.1" }, { "downc0.convblock.3.convblock.3", "downc0.convblock.3.convblock.4" },
    { "downc1.convblock.0", "downc1.convblock.1" }, { "downc1.convblock.3.convblock.0", "downc1.convblock.3.convblock.1" }, { "downc1.convblock.3.convblock.3", "downc1.convblock.3.convblock.4" },
    { "upc2.convblock.0.convblock.0", "upc2.convblock.0.convblock.1" }, { "upc2.convblock.0.convblock.3", "upc2.convblock.0.convblock.4" }, { "upc2.convblock.1", NULL },
    { "upc1.convblock.0.convblock.0", "upc1.convblock.0.convblock.1" }, { "upc1.convblock.0.convblock.3", "upc1.convblock.0.convblock.4" }, { "upc1.convblock.1", NULL },
    { "outc.convblock.0", "outc.convblock.1" }, { "outc.convblock.3", NULL },
};
enum { LAYERS = sizeof layers / sizeof *layers };

/* in (n,h,w,12): frame, sigma, frame, sigma, frame, sigma. The middle frame, channels 4 to 6, less what the U-Net finds. */
static int32_t den_block(NnNet *net, int32_t x, int32_t middle, const char *block)
{
    const int64_t out[LAYERS] = { 90, 32, 64, 64, 64, 128, 128, 128, 128, 128, 256, 64, 64, 128, 32, 3 };
    int32_t skip[2] = { -1, -1 };
    for (int i = 0; i < LAYERS; i++) {
        const bool down = i == 2 || i == 5;
        x = conv(net, x, block, layers[i].conv, out[i], down ? 2 : 1, i ? 1 : 3, layers[i].norm ? NN_RELU : NN_LINEAR, layers[i].norm != NULL);
        if (i == 1) skip[0] = x;
        if (i == 4) skip[1] = x;
        if (i == 10 || i == 13) x = snls_nn_add(net, snls_nn_shuffle(net, x, 2, false), 1, skip[i == 10], 1);
    }
    return snls_nn_add(net, middle, 1, x, -1);
}

/* stage 0: temp1, stage 1: temp2; values: input (n,h,w,12) and, after it, the middle frame (n,h,w,3) */
static void build(SnlsModel *m, Stage *s, int stage, int64_t n, int64_t h, int64_t w)
{
    (void)m;
    s->in = snls_nn_input(&s->net, n, h, w, 4 * FRAMES);
    const int32_t middle = snls_nn_input(&s->net, n, h, w, 3);
    s->out = den_block(&s->net, s->in, middle, stage ? "module.temp2" : "module.temp1");
}

static SnlsStatus load(SnlsModel *m, Stage *s, int stage, const SnlsSafetensors *file, int64_t *used)
{
    const char *block = stage ? "module.temp2" : "module.temp1";
    for (int i = 0; i < LAYERS; i++) {
        const NnName norm = snls_nn_name("%s.%s", block, layers[i].norm ? layers[i].norm : "");
        SNLS_TRY(snls_model_fold(m, file, snls_nn_name("%s.%s", block, layers[i].conv).text, layers[i].norm ? norm.text : NULL, &s->params, used));
    }
    return SNLS_OK;
}

typedef struct Job {
    SnlsModel *m;
    const SnlsModelRun *run;
    int64_t h, w, padded_h, padded_w, pixels;
    float *frames, *middle, *result; /* three noisy ones; three of the first stage, of frame t at (t + 3) % 3; one */
    int64_t known[FRAMES];           /* the frame that each of the three is of */
} Job;

/* Bands, in rows of a quarter of the resolution. A border that is none reaches 2 rows inward at full resolution, 4 at half after the way
 * down, 8 at a quarter, 19 at half and 40 at full on the way up. */
static Bands bands_of(const SnlsModel *m, int64_t padded_h, int64_t padded_w)
{
    return snls_bands(padded_h / 4, snls_model_band(m, 4 * padded_w * 90 * snls_dtype_size((SnlsDtype)m->dtype)), 10);
}

/* Three frames, (pixels, 3) each, 0..1, and the noise level go into a stage. */
static SnlsStatus run_stage(Job *j, int stage, const float *const frames[FRAMES], float *to)
{
    Stage *s = &j->m->stage[stage];
    SnlsTensor in[2], out; /* in[1]: the frame that the result is subtracted from */
    SNLS_TRY(snls_model_views(s, 2, in, &out));
    for (Bands b = bands_of(j->m, j->padded_h, j->padded_w); snls_bands_next(&b);) {
        const int64_t above = 4 * b.from * j->padded_w, row = 4 * j->padded_w;
        for (int64_t i = 0; i < b.rows * row; i++)
            for (int c = 0; c < 4 * FRAMES; c++) snls_store(&in[0], i * 4 * FRAMES + c, c % 4 == 3 ? j->run->sigma / 255 : frames[c / 4][3 * (above + i) + c % 4]);
        for (int64_t i = 0; i < 3 * b.rows * row; i++) snls_store(&in[1], i, frames[1][3 * above + i]);
        SNLS_TRY(snls_model_forward(s, 2));
        for (int64_t i = 3 * b.low * row; i < 3 * b.high * row; i++) to[i] = (float)snls_load(&out, i - 3 * above);
    }
    return SNLS_OK;
}

static void pad_frame(const Job *j, int64_t t, float *to)
{
    const float *from = (const float *)j->run->frames.data + snls_reflect(t, j->run->frames.shape[0]) * j->h * j->w * 3;
    for (int64_t i = 0; i < j->pixels * 3; i++)
        to[i] = from[(snls_reflect(i / 3 / j->padded_w, j->h) * j->w + snls_reflect(i / 3 % j->padded_w, j->w)) * 3 + i % 3] / 255;
}

/* The first stage's result for frame t, which three frames want. */
static SnlsStatus find_middle(Job *j, int64_t t)
{
    const int64_t n = 3 * j->pixels, place = (t + FRAMES) % FRAMES;
    if (j->known[place] == t) return SNLS_OK;
    for (int k = 0; k < FRAMES; k++) pad_frame(j, t + k - 1, j->frames + k * n);
    SNLS_TRY(run_stage(j, 0, (const float *const[]){ j->frames, j->frames + n, j->frames + 2 * n }, j->middle + place * n));
    j->known[place] = t;
    return SNLS_OK;
}

static SnlsStatus run_frame(Job *j, int64_t t)
{
    const int64_t n = 3 * j->pixels;
    const float *middle[FRAMES];
    for (int64_t k = 0; k < FRAMES; k++) {
        SNLS_TRY(find_middle(j, t + k - 1));
        middle[k] = j->middle + (t + k - 1 + FRAMES) % FRAMES * n;
    }
    SNLS_TRY(run_stage(j, 1, middle, j->result));
    snls_model_unit(j->result, n);
    float *to = (float *)j->run->out.data + (t - j->run->first) * j->h * j->w * 3;
    for (int64_t i = 0; i < j->h * j->w * 3; i++) to[i] = 255 * j->result[(i / 3 / j->w * j->padded_w + i / 3 % j->w) * 3 + i % 3];
    return SNLS_OK;
}

static int64_t padded(int64_t side) { return (side + 3) / 4 * 4; }

enum { SCRATCH = 3 * (2 * FRAMES + 1) }; /* numbers a pixel */

static SnlsStatus run(SnlsModel *m, const SnlsModelRun *r)
{
    Job j = { .m = m, .run = r, .h = r->frames.shape[1], .w = r->frames.shape[2], .known = { -2, -2, -2 } };
    j.padded_h = padded(j.h), j.padded_w = padded(j.w), j.pixels = j.padded_h * j.padded_w;
    SNLS_TRY(snls_model_scratch(m, SCRATCH * j.pixels));
    j.frames = m->scratch, j.middle = j.frames + 3 * FRAMES * j.pixels, j.result = j.middle + 3 * FRAMES * j.pixels;
    for (int i = 0; i < 2; i++) SNLS_TRY(snls_model_stage(m, i, 1, 4 * bands_of(m, j.padded_h, j.padded_w).rows, j.padded_w));
    for (int64_t t = r->first; t < r->first + r->count; t++) SNLS_TRY(run_frame(&j, t));
    return SNLS_OK;
}

static int64_t memory(SnlsModel *m, int64_t frames, int64_t h, int64_t w)
{
    int64_t room = 0;
    const int64_t values = snls_model_stage_bytes(m, 0, 1, 4 * bands_of(m, padded(h), padded(w)).rows, padded(w), &room);
    (void)frames;
    return values < 0 ? -1 : 2 * values + room + SCRATCH * padded(h) * padded(w) * (int64_t)sizeof(float);
}

const Architecture snls_fastdvdnet = { .name = "fastdvdnet", .radius = RADIUS, .chunk = 8, .stages = 2, .build = build, .load = load, .run = run, .memory = memory };
