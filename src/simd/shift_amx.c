/* shift_amx.c: scores of patches, shifts in lanes, products from matrix tiles. */
#if defined(__x86_64__) && defined(SNLS_HAVE_AMX)
#include "simd/shift.h"
#include "simd/turn.h"
#include "simd/zmm.h"
#include "simd/unroll.h"

#define ALWAYS static inline __attribute__((always_inline))
/* Floats of two tiles of products; words of a tile of keys; floats of products that lie together; rows of those kept; numbers of a run's tiles for a chunk of features;
 * shifts along y that are made together. */
enum { LANES = SNLS_SHIFT_LANES, UNIT = 512, TILE_WORDS = 256, BLOCK = LANES * LANES, RING = 8, RUN = 2 * SNLS_SHIFT_TILE, GROUP = SNLS_SHIFT_GROUP };

/* ---- bf16 parts ---- */

/* Eight tiles of 16 rows of 64 bytes. */
static void start(void)
{
    static const struct Shape { uint8_t palette, start_row, reserved[14]; uint16_t bytes[16]; uint8_t rows[16]; } shape = {
        1, 0, {0}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};
    _tile_loadconfig(&shape);
}

static void stop(void) { _tile_release(); }

ALWAYS __m512 widen(__m256i part) { return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(part), 16)); }

typedef struct Parts { __m256i high, low; } Parts;

ALWAYS Parts split(__m512 v)
{
    const __m256i high = (__m256i)_mm512_cvtneps_pbh(v);
    return (Parts){high, (__m256i)_mm512_cvtneps_pbh(_mm512_sub_ps(v, widen(high)))};
}

ALWAYS __m512i both(__m256i a, __m256i b) { return _mm512_inserti64x4(_mm512_castsi256_si512(a), b, 1); }

ALWAYS __m512 load(const float *pixel, ptrdiff_t f, ptrdiff_t features, __m512 *most)
{
    const __m512 v = _mm512_maskz_loadu_ps(zmm_first(features - f), pixel + f);
    *most = _mm512_max_ps(_mm512_abs_ps(v), *most); /* a NaN leaves *most as it is */
    return v;
}

/* Sixteen words of sixteen pixels. */
ALWAYS void turn_words(uint32_t *out, __m512i *word)
{
    zmm_turn(word);
UNROLLED(16)
    for (int i = 0; i < LANES; i++) _mm512_store_si512(out + i * LANES, word[i]);
}

static float keys(uint32_t *out, const float *in, ptrdiff_t step, ptrdiff_t n, ptrdiff_t features)
{
    __m512 most = _mm512_setzero_ps();
    for (ptrdiff_t x = 0; x < n; x += LANES)
        for (ptrdiff_t f = 0; f < features; f += 32, out += 2 * TILE_WORDS) {
            __m512i high[LANES], low[LANES];
            for (int i = 0; i < LANES; i++) {
                const float *pixel = in + (x + i < n ? x + i : n - 1) * step;
                const Parts a = split(load(pixel, f, features, &most)), b = split(load(pixel, f + 16, features, &most));
                high[i] = both(a.high, b.high);
                low[i] = both(a.low, b.low);
            }
            turn_words(out, high);
            turn_words(out + TILE_WORDS, low);
        }
    return _mm512_reduce_max_ps(most);
}

