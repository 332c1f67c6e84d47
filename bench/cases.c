/* cases.c: what is timed, and how much work it is. */
#include "bench.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

const BenchCase bench_cases[] = { { "search", "search", 9, 1, 1, 10, 1, true },
                                  { "search, no flow", "search", 9, 1, 1, 10, 1, false },
                                  { "search, half pixel", "search", 9, 1, 1, 10, 0.5, true },
                                  { "search, ps 3", "search", 9, 1, 3, 10, 1, true },
                                  { "search, ws 33", "search", 33, 0, 1, 10, 1, false },
                                  { "search_all, ws 5", "search_all", 5, 1, 1, 1, 1, true },
                                  { "refine, 10 x 3 x 3", "refine", 3, 1, 1, 10, 1, false },
                                  { "flow_compose", "flow_compose", 1, 2, 1, 1, 1, false },
                                  { "weights", "weights", 1, 1, 1, 10, 1, false },
                                  { "gather", "gather", 1, 1, 1, 10, 1, false },
                                  { "gather_add", "gather_add", 1, 1, 1, 10, 1, false },
                                  { "gather_add, ps 3", "gather_add", 1, 1, 3, 10, 1, false },
                                  { "scatter_add", "scatter_add", 1, 1, 1, 10, 1, false },
                                  { NULL, NULL, 0, 0, 0, 0, 0, false } };

/* ---- values ---- */

