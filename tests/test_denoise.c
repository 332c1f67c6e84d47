/* test_denoise.c: the streaming denoiser from outside: order and number of frames, threads, when frames are pulled, scenes, sizes, bad
 * input, memory; and that it denoises. test_vnlb.c holds what it computes against a model. */
#define _GNU_SOURCE
#include "base/blas.h"
#include "check.h"
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <snls/snls.h>
#include <stdlib.h>
#include <string.h>

typedef struct Clip {
    int64_t frames, height, width, channels;
    float *data;
} Clip;

static int64_t frame_size(const Clip *c) { return c->height * c->width * c->channels; }

static float *floats_new(int64_t count)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* check_alloc has a list */
    pthread_mutex_lock(&lock);
    float *x = check_alloc(count, sizeof *x);
    pthread_mutex_unlock(&lock);
    return x;
}

static Clip clip_new(int64_t frames, int64_t height, int64_t width, int64_t channels)
{
    Clip c = { frames, height, width, channels, NULL };
    c.data = floats_new(frames * frame_size(&c));
    return c;
}

/* A smooth texture that moves by (1.5, -0.5) pixels a frame, another one in each scene. */
static Clip clean_clip(int64_t frames, int64_t height, int64_t width, int64_t channels, int64_t cut)
{
    Clip c = clip_new(frames, height, width, channels);
    for (int64_t i = 0; i < frames * frame_size(&c); i++) {
        const int64_t t = i / frame_size(&c), y = i / (width * channels) % height, x = i / channels % width, ch = i % channels;
        const double u = (double)x - 1.5 * (double)t, v = (double)y + 0.5 * (double)t, turn = cut && t >= cut ? 2.1 : 0.3;
        c.data[i] = (float)(128 + 40 * sin(turn * u + 0.2 * v + (double)ch) + 50 * (sin(0.05 * u - 0.07 * v + turn) > 0));
    }
    return c;
}

static SnlsContext *open_ctx(int32_t threads)
{
    SnlsContextParams p;
    SnlsContext *ctx;
    snls_context_defaults(&p);
    p.threads = threads;
    CHECK(snls_open(&ctx, &p) == SNLS_OK, "open");
    return ctx;
}

static Clip noisy_of(const Clip *clean, double sigma)
{
    Clip c = clip_new(clean->frames, clean->height, clean->width, clean->channels);
    SnlsContext *ctx = open_ctx(1);
    memcpy(c.data, clean->data, (size_t)(c.frames * frame_size(&c)) * sizeof(float));
    CHECK(snls_noise_add(ctx, c.data, c.frames * frame_size(&c), 0, sigma, 5) == SNLS_OK, "%s", snls_error(ctx));
    snls_close(&ctx);
    return c;
}

static double psnr(const Clip *a, const Clip *b)
{
    double sum = 0;
    const int64_t n = a->frames * frame_size(a);
    for (int64_t i = 0; i < n; i++) sum += pow((double)a->data[i] - b->data[i], 2) / (double)n;
    return 10 * log10(255.0 * 255.0 / sum);
}

static SnlsDenoiseParams params_of(int32_t preset, double sigma)
{
    SnlsDenoiseParams p;
    snls_denoise_defaults(&p);
    p.preset = preset;
    for (int c = 0; c < 3; c++) p.sigma[c] = sigma;
    return p;
}

/* when: 0 pulls after every push, 1 only where there is no more room and at the end. */
static Clip run(const Clip *in, const SnlsDenoiseParams *p, int32_t threads, int when, int64_t cut)
{
    SnlsContext *ctx = open_ctx(threads);
    SnlsDenoiser *d = NULL;
    Clip out = clip_new(in->frames, in->height, in->width, in->channels);
    int64_t pulled = 0, size = frame_size(in);
    float *one = floats_new(size);
    if (!CHECK(snls_denoiser_open(&d, ctx, p, in->height, in->width, in->channels) == SNLS_OK, "%s", snls_error(ctx)))
        goto done;
    for (int64_t t = 0; t <= in->frames; t++) {
        SnlsStatus status = SNLS_OK;
        if (t < in->frames) status = snls_denoiser_push(d, in->data + t * size, cut && t == cut);
        else snls_denoiser_finish(d);
        if (status < 0 && when == 1) { /* full */
            while (pulled < in->frames && snls_denoiser_pull(d, one) == SNLS_OK) memcpy(out.data + pulled++ * size, one, (size_t)size * sizeof *one);
            status = snls_denoiser_push(d, in->data + t * size, cut && t == cut);
        }
        CHECK(status == SNLS_OK, "frame %d: %s", (int)t, snls_error(ctx));
        while ((when == 0 || t == in->frames) && (status = snls_denoiser_pull(d, one)) == SNLS_OK) {
            if (!CHECK(pulled < in->frames, "more frames out than in")) break;
            memcpy(out.data + pulled++ * size, one, (size_t)size * sizeof *one);
        }
        CHECK(status >= 0, "%s", snls_error(ctx));
    }
    CHECK(pulled == in->frames, "%d frames came back of %d", (int)pulled, (int)in->frames);
done:
    snls_denoiser_close(&d);
    snls_denoiser_close(&d);
    snls_close(&ctx);
    return out;
}

