/* test_spec.c: where things are: frame order, windows, anchors, through the public interface (docs/operators.md section 2).
 *   test_spec [FACT] */
#include "spec.h"
#include <math.h>

static SnlsSearchParams defaults_of(void)
{
    SnlsSearchParams p;
    snls_search_defaults(&p);
    return p;
}

/* ---- frames ---- */

static int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }

/* The formula as printed; the tests' model walks the frames instead. */
static int64_t printed_frame(int64_t t, int64_t s, int64_t wt, int64_t T)
{
    const int64_t shift = min64(0, t - wt) + max64(0, t + wt - (T - 1)), tmax = min64(T - 1, t + wt - shift);
    return t + s <= tmax ? t + s : tmax - s;
}

static void check_frames_of(SnlsContext *ctx, int64_t T, int32_t wt)
{
    SnlsSearchParams p = defaults_of();
    p.ws = 1;
    p.wt = wt;
    SnlsSearch s = spec_search(&p, 1, T, 1, 1, 1);
    spec_outputs(&s, true);
    if (!spec_run(ctx, &s, true)) return;
    for (int64_t t = 0; t < T; t++) {
        uint64_t seen = 0;
        for (int64_t slot = 0; slot < 2 * wt + 1; slot++) {
            const int64_t frame = t + (int64_t)tensor_get(&s.offset, 3 * (t * (2 * wt + 1) + slot)), want = printed_frame(t, slot, wt, T);
            CHECK(frame == want && frame == model_frame(t, slot, wt, T), "T %d wt %d t %d: slot %d is frame %d, expected %d", (int)T, (int)wt,
                  (int)t, (int)slot, (int)frame, (int)want);
            CHECK(frame >= 0 && frame < T && !(seen >> frame & 1), "T %d wt %d t %d: frame %d twice", (int)T, (int)wt, (int)t, (int)frame);
            seen |= (uint64_t)1 << (frame & 63);
        }
    }
    tensors_free();
}

static void frames(SnlsContext *ctx)
{
    for (int64_t T = 1; T <= 13; T++)
        for (int32_t wt = 0; wt <= 5 && 2 * wt + 1 <= T; wt++) check_frames_of(ctx, T, wt);
}

static void frames_example(SnlsContext *ctx)
{
    static const int want[5][3] = {{0, 1, 2}, {1, 2, 0}, {2, 3, 1}, {3, 4, 2}, {4, 3, 2}};
    SnlsSearchParams p = defaults_of();
    p.ws = 1;
    p.wt = 1;
    SnlsSearch s = spec_search(&p, 1, 5, 1, 1, 1);
    spec_outputs(&s, true);
    if (!spec_run(ctx, &s, true)) return;
    for (int t = 0; t < 5; t++)
        for (int slot = 0; slot < 3; slot++) {
            const int frame = t + (int)tensor_get(&s.offset, 3 * (t * 3 + slot));
            CHECK(frame == want[t][slot], "time %d slot %d is frame %d, expected %d", t, slot, frame, want[t][slot]);
        }
}

/* ---- windows: a row of L pixels, the centre of each window set by the flow. Rows of the window: L = 1, so only the last
 * one is inside; its candidates are the window along x. ---- */

typedef struct Window { int64_t L; int32_t ws; double step, centre; } Window;

static SnlsSearch row_search(int64_t L, int32_t ws, double step, int64_t centres)
{
    SnlsSearchParams p = defaults_of();
    p.ws = ws;
    p.stride1 = step;
    SnlsSearch s = spec_search(&p, (centres + L - 1) / L, 1, 1, L, 1);
    spec_flow(&s, 1);
    spec_outputs(&s, true);
    return s;
}

/* Candidate c of the window around centre number n: its place, or NAN where it is invalid. */
static double place_of(const SnlsSearch *s, int64_t n, int64_t L, int32_t ws, int32_t c)
{
    const int64_t at = n * ws * ws + (int64_t)(ws - 1) * ws + c;
    return isfinite(tensor_get(&s->dist, at)) ? (double)(n % L) + tensor_get(&s->offset, 3 * at + 2) : NAN;
}

static bool near_whole(double x) { return fabs(x - nearbyint(x)) < 1e-6; }

