/* test_model_stream.c: networks on bands of rows give what they give on whole frames, frame by frame what they give on whole clips, and take
 * the memory that they say.
 *   test_model_stream */
/* ctest: timeout=900 */
#include "check.h"
#include "drawn.h"
#include "model/bands.h"
#include <math.h>
#include <snls/snls.h>
#include <stdlib.h>
#include <string.h>

#if defined SNLS_HAVE_DNNL && !defined __SANITIZE_ADDRESS__
enum { WHOLE = 1 << 20, SMALLER = 1 };
#else
enum { WHOLE = 1 << 20, SMALLER = 2 }; /* plain loops: networks of millions of weights take minutes for what is a second; a sanitizer sees the same calls at half the size */
#endif

static SnlsContext *ref, *cpu;

typedef struct Clip { int64_t frames, h, w; float *noisy; } Clip;
static int64_t floats_of(const Clip *c) { return c->frames * c->h * c->w * 3; }

static float *run(SnlsModel *m, const Clip *c, int32_t rows)
{
    const int64_t shape[4] = { c->frames, c->h, c->w, 3 };
    float *out = check_alloc(floats_of(c), sizeof *out);
    const SnlsModelRun r = { .frames = snls_tensor(c->noisy, SNLS_F32, 4, shape), .out = snls_tensor(out, SNLS_F32, 4, shape), .count = c->frames, .sigma = DRAWN_SIGMA };
    m->params.rows = rows;
    m->stream_size[0] = 0; /* bands of another height are other networks */
    CHECK(snls_model_run(m, &r) >= 0, "%s", snls_error(m->ctx));
    return out;
}

static double difference(const float *a, const float *b, int64_t n)
{
    double most = 0;
    for (int64_t i = 0; i < n; i++) if (!(fabs((double)a[i] - (double)b[i]) <= most)) most = fabs((double)a[i] - (double)b[i]); /* gcc 12 fails on fmax here, on AArch64 */
    return most;
}

/* ---- bands cover every row once, with neighbours on both sides ---- */

static void check_bands(int64_t h, int64_t wanted, int64_t halo)
{
    int64_t next = 0;
    for (Bands b = snls_bands(h, wanted, halo); snls_bands_next(&b);) {
        CHECK(b.low == next && b.high > b.low && b.from >= 0 && b.from + b.rows <= h, "h %d, %d rows, halo %d: rows %d to %d of %d", (int)h, (int)wanted, (int)halo, (int)b.low, (int)b.high, (int)h);
        CHECK((b.from == 0 || b.low - b.from >= halo) && (b.from + b.rows == h || b.from + b.rows - b.high >= halo), "h %d, %d rows, halo %d: too few neighbours", (int)h, (int)wanted, (int)halo);
        next = b.high;
    }
    CHECK(next == h, "h %d, %d rows, halo %d: ends at row %d", (int)h, (int)wanted, (int)halo, (int)next);
}

static bool same_band(const Bands *a, const Bands *b) { return a->from == b->from && a->low == b->low && a->high == b->high && a->rows == b->rows; }

/* By number, as threads take them, and in a number that they can share. */
static void check_bands_by_number(int64_t h, int64_t wanted, int64_t halo)
{
    for (int64_t shares = 1; shares < 5; shares++) {
        const Bands all = snls_bands_shared(h, wanted, halo, shares);
        int64_t count = 0;
        bool same = true;
        for (Bands b = all; snls_bands_next(&b); count++) {
            const Bands at = snls_bands_at(&all, count);
            same &= same_band(&at, &b);
        }
        CHECK(same && count == snls_bands_count(&all), "%d rows in bands of %d, %d about them, for %d: %d bands, %d were said", (int)h, (int)wanted, (int)halo, (int)shares, (int)count, (int)snls_bands_count(&all));
    }
}

static void all_bands(void)
{
    for (int64_t h = 1; h < 50; h++)
        for (int64_t wanted = 1; wanted < 20; wanted++)
            for (int64_t halo = 1; halo < 5; halo++) check_bands(h, wanted, halo), check_bands_by_number(h, wanted, halo);
}

/* ---- equal results ---- */

/* Sums over a frame are added in another order: of f32 that is seen in the last bits, of bf16 where a number lies between two. */
static void bands_equal_whole(const Architecture *a, const Clip *c, int32_t dtype, double most)
{
    SnlsModel m = make_model(cpu, a, dtype, &(StanSConfig){ .width = 8, .blocks = 2, .ws = 5, .wt = 2 });
    const float *whole = run(&m, c, WHOLE);
    CHECK(difference(whole, c->noisy, floats_of(c)) > 1, "%s does nothing", a->name);
    for (int32_t rows = 2; rows < 8; rows += 5) {
        if (dtype == SNLS_BF16 && rows > 2) break;
        const float *bands = run(&m, c, rows);
        CHECK(difference(whole, bands, floats_of(c)) <= most, "%s in %s, bands of %d rows differ by %g", a->name, dtype == SNLS_BF16 ? "bf16" : "f32", (int)rows, difference(whole, bands, floats_of(c)));
    }
    free_model(&m);
}

