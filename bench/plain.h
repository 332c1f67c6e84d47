/* plain.h: what the plain loops share: a query, a read between pixels, the comparison with the library. They are a measure of speed
 * and know only what the cases use: slide, reflect, bilinear or nearest, no anchor, topk all, dilation 1, contiguous f32. */
#ifndef SNLS_BENCH_PLAIN_H
#define SNLS_BENCH_PLAIN_H

#include "bench.h"
#include <math.h>
#include <stdlib.h>

typedef struct Plain {
    const BenchCall *call;
    int64_t frames, height, width, channels, features, rows, columns; /* rows, columns: of queries */
    float *out; /* what a query gave: k distances, or the channels of a pixel */
    int64_t *kept;
    float worst; /* difference from what the library found */
} Plain;

typedef struct Query {
    int64_t head, t, i, j, y, x, number; /* number: among the queries of all heads and frames */
} Query;

static inline Query query_at(const Plain *p, int64_t number)
{
    const int64_t j = number % p->columns, i = number / p->columns % p->rows,
                  t = number / (p->columns * p->rows) % p->frames, head = number / (p->columns * p->rows * p->frames);
    const int64_t stride0 = p->call->which->stride0;
    return (Query){ head, t, i, j, i * stride0, j * stride0, number };
}

static inline int64_t reflect(int64_t i, int64_t n)
{
    if (i >= 0 && i < n) return i;
    if (n == 1) return 0;
    i = llabs(i) % (2 * (n - 1));
    return i < n ? i : 2 * (n - 1) - i;
}

static inline double reflect_real(double x, double last)
{
    if (x >= 0 && x <= last) return x;
    if (last == 0) return 0;
    x = fmod(fabs(x), 2 * last);
    return x <= last ? x : 2 * last - x;
}

/* What the place moves by where x does: -1 on the way back. */
static inline float reflect_sign(double x, double last)
{
    if (last == 0) return 0;
    if (x >= 0 && x <= last) return 1;
    const double folded = fmod(fabs(x), 2 * last);
    return folded == 0 || folded == last || (folded < last) == (x > 0) ? 1 : -1;
}

/* ---- a read between pixels ---- */

typedef struct Taps {
    const float *at[4]; /* rows y, y, y+1, y+1; columns x, x+1, x, x+1 */
    float weight[4], fy, fx;
    bool whole; /* the first tap is all there is */
} Taps;

static inline Taps taps_at(const Plain *p, const float *frame, double y, double x)
{
    y = reflect_real(y, (double)(p->height - 1));
    x = reflect_real(x, (double)(p->width - 1));
    const int64_t top = (int64_t)y, left = (int64_t)x;
    const int64_t bottom = reflect(top + 1, p->height), right = reflect(left + 1, p->width);
    const float fy = (float)(y - (double)top), fx = (float)(x - (double)left);
    return (Taps){ { frame + (top * p->width + left) * p->channels, frame + (top * p->width + right) * p->channels,
                     frame + (bottom * p->width + left) * p->channels,
                     frame + (bottom * p->width + right) * p->channels },
                   { (1 - fy) * (1 - fx), (1 - fy) * fx, fy * (1 - fx), fy * fx },
                   fy,
                   fx,
                   fy == 0 && fx == 0 };
}

static inline float blend(const Taps *t, int64_t c)
{
    return t->weight[0] * t->at[0][c] + t->weight[1] * t->at[1][c] + t->weight[2] * t->at[2][c] +
           t->weight[3] * t->at[3][c];
}

/* What the read at channel c grows by where its place moves along either axis. */
static inline float slope_y(const Taps *t, int64_t c)
{
    return (1 - t->fx) * (t->at[2][c] - t->at[0][c]) + t->fx * (t->at[3][c] - t->at[1][c]);
}

static inline float slope_x(const Taps *t, int64_t c)
{
    return (1 - t->fy) * (t->at[1][c] - t->at[0][c]) + t->fy * (t->at[3][c] - t->at[2][c]);
}

static inline const float *frame_of(const Plain *p, const void *video, int64_t t, int64_t head)
{
    return (const float *)video + t * p->height * p->width * p->channels + head * p->features;
}

static inline const float *pixel_of(const Plain *p, const float *frame, int64_t y, int64_t x)
{
    return frame + (reflect(y, p->height) * p->width + reflect(x, p->width)) * p->channels;
}

static inline int64_t slot_frame(int64_t t, int64_t slot, int64_t wt, int64_t frames)
{
    const int64_t first = t - wt < 0 ? 0 : t + wt > frames - 1 ? frames - 1 - 2 * wt : t - wt, last = first + 2 * wt;
    return t + slot <= last ? t + slot : last - slot;
}

static inline const float *flow_at(const Plain *p, const void *flow, const Query *q, int64_t slot)
{
    const int64_t slots = 2 * p->call->which->wt;
    return (const float *)flow + (((q->t * slots + slot - 1) * p->rows + q->i) * p->columns + q->j) * 2;
}

static inline float *grad_at(const void *grad, const void *values, const float *at)
{
    return (float *)grad + (at - (const float *)values);
}

/* Every eighth is enough, and takes little of the time that is measured. */
static inline bool is_compared(int64_t number) { return number % 8 == 0; }

/* Equal ones, infinite ones too, differ by nothing. */
static inline void compare_one(Plain *p, float mine, float theirs)
{
    if (mine != theirs) p->worst = fmaxf(p->worst, fabsf(mine - theirs) / (1e-3f + fabsf(theirs)));
}

static inline void compare(Plain *p, int64_t number, const float *theirs, int64_t count)
{
    for (int64_t i = 0; i < count && is_compared(number); i++) compare_one(p, p->out[i], theirs[i]);
}

typedef void (*Visit)(Plain *p, int64_t number);

Visit bench_plain_other(const BenchCase *c, bool backward); /* plain_other.c: of all but searches; NULL: has none */

#endif
