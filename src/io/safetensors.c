/* safetensors.c: reads files and buffers of named arrays. The header is checked in safetensors_header.c. */
#define _POSIX_C_SOURCE 200809L
#include "io/safetensors.h"
#include "io/file.h"
#include <string.h>
#include <unistd.h>

static const struct { const char *name; int32_t dtype, bytes; } types[] = {
    { "F32", SNLS_F32, 4 }, { "F64", SNLS_F64, 8 }, { "F16", SNLS_F16, 2 }, { "BF16", SNLS_BF16, 2 }, { "I32", SNLS_I32, 4 },
    { "U8", SNLS_U8, 1 }, { "BOOL", -1, 1 }, { "I8", -1, 1 }, { "F8_E5M2", -1, 1 }, { "F8_E4M3", -1, 1 }, { "I16", -1, 2 },
    { "U16", -1, 2 }, { "U32", -1, 4 }, { "I64", -1, 8 }, { "U64", -1, 8 },
};
enum { TYPES = sizeof types / sizeof *types };

int64_t snls_safetensors_type(const char *name, int32_t *dtype)
{
    for (int i = 0; i < TYPES; i++)
        if (!strcmp(name, types[i].name)) return *dtype = types[i].dtype, types[i].bytes;
    return 0;
}

const char *snls_safetensors_type_name(int32_t dtype)
{
    for (int i = 0; i < TYPES; i++)
        if (types[i].dtype == dtype && dtype >= 0) return types[i].name;
    return NULL;
}

/* The header's length, from the file's first eight bytes; -1 where no file of this size could hold it. */
static int64_t header_length(const unsigned char *bytes, int64_t size)
{
    uint64_t length = 0;
    if (size < 8) return -1;
    for (int i = 7; i >= 0; i--) length = length << 8 | bytes[i];
    return length > SNLS_SAFETENSORS_HEADER_MAX || length > (uint64_t)(size - 8) ? -1 : (int64_t)length;
}

static SnlsStatus bad_length(SnlsContext *ctx, const char *name, int64_t size)
{
    return snls_fail(ctx, SNLS_ERR_FORMAT, "%s: %lld bytes are no safetensors file: the length of its header is missing, more than %d or more than the file holds",
                     name, (long long)size, SNLS_SAFETENSORS_HEADER_MAX);
}

SnlsStatus snls_safetensors_parse(SnlsContext *ctx, const void *bytes, size_t size, SnlsSafetensors *file)
{
    void *data;
    if (!ctx) return SNLS_ERR_ARG;
    SNLS_REQUIRE(ctx, file, SNLS_ERR_ARG, "safetensors_parse: file is NULL");
    *file = (SnlsSafetensors){ 0 };
    SNLS_REQUIRE(ctx, bytes && size <= INT64_MAX, SNLS_ERR_ARG, "safetensors_parse: bytes is NULL or too many");
    const int64_t header = header_length(bytes, (int64_t)size), rest = (int64_t)size - 8 - header;
    if (header < 0) return bad_length(ctx, "buffer", (int64_t)size);
    SNLS_TRY(snls_safetensors_layout(ctx, "buffer", (const char *)bytes + 8, header, rest, file, &data));
    if (rest) memcpy(data, (const char *)bytes + 8 + header, (size_t)rest);
    return SNLS_OK;
}

static SnlsStatus read_exactly(SnlsContext *ctx, const char *path, int fd, void *to, int64_t bytes)
{
    int64_t got;
    SNLS_TRY(snls_io_read(ctx, path, fd, to, bytes, &got));
    SNLS_REQUIRE(ctx, got == bytes, SNLS_ERR_FORMAT, "%s: ends early, it became shorter while it was read", snls_io_name(path).text);
    return SNLS_OK;
}

static SnlsStatus read_open_file(SnlsContext *ctx, const char *path, int fd, int64_t size, SnlsSafetensors *file)
{
    unsigned char first[8];
    const SnlsName name = snls_io_name(path);
    void *data;
    SNLS_REQUIRE(ctx, size >= 0, SNLS_ERR_IO, "%s: is no regular file, so its length is not known", name.text);
    if (size < 8) return bad_length(ctx, name.text, size);
    SNLS_TRY(read_exactly(ctx, path, fd, first, 8));
    const int64_t bytes = header_length(first, size);
    if (bytes < 0) return bad_length(ctx, name.text, size);
    char *header = snls_mem_alloc(&ctx->allocator, bytes);
    SNLS_REQUIRE(ctx, header, SNLS_ERR_MEMORY, "%s: no memory for its header of %lld bytes", name.text, (long long)bytes);
    SnlsStatus status = read_exactly(ctx, path, fd, header, bytes);
    if (status >= 0) status = snls_safetensors_layout(ctx, name.text, header, bytes, size - 8 - bytes, file, &data);
    snls_mem_free(&ctx->allocator, header);
    return status < 0 ? status : read_exactly(ctx, path, fd, data, size - 8 - bytes);
}

SnlsStatus snls_safetensors_read(SnlsContext *ctx, const char *path, SnlsSafetensors *file)
{
    int fd;
    int64_t size;
    if (!ctx) return SNLS_ERR_ARG;
    SNLS_REQUIRE(ctx, path && file, SNLS_ERR_ARG, "safetensors_read: path or file is NULL");
    *file = (SnlsSafetensors){ 0 };
    SNLS_TRY(snls_io_open(ctx, path, &fd, &size));
    const SnlsStatus status = read_open_file(ctx, path, fd, size, file);
    close(fd);
    if (status < 0) snls_safetensors_free(ctx, file);
    return status;
}

void snls_safetensors_free(SnlsContext *ctx, SnlsSafetensors *file)
{
    if (!ctx || !file) return;
    snls_mem_free(&ctx->allocator, file->memory);
    *file = (SnlsSafetensors){ 0 };
}

const SnlsTensor *snls_safetensors_find(const SnlsSafetensors *file, const char *name)
{
    for (int64_t i = 0; file && name && i < file->count; i++)
        if (!strcmp(file->tensors[i].name, name)) return &file->tensors[i].tensor;
    return NULL;
}

const char *snls_safetensors_metadata(const SnlsSafetensors *file, const char *key)
{
    for (int64_t i = 0; file && key && i < file->metadata_count; i++)
        if (!strcmp(file->metadata[2 * i], key)) return file->metadata[2 * i + 1];
    return NULL;
}
