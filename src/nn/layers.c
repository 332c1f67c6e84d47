/* layers.c: steps as they are added to a network: shapes of their results, names and first values of their parameters. */
#include "nn/nn.h"
#include <math.h>
#include <stdio.h>

static const SnlsTensor *tensor_of(const NnNet *net, int32_t value) { return &net->values[value].t; }
static bool stopped(const NnNet *net, int32_t x) { return net->status < 0 || x < 0; }

static int32_t image(NnNet *net, int64_t n, int64_t h, int64_t w, int64_t c)
{
    return snls_nn_value(net, 4, (const int64_t[]){ n, h, w, c }, net->dtype);
}

static NnStep *one_to_one(NnNet *net, int32_t op, int32_t x, int32_t p0, int32_t p1, int32_t y)
{
    return snls_nn_step(net, op, (const int32_t[]){ x, -1, -1 }, (const int32_t[]){ p0, p1 }, (const int32_t[]){ y, -1, -1 });
}

int32_t snls_nn_input(NnNet *net, int64_t n, int64_t h, int64_t w, int64_t c)
{
    const int32_t x = image(net, n, h, w, c);
    snls_nn_keep(net, x);
    return x;
}

static int64_t conv_side(const NnConv *c, int64_t side)
{
    if (c->transposed) return (side - 1) * c->stride - 2 * c->pad + c->kernel;
    return side + 2 * c->pad < c->kernel ? 0 : (side + 2 * c->pad - c->kernel) / c->stride + 1;
}

static bool conv_fits(NnNet *net, const char *name, int64_t in, const NnConvSpec *s)
{
    const bool good = s->conv.groups > 0 && in % s->conv.groups == 0 && s->out % s->conv.groups == 0 && (s->residual < 0 || s->conv.act == NN_LINEAR);
    if (!good) net->status = snls_fail(net->ctx, SNLS_ERR_SHAPE, "network: %s: %lld channels to %lld in %lld groups cannot be", name, (long long)in, (long long)s->out, (long long)s->conv.groups);
    return good;
}

int32_t snls_nn_conv(NnNet *net, int32_t x, const char *name, const NnConvSpec *spec) { return snls_nn_conv_part(net, x, name, spec, 0, 1); }

int32_t snls_nn_conv_part(NnNet *net, int32_t x, const char *name, const NnConvSpec *spec, int32_t part, int32_t parts)
{
    if (stopped(net, x)) return -1;
    const NnConv *c = &spec->conv;
    const SnlsTensor t = *tensor_of(net, x);
    const int64_t in = parts * t.shape[3];
    if (!conv_fits(net, name, in, spec)) return -1;
    const int64_t weights[4] = { c->transposed ? in : spec->out, (c->transposed ? spec->out : in) / c->groups, c->kernel, c->kernel };
    const int32_t y = image(net, t.shape[0], conv_side(c, t.shape[1]), conv_side(c, t.shape[2]), spec->out / parts);
    const int32_t w = snls_nn_param(net, snls_nn_name("%s.weight", name).text, 4, weights, spec->init, spec->scale);
    const int32_t b = spec->no_bias ? -1 : snls_nn_param(net, snls_nn_name("%s.bias", name).text, 1, &spec->out, NN_INIT_CONSTANT, 0);
    NnStep *s = snls_nn_step(net, NN_conv, (const int32_t[]){ x, spec->residual, -1 }, (const int32_t[]){ w, b }, (const int32_t[]){ y, -1, -1 });
    if (!s) return -1;
    s->u.conv = *c;
    s->u.conv.groups = c->groups / parts;
    if (parts > 1) s->part = part, s->parts = parts;
    return net->status < 0 ? -1 : y;
}

#define INIT_STD 0.02 /* truncated normal, as the published code begins */

int32_t snls_nn_conv3(NnNet *net, int32_t x, const char *name, int64_t out, int32_t act, int32_t residual)
{
    const NnConvSpec spec = { { 3, 1, 1, 1, 0, act, 0.01 }, out, 0, residual, NN_INIT_NORMAL, INIT_STD };
    return snls_nn_conv(net, x, name, &spec);
}

int32_t snls_nn_linear(NnNet *net, int32_t x, const char *name, int64_t out, bool bias, int32_t residual)
{
    const NnConvSpec spec = { { 1, 1, 0, 1, 0, NN_LINEAR, 0 }, out, !bias, residual, NN_INIT_NORMAL, INIT_STD };
    return snls_nn_conv(net, x, name, &spec);
}

int32_t snls_nn_conv_gelu(NnNet *net, int32_t x, const char *name, const NnConvSpec *spec)
{
    NnConvSpec fused = *spec;
    if (net->train) return snls_nn_act(net, snls_nn_conv(net, x, name, spec), NN_GELU, 0, NULL);
    fused.conv.act = NN_GELU;
    return snls_nn_conv(net, x, name, &fused);
}

static int32_t same_as(NnNet *net, int32_t x)
{
    const SnlsTensor t = *tensor_of(net, x);
    return snls_nn_value(net, t.ndim, t.shape, t.dtype);
}

