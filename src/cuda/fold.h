/* fold.h: a fraction f and 1-f in one f32, both to its full precision: f up to a half, f-1 beyond. A place a hair below a pixel gives that hair to the pixel before it; of f alone, which is 1 then,
 * nothing is left for it, and the slope there is that of the next pixel. */
#ifndef SNLS_CUDA_FOLD_H
#define SNLS_CUDA_FOLD_H

static __device__ __forceinline__ float snls_fold(double f) { return (float)(f <= 0.5 ? f : f - 1); }
static __device__ __forceinline__ float snls_fold_low(float folded) { return folded < 0 ? -folded : 1 - folded; }  /* 1-f */
static __device__ __forceinline__ float snls_fold_high(float folded) { return folded < 0 ? 1 + folded : folded; }  /* f; 0 where folded is, and only there */
static __device__ __forceinline__ double snls_unfold(float folded) { return folded < 0 ? 1 + (double)folded : (double)folded; }

#endif
