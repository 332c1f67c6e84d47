/* sieve_amx.c: the rough half of the sieve: bf16 parts, products on matrix tiles, scores between pixels, the least of every
 * row. */
#if defined(__x86_64__) && defined(SNLS_HAVE_AMX)
#include "simd/sieve.h"
#include "simd/zmm.h"

#define ALWAYS static inline __attribute__((always_inline))
enum { LANES = SNLS_SIEVE_LANES, CHUNK = SNLS_SIEVE_CHUNK };

/* ---- bf16 parts ---- */

/* The f32 values of 16 of 32 bf16 numbers. */
ALWAYS __m512 widen(__m512i parts, const int half)
{
    const __m256i part = half ? _mm512_extracti64x4_epi64(parts, 1) : _mm512_castsi512_si256(parts);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(part), 16));
}

typedef struct Chunk { __m512i high, low; } Chunk;

/* Features f .. f+31 of (in - centre)*scale as two parts; their squares (before scale) added to *norm. */
ALWAYS Chunk split_chunk(const float *in, ptrdiff_t f, ptrdiff_t features, const float *centre, const int parts, __m512 scale, __m512 *norm)
{
    __m512 v[2];
#pragma GCC unroll 2
    for (int h = 0; h < 2; h++) {
        const __mmask16 there = zmm_first(features - f - 16 * h);
        v[h] = _mm512_maskz_loadu_ps(there, in + f + 16 * h);
        if (centre) v[h] = _mm512_sub_ps(v[h], _mm512_maskz_loadu_ps(there, centre + f + 16 * h));
        *norm = _mm512_fmadd_ps(v[h], v[h], *norm);
        v[h] = _mm512_mul_ps(v[h], scale);
    }
    Chunk c = {(__m512i)_mm512_cvtne2ps_pbh(v[1], v[0]), _mm512_setzero_si512()};
    if (parts > 1) c.low = (__m512i)_mm512_cvtne2ps_pbh(_mm512_sub_ps(v[1], widen(c.high, 1)), _mm512_sub_ps(v[0], widen(c.high, 0)));
    return c;
}

ALWAYS void split_pixels(uint16_t *out, ptrdiff_t padded, const int parts, const float *in, ptrdiff_t step, ptrdiff_t n, ptrdiff_t features, const float *centre,
                         float *norm)
{
    __m512 sum[LANES];
    const __m512 one = _mm512_set1_ps(1);
    for (ptrdiff_t i = 0; i < LANES; i++) {
        sum[i] = _mm512_setzero_ps();
        for (ptrdiff_t f = 0; i < n && f < padded; f += CHUNK) {
            const Chunk c = split_chunk(in + i * step, f, features, centre, parts, one, &sum[i]);
            _mm512_storeu_si512(out + i * parts * padded + f, c.high);
            if (parts > 1) _mm512_storeu_si512(out + (i * parts + 1) * padded + f, c.low);
        }
    }
    _mm512_mask_storeu_ps(norm, zmm_first(n), zmm_sums(sum));
}

static void split(uint16_t *out, ptrdiff_t padded, int parts, const float *in, ptrdiff_t step, ptrdiff_t n, ptrdiff_t features, const float *centre, float *norm)
{
    for (ptrdiff_t i = 0; i < n; i += LANES) {
        uint16_t *to = out + i * parts * padded;
        const ptrdiff_t left = n - i < LANES ? n - i : LANES;
        if (parts > 1) split_pixels(to, padded, 2, in + i * step, step, left, features, centre, norm + i);
        else split_pixels(to, padded, 1, in + i * step, step, left, features, centre, norm + i);
    }
}

ALWAYS void turn_queries(uint16_t *out, ptrdiff_t padded, const int parts, const float *const *in, ptrdiff_t features, const float *centre, float scale, float *norm)
{
    __m512 sum[LANES];
    for (int l = 0; l < LANES; l++) sum[l] = _mm512_setzero_ps();
    for (ptrdiff_t f = 0; f < padded; f += CHUNK) {
        __m512i high[LANES], low[LANES];
        for (int l = 0; l < LANES; l++) {
            const Chunk c = split_chunk(in[l], f, features, centre, parts, _mm512_set1_ps(scale), &sum[l]);
            high[l] = c.high;
            low[l] = c.low;
        }
        zmm_turn(high);
        for (int p = 0; p < LANES; p++) _mm512_storeu_si512(out + f * LANES + p * CHUNK, high[p]);
        if (parts < 2) continue;
        zmm_turn(low);
        for (int p = 0; p < LANES; p++) _mm512_storeu_si512(out + (padded + f) * LANES + p * CHUNK, low[p]);
    }
    _mm512_storeu_ps(norm, zmm_sums(sum));
}

