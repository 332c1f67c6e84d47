/* match_grad_single.c: gradients of a search by single pixels. Numbers of kept neighbours are listed, then each loop goes over the whole list (simd/dsp.h: settle, aim, pull_list, tilt): where they are, which
 * pixels and weights that means, what they pull at, and what that does to the flow. Neighbour by neighbour finding them took longer than the sums. */
#include "cpu/match_grad_query.h"
#include <math.h>

/* What is given of the neighbours of a list beside SnlsSettled, and slopes of those whose centres lie beyond the frame, a bit each in reflected. */
typedef struct Singles {
    SnlsSettled at;
    int64_t n;
    uint64_t reflected;
    int32_t place[SNLS_SETTLE], head[SNLS_SETTLE];
    float   g[SNLS_SETTLE], along[SNLS_SETTLE][4];
    double  slope_y[SNLS_SETTLE], slope_x[SNLS_SETTLE];
} Singles;

/* Steps to a pixel have to be a power of two, and all numbers small. */
bool snls_grad_settles(const CpuGrad *p, const CpuQueryBand *band)
{
    const SnlsMatch *m = &p->c.m;
    int exponent;
    const bool plain = m->ps == 1 && !m->refine && !band->want_reach && band->want_any, steps = frexp(m->stride1, &exponent) == 0.5 && exponent > -8 && exponent < 8;
    return plain && steps && m->height > 1 && m->width > 1 && m->height < 1 << 20 && m->width < 1 << 20 && m->frames < 1 << 20 && m->kept < 1 << 30 && p->cells < 1 << 20 && m->heads < 1 << 20;
}

static void settle_list(const CpuGrad *p, const CpuGradQuery *row, const CpuQueryBand *band, Singles *s)
{
    const SnlsMatch *m = &p->c.m;
    const bool flow = m->flow_slots > 0; /* else there are no strides either */
    const SnlsSettle by = {.centre = flow ? m->centre.data : NULL, .centre_window = p->centre_window, .step_y = flow ? snls_match_step_y(m) : 0, .step_x = flow ? snls_match_step_x(m) : 0,
                           .first = (int32_t)(m->windows - m->flow_slots), .cells = (int32_t)p->cells, .side = (int32_t)p->side, .nearest = m->nearest, .slide = m->slide, .time = (int32_t)band->at.t, .turn = (int32_t)row->turn,
                           .y = (double)(band->at.i * m->stride0), .stride0 = (double)m->stride0, .stride1 = m->stride1, .last_y = (double)(m->height - 1), .last_x = (double)(m->width - 1)};
    p->c.dsp->settle(&s->at, s->n, &by);
    s->reflected = 0;
    for (int64_t i = 0; i < s->n; i++) {
        if (s->at.state[i] >= 0) continue;
        const CpuGradQuery at = snls_grad_query(p, row, s->at.column[i], s->head[i]);
        const uint32_t cell = (uint32_t)s->at.id[i] % p->cells;
        CpuKept kept = {.window = s->at.window[i]};
        s->at.state[i] = snls_grad_kept_anywhere(p, &at, cell / p->side, cell % p->side, &kept);
        s->at.y[i] = kept.y, s->at.x[i] = kept.x, s->slope_y[i] = kept.slope_y, s->slope_x[i] = kept.slope_x;
        s->reflected |= 1ull << i;
    }
}

/* Leaves those that are there and of which the band has something, in order. */
static void sift_list(const CpuQueryBand *band, Singles *s)
{
    SnlsSettled *a = &s->at;
    const double first = (double)(band->at.first - 1), end = (double)band->at.end;
    int64_t n = 0, all = 0;
    for (int64_t i = 0; i < s->n; i++) {
        a->state[i] = (a->state[i] > 0) & (band->own | ((a->y[i] < end) & (a->y[i] > first)));
        all += a->state[i];
    }
    for (int64_t i = 0; i < s->n && all < s->n; i++) {
        if (!a->state[i]) continue;
        const uint64_t bit = s->reflected >> i & 1;
        a->column[n] = a->column[i], a->window[n] = a->window[i], a->frame[n] = a->frame[i], a->y[n] = a->y[i], a->x[n] = a->x[i];
        s->place[n] = s->place[i], s->head[n] = s->head[i], s->g[n] = s->g[i], s->slope_y[n] = s->slope_y[i], s->slope_x[n] = s->slope_x[i];
        s->reflected = (s->reflected & ~(1ull << n)) | bit << n;
        n++;
    }
    s->n = all;
}

