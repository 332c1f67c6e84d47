/* weights.c: where the weights that come with snls are: in share beside the installed program, in the build folder, or where
 * SNLS_WEIGHTS says. */
#define _XOPEN_SOURCE 700
#include "weights.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct { const char *method, *file; } networks[] = { { "stan", "stan-s" }, { "stan-s", "stan-s" }, { "dvdnet", NULL }, { "fastdvdnet", NULL } };
enum { NETWORKS = sizeof networks / sizeof *networks };

static int network_called(const char *name)
{
    for (int i = 0; i < NETWORKS; i++)
        if (!strcmp(networks[i].method, name)) return i;
    return -1;
}

void network_options(SnlsOption *list, int room)
{
    static const char *names[8];
    int count = 0, at = 0;
    for (const SnlsOption *o = snls_denoise_options(); o->name && count < room - 1; o++) list[count++] = *o;
    list[count] = (SnlsOption){ 0 };
    for (SnlsOption *o = list; o->name; o++) {
        if (strcmp(o->name, "method")) continue;
        for (; o->names[at] && at < 2; at++) names[at] = o->names[at];
        for (int i = 0; i < NETWORKS; i++) names[at++] = networks[i].method;
        o->names = names;
        o->max = at - 1;
        o->help = "how patches become an estimate, or a network: stan comes with snls, the others need --model";
    }
}

int network_take(int argc, char **argv, char **rest, int *count, Network *n)
{
    *count = 0;
    for (int i = 0; i < argc; i++) {
        const bool apart = !strcmp(argv[i], "--method") && i + 1 < argc;
        const char *value = apart ? argv[i + 1] : !strncmp(argv[i], "--method=", 9) ? argv[i] + 9 : NULL;
        if (!value || network_called(value) < 0) {
            rest[(*count)++] = argv[i];
            continue;
        }
        if (n->method) return fail(EXIT_USAGE, "--method is given twice");
        n->method = networks[network_called(value)].method;
        i += apart;
    }
    return EXIT_DONE;
}

static bool found(Network *n, const char *folder, const char *below, const char *file)
{
    const int length = snprintf(n->path, sizeof n->path, "%s%s/%s.safetensors", folder, below, file);
    return length > 0 && (size_t)length < sizeof n->path && !access(n->path, R_OK);
}

static int parse_precision(const char *name, int32_t *dtype)
{
    *dtype = !name || !strcmp(name, "auto") ? -1 : strcmp(name, "f32") ? SNLS_BF16 : SNLS_F32;
    return *dtype == SNLS_BF16 && strcmp(name, "bf16") ? fail(EXIT_USAGE, "--precision is %s, must be auto, f32 or bf16", name) : EXIT_DONE;
}

int network_find(Network *n, const char **model)
{
    char program[PATH_MAX] = "";
    const char *told = getenv("SNLS_WEIGHTS");
    int32_t dtype;
    const int code = parse_precision(n->precision, &dtype);
    if (code) return code;
    if (n->precision && !n->method && !*model) return fail(EXIT_USAGE, "--precision has no meaning without a network: --method stan, or --model");
    if (!n->method || *model) return EXIT_DONE;
    const char *file = networks[network_called(n->method)].file;
    if (!file) return fail(EXIT_USAGE, "--method %s needs --model: no weights of it come with snls", n->method);
    const ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    char *slash = length > 0 ? strrchr(program, '/') : NULL;
    if (slash) *slash = 0;
    *model = n->path;
    if (told && *told) return found(n, told, "", file) ? EXIT_DONE : fail(EXIT_INPUT, "%s: cannot be read (SNLS_WEIGHTS names its folder)", n->path);
    if (slash && (found(n, program, "/../share/snls/weights", file) || found(n, program, "/weights", file))) return EXIT_DONE;
    return fail(EXIT_INPUT, "the weights of %s, %s.safetensors, are neither in %s/../share/snls/weights nor in %s/weights; give them with --model, or their folder in SNLS_WEIGHTS",
                n->method, file, program, program);
}