/* ref has the whole network over the whole clip. */
static void stream_equals_network(const Clip *c, const StanSConfig *config)
{
    SnlsModel want = make_model(ref, &snls_stan_s, SNLS_F32, config), got = make_model(cpu, &snls_stan_s, SNLS_F32, config);
    const float *a = run(&want, c, 0), *b = run(&got, c, 2);
    CHECK(difference(a, b, floats_of(c)) < 0.05, "%d frames, %d blocks, wt %d: frame by frame differs from the network by %g", (int)c->frames, (int)config->blocks, (int)config->wt,
          difference(a, b, floats_of(c)));
    free_model(&want);
    free_model(&got);
}

/* A frame with a value that is not finite is refused, and what follows is as if nobody had given it. */
static void push_bad(SnlsModelStream *s, const float *frame, int64_t size)
{
    float *bad = check_alloc(size, sizeof *bad);
    memcpy(bad, frame, (size_t)size * sizeof *bad);
    bad[size - 1] = INFINITY;
    CHECK(snls_model_stream_push(s, bad, DRAWN_SIGMA) == SNLS_ERR_ARG, "a frame with an infinite value was taken");
}

/* Two scenes through a stream; out has room for both. */
static void stream_twice(SnlsModel *m, const Clip *c, bool lean, float *out)
{
    const int64_t size = c->h * c->w * 3;
    SnlsModelStream *s = NULL;
    int64_t pulled = 0;
    SnlsStatus status = snls_model_stream_open(&s, m, &(SnlsModelStreamParams){ .height = c->h, .width = c->w, .lean = lean });
    for (int scene = 0; scene < 2 && status >= 0; scene++) {
        for (int64_t t = 0; t < c->frames && status >= 0; t++) {
            if (t == 1) push_bad(s, c->noisy, size);
            status = snls_model_stream_push(s, c->noisy + t * size, DRAWN_SIGMA);
            while (status == SNLS_OK && (status = snls_model_stream_pull(s, out + pulled * size)) == SNLS_OK) pulled++;
            CHECK(t + 1 + scene * c->frames - pulled < snls_model_stream_delay(s), "the stream holds more than its delay");
        }
        if (status >= 0) status = snls_model_stream_finish(s);
        while (status == SNLS_OK && (status = snls_model_stream_pull(s, out + pulled * size)) == SNLS_OK) pulled++;
    }
    CHECK(status >= 0 && pulled == 2 * c->frames, "%d of %d frames came out: %s", (int)pulled, (int)(2 * c->frames), snls_error(m->ctx));
    snls_model_stream_close(&s);
}

static void stream_equals_run(const Architecture *a, const Clip *c)
{
    SnlsModel m = make_model(cpu, a, SNLS_F32, &(StanSConfig){ .width = 8, .blocks = 2, .ws = 5, .wt = 2 });
    const float *want = run(&m, c, 3);
    for (int lean = 0; lean < 2; lean++) {
        float *got = check_alloc(2 * floats_of(c), sizeof *got);
        stream_twice(&m, c, lean, got);
        CHECK(!memcmp(got, got + floats_of(c), (size_t)floats_of(c) * sizeof *got), "%s: a second scene differs from the first", a->name);
        CHECK(difference(want, got, floats_of(c)) == 0, "%s, %d frames, lean %d: a stream differs from a run by %g", a->name, (int)c->frames, lean, difference(want, got, floats_of(c)));
    }
    free_model(&m);
}

/* Where a network has no stream of its own, as on a GPU, windows hold all that a frame depends on: a clip of several equals one run. */
static void windows_equal_network(const Clip *c)
{
    const StanSConfig config = { .width = 2, .blocks = 2, .ws = 3, .wt = 2 };
    SnlsModel windows = make_model(ref, &snls_stan_s, SNLS_F32, &config), frames = make_model(cpu, &snls_stan_s, SNLS_F32, &config);
    float *got = check_alloc(2 * floats_of(c), sizeof *got);
    const float *want = run(&frames, c, 2), *one = run(&windows, c, 0);
    stream_twice(&windows, c, false, got);
    CHECK(c->frames > snls_model_reach(&windows) * 3, "one window holds the clip");
    CHECK(difference(want, got, floats_of(c)) < 0.05, "windows of a stream differ by %g", difference(want, got, floats_of(c)));
    CHECK(difference(want, one, floats_of(c)) < 0.05, "windows of a run differ by %g", difference(want, one, floats_of(c)));
    free_model(&windows);
    free_model(&frames);
}

