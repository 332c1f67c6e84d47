/* run.c: the machine's rates, then what was asked for, in order. */
#include "bench.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* gather_add, gather-add; the command line calls flow_compose compose. */
static bool names_op(const char *name, const char *op)
{
    char dashed[32];
    snprintf(dashed, sizeof dashed, "%s", op);
    for (char *at = dashed; *at; at++)
        if (*at == '_') *at = '-';
    return !strcmp(name, op) || !strcmp(name, dashed) || (!strcmp(name, "compose") && !strcmp(op, "flow_compose"));
}

bool bench_wants(const BenchSettings *s, const char *op) { return !s->op || names_op(s->op, op); }

BenchCase bench_shrunk(const BenchSettings *s, BenchCase c)
{
    if (s->tier != BENCH_QUICK) return c;
    c.height = c.height / 8 > 12 ? c.height / 8 : 12;
    c.width = c.width / 8 > 12 ? c.width / 8 : 12;
    c.channels = c.channels / 4 > 4 ? c.channels / 4 : 4;
    c.ws = c.ws < 15 ? c.ws : 15;
    return c;
}

static BenchCase sized(const BenchSettings *s, BenchCase c)
{
    c = bench_shrunk(s, c);
    if (s->height) c.height = s->height, c.width = s->width;
    if (s->frames) c.frames = s->frames;
    if (s->features) c.channels = s->features;
    c.channels += (c.heads - c.channels % c.heads) % c.heads;
    bench_name(&c);
    return c;
}

/* A filter looks at "search A 320x320 ...", in any tier but the quick one: who names a case wants it. */
static bool is_chosen(const BenchSettings *s, const BenchCase *c)
{
    char text[128];
    snprintf(text, sizeof text, "%s %s", c->op, c->name);
    if (!bench_wants(s, c->op)) return false;
    if (s->filter && !strstr(text, s->filter)) return false;
    if (!s->filter && bench_on_device(s) && strlen(c->group) > 1) return false; /* A to D: what others have been timed on */
    const BenchTier most = s->tier == BENCH_USUAL && bench_on_device(s) ? BENCH_DEVICE : s->tier;
    return c->tier <= most || (s->filter && s->tier != BENCH_QUICK);
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
    if (r->settings.progress) r->settings.progress("the machine's own rates");
    bench_machine(&r->machine);
    if (bench_on_device(&r->settings)) {
        const SnlsStatus rates = bench_device_ceilings(ctx, &r->machine, &r->ceilings[r->ceiling_count++]);
        if (rates < 0) snprintf(r->why, sizeof r->why, "%s", snls_error(ctx));
        snls_close(&ctx);
        return rates;
    }
    snls_close(&ctx);
    for (int i = 0; i < (r->threads > 1 ? 2 : 1); i++)
        bench_ceilings(&r->machine, i ? r->threads : 1, r->cpu_level, r->settings.tier == BENCH_QUICK,
                       &r->ceilings[r->ceiling_count++]);
    return SNLS_OK;
}

const BenchCeilings *bench_ceilings_of(const BenchReport *r, int32_t threads)
{
    return threads > 1 ? &r->ceilings[r->ceiling_count - 1] : &r->ceilings[0];
}

/* Where every burst between the runs fell on moments that others had the processor, more of them: a share of a rate that the
 * machine was not at would be met by anything. */
double bench_checked_rate(const BenchReport *r, int32_t threads, double fma_rate)
{
    if (!(fma_rate > 0) || fma_rate > 0.6 * bench_ceilings_of(r, threads)->fma_rate) return fma_rate;
    return fmax(fma_rate, bench_fma_rate(threads, r->cpu_level, 0.1, 20));
}

double bench_floor(const BenchCeilings *c, double fma_rate, double flops, double bytes, double working_set,
                   const char **bound)
{
    const BenchRung *rung = bench_rung(c, working_set);
    const double compute = fma_rate > 0 ? flops / fma_rate : 0, move = rung->rate > 0 ? bytes / rung->rate : 0;
    *bound = compute > move ? "compute" : rung->name;
    return fmax(compute, move);
}

