/* tile.h: inner loops that work on many neighbouring queries at once: lane l of a vector, or of a few that make a run, is query l of that. Features lie
 * in planes, so that lanes are contiguous. One implementation for each instruction set, made from tile_body.h. */
#ifndef SNLS_TILE_H
#define SNLS_TILE_H

#include "simd/list.h"
#include <stddef.h>
#include <stdint.h>

#define SNLS_TILE_LANES_MAX 16
#define SNLS_TILE_ROWS_MAX 5
#define SNLS_TILE_COLUMNS_MAX 5
#define SNLS_TILE_LIST 16    /* values of a lane that wait to be inserted */
#define SNLS_TILE_SHORT 4    /* lists up to here take values one after the other, longer ones gain by many values at once */
#define SNLS_TILE_NONE 0x1p24f /* numbers are below: a float holds them */

/* Windows of a run of `active` queries at (y, x), (y, x + apart), ... in one slot. */
typedef struct SnlsTileWindows {
    const float *flow;            /* of the first query, along x; NULL: none */
    ptrdiff_t flow_step, flow_y;  /* floats to the next query's; to that along y */
    int     active;
    double  y, x, apart;
    SnlsLaneWindows all;
    ptrdiff_t items;              /* cells of an axis whose place is wanted, the first ones */
} SnlsTileWindows;

typedef struct SnlsTileAxis { /* a vector of each; of index and fraction for every item */
    double  *centre;
    int32_t *origin, *index;
    float   *fraction;
} SnlsTileAxis;

/* Where queries are: at(r, f, l) = r*row + f*step + l/width*part + l%width */
typedef struct SnlsTileQueries { ptrdiff_t row, step, part; } SnlsTileQueries;

/* Products of `rows` runs of queries with `columns` runs of keys, 1 .. the block's size each; a run of keys begins one float after the one before:
 *   out[r][c*out_step + l] = sum_f query[at(r, f, l)] * key[f*key_pitch + c + l]
 * square: (query - key)^2. add: on top of what out holds. ahead: floats from a key to the one that is needed next, fetched meanwhile. */
typedef struct SnlsTileDots {
    float *out[SNLS_TILE_ROWS_MAX];
    ptrdiff_t out_step;
    const float *query, *key;
    SnlsTileQueries at;
    ptrdiff_t key_pitch, ahead, features;
    int rows, columns, add, square;
} SnlsTileDots;

/* A band of shifts of one column of vectors of pixels: `down` shifts along y, `across` along x. Products of pixel row r, shift (d, c):
 *   product = sum_f query[at(r, f, l)] * key[r + d][key_at + f*key_pitch + c + l]
 * square: (query - key)^2. norms: and query[at(r, features, l)] + key[r + d][key_at + features*key_pitch + c + l] more. They go into a ring of rows and from there, `side` rows `apart` from each other, into sums:
 *   out[q*out_row + d*out_down + c*out_across + l] = sum_{a < side} product of row q + a*apart
 * for all q whose rows are below `rows`. Products of the first `begun` rows, fewer than a sum has, are in the ring already. */
typedef struct SnlsTileBand {
    float *out;
    ptrdiff_t out_row, out_down, out_across;
    float *ring; /* (across, snls_tile_ring, lanes) for each shift along y, ring_down apart */
    ptrdiff_t ring_down, begun;
    const float *query;
    SnlsTileQueries at;
    const float *const *key;
    ptrdiff_t key_at, key_pitch, features, rows;
    int down, across, side, apart, square, norms;
} SnlsTileBand;

/* Rows of products that are kept: those of a sum and one more, a power of two. */
static inline ptrdiff_t snls_tile_ring(ptrdiff_t side, ptrdiff_t apart)
{
    ptrdiff_t rows = 1;
    while (rows < (side - 1) * apart + 2) rows *= 2;
    return rows;
}

/* Windows of side*side candidates a pixel apart, of a run: lane l's begins between rows and columns index_y[l], index_x[l] of a box of scores and the next, fraction_y[l] and
 * fraction_x[l] further on. low, high: the least and the largest index. The row and the column after the last candidate's may be read in vain. */
typedef struct SnlsTileMix {
    float *out;       /* (side, side, lanes) */
    const float *in;  /* (rows, row/lanes, lanes) */
    ptrdiff_t row, side;
    const int32_t *index_y, *index_x;
    const float *fraction_y, *fraction_x;
    int low_y, high_y, low_x, high_x;
    float *work;      /* 2*(side + 1 + high_x - low_x)*lanes */
} SnlsTileMix;

/* What is needed to score candidates of a run from their pixels. */
typedef struct SnlsTileExact {
    const uint32_t *cell;                 /* where a candidate is, by its number (list.h) */
    const double *centre_y, *centre_x;    /* windows: lane by lane, slots `apart` numbers apart */
    const int32_t *origin_y, *origin_x;
    ptrdiff_t apart;
    double step;
    const float *const *frame;            /* of each slot: its first pixel */
    ptrdiff_t down, right;                /* floats from a pixel to those below and on the right */
    const float *query;                   /* of lane 0 */
    ptrdiff_t query_step, features;
} SnlsTileExact;

