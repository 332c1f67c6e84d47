/* test_dsp.c: every instruction set against plain sums in double, every number independent of where it was computed.
 * Inputs end where memory ends, so that reading one element too many is a crash; gaps between keys hold NaN.
 *   test_dsp          many seeds        test_dsp SEED   that one        test_dsp --bench   speed, keys in first-level cache
 */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "dsp.h"
#include <time.h>

/* ---- the checks: one level, one seed ---- */

static void check_pair(Test *t, ptrdiff_t n, int kind)
{
    const float *const a = input(t, 0, n, kind), *const b = input(t, 1, n, kind);
    const Sum dot = sum_of(a, b, n, false), l2 = sum_of(a, b, n, true);
    const float got_dot = t->dsp.dot(a, b, n), got_l2 = t->dsp.l2(a, b, n);
    CHECK(sum_near(&dot, got_dot, 0), "%s dot n=%td kind %d: %.9g, want %.9g", t->level, n, kind, got_dot, dot.value);
    CHECK(sum_near(&l2, got_l2, 0), "%s l2 n=%td kind %d: %.9g, want %.9g", t->level, n, kind, got_l2, l2.value);
    float *const copy = place(t->in[2], &t->rng, n, sizeof *copy); /* elsewhere, aligned otherwise */
    memcpy(copy, a, (size_t)n * sizeof *copy);
    CHECK(bits(t->dsp.dot(copy, b, n)) == bits(got_dot), "%s dot n=%td depends on alignment", t->level, n);
    CHECK(bits(t->dsp.l2(copy, b, n)) == bits(got_l2), "%s l2 n=%td depends on alignment", t->level, n);
}

typedef struct Row { ptrdiff_t m, n, step; const float *q, *key; } Row;

/* Each number of the row: near the sum, and the same bits as alone and as by dot or l2. */
static void check_row_numbers(Test *t, const Row *r, const float *before, const float *got, bool l2)
{
    for (ptrdiff_t j = 0; j < r->m; j++) {
        const float *const key = r->key + j * r->step;
        Sum s = sum_of(r->q, key, r->n, l2);
        sum_add(&s, before[j], fabs((double)before[j]));
        CHECK(sum_near(&s, got[j], 0), "%s %s_row n=%td m=%td step=%td: [%td] is %.9g, want %.9g", t->level,
              l2 ? "l2" : "dot", r->n, r->m, r->step, j, got[j], s.value);
        float alone = before[j];
        (l2 ? t->dsp.l2_row : t->dsp.dot_row)(&alone, r->q, key, r->step, 1, r->n);
        const float pair = before[j] + (l2 ? t->dsp.l2 : t->dsp.dot)(r->q, key, r->n);
        CHECK(bits(alone) == bits(got[j]) && bits(pair) == bits(got[j]),
              "%s %s_row n=%td m=%td step=%td: [%td] is %.9g, alone %.9g, as a pair %.9g", t->level, l2 ? "l2" : "dot",
              r->n, r->m, r->step, j, got[j], alone, pair);
    }
}

static void check_row(Test *t, ptrdiff_t n, int kind, bool l2)
{
    const ptrdiff_t m = rng_int(&t->rng, 0, MAX_M), far = rng_int(&t->rng, 1, MAX_N), near = rng_int(&t->rng, 0, n);
    const ptrdiff_t step = rng_one_in(&t->rng, 2) ? n : rng_one_in(&t->rng, 4) ? near : n + (far > 9 ? far % 9 : far);
    Row r = { m, n, step, input(t, 0, n, kind), NULL };
    float *const key = place(t->in[1], &t->rng, m ? (m - 1) * step + n : 0, sizeof *key);
    for (ptrdiff_t j = 0; j < m; j++) fill(&t->rng, key + j * step, n, kind); /* NaN stays between them */
    r.key = key;
    float before[MAX_M], *const out = place_out(t->out, &t->rng, m, sizeof *out);
    fill(&t->rng, before, m, kind);
    memcpy(out, before, (size_t)m * sizeof *out);
    (l2 ? t->dsp.l2_row : t->dsp.dot_row)(out, r.q, key, step, m, n);
    CHECK(guards_hold(t->out, out, m, sizeof *out), "%s row n=%td m=%td wrote outside", t->level, n, m);
    check_row_numbers(t, &r, before, out, l2);
}

