/* tile_patch.h: loops for patches: products of pixels, their sums over patches. Part of tile_body.h, which says what it needs; also
 *   PATCH_ROWS, PATCH_COLUMNS, PATCH_SUMS: a block of sums that fits the registers with its queries, a key and a difference;
 *   v_after(a, b, n), if there is one: lanes n .. of a, then the first n of b. */

/* One row of keys. */
ALWAYS void products_row(const SnlsTileProducts *p, float *out, const float *query, const float *key, const int rows, const int columns, const int square)
{
    Vec sum[PATCH_ROWS][PATCH_COLUMNS];
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int c = 0; c < columns; c++) sum[r][c] = p->add ? v_load(out + r * p->out_row + c * p->out_column) : v_zero();
    for (ptrdiff_t f = 0; f < p->features; f++, key += p->key_pitch) {
        Vec q[PATCH_ROWS];
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++) q[r] = v_load(query + r * p->query_row + f * LANES);
        __builtin_prefetch(key + p->ahead);
        __builtin_prefetch(key + p->ahead + LANES);
#pragma GCC unroll 8
        for (int c = 0; c < columns; c++) {
            Vec k = v_load(key + c);
            IN_REGISTER(k); /* as in dots_block */
#pragma GCC unroll 8
            for (int r = 0; r < rows; r++) {
                const Vec a = square ? v_sub(q[r], k) : q[r];
                sum[r][c] = v_fma(a, square ? a : k, sum[r][c]);
            }
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int c = 0; c < columns; c++) v_store(out + r * p->out_row + c * p->out_column, sum[r][c]);
}

ALWAYS void products_block(const SnlsTileProducts *p, const int rows, const int columns, const int square)
{
    const SnlsTileProducts here = *p; /* no store can change it */
    for (ptrdiff_t i = 0; i < here.steps; i++)
        products_row(&here, here.out + i * LANES, here.query + i * here.query_row, here.key[i] + here.key_at, rows, columns, square);
}

#define BLOCK_OF(R, C) case C: products_block(p, R, C, square); break;
#if PATCH_COLUMNS == 5
#define BLOCKS_OF(R) case R: switch (p->columns) { BLOCK_OF(R, 1) BLOCK_OF(R, 2) BLOCK_OF(R, 3) BLOCK_OF(R, 4) BLOCK_OF(R, 5) } break;
#else
#define BLOCKS_OF(R) case R: switch (p->columns) { BLOCK_OF(R, 1) BLOCK_OF(R, 2) BLOCK_OF(R, 3) } break;
#endif

ALWAYS void products_of(const SnlsTileProducts *p, const int square)
{
    switch (p->rows) {
    BLOCKS_OF(1)
    BLOCKS_OF(2)
    BLOCKS_OF(3)
#if PATCH_ROWS == 6
    BLOCKS_OF(4)
    BLOCKS_OF(5)
    case 6: switch (p->columns) { BLOCK_OF(6, 1) BLOCK_OF(6, 2) BLOCK_OF(6, 3) BLOCK_OF(6, 4) } break;
#endif
    }
}

static void products(const SnlsTileProducts *p)
{
    if (p->square) products_of(p, 1);
    else products_of(p, 0);
}

/* Odd sides: two neighbouring sums have all but their first and last vector in common, and what they have in common is sums
 * of two, one of which is new for every second sum. */
ALWAYS void column_sums_odd(float *out, ptrdiff_t pitch, const float *in, ptrdiff_t rows, const int side)
{
    Vec two[8], first = v_load(in);
    for (int i = 0; i < side / 2 - 1; i++) two[i] = v_add(v_load(in + (1 + 2 * i) * LANES), v_load(in + (2 + 2 * i) * LANES));
    for (ptrdiff_t r = 0; r < rows; r += 2) {
        const float *at = in + (r + side - 2) * LANES;
        Vec same = v_load(at + LANES);
        two[side / 2 - 1] = v_add(v_load(at), same);
        same = two[0];
#pragma GCC unroll 8
        for (int i = 1; i < side / 2; i++) same = v_add(same, two[i]);
        v_store(out + r * pitch, v_add(first, same));
        if (r + 1 < rows) v_store(out + (r + 1) * pitch, v_add(same, v_load(at + 2 * LANES)));
        first = v_load(in + (r + 2) * LANES);
#pragma GCC unroll 8
        for (int i = 0; i < side / 2 - 1; i++) two[i] = two[i + 1];
    }
}

static void column_sums(float *out, ptrdiff_t pitch, const float *in, ptrdiff_t rows, ptrdiff_t side, ptrdiff_t apart)
{
    if (apart == 1 && side == 3) column_sums_odd(out, pitch, in, rows, 3);
    else if (apart == 1 && side == 5) column_sums_odd(out, pitch, in, rows, 5);
    else if (apart == 1 && side == 7) column_sums_odd(out, pitch, in, rows, 7);
    else
        for (ptrdiff_t r = 0; r < rows; r++) {
            Vec sum = v_load(in + r * LANES);
            for (ptrdiff_t a = 1; a < side; a++) sum = v_add(sum, v_load(in + (r + a * apart) * LANES));
            v_store(out + r * pitch, sum);
        }
}

/* The sum of `side` floats from every lane on. */
ALWAYS Vec row_sum(const float *in, ptrdiff_t side, ptrdiff_t apart)
{
    Vec sum = v_load(in);
    for (ptrdiff_t b = 1; b < side; b++) sum = v_add(sum, v_load(in + b * apart));
    return sum;
}

ALWAYS void row_sums_plain(float *out, ptrdiff_t out_block, const float *in, ptrdiff_t blocks, ptrdiff_t side, ptrdiff_t apart)
{
    for (ptrdiff_t n = 0; n < blocks; n++) v_store(out + n * out_block, row_sum(in + n * LANES, side, apart));
}

#ifdef v_after
/* side 5 or 7: sums of two, then of four, from registers; an unaligned load costs as much as two others. */
ALWAYS void row_sums_odd(float *out, ptrdiff_t out_block, const float *in, ptrdiff_t blocks, const int side)
{
    Vec two = v_add(v_load(in), v_load(in + 1));
    for (ptrdiff_t n = 0; n < blocks; n++, in += LANES, out += out_block) {
        const Vec next = v_add(v_load(in + LANES), v_load(in + LANES + 1));
        Vec sum = v_add(v_add(two, v_after(two, next, 2)), v_load(in + side - 1));
        if (side == 7) sum = v_add(sum, v_after(two, next, 4));
        v_store(out, sum);
        two = next;
    }
}
#else
#define row_sums_odd(out, out_block, in, blocks, side) row_sums_plain(out, out_block, in, blocks, side, 1)
#endif

static void row_sums(float *out, ptrdiff_t out_row, ptrdiff_t out_block, const float *in, ptrdiff_t pitch, ptrdiff_t rows, ptrdiff_t blocks, ptrdiff_t side,
                     ptrdiff_t apart)
{
    for (ptrdiff_t r = 0; r < rows; r++, out += out_row, in += pitch) {
        if (apart == 1 && side == 3) row_sums_plain(out, out_block, in, blocks, 3, 1);
        else if (apart == 1 && side == 5) row_sums_odd(out, out_block, in, blocks, 5);
        else if (apart == 1 && side == 7) row_sums_odd(out, out_block, in, blocks, 7);
        else row_sums_plain(out, out_block, in, blocks, side, apart);
    }
}
