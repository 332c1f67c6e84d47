/* net.c: building, memory and running of a network. What steps compute is in ref_*.c and its fast versions. */
#include "nn/device.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

NnName snls_nn_name(const char *format, ...)
{
    NnName name;
    va_list list;
    va_start(list, format);
    vsnprintf(name.text, sizeof name.text, format, list);
    va_end(list);
    return name;
}

/* Below this many bytes of values no layer has work for two threads, and their meetings cost more than they bring. */
#define ONE_THREAD ((int64_t)16 << 20)

bool snls_nn_is_cpu(const SnlsContext *ctx) { return snls_device_type(ctx) == SNLS_DEVICE_CPU && strcmp(snls_backend_name(ctx), "ref"); }

void snls_nn_begin(NnNet *net, SnlsContext *ctx, NnParams *params, int32_t dtype, bool train)
{
    *net = (NnNet){ .ctx = ctx, .params = params, .dtype = dtype, .train = train, .one_thread = ONE_THREAD };
    net->backend = strcmp(snls_backend_name(ctx), "ref") ? &snls_nn_cpu : &snls_nn_ref;
    if (snls_device_type(ctx) == SNLS_DEVICE_CPU) return;
    const NnCuda *cuda = NULL;
    net->status = snls_nn_load_cuda(ctx, &cuda);
    if (net->status >= 0) net->backend = cuda->backend;
}

/* Room for one element more in a list that doubles. */
static bool grow(NnNet *net, void **list, int64_t count, int64_t *room, int64_t size)
{
    if (net->status < 0) return false;
    if (count < *room) return true;
    const int64_t wanted = *room ? 2 * *room : 16;
    char *more = snls_mem_alloc(&net->ctx->allocator, wanted * size);
    if (!more) {
        net->status = snls_fail(net->ctx, SNLS_ERR_MEMORY, "network: no memory for a list of %lld", (long long)wanted);
        return false;
    }
    if (count) memcpy(more, *list, (size_t)(count * size));
    memset(more + count * size, 0, (size_t)((wanted - count) * size));
    snls_mem_free(&net->ctx->allocator, *list);
    *list = more;
    *room = wanted;
    return true;
}

int32_t snls_nn_value(NnNet *net, int32_t ndim, const int64_t *shape, int32_t dtype)
{
    void *list = net->values;
    const bool good = grow(net, &list, net->value_count, &net->value_room, sizeof *net->values);
    net->values = list;
    if (!good) return -1;
    NnValue *v = &net->values[net->value_count];
    *v = (NnValue){ .t = snls_tensor(NULL, (SnlsDtype)dtype, ndim, shape), .first = -1, .last = -1 };
    v->t.device = snls_device_type(net->ctx), v->t.device_id = net->ctx->device_id;
    if (snls_tensor_elements(&v->t) < 1) {
        net->status = snls_fail(net->ctx, SNLS_ERR_SHAPE, "network: value %lld is empty or too large: the frames are too small for it", (long long)net->value_count);
        return -1;
    }
    return (int32_t)net->value_count++;
}

static bool same_shape(const NnParam *p, int32_t ndim, const int64_t *shape)
{
    return p->ndim == ndim && !memcmp(p->shape, shape, sizeof *shape * (size_t)ndim);
}

int32_t snls_nn_param(NnNet *net, const char *name, int32_t ndim, const int64_t *shape, int32_t init, double scale)
{
    NnParams *all = net->params;
    void *list = all->list;
    if (net->status < 0) return -1;
    NnParam *p = snls_nn_params_find(all, name);
    if (p) {
        if (!same_shape(p, ndim, shape)) net->status = snls_fail(net->ctx, SNLS_ERR_SHAPE, "network: parameter %s has two shapes", name);
        return (int32_t)(p - all->list);
    }
    if (all->value) {
        net->status = snls_fail(net->ctx, SNLS_ERR_ARG, "network: parameter %s is none of those there are", name);
        return -1;
    }
    const bool good = grow(net, &list, all->count, &all->room, sizeof *all->list);
    all->list = list;
    if (!good) return -1;
    p = &all->list[all->count];
    *p = (NnParam){ .ndim = ndim, .init = init, .scale = scale, .count = 1, .offset = all->total, .decay = ndim > 1 };
    snprintf(p->name, sizeof p->name, "%s", name);
    for (int32_t i = 0; i < ndim; i++) p->count *= p->shape[i] = shape[i];
    all->total += p->count;
    return (int32_t)all->count++;
}

