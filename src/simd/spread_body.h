/* spread_body.h: spread_patch and spread_places of dsp.h; included by patch_body.h. */

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
#if WIDE
    for (; patch->run == 3 && i + 4 * LANES <= grid->n; i += 4 * LANES) spread_three(out + i, w, g + i, patch->down, patch->right, grid->right, columns, upper, lower);
#endif
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

/* Pixels of a single float, one by one: a masked store would delay the loads of the next patch. */
static void spread_floats(float *out, const float *w, const float *g, const SnlsPatch *patch, ptrdiff_t first, ptrdiff_t end, const SnlsGrid *grid)
{
    const ptrdiff_t rows = patch->rows, run = patch->run, lower = grid->shape >> 1, beside = grid->shape & 1;
    for (ptrdiff_t r = first > 0 ? first : 0; r < end && r < rows + lower; r++)
        for (ptrdiff_t p = 0; p < run + beside; p++) {
            const float *const from = g + r * patch->down + p * patch->right;
            float *const to = out + r * grid->down + p * grid->right, x = *to;
            if (beside && p > 0 && r < rows) x = fmaf(w[1], from[-patch->right], x);
            if (beside && p > 0 && lower && r > 0) x = fmaf(w[3], from[-patch->right - patch->down], x);
            if (p < run && r < rows) x = fmaf(w[0], *from, x);
            if (p < run && lower && r > 0) x = fmaf(w[2], from[-patch->down], x);
            *to = x;
        }
}

static void spread_patch(float *out, const float *w, const float *g, const SnlsPatch *patch, ptrdiff_t first, ptrdiff_t end, const SnlsGrid *grid)
{
    if (grid->n == 1) spread_floats(out, w, g, patch, first, end, grid);
    else if (grid->shape == 0) spread_rows(out, w, g, patch, first, end, grid, 0);
    else if (grid->shape == 1) spread_rows(out, w, g, patch, first, end, grid, 1);
    else if (grid->shape == 2) spread_rows(out, w, g, patch, first, end, grid, 2);
    else spread_rows(out, w, g, patch, first, end, grid, 3);
}

/* ---- spread_places: the patch of a query to whole patches around many places ---- */

/* One pixel. The four of a place are read before any is written: rows are often a multiple of 4096 bytes apart, and a load behind a
 * store to such an address waits for it. The next place may overlap. */
ALWAYS void spread_one(const SnlsPlaces *to, ptrdiff_t i, ptrdiff_t end, float factor, ptrdiff_t shift, const float *g, ptrdiff_t of_k, const SnlsGrid *grid, const int shape,
                       const int vectors, const int whole, Mask mask)
{
    const float *const *const places = to->at, *const *const w = (const float *const *)to->w;
    const int64_t *const k = to->k;
    const ptrdiff_t right = grid->right, down = grid->down;
    const Vec all = v_set(factor);
    Vec x[4][2], y[2];
    for (; i < end; i++) {
        float *const at = (float *)(uintptr_t)places[i] + shift;
        UNROLL for (int v = 0; v < vectors; v++) {
            y[v] = read_vec(g + k[i] * of_k + v * LANES, whole, mask);
            HELD(y[v]);
        }
        UNROLL for (int m = 0; m < 4; m++) {
            if ((m & shape) != m) continue;
            UNROLL for (int v = 0; v < vectors; v++) {
                x[m][v] = read_vec(at + (m & 1) * right + (m >> 1) * down + v * LANES, whole, mask);
                HELD(x[m][v]);
            }
        }
        UNROLL for (int m = 0; m < 4; m++) {
            if ((m & shape) != m) continue;
            const Vec by = v_mul(all, v_set(w[m][i]));
            UNROLL for (int v = 0; v < vectors; v++) write_vec(at + (m & 1) * right + (m >> 1) * down + v * LANES, v_fma(by, y[v], x[m][v]), whole, mask);
        }
    }
}

ALWAYS void spread_pixel(const SnlsPlaces *to, ptrdiff_t i, ptrdiff_t end, float factor, ptrdiff_t shift, const float *g, ptrdiff_t of_k, const SnlsGrid *grid, const int shape)
{
    ptrdiff_t c = 0;
#if WIDE
    for (; c + 8 * LANES <= grid->n; c += 8 * LANES) spread_wide(to, i, end, factor, shift + c, g + c, of_k, grid, shape, 8);
    for (; c + 4 * LANES <= grid->n; c += 4 * LANES) spread_wide(to, i, end, factor, shift + c, g + c, of_k, grid, shape, 4);
#endif
    for (; c + 2 * LANES <= grid->n; c += 2 * LANES) spread_one(to, i, end, factor, shift + c, g + c, of_k, grid, shape, 2, 1, v_mask(LANES));
    for (; c < grid->n; c += LANES) spread_one(to, i, end, factor, shift + c, g + c, of_k, grid, shape, 1, 0, v_mask(grid->n - c));
}

#if ROOMY
/* Three by three, a vector of each at a time: all of a place is read before any is written. All channels of a place before the next one, though the patch
 * would stay in registers the other way round: the more other stores lie between, the fewer loads wait (rows a multiple of 4096 bytes apart).
 * Terms in the order of spread_chunk: the same bits as in a patch that is cut. */
