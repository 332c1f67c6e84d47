/* choose.h: the k best of many scores that a warp has in shared memory, sorted, k up to 64. A bound is sought that at least k and at most as
 * many scores are below as the lanes hold; those are collected in the order of their numbers and sorted. */
#ifndef SNLS_CUDA_CHOOSE_H
#define SNLS_CUDA_CHOOSE_H

#include "cuda/best.h"

enum { CHOOSE_MOST = 64 };

/* Upper half of a candidate's key (best.h), all ones where there is no candidate. */
#define CHOOSE_NONE UINT32_MAX
static __device__ __forceinline__ uint32_t choose_order(float dist, bool prod) { return isnan(dist) ? CHOOSE_NONE : (uint32_t)(snls_key(dist, prod, 0) >> 32); }

static __device__ __forceinline__ uint32_t choose_sum(uint32_t x)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    return __reduce_add_sync(SNLS_WARP, x);
#else
    for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(SNLS_WARP, x, step);
    return x;
#endif
}

static __device__ __forceinline__ uint32_t choose_least(uint32_t x)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    return __reduce_min_sync(SNLS_WARP, x);
#else
    for (int step = 16; step > 0; step /= 2) x = min(x, __shfl_xor_sync(SNLS_WARP, x, step));
    return x;
#endif
}

static __device__ __forceinline__ int choose_below(const uint32_t *order, int n, uint32_t bound, int lane)
{
    uint32_t count = 0;
#pragma unroll 4
    for (int i = lane; i < n; i += 32) count += order[i] < bound;
    return (int)choose_sum(count);
}

/* All below `bound` are taken and, of those that equal it, the first `ties`. */
typedef struct ChooseBound { uint32_t bound; int ties; } ChooseBound;

static __device__ __forceinline__ ChooseBound choose_bound(const uint32_t *order, int n, int k, int most, int lane)
{
    uint32_t least = CHOOSE_NONE, largest = 0, there = 0;
#pragma unroll 4
    for (int i = lane; i < n; i += 32) {
        const uint32_t x = order[i];
        least = min(least, x);
        if (x != CHOOSE_NONE) largest = max(largest, x), there++;
    }
    if ((int)choose_sum(there) <= most) return {CHOOSE_NONE, 0};
    uint32_t low = choose_least(least), high = ~choose_least(~largest) + 1; /* fewer than k are below low, too many below high */
    int below = 0;
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        const int count = choose_below(order, n, middle, lane);
        if (count >= k && count <= most) return {middle, 0};
        if (count < k) low = middle, below = count;
        else high = middle;
    }
    return {low, k - below};
}

/* Those that are taken, as keys; how many. */
static __device__ __forceinline__ int choose_collect(const uint32_t *order, int n, const ChooseBound *b, uint64_t *room, int lane)
{
    const unsigned before = (1u << lane) - 1;
    int filled = 0, ties = 0;
    for (int base = 0; base < n; base += 32) {
        const uint32_t x = base + lane < n ? order[base + lane] : CHOOSE_NONE;
        bool taken = x < b->bound;
        if (b->ties) {
            const unsigned equal = __ballot_sync(SNLS_WARP, x == b->bound);
            taken = taken || (x == b->bound && ties + __popc(equal & before) < b->ties);
            ties += __popc(equal);
        }
        const unsigned those = __ballot_sync(SNLS_WARP, taken);
        if (taken) room[filled + __popc(those & before)] = (uint64_t)x << 32 | (uint32_t)(base + lane);
        filled += __popc(those);
    }
    return filled;
}

/* Keys of the warp in rising order: number lane + 32 i is held[i] of that lane. */
template <int PER> static __device__ __forceinline__ void choose_sort(uint64_t (&held)[PER], int lane)
{
#pragma unroll
    for (int size = 2; size <= 32 * PER; size *= 2)
#pragma unroll
        for (int step = size / 2; step > 0; step /= 2) {
            if (step == 32) {
                const uint64_t a = held[0], b = held[PER - 1];
                held[0] = min(a, b);
                held[PER - 1] = max(a, b);
                continue;
            }
#pragma unroll
            for (int i = 0; i < PER; i++) {
                const uint64_t other = __shfl_xor_sync(SNLS_WARP, held[i], step);
                const bool rises = !((lane + 32 * i) & size), lower = !(lane & step);
                held[i] = (other < held[i]) == (rises == lower) ? other : held[i];
            }
        }
}

/* Best first; SNLS_NO_KEY where there are no more. k <= 32 * PER; room: so many keys, of the warp. A key's lower half is the number of the
 * score. */
template <int PER> static __device__ __forceinline__ void choose(const uint32_t *order, int n, int k, uint64_t *room, uint64_t (&held)[PER], int lane)
{
    __syncwarp();
    const ChooseBound bound = choose_bound(order, n, k, 32 * PER, lane);
    const int filled = choose_collect(order, n, &bound, room, lane);
    __syncwarp();
#pragma unroll
    for (int i = 0; i < PER; i++) held[i] = lane + 32 * i < filled ? room[lane + 32 * i] : SNLS_NO_KEY;
    choose_sort<PER>(held, lane);
    __syncwarp();
}

#endif
