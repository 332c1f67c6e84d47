/* pair_body.h: bends, pull_patch and pull_pixel of dsp.h, written once; included after patch_body.h, with v_mul and v_sub beside what that
 * needs. A column of the grid is read once for the pixels left and right of it. Constants select the code: shape, prod,
 * whether sums along the taps are wanted, whether e itself is added or written (into), and whole (two registers, no mask). */

ALWAYS void add_bends(Vec sum[3], const float *k, const float *right, const float *lower, const float *both, const int whole, Mask mask)
{
    const Vec x = read_vec(k, whole, mask), below = read_vec(lower, whole, mask);
    const Vec r = v_sub(x, read_vec(right, whole, mask)), d = v_sub(x, below), e = v_sub(r, v_sub(below, read_vec(both, whole, mask)));
    sum[0] = v_fma(r, r, sum[0]);
    sum[1] = v_fma(d, d, sum[1]);
    sum[2] = v_fma(e, e, sum[2]);
}

static void bends(float out[3], const float *k, const float *right, const float *lower, const float *both, ptrdiff_t n)
{
    Vec sum[3] = { v_zero(), v_zero(), v_zero() };
    float four[4];
    ptrdiff_t i = 0;
    for (; i + LANES <= n; i += LANES) add_bends(sum, k + i, right + i, lower + i, both + i, 1, v_mask(LANES));
    if (i < n) add_bends(sum, k + i, right + i, lower + i, both + i, 0, v_mask(n - i));
    v_store4(four, v_sum4(sum[0], sum[1], sum[2], v_zero()));
    for (int m = 0; m < 3; m++) out[m] = four[m];
}

/* What the pixels of a row have in common. */
typedef struct PairRow {
    Vec w[4], g;
    ptrdiff_t right, down, step; /* of the grid; of the patch */
} PairRow;

ALWAYS Vec pair_read(const PairRow *c, Vec upper_left, Vec upper_right, Vec lower_left, Vec lower_right, const int shape)
{
    Vec x = v_mul(c->w[0], upper_left);
    if (shape & 1) x = v_fma(c->w[1], upper_right, x);
    if (shape & 2) x = v_fma(c->w[2], lower_left, x);
    if (shape == 3) x = v_fma(c->w[3], lower_right, x);
    return x;
}

enum { INTO_PATCH = 1, INTO_OUT = 2 };

/* e of a row of pixels, added to `to` times g, and written to `out`. */
ALWAYS void pair_row(Vec sum[4][2], float *to, float *out, ptrdiff_t n, const PairRow *c, const float *at, const float *q, ptrdiff_t run, const int shape,
                     const int prod, const int along, const int into, const int vectors, const int whole, Mask mask)
{
    const int beside = along || (shape & 1), lower = along || (shape & 2);
    Vec x[2][2], y[2][2];
    UNROLL for (int v = 0; v < vectors; v++) {
        x[0][v] = x[1][v] = y[0][v] = y[1][v] = read_vec(at + v * LANES, whole, mask);
        if (lower) x[1][v] = read_vec(at + c->down + v * LANES, whole, mask);
    }
    for (; run > 0; run--, q += c->step) {
        if (beside || run > 1) at += c->right; /* else there may be none */
        UNROLL for (int v = 0; v < vectors; v++) {
            y[0][v] = read_vec(at + v * LANES, whole, mask);
            if (lower) y[1][v] = read_vec(at + c->down + v * LANES, whole, mask);
            const Vec read = pair_read(c, x[0][v], y[0][v], x[1][v], y[1][v], shape);
            const Vec other = prod && !along ? read : read_vec(q + v * LANES, whole, mask), e = prod ? read : v_sub(read, other), d = prod ? other : e;
            if (into & INTO_PATCH) write_vec(to + v * LANES, v_fma(c->g, e, read_vec(to + v * LANES, whole, mask)), whole, mask);
            if (into & INTO_OUT) write_vec(out + v * LANES, e, whole, mask);
            if (along) {
                sum[0][v] = v_fma(d, x[0][v], sum[0][v]);
                sum[1][v] = v_fma(d, y[0][v], sum[1][v]);
                sum[2][v] = v_fma(d, x[1][v], sum[2][v]);
                sum[3][v] = v_fma(d, y[1][v], sum[3][v]);
            }
            x[0][v] = y[0][v], x[1][v] = y[1][v];
        }
        if (into & INTO_PATCH) to += c->step;
        if (into & INTO_OUT) out += n;
    }
}

