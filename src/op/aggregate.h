/* aggregate.h: gather, gather_add and scatter_add seen as one job: every neighbour of every query ties the pixels of the
 * query's patch (destination) to the pixels around the neighbour (source). */
#ifndef SNLS_AGGREGATE_H
#define SNLS_AGGREGATE_H

#include "base/tensor.h"
#include "op/geometry.h"
#include "op/op.h"

typedef struct SnlsAggregate {
    const char *op;
    SnlsTensor value, weight, offset, out, total; /* total: scatter_add only */
    int64_t batch, frames, height, width, heads, features, rows, columns, neighbours;
    int64_t ps, dilation, stride0;
    bool nearest, drop;
    bool stack;   /* gather: out is (B,heads,K,T,H,W,F) */
    bool scatter; /* scatter_add: source and destination change places, no division */
} SnlsAggregate;

SnlsAggregate snls_aggregate_of_gather(const SnlsGather *s, bool stack);
SnlsAggregate snls_aggregate_of_scatter(const SnlsScatterAdd *s);

/* Where a neighbour is: frame and position, reflected into the clip. */
typedef struct SnlsNeighbour {
    bool    valid; /* false: its offset is not finite */
    int64_t frame;
    double  y, x, slope_y, slope_x;
} SnlsNeighbour;

/* at: element number of the neighbour's offset; (t, y, x): the query */
static inline SNLS_HD SnlsNeighbour snls_neighbour(const SnlsAggregate *a, int64_t at, int64_t t, int64_t y, int64_t x)
{
    const int64_t step = a->offset.stride[6];
    const double dt = snls_load(&a->offset, at);
    double dy = snls_load(&a->offset, at + step), dx = snls_load(&a->offset, at + 2 * step);
    SnlsNeighbour n = {.valid = isfinite(dt) && isfinite(dy) && isfinite(dx)};
    if (!n.valid) return n;
    if (a->nearest) { dy = rint(dy); dx = rint(dx); }
    n.frame = (int64_t)snls_reflect_real((double)t + rint(dt), a->frames);
    n.y = snls_reflect_real((double)y + dy, a->height);
    n.x = snls_reflect_real((double)x + dx, a->width);
    n.slope_y = snls_reflect_slope((double)y + dy, a->height);
    n.slope_x = snls_reflect_slope((double)x + dx, a->width);
    return n;
}

/* Element number of channel 0 of a head in out: (t, y, x) of a plain video, or of layer k of a stack. */
static inline SNLS_HD int64_t snls_aggregate_out_at(const SnlsAggregate *a, const SnlsTensor *out, int64_t b, int64_t head, int64_t k,
                                            int64_t t, int64_t y, int64_t x)
{
    if (a->stack) return snls_at6(out, b, head, k, t, y, x);
    return snls_at5(out, b, t, y, x, head * a->features);
}
static inline SNLS_HD int64_t snls_aggregate_out_step(const SnlsAggregate *a, const SnlsTensor *out) { return out->stride[a->stack ? 6 : 4]; }

/* True when every pixel lies under some query patch. */
bool snls_aggregate_covered(const SnlsAggregate *a);

#endif
