/* estimate.c: the strength of white noise in a frame, from the high frequencies of those blocks whose low frequencies are
 * weakest (Ponomarenko et al., 2007; Colom and Buades, 2013). Under white noise the two are independent, so that
 * choosing blocks by the one does not bend the other; texture shows in both. */
#include "denoise/nlb.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = 8, LOW = 9, BLOCKS_MAX = 60000, CHOSEN_MIN = 60 };
#define SHARE    0.005 /* of the blocks that are chosen */
#define COLOURED 1.3   /* times as strong in low frequencies: not white */

typedef struct Blocks {
    const float *frame; /* (H,W,C), from the channel on */
    const float *seen;  /* what the camera may have clipped: (H,W,seen_channels) */
    int64_t channels, seen_channels, width, rows, columns, step;
    bool low; /* of what is not white the low frequencies tell: blocks are chosen by some of them, others measured */
    float basis[SIDE][SIDE];
} Blocks;

static void make_basis(float basis[SIDE][SIDE])
{
    const double pi = 3.14159265358979323846;
    for (int k = 0; k < SIDE; k++)
        for (int i = 0; i < SIDE; i++)
            basis[k][i] = (float)(cos(pi * (2 * i + 1) * k / (2 * SIDE)) * sqrt((k ? 2.0 : 1.0) / SIDE));
}

/* Orthonormal DCT of block number i: out[row][column]. Returns how many pixels are at an end of the scale. */
static int transform(const Blocks *b, int64_t i, float out[SIDE][SIDE])
{
    const int64_t at = (i / b->columns * b->width + i % b->columns) * b->step;
    const float *corner = b->frame + at * b->channels, *seen = b->seen + at * b->seen_channels;
    float half[SIDE][SIDE];
    int clipped = 0;
    for (int y = 0; y < SIDE; y++)
        for (int k = 0; k < SIDE; k++) {
            half[y][k] = 0;
            for (int x = 0; x < SIDE; x++) half[y][k] += b->basis[k][x] * corner[(y * b->width + x) * b->channels];
        }
    for (int k = 0; k < SIDE; k++)
        for (int x = 0; x < SIDE; x++) {
            const float v = seen[(k * b->width + x) * b->seen_channels];
            clipped += v == 0 || v == 255;
            out[k][x] = 0;
            for (int y = 0; y < SIDE; y++) out[k][x] += b->basis[k][y] * half[y][x];
        }
    return clipped;
}

static bool chooses(const Blocks *b, int order) { return b->low ? order < 6 && order % 2 : order > 0 && order < LOW; }
static bool measures(const Blocks *b, int order) { return b->low ? order == 2 || order == 4 : order >= LOW; }

/* Energy of the frequencies that choose; blocks that the camera clipped come last. */
static float low_energy(const Blocks *b, int64_t i)
{
    float c[SIDE][SIDE], sum = 0;
    const int clipped = transform(b, i, c);
    for (int y = 0; y < SIDE; y++)
        for (int x = 0; x < SIDE; x++)
            if (chooses(b, x + y)) sum += c[y][x] * c[y][x];
    return clipped > SIDE ? INFINITY : sum;
}

