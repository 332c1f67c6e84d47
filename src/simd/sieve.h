/* sieve.h: sixteen queries against boxes of keys, roughly first, exactly where it matters. Rough scores come from
 * products of bf16 matrices (AMX on x86-64, BFMMLA on AArch64), of f16 ones (AMX) or of bytes (AVX-512 VNNI): products of every query with every key of a box, lane l of a vector is query l. A key is a
 * candidate of the lanes whose window holds it, so that lanes may look anywhere in the box, each at a fraction of its own.
 * What may be among the best in spite of the rough scores' error is then scored in f32. Smaller is better throughout.
 * Knows nothing of tensors, borders and threads; absent on machines that have none of these. */
#ifndef SNLS_SIEVE_H
#define SNLS_SIEVE_H

#include "simd/list.h"
#include <stddef.h>
#include <stdint.h>

#define SNLS_SIEVE_LANES 16
#if defined(__aarch64__)
#define SNLS_SIEVE_CHUNK 8  /* bf16: features are padded to whole chunks with zeros */
#define SNLS_SIEVE_PAIR 2   /* keys whose features lie together, four of each in turn, as an instruction takes them */
#define SNLS_SIEVE_MANY 64  /* products of several candidates to a pixel, in small windows: with fewer features tiles of queries are faster */
#else
#define SNLS_SIEVE_CHUNK 32
#define SNLS_SIEVE_PAIR 1
#define SNLS_SIEVE_MANY 0
#endif
#define SNLS_SIEVE_BYTES 16 /* bytes: padded to a multiple of so many */
#define SNLS_SIEVE_HEAD 8   /* bytes: so many before those of a key, see SnlsSieveKeys */
#define SNLS_SIEVE_SIDE 64  /* rows and columns of a box at most */
#define SNLS_SIEVE_KEPT 24  /* places of a list at most */

/* Keys as sums of one or two bf16 parts: a pixel is `parts` times `padded` numbers, high parts first. Of pairs each part is that of both pixels. Or as bytes, two to a
 * number, multiples of a unit of each pixel; before them, in 32 bits each, -128 times their sum, and the unit as a float. */
typedef struct SnlsSieveKeys {
    const uint16_t *at;    /* pixel at the box's origin less `skip`, the first of a pair; rows are readable in whole runs of 16 pixels */
    int skip;
    ptrdiff_t down, right; /* numbers to the pixel below and to the right */
    int chunks, parts;
    const float *add;      /* added to the score of each key, add_down floats a row; NULL: nothing */
    const float *bend[3];  /* l2 between pixels: |k - right|^2, |k - lower|^2, |k - right - lower + both|^2, likewise; or NULL */
    ptrdiff_t add_down;
} SnlsSieveKeys;

/* Products of a box in the making: key rows of `tiles` runs of 16 keys; a run is a unit, (16 keys, lanes) floats of out. A box that is one run wide takes
 * turns in few rows, which stay in the first cache: ring is SNLS_SIEVE_RING. Else it has all its rows, and ring is 0. */
#define SNLS_SIEVE_RING 8
typedef struct SnlsSieveMake {
    SnlsSieveKeys keys;
    const uint16_t *query;  /* as `queries` left it */
    float *out;             /* (key rows or ring, tiles*16, lanes) */
    int tiles, units, ring, made, stored;
} SnlsSieveMake;

static inline float *snls_sieve_unit(const SnlsSieveMake *m, int unit) { return m->out + (ptrdiff_t)(m->ring ? unit % SNLS_SIEVE_RING : unit) * SNLS_SIEVE_LANES * SNLS_SIEVE_LANES; }

/* What a lane looks at along an axis. A cell is what lies between a whole pixel x and the next; it holds `steps` candidates, the first at x + fraction, the
 * others 1/steps apart, numbers steps*x - base and on of the lane's window. [from, to): numbers inside the frame; [first, end): cells that hold one. */
typedef struct SnlsSieveLanes {
    int32_t base[SNLS_SIEVE_LANES], first[SNLS_SIEVE_LANES], end[SNLS_SIEVE_LANES], from[SNLS_SIEVE_LANES], to[SNLS_SIEVE_LANES];
    float   fraction[SNLS_SIEVE_LANES];
} SnlsSieveLanes;

typedef struct SnlsSieveSpan { int32_t first, end; } SnlsSieveSpan;

/* Which lanes look into a box, and where it begins. */
typedef struct SnlsSieveView {
    const SnlsSieveLanes *y, *x;
    uint32_t lanes;
    int32_t  origin_y, origin_x, steps;
    const float *norm; /* |q|^2 of each lane */
    float    key_norm; /* the largest |k|^2 of the box, or more */
} SnlsSieveView;

/* What is kept of the scores of a box: of every row of cells the three least, lane by lane, (rows, lanes), each the least of its cell. Their lowest bits
 * hold the column. Infinity: there is none. */
