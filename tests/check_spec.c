/* check_spec.c: helpers of the test_spec programs (spec.h). */
#include "spec.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

SnlsTensor spec_tensor(int32_t dtype, int32_t ndim, const int64_t *shape)
{
    SnlsTensor t = tensor_new(NULL, dtype, ndim, shape, LAYOUT_PLAIN);
    for (int64_t i = tensor_count(&t); i-- > 0;) tensor_set(&t, i, 0);
    return t;
}

void spec_random(const SnlsTensor *t, Rng *rng) { tensor_fill(t, rng, -2, 2); }

void spec_small_integers(const SnlsTensor *t, Rng *rng)
{
    for (int64_t i = 0; i < tensor_count(t); i++) tensor_set(t, i, (double)rng_int(rng, -3, 3));
}

int64_t spec_at(const SnlsTensor *t, const int64_t *index)
{
    int64_t at = 0;
    for (int32_t i = 0; i < t->ndim; i++) at = at * t->shape[i] + index[i];
    return at;
}

SnlsSearch spec_search(const SnlsSearchParams *p, int64_t B, int64_t T, int64_t H, int64_t W, int64_t C)
{
    SnlsSearch s;
    memset(&s, 0, sizeof s);
    s.params = *p;
    s.query = spec_tensor(SNLS_F32, SHAPE(B, T, H, W, C));
    s.key = spec_tensor(SNLS_F32, SHAPE(B, T, H, W, C));
    return s;
}

static int64_t grid(int64_t n, int64_t step) { return (n + step - 1) / step; }

void spec_outputs(SnlsSearch *s, bool all)
{
    const SnlsSearchParams *p = &s->params;
    const int64_t slots = 2 * p->wt + 1, K = all ? slots * p->ws * p->ws : p->topk == SNLS_TOPK_EACH ? slots * p->k : p->k;
    const int64_t *v = s->query.shape, rows = grid(v[2], p->stride0), columns = grid(v[3], p->stride0);
    s->dist = spec_tensor(SNLS_F32, SHAPE(v[0], p->heads, v[1], rows, columns, K));
    s->offset = spec_tensor(SNLS_F32, SHAPE(v[0], p->heads, v[1], rows, columns, K, 3));
    s->index = spec_tensor(SNLS_I32, SHAPE(v[0], p->heads, v[1], rows, columns, K));
}

void spec_flow(SnlsSearch *s, int64_t S)
{
    const int64_t *v = s->query.shape;
    s->flow = spec_tensor(SNLS_F32, SHAPE(v[0], v[1], S, grid(v[2], s->params.stride0), grid(v[3], s->params.stride0), 2));
}

bool spec_run(SnlsContext *ctx, const SnlsSearch *s, bool all)
{
    const SnlsStatus status = all ? snls_search_all_forward(ctx, s) : snls_search_forward(ctx, s);
    return CHECK(status == SNLS_OK, "%s", snls_error(ctx));
}

bool same_bits(const SnlsTensor *a, const SnlsTensor *b)
{
    if (tensor_count(a) != tensor_count(b)) return false;
    for (int64_t i = tensor_count(a); i-- > 0;) {
        const double x = tensor_get(a, i), y = tensor_get(b, i);
        if (x != y && !(isnan(x) && isnan(y))) return false;
    }
    return true;
}

const char *spec_where(SnlsContext *ctx)
{
    static char text[64];
    snprintf(text, sizeof text, "%s %s", snls_backend_name(ctx), snls_cpu_level_name(snls_cpu_level(ctx)));
    return text;
}

void spec_run_facts(const char *program, const Fact *facts, int count, int argc, char **argv)
{
    for (int32_t level = 0; level <= snls_cpu_level_max(); level++) {
        SnlsContext *ctx = context_open(level ? "cpu" : "ref", level, 2);
        for (int i = 0; i < count; i++) {
            if (argc > 1 && strcmp(argv[1], facts[i].name)) continue;
            check_repeat("%s %s (%s)", program, facts[i].name, spec_where(ctx));
            facts[i].check(ctx);
            tensors_free();
        }
        snls_close(&ctx);
    }
}
