/* plain_other.c: weights, flow_compose and aggregation, forward and backward, as a careful programmer writes them down. */
#include "plain.h"
#include <string.h>

/* ---- gather_add, gather: every output pixel collects from the queries whose patches cover it ---- */

typedef struct Place { /* that a neighbour's pixel is at */
    Taps taps;
    float sign_y, sign_x; /* what it moves by where the offset does */
    int64_t at;           /* number of the neighbour among all */
} Place;

static Place place_of(const Plain *p, const void *video, const Query *q, int64_t neighbour, int64_t dy, int64_t dx)
{
    const SnlsGather *g = &p->call->tensors.gather;
    const SnlsScatterAdd *s = &p->call->tensors.scatter;
    const bool pushes = !strcmp(p->call->which->op, "scatter_add"), whole = p->call->which->interp == SNLS_INTERP_NEAREST;
    const int64_t at = q->number * p->call->which->k + neighbour;
    const float *offset = (const float *)(pushes ? s->offset : g->offset).data + 3 * at;
    const double last_y = (double)(p->height - 1), last_x = (double)(p->width - 1);
    const double y = (double)q->y + (whole ? rint((double)offset[1]) : (double)offset[1]),
                 x = (double)q->x + (whole ? rint((double)offset[2]) : (double)offset[2]);
    const double z_y = reflect_real(y, last_y) + (double)dy, z_x = reflect_real(x, last_x) + (double)dx;
    return (Place){ taps_at(p, frame_of(p, video, reflect(q->t + lrintf(offset[0]), p->frames), q->head), z_y, z_x),
                    reflect_sign(y, last_y) * reflect_sign(z_y, last_y), reflect_sign(x, last_x) * reflect_sign(z_x, last_x), at };
}

static void add_neighbour(const Plain *p, const Query *q, int64_t neighbour, int64_t dy, int64_t dx, float *sum)
{
    const SnlsGather *s = &p->call->tensors.gather;
    const Place z = place_of(p, s->value.data, q, neighbour, dy, dx);
    const float w = ((const float *)s->weight.data)[z.at];
    if (z.taps.whole)
        for (int64_t c = 0; c < p->features; c++) sum[c] += w * z.taps.at[0][c];
    else
        for (int64_t c = 0; c < p->features; c++) sum[c] += w * blend(&z.taps, c);
}

/* The query whose patch has (y,x) as its pixel number `part`; false: there is none. */
static bool covering(const Plain *p, int64_t head, const Query *pixel, int64_t part, Query *q)
{
    const BenchCase *w = p->call->which;
    const int64_t dy = part / w->ps - w->ps / 2, dx = part % w->ps - w->ps / 2, y = pixel->y - dy, x = pixel->x - dx;
    if (y < 0 || x < 0 || y >= p->rows || x >= p->columns) return false;
    *q = query_at(p, ((head * p->frames + pixel->t) * p->rows + y) * p->columns + x);
    return true;
}

/* step: from the sum of a neighbour to that of the next, 0 where they are one */
static void gather_pixel(const Plain *p, int64_t head, const Query *pixel, float *sum, int64_t step, float *count)
{
    const BenchCase *w = p->call->which;
    Query q;
    for (int64_t part = 0; part < w->ps * w->ps; part++) {
        if (!covering(p, head, pixel, part, &q)) continue;
        for (int64_t k = 0; k < w->k; k++) add_neighbour(p, &q, k, pixel->y - q.y, pixel->x - q.x, sum + k * step);
        ++*count;
    }
}

/* number counts pixels; with stride0 1, as all cases of it have, these are the queries of the first head */
static void gather_add_forward(Plain *p, int64_t number)
{
    const Query pixel = query_at(p, number);
    const float *theirs = (const float *)p->call->tensors.gather.out.data + number * p->channels;
    for (int64_t c = 0; c < p->channels; c++) p->out[c] = 0;
    for (int64_t head = 0; head < p->call->which->heads; head++) {
        float count = 0, *sum = p->out + head * p->features;
        gather_pixel(p, head, &pixel, sum, 0, &count);
        for (int64_t c = 0; c < p->features; c++) sum[c] /= count;
    }
    compare(p, number, theirs, p->channels);
}

