/* conv.c: convolutions, plain and transposed: cuDNN's, or one product where a kernel is a single pixel. What is added and bent afterwards
 * is one pass of our own (epilogue). */
#include "nn_cuda/layers.h"
#include "nn_cuda/shared.h"
#include <string.h>

typedef struct Conv {
    ConvShape shape;          /* a transposed convolution's x is the step's y */
    Packing   packing;
    void     *weights;        /* packed; of version */
    int32_t   version, single; /* single: one product does it */
    int64_t   plan[CONV_JOBS]; /* numbers, -1: not made yet */
} Conv;

static int64_t element(int64_t dtype) { return dtype == SNLS_BF16 ? 2 : 4; }
static int64_t pixels_of(const SnlsTensor *t) { return t->shape[0] * t->shape[1] * t->shape[2]; }
static int64_t bytes_of(const int64_t *shape, int64_t dtype) { return shape[0] * shape[1] * shape[2] * shape[3] * element(dtype); }

/* Matrix units take channels by eight: a layer with fewer sees some that are 0. */
static int64_t padded(const NnStep *s, int64_t channels) { return s->x[0].dtype == SNLS_BF16 && s->u.conv.groups == 1 && !s->u.conv.transposed ? (channels + 7) / 8 * 8 : channels; }

static void describe(const NnStep *s, Conv *c)
{
    const NnConv *v = &s->u.conv;
    const SnlsTensor *x = v->transposed ? &s->y[0] : &s->x[0], *y = v->transposed ? &s->x[0] : &s->y[0];
    memset(c, 0, sizeof *c); /* shapes are compared as bytes */
    memcpy(c->shape.x, x->shape, sizeof c->shape.x);
    memcpy(c->shape.y, y->shape, sizeof c->shape.y);
    c->single = v->kernel == 1 && v->stride == 1 && !v->pad && v->groups == 1 && !v->transposed;
    if (!c->single) c->shape.x[3] = padded(s, x->shape[3]), c->shape.y[3] = padded(s, y->shape[3]);
    c->packing = (Packing){ s->p[0].shape[0], s->p[0].shape[1], v->kernel, c->shape.y[3], c->shape.x[3] / v->groups, s->x[0].dtype };
    const int64_t w[4] = { c->packing.rows, v->kernel, v->kernel, c->packing.columns };
    memcpy(c->shape.w, w, sizeof w);
    c->shape.stride = v->stride, c->shape.pad = v->pad, c->shape.dtype = s->x[0].dtype;
    for (int i = 0; i < CONV_JOBS; i++) c->plan[i] = -1;
}

/* The step's own state, with weights as they are now. */
static SnlsStatus open(SnlsContext *ctx, NnStep *s, Conv **out)
{
    Conv *c = s->state;
    if (!c) {
        SNLS_REQUIRE(ctx, s->x[0].dtype == SNLS_F32 || s->x[0].dtype == SNLS_BF16, SNLS_ERR_UNSUPPORTED, "network: convolutions on a GPU are in f32 or bf16");
        c = snls_mem_alloc(&ctx->allocator, sizeof *c);
        SNLS_REQUIRE(ctx, c, SNLS_ERR_MEMORY, "network: no memory for a convolution");
        describe(s, c);
        s->state = c;
        c->version = *s->version - 1;
        CUDA(ctx, cudaMalloc(&c->weights, (size_t)bytes_of(c->shape.w, c->shape.dtype)), "memory for weights");
    }
    if (c->version != *s->version) SNLS_TRY(snls_nn_cuda_pack(ctx, &c->packing, s->p[0].data, c->weights));
    c->version = *s->version;
    *out = c;
    return SNLS_OK;
}

void snls_nn_cuda_conv_release(SnlsContext *ctx, NnStep *s)
{
    Conv *c = s->op == NN_conv ? s->state : NULL;
    if (!c) return;
    (void)cudaFree(c->weights);
    snls_mem_free(&ctx->allocator, c);
    s->state = NULL;
}

