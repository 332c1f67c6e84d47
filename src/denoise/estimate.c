/* estimate.c: the strength of white noise in a frame, from the high frequencies of those blocks whose low frequencies are
 * weakest (Ponomarenko et al., 2007; Colom and Buades, 2013). Under white noise the two are independent, so that
 * choosing blocks by the one does not bend the other; texture shows in both.
 *
 * The weakest blocks of a whole frame may be none of the camera's: bars, logos, titles. So blocks are sorted by brightness into bins of equal
 * number, each gives an estimate of its own, and the median counts: what is drawn has few brightnesses, noise has all, and where it grows
 * with brightness the median is that of the usual ones. */
#include "denoise/nlb.h"
#include "base/finite.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = 8, LOW = 9, BLOCKS_MAX = 20000, BINS = 8, CHOSEN_MIN = 40, KINDS = 2, FOUND = 3, PAIRS = SIDE - 3, ENDS_MAX = 48 };
#define SHARE     0.01   /* of the blocks of a bin that are chosen */
#define COLOURED  1.3    /* times as strong in low frequencies: not white */
#define HALVED    3.5    /* times as strong: not there at all in high ones, as colour of 4:2:0 */
#define TEXTURED  4.0    /* so much of what low frequencies of colour show may be texture, which cannot be told from noise there */
#define TEXTURE   2.0    /* times as strong in the frequencies that choose, though the weakest were chosen: not noise alone */
#define SPREAD    3.0    /* times as much as where they are quietest is what low frequencies of colour are believed, since noise is everywhere ... */
#define BRIGHT    16.0   /* ... and as much as brightness has, or colour in high ones, since no camera has that alone */
#define APART     1.2    /* times as much as their colours may mixtures have, since each is an estimate */
#define ALIKE     1.5    /* times as many pixels alike as noise leaves: it cannot be there */
#define ROUNDING  1.0    /* noise of which edges are all that is seen and rounding would leave as many pixels alike is none */
#define DRAWN     0.75   /* of the blocks have one value: a title or a drawing, whose edges are no noise */
#define USABLE    0.005  /* of the blocks, at least, must not be clipped */
#define SIGMA_MAX 1000.0 /* that the denoiser takes */

/* What is measured. Of noise that is not white the low frequencies tell: blocks are chosen by some of them, others measured. */
typedef enum Kind { HIGH_ORDERS, LOW_ORDERS } Kind;
enum { LOW_QUIET = KINDS }; /* what is found besides: low frequencies in the quietest bin */

typedef struct Blocks {
    const float *frame; /* (H,W,C), from the channel on */
    const float *seen;  /* what the camera may have clipped: (H,W,seen_channels) */
    bool mixed;         /* of the colours that are seen */
    int64_t channels, seen_channels, width, rows, columns, step;
    int kinds;   /* the first one, or both */
    int threads;
    float basis[SIDE][SIDE];
} Blocks;

/* basis[i][k]: value i of frequency k. */
static void make_basis(float basis[SIDE][SIDE])
{
    const double pi = 3.14159265358979323846;
    for (int k = 0; k < SIDE; k++)
        for (int i = 0; i < SIDE; i++)
            basis[i][k] = (float)(cos(pi * (2 * i + 1) * k / (2 * SIDE)) * sqrt((k ? 2.0 : 1.0) / SIDE));
}

typedef enum Sort { PLAIN, CONSTANT, CLIPPED } Sort;

static const float *corner_of(const Blocks *b, const float *first, int64_t channels, int64_t i)
{
    return first + (i / b->columns * b->width + i % b->columns) * b->step * channels;
}

typedef struct Look {
    Sort sort;
    int ends; /* pixels at an end of the scale */
} Look;

static bool is_end(float v) { return v == 0 || v == 255; }

