/* dis.c: dense inverse search (T. Kroeger, R. Timofte, D. Dai, L. Van Gool, ECCV 2016): from coarse to fine, 8x8 patches
 * descend to where they fit the other frame, and every pixel takes the mean of the patches over it, weighed by their fit.
 * A patch also tries what its neighbours found: where motion is larger than descent from zero reaches at the coarsest
 * level, some patch gets there all the same, and the others take it over. In place of the paper's variational
 * refinement the finest level gets a short TV-L1. Brightness may differ between the frames: patches are compared without
 * their means, and the TV-L1 sees the first frame as bright as the patches found the second. */
#include "flow/methods.h"
#include <math.h>
#include <string.h>

enum { SIDE = SNLS_DIS_SIDE, PAD = SNLS_DIS_PAD, AREA = SIDE * SIDE };
enum { BAND = 8 }; /* rows of patches that one thread searches; fixed, since what neighbours find depends on it */

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
int64_t snls_dis_patch_at(int64_t i, int64_t length, int32_t stride)
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
    d->light = snls_flow_plane(job, fine_h, fine_w);
    for (int i = 0; i < SNLS_DIS_FOUND; i++)
        d->patch[i] = snls_flow_plane(job, patches(fine_h, params->stride), patches(fine_w, params->stride));
    d->row_size = fine_w + SIDE;
    d->rows = snls_flow_floats(job, 4 * job->threads, d->row_size);
    snls_still_take(job, &d->still, params->stride, d->patch->height, d->patch->width);
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

/* A motion of a patch: the squared difference there, means taken off, and the difference of the means. */
typedef struct Found {
    float u, v, error, light;
} Found;

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

const float *snls_dis_place(const SnlsPlane *to, int64_t y, int64_t x, float u, float v, float *weight)
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

/* How the patch fits at (u, v); step: the descent from there. */
static Found patch_try(const SnlsFlowJob *job, const Patch *p, const SnlsPlane *to, float u, float v, float *step)
{
    float weight[4], sums[4];
    const float *image = snls_dis_place(to, p->y, p->x, u, v, weight);
    job->loops.patch(sums, image, to->stride, weight, p->shape, p->gx, p->gy);
    const float bx = sums[0] - p->sum_x * sums[2], by = sums[1] - p->sum_y * sums[2];
    step[0] = p->xx * bx + p->xy * by;
    step[1] = p->xy * bx + p->yy * by;
    return (Found){ u, v, sums[3] - sums[2] * sums[2] / AREA, sums[2] / AREA };
}

/* Goes down from where the patch is while it gets better, and not further than a patch from there. */
static Found patch_descend(const SnlsFlowJob *job, const SnlsDis *d, const Patch *p, const SnlsPlane *to, Found start)
{
    float step[2], u = start.u, v = start.v;
    Found best = patch_try(job, p, to, u, v, step);
    for (int32_t i = 0; i < d->params.steps; i++) {
        const float length = step[0] * step[0] + step[1] * step[1];
        u -= step[0];
        v -= step[1];
        if (!(fabsf(u - start.u) < SIDE && fabsf(v - start.v) < SIDE)) break;
        const Found now = patch_try(job, p, to, u, v, step);
        if (!(now.error < best.error)) break;
        best = now;
        if (length < 1e-4f) break;
    }
    return best;
}

/* ---- all patches of a level ---- */

typedef struct Search {
    const SnlsFlowJob *job;
    const SnlsDis *d;
    const SnlsDisLevel *level;
    const SnlsPlane *flow;  /* two planes: the coarser level's, brought to this one's size */
    const SnlsPlane *patch; /* SNLS_DIS_FOUND planes: what is found */
    int64_t first, end;     /* rows of patches that are searched, and that are looked at */
} Search;

static Found found_get(const SnlsPlane *patch, int64_t i, int64_t j)
{
    const int64_t at = i * patch->stride + j;
    return (Found){ patch[0].data[at], patch[1].data[at], patch[2].data[at], patch[3].data[at] };
}

static void found_put(const SnlsPlane *patch, int64_t i, int64_t j, Found found)
{
    const float values[SNLS_DIS_FOUND] = { found.u, found.v, found.error, found.light };
    for (int c = 0; c < SNLS_DIS_FOUND; c++) patch[c].data[i * patch->stride + j] = values[c];
}

