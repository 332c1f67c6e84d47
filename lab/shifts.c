/* shifts.c: what patches of 7 x 7 could cost on matrix tiles: products of 16 query pixels with 32 key pixels of a row in two parts of 16 bits (three products), stored, then read with shifts in lanes and
 * summed over seven rows, for a strip of tiles of 48 x 8 pixels and 12 shifts along y as tile_patch.c has them. Keys lie in tiles of 1 KB, or in planes, whose tiles begin anywhere; or all of them in one place, which is always near. Not part of the library.
 *   cc -O3 -march=native -mamx-tile -mamx-bf16 lab/shifts.c -o shifts && ./shifts 64       F: 32, 64, 128; cycles a pixel and shift along y */
#define _GNU_SOURCE
#include "cycle.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ALWAYS static inline __attribute__((always_inline))
enum { WIDTH = 160, TILES = 8, ROWS = 8, STRIPS = 3, BLOCKS = 3, SLOTS = 3, SHIFTS = 12, RING = 8, BLOCK = 256, UNIT = 512, TIMES = 12 };
enum { PRODUCTS, STRAIGHT, SUMS };

typedef struct Keys { ptrdiff_t step, part, right, across, row, frame; } Keys; /* words: from a row of a tile to the next, part, tile on the right, 16 pixels on, row of keys, frame */

static uint32_t *keys;
static uint16_t *queries;
static float *box, *rings, *work;

/* Both tiles of keys with two rows of queries: products of high and high, high and low, low and high parts. Sums of the second row are stored in the next call. */
ALWAYS void pair(const uint16_t *first, const uint16_t *second, const uint32_t *key, const Keys *k, float *out, float **later, ptrdiff_t chunks)
{
    const ptrdiff_t step = k->step * 4, low = k->part, right = k->right;
    for (ptrdiff_t c = 0; c < chunks; c++, first += 1024, second += 1024, key += 2 * k->part) {
        if (c == 0) _tile_zero(0);
        _tile_loadd(4, key + low, step); _tile_loadd(6, first, 64); _tile_dpbf16ps(0, 6, 4);
        if (c == 0) _tile_zero(1);
        _tile_loadd(5, key + low + right, step); _tile_dpbf16ps(1, 6, 5);
        if (c == 0) { _tile_stored(2, *later, 128); _tile_zero(2); }
        _tile_loadd(7, second, 64); _tile_dpbf16ps(2, 7, 4);
        if (c == 0) { _tile_stored(3, *later + 16, 128); _tile_zero(3); }
        _tile_dpbf16ps(3, 7, 5);
        _tile_loadd(4, key, step); _tile_dpbf16ps(0, 6, 4);
        _tile_loadd(5, key + right, step); _tile_dpbf16ps(1, 6, 5);
        _tile_loadd(6, first + 512, 64); _tile_dpbf16ps(0, 6, 4); _tile_dpbf16ps(1, 6, 5);
        _tile_dpbf16ps(2, 7, 4);
        if (c == chunks - 1) _tile_stored(0, out, 128);
        _tile_dpbf16ps(3, 7, 5);
        _tile_loadd(7, second + 512, 64); _tile_dpbf16ps(2, 7, 4);
        if (c == chunks - 1) _tile_stored(1, out + 16, 128);
        _tile_dpbf16ps(3, 7, 5);
    }
    *later = out + UNIT;
}

/* Pixel i with its sixteen shifts begins at column i. */
ALWAYS void straighten(float *out, const float *unit)
{
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) _mm512_store_ps(out + i * 16, _mm512_loadu_ps(unit + i * 33));
}

/* Two rows of queries. */
ALWAYS void sum_down(float *out, const float *ring, int row)
{
    const float *at[8];
    for (int a = 0; a < 8; a++) at[a] = ring + (row + a) % RING * BLOCK;
#pragma GCC unroll 2
    for (int i = 0; i < BLOCK; i += 16) {
        __m512 same = _mm512_add_ps(_mm512_load_ps(at[1] + i), _mm512_load_ps(at[2] + i));
        same = _mm512_add_ps(same, _mm512_add_ps(_mm512_load_ps(at[3] + i), _mm512_load_ps(at[4] + i)));
        same = _mm512_add_ps(same, _mm512_add_ps(_mm512_load_ps(at[5] + i), _mm512_load_ps(at[6] + i)));
        _mm512_store_ps(out + i, _mm512_add_ps(same, _mm512_load_ps(at[0] + i)));
        _mm512_store_ps(out + BLOCKS * SHIFTS * BLOCK + i, _mm512_add_ps(same, _mm512_load_ps(at[7] + i)));
    }
}

