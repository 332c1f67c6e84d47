/* flow_args.h: the parameters of optical flow on the command line: those of the method that is asked for. */
#ifndef SNLS_CLI_FLOW_ARGS_H
#define SNLS_CLI_FLOW_ARGS_H

#include "cli.h"

enum { FLOW_OPTIONS_MAX = 24 };

/* The options of more (its offsets stay), then those of the method, whose parameters lie params_at bytes into the same
 * struct. list has room for FLOW_OPTIONS_MAX. */
void flow_options(SnlsOption *list, const SnlsOption *more, size_t params_at, const char *method);

extern const char *const flow_methods[]; /* NULL behind the last */

/* The method argv asks for with --name, or fallback. */
const char *flow_method_given(int argc, char **argv, const char *name, const char *fallback);

#endif
