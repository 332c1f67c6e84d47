/* reads_body.h: score_places of dsp.h, written once; included after pair_body.h. Four places at a time, or one (windows have an odd number on a side), vectors along the features. Constants select the code:
 * shape, prod, whole (no mask). The sum of a place does not depend on the places beside it. */

typedef struct ReadsOf { Vec w[4]; ptrdiff_t right, down; } ReadsOf;

ALWAYS Vec read_at(const ReadsOf *c, const float *at, const int shape, const int whole, Mask mask)
{
    if (!shape) return read_vec(at, whole, mask);
    Vec x = v_mul(c->w[0], read_vec(at, whole, mask));
    if (shape & 1) x = v_fma(c->w[1], read_vec(at + c->right, whole, mask), x);
    if (shape & 2) x = v_fma(c->w[2], read_vec(at + c->down, whole, mask), x);
    if (shape == 3) x = v_fma(c->w[3], read_vec(at + c->right + c->down, whole, mask), x);
    return x;
}

ALWAYS void add_reads(Vec sum[4], const ReadsOf *c, const float *q, const float *const at[4], ptrdiff_t i, const int places, const int shape, const int prod, const int whole, Mask mask)
{
    const Vec x = read_vec(q + i, whole, mask);
    UNROLL for (int j = 0; j < places; j++) {
        const Vec read = read_at(c, at[j] + i, shape, whole, mask), d = prod ? x : v_sub(x, read);
        sum[j] = v_fma(d, prod ? read : d, sum[j]);
    }
}

ALWAYS void score_some(float out[4], const float *const *at, const SnlsReads *r, const ReadsOf *c, const int places, const int shape, const int prod)
{
    const ptrdiff_t n = r->n, rest = n % LANES;
    const float *q = r->q;
    Vec sum[4];
    UNROLL for (int j = 0; j < 4; j++) sum[j] = v_zero();
    for (ptrdiff_t row = 0; row < r->rows; row++)
        for (ptrdiff_t s = 0; s < r->run; s++, q += n) {
            const ptrdiff_t shift = row * r->next_down + s * r->next_right;
            const float *from[4];
            ptrdiff_t i = 0;
            UNROLL for (int j = 0; j < places; j++) from[j] = at[j] + shift;
            for (; i + LANES <= n; i += LANES) add_reads(sum, c, q, from, i, places, shape, prod, 1, v_mask(LANES));
            if (rest) add_reads(sum, c, q, from, i, places, shape, prod, 0, v_mask(rest));
        }
    v_store4(out, v_sum4(sum[0], sum[1], sum[2], sum[3]));
}

ALWAYS void score_all(float *out, const float *const *at, ptrdiff_t count, const SnlsReads *r, const int shape, const int prod)
{
    const ReadsOf c = { { v_set(r->w[0]), v_set(r->w[1]), v_set(r->w[2]), v_set(r->w[3]) }, r->right, r->down };
    ptrdiff_t i = 0;
    for (; i + 4 <= count; i += 4) score_some(out + i, at + i, r, &c, 4, shape, prod);
    if (i == count) return;
    const float *last[4]; /* those that are not there are the last once more */
    float four[4];
    if (i + 1 == count) {
        score_some(four, at + i, r, &c, 1, shape, prod);
        out[i] = four[0];
        return;
    }
    for (int j = 0; j < 4; j++) last[j] = at[i + j < count ? i + j : count - 1];
    score_some(four, last, r, &c, 4, shape, prod);
    for (int j = 0; i + j < count; j++) out[i + j] = four[j];
}

static void score_places(float *out, const float *const *at, ptrdiff_t count, const SnlsReads *reads)
{
    const SnlsReads r = *reads; /* no store can change it */
    switch (r.shape * 2 + (r.prod != 0)) {
    case 0: score_all(out, at, count, &r, 0, 0); break;
    case 1: score_all(out, at, count, &r, 0, 1); break;
    case 2: score_all(out, at, count, &r, 1, 0); break;
    case 3: score_all(out, at, count, &r, 1, 1); break;
    case 4: score_all(out, at, count, &r, 2, 0); break;
    case 5: score_all(out, at, count, &r, 2, 1); break;
    case 6: score_all(out, at, count, &r, 3, 0); break;
    case 7: score_all(out, at, count, &r, 3, 1); break;
    }
}
