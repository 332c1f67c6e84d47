/* sieve_make_amx.h: products of sixteen queries with the keys of a box on matrix tiles, in the making while sieve_scan_avx512.h scans. Included once by each file that says what
 * numbers these are:
 *   MULTIPLY(sum, keys, queries)   products of two tiles added to a third */
#ifndef SNLS_SIEVE_MAKE_AMX_H
#define SNLS_SIEVE_MAKE_AMX_H

#include "simd/inline.h"
#include "simd/sieve.h"
#include <immintrin.h>

enum { LANES = SNLS_SIEVE_LANES, CHUNK = SNLS_SIEVE_CHUNK };

/* Four units are under way at a time, in tiles 0 to 3; 4 and 5 are for keys, 6 and 7 for queries. A unit is stored when its tile is needed again, so
 * that nobody waits for the latency of a product. Up to two tiles of queries stay where they are: one chunk, two chunks, or a chunk in two parts. */
enum { ONE, CHUNKS, PARTS, MANY };

ALWAYS int kind_of(const SnlsSieveMake *m)
{
    const int tiles = m->keys.chunks * m->keys.parts;
    return tiles == 1 ? ONE : tiles > 2 ? MANY : m->keys.chunks == 2 ? CHUNKS : PARTS;
}

#define STORE(SUM) { _tile_stored(SUM, snls_sieve_unit(m, m->stored), 64); m->stored++; }

ALWAYS const uint16_t *unit_keys(const SnlsSieveMake *m, int unit)
{
    const int row = m->tiles == 1 ? unit : unit / m->tiles;
    return m->keys.at + row * m->keys.down + (unit - row * m->tiles) * LANES * m->keys.right;
}

#define UNIT(SUM, FREE)                                        \
    case SUM:                                                  \
        if (m->made >= 4) STORE(SUM)                           \
        _tile_zero(SUM);                                       \
        _tile_loadd(FREE, at, bytes);                          \
        MULTIPLY(SUM, FREE, 6);                                \
        if (kind == PARTS) MULTIPLY(SUM, FREE, 7);             \
        if (kind != ONE) _tile_loadd(FREE, at + CHUNK, bytes); \
        if (kind == CHUNKS) MULTIPLY(SUM, FREE, 7);            \
        if (kind == PARTS) MULTIPLY(SUM, FREE, 6);             \
        break;

ALWAYS void make_unit(SnlsSieveMake *m, const int kind)
{
    const ptrdiff_t bytes = m->keys.right * (ptrdiff_t)sizeof(uint16_t);
    const uint16_t *at = unit_keys(m, m->made);
    switch (m->made % 4) {
        UNIT(0, 4)
        UNIT(1, 5)
        UNIT(2, 4)
        UNIT(3, 5)
    }
    m->made++;
}

/* Queries of many chunks do not stay in tiles: four units share what is loaded of them. Chunks go by twos, since the lines of a key come in twos from the
 * second cache: 29 cycles a product instead of 47 (lab/tiles.c). */
#define EACH(DO)            \
    { DO(0, 4) }            \
    if (n > 1) { DO(1, 5) } \
    if (n > 2) { DO(2, 4) } \
    if (n > 3) { DO(3, 5) }
#define BEGIN_SUM(SUM, FREE)           \
    if (m->made >= 4) STORE(SUM)       \
    _tile_zero(SUM);
#define WITH_HIGH(SUM, FREE)                       \
    _tile_loadd(FREE, at[SUM] + c * CHUNK, bytes); \
    MULTIPLY(SUM, FREE, 6);
#define WITH_TWO(SUM, FREE)                              \
    _tile_loadd(4, at[SUM] + c * CHUNK, bytes);          \
    MULTIPLY(SUM, 4, 6);                                 \
    _tile_loadd(5, at[SUM] + (c + 1) * CHUNK, bytes);    \
    MULTIPLY(SUM, 5, 7);
#define WITH_BOTH(SUM, FREE)                                           \
    WITH_HIGH(SUM, FREE)                                               \
    MULTIPLY(SUM, FREE, 7);                                            \
    _tile_loadd(FREE, at[SUM] + (m->keys.chunks + c) * CHUNK, bytes);  \
    MULTIPLY(SUM, FREE, 6);

