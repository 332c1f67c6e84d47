/* warp.h: the fast forward of search where single pixels are compared by products. A warp works on a group of 4 x 4 queries, alone:
 * there is no barrier. For each slot:
 *   1. the windows of the group's queries, two lanes a query (warp_select.h). Flow is smooth, so they nearly coincide;
 *   2. two or four rows of key pixels at a time: their products with all 16 queries by matrix instructions (warp_score.h) into shared
 *      memory, little of it, for the rest is the cache that the keys come from. Queries whose windows lie apart get a pass of their own,
 *      or have their own pixels scored;
 *   3. candidates between pixels by interpolating scores (products are linear), the best kept in a sorted list a lane: one lane has the
 *      left half of the columns, the other the right half. They are merged when they are written.
 * Products: f32 x = h + l with h, l of tf32's 11 bits; h h' + h l' + l h' leaves out at most 2^-21 of a term, h and l lose 2^-21, the sum
 * of F/8 * 3 instructions is f32: no more than the (F + 2) 2^-23 that a sum of f32 may be off, from F = 16 on. A value that is not finite
 * makes the score so; a group that meets one is done again from its pixels. */
#ifndef SNLS_CUDA_WARP_H
#define SNLS_CUDA_WARP_H

#include "cuda/match.h"

enum {
    WARP_GROUPS = 4,  /* groups of a block, 2 x 2: a warp each */
    WARP_SIDE = 4,    /* queries of a group along an axis */
    WARP_QUERIES = 16,
    WARP_PITCH = 20,  /* floats from a column of scores to the next, 16 queries: four lanes that store two columns apart meet no bank twice */
    WARP_PAD = 16,    /* floats after a row of scores: two rows side by side are in different banks */
    WARP_BEYOND = 192, /* floats after the rows: columns that are read and not used, 9 of a window of one cell */
    WARP_CELLS = 16,  /* most cells of a window along an axis */
    WARP_LIST = 32,   /* longest list */
    WARP_SHORT = 4,   /* longest that is held in registers */
    WARP_FEW = 3      /* so many queries are worth a pass of matrix products */
};

typedef struct CudaWarp {
    CudaMatch c;
    int64_t tiles, tiles_x, tiles_y; /* blocks of 8 x 8 queries; of a frame: tiles_x*tiles_y */
    int32_t spread;                  /* rows that windows scored together may begin apart */
    int32_t first, lists, bytes;     /* shared memory of a warp: scores; floats before the first query, before the lists; bytes in all */
} CudaWarp;

bool       snls_cuda_warp_applies(const SnlsContext *ctx, const CudaMatch *c);
SnlsStatus snls_cuda_warp_forward(SnlsContext *ctx, const CudaMatch *c); /* after commit and the claims of the videos */

/* ---- what the device functions share ---- */

/* The same in all lanes. */
typedef struct WarpWork {
    const CudaWarp *p;
    int     lane;
    int     memory; /* bytes of shared memory before this warp's */
    int     slot;
    int64_t frame;
} WarpWork;

/* A lane's query and its share of the columns of cells. */
static __device__ __forceinline__ int warp_number(const WarpWork *t) { return t->lane % WARP_QUERIES; }
static __device__ __forceinline__ int warp_half(const WarpWork *t) { return t->lane / WARP_QUERIES; }

/* Rows of key pixels scored at a time, and floats of a row of scores. */
#define WARP_STEP(KEEP) ((KEEP) ? 2 : 4)
#define WARP_ROW_FLOATS(TILES) (8 * (TILES) * WARP_PITCH + WARP_PAD)

/* This warp's part of shared memory. A function, not a pointer that is handed on: so the compiler knows what kind of memory it is. */
static __device__ __forceinline__ float *warp_scores(const WarpWork *t)
{
    extern __shared__ __align__(16) char warp_memory[];
    return (float *)(warp_memory + t->memory);
}

/* First query of the group: in shared memory, for registers are short. */
static __device__ __forceinline__ SnlsQuery *warp_first(const WarpWork *t) { return (SnlsQuery *)(warp_scores(t) + t->p->first); }

/* Lists in shared memory: place i of this lane is 32 i further; numbers after all values. */
static __device__ __forceinline__ float *warp_values(const WarpWork *t) { return warp_scores(t) + t->p->lists + t->lane; }
static __device__ __forceinline__ uint32_t *warp_ids(const WarpWork *t) { return (uint32_t *)warp_values(t) + 32 * (int)t->p->c.k; }

/* Query number n of the group; false: the grid has none there. */
static __device__ __forceinline__ bool warp_query(const WarpWork *t, int n, SnlsQuery *q)
{
    *q = *warp_first(t);
    q->i += n / WARP_SIDE;
    q->j += n % WARP_SIDE;
    return q->i < t->p->c.m.rows && q->j < t->p->c.m.columns;
}

/* Window of a lane's query in the slot at hand. */
typedef struct WarpWindow {
    double y, x;                  /* centre */
    int origin_y, origin_x;       /* cell of the centre */
    int row, row_end;             /* cells inside the frame */
    int column, column_end;
    int tap_y, tap_x;             /* first key pixel under them */
    int last_y, last_x;           /* last */
    bool whole;                   /* all cells are inside, a pixel apart: they have one fraction */
} WarpWindow;

/* What is scored together: the queries of `active`; of the others nothing is used. */
typedef struct WarpPass {
    unsigned active;  /* lanes */
    bool alone;       /* every query its own pixels */
    int  low_y, low_x; /* first key pixel; alone: this lane's */
    int  rows, columns; /* of key pixels */
} WarpPass;

#endif