static void check_window(const SnlsSearch *s, const Window *w, int64_t n)
{
    const double last = (double)(w->L - 1), below = w->centre / w->step, above = (last - w->centre) / w->step;
    if (w->step == 1.1 && ((near_whole(below) && below > 0.5) || (near_whole(above) && above > 0.5))) return; /* 1.1 is no dyadic number */
    const int64_t fits = (int64_t)floor(below) + (int64_t)floor(above) + 1; /* grid places inside the frame */
    const int32_t half = (w->ws - 1) / 2;
    int32_t valid = 0, first = -1, end = -1, centre = -1;
    for (int32_t c = 0; c < w->ws; c++) {
        const double p = place_of(s, n, w->L, w->ws, c);
        if (isnan(p)) continue;
        if (first < 0) first = c;
        end = c;
        valid++;
        if (fabs(p - w->centre) < 1e-5) centre = c;
        CHECK(p >= -1e-5 && p <= last + 1e-5 && near_whole((p - w->centre) / w->step), "L %d ws %d step %g centre %g: candidate %d at %.9g",
              (int)w->L, (int)w->ws, w->step, w->centre, (int)c, p);
    }
    CHECK(valid == (fits < w->ws ? fits : w->ws) && end - first + 1 == valid, "L %d ws %d step %g centre %g: %d valid, %d places fit", (int)w->L,
          (int)w->ws, w->step, w->centre, (int)valid, (int)fits);
    if (fits < w->ws) { CHECK(end == w->ws - 1, "L %d ws %d step %g centre %g: an oversize window ends inside", (int)w->L, (int)w->ws, w->step, w->centre); return; }
    CHECK(centre >= 0, "L %d ws %d step %g centre %g: no candidate at the centre", (int)w->L, (int)w->ws, w->step, w->centre);
    const double low = place_of(s, n, w->L, w->ws, 0), high = place_of(s, n, w->L, w->ws, w->ws - 1);
    if (centre < half) CHECK(low < w->step, "L %d ws %d step %g centre %g: moved up too far", (int)w->L, (int)w->ws, w->step, w->centre);
    if (centre > half) CHECK(high > last - w->step, "L %d ws %d step %g centre %g: moved down too far", (int)w->L, (int)w->ws, w->step, w->centre);
}

static void check_windows_of(SnlsContext *ctx, int64_t L, int32_t ws, double step)
{
    const int64_t centres = 8 * (L - 1) + 1;
    SnlsSearch s = row_search(L, ws, step, centres);
    for (int64_t n = 0; n < centres; n++) tensor_set(&s.flow, 2 * n, (double)n / 8 - (double)(n % L));
    if (spec_run(ctx, &s, true))
        for (int64_t n = 0; n < centres; n++) check_window(&s, &(Window){L, ws, step, (double)n / 8}, n);
    tensors_free();
}

static void windows(SnlsContext *ctx)
{
    static const double steps[] = {1, 2, 0.5, 0.25, 1.1};
    for (int64_t L = 1; L <= 24; L++)
        for (int32_t ws = 1; ws <= 9; ws++)
            for (int i = 0; i < 5; i++) check_windows_of(ctx, L, ws, steps[i]);
}

static void windows_worked(SnlsContext *ctx)
{
    static const struct { int32_t ws; double step, centre; int valid; double first; } worked[] = {
        {5, 1, 0, 5, 0}, {5, 1, 4, 5, 2}, {5, 1, 8, 5, 5}, {4, 1, 4, 4, 3}, {5, 0.5, 0.7, 5, 0.2}, {10, 1, 0.5, 9, 0.5}};
    for (int i = 0; i < 6; i++) {
        const int32_t ws = worked[i].ws;
        SnlsSearch s = row_search(10, ws, worked[i].step, 1);
        tensor_set(&s.flow, 0, worked[i].centre);
        if (!spec_run(ctx, &s, true)) return;
        for (int32_t c = 0; c < ws; c++) {
            const double p = place_of(&s, 0, 10, ws, c), want = worked[i].first + worked[i].step * (c - (ws - worked[i].valid));
            CHECK(c < ws - worked[i].valid ? isnan(p) : fabs(p - want) < 1e-6, "L 10 ws %d step %g centre %g: candidate %d at %g, expected %g", (int)ws,
                  worked[i].step, worked[i].centre, (int)c, p, want);
        }
    }
}

