/* test_api.c: bad input for every operator: every tensor and every option spoiled in turn. The call is refused with the right
 * status and a sentence that names the operator, nothing is written, and the context works afterwards.
 *   test_api [OP] */
#include "case.h"
#include <snls/snls.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SEED = 11 };

/* Runs the spoiled direction and checks how it was refused; status 0 = any error will do. */
static void check_refused(Call *call, SnlsContext *ctx, bool backward, SnlsStatus want, const char *what, long long detail)
{
    const SnlsStatus status = backward ? call->op->backward(ctx, call) : call->op->forward(ctx, call);
    const char *said = snls_error(ctx), *direction = backward ? "backward" : "forward";
    const size_t n = strlen(call->op->name);
    CHECK(want ? status == want : status == SNLS_ERR_ARG || status == SNLS_ERR_SHAPE, "%s %s with %s %lld: status %d (%s)", call->op->name, direction,
          what, detail, (int)status, status < 0 ? said : "");
    if (status < 0)
        CHECK(!strncmp(said, call->op->name, n) && said[n] == ':' && strlen(said) > n + 8 && !strchr(said, '\n'), "%s %s with %s %lld: the sentence is \"%s\"",
              call->op->name, direction, what, detail, said);
}

/* A fresh good call; forward has been run, so that backward has its outputs. */
static void fresh(Call *call, const Operator *op, SnlsContext *ctx)
{
    tensors_free();
    call_make(call, op, SEED, CALL_SMALL);
    CHECK(call_forward(call, ctx) >= 0, "%s: a good call fails: %s", op->name, snls_error(ctx));
}

static bool is_gradient(const Slot *s) { return s->role == ROLE_GRAD_IN || s->role == ROLE_GRAD_OUT; }

/* Runs a call in which one tensor was spoiled, in the directions that look at it. */
static void try_spoiled(Call *call, SnlsContext *ctx, const Slot *s, const SnlsTensor *good, SnlsStatus want, const char *what, long long detail)
{
    SnlsTensor *t = call_tensor(call, s);
    char text[96];
    snprintf(text, sizeof text, "%s%s: %s", is_gradient(s) ? "gradient of " : "", s->name, what);
    if (!is_gradient(s)) check_refused(call, ctx, false, want, text, detail);
    check_refused(call, ctx, true, want, text, detail);
    *t = *good;
}

static uint64_t everything(Call *call)
{
    uint64_t h = 0;
    for (int role = ROLE_IN; role <= ROLE_GRAD_OUT; role++) h = h * 31 + call_hash(call, (Role)role);
    return h;
}

/* Lengths that would be legal for this axis alone: the number of given places, the slots of a flow. */
static bool free_axis(const Call *call, const Slot *s, int32_t axis, int32_t ndim)
{
    if (!strcmp(call->op->name, "refine") && !strcmp(s->name, "centre") && s->role == ROLE_IN) return axis == 5;
    return !strncmp(call->op->name, "search", 6) && !strcmp(s->name, "flow") && axis == ndim - 4;
}

static void spoil_shape(Call *call, SnlsContext *ctx, const Slot *s)
{
    SnlsTensor *t = call_tensor(call, s);
    const SnlsTensor good = *t;
    static const int32_t ranks[] = {0, -1, 1, 9, INT_MAX, INT_MIN};
    for (int i = 0; i < 6; i++) {
        t->ndim = ranks[i];
        try_spoiled(call, ctx, s, &good, SNLS_ERR_SHAPE, "ndim", ranks[i]);
    }
    t->ndim = good.ndim - 1;
    try_spoiled(call, ctx, s, &good, SNLS_ERR_SHAPE, "ndim", good.ndim - 1);
    for (int32_t axis = 0; axis < good.ndim; axis++) {
        const int64_t lengths[] = {good.shape[axis] + 1, good.shape[axis] - 1, 0, -1, -good.shape[axis], INT64_MAX, INT64_MIN, (int64_t)1 << 32};
        for (int i = 0; i < 8; i++) {
            if (lengths[i] == good.shape[axis] || (free_axis(call, s, axis, good.ndim) && lengths[i] >= 0)) continue;
            t->shape[axis] = lengths[i];
            try_spoiled(call, ctx, s, &good, 0, "a length of", lengths[i]);
            if (lengths[i] < 0) CHECK(strstr(snls_error(ctx), "must not be negative"), "%s: the sentence about a length of %lld is \"%s\"", s->name, (long long)lengths[i], snls_error(ctx));
        }
    }
}

