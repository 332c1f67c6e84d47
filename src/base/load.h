/* load.h: libraries that are found at run time: beside this one, or where the system looks. */
#ifndef SNLS_BASE_LOAD_H
#define SNLS_BASE_LOAD_H

#include <stddef.h>

/* path (where given and not empty), else name beside this library, else name where the system looks. NULL: why tells. */
void *snls_library_open(const char *name, const char *path, char *why, size_t size);
void *snls_library_symbol(void *library, const char *name);

#endif
