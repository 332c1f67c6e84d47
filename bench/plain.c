/* plain.c: searches with their backward passes, weights, and the forward passes of the others as a careful programmer writes them down: loops over query, frame,
 * candidate, patch pixel and channel, in float, one thread, no vectors, no tiles; a place between pixels is read from its
 * four taps. It serves as a measure of speed and knows only what the cases use: slide, reflect, bilinear or nearest, no
 * anchor, topk all, dilation 1, contiguous f32. */
#include "bench.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct Plain {
    const BenchCall *call;
    int64_t frames, height, width, channels, features, rows, columns; /* rows, columns: of queries */
    float *out; /* what a query gave: k distances, or the channels of a pixel */
    int64_t *kept;
    float worst; /* difference from what the library found */
} Plain;

typedef struct Query {
    int64_t head, t, i, j, y, x, number; /* number: among the queries of all heads and frames */
} Query;

static Query query_at(const Plain *p, int64_t number)
{
    const int64_t j = number % p->columns, i = number / p->columns % p->rows,
                  t = number / (p->columns * p->rows) % p->frames, head = number / (p->columns * p->rows * p->frames);
    const int64_t stride0 = p->call->which->stride0;
    return (Query){ head, t, i, j, i * stride0, j * stride0, number };
}

static int64_t reflect(int64_t i, int64_t n)
{
    if (i >= 0 && i < n) return i;
    if (n == 1) return 0;
    i = llabs(i) % (2 * (n - 1));
    return i < n ? i : 2 * (n - 1) - i;
}

static double reflect_real(double x, double last)
{
    if (x >= 0 && x <= last) return x;
    if (last == 0) return 0;
    x = fmod(fabs(x), 2 * last);
    return x <= last ? x : 2 * last - x;
}

/* What the place moves by where x does: -1 on the way back. */
static float reflect_sign(double x, double last)
{
    if (last == 0) return 0;
    if (x >= 0 && x <= last) return 1;
    const double folded = fmod(fabs(x), 2 * last);
    return folded == 0 || folded == last || (folded < last) == (x > 0) ? 1 : -1;
}

/* ---- a read between pixels ---- */

typedef struct Taps {
    const float *at[4]; /* rows y, y, y+1, y+1; columns x, x+1, x, x+1 */
    float weight[4], fy, fx;
    bool whole; /* the first tap is all there is */
} Taps;

static Taps taps_at(const Plain *p, const float *frame, double y, double x)
{
    y = reflect_real(y, (double)(p->height - 1));
    x = reflect_real(x, (double)(p->width - 1));
    const int64_t top = (int64_t)y, left = (int64_t)x;
    const int64_t bottom = reflect(top + 1, p->height), right = reflect(left + 1, p->width);
    const float fy = (float)(y - (double)top), fx = (float)(x - (double)left);
    return (Taps){ { frame + (top * p->width + left) * p->channels, frame + (top * p->width + right) * p->channels,
                     frame + (bottom * p->width + left) * p->channels,
                     frame + (bottom * p->width + right) * p->channels },
                   { (1 - fy) * (1 - fx), (1 - fy) * fx, fy * (1 - fx), fy * fx },
                   fy,
                   fx,
                   fy == 0 && fx == 0 };
}

static float blend(const Taps *t, int64_t c)
{
    return t->weight[0] * t->at[0][c] + t->weight[1] * t->at[1][c] + t->weight[2] * t->at[2][c] +
           t->weight[3] * t->at[3][c];
}

static const float *frame_of(const Plain *p, const void *video, int64_t t, int64_t head)
{
    return (const float *)video + t * p->height * p->width * p->channels + head * p->features;
}

static const float *pixel_of(const Plain *p, const float *frame, int64_t y, int64_t x)
{
    return frame + (reflect(y, p->height) * p->width + reflect(x, p->width)) * p->channels;
}

/* ---- search, search_all, refine ---- */

