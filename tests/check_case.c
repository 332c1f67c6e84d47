/* check_case.c: the list of operators, and what holds for every call of every one of them. */
#include "case.h"
#include <snls/snls.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define X(op, Op)                                                                                                                  \
    extern const Case case_##op;                                                                                                   \
    static SnlsStatus op##_forward(SnlsContext *ctx, const Call *c) { return snls_##op##_forward(ctx, &c->s.op); }                 \
    static SnlsStatus op##_backward(SnlsContext *ctx, const Call *c) { return snls_##op##_backward(ctx, &c->s.op, &c->g.op); }     \
    static SnlsStatus op##_shape(SnlsContext *ctx, Call *c) { return snls_##op##_shape(ctx, &c->s.op); }
SNLS_OPS(X)
#undef X

#define X(op, Op) {#op, &case_##op, op##_forward, op##_backward, op##_shape},
const Operator operators[] = {SNLS_OPS(X)};
#undef X
const int operator_count = (int)(sizeof operators / sizeof *operators);

const Operator *operator_named(const char *name)
{
    for (int i = 0; i < operator_count; i++)
        if (!strcmp(operators[i].name, name)) return &operators[i];
    return NULL;
}

SnlsTensor *call_tensor(Call *call, const Slot *slot)
{
    char *base = slot->role == ROLE_IN || slot->role == ROLE_OUT ? (char *)&call->s : (char *)&call->g;
    return (SnlsTensor *)(void *)(base + slot->offset);
}

SnlsTensor *call_find(Call *call, Role role, const char *name)
{
    for (const Slot *s = call->op->test->slots; s->name; s++)
        if (s->role == role && !strcmp(s->name, name)) return call_tensor(call, s);
    return NULL;
}

void call_make(Call *call, const Operator *op, uint64_t seed, CallKind kind)
{
    memset(call, 0, sizeof *call);
    call->op = op;
    call->kind = kind;
    call->rng.state = seed;
    rng_bits(&call->rng);
    op->test->make(call);
    for (const Slot *s = op->test->slots; s->name; s++)
        if (call_tensor(call, s)->data) tensor_mark(call_tensor(call, s));
}

static void restore(Call *call, Role role)
{
    for (const Slot *s = call->op->test->slots; s->name; s++)
        if (s->role == role && call_tensor(call, s)->data) tensor_restore(call_tensor(call, s));
}

static void check_inputs(Call *call, Role role)
{
    for (const Slot *s = call->op->test->slots; s->name; s++)
        if (s->role == role && call_tensor(call, s)->data)
            CHECK(tensor_unchanged(call_tensor(call, s)), "%s: %s was written to", call->op->name, s->name);
}

static void check_padding(Call *call, Role role)
{
    for (const Slot *s = call->op->test->slots; s->name; s++)
        if (s->role == role && call_tensor(call, s)->data)
            CHECK(tensor_padding_unchanged(call_tensor(call, s)), "%s: bytes beside %s were written to", call->op->name, s->name);
}

bool call_untouched(Call *call, Role role)
{
    bool same = true;
    for (const Slot *s = call->op->test->slots; s->name; s++)
        if (s->role == role && call_tensor(call, s)->data) same = same && tensor_unchanged(call_tensor(call, s));
    return same;
}

uint64_t call_hash(Call *call, Role role)
{
    uint64_t hash = 0;
    for (const Slot *s = call->op->test->slots; s->name; s++)
        if (s->role == role && call_tensor(call, s)->data) hash = hash * 1099511628211u + tensor_hash(call_tensor(call, s));
    return hash;
}

bool call_has_f64(Call *call)
{
    for (const Slot *s = call->op->test->slots; s->name; s++)
        if (call_tensor(call, s)->data && call_tensor(call, s)->dtype == SNLS_F64) return true;
    return false;
}

