/* png_read.c: PNG from a buffer. What the header promises is checked against the bytes there are before memory is taken. */
#include "io/image.h"

#ifdef SNLS_HAVE_PNG
#    include <png.h>
#    include <setjmp.h>
#    include <string.h>

/* Deflate cannot shrink by more than this; a header that promises more is a lie. */
#    define DEFLATE_MAX 1032

typedef struct Reader {
    SnlsContext *ctx;
    const SnlsBytes *file;
    int64_t at;
    SnlsStatus status;
    SnlsSamples *samples;
    png_bytep *rows;
    jmp_buf out;
} Reader;

static void on_error(png_structp png, png_const_charp message)
{
    Reader *r = png_get_error_ptr(png);
    if (r->status >= 0) r->status = snls_fail(r->ctx, SNLS_ERR_FORMAT, "%s: libpng: %.200s", r->file->name, message);
    longjmp(r->out, 1);
}

static void on_warning(png_structp png, png_const_charp message)
{
    (void)png;
    (void)message;
}

static png_voidp on_malloc(png_structp png, png_alloc_size_t size)
{
    Reader *r = png_get_mem_ptr(png);
    void *memory = size <= INT64_MAX ? snls_mem_alloc(&r->ctx->allocator, (int64_t)size) : NULL;
    if (!memory) r->status = snls_fail(r->ctx, SNLS_ERR_MEMORY, "%s: out of memory for libpng", r->file->name);
    return memory;
}

static void on_free(png_structp png, png_voidp memory)
{
    Reader *r = png_get_mem_ptr(png);
    snls_mem_free(&r->ctx->allocator, memory);
}

static void on_read(png_structp png, png_bytep to, size_t size)
{
    Reader *r = png_get_io_ptr(png);
    if ((int64_t)size > r->file->size - r->at) png_error(png, "the file ends too early");
    memcpy(to, r->file->data + r->at, size);
    r->at += (int64_t)size;
}

static void refuse(png_structp png, Reader *r, SnlsStatus status, const char *what)
{
    r->status = snls_fail(r->ctx, status, "%s: %s", r->file->name, what);
    png_error(png, what);
}

/* Grey or RGB of 8 or 16 bits, whatever is in the file. */
static void set_transforms(png_structp png, png_infop info)
{
    const int type = png_get_color_type(png, info), depth = png_get_bit_depth(png, info);
    if (type == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png);
    if (type == PNG_COLOR_TYPE_GRAY && depth < 8) png_set_expand_gray_1_2_4_to_8(png);
    png_set_strip_alpha(png);
    if (depth == 16) {
        const uint16_t one = 1;
        unsigned char low;
        memcpy(&low, &one, 1);
        if (low) png_set_swap(png); /* PNG has the high byte first */
    }
    png_set_interlace_handling(png);
    png_read_update_info(png, info);
}

static void read_image(png_structp png, png_infop info, Reader *r)
{
    SnlsSamples *s = r->samples;
    png_set_user_limits(png, SNLS_IMAGE_SIDE_MAX, SNLS_IMAGE_SIDE_MAX);
    png_set_chunk_malloc_max(png, 1 << 20); /* text and profiles are of no use here */
    png_set_read_fn(png, r, on_read);
    png_read_info(png, info);
    s->width = png_get_image_width(png, info);
    s->height = png_get_image_height(png, info);
    set_transforms(png, info);
    s->channels = png_get_channels(png, info);
    s->depth = png_get_bit_depth(png, info);
    if ((s->channels != 1 && s->channels != 3) || (s->depth != 8 && s->depth != 16))
        refuse(png, r, SNLS_ERR_UNSUPPORTED, "a kind of PNG that is not known here");
    const int64_t row = (int64_t)png_get_rowbytes(png, info),
                  bits = s->width * (png_get_color_type(png, info) == PNG_COLOR_TYPE_GRAY ? 1 : 3);
    /* the least a row can be in the file is one bit a pixel, and one byte for its filter */
    if ((bits / 24 + 1) * s->height / DEFLATE_MAX > r->file->size)
        refuse(png, r, SNLS_ERR_FORMAT, "promises more pixels than its bytes could hold");
    s->data = snls_mem_alloc(&r->ctx->allocator, row * s->height);
    r->rows = snls_mem_alloc(&r->ctx->allocator, s->height * (int64_t)sizeof *r->rows);
    if (!s->data || !r->rows) refuse(png, r, SNLS_ERR_MEMORY, "out of memory for its pixels");
    for (int64_t y = 0; y < s->height; y++) r->rows[y] = (png_bytep)s->data + y * row;
    png_read_image(png, r->rows);
    png_read_end(png, NULL); /* bytes behind it are none of the picture: passed over, as viewers do and as behind a JPEG */
}

SnlsStatus snls_png_samples(SnlsContext *ctx, const SnlsBytes *file, SnlsSamples *samples)
{
    Reader r = { .ctx = ctx, .file = file, .status = SNLS_OK, .samples = samples };
    volatile png_structp png = NULL;
    volatile png_infop info = NULL;
    if (!setjmp(r.out)) {
        png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, &r, on_error, on_warning, &r, on_malloc, on_free);
        if (png) info = png_create_info_struct(png);
        if (info) read_image(png, info, &r);
        else if (r.status >= 0) r.status = snls_fail(ctx, SNLS_ERR_MEMORY, "%s: libpng cannot start", file->name);
    }
    png_structp png_end = png;
    png_infop info_end = info;
    if (png_end) png_destroy_read_struct(&png_end, &info_end, NULL);
    snls_mem_free(&ctx->allocator, r.rows);
    if (r.status < 0) {
        snls_mem_free(&ctx->allocator, samples->data);
        samples->data = NULL;
    }
    return r.status;
}

#else

SnlsStatus snls_png_samples(SnlsContext *ctx, const SnlsBytes *file, SnlsSamples *samples)
{
    (void)samples;
    return snls_fail(ctx, SNLS_ERR_UNSUPPORTED, "%s: this build has no libpng", file->name);
}

#endif
