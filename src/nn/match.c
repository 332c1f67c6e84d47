/* match.c: search, refine, weights and gather as steps of a network. The work is done by the operators of the context. */
#include "nn/nn.h"

static const SnlsTensor *tensor_of(const NnNet *net, int32_t value) { return &net->values[value].t; }

/* Element type of distances, offsets and weights: the cpu backend has them in f32 only. */
static int32_t list_type(const NnNet *net) { return net->dtype == SNLS_F64 ? SNLS_F64 : SNLS_F32; }

/* (B*T, ...) as (B, T, ...) */
static SnlsTensor split(const SnlsTensor *t, int64_t frames)
{
    SnlsTensor v = *t;
    v.ndim = t->ndim + 1;
    for (int32_t i = t->ndim; i > 1; i--) v.shape[i] = t->shape[i - 1], v.stride[i] = t->stride[i - 1];
    v.shape[0] = t->shape[0] / frames, v.shape[1] = frames;
    v.stride[0] = frames * t->stride[0], v.stride[1] = t->stride[0];
    return v;
}

/* ---- building ---- */

static NnMatches no_matches(void) { return (NnMatches){ -1, -1, 1, 1, 1 }; }

static NnMatches lists(NnNet *net, int32_t like, int64_t frames, int64_t heads, int64_t k, int32_t *index)
{
    const int64_t *d = tensor_of(net, like)->shape;
    const int64_t shape[7] = { d[0] / frames, heads, frames, d[1], d[2], k, 3 };
    const NnMatches m = { snls_nn_value(net, 6, shape, list_type(net)), snls_nn_value(net, 7, shape, list_type(net)), frames, heads, k };
    *index = net->train ? snls_nn_value(net, 6, shape, SNLS_I32) : -1; /* gradients alone want to know the candidates' numbers */
    return m;
}

NnMatches snls_nn_search(NnNet *net, int32_t query, int32_t key, int32_t flow, int64_t frames, const SnlsSearchParams *params)
{
    if (net->status < 0 || query < 0 || key < 0) return no_matches();
    int32_t index;
    const int64_t k = params->topk == SNLS_TOPK_EACH ? (2 * params->wt + 1) * params->k : params->k;
    const NnMatches m = lists(net, query, frames, params->heads, k, &index);
    NnStep *s = snls_nn_step(net, NN_search, (const int32_t[]){ query, key, flow }, NULL, (const int32_t[]){ m.dist, m.offset, index });
    if (s) s->u.search = (NnSearch){ *params, frames };
    return m;
}

NnMatches snls_nn_refine(NnNet *net, int32_t query, int32_t key, const NnMatches *around, const SnlsRefineParams *params)
{
    if (net->status < 0 || query < 0 || key < 0) return no_matches();
    int32_t index;
    const NnMatches m = lists(net, query, around->frames, params->heads, params->k, &index);
    NnStep *s = snls_nn_step(net, NN_refine, (const int32_t[]){ query, key, around->offset }, NULL, (const int32_t[]){ m.dist, m.offset, index });
    if (s) s->u.refine = (NnRefine){ *params, around->frames };
    return m;
}

NnMatches snls_nn_first(NnNet *net, const NnMatches *m, int64_t k)
{
    if (net->status < 0) return no_matches();
    if (k == m->k) return *m;
    int64_t shape[7];
    for (int i = 0; i < 7; i++) shape[i] = tensor_of(net, m->offset)->shape[i];
    shape[5] = k;
    const NnMatches out = { snls_nn_value(net, 6, shape, list_type(net)), snls_nn_value(net, 7, shape, list_type(net)), m->frames, m->heads, k };
    snls_nn_step(net, NN_first, (const int32_t[]){ m->dist, m->offset, -1 }, NULL, (const int32_t[]){ out.dist, out.offset, -1 });
    return out;
}

int32_t snls_nn_weights(NnNet *net, const NnMatches *m, double scale)
{
    if (net->status < 0) return -1;
    const SnlsTensor t = *tensor_of(net, m->dist);
    const int32_t y = snls_nn_value(net, t.ndim, t.shape, t.dtype);
    NnStep *s = snls_nn_step(net, NN_weights, (const int32_t[]){ m->dist, -1, -1 }, NULL, (const int32_t[]){ y, -1, -1 });
    if (!s) return -1;
    snls_weights_defaults(&s->u.weights);
    s->u.weights.scale = scale;
    return y;
}