ALWAYS void make_many(SnlsSieveMake *m, const int n)
{
    const ptrdiff_t bytes = m->keys.right * (ptrdiff_t)sizeof(uint16_t);
    const uint16_t *at[4];
    for (int i = 0; i < n; i++) at[i] = unit_keys(m, m->made + i);
    EACH(BEGIN_SUM)
    for (ptrdiff_t c = 0; c < m->keys.chunks; c++) {
        _tile_loadd(6, m->query + c * LANES * CHUNK, 64);
        if (m->keys.parts == 1 && c + 1 < m->keys.chunks) {
            _tile_loadd(7, m->query + (c + 1) * LANES * CHUNK, 64);
            EACH(WITH_TWO)
            c++;
            continue;
        }
        if (m->keys.parts == 1) {
            EACH(WITH_HIGH)
            continue;
        }
        _tile_loadd(7, m->query + (m->keys.chunks + c) * LANES * CHUNK, 64);
        EACH(WITH_BOTH)
    }
    m->made += n;
}

/* Four units, or as many as are left of the box. */
static void make_four(SnlsSieveMake *m)
{
    switch (m->units - m->made) {
    case 1: make_many(m, 1); break;
    case 2: make_many(m, 2); break;
    case 3: make_many(m, 3); break;
    default: make_many(m, 4);
    }
}

/* Units until so many are made; their queries go into the tiles before the first. */
static void make_until(SnlsSieveMake *m, int units)
{
    const int kind = kind_of(m);
    if (m->made == 0 && units > 0 && kind != MANY) {
        _tile_loadd(6, m->query, 64);
        if (kind != ONE) _tile_loadd(7, m->query + LANES * CHUNK, 64);
    }
    switch (kind) {
    case ONE: while (m->made < units) make_unit(m, ONE); break;
    case CHUNKS: while (m->made < units) make_unit(m, CHUNKS); break;
    case PARTS: while (m->made < units) make_unit(m, PARTS); break;
    default: while (m->made < units) make_four(m);
    }
}

/* Of those made, until so many are stored. */
static void store_until(SnlsSieveMake *m, int units)
{
    while (m->stored < m->made && m->stored < units) {
        switch (m->stored % 4) {
        case 0: STORE(0) break;
        case 1: STORE(1) break;
        case 2: STORE(2) break;
        case 3: STORE(3) break;
        }
    }
}

static void make_rest(SnlsSieveMake *m)
{
    make_until(m, m->units);
    store_until(m, m->units);
}

static void make_first(SnlsSieveMake *m)
{
    if (!m->ring) make_rest(m);
}

/* Products are made between the rows of a scan, so that the matrix unit and the vector units work at the same time: those of this box a few rows ahead (a ring; a
 * unit is stored four later, and all are when the last is made), then those of the next. Tiles hold the sums of one box at a time. at_once: rows they are made
 * for. Where a row is a few instructions a cell, loads and stores of tiles go on beside it; where it is many, they only hold it up, and four rows share that
 * (docs/performance.md). A ring of eight holds the row before, four, and what is stored when the last unit is made. */
enum { AHEAD = 4 };

ALWAYS void make_some(SnlsSieveMake *box, SnlsSieveMake *next, int row, int rows, int keys, const int at_once)
{
    (void)keys; /* whole tiles */
    const int wanted = row + at_once + AHEAD;
    if (row % at_once) return;
    if (box->stored < box->units) {
        make_until(box, wanted < box->units ? wanted : box->units);
        if (box->made == box->units) store_until(box, row + SNLS_SIEVE_RING - 1); /* the row before this one may still be wanted */
    } else if (next && next->ring) {
        const int begun = wanted - rows < AHEAD ? wanted - rows : AHEAD; /* with one more the first would be stored, into rows of this box */
        make_until(next, begun < next->units ? begun : next->units);
    } else if (next) {
        const int each = (next->units + rows - 1) / rows * at_once;
        make_until(next, next->made + each < next->units ? next->made + each : next->units);
    }
}

/* No box is under way, so that no tile holds what anybody wants. */
static void awake(void) { MULTIPLY(0, 4, 6); }

ALWAYS void make_next(SnlsSieveMake *next)
{
    if (next && !next->ring) make_rest(next);
}

#endif
