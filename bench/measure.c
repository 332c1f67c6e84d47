/* measure.c: times one case forward and backward, and the plain loop and ref on a part of it. */
#include "bench.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_median(double *times, int count)
{
    if (!count) return NAN;
    qsort(times, (size_t)count, sizeof *times, compare);
    return count % 2 ? times[count / 2] : 0.5 * (times[count / 2 - 1] + times[count / 2]);
}

static SnlsStatus once(BenchTimed *t)
{
    BenchCall *c = t->call;
    const double start = bench_now();
    const SnlsStatus status =
        t->backward ? c->op->backward(t->ctx, &c->tensors, &c->grads) : c->op->forward(t->ctx, &c->tensors);
    t->times[t->runs < BENCH_RUNS ? t->runs : 0] = bench_now() - start;
    return status;
}

/* A burst of multiply-adds now and then: not so often that it takes as long as the runs. */
static void add_burst(const BenchEffort *e, double *last, double *rate)
{
    if (!e->threads || bench_now() - *last < 0.1) return;
    *rate = fmax(*rate, bench_fma_rate(e->threads, e->cpu_level, 0, e->most > 1 ? 2 : 1));
    *last = bench_now();
}

SnlsStatus bench_time(BenchTimed *timed, int count, const BenchEffort *e, double *fma_rate)
{
    SnlsStatus status = SNLS_OK;
    double last = -INFINITY;
    add_burst(e, &last, fma_rate);
    const double begin = bench_now();
    for (int i = 0; i < count; i++) timed[i].runs = 0;
    for (int i = 0; i < count && status >= 0; i++) status = once(&timed[i]);
    /* the first call takes scratch and touches memory, so it counts only where it is the only one */
    const bool only = e->most < 2 || (e->least < 2 && bench_now() - begin > e->limit);
    for (int i = 0; i < count && only; i++) timed[i].runs = 1;
    while (status >= 0 && !only && timed[0].runs < e->most && timed[0].runs < BENCH_RUNS &&
           (timed[0].runs < e->least || bench_now() - begin < e->limit)) {
        add_burst(e, &last, fma_rate);
        for (int i = 0; i < count && status >= 0; i++)
            if ((status = once(&timed[i])) >= 0) timed[i].runs++;
    }
    last = -INFINITY;
    add_burst(e, &last, fma_rate);
    for (int i = 0; i < count; i++) {
        memcpy(timed[i].in_turn, timed[i].times, sizeof timed[i].times);
        timed[i].seconds = bench_median(timed[i].times, timed[i].runs); /* sorts them */
        timed[i].best = timed[i].runs ? timed[i].times[0] : NAN;
    }
    return status;
}

static SnlsStatus said(SnlsContext *ctx, SnlsStatus status, char *why)
{
    if (status < 0) snprintf(why, 512, "%s", snls_error(ctx));
    return status;
}

static void add_plain(const BenchSettings *s, const BenchCall *c, BenchResult *r)
{
    r->plain_seconds =
        bench_plain(c, r->backward, s->side_budget, &r->plain_queries, &r->plain_difference) * bench_queries(c->which);
}

/* What the call took of scratch, and what its arithmetic and its tensors make necessary. */
static void add_needs(const BenchTimed *timed, BenchResult *r)
{
    const BenchCall *c = timed->call;
    r->scratch = (double)snls_scratch_peak(timed->ctx);
    r->flops = bench_flops(c, r->backward);
    r->bytes = bench_bytes(c, r->backward);
    r->output_bytes = bench_output_bytes(c, r->backward);
    r->working_set = bench_bytes(c, false) - bench_output_bytes(c, false) + r->output_bytes;
}

/* On a GPU: no plain loop beside it, and its memory is the scratch. */
static SnlsStatus measure_on_device(const BenchSettings *s, BenchCall *c, BenchResult *r, char *why)
{
    BenchTimed timed = { .call = c, .backward = r->backward };
    SnlsStatus status = snls_open(&timed.ctx, &s->context);
    if (status < 0) return status;
    r->threads = 1;
    status = said(timed.ctx, bench_device_time(&timed, s->runs), why);
    if (status >= 0) status = said(timed.ctx, snls_device_wait(timed.ctx), why);
    r->seconds = bench_median(timed.times, timed.runs);
    r->best = timed.runs ? timed.times[0] : NAN;
    r->runs = timed.runs;
    add_needs(&timed, r);
    snls_close(&timed.ctx);
    return status;
}

static SnlsStatus time_call(const BenchSettings *s, int32_t cpu_level, BenchCall *c, BenchResult *r, char *why)
{
    BenchTimed timed = { .call = c, .backward = r->backward };
    SnlsStatus status = snls_open(&timed.ctx, &s->context);
    if (status < 0) return status;
    r->threads = snls_threads(timed.ctx);
    const BenchEffort effort = { 1, s->runs, s->limit, r->threads, cpu_level };
    bench_rss_reset();
    const double before = bench_rss();
    status = said(timed.ctx, bench_time(&timed, 1, &effort, &r->fma_rate), why);
    r->rss_peak = bench_rss_peak();
    r->rss_above = fmax(r->rss_peak - before, 0);
    r->seconds = timed.seconds;
    r->best = timed.best;
    r->runs = timed.runs;
    add_needs(&timed, r);
    snls_close(&timed.ctx);
    return status;
}