ALWAYS void pair_patch(float *along_out, float *to, float g, const SnlsPair *pair, const SnlsPatch *patch, const SnlsGrid *grid, const int shape,
                       const int prod, const int along, const int into)
{
    const ptrdiff_t n = grid->n, rows = patch->rows, run = patch->run;
    PairRow c = { { v_zero(), v_zero(), v_zero(), v_zero() }, v_set(g), grid->right, grid->down, patch->right };
    Vec sum[4][2];
    UNROLL for (int m = 0; m < 4; m++) {
        c.w[m] = v_set(pair->w[m]);
        sum[m][0] = sum[m][1] = v_zero();
    }
    for (ptrdiff_t i = 0, width; i < n; i += width) { /* in the order of draw_body.h, so that sums are the same */
        const int whole = i + 2 * LANES <= n;
        width = whole ? 2 * LANES : LANES;
        for (ptrdiff_t r = 0; r < rows; r++) {
            const float *const at = pair->at + r * grid->down + i, *const q = pair->q + r * patch->down + i;
            float *const here = into & INTO_PATCH ? to + r * patch->down + i : NULL, *const there = into & INTO_OUT ? pair->out + r * pair->out_down + i : NULL;
            if (whole) pair_row(sum, here, there, n, &c, at, q, run, shape, prod, along, into, 2, 1, v_mask(LANES));
            else pair_row(sum, here, there, n, &c, at, q, run, shape, prod, along, into, 1, 0, v_mask(n - i));
        }
    }
    if (along)
        v_store4(along_out,
                 v_sum4(v_add(sum[0][0], sum[0][1]), v_add(sum[1][0], sum[1][1]), v_add(sum[2][0], sum[2][1]), v_add(sum[3][0], sum[3][1])));
}

typedef void PullPatch(float *along, float *to, float g, const SnlsPair *pair, const SnlsPatch *patch, const SnlsGrid *grid);

/* into: what is given of `to` and pair->out */
#define PULL(shape, prod, along, into)                                                                                                            \
    static void pull_##shape##_##prod##_##along##_##into(float *sums, float *to, float g, const SnlsPair *pair, const SnlsPatch *patch, \
                                                         const SnlsGrid *grid)                                                                      \
    {                                                                                                                                               \
        pair_patch(sums, to, g, pair, patch, grid, shape, prod, along, into);                                                                  \
    }
#define PULLS(shape, along) PULL(shape, 0, along, 0) PULL(shape, 0, along, 1) PULL(shape, 0, along, 2) PULL(shape, 0, along, 3) PULL(shape, 1, along, 0) PULL(shape, 1, along, 1)
#define SHAPE(shape) PULLS(shape, 0) PULLS(shape, 1)
SHAPE(0) SHAPE(1) SHAPE(2) SHAPE(3)
#undef SHAPE
#undef PULLS
#undef PULL

#define L2(shape, along) { pull_##shape##_0_##along##_0, pull_##shape##_0_##along##_1, pull_##shape##_0_##along##_2, pull_##shape##_0_##along##_3 }
#define PROD(shape, along) { pull_##shape##_1_##along##_0, pull_##shape##_1_##along##_1, NULL, NULL }
#define SHAPE(shape) { { L2(shape, 0), L2(shape, 1) }, { PROD(shape, 0), PROD(shape, 1) } }
static PullPatch *const pull_of[4][2][2][4] = { SHAPE(0), SHAPE(1), SHAPE(2), SHAPE(3) };
#undef SHAPE
#undef PROD
#undef L2

