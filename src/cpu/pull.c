/* pull.c: gradients of weights and offsets, owned by the query: with r = what is read at the source and d = what stands
 * at the destination, L = w*d*r, so dw = <d, r> and d place = w * <d, slope of r>. Both come from <d, tap> for the four
 * taps of a bilinear read, which a whole patch has in common where it lies inside its frame. */
#include "cpu/aggregate.h"

typedef struct Pull { double weight, y, x; } Pull;

/* What is wanted; what a thread works in. */
typedef struct Wanted {
    const SnlsTensor *weight, *offset;
    SnlsSite site;
    CpuSpace space;
    CpuLists lists;
} Wanted;

/* along[i][j] = <d, tap>; ty, tx: weights along the axes. What a weight of 0 belongs to was perhaps not read. */
static void add_along(Pull *pull, double along[2][2], const double ty[2], const double tx[2], double slope_y, double slope_x)
{
    double value = 0, dy = 0, dx = 0;
    for (int i = 0; i < 2; i++) {
        for (int j = 0; j < 2; j++)
            if (ty[i] != 0 && tx[j] != 0) value += ty[i] * tx[j] * along[i][j];
        if (tx[i] != 0) dy += tx[i] * (along[1][i] - along[0][i]);
        if (ty[i] != 0) dx += ty[i] * (along[i][1] - along[i][0]);
    }
    pull->weight += value;
    pull->y += slope_y * dy;
    pull->x += slope_x * dx;
}

/* ---- neighbours not inside: pixel by pixel ---- */

static void pull_pixel(const CpuAggregate *c, const CpuQuery *q, const SnlsNeighbour *n, const CpuAxis *y, const CpuAxis *x, const float *from,
                       double factor, Pull *pull)
{
    const SnlsTaps *ty = &y->taps, *tx = &x->taps;
    double along[2][2] = {{0, 0}, {0, 0}};
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++) {
            if (ty->weight[i] == 0 && tx->weight[j] == 0) continue; /* counts for nothing */
            const float *tap = snls_cpu_pixel(&c->source, q->b, n->frame, ty->at[i], tx->at[j]) + q->head * c->channels;
            along[i][j] = factor * c->dsp->dot(from, tap, c->channels);
        }
    add_along(pull, along, ty->weight, tx->weight, y->slope, x->slope);
}

/* Reflected pixel by pixel, the four products of the patch are still sums over it: slopes are those of the place, as if rows and columns went on beyond the border. */
static Pull pull_bent(const CpuAggregate *c, const CpuSpace *space, const CpuQuery *q, int64_t k, const CpuBend *bend)
{
    const SnlsAggregate *a = &c->a;
    Pull pull = {0, 0, 0};
    double along[2][2] = {{0, 0}, {0, 0}};
    for (int64_t r = 0; r < a->ps; r++)
        for (int64_t s = 0; s < a->ps; s++) {
            const int64_t y = snls_cpu_y(a, q, r), x = snls_cpu_x(a, q, s);
            if (y < 0 || y >= a->height || x < 0 || x >= a->width) continue;
            const double factor = 1 / ((double)c->over_y[y] * c->over_x[x]);
            const float *tap[4];
            float some[4];
            for (int m = 0; m < 4; m++) tap[m] = space->bent_row[r + (m >> 1)] + space->bent_column[s + (m & 1)];
            c->dsp->dots(some, snls_cpu_sent_pixel(c, q, k, y, x), tap, c->channels);
            for (int m = 0; m < 4; m++) along[m >> 1][m & 1] += factor * some[m];
        }
    add_along(&pull, along, bend->y, bend->x, 1, 1);
    return pull;
}

static Pull pull_pixels(const CpuAggregate *c, const CpuSpace *space, const CpuQuery *q, int64_t k, const SnlsNeighbour *n)
{
    const SnlsAggregate *a = &c->a;
    Pull pull = {0, 0, 0};
    snls_cpu_axes(space, c, n);
    for (int64_t r = 0; r < a->ps; r++)
        for (int64_t s = 0; s < a->ps; s++) {
            const int64_t y = snls_cpu_y(a, q, r), x = snls_cpu_x(a, q, s);
            const CpuAxis *at_y = &space->axis_y[r], *at_x = &space->axis_x[s];
            if (y < 0 || y >= a->height || x < 0 || x >= a->width || at_y->dropped || at_x->dropped) continue;
            pull_pixel(c, q, n, at_y, at_x, snls_cpu_sent_pixel(c, q, k, y, x), 1 / ((double)c->over_y[y] * c->over_x[x]), &pull);
        }
    return pull;
}

/* At whole rows and columns slopes are those of the page, one pixel on in the frame, and not one on as if it went on. */
static Pull pull_outside(const CpuAggregate *c, const CpuSpace *space, const CpuQuery *q, int64_t k, const SnlsNeighbour *n)
{
    CpuBend bend = {{0, 0}, {0, 0}};
    if (snls_cpu_bends(&c->a)) bend = snls_cpu_bend(space, c, q, n);
    const bool between = bend.y[1] != 0 && bend.x[1] != 0;
    Pull pull = between ? pull_bent(c, space, q, k, &bend) : pull_pixels(c, space, q, k, n);
    pull.y *= n->slope_y;
    pull.x *= n->slope_x;
    return pull;
}

