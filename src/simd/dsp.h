/* dsp.h: the table of inner loops, one implementation a row for each instruction set.
 * Everything here works on contiguous floats: no border, no allocation, any alignment, any n >= 0. Knows nothing of the
 * rest of the library. dsp.c is the plain C version; the others overwrite what they have and must agree with it up to
 * the order of summation. Results depend on the arguments alone, never on alignment, so that they are reproducible. */
#ifndef SNLS_DSP_H
#define SNLS_DSP_H

#include <stddef.h>
#include <stdint.h>

/* Bilinear reads: pixel at[i] of a video, the one to its right, the two below; weights w[0..3][i] in reading order; k[i]:
 * which neighbour it is; row[i]: that of at[i]; without row it is not wanted. */
typedef struct SnlsPlaces {
    const float **at;
    float *w[4];
    int64_t *k, *row;
} SnlsPlaces;

/* A query, or several of a row, and where their neighbours may lie: y0 <= y < y1, x0 <= x < x1, reflected once where they
 * are not. fold: twice the last frame, row, column. Floats from pixel to pixel, and in all, are below 2^52. */
typedef struct SnlsSite {
    double t, y, x;    /* of the first query */
    double fold_t, fold_y, fold_x, y0, y1, x0, x1;
    const float *base; /* pixel (0, 0, 0) */
    ptrdiff_t step_t, step_y, step_x;
    ptrdiff_t lines, columns; /* step_t / step_y and step_y / step_x where these are whole and all pixels fewer than 2^31, else 0: less is known then */
    int nearest;       /* dy and dx are rounded half to even */
    int slopes;        /* those reflected along y or x do not count as inside */
} SnlsSite;

/* The video they are in: floats from a pixel to the next ones, floats of a pixel, and which of the four count: bit 0 the
 * right ones, bit 1 the lower ones. Those that do not are not touched. */
typedef struct SnlsGrid {
    ptrdiff_t right, down, n;
    int shape;
} SnlsGrid;

/* rows x run pixels of something else, pixel (r, s) at r*down + s*right floats; of_k: floats from neighbour to neighbour */
typedef struct SnlsPatch {
    ptrdiff_t right, down, rows, run, of_k;
} SnlsPatch;

/* A patch against the bilinear reads around one place: pixel at of the grid is read for its first pixel, with weights w. */
typedef struct SnlsPair {
    const float *at, *q; /* q: the patch's first pixel */
    float w[4];
    int prod;
    float *out;          /* where e goes (not with prod); or NULL */
    ptrdiff_t out_down;  /* floats from a row of it to the next; its pixels lie side by side */
} SnlsPair;

/* Pixels of a query and of a key, and their gradients; of the four taps those in shape (as in SnlsGrid) have weights. */
typedef struct SnlsPixel {
    const float *q, *at;
    float *to, *out;               /* gradients of q and of at; NULL: not wanted */
    ptrdiff_t right, down;         /* floats from at to its neighbours; all four are there where sums along them are wanted */
    ptrdiff_t out_right, out_down; /* the same of out */
    ptrdiff_t n;
    float w[4], g;
    int shape, prod;
    int rows;                      /* of out that are added to: bit 0 the upper taps, bit 1 the lower ones */
} SnlsPixel;

/* A patch, rows x run pieces of n floats one after the other, and bilinear reads of as many pieces: those of piece (r, s) are r*next_down + s*next_right floats from
 * those of the first. */
typedef struct SnlsReads {
    const float *q;
    ptrdiff_t rows, run, n, next_down, next_right;
    ptrdiff_t right, down; /* floats from a tap to the ones beside and below it */
    float w[4];            /* shape 0: not looked at */
    int shape, prod;       /* shape as in SnlsGrid */
} SnlsReads;

/* Queries next to each other: `count` places each, those of the next one `places` further on, its patch `step` floats. */
typedef struct SnlsRun {
    ptrdiff_t queries, count, places, step;
    int set;            /* patches of one pixel are written, not added to */
    const float *ahead; /* a pixel of the grid for each query, next to each other, which later ones will want: asked for; NULL: none */
} SnlsRun;

