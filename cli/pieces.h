/* pieces.h: .npy files a frame at a time, along the first axis, so that their length does not matter. */
#ifndef SNLS_CLI_PIECES_H
#define SNLS_CLI_PIECES_H

#include "cli.h"

typedef struct ArrayIn {
    const char *path;
    SnlsNpyReader *reader;
    SnlsTensor whole;  /* (T,...), f32, without data: what the file is taken as */
    SnlsTensor stored; /* memory for one frame in the file's own type */
    int64_t given;     /* frames so far */
} ArrayIn;

/* ndim axes, or one fewer, or a 1 in front; layout: how sentences say that. */
int array_in_open(SnlsContext *ctx, const char *path, int32_t ndim, const char *layout, ArrayIn *in);
int array_in_next(SnlsContext *ctx, ArrayIn *in, float *values, bool *there);
void array_in_close(SnlsContext *ctx, ArrayIn *in);

typedef struct ArrayOut {
    const char *path;
    SnlsNpyWriter *writer;
    SnlsTensor held; /* what is written at the end; shape[0] is its room */
    bool hold;
    int64_t count; /* frames so far */
} ArrayOut;

/* An output that was added, f32. shape: (T,...), where T is -1 if it is not known yet. Into a pipe all goes at the end, from memory, where T is not known or late is set:
 * who reads several pipes one after the other waits for the end of the first. */
int array_out_open(SnlsContext *ctx, const char *path, int32_t ndim, const int64_t *shape, bool late, ArrayOut *out);
int array_out_add(SnlsContext *ctx, ArrayOut *out, const float *values);
int array_out_finish(SnlsContext *ctx, ArrayOut *out);
void array_out_close(SnlsContext *ctx, ArrayOut *out);

/* Room for more frames than there were, of an array (T,...) which may have no data yet. */
int array_grow(SnlsContext *ctx, const char *what, SnlsTensor *array, int64_t room);

#endif
