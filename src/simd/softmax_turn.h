/* softmax_turn.h: a block of LANES queries turned over, so that a lane is a query: number k of query q is block[k][q]. One by one. */
#ifndef SNLS_SOFTMAX_TURN_H
#define SNLS_SOFTMAX_TURN_H

#include "simd/softmax.h"

enum { LANES = 16 };

/* Numbers [first, first + n) of count queries, 1 to LANES; lanes beyond repeat the last query. */
static inline void turn_in(float (*restrict block)[LANES], const SnlsSoftmaxRow *row, int64_t count, int64_t first, int64_t n)
{
    for (int64_t q = 0; q < LANES; q++) {
        const float *from = row->data + (q < count ? q : count - 1) * row->of_query + first * row->of_number;
        for (int64_t k = 0; k < n; k++) block[k][q] = from[k * row->of_number];
    }
}

static inline void turn_out(const SnlsSoftmaxRow *row, float (*restrict block)[LANES], int64_t count, int64_t first, int64_t n)
{
    for (int64_t q = 0; q < count; q++) {
        float *to = row->data + q * row->of_query + first * row->of_number;
        for (int64_t k = 0; k < n; k++) to[k * row->of_number] = block[k][q];
    }
}

#endif
