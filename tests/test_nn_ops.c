/* test_nn_ops.c: every layer of backend cpu or cuda, forward and backward, against the reference.
 *   test_nn_ops [--backend cuda] [SEED [LAYER]] */
/* ctest: */
/* ctest: name=cuda label=cuda args=--backend cuda */
#include "case.h"
#include "net_layers.h"
#include "nn/blas.h"
#include "nn/dnnl.h"
#include <math.h>
#include <snls/snls.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BF16_SHARE 0.2 /* of a gradient's norm that bf16 may be off by: one flipped slope of a few numbers */

static SnlsContext *ref, *fast;

/* Quarters: sums of their products are exact in f32, so that both backends choose the same neighbours. */
static void make_exact(TestNet *t, Rng *rng)
{
    const SnlsTensor *x = &t->x;
    for (int64_t i = 0; i < snls_tensor_elements(x); i++) snls_store(x, i, (double)rng_int(rng, -8, 8));
    for (int64_t i = 0; i < t->params.total; i++) ((double *)t->params.value)[i] = (double)rng_int(rng, -4, 4) / 4;
}

/* Values of the reference, as the other stores them; the reference then has the same. */
static void share(const SnlsTensor *a, const SnlsTensor *b)
{
    for (int64_t i = 0; i < snls_tensor_elements(a); i++) {
        snls_store(b, i, snls_load(a, i));
        snls_store(a, i, snls_load(b, i));
    }
}

static double largest(const SnlsTensor *t)
{
    double most = 0;
    for (int64_t i = 0; i < snls_tensor_elements(t); i++) most = fmax(most, fabs(snls_load(t, i)));
    return most;
}

/* terms: roundings that one number may have seen; each is at most eps of the largest magnitude about */
static void compare(const char *what, const char *name, const SnlsTensor *got, const SnlsTensor *want, double terms, double eps)
{
    const double bound = terms * eps * (1 + largest(want));
    for (int64_t i = 0; i < snls_tensor_elements(want); i++) {
        const double g = snls_load(got, i), w = snls_load(want, i);
        if (!CHECK(fabs(g - w) <= bound, "%s: %s[%lld] is %.9g, the reference has %.9g (bound %.3g)", what, name, (long long)i, g, w, bound)) return;
    }
}

/* In bf16 a result near 0 may get another sign, and with it another slope: single numbers tell nothing then, all together do. What a step
 * computes is held to the last digits in f32. */
static void compare_together(const char *what, const char *name, const SnlsTensor *got, const SnlsTensor *want)
{
    double error = 0, size = 0;
    for (int64_t i = 0; i < snls_tensor_elements(want); i++) error += pow(snls_load(got, i) - snls_load(want, i), 2), size += pow(snls_load(want, i), 2);
    CHECK(error <= BF16_SHARE * BF16_SHARE * (size + 1e-2), "%s in bf16: %s is off by %.3g of its norm, %.3g", what, name, sqrt(error / (size + 1e-2)), sqrt(size));
}

static void compare_gradient(const char *what, const char *name, const TestNet *b, const SnlsTensor *got, const SnlsTensor *want, double terms)
{
    if (b->net.dtype == SNLS_F32) compare(what, name, got, want, terms, EPS_F32);
    else compare_together(what, name, got, want);
}

static void compare_gradients(const char *what, TestNet *a, TestNet *b)
{
    if (!test_net_backward(a) || !test_net_backward(b)) return;
    compare_gradient(what, "gradient of the input", b, &b->dx, &a->dx, 400);
    for (int64_t i = 0; i < a->params.count; i++) {
        const SnlsTensor want = snls_nn_param_view(&a->params, &a->params.list[i], a->params.grad), got = snls_nn_param_view(&b->params, &b->params.list[i], b->params.grad);
        compare_gradient(what, a->params.list[i].name, b, &got, &want, 2000);
    }
    double *once = malloc(sizeof(double) * (size_t)b->params.total); /* gradients add: a second pass doubles them */
    for (int64_t i = 0; i < b->params.total; i++) once[i] = ((float *)b->params.grad)[i];
    test_net_again(b);
    for (int64_t i = 0; i < b->params.total && a->net.step_count == 1; i++)
        if (!CHECK(fabs(((float *)b->params.grad)[i] - 2 * once[i]) <= 64 * EPS_F32 * (1 + fabs(once[i])), "%s: a gradient is not added", what)) break;
    free(once);
}

/* Which convolutions: those that are chosen on this machine, or those of BLAS or oneDNN, which would be chosen on others. */
typedef enum Way { CHOSEN, BY_BLAS, BY_DNNL } Way;

