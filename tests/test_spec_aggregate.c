/* test_spec_aggregate.c: facts about flow composition, weights and aggregation (docs/operators.md sections 3 to 5 and 8).
 *   test_spec_aggregate [FACT] */
#include "spec.h"
#include <math.h>
#include <string.h>

/* ---- flow composition ---- */

static SnlsFlowCompose compose_of(int32_t wt, int32_t stride0, int64_t T, int64_t H, int64_t W)
{
    SnlsFlowCompose s;
    memset(&s, 0, sizeof s);
    snls_flow_compose_defaults(&s.params);
    s.params.wt = wt;
    s.params.stride0 = stride0;
    s.fflow = spec_tensor(SNLS_F32, SHAPE(1, T, H, W, 2));
    s.bflow = spec_tensor(SNLS_F32, SHAPE(1, T, H, W, 2));
    s.flow = spec_tensor(SNLS_F32, SHAPE(1, T, 2 * wt, (H + stride0 - 1) / stride0, (W + stride0 - 1) / stride0, 2));
    return s;
}

/* A constant flow composes to exactly n*c, n the number of frames apart; wherever that leads. */
static void constant_flow(SnlsContext *ctx)
{
    enum { T = 7, WT = 2 };
    for (int32_t stride0 = 1; stride0 < 4; stride0++) {
        SnlsFlowCompose s = compose_of(WT, stride0, T, 4, 5);
        const double f[2] = {1.375, -2.3125}, b[2] = {-0.71875, 9.0625}; /* whole multiples of 1/32: n*c is exact */
        for (int64_t i = 0; i < tensor_count(&s.fflow); i++) {
            tensor_set(&s.fflow, i, f[i % 2]);
            tensor_set(&s.bflow, i, b[i % 2]);
        }
        if (!CHECK(snls_flow_compose_forward(ctx, &s) == SNLS_OK, "%s", snls_error(ctx))) return;
        const int64_t each = s.flow.shape[3] * s.flow.shape[4] * 2;
        for (int64_t i = 0; i < tensor_count(&s.flow); i++) {
            const int64_t t = i / each / (2 * WT), slot = i / each % (2 * WT) + 1, n = model_frame(t, slot, WT, T) - t;
            const double want = n > 0 ? (double)n * f[i % 2] : (double)-n * b[i % 2];
            CHECK(tensor_get(&s.flow, i) == want, "time %d slot %d: %.9g, expected %d steps: %.9g", (int)t, (int)slot, tensor_get(&s.flow, i), (int)n, want);
        }
        tensors_free();
    }
}

/* F(x) = A x + c, read exactly between the pixels: x_n has the closed form of the recursion, here simply iterated. */
static void affine_flow(SnlsContext *ctx)
{
    enum { T = 5, N = 24 };
    const double a = 1.0 / 64, b = -1.0 / 128, c = 0.5, d = -0.25;
    SnlsFlowCompose s = compose_of(2, 1, T, N, N);
    for (int64_t i = 0; i < T * N * N; i++) {
        const double x = (double)(i % N), y = (double)(i / N % N), u = a * x + b * y + c, v = b * x - a * y + d;
        tensor_set(&s.fflow, 2 * i, u);
        tensor_set(&s.fflow, 2 * i + 1, v);
        tensor_set(&s.bflow, 2 * i, -u);
        tensor_set(&s.bflow, 2 * i + 1, -v);
    }
    if (!CHECK(snls_flow_compose_forward(ctx, &s) == SNLS_OK, "%s", snls_error(ctx))) return;
    for (int64_t t = 0; t < T; t++)
        for (int64_t slot = 1; slot <= 4; slot++)
            for (int64_t q = 0; q < N * N; q++) {
                const int64_t n = model_frame(t, slot, 2, T) - t, y0 = q / N, x0 = q % N;
                if (y0 < 6 || y0 >= N - 6 || x0 < 6 || x0 >= N - 6) continue; /* the walk must stay inside */
                double x = (double)x0, y = (double)y0;
                for (int64_t step = 0; step < (n < 0 ? -n : n); step++) {
                    const double u = a * x + b * y + c, v = b * x - a * y + d;
                    x += n > 0 ? u : -u;
                    y += n > 0 ? v : -v;
                }
                const int64_t at = ((t * 4 + slot - 1) * N * N + q) * 2;
                CHECK(fabs(tensor_get(&s.flow, at) - (x - (double)x0)) < 1e-6 && fabs(tensor_get(&s.flow, at + 1) - (y - (double)y0)) < 1e-6,
                      "time %d slot %d from (%d,%d): (%.9g, %.9g), expected (%.9g, %.9g)", (int)t, (int)slot, (int)y0, (int)x0, tensor_get(&s.flow, at),
                      tensor_get(&s.flow, at + 1), x - (double)x0, y - (double)y0);
            }
}

