/* places.c: where the neighbours of a query are, as lists of equal shape. */
#include "cpu/aggregate.h"

/* Bytes a neighbour: at, k, row and four weights for each list and for all; x; offset, weight, sums, pulled; shape. */
enum { LIST_BYTES = 3 * sizeof(int64_t) + 4 * sizeof(float), NEIGHBOUR_BYTES = (CPU_LISTS + 1) * LIST_BYTES + 8 + 11 * sizeof(float) + 8 };

enum { TOGETHER = 192 }; /* neighbours: enough to fill registers, few enough for the first-level cache */

/* Eights of queries have eights of neighbours, however many. */
static int64_t queries_of(int64_t neighbours)
{
    const int64_t queries = neighbours > 0 && neighbours < TOGETHER ? TOGETHER / neighbours : 1;
    return queries > 8 ? queries / 8 * 8 : queries;
}

static int64_t padded(int64_t neighbours) { return (neighbours * queries_of(neighbours) + 15) / 16 * 16; }

enum { CACHE = 1 << 18 }; /* floats */

int64_t snls_cpu_columns_at_once(const CpuAggregate *c)
{
    const SnlsAggregate *a = &c->a;
    const int64_t frames = a->frames < CPU_FRAMES ? a->frames : CPU_FRAMES, pixel = a->heads * c->channels, one = frames * (CPU_AROUND + a->ps) * pixel * a->stride0;
    const int64_t together = queries_of(a->neighbours), columns = CACHE / (one > 0 ? one : 1) / together;
    return together * (columns < 2 ? 2 : columns);
}

int64_t snls_cpu_space_size(const SnlsAggregate *a)
{
    const int64_t bytes = padded(a->neighbours) * NEIGHBOUR_BYTES + 2 * a->ps * (int64_t)sizeof(CpuAxis) + 3 * (a->ps + 1) * (int64_t)sizeof(void *);
    return (bytes + SNLS_ALIGN - 1) / SNLS_ALIGN * SNLS_ALIGN;
}

static char *cut(char **at, int64_t bytes)
{
    char *const block = *at;
    *at += bytes;
    return block;
}

static SnlsPlaces cut_places(char **at, int64_t n)
{
    SnlsPlaces p;
    p.at = (const float **)(void *)cut(at, n * (int64_t)sizeof *p.at);
    p.k = (int64_t *)(void *)cut(at, n * (int64_t)sizeof *p.k);
    p.row = (int64_t *)(void *)cut(at, n * (int64_t)sizeof *p.row);
    for (int m = 0; m < 4; m++) p.w[m] = (float *)(void *)cut(at, n * (int64_t)sizeof(float));
    return p;
}

CpuSpace snls_cpu_space(const CpuAggregate *c)
{
    const int64_t n = padded(c->a.neighbours);
    char *at = c->space + snls_cpu_thread() * snls_cpu_space_size(&c->a);
    CpuSpace s = {.queries = c->a.width < 1 << 24 ? queries_of(c->a.neighbours) : 1}; /* columns are exact in f32 */
    s.all = cut_places(&at, n);
    for (int i = 0; i < CPU_LISTS; i++) s.sorted[i] = cut_places(&at, n);
    s.x = (float *)(void *)cut(&at, n * (int64_t)sizeof(float));
    s.offset = (float *)(void *)cut(&at, 3 * n * (int64_t)sizeof(float));
    s.weight = (float *)(void *)cut(&at, n * (int64_t)sizeof(float));
    s.sums = (float *)(void *)cut(&at, 4 * n * (int64_t)sizeof(float));
    for (int i = 0; i < 3; i++) s.pulled[i] = (float *)(void *)cut(&at, n * (int64_t)sizeof(float));
    s.shape = (unsigned char *)cut(&at, 8 * n);
    s.axis_y = (CpuAxis *)(void *)cut(&at, c->a.ps * (int64_t)sizeof(CpuAxis));
    s.axis_x = (CpuAxis *)(void *)cut(&at, c->a.ps * (int64_t)sizeof(CpuAxis));
    s.bent_row = (const float **)(void *)cut(&at, (c->a.ps + 1) * (int64_t)sizeof *s.bent_row);
    s.bent_column = (ptrdiff_t *)(void *)cut(&at, (c->a.ps + 1) * (int64_t)sizeof *s.bent_column);
    s.bent_number = (int64_t *)(void *)cut(&at, (c->a.ps + 1) * (int64_t)sizeof *s.bent_number);
    for (int64_t j = 0, i = 0; j < s.queries; j++)
        for (int64_t k = 0; k < c->a.neighbours; k++, i++) {
            s.all.k[i] = k;
            s.x[i] = (float)(j * c->a.stride0);
        }
    return s;
}

