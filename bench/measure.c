/* measure.c: times one case forward and backward, and ref on a crop of it. */
#include "bench.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LONG_ENOUGH 3.0 /* seconds: no further runs of a slow case */

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static SnlsStatus once(BenchCall *c, bool backward)
{
    return backward ? c->op->backward(c->ctx, &c->call, &c->grad) : c->op->forward(c->ctx, &c->call);
}

/* Median of up to runs; the first call, which takes scratch and touches memory, is not among them when there are more. */
static SnlsStatus time_runs(BenchCall *c, bool backward, int32_t runs, double *seconds, int *done)
{
    double times[64];
    const double begin = seconds_now();
    SnlsStatus status = once(c, backward);
    times[0] = seconds_now() - begin;
    *done = status < 0 ? 0 : 1;
    if (status >= 0 && runs > 1 && times[0] < LONG_ENOUGH) *done = 0;
    while (status >= 0 && *done < runs && *done < 64 && (*done == 0 || seconds_now() - begin < LONG_ENOUGH)) {
        const double start = seconds_now();
        status = once(c, backward);
        times[(*done)++] = seconds_now() - start;
    }
    qsort(times, (size_t)*done, sizeof *times, compare);
    *seconds = *done ? *done % 2 ? times[*done / 2] : 0.5 * (times[*done / 2 - 1] + times[*done / 2]) : NAN;
    return status;
}

static SnlsStatus measure_direction(BenchCall *c, bool backward, int32_t runs, BenchResult *r)
{
    bench_rss_reset();
    const double before = bench_rss();
    const SnlsStatus status = time_runs(c, backward, runs, &r->seconds, &r->runs);
    r->which = c->which;
    r->backward = backward;
    r->rss_above = fmax(bench_rss_peak() - before, 0);
    r->scratch = (double)snls_scratch_peak(c->ctx);
    r->flops = bench_flops(c, backward);
    r->bytes = bench_bytes(c, backward);
    r->ref_seconds = NAN;
    return status;
}

/* Backward reads what forward left; a context of its own, so that scratch_peak is backward's. */
static int forward_first(const Common *common, BenchCall *c)
{
    SnlsContext *other = NULL;
    const int code = open_context(common, &other);
    if (code) return code;
    const SnlsStatus status = c->op->forward(other, &c->call);
    const int result = status < 0 ? fail_library(other, status, false) : EXIT_DONE;
    snls_close(&other);
    return result;
}

static int measure_on(const Common *common, const BenchCase *which, const BenchSize *size, int32_t runs, BenchResult *result)
{
    int code = EXIT_DONE;
    for (int backward = 0; backward < 2 && !code; backward++) {
        BenchCall c = {.which = which, .size = *size};
        code = open_context(common, &c.ctx);
        if (code) break;
        SnlsStatus status = bench_call_make(&c);
        if (status >= 0 && backward) code = forward_first(common, &c);
        if (status >= 0 && !code) status = measure_direction(&c, backward, runs, &result[backward]);
        if (status < 0) code = fail_library(c.ctx, status, false);
        bench_call_free(&c);
        snls_close(&c.ctx);
    }
    return code;
}

int bench_measure(const BenchSettings *s, const BenchCase *which, BenchResult *forward, BenchResult *backward)
{
    BenchResult own[2], ref[2];
    int code = measure_on(&s->common, which, &s->size, s->runs, own);
    if (!code && !(s->common.backend && !strcmp(s->common.backend, "ref"))) {
        Common plain = s->common;
        plain.backend = "ref";
        code = measure_on(&plain, which, &s->crop, 1, ref);
        const double queries = (double)s->size.height * s->size.width, cropped = (double)s->crop.height * s->crop.width;
        for (int i = 0; i < 2 && !code; i++) own[i].ref_seconds = ref[i].seconds * queries / cropped;
    }
    if (code) return code;
    *forward = own[0];
    *backward = own[1];
    return EXIT_DONE;
}
