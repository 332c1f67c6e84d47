/* check_clip.c: clips that a denoiser is tried on. */
#include "clip.h"
#include <math.h>
#include <pthread.h>
#include <string.h>

float *floats_new(int64_t count)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* check_alloc has a list */
    pthread_mutex_lock(&lock);
    float *x = check_alloc(count, sizeof *x);
    pthread_mutex_unlock(&lock);
    return x;
}

Clip clip_new(int64_t frames, int64_t height, int64_t width, int64_t channels)
{
    Clip c = { frames, height, width, channels, NULL };
    c.data = floats_new(frames * clip_frame(&c));
    return c;
}

/* A smooth texture that moves by (1.5, -0.5) pixels a frame, another one in each scene. */
Clip clip_clean(int64_t frames, int64_t height, int64_t width, int64_t channels, int64_t cut)
{
    Clip c = clip_new(frames, height, width, channels);
    for (int64_t i = 0; i < frames * clip_frame(&c); i++) {
        const int64_t t = i / clip_frame(&c), y = i / (width * channels) % height, x = i / channels % width, ch = i % channels;
        const double u = (double)x - 1.5 * (double)t, v = (double)y + 0.5 * (double)t, turn = cut && t >= cut ? 2.1 : 0.3;
        c.data[i] = (float)(128 + 40 * sin(turn * u + 0.2 * v + (double)ch) + 50 * (sin(0.05 * u - 0.07 * v + turn) > 0));
    }
    return c;
}

SnlsContext *open_with(int32_t threads)
{
    SnlsContextParams p;
    SnlsContext *ctx;
    snls_context_defaults(&p);
    p.threads = threads;
    CHECK(snls_open(&ctx, &p) == SNLS_OK, "open");
    return ctx;
}

Clip clip_noisy(const Clip *clean, double sigma)
{
    Clip c = clip_new(clean->frames, clean->height, clean->width, clean->channels);
    SnlsContext *ctx = open_with(1);
    memcpy(c.data, clean->data, (size_t)(c.frames * clip_frame(&c)) * sizeof(float));
    CHECK(snls_noise_add(ctx, c.data, c.frames * clip_frame(&c), 0, sigma, 5) == SNLS_OK, "%s", snls_error(ctx));
    snls_close(&ctx);
    return c;
}

double clip_psnr(const Clip *a, const Clip *b)
{
    double sum = 0;
    const int64_t n = a->frames * clip_frame(a);
    for (int64_t i = 0; i < n; i++) sum += pow((double)a->data[i] - b->data[i], 2) / (double)n;
    return 10 * log10(255.0 * 255.0 / sum);
}

SnlsDenoiseParams denoise_params(int32_t preset, double sigma)
{
    SnlsDenoiseParams p;
    snls_denoise_defaults(&p);
    p.preset = preset;
    for (int c = 0; c < 3; c++) p.sigma[c] = sigma;
    return p;
}

/* when: 0 pulls after every push, 1 only where there is no more room and at the end. */
Clip clip_denoised(const Clip *in, const SnlsDenoiseParams *p, int32_t threads, int when, int64_t cut)
{
    SnlsContext *ctx = open_with(threads);
    SnlsDenoiser *d = NULL;
    Clip out = clip_new(in->frames, in->height, in->width, in->channels);
    int64_t pulled = 0, size = clip_frame(in);
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

bool clip_same(const Clip *a, const Clip *b)
{
    return !memcmp(a->data, b->data, (size_t)(a->frames * clip_frame(a)) * sizeof(float));
}

bool has_vnlb(void)
{
    SnlsContext *ctx = open_with(1);
    SnlsDenoiser *d = NULL;
    const SnlsDenoiseParams p = denoise_params(SNLS_DENOISE_FAST, 10);
    const bool has = snls_denoiser_open(&d, ctx, &p, 8, 8, 1) != SNLS_ERR_UNSUPPORTED;
    snls_denoiser_close(&d);
    snls_close(&ctx);
    return has;
}
