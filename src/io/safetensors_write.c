/* safetensors_write.c: named arrays to a safetensors file. */
#include "base/tensor.h"
#include "base/utf8.h"
#include "io/array.h"
#include "io/file.h"
#include "io/safetensors.h"
#include <stdlib.h>
#include <string.h>
#ifdef SNLS_HAVE_JANSSON
#include <jansson.h>

static int64_t bytes_of(const SnlsTensor *t) { return snls_tensor_elements(t) * snls_dtype_size((SnlsDtype)t->dtype); }

static SnlsStatus check_tensor(SnlsContext *ctx, const char *path, const SnlsNamedTensor *t)
{
    SNLS_REQUIRE(ctx, t->name && *t->name && strcmp(t->name, "__metadata__"), SNLS_ERR_ARG, "safetensors_write: a tensor has no name, or a reserved one");
    SNLS_REQUIRE(ctx, strlen(t->name) <= SNLS_SAFETENSORS_NAME_MAX && snls_is_utf8(t->name), SNLS_ERR_ARG, "safetensors_write: the name %.80s is no UTF-8 of at most %d bytes", t->name,
                 SNLS_SAFETENSORS_NAME_MAX);
    SNLS_TRY(snls_array_require(ctx, "safetensors_write", t->name, &t->tensor));
    SNLS_REQUIRE(ctx, snls_tensor_is_contiguous(&t->tensor), SNLS_ERR_ARG, "safetensors_write: %.80s is not contiguous", t->name);
    SNLS_REQUIRE(ctx, snls_safetensors_type_name(t->tensor.dtype), SNLS_ERR_UNSUPPORTED, "%s: safetensors has no element type %s",
                 snls_io_name(path).text, snls_dtype_name((SnlsDtype)t->tensor.dtype));
    return SNLS_OK;
}

static SnlsStatus check_list(SnlsContext *ctx, const char *name, const void *list, int64_t count)
{
    SNLS_REQUIRE(ctx, count >= 0, SNLS_ERR_ARG, "safetensors_write: the count of %s is %lld, must not be negative", name, (long long)count);
    SNLS_REQUIRE(ctx, list || !count, SNLS_ERR_ARG, "safetensors_write: %s is NULL, but %lld are promised", name, (long long)count);
    return SNLS_OK;
}

/* Readers would see the last of two alone. */
static SnlsStatus check_metadata(SnlsContext *ctx, const SnlsSafetensors *file)
{
    for (int64_t i = 0; i < file->metadata_count; i++) {
        const char *key = file->metadata[2 * i], *text = file->metadata[2 * i + 1];
        SNLS_REQUIRE(ctx, key && text && snls_is_utf8(key) && snls_is_utf8(text), SNLS_ERR_ARG, "safetensors_write: text %lld of metadata is missing or no UTF-8", (long long)i);
        for (int64_t k = 0; k < i; k++)
            SNLS_REQUIRE(ctx, strcmp(key, file->metadata[2 * k]), SNLS_ERR_ARG, "safetensors_write: metadata has the key %.80s twice", key);
    }
    return SNLS_OK;
}

