/* image.h: pictures as rows of samples: what the formats share. */
#ifndef SNLS_IO_IMAGE_H
#define SNLS_IO_IMAGE_H

#include "base/context.h"

enum { SNLS_IMAGE_SIDE_MAX = 32767 };

typedef struct SnlsBytes {
    const unsigned char *data;
    int64_t size;
    const char *name; /* for sentences */
} SnlsBytes;

/* All of a regular file; snls_mem_free gives it back. */
SnlsStatus snls_io_read_all(SnlsContext *ctx, const char *path, unsigned char **bytes, int64_t *size);

/* (H,W,C) of u8, or u16 in the machine's order where depth is 16; *data is the context's memory. */
typedef struct SnlsSamples {
    void *data;
    int64_t width, height;
    int32_t channels, depth;
} SnlsSamples;

SnlsStatus snls_png_samples(SnlsContext *ctx, const SnlsBytes *file, SnlsSamples *samples);
SnlsStatus snls_jpeg_samples(SnlsContext *ctx, const SnlsBytes *file, SnlsSamples *samples);

/* Of a JPEG's segments before its pixels the first of this marker that begins with word (length bytes): where it is, and bytes of it that there are; NULL. */
const unsigned char *snls_jpeg_segment(const unsigned char *data, int64_t size, int marker, const char *word, int64_t length, int64_t *bytes);

/* The same of a PNG's chunks before its pixels: what the first of this kind holds. */
const unsigned char *snls_png_chunk(const unsigned char *data, int64_t size, const char *kind, int64_t *bytes);

/* Does the beginning of a JPEG or a PNG say that its pixels are to be shown turned or mirrored? */
bool snls_exif_turned(const unsigned char *data, int64_t size);

/* Does the beginning of a JPEG or a PNG hold a colour profile other than sRGB's? */
bool snls_icc_other(const unsigned char *data, int64_t size);

/* Writes a PNG row by row: fill puts row y, channels samples a pixel, two bytes (high first) each where depth is 16. */
typedef SnlsStatus (*SnlsFillRow)(SnlsContext *ctx, void *opaque, int64_t y, uint8_t *row);
typedef struct SnlsPngOut {
    int64_t width, height;
    int32_t channels, depth;
    SnlsFillRow fill;
    void *opaque;
} SnlsPngOut;
SnlsStatus snls_png_out(SnlsContext *ctx, const char *path, const SnlsPngOut *out);
/* Refuses where this build has no libpng, of a name that the caller knows: snls_png_out may write under another until all is well. */
SnlsStatus snls_png_writable(SnlsContext *ctx, const char *name);

#endif
