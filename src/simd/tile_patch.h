/* tile_patch.h: loops for patches: products of pixels, their sums over patches. Part of tile_body.h, which says what it needs; also
 *   PATCH_ROWS, PATCH_COLUMNS, PATCH_SUMS: a block of sums that fits the registers with its queries, a key and a difference;
 *   v_after(a, b, n), if there is one: lanes n .. of a, then the first n of b; v_after_two(a, b), for vectors of four: the same with n = 2. */

enum { FEATURES = 64 }; /* queries and keys of so many features fit the first cache together */
enum { FROM_ZERO, FROM_NORMS, FROM_SUMS }; /* what products of some features are added to */

/* One row of keys against `rows` rows of queries. */
ALWAYS void band_part(float *const *to, ptrdiff_t next, const SnlsTileBand *b, const float *query, const float *key, ptrdiff_t ahead, ptrdiff_t features, const int from, const int rows,
                      const int columns, const int square, const int h, const int fetch)
{
    Vec sum[PATCH_ROWS][PATCH_COLUMNS];
    const ptrdiff_t query_row = QUERY_ROW(b->at), step = b->at.step, key_pitch = b->key_pitch;
    query += h / WIDTH * b->at.part, key += h;
    const float *end = query + features * step, *query_norm = query + b->features * step, *key_norm = key + b->features * key_pitch;
UNROLLED(8)
    for (int r = 0; r < rows; r++)
UNROLLED(8)
        for (int c = 0; c < columns; c++)
            sum[r][c] = from == FROM_ZERO ? v_zero() : from == FROM_SUMS ? v_load(to[r] + c * next + h) : v_add(v_load(query_norm + r * query_row), v_load(key_norm + c));
    for (; query < end; query += step, key += key_pitch) {
        Vec q[PATCH_ROWS];
UNROLLED(8)
        for (int r = 0; r < rows; r++) {
            q[r] = v_load(query + r * query_row);
            IN_REGISTER(q[r]); /* as in dots_block */
        }
        if (fetch) __builtin_prefetch(key + ahead);
UNROLLED(8)
        for (int c = 0; c < columns; c++) {
            Vec k = v_load(key + c);
            IN_REGISTER(k);
UNROLLED(8)
            for (int r = 0; r < rows; r++) {
                const Vec a = square ? v_sub(q[r], k) : q[r];
                sum[r][c] = v_fma(a, square ? a : k, sum[r][c]);
            }
        }
    }
UNROLLED(8)
    for (int r = 0; r < rows; r++)
UNROLLED(8)
        for (int c = 0; c < columns; c++) v_store(to[r] + c * next + h, sum[r][c]);
}

ALWAYS void band_block(float *const *to, ptrdiff_t next, const SnlsTileBand *b, const float *query, const float *key, ptrdiff_t ahead, ptrdiff_t features, const int from, const int rows,
                       const int columns, const int square)
{
    band_part(to, next, b, query, key, ahead, features, from, rows, columns, square, 0, 1);
    for (int h = WIDTH; h < LANES; h += WIDTH) band_part(to, next, b, query, key, ahead, features, from, rows, columns, square, h, 0);
}

#define BLOCK_OF(R, C) case C: band_block(to, next, b, query, key, ahead, features, from, R, C, square); break;
#if PATCH_COLUMNS == 6
#define BLOCKS_OF(R) case R: switch (columns) { BLOCK_OF(R, 1) BLOCK_OF(R, 2) BLOCK_OF(R, 3) BLOCK_OF(R, 4) BLOCK_OF(R, 5) BLOCK_OF(R, 6) } break;
#else
#define BLOCKS_OF(R) case R: switch (columns) { BLOCK_OF(R, 1) BLOCK_OF(R, 2) BLOCK_OF(R, 3) } break;
#endif

ALWAYS void band_blocks(float *const *to, ptrdiff_t next, const SnlsTileBand *b, const float *query, const float *key, ptrdiff_t ahead, ptrdiff_t features, int from, int rows,
                        int columns, const int square)
{
    switch (rows) {
    BLOCKS_OF(1)
    BLOCKS_OF(2)
    BLOCKS_OF(3)
#if PATCH_ROWS >= 4
    BLOCKS_OF(4)
#endif
#if PATCH_ROWS == 5
    case 5: switch (columns) { BLOCK_OF(5, 1) BLOCK_OF(5, 2) BLOCK_OF(5, 3) BLOCK_OF(5, 4) BLOCK_OF(5, 5) } break;
#endif
    }
}

