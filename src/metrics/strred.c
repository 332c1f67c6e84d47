/* strred.c: ST-RRED (R. Soundararajan, A. C. Bovik, 2013) as its reference code computes it, quirks included: mixed bases of the
 * logarithms, blocks that are not centred, constants made for 0..255 on luma from 0 to 1. Eigenvalues are LAPACK's. */
#include "base/blas.h"
#include "metrics/check.h"
#include "metrics/strred_taps.h"
#include <math.h>

enum { BLOCK = 3, VECTOR = BLOCK * BLOCK, SMALLEST = 17 };
#define NEURAL_NOISE 0.1

#ifdef SNLS_HAVE_LAPACK

/* Eigenvalues (rising) and eigenvectors (rows, as C sees them) of a symmetric matrix in a; a is overwritten. */
extern void dsyev_(const char *jobz, const char *uplo, const int *n, double *a, const int *lda, double *w, double *work,
                   const int *lwork, int *info);

typedef struct Image {
    double *data;
    int64_t height, width;
} Image;

typedef struct Work {
    Image luma, half[2], band[2], difference; /* of a frame; bands of the two frames of a pair */
    double *ent[4], *ss[4];                   /* of blocks: clean and test, of the first band and of the difference */
    int64_t rows, columns;                    /* of blocks */
} Work;

static int64_t mirrored(int64_t i, int64_t length)
{
    const int64_t period = 2 * (length - 1); /* length is at least 3 */
    i = (i % period + period) % period;
    return i < length ? i : period - i;
}

/* Kernel of n x n around (y, x), the border mirrored without its last pixel. */
static double correlate(const Image *in, const double *taps, int n, int64_t y, int64_t x)
{
    double sum = 0;
    for (int r = 0; r < n; r++)
        for (int c = 0; c < n; c++) {
            int64_t i = y + r - n / 2, j = x + c - n / 2;
            i = mirrored(i, in->height);
            j = mirrored(j, in->width);
            sum += taps[r * n + c] * in->data[i * in->width + j];
        }
    return sum;
}

/* Pixels of a row whose kernel has all its columns are summed side by side, each in the order of correlate. */
static void filter_row(const Image *out, const Image *in, const double *taps, int n, int64_t step, int64_t y)
{
    const int64_t half = n / 2, first = (half + step - 1) / step, end = in->width > half ? (in->width - 1 - half) / step + 1 : 0;
    double *row = out->data + y * out->width;
    for (int64_t x = 0; x < out->width; x++) row[x] = x < first || x >= end ? correlate(in, taps, n, y * step, x * step) : 0;
    for (int r = 0; r < n; r++) {
        const double *line = in->data + mirrored(y * step + r - half, in->height) * in->width;
        for (int c = 0; c < n; c++)
            for (int64_t x = first; x < end; x++) row[x] += taps[r * n + c] * line[x * step + c - half];
    }
}

static void filter(SnlsContext *ctx, const Image *out, const Image *in, const double *taps, int n, int64_t step)
{
#    pragma omp parallel for num_threads(ctx->threads) schedule(static)
    for (int64_t y = 0; y < out->height; y++) filter_row(out, in, taps, n, step, y);
}

static void load_luma(SnlsContext *ctx, const Image *out, const SnlsTensor *video, int64_t t)
{
    static const double rgb[3] = { 0.2125, 0.7154, 0.0721 };
    const int64_t channels = video->shape[3];
#    pragma omp parallel for num_threads(ctx->threads) schedule(static)
    for (int64_t y = 0; y < out->height; y++)
        for (int64_t x = 0; x < out->width; x++) {
            double sum = 0;
            for (int64_t c = 0; c < channels; c++)
                sum +=
                    (channels == 3 ? rgb[c] : 1) * snls_pixel(video, t * video->stride[0] + y * video->stride[1] +
                                                                         x * video->stride[2] + c * video->stride[3]);
            out->data[y * out->width + x] = sum / 255;
        }
}

static Image half_of(Image storage, const Image *in)
{
    return (Image){ storage.data, (in->height + 1) / 2, (in->width + 1) / 2 };
}

/* The horizontal band of the third level of frame t. */
static void make_band(SnlsContext *ctx, const Work *w, const SnlsTensor *video, int64_t t, const Image *band)
{
    load_luma(ctx, &w->luma, video, t);
    const Image first = { w->half[1].data, w->luma.height, w->luma.width };
    filter(ctx, &first, &w->luma, low_first, 5, 1);
    const Image a = half_of(w->half[0], &first);
    filter(ctx, &a, &first, low, 9, 2);
    const Image b = half_of(w->half[1], &a);
    filter(ctx, &b, &a, low, 9, 2);
    const Image c = half_of(w->half[0], &b);
    filter(ctx, &c, &b, low, 9, 2);
    filter(ctx, band, &c, band_taps, 7, 1);
}

