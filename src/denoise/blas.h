/* blas.h: the functions of BLAS and LAPACK that the denoiser calls. Matrices are column-major, as Fortran has them. */
#ifndef SNLS_DENOISE_BLAS_H
#define SNLS_DENOISE_BLAS_H

extern void ssyevd_(const char *jobz, const char *uplo, const int *n, float *a, const int *lda, float *w, float *work,
                    const int *lwork, int *iwork, const int *liwork, int *info);

/* OpenBLAS starts threads of its own unless told not to; another BLAS does not have these. */
#if defined(__GNUC__) && defined(__ELF__)
extern int openblas_get_num_threads(void) __attribute__((weak));
extern void openblas_set_num_threads(int) __attribute__((weak));
#else
#    define openblas_get_num_threads ((int (*)(void))0)
#    define openblas_set_num_threads ((void (*)(int))0)
#endif

#endif