static void check_failure(Call *call, SnlsContext *ctx, SnlsStatus status)
{
    const size_t n = strlen(call->op->name);
    const char *said = snls_error(ctx);
    CHECK(!strncmp(said, call->op->name, n), "%s: failed with %d, and the sentence does not name the operator: \"%s\"", call->op->name,
          (int)status, said);
}

/* To the backend's device and back: what forward sees, and the gradients too. */
static void lend(Call *call, SnlsContext *ctx, bool grads)
{
    for (const Slot *s = call->op->test->slots; s->name; s++)
        if (grads || s->role == ROLE_IN || s->role == ROLE_OUT) tensor_lend(ctx, call_tensor(call, s));
}

static void take_back(Call *call, SnlsContext *ctx, bool grads)
{
    for (const Slot *s = call->op->test->slots; s->name; s++)
        if (grads || s->role == ROLE_IN || s->role == ROLE_OUT) tensor_return(ctx, call_tensor(call, s));
}

SnlsStatus call_forward(Call *call, SnlsContext *ctx)
{
    restore(call, ROLE_OUT);
    lend(call, ctx, false);
    const SnlsStatus status = call->status = call->op->forward(ctx, call);
    take_back(call, ctx, false);
    check_inputs(call, ROLE_IN);
    check_padding(call, ROLE_OUT);
    if (status < 0) {
        check_failure(call, ctx, status);
        CHECK(call_untouched(call, ROLE_OUT), "%s: failed with %d, yet an output was written to", call->op->name, (int)status);
    }
    return status;
}

SnlsStatus call_backward(Call *call, SnlsContext *ctx)
{
    restore(call, ROLE_GRAD_OUT);
    const uint64_t outputs = call_hash(call, ROLE_OUT);
    lend(call, ctx, true);
    const SnlsStatus status = call->op->backward(ctx, call);
    take_back(call, ctx, true);
    check_inputs(call, ROLE_IN);
    check_inputs(call, ROLE_GRAD_IN);
    check_padding(call, ROLE_GRAD_OUT);
    CHECK(outputs == call_hash(call, ROLE_OUT), "%s: backward wrote to an output of forward", call->op->name);
    if (status < 0) {
        check_failure(call, ctx, status);
        CHECK(call_untouched(call, ROLE_GRAD_OUT), "%s: failed with %d, yet a gradient was written to", call->op->name, (int)status);
    }
    return status;
}

bool call_checked(Call *call, SnlsContext *ctx, double eps, uint64_t hash[2])
{
    const SnlsStatus forward = call_forward(call, ctx);
    if (!CHECK(forward >= 0, "%s forward: %s", call->op->name, snls_error(ctx))) return false;
    call->op->test->check_forward(call, eps);
    hash[0] = call_hash(call, ROLE_OUT);
    const SnlsStatus backward = call_backward(call, ctx);
    if (!CHECK(backward >= 0, "%s backward: %s", call->op->name, snls_error(ctx))) return false;
    call->op->test->check_backward(call, eps);
    hash[1] = call_hash(call, ROLE_GRAD_OUT);
    return true;
}

SnlsContext *context_open(const char *backend, int32_t level, int32_t threads)
{
    char said[256] = "";
    SnlsContextParams params;
    snls_context_defaults(&params);
    params.backend = backend;
    params.cpu_level = level;
    params.threads = threads;
    params.error_text = said;
    params.error_size = sizeof said;
    SnlsContext *ctx = NULL;
    if (snls_open(&ctx, &params) == SNLS_OK) return ctx;
    printf("FAIL cannot open backend %s: %s\n", backend, said);
    exit(1);
}

SnlsContext *context_open_cuda(bool deterministic)
{
    char said[400] = "";
    SnlsContextParams params;
    snls_context_defaults(&params);
    params.backend = "cuda";
    params.deterministic = deterministic;
    params.error_text = said;
    params.error_size = sizeof said;
    SnlsContext *ctx = NULL;
    if (snls_open(&ctx, &params) == SNLS_OK) return ctx;
    printf("skipped, there is no GPU to test: %s\n", said);
    exit(77);
}
