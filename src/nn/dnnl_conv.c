/* dnnl_conv.c: convolution, plain and transposed, through oneDNN. Activations stay (N,H,W,C); weights are packed into whatever
 * order the primitive likes, anew whenever the parameters have changed. */
#include "nn/dnnl.h"
#ifdef SNLS_HAVE_DNNL
#include "nn/dnnl_api.h"
#include <string.h>

typedef struct Shared { dnnl_engine_t engine; dnnl_stream_t stream; } Shared;

typedef enum Job { FORWARD = 0, BY_DATA = 1, BY_WEIGHTS = 2, JOBS = 3 } Job;

typedef struct Packed { /* weights in the order of a primitive, and the way there (or back: gradients) */
    dnnl_memory_t    memory, plain;
    dnnl_primitive_t reorder;
    char            *block;
    int32_t          version;
} Packed;

typedef struct Conv {
    dnnl_primitive_t  primitive[JOBS];
    dnnl_primitive_desc_t forward_desc; /* a hint for the other two, kept where there are gradients */
    Packed            packed[JOBS];
    DnnlDesc          in, out, bias, weight; /* weight: as the parameter lies */
    DnnlDesc          room[JOBS]; /* scratch. oneDNN's own is bound to the thread that made a primitive, and who runs a network may come from any thread */
    dnnl_dims_t       stride, pad;
    int64_t           packed_bytes[JOBS];
} Conv;

/* oneDNN's own memory for a convolution of more than one tap grows with the columns of its result: it has descriptions and code for every width that a
 * block of a row may have, and neither tells how much that is nor lets anybody else hold it. Wider results are made in pieces of columns, copied in and out. Each piece is
 * padded as a row is: columns at its ends that are not the row's serve as neighbours alone. Without padding oneDNN would add in another order. */
enum { WIDEST = 4096, OWN_PADDED = 1024, OWN_PLAIN = 3584 }; /* OWN: bytes a column, measured with version 2.6 (864 and 3552 at most) */

typedef struct Pieces { int64_t count, out, in, halo; } Pieces; /* of a row: how many; columns of each, of what it reads, at either end that do not count */

static Pieces pieces_of(const NnStep *s)
{
    const NnConv *v = &s->u.conv;
    const int64_t width = s->y[0].shape[2], halo = (v->pad + v->stride - 1) / v->stride, count = (width + WIDEST - 1) / WIDEST;
    if (count < 2 || v->kernel < 2 || v->transposed || s->dy[0].data) return (Pieces){ 1, width, s->x[0].shape[2], 0 };
    const int64_t out = (width - 2 * halo + count - 1) / count + 2 * halo;
    return (Pieces){ count, out, s->x[0].shape[2] - (width - out) * v->stride, halo };
}

static SnlsTensor columns_of(const SnlsTensor *t, int64_t columns)
{
    return snls_tensor(NULL, (SnlsDtype)t->dtype, 4, (const int64_t[]){ t->shape[0], t->shape[1], columns, t->shape[3] });
}

static SnlsStatus check(SnlsContext *ctx, dnnl_status_t status, const char *what)
{
    SNLS_REQUIRE(ctx, status != dnnl_out_of_memory, SNLS_ERR_MEMORY, "network: oneDNN has no memory for %s", what);
    SNLS_REQUIRE(ctx, status == dnnl_success, SNLS_ERR_UNSUPPORTED, "network: oneDNN says %d to %s", (int)status, what);
    return SNLS_OK;
}
#define DNNL(ctx, call, what) SNLS_TRY(check(ctx, call, what))

SnlsStatus snls_nn_dnnl_open(SnlsContext *ctx, void **out)
{
    Shared *s = snls_mem_alloc(&ctx->allocator, sizeof *s);
    SNLS_REQUIRE(ctx, s, SNLS_ERR_MEMORY, "network: no memory for its engine");
    *s = (Shared){ 0 };
    *out = s;
    DNNL(ctx, dnnl_engine_create(&s->engine, dnnl_cpu, 0), "an engine");
    DNNL(ctx, dnnl_stream_create(&s->stream, s->engine, dnnl_stream_default_flags), "a stream");
    return SNLS_OK;
}

