/* tile.h: search on tiles of neighbouring queries. Lane l of a vector is query l of a run of a grid row; a tile is some rows
 * of such runs. For each slot:
 *   1. where the windows of the tile are, and the box of integer shifts that holds them all (tile_window.c; patches: several boxes where the flow is rough, tile_boxes.c);
 *   2. scores of every query against the key at every shift of the box (tile_score.c; for patches, products of pixels are
 *      shared by all patches that hold them: tile_patch.c);
 *   3. from those, the candidates' scores by interpolation, lane by lane (tile_score.c);
 *   4. the best of them go into the queries' sorted lists (tile_pick.c).
 * Lanes whose window is cut, undefined or too far from the others are scored one by one instead (match_score.c), so that the result never depends on the tiling. */
#ifndef SNLS_CPU_TILE_H
#define SNLS_CPU_TILE_H

#include "cpu/match.h"
#include "cpu/take.h"
#include "simd/tile.h"

#define SNLS_TILE_VECTORS 8 /* of pixel columns of a tile, at most */
#define SNLS_TILE_REACH_MAX 16 /* pixels from the first of a patch to its last along an axis, at most */
#define SNLS_TILE_FEATURES 64 /* queries and keys of so many features fit the first cache together */

/* Key frames with their features in planes: row y, feature f, pixel x at data + y*row + f*pitch + place of x. Pixels that
 * are stride0 apart lie together (a phase), so that lanes are contiguous. Pixels beyond the frame are mirrored as far as
 * patches reach. Three more planes follow the features when scores are interpolated in l2: sums over the patch around
 * every pixel of |k - right|^2, |k - lower|^2, |k - right - lower + lower right|^2. */
typedef struct CpuPlanes {
    float  *data;
    float  *raw;                           /* those three before the sums over patches; ps 1 needs none */
    int64_t frame_size, row, pitch, phase; /* floats */
    int64_t margin;                        /* pixels before x = 0 that may be read */
    int64_t before, after;                 /* reach of a patch: pixels before and after its centre */
    int64_t frames;                        /* in the ring */
    int64_t features;                      /* planes of features (and norms), without the three; none where keys are held by rows */
    bool    bend;
    int64_t *frame;                        /* which frame each place of the ring holds, -1 = none */
    float   *peak;                         /* (frames, rows): largest |feature| of each row of each frame in the ring */
} CpuPlanes;

/* Rows of keys that a thread holds for tiles of single pixels (tile_key.c), or of patches with many features (tile_patch_key.c): feature f of pixel base + phase + n*stride0 of a row at f*pitch + phase's
 * place + n. */
#define SNLS_TILE_KEY_BLOCK 8 /* pixels that are turned over together */

typedef struct CpuKeys {
    int64_t strip;             /* queries across; single pixels */
    int64_t chunk;             /* tiles down a strip that one thread does */
    int64_t together;          /* frames of queries that take turns */
    int64_t frames, rows;      /* of keys held, at most */
    int64_t phase, pitch, row; /* floats */
} CpuKeys;

typedef struct CpuKeyRow { int64_t y, first, end; float peak; } CpuKeyRow; /* row held, -1 = none; blocks [first, end); largest |feature| of those */

typedef struct CpuKeyFrame {
    float     *data;
    CpuKeyRow *held; /* row y at place y % rows */
    int64_t    base, rows, frame; /* frame: by_rows; -1, nothing is held */
} CpuKeyFrame;

typedef struct CpuFetch { const char *at; int64_t step, lines, rows, done; } CpuFetch; /* cache lines to fetch ahead: rows `step` bytes apart */

