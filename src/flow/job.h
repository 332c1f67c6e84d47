/* job.h: what one call of optical flow works with: row loops, threads, scratch, planes of floats. The methods are in
 * farneback.c, tvl1.c and dis.c; checks and conversion of frames in flow.c. */
#ifndef SNLS_FLOW_JOB_H
#define SNLS_FLOW_JOB_H

#include "base/context.h"
#include "simd/flow.h"
#include <snls/flow.h>
#include <stdbool.h>

#ifdef _OPENMP
#    include <omp.h>
static inline int snls_flow_thread(void) { return omp_get_thread_num(); }
#else
static inline int snls_flow_thread(void) { return 0; }
#endif

typedef struct SnlsPlane {
    float *data;
    int64_t width, height, stride;
} SnlsPlane;

typedef struct SnlsFlowJob {
    SnlsContext *ctx;
    SnlsFlowLoops loops;
    int threads;
    bool claim; /* false: the layout is only planned */
} SnlsFlowJob;

/* Scratch. A method lays out its memory in one function that runs twice: planning (every pointer is NULL), claiming. */
static inline void *snls_flow_take(SnlsFlowJob *job, int64_t count, int64_t size)
{
    if (job->claim) return snls_arena_claim(&job->ctx->arena, count, size);
    snls_arena_plan(&job->ctx->arena, count, size);
    return NULL;
}

static inline float *snls_flow_floats(SnlsFlowJob *job, int64_t rows, int64_t columns)
{
    int64_t count;
    return snls_flow_take(job, snls_mul_size(rows, columns, &count) ? count : INT64_MAX, sizeof(float));
}

static inline SnlsPlane snls_flow_plane(SnlsFlowJob *job, int64_t height, int64_t width)
{
    return (SnlsPlane){ snls_flow_floats(job, height, width), width, height, width };
}

/* The same memory as a smaller plane. */
static inline SnlsPlane snls_plane_as(SnlsPlane plane, int64_t height, int64_t width)
{
    return (SnlsPlane){ plane.data, width, height, width };
}
static inline float *snls_plane_row(const SnlsPlane *plane, int64_t y) { return plane->data + y * plane->stride; }

static inline int64_t snls_clamp_index(int64_t i, int64_t length) { return i < 0 ? 0 : i < length ? i : length - 1; }

/* ---- filters.c ---- */

typedef enum SnlsEdge {
    SNLS_EDGE_CLAMP,  /* aaa|abcd|ddd */
    SNLS_EDGE_MIRROR, /* dcb|abcd|cba */
    SNLS_EDGE_REFLECT /* cba|abcd|dcb */
} SnlsEdge;

/* A symmetric filter of 2*radius+1 taps along both axes, with scratch for each thread. */
typedef struct SnlsFilter {
    float *taps; /* of the first tap: taps[radius] is the middle */
    int64_t radius;
    SnlsEdge edge;
    float *padded;      /* threads * (width + 2*radius) */
    const float **rows; /* threads * (2*radius+1) */
    int64_t padded_size;
} SnlsFilter;

void snls_filter_take(SnlsFlowJob *job, SnlsFilter *filter, int64_t radius_max, int64_t width_max);
void snls_filter_gauss(SnlsFilter *filter, int64_t radius, double sigma); /* normalised */

int64_t snls_edge_index(SnlsEdge edge, int64_t i, int64_t length);
void snls_pad_row(float *row, int64_t width, int64_t radius,
                  SnlsEdge edge); /* row[-radius .. width+radius) from row[0..width) */

/* Row y of the filtered plane, by the scratch of this thread. */
void snls_filter_row(const SnlsFlowJob *job, const SnlsFilter *filter, float *out, const SnlsPlane *in, int64_t y);
void snls_filter_plane(const SnlsFlowJob *job, const SnlsFilter *filter, const SnlsPlane *out, const SnlsPlane *in);

/* Bilinear resampling with pixel centres at halves (as cv::resize), places clamped to the frame. */
typedef struct SnlsResample {
    int32_t *at; /* width of the output */
    float *right;
} SnlsResample;

void snls_resample_take(SnlsFlowJob *job, SnlsResample *resample, int64_t width_max);
void snls_resample_set(SnlsResample *resample, int64_t from, int64_t to);
int64_t snls_resample_at(int64_t from, int64_t to, int64_t i,
                         float *weight); /* one place: its index, and weight of the next */
void snls_resample_plane(const SnlsFlowJob *job, SnlsResample *resample, const SnlsPlane *out, const SnlsPlane *in,
                         float scale);

/* ---- what a method gets; methods.h ---- */

typedef struct SnlsFlowFrames {
    SnlsPlane from, to; /* luma, 0..255; may be changed by the method */
    SnlsPlane u, v;     /* the result */
} SnlsFlowFrames;

#endif
