/* methods.h: the scratch of each method. take() lays it out (job.h says how), run() fills u and v. */
#ifndef SNLS_FLOW_METHODS_H
#define SNLS_FLOW_METHODS_H

#include "flow/job.h"

/* ---- farneback.c ---- */

typedef struct SnlsFarneback {
    SnlsFarnebackParams params;
    int32_t levels;
    SnlsFilter blur;
    SnlsResample resample;
    SnlsPlane level, coarse[2], expansion[5], matrix[5];
    float *pixels;         /* expansion of the second frame, eight floats a pixel */
    float *taps, *window;  /* six filters of 2*poly_n+1 taps; one of winsize */
    float *rows;           /* threads * 10 rows */
    const float **pointer; /* threads * pointers */
    int64_t row_size, pointers;
} SnlsFarneback;

void snls_farneback_take(SnlsFlowJob *job, SnlsFarneback *work, const SnlsFarnebackParams *params, int64_t height,
                         int64_t width);
void snls_farneback_run(const SnlsFlowJob *job, SnlsFarneback *work, const SnlsFlowFrames *frames);

/* ---- tvl1_solve.c: the iterations at one scale, in bands of rows that each thread keeps in its cache ---- */

enum {
    SNLS_TVL1_BATCH = 8,
    SNLS_TVL1_ARRAYS = 10,
    SNLS_TVL1_PAD = 2
}; /* iterations between two exchanges; arrays of a band */

/* Rows first .. end of the frame are the band's own; its arrays hold low .. high, up to SNLS_TVL1_BATCH more each way. */
typedef struct SnlsTvl1Band {
    int64_t first, end, low, high;
    float *array[SNLS_TVL1_ARRAYS]; /* u, v, four duals, gx, gy, rest, inverse */
    float *zero, *row[3];           /* scratch rows */
} SnlsTvl1Band;

typedef struct SnlsTvl1Solver {
    int64_t height, width;
    int bands;
    SnlsTvl1Band *band;
    double *change; /* of each row in the last iteration, squared */
    float *pixels;  /* the second frame and its gradient, four floats a pixel, a border of PAD pixels */
    float *memory;
    int64_t memory_rows; /* of width_max floats, for all bands together */
    float limit, theta, step;
} SnlsTvl1Solver;

typedef struct SnlsTvl1Scale { /* frames of one scale, and the flow that is improved */
    SnlsPlane from, to;
    SnlsPlane u, v;
} SnlsTvl1Scale;

void snls_tvl1_solver_take(SnlsFlowJob *job, SnlsTvl1Solver *solver, int64_t height, int64_t width);
/* At most iterations in every warp, fewer where the mean squared step falls to tolerance. */
void snls_tvl1_solve(const SnlsFlowJob *job, SnlsTvl1Solver *solver, const SnlsTvl1Scale *scale, int32_t warps,
                     int32_t iterations, double tolerance);

/* ---- tvl1.c ---- */

enum { SNLS_TVL1_SCALES = 64 };

typedef struct SnlsTvl1 {
    SnlsTvl1Params params;
    int32_t scales;
    int64_t width[SNLS_TVL1_SCALES], height[SNLS_TVL1_SCALES];
    SnlsPlane frame[SNLS_TVL1_SCALES][2]; /* smoothed; from, to */
    SnlsPlane blurred, coarse;
    SnlsFilter blur;
    SnlsTvl1Solver solver;
    float *place; /* one row, and one for each thread: where a row is read */
} SnlsTvl1;

void snls_tvl1_take(SnlsFlowJob *job, SnlsTvl1 *work, const SnlsTvl1Params *params, int64_t height, int64_t width);
void snls_tvl1_run(const SnlsFlowJob *job, SnlsTvl1 *work, const SnlsFlowFrames *frames);

/* ---- dis.c ---- */

enum { SNLS_DIS_LEVELS = 32, SNLS_DIS_SIDE = 8, SNLS_DIS_PAD = 16, SNLS_DIS_FOUND = 4 };

typedef struct SnlsDisLevel {
    SnlsPlane from, to, gx, gy; /* with SNLS_DIS_PAD pixels around them; data is pixel (0, 0) of the frame */
} SnlsDisLevel;

/* Which blocks are at rest: dis_still.c. */
typedef struct SnlsStill {
    int32_t every;                         /* patches from one block to the next */
    float noise;                           /* variance at the finest level */
    SnlsPlane gain, rest, light, moves[2]; /* of a level's blocks; moves of the one above too */
} SnlsStill;

typedef struct SnlsDis {
    SnlsDisParams params;
    int32_t finest, coarsest;
    SnlsDisLevel level[SNLS_DIS_LEVELS];
    SnlsPlane flow[2][2];            /* dense flow of a level, and of the one above */
    SnlsPlane light;                 /* how much brighter the second frame is where the flow points */
    SnlsPlane patch[SNLS_DIS_FOUND]; /* of each patch: flow, its squared difference there, difference of the means */
    float *rows;                     /* threads * 4 rows: sums of the densification */
    int64_t row_size;
    SnlsResample resample;
    SnlsStill still;
    SnlsTvl1Solver solver;
} SnlsDis;

void snls_dis_take(SnlsFlowJob *job, SnlsDis *work, const SnlsDisParams *params, int64_t height, int64_t width);
void snls_dis_run(const SnlsFlowJob *job, SnlsDis *work, const SnlsFlowFrames *frames);

int64_t snls_dis_patch_at(int64_t i, int64_t length, int32_t stride); /* first pixel of patch i along an axis */
/* Where a patch at (y, x) moved by (u, v) begins in frame to, and the weights of the four pixels around each place. It may
 * leave the frame only as far as the padding goes. */
const float *snls_dis_place(const SnlsPlane *to, int64_t y, int64_t x, float u, float v, float *weight);

/* ---- dis_still.c ---- */

void snls_still_take(SnlsFlowJob *job, SnlsStill *still, int32_t stride, int64_t rows, int64_t columns); /* of patches */
void snls_still_begin(const SnlsFlowJob *job, SnlsDis *work); /* measures the noise, levels being made */
/* Patches of a level, which are searched, go back to rest where noise explains what they found; from coarse to fine. */
void snls_still_hold(const SnlsFlowJob *job, SnlsDis *work, int32_t level, const SnlsPlane *patch);

#endif
