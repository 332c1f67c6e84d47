/* ffmpeg_format.c: pixel formats and frames of libav as ours. */
#include "video/ffmpeg.h"
#include "io/file.h"
#include <libavutil/imgutils.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

SnlsStatus snls_av_fail(SnlsContext *ctx, SnlsStatus status, const char *path, const char *what, int error)
{
    char words[AV_ERROR_MAX_STRING_SIZE] = "";
    if (error == AVERROR(ENOMEM)) status = SNLS_ERR_MEMORY;
    av_strerror(error, words, sizeof words);
    return snls_fail(ctx, status, "%s: %s: %s", snls_io_name(path).text, what, words);
}

AVRational snls_av_rate(double rate)
{
    const AVRational small = av_d2q(rate, 100000), large = av_d2q(rate, 1001000);
    return fabs(av_q2d(small) - rate) > 1e-9 * rate && large.den <= 1001 ? large : small;
}

bool snls_av_pixels(enum AVPixelFormat format, SnlsPixels *p)
{
    const AVPixFmtDescriptor *d = av_pix_fmt_desc_get(format);
    const uint64_t never =
        AV_PIX_FMT_FLAG_HWACCEL | AV_PIX_FMT_FLAG_BITSTREAM | AV_PIX_FMT_FLAG_PAL | AV_PIX_FMT_FLAG_BAYER;
    if (!d || d->flags & never || d->nb_components < 1 || d->nb_components > 4 || !strncmp(d->name, "xyz", 3) ||
        format == AV_PIX_FMT_UYYVYY411) /* its luma does not lie at equal steps */
        return false;
    *p = (SnlsPixels){ .components = d->nb_components,
                       .log2_w = d->log2_chroma_w,
                       .log2_h = d->log2_chroma_h,
                       .rgb = d->flags & AV_PIX_FMT_FLAG_RGB,
                       .big_endian = d->flags & AV_PIX_FMT_FLAG_BE,
                       .real = d->flags & AV_PIX_FMT_FLAG_FLOAT,
                       .unit = true };
    for (int c = 0; c < d->nb_components; c++) {
        const AVComponentDescriptor *k = &d->comp[c];
        if (k->depth > 16 && !(p->real && k->depth == 32)) return false;
        if (p->real && k->depth != 32) return false; /* half floats */
        if (k->plane > 3 || k->step < 1 || k->step > 32 || k->offset < 0 || k->offset > 32 || k->shift + k->depth > 32)
            return false;
        if (!p->real && k->shift + k->depth > 16) return false;
        p->component[c] = (SnlsComponent){ (uint8_t)k->plane, (uint8_t)k->step, (uint8_t)k->offset, (uint8_t)k->shift,
                                           (uint8_t)k->depth };
    }
    return true;
}

/* Where the file does not say: what players assume. */
static int32_t matrix_of(const AVFrame *frame)
{
    switch (frame->colorspace) {
    case AVCOL_SPC_BT709: return SNLS_MATRIX_709;
    case AVCOL_SPC_BT2020_NCL:
    case AVCOL_SPC_BT2020_CL: return SNLS_MATRIX_2020;
    case AVCOL_SPC_SMPTE240M: return SNLS_MATRIX_240M;
    case AVCOL_SPC_FCC: return SNLS_MATRIX_FCC;
    case AVCOL_SPC_BT470BG:
    case AVCOL_SPC_SMPTE170M: return SNLS_MATRIX_601;
    default: return frame->height >= 720 ? SNLS_MATRIX_709 : SNLS_MATRIX_601;
    }
}

bool snls_av_frame_pixels(const AVFrame *frame, SnlsPixels *p)
{
    if (!snls_av_pixels(frame->format, p)) return false;
    const AVPixFmtDescriptor *d = av_pix_fmt_desc_get(frame->format);
    p->width = frame->width;
    p->height = frame->height;
    p->matrix = p->rgb || p->components < 3 ? 0 : matrix_of(frame);
    p->full = frame->color_range == AVCOL_RANGE_JPEG || !strncmp(d->name, "yuvj", 4) || p->rgb ||
              (p->components < 3 && frame->color_range != AVCOL_RANGE_MPEG);
    return true;
}

