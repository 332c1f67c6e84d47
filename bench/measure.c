/* measure.c: times one case forward and backward, and ref on a crop of it. */
#include "bench.h"
#include <math.h>
#include <stdio.h>
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
    return backward ? c->op->backward(c->ctx, &c->tensors, &c->grads) : c->op->forward(c->ctx, &c->tensors);
}

/* Median of up to runs; the first call takes scratch and touches memory, so it counts only where it is the only one. */
static SnlsStatus time_runs(BenchCall *c, bool backward, int32_t runs, double *seconds, int *done)
{
    double times[64];
    const double begin = bench_now();
    SnlsStatus status = once(c, backward);
    times[0] = bench_now() - begin;
    *done = status < 0 ? 0 : 1;
    if (status >= 0 && runs > 1 && times[0] < LONG_ENOUGH) *done = 0;
    while (status >= 0 && *done < runs && *done < 64 && (*done == 0 || bench_now() - begin < LONG_ENOUGH)) {
        const double start = bench_now();
        status = once(c, backward);
        times[(*done)++] = bench_now() - start;
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
    r->rss_peak = bench_rss_peak();
    r->rss_above = fmax(r->rss_peak - before, 0);
    r->scratch = (double)snls_scratch_peak(c->ctx);
    r->flops = bench_flops(c, backward);
    r->bytes = bench_bytes(c, backward);
    r->ref_seconds = NAN;
    return status;
}

static SnlsStatus said(SnlsContext *ctx, SnlsStatus status, char *why)
{
    if (status < 0) snprintf(why, 512, "%s", snls_error(ctx));
    return status;
}

/* Backward reads what forward left; a context of its own, so that scratch_peak is backward's. */
static SnlsStatus forward_first(const SnlsContextParams *params, BenchCall *c, char *why)
{
    SnlsContext *other = NULL;
    SnlsStatus status = snls_open(&other, params);
    if (status < 0) return status;
    status = said(other, c->op->forward(other, &c->tensors), why);
    snls_close(&other);
    return status;
}

static SnlsStatus measure_on(const SnlsContextParams *params, const BenchCase *which, const BenchSize *size,
                             int32_t runs, BenchResult *result, char *why)
{
    SnlsStatus status = SNLS_OK;
    for (int backward = 0; backward < 2 && status >= 0; backward++) {
        BenchCall c = { .which = which, .size = *size };
        status = snls_open(&c.ctx, params);
        if (status < 0) break;
        status = said(c.ctx, bench_call_make(&c), why);
        if (status >= 0 && backward) status = forward_first(params, &c, why);
        if (status >= 0) status = said(c.ctx, measure_direction(&c, backward, runs, &result[backward]), why);
        bench_call_free(&c);
        snls_close(&c.ctx);
    }
    return status;
}

SnlsStatus bench_measure(const BenchSettings *s, const BenchCase *which, BenchResult *results, char *why)
{
    BenchResult ref[2];
    SnlsContextParams params = s->context;
    params.error_text = why;
    params.error_size = 512;
    SnlsStatus status = measure_on(&params, which, &s->size, s->runs, results, why);
    if (status < 0 || (params.backend && !strcmp(params.backend, "ref"))) return status;
    params.backend = "ref";
    status = measure_on(&params, which, &s->crop, 1, ref, why);
    const double queries = (double)s->size.height * s->size.width, cropped = (double)s->crop.height * s->crop.width;
    for (int i = 0; i < 2 && status >= 0; i++) results[i].ref_seconds = ref[i].seconds * queries / cropped;
    return status;
}
