/* test_fault_model.c: memory that runs out while a network runs or learns: the n-th allocation of a call fails, for every n. The
 * call says so, and the same call again gives the bits that it gives where nothing fails.
 *   test_fault_model */
/* ctest: */
/* ctest: name=blas env=DNNL_MAX_CPU_ISA=AVX2 */
#include "drawn.h"
#include "faults.h"
#include <snls/snls.h>
#include <string.h>

enum { FRAMES = 7, SIDE = 16, FRAME = SIDE * SIDE * 3 };

static const StanSConfig config = { .width = 4, .blocks = 2, .ws = 3, .wt = 1 };
static float clip[FRAMES * FRAME];

static SnlsContext *open_memory(CountedMemory *m)
{
    SnlsContext *ctx = NULL;
    *m = (CountedMemory){ .fail_at = -1 };
    CHECK(open_counted(m, "cpu", &ctx) == SNLS_OK, "no context");
    return ctx;
}

static void close_memory(SnlsContext *ctx, const CountedMemory *m, const char *what, int64_t n)
{
    snls_close(&ctx);
    CHECK(m->live == 0, "%s, allocation %d fails: %d blocks are left", what, (int)n, (int)m->live);
}

/* The next allocations count from 0; true when the n-th of them has been reached. */
static void fail_from_here(CountedMemory *m, int64_t n) { m->fail_at = m->made + n; }

static bool has_failed(CountedMemory *m)
{
    const bool reached = m->made > m->fail_at;
    m->fail_at = -1;
    return reached;
}

/* ---- a run ---- */

static SnlsStatus run(SnlsModel *m, float *out)
{
    const int64_t shape[4] = { FRAMES, SIDE, SIDE, 3 };
    const SnlsModelRun r = { .frames = snls_tensor(clip, SNLS_F32, 4, shape), .out = snls_tensor(out, SNLS_F32, 4, shape), .count = FRAMES, .sigma = 20 };
    return snls_model_run(m, &r);
}

/* Returns whether allocation n was reached. */
static bool run_fails_at(const Architecture *a, int32_t dtype, int64_t n, const float *want, float *out)
{
    CountedMemory memory;
    SnlsContext *ctx = open_memory(&memory);
    SnlsModel m = make_model(ctx, a, dtype, &config);
    fail_from_here(&memory, n);
    const SnlsStatus status = run(&m, out);
    const bool failed = has_failed(&memory);
    CHECK(status >= 0 || (failed && status == SNLS_ERR_MEMORY), "%s, allocation %d of a run fails: %s", a->name, (int)n, snls_error(ctx));
    CHECK(run(&m, out) >= 0, "%s does not run after allocation %d failed: %s", a->name, (int)n, snls_error(ctx));
    CHECK(!want || !memcmp(out, want, sizeof clip), "%s has other bits after allocation %d failed", a->name, (int)n);
    free_model(&m);
    close_memory(ctx, &memory, a->name, n);
    return failed;
}

static void run_fails(const Architecture *a, int32_t dtype)
{
    static float want[FRAMES * FRAME], out[FRAMES * FRAME];
    run_fails_at(a, dtype, 1 << 20, NULL, want);
    for (int64_t n = 0; run_fails_at(a, dtype, n, want, out); n++) continue;
}

/* ---- steps of a training ---- */

typedef struct Reports { SnlsTrainReport r[2]; } Reports;

static bool training_fails_at(int64_t n, const Reports *want, Reports *got)
{
    CountedMemory memory;
    SnlsContext *ctx = open_memory(&memory);
    SnlsTrainer *t = NULL;
    SnlsTrainParams p;
    const SnlsTensor frames = snls_tensor(clip, SNLS_F32, 4, (const int64_t[]){ FRAMES, SIDE, SIDE, 3 });
    snls_train_defaults(&p);
    p.width = 4, p.blocks = 1, p.ws = 3, p.wt = 1, p.frames = 3, p.crop = 16, p.batch = 1, p.steps = 3, p.warmup = 1;
    CHECK(snls_trainer_open(&t, ctx, &p) >= 0 && snls_trainer_add_clip(t, &frames) >= 0, "%s", snls_error(ctx));
    fail_from_here(&memory, n);
    SnlsStatus status = snls_trainer_step(t, &got->r[0]);
    const bool failed = has_failed(&memory);
    CHECK(failed ? status == SNLS_ERR_MEMORY : status >= 0, "allocation %d of a step fails: status %d (%s)", (int)n, (int)status, status < 0 ? snls_error(ctx) : "");
    for (int i = status < 0 ? 0 : 1; i < 2; i++) CHECK(snls_trainer_step(t, &got->r[i]) >= 0, "no step after allocation %d failed: %s", (int)n, snls_error(ctx));
    for (int i = 0; want && i < 2; i++)
        CHECK(got->r[i].loss == want->r[i].loss && got->r[i].norm == want->r[i].norm && got->r[i].step == want->r[i].step, "step %d after allocation %d failed: loss %.9g, norm %.9g, not %.9g, %.9g", i, (int)n,
              got->r[i].loss, got->r[i].norm, want->r[i].loss, want->r[i].norm);
    snls_trainer_close(&t);
    close_memory(ctx, &memory, "training", n);
    return failed;
}

static void training_fails(void)
{
    Reports want, got;
    training_fails_at(1 << 20, NULL, &want);
    for (int64_t n = 0; training_fails_at(n, &want, &got); n++) continue;
}

int main(int argc, char **argv)
{
    float *drawn = draw_clip(FRAMES * FRAME, 9);
    memcpy(clip, drawn, sizeof clip);
    (void)argc;
    check_repeat("%s", argv[0]);
    run_fails(&snls_stan_s, SNLS_F32);
    run_fails(&snls_stan_s, SNLS_BF16);
    training_fails();
    return check_end();
}
