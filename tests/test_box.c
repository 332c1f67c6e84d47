/* test_box.c: search for the best match in every frame by patches of few channels, on whole numbers: every sum is exact, so a backend
 * gives the distances and, where candidates tie, the numbers of ref. Frames from one pixel to wider than a tile; NaN and infinities.
 *   test_box [--backend cuda] [SEED [COUNT]] */
/* ctest: args=1 12 */
/* ctest: name=cuda label=cuda args=--backend cuda 1 200 */
#include "case.h"
#include <math.h>
#include <snls/snls.h>
#include <stdlib.h>
#include <string.h>

static void draw_box_params(SnlsSearchParams *p, Rng *rng)
{
    snls_search_defaults(p);
    p->ps = (int32_t)RNG_PICK(rng, 3, 5, 5, 7);
    p->ws = (int32_t)rng_int(rng, 1, 15);
    p->wt = (int32_t)rng_int(rng, 0, 1);
    p->k = 1;
    p->topk = SNLS_TOPK_EACH;
    p->heads = (int32_t)rng_int(rng, 1, 2);
    p->window = rng_one_in(rng, 4) ? SNLS_WINDOW_CUT : SNLS_WINDOW_SLIDE;
}

/* Few different values make many ties. */
static SnlsTensor draw_video(Rng *rng, int32_t dtype, const int64_t *shape)
{
    const SnlsTensor v = tensor_new(rng, dtype, 5, shape, LAYOUT_PLAIN);
    const int64_t range = rng_one_in(rng, 3) ? 1 : 8, count = tensor_count(&v);
    for (int64_t i = 0; i < count; i++) tensor_set(&v, i, (double)rng_int(rng, -range, range));
    for (int64_t n = rng_one_in(rng, 4) ? rng_int(rng, 1, 5) : 0; n > 0; n--) tensor_set(&v, rng_int(rng, 0, count - 1), rng_one_in(rng, 2) ? NAN : INFINITY);
    for (int64_t i = 0; rng_one_in(rng, 20) && i < count; i++) tensor_set(&v, i, INFINITY);
    return v;
}

static SnlsSearch draw(Rng *rng, SnlsContext *ctx)
{
    SnlsSearch s = {.params = {0}};
    draw_box_params(&s.params, rng);
    const bool wide = rng_one_in(rng, 5);
    const int64_t shape[5] = {rng_int(rng, 1, 2), 2 * s.params.wt + 1 + rng_int(rng, 0, 1), rng_int(rng, 1, wide ? 8 : 20), rng_int(rng, 1, wide ? 60 : 24), s.params.heads * rng_int(rng, 1, 4)};
    const int32_t dtype = rng_one_in(rng, 2) ? SNLS_BF16 : SNLS_F32;
    s.query = draw_video(rng, dtype, shape);
    s.key = draw_video(rng, dtype, shape);
    CHECK(snls_search_shape(ctx, &s) >= 0, "%s", snls_error(ctx));
    s.dist = tensor_new(rng, SNLS_F32, 6, s.dist.shape, LAYOUT_PLAIN);
    s.offset = tensor_new(rng, SNLS_F32, 7, s.offset.shape, LAYOUT_PLAIN);
    s.index = tensor_new(rng, SNLS_I32, 6, s.index.shape, LAYOUT_PLAIN);
    return s;
}

static void compare(const SnlsSearch *got, const SnlsSearch *want)
{
    const SnlsTensor *const a[] = {&got->index, &got->dist, &got->offset}, *const b[] = {&want->index, &want->dist, &want->offset};
    static const char *const names[] = {"index", "dist", "offset"};
    for (int k = 0; k < 3; k++)
        for (int64_t i = 0; i < tensor_count(a[k]); i++)
            if (!CHECK(tensor_get(a[k], i) == tensor_get(b[k], i), "%s[%lld] is %.9g, ref has %.9g", names[k], (long long)i, tensor_get(a[k], i), tensor_get(b[k], i))) break;
}

static void run_case(uint64_t seed, SnlsContext *ref, SnlsContext *ctx)
{
    Rng rng = {seed};
    SnlsSearch s = draw(&rng, ref), other = s;
    other.dist = tensor_new(&rng, SNLS_F32, 6, s.dist.shape, LAYOUT_PLAIN);
    other.offset = tensor_new(&rng, SNLS_F32, 7, s.offset.shape, LAYOUT_PLAIN);
    other.index = tensor_new(&rng, SNLS_I32, 6, s.index.shape, LAYOUT_PLAIN);
    CHECK(snls_search_forward(ref, &s) >= 0, "%s", snls_error(ref));
    SnlsTensor *const all[] = {&other.query, &other.key, &other.dist, &other.offset, &other.index};
    for (int i = 0; i < 5; i++) tensor_lend(ctx, all[i]);
    const SnlsStatus status = snls_search_forward(ctx, &other);
    for (int i = 0; i < 5; i++) tensor_return(ctx, all[i]);
    if (CHECK(status >= 0, "%s", snls_error(ctx))) compare(&other, &s);
    tensors_free();
}

int main(int argc, char **argv)
{
    const bool gpu = argc > 2 && !strcmp(argv[1], "--backend") && !strcmp(argv[2], "cuda");
    argc -= 2 * gpu, argv += 2 * gpu;
    const uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1, count = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    SnlsContext *ref = context_open("ref", 0, 1), *ctx = gpu ? context_open_cuda(false) : context_open("cpu", 0, 2);
    for (uint64_t n = seed; n < seed + count; n++) {
        check_repeat("test_box%s %llu", gpu ? " --backend cuda" : "", (unsigned long long)n);
        run_case(n, ref, ctx);
    }
    snls_close(&ref), snls_close(&ctx);
    return check_end();
}
