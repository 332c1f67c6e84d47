/* sieve_fine_neon.c: the exact half of the sieve on AArch64: windows, scores in f32 of what is left, the sorted lists, the results. */
#if defined(__aarch64__)
#include "simd/neon.h"
#include "simd/sieve.h"

enum { LANES = SNLS_SIEVE_LANES };

/* ---- entries ---- */

/* Of an entry, along an axis: the number of its cell's first candidate in the window. Steps are a power of two: shifts take less than products. */
ALWAYS uint32_t number_of(const SnlsSieveLanes *axis, uint32_t lane, int32_t pixel, int shift) { return ((uint32_t)pixel << shift) - (uint32_t)axis->base[lane]; }

/* Which of its candidates are there: bit 16*j of the result. */
ALWAYS uint64_t candidates_in(const SnlsSieveLanes *axis, uint32_t lane, uint32_t first)
{
    const uint32_t from = (uint32_t)axis->from[lane], size = (uint32_t)axis->to[lane] - from;
    uint64_t in = 0;
    EACH for (uint32_t j = 0; j < SNLS_SIEVE_STEPS; j++) in |= (uint64_t)(first + j - from < size) << 16 * j;
    return in;
}

ALWAYS void look_up_taps(SnlsPairs *out, int i, const float *at, ptrdiff_t right, ptrdiff_t down)
{
    const float *const tap[4] = {at, at + right, at + down, at + right + down};
    EACH for (int t = 1; t < 4; t++) __builtin_prefetch(out->tap[t][i] = tap[t]);
}

/* in: of y and of x, as candidates_in says. */
ALWAYS void look_up_one(SnlsSievePairs *out, int i, uint32_t entry, const SnlsSieveTable *t, int shift, const int taps, uint64_t *in)
{
    const uint32_t box = entry >> 16, row = entry >> 10 & 63, column = entry >> 4 & 63, lane = entry & 15;
    const int32_t slot = t->slot[box], y = t->origin_y[box] + (int32_t)row, x = t->origin_x[box] + (int32_t)column;
    const SnlsSieveLanes *const lanes_y = &t->y[slot], *const lanes_x = &t->x[slot];
    const uint32_t first_y = number_of(lanes_y, lane, y, shift), first_x = number_of(lanes_x, lane, x, shift);
    const float *at = t->at[box] + (ptrdiff_t)row * t->down + (ptrdiff_t)column * t->right;
    __builtin_prefetch(at);
    out->lane[i] = lane;
    out->place[i] = ((uint32_t)slot << 20) + (first_y << 10) + first_x;
    out->at.query[i] = t->query[lane];
    out->at.tap[0][i] = at;
    if (taps == 1) return;
    look_up_taps(&out->at, i, at, x < t->last_x ? t->right : 0, y < t->last_y ? t->down : 0); /* beyond the frame a tap has weight 0: any pixel will do */
    out->at.fraction_y[i] = lanes_y->fraction[lane];
    out->at.fraction_x[i] = lanes_x->fraction[lane];
    if (!shift) return;
    in[0] |= candidates_in(lanes_y, lane, first_y) << i;
    in[1] |= candidates_in(lanes_x, lane, first_x) << i;
}

ALWAYS void look_up_all(SnlsSievePairs *out, const uint32_t *entry, ptrdiff_t n, const SnlsSieveTable *t, const int taps)
{
    const uint32_t there = n >= LANES ? 0xffff : (1u << n) - 1;
    const SnlsSieveTable table = *t; /* which no store can change */
    const int shift = __builtin_ctz((unsigned)t->steps);
    uint64_t in[2] = {0, 0};
    for (int i = 0; i < LANES; i++) look_up_one(out, i, entry[i < n ? i : 0], &table, shift, taps, in);
    out->steps = taps > 1 ? t->steps : 1;
    for (int j = 0; j < SNLS_SIEVE_STEPS; j++) {
        out->in_y[j] = (uint16_t)(out->steps > 1 ? in[0] >> 16 * j & there : there);
        out->in_x[j] = (uint16_t)(out->steps > 1 ? in[1] >> 16 * j & there : there);
    }
}

static void look_up(SnlsSievePairs *out, const uint32_t *entry, ptrdiff_t n, const SnlsSieveTable *t, int taps)
{
    if (taps == 1) look_up_all(out, entry, n, t, 1);
    else look_up_all(out, entry, n, t, 4);
}

