/* ref_conv.c: convolution as plain loops in double: strided, grouped, transposed.
 *
 * A convolution ties pixels of a small grid (y, x) to pixels of a large one (y*stride - pad + ky, ...). Weights are
 * w[small channel][large channel of its group][ky][kx]. An ordinary one reads large and writes small, a transposed one the
 * other way round; so three sums, over small, over large and over weights, do forward and backward of both. */
#include "nn/nn.h"

typedef struct Tie {
    const NnStep *s;
    SnlsTensor    small, large; /* shapes; data where they are read */
    SnlsTensor    weight;
    int64_t       per_small, per_large, k; /* channels of a group on either side; kernel */
} Tie;

static Tie tie_of(const NnStep *s, const SnlsTensor *in, const SnlsTensor *out)
{
    const NnConv *c = &s->u.conv;
    Tie t = { .s = s, .small = c->transposed ? *in : *out, .large = c->transposed ? *out : *in, .weight = s->p[0], .k = c->kernel };
    t.per_small = t.small.shape[3] / c->groups;
    t.per_large = t.large.shape[3] / c->groups;
    return t;
}

static int64_t weight_at(const Tie *t, int64_t channel, int64_t part, int64_t ky, int64_t kx)
{
    return ((channel * t->per_large + part) * t->k + ky) * t->k + kx;
}

/* Gradient by what came out of the convolution, before the activation. */
static double pull(const NnStep *s, int64_t at) { return snls_load(&s->dy[0], at) * snls_nn_slope(&s->u.conv, snls_load(&s->y[0], at)); }

/* What stands at a place: a value going forward, the gradient of the result going backward. */
static double read(const NnStep *s, const SnlsTensor *t, int64_t at) { return t->data == s->dy[0].data ? pull(s, at) : snls_load(t, at); }

static double sum_for_small(const Tie *t, int64_t n, int64_t y, int64_t x, int64_t c)
{
    const NnConv *v = &t->s->u.conv;
    const int64_t first = c / t->per_small * t->per_large;
    double sum = 0;
    for (int64_t ky = 0; ky < t->k; ky++)
        for (int64_t kx = 0; kx < t->k; kx++) {
            const int64_t Y = y * v->stride - v->pad + ky, X = x * v->stride - v->pad + kx;
            if (Y < 0 || X < 0 || Y >= t->large.shape[1] || X >= t->large.shape[2]) continue;
            for (int64_t b = 0; b < t->per_large; b++)
                sum += snls_load(&t->weight, weight_at(t, c, b, ky, kx)) * read(t->s, &t->large, snls_nn_at4(&t->large, n, Y, X, first + b));
        }
    return sum;
}

static double sum_for_large(const Tie *t, int64_t n, int64_t Y, int64_t X, int64_t c)
{
    const NnConv *v = &t->s->u.conv;
    const int64_t first = c / t->per_large * t->per_small;
    double sum = 0;
    for (int64_t ky = 0; ky < t->k; ky++)
        for (int64_t kx = 0; kx < t->k; kx++) {
            const int64_t y = Y + v->pad - ky, x = X + v->pad - kx;
            if (y < 0 || x < 0 || y % v->stride || x % v->stride || y / v->stride >= t->small.shape[1] || x / v->stride >= t->small.shape[2]) continue;
            for (int64_t a = 0; a < t->per_small; a++)
                sum += snls_load(&t->weight, weight_at(t, first + a, c % t->per_large, ky, kx)) *
                       read(t->s, &t->small, snls_nn_at4(&t->small, n, y / v->stride, x / v->stride, first + a));
        }
    return sum;
}

static double sum_for_weight(const Tie *t, int64_t a, int64_t part, int64_t ky, int64_t kx)
{
    const NnConv *v = &t->s->u.conv;
    const int64_t b = a / t->per_small * t->per_large + part;
    double sum = 0;
    for (int64_t n = 0; n < t->small.shape[0]; n++)
        for (int64_t y = 0; y < t->small.shape[1]; y++)
            for (int64_t x = 0; x < t->small.shape[2]; x++) {
                const int64_t Y = y * v->stride - v->pad + ky, X = x * v->stride - v->pad + kx;
                if (Y < 0 || X < 0 || Y >= t->large.shape[1] || X >= t->large.shape[2]) continue;
                sum += read(t->s, &t->small, snls_nn_at4(&t->small, n, y, x, a)) * read(t->s, &t->large, snls_nn_at4(&t->large, n, Y, X, b));
            }
    return sum;
}

typedef double Sum(const Tie *t, int64_t n, int64_t y, int64_t x, int64_t c);
typedef void Visit(NnStep *s, int64_t at, int64_t c, double sum);

static void for_each_element(NnStep *s, const Tie *t, const SnlsTensor *over, Sum *sum, Visit *visit)
{
    const int64_t *d = over->shape;
    for (int64_t i = 0; i < d[0] * d[1] * d[2] * d[3]; i++)
        visit(s, i, i % d[3], sum(t, i / d[3] / d[2] / d[1], i / d[3] / d[2] % d[1], i / d[3] % d[2], i % d[3]));
}

static void put_result(NnStep *s, int64_t at, int64_t c, double sum)
{
    if (s->p[1].data) sum += snls_load(&s->p[1], c);
    sum = s->u.conv.act == NN_GELU ? snls_nn_gelu(sum) : sum * snls_nn_slope(&s->u.conv, sum);
    if (s->x[1].data) sum += snls_load(&s->x[1], at);
    snls_store(&s->y[0], at, sum);
}

static void add_gradient(NnStep *s, int64_t at, int64_t c, double sum)
{
    (void)c;
    snls_nn_accumulate(&s->dx[0], at, sum);
}

SnlsStatus snls_nn_ref_conv_forward(SnlsContext *ctx, NnStep *s)
{
    const Tie t = tie_of(s, &s->x[0], &s->y[0]);
    (void)ctx;
    for_each_element(s, &t, &s->y[0], s->u.conv.transposed ? sum_for_large : sum_for_small, put_result);
    return SNLS_OK;
}

static void weight_gradient(NnStep *s)
{
    const Tie t = tie_of(s, &s->x[0], &s->dy[0]);
    const int64_t k = t.k, count = t.small.shape[3] * t.per_large * k * k;
    for (int64_t i = 0; i < count; i++)
        snls_nn_accumulate(&s->dp[0], i, sum_for_weight(&t, i / (k * k) / t.per_large, i / (k * k) % t.per_large, i / k % k, i % k));
}

static void bias_gradient(NnStep *s)
{
    const int64_t channels = s->y[0].shape[3], pixels = snls_tensor_elements(&s->y[0]) / channels;
    for (int64_t c = 0; c < channels; c++) {
        double sum = 0;
        for (int64_t i = 0; i < pixels; i++) sum += pull(s, i * channels + c);
        snls_nn_accumulate(&s->dp[1], c, sum);
    }
}

SnlsStatus snls_nn_ref_conv_backward(SnlsContext *ctx, NnStep *s)
{
    (void)ctx;
    if (s->dx[0].data) {
        const Tie t = tie_of(s, &s->x[0], &s->dy[0]);
        for_each_element(s, &t, &s->x[0], s->u.conv.transposed ? sum_for_small : sum_for_large, add_gradient);
    }
    if (s->dp[0].data) weight_gradient(s);
    if (s->dp[1].data) bias_gradient(s);
    const int64_t count = s->dx[1].data ? snls_tensor_elements(&s->dx[1]) : 0;
    for (int64_t i = 0; i < count; i++) snls_nn_accumulate(&s->dx[1], i, snls_load(&s->dy[0], i));
    return SNLS_OK;
}
