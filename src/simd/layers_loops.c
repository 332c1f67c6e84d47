/* layers_loops.c: layers of networks for any machine, and the choice of a level. */
#include "simd/dsp.h"
#define LAYERS layers_c
#define LAYERS_SCOPE static
#include "simd/layers_body.h"

void snls_layers(SnlsLayers *layers, int level)
{
    const int max = snls_dsp_level_max();
    if (level > max) level = max;
    layers_c(layers);
#if defined(__x86_64__)
    if (level >= 2) snls_layers_avx2(layers);
    if (level >= 3) snls_layers_avx512(layers);
#endif
}