static bool same(const Clip *a, const Clip *b)
{
    return !memcmp(a->data, b->data, (size_t)(a->frames * frame_size(a)) * sizeof(float));
}

static void test_quality(void)
{
    const Clip clean = clean_clip(5, 32, 36, 3, 0), noisy = noisy_of(&clean, 25);
    for (int32_t preset = 0; preset < 3; preset++) {
        const SnlsDenoiseParams p = params_of(preset, 25);
        const Clip out = run(&noisy, &p, 2, 0, 0);
        CHECK(psnr(&clean, &out) > psnr(&clean, &noisy) + 9, "preset %d: %.2f dB from %.2f", (int)preset, psnr(&clean, &out), psnr(&clean, &noisy));
    }
}

static void test_threads_and_pulls(void)
{
    const Clip clean = clean_clip(22, 14, 17, 3, 9), noisy = noisy_of(&clean, 20);
    for (int32_t preset = 0; preset < 2; preset++) {
        const SnlsDenoiseParams p = params_of(preset, -1); /* sigma is estimated, and must not depend on them either */
        const Clip first = run(&noisy, &p, 1, 0, 9);
        for (int i = 1; i < 4; i++) {
            const Clip other = run(&noisy, &p, i == 3 ? 3 : i, i > 1, 9);
            CHECK(same(&first, &other), "preset %d, run %d: threads or pulls change the result", (int)preset, i);
        }
    }
}

/* A scene is denoised as if it were alone. */
static void test_cut(void)
{
    const Clip clean = clean_clip(9, 18, 20, 3, 4), noisy = noisy_of(&clean, 20);
    const SnlsDenoiseParams p = params_of(SNLS_DENOISE_FAST, 20);
    const Clip whole = run(&noisy, &p, 1, 0, 4);
    const int64_t begin[2] = { 0, 4 }, count[2] = { 4, 5 }, size = frame_size(&noisy);
    for (int i = 0; i < 2; i++) {
        Clip part = noisy;
        part.frames = count[i];
        part.data += begin[i] * size;
        const Clip alone = run(&part, &p, 1, 0, 0);
        CHECK(!memcmp(alone.data, whole.data + begin[i] * size, (size_t)(count[i] * size) * sizeof(float)), "scene %d sees the other", i);
    }
    const Clip without = run(&noisy, &p, 1, 0, 0);
    CHECK(!same(&whole, &without), "the cut changes nothing");
}

/* Noise as videos have it: stronger in brightness than in colour, and one sample of colour for four pixels. */
static void test_noise_of_videos(void)
{
    const Clip clean = clean_clip(5, 48, 52, 3, 0);
    for (int kind = 0; kind < 2; kind++) {
        Clip noisy = clip_new(5, 48, 52, 3);
        Rng rng = { 5 };
        float grain[48 * 52], tint[24 * 26];
        for (int64_t t = 0; t < 5; t++) {
            for (int i = 0; i < 48 * 52; i++) grain[i] = (float)(rng_real(&rng, -1, 1) + rng_real(&rng, -1, 1) + rng_real(&rng, -1, 1)) * (kind ? 4 : 25);
            for (int i = 0; i < 24 * 26; i++) tint[i] = (float)(rng_real(&rng, -1, 1) + rng_real(&rng, -1, 1) + rng_real(&rng, -1, 1)) * (kind ? 25 : 4);
            for (int64_t i = 0; i < 48 * 52 * 3; i++) {
                const int64_t y = i / 3 / 52, x = i / 3 % 52, at = t * 48 * 52 * 3 + i;
                noisy.data[at] = clean.data[at] + grain[y * 52 + x] + (float)(1 - i % 3) * tint[y / 2 * 26 + x / 2];
            }
        }
        const SnlsDenoiseParams p = params_of(SNLS_DENOISE_FAST, -1);
        const Clip out = run(&noisy, &p, 2, 0, 0);
        CHECK(psnr(&clean, &out) > psnr(&clean, &noisy) + 8, "%s: %.2f dB from %.2f", kind ? "colour" : "brightness", psnr(&clean, &out), psnr(&clean, &noisy));
    }
}