static int rising(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

typedef struct Rank {
    float energy;
    int32_t block;
} Rank;

static int by_energy(const void *a, const void *b)
{
    const Rank *x = a, *y = b;
    return x->energy != y->energy ? (x->energy > y->energy) - (x->energy < y->energy)
                                  : (x->block > y->block) - (x->block < y->block);
}

/* Median over the frequencies that are measured of their variance in the chosen blocks. */
static double high_variance(const Blocks *b, const Rank *rank, int64_t chosen)
{
    double squares[SIDE * SIDE] = { 0 };
    int count = 0;
    for (int64_t i = 0; i < chosen; i++) {
        float c[SIDE][SIDE];
        transform(b, rank[i].block, c);
        count = 0;
        for (int y = 0; y < SIDE; y++)
            for (int x = 0; x < SIDE; x++)
                if (measures(b, x + y)) squares[count++] += (double)c[y][x] * c[y][x] / (double)chosen;
    }
    qsort(squares, (size_t)count, sizeof *squares, rising);
    return squares[count / 2];
}

static double estimate(SnlsContext *ctx, Blocks *b, Rank *rank)
{
    const int64_t count = b->rows * b->columns;
#pragma omp parallel for num_threads(ctx->threads) schedule(static)
    for (int64_t i = 0; i < count; i++) rank[i] = (Rank){ low_energy(b, i), (int32_t)i };
    qsort(rank, (size_t)count, sizeof *rank, by_energy);
    int64_t chosen = (int64_t)(SHARE * (double)count);
    if (chosen < CHOSEN_MIN) chosen = count < CHOSEN_MIN ? count : CHOSEN_MIN;
    while (chosen > 1 && isinf(rank[chosen - 1].energy)) chosen--;
    return sqrt(high_variance(b, rank, chosen));
}

/* Small frames have no block: differences of neighbours serve. */
static double estimate_small(const float *frame, int64_t pixels, int64_t channels)
{
    double sum = 0;
    for (int64_t i = 1; i < pixels; i++) {
        const double e = frame[i * channels] - frame[(i - 1) * channels];
        sum += e * e / 2;
    }
    return pixels > 1 ? sqrt(sum / (double)(pixels - 1)) : 0;
}

/* As estimate_frame, for frames that have blocks. */
static SnlsStatus estimate_channels(SnlsContext *ctx, Blocks *b, const float *const *frame, const float *seen, double sigma[3])
{
    snls_arena_begin(&ctx->arena);
    snls_arena_plan(&ctx->arena, b->rows * b->columns, sizeof(Rank));
    SNLS_TRY(snls_scratch_commit(ctx, "noise"));
    Rank *rank = snls_arena_claim(&ctx->arena, b->rows * b->columns, sizeof(Rank));
    for (int64_t c = 0; c < b->seen_channels; c++) {
        b->frame = frame[c];
        b->seen = seen + c;
        sigma[c] += estimate(ctx, b, rank);
    }
    return SNLS_OK;
}

/* sigma[i] += the noise of channel i, which begins at frame[i] and has every step-th float; seen as in Blocks. */
static SnlsStatus estimate_frame(SnlsContext *ctx, const float *const *frame, int64_t step, const float *seen,
                                 int64_t height, int64_t width, int64_t channels, bool low, double sigma[3])
{
    Blocks b = { .channels = step, .seen_channels = channels, .width = width, .step = 1, .low = low };
    if (height < SIDE || width < SIDE) {
        for (int64_t c = 0; c < channels; c++) sigma[c] += estimate_small(frame[c], height * width, step);
        return SNLS_OK;
    }
    while ((height - SIDE) / b.step * ((width - SIDE) / b.step) > BLOCKS_MAX) b.step++;
    b.rows = (height - SIDE) / b.step + 1;
    b.columns = (width - SIDE) / b.step + 1;
    make_basis(b.basis);
    SnlsContext own, *host = snls_host_begin(ctx, &own);
    return snls_host_end(ctx, host, estimate_channels(host, &b, frame, seen, sigma));
}

/* Colour of 4:2:0 has one sample for four pixels: its noise has four times the variance in low frequencies and none in high ones.
 * The filter must go by the first; where both say the same, high ones say it more exactly. */
SnlsStatus snls_nlb_noise(SnlsContext *ctx, const NlbPlan *p, const float *planes, const float *frame, double noise[3])
{
    const float *channel[3] = { planes, planes + p->plane, planes + 2 * p->plane };
    double low[3] = { 0 };
    for (int c = 0; c < 3; c++) noise[c] = 0;
    SNLS_TRY(estimate_frame(ctx, channel, 1, frame, p->height, p->width, p->channels, false, noise));
    if (p->channels == 3)
        SNLS_TRY(estimate_frame(ctx, channel, 1, frame, p->height, p->width, p->channels, true, low));
    for (int c = 1; c < 3; c++)
        if (low[c] > COLOURED * noise[c]) noise[c] = low[c];
    return SNLS_OK;
}

typedef struct Shape {
    int64_t count, height, width, channels;
} Shape;

static SnlsStatus check_frames(SnlsContext *ctx, const char *who, const float *frames, Shape s, const double *result)
{
    SNLS_REQUIRE(ctx, frames && result, SNLS_ERR_ARG, "%s: a pointer is missing (NULL)", who);
    SNLS_REQUIRE(ctx, s.count >= 1 && s.height >= 1 && s.width >= 1 && (s.channels == 1 || s.channels == 3), SNLS_ERR_SHAPE,
                 "%s: %lld frames of %lld x %lld pixels and %lld channels, must be 1 or more, 1 or 3 channels", who, (long long)s.count, (long long)s.width,
                 (long long)s.height, (long long)s.channels);
    return SNLS_OK;
}

SnlsStatus snls_noise_estimate(SnlsContext *ctx, const float *frames, int64_t count, int64_t height, int64_t width,
                               int64_t channels, double sigma[3])
{
    if (!ctx) return SNLS_ERR_ARG;
    SNLS_TRY(check_frames(ctx, "noise_estimate", frames, (Shape){ count, height, width, channels }, sigma));
    double sum[3] = { 0 };
    for (int64_t t = 0; t < count; t++) {
        const float *frame = frames + t * height * width * channels;
        SNLS_TRY(estimate_frame(ctx, (const float *[]){ frame, frame + 1, frame + 2 }, channels, frame, height, width,
                                channels, false, sum));
    }
    for (int64_t c = 0; c < 3; c++) sigma[c] = c < channels ? sum[c] / (double)count : sum[0] / (double)count;
    return SNLS_OK;
}

static SnlsStatus mean_noise(SnlsContext *ctx, const NlbPlan *p, const float *frames, int64_t count, float *planes, double noise[3])
{
    for (int64_t t = 0; t < count; t++) {
        const float *frame = frames + t * p->height * p->width * 3;
        double one[3];
        snls_nlb_load(p, planes, frame);
        SNLS_TRY(snls_nlb_noise(ctx, p, planes, frame, one));
        for (int c = 0; c < 3; c++) noise[c] += one[c] / (double)count;
    }
    return SNLS_OK;
}

SnlsStatus snls_noise_level(SnlsContext *ctx, const float *frames, int64_t count, int64_t height, int64_t width,
                            int64_t channels, double *level)
{
    double noise[3] = { 0 };
    if (!ctx) return SNLS_ERR_ARG;
    SNLS_TRY(check_frames(ctx, "noise_level", frames, (Shape){ count, height, width, channels }, level));
    if (channels == 1) {
        SNLS_TRY(snls_noise_estimate(ctx, frames, count, height, width, channels, noise));
        *level = noise[0];
        return SNLS_OK;
    }
    const NlbPlan p = { .height = height, .width = width, .channels = 3, .plane = height * width };
    float *planes = snls_mem_alloc(&ctx->allocator, 3 * p.plane * (int64_t)sizeof *planes);
    SNLS_REQUIRE(ctx, planes, SNLS_ERR_MEMORY, "noise_level: out of memory for a frame");
    const SnlsStatus status = mean_noise(ctx, &p, frames, count, planes, noise);
    snls_mem_free(&ctx->allocator, planes);
    *level = fmax(noise[0], fmax(noise[1], noise[2]));
    return status;
}