/* Row r of the tile's new rows at shift d is there. */
ALWAYS void go_on(const float *unit, int n, int r, int d, int what)
{
    float *ring = rings + (n * SHIFTS + d) * RING * BLOCK;
    if (r < 0 || r >= ROWS) return;
    straighten(ring + (r + 6) % RING * BLOCK, unit);
    if (what == SUMS && r % 2) sum_down(box + ((r - 1) * BLOCKS * SHIFTS + n * SHIFTS + d) * BLOCK, ring, r - 1);
}

/* Block n of a tile: eight new rows of pixels, two shifts along y at a time, key row by key row. */
ALWAYS void block(const uint16_t *query, const uint32_t *key, const Keys *k, int n, ptrdiff_t chunks, int what)
{
    const ptrdiff_t row = chunks * 1024;
    float *later = work + 4 * UNIT;
    for (int d = 0; d < SHIFTS; d += 2)
        for (int y = 0; y <= ROWS; y++) {
            float *unit = work + y % 2 * 2 * UNIT;
            const float *before = work + (y + 1) % 2 * 2 * UNIT;
            pair(query + (y < ROWS ? y : ROWS - 1) * row, query + (y > 0 ? y - 1 : 0) * row, key + (d + y) * k->row, k, unit, &later, chunks);
            if (what == PRODUCTS) continue;
            go_on(before, n, y - 1, d, what); /* of the key row before: all of it is stored */
            go_on(before + UNIT, n, y - 2, d + 1, what);
        }
}

static void strip(const Keys *k, ptrdiff_t chunks, int what)
{
    for (int s = 0; s < STRIPS * SLOTS * TILES; s++) {
        const int tile = s % TILES, slot = s / TILES % SLOTS, across = s / TILES / SLOTS * BLOCKS;
        for (int n = 0; n < BLOCKS; n++) {
            const uint16_t *query = queries + (n * (TILES * ROWS + 8) + tile * ROWS) * chunks * 1024;
            const uint32_t *key = keys + slot * k->frame + tile * ROWS * k->row + (across + n) * k->across + (k->part == 16 * k->step ? 5 : 0);
            if (chunks == 1) block(query, key, k, n, 1, what);
            else if (chunks == 2) block(query, key, k, n, 2, what);
            else block(query, key, k, n, chunks, what);
        }
    }
}

static void start(void)
{
    static const struct Shape { uint8_t palette, start_row, reserved[14]; uint16_t bytes[16]; uint8_t rows[16]; } shape = {
        1, 0, {0}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};
    syscall(SYS_arch_prctl, 0x1023, 18);
    _tile_loadconfig(&shape);
}

static void *zeros(size_t bytes)
{
    void *memory = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    if (!memory) exit(1);
    return memset(memory, 0, bytes);
}

int main(int argc, char **argv)
{
    const ptrdiff_t chunks = (argc > 1 ? atoi(argv[1]) : 64) / 32, height = TILES * ROWS + SHIFTS + 8, words = WIDTH + 64, pitch = (words / 16 | 1) * 16;
    const Keys layouts[3] = {{16, 256, 2 * chunks * 256, 2 * chunks * 256, words * 32 * chunks, words * 32 * chunks * height}, {pitch, 16 * pitch, 16, 16, 32 * chunks * pitch, 32 * chunks * pitch * height}, {16, 256, 2 * chunks * 256, 0, 0, 0}};
    static const char *const places[] = {"in tiles", "in planes", "in one place"};
    static const char *const parts[] = {"products", "put straight too", "summed down too"};
    start();
    keys = zeros((size_t)(SLOTS * layouts[1].frame * 4 + 65536));
    queries = zeros((size_t)(BLOCKS * (TILES * ROWS + 8) * chunks * 2048));
    box = zeros((size_t)ROWS * BLOCKS * SHIFTS * BLOCK * 4), rings = zeros((size_t)BLOCKS * SHIFTS * RING * BLOCK * 4), work = zeros(8 * UNIT * 4);
    for (int layout = 0; layout < 3; layout++)
        for (int what = PRODUCTS; what <= SUMS; what++) {
            double best = 1e9, unit = 1e9; /* seconds: of all, of a cycle */
            for (int i = 0; i < TIMES; i++) {
                const double one = cycle(), begin = seconds();
                strip(&layouts[layout], chunks, what);
                const double took = seconds() - begin;
                best = took < best ? took : best;
                unit = one < unit ? one : unit;
            }
            printf("F %d, keys %s, %s: %.1f\n", (int)chunks * 32, places[layout], parts[what], best / unit / ((double)STRIPS * SLOTS * TILES * BLOCKS * ROWS * 16 * SHIFTS));
        }
    return 0;
}