static void spoil_type(Call *call, SnlsContext *ctx, const Slot *s)
{
    SnlsTensor *t = call_tensor(call, s);
    const SnlsTensor good = *t;
    static const int32_t dtypes[] = {SNLS_U8, 6, -1, INT_MAX};
    for (int i = 0; i < 4; i++) {
        t->dtype = dtypes[i];
        try_spoiled(call, ctx, s, &good, SNLS_ERR_SHAPE, "dtype", dtypes[i]);
    }
    t->dtype = good.dtype == SNLS_I32 ? SNLS_F32 : SNLS_I32;
    try_spoiled(call, ctx, s, &good, SNLS_ERR_SHAPE, "dtype", t->dtype);
    t->device = SNLS_DEVICE_CUDA;
    try_spoiled(call, ctx, s, &good, SNLS_ERR_SHAPE, "device", t->device);
    t->device = 77;
    try_spoiled(call, ctx, s, &good, SNLS_ERR_SHAPE, "device", t->device);
    t->data = (char *)t->data + 1;
    try_spoiled(call, ctx, s, &good, SNLS_ERR_ARG, "data moved by a byte", 1);
}

/* Outputs that overlap themselves; strides that reach past all memory. */
static void spoil_strides(Call *call, SnlsContext *ctx, const Slot *s)
{
    SnlsTensor *t = call_tensor(call, s);
    const SnlsTensor good = *t;
    for (int32_t axis = 0; axis < good.ndim; axis++) {
        if (good.shape[axis] < 2) continue;
        static const int64_t far[] = {INT64_MAX, INT64_MIN, (int64_t)1 << 62, -((int64_t)1 << 61)};
        for (int i = 0; i < 4; i++) {
            t->stride[axis] = far[i];
            try_spoiled(call, ctx, s, &good, 0, "a stride of", far[i]);
        }
        if (s->role != ROLE_OUT && s->role != ROLE_GRAD_OUT) continue;
        t->stride[axis] = 0;
        check_refused(call, ctx, s->role == ROLE_GRAD_OUT, SNLS_ERR_ARG, "an output with stride", 0);
        *t = good;
    }
}

/* No data: refused where the tensor is needed, allowed where it is optional. */
static bool is_optional(const Call *call, const Slot *s, bool backward)
{
    if (s->role == ROLE_GRAD_OUT) return true;
    if (s->role == ROLE_OUT && (!strcmp(s->name, "total") || (!strcmp(s->name, "index") && !backward))) return true;
    if (s->role == ROLE_OUT && backward) return strcmp(s->name, "weight") && strcmp(s->name, "index"); /* read by backward */
    if (s->role == ROLE_GRAD_IN) return !strncmp(call->op->name, "search", 6) || !strcmp(call->op->name, "refine") || !strcmp(call->op->name, "scatter_add");
    return !strcmp(s->name, "flow") && s->role == ROLE_IN;
}

static void take_away(Call *call, SnlsContext *ctx, const Slot *s)
{
    SnlsTensor *t = call_tensor(call, s);
    const SnlsTensor good = *t;
    SnlsTensor *g = call_find(call, ROLE_GRAD_OUT, "flow");
    for (int backward = is_gradient(s); backward < 2; backward++) {
        t->data = NULL;
        const bool flow = s->role == ROLE_IN && !strcmp(s->name, "flow"); /* then there is no gradient to it either */
        const SnlsTensor g_good = flow && g ? *g : good;
        if (flow && g) g->data = NULL;
        if (!is_optional(call, s, backward)) check_refused(call, ctx, backward, SNLS_ERR_ARG, s->name, 0);
        else {
            const SnlsStatus status = backward ? call->op->backward(ctx, call) : call->op->forward(ctx, call);
            CHECK(status >= 0, "%s %s without %s: %s", call->op->name, backward ? "backward" : "forward", s->name, snls_error(ctx));
        }
        if (flow && g) *g = g_good;
        *t = good;
    }
}

/* What forward wrote backward only reads: its elements may overlap, as those of a tensor that is the same for all of a batch. */
static void lay_on_itself(Call *call, SnlsContext *ctx, const Slot *s)
{
    SnlsTensor *t = call_tensor(call, s);
    const SnlsTensor good = *t;
    for (int32_t axis = 0; axis < good.ndim && s->role == ROLE_OUT; axis++) {
        t->stride[axis] = 0;
        CHECK(call->op->backward(ctx, call) >= 0, "%s backward with stride 0 of %s: %s", call->op->name, s->name, snls_error(ctx));
        *t = good;
    }
}

