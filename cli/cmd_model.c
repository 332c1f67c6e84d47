/* cmd_model.c: what a file of weights holds. */
#include "cli.h"
#include <stdio.h>

static json_t *tensors_json(const SnlsSafetensors *file)
{
    json_t *list = json_array();
    for (int64_t i = 0; i < file->count; i++) {
        const SnlsTensor *t = &file->tensors[i].tensor;
        json_array_append_new(list, json_pack("{s:o, s:s, s:o}", "name", json_text(file->tensors[i].name), "dtype", t->dtype < 0 ? "other" : snls_dtype_name((SnlsDtype)t->dtype), "shape", json_shape(t)));
    }
    return list;
}

static int print_json(SnlsContext *ctx, const SnlsSafetensors *file, int64_t elements)
{
    json_t *report = report_begin(ctx), *metadata = json_object();
    for (int64_t i = 0; i < file->metadata_count; i++) json_object_set_new(metadata, file->metadata[2 * i], json_text(file->metadata[2 * i + 1]));
    json_object_set_new(report, "metadata", metadata);
    json_object_set_new(report, "elements", json_integer(elements));
    json_object_set_new(report, "tensors", tensors_json(file));
    return report_print(report);
}

static int print_text(const SnlsSafetensors *file, int64_t elements)
{
    for (int64_t i = 0; i < file->metadata_count; i++) printf("%-16s %s\n", file->metadata[2 * i], file->metadata[2 * i + 1]);
    printf("%lld numbers in %lld tensors\n", (long long)elements, (long long)file->count);
    for (int64_t i = 0; i < file->count; i++) {
        const SnlsTensor *t = &file->tensors[i].tensor;
        printf("  %-60s %-5s %s\n", file->tensors[i].name, t->dtype < 0 ? "other" : snls_dtype_name((SnlsDtype)t->dtype), shape_text(t).text);
    }
    return flush_stdout();
}

int cmd_model(int argc, char **argv)
{
    static const char *const names[] = { "FILE.safetensors" };
    static const char *const help[] = { "weights of a network" };
    int code;
    Common common = { 0 };
    const char *given[1] = { NULL };
    SnlsContext *ctx = NULL;
    SnlsSafetensors file = { 0 };
    int64_t elements = 0;
    const ArgTable table = { .summary = "what a file of weights holds: architecture, origin, tensors", .examples = "  snls model weights.safetensors\n  snls model weights.safetensors --json\n",
                             .positional_names = names, .positional_help = help, .positional = given, .positional_min = 1, .positional_max = 1, .no_device = true };
    if (!parse_args(argc, argv, &table, &common, &code)) return code;
    code = open_context(&common, &ctx);
    const SnlsStatus status = code ? SNLS_OK : snls_safetensors_read(ctx, given[0], &file);
    if (status < 0) code = fail_library(ctx, status, false);
    for (int64_t i = 0; i < file.count; i++) elements += snls_tensor_elements(&file.tensors[i].tensor);
    if (!code) code = common.json ? print_json(ctx, &file, elements) : print_text(&file, elements);
    snls_safetensors_free(ctx, &file);
    snls_close(&ctx);
    return code;
}
