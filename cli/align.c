/* align.c: one pair of frames, aligned. Searches see noisy frames, the offsets move the clean one. */
#include "align.h"
#include "frames.h"
#include "synth.h"
#include <math.h>
#include <string.h>

const char *const align_names[ALIGN_WAYS] = { "none", "flow", "nls", "search", "keep" };

static double gauss(uint64_t seed, int64_t layer, int64_t at)
{
    const double u = 1 - synth_lattice(seed, layer, at, 0), v = synth_lattice(seed, layer, at, 1); /* u > 0 */
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

SnlsTensor align_frame(const SnlsTensor *frames, int64_t t) { return frame_of(frames, t % 2); }

void align_noise(Align *a, int64_t t, uint64_t seed)
{
    const float *clean = align_frame(&a->clean, t).data;
    float *noisy = align_frame(&a->noisy, t).data;
    for (int64_t i = 0; i < a->clean.stride[0]; i++) noisy[i] = clean[i] + (float)(a->params.noise * gauss(seed, 6000 + t, i));
}

int align_begin(Align *a, const int64_t *shape)
{
    const int64_t h = shape[0], w = shape[1], c = shape[2], s = a->params.stride0, pair[4] = { 2, h, w, c };
    const int64_t nh = (h + s - 1) / s, nw = (w + s - 1) / s;
    int code = alloc_array(a->ctx, "frames", &a->clean, SNLS_F32, 4, pair);
    if (!code) code = alloc_array(a->ctx, "noisy frames", &a->noisy, SNLS_F32, 4, pair);
    if (!code) code = alloc_array(a->ctx, "flow", &a->flow, SNLS_F32, 3, (const int64_t[]){ h, w, 2 });
    for (int i = ALIGN_FLOW; i < ALIGN_WAYS && !code; i++) {
        if (!(a->ways >> i & 1)) continue;
        code = alloc_array(a->ctx, "offsets", &a->offset[i], SNLS_F32, 7, (const int64_t[]){ 1, 1, 1, nh, nw, 1, 3 });
        if (!code)
            code = alloc_array(a->ctx, "distances", &a->dist[i], SNLS_F32, 6, (const int64_t[]){ 1, 1, 1, nh, nw, 1 });
        if (!code)
            code =
                alloc_array(a->ctx, "aligned frame", &a->aligned[i], SNLS_F32, 5, (const int64_t[]){ 1, 1, h, w, c });
    }
    return code;
}

void align_free(Align *a)
{
    for (int i = 0; i < ALIGN_WAYS; i++) {
        snls_array_free(a->ctx, &a->offset[i]);
        snls_array_free(a->ctx, &a->dist[i]);
        snls_array_free(a->ctx, &a->aligned[i]);
    }
    SnlsTensor *const all[] = { &a->clean, &a->noisy, &a->flow };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) snls_array_free(a->ctx, all[i]);
    flow_in_close(a->ctx, &a->given);
}

/* One frame as a video of one frame. */
static SnlsTensor video_of(const SnlsTensor *clip, int64_t t)
{
    const SnlsTensor f = align_frame(clip, t);
    return snls_tensor(f.data, SNLS_F32, 5, (const int64_t[]){ 1, 1, f.shape[0], f.shape[1], f.shape[2] });
}

/* Vectors above 1e9 are those that nobody knows, in .flo and KITTI's files alike. */
static void drop_unknown(Align *a)
{
    float *at = a->flow.data;
    for (int64_t i = 0; i < snls_tensor_elements(&a->flow); i += 2)
        if (fabsf(at[i]) > 1e9f || fabsf(at[i + 1]) > 1e9f) at[i] = at[i + 1] = 0, a->unknown++;
}

/* The next flow of the file. */
static int take_given(Align *a, bool *there)
{
    const int code = flow_in_next(a->ctx, &a->given, a->flow.data, there);
    if (code || !*there) return code;
    const SnlsTensor flow = snls_tensor(a->flow.data, SNLS_F32, 4, (const int64_t[]){ 1, a->flow.shape[0], a->flow.shape[1], 2 });
    const int wrong = require_finite(a->given.path, "vector", &flow, a->given.given - 1);
    if (!wrong) drop_unknown(a);
    return wrong;
}

int align_rest(Align *a)
{
    int code = EXIT_DONE;
    for (bool there = a->given.path; !code && there;) code = take_given(a, &there);
    return code;
}

