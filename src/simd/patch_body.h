/* patch_body.h: mix, dot_patch and (spread_body.h) spread_patch of dsp.h, written once. Included by a file that defines, for its instruction
 * set: LANES, Vec, Mask, v_mask(r) the first r lanes, v_load v_load_part(p, mask) v_store v_store_part(p, mask, x),
 * v_set v_zero v_add v_fma(a,b,c) = a*b+c, v_sum4(a,b,c,d) the sums of four, v_store4 for these;
 * V_REGISTER, the constraint of a vector register; VECTOR_REGISTERS, how many there are; WIDE, whether that is enough for eight of a
 * single pixel beside each other; APART, static for loops that fill the registers.
 * Pixels are walked in chunks of two registers, then in single ones under a mask. Constants select the code: shape,
 * whole (two registers, no mask) and the length of a run. */

#include "simd/unroll.h"
#include <string.h>

#define UNROLL UNROLLED(4)
#define EIGHT UNROLLED(8)
#define NINE UNROLLED(9)
#define ROOMY (VECTOR_REGISTERS >= 32 && !WIDE) /* registers for the pixels of a patch of three by three and the sixteen around a place */
#define HELD(x) __asm__("" : V_REGISTER(x)) /* read once, not once for each use: loads are what runs out */

ALWAYS Vec read_vec(const float *p, int whole, Mask mask) { return whole ? v_load(p) : v_load_part(p, mask); }

ALWAYS void write_vec(float *p, Vec x, int whole, Mask mask)
{
    if (whole) v_store(p, x);
    else v_store_part(p, mask, x);
}

/* Reads of neighbours come in no order that a processor could foresee, the first one of a pixel from memory. */
ALWAYS void ask_ahead(const SnlsRun *run, const SnlsGrid *grid, ptrdiff_t q, ptrdiff_t c, const int vectors)
{
    if (!run->ahead) return;
    const float *const at = run->ahead + q * grid->right + c;
    for (int i = 0; i < vectors * LANES; i += 16) __builtin_prefetch(at + i, 0, 2);
}

#if WIDE
#    include "simd/wide_body.h"
#endif

/* ---- mix: the sums of a block of up to three by three pixels stay in registers over all places; a pixel of the grid is
 * read once for up to four of them. Each sum takes its four taps in reading order, whatever the block, so that results do
 * not depend on how a patch is cut. Only a single pixel has a register for each tap: one chain would be too slow. ---- */

enum { LONGEST = 3 };

/* Registers a pixel: as many as there is room for. */
#define VECTORS(rows, run) (VECTOR_REGISTERS < 32 && (rows) * (run) > 4 ? 1 : 2)

ALWAYS void mix_chunk(float *out, const SnlsPatch *patch, const SnlsPlaces *from, ptrdiff_t k, ptrdiff_t end, ptrdiff_t shift, const SnlsGrid *grid,
                      const int rows, const int run, const int shape, const int vectors, const int whole, Mask mask)
{
    const int lower = shape >> 1, beside = shape & 1;
    const ptrdiff_t right = grid->right, down = grid->down;
    const float *const *const at = from->at, *const w0 = from->w[0], *const w1 = from->w[1], *const w2 = from->w[2], *const w3 = from->w[3];
    Vec sum[LONGEST][LONGEST][2];
    UNROLL for (int r = 0; r < rows; r++)
        UNROLL for (int p = 0; p < run; p++)
            UNROLL for (int v = 0; v < vectors; v++) sum[r][p][v] = v_zero();
    for (; k < end; k++) {
        const Vec a = v_set(w0[k]), b = beside ? v_set(w1[k]) : a, c = lower ? v_set(w2[k]) : a, d = shape == 3 ? v_set(w3[k]) : a;
        const float *row = at[k] + shift;
        UNROLL for (int r = 0; r < rows + lower; r++, row += down) {
            OPAQUE(row);
            UNROLL for (int p = 0; p < run + beside; p++)
                UNROLL for (int v = 0; v < vectors; v++) {
                    Vec x = read_vec(row + p * right + v * LANES, whole, mask);
                    HELD(x);
                    if (r < rows && p < run) sum[r][p][v] = v_fma(a, x, sum[r][p][v]);
                    if (beside && r < rows && p > 0) sum[r][p - 1][v] = v_fma(b, x, sum[r][p - 1][v]);
                    if (lower && r > 0 && p < run) sum[r - 1][p][v] = v_fma(c, x, sum[r - 1][p][v]);
                    if (shape == 3 && r > 0 && p > 0) sum[r - 1][p - 1][v] = v_fma(d, x, sum[r - 1][p - 1][v]);
                }
        }
    }
    UNROLL for (int r = 0; r < rows; r++)
        UNROLL for (int p = 0; p < run; p++)
            UNROLL for (int v = 0; v < vectors; v++) {
                float *const to = out + r * patch->down + p * patch->right + v * LANES;
                write_vec(to, v_add(read_vec(to, whole, mask), sum[r][p][v]), whole, mask);
            }
}