/* Asks for the pixels of a list before the first is used. */
static void ask_list(const CpuGradSingles *c, const Singles *s)
{
    const SnlsSettled *a = &s->at;
    for (int64_t i = 0; i < s->n; i++) {
        const int64_t channel = s->head[i] * c->features, beside = a->shape[i] & 1;
        const float *key = c->key + a->at[i] + channel;
        snls_grad_prefetch_run(key, beside * c->key_step[2] + c->features);
        if (a->shape[i] & 2) snls_grad_prefetch_run(key + c->key_step[1], beside * c->key_step[2] + c->features);
        if (!c->out) continue;
        const float *out = c->out + a->out[i] + channel;
        snls_grad_prefetch_run(out, beside * c->out_step[2] + c->features);
        if (a->shape[i] & 2) snls_grad_prefetch_run(out + c->out_step[1], beside * c->out_step[2] + c->features);
    }
}

static void pull_list(const CpuGrad *p, const CpuQueryBand *band, const CpuGradSingles *c, Singles *s)
{
    const SnlsMatch *m = &p->c.m;
    const bool want_place = p->g.centre.data && band->own && p->g.dist.data;
    const SnlsPulls by = {.q = c->q, .key = c->key, .to = c->to, .out = c->out, .q_step = c->q_step, .to_step = c->to_step, .right = c->key_step[2], .down = c->key_step[1], .out_right = c->out_step[2],
                          .out_down = c->out_step[1], .n = c->features, .head = s->head, .g = s->g, .along = s->along, .first_along = want_place ? (int32_t)(m->windows - m->flow_slots) : INT32_MAX,
                          .twice = c->twice, .prod = c->prod};
    p->c.dsp->pull_list(&s->at, s->n, &by);
}

static void add_list_centres(const CpuGrad *p, const CpuQueryBand *band, Singles *s)
{
    const SnlsMatch *m = &p->c.m;
    SnlsSettled *a = &s->at;
    const CpuCentres centres = snls_grad_centres(p, &band->at);
    const SnlsTilt by = {s->g, (const float(*)[4])s->along, m->prod ? 1 : 2};
    if (!centres.sums || !band->own) return;
    if (p->g.dist.data) p->c.dsp->tilt(a, s->n, &by);
    for (int64_t i = 0; i < s->n; i++) {
        if (!snls_match_has_centre(m, a->window[i])) continue;
        const bool reflected = s->reflected >> i & 1;
        const CpuKept kept = {.j = a->column[i], .head = s->head[i], .place = s->place[i], .window = a->window[i], .slope_y = reflected ? s->slope_y[i] : 1, .slope_x = reflected ? s->slope_x[i] : 1};
        snls_grad_add_centre(p, &centres, &kept, p->g.dist.data ? a->by_y[i] : 0, p->g.dist.data ? a->by_x[i] : 0);
    }
}

static void take_numbers(const CpuGrad *p, const CpuGradQuery *row, const CpuQueryBand *band, Singles *s)
{
    const CpuGradSingles c = snls_grad_singles(p, &band->at, band->want_query && band->own, band->want_key);
    const SnlsAim aim = {{c.key_step[0], c.key_step[1], c.key_step[2]}, {c.out_step[0], c.out_step[1], c.out_step[2]}, (int32_t)c.height, (int32_t)c.width, (int32_t)c.first, (int32_t)c.end};
    settle_list(p, row, band, s);
    sift_list(band, s);
    p->c.dsp->aim(&s->at, s->n, &aim);
    ask_list(&c, s);
    pull_list(p, band, &c, s);
    add_list_centres(p, band, s);
    s->n = 0;
}

void snls_grad_single_row(const CpuGrad *p, const CpuQueryBand *band)
{
    const SnlsMatch *m = &p->c.m;
    const CpuGradQuery row = snls_grad_row(p, band->at.b, band->at.t, band->at.i);
    Singles s = {.n = 0};
    for (int64_t j = band->left; j < band->right; j++)
        for (int64_t head = 0; head < m->heads; head++) { /* heads may share a flow: one owner takes all */
            const CpuGradQuery at = snls_grad_query(p, &row, j, head);
            for (int64_t place = 0; place < m->kept; place++) {
                const int32_t id = snls_grad_number(p, &at, place);
                s.at.id[s.n] = id, s.at.column[s.n] = (int32_t)j, s.at.centre[s.n] = at.centre, s.head[s.n] = (int32_t)head, s.place[s.n] = (int32_t)place;
                s.g[s.n] = snls_grad_dist(p, &at, place);
                s.n += id >= 0;
                if (s.n == SNLS_SETTLE) take_numbers(p, &row, band, &s);
            }
        }
    take_numbers(p, &row, band, &s);
}
