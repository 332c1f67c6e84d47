/* test_patch.c: place, mix, mix_bent, dot_patch, spread_patch, spread_places, slopes, pull_patch, draw_patch and pull_pixel of the dsp table: every instruction set against plain sums in double.
 *   test_patch         many seeds        test_patch SEED   that one
 */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "dsp.h"
#include "op/geometry.h"

enum { PLACES = 3, PATCH = 4 };

/* A grid of pixels for each place; those not in shape and the gaps are NaN. video[i] is pixel (0, 0). */
typedef struct PatchCase {
    SnlsGrid grid;
    SnlsPatch patch;
    ptrdiff_t count, shift, floats;
    float *video[PLACES], w[4][PLACES], *g;
    const float *at[PLACES];
    int64_t k[PLACES];
} PatchCase;

static float *grid_fill(Test *t, int block, const PatchCase *c, int kind)
{
    float *const p = place(t->in[block], &t->rng, c->floats, sizeof *p);
    for (ptrdiff_t r = 0; r < c->patch.rows + (c->grid.shape >> 1); r++)
        for (ptrdiff_t s = 0; s < c->patch.run + (c->grid.shape & 1); s++) fill(&t->rng, p + r * c->grid.down + s * c->grid.right, c->grid.n, kind);
    return p;
}

static void patch_case(Test *t, PatchCase *c, ptrdiff_t n, int kind)
{
    const bool usual = rng_one_in(&t->rng, 8); /* three by three pixels of whole vectors, rows a multiple of 4 KiB apart */
    if (n > 100) n %= 100;
    if (usual) n = 32 * rng_int(&t->rng, 1, 2);
    const ptrdiff_t rows = usual ? 3 : rng_int(&t->rng, 1, PATCH), run = usual ? 3 : rng_int(&t->rng, 1, PATCH), gap = rng_int(&t->rng, 0, 5);
    c->grid = (SnlsGrid){ n + gap, usual ? 1024 : (n + gap) * (run + 1) + rng_int(&t->rng, 0, 9), n, usual ? 3 : (int)rng_int(&t->rng, 0, 3) };
    c->patch = (SnlsPatch){ n + rng_int(&t->rng, 0, 3), 0, rows, run, 0 };
    c->patch.down = c->patch.right * run + rng_int(&t->rng, 0, 3);
    c->patch.of_k = rng_one_in(&t->rng, 2) ? 0 : c->patch.down * rows;
    c->count = rng_int(&t->rng, 0, PLACES);
    c->shift = rng_int(&t->rng, -5, 5);
    c->floats = (rows + (c->grid.shape >> 1) - 1) * c->grid.down + (run + (c->grid.shape & 1) - 1) * c->grid.right + n;
    for (int i = 0; i < PLACES; i++) {
        c->video[i] = grid_fill(t, i, c, kind);
        c->at[i] = c->video[i] - c->shift;
        c->k[i] = i;
        for (int m = 0; m < 4; m++) c->w[m][i] = (m & c->grid.shape) == m ? value(&t->rng, 0) : NAN;
    }
    const ptrdiff_t one = (rows - 1) * c->patch.down + (run - 1) * c->patch.right + n;
    c->g = place(t->in[3], &t->rng, (PLACES - 1) * c->patch.of_k + one, sizeof *c->g);
    for (ptrdiff_t k = 0; k < (c->patch.of_k ? PLACES : 1); k++)
        for (ptrdiff_t r = 0; r < rows; r++)
            for (ptrdiff_t s = 0; s < run; s++) fill(&t->rng, c->g + k * c->patch.of_k + r * c->patch.down + s * c->patch.right, n, kind);
}

static SnlsPlaces places_of(PatchCase *c) { return (SnlsPlaces){ c->at, { c->w[0], c->w[1], c->w[2], c->w[3] }, c->k, NULL }; }

static void check_mix(Test *t, PatchCase *c, int kind)
{
    const SnlsPatch *const p = &c->patch;
    const ptrdiff_t size = (p->rows - 1) * p->down + (p->run - 1) * p->right + c->grid.n;
    const SnlsPlaces from = places_of(c);
    float *const out = place_out(t->out, &t->rng, size, sizeof *out), *const before = malloc((size_t)(size + 1) * sizeof *before);
    fill(&t->rng, out, size, kind);
    memcpy(before, out, (size_t)size * sizeof *out);
    const ptrdiff_t first = c->count ? rng_int(&t->rng, 0, c->count - 1) : 0;
    t->dsp.mix(out, p, &from, first, c->count - first, c->shift, &c->grid);
    CHECK(guards_hold(t->out, out, size, sizeof *out), "%s mix n=%td wrote outside", t->level, c->grid.n);
    for (ptrdiff_t e = 0; e < size; e++) {
        const ptrdiff_t r = e / p->down, s = e % p->down / p->right, i = e % p->down % p->right;
        if (p->rows > 1 && r >= p->rows) continue;
        if (s >= p->run || i >= c->grid.n) { CHECK(bits(out[e]) == bits(before[e]), "%s mix touched a gap", t->level); continue; }
        Sum sum = { before[e], fabs((double)before[e]), 1 };
        for (ptrdiff_t k = first; k < c->count; k++)
            for (int m = 0; m < 4; m++) {
                if ((m & c->grid.shape) != m) continue;
                const double term = (double)c->w[m][k] * c->video[k][(r + (m >> 1)) * c->grid.down + (s + (m & 1)) * c->grid.right + i];
                sum_add(&sum, term, fabs(term));
            }
        CHECK(sum_near(&sum, out[e], 4), "%s mix n=%td %tdx%td shape %d: [%td] is %.9g, want %.9g", t->level, c->grid.n, p->rows, p->run, c->grid.shape, e,
              out[e], sum.value);
    }
    /* cut into single rows it must give the same bits */
    for (ptrdiff_t r = 0; r < p->rows; r++) {
        SnlsPatch row = *p;
        row.rows = 1;
        t->dsp.mix(before + r * p->down, &row, &from, first, c->count - first, c->shift + r * c->grid.down, &c->grid);
    }
    CHECK(!memcmp(out, before, (size_t)size * sizeof *out), "%s mix n=%td %tdx%td shape %d depends on how it is cut", t->level, c->grid.n, p->rows, p->run,
          c->grid.shape);
    free(before);
}

