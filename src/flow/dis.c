/* dis.c: dense inverse search (T. Kroeger, R. Timofte, D. Dai, L. Van Gool, ECCV 2016): from coarse to fine, 8x8 patches
 * descend to where they fit the other frame, and every pixel takes the mean of the patches over it, weighed by their fit.
 * In place of the paper's variational refinement the finest level gets a short TV-L1. */
#include "flow/methods.h"
#include <math.h>
#include <string.h>

enum { SIDE = SNLS_DIS_SIDE, PAD = SNLS_DIS_PAD, AREA = SIDE * SIDE };

static SnlsPlane padded_plane(SnlsFlowJob *job, int64_t height, int64_t width)
{
    const int64_t stride = width + 2 * PAD;
    SnlsPlane p = { snls_flow_floats(job, height + 2 * PAD, stride), width, height, stride };
    if (p.data) p.data += PAD * stride + PAD;
    return p;
}

static int64_t patches(int64_t length, int32_t stride)
{
    return length > SIDE ? (length - SIDE + stride - 1) / stride + 1 : 1;
}
static int64_t patch_at(int64_t i, int64_t length, int32_t stride)
{
    const int64_t last = length > SIDE ? length - SIDE : 0;
    return i * stride < last ? i * stride : last;
}

/* A coarsest level is about four patches wide and one high, as in OpenCV. */
static int32_t coarsest_level(int64_t height, int64_t width)
{
    const double large = (double)(width > height ? width : height), small = (double)(width > height ? height : width);
    const double a = log2(large / (4.0 * SIDE)) + 0.5, b = log2(small / SIDE);
    const double level = a < b ? a : b;
    return level < 0 ? 0 : level < SNLS_DIS_LEVELS - 1 ? (int32_t)level : SNLS_DIS_LEVELS - 1;
}

void snls_dis_take(SnlsFlowJob *job, SnlsDis *d, const SnlsDisParams *params, int64_t height, int64_t width)
{
    d->params = *params;
    d->coarsest = coarsest_level(height, width);
    d->finest = params->finest < d->coarsest ? params->finest : d->coarsest;
    int64_t h = height, w = width, fine_h = height, fine_w = width;
    for (int32_t l = 0; l <= d->coarsest; l++, h = (h + 1) / 2, w = (w + 1) / 2) {
        SnlsPlane *const planes[4] = { &d->level[l].from, &d->level[l].to, &d->level[l].gx, &d->level[l].gy };
        if (l == d->finest) fine_h = h, fine_w = w;
        for (int i = 0; i < 4; i++) *planes[i] = l < d->finest && i > 1 ? (SnlsPlane){ 0 } : padded_plane(job, h, w);
    }
    for (int i = 0; i < 4; i++) d->flow[i / 2][i % 2] = snls_flow_plane(job, fine_h, fine_w);
    for (int i = 0; i < 2; i++)
        d->patch[i] = snls_flow_plane(job, patches(fine_h, params->stride), patches(fine_w, params->stride));
    d->row_size = fine_w + SIDE;
    d->rows = snls_flow_floats(job, 3 * job->threads, d->row_size);
    snls_resample_take(job, &d->resample, width);
    snls_tvl1_solver_take(job, &d->solver, fine_h, fine_w);
}

/* Repeats the border outwards. */
static void pad_plane(const SnlsPlane *p)
{
    for (int64_t y = 0; y < p->height; y++) snls_pad_row(snls_plane_row(p, y), p->width, PAD, SNLS_EDGE_CLAMP);
    const float *first = p->data - PAD, *last = first + (p->height - 1) * p->stride;
    for (int64_t i = 1; i <= PAD; i++) {
        memcpy(p->data - PAD - i * p->stride, first, (size_t)p->stride * sizeof(float));
        memcpy(p->data - PAD + (p->height - 1 + i) * p->stride, last, (size_t)p->stride * sizeof(float));
    }
}

