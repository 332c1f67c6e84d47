/* group_body.h: the matrices of a group, included once for each instruction set with GROUP_LOOPS as the name of the function that
 * fills the table, GROUP_LANES as the floats of a vector, GROUP_ROWS as the rows of a product that are summed at a time, and
 * GROUP_MADD(a, b, c) for a * b + c. Vectors of eight floats, where they can be turned over: the type Eight, eight_load, eight_store,
 * eight_plus(x, number), turn_8. */
#include "simd/group.h"
#include <math.h>
#include <stddef.h>
#include <string.h>
#if GROUP_LANES >= 8
#    include "simd/turn.h"
#    define GROUP_TURNS 1
#    define Eight __m256
#    define eight_load(p) _mm256_loadu_ps(p)
#    define eight_store(p, x) _mm256_storeu_ps(p, x)
#    define eight_plus(x, number) _mm256_add_ps(x, _mm256_set1_ps(number))
#elif !defined(GROUP_TURNS)
#    define GROUP_TURNS 0
#endif

typedef float Lanes __attribute__((vector_size(4 * GROUP_LANES)));
#ifndef ALWAYS
#    define ALWAYS static inline __attribute__((always_inline))
#endif
#define LOAD(to, from)  memcpy(&(to), (from), sizeof(to))
#define STORE(to, from) memcpy((to), &(from), sizeof(from))

ALWAYS Lanes splat(float x) { return x - (Lanes){ 0 }; }

enum { RUN = SNLS_GROUP_LANES / GROUP_LANES }; /* vectors of 16 floats */

/* Sixteen sums to one: lanes 8 apart, then 4, 2 and 1, whatever the width. */
ALWAYS float sum_of(const Lanes *v)
{
    float s[SNLS_GROUP_LANES / 2];
#if GROUP_LANES == 16
    const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(*v), _mm512_extractf32x8_ps(*v, 1));
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    _mm_storeu_ps(s, four);
#elif GROUP_LANES == 8
    const __m256 eight = _mm256_add_ps(v[0], v[1]);
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    _mm_storeu_ps(s, four);
#else
    const Lanes four = (v[0] + v[2]) + (v[1] + v[3]);
    STORE(s, four);
#endif
    return (s[0] + s[2]) + (s[1] + s[3]);
}

/* ---- products ---- */

enum { SET, REDUCE }; /* c = scale * sum, c -= sum */

/* rows x vectors sums in registers; both are constants where this is called. */
ALWAYS void block(const SnlsGroupProduct *p, int64_t i, int64_t j, int rows, int vectors, int mode)
{
    Lanes sum[GROUP_ROWS][3], b[3];
    const float *a = p->a + i * p->a_row, *from = p->b + j;
    float *c = p->c + i * p->c_pitch + j;
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vectors; v++) {
            sum[r][v] = (Lanes){ 0 };
            if (mode == REDUCE) LOAD(sum[r][v], c + r * p->c_pitch + v * GROUP_LANES);
        }
    for (int64_t k = 0; k < p->depth; k++, a += p->a_depth, from += p->b_pitch) {
        for (int v = 0; v < vectors; v++) LOAD(b[v], from + v * GROUP_LANES);
        for (int r = 0; r < rows; r++) {
            const Lanes x = splat(mode == REDUCE ? -a[r * p->a_row] : a[r * p->a_row]);
            for (int v = 0; v < vectors; v++) sum[r][v] = GROUP_MADD(x, b[v], sum[r][v]);
        }
    }
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vectors; v++) {
            if (mode == SET) sum[r][v] *= p->scale;
            STORE(c + r * p->c_pitch + v * GROUP_LANES, sum[r][v]);
        }
}

ALWAYS void rows_of(const SnlsGroupProduct *p, int64_t i, int64_t first, int rows, int mode)
{
    int64_t j = first;
    while (j < p->columns) {
        const int64_t left = (p->columns - j) / GROUP_LANES;
        const int take = left == 4 || left == 2 ? 2 : left >= 3 ? 3 : 1;
        if (take == 3) block(p, i, j, rows, 3, mode);
        else if (take == 2) block(p, i, j, rows, 2, mode);
        else block(p, i, j, rows, 1, mode);
        j += take * GROUP_LANES;
    }
}

ALWAYS void all_rows(const SnlsGroupProduct *p, int mode)
{
    int64_t i = 0;
    for (; i + GROUP_ROWS <= p->rows; i += GROUP_ROWS)
        rows_of(p, i, p->upper ? i / SNLS_GROUP_LANES * SNLS_GROUP_LANES : 0, GROUP_ROWS, mode);
    for (; i < p->rows; i++) rows_of(p, i, p->upper ? i / SNLS_GROUP_LANES * SNLS_GROUP_LANES : 0, 1, mode);
}