typedef struct Views { /* of the call and its gradients, whichever of the three it is */
    const SnlsTensor *query, *key, *centre, *dist, *index; /* centre: flow, or the places that refine is given */
    const SnlsTensor *by_query, *by_key, *by_centre, *by_dist, *by_offset;
} Views;

static bool is_refine(const Plain *p) { return !strcmp(p->call->which->op, "refine"); }

static Views views_of(const Plain *p)
{
    const SnlsSearch *s = &p->call->tensors.search;
    const SnlsSearchGrad *g = &p->call->grads.search;
    const SnlsRefine *r = &p->call->tensors.refine;
    const SnlsRefineGrad *h = &p->call->grads.refine;
    if (is_refine(p))
        return (Views){ &r->query, &r->key, &r->centre, &r->dist, &r->index, &h->query, &h->key, &h->centre, &h->dist, &h->offset };
    return (Views){ &s->query, &s->key, &s->flow, &s->dist, &s->index, &g->query, &g->key, &g->flow, &g->dist, &g->offset };
}

static int64_t candidates(const Plain *p)
{
    const BenchCase *w = p->call->which;
    return (is_refine(p) ? w->k : 2 * w->wt + 1) * w->ws * w->ws;
}

static int64_t kept_count(const Plain *p) /* of a query */
{
    return strcmp(p->call->which->op, "search_all") ? p->call->which->k : candidates(p);
}

static float score_pixels(const float *q, const Taps *t, int64_t features, bool l2)
{
    float sum = 0;
    if (t->whole && l2)
        for (int64_t c = 0; c < features; c++) sum += (q[c] - t->at[0][c]) * (q[c] - t->at[0][c]);
    else if (t->whole)
        for (int64_t c = 0; c < features; c++) sum += q[c] * t->at[0][c];
    else
        for (int64_t c = 0; c < features; c++) {
            const float key = blend(t, c);
            sum += l2 ? (q[c] - key) * (q[c] - key) : q[c] * key;
        }
    return sum;
}

static float score_patch(const Plain *p, const Query *q, const float *query, const float *key, double y, double x)
{
    const int64_t ps = p->call->which->ps, r = ps / 2;
    const bool l2 = p->call->which->dist == SNLS_DIST_L2;
    float sum = 0;
    for (int64_t i = 0; i < ps; i++)
        for (int64_t j = 0; j < ps; j++) {
            const Taps taps = taps_at(p, key, y + (double)(i - r), x + (double)(j - r));
            sum += score_pixels(pixel_of(p, query, q->y + i - r, q->x + j - r), &taps, p->features, l2);
        }
    return sum;
}

static int64_t slot_frame(int64_t t, int64_t slot, int64_t wt, int64_t frames)
{
    const int64_t first = t - wt < 0 ? 0 : t + wt > frames - 1 ? frames - 1 - 2 * wt : t - wt, last = first + 2 * wt;
    return t + slot <= last ? t + slot : last - slot;
}

static double origin(double centre, double ws, double step, double last)
{
    double o = floor((ws - 1) / 2);
    if (centre - step * o < 0) o = floor(centre / step);
    if (centre + step * (ws - 1 - o) > last) o = ceil((centre - last) / step + ws - 1);
    return o;
}

typedef struct Window {
    int64_t frame;
    double y, x;          /* of its first candidate */
    float sign_y, sign_x; /* of the centre's reflection */
} Window;

static const float *flow_at(const Plain *p, const void *flow, const Query *q, int64_t slot)
{
    const int64_t slots = 2 * p->call->which->wt;
    return (const float *)flow + (((q->t * slots + slot - 1) * p->rows + q->i) * p->columns + q->j) * 2;
}

static const float *centre_at(const Plain *p, const void *centre, const Query *q, int64_t given)
{
    return (const float *)centre + (q->number * p->call->which->k + given) * 3;
}

