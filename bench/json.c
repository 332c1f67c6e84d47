/* json.c: the report as one JSON object. */
#include "bench.h"
#include <math.h>
#include <string.h>

/* JSON has no infinity and no NaN. */
static json_t *number(double value) { return isfinite(value) ? json_real(value) : json_null(); }

static void set(json_t *object, const char *key, double value) { json_object_set_new(object, key, number(value)); }

/* Of what could not be measured it is null. */
static void set_rate(json_t *object, const char *key, double value) { set(object, key, value > 0 ? value : NAN); }

static json_t *text(const char *string) /* what a system file holds need not be UTF-8 */
{
    json_t *j = json_string(string);
    return j ? j : json_string("?");
}

static json_t *machine_json(const BenchReport *r)
{
    const BenchMachine *m = &r->machine;
    json_t *j = json_object();
    json_object_set_new(j, "cpu", text(m->model));
    json_object_set_new(j, "cores", json_integer(m->cores));
    json_object_set_new(j, "cpu_level", json_string(snls_cpu_level_name(r->cpu_level)));
    json_object_set_new(j, "compiler", text(m->compiler));
    json_object_set_new(j, "caches_known", json_boolean(m->is_known));
    set(j, "l1_bytes", m->l1);
    set(j, "l2_bytes", m->l2);
    set(j, "l3_bytes", m->l3);
    set(j, "memory_bytes", m->memory);
    return j;
}

static json_t *ceilings_json(const BenchCeilings *c)
{
    json_t *j = json_object(), *memories = json_array();
    json_object_set_new(j, "threads", json_integer(c->threads));
    set_rate(j, "fma_flops_per_second", c->fma_rate);
    if (c->atomic_rate > 0) set(j, "atomic_adds_per_second", c->atomic_rate);
    for (int i = 0; i < c->count; i++) {
        json_t *rung = json_object();
        json_object_set_new(rung, "name", json_string(c->rungs[i].name));
        set(rung, "capacity_bytes", c->rungs[i].capacity);
        set(rung, "measured_over_bytes", c->rungs[i].bytes);
        set_rate(rung, "bytes_per_second", c->rungs[i].rate);
        json_array_append_new(memories, rung);
    }
    json_object_set_new(j, c->atomic_rate > 0 ? "memory" : "triad", memories);
    return j;
}

/* Those that the operator has; k counts neighbours everywhere. */
static json_t *parameters_json(const BenchResult *one)
{
    const BenchCase *c = &one->which;
    static const char *const flows[] = { "zero", "smooth", "random" };
    const char *const names[] = { "ws", "wr", "wt", "ps", "k", "heads", "stride0" };
    const int32_t values[] = { c->ws, c->ws, c->wt, c->ps, c->k, c->heads, c->stride0 };
    json_t *j = json_pack("{s:i, s:i, s:i, s:i}", "frames", (int)c->frames, "height", (int)c->height, "width",
                          (int)c->width, "channels", (int)c->channels);
    for (const SnlsOption *o = snls_options(c->op); o && o->name; o++) {
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            if (!strcmp(o->name, names[i])) json_object_set_new(j, o->name, json_integer(values[i]));
        if (!strcmp(o->name, "stride1")) json_object_set_new(j, "stride1", json_real(c->stride1));
        if (!strcmp(o->name, "dist")) json_object_set_new(j, "dist", json_string(c->dist ? "prod" : "l2"));
        if (!strcmp(o->name, "interp"))
            json_object_set_new(j, "interp", json_string(c->interp ? "nearest" : "bilinear"));
    }
    json_object_set_new(j, "k", json_integer(c->k));
    if (bench_is_matching(c)) json_object_set_new(j, "index", json_boolean(!one->is_bare));
    if (c->flow != BENCH_NO_FLOW) json_object_set_new(j, "flow", json_string(flows[c->flow]));
    return j;
}

static void set_measured(const BenchReport *r, const BenchResult *one, json_t *j)
{
    const char *bound;
    const double least = bench_result_floor(r, one, &bound);
    set(j, "seconds", one->seconds);
    set(j, "best_seconds", one->best);
    set(j, "flops", one->flops);
    set(j, "bytes", one->bytes);
    set(j, "flops_per_second", one->flops / one->seconds);
    set(j, "bytes_per_second", one->bytes / one->seconds);
    set_rate(j, "fma_flops_per_second_beside", one->fma_rate);
    set(j, "limit_seconds", least);
    set(j, "of_limit", least / one->seconds);
    set(j, "of_limit_best", least / one->best);
    json_object_set_new(j, "bound", json_string(bound));
    set(j, "tensor_bytes", one->working_set);
    set(j, "output_bytes", one->output_bytes);
    set(j, "scratch_bytes", one->scratch);
    set(j, "rss_peak_bytes", one->rss_peak);
    set(j, "rss_above_bytes", one->rss_above);
    set(j, "plain_seconds_scaled", one->plain_seconds);
    set(j, "plain_queries", one->plain_queries);
    set(j, "plain_difference", one->plain_difference);
    set(j, "speedup_over_plain", one->plain_seconds / one->seconds);
    set(j, "ref_seconds_scaled", one->ref_seconds);
    set(j, "ref_queries", one->ref_queries);
    set(j, "speedup_over_ref", one->ref_seconds / one->seconds);
}