static void gather_forward(Plain *p, int64_t number)
{
    const Query pixel = query_at(p, number);
    const int64_t k = p->call->which->k;
    const int64_t plane = p->frames * p->height * p->width; /* of neighbours of a head */
    for (int64_t head = 0; head < p->call->which->heads; head++) {
        float count = 0;
        for (int64_t i = 0; i < k * p->features; i++) p->out[i] = 0;
        gather_pixel(p, head, &pixel, p->out, p->features, &count);
        for (int64_t i = 0; i < k * p->features; i++) {
            const float *theirs = (const float *)p->call->tensors.gather.out.data + ((head * k + i / p->features) * plane + number) * p->features;
            p->out[i] /= count;
            if (is_compared(number)) compare_one(p, p->out[i], theirs[i % p->features]);
        }
    }
}

/* Gradients by what a neighbour's place is read from (NULL: not wanted), by its weight and by its offset, where `other` is what each channel read is multiplied by. */
static void pull_place(const Place *z, const float *other, float scale, float w, int64_t features, const void *values, void *by_values, float *by_weight, float *by_offset)
{
    float dot = 0, by_y = 0, by_x = 0;
    for (int64_t c = 0; c < features; c++) {
        const float g = scale * other[c];
        const Taps *t = &z->taps;
        dot += g * blend(t, c);
        by_y += g * slope_y(t, c);
        by_x += g * slope_x(t, c);
        for (int i = 0; i < (t->whole ? 1 : 4) && by_values; i++) grad_at(by_values, values, t->at[i])[c] += w * t->weight[i] * g;
    }
    *by_weight += dot;
    if (by_offset) by_offset[1] += w * by_y * z->sign_y, by_offset[2] += w * by_x * z->sign_x;
}

static void gather_backward(Plain *p, int64_t number)
{
    const BenchCase *w = p->call->which;
    const SnlsGather *s = &p->call->tensors.gather;
    const SnlsGatherGrad *g = &p->call->grads.gather;
    const Query pixel = query_at(p, number);
    const bool stack = !strcmp(w->op, "gather");
    const int64_t parts = w->ps * w->ps, plane = p->frames * p->height * p->width;
    for (int64_t i = 0; i < w->heads * parts; i++) {
        const int64_t head = i / parts;
        float count = 0;
        Query q;
        for (int64_t part = 0; part < parts; part++) count += covering(p, head, &pixel, part, &q) ? 1 : 0;
        if (!covering(p, head, &pixel, i % parts, &q)) continue;
        for (int64_t k = 0; k < w->k; k++) {
            const Place z = place_of(p, s->value.data, &q, k, pixel.y - q.y, pixel.x - q.x);
            const float *by_out = (const float *)g->out.data + (stack ? ((head * w->k + k) * plane + number) * p->features : number * p->channels + head * p->features);
            pull_place(&z, by_out, 1 / count, ((const float *)s->weight.data)[z.at], p->features, s->value.data, g->value.data,
                       (float *)g->weight.data + z.at, g->offset.data ? (float *)g->offset.data + 3 * z.at : NULL);
        }
    }
}

/* ---- weights ---- */

static void weights_forward(Plain *p, int64_t number)
{
    const SnlsWeights *s = &p->call->tensors.weights;
    const int64_t k = p->call->which->k;
    const float *dist = (const float *)s->dist.data + number * k;
    const float scale = (float)(s->params.dist == SNLS_DIST_PROD ? s->params.scale : -s->params.scale);
    float most = -INFINITY, sum = 0;
    for (int64_t i = 0; i < k; i++) most = fmaxf(most, scale * dist[i]);
    for (int64_t i = 0; i < k; i++) sum += p->out[i] = expf(scale * dist[i] - most);
    for (int64_t i = 0; i < k; i++) p->out[i] /= sum;
    compare(p, number, (const float *)s->weight.data + number * k, k);
}

