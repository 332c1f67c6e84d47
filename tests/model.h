/* model.h: an implementation of docs/operators.md of the tests' own, in plain double loops over contiguous copies, written
 * without looking at src/. Every sum carries its derived tolerance. Backends, ref included, are compared with it. */
#ifndef MODEL_H
#define MODEL_H

#include "check.h"
#include <snls/ops.h>

/* The triangle wave of period 2(n-1). *slope (if not NULL): -1 strictly inside a descending branch, else 1; 0 for n = 1. */
double  model_reflect(double x, int64_t n, double *slope);
int64_t model_frame(int64_t t, int64_t slot, int64_t wt, int64_t frames); /* frame of a slot */
int64_t model_round_frame(double t, int64_t frames);                      /* rounded half to even, reflected */
double  model_origin(double centre, int64_t side, double step, int64_t n, bool slide); /* cells before the centre */
int64_t model_cover(int64_t y, int64_t n, int64_t ps, int64_t dilation, int64_t stride0);
double  model_kink(double x);   /* how far x is from the next integer; 1 where it is one, for then every backend agrees */

/* One axis of a bilinear read at a real coordinate: two taps; slope and d/dx as section 6 says. */
typedef struct ModelTaps { int64_t at[2]; double weight[2], slope; bool whole, inside; } ModelTaps;
ModelTaps model_taps(double x, int64_t n);

/* A video (B,T,H,W,C) as doubles. */
typedef struct ModelVideo { double *v; int64_t B, T, H, W, C; } ModelVideo;
ModelVideo model_video(const SnlsTensor *t);
int64_t model_at(const ModelVideo *v, int64_t b, int64_t t, int64_t y, int64_t x, int64_t c);

/* A bilinear read of one channel: value, sum of w|tap|, the two derivatives with their sums of |term|, d2/dydx. */
typedef struct ModelRead { double value, absolute, dy, dx, dy_abs, dx_abs, cross; } ModelRead;
ModelRead model_read(const ModelVideo *v, int64_t b, int64_t t, const ModelTaps *y, const ModelTaps *x, int64_t c);

/* What a patch comparison needs to know. */
typedef struct ModelPatch { int64_t ps, dilation, features; bool prod, drop; } ModelPatch;
/* A query pixel and a candidate. */
typedef struct ModelPair { int64_t b, head, t, y, x, frame; double py, px; } ModelPair;

/* Distance of a pair: value, and tolerance = (terms + 2) eps magnitude + eps read + eps^2 read2 (section 8). */
typedef struct ModelScore { double value, magnitude, terms, read, read2; } ModelScore;
ModelScore model_score(const ModelPatch *p, const ModelVideo *q, const ModelVideo *k, const ModelPair *pair);
double model_score_tolerance(const ModelScore *s, double eps, int32_t dtype);

/* Gradient of one kept pair for g = dL/ddist: adds to dq, dk (elements as in the videos; count 0 = not wanted) and returns
 * dL/dp with what it may be off by. */
typedef struct ModelPull { double y, x, y_magnitude, x_magnitude, y_read, x_read, terms, kink; } ModelPull;
ModelPull model_pull(const ModelPatch *p, const ModelVideo *q, const ModelVideo *k, const ModelPair *pair, double g, Sums *dq, Sums *dk);

#endif
