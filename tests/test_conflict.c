/* test_conflict.c: calls that are refused or empty as a whole: parameters that conflict, too few frames, channels that heads do
 * not divide, gradients that do not exist, outputs over inputs, batches of nothing, sizes that overflow, scratch over its limit. */
/* ctest: timeout=60 */
#include "spec.h"
#include <limits.h>
#include <math.h>
#include <string.h>

static Call call;

static void fresh(const char *op)
{
    tensors_free();
    call_make(&call, operator_named(op), 11, CALL_SMALL);
}

static void refused(SnlsContext *ctx, bool backward, SnlsStatus want, const char *word, const char *what)
{
    const SnlsStatus status = backward ? call.op->backward(ctx, &call) : call.op->forward(ctx, &call);
    CHECK(status == want, "%s, %s: status %d, expected %d", call.op->name, what, (int)status, (int)want);
    CHECK(status >= 0 || (strstr(snls_error(ctx), word) && !strncmp(snls_error(ctx), call.op->name, strlen(call.op->name))), "%s, %s: the sentence is \"%s\"",
          call.op->name, what, snls_error(ctx));
    CHECK(backward || call_untouched(&call, ROLE_OUT), "%s, %s: an output was written to", call.op->name, what);
    CHECK(call_untouched(&call, ROLE_GRAD_OUT), "%s, %s: a gradient was written to", call.op->name, what);
}

static void parameters(SnlsContext *ctx)
{
    fresh("search");
    call.s.search.params.wt = 2;
    refused(ctx, false, SNLS_ERR_ARG, "wt", "T < W_t");
    fresh("search");
    call.s.search.params.heads = 4;
    refused(ctx, false, SNLS_ERR_ARG, "heads", "6 channels, 4 heads");
    fresh("search");
    call.s.search.params.interp = SNLS_INTERP_NEAREST;
    refused(ctx, false, SNLS_ERR_ARG, "stride1", "nearest with half steps");
    fresh("search");
    call.s.search.params.ws = 32767;
    refused(ctx, false, SNLS_ERR_ARG, "ws", "more than 2^31 candidates");
    fresh("search_all");
    call.s.search_all.params.anchor = SNLS_ANCHOR_EACH;
    refused(ctx, false, SNLS_ERR_ARG, "anchor", "anchor");
    fresh("search_all");
    call.s.search_all.params.topk = SNLS_TOPK_EACH;
    refused(ctx, false, SNLS_ERR_ARG, "topk", "topk each");
    fresh("refine");
    call.s.refine.params.heads = 4;
    refused(ctx, false, SNLS_ERR_ARG, "heads", "6 channels, 4 heads");
    fresh("refine");
    call.s.refine.params.interp = SNLS_INTERP_NEAREST;
    refused(ctx, false, SNLS_ERR_ARG, "stride1", "nearest with half steps");
    fresh("flow_compose");
    call.s.flow_compose.params.wt = 9;
    refused(ctx, false, SNLS_ERR_ARG, "wt", "T < W_t");
    fresh("gather_add");
    call.s.gather_add.params.heads = 3;
    refused(ctx, false, SNLS_ERR_SHAPE, "weight", "other heads than the weights have");
}

/* With interp nearest there is no gradient to flow and offsets; everything else goes. */
static void nearest_gradients(SnlsContext *ctx)
{
    fresh("search");
    call.s.search.params.interp = SNLS_INTERP_NEAREST;
    call.s.search.params.stride1 = 1;
    CHECK(call_forward(&call, ctx) == SNLS_OK, "%s", snls_error(ctx));
    refused(ctx, true, SNLS_ERR_UNSUPPORTED, "flow", "gradient of flow with nearest");
    call.g.search.flow.data = NULL;
    CHECK(call_backward(&call, ctx) == SNLS_OK, "%s", snls_error(ctx));
    fresh("refine");
    call.s.refine.params.interp = SNLS_INTERP_NEAREST;
    call.s.refine.params.stride1 = 1;
    CHECK(call_forward(&call, ctx) == SNLS_OK, "%s", snls_error(ctx));
    refused(ctx, true, SNLS_ERR_UNSUPPORTED, "centre", "gradient of centre with nearest");
    static const char *const names[] = {"gather", "gather_add", "scatter_add"};
    for (int i = 0; i < 3; i++) {
        fresh(names[i]);
        call.s.gather.params.interp = SNLS_INTERP_NEAREST;
        CHECK(call_forward(&call, ctx) >= 0, "%s", snls_error(ctx));
        refused(ctx, true, SNLS_ERR_UNSUPPORTED, "offset", "gradient of offset with nearest");
    }
    fresh("search");
    CHECK(call_forward(&call, ctx) == SNLS_OK, "%s", snls_error(ctx));
    call.s.search.flow.data = NULL;
    refused(ctx, true, SNLS_ERR_ARG, "flow", "gradient of a flow that is not there");
}

