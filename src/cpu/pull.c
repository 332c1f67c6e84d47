/* pull.c: gradients of weights and offsets, owned by the query: with r = what is read at the source and d = what stands
 * at the destination, L = w*d*r, so dw = <d, r> and d place = w * <d, slope of r>. */
#include "cpu/aggregate.h"

typedef struct Pull { double weight, y, x; } Pull;

/* One pixel of the patch: <d, tap> for the four taps gives value and slopes. */
static void pull_pixel(const CpuAggregate *c, int64_t b, int64_t head, const SnlsNeighbour *n, double u, double v, const float *from, double factor, Pull *pull)
{
    const SnlsAggregate *a = &c->a;
    const SnlsTaps ty = snls_taps(snls_reflect_real(u, a->height), a->height), tx = snls_taps(snls_reflect_real(v, a->width), a->width);
    double along[2][2] = {{0, 0}, {0, 0}}, value = 0, dy = 0, dx = 0;
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++) {
            if (ty.weight[i] == 0 && tx.weight[j] == 0) continue; /* counts for nothing */
            const float *tap = snls_cpu_pixel(&c->source, b, n->frame, ty.at[i], tx.at[j]) + head * c->channels;
            along[i][j] = factor * (from ? c->dsp->dot(from, tap, c->channels) : *tap);
            if (ty.weight[i] != 0 && tx.weight[j] != 0) value += ty.weight[i] * tx.weight[j] * along[i][j];
        }
    for (int i = 0; i < 2; i++) {
        if (tx.weight[i] != 0) dy += tx.weight[i] * (along[1][i] - along[0][i]);
        if (ty.weight[i] != 0) dx += ty.weight[i] * (along[i][1] - along[i][0]);
    }
    pull->weight += value;
    pull->y += snls_reflect_slope(u, a->height) * dy;
    pull->x += snls_reflect_slope(v, a->width) * dx;
}

static Pull pull_patch(const CpuAggregate *c, int64_t b, int64_t head, int64_t t, int64_t i, int64_t j, int64_t k, const SnlsNeighbour *n)
{
    const SnlsAggregate *a = &c->a;
    Pull pull = {0, 0, 0};
    for (int64_t r = 0; r < a->ps; r++)
        for (int64_t s = 0; s < a->ps; s++) {
            const int64_t dy = a->dilation * (r - a->ps / 2), dx = a->dilation * (s - a->ps / 2);
            const int64_t y = i * a->stride0 + dy, x = j * a->stride0 + dx;
            const double u = n->y + (double)dy, v = n->x + (double)dx;
            if (y < 0 || y >= a->height || x < 0 || x >= a->width) continue;
            if (a->drop && !(snls_inside(u, a->height) && snls_inside(v, a->width))) continue;
            const float *from = c->destination.data ? snls_cpu_destination(c, b, head, k, t, y, x) : NULL;
            pull_pixel(c, b, head, n, u, v, from, 1 / snls_cpu_divisor(c, y, x), &pull);
        }
    return pull;
}

static void pull_query(const CpuAggregate *c, int64_t b, int64_t head, int64_t t, int64_t i, int64_t j, const SnlsTensor *weight, const SnlsTensor *offset)
{
    const SnlsAggregate *a = &c->a;
    for (int64_t k = 0; k < a->neighbours; k++) {
        const SnlsNeighbour n = snls_cpu_neighbour(a, b, head, t, i, j, k);
        if (!n.valid) continue;
        const Pull pull = pull_patch(c, b, head, t, i, j, k, &n);
        if (weight->data) ((float *)weight->data)[snls_at6(weight, b, head, t, i, j, k)] += (float)pull.weight;
        if (!offset->data) continue;
        float *to = (float *)offset->data + snls_at6(offset, b, head, t, i, j, k);
        const double w = snls_cpu_weight(a, b, head, t, i, j, k);
        to[offset->stride[6]] += (float)(w * n.slope_y * pull.y);
        to[2 * offset->stride[6]] += (float)(w * n.slope_x * pull.x);
    }
}

void snls_cpu_pull_weights(SnlsContext *ctx, const CpuAggregate *c, const SnlsTensor *weight, const SnlsTensor *offset)
{
    const SnlsAggregate *a = &c->a;
    if (!weight->data && !offset->data) return;
    const int64_t units = a->batch * a->heads * a->frames * a->rows;
#pragma omp parallel for num_threads(ctx->threads) schedule(dynamic, 1)
    for (int64_t u = 0; u < units; u++) {
        const int64_t i = u % a->rows, t = u / a->rows % a->frames, head = u / a->rows / a->frames % a->heads, b = u / a->rows / a->frames / a->heads;
        for (int64_t j = 0; j < a->columns; j++) pull_query(c, b, head, t, i, j, weight, offset);
    }
}