static void weights_backward(Plain *p, int64_t number)
{
    const SnlsWeights *s = &p->call->tensors.weights;
    const int64_t k = p->call->which->k, at = number * k;
    const float *weight = (const float *)s->weight.data + at, *by_weight = (const float *)p->call->grads.weights.weight.data + at;
    float *by_dist = (float *)p->call->grads.weights.dist.data + at;
    const float scale = (float)(s->params.dist == SNLS_DIST_PROD ? s->params.scale : -s->params.scale);
    float mean = 0;
    for (int64_t i = 0; i < k; i++) mean += weight[i] * by_weight[i];
    for (int64_t i = 0; i < k; i++) by_dist[i] += scale * weight[i] * (by_weight[i] - mean);
}

/* ---- scatter_add: every query pushes its patch to its neighbours' places; into the library's result, which nobody reads again ---- */

static void scatter_pixel(Plain *p, const Query *q, int64_t neighbour, int64_t dy, int64_t dx)
{
    const SnlsScatterAdd *s = &p->call->tensors.scatter;
    const Place z = place_of(p, s->out.data, q, neighbour, dy, dx);
    const float w = ((const float *)s->weight.data)[z.at];
    const float *from = pixel_of(p, frame_of(p, s->value.data, q->t, q->head), q->y + dy, q->x + dx);
    for (int i = 0; i < (z.taps.whole ? 1 : 4); i++) {
        float *to = (float *)z.taps.at[i];
        for (int64_t c = 0; c < p->features; c++) to[c] += w * z.taps.weight[i] * from[c];
        const int64_t pixel = (to - (const float *)s->out.data) / p->channels;
        ((float *)s->total.data)[pixel * p->call->which->heads + q->head] += w * z.taps.weight[i];
    }
}

static void pull_scattered(Plain *p, const Query *q, int64_t neighbour, int64_t dy, int64_t dx)
{
    const SnlsScatterAdd *s = &p->call->tensors.scatter;
    const SnlsScatterAddGrad *g = &p->call->grads.scatter;
    const Place z = place_of(p, g->out.data, q, neighbour, dy, dx);
    const float w = ((const float *)s->weight.data)[z.at], one = 1;
    const float *from = pixel_of(p, frame_of(p, s->value.data, q->t, q->head), q->y + dy, q->x + dx);
    float *by_weight = (float *)g->weight.data + z.at, *by_offset = g->offset.data ? (float *)g->offset.data + 3 * z.at : NULL;
    float *by_from = grad_at(g->value.data, s->value.data, from);
    for (int64_t c = 0; c < p->features; c++) by_from[c] += w * blend(&z.taps, c);
    pull_place(&z, from, 1, w, p->features, NULL, NULL, by_weight, by_offset);
    Place total = z; /* the same place in the weights that arrived */
    for (int i = 0; i < 4; i++)
        total.taps.at[i] = (const float *)g->total.data + (z.taps.at[i] - (const float *)g->out.data) / p->channels * p->call->which->heads + q->head;
    pull_place(&total, &one, 1, w, 1, NULL, NULL, by_weight, by_offset);
}

static void each_scattered(Plain *p, int64_t number, void (*visit)(Plain *p, const Query *q, int64_t neighbour, int64_t dy, int64_t dx))
{
    const Query q = query_at(p, number);
    const int64_t ps = p->call->which->ps, r = ps / 2;
    for (int64_t k = 0; k < p->call->which->k; k++)
        for (int64_t a = 0; a < ps * ps; a++) {
            const int64_t dy = a / ps - r, dx = a % ps - r;
            if (q.y + dy >= 0 && q.y + dy < p->height && q.x + dx >= 0 && q.x + dx < p->width) visit(p, &q, k, dy, dx);
        }
}

static void scatter_add_forward(Plain *p, int64_t number) { each_scattered(p, number, scatter_pixel); }

static void scatter_add_backward(Plain *p, int64_t number) { each_scattered(p, number, pull_scattered); }

