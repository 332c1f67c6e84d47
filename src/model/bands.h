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
