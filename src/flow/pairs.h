/* pairs.h: optical flow of several pairs of frames of one size, side by side on the context's threads. */
#ifndef SNLS_FLOW_PAIRS_H
#define SNLS_FLOW_PAIRS_H

#include <snls/flow.h>

/* What snls_flow gives for each, whatever the number of threads. */
SnlsStatus snls_flow_pairs(SnlsContext *ctx, const SnlsFlowPair *pairs, int64_t count, const SnlsFlowParams *params);

#endif
