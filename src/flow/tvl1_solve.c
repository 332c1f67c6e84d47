/* tvl1_solve.c: the iterations of TV-L1 at one scale. The frame is cut into bands of rows, one for each thread. A batch of
 * iterations runs through a band as a wave: while iteration k works on row y, iteration k+1 follows one row behind, so
 * that the rows in work stay in the cache. Bands overlap by as many rows as a batch has iterations; what the overlap
 * computes twice is thrown away. The arithmetic of every pixel is that of plain iterations over the whole frame. */
#include "flow/methods.h"
#include <string.h>

enum { U, V, P0, P1, P2, P3, GX, GY, REST, INVERSE };

static int band_count(const SnlsFlowJob *job, int64_t height)
{
    const int64_t fit = height / (4 * SNLS_TVL1_BATCH); /* thinner bands would work mostly for others */
    return fit < 1 ? 1 : fit < job->threads ? (int)fit : job->threads;
}

/* Rows of all arrays: every band has two overlaps, and five rows of its own. */
void snls_tvl1_solver_take(SnlsFlowJob *job, SnlsTvl1Solver *s, int64_t height, int64_t width)
{
    const int64_t bands = job->threads;
    s->memory_rows = SNLS_TVL1_ARRAYS * (height + 2 * SNLS_TVL1_BATCH * bands) + 5 * bands;
    s->memory = snls_flow_floats(job, s->memory_rows, width);
    s->band = snls_flow_take(job, bands, sizeof *s->band);
    s->change = snls_flow_take(job, height, sizeof *s->change);
    s->pixels = snls_flow_floats(job, height + 2 * SNLS_TVL1_PAD, 4 * (width + 2 * SNLS_TVL1_PAD));
}

static void cut_bands(const SnlsFlowJob *job, SnlsTvl1Solver *s, int64_t height, int64_t width)
{
    float *memory = s->memory;
    s->height = height;
    s->width = width;
    s->bands = band_count(job, height);
    for (int i = 0; i < s->bands; i++) {
        SnlsTvl1Band *b = &s->band[i];
        b->first = height * i / s->bands;
        b->end = height * (i + 1) / s->bands;
        b->low = b->first > SNLS_TVL1_BATCH ? b->first - SNLS_TVL1_BATCH : 0;
        b->high = b->end + SNLS_TVL1_BATCH < height ? b->end + SNLS_TVL1_BATCH : height;
        for (int a = 0; a < SNLS_TVL1_ARRAYS; a++, memory += (b->high - b->low) * width) b->array[a] = memory;
        b->zero = memory;
        for (int r = 0; r < 3; r++) b->row[r] = memory + (r + 1) * width;
        memory += 5 * width;
    }
}

static float *row_of(const SnlsTvl1Solver *s, const SnlsTvl1Band *b, int array, int64_t y)
{
    return b->array[array] + (y - b->low) * s->width;
}

static SnlsTvl1Row solver_row(const SnlsTvl1Solver *s, const SnlsTvl1Band *b, int64_t y)
{
    SnlsTvl1Row r = { .gx = row_of(s, b, GX, y),
                      .gy = row_of(s, b, GY, y),
                      .rest = row_of(s, b, REST, y),
                      .inverse = row_of(s, b, INVERSE, y),
                      .change = b->row[0] };
    for (int c = 0; c < 2; c++) {
        r.u[c] = row_of(s, b, U + c, y);
        r.above[c] = y > b->low ? row_of(s, b, P1 + 2 * c, y - 1) : b->zero;
    }
    for (int c = 0; c < 4; c++) r.p[c] = row_of(s, b, P0 + c, y);
    return r;
}

static void note_change(const SnlsTvl1Solver *s, const SnlsTvl1Band *b, int64_t y)
{
    double sum = 0;
    if (y < b->first || y >= b->end) return;
    for (int64_t x = 0; x < s->width; x++) sum += b->row[0][x];
    s->change[y] = sum;
}

/* Step y of iteration k of a batch: u of row y, then the duals of the row above, whose lower neighbour is now known. An
 * overlap loses a row at either end with every iteration, since its neighbours are no longer right. */
static void band_step(const SnlsFlowJob *job, const SnlsTvl1Solver *s, const SnlsTvl1Band *b, int32_t k, int64_t y,
                      bool last)
{
    const int64_t low = b->low ? b->low + k + 1 : 0, high = b->high < s->height ? b->high - k : s->height;
    if (y >= low && y < high) {
        const SnlsTvl1Row row = solver_row(s, b, y);
        job->loops.primal(&row, s->limit, s->theta, s->width);
        if (last) note_change(s, b, y);
    }
    if (y - 1 >= low && y - 1 < high && (y < high || y == s->height)) {
        const SnlsTvl1Row row = solver_row(s, b, y - 1);
        const int64_t below = y < s->height ? y : y - 1;
        const float *const rows[2] = { row_of(s, b, U, below), row_of(s, b, V, below) };
        job->loops.dual(&row, rows, s->step, s->width);
    }
}

static void band_batch(const SnlsFlowJob *job, const SnlsTvl1Solver *s, const SnlsTvl1Band *b, int32_t count)
{
    for (int64_t front = b->low; front <= b->high + count - 1; front++)
        for (int32_t k = 0; k < count; k++)
            if (front - k >= b->low && front - k <= b->high) band_step(job, s, b, k, front - k, k == count - 1);
}

