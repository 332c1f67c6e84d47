/* stan.h: the two space-time attention networks, as builders of networks for inference and training. */
#ifndef SNLS_STAN_H
#define SNLS_STAN_H

#include "nn/nn.h"
#include <math.h>

typedef struct StanShape { int64_t batch, frames, h, w; } StanShape;

typedef struct StanNet { int32_t in, flow, out; } StanNet; /* numbers of values; flow: -1 where none is taken */

enum { STAN_PARTS = 4 }; /* the stack of neighbours is gathered and convolved a part of the heads at a time */

/* STAN (Gauen, Chan), 12,073,694 parameters by default: a U-Net of three levels whose lowest searches and attends. */
typedef struct StanConfig {
    int64_t heads[3];       /* of the levels; width is per_head times as much (1, 4, 12) */
    int64_t per_head;       /* features of a head (16) */
    int64_t depth[3];       /* blocks of the levels (1, 2, 4) */
    int64_t ws, wt, k;      /* search: window, temporal radius, candidates kept (9, 2, 50) */
    int64_t used;           /* candidates aggregated (10) */
    int64_t rstb, layers;   /* transformer groups of a block, layers of a group (2, 2) */
    int64_t swin_heads, window[3]; /* of the transformer (4; 2, 8, 8) */
} StanConfig;
StanConfig snls_stan_config(void);
/* in (batch*frames, h, w, 3), 0..1; flow (batch, frames, 2*wt, h/4, w/4, 2) of that resolution, in its pixels */
StanNet snls_stan_build(NnNet *net, const StanConfig *c, const StanShape *shape);

/* STAN-S: the same U-Net, small; its lowest level fuses the best match of each of the frames about, found on averaged noisy
 * pixels and stacked in the order of the frames. */
typedef struct StanSConfig {
    int64_t width;  /* of the upper level; 2 and 4 times as much below (32) */
    int64_t blocks; /* of the lowest level (4) */
    int64_t ws, wt; /* search: window, temporal radius (13, 2) */
} StanSConfig;
StanSConfig snls_stan_s_config(void);
/* in (batch*frames, h, w, 4): colours 0..1 and sigma/255; out (batch*frames, h, w, 3): to be added to the colours. h and w are
 * multiples of 4 */
StanNet snls_stan_s_build(NnNet *net, const StanSConfig *c, const StanShape *shape);
SnlsSearchParams snls_stan_s_search(const StanSConfig *c);

/* A colour of the result: the noisy one, 0..255, and what the network adds, 0..1, held within what noise of sigma takes (one number in 16,000 lies beyond). Hard edges and
 * saturated colours, of which training saw few, are not spoiled by more than that. What is not finite stays so: weights are too large then, and that is to be told. */
#define STAN_S_MOST 4.0
static inline float snls_stan_s_result(float noisy, double added, double sigma)
{
    const double a = 255 * added, most = STAN_S_MOST * sigma;
    return (float)(noisy + (fabs(a) > most && isfinite(a) ? copysign(most, a) : a));
}

/* The same network in parts that see rows of one frame: what lies between two channel attentions, and between two fusions of frames.
 * A block ends with x + gate * features, and the gate is known when all rows are: its part gives the features, and who reads them gates them.
 * Between blocks are parts that look at no neighbours: few rows at a time do not cost more there, and stay in a cache. */
#define STAN_S_EPS 1e-6       /* of its norms */
enum { STAN_S_SCALE = 4 };    /* the lowest level's pixel in pixels */
typedef enum StanSPartKind {  /* in; out. w and rows are those of the coarsest value */
    STAN_S_IN,    /* in; features of enc0.0 */
    STAN_S_DOWN0, /* skip0 (2 rows x 2 w); x */
    STAN_S_ENC10, /* x; features of enc1.0 */
    STAN_S_ENC11, /* x; features of enc1.1 */
    STAN_S_DOWN1, /* skip1 (2 rows x 2 w); x */
    STAN_S_MID,   /* x; features of mid.number */
    STAN_S_FUSE,  /* found features, x of block number; x of block number + 1, or of the way up */
    STAN_S_JOIN1, /* x, skip1 (2 rows x 2 w); x (2 rows x 2 w) */
    STAN_S_DEC10, /* x; features of dec1.0 */
    STAN_S_DEC11, /* x; features of dec1.1 */
    STAN_S_JOIN0, /* x, skip0 (2 rows x 2 w); x (2 rows x 2 w) */
    STAN_S_DEC0,  /* x; features of dec0.0 */
    STAN_S_OUT,   /* gated features of dec0.0; what is to be added to the colours */
} StanSPartKind;
typedef struct StanSPart { int32_t in[2], out; } StanSPart; /* numbers of values, -1: none */
StanSPart snls_stan_s_part(NnNet *net, const StanSConfig *c, StanSPartKind kind, int64_t number, int64_t rows, int64_t w);

#endif
