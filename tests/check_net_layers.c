/* check_net_layers.c: a random example of every layer. */
#include "net_layers.h"

static int64_t channels_of(const NnNet *net, int32_t x) { return net->values[x].t.shape[3]; }

static int32_t build_conv(NnNet *net, Rng *rng, int32_t x, void *opaque)
{
    const int64_t in = channels_of(net, x), groups = in % 3 ? (in % 2 ? 1 : rng_int(rng, 1, 2)) : RNG_PICK(rng, 1, 3);
    NnConvSpec s = { .out = groups * rng_int(rng, 1, 4), .no_bias = rng_one_in(rng, 2), .residual = -1 };
    s.conv = (NnConv){ rng_int(rng, 1, 5), rng_int(rng, 1, 3), 0, groups, 0, (int32_t)rng_int(rng, 0, 2), 0.2 };
    s.conv.pad = rng_int(rng, 0, s.conv.kernel / 2);
    (void)opaque;
    return snls_nn_conv(net, x, "conv", &s);
}

static int32_t build_transposed(NnNet *net, Rng *rng, int32_t x, void *opaque)
{
    const int64_t in = channels_of(net, x), groups = in % 2 ? 1 : rng_int(rng, 1, 2);
    NnConvSpec s = { .out = groups * rng_int(rng, 1, 3), .no_bias = rng_one_in(rng, 2), .residual = -1 };
    s.conv = (NnConv){ rng_int(rng, 2, 4), rng_int(rng, 1, 3), 0, groups, 1, (int32_t)rng_int(rng, 0, 2), 0.2 };
    s.conv.pad = rng_int(rng, 0, (s.conv.kernel - 1) / 2);
    (void)opaque;
    return snls_nn_conv(net, x, "up", &s);
}

/* As many channels as networks have: there are other ways then. */
static int32_t build_broad(NnNet *net, Rng *rng, int32_t x, void *opaque)
{
    const int64_t groups = rng_int(rng, 1, 2), out = groups * rng_int(rng, 16, 20);
    const int32_t y = snls_nn_linear(net, x, "to", groups * 16, true, -1);
    const NnConvSpec s = { .conv = { 3, 1, rng_int(rng, 0, 2), groups, rng_one_in(rng, 3), (int32_t)rng_int(rng, 0, 2), 0.2 }, .out = out, .residual = -1, .init = NN_INIT_NORMAL, .scale = 0.1 };
    (void)opaque;
    return snls_nn_conv3(net, snls_nn_conv(net, y, "broad", &s), "last", 16, NN_LINEAR, -1);
}

/* x is read by two steps */
static int32_t build_residual(NnNet *net, Rng *rng, int32_t x, void *opaque)
{
    (void)opaque;
    const int32_t y = snls_nn_conv3(net, x, "a", rng_int(rng, 1, 5), rng_one_in(rng, 2) ? NN_RELU : NN_LEAKY, -1);
    return snls_nn_conv3(net, y, "b", channels_of(net, x), NN_LINEAR, x);
}

static int32_t build_linear(NnNet *net, Rng *rng, int32_t x, void *opaque)
{
    (void)opaque;
    return snls_nn_linear(net, x, "linear", rng_int(rng, 1, 9), rng_one_in(rng, 2), -1);
}

/* one step or two, by whether the network is trained */
static int32_t build_gelu(NnNet *net, Rng *rng, int32_t x, void *opaque)
{
    const NnConvSpec s = { { 1, 1, 0, 1, 0, NN_LINEAR, 0 }, rng_int(rng, 1, 20), 0, -1, NN_INIT_NORMAL, 1 };
    (void)opaque;
    return snls_nn_conv_gelu(net, x, "mix", &s);
}