void snls_nn_dnnl_close(SnlsContext *ctx, void *shared)
{
    Shared *s = shared;
    if (s->stream) dnnl_stream_destroy(s->stream);
    if (s->engine) dnnl_engine_destroy(s->engine);
    snls_mem_free(&ctx->allocator, s);
}

static void release_job(SnlsContext *ctx, Conv *c, Job job)
{
    const Packed *p = &c->packed[job];
    if (c->primitive[job]) dnnl_primitive_destroy(c->primitive[job]);
    if (p->reorder) dnnl_primitive_destroy(p->reorder);
    if (p->memory) dnnl_memory_destroy(p->memory);
    if (p->plain) dnnl_memory_destroy(p->plain);
    snls_mem_free(&ctx->allocator, p->block);
    snls_dnnl_desc_free(&c->room[job]);
    c->primitive[job] = NULL;
    c->packed[job] = (Packed){ 0 };
}

static void forget(Conv *c)
{
    DnnlDesc *const described[] = { &c->in, &c->out, &c->bias, &c->weight };
    for (int i = 0; i < 4; i++) snls_dnnl_desc_free(described[i]);
}

void snls_nn_dnnl_release(SnlsContext *ctx, NnStep *step)
{
    Conv *c = step->state;
    if (!c) return;
    for (int i = 0; i < JOBS; i++) release_job(ctx, c, (Job)i);
    if (c->forward_desc) dnnl_primitive_desc_destroy(c->forward_desc);
    forget(c);
    snls_mem_free(&ctx->allocator, c);
    step->state = NULL;
}

/* ---- descriptions ---- */

static dnnl_data_type_t type_of(int32_t dtype) { return dtype == SNLS_BF16 ? dnnl_bf16 : dnnl_f32; }

/* (N,H,W,C) in memory; oneDNN names the axes N, C, H, W */
static dnnl_status_t image_desc(DnnlDesc *desc, const SnlsTensor *t)
{
    const dnnl_dims_t dims = { t->shape[0], t->shape[3], t->shape[1], t->shape[2] };
    return snls_dnnl_desc_tag(desc, 4, dims, type_of(t->dtype), dnnl_nhwc);
}

/* The parameter as (groups, out, in, k, k), where it lies as (out, in, ...) or, transposed, as (in, out, ...) of each group; or, by `any`, in the order that the primitive likes best. */
static dnnl_status_t weight_desc(DnnlDesc *desc, const NnStep *s, bool any)
{
    const NnConv *c = &s->u.conv;
    const int64_t out = s->y[0].shape[3] / c->groups, in = s->x[0].shape[3] / c->groups, area = c->kernel * c->kernel;
    const dnnl_dims_t dims = { c->groups, out, in, c->kernel, c->kernel };
    const dnnl_dims_t strides = { out * in * area, c->transposed ? area : in * area, c->transposed ? out * area : area, c->kernel, 1 };
    const int skip = c->groups == 1;
    return any ? snls_dnnl_desc_tag(desc, 5 - skip, dims + skip, type_of(s->x[0].dtype), dnnl_format_tag_any)
               : snls_dnnl_desc_strides(desc, 5 - skip, dims + skip, dnnl_f32, strides + skip);
}

static SnlsStatus describe(SnlsContext *ctx, const NnStep *s, Conv *c)
{
    const NnConv *v = &s->u.conv;
    const Pieces p = pieces_of(s);
    const SnlsTensor in = columns_of(&s->x[0], p.in), out = columns_of(&s->y[0], p.out);
    DNNL(ctx, image_desc(&c->in, &in), "a convolution's input");
    DNNL(ctx, image_desc(&c->out, &out), "a convolution's output");
    DNNL(ctx, weight_desc(&c->weight, s, false), "a convolution's weights");
    DNNL(ctx, snls_dnnl_desc_tag(&c->bias, 1, (const dnnl_dims_t){ s->y[0].shape[3] }, dnnl_f32, dnnl_x), "a convolution's bias");
    for (int i = 0; i < 2; i++) c->stride[i] = v->stride, c->pad[i] = v->pad;
    return SNLS_OK;
}

/* oneDNN's GELU is slower than ours, which is done on what comes out, as a network in training has it. */
static bool own_gelu(const NnStep *s) { return s->u.conv.act == NN_GELU && s->y[0].dtype == SNLS_BF16 && s->xi[1] < 0; }

