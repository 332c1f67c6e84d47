/* farneback.c: two-frame motion by polynomial expansion (G. Farneback, SCIA 2003), with the pyramid, the border weights
 * and the regularisation that OpenCV's calcOpticalFlowFarneback has. */
#include "flow/methods.h"
#include <math.h>

enum { SIDE_MIN = 32 }; /* no level is smaller */

/* Levels above the frame itself. */
static int32_t count_levels(const SnlsFarnebackParams *p, int64_t height, int64_t width)
{
    double scale = 1;
    int32_t k = 0;
    for (; k < p->levels; k++) {
        scale *= p->pyr_scale;
        if ((double)width * scale < SIDE_MIN || (double)height * scale < SIDE_MIN) break;
    }
    return k;
}

static double level_scale(const SnlsFarnebackParams *p, int32_t k)
{
    double scale = 1;
    while (k-- > 0) scale *= p->pyr_scale;
    return scale;
}

/* Blur before a level is sampled: its radius, and *sigma (0 stands for the binomial 1 2 1). */
static int64_t level_blur(double scale, double *sigma)
{
    *sigma = (1 / scale - 1) * 0.5;
    const int64_t size = (int64_t)nearbyint(*sigma * 5) | 1;
    return size < 3 ? 1 : size / 2;
}

void snls_farneback_take(SnlsFlowJob *job, SnlsFarneback *f, const SnlsFarnebackParams *params, int64_t height,
                         int64_t width)
{
    double sigma;
    f->params = *params;
    f->levels = count_levels(params, height, width);
    const int64_t r = params->poly_n, m = params->winsize / 2;
    snls_filter_take(job, &f->blur, level_blur(level_scale(params, f->levels), &sigma), width);
    snls_resample_take(job, &f->resample, width);
    f->level = snls_flow_plane(job, height, width);
    for (int i = 0; i < 2; i++) f->coarse[i] = snls_flow_plane(job, height, width);
    for (int i = 0; i < 5; i++) f->expansion[i] = snls_flow_plane(job, height, width);
    f->pixels = snls_flow_floats(job, height, 8 * width);
    for (int i = 0; i < 5; i++) f->matrix[i] = snls_flow_plane(job, height, width);
    f->taps = snls_flow_floats(job, 6, 2 * r + 1);
    f->window = snls_flow_floats(job, 2 * m + 1, 1);
    f->row_size = width + 2 * (r > m ? r : m);
    f->pointers = 2 * (r > m ? r : m) + 1;
    f->rows = snls_flow_floats(job, job->threads * 10, f->row_size);
    f->pointer = snls_flow_take(job, job->threads * f->pointers, sizeof *f->pointer);
}

/* Row filters of the expansion, 2n+1 taps each: g, x g, and the one that gives the coefficient of x^2; the same along x
 * with the factors of the inverse metric. G is separable, so its inverse is known: with a = E[x^2], b = E[x^4] under
 * the Gaussian, 1/a for x, 1/(b - a^2) for x^2 and -a/(b - a^2) from the constant, 1/a^2 for xy. */
static void expansion_taps(SnlsFarneback *f)
{
    const int64_t n = f->params.poly_n, count = 2 * n + 1;
    const double sigma = f->params.poly_sigma;
    double sum = 0, a = 0, b = 0;
    for (int64_t i = -n; i <= n; i++) sum += exp(-(double)(i * i) / (2 * sigma * sigma));
    for (int64_t i = -n; i <= n; i++) {
        const double g = exp(-(double)(i * i) / (2 * sigma * sigma)) / sum, x2 = (double)(i * i);
        a += g * x2;
        b += g * x2 * x2;
    }
    for (int64_t i = -n; i <= n; i++) {
        const double g = exp(-(double)(i * i) / (2 * sigma * sigma)) / sum, x = (double)i;
        float *t = f->taps + i + n;
        t[0 * count] = (float)g;
        t[1 * count] = (float)(x * g);
        t[2 * count] = (float)((x * x - a) * g / (b - a * a));
        t[3 * count] = (float)(g / a);
        t[4 * count] = (float)(x * g / a);
        t[5 * count] = (float)(x * g / (a * a));
    }
}

static void window_taps(SnlsFarneback *f)
{
    const int64_t m = f->params.winsize / 2;
    const double sigma = (double)m * 0.3;
    double sum = 0;
    for (int64_t i = -m; i <= m; i++) {
        const double w =
            f->params.window == SNLS_FLOW_GAUSSIAN && m > 0 ? exp(-(double)(i * i) / (2 * sigma * sigma)) : 1;
        f->window[i + m] = (float)w;
        sum += w;
    }
    if (f->params.window == SNLS_FLOW_BOX) sum = f->params.winsize; /* an even side sums one more than it divides by */
    for (int64_t i = 0; i <= 2 * m; i++) f->window[i] = (float)(f->window[i] / sum);
}

