/* test_metrics.c: metrics where the answer is known; types, strides, threads; bad input. test_metrics_cli.sh compares whole clips with
 * definitions in NumPy. */
#include "spec.h"
#include <math.h>
#include <string.h>

#define STORED 20.176179074117528

static void known(SnlsContext *ctx)
{
    SnlsTensor a = spec_tensor(SNLS_F32, SHAPE(9, 8, 3)), b = spec_tensor(SNLS_F32, SHAPE(9, 8, 3));
    double psnr, ssim;
    for (int64_t i = 0; i < 216; i++) {
        tensor_set(&a, i, 100);
        tensor_set(&b, i, 105);
    }
    CHECK(snls_psnr(ctx, &a, &b, &psnr) == SNLS_OK && fabs(psnr - 20 * log10(51)) < 1e-12,
          "psnr of a difference of 5: %.15g", psnr);
    /* no variance: the luminance term alone */
    const double x = 100.0 / 255, y = 105.0 / 255, want = (2 * x * y + 1e-4) / (x * x + y * y + 1e-4);
    CHECK(snls_ssim(ctx, &a, &b, &ssim) == SNLS_OK && fabs(ssim - want) < 1e-9,
          "ssim of flat frames: %.15g, expected %.15g", ssim, want);
    CHECK(snls_psnr(ctx, &a, &a, &psnr) == SNLS_OK && isinf(psnr), "psnr of a frame and itself: %g", psnr);
    CHECK(snls_ssim(ctx, &a, &a, &ssim) == SNLS_OK && fabs(ssim - 1) < 1e-12, "ssim of a frame and itself: %g", ssim);
}

/* Window by window, each by its own sums. */
static double plain_ssim(const SnlsTensor *a, const SnlsTensor *b)
{
    const int64_t h = a->shape[0], w = a->shape[1];
    double all = 0;
    for (int64_t i = 0; i < (h - 6) * (w - 6); i++) {
        double mean[2] = { 0 }, cov[3] = { 0 };
        for (int pass = 0; pass < 2; pass++)
            for (int64_t k = 0; k < 49; k++) {
                const int64_t at = (i / (w - 6) + k / 7) * w + i % (w - 6) + k % 7;
                const double x = tensor_get(a, at) / 255, y = tensor_get(b, at) / 255;
                if (!pass) mean[0] += x / 49, mean[1] += y / 49;
                else {
                    cov[0] += (x - mean[0]) * (x - mean[0]) / 48;
                    cov[1] += (x - mean[0]) * (y - mean[1]) / 48;
                    cov[2] += (y - mean[1]) * (y - mean[1]) / 48;
                }
            }
        all += (2 * mean[0] * mean[1] + 1e-4) * (2 * cov[1] + 9e-4) /
               ((mean[0] * mean[0] + mean[1] * mean[1] + 1e-4) * (cov[0] + cov[2] + 9e-4));
    }
    return all / (double)((h - 6) * (w - 6));
}

static void against_plain(SnlsContext *ctx)
{
    static const int64_t sizes[][2] = { { 7, 7 }, { 7, 20 }, { 31, 9 }, { 24, 33 } };
    Rng rng = { 12 };
    for (int i = 0; i < 4; i++) {
        SnlsTensor a = tensor_new(&rng, SNLS_F64, 2, sizes[i], LAYOUT_INPUT),
                   b = tensor_new(&rng, SNLS_F64, 2, sizes[i], LAYOUT_OUTPUT);
        double ssim;
        tensor_fill(&a, &rng, 0, 255);
        tensor_fill(&b, &rng, 0, 255);
        CHECK(snls_ssim(ctx, &a, &b, &ssim) == SNLS_OK, "%s", snls_error(ctx));
        CHECK(fabs(ssim - plain_ssim(&a, &b)) < 1e-10, "ssim %.12g, expected %.12g", ssim, plain_ssim(&a, &b));
    }
}