static SnlsStatus run(SnlsContext *ctx, const NnStep *s, Conv *c, ConvJob job, void *x, void *w, void *y)
{
    const ConvData data = { x, w, y };
    if (c->plan[job] < 0) SNLS_TRY(snls_nn_cuda_plan(ctx, s->shared, &c->shape, job, &data, &c->plan[job]));
    return snls_nn_cuda_conv_run(ctx, s->shared, c->plan[job], &data);
}

/* A tensor with as many channels as the convolution sees: itself, or a copy in a slot. */
static SnlsStatus widen(SnlsContext *ctx, const NnStep *s, const SnlsTensor *t, int64_t channels, Slot slot, void **out)
{
    *out = t->data;
    if (t->shape[3] == channels) return SNLS_OK;
    SNLS_TRY(snls_nn_cuda_slot(ctx, s->shared, slot, pixels_of(t) * channels * element(t->dtype), out));
    return snls_nn_cuda_channels(ctx, &(Channels){ pixels_of(t), t->shape[3], channels, t->dtype, 0 }, t->data, *out);
}

/* ---- forward ---- */

static SnlsStatus forward_single(SnlsContext *ctx, const NnStep *s, const Conv *c)
{
    const Product p = { .a = s->x[0].data, .b = c->weights, .c = s->y[0].data, .m = pixels_of(&s->y[0]), .n = s->y[0].shape[3], .k = s->x[0].shape[3], .b_by_columns = 1,
                        .dtype = s->x[0].dtype, .c_dtype = s->x[0].dtype };
    return snls_nn_cuda_product(ctx, s->shared, &p);
}

static SnlsStatus forward_conv(SnlsContext *ctx, const NnStep *s, Conv *c)
{
    void *x = NULL, *y = s->y[0].data;
    if (s->u.conv.transposed) return run(ctx, s, c, CONV_BY_DATA, y, c->weights, s->x[0].data);
    SNLS_TRY(widen(ctx, s, &s->x[0], c->shape.x[3], SLOT_X, &x));
    if (c->shape.y[3] != s->y[0].shape[3]) SNLS_TRY(snls_nn_cuda_slot(ctx, s->shared, SLOT_Y, bytes_of(c->shape.y, c->shape.dtype), &y));
    SNLS_TRY(run(ctx, s, c, CONV_FORWARD, x, c->weights, y));
    if (y == s->y[0].data) return SNLS_OK;
    return snls_nn_cuda_channels(ctx, &(Channels){ pixels_of(&s->y[0]), c->shape.y[3], s->y[0].shape[3], s->y[0].dtype, 0 }, y, s->y[0].data);
}

SnlsStatus snls_nn_cuda_conv_forward(SnlsContext *ctx, NnStep *s)
{
    Conv *c = NULL;
    SNLS_TRY(open(ctx, s, &c));
    SNLS_TRY(c->single ? forward_single(ctx, s, c) : forward_conv(ctx, s, c));
    return snls_nn_cuda_epilogue(ctx, &s->y[0], &s->p[1], &s->x[1], s->u.conv.act, (float)s->u.conv.slope);
}

/* ---- backward: dz is the gradient by what the convolution itself gave ---- */

static SnlsStatus backward_single(SnlsContext *ctx, const NnStep *s, const Conv *c, const void *dz)
{
    const int64_t pixels = pixels_of(&s->y[0]), in = s->x[0].shape[3], out = s->y[0].shape[3];
    const Product by_x = { .a = dz, .b = c->weights, .c = s->dx[0].data, .m = pixels, .n = in, .k = out, .dtype = s->x[0].dtype, .c_dtype = s->x[0].dtype, .add = !s->fresh[0] };
    const Product by_w = { .a = dz, .b = s->x[0].data, .c = s->dp[0].data, .m = out, .n = in, .k = pixels, .a_by_columns = 1, .dtype = s->x[0].dtype, .c_dtype = SNLS_F32, .add = 1 };
    if (s->dx[0].data) SNLS_TRY(snls_nn_cuda_product(ctx, s->shared, &by_x));
    return s->dp[0].data ? snls_nn_cuda_product(ctx, s->shared, &by_w) : SNLS_OK;
}