static void check_dot_patch(Test *t, PatchCase *c)
{
    const SnlsPlaces from = places_of(c);
    float *const out = place_out(t->out, &t->rng, 4 * c->count, sizeof *out);
    t->dsp.dot_patch(out, &from, c->count, c->shift, c->g, &c->patch, &c->grid);
    CHECK(guards_hold(t->out, out, 4 * c->count, sizeof *out), "%s dot_patch n=%td wrote outside", t->level, c->grid.n);
    for (ptrdiff_t k = 0; k < c->count; k++)
        for (int m = 0; m < 4; m++) {
            Sum sum = { 0, 0, 0 };
            for (ptrdiff_t r = 0; r < c->patch.rows && (m & c->grid.shape) == m; r++)
                for (ptrdiff_t s = 0; s < c->patch.run; s++) {
                    const Sum one = sum_of(c->g + k * c->patch.of_k + r * c->patch.down + s * c->patch.right,
                                           c->video[k] + (r + (m >> 1)) * c->grid.down + (s + (m & 1)) * c->grid.right, c->grid.n, false);
                    sum.value += one.value, sum.magnitude += one.magnitude, sum.terms += one.terms;
                }
            CHECK(sum_near(&sum, out[4 * k + m], 2), "%s dot_patch n=%td %tdx%td shape %d: [%td][%d] is %.9g, want %.9g", t->level, c->grid.n, c->patch.rows,
                  c->patch.run, c->grid.shape, k, m, out[4 * k + m], sum.value);
        }
}

/* Two bands of rows, one after the other, are all of it. */
static void check_spread_patch(Test *t, PatchCase *c, int kind)
{
    const ptrdiff_t rows = c->patch.rows + (c->grid.shape >> 1), cut = rng_int(&t->rng, 0, rows);
    const float w[4] = { c->w[0][0], c->w[1][0], c->w[2][0], c->w[3][0] };
    float *const out = place_out(t->out, &t->rng, c->floats, sizeof *out), *const before = malloc((size_t)(c->floats + 1) * sizeof *before);
    fill(&t->rng, out, c->floats, kind);
    memcpy(before, out, (size_t)c->floats * sizeof *out);
    t->dsp.spread_patch(out, w, c->g, &c->patch, cut, rows + 3, &c->grid);
    CHECK(cut == 0 || !memcmp(out, before, (size_t)((cut - 1) * c->grid.down) * sizeof *out), "%s spread_patch wrote above its rows", t->level);
    t->dsp.spread_patch(out, w, c->g, &c->patch, -2, cut, &c->grid);
    CHECK(guards_hold(t->out, out, c->floats, sizeof *out), "%s spread_patch n=%td wrote outside", t->level, c->grid.n);
    for (ptrdiff_t e = 0; e < c->floats; e++) {
        const ptrdiff_t r = e / c->grid.down, s = e % c->grid.down / c->grid.right, i = e % c->grid.down % c->grid.right;
        Sum sum = { before[e], fabs((double)before[e]), 1 };
        for (int m = 0; m < 4; m++) {
            const ptrdiff_t y = r - (m >> 1), x = s - (m & 1);
            if ((m & c->grid.shape) != m || y < 0 || y >= c->patch.rows || x < 0 || x >= c->patch.run || i >= c->grid.n) continue;
            const double term = (double)w[m] * c->g[y * c->patch.down + x * c->patch.right + i];
            sum_add(&sum, term, fabs(term));
        }
        CHECK(sum_near(&sum, out[e], 0), "%s spread_patch n=%td %tdx%td shape %d: [%td] is %.9g, want %.9g", t->level, c->grid.n, c->patch.rows, c->patch.run,
              c->grid.shape, e, out[e], sum.value);
    }
    free(before);
}