/* A colour that is clipped altogether, as blue in the light of candles or red under water, says nothing of the noise of the others, which is in all channels that are filtered. */
static void test_clipped_colour(void)
{
    Clip clean = clean_clip(5, 48, 52, 3, 0), noisy = noisy_of(&clean, 20);
    for (int64_t colour = 0; colour < 3; colour += 2) {
        for (int64_t i = colour; i < 5 * frame_size(&clean); i += 3) clean.data[i] = noisy.data[i] = colour ? 0 : 255;
        const SnlsDenoiseParams p = params_of(SNLS_DENOISE_FAST, -1);
        const Clip out = run(&noisy, &p, 2, 0, 0);
        CHECK(psnr(&clean, &out) > psnr(&clean, &noisy) + 7, "colour %d clipped: %.2f dB from %.2f", (int)colour, psnr(&clean, &out), psnr(&clean, &noisy));
    }
}

/* One that sees only the end of a scene comes to the same in time, if it begins at the right frame. */
static void test_period(void)
{
    enum { FRAMES = 90, PERIOD = SNLS_DENOISE_PERIOD };
    const Clip clean = clean_clip(FRAMES, 15, 18, 1, 0), noisy = noisy_of(&clean, 20);
    SnlsDenoiseParams p = params_of(SNLS_DENOISE_FAST, 20);
    p.radius = 1, p.window1 = p.window2 = 5, p.patches1 = p.patches2 = 12;
    const Clip whole = run(&noisy, &p, 2, 0, 0);
    for (int64_t begin = PERIOD - 1; begin <= PERIOD; begin++) {
        Clip rest = noisy;
        rest.frames = FRAMES - begin, rest.data = noisy.data + begin * frame_size(&noisy);
        const Clip out = run(&rest, &p, 2, 0, 0);
        const int64_t from = begin + PERIOD + 8; /* the delay of radius 1 */
        const bool alike = !memcmp(whole.data + from * frame_size(&noisy), out.data + (from - begin) * frame_size(&noisy),
                                   (size_t)((FRAMES - from) * frame_size(&noisy)) * sizeof(float));
        CHECK(alike == (begin == PERIOD), "begun at frame %d: %s", (int)begin, alike ? "the same" : "differs");
    }
}

/* A denoiser that is told the noise of its channels goes by it: told what follows from sigma it does the same, told another's it does not. */
static void test_noise_told(void)
{
    const Clip clean = clean_clip(5, 24, 24, 3, 0), noisy = noisy_of(&clean, 15);
    const int64_t size = frame_size(&noisy);
    SnlsDenoiseParams p = params_of(SNLS_DENOISE_FAST, -1);
    SnlsContext *ctx = open_ctx(1);
    SnlsDenoiser *d = NULL;
    float *out = check_alloc(size, sizeof *out);
    CHECK(snls_denoiser_open(&d, ctx, &p, 24, 24, 3) == SNLS_OK, "%s", snls_error(ctx));
    CHECK(snls_denoiser_set_noise(d, (double[]){ 1, 1, 1 }) == SNLS_ERR_ARG, "noise is set where it is to be estimated");
    CHECK(snls_denoiser_sigma(d, p.sigma) == SNLS_END, "noise is known before a frame was pulled");
    snls_denoiser_close(&d);
    p = params_of(SNLS_DENOISE_FAST, 15);
    const Clip first = run(&noisy, &p, 1, 0, 0);
    for (int other = 0; other < 2; other++) {
        int64_t pulled = 0, differ = 0;
        double noise[3], told[3] = { 15, 15, 15 + 5 * other };
        CHECK(snls_denoiser_open(&d, ctx, &p, 24, 24, 3) == SNLS_OK && snls_denoiser_set_noise(d, told) == SNLS_OK, "%s", snls_error(ctx));
        for (int64_t t = 0; t < 5; t++) CHECK(snls_denoiser_push(d, noisy.data + t * size, 0) == SNLS_OK, "%s", snls_error(ctx));
        snls_denoiser_finish(d);
        for (; pulled < 5 && snls_denoiser_pull(d, out) == SNLS_OK; pulled++) differ += !!memcmp(out, first.data + pulled * size, (size_t)size * sizeof *out);
        CHECK(pulled == 5 && differ == 5 * other, "told %g: %d frames of %d differ", told[2], (int)differ, (int)pulled);
        CHECK(snls_denoiser_noise(d, noise) == SNLS_OK && noise[2] == told[2], "noise %g", noise[2]);
        snls_denoiser_close(&d);
    }
    snls_close(&ctx);
}

