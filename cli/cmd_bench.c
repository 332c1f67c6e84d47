/* cmd_bench.c: arguments of the benchmark; the machinery is in bench/. */
#define _POSIX_C_SOURCE 200809L
#include "bench.h"
#include "cli.h"
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

typedef struct BenchParams {
    int32_t runs, frames, features, crop;
} BenchParams;

/* clang-format off */
#define INT(field, def, min, max, help) {#field, help, SNLS_OPTION_INT, offsetof(BenchParams, field), def, min, max, NULL}
/* clang-format on */
static const SnlsOption options[] = { INT(runs, 5, 1, 64, "runs of each case, the median is told"),
                                      INT(frames, 5, 5, 1000, "frames"),
                                      INT(features, 32, 1, 4096, "channels"),
                                      INT(crop, 24, 4, 4096, "side of the crop that ref is timed on"),
                                      { NULL, NULL, 0, 0, 0, 0, 0, NULL } };

static int parse_size(const char *text, BenchSize *size)
{
    int height, width, end = 0;
    if (!text) return EXIT_DONE;
    if (sscanf(text, "%5dx%5d%n", &height, &width, &end) != 2 || text[end] || height < 4 || width < 4 ||
        height > 32767 || width > 32767)
        return fail(EXIT_USAGE, "--size is %s, must be HxW, each 4 to 32767", text);
    size->height = height;
    size->width = width;
    return EXIT_DONE;
}

static int32_t smaller(int32_t a, int32_t b) { return a < b ? a : b; }

static void show_progress(const char *name)
{
    if (isatty(STDERR_FILENO)) fprintf(stderr, "\r%-40s%s", name ? name : "", name ? "" : "\r");
}

static int set_up(const BenchParams *params, const Common *common, BenchSettings *s)
{
    s->size.frames = params->frames;
    s->size.features = params->features;
    s->runs = params->runs;
    s->crop = s->size;
    s->crop.height = smaller(params->crop, s->size.height);
    s->crop.width = smaller(params->crop, s->size.width);
    s->progress = show_progress;
    return context_params(common, &s->context);
}

static int finish(const BenchReport *report, bool json)
{
    if (json) {
        json_t *object = report_begin(NULL);
        bench_json(report, object);
        return report_print(object);
    }
    bench_print(report);
    return flush_stdout();
}

int cmd_bench(int argc, char **argv)
{
    static BenchReport report = { .settings = { .size = { 5, 160, 160, 32 } } };
    int code;
    bool quick = false;
    const char *size = NULL;
    Common common;
    BenchParams params = { 5, 5, 32, 24 };
    BenchSettings *s = &report.settings;
    const Arg args[] = { { "op", "NAME", "only this operator, such as search or gather_add", &s->only },
                         { "size", "HxW", "rows and columns (160x160)", &size },
                         { "quick", NULL, "48x48 pixels, two runs: does everything work", &quick } };
    const ArgTable table = {
        .summary = "time every operator, forward and backward, against what this machine can do",
        .examples = "  snls bench\n  snls bench --op search --size 256x256 --json\n  snls bench --quick --threads 1\n",
        .args = args,
        .arg_count = 3,
        .options = options,
        .params = &params
    };
    if (!parse_args(argc, argv, &table, &common, &code)) return code;
    if (quick) s->size.height = s->size.width = 48, params.runs = 2, params.crop = 8;
    code = parse_size(size, &s->size);
    if (!code) code = set_up(&params, &common, s);
    if (code) return code;
    const SnlsStatus status = bench_run(&report);
    return status < 0 ? fail(code_of(status, false), "%s", report.why) : finish(&report, common.json);
}