/* All places at once: the bits of one after the other, each in two bands of rows; places may overlap. ones: of single floats, from one float. */
static void check_spread_places(Test *t, PatchCase *c, int kind)
{
    const bool ones = rng_one_in(&t->rng, 4);
    const ptrdiff_t gap = rng_int(&t->rng, 0, 1);
    SnlsGrid grid = ones ? (SnlsGrid){ 1 + gap, 40, 1, c->grid.shape } : c->grid;
    const SnlsPatch patch = ones ? (SnlsPatch){ 0, 0, c->patch.rows, c->patch.run, 0 } : c->patch;
    if (grid.down != 1024) grid.down = grid.right * (c->patch.run + 4); /* where places overlap, their pixels do */
    const float one = 1, *const g = ones ? &one : c->g, factor = rng_one_in(&t->rng, 2) ? 1 : value(&t->rng, 0);
    const ptrdiff_t rows = patch.rows + (grid.shape >> 1), cut = rng_int(&t->rng, 0, rows);
    const ptrdiff_t floats = (rows - 1) * grid.down + (patch.run + (grid.shape & 1) - 1) * grid.right + grid.n, size = floats + 2 * grid.right;
    float *const out = place_out(t->out, &t->rng, size, sizeof *out), *const want = malloc((size_t)(size + 1) * sizeof *want);
    const float *at[PLACES];
    fill(&t->rng, out, size, kind);
    memcpy(want, out, (size_t)size * sizeof *out);
    SnlsPlaces to = places_of(c);
    to.at = at;
    for (int i = 0; i < PLACES; i++) at[i] = out - c->shift + grid.right * rng_int(&t->rng, 0, 2);
    for (ptrdiff_t i = 0; i < c->count; i++) {
        float w[4];
        for (int m = 0; m < 4; m++) w[m] = factor * c->w[m][i];
        float *const first = want + (at[i] + c->shift - out);
        t->dsp.spread_patch(first, w, g + c->k[i] * patch.of_k, &patch, 0, cut, &grid);
        t->dsp.spread_patch(first, w, g + c->k[i] * patch.of_k, &patch, cut, rows, &grid);
    }
    t->dsp.spread_places(&to, 0, c->count, factor, c->shift, g, &patch, &grid);
    CHECK(guards_hold(t->out, out, size, sizeof *out), "%s spread_places n=%td wrote outside", t->level, grid.n);
    for (ptrdiff_t e = 0; e < size; e++)
        CHECK(out[e] == want[e] || (isnan(out[e]) && isnan(want[e])), "%s spread_places n=%td %tdx%td shape %d: [%td] is %.9g, want %.9g", t->level, grid.n, patch.rows, patch.run,
              grid.shape, e, out[e], want[e]);
    free(want);
}

/* Ones against pixels of single floats. */
static void check_dot_ones(Test *t)
{
    const ptrdiff_t side = rng_one_in(&t->rng, 2) ? 3 : 1;
    const SnlsGrid grid = { rng_int(&t->rng, 1, 2), 40, 1, rng_one_in(&t->rng, 2) ? 3 : (int)rng_int(&t->rng, 0, 3) };
    const SnlsPatch patch = { 0, 0, side, side, 0 };
    const ptrdiff_t floats = (side + (grid.shape >> 1) - 1) * grid.down + (side + (grid.shape & 1) - 1) * grid.right + 1;
    float *const video = input(t, 0, floats, 0), one = 1, out[4];
    const float *at[1] = { video };
    int64_t k[1] = { 0 };
    const SnlsPlaces from = { at, { 0 }, k, NULL };
    t->dsp.dot_patch(out, &from, 1, 0, &one, &patch, &grid);
    for (int m = 0; m < 4; m++) {
        Sum sum = { 0, 0, 0 };
        for (ptrdiff_t p = 0; p < side * side && (m & grid.shape) == m; p++) {
            const double x = video[(p / side + (m >> 1)) * grid.down + (p % side + (m & 1)) * grid.right];
            sum_add(&sum, x, fabs(x));
        }
        CHECK(sum_near(&sum, out[m], 2), "%s dot_patch of ones, %td shape %d: [%d] is %.9g, want %.9g", t->level, side, grid.shape, m, out[m], sum.value);
    }
}

