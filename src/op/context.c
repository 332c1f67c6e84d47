/* context.c: opening a backend and closing it. */
#include "base/threads.h"
#include "op/op.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_OF(x) #x
#define VERSION_TEXT(a, b, c) TEXT_OF(a) "." TEXT_OF(b) "." TEXT_OF(c)

const char *snls_version(void) { return VERSION_TEXT(SNLS_VERSION_MAJOR, SNLS_VERSION_MINOR, SNLS_VERSION_PATCH); }
int32_t snls_api_version(void) { return SNLS_API_VERSION; }

void snls_context_defaults(SnlsContextParams *params)
{
    if (params) *params = (SnlsContextParams){0};
}

#if defined(__aarch64__)
#define LEVEL_2 "neon"
#define LEVEL_3 "bf16"
#else
#define LEVEL_2 "avx2"
#define LEVEL_3 "avx512"
#endif
static const char *const level_names[] = {"auto", "c", LEVEL_2, LEVEL_3, "vnni", "amx", "amx_fp16"};

const char *snls_cpu_level_name(int32_t level)
{
    return level >= 0 && level <= SNLS_CPU_AMX_FP16 ? level_names[level] : "?";
}

/* Words of the other architecture count too, so that a script that sets a ceiling works on both. */
static int32_t level_of(const char *word)
{
    for (int32_t i = 0; i <= SNLS_CPU_AMX_FP16; i++)
        if (!strcmp(word, level_names[i])) return i;
    if (!strcmp(word, "avx2") || !strcmp(word, "neon")) return 2;
    return !strcmp(word, "avx512") || !strcmp(word, "bf16") ? 3 : -1;
}

/* The ceiling that SNLS_CPU sets: a test masks what the machine has. An unknown word is an error, not ignored. */
static SnlsStatus level_from_environment(int32_t *level, char *why, size_t size)
{
    const char *text = getenv("SNLS_CPU");
    *level = SNLS_CPU_AUTO;
    if (!text || !*text) return SNLS_OK;
    *level = level_of(text);
    if (*level >= 0) return SNLS_OK;
    snprintf(why, size, "open: SNLS_CPU is %.40s, must be c, avx2, avx512, vnni, amx, amx_fp16, neon, bf16 or auto", text);
    return SNLS_ERR_ARG;
}

static SnlsStatus check_params(const SnlsContextParams *p, char *why, size_t size)
{
    if (p->threads < 0 || p->threads > SNLS_THREADS_MOST) {
        snprintf(why, size, "open: threads is %d, must be 0 to %d", (int)p->threads, SNLS_THREADS_MOST);
    } else if (p->cpu_level < 0 || p->cpu_level > SNLS_CPU_AMX_FP16) {
        snprintf(why, size, "open: cpu_level is %d, must be 0 to %d", (int)p->cpu_level, SNLS_CPU_AMX_FP16);
    } else if (!p->allocator.alloc != !p->allocator.free) {
        snprintf(why, size, "open: allocator needs both functions or neither");
    } else if (p->scratch_limit < 0) {
        snprintf(why, size, "open: scratch_limit is %lld, must not be negative", (long long)p->scratch_limit);
    } else {
        for (int i = 0; i < 16; i++)
            if (p->reserved[i]) {
                snprintf(why, size, "open: reserved[%d] of params is %d, must be 0 (call snls_context_defaults first)", i, (int)p->reserved[i]);
                return SNLS_ERR_ARG;
            }
        return SNLS_OK;
    }
    return SNLS_ERR_ARG;
}

static SnlsStatus find_backend(const char *name, const SnlsBackend **backend, char *why, size_t size)
{
    static const SnlsBackend *const all[] = {&snls_backend_cpu, &snls_backend_ref};
    *backend = NULL;
    if (!name || !strcmp(name, "auto")) name = "cpu";
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!strcmp(name, all[i]->name)) *backend = all[i];
    if (*backend) return SNLS_OK;
    if (!strcmp(name, "cuda")) return snls_load_cuda(backend, getenv("SNLS_CUDA_LIBRARY"), why, size);
    snprintf(why, size, "open: backend is %.40s, must be ref, cpu, cuda or auto", name);
    return SNLS_ERR_ARG;
}

static SnlsStatus open_checked(SnlsContext **out, const SnlsContextParams *p, char *why, size_t size)
{
    const SnlsBackend *backend;
    int32_t ceiling;
    SNLS_TRY(check_params(p, why, size));
    SNLS_TRY(level_from_environment(&ceiling, why, size));
    SNLS_TRY(find_backend(p->backend, &backend, why, size));
    SnlsContext *ctx = snls_mem_alloc(&p->allocator, sizeof *ctx);
    if (!ctx) {
        snprintf(why, size, "open: out of memory");
        return SNLS_ERR_MEMORY;
    }
    if (!ceiling || (p->cpu_level && p->cpu_level < ceiling)) ceiling = p->cpu_level;
    *ctx = (SnlsContext){.backend = backend, .allocator = p->allocator, .scratch = p->allocator, .scratch_limit = p->scratch_limit,
                         .threads = snls_threads_of(p->threads), .deterministic = p->deterministic != 0,
                         .cpu_level = ceiling, .device_id = p->device_id, .stream = p->stream};
    const SnlsStatus status = backend->open ? backend->open(ctx) : SNLS_OK;
    if (status < 0) {
        snprintf(why, size, "%s", ctx->error);
        snls_close(&ctx);
    }
    *out = ctx;
    return status;
}

SnlsStatus snls_open(SnlsContext **out, const SnlsContextParams *params)
{
    const SnlsContextParams defaults = {0};
    char why[512] = "";
    if (!out) return SNLS_ERR_ARG;
    *out = NULL;
    const SnlsContextParams *p = params ? params : &defaults;
    const SnlsStatus status = open_checked(out, p, why, sizeof why);
    snls_one_line(why);
    if (status < 0 && p->error_text && p->error_size > 0) snprintf(p->error_text, (size_t)p->error_size, "%s", why);
    return status;
}

void snls_close(SnlsContext **ctx)
{
    if (!ctx || !*ctx) return;
    SnlsContext *c = *ctx;
    const SnlsAllocator allocator = c->allocator;
    snls_arena_release(&c->arena, &c->scratch);
    if (c->backend->close) c->backend->close(c);
    snls_mem_free(&allocator, c);
    *ctx = NULL;
}

const char *snls_error(const SnlsContext *ctx) { return ctx ? ctx->error : "no context"; }
const char *snls_backend_name(const SnlsContext *ctx) { return ctx ? ctx->backend->name : ""; }
int32_t snls_threads(const SnlsContext *ctx) { return ctx ? ctx->threads : 0; }
int32_t snls_cpu_level(const SnlsContext *ctx) { return ctx ? ctx->cpu_level : 0; }
int64_t snls_scratch_bytes(const SnlsContext *ctx) { return ctx ? ctx->arena.capacity + ctx->arena.held_back : 0; }
int64_t snls_scratch_captured(const SnlsContext *ctx) { return ctx ? ctx->arena.held_back + (ctx->arena.captured ? ctx->arena.capacity : 0) : 0; }
int64_t snls_scratch_peak(const SnlsContext *ctx) { return ctx ? ctx->arena.peak : 0; }

void snls_scratch_release(SnlsContext *ctx)
{
    if (ctx) snls_arena_release(&ctx->arena, &ctx->scratch);
}
