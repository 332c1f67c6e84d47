/* blas.h: on how many threads BLAS works. OpenBLAS would start threads of its own beside ours, and sums in another order with them. */
#ifndef SNLS_BASE_BLAS_H
#define SNLS_BASE_BLAS_H

#include "base/context.h"
#include <stdbool.h>

bool snls_blas_is_fast(void); /* it is OpenBLAS, not the reference */

/* From the first begin to the last end, of all contexts, products are done by the thread that asks for them; then the number of threads is what the host had set, before or meanwhile. Every
 * begin has its end; they may come from any thread. */
void snls_blas_begin(void);
void snls_blas_end(void);

/* Before so many threads use it: SNLS_ERR_MEMORY where the process may not have what OpenBLAS takes for each (ulimit -v), who would ask for it again and
 * again, for ever. op begins the sentence. */
SnlsStatus snls_blas_require(SnlsContext *ctx, const char *op, int32_t threads);

#endif
