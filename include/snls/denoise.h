/* denoise.h: a video denoiser that streams: frames in, frames out a few later, memory bounded by its temporal window.
 *
 *   SnlsDenoiseParams p;
 *   snls_denoise_defaults(&p);
 *   p.sigma[0] = p.sigma[1] = p.sigma[2] = 20;
 *   SnlsDenoiser *d;
 *   if (snls_denoiser_open(&d, ctx, &p, height, width, 3) < 0) puts(snls_error(ctx));
 *   while (read(frame)) {
 *       snls_denoiser_push(d, frame, 0);
 *       while (snls_denoiser_pull(d, out) == SNLS_OK) write(out);
 *   }
 *   snls_denoiser_finish(d);
 *   while (snls_denoiser_pull(d, out) == SNLS_OK) write(out);
 *   snls_denoiser_close(&d);
 *
 * Frames are (H,W,C) f32, contiguous, on the 0..255 scale, neither clipped nor rounded. The result does not depend on the
 * number of threads, nor on when frames are pulled. Works in CPU memory; docs/denoising.md says what is computed. */
#ifndef SNLS_DENOISE_H
#define SNLS_DENOISE_H

#include <snls/context.h>
#include <snls/options.h>
#include <snls/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum SnlsDenoiseMethod {
    SNLS_DENOISE_VNLB = 0, /* video non-local Bayes (Arias, Morel, 2018), on our own flow and search */
    SNLS_DENOISE_NLM = 1   /* weighted sum of the best patches: for comparison */
} SnlsDenoiseMethod;

typedef enum SnlsDenoisePreset {
    SNLS_DENOISE_FAST = 0,
    SNLS_DENOISE_MEDIUM = 1,
    SNLS_DENOISE_SLOW = 2
} SnlsDenoisePreset;

typedef enum SnlsDenoiseFlow {
    SNLS_DENOISE_FLOW_PRESET = 0, /* what the preset says */
    SNLS_DENOISE_FLOW_NONE = 1,
    SNLS_DENOISE_FLOW_FARNEBACK = 2,
    SNLS_DENOISE_FLOW_TVL1 = 3,
    SNLS_DENOISE_FLOW_DIS = 4
} SnlsDenoiseFlow;

/* Below flow: what the preset says, where a field is 0 (or -1 where 0 means something). "1" and "2" are the two steps of
 * vnlb; nlm has one step and looks at those of step 1. */
typedef struct SnlsDenoiseParams {
    double  sigma[3];  /* standard deviation of the noise of each channel (the first where there is one); < 0: estimated from
                          the frames about each; 0 in all: frames are copied (-1) */
    int32_t method;    /* SnlsDenoiseMethod (vnlb) */
    int32_t preset;    /* SnlsDenoisePreset (medium) */
    int32_t flow;      /* SnlsDenoiseFlow (preset) */
    int32_t radius;    /* frames searched on either side, 0 to 8 (-1) */
    int32_t depth;     /* frames of a patch, 1 or 2 (0) */
    int32_t window1, window2;   /* side of the search window in each frame, pixels (0) */
    int32_t patches1, patches2; /* patches of a group (0) */
    int32_t step1, step2;       /* pixels between the reference patches (0) */
    int32_t rank1;              /* most eigenvectors of a group (0) */
    int32_t reuse1, reuse2;     /* 1: what was in a group does not become a reference; 2: nor do patches' second halves (-1) */
    double  theta1;             /* threshold on eigenvalues instead of the best shrinkage: up to (1 + theta) * sigma^2 is noise (-1) */
    int32_t reserved[32];       /* zero */
} SnlsDenoiseParams;

SNLS_API void snls_denoise_defaults(SnlsDenoiseParams *params);

/* The option table of SnlsDenoiseParams, without sigma. Static. */
SNLS_API const SnlsOption *snls_denoise_options(void);

typedef struct SnlsDenoiser SnlsDenoiser;

/* The denoiser uses ctx for its work and its errors until it is closed; nothing else may use ctx during a call.
 * channels: 1 (grey) or 3 (red, green, blue). On failure *out is NULL. SNLS_ERR_UNSUPPORTED: vnlb without LAPACK. */
SNLS_API SnlsStatus snls_denoiser_open(SnlsDenoiser **out, SnlsContext *ctx, const SnlsDenoiseParams *params, int64_t height,
                                       int64_t width, int64_t channels);

/* Takes a copy of the frame. cut != 0: this frame begins a new scene, nothing is searched across the border before it. Where sigma is
 * estimated and the noise of a frame is more than twice that of the frames before, or less than half, neither is anything across that border.
 * SNLS_ERR_ARG, and nothing is taken: a value is not finite or beyond 1e9, the denoiser is finished, or no room is left because
 * finished frames have not been pulled. */
