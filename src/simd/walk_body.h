/* walk_body.h: the loops on vectors of the compiler's own, included once for each instruction set with WALK_LOOPS as the name of the
 * function that fills the table and WALK_LANES doubles a vector. The arithmetic is that of src/op/geometry.h and gives the same bits. */
#include "simd/walk.h"
#include "simd/walk_vectors.h"

enum { QUERIES = WALK_LANES / 2 }; /* of a vector */

typedef struct Axes { Wide last; Bits step, back; Wide wide_step; } Axes; /* step, back: floats to the tap beside, and where the last pixel mirrors it */

ALWAYS Axes axes_of(const SnlsWalkField *field)
{
    const double last[2] = { (double)(field->size[0] - 1), (double)(field->size[1] - 1) }, wide_step[2] = { (double)field->step[0], (double)field->step[1] };
    const int64_t back[2] = { field->size[0] > 1 ? -field->step[0] : 0, field->size[1] > 1 ? -field->step[1] : 0 };
    return (Axes){ .last = X_AND_Y(last), .step = X_AND_Y(field->step), .back = X_AND_Y(back), .wide_step = X_AND_Y(wide_step) };
}

/* ---- places ---- */

static int fold(SnlsWalkStep *step, const SnlsWalkStart *start, const double *moved, const int64_t *size, int64_t queries)
{
    const double end[2] = { (double)(size[0] - 1), (double)(size[1] - 1) }, unit[2] = { size[0] > 1, size[1] > 1 };
    const Wide last = X_AND_Y(end), one = X_AND_Y(unit), zero = { 0 };
    const double ahead[2] = { QUERIES * start->step, 0 };
    const Wide next = X_AND_Y(ahead);
    double first[WALK_LANES];
    for (int q = 0; q < QUERIES; q++) first[2 * q] = start->x + q * start->step, first[2 * q + 1] = start->y;
    Bits near = ~(Bits){ 0 };
    Wide from, by;
    LOAD(from, first);
    for (int64_t i = 0; i < 2 * queries; i += WALK_LANES, from += next) {
        LOAD(by, moved + i);
        const Wide x = from + by, size_of_x = (Wide)((Bits)x & INT64_MAX), place = choose(size_of_x > last, 2 * last - size_of_x, size_of_x);
        const Bits falls = ((size_of_x < last) ^ (x > zero)) & (place != zero) & (place != last);
        const Wide slope = choose(falls, -one, one);
        near &= (place >= zero) & (place <= last);
        STORE(step->place + i, place);
        STORE(step->slope + i, slope);
    }
    int64_t lanes[WALK_LANES], all_near = -1;
    STORE(lanes, near);
    for (int i = 0; i < WALK_LANES; i++) all_near &= lanes[i];
    return !all_near;
}

typedef struct Taps { /* of a block: floats from the first pixel to the upper left tap, twice; from there to the taps beside it, along x and y */
    int64_t at[2 * SNLS_WALK], beside[2 * SNLS_WALK];
    double  share[2 * SNLS_WALK]; /* of the taps beside */
} Taps;

/* floor of places inside a frame, of less than 2^51 */
ALWAYS Wide floor_of(Wide x)
{
    const Wide magic = all(0x1p52), rounded = (x + magic) - magic;
    return choose(rounded > x, rounded - all(1), rounded);
}

ALWAYS void find_taps(Taps *taps, const double *place, const SnlsWalkField *field, int64_t queries)
{
    const Axes axes = axes_of(field);
    const Wide magic = all(0x1.8p52); /* whole numbers of less than 2^51 then stand in the low bits */
    for (int64_t i = 0; i < 2 * queries; i += WALK_LANES) {
        Wide x;
        LOAD(x, place + i);
        const Wide whole = floor_of(x), share = x - whole;
        const Wide along = whole * axes.wide_step;
        const Bits at = (Bits)(along + SHUFFLE(along, along, SWAPPED) + magic) - (Bits)magic, beside = choose_bits(whole < axes.last, axes.step, axes.back);
        STORE(taps->at + i, at);
        STORE(taps->beside + i, beside);
        STORE(taps->share + i, share);
    }
}

/* ---- reads ---- */

typedef struct Corners { Wide a, b, c, d; } Corners; /* in reading order */

ALWAYS Corners read_corners(const Taps *taps, const float *data, int64_t i)
{
    const int64_t *at = taps->at + i, *beside = taps->beside + i;
#define A(q) pair_at(data + at[2 * (q)])
#define B(q) pair_at(data + at[2 * (q)] + beside[2 * (q)])
#define C(q) pair_at(data + at[2 * (q)] + beside[2 * (q) + 1])
#define D(q) pair_at(data + at[2 * (q)] + beside[2 * (q) + 1] + beside[2 * (q)])
    const Pairs a = PAIRS(A), b = PAIRS(B), c = PAIRS(C), d = PAIRS(D);
#undef A
#undef B
#undef C
#undef D
    return (Corners){ widen((Slim)a), widen((Slim)b), widen((Slim)c), widen((Slim)d) };
}

/* A tap of weight 0 takes no part, so that NaN there does no harm. */
ALWAYS Wide mix(Wide a, Wide b, Wide share) { return choose(share == (Wide){ 0 }, a, a + share * (b - a)); }