/* Neighbours of single pixels that a search has kept, up to SNLS_SETTLE of a row of queries, and how they are found again from their numbers. */
enum { SNLS_SETTLE = 64, SNLS_SETTLE_REFLECTED = -1 };

typedef struct SnlsSettled {
    /* given */
    int32_t id[SNLS_SETTLE], column[SNLS_SETTLE]; /* number of the candidate; column of the query */
    int64_t centre[SNLS_SETTLE];                  /* floats from SnlsSettle.centre to that of the query's window 0 */
    /* settle */
    int32_t window[SNLS_SETTLE], state[SNLS_SETTLE]; /* state: 1 there is such a neighbour, 0 there is none, or its window's centre lies beyond the frame and has to be reflected: y, x to be found elsewhere */
    double  y[SNLS_SETTLE], x[SNLS_SETTLE];
    int32_t frame[SNLS_SETTLE];
    /* aim */
    int64_t at[SNLS_SETTLE], out[SNLS_SETTLE];    /* floats from the first pixel of a video, of its gradient */
    int32_t down[SNLS_SETTLE], right[SNLS_SETTLE]; /* pixels to the taps below and beside, +-1 or 0 */
    int32_t rows[SNLS_SETTLE], shape[SNLS_SETTLE]; /* as in SnlsPixel */
    float   w[4][SNLS_SETTLE];
    double  by_y[SNLS_SETTLE], by_x[SNLS_SETTLE]; /* tilt */
} SnlsSettled;

typedef struct SnlsSettle {
    const float *centre;                     /* NULL: no window has one */
    ptrdiff_t centre_window, step_y, step_x; /* floats from window to window, to its components */
    int32_t first, cells, side;              /* the first window with a centre; cells of a window, below 2^20, and of its side */
    int     nearest, slide;
    int32_t time, turn;                      /* window s is of frame time + s up to frame `turn`, else of turn - s */
    double  y, stride0, stride1, last_y, last_x; /* row of the queries; their columns are stride0 apart; the last row and column of a frame */
} SnlsSettle;

typedef struct SnlsAim {
    ptrdiff_t step[3], out_step[3];          /* frame, row, column of a video and of its gradient */
    int32_t height, width, first, end;       /* rows first .. end - 1 are added to */
} SnlsAim;

/* What the neighbours of a list have in common when they pull: pixel 0 of the row of queries and of the first frame of the keys, their gradients (NULL: not wanted), floats from query to query and to the
 * key's next pixels. */
typedef struct SnlsPulls {
    const float *q, *key;
    float *to, *out;
    ptrdiff_t q_step, to_step, right, down, out_right, out_down, n;
    const int32_t *head;   /* of each: n floats after the one before */
    const float *g;
    float (*along)[4];     /* where sums along the taps go, of windows from first_along on */
    int32_t first_along;
    float twice;           /* times g */
    int prod;
} SnlsPulls;

typedef struct SnlsTilt {
    const float *g;                 /* of each neighbour */
    const float (*along)[4];        /* products of what it pulls with the four taps */
    double twice;
} SnlsTilt;

