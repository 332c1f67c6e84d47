/* test_denoise_noise.c: noise: added, estimated, told; and what the denoiser does with much, little, unequal or no noise. */
#include "clip.h"
#include <math.h>
#include <string.h>

/* Parts of a clip get the noise that the whole gets, whatever the threads; it is white, of mean 0 and the asked strength. */
static void test_noise(void)
{
    enum { N = 100001 };
    SnlsContext *one = open_with(1), *three = open_with(3);
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
    double told[3];
    CHECK(snls_noise_estimate(one, a, INT64_MAX, 8, 8, 1, told) == SNLS_ERR_SHAPE && snls_noise_level(one, a, 1, (int64_t)1 << 31, (int64_t)1 << 31, 3, told) == SNLS_ERR_SHAPE, "sizes that wrap around");
    CHECK(snls_noise_add(one, a, 3, INT64_MAX, 1, 0) == SNLS_OK, "draws beyond the last signed number: %s", snls_error(one)); /* UBSan would see an overflow */
    snls_close(&one);
    snls_close(&three);
}

/* As one number: white noise as it is, noise that is equal in all channels sqrt(3) times as strong, which each channel alone does not tell. */
static void test_level(SnlsContext *ctx, const Clip *clean)
{
    const Clip white = clip_noisy(clean, 20), equal = clip_clean(2, 96, 120, 3, 0);
    for (int64_t i = 0; i < 2 * 96 * 120; i++)
        for (int c = 0; c < 3; c++) equal.data[3 * i + c] += white.data[3 * i] - clean->data[3 * i];
    double got[3];
    CHECK(snls_noise_level(ctx, white.data, 2, 96, 120, 3, got) == SNLS_OK && fabs(got[0] / 20 - 1) < 0.1, "white: %g", got[0]);
    CHECK(snls_noise_level(ctx, equal.data, 2, 96, 120, 3, got) == SNLS_OK && fabs(got[0] / (20 * sqrt(3)) - 1) < 0.1, "equal: %g", got[0]);
    CHECK(snls_noise_level(ctx, white.data, 1, 96, 360, 1, got) == SNLS_OK && got[0] > 0, "grey: %g", got[0]);
    CHECK(snls_noise_level(ctx, white.data, 0, 96, 120, 3, got) == SNLS_ERR_SHAPE && snls_noise_level(ctx, white.data, 1, 96, 120, 2, got) == SNLS_ERR_SHAPE
              && snls_noise_level(ctx, white.data, 1, 96, 120, 3, NULL) == SNLS_ERR_ARG && snls_noise_level(ctx, NULL, 1, 96, 120, 3, got) == SNLS_ERR_ARG, "bad frames");
}

/* Colour that goes up and down between every fourth pixel, without brightness: low frequencies cannot tell it from noise of 4:2:0, high ones can. */
static void test_texture_of_colour(SnlsContext *ctx)
{
    enum { H = 96, W = 120, APART = 4 };
    const Clip texture = clip_clean(1, H, W, 3, 0);
    double at[H / APART + 1][W / APART + 1];
    Rng rng = { 17 };
    for (int i = 0; i < (H / APART + 1) * (W / APART + 1); i++) at[i / (W / APART + 1)][i % (W / APART + 1)] = rng_real(&rng, -6, 6);
    for (int i = 0; i < H * W; i++) {
        const int y = i / W / APART, x = i % W / APART;
        const double v = (double)(i / W % APART) / APART, u = (double)(i % W % APART) / APART;
        const double colour = (1 - v) * ((1 - u) * at[y][x] + u * at[y][x + 1]) + v * ((1 - u) * at[y + 1][x] + u * at[y + 1][x + 1]);
        for (int c = 0; c < 3; c++) texture.data[3 * i + c] = (float)(128 + (c - 1) * colour);
    }
    for (int i = 0; i < 2; i++) {
        const double sigma = i ? 5 : 1;
        const Clip noisy = clip_noisy(&texture, sigma);
        double level;
        CHECK(snls_noise_level(ctx, noisy.data, 1, H, W, 3, &level) == SNLS_OK && fabs(level / sigma - 1) < 0.3, "sigma %g, coloured: %g", sigma, level);
    }
}

