/* test_denoise.c: the streaming denoiser from outside: order and number of frames, threads, when frames are pulled, scenes, sizes, bad
 * input, memory; and that it denoises. test_denoise_noise.c has what it does with noise of all kinds, test_vnlb.c holds what it computes against a model. */
#define _GNU_SOURCE
#include "base/blas.h"
#include "clip.h"
#include "faults.h"
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <string.h>

static void test_quality(void)
{
    const Clip clean = clip_clean(5, 32, 36, 3, 0), noisy = clip_noisy(&clean, 25);
    for (int32_t preset = 0; preset < 3; preset++) {
        const SnlsDenoiseParams p = denoise_params(preset, 25);
        const Clip out = clip_denoised(&noisy, &p, 2, 0, 0);
        CHECK(clip_psnr(&clean, &out) > clip_psnr(&clean, &noisy) + 9, "preset %d: %.2f dB from %.2f", (int)preset, clip_psnr(&clean, &out), clip_psnr(&clean, &noisy));
    }
}

/* Weights go by what patches differ by beyond their noise: patches that are not alike are not averaged because noise is weak. */
static void test_nlm(void)
{
    const Clip clean = clip_clean(5, 32, 36, 3, 0);
    for (int sigma = 6; sigma <= 12; sigma += 6) {
        const Clip noisy = clip_noisy(&clean, sigma);
        SnlsDenoiseParams p = denoise_params(SNLS_DENOISE_MEDIUM, sigma);
        p.method = SNLS_DENOISE_NLM;
        const Clip out = clip_denoised(&noisy, &p, 2, 0, 0);
        const double more = clip_psnr(&clean, &out) - clip_psnr(&clean, &noisy);
        CHECK(more > (sigma == 6 ? 7.5 : 9), "nlm, sigma %d: only %.2f dB more", sigma, more);
    }
}

static void test_threads_and_pulls(void)
{
    const Clip clean = clip_clean(22, 14, 17, 3, 9), noisy = clip_noisy(&clean, 20);
    for (int32_t preset = 0; preset < 2; preset++) {
        const SnlsDenoiseParams p = denoise_params(preset, -1); /* sigma is estimated, and must not depend on them either */
        const Clip first = clip_denoised(&noisy, &p, 1, 0, 9);
        for (int i = 1; i < 4; i++) {
            const Clip other = clip_denoised(&noisy, &p, i == 3 ? 3 : i, i > 1, 9);
            CHECK(clip_same(&first, &other), "preset %d, run %d: threads or pulls change the result", (int)preset, i);
        }
    }
}

/* A scene is denoised as if it were alone; radius < 0: the preset's. A scene may be longer than the frames that are held. */
static void test_cut(int64_t frames, int64_t cut, int32_t radius, int32_t pulls)
{
    const Clip clean = clip_clean(frames, 18, 20, 3, cut), noisy = clip_noisy(&clean, 20);
    SnlsDenoiseParams p = denoise_params(SNLS_DENOISE_FAST, 20);
    p.radius = radius;
    const Clip whole = clip_denoised(&noisy, &p, 1, pulls, cut);
    const int64_t begin[2] = { 0, cut }, count[2] = { cut, frames - cut }, size = clip_frame(&noisy);
    for (int i = 0; i < 2; i++) {
        Clip part = noisy;
        part.frames = count[i];
        part.data += begin[i] * size;
        const Clip alone = clip_denoised(&part, &p, 1, 0, 0);
        CHECK(!memcmp(alone.data, whole.data + begin[i] * size, (size_t)(count[i] * size) * sizeof(float)), "cut %d of radius %d: scene %d sees the other", (int)cut, (int)radius, i);
    }
    const Clip without = clip_denoised(&noisy, &p, 1, 0, 0);
    CHECK(radius == 0 || !clip_same(&whole, &without), "the cut changes nothing");
}