NnStep *snls_nn_step(NnNet *net, int32_t op, const int32_t *x, const int32_t *p, const int32_t *y)
{
    void *list = net->steps;
    const bool good = grow(net, &list, net->step_count, &net->step_room, sizeof *net->steps);
    net->steps = list;
    if (!good) return NULL;
    NnStep *s = &net->steps[net->step_count];
    *s = (NnStep){ .op = op };
    for (int i = 0; i < NN_IN; i++) s->xi[i] = x ? x[i] : -1;
    for (int i = 0; i < NN_PARAMS; i++) s->pi[i] = p ? p[i] : -1;
    for (int i = 0; i < NN_OUT; i++) s->yi[i] = y ? y[i] : -1;
    for (int i = 0; i < NN_IN; i++)
        if (s->xi[i] >= 0) net->values[s->xi[i]].last = (int32_t)net->step_count;
    for (int i = 0; i < NN_OUT; i++)
        if (s->yi[i] >= 0) net->values[s->yi[i]].first = net->values[s->yi[i]].last = (int32_t)net->step_count;
    net->step_count++;
    return s;
}

void snls_nn_keep(NnNet *net, int32_t value)
{
    if (net->status >= 0 && value >= 0) net->values[value].kept = 1;
}

/* ---- memory ---- */

static SnlsStatus take_block(NnNet *net, void **block, int64_t bytes, const char *what)
{
    const SnlsStatus status = snls_device_alloc(net->ctx, block, bytes + SNLS_ALIGN);
    SNLS_REQUIRE(net->ctx, status >= 0, status, "network: no memory for %lld bytes of %s", (long long)bytes, what);
    return SNLS_OK;
}

static SnlsStatus clear(NnNet *net, void *block, int64_t bytes)
{
    if (net->backend->clear) return net->backend->clear(net->ctx, block, bytes);
    memset(block, 0, (size_t)bytes);
    return SNLS_OK;
}

static char *aligned(void *block) { return (char *)(((uintptr_t)block + SNLS_ALIGN - 1) / SNLS_ALIGN * SNLS_ALIGN); }

static SnlsStatus place_values(NnNet *net)
{
    net->block_bytes = snls_nn_bytes(net);
    if (net->block_bytes < 0) return net->status < 0 ? net->status : SNLS_ERR_MEMORY;
    SnlsStatus status = take_block(net, &net->block, net->block_bytes, "values");
    for (int64_t i = 0; status >= 0 && i < net->value_count; i++) net->values[i].t.data = aligned(net->block) + net->values[i].place;
    if (status >= 0) status = clear(net, net->block, net->block_bytes + SNLS_ALIGN);
    return status;
}

/* Values behind a parameter, or behind a value that has a gradient, have one; offsets and candidate numbers have none. */
static void mark_wanted(NnNet *net)
{
    for (int64_t i = 0; i < net->step_count; i++) {
        const NnStep *s = &net->steps[i];
        bool wanted = s->op != NN_search && (s->pi[0] >= 0 || s->pi[1] >= 0);
        for (int k = 0; k < NN_IN; k++) wanted |= s->xi[k] >= 0 && net->values[s->xi[k]].wanted;
        for (int k = 0; k < NN_OUT; k++)
            if (s->yi[k] >= 0) net->values[s->yi[k]].wanted = wanted && net->values[s->yi[k]].t.dtype != SNLS_I32;
        const bool matches = s->op == NN_search || s->op == NN_refine || s->op == NN_first;
        if (matches && s->yi[1] >= 0) net->values[s->yi[1]].wanted = 0;
    }
}

static SnlsStatus place_gradients(NnNet *net)
{
    int64_t used = 0;
    mark_wanted(net);
    for (int64_t i = 0; i < net->value_count; i++)
        if (net->values[i].wanted) used += snls_nn_value_bytes(&net->values[i]);
    SNLS_TRY(take_block(net, &net->grad_block, used, "gradients"));
    net->grad_bytes = used;
    char *at = aligned(net->grad_block);
    for (int64_t i = 0; i < net->value_count; i++) {
        net->values[i].grad = net->values[i].t;
        net->values[i].grad.data = net->values[i].wanted ? at : NULL;
        if (net->values[i].wanted) at += snls_nn_value_bytes(&net->values[i]);
    }
    return SNLS_OK;
}

/* The step's part of a parameter. */
static SnlsTensor part_of(const NnStep *s, SnlsTensor t)
{
    if (!s->parts) return t;
    t.shape[0] /= s->parts;
    t.data = (char *)t.data + s->part * t.shape[0] * t.stride[0] * snls_dtype_size((SnlsDtype)t.dtype);
    return t;
}