static void spoil_tensors(const Operator *op, SnlsContext *ctx)
{
    Call call;
    for (const Slot *s = op->test->slots; s->name; s++) {
        fresh(&call, op, ctx);
        if (!CHECK(call_tensor(&call, s)->data, "%s: the small call has no %s", op->name, s->name)) continue;
        const uint64_t before = everything(&call);
        spoil_shape(&call, ctx, s);
        spoil_type(&call, ctx, s);
        spoil_strides(&call, ctx, s);
        CHECK(everything(&call) == before, "%s: a refused call wrote something (%s spoiled)", op->name, s->name);
        take_away(&call, ctx, s);
        lay_on_itself(&call, ctx, s);
    }
}

/* ---- options ---- */

static void *params_of(Call *call) { return &call->s; } /* params come first in every struct */

static void set(Call *call, const SnlsOption *o, double value)
{
    char *at = (char *)params_of(call) + o->offset;
    const int32_t whole = o->type == SNLS_OPTION_REAL ? 0 : (int32_t)value;
    if (o->type == SNLS_OPTION_REAL) memcpy(at, &value, sizeof value);
    else memcpy(at, &whole, sizeof whole);
}

static void spoil_option(const Operator *op, SnlsContext *ctx, const SnlsOption *o)
{
    const double whole[] = {o->min - 1, o->max + 1, INT_MIN, INT_MAX, -o->max}, real[] = {nextafter(o->min, -INFINITY), nextafter(o->max, INFINITY), NAN, INFINITY, -INFINITY};
    for (int i = 0; i < 5; i++) {
        const double value = o->type == SNLS_OPTION_REAL ? real[i] : whole[i];
        Call call;
        char sentence[64];
        if (value >= o->min && value <= o->max) continue;
        fresh(&call, op, ctx);
        const uint64_t before = everything(&call);
        set(&call, o, value);
        for (int backward = 0; backward < 2; backward++) {
            check_refused(&call, ctx, backward, SNLS_ERR_ARG, o->name, (long long)(isfinite(value) ? value : 0));
            snprintf(sentence, sizeof sentence, "%s: %s is ", op->name, o->name);
            CHECK(!strncmp(snls_error(ctx), sentence, strlen(sentence)), "%s %s: the sentence is \"%s\"", op->name, o->name, snls_error(ctx));
        }
        CHECK(op->shape(ctx, &call) == SNLS_ERR_ARG, "%s %s %g: shape took it", op->name, o->name, value);
        CHECK(everything(&call) == before, "%s: a refused call wrote something (%s spoiled)", op->name, o->name);
    }
}

/* reserved is the end of every params struct; the first tensor follows it. */
static void spoil_reserved(const Operator *op, SnlsContext *ctx)
{
    Call call;
    fresh(&call, op, ctx);
    int32_t *end = (int32_t *)(void *)((char *)&call.s + op->test->slots[0].offset);
    end[-1] = 1;
    check_refused(&call, ctx, false, SNLS_ERR_ARG, "reserved", 1);
    check_refused(&call, ctx, true, SNLS_ERR_ARG, "reserved", 1);
}