/* ---- scores ---- */

/* Candidates that are there and not above the limit, appended: a table of which bytes they are moves them together. */
ALWAYS void append_found(SnlsSieveFound *out, uint32_t there, float32x4_t score, uint32x4_t lane, uint32x4_t place, float32x4_t limit)
{
#define WORD(i) 4 * i, 4 * i + 1, 4 * i + 2, 4 * i + 3
#define WORDS(a, b, c, d) {WORD(a), WORD(b), WORD(c), WORD(d)}
    static const uint8_t together[16][16] = {
        WORDS(0, 0, 0, 0), WORDS(0, 0, 0, 0), WORDS(1, 0, 0, 0), WORDS(0, 1, 0, 0), WORDS(2, 0, 0, 0), WORDS(0, 2, 0, 0), WORDS(1, 2, 0, 0), WORDS(0, 1, 2, 0),
        WORDS(3, 0, 0, 0), WORDS(0, 3, 0, 0), WORDS(1, 3, 0, 0), WORDS(0, 1, 3, 0), WORDS(2, 3, 0, 0), WORDS(0, 2, 3, 0), WORDS(1, 2, 3, 0), WORDS(0, 1, 2, 3)};
#undef WORDS
#undef WORD
    static const uint32_t bit[4] = {1, 2, 4, 8};
    const uint32_t in = vaddvq_u32(vandq_u32(vcleq_f32(score, limit), vld1q_u32(bit))) & there;
    const uint8x16_t from = vld1q_u8(together[in]);
    vst1q_f32(out->score + out->count, vreinterpretq_f32_u8(vqtbl1q_u8(vreinterpretq_u8_f32(score), from)));
    vst1q_u32(out->lane + out->count, vreinterpretq_u32_u8(vqtbl1q_u8(vreinterpretq_u8_u32(lane), from)));
    vst1q_u32(out->place + out->count, vreinterpretq_u32_u8(vqtbl1q_u8(vreinterpretq_u8_u32(place), from)));
    out->count += 0x4332322132212110 >> 4 * in & 15; /* bits of `in` */
}

ALWAYS float32x4_t weigh(float32x4_t a, float32x4_t b, float32x4_t f) { return vfmaq_f32(a, f, vsubq_f32(b, a)); }

/* Products or squared distances of pairs i .. i+3, at pixels: together, since a sum waits for its last addition. As neon.h builds sums. */
ALWAYS float32x4_t sums_at(const SnlsPairs *p, int i, ptrdiff_t n, const int kind)
{
    const float *q[4], *k[4];
    float32x4_t sum[8];
    ptrdiff_t f = 0;
    EACH for (int j = 0; j < 4; j++) q[j] = p->query[i + j], k[j] = p->tap[0][i + j];
    EACH for (int j = 0; j < 8; j++) sum[j] = vdupq_n_f32(0);
    for (; f + 8 <= n; f += 8)
        EACH for (int j = 0; j < 8; j++) sum[j] = neon_term(sum[j], vld1q_f32(q[j / 2] + f + j % 2 * 4), vld1q_f32(k[j / 2] + f + j % 2 * 4), kind);
    if (f < n)
        EACH for (int j = 0; j < 4; j++) sum[2 * j] = neon_term(sum[2 * j], neon_load_part(q[j] + f, n - f), neon_load_part(k[j] + f, n - f), kind);
    if (f + 4 < n)
        EACH for (int j = 0; j < 4; j++) sum[2 * j + 1] = neon_term(sum[2 * j + 1], neon_load_part(q[j] + f + 4, n - f - 4), neon_load_part(k[j] + f + 4, n - f - 4), kind);
    return neon_sum_pairs(sum);
}

/* Squares of features of a pair, four or the r that are left. */
ALWAYS float32x4_t add_between(float32x4_t sum, const float *q, const float *const *tap, ptrdiff_t f, ptrdiff_t r, float32x4_t fy, float32x4_t fx)
{
    float32x4_t k[4];
    EACH for (int t = 0; t < 4; t++) k[t] = neon_load_part(tap[t] + f, r);
    return neon_term(sum, neon_load_part(q + f, r), weigh(weigh(k[0], k[1], fx), weigh(k[2], k[3], fx), fy), L2);
}

