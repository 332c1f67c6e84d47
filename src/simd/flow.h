/* flow.h: the row loops of optical flow, one table for each instruction set. All rows are contiguous floats of any
 * alignment. The same C text (flow_body.h) is compiled for every level without contraction and without reordering, and
 * no loop sums across lanes, so that all levels give the same bits. Knows nothing of the rest of the library. */
#ifndef SNLS_SIMD_FLOW_H
#define SNLS_SIMD_FLOW_H

#include <stdint.h>

/* Coefficients of a frame's polynomial expansion in the order y, x, yy, xx, xy: planes of stride floats a row, or (for the
 * frame that is read between pixels) five of eight floats a pixel, stride pixels a row. */
typedef struct SnlsFlowExpansion {
    const float *plane[5], *pixels;
    int64_t width, height, stride;
} SnlsFlowExpansion;

/* An image read between pixels, at count places of a row. */
typedef struct SnlsFlowImage {
    const float *data;
    int64_t width, height, stride, count;
} SnlsFlowImage;

/* One row of the TV-L1 solver. u: the two components of the flow; p: dual variables, p[2*c] along x and p[2*c+1] along y. */
typedef struct SnlsTvl1Row {
    float *u[2], *p[4];
    const float *above[2];                 /* p along y of the row above, for each component; zeros in the first row */
    const float *gx, *gy, *rest, *inverse; /* warped gradient, its constant term, 1 / |gradient|^2 */
    float *change;                         /* squared step of u at each pixel */
} SnlsTvl1Row;

typedef struct SnlsFlowLoops {
    /* out[x] = sum over i < n of weight[i] * row[i][x]. out may be none of the rows. */
    void (*weigh)(float *out, const float *const *row, const float *weight, int64_t n, int64_t width);

    /* Farneback's normal equations of row y: g11, g12, g22, h1, h2 at out[0..4][x]; (u, v) is the flow so far. */
    void (*matrices)(float *const *out, const SnlsFlowExpansion *from, const SnlsFlowExpansion *to, const float *u,
                     const float *v, int64_t y);

    /* u, v of the 2x2 systems in g[0..4], determinants regularised by 1e-3. */
    void (*solve)(float *u, float *v, const float *const *g, int64_t width);

    /* out[x] = image at (x + u[x], y + v[x]), bilinear or bicubic. Coordinates outside are clamped to the border, and
     * the bicubic value there is multiplied by outside. */
    void (*bilinear)(float *out, const SnlsFlowImage *image, const float *u, const float *v, int64_t y);
    void (*bicubic)(float *out, const SnlsFlowImage *image, const float *u, const float *v, float outside, int64_t y);

    /* out[0..2][x]: three of four floats a pixel, bicubic, of an image with a border of two pixels around it (data is the
     * first pixel within, stride counts pixels). Places outside the image proper give 0. */
    void (*bicubic_pixels)(float *const *out, const SnlsFlowImage *image, const float *u, const float *v, int64_t y);

    /* rest and inverse of a row from the warped frame and gradient. Gradient 0: no data term. */
    void (*data_term)(const SnlsTvl1Row *row, float *rest, float *inverse, const float *warped, const float *frame,
                      int64_t width);

    /* u of a row from its duals: thresholding, then theta * divergence. limit = lambda * theta. */
    void (*primal)(const SnlsTvl1Row *row, float limit, float theta, int64_t width);

    /* p of a row from u of this row and of the row below (itself in the last row). step = tau / theta. */
    void (*dual)(const SnlsTvl1Row *row, const float *const *below, float step, int64_t width);

    /* Luma of interleaved RGB: 0.299, 0.587, 0.114. */
    void (*luma)(float *out, const float *rgb, int64_t width);

    /* Central differences of a row, one-sided at the ends, halved; y differences from the rows above and below. */
    void (*gradient)(float *gx, float *gy, const float *above, const float *row, const float *below, int64_t width);

    /* One 8x8 patch of inverse search: sums of gx*e, gy*e, e, e*e over e = image(bilinear at top + (y, x)) - template.
     * weight: of the four taps. sums[4] are made of 8 lane sums, the lanes added in order. */
    void (*patch)(float *sums, const float *image, int64_t stride, const float *weight, const float *shape,
                  const float *gx, const float *gy);

    /* Adds to 8 pixels what a patch says, its flow u and v and how much brighter its image is: to sums[0] the weight
     * 1 / max(1, |image - shape - brighter|), to sums[1..3] that times each. */
    void (*spread)(float *const *sums, const float *shape, const float *image, int64_t stride, const float *weight,
                   const float *says);

    /* out[x] = scale * bilinear blend of top and bottom (down from 0 to 1) between at[x] and at[x]+1 (right[x]). */
    void (*blend)(float *out, const float *top, const float *bottom, float down, const int32_t *at, const float *right,
                  float scale, int64_t width);
} SnlsFlowLoops;

void snls_flow_loops(SnlsFlowLoops *loops, int level); /* SnlsCpuLevel; levels this machine lacks fall back */

void snls_flow_loops_avx2(SnlsFlowLoops *loops);
void snls_flow_loops_avx512(SnlsFlowLoops *loops);

#endif