/* Slanted strokes of one colour on another, `high` of every `line` rows, one in so many columns; soft: pixels from a stroke's middle to where it ends. */
static Clip clip_written(const float paper[3], const float ink[3], int line, int high, int columns, double soft)
{
    enum { H = 160, W = 200 };
    const Clip text = clip_new(1, H, W, 3);
    for (int i = 0; i < H * W; i++) {
        const int y = i / W % line, x = i % W;
        const double stroke = y < high && x < W - 40 ? fmax(0, 1 - fabs(x % columns - (columns - 1) / 2.0 + 0.3 * y - 1.5) / soft) : 0;
        for (int c = 0; c < 3; c++) text.data[3 * i + c] = (float)(paper[c] + (ink[c] - paper[c]) * stroke);
    }
    return text;
}

/* Writing of one strong colour on another, whose edges are strongest in mixtures of colours: noise is what the colours have, be it little or much. */
static void test_coloured_text(SnlsContext *ctx)
{
    static const float paper[3] = { 60, 30, 160 }, ink[3] = { 210, 250, 60 };
    const Clip text = clip_written(paper, ink, 16, 10, 9, 1);
    for (int i = 0; i < 2; i++) {
        const double sigma = i ? 6 : 1, most = 3 * sigma;
        const Clip noisy = clip_noisy(&text, sigma);
        double level;
        CHECK(snls_noise_level(ctx, noisy.data, 1, text.height, text.width, 3, &level) == SNLS_OK && level < most, "text, sigma %g: %g", sigma, level);
    }
}

/* Dense writing of one strong colour on another, whose edges are in every block and as strong in high frequencies as in low ones. Without noise, and beyond
 * 0 to 255 as YUV may be, there is none. */
static void test_dense_text(SnlsContext *ctx)
{
    enum { H = 96, W = 120 };
    static const float ink[3][3] = { { 255, 255, 255 }, { 278, 278, 278 }, { 210, 250, 60 } }, paper[3][3] = { { 0, 0, 0 }, { -18, -18, -18 }, { 60, 30, 160 } };
    for (int kind = 0; kind < 3; kind++) {
        const Clip text = clip_new(1, H, W, 3);
        Rng rng = { 11 };
        for (int i = 0; i < H * W; i++) {
            const bool inked = i / W % 6 < 5 && i % W % 4 < 3 && rng_int(&rng, 0, 1);
            for (int c = 0; c < 3; c++) text.data[3 * i + c] = inked ? ink[kind][c] : paper[kind][c];
        }
        for (int i = 0; i < 3; i++) {
            const double sigma = (const double[]){ 0, 2, 5 }[i];
            const Clip noisy = clip_noisy(&text, sigma);
            double level;
            CHECK(snls_noise_level(ctx, noisy.data, 1, H, W, 3, &level) == SNLS_OK && level >= 0.8 * sigma && level <= 4 * sigma, "text %d, sigma %g: %g", kind, sigma, level);
        }
    }
}

/* A drawing without noise, whose edges are hard: what it shows is no noise. */
static void test_drawing(SnlsContext *ctx)
{
    enum { H = 96, W = 120, SHAPES = 60 };
    const Clip drawing = clip_new(1, H, W, 3);
    Rng rng = { 23 };
    for (int i = 0; i < 3 * H * W; i++) drawing.data[i] = 200;
    for (int n = 0; n < SHAPES; n++) {
        const int x = rng_int(&rng, 0, W), y = rng_int(&rng, 0, H), r = rng_int(&rng, 4, 16);
        const float colour[3] = { (float)rng_int(&rng, 1, 254), (float)rng_int(&rng, 1, 254), (float)rng_int(&rng, 1, 254) };
        for (int i = 0; i < H * W; i++)
            if ((i / W - y) * (i / W - y) + (i % W - x) * (i % W - x) < r * r) memcpy(drawing.data + 3 * i, colour, sizeof colour);
    }
    double level;
    CHECK(snls_noise_level(ctx, drawing.data, 1, H, W, 3, &level) == SNLS_OK && level == 0, "a drawing: %g", level);
}

