/* blocks.c: cycles a feature takes in blocks of sums such as those of src/simd/tile_patch.h, R rows of queries by C shifts of keys, everything in the first cache; keys at the
 * places of a search, where most loads take two lines, and all at a line's begin. Not part of the library.
 *   cc -O2 -march=native lab/blocks.c -o blocks && ./blocks [F]        cycles are those of a chain of multiply-adds measured beside it */
#include "cycle.h"
#include <stdio.h>
#include <stdlib.h>

enum { LANES = 16, PITCH = 15 * LANES, FEATURES_MOST = 64, RUNS = 300, TIMES = 20 };

#define IN_REGISTER(v) __asm__("" : "+v"(v))
#define ALL _Pragma("GCC unroll 8")

#define BLOCK(NAME, R, C, STEP)                                                                                       \
    __attribute__((noinline)) static void NAME(float *out, const float *query, const float *key, int features)       \
    {                                                                                                                 \
        const int row = LANES * features;                                                                             \
        __m512 sum[R][C];                                                                                             \
        ALL for (int r = 0; r < R; r++) ALL for (int c = 0; c < C; c++) sum[r][c] = _mm512_setzero_ps();              \
        for (int f = 0; f < features; f++, query += LANES, key += PITCH) {                                            \
            __m512 q[R];                                                                                              \
            ALL for (int r = 0; r < R; r++) { q[r] = _mm512_loadu_ps(query + r * row); IN_REGISTER(q[r]); }           \
            ALL for (int c = 0; c < C; c++) {                                                                         \
                __m512 k = _mm512_loadu_ps(key + STEP * c);                                                           \
                IN_REGISTER(k);                                                                                       \
                ALL for (int r = 0; r < R; r++) sum[r][c] = _mm512_fmadd_ps(q[r], k, sum[r][c]);                      \
            }                                                                                                         \
        }                                                                                                             \
        ALL for (int r = 0; r < R; r++) ALL for (int c = 0; c < C; c++) _mm512_storeu_ps(out + (r * C + c) * 128, sum[r][c]); \
    }

BLOCK(one_six, 1, 6, 1)
BLOCK(two_six, 2, 6, 1)
BLOCK(three_six, 3, 6, 1)
BLOCK(four_six, 4, 6, 1)
BLOCK(five_five, 5, 5, 1)
BLOCK(four_six_aligned, 4, 6, 0)

static float *room(size_t floats)
{
    float *at = aligned_alloc(4096, (floats * sizeof *at + 4095) / 4096 * 4096);
    if (!at) exit(1);
    for (size_t i = 0; i < floats; i++) at[i] = 0.5f;
    return at;
}

int main(int count, char **arg)
{
    static const struct { const char *name; void (*run)(float *, const float *, const float *, int); int sums, aligned; } block[] = {
        {"1 x 6", one_six, 6, 0}, {"2 x 6", two_six, 12, 0}, {"3 x 6", three_six, 18, 0}, {"4 x 6", four_six, 24, 0}, {"5 x 5", five_five, 25, 0}, {"4 x 6, keys at a line's begin", four_six_aligned, 24, 1}};
    enum { BLOCKS = sizeof block / sizeof *block };
    const int features = count > 1 ? atoi(arg[1]) : FEATURES_MOST;
    if (features < 1 || features > FEATURES_MOST) return 2;
    float *query = room(5 * LANES * FEATURES_MOST), *key = room(PITCH * (FEATURES_MOST + 1)), *out = room(25 * 128);
    double best[BLOCKS], unit = 1;
    for (int i = 0; i < BLOCKS; i++) best[i] = 1;
    for (int n = 0; n < RUNS; n++) {
        const double one = cycle();
        unit = one < unit ? one : unit;
        for (int i = 0; i < BLOCKS; i++) {
            const double start = seconds();
            for (int t = 0; t < TIMES; t++) block[i].run(out, query, key + (block[i].aligned ? 32 : 37), features);
            const double took = (seconds() - start) / TIMES;
            best[i] = took < best[i] ? took : best[i];
        }
    }
    for (int i = 0; i < BLOCKS; i++)
        printf("%-30s %6.1f cycles a feature, %.1f of multiply-adds; %.0f a block\n", block[i].name, best[i] / unit / features, block[i].sums / 2.0, best[i] / unit);
    return 0;
}
