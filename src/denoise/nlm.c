/* nlm.c: method nlm, for comparison: around the motion search finds each query's best patches in every frame, gather_add sums them over all
 * frames (both are public operators, docs/operators.md) by the weights from which the least error is to be expected. */
#include "denoise/nlb.h"
#include "op/op.h"
#include <snls/ops.h>
#include <math.h>
#include <string.h>

/* What patches differ by partly cancels in their mean: so much of it, as squares, is left. */
#define REMAINS 0.25

void snls_nlb_nlm_sizes(const NlbPlan *p, NlbNlm *n)
{
    const int64_t span = 2 * p->radius + 1;
    n->stride =
        p->step[0].stride < (p->side - 1) / 2 + 1 ? p->step[0].stride : (p->side - 1) / 2 + 1; /* patches cover all */
    n->rows = (p->height + n->stride - 1) / n->stride;
    n->columns = (p->width + n->stride - 1) / n->stride;
    n->k = (p->step[0].patches + span - 1) / span;
}

/* flow (rows, columns, 2): one frame further, to the next (way 0) or the one before (way 1) of frame s. */
static void follow(const SnlsDenoiser *d, float *flow, int64_t s, int way)
{
    const NlbPlan *p = &d->plan;
    const NlbNlm *n = &d->nlm;
    const int16_t *motion = snls_nlb_frame(d, s)->motion[0][way];
    for (int64_t i = 0; motion && i < n->rows * n->columns; i++) {
        float *at = flow + 2 * i;
        const int64_t y = snls_nlb_clamp(i / n->columns * n->stride + (int64_t)at[1], 0, p->height - 1),
                      x = snls_nlb_clamp(i % n->columns * n->stride + (int64_t)at[0], 0, p->width - 1);
        at[0] += motion[2 * (y * p->width + x)];
        at[1] += motion[2 * (y * p->width + x) + 1];
    }
}

static SnlsTensor video_of(const NlbPlan *p, float *planes) /* (1,1,H,W,C) */
{
    SnlsTensor t = snls_tensor(planes, SNLS_F32, 5, (const int64_t[]){ 1, 1, p->height, p->width, p->channels });
    t.stride[2] = p->width;
    t.stride[3] = 1;
    t.stride[4] = p->plane;
    return t;
}

/* The part of lists over all frames that belongs to frame number i of count. */
static SnlsTensor lists_of(const NlbNlm *n, float *data, int64_t i, int64_t count, int64_t parts)
{
    const int64_t whole[7] = { 1, 1, 1, n->rows, n->columns, n->k * count, parts };
    SnlsTensor t = snls_tensor(data, SNLS_F32, parts > 1 ? 7 : 6, whole);
    t.shape[5] = n->k;
    t.data = data + i * n->k * parts;
    return t;
}

static SnlsSearch search_call(const NlbPlan *p, const NlbNlm *n, float *query, float *key)
{
    SnlsSearch call = { .query = video_of(p, query),
                        .key = video_of(p, key),
                        .flow = snls_tensor(n->flow, SNLS_F32, 6, (const int64_t[]){ 1, 1, 1, n->rows, n->columns, 2 }) };
    snls_search_defaults(&call.params);
    call.params.ws = (int32_t)p->step[0].window;
    call.params.ps = (int32_t)p->side;
    call.params.k = (int32_t)n->k;
    call.params.stride0 = (int32_t)n->stride;
    call.params.interp = SNLS_INTERP_NEAREST;
    return call;
}

static SnlsStatus search(SnlsDenoiser *d, int64_t t, int64_t s, int64_t i, int64_t count)
{
    const NlbNlm *n = &d->nlm;
    SnlsSearch call = search_call(&d->plan, n, snls_nlb_frame(d, t)->noisy, snls_nlb_frame(d, s)->noisy);
    call.dist = lists_of(n, n->dist, i, count, 1);
    call.offset = lists_of(n, n->offset, i, count, 3);
    return snls_search_forward(d->ctx, &call);
}

int64_t snls_nlb_nlm_scratch(const NlbPlan *p, int32_t threads)
{
    float there = 0; /* is not read */
    NlbNlm n = { .dist = &there, .offset = &there, .flow = &there };
    snls_nlb_nlm_sizes(p, &n);
    SnlsSearch call = search_call(p, &n, &there, &there);
    call.dist = lists_of(&n, n.dist, 0, 2 * p->radius + 1, 1);
    call.offset = lists_of(&n, n.offset, 0, 2 * p->radius + 1, 3);
    return snls_cpu_search_bytes(&call, threads, 0);
}

