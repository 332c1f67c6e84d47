/* plain.c: searches and their backward passes as a careful programmer writes them down: loops over query, frame,
 * candidate, patch pixel and channel, in float, one thread, no vectors, no tiles; a place between pixels is read from its
 * four taps. The other operators are in plain_other.c. */
#include "plain.h"
#include <string.h>

/* Without room for results. */
static Plain plain_of(const BenchCall *call)
{
    const BenchCase *w = call->which;
    const int64_t rows = (w->height + w->stride0 - 1) / w->stride0, columns = (w->width + w->stride0 - 1) / w->stride0;
    const bool is_flow = !strcmp(w->op, "flow_compose");
    return (Plain){ .call = call,
                    .frames = w->frames,
                    .height = w->height,
                    .width = w->width,
                    .channels = is_flow ? 2 : w->channels,
                    .features = is_flow ? 2 : w->channels / w->heads,
                    .rows = rows,
                    .columns = columns };
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

static int64_t windows_of(const Plain *p) /* of a query */
{
    return is_refine(p) ? p->call->which->k : 2 * p->call->which->wt + 1;
}

static int64_t candidates(const Plain *p)
{
    const BenchCase *w = p->call->which;
    return windows_of(p) * w->ws * w->ws;
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

static void search_forward(Plain *p, int64_t number)
{
    const Query q = query_at(p, number);
    const BenchCase *w = p->call->which;
    const int64_t k = kept_count(p);
    int64_t count = 0;
    for (int64_t i = 0; i < k; i++) p->out[i] = w->dist == SNLS_DIST_PROD ? -INFINITY : INFINITY;
    for (int64_t slot = 0; slot < windows_of(p); slot++) search_window(p, &q, slot, &count);
    compare(p, number, (const float *)views_of(p).dist->data + number * k, k);
}

/* ---- search, backward ---- */

typedef struct Pull {
    float g;    /* gradient by the distance of one kept neighbour */
    float y, x; /* and by the place of one of its pixels */
} Pull;

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
        pull->y += by_key * slope_y(t, c);
        pull->x += by_key * slope_x(t, c);
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

/* ---- the arithmetic of a backward pass ---- */

/* A kept neighbour, for one term: the key from its taps (2 each; one is taken as it is), the query's gradient (2), the key's (2 a
 * tap), the difference of l2 (1), and where the place moves with a flow or a given one its slopes, from sums over the taps (2 each:
 * four, but three at a pixel, where the slopes are those to the next one along each axis). */
static double neighbour_flops(const BenchCase *w, bool whole_y, bool whole_x, bool moves)
{
    const double taps = (whole_y ? 1 : 2) * (whole_x ? 1 : 2), sums = whole_y && whole_x ? 3 : 4;
    return (taps > 1 ? 2 * taps : 0) + 2 + 2 * taps + (w->dist == SNLS_DIST_L2) + (moves ? 2 * sums : 0);
}

/* Pixels of a patch are whole steps apart, so all are read from as many taps. */
static double query_flops(const Plain *p, int64_t number)
{
    const BenchCase *w = p->call->which;
    const Views v = views_of(p);
    const Query q = query_at(p, number);
    const int32_t *index = (const int32_t *)v.index->data + number * kept_count(p);
    const int64_t cells = (int64_t)w->ws * w->ws;
    Window window = { 0 };
    double flops = 0;
    for (int64_t i = 0, slot, last = -1; i < kept_count(p); i++) {
        if (index[i] < 0) continue;
        slot = index[i] / cells;
        if (slot != last) window = window_at(p, &q, slot);
        last = slot;
        const double y = window.y + w->stride1 * (double)(index[i] / w->ws % w->ws), x = window.x + w->stride1 * (double)(index[i] % w->ws);
        flops += neighbour_flops(w, y == floor(y), x == floor(x), is_refine(p) || (slot && v.centre->data));
    }
    return flops * (double)(w->ps * w->ps * p->features);
}

double bench_kept_flops(const BenchCall *call)
{
    const Plain p = plain_of(call);
    double flops = 0;
    for (int64_t i = 0; i < call->which->heads * p.frames * p.rows * p.columns; i++) flops += query_flops(&p, i);
    return flops;
}

/* ---- and of a forward pass ---- */

/* Along an axis. */
static int64_t places_within(const BenchCase *w, double first, double last)
{
    int64_t count = 0;
    for (int64_t i = 0; i < w->ws; i++) {
        const double at = first + w->stride1 * (double)i;
        count += at >= 0 && at <= last;
    }
    return count;
}

double bench_candidates(const BenchCall *call)
{
    const BenchCase *w = call->which;
    const Plain p = plain_of(call);
    const int64_t queries = w->heads * p.frames * p.rows * p.columns, windows = windows_of(&p);
    double sum = 0;
    for (int64_t i = 0; i < queries * windows; i++) {
        const Query q = query_at(&p, i / windows);
        const Window window = window_at(&p, &q, i % windows);
        sum += (double)(places_within(w, window.y, (double)(p.height - 1)) *
                        places_within(w, window.x, (double)(p.width - 1)));
    }
    return sum;
}

/* ---- time ---- */

static Visit visit_of(const BenchCase *c, bool backward)
{
    if (!bench_is_matching(c)) return bench_plain_other(c, backward);
    return backward ? search_backward : search_forward;
}

static bool make_plain(Plain *p, const BenchCall *call)
{
    const BenchCase *w = call->which;
    *p = plain_of(call);
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
