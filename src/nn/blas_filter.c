/* blas_filter.c: tiles, their windows, and the products. The rows that a row of taps meets follow one another in memory, so that there is one
 * product for each row of taps and group, whatever the step. */
#include "nn/blas_filter.h"
#ifdef SNLS_HAVE_LAPACK
#include "nn/blas_quick.h"
#include "nn/cpu.h"

void sgemm_(const char *turn_a, const char *turn_b, const int *m, const int *n, const int *k, const float *alpha, const float *a, const int *lda,
            const float *b, const int *ldb, const float *beta, float *c, const int *ldc);

/* ---- tiles ---- */

enum { MOST_COLUMNS = 64, PIXELS = 512, QUICK_PIXELS = 1024, WINDOW_FLOATS = 128 << 10 }; /* floats: half of a second cache of 1 MB */

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t pieces(int64_t count, int64_t most) { return (count + most - 1) / most; }

/* Rows of `from` that a tile of so many rows sees come in `step` groups, those that the same tap row meets together. */
static int64_t group_rows(const NnFilter *f, int64_t rows) { return pieces((rows - 1) * f->step + f->taps[0], f->step); }

static int64_t window(const NnFilter *f) { return f->taps[1] * f->in; }

/* ---- quick ones ---- */

enum { FEWEST_CHANNELS = 16 }; /* with fewer, products take no longer than what is around them */

static int64_t quads(int64_t columns) { return pieces(columns, NN_QUICK_RESULTS); }

static int64_t quick_row_floats(const NnFilter *f, int64_t columns) { return (quads(columns) * NN_QUICK_RESULTS + NN_QUICK_TAPS - 1) * f->groups * f->in; }

static int64_t quick_window_floats(const NnFilter *f, int64_t rows, int64_t columns) { return f->groups * NN_QUICK_PRODUCTS * group_rows(f, rows) * quads(columns) * f->in + quick_row_floats(f, columns); }

bool snls_nn_filter_may_be_quick(const NnFilter *f)
{
    return f->step == 1 && f->taps[1] == NN_QUICK_TAPS && f->in >= FEWEST_CHANNELS && f->out >= FEWEST_CHANNELS && f->count[1] >= NN_QUICK_RESULTS;
}

int64_t snls_nn_filter_quick_floats(const NnFilter *f) { return f->taps[0] * f->groups * NN_QUICK_PRODUCTS * f->in * f->out; }

void snls_nn_filter_quick_weights(const NnFilter *f, const float *weights, float *quick)
{
    const int64_t size = f->in * f->out;
    for (int64_t i = 0; i < f->taps[0] * f->groups; i++) snls_nn_quick_weights(weights + i * NN_QUICK_TAPS * size, quick + i * NN_QUICK_PRODUCTS * size, size);
}

/* The numbers that a product reads, of all quads of a row. */
static float *quick_row(const NnFilter *f, const NnTile *t, const float *windows, int64_t group, int64_t product, int64_t row)
{
    return (float *)(uintptr_t)windows + ((group * NN_QUICK_PRODUCTS + product) * group_rows(f, t->rows) + row) * quads(t->columns) * f->in;
}

/* ---- tiles ---- */

static int64_t floats_of(const NnFilter *f, int64_t rows, int64_t columns)
{
    return f->quick ? quick_window_floats(f, rows, columns) : f->groups * f->step * group_rows(f, rows) * columns * window(f);
}

void snls_nn_filter_tiles(NnFilter *f)
{
    f->tile[1] = pieces(f->count[1], pieces(f->count[1], MOST_COLUMNS));
    if (f->quick) f->tile[1] = quads(f->tile[1]) * NN_QUICK_RESULTS;
    int64_t rows = (f->quick ? QUICK_PIXELS : PIXELS) / f->tile[1];
    if (rows > f->count[0]) rows = f->count[0];
    while (rows > 1 && floats_of(f, rows, f->tile[1]) > WINDOW_FLOATS) rows--;
    f->tile[0] = pieces(f->count[0], pieces(f->count[0], rows));
}

static int64_t across(const NnFilter *f) { return pieces(f->count[1], f->tile[1]); }
static int64_t down(const NnFilter *f) { return pieces(f->count[0], f->tile[0]); }