static double gain(const Clip *clean, const Clip *noisy, const Clip *out, int64_t from, int64_t to)
{
    const int64_t size = frame_size(clean), at = from * size;
    const Clip c = { to - from, clean->height, clean->width, clean->channels, clean->data + at };
    Clip n = c, o = c;
    n.data = noisy->data + at, o.data = out->data + at;
    return psnr(&c, &o) - psnr(&c, &n);
}

/* Frames without noise at the beginning, with a cut behind them or without, switch nothing off; they stay as they are. Every scene has its own noise. */
static void test_quiet_lead(void)
{
    enum { LEAD = 7, FRAMES = 24 };
    for (int32_t radius = 0; radius < 4; radius += 3)
        for (int cut = 0; cut < 2; cut++) {
            const Clip clean = clean_clip(FRAMES, 32, 36, 3, 0);
            for (int64_t i = 0; i < LEAD * frame_size(&clean); i++) clean.data[i] = 16;
            const Clip noisy = noisy_of(&clean, 20);
            memcpy(noisy.data, clean.data, (size_t)(LEAD * frame_size(&clean)) * sizeof(float));
            SnlsDenoiseParams p = params_of(SNLS_DENOISE_FAST, -1);
            p.radius = radius;
            const Clip out = run(&noisy, &p, 2, 0, cut ? LEAD : 0), late = run(&noisy, &p, 1, 1, cut ? LEAD : 0);
            double moved = 0;
            for (int64_t i = 0; i < (LEAD - 2 * radius) * frame_size(&out); i++) moved = fmax(moved, fabs((double)out.data[i] - clean.data[i]));
            CHECK(moved < 1e-4, "radius %d, cut %d: frames without noise are changed by %g", (int)radius, cut, moved);
            CHECK(gain(&clean, &noisy, &out, LEAD, FRAMES) > (radius ? 8 : 4), "radius %d, cut %d: %.2f dB gained behind a black lead", (int)radius, cut,
                  gain(&clean, &noisy, &out, LEAD, FRAMES));
            CHECK(same(&out, &late), "radius %d, cut %d: threads or pulls change the result", (int)radius, cut);
        }
    const Clip clean = clean_clip(12, 32, 36, 3, 6), weak = noisy_of(&clean, 5), strong = noisy_of(&clean, 30);
    Clip both = clip_new(12, 32, 36, 3);
    const int64_t half = 6 * frame_size(&clean);
    memcpy(both.data, weak.data, (size_t)half * sizeof(float));
    memcpy(both.data + half, strong.data + half, (size_t)half * sizeof(float));
    const SnlsDenoiseParams p = params_of(SNLS_DENOISE_FAST, -1);
    const Clip out = run(&both, &p, 1, 0, 6);
    for (int64_t scene = 0; scene < 2; scene++)
        CHECK(gain(&clean, &both, &out, 6 * scene, 6 * scene + 6) > (scene ? 8 : 5), "scene %d: %.2f dB gained", (int)scene, gain(&clean, &both, &out, 6 * scene, 6 * scene + 6));
}

/* A fade from black: noise that grows with it is followed. */
static void test_fade(void)
{
    const Clip clean = clean_clip(30, 32, 36, 3, 0), noisy = noisy_of(&clean, 20);
    for (int64_t i = 0; i < 30 * frame_size(&clean); i++) {
        const float share = (float)(i / frame_size(&clean)) / 29;
        clean.data[i] *= share, noisy.data[i] *= share;
    }
    const SnlsDenoiseParams p = params_of(SNLS_DENOISE_FAST, -1);
    const Clip out = run(&noisy, &p, 2, 0, 0);
    CHECK(gain(&clean, &noisy, &out, 10, 20) > 6 && gain(&clean, &noisy, &out, 20, 30) > 8, "a fade: %.2f and %.2f dB gained", gain(&clean, &noisy, &out, 10, 20),
          gain(&clean, &noisy, &out, 20, 30));
}

/* Scenes of any length: there is room for every frame, and every one comes back. */
static void test_scenes(void)
{
    float frame[81], out[81];
    for (int32_t i = 0; i < 48; i++) {
        Rng rng = { (uint64_t)i };
        SnlsContext *ctx = open_ctx(1);
        SnlsDenoiser *d = NULL;
        SnlsDenoiseParams p = params_of(SNLS_DENOISE_FAST, 10);
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
            const Clip clean = clean_clip(sizes[i][0], sizes[i][1], sizes[i][2], sizes[i][3], 0), noisy = noisy_of(&clean, 10);
            const SnlsDenoiseParams p = params_of(preset, 10);
            const Clip out = run(&noisy, &p, 2, 0, 0);
            double worst = 0;
            for (int64_t j = 0; j < out.frames * frame_size(&out); j++) {
                const double e = fabs((double)out.data[j] - clean.data[j]);
                if (worst == worst && !(e <= worst)) worst = e; /* once NaN, always NaN */
            }
            CHECK(worst < 80, "size %d: %.0f from the clean clip", (int)i, worst); /* a few sigma; NaN fails */
        }
}

