/* stan.c: STAN, the network of "Space-Time Attention with Shifted Non-Local Search", from the paper and a description of the
 * trained network's layers. Only the lowest level searches: its first block searches, the others rank the same candidates anew. */
#include "model/stan.h"
#include "model/model.h"
#include <math.h>

#define LN2D_EPS 1e-6
#define LN_EPS 1e-5

StanConfig snls_stan_config(void)
{
    return (StanConfig){ .heads = { 1, 4, 12 }, .per_head = 16, .depth = { 1, 2, 4 }, .ws = 9, .wt = 2, .k = 50, .used = 10, .rstb = 2, .layers = 2, .swin_heads = 4, .window = { 2, 8, 8 } };
}

typedef struct Builder {
    NnNet            *net;
    const StanConfig *c;
    StanShape         shape;
    int32_t           flow;
    NnMatches         found; /* of the first block */
} Builder;

static int64_t channels_of(const Builder *b, int32_t x) { return b->net->status < 0 || x < 0 ? 1 : b->net->values[x].t.shape[3]; }

/* y = x + conv(prelu(conv(x))); one slope for the whole network */
static int32_t res(Builder *b, int32_t x, const char *name)
{
    const int64_t c = channels_of(b, x);
    const int32_t y = snls_nn_act(b->net, snls_nn_conv3(b->net, x, snls_nn_name("%s.body.0", name).text, c, NN_LINEAR, -1), NN_PRELU, 0, "prelu.weight");
    return snls_nn_conv3(b->net, y, snls_nn_name("%s.body.2", name).text, c, NN_LINEAR, x);
}

/* levels above the lowest: norm, two residual blocks, channel attention, no skip around */
static int32_t conv_block(Builder *b, int32_t x, const char *name)
{
    x = snls_nn_norm(b->net, x, snls_nn_name("%s.norm1", name).text, LN2D_EPS);
    for (int i = 0; i < 2; i++) x = res(b, x, snls_nn_name("%s.res.res.%d", name, i).text);
    return snls_nn_eca(b->net, x, snls_nn_name("%s.channel_attn.conv", name).text);
}

/* ---- Swin ---- */

static int32_t stl(Builder *b, int32_t x, const char *name, bool shifted)
{
    const int64_t c = channels_of(b, x);
    NnAttend a = { .heads = b->c->swin_heads, .frames = b->shape.frames };
    for (int i = 0; i < 3; i++) a.window[i] = b->c->window[i], a.shift[i] = shifted ? b->c->window[i] / 2 : 0;
    int32_t y = snls_nn_norm(b->net, x, snls_nn_name("%s.norm1", name).text, LN_EPS);
    y = snls_nn_linear(b->net, y, snls_nn_name("%s.attn.qkv", name).text, 3 * c, false, -1);
    y = snls_nn_attend(b->net, y, snls_nn_name("%s.attn.relative_position_bias_table", name).text, NULL, &a);
    x = snls_nn_linear(b->net, y, snls_nn_name("%s.attn.proj", name).text, c, true, x);
    y = snls_nn_norm(b->net, x, snls_nn_name("%s.norm2", name).text, LN_EPS);
    y = snls_nn_conv_gelu(b->net, y, snls_nn_name("%s.mlp.fc1", name).text, &(NnConvSpec){ { 1, 1, 0, 1, 0, NN_LINEAR, 0 }, 2 * c, 0, -1, NN_INIT_NORMAL, 0.02 });
    return snls_nn_linear(b->net, y, snls_nn_name("%s.mlp.fc2", name).text, c, true, x);
}

static int32_t rstb(Builder *b, int32_t x, const char *name)
{
    int32_t y = x;
    for (int i = 0; i < b->c->layers; i++) y = stl(b, y, snls_nn_name("%s.residual_group.blocks.%d", name, i).text, i % 2);
    return snls_nn_linear(b->net, y, snls_nn_name("%s.linear", name).text, channels_of(b, x), true, x);
}

