/* gather.c: sources read into destinations: gather, gather_add, and the value gradient of scatter_add. The owner of a band
 * of destination rows walks the queries whose patches reach it, in order, and adds each to the pixels under its patch. */
#include "cpu/aggregate.h"
#include <string.h>

typedef struct Band { int64_t b, t, first, end; } Band; /* destination rows [first, end) of a frame */

/* The patch of a query, as far as it lies in the band and in the frame, of `count` neighbours of one shape. */
static void add_patch(const CpuAggregate *c, const Band *band, const CpuQuery *q, const SnlsGrid *grid, const SnlsPlaces *from, int64_t first, int64_t count)
{
    const SnlsAggregate *a = &c->a;
    const int64_t y = snls_cpu_y(a, q, 0), x = snls_cpu_x(a, q, 0), k = from->k[first];
    const CpuRange r = {y < band->first ? band->first - y : 0, y + a->ps > band->end ? band->end - y : a->ps}, s = snls_cpu_range(x, a->ps, a->width);
    const SnlsPatch patch = {snls_cpu_step_x(c), snls_cpu_step_y(c), r.end - r.first, s.end - s.first, 0};
    if (patch.rows <= 0) return;
    c->dsp->mix(snls_cpu_destination(c, q, k, y + r.first, x + s.first), &patch, from, first, count, r.first * grid->down + s.first * grid->right, grid);
}

/* The same where the pixels of a patch lie apart. */
static void add_pixels(const CpuAggregate *c, const Band *band, const CpuQuery *q, const SnlsGrid *grid, const SnlsPlaces *from, int64_t first, int64_t count)
{
    const SnlsAggregate *a = &c->a;
    const SnlsPatch pixel = {0, 0, 1, 1, 0};
    for (int64_t r = 0; r < a->ps; r++)
        for (int64_t s = 0; s < a->ps; s++) {
            const int64_t y = snls_cpu_y(a, q, r), x = snls_cpu_x(a, q, s), shift = a->dilation * (r * grid->down + s * grid->right);
            if (y < band->first || y >= band->end || x < 0 || x >= a->width) continue;
            c->dsp->mix(snls_cpu_destination(c, q, from->k[first], y, x), &pixel, from, first, count, shift, grid);
        }
}

static void add_inside(const CpuAggregate *c, const Band *band, const CpuQuery *q, const CpuLists *l, int shape)
{
    const SnlsGrid grid = snls_cpu_grid(c, shape);
    const int64_t at_once = c->stack ? 1 : l->count[shape], end = l->start[shape] + l->count[shape];
    for (int64_t n = l->start[shape]; n < end; n += at_once) {
        if (c->a.dilation == 1) add_patch(c, band, q, &grid, l->of[shape], n, at_once);
        else add_pixels(c, band, q, &grid, l->of[shape], n, at_once);
    }
}

/* One neighbour, pixel by pixel. */
static void add_pixel(const CpuAggregate *c, const CpuQuery *q, const SnlsNeighbour *n, const SnlsTaps *ty, const SnlsTaps *tx, double weight, float *to)
{
    const float *at = snls_cpu_pixel(&c->source, q->b, n->frame, ty->at[0], tx->at[0]) + q->head * c->channels;
    float w[4];
    for (int m = 0; m < 4; m++) w[m] = (float)(ty->weight[m >> 1] * tx->weight[m & 1] * weight);
    const SnlsPlaces place = {&at, {&w[0], &w[1], &w[2], &w[3]}, NULL};
    const SnlsGrid grid = snls_cpu_grid(c, (ty->weight[1] != 0) * 2 + (tx->weight[1] != 0));
    c->dsp->mix(to, &(SnlsPatch){0, 0, 1, 1, 0}, &place, 0, 1, 0, &grid);
}

static void add_outside(const CpuAggregate *c, const CpuSpace *space, const Band *band, const CpuQuery *q, int64_t k)
{
    const SnlsAggregate *a = &c->a;
    const SnlsNeighbour n = snls_cpu_neighbour(a, q, k);
    const double weight = snls_cpu_weight(a, q, k);
    if (!n.valid) return;
    snls_cpu_axes(space, c, &n);
    for (int64_t r = 0; r < a->ps; r++) {
        const int64_t y = snls_cpu_y(a, q, r);
        if (y < band->first || y >= band->end || space->axis_y[r].dropped) continue;
        for (int64_t s = 0; s < a->ps; s++) {
            const int64_t x = snls_cpu_x(a, q, s);
            if (x < 0 || x >= a->width || space->axis_x[s].dropped) continue;
            add_pixel(c, q, &n, &space->axis_y[r].taps, &space->axis_x[s].taps, weight, snls_cpu_destination(c, q, k, y, x));
        }
    }
}

