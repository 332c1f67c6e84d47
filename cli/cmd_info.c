/* cmd_info.c: what was built and what this machine offers, asked of the library itself. */
#include "cli.h"
#include <stdio.h>
#include <string.h>

typedef struct Backend {
    const char *name;
    bool available;
    int32_t threads, cpu_level;
    char why[512];
} Backend;

static Backend probe(const char *name, int32_t threads)
{
    Backend b = { .name = name };
    SnlsContext *ctx = NULL;
    SnlsContextParams params;
    snls_context_defaults(&params);
    params.backend = name;
    params.threads = threads;
    params.error_text = b.why;
    params.error_size = sizeof b.why;
    const SnlsStatus status = snls_open(&ctx, &params);
    b.available = status >= 0;
    if (b.available) {
        b.threads = snls_threads(ctx);
        b.cpu_level = snls_cpu_level(ctx);
    } else if (!*b.why) {
        snprintf(b.why, sizeof b.why, "%s", snls_status_text(status));
    } else if (!strncmp(b.why, "open: ", 6)) {
        memmove(b.why, b.why + 6, strlen(b.why) - 5);
    }
    snls_close(&ctx);
    return b;
}

/* What the build found of the libraries that it can do without; 0 or 1, by cmake/cli.cmake. */
static const struct { const char *name; bool there; } features[] = {
    { "openmp", SNLS_WITH_OPENMP }, { "png", SNLS_WITH_PNG }, { "jpeg", SNLS_WITH_JPEG }, { "lapack", SNLS_WITH_LAPACK }, { "onednn", SNLS_WITH_DNNL }
};
enum { FEATURES = sizeof features / sizeof *features };

/* Of the libraries that are loaded for it, or why there are none. */
static bool video_text(char *text, size_t size)
{
    SnlsContext *ctx = NULL;
    snprintf(text, size, "unknown");
    if (snls_open(&ctx, NULL) < 0) return false;
    const SnlsStatus status = snls_video_about(ctx, text, size);
    const char *why = snls_error(ctx);
    if (status < 0) snprintf(text, size, "%s", strncmp(why, "video: ", 7) ? why : why + 7);
    snls_close(&ctx);
    return status >= 0;
}

static const char *compiler(void)
{
#if defined(__clang__)
    return "clang " __clang_version__;
#elif defined(__GNUC__)
    return "gcc " __VERSION__;
#else
    return "unknown";
#endif
}

static const char *sanitizers(void)
{
#if defined(__SANITIZE_ADDRESS__)
    return "address";
#elif defined(__SANITIZE_THREAD__)
    return "thread";
#else
    return "none";
#endif
}

static const char *const backend_names[] = { "ref", "cpu", "cuda" };
enum { BACKENDS = 3 };

static void print_text(const Backend *backends)
{
    const int32_t api = snls_api_version();
    printf("snls %s (API %d.%d.%d)\n", snls_version(), (int)(api >> 16), (int)(api >> 8 & 255), (int)(api & 255));
    printf("compiler     %s%s%s\n", compiler(), strcmp(sanitizers(), "none") ? ", sanitizer " : "",
           strcmp(sanitizers(), "none") ? sanitizers() : "");
    char video[600];
    const bool has_video = video_text(video, sizeof video);
    printf("features     ");
    for (int i = 0; i < FEATURES; i++) printf("%s%s %s", i ? ", " : "", features[i].name, features[i].there ? "yes" : "no");
    printf("\n");
    printf("video        %s%s\n", has_video ? "" : "no: ", video);
    printf("cpu level    %s in use, this machine has %s\n",
           backends[1].available ? snls_cpu_level_name(backends[1].cpu_level) : "none",
           snls_cpu_level_name(snls_cpu_level_max()));
    for (int i = 0; i < BACKENDS; i++) {
        if (!backends[i].available) printf("backend %-4s not available: %s\n", backends[i].name, backends[i].why);
        else
            printf("backend %-4s available, %d thread%s\n", backends[i].name, (int)backends[i].threads,
                   backends[i].threads == 1 ? "" : "s");
    }
}

static json_t *make_json(const Backend *backends)
{
    json_t *report = report_begin(NULL), *list = json_object();
    json_object_set_new(report, "api_version", json_integer(snls_api_version()));
    json_object_set_new(report, "compiler", json_string(compiler()));
    json_object_set_new(report, "sanitizer", json_string(sanitizers()));
    char video[600];
    const bool has_video = video_text(video, sizeof video);
    json_t *found = json_pack("{s:b}", "ffmpeg", has_video);
    for (int i = 0; i < FEATURES; i++) json_object_set_new(found, features[i].name, json_boolean(features[i].there));
    json_object_set_new(report, "features", found);
    json_object_set_new(report, "video", json_text(video));
    json_object_set_new(report, "cpu_level",
                        json_string(backends[1].available ? snls_cpu_level_name(backends[1].cpu_level) : "none"));
    json_object_set_new(report, "cpu_level_max", json_string(snls_cpu_level_name(snls_cpu_level_max())));
    json_object_set_new(report, "threads", json_integer(backends[1].threads));
    for (int i = 0; i < BACKENDS; i++) {
        json_t *entry = json_pack("{s:b}", "available", backends[i].available);
        if (backends[i].available) json_object_set_new(entry, "threads", json_integer(backends[i].threads));
        else json_object_set_new(entry, "why", json_text(backends[i].why));
        json_object_set_new(list, backends[i].name, entry);
    }
    json_object_set_new(report, "backends", list);
    return report;
}

int cmd_info(int argc, char **argv)
{
    int code;
    Common common;
    const ArgTable table = { .summary = "versions, backends, CPU level, features",
                             .examples = "  snls info\n  snls info --json\n" };
    if (!parse_args(argc, argv, &table, &common, &code)) return code;
    Backend backends[BACKENDS];
    for (int i = 0; i < BACKENDS; i++) backends[i] = probe(backend_names[i], common.threads);
    if (common.json) return report_print(make_json(backends));
    print_text(backends);
    return EXIT_DONE;
}

int cmd_version(int argc, char **argv)
{
    command_name = "version";
    return cmd_info(argc, argv);
}
