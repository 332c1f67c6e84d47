/* png.c: writing PNG. png_read.c reads it; no other file includes png.h. */
#include "io/array.h"
#include "io/file.h"
#include "io/image.h"
#include <snls/io.h>

#ifdef SNLS_HAVE_PNG
#    include <png.h>
#    include <setjmp.h>

typedef struct Writer {
    SnlsContext *ctx;
    const char *path;
    int fd;
    SnlsStatus status;
    jmp_buf out;
} Writer;

/* libpng must not print and must not return from an error. */
static void on_error(png_structp png, png_const_charp message)
{
    Writer *w = png_get_error_ptr(png);
    if (w->status >= 0)
        w->status = snls_fail(w->ctx, SNLS_ERR_IO, "%s: libpng: %.200s", snls_io_name(w->path).text, message);
    longjmp(w->out, 1);
}

static void on_warning(png_structp png, png_const_charp message)
{
    (void)png;
    (void)message;
}

static png_voidp on_malloc(png_structp png, png_alloc_size_t size)
{
    Writer *w = png_get_mem_ptr(png);
    void *memory = size <= INT64_MAX ? snls_mem_alloc(&w->ctx->allocator, (int64_t)size) : NULL;
    if (!memory)
        w->status = snls_fail(w->ctx, SNLS_ERR_MEMORY, "%s: out of memory for libpng", snls_io_name(w->path).text);
    return memory;
}

static void on_free(png_structp png, png_voidp memory)
{
    Writer *w = png_get_mem_ptr(png);
    snls_mem_free(&w->ctx->allocator, memory);
}

static void on_write(png_structp png, png_bytep bytes, size_t size)
{
    Writer *w = png_get_io_ptr(png);
    w->status = snls_io_write(w->ctx, w->path, w->fd, bytes, (int64_t)size);
    if (w->status < 0) png_error(png, "write");
}

static void on_flush(png_structp png) { (void)png; }

/* Everything after setjmp: no local changes here that the caller reads after a longjmp. */
static void write_rows(png_structp png, png_infop info, Writer *w, const SnlsPngOut *out, uint8_t *row)
{
    png_set_write_fn(png, w, on_write, on_flush);
    png_set_IHDR(png, info, (png_uint_32)out->width, (png_uint_32)out->height, out->depth,
                 out->channels == 3 ? PNG_COLOR_TYPE_RGB : PNG_COLOR_TYPE_GRAY, PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(png, info);
    for (int64_t y = 0; y < out->height; y++) {
        w->status = out->fill(w->ctx, out->opaque, y, row);
        if (w->status < 0) png_error(png, "row");
        png_write_row(png, row);
    }
    png_write_end(png, info);
}

static void write_png(Writer *w, const SnlsPngOut *out, uint8_t *row)
{
    /* volatile: set between setjmp and longjmp, read after it */
    volatile png_structp png = NULL;
    volatile png_infop info = NULL;
    if (!setjmp(w->out)) {
        png = png_create_write_struct_2(PNG_LIBPNG_VER_STRING, w, on_error, on_warning, w, on_malloc, on_free);
        if (png) info = png_create_info_struct(png);
        if (info) write_rows(png, info, w, out, row);
        else if (w->status >= 0)
            w->status = snls_fail(w->ctx, SNLS_ERR_MEMORY, "%s: libpng cannot start", snls_io_name(w->path).text);
    }
    png_structp png_end = png;
    png_infop info_end = info;
    if (png_end) png_destroy_write_struct(&png_end, &info_end);
}

SnlsStatus snls_png_writable(SnlsContext *ctx, const char *name)
{
    (void)ctx, (void)name;
    return SNLS_OK;
}

SnlsStatus snls_png_out(SnlsContext *ctx, const char *path, const SnlsPngOut *out)
{
    Writer w = { .ctx = ctx, .path = path, .fd = -1, .status = SNLS_OK };
    uint8_t *row = snls_mem_alloc(&ctx->allocator, out->width * out->channels * (out->depth / 8));
    SNLS_REQUIRE(ctx, row, SNLS_ERR_MEMORY, "%s: out of memory for a row", snls_io_name(path).text);
    SnlsStatus status = snls_io_create(ctx, path, &w.fd);
    if (status >= 0) {
        write_png(&w, out, row);
        status = snls_io_finish(ctx, path, w.fd, w.status);
    }
    snls_mem_free(&ctx->allocator, row);
    return status;
}

#else

SnlsStatus snls_png_writable(SnlsContext *ctx, const char *name)
{
    return snls_fail(ctx, SNLS_ERR_UNSUPPORTED, "%s: this build has no libpng", snls_io_name(name).text);
}

SnlsStatus snls_png_out(SnlsContext *ctx, const char *path, const SnlsPngOut *out)
{
    (void)out;
    return snls_png_writable(ctx, path);
}

#endif

/* Row y of the image, rounded and clamped to bytes. */
static SnlsStatus fill_bytes(SnlsContext *ctx, void *opaque, int64_t y, uint8_t *row)
{
    const SnlsTensor *image = opaque;
    SnlsTensor from = *image;
    from.shape[0] = 1;
    from.data = (char *)image->data + y * image->stride[0] * snls_dtype_size((SnlsDtype)image->dtype);
    const SnlsTensor to = snls_tensor(row, SNLS_U8, 3, from.shape);
    return snls_array_copy(ctx, &to, &from);
}

SnlsStatus snls_png_write(SnlsContext *ctx, const char *path, const SnlsTensor *image)
{
    if (!ctx) return SNLS_ERR_ARG;
    SNLS_REQUIRE(ctx, path && image, SNLS_ERR_ARG, "png_write: path or image is NULL");
    SNLS_TRY(snls_array_require(ctx, "png_write", "image", image));
    SNLS_REQUIRE(ctx, image->dtype != SNLS_I32, SNLS_ERR_UNSUPPORTED, "png_write: image has element type i32");
    SNLS_REQUIRE(ctx, image->ndim == 3 && (image->shape[2] == 1 || image->shape[2] == 3), SNLS_ERR_SHAPE,
                 "png_write: image must be (H,W,1) or (H,W,3)");
    SNLS_REQUIRE(ctx,
                 image->shape[0] > 0 && image->shape[1] > 0 && image->shape[0] <= 1000000 && image->shape[1] <= 1000000,
                 SNLS_ERR_SHAPE, "png_write: image is %lld x %lld pixels, must be 1 to 1000000 each way",
                 (long long)image->shape[1], (long long)image->shape[0]);
    SnlsTensor view = *image;
    const SnlsPngOut out = { image->shape[1], image->shape[0], (int32_t)image->shape[2], 8, fill_bytes, &view };
    return snls_png_out(ctx, path, &out);
}
