/* patch_body.h: mix, dot_patch and spread_patch of dsp.h, written once. Included by a file that defines, for its instruction
 * set: LANES, Vec, Mask, v_mask(r) the first r lanes, v_load v_load_part(p, mask) v_store v_store_part(p, mask, x),
 * v_set v_zero v_add v_fma(a,b,c) = a*b+c, v_sum4(a,b,c,d) the sums of four as __m128.
 * Pixels are walked in chunks of two registers, then in single ones under a mask. Constants select the code: shape,
 * whole (two registers, no mask) and the length of a run. */

#define UNROLL _Pragma("GCC unroll 4")

ALWAYS Vec read_vec(const float *p, int whole, Mask mask) { return whole ? v_load(p) : v_load_part(p, mask); }

ALWAYS void write_vec(float *p, Vec x, int whole, Mask mask)
{
    if (whole) v_store(p, x);
    else v_store_part(p, mask, x);
}

/* ---- mix: sums stay in registers over all taps. A run of one has a register for each of the four, a longer one for
 * each row: enough chains to cover the latency of the multiplier. ---- */

enum { LONGEST = 3 };

ALWAYS void mix_chunk(float *out, ptrdiff_t step, const SnlsPlaces *from, ptrdiff_t k, ptrdiff_t end, ptrdiff_t shift, const SnlsGrid *grid,
                      const int run, const int shape, const int whole, Mask mask)
{
    const int rows = 1 + (shape >> 1), columns = 1 + (shape & 1), apart = run == 1 && columns == 2, vectors = whole ? 2 : 1;
    const ptrdiff_t right = grid->right, down = grid->down;
    const float *const *const at = from->at, *const w0 = from->w[0], *const w1 = from->w[1], *const w2 = from->w[2], *const w3 = from->w[3];
    Vec sum[4][LONGEST][2];
    UNROLL for (int m = 0; m < 4; m++)
        UNROLL for (int p = 0; p < run; p++)
            UNROLL for (int v = 0; v < vectors; v++) sum[m][p][v] = v_zero();
    for (; k < end; k++)
        UNROLL for (int a = 0; a < rows; a++) {
            const float *row = at[k] + shift + a * down;
            OPAQUE(row);
            const Vec left = v_set(a ? w2[k] : w0[k]), other = columns == 2 ? v_set(a ? w3[k] : w1[k]) : left;
            UNROLL for (int p = 0; p < run + columns - 1; p++)
                UNROLL for (int v = 0; v < vectors; v++) {
                    const Vec x = read_vec(row + p * right + v * LANES, whole, mask);
                    if (p < run) sum[a][p][v] = v_fma(left, x, sum[a][p][v]);
                    if (columns == 2 && p > 0) sum[a + 2 * apart][p - 1][v] = v_fma(other, x, sum[a + 2 * apart][p - 1][v]);
                }
        }
    UNROLL for (int p = 0; p < run; p++)
        UNROLL for (int v = 0; v < vectors; v++) {
            float *const to = out + p * step + v * LANES;
            Vec x = sum[0][p][v];
            if (apart) x = v_add(x, sum[2][p][v]);
            if (rows == 2) x = v_add(x, apart ? v_add(sum[1][p][v], sum[3][p][v]) : sum[1][p][v]);
            write_vec(to, v_add(read_vec(to, whole, mask), x), whole, mask);
        }
}

ALWAYS void mix_run(float *out, ptrdiff_t step, const SnlsPlaces *from, ptrdiff_t k, ptrdiff_t end, ptrdiff_t shift, const SnlsGrid *grid, const int run,
                    const int shape)
{
    ptrdiff_t i = 0;
    for (; i + 2 * LANES <= grid->n; i += 2 * LANES) mix_chunk(out + i, step, from, k, end, shift + i, grid, run, shape, 1, v_mask(LANES));
    for (; i < grid->n; i += LANES) mix_chunk(out + i, step, from, k, end, shift + i, grid, run, shape, 0, v_mask(grid->n - i));
}

typedef void MixRun(float *out, ptrdiff_t step, const SnlsPlaces *from, ptrdiff_t k, ptrdiff_t end, ptrdiff_t shift, const SnlsGrid *grid);

#define MIX(run, shape)                                                                                                                                  \
    static void mix_##run##_##shape(float *out, ptrdiff_t step, const SnlsPlaces *from, ptrdiff_t k, ptrdiff_t end, ptrdiff_t shift, const SnlsGrid *grid) \
    {                                                                                                                                                    \
        mix_run(out, step, from, k, end, shift, grid, run, shape);                                                                                       \
    }
MIX(1, 0) MIX(1, 1) MIX(1, 2) MIX(1, 3)
MIX(2, 0) MIX(2, 1) MIX(2, 2) MIX(2, 3)
MIX(3, 0) MIX(3, 1) MIX(3, 2) MIX(3, 3)
#undef MIX

static MixRun *const mix_of[LONGEST][4] = {
    { mix_1_0, mix_1_1, mix_1_2, mix_1_3 }, { mix_2_0, mix_2_1, mix_2_2, mix_2_3 }, { mix_3_0, mix_3_1, mix_3_2, mix_3_3 }
};

