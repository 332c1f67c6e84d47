/* bayes.c: the filter of one group. Patches are taken for draws from one Gaussian: its covariance is estimated from the group
 * (noisy in step 1, first estimate in step 2), and every patch becomes its most likely clean value (Arias, Morel, 2018).
 * Column i of a matrix (dim, count) is patch i. */
#include "denoise/nlb.h"
#include <float.h>
#include <math.h>
#include <string.h>

#ifdef SNLS_HAVE_LAPACK
#    include "denoise/blas.h"

/* A group whose noisy values vary less than this times the noise is flat: its mean is better known from the first estimate. */
#    define FLAT 0.95

enum { TURNS = 3 }; /* of subspace iteration */

static void gemm(const char *ta, const char *tb, int64_t m, int64_t n, int64_t k, float alpha, const float *a,
                 int64_t lda, const float *b, int64_t ldb, float *c, int64_t ldc)
{
    const float zero = 0;
    const int im = (int)m, in = (int)n, ik = (int)k, ia = (int)lda, ib = (int)ldb, ic = (int)ldc;
    sgemm_(ta, tb, &im, &in, &ik, &alpha, a, &ia, b, &ib, &zero, c, &ic);
}

static void gather(const SnlsDenoiser *d, const NlbGroup *g, int64_t first, int step, int64_t channel, float *out)
{
    const NlbPlan *p = &d->plan;
    for (int64_t i = 0; i < g->count; i++)
        for (int64_t part = 0; part < d->depth; part++) {
            const NlbFrame *f = snls_nlb_frame(d, first + g->patch[i].frame[part]);
            const float *from = (step ? f->sum[0] : f->noisy) + channel * p->plane + g->patch[i].at[part];
            d->loops.take(out, from, p->width, p->side);
            out += p->side * p->side;
        }
}

/* Takes the mean of the columns off them. */
static void centre(float *x, int64_t dim, int64_t count, float *mean)
{
    memset(mean, 0, (size_t)dim * sizeof *mean);
    for (int64_t i = 0; i < count; i++)
        for (int64_t j = 0; j < dim; j++) mean[j] += x[i * dim + j];
    for (int64_t j = 0; j < dim; j++) mean[j] /= (float)count;
    for (int64_t i = 0; i < count; i++)
        for (int64_t j = 0; j < dim; j++) x[i * dim + j] -= mean[j];
}

/* ---- eigenvectors ---- */

static void mirror(float *a, int64_t m)
{
    for (int64_t j = 0; j < m; j++)
        for (int64_t i = j + 1; i < m; i++) a[i * m + j] = a[j * m + i];
}

static int lapack_room(int64_t m) { return (int)(2 * m * m + 64 * m + 64); }

/* Orthonormal columns in place of q (m, p). */
static void orthonormal(NlbWork *w, float *q, int64_t m, int64_t p)
{
    const int im = (int)m, ip = (int)p, room = lapack_room(m);
    int info;
    sgeqrf_(&im, &ip, q, &im, w->tau, w->lapack, &room, &info);
    sorgqr_(&im, &ip, &ip, q, &im, w->tau, w->lapack, &room, &info);
}

/* p Ritz pairs of the whole matrix after a few turns of subspace iteration from q (m, p): values rising, vectors in
 * work->vectors. q is overwritten. */
static bool ritz(NlbWork *w, float *q, int64_t m, int64_t p)
{
    const int ip = (int)p, room = lapack_room(m), int_room = (int)(16 * m + 64);
    float *image = w->right, *small = w->small;
    int info;
    for (int turn = 0; turn < TURNS; turn++) {
        orthonormal(w, q, m, p);
        gemm("N", "N", m, p, m, 1, w->matrix, m, q, m, image, m);
        if (turn + 1 < TURNS) memcpy(q, image, (size_t)(m * p) * sizeof *q);
    }
    gemm("T", "N", p, p, m, 1, q, m, image, m, small, p);
    ssyevd_("V", "L", &ip, small, &ip, w->values, w->lapack, &room, w->lapack_int, &int_room, &info);
    gemm("N", "N", m, p, p, 1, q, m, small, p, w->vectors, m);
    return !info;
}

