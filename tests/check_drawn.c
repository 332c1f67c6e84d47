/* check_drawn.c: models and clips of random numbers (drawn.h). */
#include "drawn.h"
#include <math.h>
#include <string.h>

/* Weights that keep the size of values, biases and what begins as 0 too, so that every layer matters. */
static void draw_weights(NnParams *p, uint64_t seed)
{
    Rng rng = { seed };
    for (int64_t i = 0; i < p->count; i++) {
        const NnParam *one = &p->list[i];
        const double fan = one->ndim > 1 ? (double)(one->count / one->shape[0]) : 4, size = 1.7 / sqrt(fan), middle = strstr(one->name, "norm.weight") ? 1 : 0;
        const SnlsTensor t = snls_nn_param_view(p, one, p->value);
        for (int64_t k = 0; k < one->count; k++) snls_store(&t, k, middle + rng_real(&rng, -size, size) * (middle > 0 ? 0.3 : 1));
    }
    p->version++;
}

/* A model as snls_model_open would make it, of drawn weights. */
SnlsModel make_model(SnlsContext *ctx, const Architecture *a, int32_t dtype, const StanSConfig *c)
{
    SnlsModel m = { .ctx = ctx, .here = ctx, .architecture = a, .dtype = dtype, .stan_s = *c };
    snls_model_defaults(&m.params);
    for (int i = 0; i < a->stages; i++) {
        m.stage[i].params.dtype = SNLS_F32;
        CHECK(snls_model_stage(&m, i, 2 * a->radius + 1, 32, 32) >= 0, "%s", snls_error(ctx));
        draw_weights(&m.stage[i].params, 11 + (uint64_t)i);
    }
    return m;
}

void free_model(SnlsModel *m)
{
    SnlsModel *copy = snls_mem_alloc(&m->ctx->allocator, sizeof *copy); /* close gives the struct back too */
    *copy = *m;
    snls_model_close(&copy);
}

float *draw_clip(int64_t floats, uint64_t seed)
{
    Rng rng = { seed };
    float *x = check_alloc(floats, sizeof *x);
    for (int64_t i = 0; i < floats; i++) x[i] = (float)rng_real(&rng, -20, 275);
    return x;
}
