/* array.h: walking views of any strides and converting single numbers. */
#ifndef SNLS_IO_ARRAY_H
#define SNLS_IO_ARRAY_H

#include "base/context.h"
#include <stdbool.h>

/* False, with a sentence, for a view that cannot be walked: an unknown type, a bad rank or length, strides that reach beyond all memory, no memory. */
SnlsStatus snls_array_require(SnlsContext *ctx, const char *who, const char *name, const SnlsTensor *view);

/* Odometer over all axes but the last. Begin with {0}; step returns false after the last row. */
typedef struct SnlsRows {
    int64_t index[SNLS_MAX_DIM];
} SnlsRows;
bool snls_rows_step(SnlsRows *rows, const SnlsTensor *shape);
int64_t snls_rows_at(const SnlsRows *rows, const SnlsTensor *view); /* element number of the row's first element */
int64_t snls_rows_length(const SnlsTensor *view);                   /* elements in a row; 1 for a scalar */

#endif
