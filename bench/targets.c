/* targets.c: what the cpu backend has promised, measured. Every row says what it compares; none of them is a test.
 * What is compared is the least of many runs on either side, taken in turn: disturbance only ever adds time, to a long run more likely
 * than to a burst of multiply-adds, so medians would compare how busy the machine is. The medians are told beside it. Slopes of time: see slope_in_turn. */
#include "bench.h"
#include <math.h>
#include <string.h>

bool bench_target_met(const BenchTarget *t)
{
    switch (t->sense) {
    case BENCH_AT_LEAST: return t->measured >= t->goal;
    case BENCH_AT_MOST: return t->measured <= t->goal;
    case BENCH_WITHIN: return fabs(t->measured - t->goal) <= t->within;
    }
    return false;
}

static SnlsStatus add(BenchReport *r, const BenchTarget *target)
{
    if (target->left_out) return SNLS_OK;
    BenchTarget *grown = bench_grow(r->targets, r->target_count, &r->target_room, sizeof *grown);
    if (!grown) return SNLS_ERR_MEMORY;
    r->targets = grown;
    r->targets[r->target_count++] = *target;
    return SNLS_OK;
}

/* Too large for this machine is a row without a measurement; one that was not asked for goes the same way, and is no row. */
static SnlsStatus measure(BenchReport *r, BenchTarget *t, BenchPoint *points, int count)
{
    for (int i = 0; i < count; i++) {
        points[i].which = bench_shrunk(&r->settings, points[i].which);
        bench_name(&points[i].which);
    }
    const char *direction = points[0].backward ? ", backward" : "";
    if (!*t->work) snprintf(t->work, sizeof t->work, "%s %s%s", points[0].which.op, points[0].which.name, direction);
    const BenchSettings *s = &r->settings;
    t->measured = t->median = NAN;
    t->left_out = s->filter && !strstr(t->work, s->filter);
    if (t->left_out) return SNLS_ERR_MEMORY;
    if (s->progress) s->progress(t->work);
    const BenchEffort effort = { s->target_least, s->target_runs, s->target_limit, 0, r->cpu_level };
    const SnlsStatus status = bench_points(s, &effort, points, count, r->why);
    if (status == SNLS_ERR_MEMORY) snprintf(t->detail, sizeof t->detail, "not enough memory");
    else if (status >= 0) t->runs = points[0].runs;
    for (int i = 0; i < count && status >= 0; i++) points[i].fma_rate = bench_checked_rate(r, points[i].threads, points[i].fma_rate);
    return status;
}

/* scale * above / below, of the least times and of the medians; a NULL is 1. */
static void set_ratio(BenchTarget *t, double scale, const BenchPoint *above, const BenchPoint *below)
{
    t->measured = scale * (above ? above->best : 1) / (below ? below->best : 1);
    t->median = scale * (above ? above->seconds : 1) / (below ? below->seconds : 1);
}

static void tell_pair(BenchTarget *t, const BenchPoint *p)
{
    snprintf(t->detail, sizeof t->detail, "%.2f ms against %.2f ms", 1e3 * p[0].best, 1e3 * p[1].best);
}

static SnlsStatus stop_unless_memory(SnlsStatus status) { return status == SNLS_ERR_MEMORY ? SNLS_OK : status; }

static const int32_t features[] = { 32, 64, 128 };

/* ---- search ---- */

static SnlsStatus add_integer(BenchReport *r)
{
    SnlsStatus status = SNLS_OK;
    for (int i = 0; i < 3 * 2 * 2 && status >= 0; i++) {
        BenchPoint p = { .which = bench_search_case(320, 320, features[i / 4]) };
        p.which.dist = i / 2 % 2 ? SNLS_DIST_L2 : SNLS_DIST_PROD;
        p.which.flow = i % 2 ? BENCH_SMOOTH : BENCH_ZERO;
        BenchTarget t = { .unit = "% of FMA rate", .sense = BENCH_AT_LEAST, .goal = 60 };
        status = measure(r, &t, &p, 1);
        if (status >= 0) {
            set_ratio(&t, 100 * p.flops / p.fma_rate, NULL, &p);
            snprintf(t.detail, sizeof t.detail, "%.2f ms, %.0f of %.0f GFLOP/s", 1e3 * p.best, 1e-9 * p.flops / p.best,
                     1e-9 * p.fma_rate);
        }
        if (stop_unless_memory(status) >= 0) status = add(r, &t);
    }
    return status;
}

