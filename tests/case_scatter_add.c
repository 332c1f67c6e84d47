/* case_scatter_add.c: patches pushed to their neighbours; draw and model are those of all aggregations. */
#include "case.h"

static const Slot slots[] = {
    {"value", ROLE_IN, offsetof(SnlsScatterAdd, value)},           {"weight", ROLE_IN, offsetof(SnlsScatterAdd, weight)},
    {"offset", ROLE_IN, offsetof(SnlsScatterAdd, offset)},         {"out", ROLE_OUT, offsetof(SnlsScatterAdd, out)},
    {"total", ROLE_OUT, offsetof(SnlsScatterAdd, total)},          {"out", ROLE_GRAD_IN, offsetof(SnlsScatterAddGrad, out)},
    {"total", ROLE_GRAD_IN, offsetof(SnlsScatterAddGrad, total)},  {"value", ROLE_GRAD_OUT, offsetof(SnlsScatterAddGrad, value)},
    {"weight", ROLE_GRAD_OUT, offsetof(SnlsScatterAddGrad, weight)}, {"offset", ROLE_GRAD_OUT, offsetof(SnlsScatterAddGrad, offset)},
    {NULL, ROLE_IN, 0}};

_Static_assert(offsetof(SnlsScatterAdd, out) == offsetof(SnlsGather, out), "the draw writes both through one struct");

const Case case_scatter_add = {slots, aggregate_make, aggregate_check_forward, aggregate_check_backward, NULL};