static void search_begin(const Search *s, Patch *p, int64_t i, int64_t j)
{
    const SnlsPlane *from = &s->level->from;
    patch_begin(p, s->level, snls_dis_patch_at(i, from->height, s->d->params.stride),
                snls_dis_patch_at(j, from->width, s->d->params.stride));
}

/* Motions this near descend to the same place. */
static bool same_motion(const Found *a, const Found *b)
{
    return fabsf(a->u - b->u) < 0.25f && fabsf(a->v - b->v) < 0.25f;
}

/* What the neighbours of patch (i, j) along x and y found, those before it (-1) or after it (1); returns how many. */
static int found_near(const Search *s, int64_t i, int64_t j, int side, Found *near)
{
    int count = 0;
    if (j + side >= 0 && j + side < s->patch->width) near[count++] = found_get(s->patch, i, j + side);
    if (i + side >= s->first && i + side < s->end) near[count++] = found_get(s->patch, i + side, j);
    return count;
}

/* Descends from the coarser level's flow at the patch's middle, or from what a patch before it found. */
static void search_forward(const Search *s, int64_t i, int64_t j)
{
    Patch p;
    Found near[2];
    float step[2];
    search_begin(s, &p, i, j);
    const int64_t y = snls_clamp_index(p.y + SIDE / 2, s->flow->height),
                  x = snls_clamp_index(p.x + SIDE / 2, s->flow->width), at = y * s->flow->stride + x;
    Found best = patch_try(s->job, &p, &s->level->to, s->flow[0].data[at], s->flow[1].data[at], step);
    const int count = found_near(s, i, j, -1, near);
    for (int k = 0; k < count; k++) {
        if (same_motion(&near[k], &best)) continue;
        const Found now = patch_try(s->job, &p, &s->level->to, near[k].u, near[k].v, step);
        if (now.error < best.error) best = now;
    }
    found_put(s->patch, i, j, patch_descend(s->job, s->d, &p, &s->level->to, best));
}

/* Descends again where a patch after it found something better. */
static void search_back(const Search *s, int64_t i, int64_t j)
{
    Patch p;
    Found near[2];
    float step[2];
    const Found had = found_get(s->patch, i, j);
    Found best = had;
    const int count = found_near(s, i, j, 1, near);
    bool begun = false;
    for (int k = 0; k < count; k++) {
        if (same_motion(&near[k], &had)) continue;
        if (!begun) search_begin(s, &p, i, j);
        begun = true;
        const Found now = patch_try(s->job, &p, &s->level->to, near[k].u, near[k].v, step);
        if (now.error < best.error) best = now;
    }
    if (best.error < had.error) found_put(s->patch, i, j, patch_descend(s->job, s->d, &p, &s->level->to, best));
}

static void search_band(const Search *s)
{
    for (int64_t i = s->first; i < s->end; i++)
        for (int64_t j = 0; j < s->patch->width; j++) search_forward(s, i, j);
    for (int64_t i = s->end - 1; i >= s->first; i--)
        for (int64_t j = s->patch->width - 1; j >= 0; j--) search_back(s, i, j);
}

static void search_patches(const SnlsFlowJob *job, const SnlsDis *d, const SnlsDisLevel *e, const SnlsPlane *flow,
                           const SnlsPlane *patch)
{
#pragma omp parallel for num_threads(job->threads) schedule(dynamic, 1)
    for (int64_t i = 0; i < patch->height; i += BAND) {
        const int64_t end = i + BAND < patch->height ? i + BAND : patch->height;
        search_band(&(Search){ job, d, e, flow, patch, i, end });
    }
}

/* ---- every pixel from the patches over it ---- */

static void spread_row(const SnlsFlowJob *job, const SnlsDis *d, const SnlsDisLevel *e, const SnlsPlane *patch,
                       int64_t i, int64_t y, float *rows)
{
    const int64_t top = snls_dis_patch_at(i, e->from.height, d->params.stride);
    for (int64_t j = 0; j < patch->width; j++) {
        const int64_t x = snls_dis_patch_at(j, e->from.width, d->params.stride), size = d->row_size;
        const Found f = found_get(patch, i, j);
        float *const sums[4] = { rows + x, rows + size + x, rows + 2 * size + x, rows + 3 * size + x };
        float weight[4];
        const float *image = snls_dis_place(&e->to, top, x, f.u, f.v, weight) + (y - top) * e->to.stride;
        job->loops.spread(sums, snls_plane_row(&e->from, y) + x, image, e->to.stride, weight,
                          (const float[3]){ f.u, f.v, f.light });
    }
}

