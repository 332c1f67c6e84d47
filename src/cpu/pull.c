/* pull.c: gradients of weights and offsets, owned by the query: with r = what is read at the source and d = what stands
 * at the destination, L = w*d*r, so dw = <d, r> and d place = w * <d, slope of r>. Both come from <d, tap> for the four
 * taps of a bilinear read, which a whole patch has in common where it lies inside its frame. */
#include "cpu/aggregate.h"

typedef struct Pull { double weight, y, x; } Pull;

/* What is wanted; what a thread works in. */
typedef struct Wanted {
    const SnlsTensor *weight, *offset;
    CpuInside in;
    SnlsTap *tap[CPU_LISTS];
    int64_t count[CPU_LISTS];
    float *sums;
} Wanted;

static const float one = 1;

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

static void pull_pixel(const CpuAggregate *c, const CpuQuery *q, const SnlsNeighbour *n, double u, double v, const float *from, double factor, Pull *pull)
{
    const SnlsAggregate *a = &c->a;
    const SnlsTaps ty = snls_taps(snls_reflect_real(u, a->height), a->height), tx = snls_taps(snls_reflect_real(v, a->width), a->width);
    double along[2][2] = {{0, 0}, {0, 0}};
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++) {
            if (ty.weight[i] == 0 && tx.weight[j] == 0) continue; /* counts for nothing */
            const float *tap = snls_cpu_pixel(&c->source, q->b, n->frame, ty.at[i], tx.at[j]) + q->head * c->channels;
            along[i][j] = factor * c->dsp->dot(from, tap, c->channels);
        }
    add_along(pull, along, ty.weight, tx.weight, snls_reflect_slope(u, a->height), snls_reflect_slope(v, a->width));
}

static Pull pull_outside(const CpuAggregate *c, const CpuQuery *q, int64_t k, const SnlsNeighbour *n)
{
    const SnlsAggregate *a = &c->a;
    Pull pull = {0, 0, 0};
    for (int64_t r = 0; r < a->ps; r++)
        for (int64_t s = 0; s < a->ps; s++) {
            const int64_t y = snls_cpu_y(a, q, r), x = snls_cpu_x(a, q, s);
            const double u = n->y + (double)(a->dilation * (r - a->ps / 2)), v = n->x + (double)(a->dilation * (s - a->ps / 2));
            if (y < 0 || y >= a->height || x < 0 || x >= a->width) continue;
            if (a->drop && !(snls_inside(u, a->height) && snls_inside(v, a->width))) continue;
            const float *from = c->destination.data ? snls_cpu_destination(c, q, k, y, x) : &one;
            pull_pixel(c, q, n, u, v, from, 1 / ((double)c->over_y[y] * c->over_x[x]), &pull);
        }
    pull.y *= n->slope_y;
    pull.x *= n->slope_x;
    return pull;
}

/* ---- neighbours inside ---- */

/* By shape; all have the full shape where slopes are wanted. tap.w: weights along y, then along x. */
static void list_neighbours(const CpuAggregate *c, const CpuQuery *q, Wanted *w)
{
    const SnlsAggregate *a = &c->a;
    const double t = (double)q->t, y = (double)(q->i * a->stride0), x = (double)(q->j * a->stride0);
    const int64_t base = q->b * c->source.step[0] + q->head * c->channels - snls_cpu_before(a) * (w->in.step_y + w->in.step_x);
    const float *o = snls_cpu_offset(a, q, 0);
    for (int i = 0; i < CPU_LISTS; i++) w->count[i] = 0;
    for (int64_t k = 0; k < a->neighbours; k++, o += a->offset.stride[5]) {
        CpuSpot spot;
        const bool inside = snls_cpu_spot(&spot, &w->in, o, a->offset.stride[6], t, y, x);
        const int list = !inside ? CPU_SHAPES : w->offset->data ? 3 : snls_cpu_spot_shape(&spot);
        SnlsTap *tap = w->tap[list] + w->count[list]++;
        tap->k = k;
        if (!inside) continue;
        tap->at = c->source.data + (base + spot.at);
        tap->w[0] = (float)(1 - spot.fy), tap->w[1] = (float)spot.fy;
        tap->w[2] = (float)(1 - spot.fx), tap->w[3] = (float)spot.fx;
    }
}

/* The four sums of every neighbour of a list, divided. */
static void dot_even(const CpuAggregate *c, const CpuQuery *q, Wanted *w, int shape, float divisor)
{
    const SnlsAggregate *a = &c->a;
    const SnlsGrid grid = snls_cpu_grid(c, shape);
    const int64_t y = snls_cpu_y(a, q, 0), x = snls_cpu_x(a, q, 0), count = w->count[shape];
    const CpuRange r = snls_cpu_range(y, a->ps, a->height), s = snls_cpu_range(x, a->ps, a->width);
    SnlsPatch patch = {0, 0, r.end - r.first, s.end - s.first, 0};
    const float *g = &one;
    if (c->destination.data) {
        g = snls_cpu_destination(c, q, 0, y + r.first, x + s.first);
        patch.right = snls_cpu_step_x(c), patch.down = snls_cpu_step_y(c), patch.of_k = snls_cpu_step_k(c);
    }
    const int64_t shift = r.first * grid.down + s.first * grid.right;
    for (int64_t n = 0; shift && n < count; n++) w->tap[shape][n].at += shift;
    c->dsp->dot_patch(w->sums, w->tap[shape], count, g, &patch, &grid);
    if (divisor != 1) c->dsp->scale(w->sums, 1 / divisor, 4 * count);
}

