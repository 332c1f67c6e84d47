/* gather.c: sources read into destinations: gather, gather_add, and the value gradient of scatter_add. The owner of a band
 * of destination rows walks the queries whose patches reach it, in order, and adds each to the pixels under its patch. */
#include "cpu/aggregate.h"
#include <string.h>

/* Destination rows [first, end) of some frames, and the columns at hand: queries [left, right); pixels cleared and divided. */
typedef struct Band {
    int64_t b, t, t_end, first, end, left, right;
    int64_t top, bottom; /* rows of queries whose patches reach it */
    CpuRange clear, divide;
} Band;

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

/* An infinite weight times what is read: taps times infinity could be of either sign, and their sum no number. */
static void add_infinite(const CpuAggregate *c, const float *at, const SnlsTaps *ty, const SnlsTaps *tx, float weight, float *to)
{
    enum { PIECE = 64 };
    float blend[PIECE];
    for (int64_t i = 0, n; i < c->channels; i += n) {
        n = c->channels - i < PIECE ? c->channels - i : PIECE;
        memset(blend, 0, sizeof blend);
        for (int m = 0; m < 4; m++)
            if (ty->weight[m >> 1] != 0 && tx->weight[m & 1] != 0)
                c->dsp->axpy(blend, (float)(ty->weight[m >> 1] * tx->weight[m & 1]), at + i + (m >> 1) * c->source.step[2] + (m & 1) * c->source.step[3], n);
        c->dsp->axpy(to + i, weight, blend, n);
    }
}

/* One neighbour, pixel by pixel. */
static void add_pixel(const CpuAggregate *c, const CpuQuery *q, const SnlsNeighbour *n, const SnlsTaps *ty, const SnlsTaps *tx, double weight, float *to)
{
    const float *at = snls_cpu_pixel(&c->source, q->b, n->frame, ty->at[0], tx->at[0]) + q->head * c->channels;
    if (isinf(weight)) { add_infinite(c, at, ty, tx, (float)weight, to); return; }
    float w[4];
    for (int m = 0; m < 4; m++) w[m] = (float)(ty->weight[m >> 1] * tx->weight[m & 1] * weight);
    const SnlsPlaces place = {&at, {&w[0], &w[1], &w[2], &w[3]}, NULL, NULL};
    const SnlsGrid grid = snls_cpu_grid(c, (ty->weight[1] != 0) * 2 + (tx->weight[1] != 0));
    c->dsp->mix(to, &(SnlsPatch){0, 0, 1, 1, 0}, &place, 0, 1, 0, &grid);
}

/* One neighbour whose patch crosses a border. */
static void add_reflected(const CpuAggregate *c, const CpuSpace *space, const Band *band, const CpuQuery *q, int64_t k, const SnlsNeighbour *n, float weight)
{
    const SnlsAggregate *a = &c->a;
    const int64_t to_y = snls_cpu_y(a, q, 0), to_x = snls_cpu_x(a, q, 0);
    const CpuRange r = {to_y < band->first ? band->first - to_y : 0, to_y + a->ps > band->end ? band->end - to_y : a->ps}, s = snls_cpu_range(to_x, a->ps, a->width);
    const SnlsPatch patch = {snls_cpu_step_x(c), snls_cpu_step_y(c), r.end - r.first, s.end - s.first, 0};
    if (patch.rows <= 0) return;
    const CpuBend bend = snls_cpu_bend(space, c, q, n);
    const SnlsGrid grid = snls_cpu_grid(c, (bend.y[1] != 0) * 2 + (bend.x[1] != 0));
    const float upper = (float)bend.y[0] * weight, lower = (float)bend.y[1] * weight, left = (float)bend.x[0], right = (float)bend.x[1];
    const float w[4] = {upper * left, upper * right, lower * left, lower * right};
    c->dsp->mix_bent(snls_cpu_destination(c, q, k, to_y + r.first, to_x + s.first), &patch, space->bent_row + r.first, space->bent_column + s.first, w, &grid);
}

