/* sieve.h: search through the sieve of simd/sieve.h: rough scores for 16 queries at a time, exact ones for
 * what may be among the best. For each slot of a tile of queries:
 *   1. where the windows are, lane by lane (sieve_window.c);
 *   2. boxes of keys that hold them: one if the flow is smooth, up to one a lane if not (sieve_window.c);
 *   3. rough scores of the cells of a box, and the least of each row (simd/sieve_scan_avx512.h, simd/sieve_prod_bf16.c);
 * then a bar that the k-th best cannot exceed, whatever the rough scores' error, and f32 scores of all below it (sieve_pick.c).
 * So the result is that of f32 scores of all candidates. sieve_key.c keeps the frames in bf16 parts, or as bytes. */
#ifndef SNLS_CPU_SIEVE_H
#define SNLS_CPU_SIEVE_H

#include "cpu/match.h"
#include "simd/sieve.h"

/* A group of two tiles is 4 x 8 queries: tiles of 4 x 4 side by side, or of 2 x 8 above each other (set_shape in sieve.c). */
enum { SIEVE_LANES = SNLS_SIEVE_LANES, SIEVE_DOWN = 4, SIEVE_ACROSS = 8, SIEVE_GROUP = 2, SIEVE_BATCH = 16, SIEVE_ENTRIES = 8192 };

/* Key frames in bf16 parts, a ring: pixel (y, x) of the frame at place p of the ring is at data + ((p*rows + y)*width + x)*parts*padded. One row
 * and some columns of zeros follow the frame. For l2 a score is |k|^2 - 2<q, k>: `add` holds |k|^2, and three planes the corrections between pixels. */
typedef struct CpuSieveKeys {
    uint16_t *data;
    float    *add, *bend[3];     /* (windows, height + 1, width), l2 only */
    float    *peak, *lost;       /* (windows, blocks, height + 1): largest |k|^2 of those pixels of a row that a box may reach into which begins in a block of 16 columns; likewise of what
                                  * one part or bytes lose, NULL with two parts */
    float    *centre;            /* features, then its length, then what pixels are multiplied with: taken off keys, which leaves l2 as it is if it is taken off queries too, and changes all products of a query
                                  * alike. It makes rounding smaller. */
    int64_t  *frame;             /* which frame each place of the ring holds, -1 = none */
    int64_t   padded, pixel, width, rows, ring, blocks; /* pixel: numbers of one */
    int       parts;
} CpuSieveKeys;

typedef struct CpuSieveSlot {
    int64_t  frame;
    uint32_t valid; /* lanes with candidates */
} CpuSieveSlot;

struct CpuSieveScratch;

/* A box whose turn comes: a tile's lanes in a slot. */
typedef struct CpuSieveJob {
    struct CpuSieveScratch *s;
    SnlsSieveMake make;
    int64_t  slot, box, used; /* its number in the tile, and that of its first row of least */
    uint32_t lanes;
    int32_t  y, x;
    int      rows, columns;
    float    key_norm;
} CpuSieveJob;

enum { SIEVE_JOBS = 64 };

typedef struct CpuSieveJobs {
    CpuSieveJob job[SIEVE_JOBS];
    int    count;
    float *product[2];          /* (rows_max, columns_max, lanes) each */
} CpuSieveJobs;

typedef struct CpuSieve {
    const CpuMatch *c;
    SnlsSieve s;
    CpuSieveKeys keys;
    int32_t steps;                        /* candidates of a pixel's length: 1/stride1 */
    int64_t down, across;                 /* queries of a tile along both axes */
    int64_t rows_max, columns_max;        /* key rows and columns of a box; columns in whole runs of 16 */
    int32_t cells_max;                    /* what `fit` is told, which keeps a column for interpolation: one more than columns_max where no candidate is between pixels */
    int64_t rows_alike;                   /* rows of a group where all lanes look alike */
    int64_t together;                     /* frames of queries that are searched together, since they share keys */
    int64_t room, boxes;                  /* rows of cells and boxes that a thread can hold */
    int     bits;                         /* of a column's number */
    bool    awake;                        /* the matrix unit is kept awake between boxes. Not for long lists: there is much to do between boxes, and as long as it is awake multiply-adds have half their rate */
    bool    rounded;                      /* distances are those of one part, not of products of parts: better for candidates at pixels that are much alike */
    float  *norms;                        /* of each thread, see sieve_key.c */
    int64_t *taken;                       /* of each thread's share of a frame: units that are done or being done */
    ptrdiff_t flow_at[SIEVE_LANES], dist_at[SIEVE_LANES], offset_at[SIEVE_LANES], index_at[SIEVE_LANES]; /* from lane 0 of a tile to each lane */
    int64_t pixel_at[SIEVE_LANES];
    double  lane_y[SIEVE_LANES], lane_x[SIEVE_LANES]; /* of the grid: from lane 0 */
} CpuSieve;

