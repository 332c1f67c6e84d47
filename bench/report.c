/* report.c: the tables. */
#include "bench.h"
#include <math.h>
#include <string.h>

/* "12.3 MiB" */
static const char *size_text(double bytes, char text[16])
{
    static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
    int unit = 0;
    for (; bytes >= 1024 && unit < 4; unit++) bytes /= 1024;
    snprintf(text, 16, "%.1f %s", bytes, units[unit]);
    return text;
}

/* "12.3", or a dash where there is nothing to tell */
static const char *number_text(double value, const char *format, char text[24])
{
    snprintf(text, 24, "-");
    if (!isfinite(value)) return text;
#if defined(__GNUC__)
#    pragma GCC diagnostic push
#    pragma GCC diagnostic ignored "-Wformat-nonliteral"
#endif
    snprintf(text, 24, format, value);
#if defined(__GNUC__)
#    pragma GCC diagnostic pop
#endif
    return text;
}

/* in thousand millions per second */
static const char *rate_text(double rate, char text[24])
{
    return number_text(rate > 0 ? rate * 1e-9 : NAN, "%.1f", text);
}

static void print_machine(const BenchReport *r)
{
    const BenchMachine *m = &r->machine;
    char l1[16], l2[16], l3[16], size[16], rate[24];
    printf("snls %s, backend %s, threads %d, %s; %s, %d cores; %s\n", snls_version(), r->backend, (int)r->threads,
           snls_cpu_level_name(r->cpu_level), m->model, (int)m->cores, m->compiler);
    printf("caches %s, %s, %s%s. Measured in this run:\n\n", size_text(m->l1, l1), size_text(m->l2, l2),
           size_text(m->l3, l3), m->is_known ? "" : " (a guess)");
    for (int i = 0; i < r->ceiling_count; i++) {
        const BenchCeilings *c = &r->ceilings[i];
        printf("%2d thread%s  multiply-add %s GFLOP/s; %s", (int)c->threads, c->threads > 1 ? "s" : " ",
               rate_text(c->fma_rate, rate), c->atomic_rate > 0 ? "memory" : "triad");
        for (int j = 0; j < c->count; j++)
            printf("%s %s %s", j ? "," : "", c->rungs[j].name, rate_text(c->rungs[j].rate, rate));
        printf(" GB/s (over");
        for (int j = 0; j < c->count; j++) printf("%s %s", j ? "," : "", size_text(c->rungs[j].bytes, size));
        printf(")\n");
    }
}

static void print_result(const BenchReport *r, const BenchResult *one)
{
    const char *bound;
    char scratch[16], flops[24], rate[24], plain[24], ref[24];
    const char *direction = one->backward ? "backward" : "forward";
    if (one->skipped) {
        printf("%-12s %-50s %-8s not enough memory\n", one->which.op, one->which.name, direction);
        return;
    }
    const double least = bench_result_floor(r, one, &bound);
    printf("%-12s %-50s %-8s %10.3f %10s %8.1f %9s %8.1f %6.1f%% %-7s %10s %7s %7s\n", one->which.op,
           one->which.name, direction, one->seconds * 1e3, number_text(one->flops * 1e-9, "%.3f", flops), one->bytes * 1e-6,
           number_text(one->flops / one->seconds * 1e-9, "%.1f", rate), one->bytes / one->seconds * 1e-9, 100 * least / one->seconds, bound,
           size_text(one->scratch, scratch), number_text(one->plain_seconds / one->seconds, "%.1f", plain),
           number_text(one->ref_seconds / one->seconds, "%.0f", ref));
}

static void print_results(const BenchReport *r)
{
    printf("\n%-12s %-50s %-8s %10s %10s %8s %9s %8s %7s %-7s %10s %7s %7s\n", "", "", "", "ms", "GFLOP", "MB",
           "GFLOP/s", "GB/s", "limit", "bound", "scratch", "x plain", "x ref");
    for (int i = 0; i < r->count; i++) print_result(r, &r->results[i]);
    printf("\nms: median of up to %d runs. GFLOP and MB: what the definition needs (every term of the sums once, every "
           "tensor moved once).\n"
           "limit: the share of the machine's rate for whichever of the two binds: multiply-add, measured beside the "
           "runs, or the memory\n"
           "that holds all tensors. Over 100 %% where overlapping patches share their sums. scratch: the most that the "
           "library held.\n"
           "x plain: a plain loop on one thread (bench/plain*.c), run on as many queries as fit %.2f s and scaled by "
           "their number.\n",
           (int)r->settings.runs, r->settings.side_budget);
    if (strcmp(r->backend, "ref"))
        printf("x ref: backend ref on at most 24 x 24 pixels, likewise scaled by the number of queries.\n");
}

static void print_series(const BenchReport *r)
{
    printf("\n%-8s %-20s %6s  points: value and ms (base: 160x160, T 5, F 32, ws 9, wt 1, ps 3, k 10, l2, smooth flow; "
           "gather_add: ps 1)\n",
           "scaling", "", "slope");
    for (int i = 0; i < r->series_count; i++) {
        const BenchSeries *s = &r->series[i];
        char slope[24];
        printf("%-8s %-20s %6s ", s->axis, s->name, number_text(s->slope, "%.2f", slope));
        for (int j = 0; j < s->count; j++) printf(" %g: %.3f", s->x[j], s->points[j].best * 1e3);
        printf("\n");
    }
    printf("slope: of the line through log(time) against log(value); 1 is linear, 2 quadratic. Times: the least of up to "
           "%d runs, taken in turn.\n",
           (int)r->settings.runs);
}

static void print_targets(const BenchReport *r)
{
    int met = 0, measured_count = 0;
    printf("\n%-62s %-28s %13s %9s %-4s %8s  %s\n", "target", "", "goal", "measured", "met", "median", "");
    for (int i = 0; i < r->target_count; i++) {
        const BenchTarget *t = &r->targets[i];
        char goal[32], measured[24], median[24];
        const bool good = bench_target_met(t);
        if (t->sense == BENCH_WITHIN) snprintf(goal, sizeof goal, "%.2f +- %.2f", t->goal, t->within);
        else snprintf(goal, sizeof goal, "%s %g", t->sense == BENCH_AT_LEAST ? ">=" : "<=", t->goal);
        printf("%-62s %-28s %13s %9s %-4s %8s  %s\n", t->work, t->unit, goal, number_text(t->measured, "%.2f", measured),
               isnan(t->measured) ? "-"
               : good             ? "yes"
                                  : "no",
               number_text(t->runs ? t->median : NAN, "%.2f", median), t->detail);
        met += good;
        measured_count += !isnan(t->measured);
    }
    printf("%d of %d met", met, measured_count);
    if (measured_count < r->target_count) printf(", %d not measured", r->target_count - measured_count);
    printf(". Against PyTorch: tools/bench_torch.py.\n");
    if (!bench_on_device(&r->settings))
        printf("measured: of the least times of %d to %d runs (%g s a target), what is compared run in turn, and of the best bursts of "
               "multiply-adds\nbetween them; median: the same of the median times.\n",
               (int)r->settings.target_least, (int)r->settings.target_runs, r->settings.target_limit);
}

void bench_print(const BenchReport *r)
{
    print_machine(r);
    if (r->settings.cases) print_results(r);
    if (r->settings.scaling) print_series(r);
    if (r->settings.targets) print_targets(r);
}
