/* dsp_neon.c: the inner loops for NEON. */
#include "simd/dsp.h"

#if defined(__aarch64__)
void snls_dsp_init_neon(SnlsDsp *dsp) { (void)dsp; }
#else
typedef int snls_dsp_neon_is_empty;
#endif
