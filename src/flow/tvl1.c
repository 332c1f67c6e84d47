/* tvl1.c: the scales of TV-L1 (C. Zach, T. Pock, H. Bischof, 2007) with the choices of J. Sanchez Perez, E. Meinhardt-Llopis
 * and G. Facciolo (Image Processing On Line, 2013): frames normalised together to 0..255, a smoothing,
 * a Gaussian pyramid read bicubically, duals from zero at every scale. */
#include "flow/methods.h"
#include <float.h>
#include <math.h>

#define SCALE_SIGMA 0.6  /* of a scale beside its pixels */
#define WINDOW      5    /* a Gaussian is cut here, in sigmas */
#define SMALLEST    16.0 /* diagonal of the coarsest scale, pixels */

static double scale_sigma(const SnlsTvl1Params *p) { return SCALE_SIGMA * sqrt(1 / (p->zfactor * p->zfactor) - 1); }
static int64_t gauss_radius(double sigma) { return (int64_t)(WINDOW * sigma); }

static int32_t count_scales(const SnlsTvl1Params *p, int64_t height, int64_t width)
{
    const double most = 1 + log(hypot((double)width, (double)height) / SMALLEST) / log(1 / p->zfactor);
    const int32_t n = most < 1 ? 1 : most < SNLS_TVL1_SCALES ? (int32_t)most : SNLS_TVL1_SCALES;
    return n < p->nscales ? n : p->nscales;
}

void snls_tvl1_take(SnlsFlowJob *job, SnlsTvl1 *t, const SnlsTvl1Params *params, int64_t height, int64_t width)
{
    t->params = *params;
    t->scales = count_scales(params, height, width);
    if (t->params.finest > t->scales - 1) t->params.finest = t->scales - 1;
    const int64_t r0 = gauss_radius(params->smoothing), r1 = gauss_radius(scale_sigma(params));
    snls_filter_take(job, &t->blur, r0 > r1 ? r0 : r1, width);
    for (int32_t s = 0; s < t->scales; s++) {
        t->height[s] = s ? (int64_t)((double)t->height[s - 1] * params->zfactor + 0.5) : height;
        t->width[s] = s ? (int64_t)((double)t->width[s - 1] * params->zfactor + 0.5) : width;
        if (t->height[s] < 1) t->height[s] = 1;
        if (t->width[s] < 1) t->width[s] = 1;
        for (int i = 0; i < 2; i++) t->frame[s][i] = snls_flow_plane(job, t->height[s], t->width[s]);
    }
    t->blurred = snls_flow_plane(job, height, width);
    t->coarse = snls_flow_plane(job, height, width);
    t->place = snls_flow_floats(job, 1 + job->threads, width);
    snls_tvl1_solver_take(job, &t->solver, t->height[t->params.finest], t->width[t->params.finest]);
}

/* Both frames by one map to 0..255. */
static void normalise(const SnlsFlowFrames *frames)
{
    const SnlsPlane *const planes[2] = { &frames->from, &frames->to };
    const int64_t n = frames->from.height * frames->from.width;
    float low = frames->from.data[0], high = low;
    for (int p = 0; p < 2; p++)
        for (int64_t i = 0; i < n; i++) {
            const float x = planes[p]->data[i];
            low = x < low ? x : low;
            high = x > high ? x : high;
        }
    const float scale = 255 / (high - low);
    if (!(scale <= FLT_MAX)) return; /* flat, or all but: what differs by less than 1e-36 has no map to 0..255, and is the same beside any other number */
    for (int p = 0; p < 2; p++)
        for (int64_t i = 0; i < n; i++) planes[p]->data[i] = scale * (planes[p]->data[i] - low);
}