int32_t snls_nn_gather(NnNet *net, int32_t value, int32_t weight, const NnMatches *m, bool by_rank) { return snls_nn_gather_part(net, value, weight, m, by_rank, 0, 1); }

int32_t snls_nn_gather_part(NnNet *net, int32_t value, int32_t weight, const NnMatches *m, bool by_rank, int32_t part, int32_t parts)
{
    if (net->status < 0 || value < 0) return -1;
    const SnlsTensor t = *tensor_of(net, value);
    const int32_t y = snls_nn_value(net, 4, (const int64_t[]){ t.shape[0], t.shape[1], t.shape[2], t.shape[3] * m->k / parts }, net->dtype);
    NnStep *s = snls_nn_step(net, NN_gather, (const int32_t[]){ value, weight, m->offset }, NULL, (const int32_t[]){ y, -1, -1 });
    if (!s) return -1;
    s->u.gather = (NnGather){ .frames = m->frames, .first = part * m->heads / parts, .by_rank = by_rank };
    snls_gather_defaults(&s->u.gather.params);
    s->u.gather.params.heads = (int32_t)m->heads / parts;
    return y;
}

/* ---- running ---- */

static SnlsSearch search_of(const NnStep *s)
{
    SnlsSearch q = { .params = s->u.search.params, .query = split(&s->x[0], s->u.search.frames), .key = split(&s->x[1], s->u.search.frames),
                     .flow = s->x[2], .dist = s->y[0], .offset = s->y[1], .index = s->y[2] };
    return q;
}

static SnlsRefine refine_of(const NnStep *s)
{
    return (SnlsRefine){ .params = s->u.refine.params, .query = split(&s->x[0], s->u.refine.frames), .key = split(&s->x[1], s->u.refine.frames),
                         .centre = s->x[2], .dist = s->y[0], .offset = s->y[1], .index = s->y[2] };
}

/* The heads of a gather: of a list (B,heads,...), or of channels, which are the last axis. */
static SnlsTensor heads_of(const NnStep *s, SnlsTensor t, int axis)
{
    const int64_t of = s->x[2].shape[1], each = t.shape[axis] / of;
    if (t.data) t.data = (char *)t.data + s->u.gather.first * each * t.stride[axis] * snls_dtype_size((SnlsDtype)t.dtype);
    t.shape[axis] = s->u.gather.params.heads * each;
    return t;
}

/* Channels (heads,K,F) or (heads,F,K) of an image, as the operator's (B,heads,K,T,H,W,F). */
static SnlsTensor stack_of(const NnStep *s, const SnlsTensor *image)
{
    const int64_t k = s->x[2].shape[5], heads = s->u.gather.params.heads, f = image->shape[3] / (heads * k), frames = s->u.gather.frames;
    const int64_t pixels = image->shape[1] * image->shape[2], channels = image->shape[3];
    SnlsTensor t = *image;
    const int64_t shape[7] = { image->shape[0] / frames, heads, k, frames, image->shape[1], image->shape[2], f };
    const int64_t stride[7] = { frames * pixels * channels, k * f, s->u.gather.by_rank ? 1 : f, pixels * channels, image->shape[2] * channels, channels, s->u.gather.by_rank ? k : 1 };
    t.ndim = 7;
    for (int i = 0; i < 7; i++) t.shape[i] = shape[i], t.stride[i] = stride[i];
    return t;
}

static SnlsGather gather_of(const NnStep *s)
{
    SnlsGather g = { .params = s->u.gather.params, .value = heads_of(s, split(&s->x[0], s->u.gather.frames), 4), .weight = heads_of(s, s->x[1], 1), .offset = heads_of(s, s->x[2], 1),
                     .out = stack_of(s, &s->y[0]) };
    if (!g.weight.data) { /* a weight of 1 everywhere: one number, seen through strides of 0 */
        g.weight = g.offset;
        g.weight.ndim = 6;
        g.weight.dtype = SNLS_F32;
        g.weight.data = (void *)(uintptr_t)s->one;
        for (int i = 0; i < 6; i++) g.weight.stride[i] = 0;
    }
    return g;
}

