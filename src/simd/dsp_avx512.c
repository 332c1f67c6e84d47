/* dsp_avx512.c: the inner loops for avx512; none yet. */
#include "simd/dsp.h"

#if defined(__x86_64__)
void snls_dsp_init_avx512(SnlsDsp *dsp) { (void)dsp; }
#endif