/* out = in at another size, pixel (0,0) on pixel (0,0), steps of step pixels; bicubic. */
static void zoom(const SnlsFlowJob *job, SnlsTvl1 *t, const SnlsPlane *out, const SnlsPlane *in, double step_y,
                 double step_x, float scale)
{
    const SnlsFlowImage image = { in->data, in->width, in->height, in->stride, out->width };
    for (int64_t x = 0; x < out->width; x++) t->place[x] = (float)((double)x * step_x - (double)x);
#pragma omp parallel for num_threads(job->threads) schedule(static)
    for (int64_t y = 0; y < out->height; y++) {
        float *down = t->place + (1 + snls_flow_thread()) * t->width[0], *row = snls_plane_row(out, y);
        for (int64_t x = 0; x < out->width; x++) down[x] = (float)((double)y * step_y - (double)y);
        job->loops.bicubic(row, &image, t->place, down, 1, y);
        for (int64_t x = 0; x < out->width; x++) row[x] *= scale;
    }
}

static void make_scales(const SnlsFlowJob *job, SnlsTvl1 *t, const SnlsFlowFrames *frames)
{
    t->blur.edge = SNLS_EDGE_REFLECT;
    snls_filter_gauss(&t->blur, gauss_radius(t->params.smoothing), fmax(t->params.smoothing, 1e-3));
    snls_filter_plane(job, &t->blur, &t->frame[0][0], &frames->from);
    snls_filter_plane(job, &t->blur, &t->frame[0][1], &frames->to);
    snls_filter_gauss(&t->blur, gauss_radius(scale_sigma(&t->params)), scale_sigma(&t->params));
    const double step = 1 / t->params.zfactor;
    for (int32_t s = 1; s < t->scales; s++)
        for (int i = 0; i < 2; i++) {
            const SnlsPlane blurred = snls_plane_as(t->blurred, t->height[s - 1], t->width[s - 1]);
            snls_filter_plane(job, &t->blur, &blurred, &t->frame[s - 1][i]);
            zoom(job, t, &t->frame[s][i], &blurred, step, step, 1);
        }
}

/* The flow of scale s in place of that of a coarser one. */
static void enlarge(const SnlsFlowJob *job, SnlsTvl1 *t, const SnlsPlane *plane, int32_t from, int32_t to, double scale)
{
    const SnlsPlane in = snls_plane_as(t->coarse, t->height[from], t->width[from]),
                    out = snls_plane_as(*plane, t->height[to], t->width[to]);
    const int64_t n = in.height * in.width;
    for (int64_t i = 0; i < n; i++) in.data[i] = plane->data[i];
    zoom(job, t, &out, &in, (double)in.height / (double)out.height, (double)in.width / (double)out.width, (float)scale);
}

static SnlsTvl1Scale scale_of(const SnlsTvl1 *t, const SnlsFlowFrames *frames, int32_t s)
{
    const int64_t h = t->height[s], w = t->width[s];
    return (SnlsTvl1Scale){ t->frame[s][0], t->frame[s][1], snls_plane_as(frames->u, h, w),
                            snls_plane_as(frames->v, h, w) };
}

void snls_tvl1_run(const SnlsFlowJob *job, SnlsTvl1 *t, const SnlsFlowFrames *frames)
{
    const SnlsTvl1Params *p = &t->params;
    t->solver.limit = (float)(p->lambda * p->theta);
    t->solver.theta = (float)p->theta;
    t->solver.step = (float)(p->tau / p->theta);
    normalise(frames);
    make_scales(job, t, frames);
    const int32_t top = t->scales - 1;
    for (int64_t i = 0; i < t->height[top] * t->width[top]; i++) frames->u.data[i] = frames->v.data[i] = 0;
    for (int32_t s = top; s >= p->finest; s--) {
        const SnlsTvl1Scale scale = scale_of(t, frames, s);
        if (s < top) enlarge(job, t, &frames->u, s + 1, s, 1 / p->zfactor);
        if (s < top) enlarge(job, t, &frames->v, s + 1, s, 1 / p->zfactor);
        snls_tvl1_solve(job, &t->solver, &scale, p->warps, p->max_iterations, p->epsilon * p->epsilon);
    }
    if (p->finest > 0) enlarge(job, t, &frames->u, p->finest, 0, pow(1 / p->zfactor, p->finest));
    if (p->finest > 0) enlarge(job, t, &frames->v, p->finest, 0, pow(1 / p->zfactor, p->finest));
}