int32_t snls_nn_norm(NnNet *net, int32_t x, const char *name, double eps)
{
    if (stopped(net, x)) return -1;
    const int64_t c = tensor_of(net, x)->shape[3];
    const int32_t gamma = snls_nn_param(net, snls_nn_name("%s.weight", name).text, 1, &c, NN_INIT_CONSTANT, 1);
    const int32_t beta = snls_nn_param(net, snls_nn_name("%s.bias", name).text, 1, &c, NN_INIT_CONSTANT, 0);
    const int32_t y = same_as(net, x);
    NnStep *s = one_to_one(net, NN_norm, x, gamma, beta, y);
    if (s) s->u.norm = (NnNorm){ eps };
    return y;
}

int32_t snls_nn_act(NnNet *net, int32_t x, int32_t act, double slope, const char *name)
{
    if (stopped(net, x)) return -1;
    const int64_t one = 1;
    const int32_t p = act == NN_PRELU ? snls_nn_param(net, name, 1, &one, NN_INIT_CONSTANT, 0.25) : -1, y = same_as(net, x);
    NnStep *s = one_to_one(net, NN_act, x, p, -1, y);
    if (s) s->u.act = (NnActivation){ act, slope };
    return y;
}

int32_t snls_nn_eca(NnNet *net, int32_t x, const char *name)
{
    if (stopped(net, x)) return -1;
    const int32_t taps = snls_nn_param(net, snls_nn_name("%s.weight", name).text, 3, (const int64_t[]){ 1, 1, 3 }, NN_INIT_UNIFORM, sqrt(1.0 / 3));
    const int32_t y = same_as(net, x);
    one_to_one(net, NN_eca, x, taps, -1, y);
    return y;
}

int32_t snls_nn_attend(NnNet *net, int32_t x, const char *table, const char *bias, const NnAttend *a)
{
    if (stopped(net, x)) return -1;
    const SnlsTensor t = *tensor_of(net, x);
    const int64_t *w = a->window, rows = (2 * w[0] - 1) * (2 * w[1] - 1) * (2 * w[2] - 1);
    const int32_t p = snls_nn_param(net, table, 2, (const int64_t[]){ rows, a->heads }, NN_INIT_CONSTANT, 0);
    const int32_t b = bias ? snls_nn_param(net, bias, 1, &t.shape[3], NN_INIT_CONSTANT, 0) : -1;
    const int32_t y = image(net, t.shape[0], t.shape[1], t.shape[2], t.shape[3] / 3);
    NnStep *s = one_to_one(net, NN_attend, x, p, b, y);
    if (s) s->u.attend = *a;
    return y;
}

int32_t snls_nn_shuffle(NnNet *net, int32_t x, int64_t r, bool inverse)
{
    if (stopped(net, x)) return -1;
    const SnlsTensor t = *tensor_of(net, x);
    const int64_t *d = t.shape;
    const int32_t y = inverse ? image(net, d[0], d[1] / r, d[2] / r, d[3] * r * r) : image(net, d[0], d[1] * r, d[2] * r, d[3] / (r * r));
    NnStep *s = one_to_one(net, NN_shuffle, x, -1, -1, y);
    if (s) s->u.shuffle = (NnShuffle){ r, inverse };
    return y;
}

int32_t snls_nn_concat(NnNet *net, int32_t a, int32_t b)
{
    if (stopped(net, a) || b < 0) return -1;
    const SnlsTensor s = *tensor_of(net, a), t = *tensor_of(net, b);
    const int32_t y = image(net, s.shape[0], s.shape[1], s.shape[2], s.shape[3] + t.shape[3]);
    snls_nn_step(net, NN_concat, (const int32_t[]){ a, b, -1 }, NULL, (const int32_t[]){ y, -1, -1 });
    return y;
}

int32_t snls_nn_add(NnNet *net, int32_t x0, double a, int32_t x1, double b)
{
    if (stopped(net, x0)) return -1;
    const int32_t y = same_as(net, x0);
    NnStep *s = snls_nn_step(net, NN_add, (const int32_t[]){ x0, x1, -1 }, NULL, (const int32_t[]){ y, -1, -1 });
    if (s) s->u.add = (NnAdd){ a, b };
    return y;
}

int32_t snls_nn_pad(NnNet *net, int32_t x, int64_t top, int64_t left, int64_t h, int64_t w)
{
    if (stopped(net, x)) return -1;
    const SnlsTensor t = *tensor_of(net, x);
    const int32_t y = image(net, t.shape[0], h, w, t.shape[3]);
    NnStep *s = one_to_one(net, NN_pad, x, -1, -1, y);
    if (s) s->u.pad = (NnPad){ top, left };
    return y;
}

int32_t snls_nn_pool(NnNet *net, int32_t x, int64_t r)
{
    if (stopped(net, x)) return -1;
    const SnlsTensor t = *tensor_of(net, x);
    const int32_t y = image(net, t.shape[0], t.shape[1] / r, t.shape[2] / r, t.shape[3]);
    NnStep *s = one_to_one(net, NN_pool, x, -1, -1, y);
    if (s) s->u.pool = (NnPool){ r };
    return y;
}
