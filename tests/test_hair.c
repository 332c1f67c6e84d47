/* test_hair.c: places a hair from a pixel, as a flow of 1e-17 makes them: y + 1e-17 is between rows at row 0 and, rounded to double, on a row
 * everywhere else, so the pixels of one patch (and the candidates of one window) differ in whether a tap counts. Every level of the
 * cpu backend reads NaN and infinity where ref does, and nowhere else.
 *   test_hair [SEED [COUNT]] */
/* ctest: args=1 400 */
#include "case.h"
#include <math.h>
#include <snls/snls.h>
#include <stdlib.h>
#include <string.h>

/* Along an axis: none, a hair (of which two multiplied are still a number in f32), or what binary fractions say exactly. */
static double hair(Rng *rng)
{
    if (rng_one_in(rng, 3)) return 0.25 * (double)rng_int(rng, -8, 8);
    return RNG_PICK(rng, 0, 1e-17, 1e-17, 5e-17, 1e-18, -1e-17, -3e-18);
}

/* Small whole numbers: distances are exact but for what hairs add, which is far below eps. */
static SnlsTensor draw_video(Rng *rng, const int64_t *shape, bool broken)
{
    const SnlsTensor v = tensor_new(rng, SNLS_F32, 5, shape, LAYOUT_PLAIN);
    const int64_t count = tensor_count(&v);
    for (int64_t i = 0; i < count; i++) tensor_set(&v, i, (double)rng_int(rng, -3, 3));
    for (int64_t n = broken ? 1 + count / (shape[4] * rng_int(rng, 6, 40)) : 0; n > 0; n--)
        tensor_set(&v, rng_int(rng, 0, count - 1), RNG_PICK(rng, NAN, NAN, NAN, INFINITY, -INFINITY));
    return v;
}

static void draw_shape(Rng *rng, int64_t *shape, int64_t heads)
{
    const bool wide = rng_one_in(rng, 3);
    shape[0] = 1, shape[1] = rng_int(rng, 1, 2), shape[2] = rng_int(rng, 1, wide ? 9 : 7), shape[3] = rng_int(rng, 1, wide ? 70 : 9);
    shape[4] = heads * (int64_t)RNG_PICK(rng, 1, 2, 3, 4, 8, 16, 17);
}

static bool near(double a, double b) { return (isnan(a) && isnan(b)) || a == b || fabs(a - b) < 1e-4; }

static void compare(SnlsContext *ctx, const char *what, const SnlsTensor *got, const SnlsTensor *want)
{
    for (int64_t i = 0; i < tensor_count(got); i++)
        if (!CHECK(near(tensor_get(got, i), tensor_get(want, i)), "%s, level %s: element %lld is %.9g, ref has %.9g", what, snls_cpu_level_name(snls_cpu_level(ctx)), (long long)i,
                   tensor_get(got, i), tensor_get(want, i))) return;
}

/* ---- search ---- */

static SnlsStatus run_search(SnlsContext *ctx, SnlsSearch *s, bool all) { return all ? snls_search_all_forward(ctx, s) : snls_search_forward(ctx, s); }

static SnlsSearch draw_search(Rng *rng, SnlsContext *ctx, bool all)
{
    SnlsSearch s = {.params = {0}};
    SnlsSearchParams *p = &s.params;
    int64_t shape[5];
    snls_search_defaults(p);
    p->ps = (int32_t)RNG_PICK(rng, 1, 2, 3, 3, 5);
    p->ws = (int32_t)RNG_PICK(rng, 1, 2, 3, 5, 9);
    p->k = all ? 1 : (int32_t)RNG_PICK(rng, 1, 4, 10);
    p->heads = (int32_t)rng_int(rng, 1, 2);
    p->dist = rng_one_in(rng, 3) ? SNLS_DIST_PROD : SNLS_DIST_L2;
    p->stride0 = rng_one_in(rng, 4) ? 2 : 1;
    p->stride1 = RNG_PICK(rng, 1, 1, 0.5, 2);
    p->dilation = rng_one_in(rng, 5) ? 2 : 1;
    p->border = rng_one_in(rng, 3) ? SNLS_BORDER_DROP : SNLS_BORDER_REFLECT;
    p->window = rng_one_in(rng, 4) ? SNLS_WINDOW_CUT : SNLS_WINDOW_SLIDE;
    draw_shape(rng, shape, p->heads);
    s.query = draw_video(rng, shape, false);
    s.key = draw_video(rng, shape, true);
    const int64_t rows = (shape[2] + p->stride0 - 1) / p->stride0, columns = (shape[3] + p->stride0 - 1) / p->stride0;
    s.flow = tensor_new(rng, SNLS_F32, 6, (const int64_t[]){ shape[0], shape[1], 1, rows, columns, 2 }, LAYOUT_PLAIN);
    for (int64_t i = 0; i < tensor_count(&s.flow); i++) tensor_set(&s.flow, i, hair(rng));
    CHECK((all ? snls_search_all_shape(ctx, &s) : snls_search_shape(ctx, &s)) >= 0, "%s", snls_error(ctx));
    s.index.ndim = 0;
    return s;
}

