/* walk.h: walks through fields of motion, a block of queries at a time, one table for each instruction set. The same C text
 * (walk_body.h) is compiled for every level without contraction and nothing is summed across queries, so that all levels give
 * the same bits. Positions are double. Knows nothing of the rest of the library.
 *
 * Arrays of a block hold x and y of a query side by side. Loops go over whole vectors: behind `queries` there is always room
 * up to the next multiple of SNLS_WALK_MULTIPLE, and what stands there must be legal too. */
#ifndef SNLS_SIMD_WALK_H
#define SNLS_SIMD_WALK_H

#include <stdint.h>

enum { SNLS_WALK = 64, SNLS_WALK_MULTIPLE = 4 }; /* queries of a block: what lies between the loops stays in the first cache */

typedef struct SnlsWalkField { /* one frame; the two components of a pixel lie side by side. Sizes below 2^51 */
    float  *data;
    int64_t step[2], size[2]; /* floats from pixel to pixel along x and y; width and height */
} SnlsWalkField;

typedef struct SnlsWalkStart { double x, y, step; } SnlsWalkStart; /* whole numbers: the first query of a block, and from one to the next along x */

typedef struct SnlsWalkStep { /* where fields were read, and what for the way back is kept of it */
    double  place[2 * SNLS_WALK];                       /* inside the frame */
    double  slope[2 * SNLS_WALK];                       /* of the reflection: 1, -1, or 0 along an axis of one pixel */
    double  by_x[2 * SNLS_WALK], by_y[2 * SNLS_WALK];   /* derivatives of both components by the position */
    int64_t defined[2 * SNLS_WALK];                     /* -1, or 0 where one of the components is NaN */
} SnlsWalkStep;

typedef struct SnlsWalkLoops {
    /* place and slope of the positions start + moved, reflected at most once along an axis of size size[0] or size[1]. Not 0: places that
     * are not in [0, size - 1] came out, those of positions that are far away or not finite. */
    int (*fold)(SnlsWalkStep *step, const SnlsWalkStart *start, const double *moved, const int64_t *size, int64_t queries);

    /* moved += the field at step->place, bilinear; out: moved, rounded. read_slopes keeps by_x, by_y and defined too. */
    void (*read)(float *out, double *moved, SnlsWalkStep *step, const SnlsWalkField *field, int64_t queries);
    void (*read_slopes)(float *out, double *moved, SnlsWalkStep *step, const SnlsWalkField *field, int64_t queries);

    /* The way back through a step: pull, the gradient by the position after it, gets the seed on top, is spread over the taps in rows
     * [first, end) of the gradient `to`, query after query, and becomes that by the position before. 0 where the step is not defined. */
    void (*pull)(const SnlsWalkField *to, int64_t first, int64_t end, double *pull, const float *seed, const SnlsWalkStep *step, int64_t queries);
} SnlsWalkLoops;

void snls_walk_loops(SnlsWalkLoops *loops, int level); /* SnlsCpuLevel; levels this machine lacks fall back */

void snls_walk_loops_avx2(SnlsWalkLoops *loops);
void snls_walk_loops_avx512(SnlsWalkLoops *loops);

#endif
