/* tile.h: search on tiles of neighbouring queries. Lane l of a vector is query j0+l of a grid row; a tile is a few rows of
 * such runs. For each slot:
 *   1. where the windows of the tile are, and the box of integer shifts that holds them all (tile_window.c);
 *   2. products of every query with the key pixels at every shift of the box (tile_score.c);
 *   3. from those, the candidates' scores by interpolation, lane by lane (tile_score.c);
 * then the best are selected from the scores of all slots (tile.c). Lanes whose window is cut, undefined or too far from
 * the others are scored one by one instead (match_score.c), so that the result never depends on the tiling. */
#ifndef SNLS_CPU_TILE_H
#define SNLS_CPU_TILE_H

#include "cpu/match.h"
#include "simd/tile.h"

/* Key frames with their features in planes: row y, feature f, pixel x at data + y*row + f*pitch + place of x. Pixels that
 * are stride0 apart lie together (a phase), so that lanes are contiguous. Three more planes follow the features when
 * scores are interpolated in l2: |k - right|^2, |k - lower|^2, |k - right - lower + lower right|^2 of every pixel. */
typedef struct CpuPlanes {
    float  *data;
    int64_t frame_size, row, pitch, phase; /* floats */
    int64_t margin;                        /* pixels before x = 0 that may be read; what they hold does not matter */
    int64_t features;                      /* planes of features, without the three */
    bool    bend;
    int64_t *frame;                        /* which frame each place of the ring holds, -1 = none */
} CpuPlanes;

typedef struct CpuTile {
    const CpuMatch *c;
    SnlsTile t;
    CpuPlanes planes;
    bool    whole;            /* candidates are whole pixels apart */
    int64_t rows, lanes;      /* of a tile */
    int64_t items;            /* separate places along an axis: 1 when whole, else side */
    int64_t box_max, area_max;/* longest side and most shifts of a box; beyond, scoring alone is cheaper */
    int64_t cells, capacity;  /* candidates of a slot; scores kept per query before they are sorted out */
} CpuTile;

/* Windows of one axis of a run of queries: floor(place) - query + ..., see tile_window.c. (items, lanes) each. */
typedef struct CpuAxis {
    int32_t *index;
    float   *fraction;
    int     *low, *high;      /* of index, per item */
    bool     between;         /* some fraction is not 0 */
} CpuAxis;

/* What a thread holds for a tile. */
typedef struct CpuTileScratch {
    CpuMatchScratch *single;  /* for queries scored alone */
    float   *query;           /* (rows, F, lanes) */
    float   *box;             /* (rows, box, box, lanes): products at every shift */
    float   *mixed, *bends;   /* (box + 1, lanes): one row of the box, interpolated along y */
    float   *value;           /* (rows, capacity, lanes): scores, smaller is better, NaN = no candidate */
    float   *most;            /* (rows, lanes): largest correction of an interpolated l2 */
    float   *work;            /* (k + 2, lanes) */
    uint32_t *below;          /* capacity*lanes */
    uint64_t *best;           /* (rows, lanes, k) */
    int64_t *found;           /* (rows, lanes): keys in best */
    SnlsMatchWindow *window;  /* (rows, lanes, windows) */
    uint8_t *together;        /* (rows, lanes): scored with the tile */
    CpuAxis  y[SNLS_TILE_ROWS_MAX], x[SNLS_TILE_ROWS_MAX];
    ptrdiff_t *item, *place;  /* box: runs of a row of the box; of a row of planes */
    const float **runs, **bend_runs;
    int     *first;           /* side */
    int64_t  origin_y, origin_x, size_y, size_x; /* the box: shifts from a query to the key */
} CpuTileScratch;

/* Where a tile is: rows i0 .. i0+rows-1 of the grid, queries j0 .. j0+lanes-1; fewer at the frame's end. */
typedef struct CpuTilePlace { int64_t b, head, t, i0, j0, rows, lanes; } CpuTilePlace;

static inline SnlsQuery snls_tile_query(const CpuTilePlace *p, int64_t r, int64_t l)
{
    return (SnlsQuery){.b = p->b, .head = p->head, .t = p->t, .i = p->i0 + r, .j = p->j0 + l};
}

/* tile_plane.c */
void snls_tile_planes_layout(CpuPlanes *p, const SnlsMatch *m, int64_t lanes, bool bend);
void snls_tile_planes_load(SnlsContext *ctx, const CpuTile *tile, int64_t b, int64_t head, int64_t frame);
void snls_tile_load_query(const CpuTile *tile, const CpuTilePlace *p, float *out);
const float *snls_tile_plane_row(const CpuTile *tile, int64_t frame, int64_t y);

/* tile_window.c: windows of a slot; false: no lane is scored together */
bool snls_tile_windows(const CpuTile *tile, const CpuTilePlace *p, int64_t slot, CpuTileScratch *s);

/* tile_score.c: scores of a slot into value, from candidate number `at` on */
void snls_tile_scores(const CpuTile *tile, const CpuTilePlace *p, int64_t slot, int64_t at, bool together, CpuTileScratch *s);

#endif
