/* geometry.h: where things are: reflection, frame order, windows, bilinear taps (docs/operators.md sections 1 to 3).
 * One definition for every backend. All coordinates are double; compiled without contraction, so that every backend
 * gets the same window and the same validity. */
#ifndef SNLS_GEOMETRY_H
#define SNLS_GEOMETRY_H

#include "base/hd.h"
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

/* The triangle wave of period 2(n-1), for integers and for finite reals; 0 for n = 1. */
static inline SNLS_HD int64_t snls_reflect(int64_t i, int64_t n)
{
    if (i >= 0 && i < n) return i;
    if (n == 1) return 0;
    const int64_t period = 2 * (n - 1);
    i = (i % period + period) % period;
    return i < n ? i : period - i;
}

static inline SNLS_HD double snls_reflect_real(double x, int64_t n)
{
    const double last = (double)(n - 1);
    if (x >= 0 && x <= last) return x;
    if (n == 1) return 0;
    const double folded = fmod(fabs(x), 2 * last); /* the wave is even; fmod and the fold below are exact */
    return folded <= last ? folded : 2 * last - folded;
}

/* Slope of the wave: -1 strictly inside a descending branch, +1 elsewhere (also at 0 and n-1), 0 for n = 1. */
static inline SNLS_HD double snls_reflect_slope(double x, int64_t n)
{
    const double last = (double)(n - 1);
    if (n == 1) return 0;
    if (x >= 0 && x <= last) return 1;
    const double folded = fmod(fabs(x), 2 * last);
    if (folded == 0 || folded == last) return 1;
    return (folded < last) == (x > 0) ? 1 : -1;
}

/* Frame of a slot: t, t+1 .. tmax, then t-1 .. tmin; near the clip's ends the window of 2*wt+1 frames slides. */
static inline SNLS_HD int64_t snls_slot_frame(int64_t t, int64_t slot, int64_t wt, int64_t frames)
{
    const int64_t before = t - wt < 0 ? t - wt : 0;
    const int64_t after = t + wt - (frames - 1) > 0 ? t + wt - (frames - 1) : 0;
    const int64_t last = t + wt - (before + after) < frames - 1 ? t + wt - (before + after) : frames - 1;
    return t + slot <= last ? t + slot : last - slot;
}

/* Cells of a window before its centre, along an axis of length n: the centre cell is number `o`. Candidate r is at
 * centre + step*(r - o). slide moves the window inside the frame in whole steps. */
static inline SNLS_HD int64_t snls_window_origin(double centre, int64_t side, double step, int64_t n, bool slide)
{
    double o = (double)((side - 1) / 2);
    if (!slide) return (int64_t)o;
    const double last = (double)(n - 1), span = (double)(side - 1);
    if (centre - step * o < 0) o = floor(centre / step);
    if (centre + step * (span - o) > last) o = ceil((centre - last) / step + span);
    return (int64_t)o;
}

static inline SNLS_HD double snls_window_place(double centre, double step, int64_t cell, int64_t origin)
{
    return centre + step * (double)(cell - origin);
}

static inline SNLS_HD bool snls_inside(double x, int64_t n) { return x >= 0 && x <= (double)(n - 1); }

/* floor of a place inside a frame, without a call of the mathematics library */
static inline SNLS_HD int64_t snls_floor_inside(double x)
{
    const int64_t i = (int64_t)x;
    return (double)i > x ? i - 1 : i;
}

/* A bilinear read along one axis at a place inside the frame: taps at[0], at[1] with weights 1-f and f. at[1] is
 * mirrored beyond the last pixel; where f is 0 it counts for the derivative only. */
typedef struct SnlsTaps {
    int64_t at[2];
    double  weight[2];
} SnlsTaps;

static inline SNLS_HD SnlsTaps snls_taps(double z, int64_t n)
{
    const int64_t i = snls_floor_inside(z);
    const double f = z - (double)i;
    const SnlsTaps taps = {{i, i + 1 < n ? i + 1 : (n > 1 ? n - 2 : 0)}, {1 - f, f}};
    return taps;
}

/* Number of query patches (every stride0 pixels) that cover pixel y of an axis of length n. */
static inline SNLS_HD int64_t snls_cover_count(int64_t y, int64_t n, int64_t ps, int64_t dilation, int64_t stride0)
{
    int64_t count = 0;
    for (int64_t i = 0; i < ps; i++) {
        const int64_t query = y - dilation * (i - ps / 2);
        count += query >= 0 && query < n && query % stride0 == 0;
    }
    return count;
}

#endif