/* Squared distance of pair i, between pixels, in four parts. */
ALWAYS float32x4_t squares_between(const SnlsPairs *p, int i, ptrdiff_t n)
{
    const float *const q = p->query[i], *const tap[4] = {p->tap[0][i], p->tap[1][i], p->tap[2][i], p->tap[3][i]};
    const float32x4_t fy = vdupq_n_f32(p->fraction_y[i]), fx = vdupq_n_f32(p->fraction_x[i]);
    float32x4_t a = vdupq_n_f32(0), b = a;
    ptrdiff_t f = 0;
    for (; f + 8 <= n; f += 8) {
        a = add_between(a, q, tap, f, 4, fy, fx);
        b = add_between(b, q, tap, f + 4, 4, fy, fx);
    }
    if (f < n) a = add_between(a, q, tap, f, n - f, fy, fx);
    if (f + 4 < n) b = add_between(b, q, tap, f + 4, n - f - 4, fy, fx);
    return vaddq_f32(a, b);
}

/* Products with a cell's pixels: those with its candidates are mixes of the four. */
ALWAYS void corners_of(float *corner, const SnlsPairs *p, int i, ptrdiff_t n)
{
    const float *const tap[4] = {p->tap[0][i], p->tap[1][i], p->tap[2][i], p->tap[3][i]};
    neon_dots(corner, p->query[i], tap, n);
}

ALWAYS float32x4_t mix_corners(float32x4x4_t corner, float32x4_t fy, float32x4_t fx)
{
    return weigh(weigh(corner.val[0], corner.val[1], fx), weigh(corner.val[2], corner.val[3], fx), fy);
}

ALWAYS float32x4_t sums_between(const SnlsPairs *p, int i, ptrdiff_t n, const int prod)
{
    float corner[16];
    if (!prod) return neon_sum4(squares_between(p, i, n), squares_between(p, i + 1, n), squares_between(p, i + 2, n), squares_between(p, i + 3, n));
    for (int j = 0; j < 4; j++) corners_of(corner + 4 * j, p, i + j, n);
    return mix_corners(vld4q_f32(corner), vld1q_f32(p->fraction_y + i), vld1q_f32(p->fraction_x + i));
}

ALWAYS void score_pairs(SnlsSieveFound *out, const SnlsSievePairs *p, ptrdiff_t n, const float *limit, const int taps, const int prod)
{
    for (int i = 0; p->in_y[0] >> i; i += 4) {
        const float32x4_t sum = taps == 1 ? sums_at(&p->at, i, n, prod ? DOT : L2) : sums_between(&p->at, i, n, prod);
        float limits[4];
        EACH for (int j = 0; j < 4; j++) limits[j] = limit[p->lane[i + j]];
        append_found(out, p->in_y[0] >> i & 15, prod ? vsubq_f32(vdupq_n_f32(0), sum) : sum, vld1q_u32(p->lane + i), vld1q_u32(p->place + i), vld1q_f32(limits));
    }
}

/* Fractions of four candidates of a pair, two by two. */
typedef struct Square { float y[4], x[4]; } Square;

/* Squared distances: columns share what lies between the pixels above, and those below. */
ALWAYS void add_squares(float32x4_t *sum, const SnlsPairs *p, int i, ptrdiff_t f, ptrdiff_t r, const Square *at)
{
    const float32x4_t q = neon_load_part(p->query[i] + f, r);
    float32x4_t k[4];
    EACH for (int t = 0; t < 4; t++) k[t] = neon_load_part(p->tap[t][i] + f, r);
    EACH for (int x = 0; x < 2; x++) {
        const float32x4_t fx = vdupq_n_f32(at->x[x]), above = weigh(k[0], k[1], fx), below = weigh(k[2], k[3], fx);
        EACH for (int y = 0; y < 2; y++) sum[2 * y + x] = neon_term(sum[2 * y + x], q, weigh(above, below, vdupq_n_f32(at->y[2 * y])), L2);
    }
}

ALWAYS float32x4_t sum_squares(const SnlsPairs *p, int i, ptrdiff_t n, const Square *at)
{
    float32x4_t sum[4] = {vdupq_n_f32(0), vdupq_n_f32(0), vdupq_n_f32(0), vdupq_n_f32(0)};
    ptrdiff_t f = 0;
    for (; f + 4 <= n; f += 4) add_squares(sum, p, i, f, 4, at);
    if (f < n) add_squares(sum, p, i, f, n - f, at);
    return neon_sum4(sum[0], sum[1], sum[2], sum[3]);
}

