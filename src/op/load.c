/* load.c: finds libsnls_cuda.so. The core is linked with nothing of CUDA: where that library, the driver or the GPU is absent, opening
 * backend cuda fails with a sentence and everything else works. */
#include "base/load.h"
#include "op/op.h"
#include <stdio.h>
#include <string.h>

#define LIBRARY "libsnls_cuda.so"

SnlsStatus snls_load_cuda(const SnlsBackend **backend, const char *path, char *why, size_t size)
{
    char said[320];
    void *library = snls_library_open(LIBRARY, path, said, sizeof said); /* the same again is only counted, and stays */
    if (!library) {
        snprintf(why, size, "open: backend cuda needs " LIBRARY ", which cannot be loaded: %.300s", said);
        return SNLS_ERR_DEVICE;
    }
    SnlsCudaEntry *entry = NULL;
    void *symbol = snls_library_symbol(library, SNLS_CUDA_ENTRY);
    memcpy(&entry, &symbol, sizeof entry); /* C has no conversion from an object pointer to a function pointer */
    *backend = entry ? entry(SNLS_API_VERSION, sizeof(SnlsContext)) : NULL;
    if (*backend) return SNLS_OK;
    snprintf(why, size, "open: " LIBRARY " belongs to another version of snls");
    return SNLS_ERR_DEVICE;
}