int64_t snls_nn_filter_count(const NnFilter *f) { return f->from.shape[0] * down(f) * across(f); }

NnTile snls_nn_filter_tile(const NnFilter *f, int64_t i)
{
    NnTile t = { .n = i / across(f) / down(f), .y = i / across(f) % down(f) * f->tile[0], .x = i % across(f) * f->tile[1] };
    t.rows = least(f->tile[0], f->count[0] - t.y), t.columns = least(f->tile[1], f->count[1] - t.x);
    return t;
}

int64_t snls_nn_filter_window_floats(const NnFilter *f) { return floats_of(f, f->tile[0], f->tile[1]); }
int64_t snls_nn_filter_sum_floats(const NnFilter *f)
{
    const int64_t channels = f->groups * f->out, made_of = f->quick ? NN_QUICK_PRODUCTS * quads(f->tile[1]) : 0;
    return f->tile[0] * (f->tile[1] + made_of) * channels;
}

/* ---- windows ---- */

static float *window_row(const NnFilter *f, const NnTile *t, const float *windows, int64_t group, int64_t row)
{
    const int64_t each = group_rows(f, t->rows), place = (group * f->step + row % f->step) * each + row / f->step;
    return (float *)(uintptr_t)windows + place * t->columns * window(f);
}

static void copy(const SnlsTensor *from, int64_t at, int64_t n, float *to)
{
    const float *row = snls_nn_row(from, at, n, to);
    if (row != to) memcpy(to, row, (size_t)n * sizeof *to);
}

/* One window; X: its first column, pixel: the number of the row's first pixel. */
static void load_window(const NnFilter *f, int64_t pixel, int64_t X, int64_t group, float *to)
{
    const int64_t W = f->from.shape[2], channels = f->from.shape[3];
    if (X >= 0 && X + f->taps[1] <= W && f->groups == 1) {
        copy(&f->from, (pixel + X) * channels, window(f), to);
        return;
    }
    for (int64_t tap = 0; tap < f->taps[1]; tap++, X++, to += f->in) {
        if (X >= 0 && X < W) copy(&f->from, (pixel + X) * channels + group * f->in, f->in, to);
        else memset(to, 0, (size_t)f->in * sizeof *to);
    }
}

/* Pixels X .. of a row, 0 outside. */
static void load_pixels(const NnFilter *f, int64_t pixel, int64_t X, int64_t count, float *to)
{
    const int64_t W = f->from.shape[2], channels = f->from.shape[3], before = X < 0 ? least(-X, count) : 0, end = least(count, W - X), inside = end > before ? end - before : 0;
    memset(to, 0, (size_t)(before * channels) * sizeof *to);
    if (inside) copy(&f->from, (pixel + X + before) * channels, inside * channels, to + before * channels);
    memset(to + (before + inside) * channels, 0, (size_t)((count - before - inside) * channels) * sizeof *to);
}

static void load_quick(const NnFilter *f, const NnTile *t, float *windows)
{
    const int64_t H = f->from.shape[1], rows = t->rows - 1 + f->taps[0], channels = f->groups * f->in, n = quads(t->columns), apart = group_rows(f, t->rows) * n * f->in;
    float *pixels = windows + f->groups * NN_QUICK_PRODUCTS * apart;
    for (int64_t row = 0; row < rows; row++) {
        const int64_t Y = t->y + f->origin[0] + row;
        const bool inside = Y >= 0 && Y < H;
        if (inside) load_pixels(f, (t->n * H + Y) * f->from.shape[2], t->x + f->origin[1], quick_row_floats(f, t->columns) / channels, pixels);
        for (int64_t group = 0; group < f->groups; group++)
            for (int64_t i = 0; i < (inside ? n : NN_QUICK_PRODUCTS); i++) {
                if (inside) snls_nn_quick_pixels(pixels + i * NN_QUICK_RESULTS * channels + group * f->in, channels, quick_row(f, t, windows, group, 0, row) + i * f->in, apart, f->in);
                else memset(quick_row(f, t, windows, group, i, row), 0, (size_t)(n * f->in) * sizeof *windows);
            }
    }
}

