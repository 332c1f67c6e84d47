/* video.h: a video as the kernels want it: f32, the channels of a head together, their number F a multiple of four (filled up with
 * zeros, which change neither a product nor a distance), pixels on 16 bytes. Used where it lies if it is so already, else packed
 * once into scratch. */
#ifndef SNLS_CUDA_VIDEO_H
#define SNLS_CUDA_VIDEO_H

#include "cuda/cuda.h"

typedef struct CudaVideo {
    const float4 *data;
    int64_t step[4]; /* groups of four floats along b, t, y, x */
    int64_t quads;   /* of a head */
    int64_t head;    /* from a head to the next: quads, or a clip's where each head was packed by itself */
} CudaVideo;

static inline int64_t snls_cuda_quads(int64_t features) { return (features + 3) / 4; }

static __device__ __forceinline__ const float4 *snls_cuda_pixel(const CudaVideo *v, int64_t b, int64_t head, int64_t t, int64_t y, int64_t x)
{
    return v->data + b * v->step[0] + t * v->step[1] + y * v->step[2] + x * v->step[3] + head * v->head;
}

/* Plan, commit, claim; a claim of what must be packed launches the packing. apart: heads are packed one after the other, for kernels
 * whose lanes read pixels of one head side by side. */
void       snls_cuda_video_plan(SnlsContext *ctx, const SnlsTensor *t, int64_t heads);
SnlsStatus snls_cuda_video_claim(SnlsContext *ctx, const char *op, CudaVideo *v, const SnlsTensor *t, int64_t heads, bool apart);

#endif
