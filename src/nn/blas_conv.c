/* blas_conv.c: convolution, plain and transposed, by sgemm in f32: for every row of the small grid and every tap of the kernel one product
 * of a run of pixels with that tap's weights. Pixels that a stride leaves apart are a leading dimension, so nothing is copied but
 * the weights. Small and large grid are those of ref_conv.c. */
#include "nn/blas.h"
#ifdef SNLS_HAVE_LAPACK
#include <string.h>

void sgemm_(const char *turn_a, const char *turn_b, const int *m, const int *n, const int *k, const float *alpha, const float *a, const int *lda,
            const float *b, const int *ldb, const float *beta, float *c, const int *ldc);

typedef enum Job { TO_SMALL, TO_LARGE, TO_WEIGHTS } Job;

typedef struct Plan {
    const NnConv *v;
    const int64_t *small_shape, *large_shape;
    float  *small, *large;     /* (N,H,W,C): the one is read, the other added to, or both read */
    float  *weights;           /* [ky][kx][group][large channel][small channel] */
    int64_t per_small, per_large;
    Job     job;
} Plan;

/* c (m x n, columns ldc apart) += op(a) * op(b), as Fortran counts: columns are pixels or channels */
static void product(bool turn_a, bool turn_b, int64_t m, int64_t n, int64_t k, const float *a, int64_t lda, const float *b, int64_t ldb, float *c, int64_t ldc)
{
    const int sizes[6] = { (int)m, (int)n, (int)k, (int)lda, (int)ldb, (int)ldc };
    const float one = 1;
    sgemm_(turn_a ? "T" : "N", turn_b ? "T" : "N", &sizes[0], &sizes[1], &sizes[2], &one, a, &sizes[3], b, &sizes[4], &one, c, &sizes[5]);
}

/* The run of small pixels x of a row whose tap kx lies inside the large grid. */
static int64_t run_of(const Plan *p, int64_t kx, int64_t *first)
{
    const int64_t s = p->v->stride, shift = kx - p->v->pad, last = p->large_shape[2] - 1 - shift;
    *first = shift < 0 ? (-shift + s - 1) / s : 0;
    int64_t end = last < 0 ? 0 : last / s + 1;
    if (end > p->small_shape[2]) end = p->small_shape[2];
    return end - *first;
}

static void one_tap(const Plan *p, int64_t n, int64_t y, int64_t tap)
{
    const int64_t k = p->v->kernel, s = p->v->stride, ky = tap / k, kx = tap % k, Y = y * s - p->v->pad + ky;
    int64_t x;
    const int64_t count = run_of(p, kx, &x), cs = p->small_shape[3], cl = p->large_shape[3];
    if (Y < 0 || Y >= p->large_shape[1] || count < 1) return;
    float *small = p->small + ((n * p->small_shape[1] + y) * p->small_shape[2] + x) * cs;
    float *large = p->large + ((n * p->large_shape[1] + Y) * p->large_shape[2] + x * s - p->v->pad + kx) * cl;
    for (int64_t g = 0; g < p->v->groups; g++) {
        float *w = p->weights + (tap * p->v->groups + g) * p->per_small * p->per_large, *a = small + g * p->per_small, *b = large + g * p->per_large;
        if (p->job == TO_SMALL) product(false, false, p->per_small, count, p->per_large, w, p->per_small, b, s * cl, a, cs);
        if (p->job == TO_LARGE) product(true, false, p->per_large, count, p->per_small, w, p->per_small, a, cs, b, s * cl);
        if (p->job == TO_WEIGHTS) product(false, true, p->per_small, p->per_large, count, a, cs, b, s * cl, w, p->per_small);
    }
}

static void all_taps(const Plan *p)
{
    for (int64_t row = 0; row < p->small_shape[0] * p->small_shape[1]; row++)
        for (int64_t tap = 0; tap < p->v->kernel * p->v->kernel; tap++) one_tap(p, row / p->small_shape[1], row % p->small_shape[1], tap);
}

/* Between the parameter's order (small channel, large channel of its group, ky, kx) and a tap's. */
static void turn_weights(const Plan *p, float *parameter, bool back)
{
    const int64_t area = p->v->kernel * p->v->kernel, count = p->small_shape[3] * p->per_large * area;
    for (int64_t i = 0; i < count; i++) {
        const int64_t tap = i % area, b = i / area % p->per_large, a = i / area / p->per_large, g = a / p->per_small;
        float *w = p->weights + ((tap * p->v->groups + g) * p->per_large + b) * p->per_small + a % p->per_small;
        if (back) parameter[i] += *w;
        else *w = parameter[i];
    }
}

