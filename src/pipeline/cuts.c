/* cuts.c: a frame begins a new scene where two things change at once: what is seen where (means over cells, against what
 * is usual in this scene) and which colours there are (histograms of the cells). Motion changes the first and hardly the
 * second; noise is averaged away in the cells. A missed cut costs little, since patches are chosen by likeness; a false
 * one costs the temporal neighbours of two frames. Fades and flicker change both, but not the pattern, so that is asked
 * too. Dark scenes are stretched first, since all their changes are small. */
#include "pipeline/cuts.h"
#include <math.h>
#include <string.h>

#define DIFFERENCE 10.0f  /* mean change of a cell, of 255, that a cut has at least */
#define TIMES      1.8f   /* and this many times what is usual in the frames before */
#define COLOURS    0.14f  /* share of the cells that change their place in the histogram, of many */
#define FEW        0.8f   /* of few cells more do by motion alone: by this times 1/sqrt of their number */
#define RANGE      150.0f /* frames whose cells are nearer to each other than this are stretched */
#define STRETCH    12.0f  /* at most by this */
#define ALIKE      0.95f  /* correlation of the cells of two frames: one scene in another light */
#define ALIKE_FLAT 0.7f   /* the same of frames that are stretched */

static float cell_mean(const SnlsSmall *s, const float *pixels, int64_t height, int64_t width, int32_t channels,
                       int cell, int32_t c)
{
    const int64_t row = cell / s->columns, column = cell % s->columns;
    const int64_t y0 = row * height / s->rows, x0 = column * width / s->columns;
    const int64_t y1 = (row + 1) * height / s->rows, x1 = (column + 1) * width / s->columns;
    int64_t count = 0;
    const int64_t step = y1 - y0 > 16 ? (y1 - y0) / 8 : 1; /* eight rows and more average noise well enough */
    double sum = 0;
    for (int64_t y = y0; y < y1; y += step, count += x1 - x0)
        for (int64_t x = x0; x < x1; x++) sum += pixels[(y * width + x) * channels + c];
    return (float)(sum / (double)count);
}

static int cells_along(int64_t pixels, int most)
{
    const int64_t cells = pixels / SNLS_CUT_CELL;
    return cells < 1 ? 1 : cells < most ? (int)cells : most;
}

static void shrink(SnlsSmall *s, const float *pixels, int64_t height, int64_t width, int32_t channels)
{
    memset(s, 0, sizeof *s);
    s->rows = cells_along(height, SNLS_CUT_ROWS);
    s->columns = cells_along(width, SNLS_CUT_COLUMNS);
    const int cells = s->rows * s->columns;
    for (int i = 0; i < cells; i++)
        for (int32_t c = 0; c < channels; c++) {
            const float mean = cell_mean(s, pixels, height, width, channels, i, c);
            s->cell[i][c] = mean;
            s->low = i + c && s->low < mean ? s->low : mean;
            s->high = i + c && s->high > mean ? s->high : mean;
        }
}

/* What is taken off two frames, and what they are multiplied with then. */
typedef struct Stretch { float low, times; } Stretch;

static Stretch stretch_of(const SnlsSmall *a, const SnlsSmall *b)
{
    const float low = a->low < b->low ? a->low : b->low, range = (a->high > b->high ? a->high : b->high) - low;
    if (!(range < RANGE)) return (Stretch){ 0, 1 };
    return (Stretch){ low, range * STRETCH > RANGE ? RANGE / range : STRETCH };
}

/* Mean |change| of the cells, by more than light. */
static float difference(const SnlsSmall *a, const SnlsSmall *b, int32_t channels, float light)
{
    double sum = 0;
    const int cells = a->rows * a->columns;
    for (int i = 0; i < cells; i++)
        for (int32_t c = 0; c < channels; c++) sum += fabsf(b->cell[i][c] - a->cell[i][c] - light);
    return (float)(sum / cells / channels);
}

/* The same without what all cells have in common. */
static float difference_beside_light(const SnlsSmall *a, const SnlsSmall *b, int32_t channels)
{
    const int cells = a->rows * a->columns;
    double sum = 0;
    for (int i = 0; i < cells; i++)
        for (int32_t c = 0; c < channels; c++) sum += b->cell[i][c] - a->cell[i][c];
    const float light = (float)(sum / cells / channels);
    return difference(a, b, channels, light);
}

typedef struct Shares { float of[3][SNLS_CUT_BINS]; } Shares; /* of the cells by brightness, of each channel */

