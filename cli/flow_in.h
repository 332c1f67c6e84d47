/* flow_in.h: flow from a file, a frame at a time: .flo and KITTI's .png hold one, .npy is [T,H,W,2], [1,T,H,W,2] or [H,W,2]. */
#ifndef SNLS_CLI_FLOW_IN_H
#define SNLS_CLI_FLOW_IN_H

#include "pieces.h"

typedef struct FlowIn {
    const char *path;
    SnlsTensor whole; /* (T,H,W,2), f32; without data but for a file of one flow */
    ArrayIn array;    /* of a .npy file */
    int64_t given;    /* frames so far */
} FlowIn;

int flow_in_open(SnlsContext *ctx, const char *path, FlowIn *in);
int flow_in_next(SnlsContext *ctx, FlowIn *in, float *flow, bool *there); /* (H,W,2); unknown pixels are 1e10 */
void flow_in_close(SnlsContext *ctx, FlowIn *in);

#endif
