/* align.h: frame t+1 aligned to frame t, in several ways: the experiment behind `snls align`. */
#ifndef SNLS_CLI_ALIGN_H
#define SNLS_CLI_ALIGN_H

#include "flow_in.h"

typedef enum AlignWay {
    ALIGN_NONE,   /* frame t+1 as it is */
    ALIGN_FLOW,   /* moved by the flow alone: a window of one candidate */
    ALIGN_NLS,    /* search around the pixel's own place */
    ALIGN_SEARCH, /* search around where the flow points */
    ALIGN_KEEP,   /* the pixel's own place or the flow's target, unless a search finds clearly better */
    ALIGN_WAYS
} AlignWay;

extern const char *const align_names[ALIGN_WAYS]; /* as in the JSON report */

typedef struct AlignParams {
    SnlsFlowParams flow;
    int32_t ws, ps, stride0, interp;
    double stride1, noise, margin;
} AlignParams;

typedef struct Align {
    AlignParams params;
    SnlsContext *ctx;
    SnlsTensor clean, noisy;  /* (2,H,W,C): frame t at t % 2 */
    FlowIn given;             /* flow from a file; no path: computed */
    int64_t unknown;          /* vectors so far that nobody knows, taken as no motion */
    bool no_flow, clean_flow; /* zero flow; flow from the clean frames */
    uint32_t ways;            /* bits of AlignWay that are wanted */
    /* of the pair in work */
    SnlsTensor flow;                                 /* (H,W,2) */
    SnlsTensor offset[ALIGN_WAYS], dist[ALIGN_WAYS]; /* of each search, (1,1,1,nH,nW,1,3) and (1,1,1,nH,nW,1) */
    SnlsTensor aligned[ALIGN_WAYS];                  /* (1,1,H,W,C); of NONE no data */
    double psnr[ALIGN_WAYS], motion;                 /* mean length of the flow */
    double share_own;                                /* KEEP: share of the queries that stay at their own place */
} Align;

int align_begin(Align *a, const int64_t *shape);          /* of a frame; memory of a pair */
void align_noise(Align *a, int64_t t, uint64_t seed); /* clean frame t is there: the noisy one, too */
int align_pair(Align *a, int64_t t);                  /* t and t+1 are there */
int align_rest(Align *a);                             /* of the flow from a file, what no pair needs, is looked at all the same */
SnlsTensor align_frame(const SnlsTensor *frames, int64_t t); /* of clean or noisy */
void align_free(Align *a);

/* ---- align_keep.c ---- */

int align_keep(Align *a); /* chooses KEEP's places, for the pair in work */

/* ---- align_picture.c ---- */

/* Frame t, then every way side by side, with captions. */
int align_picture(const Align *a, int64_t t, const char *path);

/* What the search adds to the flow: a histogram over whole steps from -half to half each way. */
typedef struct AlignCorrections {
    int32_t half;
    double *count;               /* (2*half+1)^2, y outer */
    double n, sum[2], square[3]; /* of the steps: x, y; xx, xy, yy */
} AlignCorrections;

int corrections_begin(AlignCorrections *c, int32_t half);
void corrections_add(AlignCorrections *c, const Align *a); /* of the pair in work */
void corrections_ellipse(const AlignCorrections *c, double share, double *radius,
                         double *angle); /* half axes, of the longer first; degrees */
int corrections_draw(const AlignCorrections *c, SnlsContext *ctx, const char *path);
json_t *corrections_json(const AlignCorrections *c);

#endif