/* The candidates of a cell, four at a time. */
ALWAYS void score_cell(SnlsSieveFound *out, const SnlsSievePairs *p, int i, ptrdiff_t n, float limit, const int prod)
{
    const float step = 1 / (float)p->steps;
    float32x4x4_t corner;
    if (prod) {
        float four[4];
        corners_of(four, &p->at, i, n);
        corner = vld4q_dup_f32(four);
    }
    for (int number = 0; number < p->steps * p->steps; number += 4) {
        const int row = number / (2 * p->steps) * 2, column = number / 2 % p->steps;
        Square at;
        uint32_t there = 0, place[4];
        EACH for (int j = 0; j < 4; j++) {
            const int y = row + j / 2, x = column + j % 2;
            at.y[j] = p->at.fraction_y[i] + (float)y * step;
            at.x[j] = p->at.fraction_x[i] + (float)x * step;
            there |= (uint32_t)(p->in_y[y] & p->in_x[x]) >> i << j & 1u << j;
            place[j] = p->place[i] + (uint32_t)(y << 10 | x);
        }
        if (!there) continue;
        const float32x4_t score = prod ? vsubq_f32(vdupq_n_f32(0), mix_corners(corner, vld1q_f32(at.y), vld1q_f32(at.x))) : sum_squares(&p->at, i, n, &at);
        append_found(out, there, score, vdupq_n_u32(p->lane[i]), vld1q_u32(place), vdupq_n_f32(limit));
    }
}

ALWAYS void score_cells(SnlsSieveFound *out, const SnlsSievePairs *p, ptrdiff_t n, const float *limit, const int prod)
{
    uint32_t rest = 0;
    for (int y = 0; y < p->steps; y++) rest |= p->in_y[y];
    for (; rest; rest &= rest - 1) {
        const int i = __builtin_ctz(rest);
        score_cell(out, p, i, n, limit[p->lane[i]], prod);
    }
}

static void scores(SnlsSieveFound *out, const SnlsSievePairs *pairs, int taps, int prod, ptrdiff_t n, const float *limit)
{
    out->count = 0;
    if (pairs->steps > 1) {
        if (prod) score_cells(out, pairs, n, limit, 1);
        else score_cells(out, pairs, n, limit, 0);
    } else if (prod) {
        if (taps == 1) score_pairs(out, pairs, n, limit, 1, 1);
        else score_pairs(out, pairs, n, limit, 4, 1);
    } else {
        if (taps == 1) score_pairs(out, pairs, n, limit, 1, 0);
        else score_pairs(out, pairs, n, limit, 4, 0);
    }
}

/* ---- lists ---- */

/* Four scores and places as doubles, which are ordered as they are, so that sorting takes a minimum and a maximum: the score's bits above those of its place, which are
 * turned over where the double is negative. One is added to the exponent: no double is denormal, which some processes take as 0. Infinite scores become finite
 * doubles; NaN is behind all of them. */
typedef struct Ranks { float64x2_t low, high; } Ranks;
#define EXPONENT vdupq_n_u32(1u << 20)

ALWAYS uint32x4_t signs_of(uint32x4_t head) { return vreinterpretq_u32_s32(vshrq_n_s32(vreinterpretq_s32_u32(head), 31)); }

ALWAYS Ranks ranks_of(float32x4_t score, uint32x4_t place)
{
    const float32x4_t s = vaddq_f32(score, vdupq_n_f32(0)); /* no -0, which would be before 0 */
    const uint32x4_t head = vbslq_u32(vceqq_f32(s, s), vaddq_u32(vreinterpretq_u32_f32(s), EXPONENT), vdupq_n_u32(0x7fe00000)), tail = veorq_u32(place, signs_of(head));
    return (Ranks){vreinterpretq_f64_u32(vzip1q_u32(tail, head)), vreinterpretq_f64_u32(vzip2q_u32(tail, head))};
}

/* Ranks of the lists are where scores and places were. */
ALWAYS Ranks load_ranks(const float *score, const uint32_t *place) { return (Ranks){vreinterpretq_f64_f32(vld1q_f32(score)), vreinterpretq_f64_u32(vld1q_u32(place))}; }

