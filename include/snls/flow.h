/* flow.h: optical flow between frames: three methods, clips, checks and rescaling.
 *
 *   SnlsFlowParams p;
 *   snls_flow_defaults(&p);
 *   p.method = SNLS_FLOW_DIS;
 *   SnlsFlowPair pair = { .from = frame0, .to = frame1, .flow = flow };    // (H,W) or (H,W,C), (H,W,2)
 *   if (snls_flow(ctx, &pair, &p) < 0) puts(snls_error(ctx));
 *
 * Flow is (x, y) in pixels: what frame `from` shows at (x, y) is in frame `to` at (x + flow_x, y + flow_y). Frames are
 * f32, f64, f16, bf16 or u8 on the 0..255 scale, any strides; three channels become luma (0.299, 0.587, 0.114), other
 * counts their mean. SNLS_ERR_ARG: a value is not finite or beyond 1e9; what comes out is finite. Works on CPU memory with every context; the thread count and the CPU level are the context's. The
 * result does not depend on either. */
#ifndef SNLS_FLOW_H
#define SNLS_FLOW_H

#include <snls/context.h>
#include <snls/options.h>
#include <snls/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum SnlsFlowMethod {
    SNLS_FLOW_FARNEBACK = 0, /* polynomial expansion (Farneback, 2003), as OpenCV computes it */
    SNLS_FLOW_TVL1 = 1,      /* total variation and L1 data term (Zach, Pock, Bischof, 2007), as IPOL's version */
    SNLS_FLOW_DIS = 2        /* dense inverse search (Kroeger et al., 2016), then a short TV-L1: the fast one */
} SnlsFlowMethod;

typedef enum SnlsFlowWindow { SNLS_FLOW_BOX = 0, SNLS_FLOW_GAUSSIAN = 1 } SnlsFlowWindow;

/* Names, meaning and defaults of cv::calcOpticalFlowFarneback's arguments. */
typedef struct SnlsFarnebackParams {
    double  pyr_scale;    /* size of a level beside the one below it (0.5) */
    double  poly_sigma;   /* Gaussian of the expansion, pixels (1.1) */
    int32_t levels;       /* levels above the frame itself, fewer where a side would be under 32 pixels (3) */
    int32_t winsize;      /* side of the averaging window (15) */
    int32_t iterations;   /* at each level (3) */
    int32_t poly_n;       /* radius of the expansion's neighbourhood: 2*poly_n+1 pixels a side (5) */
    int32_t window;       /* SnlsFlowWindow: OPTFLOW_FARNEBACK_GAUSSIAN chooses gaussian (box) */
    int32_t reserved[11]; /* zero */
} SnlsFarnebackParams;

/* Names, meaning and defaults of IPOL's tvl1flow. */
typedef struct SnlsTvl1Params {
    double  tau;            /* time step of the dual variables (0.25) */
    double  lambda;         /* weight of the data term (0.15) */
    double  theta;          /* how tightly data and smoothness are coupled (0.3) */
    double  zfactor;        /* size of a scale beside the one below it (0.5) */
    double  epsilon;        /* a warp ends when u moves less than this, root mean square pixels (0.01) */
    double  smoothing;      /* Gaussian that the frames are smoothed by first, pixels (0.8) */
    int32_t nscales;        /* scales, fewer where the diagonal would be under 16 pixels (100) */
    int32_t finest;         /* the finest scale that is solved; the flow is enlarged from there (0) */
    int32_t warps;          /* at each scale (5) */
    int32_t max_iterations; /* of a warp (300) */
    int32_t reserved[8];    /* zero */
} SnlsTvl1Params;

typedef struct SnlsDisParams {
    double  lambda;      /* data term of the refinement (0.15) */
    int32_t finest;      /* the finest level that is searched, each half the one below; enlarged from there (1) */
    int32_t stride;      /* pixels between patches, which are 8x8 (4) */
    int32_t steps;       /* of descent for each patch (12) */
    int32_t warps;       /* of the refinement at the finest level; 0: none (1) */
    int32_t iterations;  /* of each of these warps (16) */
    int32_t reserved[9]; /* zero */
} SnlsDisParams;