/* What a thread holds for a tile. It works on the tiles of a group slot by slot, since they share most keys. */
typedef struct CpuSieveScratch {
    CpuMatchScratch *single;   /* for queries that do not fit the sieve */
    uint16_t *query;           /* (2, chunks, 16, 32) */
    float    *least[3];        /* (room, lanes) */
    float    *top;             /* (k, lanes): least rough scores */
    float    *best;            /* (k, lanes): exact ones, and where they are */
    uint32_t *place;
    uint32_t *entry[2];        /* cells with candidates at pixels, and between them */
    CpuSieveSlot *slot;        /* windows */
    SnlsSieveLanes *axis_y, *axis_x; /* of each slot */
    SnlsSieveRows *rows;       /* of each box */
    uint8_t  *between;         /* of each box: its candidates lie between pixels */
    SnlsSieveTable table;      /* of all boxes */
    double   *centre_y, *centre_x; /* (windows, lanes) */
    int32_t  *origin_y, *origin_x;
    float    *dt;              /* windows */
    float    score[SIEVE_BATCH][SIEVE_LANES]; /* exact scores waiting to enter the lists */
    uint32_t score_place[SIEVE_BATCH][SIEVE_LANES];
    int      waiting[SIEVE_LANES];
    int64_t  used, boxes;      /* rows in least; boxes */
    bool     alone;            /* some number is too large, or none, for rough scores: queries are searched one by one */
    double   y[SIEVE_LANES], x[SIEVE_LANES];
    const float *pixel[SIEVE_LANES];
    float    norm[SIEVE_LANES];/* |q|^2 */
    float    lack[SIEVE_LANES];/* what rough scores of all candidates lack */
    bool     bearable;         /* all of them are numbers, and not too large */
    float    lost[SIEVE_LANES];/* |q - what was made of it|^2, one part or bytes */
    float    key_norm, key_lost; /* largest |k|^2 of the boxes, and of what is lost of it */
    int64_t  hits;             /* entries of all tiles so far */
    int32_t  flow_at[SIEVE_LANES]; /* as in CpuSieve; lanes that do not exist look at lane 0 */
} CpuSieveScratch;

/* A tile: queries of the grid from i0, j0 on, 1 << across_bits of them across, as far as they exist (active). */
typedef struct CpuSieveTile {
    int64_t b, head, t, i0, j0;
    int across_bits;
    uint32_t active;
} CpuSieveTile;

static inline SnlsQuery snls_sieve_query(const CpuSieveTile *p, int64_t l)
{
    return (SnlsQuery){.b = p->b, .head = p->head, .t = p->t, .i = p->i0 + (l >> p->across_bits), .j = p->j0 + (l & ((1 << p->across_bits) - 1))};
}

/* The larger of two, NaN if one is. */
static inline float snls_sieve_larger(float a, float b) { return a > b || a != a ? a : b; }

/* What pixels are multiplied with before they are rounded: rough scores, lengths and bars are of such pixels, exact scores of pixels as they are. */
static inline float snls_sieve_scale(const CpuSieve *v) { return v->keys.centre[v->c->m.features + 1]; }

static inline SnlsSieveParts snls_sieve_parts(const CpuSieve *v, bool centred, float *lost)
{
    return (SnlsSieveParts){v->c->m.features, v->keys.padded, v->keys.parts, v->rounded, snls_sieve_scale(v), centred ? v->keys.centre : NULL, v->awake, lost};
}

static inline void snls_sieve_keep_awake(const CpuSieve *v)
{
    if (v->awake) v->s.awake();
}

/* sieve_key.c */
void snls_sieve_keys_layout(CpuSieve *v);
int64_t snls_sieve_keys_noted(const CpuSieve *v); /* floats of a thread's `norms` */
void snls_sieve_keys_begin(const CpuSieve *v, int64_t b, int64_t head); /* a new video: the ring is empty, the centre is set */
void snls_sieve_keys_load(SnlsContext *ctx, const CpuSieve *v, int64_t b, int64_t head, int64_t frame);

/* sieve_guess.c: whether fewer candidates of a query than `enough` would be scored exactly if keys were bytes; the centre is set */
bool snls_sieve_promising(const CpuSieve *v, int64_t enough);

/* sieve_window.c: the windows of a slot */
void snls_sieve_slot(const CpuSieve *v, const CpuSieveTile *p, int64_t slot, CpuSieveScratch *s);
/* Boxes of some lanes of a slot into the list of jobs; the lanes there was no room for. Then all jobs, done. */
uint32_t snls_sieve_plan_slot(const CpuSieve *v, const CpuSieveTile *p, int64_t slot, uint32_t lanes, CpuSieveJobs *jobs, CpuSieveScratch *s);
void snls_sieve_run_jobs(const CpuSieve *v, CpuSieveJobs *jobs);

/* sieve_pick.c: from what the boxes hold into the lists; the boxes are empty afterwards */
void snls_sieve_begin_lists(const CpuSieve *v, CpuSieveScratch *s);
void snls_sieve_pick(const CpuSieve *v, CpuSieveScratch *s);

#endif