ALWAYS void mix_one_chunk(float *out, const SnlsPlaces *from, ptrdiff_t k, ptrdiff_t end, ptrdiff_t shift, const SnlsGrid *grid, const int shape, const int vectors,
                          const int whole, Mask mask, const int set)
{
    const int lower = shape >> 1, beside = shape & 1;
    ptrdiff_t right = grid->right, down = grid->down;
    const float *const *const at = from->at, *const w0 = from->w[0], *const w1 = from->w[1], *const w2 = from->w[2], *const w3 = from->w[3];
    Vec sum[4][2];
    OPAQUE(right); /* addresses from two rows on, not one register for each of eight */
    OPAQUE(down);
    UNROLL for (int m = 0; m < 4; m++) sum[m][0] = sum[m][1] = v_zero();
    for (; k < end; k++) {
        const float *row = at[k] + shift;
        const Vec a = v_set(w0[k]), b = beside ? v_set(w1[k]) : a, c = lower ? v_set(w2[k]) : a, d = shape == 3 ? v_set(w3[k]) : a;
        OPAQUE(row);
        UNROLL for (int v = 0; v < vectors; v++) sum[0][v] = v_fma(a, read_vec(row + v * LANES, whole, mask), sum[0][v]);
        UNROLL for (int v = 0; beside && v < vectors; v++) sum[1][v] = v_fma(b, read_vec(row + right + v * LANES, whole, mask), sum[1][v]);
        row += down;
        OPAQUE(row);
        UNROLL for (int v = 0; lower && v < vectors; v++) sum[2][v] = v_fma(c, read_vec(row + v * LANES, whole, mask), sum[2][v]);
        UNROLL for (int v = 0; shape == 3 && v < vectors; v++) sum[3][v] = v_fma(d, read_vec(row + right + v * LANES, whole, mask), sum[3][v]);
    }
    UNROLL for (int v = 0; v < vectors; v++) {
        const Vec x = v_add(v_add(sum[0][v], sum[1][v]), v_add(sum[2][v], sum[3][v]));
        write_vec(out + v * LANES, set ? x : v_add(read_vec(out + v * LANES, whole, mask), x), whole, mask);
    }
}

ALWAYS void mix_block(float *out, const SnlsPatch *patch, const SnlsPlaces *from, ptrdiff_t k, ptrdiff_t end, ptrdiff_t shift, const SnlsGrid *grid, const int rows,
                      const int run, const int shape)
{
    const int vectors = VECTORS(rows, run);
    const ptrdiff_t chunk = vectors * LANES, n = grid->n;
    ptrdiff_t i = 0;
#if WIDE
    for (; run == 1 && i + 8 * LANES <= n; i += 8 * LANES) mix_one_wide(out + i, from, k, end, end, shift + i, grid, shape, 8, 0);
    for (; run == 1 && i + 4 * LANES <= n; i += 4 * LANES) mix_one_wide(out + i, from, k, end, end, shift + i, grid, shape, 4, 0);
#endif
    for (; i + chunk <= n; i += chunk) {
        if (run == 1) mix_one_chunk(out + i, from, k, end, shift + i, grid, shape, vectors, 1, v_mask(LANES), 0);
        else mix_chunk(out + i, patch, from, k, end, shift + i, grid, rows, run, shape, vectors, 1, v_mask(LANES));
    }
    for (; i < n; i += LANES) {
        const Mask mask = v_mask(n - i);
        if (run == 1) mix_one_chunk(out + i, from, k, end, shift + i, grid, shape, 1, 0, mask, 0);
        else mix_chunk(out + i, patch, from, k, end, shift + i, grid, rows, run, shape, 1, 0, mask);
    }
}