static void no_flow(SnlsContext *ctx)
{
    SnlsFlowCompose s = compose_of(0, 1, 3, 4, 4);
    CHECK(snls_flow_compose_forward(ctx, &s) == SNLS_OK, "wt 0: %s", snls_error(ctx));
    s.flow.data = NULL;
    CHECK(snls_flow_compose_shape(ctx, &s) == SNLS_OK && s.flow.ndim == 6 && s.flow.shape[2] == 0, "wt 0: the flow has %d slots", (int)s.flow.shape[2]);
}

/* ---- weights ---- */

static SnlsWeights weights_of(int32_t dist, double scale, int64_t K, const double *d)
{
    SnlsWeights s;
    memset(&s, 0, sizeof s);
    snls_weights_defaults(&s.params);
    s.params.dist = dist;
    s.params.scale = scale;
    s.dist = spec_tensor(SNLS_F32, SHAPE(1, 1, 1, 1, 1, K));
    s.weight = spec_tensor(SNLS_F32, SHAPE(1, 1, 1, 1, 1, K));
    for (int64_t k = 0; k < K; k++) tensor_set(&s.dist, k, d[k]);
    return s;
}

static void softmax(SnlsContext *ctx)
{
    static const double d[6] = {0.5, 0.25, INFINITY, 0.25, NAN, 3}, none[3] = {INFINITY, NAN, -INFINITY}, huge[3] = {1e30, 2e30, 1e30};
    SnlsWeightsParams defaults;
    snls_weights_defaults(&defaults);
    CHECK(defaults.scale == 10 && defaults.dist == SNLS_DIST_L2, "the default scale is %g", defaults.scale);
    for (int32_t dist = 0; dist < 2; dist++) {
        const SnlsWeights s = weights_of(dist, 10, 6, d);
        double sum = 0;
        if (!CHECK(snls_weights_forward(ctx, &s) == SNLS_OK, "%s", snls_error(ctx))) return;
        for (int64_t k = 0; k < 6; k++) sum += tensor_get(&s.weight, k);
        CHECK(fabs(sum - 1) < 1e-6, "the weights sum to %.9g", sum);
        CHECK(tensor_get(&s.weight, 2) == 0 && tensor_get(&s.weight, 4) == 0, "invalid neighbours weigh something");
        CHECK(tensor_get(&s.weight, 1) == tensor_get(&s.weight, 3), "equal distances, unequal weights");
        CHECK((tensor_get(&s.weight, 1) > tensor_get(&s.weight, 0)) == (dist == SNLS_DIST_L2), "the worse match weighs more");
        const double want = dist == SNLS_DIST_L2 ? exp(-2.5) : exp(2.5), got = tensor_get(&s.weight, 0) / tensor_get(&s.weight, 1);
        CHECK(dist == SNLS_DIST_PROD || fabs(got - want) < 1e-6 * want, "weights of 0.5 and 0.25 stand %.9g to 1, expected %.9g", got, want);
    }
    SnlsWeights s = weights_of(0, 10, 3, none);
    CHECK(snls_weights_forward(ctx, &s) == SNLS_OK && tensor_get(&s.weight, 0) == 0 && tensor_get(&s.weight, 1) == 0 && tensor_get(&s.weight, 2) == 0,
          "a query without neighbours has weights");
    s = weights_of(0, 10, 3, huge);
    CHECK(snls_weights_forward(ctx, &s) == SNLS_OK && tensor_get(&s.weight, 0) == 0.5 && tensor_get(&s.weight, 1) == 0, "huge distances: %g, %g",
          tensor_get(&s.weight, 0), tensor_get(&s.weight, 1));
    s = weights_of(1, 0, 3, huge);
    CHECK(snls_weights_forward(ctx, &s) == SNLS_OK && fabs(tensor_get(&s.weight, 1) - 1.0 / 3) < 1e-7, "scale 0: %g", tensor_get(&s.weight, 1));
}