typedef struct CpuTile {
    const CpuMatch *c;
    SnlsTile t;
    CpuPlanes planes;
    CpuKeys keys;             /* ps 1, or by_rows */
    bool    by_rows;          /* patches: keys are held by rows, not in planes of whole frames */
    bool    norms;            /* patches by l2: |q|^2 + |k|^2 - 2<q,k> instead of differences (tile_norms.c) */
    int64_t layers;           /* floats of a pixel, of queries and of keys: features, and room for the norm where there may be norms */
    bool    whole;            /* candidates are whole pixels apart */
    int64_t lanes, blocks;    /* queries of a run; runs side by side */
    int64_t rows, columns, runs; /* queries of a tile down and across; rows*blocks */
    int64_t stack;            /* tiles above each other that are searched together, slot by slot: patches, which hand products down (CpuCarried); else 1 */
    int64_t together;         /* frames whose tiles are shared out together: as many as have enough for all threads */
    int64_t turns;            /* of those, frames that one thread searches a stack of one after the other: they share its keys; by_rows, else 1 */
    int64_t span;             /* whole pixels that one window touches along an axis, at most */
    int64_t items;            /* separate places along an axis: 1 when whole, else side */
    int     steps;            /* candidates to a pixel where they are taken by cells (tile_cells.c), else 0 */
    int64_t places;           /* items whose windows are worked out at once: all, or by cells the first */
    int64_t beyond;           /* whole pixels from the last of those to the last candidate */
    int64_t held;             /* by cells: slots whose boxes are kept */
    int64_t spread;           /* patches: how far apart windows of a box begin along an axis, where there are several boxes */
    int64_t box_max, area_max;/* longest side and most shifts of a box; beyond, scoring alone is cheaper */
    int64_t cells, keep;      /* candidates of a slot; length of a list, k or a little more */
    int64_t slots;            /* whose scores are sorted out together */
    int64_t pixel_rows, pixel_columns; /* of the stack with the reach of its patches; columns in whole vectors */
    SnlsTileQueries at;                /* queries of a run of columns, which has pixel_rows rows */
    ptrdiff_t dist_at[SNLS_TILE_LANES_MAX], offset_at[SNLS_TILE_LANES_MAX], index_at[SNLS_TILE_LANES_MAX]; /* outputs: from lane 0 of a run to each lane */
} CpuTile;

/* Windows of one axis of a run of queries: floor(place) - query - origin of the box, and place - floor(place), for each
 * item and lane. */
typedef struct CpuAxis {
    int32_t *index;
    float   *fraction;
    int     *low, *high;      /* of index, per item */
    bool     between;         /* some fraction is not 0 */
} CpuAxis;

/* Windows of all slots: what SnlsMatchWindow holds, (windows, runs, lanes); valid: a bit for each lane, (windows, runs). */
typedef struct CpuTileWindows {
    double   *y, *x;
    int32_t  *origin_y, *origin_x;
    uint32_t *valid;
} CpuTileWindows;

/* Shifts [y, y_end) x [x, x_end) of the box. */
typedef struct CpuShifts { int64_t y, y_end, x, x_end; } CpuShifts;

/* Queries of rows [row, row_end) of a tile that are scored together: shifts from a query to the key (tile_boxes.c). */
typedef struct CpuBox { int64_t y, y_end, x, x_end, row, row_end; } CpuBox;
#define SNLS_TILE_BOXES 64 /* of a tile in a slot, at most */

/* A query whose window lies in the frame as a whole: its first and last shifts. */
typedef struct CpuSpot { int32_t y, x, last_y, last_x; int16_t run, lane; } CpuSpot;

/* How far the scores of a run have been taken from the box, ps 1. */
typedef struct CpuTaken {
    int64_t rows;             /* of the windows */
    bool    entered;          /* they go into the lists at once */
    bool    cells;            /* by cells; rows are those of whole pixels then */
    bool    plain;            /* and do so as they lie in the box: all windows are at the same whole pixel */
} CpuTaken;

/* Products that a tile of patches leaves to the one below, which has most of its first rows of pixels in common with it: of each vector of pixel columns those at shifts
 * `have`, from a query to the key, in a ring of rows for each of side x side shifts from (y, x) on (tile_patch.c). */
typedef struct CpuCarriedVector { CpuShifts have; int64_t y, x; } CpuCarriedVector;
typedef struct CpuCarried {
    float *product;           /* (vectors, side, side, ring, lanes) */
    int64_t row;              /* of the grid, where the tile begins that may have them; -1: nobody */
    CpuCarriedVector vector[SNLS_TILE_VECTORS];
} CpuCarried;

