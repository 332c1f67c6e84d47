/* safetensors_write.c: named arrays to a safetensors file. */
#include "base/tensor.h"
#include "base/utf8.h"
#include "io/array.h"
#include "io/file.h"
#include "io/safetensors.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef SNLS_HAVE_JANSSON /* a build that cannot read such files writes none */

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

/* ---- the header: made twice, first to know its length ---- */

typedef struct Text {
    char   *bytes; /* NULL: only counted */
    int64_t used;
} Text;

static void put(Text *t, const char *text)
{
    const size_t n = strlen(text);
    if (t->bytes) memcpy(t->bytes + t->used, text, n);
    t->used += (int64_t)n;
}

static void put_string(Text *t, const char *text)
{
    static const char special[] = "\"\\\b\f\n\r\t", letter[] = "\"\\bfnrt";
    put(t, "\"");
    for (; *text; text++) {
        char one[8] = { *text };
        const char *at = strchr(special, *text);
        if (at) snprintf(one, sizeof one, "\\%c", letter[at - special]);
        else if ((unsigned char)*text < ' ') snprintf(one, sizeof one, "\\u%04X", (unsigned)*text);
        put(t, one);
    }
    put(t, "\"");
}

static void put_number(Text *t, const char *before, int64_t number)
{
    char text[32];
    snprintf(text, sizeof text, "%s%lld", before, (long long)number);
    put(t, text);
}

static void put_entry(Text *t, const SnlsTensor *tensor, int64_t begin)
{
    put(t, ":{\"dtype\":");
    put_string(t, snls_safetensors_type_name(tensor->dtype));
    put(t, ",\"shape\":[");
    for (int32_t i = 0; i < tensor->ndim; i++) put_number(t, i ? "," : "", tensor->shape[i]);
    put_number(t, "],\"data_offsets\":[", begin);
    put_number(t, ",", begin + bytes_of(tensor));
    put(t, "]}");
}

/* The next tensor in the order of the data, behind tensor i: those of the largest elements first, so that each begins at a multiple of its
 * own, as readers want it. -1: none. begin with i = -1 and *size = 8. */
static int64_t next_of(const SnlsSafetensors *file, int64_t i, int64_t *size)
{
    for (; *size; *size /= 2, i = -1)
        while (++i < file->count)
            if (snls_dtype_size((SnlsDtype)file->tensors[i].tensor.dtype) == *size) return i;
    return -1;
}

static void put_header(Text *t, const SnlsSafetensors *file)
{
    int64_t size = 8, at = 0;
    put(t, "{");
    if (file->metadata_count) put(t, "\"__metadata__\":");
    for (int64_t i = 0; i < file->metadata_count; i++) {
        put(t, i ? "," : "{");
        put_string(t, file->metadata[2 * i]);
        put(t, ":");
        put_string(t, file->metadata[2 * i + 1]);
    }
    if (file->metadata_count) put(t, "}");
    for (int64_t i = -1; (i = next_of(file, i, &size)) >= 0; at += bytes_of(&file->tensors[i].tensor)) {
        if (t->used > 1) put(t, ",");
        put_string(t, file->tensors[i].name);
        put_entry(t, &file->tensors[i].tensor, at);
    }
    put(t, "}");
    while (t->used % 8) put(t, " "); /* so that the data begin at a multiple of eight */
}

static SnlsStatus make_header(SnlsContext *ctx, const SnlsSafetensors *file, Text *header)
{
    *header = (Text){ NULL, 0 };
    put_header(header, file);
    SNLS_REQUIRE(ctx, header->used <= SNLS_SAFETENSORS_HEADER_MAX, SNLS_ERR_ARG, "safetensors_write: the header would have %lld bytes, at most %d can be read", (long long)header->used,
                 SNLS_SAFETENSORS_HEADER_MAX);
    header->bytes = snls_mem_alloc(&ctx->allocator, header->used);
    SNLS_REQUIRE(ctx, header->bytes, SNLS_ERR_MEMORY, "safetensors_write: no memory for a header of %lld bytes", (long long)header->used);
    header->used = 0;
    put_header(header, file);
    return SNLS_OK;
}

static SnlsStatus write_all(SnlsContext *ctx, const char *path, int fd, const Text *header, const SnlsSafetensors *file)
{
    unsigned char first[8];
    int64_t size = 8;
    for (int i = 0; i < 8; i++) first[i] = (unsigned char)(header->used >> 8 * i);
    SNLS_TRY(snls_io_write(ctx, path, fd, first, 8));
    SNLS_TRY(snls_io_write(ctx, path, fd, header->bytes, header->used));
    for (int64_t i = -1; (i = next_of(file, i, &size)) >= 0;)
        SNLS_TRY(snls_io_write(ctx, path, fd, file->tensors[i].tensor.data, bytes_of(&file->tensors[i].tensor)));
    return SNLS_OK;
}

SnlsStatus snls_safetensors_write(SnlsContext *ctx, const char *path, const SnlsSafetensors *file)
{
    Text header;
    int fd;
    if (!ctx) return SNLS_ERR_ARG;
    SNLS_REQUIRE(ctx, path && file, SNLS_ERR_ARG, "safetensors_write: path or file is NULL");
    SNLS_TRY(check_list(ctx, "tensors", file->tensors, file->count));
    SNLS_TRY(check_list(ctx, "metadata", file->metadata, file->metadata_count));
    SNLS_TRY(check_metadata(ctx, file));
    for (int64_t i = 0; i < file->count; i++) SNLS_TRY(check_tensor(ctx, path, &file->tensors[i]));
    SNLS_TRY(check_names(ctx, file));
    SNLS_TRY(make_header(ctx, file, &header));
    SnlsStatus status = snls_io_create(ctx, path, &fd);
    if (status >= 0) status = snls_io_finish(ctx, path, fd, write_all(ctx, path, fd, &header, file));
    snls_mem_free(&ctx->allocator, header.bytes);
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
