/* box.h: search for the one best match in every frame by patches of few channels, about the query itself and on whole pixels. */
#ifndef SNLS_CUDA_BOX_H
#define SNLS_CUDA_BOX_H

#include "cuda/match.h"

bool       snls_cuda_box_applies(const CudaMatch *c);
SnlsStatus snls_cuda_box_forward(SnlsContext *ctx, const CudaMatch *c); /* after commit and the claims of the videos */

#endif