static void queries(uint16_t *out, ptrdiff_t padded, int parts, const float *const *in, ptrdiff_t features, const float *centre, float scale, float *norm)
{
    if (parts > 1) turn_queries(out, padded, 2, in, features, centre, scale, norm);
    else turn_queries(out, padded, 1, in, features, centre, scale, norm);
}

/* ---- products ---- */

/* Eight tiles of 16 rows of 64 bytes: palette, 15 bytes, bytes of a row (16 bits, 16 times), rows (16 times). Constant memory: gcc does not see that
 * all of it is read. */
static void start(void)
{
    static const struct Shape { uint8_t palette, start_row, reserved[14]; uint16_t bytes[16]; uint8_t rows[16]; } shape = {
        1, 0, {0}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};
    _tile_loadconfig(&shape);
}

static void stop(void) { _tile_release(); }

/* Four units are under way at a time, in tiles 0 to 3; 4 and 5 are for keys, 6 and 7 for queries. A unit is stored when its tile is needed again, so
 * that nobody waits for the latency of a product. Up to two tiles of queries stay where they are: one chunk, two chunks, or a chunk in two parts. */
enum { ONE, CHUNKS, PARTS, MANY };

ALWAYS int kind_of(const SnlsSieveMake *m)
{
    const int tiles = m->keys.chunks * m->keys.parts;
    return tiles == 1 ? ONE : tiles > 2 ? MANY : m->keys.chunks == 2 ? CHUNKS : PARTS;
}

ALWAYS float *unit_out(const SnlsSieveMake *m, int unit) { return m->out + (ptrdiff_t)(m->ring ? unit % SNLS_SIEVE_RING : unit) * 256; }

#define STORE(SUM) { _tile_stored(SUM, unit_out(m, m->stored), 64); m->stored++; }

ALWAYS const uint16_t *unit_keys(const SnlsSieveMake *m, int unit)
{
    const int row = m->tiles == 1 ? unit : unit / m->tiles;
    return m->keys.at + row * m->keys.down + (unit - row * m->tiles) * LANES * m->keys.right;
}

#define UNIT(SUM, FREE)                                        \
    case SUM:                                                  \
        if (m->made >= 4) STORE(SUM)                           \
        _tile_zero(SUM);                                       \
        _tile_loadd(FREE, at, bytes);                          \
        _tile_dpbf16ps(SUM, FREE, 6);                          \
        if (kind == PARTS) _tile_dpbf16ps(SUM, FREE, 7);       \
        if (kind != ONE) _tile_loadd(FREE, at + CHUNK, bytes); \
        if (kind == CHUNKS) _tile_dpbf16ps(SUM, FREE, 7);      \
        if (kind == PARTS) _tile_dpbf16ps(SUM, FREE, 6);       \
        break;

ALWAYS void make_unit(SnlsSieveMake *m, const int kind)
{
    const ptrdiff_t bytes = m->keys.right * (ptrdiff_t)sizeof(uint16_t);
    const uint16_t *at = unit_keys(m, m->made);
    switch (m->made % 4) {
        UNIT(0, 4)
        UNIT(1, 5)
        UNIT(2, 4)
        UNIT(3, 5)
    }
    m->made++;
}

/* Queries of many chunks do not stay in tiles: four units share what is loaded of them. Chunks go by twos, since the lines of a key come in twos from the
 * second cache: 29 cycles a product instead of 47 (lab/tiles.c). Units past the last repeat it, and are not stored. */
#define FOUR(DO) DO(0, 4) DO(1, 5) DO(2, 4) DO(3, 5)
#define BEGIN_SUM(SUM, FREE)           \
    if (m->made >= 4) STORE(SUM)       \
    _tile_zero(SUM);
#define WITH_HIGH(SUM, FREE)                       \
    _tile_loadd(FREE, at[SUM] + c * CHUNK, bytes); \
    _tile_dpbf16ps(SUM, FREE, 6);
#define WITH_TWO(SUM, FREE)                              \
    _tile_loadd(4, at[SUM] + c * CHUNK, bytes);          \
    _tile_dpbf16ps(SUM, 4, 6);                           \
    _tile_loadd(5, at[SUM] + (c + 1) * CHUNK, bytes);    \
    _tile_dpbf16ps(SUM, 5, 7);
