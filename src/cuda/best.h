/* best.h: the k best of a stream of candidates, kept sorted by a warp. A candidate is one 64-bit number whose order is the order of
 * selection: distance first (as stored, f32), then candidate number. */
#ifndef SNLS_CUDA_BEST_H
#define SNLS_CUDA_BEST_H

#include "cuda/cuda.h"

#define SNLS_NO_KEY UINT64_MAX
#define SNLS_WARP 0xffffffffu

/* Smaller key = better. The bits of a float order like integers once negatives are turned over; -0 counts as 0. For prod the
 * distance is negated, which is exact. NaN must not come here. */
static __device__ __forceinline__ uint64_t snls_key(float dist, bool prod, uint32_t id)
{
    const uint32_t u = __float_as_uint((prod ? -dist : dist) + 0.0f);
    return (uint64_t)(u & 0x80000000u ? ~u : u | 0x80000000u) << 32 | id;
}

static __device__ __forceinline__ float snls_key_dist(uint64_t key, bool prod)
{
    const uint32_t ordered = (uint32_t)(key >> 32);
    const float dist = __uint_as_float(ordered & 0x80000000u ? ordered & 0x7fffffffu : ~ordered);
    return prod ? -dist + 0.0f : dist;
}

/* A sorted list of k keys. Up to 32 of them: one in each lane (lane i holds place i, SNLS_NO_KEY where there is none). More:
 * in memory, of which lane 0 .. 31 move 32 at a time. */
typedef struct CudaBest {
    uint64_t *list; /* NULL: in the lanes */
    uint64_t  held; /* this lane's */
    uint64_t  bar;  /* keys that are not smaller do not enter; the same in all lanes */
    int64_t   k;
} CudaBest;

static __device__ __forceinline__ void snls_best_clear(CudaBest *best, int lane)
{
    best->held = best->bar = SNLS_NO_KEY;
    if (!best->list) return;
    for (int64_t i = lane; i < best->k; i += 32) best->list[i] = SNLS_NO_KEY;
    __syncwarp();
}

/* Into a list in memory: everything from its place on moves up by one, from the end. */
static __device__ inline void snls_best_insert_memory(CudaBest *best, int lane, uint64_t key)
{
    int64_t low = 0, high = best->k - 1;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (best->list[middle] < key) low = middle + 1;
        else high = middle;
    }
    for (int64_t end = best->k - 1; end > low; end -= 32) { /* places end .. end-31 take what is below them */
        const int64_t at = end - lane;
        const uint64_t moved = at > low ? best->list[at - 1] : 0;
        __syncwarp();
        if (at > low) best->list[at] = moved;
        __syncwarp();
    }
    if (lane == 0) best->list[low] = key;
    __syncwarp();
    best->bar = best->list[best->k - 1];
}

/* One key, the same in all lanes and smaller than the bar. */
static __device__ __forceinline__ void snls_best_insert(CudaBest *best, int lane, uint64_t key)
{
    if (best->list) {
        snls_best_insert_memory(best, lane, key);
        return;
    }
    const int place = __popc(__ballot_sync(SNLS_WARP, best->held < key));
    const uint64_t below = __shfl_up_sync(SNLS_WARP, best->held, 1);
    if (lane == place) best->held = key;
    else if (lane > place) best->held = below;
    best->bar = __shfl_sync(SNLS_WARP, best->held, (int)best->k - 1);
}

/* A key from every lane that has one (SNLS_NO_KEY: none). */
static __device__ __forceinline__ void snls_best_offer(CudaBest *best, int lane, uint64_t key)
{
    unsigned waiting = __ballot_sync(SNLS_WARP, key < best->bar);
    while (waiting) {
        const int from = __ffs(waiting) - 1;
        const uint64_t next = __shfl_sync(SNLS_WARP, key, from);
        waiting &= waiting - 1;
        if (next < best->bar) snls_best_insert(best, lane, next);
    }
}

static __device__ __forceinline__ uint64_t snls_best_get(const CudaBest *best, int64_t place)
{
    return best->list ? best->list[place] : __shfl_sync(SNLS_WARP, best->held, (int)place);
}

#endif
