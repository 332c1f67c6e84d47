/* cpu_attend.c: attention inside windows in f32. A thread takes one window and head: gathers its tokens into planes, does three
 * small matrix products, and puts the result back. Gradients of the bias table are summed over windows in a fixed number of parts. */
#include "nn/cpu.h"
#include "nn/window.h"
#include <math.h>
#include <string.h>

enum { PARTS = 16 };

typedef struct Job { /* scratch of one part: tokens as rows */
    float   *q, *k, *v, *o, *a;     /* q, k, v, o: tokens x features; a: tokens x tokens */
    float   *dq, *dk, *dv, *da;     /* the same, going backward */
    int64_t *pixel;                 /* of each token, -1 = padding */
    int32_t *region;
    float   *table;                 /* this part's gradient of the bias table and, behind it, of the linear step's bias */
} Job;

typedef struct Plan { NnStep *s; NnWindows w; int64_t rows, c; const float *bias; } Plan;

static void find_tokens(const Plan *p, int64_t window, Job *j)
{
    for (int64_t i = 0; i < p->w.tokens; i++) j->pixel[i] = snls_nn_window_pixel(&p->w, window, i, &j->region[i]);
}

static void load_part(const Plan *p, const Job *j, int64_t first, float *to)
{
    const int64_t f = p->w.features;
    for (int64_t i = 0; i < p->w.tokens; i++) {
        const float *row = j->pixel[i] >= 0 ? snls_nn_row(&p->s->x[0], j->pixel[i] * 3 * p->c + first, f, to + i * f) : p->bias ? p->bias + first : NULL;
        if (!row) memset(to + i * f, 0, sizeof *to * (size_t)f);
        else if (row != to + i * f) memcpy(to + i * f, row, sizeof *to * (size_t)f);
    }
}

static void load_head(const Plan *p, int64_t head, const Job *j)
{
    float *const parts[3] = { j->q, j->k, j->v };
    for (int k = 0; k < 3; k++) load_part(p, j, k * p->c + head * p->w.features, parts[k]);
}

/* c (m x n) += factor * a (m x k, or transposed: k x m) * b (k x n, or transposed: n x k); rows of one plane are short */
static void product(float *restrict c, const float *restrict a, bool turn_a, const float *restrict b, bool turn_b, int64_t m, int64_t n, int64_t k, float factor)
{
    for (int64_t i = 0; i < m; i++)
        for (int64_t l = 0; !turn_b && l < k; l++) {
            const float x = factor * (turn_a ? a[l * m + i] : a[i * k + l]);
            for (int64_t j = 0; j < n; j++) c[i * n + j] += x * b[l * n + j];
        }
    for (int64_t i = 0; turn_b && i < m * n; i++) {
        float sum = 0;
        const float *x = a + i / n * k, *y = b + i % n * k;
#pragma omp simd reduction(+ : sum)
        for (int64_t l = 0; l < k; l++) sum += x[l] * y[l];
        c[i] += factor * sum;
    }
}

static void softmax(float *row, int64_t n)
{
    float largest = row[0], sum = 0;
    for (int64_t i = 1; i < n; i++) largest = row[i] > largest ? row[i] : largest;
    for (int64_t i = 0; i < n; i++) sum += row[i] = expf(row[i] - largest);
    for (int64_t i = 0; i < n; i++) row[i] /= sum;
}

static void find_weights(const Plan *p, int64_t head, const Job *j)
{
    const int64_t n = p->w.tokens;
    const float *table = p->s->p[0].data;
    for (int64_t i = 0; i < n * n; i++)
        j->a[i] = table[snls_nn_window_bias(&p->w, i / n, i % n) * p->w.heads + head] + (j->region[i / n] != j->region[i % n] ? (float)NN_MASKED : 0);
    product(j->a, j->q, false, j->k, true, n, n, p->w.features, 1 / sqrtf((float)p->w.features));
    for (int64_t i = 0; i < n; i++) softmax(j->a + i * n, n);
}

static void head_forward(const Plan *p, int64_t head, Job *j)
{
    const int64_t n = p->w.tokens, f = p->w.features;
    load_head(p, head, j);
    find_weights(p, head, j);
    memset(j->o, 0, sizeof(float) * (size_t)(n * f));
    product(j->o, j->a, false, j->v, false, n, f, n, 1);
    for (int64_t i = 0; i < n; i++)
        if (j->pixel[i] >= 0) snls_nn_put_row(&p->s->y[0], j->pixel[i] * p->c + head * f, f, j->o + i * f);
}

static void through_softmax(const Job *j, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        float *d = j->da + i * n, *a = j->a + i * n, along = 0;
#pragma omp simd reduction(+ : along)
        for (int64_t k = 0; k < n; k++) along += d[k] * a[k];
        for (int64_t k = 0; k < n; k++) d[k] = (d[k] - along) * a[k];
    }
}

static void give_back(const Plan *p, int64_t first, const Job *j, const float *from)
{
    const int64_t f = p->w.features, rows = p->rows * p->w.heads;
    for (int64_t i = 0; i < p->w.tokens; i++) {
        float *to = j->pixel[i] < 0 ? j->table + rows + first : p->s->dx[0].data ? (float *)p->s->dx[0].data + j->pixel[i] * 3 * p->c + first : NULL;
        for (int64_t k = 0; to && k < f; k++) to[k] += from[i * f + k];
    }
}