typedef void MixBlock(float *out, const SnlsPatch *patch, const SnlsPlaces *from, ptrdiff_t k, ptrdiff_t end, ptrdiff_t shift, const SnlsGrid *grid);

#define MIX(rows, run, shape)                                                                                                                      \
    static void mix_##rows##_##run##_##shape(float *out, const SnlsPatch *patch, const SnlsPlaces *from, ptrdiff_t k, ptrdiff_t end, ptrdiff_t shift, \
                                             const SnlsGrid *grid)                                                                                 \
    {                                                                                                                                              \
        mix_block(out, patch, from, k, end, shift, grid, rows, run, shape);                                                                        \
    }
#define MIX_SHAPES(rows, run) MIX(rows, run, 0) MIX(rows, run, 1) MIX(rows, run, 2) MIX(rows, run, 3)
#define MIX_NAMES(rows, run) { mix_##rows##_##run##_0, mix_##rows##_##run##_1, mix_##rows##_##run##_2, mix_##rows##_##run##_3 }
MIX_SHAPES(1, 1)
MIX_SHAPES(1, 2)
MIX_SHAPES(1, 3)
MIX_SHAPES(2, 2)
MIX_SHAPES(2, 3)
MIX_SHAPES(3, 3)

/* By rows and run: a single column has single pixels, two columns have at most two rows. */
static MixBlock *const mix_of[LONGEST][LONGEST][4] = {
    { MIX_NAMES(1, 1), MIX_NAMES(1, 2), MIX_NAMES(1, 3) },
    { { 0 }, MIX_NAMES(2, 2), MIX_NAMES(2, 3) },
    { { 0 }, { 0 }, MIX_NAMES(3, 3) },
};
#undef MIX_NAMES
#undef MIX_SHAPES
#undef MIX

static void mix(float *out, const SnlsPatch *patch, const SnlsPlaces *from, ptrdiff_t i, ptrdiff_t count, ptrdiff_t shift, const SnlsGrid *grid)
{
    for (ptrdiff_t s = 0, run; s < patch->run; s += run) {
        run = patch->run - s < LONGEST ? patch->run - s : LONGEST;
        for (ptrdiff_t r = 0, rows; r < patch->rows; r += rows) {
            rows = patch->rows - r < run ? patch->rows - r : run;
            mix_of[rows - 1][run - 1][grid->shape](out + r * patch->down + s * patch->right, patch, from, i, i + count,
                                                   shift + r * grid->down + s * grid->right, grid);
        }
    }
}

/* Runs of single pixels, which one query alone writes: all of a chunk of channels, then the next. */
ALWAYS void set_pixels(float *out, const SnlsRun *run, const SnlsPlaces *from, ptrdiff_t i, ptrdiff_t shift, const SnlsGrid *grid, const int shape)
{
    const ptrdiff_t n = grid->n;
    ptrdiff_t c = 0;
#if WIDE
    c = set_wide(out, run, from, i, c, shift, grid, shape, 8);
    c = set_wide(out, run, from, i, c, shift, grid, shape, 4);
#endif
    for (; c + 2 * LANES <= n; c += 2 * LANES)
        for (ptrdiff_t q = 0; q < run->queries; q++) {
            ask_ahead(run, grid, q, c, 2);
            mix_one_chunk(out + q * run->step + c, from, i + q * run->places, i + q * run->places + run->count, shift + c, grid, shape, 2, 1, v_mask(LANES), 1);
        }
    for (; c < n; c += LANES)
        for (ptrdiff_t q = 0; q < run->queries; q++)
            mix_one_chunk(out + q * run->step + c, from, i + q * run->places, i + q * run->places + run->count, shift + c, grid, shape, 1, 0, v_mask(n - c), 1);
}

