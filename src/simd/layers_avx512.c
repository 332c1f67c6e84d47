/* layers_avx512.c: layers of networks, compiled for AVX-512. */
#define LAYERS snls_layers_avx512
#define LAYERS_SCOPE
#include "simd/layers_body.h"
