/* ref_pixel.c: what is done to each pixel or channel alone: layer norm, activations, channel attention, sums. */
#include "nn/nn.h"
#include <math.h>

static int64_t channels_of(const SnlsTensor *t) { return t->shape[t->ndim - 1]; }

/* ---- norm ---- */

typedef struct Moments { double mean, scale; } Moments; /* scale: 1 / sqrt(variance + eps) */

static Moments moments_of(const NnStep *s, int64_t at)
{
    const int64_t c = channels_of(&s->x[0]);
    double mean = 0, square = 0;
    for (int64_t i = 0; i < c; i++) mean += snls_load(&s->x[0], at + i) / (double)c;
    for (int64_t i = 0; i < c; i++) square += pow(snls_load(&s->x[0], at + i) - mean, 2) / (double)c;
    return (Moments){ mean, 1 / sqrt(square + s->u.norm.eps) };
}

SnlsStatus snls_nn_ref_norm_forward(SnlsContext *ctx, NnStep *s)
{
    const int64_t c = channels_of(&s->x[0]), count = snls_tensor_elements(&s->x[0]);
    (void)ctx;
    for (int64_t at = 0; at < count; at += c) {
        const Moments m = moments_of(s, at);
        for (int64_t i = 0; i < c; i++)
            snls_store(&s->y[0], at + i, snls_load(&s->p[0], i) * (snls_load(&s->x[0], at + i) - m.mean) * m.scale + snls_load(&s->p[1], i));
    }
    return SNLS_OK;
}

/* dx = (g - mean(g) - xhat * mean(g * xhat)) * scale, g = gamma * dy */
static void norm_pixel_backward(NnStep *s, int64_t at)
{
    const Moments m = moments_of(s, at);
    const int64_t c = channels_of(&s->x[0]);
    double mean = 0, along = 0;
    for (int64_t i = 0; i < c; i++) {
        const double dy = snls_load(&s->dy[0], at + i), hat = (snls_load(&s->x[0], at + i) - m.mean) * m.scale, g = snls_load(&s->p[0], i) * dy;
        mean += g / (double)c;
        along += g * hat / (double)c;
        if (s->dp[0].data) snls_nn_accumulate(&s->dp[0], i, dy * hat);
        if (s->dp[1].data) snls_nn_accumulate(&s->dp[1], i, dy);
    }
    for (int64_t i = 0; s->dx[0].data && i < c; i++) {
        const double hat = (snls_load(&s->x[0], at + i) - m.mean) * m.scale;
        snls_nn_accumulate(&s->dx[0], at + i, (snls_load(&s->p[0], i) * snls_load(&s->dy[0], at + i) - mean - hat * along) * m.scale);
    }
}

SnlsStatus snls_nn_ref_norm_backward(SnlsContext *ctx, NnStep *s)
{
    (void)ctx;
    for (int64_t at = 0; at < snls_tensor_elements(&s->x[0]); at += channels_of(&s->x[0])) norm_pixel_backward(s, at);
    return SNLS_OK;
}

/* ---- act ---- */

#define NORMAL_AT_0 0.3989422804014327 /* 1 / sqrt(2 pi) */

static double slope_of(const NnStep *s) { return s->u.act.act == NN_PRELU ? snls_load(&s->p[0], 0) : s->u.act.act == NN_LEAKY ? s->u.act.slope : 0; }

SnlsStatus snls_nn_ref_act_forward(SnlsContext *ctx, NnStep *s)
{
    const double slope = slope_of(s);
    (void)ctx;
    for (int64_t i = 0; i < snls_tensor_elements(&s->x[0]); i++) {
        const double x = snls_load(&s->x[0], i);
        snls_store(&s->y[0], i, s->u.act.act == NN_GELU ? snls_nn_gelu(x) : x > 0 ? x : slope * x);
    }
    return SNLS_OK;
}

SnlsStatus snls_nn_ref_act_backward(SnlsContext *ctx, NnStep *s)
{
    const double slope = slope_of(s);
    double slope_gradient = 0;
    (void)ctx;
    for (int64_t i = 0; i < snls_tensor_elements(&s->x[0]); i++) {
        const double x = snls_load(&s->x[0], i), dy = snls_load(&s->dy[0], i);
        const double d = s->u.act.act == NN_GELU ? 0.5 * (1 + erf(x * NN_SQRT_HALF)) + x * NORMAL_AT_0 * exp(-x * x / 2) : x > 0 ? 1 : slope;
        if (s->dx[0].data) snls_nn_accumulate(&s->dx[0], i, dy * d);
        if (x <= 0) slope_gradient += dy * x;
    }
    if (s->dp[0].data) snls_nn_accumulate(&s->dp[0], 0, slope_gradient);
    return SNLS_OK;
}

