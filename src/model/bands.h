/* bands.h: frames worked on in bands of rows. Every band is a network of the same height, with rows about it that only serve as
 * neighbours: convolutions pad with 0 where the network ends, which is right at the frame's border and nowhere else. */
#ifndef SNLS_MODEL_BANDS_H
#define SNLS_MODEL_BANDS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct Bands {
    int64_t h, rows, halo;   /* of the frame; of the network; rows at its ends that count only at the frame's border */
    int64_t from, low, high; /* the band in work: rows from .. from + rows are in it, low .. high come out */
} Bands;

/* wanted: most rows that a band brings; bands are made equal. */
static inline Bands snls_bands(int64_t h, int64_t wanted, int64_t halo)
{
    const int64_t inner = h - 2 * halo, count = wanted < 1 || inner < 1 ? 1 : (inner + wanted - 1) / wanted;
    return (Bands){ .h = h, .rows = count == 1 ? h : (inner + count - 1) / count + 2 * halo, .halo = halo };
}

/* The same in a number of bands that `shares` divides, where each brings more rows than it needs about it. */
static inline Bands snls_bands_shared(int64_t h, int64_t wanted, int64_t halo, int64_t shares)
{
    const int64_t inner = h - 2 * halo, count = wanted < 1 || inner < 1 ? 1 : (inner + wanted - 1) / wanted, even = (count + shares - 1) / shares * shares;
    return snls_bands(h, inner > 2 * halo * even ? (inner + even - 1) / even : wanted, halo);
}

static inline int64_t snls_bands_count(const Bands *b)
{
    const int64_t inner = b->h - 2 * b->halo, each = b->rows - 2 * b->halo;
    return b->rows == b->h || each < 1 ? 1 : (inner + each - 1) / each;
}

static inline Bands snls_bands_at(const Bands *b, int64_t i) /* the i-th that snls_bands_next comes to */
{
    Bands at = *b;
    at.low = i ? b->halo + i * (b->rows - 2 * b->halo) : 0;
    at.from = i ? at.low - b->halo : 0;
    at.high = at.from + b->rows - b->halo;
    if (at.from + b->rows >= b->h) at.from = b->h - b->rows, at.high = b->h;
    return at;
}

static inline bool snls_bands_next(Bands *b)
{
    if (b->high == b->h) return false;
    b->low = b->high;
    b->from = b->low ? b->low - b->halo : 0;
    b->high = b->from + b->rows - b->halo;
    if (b->from + b->rows >= b->h) b->from = b->h - b->rows, b->high = b->h;
    return true;
}

#endif
