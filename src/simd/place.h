/* place.h: `place` of dsp.h in plain C. Only static: each file that includes it has its own, with its own flags. */
#ifndef SNLS_PLACE_H
#define SNLS_PLACE_H

#include "simd/dsp.h"
#include <float.h>

/* Half to even, wherever the result can matter: a larger number is in no frame. */
static inline double snls_place_round(double x) { return (x + 0x1.8p52) - 0x1.8p52; }

/* The triangle wave of period `fold`, once: what comes out is below 0, or not a number, where that is not enough. */
static inline double snls_place_fold(double z, double fold)
{
    z = z < 0 ? -z : z;
    return z < fold - z ? z : fold - z;
}

static int snls_place_one(const SnlsPlaces *to, ptrdiff_t i, const float *offset, double x, const float *weight, const SnlsSite *s)
{
    double dy = offset[1], dx = offset[2];
    if (s->nearest) dy = snls_place_round(dy), dx = snls_place_round(dx);
    const double t = snls_place_fold(s->t + offset[0], s->fold_t), y = snls_place_fold(s->y + dy, s->fold_y);
    const double z = s->x + x + dx, turned = s->y + dy;
    x = snls_place_fold(z, s->fold_x);
    if (!((t >= 0) & (y >= s->y0) & (y < s->y1) & (x >= s->x0) & (x < s->x1))) return 4;
    if (s->slopes && !((y == turned) & (x == z))) return 4;
    const ptrdiff_t frame = (ptrdiff_t)t, row = (ptrdiff_t)y, column = (ptrdiff_t)x;
    const double fy = y - (double)row, fx = x - (double)column;
    if ((double)frame != t || (weight && (weight[i] > FLT_MAX || weight[i] < -FLT_MAX))) return 4;
    to->at[i] = s->base + (frame * s->step_t + row * s->step_y + column * s->step_x);
    if (to->row) to->row[i] = row;
    if (weight) {
        const float left = (float)(1 - fx), right = (float)fx, upper = (float)(1 - fy) * weight[i], lower = (float)fy * weight[i];
        to->w[0][i] = upper * left;
        to->w[1][i] = upper * right;
        to->w[2][i] = lower * left;
        to->w[3][i] = lower * right;
    } else {
        to->w[0][i] = (float)(1 - fy);
        to->w[1][i] = (float)fy;
        to->w[2][i] = (float)(1 - fx);
        to->w[3][i] = (float)fx;
    }
    return (fy != 0) * 2 + (fx != 0);
}

static int snls_place(const SnlsPlaces *to, unsigned char *shape, const float *offset, const float *x, const float *weight, ptrdiff_t count,
                      const SnlsSite *site)
{
    int all = -1;
    for (ptrdiff_t i = 0; i < count; i++) {
        const int one = snls_place_one(to, i, offset + 3 * i, x[i], weight, site);
        shape[i] = (unsigned char)one;
        all = i == 0 || all == one ? one : -1; /* once -1, always -1 */
    }
    return all;
}

#endif