static void connect(const NnNet *net, NnStep *s)
{
    static const float one = 1;
    const NnParams *params = net->params;
    void *const value = params->device_value ? params->device_value : params->value, *const grad = params->device_value ? params->device_grad : params->grad;
    s->shared = net->shared;
    s->one = net->backend->one ? net->backend->one(net->shared) : &one;
    for (int i = 0; i < NN_IN; i++)
        if (s->xi[i] >= 0) s->x[i] = net->values[s->xi[i]].t, s->dx[i] = net->values[s->xi[i]].grad;
    for (int i = 0; i < NN_OUT; i++)
        if (s->yi[i] >= 0) s->y[i] = net->values[s->yi[i]].t, s->dy[i] = net->values[s->yi[i]].grad;
    for (int i = 0; i < NN_PARAMS; i++) {
        if (s->pi[i] < 0) continue;
        s->p[i] = part_of(s, snls_nn_param_view(params, &params->list[s->pi[i]], value));
        s->version = &params->version;
        if (grad && net->train) s->dp[i] = part_of(s, snls_nn_param_view(params, &params->list[s->pi[i]], grad));
    }
}

/* The last step that reads a value is the first that adds to its gradient. */
static void mark_fresh(NnNet *net)
{
    for (int64_t i = 0; i < net->step_count; i++) {
        NnStep *s = &net->steps[i];
        for (int k = 0; k < NN_IN; k++) {
            s->fresh[k] = s->xi[k] >= 0 && net->values[s->xi[k]].last == i;
            for (int j = 0; j < k; j++) s->fresh[k] &= s->xi[j] != s->xi[k]; /* read twice by one step: the second adds */
        }
    }
}

SnlsStatus snls_nn_commit(NnNet *net)
{
    if (net->status < 0) return net->status;
    SNLS_REQUIRE(net->ctx, net->params->value || !net->params->count, SNLS_ERR_ARG, "network: its parameters have no memory");
    if (net->backend->open && !net->shared) SNLS_TRY(net->backend->open(net->ctx, &net->shared));
    SNLS_TRY(place_values(net));
    if (net->train) SNLS_TRY(place_gradients(net));
    for (int64_t i = 0; i < net->step_count; i++) connect(net, &net->steps[i]);
    mark_fresh(net);
    return SNLS_OK;
}

void snls_nn_place_at(NnNet *net, int32_t value, void *data)
{
    NnValue *v = &net->values[value];
    v->t.data = data ? data : aligned(net->block) + v->place;
    for (int64_t i = 0; i < net->step_count; i++) {
        NnStep *s = &net->steps[i];
        for (int k = 0; k < NN_IN; k++)
            if (s->xi[k] == value) s->x[k].data = v->t.data;
        for (int k = 0; k < NN_OUT; k++)
            if (s->yi[k] == value) s->y[k].data = v->t.data;
    }
}

/* ---- running ---- */

static SnlsStatus run_down(NnNet *net)
{
    for (int64_t i = 0; i < net->step_count; i++) {
        NnFunction *forward = net->backend->op[net->steps[i].op].forward;
        SNLS_TRY((forward ? forward : snls_nn_match_forward)(net->ctx, &net->steps[i]));
    }
    return SNLS_OK;
}

static bool gets_gradient(const NnStep *s)
{
    bool in = false, out = false;
    for (int i = 0; i < NN_OUT; i++) in |= s->dy[i].data != NULL;
    for (int i = 0; i < NN_IN; i++) out |= s->dx[i].data != NULL;
    for (int i = 0; i < NN_PARAMS; i++) out |= s->dp[i].data != NULL;
    return in && out;
}

static SnlsStatus run_up(NnNet *net)
{
    for (int64_t i = net->step_count; i-- > 0;) {
        NnFunction *backward = net->backend->op[net->steps[i].op].backward;
        if (gets_gradient(&net->steps[i])) SNLS_TRY((backward ? backward : snls_nn_match_backward)(net->ctx, &net->steps[i]));
    }
    return SNLS_OK;
}

typedef struct Threads { int32_t wanted, backend; } Threads;

static Threads begin_run(NnNet *net, int64_t bytes)
{
    Threads t = { .wanted = net->ctx->threads };
    if (bytes < net->one_thread) net->ctx->threads = 1;
    if (net->backend->run) net->backend->run(net->ctx, &t.backend);
    return t;
}

static void end_run(NnNet *net, Threads *t)
{
    if (net->backend->run) net->backend->run(net->ctx, &t->backend);
    net->ctx->threads = t->wanted;
}

static SnlsStatus run(NnNet *net, SnlsStatus (*way)(NnNet *))
{
    Threads t = begin_run(net, net->block_bytes);
    SnlsStatus status = net->backend->prepare ? net->backend->prepare(net->ctx, net->shared) : SNLS_OK;
    if (status >= 0) status = way(net);
    end_run(net, &t);
    return status;
}

/* A step that knows the shapes of its values, before the commit too. */
static NnStep with_shapes(const NnNet *net, int64_t i)
{
    NnStep s = net->steps[i];
    for (int k = 0; k < NN_IN; k++)
        if (s.xi[k] >= 0) s.x[k] = net->values[s.xi[k]].t;
    for (int k = 0; k < NN_OUT; k++)
        if (s.yi[k] >= 0) s.y[k] = net->values[s.yi[k]].t;
    return s;
}

