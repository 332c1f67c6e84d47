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
typedef struct SnlsBackend {
    const char *name;
    int32_t     device; /* SnlsDeviceType its tensors live on */
    SnlsStatus (*open)(SnlsContext *ctx);  /* makes ctx->priv; may be NULL */
    void (*close)(SnlsContext *ctx);       /* frees it, also after a failed open; may be NULL */
#define X(op, Op)                                                     \
    SnlsStatus (*op##_forward)(SnlsContext *ctx, const Snls##Op *s);  \
    SnlsStatus (*op##_backward)(SnlsContext *ctx, const Snls##Op *s, const Snls##Op##Grad *g);
    SNLS_OPS(X)
#undef X
} SnlsBackend;

extern const SnlsBackend snls_backend_ref, snls_backend_cpu;

#endif
