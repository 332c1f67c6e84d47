/* clip_in.h: a clip frame by frame, so that its length does not matter: a .npy file whole, anything else as it is decoded. */
#ifndef SNLS_CLI_CLIP_IN_H
#define SNLS_CLI_CLIP_IN_H

#include "frames.h"

typedef struct ClipIn {
    const char *path;
    int64_t shape[3]; /* of a frame: height, width, channels */
    int64_t given;    /* frames so far */
    SnlsTensor array; /* of a .npy file */
    SnlsReader *reader;
    bool ended;
} ClipIn;

int clip_in_open(SnlsContext *ctx, const char *path, const Reading *reading, ClipIn *clip);

/* The next frame, f32, 0..255, contiguous; *there: there was one. pixels NULL: it is counted and left out. */
int clip_in_next(SnlsContext *ctx, ClipIn *clip, float *pixels, bool *there);

void clip_in_close(SnlsContext *ctx, ClipIn *clip);

#endif