int64_t snls_nn_room(NnNet *net)
{
    const int64_t bytes = snls_nn_bytes(net);
    int64_t most = 0;
    if (bytes < 0 || !net->backend->room) return 0;
    Threads t = begin_run(net, bytes);
    for (int64_t i = 0; i < net->step_count; i++) {
        const NnStep s = with_shapes(net, i);
        const int64_t room = net->backend->room(net->ctx, &s);
        if (room > most) most = room;
    }
    end_run(net, &t);
    return most;
}

static bool same_sizes(const SnlsTensor *a, const SnlsTensor *b) { return a->dtype == b->dtype && !memcmp(a->shape, b->shape, sizeof a->shape); }

/* Steps that a library keeps one thing for: they differ in values alone. */
static bool alike(const NnStep *a, const NnStep *b)
{
    const NnConv *v = &a->u.conv, *w = &b->u.conv;
    return a->op == NN_conv && b->op == NN_conv && v->kernel == w->kernel && v->stride == w->stride && v->pad == w->pad && v->groups == w->groups && v->transposed == w->transposed &&
           v->act == w->act && v->slope == w->slope && (a->xi[1] < 0) == (b->xi[1] < 0) && (a->pi[1] < 0) == (b->pi[1] < 0) && same_sizes(&a->x[0], &b->x[0]) && same_sizes(&a->y[0], &b->y[0]);
}

static bool is_first_alike(const NnNet *net, const NnStep *s, int64_t i)
{
    for (int64_t j = 0; j < i; j++) {
        const NnStep before = with_shapes(net, j);
        if (alike(&before, s)) return false;
    }
    return true;
}

int64_t snls_nn_own(const NnNet *net)
{
    int64_t bytes = 0;
    for (int64_t i = 0; net->status >= 0 && net->backend->own && i < net->step_count; i++) {
        const NnStep s = with_shapes(net, i);
        if (is_first_alike(net, &s, i)) bytes += net->backend->own(&s);
    }
    return bytes;
}

SnlsStatus snls_nn_forward(NnNet *net) { return run(net, run_down); }
SnlsStatus snls_nn_backward(NnNet *net) { return run(net, run_up); }

SnlsStatus snls_nn_zero_grad(NnNet *net) { return net->grad_block ? clear(net, net->grad_block, net->grad_bytes + SNLS_ALIGN) : SNLS_OK; }

/* ---- values as this processor sees them ---- */

SnlsStatus snls_nn_host(NnNet *net, int32_t value, SnlsTensor *host)
{
    NnValue *v = &net->values[value];
    *host = v->t;
    if (!net->backend->clear) return SNLS_OK;
    if (!v->mirror) v->mirror = snls_mem_alloc(&net->ctx->allocator, snls_nn_value_bytes(v));
    SNLS_REQUIRE(net->ctx, v->mirror, SNLS_ERR_MEMORY, "network: no memory for a copy of a value of %lld bytes", (long long)snls_nn_value_bytes(v));
    host->data = v->mirror, host->device = SNLS_DEVICE_CPU;
    return SNLS_OK;
}

static int64_t plain_bytes(const NnValue *v) { return snls_tensor_elements(&v->t) * snls_dtype_size((SnlsDtype)v->t.dtype); }

SnlsStatus snls_nn_send(NnNet *net, int32_t value)
{
    const NnValue *v = &net->values[value];
    return v->mirror ? snls_device_copy(net->ctx, v->t.data, v->mirror, plain_bytes(v), SNLS_COPY_TO_DEVICE) : SNLS_OK;
}

SnlsStatus snls_nn_fetch(NnNet *net, int32_t value)
{
    const NnValue *v = &net->values[value];
    return v->mirror ? snls_device_copy(net->ctx, v->mirror, v->t.data, plain_bytes(v), SNLS_COPY_FROM_DEVICE) : SNLS_OK;
}

void snls_nn_free(NnNet *net)
{
    if (!net->ctx) return;
    for (int64_t i = 0; net->backend->release && i < net->step_count; i++) net->backend->release(net->ctx, &net->steps[i]);
    if (net->shared) net->backend->close(net->ctx, net->shared);
    for (int64_t i = 0; i < net->value_count; i++) snls_mem_free(&net->ctx->allocator, net->values[i].mirror);
    snls_mem_free(&net->ctx->allocator, net->values);
    snls_mem_free(&net->ctx->allocator, net->steps);
    snls_device_free(net->ctx, net->block);
    snls_device_free(net->ctx, net->grad_block);
    *net = (NnNet){ 0 };
}
