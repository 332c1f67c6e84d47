/* case_weights.c: random softmaxes: ties, infinite and NaN distances, rows without a valid neighbour. */
#include "case.h"
#include <math.h>

static const Slot slots[] = {
    {"dist", ROLE_IN, offsetof(SnlsWeights, dist)},             {"weight", ROLE_OUT, offsetof(SnlsWeights, weight)},
    {"weight", ROLE_GRAD_IN, offsetof(SnlsWeightsGrad, weight)}, {"dist", ROLE_GRAD_OUT, offsetof(SnlsWeightsGrad, dist)},
    {NULL, ROLE_IN, 0}};

static void make(Call *call)
{
    static const Cap caps[] = {{"scale", 40}, {NULL, 0}};
    Rng *rng = &call->rng;
    SnlsWeights *s = &call->s.weights;
    SnlsWeightsGrad *g = &call->g.weights;
    snls_weights_defaults(&s->params);
    draw_params(rng, "weights", &s->params, caps);
    s->params.scale = RNG_PICK(rng, 10, 10, 1, 0.1, 0, -2, 40);
    const int64_t shape[6] = {rng_int(rng, 1, 2), rng_int(rng, 1, 3), rng_int(rng, 1, 3), draw_size(rng), draw_size(rng), rng_int(rng, 1, draw_budget < 1 ? 6 : 40)};
    const int32_t dtype = call->kind == CALL_SMOOTH || (call->kind == CALL_ANY && rng_one_in(rng, 6)) ? SNLS_F64 : SNLS_F32;
    s->dist = tensor_new(rng, dtype, 6, shape, LAYOUT_INPUT);
    s->weight = tensor_new(rng, dtype, 6, shape, LAYOUT_OUTPUT);
    const double reach = call->kind == CALL_SMOOTH ? 1 : RNG_PICK(rng, 0.1, 1, 10, 300);
    for (int64_t i = 0; i < tensor_count(&s->dist); i++) {
        double d = rng_one_in(rng, 4) ? (double)rng_int(rng, 0, 3) : rng_real(rng, -reach, reach);
        if (call->kind == CALL_ANY && rng_one_in(rng, 10)) d = RNG_PICK(rng, INFINITY, -INFINITY, NAN);
        tensor_set(&s->dist, i, d);
    }
    for (int64_t i = 0; call->kind == CALL_ANY && i < shape[5]; i++) tensor_set(&s->dist, i, INFINITY); /* one row has nothing */
    while (!g->weight.data) draw_grad(call, &g->weight, &s->weight, false);
    draw_grad(call, &g->dist, &s->dist, true);
}

static double score(const Call *call, int64_t i)
{
    const SnlsWeightsParams *p = &call->s.weights.params;
    const double d = tensor_get(&call->s.weights.dist, i);
    return isfinite(d) ? (p->dist == SNLS_DIST_PROD ? p->scale * d : -p->scale * d) : -INFINITY;
}

/* exp(score - top) / sum: the argument is rounded, which exp turns into a relative error of |argument| eps. */
static void check_row(const Call *call, int64_t row, int64_t K, Sums *want)
{
    double top = -INFINITY, sum = 0;
    for (int64_t k = 0; k < K; k++) top = fmax(top, score(call, row * K + k));
    for (int64_t k = 0; k < K && isfinite(top); k++) sum += exp(score(call, row * K + k) - top);
    for (int64_t k = 0; k < K; k++) {
        const double s = score(call, row * K + k), w = isfinite(s) ? exp(s - top) / sum : 0;
        sums_add(want, row * K + k, w, w * ((double)K + 8 + 4 * (isfinite(s) ? fabs(s) + fabs(top) : 0)));
    }
}

static void check_forward(Call *call, double eps)
{
    const SnlsTensor *weight = &call->s.weights.weight;
    const int64_t K = weight->shape[5];
    Sums want = sums_new(tensor_count(weight));
    for (int64_t row = 0; row < want.count / K; row++) check_row(call, row, K, &want);
    check_sums("weight", weight, &want, eps);
    for (int64_t i = 0; i < want.count; i++)
        if (!isfinite(score(call, i))) CHECK(tensor_get(weight, i) == 0, "weights: an invalid neighbour weighs %g", tensor_get(weight, i));
}

/* From the stored weights: d dist_k = f w_k (g_k - sum w g), f = -scale (l2) or scale (prod). */
static void check_backward(Call *call, double eps)
{
    const SnlsWeights *s = &call->s.weights;
    const SnlsTensor *g = &call->g.weights.weight, *to = &call->g.weights.dist;
    const int64_t K = s->weight.shape[5];
    const double f = s->params.dist == SNLS_DIST_PROD ? s->params.scale : -s->params.scale;
    if (!to->data) return;
    Sums want = sums_new(tensor_count(to));
    for (int64_t row = 0; row < want.count / K; row++) {
        double mean = 0, mean_abs = 0;
        for (int64_t i = row * K; i < (row + 1) * K; i++) {
            mean += tensor_get(&s->weight, i) * tensor_get(g, i);
            mean_abs += fabs(tensor_get(&s->weight, i) * tensor_get(g, i));
        }
        for (int64_t i = row * K; i < (row + 1) * K; i++) {
            const double w = tensor_get(&s->weight, i), gi = tensor_get(g, i);
            sums_add(&want, i, tensor_was(to, i), 0);
            sums_add(&want, i, f * w * (gi - mean), fabs(f * w) * (4 * fabs(gi) + ((double)K + 4) * mean_abs));
        }
    }
    check_sums("gradient of dist", to, &want, eps);
}

const Case case_weights = {slots, make, check_forward, check_backward, NULL};
