/* flow_body.h: the row loops in plain C, included once for each instruction set with FLOW_LOOPS as the name of the
 * function that fills the table. Loops are written so that a compiler turns them into vectors: no branches inside,
 * indices of 32 bits, restrict. */
#include "simd/flow.h"
#include <math.h>
#include <stddef.h>
#include <string.h>

static inline float clampf(float x, float low, float high)
{
    x = x > low ? x : low; /* NaN becomes low */
    return x < high ? x : high;
}

#define VECTORS _Pragma("omp simd") /* the turns of the loop do not depend on each other */

enum { BLOCK = 64 }; /* pixels worked on at a time: what lies between the loops stays in the first cache */

/* Vectors of the compiler's own. They are loaded and stored by memcpy: any alignment, and no argument of a function. */
typedef float Lanes __attribute__((vector_size(4 * FLOW_LANES)));
typedef float Four __attribute__((vector_size(16)));
typedef float Eight __attribute__((vector_size(32)));
#define LOAD(to, from)  memcpy(&(to), (from), sizeof(to))
#define STORE(to, from) memcpy((to), &(from), sizeof(from))

static void weigh(float *restrict out, const float *const *row, const float *weight, int64_t n, int64_t width)
{
    int64_t x = 0;
    for (; x + 4 * FLOW_LANES <= width; x += 4 * FLOW_LANES) {
        Lanes s0 = { 0 }, s1 = s0, s2 = s0, s3 = s0, a, b, c, d;
        for (int64_t i = 0; i < n; i++) {
            const float *from = row[i] + x, w = weight[i];
            LOAD(a, from);
            LOAD(b, from + FLOW_LANES);
            LOAD(c, from + 2 * FLOW_LANES);
            LOAD(d, from + 3 * FLOW_LANES);
            s0 += w * a;
            s1 += w * b;
            s2 += w * c;
            s3 += w * d;
        }
        STORE(out + x, s0);
        STORE(out + x + FLOW_LANES, s1);
        STORE(out + x + 2 * FLOW_LANES, s2);
        STORE(out + x + 3 * FLOW_LANES, s3);
    }
    for (; x < width; x++) {
        float sum = 0;
        for (int64_t i = 0; i < n; i++) sum += weight[i] * row[i][x];
        out[x] = sum;
    }
}

/* How much the equations within five pixels of the border count (Farneback's certainty, OpenCV's numbers). */
static float edge_weight(int64_t at, int64_t length)
{
    static const float border[5] = { 0.14f, 0.14f, 0.4472f, 0.4472f, 0.4472f };
    return (at < 5 ? border[at] : 1) * (at >= length - 5 ? border[length - 1 - at] : 1);
}

/* Five coefficients of the other frame at the flow's target. Outside: inside is 0 and the place is any legal one. */
typedef struct Reach {
    float inside[BLOCK], weight[4][BLOCK];
    int32_t at[BLOCK];
} Reach;

static void reach(Reach *restrict r, const SnlsFlowExpansion *to, const float *restrict u, const float *restrict v,
                  int64_t x0, int64_t y, int n)
{
    const float last_x = (float)(to->width - 1), last_y = (float)(to->height - 1), fy0 = (float)y, fx0 = (float)x0;
    const int32_t stride = (int32_t)to->stride, end_x = to->width > 1 ? (int32_t)to->width - 2 : 0,
                  end_y = to->height > 1 ? (int32_t)to->height - 2 : 0;
    VECTORS
    for (int j = 0; j < n; j++) {
        const float px = fx0 + (float)j + u[j], py = fy0 + v[j];
        const float qx = clampf(px, 0, last_x), qy = clampf(py, 0, last_y);
        const float inside = ((px == qx) & (px < last_x) & (py == qy) & (py < last_y)) ? 1.0f : 0.0f;
        int32_t ix = (int32_t)qx, iy = (int32_t)qy; /* not negative: truncation is floor */
        ix = ix < end_x ? ix : end_x;
        iy = iy < end_y ? iy : end_y;
        const float fx = qx - (float)ix, fy = qy - (float)iy;
        r->inside[j] = inside;
        r->at[j] = iy * stride + ix;
        r->weight[0][j] = (1 - fx) * (1 - fy) * inside;
        r->weight[1][j] = fx * (1 - fy) * inside;
        r->weight[2][j] = (1 - fx) * fy * inside;
        r->weight[3][j] = fx * fy * inside;
    }
}