static void check_blend_sums(Test *t, const float *q, const float *const *tap, const float *w, int taps, ptrdiff_t n)
{
    Sum dot = { 0, 0, 0 }, l2 = dot;
    for (ptrdiff_t i = 0; i < n; i++) {
        double v = 0, size = 0;
        for (int k = 0; k < taps; k++) v += (double)w[k] * tap[k][i], size += fabs((double)w[k] * tap[k][i]);
        sum_add(&dot, q[i] * v, fabs(q[i]) * size);
        sum_add(&l2, (q[i] - v) * (q[i] - v), (fabs(q[i]) + size) * (fabs(q[i]) + size));
    }
    const float got_dot = t->dsp.dot_blend(q, tap, w, taps, n), got_l2 = t->dsp.l2_blend(q, tap, w, taps, n);
    CHECK(sum_near(&dot, got_dot, taps), "%s dot_blend n=%td taps=%d: %.9g, want %.9g", t->level, n, taps, got_dot, dot.value);
    CHECK(sum_near(&l2, got_l2, 2 * taps), "%s l2_blend n=%td taps=%d: %.9g, want %.9g", t->level, n, taps, got_l2, l2.value);
}

static void check_blend(Test *t, ptrdiff_t n, int kind)
{
    const int taps = 1 << rng_int(&t->rng, 0, 2);
    const float *tap[4] = { NULL, NULL, NULL, NULL }, *const q = input(t, 4, n, kind);
    float w[4] = { NAN, NAN, NAN, NAN }, *const out = place_out(t->out, &t->rng, n, sizeof *out);
    for (int k = 0; k < taps; k++) tap[k] = input(t, k, n, kind), w[k] = value(&t->rng, 0);
    t->dsp.blend(out, tap, w, taps, n);
    CHECK(guards_hold(t->out, out, n, sizeof *out), "%s blend n=%td wrote outside", t->level, n);
    for (ptrdiff_t i = 0; i < n; i++) {
        Sum s = { 0, 0, 0 };
        for (int k = 0; k < taps; k++) sum_add(&s, (double)w[k] * tap[k][i], fabs((double)w[k] * tap[k][i]));
        CHECK(sum_near(&s, out[i], 0), "%s blend n=%td taps=%d: [%td] is %.9g, want %.9g", t->level, n, taps, i, out[i], s.value);
    }
    CHECK(bits(t->dsp.dot_blend(q, tap, w, taps, n)) == bits(t->dsp.dot(q, out, n)) &&
          bits(t->dsp.l2_blend(q, tap, w, taps, n)) == bits(t->dsp.l2(q, out, n)),
          "%s dot_blend or l2_blend n=%td taps=%d is not that of blend's output", t->level, n, taps);
    check_blend_sums(t, q, tap, w, taps, n);
}

/* The score of a place in double. */
static Sum sum_of_reads(const SnlsReads *r, const float *at)
{
    Sum sum = { 0, 0, 0 };
    for (ptrdiff_t e = 0; e < r->rows * r->run * r->n; e++) {
        const float *const tap = at + e / r->n / r->run * r->next_down + e / r->n % r->run * r->next_right + e % r->n;
        double v = r->shape ? 0 : tap[0], size = fabs(v);
        for (int m = 0; m < 4 && r->shape; m++) {
            if ((m & r->shape) != m) continue;
            const double term = (double)r->w[m] * tap[(m & 1) * r->right + (m >> 1) * r->down];
            v += term, size += fabs(term);
        }
        if (r->prod) sum_add(&sum, r->q[e] * v, fabs(r->q[e]) * size);
        else sum_add(&sum, (r->q[e] - v) * (r->q[e] - v), (fabs(r->q[e]) + size) * (fabs(r->q[e]) + size));
    }
    return sum;
}

