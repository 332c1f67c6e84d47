/* network.h: what a pipeline must know of a network, which src/model makes. */
#ifndef SNLS_BASE_NETWORK_H
#define SNLS_BASE_NETWORK_H

#include <snls/context.h>

struct SnlsModel;

const SnlsContext *snls_model_context(const struct SnlsModel *model); /* that it was opened with */

#endif