/* ---- neighbours inside ---- */

/* Slopes need all four taps. */
static SnlsGrid grid_of(const CpuAggregate *c, const Wanted *w, int shape) { return snls_cpu_grid(c, w->offset->data ? 3 : shape); }

/* The four sums of every neighbour of a list, divided. */
static void dot_even(const CpuAggregate *c, const CpuQuery *q, Wanted *w, int shape, float divisor)
{
    const SnlsAggregate *a = &c->a;
    const SnlsGrid grid = grid_of(c, w, shape);
    const int64_t y = snls_cpu_y(a, q, 0), x = snls_cpu_x(a, q, 0), count = w->lists.count[shape];
    const CpuRange r = snls_cpu_range(y, a->ps, a->height), s = snls_cpu_range(x, a->ps, a->width);
    const SnlsPatch patch = snls_cpu_sent(c, r.end - r.first, s.end - s.first);
    const float *g = snls_cpu_sent_pixel(c, q, 0, y + r.first, x + s.first);
    const int64_t shift = r.first * grid.down + s.first * grid.right;
    const SnlsPlaces *all = w->lists.of[shape], from = {.at = all->at + w->lists.start[shape], .k = all->k + w->lists.start[shape]};
    c->dsp->dot_patch(w->space.sums, &from, count, shift, g, &patch, &grid);
    if (divisor != 1) c->dsp->scale(w->space.sums, 1 / divisor, 4 * count);
}

static void dot_pixels(const CpuAggregate *c, const CpuQuery *q, Wanted *w, int shape)
{
    const SnlsAggregate *a = &c->a;
    const SnlsGrid grid = grid_of(c, w, shape);
    const SnlsPatch pixel = {0, 0, 1, 1, 0};
    for (int64_t n = 0; n < w->lists.count[shape]; n++) {
        float *const sums = w->space.sums + 4 * n;
        const SnlsPlaces *all = w->lists.of[shape], place = {.at = all->at + w->lists.start[shape] + n, .k = all->k + w->lists.start[shape] + n};
        sums[0] = sums[1] = sums[2] = sums[3] = 0;
        for (int64_t r = 0; r < a->ps; r++)
            for (int64_t s = 0; s < a->ps; s++) {
                const int64_t y = snls_cpu_y(a, q, r), x = snls_cpu_x(a, q, s);
                if (y < 0 || y >= a->height || x < 0 || x >= a->width) continue;
                const float *g = snls_cpu_sent_pixel(c, q, *place.k, y, x);
                float some[4];
                c->dsp->dot_patch(some, &place, 1, a->dilation * (r * grid.down + s * grid.right), g, &pixel, &grid);
                c->dsp->axpy(sums, 1 / (c->over_y[y] * c->over_x[x]), some, 4);
            }
    }
}

/* ---- queries ---- */

/* Where the numbers of a query are. */
typedef struct Targets {
    float *weight, *offset; /* NULL: not wanted */
    const float *factor;    /* its weights */
    int64_t weight_k, offset_k, offset_axis, factor_k;
} Targets;

static Targets targets_of(const CpuAggregate *c, const CpuQuery *q, const Wanted *w)
{
    const SnlsTensor *weight = w->weight, *offset = w->offset, *factor = &c->a.weight;
    Targets t = {.factor = (const float *)factor->data + snls_at5(factor, q->b, q->head, q->t, q->i, q->j), .factor_k = factor->stride[5]};
    if (weight->data) t.weight = (float *)weight->data + snls_at5(weight, q->b, q->head, q->t, q->i, q->j), t.weight_k = weight->stride[5];
    if (!offset->data) return t;
    t.offset = (float *)offset->data + snls_at5(offset, q->b, q->head, q->t, q->i, q->j);
    t.offset_k = offset->stride[5], t.offset_axis = offset->stride[6];
    return t;
}

static inline void add_pull(const Targets *t, int64_t k, float weight, float y, float x)
{
    if (t->weight) t->weight[k * t->weight_k] += weight;
    if (!t->offset) return;
    float *to = t->offset + k * t->offset_k;
    const float factor = t->factor[k * t->factor_k];
    to[t->offset_axis] += factor * y;
    to[2 * t->offset_axis] += factor * x;
}

