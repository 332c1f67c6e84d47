/* eigen.c: the eigenvalues of a group's matrix that are above its noise. Vectors are rows here, as everything else is. */
#include "denoise/nlb.h"
#include <math.h>
#include <string.h>

#ifdef SNLS_HAVE_LAPACK
#    include "denoise/blas.h"

enum { TURNS = 3, TINY = 8 }; /* turns of subspace iteration; sides up to which rotations beat LAPACK */

/* All eigenvectors of a (n, pitch) in its rows, values rising. */
static bool decompose(NlbWork *w, float *a, int64_t n, int64_t pitch)
{
    const int side = (int)n, lda = (int)pitch, room = snls_nlb_lapack_room(n), int_room = snls_nlb_lapack_int_room(n);
    int info;
    ssyevd_("V", "L", &side, a, &lda, w->values, w->lapack, &room, w->lapack_int, &int_room, &info);
    return !info;
}

/* One of Jacobi's rotations: a[p][q] becomes 0. */
static void rotate(float a[TINY][TINY], float v[TINY][TINY], int p, int q)
{
    const float tau = (a[q][q] - a[p][p]) / (2 * a[p][q]), t = copysignf(1 / (fabsf(tau) + sqrtf(1 + tau * tau)), tau),
                c = 1 / sqrtf(1 + t * t), s = t * c;
    for (int k = 0; k < TINY; k++) {
        const float x = a[p][k], y = a[q][k], f = v[p][k], g = v[q][k];
        a[p][k] = c * x - s * y, a[q][k] = s * x + c * y;
        v[p][k] = c * f - s * g, v[q][k] = s * f + c * g;
    }
    for (int k = 0; k < TINY; k++) {
        const float x = a[k][p], y = a[k][q];
        a[k][p] = c * x - s * y, a[k][q] = s * x + c * y;
    }
}

/* Eigenvalues of a small matrix (n, n), rising; its rows become the eigenvectors. */
static void rotate_all(NlbWork *w, float *small, int n)
{
    float a[TINY][TINY] = { { 0 } }, v[TINY][TINY] = { { 0 } };
    int order[TINY];
    for (int i = 0; i < n; i++) memcpy(a[i], small + i * n, (size_t)n * sizeof *small);
    for (int i = 0; i < TINY; i++) v[i][i] = 1;
    for (int sweep = 0, more = 1; sweep < 12 && more; sweep++) {
        more = 0;
        for (int p = 0; p < n; p++)
            for (int q = p + 1; q < n; q++) {
                if (a[p][q] * a[p][q] <= 1e-13f * fabsf(a[p][p] * a[q][q])) continue;
                rotate(a, v, p, q);
                more = 1;
            }
    }
    for (int i = 0; i < n; i++) {
        int at = i;
        for (; at > 0 && a[order[at - 1]][order[at - 1]] > a[i][i]; at--) order[at] = order[at - 1];
        order[at] = i;
    }
    for (int i = 0; i < n; i++) {
        w->values[i] = a[order[i]][order[i]];
        memcpy(small + i * n, v[order[i]], (size_t)n * sizeof *small);
    }
}

/* p Ritz pairs of the matrix after a few turns of subspace iteration from q (p, pitch): values rising, vectors in work->vectors.
 * q is overwritten. */
static bool ritz(const SnlsGroupLoops *loops, NlbWork *w, float *q, int64_t n, int64_t pitch, int64_t p)
{
    float *image = w->right;
    const SnlsGroupProduct turn = { .c = image, .a = q, .b = w->matrix, .c_pitch = pitch, .a_row = pitch, .a_depth = 1,
                                    .b_pitch = pitch, .rows = p, .columns = pitch, .depth = n, .scale = 1 };
    for (int i = 0; i < TURNS; i++) {
        loops->orthonormal(q, pitch, p);
        loops->product(&turn);
        if (i + 1 < TURNS) memcpy(q, image, (size_t)(p * pitch) * sizeof *q);
    }
    loops->dots(w->small, q, image, pitch, p);
    if (p <= TINY) rotate_all(w, w->small, (int)p);
    else if (!decompose(w, w->small, p, p)) return false;
    const SnlsGroupProduct back = { .c = w->vectors, .a = w->small, .b = q, .c_pitch = pitch, .a_row = p, .a_depth = 1,
                                    .b_pitch = pitch, .rows = p, .columns = pitch, .depth = p, .scale = 1 };
    loops->product(&back);
    return true;
}

static void mirror(float *a, int64_t n, int64_t pitch)
{
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < i; j++) a[i * pitch + j] = a[j * pitch + i];
}

/* Is the mean of the eigenvalues that are not among the largest above low, too? Then hardly one is noise alone: sigma is too low. */
static bool rest_is_signal(const NlbWork *w, int64_t n, int64_t have, float low)
{
    const int64_t pitch = snls_nlb_pitch(n);
    double rest = 0;
    for (int64_t i = 0; i < n; i++) rest += w->matrix[i * pitch + i];
    for (int64_t i = 0; i < have; i++) rest -= w->values[i];
    return rest > (double)low * (double)(n - have);
}

int64_t snls_nlb_eigen(const SnlsGroupLoops *loops, NlbWork *w, int64_t n, float low, const NlbStep *s,
                       const float **vectors)
{
    const int64_t pitch = snls_nlb_pitch(n), most = s->rank;
    int64_t p = s->start ? s->start : n, have = 0;
    bool good = false;
    float *q = w->left;
    mirror(w->matrix, n, pitch);
    for (; 2 * p <= n; p *= 2) {
        for (int64_t i = have; i < p; i++)
            memcpy(q + i * pitch, w->matrix + (i * n / p) * pitch, (size_t)pitch * sizeof *q);
        good = ritz(loops, w, q, n, pitch, p);
        if (!good || w->values[0] <= low || p >= most) break;
        memcpy(q, w->vectors, (size_t)(p * pitch) * sizeof *q);
        have = p;
        good = false;
    }
    if (!good && have) { /* to find the others would take longer than all the rest of the filter */
        if (rest_is_signal(w, n, have, low)) return -1;
        p = have, good = true;
    }
    if (!good) {
        memcpy(w->vectors, w->matrix, (size_t)(n * pitch) * sizeof *q);
        good = decompose(w, w->vectors, p = n, pitch);
    }
    if (!good) return 0; /* no convergence: the group's mean */
    int64_t skip = p > most ? p - most : 0;
    while (skip < p && w->values[skip] <= low) skip++;
    memmove(w->values, w->values + skip, (size_t)(p - skip) * sizeof *w->values);
    *vectors = w->vectors + skip * pitch;
    return p - skip;
}

#endif
