/* tile_body.h: the loops of tile.h, written once. Included by a file that defines, for its instruction set:
 *   LANES, ROWS, COLUMNS, TILE_INIT (name of the init function)
 *   WIDTH, where a vector holds fewer than LANES: loops then go over LANES in parts. Short vectors want long runs all the same, for what is done once a run.
 *   Vec and Mask; v_load v_store v_set v_zero v_add v_sub v_fma(a,b,c) = a*b+c, v_min v_max
 *   m_equal(const int32_t *, int) lanes equal to a number; m_nonzero(Vec); v_pick(Mask, no, yes);
 *   v_fma_where(Mask, a, b, c) = a*b+c or c; m_number(a): not NaN; m_not_below(Mask, a, b): both Mask and not a <= b; m_le(a, b): a <= b; m_below(a, b): a < b; m_or(Mask, Mask); m_bits(p, q): bit l set where p[l] <= q[l], for all LANES;
 *   INDEX_RANGE(const int32_t *, int *low, int *high), where WIDTH is less than LANES: the least and the largest of a part;
 *   IN_REGISTER(v): the compiler must hold v in a register; TURN(out, pitch, in, step, most): out[f*pitch + x] = in[x*step + f] for x, f < WIDTH, and the Vec
 *   at most raised to magnitudes, where NaN does not count; TURN_EIGHT, where WIDTH is more: the same for x, f < 8 */
#include "simd/inline.h"
#include "simd/tile.h"
#include "simd/unroll.h"

#ifndef WIDTH
#define WIDTH LANES
#endif
#define QUERY_ROW(at) (WIDTH < LANES ? WIDTH : (at).row) /* short vectors: rows of a feature lie side by side */
#define EACH_PART for (int h = 0; h < LANES; h += WIDTH) /* h: its first lane */

