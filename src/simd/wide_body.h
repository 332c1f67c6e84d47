/* wide_body.h: single pixels of mix, dot_patch and spread_places by eight vectors beside each other, where vectors are short and there are
 * many of them; included by patch_body.h. Weights and addresses are read once for so many channels, and what is read in
 * some places' time is asked for. */

enum { SOON = 4 }; /* places: what is read in so many is asked for, since it comes from the second cache, in no order that a processor could foresee */

ALWAYS void ask_taps(const float *at, const SnlsGrid *grid, const int shape, const int floats, const int write)
{
    UNROLL for (int m = 0; m < 4; m++) {
        if ((m & shape) != m) continue;
        const float *tap = at + (m & 1) * grid->right + (m >> 1) * grid->down;
        OPAQUE(tap);
        UNROLL for (int e = 0; e < floats; e += 16) {
            if (write) __builtin_prefetch(tap + e, 1);
            else __builtin_prefetch(tap + e);
        }
    }
}

/* Four vectors need two sums each to be chains enough. last: the end of the places that will be read. */
ALWAYS void mix_one_wide(float *out, const SnlsPlaces *from, ptrdiff_t k, ptrdiff_t end, ptrdiff_t last, ptrdiff_t shift, const SnlsGrid *grid, const int shape,
                         const int vectors, const int set)
{
    const int chains = 8 / vectors;
    const float *const *const at = from->at;
    const ptrdiff_t right = grid->right, down = grid->down;
    Vec sum[2][8];
    EIGHT for (int v = 0; v < 8; v++) sum[0][v] = sum[1][v] = v_zero();
    for (; k < end; k++) {
        const float *const row = at[k] + shift;
        ask_taps(at[k + SOON < last ? k + SOON : k] + shift, grid, shape, vectors * LANES, 0);
        UNROLL for (int m = 0; m < 4; m++) {
            if ((m & shape) != m) continue;
            const Vec w = v_set(from->w[m][k]);
            const float *tap = row + (m & 1) * right + (m >> 1) * down;
            OPAQUE(tap); /* one address for all, and pairs of vectors by one instruction */
            EIGHT for (int v = 0; v < vectors; v++) sum[m * chains / 4][v] = v_fma(w, v_load(tap + v * LANES), sum[m * chains / 4][v]);
        }
    }
    EIGHT for (int v = 0; v < vectors; v++) {
        const Vec x = chains == 1 ? sum[0][v] : v_add(sum[0][v], sum[1][v]);
        v_store(out + v * LANES, set ? x : v_add(v_load(out + v * LANES), x));
    }
}

/* From channel c on as many as fill vectors; returns how many are done. */
ALWAYS ptrdiff_t set_wide(float *out, const SnlsRun *run, const SnlsPlaces *from, ptrdiff_t i, ptrdiff_t c, ptrdiff_t shift, const SnlsGrid *grid, const int shape, const int vectors)
{
    const SnlsPlaces places = *from; /* lest what is written be thought to change them */
    const SnlsGrid g = *grid;
    const SnlsRun r = *run;
    for (; c + vectors * LANES <= g.n; c += vectors * LANES)
        for (ptrdiff_t q = 0; q < r.queries; q++) {
            const ptrdiff_t k = i + q * r.places, end = k + r.count;
            ask_ahead(&r, &g, q, c, vectors);
            mix_one_wide(out + q * r.step + c, &places, k, end, r.places == r.count ? i + r.queries * r.places : end, shift + c, &g, shape, vectors, 1);
        }
    return c;
}

/* Whether rows of the grid fight for places in the first cache: a multiple of 4 KiB apart they share few, and a patch's pixels are gone before they are read again. */
ALWAYS int rows_fight(const SnlsGrid *grid) { return grid->down % 1024 == 0; }

/* A row of three pixels of a patch between pixels, eight vectors wide: lines of the cache are read whole and side by side, and those of the next place asked for.
 * Taps come in the order of mix_chunk, so the bits are the same. */
APART void mix_row_wide(float *out, ptrdiff_t step, const SnlsPlaces *from, ptrdiff_t k, ptrdiff_t end, ptrdiff_t shift, ptrdiff_t right, ptrdiff_t down)
{
    const float *const *const at = from->at, *const w0 = from->w[0], *const w1 = from->w[1], *const w2 = from->w[2], *const w3 = from->w[3];
    Vec sum[3][8];
    UNROLL for (int p = 0; p < 3; p++)
        EIGHT for (int v = 0; v < 8; v++) sum[p][v] = v_zero();
    for (; k < end; k++) {
        const float *row = at[k] + shift, *const next = at[k + 1 < end ? k + 1 : k] + shift;
        EIGHT for (int e = 0; e < 8; e++) __builtin_prefetch(next + 16 * e), __builtin_prefetch(next + down + 16 * e);
        UNROLL for (int r = 0; r < 2; r++, row += down) {
            const Vec a = v_set(r ? w2[k] : w0[k]), b = v_set(r ? w3[k] : w1[k]);
            const float *pixel = row;
            UNROLL for (int p = 0; p < 4; p++, pixel += right) {
                OPAQUE(pixel);
                EIGHT for (int v = 0; v < 8; v++) {
                    Vec x = v_load(pixel + v * LANES);
                    HELD(x);
                    if (p < 3) sum[p][v] = v_fma(a, x, sum[p][v]);
                    if (p > 0) sum[p - 1][v] = v_fma(b, x, sum[p - 1][v]);
                }
            }
        }
    }
    UNROLL for (int p = 0; p < 3; p++, out += step)
        EIGHT for (int v = 0; v < 8; v++) v_store(out + v * LANES, v_add(v_load(out + v * LANES), sum[p][v]));
}