/* ---- flow_compose ---- */

enum { MOST_STEPS = 16 }; /* in one direction */

/* Where a query is after each step: dir 1 forward in time, -1 back. Returns the number of steps; *first: the slot of the first. */
static int64_t follow(const Plain *p, const Query *q, int dir, int64_t *first, Taps *taps, float *place)
{
    const SnlsFlowCompose *s = &p->call->tensors.compose;
    const int64_t wt = p->call->which->wt;
    int64_t slot = 1, steps = 0;
    while (slot <= 2 * wt && slot_frame(q->t, slot, wt, p->frames) > q->t) slot++;
    *first = dir > 0 ? 1 : slot;
    const int64_t count = dir > 0 ? slot - 1 : 2 * wt - slot + 1;
    for (place[0] = place[1] = 0; steps < count && steps < MOST_STEPS; steps++) {
        const void *field = dir > 0 ? s->fflow.data : s->bflow.data;
        taps[steps] = taps_at(p, frame_of(p, field, q->t + dir * steps, 0), (double)q->y + (double)place[2 * steps + 1], (double)q->x + (double)place[2 * steps]);
        for (int c = 0; c < 2; c++) place[2 * steps + 2 + c] = place[2 * steps + c] + blend(&taps[steps], c);
    }
    return steps;
}

static void compose_forward(Plain *p, int64_t number)
{
    const Query q = query_at(p, number);
    Taps taps[MOST_STEPS];
    float place[2 * MOST_STEPS + 2];
    for (int dir = 1; dir > -2; dir -= 2) {
        int64_t first;
        const int64_t steps = follow(p, &q, dir, &first, taps, place);
        for (int64_t i = 0; i < 2 * steps && is_compared(number); i++)
            compare_one(p, place[2 + i], flow_at(p, p->call->tensors.compose.flow.data, &q, first + i / 2)[i % 2]);
        p->out[0] += place[2 * steps]; /* so that it is worked out */
    }
}

static void compose_backward(Plain *p, int64_t number)
{
    const Query q = query_at(p, number);
    const SnlsFlowCompose *s = &p->call->tensors.compose;
    const SnlsFlowComposeGrad *g = &p->call->grads.compose;
    Taps taps[MOST_STEPS];
    float place[2 * MOST_STEPS + 2];
    for (int dir = 1; dir > -2; dir -= 2) {
        int64_t first;
        float by[2] = { 0, 0 };
        for (int64_t i = follow(p, &q, dir, &first, taps, place) - 1; i >= 0; i--) {
            const Taps *t = &taps[i];
            const float *by_flow = flow_at(p, g->flow.data, &q, first + i);
            float by_y = 0, by_x = 0;
            for (int c = 0; c < 2; c++) {
                by[c] += by_flow[c];
                by_y += by[c] * slope_y(t, c);
                by_x += by[c] * slope_x(t, c);
                for (int tap = 0; tap < (t->whole ? 1 : 4); tap++)
                    grad_at((dir > 0 ? g->fflow : g->bflow).data, (dir > 0 ? s->fflow : s->bflow).data, t->at[tap])[c] += t->weight[tap] * by[c];
            }
            by[1] += by_y * reflect_sign((double)q.y + (double)place[2 * i + 1], (double)(p->height - 1));
            by[0] += by_x * reflect_sign((double)q.x + (double)place[2 * i], (double)(p->width - 1));
        }
    }
}

Visit bench_plain_other(const BenchCase *c, bool backward)
{
    if (!strcmp(c->op, "weights")) return backward ? weights_backward : weights_forward;
    if (!strcmp(c->op, "flow_compose")) return c->wt > MOST_STEPS / 2 ? NULL : backward ? compose_backward : compose_forward;
    if (!strcmp(c->op, "scatter_add")) return backward ? scatter_add_backward : scatter_add_forward;
    if (c->stride0 != 1) return NULL;
    if (backward) return gather_backward;
    return !strcmp(c->op, "gather") ? gather_forward : gather_add_forward;
}