static void search_as_ref(Rng *rng, SnlsContext *ref, SnlsContext *const *levels, bool all)
{
    SnlsSearch s = draw_search(rng, ref, all);
    const SnlsTensor dist = s.dist, offset = s.offset;
    s.dist = tensor_new(rng, SNLS_F32, 6, dist.shape, LAYOUT_PLAIN);
    s.offset = tensor_new(rng, SNLS_F32, 7, offset.shape, LAYOUT_PLAIN);
    if (!CHECK(run_search(ref, &s, all) >= 0, "%s", snls_error(ref))) return;
    for (; *levels; levels++) {
        SnlsSearch other = s;
        other.dist = tensor_new(rng, SNLS_F32, 6, dist.shape, LAYOUT_PLAIN);
        other.offset = tensor_new(rng, SNLS_F32, 7, offset.shape, LAYOUT_PLAIN);
        if (CHECK(run_search(*levels, &other, all) >= 0, "%s", snls_error(*levels))) compare(*levels, all ? "search_all" : "search", &other.dist, &s.dist);
    }
}

/* ---- gather_add, gather ---- */

static SnlsGatherAdd draw_gather(Rng *rng)
{
    SnlsGatherAdd g = {.params = {0}};
    int64_t shape[5];
    const int64_t heads = rng_int(rng, 1, 2), K = (int64_t)RNG_PICK(rng, 1, 3, 16);
    snls_gather_add_defaults(&g.params);
    g.params.ps = (int32_t)RNG_PICK(rng, 1, 2, 3, 3, 5);
    g.params.dilation = rng_one_in(rng, 5) ? 2 : 1;
    g.params.border = rng_one_in(rng, 3) ? SNLS_BORDER_DROP : SNLS_BORDER_REFLECT;
    draw_shape(rng, shape, heads);
    g.value = draw_video(rng, shape, true);
    g.weight = tensor_new(rng, SNLS_F32, 6, (const int64_t[]){ shape[0], heads, shape[1], shape[2], shape[3], K }, LAYOUT_PLAIN);
    g.offset = tensor_new(rng, SNLS_F32, 7, (const int64_t[]){ shape[0], heads, shape[1], shape[2], shape[3], K, 3 }, LAYOUT_PLAIN);
    tensor_fill(&g.weight, rng, 0.5, 1);
    for (int64_t i = 0; i < tensor_count(&g.offset); i++) tensor_set(&g.offset, i, i % 3 ? hair(rng) : 0);
    return g;
}

static void gather_as_ref(Rng *rng, SnlsContext *ref, SnlsContext *const *levels)
{
    SnlsGatherAdd g = draw_gather(rng);
    g.out = tensor_new(rng, SNLS_F32, 5, g.value.shape, LAYOUT_PLAIN);
    if (!CHECK(snls_gather_add_forward(ref, &g) >= 0, "%s", snls_error(ref))) return;
    for (; *levels; levels++) {
        SnlsGatherAdd other = g;
        other.out = tensor_new(rng, SNLS_F32, 5, g.value.shape, LAYOUT_PLAIN);
        if (CHECK(snls_gather_add_forward(*levels, &other) >= 0, "%s", snls_error(*levels))) compare(*levels, "gather_add", &other.out, &g.out);
    }
}

int main(int argc, char **argv)
{
    const uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1, count = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    SnlsContext *ref = context_open("ref", 0, 1), *levels[16] = { context_open("cpu", 0, 1) };
    int n = 1;
    for (int32_t level = 1; level < snls_cpu_level(levels[0]) && n < 15; level++) {
        SnlsContext *ctx = NULL;
        if (snls_open(&ctx, &(SnlsContextParams){ .backend = "cpu", .threads = 1, .cpu_level = level }) >= 0 && snls_cpu_level(ctx) == level) levels[n++] = ctx;
        else snls_close(&ctx);
    }
    for (uint64_t i = seed; i < seed + count; i++) {
        Rng rng = { i };
        check_repeat("test_hair %llu", (unsigned long long)i);
        if (i % 3 == 0) gather_as_ref(&rng, ref, levels);
        else search_as_ref(&rng, ref, levels, i % 3 == 1);
        tensors_free();
    }
    while (n) snls_close(&levels[--n]);
    snls_close(&ref);
    return check_end();
}
