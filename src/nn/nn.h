/* nn.h: a network is a list of steps over blocks of memory. Forward runs the list down, backward runs it up, and gradients add,
 * so a value that two steps read gets both gradients with no further code. A network is built once for each input shape;
 * parameters live apart and are shared by networks of several shapes.
 *
 * Values are (N,H,W,C), contiguous, N = batch*frames, one element type for the whole network. Parameters are f32 (f64 in tests
 * of gradients). docs/networks.md says what each step computes; src/nn/ref_*.c are its transcription. */
#ifndef SNLS_NN_H
#define SNLS_NN_H

#include "base/context.h"
#include "base/tensor.h"
#include <math.h>
#include <snls/ops.h>
#include <stdbool.h>

/* The one list of steps: the tables of the backends and the tests are made from it. */
#define NN_OPS(X)                                                                                                          \
    X(conv) X(norm) X(act) X(eca) X(attend) X(shuffle) X(concat) X(add) X(pad) X(pool) X(search) X(refine) X(first) X(weights) X(gather)

typedef enum NnOp {
#define X(op) NN_##op,
    NN_OPS(X)
#undef X
        NN_OP_COUNT
} NnOp;

typedef enum NnAct { NN_LINEAR = 0, NN_RELU = 1, NN_LEAKY = 2, NN_PRELU = 3, NN_GELU = 4 } NnAct;

/* conv: y = act(conv(x0, p0) + p1) + x1. p0 is (out, in/groups, k, k), transposed: (in, out/groups, k, k); p1 (out) and x1 are
 * optional. act: linear, relu or leaky, and linear where there is an x1, so that y tells what its derivative is; in a network that
 * is not trained gelu as well. */
typedef struct NnConv {
    int64_t kernel, stride, pad, groups;
    int32_t transposed, act;
    double  slope; /* leaky */
} NnConv;

/* norm: over the channels of a pixel, y = p0 * (x - mean) / sqrt(variance + eps) + p1 */
typedef struct NnNorm { double eps; } NnNorm;

/* act: y = act(x0); prelu's slope is p0, one number */
typedef struct NnActivation { int32_t act; double slope; } NnActivation;

/* attend: attention inside windows of a (batch, depth, H, W) grid, depth = frames. x0 is (N,H,W,3c) as [3][heads][c/heads], y is
 * (N,H,W,c); p0 is the table of relative bias ((2wd-1)(2wh-1)(2ww-1), heads). A grid that is no multiple of the window is
 * padded with tokens of 0 that take part as keys; p1 (3c), the bias of the linear step that made x0, is what they are then. */
typedef struct NnAttend { int64_t heads, window[3], shift[3], frames; } NnAttend;

/* shuffle: depth to space, y[c, h*r+i, w*r+j] = x[c*r*r + i*r + j, h, w]; inverse: space to depth */
typedef struct NnShuffle { int64_t r; int32_t inverse; } NnShuffle;

/* add: y = a*x0 + b*x1, x1 optional */
typedef struct NnAdd { double a, b; } NnAdd;

/* pad: y[h + top, w + left] = x[h, w], 0 elsewhere; what falls outside y is cut off */
typedef struct NnPad { int64_t top, left; } NnPad;

/* pool: mean of r x r pixels; those that fill no square are left out */
typedef struct NnPool { int64_t r; } NnPool;

/* search, refine, weights, gather: the operators of snls/ops.h, (B*T,H,W,C) seen as (B,T,H,W,C), gradients to offsets cut off.
 * search: x0 query, x1 key, x2 flow (optional, (B,T,S,H,W,2)); y0 dist, y1 offset, y2 index. refine: x2 is the offsets.
 * first: y0, y1 = the first k of lists x0 (dist) and x1 (offsets).
 * gather: x0 value, x1 weight (none: every weight is 1), x2 offset; y0 (N,H,W,heads*K*F), by_rank: channels as (heads,F,K),
 * else (heads,K,F). params.heads heads from `first` on: a stack is large, and need not be there whole. */
typedef struct NnGather { SnlsGatherParams params; int64_t frames, first; int32_t by_rank; } NnGather;
typedef struct NnSearch { SnlsSearchParams params; int64_t frames; } NnSearch;
typedef struct NnRefine { SnlsRefineParams params; int64_t frames; } NnRefine;

enum { NN_IN = 3, NN_PARAMS = 2, NN_OUT = 3 };

