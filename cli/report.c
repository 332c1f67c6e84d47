/* report.c: time and the JSON object of a command. */
#define _POSIX_C_SOURCE 200809L
#include "cli.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

json_t *json_shape(const SnlsTensor *array)
{
    json_t *shape = json_array();
    for (int32_t i = 0; i < array->ndim; i++) json_array_append_new(shape, json_integer(array->shape[i]));
    return shape;
}

json_t *json_real_or_null(double value) { return isfinite(value) ? json_real(value) : json_null(); }

/* A file name need not be UTF-8, a JSON string must. */
json_t *json_text(const char *text)
{
    json_t *string = json_string(text);
    if (string) return string;
    char plain[1024];
    snprintf(plain, sizeof plain, "%s", text);
    for (char *c = plain; *c; c++)
        if ((unsigned char)*c > 126) *c = '?';
    return json_string(plain);
}

json_t *report_begin(SnlsContext *ctx)
{
    json_t *report = json_object();
    json_object_set_new(report, "command", json_string(command_name));
    json_object_set_new(report, "version", json_string(snls_version()));
    if (!ctx) return report;
    json_object_set_new(report, "backend", json_string(snls_backend_name(ctx)));
    json_object_set_new(report, "threads", json_integer(snls_threads(ctx)));
    return report;
}

int report_print(json_t *report)
{
    char *text = json_dumps(report, JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(9));
    json_decref(report);
    if (!text) return fail(EXIT_MEMORY, "the JSON report cannot be made (out of memory)");
    printf("%s\n", text);
    free(text);
    return flush_stdout();
}
