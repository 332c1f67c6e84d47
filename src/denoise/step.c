/* step.c: one step for the references of one frame. References lie on a grid that is worked through tile by tile, so that what is
 * looked at stays in caches, or in memory at all; a tile in 4 x 4 classes, far apart within a class; what an earlier class
 * (or an earlier tile or frame) had in its groups need not be a reference again. A class goes in batches: groups are matched and filtered in parallel, then added up in their order by owners of frames and channels,
 * so that neither the number of threads nor the size of a batch shows in the result. */
#include "base/blas.h"
#include "denoise/nlb.h"
#include <string.h>

enum { CLASSES = 4, TILE = 256 }; /* TILE: pixels */

#ifdef _OPENMP
#    include <omp.h>
static int thread_number(void) { return omp_get_thread_num(); }
#else
static int thread_number(void) { return 0; }
#endif

static int64_t position(int64_t cell, int64_t stride, int64_t last)
{
    return cell * stride < last ? cell * stride : last;
}

/* Halves of patches by the frame they lie in, in the order of groups: places begins[f] .. begins[f + 1] of d->half. */
static void sort_halves(SnlsDenoiser *d, int64_t groups, int64_t frames, int64_t *begins)
{
    int64_t count[SPAN_MAX + 1] = { 0 };
    for (int64_t i = 0; i < groups; i++)
        for (int64_t j = 0; j < d->group[i].count * d->depth; j++)
            count[d->group[i].patch[j / d->depth].frame[j % d->depth]]++;
    begins[0] = 0;
    for (int64_t f = 0; f < frames; f++) begins[f + 1] = begins[f] + count[f];
    for (int64_t f = 0; f < frames; f++) count[f] = begins[f];
    for (int64_t i = 0; i < groups; i++)
        for (int64_t j = 0; j < d->group[i].count * d->depth; j++)
            d->half[count[d->group[i].patch[j / d->depth].frame[j % d->depth]]++] = (NlbHalf){ (int32_t)i, (int32_t)j };
}

/* The halves over each pixel of one frame: the sum of their values in one channel. */
static void add_up(SnlsDenoiser *d, int step, const NlbFrame *f, const NlbHalf *half, int64_t halves, int64_t channel)
{
    const NlbPlan *p = &d->plan;
    const int64_t area = p->side * p->side;
    float *plane = f->sum[step] + channel * p->plane;
    for (int64_t i = 0; i < halves; i++) {
        const NlbGroup *g = &d->group[half[i].group];
        const int64_t j = half[i].half;
        d->loops.add(plane + g->patch[j / d->depth].at[j % d->depth], p->width,
                     g->value + (channel * g->count * d->depth + j) * area, p->side);
    }
}

/* How many halves have their corner on each pixel of one frame: what lies over a pixel is the sum of those, once for all. */
static void count_corners(SnlsDenoiser *d, int step, const NlbFrame *f, const NlbHalf *half, int64_t halves)
{
    for (int64_t i = 0; i < halves; i++) {
        const int64_t j = half[i].half;
        f->corners[step][d->group[half[i].group].patch[j / d->depth].at[j % d->depth]]++;
    }
}

/* Is a patch that lies off by so much as good as the reference of this cell? By a pixel, where two neighbours that lie apart still
 * touch, and not at the border, whose pixels have no other patch. */
static bool near(int64_t off, int64_t cell, int64_t cells, int64_t gap)
{
    return off == 0 || (gap >= 2 && cell > 0 && cell < cells - 1 && off >= -1 && off <= 1);
}

/* References that the group has patches of, or almost, are done with; with reuse 2 also those under its patches' second halves. */
static void mark(SnlsDenoiser *d, int step, int64_t first, const NlbGroup *g)
{
    const NlbPlan *p = &d->plan;
    const NlbStep *s = &p->step[step];
    const int64_t parts = s->reuse < d->depth ? s->reuse : d->depth;
    for (int64_t i = 0; i < g->count * parts; i++) {
        const NlbPatch *patch = &g->patch[i / parts];
        const int64_t part = i % parts, y = patch->at[part] / p->width, x = patch->at[part] % p->width;
        const int64_t r = snls_nlb_clamp((y + s->stride / 2) / s->stride, 0, s->rows - 1),
                      c = snls_nlb_clamp((x + s->stride / 2) / s->stride, 0, s->columns - 1);
        const int64_t dy = y - position(r, s->stride, p->height - p->side),
                      dx = x - position(c, s->stride, p->width - p->side);
        if (near(dy, r, s->rows, p->side - s->stride) && near(dx, c, s->columns, p->side - s->stride))
            snls_nlb_frame(d, first + patch->frame[part])->used[step][r * s->columns + c] = 1;
    }
}

static void mark_all(SnlsDenoiser *d, int step, int64_t first, int64_t groups)
{
    for (int64_t i = 0; d->plan.step[step].reuse && i < groups; i++) mark(d, step, first, &d->group[i]);
}