typedef struct NnStep {
    int32_t op;
    union {
        NnConv conv; NnNorm norm; NnActivation act; NnAttend attend; NnShuffle shuffle; NnAdd add; NnPad pad; NnPool pool;
        NnSearch search; NnRefine refine; SnlsWeightsParams weights; NnGather gather;
    } u;
    int32_t    xi[NN_IN], pi[NN_PARAMS], yi[NN_OUT];   /* numbers of values and parameters, -1 = none */
    SnlsTensor x[NN_IN], p[NN_PARAMS], y[NN_OUT];      /* read, read, written */
    SnlsTensor dx[NN_IN], dp[NN_PARAMS], dy[NN_OUT];   /* gradients: added to, added to, read; no data = not wanted */
    bool       fresh[NN_IN];                           /* dx is still 0 when backward comes here: it may be stored instead of added */
    const int32_t *version;                            /* of the parameters: counts their changes */
    const float   *one;                                /* a 1 where the backend reads it */
    void      *shared, *state;                         /* what a backend keeps for the network, for this step */
    int32_t    part, parts;                            /* of parameters: part number `part` of `parts` along their first axis; parts 0: all */
} NnStep;

typedef SnlsStatus NnFunction(SnlsContext *ctx, NnStep *step);

typedef struct NnBackend {
    const char *name;
    struct { NnFunction *forward, *backward; } op[NN_OP_COUNT];
    /* What is kept for a network and for a step; NULL = nothing is. */
    SnlsStatus (*open)(SnlsContext *ctx, void **shared);
    void (*release)(SnlsContext *ctx, NnStep *step);
    void (*close)(SnlsContext *ctx, void *shared);
    void (*run)(SnlsContext *ctx, int32_t *state); /* before and after a run; *state is the backend's own, 0 before */
    int64_t (*room)(SnlsContext *ctx, const NnStep *step); /* bytes of the context's scratch that a step's forward takes, known by shapes alone; NULL: none */
    int64_t (*own)(const NnStep *step); /* bytes that a library beneath keeps for a step by itself, likewise */
    /* Of a device that has its own memory; NULL: this processor's. An operator of the library without an entry is done by its function
     * of snls/ops.h. */
    SnlsStatus (*prepare)(SnlsContext *ctx, void *shared); /* before a run */
    SnlsStatus (*clear)(SnlsContext *ctx, void *block, int64_t bytes);
    const float *(*one)(void *shared);
} NnBackend;
extern const NnBackend snls_nn_ref, snls_nn_cpu;

/* ---- parameters ---- */

enum { NN_NAME = 160, NN_PARAM_DIM = 5 };

typedef enum NnInit { NN_INIT_CONSTANT = 0, NN_INIT_NORMAL = 1, NN_INIT_UNIFORM = 2 } NnInit; /* value; std, cut at 2 std; bound */

typedef struct NnParam {
    char    name[NN_NAME];
    int32_t ndim, init, decay; /* decay: weight decay applies */
    int64_t shape[NN_PARAM_DIM], count, offset; /* elements */
    double  scale; /* of init */
} NnParam;

typedef struct NnParams {
    NnParam *list;
    int64_t  count, room, total; /* total: elements */
    int32_t  dtype;              /* SNLS_F32, or SNLS_F64 in tests */
    int32_t  version;            /* counts changes of values, so that packed copies know that they are old */
    void    *value, *grad;       /* total elements each, in this processor's memory; grad NULL = not wanted */
    void    *device_value, *device_grad; /* the same where a GPU works, NULL elsewhere; what networks there use */
} NnParams;

SnlsStatus snls_nn_params_allocate(SnlsContext *ctx, NnParams *params, bool gradients); /* values 0 */
void       snls_nn_params_init(NnParams *params, uint64_t seed);
void       snls_nn_params_free(SnlsContext *ctx, NnParams *params);
NnParam   *snls_nn_params_find(const NnParams *params, const char *name); /* NULL: none */
SnlsTensor snls_nn_param_view(const NnParams *params, const NnParam *p, void *block);
/* Values to the device after they were changed here, values and gradients back: nothing where memory is shared. */
SnlsStatus snls_nn_params_send(SnlsContext *ctx, const NnParams *params);
SnlsStatus snls_nn_params_fetch(SnlsContext *ctx, const NnParams *params);

/* ---- networks ---- */

typedef struct NnValue {
    SnlsTensor t, grad;      /* where the network works */
    void      *mirror;       /* of t, in this processor's memory, where that is another; made when it is asked for */
    int32_t    first, last;  /* steps that write and read it: its life */
    int32_t    kept, wanted; /* kept: its memory is its own for the whole run; wanted: has a gradient */
    int64_t    place;        /* bytes from the beginning of the block; see layout.c */
} NnValue;