/* What tiles of a stack do not share, and what they do: the first of each. */
typedef struct CpuStacked {
    float *query, *top, *number, *most, *norm;
    CpuTileWindows window;
} CpuStacked;

/* What a thread holds for a tile. */
typedef struct CpuTileScratch {
    CpuMatchScratch *single;  /* for queries scored alone */
    CpuKeyFrame *keys;        /* frames */
    CpuFetch fetch[2];
    CpuStacked stacked;
    float   *query;           /* (blocks of pixel columns, pixel rows, F, lanes) */
    float   *product;         /* products that wait for their sums: patches only */
    CpuCarried carried;
    float   *sums;            /* (box along y, box along x, lanes): scores of one run at every shift; patches only */
    float   *boxes;           /* by cells: one for each slot that is held; else one */
    float   *box;             /* the one of this slot: scores of single pixels: see box_row in tile_score.c. Patches: (rows, box along y, box along x, pixel columns), products summed down. Packed to the box's size */
    float   *mixed, *bends;   /* (box + 1, lanes): one row of the box, interpolated along y; mixed has room for two */
    float   *value;           /* (cells, lanes): scores of one run, smaller is better, NaN = no candidate; ps 1 or slots > 1: (runs, slots, cells, lanes) */
    float   *most;            /* (runs, lanes): largest correction of an interpolated l2 */
    float   *norm;            /* (runs, lanes): of the queries' patches, where distances are made of norms */
    float   *work;            /* see simd/tile.h, insert */
    uint32_t *below;          /* slots*cells*(lanes + 1) */
    const float **frame;      /* windows: the first pixel of each slot's frame; single pixels by l2 between pixels */
    float   *top, *number;    /* (runs, keep, lanes): the best scores so far in order, and their candidates' numbers */
    SnlsTileCells *cells;     /* by cells: (held, runs) */
    SnlsTileCellLists *cell_lists; /* runs */
    float   *straight;        /* (runs, 2, cells along x + 1, lanes): whole pixels above and below a row of cells */
    uint32_t *cell_place;     /* (held, cells of a window): where the cell of a number is, as in simd/list.h */
    int64_t  holding;         /* slots held */
    CpuTileWindows window;
    uint32_t *together;       /* runs: lanes scored with the tile */
    CpuAxis *y, *x;           /* runs */
    ptrdiff_t *item, *place;  /* box: runs of a row of the box; of a row of planes */
    const float **runs, **bend_runs; /* see snls_tile_runs */
    CpuTaken *taken;          /* runs */
    ptrdiff_t *key_place;     /* box: of a row of keys; ps 1 */
    const float **key_rows;   /* box + pixel rows: patches only */
    int64_t  key_first;       /* in those: the key at the box's first shift from the tile's first pixel */
    uint32_t *cell;           /* (windows, cells): where the candidate of a number is (simd/list.h). Divisions would be most of what it takes to write a neighbour */
    float   *dt;              /* windows */
    int     *first;           /* side */
    float    peak, key_peak;  /* largest |feature| of the tile's queries, and of the keys they have been compared with */
    float   *row_peak;        /* of each row of pixels of the stack: what a tile does must not depend on how many are stacked */
    int64_t  query_rows;      /* those that are there */
    float   *grid;            /* (span, span): scores of one query at whole shifts */
    int64_t  origin_y, origin_x, size_y, size_x; /* the box: shifts from a query to the key */
    int64_t  row, row_end;    /* rows of queries that look into it; patches only */
    int      box_count;       /* patches: of the slot */
    bool     sorted;          /* queries into boxes; else there is one for all or none */
    CpuBox  *box_of;          /* boxes */
    uint32_t *box_lanes;      /* (boxes, runs) */
    uint32_t *begun;          /* runs: lanes whose scores are there */
    CpuSpot *spot;            /* queries */
    CpuAxis *kept;            /* (runs, 2): windows before queries were sorted */
    float   *part;            /* (cells, lanes): scores of a run that join others */
    int64_t  depth;           /* rows of the box that are kept, a power of two: row y is at y % depth */
    int64_t  waiting;         /* slots whose scores wait in value */
} CpuTileScratch;