static void spoil_pointers(const Operator *op, SnlsContext *ctx)
{
    Call call;
    fresh(&call, op, ctx);
    CHECK(op->forward(NULL, &call) == SNLS_ERR_ARG && op->backward(NULL, &call) == SNLS_ERR_ARG && op->shape(NULL, &call) == SNLS_ERR_ARG,
          "%s takes a context that is not there", op->name);
#define X(entry, Entry)                                                                                                                 \
    if (!strcmp(op->name, #entry)) {                                                                                                    \
        CHECK(snls_##entry##_forward(ctx, NULL) == SNLS_ERR_ARG && *snls_error(ctx), "%s takes NULL", op->name);                        \
        CHECK(snls_##entry##_shape(ctx, NULL) == SNLS_ERR_ARG && *snls_error(ctx), "%s takes NULL", op->name);                          \
        CHECK(snls_##entry##_backward(ctx, NULL, &call.g.entry) == SNLS_ERR_ARG && *snls_error(ctx), "%s takes NULL", op->name);        \
        CHECK(snls_##entry##_backward(ctx, &call.s.entry, NULL) == SNLS_ERR_ARG && *snls_error(ctx), "%s takes NULL", op->name);        \
        snls_##entry##_defaults(NULL);                                                                                                  \
    }
    SNLS_OPS(X)
#undef X
}

/* A good call after all the bad ones still gives what it gave. */
static void check_operator(const Operator *op, SnlsContext *ctx)
{
    Call call;
    fresh(&call, op, ctx);
    call_backward(&call, ctx);
    const uint64_t before = everything(&call);
    spoil_tensors(op, ctx);
    for (const SnlsOption *o = snls_options(op->name); o->name; o++) spoil_option(op, ctx, o);
    spoil_reserved(op, ctx);
    spoil_pointers(op, ctx);
    fresh(&call, op, ctx);
    call_backward(&call, ctx);
    CHECK(everything(&call) == before, "%s: another result after refused calls", op->name);
    tensors_free();
}

/* An empty output has no elements that could overlap, whatever its strides are. */
static void check_empty(SnlsContext *ctx)
{
    float flow[2 * 3 * 4 * 2] = {0}, nothing = 5;
    const int64_t shape[] = {1, 2, 3, 4, 2}, none[] = {1, 2, 0, 3, 4, 2};
    SnlsFlowCompose s = {.fflow = snls_tensor(flow, SNLS_F32, 5, shape), .bflow = snls_tensor(flow, SNLS_F32, 5, shape), .flow = snls_tensor(&nothing, SNLS_F32, 6, none)};
    snls_flow_compose_defaults(&s.params);
    for (int i = 0; i < 6; i++) s.flow.stride[i] = 0;
    CHECK(snls_flow_compose_forward(ctx, &s) == SNLS_OK && nothing == 5, "an empty flow with strides 0: %s", snls_error(ctx));
}

/* Flow has two lengths that are right; the sentence names both. */
static void check_slots(SnlsContext *ctx)
{
    static float pixels[3 * 4 * 4], flow[3 * 4 * 4 * 4 * 2];
    const int64_t video[] = {1, 3, 4, 4, 1}, field[] = {1, 3, 4, 4, 4, 2};
    SnlsSearch s = {.query = snls_tensor(pixels, SNLS_F32, 5, video), .key = snls_tensor(pixels, SNLS_F32, 5, video), .flow = snls_tensor(flow, SNLS_F32, 6, field)};
    snls_search_defaults(&s.params);
    s.params.wt = 1;
    CHECK(snls_search_forward(ctx, &s) == SNLS_ERR_SHAPE && strstr(snls_error(ctx), "2*wt or 2*wt+1"), "a flow of four slots: \"%s\"", snls_error(ctx));
}

static void check_put_back(SnlsContext *ctx)
{
    char kept[512];
    CHECK(snls_search_forward(ctx, NULL) < 0, "a call of nothing");
    snprintf(kept, sizeof kept, "%s", snls_error(ctx));
    CHECK(snls_weights_forward(ctx, NULL) < 0 && strcmp(snls_error(ctx), kept), "another sentence");
    snls_set_error(ctx, kept);
    CHECK(!strcmp(snls_error(ctx), kept), "the sentence is \"%s\"", snls_error(ctx));
    snls_set_error(ctx, snls_error(ctx) + 1);
    CHECK(!strcmp(snls_error(ctx), kept + 1), "a part of itself: \"%s\"", snls_error(ctx));
    snls_set_error(NULL, "nobody hears it");
    snls_set_error(ctx, NULL);
    CHECK(!*snls_error(ctx), "no sentence: \"%s\"", snls_error(ctx));
    static char endless[10000];
    memset(endless, 'x', sizeof endless - 1);
    endless[3] = '\n';
    snls_set_error(ctx, endless);
    CHECK(strlen(snls_error(ctx)) > 100 && strlen(snls_error(ctx)) < 9999 && snls_error(ctx)[3] == '?', "a long one: %zu", strlen(snls_error(ctx)));
}

int main(int argc, char **argv)
{
    static const char *const backends[] = {"ref", "cpu"};
    for (int b = 0; b < 2; b++) {
        SnlsContext *ctx = context_open(backends[b], 0, 2);
        for (int i = 0; i < operator_count; i++) {
            if (argc > 1 && strcmp(argv[1], operators[i].name)) continue;
            check_repeat("test_api %s (backend %s)", operators[i].name, backends[b]);
            check_operator(&operators[i], ctx);
        }
        check_empty(ctx);
        check_slots(ctx);
        check_put_back(ctx);
        snls_close(&ctx);
    }
    return check_end();
}