/* ---- aggregation ---- */

static SnlsGather gather_of(int32_t ps, int32_t stride0, int64_t T, int64_t H, int64_t W, int64_t F, int64_t heads, int64_t K)
{
    SnlsGather s;
    memset(&s, 0, sizeof s);
    snls_gather_defaults(&s.params);
    s.params.ps = ps;
    s.params.stride0 = stride0;
    const int64_t rows = (H + stride0 - 1) / stride0, columns = (W + stride0 - 1) / stride0;
    s.value = spec_tensor(SNLS_F32, SHAPE(1, T, H, W, heads * F));
    s.weight = spec_tensor(SNLS_F32, SHAPE(1, heads, T, rows, columns, K));
    s.offset = spec_tensor(SNLS_F32, SHAPE(1, heads, T, rows, columns, K, 3));
    s.out = spec_tensor(SNLS_F32, SHAPE(1, T, H, W, heads * F));
    return s;
}

static bool full_coverage(int64_t ps, int64_t stride0) { return stride0 - 1 <= (ps - 1) / 2; }

/* A weight is a factor of what is read, not of its taps: an infinite one gives infinity of the sign that is read, though the
 * taps are of both signs. */
static void infinite_weight(SnlsContext *ctx)
{
    enum { N = 19, F = 5 };
    Rng rng = {3};
    for (int32_t ps = 1; ps < 4; ps += 2)
        for (int sign = -1; sign < 2; sign += 2) {
            SnlsGather s = gather_of(ps, 1, 1, N, N, F, 1, 2);
            spec_random(&s.value, &rng);
            for (int64_t q = 0; q < N * N; q++) {
                tensor_set(&s.weight, 2 * q, 1);
                tensor_set(&s.weight, 2 * q + 1, sign * INFINITY);
                for (int axis = 1; axis < 3; axis++) tensor_set(&s.offset, 3 * (2 * q + 1) + axis, 0.5);
            }
            CHECK(snls_gather_add_forward(ctx, &s) == SNLS_OK, "gather_add: %s", snls_error(ctx));
            for (int64_t y = 2; y < N - 4; y++)
                for (int64_t i = 2 * F; i < (N - 4) * F; i++) {
                    const int64_t at = y * N * F + i;
                    const double read = tensor_get(&s.value, at) + tensor_get(&s.value, at + F) + tensor_get(&s.value, at + N * F) + tensor_get(&s.value, at + N * F + F);
                    const double got = tensor_get(&s.out, at);
                    CHECK(isinf(got) && (got > 0) == (sign * read > 0), "ps %d: infinity times %g is %g", (int)ps, read, got);
                }
        }
}

