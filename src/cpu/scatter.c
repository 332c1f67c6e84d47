/* scatter.c: destinations pushed to sources: scatter_add, and the value gradients of gather and gather_add. A band of
 * source rows, in all frames, has one owner, which looks through the neighbours for taps that fall in it, in a fixed
 * order. What rows a row of queries can reach was noted before, so that most are not looked through. */
#include "cpu/aggregate.h"

typedef struct Band { int64_t b, first, end, left, right; } Band; /* source rows [first, end); columns of queries at hand */

/* ---- what a row of queries reaches ---- */

/* The rows a patch touches are no further from the row of its centre than from the centre without reflection. */
static int64_t reach_rows(const SnlsAggregate *a)
{
    const int64_t before = snls_cpu_before(a), after = snls_cpu_after(a);
    return (before > after ? before : after) + 1;
}

/* The least and the greatest of some numbers; strange: one of them is none. */
typedef struct Span {
    float low, high;
    bool strange;
} Span;

static Span span_add(Span s, float x) { return (Span){x < s.low ? x : s.low, x > s.high ? x : s.high, s.strange | (x != x)}; }

/* dy of neighbours whose offsets lie side by side. Twelve floats are four neighbours: fewer instructions for all three numbers than for one of them. */
static Span span_side_by_side(Span s, const float *offset, int64_t neighbours)
{
    enum { LANES = 12 };
    float low[LANES], high[LANES];
    int strange[LANES] = {0};
    int64_t n = 0;
    for (int l = 0; l < LANES; l++) low[l] = s.low, high[l] = s.high;
    for (; n + 4 <= neighbours; n += 4, offset += LANES)
        for (int l = 0; l < LANES; l++) {
            const float x = offset[l];
            low[l] = x < low[l] ? x : low[l];
            high[l] = x > high[l] ? x : high[l];
            strange[l] |= x != x;
        }
    for (int l = 1; l < LANES; l += 3) {
        s = span_add(span_add(s, low[l]), high[l]);
        s.strange |= strange[l] != 0;
    }
    for (; n < neighbours; n++, offset += 3) s = span_add(s, offset[1]);
    return s;
}

static Span span_of_row(const SnlsAggregate *a, CpuQuery q)
{
    const int64_t *step = a->offset.stride, neighbours = a->neighbours;
    const bool whole = step[6] == 1 && step[5] == 3 && step[4] == 3 * neighbours;
    Span s = {INFINITY, -INFINITY, false};
    for (q.head = 0; q.head < a->heads; q.head++) {
        if (whole) s = span_side_by_side(s, snls_cpu_offset(a, &q, 0), a->columns * neighbours);
        for (q.j = 0; !whole && q.j < a->columns; q.j++)
            for (int64_t k = 0; k < neighbours; k++) s = span_add(s, snls_cpu_offset(a, &q, k)[step[6]]);
        q.j = 0;
    }
    return s;
}

/* Rows between these, reflected once at either border; all of them where that is not enough. */
static CpuReach reach_of(const SnlsAggregate *a, double low, double high)
{
    const double last = (double)(a->height - 1);
    const int64_t more = reach_rows(a) + 1; /* one more, for rounding */
    if (!(low >= -last && low <= high && high <= 2 * last)) return (CpuReach){0, a->height - 1, false};
    double first = low < 0 ? 0 : low, end = high > last ? last : high;
    if (low < 0 && -low > end) end = -low;
    if (high > last && 2 * last - high < first) first = 2 * last - high;
    return (CpuReach){(int64_t)first - more, (int64_t)end + more, true};
}