/* 17 candidates half a pixel apart reach as far as 9 that are one apart. */
static SnlsStatus add_half_pixel(BenchReport *r)
{
    SnlsStatus status = SNLS_OK;
    for (int i = 0; i < 3 * 2 && status >= 0; i++) {
        BenchPoint p[2] = { { .which = bench_search_case(320, 320, features[i / 2]), .want_plain = true } };
        p[0].which.flow = i % 2 ? BENCH_SMOOTH : BENCH_ZERO;
        p[1].which = p[0].which;
        p[0].which.ws = 17;
        p[0].which.stride1 = 0.5;
        BenchTarget t = { .unit = "x time of ws9 s1 1", .sense = BENCH_AT_MOST, .goal = 1.3 };
        status = measure(r, &t, p, 2);
        BenchTarget plain = { .unit = "x plain loop", .sense = BENCH_AT_LEAST, .goal = 10, .measured = NAN, .median = NAN };
        memcpy(plain.work, t.work, sizeof plain.work);
        plain.left_out = t.left_out;
        if (status >= 0) {
            set_ratio(&t, 1, &p[0], &p[1]);
            tell_pair(&t, p);
            set_ratio(&plain, p[0].plain_seconds, NULL, &p[0]);
            plain.runs = t.runs;
            snprintf(plain.detail, sizeof plain.detail, "%.2f ms against %.0f ms on one thread", 1e3 * p[0].best,
                     1e3 * p[0].plain_seconds);
        }
        if (stop_unless_memory(status) < 0) return status;
        status = add(r, &t);
        if (status >= 0) status = add(r, &plain);
    }
    return status;
}

static SnlsStatus add_patches(BenchReport *r)
{
    SnlsStatus status = SNLS_OK;
    for (int i = 0; i < 3 * 2 && status >= 0; i++) {
        BenchPoint p = { .which = bench_search_case(160, 160, features[i / 2] / 2) };
        p.which.ps = 7;
        p.which.dist = i % 2 ? SNLS_DIST_L2 : SNLS_DIST_PROD;
        BenchTarget t = { .unit = "x direct sums at FMA rate", .sense = BENCH_AT_LEAST, .goal = 8 };
        status = measure(r, &t, &p, 1);
        if (status >= 0) {
            set_ratio(&t, p.flops / p.fma_rate, NULL, &p);
            snprintf(t.detail, sizeof t.detail, "%.2f ms, direct sums would take %.1f ms", 1e3 * p.best,
                     1e3 * p.flops / p.fma_rate);
        }
        if (stop_unless_memory(status) >= 0) status = add(r, &t);
    }
    return status;
}

static SnlsStatus add_backward(BenchReport *r)
{
    static const struct Row {
        int32_t channels, ps, k, dist;
        double stride1;
    } rows[] = { { 32, 1, 3, SNLS_DIST_PROD, 1 },   { 64, 1, 3, SNLS_DIST_PROD, 1 }, { 128, 1, 3, SNLS_DIST_PROD, 1 },
                 { 32, 1, 3, SNLS_DIST_L2, 1 },     { 128, 1, 3, SNLS_DIST_L2, 1 },  { 32, 1, 10, SNLS_DIST_L2, 1 },
                 { 32, 1, 3, SNLS_DIST_PROD, 0.5 }, { 32, 3, 10, SNLS_DIST_L2, 1 },  { 32, 7, 3, SNLS_DIST_L2, 1 } };
    SnlsStatus status = SNLS_OK;
    for (size_t i = 0; i < sizeof rows / sizeof *rows && status >= 0; i++) {
        BenchPoint p[2] = { { .which = bench_search_case(160, 160, rows[i].channels), .backward = true } };
        p[0].which.ps = rows[i].ps;
        p[0].which.k = rows[i].k;
        p[0].which.dist = rows[i].dist;
        p[0].which.stride1 = rows[i].stride1;
        p[1].which = p[0].which;
        BenchTarget t = { .unit = "x forward", .sense = BENCH_AT_MOST, .goal = 2 };
        status = measure(r, &t, p, 2);
        if (status >= 0) {
            set_ratio(&t, 1, &p[0], &p[1]);
            tell_pair(&t, p);
        }
        if (stop_unless_memory(status) >= 0) status = add(r, &t);
    }
    return status;
}