typedef struct SnlsFlowParams {
    int32_t             method; /* SnlsFlowMethod (farneback); only its own parameters below are looked at */
    int32_t             reserved[15];
    SnlsFarnebackParams farneback;
    SnlsTvl1Params      tvl1;
    SnlsDisParams       dis;
} SnlsFlowParams;

SNLS_API void snls_flow_defaults(SnlsFlowParams *params);

/* The option table of "farneback", "tvl1" or "dis" (of its own struct), or of "flow" (the method). NULL for another name. */
SNLS_API const SnlsOption *snls_flow_options(const char *name);

typedef struct SnlsFlowPair {
    SnlsTensor from, to; /* (H,W) or (H,W,C) */
    SnlsTensor flow;     /* (H,W,2), f32 or f64: written */
} SnlsFlowPair;

SNLS_API SnlsStatus snls_flow(SnlsContext *ctx, const SnlsFlowPair *pair, const SnlsFlowParams *params);

/* Several pairs of one size: what snls_flow gives for each. They go side by side on the context's threads where memory for
 * that is not much (1 GiB), which is faster than one after the other on all threads. */
SNLS_API SnlsStatus snls_flow_pairs(SnlsContext *ctx, const SnlsFlowPair *pairs, int64_t count, const SnlsFlowParams *params);

/* Of a clip what snls_flow_compose takes: forward[t] leads from frame t to t+1, backward[t] to t-1; 0 where there is no
 * such frame. One of them may have no data. */
typedef struct SnlsFlowClip {
    SnlsTensor video;             /* (T,H,W,C) */
    SnlsTensor forward, backward; /* (T,H,W,2) */
} SnlsFlowClip;

SNLS_API SnlsStatus snls_flow_clip(SnlsContext *ctx, const SnlsFlowClip *clip, const SnlsFlowParams *params);

/* to (h,w,2) = from (H,W,2) at another resolution: resampled (bilinear; averaged where it shrinks) and its vectors scaled. */
SNLS_API SnlsStatus snls_flow_resize(SnlsContext *ctx, const SnlsTensor *from, const SnlsTensor *to);

/* Where a flow and the flow back agree. error (H,W), f32: |forward(x) + backward(x + forward(x))|, +inf where that
 * leaves the frame. mask (H,W), u8: 1 where error^2 <= 0.01 (|forward|^2 + |backward|^2) + 0.5 (Sundaram, Brox,
 * Keutzer, 2010). Either may have no data. */
SNLS_API SnlsStatus snls_flow_consistency(SnlsContext *ctx, const SnlsTensor *forward, const SnlsTensor *backward, const SnlsTensor *error,
                                          const SnlsTensor *mask);

/* out (H,W,C), f32 = image (H,W,C) read at x + flow(x), bilinear, clamped to the border: frame `to` moved onto `from`. out must not overlap the others. */
SNLS_API SnlsStatus snls_flow_warp(SnlsContext *ctx, const SnlsTensor *image, const SnlsTensor *flow, const SnlsTensor *out);

/* Mean end-point error: |flow - truth| over the pixels where truth is known (both components below 1e9 in magnitude, as
 * in Middlebury's files). *error is NaN where none is. */
SNLS_API SnlsStatus snls_flow_error(SnlsContext *ctx, const SnlsTensor *flow, const SnlsTensor *truth, double *error);

/* image (H,W,3), u8 = the flow as colours: hue tells the direction, saturation the length beside largest (0: the longest
 * vector there is), black where the flow is unknown (Baker et al., 2007). */
SNLS_API SnlsStatus snls_flow_color(SnlsContext *ctx, const SnlsTensor *flow, double largest, const SnlsTensor *image);

#ifdef __cplusplus
}
#endif
#endif