/* slot: of a search; of refine the number of the given place */
static Window window_at(const Plain *p, const Query *q, int64_t slot)
{
    const BenchCase *w = p->call->which;
    const Views v = views_of(p);
    const float *given = is_refine(p) ? centre_at(p, v.centre->data, q, slot) : NULL;
    const double last_y = (double)(p->height - 1), last_x = (double)(p->width - 1);
    double y = (double)q->y, x = (double)q->x;
    if (given) y += (double)given[1], x += (double)given[2];
    else if (slot && v.centre->data) {
        const float *flow = flow_at(p, v.centre->data, q, slot);
        y += (double)flow[1];
        x += (double)flow[0];
    }
    const float sign_y = reflect_sign(y, last_y), sign_x = reflect_sign(x, last_x);
    y = reflect_real(y, last_y);
    x = reflect_real(x, last_x);
    const int64_t frame = given ? reflect(q->t + lrintf(given[0]), p->frames) : slot_frame(q->t, slot, w->wt, p->frames);
    return (Window){ frame, y - w->stride1 * origin(y, w->ws, w->stride1, last_y),
                     x - w->stride1 * origin(x, w->ws, w->stride1, last_x), sign_y, sign_x };
}

/* The list stays sorted, best first; an equal score keeps its place. */
static void insert(Plain *p, int64_t *count, float score, int64_t number)
{
    const int64_t k = p->call->which->k;
    const bool prod = p->call->which->dist == SNLS_DIST_PROD;
    int64_t at = *count < k ? (*count)++ : k;
    for (; at > 0 && (prod ? score > p->out[at - 1] : score < p->out[at - 1]); at--)
        if (at < k) p->out[at] = p->out[at - 1], p->kept[at] = p->kept[at - 1];
    if (at < k) p->out[at] = score, p->kept[at] = number;
}

static void search_window(Plain *p, const Query *q, int64_t slot, int64_t *count)
{
    const BenchCase *w = p->call->which;
    const Window window = window_at(p, q, slot);
    const Views v = views_of(p);
    const bool all = !strcmp(w->op, "search_all");
    const float *query = frame_of(p, v.query->data, q->t, q->head), *key = frame_of(p, v.key->data, window.frame, q->head);
    for (int64_t row = 0; row < w->ws; row++)
        for (int64_t column = 0; column < w->ws; column++) {
            const double y = window.y + w->stride1 * (double)row, x = window.x + w->stride1 * (double)column;
            if (y < 0 || y > (double)(p->height - 1) || x < 0 || x > (double)(p->width - 1)) continue;
            const float score = score_patch(p, q, query, key, y, x);
            const int64_t candidate = (slot * w->ws + row) * w->ws + column;
            if (all) p->out[candidate] = score;
            else insert(p, count, score, candidate);
        }
}

/* Every eighth is enough, and takes little of the time that is measured. */
static bool is_compared(int64_t number) { return number % 8 == 0; }

static void compare(Plain *p, int64_t number, const float *theirs, int64_t count)
{
    for (int64_t i = 0; i < count && is_compared(number); i++)
        if (p->out[i] != theirs[i]) p->worst = fmaxf(p->worst, fabsf(p->out[i] - theirs[i]) / (1e-3f + fabsf(theirs[i])));
}

static void search_forward(Plain *p, int64_t number)
{
    const Query q = query_at(p, number);
    const BenchCase *w = p->call->which;
    const int64_t k = kept_count(p), slots = is_refine(p) ? w->k : 2 * w->wt + 1;
    int64_t count = 0;
    for (int64_t i = 0; i < k; i++) p->out[i] = w->dist == SNLS_DIST_PROD ? -INFINITY : INFINITY;
    for (int64_t slot = 0; slot < slots; slot++) search_window(p, &q, slot, &count);
    compare(p, number, (const float *)views_of(p).dist->data + number * k, k);
}

/* ---- search, backward ---- */

