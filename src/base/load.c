/* load.c: finds libraries at run time, so that the core is linked with nothing of theirs. */
#define _GNU_SOURCE /* dladdr */
#include "base/load.h"
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

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

/* One that is there and cannot be loaded says why better than the system's search that follows. Whether it is there the file system
 * tells: dlerror has the same words, in the language of the program, for a library that is missing and for one that needs a missing one. */
static void *open_beside(const char *name, char *why, size_t size)
{
    char folder[1024], beside[1200];
    own_folder(folder, sizeof folder);
    if (!*folder) return NULL;
    snprintf(beside, sizeof beside, "%s%s", folder, name);
    void *library = dlopen(beside, RTLD_NOW | RTLD_LOCAL);
    const char *said = library ? NULL : dlerror();
    if (said && !access(beside, F_OK)) snprintf(why, size, "%.300s", said);
    return library;
}

void *snls_library_open(const char *name, const char *path, char *why, size_t size)
{
    const bool given = path && *path;
    why[0] = 0;
    void *library = given ? NULL : open_beside(name, why, size);
    if (!library) library = dlopen(given ? path : name, RTLD_NOW | RTLD_LOCAL);
    if (!library && !why[0]) {
        const char *said = dlerror();
        snprintf(why, size, "%.300s", said ? said : "no reason given");
    }
    return library;
}

void *snls_library_symbol(void *library, const char *name) { return dlsym(library, name); }
