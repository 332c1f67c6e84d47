/* inputs.c: the tensors of a case, and how much work it is. */
#include "bench.h"
#include <math.h>
#include <string.h>

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

/* Smooth flow is what real flow mostly is: neighbouring windows overlap. It changes by a pixel every seven to twenty. */
static SnlsStatus fill_smooth(SnlsContext *ctx, SnlsTensor *t, int32_t ndim, const int64_t *shape)
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

static SnlsStatus fill_flow(BenchCall *c, SnlsTensor *t, const int64_t *shape)
{
    switch (c->which->flow) {
    case BENCH_ZERO: return snls_array_alloc(c->ctx, t, SNLS_F32, 6, shape);
    case BENCH_SMOOTH: return fill_smooth(c->ctx, t, 6, shape);
    case BENCH_RANDOM: return fill_uniform(c->ctx, t, 6, shape, 7, -30, 30); /* no two windows overlap */
    case BENCH_NO_FLOW: break;
    }
    return SNLS_OK;
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

typedef struct Shapes {
    int64_t video[5], plain_flow[5], flow[6], field[7]; /* field: of offsets; of distances without its last axis */
} Shapes;

static Shapes shapes_of(const BenchCase *w)
{
    const int64_t rows = (w->height + w->stride0 - 1) / w->stride0, columns = (w->width + w->stride0 - 1) / w->stride0;
    return (Shapes){ { 1, w->frames, w->height, w->width, w->channels },
                     { 1, w->frames, w->height, w->width, 2 },
                     { 1, w->frames, 2 * w->wt, rows, columns, 2 },
                     { 1, w->heads, w->frames, rows, columns, w->k, 3 } };
}

static SnlsStatus make_match_inputs(BenchCall *c, const Shapes *z)
{
    const bool refine = !strcmp(c->which->op, "refine");
    SnlsTensor *query = refine ? &c->tensors.refine.query : &c->tensors.search.query,
               *key = refine ? &c->tensors.refine.key : &c->tensors.search.key;
    SnlsStatus status = fill_uniform(c->ctx, query, 5, z->video, 1, 0, 1);
    if (status >= 0) status = fill_uniform(c->ctx, key, 5, z->video, 2, 0, 1);
    if (status < 0) return status;
    return refine ? fill_offsets(c->ctx, &c->tensors.refine.centre, z->field)
                  : fill_flow(c, &c->tensors.search.flow, z->flow);
}

static SnlsStatus make_aggregation_inputs(BenchCall *c, const Shapes *z)
{
    /* SnlsScatterAdd begins like SnlsGather, but say so to the compiler */
    SnlsTensor *const scatter[] = { &c->tensors.scatter.value, &c->tensors.scatter.weight, &c->tensors.scatter.offset };
    SnlsTensor *const gather[] = { &c->tensors.gather.value, &c->tensors.gather.weight, &c->tensors.gather.offset };
    SnlsTensor *const *in = strcmp(c->which->op, "scatter_add") ? gather : scatter;
    SnlsStatus status = fill_uniform(c->ctx, in[0], 5, z->video, 1, 0, 1);
    if (status >= 0) status = fill_uniform(c->ctx, in[1], 6, z->field, 4, 0, 0.1);
    return status < 0 ? status : fill_offsets(c->ctx, in[2], z->field);
}

static SnlsStatus make_inputs(BenchCall *c)
{
    const Shapes z = shapes_of(c->which);
    if (bench_is_matching(c->which)) return make_match_inputs(c, &z);
    if (bench_is_aggregation(c->which)) return make_aggregation_inputs(c, &z);
    if (!strcmp(c->which->op, "weights")) return fill_uniform(c->ctx, &c->tensors.weights.dist, 6, z.field, 3, 0, 1);
    const SnlsStatus status = fill_smooth(c->ctx, &c->tensors.compose.fflow, 5, z.plain_flow);
    return status < 0 ? status : fill_smooth(c->ctx, &c->tensors.compose.bflow, 5, z.plain_flow);
}

static void set_parameters(BenchCall *c)
{
    static const char *const dists[] = { "l2", "prod" }, *const interps[] = { "bilinear", "nearest" };
    const BenchCase *w = c->which;
    const char *const names[] = { "ws", "wr", "wt", "ps", "k", "stride0", "stride1", "heads" };
    const double values[] = { w->ws, w->ws, w->wt, w->ps, w->k, w->stride0, w->stride1, w->heads };
    for (const SnlsOption *o = snls_options(w->op); o && o->name; o++) {
        char text[40] = "";
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            if (!strcmp(o->name, names[i])) snprintf(text, sizeof text, "%.17g", values[i]);
        if (!strcmp(o->name, "dist")) snprintf(text, sizeof text, "%s", dists[w->dist]);
        if (!strcmp(o->name, "interp")) snprintf(text, sizeof text, "%s", interps[w->interp]);
        if (*text) snls_option_parse(o, &c->tensors, text, NULL, 0);
    }
}

static SnlsTensor *tensor_of(const BenchCall *c, const BenchSlot *slot)
{
    return (SnlsTensor *)(void *)((char *)&c->tensors + slot->at);
}
static SnlsTensor *grad_of(const BenchCall *c, const BenchSlot *slot)
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
        if (c->which->interp == SNLS_INTERP_NEAREST && slot->is_input && t->shape[t->ndim - 1] == 3)
            continue; /* places that are rounded have no gradient */
        status = slot->is_input ? snls_array_alloc(c->ctx, grad_of(c, slot), SNLS_F32, like.ndim, like.shape)
                                : fill_uniform(c->ctx, grad_of(c, slot), like.ndim, like.shape, 6, -1, 1);
    }
    return status;
}