/* Searches from frame t outwards in one direction, as far as frame last. */
static SnlsStatus search_way(SnlsDenoiser *d, int64_t t, int64_t last, int64_t first, int64_t count)
{
    const int64_t step = last < t ? -1 : 1;
    memset(d->nlm.flow, 0, (size_t)(d->nlm.rows * d->nlm.columns * 2) * sizeof(float));
    for (int64_t s = t; s != last; s += step) {
        follow(d, d->nlm.flow, s, step < 0);
        SNLS_TRY(search(d, t, s + step, s + step - first, count));
    }
    return SNLS_OK;
}

/* Weights w of one query's patches that sum to 1. Noise leaves sigma^2 sum w^2 in their mean, and what patch i differs by beyond noise, d_i^2, leaves
 * REMAINS sum w d^2. Both together are least for w = (level - b) / 2 where that is positive, b = REMAINS d^2 / sigma^2: the more patches are alike, the
 * lower the level, and the more alike must they be. It is found from above, by leaving out what is over it until nothing is.
 * Expected of two noisy copies of one patch is a distance of noise, so that a patch like the query weighs as much as the query itself (dist 0). */
static void weigh_query(const float *dist, float *weight, int64_t count, double noise)
{
    const double per = 2 * REMAINS / noise; /* noise is 2 sigma^2 for each value of a patch */
    double level = 2;                       /* what the query alone has */
    for (int64_t i = 0; i < count; i++) weight[i] = (float)fmax(per * dist[i] - 2 * REMAINS, 0);
    for (int64_t last = -1, under = 0; under != last;) {
        double sum = 2;
        last = under;
        under = 0;
        for (int64_t i = 0; i < count; i++)
            if (weight[i] < level) sum += weight[i], under++;
        level = sum / (double)under;
    }
    for (int64_t i = 0; i < count; i++) weight[i] = weight[i] < level ? (float)(level - weight[i]) / 2 : 0;
}

static void weigh(SnlsDenoiser *d, int64_t frames)
{
    const NlbNlm *n = &d->nlm;
    const int64_t count = n->k * frames;
    double noise = 0;
    for (int64_t c = 0; c < d->plan.channels; c++) noise += 2 * d->variance[c] * (double)(d->plan.side * d->plan.side);
#pragma omp parallel for num_threads(d->ctx->threads)
    for (int64_t q = 0; q < n->rows * n->columns; q++)
        weigh_query(n->dist + q * count, n->weight + q * count, count, noise);
}

static SnlsStatus gather(SnlsDenoiser *d, int64_t t, int64_t s, int64_t i, int64_t count)
{
    const NlbPlan *p = &d->plan;
    const NlbNlm *n = &d->nlm;
    SnlsGatherAdd call = { .value = video_of(p, snls_nlb_frame(d, s)->noisy),
                           .weight = lists_of(n, n->weight, i, count, 1),
                           .offset = lists_of(n, n->offset, i, count, 3),
                           .out = video_of(p, n->out) };
    snls_gather_add_defaults(&call.params);
    call.params.ps = (int32_t)p->side;
    call.params.stride0 = (int32_t)n->stride;
    call.params.interp = SNLS_INTERP_NEAREST;
    SNLS_TRY(snls_gather_add_forward(d->ctx, &call));
    float *sum = snls_nlb_frame(d, t)->sum[0];
    for (int64_t j = 0; j < p->channels * p->plane; j++) sum[j] += n->out[j];
    return SNLS_OK;
}

SnlsStatus snls_nlb_nlm(SnlsDenoiser *d, int64_t t)
{
    int64_t first;
    const int64_t count = snls_nlb_span(d, t, &first);
    memset(d->nlm.flow, 0, (size_t)(d->nlm.rows * d->nlm.columns * 2) * sizeof(float));
    SNLS_TRY(search(d, t, t, t - first, count));
    SNLS_TRY(search_way(d, t, first + count - 1, first, count));
    SNLS_TRY(search_way(d, t, first, first, count));
    weigh(d, count);
    for (int64_t i = 0; i < count; i++) SNLS_TRY(gather(d, t, first + i, i, count));
    return SNLS_OK;
}