static double kaiming(int64_t fan_in) { return 1 / sqrt((double)fan_in); } /* uniform bound of the framework's default */

static int32_t swin_part(Builder *b, int32_t x, const char *name)
{
    const int64_t c = channels_of(b, x);
    const NnConvSpec conv = { { 3, 1, 1, 1, 0, NN_LINEAR, 0 }, c, 0, -1, NN_INIT_UNIFORM, kaiming(9 * c) };
    x = snls_nn_conv(b->net, x, snls_nn_name("%s.conv", name).text, &conv);
    x = snls_nn_norm(b->net, x, snls_nn_name("%s.norm_in", name).text, LN_EPS);
    for (int i = 0; i < b->c->rstb; i++) x = rstb(b, x, snls_nn_name("%s.rstb.%d", name, i).text);
    return snls_nn_norm(b->net, x, snls_nn_name("%s.norm_out", name).text, LN_EPS);
}

/* ---- space-time attention ---- */

static NnMatches match(Builder *b, int32_t q, int32_t k, bool first)
{
    const int32_t heads = (int32_t)b->c->heads[2];
    if (first) {
        SnlsSearchParams p;
        snls_search_defaults(&p);
        p.ws = (int32_t)b->c->ws, p.wt = (int32_t)b->c->wt, p.k = (int32_t)b->c->k, p.heads = heads;
        return b->found = snls_nn_search(b->net, q, k, b->flow, b->shape.frames, &p);
    }
    SnlsRefineParams p;
    snls_refine_defaults(&p);
    p.wr = 1, p.k = (int32_t)b->c->used, p.heads = heads; /* of the k places ranked anew only the first are looked at */
    return snls_nn_refine(b->net, q, k, &b->found, &p);
}

#define ATTENTION_SCALE 10

static int32_t attention(Builder *b, int32_t x, const char *name, bool first)
{
    const int64_t c = channels_of(b, x), heads = b->c->heads[2];
    const int32_t q = snls_nn_linear(b->net, x, snls_nn_name("%s.qkv.to_q", name).text, c, true, -1);
    const int32_t k = snls_nn_linear(b->net, x, snls_nn_name("%s.qkv.to_k", name).text, c, true, -1);
    const int32_t v = snls_nn_linear(b->net, x, snls_nn_name("%s.qkv.to_v", name).text, 2 * c, true, -1);
    const NnMatches all = match(b, q, k, first), used = snls_nn_first(b->net, &all, b->c->used);
    const int32_t weights = snls_nn_weights(b->net, &used, ATTENTION_SCALE);
    const NnConvSpec conv = { { 3, 1, 1, heads, 0, NN_LINEAR, 0 }, c, 0, -1, NN_INIT_UNIFORM, kaiming(9 * 2 * c / heads * b->c->used) };
    const int32_t parts = heads % STAN_PARTS == 0 ? STAN_PARTS : heads % 2 == 0 ? 2 : 1;
    int32_t y[STAN_PARTS] = { -1 };
    for (int32_t i = 0; i < parts; i++) /* some heads at a time: the stack of all would be the largest value there is */
        y[i] = snls_nn_conv_part(b->net, snls_nn_gather_part(b->net, v, weights, &used, true, i, parts), snls_nn_name("%s.proj", name).text, &conv, i, parts);
    for (int32_t n = parts; n > 1; n /= 2)
        for (int32_t i = 0; i < n / 2; i++) y[i] = snls_nn_concat(b->net, y[2 * i], y[2 * i + 1]);
    return y[0];
}