ALWAYS void store_ranks(float *score, uint32_t *place, Ranks r)
{
    vst1q_f32(score, vreinterpretq_f32_f64(r.low));
    vst1q_u32(place, vreinterpretq_u32_f64(r.high));
}

static void rank_lists(float *best, uint32_t *best_place, ptrdiff_t rows)
{
    for (ptrdiff_t j = 0; j < rows * LANES; j += 4) store_ranks(best + j, best_place + j, ranks_of(vld1q_f32(best + j), vld1q_u32(best_place + j)));
}

static void unrank_lists(float *best, uint32_t *best_place, ptrdiff_t rows)
{
    for (ptrdiff_t j = 0; j < rows * LANES; j += 4) {
        const Ranks r = load_ranks(best + j, best_place + j);
        const uint32x4_t low = vreinterpretq_u32_f64(r.low), high = vreinterpretq_u32_f64(r.high), head = vuzp2q_u32(low, high), tail = vuzp1q_u32(low, high);
        vst1q_f32(best + j, vreinterpretq_f32_u32(vsubq_u32(head, EXPONENT)));
        vst1q_u32(best_place + j, veorq_u32(tail, signs_of(head)));
    }
}

/* Rows of the lists that hold something in some lane. */
static ptrdiff_t rows_used(const uint32_t *best_place, ptrdiff_t k)
{
    for (; k > 0; k--) {
        const uint32_t *row = best_place + (k - 1) * LANES;
        const uint32x4_t least = vminq_u32(vminq_u32(vld1q_u32(row), vld1q_u32(row + 4)), vminq_u32(vld1q_u32(row + 8), vld1q_u32(row + 12)));
        if (vminvq_u32(least) < SNLS_LIST_NONE) break;
    }
    return k;
}

/* A row into the lists. */
ALWAYS void keep_row(float *best, uint32_t *best_place, ptrdiff_t k, const float *score, const uint32_t *place)
{
    Ranks s[4], have[4];
    EACH for (int q = 0; q < 4; q++) s[q] = ranks_of(vld1q_f32(score + 4 * q), vld1q_u32(place + 4 * q));
    for (ptrdiff_t j = 0; j < k * LANES; j += LANES) {
        EACH for (int q = 0; q < 4; q++) have[q] = load_ranks(best + j + 4 * q, best_place + j + 4 * q);
        EACH for (int q = 0; q < 4; q++) {
            store_ranks(best + j + 4 * q, best_place + j + 4 * q, (Ranks){vminq_f64(s[q].low, have[q].low), vminq_f64(s[q].high, have[q].high)});
            s[q] = (Ranks){vmaxq_f64(s[q].low, have[q].low), vmaxq_f64(s[q].high, have[q].high)};
        }
    }
}

static void keep(float *best, uint32_t *best_place, ptrdiff_t k, const float *score, const uint32_t *place, ptrdiff_t n)
{
    const ptrdiff_t used = rows_used(best_place, k), most = used + n < k ? used + n : k; /* a row of scores goes no farther than to the first row that holds nothing */
    rank_lists(best, best_place, most);
    for (ptrdiff_t i = 0; i < n; i++) keep_row(best, best_place, used + i + 1 < k ? used + i + 1 : k, score + i * LANES, place + i * LANES);
    unrank_lists(best, best_place, most);
}

/* ---- windows ---- */

/* Two windows along an axis. place: of the first cell; in: all of it lies inside the frame, and its centre did before any reflection. */
typedef struct Two { float64x2_t centre, origin, place; uint64x2_t in; } Two;

ALWAYS float64x2_t two_place(const Two *w, double step, double cell)
{
    return vaddq_f64(w->centre, vmulq_f64(vdupq_n_f64(step), vsubq_f64(vdupq_n_f64(cell), w->origin)));
}

ALWAYS uint64x2_t both(uint64x2_t a, uint64x2_t b) { return vandq_u64(a, b); }

/* As snls_window_origin does. */
static void two_slide(Two *w, const SnlsLaneWindows *in, double end)
{
    const float64x2_t step = vdupq_n_f64(in->step), last = vdupq_n_f64(end);
    const uint64x2_t centred = both(vcgezq_f64(w->centre), vcleq_f64(w->centre, last));
    w->origin = vbslq_f64(vcltzq_f64(w->place), vrndmq_f64(vdivq_f64(w->centre, step)), w->origin);
    const uint64x2_t late = vcgtq_f64(two_place(w, in->step, in->span), last);
    w->origin = vbslq_f64(late, vrndpq_f64(vaddq_f64(vdivq_f64(vsubq_f64(w->centre, last), step), vdupq_n_f64(in->span))), w->origin);
    w->place = two_place(w, in->step, 0);
    w->in = both(both(vcgezq_f64(w->place), vcleq_f64(two_place(w, in->step, in->span), last)), centred);
}

