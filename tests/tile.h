/* tile.h: random searches at sizes where queries are worked on in tiles, and what must hold of their results. */
#ifndef TILE_H
#define TILE_H

#include "case.h"
#include <snls/snls.h>

/* test_tile.c says what is special about each. */
typedef enum TileKind { TILE_ANY, TILE_PRODUCTS, TILE_FEW, TILE_LONG, TILE_STEPS, TILE_PATCHES, TILE_FRAMES, TILE_APART, TILE_ROUGH, TILE_STACKS, TILE_EVEN, TILE_NORMS } TileKind;

typedef struct TileCase {
    SnlsSearch s, all;
    double largest;  /* |feature| */
    bool exact;      /* small whole features and places at eighths: sums round nothing, and many tie */
    bool alike;      /* every feature of the query is 0: every candidate ties, exactly */
    int64_t per_query;
} TileCase;

/* Inputs of a search and its outputs, to be written; the same for search_all. */
void tile_draw(TileCase *c, Rng *rng, SnlsContext *ref, TileKind kind);

/* Places [first, first+k) of a query against candidates [from, from+n) of the same query. sorted: room for n. */
void tile_check_list(const TileCase *c, int64_t query, int64_t first, int64_t from, int64_t n, float *sorted);
void tile_check(const TileCase *c); /* every list of s against all */
void tile_check_again(const TileCase *c, SnlsContextParams params, int32_t threads, int fill);
void tile_check_less(const TileCase *c, SnlsContextParams params);
uint64_t tile_hash(const SnlsTensor *t);

#endif
