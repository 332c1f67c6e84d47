/* patch_loops_body.h: the loops over patches, included once for each instruction set with PATCH_LOOPS as the name of the
 * function that fills the table and PATCH_LANES as the floats of a vector. */
#include "simd/patch.h"
#include <stddef.h>
#include <string.h>

typedef float Lanes __attribute__((vector_size(4 * PATCH_LANES)));
#define LOAD(to, from)  memcpy(&(to), (from), sizeof(to))
#define STORE(to, from) memcpy((to), &(from), sizeof(from))

/* Four rows of candidates at a time: four chains of sums, one load of the query's pixel. */
static inline void score_four(float *dist, int64_t pitch, const float *query, const float *key, int64_t stride,
                              int64_t side)
{
    Lanes sum[4], k, e;
    for (int r = 0; r < 4; r++) LOAD(sum[r], dist + r * pitch);
    for (int64_t y = 0; y < side; y++)
        for (int64_t x = 0; x < side; x++) {
            const float q = query[y * stride + x], *at = key + y * stride + x;
            for (int r = 0; r < 4; r++) {
                LOAD(k, at + r * stride);
                e = k - q;
                sum[r] += e * e;
            }
        }
    for (int r = 0; r < 4; r++) STORE(dist + r * pitch, sum[r]);
}

static inline void score_one(float *dist, const float *query, const float *key, int64_t stride, int64_t side)
{
    Lanes sum, k, e;
    LOAD(sum, dist);
    for (int64_t y = 0; y < side; y++)
        for (int64_t x = 0; x < side; x++) {
            LOAD(k, key + y * stride + x);
            e = k - query[y * stride + x];
            sum += e * e;
        }
    STORE(dist, sum);
}

static void score(float *dist, int64_t pitch, const float *query, const float *key, int64_t stride, int64_t side,
                  int64_t rows, int64_t columns)
{
    for (int64_t c = 0; c < columns; c += PATCH_LANES) {
        int64_t r = 0;
        for (; r + 4 <= rows; r += 4)
            score_four(dist + r * pitch + c, pitch, query, key + r * stride + c, stride, side);
        for (; r < rows; r++) score_one(dist + r * pitch + c, query, key + r * stride + c, stride, side);
    }
}

typedef float Four __attribute__((vector_size(16)));

static void take(float *restrict patch, const float *restrict from, int64_t stride, int64_t side)
{
    Four a, b;
    for (int64_t y = 0; y < side && side == 7; y++, from += stride, patch += 7) {
        LOAD(a, from);
        LOAD(b, from + 3);
        STORE(patch, a);
        STORE(patch + 3, b);
    }
    for (int64_t y = 0; y < side && side != 7; y++)
        memcpy(patch + y * side, from + y * stride, (size_t)side * sizeof *patch);
}

/* Rows of seven in two fours: both are read before either is written, so that the one they share is added to once, and no load
 * waits for a store. */
static void add_seven(float *restrict sum, int64_t stride, const float *restrict patch)
{
    for (int64_t y = 0; y < 7; y++, sum += stride, patch += 7) {
        Four a, b, left, right;
        LOAD(a, patch);
        LOAD(b, patch + 3);
        LOAD(left, sum);
        LOAD(right, sum + 3);
        left += a;
        right += b;
        STORE(sum, left);
        STORE(sum + 3, right);
    }
}

static void add(float *restrict sum, int64_t stride, const float *restrict patch, int64_t side)
{
    if (side == 7) {
        add_seven(sum, stride, patch);
        return;
    }
    for (int64_t y = 0; y < side; y++)
        for (int64_t x = 0; x < side; x++) sum[y * stride + x] += patch[y * side + x];
}

PATCH_SCOPE void PATCH_LOOPS(SnlsPatchLoops *loops);
PATCH_SCOPE void PATCH_LOOPS(SnlsPatchLoops *loops)
{
    loops->score = score;
#if PATCH_LANES <= 8
    loops->score_narrow = score;
#endif
    loops->take = take;
    loops->add = add;
}
