/* tiles.c: cycles a product of matrix tiles takes by the order in which tiles are loaded, from the first and from the second cache. What src/simd/sieve_amx.c
 * does with keys of four chunks (F 128) was chosen by it. Not part of the library.
 *   cc -O2 -mamx-tile -mamx-bf16 -mamx-int8 -mavx512f lab/tiles.c -o tiles && ./tiles      cycles are those of an FMA rate measured beside it
 * Then all products of 16 queries with 16 keys, stored and read once for a minimum, in bf16 and as bytes, which have to be turned into floats and multiplied with a unit of each key: what bytes could gain. */
#define _GNU_SOURCE
#include "cycle.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { GROUPS = 10, PRODUCTS = 16 * GROUPS, SMALL = 16 << 10, LARGE = 256 << 10 };

static char *keys, *queries;
static float *sums;

#define KEY(UNIT, CHUNK) (at + (UNIT) * 4096 + (CHUNK) * 64)
#define QUERY(TILE, CHUNK) _tile_loadd(TILE, queries + (CHUNK) * 1024, 64);
#define LOAD(TILE, UNIT, CHUNK) _tile_loadd(TILE, KEY(UNIT, CHUNK), 256);
#define TIMES(SUM, K, Q) _tile_dpbf16ps(SUM, K, Q);
#define ZERO _tile_zero(0); _tile_zero(1); _tile_zero(2); _tile_zero(3);
#define STORE _tile_stored(0, sums, 64); _tile_stored(1, sums + 256, 64); _tile_stored(2, sums + 512, 64); _tile_stored(3, sums + 768, 64);

#define CHUNK_OF_FOUR(C)  \
    QUERY(6, C)           \
    LOAD(4, 0, C) TIMES(0, 4, 6) LOAD(5, 1, C) TIMES(1, 5, 6) LOAD(4, 2, C) TIMES(2, 4, 6) LOAD(5, 3, C) TIMES(3, 5, 6)

static void chunk_by_chunk(int span)
{
    for (int g = 0; g < GROUPS; g++) {
        const char *at = keys + g * 16384 % span;
        ZERO CHUNK_OF_FOUR(0) CHUNK_OF_FOUR(1) CHUNK_OF_FOUR(2) CHUNK_OF_FOUR(3) STORE
    }
}

#define BOTH(U, C) LOAD(4, U, C) TIMES(U, 4, 6) LOAD(5, U, C + 1) TIMES(U, 5, 7)
#define TWO_CHUNKS_OF_FOUR(C) QUERY(6, C) QUERY(7, C + 1) BOTH(0, C) BOTH(1, C) BOTH(2, C) BOTH(3, C)

static void two_chunks(int span)
{
    for (int g = 0; g < GROUPS; g++) {
        const char *at = keys + g * 16384 % span;
        ZERO TWO_CHUNKS_OF_FOUR(0) TWO_CHUNKS_OF_FOUR(2) STORE
    }
}

/* Four such units of 64 or 128 features; CHUNKS: lines of a key. */
#define UNIT(NAME, CHUNKS, PRODUCT, SCORE)                                                                                     \
    static void NAME(int span)                                                                                                 \
    {                                                                                                                          \
        __m512 least = _mm512_setzero_ps();                                                                                    \
        for (int g = 0; g < PRODUCTS / 4; g++) {                                                                               \
            const char *at = keys + g * (CHUNKS) * 4096 % span;                                                                \
            ZERO                                                                                                               \
            for (int c = 0; c < (CHUNKS); c++) {                                                                               \
                QUERY(6, c)                                                                                                    \
                _tile_loadd(4, at + c * 64, (CHUNKS) * 64); PRODUCT(0, 4, 6);                                                  \
                _tile_loadd(5, at + (CHUNKS) * 1024 + c * 64, (CHUNKS) * 64); PRODUCT(1, 5, 6);                                \
                _tile_loadd(4, at + (CHUNKS) * 2048 + c * 64, (CHUNKS) * 64); PRODUCT(2, 4, 6);                                \
                _tile_loadd(5, at + (CHUNKS) * 3072 + c * 64, (CHUNKS) * 64); PRODUCT(3, 5, 6);                                \
            }                                                                                                                  \
            for (int i = 0; i < 64; i++) least = _mm512_min_ps(least, SCORE(sums + 16 * i, i)); /* of the four before */       \
            STORE                                                                                                              \
        }                                                                                                                      \
        _mm512_storeu_ps(kept, least);                                                                                         \
    }

static float kept[16], unit_of[64];
#define AS_FLOATS(AT, I) _mm512_loadu_ps(AT)
#define AS_BYTES(AT, I) _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_loadu_si512(AT)), _mm512_set1_ps(unit_of[I]))
UNIT(halves_64, 2, _tile_dpbf16ps, AS_FLOATS)
UNIT(bytes_64, 1, _tile_dpbssd, AS_BYTES)
UNIT(halves_128, 4, _tile_dpbf16ps, AS_FLOATS)
UNIT(bytes_128, 2, _tile_dpbssd, AS_BYTES)

static double best(void (*f)(int), int span)
{
    double least = 1e9;
    for (int r = 0; r < 1000; r++) {
        const double start = seconds();
        for (int i = 0; i < 10; i++) f(span);
        const double t = (seconds() - start) / (10 * PRODUCTS);
        if (t < least) least = t;
    }
    return least;
}

int main(void)
{
    static const struct { unsigned char palette, start, none[14]; unsigned short bytes[16]; unsigned char rows[16]; } shape = {
        1, 0, {0}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};
    if (syscall(SYS_arch_prctl, 0x1023, 18)) return 1; /* ask for the tiles' data */
    keys = aligned_alloc(4096, 2 * LARGE), queries = aligned_alloc(4096, 4096), sums = aligned_alloc(4096, 4096);
    if (!keys || !queries || !sums) return 1;
    memset(keys, 0, 2 * LARGE);
    memset(queries, 0, 4096);
    _tile_loadconfig(&shape);
    double tick = 1;
    for (int i = 0; i < 200; i++) {
        const double t = cycle();
        tick = t < tick ? t : tick;
    }
    printf("chunk by chunk: %.1f cycles a product from the first cache, %.1f from the second\n", best(chunk_by_chunk, SMALL) / tick, best(chunk_by_chunk, LARGE) / tick);
    printf("two chunks at a time: %.1f and %.1f\n", best(two_chunks, SMALL) / tick, best(two_chunks, LARGE) / tick);
    printf("16 keys of 64 features: %.0f and %.0f in bf16, %.0f and %.0f as bytes\n", best(halves_64, SMALL) / tick, best(halves_64, LARGE) / tick, best(bytes_64, SMALL) / tick, best(bytes_64, LARGE) / tick);
    printf("of 128: %.0f and %.0f in bf16, %.0f and %.0f as bytes\n", best(halves_128, SMALL) / tick, best(halves_128, LARGE) / tick, best(bytes_128, SMALL) / tick, best(bytes_128, LARGE) / tick);
    _tile_release();
    return 0;
}