/* Runs of patches of three by three, between pixels: what every query would set up anew is in registers. */
APART void mix_threes(float *out, const SnlsPatch *patch, const SnlsRun *run, const SnlsPlaces *from, ptrdiff_t i, ptrdiff_t shift, const SnlsGrid *grid)
{
    enum { VECTORS_3 = VECTORS(3, 3) };
    const SnlsPlaces places = *from; /* lest what is written be thought to change them */
    const SnlsPatch three = *patch;
    const SnlsGrid g = *grid;
    const SnlsRun r = *run;
    ptrdiff_t c = 0;
#if WIDE /* a chunk is less than a cache line: the next one at once */
    const ptrdiff_t whole = g.n / (VECTORS_3 * LANES) * (VECTORS_3 * LANES);
    const int fight = rows_fight(&g) && g.n % (8 * LANES) == 0;
    for (ptrdiff_t q = 0; q < r.queries; q++) {
        const ptrdiff_t k = i + q * r.places, end = k + r.count;
        if (fight) ask_ahead(&r, &g, q, 0, (int)(g.n / LANES));
        for (c = fight ? mix_rows_wide(out + q * r.step, &three, &places, k, end, shift, &g) : 0; c < whole; c += VECTORS_3 * LANES) {
            if (c % 16 == 0) ask_ahead(&r, &g, q, c, VECTORS_3);
            mix_chunk(out + q * r.step + c, &three, &places, k, end, shift + c, &g, 3, 3, 3, VECTORS_3, 1, v_mask(LANES));
        }
    }
    c = whole;
#endif
    for (; c + VECTORS_3 * LANES <= g.n; c += VECTORS_3 * LANES)
        for (ptrdiff_t q = 0; q < r.queries; q++) {
            ask_ahead(&r, &g, q, c, VECTORS_3);
            mix_chunk(out + q * r.step + c, &three, &places, i + q * r.places, i + q * r.places + r.count, shift + c, &g, 3, 3, 3, VECTORS_3, 1, v_mask(LANES));
        }
    for (; c < g.n; c += LANES)
        for (ptrdiff_t q = 0; q < r.queries; q++)
            mix_chunk(out + q * r.step + c, &three, &places, i + q * r.places, i + q * r.places + r.count, shift + c, &g, 3, 3, 3, 1, 0, v_mask(g.n - c));
}

static void mix_run(float *out, const SnlsPatch *patch, const SnlsRun *run, const SnlsPlaces *from, ptrdiff_t i, ptrdiff_t shift, const SnlsGrid *grid)
{
    if (run->set && grid->shape == 0) set_pixels(out, run, from, i, shift, grid, 0);
    else if (run->set && grid->shape == 1) set_pixels(out, run, from, i, shift, grid, 1);
    else if (run->set && grid->shape == 2) set_pixels(out, run, from, i, shift, grid, 2);
    else if (run->set) set_pixels(out, run, from, i, shift, grid, 3);
    else if (patch->rows == 3 && patch->run == 3 && grid->shape == 3) mix_threes(out, patch, run, from, i, shift, grid);
    else for (ptrdiff_t q = 0; q < run->queries; q++) mix(out + q * run->step, patch, from, i + q * run->places, run->count, shift, grid);
}

/* ---- mix_bent: pixels in the order of mix, and so the same bits wherever a patch is cut ---- */

ALWAYS Vec bent_pixel(const float *const *row, const ptrdiff_t *column, const Vec w[4], const int shape, const int whole, Mask mask)
{
    Vec sum = v_zero();
    UNROLL for (int m = 0; m < 4; m++)
        if ((m & shape) == m) sum = v_fma(w[m], read_vec(row[m >> 1] + column[m & 1], whole, mask), sum);
    return sum;
}

ALWAYS void bent_row(float *out, ptrdiff_t along, ptrdiff_t run, const float *const *row, const ptrdiff_t *column, const Vec w[4], ptrdiff_t n, const int shape)
{
    const float *rows[2] = { row[0], shape >> 1 ? row[1] : row[0] };
    for (ptrdiff_t s = 0; s < run; s++, out += along, column++) {
        ptrdiff_t i = 0;
        for (; i + LANES <= n; i += LANES) {
            const float *const at[2] = { rows[0] + i, rows[1] + i };
            v_store(out + i, v_add(v_load(out + i), bent_pixel(at, column, w, shape, 1, v_mask(LANES))));
        }
        if (i == n) continue;
        const float *const at[2] = { rows[0] + i, rows[1] + i };
        const Mask mask = v_mask(n - i);
        v_store_part(out + i, mask, v_add(v_load_part(out + i, mask), bent_pixel(at, column, w, shape, 0, mask)));
    }
}

