/* scatter.c: destinations pushed to sources: scatter_add, and the value gradients of gather and gather_add. A band of
 * source rows has one owner, which looks through all neighbours for taps that fall in it, in a fixed order. What a row of
 * queries can reach was noted before, so that most rows are not looked through. */
#include "cpu/aggregate.h"

typedef struct Band { int64_t b, frame, first, end; } Band; /* rows [first, end) of a source frame */

static const float one = 1;

static const float *from_pixel(const CpuAggregate *c, const CpuQuery *q, int64_t k, int64_t y, int64_t x)
{
    return c->destination.data ? snls_cpu_destination(c, q, k, y, x) : &one;
}

/* ---- what a row of queries reaches ---- */

/* The rows a patch touches are no further from the row of its centre than from the centre without reflection. */
static int64_t reach_rows(const SnlsAggregate *a)
{
    const int64_t before = snls_cpu_before(a), after = snls_cpu_after(a);
    return (before > after ? before : after) + 1;
}

static void reach_query(const SnlsAggregate *a, const CpuQuery *q, CpuReach *reach)
{
    const double t = (double)q->t, y = (double)(q->i * a->stride0), last_frame = (double)(a->frames - 1), last_row = (double)(a->height - 1);
    const float *o = snls_cpu_offset(a, q, 0);
    for (int64_t k = 0; k < a->neighbours; k++, o += a->offset.stride[5]) {
        const double dy = o[a->offset.stride[6]], frame = t + o[0], row = y + (a->nearest ? snls_cpu_round(dy) : dy);
        if (!((frame >= 0) & (frame <= last_frame) & (row >= 0) & (row <= last_row))) { reach->plain = false; return; }
        const int64_t f = (int64_t)frame, r = (int64_t)row;
        if ((float)(f - q->t) != o[0]) { reach->plain = false; return; }
        if (f < reach->first_frame) reach->first_frame = f;
        if (f > reach->last_frame) reach->last_frame = f;
        if (r < reach->first_row) reach->first_row = r;
        if (r > reach->last_row) reach->last_row = r;
    }
}

void snls_cpu_reach(SnlsContext *ctx, const CpuAggregate *c, CpuReach *reach)
{
    const SnlsAggregate *a = &c->a;
    const int64_t rows = a->batch * a->frames * a->rows;
#pragma omp parallel for num_threads(ctx->threads) schedule(static)
    for (int64_t u = 0; u < rows; u++) {
        CpuReach all = {a->frames, -1, a->height, -1, true};
        CpuQuery q = {.b = u / a->rows / a->frames, .t = u / a->rows % a->frames, .i = u % a->rows};
        for (q.head = 0; q.head < a->heads; q.head++)
            for (q.j = 0; q.j < a->columns && all.plain; q.j++) reach_query(a, &q, &all);
        all.first_row -= reach_rows(a);
        all.last_row += reach_rows(a) + 1;
        if (!all.plain) all = (CpuReach){0, a->frames - 1, 0, a->height - 1, false};
        reach[u] = all;
    }
}

/* ---- one neighbour ---- */

static void push_outside(const CpuAggregate *c, const Band *band, const CpuQuery *q, int64_t k)
{
    const SnlsAggregate *a = &c->a;
    const SnlsNeighbour n = snls_cpu_neighbour(a, q, k);
    const float weight = snls_cpu_weight(a, q, k);
    if (!n.valid || n.frame != band->frame) return;
    for (int64_t r = 0; r < a->ps; r++)
        for (int64_t s = 0; s < a->ps; s++) {
            const int64_t y = snls_cpu_y(a, q, r), x = snls_cpu_x(a, q, s);
            CpuTaps taps;
            if (y < 0 || y >= a->height || x < 0 || x >= a->width || !snls_cpu_source_taps(&taps, c, q, &n, r, s)) continue;
            const float factor = weight / (c->over_y[y] * c->over_x[x]);
            for (int m = 0; m < taps.count; m++) {
                if (taps.y[m] < band->first || taps.y[m] >= band->end) continue;
                float *to = snls_cpu_pixel(&c->source, band->b, band->frame, taps.y[m], taps.x[m]) + q->head * c->channels;
                c->dsp->axpy(to, factor * taps.weight[m], from_pixel(c, q, k, y, x), c->channels);
            }
        }
}

/* Pixels where the divisor changes within the patch, or that lie apart: one by one. */
static void push_pixels(const CpuAggregate *c, const Band *band, const CpuQuery *q, int64_t k, const CpuSpot *spot, float *corner, float weight)
{
    const SnlsAggregate *a = &c->a;
    const SnlsGrid grid = snls_cpu_grid(c, snls_cpu_spot_shape(spot));
    const SnlsPatch pixel = {0, 0, 1, 1, 0};
    for (int64_t r = 0; r < a->ps; r++)
        for (int64_t s = 0; s < a->ps; s++) {
            const int64_t y = snls_cpu_y(a, q, r), x = snls_cpu_x(a, q, s), row = spot->y + a->dilation * (r - a->ps / 2);
            if (y < 0 || y >= a->height || x < 0 || x >= a->width) continue;
            float w[4];
            snls_cpu_spot_weights(w, spot, weight / (c->over_y[y] * c->over_x[x]));
            c->dsp->spread_patch(corner + a->dilation * (r * grid.down + s * grid.right), w, from_pixel(c, q, k, y, x), &pixel, band->first - row, band->end - row, &grid);
        }
}

