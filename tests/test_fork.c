/* test_fork.c: a process that was forked, whose parent had used OpenMP: with a context of one thread it can do everything, networks too. A child that
 * waits for threads that the fork has left behind is ended by its alarm.
 *   test_fork */
/* ctest: */
/* ctest: name=blas env=DNNL_MAX_CPU_ISA=AVX2 */
#define _POSIX_C_SOURCE 200809L /* fork, alarm */
#include "drawn.h"
#include "spec.h"
#include <math.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FRAMES = 5, SIDE = 40, PATIENCE = 100 }; /* seconds */

static SnlsContext *open_threads(int32_t threads)
{
    SnlsContext *ctx = NULL;
    CHECK(snls_open(&ctx, &(SnlsContextParams){ .backend = "cpu", .threads = threads }) >= 0, "no context");
    return ctx;
}

static bool run_operators(SnlsContext *ctx)
{
    bool all = true;
    for (int i = 0; i < operator_count; i++) {
        Call call;
        call_make(&call, &operators[i], 5, CALL_SMALL);
        all &= call_forward(&call, ctx) >= 0 && call_backward(&call, ctx) >= 0;
        tensors_free();
    }
    return all;
}

/* Bands of few rows, which several threads would share. */
static bool run_network(SnlsContext *ctx)
{
    const int64_t shape[4] = { FRAMES, SIDE, SIDE, 3 }, floats = FRAMES * SIDE * SIDE * 3;
    float *noisy = draw_clip(floats, 3), *out = check_alloc(floats, sizeof *out);
    SnlsModel m = make_model(ctx, &snls_stan_s, SNLS_F32, &(StanSConfig){ .width = 8, .blocks = 1, .ws = 3, .wt = 1 });
    m.params.rows = 3;
    const SnlsModelRun r = { .frames = snls_tensor(noisy, SNLS_F32, 4, shape), .out = snls_tensor(out, SNLS_F32, 4, shape), .count = FRAMES, .sigma = DRAWN_SIGMA };
    const bool done = snls_model_run(&m, &r) >= 0 && isfinite(out[0]);
    free_model(&m);
    tensors_free();
    return done;
}

static int child(void)
{
    alarm(PATIENCE);
    SnlsContext *ctx = open_threads(1);
    const bool done = ctx && run_operators(ctx) && run_network(ctx);
    if (!done) printf("the child: %s\n", ctx ? snls_error(ctx) : "no context");
    snls_close(&ctx);
    return done ? 0 : 1;
}

static void child_works(const char *when)
{
    int status = 0;
    fflush(stdout);
    const pid_t pid = fork();
    if (!pid) {
        const int code = child();
        fflush(stdout);
        _exit(code);
    }
    if (!CHECK(pid > 0 && waitpid(pid, &status, 0) == pid, "no child")) return;
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "a child forked after %s %s %d", when, WIFSIGNALED(status) ? "got signal" : "returned", WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

int main(int argc, char **argv)
{
    SnlsContext *ctx = open_threads(3);
    (void)argc;
    check_repeat("%s", argv[0]);
    CHECK(run_operators(ctx), "operators: %s", snls_error(ctx));
    child_works("operators on three threads");
    CHECK(run_network(ctx), "a network: %s", snls_error(ctx));
    child_works("a network on three threads");
    snls_close(&ctx);
    return check_end();
}
