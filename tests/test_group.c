/* test_group.c: the matrices of a group of patches: every instruction set against sums in double.
 *   test_group         many seeds        test_group SEED   that one
 */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "dsp.h"
#include "simd/group.h"

enum { SIDE_MOST = 7, COUNT_MOST = 40 };

typedef struct GroupTest {
    SnlsGroupLoops loops;
    const char *level;
    Rng rng;
    Block in[2], out;
} GroupTest;

static int64_t pitch_of(int64_t n) { return (n + SNLS_GROUP_LANES - 1) / SNLS_GROUP_LANES * SNLS_GROUP_LANES; }

/* (rows, pitch) floats, those behind the last column 0. */
static float *matrix(GroupTest *t, Block b, int64_t rows, int64_t columns)
{
    float *const m = place(b, &t->rng, rows * pitch_of(columns), sizeof *m);
    for (int64_t i = 0; i < rows * pitch_of(columns); i++)
        m[i] = i % pitch_of(columns) < columns ? (float)rng_real(&t->rng, -1, 1) : 0;
    return m;
}

static bool is_near(double got, double want, double magnitude, int64_t terms)
{
    return fabs(got - want) <= (double)(terms + 4) * FLT_EPSILON * magnitude;
}

static void check_product(GroupTest *t)
{
    const int64_t rows = rng_int(&t->rng, 1, 50), columns = rng_int(&t->rng, 1, 70), depth = rng_int(&t->rng, 0, 60),
                  pitch = pitch_of(columns);
    const bool turned = rng_one_in(&t->rng, 2), upper = rng_one_in(&t->rng, 3);
    const int64_t a_pitch = pitch_of(turned ? rows : depth ? depth : 1);
    const float *a = turned ? matrix(t, t->in[0], depth ? depth : 1, rows) : matrix(t, t->in[0], rows, depth ? depth : 1),
                *b = matrix(t, t->in[1], depth ? depth : 1, columns);
    float *c = place_out(t->out, &t->rng, rows * pitch, sizeof *c);
    const SnlsGroupProduct p = { .c = c, .a = a, .b = b, .c_pitch = pitch, .a_row = turned ? 1 : a_pitch,
                                 .a_depth = turned ? a_pitch : 1, .b_pitch = pitch, .rows = rows, .columns = pitch,
                                 .depth = depth, .scale = 0.5f, .upper = upper };
    t->loops.product(&p);
    CHECK(guards_hold(t->out, c, rows * pitch, sizeof *c), "%s product %d x %d wrote outside", t->level, (int)rows, (int)columns);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = upper ? i : 0; j < pitch; j++) {
            double sum = 0, magnitude = 0;
            for (int64_t k = 0; k < depth; k++) {
                const double term = 0.5 * (double)a[i * p.a_row + k * p.a_depth] * (double)b[k * pitch + j];
                sum += term, magnitude += fabs(term);
            }
            CHECK(is_near(c[i * pitch + j], sum, magnitude, depth), "%s product %d x %d x %d: [%d][%d] is %.9g, want %.9g", t->level, (int)rows,
                  (int)columns, (int)depth, (int)i, (int)j, (double)c[i * pitch + j], sum);
        }
}

/* A (n, n) = B'B + 1, right sides of any number; A x must be what they were. The condition of A is small, so that errors are. */
static void check_solve(GroupTest *t)
{
    const int64_t n = rng_int(&t->rng, 1, 50), columns = rng_int(&t->rng, 1, 50), right = pitch_of(n), pitch = right + pitch_of(columns);
    const float *b = matrix(t, t->in[0], n, n);
    static double a[50][50], m[50][50];
    float *x = place_out(t->out, &t->rng, n * pitch, sizeof *x);
    memset(x, 0, (size_t)(n * pitch) * sizeof *x);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = i == j ? 1 : 0;
            for (int64_t k = 0; k < n; k++) sum += (double)b[k * right + i] * (double)b[k * right + j] / (double)n;
            a[i][j] = sum;
            x[i * pitch + j] = (float)(j >= i ? sum : 7); /* the lower half is not read */
        }
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < columns; j++) m[i][j] = x[i * pitch + right + j] = (float)rng_real(&t->rng, -1, 1);
    CHECK(t->loops.solve(x, pitch, n, right), "%s solve %d: said not to be positive definite", t->level, (int)n);
    CHECK(guards_hold(t->out, x, n * pitch, sizeof *x), "%s solve %d wrote outside", t->level, (int)n);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < columns; j++) {
            double sum = 0;
            for (int64_t k = 0; k < n; k++) sum += a[i][k] * (double)x[k * pitch + right + j];
            CHECK(fabs(sum - m[i][j]) < 1e-4, "%s solve %d: row %d of side %d is %.9g, want %.9g", t->level, (int)n, (int)i, (int)j, sum, m[i][j]);
        }
    memset(x, 0, (size_t)(n * pitch) * sizeof *x);
    for (int64_t i = 0; i < n; i++) x[i * pitch + i] = i == n - 1 ? -1 : 1;
    CHECK(!t->loops.solve(x, pitch, n, right), "%s solve %d took a negative pivot", t->level, (int)n);
}