/* ---- outputs over inputs ---- */

enum { SIDE = 6, PIXELS = SIDE * SIDE };
static float room[8 * PIXELS], before[8 * PIXELS];

/* gather_add that moves a frame by a pixel: each is the one to its right. value and out lie in room, pixels step floats apart. */
static SnlsGatherAdd frames_in_room(float *value, float *out, int64_t step)
{
    SnlsGatherAdd g = {.weight = spec_tensor(SNLS_F32, SHAPE(1, 1, 1, SIDE, SIDE, 1)), .offset = spec_tensor(SNLS_F32, SHAPE(1, 1, 1, SIDE, SIDE, 1, 3))};
    snls_gather_add_defaults(&g.params);
    g.value = snls_tensor(value, SNLS_F32, SHAPE(1, 1, SIDE, SIDE, 1));
    for (int axis = 0; axis < 5; axis++) g.value.stride[axis] *= step;
    g.out = g.value;
    g.out.data = out;
    for (int64_t i = 0; i < PIXELS; i++) tensor_set(&g.weight, i, 1), tensor_set(&g.offset, 3 * i + 2, 1);
    for (int64_t i = 0; i < 8 * PIXELS; i++) room[i] = before[i] = (float)(i % 97);
    return g;
}

static void over(SnlsContext *ctx, const SnlsGatherAdd *g, const char *word, const char *what)
{
    const SnlsStatus status = snls_gather_add_forward(ctx, g);
    CHECK(status == SNLS_ERR_ARG && strstr(snls_error(ctx), word) && !memcmp(room, before, sizeof room), "%s: %d, \"%s\"", what, (int)status, snls_error(ctx));
}

static void beside(SnlsContext *ctx, const SnlsGatherAdd *g, const char *what)
{
    const float *from = g->value.data, *to = g->out.data;
    const int64_t step = g->value.stride[3];
    if (!CHECK(snls_gather_add_forward(ctx, g) == SNLS_OK, "%s: %s", what, snls_error(ctx))) return;
    for (int64_t i = 0; i < PIXELS; i++)
        CHECK(i % SIDE == SIDE - 1 || to[i * step] == from[(i + 1) * step], "%s: pixel %d is %g", what, (int)i, (double)to[i * step]);
}

static void gather_add_in_place(SnlsContext *ctx)
{
    SnlsGatherAdd g;
    over(ctx, (g = frames_in_room(room, room, 1), &g), "out shares memory with value", "in place");
    over(ctx, (g = frames_in_room(room, room + PIXELS - 1, 1), &g), "value", "begins at the last pixel");
    over(ctx, (g = frames_in_room(room + SIDE, room, 1), &g), "value", "a row before");
    over(ctx, (g = frames_in_room(room, room, 2), &g), "value", "in place, with gaps");
    beside(ctx, (g = frames_in_room(room, room + PIXELS, 1), &g), "one after the other");
    beside(ctx, (g = frames_in_room(room + PIXELS, room, 1), &g), "one before the other");
    beside(ctx, (g = frames_in_room(room, room + 1, 2), &g), "pixels in turn");
    beside(ctx, (g = frames_in_room(room + 2, room, 4), &g), "pixels in turn, with gaps");
    g = frames_in_room(room, room + PIXELS, 1);
    g.value.data = room + PIXELS; /* backwards: its last pixel is the first of the frame that out is */
    for (int axis = 0; axis < 5; axis++) g.value.stride[axis] *= -1;
    over(ctx, &g, "value", "backwards");
    g = frames_in_room(room, room + PIXELS, 1);
    g.offset.data = room + 2 * PIXELS - 1;
    over(ctx, &g, "out shares memory with offset", "offsets that begin at the last pixel");
    tensors_free();
}