static void test_no_noise(void)
{
    const Clip clean = clean_clip(4, 24, 31, 3, 0);
    const SnlsDenoiseParams zero = params_of(SNLS_DENOISE_MEDIUM, 0);
    const Clip copy = run(&clean, &zero, 1, 0, 0);
    CHECK(same(&clean, &copy), "sigma 0 is no copy");
}

/* Dark and bright: eigenvalues are far apart. */
static Clip square_clip(int64_t frames, int64_t height, int64_t width, int64_t channels)
{
    Clip c = clip_new(frames, height, width, channels);
    for (int64_t i = 0; i < frames * frame_size(&c); i++) {
        const double t = (double)(i / frame_size(&c)), y = (double)(i / (width * channels) % height), x = (double)(i / channels % width);
        c.data[i] = sin(0.4 * (x + 2 * t)) * cos(0.3 * y) > 0 ? 247 : 7;
    }
    return c;
}

static double channel_psnr(const Clip *a, const Clip *b, int64_t c)
{
    const int64_t n = a->frames * frame_size(a) / 3;
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += pow((double)a->data[3 * i + c] - b->data[3 * i + c], 2) / (double)n;
    return 10 * log10(255.0 * 255.0 / sum);
}

/* Noise of one colour does not go into the others: one without noise comes out as it went in, none gets worse. */
static void test_unequal_noise(void)
{
    const Clip clean = square_clip(5, 40, 44, 3), unit = noisy_of(&clean, 1);
    for (int i = 0; i < 3; i++) {
        SnlsDenoiseParams p = params_of(SNLS_DENOISE_FAST, 40);
        Clip noisy = clip_new(5, 40, 44, 3);
        for (int c = 0; c < 2; c++) p.sigma[c] = (const double[]){ 0, 2, 10 }[i];
        for (int64_t n = 0; n < 5 * frame_size(&noisy); n++) noisy.data[n] = clean.data[n] + (float)p.sigma[n % 3] * (unit.data[n] - clean.data[n]);
        const Clip out = run(&noisy, &p, 2, 0, 0);
        for (int64_t c = 0; c < 2 && i; c++)
            CHECK(channel_psnr(&clean, &out, c) > channel_psnr(&clean, &noisy, c), "sigma %g beside 40: %.2f dB, was %.2f", p.sigma[c], channel_psnr(&clean, &out, c), channel_psnr(&clean, &noisy, c));
        bool as_it_was = true;
        for (int64_t n = 0; n < 5 * frame_size(&out); n++) as_it_was &= n % 3 == 2 || out.data[n] == noisy.data[n];
        CHECK(as_it_was == !i, "sigma %g beside 40: %s", p.sigma[0], as_it_was ? "unchanged" : "changed");
        CHECK(channel_psnr(&clean, &out, 2) > channel_psnr(&clean, &noisy, 2) + 6, "sigma 40: %.2f dB, was %.2f", channel_psnr(&clean, &out, 2), channel_psnr(&clean, &noisy, 2));
    }
}

/* What is taken off is no more than the noise, however little that is: f32 sums of a group can not tell so little from nothing. */
static void test_little_noise(void)
{
    static const double sigmas[] = { 1e-3, 0.01, 0.1, 1, 0.05, 0.2, 0.3, 0.5 };
    const Clip clean = clean_clip(3, 24, 26, 3, 0), squares = square_clip(3, 32, 34, 1);
    for (int32_t preset = SNLS_DENOISE_FAST; preset <= SNLS_DENOISE_SLOW; preset++)
        for (int step = preset == SNLS_DENOISE_SLOW ? 4 : 1, i = step / 4; i < 8; i += step) { /* slow is slow, and exact */
            const double sigma = sigmas[i];
            const SnlsDenoiseParams p = params_of(preset, sigma);
            const Clip in = noisy_of(i < 4 ? &clean : &squares, i < 4 ? 20 : sigma), out = run(&in, &p, 2, 0, 0);
            double sum = 0;
            for (int64_t n = 0; n < 3 * frame_size(&out); n++) sum += pow((double)out.data[n] - in.data[n], 2);
            const double change = sqrt(sum / (double)(3 * frame_size(&out)));
            CHECK(change <= sigma + 255 * 2e-6, "preset %d, clip %d, sigma %g: changed by %g", (int)preset, i / 4, sigma, change);
        }
}

/* ---- several at once ---- */

typedef struct Beside { const Clip *in, *want; SnlsDenoiseParams p; int others; } Beside;