/* The same call, with the index that a backward call reads. */
static json_t *indexed_json(const BenchResult *one)
{
    json_t *j = json_object();
    set(j, "seconds", one->indexed_seconds);
    set(j, "best_seconds", one->indexed_best);
    set(j, "output_bytes", one->indexed_output_bytes);
    set(j, "scratch_bytes", one->indexed_scratch);
    return j;
}

static json_t *result_json(const BenchReport *r, const BenchResult *one)
{
    json_t *j = json_object();
    json_object_set_new(j, "name", json_string(one->which.name));
    json_object_set_new(j, "group", json_string(one->which.group));
    json_object_set_new(j, "op", json_string(one->which.op));
    json_object_set_new(j, "direction", json_string(one->backward ? "backward" : "forward"));
    json_object_set_new(j, "parameters", parameters_json(one));
    json_object_set_new(j, "skipped", json_boolean(one->skipped));
    json_object_set_new(j, "threads", json_integer(one->threads));
    json_object_set_new(j, "runs", json_integer(one->runs));
    if (!one->skipped) set_measured(r, one, j);
    if (!one->skipped && one->is_bare) json_object_set_new(j, "with_index", indexed_json(one));
    return j;
}

static json_t *series_json(const BenchSeries *s)
{
    json_t *j = json_object(), *points = json_array();
    json_object_set_new(j, "axis", json_string(s->axis));
    json_object_set_new(j, "name", json_string(s->name));
    set(j, "slope", s->slope);
    set(j, "slope_median", s->slope_median);
    for (int i = 0; i < s->count; i++) {
        json_t *point = json_object();
        set(point, "value", s->x[i]);
        set(point, "seconds", s->points[i].seconds);
        set(point, "best_seconds", s->points[i].best);
        set(point, "scratch_bytes", s->points[i].scratch);
        json_object_set_new(point, "threads", json_integer(s->points[i].threads));
        json_object_set_new(point, "case", json_string(s->points[i].which.name));
        json_array_append_new(points, point);
    }
    json_object_set_new(j, "points", points);
    return j;
}

static json_t *target_json(const BenchTarget *t)
{
    static const char *const senses[] = { "at least", "at most", "within" };
    json_t *j = json_object();
    json_object_set_new(j, "work", json_string(t->work));
    json_object_set_new(j, "unit", json_string(t->unit));
    json_object_set_new(j, "sense", json_string(senses[t->sense]));
    set(j, "goal", t->goal);
    if (t->sense == BENCH_WITHIN) set(j, "within", t->within);
    set(j, "measured", t->measured);
    if (t->runs) {
        json_object_set_new(j, "estimator", json_string("best")); /* reports without this key have medians */
        set(j, "measured_median", t->median);
        json_object_set_new(j, "runs", json_integer(t->runs));
    }
    json_object_set_new(j, "met", isnan(t->measured) ? json_null() : json_boolean(bench_target_met(t)));
    json_object_set_new(j, "detail", json_string(t->detail));
    return j;
}

void bench_json(const BenchReport *r, json_t *object)
{
    json_t *ceilings = json_array(), *results = json_array(), *series = json_array(), *targets = json_array();
    json_object_set_new(object, "backend", json_string(r->backend));
    json_object_set_new(object, "threads", json_integer(r->threads));
    json_object_set_new(object, "machine", machine_json(r));
    for (int i = 0; i < r->ceiling_count; i++) json_array_append_new(ceilings, ceilings_json(&r->ceilings[i]));
    for (int i = 0; i < r->count; i++) json_array_append_new(results, result_json(r, &r->results[i]));
    for (int i = 0; i < r->series_count; i++) json_array_append_new(series, series_json(&r->series[i]));
    for (int i = 0; i < r->target_count; i++) json_array_append_new(targets, target_json(&r->targets[i]));
    json_object_set_new(object, "ceilings", ceilings);
    json_object_set_new(object, "results", results);
    json_object_set_new(object, "scaling", series);
    json_object_set_new(object, "targets", targets);
}
