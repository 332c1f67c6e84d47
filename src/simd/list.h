/* list.h: windows of a search and the neighbours it has kept, lane by lane: what tile.h and sieve.h have in common. */
#ifndef SNLS_LIST_H
#define SNLS_LIST_H

#include <stddef.h>
#include <stdint.h>

/* Where a neighbour is: slot, row and column of its window's cell. SNLS_LIST_NONE: there is none. */
#define SNLS_LIST_SLOTS 4095 /* a slot's number is below, a row's and a column's below 1024 */
#define SNLS_LIST_NONE UINT32_MAX
static inline uint32_t snls_list_place(uint32_t slot, uint32_t row, uint32_t column) { return slot << 20 | row << 10 | column; }

/* Windows of many queries in one slot: cell c of an axis is at centre + step*(c - origin), c = 0 .. span. */
typedef struct SnlsLaneWindows {
    double step, origin, span;   /* origin: where nothing slides */
    double end_y, end_x;         /* last row and column of the frame */
    int    slide, nearest;
} SnlsLaneWindows;

/* Sixteen queries, each against a place between four pixels, or at the first of them. */
typedef struct SnlsPairs {
    const float *query[16], *tap[4][16];
    float fraction_y[16], fraction_x[16];
} SnlsPairs;

typedef struct SnlsListOutput {
    const double *y, *x;                  /* queries */
    const double *centre_y, *centre_x;    /* of windows: lane by lane, slots `apart` numbers apart */
    const int32_t *origin_y, *origin_x;
    ptrdiff_t apart;
    const float *dt;                      /* of each slot */
    double step;
    uint32_t side, active;                /* cells of a window's side; lanes to be written */
    int prod;                             /* distances are the scores' negatives */
    float *dist, *offset;                 /* of lane 0, neighbour 0 */
    int32_t *index;                       /* or NULL */
    const ptrdiff_t *dist_at, *offset_at, *index_at; /* from lane 0 to each lane */
    ptrdiff_t dist_step, offset_step, index_step;    /* from a neighbour to the next */
    ptrdiff_t component;                  /* from dt to dy to dx */
} SnlsListOutput;

#endif
