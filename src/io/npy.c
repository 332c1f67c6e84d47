/* npy.c: reading .npy from a file, a pipe or a buffer, whole or piece by piece. The header is npy_header.c's. */
#include "base/tensor.h"
#include "io/array.h"
#include "io/file.h"
#include "io/npy.h"
#include <snls/io.h>
#include <string.h>
#include <unistd.h>

#define PIPE_FIRST ((int64_t)1 << 20) /* bytes first taken for a pipe; doubled as data really arrives */
#define PIPE_MAX   ((int64_t)1 << 34) /* a pipe has no size to check a header against, so it gets a limit */

typedef struct Source {
    const char *path, *name; /* as given; as shown */
    int fd;
    int64_t size; /* -1: a pipe */
} Source;

static SnlsStatus check_size(SnlsContext *ctx, const char *name, const SnlsNpyHeader *h, int64_t begin, int64_t size)
{
    const int64_t have = size - begin;
    SNLS_REQUIRE(ctx, have == h->data_bytes, SNLS_ERR_FORMAT, "%s: its header promises %s of data, the file holds %s",
                 name, snls_io_bytes(h->data_bytes).text, snls_io_bytes(have).text);
    return SNLS_OK;
}

static SnlsStatus truncated(SnlsContext *ctx, const char *name)
{
    return snls_fail(ctx, SNLS_ERR_FORMAT, "%s: ends inside its .npy header", name);
}

/* Header of an open file; leaves the descriptor at the first byte of data, *begin bytes into the file. */
static SnlsStatus read_header(SnlsContext *ctx, const Source *s, SnlsNpyHeader *h, int64_t *begin)
{
    unsigned char first[SNLS_NPY_PREAMBLE];
    int64_t got, more, length;
    SNLS_TRY(snls_io_read(ctx, s->path, s->fd, first, 10, &got)); /* version 1 may have no 12 bytes before its data */
    if (got == 10 && first[6] > 1) {
        SNLS_TRY(snls_io_read(ctx, s->path, s->fd, first + 10, 2, &more));
        got += more;
    }
    SNLS_TRY(snls_npy_preamble(ctx, s->name, first, got, begin, &length));
    if (s->size >= 0 && length > s->size - *begin) return truncated(ctx, s->name);
    char *text = snls_mem_alloc(&ctx->allocator, length);
    SNLS_REQUIRE(ctx, text, SNLS_ERR_MEMORY, "%s: out of memory for its header", s->name);
    SnlsStatus status = snls_io_read(ctx, s->path, s->fd, text, length, &got);
    if (status >= 0 && got < length) status = truncated(ctx, s->name);
    if (status >= 0) status = snls_npy_dictionary(ctx, s->name, text, length, h);
    snls_mem_free(&ctx->allocator, text);
    *begin += length;
    return status;
}

SnlsStatus snls_npy_begin(SnlsContext *ctx, const char *path, int fd, int64_t size, SnlsNpyHeader *header, int64_t *begin)
{
    const SnlsName name = snls_io_name(path);
    const Source s = { path, name.text, fd, size };
    SNLS_TRY(read_header(ctx, &s, header, begin));
    return size >= 0 ? check_size(ctx, name.text, header, *begin, size) : SNLS_OK;
}

static SnlsStatus no_memory(SnlsContext *ctx, const char *name, int64_t bytes)
{
    return snls_fail(ctx, SNLS_ERR_MEMORY, "%s: out of memory for %s of data", name, snls_io_bytes(bytes).text);
}

static SnlsStatus read_short(SnlsContext *ctx, const char *name, int64_t promised, int64_t got)
{
    return snls_fail(ctx, SNLS_ERR_FORMAT, "%s: its header promises %s of data, only %s came", name,
                     snls_io_bytes(promised).text, snls_io_bytes(got).text);
}

static SnlsStatus require_end(SnlsContext *ctx, const Source *s, int64_t promised)
{
    char beyond;
    int64_t got;
    SNLS_TRY(snls_io_read(ctx, s->path, s->fd, &beyond, 1, &got));
    SNLS_REQUIRE(ctx, got == 0, SNLS_ERR_FORMAT, "%s: brings more than the %s its header promises", s->name,
                 snls_io_bytes(promised).text);
    return SNLS_OK;
}