#define WITH_BOTH(SUM, FREE)                                           \
    WITH_HIGH(SUM, FREE)                                               \
    _tile_dpbf16ps(SUM, FREE, 7);                                      \
    _tile_loadd(FREE, at[SUM] + (m->keys.chunks + c) * CHUNK, bytes);  \
    _tile_dpbf16ps(SUM, FREE, 6);

static void make_four(SnlsSieveMake *m)
{
    const ptrdiff_t bytes = m->keys.right * (ptrdiff_t)sizeof(uint16_t);
    const uint16_t *at[4];
    for (int i = 0; i < 4; i++) at[i] = unit_keys(m, m->made + i < m->units ? m->made + i : m->units - 1);
    FOUR(BEGIN_SUM)
    for (ptrdiff_t c = 0; c < m->keys.chunks; c++) {
        _tile_loadd(6, m->query + c * LANES * CHUNK, 64);
        if (m->keys.parts == 1 && c + 1 < m->keys.chunks) {
            _tile_loadd(7, m->query + (c + 1) * LANES * CHUNK, 64);
            FOUR(WITH_TWO)
            c++;
            continue;
        }
        if (m->keys.parts == 1) {
            FOUR(WITH_HIGH)
            continue;
        }
        _tile_loadd(7, m->query + (m->keys.chunks + c) * LANES * CHUNK, 64);
        FOUR(WITH_BOTH)
    }
    m->made = m->made + 4 < m->units ? m->made + 4 : m->units;
}

/* Units until so many are made; their queries go into the tiles before the first. */
static void make_until(SnlsSieveMake *m, int units)
{
    const int kind = kind_of(m);
    if (m->made == 0 && units > 0 && kind != MANY) {
        _tile_loadd(6, m->query, 64);
        if (kind != ONE) _tile_loadd(7, m->query + LANES * CHUNK, 64);
    }
    switch (kind) {
    case ONE: while (m->made < units) make_unit(m, ONE); break;
    case CHUNKS: while (m->made < units) make_unit(m, CHUNKS); break;
    case PARTS: while (m->made < units) make_unit(m, PARTS); break;
    default: while (m->made < units) make_four(m);
    }
}

static void make_rest(SnlsSieveMake *m)
{
    make_until(m, m->units);
    while (m->stored < m->made) {
        switch (m->stored % 4) {
        case 0: STORE(0) break;
        case 1: STORE(1) break;
        case 2: STORE(2) break;
        case 3: STORE(3) break;
        }
    }
}

static void make_first(SnlsSieveMake *m)
{
    if (!m->ring) make_rest(m);
}

/* ---- scores ---- */

/* What the scan of a box holds. Weights of a lane for l2 between pixels: of right, of right one row on, of both, of lower, of lower
 * one column on (docs/performance.md). */
typedef struct Scan {
    const SnlsSieveRows *to;
    const SnlsSieveKeys *keys;
    __m512 fy, fx, bend[5];
    __m512i clear, mark[SNLS_SIEVE_SIDE]; /* column, or NaN where the lane has no cell */
    __m512 above[SNLS_SIEVE_SIDE];
} Scan;

/* Corrections of the cell in column c; right, lower and both point at its row. */
ALWAYS __m512 unbend(const __m512 weight[5], __m512 v, const float *right, const float *lower, const float *both, ptrdiff_t down, int c)
{
    v = _mm512_fnmadd_ps(weight[0], _mm512_set1_ps(right[c]), v);
    v = _mm512_fnmadd_ps(weight[1], _mm512_set1_ps(right[c + down]), v);
    v = _mm512_fmadd_ps(weight[2], _mm512_set1_ps(both[c]), v);
    v = _mm512_fnmadd_ps(weight[3], _mm512_set1_ps(lower[c]), v);
    return _mm512_fnmadd_ps(weight[4], _mm512_set1_ps(lower[c + 1]), v);
}

typedef struct Least { __m512 first, second, third; } Least;

/* Key row `row` of products into scores of a row of cells: the row itself, or, between rows, the one before. by, bx: fractions along
 * y, along x; add, bend: see sieve.h. Row -1 of cells is only remembered. */
