/* ops_table.h: every operator as data: its functions, and which tensor is what. Knows only the public header. */
#ifndef SNLS_BENCH_OPS_TABLE_H
#define SNLS_BENCH_OPS_TABLE_H

#include <snls/snls.h>
#include <stdbool.h>

typedef union BenchTensors {
    SnlsSearch search;
    SnlsRefine refine;
    SnlsFlowCompose compose;
    SnlsWeights weights;
    SnlsGather gather;
    SnlsScatterAdd scatter;
} BenchTensors;

typedef union BenchGrads {
    SnlsSearchGrad search;
    SnlsRefineGrad refine;
    SnlsFlowComposeGrad compose;
    SnlsWeightsGrad weights;
    SnlsGatherGrad gather;
    SnlsScatterAddGrad scatter;
} BenchGrads;

/* A tensor of a call and the gradient that belongs to it: by an input it is an output, by an output an input. */
typedef struct BenchSlot {
    size_t at;       /* in the call's struct */
    int64_t grad_at; /* in the gradients' struct; -1: has none (candidate numbers) */
    bool is_input;
} BenchSlot;

enum { BENCH_SLOTS = 7 };

typedef struct BenchOp {
    const char *op;
    bool backward_reads_outputs;
    int count;
    BenchSlot slots[BENCH_SLOTS];
    void (*defaults)(BenchTensors *t);
    SnlsStatus (*shape)(SnlsContext *ctx, BenchTensors *t);
    SnlsStatus (*forward)(SnlsContext *ctx, const BenchTensors *t);
    SnlsStatus (*backward)(SnlsContext *ctx, const BenchTensors *t, const BenchGrads *g);
} BenchOp;

const BenchOp *bench_op(const char *op); /* NULL for another name */

#endif