/* One that sees only the end of a scene comes to the same in time, if it begins at the right frame. */
static void test_period(void)
{
    enum { FRAMES = 90, PERIOD = SNLS_DENOISE_PERIOD };
    const Clip clean = clip_clean(FRAMES, 15, 18, 1, 0), noisy = clip_noisy(&clean, 20);
    SnlsDenoiseParams p = denoise_params(SNLS_DENOISE_FAST, 20);
    p.radius = 1, p.window1 = p.window2 = 5, p.patches1 = p.patches2 = 12;
    const Clip whole = clip_denoised(&noisy, &p, 2, 0, 0);
    for (int64_t begin = PERIOD - 1; begin <= PERIOD; begin++) {
        Clip rest = noisy;
        rest.frames = FRAMES - begin, rest.data = noisy.data + begin * clip_frame(&noisy);
        const Clip out = clip_denoised(&rest, &p, 2, 0, 0);
        const int64_t from = begin + PERIOD + 8; /* the delay of radius 1 */
        const bool alike = !memcmp(whole.data + from * clip_frame(&noisy), out.data + (from - begin) * clip_frame(&noisy),
                                   (size_t)((FRAMES - from) * clip_frame(&noisy)) * sizeof(float));
        CHECK(alike == (begin == PERIOD), "begun at frame %d: %s", (int)begin, alike ? "the same" : "differs");
    }
}

/* So where noise that is estimated turns within the scene, before it begins and behind. */
static void test_period_turn(void)
{
    enum { FRAMES = 90, PERIOD = SNLS_DENOISE_PERIOD };
    const Clip clean = clip_clean(FRAMES, 30, 34, 1, 0), strong = clip_noisy(&clean, 30);
    const int64_t size = clip_frame(&clean);
    Clip noisy = clip_noisy(&clean, 4), rest = noisy;
    memcpy(noisy.data + 21 * size, strong.data + 21 * size, (size_t)(54 * size) * sizeof(float));
    SnlsDenoiseParams p = denoise_params(SNLS_DENOISE_FAST, -1);
    p.radius = 1, p.window1 = p.window2 = 5, p.patches1 = p.patches2 = 12;
    rest.frames = FRAMES - PERIOD, rest.data = noisy.data + PERIOD * size;
    const Clip whole = clip_denoised(&noisy, &p, 2, 0, 0), out = clip_denoised(&rest, &p, 2, 0, 0);
    const int64_t from = 2 * PERIOD + 8;
    CHECK(!memcmp(whole.data + from * size, out.data + (from - PERIOD) * size, (size_t)((FRAMES - from) * size) * sizeof(float)), "begun behind a turn: differs");
}

/* Scenes of any length: there is room for every frame, and every one comes back. */
static void test_scenes(void)
{
    float frame[81], out[81];
    for (int32_t i = 0; i < 48; i++) {
        Rng rng = { (uint64_t)i };
        SnlsContext *ctx = open_with(1);
        SnlsDenoiser *d = NULL;
        SnlsDenoiseParams p = denoise_params(SNLS_DENOISE_FAST, 10);
        p.radius = i % 4, p.flow = SNLS_DENOISE_FLOW_NONE, p.method = i % 8 == 7 ? SNLS_DENOISE_NLM : SNLS_DENOISE_VNLB;
        p.window1 = p.window2 = 3, p.patches1 = p.patches2 = 4;
        const int64_t frames = rng_int(&rng, 1, 50);
        const int odds = (int)RNG_PICK(&rng, 2, 9, 22);
        int64_t pulled = 0;
        CHECK(snls_denoiser_open(&d, ctx, &p, 9, 9, 1) == SNLS_OK, "%s", snls_error(ctx));
        for (int64_t t = 0; d && t < frames; t++) {
            for (int j = 0; j < 81; j++) frame[j] = (float)rng_real(&rng, 0, 255);
            CHECK(snls_denoiser_push(d, frame, rng_one_in(&rng, odds)) == SNLS_OK, "scenes %d, frame %d: %s", (int)i, (int)t, snls_error(ctx));
            while (snls_denoiser_pull(d, out) == SNLS_OK) pulled++;
        }
        snls_denoiser_finish(d);
        while (d && snls_denoiser_pull(d, out) == SNLS_OK) pulled++;
        CHECK(pulled == frames, "scenes %d: %d frames of %d", (int)i, (int)pulled, (int)frames);
        snls_denoiser_close(&d);
        snls_close(&ctx);
    }
}

