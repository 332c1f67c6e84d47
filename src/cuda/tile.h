/* tile.h: the fast forward of search: a block works on a tile of neighbouring queries. For each slot:
 *   1. the windows of the tile's queries. Flow is smooth, so the windows of a group of four neighbours in a row nearly coincide: the box
 *      of integer shifts (key pixel minus query pixel) that holds them is little larger than one window, and the boxes of the
 *      tile's groups lie close together (tile_select.h);
 *   2. row by row of the boxes: pixels staged in shared memory, scores of all queries at all shifts of the row, each thread one
 *      group and all columns of its box; for patches, products of single pixels are summed over patches afterwards, so
 *      that neighbouring queries share them, which needs one box for the whole tile (tile_score.h);
 *   3. candidates between pixels by interpolating scores, the best kept in sorted lists (tile_select.h).
 * Products are linear, so interpolated scores are the scores. For l2,
 *      |q - sum w_i k_i|^2 = sum w_i |q - k_i|^2 - sum over pairs of w_i w_j |k_i - k_j|^2
 * and the differences of neighbouring key pixels are planes made once a call; digits may cancel, so this only decides which
 * candidates can enter the list, and those are scored from their pixels. A tile whose boxes are too large or too far apart has its
 * queries scored one by one (tile_alone.h). */
#ifndef SNLS_CUDA_TILE_H
#define SNLS_CUDA_TILE_H

#include "cuda/match.h"

enum {
    TILE_WARPS = 4,
    TILE_THREADS = 32 * TILE_WARPS,
    TILE_WIDE = 16,    /* pixels of a row of the tile: four groups of four */
    TILE_COLUMNS = 16, /* most columns of a box of shifts */
    TILE_ROWS = 48,    /* most rows */
    TILE_SPREAD = 6,   /* rows that the boxes of a tile may differ by */
    TILE_STAGED = 36,  /* most pixels of a staged row */
    TILE_SIDE = 16,    /* most cells of a window along an axis */
    TILE_LIST = 32,    /* longest list */
    TILE_SHORT = 4     /* longest that is held in registers */
};

/* A query of the tile, in shared memory. */
typedef struct TileQuery {
    double  y, x;               /* centre of its window */
    int16_t origin_y, origin_x; /* cell of the centre */
    uint8_t row, row_end;       /* rows of cells inside the frame that are left */
    uint8_t column, column_end; /* columns of cells inside the frame */
} TileQuery;

/* A column of cells of a query: its fraction, and its column in the box. */
typedef struct TileColumn { float fraction; int32_t cell; } TileColumn;

/* Candidates in the order of selection, best first. value: the product, or the distance negated: larger is better; NaN: none.
 * Candidates come in the order of their numbers, so of equals the one that came first stays in front. */
typedef struct TileBest {
    float    value[TILE_SHORT];
    uint32_t id[TILE_SHORT];
} TileBest;

typedef struct CudaTile {
    CudaMatch c;
    int64_t tiles, tiles_x, tiles_y; /* of a frame: tiles_x*tiles_y */
    int32_t wide, high;              /* queries of a tile */
    int32_t positions;               /* query (i, j) of the tile is number i*16 + j; whole warps */
    int32_t retained, column, query, group, value, id, box, bytes; /* shared memory: bytes before each part, and in all */
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
    SnlsQuery first;           /* position 0 */
    int64_t   slot, frame;
    int32_t   shift_y, shift_x;/* lowest shift of all boxes */
    int32_t   rows, columns;   /* of the largest box */
    int32_t   spread_y, spread_x; /* of the boxes' first shifts */
} TileWork;

/* First shift of a group's box; INT32_MAX: none of its queries has a window. */
typedef struct TileGroup { int32_t shift_y, shift_x; } TileGroup;

static __device__ __forceinline__ float *tile_scores(const TileWork *t) { return (float *)t->shared; }
static __device__ __forceinline__ float *tile_retained(const TileWork *t) { return (float *)(t->shared + t->p->retained); }
static __device__ __forceinline__ TileColumn *tile_column(const TileWork *t, int position) { return (TileColumn *)(t->shared + t->p->column) + position; }
static __device__ __forceinline__ TileQuery *tile_state(const TileWork *t, int position) { return (TileQuery *)(t->shared + t->p->query) + position; }
static __device__ __forceinline__ float *tile_value(const TileWork *t, int position) { return (float *)(t->shared + t->p->value) + position; }
static __device__ __forceinline__ uint32_t *tile_id(const TileWork *t, int position) { return (uint32_t *)(t->shared + t->p->id) + position; }

/* Shifts of the box of a group (number: position/4) above the tile's lowest. Patches have one box. */
static __device__ __forceinline__ TileGroup tile_group(const TileWork *t, int number)
{
    TileGroup g = ((const TileGroup *)(t->shared + t->p->group))[number];
    const bool own = t->p->c.m.ps == 1 && g.shift_y != INT32_MAX;
    g.shift_y = own ? g.shift_y - t->shift_y : 0;
    g.shift_x = own ? g.shift_x - t->shift_x : 0;
    return g;
}

/* The query at a position; false: the tile has none there. */
static __device__ __forceinline__ bool tile_query(const TileWork *t, int position, SnlsQuery *q)
{
    *q = t->first;
    q->i += position / TILE_WIDE;
    q->j += position % TILE_WIDE;
    return position / TILE_WIDE < t->p->high && position % TILE_WIDE < t->p->wide && q->i < t->p->c.m.rows && q->j < t->p->c.m.columns;
}

#endif