static Shares shares(const SnlsSmall *s, const Stretch *stretch, int32_t channels)
{
    Shares share = { 0 };
    const int cells = s->rows * s->columns;
    for (int i = 0; i < cells; i++)
        for (int32_t c = 0; c < channels; c++) {
            const float at = (s->cell[i][c] - stretch->low) * stretch->times * SNLS_CUT_BINS / 256;
            const int bin = at > 0 ? (at < SNLS_CUT_BINS - 1 ? (int)at : SNLS_CUT_BINS - 1) : 0;
            share.of[c][bin] += 1.0f / (float)cells;
        }
    return share;
}

/* Whether brighter cells of one are brighter cells of the other: a frame is alike to itself in another light. */
static bool alike(const SnlsSmall *a, const SnlsSmall *b, int32_t channels, float least)
{
    const int cells = a->rows * a->columns;
    double mean_a = 0, mean_b = 0, ab = 0, aa = 0, bb = 0;
    for (int i = 0; i < cells; i++)
        for (int32_t c = 0; c < channels; c++) mean_a += a->cell[i][c] / (cells * channels), mean_b += b->cell[i][c] / (cells * channels);
    for (int i = 0; i < cells; i++)
        for (int32_t c = 0; c < channels; c++) {
            const double x = a->cell[i][c] - mean_a, y = b->cell[i][c] - mean_b;
            ab += x * y, aa += x * x, bb += y * y;
        }
    return ab > least * sqrt(aa * bb);
}

/* Half the sum of |differences| of the histograms, with bins pooled in twos at either offset: whichever is smaller, so
 * that cells on the edge of a bin do not count. */
static float colours(const Shares *a, const Shares *b, int32_t channels)
{
    float least = 1;
    for (int offset = 0; offset < 2; offset++) {
        float sum = 0;
        for (int32_t c = 0; c < channels; c++)
            for (int i = -offset; i < SNLS_CUT_BINS; i += 2) {
                const float low = i < 0 ? 0 : a->of[c][i] - b->of[c][i];
                const float high = i + 1 < SNLS_CUT_BINS ? a->of[c][i + 1] - b->of[c][i + 1] : 0;
                sum += fabsf(low + high);
            }
        sum *= 0.5f / (float)channels;
        if (sum < least) least = sum;
    }
    return least;
}

/* The second largest of the last changes: one flash is not usual. */
static float usual_change(const SnlsCuts *cuts)
{
    float first = 0, second = 0;
    for (int i = 0; i < SNLS_CUT_HISTORY; i++) {
        const float d = cuts->recent[i];
        second = d > first ? first : d > second ? d : second;
        first = d > first ? d : first;
    }
    return cuts->frames > 2 ? second : first;
}

static float least_colours(const SnlsSmall *s)
{
    return COLOURS + FEW * (1 / sqrtf((float)(s->rows * s->columns)) - 1 / sqrtf(SNLS_CUT_ROWS * SNLS_CUT_COLUMNS));
}

/* Stretched noise has no pattern either, so flicker must not decide: what changes beside the light is more than usual, and neither frame is of one value, from which
 * anything fades in. */
static bool differs_flat(const SnlsCuts *cuts, const SnlsSmall *now, int32_t channels)
{
    return difference_beside_light(&cuts->last, now, channels) > TIMES * usual_change(cuts) && cuts->last.high > cuts->last.low && now->high > now->low;
}

/* Between the first two frames of a scene nothing is known of what is usual. */
static bool begins_scene(const SnlsCuts *cuts, const SnlsSmall *now, float d, int32_t channels)
{
    const Stretch stretch = stretch_of(&cuts->last, now);
    const bool changes = cuts->frames > 1 ? d * stretch.times > DIFFERENCE && d > TIMES * usual_change(cuts) : d > 2 * DIFFERENCE;
    if (!changes) return false; /* nor where pixels are no numbers */
    if (stretch.times > 1 && !differs_flat(cuts, now, channels)) return false;
    const Shares before = shares(&cuts->last, &stretch, channels), after = shares(now, &stretch, channels);
    return colours(&before, &after, channels) > least_colours(now) && !alike(&cuts->last, now, channels, stretch.times > 1 ? ALIKE_FLAT : ALIKE);
}

bool snls_cuts_next(SnlsCuts *cuts, const float *pixels, int64_t height, int64_t width, int32_t channels)
{
    SnlsSmall now;
    shrink(&now, pixels, height, width, channels);
    bool cut = false;
    if (cuts->frames) {
        const float d = difference(&cuts->last, &now, channels, 0);
        cut = begins_scene(cuts, &now, d, channels);
        if (cut) *cuts = (SnlsCuts){ 0 };
        else cuts->recent[cuts->frames % SNLS_CUT_HISTORY] = d;
    }
    cuts->last = now;
    cuts->frames++;
    return cut;
}
