/* cmd_bench.c: arguments of the benchmark; the machinery is in bench/. */
#define _POSIX_C_SOURCE 200809L
#include "bench.h"
#include "cli.h"
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct BenchParams {
    int32_t runs, frames, features;
} BenchParams;

/* clang-format off */
#define INT(field, def, min, max, help) {#field, help, SNLS_OPTION_INT, offsetof(BenchParams, field), def, min, max, NULL}
/* clang-format on */
static const SnlsOption options[] = { INT(runs, 0, 0, 64,
                                          "runs of each case, the median is told; 0 = 7, 1 with --quick; with "
                                          "--targets the most runs, of which the least time counts; 0 = 40"),
                                      INT(frames, 0, 0, 1000, "frames of every case, at least 5; 0 = its own"),
                                      INT(features, 0, 0, 4096, "channels of every case; 0 = its own"),
                                      { NULL, NULL, 0, 0, 0, 0, 0, NULL } };

typedef struct Words { /* arguments that are no numbers */
    bool quick, full, cases, scaling, targets, deterministic;
    const char *size, *svg;
} Words;

static int parse_size(const char *text, BenchSettings *s)
{
    int32_t sides[2];
    if (!text) return EXIT_DONE;
    if (!parse_sides(text, 2, sides) || sides[0] < 4 || sides[1] < 4 || sides[0] > 32767 || sides[1] > 32767)
        return fail(EXIT_USAGE, "--size is %s, must be HxW, each 4 to 32767", text);
    s->height = sides[0];
    s->width = sides[1];
    return EXIT_DONE;
}

static void show_progress(const char *name)
{
    if (isatty(STDERR_FILENO)) fprintf(stderr, "\r%-100s%s", name ? name : "", name ? "" : "\r");
}

static bool has_backend(const BenchSettings *s, const char *name) { return s->context.backend && !strcmp(s->context.backend, name); }

/* Figures that would look like an answer and be none. context is set. */
static int refuse_senseless(const BenchSettings *s, bool resized)
{
    if (s->targets && has_backend(s, "ref"))
        return fail(EXIT_USAGE, "--targets are what the backends cpu and cuda have promised; --backend ref has promised nothing");
    if (s->scaling && has_backend(s, "cuda"))
        return fail(EXIT_USAGE, "--scaling is of the backends cpu and ref; on a GPU there are the cases, and --targets");
    if (resized && s->targets && has_backend(s, "cuda"))
        return fail(EXIT_USAGE, "--size, --frames and --features change the cases whose times the --targets of a GPU are about");
    if (resized && !s->cases)
        return fail(EXIT_USAGE, "--size, --frames and --features are for the cases; --scaling and --targets have sizes of their own (--cases runs the cases too)");
    return EXIT_DONE;
}

static int set_up(const BenchParams *params, const Common *common, const Words *words, BenchSettings *s)
{
    int code = context_params(common, &s->context);
    if (code) return code;
    if (words->quick && words->full) return fail(EXIT_USAGE, "--quick and --full exclude each other");
    if (params->frames && params->frames < 5)
        return fail(EXIT_USAGE, "--frames is %d, must be 0 or 5 to 1000", (int)params->frames);
    s->tier = words->quick ? BENCH_QUICK : words->full ? BENCH_FULL : BENCH_USUAL;
    s->runs = params->runs ? params->runs : words->quick ? 1 : has_backend(s, "cuda") ? 20 : 7;
    s->limit = words->quick ? 0.2 : words->full ? 3 : 0.7;
    s->target_runs = params->runs ? params->runs : words->quick ? 1 : 40;
    s->target_least = s->target_runs < 5 ? s->target_runs : 5;
    s->target_limit = 2;
    s->side_budget = words->quick ? 0.002 : 0.1;
    s->frames = params->frames;
    s->features = params->features;
    const bool named = s->op || s->filter, resized = words->size || params->frames || params->features, on_gpu = has_backend(s, "cuda");
    s->scaling = words->scaling || (words->full && !named && !on_gpu); /* --full leaves out what would be refused by name */
    s->targets = words->targets || (words->full && !named && !has_backend(s, "ref") && !(on_gpu && resized));
    s->cases = words->cases || words->full || (s->filter && !s->targets) || !(s->scaling || s->targets) || (s->targets && on_gpu); /* a GPU's goals are times of cases */
    s->progress = show_progress;
    s->context.deterministic = words->deterministic;
    code = parse_size(words->size, s);
    return code ? code : refuse_senseless(s, resized);
}

static int write_svg(const BenchReport *report, const char *path)
{
    FILE *file = fopen(output_path(path), "w");
    if (!file) return fail(EXIT_OUTPUT, "%s: cannot be written: %s", path, strerror(errno));
    bench_svg(report, file);
    const bool bad = ferror(file);
    return fclose(file) || bad ? fail(EXIT_OUTPUT, "%s: cannot be written: %s", path, strerror(errno)) : EXIT_DONE;
}

static int finish(const BenchReport *report, bool json, const char *svg)
{
    int code = svg ? write_svg(report, svg) : EXIT_DONE;
    if (!code && json) {
        json_t *object = report_begin(NULL);
        bench_json(report, object);
        code = report_print(object);
    } else if (!code) {
        bench_print(report);
        code = flush_stdout();
    }
    return code ? code : outputs_commit();
}

int cmd_bench(int argc, char **argv)
{
    static BenchReport report;
    int code;
    Words words = { 0 };
    Common common;
    BenchParams params = { 0 };
    BenchSettings *s = &report.settings;
    const Arg args[] = { { "op", "search|search-all|refine|compose|weights|gather|gather-add|scatter-add", "only this operator", &s->op },
                         { "case", "TEXT", "only cases with this in operator and name, of the full set too, or only such targets",
                           &s->filter },
                         { "size", "HxW", "rows and columns of every case", &words.size },
                         { "svg", "FILE", "also draw the results", &words.svg },
                         { "scaling", NULL, "time of search and gather-add against pixels, frames, ws, ps, F, threads; not on a GPU", &words.scaling },
                         { "targets", NULL, "what the backends cpu and cuda have promised, and whether it is met: ratios of the least of many runs", &words.targets },
                         { "cases", NULL, "the cases, beside --scaling or --targets", &words.cases },
                         { "full", NULL, "every case there is, scaling and targets: hours", &words.full },
                         { "deterministic", NULL, "gradients bit-identical from run to run, on a GPU too", &words.deterministic },
                         { "quick", NULL, "tiny sizes, one run: does everything work", &words.quick } };
    const ArgTable table = { .summary = "time every operator, forward and backward, against what this machine can do",
                             .examples = "  snls bench\n  snls bench --op search --json\n"
                                         "  snls bench --case 'cpu 160x160 F32' --threads 1\n"
                                         "  snls bench --cases --scaling --targets --svg bench.svg\n",
                             .args = args,
                             .arg_count = sizeof args / sizeof *args,
                             .options = options,
                             .params = &params };
    if (!parse_args(argc, argv, &table, &common, &code)) return code;
    code = set_up(&params, &common, &words, s);
    if (!code && words.svg) code = output_add(words.svg, common.overwrite);
    if (code) return code;
    const SnlsStatus status = bench_run(&report);
    code = status < 0 ? fail(code_of(status, false), "%s", report.why) : finish(&report, common.json, words.svg);
    bench_free(&report);
    return code;
}
