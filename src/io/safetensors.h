/* safetensors.h: the header of a safetensors file, between its JSON text and a checked list. */
#ifndef SNLS_IO_SAFETENSORS_H
#define SNLS_IO_SAFETENSORS_H

#include "base/context.h"
#include <snls/safetensors.h>

/* Bytes of an element of this type, 0 for a name nobody knows. *dtype is an SnlsDtype, or -1 where there is none. */
int64_t     snls_safetensors_type(const char *name, int32_t *dtype);
const char *snls_safetensors_type_name(int32_t dtype); /* NULL: cannot be written */

/* Checks the header against the number of bytes of data behind it, then makes one block of memory: the data (not yet filled;
 * *data points to it) and everything *file lists. name: of the file, for sentences. */
SnlsStatus snls_safetensors_layout(SnlsContext *ctx, const char *name, const char *header, int64_t header_bytes, int64_t data_bytes,
                                   SnlsSafetensors *file, void **data);

#endif