static uint64_t next(uint64_t *state)
{
    uint64_t x = *state += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static SnlsStatus fill_uniform(SnlsContext *ctx, SnlsTensor *t, int32_t ndim, const int64_t *shape, uint64_t seed,
                               double low, double high)
{
    const SnlsStatus status = snls_array_alloc(ctx, t, SNLS_F32, ndim, shape);
    const int64_t n = status < 0 ? 0 : snls_tensor_elements(t);
    for (int64_t i = 0; i < n; i++)
        ((float *)t->data)[i] = (float)(low + (high - low) * (double)(next(&seed) >> 11) * 0x1p-53);
    return status;
}

/* Flow is smooth, as real flow is: neighbouring windows overlap. */
static SnlsStatus fill_flow(SnlsContext *ctx, SnlsTensor *t, int32_t ndim, const int64_t *shape)
{
    const SnlsStatus status = snls_array_alloc(ctx, t, SNLS_F32, ndim, shape);
    if (status < 0) return status;
    const int64_t w = shape[ndim - 2], h = shape[ndim - 3], planes = snls_tensor_elements(t) / (2 * w * h);
    float *to = t->data;
    for (int64_t p = 0; p < planes; p++)
        for (int64_t y = 0; y < h; y++)
            for (int64_t x = 0; x < w; x++, to += 2) {
                to[0] = (float)(3 * sin(0.05 * (double)x + 0.03 * (double)y + (double)p));
                to[1] = (float)(3 * cos(0.04 * (double)y - 0.02 * (double)x + (double)p));
            }
    return status;
}

/* Neighbours scattered a few pixels around, in the own frame and the two beside it. */
static SnlsStatus fill_offsets(SnlsContext *ctx, SnlsTensor *t, const int64_t *shape)
{
    const SnlsStatus status = fill_uniform(ctx, t, 7, shape, 5, -4, 4);
    const int64_t n = status < 0 ? 0 : snls_tensor_elements(t);
    for (int64_t i = 0; i < n; i += 3) ((float *)t->data)[i] = (float)(i / 3 % 3 - 1);
    return status;
}

/* ---- inputs ---- */

static SnlsStatus make_inputs(BenchCall *c)
{
    const BenchSize *z = &c->size;
    const int64_t video[] = { 1, z->frames, z->height, z->width, z->features },
                  plain_flow[] = { 1, z->frames, z->height, z->width, 2 };
    const int64_t flow[] = { 1, z->frames, 2 * c->which->wt, z->height, z->width, 2 };
    const int64_t field[] = { 1, 1, z->frames, z->height, z->width, c->which->k, 3 };
    SnlsStatus status = SNLS_OK;
    if (!strncmp(c->which->op, "search", 6)) {
        SnlsSearch *s = &c->tensors.search;
        status = fill_uniform(c->ctx, &s->query, 5, video, 1, 0, 1);
        if (status >= 0) status = fill_uniform(c->ctx, &s->key, 5, video, 2, 0, 1);
        if (status >= 0 && c->which->flow) status = fill_flow(c->ctx, &s->flow, 6, flow);
    } else if (!strcmp(c->which->op, "refine")) {
        SnlsRefine *s = &c->tensors.refine;
        status = fill_uniform(c->ctx, &s->query, 5, video, 1, 0, 1);
        if (status >= 0) status = fill_uniform(c->ctx, &s->key, 5, video, 2, 0, 1);
        if (status >= 0) status = fill_offsets(c->ctx, &s->centre, field);
    } else if (!strcmp(c->which->op, "flow_compose")) {
        status = fill_flow(c->ctx, &c->tensors.compose.fflow, 5, plain_flow);
        if (status >= 0) status = fill_flow(c->ctx, &c->tensors.compose.bflow, 5, plain_flow);
    } else if (!strcmp(c->which->op, "weights")) {
        status = fill_uniform(c->ctx, &c->tensors.weights.dist, 6, field, 3, 0, 1);
    } else { /* SnlsScatterAdd begins like SnlsGather, but say so to the compiler */
        SnlsTensor *const scatter[] = { &c->tensors.scatter.value, &c->tensors.scatter.weight,
                                        &c->tensors.scatter.offset };
        SnlsTensor *const gather[] = { &c->tensors.gather.value, &c->tensors.gather.weight, &c->tensors.gather.offset };
        SnlsTensor *const *in = strcmp(c->which->op, "scatter_add") ? gather : scatter;
        status = fill_uniform(c->ctx, in[0], 5, video, 1, 0, 1);
        if (status >= 0) status = fill_uniform(c->ctx, in[1], 6, field, 4, 0, 0.1);
        if (status >= 0) status = fill_offsets(c->ctx, in[2], field);
    }
    return status;
}

static void set_parameter(BenchCall *c, const char *name, double value)
{
    char text[40];
    snprintf(text, sizeof text, "%g", value);
    for (const SnlsOption *o = snls_options(c->which->op); o && o->name; o++)
        if (!strcmp(o->name, name)) snls_option_parse(o, &c->tensors, text, NULL, 0);
}

static SnlsTensor *tensor_of(BenchCall *c, const BenchSlot *slot)
{
    return (SnlsTensor *)(void *)((char *)&c->tensors + slot->at);
}
static SnlsTensor *grad_of(BenchCall *c, const BenchSlot *slot)
{
    return (SnlsTensor *)(void *)((char *)&c->grads + slot->grad_at);
}

/* Outputs, a gradient for each of them, and room for the gradient of each input. */
static SnlsStatus make_outputs(BenchCall *c)
{
    SnlsStatus status = c->op->shape(c->ctx, &c->tensors);
    for (int i = 0; i < c->op->count && status >= 0; i++) {
        const BenchSlot *slot = &c->op->slots[i];
        SnlsTensor *t = tensor_of(c, slot);
        const SnlsTensor like = *t;
        if (!slot->is_input)
            status = snls_array_alloc(c->ctx, t, slot->grad_at < 0 ? SNLS_I32 : SNLS_F32, like.ndim, like.shape);
        if (status < 0 || slot->grad_at < 0 || !t->data) continue;
        status = slot->is_input ? snls_array_alloc(c->ctx, grad_of(c, slot), SNLS_F32, like.ndim, like.shape)
                                : fill_uniform(c->ctx, grad_of(c, slot), like.ndim, like.shape, 6, -1, 1);
    }
    return status;
}

SnlsStatus bench_call_make(BenchCall *c)
{
    c->op = bench_op(c->which->op);
    c->op->defaults(&c->tensors);
    set_parameter(c, "ws", c->which->ws);
    set_parameter(c, "wr", c->which->ws);
    set_parameter(c, "wt", c->which->wt);
    set_parameter(c, "ps", c->which->ps);
    set_parameter(c, "k", c->which->k);
    set_parameter(c, "stride1", c->which->stride1);
    const SnlsStatus status = make_inputs(c);
    return status < 0 ? status : make_outputs(c);
}

void bench_call_free(BenchCall *c)
{
    for (int i = 0; c->op && i < c->op->count; i++) {
        snls_array_free(c->ctx, tensor_of(c, &c->op->slots[i]));
        if (c->op->slots[i].grad_at >= 0) snls_array_free(c->ctx, grad_of(c, &c->op->slots[i]));
    }
}

/* ---- work ---- */

double bench_flops(const BenchCall *c, bool backward)
{
    const BenchCase *w = c->which;
    const double queries = (double)c->size.frames * c->size.height * c->size.width,
                 terms = (double)w->ps * w->ps * c->size.features;
    const double slots = 2 * w->wt + 1, window = (double)w->ws * w->ws;
    if (!strcmp(w->op, "flow_compose")) return queries * 2 * w->wt * 2 * (backward ? 16 : 8);
    if (!strcmp(w->op, "weights")) return queries * w->k * 5;
    if (!strncmp(w->op, "search", 6) || !strcmp(w->op, "refine")) {
        const double candidates = !strcmp(w->op, "refine") ? w->k * window : slots * window;
        const double kept = !strcmp(w->op, "search_all") ? candidates : w->k;
        /* l2: difference, square, sum. Backward: difference, dQ, four taps of dK, two slopes for the centre */
        return backward ? queries * kept * terms * 19 : queries * candidates * terms * 3;
    }
    return queries * w->k * terms * (backward ? 34 : 8); /* four taps; backward: dV, dw, two slopes for the offset */
}

static double tensor_bytes(const SnlsTensor *t)
{
    return t->data ? (double)snls_tensor_elements(t) * (double)snls_dtype_size((SnlsDtype)t->dtype) : 0;
}

double bench_bytes(const BenchCall *call, bool backward)
{
    double sum = 0;
    BenchCall copy = *call; /* tensor_of wants one it may write to */
    for (int i = 0; i < call->op->count; i++) {
        const BenchSlot *slot = &call->op->slots[i];
        const double bytes = tensor_bytes(tensor_of(&copy, slot));
        if (slot->is_input || !backward || call->op->backward_reads_outputs) sum += bytes;
        if (backward && slot->grad_at >= 0)
            sum += (slot->is_input ? 2 : 1) * bytes; /* gradients by inputs are added to */
    }
    return sum;
}