/* From sums and weights along the axes; what has no weight is not looked at. */
static void check_slopes(Test *t)
{
    enum { MOST = 40 };
    const ptrdiff_t count = rng_int(&t->rng, 0, MOST), first = rng_int(&t->rng, 0, 3);
    float w[4][MOST + 3], sums[4 * MOST], got[3][MOST + 1];
    for (ptrdiff_t i = 0; i < count + first; i++)
        for (int m = 0; m < 4; m += 2) {
            w[m + 1][i] = rng_one_in(&t->rng, 4) ? 0 : (float)rng_real(&t->rng, 0.01, 0.99);
            w[m][i] = 1 - w[m + 1][i];
        }
    for (ptrdiff_t i = 0; i < count; i++)
        for (int m = 0; m < 4; m++) {
            const bool counts = w[1][first + i] != 0 || !(m >> 1), beside = w[3][first + i] != 0 || !(m & 1);
            sums[4 * i + m] = counts || beside ? value(&t->rng, 0) : NAN; /* neither along y nor along x */
        }
    for (int m = 0; m < 3; m++) got[m][count] = 7;
    const SnlsPlaces from = { NULL, { w[0], w[1], w[2], w[3] }, NULL, NULL };
    t->dsp.slopes(got[0], got[1], got[2], sums, &from, first, count);
    for (ptrdiff_t i = 0; i < count; i++) {
        Sum want[3] = { { 0, 0, 0 }, { 0, 0, 0 }, { 0, 0, 0 } };
        for (int m = 0; m < 4; m++) {
            const double ty = w[m >> 1][first + i], tx = w[2 + (m & 1)][first + i], s = sums[4 * i + m];
            if (ty != 0 && tx != 0) sum_add(&want[0], ty * tx * s, fabs(ty * tx * s));
            if (tx != 0) sum_add(&want[1], (m >> 1 ? tx : -tx) * s, fabs(tx * s));
            if (ty != 0) sum_add(&want[2], (m & 1 ? ty : -ty) * s, fabs(ty * s));
        }
        for (int m = 0; m < 3; m++) CHECK(sum_near(&want[m], got[m][i], 4), "%s slopes: [%d][%td] is %.9g, want %.9g", t->level, m, i, got[m][i], want[m].value);
    }
    for (int m = 0; m < 3; m++) CHECK(got[m][count] == 7, "%s slopes wrote too much", t->level);
}

/* The bilinear read at an element of the patch, as a sum. */
static Sum pair_read(const PatchCase *c, ptrdiff_t r, ptrdiff_t s, ptrdiff_t i)
{
    Sum sum = { 0, 0, 0 };
    for (int m = 0; m < 4; m++) {
        if ((m & c->grid.shape) != m) continue;
        const double term = (double)c->w[m][0] * c->video[0][(r + (m >> 1)) * c->grid.down + (s + (m & 1)) * c->grid.right + i];
        sum_add(&sum, term, fabs(term));
    }
    return sum;
}

/* e for every element, then what is made of it. The sums along the taps need all four of them: shape 3 alone has them here. */
static void check_pair(Test *t, PatchCase *c, int kind)
{
    const SnlsPatch *const p = &c->patch;
    const ptrdiff_t n = c->grid.n, size = (p->rows - 1) * p->down + (p->run - 1) * p->right + n, pixels = p->rows * p->run;
    const bool prod = rng_one_in(&t->rng, 2), along = c->grid.shape == 3 && rng_one_in(&t->rng, 2);
    const ptrdiff_t row = p->run * n, down = row + rng_int(&t->rng, 0, 3);
    float *const e = malloc((size_t)(p->rows * down + 1) * sizeof *e), *const before = malloc((size_t)(size + 1) * sizeof *before), sums[4], alone[4];
    float *const to = place_out(t->out, &t->rng, size, sizeof *to), g = value(&t->rng, 0);
    SnlsPair pair = { c->video[0], c->g, { c->w[0][0], c->w[1][0], c->w[2][0], c->w[3][0] }, prod, e, down };
    fill(&t->rng, to, size, kind);
    memcpy(before, to, (size_t)size * sizeof *to);
    for (ptrdiff_t a = 0; a < p->rows * down; a++) e[a] = 7;
    t->dsp.pull_patch(along ? sums : NULL, to, g, &pair, p, &c->grid);
    for (ptrdiff_t r = 0; r < p->rows; r++) { /* what follows a row stays */
        for (ptrdiff_t a = row; a < down; a++) CHECK(e[r * down + a] == 7, "%s pull_patch n=%td wrote past a row of e", t->level, n);
        memmove(e + r * row, e + r * down, (size_t)row * sizeof *e);
    }
    CHECK(guards_hold(t->out, to, size, sizeof *to), "%s pull_patch n=%td wrote outside", t->level, n);
    Sum want[4] = { { 0, 0, 0 }, { 0, 0, 0 }, { 0, 0, 0 }, { 0, 0, 0 } };
    for (ptrdiff_t a = 0; a < pixels * n; a++) {
        const ptrdiff_t i = a % n, s = a / n % p->run, r = a / n / p->run, at = r * p->down + s * p->right + i;
        Sum read = pair_read(c, r, s, i), added = { before[at], fabs((double)before[at]), 1 };
        if (!prod) sum_add(&read, -(double)c->g[at], fabs((double)c->g[at]));
        if (prod) e[a] = (float)read.value; /* not written */
        CHECK(sum_near(&read, e[a], 4), "%s pull_patch n=%td shape %d: e[%td] is %.9g, want %.9g", t->level, n, c->grid.shape, a, e[a], read.value);
        sum_add(&added, (double)g * e[a], fabs((double)g) * read.magnitude);
        CHECK(sum_near(&added, to[at], 6), "%s pull_patch n=%td shape %d: [%td] is %.9g, want %.9g", t->level, n, c->grid.shape, at, to[at], added.value);
        for (int m = 0; m < 4 && along; m++) {
            const double x = prod ? c->g[at] : e[a], tap = c->video[0][(r + (m >> 1)) * c->grid.down + (s + (m & 1)) * c->grid.right + i];
            sum_add(&want[m], x * tap, fabs(tap) * (prod ? fabs((double)c->g[at]) : read.magnitude));
        }
    }
    float *const again = malloc((size_t)(pixels * n + 1) * sizeof *again);
    pair.out = again, pair.out_down = row;
    t->dsp.pull_patch(NULL, NULL, g, &pair, p, &c->grid);
    CHECK(prod || !memcmp(again, e, (size_t)(pixels * n) * sizeof *e), "%s pull_patch n=%td: e depends on what else is wanted", t->level, n);
    free(again);
    pair.out = NULL;
    t->dsp.pull_patch(along ? alone : NULL, before, g, &pair, p, &c->grid);
    CHECK(!memcmp(before, to, (size_t)size * sizeof *to), "%s pull_patch n=%td: what is added depends on what else is wanted", t->level, n);
    if (along) {
        t->dsp.pull_patch(alone, NULL, g, &pair, p, &c->grid);
        for (int m = 0; m < 4; m++) CHECK(sum_near(&want[m], sums[m], 4), "%s pull_patch n=%td: along tap %d is %.9g, want %.9g", t->level, n, m, sums[m], want[m].value);
        CHECK(!memcmp(sums, alone, sizeof sums), "%s pull_patch n=%td: sums depend on what else is wanted", t->level, n);
    }
    free(e);
    free(before);
}

