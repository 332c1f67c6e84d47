/* shift.h: scores of patches with shifts in the lanes of a vector. Matrix tiles (AMX) give the products of 16 neighbouring query pixels with 32 neighbouring
 * key pixels; stored side by side, the products of query pixel i with its 16 neighbouring shifts along x begin at column i of row i and lie together, so that
 * sums over patches are sums of vectors. Numbers are sums of two bf16 parts, whose larger products are right to 2^-16 of |q||k|.
 * One implementation (shift_amx.c), absent on other machines. */
#ifndef SNLS_SHIFT_H
#define SNLS_SHIFT_H

#include <stddef.h>
#include <stdint.h>

#define SNLS_SHIFT_LANES 16
#define SNLS_SHIFT_SIDE 7        /* of a patch at most; odd */
#define SNLS_SHIFT_ROWS 30       /* of pixels at most */
#define SNLS_SHIFT_GROUP 3       /* shifts along y that are made together */
#define SNLS_SHIFT_TILE 512      /* numbers of a tile of queries: 16 pixels of 32 */

/* Products summed down, of all pixels of a block at `shifts` shifts along y, 16 along x, for patches whose first row is r:
 *   out[r*out_row + n*out_block + d*256 + i*16 + l] = sum over a < side of <query pixel (r + a, 16*n + i), pixel (16*n + i + l) of key row r + a + d> */
typedef struct SnlsShiftScores {
    const uint16_t *query;       /* (blocks, rows, tiles), as `queries` leaves a run of 16 */
    const uint32_t *key;         /* key rows, key_row tiles apart, as `copy` leaves them */
    ptrdiff_t key_row;
    ptrdiff_t features, rows, blocks, shifts; /* rows and blocks of pixels */
    int side;
    float *out;
    ptrdiff_t out_row, out_block;
    float *work;                 /* SNLS_SHIFT_WORK */
} SnlsShiftScores;

/* Where the windows of 16 queries begin in their boxes, in whole shifts and the rest. */
typedef struct SnlsShiftPlaces { const int32_t *y, *x; const float *fraction_y, *fraction_x; } SnlsShiftPlaces;

typedef struct SnlsShift {
    void (*start)(void); /* by every thread before `scores` */
    void (*stop)(void);
    /* Pixels `step` floats apart, n of them, as words of two bf16 numbers: word w of pixel x at out[(x / 16 * words + w)*16 + x % 16]. Returns the largest magnitude;
     * NaN does not count. */
    float (*keys)(uint32_t *out, const float *in, ptrdiff_t step, ptrdiff_t n, ptrdiff_t features);
    /* Pixels from `first` on, n runs of 16, of a row of such words: the same, with `first` where 0 was. Up to 15 pixels more are read. */
    void (*copy)(uint32_t *out, const uint32_t *in, ptrdiff_t first, ptrdiff_t n, ptrdiff_t features);
    /* A run of 16 pixels, negated, into tiles; likewise. */
    float (*queries)(uint16_t *out, const float *const pixel[SNLS_SHIFT_LANES], ptrdiff_t features);
    void (*scores)(const SnlsShiftScores *s);
    /* Such sums of a block, and of the one beside it, summed across for 16 queries i:
     *   out[i*out_query + d*out_shift + l] = sum over b < side of in[d*256 + (i + b)*16 + l], where i + b is 16 and more of beside[d*256 + (i + b - 16)*16 + l] */
    void (*across)(float *out, ptrdiff_t out_query, ptrdiff_t out_shift, const float *in, const float *beside, ptrdiff_t shifts, int side);
    /* out[c*16 + l] = in[l*step + c] for c < n; up to three floats more of each row are read. */
    void (*turn)(float *out, const float *in, ptrdiff_t step, ptrdiff_t n);
    /* Windows of side*side candidates a whole pixel apart, side up to 16: value[(a*side + b)*16 + l] from scores at in[l*query + y*down + x]. A row and 17 columns
     * behind a window may be read. work: side*256 floats */
    void (*candidates)(float *value, ptrdiff_t side, const float *in, ptrdiff_t query, ptrdiff_t down, const SnlsShiftPlaces *at, float *work);
} SnlsShift;

/* Features are padded to whole chunks of 32 with zeros. Words of a key pixel; tiles of a run of queries. */
static inline ptrdiff_t snls_shift_chunks(ptrdiff_t features) { return (features + 31) / 32; }
static inline ptrdiff_t snls_shift_words(ptrdiff_t features) { return 32 * snls_shift_chunks(features); }
static inline ptrdiff_t snls_shift_tiles(ptrdiff_t features) { return 2 * snls_shift_chunks(features); }
#define SNLS_SHIFT_WORK (2 * 512 + SNLS_SHIFT_GROUP * 8 * 256) /* floats: two units of products, rings of eight rows */

int snls_shift_init(SnlsShift *shift, int level); /* 0: this machine or level has none */
void snls_shift_init_amx(SnlsShift *shift);

#endif
