/* flow_in.c: flow from a file. */
#include "flow_in.h"
#include <string.h>

static int open_one(SnlsContext *ctx, FlowIn *in, bool flo)
{
    SnlsTensor *flow = &in->whole;
    const SnlsStatus status = flo ? snls_flo_read(ctx, in->path, flow) : snls_kitti_read(ctx, in->path, flow);
    if (status < 0) return fail_library(ctx, status, false);
    *flow = snls_tensor(flow->data, SNLS_F32, 4, (const int64_t[]){ 1, flow->shape[0], flow->shape[1], 2 });
    return EXIT_DONE;
}

int flow_in_open(SnlsContext *ctx, const char *path, FlowIn *in)
{
    const bool flo = snls_path_ends(path, ".flo"), png = snls_path_ends(path, ".png");
    *in = (FlowIn){ .path = path };
    input_note(path);
    if (flo || png) return open_one(ctx, in, flo);
    if (!snls_path_ends(path, ".npy")) return fail(EXIT_UNSUPPORTED, "%s: flow is read from .flo, .npy and KITTI's .png", path);
    const int code = array_in_open(ctx, path, 4, "[T,H,W,2], [1,T,H,W,2] or [H,W,2]", &in->array);
    in->whole = in->array.whole;
    if (!code && in->whole.shape[3] != 2) return fail(EXIT_INPUT, "%s: has shape %s, must be [T,H,W,2]", path, shape_text(&in->whole).text);
    return code;
}

int flow_in_next(SnlsContext *ctx, FlowIn *in, float *flow, bool *there)
{
    int code = EXIT_DONE;
    *there = in->given < in->whole.shape[0];
    if (*there && in->whole.data) memcpy(flow, in->whole.data, (size_t)snls_tensor_elements(&in->whole) * sizeof *flow);
    else if (*there) code = array_in_next(ctx, &in->array, flow, there);
    if (!code && *there) in->given++;
    return code;
}

void flow_in_close(SnlsContext *ctx, FlowIn *in)
{
    array_in_close(ctx, &in->array);
    snls_array_free(ctx, &in->whole);
}