static int32_t build_norm(NnNet *net, Rng *rng, int32_t x, void *opaque) { return (void)opaque, snls_nn_norm(net, x, "norm", rng_one_in(rng, 2) ? 1e-6 : 1e-2); }
static int32_t build_eca(NnNet *net, Rng *rng, int32_t x, void *opaque) { return (void)opaque, (void)rng, snls_nn_eca(net, x, "eca"); }
static int32_t build_shuffle(NnNet *net, Rng *rng, int32_t x, void *opaque) { return (void)opaque, (void)rng, snls_nn_shuffle(net, x, 2, false); }
static int32_t build_unshuffle(NnNet *net, Rng *rng, int32_t x, void *opaque) { return (void)opaque, snls_nn_shuffle(net, x, rng_int(rng, 1, 3), true); }
static int32_t build_pool(NnNet *net, Rng *rng, int32_t x, void *opaque) { return (void)opaque, snls_nn_pool(net, x, rng_int(rng, 1, 3)); }

static int32_t build_act(NnNet *net, Rng *rng, int32_t x, void *opaque)
{
    (void)opaque;
    return snls_nn_act(net, x, (int32_t)rng_int(rng, 1, 4), 0.1, "slope");
}

/* one slope for two activations */
static int32_t build_prelu(NnNet *net, Rng *rng, int32_t x, void *opaque)
{
    (void)opaque, (void)rng;
    const int32_t y = snls_nn_act(net, x, NN_PRELU, 0, "slope"), z = snls_nn_add(net, y, -1, x, 0.5);
    return snls_nn_act(net, z, NN_PRELU, 0, "slope");
}

static int32_t build_concat(NnNet *net, Rng *rng, int32_t x, void *opaque)
{
    (void)opaque;
    return snls_nn_concat(net, x, snls_nn_linear(net, x, "linear", rng_int(rng, 1, 4), true, -1));
}

static int32_t build_pad(NnNet *net, Rng *rng, int32_t x, void *opaque)
{
    (void)opaque;
    const int64_t *d = net->values[x].t.shape;
    return snls_nn_pad(net, x, rng_int(rng, -1, 2), rng_int(rng, -1, 2), d[1] + rng_int(rng, 0, 2), d[2] + rng_int(rng, 0, 2));
}

static int32_t build_attend(NnNet *net, Rng *rng, int32_t x, void *opaque)
{
    NnAttend a = { .heads = rng_int(rng, 1, 2), .frames = 3, .window = { rng_int(rng, 1, 4), rng_int(rng, 2, 4), rng_int(rng, 2, 4) } };
    for (int i = 0; i < 3; i++) a.shift[i] = rng_one_in(rng, 2) ? a.window[i] / 2 : 0;
    (void)opaque;
    /* only the depth may shrink */
    const int64_t *d = net->values[x].t.shape;
    for (int i = 1; i < 3; i++)
        if (d[i] < a.window[i]) a.window[i] = d[i], a.shift[i] = 0;
    const bool bias = rng_one_in(rng, 2);
    const int32_t qkv = snls_nn_linear(net, x, "qkv", 3 * channels_of(net, x), bias, -1);
    return snls_nn_attend(net, qkv, "table", bias ? "qkv.bias" : NULL, &a);
}

static SnlsSearchParams search_params(Rng *rng)
{
    SnlsSearchParams p;
    snls_search_defaults(&p);
    p.ws = (int32_t)rng_int(rng, 2, 3);
    p.wt = 1;
    p.k = (int32_t)rng_int(rng, 2, 4);
    p.heads = (int32_t)rng_int(rng, 1, 2);
    return p;
}

