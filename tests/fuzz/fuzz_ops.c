/* fuzz_ops.c: descriptors and parameters that may say anything, over memory that is really there. A call is drawn like those of
 * test_ops, then changed as the bytes say. Whatever comes out must not crash; where it is accepted, ref and cpu must both agree with
 * the model. Input: operator, 4 bytes of seed, then changes of 4 bytes each. */
#include "case.h"
#include <snls/snls.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

typedef struct Bytes { const uint8_t *at, *end; } Bytes;

static uint8_t take(Bytes *b) { return b->at < b->end ? *b->at++ : 0; }

static SnlsTensor *slot_number(Call *call, uint8_t n)
{
    int count = 0;
    while (call->op->test->slots[count].name) count++;
    return call_tensor(call, &call->op->test->slots[n % count]);
}

/* From a byte: small steps from what is there, and the numbers that break arithmetic. */
static int64_t odd_number(int64_t now, uint8_t code)
{
    static const int64_t odd[] = {0, 1, -1, 2, INT64_MAX, INT64_MIN, INT32_MAX, (int64_t)1 << 31, (int64_t)1 << 32, (int64_t)1 << 62, -((int64_t)1 << 62), 255, 65536};
    if (code < 16) return now + code - 8;
    if (code < 16 + 13) return odd[code - 16];
    return code < 64 ? code - 32 : now;
}

static bool tensor_unmoved(const SnlsTensor *t)
{
    const int64_t size = snls_dtype_size((SnlsDtype)t->dtype);
    return size > 1 && (uintptr_t)t->data % (uintptr_t)size == 0;
}

static void change_tensor(Call *call, uint8_t which, uint8_t field, uint8_t code)
{
    SnlsTensor *t = slot_number(call, which);
    const int axis = field % 8;
    switch (field / 8) {
    case 0: t->shape[axis] = odd_number(t->shape[axis], code); break;
    case 1: t->stride[axis] = odd_number(t->stride[axis], code); break;
    case 2: t->ndim = (int32_t)odd_number(t->ndim, code); break;
    case 3: t->dtype = code % 8 == 7 ? (int32_t)odd_number(t->dtype, code) : code % 8; break;
    case 4: t->device = code % 4; break;
    case 5: if (t->data && tensor_unmoved(t)) t->data = (char *)t->data + (code % 2 ? 1 : -1); break; /* an element lies before and after */
    case 6: t->data = NULL; break;
    case 7: t->stride[axis] = -t->stride[axis]; break;
    default: break;
    }
}

/* Sides are kept small, for the time of a call grows with them; everything else may be anything. */
static void change_option(Call *call, uint8_t which, uint8_t code)
{
    int count = 0;
    const SnlsOption *table = snls_options(call->op->name), *o;
    while (table[count].name) count++;
    o = &table[which % count];
    char *at = (char *)&call->s + o->offset;
    if (o->type == SNLS_OPTION_REAL) {
        static const double odd[] = {0, 1, 0.5, 1e-6, 1e6, 0.3, 7, -1, NAN, INFINITY, 1.0000001, 1e-7, 2};
        memcpy(at, &odd[code % 13], sizeof(double));
        return;
    }
    int32_t value;
    memcpy(&value, at, sizeof value);
    const int64_t wanted = odd_number(value, code);
    const bool side = !strcmp(o->name, "ws") || !strcmp(o->name, "wr") || !strcmp(o->name, "ps");
    value = side && wanted > 12 && wanted <= 32767 ? 12 : (int32_t)wanted;
    memcpy(at, &value, sizeof value);
}

static bool is_sound(const SnlsTensor *t)
{
    bool absurd;
    const int64_t size = snls_dtype_size((SnlsDtype)t->dtype);
    return t->data && size > 0 && (uintptr_t)t->data % (uintptr_t)size == 0 && t->ndim >= 0 && t->ndim <= SNLS_MAX_DIM && tensor_fits(t, &absurd) && !absurd &&
           snls_tensor_elements(t) > 0;
}