/* A level from the one below it, which is padded: means of two by two. */
static void halve(const SnlsFlowJob *job, const SnlsPlane *out, const SnlsPlane *in)
{
#pragma omp parallel for num_threads(job->threads) schedule(static)
    for (int64_t y = 0; y < out->height; y++) {
        const float *a = snls_plane_row(in, 2 * y), *b = a + in->stride;
        float *row = snls_plane_row(out, y);
        for (int64_t x = 0; x < out->width; x++) row[x] = 0.25f * (a[2 * x] + a[2 * x + 1] + b[2 * x] + b[2 * x + 1]);
    }
    pad_plane(out);
}

static void make_levels(const SnlsFlowJob *job, SnlsDis *d, const SnlsFlowFrames *frames)
{
    for (int i = 0; i < 2; i++) {
        const SnlsPlane *in = i ? &frames->to : &frames->from, *out = i ? &d->level[0].to : &d->level[0].from;
#pragma omp parallel for num_threads(job->threads) schedule(static)
        for (int64_t y = 0; y < in->height; y++)
            for (int64_t x = 0; x < in->width; x++) snls_plane_row(out, y)[x] = snls_plane_row(in, y)[x];
        pad_plane(out);
    }
    for (int32_t l = 1; l <= d->coarsest; l++) {
        halve(job, &d->level[l].from, &d->level[l - 1].from);
        halve(job, &d->level[l].to, &d->level[l - 1].to);
    }
    for (int32_t l = d->finest; l <= d->coarsest; l++) {
        const SnlsDisLevel *e = &d->level[l];
#pragma omp parallel for num_threads(job->threads) schedule(static)
        for (int64_t y = 0; y < e->from.height; y++) {
            const float *row = snls_plane_row(&e->from, y);
            job->loops.gradient(snls_plane_row(&e->gx, y), snls_plane_row(&e->gy, y), row - e->from.stride, row,
                                row + e->from.stride, e->from.width);
        }
        pad_plane(&e->gx);
        pad_plane(&e->gy);
    }
}

/* ---- one patch ---- */

typedef struct Patch {
    float shape[AREA], gx[AREA], gy[AREA]; /* of frame from */
    float sum_x, sum_y;                    /* of the gradients */
    float xx, xy, yy;                      /* inverse of the Hessian, brightness free */
    int64_t y, x;                          /* its first pixel */
} Patch;

static void patch_begin(Patch *p, const SnlsDisLevel *e, int64_t y, int64_t x)
{
    double sx = 0, sy = 0, xx = 0, xy = 0, yy = 0;
    p->y = y;
    p->x = x;
    for (int r = 0; r < SIDE; r++)
        for (int c = 0; c < SIDE; c++) {
            const int64_t at = (y + r) * e->from.stride + x + c;
            const float gx = e->gx.data[at], gy = e->gy.data[at];
            p->shape[r * SIDE + c] = e->from.data[at];
            p->gx[r * SIDE + c] = gx;
            p->gy[r * SIDE + c] = gy;
            sx += gx;
            sy += gy;
            xx += gx * gx;
            xy += gx * gy;
            yy += gy * gy;
        }
    xx = xx - sx * sx / AREA + 1e-3; /* so that a flat patch stays where it is */
    yy = yy - sy * sy / AREA + 1e-3;
    xy = xy - sx * sy / AREA;
    const double det = xx * yy - xy * xy;
    p->sum_x = (float)(sx / AREA);
    p->sum_y = (float)(sy / AREA);
    p->xx = (float)(yy / det);
    p->yy = (float)(xx / det);
    p->xy = (float)(-xy / det);
}

/* Where a patch at (y, x) moved by (u, v) begins in frame to, and the weights of the four pixels around each place. It may
 * leave the frame only as far as the padding goes. */