/* One-hot weights at offset 0: the value itself, where covered: 0 elsewhere. */
static void identity_of(SnlsContext *ctx, int32_t ps, int32_t stride0, int64_t H, int64_t W)
{
    Rng rng = {(uint64_t)(ps * 1000 + stride0 * 100 + H * 10 + W)};
    SnlsGather s = gather_of(ps, stride0, 1, H, W, 2, 1, 2);
    for (int64_t i = 0; i < tensor_count(&s.value); i++) tensor_set(&s.value, i, (double)rng_int(&rng, -99, 99));
    for (int64_t i = 0; i < tensor_count(&s.weight); i += 2) {
        const int64_t hot = i + rng_int(&rng, 0, 1), cold = i + i + 1 - hot;
        tensor_set(&s.weight, hot, 1);
        for (int axis = 0; axis < 3; axis++) tensor_set(&s.offset, 3 * cold + axis, rng_real(&rng, -9, 9));
    }
    const SnlsStatus status = snls_gather_add_forward(ctx, &s);
    bool same = true, holes = false;
    for (int64_t i = 0; i < tensor_count(&s.out); i++) {
        const int64_t y = i / 2 / W, x = i / 2 % W;
        const bool hole = !model_cover(y, H, ps, 1, stride0) || !model_cover(x, W, ps, 1, stride0);
        holes = holes || hole;
        same = same && fabs(tensor_get(&s.out, i) - (hole ? 0 : tensor_get(&s.value, i))) <= (ps * ps + 4) * EPS_F32 * 99;
    }
    CHECK(same, "ps %d stride0 %d, %dx%d: not the identity", (int)ps, (int)stride0, (int)H, (int)W);
    CHECK(status == (holes ? SNLS_UNCOVERED : SNLS_OK), "ps %d stride0 %d, %dx%d: status %d", (int)ps, (int)stride0, (int)H, (int)W, (int)status);
    CHECK(!holes || !full_coverage(ps, stride0), "ps %d stride0 %d, %dx%d: holes against the rule", (int)ps, (int)stride0, (int)H, (int)W);
    tensors_free();
}

static void identity(SnlsContext *ctx)
{
    for (int32_t ps = 1; ps <= 7; ps++)
        for (int32_t stride0 = 1; stride0 <= 5; stride0++)
            for (int64_t H = 1; H <= 9; H += H < 4 ? 1 : 2)
                for (int64_t W = 1; W <= 11; W += W < 4 ? 1 : 3) identity_of(ctx, ps, stride0, H, W);
}

/* The rule is sharp: where it fails, some size has a hole. */
static void coverage_rule(SnlsContext *ctx)
{
    for (int32_t ps = 1; ps <= 9; ps++)
        for (int32_t stride0 = 1; stride0 <= 7; stride0++) {
            bool hole = false;
            for (int64_t n = 1; n <= 20; n++) {
                const SnlsGather s = gather_of(ps, stride0, 1, n, 1, 1, 1, 1);
                hole = hole || snls_gather_add_forward(ctx, &s) == SNLS_UNCOVERED;
                tensors_free();
            }
            CHECK(hole == !full_coverage(ps, stride0), "ps %d stride0 %d: %s", (int)ps, (int)stride0, hole ? "holes against the rule" : "no hole");
        }
}

static void random_neighbours(SnlsGather *s, Rng *rng)
{
    spec_random(&s->value, rng);
    spec_random(&s->weight, rng);
    for (int64_t i = 0; i < tensor_count(&s->offset); i++)
        tensor_set(&s->offset, i, i % 3 ? rng_real(rng, -20, 20) : (double)rng_int(rng, -3, 3));
}

/* V = 1 and weights that sum to 1 give 1, wherever the neighbours are. */
static void ones(SnlsContext *ctx)
{
    Rng rng = {11};
    for (int32_t ps = 1; ps < 6; ps++) {
        SnlsGather s = gather_of(ps, (ps + 1) / 2, 3, 7, 5, 3, 2, 4);
        random_neighbours(&s, &rng);
        for (int64_t i = 0; i < tensor_count(&s.value); i++) tensor_set(&s.value, i, 1);
        for (int64_t i = 0; i < tensor_count(&s.weight); i++) tensor_set(&s.weight, i, (double)(i % 4 + 1) / 10);
        if (!CHECK(snls_gather_add_forward(ctx, &s) == SNLS_OK, "%s", snls_error(ctx))) return;
        double worst = 0;
        for (int64_t i = 0; i < tensor_count(&s.out); i++) worst = fmax(worst, fabs(tensor_get(&s.out, i) - 1));
        CHECK(worst < 2e-6, "ps %d: off by %g", (int)ps, worst);
        tensors_free();
    }
}