SnlsStatus bench_call_make(BenchCall *c)
{
    c->op = bench_op(c->which->op);
    c->op->defaults(&c->tensors);
    set_parameters(c);
    const SnlsStatus status = make_inputs(c);
    return status < 0 ? status : make_outputs(c);
}

SnlsTensor *bench_tensor(BenchCall *c, int slot) { return tensor_of(c, &c->op->slots[slot]); }

SnlsTensor *bench_grad(BenchCall *c, int slot)
{
    return c->op->slots[slot].grad_at < 0 ? NULL : grad_of(c, &c->op->slots[slot]);
}

static void free_tensor(SnlsContext *ctx, SnlsTensor *t)
{
    if (!t || t->device == SNLS_DEVICE_CPU) {
        snls_array_free(ctx, t);
        return;
    }
    snls_device_free(ctx, t->data);
    t->data = NULL;
}

void bench_call_free(BenchCall *c)
{
    for (int i = 0; c->op && i < c->op->count; i++) {
        free_tensor(c->ctx, bench_tensor(c, i));
        free_tensor(c->ctx, bench_grad(c, i));
    }
}

/* ---- work ---- */

static double tensor_bytes(const SnlsTensor *t)
{
    return t->data ? (double)snls_tensor_elements(t) * (double)snls_dtype_size((SnlsDtype)t->dtype) : 0;
}

/* Of a tensor on a GPU *t becomes a copy in plain memory, which is the caller's. */
static SnlsStatus fetch(SnlsContext *ctx, SnlsTensor *t)
{
    const SnlsTensor there = *t;
    if (!there.data || there.device == SNLS_DEVICE_CPU) return SNLS_OK;
    const SnlsStatus status = snls_array_alloc(ctx, t, (SnlsDtype)there.dtype, there.ndim, there.shape);
    return status < 0 ? status : snls_device_copy(ctx, t->data, there.data, (int64_t)tensor_bytes(&there), SNLS_COPY_FROM_DEVICE);
}

/* What depends on flow, on the places given and on the neighbours that were kept is counted by them. */
static double count_here(const BenchCall *c, double (*count)(const BenchCall *))
{
    BenchCall here = *c; /* with index, and flow or the places given, where the count can read them */
    const bool refine = !strcmp(c->which->op, "refine");
    SnlsTensor *index = refine ? &here.tensors.refine.index : &here.tensors.search.index,
               *centre = refine ? &here.tensors.refine.centre : &here.tensors.search.flow;
    const SnlsTensor index_there = *index, centre_there = *centre;
    SnlsStatus status = fetch(c->ctx, index);
    if (status >= 0) status = fetch(c->ctx, centre);
    const double sum = status < 0 ? NAN : count(&here);
    if (index->data != index_there.data) snls_array_free(c->ctx, index);
    if (centre->data != centre_there.data) snls_array_free(c->ctx, centre);
    return sum;
}

/* Of all queries. A window that a frame has room for slides into it, and all of it is there; of another its place decides. */
static double candidates_of(const BenchCall *c)
{
    const BenchCase *w = c->which;
    const bool fits = w->stride1 * w->ws <= fmin(w->height, w->width) - 1;
    const double windows = strcmp(w->op, "refine") ? 2 * w->wt + 1 : w->k;
    return fits ? bench_queries(w) * w->heads * windows * w->ws * w->ws : count_here(c, bench_candidates);
}

double bench_flops(const BenchCall *c, bool backward)
{
    const BenchCase *w = c->which;
    const double queries = bench_queries(w), terms = (double)w->ps * w->ps * w->channels;
    if (!strcmp(w->op, "flow_compose")) return queries * 2 * w->wt * 2 * (backward ? 16 : 8);
    if (!strcmp(w->op, "weights")) return queries * w->heads * w->k * 5;
    if (bench_is_matching(w))
        return backward ? count_here(c, bench_kept_flops)
                        : candidates_of(c) * terms / w->heads * (w->dist == SNLS_DIST_L2 ? 3 : 2);
    /* a tap: product and sum; backward: the gradient by it, and its share of the sums for weight and offset */
    const double taps = w->interp == SNLS_INTERP_NEAREST ? 1 : 4;
    return queries * w->k * terms * taps * (backward ? 4 : 2);
}

double bench_bytes(const BenchCall *c, bool backward)
{
    double sum = 0;
    for (int i = 0; i < c->op->count; i++) {
        const BenchSlot *slot = &c->op->slots[i];
        const double bytes = tensor_bytes(tensor_of(c, slot));
        const bool is_read = bench_is_matching(c->which) ? slot->grad_at < 0 : c->op->backward_reads_outputs;
        if (slot->is_input || !backward || is_read) sum += bytes; /* of its outputs a search reads the index alone */
        if (backward && slot->grad_at >= 0 && grad_of(c, slot)->data)
            sum += (slot->is_input ? 2 : 1) * bytes; /* gradients by inputs are added to */
    }
    return sum;
}

double bench_output_bytes(const BenchCall *c, bool backward)
{
    double sum = 0;
    for (int i = 0; i < c->op->count; i++) {
        const BenchSlot *slot = &c->op->slots[i];
        if (!slot->is_input) sum += tensor_bytes(tensor_of(c, slot));
        if (backward && slot->grad_at >= 0) sum += tensor_bytes(grad_of(c, slot));
    }
    return sum;
}