static void product(const SnlsGroupProduct *p) { all_rows(p, SET); }
static void reduce(const SnlsGroupProduct *p) { all_rows(p, REDUCE); }

/* ---- positive definite systems ---- */

static void scale_row(float *row, int64_t count, float by)
{
    for (int64_t j = 0; j < count; j += GROUP_LANES) {
        Lanes v;
        LOAD(v, row + j);
        v *= by;
        STORE(row + j, v);
    }
}

static void reduce_row(float *row, const float *other, int64_t count, float by)
{
    const Lanes x = splat(-by);
    for (int64_t j = 0; j < count; j += GROUP_LANES) {
        Lanes v, o;
        LOAD(v, row + j);
        LOAD(o, other + j);
        v = GROUP_MADD(x, o, v);
        STORE(row + j, v);
    }
}

/* x = U'U row by row, and U'^-1 of the right sides with it. 1 / diagonal is left in its place. */
static bool eliminate(float *x, int64_t pitch, int64_t n)
{
    for (int64_t i = 0; i < n; i += GROUP_ROWS) {
        const int64_t rows = n - i < GROUP_ROWS ? n - i : GROUP_ROWS, from = i / GROUP_LANES * GROUP_LANES,
                      count = pitch - from;
        const SnlsGroupProduct before = { .c = x + i * pitch + from, .a = x + i, .b = x + from, .c_pitch = pitch,
                                          .a_row = 1, .a_depth = pitch, .b_pitch = pitch, .rows = rows,
                                          .columns = count, .depth = i };
        reduce(&before);
        for (int64_t r = i; r < i + rows; r++) {
            float *row = x + r * pitch;
            for (int64_t k = i; k < r; k++) reduce_row(row + from, x + k * pitch + from, count, x[k * pitch + r]);
            if (!(row[r] > 0)) return false;
            const float by = 1 / sqrtf(row[r]);
            scale_row(row + from, count, by);
            row[r] = by;
        }
    }
    return true;
}

static bool solve(float *x, int64_t pitch, int64_t n, int64_t right)
{
    if (!eliminate(x, pitch, n)) return false;
    const int64_t count = pitch - right;
    for (int64_t past = n; past > 0;) {
        const int64_t rows = past < GROUP_ROWS ? past : GROUP_ROWS, i = past - rows;
        const SnlsGroupProduct behind = { .c = x + i * pitch + right, .a = x + i * pitch + past,
                                          .b = x + past * pitch + right, .c_pitch = pitch, .a_row = pitch,
                                          .a_depth = 1, .b_pitch = pitch, .rows = rows, .columns = count,
                                          .depth = n - past };
        reduce(&behind);
        for (int64_t r = past; r-- > i;) {
            float *row = x + r * pitch;
            for (int64_t k = r + 1; k < past; k++) reduce_row(row + right, x + k * pitch + right, count, row[k]);
            scale_row(row + right, count, row[r]);
        }
        past = i;
    }
    return true;
}

/* ---- rows ---- */

static float dot(const float *a, const float *b, int64_t pitch)
{
    Lanes sum[RUN] = { { 0 } }, x, y;
    for (int64_t j = 0; j < pitch; j += SNLS_GROUP_LANES)
        for (int v = 0; v < RUN; v++) {
            LOAD(x, a + j + v * GROUP_LANES);
            LOAD(y, b + j + v * GROUP_LANES);
            sum[v] = GROUP_MADD(x, y, sum[v]);
        }
    return sum_of(sum);
}

static void dots(float *c, const float *a, const float *b, int64_t pitch, int64_t rows)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < rows; j++) c[i * rows + j] = dot(a + i * pitch, b + j * pitch, pitch);
}

/* Gram and Schmidt, twice: what is left of the others after once is rounding. */
static void orthonormal(float *q, int64_t pitch, int64_t rows)
{
    const float least = 1e-10f; /* of a row's square, after the others are taken off: below it is rounding alone */
    for (int64_t i = 0; i < rows; i++) {
        float *row = q + i * pitch;
        const float whole = dot(row, row, pitch);
        for (int again = 0; again < 2; again++)
            for (int64_t k = 0; k < i; k++) reduce_row(row, q + k * pitch, pitch, dot(row, q + k * pitch, pitch));
        const float rest = dot(row, row, pitch);
        scale_row(row, pitch, rest > least * whole ? 1 / sqrtf(rest) : 0);
    }
}