typedef struct NnNet {
    SnlsContext     *ctx;
    const NnBackend *backend;
    NnParams        *params;
    NnValue         *values;
    NnStep          *steps;
    int64_t          value_count, value_room, step_count, step_room;
    int32_t          dtype, train; /* element type of values; train: keep every value, make gradients */
    SnlsStatus       status;       /* of building: the first error stays */
    void            *shared;       /* the backend's */
    void            *block, *grad_block;
    int64_t          block_bytes, grad_bytes;
    int64_t          one_thread;   /* with fewer bytes of values than this, one thread does it all */
} NnNet;

/* ctx decides the backend. Building functions return the number of the value they make; after an error they return -1 and do
 * nothing, and snls_nn_commit tells. */
bool       snls_nn_is_cpu(const SnlsContext *ctx); /* backend cpu: this processor's own loops, not ref's */
void       snls_nn_begin(NnNet *net, SnlsContext *ctx, NnParams *params, int32_t dtype, bool train);
int64_t    snls_nn_bytes(NnNet *net);  /* of values, without taking them; -1: an error */
int64_t    snls_nn_room(NnNet *net);   /* bytes of the context's scratch that forward takes, before or after the commit */
int64_t    snls_nn_own(const NnNet *net); /* bytes that libraries beneath keep by themselves, short of weights; networks alike share them */
int64_t    snls_nn_value_bytes(const NnValue *v); /* in whole units of alignment */
SnlsStatus snls_nn_commit(NnNet *net); /* parameters must be allocated; takes all memory the network will use */
SnlsStatus snls_nn_forward(NnNet *net);
SnlsStatus snls_nn_backward(NnNet *net); /* gradients of outputs are set by the caller, after snls_nn_zero_grad */
SnlsStatus snls_nn_zero_grad(NnNet *net); /* of values, not of parameters */
void       snls_nn_free(NnNet *net);
SnlsStatus snls_nn_cpu_expect(SnlsContext *ctx, int32_t threads); /* backend cpu: before networks with contexts of one thread each run on so many threads at the same time */

/* A value as this processor sees it: itself, or its mirror. send after it was written, fetch before it is read. */
SnlsStatus snls_nn_host(NnNet *net, int32_t value, SnlsTensor *host);
SnlsStatus snls_nn_send(NnNet *net, int32_t value);
SnlsStatus snls_nn_fetch(NnNet *net, int32_t value);

/* The parameter of this name: the one there is, whose shape must agree, or a new one. */
int32_t snls_nn_param(NnNet *net, const char *name, int32_t ndim, const int64_t *shape, int32_t init, double scale);
int32_t snls_nn_value(NnNet *net, int32_t ndim, const int64_t *shape, int32_t dtype);
NnStep *snls_nn_step(NnNet *net, int32_t op, const int32_t *x, const int32_t *p, const int32_t *y); /* lists of NN_IN, NN_PARAMS, NN_OUT */
void    snls_nn_keep(NnNet *net, int32_t value); /* an input or an output: its memory is not reused */
/* A value lies where the caller has it, NULL: in the network's own memory again. After the commit, for networks on this processor that do not train. */
void    snls_nn_place_at(NnNet *net, int32_t value, void *data);

typedef struct NnName { char text[NN_NAME]; } NnName;
#if defined(__GNUC__)
__attribute__((format(printf, 1, 2)))
#endif
NnName snls_nn_name(const char *format, ...);

/* ---- layers.c: one value more ---- */