static int32_t attention_block(Builder *b, int32_t x, const char *name, bool first)
{
    int32_t y = snls_nn_norm(b->net, x, snls_nn_name("%s.norm1", name).text, LN2D_EPS);
    y = attention(b, y, snls_nn_name("%s.attn", name).text, first);
    y = snls_nn_eca(b->net, y, snls_nn_name("%s.channel_attn_0.conv", name).text);
    x = snls_nn_add(b->net, x, 1, y, 1);
    y = snls_nn_norm(b->net, x, snls_nn_name("%s.norm2", name).text, LN2D_EPS);
    y = swin_part(b, y, snls_nn_name("%s.res.main", name).text);
    return snls_nn_eca(b->net, y, snls_nn_name("%s.channel_attn_1.conv", name).text);
}

/* ---- levels ---- */

static int32_t level(Builder *b, int32_t x, const char *name, int depth_of, bool lowest)
{
    x = res(b, x, snls_nn_name("%s.res.res.0", name).text);
    for (int i = 0; i < b->c->depth[depth_of]; i++) {
        const NnName block = snls_nn_name("%s.blocks.%d", name, i);
        x = lowest ? attention_block(b, x, block.text, i == 0) : conv_block(b, x, block.text);
    }
    return x;
}

static int32_t resample(Builder *b, int32_t x, const char *name, NnConv conv, int64_t out)
{
    const NnConvSpec spec = { conv, out, 0, -1, NN_INIT_NORMAL, 0.02 };
    return snls_nn_conv(b->net, x, name, &spec);
}

/* The enlarged picture beside the encoder's; where a side was odd it is a pixel short, which is put at the left or top. */
static int32_t join(Builder *b, int32_t up, int32_t skip)
{
    if (b->net->status < 0) return -1;
    const int64_t *s = b->net->values[skip].t.shape, *u = b->net->values[up].t.shape, dh = s[1] - u[1], dw = s[2] - u[2];
    if (dh || dw) up = snls_nn_pad(b->net, up, dh - dh / 2, dw - dw / 2, s[1], s[2]);
    return snls_nn_concat(b->net, up, skip);
}

StanNet snls_stan_build(NnNet *net, const StanConfig *c, const StanShape *shape)
{
    const NnConv down = { 4, 2, 1, 1, 0, NN_LINEAR, 0 }, up = { 2, 2, 0, 1, 1, NN_LINEAR, 0 };
    const int64_t width[3] = { c->heads[0] * c->per_head, c->heads[1] * c->per_head, c->heads[2] * c->per_head };
    Builder b = { .net = net, .c = c, .shape = *shape, .flow = -1 };
    StanNet n = { .in = snls_nn_input(net, shape->batch * shape->frames, shape->h, shape->w, 3) };
    const int64_t flow[6] = { shape->batch, shape->frames, 2 * c->wt, shape->h / 2 / 2, shape->w / 2 / 2, 2 };
    if (c->wt) b.flow = snls_nn_value(net, 6, flow, net->dtype == SNLS_F64 ? SNLS_F64 : SNLS_F32), snls_nn_keep(net, b.flow);
    int32_t x = snls_nn_conv3(net, n.in, "input_proj.proj.0", width[0], NN_LEAKY, -1);
    const int32_t skip0 = level(&b, x, "encoderlayer_0", 0, false);
    x = resample(&b, skip0, "dowsample_0.conv.0", down, width[1]); /* the published names, as they are spelt there */
    const int32_t skip1 = level(&b, x, "encoderlayer_1", 1, false);
    x = level(&b, resample(&b, skip1, "dowsample_1.conv.0", down, width[2]), "conv", 2, true);
    x = join(&b, resample(&b, x, "upsample_3.deconv.0", up, width[1]), skip1);
    x = level(&b, x, "decoderlayer_3", 1, false);
    x = join(&b, resample(&b, x, "upsample_4.deconv.0", up, width[0]), skip0);
    x = level(&b, x, "decoderlayer_4", 0, false);
    n.out = snls_nn_conv3(net, x, "output_proj.proj.0", 3, NN_LINEAR, n.in);
    n.flow = b.flow;
    return n;
}