static const float *patch_place(const SnlsPlane *to, int64_t y, int64_t x, float u, float v, float *weight)
{
    const float low = -(PAD - 2), high_x = (float)(to->width + PAD - SIDE - 2),
                high_y = (float)(to->height + PAD - SIDE - 2);
    float px = (float)x + u, py = (float)y + v;
    px = px > low ? px : low;
    py = py > low ? py : low;
    px = px < high_x ? px : high_x;
    py = py < high_y ? py : high_y;
    const float ix = floorf(px), iy = floorf(py), fx = px - ix, fy = py - iy;
    weight[0] = (1 - fx) * (1 - fy);
    weight[1] = fx * (1 - fy);
    weight[2] = (1 - fx) * fy;
    weight[3] = fx * fy;
    return to->data + (int64_t)iy * to->stride + (int64_t)ix;
}

/* Squared difference of the patch at (u, v), means taken off; step: the descent from there. */
static float patch_try(const SnlsFlowJob *job, const Patch *p, const SnlsPlane *to, float u, float v, float *step)
{
    float weight[4], sums[4];
    const float *image = patch_place(to, p->y, p->x, u, v, weight);
    job->loops.patch(sums, image, to->stride, weight, p->shape, p->gx, p->gy);
    const float bx = sums[0] - p->sum_x * sums[2], by = sums[1] - p->sum_y * sums[2];
    step[0] = p->xx * bx + p->xy * by;
    step[1] = p->xy * bx + p->yy * by;
    return sums[3] - sums[2] * sums[2] / AREA;
}

/* Goes down from (u, v) while it gets better, and not further than a patch from where it began. */
static void patch_descend(const SnlsFlowJob *job, const SnlsDis *d, const Patch *p, const SnlsPlane *to, float *u,
                          float *v)
{
    float step[2], best = patch_try(job, p, to, *u, *v, step), pu = *u, pv = *v;
    const float u0 = *u, v0 = *v;
    for (int32_t i = 0; i < d->params.steps; i++) {
        pu -= step[0];
        pv -= step[1];
        if (!(fabsf(pu - u0) < SIDE && fabsf(pv - v0) < SIDE)) break;
        const float length = step[0] * step[0] + step[1] * step[1], now = patch_try(job, p, to, pu, pv, step);
        if (!(now < best)) break;
        best = now;
        *u = pu;
        *v = pv;
        if (length < 1e-4f) break;
    }
}

/* The flow a patch begins with: the coarser level's at its middle, or half a dozen pixels around it, whichever fits best. */
static void patch_choose(const SnlsFlowJob *job, const Patch *p, const SnlsPlane *to, const SnlsPlane *flow, float *u,
                         float *v)
{
    static const int around[5][2] = { { 0, 0 }, { -SIDE, 0 }, { SIDE, 0 }, { 0, -SIDE }, { 0, SIDE } };
    float best = INFINITY, step[2];
    for (int i = 0; i < 5; i++) {
        const int64_t y = snls_clamp_index(p->y + SIDE / 2 + around[i][0], flow->height),
                      x = snls_clamp_index(p->x + SIDE / 2 + around[i][1], flow->width);
        const float tu = flow[0].data[y * flow->stride + x], tv = flow[1].data[y * flow->stride + x];
        if (i && tu == *u && tv == *v) continue;
        const float now = patch_try(job, p, to, tu, tv, step);
        if (i && !(now < best)) continue;
        best = now;
        *u = tu;
        *v = tv;
    }
}

/* flow: two planes, of the coarser level brought to this one's size. */
static void search_patches(const SnlsFlowJob *job, const SnlsDis *d, const SnlsDisLevel *e, const SnlsPlane *flow,
                           const SnlsPlane *patch)
{
#pragma omp parallel for num_threads(job->threads) schedule(dynamic, 1)
    for (int64_t i = 0; i < patch->height; i++)
        for (int64_t j = 0; j < patch->width; j++) {
            Patch p;
            float u = 0, v = 0;
            patch_begin(&p, e, patch_at(i, e->from.height, d->params.stride),
                        patch_at(j, e->from.width, d->params.stride));
            patch_choose(job, &p, &e->to, flow, &u, &v);
            patch_descend(job, d, &p, &e->to, &u, &v);
            patch[0].data[i * patch->stride + j] = u;
            patch[1].data[i * patch->stride + j] = v;
        }
}