/* "yuvj420p" is "yuv420p" with a mark that has a place of its own by now. */
static void drop_old_mark(AVFrame *frame)
{
    static const enum AVPixelFormat list[][2] = { { AV_PIX_FMT_YUVJ420P, AV_PIX_FMT_YUV420P },
                                                  { AV_PIX_FMT_YUVJ422P, AV_PIX_FMT_YUV422P },
                                                  { AV_PIX_FMT_YUVJ444P, AV_PIX_FMT_YUV444P },
                                                  { AV_PIX_FMT_YUVJ440P, AV_PIX_FMT_YUV440P },
                                                  { AV_PIX_FMT_YUVJ411P, AV_PIX_FMT_YUV411P } };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (frame->format == list[i][0]) frame->format = list[i][1], frame->color_range = AVCOL_RANGE_JPEG;
}

/* ---- palettes and single bits ---- */

static void palette_row(const AVFrame *from, int y, uint8_t *to)
{
    const uint8_t *row = from->data[0] + y * from->linesize[0];
    for (int x = 0; x < from->width; x++) {
        uint32_t color; /* ARGB in the machine's order */
        memcpy(&color, from->data[1] + 4 * row[x], 4);
        to[4 * x] = (uint8_t)(color >> 16);
        to[4 * x + 1] = (uint8_t)(color >> 8);
        to[4 * x + 2] = (uint8_t)color;
        to[4 * x + 3] = (uint8_t)(color >> 24);
    }
}

static void bits_row(const AVFrame *from, int y, uint8_t *to)
{
    const uint8_t *row = from->data[0] + y * from->linesize[0], flip = from->format == AV_PIX_FMT_MONOWHITE ? 255 : 0;
    for (int x = 0; x < from->width; x++) to[x] = (uint8_t)((row[x >> 3] >> (7 - (x & 7)) & 1 ? 255 : 0) ^ flip);
}

SnlsStatus snls_av_plain(SnlsContext *ctx, AVFrame **frame)
{
    AVFrame *from = *frame;
    const bool palette = from->format == AV_PIX_FMT_PAL8;
    drop_old_mark(from);
    if (!palette && from->format != AV_PIX_FMT_MONOWHITE && from->format != AV_PIX_FMT_MONOBLACK) return SNLS_OK;
    AVFrame *to = av_frame_alloc();
    if (to) {
        to->format = palette ? AV_PIX_FMT_RGBA : AV_PIX_FMT_GRAY8;
        to->width = from->width;
        to->height = from->height;
    }
    if (!to || av_frame_get_buffer(to, 0) < 0 || av_frame_copy_props(to, from) < 0) {
        av_frame_free(&to);
        return snls_fail(ctx, SNLS_ERR_MEMORY, "video: out of memory for a frame");
    }
    for (int y = 0; y < from->height; y++)
        (palette ? palette_row : bits_row)(from, y, to->data[0] + y * to->linesize[0]);
    av_frame_free(frame);
    *frame = to;
    return SNLS_OK;
}

/* ---- frames ---- */

static void release(void *owner)
{
    AVFrame *frame = owner;
    av_frame_free(&frame);
}

SnlsStatus snls_av_wrap(SnlsContext *ctx, AVFrame *frame, AVRational time_base, SnlsFrame **out)
{
    SnlsPixels pixels;
    *out = NULL;
    if (!snls_av_frame_pixels(frame, &pixels)) {
        const char *name = av_get_pix_fmt_name(frame->format);
        release(frame);
        return snls_fail(ctx, SNLS_ERR_UNSUPPORTED, "video: pixel format %s is neither RGB nor YUV nor grey",
                         name ? name : "unknown");
    }
    SnlsFrame *f = snls_frame_new(ctx, &pixels);
    if (!f) {
        release(frame);
        return SNLS_ERR_MEMORY;
    }
    for (int i = 0; i < 4; i++) f->planes.data[i] = frame->data[i], f->planes.stride[i] = frame->linesize[i];
    f->time = frame->pts == AV_NOPTS_VALUE ? 0 : (double)frame->pts * av_q2d(time_base);
    f->owner = frame;
    f->release = release;
    *out = f;
    return SNLS_OK;
}
