/* patch_parts.c: what the loops of a search with 7 x 7 patches take for a query when all they read is in the first or second cache and nobody waits: the library's own, over
 * one tile of 42 x 8 queries in a stack of tiles again and again. Boxes are the smallest there are, 9 x 9 shifts in the query's own frame and 10 x 10 in the two beside it (a flow of fractions, the same
 * for all queries; one that is not makes them larger). Not counted, so that the sum is what a search can not be faster than: the walk over tiles and boxes, windows, results, borders, keys from
 * the third cache, for l2 interpolation. Not part of the library.
 *   cc -O2 -march=native -Iinclude -Isrc lab/patch_parts.c build/libsnls.a -lm -fopenmp -ldl -o patch_parts
 *   ./patch_parts prod|l2|norms F [K [SIDE]]  norms: l2 as the sum of norms less products. ws 9, wt 1, AVX-512; SIDE: of those larger boxes, 10 unless told otherwise. 12 has about as many shifts as those of lab/cpu.c's smooth flow */
#define _GNU_SOURCE
#include "cycle.h"
#include "simd/tile.h"
#include <snls/snls.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LANES = 16, SIDE = 7, REACH = SIDE - 1, ROWS = 8, PIXEL_ROWS = ROWS + REACH, PIXELS = 48, QUERIES = (PIXELS - REACH) * ROWS, VECTORS = PIXELS / LANES, WINDOW = 9, BOX = 16, RING = 8,
       PITCH = 15 * LANES, KEY_ROWS = PIXEL_ROWS + BOX, KEPT = 16, RUNS = 400 };

static SnlsTile tile;
static ptrdiff_t features, k = 3;
static int between = WINDOW + 1; /* side of the boxes beside the query's own frame */
static int prod, norms;
static ptrdiff_t layers; /* features, and the norm */
static float *key, *pixels, *query, *ring, *box, *sums, *value, *mixed, *top, *number, *work;
static uint32_t *below;
static const float *key_rows[KEY_ROWS];
static int32_t index_of[LANES];
static float fraction[LANES];

static float *room(ptrdiff_t floats)
{
    float *at = aligned_alloc(4096, ((size_t)floats * sizeof *at + 4095) / 4096 * 4096);
    if (!at) exit(1);
    static uint64_t x = 1;
    for (ptrdiff_t i = 0; i < floats; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        at[i] = (float)((double)(x >> 11) * 0x1p-53) - 0.5f;
    }
    return at;
}

/* ---- the parts: of one slot with a box of side x side shifts ---- */

/* One row of queries and one of keys into planes for every row of queries, whatever the number of slots. */
static void part_planes(int side)
{
    (void)side;
    for (int i = 0; i < ROWS; i++) {
        tile.planes(key, PITCH, pixels, features, PIXELS - REACH, features);
        tile.planes(query, LANES, pixels, features, PIXELS - REACH, features);
        if (norms) tile.norms(key + features * PITCH, key, PITCH, PIXELS, features), tile.norms(query + features * LANES, query, LANES, LANES, features);
    }
}

static void part_band(int side)
{
    const ptrdiff_t row = side * PIXELS;
    const int bands = (side + tile.patch_rows - 1) / tile.patch_rows;
    for (int n = 0; n < VECTORS; n++)
        for (int i = 0; i < bands; i++) {
            const int y = i * side / bands, end = (i + 1) * side / bands;
            const SnlsTileBand b = {.out = box + y * row + n * LANES, .out_row = side * row, .out_down = row, .out_across = PIXELS, .ring = ring + (n * side + y) * side * RING * LANES,
                                    .ring_down = side * RING * LANES, .begun = REACH, .query = query + n * PIXEL_ROWS * layers * LANES, .at = {layers * LANES, LANES, 0}, .key = key_rows + y,
                                    .key_at = LANES + n * LANES + 5, .key_pitch = PITCH, .features = features, .rows = PIXEL_ROWS, .down = end - y, .across = side, .side = SIDE, .apart = 1,
                                    .square = !prod && !norms, .norms = norms};
            tile.band(&b);
        }
}

static void part_across(int side)
{
    const ptrdiff_t row = side * PIXELS;
    for (int r = 0; r < ROWS; r++)
        for (int n = 0; n < VECTORS; n++) tile.run_sums(sums, side * LANES, box + r * side * row + n * LANES, row, PIXELS, side, side, SIDE, 1);
}

static void part_mix(int side)
{
    const SnlsTileMix w = {.out = value, .in = sums, .row = side * LANES, .side = WINDOW, .index_y = index_of, .index_x = index_of, .fraction_y = fraction, .fraction_x = fraction, .work = mixed};
    for (int r = 0; side > WINDOW && prod && r < ROWS * VECTORS; r++) tile.mix_window(&w);
}