static SnlsStatus read_file_data(SnlsContext *ctx, const Source *s, int64_t bytes, void **data)
{
    int64_t got;
    *data = snls_mem_alloc(&ctx->allocator, bytes);
    if (!*data) return no_memory(ctx, s->name, bytes);
    SNLS_TRY(snls_io_read(ctx, s->path, s->fd, *data, bytes, &got));
    return got < bytes ? read_short(ctx, s->name, bytes, got) : SNLS_OK; /* cut while it was read */
}

static SnlsStatus grow(SnlsContext *ctx, const Source *s, void **data, int64_t used, int64_t bytes)
{
    void *larger = snls_mem_alloc(&ctx->allocator, bytes);
    if (!larger) return no_memory(ctx, s->name, bytes);
    if (used) memcpy(larger, *data, (size_t)used);
    snls_mem_free(&ctx->allocator, *data);
    *data = larger;
    return SNLS_OK;
}

/* Never holds more than about twice what has arrived, whatever the header promises. */
static SnlsStatus read_pipe_data(SnlsContext *ctx, const Source *s, int64_t bytes, void **data)
{
    int64_t used = 0, room = 0, got;
    SNLS_REQUIRE(ctx, bytes <= PIPE_MAX, SNLS_ERR_MEMORY, "%s: promises %s, a pipe may bring at most %s", s->name,
                 snls_io_bytes(bytes).text, snls_io_bytes(PIPE_MAX).text);
    do {
        const int64_t next = room ? 2 * room : PIPE_FIRST;
        room = next < bytes ? next : bytes;
        SNLS_TRY(grow(ctx, s, data, used, room));
        SNLS_TRY(snls_io_read(ctx, s->path, s->fd, (char *)*data + used, room - used, &got));
        used += got;
    } while (used == room && used < bytes);
    return used < bytes ? read_short(ctx, s->name, bytes, used) : require_end(ctx, s, bytes);
}

static SnlsStatus read_open(SnlsContext *ctx, const Source *s, SnlsTensor *view)
{
    SnlsNpyHeader h;
    int64_t begin;
    void *data = NULL;
    SNLS_TRY(read_header(ctx, s, &h, &begin));
    if (s->size >= 0) SNLS_TRY(check_size(ctx, s->name, &h, begin, s->size));
    const SnlsStatus status =
        s->size >= 0 ? read_file_data(ctx, s, h.data_bytes, &data) : read_pipe_data(ctx, s, h.data_bytes, &data);
    if (status < 0) {
        snls_mem_free(&ctx->allocator, data);
        return status;
    }
    *view = snls_tensor(data, (SnlsDtype)h.dtype, h.ndim, h.shape);
    return SNLS_OK;
}

SnlsStatus snls_npy_read(SnlsContext *ctx, const char *path, SnlsTensor *view)
{
    if (!ctx) return SNLS_ERR_ARG;
    SNLS_REQUIRE(ctx, view, SNLS_ERR_ARG, "npy_read: the array to fill is NULL");
    *view = (SnlsTensor){ 0 };
    SNLS_REQUIRE(ctx, path, SNLS_ERR_ARG, "npy_read: path is NULL");
    const SnlsName name = snls_io_name(path);
    Source s = { path, name.text, -1, -1 };
    SNLS_TRY(snls_io_open(ctx, path, &s.fd, &s.size));
    const SnlsStatus status = read_open(ctx, &s, view);
    close(s.fd);
    return status;
}

