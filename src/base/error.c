/* error.c: the sentence of a failed call. */
#define _POSIX_C_SOURCE 200809L /* strnlen */
#include "base/context.h"
#include "base/number.h"
#include <stdarg.h>
#include <string.h>

void snls_one_line(char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 127) *text = '?';
}

SnlsStatus snls_fail(SnlsContext *ctx, SnlsStatus status, const char *format, ...)
{
    if (!ctx) return status;
    va_list args;
    va_start(args, format);
    snls_number_vtext(ctx->error, sizeof ctx->error, format, args);
    va_end(args);
    snls_one_line(ctx->error);
    return status;
}

void snls_set_error(SnlsContext *ctx, const char *text)
{
    if (!ctx) return;
    const size_t room = sizeof ctx->error - 1, length = text ? strnlen(text, room) : 0;
    if (length) memmove(ctx->error, text, length); /* it may be the sentence itself */
    ctx->error[length] = 0;
    snls_one_line(ctx->error);
}

SnlsStatus snls_scratch_commit(SnlsContext *ctx, const char *op)
{
    if (snls_arena_commit(&ctx->arena, &ctx->scratch, ctx->scratch_limit)) return SNLS_OK;
    const long long need = (long long)ctx->arena.planned, limit = (long long)ctx->scratch_limit;
    if (limit > 0 && need > limit)
        return snls_fail(ctx, SNLS_ERR_MEMORY, "%s: needs %lld bytes of scratch, the limit is %lld", op, need, limit);
    return snls_fail(ctx, SNLS_ERR_MEMORY, "%s: out of memory for %lld bytes of scratch", op, need);
}

const char *snls_status_text(SnlsStatus status)
{
    switch (status) {
    case SNLS_OK: return "done";
    case SNLS_END: return "no further frame";
    case SNLS_UNCOVERED: return "done, some pixels uncovered";
    case SNLS_ERR_ARG: return "argument out of range";
    case SNLS_ERR_SHAPE: return "shapes, types or devices do not agree";
    case SNLS_ERR_MEMORY: return "out of memory";
    case SNLS_ERR_UNSUPPORTED: return "not supported";
    case SNLS_ERR_DEVICE: return "device failed or absent";
    case SNLS_ERR_IO: return "file cannot be read or written";
    case SNLS_ERR_FORMAT: return "file is malformed";
    }
    return "unknown status";
}