/* even: 1/divisor of the whole patch, 0 where there is none */
static void push_inside(const CpuAggregate *c, const Band *band, const CpuQuery *q, int64_t k, const CpuSpot *spot, float even)
{
    const SnlsAggregate *a = &c->a;
    const int64_t before = snls_cpu_before(a), top = spot->y - before;
    const SnlsGrid grid = snls_cpu_grid(c, snls_cpu_spot_shape(spot));
    float *const corner = c->source.data + (q->b * c->source.step[0] + q->head * c->channels + spot->at - before * (grid.down + grid.right));
    const float weight = snls_cpu_weight(a, q, k);
    if (even == 0) {
        push_pixels(c, band, q, k, spot, corner, weight);
        return;
    }
    const int64_t y = snls_cpu_y(a, q, 0), x = snls_cpu_x(a, q, 0);
    const CpuRange r = snls_cpu_range(y, a->ps, a->height), s = snls_cpu_range(x, a->ps, a->width);
    const bool ones = !c->destination.data;
    const SnlsPatch patch = {ones ? 0 : snls_cpu_step_x(c), ones ? 0 : snls_cpu_step_y(c), r.end - r.first, s.end - s.first, 0};
    float w[4];
    snls_cpu_spot_weights(w, spot, (double)weight * even);
    c->dsp->spread_patch(corner + r.first * grid.down + s.first * grid.right, w, from_pixel(c, q, k, y + r.first, x + s.first), &patch,
                   band->first - top - r.first, band->end - top - r.first, &grid);
}

/* ---- one band ---- */

/* Neighbours that may reach the band, by frame and row, without a branch each; their numbers go to kept. */
static int64_t choose(const CpuAggregate *c, const Band *band, const CpuQuery *q, SnlsTap *kept)
{
    const SnlsAggregate *a = &c->a;
    const float *o = snls_cpu_offset(a, q, 0), frame = (float)(band->frame - q->t);
    const int64_t next = a->offset.stride[5], step = a->offset.stride[6], y = q->i * a->stride0, more = reach_rows(a) + 2;
    const double low = (double)(band->first - more - y), high = (double)(band->end + more - y);
    int64_t count = 0;
    for (int64_t k = 0; k < a->neighbours; k++, o += next) {
        kept[count].k = k;
        count += (o[0] == frame) & (o[step] >= low) & (o[step] <= high);
    }
    return count;
}

static void push_query(const CpuAggregate *c, const CpuInside *in, const Band *band, const CpuQuery *q, bool plain)
{
    const SnlsAggregate *a = &c->a;
    SnlsTap *const kept = c->taps + (int64_t)snls_cpu_thread() * CPU_LISTS * a->neighbours;
    const int64_t count = plain ? choose(c, band, q, kept) : a->neighbours;
    const double t = (double)q->t, y = (double)(q->i * a->stride0), x = (double)(q->j * a->stride0);
    float divisor, even = 0;
    if (count && snls_cpu_even(c, q, &divisor)) even = 1 / divisor;
    for (int64_t n = 0; n < count; n++) {
        const int64_t k = plain ? kept[n].k : n;
        CpuSpot spot;
        if (!snls_cpu_spot(&spot, in, snls_cpu_offset(a, q, k), a->offset.stride[6], t, y, x)) push_outside(c, band, q, k);
        else if (spot.frame == band->frame) push_inside(c, band, q, k, &spot, even);
    }
}

static void push_band(const CpuAggregate *c, const CpuInside *in, const Band *band, const CpuReach *reach)
{
    const SnlsAggregate *a = &c->a;
    CpuQuery q = {.b = band->b};
    for (q.t = 0; q.t < a->frames; q.t++)
        for (q.i = 0; q.i < a->rows; q.i++) {
            const CpuReach *e = reach + (q.b * a->frames + q.t) * a->rows + q.i;
            if (band->frame < e->first_frame || band->frame > e->last_frame || e->last_row < band->first || e->first_row >= band->end) continue;
            for (q.j = 0; q.j < a->columns; q.j++)
                for (q.head = 0; q.head < a->heads; q.head++) push_query(c, in, band, &q, e->plain);
        }
}

void snls_cpu_scatter_bands(SnlsContext *ctx, const CpuAggregate *c, const CpuReach *reach)
{
    const SnlsAggregate *a = &c->a;
    const CpuInside in = snls_cpu_inside(c, false);
    const int64_t planes = a->batch * a->frames, rows = snls_cpu_band(ctx, planes, a->height), bands = (a->height + rows - 1) / rows;
#pragma omp parallel for num_threads(ctx->threads) schedule(dynamic, 1)
    for (int64_t u = 0; u < planes * bands; u++) {
        const int64_t plane = u / bands, first = u % bands * rows;
        const Band band = {plane / a->frames, plane % a->frames, first, first + rows < a->height ? first + rows : a->height};
        push_band(c, &in, &band, reach);
    }
}
