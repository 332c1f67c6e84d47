/* clip_out.h: a whole clip of floats into OUT: a .npy file, a folder or a pattern of pictures, a video, "-". */
#ifndef SNLS_CLI_CLIP_OUT_H
#define SNLS_CLI_CLIP_OUT_H

#include "frames.h"

typedef struct ClipOut {
    const char *in, *path; /* a video has rate, colours, sound of the clip IN, which is read again for it */
    Source source;         /* what is left of IN where that is standard input, which comes once */
    SnlsWriter *writer;    /* open from the beginning then */
    SnlsVideoInfo told;    /* what the writer has said so far */
    SnlsContext *ctx;
    const Common *common;
    Reading reading;       /* how */
    bool array, overwrite;
    char pattern[4096]; /* of pictures; empty: one file */
} ClipOut;

/* IN, of at least so many frames. */
int clip_out_load(ClipOut *out, SnlsContext *ctx, const Common *common, int64_t least, SnlsTensor *clip);
/* Chooses by the name, and adds the outputs for so many frames. */
int clip_out_add(ClipOut *out, const Common *common, int64_t frames);
int clip_out_write(ClipOut *out, SnlsContext *ctx, const SnlsTensor *clip); /* (T,H,W,C), f32, 0..255 */
void clip_out_free(ClipOut *out); /* before its context */

#endif