/* All of them. */
static bool decompose(NlbWork *w, int64_t m)
{
    const int n = (int)m, room = lapack_room(m), int_room = (int)(16 * m + 64);
    int info;
    memcpy(w->vectors, w->matrix, (size_t)(m * m) * sizeof *w->vectors);
    ssyevd_("V", "L", &n, w->vectors, &n, w->values, w->lapack, &room, w->lapack_int, &int_room, &info);
    return !info;
}

/* Eigenvalues of work->matrix (m, m; lower half) above low, the largest most of them, to the front of work->values, rising;
 * returns how many. *vectors: their eigenvectors. Few are above, mostly: iteration on a subspace that doubles until its
 * least value is not. Its first columns are columns of the matrix: one turn for nothing. */
static int64_t eigen(NlbWork *w, int64_t m, float low, int64_t most, int64_t start, const float **vectors)
{
    int64_t p = start ? start : m;
    bool good = false;
    float *q = w->left;
    mirror(w->matrix, m);
    for (int64_t have = 0; 3 * p <= m; p *= 2) {
        for (int64_t i = have; i < p; i++) memcpy(q + i * m, w->matrix + (i * m / p) * m, (size_t)m * sizeof *q);
        good = ritz(w, q, m, p);
        if (!good || w->values[0] <= low || p >= most) break;
        memcpy(q, w->vectors, (size_t)(m * p) * sizeof *q);
        have = p;
        good = false;
    }
    if (!good) good = decompose(w, p = m);
    if (!good) return 0; /* no convergence: the group's mean */
    int64_t skip = p > most ? p - most : 0;
    while (skip < p && w->values[skip] <= low) skip++;
    memmove(w->values, w->values + skip, (size_t)(p - skip) * sizeof *w->values);
    *vectors = w->vectors + skip * m;
    return p - skip;
}

/* Orthonormal columns (dim, rank) in work->left that span what x (dim, count) has above low; eigenvalues in
 * work->values. Through the smaller of x x' and x' x. */
static int64_t basis(NlbWork *w, const float *x, int64_t dim, int64_t count, float low, const NlbStep *s)
{
    const bool gram = count < dim;
    const int n = (int)(gram ? count : dim), k = (int)(gram ? dim : count), lda = (int)dim;
    const float scale = 1 / (float)count, zero = 0, *vectors = NULL;
    ssyrk_("L", gram ? "T" : "N", &n, &k, &scale, x, &lda, &zero, w->matrix, &n);
    const int64_t rank = eigen(w, n, low, s->rank, s->start, &vectors);
    if (!gram) {
        memcpy(w->left, vectors ? vectors : w->left, (size_t)(rank * dim) * sizeof *w->left);
        return rank;
    }
    if (rank) gemm("N", "N", dim, rank, count, 1, x, dim, vectors, count, w->left, dim);
    for (int64_t i = 0; i < rank; i++) {
        const float norm = 1 / sqrtf((float)count * w->values[i]);
        for (int64_t j = 0; j < dim; j++) w->left[i * dim + j] *= norm;
    }
    return rank;
}

/* x (dim, count), centred, to its filtered self, plus mean. work->left: the basis; work->values: what is kept of each. */
static void project(NlbWork *w, float *x, int64_t dim, int64_t count, int64_t rank, const float *mean)
{
    if (rank) {
        gemm("T", "N", rank, count, dim, 1, w->left, dim, x, dim, w->right, rank);
        for (int64_t i = 0; i < count; i++)
            for (int64_t j = 0; j < rank; j++) w->right[i * rank + j] *= w->values[j];
        gemm("N", "N", dim, count, rank, 1, w->left, dim, w->right, rank, x, dim);
    } else memset(x, 0, (size_t)(dim * count) * sizeof *x);
    for (int64_t i = 0; i < count; i++)
        for (int64_t j = 0; j < dim; j++) x[i * dim + j] += mean[j];
}

/* Step 2: x (dim, count) to C (C + variance)^-1 x + mean, C the covariance of basic (dim, count), both centred; through
 * whichever of basic basic' and basic' basic is the smaller. Cholesky: no eigenvectors are needed. */