typedef struct SnlsSieveRows {
    float *least[3];
    int rows, columns, bits;
    float scale; /* x86-64: what scores are multiplied by, a power of two: as `scan` finds it best */
    float unit[SNLS_SIEVE_LANES]; /* AArch64: above 0 where `least` are 16-bit numbers, multiples of it */
    int halves;                   /* those: cells hold candidates at pixels and halves only */
} SnlsSieveRows;

/* A cell of a lane: box, row, column and lane, 16, 6, 6 and 4 bits. */
static inline uint32_t snls_sieve_entry(uint32_t box, uint32_t row, uint32_t column, uint32_t lane)
{
    return box << 16 | row << 10 | column << 4 | lane;
}

typedef struct SnlsSieveEntries {
    uint32_t *at;
    ptrdiff_t count, room;
} SnlsSieveEntries;

/* What the entries of all boxes are looked up in. There is room for so few of both at least. Of each box: */
#define SNLS_SIEVE_FEW_SLOTS 4
#define SNLS_SIEVE_FEW_BOXES 8
typedef struct SnlsSieveTable {
    const float **at;              /* the key pixel at its origin, in f32 */
    int32_t *slot, *origin_y, *origin_x;
    /* of each slot */
    const SnlsSieveLanes *y, *x;
    /* of all: floats to the pixel below and to the right; the last row and column of the frame; candidates to a pixel; the queries' pixels */
    ptrdiff_t down, right;
    int32_t last_y, last_x, steps, slots, boxes;
    const float *const *query;
} SnlsSieveTable;

#define SNLS_SIEVE_STEPS 4
typedef struct SnlsSievePairs { /* 16 pairs of a query and a cell; of the cell's four pixels, or of the first only */
    SnlsPairs at;
    uint32_t lane[SNLS_SIEVE_LANES], place[SNLS_SIEVE_LANES]; /* place: as list.h says, of the cell's first candidate */
    uint16_t in_y[SNLS_SIEVE_STEPS], in_x[SNLS_SIEVE_STEPS];  /* of which pairs the candidates of a cell are there, along each axis */
    int steps;
} SnlsSievePairs;

/* Candidates with their exact scores. */
typedef struct SnlsSieveFound {
    ptrdiff_t count;
    float    score[SNLS_SIEVE_LANES * (SNLS_SIEVE_STEPS * SNLS_SIEVE_STEPS + 1)];
    uint32_t lane[SNLS_SIEVE_LANES * (SNLS_SIEVE_STEPS * SNLS_SIEVE_STEPS + 1)], place[SNLS_SIEVE_LANES * (SNLS_SIEVE_STEPS * SNLS_SIEVE_STEPS + 1)];
} SnlsSieveFound;

/* Windows of 16 queries at (y, x) in one slot. flow + at[l] is the lane's flow along x, step_y further along y; NULL: none. */
typedef struct SnlsSieveWindows {
    const float *flow;
    const int32_t *at;
    ptrdiff_t step_y;
    const double *y, *x;
    SnlsLaneWindows all;
    int32_t side, steps;
    double *centre_y, *centre_x;         /* out */
    int32_t *origin_y, *origin_x;
} SnlsSieveWindows;

/* How pixels become parts: of (in - centre)*scale, centre NULL: 0, with zeros after the last feature. rounded: lengths are those of the parts (one part only, squares below
 * 2^-126 do not count), not of what they were made from. */
typedef struct SnlsSieveParts {
    ptrdiff_t features, padded;
    int parts, rounded;
    float scale; /* pixels are multiplied with it, a power of two, and all lengths are; 1 unless SnlsSieve.scaled */
    const float *centre;
    int awake;   /* queries only: `SnlsSieve.awake` now and then meanwhile */
    float *lost; /* to be set, unless there are two parts: |x - what was made of it|^2 of each query; of keys the largest of every sixteen, NaN if one is */
} SnlsSieveParts;

/* Sixteen queries as bytes and 128, which products want without a sign, four features of each lane in turn. unit: what sums are to be multiplied with, and with that of the key. */
typedef struct SnlsSieveBytes {
    float   unit[SNLS_SIEVE_LANES];
    uint8_t at[];
} SnlsSieveBytes;