static void head_backward(const Plan *p, int64_t head, Job *j)
{
    const int64_t n = p->w.tokens, f = p->w.features;
    const float scale = 1 / sqrtf((float)f);
    load_head(p, head, j);
    find_weights(p, head, j);
    for (int64_t i = 0; i < n; i++)
        if (j->pixel[i] >= 0) memcpy(j->o + i * f, (const float *)p->s->dy[0].data + j->pixel[i] * p->c + head * f, sizeof(float) * (size_t)f);
        else memset(j->o + i * f, 0, sizeof(float) * (size_t)f);
    memset(j->dq, 0, sizeof(float) * (size_t)(3 * n * f)); /* dq, dk and dv lie together */
    memset(j->da, 0, sizeof(float) * (size_t)(n * n));
    product(j->da, j->o, false, j->v, true, n, n, f, 1);
    product(j->dv, j->a, true, j->o, false, n, f, n, 1);
    through_softmax(j, n);
    product(j->dq, j->da, false, j->k, false, n, f, n, scale);
    product(j->dk, j->da, true, j->q, false, n, f, n, scale);
    for (int64_t i = 0; i < n * n; i++) j->table[snls_nn_window_bias(&p->w, i / n, i % n) * p->w.heads + head] += j->da[i];
    float *const parts[3] = { j->dq, j->dk, j->dv };
    for (int k = 0; k < 3; k++) give_back(p, k * p->c + head * f, j, parts[k]);
}

/* Lays a part's scratch out in one block of floats; returns how many. base NULL: only counts. */
static int64_t lay_out(const Plan *p, float *base, Job *j)
{
    const int64_t n = p->w.tokens, nf = n * p->w.features, table = p->rows * p->w.heads + 3 * p->c;
    const int64_t total = 7 * nf + 2 * n * n + table + 3 * n + 16;
    if (!base) return (total + 15) / 16 * 16;
    float *at = base;
    float **const blocks[7] = { &j->q, &j->k, &j->v, &j->o, &j->dq, &j->dk, &j->dv };
    j->pixel = (int64_t *)(void *)at, at += 2 * n;
    j->region = (int32_t *)(void *)at, at += n;
    for (int i = 0; i < 7; i++) *blocks[i] = at, at += nf;
    j->a = at, at += n * n;
    j->da = at, at += n * n;
    j->table = at;
    memset(j->table, 0, sizeof(float) * (size_t)table);
    return total;
}

static SnlsStatus for_each_head(SnlsContext *ctx, NnStep *s, void (*visit)(const Plan *, int64_t, Job *), Job *jobs)
{
    Plan p = { .s = s, .w = snls_nn_windows(s), .rows = s->p[0].shape[0], .c = s->y[0].shape[3], .bias = s->p[1].data };
    const int64_t each = lay_out(&p, NULL, NULL), windows = snls_nn_window_count(&p.w);
    SNLS_REQUIRE(ctx, s->x[0].dtype == SNLS_F32 || s->x[0].dtype == SNLS_BF16, SNLS_ERR_UNSUPPORTED, "network: attend on backend cpu is in f32 or bf16");
    snls_arena_begin(&ctx->arena);
    snls_arena_plan(&ctx->arena, PARTS * each, sizeof(float));
    SNLS_TRY(snls_scratch_commit(ctx, "attend"));
    float *scratch = snls_arena_claim(&ctx->arena, PARTS * each, sizeof(float));
#pragma omp parallel for num_threads(ctx->threads) schedule(static)
    for (int part = 0; part < PARTS; part++) {
        lay_out(&p, scratch + part * each, &jobs[part]);
        for (int64_t w = windows * part / PARTS; w < windows * (part + 1) / PARTS; w++) {
            find_tokens(&p, w, &jobs[part]);
            for (int64_t head = 0; head < p.w.heads; head++) visit(&p, head, &jobs[part]);
        }
    }
    return SNLS_OK;
}

SnlsStatus snls_nn_cpu_attend_forward(SnlsContext *ctx, NnStep *s)
{
    Job jobs[PARTS];
    return for_each_head(ctx, s, head_forward, jobs);
}

SnlsStatus snls_nn_cpu_attend_backward(SnlsContext *ctx, NnStep *s)
{
    Job jobs[PARTS];
    const int64_t rows = snls_tensor_elements(&s->p[0]), c = 3 * s->y[0].shape[3];
    SNLS_REQUIRE(ctx, s->x[0].dtype == SNLS_F32, SNLS_ERR_UNSUPPORTED, "network: gradients of attend on backend cpu are in f32");
    SNLS_TRY(for_each_head(ctx, s, head_backward, jobs));
    float *table = s->dp[0].data, *bias = s->dp[1].data;
    for (int part = 0; part < PARTS; part++) {
        for (int64_t i = 0; table && i < rows; i++) table[i] += jobs[part].table[i];
        for (int64_t i = 0; bias && i < c; i++) bias[i] += jobs[part].table[rows + i];
    }
    return SNLS_OK;
}
