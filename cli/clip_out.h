/* clip_out.h: a clip of floats into OUT, a frame at a time: a .npy file, a folder or a pattern of pictures, a video, "-". */
#ifndef SNLS_CLI_CLIP_OUT_H
#define SNLS_CLI_CLIP_OUT_H

#include "clip_in.h"

typedef struct ClipOut {
    const char *in, *path; /* a video has rate, colours, sound of the clip IN */
    Reading reading;       /* how IN is read */
    SnlsContext *ctx;
    const Common *common;
    ClipIn clip;        /* IN */
    ArrayOut array;     /* OUT, where it is a .npy file */
    SnlsWriter *writer; /* where it is a video or one picture */
    SnlsVideoInfo told; /* what the writer has said so far */
    char pattern[4096]; /* of pictures; empty: one file */
    int64_t written;    /* frames so far */
    double begun;       /* seconds_now */
    bool said;          /* notes of IN and told are printed */
} ClipOut;

int clip_out_open(ClipOut *out, SnlsContext *ctx, const Common *common); /* IN; frames are the clip's to take */
int clip_out_begin(ClipOut *out);                        /* chooses by the name of OUT, and adds it; before the first frame is taken */
int clip_out_frame(ClipOut *out, const float *pixels); /* (H,W,C), 0..255; at most one frame is taken ahead of it */
int clip_out_finish(ClipOut *out);
void clip_out_free(ClipOut *out); /* before its context */

#endif