ALWAYS Least scan_row(Scan *s, const float *product, int row, const int by, const int bx, const int add, const int bend)
{
    const SnlsSieveKeys *k = s->keys;
    const int cell = row - by, columns = s->to->columns;
    const float *plus = add ? k->add + row * k->add_down : NULL;
    const float *right = bend ? k->bend[0] + cell * k->add_down : NULL, *lower = bend ? k->bend[1] + cell * k->add_down : NULL,
                *both = bend ? k->bend[2] + cell * k->add_down : NULL;
    const __m512 none = _mm512_set1_ps(__builtin_inff());
    /* of its own, since the compiler must think that what is stored in `above` might change s */
    const __m512 fy = s->fy, fx = s->fx, weight[5] = {s->bend[0], s->bend[1], s->bend[2], s->bend[3], s->bend[4]};
    const __m512i clear = s->clear;
    Least least = {none, none, none};
    __m512 here = _mm512_loadu_ps(product);
    if (add) here = _mm512_add_ps(here, _mm512_set1_ps(plus[0]));
    for (int c = 0; c < columns; c++) {
        __m512 v = here;
        if (bx || c + 1 < columns) {
            here = _mm512_loadu_ps(product + (c + 1) * LANES);
            if (add) here = _mm512_add_ps(here, _mm512_set1_ps(plus[c + 1]));
        }
        if (bx) v = _mm512_fmadd_ps(fx, _mm512_sub_ps(here, v), v);
        if (by) {
            const __m512 above = s->above[c];
            s->above[c] = v;
            if (cell < 0) continue;
            v = _mm512_fmadd_ps(fy, _mm512_sub_ps(v, above), above);
        }
        if (bend) v = unbend(weight, v, right, lower, both, k->add_down, c);
        v = _mm512_castsi512_ps(_mm512_ternarylogic_epi32(_mm512_castps_si512(v), clear, s->mark[c], 0xea)); /* (v & clear) | mark */
        /* Where v is NaN, max(other, v) is NaN and min(v, other) the other: such lanes stay as they are. */
        const __m512 worse = _mm512_max_ps(least.first, v);
        least.first = _mm512_min_ps(v, least.first);
        least.third = _mm512_min_ps(_mm512_max_ps(least.second, worse), least.third);
        least.second = _mm512_min_ps(worse, least.second);
    }
    return least;
}

/* Into the sorted lists; 0: no lane had use for it. */
ALWAYS int enter(float *top, ptrdiff_t k, __m512 v)
{
    if (!_mm512_cmp_ps_mask(v, _mm512_loadu_ps(top + (k - 1) * LANES), _CMP_LT_OQ)) return 0;
    for (ptrdiff_t j = 0; j < k; j++) {
        const __m512 have = _mm512_loadu_ps(top + j * LANES);
        _mm512_storeu_ps(top + j * LANES, _mm512_min_ps(v, have));
        v = _mm512_max_ps(v, have);
    }
    return 1;
}

/* The three least of two sorted threes, sorted: no branch that nobody could foresee. */
ALWAYS void merge_three(float *top, const __m512 *with)
{
    const __m512 a = _mm512_min_ps(_mm512_loadu_ps(top), with[2]), b = _mm512_min_ps(_mm512_loadu_ps(top + LANES), with[1]),
                 c = _mm512_min_ps(_mm512_loadu_ps(top + 2 * LANES), with[0]);
    const __m512 low = _mm512_min_ps(a, b), high = _mm512_max_ps(a, b), middle = _mm512_min_ps(high, c);
    _mm512_storeu_ps(top, _mm512_min_ps(low, c));
    _mm512_storeu_ps(top + LANES, _mm512_max_ps(low, middle));
    _mm512_storeu_ps(top + 2 * LANES, _mm512_max_ps(high, c));
}

/* Cells of the lanes that look into the box, from its origin; others have none. */
typedef struct Range { __m512i first, size; } Range;

ALWAYS Range range_of(const SnlsSieveLanes *axis, uint32_t lanes, int32_t origin)
{
    const __m512i first = _mm512_loadu_si512(axis->first);
    return (Range){_mm512_sub_epi32(first, _mm512_set1_epi32(origin)), _mm512_maskz_sub_epi32((__mmask16)lanes, _mm512_loadu_si512(axis->end), first)};
}

/* The least of a row of cells, for lanes that have cells in it. */
ALWAYS void note(const Scan *s, int cell, Least least, const Range *y, float *top, ptrdiff_t k)
{
    const __mmask16 in = _mm512_cmplt_epu32_mask(_mm512_sub_epi32(_mm512_set1_epi32(cell), y->first), y->size);
    const __m512 none = _mm512_set1_ps(__builtin_inff());
    const __m512 three[3] = {_mm512_mask_blend_ps(in, none, least.first), _mm512_mask_blend_ps(in, none, least.second), _mm512_mask_blend_ps(in, none, least.third)};
    for (int i = 0; i < 3; i++) _mm512_storeu_ps(s->to->least[i] + cell * LANES, three[i]);
    if (k == 3) merge_three(top, three);
    else for (int i = 0; i < 3 && enter(top, k, three[i]); i++) {}
}

