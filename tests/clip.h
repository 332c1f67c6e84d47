/* clip.h: clips that a denoiser is tried on, and what comes out. */
#ifndef CLIP_H
#define CLIP_H

#include "check.h"
#include <snls/snls.h>

typedef struct Clip {
    int64_t frames, height, width, channels;
    float *data;
} Clip;

static inline int64_t clip_frame(const Clip *c) { return c->height * c->width * c->channels; } /* floats */

float *floats_new(int64_t count); /* by any thread; they live until tensors_free */
Clip clip_new(int64_t frames, int64_t height, int64_t width, int64_t channels);
/* A smooth texture that moves by (1.5, -0.5) pixels a frame, another one in each scene. */
Clip clip_clean(int64_t frames, int64_t height, int64_t width, int64_t channels, int64_t cut);
Clip clip_noisy(const Clip *clean, double sigma);

double clip_psnr(const Clip *a, const Clip *b);
bool clip_same(const Clip *a, const Clip *b);

SnlsContext *open_with(int32_t threads);
bool has_vnlb(void); /* this build */
SnlsDenoiseParams denoise_params(int32_t preset, double sigma);
/* when: 0 pulls after every push, 1 only where there is no more room and at the end. */
Clip clip_denoised(const Clip *in, const SnlsDenoiseParams *p, int32_t threads, int when, int64_t cut);

#endif