SnlsSite snls_cpu_site(const CpuAggregate *c, bool slopes)
{
    const SnlsAggregate *a = &c->a;
    const double y1 = (double)(a->height - 1 - snls_cpu_after(a)), x1 = (double)(a->width - 1 - snls_cpu_after(a)), first = (double)snls_cpu_before(a);
    const int64_t *step = c->source.step, row = step[3] > 0 ? step[2] / step[3] : 0;
    const bool whole = row > 0 && row * step[3] == step[2] && step[1] % step[2] == 0 && step[1] / step[2] > 0 && step[1] / step[3] < INT32_MAX / a->frames;
    return (SnlsSite){.fold_t = 2 * (double)(a->frames - 1), .fold_y = 2 * (double)(a->height - 1), .fold_x = 2 * (double)(a->width - 1), .y0 = first, .y1 = slopes ? y1 : nextafter(y1, INFINITY), .x0 = first,
                      .x1 = slopes ? x1 : nextafter(x1, INFINITY), .step_t = c->source.step[1], .step_y = c->source.step[2],
                      .step_x = c->source.step[3], .lines = whole ? c->source.step[1] / c->source.step[2] : 0, .columns = whole ? c->source.step[2] / c->source.step[3] : 0, .nearest = a->nearest, .slopes = slopes};
}

void snls_cpu_site_query(SnlsSite *site, const CpuAggregate *c, const CpuQuery *q)
{
    const SnlsAggregate *a = &c->a;
    site->t = (double)q->t;
    site->y = (double)(q->i * a->stride0);
    site->x = (double)(q->j * a->stride0);
    site->base = c->source.data + (q->b * c->source.step[0] + q->head * c->channels - snls_cpu_before(a) * (site->step_y + site->step_x));
}

/* Numbers of several queries, `each` a neighbour, one after the other: as they are, or copied. */
static const float *contiguous(float *room, const SnlsTensor *t, const CpuQuery *q, int64_t queries, int64_t neighbours, int64_t each)
{
    const float *from = (const float *)t->data + snls_at5(t, q->b, q->head, q->t, q->i, q->j);
    const int64_t step_q = t->stride[4], step_k = t->stride[5], step = each > 1 ? t->stride[6] : 1;
    if (step == 1 && step_k == each && step_q == each * neighbours) return from;
    for (int64_t j = 0; j < queries; j++)
        for (int64_t k = 0; k < neighbours; k++)
            for (int64_t i = 0; i < each; i++) room[(j * neighbours + k) * each + i] = from[j * step_q + k * step_k + i * step];
    return room;
}

int64_t snls_cpu_places(CpuSpace *space, const CpuAggregate *c, SnlsSite *site, const CpuQuery *q, int64_t end, bool weighted)
{
    const SnlsAggregate *a = &c->a;
    const int64_t left = end - q->j, queries = left < space->queries ? left : space->queries, n = a->neighbours;
    const float *o = contiguous(space->offset, &a->offset, q, queries, n, 3);
    const float *w = weighted ? contiguous(space->weight, &a->weight, q, queries, n, 1) : NULL;
    snls_cpu_site_query(site, c, q);
    const int all = c->dsp->place(&space->all, space->shape, o, space->x, w, queries * n, site);
    space->even = all >= 0 && all < CPU_SHAPES;
    space->first = q->j;
    return queries;
}

