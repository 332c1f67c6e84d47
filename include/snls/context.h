/* context.h: a context is one backend, its threads or stream, its scratch memory and its last error. */
#ifndef SNLS_CONTEXT_H
#define SNLS_CONTEXT_H

#include <snls/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Not shared between threads that call at the same time; any number of contexts may exist and run side by side. */
typedef struct SnlsContext SnlsContext;

/* Instruction sets of the cpu backend, in rising order. A number means what the architecture has: 2 is AVX2 on x86-64, NEON on AArch64. */
typedef enum SnlsCpuLevel {
    SNLS_CPU_AUTO = 0, /* the best this machine has */
    SNLS_CPU_C = 1,
    SNLS_CPU_AVX2 = 2,  /* AVX2 + FMA + F16C */
    SNLS_CPU_NEON = 2,  /* AArch64: the vectors that every such processor has */
    SNLS_CPU_AVX512 = 3, /* AVX-512 F, BW, DQ, VL */
    SNLS_CPU_BF16 = 3,  /* AArch64: and products of bf16 matrices (BFMMLA) */
    SNLS_CPU_VNNI = 4,  /* and AVX-512 VNNI: products of bytes */
    SNLS_CPU_AMX = 5,   /* and AMX tiles with bf16 numbers */
    SNLS_CPU_AMX_FP16 = 6 /* and with f16 numbers */
} SnlsCpuLevel;

/* Where the memory of a context comes from. Both functions or neither; alloc returns memory aligned for any type, or NULL.
 * Networks on several threads call them from each.
 * Blocks that begin on a cache line (64 bytes) are faster: up to twice where all of an operator's reads are wide. */
typedef struct SnlsAllocator {
    void *(*alloc)(size_t bytes, void *opaque);
    void (*free)(void *ptr, void *opaque);
    void *opaque;
} SnlsAllocator;

typedef struct SnlsContextParams {
    const char   *backend;       /* "ref", "cpu", "cuda"; NULL or "auto" = cpu. "cuda" needs libsnls_cuda.so and a driver */
    int32_t       device_id;     /* GPU number (0) */
    int32_t       threads;       /* 0 = as many as this process may use (affinity and the quota of control groups respected); 1024 at most */
    int32_t       deterministic; /* 1: gradients bit-identical from run to run (0; the CPU backends always are) */
    int32_t       cpu_level;     /* SnlsCpuLevel, a ceiling (auto). The environment variable SNLS_CPU=c|avx2|avx512|vnni|amx|amx_fp16, or c|neon|bf16, lowers it too */
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

/* What the last failed call on this context said: one sentence, no newline (control characters of a path are shown as ?). Valid until the next call. */
SNLS_API const char *snls_error(const SnlsContext *ctx);
/* What snls_error says from here on: for who makes a call between another's failure and the look at its sentence (a signal handler of an interpreter),
 * and puts the sentence back. NULL: none. */
SNLS_API void        snls_set_error(SnlsContext *ctx, const char *text);

SNLS_API const char *snls_backend_name(const SnlsContext *ctx);  /* "cpu"; static */
SNLS_API int32_t     snls_threads(const SnlsContext *ctx);       /* in use; 1 in a build without OpenMP */
SNLS_API int32_t     snls_cpu_level(const SnlsContext *ctx);     /* SnlsCpuLevel in use; SNLS_CPU_C for ref */
SNLS_API const char *snls_cpu_level_name(int32_t level);         /* "avx512"; static */
SNLS_API int32_t     snls_cpu_level_max(void);                   /* SnlsCpuLevel this machine has, masks ignored; where Linux refuses matrix tiles a context has less (snls_cpu_level) */
SNLS_API int64_t     snls_memory_limit(void);                    /* bytes this process may have: the machine's memory, or the least limit of the control groups it is in; 0: not known */
SNLS_API int64_t     snls_scratch_bytes(const SnlsContext *ctx); /* scratch held now */
SNLS_API int64_t     snls_scratch_captured(const SnlsContext *ctx); /* of that, what captured CUDA graphs use: snls_close alone gives it back, so the context must outlive them */
SNLS_API int64_t     snls_scratch_peak(const SnlsContext *ctx);  /* most ever held by this context */
SNLS_API void        snls_scratch_release(SnlsContext *ctx);     /* gives scratch back; the next call takes it anew */

/* ---- memory and time where the backend works ----
 * For callers that have no other way to the device (the command line, tests); who has CUDA's own or PyTorch's memory uses
 * that. With a CPU backend this is plain memory and memcpy, so that one program serves both. */

typedef enum SnlsCopy { SNLS_COPY_TO_DEVICE = 0, SNLS_COPY_FROM_DEVICE = 1, SNLS_COPY_ON_DEVICE = 2 } SnlsCopy;

SNLS_API int32_t     snls_device_type(const SnlsContext *ctx); /* SnlsDeviceType that tensors must be on */
SNLS_API const char *snls_device_name(const SnlsContext *ctx); /* "NVIDIA H200", "cpu"; good as long as ctx */
SNLS_API SnlsStatus  snls_device_alloc(SnlsContext *ctx, void **out, int64_t bytes); /* not zeroed; on failure *out is NULL */
SNLS_API void        snls_device_free(SnlsContext *ctx, void *ptr);                  /* NULL is allowed */
/* In the order of the context's stream; both ends are free when it returns. */
SNLS_API SnlsStatus snls_device_copy(SnlsContext *ctx, void *to, const void *from, int64_t bytes, int32_t direction);
/* Zeros, in the order of the context's stream: what gradients begin with, since backward calls add to them. */
SNLS_API SnlsStatus snls_device_zero(SnlsContext *ctx, void *to, int64_t bytes);
/* Calls on a GPU return before the work is done, and errors of the work may come with a later call: this waits for all. */
SNLS_API SnlsStatus snls_device_wait(SnlsContext *ctx);
/* Waits; *ms: milliseconds of the device's time since the last call of this function on this context, 0 the first time. */
SNLS_API SnlsStatus snls_device_clock(SnlsContext *ctx, double *ms);
/* Work that follows goes to this stream (cudaStream_t); waits for what went to the last. Nothing on a CPU. */
SNLS_API SnlsStatus snls_device_set_stream(SnlsContext *ctx, void *stream);

/* What the device can do at best, measured now by a short loop: what a benchmark compares with. GPU only. */
typedef enum SnlsRate {
    SNLS_RATE_COPY = 0,   /* bytes read + written per second, large copy */
    SNLS_RATE_READ = 1,   /* bytes read per second */
    SNLS_RATE_FMA = 2,    /* f32 operations per second, a fused multiply-add counts as two */
    SNLS_RATE_ATOMIC = 3  /* f32 atomic additions per second, spread over memory */
} SnlsRate;
SNLS_API SnlsStatus snls_device_rate(SnlsContext *ctx, int32_t kind, double *per_second);

#ifdef __cplusplus
}
#endif
#endif