/* Activation, then the residual, which lies in the output before the convolution runs. */
static dnnl_status_t attributes(const NnStep *s, Job job, dnnl_primitive_attr_t *attr)
{
    dnnl_post_ops_t ops = NULL;
    dnnl_status_t status = dnnl_primitive_attr_create(attr);
    if (status == dnnl_success) status = dnnl_primitive_attr_set_scratchpad_mode(*attr, dnnl_scratchpad_mode_user);
    if (status != dnnl_success || job != FORWARD) return status;
    status = dnnl_post_ops_create(&ops);
    if (status == dnnl_success && s->u.conv.act == NN_GELU && !own_gelu(s)) status = snls_dnnl_post_eltwise(ops, dnnl_eltwise_gelu_erf, 0);
    if (status == dnnl_success && s->u.conv.act != NN_GELU && s->u.conv.act != NN_LINEAR)
        status = snls_dnnl_post_eltwise(ops, dnnl_eltwise_relu, s->u.conv.act == NN_LEAKY ? (float)s->u.conv.slope : 0);
    if (status == dnnl_success && s->xi[1] >= 0) status = snls_dnnl_post_sum(ops);
    if (status == dnnl_success) status = dnnl_primitive_attr_set_post_ops(*attr, ops);
    dnnl_post_ops_destroy(ops);
    return status;
}

/* ---- making ---- */

static char *on_line(char *block) { return block + (SNLS_ALIGN - (uintptr_t)block % SNLS_ALIGN) % SNLS_ALIGN; }

static SnlsStatus make_packed(SnlsContext *ctx, const NnStep *s, Conv *c, Job job, DnnlView order)
{
    const Shared *shared = s->shared;
    const DnnlView weight = snls_dnnl_view(&c->weight);
    Packed *p = &c->packed[job];
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_t desc = NULL;
    c->packed_bytes[job] = (int64_t)dnnl_memory_desc_get_size(order);
    p->block = snls_mem_alloc(&ctx->allocator, c->packed_bytes[job] + SNLS_ALIGN);
    SNLS_REQUIRE(ctx, p->block, SNLS_ERR_MEMORY, "network: no memory for packed weights");
    p->version = *s->version - 1;
    DNNL(ctx, dnnl_memory_create(&p->memory, order, shared->engine, on_line(p->block)), "packed weights"); /* matrix tiles that cross lines take twice as long */
    DNNL(ctx, dnnl_memory_create(&p->plain, weight, shared->engine, job == BY_WEIGHTS ? s->dp[0].data : s->p[0].data), "weights");
    dnnl_status_t status = dnnl_primitive_attr_create(&attr);
    if (job == BY_WEIGHTS && status == dnnl_success) { /* gradients add: from packed to plain, with a sum */
        dnnl_post_ops_t ops = NULL;
        status = dnnl_post_ops_create(&ops);
        if (status == dnnl_success) status = snls_dnnl_post_sum(ops);
        if (status == dnnl_success) status = dnnl_primitive_attr_set_post_ops(attr, ops);
        dnnl_post_ops_destroy(ops);
        if (status == dnnl_success) status = dnnl_reorder_primitive_desc_create(&desc, order, shared->engine, weight, shared->engine, attr);
    } else if (status == dnnl_success) status = dnnl_reorder_primitive_desc_create(&desc, weight, shared->engine, order, shared->engine, attr);
    if (status == dnnl_success) status = dnnl_primitive_create(&p->reorder, desc);
    if (desc) dnnl_primitive_desc_destroy(desc);
    if (attr) dnnl_primitive_attr_destroy(attr);
    return check(ctx, status, "packing of weights");
}

static dnnl_status_t plan_job(const NnStep *s, const Conv *c, Job job, dnnl_engine_t engine, dnnl_primitive_desc_t *made)
{
    const bool has_bias = s->pi[1] >= 0 && job != BY_DATA;
    DnnlDesc weight = { 0 };
    dnnl_primitive_attr_t attr = NULL;
    dnnl_status_t status = weight_desc(&weight, s, true);
    if (status == dnnl_success) status = attributes(s, job, &attr);
    const DnnlConvPlan plan = { .engine = engine, .attr = attr, .forward = c->forward_desc, .in = snls_dnnl_view(&c->in), .weight = snls_dnnl_view(&weight), .bias = has_bias ? snls_dnnl_view(&c->bias) : NULL,
                                .out = snls_dnnl_view(&c->out), .stride = c->stride, .pad = c->pad, .transposed = s->u.conv.transposed, .training = s->dy[0].data };
    if (status == dnnl_success) status = job == FORWARD ? snls_dnnl_plan_forward(made, &plan) : job == BY_DATA ? snls_dnnl_plan_by_data(made, &plan) : snls_dnnl_plan_by_weights(made, &plan);
    if (attr) dnnl_primitive_attr_destroy(attr);
    snls_dnnl_desc_free(&weight);
    return status;
}