/* A level of a frame: blurred at full size, then sampled. Only the rows that are sampled are blurred. */
static void sample_level(const SnlsFlowJob *job, SnlsFarneback *f, const SnlsPlane *out, const SnlsPlane *in)
{
    snls_resample_set(&f->resample, in->width, out->width);
#pragma omp parallel for num_threads(job->threads) schedule(static)
    for (int64_t y = 0; y < out->height; y++) {
        float down, *top = f->rows + snls_flow_thread() * 10 * f->row_size, *bottom = top + f->row_size;
        const int64_t at = snls_resample_at(in->height, out->height, y, &down);
        snls_filter_row(job, &f->blur, top, in, at);
        snls_filter_row(job, &f->blur, bottom, in, snls_clamp_index(at + 1, in->height));
        if (in->width > 1)
            job->loops.blend(snls_plane_row(out, y), top, bottom, down, f->resample.at, f->resample.right, 1,
                             out->width);
        else *snls_plane_row(out, y) = top[0] + down * (bottom[0] - top[0]);
    }
}

static void weigh_along(const SnlsFlowJob *job, const float **pointer, float *out, const float *padded,
                        const float *taps, int64_t radius, int64_t width)
{
    for (int64_t i = 0; i <= 2 * radius; i++) pointer[i] = padded + i - radius;
    job->loops.weigh(out, pointer, taps, 2 * radius + 1, width);
}

/* y, x, yy, xx, xy of row y into planes out[0..4]. */
static void expand_row(const SnlsFlowJob *job, const SnlsFarneback *f, const SnlsPlane *out, const SnlsPlane *in,
                       int64_t y)
{
    const int64_t n = f->params.poly_n, count = 2 * n + 1, width = in->width;
    const float **pointer = f->pointer + snls_flow_thread() * f->pointers, *taps = f->taps;
    float *rows = f->rows + snls_flow_thread() * 10 * f->row_size + n, *column[3];
    for (int64_t i = 0; i < count; i++) pointer[i] = snls_plane_row(in, snls_clamp_index(y + i - n, in->height));
    for (int c = 0; c < 3; c++) {
        column[c] = rows + c * f->row_size;
        job->loops.weigh(column[c], pointer, taps + c * count, count, width);
        snls_pad_row(column[c], width, n, SNLS_EDGE_CLAMP);
    }
    weigh_along(job, pointer, snls_plane_row(&out[0], y), column[1], taps + 3 * count, n, width);
    weigh_along(job, pointer, snls_plane_row(&out[1], y), column[0], taps + 4 * count, n, width);
    weigh_along(job, pointer, snls_plane_row(&out[2], y), column[2], taps, n, width);
    weigh_along(job, pointer, snls_plane_row(&out[3], y), column[0], taps + 2 * count, n, width);
    weigh_along(job, pointer, snls_plane_row(&out[4], y), column[1], taps + 5 * count, n, width);
}

/* The second frame's coefficients, eight floats a pixel. */
static void interleave_row(const SnlsFarneback *f, const SnlsPlane *planes, int64_t y)
{
    float *to = f->pixels + 8 * y * planes->width;
    const float *from[5];
    for (int i = 0; i < 5; i++) from[i] = snls_plane_row(&planes[i], y);
    for (int64_t x = 0; x < planes->width; x++)
        for (int i = 0; i < 8; i++) to[8 * x + i] = i < 5 ? from[i][x] : 0;
}

static void expand(const SnlsFlowJob *job, const SnlsFarneback *f, const SnlsPlane *out, const SnlsPlane *in,
                   bool interleave)
{
#pragma omp parallel for num_threads(job->threads) schedule(static)
    for (int64_t y = 0; y < in->height; y++) {
        expand_row(job, f, out, in, y);
        if (interleave) interleave_row(f, out, y);
    }
}

