/* jpeg_read.c: JPEG from a buffer, by libjpeg. A warning about the data (a file cut short, a broken code) is an error. The
 * only file that includes jpeglib.h; libjpeg has no hook for its memory and takes it from malloc. */
#include "io/image.h"

#ifdef SNLS_HAVE_JPEG
#    include <setjmp.h>
#    include <stdio.h>
#    include <string.h>

#    include <jpeglib.h>

#    include <jerror.h>

/* A block of 8x8 pixels takes at least one code of one bit, so a byte holds no more than eight of them. */
#    define PIXELS_A_BYTE 512

typedef struct Reader {
    struct jpeg_error_mgr manager; /* first: libjpeg hands out a pointer to it */
    SnlsContext *ctx;
    const SnlsBytes *file;
    SnlsSamples *samples;
    SnlsStatus status;
    jmp_buf out;
} Reader;

static void on_error(j_common_ptr jpeg)
{
    Reader *r = (Reader *)(void *)jpeg->err;
    char text[JMSG_LENGTH_MAX];
    jpeg->err->format_message(jpeg, text);
    if (r->status >= 0)
        r->status = snls_fail(r->ctx, jpeg->err->msg_code == JERR_OUT_OF_MEMORY ? SNLS_ERR_MEMORY : SNLS_ERR_FORMAT, "%s: libjpeg: %.200s", r->file->name, text);
    longjmp(r->out, 1);
}

static void on_message(j_common_ptr jpeg, int level)
{
    if (level < 0) on_error(jpeg); /* a warning: the pixels would not be what was encoded */
}

static void on_output(j_common_ptr jpeg) { (void)jpeg; }

static void refuse(struct jpeg_decompress_struct *jpeg, Reader *r, SnlsStatus status, const char *what)
{
    r->status = snls_fail(r->ctx, status, "%s: %s", r->file->name, what);
    on_error((j_common_ptr)jpeg);
}

static void read_image(struct jpeg_decompress_struct *jpeg, Reader *r)
{
    SnlsSamples *s = r->samples;
    jpeg_mem_src(jpeg, r->file->data, (unsigned long)r->file->size);
    jpeg_read_header(jpeg, TRUE);
    if (jpeg->num_components != 1 && jpeg->num_components != 3)
        refuse(jpeg, r, SNLS_ERR_UNSUPPORTED, "a JPEG that is neither grey nor of three channels, CMYK for example; grey, YCbCr and RGB are accepted");
    if (jpeg->image_width > SNLS_IMAGE_SIDE_MAX || jpeg->image_height > SNLS_IMAGE_SIDE_MAX)
        refuse(jpeg, r, SNLS_ERR_UNSUPPORTED, "a JPEG of more than 32767 pixels a side");
    if ((int64_t)jpeg->image_width * jpeg->image_height / PIXELS_A_BYTE > r->file->size)
        refuse(jpeg, r, SNLS_ERR_FORMAT, "promises more pixels than its bytes could hold");
    jpeg->out_color_space = jpeg->num_components == 3 ? JCS_RGB : JCS_GRAYSCALE;
    jpeg_start_decompress(jpeg);
    *s = (SnlsSamples){ NULL, jpeg->output_width, jpeg->output_height, jpeg->output_components, 8 };
    s->data = snls_mem_alloc(&r->ctx->allocator, s->width * s->height * s->channels);
    if (!s->data) refuse(jpeg, r, SNLS_ERR_MEMORY, "out of memory for its pixels");
    while (jpeg->output_scanline < jpeg->output_height) {
        JSAMPROW row = (JSAMPROW)s->data + (int64_t)jpeg->output_scanline * s->width * s->channels;
        jpeg_read_scanlines(jpeg, &row, 1);
    }
    jpeg_finish_decompress(jpeg);
}

SnlsStatus snls_jpeg_samples(SnlsContext *ctx, const SnlsBytes *file, SnlsSamples *samples)
{
    Reader r = { .ctx = ctx, .file = file, .samples = samples, .status = SNLS_OK };
    struct jpeg_decompress_struct jpeg;
    memset(&jpeg, 0, sizeof jpeg);
    jpeg.err = jpeg_std_error(&r.manager);
    r.manager.error_exit = on_error;
    r.manager.emit_message = on_message;
    r.manager.output_message = on_output;
    if (!setjmp(r.out)) {
        jpeg_create_decompress(&jpeg);
        read_image(&jpeg, &r);
    }
    jpeg_destroy_decompress(&jpeg);
    if (r.status < 0) {
        snls_mem_free(&ctx->allocator, samples->data);
        samples->data = NULL;
    }
    return r.status;
}

#else

SnlsStatus snls_jpeg_samples(SnlsContext *ctx, const SnlsBytes *file, SnlsSamples *samples)
{
    (void)samples;
    return snls_fail(ctx, SNLS_ERR_UNSUPPORTED, "%s: this build has no libjpeg", file->name);
}

#endif