void snls_cpu_reach(SnlsContext *ctx, const CpuAggregate *c, CpuReach *reach)
{
    const SnlsAggregate *a = &c->a;
    const int64_t rows = a->batch * a->frames * a->rows;
#pragma omp parallel for num_threads(ctx->threads) schedule(static)
    for (int64_t u = 0; u < rows; u++) {
        const CpuQuery q = {.b = u / a->rows / a->frames, .t = u / a->rows % a->frames, .i = u % a->rows};
        const Span s = span_of_row(a, q);
        const double y = (double)(q.i * a->stride0);
        reach[u] = s.strange ? (CpuReach){0, a->height - 1, false} : reach_of(a, y + s.low, y + s.high);
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

static void push_pixel_by_pixel(const CpuAggregate *c, const CpuSpace *space, const Band *band, const CpuQuery *q, int64_t k, const SnlsNeighbour *n, float weight)
{
    const SnlsAggregate *a = &c->a;
    snls_cpu_axes(space, c, n);
    for (int64_t r = 0; r < a->ps; r++)
        for (int64_t s = 0; s < a->ps; s++) {
            const int64_t y = snls_cpu_y(a, q, r), x = snls_cpu_x(a, q, s);
            const CpuAxis *at_y = &space->axis_y[r], *at_x = &space->axis_x[s];
            if (y < 0 || y >= a->height || x < 0 || x >= a->width || at_y->dropped || at_x->dropped) continue;
            push_taps(c, band, q, n, &at_y->taps, &at_x->taps, weight / (c->over_y[y] * c->over_x[x]), snls_cpu_sent_pixel(c, q, k, y, x));
        }
}

/* Taps of one pixel that have a weight and lie in the band: all at once where they are four. Rows and columns from r and s on. */
static void push_bent_pixel(const CpuAggregate *c, const CpuSpace *space, const Band *band, int64_t r, int64_t s, const CpuBend *bend, float factor, const float *from)
{
    float *tap[4], w[4];
    int taps = 0;
    for (int m = 0; m < 4; m++) {
        const int64_t i = r + (m >> 1), row = space->bent_number[i];
        if (bend->y[m >> 1] == 0 || bend->x[m & 1] == 0 || row < band->first || row >= band->end) continue;
        tap[taps] = c->source.data + (space->bent_row[i] - c->source.data) + space->bent_column[s + (m & 1)];
        w[taps++] = factor * (float)(bend->y[m >> 1] * bend->x[m & 1]);
    }
    if (taps == 4) c->dsp->unblend(tap, w, 4, from, c->channels);
    for (int m = 0; taps < 4 && m < taps; m++) c->dsp->axpy(tap[m], w[m], from, c->channels);
}

static void push_bent(const CpuAggregate *c, const CpuSpace *space, const Band *band, const CpuQuery *q, int64_t k, const CpuBend *bend, float weight)
{
    const SnlsAggregate *a = &c->a;
    for (int64_t r = 0; r < a->ps; r++)
        for (int64_t s = 0; s < a->ps; s++) {
            const int64_t y = snls_cpu_y(a, q, r), x = snls_cpu_x(a, q, s);
            if (y < 0 || y >= a->height || x < 0 || x >= a->width) continue;
            push_bent_pixel(c, space, band, r, s, bend, weight / (c->over_y[y] * c->over_x[x]), snls_cpu_sent_pixel(c, q, k, y, x));
        }
}

static void push_outside(const CpuAggregate *c, const CpuSpace *space, const Band *band, const CpuQuery *q, int64_t k)
{
    const SnlsNeighbour n = snls_cpu_neighbour(&c->a, q, k);
    const float weight = snls_cpu_weight(&c->a, q, k);
    if (!n.valid) return;
    if (snls_cpu_bends(&c->a)) {
        const CpuBend bend = snls_cpu_bend(space, c, q, &n);
        push_bent(c, space, band, q, k, &bend, weight);
    } else push_pixel_by_pixel(c, space, band, q, k, &n, weight);
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
            c->dsp->spread_patch(p->corner + a->dilation * (r * p->grid.down + s * p->grid.right), w, snls_cpu_sent_pixel(c, q, p->k, y, x), &pixel,
                                 band->first - row, band->end - row, &p->grid);
        }
}

static void push_patch(const CpuAggregate *c, const Band *band, const CpuQuery *q, const Pushed *p)
{
    const SnlsAggregate *a = &c->a;
    const int64_t y = snls_cpu_y(a, q, 0), x = snls_cpu_x(a, q, 0);
    const CpuRange r = snls_cpu_range(y, a->ps, a->height), s = snls_cpu_range(x, a->ps, a->width);
    const SnlsPatch patch = snls_cpu_sent(c, r.end - r.first, s.end - s.first);
    const int64_t top = p->top + r.first;
    c->dsp->spread_patch(p->corner + r.first * p->grid.down + s.first * p->grid.right, p->w, snls_cpu_sent_pixel(c, q, p->k, y + r.first, x + s.first), &patch,
                         band->first - top, band->end - top, &p->grid);
}

/* ---- one band ---- */

/* What a query sends: its patch, if it lies in the frame and has one divisor. */
typedef struct Sent {
    const float *g;
    SnlsPatch patch;
    float factor;
} Sent;

static bool is_sent_whole(const CpuAggregate *c, const CpuQuery *q, Sent *sent)
{
    float divisor;
    if (!snls_cpu_even_run(c, q, q->j + 1, &divisor)) return false;
    sent->g = snls_cpu_sent_pixel(c, q, 0, snls_cpu_y(&c->a, q, 0), snls_cpu_x(&c->a, q, 0));
    sent->patch = snls_cpu_sent(c, c->a.ps, c->a.ps);
    sent->factor = 1 / divisor;
    return true;
}

/* From neighbour n on, those of one shape whose patches lie wholly in the band: pushed in one call. Returns how many. */
static int64_t push_at_once(const CpuAggregate *c, const CpuSpace *space, const Band *band, const Sent *sent, int64_t n, int64_t end)
{
    const int shape = space->shape[n];
    const int64_t first = n, *row = space->all.row, top = band->first + snls_cpu_before(&c->a), bottom = band->end - snls_cpu_after(&c->a) - (shape >> 1);
    const SnlsGrid grid = snls_cpu_grid(c, shape);
    while (n < end && space->shape[n] == shape && row[n] >= top && row[n] < bottom) n++;
    if (n > first) c->dsp->spread_places(&space->all, first, n - first, sent->factor, 0, sent->g, &sent->patch, &grid);
    return n - first;
}

static void push_neighbour(const CpuAggregate *c, const CpuSpace *space, const Band *band, const CpuQuery *q, int64_t k, int64_t n)
{
    const SnlsAggregate *a = &c->a;
    const int64_t before = snls_cpu_before(a), rows = before + snls_cpu_after(a) + 2;
    Pushed p = {.k = k, .top = space->all.row[n] - before, .grid = snls_cpu_grid(c, space->shape[n])};
    float divisor;
    if (p.top + rows <= band->first || p.top >= band->end) return;
    const bool even = snls_cpu_even(c, q, &divisor);
    const float factor = even ? 1 / divisor : 1;
    p.corner = c->source.data + (space->all.at[n] - c->source.data);
    for (int m = 0; m < 4; m++) p.w[m] = factor * space->all.w[m][n];
    if (even) push_patch(c, band, q, &p);
    else push_pixels(c, band, q, &p);
}

/* Order: neighbour after neighbour, whatever is pushed at once. */
static void push_query(const CpuAggregate *c, const CpuSpace *space, const Band *band, const CpuQuery *q)
{
    const int64_t neighbours = c->a.neighbours, start = (q->j - space->first) * neighbours;
    Sent sent;
    const bool whole = is_sent_whole(c, q, &sent);
    for (int64_t k = 0; k < neighbours; k++) {
        if (whole && space->shape[start + k] != CPU_OUTSIDE) k += push_at_once(c, space, band, &sent, start + k, start + neighbours);
        if (k == neighbours) break;
        if (space->shape[start + k] == CPU_OUTSIDE) push_outside(c, space, band, q, k);
        else push_neighbour(c, space, band, q, k, start + k);
    }
}

/* All places in a band: nothing to look at. */
static void push_run(const CpuAggregate *c, const CpuSpace *space, const CpuQuery *q, int64_t end, const Sent *sent)
{
    const int64_t neighbours = c->a.neighbours, first = (q->j - space->first) * neighbours, count = (end - q->j) * neighbours;
    const int64_t step = c->a.stride0 * sent->patch.right;
    const SnlsGrid grid = snls_cpu_grid(c, space->shape[first]);
    const float *g = sent->g;
    for (int64_t n = 0; n < count; n += neighbours, g += step) c->dsp->spread_places(&space->all, first + n, neighbours, sent->factor, 0, g, &sent->patch, &grid);
}

/* all: every place lies in the band. */
static void push_some(const CpuAggregate *c, const CpuSpace *space, const Band *band, CpuQuery q, int64_t end, bool all)
{
    while (q.j < end) {
        const int64_t last = all ? snls_cpu_end_of_run(c, space, &q, end) : q.j;
        float divisor;
        Sent sent;
        if (last > q.j && snls_cpu_even_run(c, &q, last, &divisor) && is_sent_whole(c, &q, &sent)) {
            push_run(c, space, &q, last, &sent);
            q.j = last;
        } else {
            push_query(c, space, band, &q);
            q.j++;
        }
    }
}

static void push_row(const CpuAggregate *c, SnlsSite *site, CpuSpace *space, const Band *band, CpuQuery *q, bool all)
{
    for (int64_t first = band->left, some = 0; first < band->right; first += some)
        for (q->head = 0; q->head < c->a.heads; q->head++) {
            q->j = first;
            some = snls_cpu_places(space, c, site, q, band->right, true);
            push_some(c, space, band, *q, first + some, all);
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
            const bool all = e->plain && (e->first >= band->first || band->first == 0) && (e->last < band->end || band->end == a->height);
            if (e->last >= band->first && e->first < band->end) push_row(c, &site, &space, band, &q, all);
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

/* Rows of a band: what crosses from one to the next is looked at twice, so as few bands as let threads share them. */
static int64_t rows_of_band(const SnlsContext *ctx, const SnlsAggregate *a)
{
    const int64_t bands = ctx->threads > 1 && a->batch < 3 * ctx->threads ? 3 * ctx->threads / (a->batch > 0 ? a->batch : 1) : 1, rows = (a->height + bands - 1) / bands;
    return rows < 2 ? 2 : rows;
}

void snls_cpu_scatter_bands(SnlsContext *ctx, const CpuAggregate *c, const CpuReach *reach)
{
    const SnlsAggregate *a = &c->a;
    const int64_t rows = rows_of_band(ctx, a), bands = (a->height + rows - 1) / rows;
#pragma omp parallel for num_threads(ctx->threads) schedule(dynamic, 1)
    for (int64_t u = 0; u < a->batch * bands; u++) {
        const int64_t first = u % bands * rows;
        Band band = {.b = u / bands, .first = first, .end = first + rows < a->height ? first + rows : a->height};
        push_band(c, &band, reach);
    }
}
