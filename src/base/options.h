/* options.h: what operators ask of their option table. */
#ifndef SNLS_BASE_OPTIONS_H
#define SNLS_BASE_OPTIONS_H

#include "base/context.h"
#include <snls/options.h>

void       snls_options_default(const SnlsOption *table, void *params);
SnlsStatus snls_options_check(SnlsContext *ctx, const char *op, const SnlsOption *table, const void *params);

/* What later versions will give a meaning is 0. defaults: the function that sets it, "snls_train_defaults"; NULL where there is none. */
SnlsStatus snls_reserved_check(SnlsContext *ctx, const char *op, const char *defaults, const int32_t *reserved, size_t count);
SnlsStatus snls_flag_check(SnlsContext *ctx, const char *op, const char *name, int32_t flag); /* 0 or 1 */
SnlsStatus snls_threads_check(SnlsContext *ctx, const char *op, int32_t threads);            /* of another library; 0 = its own choice */

#endif
