/* test_ops.c: every operator on every backend against the model: forward, backward, run again, on 1, 2 and 3 threads.
 *   test_ops [--backend ref|cpu|cuda] [--level c|avx2|avx512|vnni|amx|amx_fp16|neon|bf16] [--op NAME] [SEED [COUNT]]
 * Without --backend: ref, then cpu at every level the machine has; cuda alone where it is asked for. A seed is one call of one operator. */
/* ctest: name=search sanitized=100 args=--op search 1 200 */
/* ctest: name=search_all sanitized=40 args=--op search_all 1 80 */
/* ctest: name=refine sanitized=50 args=--op refine 1 160 */
/* ctest: name=flow_compose sanitized=80 args=--op flow_compose 1 160 */
/* ctest: name=weights sanitized=60 args=--op weights 1 120 */
/* ctest: name=gather sanitized=60 args=--op gather 1 120 */
/* ctest: name=gather_add sanitized=80 args=--op gather_add 1 160 */
/* ctest: name=scatter_add sanitized=60 args=--op scatter_add 1 160 */
/* ctest: name=cuda-search label=cuda args=--backend cuda --op search 1 600 */
/* ctest: name=cuda-search_all label=cuda args=--backend cuda --op search_all 1 200 */
/* ctest: name=cuda-refine label=cuda args=--backend cuda --op refine 1 300 */
/* ctest: name=cuda-flow_compose label=cuda args=--backend cuda --op flow_compose 1 300 */
/* ctest: name=cuda-weights label=cuda args=--backend cuda --op weights 1 200 */
/* ctest: name=cuda-gather label=cuda args=--backend cuda --op gather 1 300 */
/* ctest: name=cuda-gather_add label=cuda args=--backend cuda --op gather_add 1 300 */
/* ctest: name=cuda-scatter_add label=cuda args=--backend cuda --op scatter_add 1 300 */
/* ctest: name=many label=slow timeout=1800 args=1000000 30 */
#include "case.h"
#include <snls/snls.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREAD_COUNTS = 3, LEVELS = 5 };

typedef struct Options { const char *backend; int32_t level; const Operator *op; uint64_t seed, count; } Options;
typedef struct Contexts { SnlsContext *ref, *cpu[LEVELS + 1][THREAD_COUNTS], *cuda[2]; } Contexts; /* cuda: fast, deterministic */

/* What ref gave, for the cases whose arithmetic is exact. */
typedef struct Exact { double *out[8]; } Exact;

static void keep_exact(Call *call, Exact *exact)
{
    int n = 0;
    for (const Slot *s = call->op->test->slots; s->name; s++)
        if (s->role == ROLE_OUT) exact->out[n++] = tensor_doubles(call_tensor(call, s));
}

static void compare_exact(Call *call, const Exact *exact)
{
    int n = 0;
    for (const Slot *s = call->op->test->slots; s->name; s++)
        if (s->role == ROLE_OUT) check_same_values(s->name, call_tensor(call, s), exact->out[n++]);
}

static void run_again(Call *call, SnlsContext *ctx, const uint64_t hash[2])
{
    const int threads = (int)snls_threads(ctx);
    call_forward(call, ctx);
    CHECK(call_hash(call, ROLE_OUT) == hash[0], "%s forward: other bits when run again on %d threads", call->op->name, threads);
    call_backward(call, ctx);
    CHECK(call_hash(call, ROLE_GRAD_OUT) == hash[1], "%s backward: other bits when run again on %d threads", call->op->name, threads);
}

static void run_cpu(Call *call, SnlsContext *const *ctx, const Exact *exact)
{
    uint64_t hash[2];
    if (call_has_f64(call)) { /* f64 is ref's alone; refused whole, in one sentence */
        CHECK(call_forward(call, ctx[0]) == SNLS_ERR_UNSUPPORTED, "%s: f64 was not refused", call->op->name);
        return;
    }
    if (!call_checked(call, ctx[0], EPS_F32, hash)) return;
    if (exact) compare_exact(call, exact);
    for (int i = 0; i < THREAD_COUNTS; i++) run_again(call, ctx[i], hash);
}

