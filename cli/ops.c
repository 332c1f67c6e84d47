/* ops.c: the operators as commands. Tables only; cmd_op.c runs them. */
#include "ops.h"
#include <stddef.h>
#include <string.h>

#define VIDEO      "[B,T,H,W,C]"
#define FLOW       "[B,T,S,nH,nW,2] or [B,heads,T,S,nH,nW,2]"
#define FIELD      "[B,heads,T,nH,nW,K]"
#define OFFSETS    "[B,heads,T,nH,nW,K,3]"
#define PLAIN_FLOW "[B,T,H,W,2] or [T,H,W,2]"

/* Call and Grad are unions: a member's offset is that in its own struct. */
/* clang-format off */
#define INPUT(S, member, option, meta, layout, rank0, rank1, flags, help) \
    {option, meta, #member, layout, help, offsetof(S, member), 0, SLOT_INPUT, flags, rank0, rank1}
#define OUTPUT(S, member, option, meta, layout, flags, help) \
    {option, meta, #member, layout, help, offsetof(S, member), 0, SLOT_OUTPUT, flags, 0, 0}
#define SEED(S, member, option, meta, layout, rank, help)                                                         \
    {option, meta, "gradient of " #member, layout, help, offsetof(S##Grad, member), 0, SLOT_SEED, SLOT_OPTIONAL,  \
     rank, rank}
#define GRAD(S, member, option, meta, help)                                                                       \
    {option, meta, "gradient of " #member, "", help, offsetof(S##Grad, member), offsetof(S, member), SLOT_GRAD,   \
     SLOT_OPTIONAL, 0, 0}
/* clang-format on */

#define FUNCTIONS(name, field)                                                                                      \
    static void name##_defaults(Call *c) { snls_##name##_defaults(&c->field.params); }                              \
    static SnlsStatus name##_shape(SnlsContext *x, Call *c) { return snls_##name##_shape(x, &c->field); }           \
    static SnlsStatus name##_forward(SnlsContext *x, const Call *c) { return snls_##name##_forward(x, &c->field); } \
    static SnlsStatus name##_backward(SnlsContext *x, const Call *c, const Grad *g)                                 \
    {                                                                                                               \
        return snls_##name##_backward(x, &c->field, &g->field);                                                     \
    }
FUNCTIONS(search, search)
FUNCTIONS(search_all, search)
FUNCTIONS(refine, refine)
FUNCTIONS(flow_compose, compose)
FUNCTIONS(weights, weights)
FUNCTIONS(gather, gather)
FUNCTIONS(gather_add, gather)
FUNCTIONS(scatter_add, scatter)

static const Slot search_slots[] = {
    INPUT(SnlsSearch, query, NULL, "Q.npy", VIDEO, 5, 5, SLOT_VIDEO, "query video"),
    INPUT(SnlsSearch, key, NULL, "K.npy", VIDEO, 5, 5, SLOT_VIDEO, "key video"),
    INPUT(SnlsSearch, flow, "flow", "F.npy", FLOW, 6, 7, SLOT_OPTIONAL | SLOT_FINITE,
          "flow (x,y); S = 2*wt, or 2*wt+1 to shift the query's frame too"),
    OUTPUT(SnlsSearch, dist, "out-dist", "D.npy", FIELD, 0, "distances"),
    OUTPUT(SnlsSearch, offset, "out-offset", "O.npy", OFFSETS, 0, "offsets (dt,dy,dx)"),
    OUTPUT(SnlsSearch, index, "out-index", "I.npy", FIELD, SLOT_OPTIONAL | SLOT_INDEX,
           "i32 candidate numbers (slot*ws + row)*ws + column, -1 = none"),
    SEED(SnlsSearch, dist, "grad-dist", "GD.npy", FIELD, 6, "gradient by the distances; asks for backward"),
    SEED(SnlsSearch, offset, "grad-offset", "GO.npy", OFFSETS, 7, "gradient by the offsets; asks for backward"),
    GRAD(SnlsSearch, query, "out-grad-q", "GQ.npy", "gradient by the query video"),
    GRAD(SnlsSearch, key, "out-grad-k", "GK.npy", "gradient by the key video"),
    GRAD(SnlsSearch, flow, "out-grad-flow", "GF.npy", "gradient by the flow"),
};

static const Slot refine_slots[] = {
    INPUT(SnlsRefine, query, NULL, "Q.npy", VIDEO, 5, 5, SLOT_VIDEO, "query video"),
    INPUT(SnlsRefine, key, NULL, "K.npy", VIDEO, 5, 5, SLOT_VIDEO, "key video"),
    INPUT(SnlsRefine, centre, NULL, "OFFSETS.npy", "[B,heads,T,nH,nW,Kin,3]", 7, 7, SLOT_FINITE,
          "given places (dt,dy,dx)"),
    OUTPUT(SnlsRefine, dist, "out-dist", "D.npy", FIELD, 0, "distances"),
    OUTPUT(SnlsRefine, offset, "out-offset", "O.npy", OFFSETS, 0, "offsets (dt,dy,dx)"),
    OUTPUT(SnlsRefine, index, "out-index", "I.npy", FIELD, SLOT_OPTIONAL | SLOT_INDEX,
           "i32 candidate numbers (given*wr + row)*wr + column, -1 = none"),
    SEED(SnlsRefine, dist, "grad-dist", "GD.npy", FIELD, 6, "gradient by the distances; asks for backward"),
    SEED(SnlsRefine, offset, "grad-offset", "GO.npy", OFFSETS, 7, "gradient by the offsets; asks for backward"),
    GRAD(SnlsRefine, query, "out-grad-q", "GQ.npy", "gradient by the query video"),
    GRAD(SnlsRefine, key, "out-grad-k", "GK.npy", "gradient by the key video"),
    GRAD(SnlsRefine, centre, "out-grad-offset", "GC.npy", "gradient by the given places"),
};

static const Slot compose_slots[] = {
    INPUT(SnlsFlowCompose, fflow, NULL, "FFLOW.npy", PLAIN_FLOW, 5, 5, SLOT_FINITE | SLOT_CLIP, "motion t -> t+1 on frame t (x,y)"),
    INPUT(SnlsFlowCompose, bflow, NULL, "BFLOW.npy", PLAIN_FLOW, 5, 5, SLOT_FINITE | SLOT_CLIP, "motion t -> t-1 on frame t (x,y)"),
    OUTPUT(SnlsFlowCompose, flow, "out", "F.npy", "[B,T,2*wt,nH,nW,2]", 0, "flow for search"),
    SEED(SnlsFlowCompose, flow, "grad-out", "GF.npy", "[B,T,2*wt,nH,nW,2]", 6,
         "gradient by the output; asks for backward"),
    GRAD(SnlsFlowCompose, fflow, "out-grad-fflow", "GFF.npy", "gradient by FFLOW"),
    GRAD(SnlsFlowCompose, bflow, "out-grad-bflow", "GBF.npy", "gradient by BFLOW"),
};

static const Slot weights_slots[] = {
    INPUT(SnlsWeights, dist, NULL, "D.npy", FIELD, 6, 6, 0, "distances; an infinite one is an invalid neighbour"),
    OUTPUT(SnlsWeights, weight, "out", "W.npy", FIELD, 0, "weights"),
    SEED(SnlsWeights, weight, "grad-out", "GW.npy", FIELD, 6, "gradient by the weights; asks for backward"),
    GRAD(SnlsWeights, dist, "out-grad-dist", "GD.npy", "gradient by the distances"),
};

#define AGGREGATE_INPUTS(S)                                                 \
    INPUT(S, value, NULL, "V.npy", VIDEO, 5, 5, SLOT_VIDEO, "value video"), \
        INPUT(S, weight, NULL, "W.npy", FIELD, 6, 6, 0, "weights"),         \
        INPUT(S, offset, NULL, "O.npy", OFFSETS, 7, 7, SLOT_FINITE, "offsets (dt,dy,dx)")
#define AGGREGATE_GRADS(S)                                                  \
    GRAD(S, value, "out-grad-v", "GV.npy", "gradient by the value video"),  \
        GRAD(S, weight, "out-grad-w", "GW.npy", "gradient by the weights"), \
        GRAD(S, offset, "out-grad-offset", "GO.npy", "gradient by the offsets (dt gets none)")

static const Slot gather_slots[] = {
    AGGREGATE_INPUTS(SnlsGather),
    OUTPUT(SnlsGather, out, "out", "S.npy", "[B,heads,K,T,H,W,F]", 0, "the stack"),
    SEED(SnlsGather, out, "grad-out", "GS.npy", "[B,heads,K,T,H,W,F]", 7, "gradient by the output; asks for backward"),
    AGGREGATE_GRADS(SnlsGather),
};
static const Slot gather_add_slots[] = {
    AGGREGATE_INPUTS(SnlsGather),
    OUTPUT(SnlsGather, out, "out", "Y.npy", VIDEO, 0, "the weighted sum"),
    SEED(SnlsGather, out, "grad-out", "GY.npy", VIDEO, 5, "gradient by the output; asks for backward"),
    AGGREGATE_GRADS(SnlsGather),
};
static const Slot scatter_add_slots[] = {
    AGGREGATE_INPUTS(SnlsScatterAdd),
    OUTPUT(SnlsScatterAdd, out, "out", "Y.npy", VIDEO, 0, "the sum of what arrived"),
    OUTPUT(SnlsScatterAdd, total, "out-total", "N.npy", "[B,T,H,W,heads]", SLOT_OPTIONAL,
           "the weight that arrived at each pixel"),
    SEED(SnlsScatterAdd, out, "grad-out", "GY.npy", VIDEO, 5, "gradient by the sum; asks for backward"),
    SEED(SnlsScatterAdd, total, "grad-total", "GN.npy", "[B,T,H,W,heads]", 5,
         "gradient by the arrived weight; asks for backward"),
    AGGREGATE_GRADS(SnlsScatterAdd),
};

/* clang-format off */
#define COMMAND(name, slots_, reads_forward, summary_, examples_)                                               \
    {.op = #name, .summary = summary_, .examples = examples_, .slots = slots_,                                  \
     .slot_count = sizeof slots_ / sizeof *slots_, .backward_reads_forward = reads_forward,                     \
     .defaults = name##_defaults, .shape = name##_shape, .forward = name##_forward, .backward = name##_backward}
/* clang-format on */

static const OpCommand commands[] = {
    COMMAND(search, search_slots, true,
            "the k best matches of every query in a window around where the flow says it went",
            "  snls search q.npy k.npy --ws 9 --k 10 --out-dist d.npy --out-offset o.npy\n"
            "  snls search q.npy k.npy --flow f.npy --wt 1 --ps 3 --stride1 0.5 --out-dist d.npy --out-offset o.npy\n"
            "  snls search q.npy k.npy --k 4 --grad-dist gd.npy --out-grad-q gq.npy --out-grad-k gk.npy\n"),
    COMMAND(search_all, search_slots, true, "every candidate of a search in raster order (slot, row, column)",
            "  snls search-all q.npy k.npy --ws 5 --wt 1 --out-dist d.npy --out-offset o.npy\n"),
    COMMAND(refine, refine_slots, true, "search again around given places",
            "  snls refine q.npy k.npy o.npy --wr 1 --k 10 --out-dist d.npy --out-offset o2.npy\n"
            "  snls refine q.npy k.npy o.npy --wr 3 --stride1 0.25 --k 4 --out-dist d.npy --out-offset o2.npy\n"),
    COMMAND(flow_compose, compose_slots, false, "frame-to-frame flow to the flow of every slot of a search",
            "  snls compose fflow.npy bflow.npy --wt 2 --out flow.npy\n"
            "  snls compose fflow.npy bflow.npy --wt 1 --stride0 2 --grad-out gf.npy --out-grad-fflow gff.npy\n"),
    COMMAND(weights, weights_slots, true, "softmax of the distances over K",
            "  snls weights d.npy --dist l2 --scale 10 --out w.npy\n"
            "  snls weights d.npy --dist prod --scale 0.1 --grad-out gw.npy --out-grad-dist gd.npy\n"),
    COMMAND(gather, gather_slots, false, "weighted patches of each neighbour apart (a stack)",
            "  snls gather v.npy w.npy o.npy --ps 3 --out s.npy\n"),
    COMMAND(gather_add, gather_add_slots, false,
            "weighted sum of the neighbours' patches, divided by how many patches cover a pixel",
            "  snls gather-add v.npy w.npy o.npy --ps 3 --out y.npy\n"
            "  snls gather-add v.npy w.npy o.npy --grad-out gy.npy --out-grad-v gv.npy --out-grad-w gw.npy "
            "--out-grad-offset go.npy\n"),
    COMMAND(scatter_add, scatter_add_slots, false, "query patches pushed to the neighbours' places and summed",
            "  snls scatter-add v.npy w.npy o.npy --ps 3 --out y.npy --out-total n.npy\n"),
};

const OpCommand *op_command(const char *op)
{
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (!strcmp(op, commands[i].op)) return &commands[i];
    return NULL;
}

int cmd_search(int argc, char **argv) { return run_op(op_command("search"), argc, argv); }
int cmd_search_all(int argc, char **argv) { return run_op(op_command("search_all"), argc, argv); }
int cmd_refine(int argc, char **argv) { return run_op(op_command("refine"), argc, argv); }
int cmd_compose(int argc, char **argv) { return run_op(op_command("flow_compose"), argc, argv); }
int cmd_weights(int argc, char **argv) { return run_op(op_command("weights"), argc, argv); }
int cmd_gather(int argc, char **argv) { return run_op(op_command("gather"), argc, argv); }
int cmd_gather_add(int argc, char **argv) { return run_op(op_command("gather_add"), argc, argv); }
int cmd_scatter_add(int argc, char **argv) { return run_op(op_command("scatter_add"), argc, argv); }