SnlsStatus snls_npy_parse(SnlsContext *ctx, const void *bytes, size_t size, SnlsTensor *view)
{
    static const char name[] = "npy buffer";
    SnlsNpyHeader h;
    int64_t begin, length;
    if (!ctx) return SNLS_ERR_ARG;
    SNLS_REQUIRE(ctx, view, SNLS_ERR_ARG, "npy_parse: the array to fill is NULL");
    *view = (SnlsTensor){ 0 };
    SNLS_REQUIRE(ctx, bytes && size <= INT64_MAX, SNLS_ERR_ARG, "npy_parse: no buffer");
    const int64_t have = (int64_t)size;
    SNLS_TRY(snls_npy_preamble(ctx, name, bytes, have < SNLS_NPY_PREAMBLE ? have : SNLS_NPY_PREAMBLE, &begin, &length));
    if (length > have - begin) return truncated(ctx, name);
    SNLS_TRY(snls_npy_dictionary(ctx, name, (const char *)bytes + begin, length, &h));
    SNLS_TRY(check_size(ctx, name, &h, begin + length, have));
    void *data = snls_mem_alloc(&ctx->allocator, h.data_bytes);
    if (!data) return no_memory(ctx, name, h.data_bytes);
    memcpy(data, (const char *)bytes + begin + length, (size_t)h.data_bytes);
    *view = snls_tensor(data, (SnlsDtype)h.dtype, h.ndim, h.shape);
    return SNLS_OK;
}

/* ---- piece by piece ---- */

struct SnlsNpyReader {
    SnlsContext *ctx;
    SnlsName name; /* of the file, in sentences */
    Source source;
    int32_t dtype;
    int64_t promised, came; /* bytes of data */
};

SnlsStatus snls_npy_reader_open(SnlsNpyReader **out, SnlsContext *ctx, const char *path, SnlsTensor *array)
{
    SnlsNpyHeader h;
    int64_t begin;
    if (!ctx) return SNLS_ERR_ARG;
    SNLS_REQUIRE(ctx, out && path && array, SNLS_ERR_ARG, "npy_reader: out, path or array is NULL");
    *out = NULL;
    *array = (SnlsTensor){ 0 };
    SnlsNpyReader *r = snls_mem_alloc(&ctx->allocator, sizeof *r);
    SNLS_REQUIRE(ctx, r, SNLS_ERR_MEMORY, "npy_reader: out of memory");
    *r = (SnlsNpyReader){ .ctx = ctx, .name = snls_io_name(path), .source.fd = -1 };
    r->source.path = r->source.name = r->name.text;
    SnlsStatus status = snls_io_open(ctx, path, &r->source.fd, &r->source.size);
    if (status >= 0) status = snls_npy_begin(ctx, path, r->source.fd, r->source.size, &h, &begin);
    if (status < 0) return snls_npy_reader_close(&r), status;
    r->dtype = h.dtype;
    r->promised = h.data_bytes;
    *array = snls_tensor(NULL, (SnlsDtype)h.dtype, h.ndim, h.shape);
    *out = r;
    return SNLS_OK;
}

SnlsStatus snls_npy_reader_next(SnlsNpyReader *r, const SnlsTensor *piece)
{
    int64_t got;
    if (!r) return SNLS_ERR_ARG;
    SNLS_REQUIRE(r->ctx, piece, SNLS_ERR_ARG, "npy_reader: the piece is NULL");
    SNLS_TRY(snls_array_require(r->ctx, "npy_reader", "piece", piece));
    SNLS_REQUIRE(r->ctx, piece->dtype == r->dtype && snls_tensor_is_contiguous(piece), SNLS_ERR_SHAPE, "npy_reader: piece must be contiguous and of the type of the file, %s",
                 snls_dtype_name((SnlsDtype)r->dtype));
    const int64_t bytes = snls_tensor_elements(piece) * snls_dtype_size((SnlsDtype)piece->dtype), left = r->promised - r->came;
    SNLS_TRY(snls_io_read(r->ctx, r->source.path, r->source.fd, piece->data, bytes < left ? bytes : left, &got));
    r->came += got;
    SNLS_REQUIRE(r->ctx, bytes <= left, SNLS_ERR_FORMAT, "%s: has no further %s of data", r->source.name, snls_io_bytes(bytes).text);
    if (got < bytes) return read_short(r->ctx, r->source.name, r->promised, r->came);
    return r->came == r->promised && r->source.size < 0 ? require_end(r->ctx, &r->source, r->promised) : SNLS_OK;
}

void snls_npy_reader_close(SnlsNpyReader **reader)
{
    SnlsNpyReader *r = reader ? *reader : NULL;
    if (!r) return;
    *reader = NULL;
    if (r->source.fd >= 0) close(r->source.fd);
    snls_mem_free(&r->ctx->allocator, r);
}
