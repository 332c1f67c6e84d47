/* metrics.h: how far a picture or a clip is from the clean one: PSNR, SSIM, ST-RRED, as the tables of the paper have them.
 * Pixels are on the 0..255 scale, of f32, f64, f16, bf16 or u8, in CPU memory with any strides. Nothing is clamped or
 * rounded here: clamp a result to 0..255 first where that is the convention. */
#ifndef SNLS_METRICS_H
#define SNLS_METRICS_H

#include <snls/context.h>
#include <snls/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* 10 log10(255^2 / MSE) over all elements of two views of one shape; +inf where they are equal. */
SNLS_API SnlsStatus snls_psnr(SnlsContext *ctx, const SnlsTensor *clean, const SnlsTensor *test, double *psnr);

/* Structural similarity of (H,W) or (H,W,C), at least 7x7 pixels: uniform windows of 7x7, sample covariance (49/48), K1 0.01, K2 0.03, mean
 * over the windows that lie inside and over the channels. What scikit-image's structural_similarity gives on x / 255. */
SNLS_API SnlsStatus snls_ssim(SnlsContext *ctx, const SnlsTensor *clean, const SnlsTensor *test, double *ssim);

/* Spatio-temporal reduced-reference entropic differencing (Soundararajan, Bovik, 2013), on luma from 0 to 1 as the paper's authors
 * computed it. Frames are used in pairs, (0,1), (2,3), ...; an odd last frame is left out. */
typedef struct SnlsStrred {
    double  score;             /* spatial * temporal: the number of the tables; smaller is better */
    double  spatial, temporal; /* means over the pairs of the mean absolute difference of the blocks' entropies */
    double  reduced;           /* the same product with the absolute value of the mean difference */
    int64_t pairs;
    double  reduced_spatial, reduced_temporal; /* its two factors, means over the pairs */
    double  reserved[1];
} SnlsStrred;

/* (T,H,W,C) with C 1 or 3, T at least 2, H and W at least 17. SNLS_ERR_UNSUPPORTED where the library was built without LAPACK. */
SNLS_API SnlsStatus snls_strred(SnlsContext *ctx, const SnlsTensor *clean, const SnlsTensor *test, SnlsStrred *result);

#ifdef __cplusplus
}
#endif
#endif