/* The coefficients lie eight floats a pixel, so that four loads bring all of them. */
static void read_reach(float there[5][BLOCK], const Reach *r, const SnlsFlowExpansion *to, int n)
{
    const int64_t right = to->width > 1 ? 8 : 0, down = to->height > 1 ? 8 * to->stride : 0;
    for (int j = 0; j < n; j++) {
        const float *at = to->pixels + 8 * (int64_t)r->at[j];
        Eight a, b, c, d;
        LOAD(a, at);
        LOAD(b, at + right);
        LOAD(c, at + down);
        LOAD(d, at + down + right);
        a = r->weight[0][j] * a + r->weight[1][j] * b + r->weight[2][j] * c + r->weight[3][j] * d;
        for (int i = 0; i < 5; i++) there[i][j] = a[i];
    }
}

typedef struct Equations {
    const float *from[5], *u, *v;
    float *out[5];
} Equations;

static void equations(const Equations *e, float there[5][BLOCK], const Reach *restrict r, const float *restrict scale,
                      int n)
{
    const float *restrict f0 = e->from[0], *restrict f1 = e->from[1], *restrict f2 = e->from[2],
                          *restrict f3 = e->from[3], *restrict f4 = e->from[4];
    const float *restrict u = e->u, *restrict v = e->v;
    float *restrict g11 = e->out[0], *restrict g12 = e->out[1], *restrict g22 = e->out[2], *restrict h1 = e->out[3],
                    *restrict h2 = e->out[4];
    VECTORS
    for (int j = 0; j < n; j++) {
        const float half = r->inside[j] > 0 ? 0.5f : 1.0f, s = scale[j];
        const float yy = (f2[j] + there[2][j]) * half * s, xx = (f3[j] + there[3][j]) * half * s,
                    xy = (f4[j] + there[4][j]) * half * 0.5f * s;
        const float by = (f0[j] - there[0][j]) * 0.5f * s + yy * v[j] + xy * u[j];
        const float bx = (f1[j] - there[1][j]) * 0.5f * s + xy * v[j] + xx * u[j];
        g11[j] = yy * yy + xy * xy;
        g12[j] = (yy + xx) * xy;
        g22[j] = xx * xx + xy * xy;
        h1[j] = yy * by + xy * bx;
        h2[j] = xy * by + xx * bx;
    }
}

static void matrices(float *const *out, const SnlsFlowExpansion *from, const SnlsFlowExpansion *to, const float *u,
                     const float *v, int64_t y)
{
    const float row_scale = edge_weight(y, from->height);
    for (int64_t x = 0; x < from->width; x += BLOCK) {
        const int n = from->width - x < BLOCK ? (int)(from->width - x) : BLOCK;
        Reach r;
        float there[5][BLOCK], scale[BLOCK];
        Equations e = { .u = u + x, .v = v + x };
        for (int i = 0; i < 5; i++) {
            e.from[i] = from->plane[i] + y * from->stride + x;
            e.out[i] = out[i] + x;
        }
        reach(&r, to, u + x, v + x, x, y, n);
        read_reach(there, &r, to, n);
        VECTORS
        for (int j = 0; j < n; j++) scale[j] = row_scale;
        for (int j = 0; j < n; j++)
            if (x + j < 5 || x + j >= from->width - 5) scale[j] *= edge_weight(x + j, from->width);
        equations(&e, there, &r, scale, n);
    }
}

static void solve(float *restrict u, float *restrict v, const float *const *g, int64_t width)
{
    const float *restrict g11 = g[0], *restrict g12 = g[1], *restrict g22 = g[2], *restrict h1 = g[3],
                          *restrict h2 = g[4];
    VECTORS
    for (int64_t x = 0; x < width; x++) {
        const float inverse = 1 / (g11[x] * g22[x] - g12[x] * g12[x] + 1e-3f);
        u[x] = (g11[x] * h2[x] - g12[x] * h1[x]) * inverse;
        v[x] = (g22[x] * h1[x] - g12[x] * h2[x]) * inverse;
    }
}