static int drawn; /* patches that draw_patch had loops for */

/* Every bit must be that of pull_patch and spread_patch, and no other float may change. */
static void check_draw(Test *t, int kind)
{
    const ptrdiff_t side = rng_one_in(&t->rng, 4) ? rng_int(&t->rng, 1, 8) : 3 + 2 * rng_int(&t->rng, 0, 2), n = rng_one_in(&t->rng, 4) ? rng_int(&t->rng, 1, 40) : 16 * rng_int(&t->rng, 1, 5);
    const int shape = (int)rng_int(&t->rng, 0, 3);
    const bool prod = rng_one_in(&t->rng, 2), along = rng_one_in(&t->rng, 2);
    const ptrdiff_t gap = rng_int(&t->rng, 0, 5), pitch = rng_one_in(&t->rng, 4) ? 1024 : (n + gap) * (side + 1) + rng_int(&t->rng, 0, 9);
    const SnlsGrid key = { n + gap, pitch, n, shape }, out = { n, n * (side + 1) + gap, n, shape };
    const SnlsPatch patch = { n + gap, (n + gap) * side + rng_int(&t->rng, 0, 3), side, side, 0 };
    const ptrdiff_t keys = side * key.down + side * key.right + n, outs = side * out.down + side * out.right + n, queries = side * patch.down + n, e = side * side * n;
    float *const block = malloc((size_t)(keys + 2 * outs + 3 * queries + e) * sizeof *block), *const at = block, *const sum = at + keys, *const want_sum = sum + outs;
    float *const q = want_sum + outs, *const to = q + queries, *const want_to = to + queries, *const pulled = want_to + queries, g = value(&t->rng, 0), sums[4] = { 0 }, want[4] = { 0 }, w[4];
    fill(&t->rng, block, keys + 2 * outs + 3 * queries + e, kind);
    memcpy(want_sum, sum, (size_t)outs * sizeof *sum);
    memcpy(want_to, to, (size_t)queries * sizeof *to);
    for (ptrdiff_t r = 0; r <= side && !along; r++) /* taps that nobody wants */
        for (ptrdiff_t s = 0; s <= side; s++)
            if ((r == side && !(shape & 2)) || (s == side && !(shape & 1)))
                for (ptrdiff_t i = 0; i < n; i++) at[r * key.down + s * key.right + i] = NAN;
    SnlsPair pair = { at, q, { 0 }, prod, NULL, side * n };
    for (int m = 0; m < 4; m++) pair.w[m] = (m & shape) == m ? value(&t->rng, 0) : NAN, w[m] = (m & shape) == m ? value(&t->rng, 0) : NAN;
    const int done = t->dsp.draw_patch(along ? sums : NULL, to, g, &pair, &patch, &key, sum, w, &out);
    if (done) {
        const SnlsPatch e_patch = { n, side * n, side, side, 0 };
        pair.out = pulled;
        t->dsp.pull_patch(along ? want : NULL, want_to, g, &pair, &patch, &key);
        t->dsp.spread_patch(want_sum, w, prod ? q : pulled, prod ? &patch : &e_patch, 0, side + 1, &out);
    }
    CHECK(!memcmp(to, want_to, (size_t)queries * sizeof *to), "%s draw_patch n=%td side %td shape %d: the patch's gradient differs", t->level, n, side, shape);
    CHECK(!memcmp(sum, want_sum, (size_t)outs * sizeof *sum), "%s draw_patch n=%td side %td shape %d: the grid's gradient differs", t->level, n, side, shape);
    CHECK(!memcmp(sums, want, sizeof sums), "%s draw_patch n=%td side %td shape %d: sums along taps differ", t->level, n, side, shape);
    drawn += done;
    free(block);
}

