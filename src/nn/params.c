/* params.c: the parameters of a network: one block of values, one of gradients. */
#include "base/noise.h"
#include "nn/nn.h"
#include <math.h>
#include <string.h>

NnParam *snls_nn_params_find(const NnParams *params, const char *name)
{
    for (int64_t i = 0; i < params->count; i++)
        if (!strcmp(params->list[i].name, name)) return &params->list[i];
    return NULL;
}

SnlsTensor snls_nn_param_view(const NnParams *params, const NnParam *p, void *block)
{
    return snls_tensor((char *)block + p->offset * snls_dtype_size((SnlsDtype)params->dtype), (SnlsDtype)params->dtype, p->ndim, p->shape);
}

static int64_t bytes_of(const NnParams *params) { return params->total * snls_dtype_size((SnlsDtype)params->dtype); }

SnlsStatus snls_nn_params_allocate(SnlsContext *ctx, NnParams *params, bool gradients)
{
    const int64_t bytes = bytes_of(params);
    void **blocks[] = { &params->value, &params->grad };
    for (int i = 0; i < (gradients ? 2 : 1); i++) {
        if (*blocks[i]) continue;
        *blocks[i] = snls_mem_alloc(&ctx->allocator, bytes);
        SNLS_REQUIRE(ctx, *blocks[i], SNLS_ERR_MEMORY, "network: no memory for %lld parameters", (long long)params->total);
        memset(*blocks[i], 0, (size_t)bytes);
    }
    if (snls_device_type(ctx) == SNLS_DEVICE_CPU) return SNLS_OK;
    if (!params->device_value) SNLS_TRY(snls_device_alloc(ctx, &params->device_value, bytes));
    if (gradients && !params->device_grad) SNLS_TRY(snls_device_alloc(ctx, &params->device_grad, bytes));
    return snls_nn_params_send(ctx, params);
}

SnlsStatus snls_nn_params_send(SnlsContext *ctx, const NnParams *params)
{
    if (!params->device_value) return SNLS_OK;
    return snls_device_copy(ctx, params->device_value, params->value, bytes_of(params), SNLS_COPY_TO_DEVICE);
}

SnlsStatus snls_nn_params_fetch(SnlsContext *ctx, const NnParams *params)
{
    if (!params->device_value) return SNLS_OK;
    if (params->device_grad) SNLS_TRY(snls_device_copy(ctx, params->grad, params->device_grad, bytes_of(params), SNLS_COPY_FROM_DEVICE));
    return snls_device_copy(ctx, params->value, params->device_value, bytes_of(params), SNLS_COPY_FROM_DEVICE);
}

void snls_nn_params_free(SnlsContext *ctx, NnParams *params)
{
    snls_mem_free(&ctx->allocator, params->list);
    snls_mem_free(&ctx->allocator, params->value);
    snls_mem_free(&ctx->allocator, params->grad);
    snls_device_free(ctx, params->device_value);
    snls_device_free(ctx, params->device_grad);
    *params = (NnParams){ .dtype = params->dtype };
}

/* The next number in (0,1) of a sequence that state counts. */
static double uniform(uint64_t *state)
{
    const uint64_t bits = snls_mix(*state);
    *state += 0x9e3779b97f4a7c15u;
    return snls_uniform(bits);
}

static double normal(uint64_t *state) /* Box and Muller; drawn again beyond two standard deviations */
{
    for (;;) {
        const double z = sqrt(-2 * log(uniform(state))) * cos(6.283185307179586 * uniform(state));
        if (fabs(z) <= 2) return z;
    }
}

void snls_nn_params_init(NnParams *params, uint64_t seed)
{
    uint64_t state = seed;
    for (int64_t i = 0; i < params->count; i++) {
        const NnParam *p = &params->list[i];
        const SnlsTensor t = snls_nn_param_view(params, p, params->value);
        for (int64_t k = 0; k < p->count; k++)
            snls_store(&t, k, p->init == NN_INIT_CONSTANT ? p->scale
                              : p->init == NN_INIT_NORMAL ? p->scale * normal(&state)
                                                          : p->scale * (2 * uniform(&state) - 1));
    }
    params->version++;
}
