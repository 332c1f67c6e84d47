/* context.h: a context is one backend, its threads or stream, its scratch memory and its last error. */
#ifndef SNLS_CONTEXT_H
#define SNLS_CONTEXT_H

#include <snls/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Not shared between threads that call at the same time; any number of contexts may exist and run side by side. */
typedef struct SnlsContext SnlsContext;

/* Instruction sets of the cpu backend, in rising order. */
typedef enum SnlsCpuLevel {
    SNLS_CPU_AUTO = 0, /* the best this machine has */
    SNLS_CPU_C = 1,
    SNLS_CPU_AVX2 = 2,  /* AVX2 + FMA + F16C */
    SNLS_CPU_AVX512 = 3 /* AVX-512 F, BW, DQ, VL */
} SnlsCpuLevel;

/* Where the memory of a context comes from. Both functions or neither; alloc returns memory aligned for any type, or NULL. */
typedef struct SnlsAllocator {
    void *(*alloc)(size_t bytes, void *opaque);
    void (*free)(void *ptr, void *opaque);
    void *opaque;
} SnlsAllocator;

typedef struct SnlsContextParams {
    const char   *backend;       /* "ref", "cpu", "cuda"; NULL or "auto" = cpu. "cuda" needs libsnls_cuda.so and a driver */
    int32_t       device_id;     /* GPU number (0) */
    int32_t       threads;       /* 0 = as many as this process may use (affinity and cgroup quota respected) */
    int32_t       deterministic; /* 1: gradients bit-identical from run to run (0; the CPU backends always are) */
    int32_t       cpu_level;     /* SnlsCpuLevel, a ceiling (auto). The environment variable SNLS_CPU=c|avx2|avx512 lowers it too */
    void         *stream;        /* cudaStream_t, NULL = the default stream; ignored by CPU backends */
    SnlsAllocator allocator;     /* zero = malloc and free */
    int64_t       scratch_limit; /* bytes of scratch an operator may hold, 0 = no limit; beyond: SNLS_ERR_MEMORY */
    char         *error_text;    /* optional: where a failed snls_open writes its sentence ... */
    int64_t       error_size;    /* ... and the size of that buffer */
    int32_t       reserved[16];  /* zero */
} SnlsContextParams;

SNLS_API void snls_context_defaults(SnlsContextParams *params);

/* NULL params = defaults. On failure *out is NULL and nothing is held. */
SNLS_API SnlsStatus snls_open(SnlsContext **out, const SnlsContextParams *params);
SNLS_API void       snls_close(SnlsContext **ctx); /* frees everything, sets *ctx to NULL; NULL is allowed, twice too */

/* What the last failed call on this context said: one sentence, no newline. Valid until the next call. */
SNLS_API const char *snls_error(const SnlsContext *ctx);

SNLS_API const char *snls_backend_name(const SnlsContext *ctx);  /* "cpu"; static */
SNLS_API int32_t     snls_threads(const SnlsContext *ctx);       /* in use */
SNLS_API int32_t     snls_cpu_level(const SnlsContext *ctx);     /* SnlsCpuLevel in use; SNLS_CPU_C for ref */
SNLS_API const char *snls_cpu_level_name(int32_t level);         /* "avx512"; static */
SNLS_API int32_t     snls_cpu_level_max(void);                   /* SnlsCpuLevel this machine has, masks ignored */
SNLS_API int64_t     snls_scratch_bytes(const SnlsContext *ctx); /* scratch held now */
SNLS_API int64_t     snls_scratch_peak(const SnlsContext *ctx);  /* most ever held by this context */
SNLS_API void        snls_scratch_release(SnlsContext *ctx);     /* gives scratch back; the next call takes it anew */

#ifdef __cplusplus
}
#endif
#endif