static void dot_pixels(const CpuAggregate *c, const CpuQuery *q, Wanted *w, int shape)
{
    const SnlsAggregate *a = &c->a;
    const SnlsGrid grid = snls_cpu_grid(c, shape);
    const SnlsPatch pixel = {0, 0, 1, 1, 0};
    for (int64_t n = 0; n < w->count[shape]; n++) {
        float *const sums = w->sums + 4 * n;
        sums[0] = sums[1] = sums[2] = sums[3] = 0;
        for (int64_t r = 0; r < a->ps; r++)
            for (int64_t s = 0; s < a->ps; s++) {
                const int64_t y = snls_cpu_y(a, q, r), x = snls_cpu_x(a, q, s);
                if (y < 0 || y >= a->height || x < 0 || x >= a->width) continue;
                SnlsTap tap = w->tap[shape][n];
                float some[4];
                tap.at += a->dilation * (r * grid.down + s * grid.right);
                c->dsp->dot_patch(some, &tap, 1, c->destination.data ? snls_cpu_destination(c, q, tap.k, y, x) : &one, &pixel, &grid);
                c->dsp->axpy(sums, 1 / (c->over_y[y] * c->over_x[x]), some, 4);
            }
    }
}

static Pull pull_of_sums(const float sums[4], const float w[4])
{
    double along[2][2] = {{sums[0], sums[1]}, {sums[2], sums[3]}};
    const double ty[2] = {w[0], w[1]}, tx[2] = {w[2], w[3]};
    Pull pull = {0, 0, 0};
    add_along(&pull, along, ty, tx, 1, 1);
    return pull;
}

/* ---- queries ---- */

static void add_pull(const CpuAggregate *c, const CpuQuery *q, const Wanted *w, int64_t k, const Pull *pull)
{
    const SnlsTensor *weight = w->weight, *offset = w->offset;
    if (weight->data) ((float *)weight->data)[snls_at6(weight, q->b, q->head, q->t, q->i, q->j, k)] += (float)pull->weight;
    if (!offset->data) return;
    float *to = (float *)offset->data + snls_at6(offset, q->b, q->head, q->t, q->i, q->j, k);
    const double factor = snls_cpu_weight(&c->a, q, k);
    to[offset->stride[6]] += (float)(factor * pull->y);
    to[2 * offset->stride[6]] += (float)(factor * pull->x);
}

static void pull_query(const CpuAggregate *c, const CpuQuery *q, Wanted *w)
{
    float divisor;
    const bool even = snls_cpu_even(c, q, &divisor);
    list_neighbours(c, q, w);
    for (int shape = 0; shape < CPU_SHAPES; shape++) {
        if (!w->count[shape]) continue;
        if (even) dot_even(c, q, w, shape, divisor);
        else dot_pixels(c, q, w, shape);
        for (int64_t n = 0; n < w->count[shape]; n++) {
            const Pull pull = pull_of_sums(w->sums + 4 * n, w->tap[shape][n].w);
            add_pull(c, q, w, w->tap[shape][n].k, &pull);
        }
    }
    for (int64_t n = 0; n < w->count[CPU_SHAPES]; n++) {
        const int64_t k = w->tap[CPU_SHAPES][n].k;
        const SnlsNeighbour place = snls_cpu_neighbour(&c->a, q, k);
        if (!place.valid) continue;
        const Pull pull = pull_outside(c, q, k, &place);
        add_pull(c, q, w, k, &pull);
    }
}

void snls_cpu_pull_weights(SnlsContext *ctx, const CpuAggregate *c, const SnlsTensor *weight, const SnlsTensor *offset)
{
    const SnlsAggregate *a = &c->a;
    if (!weight->data && !offset->data) return;
    const CpuInside in = snls_cpu_inside(c, offset->data != NULL);
    const int64_t rows = a->batch * a->frames * a->rows;
#pragma omp parallel for num_threads(ctx->threads) schedule(dynamic, 4)
    for (int64_t u = 0; u < rows; u++) {
        Wanted w = {.weight = weight, .offset = offset, .in = in, .sums = c->sums + 4 * snls_cpu_thread() * a->neighbours};
        for (int i = 0; i < CPU_LISTS; i++) w.tap[i] = c->taps + (snls_cpu_thread() * CPU_LISTS + i) * a->neighbours;
        CpuQuery q = {.b = u / a->rows / a->frames, .t = u / a->rows % a->frames, .i = u % a->rows};
        for (q.j = 0; q.j < a->columns; q.j++)
            for (q.head = 0; q.head < a->heads; q.head++) pull_query(c, &q, &w);
    }
}
