/* load_cuda.c: finds libsnls_nn_cuda.so, which holds the layers for GPUs. */
#include "base/load.h"
#include "nn/device.h"
#include <stdlib.h>
#include <string.h>

#define LIBRARY "libsnls_nn_cuda.so"

SnlsStatus snls_nn_load_cuda(SnlsContext *ctx, const NnCuda **cuda)
{
    char why[320];
    void *library = snls_library_open(LIBRARY, getenv("SNLS_NN_CUDA_LIBRARY"), why, sizeof why); /* the same again is only counted, and stays */
    SNLS_REQUIRE(ctx, library, SNLS_ERR_DEVICE, "network: backend cuda needs " LIBRARY ", which cannot be loaded: %.300s", why);
    NnCudaEntry *entry = NULL;
    void *symbol = snls_library_symbol(library, NN_CUDA_ENTRY);
    memcpy(&entry, &symbol, sizeof entry); /* C has no conversion from an object pointer to a function pointer */
    *cuda = entry ? entry(SNLS_API_VERSION, sizeof(SnlsContext), sizeof(NnStep)) : NULL;
    SNLS_REQUIRE(ctx, *cuda, SNLS_ERR_DEVICE, "network: " LIBRARY " belongs to another version of snls");
    return SNLS_OK;
}