/* Products of key row j at all shifts of the band: of pixel rows first .. j - shift. */
ALWAYS void band_row(const SnlsTileBand *b, ptrdiff_t j, ptrdiff_t mask, const int square)
{
    const ptrdiff_t first = j - b->down + 1 > b->begun ? j - b->down + 1 : b->begun, end = j + 1 < b->rows ? j + 1 : b->rows, next = (mask + 1) * LANES;
    const int rows = (int)(end - first), most = PATCH_SUMS / b->down < PATCH_COLUMNS ? PATCH_SUMS / b->down : PATCH_COLUMNS, blocks = (b->across + most - 1) / most;
    const float *query = b->query + first * b->at.row, *key = b->key[j] + b->key_at;
    const ptrdiff_t ahead = b->key[j + 1 < b->rows + b->down - 1 ? j + 1 : j] - b->key[j];
    for (ptrdiff_t f = 0; f < b->features; f += FEATURES) {
        const ptrdiff_t features = b->features - f < FEATURES ? b->features - f : FEATURES;
        for (int n = 0; n < blocks; n++) { /* of nearly the same size */
            const int x = n * b->across / blocks, columns = (n + 1) * b->across / blocks - x;
            const ptrdiff_t line_ahead = n + 1 == blocks ? b->across - 1 + LANES - 1 : 16 * n; /* a block fetches one line */
            float *to[PATCH_ROWS];
            for (int r = 0; r < rows; r++) to[r] = b->ring + (j - first - r) * b->ring_down + x * next + ((first + r) & mask) * LANES;
            band_blocks(to, next, b, query + f * b->at.step, key + f * b->key_pitch + x, ahead + line_ahead - x, features, f > 0 ? FROM_SUMS : b->norms ? FROM_NORMS : FROM_ZERO, rows, columns, square);
        }
    }
}

/* Sums of `side` rows of the ring from row `start` on at all shifts along x, for one or two rows of queries: those have all but their ends in common. mask: the ring's
 * rows less one. */
ALWAYS void sums_down(const SnlsTileBand *b, float *out, const float *ring, const int start, const int mask, const int side, const int pair)
{
    const ptrdiff_t out_across = b->out_across, out_row = b->out_row;
    const float *end = ring + b->across * (mask + 1) * LANES;
#define ROW(a) v_load(ring + ((start + (a)) & mask) * LANES + h)
    for (; ring < end; ring += (mask + 1) * LANES, out += out_across) EACH_PART {
        Vec same = v_add(ROW(1), ROW(2));
UNROLLED(8)
        for (int a = 3; a < side; a += 2) same = v_add(same, v_add(ROW(a), ROW(a + 1)));
        v_store(out + h, v_add(same, ROW(0)));
        if (pair) v_store(out + out_row + h, v_add(same, ROW(side)));
    }
#undef ROW
}

/* Pixel row r of one shift along y is there. Where the ring begins is known to the compiler. */
ALWAYS void sums_odd(const SnlsTileBand *b, float *out, const float *ring, ptrdiff_t r, const int mask, const int side)
{
    const ptrdiff_t queries = b->rows - side + 1, row = r - side;
    if (row >= 0 && row % 2 == 0) {
        float *to = out + row * b->out_row;
        switch (row & mask) {
        case 0: sums_down(b, to, ring, 0, mask, side, 1); break;
        case 2: sums_down(b, to, ring, 2, mask, side, 1); break;
        case 4: sums_down(b, to, ring, 4, mask, side, 1); break;
        case 6: sums_down(b, to, ring, 6, mask, side, 1); break;
        }
    }
    if (queries % 2 && row == queries - 2) sums_down(b, out + (row + 1) * b->out_row, ring, (int)(row + 1) & mask, mask, side, 0);
}

static void sums_plain(const SnlsTileBand *b, float *out, const float *ring, ptrdiff_t r, ptrdiff_t mask)
{
    const ptrdiff_t row = r - (b->side - 1) * b->apart;
    if (row < 0) return;
    out += row * b->out_row;
    for (ptrdiff_t x = 0; x < b->across; x++, ring += (mask + 1) * LANES) EACH_PART {
        Vec sum = v_load(ring + (row & mask) * LANES + h);
        for (ptrdiff_t a = 1; a < b->side; a++) sum = v_add(sum, v_load(ring + ((row + a * b->apart) & mask) * LANES + h));
        v_store(out + x * b->out_across + h, sum);
    }
}

