/* backend.c: opening the cpu backend, and its table. */
#include "cpu/cpu.h"
#include "simd/sieve.h"

int32_t snls_cpu_level_max(void) { return snls_sieve_level() ? snls_sieve_level() : snls_dsp_level_max(); }

static SnlsStatus cpu_open(SnlsContext *ctx)
{
    SnlsCpu *cpu = snls_mem_alloc(&ctx->allocator, sizeof *cpu);
    if (!cpu) return snls_fail(ctx, SNLS_ERR_MEMORY, "open: out of memory");
    const int32_t max = snls_cpu_level_max();
    if (!ctx->cpu_level || ctx->cpu_level > max) ctx->cpu_level = max;
    ctx->cpu_level = snls_sieve_lent(ctx->cpu_level);
    snls_dsp_init(&cpu->dsp, ctx->cpu_level);
    ctx->priv = cpu;
    return SNLS_OK;
}

static void cpu_close(SnlsContext *ctx)
{
    snls_mem_free(&ctx->allocator, ctx->priv);
    ctx->priv = NULL;
}

const SnlsBackend snls_backend_cpu = {
    .name = "cpu",
    .device = SNLS_DEVICE_CPU,
    .open = cpu_open,
    .close = cpu_close,
#define X(op, Op) .op##_forward = snls_cpu_##op##_forward, .op##_backward = snls_cpu_##op##_backward,
    SNLS_OPS(X)
#undef X
};