static void run_batch(SnlsDenoiser *d, int step, const int64_t *cell, int64_t groups, int64_t t)
{
    const NlbPlan *p = &d->plan;
    const NlbStep *s = &p->step[step];
    int64_t first, begins[SPAN_MAX + 2];
    const int64_t frames = snls_nlb_span(d, t, &first) + 1, owners = frames * (p->channels + 1);
#pragma omp parallel for num_threads(d->ctx->threads) schedule(dynamic, 1)
    for (int64_t i = 0; i < groups; i++) {
        NlbWork *w = &d->work[thread_number()];
        const int64_t y = position(cell[i] / s->columns, s->stride, p->height - p->side),
                      x = position(cell[i] % s->columns, s->stride, p->width - p->side);
        snls_nlb_match(d, step, t, y, x, w, &d->group[i]);
        snls_nlb_filter(d, step, first, w, &d->group[i]);
    }
    sort_halves(d, groups, frames, begins);
#pragma omp parallel for num_threads(d->ctx->threads) schedule(dynamic, 1)
    for (int64_t i = 0; i <= owners; i++) {
        const int64_t f = i % frames, channel = i / frames;
        const NlbFrame *frame = snls_nlb_frame(d, first + f);
        const NlbHalf *half = d->half + begins[f];
        if (i == owners) mark_all(d, step, first, groups);
        else if (begins[f] == begins[f + 1]) continue; /* past the scene's end there may be no frame yet */
        else if (channel < p->channels) add_up(d, step, frame, half, begins[f + 1] - begins[f], channel);
        else count_corners(d, step, frame, half, begins[f + 1] - begins[f]);
    }
}

/* The references of one class in one tile. */
static void run_class(SnlsDenoiser *d, int step, int64_t t, int64_t top, int64_t left, int class)
{
    const NlbStep *s = &d->plan.step[step];
    const uint8_t *used = snls_nlb_frame(d, t)->used[step];
    const int64_t side = TILE / s->stride, bottom = top + side < s->rows ? top + side : s->rows,
                  right = left + side < s->columns ? left + side : s->columns;
    /* classes in the order of a bit-reversed counter: the first four are 2 x 2 far corners of the next */
    const int64_t row = (class & 1) * 2 + (class >> 2 & 1), column = (class >> 1 & 1) * 2 + (class >> 3 & 1);
    int64_t count = 0;
    for (int64_t r = top + row; r < bottom; r += CLASSES)
        for (int64_t c = left + column; c < right; c += CLASSES)
            if (!used[r * s->columns + c]) d->cell[count++] = r * s->columns + c;
    d->groups[step] += count;
    for (int64_t i = 0; i < count; i += d->batch)
        run_batch(d, step, d->cell + i, count - i < d->batch ? count - i : d->batch, t);
}

SnlsStatus snls_nlb_step(SnlsDenoiser *d, int step, int64_t t)
{
    if (d->plan.method == SNLS_DENOISE_NLM) return snls_nlb_nlm(d, t);
    const NlbStep *s = &d->plan.step[step];
    const int64_t side = TILE / s->stride;
    SNLS_TRY(snls_blas_require(d->ctx, "denoise", d->ctx->threads));
    snls_blas_begin(); /* groups run side by side already */
    for (int64_t top = 0; top < s->rows; top += side)
        for (int64_t left = 0; left < s->columns; left += side)
            for (int class = 0; class < CLASSES * CLASSES; class ++) run_class(d, step, t, top, left, class);
    snls_blas_end();
    return SNLS_OK;
}

/* How many patches lie over each pixel of a row: row sums of the column sums of corners up to a patch's side back. */
static void cover(const NlbPlan *p, const int32_t *corners, int64_t y, int32_t *column, int32_t *over)
{
    memset(column, 0, (size_t)p->width * sizeof *column);
    for (int64_t r = y < p->side ? 0 : y - p->side + 1; r <= y; r++)
        for (int64_t x = 0; x < p->width; x++) column[x] += corners[r * p->width + x];
    memcpy(over, column, (size_t)p->width * sizeof *over);
    for (int64_t back = 1; back < p->side; back++)
        for (int64_t x = back; x < p->width; x++) over[x] += column[x - back];
}

void snls_nlb_estimate(SnlsDenoiser *d, int step, int64_t t)
{
    const NlbPlan *p = &d->plan;
    const NlbFrame *f = snls_nlb_frame(d, t);
    if (p->method == SNLS_DENOISE_NLM) return; /* its weights have been divided by already */
#pragma omp parallel for num_threads(d->ctx->threads)
    for (int64_t y = 0; y < p->height; y++) {
        int32_t *column = d->cover + 2 * p->width * thread_number(), *over = column + p->width;
        cover(p, f->corners[step], y, column, over);
        for (int64_t c = 0; c < p->channels; c++) {
            float *sum = f->sum[step] + c * p->plane + y * p->width;
            const float *noisy = f->noisy + c * p->plane + y * p->width;
            for (int64_t x = 0; x < p->width; x++) sum[x] = over[x] ? sum[x] / (float)over[x] : noisy[x];
        }
    }
}