static void mix_bent(float *out, const SnlsPatch *patch, const float *const *row, const ptrdiff_t *column, const float w[4], const SnlsGrid *grid)
{
    const Vec by[4] = { v_set(w[0]), v_set(w[1]), v_set(w[2]), v_set(w[3]) };
    const ptrdiff_t right = patch->right, run = patch->run, n = grid->n;
    for (ptrdiff_t r = 0; r < patch->rows; r++, out += patch->down, row++) {
        if (grid->shape == 0) bent_row(out, right, run, row, column, by, n, 0);
        else if (grid->shape == 1) bent_row(out, right, run, row, column, by, n, 1);
        else if (grid->shape == 2) bent_row(out, right, run, row, column, by, n, 2);
        else bent_row(out, right, run, row, column, by, n, 3);
    }
}

/* ---- dot_patch: <g, left pixel> and <g before, the same pixel> share the pixel; one sum over the lanes at the end ---- */

ALWAYS void dot_row_of(Vec sum[4][2], const float *g, ptrdiff_t step, const float *at, ptrdiff_t run, const SnlsGrid *grid, const int shape, const int whole,
                       Mask mask)
{
    const int rows = 1 + (shape >> 1), columns = 1 + (shape & 1), vectors = whole ? 2 : 1;
    Vec x[2][2];
    UNROLL for (int a = 0; a < rows; a++)
        UNROLL for (int v = 0; v < vectors; v++) x[a][v] = read_vec(at + a * grid->down + v * LANES, whole, mask);
    for (; run > 0; run--, g += step) {
        at += grid->right;
        UNROLL for (int v = 0; v < vectors; v++) {
            const Vec y = read_vec(g + v * LANES, whole, mask);
            UNROLL for (int a = 0; a < rows; a++) {
                sum[2 * a][v] = v_fma(y, x[a][v], sum[2 * a][v]);
                if (columns == 2) x[a][v] = read_vec(at + a * grid->down + v * LANES, whole, mask);
                if (columns == 2) sum[2 * a + 1][v] = v_fma(y, x[a][v], sum[2 * a + 1][v]);
                else if (run > 1) x[a][v] = read_vec(at + a * grid->down + v * LANES, whole, mask);
            }
        }
    }
}

ALWAYS void dot_end(float *out, Vec sum[4][2])
{
    v_store4(out, v_sum4(v_add(sum[0][0], sum[0][1]), v_add(sum[1][0], sum[1][1]), v_add(sum[2][0], sum[2][1]), v_add(sum[3][0], sum[3][1])));
}

/* rows, run: those of the patch, as constants where there are loops of their own for them. */
ALWAYS void dot_place(float *out, const float *at, const float *g, const SnlsPatch *patch, const SnlsGrid *grid, const ptrdiff_t rows, const ptrdiff_t run, const int shape)
{
    Vec sum[4][2];
    UNROLL for (int m = 0; m < 4; m++) sum[m][0] = sum[m][1] = v_zero();
    for (ptrdiff_t r = 0; r < rows; r++, g += patch->down, at += grid->down) {
        ptrdiff_t i = 0;
#if WIDE
        if (run == 1) i = dot_wide(sum, g, at, grid, shape);
#endif
        for (; i + 2 * LANES <= grid->n; i += 2 * LANES) dot_row_of(sum, g + i, patch->right, at + i, run, grid, shape, 1, v_mask(LANES));
        for (; i < grid->n; i += LANES) dot_row_of(sum, g + i, patch->right, at + i, run, grid, shape, 0, v_mask(grid->n - i));
    }
    dot_end(out, sum);
}