static void pull_patch(float *along, float *to, float g, const SnlsPair *pair, const SnlsPatch *patch, const SnlsGrid *grid)
{
    const int into = (to ? INTO_PATCH : 0) | (pair->out && !pair->prod ? INTO_OUT : 0);
    if (along || into) pull_of[grid->shape][pair->prod != 0][along != NULL][into](along, to, g, pair, patch, grid);
}

/* ---- single pixels ---- */

ALWAYS void pixel_part(Vec sum[4], const SnlsPixel *p, const PairRow *c, const Vec gw[4], ptrdiff_t i, const int shape, const int prod, const int along,
                       const int whole, Mask mask)
{
    const float *const at = p->at + i;
    Vec x[4];
    UNROLL for (int m = 0; m < 4; m++) x[m] = m == 0 || along || (shape & m) == m ? read_vec(at + (m & 1) * c->right + (m >> 1) * c->down, whole, mask) : v_zero();
    const Vec read = pair_read(c, x[0], x[1], x[2], x[3], shape), q = read_vec(p->q + i, whole, mask), e = prod ? read : v_sub(read, q), d = prod ? q : e;
    if (p->to) write_vec(p->to + i, v_fma(c->g, e, read_vec(p->to + i, whole, mask)), whole, mask);
    UNROLL for (int m = 0; along && m < 4; m++) sum[m] = v_fma(d, x[m], sum[m]);
    if (!p->out) return;
    UNROLL for (int m = 0; m < 4; m++) /* one after the other: taps may be the same pixel */
        if ((shape & m) == m && (p->rows >> (m >> 1) & 1)) {
            float *const out = p->out + i + (m & 1) * p->out_right + (m >> 1) * p->out_down;
            write_vec(out, v_fma(gw[m], d, read_vec(out, whole, mask)), whole, mask);
        }
}

ALWAYS void pixel_by(float *along_out, const SnlsPixel *p, const int shape, const int prod, const int along)
{
    PairRow c = { { v_zero(), v_zero(), v_zero(), v_zero() }, v_set(prod ? p->g : -p->g), p->right, p->down, 0 };
    Vec sum[4], gw[4];
    UNROLL for (int m = 0; m < 4; m++) {
        c.w[m] = v_set(p->w[m]);
        gw[m] = v_set(p->g * p->w[m]);
        sum[m] = v_zero();
    }
    ptrdiff_t i = 0;
    for (; i + LANES <= p->n; i += LANES) pixel_part(sum, p, &c, gw, i, shape, prod, along, 1, v_mask(LANES));
    if (i < p->n) pixel_part(sum, p, &c, gw, i, shape, prod, along, 0, v_mask(p->n - i));
    if (along) v_store4(along_out, v_sum4(sum[0], sum[1], sum[2], sum[3]));
}

ALWAYS void pixel_shape(float *along, const SnlsPixel *p, const int shape)
{
    if (p->prod) {
        if (along) pixel_by(along, p, shape, 1, 1);
        else pixel_by(NULL, p, shape, 1, 0);
    } else if (along) pixel_by(along, p, shape, 0, 1);
    else pixel_by(NULL, p, shape, 0, 0);
}

ALWAYS void pull_one(float *along, const SnlsPixel *p)
{
    switch (p->shape) {
    case 0: pixel_shape(along, p, 0); break;
    case 1: pixel_shape(along, p, 1); break;
    case 2: pixel_shape(along, p, 2); break;
    default: pixel_shape(along, p, 3);
    }
}

static void pull_pixel(float *along, const SnlsPixel *p) { pull_one(along, p); }

static void pull_list(const SnlsSettled *s, ptrdiff_t n, const SnlsPulls *in)
{
    const SnlsPulls c = *in; /* no store can change it */
    for (ptrdiff_t i = 0; i < n; i++) {
        SnlsPixel p;
        if (snls_pull_pixel(&p, s, i, &c)) pull_one(s->window[i] >= c.first_along ? c.along[i] : NULL, &p);
    }
}