void snls_nn_filter_load(const NnFilter *f, const NnTile *t, float *windows)
{
    const int64_t H = f->from.shape[1], rows = (t->rows - 1) * f->step + f->taps[0];
    if (f->quick) {
        load_quick(f, t, windows);
        return;
    }
    for (int64_t group = 0; group < f->groups; group++)
        for (int64_t row = 0; row < rows; row++) {
            const int64_t Y = t->y * f->step + f->origin[0] + row;
            float *to = window_row(f, t, windows, group, row);
            if (Y < 0 || Y >= H) memset(to, 0, (size_t)(t->columns * window(f)) * sizeof *to);
            else
                for (int64_t x = 0; x < t->columns; x++) load_window(f, (t->n * H + Y) * f->from.shape[2], (t->x + x) * f->step + f->origin[1], group, to + x * window(f));
        }
}

/* ---- products ---- */

/* c (m x n) = op(a) * op(b) + beta * c, as Fortran counts: columns are pixels, or taps and channels */
typedef struct Product { const char *turn_b; int64_t m, n, k; const float *a, *b; float *c; int64_t lda, ldb, ldc; float beta; } Product;

static void multiply(const Product *p)
{
    const int m = (int)p->m, n = (int)p->n, k = (int)p->k, lda = (int)p->lda, ldb = (int)p->ldb, ldc = (int)p->ldc;
    const float one = 1;
    sgemm_("N", p->turn_b, &m, &n, &k, &one, p->a, &lda, p->b, &ldb, &p->beta, p->c, &ldc);
}

static void sum_quick(const NnFilter *f, const NnTile *t, const float *windows, float *sums)
{
    const int64_t channels = f->groups * f->out, n = quads(t->columns), size = f->in * f->out, apart = t->rows * n * channels;
    float *made_of = sums + f->tile[0] * f->tile[1] * channels;
    for (int64_t i = 0; i < NN_QUICK_PRODUCTS * f->groups * f->taps[0]; i++) { /* rows of taps that add to the same sums follow one another */
        const int64_t product = i / f->taps[0] / f->groups, group = i / f->taps[0] % f->groups, row = i % f->taps[0];
        multiply(&(Product){ "N", f->out, t->rows * n, f->in, f->weights + ((row * f->groups + group) * NN_QUICK_PRODUCTS + product) * size, quick_row(f, t, windows, group, product, row),
                             made_of + product * apart + group * f->out, f->out, f->in, channels, row > 0 });
    }
    for (int64_t i = 0; i < t->rows * n; i++) {
        const int64_t x = i % n * NN_QUICK_RESULTS;
        snls_nn_quick_results(made_of + i * channels, apart, sums + (i / n * t->columns + x) * channels, channels, t->columns - x);
    }
}

void snls_nn_filter_sum(const NnFilter *f, const NnTile *t, const float *windows, float *sums)
{
    const int64_t size = window(f) * f->out;
    if (f->quick) {
        sum_quick(f, t, windows, sums);
        return;
    }
    if (!f->taps[0] || !f->taps[1]) memset(sums, 0, (size_t)(t->rows * t->columns * f->groups * f->out) * sizeof *sums); /* a step longer than the kernel */
    for (int64_t i = 0; i < f->taps[0] * f->groups && f->taps[1]; i++) {
        const int64_t row = i / f->groups, group = i % f->groups;
        multiply(&(Product){ "N", f->out, t->rows * t->columns, window(f), f->weights + i * size, window_row(f, t, windows, group, row), sums + group * f->out,
                             f->out, window(f), f->groups * f->out, row > 0 });
    }
}

void snls_nn_filter_weights(const NnFilter *f, const NnTile *t, const float *windows, const float *pull, float *weights)
{
    const int64_t size = window(f) * f->out;
    for (int64_t i = 0; i < f->taps[0] * f->groups; i++) {
        const int64_t row = i / f->groups, group = i % f->groups;
        multiply(&(Product){ "T", f->out, window(f), t->rows * t->columns, pull + group * f->out, window_row(f, t, windows, group, row), weights + i * size,
                             f->groups * f->out, window(f), f->out, 1 });
    }
}
#else
typedef int snls_nn_no_filter; /* a file must hold something */
#endif