static void sums_of_row(const SnlsTileBand *b, ptrdiff_t j, ptrdiff_t mask)
{
    for (ptrdiff_t d = 0; d < b->down; d++) {
        const ptrdiff_t r = j - d;
        if (r < b->begun || r >= b->rows) continue;
        const float *ring = b->ring + d * b->ring_down;
        float *out = b->out + d * b->out_down;
        if (b->apart == 1 && b->side == 7) sums_odd(b, out, ring, r, 7, 7);
        else if (b->apart == 1 && b->side == 5) sums_odd(b, out, ring, r, 7, 5);
        else if (b->apart == 1 && b->side == 3) sums_odd(b, out, ring, r, 3, 3);
        else sums_plain(b, out, ring, r, mask);
    }
}

static void band(const SnlsTileBand *in)
{
    const SnlsTileBand b = *in; /* no store can change it */
    const ptrdiff_t mask = snls_tile_ring(b.side, b.apart) - 1;
    for (ptrdiff_t j = b.begun; j < b.rows + b.down - 1; j++) {
        if (b.square) band_row(&b, j, mask, 1);
        else band_row(&b, j, mask, 0);
        sums_of_row(&b, j, mask);
    }
}

/* The sum of `side` floats from every lane on. */
ALWAYS Vec row_sum(const float *in, ptrdiff_t side, ptrdiff_t apart)
{
    Vec sum = v_load(in);
    for (ptrdiff_t b = 1; b < side; b++) sum = v_add(sum, v_load(in + b * apart));
    return sum;
}

#ifdef v_after
/* side 5 or 7: sums of two, then of four, from registers; an unaligned load costs as much as two others. */
ALWAYS Vec row_sum_odd(const float *in, const int side)
{
    const Vec two = v_add(v_load(in), v_load(in + 1)), next = v_add(v_load(in + LANES), v_load(in + LANES + 1));
    const Vec sum = v_add(v_add(two, v_after(two, next, 2)), v_load(in + side - 1));
    return side == 7 ? v_add(sum, v_after(two, next, 4)) : sum;
}
#else
#define row_sum_odd(in, side) row_sum(in, side, 1)
#endif

#ifdef v_after_two
/* Of short vectors, which share their sums of two with the next. */
ALWAYS void run_sum_odd(float *out, const float *in, const int side)
{
    Vec two = v_add(v_load(in), v_load(in + 1));
UNROLLED(8)
    for (int h = 0; h < LANES; h += WIDTH) {
        const Vec next = v_add(v_load(in + h + WIDTH), v_load(in + h + WIDTH + 1)), four = v_add(two, v_after_two(two, next));
        v_store(out + h, v_add(four, side == 7 ? v_add(next, v_load(in + h + 6)) : v_load(in + h + 4)));
        two = next;
    }
}

ALWAYS void run_sums_odd(float *out, ptrdiff_t out_row, const float *in, ptrdiff_t in_row, ptrdiff_t in_column, ptrdiff_t rows, ptrdiff_t columns, const int side)
{
    for (ptrdiff_t y = 0; y < rows; y++, out += out_row, in += in_row)
        for (ptrdiff_t x = 0; x < columns; x++) run_sum_odd(out + x * LANES, in + x * in_column, side);
}
#endif

static void run_sums(float *out, ptrdiff_t out_row, const float *in, ptrdiff_t in_row, ptrdiff_t in_column, ptrdiff_t rows, ptrdiff_t columns, ptrdiff_t side,
                     ptrdiff_t apart)
{
#ifdef v_after_two
    if (apart == 1 && side == 7) { run_sums_odd(out, out_row, in, in_row, in_column, rows, columns, 7); return; }
    if (apart == 1 && side == 5) { run_sums_odd(out, out_row, in, in_row, in_column, rows, columns, 5); return; }
#endif
    for (ptrdiff_t y = 0; y < rows; y++, out += out_row, in += in_row)
        for (ptrdiff_t x = 0; x < columns; x++) EACH_PART {
            const float *at = in + x * in_column + h;
            v_store(out + x * LANES + h, apart != 1 ? row_sum(at, side, apart) : side == 7 ? row_sum_odd(at, 7) : side == 5 ? row_sum_odd(at, 5) : row_sum(at, side, 1));
        }
}
