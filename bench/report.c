/* report.c: all cases, as a table or as JSON. */
#include "bench.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static bool is_chosen(const BenchSettings *s, const BenchCase *c)
{
    char dashed[32];
    snprintf(dashed, sizeof dashed, "%s", c->op);
    for (char *at = dashed; *at; at++)
        if (*at == '_') *at = '-';
    return !s->only || !strcmp(s->only, c->op) || !strcmp(s->only, dashed) ||
           (!strcmp(s->only, "compose") && !strcmp(c->op, "flow_compose"));
}

static SnlsStatus describe_machine(BenchReport *r)
{
    SnlsContext *ctx;
    SnlsContextParams params = r->settings.context;
    params.error_text = r->why;
    params.error_size = sizeof r->why;
    const SnlsStatus status = snls_open(&ctx, &params);
    if (status < 0) return status;
    r->backend = snls_backend_name(ctx);
    r->threads = snls_threads(ctx);
    r->cpu_level = strcmp(r->backend, "cpu") ? snls_cpu_level_max() : snls_cpu_level(ctx);
    snls_close(&ctx);
    r->fma_rate = bench_fma_rate(r->threads, r->cpu_level);
    r->copy_rate = bench_copy_rate(r->threads);
    return SNLS_OK;
}

SnlsStatus bench_run(BenchReport *r)
{
    const BenchSettings *s = &r->settings;
    SnlsStatus status = SNLS_ERR_ARG;
    snprintf(r->why, sizeof r->why, "--op is %s, must be an operator such as search or gather_add",
             s->only ? s->only : "");
    for (const BenchCase *c = bench_cases; c->name; c++)
        if (is_chosen(s, c)) status = SNLS_OK;
    if (status >= 0) status = describe_machine(r);
    for (const BenchCase *c = bench_cases; c->name && status >= 0; c++) {
        if (!is_chosen(s, c)) continue;
        if (s->progress) s->progress(c->name);
        status = bench_measure(s, c, &r->results[r->count], r->why);
        if (status >= 0) r->count += 2;
    }
    if (s->progress) s->progress(NULL);
    return status;
}

/* "12.3 MiB" */
static const char *size_text(double bytes, char text[16])
{
    static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
    int unit = 0;
    for (; bytes >= 1024 && unit < 4; unit++) bytes /= 1024;
    snprintf(text, 16, "%.1f %s", bytes, units[unit]);
    return text;
}

/* The time that flops or bytes alone would take at the machine's rates: whichever is longer cannot be beaten. */
static double floor_seconds(const BenchReport *r, const BenchResult *one, const char **bound)
{
    const double compute = r->fma_rate > 0 ? one->flops / r->fma_rate : 0,
                 move = r->copy_rate > 0 ? one->bytes / r->copy_rate : 0;
    *bound = compute > move ? "compute" : "memory";
    return fmax(compute, move);
}

void bench_print(const BenchReport *r)
{
    const BenchSize *z = &r->settings.size, *crop = &r->settings.crop;
    printf("backend %s, %d threads, %s; measured in this run: %.1f GFLOP/s multiply-add, %.1f GB/s copy\n", r->backend,
           (int)r->threads, snls_cpu_level_name(r->cpu_level), r->fma_rate * 1e-9, r->copy_rate * 1e-9);
    printf("%d x %d pixels, %d frames, %d features, f32; search: ws 9, wt 1, ps 1, k 10 unless named\n\n",
           (int)z->width, (int)z->height, (int)z->frames, (int)z->features);
    printf("%-20s %-8s %10s %9s %8s %8s %-7s %11s %11s %8s\n", "", "", "ms", "GFLOP/s", "GB/s", "ceiling", "bound",
           "scratch", "RSS above", "x ref");
    for (int i = 0; i < r->count; i++) {
        const BenchResult *one = &r->results[i];
        const char *bound;
        char scratch[16], above[16];
        const double least = floor_seconds(r, one, &bound);
        printf("%-20s %-8s %10.3f %9.2f %8.2f %7.1f%% %-7s %11s %11s ", one->which->name,
               one->backward ? "backward" : "forward", one->seconds * 1e3, one->flops / one->seconds * 1e-9,
               one->bytes / one->seconds * 1e-9, 100 * least / one->seconds, bound, size_text(one->scratch, scratch),
               size_text(one->rss_above, above));
        if (isnan(one->ref_seconds)) printf("%8s\n", "-");
        else printf("%8.1f\n", one->ref_seconds / one->seconds);
    }
    printf("\nms: median of up to %d runs. GFLOP/s and GB/s: the work that is needed (terms of the sums; every tensor "
           "moved once)\n"
           "by the time taken. ceiling: the share of the machine's own rate for whichever of the two binds.\n"
           "scratch: what the library held; RSS above: peak of the process above its state before the call.\n",
           (int)r->settings.runs);
    if (strcmp(r->backend, "ref"))
        printf("x ref: against backend ref on %d x %d pixels, its time scaled by the number of queries.\n",
               (int)crop->width, (int)crop->height);
}

