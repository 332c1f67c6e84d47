/* npy_write.c: .npy version 1.0, C order, from any strided view. */
#include "base/tensor.h"
#include "io/array.h"
#include "io/file.h"
#include "io/npy.h"
#include <snls/io.h>
#include <stdio.h>
#include <string.h>

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

static SnlsStatus write_all(SnlsContext *ctx, const char *path, int fd, const SnlsTensor *view)
{
    char header[SNLS_NPY_HEADER_ROOM];
    SNLS_TRY(snls_io_write(ctx, path, fd, header, snls_npy_header(header, view)));
    const int64_t elements = snls_tensor_elements(view);
    if (!elements) return SNLS_OK;
    if (snls_array_is_contiguous(view))
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
    return snls_io_finish(ctx, path, fd, write_all(ctx, path, fd, view));
}