/* the whole attention of a block: search, the first of the list, weights, stack, reduction */
static int32_t build_search(NnNet *net, Rng *rng, int32_t x, void *opaque)
{
    const SnlsSearchParams p = search_params(rng);
    const int64_t c = channels_of(net, x);
    const int32_t q = snls_nn_linear(net, x, "q", c, true, -1), k = snls_nn_linear(net, x, "k", c, true, -1), v = snls_nn_linear(net, x, "v", 2 * c, true, -1);
    (void)opaque;
    const NnMatches m = snls_nn_search(net, q, k, -1, 3, &p), first = snls_nn_first(net, &m, p.k - 1);
    const int32_t weights = snls_nn_weights(net, &first, 2);
    const bool by_rank = rng_one_in(rng, 2);
    if (p.heads == 1 || rng_one_in(rng, 2)) return snls_nn_conv3(net, snls_nn_gather(net, v, weights, &first, by_rank), "reduce", 2, NN_LINEAR, -1);
    int32_t y[2]; /* each head by itself, with its own part of the weights */
    const NnConvSpec conv = { .conv = { 3, 1, 1, 2, 0, NN_LINEAR, 0 }, .out = 4, .residual = -1, .init = NN_INIT_NORMAL, .scale = 0.3 };
    for (int32_t i = 0; i < 2; i++) y[i] = snls_nn_conv_part(net, snls_nn_gather_part(net, v, weights, &first, by_rank, i, 2), "reduce", &conv, i, 2);
    return snls_nn_concat(net, y[0], y[1]);
}

static int32_t build_refine(NnNet *net, Rng *rng, int32_t x, void *opaque)
{
    const SnlsSearchParams p = search_params(rng);
    const int64_t c = channels_of(net, x);
    const int32_t q = snls_nn_linear(net, x, "q", c, true, -1), k = snls_nn_linear(net, x, "k", c, true, -1);
    SnlsRefineParams r;
    (void)opaque;
    snls_refine_defaults(&r);
    r.k = p.k, r.heads = p.heads;
    const NnMatches m = snls_nn_search(net, x, x, -1, 3, &p), again = snls_nn_refine(net, q, k, &m, &r);
    return snls_nn_gather(net, x, snls_nn_weights(net, &again, 2), &again, false);
}

/* the best match of every frame, weight 1 */
static int32_t build_each(NnNet *net, Rng *rng, int32_t x, void *opaque)
{
    SnlsSearchParams p = search_params(rng);
    (void)opaque;
    p.heads = p.k = 1;
    p.ps = 3;
    p.topk = SNLS_TOPK_EACH;
    const NnMatches m = snls_nn_search(net, snls_nn_pool(net, x, 1), snls_nn_pool(net, x, 1), -1, 3, &p);
    return snls_nn_gather(net, snls_nn_linear(net, x, "v", 3, true, -1), -1, &m, false);
}

const Layer net_layers[] = {
    { "conv", build_conv, 1, 1, 5, NN_conv },
    { "transposed", build_transposed, 1, 1, 2, NN_conv },
    { "broad", build_broad, 1, 1, 5, NN_conv },
    { "residual", build_residual, 1, 1, 1, NN_conv },
    { "linear", build_linear, 1, 1, 1, NN_conv },
    { "gelu", build_gelu, 1, 1, 1, NN_act },
    { "norm", build_norm, 1, 1, 1, NN_norm },
    { "act", build_act, 1, 1, 1, NN_act },
    { "prelu", build_prelu, 1, 1, 1, NN_add },
    { "eca", build_eca, 1, 1, 1, NN_eca },
    { "attend", build_attend, 3, 2, 2, NN_attend },
    { "shuffle", build_shuffle, 1, 4, 1, NN_shuffle },
    { "unshuffle", build_unshuffle, 1, 1, 3, NN_shuffle },
    { "concat", build_concat, 1, 1, 1, NN_concat },
    { "pad", build_pad, 1, 1, 2, NN_pad },
    { "pool", build_pool, 1, 1, 3, NN_pool },
    { "search", build_search, 3, 2, 4, NN_search },
    { "refine", build_refine, 3, 2, 4, NN_refine },
    { "each", build_each, 3, 1, 4, NN_gather },
};
const int net_layer_count = (int)(sizeof net_layers / sizeof *net_layers);

void net_layer_shape(const Layer *l, Rng *rng, int64_t *shape)
{
    shape[0] = l->frames * rng_int(rng, 1, 2);
    shape[1] = l->least + rng_int(rng, 0, 5);
    shape[2] = l->least + rng_int(rng, 0, 5);
    shape[3] = l->channels * rng_int(rng, 1, 6 / (l->channels > 2 ? 2 : l->channels));
}