typedef struct SnlsSieve {
    void (*start)(void); /* before `scan`, on each thread; stop when done with it */
    void (*stop)(void);

    /* NULL, or a product that nobody wants, made while no box is under way. A matrix unit that has had nothing to do for half a microsecond goes to sleep, and the next product waits
     * for another quarter until it is awake (docs/performance.md): called often enough between boxes, this keeps it from that. */
    void (*awake)(void);

    /* A row of n pixels into bf16 parts; of an odd one out the other is 0. norm: squared lengths, not finite where a feature is not; most: the largest of every sixteen, NaN if one is. */
    void (*split)(uint16_t *out, const SnlsSieveParts *as, const float *in, ptrdiff_t step, ptrdiff_t n, float *norm, float *most);

    /* Sixteen queries times scale, a power of two, into matrix tiles, (parts, chunks, 16, 32), or SnlsSieveBytes; norm as before. along: NULL, or a vector whose product with each query is
     * wanted in `product`. */
    void (*queries)(uint16_t *out, const SnlsSieveParts *as, const float *const *in, float scale, float *norm, const float *along, float *product);

    /* Lanes of `lanes` that fit `size` cells, one more for interpolation, with the first of them; from where to where. */
    uint32_t (*fit)(const SnlsSieveLanes *axis, uint32_t lanes, int32_t size, SnlsSieveSpan *span);
    int (*between)(const SnlsSieveLanes *axis, uint32_t lanes, int32_t steps); /* some candidate is not at a pixel */

    /* All products of the first box, unless it has a ring. `scan` makes those of a box with a ring, and begins or makes the next. */
    void (*make)(SnlsSieveMake *box);

    /* Scores of rows x columns cells from the products of their box. top: the k least so far, of three cells a row, sorted, (k, lanes). next: begun, or
     * made, meanwhile; or NULL. */
    void (*scan)(SnlsSieveRows *to, SnlsSieveMake *box, const SnlsSieveView *view, float *top, ptrdiff_t k, SnlsSieveMake *next);

    /* Entries of rows `row` and on whose score is not above the lane's bar, appended to `cells`; to `pixels` instead where it is certain that of the cell only the
     * candidate at its first pixel can be. Where all three of a row are not above the bar, all cells of the lane are entered. Returns the row where it
     * stopped for want of room, or the number of rows. There must be room for more than 4*columns*16. */
    int (*hits)(const SnlsSieveRows *from, const SnlsSieveTable *table, ptrdiff_t box, int row, const float *bar, SnlsSieveEntries *cells, SnlsSieveEntries *pixels);

    /* Up to 16 entries as pairs of pixels, which are fetched; the rest repeats the first, and is not there. taps: 4, or 1 for cells with a candidate at
     * their first pixel, of which only that one is looked at. */
    void (*look_up)(SnlsSievePairs *out, const uint32_t *entry, ptrdiff_t n, const SnlsSieveTable *table, int taps);

    /* Scores of the candidates of 16 pairs, those not above the lane's limit: dot times -1 (prod) or squared distance, over n features. taps: 1 or 4. */
    void (*scores)(SnlsSieveFound *out, const SnlsSievePairs *pairs, int taps, int prod, ptrdiff_t n, const float *limit);

    /* n rows of scores and places into sorted lists of k, lane by lane; on a tie the lower place is first. */
    void (*keep)(float *best, uint32_t *best_place, ptrdiff_t k, const float *score, const uint32_t *place, ptrdiff_t n);

    /* Windows that lie in the frame as a whole, their centre without reflection: bit set. Of those everything is set, of others nothing that means anything. */
    uint32_t (*windows)(const SnlsSieveWindows *in, SnlsSieveLanes *y, SnlsSieveLanes *x);

    void (*write)(const SnlsListOutput *out, const float *best, const uint32_t *place, ptrdiff_t k, ptrdiff_t have);

    int   bytes;  /* 1: keys and queries are bytes */
    int   runs;   /* 1: products come in whole runs of 16 keys, be they wanted or not */
    int   parts;  /* that pixels can be held in: 1 or 2 */
    int   scaled; /* 1: numbers have a small range, and pixels are to be of about their size (SnlsSieveParts.scale) */
    float grain; /* rough products are multiples of this share of |q||k|, or 0: f32. Interpolated ones are off by a few of them. */
} SnlsSieve;

int snls_sieve_level(void);                       /* the highest level, SnlsCpuLevel, of which this machine and its operating system have what a sieve needs; 0: of none */
int snls_sieve_lent(int level);                   /* this level or, where the operating system does not lend it to this process, the next below. Only the levels that need it ask for it */
int snls_sieve_init(SnlsSieve *sieve, int level); /* 0: this machine, or this level, has none */
void snls_sieve_init_amx(SnlsSieve *sieve);       /* sieve_amx.c; the others: sieve_scan_amx.c */
void snls_sieve_init_scan_amx(SnlsSieve *sieve);
void snls_sieve_init_fp16_amx(SnlsSieve *sieve);  /* sieve_fp16_amx.c; the others: sieve_scan_fp16_amx.c */
void snls_sieve_init_scan_fp16_amx(SnlsSieve *sieve);
void snls_sieve_init_vnni(SnlsSieve *sieve);      /* sieve_vnni.c; the others: sieve_scan_vnni.c */
void snls_sieve_init_scan_vnni(SnlsSieve *sieve);
void snls_sieve_init_fine_avx512(SnlsSieve *sieve); /* of all three */
void snls_sieve_init_bf16(SnlsSieve *sieve);      /* sieve_bf16.c and sieve_prod_bf16.c; the others: sieve_scan_bf16.c, sieve_fine_neon.c */
void snls_sieve_init_scan_bf16(SnlsSieve *sieve);
void snls_sieve_init_fine_neon(SnlsSieve *sieve);

#endif
