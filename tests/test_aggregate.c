/* test_aggregate.c: gather, gather_add and scatter_add at sizes and layouts where the fast paths of a backend run (channels side
 * by side in fours, patches of three by three, frames wider than a block), against the model. test_ops draws from the whole
 * parameter space, where such calls are rare.
 *   test_aggregate [--backend ref|cpu|cuda] [--few] [SEED [COUNT]]
 * --few: gather_add by 3 x 3 patches of few features, whose gradients a GPU makes in one pass. */
/* ctest: sanitized=11 args=--backend cpu 1 24 */
/* ctest: name=cuda label=cuda timeout=600 args=--backend cuda 1 100 */
/* ctest: name=cuda-few label=cuda args=--backend cuda --few 1 60 */
#include "case.h"
#include <math.h>
#include <snls/snls.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool few; /* --few */

/* Where neighbours are: nearby at real places, on whole pixels, on whole rows alone, all at one place, far out. */
enum { PLACE_REAL, PLACE_WHOLE, PLACE_ROWS, PLACE_ONE, PLACE_FAR, PLACE_KINDS };

static double place(Rng *rng, int kind, int axis, int64_t at, int64_t length)
{
    switch (kind) {
    case PLACE_WHOLE: return (double)rng_int(rng, -4, 4);
    case PLACE_ROWS: return axis ? rng_real(rng, -4, 4) : (double)rng_int(rng, -4, 4);
    case PLACE_ONE: return (double)(length / 2 - at) + 0.25;
    case PLACE_FAR: return rng_real(rng, -3, 3) * (double)length;
    default: return rng_real(rng, -4, 4);
    }
}

static void draw_gather(Rng *rng, SnlsGatherParams *p)
{
    snls_gather_defaults(p);
    p->ps = RNG_PICK(rng, 3, 3, 3, 1, 1, 2, 5);
    p->stride0 = rng_one_in(rng, 6) ? 2 : 1;
    p->dilation = rng_one_in(rng, 8) ? 2 : 1;
    p->interp = rng_one_in(rng, 4) ? SNLS_INTERP_NEAREST : SNLS_INTERP_BILINEAR;
    p->border = rng_one_in(rng, 4) ? SNLS_BORDER_DROP : SNLS_BORDER_REFLECT;
    if (!few) return;
    p->ps = 3;
    p->dilation = 1;
    p->border = SNLS_BORDER_REFLECT;
}

static void draw_neighbours(Rng *rng, SnlsGather *s, const int64_t *n)
{
    const int kind = (int)rng_int(rng, 0, PLACE_KINDS - 1);
    const int64_t columns = n[4], rows = n[3], K = n[5];
    tensor_fill(&s->weight, rng, -1, 1);
    for (int64_t i = 0; i < tensor_count(&s->weight); i++) {
        const int64_t x = i / K % columns * s->params.stride0, y = i / K / columns % rows * s->params.stride0;
        if (rng_one_in(rng, 16)) tensor_set(&s->weight, i, 0);
        tensor_set(&s->offset, 3 * i, (double)rng_int(rng, -1, 1));
        tensor_set(&s->offset, 3 * i + 1, place(rng, kind, 0, y, s->value.shape[2]));
        tensor_set(&s->offset, 3 * i + 2, rng_one_in(rng, 200) ? NAN : place(rng, kind, 1, x, s->value.shape[3]));
    }
}

static SnlsTensor plain(Rng *rng, int32_t dtype, int32_t ndim, const int64_t *shape) { return tensor_new(rng, dtype, ndim, shape, LAYOUT_PLAIN); }

static void add_gradient(Call *call, const char *name, const SnlsTensor *like, Role role, bool wanted)
{
    SnlsTensor *g = call_find(call, role, name);
    if (!g || !like->data || !wanted) return;
    *g = plain(&call->rng, like->dtype, like->ndim, like->shape);
    tensor_fill(g, &call->rng, -1, 1);
}

/* A stack as a network wants it: (B,T,H,W,heads,F,K) in memory. */
static void by_rank(SnlsTensor *stack)
{
    static const int order[7] = {2, 6, 1, 5, 4, 3, 0}; /* innermost first */
    int64_t step = 1;
    for (int i = 0; i < 7; i++) stack->stride[order[i]] = step, step *= stack->shape[order[i]];
}

static void draw_outputs(Call *call, const int64_t *video, const int64_t *n)
{
    Rng *rng = &call->rng;
    SnlsGather *s = &call->s.gather;
    const int64_t stack[7] = {n[0], n[1], n[5], n[2], video[2], video[3], video[4] / n[1]}, total[5] = {n[0], n[2], video[2], video[3], n[1]};
    const bool stacked = !strcmp(call->op->name, "gather"), scatter = !strcmp(call->op->name, "scatter_add");
    s->out = plain(rng, s->value.dtype, stacked ? 7 : 5, stacked ? stack : video);
    if (stacked && rng_one_in(rng, 2)) by_rank(&s->out);
    if (scatter) call->s.scatter_add.total = plain(rng, SNLS_F32, 5, total);
    add_gradient(call, "out", &s->out, ROLE_GRAD_IN, true);
    if (scatter) add_gradient(call, "total", &call->s.scatter_add.total, ROLE_GRAD_IN, !rng_one_in(rng, 3));
    add_gradient(call, "value", &s->value, ROLE_GRAD_OUT, !rng_one_in(rng, 6));
    add_gradient(call, "weight", &s->weight, ROLE_GRAD_OUT, !rng_one_in(rng, 6));
    add_gradient(call, "offset", &s->offset, ROLE_GRAD_OUT, s->params.interp == SNLS_INTERP_BILINEAR && !rng_one_in(rng, 6));
}