typedef struct Pull {
    float g;    /* gradient by the distance of one kept neighbour */
    float y, x; /* and by the place of one of its pixels */
} Pull;

static float *grad_at(const void *grad, const void *values, const float *at)
{
    return (float *)grad + (at - (const float *)values);
}

static void pull_pixels(const Plain *p, const float *q, const Taps *t, Pull *pull)
{
    const Views v = views_of(p);
    const bool l2 = p->call->which->dist == SNLS_DIST_L2;
    float *by_query = grad_at(v.by_query->data, v.query->data, q);
    float *by_tap[4];
    for (int i = 0; i < 4; i++) by_tap[i] = grad_at(v.by_key->data, v.key->data, t->at[i]);
    for (int64_t c = 0; c < p->features; c++) {
        const float key = blend(t, c), by_key = pull->g * (l2 ? 2 * (key - q[c]) : q[c]);
        by_query[c] += l2 ? -by_key : pull->g * key;
        for (int i = 0; i < (t->whole ? 1 : 4); i++) by_tap[i][c] += by_key * t->weight[i];
        pull->y += by_key * ((1 - t->fx) * (t->at[2][c] - t->at[0][c]) + t->fx * (t->at[3][c] - t->at[1][c]));
        pull->x += by_key * ((1 - t->fy) * (t->at[1][c] - t->at[0][c]) + t->fy * (t->at[3][c] - t->at[2][c]));
    }
}

static void pull_neighbour(Plain *p, const Query *q, int64_t kept, const float *by_offset, float by_dist)
{
    const BenchCase *w = p->call->which;
    const Views v = views_of(p);
    const int64_t slot = kept / (w->ws * w->ws), row = kept / w->ws % w->ws, column = kept % w->ws, r = w->ps / 2;
    const Window window = window_at(p, q, slot);
    const double y = window.y + w->stride1 * (double)row, x = window.x + w->stride1 * (double)column;
    const float *query = frame_of(p, v.query->data, q->t, q->head), *key = frame_of(p, v.key->data, window.frame, q->head);
    float by_y = by_offset[1], by_x = by_offset[2];
    for (int64_t i = 0; i < w->ps; i++)
        for (int64_t j = 0; j < w->ps; j++) {
            const double at_y = y + (double)(i - r), at_x = x + (double)(j - r);
            const Taps taps = taps_at(p, key, at_y, at_x);
            Pull pull = { .g = by_dist };
            pull_pixels(p, pixel_of(p, query, q->y + i - r, q->x + j - r), &taps, &pull);
            by_y += pull.y * reflect_sign(at_y, (double)(p->height - 1));
            by_x += pull.x * reflect_sign(at_x, (double)(p->width - 1));
        }
    if (!is_refine(p) && (!slot || !v.centre->data)) return;
    const float *at = is_refine(p) ? centre_at(p, v.by_centre->data, q, slot) : flow_at(p, v.by_centre->data, q, slot);
    float *by_place = (float *)at + (is_refine(p) ? 1 : 0); /* (dt,dy,dx), or (x,y) */
    by_place[is_refine(p) ? 1 : 0] += by_x * window.sign_x;
    by_place[is_refine(p) ? 0 : 1] += by_y * window.sign_y;
}

static void search_backward(Plain *p, int64_t number)
{
    const Query q = query_at(p, number);
    const Views v = views_of(p);
    const int64_t k = kept_count(p);
    const int32_t *index = (const int32_t *)v.index->data + number * k;
    const float *by_dist = (const float *)v.by_dist->data + number * k, *by_offset = (const float *)v.by_offset->data + number * k * 3;
    for (int64_t i = 0; i < k; i++)
        if (index[i] >= 0) pull_neighbour(p, &q, index[i], by_offset + 3 * i, by_dist[i]);
}

/* ---- gather_add, gather: every output pixel collects from the queries whose patches cover it ---- */