/* The gradients of a single pixel. out: a grid as the key's, of which rows that are not wanted stay. */
static void check_pixel(Test *t, PatchCase *c, int kind)
{
    const ptrdiff_t n = c->grid.n, floats = c->grid.down + c->grid.right + n;
    const bool prod = rng_one_in(&t->rng, 2), along = c->grid.shape == 3;
    const int rows = (int)rng_int(&t->rng, 0, 3);
    float *const out = place_out(t->out, &t->rng, floats, sizeof *out), *const before = malloc((size_t)(2 * floats + 4 * n + 4) * sizeof *before);
    float *const again = before + floats, *const to = again + floats, *const was = to + n, *const alone = was + n, sums[4] = { 0 }, others[4] = { 0 };
    fill(&t->rng, out, floats, kind);
    fill(&t->rng, to, n, kind);
    memcpy(before, out, (size_t)floats * sizeof *out);
    memcpy(again, out, (size_t)floats * sizeof *out);
    memcpy(was, to, (size_t)n * sizeof *to);
    memcpy(alone, to, (size_t)n * sizeof *to);
    SnlsPixel pixel = { c->g, c->video[0], to, out, c->grid.right, c->grid.down, c->grid.right, c->grid.down, n, { 0 }, value(&t->rng, 0), c->grid.shape, prod, rows };
    for (int m = 0; m < 4; m++) pixel.w[m] = c->w[m][0];
    t->dsp.pull_pixel(along ? sums : NULL, &pixel);
    CHECK(guards_hold(t->out, out, floats, sizeof *out), "%s pull_pixel n=%td wrote outside", t->level, n);
    Sum want[4] = { { 0, 0, 0 }, { 0, 0, 0 }, { 0, 0, 0 }, { 0, 0, 0 } };
    for (ptrdiff_t i = 0; i < n; i++) {
        Sum e = pair_read(c, 0, 0, i), d = { c->g[i], fabs((double)c->g[i]), 1 }, added = { was[i], fabs((double)was[i]), 1 };
        if (!prod) sum_add(&e, -(double)c->g[i], fabs((double)c->g[i]));
        if (!prod) d = e;
        sum_add(&added, (prod ? 1 : -1) * (double)pixel.g * e.value, fabs((double)pixel.g) * e.magnitude);
        CHECK(sum_near(&added, to[i], 8), "%s pull_pixel n=%td shape %d: to[%td] is %.9g, want %.9g", t->level, n, c->grid.shape, i, to[i], added.value);
        for (int m = 0; m < 4; m++) {
            const ptrdiff_t at = i + (m >> 1) * c->grid.down + (m & 1) * c->grid.right;
            if (along) sum_add(&want[m], d.value * c->video[0][at], d.magnitude * fabs((double)c->video[0][at]));
            if ((m & c->grid.shape) != m || !(rows >> (m >> 1) & 1)) continue;
            Sum sum = { before[at], fabs((double)before[at]), 1 };
            sum_add(&sum, (double)pixel.g * pixel.w[m] * d.value, fabs((double)pixel.g * pixel.w[m]) * d.magnitude);
            CHECK(sum_near(&sum, out[at], 8), "%s pull_pixel n=%td shape %d: out[%td] is %.9g, want %.9g", t->level, n, c->grid.shape, at, out[at], sum.value);
            before[at] = out[at];
        }
    }
    CHECK(!memcmp(before, out, (size_t)floats * sizeof *out), "%s pull_pixel n=%td shape %d rows %d: something else was written", t->level, n, c->grid.shape, rows);
    for (int m = 0; m < 4 && along; m++) CHECK(sum_near(&want[m], sums[m], 8), "%s pull_pixel n=%td: along tap %d is %.9g, want %.9g", t->level, n, m, sums[m], want[m].value);
    pixel.to = NULL, pixel.out = again;
    t->dsp.pull_pixel(NULL, &pixel);
    pixel.to = alone, pixel.out = NULL;
    t->dsp.pull_pixel(NULL, &pixel);
    pixel.to = NULL;
    if (along) t->dsp.pull_pixel(others, &pixel);
    CHECK(!memcmp(again, out, (size_t)floats * sizeof *out) && !memcmp(alone, to, (size_t)n * sizeof *to) && !memcmp(sums, others, sizeof sums),
          "%s pull_pixel n=%td: sums depend on what else is wanted", t->level, n);
    free(before);
}