static int by_text(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

static SnlsStatus check_names(SnlsContext *ctx, const SnlsSafetensors *file)
{
    const char **names = snls_mem_alloc(&ctx->allocator, file->count * (int64_t)sizeof *names);
    SnlsStatus status = SNLS_OK;
    SNLS_REQUIRE(ctx, names, SNLS_ERR_MEMORY, "safetensors_write: no memory for a list of names");
    for (int64_t i = 0; i < file->count; i++) names[i] = file->tensors[i].name;
    qsort((void *)names, (size_t)file->count, sizeof *names, by_text);
    for (int64_t i = 1; status >= 0 && i < file->count; i++)
        if (!strcmp(names[i - 1], names[i])) status = snls_fail(ctx, SNLS_ERR_ARG, "safetensors_write: two tensors have the name %.80s", names[i]);
    snls_mem_free(&ctx->allocator, (void *)names);
    return status;
}

/* ---- the header ---- */

/* The next tensor in the order of the data, behind tensor i: those of the largest elements first, so that each begins at a multiple of its
 * own, as readers want it. -1: none. begin with i = -1 and *size = 8. */
static int64_t next_of(const SnlsSafetensors *file, int64_t i, int64_t *size)
{
    for (; *size; *size /= 2, i = -1)
        while (++i < file->count)
            if (snls_dtype_size((SnlsDtype)file->tensors[i].tensor.dtype) == *size) return i;
    return -1;
}

static json_t *numbers(const int64_t *list, int64_t count)
{
    json_t *array = json_array();
    for (int64_t i = 0; array && i < count; i++)
        if (json_array_append_new(array, json_integer(list[i]))) {
            json_decref(array);
            return NULL;
        }
    return array;
}

static bool put_entry(json_t *header, const SnlsNamedTensor *t, int64_t begin)
{
    const int64_t ends[2] = { begin, begin + bytes_of(&t->tensor) };
    json_t *entry = json_object();
    const bool good = entry && !json_object_set_new(entry, "dtype", json_string(snls_safetensors_type_name(t->tensor.dtype))) &&
                      !json_object_set_new(entry, "shape", numbers(t->tensor.shape, t->tensor.ndim)) && !json_object_set_new(entry, "data_offsets", numbers(ends, 2));
    if (good) return !json_object_set_new(header, t->name, entry);
    json_decref(entry);
    return false;
}

static bool put_metadata(json_t *header, const SnlsSafetensors *file)
{
    json_t *object = json_object();
    bool good = object;
    for (int64_t i = 0; good && i < file->metadata_count; i++) good = !json_object_set_new(object, file->metadata[2 * i], json_string(file->metadata[2 * i + 1]));
    if (good) return !json_object_set_new(header, "__metadata__", object);
    json_decref(object);
    return false;
}

static bool put_all(json_t *header, const SnlsSafetensors *file)
{
    int64_t size = 8, at = 0;
    bool good = header && (!file->metadata_count || put_metadata(header, file));
    for (int64_t i = -1; good && (i = next_of(file, i, &size)) >= 0; at += bytes_of(&file->tensors[i].tensor)) good = put_entry(header, &file->tensors[i], at);
    return good;
}

/* NULL: no memory; names and texts have been looked at. jansson may leave out what it has no memory for and say nothing, so the text is read again: it has to be what was meant. */
static char *header_text(const SnlsSafetensors *file)
{
    json_t *meant = json_object(), *written = NULL;
    char *text = put_all(meant, file) ? json_dumps(meant, JSON_COMPACT) : NULL;
    if (text) written = json_loads(text, 0, NULL);
    if (text && !json_equal(meant, written)) {
        free(text);
        text = NULL;
    }
    json_decref(meant);
    json_decref(written);
    return text;
}

static SnlsStatus write_all(SnlsContext *ctx, const char *path, int fd, const char *header, int64_t used, const SnlsSafetensors *file)
{
    const int64_t padded = (used + 7) / 8 * 8; /* so that the data begin at a multiple of eight */
    unsigned char first[8];
    int64_t size = 8;
    for (int i = 0; i < 8; i++) first[i] = (unsigned char)(padded >> 8 * i);
    SNLS_TRY(snls_io_write(ctx, path, fd, first, 8));
    SNLS_TRY(snls_io_write(ctx, path, fd, header, used));
    SNLS_TRY(snls_io_write(ctx, path, fd, "       ", padded - used));
    for (int64_t i = -1; (i = next_of(file, i, &size)) >= 0;)
        SNLS_TRY(snls_io_write(ctx, path, fd, file->tensors[i].tensor.data, bytes_of(&file->tensors[i].tensor)));
    return SNLS_OK;
}

static SnlsStatus write_file(SnlsContext *ctx, const char *path, const char *header, const SnlsSafetensors *file)
{
    const int64_t used = (int64_t)strlen(header);
    int fd;
    SNLS_REQUIRE(ctx, used + 7 <= SNLS_SAFETENSORS_HEADER_MAX, SNLS_ERR_ARG, "safetensors_write: the header would have %lld bytes, at most %d can be read", (long long)used, SNLS_SAFETENSORS_HEADER_MAX);
    SNLS_TRY(snls_io_create(ctx, path, &fd));
    return snls_io_finish(ctx, path, fd, write_all(ctx, path, fd, header, used, file));
}

SnlsStatus snls_safetensors_write(SnlsContext *ctx, const char *path, const SnlsSafetensors *file)
{
    if (!ctx) return SNLS_ERR_ARG;
    SNLS_REQUIRE(ctx, path && file, SNLS_ERR_ARG, "safetensors_write: path or file is NULL");
    SNLS_TRY(check_list(ctx, "tensors", file->tensors, file->count));
    SNLS_TRY(check_list(ctx, "metadata", file->metadata, file->metadata_count));
    SNLS_TRY(check_metadata(ctx, file));
    for (int64_t i = 0; i < file->count; i++) SNLS_TRY(check_tensor(ctx, path, &file->tensors[i]));
    SNLS_TRY(check_names(ctx, file));
    char *header = header_text(file);
    SNLS_REQUIRE(ctx, header, SNLS_ERR_MEMORY, "safetensors_write: no memory for the header");
    const SnlsStatus status = write_file(ctx, path, header, file);
    free(header);
    return status;
}

#else
SnlsStatus snls_safetensors_write(SnlsContext *ctx, const char *path, const SnlsSafetensors *file)
{
    if (!ctx) return SNLS_ERR_ARG;
    (void)file;
    return snls_fail(ctx, SNLS_ERR_UNSUPPORTED, "%s: this build has no jansson, safetensors files cannot be written", path && *path ? snls_io_name(path).text : "safetensors_write");
}
#endif
