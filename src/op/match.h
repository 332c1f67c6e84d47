/* match.h: search, search_all and refine seen as one job: queries, each with a list of windows around centres.
 * A search has one window a slot, a refine one window a given place. Backends work on this view only. */
#ifndef SNLS_MATCH_H
#define SNLS_MATCH_H

#include "base/tensor.h"
#include "op/geometry.h"
#include "op/op.h"

typedef struct SnlsMatch {
    const char *op;
    SnlsTensor query, key, centre; /* centre: flow of a search (may have no data), given offsets of a refine */
    SnlsTensor dist, offset, index;
    int64_t batch, frames, height, width, heads, features, rows, columns; /* rows, columns: of the query grid */
    int64_t windows;               /* W_t or Kin */
    int64_t side;                  /* ws or wr */
    int64_t kept;                  /* last axis of dist */
    int64_t k;                     /* kept per group: all windows together, or each window (topk each) */
    int64_t wt, ps, dilation, stride0;
    int64_t flow_slots;            /* S, 0 without flow */
    double  stride1;
    bool refine, all, each, prod, nearest, drop, slide;
    int32_t anchor, exclude;
} SnlsMatch;

typedef struct SnlsMatchGrad {
    SnlsTensor dist, offset;       /* in */
    SnlsTensor query, key, centre; /* out */
} SnlsMatchGrad;

/* Sizes and parameters of a call whose tensors have been checked. */
SnlsMatch snls_match_of_search(const SnlsSearch *s, bool all);
SnlsMatch snls_match_of_refine(const SnlsRefine *s);
SnlsMatchGrad snls_match_grad_of_search(const SnlsSearchGrad *g);
SnlsMatchGrad snls_match_grad_of_refine(const SnlsRefineGrad *g);

/* Which query: batch, head, time, row and column of the query grid. */
typedef struct SnlsQuery { int64_t b, head, t, i, j; } SnlsQuery;

typedef struct SnlsMatchWindow {
    bool    valid;            /* false: no candidate of this window counts */
    int64_t frame;
    double  y, x;             /* centre, inside the frame */
    double  slope_y, slope_x; /* d centre / d flow */
    int64_t origin_y, origin_x;
} SnlsMatchWindow;

/* False for an unshifted slot: no flow, or S = W_t - 1 and slot 0. */
static inline SNLS_HD bool snls_match_has_centre(const SnlsMatch *m, int64_t window)
{
    return m->refine || window >= m->windows - m->flow_slots;
}

/* Element number of the flow vector or offset that a window has (snls_match_has_centre). */
static inline SNLS_HD int64_t snls_match_centre_at(const SnlsMatch *m, const SnlsQuery *q, int64_t window)
{
    if (m->refine) return snls_at6(&m->centre, q->b, q->head, q->t, q->i, q->j, window);
    const int64_t slot = window - (m->windows - m->flow_slots);
    if (m->centre.ndim == 7) return snls_at6(&m->centre, q->b, q->head, q->t, slot, q->i, q->j);
    return snls_at5(&m->centre, q->b, q->t, slot, q->i, q->j);
}

/* From there to the y and the x component: flow is (x,y), offsets are (dt,dy,dx). */
static inline SNLS_HD int64_t snls_match_step_y(const SnlsMatch *m) { return m->centre.stride[m->centre.ndim - 1]; }
static inline SNLS_HD int64_t snls_match_step_x(const SnlsMatch *m) { return m->refine ? 2 * m->centre.stride[m->centre.ndim - 1] : 0; }