double bench_result_floor(const BenchReport *r, const BenchResult *one, const char **bound)
{
    const double rate = one->fma_rate > 0 ? one->fma_rate : bench_ceilings_of(r, one->threads)->fma_rate;
    return bench_floor(bench_ceilings_of(r, one->threads), rate, one->flops, one->bytes, one->working_set,
                       bound);
}

static SnlsStatus run_case(BenchReport *r, const BenchCase *which)
{
    const BenchSettings *s = &r->settings;
    if (s->progress) s->progress(which->name);
    for (int i = 0; i < 2; i++) { /* room for both directions */
        BenchResult *grown = bench_grow(r->results, r->count + i, &r->room, sizeof *grown);
        if (!grown) {
            snprintf(r->why, sizeof r->why, "out of memory");
            return SNLS_ERR_MEMORY;
        }
        r->results = grown;
    }
    const SnlsStatus status = bench_measure(s, r->cpu_level, which, &r->results[r->count], r->why);
    for (int i = 0; i < 2 && status >= 0; i++) {
        BenchResult *one = &r->results[r->count++];
        one->fma_rate = bench_checked_rate(r, one->threads, one->fma_rate);
    }
    return status;
}

static SnlsStatus run_cases(BenchReport *r, const BenchList *list)
{
    SnlsStatus status = SNLS_OK;
    for (int i = 0; i < list->count && status >= 0; i++) {
        if (!is_chosen(&r->settings, &list->items[i])) continue;
        const BenchCase c = sized(&r->settings, list->items[i]);
        status = run_case(r, &c);
    }
    return status;
}

static SnlsStatus check_choice(BenchReport *r, const BenchList *list)
{
    const BenchSettings *s = &r->settings;
    snprintf(r->why, sizeof r->why, "out of memory");
    if (list->failed) return SNLS_ERR_MEMORY;
    if (s->op && !bench_op(s->op)) {
        bool known = false;
        for (int i = 0; i < list->count; i++) known = known || names_op(s->op, list->items[i].op);
        snprintf(r->why, sizeof r->why, "--op is %s, must be an operator such as search or gather_add", s->op);
        if (!known) return SNLS_ERR_ARG;
    }
    if ((s->scaling || s->targets) && !bench_wants(s, "search") && !bench_wants(s, "gather_add")) {
        snprintf(r->why, sizeof r->why, "--op is %s, --scaling and --targets are about search and gather-add alone", s->op);
        return SNLS_ERR_ARG;
    }
    for (int i = 0; i < list->count; i++)
        if (!s->cases || is_chosen(s, &list->items[i])) return SNLS_OK;
    if (!s->filter) { /* an operator that is there, but not for this device: who names a case gets it */
        snprintf(r->why, sizeof r->why, "--op is %s, no case of it is timed here unless --case names it, such as --case %s", s->op, s->op);
        return SNLS_ERR_UNSUPPORTED;
    }
    snprintf(r->why, sizeof r->why, "--case is %s, no case%s%s has that in its name", s->filter, s->op ? " of --op " : "", s->op ? s->op : "");
    return SNLS_ERR_ARG;
}

SnlsStatus bench_run(BenchReport *r)
{
    BenchList list;
    bench_list(&list);
    SnlsStatus status = check_choice(r, &list);
    if (status >= 0) status = describe_machine(r);
    if (status >= 0 && r->settings.cases) status = run_cases(r, &list);
    const bool device = bench_on_device(&r->settings);
    if (status >= 0 && r->settings.scaling && !device) status = bench_add_series(r);
    if (status >= 0 && r->settings.targets) status = device ? bench_device_targets(r) : bench_add_targets(r);
    if (r->settings.progress) r->settings.progress(NULL);
    free(list.items);
    return status;
}

void bench_free(BenchReport *r)
{
    free(r->results);
    free(r->series);
    free(r->targets);
    r->results = NULL;
    r->series = NULL;
    r->targets = NULL;
}
