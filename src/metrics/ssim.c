/* ssim.c: structural similarity (Wang et al., 2004) in uniform windows. Every row of windows is summed by one thread. */
#include "metrics/check.h"
#include <math.h>

enum { SIDE = 7, AREA = SIDE * SIDE, SUMS = 5 };

#ifdef _OPENMP
#    include <omp.h>
static int thread_number(void) { return omp_get_thread_num(); }
#else
static int thread_number(void) { return 0; }
#endif

/* Sums of a column of 7 pixels: x, y, xx, yy, xy; then of 7 neighbouring columns. */
static void column_sums(const SnlsTensor *a, const SnlsTensor *b, int64_t y, int64_t c, double *sums)
{
    const int64_t width = a->shape[1], of_c = a->ndim == 3;
    for (int64_t x = 0; x < width; x++) {
        double s[SUMS] = { 0 };
        for (int64_t r = y; r < y + SIDE; r++) {
            const double p = snls_pixel(a, r * a->stride[0] + x * a->stride[1] + (of_c ? c * a->stride[2] : 0)) / 255;
            const double q = snls_pixel(b, r * b->stride[0] + x * b->stride[1] + (of_c ? c * b->stride[2] : 0)) / 255;
            s[0] += p;
            s[1] += q;
            s[2] += p * p;
            s[3] += q * q;
            s[4] += p * q;
        }
        for (int i = 0; i < SUMS; i++) sums[SUMS * x + i] = s[i];
    }
}

static double similarity(const double *s)
{
    const double c1 = 0.01 * 0.01, c2 = 0.03 * 0.03, scale = (double)AREA / (AREA - 1);
    const double ux = s[0] / AREA, uy = s[1] / AREA;
    const double vx = scale * (s[2] / AREA - ux * ux), vy = scale * (s[3] / AREA - uy * uy),
                 vxy = scale * (s[4] / AREA - ux * uy);
    return (2 * ux * uy + c1) * (2 * vxy + c2) / ((ux * ux + uy * uy + c1) * (vx + vy + c2));
}

static double row_similarity(const SnlsTensor *a, const SnlsTensor *b, int64_t y, int64_t c, double *sums)
{
    double all = 0;
    column_sums(a, b, y, c, sums);
    for (int64_t x = 0; x + SIDE <= a->shape[1]; x++) {
        double s[SUMS] = { 0 };
        for (int64_t i = x; i < x + SIDE; i++)
            for (int k = 0; k < SUMS; k++) s[k] += sums[SUMS * i + k];
        all += similarity(s);
    }
    return all;
}

static SnlsStatus compute(SnlsContext *ctx, const SnlsTensor *clean, const SnlsTensor *test, double *ssim)
{
    const int64_t height = clean->shape[0], width = clean->shape[1], channels = clean->ndim == 3 ? clean->shape[2] : 1;
    const int64_t rows = (height - SIDE + 1) * channels;
    snls_arena_begin(&ctx->arena);
    snls_arena_plan(&ctx->arena, rows, sizeof(double));
    snls_arena_plan(&ctx->arena, ctx->threads * SUMS * width, sizeof(double));
    SNLS_TRY(snls_scratch_commit(ctx, "ssim"));
    double *row = snls_arena_claim(&ctx->arena, rows, sizeof(double)),
           *sums = snls_arena_claim(&ctx->arena, ctx->threads * SUMS * width, sizeof(double));
#pragma omp parallel for num_threads(ctx->threads) schedule(static)
    for (int64_t i = 0; i < rows; i++)
        row[i] = row_similarity(clean, test, i / channels, i % channels, sums + thread_number() * SUMS * width);
    double all = 0;
    for (int64_t i = 0; i < rows; i++) all += row[i];
    *ssim = all / ((double)rows * (double)(width - SIDE + 1));
    return SNLS_OK;
}

SnlsStatus snls_ssim(SnlsContext *ctx, const SnlsTensor *clean, const SnlsTensor *test, double *ssim)
{
    SNLS_TRY(snls_metrics_check(ctx, "ssim", clean, test, 2, 3));
    SNLS_REQUIRE(ctx, ssim, SNLS_ERR_ARG, "ssim: the result is missing (NULL)");
    const int64_t height = clean->shape[0], width = clean->shape[1];
    SNLS_REQUIRE(ctx, height >= SIDE && width >= SIDE, SNLS_ERR_SHAPE,
                 "ssim: frames are %lld x %lld pixels, must be at least %d x %d", (long long)width, (long long)height,
                 SIDE, SIDE);
    SnlsContext own, *host = snls_host_begin(ctx, &own);
    return snls_host_end(ctx, host, compute(host, clean, test, ssim));
}