ALWAYS Two two_windows(const SnlsLaneWindows *in, const double *query, float64x2_t flow, double end)
{
    Two w = {.centre = vaddq_f64(vld1q_f64(query), flow), .origin = vdupq_n_f64(in->origin)};
    const float64x2_t first = vdupq_n_f64(in->step * (0 - in->origin)), last = vdupq_n_f64(in->step * (in->span - in->origin));
    w.place = vaddq_f64(w.centre, first);
    w.in = both(vcgezq_f64(w.place), vcleq_f64(vaddq_f64(w.centre, last), vdupq_n_f64(end)));
    if (in->slide && !(vgetq_lane_u64(w.in, 0) & vgetq_lane_u64(w.in, 1))) two_slide(&w, in, end);
    return w;
}

/* Four numbers of 32 bits from two times two of 64, their low halves. */
#define NARROW(a, b) vuzp1q_s32(vreinterpretq_s32_s64(a), vreinterpretq_s32_s64(b))

/* The cells of four windows. Counted in candidates, the frame's first pixel is at 0 and cells begin at multiples of steps, a power of two. Places are not negative, so that
 * cutting off is floor; where a window is not in they are 0. */
ALWAYS void four_cells(SnlsSieveLanes *out, int l, const Two *a, const Two *b, int32_t side, int32_t steps)
{
    const float64x2_t each = vdupq_n_f64(steps);
    const float64x2_t place_a = vreinterpretq_f64_u64(both(vreinterpretq_u64_f64(vmulq_f64(a->place, each)), a->in));
    const float64x2_t place_b = vreinterpretq_f64_u64(both(vreinterpretq_u64_f64(vmulq_f64(b->place, each)), b->in));
    const int64x2_t low_a = vcvtq_s64_f64(place_a), low_b = vcvtq_s64_f64(place_b);
    const float32x2_t rest_a = vcvt_f32_f64(vsubq_f64(place_a, vcvtq_f64_s64(low_a)));
    const float32x4_t rest = vcvt_high_f32_f64(rest_a, vsubq_f64(place_b, vcvtq_f64_s64(low_b)));
    const int32x4_t base = NARROW(low_a, low_b), down = vdupq_n_s32(-__builtin_ctz((unsigned)steps));
    vst1q_f32(out->fraction + l, vmulq_n_f32(rest, 1 / (float)steps));
    vst1q_s32(out->base + l, base);
    vst1q_s32(out->from + l, vdupq_n_s32(0));
    vst1q_s32(out->to + l, vdupq_n_s32(side));
    vst1q_s32(out->first + l, vshlq_s32(base, down));
    vst1q_s32(out->end + l, vaddq_s32(vshlq_s32(vaddq_s32(base, vdupq_n_s32(side - 1)), down), vdupq_n_s32(1)));
}

ALWAYS uint32_t axis_windows(const SnlsSieveWindows *in, const float *flow, const double *query, double end, double *centre, int32_t *origin, SnlsSieveLanes *out)
{
    static const uint32_t bit[4] = {1, 2, 4, 8};
    uint32_t bits = 0;
    for (int l = 0; l < LANES; l += 4) {
        float32x4_t moved = vdupq_n_f32(0);
        if (flow) moved = (float32x4_t){flow[in->at[l]], flow[in->at[l + 1]], flow[in->at[l + 2]], flow[in->at[l + 3]]};
        if (in->all.nearest) moved = vrndnq_f32(moved);
        const Two a = two_windows(&in->all, query + l, vcvt_f64_f32(vget_low_f32(moved)), end), b = two_windows(&in->all, query + l + 2, vcvt_high_f64_f32(moved), end);
        vst1q_f64(centre + l, a.centre);
        vst1q_f64(centre + l + 2, b.centre);
        vst1q_s32(origin + l, NARROW(vcvtq_s64_f64(a.origin), vcvtq_s64_f64(b.origin)));
        four_cells(out, l, &a, &b, in->side, in->steps);
        bits |= vaddvq_u32(vandq_u32(vuzp1q_u32(vreinterpretq_u32_u64(a.in), vreinterpretq_u32_u64(b.in)), vld1q_u32(bit))) << l;
    }
    return bits;
}

