/* dis_still.c: where dense inverse search leaves patches at rest. Noise has a best fit too: where there is no texture, on a
 * wall, in the sky, on any slope of brightness (patches are compared without their means), a patch finds one somewhere, its
 * neighbours take it over, and finer levels begin there, so that what does not move drifts by as much as a coarse patch is
 * large. So, level by level, blocks are asked how they fit where they are and how much better where they were found to go.
 * Where noise explains both, here and at every coarser level, patches stay. Motion of what has texture gains hundreds of
 * times the variance of the noise at some level, since noise halves from level to level: nothing changes there. */
#include "flow/methods.h"
#include <math.h>

enum { SIDE = SNLS_DIS_SIDE, AREA = SIDE * SIDE };

/* What noise does not explain, in variances of it; above nearly all that was seen on gradients with nothing but noise. No block
 * counts in a mean for more than MOST_GAIN, MOST_LIGHT or REST_OWN, so that a few that move do not decide for those around. */
#define GAIN_OWN 90.0F /* squared difference of 64 pixels: by how much it is less where the block was found to go */
#define GAIN_3X3 30.0F
#define GAIN_5X5 20.0F
#define MOST_GAIN 60.0F
#define REST_OWN 2.0F /* half of the squared difference of a pixel at rest, means taken off: noise has 1 */
#define REST_5X5 1.25F
#define LIGHT_OWN 16.0F /* half of the squared difference of the means at rest, times 64: noise has 1 */
#define LIGHT_5X5 2.2F
#define MOST_LIGHT 9.0F

void snls_still_take(SnlsFlowJob *job, SnlsStill *s, int32_t stride, int64_t rows, int64_t columns)
{
    SnlsPlane *const planes[] = { &s->gain, &s->rest, &s->light, &s->moves[0], &s->moves[1] };
    s->every = SIDE / stride;
    for (size_t i = 0; i < sizeof planes / sizeof *planes; i++)
        *planes[i] = snls_flow_plane(job, (rows + s->every - 1) / s->every, (columns + s->every - 1) / s->every);
}

/* ---- how strong the noise is ---- */

/* What a block has of the highest frequencies, as a variance of white noise (J. Immerkaer, 1996). */
static float roughness(const SnlsPlane *from, int64_t y, int64_t x)
{
    float lane[SIDE] = { 0 }, sum = 0;
    for (int r = 0; r < SIDE; r++) {
        const float *row = from->data + (y + r) * from->stride + x, *a = row - from->stride, *b = row + from->stride;
        for (int c = 0; c < SIDE; c++) {
            const float e = a[c - 1] + a[c + 1] + b[c - 1] + b[c + 1] - 2 * (a[c] + b[c] + row[c - 1] + row[c + 1]) + 4 * row[c];
            lane[c] += e * e;
        }
    }
    for (int c = 0; c < SIDE; c++) sum += lane[c];
    return sum / (36 * AREA);
}

/* A value that a tenth of the plane does not exceed, to one part in 2^20 of the largest: halving needs no memory. */
static float lowest_tenth(const SnlsPlane *p)
{
    const int64_t count = p->height * p->width;
    float low = 0, high = 0;
    for (int64_t i = 0; i < count; i++) high = p->data[i] > high ? p->data[i] : high;
    for (int turn = 0; turn < 20; turn++) {
        const float middle = 0.5f * (low + high);
        int64_t below = 0;
        for (int64_t i = 0; i < count; i++) below += p->data[i] <= middle;
        *(10 * below >= count ? &high : &low) = middle;
    }
    return high;
}

/* By the smoothest tenth of the blocks, of which the roughest has 0.63 of the mean where there is nothing but noise. */
void snls_still_begin(const SnlsFlowJob *job, SnlsDis *d)
{
    const SnlsPlane *from = &d->level[d->finest].from, *rough = &d->still.gain;
    const int32_t stride = d->params.stride, every = d->still.every;
#pragma omp parallel for num_threads(job->threads) schedule(static)
    for (int64_t i = 0; i < rough->height; i++)
        for (int64_t j = 0; j < rough->width; j++)
            snls_plane_row(rough, i)[j] = roughness(from, snls_dis_patch_at(i * every, from->height, stride),
                                                    snls_dis_patch_at(j * every, from->width, stride));
    d->still.noise = lowest_tenth(rough) / 0.63f;
}

/* ---- what blocks say ---- */

typedef struct Level {
    const SnlsFlowJob *job;
    const SnlsDis *d;
    const SnlsDisLevel *frames;
    const SnlsPlane *patch;      /* SNLS_DIS_FOUND planes */
    SnlsPlane gain, rest, light; /* of blocks, each of them a patch */
    float noise;
} Level;

static float median9(float *v)
{
    for (int i = 1; i < 9; i++)
        for (int j = i; j > 0 && v[j - 1] > v[j]; j--) {
            const float swap = v[j];
            v[j] = v[j - 1];
            v[j - 1] = swap;
        }
    return v[4];
}

/* What a patch found is fitted to its own noise; what nine patches found has little of it. */
static void motion_around(const Level *l, int64_t i, int64_t j, float *motion)
{
    const int64_t step = l->d->still.every > 1 ? l->d->still.every / 2 : 1;
    float found[2][9];
    for (int k = 0; k < 9; k++) {
        const int64_t y = snls_clamp_index(i + (k / 3 - 1) * step, l->patch->height),
                      x = snls_clamp_index(j + (k % 3 - 1) * step, l->patch->width);
        for (int c = 0; c < 2; c++) found[c][k] = snls_plane_row(&l->patch[c], y)[x];
    }
    for (int c = 0; c < 2; c++) motion[c] = median9(found[c]);
}