/* Every output of the three, over every input. */
static void outputs_over_inputs(SnlsContext *ctx)
{
    static const char *const names[] = {"gather", "gather_add", "scatter_add"};
    gather_add_in_place(ctx);
    for (int i = 0; i < 3; i++) {
        fresh(names[i]);
        if (!CHECK(call_forward(&call, ctx) >= 0, "%s", snls_error(ctx))) continue;
        for (const Slot *out = call.op->test->slots; out->name; out++)
            for (const Slot *in = call.op->test->slots; in->name; in++) {
                const bool backward = out->role == ROLE_GRAD_OUT;
                if ((out->role != ROLE_OUT && !backward) || (in->role != ROLE_IN && !(backward && in->role == ROLE_GRAD_IN))) continue;
                SnlsTensor *t = call_tensor(&call, out);
                const SnlsTensor good = *t;
                if (!t->data || !call_tensor(&call, in)->data) continue;
                t->data = call_tensor(&call, in)->data;
                const SnlsStatus status = backward ? call.op->backward(ctx, &call) : call.op->forward(ctx, &call);
                CHECK(status == SNLS_ERR_ARG && strstr(snls_error(ctx), "shares memory with"), "%s: %s over %s: %d, \"%s\"", names[i], out->name, in->name, (int)status, snls_error(ctx));
                *t = good;
            }
    }
}

/* A batch of nothing is done at once, with or without memory. */
static void empty_batch(SnlsContext *ctx)
{
    for (int i = 0; i < operator_count; i++) {
        fresh(operators[i].name);
        for (int round = 0; round < 2; round++) {
            for (const Slot *s = call.op->test->slots; s->name; s++) {
                call_tensor(&call, s)->shape[0] = 0;
                if (round) call_tensor(&call, s)->data = NULL;
            }
            const SnlsStatus forward = call.op->forward(ctx, &call), backward = call.op->backward(ctx, &call);
            CHECK(forward >= 0 && backward >= 0, "%s of no batch: %d, %d: %s", operators[i].name, (int)forward, (int)backward, snls_error(ctx));
        }
    }
}

/* No memory holds these; neither may the arithmetic on their lengths overflow. */
static void huge_shapes(SnlsContext *ctx)
{
    static const int64_t lengths[] = {INT64_MAX, INT64_MAX - 1, INT64_MAX / 2 + 1, (int64_t)1 << 62, INT64_MAX / 3, (int64_t)1 << 61};
    for (int i = 0; i < operator_count; i++)
        for (int n = 0; n < 6; n++)
            for (int axis = 0; axis < 7; axis++)
                for (int empty = 0; empty < 2; empty++) {
                    fresh(operators[i].name);
                    bool longer = false;
                    for (const Slot *s = call.op->test->slots; s->name; s++) {
                        SnlsTensor *t = call_tensor(&call, s);
                        longer = longer || axis < t->ndim;
                        if (axis < t->ndim) t->shape[axis] = lengths[n];
                        if (empty) t->shape[axis ? 0 : 1] = 0;
                        if (s->role == ROLE_IN && axis < t->ndim) t->stride[axis] = 0;
                    }
                    const SnlsStatus forward = call.op->forward(ctx, &call), backward = call.op->backward(ctx, &call);
                    CHECK((forward < 0 && backward < 0) || empty || !longer, "%s with axis %d of length %lld: %d, %d", operators[i].name, axis, (long long)lengths[n], (int)forward, (int)backward);
                    Call shape = call;
                    for (const Slot *s = call.op->test->slots; s->name; s++)
                        if (s->role == ROLE_OUT) call_tensor(&shape, s)->data = NULL;
                    call.op->shape(ctx, &shape);
                }
}

