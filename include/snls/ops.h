/* ops.h: the operators. Every operator has the same five names:
 *
 *   Snls<Op>Params, snls_<op>_defaults   its parameters, plain numbers; docs/options.md lists names, defaults and ranges
 *   Snls<Op>                             one call: parameters, tensors read, tensors written
 *   Snls<Op>Grad                         gradients by the outputs (read) and by the inputs (ADDED to)
 *   snls_<op>_shape                      fills in shape, strides and dtype of the outputs that have no data yet
 *   snls_<op>_forward, snls_<op>_backward
 *
 * docs/operators.md defines what they compute. Tensors are the caller's; nothing is kept after a call returns.
 * Outputs must not overlap themselves, each other, or an input. The first is refused, and, by gather, gather_add and scatter_add, so is
 * the last where it is told cheaply (docs/operators.md, Views); else it is the caller's duty. Videos are (B,T,H,W,C) in any strides, C = heads*F.
 * Optional tensors are left without data. Params are filled by _defaults and then changed by name; reserved stays zero. */
#ifndef SNLS_OPS_H
#define SNLS_OPS_H

#include <snls/context.h>
#include <snls/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum SnlsDist    { SNLS_DIST_L2 = 0, SNLS_DIST_PROD = 1 } SnlsDist;
typedef enum SnlsInterp  { SNLS_INTERP_BILINEAR = 0, SNLS_INTERP_NEAREST = 1 } SnlsInterp;
typedef enum SnlsBorder  { SNLS_BORDER_REFLECT = 0, SNLS_BORDER_DROP = 1 } SnlsBorder;
typedef enum SnlsWindow  { SNLS_WINDOW_SLIDE = 0, SNLS_WINDOW_CUT = 1 } SnlsWindow;
typedef enum SnlsAnchor  { SNLS_ANCHOR_NONE = 0, SNLS_ANCHOR_SELF = 1, SNLS_ANCHOR_EACH = 2 } SnlsAnchor;
typedef enum SnlsExclude { SNLS_EXCLUDE_NONE = 0, SNLS_EXCLUDE_SELF = 1, SNLS_EXCLUDE_FRAME = 2 } SnlsExclude;
typedef enum SnlsTopk    { SNLS_TOPK_ALL = 0, SNLS_TOPK_EACH = 1 } SnlsTopk;

/* ---- search: the k best matches of every query in a window around where the flow says it went ---- */

typedef struct SnlsSearchParams {
    int32_t ws;       /* window side: ws*ws candidates in each frame (9) */
    int32_t wt;       /* temporal radius: W_t = 2*wt+1 frames, T >= W_t (0) */
    int32_t ps;       /* patch side (1) */
    int32_t k;        /* neighbours kept per query, or per frame with topk each (1) */
    int32_t heads;    /* channel groups (1) */
    int32_t stride0;  /* pixels between queries (1) */
    double  stride1;  /* pixels between candidates, fractional = sub-pixel search (1) */
    int32_t dilation; /* pixels between patch pixels (1) */
    int32_t dist;     /* SnlsDist (l2) */
    int32_t interp;   /* SnlsInterp (bilinear) */
    int32_t border;   /* SnlsBorder (reflect) */
    int32_t window;   /* SnlsWindow (slide) */
    int32_t anchor;   /* SnlsAnchor (none) */
    int32_t exclude;  /* SnlsExclude (none) */
    int32_t topk;     /* SnlsTopk (all) */
    int32_t reserved[16];
} SnlsSearchParams;

typedef struct SnlsSearch {
    SnlsSearchParams params;
    SnlsTensor query, key;   /* in  (B,T,H,W,C) */
    SnlsTensor flow;         /* in  (B,T,S,nH,nW,2) or (B,heads,T,S,nH,nW,2), (x,y); S = W_t-1 or W_t; optional: no shift */
    SnlsTensor dist;         /* out (B,heads,T,nH,nW,K), K = k or W_t*k */
    SnlsTensor offset;       /* out (B,heads,T,nH,nW,K,3), (dt,dy,dx) from the query */
    SnlsTensor index;        /* out (B,heads,T,nH,nW,K) i32, optional: candidate number (slot*ws + row)*ws + column, -1 = none.
                                backward reads it, so give it to forward when gradients are wanted */
} SnlsSearch;

typedef struct SnlsSearchGrad {
    SnlsTensor dist, offset;     /* in, shaped like the outputs; optional: zero */
    SnlsTensor query, key, flow; /* out, shaped like the inputs, added to; optional: not wanted */
} SnlsSearchGrad;

SNLS_API void       snls_search_defaults(SnlsSearchParams *params);
SNLS_API SnlsStatus snls_search_shape(SnlsContext *ctx, SnlsSearch *s);
SNLS_API SnlsStatus snls_search_forward(SnlsContext *ctx, const SnlsSearch *s);
SNLS_API SnlsStatus snls_search_backward(SnlsContext *ctx, const SnlsSearch *s, const SnlsSearchGrad *g);