static void part_lists(int side)
{
    (void)side;
    for (int r = 0; r < ROWS * VECTORS; r++) tile.insert(top, number, k, value, WINDOW * WINDOW, 0, LANES, work, below);
}

/* ---- */

/* Nanoseconds a query, the least of many runs. */
static double time_of(void (*part)(int), int side)
{
    double best = 1;
    for (int i = 0; i < RUNS; i++) {
        const double start = seconds();
        part(side);
        const double took = seconds() - start;
        best = took < best ? took : best;
    }
    return 1e9 * best / QUERIES;
}

/* Flops in a second, the most of many runs. */
static double fma_rate(void)
{
    double best = 1;
    for (int n = 0; n < RUNS; n++) {
        __m512 a = _mm512_set1_ps(1), x[12] = {a, a, a, a, a, a, a, a, a, a, a, a};
        const __m512 y = _mm512_set1_ps(0.5f);
        const double start = seconds();
        for (int i = 0; i < 4000; i++)
            __asm__ volatile("vfmadd213ps %12, %12, %0\nvfmadd213ps %12, %12, %1\nvfmadd213ps %12, %12, %2\nvfmadd213ps %12, %12, %3\nvfmadd213ps %12, %12, %4\nvfmadd213ps %12, %12, %5\n"
                             "vfmadd213ps %12, %12, %6\nvfmadd213ps %12, %12, %7\nvfmadd213ps %12, %12, %8\nvfmadd213ps %12, %12, %9\nvfmadd213ps %12, %12, %10\nvfmadd213ps %12, %12, %11"
                             : "+v"(x[0]), "+v"(x[1]), "+v"(x[2]), "+v"(x[3]), "+v"(x[4]), "+v"(x[5]), "+v"(x[6]), "+v"(x[7]), "+v"(x[8]), "+v"(x[9]), "+v"(x[10]), "+v"(x[11])
                             : "v"(y));
        const double took = seconds() - start;
        best = took < best ? took : best;
    }
    return 4000 * 12 * 32 / best;
}

int main(int count, char **arg)
{
    if (count < 3) return 2;
    prod = !strcmp(arg[1], "prod"), norms = !strcmp(arg[1], "norms");
    features = atoi(arg[2]);
    layers = features + norms;
    if (count > 3) k = atoi(arg[3]);
    if (count > 4) between = atoi(arg[4]);
    snls_tile_init(&tile, SNLS_CPU_AVX512);
    if (tile.lanes != LANES || tile.width != LANES || k > KEPT || features < 1 || between <= WINDOW || between > BOX) return 2;
    key = room(KEY_ROWS * layers * PITCH), query = room(VECTORS * PIXEL_ROWS * layers * LANES), pixels = room(PIXELS * features), ring = room(VECTORS * BOX * BOX * RING * LANES);
    box = room(ROWS * BOX * BOX * PIXELS + 4 * LANES), sums = room(BOX * BOX * LANES + 4 * LANES), value = room(WINDOW * WINDOW * LANES), mixed = room(4 * BOX * LANES);
    top = room(KEPT * LANES), number = room(KEPT * LANES), work = room((KEPT + 1 + 2 * SNLS_TILE_LIST) * LANES), below = (uint32_t *)(void *)room(WINDOW * WINDOW * (LANES + 1));
    for (int j = 0; j < KEY_ROWS; j++) key_rows[j] = key + j * layers * PITCH;
    for (int l = 0; l < LANES; l++) fraction[l] = 0.25f;
    for (int i = 0; i < KEPT * LANES; i++) top[i] = -1e9f, number[i] = 0; /* lists that nothing enters */

    static const struct { const char *name; void (*part)(int); } parts[] = {{"products and sums down", part_band}, {"sums across", part_across}, {"interpolation", part_mix}, {"lists", part_lists}};
    double sum = time_of(part_planes, 0);
    printf("%-24s %6.1f ns\n", "planes", sum);
    for (int i = 0; i < 4; i++) {
        const double took = time_of(parts[i].part, WINDOW) + 2 * time_of(parts[i].part, between);
        printf("%-24s %6.1f ns\n", parts[i].name, took);
        sum += took;
    }
    const double rate = fma_rate(), direct = 1e9 * 3 * WINDOW * WINDOW * SIDE * SIDE * (double)features * (prod ? 2 : 3) / rate;
    printf("%-24s %6.1f ns, direct sums at %.0f GFLOP/s are %.1f times as long\n", "sum", sum, 1e-9 * rate, direct / sum);
    return 0;
}