static void first_forward(NnStep *s)
{
    const int64_t in = s->x[0].shape[5], out = s->y[0].shape[5], lists_ = snls_tensor_elements(&s->y[0]) / out;
    for (int64_t i = 0; i < lists_; i++) {
        for (int64_t k = 0; k < out; k++) snls_store(&s->y[0], i * out + k, snls_load(&s->x[0], i * in + k));
        for (int64_t k = 0; k < 3 * out; k++) snls_store(&s->y[1], i * 3 * out + k, snls_load(&s->x[1], i * 3 * in + k));
    }
}

static void first_backward(NnStep *s)
{
    const int64_t in = s->x[0].shape[5], out = s->y[0].shape[5], lists_ = snls_tensor_elements(&s->y[0]) / out;
    for (int64_t i = 0; s->dx[0].data && s->dy[0].data && i < lists_ * out; i++)
        snls_nn_accumulate(&s->dx[0], i / out * in + i % out, snls_load(&s->dy[0], i));
}

SnlsStatus snls_nn_match_forward(SnlsContext *ctx, NnStep *s)
{
    const SnlsSearch search = s->op == NN_search ? search_of(s) : (SnlsSearch){ 0 };
    const SnlsRefine refine = s->op == NN_refine ? refine_of(s) : (SnlsRefine){ 0 };
    const SnlsGather gather = s->op == NN_gather ? gather_of(s) : (SnlsGather){ 0 };
    switch (s->op) {
    case NN_search: return snls_search_forward(ctx, &search);
    case NN_refine: return snls_refine_forward(ctx, &refine);
    case NN_first: return first_forward(s), SNLS_OK;
    case NN_weights: return snls_weights_forward(ctx, &(SnlsWeights){ .params = s->u.weights, .dist = s->x[0], .weight = s->y[0] });
    default: return snls_gather_forward(ctx, &gather);
    }
}

static SnlsTensor split_if_given(const SnlsTensor *t, int64_t frames) { return t->data ? split(t, frames) : (SnlsTensor){ 0 }; }

static SnlsStatus search_backward(SnlsContext *ctx, NnStep *s)
{
    const SnlsSearch search = search_of(s);
    const int64_t frames = s->u.search.frames;
    const SnlsSearchGrad g = { .dist = s->dy[0], .query = split_if_given(&s->dx[0], frames), .key = split_if_given(&s->dx[1], frames) };
    return snls_search_backward(ctx, &search, &g);
}

static SnlsStatus refine_backward(SnlsContext *ctx, NnStep *s)
{
    const SnlsRefine refine = refine_of(s);
    const int64_t frames = s->u.refine.frames;
    const SnlsRefineGrad g = { .dist = s->dy[0], .query = split_if_given(&s->dx[0], frames), .key = split_if_given(&s->dx[1], frames) };
    return snls_refine_backward(ctx, &refine, &g);
}

static SnlsStatus gather_backward(SnlsContext *ctx, NnStep *s)
{
    const SnlsGather gather = gather_of(s);
    const SnlsGatherGrad g = { .out = stack_of(s, &s->dy[0]), .value = heads_of(s, split_if_given(&s->dx[0], s->u.gather.frames), 4), .weight = heads_of(s, s->dx[1], 1) };
    return snls_gather_backward(ctx, &gather, &g);
}

SnlsStatus snls_nn_match_backward(SnlsContext *ctx, NnStep *s)
{
    switch (s->op) {
    case NN_search: return search_backward(ctx, s);
    case NN_refine: return refine_backward(ctx, s);
    case NN_first: return first_backward(s), SNLS_OK;
    case NN_weights:
        return snls_weights_backward(ctx, &(SnlsWeights){ .params = s->u.weights, .dist = s->x[0], .weight = s->y[0] },
                                     &(SnlsWeightsGrad){ .weight = s->dy[0], .dist = s->dx[0] });
    default: return gather_backward(ctx, s);
    }
}