/* ---- search_all: every candidate in raster order (slot, row, column), for study and tests ----
 * The same structs. K = W_t*ws*ws; k is not looked at, anchor must be none and topk all; excluded and invalid
 * candidates have an infinite distance, offset 0 and index -1. */
typedef SnlsSearchParams SnlsSearchAllParams;
typedef SnlsSearch       SnlsSearchAll;
typedef SnlsSearchGrad   SnlsSearchAllGrad;

SNLS_API void       snls_search_all_defaults(SnlsSearchAllParams *params);
SNLS_API SnlsStatus snls_search_all_shape(SnlsContext *ctx, SnlsSearchAll *s);
SNLS_API SnlsStatus snls_search_all_forward(SnlsContext *ctx, const SnlsSearchAll *s);
SNLS_API SnlsStatus snls_search_all_backward(SnlsContext *ctx, const SnlsSearchAll *s, const SnlsSearchAllGrad *g);

/* ---- refine: search again around given places ---- */

typedef struct SnlsRefineParams {
    int32_t wr;       /* window side around each given place; 1 re-ranks the places themselves (1) */
    int32_t ps;       /* patch side (1) */
    int32_t k;        /* neighbours kept per query (1) */
    int32_t heads;    /* channel groups (1) */
    int32_t stride0;  /* pixels between queries (1) */
    int32_t dilation; /* pixels between patch pixels (1) */
    double  stride1;  /* pixels between candidates (1) */
    int32_t dist;     /* SnlsDist (l2) */
    int32_t interp;   /* SnlsInterp (bilinear) */
    int32_t border;   /* SnlsBorder (reflect) */
    int32_t window;   /* SnlsWindow (slide) */
    int32_t reserved[20];
} SnlsRefineParams;

typedef struct SnlsRefine {
    SnlsRefineParams params;
    SnlsTensor query, key;   /* in  (B,T,H,W,C) */
    SnlsTensor centre;       /* in  (B,heads,T,nH,nW,Kin,3), (dt,dy,dx) */
    SnlsTensor dist;         /* out (B,heads,T,nH,nW,k) */
    SnlsTensor offset;       /* out (B,heads,T,nH,nW,k,3) */
    SnlsTensor index;        /* out (B,heads,T,nH,nW,k) i32, optional: (given*wr + row)*wr + column, -1 = none; backward reads it */
} SnlsRefine;

typedef struct SnlsRefineGrad {
    SnlsTensor dist, offset;       /* in; optional: zero */
    SnlsTensor query, key, centre; /* out, added to; optional: not wanted. dt gets no gradient */
} SnlsRefineGrad;

SNLS_API void       snls_refine_defaults(SnlsRefineParams *params);
SNLS_API SnlsStatus snls_refine_shape(SnlsContext *ctx, SnlsRefine *s);
SNLS_API SnlsStatus snls_refine_forward(SnlsContext *ctx, const SnlsRefine *s);
SNLS_API SnlsStatus snls_refine_backward(SnlsContext *ctx, const SnlsRefine *s, const SnlsRefineGrad *g);

/* ---- flow_compose: frame-to-frame flow to the flow of every slot of a search ---- */

typedef struct SnlsFlowComposeParams {
    int32_t wt;      /* temporal radius (0) */
    int32_t stride0; /* pixels between queries (1) */
    int32_t reserved[14];
} SnlsFlowComposeParams;

typedef struct SnlsFlowCompose {
    SnlsFlowComposeParams params;
    SnlsTensor fflow;        /* in  (B,T,H,W,2), (x,y): motion t -> t+1 on frame t; its last frame is not read */
    SnlsTensor bflow;        /* in  (B,T,H,W,2): motion t -> t-1 on frame t; its first frame is not read */
    SnlsTensor flow;         /* out (B,T,2*wt,nH,nW,2) */
} SnlsFlowCompose;

typedef struct SnlsFlowComposeGrad {
    SnlsTensor flow;         /* in */
    SnlsTensor fflow, bflow; /* out, added to; optional */
} SnlsFlowComposeGrad;

SNLS_API void       snls_flow_compose_defaults(SnlsFlowComposeParams *params);
SNLS_API SnlsStatus snls_flow_compose_shape(SnlsContext *ctx, SnlsFlowCompose *s);
SNLS_API SnlsStatus snls_flow_compose_forward(SnlsContext *ctx, const SnlsFlowCompose *s);
SNLS_API SnlsStatus snls_flow_compose_backward(SnlsContext *ctx, const SnlsFlowCompose *s, const SnlsFlowComposeGrad *g);

/* ---- weights: softmax of the distances over K ---- */

typedef struct SnlsWeightsParams {
    double  scale; /* softmax(scale * s), s = -dist (l2) or dist (prod) (10) */
    int32_t dist;  /* SnlsDist (l2) */
    int32_t reserved[13];
} SnlsWeightsParams;

