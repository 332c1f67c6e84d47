/* npy_write.c: .npy version 1.0, C order, from any strided view, whole or piece by piece. */
#include "base/tensor.h"
#include "io/array.h"
#include "io/file.h"
#include "io/npy.h"
#include <snls/io.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define BLOCK 16384 /* bytes packed at a time from a view that is not contiguous */

static const char *descr_of(int32_t dtype)
{
    switch (dtype) {
    case SNLS_F32: return "<f4";
    case SNLS_F64: return "<f8";
    case SNLS_F16: return "<f2";
    case SNLS_I32: return "<i4";
    case SNLS_U8: return "|u1";
    }
    return NULL;
}

/* Padded with spaces so that data begins at a multiple of 64. */
int64_t snls_npy_header(char *text, const SnlsTensor *view)
{
    char shape[SNLS_MAX_DIM * 24];
    size_t at = 0;
    shape[0] = 0;
    for (int32_t i = 0; i < view->ndim; i++)
        at += (size_t)snprintf(shape + at, sizeof shape - at, "%s%lld", i ? ", " : "", (long long)view->shape[i]);
    const int used = snprintf(text, SNLS_NPY_HEADER_ROOM, "\x93NUMPY%c%c%c%c{'descr': '%s', 'fortran_order': False, 'shape': (%s%s), }",
                              1, 1, 1, 1, descr_of(view->dtype), shape, view->ndim == 1 ? "," : "");
    const int total = (used + 1 + 63) / 64 * 64;
    memset(text + used, ' ', (size_t)(total - used));
    text[total - 1] = '\n';
    text[7] = 0; /* minor version and length: the ones above only kept snprintf going */
    text[8] = (char)((total - 10) & 255);
    text[9] = (char)((total - 10) >> 8);
    return total;
}

static SnlsStatus write_strided(SnlsContext *ctx, const char *path, int fd, const SnlsTensor *view)
{
    char block[BLOCK];
    const size_t size = (size_t)snls_dtype_size((SnlsDtype)view->dtype);
    const int64_t n = snls_rows_length(view), step = view->stride[view->ndim - 1];
    size_t used = 0;
    SnlsRows rows = { { 0 } };
    do {
        const char *from = (const char *)view->data + snls_rows_at(&rows, view) * (int64_t)size;
        for (int64_t i = 0; i < n; i++) {
            memcpy(block + used, from + i * step * (int64_t)size, size);
            used += size;
            if (used < sizeof block) continue;
            SNLS_TRY(snls_io_write(ctx, path, fd, block, (int64_t)used));
            used = 0;
        }
    } while (snls_rows_step(&rows, view));
    return snls_io_write(ctx, path, fd, block, (int64_t)used);
}

static SnlsStatus write_header(SnlsContext *ctx, const char *path, int fd, const SnlsTensor *view)
{
    char header[SNLS_NPY_HEADER_ROOM];
    return snls_io_write(ctx, path, fd, header, snls_npy_header(header, view));
}

static SnlsStatus write_data(SnlsContext *ctx, const char *path, int fd, const SnlsTensor *view)
{
    const int64_t elements = snls_tensor_elements(view);
    if (!elements) return SNLS_OK;
    if (snls_tensor_is_contiguous(view))
        return snls_io_write(ctx, path, fd, view->data, elements * snls_dtype_size((SnlsDtype)view->dtype));
    return write_strided(ctx, path, fd, view);
}

SnlsStatus snls_npy_write(SnlsContext *ctx, const char *path, const SnlsTensor *view)
{
    int fd;
    if (!ctx) return SNLS_ERR_ARG;
    SNLS_REQUIRE(ctx, path && view, SNLS_ERR_ARG, "npy_write: path or array is NULL");
    SNLS_TRY(snls_array_require(ctx, "npy_write", "array", view));
    SNLS_REQUIRE(ctx, descr_of(view->dtype), SNLS_ERR_UNSUPPORTED, "%s: .npy has no element type %s",
                 snls_io_name(path).text, snls_dtype_name((SnlsDtype)view->dtype));
    SNLS_TRY(snls_io_create(ctx, path, &fd));
    SnlsStatus status = write_header(ctx, path, fd, view);
    if (status >= 0) status = write_data(ctx, path, fd, view);
    return snls_io_finish(ctx, path, fd, status);
}

/* ---- piece by piece ---- */

struct SnlsNpyWriter {
    SnlsContext *ctx;
    int fd;
    SnlsTensor array; /* as the header says */
    int64_t elements, each; /* so far; of one step along the first axis */
    bool cut; /* a piece is there in part, or not at all */
    char path[];
};