/* A patch against reads at several places of a grid, the last of which reach its end; each number is the same alone. */
static void check_reads(Test *t, ptrdiff_t n, int kind)
{
    enum { MOST = 3, PLACES = 9, SIDE = 8, FEATURES_MAX = 60 };
    const ptrdiff_t count = rng_int(&t->rng, 0, PLACES), right = n + rng_int(&t->rng, 0, 3), pixels = (SIDE - 1) * SIDE + SIDE - 1;
    SnlsReads r = { .rows = rng_int(&t->rng, 1, MOST), .run = rng_int(&t->rng, 1, MOST), .n = n, .next_down = SIDE * right, .next_right = right, .right = right,
                    .down = SIDE * right, .shape = (int)rng_int(&t->rng, 0, 3), .prod = rng_one_in(&t->rng, 2) };
    if (n > FEATURES_MAX) return; /* the grid would not fit */
    r.q = input(t, 0, r.rows * r.run * n, kind);
    const float *const grid = input(t, 1, pixels * right + n, kind), *at[PLACES];
    float got[PLACES], alone;
    for (int m = 0; m < 4; m++) r.w[m] = r.shape && (m & r.shape) == m ? value(&t->rng, 0) : NAN;
    const ptrdiff_t down = SIDE - r.rows - (r.shape >> 1), across = SIDE - r.run - (r.shape & 1);
    for (ptrdiff_t i = 0; i < count; i++) at[i] = grid + (rng_one_in(&t->rng, 2) ? down * SIDE + across : rng_int(&t->rng, 0, down) * SIDE + rng_int(&t->rng, 0, across)) * right;
    t->dsp.score_places(got, at, count, &r);
    for (ptrdiff_t i = 0; i < count; i++) {
        const Sum sum = sum_of_reads(&r, at[i]);
        CHECK(sum_near(&sum, got[i], 8), "%s score_places n=%td shape=%d prod=%d %tdx%td: %.9g, want %.9g", t->level, n, r.shape, r.prod, r.rows, r.run, got[i], sum.value);
        t->dsp.score_places(&alone, at + i, 1, &r);
        CHECK(bits(alone) == bits(got[i]), "%s score_places n=%td: place %td of %td depends on the others", t->level, n, i, count);
    }
}

static void check_maps(Test *t, ptrdiff_t n, int kind)
{
    const float a = value(&t->rng, kind == 3 ? 0 : kind), *const x = input(t, 0, n, kind), *const b = input(t, 1, n, kind);
    float *const y = place_out(t->out, &t->rng, n, sizeof *y), *const z = input(t, 2, n, kind);
    memcpy(y, b, (size_t)n * sizeof *y);
    t->dsp.axpy(y, a, x, n);
    for (ptrdiff_t i = 0; i < n; i++) {
        Sum s = { (double)a * x[i] + b[i], fabs((double)a * x[i]) + fabs(b[i]), 2 };
        CHECK(sum_near(&s, y[i], 0), "%s axpy n=%td: [%td] is %.9g, want %.9g", t->level, n, i, y[i], s.value);
    }
    memcpy(y, b, (size_t)n * sizeof *y);
    t->dsp.scale(y, a, n);
    for (ptrdiff_t i = 0; i < n; i++) CHECK(bits(y[i]) == bits(a * b[i]), "%s scale n=%td: [%td]", t->level, n, i);
    t->dsp.sub(y, x, b, n);
    for (ptrdiff_t i = 0; i < n; i++) CHECK(bits(y[i]) == bits(x[i] - b[i]), "%s sub n=%td: [%td]", t->level, n, i);
    CHECK(guards_hold(t->out, y, n, sizeof *y), "%s axpy, scale or sub n=%td wrote outside", t->level, n);
    memcpy(z, x, (size_t)n * sizeof *z);
    t->dsp.sub(z, z, b, n);
    CHECK(!n || !memcmp(z, y, (size_t)n * sizeof *z), "%s sub n=%td onto itself", t->level, n);
}

/* blend_sub and dots are what blend, sub and dot give, bit for bit; unblend near the sums, also where arrays overlap. */
static void check_blend_gradients(Test *t, ptrdiff_t n, int kind)
{
    const int taps = 1 << rng_int(&t->rng, 0, 2);
    const float *tap[4], *const q = input(t, 4, n, kind);
    float w[4], blend[MAX_N], *const out = place_out(t->out, &t->rng, n, sizeof *out);
    for (int k = 0; k < 4; k++) tap[k] = input(t, k, n, kind), w[k] = value(&t->rng, 0);
    t->dsp.blend(blend, tap, w, taps, n);
    t->dsp.blend_sub(out, q, tap, w, taps, n);
    CHECK(guards_hold(t->out, out, n, sizeof *out), "%s blend_sub n=%td wrote outside", t->level, n);
    for (ptrdiff_t i = 0; i < n; i++) CHECK(bits(out[i]) == bits(blend[i] - q[i]), "%s blend_sub n=%td taps=%d: [%td]", t->level, n, taps, i);
    float *const four = place_out(t->out, &t->rng, 4, sizeof *four);
    t->dsp.dots(four, q, tap, n);
    CHECK(guards_hold(t->out, four, 4, sizeof *four), "%s dots n=%td wrote outside", t->level, n);
    for (int k = 0; k < 4; k++) CHECK(bits(four[k]) == bits(t->dsp.dot(q, tap[k], n)), "%s dots n=%td: [%d]", t->level, n, k);
}

