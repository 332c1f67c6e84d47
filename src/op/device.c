/* device.c: memory and time where the backend works; plain memory for the CPU backends. */
#define _POSIX_C_SOURCE 200809L /* clock_gettime */
#include "op/op.h"
#include <string.h>
#include <time.h>

static const SnlsDevice *device_of(const SnlsContext *ctx) { return ctx->backend->memory; }

int32_t snls_device_type(const SnlsContext *ctx) { return ctx ? ctx->backend->device : SNLS_DEVICE_CPU; }

const char *snls_device_name(const SnlsContext *ctx)
{
    if (!ctx) return "";
    return device_of(ctx) ? device_of(ctx)->name(ctx) : "cpu";
}

SnlsStatus snls_device_alloc(SnlsContext *ctx, void **out, int64_t bytes)
{
    if (out) *out = NULL;
    if (!ctx) return SNLS_ERR_ARG;
    SNLS_REQUIRE(ctx, out && bytes >= 0, SNLS_ERR_ARG, "device_alloc: out must be given and bytes not negative");
    if (device_of(ctx)) return device_of(ctx)->alloc(ctx, out, bytes);
    *out = snls_mem_alloc(&ctx->allocator, bytes);
    SNLS_REQUIRE(ctx, *out, SNLS_ERR_MEMORY, "device_alloc: out of memory for %lld bytes", (long long)bytes);
    return SNLS_OK;
}

void snls_device_free(SnlsContext *ctx, void *ptr)
{
    if (!ctx || !ptr) return;
    if (device_of(ctx)) device_of(ctx)->free(ctx, ptr);
    else snls_mem_free(&ctx->allocator, ptr);
}

SnlsStatus snls_device_copy(SnlsContext *ctx, void *to, const void *from, int64_t bytes, int32_t direction)
{
    if (!ctx) return SNLS_ERR_ARG;
    SNLS_REQUIRE(ctx, bytes >= 0 && direction >= SNLS_COPY_TO_DEVICE && direction <= SNLS_COPY_ON_DEVICE, SNLS_ERR_ARG,
                 "device_copy: bytes is %lld and direction %d, must be 0 or more and 0 to 2", (long long)bytes, (int)direction);
    SNLS_REQUIRE(ctx, (to && from) || !bytes, SNLS_ERR_ARG, "device_copy: to and from must be given");
    if (!bytes) return SNLS_OK;
    if (device_of(ctx)) return device_of(ctx)->copy(ctx, to, from, bytes, direction);
    memmove(to, from, (size_t)bytes);
    return SNLS_OK;
}

SnlsStatus snls_device_zero(SnlsContext *ctx, void *to, int64_t bytes)
{
    if (!ctx) return SNLS_ERR_ARG;
    SNLS_REQUIRE(ctx, bytes >= 0 && (to || !bytes), SNLS_ERR_ARG, "device_zero: bytes is %lld, must be 0 or more, and to be given", (long long)bytes);
    if (!bytes) return SNLS_OK;
    if (device_of(ctx)) return device_of(ctx)->zero(ctx, to, bytes);
    memset(to, 0, (size_t)bytes);
    return SNLS_OK;
}

SnlsStatus snls_device_wait(SnlsContext *ctx)
{
    if (!ctx) return SNLS_ERR_ARG;
    return device_of(ctx) ? device_of(ctx)->wait(ctx) : SNLS_OK;
}

SnlsStatus snls_device_clock(SnlsContext *ctx, double *ms)
{
    struct timespec now;
    if (!ctx) return SNLS_ERR_ARG;
    SNLS_REQUIRE(ctx, ms, SNLS_ERR_ARG, "device_clock: ms must be given");
    if (device_of(ctx)) return device_of(ctx)->clock(ctx, ms);
    clock_gettime(CLOCK_MONOTONIC, &now);
    const double t = (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
    *ms = ctx->clock > 0 ? t - ctx->clock : 0;
    ctx->clock = t;
    return SNLS_OK;
}

SnlsStatus snls_device_set_stream(SnlsContext *ctx, void *stream)
{
    if (!ctx) return SNLS_ERR_ARG;
    return device_of(ctx) ? device_of(ctx)->set_stream(ctx, stream) : SNLS_OK;
}

SnlsStatus snls_device_rate(SnlsContext *ctx, int32_t kind, double *per_second)
{
    if (!ctx) return SNLS_ERR_ARG;
    SNLS_REQUIRE(ctx, per_second && kind >= SNLS_RATE_COPY && kind <= SNLS_RATE_ATOMIC, SNLS_ERR_ARG,
                 "device_rate: kind is %d, must be 0 to %d, and per_second given", (int)kind, SNLS_RATE_ATOMIC);
    SNLS_REQUIRE(ctx, device_of(ctx), SNLS_ERR_UNSUPPORTED, "device_rate: backend %s is not on a GPU", ctx->backend->name);
    return device_of(ctx)->rate(ctx, kind, per_second);
}