/* ---- every pixel from the patches over it ---- */

static void spread_row(const SnlsFlowJob *job, const SnlsDis *d, const SnlsDisLevel *e, const SnlsPlane *patch,
                       int64_t i, int64_t y, float *rows)
{
    const int64_t top = patch_at(i, e->from.height, d->params.stride);
    for (int64_t j = 0; j < patch->width; j++) {
        const int64_t x = patch_at(j, e->from.width, d->params.stride);
        const float u = patch[0].data[i * patch->stride + j], v = patch[1].data[i * patch->stride + j];
        float weight[4];
        const float *image = patch_place(&e->to, top, x, u, v, weight) + (y - top) * e->to.stride;
        job->loops.spread(rows + x, rows + d->row_size + x, rows + 2 * d->row_size + x, snls_plane_row(&e->from, y) + x,
                          image, e->to.stride, weight, u, v);
    }
}

static void densify(const SnlsFlowJob *job, const SnlsDis *d, const SnlsDisLevel *e, const SnlsPlane *patch,
                    const SnlsPlane *flow)
{
#pragma omp parallel for num_threads(job->threads) schedule(static)
    for (int64_t y = 0; y < flow->height; y++) {
        float *rows = d->rows + 3 * snls_flow_thread() * d->row_size;
        for (int64_t x = 0; x < 3 * d->row_size; x++) rows[x] = 0;
        for (int64_t i = 0; i < patch->height; i++) {
            const int64_t top = patch_at(i, flow->height, d->params.stride);
            if (top <= y && y < top + SIDE) spread_row(job, d, e, patch, i, y, rows);
        }
        for (int64_t x = 0; x < flow->width; x++) {
            const float scale = 1 / rows[x];
            snls_plane_row(&flow[0], y)[x] = rows[d->row_size + x] * scale;
            snls_plane_row(&flow[1], y)[x] = rows[2 * d->row_size + x] * scale;
        }
    }
}

static void refine(const SnlsFlowJob *job, SnlsDis *d, const SnlsDisLevel *e, const SnlsPlane *flow)
{
    const double theta = 0.3;
    const SnlsTvl1Scale scale = { e->from, e->to, flow[0], flow[1] };
    if (d->params.warps < 1) return;
    d->solver.limit = (float)(d->params.lambda * theta);
    d->solver.theta = (float)theta;
    d->solver.step = (float)(0.25 / theta);
    snls_tvl1_solve(job, &d->solver, &scale, d->params.warps, d->params.iterations, 0);
}

void snls_dis_run(const SnlsFlowJob *job, SnlsDis *d, const SnlsFlowFrames *frames)
{
    make_levels(job, d, frames);
    SnlsPlane coarse[2], flow[2];
    for (int32_t l = d->coarsest; l >= d->finest; l--) {
        const SnlsDisLevel *e = &d->level[l];
        const int64_t h = e->from.height, w = e->from.width;
        SnlsPlane patch[2];
        for (int c = 0; c < 2; c++) {
            flow[c] = snls_plane_as(d->flow[l % 2][c], h, w);
            patch[c] = snls_plane_as(d->patch[c], patches(h, d->params.stride), patches(w, d->params.stride));
            if (l < d->coarsest) snls_resample_plane(job, &d->resample, &flow[c], &coarse[c], 2);
            else
                for (int64_t i = 0; i < h * w; i++) flow[c].data[i] = 0;
        }
        search_patches(job, d, e, flow, patch);
        densify(job, d, e, patch, flow);
        for (int c = 0; c < 2; c++) coarse[c] = flow[c];
    }
    refine(job, d, &d->level[d->finest], flow);
    snls_resample_plane(job, &d->resample, &frames->u, &flow[0], (float)(1 << d->finest));
    snls_resample_plane(job, &d->resample, &frames->v, &flow[1], (float)(1 << d->finest));
}