static void prepare(Scan *s, const SnlsSieveView *w)
{
    const __m512 one = _mm512_set1_ps(1);
    const Range x = range_of(w->x, w->lanes, w->origin_x);
    s->fy = _mm512_maskz_loadu_ps((__mmask16)w->lanes, w->y->fraction);
    s->fx = _mm512_maskz_loadu_ps((__mmask16)w->lanes, w->x->fraction);
    const __m512 gy = _mm512_mul_ps(s->fy, _mm512_sub_ps(one, s->fy)), gx = _mm512_mul_ps(s->fx, _mm512_sub_ps(one, s->fx));
    s->bend[0] = _mm512_mul_ps(gx, _mm512_sub_ps(one, s->fy));
    s->bend[1] = _mm512_mul_ps(gx, s->fy);
    s->bend[2] = _mm512_mul_ps(gx, gy);
    s->bend[3] = _mm512_mul_ps(gy, _mm512_sub_ps(one, s->fx));
    s->bend[4] = _mm512_mul_ps(gy, s->fx);
    s->clear = _mm512_set1_epi32((int)(~0u << s->to->bits));
    for (int c = 0; c < s->to->columns; c++) {
        const __m512i number = _mm512_set1_epi32(c);
        const __mmask16 in = _mm512_cmplt_epu32_mask(_mm512_sub_epi32(number, x.first), x.size);
        s->mark[c] = _mm512_mask_mov_epi32(_mm512_set1_epi32(0x7fffffff), in, number);
    }
}

typedef struct Work {
    Range y;
    SnlsSieveMake *box, *next;
    float *top;
    ptrdiff_t k;
} Work;

/* Products are made between the rows of a scan, so that the matrix unit and the vector units work at the same time: those of this box a few rows ahead (a ring; a
 * unit is stored four later, and all are when the last is made), then those of the next. Tiles hold the sums of one box at a time. */
enum { AHEAD = 4 };

ALWAYS void make_some(const Work *w, int row, int rows)
{
    SnlsSieveMake *box = w->box, *next = w->next;
    const int wanted = row + 1 + AHEAD;
    if (box->stored < box->units) {
        make_until(box, wanted < box->units ? wanted : box->units);
        if (box->made == box->units) make_rest(box);
    } else if (next && next->ring) {
        make_until(next, wanted - rows < next->units ? wanted - rows : next->units);
    } else if (next) {
        const int each = (next->units + rows - 1) / rows;
        make_until(next, next->made + each < next->units ? next->made + each : next->units);
    }
}

ALWAYS void scan_box(Scan *s, const Work *w, const int by, const int bx, const int add, const int bend)
{
    const int rows = s->to->rows + by;
    for (int row = 0; row < rows; row++) {
        make_some(w, row, rows);
        const Least least = scan_row(s, unit_out(w->box, row * w->box->tiles), row, by, bx, add, bend);
        if (row >= by) note(s, row - by, least, &w->y, w->top, w->k);
    }
    if (w->next && !w->next->ring) make_rest(w->next);
}

static void scan_l2(Scan *s, const Work *w, int by, int bx)
{
    if (by && bx) scan_box(s, w, 1, 1, 1, 1);
    else if (by) scan_box(s, w, 1, 0, 1, 1);
    else if (bx) scan_box(s, w, 0, 1, 1, 1);
    else scan_box(s, w, 0, 0, 1, 0);
}

static void scan_prod(Scan *s, const Work *w, int by, int bx)
{
    if (by && bx) scan_box(s, w, 1, 1, 0, 0);
    else if (by) scan_box(s, w, 1, 0, 0, 0);
    else if (bx) scan_box(s, w, 0, 1, 0, 0);
    else scan_box(s, w, 0, 0, 0, 0);
}

static int between(const SnlsSieveLanes *axis, uint32_t lanes)
{
    return _mm512_mask_cmp_ps_mask((__mmask16)lanes, _mm512_loadu_ps(axis->fraction), _mm512_setzero_ps(), _CMP_NEQ_OQ) != 0;
}

