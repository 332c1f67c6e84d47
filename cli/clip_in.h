/* clip_in.h: a clip frame by frame, so that its length does not matter: a .npy file as it is read, anything else as it is decoded. */
#ifndef SNLS_CLI_CLIP_IN_H
#define SNLS_CLI_CLIP_IN_H

#include "frames.h"
#include "pieces.h"

enum { CLIP_NOTES = 1, CLIP_LIKE = 2 }; /* what the reader has to say is told; there is a reader for who writes a clip like it, and the last two frames are kept */

typedef struct ClipIn {
    const char *path;
    int64_t shape[3]; /* of a frame: height, width, channels */
    int64_t frames;   /* how many there are, or are claimed to be; -1 where nobody knows */
    bool exact;       /* as many will come */
    Reading reading;
    int64_t given;    /* frames so far */
    ArrayIn array;    /* of a .npy file */
    SnlsReader *reader;
    SnlsFrame *like[2]; /* frame t as it was read at t % 2: a result may be one frame behind */
    SnlsVideoInfo told; /* what the reader has said so far */
    int flags;
    bool said, ended; /* told is printed; all is */
} ClipIn;

int clip_in_open(SnlsContext *ctx, const char *path, const Reading *reading, int flags, ClipIn *clip);

/* The next frame, f32, 0..255, contiguous; *there: there was one. pixels NULL: it is counted and left out. */
int clip_in_next(SnlsContext *ctx, ClipIn *clip, float *pixels, bool *there);
int clip_in_count(SnlsContext *ctx, ClipIn *clip); /* the rest is counted and left out */

int clip_in_free(SnlsContext *ctx, const ClipIn *clip, int64_t ahead, const char *pattern, bool overwrite); /* frames_free */
void clip_in_say(ClipIn *clip);  /* what the reader had to say when it was opened, if that was not said yet */
void clip_in_tell(ClipIn *clip); /* what the reader has to say of the frames so far: for who takes no more of them; at the end it is told by itself */

void clip_in_close(SnlsContext *ctx, ClipIn *clip);

#endif