/* The fast context may sum gradients in another order each time, never forward. */
static void run_cuda(Call *call, SnlsContext *const *ctx, const Exact *exact)
{
    uint64_t fast[2], hash[2];
    if (call_has_f64(call)) {
        CHECK(call_forward(call, ctx[0]) == SNLS_ERR_UNSUPPORTED, "%s: f64 was not refused", call->op->name);
        return;
    }
    if (!call_checked(call, ctx[0], EPS_F32, fast) || !call_checked(call, ctx[1], EPS_F32, hash)) return;
    CHECK(fast[0] == hash[0], "%s forward: other bits in deterministic mode", call->op->name);
    for (int i = 0; i < 2; i++) run_again(call, ctx[1], hash);
    call_forward(call, ctx[1]); /* what run_again left is backward's */
    if (exact) compare_exact(call, exact);
}

static void run_case(const Contexts *c, const Operator *op, uint64_t seed)
{
    Call call;
    Exact exact;
    uint64_t hash[2];
    call_make(&call, op, seed, CALL_ANY);
    check_repeat("test_ops --backend ref --op %s %llu", op->name, (unsigned long long)seed);
    const bool ran = call_checked(&call, c->ref, EPS_F64, hash);
    if (ran) keep_exact(&call, &exact);
    if (ran) run_again(&call, c->ref, hash);
    for (int32_t level = 1; level <= LEVELS; level++) {
        if (!c->cpu[level][0]) continue;
        check_repeat("test_ops --backend cpu --level %s --op %s %llu", snls_cpu_level_name(level), op->name, (unsigned long long)seed);
        run_cpu(&call, c->cpu[level], ran && call.exact ? &exact : NULL);
    }
    if (c->cuda[0]) {
        check_repeat("test_ops --backend cuda --op %s %llu", op->name, (unsigned long long)seed);
        run_cuda(&call, c->cuda, ran && call.exact ? &exact : NULL);
    }
    tensors_free();
}

static void open_all(Contexts *c, const Options *o)
{
    c->ref = context_open("ref", 0, 1);
    if (o->backend && !strcmp(o->backend, "ref")) return;
    for (int i = 0; i < 2 && o->backend && !strcmp(o->backend, "cuda"); i++) c->cuda[i] = context_open_cuda(i);
    if (c->cuda[0]) return;
    for (int32_t level = 1; level <= LEVELS; level++)
        for (int32_t i = 0; i < THREAD_COUNTS; i++)
            if (level <= snls_cpu_level_max() && (!o->level || o->level == level)) c->cpu[level][i] = context_open("cpu", level, i + 1);
}

static void close_all(Contexts *c)
{
    snls_close(&c->ref);
    for (int i = 0; i < 2; i++) snls_close(&c->cuda[i]);
    for (int32_t level = 1; level <= LEVELS; level++)
        for (int32_t i = 0; i < THREAD_COUNTS; i++) snls_close(&c->cpu[level][i]);
}

static int usage(void)
{
    printf("usage: test_ops [--backend ref|cpu|cuda] [--level c|avx2|avx512|vnni|amx|amx_fp16|neon|bf16] [--op NAME] [SEED [COUNT]]\n");
    return 2;
}

static bool parse(Options *o, int argc, char **argv)
{
    int numbers = 0;
    for (int i = 1; i < argc; i++) {
        const char *next = i + 1 < argc ? argv[i + 1] : NULL;
        if (argv[i][0] != '-') {
            *(numbers++ ? &o->count : &o->seed) = strtoull(argv[i], NULL, 10);
            continue;
        }
        if (!next) return false;
        if (!strcmp(argv[i], "--backend")) o->backend = next;
        else if (!strcmp(argv[i], "--op")) o->op = operator_named(next);
        else if (!strcmp(argv[i], "--level"))
            for (int32_t l = 1; l <= LEVELS; l++) o->level = !strcmp(next, snls_cpu_level_name(l)) ? l : o->level;
        else return false;
        if (!strcmp(argv[i], "--op") && !o->op) return false;
        if (!strcmp(argv[i], "--level") && !o->level) return false;
        i++;
    }
    if (numbers == 0) o->count = 100;
    return numbers < 3;
}

int main(int argc, char **argv)
{
    Options o = {.seed = 1, .count = 1};
    Contexts c = {0};
    if (!parse(&o, argc, argv)) return usage();
    open_all(&c, &o);
    for (uint64_t seed = o.seed; seed < o.seed + o.count; seed++)
        for (int i = 0; i < operator_count; i++)
            if (!o.op || o.op == &operators[i]) run_case(&c, &operators[i], seed);
    close_all(&c);
    return check_end();
}