int32_t snls_nn_input(NnNet *net, int64_t n, int64_t h, int64_t w, int64_t c); /* kept */
/* Parameters name.weight and, with bias, name.bias. residual: a value or -1. */
typedef struct NnConvSpec { NnConv conv; int64_t out; int32_t no_bias, residual, init; double scale; } NnConvSpec;
int32_t snls_nn_conv(NnNet *net, int32_t x, const char *name, const NnConvSpec *spec);
/* Groups part*groups/parts .. of that layer alone: x is what they read, the result what they give. */
int32_t snls_nn_conv_part(NnNet *net, int32_t x, const char *name, const NnConvSpec *spec, int32_t part, int32_t parts);
int32_t snls_nn_conv3(NnNet *net, int32_t x, const char *name, int64_t out, int32_t act, int32_t residual); /* 3x3, pad 1, bias; relu/leaky 0.01 */
int32_t snls_nn_linear(NnNet *net, int32_t x, const char *name, int64_t out, bool bias, int32_t residual);
/* A linear layer (convolution of any kind) and GELU: one step where nobody wants gradients. */
int32_t snls_nn_conv_gelu(NnNet *net, int32_t x, const char *name, const NnConvSpec *spec);
int32_t snls_nn_norm(NnNet *net, int32_t x, const char *name, double eps);
int32_t snls_nn_act(NnNet *net, int32_t x, int32_t act, double slope, const char *name); /* name: of prelu's parameter */
int32_t snls_nn_eca(NnNet *net, int32_t x, const char *name);
/* bias: the parameter that was added when x was made, NULL where none was */
int32_t snls_nn_attend(NnNet *net, int32_t x, const char *table, const char *bias, const NnAttend *attend);
int32_t snls_nn_shuffle(NnNet *net, int32_t x, int64_t r, bool inverse);
int32_t snls_nn_concat(NnNet *net, int32_t a, int32_t b);
int32_t snls_nn_add(NnNet *net, int32_t x0, double a, int32_t x1, double b);
int32_t snls_nn_pad(NnNet *net, int32_t x, int64_t top, int64_t left, int64_t h, int64_t w);
int32_t snls_nn_pool(NnNet *net, int32_t x, int64_t r);

/* ---- match.c ---- */

typedef struct NnMatches { int32_t dist, offset; int64_t frames, heads, k; } NnMatches;
NnMatches snls_nn_search(NnNet *net, int32_t query, int32_t key, int32_t flow, int64_t frames, const SnlsSearchParams *params);
NnMatches snls_nn_refine(NnNet *net, int32_t query, int32_t key, const NnMatches *around, const SnlsRefineParams *params);
NnMatches snls_nn_first(NnNet *net, const NnMatches *m, int64_t k); /* the first k of each list */
int32_t   snls_nn_weights(NnNet *net, const NnMatches *m, double scale);
int32_t   snls_nn_gather(NnNet *net, int32_t value, int32_t weight, const NnMatches *m, bool by_rank);
int32_t   snls_nn_gather_part(NnNet *net, int32_t value, int32_t weight, const NnMatches *m, bool by_rank, int32_t part, int32_t parts); /* of the heads */

/* ---- rows.c: passes over rows of pixels outside of any network, f32 or bf16; the context's threads share them ---- */

enum { NN_ROWS_MOST = 1024 }; /* channels */
typedef struct NnRows { int64_t pixels, channels; int32_t dtype; } NnRows; /* contiguous */

void snls_nn_rows_gate(SnlsContext *ctx, void *y, const void *x, const float *gates, const void *z, const NnRows *rows); /* y = x * gate of its channel + z; z may be NULL */
void snls_nn_rows_norm(SnlsContext *ctx, void *y, const void *x, const SnlsTensor *scale, const SnlsTensor *shift, double eps, const NnRows *rows); /* of f32 parameters */
void snls_nn_rows_gelu(SnlsContext *ctx, uint16_t *y, const NnRows *rows); /* of bf16, in place */
void snls_nn_rows_sum(SnlsContext *ctx, double *sums, const void *x, const NnRows *rows); /* sums of the channels += pixels */
/* What channel attention multiplies with: the sums are over pixels of a frame, taps its parameter. */
void snls_nn_gates(float *gates, const double *sums, double pixels, const float *taps, int64_t channels);

/* ---- shared by the backends ---- */

static inline int64_t snls_nn_at4(const SnlsTensor *t, int64_t n, int64_t h, int64_t w, int64_t c)
{
    return n * t->stride[0] + h * t->stride[1] + w * t->stride[2] + c * t->stride[3];
}
static inline void snls_nn_accumulate(const SnlsTensor *t, int64_t at, double value) { snls_store(t, at, snls_load(t, at) + value); }

/* Derivative of relu or leaky, told by the result's sign. */
#define NN_SQRT_HALF 0.7071067811865476
static inline double snls_nn_gelu(double x) { return x * 0.5 * (1 + erf(x * NN_SQRT_HALF)); }
static inline double snls_nn_slope(const NnConv *c, double y) { return c->act == NN_LINEAR || y > 0 ? 1 : c->act == NN_LEAKY ? c->slope : 0; }

NnFunction snls_nn_match_forward, snls_nn_match_backward; /* search, refine, first, weights, gather: the context's backend does the work */

#define X(op) NnFunction snls_nn_ref_##op##_forward, snls_nn_ref_##op##_backward;
NN_OPS(X)
#undef X

#endif
