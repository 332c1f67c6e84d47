/* dsp_avx2.c: the inner loops for avx2; none yet. */
#include "simd/dsp.h"

#if defined(__x86_64__)
void snls_dsp_init_avx2(SnlsDsp *dsp) { (void)dsp; }
#endif
