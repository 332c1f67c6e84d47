/* scaling.c: several calls timed in turn, and time against each thing that a case has. */
#include "bench.h"
#include <math.h>
#include <string.h>

/* ---- points ---- */

static SnlsStatus said(SnlsContext *ctx, SnlsStatus status, char *why)
{
    if (status < 0) snprintf(why, 512, "%s", snls_error(ctx));
    return status;
}

/* Opened and filled; backward reads what forward left. */
static SnlsStatus prepare(const BenchSettings *s, const BenchPoint *p, BenchCall *call, BenchTimed *timed, char *why)
{
    SnlsContextParams params = s->context;
    params.error_text = why;
    params.error_size = 512;
    if (p->threads) params.threads = p->threads;
    *call = (BenchCall){ .which = &p->which };
    *timed = (BenchTimed){ .call = call, .backward = p->backward };
    SnlsStatus status = snls_open(&call->ctx, &params);
    if (status >= 0) status = snls_open(&timed->ctx, &params);
    if (status >= 0) status = said(call->ctx, bench_call_make(call), why);
    if (status >= 0 && p->backward) status = said(call->ctx, call->op->forward(call->ctx, &call->tensors), why);
    return status;
}

/* The least of three: what is compared with it is the least of its runs too. */
static double plain_seconds(const BenchSettings *s, const BenchCall *call, bool backward)
{
    double queries, difference, best = bench_plain(call, backward, s->side_budget, &queries, &difference);
    for (int i = 1; i < (s->tier == BENCH_QUICK ? 1 : 3); i++)
        best = fmin(best, bench_plain(call, backward, s->side_budget, &queries, &difference));
    return best * bench_queries(call->which);
}

static void finish(const BenchSettings *s, BenchPoint *p, const BenchCall *call, const BenchTimed *timed)
{
    p->seconds = timed->seconds;
    p->best = timed->best;
    p->runs = timed->runs;
    memcpy(p->in_turn, timed->in_turn, sizeof p->in_turn);
    p->threads = snls_threads(timed->ctx);
    p->flops = bench_flops(call, p->backward);
    p->bytes = bench_bytes(call, p->backward);
    p->working_set = bench_bytes(call, false) - bench_output_bytes(call, false) + bench_output_bytes(call, p->backward);
    p->scratch = (double)snls_scratch_peak(timed->ctx);
    p->plain_seconds = p->want_plain ? plain_seconds(s, call, p->backward) : NAN;
}

SnlsStatus bench_points(const BenchSettings *s, const BenchEffort *effort, BenchPoint *points, int count, char *why)
{
    BenchCall calls[BENCH_POINTS] = { { 0 } };
    BenchTimed timed[BENCH_POINTS] = { { 0 } };
    SnlsStatus status = SNLS_OK;
    for (int i = 0; i < count && status >= 0; i++) status = prepare(s, &points[i], &calls[i], &timed[i], why);
    if (status >= 0) {
        BenchEffort with_bursts = *effort;
        double fma_rate = 0;
        with_bursts.threads = snls_threads(timed[0].ctx);
        status = bench_time(timed, count, &with_bursts, &fma_rate);
        for (int i = 0; i < count; i++) {
            if (status < 0 && snls_error(timed[i].ctx)[0]) snprintf(why, 512, "%s", snls_error(timed[i].ctx));
            points[i].fma_rate = fma_rate;
        }
    }
    for (int i = 0; i < count; i++) {
        if (status >= 0) finish(s, &points[i], &calls[i], &timed[i]);
        bench_call_free(&calls[i]);
        snls_close(&timed[i].ctx);
        snls_close(&calls[i].ctx);
    }
    return status;
}

/* Least squares through the logarithms. */
double bench_slope(const double *x, const double *y, int count)
{
    double n = count, sx = 0, sy = 0, sxx = 0, sxy = 0;
    for (int i = 0; i < count; i++) {
        const double a = log(x[i]), b = log(y[i]);
        sx += a, sy += b, sxx += a * a, sxy += a * b;
    }
    const double spread = n * sxx - sx * sx;
    return spread > 1e-9 ? (n * sxy - sx * sy) / spread : NAN;
}