static void wiener(NlbWork *w, float *x, const float *basic, int64_t dim, int64_t count, float variance,
                   const float *mean)
{
    const bool gram = count < dim;
    const int n = (int)(gram ? count : dim), k = (int)(gram ? dim : count), lda = (int)dim, columns = (int)count;
    const float scale = 1 / (float)count, zero = 0;
    int info;
    ssyrk_("L", gram ? "T" : "N", &n, &k, &scale, basic, &lda, &zero, w->matrix, &n);
    for (int64_t i = 0; i < n; i++) w->matrix[i * n + i] += variance;
    spotrf_("L", &n, w->matrix, &n, &info);
    if (gram) { /* basic (basic' basic / count + variance)^-1 basic' x / count */
        gemm("T", "N", count, count, dim, scale, basic, dim, x, dim, w->right, count);
        if (!info) spotrs_("L", &n, &columns, w->matrix, &n, w->right, &n, &info);
        if (!info) gemm("N", "N", dim, count, count, 1, basic, dim, w->right, count, x, dim);
    } else { /* x - variance (C + variance)^-1 x */
        memcpy(w->right, x, (size_t)(dim * count) * sizeof *x);
        if (!info) spotrs_("L", &n, &columns, w->matrix, &n, w->right, &n, &info);
        for (int64_t i = 0; i < dim * count && !info; i++) x[i] -= variance * w->right[i];
    }
    for (int64_t i = 0; i < count; i++)
        for (int64_t j = 0; j < dim; j++) x[i * dim + j] = mean[j] + (info ? 0 : x[i * dim + j]);
}

/* Variance of all values, in eight sums that a compiler can keep in vectors; about the first value, so that no digits are lost. */
static double spread(const float *x, int64_t count)
{
    float sum[8] = { 0 }, squares[8] = { 0 };
    const float about = x[0];
    int64_t i = 0;
    for (; i + 8 <= count; i += 8)
        for (int j = 0; j < 8; j++) {
            const float v = x[i + j] - about;
            sum[j] += v;
            squares[j] += v * v;
        }
    for (; i < count; i++) {
        sum[0] += x[i] - about;
        squares[0] += (x[i] - about) * (x[i] - about);
    }
    double s = 0, q = 0;
    for (int j = 0; j < 8; j++) {
        s += sum[j] / (double)count;
        q += squares[j] / (double)count;
    }
    return q - s * s;
}

static bool is_flat(const SnlsDenoiser *d, const NlbGroup *g, int64_t dim)
{
    double sum = 0;
    for (int64_t c = 0; c < d->plan.channels; c++)
        sum += spread(g->value + c * g->count * dim, g->count * dim) / d->variance[c];
    return sum < FLAT * (double)d->plan.channels;
}

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

void snls_nlb_filter(const SnlsDenoiser *d, int step, int64_t first, NlbWork *w, NlbGroup *g)
{
    const NlbStep *s = &d->plan.step[step];
    const int64_t dim = d->plan.side * d->plan.side * d->depth, size = g->count * dim;
    for (int64_t c = 0; c < d->plan.channels; c++) gather(d, g, first, 0, c, g->value + c * size);
    const bool flat = step && is_flat(d, g, dim);
    for (int64_t c = 0; c < d->plan.channels; c++) {
        float *x = g->value + c * size, *mean = w->mean;
        centre(x, dim, g->count, mean);
        if (step) {
            gather(d, g, first, 1, c, w->basic);
            centre(w->basic, dim, g->count, mean + dim);
        }
        if (flat) mean += dim;
        if (step) {
            wiener(w, x, w->basic, dim, g->count, d->variance[c], mean);
            continue;
        }
        const Shrinkage shrink = { s->theta, (double)dim / (double)g->count, d->variance[c] };
        const int64_t rank = basis(w, x, dim, g->count, lowest(&shrink), s);
        for (int64_t i = 0; i < rank; i++) w->values[i] = kept(&shrink, w->values[i]);
        project(w, x, dim, g->count, rank, mean);
    }
}

int snls_nlb_blas_threads(int threads)
{
    if (!openblas_get_num_threads || !openblas_set_num_threads) return 0;
    const int before = openblas_get_num_threads();
    if (threads > 0 && threads != before) openblas_set_num_threads(threads);
    return before;
}

#else
int snls_nlb_blas_threads(int threads) { return threads; }
void snls_nlb_filter(const SnlsDenoiser *d, int step, int64_t first, NlbWork *w, NlbGroup *g)
{
    (void)d, (void)step, (void)first, (void)w, (void)g; /* open has refused the method */
}
#endif