static void add_outside(const CpuAggregate *c, const CpuSpace *space, const Band *band, const CpuQuery *q, int64_t k)
{
    const SnlsAggregate *a = &c->a;
    const SnlsNeighbour n = snls_cpu_neighbour(a, q, k);
    const double weight = snls_cpu_weight(a, q, k);
    if (!n.valid) return;
    if (a->ps > 1 && snls_cpu_bends(a) && !isinf(weight)) {
        add_reflected(c, space, band, q, k, &n, (float)weight);
        return;
    }
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

/* The pixel that neighbours of later rows of queries will want first, if they are a few pixels away; NULL: none. */
static const float *ahead_of(const CpuAggregate *c, const CpuQuery *q)
{
    const SnlsAggregate *a = &c->a;
    const int64_t y = q->i + a->ps / 2 + CPU_AROUND / 2 + 2;
    if (a->stride0 > 1 || y >= a->height) return NULL;
    return snls_cpu_pixel(&c->source, q->b, q->t, y, q->j) + q->head * c->channels;
}

static void add_run(const CpuAggregate *c, const CpuSpace *space, const Band *band, const CpuQuery *q, int64_t end)
{
    const SnlsAggregate *a = &c->a;
    const int64_t y = snls_cpu_y(a, q, 0), x = snls_cpu_x(a, q, 0), n = a->neighbours, at = (q->j - space->first) * n;
    const SnlsGrid grid = snls_cpu_grid(c, space->shape[at]);
    const CpuRange r = {y < band->first ? band->first - y : 0, y + a->ps > band->end ? band->end - y : a->ps};
    const SnlsPatch patch = {snls_cpu_step_x(c), snls_cpu_step_y(c), r.end - r.first, a->ps, 0};
    const SnlsRun run = {end - q->j, c->stack ? 1 : n, n, a->stride0 * snls_cpu_step_x(c), c->set, ahead_of(c, q)};
    if (patch.rows <= 0 || run.queries <= 0) return;
    for (int64_t k = 0; k < (c->stack ? n : 1); k++)
        c->dsp->mix_run(snls_cpu_destination(c, q, k, y + r.first, x), &patch, &run, &space->all, at + k, r.first * grid.down, &grid);
}

static void clear_pixels(const CpuAggregate *c, const CpuQuery *q, int64_t count)
{
    for (int64_t k = 0; k < (c->stack ? c->a.neighbours : 1); k++) {
        float *pixel = snls_cpu_destination(c, q, k, q->i, q->j);
        for (int64_t j = 0; j < count; j++, pixel += snls_cpu_step_x(c)) memset(pixel, 0, (size_t)c->channels * sizeof *pixel);
    }
}

/* As many queries at once as may be. */
static void add_some(const CpuAggregate *c, const CpuSpace *space, const Band *band, CpuQuery q, int64_t end)
{
    const bool together = c->a.dilation == 1 || c->a.ps == 1;
    while (q.j < end) {
        const int64_t last = together ? snls_cpu_end_of_run(c, space, &q, end) : q.j;
        if (last > q.j) {
            add_run(c, space, band, &q, last);
            q.j = last;
            continue;
        }
        if (c->set) clear_pixels(c, &q, 1);
        add_query(c, space, band, &q);
        q.j++;
    }
}

static void add_queries(const CpuAggregate *c, SnlsSite *site, CpuSpace *space, const Band *band, int64_t i)
{
    CpuQuery q = {.b = band->b, .t = band->t, .i = i};
    for (int64_t first = band->left, some = 0; first < band->right; first += some)
        for (q.head = 0; q.head < c->a.heads; q.head++) {
            q.j = first;
            some = snls_cpu_places(space, c, site, &q, band->right, true);
            add_some(c, space, band, q, first + some);
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
    const CpuRange columns = clear ? band->clear : band->divide;
    CpuQuery q = {.b = band->b, .t = band->t};
    for (int64_t x = columns.first, end; x < columns.end; x = end) {
        for (end = x + 1; end < columns.end && (clear || c->over_x[end] == c->over_x[x]);) end++;
        const float over = c->over_y[y] * c->over_x[x];
        if (!clear && (over == 0 || over == 1)) continue;
        for (q.head = 0; q.head < heads; q.head++)
            for (int64_t k = 0; k < layers; k++) scale_run(c, snls_cpu_destination(c, &q, k, y, x), end - x, floats, clear ? 0 : 1 / over);
    }
}

/* What is due before row i of queries is added: rows are cleared just before the first query that reaches them and divided
 * just after the last, when they are in cache. i = rows: all that is left. */
static void scale_rows(const CpuAggregate *c, const Band *band, int64_t i)
{
    const SnlsAggregate *a = &c->a;
    const int64_t y = i * a->stride0, before = snls_cpu_before(a), after = snls_cpu_after(a);
    const bool first = i == band->top, last = i == band->bottom, clear = c->overwrite && !c->set;
    const CpuRange cleared = {first ? band->first : y - a->stride0 + after + 1, last ? band->end : y + after + 1};
    const CpuRange divided = {first ? band->first : y - a->stride0 - before, last ? band->end : y - before};
    for (int64_t row = cleared.first > band->first ? cleared.first : band->first; clear && row < cleared.end && row < band->end; row++) scale_row(c, band, row, true);
    for (int64_t row = divided.first > band->first ? divided.first : band->first; c->divide && row < divided.end && row < band->end; row++) scale_row(c, band, row, false);
}

/* All frames of a row before the next row: what their neighbours have in common is still at hand. */
static void gather_columns(const CpuAggregate *c, Band *band)
{
    const int64_t first = band->t;
    SnlsSite site = snls_cpu_site(c, false);
    CpuSpace space = snls_cpu_space(c);
    for (int64_t i = band->top; i <= band->bottom; i++) {
        for (band->t = first; band->t < band->t_end; band->t++) {
            scale_rows(c, band, i);
            if (i < band->bottom) add_queries(c, &site, &space, band, i);
        }
        band->t = first;
    }
}

enum { ROWS = 64 }; /* of a band */

static void gather_band(const CpuAggregate *c, Band *band)
{
    const SnlsAggregate *a = &c->a;
    const int64_t before = snls_cpu_before(a), after = snls_cpu_after(a), columns = snls_cpu_columns_at_once(c);
    while (band->top < a->rows && band->top * a->stride0 + after < band->first) band->top++;
    for (band->bottom = band->top; band->bottom < a->rows && band->bottom * a->stride0 - before < band->end;) band->bottom++;
    for (band->left = 0; band->left < a->columns; band->left = band->right) {
        band->right = band->left + columns < a->columns ? band->left + columns : a->columns;
        const bool last = band->right == a->columns;
        const int64_t clear = (band->right - 1) * a->stride0 + after + 1, divide = band->right * a->stride0 - before;
        band->clear = (CpuRange){band->clear.end, last || clear > a->width ? a->width : clear};
        band->divide = (CpuRange){band->divide.end, last || divide > a->width ? a->width : divide < band->divide.end ? band->divide.end : divide};
        gather_columns(c, band);
    }
}

void snls_cpu_gather_rows(SnlsContext *ctx, const CpuAggregate *c)
{
    const SnlsAggregate *a = &c->a;
    const int64_t parts = (a->frames + CPU_FRAMES - 1) / CPU_FRAMES, planes = a->batch * parts;
    const int64_t rows = snls_cpu_band(ctx, planes, a->height, ROWS), bands = (a->height + rows - 1) / rows;
#pragma omp parallel for num_threads(ctx->threads) schedule(dynamic, 1)
    for (int64_t u = 0; u < planes * bands; u++) {
        const int64_t plane = u / bands, first = u % bands * rows, t = plane % parts * CPU_FRAMES;
        Band band = {.b = plane / parts, .t = t, .t_end = t + CPU_FRAMES < a->frames ? t + CPU_FRAMES : a->frames, .first = first,
                     .end = first + rows < a->height ? first + rows : a->height};
        gather_band(c, &band);
    }
}
