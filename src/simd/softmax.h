/* softmax.h: softmax over the numbers of a query, and its gradient, one table for each instruction set. The same C text
 * (softmax_body.h) is compiled for every level without contraction; a lane is a query and its numbers are summed in their
 * order, so that all levels give the same bits, whatever queries are beside each other. Knows nothing of the rest of the library. */
#ifndef SNLS_SIMD_SOFTMAX_H
#define SNLS_SIMD_SOFTMAX_H

#include <stdint.h>

typedef struct SnlsSoftmaxRow { /* numbers of a row of queries: floats from query to query, and from number to number */
    float  *data;
    int64_t of_query, of_number;
} SnlsSoftmaxRow;

typedef struct SnlsSoftmax {
    /* weight = softmax(factor * dist) over n numbers of each of count queries. Those not finite weigh 0; all 0 where none is. dist is not written. */
    void (*forward)(const SnlsSoftmaxRow *weight, const SnlsSoftmaxRow *dist, int64_t count, int64_t n, double factor);

    /* to += factor * weight * (by - sum of weight * by); a weight of 0 takes no part. weight and by are not written. */
    void (*backward)(const SnlsSoftmaxRow *to, const SnlsSoftmaxRow *weight, const SnlsSoftmaxRow *by, int64_t count, int64_t n, double factor);
} SnlsSoftmax;

void snls_softmax(SnlsSoftmax *loops, int level); /* SnlsCpuLevel; levels this machine lacks fall back */

void snls_softmax_avx2(SnlsSoftmax *loops);
void snls_softmax_avx512(SnlsSoftmax *loops);

#endif
