/* settle_body.h: settle, aim and tilt of dsp.h: loops without branches, for the compiler to make vectors of. Included by every instruction set, with the flags of that; the arithmetic is the same everywhere, and
 * with it every bit. */
#include "simd/inline.h"

/* floor(a / b) of whole numbers, a below 2^31, b = 1/per below 2^20: half a unit more keeps rounding from mattering. */
static inline int32_t settle_divide(int32_t a, double per) { return (int32_t)((a + 0.5) * per); }

/* The cell of a window's centre, as snls_window_origin has it, steps `per` to a pixel. Choices are made by arithmetic on whole numbers, floor and ceil through conversions: compilers make vectors of that. */
static inline double settle_origin(double centre, double middle, double span, double step, double per, double last, const int slide)
{
    if (!slide) return middle;
    const double from_end = (centre - last) * per + span, low = (int32_t)(centre * per), down = (int32_t)from_end, high = down + (down < from_end);
    const double o = middle + (low - middle) * (centre - step * middle < 0);
    return o + (high - o) * (centre + step * (span - o) > last);
}

/* Not beyond the frame, and a number. */
static inline double settle_clamp(double z, double last)
{
    const double below = z <= last ? z : last;
    return z >= 0 ? below : 0;
}

ALWAYS void settle_places(SnlsSettled *s, ptrdiff_t n, const SnlsSettle *in, const float *dy, const float *dx, const int nearest, const int slide)
{
    const SnlsSettle c = *in; /* no store can change it */
    const double per_side = 1.0 / c.side, per = 1 / c.stride1, middle = (c.side - 1) / 2, span = c.side - 1, round = nearest ? 0x1.8p52 : 0;
    for (ptrdiff_t i = 0; i < n; i++) {
        const int32_t cell = s->id[i] - s->window[i] * c.cells, row = settle_divide(cell, per_side), column = cell - row * c.side;
        const double given_y = c.y + (dy[i] + round - round), given_x = s->column[i] * c.stride0 + (dx[i] + round - round);
        const double y = settle_clamp(given_y, c.last_y), x = settle_clamp(given_x, c.last_x);
        const double at_y = y + c.stride1 * (row - settle_origin(y, middle, span, c.stride1, per, c.last_y, slide));
        const double at_x = x + c.stride1 * (column - settle_origin(x, middle, span, c.stride1, per, c.last_x, slide));
        const int inside = (at_y >= 0) & (at_y <= c.last_y) & (at_x >= 0) & (at_x <= c.last_x), plain = (y == given_y) & (x == given_x);
        const int32_t after = c.time + s->window[i], before = c.turn - s->window[i];
        s->frame[i] = after <= c.turn ? after : before;
        s->y[i] = at_y;
        s->x[i] = at_x;
        s->state[i] = inside & plain ? 1 : plain - 1; /* SNLS_SETTLE_REFLECTED is -1 */
    }
}

static void settle(SnlsSettled *s, ptrdiff_t n, const SnlsSettle *c)
{
    const double per_window = 1.0 / c->cells;
    float dy[SNLS_SETTLE], dx[SNLS_SETTLE];
    for (ptrdiff_t i = 0; i < n; i++) s->window[i] = settle_divide(s->id[i], per_window);
    for (ptrdiff_t i = 0; i < n; i++) {
        const int has = c->centre && s->window[i] >= c->first;
        const float *at = has ? c->centre + (s->centre[i] + s->window[i] * c->centre_window) : NULL;
        dy[i] = has ? at[c->step_y] : 0;
        dx[i] = has ? at[c->step_x] : 0;
    }
    if (c->nearest && c->slide) settle_places(s, n, c, dy, dx, 1, 1);
    else if (c->nearest) settle_places(s, n, c, dy, dx, 1, 0);
    else if (c->slide) settle_places(s, n, c, dy, dx, 0, 1);
    else settle_places(s, n, c, dy, dx, 0, 0);
}

/* Where a tap's neighbour along an axis of n pixels is: at its end back, where it has no weight. */
static inline int32_t aim_beside(int32_t z, int32_t n) { return z + 1 < n ? 1 : n > 1 ? -1 : 0; }

static void aim(SnlsSettled *s, ptrdiff_t n, const SnlsAim *in)
{
    const SnlsAim c = *in;
    for (ptrdiff_t i = 0; i < n; i++) {
        const int32_t y = (int32_t)s->y[i], x = (int32_t)s->x[i], down = aim_beside(y, c.height), right = aim_beside(x, c.width);
        const double fy = s->y[i] - y, fx = s->x[i] - x;
        const int32_t upper = (y >= c.first) & (y < c.end), lower = (fy != 0) & (y + down >= c.first) & (y + down < c.end);
        s->down[i] = down;
        s->right[i] = right;
        s->rows[i] = upper | lower << 1;
        s->shape[i] = (fy != 0) * 2 + (fx != 0);
        s->w[0][i] = (float)((1 - fy) * (1 - fx));
        s->w[1][i] = (float)((1 - fy) * fx);
        s->w[2][i] = (float)(fy * (1 - fx));
        s->w[3][i] = (float)(fy * fx);
    }
    for (ptrdiff_t i = 0; i < n; i++) {
        const int64_t t = s->frame[i], y = (int32_t)s->y[i], x = (int32_t)s->x[i];
        s->at[i] = t * c.step[0] + y * c.step[1] + x * c.step[2];
        s->out[i] = t * c.out_step[0] + y * c.out_step[1] + x * c.out_step[2];
    }
}

static void tilt(SnlsSettled *s, ptrdiff_t n, const SnlsTilt *in)
{
    const SnlsTilt c = *in;
    for (ptrdiff_t i = 0; i < n; i++) {
        const double fy = s->y[i] - (int32_t)s->y[i], fx = s->x[i] - (int32_t)s->x[i], scale = c.twice * c.g[i];
        const double left = (double)c.along[i][2] - c.along[i][0], right = (double)c.along[i][3] - c.along[i][1], upper = (double)c.along[i][1] - c.along[i][0], lower = (double)c.along[i][3] - c.along[i][2];
        const double kept_left = fx != 1 ? left : 0, kept_right = fx != 0 ? right : 0, kept_upper = fy != 1 ? upper : 0, kept_lower = fy != 0 ? lower : 0; /* of no weight: perhaps no numbers */
        s->by_y[i] = scale * ((1 - fx) * kept_left + fx * kept_right);
        s->by_x[i] = scale * ((1 - fy) * kept_upper + fy * kept_lower);
    }
}
