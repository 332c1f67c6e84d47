/* best.h: the k best of a stream of candidates, kept sorted. A candidate is one 64-bit number whose order is the order
 * of selection: distance first (as stored, f32), then candidate number. */
#ifndef SNLS_CPU_BEST_H
#define SNLS_CPU_BEST_H

#include "base/half.h"
#include <stdbool.h>
#include <string.h>

/* Smaller key = better. The bits of a float order like integers once negatives are turned over; -0 counts as 0. For
 * prod the distance is negated, which is exact. NaN must not come here. */
static inline uint64_t snls_best_key(float dist, bool prod, int64_t id)
{
    const uint32_t u = snls_float_bits((prod ? -dist : dist) + 0.0f);
    const uint32_t ordered = u & 0x80000000u ? ~u : u | 0x80000000u;
    return (uint64_t)ordered << 32 | (uint32_t)id;
}

static inline float snls_best_dist(uint64_t key, bool prod)
{
    const uint32_t ordered = (uint32_t)(key >> 32);
    const float dist = snls_bits_float(ordered & 0x80000000u ? ordered & 0x7fffffffu : ~ordered);
    return prod ? -dist + 0.0f : dist;
}

static inline int64_t snls_best_id(uint64_t key) { return (int64_t)(key & 0xffffffffu); }

typedef struct CpuBest {
    uint64_t *key; /* sorted, n of them */
    int64_t n, k;
} CpuBest;

/* Keys that are not smaller than this do not enter. */
static inline uint64_t snls_best_bar(const CpuBest *top) { return top->n < top->k ? UINT64_MAX : top->key[top->k - 1]; }

static inline void snls_best_insert(CpuBest *top, uint64_t key)
{
    if (key >= snls_best_bar(top)) return;
    int64_t i = top->n < top->k ? top->n++ : top->k - 1;
    if (i > 32) { /* long lists: find the place by halving, move in one piece */
        int64_t low = 0, high = i;
        while (low < high) {
            const int64_t middle = (low + high) / 2;
            if (top->key[middle] < key) low = middle + 1;
            else high = middle;
        }
        memmove(top->key + low + 1, top->key + low, (size_t)(i - low) * sizeof *top->key);
        top->key[low] = key;
        return;
    }
    for (; i > 0 && top->key[i - 1] > key; i--) top->key[i] = top->key[i - 1];
    top->key[i] = key;
}

#endif