/* A job that has its primitive has all else too: of one that fails half way nothing stays, and the next call begins anew. */
static SnlsStatus make_job(SnlsContext *ctx, const NnStep *s, Conv *c, Job job)
{
    const Shared *shared = s->shared;
    dnnl_primitive_desc_t made = NULL;
    if (c->primitive[job]) return SNLS_OK;
    dnnl_status_t status = plan_job(s, c, job, shared->engine, &made);
    if (status == dnnl_success) status = dnnl_primitive_create(&c->primitive[job], made);
    if (status == dnnl_success) status = snls_dnnl_desc_copy(&c->room[job], dnnl_primitive_desc_query_md(made, dnnl_query_scratchpad_md, 0));
    SnlsStatus result = check(ctx, status, "a convolution");
    if (result >= 0) result = make_packed(ctx, s, c, job, dnnl_primitive_desc_query_md(made, job == BY_WEIGHTS ? dnnl_query_diff_weights_md : dnnl_query_weights_md, 0));
    if (result < 0) release_job(ctx, c, job);
    if (result >= 0 && job == FORWARD && s->dy[0].data) c->forward_desc = made;
    else if (made) dnnl_primitive_desc_destroy(made);
    return result;
}

static SnlsStatus conv_of(SnlsContext *ctx, NnStep *s, Conv **out)
{
    SnlsStatus status = SNLS_OK;
    if (!s->state) {
        s->state = snls_mem_alloc(&ctx->allocator, sizeof(Conv));
        SNLS_REQUIRE(ctx, s->state, SNLS_ERR_MEMORY, "network: no memory for a convolution");
        memset(s->state, 0, sizeof(Conv));
        status = describe(ctx, s, s->state);
        if (status >= 0) status = make_job(ctx, s, s->state, FORWARD);
        if (status < 0) snls_nn_dnnl_release(ctx, s);
    }
    *out = s->state;
    return status;
}

/* ---- questions ---- */

/* What it would do for a step that has shapes alone; NULL: nothing. */
static dnnl_primitive_desc_t plan_forward(SnlsContext *ctx, const NnStep *s)
{
    Conv c = { .forward_desc = NULL };
    dnnl_engine_t engine = NULL;
    dnnl_primitive_desc_t made = NULL;
    if (describe(ctx, s, &c) >= 0 && dnnl_engine_create(&engine, dnnl_cpu, 0) == dnnl_success && plan_job(s, &c, FORWARD, engine, &made) != dnnl_success) made = NULL;
    if (engine) dnnl_engine_destroy(engine);
    forget(&c);
    return made;
}

/* Bytes of a piece of a tensor; 0: the whole is worked on where it lies. */
static int64_t piece_bytes(const SnlsTensor *t, const Pieces *p, int64_t columns)
{
    return p->count > 1 ? t->shape[0] * t->shape[1] * columns * t->shape[3] * snls_dtype_size((SnlsDtype)t->dtype) : 0;
}

int64_t snls_nn_dnnl_conv_room(SnlsContext *ctx, const NnStep *s)
{
    const Pieces p = pieces_of(s);
    const dnnl_primitive_desc_t made = plan_forward(ctx, s);
    if (!made) return 0;
    const int64_t bytes = (int64_t)dnnl_memory_desc_get_size(dnnl_primitive_desc_query_md(made, dnnl_query_scratchpad_md, 0));
    dnnl_primitive_desc_destroy(made);
    return bytes + piece_bytes(&s->x[0], &p, p.in) + piece_bytes(&s->y[0], &p, p.out);
}

int64_t snls_nn_dnnl_conv_own(const NnStep *s)
{
    const NnConv *v = &s->u.conv;
    return v->kernel < 2 || v->transposed ? 0 : pieces_of(s).out * (v->pad ? OWN_PADDED : OWN_PLAIN);
}