static void check_bends(Test *t, ptrdiff_t n, int kind)
{
    const float *const k = input(t, 0, n, kind), *const right = input(t, 1, n, kind), *const lower = input(t, 2, n, kind), *const both = input(t, 3, n, kind);
    float *const out = place_out(t->out, &t->rng, 3, sizeof *out);
    Sum want[3] = { { 0, 0, 0 }, { 0, 0, 0 }, { 0, 0, 0 } };
    for (ptrdiff_t i = 0; i < n; i++) {
        const double e[3] = { (double)k[i] - right[i], (double)k[i] - lower[i], ((double)k[i] - right[i]) - ((double)lower[i] - both[i]) };
        const double size[3] = { fabs(k[i]) + fabs(right[i]), fabs(k[i]) + fabs(lower[i]), fabs(k[i]) + fabs(right[i]) + fabs(lower[i]) + fabs(both[i]) };
        for (int m = 0; m < 3; m++) sum_add(&want[m], e[m] * e[m], size[m] * size[m]);
    }
    t->dsp.bends(out, k, right, lower, both, n);
    CHECK(guards_hold(t->out, out, 3, sizeof *out), "%s bends n=%td wrote outside", t->level, n);
    for (int m = 0; m < 3; m++) CHECK(sum_near(&want[m], out[m], 8), "%s bends n=%td: [%d] is %.9g, want %.9g", t->level, n, m, out[m], want[m].value);
}

static void check_unblend(Test *t, ptrdiff_t n, int kind)
{
    const int taps = 1 << rng_int(&t->rng, 0, 2);
    const ptrdiff_t apart = rng_int(&t->rng, 0, rng_one_in(&t->rng, 2) ? 20 : n), count = n ? n + (taps - 1) * apart : 0;
    const float *const x = input(t, 0, n, kind), *const before = input(t, 1, count, kind);
    float *const y = place_out(t->out, &t->rng, count, sizeof *y), *const to[4] = { y, y + apart, y + 2 * apart, y + 3 * apart };
    float w[4];
    for (int k = 0; k < 4; k++) w[k] = value(&t->rng, 0);
    memcpy(y, before, (size_t)count * sizeof *y);
    t->dsp.unblend(to, w, taps, x, n);
    CHECK(guards_hold(t->out, y, count, sizeof *y), "%s unblend n=%td wrote outside", t->level, n);
    for (ptrdiff_t i = 0; i < count; i++) {
        Sum s = { before[i], fabs(before[i]), 1 };
        for (int k = 0; k < taps; k++)
            if (i >= k * apart && i < k * apart + n) sum_add(&s, (double)w[k] * x[i - k * apart], fabs((double)w[k] * x[i - k * apart]));
        CHECK(sum_near(&s, y[i], 0), "%s unblend n=%td taps=%d apart %td: [%td] is %.9g, want %.9g", t->level, n, taps, apart, i, y[i], s.value);
    }
}

/* What is not there must not count: an infinite weight times it would be NaN. */
static void check_infinite_weight(Test *t, ptrdiff_t n)
{
    float *const q = input(t, 0, n, 0), *const x = input(t, 1, n, 0);
    for (ptrdiff_t i = 0; i < n; i++) q[i] = x[i] = 1;
    const float w[1] = { INFINITY }, *const tap[1] = { x };
    CHECK(n < 1 || (isinf(t->dsp.dot_blend(q, tap, w, 1, n)) && isinf(t->dsp.l2_blend(q, tap, w, 1, n))),
          "%s blend sums n=%td with an infinite weight", t->level, n);
}

/* ---- storage types: bit for bit, NaN any NaN ---- */

static bool same_half(uint16_t a, uint16_t b, uint16_t infinity)
{
    const bool nan_a = (a & 0x7fff) > infinity, nan_b = (b & 0x7fff) > infinity;
    return nan_a || nan_b ? nan_a && nan_b : a == b;
}

static bool same_float(float a, float b) { return isnan(a) ? isnan(b) : bits(a) == bits(b); }