static inline SNLS_HD SnlsMatchWindow snls_match_window(const SnlsMatch *m, const SnlsQuery *q, int64_t window)
{
    SnlsMatchWindow w = {.valid = true, .slope_y = 1, .slope_x = 1};
    const double by = (double)(q->i * m->stride0), bx = (double)(q->j * m->stride0);
    double dy = 0, dx = 0, dt = 0;
    if (snls_match_has_centre(m, window)) {
        const int64_t at = snls_match_centre_at(m, q, window);
        dy = snls_load(&m->centre, at + snls_match_step_y(m));
        dx = snls_load(&m->centre, at + snls_match_step_x(m));
        if (m->refine) dt = snls_load(&m->centre, at);
        w.valid = isfinite(dy) && isfinite(dx) && isfinite(dt);
        if (!w.valid) return w;
        if (m->nearest) { dy = rint(dy); dx = rint(dx); }
    }
    w.frame = m->refine ? (int64_t)snls_reflect_real((double)q->t + rint(dt), m->frames)
                        : snls_slot_frame(q->t, window, m->wt, m->frames);
    w.y = snls_reflect_real(by + dy, m->height);
    w.x = snls_reflect_real(bx + dx, m->width);
    w.slope_y = snls_reflect_slope(by + dy, m->height);
    w.slope_x = snls_reflect_slope(bx + dx, m->width);
    w.origin_y = snls_window_origin(w.y, m->side, m->stride1, m->height, m->slide);
    w.origin_x = snls_window_origin(w.x, m->side, m->stride1, m->width, m->slide);
    return w;
}

static inline SNLS_HD double snls_match_y(const SnlsMatch *m, const SnlsMatchWindow *w, int64_t row)
{
    return snls_window_place(w->y, m->stride1, row, w->origin_y);
}
static inline SNLS_HD double snls_match_x(const SnlsMatch *m, const SnlsMatchWindow *w, int64_t column)
{
    return snls_window_place(w->x, m->stride1, column, w->origin_x);
}

/* Cells of an axis whose place is inside the frame: [*first, *end), empty when there is none. Places rise with the
 * cell number, so the valid ones are one run. */
static inline SNLS_HD void snls_match_valid_run(double centre, double step, int64_t origin, int64_t side, int64_t n, int64_t *first, int64_t *end)
{
    int64_t a = 0, b = side;
    while (a < b && !snls_inside(snls_window_place(centre, step, a, origin), n)) a++;
    while (b > a && !snls_inside(snls_window_place(centre, step, b - 1, origin), n)) b--;
    *first = a;
    *end = b;
}

/* "Nearest the query itself": cell row*side + column of slot 0 among those inside the frame, lower raster index on a tie.
 * False when none is inside. */
static inline SNLS_HD bool snls_match_nearest_self(const SnlsMatch *m, const SnlsQuery *q, const SnlsMatchWindow *w, int64_t *cell)
{
    int64_t row0, row1, column0, column1;
    bool found = false;
    double best = 0;
    snls_match_valid_run(w->y, m->stride1, w->origin_y, m->side, m->height, &row0, &row1);
    snls_match_valid_run(w->x, m->stride1, w->origin_x, m->side, m->width, &column0, &column1);
    for (int64_t r = row0; r < row1; r++) {
        const double dy = snls_match_y(m, w, r) - (double)(q->i * m->stride0);
        if (found && dy * dy > best) continue;
        for (int64_t c = column0; c < column1; c++) {
            const double dx = snls_match_x(m, w, c) - (double)(q->j * m->stride0);
            const double distance = dy * dy + dx * dx;
            if (found && !(distance < best)) continue;
            found = true;
            best = distance;
            *cell = r * m->side + c;
        }
    }
    return found;
}

/* Cells of a window that are not treated like the others; -1: there is none. */
typedef struct SnlsMatchSpecial { int64_t excluded, anchored; } SnlsMatchSpecial;

static inline SNLS_HD SnlsMatchSpecial snls_match_special(const SnlsMatch *m, const SnlsQuery *q, const SnlsMatchWindow *w, int64_t window)
{
    SnlsMatchSpecial special = {-1, -1};
    int64_t self = -1;
    if (m->anchor == SNLS_ANCHOR_EACH) special.anchored = w->origin_y * m->side + w->origin_x;
    if (window || (m->anchor != SNLS_ANCHOR_SELF && m->exclude != SNLS_EXCLUDE_SELF)) return special;
    if (!snls_match_nearest_self(m, q, w, &self)) return special;
    if (m->exclude == SNLS_EXCLUDE_SELF) special.excluded = self;
    else special.anchored = self;
    return special;
}

#endif
