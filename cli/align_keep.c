/* align_keep.c: KEEP: places that need no search, the pixel's own and the flow's target, are left only for one that fits better by more than
 * noise explains. Costs are distances less what noise adds to them on average, so that 0 is a perfect match. Three things that follow from
 * the noise are put right:
 *   - A place between pixels averages the noise of up to four of them: its distance is smaller even where it fits worse.
 *   - Which of the two kept places is right is a matter of the neighbourhood (whether it moves), and one patch is a noisy judge of it:
 *     the one that fits worse there has half of the difference added.
 *   - The best of ws*ws noisy distances is small by chance alone, so a searched place pays a fee: margin standard deviations of a distance where
 *     the kept places fit, and less, down to one, where they do not fit the neighbourhood: then chance is not what a search is better by. */
#include "align.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { REACH = 4 }; /* queries on either side that make a neighbourhood */
static const double LEAST_FEE = 1, FEE_SLOPE = 2, TRUST = 0.5;

typedef struct Costs { double *own, *flow, *around_own, *around_flow, *misfit, *scratch; } Costs; /* each of all queries */

/* Variance that reading between pixels leaves of the noise: the squared bilinear weights. */
static double kept_noise(const float *offset)
{
    const double fy = offset[1] - floor(offset[1]), fx = offset[2] - floor(offset[2]);
    return ((1 - fy) * (1 - fy) + fy * fy) * ((1 - fx) * (1 - fx) + fx * fx);
}

static double values(const Align *a) { return (double)a->params.ps * a->params.ps * (double)a->clean.shape[3]; }

static double cost(const Align *a, AlignWay way, int64_t i)
{
    const float *offset = (const float *)a->offset[way].data + 3 * i;
    const double noise = a->params.noise * a->params.noise * values(a);
    return ((const float *)a->dist[way].data)[i] - noise * (1 + kept_noise(offset));
}

/* Means over up to 2*REACH+1 numbers along lines: line l begins at l*line, its numbers are step apart. */
static void smooth(const double *from, double *to, int64_t lines, int64_t line, int64_t count, int64_t step)
{
    for (int64_t l = 0; l < lines; l++)
        for (int64_t i = 0; i < count; i++) {
            const int64_t first = i < REACH ? 0 : i - REACH, last = i + REACH < count ? i + REACH : count - 1;
            double sum = 0;
            for (int64_t j = first; j <= last; j++) sum += from[l * line + j * step];
            to[l * line + i * step] = sum / (double)(last - first + 1);
        }
}

static void smooth_both(const Align *a, const double *from, double *to, double *scratch)
{
    const int64_t rows = a->dist[ALIGN_KEEP].shape[3], columns = a->dist[ALIGN_KEEP].shape[4];
    smooth(from, scratch, rows, columns, columns, 1);
    smooth(scratch, to, columns, 1, rows, columns);
}

static void judge_kept(const Align *a, const Costs *c, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        c->own[i] = cost(a, ALIGN_KEEP, i);
        c->flow[i] = cost(a, ALIGN_FLOW, i);
        c->misfit[i] = fmin(c->own[i], c->flow[i]);
    }
    smooth_both(a, c->own, c->around_own, c->scratch);
    smooth_both(a, c->flow, c->around_flow, c->scratch);
    smooth_both(a, c->misfit, c->misfit, c->scratch);
    for (int64_t i = 0; i < count; i++) {
        const double worse = c->around_own[i] - c->around_flow[i];
        c->own[i] += TRUST * fmax(0, worse);
        c->flow[i] += TRUST * fmax(0, -worse);
    }
}

/* The best place of query i; KEEP stands for the pixel's own. */
static AlignWay best_of(const Align *a, const Costs *c, int64_t i, double deviation)
{
    const double most = a->params.margin, least = fmin(LEAST_FEE, most);
    const double fee = deviation > 0 ? deviation * fmax(least, fmin(most, most - FEE_SLOPE * c->misfit[i] / deviation)) : 0;
    const double searched[2] = { cost(a, ALIGN_NLS, i) + fee, cost(a, ALIGN_SEARCH, i) + fee };
    AlignWay best = c->flow[i] < c->own[i] ? ALIGN_FLOW : ALIGN_KEEP;
    double least_cost = fmin(c->flow[i], c->own[i]);
    for (int k = 0; k < 2; k++)
        if (searched[k] < least_cost) least_cost = searched[k], best = k ? ALIGN_SEARCH : ALIGN_NLS;
    return best;
}

/* dist and offset of KEEP hold the pixel's own place before, and what is chosen after. */
int align_keep(Align *a)
{
    const int64_t count = snls_tensor_elements(&a->dist[ALIGN_KEEP]);
    const double deviation = 2 * a->params.noise * a->params.noise * sqrt(2 * values(a)); /* patches that match: 2 sigma^2 chi^2(n) */
    double *memory = calloc((size_t)(6 * count), sizeof *memory), own = 0;
    if (!memory) return fail(EXIT_MEMORY, "out of memory");
    const Costs c = { memory, memory + count, memory + 2 * count, memory + 3 * count, memory + 4 * count, memory + 5 * count };
    judge_kept(a, &c, count);
    for (int64_t i = 0; i < count; i++) {
        const AlignWay best = best_of(a, &c, i, deviation);
        float *offset = (float *)a->offset[ALIGN_KEEP].data + 3 * i;
        if (best != ALIGN_KEEP) memcpy(offset, (const float *)a->offset[best].data + 3 * i, 3 * sizeof *offset);
        own += best == ALIGN_KEEP;
    }
    a->share_own = own / (double)count;
    free(memory);
    return EXIT_DONE;
}