/* Row y of the flow from the averaged equations around it. */
static void update_row(const SnlsFlowJob *job, const SnlsFarneback *f, const SnlsPlane *matrix, const SnlsPlane *u,
                       const SnlsPlane *v, int64_t y)
{
    const int64_t m = f->params.winsize / 2, count = 2 * m + 1;
    const float **pointer = f->pointer + snls_flow_thread() * f->pointers;
    float *rows = f->rows + snls_flow_thread() * 10 * f->row_size;
    const float *sums[5];
    for (int c = 0; c < 5; c++) {
        float *column = rows + 2 * c * f->row_size + m, *sum = rows + (2 * c + 1) * f->row_size;
        for (int64_t i = 0; i < count; i++)
            pointer[i] = snls_plane_row(&matrix[c], snls_clamp_index(y + i - m, u->height));
        job->loops.weigh(column, pointer, f->window, count, u->width);
        snls_pad_row(column, u->width, m, SNLS_EDGE_CLAMP);
        weigh_along(job, pointer, sum, column, f->window, m, u->width);
        sums[c] = sum;
    }
    job->loops.solve(snls_plane_row(u, y), snls_plane_row(v, y), sums, u->width);
}

static SnlsFlowExpansion expansion_of(const SnlsPlane *planes)
{
    SnlsFlowExpansion e = { .width = planes->width, .height = planes->height, .stride = planes->stride };
    for (int i = 0; i < 5; i++) e.plane[i] = planes[i].data;
    return e;
}

static void iterate(const SnlsFlowJob *job, const SnlsFarneback *f, const SnlsPlane *planes, const SnlsPlane *u,
                    const SnlsPlane *v)
{
    const SnlsFlowExpansion from = expansion_of(planes),
                            to = { .pixels = f->pixels, .width = u->width, .height = u->height, .stride = u->width };
    SnlsPlane matrix[5];
    for (int i = 0; i < 5; i++) matrix[i] = snls_plane_as(f->matrix[i], u->height, u->width);
    for (int32_t i = 0; i < f->params.iterations; i++) {
#pragma omp parallel for num_threads(job->threads) schedule(static)
        for (int64_t y = 0; y < u->height; y++) {
            float *out[5];
            for (int c = 0; c < 5; c++) out[c] = snls_plane_row(&matrix[c], y);
            job->loops.matrices(out, &from, &to, snls_plane_row(u, y), snls_plane_row(v, y), y);
        }
#pragma omp parallel for num_threads(job->threads) schedule(static)
        for (int64_t y = 0; y < u->height; y++) update_row(job, f, matrix, u, v, y);
    }
}

/* The flow of level k from that of level k+1, or 0. flow and coarse change places at every level. */
static void begin_level(const SnlsFlowJob *job, SnlsFarneback *f, const SnlsPlane *coarse, const SnlsPlane *fine,
                        bool first)
{
    for (int c = 0; c < 2; c++) {
        if (!first) snls_resample_plane(job, &f->resample, &fine[c], &coarse[c], (float)(1 / f->params.pyr_scale));
        else
            for (int64_t i = 0; i < fine[c].height * fine[c].width; i++) fine[c].data[i] = 0;
    }
}

void snls_farneback_run(const SnlsFlowJob *job, SnlsFarneback *f, const SnlsFlowFrames *frames)
{
    const int64_t height = frames->from.height, width = frames->from.width;
    SnlsPlane coarse[2], fine[2], planes[5];
    expansion_taps(f);
    window_taps(f);
    f->blur.edge = SNLS_EDGE_MIRROR;
    for (int32_t k = f->levels; k >= 0; k--) {
        const double scale = level_scale(&f->params, k);
        const int64_t h = (int64_t)nearbyint((double)height * scale), w = (int64_t)nearbyint((double)width * scale);
        const SnlsPlane *const home[2] = { k % 2 ? &f->coarse[0] : &frames->u, k % 2 ? &f->coarse[1] : &frames->v };
        double sigma;
        const int64_t radius = level_blur(scale, &sigma);
        snls_filter_gauss(&f->blur, radius, sigma > 0 ? sigma : sqrt(1 / log(4.0))); /* exp(-1/(2 s^2)) = 1/2: 1 2 1 */
        for (int c = 0; c < 2; c++) fine[c] = snls_plane_as(*home[c], h, w);
        begin_level(job, f, coarse, fine, k == f->levels);
        for (int i = 0; i < 5; i++) planes[i] = snls_plane_as(f->expansion[i], h, w);
        const SnlsPlane level = snls_plane_as(f->level, h, w);
        for (int i = 0; i < 2; i++) { /* the second frame first: its planes become pixels and make room */
            sample_level(job, f, &level, i ? &frames->from : &frames->to);
            expand(job, f, planes, &level, i == 0);
        }
        iterate(job, f, planes, &fine[0], &fine[1]);
        coarse[0] = fine[0];
        coarse[1] = fine[1];
    }
}