static void add_neighbour(const Plain *p, const Query *q, int64_t neighbour, double dy, double dx, float *sum)
{
    const SnlsGather *s = &p->call->tensors.gather;
    const int64_t at = q->number * p->call->which->k + neighbour;
    const float *offset = (const float *)s->offset.data + 3 * at, w = ((const float *)s->weight.data)[at];
    const bool whole = p->call->which->interp == SNLS_INTERP_NEAREST;
    const double oy = whole ? rint((double)offset[1]) : (double)offset[1],
                 ox = whole ? rint((double)offset[2]) : (double)offset[2];
    const int64_t frame = reflect(q->t + lrintf(offset[0]), p->frames);
    const Taps taps = taps_at(p, frame_of(p, s->value.data, frame, q->head),
                              reflect_real((double)q->y + oy, (double)(p->height - 1)) + dy,
                              reflect_real((double)q->x + ox, (double)(p->width - 1)) + dx);
    if (taps.whole)
        for (int64_t c = 0; c < p->features; c++) sum[c] += w * taps.at[0][c];
    else
        for (int64_t c = 0; c < p->features; c++) sum[c] += w * blend(&taps, c);
}

/* step: from the sum of a neighbour to that of the next, 0 where they are one */
static void gather_pixel(const Plain *p, int64_t head, int64_t t, int64_t y, int64_t x, float *sum, int64_t step, float *count)
{
    const BenchCase *w = p->call->which;
    const int64_t r = w->ps / 2;
    for (int64_t a = 0; a < w->ps * w->ps; a++) {
        const int64_t dy = a / w->ps - r, dx = a % w->ps - r, i = (y - dy) / w->stride0, j = (x - dx) / w->stride0;
        if (y < dy || x < dx || i * w->stride0 != y - dy || j * w->stride0 != x - dx || i >= p->rows || j >= p->columns)
            continue;
        const Query q = query_at(p, ((head * p->frames + t) * p->rows + i) * p->columns + j);
        for (int64_t k = 0; k < w->k; k++) add_neighbour(p, &q, k, (double)dy, (double)dx, sum + k * step);
        ++*count;
    }
}

/* number counts pixels; with stride0 1, as all cases of it have, these are the queries */
static void gather_add_forward(Plain *p, int64_t number)
{
    const int64_t x = number % p->width, y = number / p->width % p->height, t = number / (p->width * p->height);
    const float *theirs = (const float *)p->call->tensors.gather.out.data + number * p->channels;
    for (int64_t c = 0; c < p->channels; c++) p->out[c] = 0;
    for (int64_t head = 0; head < p->call->which->heads; head++) {
        float count = 0, *sum = p->out + head * p->features;
        gather_pixel(p, head, t, y, x, sum, 0, &count);
        for (int64_t c = 0; c < p->features; c++) sum[c] /= count;
    }
    compare(p, number, theirs, p->channels);
}