static void test_sizes(void)
{
    static const int64_t sizes[][4] = { { 1, 1, 1, 3 }, { 3, 1, 1, 1 }, { 2, 2, 9, 3 }, { 1, 7, 7, 1 }, { 5, 8, 6, 1 }, { 1, 30, 17, 3 }, { 2, 16, 40, 3 } };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int32_t preset = 0; preset < 3; preset++) {
            const Clip clean = clip_clean(sizes[i][0], sizes[i][1], sizes[i][2], sizes[i][3], 0), noisy = clip_noisy(&clean, 10);
            const SnlsDenoiseParams p = denoise_params(preset, 10);
            const Clip out = clip_denoised(&noisy, &p, 2, 0, 0);
            double worst = 0;
            for (int64_t j = 0; j < out.frames * clip_frame(&out); j++) {
                const double e = fabs((double)out.data[j] - clean.data[j]);
                if (worst == worst && !(e <= worst)) worst = e; /* once NaN, always NaN */
            }
            CHECK(worst < 80, "size %d: %.0f from the clean clip", (int)i, worst); /* a few sigma; NaN fails */
        }
}

/* ---- several at once ---- */

typedef struct Beside { const Clip *in, *want; SnlsDenoiseParams p; int others; } Beside;

static void *run_beside(void *opaque)
{
    Beside *b = opaque;
    for (int i = 0; i < 3; i++) {
        const Clip out = clip_denoised(b->in, &b->p, 1, 0, 0);
        b->others += !clip_same(&out, b->want);
    }
    return NULL;
}

/* OpenBLAS has one number of threads for the whole process, and other sums with another: who ends first must leave it as the others need it, the last as it was. */
static void test_beside(void)
{
    int (*get)(void) = NULL;
    void (*set)(int) = NULL;
    *(void **)&get = dlsym(RTLD_DEFAULT, "openblas_get_num_threads");
    *(void **)&set = dlsym(RTLD_DEFAULT, "openblas_set_num_threads");
    const Clip clean = clip_clean(3, 30, 33, 3, 0), noisy = clip_noisy(&clean, 20);
    const SnlsDenoiseParams p = denoise_params(SNLS_DENOISE_SLOW, 20);
    const Clip want = clip_denoised(&noisy, &p, 1, 0, 0);
    Beside all[3];
    pthread_t thread[3];
    if (set) set(3);
    const int before = get ? get() : 0;
    for (int i = 0; i < 3; i++) all[i] = (Beside){ &noisy, &want, p, 0 };
    for (int i = 0; i < 3; i++) pthread_create(&thread[i], NULL, run_beside, &all[i]);
    for (int i = 0; i < 3; i++) pthread_join(thread[i], NULL);
    for (int i = 0; i < 3; i++) CHECK(!all[i].others, "thread %d: %d of 3 clips came out otherwise beside others", i, all[i].others);
    CHECK(!get || get() == before, "OpenBLAS had %d threads and has %d", before, get());
    if (!get || !set || before < 2) return;
    snls_blas_begin();
    CHECK(get() == 1, "OpenBLAS has %d threads during a call", get());
    set(2);
    snls_blas_end();
    CHECK(get() == 2, "during a call a host has set 2 threads, and OpenBLAS has %d", get());
}

