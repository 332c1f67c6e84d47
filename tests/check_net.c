/* check_net.c: networks in tests. */
#include "check_net.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void fill(const SnlsTensor *t, Rng *rng, double low, double high)
{
    for (int64_t i = 0; i < snls_tensor_elements(t); i++) snls_store(t, i, rng_real(rng, low, high));
}

static bool on_device(const TestNet *t) { return t->params.device_value != NULL; }
static int64_t bytes_of(const SnlsTensor *t) { return snls_tensor_elements(t) * snls_dtype_size((SnlsDtype)t->dtype); }

/* t itself, or memory of this processor for a copy of it */
static SnlsTensor seen(const TestNet *net, SnlsTensor t)
{
    if (on_device(net) && t.data) t.data = malloc((size_t)bytes_of(&t)), t.device = SNLS_DEVICE_CPU;
    return t;
}

static void copy(TestNet *t, const SnlsTensor *there, const SnlsTensor *here, int32_t direction)
{
    const bool to = direction == SNLS_COPY_TO_DEVICE;
    if (there->data == here->data) return;
    CHECK(snls_device_copy(t->net.ctx, to ? there->data : here->data, to ? here->data : there->data, bytes_of(here), direction) >= 0, "copy: %s", snls_error(t->net.ctx));
}

bool test_net_open(TestNet *t, SnlsContext *ctx, Rng *rng, int32_t dtype, bool train, const int64_t *shape, Build *build, void *opaque)
{
    *t = (TestNet){ .params = { .dtype = dtype == SNLS_F64 ? SNLS_F64 : SNLS_F32 } };
    snls_nn_begin(&t->net, ctx, &t->params, dtype, train);
    t->net.one_thread = 0; /* as many as the context has */
    t->in = snls_nn_input(&t->net, shape[0], shape[1], shape[2], shape[3]);
    t->out = build(&t->net, rng, t->in, opaque);
    snls_nn_keep(&t->net, t->out);
    SnlsStatus status = t->net.status;
    if (status >= 0) status = snls_nn_params_allocate(ctx, &t->params, train);
    if (status >= 0) t->net.values[t->in].wanted = 1, status = snls_nn_commit(&t->net);
    if (!CHECK(status >= 0, "a network cannot be built: %s", snls_error(ctx))) return false;
    for (int64_t i = 0; i < t->params.count; i++) {
        const SnlsTensor p = snls_nn_param_view(&t->params, &t->params.list[i], t->params.value);
        fill(&p, rng, -0.6, 0.6);
    }
    const NnValue *in = &t->net.values[t->in], *out = &t->net.values[t->out];
    t->x = seen(t, in->t), t->dx = seen(t, in->grad), t->y = seen(t, out->t), t->dy = seen(t, out->grad);
    fill(&t->x, rng, -1, 1);
    const int64_t count = snls_tensor_elements(&t->y);
    t->pull = malloc(sizeof(double) * (size_t)count);
    for (int64_t i = 0; i < count; i++) t->pull[i] = rng_real(rng, -1, 1);
    return true;
}

double test_net_loss(TestNet *t)
{
    double sum = 0;
    t->params.version++;
    CHECK(snls_nn_params_send(t->net.ctx, &t->params) >= 0, "%s", snls_error(t->net.ctx));
    copy(t, &t->net.values[t->in].t, &t->x, SNLS_COPY_TO_DEVICE);
    CHECK(snls_nn_forward(&t->net) >= 0, "forward: %s", snls_error(t->net.ctx));
    copy(t, &t->net.values[t->out].t, &t->y, SNLS_COPY_FROM_DEVICE);
    for (int64_t i = 0; i < snls_tensor_elements(&t->y); i++) sum += t->pull[i] * snls_load(&t->y, i);
    return sum;
}

bool test_net_again(TestNet *t)
{
    const bool good = CHECK(snls_nn_backward(&t->net) >= 0, "backward: %s", snls_error(t->net.ctx));
    copy(t, &t->net.values[t->in].grad, &t->dx, SNLS_COPY_FROM_DEVICE);
    return CHECK(snls_nn_params_fetch(t->net.ctx, &t->params) >= 0, "%s", snls_error(t->net.ctx)) && good;
}