static void vector_at(const Image *y, int64_t row, int64_t column, double *v)
{
    for (int i = 0; i < VECTOR; i++) v[i] = y->data[(row + i % BLOCK) * y->width + column + i / BLOCK];
}

/* Covariance (1/N) of all overlapping vectors of the cropped band. */
static void covariance(const Image *y, int64_t height, int64_t width, double *k)
{
    const double n = (double)((height - BLOCK + 1) * (width - BLOCK + 1));
    double mean[VECTOR] = { 0 }, v[VECTOR];
    for (int pass = 0; pass < 2; pass++)
        for (int64_t r = 0; r + BLOCK <= height; r++)
            for (int64_t c = 0; c + BLOCK <= width; c++) {
                vector_at(y, r, c, v);
                for (int i = 0; i < VECTOR; i++) {
                    if (!pass) mean[i] += v[i] / n;
                    else
                        for (int j = 0; j < VECTOR; j++) k[i * VECTOR + j] += (v[i] - mean[i]) * (v[j] - mean[j]) / n;
                }
            }
}

/* b' K^-1 b / 9 by the eigenvectors. */
static double block_power(const double *b, const double *vectors, const double *values)
{
    double sum = 0;
    for (int e = 0; e < VECTOR; e++) {
        double along = 0;
        for (int i = 0; i < VECTOR; i++) along += vectors[e * VECTOR + i] * b[i];
        sum += along * along / values[e];
    }
    return sum / VECTOR;
}

static double block_entropy(double ss, const double *values)
{
    const double log_2_pi_e = log(2 * 3.14159265358979323846 * exp(1));
    double sum = 0;
    for (int e = 0; e < VECTOR; e++)
        if (values[e] > 0) sum += log2(ss * values[e] + NEURAL_NOISE) + log_2_pi_e;
    return sum;
}

static SnlsStatus entropies(SnlsContext *ctx, const Work *w, const Image *y, double *ent, double *ss)
{
    const int n = VECTOR, room = 8 * VECTOR;
    int info;
    double k[VECTOR * VECTOR] = { 0 }, values[VECTOR], scratch[8 * VECTOR], b[VECTOR];
    covariance(y, w->rows * BLOCK, w->columns * BLOCK, k);
    for (int i = 0; i < VECTOR * VECTOR; i++)
        SNLS_REQUIRE(ctx, isfinite(k[i]), SNLS_ERR_ARG, "strred: a frame holds a value that is not finite");
    dsyev_("V", "U", &n, k, &n, values, scratch, &room, &info);
    SNLS_REQUIRE(ctx, info == 0, SNLS_ERR_ARG, "strred: LAPACK finds no eigenvalues (%d)", info);
    for (int e = 0; e < VECTOR; e++) values[e] = fmax(values[e], 0);
    for (int64_t i = 0; i < w->rows * w->columns; i++) {
        vector_at(y, i / w->columns * BLOCK, i % w->columns * BLOCK, b);
        /* a K without inverse (all blocks equal, or too few of them) explains nothing */
        ss[i] = values[0] > 0 ? block_power(b, k, values) : 0;
        ent[i] = block_entropy(ss[i], values);
    }
    return SNLS_OK;
}

/* Band of the first frame and of the difference, of one video. */
static SnlsStatus describe(SnlsContext *ctx, const Work *w, const SnlsTensor *video, int64_t t, double **ent,
                           double **ss)
{
    make_band(ctx, w, video, t, &w->band[0]);
    make_band(ctx, w, video, t + 1, &w->band[1]);
    for (int64_t i = 0; i < w->difference.height * w->difference.width; i++)
        w->difference.data[i] = w->band[0].data[i] - w->band[1].data[i];
    SNLS_TRY(entropies(ctx, w, &w->band[0], ent[0], ss[0]));
    return entropies(ctx, w, &w->difference, ent[1], ss[1]);
}

typedef struct Differences {
    double spatial, temporal, spatial_mean, temporal_mean;
} Differences;

static SnlsStatus compare_pair(SnlsContext *ctx, Work *w, const SnlsTensor *clean, const SnlsTensor *test, int64_t t,
                               Differences *d)
{
    const int64_t blocks = w->rows * w->columns;
    double sum = 0, sum_t = 0;
    SNLS_TRY(describe(ctx, w, clean, t, w->ent, w->ss));
    SNLS_TRY(describe(ctx, w, test, t, w->ent + 2, w->ss + 2));
    *d = (Differences){ 0 };
    for (int64_t i = 0; i < blocks; i++) {
        double spatial[2], temporal[2];
        for (int v = 0; v < 2; v++) {
            spatial[v] = w->ent[2 * v][i] * log2(1 + w->ss[2 * v][i]);
            temporal[v] = w->ent[2 * v + 1][i] * log2(1 + w->ss[2 * v][i]) * log2(1 + w->ss[2 * v + 1][i]);
        }
        d->spatial += fabs(spatial[0] - spatial[1]) / (double)blocks;
        d->temporal += fabs(temporal[0] - temporal[1]) / (double)blocks;
        sum += (spatial[0] - spatial[1]) / (double)blocks;
        sum_t += (temporal[0] - temporal[1]) / (double)blocks;
    }
    d->spatial_mean = fabs(sum);
    d->temporal_mean = fabs(sum_t);
    return SNLS_OK;
}