/* A patch of `side` rows of n floats against a place between pixels: its first pixel and fractions; `right`, `down`: floats to the taps. A tap of weight 0 is not looked at. */
typedef struct SnlsTilePatch {
    const float *query, *key;
    ptrdiff_t query_down, down, right, n, side;
    float fraction_y, fraction_x;
} SnlsTilePatch;

/* Windows with several candidates to a pixel, by cells: a cell is what lies between a whole pixel and the next along both axes. With `steps` candidates to a pixel it holds
 * steps*steps, but the first and the last cell of an axis share theirs: they lack `skip` and steps - 1 - skip of them. */
typedef struct SnlsTileCellAxis { /* lane by lane */
    float first[SNLS_TILE_LANES_MAX]; /* fraction of the first candidate */
    float phase[SNLS_TILE_LANES_MAX]; /* of the first of a cell that lacks none */
    float skip[SNLS_TILE_LANES_MAX];
} SnlsTileCellAxis;

/* Those of a run in a slot, and the scores at whole pixels: lane l's window begins in row index_y[l] and column index_x[l] of a box of vectors. */
typedef struct SnlsTileCells {
    SnlsTileCellAxis y, x;
    const float *box;
    ptrdiff_t row;                  /* floats from a row of the box to the next */
    int32_t index_y[SNLS_TILE_LANES_MAX], index_x[SNLS_TILE_LANES_MAX];
    int low_y, high_y, low_x, high_x;
    int between_y, between_x;       /* some window does not end at a pixel: the one after its last counts */
    int used;
} SnlsTileCells;

/* The least of cells, lane by lane, and their numbers. left_out: the least of what was compared with the lists and is not in them; sum: of all scores, NaN where one is. */
typedef struct SnlsTileCellLists {
    float top[SNLS_TILE_SHORT * SNLS_TILE_LANES_MAX], number[SNLS_TILE_SHORT * SNLS_TILE_LANES_MAX];
    float left_out[SNLS_TILE_LANES_MAX], sum[SNLS_TILE_LANES_MAX];
} SnlsTileCellLists;

typedef struct SnlsTileCellRow {
    const float *above, *below; /* rows of whole pixels put straight */
    ptrdiff_t row, cells;       /* number of the row; cells along an axis */
    int   steps;
    float first;                /* number of the row's first cell */
} SnlsTileCellRow;

/* Windows of so many slots from `slot` on, `apart` windows from each other. */
typedef struct SnlsTileExpand {
    const SnlsTileCells *window;
    ptrdiff_t apart;
    float slot;
    int   slots, steps, side;
} SnlsTileExpand;