static void bilinear(float *restrict out, const SnlsFlowImage *image, const float *restrict u, const float *restrict v,
                     int64_t y)
{
    const float last_x = (float)(image->width - 1), last_y = (float)(image->height - 1), fy0 = (float)y;
    const int32_t stride = (int32_t)image->stride, end_x = (int32_t)image->width - 1,
                  end_y = (int32_t)image->height - 1;
    const float *restrict p = image->data;
    const int32_t width = (int32_t)image->count;
    VECTORS
    for (int32_t x = 0; x < width; x++) {
        const float px = clampf((float)x + u[x], 0, last_x), py = clampf(fy0 + v[x], 0, last_y);
        const int32_t ix = (int32_t)px, iy = (int32_t)py, jx = ix < end_x ? ix + 1 : ix, jy = iy < end_y ? iy + 1 : iy;
        const float fx = px - (float)ix, fy = py - (float)iy;
        const float top = (1 - fx) * p[iy * stride + ix] + fx * p[iy * stride + jx];
        const float bottom = (1 - fx) * p[jy * stride + ix] + fx * p[jy * stride + jx];
        out[x] = (1 - fy) * top + fy * bottom;
    }
}

/* Catmull-Rom through a, b, c, d at -1, 0, 1, 2; t from 0 to 1 between b and c. */
static inline float cubic(float a, float b, float c, float d, float t)
{
    return b + 0.5f * t * (c - a + t * (2 * a - 5 * b + 4 * c - d + t * (3 * (b - c) + d - a)));
}

static inline int32_t clampi(int32_t i, int32_t last)
{
    i = i > 0 ? i : 0;
    return i < last ? i : last;
}

static void bicubic(float *restrict out, const SnlsFlowImage *image, const float *restrict u, const float *restrict v,
                    float outside, int64_t y)
{
    const float last_x = (float)(image->width - 1), last_y = (float)(image->height - 1), fy0 = (float)y;
    const int32_t stride = (int32_t)image->stride, end_x = (int32_t)image->width - 1,
                  end_y = (int32_t)image->height - 1;
    const float *restrict p = image->data;
    const int32_t width = (int32_t)image->count;
    VECTORS
    for (int32_t x = 0; x < width; x++) {
        const float qx = (float)x + u[x], qy = fy0 + v[x];
        const float px = clampf(qx, 0, last_x), py = clampf(qy, 0, last_y),
                    factor = ((px == qx) & (py == qy)) ? 1.0f : outside;
        const int32_t ix = (int32_t)px, iy = (int32_t)py;
        const float fx = px - (float)ix, fy = py - (float)iy;
        const int32_t x0 = clampi(ix - 1, end_x), x2 = clampi(ix + 1, end_x), x3 = clampi(ix + 2, end_x);
        const int32_t r0 = clampi(iy - 1, end_y) * stride, r1 = iy * stride, r2 = clampi(iy + 1, end_y) * stride,
                      r3 = clampi(iy + 2, end_y) * stride;
        out[x] = factor * cubic(cubic(p[r0 + x0], p[r0 + ix], p[r0 + x2], p[r0 + x3], fx),
                                cubic(p[r1 + x0], p[r1 + ix], p[r1 + x2], p[r1 + x3], fx),
                                cubic(p[r2 + x0], p[r2 + ix], p[r2 + x2], p[r2 + x3], fx),
                                cubic(p[r3 + x0], p[r3 + ix], p[r3 + x2], p[r3 + x3], fx), fy);
    }
}

/* Weights of the four taps around a place t from 0 to 1 after the second. */
static inline void cubic_weights(float *restrict w, float t)
{
    w[0 * BLOCK] = 0.5f * t * (-1 + t * (2 - t));
    w[1 * BLOCK] = 1 + 0.5f * t * t * (3 * t - 5);
    w[2 * BLOCK] = 0.5f * t * (1 + t * (4 - 3 * t));
    w[3 * BLOCK] = 0.5f * t * t * (t - 1);
}

typedef struct Taps {
    float x[4 * BLOCK], y[4 * BLOCK], inside[BLOCK];
    int32_t at[BLOCK];
} Taps;

static void find_taps(Taps *restrict taps, const SnlsFlowImage *image, const float *restrict u, const float *restrict v,
                      int64_t x0, int64_t y, int n)
{
    const float last_x = (float)(image->width - 1), last_y = (float)(image->height - 1), fy0 = (float)y,
                fx0 = (float)x0;
    const int32_t stride = (int32_t)image->stride;
    VECTORS
    for (int j = 0; j < n; j++) {
        const float qx = fx0 + (float)j + u[j], qy = fy0 + v[j];
        const float px = clampf(qx, 0, last_x), py = clampf(qy, 0, last_y);
        const int32_t ix = (int32_t)px, iy = (int32_t)py;
        taps->inside[j] = ((px == qx) & (py == qy)) ? 1.0f : 0.0f;
        taps->at[j] = (iy - 1) * stride + ix - 1;
        cubic_weights(taps->x + j, px - (float)ix);
        cubic_weights(taps->y + j, py - (float)iy);
    }
}

