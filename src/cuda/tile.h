/* tile.h: the fast forward of search: a block works on a tile of neighbouring queries. For each slot:
 *   1. the windows of the tile's queries, and the box of integer shifts (key pixel minus query pixel) that holds them all. Flow is
 *      smooth, so windows overlap and the box is little larger than one window (tile_select.h);
 *   2. row by row of the box: pixels staged in shared memory, scores of all queries at all shifts of the row, each thread four
 *      neighbouring queries and all columns; for patches, products of single pixels are summed over patches afterwards, so
 *      that neighbouring queries share them (tile_score.h);
 *   3. candidates between pixels by interpolating scores, the best kept in sorted lists in shared memory (tile_select.h).
 * Products are linear, so interpolated scores are the scores. For l2,
 *      |q - sum w_i k_i|^2 = sum w_i |q - k_i|^2 - sum over pairs of w_i w_j |k_i - k_j|^2
 * and the differences of neighbouring key pixels are planes made once a call; digits may cancel, so this only decides which
 * candidates can enter the list, and those are scored from their pixels. A tile whose box is too large has its queries scored
 * one by one. */
#ifndef SNLS_CUDA_TILE_H
#define SNLS_CUDA_TILE_H

#include "cuda/match.h"

enum {
    TILE_WARPS = 4,
    TILE_THREADS = 32 * TILE_WARPS,
    TILE_WIDE = 32,    /* pixels of a row of the tile */
    TILE_COLUMNS = 16, /* most columns of a box of shifts */
    TILE_ROWS = 48,    /* most rows */
    TILE_SIDE = 16,    /* most cells of a window along an axis */
    TILE_PITCH = 48,   /* pixels of a staged row: 32 + 16 - 1, in four runs of 12 (every fourth pixel) */
    TILE_LIST = 32     /* longest list */
};

/* A query of the tile, in shared memory. */
typedef struct TileQuery {
    double  y, x;               /* centre of its window */
    int32_t origin_y, origin_x; /* cell of the centre */
    int16_t row, row_end;       /* rows of cells inside the frame that are left */
    int16_t column, column_end; /* columns of cells inside the frame */
} TileQuery;

typedef struct CudaTile {
    CudaMatch c;
    int64_t tiles, tiles_x, tiles_y; /* of a frame: tiles_x*tiles_y */
    int32_t wide, high;              /* queries of a tile */
    int32_t positions;               /* high*32: query (i, j) of the tile is number i*32 + j */
    int32_t retained, fraction, cell, query, list, box, bytes; /* shared memory: bytes before each part, and in all */
    const float4 *planes;            /* l2: (b, head, t, y, x): sums over patches of |k - right|^2, |k - below|^2, |k - diagonal|^2,
                                        |right - below|^2; NULL: all candidates are on pixels */
    float   slack;                   /* l2: how far an interpolated score may be off, per unit of its terms */
} CudaTile;

bool       snls_cuda_tile_applies(const SnlsContext *ctx, const CudaMatch *c);
void       snls_cuda_tile_plan(SnlsContext *ctx, const CudaMatch *c);
SnlsStatus snls_cuda_tile_forward(SnlsContext *ctx, const CudaMatch *c); /* after commit and the claims of the videos */

/* ---- what the device functions of a block share ---- */

typedef struct TileWork { /* the same in all threads */
    const CudaTile *p;
    char     *shared;
    SnlsQuery first;                  /* position 0 */
    int64_t   slot, frame;
    int32_t   shift_y, shift_x, rows, columns; /* the box */
} TileWork;

static __device__ __forceinline__ float *tile_scores(const TileWork *t) { return (float *)t->shared; }
static __device__ __forceinline__ float *tile_retained(const TileWork *t) { return (float *)(t->shared + t->p->retained); }
static __device__ __forceinline__ float *tile_fraction(const TileWork *t) { return (float *)(t->shared + t->p->fraction); }
static __device__ __forceinline__ uint8_t *tile_cell(const TileWork *t) { return (uint8_t *)(t->shared + t->p->cell); }
static __device__ __forceinline__ TileQuery *tile_state(const TileWork *t, int position) { return (TileQuery *)(t->shared + t->p->query) + position; }
static __device__ __forceinline__ uint64_t *tile_list(const TileWork *t, int position) { return (uint64_t *)(t->shared + t->p->list) + position; }

/* The query at a position; false: the tile has none there. */
static __device__ __forceinline__ bool tile_query(const TileWork *t, int position, SnlsQuery *q)
{
    *q = t->first;
    q->i += position / TILE_WIDE;
    q->j += position % TILE_WIDE;
    return position % TILE_WIDE < t->p->wide && q->i < t->p->c.m.rows && q->j < t->p->c.m.columns;
}

#endif