NnDnnlConv snls_nn_dnnl_conv(int32_t dtype)
{
    const int64_t shape[4] = { 1, 16, 16, 32 };
    const SnlsTensor image = snls_tensor(NULL, (SnlsDtype)dtype, 4, shape);
    const NnStep s = { .op = NN_conv, .u.conv = { 3, 1, 1, 1, 0, NN_RELU, 0 }, .x = { image }, .y = { image }, .xi = { 0, -1, -1 }, .pi = { 0, 1 } };
    const char *name = "ref";
    const dnnl_primitive_desc_t made = plan_forward(NULL, &s);
    if (!made) return NN_DNNL_NONE;
    const bool known = dnnl_primitive_desc_query(made, dnnl_query_impl_info_str, 0, &name) == dnnl_success;
    const NnDnnlConv kind = known && !strstr(name, "ref") ? NN_DNNL_FAST : NN_DNNL_PLAIN; /* "ref:any", "gemm:ref" */
    dnnl_primitive_desc_destroy(made);
    return kind;
}

/* ---- running ---- */

typedef struct Argument { int name; const DnnlDesc *desc; void *data; dnnl_memory_t memory; } Argument; /* memory given: used as it is */

enum { ARGUMENTS = 5 };

static SnlsStatus execute(SnlsContext *ctx, const Shared *shared, dnnl_primitive_t primitive, const Argument *list, int count)
{
    dnnl_exec_arg_t args[ARGUMENTS];
    dnnl_status_t status = dnnl_success;
    int made = 0;
    for (; made < count && status == dnnl_success; made++) {
        args[made] = (dnnl_exec_arg_t){ list[made].name, list[made].memory };
        if (!list[made].memory) status = dnnl_memory_create(&args[made].memory, snls_dnnl_view(list[made].desc), shared->engine, list[made].data);
    }
    if (status == dnnl_success) status = dnnl_primitive_execute(primitive, shared->stream, count, args);
    if (status == dnnl_success) status = dnnl_stream_wait(shared->stream);
    for (int i = 0; i < made; i++)
        if (!list[i].memory && args[i].memory) dnnl_memory_destroy(args[i].memory);
    return check(ctx, status, "run");
}

static int64_t room_bytes(const Conv *c, Job job) { return (int64_t)dnnl_memory_desc_get_size(snls_dnnl_view(&c->room[job])); }

static SnlsStatus pack(SnlsContext *ctx, NnStep *s, Conv *c, Job job)
{
    Packed *p = &c->packed[job];
    if (p->version == *s->version) return SNLS_OK;
    const Argument list[] = { { DNNL_ARG_FROM, NULL, NULL, p->plain }, { DNNL_ARG_TO, NULL, NULL, p->memory } };
    SNLS_TRY(execute(ctx, s->shared, p->reorder, list, 2));
    p->version = *s->version;
    return SNLS_OK;
}

static SnlsStatus run_forward(SnlsContext *ctx, const NnStep *s, const Conv *c, void *in, void *out, void *room)
{
    const Argument list[] = { { DNNL_ARG_SRC, &c->in, in, NULL }, { DNNL_ARG_WEIGHTS, NULL, NULL, c->packed[FORWARD].memory },
                              { DNNL_ARG_DST, &c->out, out, NULL }, { DNNL_ARG_SCRATCHPAD, &c->room[FORWARD], room, NULL }, { DNNL_ARG_BIAS, &c->bias, s->p[1].data, NULL } };
    return execute(ctx, s->shared, c->primitive[FORWARD], list, s->p[1].data ? 5 : 4);
}

/* ---- pieces of columns ---- */

typedef struct Rows { const SnlsContext *ctx; int64_t rows, pixel; } Rows; /* pixel: bytes */

static Rows rows_of(const SnlsContext *ctx, const SnlsTensor *t) { return (Rows){ ctx, t->shape[0] * t->shape[1], t->shape[3] * snls_dtype_size((SnlsDtype)t->dtype) }; }

/* So many columns of every row; rows lie to_row and from_row columns apart. */
typedef struct Move { char *to; const char *from; int64_t to_row, from_row, columns; } Move;

