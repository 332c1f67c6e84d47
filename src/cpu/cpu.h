/* cpu.h: the fast CPU backend: f32 arithmetic on f32, f16 and bf16 storage, OpenMP threads, inner loops through the dsp
 * table. Every output element has one owner that sums in a fixed order, so results do not depend on the thread count. */
#ifndef SNLS_CPU_H
#define SNLS_CPU_H

#include "op/op.h"
#include "simd/dsp.h"

typedef struct SnlsCpu { SnlsDsp dsp; } SnlsCpu; /* ctx->priv */

static inline const SnlsDsp *snls_cpu_dsp(const SnlsContext *ctx) { return &((const SnlsCpu *)ctx->priv)->dsp; }

#define X(op, Op)                                                                \
    SnlsStatus snls_cpu_##op##_forward(SnlsContext *ctx, const Snls##Op *s);     \
    SnlsStatus snls_cpu_##op##_backward(SnlsContext *ctx, const Snls##Op *s, const Snls##Op##Grad *g);
SNLS_OPS(X)
#undef X

/* Bytes of scratch that a search holds at most, known from its shapes, strides and parameters alone: data are not looked at, but for whether there are any.
 * level: SnlsCpuLevel, 0: whichever needs most of those that this machine has. */
int64_t snls_cpu_search_bytes(const SnlsSearch *s, int32_t threads, int32_t level);

#endif
