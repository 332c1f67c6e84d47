/* bayes.c: the filter of one group. Patches are taken for draws from one Gaussian: its covariance is estimated from the group
 * (noisy in step 1, first estimate in step 2), and every patch becomes its most likely clean value (Arias, Morel, 2018).
 *
 * A group is a matrix z with the larger of its two sides, patches and values of a patch, as rows: z'z is the smaller of the two
 * products, and what is kept of the group is z times something as small. */
#include "denoise/nlb.h"
#include <float.h>
#include <math.h>
#include <string.h>

#ifdef SNLS_HAVE_LAPACK
/* Noise below this share of a group's variance is lost in the rounding of its sums: what would be taken off is less than what rounding adds. */
#    define LOST (4 * FLT_EPSILON)

/* A group whose noisy values vary less than this times the noise is flat: its mean is better known from the first estimate. */
#    define FLAT 0.95

typedef struct Group {
    const SnlsDenoiser *d;
    const NlbGroup *g;
    NlbWork *w;
    int64_t first;          /* frame of the search */
    int64_t dim, rows, n;   /* of a patch; of z */
    int64_t pitch;
    bool across;            /* rows are the values of a patch, columns are patches */
} Group;

/* ---- patches in and out ---- */

static const float *patch_at(const Group *u, int step, int64_t channel, int64_t i, int64_t part)
{
    const NlbFrame *f = snls_nlb_frame(u->d, u->first + u->g->patch[i].frame[part]);
    return (step ? f->sum[0] : f->noisy) + channel * u->d->plan.plane + u->g->patch[i].at[part];
}

/* Takes the mean of the rows off them. */
static float centre_columns(const Group *u, float *z, float *mean)
{
    float squares = 0;
    memset(mean, 0, (size_t)u->dim * sizeof *mean);
    for (int64_t i = 0; i < u->rows; i++)
        for (int64_t j = 0; j < u->dim; j++) mean[j] += z[i * u->pitch + j];
    for (int64_t j = 0; j < u->dim; j++) mean[j] /= (float)u->rows;
    for (int64_t i = 0; i < u->rows; i++)
        for (int64_t j = 0; j < u->dim; j++) {
            z[i * u->pitch + j] -= mean[j];
            squares += z[i * u->pitch + j] * z[i * u->pitch + j];
        }
    return squares;
}

/* One channel of the group, less its mean patch. Returns the sum of squares that are left. */
static float load(const Group *u, int step, int64_t channel, float *z, float *mean)
{
    const NlbPlan *p = &u->d->plan;
    const int64_t area = p->side * p->side, depth = u->d->depth;
    if (u->across) {
        for (int64_t part = 0; part < depth; part++) {
            for (int64_t i = 0; i < u->n; i++) u->w->at[i] = patch_at(u, step, channel, i, part);
            u->d->group_loops.gather(z + part * area * u->pitch, u->pitch, u->w->at, u->n, p->width, p->side);
        }
        return u->d->group_loops.centre(z, u->pitch, u->rows, u->n, mean);
    }
    for (int64_t i = 0; i < u->rows; i++) {
        for (int64_t part = 0; part < depth; part++)
            u->d->loops.take(z + i * u->pitch + part * area, patch_at(u, step, channel, i, part), p->width, p->side);
        for (int64_t j = u->dim; j < u->pitch; j++) z[i * u->pitch + j] = 0;
    }
    return centre_columns(u, z, mean);
}

static void store(const Group *u, float *value, const float *z, const float *mean)
{
    if (u->across) {
        u->d->group_loops.scatter(value, z, u->pitch, u->rows, u->n, mean);
        return;
    }
    for (int64_t i = 0; i < u->rows; i++)
        for (int64_t j = 0; j < u->dim; j++) value[i * u->dim + j] = z[i * u->pitch + j] + mean[j];
}

static void store_mean(const Group *u, float *value, const float *mean)
{
    for (int64_t i = 0; i < u->g->count; i++) memcpy(value + i * u->dim, mean, (size_t)u->dim * sizeof *mean);
}

/* ---- products ---- */