/* Overlaps take what the neighbours computed. */
static void exchange(const SnlsTvl1Solver *s, const SnlsTvl1Band *b)
{
    for (int side = -1; side <= 1; side += 2) {
        const SnlsTvl1Band *other = b + side;
        const int64_t first = side < 0 ? b->low : b->end, rows = side < 0 ? b->first - b->low : b->high - b->end;
        for (int a = U; rows > 0 && a <= P3; a++)
            memcpy(row_of(s, b, a, first), row_of(s, other, a, first), (size_t)(rows * s->width) * sizeof(float));
    }
}

/* Frame `to` and its gradient at the flow so far, for all rows of a band. */
static void band_warp(const SnlsFlowJob *job, const SnlsTvl1Solver *s, const SnlsTvl1Band *b,
                      const SnlsTvl1Scale *scale)
{
    const int64_t stride = s->width + 2 * SNLS_TVL1_PAD;
    const SnlsFlowImage image = { s->pixels + 4 * (SNLS_TVL1_PAD * stride + SNLS_TVL1_PAD), s->width, s->height, stride,
                                  s->width };
    for (int64_t y = b->low; y < b->high; y++) {
        float *const out[3] = { b->row[1], row_of(s, b, GX, y), row_of(s, b, GY, y) };
        const SnlsTvl1Row row = solver_row(s, b, y);
        job->loops.bicubic_pixels(out, &image, row.u[0], row.u[1], y);
        job->loops.data_term(&row, row_of(s, b, REST, y), row_of(s, b, INVERSE, y), b->row[1],
                             snls_plane_row(&scale->from, y), s->width);
    }
}

/* Row y of the second frame as pixels: value, gradient (halved differences, the border repeated), nothing. */
static void pixel_row(const SnlsTvl1Solver *s, const SnlsPlane *to, int64_t y)
{
    const int64_t stride = s->width + 2 * SNLS_TVL1_PAD, last = s->width - 1, at = snls_clamp_index(y, s->height);
    const float *row = snls_plane_row(to, at), *above = snls_plane_row(to, snls_clamp_index(at - 1, s->height)),
                *below = snls_plane_row(to, snls_clamp_index(at + 1, s->height));
    float *out = s->pixels + 4 * (y + SNLS_TVL1_PAD) * stride;
    for (int64_t i = 0; i < stride; i++) {
        const int64_t x = snls_clamp_index(i - SNLS_TVL1_PAD, s->width);
        out[4 * i] = row[x];
        out[4 * i + 1] = 0.5f * (row[x < last ? x + 1 : x] - row[x > 0 ? x - 1 : x]);
        out[4 * i + 2] = 0.5f * (below[x] - above[x]);
        out[4 * i + 3] = 0;
    }
}

static void band_begin(const SnlsTvl1Solver *s, const SnlsTvl1Band *b, const SnlsTvl1Scale *scale)
{
    const size_t bytes = (size_t)s->width * sizeof(float);
    for (int64_t y = b->low; y < b->high; y++) {
        memcpy(row_of(s, b, U, y), snls_plane_row(&scale->u, y), bytes);
        memcpy(row_of(s, b, V, y), snls_plane_row(&scale->v, y), bytes);
    }
    for (int a = P0; a <= P3; a++) memset(b->array[a], 0, (size_t)(b->high - b->low) * bytes);
    memset(b->zero, 0, bytes);
}

static void band_end(const SnlsTvl1Solver *s, const SnlsTvl1Band *b, const SnlsTvl1Scale *scale)
{
    const size_t bytes = (size_t)s->width * sizeof(float);
    for (int64_t y = b->first; y < b->end; y++) {
        memcpy(snls_plane_row(&scale->u, y), row_of(s, b, U, y), bytes);
        memcpy(snls_plane_row(&scale->v, y), row_of(s, b, V, y), bytes);
    }
}

static double mean_change(const SnlsTvl1Solver *s)
{
    double sum = 0;
    for (int64_t y = 0; y < s->height; y++) sum += s->change[y];
    return sum / ((double)s->height * (double)s->width);
}

static void iterate(const SnlsFlowJob *job, SnlsTvl1Solver *s, int32_t iterations, double tolerance)
{
    for (int32_t done = 0; done < iterations;) {
        const int32_t count = iterations - done < SNLS_TVL1_BATCH ? iterations - done : SNLS_TVL1_BATCH;
#pragma omp parallel for num_threads(job->threads) schedule(static)
        for (int i = 0; i < s->bands; i++) band_batch(job, s, &s->band[i], count);
        for (int i = 0; i < s->bands; i++) exchange(s, &s->band[i]);
        done += count;
        if (mean_change(s) <= tolerance) break;
    }
}

void snls_tvl1_solve(const SnlsFlowJob *job, SnlsTvl1Solver *s, const SnlsTvl1Scale *scale, int32_t warps,
                     int32_t iterations, double tolerance)
{
    cut_bands(job, s, scale->u.height, scale->u.width);
#pragma omp parallel for num_threads(job->threads) schedule(static)
    for (int64_t y = -SNLS_TVL1_PAD; y < s->height + SNLS_TVL1_PAD; y++) pixel_row(s, &scale->to, y);
    for (int i = 0; i < s->bands; i++) band_begin(s, &s->band[i], scale);
    for (int32_t w = 0; w < warps; w++) {
#pragma omp parallel for num_threads(job->threads) schedule(static)
        for (int i = 0; i < s->bands; i++) band_warp(job, s, &s->band[i], scale);
        iterate(job, s, iterations, tolerance);
    }
    for (int i = 0; i < s->bands; i++) band_end(s, &s->band[i], scale);
}