SnlsStatus snls_npy_writer_open(SnlsNpyWriter **out, SnlsContext *ctx, const char *path, const SnlsTensor *array)
{
    if (!ctx) return SNLS_ERR_ARG;
    SNLS_REQUIRE(ctx, out && path && array, SNLS_ERR_ARG, "npy_writer: out, path or array is NULL");
    *out = NULL;
    SNLS_REQUIRE(ctx, array->ndim > 0 && array->ndim <= SNLS_MAX_DIM, SNLS_ERR_ARG, "npy_writer: array has %d axes, must have 1 to %d", (int)array->ndim, SNLS_MAX_DIM);
    int64_t each = 1;
    bool fits = array->shape[0] >= 0;
    for (int32_t i = 1; i < array->ndim; i++) fits = fits && array->shape[i] > 0 && snls_mul_size(each, array->shape[i], &each);
    SNLS_REQUIRE(ctx, fits, SNLS_ERR_ARG, "npy_writer: array has an impossible shape");
    SNLS_REQUIRE(ctx, descr_of(array->dtype), SNLS_ERR_UNSUPPORTED, "%s: .npy has no such element type", snls_io_name(path).text);
    const size_t length = strlen(path) + 1;
    SnlsNpyWriter *w = snls_mem_alloc(&ctx->allocator, (int64_t)(sizeof *w + length));
    SNLS_REQUIRE(ctx, w, SNLS_ERR_MEMORY, "npy_writer: out of memory");
    *w = (SnlsNpyWriter){ .ctx = ctx, .fd = -1, .array = *array, .each = each };
    memcpy(w->path, path, length);
    SnlsStatus status = snls_io_create(ctx, path, &w->fd);
    if (status >= 0) status = write_header(ctx, path, w->fd, array);
    if (status < 0) snls_npy_writer_close(&w);
    *out = w;
    return status;
}

SnlsStatus snls_npy_writer_add(SnlsNpyWriter *w, const SnlsTensor *piece)
{
    if (!w) return SNLS_ERR_ARG;
    SNLS_REQUIRE(w->ctx, piece && w->fd >= 0, SNLS_ERR_ARG, "npy_writer: %s", piece ? "is finished" : "the piece is NULL");
    SNLS_TRY(snls_array_require(w->ctx, "npy_writer", "piece", piece));
    SNLS_REQUIRE(w->ctx, piece->dtype == w->array.dtype, SNLS_ERR_SHAPE, "npy_writer: piece has element type %s, the array %s", snls_dtype_name((SnlsDtype)piece->dtype),
                 snls_dtype_name((SnlsDtype)w->array.dtype));
    const SnlsStatus status = write_data(w->ctx, w->path, w->fd, piece);
    w->cut |= status < 0;
    w->elements += snls_tensor_elements(piece);
    return status;
}

/* The header as it should have been, in place of the first, which is padded to the same size. */
static SnlsStatus correct_header(SnlsNpyWriter *w, int64_t length)
{
    char header[SNLS_NPY_HEADER_ROOM];
    const int64_t before = snls_npy_header(header, &w->array);
    w->array.shape[0] = length;
    SNLS_REQUIRE(w->ctx, snls_npy_header(header, &w->array) == before && lseek(w->fd, 0, SEEK_SET) >= 0, SNLS_ERR_IO,
                 "%s: the number of frames was not known, and a pipe has no way back to write it", snls_io_name(w->path).text);
    return write_header(w->ctx, w->path, w->fd, &w->array);
}

SnlsStatus snls_npy_writer_finish(SnlsNpyWriter *w)
{
    if (!w) return SNLS_ERR_ARG;
    SNLS_REQUIRE(w->ctx, w->fd >= 0, SNLS_ERR_ARG, "npy_writer: is finished");
    SNLS_REQUIRE(w->ctx, w->elements % w->each == 0, SNLS_ERR_SHAPE, "npy_writer: %lld elements were added, must be a multiple of %lld", (long long)w->elements,
                 (long long)w->each);
    SNLS_REQUIRE(w->ctx, !w->cut, SNLS_ERR_IO, "%s: is not complete, since a piece could not be written", snls_io_name(w->path).text);
    const int64_t length = w->elements / w->each;
    const SnlsStatus status = length == w->array.shape[0] ? SNLS_OK : correct_header(w, length);
    const int fd = w->fd;
    w->fd = -1;
    return snls_io_finish(w->ctx, w->path, fd, status);
}

void snls_npy_writer_close(SnlsNpyWriter **writer)
{
    SnlsNpyWriter *w = writer ? *writer : NULL;
    if (!w) return;
    *writer = NULL;
    if (w->fd >= 0) close(w->fd);
    snls_mem_free(&w->ctx->allocator, w);
}