typedef struct SnlsTile {
    int lanes;         /* queries of a run */
    int width;         /* floats in a vector; lanes is a multiple */
    int rows, columns; /* block of sums that dots keeps in registers */

    /* out[f*pitch + x] = in[x*step + f] for x < n, f < features. Returns the largest magnitude; NaN does not count. */
    float (*planes)(float *out, ptrdiff_t pitch, const float *in, ptrdiff_t step, ptrdiff_t n, ptrdiff_t features);

    float (*peak)(const float *in, ptrdiff_t n); /* the largest magnitude likewise */

    /* out[x] = sum_f in[f*pitch + x]^2 for x < n, f < features */
    void (*norms)(float *out, const float *in, ptrdiff_t pitch, ptrdiff_t n, ptrdiff_t features);

    void (*dots)(const SnlsTileDots *d);

    /* Products of pixels for patches, summed down. down <= patch_rows; best a multiple of patch_columns or less across. */
    int patch_rows, patch_columns;
    void (*band)(const SnlsTileBand *b);

    /* Those summed across, for one run:
     *   out[y*out_row + x*lanes + l] = sum_{b < side} in[y*in_row + x*in_column + l + b*apart]
     * where lanes past the end of a row hold anything, and two vectors after the last may be read. */
    void (*run_sums)(float *out, ptrdiff_t out_row, const float *in, ptrdiff_t in_row, ptrdiff_t in_column, ptrdiff_t rows, ptrdiff_t columns, ptrdiff_t side, ptrdiff_t apart);

    /* Linear interpolation between two of several runs, chosen lane by lane: with j = index[l], low <= j <= high, and
     * f = fraction[l]:  out[i*lanes + l] = (1-f)*a + f*b - f*(1-f)*e,  a = run j, b = run j+1, e = bend run j.
     * run j of item i starts at in[j] + item[i], bend[j] + bend_item[i]; bend NULL: e = 0. Where f is 0, b and e do not
     * count, even if they are no numbers. most, if not NULL, is raised to the largest f*(1-f)*e of each lane. */
    void (*mix)(float *out, const float *const *in, const ptrdiff_t *item, ptrdiff_t n, int low, int high, const int32_t *index,
                const float *fraction, const float *const *bend, const ptrdiff_t *bend_item, float *most);

    /* The same along the other axis: item i has its own index and fraction (i*lanes apart, or the same for all when apart
     * is 0), low and high, and all runs lie lanes apart: run j of item i at in + (j + first[i])*lanes. */
    void (*mix_each)(float *out, const float *in, const float *bend, ptrdiff_t n, const int *first, const int *low, const int *high,
                     const int32_t *index, const float *fraction, ptrdiff_t apart, float *most);

    /* The same along both axes, where there is nothing to subtract. */
    void (*mix_window)(const SnlsTileMix *w);

    /* Windows that lie inside the frame as a whole, their centre (the query and its flow) without reflection. Bit l of the result is set for those; then index is
     * floor(place) minus the query for every item, fraction the rest. Of other lanes index and fraction hold anything. A window that has slid
     * may be left out. */
    uint32_t (*windows)(const SnlsTileWindows *in, SnlsTileAxis *y, SnlsTileAxis *x);

    /* Smallest and largest index of every item; whether some fraction is not 0. Only lanes of `together` count, one at least; others are given
     * the index of one that does, so that they read nothing odd, and the fraction 0. */
    int (*ranges)(const SnlsTileAxis *axis, ptrdiff_t items, uint32_t together, int *low, int *high);

    /* The smallest of n values, lane by lane; NaN does not count. */
    void (*least)(float *out, const float *value, ptrdiff_t n);

    /* Sorted lists, lane by lane: top[i*lanes + l] is the i-th smallest value so far of lane l, number[] its number. An empty place
     * holds NaN and SNLS_TILE_NONE. keep: the length of a list that holds at least k. */
    ptrdiff_t (*keep)(ptrdiff_t k);

    /* n values, numbered from `first` on, into such lists; of equal values that comes first which came first, in numbers too.
     * NaN does not enter. Only the first `active` lanes count. work: (keep + 1 + 2*SNLS_TILE_LIST)*lanes; below: n*(lanes + 1) */
    void (*insert)(float *top, float *number, ptrdiff_t k, const float *value, ptrdiff_t n, float first, int active, float *work, uint32_t *below);

    /* An upper bound of the k-th smallest of a list and of n values, lane by lane: the k-th smallest of the list and of the minima
     * of groups of values. work: k*lanes floats, of which the first `lanes` are then the smallest of all. NaN does not count. */
    void (*lower_bar)(float *bar, const float *top, const float *value, ptrdiff_t n, ptrdiff_t k, float *work);

    /* Where value[i*lanes + l] <= bar[l]: i*16 + l, in order of i, into out; how many. work: n numbers */
    ptrdiff_t (*below)(uint32_t *out, const float *value, ptrdiff_t n, const float *bar, uint32_t *work);

    /* l2 of n candidates, given as `below` does, from their pixels. Whole vectors of out may be written. */
    void (*exact)(float *out, const uint32_t *candidate, ptrdiff_t n, const SnlsTileExact *in);

    float (*exact_patch)(const SnlsTilePatch *p); /* l2 */

    /* Such candidates with their scores into lists, as `insert` does; number: candidate plus `first`. */
    void (*enter)(float *top, float *number, ptrdiff_t k, const uint32_t *candidate, const float *score, ptrdiff_t n, float first, float *work);

    /* Row `row` of the whole pixels of a run's windows, lanes side by side: cells + 1 vectors, without the last where that does not count. Beyond them and in
     * work (more than the box is wide) anything may be written. */
    void (*straight)(float *out, const SnlsTileCells *w, ptrdiff_t row, ptrdiff_t cells, float *work);

    /* The least scores of a row of cells into lists of k <= SNLS_TILE_SHORT. */
    void (*cells)(SnlsTileCellLists *lists, const SnlsTileCells *w, const SnlsTileCellRow *row, ptrdiff_t k);

    /* The candidates of a cell of every lane into sorted lists of candidates, those of `lanes`, a bit each; place, of all lanes: slot (counted from the first), row and column of the cell as list.h says. Of equal
     * scores that with the lower number goes first, whatever the order in which they come. */
    void (*expand)(float *top, float *number, ptrdiff_t k, const uint32_t *place, uint32_t lanes, const SnlsTileExpand *in);

    /* k neighbours of every lane from lists that hold at least `have`; cell[number]: where that candidate is, as list.h says. */
    void (*write_lists)(const SnlsListOutput *out, const float *top, const float *number, ptrdiff_t k, ptrdiff_t have, const uint32_t *cell);
} SnlsTile;

void snls_tile_init(SnlsTile *tile, int level); /* levels as in dsp.h; above the machine's it is lowered */
void snls_tile_init_c(SnlsTile *tile);
void snls_tile_init_avx2(SnlsTile *tile);
void snls_tile_init_avx512(SnlsTile *tile);
void snls_tile_init_neon(SnlsTile *tile);

#endif