static uint32_t windows(const SnlsSieveWindows *in, SnlsSieveLanes *y, SnlsSieveLanes *x)
{
    const float *flow_y = in->flow ? in->flow + in->step_y : NULL;
    return axis_windows(in, flow_y, in->y, in->all.end_y, in->centre_y, in->origin_y, y) & axis_windows(in, in->flow, in->x, in->all.end_x, in->centre_x, in->origin_x, x);
}

/* ---- results ---- */

/* Where the neighbours of a lane go. */
typedef struct Column {
    float *dist, *offset;
    int32_t *index;
    ptrdiff_t dist_step, offset_step, component;
} Column;

ALWAYS void write_one(const SnlsListOutput *o, const Column *to, ptrdiff_t i, float dist, float t, float32x2_t yx, int32_t index)
{
    float *offset = to->offset + i * to->offset_step;
    to->dist[i * to->dist_step] = dist;
    offset[0] = t;
    if (to->component == 1) {
        vst1_f32(offset + 1, yx);
    } else {
        offset[to->component] = vget_lane_f32(yx, 0);
        offset[2 * to->component] = vget_lane_f32(yx, 1);
    }
    if (o->index) to->index[i * o->index_step] = index;
}

/* centre + step*(cell - origin) - query, y and x, in double, rounded once. */
ALWAYS float32x2_t offset_of(const SnlsListOutput *o, ptrdiff_t at, float64x2_t query, uint32_t row, uint32_t column)
{
    const uint64_t y = row - (uint32_t)o->origin_y[at], x = column - (uint32_t)o->origin_x[at];
    const float64x2_t cells = vcvtq_f64_s64(vmovl_s32(vcreate_s32((y & UINT32_MAX) | x << 32))), centre = {o->centre_y[at], o->centre_x[at]};
    return vcvt_f32_f64(vsubq_f64(vaddq_f64(centre, vmulq_n_f64(cells, o->step)), query));
}

ALWAYS void write_lane(const SnlsListOutput *o, const Column *to, int l, const float *best, const uint32_t *place, ptrdiff_t k, ptrdiff_t have)
{
    const float64x2_t query = {o->y[l], o->x[l]};
    for (ptrdiff_t i = 0; i < k; i++) {
        const uint32_t at = i < have ? place[i * LANES + l] : SNLS_LIST_NONE, slot = at >> 20, row = at >> 10 & 1023, column = at & 1023;
        if (at == SNLS_LIST_NONE) {
            write_one(o, to, i, o->prod ? -__builtin_inff() : __builtin_inff(), 0, vdup_n_f32(0), -1);
            continue;
        }
        const float score = best[i * LANES + l], dist = o->prod ? 0 - score : score + 0; /* no -0 */
        write_one(o, to, i, dist, o->dt[slot], offset_of(o, (ptrdiff_t)slot * o->apart + l, query, row, column), (int32_t)((slot * o->side + row) * o->side + column));
    }
}

static void write(const SnlsListOutput *out, const float *best, const uint32_t *place, ptrdiff_t k, ptrdiff_t have)
{
    const SnlsListOutput o = *out; /* which no store can change */
    const int packed = o.dist_step == 1 && o.offset_step == 3 && o.component == 1;
    for (uint32_t rest = o.active; rest; rest &= rest - 1) {
        const int l = __builtin_ctz(rest);
        float *dist = o.dist + o.dist_at[l], *offset = o.offset + o.offset_at[l];
        int32_t *index = o.index ? o.index + o.index_at[l] : NULL;
        if (packed) write_lane(&o, &(Column){dist, offset, index, 1, 3, 1}, l, best, place, k, have);
        else write_lane(&o, &(Column){dist, offset, index, o.dist_step, o.offset_step, o.component}, l, best, place, k, have);
    }
}

void snls_sieve_init_fine_neon(SnlsSieve *sieve)
{
    sieve->look_up = look_up;
    sieve->scores = scores;
    sieve->keep = keep;
    sieve->windows = windows;
    sieve->write = write;
}

#else
typedef int snls_sieve_fine_neon_is_empty;
#endif
