/* case_search_all.c: search_all takes the structs of search; the draw is that of case_search.c without a selection. */
#include "match.h"

static const Slot slots[] = {
    {"query", ROLE_IN, offsetof(SnlsSearchAll, query)},         {"key", ROLE_IN, offsetof(SnlsSearchAll, key)},
    {"flow", ROLE_IN, offsetof(SnlsSearchAll, flow)},           {"dist", ROLE_OUT, offsetof(SnlsSearchAll, dist)},
    {"offset", ROLE_OUT, offsetof(SnlsSearchAll, offset)},      {"index", ROLE_OUT, offsetof(SnlsSearchAll, index)},
    {"dist", ROLE_GRAD_IN, offsetof(SnlsSearchAllGrad, dist)},  {"offset", ROLE_GRAD_IN, offsetof(SnlsSearchAllGrad, offset)},
    {"query", ROLE_GRAD_OUT, offsetof(SnlsSearchAllGrad, query)}, {"key", ROLE_GRAD_OUT, offsetof(SnlsSearchAllGrad, key)},
    {"flow", ROLE_GRAD_OUT, offsetof(SnlsSearchAllGrad, flow)}, {NULL, ROLE_IN, 0}};

static void make(Call *call) { search_make(call, true); }

const Case case_search_all = {slots, make, match_check_forward, match_check_backward, NULL};