static void change_value(Call *call, uint8_t which, uint8_t place, uint8_t code)
{
    static const double odd[] = {0, -0.0, NAN, INFINITY, -INFINITY, 1e30, -1e30, 1e-40, 0.5, 3.5, 1e9, -0.25};
    const SnlsTensor *t = slot_number(call, which);
    if (is_sound(t) && t->dtype != SNLS_I32 && t->dtype != SNLS_U8) tensor_set(t, place * 7919 % snls_tensor_elements(t), odd[code % 12]);
}

/* Numbers so large or small that f32 and f64 part, where values enter sums; what only says where things are may be anything. */
static bool is_wild(Call *call)
{
    for (const Slot *s = call->op->test->slots; s->name; s++) {
        const SnlsTensor *t = call_tensor(call, s);
        const bool motion = s->role == ROLE_IN && (!strcmp(s->name, "flow") || !strcmp(s->name, "centre") || !strcmp(s->name, "offset"));
        if (s->role == ROLE_OUT || motion || !is_sound(t)) continue;
        for (int64_t i = snls_tensor_elements(t); i-- > 0;) {
            const double x = fabs(tensor_get(t, i));
            if (x > 1e4 || (x < 1e-6 && x > 0)) return true;
            if (isnan(x) && !strcmp(call->op->name, "flow_compose")) return true; /* the model walks nowhere then */
        }
    }
    return false;
}

/* All memory that the call speaks of is there, or could be nowhere. */
static bool memory_is_there(Call *call)
{
    for (const Slot *s = call->op->test->slots; s->name; s++) {
        bool absurd;
        const SnlsTensor *t = call_tensor(call, s);
        if (!t->data) continue;
        if (!tensor_fits(t, &absurd) && !absurd) return false;
        if (!absurd && snls_tensor_elements(t) > 100000) return false; /* broadcast: legal, but no quick call */
    }
    return true;
}

static void mark_all(Call *call)
{
    for (const Slot *s = call->op->test->slots; s->name; s++)
        if (call_tensor(call, s)->data) tensor_mark(call_tensor(call, s));
}

static void run(Call *call, SnlsContext *ctx, double eps, bool compare)
{
    if (call_forward(call, ctx) < 0) {
        call_backward(call, ctx); /* whatever the outputs hold */
        return;
    }
    if (compare) call->op->test->check_forward(call, eps);
    if (call_backward(call, ctx) >= 0 && compare) call->op->test->check_backward(call, eps);
}

/* The work a call may be, so that a fuzzer's second holds many. */
static bool quick(const Call *call)
{
    const SnlsSearchParams *p = &call->s.search.params;
    if (!strncmp(call->op->name, "search", 6)) return (double)p->ws * p->ws * p->ps * p->ps * (2.0 * p->wt + 1) < 4000 && p->ws < 400;
    if (!strcmp(call->op->name, "refine")) return (double)call->s.refine.params.wr * call->s.refine.params.wr * call->s.refine.params.ps * call->s.refine.params.ps < 4000;
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static SnlsContext *ref, *cpu[SNLS_CPU_AMX_FP16 + 1];
    Bytes b = {bytes, bytes + size};
    Call call;
    if (!ref) {
        ref = context_open("ref", 0, 1);
        for (int32_t level = 1; level <= snls_cpu_level_max(); level++) cpu[level] = context_open("cpu", level, 1);
    }
    draw_budget = 0.01;
    const Operator *op = &operators[take(&b) % operator_count];
    uint64_t seed = 0;
    for (int i = 0; i < 4; i++) seed = seed << 8 | take(&b);
    call_make(&call, op, seed, CALL_ANY);
    while (b.end - b.at >= 4) {
        const uint8_t kind = take(&b), which = take(&b), field = take(&b), code = take(&b);
        if (kind % 4 == 0) change_option(&call, which, code);
        else if (kind % 4 == 1) change_value(&call, which, field, code);
        else change_tensor(&call, which, field % 64, code);
    }
    if (memory_is_there(&call) && quick(&call)) {
        const bool wild = is_wild(&call);
        mark_all(&call);
        run(&call, ref, EPS_F64, !wild);
        for (int32_t level = 1; level <= snls_cpu_level_max(); level++) run(&call, cpu[level], EPS_F32, !wild);
        Call shape = call;
        op->shape(ref, &shape);
    }
    tensors_free();
    if (check_failures()) abort();
    return 0;
}
