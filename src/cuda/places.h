/* places.h: refine that ranks given places anew (wr 1) by single pixels. */
#ifndef SNLS_CUDA_PLACES_H
#define SNLS_CUDA_PLACES_H

#include "cuda/match.h"

bool       snls_cuda_places_applies(const CudaMatch *c); /* before or after the claims of the videos */
SnlsStatus snls_cuda_places_forward(SnlsContext *ctx, const CudaMatch *c);

#endif
