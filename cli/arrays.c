/* arrays.c: the context of a command, and arrays between files and memory. */
#include "cli.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --backend, else --device: "cuda:1" is backend cuda on GPU 1. */
static int choose_backend(const Common *c, SnlsContextParams *params)
{
    static const char *const known[] = { "ref", "cpu", "cuda" };
    const char *device = c->device ? c->device : "auto";
    char *end = NULL;
    const bool numbered = !strncmp(device, "cuda:", 5) && device[5] >= '0' && device[5] <= '9';
    const long number = numbered ? strtol(device + 5, &end, 10) : 0;
    if (numbered && !*end && number <= 1023) params->device_id = (int32_t)number;
    else if (strcmp(device, "auto") && strcmp(device, "cpu") && strcmp(device, "cuda"))
        return fail(EXIT_USAGE, "--device is %s, must be auto, cpu, cuda or cuda:n (n 0 to 1023)", device);
    params->backend = !strncmp(device, "cuda", 4) ? "cuda" : !strcmp(device, "cpu") ? "cpu" : NULL;
    if (!c->backend) return EXIT_DONE;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(c->backend, known[i])) return params->backend = known[i], EXIT_DONE;
    return fail(EXIT_USAGE, "--backend is %s, must be one of ref, cpu, cuda", c->backend);
}

int context_params(const Common *common, SnlsContextParams *params)
{
    snls_context_defaults(params);
    params->threads = common->threads;
    params->deterministic = common->deterministic;
    params->allocator = limited_allocator();
    return choose_backend(common, params);
}

int open_context(const Common *common, SnlsContext **ctx)
{
    char why[512] = "";
    SnlsContextParams params;
    *ctx = NULL;
    const int code = context_params(common, &params);
    if (code) return code;
    params.error_text = why;
    params.error_size = sizeof why;
    const SnlsStatus status = snls_open(ctx, &params);
    if (status >= 0) return EXIT_DONE;
    const char *text = !strncmp(why, "open: ", 6) ? why + 6 : *why ? why : snls_status_text(status);
    if (status == SNLS_ERR_DEVICE && common->backend)
        return fail(EXIT_DEVICE, "--backend %s: %s", common->backend, text);
    if (status == SNLS_ERR_DEVICE && common->device) return fail(EXIT_DEVICE, "--device %s: %s", common->device, text);
    return fail(code_of(status, false), "%s", text);
}

int load_array(SnlsContext *ctx, const char *path, SnlsTensor *array)
{
    const SnlsStatus status = snls_npy_read(ctx, path, array);
    return status < 0 ? fail_library(ctx, status, false) : EXIT_DONE;
}

int alloc_array(SnlsContext *ctx, const char *what, SnlsTensor *array, SnlsDtype dtype, int32_t ndim,
                const int64_t *shape)
{
    const SnlsStatus status = snls_array_alloc(ctx, array, dtype, ndim, shape);
    return status < 0 ? fail(code_of(status, false), "%s: %s", what, snls_error(ctx)) : EXIT_DONE;
}

int convert_array(SnlsContext *ctx, const char *path, SnlsTensor *array, SnlsDtype dtype)
{
    if (array->dtype == (int32_t)dtype) return EXIT_DONE;
    SnlsTensor converted = { 0 };
    const int code = alloc_array(ctx, path, &converted, dtype, array->ndim, array->shape);
    if (code) return code;
    const SnlsStatus status = snls_array_copy(ctx, &converted, array);
    snls_array_free(ctx, array);
    *array = converted;
    return status < 0 ? fail_library(ctx, status, false) : EXIT_DONE;
}

/* first: along the first axis, of what array is a part of. */
static void index_text(const SnlsTensor *array, int64_t first, int64_t element, char *text, size_t size)
{
    int64_t index[SNLS_MAX_DIM] = { 0 };
    size_t at = 0;
    for (int32_t i = array->ndim; i-- > 0; element /= array->shape[i]) index[i] = element % array->shape[i];
    index[0] += first;
    text[0] = 0;
    for (int32_t i = 0; i < array->ndim && at < size; i++)
        at += (size_t)snprintf(text + at, size - at, "%s%lld", i ? "," : "", (long long)index[i]);
}

int require_pixels(const char *path, const SnlsTensor *clip, int64_t first)
{
    const float *x = clip->data;
    const int64_t elements = snls_tensor_elements(clip);
    int64_t i = 0;
    while (i < elements && fabsf(x[i]) <= 1e9f) i++; /* as videos are looked at by the library */
    if (i == elements) return EXIT_DONE;
    char at[192];
    index_text(clip, first, i, at, sizeof at);
    return fail(EXIT_INPUT, "%s: element [%s] is %g, every pixel must be finite and within 1e+09", path, at, (double)x[i]);
}

/* f32 and f64, contiguous: what load_array and convert_array give. */
int require_finite(const char *path, const char *what, const SnlsTensor *array, int64_t first)
{
    const int64_t elements = snls_tensor_elements(array);
    for (int64_t i = 0; i < elements; i++) {
        const double value =
            array->dtype == SNLS_F64 ? ((const double *)array->data)[i] : (double)((const float *)array->data)[i];
        if (isfinite(value)) continue;
        char at[192];
        index_text(array, first, i, at, sizeof at);
        return fail(EXIT_INPUT, "%s: element [%s] is %g, every %s must be finite", path, at, value, what);
    }
    return EXIT_DONE;
}

int write_array(SnlsContext *ctx, const char *path, const SnlsTensor *array)
{
    const SnlsStatus status = snls_npy_write(ctx, output_path(path), array);
    return status < 0 ? fail_library(ctx, status, true) : EXIT_DONE;
}

int write_image(SnlsContext *ctx, const char *path, const SnlsTensor *image)
{
    const SnlsStatus status = snls_png_write(ctx, output_path(path), image);
    return status < 0 ? fail_library(ctx, status, true) : EXIT_DONE;
}

ShapeText shape_text(const SnlsTensor *array)
{
    ShapeText shape;
    size_t at = (size_t)snprintf(shape.text, sizeof shape.text, "[");
    for (int32_t i = 0; i < array->ndim && at < sizeof shape.text; i++)
        at += (size_t)snprintf(shape.text + at, sizeof shape.text - at, "%s%lld", i ? "," : "",
                               (long long)array->shape[i]);
    if (at < sizeof shape.text) snprintf(shape.text + at, sizeof shape.text - at, "]");
    return shape;
}