/* Parameters of vnlb that nlm does not read. */
static int check_nlm(const SnlsOption *options, uint64_t given)
{
    static const char *const without[] = { "depth", "window2", "patches2", "step2", "rank1", "reuse1", "reuse2", "theta1" };
    for (int i = 0; options[i].name; i++)
        for (size_t j = 0; given >> i & 1 && j < sizeof without / sizeof *without; j++)
            if (!strcmp(options[i].name, without[j]))
                return fail(EXIT_USAGE, "--%s has no meaning with --method nlm: it is a parameter of vnlb", options[i].name);
    return EXIT_DONE;
}

int network_check(Network *n, const SnlsOption *options, uint64_t given, const SnlsDenoiseParams *params, const char *model)
{
    if (!model) return params->method == SNLS_DENOISE_NLM ? check_nlm(options, given) : EXIT_DONE;
    for (const SnlsOption *own = snls_denoise_options(); own->name; own++)
        for (int i = 0; options[i].name; i++) {
            if (strcmp(options[i].name, own->name) || !(given >> i & 1) || !strcmp(own->name, "flow")) continue;
            if (!strcmp(own->name, "method") && n->method) return fail(EXIT_USAGE, "--method is given twice");
            if (!strcmp(own->name, "method")) return fail(EXIT_USAGE, "--method is %s, but --model names a network: give one of them", own->names[params->method]);
            return fail(EXIT_USAGE, "--%s has no meaning with a network: it is a parameter of --method vnlb and nlm", own->name);
        }
    n->flow = params->flow;
    return EXIT_DONE;
}

int network_check_sigma(const char *model, double sigma)
{
    return model && sigma > 255 ? fail(EXIT_USAGE, "--sigma is %g, must be 0 to 255 with a network", sigma) : EXIT_DONE;
}

/* A network that asks for the motion is told how to find it. */
static int check_flow(const Network *n, const SnlsModel *model)
{
    SnlsModelInfo info;
    if (n->flow == SNLS_DENOISE_FLOW_PRESET || snls_model_info(model, &info) < 0) return EXIT_DONE;
    if (strcmp(info.architecture, "stan") && strcmp(info.architecture, "dvdnet")) return fail(EXIT_USAGE, "--flow has no meaning with %s: it looks for no motion", info.architecture);
    return n->flow == SNLS_DENOISE_FLOW_NONE ? fail(EXIT_USAGE, "--flow is none, must be farneback, tvl1 or dis: %s follows the motion", info.architecture) : EXIT_DONE;
}

static int check_method(const Network *n, const SnlsModel *model)
{
    SnlsModelInfo info;
    if (!n->method || snls_model_info(model, &info) < 0) return EXIT_DONE;
    const bool same = !strcmp(info.architecture, n->method) || (!strcmp(n->method, "stan") && !strcmp(info.architecture, "stan-s"));
    return same ? EXIT_DONE : fail(EXIT_USAGE, "--method is %s, but the weights are of %s", n->method, info.architecture);
}

int network_open(const Network *n, SnlsContext *ctx, const char *path, SnlsModel **model)
{
    SnlsModelParams params;
    snls_model_defaults(&params);
    int code = parse_precision(n->precision, &params.dtype);
    if (code) return code;
    if (params.dtype == SNLS_BF16 && !strcmp(snls_backend_name(ctx), "ref"))
        return fail(EXIT_USAGE, "--precision is bf16, but --backend ref keeps values in f32");
    if (n->flow > SNLS_DENOISE_FLOW_NONE) params.flow = n->flow - SNLS_DENOISE_FLOW_FARNEBACK + SNLS_FLOW_FARNEBACK;
    input_note(path);
    const SnlsStatus status = snls_model_open(model, ctx, path, &params);
    if (status < 0) return fail_library(ctx, status, false);
    code = check_method(n, *model);
    return code ? code : check_flow(n, *model);
}