static float any_float(Rng *rng)
{
    static const uint32_t special[] = { 0, 1, 0x7fffff, 0x7f7fffff, 0x7f800000, 0x7f800001, 0x7fc00000, 0x7fffffff };
    const uint64_t u = rng_bits(rng);
    if (rng_one_in(rng, 8)) return snls_bits_float((uint32_t)(u >> 63) << 31 | special[u % 8]);
    if (rng_one_in(rng, 4)) return snls_bits_float((uint32_t)u);
    const int rounded = rng_one_in(rng, 2) ? 13 : 16; /* else near where rounding turns: halves between two, ranges' ends */
    const uint32_t exponent = (uint32_t)rng_int(rng, 127 - 27, 127 + 17) << 23;
    const uint32_t tie = (uint32_t)rng_int(rng, 0, 0x7fffff >> (rounded - 1)) << (rounded - 1);
    return snls_bits_float(((uint32_t)(u >> 63) << 31 | exponent | tie) + (uint32_t)rng_int(rng, -1, 1));
}

static void check_to_half(Test *t, ptrdiff_t n)
{
    float *const x = place(t->in[0], &t->rng, n, sizeof *x);
    for (ptrdiff_t i = 0; i < n; i++) x[i] = any_float(&t->rng);
    uint16_t *const h = place_out(t->out, &t->rng, n, sizeof *h);
    t->dsp.to_f16(h, x, n);
    for (ptrdiff_t i = 0; i < n; i++)
        CHECK(same_half(h[i], snls_float_to_f16(x[i]), 0x7c00), "%s to_f16 of %a (%08x) is %04x", t->level, x[i], bits(x[i]), h[i]);
    t->dsp.to_bf16(h, x, n);
    for (ptrdiff_t i = 0; i < n; i++)
        CHECK(same_half(h[i], snls_float_to_bf16(x[i]), 0x7f80), "%s to_bf16 of %a (%08x) is %04x", t->level, x[i], bits(x[i]), h[i]);
    CHECK(guards_hold(t->out, h, n, sizeof *h), "%s to_f16 or to_bf16 n=%td wrote outside", t->level, n);
}

static void check_from_half(Test *t, uint16_t first, ptrdiff_t n)
{
    uint16_t *const h = place(t->in[0], &t->rng, n, sizeof *h);
    for (ptrdiff_t i = 0; i < n; i++) h[i] = (uint16_t)(first + i);
    float *const x = place_out(t->out, &t->rng, n, sizeof *x);
    t->dsp.from_f16(x, h, n);
    for (ptrdiff_t i = 0; i < n; i++) CHECK(same_float(x[i], snls_f16_to_float(h[i])), "%s from_f16 of %04x", t->level, h[i]);
    t->dsp.from_bf16(x, h, n);
    for (ptrdiff_t i = 0; i < n; i++) CHECK(same_float(x[i], snls_bf16_to_float(h[i])), "%s from_bf16 of %04x", t->level, h[i]);
    CHECK(guards_hold(t->out, x, n, sizeof *x), "%s from_f16 or from_bf16 n=%td wrote outside", t->level, n);
}

/* The plain version and base/half.h are the same function, NaN included: all halves there and back, many floats. */
static void check_plain_halves(const SnlsDsp *c, Rng *rng)
{
    for (uint32_t i = 0; i < 0x10000; i++) {
        const uint16_t h = (uint16_t)i;
        float x, y;
        uint16_t back, bback;
        c->from_f16(&x, &h, 1);
        c->from_bf16(&y, &h, 1);
        c->to_f16(&back, &x, 1);
        c->to_bf16(&bback, &y, 1);
        CHECK(bits(x) == bits(snls_f16_to_float(h)) && bits(y) == bits(snls_bf16_to_float(h)), "c from half %04x", h);
        CHECK(same_half(back, h, 0x7c00) && same_half(bback, h, 0x7f80), "c half %04x and back", h);
    }
    for (int i = 0; i < 1000000; i++) {
        const float x = any_float(rng);
        uint16_t h, b;
        c->to_f16(&h, &x, 1);
        c->to_bf16(&b, &x, 1);
        CHECK(h == snls_float_to_f16(x) && b == snls_float_to_bf16(x), "c to half of %08x", bits(x));
    }
}

/* ---- all of it ---- */

static void check_seed(Test *t, uint64_t seed)
{
    static const ptrdiff_t usual[] = { 1, 2, 3, 3, 4, 8, 16, 32, 64, 128, 192 };
    t->rng.state = seed;
    for (int round = 0; round < 6; round++) {
        const int kind = (int)rng_int(&t->rng, 0, 6);
        ptrdiff_t n = rng_int(&t->rng, 0, rng_one_in(&t->rng, 2) ? 40 : MAX_N);
        if (rng_one_in(&t->rng, 2)) n = usual[rng_int(&t->rng, 0, 10)];
        check_pair(t, n, kind);
        check_row(t, n, kind, false);
        check_row(t, n, kind, true);
        check_blend(t, n, kind);
        check_reads(t, n, kind);
        check_blend_gradients(t, n, kind);
        check_unblend(t, n, kind);
        check_bends(t, n, kind);
        check_maps(t, n, kind);
        check_infinite_weight(t, n);
        check_to_half(t, n);
    }
}