/* flow: two planes and, of the same size, how much brighter the second frame is. */
static void densify(const SnlsFlowJob *job, const SnlsDis *d, const SnlsDisLevel *e, const SnlsPlane *patch,
                    const SnlsPlane *flow)
{
#pragma omp parallel for num_threads(job->threads) schedule(static)
    for (int64_t y = 0; y < flow->height; y++) {
        float *rows = d->rows + 4 * snls_flow_thread() * d->row_size;
        for (int64_t x = 0; x < 4 * d->row_size; x++) rows[x] = 0;
        for (int64_t i = 0; i < patch->height; i++) {
            const int64_t top = snls_dis_patch_at(i, flow->height, d->params.stride);
            if (top <= y && y < top + SIDE) spread_row(job, d, e, patch, i, y, rows);
        }
        for (int64_t x = 0; x < flow->width; x++) {
            const float scale = 1 / rows[x];
            for (int c = 0; c < 3; c++) snls_plane_row(&flow[c], y)[x] = rows[(c + 1) * d->row_size + x] * scale;
        }
    }
}

/* The TV-L1 compares pixels, so the first frame takes on the brightness of the second. */
static void even_light(const SnlsFlowJob *job, const SnlsDisLevel *e, const SnlsPlane *light)
{
#pragma omp parallel for num_threads(job->threads) schedule(static)
    for (int64_t y = 0; y < light->height; y++)
        for (int64_t x = 0; x < light->width; x++) snls_plane_row(&e->from, y)[x] += snls_plane_row(light, y)[x];
}

static void refine(const SnlsFlowJob *job, SnlsDis *d, const SnlsDisLevel *e, const SnlsPlane *flow)
{
    const double theta = 0.3;
    const SnlsTvl1Scale scale = { e->from, e->to, flow[0], flow[1] };
    if (d->params.warps < 1) return;
    even_light(job, e, &flow[2]);
    d->solver.limit = (float)(d->params.lambda * theta);
    d->solver.theta = (float)theta;
    d->solver.step = (float)(0.25 / theta);
    snls_tvl1_solve(job, &d->solver, &scale, d->params.warps, d->params.iterations, 0);
}

void snls_dis_run(const SnlsFlowJob *job, SnlsDis *d, const SnlsFlowFrames *frames)
{
    make_levels(job, d, frames);
    snls_still_begin(job, d);
    SnlsPlane coarse[2], flow[3];
    for (int32_t l = d->coarsest; l >= d->finest; l--) {
        const SnlsDisLevel *e = &d->level[l];
        const int64_t h = e->from.height, w = e->from.width;
        const int64_t rows = patches(h, d->params.stride), columns = patches(w, d->params.stride);
        SnlsPlane patch[SNLS_DIS_FOUND];
        for (int c = 0; c < SNLS_DIS_FOUND; c++) patch[c] = snls_plane_as(d->patch[c], rows, columns);
        flow[2] = snls_plane_as(d->light, h, w);
        for (int c = 0; c < 2; c++) {
            flow[c] = snls_plane_as(d->flow[l % 2][c], h, w);
            if (l < d->coarsest) snls_resample_plane(job, &d->resample, &flow[c], &coarse[c], 2);
            else
                for (int64_t i = 0; i < h * w; i++) flow[c].data[i] = 0;
        }
        search_patches(job, d, e, flow, patch);
        snls_still_hold(job, d, l, patch);
        densify(job, d, e, patch, flow);
        for (int c = 0; c < 2; c++) coarse[c] = flow[c];
    }
    refine(job, d, &d->level[d->finest], flow);
    snls_resample_plane(job, &d->resample, &frames->u, &flow[0], (float)(1 << d->finest));
    snls_resample_plane(job, &d->resample, &frames->v, &flow[1], (float)(1 << d->finest));
}