/* Of one value, or with more than a row's worth of pixels at an end of the scale? first: what is looked at, every step-th float. */
static Look look_at_channel(const Blocks *b, const float *first, int64_t step, int64_t i)
{
    const float *corner = corner_of(b, first, step, i);
    bool constant = true;
    int ends = 0;
    for (int64_t y = 0; y < SIDE; y++)
        for (int64_t x = 0; x < SIDE; x++) {
            const float v = corner[(y * b->width + x) * step];
            ends += is_end(v);
            constant &= v == *corner;
        }
    return (Look){ constant ? CONSTANT : ends > SIDE ? CLIPPED : PLAIN, ends };
}

/* A mixture of colours is clipped where one of them is, but for one that has no noise there, since it is clipped altogether. */
static Look look_at(const Blocks *b, int64_t i)
{
    Look look = look_at_channel(b, b->frame, b->channels, i);
    if (b->mixed && look.sort == CLIPPED) look.sort = PLAIN; /* by chance: grey has no colour */
    for (int64_t c = 0; b->mixed && look.sort == PLAIN && c < b->seen_channels; c++)
        look.sort = look_at_channel(b, b->seen + c, b->seen_channels, i).sort == CLIPPED ? CLIPPED : PLAIN;
    return look;
}

/* Orthonormal DCT of block number i: out[row][column]. */
static void transform(const Blocks *b, int64_t i, float out[SIDE][SIDE])
{
    const float *corner = corner_of(b, b->frame, b->channels, i);
    float half[SIDE][SIDE] = { { 0 } };
    memset(out, 0, sizeof half);
    for (int y = 0; y < SIDE; y++)
        for (int x = 0; x < SIDE; x++) {
            const float v = corner[(y * b->width + x) * b->channels];
            for (int k = 0; k < SIDE; k++) half[y][k] += b->basis[x][k] * v;
        }
    for (int y = 0; y < SIDE; y++)
        for (int k = 0; k < SIDE; k++)
            for (int x = 0; x < SIDE; x++) out[k][x] += b->basis[y][k] * half[y][x];
}

static bool chooses(Kind kind, int order) { return kind == LOW_ORDERS ? order < 6 && order % 2 : order > 0 && order < LOW; }
static bool measures(Kind kind, int order) { return kind == LOW_ORDERS ? order == 2 || order == 4 : order >= LOW; }

typedef struct Rank {
    float mean, energy[KINDS]; /* brightness; mean square of the frequencies that choose; mean INFINITY: not usable */
    float gain;                /* times the variance that is seen: what it would be if nothing were clipped */
    int32_t block;
} Rank;

static float choosing_energy(float c[SIDE][SIDE], Kind kind)
{
    float sum = 0;
    int count = 0;
    for (int y = 0; y < SIDE; y++)
        for (int x = 0; x < SIDE; x++)
            if (chooses(kind, x + y)) sum += c[y][x] * c[y][x], count++;
    return sum / (float)count;
}

/* Of normal noise on a flat block, part of whose pixels are clipped at one end, 1 - 1.318 of that share is left, to within 0.05 of it: from all to the
 * 0.341 of half of it. More is clipped by chance, or since the picture is beyond the end, of which nothing is known. */
static float gain_of(const Look *look)
{
    return look->sort == PLAIN ? 1 : 1 / fmaxf(1 - 1.318f * (float)look->ends / (SIDE * SIDE), 0.341f);
}

static Rank rank_of(const Blocks *b, int64_t i, const Look *look)
{
    Rank r = { .mean = INFINITY, .block = (int32_t)i, .gain = gain_of(look) };
    float c[SIDE][SIDE];
    transform(b, i, c);
    r.mean = c[0][0];
    for (int kind = 0; kind < b->kinds; kind++) r.energy[kind] = r.gain * choosing_energy(c, (Kind)kind);
    return r;
}

static int in_order(float x, float y, const Rank *a, const Rank *b)
{
    return x != y ? (x > y) - (x < y) : (a->block > b->block) - (a->block < b->block);
}

static int by_mean(const void *a, const void *b)
{
    const Rank *x = a, *y = b;
    return in_order(x->mean, y->mean, x, y);
}

