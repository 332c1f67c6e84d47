/* blas_filter.h: the sum that convolutions are made of, tile by tile of its results: windows of pixels are laid side by side, as f32, and
 * multiplied with the weights by sgemm. A tile's windows stay in a core's second cache. */
#ifndef SNLS_NN_BLAS_FILTER_H
#define SNLS_NN_BLAS_FILTER_H

#include "nn/nn.h"

/* Result pixel (y,x) is a sum over taps[0] x taps[1] pixels from (y*step + origin[0], x*step + origin[1]) on; outside of `from` is 0. */
typedef struct NnFilter {
    SnlsTensor   from;          /* (N,H,W,groups*in), f32 or bf16 */
    int64_t      groups, in, out; /* in, out: channels of a group */
    int64_t      taps[2], step, origin[2], count[2]; /* count: rows and columns of results */
    int64_t      tile[2];       /* rows and columns of a tile */
    bool         quick;         /* by blas_quick.h, if snls_nn_filter_may_be_quick */
    const float *weights;       /* [tap row][group][tap column][in][out]; quick: as snls_nn_filter_quick_weights made them */
} NnFilter;

typedef struct NnTile { int64_t n, y, x, rows, columns; } NnTile; /* of results */

bool    snls_nn_filter_may_be_quick(const NnFilter *f); /* by its shape, and worth it */
int64_t snls_nn_filter_quick_floats(const NnFilter *f); /* of weights */
void    snls_nn_filter_quick_weights(const NnFilter *f, const float *weights, float *quick);

void    snls_nn_filter_tiles(NnFilter *f); /* chooses their size, which depends on shapes alone */
int64_t snls_nn_filter_count(const NnFilter *f); /* tiles of all images */
NnTile  snls_nn_filter_tile(const NnFilter *f, int64_t number);
int64_t snls_nn_filter_window_floats(const NnFilter *f); /* room for a tile's windows, */
int64_t snls_nn_filter_sum_floats(const NnFilter *f);    /* for its sums (rows, columns, groups*out), with what they are made of behind them */

void snls_nn_filter_load(const NnFilter *f, const NnTile *t, float *windows);
void snls_nn_filter_sum(const NnFilter *f, const NnTile *t, const float *windows, float *sums);
/* weights += what the tile's windows and `pull` (rows, columns, groups*out) make of them */
void snls_nn_filter_weights(const NnFilter *f, const NnTile *t, const float *windows, const float *pull, float *weights);

#endif