ALWAYS void dots_part(const SnlsTileDots *d, const int rows, const int columns, const int square, const int h, const int fetch)
{
    Vec sum[ROWS][COLUMNS];
    const ptrdiff_t query_row = QUERY_ROW(d->at), step = d->at.step, key_pitch = d->key_pitch, ahead = d->ahead;
    const float *query = d->query + h / WIDTH * d->at.part, *key = d->key + h, *end = query + d->features * step;
UNROLLED(8)
    for (int r = 0; r < rows; r++)
UNROLLED(8)
        for (int c = 0; c < columns; c++) sum[r][c] = d->add ? v_load(d->out[r] + c * d->out_step + h) : v_zero();
    for (; query < end; query += step, key += key_pitch) {
        if (fetch) __builtin_prefetch(key + ahead);
        if (fetch) __builtin_prefetch(key + ahead + columns + LANES - 2);
        Vec q[ROWS];
UNROLLED(8)
        for (int r = 0; r < rows; r++) q[r] = v_load(query + r * query_row);
UNROLLED(8)
        for (int c = 0; c < columns; c++) {
            Vec k = v_load(key + c);
            IN_REGISTER(k); /* read once, not once for each row: keys are rarely aligned, and loads are what runs out */
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
        for (int c = 0; c < columns; c++) v_store(d->out[r] + c * d->out_step + h, sum[r][c]);
}

ALWAYS void dots_block(const SnlsTileDots *d, const int rows, const int columns, const int square)
{
    dots_part(d, rows, columns, square, 0, 1);
    for (int h = WIDTH; h < LANES; h += WIDTH) dots_part(d, rows, columns, square, h, 0);
}

#include "simd/tile_patch.h"

#define CASE_COLUMNS(R, C) \
    case C: dots_block(d, R, C, SQUARE); break;
#if COLUMNS == 5
#define CASE_ROWS(R) case R: switch (d->columns) { CASE_COLUMNS(R, 1) CASE_COLUMNS(R, 2) CASE_COLUMNS(R, 3) CASE_COLUMNS(R, 4) CASE_COLUMNS(R, 5) } break;
#else
#define CASE_ROWS(R) case R: switch (d->columns) { CASE_COLUMNS(R, 1) CASE_COLUMNS(R, 2) CASE_COLUMNS(R, 3) } break;
#endif
#if ROWS == 5
#define CASES CASE_ROWS(1) CASE_ROWS(2) CASE_ROWS(3) CASE_ROWS(4) CASE_ROWS(5)
#else
#define CASES CASE_ROWS(1) CASE_ROWS(2) CASE_ROWS(3)
#endif

#define SQUARE 0
static void dots_of_products(const SnlsTileDots *d)
{
    switch (d->rows) { CASES }
}
#undef SQUARE

#define SQUARE 1
static void dots_of_squares(const SnlsTileDots *d)
{
    switch (d->rows) { CASES }
}
#undef SQUARE

static void dots(const SnlsTileDots *d) { (d->square ? dots_of_squares : dots_of_products)(d); }

static float magnitude(float x) { return x < 0 ? -x : x; }

static float planes_rest(float *out, ptrdiff_t pitch, const float *in, ptrdiff_t step, ptrdiff_t n, ptrdiff_t features)
{
    float top = 0;
    for (ptrdiff_t f = 0; f < features; f++)
        for (ptrdiff_t x = 0; x < n; x++) {
            const float a = in[x * step + f];
            top = magnitude(a) > top ? magnitude(a) : top;
            out[f * pitch + x] = a;
        }
    return top;
}

static float widest(Vec most)
{
    float lane[WIDTH], top = 0;
    v_store(lane, most);
    for (int l = 0; l < WIDTH; l++) top = lane[l] > top ? lane[l] : top;
    return top;
}

#define AHEAD LANES /* pixels from one that is turned over to the one that is asked for meanwhile: from memory they come in no order that a processor foresees */
/* Blocks of WIDTH pixels by WIDTH features, then, where those are not the same, of eight by eight, then what is left of features and of pixels. */
static float planes(float *out, ptrdiff_t pitch, const float *in, ptrdiff_t step, ptrdiff_t n, ptrdiff_t features)
{
    ptrdiff_t whole_x = n / WIDTH * WIDTH, whole_f = features / WIDTH * WIDTH;
    Vec most = v_zero();
    for (ptrdiff_t from = 0; from < whole_x; from += LANES) /* whole lines are written, where LANES make one */
        for (ptrdiff_t f = 0; f < whole_f; f += WIDTH) {
            for (ptrdiff_t x = from + AHEAD; f % 16 == 0 && x < from + AHEAD + LANES && x < n; x++) __builtin_prefetch(in + x * step + f, 0, 3);
            for (ptrdiff_t x = from; x < from + LANES && x < whole_x; x += WIDTH) TURN(out + f * pitch + x, pitch, in + x * step + f, step, &most);
        }
#ifdef TURN_EIGHT
    for (ptrdiff_t x = 0; x < n / 8 * 8; x += 8)
        for (ptrdiff_t f = x < whole_x ? whole_f : 0; f < features / 8 * 8; f += 8) TURN_EIGHT(out + f * pitch + x, pitch, in + x * step + f, step, &most);
    whole_x = n / 8 * 8;
    whole_f = features / 8 * 8;
#endif
    const float more = planes_rest(out + whole_f * pitch, pitch, in + whole_f, step, whole_x, features - whole_f);
    const float rest = planes_rest(out + whole_x, pitch, in + whole_x * step, step, n - whole_x, features), top = widest(most);
    return top > more && top > rest ? top : more > rest ? more : rest;
}

static float peak(const float *in, ptrdiff_t n)
{
    const ptrdiff_t whole = n / WIDTH * WIDTH;
    Vec most = v_zero();
    for (ptrdiff_t i = 0; i < whole; i += WIDTH) {
        const Vec x = v_load(in + i);
        most = v_max(v_max(x, v_sub(v_zero(), x)), most); /* a NaN leaves it as it is */
    }
    float top = widest(most);
    for (ptrdiff_t i = whole; i < n; i++) top = magnitude(in[i]) > top ? magnitude(in[i]) : top;
    return top;
}

/* A pixel's norm has the same bits whichever others are worked out with it. */
ALWAYS Vec norms_of_vector(const float *in, ptrdiff_t pitch, ptrdiff_t features)
{
    Vec sum = v_zero();
    for (ptrdiff_t f = 0; f < features; f++) {
        const Vec a = v_load(in + f * pitch);
        sum = v_fma(a, a, sum);
    }
    return sum;
}

static void few_norms(float *out, const float *in, ptrdiff_t pitch, ptrdiff_t n, ptrdiff_t features)
{
    float some[WIDTH] = {0}, norm[WIDTH];
    Vec sum = v_zero();
    for (ptrdiff_t f = 0; f < features; f++) {
        for (ptrdiff_t x = 0; x < n; x++) some[x] = in[f * pitch + x];
        const Vec a = v_load(some);
        sum = v_fma(a, a, sum);
    }
    v_store(norm, sum);
    for (ptrdiff_t x = 0; x < n; x++) out[x] = norm[x];
}

static void norms(float *out, const float *in, ptrdiff_t pitch, ptrdiff_t n, ptrdiff_t features)
{
    if (n < WIDTH) { few_norms(out, in, pitch, n, features); return; }
    for (ptrdiff_t x = 0; x < n; x += WIDTH) {
        const ptrdiff_t at = x + WIDTH <= n ? x : n - WIDTH; /* the last ones again */
        v_store(out + at, norms_of_vector(in + at, pitch, features));
    }
}

/* Interpolation lane by lane, from the nearer end: a + f*(b-a), or b + (f-1)*(b-a). Distances are not negative, so that what is added or taken off is not larger than the result and leaves it its digits;
 * a + f*(b-a) with f near 1 has none left of a small b beside a large a. Of equal ones it is the same, which keeps ties. */
typedef struct Share { Vec f; Mask between, far; } Share; /* f or f-1; f is not 0; f is above a half */

ALWAYS Share share_of(Vec f)
{
    const Mask far = m_below(v_set(0.5f), f);
    return (Share){v_pick(far, f, v_sub(f, v_set(1))), m_nonzero(f), far};
}

ALWAYS Vec mix_two_by(const Share *s, Vec a, Vec b) { return v_fma_where(s->between, s->f, v_sub(b, a), v_pick(s->far, a, b)); }

/* (1-f)*a + f*b - f*(1-f)*e of one item; see tile.h */
ALWAYS Vec bent(const Share *s, Vec a, Vec b, int bends, Vec curve, Vec e, Vec *most)
{
    const Vec line = mix_two_by(s, a, b);
    if (!bends) return line;
    *most = v_max(v_pick(s->between, v_zero(), v_mul(curve, e)), *most);
    return v_fma_where(s->between, v_sub(v_zero(), curve), e, line);
}

/* more: high - low, known to the compiler where it is small, so that the masks stay in registers. */
ALWAYS void mix_of(float *out, const float *const *in, const ptrdiff_t *item, ptrdiff_t n, int low, const int more, const int32_t *index, const float *fraction,
                   const float *const *bend, const ptrdiff_t *bend_item, float *most, const int bends, const int h)
{
    const Vec f = v_load(fraction + h), curve = v_mul(f, v_sub(v_set(1), f));
    const Share share = share_of(f);
    Vec top = most ? v_load(most + h) : v_zero();
    for (ptrdiff_t i = 0; i < n; i++) {
        const ptrdiff_t at = item[i] + h, bow = bends ? bend_item[i] + h : 0;
        Vec a = v_load(in[low] + at), b = v_load(in[low + 1] + at), e = bends ? v_load(bend[low] + bow) : v_zero();
UNROLLED(4)
        for (int j = 1; j <= more; j++) {
            const Mask here = m_equal(index + h, low + j);
            a = v_pick(here, a, v_load(in[low + j] + at));
            b = v_pick(here, b, v_load(in[low + j + 1] + at));
            if (bends) e = v_pick(here, e, v_load(bend[low + j] + bow));
        }
        v_store(out + i * LANES + h, bent(&share, a, b, bends, curve, e, &top));
    }
    if (most) v_store(most + h, top);
}

#define BY_SPREAD(more, CALL) \
    switch (more) { \
    case 0: CALL(0); break; \
    case 1: CALL(1); break; \
    case 2: CALL(2); break; \
    default: CALL(more); \
    }

static void mix(float *out, const float *const *in, const ptrdiff_t *item, ptrdiff_t n, int low, int high, const int32_t *index, const float *fraction,
                const float *const *bend, const ptrdiff_t *bend_item, float *most)
{
#define MIX_FLAT(more) EACH_PART mix_of(out, in, item, n, low, more, index, fraction, bend, bend_item, most, 0, h)
#define MIX_BENT(more) EACH_PART mix_of(out, in, item, n, low, more, index, fraction, bend, bend_item, most, 1, h)
    if (bend) BY_SPREAD(high - low, MIX_BENT)
    else BY_SPREAD(high - low, MIX_FLAT)
}

/* Items with the same index and fraction. */
ALWAYS void mix_even(float *out, const float *in, const float *bend, ptrdiff_t n, const int *first, int low, const int more, const int32_t *index,
                     const float *fraction, float *most, const int bends, const int h)
{
    const Vec f = v_load(fraction + h), curve = v_mul(f, v_sub(v_set(1), f));
    const Share share = share_of(f);
    Vec top = bends ? v_load(most + h) : v_zero();
    for (ptrdiff_t i = 0; i < n; i++) {
        const float *at = in + (first[i] + low) * LANES + h, *bow = bends ? bend + (first[i] + low) * LANES + h : at;
        Vec a = v_load(at), b = v_load(at + LANES), e = bends ? v_load(bow) : v_zero();
UNROLLED(4)
        for (int j = 1; j <= more; j++) {
            const Mask here = m_equal(index + h, low + j);
            a = v_pick(here, a, v_load(at + j * LANES));
            b = v_pick(here, b, v_load(at + (j + 1) * LANES));
            if (bends) e = v_pick(here, e, v_load(bow + j * LANES));
        }
        v_store(out + i * LANES + h, bent(&share, a, b, bends, curve, e, &top));
    }
    if (bends) v_store(most + h, top);
}

static void mix_each(float *out, const float *in, const float *bend, ptrdiff_t n, const int *first, const int *low, const int *high,
                     const int32_t *index, const float *fraction, ptrdiff_t apart, float *most)
{
#define EVEN_FLAT(more) EACH_PART mix_even(out, in, bend, n, first, low[0], more, index, fraction, most, 0, h)
#define EVEN_BENT(more) EACH_PART mix_even(out, in, bend, n, first, low[0], more, index, fraction, most, 1, h)
    for (ptrdiff_t i = 0; apart && i < n; i++)
        EACH_PART mix_even(out + i * LANES, in, bend, 1, first + i, low[i], high[i] - low[i], index + i * apart, fraction + i * apart, most, bend != NULL, h);
    if (apart) return;
    if (bend) BY_SPREAD(high[0] - low[0], EVEN_BENT)
    else BY_SPREAD(high[0] - low[0], EVEN_FLAT)
}

/* What lane by lane is run low, low + 1, ... low + more of those at `in`, `apart` floats from each other. */
ALWAYS Vec pick_run(const float *in, ptrdiff_t apart, int low, const int more, const int32_t *index)
{
    Vec a = v_load(in);
UNROLLED(4)
    for (int j = 1; j <= more; j++) a = v_pick(m_equal(index, low + j), a, v_load(in + j * apart));
    return a;
}

/* Down a window: every row of the box is put straight once, and every column of a row that is between two. */
ALWAYS void mix_window_of(const SnlsTileMix *in, const int low_y, const int low_x, const int more_y, const int more_x, const int h)
{
    const SnlsTileMix w = *in;
    const int32_t *const index_y = w.index_y + h, *const index_x = w.index_x + h;
    const Share by_y = share_of(v_load(w.fraction_y + h)), by_x = share_of(v_load(w.fraction_x + h));
    const ptrdiff_t n = (w.side + 1 + more_x) * LANES;
    const float *at = w.in + low_y * w.row + low_x * LANES + h;
    float *above = w.work + h, *mixed = w.work + n + h, *out = w.out + h;
    for (ptrdiff_t x = 0; x < n; x += LANES) v_store(above + x, pick_run(at + x, w.row, low_y, more_y, index_y));
    for (ptrdiff_t a = 0; a < w.side; a++) {
        at += w.row;
        for (ptrdiff_t x = 0; x < n; x += LANES) {
            const Vec upper = v_load(above + x), lower = pick_run(at + x, w.row, low_y, more_y, index_y);
            v_store(above + x, lower);
            v_store(mixed + x, mix_two_by(&by_y, upper, lower));
        }
        Vec left = pick_run(mixed, LANES, low_x, more_x, index_x);
        for (ptrdiff_t i = 1; i <= w.side; i++, out += LANES) {
            const Vec right = pick_run(mixed + i * LANES, LANES, low_x, more_x, index_x);
            v_store(out, mix_two_by(&by_x, left, right));
            left = right;
        }
    }
}

#ifdef INDEX_RANGE
/* Windows of a part are closer together than those of a run. */
static void mix_window(const SnlsTileMix *w)
{
#define MIX_0(more) mix_window_of(w, low_y, low_x, 0, more, h)
#define MIX_1(more) mix_window_of(w, low_y, low_x, 1, more, h)
#define MIX_MORE(more) mix_window_of(w, low_y, low_x, high_y - low_y, more, h)
    EACH_PART {
        int low_y, high_y, low_x, high_x;
        INDEX_RANGE(w->index_y + h, &low_y, &high_y);
        INDEX_RANGE(w->index_x + h, &low_x, &high_x);
        switch (high_y - low_y) {
        case 0: BY_SPREAD(high_x - low_x, MIX_0) break;
        case 1: BY_SPREAD(high_x - low_x, MIX_1) break;
        default: BY_SPREAD(high_x - low_x, MIX_MORE)
        }
    }
}
#else
#define MIX_0(more) EACH_PART mix_window_of(w, w->low_y, w->low_x, 0, more, h)
#define MIX_1(more) EACH_PART mix_window_of(w, w->low_y, w->low_x, 1, more, h)
#define MIX_2(more) EACH_PART mix_window_of(w, w->low_y, w->low_x, 2, more, h)
#define MIX_MORE(more) EACH_PART mix_window_of(w, w->low_y, w->low_x, w->high_y - w->low_y, more, h)
static void mix_window(const SnlsTileMix *w)
{
    const int more_x = w->high_x - w->low_x;
    switch (w->high_y - w->low_y) {
    case 0: BY_SPREAD(more_x, MIX_0) break;
    case 1: BY_SPREAD(more_x, MIX_1) break;
    case 2: BY_SPREAD(more_x, MIX_2) break;
    default: BY_SPREAD(more_x, MIX_MORE)
    }
}
#endif

#ifndef OWN_WINDOWS
#include "simd/tile_window.h"
#endif
#include "simd/tile_pick.h"
#include "simd/tile_cells.h"
#ifndef OWN_EXACT
#include "simd/tile_exact.h"
#endif

void TILE_INIT(SnlsTile *tile)
{
    *tile = (SnlsTile){.lanes = LANES, .width = WIDTH, .rows = ROWS, .columns = COLUMNS, .planes = planes, .peak = peak, .norms = norms, .dots = dots, .patch_rows = PATCH_ROWS, .patch_columns = PATCH_COLUMNS, .band = band, .run_sums = run_sums, .mix = mix, .mix_each = mix_each, .mix_window = mix_window, .windows = windows, .ranges = ranges, .write_lists = write_lists, .least = least, .keep = keep, .insert = insert, .lower_bar = lower_bar, .below = below, .exact = exact, .exact_patch = exact_patch, .enter = enter, .straight = straight, .cells = cells, .expand = expand};
}