/* As 8 bits have it. */
static void clip_to_bytes(const Clip *c)
{
    for (int64_t i = 0; i < c->frames * clip_frame(c); i++) c->data[i] = (float)fmin(fmax(round(c->data[i]), 0), 255);
}

/* Soft writing whose paper and ink are at the ends of the scale: nearly all blocks are clipped, those that are not are edges. */
static void test_clipped_text(SnlsContext *ctx)
{
    static const float paper[3] = { 0, 0, 255 }, ink[3] = { 255, 255, 0 };
    const Clip text = clip_written(paper, ink, 20, 14, 20, 5.5);
    for (int i = 0; i < 3; i++) {
        const double sigma = (const double[]){ 0, 3, 8 }[i];
        const Clip noisy = clip_noisy(&text, sigma);
        double level;
        clip_to_bytes(&noisy);
        CHECK(snls_noise_level(ctx, noisy.data, 1, text.height, text.width, 3, &level) == SNLS_OK && level >= 0.7 * sigma && level <= 2 * sigma + 2, "text, sigma %g: %g", sigma, level);
    }
}

/* Strong noise on what is nearly black or white, clipped: half of it is left, in all blocks. */
static void test_clipped_noise(SnlsContext *ctx, const Clip *clean)
{
    for (int white = 0; white < 2; white++) {
        const Clip dark = clip_new(2, 96, 120, 3);
        for (int64_t i = 0; i < 2 * clip_frame(&dark); i++) dark.data[i] = (white ? 240 : 2) + 0.05f * clean->data[i];
        const Clip noisy = clip_noisy(&dark, 20);
        clip_to_bytes(&noisy);
        double got[3], level;
        CHECK(snls_noise_estimate(ctx, noisy.data, 2, 96, 120, 3, got) == SNLS_OK && snls_noise_level(ctx, noisy.data, 2, 96, 120, 3, &level) == SNLS_OK, "%s", snls_error(ctx));
        for (int c = 0; c < 3; c++) CHECK(fabs(got[c] / 20 - 1) < 0.2, "white %d: %g in channel %d", white, got[c], c);
        CHECK(fabs(level / 20 - 1) < 0.2, "white %d, as one: %g", white, level);
    }
}

static void test_estimate(void)
{
    SnlsContext *ctx = open_with(2);
    const Clip clean = clip_clean(2, 96, 120, 3, 0);
    for (int i = 0; i < 4; i++) {
        const double want = (const double[]){ 2, 5, 20, 50 }[i];
        const Clip noisy = clip_noisy(&clean, want);
        double got[3];
        CHECK(snls_noise_estimate(ctx, noisy.data, 2, 96, 120, 3, got) == SNLS_OK, "%s", snls_error(ctx));
        for (int c = 0; c < 3; c++) CHECK(fabs(got[c] / want - 1) < 0.1, "sigma %g: %g in channel %d", want, got[c], c);
    }
    test_level(ctx, &clean);
    test_texture_of_colour(ctx);
    test_coloured_text(ctx);
    test_dense_text(ctx);
    test_drawing(ctx);
    test_clipped_text(ctx);
    test_clipped_noise(ctx, &clean);
    double none[3];
    CHECK(snls_noise_estimate(ctx, clean.data, 0, 96, 120, 3, none) == SNLS_ERR_SHAPE, "no frames");
    ((float *)clean.data)[96 * 120 * 3 + 7] = NAN;
    CHECK(snls_noise_estimate(ctx, clean.data, 2, 96, 120, 3, none) == SNLS_ERR_ARG && snls_noise_level(ctx, clean.data, 2, 96, 120, 3, none) == SNLS_ERR_ARG, "NaN");
    CHECK(snls_noise_estimate(ctx, clean.data, 1, 96, 120, 3, none) == SNLS_OK, "NaN in a frame that was not given");
    snls_close(&ctx);
}

