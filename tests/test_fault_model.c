/* test_fault_model.c: memory that runs out while a network runs, learns or gets its frames one by one: the n-th allocation of a call fails, for every n. The
 * call says so, and the same call again gives the bits that it gives where nothing fails.
 *   test_fault_model [EACH]     every EACH-th n */
/* ctest: cost=30 sanitized=3 args=1 */
/* ctest: name=blas env=DNNL_MAX_CPU_ISA=AVX2 sanitized=3 args=1 */
#include "drawn.h"
#include "faults.h"
#include <snls/snls.h>
#include <stdlib.h>
#include <string.h>

enum { FRAMES = 7, SIDE = 16, FRAME = SIDE * SIDE * 3 };

static const StanSConfig config = { .width = 4, .blocks = 2, .ws = 3, .wt = 1 };
static float clip[FRAMES * FRAME];
static int64_t each = 1;

static SnlsContext *open_memory(CountedMemory *m)
{
    SnlsContext *ctx = NULL;
    *m = (CountedMemory){ .fail_at = -1 };
    CHECK(open_counted(m, "cpu", 3, &ctx) == SNLS_OK, "no context");
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
    const SnlsModelRun r = { .frames = snls_tensor(clip, SNLS_F32, 4, shape), .out = snls_tensor(out, SNLS_F32, 4, shape), .count = FRAMES, .sigma = DRAWN_SIGMA };
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
    for (int64_t n = 0; run_fails_at(a, dtype, n, want, out); n += each) continue;
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
    for (int64_t n = 0; training_fails_at(n, &want, &got); n += each) continue;
}

/* ---- frames one by one ---- */

typedef struct Stream { SnlsModelStream *s; float *out; int64_t pulled; } Stream;

/* A pull that fails is called again. */
static void pull_all(Stream *s, SnlsContext *ctx)
{
    SnlsStatus status = SNLS_OK;
    while (status == SNLS_OK || status == SNLS_ERR_MEMORY) {
        status = snls_model_stream_pull(s->s, s->out + s->pulled * FRAME);
        s->pulled += status == SNLS_OK;
    }
    CHECK(status == SNLS_END, "pull: %s", snls_error(ctx));
}

/* Before frame t another one is pushed, in vain, or from t on frames are pushed, pulled and finished until it works. Sigma differs from frame to frame. */
typedef struct Fault { int64_t frame, n; bool other; } Fault;

static bool push_fails(Stream *s, SnlsContext *ctx, CountedMemory *memory, const Fault *f, int64_t t)
{
    fail_from_here(memory, f->n);
    const SnlsStatus status = snls_model_stream_push(s->s, clip + (f->other ? FRAMES - 1 - t : t) * FRAME, f->other ? 50 : 10.0 + (double)t);
    const bool failed = has_failed(memory);
    CHECK(failed ? status == SNLS_ERR_MEMORY : status >= 0, "allocation %d of the push of frame %d fails: status %d (%s)", (int)f->n, (int)t, (int)status, status < 0 ? snls_error(ctx) : "");
    return status < 0;
}

static bool finish_fails(Stream *s, SnlsContext *ctx, CountedMemory *memory, int64_t n)
{
    fail_from_here(memory, n);
    const SnlsStatus status = snls_model_stream_finish(s->s);
    const bool failed = has_failed(memory);
    CHECK(failed ? status == SNLS_ERR_MEMORY : status >= 0, "allocation %d of finish fails: status %d (%s)", (int)n, (int)status, status < 0 ? snls_error(ctx) : "");
    return status < 0;
}

/* Returns whether allocation f->n of the push of frame f->frame, or of finish where there is no such frame, was reached. */
static bool stream_fails_at(int64_t frames, bool lean, const Fault *f, const float *want, float *out)
{
    CountedMemory memory;
    SnlsContext *ctx = open_memory(&memory);
    SnlsModel m = make_model(ctx, &snls_stan_s, SNLS_F32, &config);
    Stream s = { .out = out };
    bool failed = false;
    CHECK(snls_model_stream_open(&s.s, &m, &(SnlsModelStreamParams){ .height = SIDE, .width = SIDE, .lean = lean }) >= 0, "%s", snls_error(ctx));
    for (int64_t t = 0; t < frames; t++) {
        failed |= t == f->frame && push_fails(&s, ctx, &memory, f, t);
        if (t != f->frame || failed) CHECK(snls_model_stream_push(s.s, clip + t * FRAME, 10.0 + (double)t) >= 0, "push of frame %d: %s", (int)t, snls_error(ctx));
        pull_all(&s, ctx);
    }
    if (f->frame >= frames) failed = finish_fails(&s, ctx, &memory, f->n);
    if (f->frame < frames || failed) CHECK(snls_model_stream_finish(s.s) >= 0, "finish: %s", snls_error(ctx));
    pull_all(&s, ctx);
    CHECK(s.pulled == frames, "%d of %d frames came out", (int)s.pulled, (int)frames);
    if (want && (failed || !f->other)) CHECK(!memcmp(out, want, (size_t)(frames * FRAME) * sizeof *out), "%d frames, lean %d: other bits after allocation %d of the push of frame %d failed", (int)frames, lean, (int)f->n, (int)f->frame);
    snls_model_stream_close(&s.s);
    free_model(&m);
    close_memory(ctx, &memory, "a stream", f->n);
    return failed;
}

static void stream_fails(int64_t frames)
{
    static float want[FRAMES * FRAME], out[(FRAMES + 1) * FRAME];
    int64_t faults = 0;
    stream_fails_at(frames, false, &(Fault){ .frame = -1 }, NULL, out);
    memcpy(want, out, (size_t)(frames * FRAME) * sizeof *out);
    stream_fails_at(frames, true, &(Fault){ .frame = -1 }, want, out); /* what is computed again has the sigma that it had */
    for (int64_t t = 0; t <= frames; t++)
        for (int other = 0; other < 2; other++)
            for (int64_t n = 0; stream_fails_at(frames, n % 2, &(Fault){ t, n, other }, want, out); n += each) faults++;
    CHECK(faults > 10, "%d faults in a stream of %d frames", (int)faults, (int)frames);
}

int main(int argc, char **argv)
{
    float *drawn = draw_clip(FRAMES * FRAME, 9);
    memcpy(clip, drawn, sizeof clip);
    if (argc > 1 && atoi(argv[1]) > 0) each = atoi(argv[1]);
    check_repeat("test_fault_model %d", (int)each);
    run_fails(&snls_stan_s, SNLS_F32);
    run_fails(&snls_stan_s, SNLS_BF16);
    training_fails();
    stream_fails(FRAMES);
    stream_fails(2);
    return check_end();
}
