/* ops_table.c: the table of ops_table.h. */
#include "ops_table.h"
#include <stddef.h>
#include <string.h>

#define FUNCTIONS(name, field)                                                                                        \
    static void name##_defaults(BenchTensors *t) { snls_##name##_defaults(&t->field.params); }                        \
    static SnlsStatus name##_shape(SnlsContext *ctx, BenchTensors *t) { return snls_##name##_shape(ctx, &t->field); } \
    static SnlsStatus name##_forward(SnlsContext *ctx, const BenchTensors *t)                                         \
    {                                                                                                                 \
        return snls_##name##_forward(ctx, &t->field);                                                                 \
    }                                                                                                                 \
    static SnlsStatus name##_backward(SnlsContext *ctx, const BenchTensors *t, const BenchGrads *g)                   \
    {                                                                                                                 \
        return snls_##name##_backward(ctx, &t->field, &g->field);                                                     \
    }
FUNCTIONS(search, search)
FUNCTIONS(search_all, search)
FUNCTIONS(refine, refine)
FUNCTIONS(flow_compose, compose)
FUNCTIONS(weights, weights)
FUNCTIONS(gather, gather)
FUNCTIONS(gather_add, gather)
FUNCTIONS(scatter_add, scatter)

/* clang-format off */
#define IN(S, member) {offsetof(S, member), offsetof(S##Grad, member), true}
#define OUT(S, member) {offsetof(S, member), offsetof(S##Grad, member), false}
#define PLAIN_OUT(S, member) {offsetof(S, member), -1, false}
#define OP(name, reads, count, ...) \
    {#name, reads, count, {__VA_ARGS__}, name##_defaults, name##_shape, name##_forward, name##_backward}
/* clang-format on */

static const BenchOp table[] = {
    OP(search, true, 6, IN(SnlsSearch, query), IN(SnlsSearch, key), IN(SnlsSearch, flow), OUT(SnlsSearch, dist),
       OUT(SnlsSearch, offset), PLAIN_OUT(SnlsSearch, index)),
    OP(search_all, true, 6, IN(SnlsSearch, query), IN(SnlsSearch, key), IN(SnlsSearch, flow), OUT(SnlsSearch, dist),
       OUT(SnlsSearch, offset), PLAIN_OUT(SnlsSearch, index)),
    OP(refine, true, 6, IN(SnlsRefine, query), IN(SnlsRefine, key), IN(SnlsRefine, centre), OUT(SnlsRefine, dist),
       OUT(SnlsRefine, offset), PLAIN_OUT(SnlsRefine, index)),
    OP(flow_compose, false, 3, IN(SnlsFlowCompose, fflow), IN(SnlsFlowCompose, bflow), OUT(SnlsFlowCompose, flow)),
    OP(weights, true, 2, IN(SnlsWeights, dist), OUT(SnlsWeights, weight)),
    OP(gather, false, 4, IN(SnlsGather, value), IN(SnlsGather, weight), IN(SnlsGather, offset), OUT(SnlsGather, out)),
    OP(gather_add, false, 4, IN(SnlsGather, value), IN(SnlsGather, weight), IN(SnlsGather, offset),
       OUT(SnlsGather, out)),
    OP(scatter_add, false, 5, IN(SnlsScatterAdd, value), IN(SnlsScatterAdd, weight), IN(SnlsScatterAdd, offset),
       OUT(SnlsScatterAdd, out), OUT(SnlsScatterAdd, total)),
};

const BenchOp *bench_op(const char *op)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (!strcmp(op, table[i].op)) return &table[i];
    return NULL;
}
