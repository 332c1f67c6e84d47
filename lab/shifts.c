/* shifts.c: cycles that scores of patches take a query pixel and shift along y with shifts in lanes (src/simd/shift_amx.c), and whether they are right. Not part of the library.
 *   cc -O3 -DSNLS_HAVE_AMX -Isrc -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512bf16 -mamx-tile -mamx-bf16 lab/shifts.c src/simd/shift_amx.c -lm -o shifts && ./shifts F [PS]
 * cycles are those of an FMA rate measured beside it */
#define _GNU_SOURCE
#include "cycle.h"
#include "simd/shift.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { BLOCKS = 3, PIXELS = 16 * BLOCKS, QUERY_ROWS = 16, SHIFTS = 13, WIDTH = PIXELS + 17, PITCH = PIXELS + 48 };

static void *take(size_t bytes) { return aligned_alloc(4096, (bytes + 4095) / 4096 * 4096); }

int main(int argc, char **argv)
{
    const int features = argc > 1 ? atoi(argv[1]) : 32, side = argc > 2 ? atoi(argv[2]) : 7, rows = QUERY_ROWS + side - 1, columns = PIXELS - side + 1, key_rows = rows + SHIFTS - 1;
    const ptrdiff_t words = snls_shift_words(features), run = snls_shift_tiles(features) * SNLS_SHIFT_TILE;
    if (syscall(SYS_arch_prctl, 0x1023, 18)) return 1;
    SnlsShift shift;
    snls_shift_init_amx(&shift);
    float *q = take((size_t)(rows * PIXELS * features) * 4), *k = take((size_t)(key_rows * WIDTH * features) * 4), *out = take((size_t)(QUERY_ROWS * PIXELS * SHIFTS * 16 + 16) * 4), *work = take(SNLS_SHIFT_WORK * sizeof(float));
    uint16_t *query = take((size_t)(rows * BLOCKS * run) * 2);
    uint32_t *key = take((size_t)(key_rows * words * PITCH) * 4);
    const ptrdiff_t runs = BLOCKS + 1, key_row = runs * words / 16;
    uint32_t *tiles = take((size_t)(key_rows + 1) * (size_t)key_row * 1024);
    for (int i = 0; i < rows * PIXELS * features; i++) q[i] = (float)drand48();
    for (int i = 0; i < key_rows * WIDTH * features; i++) k[i] = (float)drand48();
    for (int i = 0; i < SNLS_SHIFT_WORK; i++) work[i] = 0;
    for (int y = 0; y < key_rows; y++) {
        shift.keys(key + y * words * PITCH, k + y * WIDTH * features, features, WIDTH, features);
    }
    for (int i = 0; i < rows * BLOCKS; i++) {
        const float *pixel[16];
        for (int l = 0; l < 16; l++) pixel[l] = q + (i % rows * PIXELS + i / rows * 16 + l) * features;
        shift.queries(query + i * run, pixel, features);
    }
    const SnlsShiftScores s = {query, tiles, key_row, features, rows, BLOCKS, SHIFTS, side, out, BLOCKS * SHIFTS * 256, SHIFTS * 256, work};
    shift.start();
    double tick = 1, best = 1, best_copy = 1;
    for (int i = 0; i < 200; i++) tick = fmin(tick, cycle());
    for (int i = 0; i < 200; i++) {
        double from = seconds();
        for (int y = 0; y < key_rows; y++) shift.copy(tiles + y * key_row * 256, key + y * words * PITCH, 1, runs, features);
        best_copy = fmin(best_copy, seconds() - from);
        from = seconds();
        shift.scores(&s);
        best = fmin(best, seconds() - from);
    }
    shift.stop();
    double worst = 0;
    for (int i = 0; i < 2000; i++) {
        const int y = rand() % QUERY_ROWS, x = rand() % columns, d = rand() % SHIFTS, l = rand() % 16;
        double sum = 0;
        for (int a = 0; a < side; a++)
            for (int f = 0; f < features; f++) sum -= (double)q[((y + a) * PIXELS + x) * features + f] * (double)k[((y + a + d) * WIDTH + x + l + 1) * features + f];
        worst = fmax(worst, fabs(out[(y * BLOCKS + x / 16) * SHIFTS * 256 + d * 256 + x % 16 * 16 + l] - sum) / fabs(sum));
    }
    printf("F %d ps %d: %.2f cycles a pixel and shift along y, %.0f a query of 13 shifts and %.0f for copies; error %.2g\n", features, side, best / tick / (rows * PIXELS * SHIFTS), best / tick / (QUERY_ROWS * columns), best_copy / tick / (QUERY_ROWS * columns), worst);
    return 0;
}
