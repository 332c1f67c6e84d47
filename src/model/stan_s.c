/* stan_s.c: STAN-S: a small U-Net whose lowest level looks, in every frame about, for the best match of each pixel, and fuses
 * the features found there. The search sees averaged noisy pixels, so it matches from the first step of training; the fusion
 * begins as nothing (its last layer is 0), so that it can only help. */
#include "model/stan.h"
#include "model/model.h"
#include <math.h>

enum { SCALE = STAN_S_SCALE };

StanSConfig snls_stan_s_config(void) { return (StanSConfig){ .width = 32, .blocks = 4, .ws = 13, .wt = 2 }; }

static int64_t channels_of(const NnNet *net, int32_t x) { return net->status < 0 || x < 0 ? 1 : net->values[x].t.shape[3]; }

/* First weights keep the variance of what they read, times gain (He et al., 2015): the published network's fixed 0.02 is for its
 * widths and its long schedule. */
static int32_t conv(NnNet *net, int32_t x, const char *name, NnConv c, int64_t out, double gain, int32_t residual)
{
    const NnConvSpec spec = { c, out, 0, residual, NN_INIT_NORMAL, gain / sqrt((double)(c.kernel * c.kernel * channels_of(net, x))) };
    return snls_nn_conv(net, x, name, &spec);
}

static int32_t conv3(NnNet *net, int32_t x, const char *name, int64_t out, int32_t act, double gain, int32_t residual)
{
    return conv(net, x, name, (NnConv){ 3, 1, 1, 1, 0, act, 0.01 }, out, gain, residual);
}

static int32_t linear(NnNet *net, int32_t x, const char *name, int64_t out)
{
    return conv(net, x, name, (NnConv){ 1, 1, 0, 1, 0, NN_LINEAR, 0 }, out, 1, -1);
}

#define AFTER_RELU 1.4   /* half of its input is gone */
#define SMALL 0.3        /* of what is added to a path that is there already */
#define FIRST_GUESS 0.05 /* of the noise: about none */

static int32_t res(NnNet *net, int32_t x, const char *name, int32_t around)
{
    const int64_t c = channels_of(net, x);
    const int32_t y = conv3(net, x, snls_nn_name("%s.0", name).text, c, NN_RELU, 1, -1);
    return conv3(net, y, snls_nn_name("%s.1", name).text, c, NN_LINEAR, SMALL * AFTER_RELU, around);
}

/* What channel attention weighs: res(norm(x)); at full resolution, where every pass over memory counts, without norm */
static int32_t features(NnNet *net, int32_t x, const char *name, bool full)
{
    const int32_t n = full ? x : snls_nn_norm(net, x, snls_nn_name("%s.norm", name).text, STAN_S_EPS);
    return res(net, n, snls_nn_name("%s.res", name).text, n);
}

/* x + eca(features(x)), at full resolution without the skip */
static int32_t block(NnNet *net, int32_t x, const char *name, bool full)
{
    const int32_t y = snls_nn_eca(net, features(net, x, name, full), snls_nn_name("%s.eca", name).text);
    return full ? y : snls_nn_add(net, x, 1, y, 1);
}

/* Up: every pixel comes from one. */
static int32_t resample(NnNet *net, int32_t x, const char *name, int64_t out, bool up)
{
    return conv(net, x, name, (NnConv){ 2, 2, 0, 1, up, NN_LINEAR, 0 }, out, up ? 2 : 1, -1);
}

SnlsSearchParams snls_stan_s_search(const StanSConfig *c)
{
    SnlsSearchParams p;
    snls_search_defaults(&p);
    p.ws = (int32_t)c->ws, p.wt = (int32_t)c->wt, p.ps = 5, p.k = 1, p.topk = SNLS_TOPK_EACH;
    return p;
}

/* Where each pixel of the lowest level is found best in each frame about: no learning, so nothing to wait for. */
static NnMatches find(NnNet *net, int32_t noisy, const StanSConfig *c, int64_t frames)
{
    const SnlsSearchParams p = snls_stan_s_search(c);
    const int32_t small = snls_nn_pool(net, noisy, SCALE); /* sigma, a constant plane, adds nothing to a distance */
    return snls_nn_search(net, small, small, -1, frames, &p);
}

/* x and what is made of the features found for its pixels */
static int32_t fuse(NnNet *net, int32_t found, int32_t x, const char *name)
{
    const int64_t c = channels_of(net, x);
    const NnConvSpec mix = { { 1, 1, 0, 1, 0, NN_LINEAR, 0 }, 2 * c, 0, -1, NN_INIT_NORMAL, 1 / sqrt((double)channels_of(net, found)) };
    const NnConvSpec last = { { 1, 1, 0, 1, 0, NN_LINEAR, 0 }, c, 0, x, NN_INIT_CONSTANT, 0 };
    return snls_nn_conv(net, snls_nn_conv_gelu(net, found, snls_nn_name("%s.mix", name).text, &mix), snls_nn_name("%s.out", name).text, &last);
}

static int32_t fusion(NnNet *net, int32_t x, const NnMatches *found, const char *name)
{
    const int32_t y = snls_nn_norm(net, x, snls_nn_name("%s.norm", name).text, STAN_S_EPS);
    return fuse(net, snls_nn_gather(net, y, -1, found, false), x, name);
}