/* What is drawn on a frame, with grain of coding or of one value, does not hide its noise; a drawing has none. Noise that grows with brightness counts. */
static void test_estimate_drawn(void)
{
    SnlsContext *ctx = open_with(2);
    enum { H = 120, W = 160 };
    const Clip clean = clip_clean(1, H, W, 3, 0), noisy = clip_noisy(&clean, 20), unit = clip_noisy(&clean, 1);
    Rng rng = { 3 };
    for (int kind = 0; kind < 4; kind++) { /* bars, bars with grain, a logo, noise of photons */
        Clip c = clip_new(1, H, W, 3);
        double got[3], want = 0;
        for (int64_t i = 0; i < clip_frame(&c); i++) {
            const int64_t y = i / 3 / W, x = i / 3 % W;
            const double photons = sqrt(3 * fabs((double)clean.data[i]) + 4);
            const bool bar = y < H / 8 || y >= H - H / 8, logo = y > 10 && y < 40 && x > 10 && x < 90;
            c.data[i] = kind < 2 && bar ? (float)(16 - kind * rng_int(&rng, 0, 1)) : kind == 2 && logo ? 90 : kind == 3 ? (float)(clean.data[i] + photons * (unit.data[i] - clean.data[i])) : noisy.data[i];
            want += (kind == 3 ? photons * photons : 400) / (double)clip_frame(&c);
        }
        CHECK(snls_noise_estimate(ctx, c.data, 1, H, W, 3, got) == SNLS_OK, "%s", snls_error(ctx));
        for (int i = 0; i < 3; i++) CHECK(fabs(got[i] / sqrt(want) - 1) < 0.15, "drawn %d: %g in channel %d, %g is there", kind, got[i], i, sqrt(want));
    }
    Clip drawn = clip_new(3, H, W, 3);
    double got[3];
    for (int64_t i = 0; i < 3 * clip_frame(&drawn); i++) drawn.data[i] = i / 3 % W > 60 && i / 3 % W < 90 && i / 3 / W % H > 50 && i / 3 / W % H < 60 ? 200 : 16;
    memcpy(drawn.data + 2 * clip_frame(&drawn), noisy.data, (size_t)clip_frame(&drawn) * sizeof(float));
    CHECK(snls_noise_estimate(ctx, drawn.data, 2, H, W, 3, got) == SNLS_OK && got[0] == 0, "a drawing: %g", got[0]);
    CHECK(snls_noise_estimate(ctx, drawn.data, 3, H, W, 3, got) == SNLS_OK && fabs(got[0] / 20 - 1) < 0.1, "noise after two drawings: %g", got[0]);
    for (int64_t i = 0; i < clip_frame(&drawn); i++) drawn.data[i] = 257 * noisy.data[i];
    CHECK(snls_noise_estimate(ctx, drawn.data, 1, H, W, 3, got) == SNLS_OK && got[0] == 1000, "more than open takes: %g", got[0]);
    snls_close(&ctx);
}

/* Noise as videos have it: stronger in brightness than in colour, and one sample of colour for four pixels. */
static void test_noise_of_videos(void)
{
    const Clip clean = clip_clean(5, 48, 52, 3, 0);
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
        const SnlsDenoiseParams p = denoise_params(SNLS_DENOISE_FAST, -1);
        const Clip out = clip_denoised(&noisy, &p, 2, 0, 0);
        CHECK(clip_psnr(&clean, &out) > clip_psnr(&clean, &noisy) + 8, "%s: %.2f dB from %.2f", kind ? "colour" : "brightness", clip_psnr(&clean, &out), clip_psnr(&clean, &noisy));
    }
}

