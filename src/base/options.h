/* options.h: what operators ask of their option table. */
#ifndef SNLS_BASE_OPTIONS_H
#define SNLS_BASE_OPTIONS_H

#include "base/context.h"
#include <snls/options.h>

void       snls_options_default(const SnlsOption *table, void *params);
SnlsStatus snls_options_check(SnlsContext *ctx, const char *op, const SnlsOption *table, const void *params);

#endif