/* to (n, to_pitch) = a' b / patches of the group */
static void cross(const Group *u, float *to, int64_t to_pitch, const float *a, const float *b, bool upper)
{
    const SnlsGroupProduct p = { .c = to, .a = a, .b = b, .c_pitch = to_pitch, .a_row = 1, .a_depth = u->pitch,
                                 .b_pitch = u->pitch, .rows = u->n, .columns = u->pitch, .depth = u->rows,
                                 .scale = 1 / (float)u->g->count, .upper = upper };
    u->d->group_loops.product(&p);
}

/* to (rows, columns) = a (rows, a_pitch) b (depth, columns) */
static void times(const Group *u, float *to, int64_t columns, const float *a, int64_t a_pitch, const float *b,
                  int64_t b_pitch, int64_t depth)
{
    const SnlsGroupProduct p = { .c = to, .a = a, .b = b, .c_pitch = columns, .a_row = a_pitch, .a_depth = 1,
                                 .b_pitch = b_pitch, .rows = u->rows, .columns = columns, .depth = depth, .scale = 1 };
    u->d->group_loops.product(&p);
}

/* Is so little noise nothing beside these products? Then the group stays as it is: an eigenvalue can not be told from 0, and a filter changes no direction by more than half the noise. */
static bool is_lost(const Group *u, const float *matrix, int64_t pitch, float variance)
{
    float largest = 0;
    for (int64_t i = 0; i < u->n; i++) largest = fmaxf(largest, matrix[i * pitch + i]);
    return variance < (float)LOST * largest;
}

/* ---- step 1 ---- */

/* What is kept along an eigenvector, and above which eigenvalue anything is. Singular values are shrunk as is best for a matrix
 * of low rank in white noise (Gavish, Donoho, 2017): with b = dim / count and y = value / variance,
 * sqrt((y - b - 1)^2 - 4 b) / y above (1 + sqrt b)^2, the edge of the noise's own eigenvalues. With a theta it is the paper's
 * threshold and (value - variance) / value. */
typedef struct Shrinkage {
    double theta, ratio, variance;
} Shrinkage;

static float lowest(const Shrinkage *s)
{
    const double edge = 1 + sqrt(s->ratio);
    return (float)(s->variance * (s->theta >= 0 ? 1 + s->theta : edge * edge));
}

static float kept(const Shrinkage *s, double value)
{
    const double y = value / s->variance, from = y - s->ratio - 1, inner = from * from - 4 * s->ratio;
    return (float)(s->theta >= 0 ? (y - 1) / y : inner > 0 ? sqrt(inner) / y : 0);
}

/* C (C + variance)^-1 of the noisy group, C the covariance of the first estimate's, by Cholesky: no eigenvectors are needed. With
 * patches as columns that is basic (basic'basic + variance)^-1 basic'noisy, with patches as rows noisy (C + variance)^-1 C.
 * Returns where it is. */
static const float *wiener(const Group *u, float *noisy, float *basic, float variance)
{
    NlbWork *w = u->w;
    const int64_t both = 2 * u->pitch;
    cross(u, w->matrix, both, basic, basic, true);
    if (is_lost(u, w->matrix, both, variance)) return noisy;
    cross(u, w->matrix + u->pitch, both, basic, u->across ? noisy : basic, false);
    for (int64_t i = 0; i < u->n; i++) w->matrix[i * both + i] += variance;
    if (!u->d->group_loops.solve(w->matrix, both, u->n, u->pitch)) return noisy; /* singular: as above */
    float *from = u->across ? basic : noisy, *to = u->across ? noisy : basic;
    times(u, to, u->pitch, from, u->pitch, w->matrix + u->pitch, both, u->n);
    return to;
}

/* A group with hardly a direction that is noise alone: its own covariance stands for the first estimate's. Far above the noise, what is kept of an
 * eigenvalue is 1 - (1 + dim / count) variance / value in either way. */
static const float *shrink_little(const Group *u, float *z, float variance)
{
    memcpy(u->w->basic, z, (size_t)(u->rows * u->pitch) * sizeof *z);
    return wiener(u, z, u->w->basic, variance * (1 + (float)u->dim / (float)u->g->count));
}

/* Subspaces in f32 lose what is so far below the sum of all eigenvalues: then all of them are found at once. */
static NlbStep by_all(const Group *u, const NlbStep *s, float variance)
{
    NlbStep how = *s;
    float all = 0;
    for (int64_t i = 0; i < u->n; i++) all += u->w->matrix[i * u->pitch + i];
    if (variance < (float)LOST * all) how.start = 0;
    return how;
}

