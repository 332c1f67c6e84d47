/* ref_attend.c: attention inside windows, in plain loops in double. Where tokens are is in window.h. */
#include "nn/window.h"
#include <math.h>

typedef enum Part { QUERY = 0, KEY = 1, VALUE = 2 } Part;

typedef struct Head { /* one head of one window */
    NnStep   *s;
    NnWindows w;
    int64_t   window, head;
    double   *weight, *d_weight; /* tokens x tokens */
} Head;

static int64_t place_of(const Head *h, Part part, int64_t token, int64_t f, bool *padding)
{
    int32_t region;
    const int64_t c = h->w.heads * h->w.features, pixel = snls_nn_window_pixel(&h->w, h->window, token, &region);
    const int64_t channel = part * c + h->head * h->w.features + f;
    *padding = pixel < 0;
    return *padding ? channel : pixel * 3 * c + channel;
}

static double load(const Head *h, Part part, int64_t token, int64_t f)
{
    bool padding;
    const int64_t at = place_of(h, part, token, f, &padding);
    if (padding) return h->s->p[1].data ? snls_load(&h->s->p[1], at) : 0;
    return snls_load(&h->s->x[0], at);
}

static void pull(const Head *h, Part part, int64_t token, int64_t f, double gradient)
{
    bool padding;
    const int64_t at = place_of(h, part, token, f, &padding);
    const SnlsTensor *to = padding ? &h->s->dp[1] : &h->s->dx[0];
    if (to->data) snls_nn_accumulate(to, at, gradient);
}

static int64_t out_at(const Head *h, int64_t token, int64_t f) /* -1: padding, whose result is cut off */
{
    int32_t region;
    const int64_t pixel = snls_nn_window_pixel(&h->w, h->window, token, &region);
    return pixel < 0 ? -1 : (pixel * h->w.heads + h->head) * h->w.features + f;
}

static double score(const Head *h, int64_t i, int64_t j)
{
    int32_t mine, other;
    double sum = 0;
    for (int64_t f = 0; f < h->w.features; f++) sum += load(h, QUERY, i, f) * load(h, KEY, j, f);
    snls_nn_window_pixel(&h->w, h->window, i, &mine);
    snls_nn_window_pixel(&h->w, h->window, j, &other);
    return sum / sqrt((double)h->w.features) + snls_load(&h->s->p[0], snls_nn_window_bias(&h->w, i, j) * h->w.heads + h->head) +
           (mine != other ? NN_MASKED : 0);
}

static void softmax(double *row, int64_t n)
{
    double largest = row[0], sum = 0;
    for (int64_t j = 1; j < n; j++) largest = fmax(largest, row[j]);
    for (int64_t j = 0; j < n; j++) sum += row[j] = exp(row[j] - largest);
    for (int64_t j = 0; j < n; j++) row[j] /= sum;
}

static void find_weights(const Head *h)
{
    const int64_t n = h->w.tokens;
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < n; j++) h->weight[i * n + j] = score(h, i, j);
        softmax(h->weight + i * n, n);
    }
}

static void head_forward(const Head *h)
{
    const int64_t n = h->w.tokens;
    find_weights(h);
    for (int64_t i = 0; i < n; i++)
        for (int64_t f = 0; f < h->w.features; f++) {
            double sum = 0;
            for (int64_t j = 0; j < n; j++) sum += h->weight[i * n + j] * load(h, VALUE, j, f);
            if (out_at(h, i, f) >= 0) snls_store(&h->s->y[0], out_at(h, i, f), sum);
        }
}

static double pulled(const Head *h, int64_t i, int64_t f) { return out_at(h, i, f) < 0 ? 0 : snls_load(&h->s->dy[0], out_at(h, i, f)); }

/* d weight, then through the softmax to d score */
static void find_score_gradients(const Head *h, int64_t i)
{
    const int64_t n = h->w.tokens;
    double *d = h->d_weight + i * n, along = 0;
    for (int64_t j = 0; j < n; j++) {
        d[j] = 0;
        for (int64_t f = 0; f < h->w.features; f++) d[j] += pulled(h, i, f) * load(h, VALUE, j, f);
        along += d[j] * h->weight[i * n + j];
    }
    for (int64_t j = 0; j < n; j++) d[j] = (d[j] - along) * h->weight[i * n + j];
}

static void head_backward(const Head *h)
{
    const int64_t n = h->w.tokens;
    const double scale = 1 / sqrt((double)h->w.features);
    find_weights(h);
    for (int64_t i = 0; i < n; i++) find_score_gradients(h, i);
    for (int64_t i = 0; i < n * n; i++) {
        const int64_t q = i / n, k = i % n;
        for (int64_t f = 0; f < h->w.features; f++) {
            pull(h, QUERY, q, f, scale * h->d_weight[i] * load(h, KEY, k, f));
            pull(h, KEY, k, f, scale * h->d_weight[i] * load(h, QUERY, q, f));
            pull(h, VALUE, k, f, h->weight[i] * pulled(h, q, f));
        }
        if (h->s->dp[0].data) snls_nn_accumulate(&h->s->dp[0], snls_nn_window_bias(&h->w, q, k) * h->w.heads + h->head, h->d_weight[i]);
    }
}

static SnlsStatus for_each_head(SnlsContext *ctx, NnStep *s, void (*visit)(const Head *))
{
    Head h = { .s = s, .w = snls_nn_windows(s) };
    const int64_t pairs = h.w.tokens * h.w.tokens;
    snls_arena_begin(&ctx->arena);
    snls_arena_plan(&ctx->arena, 2 * pairs, sizeof(double));
    SNLS_TRY(snls_scratch_commit(ctx, "attend"));
    h.weight = snls_arena_claim(&ctx->arena, 2 * pairs, sizeof(double));
    h.d_weight = h.weight + pairs;
    for (h.window = 0; h.window < snls_nn_window_count(&h.w); h.window++)
        for (h.head = 0; h.head < h.w.heads; h.head++) visit(&h);
    return SNLS_OK;
}

SnlsStatus snls_nn_ref_attend_forward(SnlsContext *ctx, NnStep *s) { return for_each_head(ctx, s, head_forward); }
SnlsStatus snls_nn_ref_attend_backward(SnlsContext *ctx, NnStep *s) { return for_each_head(ctx, s, head_backward); }
