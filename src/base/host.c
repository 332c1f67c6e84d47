/* host.c: work in CPU memory with the context of a GPU, whose own scratch no CPU may touch. */
#include "base/context.h"

SnlsContext *snls_host_begin(SnlsContext *ctx, SnlsContext *own)
{
    if (!ctx->arena.device) return ctx;
    *own = *ctx;
    own->scratch = ctx->allocator;
    own->arena = (SnlsArena){ 0 };
    return own;
}

SnlsStatus snls_host_end(SnlsContext *ctx, SnlsContext *host, SnlsStatus status)
{
    if (host == ctx) return status;
    snls_arena_release(&host->arena, &host->scratch);
    return status < 0 ? snls_fail(ctx, status, "%s", host->error) : status;
}