bool test_net_backward(TestNet *t)
{
    const int64_t bytes = t->params.total * snls_dtype_size((SnlsDtype)t->params.dtype);
    test_net_loss(t);
    CHECK(snls_nn_zero_grad(&t->net) >= 0, "%s", snls_error(t->net.ctx));
    memset(t->params.grad, 0, (size_t)bytes);
    if (on_device(t)) CHECK(t->net.backend->clear(t->net.ctx, t->params.device_grad, bytes) >= 0, "%s", snls_error(t->net.ctx));
    for (int64_t i = 0; i < snls_tensor_elements(&t->dy); i++) snls_store(&t->dy, i, t->pull[i]);
    copy(t, &t->net.values[t->out].grad, &t->dy, SNLS_COPY_TO_DEVICE);
    return test_net_again(t);
}

void test_net_close(TestNet *t)
{
    SnlsContext *ctx = t->net.ctx;
    void *const own[4] = { t->x.data, t->y.data, t->dx.data, t->dy.data };
    for (int i = 0; i < 4 && on_device(t); i++) free(own[i]);
    snls_nn_free(&t->net);
    snls_nn_params_free(ctx, &t->params);
    free(t->pull);
}

typedef struct Block { SnlsTensor value, grad; double *direction, *was; } Block;

static Block block_of(const SnlsTensor *value, const SnlsTensor *grad, Rng *rng)
{
    const int64_t n = snls_tensor_elements(value);
    Block b = { *value, *grad, malloc(sizeof(double) * (size_t)(n + 1)), malloc(sizeof(double) * (size_t)(n + 1)) };
    for (int64_t i = 0; i < n; i++) b.direction[i] = rng_real(rng, -1, 1), b.was[i] = snls_load(value, i);
    return b;
}

static double along(const Block *b)
{
    double sum = 0;
    for (int64_t i = 0; i < snls_tensor_elements(&b->value); i++) sum += b->direction[i] * snls_load(&b->grad, i);
    return sum;
}

static void move(const Block *b, double step)
{
    for (int64_t i = 0; i < snls_tensor_elements(&b->value); i++) snls_store(&b->value, i, b->was[i] + step * b->direction[i]);
}

/* Where a choice of neighbours flips between the two ends, differences mean nothing: such a case shows by its second difference,
 * whatever the gradient says, and is left out. There may be few of them. */
static int64_t smooth, flipped;
bool check_net_few_flips(void) { return CHECK(flipped * 20 <= smooth, "%lld of %lld derivatives could not be compared", (long long)flipped, (long long)(smooth + flipped)); }

static void check_block(const char *what, const char *name, TestNet *t, const Block *b, double step, double tolerance)
{
    const double got = along(b), here = test_net_loss(t);
    move(b, step);
    const double up = test_net_loss(t);
    move(b, -step);
    const double down = test_net_loss(t), want = (up - down) / (2 * step);
    move(b, 0);
    const bool flip = fabs(up + down - 2 * here) > 1e-5;
    flipped += flip, smooth += !flip;
    if (!flip) CHECK(fabs(got - want) <= tolerance * (1 + fabs(want)), "%s: derivative along %s is %.10g, differences say %.10g", what, name, got, want);
    free(b->direction);
    free(b->was);
}

void check_net_gradient(const char *what, TestNet *t, Rng *rng, int64_t every, double step, double tolerance)
{
    if (!test_net_backward(t)) return;
    Block in = block_of(&t->x, &t->dx, rng);
    check_block(what, "the input", t, &in, step, tolerance);
    for (int64_t i = rng_int(rng, 0, every - 1); i < t->params.count; i += every) {
        const SnlsTensor value = snls_nn_param_view(&t->params, &t->params.list[i], t->params.value);
        const SnlsTensor grad = snls_nn_param_view(&t->params, &t->params.list[i], t->params.grad);
        const Block b = block_of(&value, &grad, rng);
        check_block(what, t->params.list[i].name, t, &b, step, tolerance);
    }
}