static void add_query(const CpuAggregate *c, const CpuSpace *space, const Band *band, const CpuQuery *q)
{
    CpuLists l;
    snls_cpu_lists(&l, space, c, q);
    for (int shape = 0; shape < CPU_SHAPES; shape++)
        if (l.count[shape]) add_inside(c, band, q, &l, shape);
    for (int64_t n = 0; n < l.count[CPU_OUTSIDE]; n++) add_outside(c, space, band, q, l.of[CPU_OUTSIDE]->k[n]);
}

static void add_queries(const CpuAggregate *c, SnlsSite *site, CpuSpace *space, const Band *band, int64_t i)
{
    CpuQuery q = {.b = band->b, .t = band->t, .i = i};
    for (int64_t first = 0, some = 0; first < c->a.columns; first += some)
        for (q.head = 0; q.head < c->a.heads; q.head++) {
            q.j = first;
            some = snls_cpu_places(space, c, site, &q, CPU_WEIGHTED);
            for (; q.j < first + some; q.j++) add_query(c, space, band, &q);
        }
}

/* Pixels [x, end) of a destination row times factor; 0 clears, whatever was there. */
static void scale_run(const CpuAggregate *c, float *pixel, int64_t pixels, int64_t floats, float factor)
{
    const int64_t step = snls_cpu_step_x(c);
    const bool together = step == floats;
    for (int64_t x = 0; x < (together ? 1 : pixels); x++) {
        const int64_t n = together ? pixels * floats : floats;
        if (factor == 0) memset(pixel + x * step, 0, (size_t)n * sizeof *pixel);
        else c->dsp->scale(pixel + x * step, factor, n);
    }
}

/* A destination row cleared, or divided by the patches over its pixels. */
static void scale_row(const CpuAggregate *c, const Band *band, int64_t y, bool clear)
{
    const SnlsAggregate *a = &c->a;
    const int64_t heads = c->stack ? a->heads : 1, layers = c->stack ? a->neighbours : 1, floats = c->stack ? c->channels : a->heads * c->channels;
    CpuQuery q = {.b = band->b, .t = band->t};
    for (int64_t x = 0, end; x < a->width; x = end) {
        for (end = x + 1; end < a->width && (clear || c->over_x[end] == c->over_x[x]);) end++;
        const float over = c->over_y[y] * c->over_x[x];
        if (!clear && (over == 0 || over == 1)) continue;
        for (q.head = 0; q.head < heads; q.head++)
            for (int64_t k = 0; k < layers; k++) scale_run(c, snls_cpu_destination(c, &q, k, y, x), end - x, floats, clear ? 0 : 1 / over);
    }
}

/* Rows are cleared just before the first query that reaches them and divided just after the last: they are in cache. */
static void gather_band(const CpuAggregate *c, const Band *band)
{
    const SnlsAggregate *a = &c->a;
    const int64_t before = snls_cpu_before(a), after = snls_cpu_after(a);
    SnlsSite site = snls_cpu_site(c, false);
    CpuSpace space = snls_cpu_space(c);
    int64_t cleared = band->first, divided = band->first;
    for (int64_t i = 0; i <= a->rows; i++) {
        const int64_t y = i * a->stride0;
        if (i < a->rows && y + after < band->first) continue;
        const bool last = i == a->rows || y - before >= band->end;
        for (; c->divide && divided < band->end && (last || divided < y - before); divided++) {
            if (c->overwrite && cleared == divided) scale_row(c, band, cleared++, true);
            scale_row(c, band, divided, false);
        }
        for (; c->overwrite && cleared < band->end && (last || cleared <= y + after); cleared++) scale_row(c, band, cleared, true);
        if (last) break;
        add_queries(c, &site, &space, band, i);
    }
}

void snls_cpu_gather_rows(SnlsContext *ctx, const CpuAggregate *c)
{
    const SnlsAggregate *a = &c->a;
    const int64_t planes = a->batch * a->frames, rows = snls_cpu_band(ctx, planes, a->height, 32), bands = (a->height + rows - 1) / rows;
#pragma omp parallel for num_threads(ctx->threads) schedule(dynamic, 1)
    for (int64_t u = 0; u < planes * bands; u++) {
        const int64_t plane = u / bands, first = u % bands * rows;
        const Band band = {plane / a->frames, plane % a->frames, first, first + rows < a->height ? first + rows : a->height};
        gather_band(c, &band);
    }
}
