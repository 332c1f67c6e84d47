/* match.h: search, search_all and refine of the cpu backend. match.c walks the queries and keeps the best, match_score.c
 * scores the candidates of a window, match_grad.c has the gradients. */
#ifndef SNLS_CPU_MATCH_H
#define SNLS_CPU_MATCH_H

#include "cpu/best.h"
#include "cpu/taps.h"
#include "cpu/video.h"
#include "op/match.h"
#include "simd/list.h"

typedef struct CpuMatch {
    SnlsMatch m;
    CpuVideo query, key;
    const SnlsDsp *dsp;
    int64_t k; /* length of a sorted list: k, or all candidates of a group where those are fewer; tiles: one more where the query itself is to be left out */
    bool whole_flow; /* known to point at pixels, not between them */
    bool even_flow;  /* known to be the same for all queries of a frame and slot, and whole; or there is none */
} CpuMatch;

/* What one thread needs for one query at a time. */
typedef struct CpuMatchScratch {
    uint64_t *best;            /* k keys */
    uint64_t *anchor;          /* a key per window */
    SnlsMatchWindow *window;   /* of this query */
    float *patch;              /* the query's patch, (ps*ps, F); ps 1 points into the video instead */
    const float **pixel;       /* ps*ps: its pixels, NULL where border drop leaves one out */
    bool holes;                /* it does */
    float *score;              /* rows of a window */
    float *part;               /* of those that are worked out together */
    const float **place;       /* where they are */
    int32_t *close;            /* cells that may be among the best */
} CpuMatchScratch;

/* Rows of a window that are scored at once: mostly all, but windows may be as large as frames. */
static inline int64_t snls_cpu_rows(const SnlsMatch *m)
{
    const int64_t rows = 8192 / m->side;
    return rows < 1 ? 1 : rows < m->side ? rows : m->side;
}

/* Room in `place`: those rows, or a row of whole pixels around a window. */
static inline int64_t snls_cpu_places(const SnlsMatch *m) { return (snls_cpu_rows(m) + 2) * m->side; }

/* The query's pixels into scratch->pixel. */
void snls_cpu_load_patch(const CpuMatch *c, const SnlsQuery *q, CpuMatchScratch *scratch);

/* Rows and columns of a window that are inside the frame. */
typedef struct CpuCells { int64_t row, row_end, column, column_end; } CpuCells;

CpuCells snls_cpu_cells(const SnlsMatch *m, const SnlsMatchWindow *w, int64_t window); /* none where the window does not count */

static inline bool snls_cpu_is_cell(const CpuCells *cells, int64_t cell, int64_t side)
{
    const int64_t row = cell / side, column = cell % side;
    return cell >= 0 && row >= cells->row && row < cells->row_end && column >= cells->column && column < cells->column_end;
}

/* Scores of these cells of a window, snls_cpu_rows at most, into scratch->score[(row - cells->row)*side + column]. */
void snls_cpu_score_window(const CpuMatch *c, const SnlsQuery *q, const SnlsMatchWindow *w, const CpuCells *cells, const CpuMatchScratch *scratch);

/* Scores at whole pixels x, x+step, ... of row y, n of them; any place, as border says. */
void snls_cpu_score_whole(const CpuMatch *c, const SnlsQuery *q, int64_t frame, int64_t y, int64_t x, int64_t step, int64_t n, const CpuMatchScratch *scratch,
                          float *out);

/* Score of one candidate anywhere, pixels interpolated. */
float snls_cpu_score_at(const CpuMatch *c, const SnlsQuery *q, int64_t frame, double y, double x, const CpuMatchScratch *scratch);

/* What interpolated l2 takes off: |k - right|^2, |k - lower|^2, |k - right - lower + both|^2 at (y, x) of the mirrored frame. */
void snls_cpu_bends(const CpuMatch *c, int64_t b, int64_t head, int64_t frame, int64_t y, int64_t x, float out[3]);

/* match_anchor.c: the outputs of a search without anchors become those of one with them. */
void snls_cpu_match_anchor(SnlsContext *ctx, const CpuMatch *c, CpuMatchScratch *scratch);

SnlsStatus snls_cpu_match_forward(SnlsContext *ctx, const SnlsMatch *m);
SnlsStatus snls_cpu_match_backward(SnlsContext *ctx, const SnlsMatch *m, const SnlsMatchGrad *g);

/* Query n of so many that are looked at before a search begins, of the first video and head: spread over frames, rows and columns. */
static inline SnlsQuery snls_cpu_sample(const SnlsMatch *m, int64_t n, int64_t count)
{
    return (SnlsQuery){.t = n % m->frames, .i = (2 * n + 1) * m->rows / (2 * count), .j = (n * 5 % count * 2 + 1) * m->columns / (2 * count)};
}

/* match_flow.c: sets whole_flow and even_flow */
void snls_cpu_look_at_flow(SnlsContext *ctx, CpuMatch *c);

/* The fast way, where it applies: many neighbouring queries at once (tile.c). Plan, then claim, then run. */
bool snls_cpu_tile_applies(const SnlsMatch *m);
bool snls_cpu_tile_instead(const CpuMatch *c); /* of the sieve with two parts, see below */
void snls_cpu_tile_plan(SnlsContext *ctx, const CpuMatch *c);
void snls_cpu_tile_run(SnlsContext *ctx, const CpuMatch *c, CpuMatchScratch *scratch);

/* The fastest way, on machines with products of bf16 matrices or of bytes (sieve.c), unless too many candidates are too much alike. Keys are held in one part or two: with one, `run` may
 * stop because there are too many; it goes on from frame `begun`, in memory planned for the parts wanted then. */
typedef struct CpuSieveWay {
    int     parts;
    bool    settled; /* whatever comes */
    bool    many;    /* why it stopped */
    int64_t begun;   /* frames of all videos and heads that are done */
} CpuSieveWay;

bool snls_cpu_sieve_applies(SnlsContext *ctx, const SnlsMatch *m);
bool snls_cpu_sieve_has_parts(SnlsContext *ctx); /* whether keys can be held in two: bytes cannot, and f16 numbers give way to bf16 ones */
void snls_cpu_sieve_plan(SnlsContext *ctx, const CpuMatch *c, const CpuSieveWay *way);
void snls_cpu_sieve_run(SnlsContext *ctx, const CpuMatch *c, CpuMatchScratch *scratch, CpuSieveWay *way);

/* Windows of many queries at once. */
static inline SnlsLaneWindows snls_cpu_lane_windows(const SnlsMatch *m)
{
    return (SnlsLaneWindows){.step = m->stride1, .origin = (double)((m->side - 1) / 2), .span = (double)(m->side - 1), .end_y = (double)(m->height - 1),
                             .end_x = (double)(m->width - 1), .slide = m->slide, .nearest = m->nearest};
}

/* Where the neighbours of many queries go, from place `kept` of query q, lane 0, on; what depends on lanes is left to set. */
SnlsListOutput snls_cpu_list_output(const SnlsMatch *m, const SnlsQuery *q, int64_t kept);

/* One query from beginning to end. */
void snls_cpu_match_query(const CpuMatch *c, const SnlsQuery *q, CpuMatchScratch *scratch);

#endif