static void move_columns(const Rows *r, const Move *m)
{
#pragma omp parallel for num_threads(r->ctx->threads) schedule(static) if (r->ctx->threads > 1)
    for (int64_t i = 0; i < r->rows; i++) memcpy(m->to + i * m->to_row * r->pixel, m->from + i * m->from_row * r->pixel, (size_t)(m->columns * r->pixel));
}

/* A residual may lie where the result goes: what two pieces have in common is written by the first, and the other's is not looked at. */
static SnlsStatus run_pieces(SnlsContext *ctx, const NnStep *s, const Conv *c, const Pieces *p, char *const block[3])
{
    const Rows in = rows_of(ctx, &s->x[0]), out = rows_of(ctx, &s->y[0]);
    const int64_t width = s->y[0].shape[2], in_width = s->x[0].shape[2];
    char *y = s->y[0].data;
    for (int64_t done = 0; done < width;) {
        const int64_t wanted = done ? done - p->halo : 0, first = wanted + p->out < width ? wanted : width - p->out, end = first + p->out < width ? first + p->out - p->halo : width;
        move_columns(&in, &(Move){ block[1], (const char *)s->x[0].data + first * s->u.conv.stride * in.pixel, p->in, in_width, p->in });
        if (s->x[1].data) move_columns(&out, &(Move){ block[2], (const char *)s->x[1].data + first * out.pixel, p->out, width, p->out });
        SNLS_TRY(run_forward(ctx, s, c, block[1], block[2], block[0]));
        move_columns(&out, &(Move){ y + done * out.pixel, block[2] + (done - first) * out.pixel, width, p->out, end - done });
        done = end;
    }
    return SNLS_OK;
}

static SnlsStatus run_whole(SnlsContext *ctx, const NnStep *s, const Conv *c, void *room)
{
    if (s->x[1].data && s->x[1].data != s->y[0].data) memcpy(s->y[0].data, s->x[1].data, (size_t)(snls_tensor_elements(&s->y[0]) * snls_dtype_size((SnlsDtype)s->y[0].dtype)));
    return run_forward(ctx, s, c, s->x[0].data, s->y[0].data, room);
}

SnlsStatus snls_nn_dnnl_conv_forward(SnlsContext *ctx, NnStep *s)
{
    Conv *c = NULL;
    SNLS_TRY(conv_of(ctx, s, &c));
    SNLS_TRY(pack(ctx, s, c, FORWARD));
    const Pieces p = pieces_of(s);
    const int64_t sizes[3] = { room_bytes(c, FORWARD), piece_bytes(&s->x[0], &p, p.in), piece_bytes(&s->y[0], &p, p.out) }, channels = s->y[0].shape[3];
    char *block[3];
    snls_arena_begin(&ctx->arena);
    for (int i = 0; i < 3; i++) snls_arena_plan(&ctx->arena, sizes[i], 1);
    SNLS_TRY(snls_scratch_commit(ctx, "conv"));
    for (int i = 0; i < 3; i++) block[i] = snls_arena_claim(&ctx->arena, sizes[i], 1);
    SNLS_TRY(p.count > 1 ? run_pieces(ctx, s, c, &p, block) : run_whole(ctx, s, c, block[0]));
    if (own_gelu(s)) snls_nn_rows_gelu(ctx, s->y[0].data, &(NnRows){ snls_tensor_elements(&s->y[0]) / channels, channels, SNLS_BF16 });
    return SNLS_OK;
}

static void add_to(float *restrict to, const float *restrict from, int64_t n, int32_t threads)
{
    (void)threads;
#pragma omp parallel for num_threads(threads) schedule(static) if (n > 65536)
    for (int64_t i = 0; i < n; i++) to[i] += from[i];
}

/* Gradient by what came out of the convolution, before the activation. */
static const float *pull_of(const NnStep *s, float *scratch)
{
    const float *dy = s->dy[0].data, *y = s->y[0].data;
    const float slope = s->u.conv.act == NN_LEAKY ? (float)s->u.conv.slope : 0;
    const int64_t n = snls_tensor_elements(&s->y[0]);
    if (s->u.conv.act == NN_LINEAR) return dy;
    for (int64_t i = 0; i < n; i++) scratch[i] = dy[i] * (y[i] > 0 ? 1 : slope);
    return scratch;
}

