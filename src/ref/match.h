/* match.h: the reference of search, search_all and refine, which differ only in where windows come from. */
#ifndef SNLS_REF_MATCH_H
#define SNLS_REF_MATCH_H

#include "op/match.h"
#include "ref/ref.h"

SnlsStatus snls_ref_match_forward(SnlsContext *ctx, const SnlsMatch *m);
SnlsStatus snls_ref_match_backward(SnlsContext *ctx, const SnlsMatch *m, const SnlsMatchGrad *g);

/* One pixel of the query's patch against one of the candidate's. */
typedef struct RefPair {
    int64_t qy, qx; /* query pixel, inside the frame */
    RefRead read;   /* key pixel */
} RefPair;

/* The one walk over a patch, for distance and gradient alike: visits every pair of pixels that counts. (y, x) is the
 * candidate's position. */
void snls_ref_for_each_pair(const SnlsMatch *m, const SnlsQuery *q, double y, double x, void (*visit)(const RefPair *, void *), void *user);

#endif
