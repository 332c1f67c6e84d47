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
    TILE_SPREAD = 6,   /* rows that the boxes worked on together may differ by */
    TILE_STAGED = 36,  /* most pixels of a staged row */
    TILE_OFFSETS = 96, /* rows of pixels that the rows of a box touch: at most 32 + 48 + 6 + 3 */
    TILE_SIDE = 16,    /* most cells of a window along an axis */
    TILE_LIST = 32,    /* longest list */
    TILE_SHORT = 4,    /* so long, or so long, and it is held in registers */
    TILE_MIDDLE = 12
};

/* A query of the tile, in shared memory. */
typedef struct TileQuery {
    double  y, x;               /* centre of its window */
    int8_t  origin_y, origin_x; /* cell of the centre */
    uint8_t row, row_end;       /* rows of cells inside the frame that are left */
    uint8_t column, column_end; /* columns of cells inside the frame */
    uint8_t regular;            /* columns of cells are neighbours in the box, and have one fraction */
} TileQuery;

/* Box of one window, or of a group's: shifts from the query to the taps of cells, [low, high] along y and x; empty: low > high. */
typedef struct TileBox { int32_t low_y, high_y, low_x, high_x; } TileBox;

/* A column of cells of a query: its fraction, and its column in the box. */
typedef struct TileColumn { float fraction; int32_t cell; } TileColumn;

/* Candidates in the order of selection, best first. value: the product, or the distance negated: larger is better; NaN: none.
 * Candidates come in the order of their numbers, so of equals the one that came first stays in front. */
template <int LENGTH> struct TileBest {
    float    value[LENGTH ? LENGTH : 1]; /* LENGTH 0: the list stays in shared memory */
    uint32_t id[LENGTH ? LENGTH : 1];
};

typedef struct CudaTile {
    CudaMatch c;
    int64_t tiles, tiles_x, tiles_y; /* of a frame: tiles_x*tiles_y */
    int32_t wide, high;              /* queries of a tile */
    int32_t columns;                 /* most of a box of shifts */
    int32_t positions;               /* query (i, j) of the tile is number i*16 + j; whole warps */
    int32_t retained, fraction, cell, query, boxes, value, id, offset, extent, bytes; /* shared memory: bytes before each part, and in all */
    const float4 *planes;            /* l2: (b, head, t, y, x): sums over patches of |k - right|^2, |k - below|^2, |k - diagonal|^2,
                                        |right - below|^2; NULL: all candidates are on pixels */
    float   slack;                   /* l2: how far an interpolated score may be off, per unit of its terms */
} CudaTile;

bool       snls_cuda_tile_applies(const SnlsContext *ctx, const CudaMatch *c);
void       snls_cuda_tile_plan(SnlsContext *ctx, const CudaMatch *c);
SnlsStatus snls_cuda_tile_forward(SnlsContext *ctx, const CudaMatch *c); /* after commit and the claims of the videos */

/* ---- what the device functions of a block share ---- */

/* Shared memory of the block. A function, not a pointer that is handed on: so the compiler knows what kind of memory it is. */
static __device__ __forceinline__ char *tile_memory(void)
{
    extern __shared__ __align__(16) char memory[];
    return memory;
}

/* The same in all threads. Functions that are not inlined get a copy, so that the original can stay in registers. */
typedef struct TileWork {
    const CudaTile *p;
    SnlsQuery first;           /* position 0 */
    int64_t   slot, frame;
    /* The boxes that are worked on together: those near the lowest that is left. Others get a pass of their own. */
    int32_t   shift_y, shift_x; /* lowest shift */
    int32_t   rows, columns;    /* of the largest box */
    int32_t   spread, width;    /* rows by which first shifts differ; pixels of a staged row */
    int32_t   active;           /* queries */
    bool      left;             /* some query is not done */
} TileWork;

typedef struct TileGroup { int32_t shift_y, shift_x; } TileGroup;

static __device__ __forceinline__ float *tile_scores(const TileWork *t) { return (float *)tile_memory(); }
static __device__ __forceinline__ float *tile_retained(const TileWork *t) { return (float *)(tile_memory() + t->p->retained); }
static __device__ __forceinline__ float *tile_fraction(const TileWork *t, int position) { return (float *)(tile_memory() + t->p->fraction) + position; }
static __device__ __forceinline__ uint8_t *tile_cell(const TileWork *t, int position) { return (uint8_t *)(tile_memory() + t->p->cell) + position; }
static __device__ __forceinline__ TileQuery *tile_state(const TileWork *t, int position) { return (TileQuery *)(tile_memory() + t->p->query) + position; }
static __device__ __forceinline__ float *tile_value(const TileWork *t, int position) { return (float *)(tile_memory() + t->p->value) + position; }
static __device__ __forceinline__ uint32_t *tile_id(const TileWork *t, int position) { return (uint32_t *)(tile_memory() + t->p->id) + position; }

static __device__ __forceinline__ TileBox *tile_box(const TileWork *t, int position) { return (TileBox *)(tile_memory() + t->p->boxes) + position; }
static __device__ __forceinline__ int64_t *tile_offset(const TileWork *t) { return (int64_t *)(tile_memory() + t->p->offset); }

/* Whether a box is one of those that are worked on together. A patch needs one box for the whole tile. */
static __device__ __forceinline__ bool tile_fits_x(const TileWork *t, const TileBox *box, int32_t shift_x)
{
    if (t->p->c.m.ps > 1) return box->high_x - shift_x < t->p->columns;
    return box->high_x - box->low_x < t->p->columns && TILE_WIDE + box->high_x - shift_x <= TILE_STAGED;
}
static __device__ __forceinline__ bool tile_fits(const TileWork *t, const TileBox *box, int32_t shift_y, int32_t shift_x)
{
    if (box->low_y > box->high_y || !tile_fits_x(t, box, shift_x) || box->low_x < shift_x || box->low_y < shift_y) return false;
    if (t->p->c.m.ps > 1) return box->high_y - shift_y < TILE_ROWS;
    return box->high_y - box->low_y < TILE_ROWS && box->low_y - shift_y <= TILE_SPREAD;
}

/* Shifts of the box of a position's group above the lowest. */
static __device__ __forceinline__ TileGroup tile_group(const TileWork *t, int position)
{
    const TileBox *box = tile_box(t, position);
    if (t->p->c.m.ps > 1 || !tile_fits(t, box, t->shift_y, t->shift_x)) return {0, 0};
    return {box->low_y - t->shift_y, box->low_x - t->shift_x};
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
