/* cmd_model.c: what a file of weights holds, and how long its network takes. */
#include "manifest.h"
#include "weights.h"
#include <stdio.h>
#include <stdlib.h>

static json_t *tensors_json(const SnlsSafetensors *file)
{
    json_t *list = json_array();
    for (int64_t i = 0; i < file->count; i++) {
        const SnlsTensor *t = &file->tensors[i].tensor;
        json_array_append_new(list, json_pack("{s:o, s:s, s:o}", "name", json_text(file->tensors[i].name), "dtype", t->dtype < 0 ? "other" : snls_dtype_name((SnlsDtype)t->dtype), "shape", json_shape(t)));
    }
    return list;
}

static int print_json(SnlsContext *ctx, const SnlsSafetensors *file, const Manifest *m, int64_t elements)
{
    json_t *report = report_begin(ctx), *metadata = json_object();
    for (int64_t i = 0; i < file->metadata_count; i++) json_object_set_new(metadata, file->metadata[2 * i], json_text(file->metadata[2 * i + 1]));
    const char *named = snls_safetensors_metadata(file, "architecture"), *architecture = named ? named : snls_model_architecture(file);
    json_object_set_new(report, "metadata", metadata);
    json_object_set_new(report, "architecture", architecture ? json_text(architecture) : json_null());
    json_object_set_new(report, "elements", json_integer(elements));
    json_object_set_new(report, "sha256", json_string(m->sha256));
    json_object_set_new(report, "manifest", *m->path ? json_text(m->path) : json_null());
    json_object_set_new(report, "tensors", tensors_json(file));
    return report_print(report);
}

/* A file's words, whatever bytes it has: one line, nothing that a terminal would obey. At least width columns. */
static void print_word(const char *text, int width)
{
    int columns = 0;
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        const bool c1 = *c == 0xc2 && c[1] >= 0x80 && c[1] < 0xa0; /* control characters beyond ASCII, in UTF-8 */
        if (*c < ' ' || *c == 127 || c1) columns += printf("\\x%02x", *c);
        else putchar(*c), columns += (*c & 0xc0) != 0x80;
        if (c1) columns += printf("\\x%02x", *++c);
    }
    printf("%*s", columns < width ? width - columns : 0, "");
}

/* Where the metadata do not name it. */
static void print_architecture(const SnlsSafetensors *file)
{
    const char *name = snls_model_architecture(file);
    if (snls_safetensors_metadata(file, "architecture")) return;
    printf("%-16s %s\n", "architecture", name ? name : "unknown");
    printf("%-16s %s\n", "", name ? "by the names of the tensors; the metadata do not tell it" : "neither metadata nor names of tensors tell it");
}

static int print_text(const SnlsSafetensors *file, const Manifest *m, int64_t elements)
{
    for (int64_t i = 0; i < file->metadata_count; i++) {
        print_word(file->metadata[2 * i], 16);
        putchar(' ');
        print_word(file->metadata[2 * i + 1], 0);
        putchar('\n');
    }
    print_architecture(file);
    printf("%-16s %s%s%s\n", "sha256", m->sha256, *m->path ? ", as in " : "", m->path);
    printf("%lld numbers in %lld tensors\n", (long long)elements, (long long)file->count);
    for (int64_t i = 0; i < file->count; i++) {
        const SnlsTensor *t = &file->tensors[i].tensor;
        printf("  ");
        print_word(file->tensors[i].name, 60);
        printf(" %-5s %s\n", t->dtype < 0 ? "other" : snls_dtype_name((SnlsDtype)t->dtype), shape_text(t).text);
    }
    return flush_stdout();
}

/* ---- time ---- */

enum { RUNS = 5 };

typedef struct Timing { int64_t frames, h, w; double first, median; SnlsModelInfo info; } Timing;

static int by_size(const void *a, const void *b) { return *(const double *)a < *(const double *)b ? -1 : *(const double *)a > *(const double *)b; }

static int parse_size(const char *text, Timing *t)
{
    int32_t sides[3];
    if (!parse_sides(text, 3, sides) || sides[0] < 1 || sides[1] < 1 || sides[2] < 1 || sides[0] > 10000 || sides[1] > 32768 || sides[2] > 32768)
        return fail(EXIT_USAGE, "--time is %s, must be FRAMESxHEIGHTxWIDTH, for example 10x480x480", text);
    t->frames = sides[0], t->h = sides[1], t->w = sides[2];
    return EXIT_DONE;
}

/* Runs on noise: what frames show does not change the work. The first run makes plans and takes memory. */
static int time_runs(SnlsContext *ctx, SnlsModel *model, Timing *t, SnlsTensor *frames, SnlsTensor *out)
{
    const SnlsModelRun run = { .frames = *frames, .out = *out, .count = t->frames, .sigma = 50 };
    double took[RUNS];
    SnlsStatus status = snls_noise_add(ctx, frames->data, snls_tensor_elements(frames), 0, 50, 1);
    for (int i = -1; i < RUNS && status >= 0; i++) {
        const double start = seconds_now();
        status = snls_model_run(model, &run);
        *(i < 0 ? &t->first : &took[i]) = seconds_now() - start;
    }
    if (status < 0) return fail_library(ctx, status, false);
    qsort(took, RUNS, sizeof *took, by_size);
    t->median = took[RUNS / 2];
    return EXIT_DONE;
}