static void fill_axis(CpuAxis *axis, const SnlsAggregate *a, double centre, int64_t length)
{
    for (int64_t i = 0; i < a->ps; i++) {
        const double z = centre + (double)(a->dilation * (i - a->ps / 2));
        axis[i] = (CpuAxis){snls_taps(snls_reflect_real(z, length), length), snls_reflect_slope(z, length), a->drop && !snls_inside(z, length)};
    }
}

void snls_cpu_axes(const CpuSpace *space, const CpuAggregate *c, const SnlsNeighbour *n)
{
    fill_axis(space->axis_y, &c->a, n->y, c->a.height);
    fill_axis(space->axis_x, &c->a, n->x, c->a.width);
}

CpuBend snls_cpu_bend(const CpuSpace *space, const CpuAggregate *c, const CpuQuery *q, const SnlsNeighbour *n)
{
    const SnlsAggregate *a = &c->a;
    const int64_t y = (int64_t)n->y, x = (int64_t)n->x;
    const double fy = n->y - (double)y, fx = n->x - (double)x;
    for (int64_t i = 0; i <= a->ps; i++) {
        space->bent_number[i] = snls_cpu_reflect(y + i - a->ps / 2, a->height);
        space->bent_row[i] = snls_cpu_pixel(&c->source, q->b, n->frame, space->bent_number[i], 0) + q->head * c->channels;
        space->bent_column[i] = snls_cpu_reflect(x + i - a->ps / 2, a->width) * c->source.step[3];
    }
    return (CpuBend){{1 - fy, fy}, {1 - fx, fx}};
}

static void sort(CpuLists *lists, const CpuSpace *s, int64_t first, int64_t count)
{
    for (int64_t i = first; i < first + count; i++) {
        const int shape = s->shape[i];
        const SnlsPlaces *to = &s->sorted[shape];
        const int64_t n = lists->count[shape]++;
        to->k[n] = i - first;
        to->at[n] = s->all.at[i];
        to->row[n] = s->all.row[i];
        for (int m = 0; m < 4; m++) to->w[m][n] = s->all.w[m][i];
    }
    for (int i = 0; i < CPU_LISTS; i++) lists->of[i] = &s->sorted[i];
}

void snls_cpu_lists(CpuLists *lists, const CpuSpace *space, const CpuAggregate *c, const CpuQuery *q)
{
    const int64_t n = c->a.neighbours, first = (q->j - space->first) * n;
    const unsigned char *shape = space->shape + first;
    bool even = space->even;
    for (int i = 0; i < CPU_LISTS; i++) lists->start[i] = lists->count[i] = 0;
    if (!even) {
        even = n > 0 && *shape < CPU_SHAPES;
        for (int64_t k = 1; even && k < n; k++) even = shape[k] == *shape;
    }
    if (!even) {
        sort(lists, space, first, n);
        return;
    }
    lists->of[*shape] = &space->all;
    lists->start[*shape] = first;
    lists->count[*shape] = n;
}

int64_t snls_cpu_end_of_run(const CpuAggregate *c, const CpuSpace *space, const CpuQuery *q, int64_t end)
{
    const SnlsAggregate *a = &c->a;
    const int64_t n = a->neighbours;
    const unsigned char *const first = space->shape + (q->j - space->first) * n, *shape = first;
    if (snls_cpu_x(a, q, 0) < 0 || n < 1 || *first >= CPU_SHAPES) return q->j;
    while (end > q->j && (end - 1) * a->stride0 + snls_cpu_after(a) >= a->width) end--;
    if (space->even) return end;
    while (shape < first + (end - q->j) * n && *shape == *first) shape++;
    return q->j + (shape - first) / n;
}
