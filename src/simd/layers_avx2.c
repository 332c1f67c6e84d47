/* layers_avx2.c: layers of networks, compiled for AVX2. */
#define LAYERS snls_layers_avx2
#define LAYERS_SCOPE
#include "simd/layers_body.h"