/* cut: the window stays where it is, and what is outside is invalid. */
static void windows_cut(SnlsContext *ctx)
{
    for (int64_t L = 1; L <= 12; L++)
        for (int32_t ws = 1; ws <= 8; ws++) {
            const int64_t centres = 8 * (L - 1) + 1;
            SnlsSearch s = row_search(L, ws, 0.5, centres);
            s.params.window = SNLS_WINDOW_CUT;
            for (int64_t n = 0; n < centres; n++) tensor_set(&s.flow, 2 * n, (double)n / 8 - (double)(n % L));
            if (!spec_run(ctx, &s, true)) return;
            for (int64_t n = 0; n < centres; n++)
                for (int32_t r = 0; r < ws; r++)
                    for (int32_t c = 0; c < ws; c++) {
                        const double p = (double)n / 8 + 0.5 * (c - (ws - 1) / 2);
                        const bool want = r == (ws - 1) / 2 && p >= 0 && p <= (double)(L - 1), got = isfinite(tensor_get(&s.dist, (n * ws + r) * ws + c));
                        CHECK(got == want, "cut: L %d ws %d centre %g: candidate (%d,%d) is %s", (int)L, (int)ws, (double)n / 8, (int)r, (int)c, got ? "valid" : "invalid");
                    }
            tensors_free();
        }
}

/* ---- reflection of the centre: the triangle wave, however far the flow goes ---- */

static void far_flow(SnlsContext *ctx)
{
    for (int64_t L = 1; L <= 9; L++) {
        SnlsSearch s = row_search(L, 1, 1, 1);
        for (int64_t n = -12 * L * 4; n <= 12 * L * 4; n++) {
            const double x = (double)n / 4, period = 2 * (double)(L - 1);
            double want = L == 1 ? 0 : x - period * floor(x / period);
            if (want > (double)(L - 1)) want = period - want;
            tensor_set(&s.flow, 0, x);
            if (!spec_run(ctx, &s, true)) return;
            CHECK(tensor_get(&s.offset, 2) == want, "L %d: place %g is reflected to %g, expected %g", (int)L, x, tensor_get(&s.offset, 2), want);
        }
        tensor_set(&s.flow, 0, 1e30);
        tensor_set(&s.flow, 1, -3e38);
        if (!spec_run(ctx, &s, true)) return;
        CHECK(tensor_get(&s.offset, 2) >= 0 && tensor_get(&s.offset, 2) <= (double)(L - 1), "flow 1e30: offset %g", tensor_get(&s.offset, 2));
        tensors_free();
    }
}

/* Non-finite flow makes the candidates of that slot invalid, and of that slot only. */
static void broken_flow(SnlsContext *ctx)
{
    static const double bad[] = {NAN, INFINITY, -INFINITY};
    SnlsSearchParams p = defaults_of();
    p.ws = 3;
    p.wt = 1;
    SnlsSearch s = spec_search(&p, 1, 3, 4, 4, 1);
    spec_flow(&s, 2);
    spec_outputs(&s, true);
    for (int i = 0; i < 6; i++) {
        const int64_t at = AT(&s.flow, 0, 1, 0, 2, 2, i % 2);
        tensor_set(&s.flow, at, bad[i / 2]);
        if (!spec_run(ctx, &s, true)) return;
        for (int64_t k = 0; k < 27; k++) {
            const double d = tensor_get(&s.dist, AT(&s.dist, 0, 0, 1, 2, 2, k));
            CHECK(k >= 9 && k < 18 ? d == INFINITY : d == 0, "flow %g: candidate %d has distance %g", bad[i / 2], (int)k, d);
        }
        tensor_set(&s.flow, at, 0);
    }
}

int main(int argc, char **argv)
{
    static const Fact facts[] = {{"frames", frames}, {"frames_example", frames_example}, {"windows", windows}, {"windows_worked", windows_worked},
                                 {"windows_cut", windows_cut}, {"far_flow", far_flow}, {"broken_flow", broken_flow}};
    spec_run_facts("test_spec", facts, (int)(sizeof facts / sizeof *facts), argc, argv);
    return check_end();
}