static void layouts(void)
{
    Rng rng = { 3 };
    static const int32_t types[] = { SNLS_F64, SNLS_F16, SNLS_BF16, SNLS_U8 };
    double first[3] = { 0 };
    for (int i = 0; i < 8; i++) {
        SnlsContext *ctx = NULL;
        SnlsStrred strred = { .score = 0 };
        if (!CHECK(snls_open(&ctx, &(SnlsContextParams){ .threads = 1 + i % 3 }) == SNLS_OK, "open")) return;
        SnlsTensor video[2];
        for (int v = 0; v < 2; v++) {
            video[v] = tensor_new(&rng, types[i % 4], SHAPE(3, 41, 50, 3), LAYOUT_OUTPUT);
            for (int64_t e = 0; e < tensor_count(&video[v]); e++)
                tensor_set(&video[v], e, (double)((e * e * 31 + e / 150 * 7 + v * (e % 11)) % 128 * 2));
        }
        SnlsTensor frame[2] = { video[0], video[1] };
        double got[3];
        for (int v = 0; v < 2; v++) {
            frame[v].ndim = 3;
            for (int k = 0; k < 3; k++)
                frame[v].shape[k] = video[v].shape[k + 1], frame[v].stride[k] = video[v].stride[k + 1];
        }
        CHECK(snls_psnr(ctx, &frame[0], &frame[1], &got[0]) == SNLS_OK &&
                  snls_ssim(ctx, &frame[0], &frame[1], &got[1]) == SNLS_OK,
              "%s", snls_error(ctx));
        const SnlsStatus status = snls_strred(ctx, &video[0], &video[1], &strred);
#ifdef SNLS_HAVE_LAPACK
        CHECK(status == SNLS_OK && strred.pairs == 1 && strred.score > 0, "strred: %s", snls_error(ctx));
#else
        CHECK(status == SNLS_ERR_UNSUPPORTED, "strred without LAPACK: status %d", (int)status);
#endif
        got[2] = strred.score;
#ifdef SNLS_HAVE_LAPACK
        /* stored: from the definition in NumPy (test_metrics_cli.sh) on the same clip */
        CHECK(fabs(strred.score - STORED) < 1e-6 * STORED, "strred %.12g, stored %.12g", strred.score, STORED);
#endif
        if (!i) memcpy(first, got, sizeof first);
        CHECK(!memcmp(first, got, sizeof first), "type %s, %d threads: %.17g %.17g %.17g, expected %.17g %.17g %.17g",
              snls_dtype_name((SnlsDtype)types[i % 4]), 1 + i % 3, got[0], got[1], got[2], first[0], first[1],
              first[2]);
        snls_close(&ctx);
    }
}

static void refused(SnlsContext *ctx)
{
    double value;
    SnlsStrred strred;
    SnlsTensor a = spec_tensor(SNLS_F32, SHAPE(2, 20, 20, 3)), b = a, c = a, small = spec_tensor(SNLS_F32, SHAPE(6, 7));
    b.shape[2] = 19;
    c.dtype = SNLS_I32;
    CHECK(snls_psnr(ctx, &a, &b, &value) == SNLS_ERR_SHAPE && strstr(snls_error(ctx), "(2,20,19,3)"), "two shapes: %s",
          snls_error(ctx));
    CHECK(snls_psnr(ctx, &a, NULL, &value) == SNLS_ERR_ARG && snls_psnr(ctx, &a, &a, NULL) == SNLS_ERR_ARG &&
              snls_psnr(NULL, &a, &a, &value) == SNLS_ERR_ARG,
          "NULL");
    CHECK(snls_psnr(ctx, &c, &c, &value) == SNLS_ERR_SHAPE && strstr(snls_error(ctx), "i32"), "i32: %s",
          snls_error(ctx));
    CHECK(snls_ssim(ctx, &small, &small, &value) == SNLS_ERR_SHAPE && strstr(snls_error(ctx), "7 x 7"), "small: %s",
          snls_error(ctx));
    CHECK(snls_ssim(ctx, &a, &a, &value) == SNLS_ERR_SHAPE, "ssim of a clip");
    SnlsTensor huge = a;
    huge.shape[0] = INT64_MAX / 2;
    CHECK(snls_psnr(ctx, &huge, &huge, &value) == SNLS_ERR_SHAPE && strstr(snls_error(ctx), "larger than memory"), "a shape that overflows: %s", snls_error(ctx));
    CHECK(snls_strred(ctx, &small, &small, &strred) == SNLS_ERR_SHAPE, "strred of a frame");
    SnlsTensor loose = a;
    loose.data = (char *)a.data + 1, loose.shape[0] = a.shape[0] = 1;
    CHECK(snls_psnr(ctx, &loose, &a, &value) == SNLS_ERR_ARG && strstr(snls_error(ctx), "clean is not aligned") && snls_psnr(ctx, &a, &loose, &value) == SNLS_ERR_ARG, "not aligned: %s", snls_error(ctx));
    a.shape[0] = 2;
    a.shape[0] = 1;
    CHECK(snls_strred(ctx, &a, &a, &strred) == SNLS_ERR_SHAPE && strstr(snls_error(ctx), "frames"), "one frame: %s",
          snls_error(ctx));
    a.shape[0] = 2, a.shape[1] = 16;
    CHECK(snls_strred(ctx, &a, &a, &strred) == SNLS_ERR_SHAPE && strstr(snls_error(ctx), "17"), "16 rows: %s",
          snls_error(ctx));
}

int main(void)
{
    SnlsContext *ctx = NULL;
    check_repeat("test_metrics");
    if (CHECK(snls_open(&ctx, &(SnlsContextParams){ .threads = 2 }) == SNLS_OK, "open")) {
        known(ctx);
        against_plain(ctx);
        refused(ctx);
    }
    layouts();
    snls_close(&ctx);
    tensors_free();
    return check_end();
}