/* Squared difference of patch (i, j) moved by (u, v), means taken off, and the difference of the means. Between pixels noise
 * is smoothed; what it lacks there is added. */
static float misfit(const Level *l, int64_t i, int64_t j, float u, float v, float *light)
{
    const SnlsDisLevel *e = l->frames;
    const int64_t y = snls_dis_patch_at(i, e->from.height, l->d->params.stride),
                  x = snls_dis_patch_at(j, e->from.width, l->d->params.stride);
    float weight[4], sums[4], shape[AREA], squares = 0;
    const float *image = snls_dis_place(&e->to, y, x, u, v, weight);
    for (int k = 0; k < AREA; k++) shape[k] = e->from.data[(y + k / SIDE) * e->from.stride + x + k % SIDE];
    l->job->loops.patch(sums, image, e->to.stride, weight, shape, shape, shape);
    for (int k = 0; k < 4; k++) squares += weight[k] * weight[k];
    *light = sums[2] / AREA;
    return sums[3] - sums[2] * sums[2] / AREA + l->noise * (AREA - 1) * (1 - squares);
}

static void ask_block(const Level *l, int64_t i, int64_t j)
{
    const int64_t every = l->d->still.every, at = i * l->gain.stride + j;
    float motion[2], light;
    motion_around(l, i * every, j * every, motion);
    const float found = misfit(l, i * every, j * every, motion[0], motion[1], &light),
                rest = misfit(l, i * every, j * every, 0, 0, &light);
    l->gain.data[at] = rest - found;
    l->rest.data[at] = rest / (2 * (AREA - 1));
    l->light.data[at] = light * light * AREA / 2;
}

/* Mean over the blocks around, none of which counts for more than most. */
static float mean_around(const SnlsPlane *p, int64_t i, int64_t j, int64_t reach, float most)
{
    float sum = 0, count = 0;
    for (int64_t y = i - reach; y <= i + reach; y++)
        for (int64_t x = j - reach; x <= j + reach; x++) {
            if (y < 0 || y >= p->height || x < 0 || x >= p->width) continue;
            const float value = snls_plane_row(p, y)[x];
            sum += value > most ? most : value < -most ? -most : value;
            count++;
        }
    return sum / count;
}

static bool block_moves(const Level *l, int64_t i, int64_t j)
{
    const float noise = l->noise;
    return snls_plane_row(&l->rest, i)[j] > REST_OWN * noise || snls_plane_row(&l->light, i)[j] > LIGHT_OWN * noise ||
           snls_plane_row(&l->gain, i)[j] > GAIN_OWN * noise ||
           mean_around(&l->gain, i, j, 1, MOST_GAIN * noise) > GAIN_3X3 * noise ||
           mean_around(&l->gain, i, j, 2, MOST_GAIN * noise) > GAIN_5X5 * noise ||
           mean_around(&l->rest, i, j, 2, REST_OWN * noise) > REST_5X5 * noise ||
           mean_around(&l->light, i, j, 2, MOST_LIGHT * noise) > LIGHT_5X5 * noise;
}

/* ---- what follows ---- */

/* moves: 1 where a block moves at this level or at a coarser one, whose moves are given but for the coarsest. */
static void find_moves(const Level *l, const SnlsPlane *moves, const SnlsPlane *coarse)
{
#pragma omp parallel for num_threads(l->job->threads) schedule(static)
    for (int64_t i = 0; i < moves->height; i++)
        for (int64_t j = 0; j < moves->width; j++)
            snls_plane_row(moves, i)[j] = (coarse && snls_plane_row(coarse, snls_clamp_index(i / 2, coarse->height))
                                                                    [snls_clamp_index(j / 2, coarse->width)] > 0) ||
                                          block_moves(l, i, j);
}

/* A patch between blocks stays where all of them do. */
static bool patch_stays(const Level *l, const SnlsPlane *moves, int64_t i, int64_t j)
{
    const int64_t every = l->d->still.every;
    for (int64_t y = i / every; y <= (i + every - 1) / every && y < moves->height; y++)
        for (int64_t x = j / every; x <= (j + every - 1) / every && x < moves->width; x++)
            if (snls_plane_row(moves, y)[x] > 0) return false;
    return true;
}

static void hold_row(const Level *l, const SnlsPlane *moves, int64_t i)
{
    for (int64_t j = 0; j < l->patch->width; j++) {
        if (!patch_stays(l, moves, i, j)) continue;
        const int64_t at = i * l->patch->stride + j;
        l->patch[0].data[at] = l->patch[1].data[at] = 0;
        l->patch[2].data[at] = misfit(l, i, j, 0, 0, &l->patch[3].data[at]);
    }
}

void snls_still_hold(const SnlsFlowJob *job, SnlsDis *d, int32_t level, const SnlsPlane *patch)
{
    SnlsStill *s = &d->still;
    const int64_t rows = (patch->height + s->every - 1) / s->every, columns = (patch->width + s->every - 1) / s->every;
    const Level l = { .job = job, .d = d, .frames = &d->level[level], .patch = patch,
                      .gain = snls_plane_as(s->gain, rows, columns), .rest = snls_plane_as(s->rest, rows, columns),
                      .light = snls_plane_as(s->light, rows, columns),
                      .noise = ldexpf(s->noise, -2 * (level - d->finest)) };
    SnlsPlane *moves = &s->moves[level % 2];
    if (!(s->noise > 0)) return;
    *moves = snls_plane_as(*moves, rows, columns);
#pragma omp parallel for num_threads(job->threads) schedule(static)
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) ask_block(&l, i, j);
    find_moves(&l, moves, level < d->coarsest ? &s->moves[1 - level % 2] : NULL);
#pragma omp parallel for num_threads(job->threads) schedule(static)
    for (int64_t i = 0; i < patch->height; i++) hold_row(&l, moves, i);
}