/* The model takes its time: at most some 1e7 products a call. */
static void bound_work(const SnlsGatherParams *p, int64_t *video, int64_t *height, int64_t *neighbours)
{
    for (int turn = 0; turn < 64; turn++) {
        const double work = (double)(video[0] * video[1] * video[4]) * (double)(*height * video[3] * *neighbours) * p->ps * p->ps;
        if (work / p->stride0 / p->stride0 < 1e7) return;
        int64_t *const axes[] = {height, neighbours, &video[0], &video[1]}, *axis = axes[turn % 4];
        *axis = (*axis + 1) / 2;
    }
}

static void draw(Call *call, const Operator *op, uint64_t seed)
{
    memset(call, 0, sizeof *call);
    call->op = op;
    call->rng.state = seed;
    rng_bits(&call->rng);
    Rng *rng = &call->rng;
    SnlsGather *s = &call->s.gather; /* scatter_add begins with the same fields */
    draw_gather(rng, &s->params);
    const bool many = seed % 32 == 1 && !few; /* more planes than a grid has blocks in y or z */
    const bool wide = seed % 16 == 5 && !few; /* 3 x 3 patches of more channels than eight lanes take at once */
    if (many) s->params.ps = s->params.stride0 = 1;
    if (wide) s->params.ps = 3, s->params.stride0 = s->params.dilation = 1;
    const int64_t heads = many ? 256 : rng_int(rng, 1, 2),
                  F = many   ? 1
                      : wide ? 4 * RNG_PICK(rng, 15, 16, 32)
                      : few  ? 4 * RNG_PICK(rng, 1, 2, 4)
                             : 4 * RNG_PICK(rng, 1, 2, 3, 4, 5, 8, 9, 11),
                  step = s->params.stride0;
    int64_t H = many ? 1 : rng_one_in(rng, 3) ? rng_int(rng, 1, 6) : rng_int(rng, 7, 21);
    const int64_t W = many ? 2 : rng_one_in(rng, 3) ? rng_int(rng, 1, 6) : rng_int(rng, 7, 70);
    int64_t video[5] = {many ? 300 : rng_int(rng, 1, 2), many ? 1 : rng_int(rng, 1, 3), H, W, heads * F}, K = many ? 1 : RNG_PICK(rng, 1, 3, 10, 12);
    if (!many) bound_work(&s->params, video, &H, &K);
    video[2] = H;
    const int64_t n[7] = {video[0], heads, video[1], (H + step - 1) / step, (W + step - 1) / step, K, 3};
    const int32_t dtype = few ? SNLS_F32 : RNG_PICK(rng, SNLS_F32, SNLS_F32, SNLS_F32, SNLS_F16, SNLS_BF16);
    s->value = plain(rng, dtype, 5, video);
    tensor_fill(&s->value, rng, -2, 2);
    for (int64_t i = rng_one_in(rng, 3) ? 20 : 0; i-- > 0;) tensor_set(&s->value, rng_int(rng, 0, tensor_count(&s->value) - 1), NAN);
    s->weight = plain(rng, SNLS_F32, 6, n);
    s->offset = plain(rng, SNLS_F32, 7, n);
    draw_neighbours(rng, s, n);
    draw_outputs(call, video, n);
    for (const Slot *slot = op->test->slots; slot->name; slot++)
        if (call_tensor(call, slot)->data) tensor_mark(call_tensor(call, slot));
}

/* cuda: again in deterministic mode, twice, for the same bits. */
static void run_case(const Operator *op, uint64_t seed, const char *backend, SnlsContext *const *ctx)
{
    Call call;
    uint64_t hash[2], again[2];
    draw(&call, op, seed);
    check_repeat("test_aggregate --backend %s%s %llu (%s)", backend, few ? " --few" : "", (unsigned long long)seed, op->name);
    const double eps = strcmp(backend, "ref") ? EPS_F32 : EPS_F64;
    bool ran = call_checked(&call, ctx[0], eps, hash);
    const uint64_t fast = hash[0];
    if (ran && ctx[1]) ran = call_checked(&call, ctx[1], eps, hash) && call_checked(&call, ctx[1], eps, again);
    if (ran && ctx[1]) CHECK(fast == hash[0], "%s forward: other bits in deterministic mode", op->name);
    if (ran && ctx[1]) CHECK(again[0] == hash[0] && again[1] == hash[1], "%s: other bits when run again", op->name);
    tensors_free();
}

int main(int argc, char **argv)
{
    const char *backend = "cpu";
    if (argc > 2 && !strcmp(argv[1], "--backend")) {
        backend = argv[2];
        argc -= 2;
        argv += 2;
    }
    if (argc > 1 && !strcmp(argv[1], "--few")) {
        few = true;
        argc--;
        argv++;
    }
    const uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1, count = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    SnlsContext *ctx[2] = {NULL, NULL};
    if (strcmp(backend, "cuda")) ctx[0] = context_open(backend, 0, 2);
    for (int i = 0; i < 2 && !strcmp(backend, "cuda"); i++) ctx[i] = context_open_cuda(i);
    static const char *const names[] = {"gather", "gather_add", "scatter_add"};
    for (uint64_t n = seed; n < seed + count; n++)
        for (int i = few ? 1 : 0; i < (few ? 2 : 3); i++) run_case(operator_named(names[i]), n, backend, ctx);
    for (int i = 0; i < 2; i++) snls_close(&ctx[i]);
    return check_end();
}