static double *take(SnlsContext *ctx, bool claim, int64_t count)
{
    if (claim) return snls_arena_claim(&ctx->arena, count, sizeof(double));
    snls_arena_plan(&ctx->arena, count, sizeof(double));
    return NULL;
}

static void layout(SnlsContext *ctx, Work *w, bool claim, int64_t height, int64_t width)
{
    const int64_t h = (height + 7) / 8, wide = (width + 7) / 8; /* halved three times, rounded up */
    *w = (Work){ .rows = h / BLOCK, .columns = wide / BLOCK };
    w->luma = (Image){ take(ctx, claim, height * width), height, width };
    for (int i = 0; i < 2; i++) w->half[i].data = take(ctx, claim, height * width);
    for (int i = 0; i < 2; i++) w->band[i] = (Image){ take(ctx, claim, h * wide), h, wide };
    w->difference = (Image){ take(ctx, claim, h * wide), h, wide };
    for (int i = 0; i < 4; i++) w->ent[i] = take(ctx, claim, w->rows * w->columns);
    for (int i = 0; i < 4; i++) w->ss[i] = take(ctx, claim, w->rows * w->columns);
}

static SnlsStatus compare_all(SnlsContext *ctx, Work *w, const SnlsTensor *clean, const SnlsTensor *test, SnlsStrred *result)
{
    const double n = (double)result->pairs;
    for (int64_t p = 0; p < result->pairs; p++) {
        Differences d;
        SNLS_TRY(compare_pair(ctx, w, clean, test, 2 * p, &d));
        result->spatial += d.spatial / n;
        result->temporal += d.temporal / n;
        result->reduced_spatial += d.spatial_mean / n;
        result->reduced_temporal += d.temporal_mean / n;
    }
    return SNLS_OK;
}

static SnlsStatus compute(SnlsContext *ctx, const SnlsTensor *clean, const SnlsTensor *test, SnlsStrred *result)
{
    Work w;
    snls_arena_begin(&ctx->arena);
    layout(ctx, &w, false, clean->shape[1], clean->shape[2]);
    SNLS_TRY(snls_scratch_commit(ctx, "strred"));
    layout(ctx, &w, true, clean->shape[1], clean->shape[2]);
    *result = (SnlsStrred){ .pairs = clean->shape[0] / 2 };
    SNLS_TRY(snls_blas_require(ctx, "strred", 1));
    snls_blas_begin();
    const SnlsStatus status = compare_all(ctx, &w, clean, test, result);
    snls_blas_end();
    SNLS_TRY(status);
    result->score = result->spatial * result->temporal;
    result->reduced = result->reduced_spatial * result->reduced_temporal;
    return SNLS_OK;
}

#else

static SnlsStatus compute(SnlsContext *ctx, const SnlsTensor *clean, const SnlsTensor *test, SnlsStrred *result)
{
    (void)clean;
    (void)test;
    (void)result;
    (void)low_first;
    (void)low;
    (void)band_taps;
    return snls_fail(ctx, SNLS_ERR_UNSUPPORTED, "strred: this build has no LAPACK");
}

#endif

SnlsStatus snls_strred(SnlsContext *ctx, const SnlsTensor *clean, const SnlsTensor *test, SnlsStrred *result)
{
    SNLS_TRY(snls_metrics_check(ctx, "strred", clean, test, 4, 4));
    SNLS_REQUIRE(ctx, result, SNLS_ERR_ARG, "strred: the result is missing (NULL)");
    SNLS_REQUIRE(ctx, clean->shape[0] >= 2, SNLS_ERR_SHAPE, "strred: %lld frames, must be at least 2",
                 (long long)clean->shape[0]);
    SNLS_REQUIRE(ctx, clean->shape[3] == 1 || clean->shape[3] == 3, SNLS_ERR_SHAPE,
                 "strred: %lld channels, must be 1 or 3", (long long)clean->shape[3]);
    SNLS_REQUIRE(ctx,
                 clean->shape[1] >= SMALLEST && clean->shape[2] >= SMALLEST && clean->shape[1] <= 32767 &&
                     clean->shape[2] <= 32767,
                 SNLS_ERR_SHAPE, "strred: frames are %lld x %lld pixels, must be %d to 32767 each way",
                 (long long)clean->shape[2], (long long)clean->shape[1], SMALLEST);
    SnlsContext own, *host = snls_host_begin(ctx, &own);
    return snls_host_end(ctx, host, compute(host, clean, test, result));
}
