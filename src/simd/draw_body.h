/* draw_body.h: draw_patch of dsp.h: a vector of features at a time, so that what is pulled goes from registers to the key's gradient, where pull_patch and spread_patch take it through memory.
 * Included after pair_body.h where there are 32 registers. Constants select the code: the side of the patch, shape, prod, along. Terms of a sum come in the order of those two: the same bits. */

enum { SIDE_MAX = 7 };

/* What rows of a patch have in common. */
typedef struct Draw {
    PairRow pair;
    Vec gw[4];
    ptrdiff_t patch_down, out_right, out_down;
} Draw;

/* A row of pixels. above: d of the row before (first: there is none), then of this one. */
ALWAYS void draw_row(Vec sum[4], Vec above[SIDE_MAX], float *to, float *out, const Draw *c, const float *at, const float *q, const int side, const int shape, const int prod,
                     const int along, const int first)
{
    const int beside = along || (shape & 1), lower = along || (shape & 2), right = shape & 1, below = shape >> 1 && !first;
    Vec x[2], y[2], left = v_zero(), left_above = v_zero();
    x[0] = x[1] = y[0] = y[1] = v_load(at);
    if (lower) x[1] = v_load(at + c->pair.down);
    EIGHT for (int p = 0; p < side; p++) {
        if (beside || p + 1 < side) { /* else there may be none */
            at += c->pair.right;
            y[0] = v_load(at);
            if (lower) y[1] = v_load(at + c->pair.down);
        }
        HELD(y[0]);
        if (lower) HELD(y[1]);
        const Vec read = pair_read(&c->pair, x[0], y[0], x[1], y[1], shape), other = v_load(q), e = prod ? read : v_sub(read, other), d = prod ? other : e;
        Vec key = v_load(out);
        v_store(to, v_fma(c->pair.g, e, v_load(to)));
        if (along) {
            sum[0] = v_fma(d, x[0], sum[0]);
            sum[1] = v_fma(d, y[0], sum[1]);
            sum[2] = v_fma(d, x[1], sum[2]);
            sum[3] = v_fma(d, y[1], sum[3]);
        }
        if (right && p > 0) key = v_fma(c->gw[1], left, key);
        if (right && p > 0 && below) key = v_fma(c->gw[3], left_above, key);
        key = v_fma(c->gw[0], d, key);
        if (below) key = v_fma(c->gw[2], above[p], key);
        v_store(out, key);
        left = d, left_above = above[p], above[p] = d;
        x[0] = y[0], x[1] = y[1];
        q += c->pair.step, to += c->pair.step, out += c->out_right;
    }
    if (!right) return;
    Vec key = v_fma(c->gw[1], left, v_load(out));
    if (below) key = v_fma(c->gw[3], left_above, key);
    v_store(out, key);
}

/* What the last row adds to the one below it. */
ALWAYS void draw_below(float *out, const Draw *c, const Vec above[SIDE_MAX], const int side, const int shape)
{
    const int right = shape & 1;
    EIGHT for (int p = 0; p < side + right; p++, out += c->out_right) {
        Vec key = v_load(out);
        if (right && p > 0) key = v_fma(c->gw[3], above[p - 1], key);
        if (p < side) key = v_fma(c->gw[2], above[p], key);
        v_store(out, key);
    }
}

ALWAYS void draw_vector(Vec sum[4], float *to, float *out, const Draw *c, const float *at, const float *q, const int side, const int shape, const int prod, const int along)
{
    Vec above[SIDE_MAX];
    EIGHT for (int p = 0; p < side; p++) above[p] = v_zero();
    draw_row(sum, above, to, out, c, at, q, side, shape, prod, along, 1);
    for (int r = 1; r < side; r++) {
        at += c->pair.down, q += c->patch_down, to += c->patch_down, out += c->out_down;
        draw_row(sum, above, to, out, c, at, q, side, shape, prod, along, 0);
    }
    if (shape >> 1) draw_below(out + c->out_down, c, above, side, shape);
}

