/* device.c: the same cases on a GPU: tensors copied there, time by the device's own clock, ceilings of the device, and the goals that
 * were set for it. */
#include "bench.h"
#include <math.h>
#include <string.h>

bool bench_on_device(const BenchSettings *s) { return s->context.backend && !strcmp(s->context.backend, "cuda"); }

/* ---- tensors ---- */

static SnlsStatus move_tensor(SnlsContext *ctx, SnlsTensor *t)
{
    if (!t->data || t->device != SNLS_DEVICE_CPU) return SNLS_OK;
    const int64_t bytes = snls_tensor_elements(t) * snls_dtype_size((SnlsDtype)t->dtype);
    void *there = NULL;
    SnlsStatus status = snls_device_alloc(ctx, &there, bytes);
    if (status >= 0) status = snls_device_copy(ctx, there, t->data, bytes, SNLS_COPY_TO_DEVICE);
    if (status < 0) {
        snls_device_free(ctx, there);
        return status;
    }
    snls_array_free(ctx, t);
    t->data = there;
    t->device = snls_device_type(ctx);
    return SNLS_OK;
}

SnlsStatus bench_call_move(BenchCall *c)
{
    SnlsStatus status = SNLS_OK;
    for (int i = 0; i < c->op->count && status >= 0; i++) {
        status = move_tensor(c->ctx, bench_tensor(c, i));
        if (status >= 0 && bench_grad(c, i)) status = move_tensor(c->ctx, bench_grad(c, i));
    }
    return status;
}

/* ---- time ---- */

static SnlsStatus timed_calls(BenchTimed *t, int calls, double *seconds)
{
    BenchCall *c = t->call;
    double ms;
    SnlsStatus status = snls_device_clock(t->ctx, &ms);
    for (int i = 0; i < calls && status >= 0; i++)
        status = t->backward ? c->op->backward(t->ctx, &c->tensors, &c->grads) : c->op->forward(t->ctx, &c->tensors);
    if (status >= 0) status = snls_device_clock(t->ctx, &ms);
    *seconds = ms * 1e-3 / calls;
    return status;
}

/* Several calls between two readings, so that what it takes to start one does not count for more than it does in use. */
SnlsStatus bench_device_time(BenchTimed *t, int32_t runs)
{
    double one;
    SnlsStatus status = timed_calls(t, 1, &one); /* takes scratch, loads the kernels */
    if (status >= 0) status = timed_calls(t, 1, &one);
    const int calls = one < 0.1e-3 ? 20 : one < 2e-3 ? (int)(2e-3 / one) + 1 : 1;
    for (t->runs = 0; status >= 0 && t->runs < runs && t->runs < BENCH_RUNS; t->runs++)
        status = timed_calls(t, calls, &t->times[t->runs]);
    return status;
}

/* ---- ceilings ---- */

SnlsStatus bench_device_ceilings(SnlsContext *ctx, BenchMachine *m, BenchCeilings *c)
{
    double copy, read, atomics;
    SnlsStatus status = snls_device_rate(ctx, SNLS_RATE_FMA, &c->fma_rate);
    if (status >= 0) status = snls_device_rate(ctx, SNLS_RATE_COPY, &copy);
    if (status >= 0) status = snls_device_rate(ctx, SNLS_RATE_READ, &read);
    if (status >= 0) status = snls_device_rate(ctx, SNLS_RATE_ATOMIC, &atomics);
    if (status < 0) return status;
    snprintf(m->model, sizeof m->model, "%s", snls_device_name(ctx));
    c->threads = 1;
    c->atomic_rate = atomics;
    c->count = 2;
    c->rungs[0] = (BenchRung){ "copy", INFINITY, 0x1p30, copy };
    c->rungs[1] = (BenchRung){ "read", INFINITY, 0x1p30, read };
    return SNLS_OK;
}

/* ---- goals ---- */

typedef struct Goal {
    const char *work;
    const char *op[3], *name; /* the operators whose times are added, and how the case's name ends after the group */
    const char *group;
    bool forward, backward;
    double ms;
} Goal;