/* A patch of three by three between pixels, as many channels as fill eight vectors; returns how many are done. */
ALWAYS ptrdiff_t mix_rows_wide(float *out, const SnlsPatch *patch, const SnlsPlaces *from, ptrdiff_t k, ptrdiff_t end, ptrdiff_t shift, const SnlsGrid *grid)
{
    ptrdiff_t c = 0;
    for (; c + 8 * LANES <= grid->n; c += 8 * LANES)
        for (int r = 0; r < 3; r++) mix_row_wide(out + r * patch->down + c, patch->right, from, k, end, shift + r * grid->down + c, grid->right, grid->down);
    return c;
}

/* What dot_row_of does two by two. Returns how many channels are done. */
ALWAYS ptrdiff_t dot_wide(Vec sum[4][2], const float *g, const float *at, const SnlsGrid *grid, const int shape)
{
    ptrdiff_t i = 0;
    for (; i + 8 * LANES <= grid->n; i += 8 * LANES)
        UNROLL for (int m = 0; m < 4; m++) {
            if ((m & shape) != m) continue;
            const float *tap = at + (m & 1) * grid->right + (m >> 1) * grid->down + i;
            OPAQUE(tap);
            EIGHT for (int v = 0; v < 8; v++) sum[m][v & 1] = v_fma(v_load(g + i + v * LANES), v_load(tap + v * LANES), sum[m][v & 1]);
        }
    return i;
}

/* What spread_chunk does, of four vectors, for a run that is known: no branches, and what was before stays where it is. */
ALWAYS void spread_three(float *out, const float *w, const float *g, ptrdiff_t up, ptrdiff_t step, ptrdiff_t right, const int columns, const int upper, const int lower)
{
    const Vec weight[4] = { v_set(w[0]), v_set(w[1]), v_set(w[2]), v_set(w[3]) };
    Vec here[2][4], before[2][4];
    UNROLL for (int p = 0; p < 2 + columns; p++, out += right, g += step) {
        OPAQUE(out);
        OPAQUE(g);
        UNROLL for (int v = 0; v < 4; v++) {
            Vec x = v_load(out + v * LANES);
            if (upper && p < 3) here[0][v] = v_load(g + v * LANES);
            if (lower && p < 3) here[1][v] = v_load(g - up + v * LANES);
            if (columns == 2 && p > 0 && upper) x = v_fma(weight[1], before[0][v], x);
            if (columns == 2 && p > 0 && lower) x = v_fma(weight[3], before[1][v], x);
            if (upper && p < 3) x = v_fma(weight[0], before[0][v] = here[0][v], x);
            if (lower && p < 3) x = v_fma(weight[2], before[1][v] = here[1][v], x);
            v_store(out + v * LANES, x);
        }
    }
}

/* What spread_one does, tap by tap. */
ALWAYS void spread_wide(const SnlsPlaces *to, ptrdiff_t i, ptrdiff_t end, float factor, ptrdiff_t shift, const float *g, ptrdiff_t of_k, const SnlsGrid *grid, const int shape, const int vectors)
{
    const float *const *const places = to->at, *const w[4] = { to->w[0], to->w[1], to->w[2], to->w[3] };
    const int64_t *const k = to->k;
    const ptrdiff_t right = grid->right, down = grid->down;
    for (; i < end; i++) {
        const float *from = g + k[i] * of_k;
        float *const at = (float *)(uintptr_t)places[i] + shift;
        Vec x[8];
        ask_taps(places[i + SOON < end ? i + SOON : i] + shift, grid, shape, vectors * LANES, 1);
        OPAQUE(from);
        EIGHT for (int v = 0; v < vectors; v++) x[v] = v_load(from + v * LANES);
        UNROLL for (int m = 0; m < 4; m++) {
            if ((m & shape) != m) continue;
            const Vec by = v_set(factor * w[m][i]);
            float *tap = at + (m & 1) * right + (m >> 1) * down;
            OPAQUE(tap);
            EIGHT for (int v = 0; v < vectors; v++) v_store(tap + v * LANES, v_fma(by, x[v], v_load(tap + v * LANES)));
        }
    }
}