ALWAYS void draw_by(float *along_out, float *to, float g, const SnlsPair *pair, const SnlsPatch *patch, const SnlsGrid *grid, float *out, const float w[4], const SnlsGrid *out_grid,
                    const int side, const int shape, const int prod, const int along)
{
    Draw c = { { { v_zero(), v_zero(), v_zero(), v_zero() }, v_set(g), grid->right, grid->down, patch->right }, { v_zero(), v_zero(), v_zero(), v_zero() }, patch->down, out_grid->right, out_grid->down };
    Vec even[4], odd[4];
    UNROLL for (int m = 0; m < 4; m++) {
        c.pair.w[m] = v_set(pair->w[m]);
        c.gw[m] = v_set(w[m]);
        even[m] = odd[m] = v_zero();
    }
    for (ptrdiff_t i = 0; i < grid->n; i += 2 * LANES) {
        const ptrdiff_t next = i + LANES;
        draw_vector(even, to + i, out + i, &c, pair->at + i, pair->q + i, side, shape, prod, along);
        if (next < grid->n) draw_vector(odd, to + next, out + next, &c, pair->at + next, pair->q + next, side, shape, prod, along);
    }
    if (along) v_store4(along_out, v_sum4(v_add(even[0], odd[0]), v_add(even[1], odd[1]), v_add(even[2], odd[2]), v_add(even[3], odd[3])));
}

typedef void DrawPatch(float *along, float *to, float g, const SnlsPair *pair, const SnlsPatch *patch, const SnlsGrid *grid, float *out, const float w[4], const SnlsGrid *out_grid);

#define DRAW(side, shape, prod, along)                                                                                                                           \
    static void draw_##side##_##shape##_##prod##_##along(float *sums, float *to, float g, const SnlsPair *pair, const SnlsPatch *patch, const SnlsGrid *grid, float *out, \
                                                         const float w[4], const SnlsGrid *out_grid)                                                             \
    {                                                                                                                                                            \
        draw_by(sums, to, g, pair, patch, grid, out, w, out_grid, side, shape, prod, along);                                                                      \
    }
#define DRAWS(side, shape) DRAW(side, shape, 0, 0) DRAW(side, shape, 0, 1) DRAW(side, shape, 1, 0) DRAW(side, shape, 1, 1)
#define NAMES(side, shape) { { draw_##side##_##shape##_0_0, draw_##side##_##shape##_0_1 }, { draw_##side##_##shape##_1_0, draw_##side##_##shape##_1_1 } }
DRAWS(3, 0) DRAWS(3, 3) DRAWS(5, 0) DRAWS(5, 3) DRAWS(7, 0) DRAWS(7, 3)
static DrawPatch *const draw_of[3][2][2][2] = { { NAMES(3, 0), NAMES(3, 3) }, { NAMES(5, 0), NAMES(5, 3) }, { NAMES(7, 0), NAMES(7, 3) } };
#undef NAMES
#undef DRAWS
#undef DRAW

static int draw_patch(float *along, float *to, float g, const SnlsPair *pair, const SnlsPatch *patch, const SnlsGrid *grid, float *out, const float w[4], const SnlsGrid *out_grid)
{
    const ptrdiff_t side = patch->rows;
    const int loops = (side == 3 || side == 5 || side == 7) && patch->run == side && grid->n % LANES == 0 && (grid->shape == 0 || grid->shape == 3);
    /* A load behind a store to an address a multiple of 4096 bytes away waits for it; so many of them that two loops are faster. */
    if (side == 7 && grid->shape == 0 && grid->n > LANES && grid->down % 1024 == 0) return 0;
    if (loops) draw_of[(side - 3) / 2][grid->shape != 0][pair->prod != 0][along != NULL](along, to, g, pair, patch, grid, out, w, out_grid);
    return loops;
}