static void copy(uint32_t *out, const uint32_t *in, ptrdiff_t first, ptrdiff_t n, ptrdiff_t features)
{
    const ptrdiff_t run = snls_shift_words(features) * LANES;
    const __m512i from = _mm512_add_epi32(_mm512_set1_epi32((int)(first % LANES)), _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
    in += first / LANES * run;
    for (ptrdiff_t i = 0; i < n * run; i += LANES)
        _mm512_store_si512(out + i, _mm512_permutex2var_epi32(_mm512_load_si512(in + i), from, _mm512_load_si512(in + i + run)));
}

static float queries(uint16_t *out, const float *const pixel[SNLS_SHIFT_LANES], ptrdiff_t features)
{
    const __m512 sign = _mm512_set1_ps(-0.0f);
    __m512 most = _mm512_setzero_ps();
    for (ptrdiff_t f = 0; f < features; f += 32, out += RUN)
        for (int i = 0; i < LANES; i++) {
            const Parts a = split(_mm512_xor_ps(load(pixel[i], f, features, &most), sign)), b = split(_mm512_xor_ps(load(pixel[i], f + 16, features, &most), sign));
            _mm512_store_si512(out + i * 32, both(a.high, b.high));
            _mm512_store_si512(out + SNLS_SHIFT_TILE + i * 32, both(a.low, b.low));
        }
    return _mm512_reduce_max_ps(most);
}

/* ---- products ---- */

/* A unit is the products of 16 query pixels with 32 key pixels. Its first tiles: keys to the left and to the right in 4 and 5, queries' parts in 6 and 7. */
ALWAYS void load_tiles(const uint16_t *query, const uint32_t *key, ptrdiff_t right)
{
    _tile_loadd(4, key, 64);
    _tile_loadd(6, query, 64);
    _tile_loadd(5, key + right, 64);
    _tile_loadd(7, query + SNLS_SHIFT_TILE, 64);
}

#define FOUR_PRODUCTS(LEFT, RIGHT) _tile_dpbf16ps(LEFT, 6, 4); _tile_dpbf16ps(RIGHT, 6, 5); _tile_dpbf16ps(LEFT, 7, 4); _tile_dpbf16ps(RIGHT, 7, 5);
#define TWO_PRODUCTS(LEFT, RIGHT) _tile_dpbf16ps(LEFT, 6, 4); _tile_dpbf16ps(RIGHT, 6, 5);

/* Sums of a unit in tiles 0 and 1, or (odd) 2 and 3: both parts of queries with the high parts of keys, the high parts of queries with the low ones. */
ALWAYS void products(const uint16_t *query, const uint32_t *key, ptrdiff_t right, ptrdiff_t chunks, const int odd)
{
    if (odd) { _tile_zero(2); _tile_zero(3); }
    else { _tile_zero(0); _tile_zero(1); }
    for (ptrdiff_t c = 0; c < chunks; c++, query += RUN, key += 2 * TILE_WORDS) {
        if (c > 0) load_tiles(query, key, right);
        if (odd) { FOUR_PRODUCTS(2, 3) }
        else { FOUR_PRODUCTS(0, 1) }
        _tile_loadd(4, key + TILE_WORDS, 64);
        _tile_loadd(5, key + right + TILE_WORDS, 64);
        if (odd) { TWO_PRODUCTS(2, 3) }
        else { TWO_PRODUCTS(0, 1) }
    }
}

/* (16, 32) floats. */
ALWAYS void store(float *out, const int odd)
{
    if (odd) { _tile_stored(2, out, 128); _tile_stored(3, out + 16, 128); }
    else { _tile_stored(0, out, 128); _tile_stored(1, out + 16, 128); }
}

/* ---- sums ---- */

/* Products of sixteen pixels, each with its sixteen shifts, put together. */
ALWAYS void gather(float *out, const float *unit)
{
UNROLLED(16)
    for (int i = 0; i < LANES; i++) _mm512_store_ps(out + i * LANES, _mm512_loadu_ps(unit + i * 33));
}

ALWAYS float *ring_row(float *ring, ptrdiff_t r) { return ring + (r & (RING - 1)) * BLOCK; }

/* Sums down of sixteen pixels, rows `row` and on of the ring, for one or two rows of queries: two have all but their ends in common. */
ALWAYS void down(float *out, ptrdiff_t out_row, float *ring, ptrdiff_t row, const int side, const int pair)
{
    const float *at[SNLS_SHIFT_SIDE + 1];
UNROLLED(8)
    for (int a = 0; a <= side; a++) at[a] = ring_row(ring, row + a);
UNROLLED(2)
    for (ptrdiff_t i = 0; i < BLOCK; i += LANES) {
        __m512 same = _mm512_add_ps(_mm512_load_ps(at[1] + i), _mm512_load_ps(at[2] + i));
        if (side >= 5) same = _mm512_add_ps(same, _mm512_add_ps(_mm512_load_ps(at[3] + i), _mm512_load_ps(at[side >= 5 ? 4 : 0] + i)));
        if (side >= 7) same = _mm512_add_ps(same, _mm512_add_ps(_mm512_load_ps(at[side >= 7 ? 5 : 0] + i), _mm512_load_ps(at[side >= 7 ? 6 : 0] + i)));
        _mm512_store_ps(out + i, _mm512_add_ps(same, _mm512_load_ps(at[0] + i)));
        if (pair) _mm512_store_ps(out + out_row + i, _mm512_add_ps(same, _mm512_load_ps(at[side] + i)));
    }
}

/* Products of pixel row r go into their ring and, as soon as two rows of queries have all theirs, into sums. */
ALWAYS void sums(const SnlsShiftScores *s, float *out, const float *unit, float *ring, ptrdiff_t r, const int side)
{
    const ptrdiff_t queries = s->rows - side + 1, row = r - side;
    gather(ring_row(ring, r), unit);
    if (row >= 0 && row % 2 == 0) down(out + row * s->out_row, s->out_row, ring, row, side, 1);
    if (queries % 2 && row == queries - 2) down(out + (row + 1) * s->out_row, 0, ring, row + 1, side, 0);
}

/* Products of pixel row r at the g-th shift along y of a group, from key row r + g of the group. */
typedef struct Unit { int r, g; } Unit;

/* All of a group, key row by key row: a row of keys is taken from the second cache once for all shifts. */
static int list_units(Unit *unit, ptrdiff_t rows, ptrdiff_t shifts)
{
    int n = 0;
    for (ptrdiff_t y = 0; y < rows + shifts - 1; y++)
        for (ptrdiff_t g = 0; g < shifts; g++)
            if (y >= g && y - g < rows) unit[n++] = (Unit){(int)(y - g), (int)g};
    return n;
}

/* Block n at shifts d and on along y. A unit is stored when the next one is made, and summed when the one after that is: a load that follows a store which waits for
 * its product would wait too. */
ALWAYS void group_scores(const SnlsShiftScores *s, ptrdiff_t n, ptrdiff_t d, const Unit *unit, int count, ptrdiff_t chunks, const int side)
{
    const SnlsShiftScores here = *s;
    const ptrdiff_t right = 2 * chunks * TILE_WORDS, run = chunks * RUN;
    float *even = here.work, *odd = even + UNIT, *ring = even + 2 * UNIT, *out = here.out + n * here.out_block + d * BLOCK;
    const uint16_t *query = here.query + n * here.rows * run, *next = query;
    const uint32_t *keys = here.key + d * here.key_row * TILE_WORDS + n * right, *key = keys;
    load_tiles(next, key, right);
    for (int u = 0; u < count + 2; u++) {
        if (u < count && u % 2) products(next, key, right, chunks, 1);
        else if (u < count) products(next, key, right, chunks, 0);
        if (u + 1 < count) {
            next = query + unit[u + 1].r * run;
            key = keys + (unit[u + 1].r + unit[u + 1].g) * here.key_row * TILE_WORDS;
            load_tiles(next, key, right);
        }
        if (u % 2) store(even, 0);
        else store(odd, 1);
        if (u >= 2) sums(&here, out + unit[u - 2].g * BLOCK, u % 2 ? odd : even, ring + unit[u - 2].g * RING * BLOCK, unit[u - 2].r, side);
    }
}

ALWAYS void scores_of(const SnlsShiftScores *s, ptrdiff_t chunks, const int side)
{
    Unit unit[SNLS_SHIFT_ROWS * GROUP];
    const ptrdiff_t groups = (s->shifts + GROUP - 1) / GROUP;
    for (ptrdiff_t i = 0; i < groups; i++) { /* of nearly the same size */
        const ptrdiff_t d = i * s->shifts / groups, end = (i + 1) * s->shifts / groups;
        const int count = list_units(unit, s->rows, end - d);
        for (ptrdiff_t n = 0; n < s->blocks; n++) group_scores(s, n, d, unit, count, chunks, side);
    }
}

/* One chunk and two are known to the compiler. */
ALWAYS void by_chunks(const SnlsShiftScores *s, const int side)
{
    const ptrdiff_t chunks = snls_shift_chunks(s->features);
    if (chunks == 1) scores_of(s, 1, side);
    else if (chunks == 2) scores_of(s, 2, side);
    else scores_of(s, chunks, side);
}

static void scores_3(const SnlsShiftScores *s) { by_chunks(s, 3); }
static void scores_5(const SnlsShiftScores *s) { by_chunks(s, 5); }
static void scores_7(const SnlsShiftScores *s) { by_chunks(s, 7); }

static void scores(const SnlsShiftScores *s) { (s->side == 3 ? scores_3 : s->side == 5 ? scores_5 : scores_7)(s); }

/* ---- candidates ---- */

/* Pixel i of a block, or of the one beside it. */
ALWAYS __m512 column(const float *in, const float *beside, const int i) { return _mm512_load_ps(i < LANES ? in + i * LANES : beside + (i - LANES) * LANES); }

/* One shift along y: two neighbouring sums have all but their ends in common, which is sums of two, one of which is new for every second sum. */
ALWAYS void across_row(float *out, ptrdiff_t out_query, const float *in, const float *beside, const int side)
{
    __m512 two[SNLS_SHIFT_SIDE / 2];
UNROLLED(4)
    for (int j = 0; j < side / 2 - 1; j++) two[j] = _mm512_add_ps(column(in, beside, 1 + 2 * j), column(in, beside, 2 + 2 * j));
UNROLLED(8)
    for (int i = 0; i < LANES; i += 2) {
        two[side / 2 - 1] = _mm512_add_ps(column(in, beside, i + side - 2), column(in, beside, i + side - 1));
        __m512 same = two[0];
UNROLLED(4)
        for (int j = 1; j < side / 2; j++) same = _mm512_add_ps(same, two[j]);
        _mm512_storeu_ps(out + i * out_query, _mm512_add_ps(column(in, beside, i), same));
        _mm512_storeu_ps(out + (i + 1) * out_query, _mm512_add_ps(same, column(in, beside, i + side)));
UNROLLED(4)
        for (int j = 0; j < side / 2 - 1; j++) two[j] = two[j + 1];
    }
}

static void across(float *out, ptrdiff_t out_query, ptrdiff_t out_shift, const float *in, const float *beside, ptrdiff_t shifts, int side)
{
    for (ptrdiff_t d = 0; d < shifts; d++, out += out_shift, in += BLOCK, beside += BLOCK) {
        if (side == 3) across_row(out, out_query, in, beside, 3);
        else if (side == 5) across_row(out, out_query, in, beside, 5);
        else across_row(out, out_query, in, beside, 7);
    }
}

static void turn(float *out, const float *in, ptrdiff_t step, ptrdiff_t n)
{
    for (ptrdiff_t c = 0; c < n; c += 4) {
        __m512 four[4];
        load_fours(four, in + c, step);
        store_turned(out + c * LANES, LANES, four, n - c);
    }
}

/* a + f*(b - a), b not looked at where f is 0 */
ALWAYS __m512 between(__m512 a, __m512 b, __m512 f, __mmask16 mixed) { return _mm512_mask3_fmadd_ps(_mm512_sub_ps(b, a), f, a, mixed); }

static void candidates(float *value, ptrdiff_t side, const float *in, ptrdiff_t query, ptrdiff_t down, const SnlsShiftPlaces *at, float *work)
{
    for (int l = 0; l < LANES; l++) {
        const float *row = in + l * query + at->y[l] * down + at->x[l];
        const __m512 fy = _mm512_set1_ps(at->fraction_y[l]), fx = _mm512_set1_ps(at->fraction_x[l]);
        const __mmask16 mixed_y = at->fraction_y[l] != 0 ? 0xffff : 0, mixed_x = at->fraction_x[l] != 0 ? 0xffff : 0;
        __m512 upper = between(_mm512_loadu_ps(row), _mm512_loadu_ps(row + 1), fx, mixed_x);
        for (ptrdiff_t a = 0; a < side; a++) {
            row += down;
            const __m512 lower = between(_mm512_loadu_ps(row), _mm512_loadu_ps(row + 1), fx, mixed_x);
            _mm512_store_ps(work + a * BLOCK + l * LANES, between(upper, lower, fy, mixed_y));
            upper = lower;
        }
    }
    for (ptrdiff_t a = 0; a < side; a++) turn(value + a * side * LANES, work + a * BLOCK, LANES, side);
}

void snls_shift_init_amx(SnlsShift *shift)
{
    *shift = (SnlsShift){.start = start, .stop = stop, .keys = keys, .copy = copy, .queries = queries, .scores = scores, .across = across, .turn = turn, .candidates = candidates};
}

#else
typedef int snls_shift_amx_is_empty;
#endif