static bool is_there(Way way, int32_t dtype)
{
#ifdef SNLS_HAVE_DNNL
    if (way == BY_DNNL) return snls_nn_dnnl_conv(dtype) != NN_DNNL_NONE;
#endif
#ifdef SNLS_HAVE_LAPACK
    if (way == BY_BLAS) return true;
#endif
    (void)dtype;
    return way == CHOSEN;
}

static void choose(TestNet *t, Way way)
{
    static NnBackend table;
    table = *t->net.backend;
#ifdef SNLS_HAVE_LAPACK
    if (way == BY_BLAS) table.op[NN_conv].forward = snls_nn_blas_conv_forward, table.op[NN_conv].backward = snls_nn_blas_conv_backward, table.release = snls_nn_blas_conv_release;
#endif
#ifdef SNLS_HAVE_DNNL
    if (way == BY_DNNL) table.op[NN_conv].forward = snls_nn_dnnl_conv_forward, table.op[NN_conv].backward = snls_nn_dnnl_conv_backward, table.release = snls_nn_dnnl_release;
#endif
    if (way != CHOSEN) t->net.backend = &table;
}

/* wide: more pixels than one tile of a convolution has */
static void check_layer(const Layer *l, uint64_t seed, int32_t dtype, Way way, bool wide)
{
    Rng rng = { seed }, again = { seed };
    TestNet a, b;
    int64_t shape[4];
    const bool exact = l->op == NN_search || l->op == NN_refine || l->op == NN_gather, gpu = snls_device_type(fast) != SNLS_DEVICE_CPU;
    const bool train = dtype == SNLS_F32 || gpu; /* the cpu's gradients are in f32 */
    if (exact && dtype != SNLS_F32) return;
    net_layer_shape(l, &rng, shape);
    net_layer_shape(l, &again, shape);
    if (wide) shape[1] += 11, shape[2] += seed % 2 ? 150 : 60;
    check_repeat("test_nn_ops %llu %s", (unsigned long long)seed, l->name);
    const bool both = test_net_open(&a, ref, &rng, SNLS_F64, train, shape, l->build, NULL) && test_net_open(&b, fast, &again, dtype, train, shape, l->build, NULL);
    if (both) {
        choose(&b, way);
        if (exact) make_exact(&a, &rng);
        share(&a.x, &b.x);
        for (int64_t i = 0; i < a.params.count; i++) {
            const SnlsTensor from = snls_nn_param_view(&a.params, &a.params.list[i], a.params.value), to = snls_nn_param_view(&b.params, &b.params.list[i], b.params.value);
            share(&from, &to);
        }
        test_net_loss(&a), test_net_loss(&b);
        /* every step of a chain rounds its result in bf16; layer norm may enlarge what it gets */
        compare(l->name, dtype == SNLS_F32 ? "output" : "output in bf16", &b.y, &a.y, dtype == SNLS_F32 ? 200 : 16, dtype == SNLS_F32 ? EPS_F32 : 1.0 / 256);
        if (train) compare_gradients(l->name, &a, &b);
    }
    test_net_close(&a), test_net_close(&b);
}

int main(int argc, char **argv)
{
    const bool gpu = argc > 2 && !strcmp(argv[1], "--backend") && !strcmp(argv[2], "cuda");
    if (gpu) argc -= 2, argv += 2;
    const uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1, count = argc > 1 ? 1 : gpu ? 24 : 8;
    fast = gpu ? context_open_cuda(false) : NULL; /* skips the test where there is none */
    if (snls_open(&ref, &(SnlsContextParams){ .backend = "ref" }) < 0 || (!fast && snls_open(&fast, &(SnlsContextParams){ .backend = "cpu", .threads = 2 }) < 0)) return 1;
    for (int i = 0; i < net_layer_count; i++)
        for (uint64_t seed = first; seed < first + count; seed++) {
            if (argc > 2 && strcmp(argv[2], net_layers[i].name)) continue;
            for (Way way = CHOSEN; way <= (net_layers[i].op == NN_conv && !gpu ? BY_DNNL : CHOSEN); way++) {
                const bool wide = way == BY_BLAS && seed < first + 4;
                if (is_there(way, SNLS_F32)) check_layer(&net_layers[i], seed, SNLS_F32, way, false);
                if (is_there(way, SNLS_BF16)) check_layer(&net_layers[i], seed, SNLS_BF16, way, false);
                if (wide && is_there(way, SNLS_F32)) check_layer(&net_layers[i], seed, SNLS_F32, way, true);
                if (wide && is_there(way, SNLS_BF16)) check_layer(&net_layers[i], seed, SNLS_BF16, way, true);
            }
        }
    snls_close(&ref);
    snls_close(&fast);
    return check_end();
}