/* z to z V D V', V the eigenvectors of z'z and D what is kept along them. Returns where it is; NULL: nothing is kept. */
static const float *shrink(const Group *u, float *z, float variance, const NlbStep *s)
{
    NlbWork *w = u->w;
    const Shrinkage by = { s->theta, (double)u->dim / (double)u->g->count, variance };
    const float *vectors = NULL;
    cross(u, w->matrix, u->pitch, z, z, true);
    if (is_lost(u, w->matrix, u->pitch, variance)) return z;
    const NlbStep how = by_all(u, s, variance);
    const int64_t rank = snls_nlb_eigen(&u->d->group_loops, w, u->n, lowest(&by), &how, &vectors);
    if (rank < 0) return shrink_little(u, z, variance);
    const int64_t pitch = snls_nlb_pitch(rank);
    if (!rank) return NULL;
    memset(w->left, 0, (size_t)(u->n * pitch) * sizeof *w->left);
    for (int64_t r = 0; r < rank; r++) {
        const float keep = kept(&by, w->values[r]);
        for (int64_t i = 0; i < u->n; i++) w->left[i * pitch + r] = keep * vectors[r * u->pitch + i];
    }
    times(u, w->right, pitch, z, u->pitch, w->left, pitch, u->n);
    times(u, z, u->pitch, w->right, pitch, vectors, u->pitch, rank);
    return z;
}

/* ---- step 2 ---- */

/* Variance of all values of the group over the noise's: what varies about the mean patch, and what the mean patch itself does. */
static double spread(const Group *u, const float *mean, double squares, double variance)
{
    double sum = 0, about = 0;
    for (int64_t j = 0; j < u->dim; j++) sum += mean[j];
    sum /= (double)u->dim;
    for (int64_t j = 0; j < u->dim; j++) about += (mean[j] - sum) * (mean[j] - sum);
    return (squares / (double)u->g->count + about) / ((double)u->dim * variance);
}

static void filter_by_basic(const Group *u, float *value)
{
    const int64_t channels = u->d->plan.channels, size = u->rows * u->pitch;
    NlbWork *w = u->w;
    double all = 0;
    for (int64_t c = 0; c < channels; c++) {
        float *mean = w->mean + c * u->dim;
        const double squares = load(u, 0, c, w->noisy + c * size, mean);
        all += spread(u, mean, squares, u->d->variance[c]);
    }
    const bool flat = all < FLAT * (double)channels;
    for (int64_t c = 0; c < channels; c++, value += u->g->count * u->dim) {
        float *basic_mean = w->mean + channels * u->dim;
        load(u, 1, c, w->basic, basic_mean);
        const float *mean = flat ? basic_mean : w->mean + c * u->dim,
                    *z = wiener(u, w->noisy + c * size, w->basic, u->d->variance[c]);
        store(u, value, z, mean);
    }
}

void snls_nlb_filter(const SnlsDenoiser *d, int step, int64_t first, NlbWork *w, NlbGroup *g)
{
    const int64_t dim = d->plan.side * d->plan.side * d->depth;
    const bool across = g->count < dim;
    Group u = { .d = d, .g = g, .w = w, .first = first, .dim = dim, .across = across };
    u.rows = across ? dim : g->count;
    u.n = across ? g->count : dim;
    u.pitch = snls_nlb_pitch(u.n);
    if (step) {
        filter_by_basic(&u, g->value);
        return;
    }
    for (int64_t c = 0; c < d->plan.channels; c++) {
        float *value = g->value + c * g->count * dim;
        load(&u, 0, c, w->noisy, w->mean);
        const float *z = shrink(&u, w->noisy, d->variance[c], &d->plan.step[0]);
        if (z) store(&u, value, z, w->mean);
        else store_mean(&u, value, w->mean);
    }
}

#else
void snls_nlb_filter(const SnlsDenoiser *d, int step, int64_t first, NlbWork *w, NlbGroup *g)
{
    (void)d, (void)step, (void)first, (void)w, (void)g; /* open has refused the method */
}
#endif
