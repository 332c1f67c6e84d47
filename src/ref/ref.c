/* ref.c: bilinear reads and gradient sums that the reference operators share, and the backend table. */
#include "ref/ref.h"

bool snls_ref_read_at(RefRead *read, double u, double v, int64_t height, int64_t width, bool drop)
{
    if (drop && !(snls_inside(u, height) && snls_inside(v, width))) return false;
    read->y = snls_taps(snls_reflect_real(u, height), height);
    read->x = snls_taps(snls_reflect_real(v, width), width);
    read->slope_y = snls_reflect_slope(u, height);
    read->slope_x = snls_reflect_slope(v, width);
    return true;
}

double snls_ref_value(const SnlsTensor *t, int64_t base, int64_t step_y, int64_t step_x, const RefRead *read)
{
    double sum = 0;
    for (int a = 0; a < 2; a++)
        for (int b = 0; b < 2; b++) {
            const double weight = read->y.weight[a] * read->x.weight[b];
            if (weight != 0) sum += weight * snls_load(t, base + read->y.at[a] * step_y + read->x.at[b] * step_x);
        }
    return sum;
}

/* d value / d position along y: the difference of the two rows, read at x */
double snls_ref_slope_y(const SnlsTensor *t, int64_t base, int64_t step_y, int64_t step_x, const RefRead *read)
{
    double sum = 0;
    for (int b = 0; b < 2; b++) {
        const int64_t at = base + read->x.at[b] * step_x;
        if (read->x.weight[b] != 0)
            sum += read->x.weight[b] * (snls_load(t, at + read->y.at[1] * step_y) - snls_load(t, at + read->y.at[0] * step_y));
    }
    return read->slope_y * sum;
}

double snls_ref_slope_x(const SnlsTensor *t, int64_t base, int64_t step_y, int64_t step_x, const RefRead *read)
{
    const RefRead turned = {.y = read->x, .x = read->y, .slope_y = read->slope_x, .slope_x = read->slope_y};
    return snls_ref_slope_y(t, base, step_x, step_y, &turned);
}

void snls_ref_spread(const RefSum *sum, int64_t base, int64_t step_y, int64_t step_x, const RefRead *read, double value)
{
    for (int a = 0; a < 2; a++)
        for (int b = 0; b < 2; b++) {
            const double weight = read->y.weight[a] * read->x.weight[b];
            if (weight != 0) snls_ref_add(sum, base + read->y.at[a] * step_y + read->x.at[b] * step_x, weight * value);
        }
}

void snls_ref_sum_plan(SnlsContext *ctx, const SnlsTensor *to)
{
    if (to->data) snls_arena_plan(&ctx->arena, snls_tensor_elements(to), sizeof(double));
}

void snls_ref_sum_claim(SnlsContext *ctx, RefSum *sum, const SnlsTensor *to)
{
    *sum = (RefSum){.to = *to};
    if (!to->data) return;
    const int64_t n = snls_tensor_elements(to);
    double *block = snls_arena_claim(&ctx->arena, n, sizeof *block);
    for (int64_t i = 0; i < n; i++) block[i] = 0;
    sum->view = snls_tensor(block, SNLS_F64, to->ndim, to->shape);
}

/* Calls visit for every element: its number in t, its number in C order. */
static void for_each_element(const SnlsTensor *t, void (*visit)(const SnlsTensor *, int64_t, int64_t, const void *), const void *user)
{
    int64_t index[SNLS_MAX_DIM] = {0};
    const int64_t n = snls_tensor_elements(t);
    for (int64_t i = 0; i < n; i++) {
        int64_t at = 0;
        for (int32_t d = 0; d < t->ndim; d++) at += index[d] * t->stride[d];
        visit(t, at, i, user);
        for (int32_t d = t->ndim; d-- > 0;) {
            if (++index[d] < t->shape[d]) break;
            index[d] = 0;
        }
    }
}

static void add_one(const SnlsTensor *to, int64_t at, int64_t i, const void *user)
{
    snls_store(to, at, snls_load(to, at) + ((const double *)user)[i]);
}

static void fill_one(const SnlsTensor *to, int64_t at, int64_t i, const void *user)
{
    (void)i;
    snls_store(to, at, *(const double *)user);
}

void snls_ref_sum_finish(const RefSum *sum)
{
    if (sum->view.data) for_each_element(&sum->to, add_one, sum->view.data);
}

void snls_ref_fill(const SnlsTensor *t, double value) { for_each_element(t, fill_one, &value); }

static SnlsStatus ref_open(SnlsContext *ctx)
{
    ctx->cpu_level = SNLS_CPU_C;
    ctx->threads = 1;
    return SNLS_OK;
}

const SnlsBackend snls_backend_ref = {
    .name = "ref",
    .device = SNLS_DEVICE_CPU,
    .open = ref_open,
#define X(op, Op) .op##_forward = snls_ref_##op##_forward, .op##_backward = snls_ref_##op##_backward,
    SNLS_OPS(X)
#undef X
};