static void mix(float *out, ptrdiff_t step, ptrdiff_t run, const SnlsPlaces *from, ptrdiff_t i, ptrdiff_t count, ptrdiff_t shift, const SnlsGrid *grid)
{
    while (run > 0) {
        const ptrdiff_t some = run > LONGEST ? LONGEST : run;
        mix_of[some - 1][grid->shape](out, step, from, i, i + count, shift, grid);
        run -= some, out += some * step, shift += some * grid->right;
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

ALWAYS void dot_place(float *out, const float *at, const float *g, const SnlsPatch *patch, const SnlsGrid *grid, const int shape)
{
    Vec sum[4][2];
    UNROLL for (int m = 0; m < 4; m++) sum[m][0] = sum[m][1] = v_zero();
    for (ptrdiff_t r = 0; r < patch->rows; r++, g += patch->down, at += grid->down) {
        ptrdiff_t i = 0;
        for (; i + 2 * LANES <= grid->n; i += 2 * LANES) dot_row_of(sum, g + i, patch->right, at + i, patch->run, grid, shape, 1, v_mask(LANES));
        for (; i < grid->n; i += LANES) dot_row_of(sum, g + i, patch->right, at + i, patch->run, grid, shape, 0, v_mask(grid->n - i));
    }
    _mm_storeu_ps(out, v_sum4(v_add(sum[0][0], sum[0][1]), v_add(sum[1][0], sum[1][1]), v_add(sum[2][0], sum[2][1]), v_add(sum[3][0], sum[3][1])));
}

ALWAYS void dot_places(float *out, const SnlsPlaces *from, ptrdiff_t count, ptrdiff_t shift, const float *g, const SnlsPatch *patch, const SnlsGrid *grid,
                       const int shape)
{
    for (ptrdiff_t i = 0; i < count; i++) dot_place(out + 4 * i, from->at[i] + shift, g + from->k[i] * patch->of_k, patch, grid, shape);
}

static void dot_patch(float *out, const SnlsPlaces *from, ptrdiff_t count, ptrdiff_t shift, const float *g, const SnlsPatch *patch, const SnlsGrid *grid)
{
    if (grid->shape == 0) dot_places(out, from, count, shift, g, patch, grid, 0);
    else if (grid->shape == 1) dot_places(out, from, count, shift, g, patch, grid, 1);
    else if (grid->shape == 2) dot_places(out, from, count, shift, g, patch, grid, 2);
    else dot_places(out, from, count, shift, g, patch, grid, 3);
}

/* ---- spread_patch: pixel p of a row of the grid takes pixel p of the patch's row and the one before, of one or two rows ---- */

ALWAYS void spread_chunk(float *out, const float *w, const float *g, ptrdiff_t up, ptrdiff_t step, ptrdiff_t run, ptrdiff_t right, const int columns,
                         const int upper, const int lower, const int whole, Mask mask)
{
    const int vectors = whole ? 2 : 1;
    Vec before[2][2], weight[4];
    UNROLL for (int m = 0; m < 4; m++) weight[m] = v_set(w[m]);
    for (ptrdiff_t p = 0; p < run + columns - 1; p++, out += right, g += step)
        UNROLL for (int v = 0; v < vectors; v++) {
            Vec x = read_vec(out + v * LANES, whole, mask);
            if (columns == 2 && p > 0) {
                if (upper) x = v_fma(weight[1], before[0][v], x);
                if (lower) x = v_fma(weight[3], before[1][v], x);
            }
            if (p < run) {
                if (upper) x = v_fma(weight[0], before[0][v] = read_vec(g + v * LANES, whole, mask), x);
                if (lower) x = v_fma(weight[2], before[1][v] = read_vec(g - up + v * LANES, whole, mask), x);
            }
            write_vec(out + v * LANES, x, whole, mask);
        }
}

ALWAYS void spread_row(float *out, const float *w, const float *g, const SnlsPatch *patch, const SnlsGrid *grid, const int columns, const int upper, const int lower)
{
    ptrdiff_t i = 0;
    for (; i + 2 * LANES <= grid->n; i += 2 * LANES)
        spread_chunk(out + i, w, g + i, patch->down, patch->right, patch->run, grid->right, columns, upper, lower, 1, v_mask(LANES));
    for (; i < grid->n; i += LANES)
        spread_chunk(out + i, w, g + i, patch->down, patch->right, patch->run, grid->right, columns, upper, lower, 0, v_mask(grid->n - i));
}

ALWAYS void spread_rows(float *out, const float *w, const float *g, const SnlsPatch *patch, ptrdiff_t first, ptrdiff_t end, const SnlsGrid *grid, const int shape)
{
    const int columns = 1 + (shape & 1), rows = 1 + (shape >> 1);
    const ptrdiff_t last = patch->rows + rows - 1;
    if (first < 0) first = 0;
    if (end > last) end = last;
    for (ptrdiff_t r = first; r < end; r++) {
        float *const to = out + r * grid->down;
        const float *const from = g + r * patch->down;
        if (rows == 2 && r == 0) spread_row(to, w, from, patch, grid, columns, 1, 0);
        else if (rows == 2 && r == patch->rows) spread_row(to, w, from, patch, grid, columns, 0, 1);
        else spread_row(to, w, from, patch, grid, columns, 1, rows == 2);
    }
}

static void spread_patch(float *out, const float *w, const float *g, const SnlsPatch *patch, ptrdiff_t first, ptrdiff_t end, const SnlsGrid *grid)
{
    if (grid->shape == 0) spread_rows(out, w, g, patch, first, end, grid, 0);
    else if (grid->shape == 1) spread_rows(out, w, g, patch, first, end, grid, 1);
    else if (grid->shape == 2) spread_rows(out, w, g, patch, first, end, grid, 2);
    else spread_rows(out, w, g, patch, first, end, grid, 3);
}