/* A colour that is clipped altogether, as blue in the light of candles or red under water, says nothing of the noise of the others, which is in all channels that are filtered. */
static void test_clipped_colour(void)
{
    Clip clean = clip_clean(5, 48, 52, 3, 0), noisy = clip_noisy(&clean, 20);
    for (int64_t colour = 0; colour < 3; colour += 2) {
        for (int64_t i = colour; i < 5 * clip_frame(&clean); i += 3) clean.data[i] = noisy.data[i] = colour ? 0 : 255;
        const SnlsDenoiseParams p = denoise_params(SNLS_DENOISE_FAST, -1);
        const Clip out = clip_denoised(&noisy, &p, 2, 0, 0);
        CHECK(clip_psnr(&clean, &out) > clip_psnr(&clean, &noisy) + 7, "colour %d clipped: %.2f dB from %.2f", (int)colour, clip_psnr(&clean, &out), clip_psnr(&clean, &noisy));
    }
}

/* A denoiser that is told the noise of its channels goes by it: told what follows from sigma it does the same, told another's it does not. */
static void test_noise_told(void)
{
    const Clip clean = clip_clean(5, 24, 24, 3, 0), noisy = clip_noisy(&clean, 15);
    const int64_t size = clip_frame(&noisy);
    SnlsDenoiseParams p = denoise_params(SNLS_DENOISE_FAST, -1);
    SnlsContext *ctx = open_with(1);
    SnlsDenoiser *d = NULL;
    float *out = check_alloc(size, sizeof *out);
    CHECK(snls_denoiser_open(&d, ctx, &p, 24, 24, 3) == SNLS_OK, "%s", snls_error(ctx));
    CHECK(snls_denoiser_set_noise(d, (double[]){ 1, 1, 1 }) == SNLS_ERR_ARG, "noise is set where it is to be estimated");
    CHECK(snls_denoiser_sigma(d, p.sigma) == SNLS_END, "noise is known before a frame was pulled");
    snls_denoiser_close(&d);
    p = denoise_params(SNLS_DENOISE_FAST, 15);
    const Clip first = clip_denoised(&noisy, &p, 1, 0, 0);
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
    const int64_t size = clip_frame(clean), at = from * size;
    const Clip c = { to - from, clean->height, clean->width, clean->channels, clean->data + at };
    Clip n = c, o = c;
    n.data = noisy->data + at, o.data = out->data + at;
    return clip_psnr(&c, &o) - clip_psnr(&c, &n);
}

/* Frames without noise at the beginning, with a cut behind them or without, switch nothing off; they stay as they are. Every scene has its own noise. */
static void test_quiet_lead(void)
{
    enum { LEAD = 7, FRAMES = 24 };
    for (int32_t radius = 0; radius < 4; radius += 3)
        for (int cut = 0; cut < 2; cut++) {
            const Clip clean = clip_clean(FRAMES, 32, 36, 3, 0);
            for (int64_t i = 0; i < LEAD * clip_frame(&clean); i++) clean.data[i] = 16;
            const Clip noisy = clip_noisy(&clean, 20);
            memcpy(noisy.data, clean.data, (size_t)(LEAD * clip_frame(&clean)) * sizeof(float));
            SnlsDenoiseParams p = denoise_params(SNLS_DENOISE_FAST, -1);
            p.radius = radius;
            const Clip out = clip_denoised(&noisy, &p, 2, 0, cut ? LEAD : 0), late = clip_denoised(&noisy, &p, 1, 1, cut ? LEAD : 0);
            double moved = 0;
            for (int64_t i = 0; i < (LEAD - 2 * radius) * clip_frame(&out); i++) moved = fmax(moved, fabs((double)out.data[i] - clean.data[i]));
            CHECK(moved < 1e-4, "radius %d, cut %d: frames without noise are changed by %g", (int)radius, cut, moved);
            CHECK(gain(&clean, &noisy, &out, LEAD, FRAMES) > (radius ? 8 : 4), "radius %d, cut %d: %.2f dB gained behind a black lead", (int)radius, cut,
                  gain(&clean, &noisy, &out, LEAD, FRAMES));
            CHECK(clip_same(&out, &late), "radius %d, cut %d: threads or pulls change the result", (int)radius, cut);
        }
    const Clip clean = clip_clean(12, 32, 36, 3, 6), weak = clip_noisy(&clean, 5), strong = clip_noisy(&clean, 30);
    Clip both = clip_new(12, 32, 36, 3);
    const int64_t half = 6 * clip_frame(&clean);
    memcpy(both.data, weak.data, (size_t)half * sizeof(float));
    memcpy(both.data + half, strong.data + half, (size_t)half * sizeof(float));
    const SnlsDenoiseParams p = denoise_params(SNLS_DENOISE_FAST, -1);
    const Clip out = clip_denoised(&both, &p, 1, 0, 6);
    for (int64_t scene = 0; scene < 2; scene++)
        CHECK(gain(&clean, &both, &out, 6 * scene, 6 * scene + 6) > (scene ? 8 : 5), "scene %d: %.2f dB gained", (int)scene, gain(&clean, &both, &out, 6 * scene, 6 * scene + 6));
}