/* A frame that ends where memory does, less the float behind each row; patches anywhere, the last one at its end. */
static void check_patches(GroupTest *t)
{
    const int64_t side = rng_one_in(&t->rng, 2) ? 7 : rng_int(&t->rng, 1, SIDE_MOST), stride = side + rng_int(&t->rng, 1, 9),
                  height = side + rng_int(&t->rng, 0, 5), count = rng_int(&t->rng, 1, COUNT_MOST), pitch = pitch_of(count), dim = side * side;
    const int64_t floats = height * stride + 1;
    float *frame = place(t->in[0], &t->rng, floats, sizeof *frame), mean[SIDE_MOST * SIDE_MOST];
    for (int64_t i = 0; i < floats; i++) frame[i] = (float)rng_real(&t->rng, -1, 1);
    const float *at[COUNT_MOST];
    for (int64_t i = 0; i < count; i++)
        at[i] = frame + (i == count - 1 ? (height - side) * stride + stride - side : rng_int(&t->rng, 0, height - side) * stride + rng_int(&t->rng, 0, stride - side));
    float *x = place_out(t->out, &t->rng, dim * pitch, sizeof *x), *back = place(t->in[1], &t->rng, dim * count, sizeof *back);
    t->loops.gather(x, pitch, at, count, stride, side);
    CHECK(guards_hold(t->out, x, dim * pitch, sizeof *x), "%s gather of %d wrote outside", t->level, (int)count);
    for (int64_t i = 0; i < dim * count; i++)
        CHECK(x[i / count * pitch + i % count] == at[i % count][i / count / side * stride + i / count % side], "%s gather: value %d", t->level, (int)i);
    const float squares = t->loops.centre(x, pitch, dim, count, mean);
    double all = 0;
    for (int64_t r = 0; r < dim; r++) {
        double sum = 0;
        for (int64_t i = 0; i < count; i++) sum += at[i][r / side * stride + r % side] / (double)count;
        CHECK(is_near(mean[r], sum, 1, count), "%s centre: mean %d is %.9g, want %.9g", t->level, (int)r, (double)mean[r], sum);
        for (int64_t i = 0; i < pitch; i++) {
            const double want = i < count ? at[i][r / side * stride + r % side] - mean[r] : 0;
            CHECK(fabs(x[r * pitch + i] - want) <= FLT_EPSILON, "%s centre: [%d][%d] is %.9g, want %.9g", t->level, (int)r, (int)i, (double)x[r * pitch + i], want);
            all += want * want;
        }
    }
    CHECK(is_near(squares, all, all, dim * count), "%s centre: squares are %.9g, want %.9g", t->level, (double)squares, all);
    t->loops.scatter(back, x, pitch, dim, count, mean);
    for (int64_t i = 0; i < dim * count; i++)
        CHECK(back[i] == x[i % dim * pitch + i / dim] + mean[i % dim], "%s scatter: patch %d", t->level, (int)(i / dim));
}

static void check_rows(GroupTest *t)
{
    const int64_t n = rng_int(&t->rng, 1, 50), rows = rng_int(&t->rng, 1, n < 16 ? n : 16), pitch = pitch_of(n);
    float *q = matrix(t, t->in[0], rows, n), c[16 * 16];
    const int64_t twin = rows > 1 && n > 1 && rng_one_in(&t->rng, 3) ? rows - 1 : -1; /* this row adds nothing */
    if (twin > 0) memcpy(q + twin * pitch, q, (size_t)pitch * sizeof *q);
    t->loops.orthonormal(q, pitch, rows);
    t->loops.dots(c, q, q, pitch, rows);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < rows; j++) {
            double sum = 0;
            for (int64_t k = 0; k < n; k++) sum += (double)q[i * pitch + k] * (double)q[j * pitch + k];
            CHECK(is_near(c[i * rows + j], sum, 1, n), "%s dots: [%d][%d] is %.9g, want %.9g", t->level, (int)i, (int)j, (double)c[i * rows + j], sum);
            CHECK(fabs(sum - (i == j && i != twin)) < 1e-5, "%s orthonormal: rows %d and %d of %d have %.9g in common", t->level, (int)i, (int)j, (int)rows, sum);
        }
}

int main(int argc, char **argv)
{
    const uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1, last = argc > 1 ? first : SEEDS;
    static GroupTest t;
    for (int i = 0; i < 2; i++) t.in[i] = block_new();
    t.out = block_new();
    for (int level = 1; level <= snls_dsp_level_max(); level++) {
        t.level = level_names[level];
        snls_group_loops(&t.loops, level);
        for (uint64_t seed = first; seed <= last; seed++) {
            check_repeat("test_group %llu", (unsigned long long)seed);
            t.rng.state = seed;
            check_product(&t);
            check_solve(&t);
            check_patches(&t);
            check_rows(&t);
        }
    }
    return check_end();
}
