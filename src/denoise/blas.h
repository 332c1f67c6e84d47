/* blas.h: the functions of BLAS and LAPACK that the denoiser calls. Matrices are column-major, as Fortran has them. */
#ifndef SNLS_DENOISE_BLAS_H
#define SNLS_DENOISE_BLAS_H

extern void ssyevd_(const char *jobz, const char *uplo, const int *n, float *a, const int *lda, float *w, float *work,
                    const int *lwork, int *iwork, const int *liwork, int *info);

#endif