static SnlsStatus plan_of(SnlsContext *ctx, const NnStep *s, float *in, float *out, int64_t extra, Plan *p, float **more)
{
    const NnConv *v = &s->u.conv;
    SNLS_REQUIRE(ctx, s->y[0].dtype == SNLS_F32, SNLS_ERR_UNSUPPORTED, "network: without oneDNN convolutions are in f32, not in %s", snls_dtype_name((SnlsDtype)s->y[0].dtype));
    const SnlsTensor *x = &s->x[0], *y = &s->y[0];
    *p = (Plan){ .v = v, .small_shape = v->transposed ? x->shape : y->shape, .large_shape = v->transposed ? y->shape : x->shape, .small = v->transposed ? in : out, .large = v->transposed ? out : in };
    p->per_small = p->small_shape[3] / v->groups, p->per_large = p->large_shape[3] / v->groups;
    const int64_t count = snls_tensor_elements(&s->p[0]);
    snls_arena_begin(&ctx->arena);
    snls_arena_plan(&ctx->arena, count, sizeof(float));
    snls_arena_plan(&ctx->arena, extra, sizeof(float));
    SNLS_TRY(snls_scratch_commit(ctx, "conv"));
    p->weights = snls_arena_claim(&ctx->arena, count, sizeof(float));
    *more = snls_arena_claim(&ctx->arena, extra, sizeof(float));
    return SNLS_OK;
}

static void finish_pixel(const NnStep *s, int64_t at, int64_t channels)
{
    float *y = (float *)s->y[0].data + at;
    for (int64_t c = 0; c < channels; c++) {
        if (s->u.conv.act == NN_GELU) y[c] = (float)snls_nn_gelu(y[c]);
        else y[c] *= (float)snls_nn_slope(&s->u.conv, y[c]);
    }
}

SnlsStatus snls_nn_blas_conv_forward(SnlsContext *ctx, NnStep *s)
{
    Plan p;
    float *more;
    SNLS_TRY(plan_of(ctx, s, s->x[0].data, s->y[0].data, 0, &p, &more));
    const int64_t channels = s->y[0].shape[3], count = snls_tensor_elements(&s->y[0]);
    turn_weights(&p, s->p[0].data, false);
    const float *bias = s->p[1].data, *residual = s->x[1].data; /* may be y itself; the activation is linear then */
    for (int64_t i = 0; i < count; i++) ((float *)s->y[0].data)[i] = (bias ? bias[i % channels] : 0) + (residual ? residual[i] : 0);
    p.job = s->u.conv.transposed ? TO_LARGE : TO_SMALL;
    all_taps(&p);
    for (int64_t at = 0; at < count; at += channels) finish_pixel(s, at, channels);
    return SNLS_OK;
}

SnlsStatus snls_nn_blas_conv_backward(SnlsContext *ctx, NnStep *s)
{
    Plan p;
    float *pull;
    const int64_t channels = s->y[0].shape[3], count = snls_tensor_elements(&s->y[0]);
    SNLS_TRY(plan_of(ctx, s, s->dx[0].data, NULL, count, &p, &pull));
    const float *dy = s->dy[0].data, *y = s->y[0].data;
    for (int64_t i = 0; i < count; i++) pull[i] = dy[i] * (float)snls_nn_slope(&s->u.conv, y[i]);
    *(s->u.conv.transposed ? &p.large : &p.small) = pull;
    if (s->dx[0].data) {
        turn_weights(&p, s->p[0].data, false);
        p.job = s->u.conv.transposed ? TO_SMALL : TO_LARGE;
        all_taps(&p);
    }
    if (s->dp[0].data) {
        memset(p.weights, 0, sizeof(float) * (size_t)snls_tensor_elements(&s->p[0]));
        *(s->u.conv.transposed ? &p.small : &p.large) = s->x[0].data;
        p.job = TO_WEIGHTS;
        all_taps(&p);
        turn_weights(&p, s->dp[0].data, true);
    }
    for (int64_t i = 0; s->dp[1].data && i < count; i++) ((float *)s->dp[1].data)[i % channels] += pull[i];
    for (int64_t i = 0; s->dx[1].data && i < count; i++) ((float *)s->dx[1].data)[i] += dy[i];
    return SNLS_OK;
}
#else
typedef int snls_nn_no_blas; /* a file must hold something */
#endif