/* The stack, summed over K, is gather_add. */
static void stack_sums_to_gather_add(SnlsContext *ctx)
{
    Rng rng = {12};
    enum { H = 6, W = 5, F = 3, K = 4, T = 2, HEADS = 2 };
    SnlsGather s = gather_of(3, 2, T, H, W, F, HEADS, K), stack;
    random_neighbours(&s, &rng);
    stack = s;
    stack.out = spec_tensor(SNLS_F32, SHAPE(1, HEADS, K, T, H, W, F));
    if (!CHECK(snls_gather_add_forward(ctx, &s) >= 0 && snls_gather_forward(ctx, &stack) >= 0, "%s", snls_error(ctx))) return;
    double worst = 0;
    for (int64_t i = 0; i < tensor_count(&s.out); i++) {
        const int64_t c = i % (HEADS * F), pixel = i / (HEADS * F);
        double sum = 0;
        for (int64_t k = 0; k < K; k++) sum += tensor_get(&stack.out, (((c / F) * K + k) * T * H * W + pixel) * F + c % F);
        worst = fmax(worst, fabs(sum - tensor_get(&s.out, i)));
    }
    CHECK(worst < 1e-4, "off by %g", worst);
}

/* <gather_add(V) * c, Y> = <V, scatter_add(Y)>, and the total is the scatter of a video of ones. */
static void adjoint(SnlsContext *ctx)
{
    Rng rng = {13};
    for (int round = 0; round < 16; round++) {
        const int32_t ps = 1 + round % 4, stride0 = 1 + round / 4 % 3, dilation = 1 + round % 2;
        SnlsGather g = gather_of(ps, stride0, 2, 6, 5, 3, 2, 3);
        SnlsScatterAdd s;
        memset(&s, 0, sizeof s);
        random_neighbours(&g, &rng);
        g.params.border = round / 8;
        g.params.dilation = dilation;
        s.params = g.params; s.weight = g.weight; s.offset = g.offset;
        s.value = spec_tensor(SNLS_F32, g.value.ndim, g.value.shape);
        s.out = spec_tensor(SNLS_F32, g.value.ndim, g.value.shape);
        s.total = spec_tensor(SNLS_F32, SHAPE(1, 2, 6, 5, 2));
        spec_random(&s.value, &rng);
        if (!CHECK(snls_gather_add_forward(ctx, &g) >= 0 && snls_scatter_add_forward(ctx, &s) == SNLS_OK, "%s", snls_error(ctx))) return;
        double left = 0, right = 0, scale = 0;
        for (int64_t i = 0; i < tensor_count(&g.out); i++) {
            const int64_t y = i / 6 / 5 % 6, x = i / 6 % 5;
            const double c = (double)(model_cover(y, 6, ps, dilation, stride0) * model_cover(x, 5, ps, dilation, stride0));
            left += tensor_get(&g.out, i) * c * tensor_get(&s.value, i);
            right += tensor_get(&g.value, i) * tensor_get(&s.out, i);
            scale += fabs(tensor_get(&g.out, i) * c * tensor_get(&s.value, i)) + fabs(tensor_get(&g.value, i) * tensor_get(&s.out, i));
        }
        CHECK(fabs(left - right) < 1e-5 * scale, "round %d: <gather(V),Y> = %.9g, <V,scatter(Y)> = %.9g", round, left, right);
        for (int64_t i = 0; i < tensor_count(&s.value); i++) tensor_set(&s.value, i, 1);
        CHECK(snls_scatter_add_forward(ctx, &s) == SNLS_OK, "%s", snls_error(ctx));
        double worst = 0;
        for (int64_t i = 0; i < tensor_count(&s.total); i++) worst = fmax(worst, fabs(tensor_get(&s.total, i) - tensor_get(&s.out, i * 3)));
        CHECK(worst < 2e-5, "round %d: total is off by %g", round, worst);
        tensors_free();
    }
}

int main(int argc, char **argv)
{
    static const Fact facts[] = {{"constant_flow", constant_flow}, {"affine_flow", affine_flow}, {"no_flow", no_flow}, {"softmax", softmax},
                                 {"infinite_weight", infinite_weight}, {"identity", identity}, {"coverage_rule", coverage_rule}, {"ones", ones},
                                 {"stack_sums_to_gather_add", stack_sums_to_gather_add}, {"adjoint", adjoint}};
    spec_run_facts("test_spec_aggregate", facts, (int)(sizeof facts / sizeof *facts), argc, argv);
    return check_end();
}