/* Where a tile is: grid rows i0 .. i0+rows-1, columns j0 .. j0+columns-1; fewer at the frame's end. */
typedef struct CpuTilePlace { int64_t b, head, t, i0, j0, rows, columns; } CpuTilePlace;

static inline SnlsQuery snls_tile_query(const CpuTile *tile, const CpuTilePlace *p, int64_t run, int64_t l)
{
    return (SnlsQuery){.b = p->b, .head = p->head, .t = p->t, .i = p->i0 + run / tile->blocks, .j = p->j0 + run % tile->blocks * tile->lanes + l};
}

static inline SnlsMatchWindow snls_tile_window(const CpuTile *tile, const CpuTilePlace *p, const CpuTileWindows *w, int64_t slot, int64_t run, int64_t l)
{
    const int64_t at = (slot * tile->runs + run) * tile->lanes + l;
    return (SnlsMatchWindow){.valid = w->valid[slot * tile->runs + run] >> l & 1, .frame = snls_slot_frame(p->t, slot, tile->c->m.wt, tile->c->m.frames), .y = w->y[at], .x = w->x[at],
                             .origin_y = w->origin_y[at], .origin_x = w->origin_x[at]};
}

/* Lanes of a run that are queries of the grid; 0 or less: none. */
static inline int64_t snls_tile_active(const CpuTile *tile, const CpuTilePlace *p, int64_t run)
{
    const int64_t left = p->columns - run % tile->blocks * tile->lanes;
    return run / tile->blocks >= p->rows ? 0 : left < tile->lanes ? left : tile->lanes;
}

/* The first `active` lanes, a bit each. */
static inline uint32_t snls_tile_lanes(int64_t active) { return active <= 0 ? 0 : (1u << active) - 1; }

/* The window lies inside the frame as a whole. */
static inline bool snls_tile_whole_window(const SnlsMatch *m, const SnlsMatchWindow *w)
{
    return w->valid && snls_inside(snls_match_y(m, w, 0), m->height) && snls_inside(snls_match_y(m, w, m->side - 1), m->height) &&
           snls_inside(snls_match_x(m, w, 0), m->width) && snls_inside(snls_match_x(m, w, m->side - 1), m->width);
}

static inline float *snls_tile_top(const CpuTile *tile, const CpuTileScratch *s, int64_t run) { return s->top + run * tile->keep * tile->lanes; }

static inline float *snls_tile_number(const CpuTile *tile, const CpuTileScratch *s, int64_t run) { return s->number + run * tile->keep * tile->lanes; }

static inline CpuKeyFrame *snls_tile_key_frame(const CpuTile *tile, const CpuTileScratch *s, int64_t frame) { return &s->keys[frame % tile->keys.frames]; }

/* Where a run's scores are for each shift along y; the three corrections likewise, box_max + 2 apart. A table for each run where ps is 1. */
static inline const float **snls_tile_runs(const CpuTile *tile, const CpuTileScratch *s, int64_t run)
{
    return s->runs + (tile->c->m.ps == 1 ? run * (tile->box_max + 2) : 0);
}

static inline const float **snls_tile_bend_runs(const CpuTile *tile, const CpuTileScratch *s, int64_t run)
{
    return s->bend_runs + (tile->c->m.ps == 1 ? run * 3 * (tile->box_max + 2) : 0);
}

/* Scores of a run in the slot that is worked on, behind those of the slots that wait. */
static inline float *snls_tile_value(const CpuTile *tile, const CpuTileScratch *s, int64_t run)
{
    return s->value + ((tile->c->m.ps == 1 || tile->slots > 1 ? run * tile->slots : 0) + s->waiting) * tile->cells * tile->lanes;
}

