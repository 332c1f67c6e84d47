/* ref_move.c: steps that only move numbers: shuffle, concat, pad, and the mean of squares. Each is one walk over pairs of places,
 * read one way going forward and the other way going backward; and the list of backend ref. */
#include "nn/nn.h"

/* A pair of places, and the weight between them. */
typedef void Pair(NnStep *s, int in, int64_t from, int64_t to, double weight);
typedef void Walk(NnStep *s, Pair *visit);

static void carry(NnStep *s, int in, int64_t from, int64_t to, double weight) { snls_nn_accumulate(&s->y[0], to, weight * snls_load(&s->x[in], from)); }
static void carry_back(NnStep *s, int in, int64_t from, int64_t to, double weight)
{
    if (s->dx[in].data) snls_nn_accumulate(&s->dx[in], from, weight * snls_load(&s->dy[0], to));
}

static SnlsStatus move_forward(NnStep *s, Walk *walk)
{
    for (int64_t i = 0; i < snls_tensor_elements(&s->y[0]); i++) snls_store(&s->y[0], i, 0);
    walk(s, carry);
    return SNLS_OK;
}

static SnlsStatus move_backward(NnStep *s, Walk *walk)
{
    walk(s, carry_back);
    return SNLS_OK;
}

/* deep has the channels, wide the pixels; which of them is x the direction tells */
static void walk_shuffle(NnStep *s, Pair *visit)
{
    const int64_t r = s->u.shuffle.r;
    const SnlsTensor *wide = s->u.shuffle.inverse ? &s->x[0] : &s->y[0], *deep = s->u.shuffle.inverse ? &s->y[0] : &s->x[0];
    const int64_t *d = deep->shape;
    for (int64_t i = 0; i < d[0] * d[1] * d[2] * d[3]; i++) {
        const int64_t c = i % d[3], x = i / d[3] % d[2], y = i / d[3] / d[2] % d[1], n = i / d[3] / d[2] / d[1];
        const int64_t j = snls_nn_at4(wide, n, y * r + c / r % r, x * r + c % r, c / (r * r));
        if (s->u.shuffle.inverse) visit(s, 0, j, i, 1);
        else visit(s, 0, i, j, 1);
    }
}

static void walk_concat(NnStep *s, Pair *visit)
{
    const int64_t channels = s->y[0].shape[3], pixels = snls_tensor_elements(&s->y[0]) / channels;
    int64_t first = 0;
    for (int in = 0; in < 2; first += s->x[in].shape[3], in++)
        for (int64_t i = 0; i < pixels * s->x[in].shape[3]; i++)
            visit(s, in, i, i / s->x[in].shape[3] * channels + first + i % s->x[in].shape[3], 1);
}

static void walk_pad(NnStep *s, Pair *visit)
{
    const int64_t *d = s->x[0].shape, *e = s->y[0].shape;
    for (int64_t i = 0; i < d[0] * d[1] * d[2] * d[3]; i++) {
        const int64_t c = i % d[3], x = i / d[3] % d[2] + s->u.pad.left, y = i / d[3] / d[2] % d[1] + s->u.pad.top, n = i / d[3] / d[2] / d[1];
        if (y >= 0 && x >= 0 && y < e[1] && x < e[2]) visit(s, 0, i, snls_nn_at4(&s->y[0], n, y, x, c), 1);
    }
}

static void walk_pool(NnStep *s, Pair *visit)
{
    const int64_t *d = s->x[0].shape, *e = s->y[0].shape, r = s->u.pool.r;
    for (int64_t i = 0; i < d[0] * d[1] * d[2] * d[3]; i++) {
        const int64_t c = i % d[3], x = i / d[3] % d[2] / r, y = i / d[3] / d[2] % d[1] / r, n = i / d[3] / d[2] / d[1];
        if (y < e[1] && x < e[2]) visit(s, 0, i, snls_nn_at4(&s->y[0], n, y, x, c), 1.0 / (double)(r * r));
    }
}

#define MOVE(name)                                                                                                                 \
    SnlsStatus snls_nn_ref_##name##_forward(SnlsContext *ctx, NnStep *s) { return (void)ctx, move_forward(s, walk_##name); }         \
    SnlsStatus snls_nn_ref_##name##_backward(SnlsContext *ctx, NnStep *s) { return (void)ctx, move_backward(s, walk_##name); }
MOVE(shuffle)
MOVE(concat)
MOVE(pad)
MOVE(pool)

#define MATCH(name)                                                                                                            \
    SnlsStatus snls_nn_ref_##name##_forward(SnlsContext *ctx, NnStep *s) { return snls_nn_match_forward(ctx, s); }               \
    SnlsStatus snls_nn_ref_##name##_backward(SnlsContext *ctx, NnStep *s) { return snls_nn_match_backward(ctx, s); }
MATCH(search)
MATCH(refine)
MATCH(first)
MATCH(weights)
MATCH(gather)

const NnBackend snls_nn_ref = {
    .name = "ref",
    .op = {
#define X(name) { snls_nn_ref_##name##_forward, snls_nn_ref_##name##_backward },
        NN_OPS(X)
#undef X
    },
};