/* ---- aggregation ---- */

static BenchCase gather_case(int32_t side, int32_t ps)
{
    BenchCase c = bench_search_case(side, side, 32);
    c.op = "gather_add";
    c.ps = ps;
    c.k = 10;
    c.flow = BENCH_NO_FLOW;
    return c;
}

static SnlsStatus add_gather(BenchReport *r)
{
    SnlsStatus status = SNLS_OK;
    for (int i = 0; i < 2 && status >= 0; i++) {
        BenchPoint p = { .which = gather_case(320, i ? 3 : 1) };
        const char *bound = "";
        BenchTarget t = { .unit = "% of the limit", .sense = BENCH_AT_LEAST, .goal = 50 };
        status = measure(r, &t, &p, 1);
        if (status >= 0) {
            const double least =
                bench_floor(bench_ceilings_of(r, p.threads), p.fma_rate, p.flops, p.bytes, p.working_set, &bound);
            set_ratio(&t, 100 * least, NULL, &p);
            snprintf(t.detail, sizeof t.detail, "%.2f ms of %.2f ms, bound by %s", 1e3 * least, 1e3 * p.best, bound);
        }
        if (stop_unless_memory(status) >= 0) status = add(r, &t);
    }
    return status;
}

/* ---- scaling ---- */

static void list_points(BenchTarget *t, const double *values, double scale, int count)
{
    size_t at = 0;
    for (int i = 0; i < count && at < sizeof t->detail; i++)
        at += (size_t)snprintf(t->detail + at, sizeof t->detail - at, "%s%.4g", i ? ", " : "", scale * values[i]);
}

/* The slope through the runs of one turn, which are taken within a second or so of each other; the median of all turns. The least times of each length would
 * compare the machine's best moment for short runs with what a long one seldom gets. */
static double slope_in_turn(const double *x, const BenchPoint *p, int count)
{
    double slopes[BENCH_RUNS], y[BENCH_POINTS];
    for (int r = 0; r < p[0].runs; r++) {
        for (int i = 0; i < count; i++) y[i] = p[i].in_turn[r];
        slopes[r] = bench_slope(x, y, count);
    }
    return bench_median(slopes, p[0].runs);
}

static const int32_t heights[] = { 120, 170, 240, 340, 480 }, widths[] = { 214, 302, 427, 604, 854 },
                     lengths[] = { 5, 8, 12, 18 };

enum { SLOPE_TURNS = 5 }; /* as many times the turns of other targets */

static SnlsStatus add_time_slope(BenchReport *r, bool frames)
{
    const int count = frames ? 4 : 5;
    BenchPoint p[5] = { { .backward = false } };
    double x[5], seconds[5], best[5];
    for (int i = 0; i < count; i++) {
        p[i].which = frames ? bench_search_case(120, 214, 16) : bench_search_case(heights[i], widths[i], 16);
        p[i].which.ps = 3;
        p[i].which.k = 10;
        p[i].which.dist = SNLS_DIST_L2;
        if (frames) p[i].which.frames = lengths[i];
    }
    BenchTarget t = { .unit = "slope of time", .sense = BENCH_WITHIN, .goal = 1, .within = 0.05 };
    snprintf(t.work, sizeof t.work, "search F16 ws9 ps3 k10 l2 smooth, %s",
             frames ? "120x214, T 5 to 18" : "120x214 to 480x854, T 5");
    const double limit = r->settings.target_limit;
    r->settings.target_limit = SLOPE_TURNS * limit;
    const SnlsStatus status = measure(r, &t, p, count);
    r->settings.target_limit = limit;
    for (int i = 0; i < count && status >= 0; i++) {
        seconds[i] = p[i].seconds;
        best[i] = p[i].best;
        x[i] = (double)p[i].which.frames * p[i].which.height * p[i].which.width;
    }
    if (status >= 0) {
        t.measured = slope_in_turn(x, p, count);
        t.median = bench_slope(x, seconds, count);
        list_points(&t, best, 1e3, count);
        strncat(t.detail, " ms", sizeof t.detail - strlen(t.detail) - 1);
    }
    return stop_unless_memory(status) < 0 ? status : add(r, &t);
}