static int print_time(SnlsContext *ctx, const Timing *t, bool json)
{
    const double megapixels = (double)(t->frames * t->h * t->w) * 1e-6;
    if (!json) {
        printf("%s in %s on %s: %lld frames of %lldx%lld in %.4f s (median of %d runs; the first took %.2f s): %.2f megapixel-frames a second\n", t->info.architecture,
               snls_dtype_name((SnlsDtype)t->info.dtype), snls_device_type(ctx) == SNLS_DEVICE_CPU ? snls_backend_name(ctx) : snls_device_name(ctx), (long long)t->frames, (long long)t->h, (long long)t->w, t->median, RUNS, t->first, megapixels / t->median);
        return flush_stdout();
    }
    json_t *report = report_begin(ctx);
    json_object_set_new(report, "architecture", json_string(t->info.architecture));
    json_object_set_new(report, "parameters", json_integer(t->info.parameters));
    json_object_set_new(report, "radius", json_integer(t->info.radius));
    json_object_set_new(report, "dtype", json_string(snls_dtype_name((SnlsDtype)t->info.dtype)));
    json_object_set_new(report, "shape", json_pack("[I,I,I]", (json_int_t)t->frames, (json_int_t)t->h, (json_int_t)t->w));
    json_object_set_new(report, "seconds", json_real(t->median));
    json_object_set_new(report, "seconds_first", json_real(t->first));
    json_object_set_new(report, "megapixel_frames_per_second", json_real(megapixels / t->median));
    return report_print(report);
}

static int time_model(SnlsContext *ctx, const Network *network, const char *path, Timing *t, bool json)
{
    const int64_t shape[4] = { t->frames, t->h, t->w, 3 };
    SnlsTensor frames = { 0 }, out = { 0 };
    SnlsModel *model = NULL;
    Manifest manifest;
    int code = snls_path_ends(path, ".safetensors") ? manifest_check(&manifest, path) : EXIT_DONE; /* a folder has none */
    if (!code) code = network_open(network, ctx, path, &model);
    if (!code) snls_model_info(model, &t->info);
    if (!code) code = alloc_array(ctx, "frames", &frames, SNLS_F32, 4, shape);
    if (!code) code = alloc_array(ctx, "results", &out, SNLS_F32, 4, shape);
    if (!code) code = time_runs(ctx, model, t, &frames, &out);
    if (!code) code = print_time(ctx, t, json);
    snls_array_free(ctx, &frames);
    snls_array_free(ctx, &out);
    snls_model_close(&model);
    return code;
}

static int print_file(SnlsContext *ctx, const char *path, bool json)
{
    SnlsSafetensors file = { 0 };
    int64_t elements = 0;
    Manifest manifest;
    const SnlsStatus status = snls_safetensors_read(ctx, path, &file);
    if (status < 0) return fail_library(ctx, status, false);
    int code = manifest_check(&manifest, path);
    for (int64_t i = 0; i < file.count; i++) elements += snls_tensor_elements(&file.tensors[i].tensor);
    if (!code) code = json ? print_json(ctx, &file, &manifest, elements) : print_text(&file, &manifest, elements);
    snls_safetensors_free(ctx, &file);
    return code;
}

int cmd_model(int argc, char **argv)
{
    static const char *const names[] = { "FILE.safetensors" };
    static const char *const help[] = { "weights of a network (with --time also a folder of several)" };
    int code;
    Common common = { 0 };
    Timing timing = { 0 };
    Network network = { 0 };
    const char *given[1] = { NULL }, *size = NULL;
    SnlsContext *ctx = NULL;
    const Arg args[] = { { "time", "TxHxW", "run the network on T frames of noise instead, and tell how long it takes", &size },
                         PRECISION_ARG(network) };
    const ArgTable table = { .summary = "what a file of weights holds: architecture, origin, tensors; or how long its network takes",
                             .examples = "  snls model weights.safetensors\n  snls model weights.safetensors --json\n  snls model weights.safetensors --time 10x480x480 --backend cuda\n",
                             .args = args, .arg_count = 2, .positional_names = names, .positional_help = help, .positional = given, .positional_min = 1, .positional_max = 1 };
    if (!parse_args(argc, argv, &table, &common, &code)) return code;
    if (network.precision && !size) return fail(EXIT_USAGE, "--precision has no meaning without --time");
    code = size ? parse_size(size, &timing) : EXIT_DONE;
    if (!code) code = open_context(&common, &ctx);
    if (!code) code = size ? time_model(ctx, &network, given[0], &timing, common.json) : print_file(ctx, given[0], common.json);
    snls_close(&ctx);
    return code;
}