/* ---- series ---- */

typedef struct Axis {
    const char *name;
    int count;
    int32_t values[BENCH_POINTS];
} Axis;

static const Axis axes[] = { { "pixels", 5, { 80, 113, 160, 226, 320 } }, /* sides */
                             { "frames", 4, { 5, 8, 12, 20 } },
                             { "ws", 4, { 5, 9, 17, 33 } },
                             { "ps", 4, { 1, 3, 5, 7 } },
                             { "F", 4, { 16, 32, 64, 128 } },
                             { "threads", 0, { 0 } } };

static double set_value(BenchPoint *p, const char *axis, int32_t value)
{
    BenchCase *c = &p->which;
    if (!strcmp(axis, "pixels")) c->height = c->width = value;
    if (!strcmp(axis, "frames")) c->frames = value;
    if (!strcmp(axis, "ws")) c->ws = value;
    if (!strcmp(axis, "ps")) c->ps = value;
    if (!strcmp(axis, "F")) c->channels = value;
    if (!strcmp(axis, "threads")) p->threads = value;
    return value;
}

static SnlsStatus add_one(BenchReport *r, const BenchCase *base, const Axis *axis, bool backward)
{
    BenchSeries *grown = bench_grow(r->series, r->series_count, &r->series_room, sizeof *grown);
    if (!grown) return SNLS_ERR_MEMORY;
    r->series = grown;
    BenchSeries *s = &r->series[r->series_count];
    *s = (BenchSeries){ .axis = axis->name, .count = axis->count, .slope = NAN, .slope_median = NAN };
    snprintf(s->name, sizeof s->name, "%s %s", base->op, backward ? "backward" : "forward");
    if (r->settings.progress) r->settings.progress(s->name);
    double seconds[BENCH_POINTS], best[BENCH_POINTS];
    const BenchEffort effort = { 1, r->settings.runs, r->settings.limit * s->count, 0, r->cpu_level };
    for (int i = 0; i < s->count; i++) {
        BenchPoint *p = &s->points[i];
        p->which = *base;
        p->backward = backward;
        s->x[i] = set_value(p, axis->name, axis->values[i]);
        p->which = bench_shrunk(&r->settings, p->which);
        if (!strcmp(axis->name, "pixels")) s->x[i] = (double)p->which.height * p->which.width;
        if (!strcmp(axis->name, "F")) s->x[i] = p->which.channels;
        if (!strcmp(axis->name, "ws")) s->x[i] = p->which.ws;
        bench_name(&p->which);
    }
    const SnlsStatus status = bench_points(&r->settings, &effort, s->points, s->count, r->why);
    if (status == SNLS_ERR_MEMORY) return SNLS_OK; /* left out */
    if (status < 0) return status;
    for (int i = 0; i < s->count; i++) seconds[i] = s->points[i].seconds, best[i] = s->points[i].best;
    s->slope = bench_slope(s->x, best, s->count);
    s->slope_median = bench_slope(s->x, seconds, s->count);
    r->series_count++;
    return SNLS_OK;
}

SnlsStatus bench_add_series(BenchReport *r)
{
    const bool is_search = bench_wants(&r->settings, "search"), is_gather = bench_wants(&r->settings, "gather_add");
    BenchCase search = bench_search_case(160, 160, 32), gather = search;
    SnlsStatus status = SNLS_OK;
    search.ps = 3;
    search.k = gather.k = 10;
    search.dist = SNLS_DIST_L2;
    gather.op = "gather_add";
    gather.flow = BENCH_NO_FLOW;
    for (size_t i = 0; i < sizeof axes / sizeof *axes && status >= 0; i++) {
        Axis axis = axes[i];
        for (int32_t n = 1; !axes[i].count && n <= r->threads && axis.count < BENCH_POINTS; n *= 2)
            axis.values[axis.count++] = n;
        if (axis.count < 2) continue; /* one thread */
        if (is_search) status = add_one(r, &search, &axis, false);
        if (is_search && status >= 0) status = add_one(r, &search, &axis, true);
        if (is_gather && status >= 0 && strcmp(axis.name, "ws")) status = add_one(r, &gather, &axis, false);
    }
    return status;
}