ALWAYS void spread_nine(const SnlsPlaces *to, ptrdiff_t i, ptrdiff_t end, float factor, ptrdiff_t shift, const float *g, const SnlsPatch *patch, const SnlsGrid *grid, const int shape)
{
    const int lower = shape >> 1, beside = shape & 1;
    const float *const *const places = to->at, *const w0 = to->w[0], *const w1 = to->w[1], *const w2 = to->w[2], *const w3 = to->w[3];
    const ptrdiff_t n = grid->n;
    ptrdiff_t right = grid->right, down = grid->down, triple = 3 * right, step = patch->right, next = patch->down;
    Vec y[3][3], x[4][4];
    OPAQUE(right); /* addresses from rows on, not one register for each of 25 */
    OPAQUE(down);
    OPAQUE(triple);
    OPAQUE(step);
    OPAQUE(next);
    for (; i < end; i++) {
        const Vec a = v_set(factor * w0[i]), b = beside ? v_set(factor * w1[i]) : a, c = lower ? v_set(factor * w2[i]) : a, d = shape == 3 ? v_set(factor * w3[i]) : a;
        for (ptrdiff_t e = 0; e < n; e += LANES) {
            float *const first = (float *)(uintptr_t)places[i] + shift + e, *row = first;
            const float *from = g + e;
            UNROLL for (int r = 0; r < 3 + lower; r++, row += down, from += next) {
                OPAQUE(row);
                OPAQUE(from);
                UNROLL for (int p = 0; p < 3 + beside; p++) {
                    x[r][p] = v_load(row + (p < 3 ? p * right : triple));
                    HELD(x[r][p]);
                    if (r == 3 || p == 3) continue;
                    y[r][p] = v_load(from + p * step);
                    HELD(y[r][p]);
                }
            }
            row = first;
            UNROLL for (int r = 0; r < 3 + lower; r++, row += down) {
                OPAQUE(row);
                UNROLL for (int p = 0; p < 3 + beside; p++) {
                    if (beside && r < 3 && p > 0) x[r][p] = v_fma(b, y[r][p - 1], x[r][p]);
                    if (shape == 3 && r > 0 && p > 0) x[r][p] = v_fma(d, y[r - 1][p - 1], x[r][p]);
                    if (r < 3 && p < 3) x[r][p] = v_fma(a, y[r][p], x[r][p]);
                    if (lower && r > 0 && p < 3) x[r][p] = v_fma(c, y[r - 1][p], x[r][p]);
                    v_store(row + (p < 3 ? p * right : triple), x[r][p]);
                }
            }
        }
    }
}
#endif

ALWAYS void add_four(float *to, Four first, Four second)
{
    Four x;
    memcpy(&x, to, sizeof x);
    x = x + first + second;
    memcpy(to, &x, sizeof x);
}

/* Ones, which is what the accumulated weight takes, to pixels of a single float. Terms in the order of spread_floats. */
ALWAYS void spread_ones(const SnlsPlaces *to, ptrdiff_t i, ptrdiff_t end, float factor, ptrdiff_t shift, const SnlsPatch *patch, const SnlsGrid *grid, const int shape)
{
    const ptrdiff_t right = grid->right, down = grid->down;
    for (; i < end; i++) {
        float *const at = (float *)(uintptr_t)to->at[i] + shift;
        const float a = factor * to->w[0][i], b = factor * to->w[1][i], c = factor * to->w[2][i], d = factor * to->w[3][i];
        if (patch->rows == 1) {
            at[0] += a;
            if (shape & 1) at[right] += b;
            if (shape >> 1) at[down] += c;
            if (shape == 3) at[down + right] += d;
            continue;
        }
        const Four above[2] = { { 0, b, b, b }, { a, a, a, 0 } }, below[2] = { { 0, d, d, d }, { c, c, c, 0 } }; /* three by three between pixels */
        add_four(at, above[0], above[1]);
        for (int r = 1; r < 3; r++) {
            add_four(at + r * down, above[0], below[0]);
            add_four(at + r * down, above[1], below[1]);
        }
        add_four(at + 3 * down, below[0], below[1]);
    }
}

ALWAYS void spread_shape(const SnlsPlaces *to, ptrdiff_t i, ptrdiff_t end, float factor, ptrdiff_t shift, const float *g, const SnlsPatch *patch, const SnlsGrid *grid, const int shape)
{
    const ptrdiff_t rows = patch->rows, run = patch->run;
    if (are_ones(g, patch, grid, shape)) {
        spread_ones(to, i, end, factor, shift, patch, grid, shape);
        return;
    }
    if (rows == 1 && run == 1 && grid->n > 1) {
        spread_pixel(to, i, end, factor, shift, g, patch->of_k, grid, shape);
        return;
    }
#if ROOMY
    if (rows == 3 && run == 3 && patch->of_k == 0 && grid->n % LANES == 0) {
        spread_nine(to, i, end, factor, shift, g, patch, grid, shape);
        return;
    }
#endif
    for (; i < end; i++) {
        const float w[4] = { factor * to->w[0][i], factor * to->w[1][i], factor * to->w[2][i], factor * to->w[3][i] };
        spread_patch((float *)(uintptr_t)to->at[i] + shift, w, g + to->k[i] * patch->of_k, patch, 0, rows + 1, grid);
    }
}

static void spread_places(const SnlsPlaces *to, ptrdiff_t i, ptrdiff_t count, float factor, ptrdiff_t shift, const float *g, const SnlsPatch *patch, const SnlsGrid *grid)
{
    if (grid->shape == 0) spread_shape(to, i, i + count, factor, shift, g, patch, grid, 0);
    else if (grid->shape == 1) spread_shape(to, i, i + count, factor, shift, g, patch, grid, 1);
    else if (grid->shape == 2) spread_shape(to, i, i + count, factor, shift, g, patch, grid, 2);
    else spread_shape(to, i, i + count, factor, shift, g, patch, grid, 3);
}
