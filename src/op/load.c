/* load.c: finds libsnls_cuda.so. The core is linked with nothing of CUDA: where that library, the driver or the GPU is absent, opening
 * backend cuda fails with a sentence and everything else works. */
#define _GNU_SOURCE /* dladdr */
#include "op/op.h"
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#define LIBRARY "libsnls_cuda.so"

/* The folder of the library (or program) that this code is part of, with a slash at its end; "" where it is not known. */
static void own_folder(char *text, size_t size)
{
    static const char here; /* an address inside this library */
    Dl_info info;
    text[0] = 0;
    if (!dladdr(&here, &info) || !info.dli_fname) return;
    const char *slash = strrchr(info.dli_fname, '/');
    const size_t n = slash ? (size_t)(slash - info.dli_fname) + 1 : 0;
    if (n && n < size) {
        memcpy(text, info.dli_fname, n);
        text[n] = 0;
    }
}

static void *open_library(const char *path)
{
    char beside[1024], folder[1024 - sizeof LIBRARY];
    if (path && *path) return dlopen(path, RTLD_NOW | RTLD_LOCAL);
    own_folder(folder, sizeof folder);
    snprintf(beside, sizeof beside, "%s" LIBRARY, folder);
    void *library = *folder ? dlopen(beside, RTLD_NOW | RTLD_LOCAL) : NULL;
    return library ? library : dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
}

SnlsStatus snls_load_cuda(const SnlsBackend **backend, const char *path, char *why, size_t size)
{
    void *library = open_library(path); /* the same again is only counted, and stays */
    if (!library) {
        const char *said = dlerror();
        snprintf(why, size, "open: backend cuda needs " LIBRARY ", which cannot be loaded: %.300s", said ? said : "no reason given");
        return SNLS_ERR_DEVICE;
    }
    SnlsCudaEntry *entry = NULL;
    void *symbol = dlsym(library, SNLS_CUDA_ENTRY);
    memcpy(&entry, &symbol, sizeof entry); /* C has no conversion from an object pointer to a function pointer */
    *backend = entry ? entry(SNLS_API_VERSION, sizeof(SnlsContext)) : NULL;
    if (*backend) return SNLS_OK;
    snprintf(why, size, "open: " LIBRARY " belongs to another version of snls");
    return SNLS_ERR_DEVICE;
}
