/* pixels.h: how the samples of a frame lie in memory, and the way between them and floats. Knows no files and no FFmpeg. */
#ifndef SNLS_VIDEO_PIXELS_H
#define SNLS_VIDEO_PIXELS_H

#include "base/context.h"
#include <stdbool.h>

/* One sample: at plane + y*stride + x*step + offset (bytes), its value (word >> shift) & (2^depth - 1). */
typedef struct SnlsComponent {
    uint8_t plane, step, offset, shift, depth;
} SnlsComponent;

typedef enum SnlsMatrix {
    SNLS_MATRIX_601,
    SNLS_MATRIX_709,
    SNLS_MATRIX_2020,
    SNLS_MATRIX_240M,
    SNLS_MATRIX_FCC
} SnlsMatrix;

typedef struct SnlsPixels {
    int64_t width, height;
    int32_t components; /* 1 grey, 2 grey and alpha, 3 colour, 4 colour and alpha; in the order R,G,B,A or Y,U,V,A */
    int32_t matrix;     /* SnlsMatrix of YUV */
    uint8_t log2_w, log2_h;           /* chroma is smaller by these, rounded up */
    bool rgb, full, big_endian, real; /* full: 0 is black; real: f32, 1.0 is white (255 where unit is false) */
    bool unit;                        /* real: white is 1.0 */
    SnlsComponent component[4];
} SnlsPixels;

typedef struct SnlsPlanes {
    uint8_t *data[4];
    int64_t stride[4]; /* bytes, may be negative */
} SnlsPlanes;

static inline int32_t snls_pixels_channels(const SnlsPixels *p) { return p->components < 3 ? 1 : 3; }
bool snls_pixels_alpha(const SnlsPixels *p);
bool snls_pixels_hold(const SnlsPixels *to, const SnlsPixels *from); /* does every sample of from have a place in to? */
bool snls_pixels_same(const SnlsPixels *a, const SnlsPixels *b); /* samples mean the same and lie in the same order */

/* u8 or u16 interleaved (H,W,channels), or f32 on the 0..255 scale (depth 32). */
SnlsPixels snls_pixels_packed(int64_t height, int64_t width, int32_t channels, int32_t depth);

int32_t snls_pixels_planes(const SnlsPixels *p);
/* Rows and bytes a row of a plane that hold samples. */
void snls_pixels_plane(const SnlsPixels *p, int32_t plane, int64_t *rows, int64_t *bytes);
int64_t snls_pixels_bytes(const SnlsPixels *p); /* all rows packed */

/* to (H,W,C), C as snls_pixels_channels. Alpha is not looked at. */
SnlsStatus snls_pixels_read(SnlsContext *ctx, const SnlsPixels *p, const SnlsPlanes *from, float *to);
/* from (H,W,C) of `channels`: grey becomes three equal channels, colour becomes luma. Alpha stays as it is. */
SnlsStatus snls_pixels_write(SnlsContext *ctx, const SnlsPixels *p, const SnlsPlanes *to, const float *from,
                             int32_t channels);
/* Alpha of one frame into another; opaque where from has none. */
SnlsStatus snls_pixels_alpha_copy(SnlsContext *ctx, const SnlsPixels *pf, const SnlsPlanes *from, const SnlsPixels *pt,
                                  const SnlsPlanes *to);

void snls_pixels_pack(const SnlsPixels *p, const SnlsPlanes *from, void *bytes);
void snls_pixels_unpack(const SnlsPixels *p, const void *bytes, const SnlsPlanes *to);

#endif
