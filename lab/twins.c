/* twins.c: cycles that all products of 16 queries with 16 keys take on matrix tiles, stored, when two tiles of queries read the same keys: one after the other, or both of a key's tile while it is
 * loaded. Keys of twelve rows, in one frame or in nine (the second cache). Not part of the library.
 *   cc -O2 -mamx-tile -mamx-bf16 -mavx512f lab/twins.c -o twins && ./twins      cycles are those of an FMA rate measured beside it */
#define _GNU_SOURCE
#include "cycle.h"
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { ROWS = 12, COLUMNS = 48, TILE = 1024, TILE_FLOATS = TILE / 4, TWIN = 8 * TILE_FLOATS, BYTES = 8 << 20, QUERIES = 4 * TILE };

static char *keys, *queries;
static float *sums; /* rings of eight rows, the twin's after the other */
static int chunks;
static ptrdiff_t pixel, down; /* bytes of a key, and to the row below */

#define STORE(SUM, TO) _tile_stored(SUM, sums + (TO), 64);
#define BEGIN(SUM, TO) STORE(SUM, TO) _tile_zero(SUM);
#define KEY(TO, AT) _tile_loadd(TO, AT, pixel);
#define QUERY(TO, AT) _tile_loadd(TO, AT, 64);
#define TIMES(SUM, K, Q) _tile_dpbf16ps(SUM, K, Q);

#define UNIT(SUM, FREE) \
    case SUM: BEGIN(SUM, row % 8 * TILE_FLOATS) KEY(FREE, at) TIMES(SUM, FREE, 6) if (chunks == 2) { KEY(FREE, at + 64) TIMES(SUM, FREE, 7) } break;

static void one_row(const char *at, int row)
{
    switch (row % 4) { UNIT(0, 4) UNIT(1, 5) UNIT(2, 4) UNIT(3, 5) }
}

#define BOTH(SUM) KEY(4, at + (SUM) * down + c * 64) TIMES(SUM, 4, 6) KEY(5, at + (SUM) * down + c * 64 + 64) TIMES(SUM, 5, 7)

static void four_rows(const char *at, const char *query, int row)
{
    BEGIN(0, row % 8 * TILE_FLOATS) BEGIN(1, (row + 1) % 8 * TILE_FLOATS) BEGIN(2, (row + 2) % 8 * TILE_FLOATS) BEGIN(3, (row + 3) % 8 * TILE_FLOATS)
    for (int c = 0; c < chunks; c += 2) {
        QUERY(6, query + c * TILE) QUERY(7, query + (c + 1) * TILE)
        BOTH(0) BOTH(1) BOTH(2) BOTH(3)
    }
}

/* As sieve_make_amx.h has it. */
static void one_after_the_other(const char *box)
{
    for (int i = 0; i < 2; i++) {
        const char *query = queries + i * QUERIES, *at = box + i * 4 * pixel;
        QUERY(6, query)
        if (chunks == 2) { QUERY(7, query + TILE) }
        for (int row = 0; row < ROWS && chunks <= 2; row++) one_row(at + row * down, row);
        for (int row = 0; row < ROWS && chunks > 2; row += 4) four_rows(at + row * down, query, row);
    }
}

/* Two rows of keys for both. The second chunk of the first row is followed by that of the second, since its queries are there. */
static void twins(const char *box)
{
    const char *one = queries, *other = queries + QUERIES;
    if (chunks == 1) { QUERY(6, one) QUERY(7, other) }
    for (int row = 0; row < ROWS; row += 2) {
        const char *at = box + row * down, *below = at + down;
        BEGIN(0, row % 8 * TILE_FLOATS) BEGIN(1, TWIN + row % 8 * TILE_FLOATS) BEGIN(2, (row + 1) % 8 * TILE_FLOATS) BEGIN(3, TWIN + (row + 1) % 8 * TILE_FLOATS)
        if (chunks == 1) { KEY(4, at) TIMES(0, 4, 6) TIMES(1, 4, 7) KEY(5, below) TIMES(2, 5, 6) TIMES(3, 5, 7) }
        for (int c = 0; chunks > 1 && c < chunks; c += 2) {
            QUERY(6, one + c * TILE) KEY(4, at + c * 64) TIMES(0, 4, 6) QUERY(7, other + c * TILE) TIMES(1, 4, 7)
            KEY(5, at + c * 64 + 64) QUERY(6, one + (c + 1) * TILE) TIMES(0, 5, 6) QUERY(7, other + (c + 1) * TILE) TIMES(1, 5, 7)
            KEY(4, below + c * 64 + 64) TIMES(2, 4, 6) TIMES(3, 4, 7)
            QUERY(6, one + c * TILE) KEY(5, below + c * 64) TIMES(2, 5, 6) QUERY(7, other + c * TILE) TIMES(3, 5, 7)
        }
    }
}

static double best(void (*f)(const char *), int frames)
{
    double least = 1e9;
    for (int run = 0; run < 3000; run++) {
        const double start = seconds();
        for (int frame = 0; frame < frames; frame++)
            for (int x = 0; x < 4; x++) f(keys + frame * ROWS * down + x * 8 * pixel);
        const double t = (seconds() - start) / (frames * 4 * 2 * ROWS);
        least = t < least ? t : least;
    }
    return least;
}

int main(void)
{
    static const struct { unsigned char palette, start, none[14]; unsigned short bytes[16]; unsigned char rows[16]; } shape = {
        1, 0, {0}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};
    if (syscall(SYS_arch_prctl, 0x1023, 18)) return 1; /* ask for the tiles' data */
    keys = aligned_alloc(4096, BYTES), queries = aligned_alloc(4096, 2 * QUERIES), sums = aligned_alloc(4096, 2 * TWIN * sizeof *sums);
    if (!keys || !queries || !sums) return 1;
    memset(keys, 0, BYTES);
    memset(queries, 0, 2 * QUERIES);
    _tile_loadconfig(&shape);
    double tick = 1;
    for (int i = 0; i < 200; i++) {
        const double t = cycle();
        tick = t < tick ? t : tick;
    }
    for (chunks = 1; chunks <= 4; chunks *= 2) {
        pixel = chunks * 64;
        down = COLUMNS * pixel + 64;
        for (int frames = 1; frames <= 9; frames += 8)
            printf("F %3d, %4d KiB of keys: %.1f cycles one after the other, %.1f as twins\n", chunks * 32, (int)(frames * ROWS * down >> 10), best(one_after_the_other, frames) / tick, best(twins, frames) / tick);
    }
    _tile_release();
    return 0;
}