static int by_high(const void *a, const void *b)
{
    const Rank *x = a, *y = b;
    return in_order(x->energy[HIGH_ORDERS], y->energy[HIGH_ORDERS], x, y);
}

static int by_low(const void *a, const void *b)
{
    const Rank *x = a, *y = b;
    return in_order(x->energy[LOW_ORDERS], y->energy[LOW_ORDERS], x, y);
}

static int rising(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void snls_nlb_sort(double *values, int64_t count) { qsort(values, (size_t)count, sizeof *values, rising); }

/* The upper one of two in the middle. */
static double median(double *values, int64_t count)
{
    snls_nlb_sort(values, count);
    return values[count / 2];
}

/* Median over the frequencies that are measured of their variance in the chosen blocks. */
static double measured_variance(const Blocks *b, Kind kind, const Rank *rank, int64_t chosen)
{
    double squares[SIDE * SIDE] = { 0 };
    int count = 0;
    for (int64_t i = 0; i < chosen; i++) {
        float c[SIDE][SIDE];
        transform(b, rank[i].block, c);
        count = 0;
        for (int y = 0; y < SIDE; y++)
            for (int x = 0; x < SIDE; x++)
                if (measures(kind, x + y)) squares[count++] += (double)rank[i].gain * c[y][x] * c[y][x] / (double)chosen;
    }
    return median(squares, count);
}

/* Share of the pixels of some blocks near whose value is that of the pixel three to the right and down, which is another one in a frame that was enlarged too. Both
 * at an end of the scale tell nothing. */
static double share_alike(const Blocks *b, const Rank *rank, int64_t count, double near)
{
    int64_t alike = 0, told = 0;
#pragma omp parallel for num_threads(b->threads) schedule(static) reduction(+ : alike, told)
    for (int64_t i = 0; i < count; i++) {
        const float *corner = corner_of(b, b->frame, b->channels, rank[i].block);
        const double seen = near / sqrt(rank[i].gain);
        for (int64_t at = 0; at < PAIRS * PAIRS; at++) {
            const float *v = corner + (at / PAIRS * b->width + at % PAIRS) * b->channels, w = v[(SIDE - PAIRS) * (b->width + 1) * b->channels];
            if (rank[i].gain > 1 && is_end(*v) && is_end(w)) continue;
            alike += fabs((double)w - *v) < seen;
            told++;
        }
    }
    return told ? (double)alike / (double)told : 0;
}

/* Noise makes pixels differ, whatever they show: on no picture does it leave more of them within sigma / 4 of each other than on a flat one (Anderson, 1955),
 * 0.14 and what rounding to whole numbers adds. In dense writing, whose edges are in every block, and in drawings half of them are: then the most noise that
 * leaves so many is the bound; none, where rounding would. Noise of colour that is spread over four pixels is half as strong in them as in low frequencies. */
static double bound_by_alike(const Blocks *b, Kind kind, const Rank *rank, int64_t count, double variance, bool *texture)
{
    const double spread = kind == LOW_ORDERS ? 2 : 1;
    double sigma = sqrt(variance) / spread, times = ALIKE;
    for (; sigma > 0 && share_alike(b, rank, count, sigma / 4) > times * (0.1403 + 0.2821 / sigma); times = 1) sigma *= 0.9;
    if (times > 1) return variance;
    *texture = true;
    return sigma < ROUNDING ? 0 : sigma * sigma * spread * spread;
}

/* The variance that a bin tells; *texture: it is no more than a bound, since its weakest blocks show more than noise. */
static double bin_variance(const Blocks *b, Kind kind, Rank *rank, int64_t count, bool *texture)
{
    int64_t chosen = (int64_t)(SHARE * (double)count);
    if (chosen < CHOSEN_MIN) chosen = count < CHOSEN_MIN ? count : CHOSEN_MIN;
    qsort(rank, (size_t)count, sizeof *rank, kind == LOW_ORDERS ? by_low : by_high);
    const double variance = measured_variance(b, kind, rank, chosen);
    double energy = 0;
    for (int64_t i = 0; i < chosen; i++) energy += rank[i].energy[kind] / (double)chosen;
    *texture = energy > TEXTURE * variance;
    return bound_by_alike(b, kind, rank, count, variance, texture);
}

/* Median over the bins that show noise, but no more than the median of all: texture may pass for noise in a bin or two. Where all show texture, each
 * is a bound, and the least is the best. */
static double over_bins(const Blocks *b, Kind kind, Rank *rank, int64_t usable, double *quiet, bool *noise)
{
    double all[BINS], tells[BINS];
    int64_t bins = usable / (4 * CHOSEN_MIN), count = 0;
    bins = bins < 1 ? 1 : bins > BINS ? BINS : bins;
    for (int64_t i = 0; i < bins; i++) {
        const int64_t first = i * usable / bins, past = (i + 1) * usable / bins;
        bool texture;
        all[i] = bin_variance(b, kind, rank + first, past - first, &texture);
        if (!texture) tells[count++] = all[i];
    }
    const double middle = median(all, bins), variance = count ? fmin(median(tells, count), middle) : all[0]; /* sorted */
    *quiet = sqrt(all[0]);
    *noise = count > 0;
    return fmin(sqrt(variance), SIGMA_MAX);
}

typedef struct Census {
    int64_t all, usable, constant, clipped;
} Census;

/* Blocks that are usable first, by brightness. clipped_too: those as well of which no more is clipped than noise about an end of the scale would have. */
static Census sort_blocks(const Blocks *b, Rank *rank, bool clipped_too)
{
    const int64_t count = b->rows * b->columns;
    int64_t usable = 0, constant = 0, clipped = 0;
#pragma omp parallel for num_threads(b->threads) schedule(static) reduction(+ : usable, constant, clipped)
    for (int64_t i = 0; i < count; i++) {
        const Look look = look_at(b, i);
        const bool use = look.sort == PLAIN || (clipped_too && look.sort == CLIPPED && look.ends <= ENDS_MAX);
        usable += use;
        constant += look.sort == CONSTANT;
        clipped += look.sort == CLIPPED;
        rank[i] = use ? rank_of(b, i, &look) : (Rank){ .mean = INFINITY, .block = (int32_t)i };
    }
    if (usable) qsort(rank, (size_t)count, sizeof *rank, by_mean);
    return (Census){ count, usable, constant, clipped };
}

/* What blocks that are clipped in part say too: noise, or else a bound on what was found without them. */
static double with_clipped(const Blocks *b, Rank *rank, double found)
{
    const Census n = sort_blocks(b, rank, true);
    bool noise = false;
    if (!n.usable) return found;
    double quiet;
    const double sigma = over_bins(b, HIGH_ORDERS, rank, n.usable, &quiet, &noise);
    return noise ? sigma : fmin(found, sigma < ROUNDING ? 0 : sigma);
}

/* found[kind], found[LOW_QUIET]: standard deviation; SAYS_NOTHING or IS_CONSTANT where too few blocks are a camera's. Where most are clipped, those that are not
 * may be edges and nothing else: then low frequencies are not believed, and where high ones show no noise, blocks that are clipped in part are asked. What is left of
 * noise there is known for a colour and not for mixtures, which are bounded by what their colours say. */
static void estimate(const Blocks *b, Rank *rank, double found[FOUND])
{
    const Census n = sort_blocks(b, rank, false);
    const bool drawn = (double)n.constant > DRAWN * (double)n.all, says = !drawn && (double)n.usable >= USABLE * (double)n.all && n.usable > 0;
    const bool few = n.clipped > n.usable;
    bool noise = false, unused;
    for (int i = 0; i < FOUND; i++) found[i] = drawn ? IS_CONSTANT : SAYS_NOTHING;
    if (says) found[HIGH_ORDERS] = over_bins(b, HIGH_ORDERS, rank, n.usable, found + LOW_QUIET, &noise);
    if (b->kinds == KINDS) found[LOW_ORDERS] = says && !few ? over_bins(b, LOW_ORDERS, rank, n.usable, found + LOW_QUIET, &unused) : found[HIGH_ORDERS];
    if (few && !drawn && !noise && !b->mixed) found[HIGH_ORDERS] = with_clipped(b, rank, found[HIGH_ORDERS]);
}

/* Small frames have no block: differences of neighbours serve. */
static double estimate_small(const float *frame, int64_t pixels, int64_t channels)
{
    double sum = 0;
    for (int64_t i = 1; i < pixels; i++) {
        const double e = frame[i * channels] - frame[(i - 1) * channels];
        sum += e * e / 2;
    }
    return sum > 0 ? fmin(sqrt(sum / (double)(pixels - 1)), SIGMA_MAX) : IS_CONSTANT;
}

/* As estimate_frame, for frames that have blocks. */
static SnlsStatus estimate_channels(SnlsContext *ctx, Blocks *b, const float *const *frame, const float *seen, double found[3][FOUND])
{
    snls_arena_begin(&ctx->arena);
    snls_arena_plan(&ctx->arena, b->rows * b->columns, sizeof(Rank));
    SNLS_TRY(snls_scratch_commit(ctx, "noise"));
    Rank *rank = snls_arena_claim(&ctx->arena, b->rows * b->columns, sizeof(Rank));
    for (int64_t c = 0; c < b->seen_channels; c++) {
        b->frame = frame[c];
        b->seen = seen;
        estimate(b, rank, found[c]);
    }
    return SNLS_OK;
}

typedef struct Shape {
    int64_t count, height, width, channels;
} Shape;

/* found[i]: the noise of channel i, which begins at frame[i] and has every step-th float; seen as in Blocks. */
static SnlsStatus estimate_frame(SnlsContext *ctx, const float *const *frame, int64_t step, const float *seen, Shape s, int kinds,
                                 double found[3][FOUND])
{
    Blocks b = { .channels = step, .mixed = frame[0] != seen, .seen_channels = s.channels, .width = s.width, .step = 1, .kinds = kinds, .threads = ctx->threads };
    if (s.height < SIDE || s.width < SIDE) {
        for (int64_t c = 0; c < s.channels; c++)
            for (int kind = 0; kind < kinds; kind++) found[c][kind] = estimate_small(frame[c], s.height * s.width, step);
        return SNLS_OK;
    }
    while ((s.height - SIDE) / b.step * ((s.width - SIDE) / b.step) > BLOCKS_MAX) b.step++;
    b.rows = (s.height - SIDE) / b.step + 1;
    b.columns = (s.width - SIDE) / b.step + 1;
    make_basis(b.basis);
    SnlsContext own, *host = snls_host_begin(ctx, &own);
    return snls_host_end(ctx, host, estimate_channels(host, &b, frame, seen, found));
}

static SnlsStatus guess_sigma(SnlsContext *ctx, const float *frame, Shape s, double sigma[3])
{
    double found[3][FOUND] = { { 0 } };
    SNLS_TRY(estimate_frame(ctx, (const float *[]){ frame, frame + 1, frame + 2 }, s.channels, frame, s, 1, found));
    for (int64_t c = 0; c < 3; c++) sigma[c] = found[c < s.channels ? c : 0][HIGH_ORDERS];
    return SNLS_OK;
}

/* Colour of 4:2:0 has one sample for four pixels: its noise has four times the variance in low frequencies and none in high ones.
 * The filter must go by the first; where both say the same, high ones say it more exactly, since low ones hold texture too. Texture is taken off, but
 * where high ones are silent noise up to that of brightness is believed: so much colour has from the same camera. */
static double noise_of_colour(double high, double low, double quiet, double brightness)
{
    if (high < 0 || low <= COLOURED * high) return high; /* < 0: SAYS_NOTHING, IS_CONSTANT */
    const double even = fmin(fmin(low, SPREAD * quiet), BRIGHT * fmax(high, brightness)); /* edges of strong colours are not */
    const double sure = sqrt(fmax(even * even - TEXTURED * TEXTURED, 0)), likely = low > HALVED * high ? fmin(low, brightness) : 0;
    return fmax(high, fmax(sure, likely));
}

/* The most noise that mixture c can have of colours that have so much, whether theirs is the same or not. What an estimate of the mixture has beyond
 * that are edges: where yellow text is on blue, they are strongest in it. SIGMA_MAX where a colour says nothing. */
static double most_of(const double sigma[3], int64_t c)
{
    static const double part[3][3] = { { 1, 1, 1 }, { 1, 0, 1 }, { 1, 2, 1 } }, norm[3] = { 3, 2, 6 };
    double sum = 0;
    for (int i = 0; i < 3; i++) {
        if (sigma[i] < 0) return SIGMA_MAX;
        sum += part[c][i] * sigma[i];
    }
    return fmin(APART * sum / sqrt(norm[c]), SIGMA_MAX);
}

/* Where a mixture says nothing but its colours do, it has their noise. */
static void fill_in(const NlbPlan *p, const double sigma[3], double noise[3])
{
    NlbGuess of_colours = { 0 };
    for (int c = 0; c < 3; c++) of_colours.sigma[c] = fmax(sigma[c], 0);
    snls_nlb_spread(p, &of_colours);
    for (int c = 0; c < 3; c++)
        if (noise[c] == SAYS_NOTHING && fmax(sigma[0], fmax(sigma[1], sigma[2])) >= 0) noise[c] = of_colours.noise[c];
}

/* sigma: what red, green and blue say. */
static SnlsStatus guess_noise(SnlsContext *ctx, const NlbPlan *p, const float *planes, const float *frame, const double sigma[3], double noise[3])
{
    const float *channel[3] = { planes, planes + p->plane, planes + 2 * p->plane };
    const Shape s = { 1, p->height, p->width, p->channels };
    double found[3][FOUND] = { { 0 } };
    SNLS_TRY(estimate_frame(ctx, channel, 1, frame, s, p->channels == 3 ? KINDS : 1, found));
    for (int64_t c = 0; c < 3; c++) noise[c] = found[c < p->channels ? c : 0][HIGH_ORDERS];
    for (int64_t c = 0; c < p->channels && p->channels == 3; c++) noise[c] = fmin(noise[c], most_of(sigma, c));
    for (int64_t c = 1; c < p->channels; c++) noise[c] = noise_of_colour(noise[c], found[c][LOW_ORDERS], found[c][LOW_QUIET], noise[0]);
    fill_in(p, sigma, noise);
    return SNLS_OK;
}

SnlsStatus snls_nlb_guess(SnlsContext *ctx, const NlbPlan *p, const float *planes, const float *frame, NlbGuess *guess)
{
    SNLS_TRY(guess_sigma(ctx, frame, (Shape){ 1, p->height, p->width, p->channels }, guess->sigma));
    memcpy(guess->noise, guess->sigma, sizeof guess->noise); /* the only channel is filtered as it is */
    return p->channels == 1 ? SNLS_OK : guess_noise(ctx, p, planes, frame, guess->sigma, guess->noise);
}

double snls_nlb_median(const double *guess, int64_t count, int64_t stride, double *room)
{
    int64_t said = 0;
    for (int64_t i = 0; i < count; i++)
        if (guess[i * stride] >= 0) room[said++] = guess[i * stride];
    return said ? median(room, said) : 0;
}

enum { ROOM = 4 * sizeof(double) }; /* bytes of estimates for each frame; a pixel of a frame takes less */

static SnlsStatus check_frames(SnlsContext *ctx, const char *who, const float *frames, Shape s, const double *result)
{
    SNLS_REQUIRE(ctx, frames && result, SNLS_ERR_ARG, "%s: a pointer is missing (NULL)", who);
    SNLS_REQUIRE(ctx, s.count >= 1 && s.height >= 1 && s.width >= 1 && (s.channels == 1 || s.channels == 3), SNLS_ERR_SHAPE,
                 "%s: %lld frames of %lld x %lld pixels and %lld channels, must be 1 or more, 1 or 3 channels", who, (long long)s.count, (long long)s.width,
                 (long long)s.height, (long long)s.channels);
    int64_t bytes = s.height;
    const bool sized = snls_mul_size(bytes, s.width, &bytes) && snls_mul_size(bytes, s.channels, &bytes) && snls_mul_size(bytes, s.count, &bytes) && snls_mul_size(bytes, ROOM, &bytes);
    SNLS_REQUIRE(ctx, sized, SNLS_ERR_SHAPE, "%s: %lld frames of %lld x %lld pixels are more than memory can hold", who, (long long)s.count, (long long)s.width, (long long)s.height);
    return SNLS_OK;
}

/* What a frame says of red, green and blue, or (planes: room for a frame) of the channels that are filtered. */
static SnlsStatus guess_frame(SnlsContext *ctx, const NlbPlan *p, const float *frame, float *planes, double guess[3])
{
    const Shape s = { 1, p->height, p->width, p->channels };
    SNLS_REQUIRE(ctx, snls_all_up_to(frame, p->plane * p->channels, NLB_LARGEST), SNLS_ERR_ARG, "noise: a frame holds a value that is not finite or beyond %g", (double)NLB_LARGEST);
    double sigma[3];
    SNLS_TRY(guess_sigma(ctx, frame, s, sigma));
    memcpy(guess, sigma, sizeof sigma);
    if (!planes) return SNLS_OK;
    snls_nlb_load(p, planes, frame);
    return guess_noise(ctx, p, planes, frame, sigma, guess);
}

/* Medians over the frames. */
static SnlsStatus over_frames(SnlsContext *ctx, const float *frames, Shape s, float *planes, double result[3])
{
    const NlbPlan p = { .height = s.height, .width = s.width, .channels = s.channels, .plane = s.height * s.width };
    double *guess = snls_mem_alloc(&ctx->allocator, s.count * (int64_t)ROOM), *room = guess + 3 * s.count;
    SnlsStatus status = SNLS_OK;
    SNLS_REQUIRE(ctx, guess, SNLS_ERR_MEMORY, "noise: out of memory for the estimates of %lld frames", (long long)s.count);
    for (int64_t t = 0; t < s.count && status >= 0; t++) status = guess_frame(ctx, &p, frames + t * p.plane * p.channels, planes, guess + 3 * t);
    for (int c = 0; c < 3 && status >= 0; c++) result[c] = snls_nlb_median(guess + c, s.count, 3, room);
    snls_mem_free(&ctx->allocator, guess);
    return status;
}

SnlsStatus snls_noise_estimate(SnlsContext *ctx, const float *frames, int64_t count, int64_t height, int64_t width,
                               int64_t channels, double sigma[3])
{
    const Shape s = { count, height, width, channels };
    if (!ctx) return SNLS_ERR_ARG;
    SNLS_TRY(check_frames(ctx, "noise_estimate", frames, s, sigma));
    return over_frames(ctx, frames, s, NULL, sigma);
}

SnlsStatus snls_noise_level(SnlsContext *ctx, const float *frames, int64_t count, int64_t height, int64_t width,
                            int64_t channels, double *level)
{
    const Shape s = { count, height, width, channels };
    double noise[3] = { 0 };
    float *planes = NULL;
    if (!ctx) return SNLS_ERR_ARG;
    SNLS_TRY(check_frames(ctx, "noise_level", frames, s, level));
    if (channels == 3) {
        planes = snls_mem_alloc(&ctx->allocator, 3 * height * width * (int64_t)sizeof *planes);
        SNLS_REQUIRE(ctx, planes, SNLS_ERR_MEMORY, "noise_level: out of memory for a frame");
    }
    const SnlsStatus status = over_frames(ctx, frames, s, planes, noise);
    snls_mem_free(&ctx->allocator, planes);
    if (status >= 0) *level = fmax(noise[0], fmax(noise[1], noise[2]));
    return status;
}