/* tile_plane.c */
void snls_tile_planes_layout(CpuPlanes *p, const SnlsMatch *m, int64_t columns, int64_t layers, bool bend); /* layers: of keys, 0: they are held by rows */
void snls_tile_planes_clear(SnlsContext *ctx, const CpuTile *tile); /* once, before frames are loaded */
void snls_tile_planes_load(SnlsContext *ctx, const CpuTile *tile, const CpuTilePlace *at, int64_t frame);
SnlsTileQueries snls_tile_queries_at(const CpuTile *tile);
void snls_tile_load_query(const CpuTile *tile, const CpuTilePlace *p, float *out, CpuTileScratch *s); /* row_peak and query_rows too */
const float *snls_tile_plane_row(const CpuTile *tile, int64_t frame, int64_t y); /* any y: rows beyond the frame are mirrored */

/* Keys of the box made ready. true: no product or sum of this tile with them leaves the range of f32, so that interpolation is safe: an infinite
 * score is a score, but the difference of two is none. */
bool snls_tile_keys_ready(const CpuTile *tile, const CpuTilePlace *p, int64_t frame, CpuTileScratch *s);

/* tile_norms.c: whether distances may be made of norms, and whether a look at some queries says that enough digits are left; norms of a vector of query pixels, whose features
 * are then -2 times as large; those of the queries' patches; whether a score made so has lost digits, given its largest correction and the query's norm */
bool snls_tile_norms_apply(const SnlsMatch *m);
bool snls_tile_norms_pay(const CpuMatch *c, CpuMatchScratch *scratch);
void snls_tile_query_norms(const CpuTile *tile, float *vector);
void snls_tile_patch_norms(const CpuTile *tile, const CpuTilePlace *p, CpuTileScratch *s);

/* What is lost is some roundings of |q|^2 + |k|^2, and |k| is at most |q| and the distance: 3 |q|^2 and twice the square of the distance. A plain sum may be off by (terms + 2) roundings: where the
 * distance times twice the pixels of a patch is as large as the norms, that is more. */
static inline bool snls_tile_norms_lose(const SnlsMatch *m, float value, float most, float norm)
{
    return value * (float)(m->ps * m->ps) < 1.5f * norm + value + most;
}

/* tile_key.c: ps 1. hold_keys returns the largest |feature| of the rows it makes ready. */
void snls_tile_keys_layout(CpuTile *tile);
void snls_tile_keys_begin(const CpuTile *tile, CpuTileScratch *s);
float snls_tile_hold_keys(const CpuTile *tile, const CpuTilePlace *p, int64_t frame, CpuTileScratch *s);

/* tile_window.c: windows of a slot, lanes whose window lies in the frame as a whole into `together`; the box of those lanes, false: it is too large; windows from the
 * box's origin on. All three, ps 1; false: no lane is scored together */
void snls_tile_find_windows(const CpuTile *tile, const CpuTilePlace *p, int64_t slot, CpuTileScratch *s);
bool snls_tile_find_box(const CpuTile *tile, CpuTileScratch *s);
void snls_tile_settle(const CpuTile *tile, CpuTileScratch *s);
bool snls_tile_windows(const CpuTile *tile, const CpuTilePlace *p, int64_t slot, CpuTileScratch *s);

/* tile_boxes.c: patches. Windows of a slot, and how many boxes they are sorted into; lanes of a run that are in one; the box that is worked on */
int snls_tile_boxes(const CpuTile *tile, const CpuTilePlace *p, int64_t slot, CpuTileScratch *s);
uint32_t snls_tile_box_lanes(const CpuTile *tile, int64_t run, const CpuTileScratch *s);
void snls_tile_use_box(const CpuTile *tile, int box, CpuTileScratch *s);

/* tile_score.c: scores at every shift of the box into box, and for ps 1 on into value or the lists; scores of a run's candidates in a slot into value: of lanes that
 * are in the box, and of `alone` */
void snls_tile_box_scores(const CpuTile *tile, const CpuTilePlace *p, int64_t slot, CpuTileScratch *s);
void snls_tile_scores(const CpuTile *tile, const CpuTilePlace *p, int64_t run, int64_t slot, uint32_t alone, float *value, CpuTileScratch *s);

/* tile_pick.c: lists made empty; scores of a run in n slots from `slot` on into its lists; lists into places kept .. kept+k-1 of the outputs.
 * careful: many candidates have to be scored anew before they are compared (see there). */
