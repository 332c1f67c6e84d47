/* scatter.c: destinations pushed to sources: scatter_add, and the value gradients of gather and gather_add. A band of
 * source rows, in all frames, has one owner, which looks through the neighbours for taps that fall in it, in a fixed
 * order. What rows a row of queries can reach was noted before, so that most are not looked through. */
#include "cpu/aggregate.h"

typedef struct Band { int64_t b, first, end, left, right; } Band; /* source rows [first, end); columns of queries at hand */

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
    const double y = (double)(q->i * a->stride0), last = (double)(a->height - 1);
    const float *o = snls_cpu_offset(a, q, 0) + a->offset.stride[6];
    double low = last, high = 0;
    bool plain = true;
    for (int64_t k = 0; k < a->neighbours; k++, o += a->offset.stride[5]) {
        const double row = y + *o;
        plain &= (row >= 0) & (row <= last);
        low = row < low ? row : low;
        high = row > high ? row : high;
    }
    reach->plain &= plain;
    if (!plain) return;
    if ((int64_t)low < reach->first) reach->first = (int64_t)low;
    if ((int64_t)high > reach->last) reach->last = (int64_t)high;
}

void snls_cpu_reach(SnlsContext *ctx, const CpuAggregate *c, CpuReach *reach)
{
    const SnlsAggregate *a = &c->a;
    const int64_t rows = a->batch * a->frames * a->rows;
#pragma omp parallel for num_threads(ctx->threads) schedule(static)
    for (int64_t u = 0; u < rows; u++) {
        CpuReach all = {a->height, -1, true};
        CpuQuery q = {.b = u / a->rows / a->frames, .t = u / a->rows % a->frames, .i = u % a->rows};
        for (q.head = 0; q.head < a->heads; q.head++)
            for (q.j = 0; q.j < a->columns && all.plain; q.j++) reach_query(a, &q, &all);
        all.first -= reach_rows(a) + 1; /* and one more, for rounding */
        all.last += reach_rows(a) + 1;
        if (!all.plain) all = (CpuReach){0, a->height - 1, false};
        reach[u] = all;
    }
}

/* ---- one neighbour ---- */

static void push_taps(const CpuAggregate *c, const Band *band, const CpuQuery *q, const SnlsNeighbour *n, const SnlsTaps *ty, const SnlsTaps *tx,
                      float factor, const float *from)
{
    for (int m = 0; m < 4; m++) {
        const int64_t row = ty->at[m >> 1];
        const double w = ty->weight[m >> 1] * tx->weight[m & 1];
        if (ty->weight[m >> 1] == 0 || tx->weight[m & 1] == 0 || row < band->first || row >= band->end) continue;
        float *to = snls_cpu_pixel(&c->source, q->b, n->frame, row, tx->at[m & 1]) + q->head * c->channels;
        c->dsp->axpy(to, factor * (float)w, from, c->channels);
    }
}

static void push_outside(const CpuAggregate *c, const CpuSpace *space, const Band *band, const CpuQuery *q, int64_t k)
{
    const SnlsAggregate *a = &c->a;
    const SnlsNeighbour n = snls_cpu_neighbour(a, q, k);
    const float weight = snls_cpu_weight(a, q, k);
    if (!n.valid) return;
    snls_cpu_axes(space, c, &n);
    for (int64_t r = 0; r < a->ps; r++)
        for (int64_t s = 0; s < a->ps; s++) {
            const int64_t y = snls_cpu_y(a, q, r), x = snls_cpu_x(a, q, s);
            const CpuAxis *at_y = &space->axis_y[r], *at_x = &space->axis_x[s];
            if (y < 0 || y >= a->height || x < 0 || x >= a->width || at_y->dropped || at_x->dropped) continue;
            push_taps(c, band, q, &n, &at_y->taps, &at_x->taps, weight / (c->over_y[y] * c->over_x[x]), from_pixel(c, q, k, y, x));
        }
}

/* A neighbour; corner and top: the first pixel and row of its patch. */
typedef struct Pushed {
    int64_t k, top;
    float *corner, w[4];
    SnlsGrid grid;
} Pushed;

/* Pixels where the divisor changes within the patch, or that lie apart: one by one. */
static void push_pixels(const CpuAggregate *c, const Band *band, const CpuQuery *q, const Pushed *p)
{
    const SnlsAggregate *a = &c->a;
    const SnlsPatch pixel = {0, 0, 1, 1, 0};
    for (int64_t r = 0; r < a->ps; r++)
        for (int64_t s = 0; s < a->ps; s++) {
            const int64_t y = snls_cpu_y(a, q, r), x = snls_cpu_x(a, q, s), row = p->top + a->dilation * r;
            if (y < 0 || y >= a->height || x < 0 || x >= a->width) continue;
            float w[4];
            for (int m = 0; m < 4; m++) w[m] = p->w[m] / (c->over_y[y] * c->over_x[x]);
            c->dsp->spread_patch(p->corner + a->dilation * (r * p->grid.down + s * p->grid.right), w, from_pixel(c, q, p->k, y, x), &pixel,
                                 band->first - row, band->end - row, &p->grid);
        }
}