static void bicubic_pixels(float *const *out, const SnlsFlowImage *image, const float *u, const float *v, int64_t y)
{
    for (int64_t x = 0; x < image->width; x += BLOCK) {
        const int n = image->width - x < BLOCK ? (int)(image->width - x) : BLOCK;
        Taps taps;
        find_taps(&taps, image, u + x, v + x, x, y, n);
        for (int j = 0; j < n; j++) {
            const float *at = image->data + 4 * (int64_t)taps.at[j];
            Four sum = { 0 };
            for (int r = 0; r < 4; r++, at += 4 * image->stride) {
                Four a, b, c, d;
                LOAD(a, at);
                LOAD(b, at + 4);
                LOAD(c, at + 8);
                LOAD(d, at + 12);
                sum += taps.y[r * BLOCK + j] *
                       (taps.x[j] * a + taps.x[BLOCK + j] * b + taps.x[2 * BLOCK + j] * c + taps.x[3 * BLOCK + j] * d);
            }
            sum *= taps.inside[j];
            for (int i = 0; i < 3; i++) out[i][x + j] = sum[i];
        }
    }
}

static void data_term(const SnlsTvl1Row *row, float *restrict rest, float *restrict inverse,
                      const float *restrict warped, const float *restrict frame, int64_t width)
{
    const float *restrict gx = row->gx, *restrict gy = row->gy, *restrict u = row->u[0], *restrict v = row->u[1];
    VECTORS
    for (int64_t x = 0; x < width; x++) {
        const float square = gx[x] * gx[x] + gy[x] * gy[x];
        rest[x] = warped[x] - gx[x] * u[x] - gy[x] * v[x] - frame[x];
        inverse[x] = square > 1e-10f ? 1 / square : 0;
    }
}

/* u += d * gradient + theta * divergence, by backward differences of p; left: what lies left of a column. */
static void primal(const SnlsTvl1Row *row, float limit, float theta, int64_t width)
{
    const float *restrict gx = row->gx, *restrict gy = row->gy, *restrict rest = row->rest,
                          *restrict inverse = row->inverse;
    const float *restrict p0 = row->p[0], *restrict p1 = row->p[1], *restrict p2 = row->p[2], *restrict p3 = row->p[3];
    const float *restrict a0 = row->above[0], *restrict a1 = row->above[1];
    float *restrict u = row->u[0], *restrict v = row->u[1], *restrict change = row->change;
#define PRIMAL(x, left0, left1)                                                 \
    do {                                                                        \
        const float rho = rest[x] + gx[x] * u[x] + gy[x] * v[x];                \
        const float d = clampf(-rho * inverse[x], -limit, limit);               \
        const float du = d * gx[x] + theta * (p0[x] - (left0) + p1[x] - a0[x]); \
        const float dv = d * gy[x] + theta * (p2[x] - (left1) + p3[x] - a1[x]); \
        u[x] += du;                                                             \
        v[x] += dv;                                                             \
        change[x] = du * du + dv * dv;                                          \
    } while (0)
    PRIMAL(0, 0.0f, 0.0f); /* nothing left of column 0 */
    VECTORS
    for (int64_t x = 1; x < width; x++) PRIMAL(x, p0[x - 1], p2[x - 1]);
#undef PRIMAL
}

static void dual_component(const float *restrict u, const float *restrict below, float *restrict px, float *restrict py,
                           float step, int64_t width)
{
    const float last = u[width - 1];
    VECTORS
    for (int64_t x = 0; x < width - 1; x++) {
        const float ux = u[x + 1] - u[x], uy = below[x] - u[x];
        const float shrink = 1 / (1 + step * sqrtf(ux * ux + uy * uy));
        px[x] = (px[x] + step * ux) * shrink;
        py[x] = (py[x] + step * uy) * shrink;
    }
    const float uy = below[width - 1] - last, shrink = 1 / (1 + step * sqrtf(uy * uy));
    px[width - 1] = px[width - 1] * shrink;
    py[width - 1] = (py[width - 1] + step * uy) * shrink;
}

