/* cpu_conv.c: who computes the convolutions of backend cpu. oneDNN where it has code for this processor; where it only has plain loops, as on
 * AArch64 without vectors of 256 bits and more, or none for the element type, products of BLAS; else whatever there is. */
#include "base/blas.h"
#include "nn/blas.h"
#include "nn/cpu.h"
#include "nn/dnnl.h"
#include <pthread.h>

typedef enum Maker { DNNL, BLAS, REF } Maker;

#ifdef SNLS_HAVE_LAPACK
enum { HAVE_BLAS = 1 };
#else
enum { HAVE_BLAS = 0 };
#endif

static Maker choose(int32_t dtype)
{
#ifdef SNLS_HAVE_DNNL
    const NnDnnlConv dnnl = snls_nn_dnnl_conv(dtype);
#else
    const NnDnnlConv dnnl = NN_DNNL_NONE;
    (void)dtype;
#endif
    if (dnnl == NN_DNNL_FAST) return DNNL;
    if (HAVE_BLAS && (dnnl == NN_DNNL_NONE || snls_blas_is_fast())) return BLAS;
    return dnnl == NN_DNNL_PLAIN ? DNNL : REF;
}

static pthread_once_t once = PTHREAD_ONCE_INIT;
static Maker maker_f32, maker_bf16;

static void choose_both(void) { maker_f32 = choose(SNLS_F32), maker_bf16 = choose(SNLS_BF16); }

static Maker maker_of(int32_t dtype)
{
    pthread_once(&once, choose_both);
    return dtype == SNLS_BF16 ? maker_bf16 : maker_f32;
}

bool snls_nn_cpu_conv_by_blas(void) { return maker_of(SNLS_F32) == BLAS || maker_of(SNLS_BF16) == BLAS; }

SnlsStatus snls_nn_cpu_conv_forward(SnlsContext *ctx, NnStep *s)
{
    switch (maker_of(s->y[0].dtype)) {
#ifdef SNLS_HAVE_DNNL
    case DNNL: return snls_nn_dnnl_conv_forward(ctx, s);
#endif
#ifdef SNLS_HAVE_LAPACK
    case BLAS: return snls_nn_blas_conv_forward(ctx, s);
#endif
    default: return snls_nn_ref_conv_forward(ctx, s);
    }
}

SnlsStatus snls_nn_cpu_conv_backward(SnlsContext *ctx, NnStep *s)
{
    switch (maker_of(s->y[0].dtype)) {
#ifdef SNLS_HAVE_DNNL
    case DNNL: return snls_nn_dnnl_conv_backward(ctx, s);
#endif
#ifdef SNLS_HAVE_LAPACK
    case BLAS: return snls_nn_blas_conv_backward(ctx, s);
#endif
    default: return snls_nn_ref_conv_backward(ctx, s);
    }
}

void snls_nn_cpu_release(SnlsContext *ctx, NnStep *s)
{
    (void)ctx; /* plain loops hold nothing */
    if (s->op != NN_conv) return;
    switch (maker_of(s->y[0].dtype)) {
#ifdef SNLS_HAVE_DNNL
    case DNNL: snls_nn_dnnl_release(ctx, s); break;
#endif
#ifdef SNLS_HAVE_LAPACK
    case BLAS: snls_nn_blas_conv_release(ctx, s); break;
#endif
    default: break;
    }
}

int64_t snls_nn_cpu_room(SnlsContext *ctx, const NnStep *s)
{
    (void)ctx;
    if (s->op != NN_conv) return 0;
    switch (maker_of(s->y[0].dtype)) {
#ifdef SNLS_HAVE_DNNL
    case DNNL: return snls_nn_dnnl_conv_room(ctx, s);
#endif
#ifdef SNLS_HAVE_LAPACK
    case BLAS: return snls_nn_blas_conv_room(ctx, s);
#endif
    default: return 0;
    }
}

int64_t snls_nn_cpu_own(const NnStep *s)
{
#ifdef SNLS_HAVE_DNNL
    if (s->op == NN_conv && maker_of(s->y[0].dtype) == DNNL) return snls_nn_dnnl_conv_own(s);
#endif
    (void)s;
    return 0;
}