static void test_refusals(void)
{
    SnlsContext *ctx = open_with(1);
    SnlsDenoiser *d = (SnlsDenoiser *)ctx;
    SnlsDenoiseParams p = denoise_params(SNLS_DENOISE_FAST, 10);
    float frame[8 * 8 * 3] = { 0 };
    CHECK(snls_denoiser_open(&d, ctx, &p, 8, 8, 2) == SNLS_ERR_SHAPE && !d, "2 channels");
    CHECK(snls_denoiser_open(&d, ctx, &p, 0, 8, 3) == SNLS_ERR_SHAPE && !d, "no rows");
    CHECK(snls_denoiser_open(&d, ctx, &p, 40000, 8, 3) == SNLS_ERR_SHAPE && !d, "many rows");
    CHECK(snls_denoiser_open(&d, ctx, NULL, 8, 8, 3) == SNLS_ERR_ARG && !d, "no params");
    CHECK(snls_denoiser_open(NULL, ctx, &p, 8, 8, 3) == SNLS_ERR_ARG, "no result");
    CHECK(snls_denoiser_open(&d, NULL, &p, 8, 8, 3) == SNLS_ERR_ARG && !d, "no context");
    p.sigma[1] = NAN;
    CHECK(snls_denoiser_open(&d, ctx, &p, 8, 8, 3) == SNLS_ERR_ARG && strstr(snls_error(ctx), "sigma[1]"), "NaN sigma: %s", snls_error(ctx));
    p = denoise_params(SNLS_DENOISE_FAST, 10);
    p.radius = 99;
    CHECK(snls_denoiser_open(&d, ctx, &p, 8, 8, 3) == SNLS_ERR_ARG && strstr(snls_error(ctx), "radius"), "radius: %s", snls_error(ctx));
    CHECK(snls_denoiser_memory(&p, 8, 8, 3, 1) == -1, "memory of bad parameters");
    p = denoise_params(SNLS_DENOISE_FAST, 10);
    CHECK(snls_denoiser_memory(&p, 8, 8, 3, -1) == -1 && snls_denoiser_memory(&p, 8, 8, 3, INT32_MAX) == -1, "memory of threads that no context has");
    if (CHECK(snls_denoiser_open(&d, ctx, &p, 8, 8, 3) == SNLS_OK, "%s", snls_error(ctx))) {
        CHECK(snls_denoiser_pull(d, frame) == SNLS_END, "nothing was pushed");
        CHECK(snls_denoiser_push(d, NULL, 0) == SNLS_ERR_ARG, "no frame");
        frame[100] = NAN;
        CHECK(snls_denoiser_push(d, frame, 0) == SNLS_ERR_ARG && strstr(snls_error(ctx), "finite"), "NaN: %s", snls_error(ctx));
        frame[100] = INFINITY;
        CHECK(snls_denoiser_push(d, frame, 0) == SNLS_ERR_ARG, "infinity");
        frame[100] = -1e18f;
        CHECK(snls_denoiser_push(d, frame, 0) == SNLS_ERR_ARG && strstr(snls_error(ctx), "1e+09"), "a number whose square is none: %s", snls_error(ctx));
        frame[100] = 1;
        CHECK(snls_denoiser_push(d, frame, 0) == SNLS_OK, "%s", snls_error(ctx));
        CHECK(snls_denoiser_finish(d) == SNLS_OK && snls_denoiser_push(d, frame, 0) == SNLS_ERR_ARG, "push after finish");
        CHECK(snls_denoiser_pull(d, frame) == SNLS_OK && snls_denoiser_pull(d, frame) == SNLS_END, "one frame");
    }
    snls_denoiser_close(&d);
    snls_denoiser_close(NULL);
    snls_close(&ctx);
}

/* ---- memory ---- */

