/* case_gather_add.c: weighted patch sums; draw and model are those of all aggregations (case_gather.c, check_aggregate.c). */
#include "case.h"

static const Slot slots[] = {
    {"value", ROLE_IN, offsetof(SnlsGatherAdd, value)},           {"weight", ROLE_IN, offsetof(SnlsGatherAdd, weight)},
    {"offset", ROLE_IN, offsetof(SnlsGatherAdd, offset)},         {"out", ROLE_OUT, offsetof(SnlsGatherAdd, out)},
    {"out", ROLE_GRAD_IN, offsetof(SnlsGatherAddGrad, out)},      {"value", ROLE_GRAD_OUT, offsetof(SnlsGatherAddGrad, value)},
    {"weight", ROLE_GRAD_OUT, offsetof(SnlsGatherAddGrad, weight)}, {"offset", ROLE_GRAD_OUT, offsetof(SnlsGatherAddGrad, offset)},
    {NULL, ROLE_IN, 0}};

const Case case_gather_add = {slots, aggregate_make, aggregate_check_forward, aggregate_check_backward, NULL};
