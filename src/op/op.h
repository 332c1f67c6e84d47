/* op.h: the list of operators and the table a backend fills in. Only backends and src/op see it. */
#ifndef SNLS_OP_H
#define SNLS_OP_H

#include "base/context.h"
#include <snls/ops.h>
#include <snls/options.h>

/* The one list: backend table, tests (case_<op> must exist or the link fails), benchmark. */
#define SNLS_OPS(X)             \
    X(search, Search)           \
    X(search_all, SearchAll)    \
    X(refine, Refine)           \
    X(flow_compose, FlowCompose)\
    X(weights, Weights)         \
    X(gather, Gather)           \
    X(gather_add, GatherAdd)    \
    X(scatter_add, ScatterAdd)

/* Functions get calls that src/op has checked: shapes agree, parameters are in range, dtypes are float. A backend may
 * still refuse a dtype it has no path for. An entry without function is SNLS_ERR_UNSUPPORTED, never another device. */
/* What include/snls/context.h offers for the memory of a device (device.c). */
typedef struct SnlsDevice {
    SnlsStatus (*alloc)(SnlsContext *ctx, void **out, int64_t bytes);
    void (*free)(SnlsContext *ctx, void *ptr);
    SnlsStatus (*copy)(SnlsContext *ctx, void *to, const void *from, int64_t bytes, int32_t direction); /* SnlsCopy */
    SnlsStatus (*wait)(SnlsContext *ctx);
    SnlsStatus (*clock)(SnlsContext *ctx, double *ms);
    SnlsStatus (*set_stream)(SnlsContext *ctx, void *stream);
    SnlsStatus (*rate)(SnlsContext *ctx, int32_t kind, double *per_second); /* SnlsRate */
    const char *(*name)(const SnlsContext *ctx);
    SnlsStatus (*zero)(SnlsContext *ctx, void *to, int64_t bytes);
} SnlsDevice;

typedef struct SnlsBackend {
    const char *name;
    int32_t     device; /* SnlsDeviceType its tensors live on */
    const SnlsDevice *memory; /* NULL: this processor's */
    SnlsStatus (*open)(SnlsContext *ctx);  /* makes ctx->priv; may be NULL */
    void (*close)(SnlsContext *ctx);       /* frees it, also after a failed open; may be NULL */
#define X(op, Op)                                                     \
    SnlsStatus (*op##_forward)(SnlsContext *ctx, const Snls##Op *s);  \
    SnlsStatus (*op##_backward)(SnlsContext *ctx, const Snls##Op *s, const Snls##Op##Grad *g);
    SNLS_OPS(X)
#undef X
} SnlsBackend;

extern const SnlsBackend snls_backend_ref, snls_backend_cpu;

/* For who plans memory before anything is searched (src/cpu/match.c). */
/* Bytes of scratch that a search holds at most, known from its shapes, strides and parameters alone: data are not looked at, but for whether there are any.
 * level: SnlsCpuLevel, 0: whichever needs most of those that this machine has. */
int64_t snls_cpu_search_bytes(const SnlsSearch *s, int32_t threads, int32_t level);

/* The backend that libsnls_cuda.so holds; loaded once, kept until the process ends. path: where it is, NULL = beside this
 * library, then wherever the system looks. Fails with SNLS_ERR_DEVICE and a sentence. */
SnlsStatus snls_load_cuda(const SnlsBackend **backend, const char *path, char *why, size_t size);

/* What libsnls_cuda.so exports. NULL: made for another version of these headers. */
typedef const SnlsBackend *SnlsCudaEntry(int32_t api_version, size_t context_size);
#define SNLS_CUDA_ENTRY "snls_cuda_backend"

#endif