static void push_patch(const CpuAggregate *c, const Band *band, const CpuQuery *q, const Pushed *p)
{
    const SnlsAggregate *a = &c->a;
    const int64_t y = snls_cpu_y(a, q, 0), x = snls_cpu_x(a, q, 0);
    const CpuRange r = snls_cpu_range(y, a->ps, a->height), s = snls_cpu_range(x, a->ps, a->width);
    const bool ones = !c->destination.data;
    const SnlsPatch patch = {ones ? 0 : snls_cpu_step_x(c), ones ? 0 : snls_cpu_step_y(c), r.end - r.first, s.end - s.first, 0};
    const int64_t top = p->top + r.first;
    c->dsp->spread_patch(p->corner + r.first * p->grid.down + s.first * p->grid.right, p->w, from_pixel(c, q, p->k, y + r.first, x + s.first), &patch,
                         band->first - top, band->end - top, &p->grid);
}

/* ---- one band ---- */

/* From neighbour n on, those of one shape that lie wholly in the band: single pixels, pushed in one call. Returns how many. */
static int64_t push_pixels_at_once(const CpuAggregate *c, const CpuSpace *space, const Band *band, const CpuQuery *q, int64_t n, int64_t end)
{
    const int shape = space->shape[n];
    const int64_t first = n, *row = space->all.row;
    while (n < end && space->shape[n] == shape && row[n] >= band->first && row[n] + (shape >> 1) < band->end) n++;
    const SnlsGrid grid = snls_cpu_grid(c, shape);
    if (n > first) c->dsp->spread_pixels(&space->all, first, n - first, from_pixel(c, q, 0, snls_cpu_y(&c->a, q, 0), snls_cpu_x(&c->a, q, 0)),
                                         c->destination.data ? snls_cpu_step_k(c) : 0, &grid);
    return n - first;
}

static void push_query(const CpuAggregate *c, const CpuSpace *space, const Band *band, const CpuQuery *q)
{
    const SnlsAggregate *a = &c->a;
    const int64_t start = (q->j - space->first) * a->neighbours, before = snls_cpu_before(a), rows = before + snls_cpu_after(a) + 2;
    float divisor;
    const bool even = snls_cpu_even(c, q, &divisor);
    const float factor = even ? 1 / divisor : 1;
    const bool single = a->ps == 1 && even && factor == 1;
    for (int64_t k = 0; k < a->neighbours; k++) {
        if (single && space->shape[start + k] != CPU_OUTSIDE) k += push_pixels_at_once(c, space, band, q, start + k, start + a->neighbours);
        const int64_t n = start + k;
        if (k == a->neighbours) break;
        if (space->shape[n] == CPU_OUTSIDE) { push_outside(c, space, band, q, k); continue; }
        Pushed p = {.k = k, .top = space->all.row[n] - before, .grid = snls_cpu_grid(c, space->shape[n])};
        if (p.top + rows <= band->first || p.top >= band->end) continue;
        p.corner = c->source.data + (space->all.at[n] - c->source.data);
        for (int m = 0; m < 4; m++) p.w[m] = factor * space->all.w[m][n];
        if (even) push_patch(c, band, q, &p);
        else push_pixels(c, band, q, &p);
    }
}

static void push_row(const CpuAggregate *c, SnlsSite *site, CpuSpace *space, const Band *band, CpuQuery *q)
{
    for (int64_t first = band->left, some = 0; first < band->right; first += some)
        for (q->head = 0; q->head < c->a.heads; q->head++) {
            q->j = first;
            some = snls_cpu_places(space, c, site, q, band->right, true);
            for (; q->j < first + some; q->j++) push_query(c, space, band, q);
        }
}

/* All frames of a row of queries before the next row: what they write to is still at hand. */
static void push_columns(const CpuAggregate *c, const Band *band, const CpuReach *reach)
{
    const SnlsAggregate *a = &c->a;
    CpuQuery q = {.b = band->b};
    SnlsSite site = snls_cpu_site(c, false);
    CpuSpace space = snls_cpu_space(c);
    for (q.i = 0; q.i < a->rows; q.i++)
        for (q.t = 0; q.t < a->frames; q.t++) {
            const CpuReach *e = reach + (q.b * a->frames + q.t) * a->rows + q.i;
            if (e->last >= band->first && e->first < band->end) push_row(c, &site, &space, band, &q);
        }
}

static void push_band(const CpuAggregate *c, Band *band, const CpuReach *reach)
{
    const int64_t columns = snls_cpu_columns_at_once(c);
    for (band->left = 0; band->left < c->a.columns; band->left = band->right) {
        band->right = band->left + columns < c->a.columns ? band->left + columns : c->a.columns;
        push_columns(c, band, reach);
    }
}

void snls_cpu_scatter_bands(SnlsContext *ctx, const CpuAggregate *c, const CpuReach *reach)
{
    const SnlsAggregate *a = &c->a;
    const int64_t rows = snls_cpu_band(ctx, a->batch, a->height, 64), bands = (a->height + rows - 1) / rows;
#pragma omp parallel for num_threads(ctx->threads) schedule(dynamic, 1)
    for (int64_t u = 0; u < a->batch * bands; u++) {
        const int64_t first = u % bands * rows;
        Band band = {.b = u / bands, .first = first, .end = first + rows < a->height ? first + rows : a->height};
        push_band(c, &band, reach);
    }
}
