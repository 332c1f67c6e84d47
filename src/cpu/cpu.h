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

#endif