/* ---- eca: y_c = x_c * a_c, a = sigmoid(taps * mean over the frame, along the channels) ---- */

static double mean_of(const NnStep *s, int64_t n, int64_t c)
{
    const int64_t channels = channels_of(&s->x[0]), pixels = s->x[0].shape[1] * s->x[0].shape[2];
    double sum = 0;
    if (c < 0 || c >= channels) return 0;
    for (int64_t i = 0; i < pixels; i++) sum += snls_load(&s->x[0], (n * pixels + i) * channels + c);
    return sum / (double)pixels;
}

static double gate_of(const NnStep *s, int64_t n, int64_t c)
{
    double z = 0;
    for (int64_t k = 0; k < 3; k++) z += snls_load(&s->p[0], k) * mean_of(s, n, c + k - 1);
    return 1 / (1 + exp(-z));
}

SnlsStatus snls_nn_ref_eca_forward(SnlsContext *ctx, NnStep *s)
{
    const int64_t channels = channels_of(&s->x[0]), pixels = s->x[0].shape[1] * s->x[0].shape[2];
    (void)ctx;
    for (int64_t n = 0; n < s->x[0].shape[0]; n++)
        for (int64_t c = 0; c < channels; c++) {
            const double gate = gate_of(s, n, c);
            for (int64_t i = 0; i < pixels; i++) {
                const int64_t at = (n * pixels + i) * channels + c;
                snls_store(&s->y[0], at, snls_load(&s->x[0], at) * gate);
            }
        }
    return SNLS_OK;
}

/* Gradient by z of channel c, and along the way that of x through the product. */
static double eca_channel_backward(NnStep *s, int64_t n, int64_t c)
{
    const int64_t channels = channels_of(&s->x[0]), pixels = s->x[0].shape[1] * s->x[0].shape[2];
    const double gate = gate_of(s, n, c);
    double sum = 0;
    for (int64_t i = 0; i < pixels; i++) {
        const int64_t at = (n * pixels + i) * channels + c;
        sum += snls_load(&s->dy[0], at) * snls_load(&s->x[0], at);
        if (s->dx[0].data) snls_nn_accumulate(&s->dx[0], at, snls_load(&s->dy[0], at) * gate);
    }
    return sum * gate * (1 - gate);
}

static void eca_mean_backward(NnStep *s, int64_t n, int64_t c, double gradient)
{
    const int64_t channels = channels_of(&s->x[0]), pixels = s->x[0].shape[1] * s->x[0].shape[2];
    if (c < 0 || c >= channels || !s->dx[0].data) return;
    for (int64_t i = 0; i < pixels; i++) snls_nn_accumulate(&s->dx[0], (n * pixels + i) * channels + c, gradient / (double)pixels);
}

SnlsStatus snls_nn_ref_eca_backward(SnlsContext *ctx, NnStep *s)
{
    (void)ctx;
    for (int64_t n = 0; n < s->x[0].shape[0]; n++)
        for (int64_t c = 0; c < channels_of(&s->x[0]); c++) {
            const double dz = eca_channel_backward(s, n, c);
            for (int64_t k = 0; k < 3; k++) {
                if (s->dp[0].data) snls_nn_accumulate(&s->dp[0], k, dz * mean_of(s, n, c + k - 1));
                eca_mean_backward(s, n, c + k - 1, dz * snls_load(&s->p[0], k));
            }
        }
    return SNLS_OK;
}

/* ---- add ---- */

SnlsStatus snls_nn_ref_add_forward(SnlsContext *ctx, NnStep *s)
{
    const NnAdd *a = &s->u.add;
    (void)ctx;
    for (int64_t i = 0; i < snls_tensor_elements(&s->y[0]); i++)
        snls_store(&s->y[0], i, a->a * snls_load(&s->x[0], i) + (s->x[1].data ? a->b * snls_load(&s->x[1], i) : 0));
    return SNLS_OK;
}

SnlsStatus snls_nn_ref_add_backward(SnlsContext *ctx, NnStep *s)
{
    const double factor[2] = { s->u.add.a, s->u.add.b };
    (void)ctx;
    for (int k = 0; k < 2; k++)
        for (int64_t i = 0; s->dx[k].data && i < snls_tensor_elements(&s->y[0]); i++) snls_nn_accumulate(&s->dx[k], i, factor[k] * snls_load(&s->dy[0], i));
    return SNLS_OK;
}