/* Pushes frames of one value, pulls what comes. False: the denoiser could not be opened or ran out of memory, with a sentence. */
static bool run_counted(CountedMemory *c, const SnlsDenoiseParams *p, int64_t height, int64_t width, int64_t frames)
{
    SnlsContext *ctx = NULL;
    SnlsDenoiser *d = NULL;
    float *frame = check_alloc(height * width * 3, sizeof *frame);
    SnlsStatus status = open_counted(c, NULL, 2, &ctx);
    if (status >= 0) status = snls_denoiser_open(&d, ctx, p, height, width, 3);
    for (int64_t t = 0; t <= frames && status >= 0; t++) {
        for (int64_t i = 0; i < height * width * 3; i++) frame[i] = (float)((i * 7919 + t * 31) % 251);
        status = t < frames ? snls_denoiser_push(d, frame, 0) : snls_denoiser_finish(d);
        while (status == SNLS_OK) status = snls_denoiser_pull(d, frame);
    }
    CHECK(status >= 0 || (status == SNLS_ERR_MEMORY && (!ctx || *snls_error(ctx))), "status %d", (int)status);
    snls_denoiser_close(&d);
    snls_close(&ctx);
    CHECK(c->held == 0, "%lld bytes are left", (long long)c->held);
    return status >= 0;
}

/* No more memory than was said before, and not much less; a longer clip needs no more. */
static void test_memory(void)
{
    for (int i = 0; i < 5; i++) {
        SnlsDenoiseParams p = denoise_params(SNLS_DENOISE_FAST, -1);
        if (i == 4) p.step1 = 1, p.patches1 = 200, p.window1 = 15; /* nlm then searches by tiles, which take much more */
        p.method = i >= 3 ? SNLS_DENOISE_NLM : SNLS_DENOISE_VNLB;
        p.flow = i == 1 ? SNLS_DENOISE_FLOW_FARNEBACK : i == 2 ? SNLS_DENOISE_FLOW_NONE : SNLS_DENOISE_FLOW_PRESET;
        CountedMemory short_clip = { .fail_at = -1 }, long_clip = { .fail_at = -1 };
        run_counted(&short_clip, &p, 40, 200, 1);
        run_counted(&long_clip, &p, 40, 200, 4);
        const int64_t said = snls_denoiser_memory(&p, 40, 200, 3, 2);
        CHECK(short_clip.most <= long_clip.most, "run %d: %lld bytes for a frame, %lld for four", i, (long long)short_clip.most, (long long)long_clip.most);
        CHECK(long_clip.most <= said && 2 * long_clip.most > said, "run %d: %lld bytes were held, %lld were said", i, (long long)long_clip.most, (long long)said);
    }
    const SnlsDenoiseParams slow = denoise_params(SNLS_DENOISE_SLOW, 20);
    CHECK(snls_denoiser_memory(&slow, 480, 854, 3, 2) < (int64_t)1 << 30, "more than 1 GiB at 854x480");
    CHECK(snls_denoiser_memory(&slow, 1080, 1920, 3, 2) < (int64_t)5 << 29, "more than 2.5 GiB at 1920x1080");
}

/* The n-th allocation fails, for every n. */
static void test_faults(void)
{
    for (int32_t method = 0; method < 2; method++)
        for (int64_t n = 0; n < 99; n++) {
            SnlsDenoiseParams p = denoise_params(SNLS_DENOISE_FAST, -1);
            p.method = method;
            CountedMemory c = { .fail_at = n };
            if (run_counted(&c, &p, 9, 10, 3) && c.made <= n) break;
        }
}

int main(void)
{
    test_nlm();
    if (has_vnlb()) {
        test_quality();
        test_threads_and_pulls();
        test_cut(9, 4, -1, 0);
        test_cut(26, 17, -1, 0);
        test_cut(14, 8, 0, 0);
        test_cut(22, 13, 1, 1);
        test_scenes();
        test_period();
        test_period_turn();
        test_sizes();
        test_beside();
        test_refusals();
        test_memory();
        test_faults();
    }
    tensors_free();
    return check_end();
}