static void dual(const SnlsTvl1Row *row, const float *const *below, float step, int64_t width)
{
    dual_component(row->u[0], below[0], row->p[0], row->p[1], step, width);
    dual_component(row->u[1], below[1], row->p[2], row->p[3], step, width);
}

static void luma(float *restrict out, const float *restrict rgb, int64_t width)
{
    VECTORS
    for (int64_t x = 0; x < width; x++)
        out[x] = 0.299f * rgb[3 * x] + 0.587f * rgb[3 * x + 1] + 0.114f * rgb[3 * x + 2];
}

static void gradient(float *restrict gx, float *restrict gy, const float *restrict above, const float *restrict row,
                     const float *restrict below, int64_t width)
{
    VECTORS
    for (int64_t x = 0; x < width; x++) gy[x] = 0.5f * (below[x] - above[x]);
    VECTORS
    for (int64_t x = 1; x < width - 1; x++) gx[x] = 0.5f * (row[x + 1] - row[x - 1]);
    gx[0] = width > 1 ? 0.5f * (row[1] - row[0]) : 0;
    if (width > 1) gx[width - 1] = 0.5f * (row[width - 1] - row[width - 2]);
}

enum { SIDE = 8 };

static float lanes(const float *sum)
{
    float all = 0;
    for (int i = 0; i < SIDE; i++) all += sum[i];
    return all;
}

static void patch(float *sums, const float *image, int64_t stride, const float *weight, const float *shape,
                  const float *gx, const float *gy)
{
    float sx[SIDE] = { 0 }, sy[SIDE] = { 0 }, s1[SIDE] = { 0 }, s2[SIDE] = { 0 };
    const float w0 = weight[0], w1 = weight[1], w2 = weight[2], w3 = weight[3];
    for (int r = 0; r < SIDE; r++) {
        const float *restrict a = image + r * stride, *restrict b = a + stride;
        const float *restrict t = shape + r * SIDE, *restrict x = gx + r * SIDE, *restrict y = gy + r * SIDE;
        VECTORS
        for (int c = 0; c < SIDE; c++) {
            const float e = w0 * a[c] + w1 * a[c + 1] + w2 * b[c] + w3 * b[c + 1] - t[c];
            sx[c] += x[c] * e;
            sy[c] += y[c] * e;
            s1[c] += e;
            s2[c] += e * e;
        }
    }
    sums[0] = lanes(sx);
    sums[1] = lanes(sy);
    sums[2] = lanes(s1);
    sums[3] = lanes(s2);
}

/* Adds to 8 pixels of a row what a patch says, weighed by how well it fits there. */
static void spread(float *const *sums, const float *restrict shape, const float *image, int64_t stride,
                   const float *weight, const float *says)
{
    const float *restrict a = image, *restrict b = image + stride;
    float *restrict sum = sums[0], *restrict u = sums[1], *restrict v = sums[2], *restrict light = sums[3];
    const float w0 = weight[0], w1 = weight[1], w2 = weight[2], w3 = weight[3], pu = says[0], pv = says[1],
                mean = says[2];
    VECTORS
    for (int c = 0; c < SIDE; c++) {
        const float e = fabsf(w0 * a[c] + w1 * a[c + 1] + w2 * b[c] + w3 * b[c + 1] - shape[c] - mean);
        const float w = 1 / (e > 1 ? e : 1);
        sum[c] += w;
        u[c] += w * pu;
        v[c] += w * pv;
        light[c] += w * mean;
    }
}

static void blend(float *restrict out, const float *restrict top, const float *restrict bottom, float down,
                  const int32_t *restrict at, const float *restrict right, float scale, int64_t width)
{
    VECTORS
    for (int64_t x = 0; x < width; x++) {
        const int32_t i = at[x];
        const float a = top[i] + right[x] * (top[i + 1] - top[i]),
                    b = bottom[i] + right[x] * (bottom[i + 1] - bottom[i]);
        out[x] = scale * (a + down * (b - a));
    }
}

FLOW_SCOPE void FLOW_LOOPS(SnlsFlowLoops *loops)
{
    *loops = (SnlsFlowLoops){ weigh,  matrices, solve, bilinear, bicubic, bicubic_pixels, data_term,
                              primal, dual,     luma,  gradient, patch,   spread,         blend };
}