/* Derivative along an axis: of differences of taps, these and those beside them. */
ALWAYS Wide slope_of(Wide these, Wide beside, Wide share)
{
    const Wide part = (all(1) - share) * these;
    return choose(share == (Wide){ 0 }, part, part + share * beside);
}

ALWAYS void keep_slopes(SnlsWalkStep *step, const Corners *k, Wide value, Wide fx, Wide fy, int64_t i)
{
    Wide slope;
    LOAD(slope, step->slope + i);
    const Wide by_x = slope_of(k->b - k->a, k->d - k->c, fy) * SHUFFLE(slope, slope, EACH_X);
    const Wide by_y = slope_of(k->c - k->a, k->d - k->b, fx) * SHUFFLE(slope, slope, EACH_Y);
    const Bits whole = value == value;
    const Bits defined = SHUFFLE(whole, whole, EACH_X) & SHUFFLE(whole, whole, EACH_Y);
    STORE(step->by_x + i, by_x);
    STORE(step->by_y + i, by_y);
    STORE(step->defined + i, defined);
}

ALWAYS void read_block(float *out, double *moved, SnlsWalkStep *step, const SnlsWalkField *field, int64_t queries, const int slopes)
{
    Taps taps;
    find_taps(&taps, step->place, field, queries);
    for (int64_t i = 0; i < 2 * queries; i += WALK_LANES) {
        Wide share, by;
        LOAD(share, taps.share + i);
        LOAD(by, moved + i);
        const Wide fx = SHUFFLE(share, share, EACH_X), fy = SHUFFLE(share, share, EACH_Y);
        const Corners k = read_corners(&taps, field->data, i);
        const Wide value = mix(mix(k.a, k.b, fx), mix(k.c, k.d, fx), fy);
        if (slopes) keep_slopes(step, &k, value, fx, fy, i);
        by += value;
        const Slim rounded = narrow(by);
        STORE(moved + i, by);
        STORE(out + i, rounded);
    }
}

static void read_only(float *out, double *moved, SnlsWalkStep *step, const SnlsWalkField *field, int64_t queries) { read_block(out, moved, step, field, queries, 0); }
static void read_slopes(float *out, double *moved, SnlsWalkStep *step, const SnlsWalkField *field, int64_t queries) { read_block(out, moved, step, field, queries, 1); }

/* ---- the way back ---- */

typedef struct Shares { float tap[4][2 * SNLS_WALK]; } Shares; /* what each tap gets, in reading order */

/* -0, which changes nothing, where there is nothing to add. */
ALWAYS void put_share(float *to, Wide weight, Wide pull, Bits defined)
{
    const Wide part = choose(defined & (weight != (Wide){ 0 }), weight * pull, all(-0.0));
    const Slim rounded = narrow(part);
    STORE(to, rounded);
}

/* The shares of a vector of queries, then their pulls on the positions before. */
ALWAYS void pull_vector(Shares *shares, const Taps *taps, double *pull, const float *seed, const SnlsWalkStep *step, int64_t i)
{
    Wide was, share, by_x, by_y;
    Bits defined;
    Slim more;
    LOAD(was, pull + i);
    LOAD(share, taps->share + i);
    LOAD(by_x, step->by_x + i);
    LOAD(by_y, step->by_y + i);
    LOAD(defined, step->defined + i);
    LOAD(more, seed + i);
    const Wide here = was + widen(more);
    const Wide right = SHUFFLE(share, share, EACH_X), lower = SHUFFLE(share, share, EACH_Y), left = all(1) - right, upper = all(1) - lower;
    put_share(shares->tap[0] + i, upper * left, here, defined);
    put_share(shares->tap[1] + i, upper * right, here, defined);
    put_share(shares->tap[2] + i, lower * left, here, defined);
    put_share(shares->tap[3] + i, lower * right, here, defined);
    const Wide along_x = here * by_x, along_y = here * by_y;
    const Wide sum = SHUFFLE(along_x, along_y, BOTH_X) + SHUFFLE(along_x, along_y, BOTH_Y);
    const Wide before = choose(defined, here + sum, (Wide){ 0 });
    STORE(pull + i, before);
}

ALWAYS void add_pair(float *to, const float *from)
{
    to[0] += from[0];
    to[1] += from[1];
}

static void pull_block(const SnlsWalkField *to, int64_t first, int64_t end, double *pull, const float *seed, const SnlsWalkStep *step, int64_t queries)
{
    Taps taps;
    Shares shares;
    find_taps(&taps, step->place, to, queries);
    for (int64_t i = 0; i < 2 * queries; i += WALK_LANES) pull_vector(&shares, &taps, pull, seed, step, i);
    const int64_t height = to->size[1];
    for (int64_t i = 0; i < 2 * queries; i += 2) {
        const int64_t y = (int64_t)step->place[i + 1], below = y + 1 < height ? y + 1 : height - 2, right = taps.beside[i];
        float *at = to->data + taps.at[i], *under = at + taps.beside[i + 1];
        if (y >= first && y < end) add_pair(at, shares.tap[0] + i), add_pair(at + right, shares.tap[1] + i);
        if (below >= first && below < end) add_pair(under, shares.tap[2] + i), add_pair(under + right, shares.tap[3] + i);
    }
}

WALK_SCOPE void WALK_LOOPS(SnlsWalkLoops *loops) { *loops = (SnlsWalkLoops){ fold, read_only, read_slopes, pull_block }; }