static SnlsStatus data_gradient(SnlsContext *ctx, NnStep *s, Conv *c, const float *pull, float *scratch, void *room)
{
    SNLS_TRY(pack(ctx, s, c, BY_DATA));
    const Argument list[] = { { DNNL_ARG_DIFF_DST, &c->out, (void *)(uintptr_t)pull, NULL }, { DNNL_ARG_WEIGHTS, NULL, NULL, c->packed[BY_DATA].memory },
                              { DNNL_ARG_DIFF_SRC, &c->in, scratch, NULL }, { DNNL_ARG_SCRATCHPAD, &c->room[BY_DATA], room, NULL } };
    SNLS_TRY(execute(ctx, s->shared, c->primitive[BY_DATA], list, 4));
    add_to(s->dx[0].data, scratch, snls_tensor_elements(&s->dx[0]), ctx->threads);
    return SNLS_OK;
}

static SnlsStatus weight_gradient(SnlsContext *ctx, NnStep *s, Conv *c, const float *pull, float *bias, void *room)
{
    const Packed *p = &c->packed[BY_WEIGHTS];
    const Argument list[] = { { DNNL_ARG_SRC, &c->in, s->x[0].data, NULL }, { DNNL_ARG_DIFF_DST, &c->out, (void *)(uintptr_t)pull, NULL },
                              { DNNL_ARG_DIFF_WEIGHTS, NULL, NULL, p->memory }, { DNNL_ARG_SCRATCHPAD, &c->room[BY_WEIGHTS], room, NULL }, { DNNL_ARG_DIFF_BIAS, &c->bias, bias, NULL } };
    SNLS_TRY(execute(ctx, s->shared, c->primitive[BY_WEIGHTS], list, s->p[1].data ? 5 : 4));
    const Argument back[] = { { DNNL_ARG_FROM, NULL, NULL, p->memory }, { DNNL_ARG_TO, NULL, NULL, p->plain } };
    SNLS_TRY(execute(ctx, s->shared, p->reorder, back, 2));
    if (s->dp[1].data) add_to(s->dp[1].data, bias, s->dp[1].shape[0], 1);
    return SNLS_OK;
}

SnlsStatus snls_nn_dnnl_conv_backward(SnlsContext *ctx, NnStep *s)
{
    Conv *c = NULL;
    SNLS_REQUIRE(ctx, s->y[0].dtype == SNLS_F32, SNLS_ERR_UNSUPPORTED, "network: gradients on backend cpu are in f32, not in %s", snls_dtype_name((SnlsDtype)s->y[0].dtype));
    SNLS_TRY(conv_of(ctx, s, &c));
    if (s->dx[0].data) SNLS_TRY(make_job(ctx, s, c, BY_DATA));
    if (s->dp[0].data) SNLS_TRY(make_job(ctx, s, c, BY_WEIGHTS));
    const int64_t sizes[3] = { snls_tensor_elements(&s->y[0]), snls_tensor_elements(&s->x[0]), s->y[0].shape[3] };
    const int64_t by_data = s->dx[0].data ? room_bytes(c, BY_DATA) : 0, by_weights = s->dp[0].data ? room_bytes(c, BY_WEIGHTS) : 0, most = by_data > by_weights ? by_data : by_weights;
    float *scratch[3];
    snls_arena_begin(&ctx->arena);
    for (int i = 0; i < 3; i++) snls_arena_plan(&ctx->arena, sizes[i], sizeof(float));
    snls_arena_plan(&ctx->arena, most, 1);
    SNLS_TRY(snls_scratch_commit(ctx, "conv"));
    for (int i = 0; i < 3; i++) scratch[i] = snls_arena_claim(&ctx->arena, sizes[i], sizeof(float));
    void *room = snls_arena_claim(&ctx->arena, most, 1);
    const float *pull = pull_of(s, scratch[0]);
    if (s->dx[0].data) SNLS_TRY(data_gradient(ctx, s, c, pull, scratch[1], room));
    if (s->dp[0].data) SNLS_TRY(weight_gradient(ctx, s, c, pull, scratch[2], room));
    if (s->dx[1].data) add_to(s->dx[1].data, s->dy[0].data, sizes[0], ctx->threads);
    return SNLS_OK;
}
#else
typedef int snls_nn_no_dnnl; /* a file must hold something */
#endif