bool snls_tile_careful(const CpuTile *tile);
bool snls_tile_enters_rows(const CpuTile *tile); /* scores can go into the lists row by row */
void snls_tile_enter_row(const CpuTile *tile, int64_t run, int64_t slot, int64_t row, const float *value, CpuTileScratch *s);
void snls_tile_begin_lists(const CpuTile *tile, CpuTileScratch *s);
void snls_tile_sort_out(const CpuTile *tile, const CpuTilePlace *p, int64_t run, const float *value, int64_t n, int64_t slot, CpuTileScratch *s);
void snls_tile_write_lists(const CpuTile *tile, const CpuTilePlace *p, int64_t kept, const CpuTileScratch *s);

/* tile_cells.c: ps 1, prod, several candidates to a pixel. steps: so many, 0: not by cells. box: floats of one. begin: lists of cells made empty. start: a run's windows
 * in the slot that is worked on; take: rows of cells that are there when the box is done up to shift j. enter: the best of the slots held into the lists of candidates. spread: all items of a
 * run that is not taken by cells. */
int snls_tile_cells_steps(const CpuMatch *c);
int64_t snls_tile_cells_box(const CpuTile *tile, int64_t area);
int64_t snls_tile_cells_places(const CpuTile *tile); /* cells of all slots held */
void snls_tile_cells_begin(const CpuTile *tile, CpuTileScratch *s);
void snls_tile_cells_hold(const CpuTile *tile, CpuTileScratch *s); /* one more slot */
void snls_tile_cells_start(const CpuTile *tile, const CpuTilePlace *p, int64_t run, CpuTileScratch *s);
void snls_tile_cells_take(const CpuTile *tile, int64_t run, int64_t j, CpuTileScratch *s);
void snls_tile_cells_enter(const CpuTile *tile, const CpuTilePlace *p, int64_t slot, CpuTileScratch *s);
void snls_tile_cells_spread(const CpuTile *tile, int64_t run, CpuTileScratch *s);

/* tile_exact.c: ps 1, l2 between pixels. Where the slots' frames are; scores of a run whose digits are in doubt into its lists, those not above the bars anew from the
 * pixels. */
void snls_tile_exact_begin(const CpuTile *tile, const CpuTilePlace *p, CpuTileScratch *s);
void snls_tile_exact(const CpuTile *tile, const CpuTilePlace *p, int64_t run, const float *value, int64_t n, int64_t id, const float *bar, CpuTileScratch *s);

/* tile_alone.c: scores of one lane in a slot into value, NaN where there is no candidate */
void snls_tile_score_alone(const CpuTile *tile, const CpuTilePlace *p, int64_t run, int64_t l, int64_t slot, float *value, CpuTileScratch *s);

/* tile_patch.c: sums down at every shift of the box into box; scores of a run's patches at every shift that it needs into sums, and if there is nothing else to
 * do, which the result tells, those of its candidates into value. Floats of `product`, and of `carried.product`; whether tiles of so many rows can hand products down */
int64_t snls_tile_patch_ring(const CpuTile *tile);
int64_t snls_tile_carried(const CpuTile *tile);
bool snls_tile_carries(const CpuTile *tile, int64_t rows);
bool snls_tile_patch_values(const CpuTile *tile, int64_t r, float *value, CpuTileScratch *s);
void snls_tile_patch_scores(const CpuTile *tile, const CpuTilePlace *p, int64_t frame, CpuTileScratch *s);

/* tile_patch_key.c: whether keys of patches are held by rows, where stacks have so many rows of queries at most; results are the same. begin: of none, other tiles will be searched; keys: pixels of the frame, mirrored beyond it, made ready, where each of their rows is, and
 * which x it begins with */
bool snls_tile_patch_keys_hold_rows(const CpuTile *tile, int64_t rows, int threads);
void snls_tile_patch_keys_layout(CpuTile *tile);
void snls_tile_patch_keys_begin(const CpuTile *tile, CpuTileScratch *s);
int64_t snls_tile_patch_keys(const CpuTile *tile, const CpuTilePlace *p, int64_t frame, const CpuShifts *at, const float **rows, CpuTileScratch *s);

#endif
