/* context.h: what a context holds, and how a function fails. Opening and closing live in op/context.c. */
#ifndef SNLS_BASE_CONTEXT_H
#define SNLS_BASE_CONTEXT_H

#include "base/alloc.h"
#include <snls/context.h>

struct SnlsBackend;

struct SnlsContext {
    const struct SnlsBackend *backend;
    void         *priv;          /* the backend's own */
    SnlsAllocator allocator;
    SnlsAllocator scratch;       /* where the arena's memory comes from: allocator, or the backend's device */
    SnlsArena     arena;
    int64_t       scratch_limit;
    int32_t       threads, deterministic, cpu_level, device_id;
    void         *stream;
    double        clock;         /* milliseconds, of snls_device_clock on a CPU */
    char          error[512];
};

/* Stores the sentence (ctx may be NULL) and returns status, so that `return snls_fail(...)` reads as one step. */
#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
SnlsStatus snls_fail(struct SnlsContext *ctx, SnlsStatus status, const char *format, ...);

/* Names of files and texts of other programs may hold anything; sentences go to logs and terminals. Control characters become question marks. */
void snls_one_line(char *text);

#define SNLS_REQUIRE(ctx, condition, status, ...)                             \
    do {                                                                      \
        if (!(condition)) return snls_fail((ctx), (status), __VA_ARGS__);     \
    } while (0)

#define SNLS_TRY(call)                                     \
    do {                                                   \
        const SnlsStatus snls_try_status_ = (call);        \
        if (snls_try_status_ < 0) return snls_try_status_; \
    } while (0)

/* Commits what was planned in ctx->arena, or fails with a sentence that names the operator and the size. */
SnlsStatus snls_scratch_commit(struct SnlsContext *ctx, const char *op);

/* For work in CPU memory with any context: ctx itself or, where its scratch is a device's, own, made of it with scratch in CPU memory. Ended with what
 * begin gave: frees that scratch, gives the sentence of a failure to ctx and returns status. */
struct SnlsContext *snls_host_begin(struct SnlsContext *ctx, struct SnlsContext *own);
SnlsStatus snls_host_end(struct SnlsContext *ctx, struct SnlsContext *host, SnlsStatus status);

#endif