/* clang-format off */
static const Goal goals[] = {
    {"A F32 search, smooth flow",           {"search"}, " F32 ws9 ps1 k3 prod smooth",        "A", true, false, 1.2},
    {"A F32 search, stride1 0.5",           {"search"}, " F32 ws9 ps1 k3 prod smooth s1 0.5", "A", true, false, 1.2},
    {"A F128 search, smooth flow",          {"search"}, " F128 ws9 ps1 k3 prod smooth",       "A", true, false, 4},
    {"A F32 search, random flow of 30 px",  {"search"}, " F32 ws9 ps1 k3 prod random",        "A", true, false, 4},
    {"A F32 search, forward and backward",  {"search"}, " F32 ws9 ps1 k3 prod smooth",        "A", true, true,  4},
    {"B ws 9 ps 7 search",                  {"search"}, " F192 ws9 ps7 k3 prod smooth",       "B", true, false, 30},
    {"C attention, forward",                {"search", "weights", "gather_add"}, NULL,        "C", true, false, 1},
    {"C attention, forward and backward",   {"search", "weights", "gather_add"}, NULL,        "C", true, true,  3},
    {"D gather_add F32 ps 3, forward",      {"gather_add"}, " F32 ps3 k10",                   "D", true, false, 1.5},
    {"D gather_add F32 ps 3, f. and b.",    {"gather_add"}, " F32 ps3 k10",                   "D", true, true,  6},
};
/* clang-format on */

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && !strcmp(text + n - m, end);
}

static bool counts_for(const Goal *goal, const char *op, const BenchResult *one)
{
    return !strcmp(one->which.op, op) && !strcmp(one->which.group, goal->group) &&
           (!goal->name || ends_with(one->which.name, goal->name)) && (one->backward ? goal->backward : goal->forward);
}

/* Milliseconds of everything the goal is about; NaN where something was not run. */
static double measured_ms(const BenchReport *r, const Goal *goal)
{
    double sum = 0;
    for (int i = 0; i < 3 && goal->op[i]; i++) {
        int found = 0;
        for (int j = 0; j < r->count; j++)
            if (counts_for(goal, goal->op[i], &r->results[j])) {
                sum += r->results[j].seconds * 1e3;
                found++;
            }
        if (found < goal->forward + goal->backward) return NAN;
    }
    return sum;
}

/* Most scratch above 64 MiB, in percent of inputs and outputs; NaN where nothing was run. */
static BenchTarget memory_target(const BenchReport *r)
{
    BenchTarget t = { .work = "scratch beyond 64 MiB, any case", .unit = "% of inputs + outputs", .sense = BENCH_AT_MOST, .goal = 2, .measured = NAN };
    for (int i = 0; i < r->count; i++) {
        const BenchResult *one = &r->results[i];
        if (one->skipped) continue;
        const double share = 100 * fmax(one->scratch - 0x1p26, 0) / one->working_set;
        if (isnan(t.measured)) t.measured = 0;
        if (share > t.measured) {
            t.measured = share;
            snprintf(t.detail, sizeof t.detail, "%.80s", one->which.name);
        }
    }
    return t;
}

static bool is_wanted(const BenchReport *r, const Goal *goal)
{
    for (int i = 0; i < 3 && goal->op[i]; i++)
        if (!bench_wants(&r->settings, goal->op[i])) return false;
    return true;
}

SnlsStatus bench_device_targets(BenchReport *r)
{
    const int count = (int)(sizeof goals / sizeof *goals);
    for (int i = 0; i <= count; i++) {
        if (i < count && !is_wanted(r, &goals[i])) continue;
        BenchTarget *grown = bench_grow(r->targets, r->target_count, &r->target_room, sizeof *grown);
        if (!grown) return SNLS_ERR_MEMORY;
        r->targets = grown;
        BenchTarget t = memory_target(r);
        if (i < count) {
            t = (BenchTarget){ .unit = "ms", .sense = BENCH_AT_MOST, .goal = goals[i].ms, .measured = measured_ms(r, &goals[i]) };
            snprintf(t.work, sizeof t.work, "%s", goals[i].work);
        }
        r->targets[r->target_count++] = t;
    }
    return SNLS_OK;
}