static void gather_forward(Plain *p, int64_t number)
{
    const int64_t x = number % p->width, y = number / p->width % p->height, t = number / (p->width * p->height), k = p->call->which->k;
    const int64_t plane = p->frames * p->height * p->width; /* of neighbours of a head */
    for (int64_t head = 0; head < p->call->which->heads; head++) {
        float count = 0;
        for (int64_t i = 0; i < k * p->features; i++) p->out[i] = 0;
        gather_pixel(p, head, t, y, x, p->out, p->features, &count);
        for (int64_t i = 0; i < k * p->features; i++) {
            const float *theirs = (const float *)p->call->tensors.gather.out.data + ((head * k + i / p->features) * plane + number) * p->features;
            p->out[i] /= count;
            const float mine = p->out[i], other = theirs[i % p->features];
            if (is_compared(number)) p->worst = fmaxf(p->worst, fabsf(mine - other) / (1e-3f + fabsf(other)));
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
    const int64_t at = q->number * p->call->which->k + neighbour, y = q->y + dy, x = q->x + dx;
    if (y < 0 || y >= p->height || x < 0 || x >= p->width) return;
    const float *offset = (const float *)s->offset.data + 3 * at, w = ((const float *)s->weight.data)[at];
    const int64_t frame = reflect(q->t + lrintf(offset[0]), p->frames);
    const float *base = frame_of(p, s->out.data, frame, q->head), *from = pixel_of(p, frame_of(p, s->value.data, q->t, q->head), y, x);
    const Taps taps = taps_at(p, base, reflect_real((double)q->y + (double)offset[1], (double)(p->height - 1)) + (double)dy,
                              reflect_real((double)q->x + (double)offset[2], (double)(p->width - 1)) + (double)dx);
    for (int i = 0; i < (taps.whole ? 1 : 4); i++) {
        float *to = (float *)taps.at[i];
        for (int64_t c = 0; c < p->features; c++) to[c] += w * taps.weight[i] * from[c];
        const int64_t pixel = (to - (const float *)s->out.data) / p->channels;
        ((float *)s->total.data)[pixel * p->call->which->heads + q->head] += w * taps.weight[i];
    }
}

static void scatter_add_forward(Plain *p, int64_t number)
{
    const Query q = query_at(p, number);
    const int64_t ps = p->call->which->ps, r = ps / 2;
    for (int64_t k = 0; k < p->call->which->k; k++)
        for (int64_t a = 0; a < ps * ps; a++) scatter_pixel(p, &q, k, a / ps - r, a % ps - r);
}

/* ---- time ---- */

typedef void (*Visit)(Plain *p, int64_t number);

static Visit visit_of(const BenchCase *c, bool backward)
{
    if (bench_is_matching(c)) return backward ? search_backward : search_forward;
    if (!strcmp(c->op, "weights")) return backward ? weights_backward : weights_forward;
    if (backward || !bench_is_aggregation(c)) return NULL;
    if (!strcmp(c->op, "scatter_add")) return scatter_add_forward;
    if (c->stride0 != 1) return NULL;
    return !strcmp(c->op, "gather") ? gather_forward : gather_add_forward;
}

static bool make_plain(Plain *p, const BenchCall *call)
{
    const BenchCase *w = call->which;
    const int64_t rows = (w->height + w->stride0 - 1) / w->stride0, columns = (w->width + w->stride0 - 1) / w->stride0;
    *p = (Plain){ .call = call,
                  .frames = w->frames,
                  .height = w->height,
                  .width = w->width,
                  .channels = w->channels,
                  .features = w->channels / w->heads,
                  .rows = rows,
                  .columns = columns };
    const int64_t stack = w->k * p->features, most = candidates(p) > stack ? candidates(p) : stack;
    p->out = malloc((size_t)(most > w->channels ? most : w->channels) * sizeof *p->out);
    p->kept = malloc((size_t)w->k * sizeof *p->kept);
    return p->out && p->kept;
}

double bench_plain(const BenchCall *call, bool backward, double budget, double *queries, double *difference)
{
    Plain p;
    const Visit visit = visit_of(call->which, backward);
    const int64_t heads = strncmp(call->which->op, "gather", 6) ? call->which->heads : 1; /* these do all at once */
    double seconds = NAN;
    *difference = NAN;
    *queries = 0;
    if (!visit) return NAN;
    if (make_plain(&p, call)) {
        const int64_t count = heads * p.frames * p.rows * p.columns, first = count / 2 + p.columns / 4;
        const double start = bench_now();
        int64_t done = 0;
        while (done < count && (done % 8 || bench_now() - start < budget)) visit(&p, (first + done++) % count);
        seconds = (bench_now() - start) * (double)heads / (double)done;
        *queries = (double)done / (double)heads;
        if (!backward && strcmp(call->which->op, "scatter_add")) *difference = (double)p.worst;
    }
    free(p.out);
    free(p.kept);
    return seconds;
}