/* ---- memory ---- */

typedef struct Count { int64_t now, peak, most; } Count; /* most: 0, or bytes of the largest block there is */
typedef union Size { int64_t bytes; max_align_t align; } Size;

static void *count_alloc(size_t bytes, void *opaque)
{
    Count *c = opaque;
    Size *s = c->most && (int64_t)bytes > c->most ? NULL : malloc(sizeof *s + bytes);
    if (!s) return NULL;
    s->bytes = (int64_t)bytes;
    c->now += s->bytes;
    if (c->now > c->peak) c->peak = c->now;
    return s + 1;
}

static void count_free(void *memory, void *opaque)
{
    if (!memory) return;
    ((Count *)opaque)->now -= ((Size *)memory - 1)->bytes;
    free((Size *)memory - 1);
}

/* What is planned is what an allocator counts, short of weights and lists. */
static void memory_as_planned(const Architecture *a, int64_t frames, int64_t h, int64_t w, bool lean, int32_t threads)
{
    Count count = { 0 };
    SnlsContext *ctx = NULL;
    const SnlsModelStreamParams p = { .height = h, .width = w, .lean = lean };
    if (!CHECK(snls_open(&ctx, &(SnlsContextParams){ .backend = "cpu", .threads = threads, .allocator = { count_alloc, count_free, &count } }) >= 0, "no context")) return;
    SnlsModel m = make_model(ctx, a, SNLS_F32, &(StanSConfig){ .width = 16, .blocks = 2, .ws = 5, .wt = 1 });
    int64_t weights = 0; /* as layers pack them */
    for (int i = 0; i < a->stages; i++) snls_nn_free(&m.stage[i].net), weights += m.stage[i].params.total * 8;
    const int64_t planned = snls_model_stream_memory(&m, &p), before = count.now;
    const Clip c = { frames, h, w, draw_clip(frames * h * w * 3, 5) };
    float *out = check_alloc(2 * floats_of(&c), sizeof *out);
    count.peak = count.now;
    stream_twice(&m, &c, lean, out);
    const double taken = (double)(count.peak - before);
    CHECK(taken < 1.02 * (double)planned + (double)weights + 1e6 && taken > 0.7 * (double)planned, "%s, %d x %d, lean %d, %d threads: %.1f MB are planned, %.1f MB taken", a->name, (int)w, (int)h, lean, (int)threads, (double)planned * 1e-6, taken * 1e-6);
    free_model(&m);
    CHECK(count.now > 0, "a count that counts nothing");
    snls_close(&ctx);
    CHECK(count.now == 0, "%lld bytes are left", (long long)count.now);
}

/* One run on a window, of the network that is too slow here for a stream: packed weights are nearly all that comes on top. */
static void run_as_planned(const Architecture *a, int64_t frames, int64_t h, int64_t w)
{
    Count count = { 0 };
    SnlsContext *ctx = NULL;
    if (!CHECK(snls_open(&ctx, &(SnlsContextParams){ .backend = "cpu", .threads = 1, .allocator = { count_alloc, count_free, &count } }) >= 0, "no context")) return;
    SnlsModel m = make_model(ctx, a, SNLS_F32, &(StanSConfig){ 0 });
    snls_nn_free(&m.stage[0].net);
    snls_scratch_release(ctx);
    const int64_t planned = a->memory(&m, frames, h, w), before = count.now;
    const Clip c = { frames, h, w, draw_clip(frames * h * w * 3, 6) };
    count.peak = count.now;
    run(&m, &c, 0);
    const double taken = (double)(count.peak - before), weights = 4.25 * (double)m.stage[0].params.total;
    CHECK(taken < 1.02 * (double)planned + weights + 4e6 && taken > 0.9 * (double)planned, "%s, a run on %d x %d: %.1f MB are planned, %.1f MB taken, of them about %.1f MB weights", a->name, (int)w, (int)h, (double)planned * 1e-6, taken * 1e-6, weights * 1e-6);
    free_model(&m);
    snls_close(&ctx);
}

/* Where there is no memory for windows that hold everything, shorter ones do. */
static void short_windows(const Clip *c)
{
    Count count = { 0 };
    SnlsContext *ctx = NULL;
    if (!CHECK(snls_open(&ctx, &(SnlsContextParams){ .backend = "ref", .threads = 1, .allocator = { count_alloc, count_free, &count } }) >= 0, "no context")) return;
    SnlsModel m = make_model(ctx, &snls_stan_s, SNLS_F32, &(StanSConfig){ .width = 1, .blocks = 6, .ws = 3, .wt = 1 });
    snls_nn_free(&m.stage[0].net);
    int64_t room = 0;
    count.most = snls_model_stage_bytes(&m, 0, 3 * snls_model_reach(&m), c->h, c->w, &room) - 1;
    const float *out = run(&m, c, 0);
    CHECK(m.short_windows && difference(out, c->noisy, floats_of(c)) > 0.01, "short windows: %d", m.short_windows);
    free_model(&m);
    snls_close(&ctx);
}