/* Several queries at once: the sums of one after the other; set: whatever was there. */
static void check_mix_run(Test *t, PatchCase *c, int kind)
{
    const bool set = rng_one_in(&t->rng, 2);
    SnlsPatch p = c->patch;
    if (set) p.rows = p.run = 1;
    const SnlsPlaces from = places_of(c);
    const bool each = rng_one_in(&t->rng, 2); /* a place for each query, or all for one */
    const SnlsRun run = { each ? PLACES : 1, each ? 1 : PLACES, each ? 1 : PLACES, p.down * p.rows, set, rng_one_in(&t->rng, 2) ? from.at[0] : NULL };
    const ptrdiff_t size = run.queries * run.step;
    float *const out = place_out(t->out, &t->rng, size, sizeof *out), *const want = malloc((size_t)(size + 1) * sizeof *want);
    fill(&t->rng, out, size, kind);
    memcpy(want, out, (size_t)size * sizeof *out);
    for (ptrdiff_t q = 0; q < run.queries; q++) {
        if (set) memset(want + q * run.step, 0, (size_t)c->grid.n * sizeof *want);
        t->dsp.mix(want + q * run.step, &p, &from, q, run.count, c->shift, &c->grid);
    }
    if (set && size) out[0] = NAN;
    t->dsp.mix_run(out, &p, &run, &from, 0, c->shift, &c->grid);
    CHECK(guards_hold(t->out, out, size, sizeof *out), "%s mix_run n=%td wrote outside", t->level, c->grid.n);
    for (ptrdiff_t e = 0; e < size; e++)
        CHECK(out[e] == want[e] || (isnan(out[e]) && isnan(want[e])), "%s mix_run n=%td: [%td] is %.9g, want %.9g", t->level, c->grid.n, e, out[e], want[e]);
    free(want);
}

/* Rows and columns by a list, in any order. */
static void check_mix_bent(Test *t, PatchCase *c, int kind)
{
    const SnlsPatch *const p = &c->patch;
    const ptrdiff_t n = c->grid.n, rows = p->rows + (c->grid.shape >> 1), run = p->run + (c->grid.shape & 1), size = (p->rows - 1) * p->down + (p->run - 1) * p->right + n;
    const float *row[PATCH + 1], w[4] = { c->w[0][0], c->w[1][0], c->w[2][0], c->w[3][0] };
    ptrdiff_t column[PATCH + 1];
    float *const out = place_out(t->out, &t->rng, size, sizeof *out), *const before = malloc((size_t)(size + 1) * sizeof *before);
    for (ptrdiff_t r = 0; r < rows; r++) row[r] = c->video[0] + rng_int(&t->rng, 0, rows - 1) * c->grid.down;
    for (ptrdiff_t s = 0; s < run; s++) column[s] = rng_int(&t->rng, 0, run - 1) * c->grid.right;
    fill(&t->rng, out, size, kind);
    memcpy(before, out, (size_t)size * sizeof *out);
    t->dsp.mix_bent(out, p, row, column, w, &c->grid);
    CHECK(guards_hold(t->out, out, size, sizeof *out), "%s mix_bent n=%td wrote outside", t->level, n);
    for (ptrdiff_t e = 0; e < p->rows * p->run * n; e++) {
        const ptrdiff_t r = e / n / p->run, s = e / n % p->run, i = e % n, at = r * p->down + s * p->right + i;
        Sum sum = { before[at], fabs((double)before[at]), 1 };
        for (int m = 0; m < 4; m++) {
            if ((m & c->grid.shape) != m) continue;
            const double term = (double)w[m] * row[r + (m >> 1)][column[s + (m & 1)] + i];
            sum_add(&sum, term, fabs(term));
        }
        CHECK(sum_near(&sum, out[at], 4), "%s mix_bent n=%td %tdx%td shape %d: [%td] is %.9g, want %.9g", t->level, n, p->rows, p->run, c->grid.shape, at, out[at], sum.value);
    }
    for (ptrdiff_t r = 0; r < p->rows; r++) { /* cut into single rows it must give the same bits, and touch no gap */
        const SnlsPatch one = { p->right, p->down, 1, p->run, 0 };
        t->dsp.mix_bent(before + r * p->down, &one, row + r, column, w, &c->grid);
    }
    CHECK(!memcmp(out, before, (size_t)size * sizeof *out), "%s mix_bent n=%td %tdx%td depends on how it is cut", t->level, n, p->rows, p->run);
    free(before);
}

/* What the page says about a place, where one reflection is enough; false: another shape. */
static bool is_placed(const SnlsSite *s, const float *offset, double column, const float *at, int64_t row)
{
    const double dy = s->nearest ? rint(offset[1]) : offset[1], dx = s->nearest ? rint(offset[2]) : offset[2];
    const double y = snls_reflect_real(s->y + dy, (int64_t)s->fold_y / 2 + 1), x = snls_reflect_real(s->x + column + dx, (int64_t)s->fold_x / 2 + 1);
    const int64_t frame = (int64_t)snls_reflect_real(s->t + offset[0], (int64_t)s->fold_t / 2 + 1);
    return row == (int64_t)floor(y) && at == s->base + (frame * s->step_t + row * s->step_y + (int64_t)floor(x) * s->step_x);
}