/* The upper level beside what the encoder had there. */
static int32_t join(NnNet *net, int32_t x, int32_t skip, const char *up, const char *mix)
{
    const int64_t c = channels_of(net, skip);
    return linear(net, snls_nn_concat(net, resample(net, x, up, c, true), skip), mix, c);
}

/* What comes out is what is to be added to the noisy colours. */
StanNet snls_stan_s_build(NnNet *net, const StanSConfig *c, const StanShape *s)
{
    const int64_t w = c->width;
    StanNet n = { .in = snls_nn_input(net, s->batch * s->frames, s->h, s->w, 4), .flow = -1 };
    const NnMatches found = find(net, n.in, c, s->frames);
    const int32_t skip0 = block(net, conv3(net, n.in, "in", w, NN_LEAKY, AFTER_RELU, -1), "enc0.0", true);
    int32_t x = resample(net, skip0, "down0", 2 * w, false);
    for (int i = 0; i < 2; i++) x = block(net, x, snls_nn_name("enc1.%d", i).text, false);
    const int32_t skip1 = x;
    x = resample(net, x, "down1", 4 * w, false);
    for (int i = 0; i < c->blocks; i++) x = fusion(net, block(net, x, snls_nn_name("mid.%d", i).text, false), &found, snls_nn_name("mid.%d.fusion", i).text);
    x = join(net, x, skip1, "up1", "fuse1");
    for (int i = 0; i < 2; i++) x = block(net, x, snls_nn_name("dec1.%d", i).text, false);
    x = join(net, x, skip0, "up0", "fuse0");
    n.out = conv3(net, block(net, x, "dec0.0", true), "out", 3, NN_LINEAR, FIRST_GUESS, -1);
    return n;
}

/* ---- parts: what lies between two channel attentions, which look at whole frames ---- */

/* Read anew before every run: its memory may serve others behind it. */
static int32_t input(NnNet *net, int64_t rows, int64_t w, int64_t c) { return snls_nn_value(net, 4, (const int64_t[]){ 1, rows, w, c }, net->dtype); }

static StanSPart build_down(NnNet *net, const StanSConfig *c, int64_t rows, int64_t w, int level)
{
    const int32_t x = input(net, 2 * rows, 2 * w, c->width << (level - 1));
    return (StanSPart){ { x, -1 }, resample(net, x, level == 1 ? "down0" : "down1", c->width << level, false) };
}

static StanSPart build_block(NnNet *net, const StanSConfig *c, int64_t rows, int64_t w, int level, const char *name)
{
    const int32_t x = input(net, rows, w, c->width << level);
    return (StanSPart){ { x, -1 }, features(net, x, name, !level) };
}

static StanSPart build_fuse(NnNet *net, const StanSConfig *c, int64_t rows, int64_t w, int64_t number)
{
    const int32_t found = input(net, rows, w, 4 * c->width * (2 * c->wt + 1)), x = input(net, rows, w, 4 * c->width);
    return (StanSPart){ { found, x }, fuse(net, found, x, snls_nn_name("mid.%d.fusion", (int)number).text) };
}

static StanSPart build_join(NnNet *net, const StanSConfig *c, int64_t rows, int64_t w, int level)
{
    const int32_t x = input(net, rows, w, c->width << (level + 1)), skip = input(net, 2 * rows, 2 * w, c->width << level);
    return (StanSPart){ { x, skip }, join(net, x, skip, level ? "up1" : "up0", level ? "fuse1" : "fuse0") };
}

static StanSPart build_in(NnNet *net, const StanSConfig *c, int64_t rows, int64_t w)
{
    const int32_t x = input(net, rows, w, 4);
    return (StanSPart){ { x, -1 }, features(net, conv3(net, x, "in", c->width, NN_LEAKY, AFTER_RELU, -1), "enc0.0", true) };
}

static StanSPart build_out(NnNet *net, const StanSConfig *c, int64_t rows, int64_t w)
{
    const int32_t x = input(net, rows, w, c->width);
    return (StanSPart){ { x, -1 }, conv3(net, x, "out", 3, NN_LINEAR, FIRST_GUESS, -1) };
}

StanSPart snls_stan_s_part(NnNet *net, const StanSConfig *c, StanSPartKind kind, int64_t number, int64_t rows, int64_t w)
{
    switch (kind) {
    case STAN_S_IN: return build_in(net, c, rows, w);
    case STAN_S_DOWN0: return build_down(net, c, rows, w, 1);
    case STAN_S_ENC10: return build_block(net, c, rows, w, 1, "enc1.0");
    case STAN_S_ENC11: return build_block(net, c, rows, w, 1, "enc1.1");
    case STAN_S_DOWN1: return build_down(net, c, rows, w, 2);
    case STAN_S_MID: return build_block(net, c, rows, w, 2, snls_nn_name("mid.%d", (int)number).text);
    case STAN_S_FUSE: return build_fuse(net, c, rows, w, number);
    case STAN_S_JOIN1: return build_join(net, c, rows, w, 1);
    case STAN_S_DEC10: return build_block(net, c, rows, w, 1, "dec1.0");
    case STAN_S_DEC11: return build_block(net, c, rows, w, 1, "dec1.1");
    case STAN_S_JOIN0: return build_join(net, c, rows, w, 0);
    case STAN_S_DEC0: return build_block(net, c, rows, w, 0, "dec0.0");
    case STAN_S_OUT: break;
    }
    return build_out(net, c, rows, w);
}