static uint32_t fit(const SnlsSieveLanes *axis, uint32_t lanes, int32_t size, SnlsSieveSpan *span)
{
    const __m512i first = _mm512_loadu_si512(axis->first), end = _mm512_loadu_si512(axis->end);
    span->first = _mm512_mask_reduce_min_epi32((__mmask16)lanes, first);
    const __mmask16 taken = _mm512_mask_cmplt_epi32_mask((__mmask16)lanes, end, _mm512_set1_epi32(span->first + size));
    span->end = _mm512_mask_reduce_max_epi32(taken, end);
    return taken;
}

static void scan(const SnlsSieveRows *to, SnlsSieveMake *made, const SnlsSieveView *view, float *top, ptrdiff_t k, const SnlsSieveTable *table,
                 ptrdiff_t box, SnlsSieveMake *next)
{
    Scan s;
    s.to = to;
    s.keys = &made->keys;
    prepare(&s, view);
    const Range x = range_of(view->x, view->lanes, view->origin_x);
    _mm512_storeu_si512(table->base_y + box * LANES, _mm512_loadu_si512(view->y->base));
    _mm512_storeu_si512(table->base_x + box * LANES, _mm512_loadu_si512(view->x->base));
    _mm512_storeu_si512(table->first_x + box * LANES, x.first);
    _mm512_storeu_si512(table->end_x + box * LANES, _mm512_add_epi32(x.first, x.size));
    _mm512_storeu_ps(table->fraction_y + box * LANES, s.fy);
    _mm512_storeu_ps(table->fraction_x + box * LANES, s.fx);
    const Work w = {range_of(view->y, view->lanes, view->origin_y), made, next, top, k};
    (made->keys.add ? scan_l2 : scan_prod)(&s, &w, between(view->y, view->lanes), between(view->x, view->lanes));
}

/* ---- who may be among the best ---- */

/* The entries of some lanes of a row, appended. */
ALWAYS uint32_t *append(uint32_t *to, __mmask16 lanes, __m512i row, __m512 least, __m512i mask)
{
    const __m512i column = _mm512_and_si512(_mm512_castps_si512(least), mask);
    _mm512_storeu_si512(to, _mm512_maskz_compress_epi32(lanes, _mm512_or_si512(row, _mm512_slli_epi32(column, 4))));
    return to + __builtin_popcount(lanes);
}

/* No branch for each entry: which rows and lanes have one is as good as random. */
static int hits(const SnlsSieveRows *from, const SnlsSieveTable *table, ptrdiff_t box, int row, const float *bar, uint32_t *out, ptrdiff_t *count, ptrdiff_t room)
{
    const __m512 limit = _mm512_loadu_ps(bar);
    const __m512i mask = _mm512_set1_epi32((1 << from->bits) - 1), lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    uint32_t *to = out + *count;
    for (; row < from->rows; row++) {
        if (room - (to - out) <= 4 * from->columns * LANES) break; /* whole vectors are written */
        const uint32_t entry = snls_sieve_entry((uint32_t)box, (uint32_t)row, 0, 0);
        const __m512i entries = _mm512_add_epi32(_mm512_set1_epi32((int)entry), lane);
        const __m512 first = _mm512_loadu_ps(from->least[0] + row * LANES), second = _mm512_loadu_ps(from->least[1] + row * LANES);
        const __mmask16 all = _mm512_cmp_ps_mask(_mm512_loadu_ps(from->least[2] + row * LANES), limit, _CMP_LE_OQ);
        to = append(to, _mm512_cmp_ps_mask(first, limit, _CMP_LE_OQ) & ~all, entries, first, mask);
        to = append(to, _mm512_cmp_ps_mask(second, limit, _CMP_LE_OQ) & ~all, entries, second, mask);
        for (uint32_t rest = all; rest; rest &= rest - 1) {
            const int l = __builtin_ctz(rest);
            for (int c = table->first_x[box * LANES + l]; c < table->end_x[box * LANES + l]; c++) *to++ = entry | (uint32_t)c << 4 | (uint32_t)l;
        }
    }
    *count = to - out;
    return row;
}

void snls_sieve_init_amx(SnlsSieve *sieve)
{
    *sieve = (SnlsSieve){.start = start, .stop = stop, .split = split, .queries = queries, .fit = fit, .between = between, .make = make_first, .scan = scan, .hits = hits};
    snls_sieve_init_fine_amx(sieve);
}

#else
typedef int snls_sieve_amx_is_empty;
#endif