/* A query of which one factor does not hold for all neighbours, or they differ in shape. */
static void pull_query(const CpuAggregate *c, const CpuQuery *q, Wanted *w)
{
    float divisor, *const *const pulled = w->space.pulled;
    const bool even = snls_cpu_even(c, q, &divisor);
    const CpuLists *l = &w->lists;
    const Targets targets = targets_of(c, q, w);
    snls_cpu_lists(&w->lists, &w->space, c, q);
    for (int shape = 0; shape < CPU_SHAPES; shape++) {
        if (!l->count[shape]) continue;
        if (even) dot_even(c, q, w, shape, divisor);
        else dot_pixels(c, q, w, shape);
        c->dsp->slopes(pulled[0], pulled[1], pulled[2], w->space.sums, l->of[shape], l->start[shape], l->count[shape]);
        for (int64_t n = 0; n < l->count[shape]; n++) add_pull(&targets, l->of[shape]->k[l->start[shape] + n], pulled[0][n], pulled[1][n], pulled[2][n]);
    }
    for (int64_t n = 0; n < l->count[CPU_OUTSIDE]; n++) {
        const int64_t k = l->of[CPU_OUTSIDE]->k[n];
        const SnlsNeighbour place = snls_cpu_neighbour(&c->a, q, k);
        if (!place.valid) continue;
        const Pull pull = pull_outside(c, &w->space, q, k, &place);
        add_pull(&targets, k, (float)pull.weight, (float)pull.y, (float)pull.x);
    }
}

/* Queries from q on, before `end`, whose neighbours all have one shape and whose patches one divisor. */
static void pull_run(const CpuAggregate *c, CpuQuery q, int64_t end, Wanted *w, float divisor)
{
    const SnlsAggregate *a = &c->a;
    const int64_t neighbours = a->neighbours, first = (q.j - w->space.first) * neighbours, count = (end - q.j) * neighbours;
    const SnlsGrid grid = grid_of(c, w, w->space.shape[first]);
    const SnlsPatch patch = snls_cpu_sent(c, a->ps, a->ps);
    const float *g = snls_cpu_sent_pixel(c, &q, 0, snls_cpu_y(a, &q, 0), snls_cpu_x(a, &q, 0));
    const float *value = w->space.pulled[0], *y = w->space.pulled[1], *x = w->space.pulled[2];
    for (int64_t n = 0; n < count; n += neighbours, g += a->stride0 * patch.right) {
        const SnlsPlaces from = {.at = w->space.all.at + first + n, .k = w->space.all.k + first + n};
        c->dsp->dot_patch(w->space.sums + 4 * n, &from, neighbours, 0, g, &patch, &grid);
    }
    if (divisor != 1) c->dsp->scale(w->space.sums, 1 / divisor, 4 * count);
    c->dsp->slopes(w->space.pulled[0], w->space.pulled[1], w->space.pulled[2], w->space.sums, &w->space.all, first, count);
    for (; q.j < end; q.j++, value += neighbours, y += neighbours, x += neighbours) {
        const Targets targets = targets_of(c, &q, w);
        for (int64_t k = 0; k < neighbours; k++) add_pull(&targets, k, value[k], y[k], x[k]);
    }
}

static void pull_some(const CpuAggregate *c, CpuQuery q, int64_t end, Wanted *w)
{
    while (q.j < end) {
        const int64_t last = snls_cpu_end_of_run(c, &w->space, &q, end);
        float divisor;
        if (last > q.j && snls_cpu_even_run(c, &q, last, &divisor)) {
            pull_run(c, q, last, w, divisor);
            q.j = last;
        } else {
            pull_query(c, &q, w);
            q.j++;
        }
    }
}

/* Columns [left, right) of a row of queries. */
static void pull_row(const CpuAggregate *c, CpuQuery q, int64_t left, int64_t right, Wanted *w)
{
    for (int64_t first = left, some = 0; first < right; first += some)
        for (q.head = 0; q.head < c->a.heads; q.head++) {
            q.j = first;
            some = snls_cpu_places(&w->space, c, &w->site, &q, right, false);
            pull_some(c, q, first + some, w);
        }
}

/* All frames of a row before the next row, some columns at a time: what their neighbours have in common is still at hand. */
static void pull_band(const CpuAggregate *c, int64_t b, CpuRange rows, Wanted *w)
{
    const int64_t columns = snls_cpu_columns_at_once(c);
    CpuQuery q = {.b = b};
    for (int64_t left = 0; left < c->a.columns; left += columns)
        for (q.i = rows.first; q.i < rows.end; q.i++)
            for (q.t = 0; q.t < c->a.frames; q.t++) pull_row(c, q, left, left + columns < c->a.columns ? left + columns : c->a.columns, w);
}

void snls_cpu_pull_weights(SnlsContext *ctx, const CpuAggregate *c, const SnlsTensor *weight, const SnlsTensor *offset)
{
    const SnlsAggregate *a = &c->a;
    if (!weight->data && !offset->data) return;
    const int64_t rows = snls_cpu_band(ctx, a->batch, a->rows, 64), bands = (a->rows + rows - 1) / rows;
#pragma omp parallel for num_threads(ctx->threads) schedule(dynamic, 1)
    for (int64_t u = 0; u < a->batch * bands; u++) {
        Wanted w = {.weight = weight, .offset = offset, .site = snls_cpu_site(c, offset->data != NULL), .space = snls_cpu_space(c)};
        const int64_t first = u % bands * rows;
        pull_band(c, u / bands, (CpuRange){first, first + rows < a->rows ? first + rows : a->rows}, &w);
    }
}
