/* pieces.c: .npy files a frame at a time. */
#include "pieces.h"
#include "frames.h"
#include <string.h>

int array_grow(SnlsContext *ctx, const char *what, SnlsTensor *array, int64_t room)
{
    SnlsTensor larger = { 0 };
    int64_t shape[SNLS_MAX_DIM] = { room };
    for (int32_t i = 1; i < array->ndim; i++) shape[i] = array->shape[i];
    const int code = alloc_array(ctx, what, &larger, (SnlsDtype)array->dtype, array->ndim, shape);
    if (code) return code;
    if (array->data) memcpy(larger.data, array->data, (size_t)(snls_tensor_elements(array) * snls_dtype_size((SnlsDtype)array->dtype)));
    snls_array_free(ctx, array);
    *array = larger;
    return EXIT_DONE;
}

/* ---- in ---- */

int array_in_open(SnlsContext *ctx, const char *path, int32_t ndim, const char *layout, ArrayIn *in)
{
    *in = (ArrayIn){ .path = path };
    const SnlsStatus status = snls_npy_reader_open(&in->reader, ctx, path, &in->whole);
    if (status < 0) return fail_library(ctx, status, false);
    const SnlsDtype dtype = (SnlsDtype)in->whole.dtype;
    const int code = array_axes(path, &in->whole, ndim, layout);
    return code ? code : alloc_array(ctx, path, &in->stored, dtype, ndim - 1, in->whole.shape + 1);
}

int array_in_next(SnlsContext *ctx, ArrayIn *in, float *values, bool *there)
{
    *there = in->given < in->whole.shape[0];
    if (!*there) return EXIT_DONE;
    const SnlsTensor to = snls_tensor(values, SNLS_F32, in->stored.ndim, in->stored.shape);
    SnlsStatus status = snls_npy_reader_next(in->reader, &in->stored);
    if (status >= 0 && values) status = snls_array_copy(ctx, &to, &in->stored);
    in->given++;
    return status < 0 ? fail_library(ctx, status, false) : EXIT_DONE;
}

void array_in_close(SnlsContext *ctx, ArrayIn *in)
{
    snls_npy_reader_close(&in->reader);
    snls_array_free(ctx, &in->stored);
}

/* ---- out ---- */

int array_out_open(SnlsContext *ctx, const char *path, int32_t ndim, const int64_t *shape, bool late, ArrayOut *out)
{
    *out = (ArrayOut){ .path = path, .hold = output_special(path) && (late || shape[0] < 0), .held = snls_tensor(NULL, SNLS_F32, ndim, shape) };
    if (shape[0] < 0) out->held.shape[0] = 0;
    if (out->hold) return EXIT_DONE;
    const SnlsStatus status = snls_npy_writer_open(&out->writer, ctx, output_path(path), &out->held);
    return status < 0 ? fail_library(ctx, status, true) : EXIT_DONE;
}

int array_out_add(SnlsContext *ctx, ArrayOut *out, const float *values)
{
    SnlsTensor *held = &out->held;
    const SnlsTensor piece = snls_tensor((void *)values, SNLS_F32, held->ndim - 1, held->shape + 1);
    const int64_t room = held->data ? held->shape[0] : 0;
    int code = EXIT_DONE;
    if (!out->hold) {
        const SnlsStatus status = snls_npy_writer_add(out->writer, &piece);
        return status < 0 ? fail_library(ctx, status, true) : EXIT_DONE;
    }
    if (out->count == room) code = array_grow(ctx, out->path, held, room ? 2 * room : 16);
    if (!code) memcpy(frame_of(held, out->count++).data, values, (size_t)snls_tensor_elements(&piece) * sizeof *values);
    return code;
}

int array_out_finish(SnlsContext *ctx, ArrayOut *out)
{
    out->held.shape[0] = out->count;
    if (out->hold) return write_array(ctx, out->path, &out->held);
    const SnlsStatus status = snls_npy_writer_finish(out->writer);
    return status < 0 ? fail_library(ctx, status, true) : EXIT_DONE;
}

void array_out_close(SnlsContext *ctx, ArrayOut *out)
{
    snls_npy_writer_close(&out->writer);
    snls_array_free(ctx, &out->held);
}