SNLS_API SnlsStatus snls_denoiser_push(SnlsDenoiser *d, const float *frame, int32_t cut);

/* SNLS_OK: the next frame, in order. SNLS_END: nothing is ready (after finish: nothing is left). The work is done here. */
SNLS_API SnlsStatus snls_denoiser_pull(SnlsDenoiser *d, float *frame);

SNLS_API SnlsStatus snls_denoiser_finish(SnlsDenoiser *d); /* no more frames: the rest can be pulled */
SNLS_API void       snls_denoiser_close(SnlsDenoiser **d); /* sets *d to NULL; NULL is allowed */

/* Most bytes that a denoiser holds, its scratch included; known before anything is allocated. -1: parameters or sizes that
 * open would refuse. threads: of the context, as many as snls_open takes; 0 = those of
 * a context opened with 0. */
SNLS_API int64_t snls_denoiser_memory(const SnlsDenoiseParams *params, int64_t height, int64_t width, int64_t channels,
                                      int32_t threads);

/* Frames that must have been pushed before the first can be pulled, at most. */
SNLS_API int64_t snls_denoiser_delay(const SnlsDenoiser *d);

/* What a frame becomes depends on frames long before it, since patches that were in a group are no references again; but every
 * SNLS_DENOISE_PERIOD frames of a scene that begins anew. So a denoiser that is given a scene from a multiple of so many frames on
 * gives the same as one that was given all of it from SNLS_DENOISE_PERIOD + snls_denoiser_delay() frames later on. */
#define SNLS_DENOISE_PERIOD 32

/* How many groups of patches the two steps of vnlb have filtered so far: what its time goes with. */
SNLS_API SnlsStatus snls_denoiser_groups(const SnlsDenoiser *d, int64_t groups[2]);

#define SNLS_NO_NOISE 0.1 /* frames in which less than this is estimated are copied */

/* The noise in use, per channel: where it is estimated, that of the last pulled frame. SNLS_END: none was pulled. */
SNLS_API SnlsStatus snls_denoiser_sigma(const SnlsDenoiser *d, double sigma[3]);

/* The noise of the channels that are filtered, (R+G+B)/sqrt 3, (R-B)/sqrt 2 and (R-2G+B)/sqrt 6, or the only one. Where all of sigma is
 * estimated, so is this, by itself: noise of cameras and codecs is stronger in brightness than in colour. To filter all frames by such an
 * estimate: open a denoiser with sigma as it was told, then set_noise, before the first frame. */
SNLS_API SnlsStatus snls_denoiser_noise(const SnlsDenoiser *d, double noise[3]);
SNLS_API SnlsStatus snls_denoiser_set_noise(SnlsDenoiser *d, const double noise[3]);

/* Motion (H,W,2), (x,y), whole pixels, from the last pulled frame to the next. SNLS_END: there is none (last frame of a
 * scene, no flow, nothing pulled). */
SNLS_API SnlsStatus snls_denoiser_flow(const SnlsDenoiser *d, float *flow);

/* ---- noise ---- */

/* Standard deviation of white noise in each channel of frames (T,H,W,C), f32 contiguous, 0..255; C 1 or 3: the median over the frames that
 * show any. 0 where none does: frames of one value, titles on black. At most 1000. SNLS_ERR_ARG: a value is not finite or beyond 1e9. */
SNLS_API SnlsStatus snls_noise_estimate(SnlsContext *ctx, const float *frames, int64_t count, int64_t height, int64_t width,
                                        int64_t channels, double sigma[3]);

/* The noise as one number, for what takes one, as networks do. Grey: as above. Colour: that of brightness or of one of the two channels of colour, whichever is
 * strongest; decorrelated so that white noise of sigma in red, green and blue is sigma in each of them. Videos have noise that is equal in red, green and blue,
 * and noise of colour that is spread over four pixels: each alone looks weak, and a network that is told so leaves most of it. */
SNLS_API SnlsStatus snls_noise_level(SnlsContext *ctx, const float *frames, int64_t count, int64_t height, int64_t width,
                                     int64_t channels, double *level);

/* values[i] += sigma * N(0,1), not clipped. Draw number first + i of the seed: a clip may be done in pieces and by any
 * number of threads, on any machine, with the same result (up to the last bits of log and cos). */
SNLS_API SnlsStatus snls_noise_add(SnlsContext *ctx, float *values, int64_t count, int64_t first, double sigma, uint64_t seed);

#ifdef __cplusplus
}
#endif
#endif