/* A forward call without its index, then one with it: backward reads that. */
static SnlsStatus time_bare(const BenchSettings *s, int32_t cpu_level, BenchCall *c, BenchResult *r, char *why)
{
    BenchCall bare = *c;
    BenchResult indexed = *r;
    bare.tensors.search.index.data = NULL;
    SnlsStatus status = time_call(s, cpu_level, &bare, r, why);
    if (status >= 0) status = time_call(s, cpu_level, c, &indexed, why);
    r->is_bare = true;
    r->indexed_seconds = indexed.seconds;
    r->indexed_best = indexed.best;
    r->indexed_scratch = indexed.scratch;
    r->indexed_output_bytes = indexed.output_bytes;
    return status;
}

static SnlsStatus measure_direction(const BenchSettings *s, int32_t cpu_level, BenchCall *c, BenchResult *r, char *why)
{
    const bool is_bare = bench_is_bare(c->which) && !r->backward;
    const SnlsStatus status = is_bare ? time_bare(s, cpu_level, c, r, why) : time_call(s, cpu_level, c, r, why);
    if (status >= 0) add_plain(s, c, r);
    return status;
}

static SnlsStatus measure_whole(const BenchSettings *s, int32_t cpu_level, const BenchCase *which, BenchResult *results,
                                char *why)
{
    BenchCall c = { .which = which };
    SnlsStatus status = snls_open(&c.ctx, &s->context);
    if (status < 0) return status;
    status = said(c.ctx, bench_call_make(&c), why);
    if (status >= 0 && bench_on_device(s)) status = said(c.ctx, bench_call_move(&c), why);
    for (int i = 0; i < 2 && status >= 0; i++)
        status = bench_on_device(s) ? measure_on_device(s, &c, &results[i], why) : measure_direction(s, cpu_level, &c, &results[i], why);
    bench_call_free(&c);
    snls_close(&c.ctx);
    return status;
}

/* A crop of three frames or so. The work of a query does not depend on how many there are, so a search takes as many as
 * the budget allows by a larger stride0; ref makes about 3e8 flops a second. */
static BenchCase cropped(const BenchCase *which, double budget, double flops)
{
    BenchCase c = *which;
    const double affordable = budget * 3e8 / (flops / bench_queries(which));
    c.frames = 2 * c.wt + 1 < c.frames ? 2 * c.wt + 1 : c.frames;
    c.height = c.height < 24 ? c.height : 24;
    c.width = c.width < 24 ? c.width : 24;
    while (bench_queries(&c) > affordable && c.stride0 < 8 && (bench_is_matching(&c) || bench_is_aggregation(&c)))
        c.stride0++;
    return c;
}

static SnlsStatus measure_ref(const BenchSettings *s, const BenchCase *which, BenchResult *results, char *why)
{
    SnlsContextParams params = s->context;
    params.backend = "ref";
    const BenchCase crop = cropped(which, s->side_budget, results[0].flops);
    BenchCall c = { .which = &crop };
    SnlsStatus status = snls_open(&c.ctx, &params);
    if (status < 0) return status;
    status = said(c.ctx, bench_call_make(&c), why);
    for (int i = 0; i < 2 && status >= 0; i++) {
        BenchTimed timed = { .call = &c, .backward = i, .ctx = c.ctx };
        const BenchEffort one = { .least = 1, .most = 1 };
        status = said(c.ctx, bench_time(&timed, 1, &one, NULL), why);
        results[i].ref_queries = bench_queries(&crop);
        results[i].ref_seconds = timed.seconds * bench_queries(which) / results[i].ref_queries;
    }
    bench_call_free(&c);
    snls_close(&c.ctx);
    return status;
}

SnlsStatus bench_measure(const BenchSettings *settings, int32_t cpu_level, const BenchCase *which, BenchResult *results,
                         char *why)
{
    BenchSettings s = *settings;
    s.context.error_text = why;
    s.context.error_size = 512;
    for (int i = 0; i < 2; i++)
        results[i] =
            (BenchResult){ .which = *which, .backward = i, .seconds = NAN, .plain_seconds = NAN, .ref_seconds = NAN };
    const SnlsStatus status = measure_whole(&s, cpu_level, which, results, why);
    if (status == SNLS_ERR_MEMORY) {
        results[0].skipped = results[1].skipped = true;
        return SNLS_OK;
    }
    if (status < 0 || bench_on_device(&s) || (s.context.backend && !strcmp(s.context.backend, "ref"))) return status;
    return measure_ref(&s, which, results, why);
}