/* JSON has no infinity and no NaN. */
static json_t *number(double value) { return isfinite(value) ? json_real(value) : json_null(); }

/* Those that the operator has; k counts neighbours everywhere. */
static json_t *parameters_json(const BenchCase *c)
{
    const char *const names[] = { "ws", "wr", "wt", "ps", "stride1" };
    const double values[] = { c->ws, c->ws, c->wt, c->ps, c->stride1 };
    json_t *j = json_object();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (const SnlsOption *o = snls_options(c->op); o && o->name; o++)
            if (!strcmp(o->name, names[i])) json_object_set_new(j, o->name, json_real(values[i]));
    json_object_set_new(j, "k", json_integer(c->k));
    json_object_set_new(j, "flow", json_boolean(c->flow));
    return j;
}

static json_t *result_json(const BenchReport *r, const BenchResult *one)
{
    const char *bound;
    const double least = floor_seconds(r, one, &bound);
    json_t *j = json_pack("{s:s, s:s, s:s, s:i}", "name", one->which->name, "op", one->which->op, "direction",
                          one->backward ? "backward" : "forward", "runs", one->runs);
    json_object_set_new(j, "parameters", parameters_json(one->which));
    json_object_set_new(j, "seconds", number(one->seconds));
    json_object_set_new(j, "flops", json_real(one->flops));
    json_object_set_new(j, "bytes", json_real(one->bytes));
    json_object_set_new(j, "flops_per_second", number(one->flops / one->seconds));
    json_object_set_new(j, "bytes_per_second", number(one->bytes / one->seconds));
    json_object_set_new(j, "of_ceiling", number(least / one->seconds));
    json_object_set_new(j, "bound", json_string(bound));
    json_object_set_new(j, "scratch_bytes", json_real(one->scratch));
    json_object_set_new(j, "rss_peak_bytes", json_real(one->rss_peak));
    json_object_set_new(j, "rss_above_bytes", json_real(one->rss_above));
    json_object_set_new(j, "ref_seconds_scaled", number(one->ref_seconds));
    json_object_set_new(j, "speedup_over_ref", number(one->ref_seconds / one->seconds));
    return j;
}

void bench_json(const BenchReport *r, json_t *object)
{
    const BenchSize *z = &r->settings.size, *crop = &r->settings.crop;
    json_t *results = json_array();
    json_object_set_new(object, "backend", json_string(r->backend));
    json_object_set_new(object, "threads", json_integer(r->threads));
    json_object_set_new(object, "cpu_level", json_string(snls_cpu_level_name(r->cpu_level)));
    json_object_set_new(object, "fma_flops_per_second", json_real(r->fma_rate));
    json_object_set_new(object, "copy_bytes_per_second", json_real(r->copy_rate));
    json_object_set_new(object, "size",
                        json_pack("{s:i, s:i, s:i, s:i}", "frames", (int)z->frames, "height", (int)z->height, "width",
                                  (int)z->width, "features", (int)z->features));
    json_object_set_new(object, "ref_crop",
                        json_pack("{s:i, s:i}", "height", (int)crop->height, "width", (int)crop->width));
    for (int i = 0; i < r->count; i++) json_array_append_new(results, result_json(r, &r->results[i]));
    json_object_set_new(object, "results", results);
}