/* A fade from black: noise that grows with it is followed. */
static void test_fade(void)
{
    const Clip clean = clip_clean(30, 32, 36, 3, 0), noisy = clip_noisy(&clean, 20);
    for (int64_t i = 0; i < 30 * clip_frame(&clean); i++) {
        const float share = (float)(i / clip_frame(&clean)) / 29;
        clean.data[i] *= share, noisy.data[i] *= share;
    }
    const SnlsDenoiseParams p = denoise_params(SNLS_DENOISE_FAST, -1);
    const Clip out = clip_denoised(&noisy, &p, 2, 0, 0);
    CHECK(gain(&clean, &noisy, &out, 10, 20) > 6 && gain(&clean, &noisy, &out, 20, 30) > 8, "a fade: %.2f and %.2f dB gained", gain(&clean, &noisy, &out, 10, 20),
          gain(&clean, &noisy, &out, 20, 30));
}

/* Noise that becomes stronger or weaker from one frame to the next, without a cut: frames on either side are filtered by their own. */
static void test_turn(void)
{
    enum { FRAMES = 24, TURN = 10 };
    for (int i = 0; i < 4; i++) {
        const Clip clean = clip_clean(FRAMES, 64, 72, 3, 0), other = clip_noisy(&clean, i % 2 ? 3 : 30);
        Clip noisy = clip_noisy(&clean, i % 2 ? 30 : 3);
        const int64_t at = TURN * clip_frame(&clean);
        memcpy(noisy.data + at, other.data + at, (size_t)((FRAMES - TURN) * clip_frame(&clean)) * sizeof(float));
        const SnlsDenoiseParams p = denoise_params(i / 2 ? SNLS_DENOISE_MEDIUM : SNLS_DENOISE_FAST, -1);
        const Clip out = clip_denoised(&noisy, &p, 2, 0, 0), late = clip_denoised(&noisy, &p, 1, 1, 0);
        for (int64_t t = 0; t < FRAMES; t++) {
            const bool strong = (t < TURN) == i % 2;
            CHECK(gain(&clean, &noisy, &out, t, t + 1) > (strong ? 7 : 1), "noise that turns, clip %d: frame %d gained %.2f dB", i, (int)t, gain(&clean, &noisy, &out, t, t + 1));
        }
        CHECK(clip_same(&out, &late), "noise that turns: threads or pulls change the result");
    }
}

static void test_no_noise(void)
{
    const Clip clean = clip_clean(4, 24, 31, 3, 0);
    const SnlsDenoiseParams zero = denoise_params(SNLS_DENOISE_MEDIUM, 0);
    const Clip copy = clip_denoised(&clean, &zero, 1, 0, 0);
    CHECK(clip_same(&clean, &copy), "sigma 0 is no copy");
}

/* Dark and bright: eigenvalues are far apart. */
static Clip square_clip(int64_t frames, int64_t height, int64_t width, int64_t channels)
{
    Clip c = clip_new(frames, height, width, channels);
    for (int64_t i = 0; i < frames * clip_frame(&c); i++) {
        const double t = (double)(i / clip_frame(&c)), y = (double)(i / (width * channels) % height), x = (double)(i / channels % width);
        c.data[i] = sin(0.4 * (x + 2 * t)) * cos(0.3 * y) > 0 ? 247 : 7;
    }
    return c;
}