#if ROOMY
/* Three by three: a pixel of the grid is read once for up to four products. */
ALWAYS void dot_nine(float *out, const float *at, const float *g, const SnlsPatch *patch, const SnlsGrid *grid, const int shape)
{
    const int lower = shape >> 1, beside = shape & 1;
    ptrdiff_t right = grid->right, down = grid->down, triple = 3 * right, step = patch->right, next = patch->down;
    Vec sum[4][2], y[3][3];
    OPAQUE(right); /* addresses from rows on, not one register for each of 25 */
    OPAQUE(down);
    OPAQUE(triple);
    OPAQUE(step);
    OPAQUE(next);
    UNROLL for (int m = 0; m < 4; m++) sum[m][0] = sum[m][1] = v_zero();
    for (ptrdiff_t i = 0; i < grid->n; i += LANES) {
        const float *row = at + i, *from = g + i;
        UNROLL for (int r = 0; r < 3 + lower; r++, row += down, from += next) {
            OPAQUE(row);
            OPAQUE(from);
            UNROLL for (int p = 0; r < 3 && p < 3; p++) {
                y[r][p] = v_load(from + p * step);
                HELD(y[r][p]);
            }
            UNROLL for (int p = 0; p < 3 + beside; p++) {
                Vec x = v_load(row + (p < 3 ? p * right : triple));
                HELD(x);
                if (r < 3 && p < 3) sum[0][r & 1] = v_fma(y[r][p], x, sum[0][r & 1]);
                if (beside && r < 3 && p > 0) sum[1][r & 1] = v_fma(y[r][p - 1], x, sum[1][r & 1]);
                if (lower && r > 0 && p < 3) sum[2][r & 1] = v_fma(y[r - 1][p], x, sum[2][r & 1]);
                if (shape == 3 && r > 0 && p > 0) sum[3][r & 1] = v_fma(y[r - 1][p - 1], x, sum[3][r & 1]);
            }
        }
    }
    dot_end(out, sum);
}
#endif

typedef float Four __attribute__((vector_size(16)));

/* Pixels of a single float against ones, which is what belongs to the accumulated weight: of one pixel, or of three by three between pixels. */
ALWAYS int are_ones(const float *g, const SnlsPatch *patch, const SnlsGrid *grid, const int shape)
{
    if (grid->n != 1 || patch->right || patch->down || *g != 1) return 0;
    return (patch->rows == 1 && patch->run == 1) || (patch->rows == 3 && patch->run == 3 && shape == 3 && grid->right == 1);
}

ALWAYS void dot_ones(float *out, const float *at, const SnlsPatch *patch, const SnlsGrid *grid, const int shape)
{
    const ptrdiff_t right = grid->right, down = grid->down;
    Four row[4], upper, lower;
    if (patch->rows == 1) {
        for (int m = 0; m < 4; m++) out[m] = (m & shape) == m ? at[(m & 1) * right + (m >> 1) * down] : 0;
        return;
    }
    UNROLL for (int r = 0; r < 4; r++) memcpy(&row[r], at + r * down, sizeof row[r]);
    upper = row[0] + (row[1] + row[2]), lower = (row[1] + row[2]) + row[3];
    out[0] = upper[0] + (upper[1] + upper[2]), out[1] = (upper[1] + upper[2]) + upper[3];
    out[2] = lower[0] + (lower[1] + lower[2]), out[3] = (lower[1] + lower[2]) + lower[3];
}

ALWAYS void dot_places(float *out, const SnlsPlaces *from, ptrdiff_t count, ptrdiff_t shift, const float *g, const SnlsPatch *patch, const SnlsGrid *grid,
                       const int shape)
{
    const int single = patch->rows == 1 && patch->run == 1, ones = are_ones(g, patch, grid, shape);
    for (ptrdiff_t i = 0; ones && i < count; i++) dot_ones(out + 4 * i, from->at[i] + shift, patch, grid, shape);
    for (ptrdiff_t i = 0; !ones && i < count; i++) {
        const float *const at = from->at[i] + shift, *const by = g + from->k[i] * patch->of_k;
#if WIDE
        if (single && grid->n >= 8 * LANES) ask_taps(from->at[i + SOON < count ? i + SOON : i] + shift, grid, shape, 8 * LANES, 0);
#endif
#if ROOMY
        if (patch->rows == 3 && patch->run == 3 && grid->n % LANES == 0) {
            dot_nine(out + 4 * i, at, by, patch, grid, shape);
            continue;
        }
#endif
        if (single) dot_place(out + 4 * i, at, by, patch, grid, 1, 1, shape);
        else dot_place(out + 4 * i, at, by, patch, grid, patch->rows, patch->run, shape);
    }
}

static void dot_patch(float *out, const SnlsPlaces *from, ptrdiff_t count, ptrdiff_t shift, const float *g, const SnlsPatch *patch, const SnlsGrid *grid)
{
    if (grid->shape == 0) dot_places(out, from, count, shift, g, patch, grid, 0);
    else if (grid->shape == 1) dot_places(out, from, count, shift, g, patch, grid, 1);
    else if (grid->shape == 2) dot_places(out, from, count, shift, g, patch, grid, 2);
    else dot_places(out, from, count, shift, g, patch, grid, 3);
}

#include "simd/spread_body.h"