static void sizes_refused(void)
{
    static const int64_t sizes[][2] = { { 1 << 20, 1 << 20 }, { 1 << 15, (1 << 14) + 1 }, { (1 << 20) + 1, 1 }, { 0, 8 }, { 8, -1 }, { INT64_MAX, INT64_MAX } };
    SnlsModel m = make_model(ref, &snls_stan_s, SNLS_F32, &(StanSConfig){ .width = 1, .blocks = 1, .ws = 3, .wt = 1 });
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const SnlsModelStreamParams p = { .height = sizes[i][0], .width = sizes[i][1] };
        SnlsModelStream *s = NULL;
        CHECK(snls_model_stream_open(&s, &m, &p) == SNLS_ERR_ARG && !s && strstr(snls_error(ref), "at most 2^29 in all"), "size %d: %s", (int)i, snls_error(ref));
        CHECK(snls_model_stream_memory(&m, &p) == -1, "size %d has a memory", (int)i);
        snls_model_stream_close(&s);
    }
    free_model(&m);
}

/* Frames that flow does not take are refused before anything is planned or taken for them. */
static void sides_refused(const Architecture *a, int64_t most)
{
    SnlsModel m = { .ctx = ref, .architecture = a, .dtype = SNLS_F32 };
    for (int turned = 0; turned < 2; turned++) {
        const SnlsModelStreamParams p = { .height = turned ? most + 1 : 1, .width = turned ? 1 : most + 1 };
        SnlsModelStream *s = NULL;
        CHECK(snls_model_stream_open(&s, &m, &p) == SNLS_ERR_SHAPE && !s && strstr(snls_error(ref), "which follows the motion"), "%s, a side of %d: %s", a->name, (int)most + 1, snls_error(ref));
        CHECK(snls_model_stream_memory(&m, &p) == -1, "%s has a memory for a side of %d", a->name, (int)most + 1);
        snls_model_stream_close(&s);
    }
}

int main(int argc, char **argv)
{
    const Clip clips[] = { { 7, 50, 37, draw_clip(7 * 50 * 37 * 3, 1) }, { 1, 50, 37, draw_clip(50 * 37 * 3, 2) }, { 3, 17, 20, draw_clip(3 * 17 * 20 * 3, 3) }, { 11, 36, 12, draw_clip(11 * 36 * 12 * 3, 4) } };
    const Clip tall = { 2, 97, 22, draw_clip(2 * 97 * 22 * 3, 5) };
    (void)argc;
    if (snls_open(&ref, &(SnlsContextParams){ .backend = "ref" }) < 0 || snls_open(&cpu, &(SnlsContextParams){ .backend = "cpu", .threads = 2 }) < 0) return 1;
    check_repeat("%s", argv[0]);
    all_bands();
    sizes_refused();
    sides_refused(&snls_dvdnet, 32766);
    sides_refused(&snls_stan, 32767);
    bands_equal_whole(&snls_stan_s, &clips[0], SNLS_F32, 0.02);
    bands_equal_whole(&snls_stan_s, &clips[0], SNLS_BF16, 4);
    bands_equal_whole(&snls_dvdnet, &tall, SNLS_F32, 0.02);
    bands_equal_whole(&snls_fastdvdnet, &tall, SNLS_F32, 0.02);
    for (int i = 1; i < 4; i++) stream_equals_network(&clips[i], &(StanSConfig){ .width = 2, .blocks = 1 + i % 3, .ws = 3, .wt = i % 3 });
    stream_equals_run(&snls_stan_s, &clips[0]);
    stream_equals_run(&snls_fastdvdnet, &clips[2]);
    windows_equal_network(&(Clip){ 20, 8, 8, draw_clip(20 * 8 * 8 * 3, 6) });
    short_windows(&(Clip){ 22, 24, 32, draw_clip(22 * 24 * 32 * 3, 7) });
    memory_as_planned(&snls_stan_s, 5, 160 / SMALLER, 240 / SMALLER, true, 1);
    memory_as_planned(&snls_stan_s, 5, 40, 40, false, 8); /* small enough for one worker: the search alone has threads, each with its scratch */
    memory_as_planned(&snls_dvdnet, 1, 128 / SMALLER, 200 / SMALLER, false, 1);
    memory_as_planned(&snls_fastdvdnet, 1, 128 / SMALLER, 200 / SMALLER, false, 1);
    run_as_planned(&snls_stan, 8, 64 / SMALLER, 80 / SMALLER);
    snls_close(&ref);
    snls_close(&cpu);
    return check_end();
}
