/* ops.h: an operator as a command: which file goes to which tensor. The tables are in ops.c, their use in cmd_op.c. */
#ifndef SNLS_CLI_OPS_H
#define SNLS_CLI_OPS_H

#include "cli.h"

typedef union Call {
    SnlsSearch search;
    SnlsRefine refine;
    SnlsFlowCompose compose;
    SnlsWeights weights;
    SnlsGather gather;
    SnlsScatterAdd scatter;
} Call;

typedef union Grad {
    SnlsSearchGrad search;
    SnlsRefineGrad refine;
    SnlsFlowComposeGrad compose;
    SnlsWeightsGrad weights;
    SnlsGatherGrad gather;
    SnlsScatterAddGrad scatter;
} Grad;

typedef enum SlotKind {
    SLOT_INPUT,  /* tensor of Call, read from a file */
    SLOT_OUTPUT, /* tensor of Call, written by forward */
    SLOT_SEED,   /* tensor of Grad, read from a file: gradient by an output */
    SLOT_GRAD    /* tensor of Grad, written by backward: gradient by an input */
} SlotKind;

typedef enum SlotFlag {
    SLOT_VIDEO = 1,    /* f16 may stay f16 */
    SLOT_OPTIONAL = 2, /* forward does without it */
    SLOT_FINITE = 4,   /* every number must be finite */
    SLOT_INDEX = 8,    /* i32, and what backward needs */
    SLOT_CLIP = 16,    /* without its first axis it is a batch of one: what `snls flow` writes */
} SlotFlag;

typedef struct Slot {
    const char *option; /* "flow"; NULL: positional */
    const char *meta;   /* "F.npy" */
    const char *label;  /* what the library's sentences call the tensor */
    const char *layout; /* "[B,T,H,W,C]" */
    const char *help;
    size_t at;   /* of the tensor, in Call or in Grad */
    size_t like; /* SLOT_GRAD: of the input in Call whose shape it has */
    int kind, flags;
    int rank_min, rank_max;
} Slot;

enum { SLOTS_MAX = 12 };

typedef struct OpCommand {
    const char *op, *summary, *examples;
    const Slot *slots;
    int slot_count;
    bool backward_reads_forward; /* else gradients alone need no forward */
    void (*defaults)(Call *call);
    SnlsStatus (*shape)(SnlsContext *ctx, Call *call);
    SnlsStatus (*forward)(SnlsContext *ctx, const Call *call);
    SnlsStatus (*backward)(SnlsContext *ctx, const Call *call, const Grad *grad);
} OpCommand;

const OpCommand *op_command(const char *op); /* "search_all"; NULL for another name */

int run_op(const OpCommand *command, int argc, char **argv);

#endif