static double channel_psnr(const Clip *a, const Clip *b, int64_t c)
{
    const int64_t n = a->frames * clip_frame(a) / 3;
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += pow((double)a->data[3 * i + c] - b->data[3 * i + c], 2) / (double)n;
    return 10 * log10(255.0 * 255.0 / sum);
}

/* Noise of one colour does not go into the others: one without noise comes out as it went in, none gets worse. */
static void test_unequal_noise(void)
{
    const Clip clean = square_clip(5, 40, 44, 3), unit = clip_noisy(&clean, 1);
    for (int i = 0; i < 3; i++) {
        SnlsDenoiseParams p = denoise_params(SNLS_DENOISE_FAST, 40);
        Clip noisy = clip_new(5, 40, 44, 3);
        for (int c = 0; c < 2; c++) p.sigma[c] = (const double[]){ 0, 2, 10 }[i];
        for (int64_t n = 0; n < 5 * clip_frame(&noisy); n++) noisy.data[n] = clean.data[n] + (float)p.sigma[n % 3] * (unit.data[n] - clean.data[n]);
        const Clip out = clip_denoised(&noisy, &p, 2, 0, 0);
        for (int64_t c = 0; c < 2 && i; c++)
            CHECK(channel_psnr(&clean, &out, c) > channel_psnr(&clean, &noisy, c), "sigma %g beside 40: %.2f dB, was %.2f", p.sigma[c], channel_psnr(&clean, &out, c), channel_psnr(&clean, &noisy, c));
        bool as_it_was = true;
        for (int64_t n = 0; n < 5 * clip_frame(&out); n++) as_it_was &= n % 3 == 2 || out.data[n] == noisy.data[n];
        CHECK(as_it_was == !i, "sigma %g beside 40: %s", p.sigma[0], as_it_was ? "unchanged" : "changed");
        CHECK(channel_psnr(&clean, &out, 2) > channel_psnr(&clean, &noisy, 2) + 6, "sigma 40: %.2f dB, was %.2f", channel_psnr(&clean, &out, 2), channel_psnr(&clean, &noisy, 2));
    }
}

/* What is taken off is no more than the noise, however little that is: f32 sums of a group can not tell so little from nothing. */
static void test_little_noise(void)
{
    static const double sigmas[] = { 1e-3, 0.01, 0.1, 1, 0.05, 0.2, 0.3, 0.5 };
    const Clip clean = clip_clean(3, 24, 26, 3, 0), squares = square_clip(3, 32, 34, 1);
    for (int32_t preset = SNLS_DENOISE_FAST; preset <= SNLS_DENOISE_SLOW; preset++)
        for (int step = preset == SNLS_DENOISE_SLOW ? 4 : 1, i = step / 4; i < 8; i += step) { /* slow is slow, and exact */
            const double sigma = sigmas[i];
            const SnlsDenoiseParams p = denoise_params(preset, sigma);
            const Clip in = clip_noisy(i < 4 ? &clean : &squares, i < 4 ? 20 : sigma), out = clip_denoised(&in, &p, 2, 0, 0);
            double sum = 0;
            for (int64_t n = 0; n < 3 * clip_frame(&out); n++) sum += pow((double)out.data[n] - in.data[n], 2);
            const double change = sqrt(sum / (double)(3 * clip_frame(&out)));
            CHECK(change <= sigma + 255 * 2e-6, "preset %d, clip %d, sigma %g: changed by %g", (int)preset, i / 4, sigma, change);
        }
}

int main(void)
{
    test_noise();
    test_estimate();
    test_estimate_drawn();
    if (has_vnlb()) {
        test_noise_of_videos();
        test_clipped_colour();
        test_noise_told();
        test_quiet_lead();
        test_fade();
        test_turn();
        test_no_noise();
        test_unequal_noise();
        test_little_noise();
    }
    tensors_free();
    return check_end();
}
