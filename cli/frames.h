/* frames.h: whole clips between files and memory: a .npy file, an image, a folder of images, a pattern of names, a video. */
#ifndef SNLS_CLI_FRAMES_H
#define SNLS_CLI_FRAMES_H

#include "cli.h"

/* What the sentences of the library offer, so every command that reads clips has it. */
typedef struct Reading {
    bool lenient, progressive;
} Reading;
/* clang-format off */
#define READING_ARGS(reading)                                                                          \
    { "lenient", NULL, "go on behind damaged data; take a file that ends early", &(reading).lenient }, \
    { "progressive", NULL, "take frames marked as interlaced as whole frames", &(reading).progressive }
/* clang-format on */

SnlsReaderParams reading_params(const Reading *reading);

void print_notes(const SnlsVideoInfo *info); /* what a reader or a writer has to say, a line each */
#define NOTES_SECONDS 2.0 /* a run that has gone well for so long tells its notes, others at their end: one that fails has one line, the error */
void print_later_notes(const SnlsVideoInfo *told,
                       const SnlsVideoInfo *now); /* what it has come to say since it was opened */

void print_damage(const char *path, const SnlsVideoInfo *info); /* what matters of the notes where no clip is written */

/* (T,H,W,C), f32, 0..255, contiguous. Needs at least least frames. No output may be what was loaded, here and below. */
int frames_load(SnlsContext *ctx, const char *path, const Reading *reading, int64_t least, SnlsTensor *video);

typedef struct Length { /* of a clip */
    const char *path;
    SnlsReaderParams params; /* how it is read */
    int64_t frames;          /* how many there are, or are claimed to be; -1 where nobody knows */
    bool exact;              /* as many will come */
} Length;

/* Refuses (line printed) a file of pattern that is in the way of the result of a frame; that should be known before the work, not after an hour. ahead: frames behind its own
 * that a result needs. Frames that are only claimed are looked for first, and where that cannot be done, in a pipe, files are refused as their frames come. */
int frames_free(SnlsContext *ctx, const Length *clip, int64_t ahead, const char *pattern, bool overwrite);

int frames_enough(const char *path, int64_t frames, int64_t least); /* or EXIT_INPUT and its line */

#define CLIP_LAYOUT "[T,H,W,C], [1,T,H,W,C] or [H,W,C]"
/* An array of a file, with or without data, as one of ndim axes: it may have a 1 in front, or no first axis. layout: how the sentence says that. */
int array_axes(const char *path, SnlsTensor *array, int32_t ndim, const char *layout);

SnlsTensor frame_of(const SnlsTensor *video, int64_t t); /* a view of one frame */

/* SSIM has no meaning on small frames: NaN there, and the sentence is the context's. */
SnlsStatus ssim_or_nan(SnlsContext *ctx, const SnlsTensor *clean, const SnlsTensor *test, double *ssim);

void frames_clamp(const SnlsTensor *video); /* to 0..255, what can be shown: clean pixels of YUV files may lie outside too */

#endif