static SnlsStatus by_data(SnlsContext *ctx, const NnStep *s, Conv *c, void *dz)
{
    const bool turned = s->u.conv.transposed;
    const int64_t *shape = turned ? c->shape.y : c->shape.x;
    void *dx = s->dx[0].data;
    const bool direct = s->fresh[0] && shape[3] == s->x[0].shape[3];
    if (!direct) SNLS_TRY(snls_nn_cuda_slot(ctx, s->shared, SLOT_DX, bytes_of(shape, c->shape.dtype), &dx));
    SNLS_TRY(turned ? run(ctx, s, c, CONV_FORWARD, dz, c->weights, dx) : run(ctx, s, c, CONV_BY_DATA, dx, c->weights, dz));
    if (direct) return SNLS_OK;
    return snls_nn_cuda_channels(ctx, &(Channels){ pixels_of(&s->x[0]), shape[3], s->x[0].shape[3], s->x[0].dtype, !s->fresh[0] }, dx, s->dx[0].data);
}

static SnlsStatus by_weights(SnlsContext *ctx, const NnStep *s, Conv *c, void *dz)
{
    void *dw = NULL, *x = NULL;
    SNLS_TRY(snls_nn_cuda_slot(ctx, s->shared, SLOT_DW, bytes_of(c->shape.w, c->shape.dtype), &dw));
    SNLS_TRY(widen(ctx, s, &s->x[0], s->u.conv.transposed ? s->x[0].shape[3] : c->shape.x[3], SLOT_X, &x));
    SNLS_TRY(s->u.conv.transposed ? run(ctx, s, c, CONV_BY_WEIGHTS, dz, dw, x) : run(ctx, s, c, CONV_BY_WEIGHTS, x, dw, dz));
    return snls_nn_cuda_unpack_add(ctx, &c->packing, dw, s->dp[0].data);
}

SnlsStatus snls_nn_cuda_conv_backward(SnlsContext *ctx, NnStep *s)
{
    Conv *c = NULL;
    SnlsTensor dz = s->dy[0], none = { 0 };
    SNLS_TRY(open(ctx, s, &c));
    const bool bent = s->u.conv.act != NN_LINEAR;
    if (bent) SNLS_TRY(snls_nn_cuda_slot(ctx, s->shared, SLOT_DZ, pixels_of(&dz) * dz.shape[3] * element(dz.dtype), &dz.data));
    NnEpilogueGrad g = { .y = s->y[0], .dy = s->dy[0], .dz = bent ? dz : none, .dresidual = s->dx[1], .dbias = s->dp[1], .act = s->u.conv.act, .slope = (float)s->u.conv.slope, .fresh = s->fresh[1] };
    void *parts = NULL;
    SNLS_TRY(snls_nn_cuda_slot(ctx, s->shared, SLOT_PARTS, snls_nn_cuda_epilogue_parts(ctx, &dz) * (int64_t)sizeof(float), &parts));
    g.parts = parts;
    SNLS_TRY(snls_nn_cuda_epilogue_backward(ctx, &g));
    if (c->single) return backward_single(ctx, s, c, dz.data);
    void *wide = NULL;
    SNLS_TRY(widen(ctx, s, &dz, s->u.conv.transposed ? dz.shape[3] : c->shape.y[3], SLOT_Y, &wide));
    if (s->dx[0].data) SNLS_TRY(by_data(ctx, s, c, wide));
    return s->dp[0].data ? by_weights(ctx, s, c, wide) : SNLS_OK;
}