static int find_flow(Align *a, int64_t t)
{
    bool there = true;
    const int64_t pixels = a->flow.shape[0] * a->flow.shape[1];
    float *flow = a->flow.data;
    if (a->no_flow) memset(flow, 0, (size_t)(2 * pixels) * sizeof *flow);
    else if (a->given.path) {
        const int code = take_given(a, &there);
        if (code) return code;
    } else {
        const SnlsTensor *video = a->clean_flow ? &a->clean : &a->noisy;
        const SnlsFlowPair pair = { align_frame(video, t), align_frame(video, t + 1), a->flow };
        const SnlsStatus status = snls_flow(a->ctx, &pair, &a->params.flow);
        if (status < 0) return fail_library(a->ctx, status, false);
    }
    a->motion = 0;
    for (int64_t i = 0; i < pixels; i++) a->motion += hypot(flow[2 * i], flow[2 * i + 1]) / (double)pixels;
    return EXIT_DONE;
}

/* Noisy t against noisy t+1, the best of ws*ws places. flow: the windows are shifted. */
static SnlsStatus search(Align *a, int64_t t, AlignWay way, int32_t ws, bool flow)
{
    SnlsSearch s = { .query = video_of(&a->noisy, t),
                     .key = video_of(&a->noisy, t + 1),
                     .dist = a->dist[way],
                     .offset = a->offset[way] };
    const int64_t step = a->params.stride0;
    if (flow) {
        const int64_t nh = s.dist.shape[3], nw = s.dist.shape[4], width = a->flow.shape[1];
        s.flow = snls_tensor(a->flow.data, SNLS_F32, 6, (const int64_t[]){ 1, 1, 1, nh, nw, 2 });
        s.flow.stride[3] = 2 * step * width; /* the flow of every step-th pixel */
        s.flow.stride[4] = 2 * step;
    }
    snls_search_defaults(&s.params);
    s.params.ws = ws;
    s.params.ps = a->params.ps;
    s.params.stride0 = a->params.stride0;
    s.params.stride1 = a->params.stride1;
    s.params.interp = a->params.interp;
    Loan loans[] = { { .tensor = &s.query },
                     { .tensor = &s.key },
                     { .tensor = &s.flow },
                     { &s.dist, true, NULL },
                     { &s.offset, true, NULL } };
    SnlsStatus status = loans_give(a->ctx, loans, 5);
    if (status >= 0) status = snls_search_forward(a->ctx, &s);
    return loans_return(a->ctx, loans, 5, status);
}

/* Clean t+1 moved by the offsets, overlapping patches averaged. */
static SnlsStatus aggregate(Align *a, int64_t t, AlignWay way)
{
    float *ones = a->dist[way].data; /* the distances are no longer needed */
    for (int64_t i = 0; i < snls_tensor_elements(&a->dist[way]); i++) ones[i] = 1;
    SnlsGatherAdd g = {
        .value = video_of(&a->clean, t + 1), .weight = a->dist[way], .offset = a->offset[way], .out = a->aligned[way]
    };
    snls_gather_add_defaults(&g.params);
    g.params.ps = a->params.ps;
    g.params.stride0 = a->params.stride0;
    g.params.interp = a->params.interp;
    Loan loans[] = { { .tensor = &g.value }, { .tensor = &g.weight }, { .tensor = &g.offset }, { &g.out, true, NULL } };
    SnlsStatus status = loans_give(a->ctx, loans, 4);
    if (status >= 0) status = snls_gather_add_forward(a->ctx, &g);
    return loans_return(a->ctx, loans, 4, status);
}

static int measure(Align *a, int64_t t, AlignWay way)
{
    const SnlsTensor target = video_of(&a->clean, t), source = video_of(&a->clean, t + 1);
    const SnlsStatus status = snls_psnr(a->ctx, &target, way == ALIGN_NONE ? &source : &a->aligned[way], &a->psnr[way]);
    return status < 0 ? fail_library(a->ctx, status, false) : EXIT_DONE;
}

int align_pair(Align *a, int64_t t)
{
    const int32_t ws = a->params.ws;
    SnlsStatus status = SNLS_OK;
    int code = find_flow(a, t);
    if (code) return code;
    if (a->ways >> ALIGN_FLOW & 1) status = search(a, t, ALIGN_FLOW, 1, true);
    if (status >= 0 && a->ways >> ALIGN_NLS & 1) status = search(a, t, ALIGN_NLS, ws, false);
    if (status >= 0 && a->ways >> ALIGN_SEARCH & 1) status = search(a, t, ALIGN_SEARCH, ws, true);
    if (status >= 0 && a->ways >> ALIGN_KEEP & 1) status = search(a, t, ALIGN_KEEP, 1, false);
    if (status >= 0 && a->ways >> ALIGN_KEEP & 1) code = align_keep(a);
    if (code) return code;
    for (int way = ALIGN_FLOW; way < ALIGN_WAYS && status >= 0; way++)
        if (a->ways >> way & 1) status = aggregate(a, t, way);
    if (status < 0) return fail_library(a->ctx, status, false);
    for (int way = 0; way < ALIGN_WAYS && !code; way++)
        if (way == ALIGN_NONE || a->ways >> way & 1) code = measure(a, t, way);
    return code;
}