static SnlsStatus add_memory_slope(BenchReport *r)
{
    static const int32_t sides[] = { 5, 9, 17, 33 };
    BenchPoint p[4] = { { .backward = false } };
    double ws[4], memory[4], scratch[4];
    BenchSettings once = r->settings;
    for (int i = 0; i < 4; i++) {
        p[i].which = bench_search_case(240, 427, 16);
        p[i].which.ps = 3;
        p[i].which.k = 10;
        p[i].which.dist = SNLS_DIST_L2;
        ws[i] = p[i].which.ws = sides[i];
    }
    BenchTarget t = { .work = "search F16 ps3 k10 l2 smooth, 240x427, ws 5, 9, 17, 33",
                      .unit = "slope of tensors and scratch",
                      .sense = BENCH_WITHIN,
                      .within = 0.05 };
    r->settings.target_runs = 1; /* its time is of no interest */
    const SnlsStatus status = measure(r, &t, p, 4);
    r->settings.target_runs = once.target_runs;
    t.runs = 0;
    for (int i = 0; i < 4 && status >= 0; i++) {
        scratch[i] = p[i].scratch;
        memory[i] = p[i].scratch + p[i].working_set;
    }
    if (status >= 0) {
        t.measured = bench_slope(ws, memory, 4);
        list_points(&t, scratch, 1 / 1048576.0, 4);
        strncat(t.detail, " MiB scratch", sizeof t.detail - strlen(t.detail) - 1);
    }
    return stop_unless_memory(status) < 0 ? status : add(r, &t);
}

/* ---- threads ---- */

static SnlsStatus add_threads(BenchReport *r)
{
    SnlsStatus status = SNLS_OK;
    for (int i = 0; i < 5 && status >= 0; i++) {
        if (!bench_wants(&r->settings, i == 4 ? "gather_add" : "search")) continue;
        BenchPoint p[2] = { { .which = bench_search_case(160, 160, 32), .threads = 2 } };
        if (i == 1) p[0].which.ps = 7;
        if (i == 2) p[0].which.flow = BENCH_RANDOM;
        if (i == 4) p[0].which = gather_case(160, 1);
        p[0].backward = i == 3;
        p[1] = p[0];
        p[1].threads = 1;
        BenchTarget t = { .unit = "x one thread", .sense = BENCH_AT_LEAST, .goal = 1.8 };
        status = measure(r, &t, p, 2);
        if (status >= 0) {
            set_ratio(&t, 1, &p[1], &p[0]);
            tell_pair(&t, p);
        }
        if (stop_unless_memory(status) >= 0) status = add(r, &t);
    }
    return status;
}

static SnlsStatus add_all(BenchReport *r)
{
    const bool is_search = bench_wants(&r->settings, "search"), is_gather = bench_wants(&r->settings, "gather_add");
    SnlsStatus status = is_search ? add_integer(r) : SNLS_OK;
    if (is_search && status >= 0) status = add_half_pixel(r);
    if (is_search && status >= 0) status = add_patches(r);
    if (is_search && status >= 0) status = add_backward(r);
    if (is_gather && status >= 0) status = add_gather(r);
    if (is_search && status >= 0) status = add_time_slope(r, false);
    if (is_search && status >= 0) status = add_time_slope(r, true);
    if (is_search && status >= 0) status = add_memory_slope(r);
    return status >= 0 && r->threads > 1 ? add_threads(r) : status;
}

SnlsStatus bench_add_targets(BenchReport *r)
{
    const SnlsStatus status = add_all(r);
    if (status < 0 || r->target_count) return status;
    snprintf(r->why, sizeof r->why, "--case is %s, no target%s%s has that in its name", r->settings.filter, r->settings.op ? " of --op " : "", r->settings.op ? r->settings.op : "");
    return SNLS_ERR_ARG;
}