typedef struct SnlsDsp {
    /* sum a[i]*b[i];  sum (a[i]-b[i])^2 */
    float (*dot)(const float *a, const float *b, ptrdiff_t n);
    float (*l2)(const float *a, const float *b, ptrdiff_t n);

    /* One query against m keys, key j at key + j*step floats: out[j] += dot(q, key_j);  out[j] += l2(q, key_j) */
    void (*dot_row)(float *out, const float *q, const float *key, ptrdiff_t step, ptrdiff_t m, ptrdiff_t n);
    void (*l2_row)(float *out, const float *q, const float *key, ptrdiff_t step, ptrdiff_t m, ptrdiff_t n);

    /* A bilinear read is up to four taps with weights. taps is 1, 2 or 4; taps beyond it are not touched.
     * blend: out[i] = sum_t w[t]*tap[t][i];  dot_blend, l2_blend: dot and l2 of q with that, nothing stored. */
    void  (*blend)(float *out, const float *const *tap, const float *w, int taps, ptrdiff_t n);
    float (*dot_blend)(const float *q, const float *const *tap, const float *w, int taps, ptrdiff_t n);
    float (*l2_blend)(const float *q, const float *const *tap, const float *w, int taps, ptrdiff_t n);

    /* A patch against the reads at several places with the same weights, upper left tap of the first piece at[i]: out[i] = dot or (not prod) l2 of all pieces. */
    void (*score_places)(float *out, const float *const *at, ptrdiff_t count, const SnlsReads *reads);

    /* How far a pixel and its three neighbours are from a plane: out[0] = l2(k, right), out[1] = l2(k, lower), out[2] = sum of
     * ((k - right) - (lower - both))^2. */
    void (*bends)(float out[3], const float *k, const float *right, const float *lower, const float *both, ptrdiff_t n);

    /* Its gradients. blend_sub: out[i] = blend[i] - q[i];  dots: out[t] = dot(x, tap[t]), always four;
     * unblend: y[t][i] += w[t]*x[i] for 1, 2 or 4 arrays, which may overlap: then one that is in two gets both. */
    void (*blend_sub)(float *out, const float *q, const float *const *tap, const float *w, int taps, ptrdiff_t n);
    void (*dots)(float *out, const float *x, const float *const *tap, ptrdiff_t n);
    void (*unblend)(float *const *y, const float *w, int taps, const float *x, ptrdiff_t n);

    void (*axpy)(float *y, float a, const float *x, ptrdiff_t n);        /* y[i] += a*x[i] */
    void (*scale)(float *y, float a, ptrdiff_t n);                       /* y[i] *= a */
    void (*sub)(float *out, const float *a, const float *b, ptrdiff_t n);/* out[i] = a[i] - b[i] */

    /* Neighbours' places from offsets (dt, dy, dx), three floats each, neighbour i of a query x[i] columns after the first. shape[i]
     * as in SnlsGrid; 4: at no whole frame, or not inside, or not finite, or of infinite weight, then at[i], row[i] and w[.][i] are not to be used. w: the
     * four weights times weight[i], f32 products of f32 fractions; without weight 1-fy, fy, 1-fx, fx. There is room for count rounded up to 16. Returns the
     * shape of all, or -1. k is not set. */
    int (*place)(const SnlsPlaces *to, unsigned char *shape, const float *offset, const float *x, const float *weight, ptrdiff_t count,
                 const SnlsSite *site);

    /* A patch against the pixels around neighbours, one pixel of the patch for one of the grid.
     * mix: the patch out += sum over places from i on of the blends around at + shift and on, one a pixel.
     * mix_run: the same for every query of a run.
     * mix_bent: the same of one place, where a patch crosses a border: pixel (r, s) of what it reads is row[r] + column[s].
     * dot_patch: out[4*i .. 4*i+3] = sum over patch pixels of <g, pixel of place i>, one sum for each of the four, 0 for
     *   those not in shape; g of place i is g + k[i]*of_k.
     * spread_patch: the adjoint of mix: the patch g added to the pixels from out on with weights w; of these pixel rows
     *   only first .. end-1, counted from out's. rows and run are 1 or more.
     * spread_places: the same to all rows around places from i on, one place after the other, patch g + k[i]*of_k and weights times factor for place i;
     *   at + shift is written to. Bits are those of spread_patch, wherever that is cut.
     * slopes: from the four sums of places i and on, with weights along the axes, those times what is read there, and their slopes along y
     *   and x; what has no weight does not count, and may be no number. */
    void (*mix)(float *out, const SnlsPatch *patch, const SnlsPlaces *from, ptrdiff_t i, ptrdiff_t count, ptrdiff_t shift, const SnlsGrid *grid);
    void (*mix_run)(float *out, const SnlsPatch *patch, const SnlsRun *run, const SnlsPlaces *from, ptrdiff_t i, ptrdiff_t shift, const SnlsGrid *grid);
    void (*mix_bent)(float *out, const SnlsPatch *patch, const float *const *row, const ptrdiff_t *column, const float w[4], const SnlsGrid *grid);
    void (*dot_patch)(float *out, const SnlsPlaces *from, ptrdiff_t count, ptrdiff_t shift, const float *g, const SnlsPatch *patch, const SnlsGrid *grid);
    void (*spread_patch)(float *out, const float *w, const float *g, const SnlsPatch *patch, ptrdiff_t first, ptrdiff_t end, const SnlsGrid *grid);
    void (*spread_places)(const SnlsPlaces *to, ptrdiff_t i, ptrdiff_t count, float factor, ptrdiff_t shift, const float *g, const SnlsPatch *patch, const SnlsGrid *grid);
    void (*slopes)(float *value, float *by_y, float *by_x, const float *sums, const SnlsPlaces *from, ptrdiff_t i, ptrdiff_t count);

    /* The gradients of a score. For every pixel of the patch e is the read less q, or (prod) the read.
     * to[i] += g*e[i] where `to` is given (it lies as q does); along[0 .. 3], where given, is the sum over all pixels of
     * <e, tap> for the four taps, or (prod) <q, tap>: for that all four must be there, whatever the shape; e itself goes to pair->out.
     * Nothing of it depends on what else is wanted. */
    void (*pull_patch)(float *along, float *to, float g, const SnlsPair *pair, const SnlsPatch *patch, const SnlsGrid *grid);

    /* pull_patch and spread_patch in one, the same bits: what is pulled, d = e or (prod) q, is added with weights w to the pixels from out on, all of them; pair->out is not looked at.
     * 0: there are no loops for such a patch, and nothing was done. */
    int (*draw_patch)(float *along, float *to, float g, const SnlsPair *pair, const SnlsPatch *patch, const SnlsGrid *grid, float *out, const float w[4], const SnlsGrid *out_grid);

    /* The same of single pixels, and what it adds to the key. e is the read less q, or (prod) the read; d is e, or (prod) q.
     * to[i] -= g*e[i], or (prod) += ; along[0 .. 3], where given, are <d, tap>; each tap of out += g*w*d. */
    void (*pull_pixel)(float *along, const SnlsPixel *pixel);

    /* pull_pixel of the first n neighbours of a list, one after the other. */
    void (*pull_list)(const SnlsSettled *list, ptrdiff_t n, const SnlsPulls *in);

    /* The first n neighbours of a list. settle: which window, and where. aim: which pixels and weights; all are places inside their frames by then, of fewer than 2^31 rows and columns. tilt: dL/d place
     * along y and x. */
    void (*settle)(SnlsSettled *list, ptrdiff_t n, const SnlsSettle *in);
    void (*aim)(SnlsSettled *list, ptrdiff_t n, const SnlsAim *in);
    void (*tilt)(SnlsSettled *list, ptrdiff_t n, const SnlsTilt *in);

    /* storage types; to_* round to nearest even, NaN stays NaN, f16 overflow becomes infinity, denormals are kept */
    void (*from_f16)(float *out, const uint16_t *in, ptrdiff_t n);
    void (*from_bf16)(float *out, const uint16_t *in, ptrdiff_t n);
    void (*to_f16)(uint16_t *out, const float *in, ptrdiff_t n);
    void (*to_bf16)(uint16_t *out, const float *in, ptrdiff_t n);
} SnlsDsp;

/* Levels are the values of SnlsCpuLevel: 1 C, 2 AVX2+FMA+F16C or NEON, 3 AVX-512 F+BW+DQ+VL. */
int snls_dsp_level_max(void);               /* what this machine (and its operating system) can run */
void snls_dsp_init(SnlsDsp *dsp, int level); /* level above level_max is lowered to it */

/* One a file. Each overwrites what it has; absent on other architectures. */
void snls_dsp_init_c(SnlsDsp *dsp);
void snls_dsp_init_avx2(SnlsDsp *dsp);
void snls_dsp_init_avx512(SnlsDsp *dsp);
void snls_dsp_init_neon(SnlsDsp *dsp);

#endif
