/* picture.h: a canvas for small reports: frames side by side with captions. */
#ifndef SNLS_CLI_PICTURE_H
#define SNLS_CLI_PICTURE_H

#include <snls/types.h>

/* canvas is (H,W,3) f32 0..255, contiguous. What would fall outside is left out. */
void picture_fill(SnlsTensor *canvas, float red, float green, float blue);

/* One frame, (H,W,3) f32 contiguous, each pixel a square of scale pixels. */
void picture_paste(SnlsTensor *canvas, int64_t top, int64_t left, int64_t scale, int64_t height, int64_t width,
                   const float *rgb);

/* Black text, letters 5 x 8 times scale, one column between; returns the width. */
int64_t picture_text(SnlsTensor *canvas, int64_t top, int64_t left, int64_t scale, const char *text);

#endif