/* Every level places alike: addresses and shapes the same, weights the same bits. */
static void check_place(Test *t)
{
    enum { MOST = 37, ROOM = 48 };
    static const float odd[] = { NAN, INFINITY, -INFINITY, 1e30f, -0.0f, 1e-20f, -1e-20f, 0.5f, 1.0001e-4f, -1.0001e-4f, 1.2345678e-9f, -1.2345678e-9f };
    const ptrdiff_t count = rng_int(&t->rng, 0, MOST);
    const float *at[2][ROOM], base = 0;
    float w[2][4][ROOM], *const offset = input(t, 0, 3 * count, 0), *const weight = input(t, 1, count, 0);
    int64_t row[2][ROOM];
    unsigned char shape[2][ROOM];
    float *const x = place(t->in[2], &t->rng, count, sizeof *x);
    SnlsSite site = { .t = (double)rng_int(&t->rng, 0, 4), .y = (double)rng_int(&t->rng, 0, 20), .x = (double)rng_int(&t->rng, 0, 9), .fold_t = 8, .fold_y = 38, .fold_x = 38, .y0 = 1, .y1 = 19, .x0 = 2, .x1 = 18.5, .base = &base,
                      .step_t = 1 << 20, .step_y = 1000, .step_x = -7, .nearest = rng_one_in(&t->rng, 3), .slopes = rng_one_in(&t->rng, 3) };
    const bool whole = rng_one_in(&t->rng, 2), weighted = rng_one_in(&t->rng, 2), tame = rng_one_in(&t->rng, 2);
    if (tame) { /* almost all inside, and the steps those of a plain video */
        site.y = 9, site.x = 5, site.x1 = 19, site.fold_x = 48, site.step_x = 8, site.columns = 100, site.step_y = 800, site.lines = 50, site.step_t = 40000;
    }
    for (ptrdiff_t i = 0; i < count; i++) {
        x[i] = (float)rng_int(&t->rng, 0, 12);
        offset[3 * i] = (float)rng_int(&t->rng, -2, 2);
        for (int m = 1; m < 3; m++) offset[3 * i + m] = whole ? (float)rng_int(&t->rng, -2, 2) : (float)rng_real(&t->rng, -3, 3);
        if (rng_one_in(&t->rng, tame ? 100 : 12)) weight[i] = odd[rng_int(&t->rng, 0, 11)];
        if (rng_one_in(&t->rng, tame ? 100 : 9)) offset[3 * i + rng_int(&t->rng, 0, 2)] = odd[rng_int(&t->rng, 0, 11)];
    }
    SnlsDsp plain;
    snls_dsp_init_c(&plain);
    int all[2];
    for (int l = 0; l < 2; l++) {
        const SnlsPlaces to = { at[l], { w[l][0], w[l][1], w[l][2], w[l][3] }, NULL, row[l] };
        all[l] = (l ? &t->dsp : &plain)->place(&to, shape[l], offset, x, weighted ? weight : NULL, count, &site);
    }
    CHECK(all[0] == all[1], "%s place n=%td: shape of all is %d, want %d", t->level, count, all[1], all[0]);
    for (ptrdiff_t i = 0; i < count; i++) {
        CHECK(shape[0][i] == shape[1][i], "%s place: shape is %d, want %d", t->level, shape[1][i], shape[0][i]);
        if (shape[0][i] == 4) continue;
        CHECK(is_placed(&site, offset + 3 * i, x[i], at[0][i], row[0][i]), "%s place: [%td] is elsewhere", t->level, i);
        bool same = at[0][i] == at[1][i] && row[0][i] == row[1][i];
        for (int m = 0; m < 4; m++) same = same && bits(w[0][m][i]) == bits(w[1][m][i]);
        CHECK(same, "%s place n=%td: [%td] differs", t->level, count, i);
    }
}

static void check_patches(Test *t, ptrdiff_t n, int kind)
{
    PatchCase c;
    patch_case(t, &c, n < 1 ? 1 : n, kind);
    check_mix(t, &c, kind);
    check_mix_run(t, &c, kind);
    check_mix_bent(t, &c, kind);
    check_dot_patch(t, &c);
    check_pair(t, &c, kind);
    check_draw(t, kind);
    check_pixel(t, &c, kind);
    check_spread_patch(t, &c, kind);
    check_spread_places(t, &c, kind);
    check_dot_ones(t);
    check_slopes(t);
    check_place(t);
}

static void check_seed(Test *t, uint64_t seed)
{
    static const ptrdiff_t usual[] = { 1, 3, 8, 16, 32, 64 };
    t->rng.state = seed;
    for (int round = 0; round < 6; round++)
        check_patches(t, rng_one_in(&t->rng, 2) ? usual[rng_int(&t->rng, 0, 5)] : rng_int(&t->rng, 1, 99), (int)rng_int(&t->rng, 0, 6));
}

int main(int argc, char **argv)
{
    const uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1, last = argc > 1 ? first : SEEDS;
    static Test t;
    for (int i = 0; i < 5; i++) t.in[i] = block_new();
    t.out = block_new();
    for (int level = 1; level <= snls_dsp_level_max(); level++) {
        t.level = level_names[level];
        snls_dsp_init(&t.dsp, level);
        drawn = 0;
        for (uint64_t seed = first; seed <= last; seed++) {
            check_repeat("test_patch %llu", (unsigned long long)seed);
            check_seed(&t, seed);
        }
#if defined(__x86_64__)
        CHECK(level < 3 || first == last || drawn > 0, "%s has no loops for draw_patch", t.level);
#endif
        printf("%s: seeds %llu to %llu\n", t.level, (unsigned long long)first, (unsigned long long)last);
    }
    return check_end();
}
