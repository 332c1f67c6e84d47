/* hd.h: marks functions that CUDA code may call as well. */
#ifndef SNLS_HD_H
#define SNLS_HD_H
#ifdef __CUDACC__
#  define SNLS_HD __host__ __device__
#else
#  define SNLS_HD
#endif
#endif