static void *run_beside(void *opaque)
{
    Beside *b = opaque;
    for (int i = 0; i < 3; i++) {
        const Clip out = run(b->in, &b->p, 1, 0, 0);
        b->others += !same(&out, b->want);
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
    const Clip clean = clean_clip(3, 30, 33, 3, 0), noisy = noisy_of(&clean, 20);
    const SnlsDenoiseParams p = params_of(SNLS_DENOISE_SLOW, 20);
    const Clip want = run(&noisy, &p, 1, 0, 0);
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
    SnlsContext *ctx = open_ctx(1);
    SnlsDenoiser *d = (SnlsDenoiser *)ctx;
    SnlsDenoiseParams p = params_of(SNLS_DENOISE_FAST, 10);
    float frame[8 * 8 * 3] = { 0 };
    CHECK(snls_denoiser_open(&d, ctx, &p, 8, 8, 2) == SNLS_ERR_SHAPE && !d, "2 channels");
    CHECK(snls_denoiser_open(&d, ctx, &p, 0, 8, 3) == SNLS_ERR_SHAPE && !d, "no rows");
    CHECK(snls_denoiser_open(&d, ctx, &p, 40000, 8, 3) == SNLS_ERR_SHAPE && !d, "many rows");
    CHECK(snls_denoiser_open(&d, ctx, NULL, 8, 8, 3) == SNLS_ERR_ARG && !d, "no params");
    CHECK(snls_denoiser_open(NULL, ctx, &p, 8, 8, 3) == SNLS_ERR_ARG, "no result");
    CHECK(snls_denoiser_open(&d, NULL, &p, 8, 8, 3) == SNLS_ERR_ARG && !d, "no context");
    p.sigma[1] = NAN;
    CHECK(snls_denoiser_open(&d, ctx, &p, 8, 8, 3) == SNLS_ERR_ARG && strstr(snls_error(ctx), "sigma[1]"), "NaN sigma: %s", snls_error(ctx));
    p = params_of(SNLS_DENOISE_FAST, 10);
    p.radius = 99;
    CHECK(snls_denoiser_open(&d, ctx, &p, 8, 8, 3) == SNLS_ERR_ARG && strstr(snls_error(ctx), "radius"), "radius: %s", snls_error(ctx));
    CHECK(snls_denoiser_memory(&p, 8, 8, 3, 1) == -1, "memory of bad parameters");
    p = params_of(SNLS_DENOISE_FAST, 10);
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

/* Parts of a clip get the noise that the whole gets, whatever the threads; it is white, of mean 0 and the asked strength. */
static void test_noise(void)
{
    enum { N = 100001 };
    SnlsContext *one = open_ctx(1), *three = open_ctx(3);
    float *a = check_alloc(N, sizeof *a), *b = check_alloc(N, sizeof *b), *c = check_alloc(N, sizeof *c);
    double sum = 0, squares = 0, fourth = 0, next = 0;
    snls_noise_add(one, a, N, 0, 10, 1);
    snls_noise_add(three, b, 777, 0, 10, 1);
    snls_noise_add(three, b + 777, N - 777, 777, 10, 1);
    snls_noise_add(one, c, N, 0, 10, 2);
    CHECK(!memcmp(a, b, N * sizeof *a), "parts differ from the whole");
    CHECK(memcmp(a, c, N * sizeof *a), "another seed, the same noise");
    for (int i = 0; i < N; i++) {
        sum += a[i] / N;
        squares += (double)a[i] * a[i] / N;
        fourth += pow(a[i], 4) / N;
        if (i) next += (double)a[i] * a[i - 1] / N;
    }
    /* five standard errors each */
    CHECK(fabs(sum) < 5 * 10 / sqrt(N) && fabs(squares / 100 - 1) < 5 * sqrt(2.0 / N), "mean %g, variance %g", sum, squares);
    CHECK(fabs(fourth / 1e4 - 3) < 5 * sqrt(96.0 / N) && fabs(next) / 100 < 5 / sqrt(N), "fourth moment %g, neighbours %g", fourth, next);
    CHECK(snls_noise_add(one, a, 1, 0, -1, 0) == SNLS_ERR_ARG && snls_noise_add(one, a, -1, 0, 1, 0) == SNLS_ERR_ARG, "bad noise");
    snls_close(&one);
    snls_close(&three);
}

/* As one number: white noise as it is, noise that is equal in all channels sqrt(3) times as strong, which each channel alone does not tell. */
static void test_level(SnlsContext *ctx, const Clip *clean)
{
    const Clip white = noisy_of(clean, 20), equal = clean_clip(2, 96, 120, 3, 0);
    for (int64_t i = 0; i < 2 * 96 * 120; i++)
        for (int c = 0; c < 3; c++) equal.data[3 * i + c] += white.data[3 * i] - clean->data[3 * i];
    double got[3];
    CHECK(snls_noise_level(ctx, white.data, 2, 96, 120, 3, got) == SNLS_OK && fabs(got[0] / 20 - 1) < 0.1, "white: %g", got[0]);
    CHECK(snls_noise_level(ctx, equal.data, 2, 96, 120, 3, got) == SNLS_OK && fabs(got[0] / (20 * sqrt(3)) - 1) < 0.1, "equal: %g", got[0]);
    CHECK(snls_noise_level(ctx, white.data, 1, 96, 360, 1, got) == SNLS_OK && got[0] > 0, "grey: %g", got[0]);
    CHECK(snls_noise_level(ctx, white.data, 0, 96, 120, 3, got) == SNLS_ERR_SHAPE && snls_noise_level(ctx, white.data, 1, 96, 120, 2, got) == SNLS_ERR_SHAPE
              && snls_noise_level(ctx, white.data, 1, 96, 120, 3, NULL) == SNLS_ERR_ARG && snls_noise_level(ctx, NULL, 1, 96, 120, 3, got) == SNLS_ERR_ARG, "bad frames");
}

static void test_estimate(void)
{
    SnlsContext *ctx = open_ctx(2);
    const Clip clean = clean_clip(2, 96, 120, 3, 0);
    for (int i = 0; i < 4; i++) {
        const double want = (const double[]){ 2, 5, 20, 50 }[i];
        const Clip noisy = noisy_of(&clean, want);
        double got[3];
        CHECK(snls_noise_estimate(ctx, noisy.data, 2, 96, 120, 3, got) == SNLS_OK, "%s", snls_error(ctx));
        for (int c = 0; c < 3; c++) CHECK(fabs(got[c] / want - 1) < 0.1, "sigma %g: %g in channel %d", want, got[c], c);
    }
    test_level(ctx, &clean);
    double none[3];
    CHECK(snls_noise_estimate(ctx, clean.data, 0, 96, 120, 3, none) == SNLS_ERR_SHAPE, "no frames");
    snls_close(&ctx);
}

/* What is drawn on a frame, with grain of coding or of one value, does not hide its noise; a drawing has none. Noise that grows with brightness counts. */
static void test_estimate_drawn(void)
{
    SnlsContext *ctx = open_ctx(2);
    enum { H = 120, W = 160 };
    const Clip clean = clean_clip(1, H, W, 3, 0), noisy = noisy_of(&clean, 20), unit = noisy_of(&clean, 1);
    Rng rng = { 3 };
    for (int kind = 0; kind < 4; kind++) { /* bars, bars with grain, a logo, noise of photons */
        Clip c = clip_new(1, H, W, 3);
        double got[3], want = 0;
        for (int64_t i = 0; i < frame_size(&c); i++) {
            const int64_t y = i / 3 / W, x = i / 3 % W;
            const double photons = sqrt(3 * fabs((double)clean.data[i]) + 4);
            const bool bar = y < H / 8 || y >= H - H / 8, logo = y > 10 && y < 40 && x > 10 && x < 90;
            c.data[i] = kind < 2 && bar ? (float)(16 - kind * rng_int(&rng, 0, 1)) : kind == 2 && logo ? 90 : kind == 3 ? (float)(clean.data[i] + photons * (unit.data[i] - clean.data[i])) : noisy.data[i];
            want += (kind == 3 ? photons * photons : 400) / (double)frame_size(&c);
        }
        CHECK(snls_noise_estimate(ctx, c.data, 1, H, W, 3, got) == SNLS_OK, "%s", snls_error(ctx));
        for (int i = 0; i < 3; i++) CHECK(fabs(got[i] / sqrt(want) - 1) < 0.15, "drawn %d: %g in channel %d, %g is there", kind, got[i], i, sqrt(want));
    }
    Clip drawn = clip_new(3, H, W, 3);
    double got[3];
    for (int64_t i = 0; i < 3 * frame_size(&drawn); i++) drawn.data[i] = i / 3 % W > 60 && i / 3 % W < 90 && i / 3 / W % H > 50 && i / 3 / W % H < 60 ? 200 : 16;
    memcpy(drawn.data + 2 * frame_size(&drawn), noisy.data, (size_t)frame_size(&drawn) * sizeof(float));
    CHECK(snls_noise_estimate(ctx, drawn.data, 2, H, W, 3, got) == SNLS_OK && got[0] == 0, "a drawing: %g", got[0]);
    CHECK(snls_noise_estimate(ctx, drawn.data, 3, H, W, 3, got) == SNLS_OK && fabs(got[0] / 20 - 1) < 0.1, "noise after two drawings: %g", got[0]);
    for (int64_t i = 0; i < frame_size(&drawn); i++) drawn.data[i] = 257 * noisy.data[i];
    CHECK(snls_noise_estimate(ctx, drawn.data, 1, H, W, 3, got) == SNLS_OK && got[0] == 1000, "more than open takes: %g", got[0]);
    snls_close(&ctx);
}

/* ---- memory ---- */

typedef struct Counted {
    int64_t held, most, calls, refuse; /* refuse: number of the call that fails, 0 none */
} Counted;

static void *count_alloc(size_t bytes, void *opaque)
{
    Counted *c = opaque;
    if (++c->calls == c->refuse) return NULL;
    int64_t *at = malloc(bytes + 64);
    if (!at) return NULL;
    *at = (int64_t)bytes;
    c->held += *at;
    if (c->held > c->most) c->most = c->held;
    return at + 8;
}

static void count_free(void *ptr, void *opaque)
{
    Counted *c = opaque;
    if (!ptr) return;
    c->held -= *((int64_t *)ptr - 8);
    free((int64_t *)ptr - 8);
}

/* Pushes frames of one value, pulls what comes. False: the denoiser could not be opened or ran out of memory, with a sentence. */
static bool run_counted(Counted *c, const SnlsDenoiseParams *p, int64_t height, int64_t width, int64_t frames)
{
    SnlsContextParams cp;
    SnlsContext *ctx = NULL;
    SnlsDenoiser *d = NULL;
    snls_context_defaults(&cp);
    cp.threads = 2;
    cp.allocator = (SnlsAllocator){ count_alloc, count_free, c };
    float *frame = check_alloc(height * width * 3, sizeof *frame);
    SnlsStatus status = snls_open(&ctx, &cp);
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
    for (int i = 0; i < 4; i++) {
        SnlsDenoiseParams p = params_of(SNLS_DENOISE_FAST, -1);
        p.method = i == 3 ? SNLS_DENOISE_NLM : SNLS_DENOISE_VNLB;
        p.flow = i == 1 ? SNLS_DENOISE_FLOW_FARNEBACK : i == 2 ? SNLS_DENOISE_FLOW_NONE : SNLS_DENOISE_FLOW_PRESET;
        Counted short_clip = { 0 }, long_clip = { 0 };
        run_counted(&short_clip, &p, 40, 200, 1);
        run_counted(&long_clip, &p, 40, 200, 4);
        const int64_t said = snls_denoiser_memory(&p, 40, 200, 3, 2);
        CHECK(short_clip.most <= long_clip.most, "run %d: %lld bytes for a frame, %lld for four", i, (long long)short_clip.most, (long long)long_clip.most);
        CHECK(long_clip.most <= said && 2 * long_clip.most > said, "run %d: %lld bytes were held, %lld were said", i, (long long)long_clip.most, (long long)said);
    }
    const SnlsDenoiseParams slow = params_of(SNLS_DENOISE_SLOW, 20);
    CHECK(snls_denoiser_memory(&slow, 480, 854, 3, 2) < (int64_t)1 << 30, "more than 1 GiB at 854x480");
    CHECK(snls_denoiser_memory(&slow, 1080, 1920, 3, 2) < (int64_t)5 << 29, "more than 2.5 GiB at 1920x1080");
}

/* The n-th allocation fails, for every n. */
static void test_faults(void)
{
    for (int32_t method = 0; method < 2; method++)
        for (int64_t n = 1; n < 100; n++) {
            SnlsDenoiseParams p = params_of(SNLS_DENOISE_FAST, -1);
            p.method = method;
            Counted c = { .refuse = n };
            if (run_counted(&c, &p, 9, 10, 3) && c.calls < n) break;
        }
}

static bool has_vnlb(void)
{
    SnlsContext *ctx = open_ctx(1);
    SnlsDenoiser *d = NULL;
    const SnlsDenoiseParams p = params_of(SNLS_DENOISE_FAST, 10);
    const bool has = snls_denoiser_open(&d, ctx, &p, 8, 8, 1) != SNLS_ERR_UNSUPPORTED;
    snls_denoiser_close(&d);
    snls_close(&ctx);
    return has;
}

int main(void)
{
    test_noise();
    test_estimate();
    test_estimate_drawn();
    if (has_vnlb()) {
        test_quality();
        test_threads_and_pulls();
        test_cut();
        test_scenes();
        test_noise_of_videos();
        test_clipped_colour();
        test_noise_told();
        test_quiet_lead();
        test_fade();
        test_period();
        test_sizes();
        test_no_noise();
        test_unequal_noise();
        test_little_noise();
        test_beside();
        test_refusals();
        test_memory();
        test_faults();
    }
    tensors_free();
    return check_end();
}