static float centre(float *x, int64_t pitch, int64_t rows, int64_t count, float *mean)
{
    float ones[SNLS_GROUP_LANES];
    Lanes squares[RUN] = { { 0 } }, wanted[RUN], v;
    const int64_t last = pitch - SNLS_GROUP_LANES;
    for (int64_t i = 0; i < SNLS_GROUP_LANES; i++) ones[i] = last + i < count;
    memcpy(wanted, ones, sizeof wanted);
    for (int64_t r = 0; r < rows; r++) {
        float *row = x + r * pitch;
        Lanes sum[RUN] = { { 0 } };
        for (int i = 0; i < RUN; i++) {
            LOAD(v, row + last + i * GROUP_LANES);
            sum[i] = v * wanted[i];
        }
        for (int64_t j = 0; j < last; j += SNLS_GROUP_LANES)
            for (int i = 0; i < RUN; i++) {
                LOAD(v, row + j + i * GROUP_LANES);
                sum[i] += v;
            }
        mean[r] = sum_of(sum) / (float)count;
        for (int64_t j = 0; j < pitch; j += SNLS_GROUP_LANES)
            for (int i = 0; i < RUN; i++) {
                LOAD(v, row + j + i * GROUP_LANES);
                v -= mean[r];
                if (j == last) v *= wanted[i];
                squares[i] = GROUP_MADD(v, v, squares[i]);
                STORE(row + j + i * GROUP_LANES, v);
            }
    }
    return sum_of(squares);
}

/* ---- patches to columns and back ---- */

#if GROUP_TURNS

/* Eight patches at a time; a row is read as eight floats, of which the last is not wanted. */
static void gather_sevens(float *x, int64_t pitch, const float *const *at, int64_t count, int64_t stride)
{
    for (int64_t i = 0; i < count; i += 8) {
        const float *from[8];
        for (int64_t k = 0; k < 8; k++) from[k] = at[i + k < count ? i + k : count - 1];
        for (int64_t r = 0; r < 7; r++) {
            Eight row[8];
            for (int k = 0; k < 8; k++) row[k] = eight_load(from[k] + r * stride);
            turn_8(row);
            for (int c = 0; c < 7; c++) eight_store(x + (7 * r + c) * pitch + i, row[c]);
        }
    }
    const int64_t filled = (count + 7) / 8 * 8;
    for (int64_t r = 0; r < 49 && filled < pitch; r++)
        memset(x + r * pitch + filled, 0, (size_t)(pitch - filled) * sizeof *x);
}

/* Eight values of eight patches at a time; the last eight may be some of those before once more. */
static void scatter_eights(float *out, const float *x, int64_t pitch, int64_t rows, int64_t count, const float *mean)
{
    for (int64_t done = 0; done < rows; done += 8) {
        const int64_t r = done + 8 > rows ? rows - 8 : done;
        for (int64_t i = 0; i < count; i += 8) {
            Eight row[8];
            for (int k = 0; k < 8; k++)
                row[k] = eight_plus(eight_load(x + (r + k) * pitch + i), mean[r + k]);
            turn_8(row);
            for (int64_t k = 0; k < 8 && i + k < count; k++) eight_store(out + (i + k) * rows + r, row[k]);
        }
    }
}

#endif

static void scatter(float *out, const float *x, int64_t pitch, int64_t rows, int64_t count, const float *mean)
{
#if GROUP_TURNS
    if (rows >= 8) {
        scatter_eights(out, x, pitch, rows, count, mean);
        return;
    }
#endif
    for (int64_t i = 0; i < count; i++)
        for (int64_t r = 0; r < rows; r++) out[i * rows + r] = x[r * pitch + i] + mean[r];
}

static void gather(float *x, int64_t pitch, const float *const *at, int64_t count, int64_t stride, int64_t side)
{
#if GROUP_TURNS
    if (side == 7) {
        gather_sevens(x, pitch, at, count, stride);
        return;
    }
#endif
    for (int64_t r = 0; r < side * side; r++)
        for (int64_t i = 0; i < pitch; i++)
            x[r * pitch + i] = i < count ? at[i][r / side * stride + r % side] : 0;
}

GROUP_SCOPE void GROUP_LOOPS(SnlsGroupLoops *loops);
GROUP_SCOPE void GROUP_LOOPS(SnlsGroupLoops *loops)
{
    *loops = (SnlsGroupLoops){ gather, centre, scatter, product, solve, orthonormal, dots };
}
