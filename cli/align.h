/* align.h: frame t+1 aligned to frame t, in several ways: the experiment behind `snls align`. */
#ifndef SNLS_CLI_ALIGN_H
#define SNLS_CLI_ALIGN_H

#include "cli.h"

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
    SnlsTensor clean, noisy;  /* (T,H,W,C) */
    SnlsTensor given;         /* flow from a file, (T,H,W,2); no data: computed */
    bool no_flow, clean_flow; /* zero flow; flow from the clean frames */
    uint32_t ways;            /* bits of AlignWay that are wanted */
    /* of the pair in work */
    SnlsTensor flow;                                 /* (H,W,2) */
    SnlsTensor offset[ALIGN_WAYS], dist[ALIGN_WAYS]; /* of each search, (1,1,1,nH,nW,1,3) and (1,1,1,nH,nW,1) */
    SnlsTensor aligned[ALIGN_WAYS];                  /* (1,1,H,W,C); of NONE no data */
    double psnr[ALIGN_WAYS], motion;                 /* mean length of the flow */
    double share_own;                                /* KEEP: share of the queries that stay at their own place */
} Align;

int align_begin(Align *a, uint64_t seed); /* noise; memory of a pair */
int align_pair(Align *a, int64_t t);
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