typedef struct SnlsWeights {
    SnlsWeightsParams params;
    SnlsTensor dist;         /* in  (B,heads,T,nH,nW,K); an infinite or NaN distance is an invalid neighbour */
    SnlsTensor weight;       /* out, same shape; also read by backward */
} SnlsWeights;

typedef struct SnlsWeightsGrad {
    SnlsTensor weight;       /* in */
    SnlsTensor dist;         /* out, added to */
} SnlsWeightsGrad;

SNLS_API void       snls_weights_defaults(SnlsWeightsParams *params);
SNLS_API SnlsStatus snls_weights_shape(SnlsContext *ctx, SnlsWeights *s);
SNLS_API SnlsStatus snls_weights_forward(SnlsContext *ctx, const SnlsWeights *s);
SNLS_API SnlsStatus snls_weights_backward(SnlsContext *ctx, const SnlsWeights *s, const SnlsWeightsGrad *g);

/* ---- aggregation ----
 * gather_add: weighted patch sum, divided by the number of query patches over each pixel.
 * gather:     the same for each of the K neighbours apart (a stack).
 * scatter_add: the adjoint of gather_add before its division: query patches pushed to the neighbours' places.
 * A neighbour whose offset is not finite contributes nothing. SNLS_UNCOVERED is returned where some pixel of the
 * output has no query patch over it (gather, gather_add). */

typedef struct SnlsGatherParams {
    int32_t ps;       /* patch side (1) */
    int32_t stride0;  /* pixels between queries (1) */
    int32_t dilation; /* pixels between patch pixels (1) */
    int32_t heads;    /* channel groups; 0 = those of weight (0) */
    int32_t interp;   /* SnlsInterp (bilinear) */
    int32_t border;   /* SnlsBorder, for the source pixels (reflect) */
    int32_t reserved[10];
} SnlsGatherParams;
typedef SnlsGatherParams SnlsGatherAddParams;
typedef SnlsGatherParams SnlsScatterAddParams;

typedef struct SnlsGather {
    SnlsGatherParams params;
    SnlsTensor value;        /* in  (B,T,H,W,C) */
    SnlsTensor weight;       /* in  (B,heads,T,nH,nW,K) */
    SnlsTensor offset;       /* in  (B,heads,T,nH,nW,K,3) */
    SnlsTensor out;          /* out gather: (B,heads,K,T,H,W,F); gather_add: (B,T,H,W,C) */
} SnlsGather;
typedef SnlsGather SnlsGatherAdd;

typedef struct SnlsGatherGrad {
    SnlsTensor out;                   /* in */
    SnlsTensor value, weight, offset; /* out, added to; optional. dt gets no gradient */
} SnlsGatherGrad;
typedef SnlsGatherGrad SnlsGatherAddGrad;

typedef struct SnlsScatterAdd {
    SnlsScatterAddParams params;
    SnlsTensor value;        /* in  (B,T,H,W,C): what the query patches are cut from */
    SnlsTensor weight;       /* in  (B,heads,T,nH,nW,K) */
    SnlsTensor offset;       /* in  (B,heads,T,nH,nW,K,3) */
    SnlsTensor out;          /* out (B,T,H,W,C) */
    SnlsTensor total;        /* out (B,T,H,W,heads), optional: the weight that arrived at each pixel */
} SnlsScatterAdd;

typedef struct SnlsScatterAddGrad {
    SnlsTensor out, total;            /* in; optional: zero */
    SnlsTensor value, weight, offset; /* out, added to; optional. dt gets no gradient */
} SnlsScatterAddGrad;

SNLS_API void       snls_gather_defaults(SnlsGatherParams *params);
SNLS_API SnlsStatus snls_gather_shape(SnlsContext *ctx, SnlsGather *s);
SNLS_API SnlsStatus snls_gather_forward(SnlsContext *ctx, const SnlsGather *s);
SNLS_API SnlsStatus snls_gather_backward(SnlsContext *ctx, const SnlsGather *s, const SnlsGatherGrad *g);

SNLS_API void       snls_gather_add_defaults(SnlsGatherAddParams *params);
SNLS_API SnlsStatus snls_gather_add_shape(SnlsContext *ctx, SnlsGatherAdd *s);
SNLS_API SnlsStatus snls_gather_add_forward(SnlsContext *ctx, const SnlsGatherAdd *s);
SNLS_API SnlsStatus snls_gather_add_backward(SnlsContext *ctx, const SnlsGatherAdd *s, const SnlsGatherAddGrad *g);

SNLS_API void       snls_scatter_add_defaults(SnlsScatterAddParams *params);
SNLS_API SnlsStatus snls_scatter_add_shape(SnlsContext *ctx, SnlsScatterAdd *s);
SNLS_API SnlsStatus snls_scatter_add_forward(SnlsContext *ctx, const SnlsScatterAdd *s);
SNLS_API SnlsStatus snls_scatter_add_backward(SnlsContext *ctx, const SnlsScatterAdd *s, const SnlsScatterAddGrad *g);

#ifdef __cplusplus
}
#endif
#endif