/* No batch, but frames longer than time: nothing may walk along them, and nothing may overflow. */
static void empty_but_long(SnlsContext *ctx)
{
    static const int64_t lengths[] = {(int64_t)1 << 40, (int64_t)1 << 61, INT64_MAX};
    for (int n = 0; n < 3; n++)
        for (int32_t stride0 = 1; stride0 < 4; stride0++) {
            const int64_t H = lengths[n], rows = H / stride0 + (H % stride0 != 0);
            tensors_free();
            SnlsGatherAdd g;
            memset(&g, 0, sizeof g);
            snls_gather_add_defaults(&g.params);
            g.params.stride0 = stride0;
            g.value = g.out = snls_tensor(NULL, SNLS_F32, SHAPE(0, 1, H, 1, 1));
            g.weight = snls_tensor(NULL, SNLS_F32, SHAPE(0, 1, 1, rows, 1, 1));
            g.offset = snls_tensor(NULL, SNLS_F32, SHAPE(0, 1, 1, rows, 1, 1, 3));
            const SnlsStatus gather = snls_gather_add_forward(ctx, &g);
            CHECK(gather >= 0 || gather == SNLS_ERR_SHAPE, "gather_add of no batch, H %lld: status %d", (long long)H, (int)gather);
            SnlsSearchParams p;
            snls_search_defaults(&p);
            p.stride0 = stride0;
            SnlsSearch s = spec_search(&p, 0, 1, 1, 1, 1);
            s.query = s.key = snls_tensor(NULL, SNLS_F32, SHAPE(0, 1, H, 1, 1));
            s.dist = snls_tensor(NULL, SNLS_F32, SHAPE(0, 1, 1, rows, 1, 1));
            s.offset = snls_tensor(NULL, SNLS_F32, SHAPE(0, 1, 1, rows, 1, 1, 3));
            const SnlsStatus search = snls_search_forward(ctx, &s);
            CHECK(search >= 0 || search == SNLS_ERR_SHAPE, "search of no batch, H %lld: status %d", (long long)H, (int)search);
        }
}

/* shape fills in what a forward then takes. */
static void shapes(SnlsContext *ctx)
{
    for (int i = 0; i < operator_count; i++) {
        fresh(operators[i].name);
        Call made = call;
        for (const Slot *s = call.op->test->slots; s->name; s++)
            if (s->role == ROLE_OUT) {
                SnlsTensor *t = call_tensor(&made, s);
                memset(t, 0, sizeof *t);
            }
        if (!CHECK(call.op->shape(ctx, &made) == SNLS_OK, "%s shape: %s", operators[i].name, snls_error(ctx))) continue;
        for (const Slot *s = call.op->test->slots; s->name; s++) {
            const SnlsTensor *want = call_tensor(&call, s), *got = call_tensor(&made, s);
            if (s->role != ROLE_OUT || !want->data) continue;
            bool same = got->ndim == want->ndim && got->dtype == want->dtype && !got->data;
            int64_t step = 1;
            for (int32_t axis = want->ndim; same && axis-- > 0; step *= want->shape[axis]) same = got->shape[axis] == want->shape[axis] && got->stride[axis] == step;
            CHECK(same, "%s: shape does not give the shape of %s", operators[i].name, s->name);
        }
    }
}

static void scratch_limit(const char *backend)
{
    for (int i = 0; i < operator_count; i++) {
        SnlsContextParams p;
        SnlsContext *ctx = NULL;
        snls_context_defaults(&p);
        p.backend = backend;
        p.threads = 2;
        p.scratch_limit = 16;
        if (!CHECK(snls_open(&ctx, &p) == SNLS_OK, "a context with little scratch")) return;
        fresh(operators[i].name);
        const SnlsStatus forward = call_forward(&call, ctx);
        CHECK(forward >= 0 || forward == SNLS_ERR_MEMORY, "%s over its limit: status %d", operators[i].name, (int)forward);
        if (forward >= 0) {
            const SnlsStatus backward = call_backward(&call, ctx);
            CHECK(backward >= 0 || backward == SNLS_ERR_MEMORY, "%s backward over its limit: status %d", operators[i].name, (int)backward);
        }
        CHECK(snls_scratch_peak(ctx) <= 16, "%s held %lld bytes of scratch, 16 are allowed", operators[i].name, (long long)snls_scratch_peak(ctx));
        snls_close(&ctx);
    }
}

int main(void)
{
    static const char *const backends[] = {"ref", "cpu"};
    for (int b = 0; b < 2; b++) {
        SnlsContext *ctx = context_open(backends[b], 0, 2);
        check_repeat("test_conflict (backend %s)", backends[b]);
        parameters(ctx);
        nearest_gradients(ctx);
        outputs_over_inputs(ctx);
        empty_batch(ctx);
        huge_shapes(ctx);
        empty_but_long(ctx);
        shapes(ctx);
        scratch_limit(backends[b]);
        snls_close(&ctx);
    }
    return check_end();
}
