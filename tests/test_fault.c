/* test_fault.c: memory that runs out: the n-th allocation fails, for every n, in everything that allocates. The call says so, holds
 * nothing, and works when there is memory again. And: the second of two equal calls allocates nothing. */
#define _POSIX_C_SOURCE 200809L /* getpid */
#include "faults.h"
#include "spec.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void open_fails(const char *backend)
{
    for (int64_t n = 0;; n++) {
        CountedMemory m = {.fail_at = n};
        SnlsContext *ctx = (SnlsContext *)(void *)&m;
        const SnlsStatus status = open_counted(&m, backend, 3, &ctx);
        const bool reached = m.made > n;
        CHECK(reached ? status == SNLS_ERR_MEMORY && !ctx : status == SNLS_OK, "open %s, allocation %d fails: status %d", backend, (int)n, (int)status);
        snls_close(&ctx);
        CHECK(m.live == 0, "open %s, allocation %d fails: %d blocks are left", backend, (int)n, (int)m.live);
        if (!reached) return;
    }
}

typedef SnlsStatus (*Direction)(Call *call, SnlsContext *ctx);

/* One direction in a fresh context, every allocation failing in turn; forward has run where backward is tried. */
static void direction_fails(Call *call, const char *backend, Direction run, const char *name)
{
    for (int64_t n = 0;; n++) {
        CountedMemory m = {.fail_at = -1};
        SnlsContext *ctx = NULL;
        if (!CHECK(open_counted(&m, backend, 3, &ctx) == SNLS_OK, "open %s", backend)) return;
        m.fail_at = m.made + n;
        const SnlsStatus status = run(call, ctx);
        const bool reached = m.made > m.fail_at;
        CHECK(reached ? status == SNLS_ERR_MEMORY : status >= 0, "%s %s on %s, allocation %d fails: status %d (%s)", call->op->name, name, backend, (int)n,
              (int)status, status < 0 ? snls_error(ctx) : "");
        m.fail_at = -1;
        CHECK(run(call, ctx) >= 0, "%s %s on %s does not work after a failed allocation: %s", call->op->name, name, backend, snls_error(ctx));
        const int64_t made = m.made;
        const uint64_t hash = call_hash(call, ROLE_OUT) ^ call_hash(call, ROLE_GRAD_OUT);
        CHECK(run(call, ctx) >= 0 && m.made == made, "%s %s on %s: the second call made %d allocations", call->op->name, name, backend, (int)(m.made - made));
        CHECK(hash == (call_hash(call, ROLE_OUT) ^ call_hash(call, ROLE_GRAD_OUT)), "%s %s on %s: another result the second time", call->op->name, name, backend);
        snls_scratch_release(ctx);
        CHECK(snls_scratch_bytes(ctx) == 0 && run(call, ctx) >= 0, "%s %s on %s after its scratch was released", call->op->name, name, backend);
        snls_close(&ctx);
        CHECK(m.live == 0, "%s %s on %s, allocation %d fails: %d blocks are left", call->op->name, name, backend, (int)n, (int)m.live);
        if (!reached) return;
    }
}

/* Steady state over all operators in one context: the arena has grown, then nothing more is taken. */
static void steady_state(const char *backend)
{
    CountedMemory m = {.fail_at = -1};
    SnlsContext *ctx = NULL;
    int64_t made = 0;
    if (!CHECK(open_counted(&m, backend, 3, &ctx) == SNLS_OK, "open %s", backend)) return;
    for (int round = 0; round < 3; round++) {
        made = m.made;
        for (int i = 0; i < operator_count; i++) {
            Call call;
            call_make(&call, &operators[i], 5, CALL_SMALL);
            CHECK(call_forward(&call, ctx) >= 0 && call_backward(&call, ctx) >= 0, "%s: %s", operators[i].name, snls_error(ctx));
            tensors_free();
        }
    }
    CHECK(m.made == made, "%s: %d allocations in steady state", backend, (int)(m.made - made));
    snls_close(&ctx);
}

static void operators_fail(const char *backend)
{
    for (int i = 0; i < operator_count; i++) {
        Call call;
        call_make(&call, &operators[i], 5, CALL_SMALL);
        check_repeat("test_fault (%s on %s)", operators[i].name, backend);
        direction_fails(&call, backend, call_forward, "forward");
        direction_fails(&call, backend, call_backward, "backward");
        tensors_free();
    }
}

/* ---- arrays and files ---- */

static char path[128];

static SnlsStatus use_alloc(SnlsContext *ctx)
{
    SnlsTensor t;
    memset(&t, 0, sizeof t);
    const SnlsStatus status = snls_array_alloc(ctx, &t, SNLS_F32, SHAPE(2, 3));
    CHECK(status == SNLS_OK || !t.data, "a failed array_alloc has data");
    snls_array_free(ctx, &t);
    snls_array_free(ctx, &t);
    return status;
}

static SnlsStatus use_write(SnlsContext *ctx)
{
    float values[6] = {1, 2, 3, 4, 5, 6};
    SnlsTensor t = snls_tensor(values, SNLS_F32, SHAPE(2, 3));
    const int32_t order[2] = {1, 0};
    snls_tensor_permute(&t, order); /* not contiguous: the writer has to gather */
    const SnlsStatus status = snls_npy_write(ctx, path, &t);
    CHECK(status == SNLS_OK || access(path, F_OK) != 0, "a failed write leaves its file");
    return status;
}

static SnlsStatus use_read(SnlsContext *ctx)
{
    SnlsTensor t;
    const SnlsStatus status = snls_npy_read(ctx, path, &t);
    CHECK(status == SNLS_OK || !t.data, "a failed read has data");
    if (status == SNLS_OK) CHECK(t.shape[0] == 3 && t.shape[1] == 2 && tensor_get(&t, 1) == 4, "read back: %g", tensor_get(&t, 1));
    if (status == SNLS_OK) snls_array_free(ctx, &t);
    return status;
}

static void io_fails(SnlsStatus (*use)(SnlsContext *), const char *name)
{
    for (int64_t n = 0;; n++) {
        CountedMemory m = {.fail_at = -1};
        SnlsContext *ctx = NULL;
        if (!CHECK(open_counted(&m, "cpu", 3, &ctx) == SNLS_OK, "open")) return;
        m.fail_at = m.made + n;
        const SnlsStatus status = use(ctx);
        const bool reached = m.made > m.fail_at;
        CHECK(reached ? status == SNLS_ERR_MEMORY && *snls_error(ctx) : status == SNLS_OK, "%s, allocation %d fails: status %d", name, (int)n, (int)status);
        m.fail_at = -1;
        CHECK(use(ctx) == SNLS_OK, "%s does not work after a failed allocation: %s", name, snls_error(ctx));
        snls_close(&ctx);
        CHECK(m.live == 0, "%s, allocation %d fails: %d blocks are left", name, (int)n, (int)m.live);
        if (!reached) return;
    }
}

int main(void)
{
    static const char *const backends[] = {"ref", "cpu"};
    const char *tmp = getenv("TMPDIR");
    snprintf(path, sizeof path, "%.80s/snls_test_fault_%ld.npy", tmp && *tmp ? tmp : "/tmp", (long)getpid());
    for (int b = 0; b < 2; b++) {
        check_repeat("test_fault (%s)", backends[b]);
        open_fails(backends[b]);
        operators_fail(backends[b]);
        steady_state(backends[b]);
    }
    check_repeat("test_fault");
    io_fails(use_alloc, "array_alloc");
    io_fails(use_write, "npy_write");
    io_fails(use_read, "npy_read");
    remove(path);
    return check_end();
}