static void check_all_halves(Test *t)
{
    for (uint32_t first = 0, n; first < 0x10000; first += n) {
        n = (uint32_t)rng_int(&t->rng, 1, MAX_N);
        check_from_half(t, (uint16_t)first, n < 0x10000 - first ? n : 0x10000 - first);
    }
}

static void check_init(void)
{
    SnlsDsp d[3];
    memset(d, 0, sizeof d);
    const int max = snls_dsp_level_max();
    snls_dsp_init(&d[0], max);
    snls_dsp_init(&d[1], max + 1);
    CHECK(!memcmp(&d[0], &d[1], sizeof d[0]), "a level above the largest is not lowered to it");
    snls_dsp_init(&d[0], 1);
    snls_dsp_init_c(&d[1]);
    CHECK(!memcmp(&d[0], &d[1], sizeof d[0]), "level 1 is not the plain version");
}

/* ---- speed: GFLOP/s, best of many short runs ---- */

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

enum { BENCH_DOT, BENCH_L2, BENCH_BLEND };

static double bench(const SnlsDsp *d, int what, ptrdiff_t n)
{
    enum { KEYS = 32, RUNS = 3000 };
    static _Alignas(64) float q[256], out[256], key[KEYS * 256];
    static const float w[4] = { 0.1f, 0.2f, 0.3f, 0.4f };
    const double flops = what == BENCH_DOT ? 2 : what == BENCH_L2 ? 3 : 7;
    const int calls = (int)(4000 / (KEYS * (n + 16))) + 2;
    double best = 1;
    for (int i = 0; i < KEYS * 256; i++) key[i] = 1; /* pages of its own: those never written to are one and the same */
    for (int run = 0; run < RUNS; run++) {
        const double start = seconds();
        for (int i = 0; i < calls; i++) {
            if (what == BENCH_DOT) d->dot_row(out, q, key, n, KEYS, n);
            else if (what == BENCH_L2) d->l2_row(out, q, key, n, KEYS, n);
            else for (int j = 0; j < KEYS; j++)
                d->blend(out, (const float *[]){ key + j * n, key, key + n, key + 2 * n }, w, 4, n);
        }
        const double time = (seconds() - start) / calls;
        if (time < best) best = time;
    }
    return flops * KEYS * (double)n / best * 1e-9;
}

static void bench_all(void)
{
    static const ptrdiff_t sizes[] = { 3, 8, 16, 32, 64, 128, 192 };
    printf("GFLOP/s, 32 keys a row   %8s %8s %8s\n", "dot_row", "l2_row", "blend");
    for (int level = 1; level <= snls_dsp_level_max(); level++) {
        SnlsDsp d;
        snls_dsp_init(&d, level);
        for (int i = 0; i < 7; i++)
            printf("%-8s n = %-4td         %8.1f %8.1f %8.1f\n", level_names[level], sizes[i], bench(&d, BENCH_DOT, sizes[i]),
                   bench(&d, BENCH_L2, sizes[i]), bench(&d, BENCH_BLEND, sizes[i]));
    }
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "--bench")) {
        bench_all();
        return 0;
    }
    const uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1, last = argc > 1 ? first : SEEDS;
    static Test t;
    for (int i = 0; i < 5; i++) t.in[i] = block_new();
    t.out = block_new();
    SnlsDsp plain;
    snls_dsp_init_c(&plain);
    check_init();
    check_repeat("test_dsp %llu", (unsigned long long)first);
    check_plain_halves(&plain, &(Rng){ first });
    for (int level = 1; level <= snls_dsp_level_max(); level++) {
        t.level = level_names[level];
        snls_dsp_init(&t.dsp, level);
        check_all_halves(&t);
        for (uint64_t seed = first; seed <= last; seed++) {
            check_repeat("test_dsp %llu", (unsigned long long)seed);
            check_seed(&t, seed);
        }
        printf("%s: seeds %llu to %llu\n", t.level, (unsigned long long)first, (unsigned long long)last);
    }
    return check_end();
}
