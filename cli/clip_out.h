/* clip_out.h: a whole clip of floats into OUT: a .npy file, a folder or a pattern of pictures, a video, "-". */
#ifndef SNLS_CLI_CLIP_OUT_H
#define SNLS_CLI_CLIP_OUT_H

#include "frames.h"

typedef struct ClipOut {
    const char *in, *path; /* a video has rate, colours, sound of the clip IN, which is read again for it */
    Reading reading;       /* how */
    bool array, overwrite;
    char pattern[4096]; /* of pictures; empty: one file */
} ClipOut;

/* Chooses by the name, and adds the outputs for so many frames. */
int clip_out_add(ClipOut *out, const Common *common, int64_t frames);
int clip_out_write(const ClipOut *out, SnlsContext *ctx, const SnlsTensor *clip); /* (T,H,W,C), f32, 0..255 */

#endif
