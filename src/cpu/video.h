/* video.h: a video as the inner loops want it: f32, channels contiguous. Taken as it is where the caller's already is so,
 * else packed once into scratch; gradients the other way round. */
#ifndef SNLS_CPU_VIDEO_H
#define SNLS_CPU_VIDEO_H

#include "base/tensor.h"
#include "cpu/cpu.h"
#include "op/geometry.h"

typedef struct CpuVideo {
    float  *data;    /* NULL: not given */
    int64_t step[6]; /* floats along each axis but the last: b, t, y, x of a video, b, head, k, t, y, x of a stack */
    bool    packed;
} CpuVideo;

static inline float *snls_cpu_pixel(const CpuVideo *v, int64_t b, int64_t t, int64_t y, int64_t x)
{
    return v->data + b * v->step[0] + t * v->step[1] + y * v->step[2] + x * v->step[3];
}

/* snls_reflect without its divisions where i is inside. */
static inline int64_t snls_cpu_reflect(int64_t i, int64_t n) { return i >= 0 && i < n ? i : snls_reflect(i, n); }

/* SNLS_ERR_UNSUPPORTED for a type this backend has no path for. videos take f32, f16, bf16; numbers (flow, offsets,
 * weights, distances) f32 alone. A tensor without data passes. */
SnlsStatus snls_cpu_take_video(SnlsContext *ctx, const char *op, const char *name, const SnlsTensor *t);
SnlsStatus snls_cpu_take_numbers(SnlsContext *ctx, const char *op, const char *name, const SnlsTensor *t);

/* An input, (B,T,H,W,C) or (B,heads,K,T,H,W,F). Between plan and claim comes snls_scratch_commit. */
void snls_cpu_video_plan(SnlsContext *ctx, const SnlsTensor *t);
void snls_cpu_video_claim(SnlsContext *ctx, CpuVideo *v, const SnlsTensor *t);

/* A sum that is added to t at the end: t itself where it is f32 with contiguous channels, else zeroed scratch. */
void snls_cpu_sum_plan(SnlsContext *ctx, const SnlsTensor *t);
void snls_cpu_sum_claim(SnlsContext *ctx, CpuVideo *v, const SnlsTensor *t);
void snls_cpu_sum_finish(SnlsContext *ctx, const CpuVideo *v, const SnlsTensor *t);

/* An output that is overwritten: zeroed first, whatever t held. Finish with snls_cpu_sum_finish. */
void snls_cpu_clear(SnlsContext *ctx, const SnlsTensor *t);

#endif
