/* safetensors_write.c: named arrays to a safetensors file. */
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
    SNLS_TRY(snls_array_require(ctx, "safetensors_write", t->name, &t->tensor));
    SNLS_REQUIRE(ctx, snls_array_is_contiguous(&t->tensor), SNLS_ERR_ARG, "safetensors_write: %.80s is not contiguous", t->name);
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
static SnlsStatus check_keys(SnlsContext *ctx, const SnlsSafetensors *file)
{
    for (int64_t i = 0; i < file->metadata_count; i++)
        for (int64_t k = 0; k < i; k++) {
            const char *one = file->metadata[2 * i], *other = file->metadata[2 * k];
            SNLS_REQUIRE(ctx, !one || !other || strcmp(one, other), SNLS_ERR_ARG, "safetensors_write: metadata has the key %.80s twice", one);
        }
    return SNLS_OK;
}

static json_t *entry_of(const SnlsTensor *t, int64_t begin)
{
    json_t *shape = json_array();
    for (int32_t i = 0; i < t->ndim; i++) json_array_append_new(shape, json_integer(t->shape[i]));
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", snls_safetensors_type_name(t->dtype), "shape", shape, "data_offsets",
                     (json_int_t)begin, (json_int_t)(begin + bytes_of(t)));
}

static json_t *metadata_of(const SnlsSafetensors *file)
{
    json_t *object = json_object();
    for (int64_t i = 0; i < file->metadata_count; i++)
        if (json_object_set_new(object, file->metadata[2 * i], json_string(file->metadata[2 * i + 1]))) {
            json_decref(object); /* no UTF-8, or no memory */
            return NULL;
        }
    return object;
}

/* NULL: a name twice, no UTF-8, or no memory. */
static json_t *header_of(const SnlsSafetensors *file)
{
    json_t *root = json_object();
    int64_t at = 0;
    bool good = !file->metadata_count || !json_object_set_new(root, "__metadata__", metadata_of(file));
    for (int64_t i = 0; good && i < file->count; i++) {
        const SnlsNamedTensor *t = &file->tensors[i];
        good = !json_object_get(root, t->name) && !json_object_set_new(root, t->name, entry_of(&t->tensor, at));
        at += bytes_of(&t->tensor);
    }
    if (good) return root;
    json_decref(root);
    return NULL;
}

static SnlsStatus write_all(SnlsContext *ctx, const char *path, int fd, const char *header, const SnlsSafetensors *file)
{
    const size_t used = strlen(header), padded = (used + 7) / 8 * 8; /* so that the data begin at a multiple of eight */
    unsigned char first[8];
    for (int i = 0; i < 8; i++) first[i] = (unsigned char)(padded >> 8 * i);
    SNLS_TRY(snls_io_write(ctx, path, fd, first, 8));
    SNLS_TRY(snls_io_write(ctx, path, fd, header, (int64_t)used));
    SNLS_TRY(snls_io_write(ctx, path, fd, "       ", (int64_t)(padded - used)));
    for (int64_t i = 0; i < file->count; i++)
        SNLS_TRY(snls_io_write(ctx, path, fd, file->tensors[i].tensor.data, bytes_of(&file->tensors[i].tensor)));
    return SNLS_OK;
}

static char *header_text(const SnlsSafetensors *file)
{
    json_t *root = header_of(file);
    char *text = root ? json_dumps(root, JSON_COMPACT) : NULL;
    json_decref(root);
    return text;
}

SnlsStatus snls_safetensors_write(SnlsContext *ctx, const char *path, const SnlsSafetensors *file)
{
    int fd;
    if (!ctx) return SNLS_ERR_ARG;
    SNLS_REQUIRE(ctx, path && file, SNLS_ERR_ARG, "safetensors_write: path or file is NULL");
    SNLS_TRY(check_list(ctx, "tensors", file->tensors, file->count));
    SNLS_TRY(check_list(ctx, "metadata", file->metadata, file->metadata_count));
    SNLS_TRY(check_keys(ctx, file));
    for (int64_t i = 0; i < file->count; i++) SNLS_TRY(check_tensor(ctx, path, &file->tensors[i]));
    char *header = header_text(file);
    SNLS_REQUIRE(ctx, header, SNLS_ERR_ARG, "safetensors_write: two tensors have one name, or a text is no UTF-8");
    SnlsStatus status = snls_io_create(ctx, path, &fd);
    if (status >= 0) status = snls_io_finish(ctx, path, fd, write_all(ctx, path, fd, header, file));
    free(header);
    return status;
}

#else
SnlsStatus snls_safetensors_write(SnlsContext *ctx, const char *path, const SnlsSafetensors *file)
{
    if (!ctx) return SNLS_ERR_ARG;
    (void)file;
    return snls_fail(ctx, SNLS_ERR_UNSUPPORTED, "%s: this build has no jansson, safetensors files cannot be written", path ? snls_io_name(path).text : "safetensors_write");
}
#endif
