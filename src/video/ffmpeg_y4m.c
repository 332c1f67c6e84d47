/* ffmpeg_y4m.c: y4m written by hand, onto FFmpeg's files and pipes: its own muxer gives rows of half a sample where a width is
 * odd and a sample has two bytes. */
#include "video/ffmpeg.h"
#include "io/file.h"
#include <stdio.h>
#include <string.h>

/* "420jpeg", "422p10", "mono12": what FFmpeg and others call it. */
static void name_of(const SnlsPixels *p, enum AVChromaLocation location, char *text, size_t size)
{
    const int depth = p->component[0].depth;
    const char *layout = p->log2_w == 2 ? "411" : p->log2_w && p->log2_h ? "420" : p->log2_w ? "422" : "444";
    if (p->components == 1 && depth == 8) snprintf(text, size, "mono");
    else if (p->components == 1) snprintf(text, size, "mono%d", depth);
    else if (depth > 8) snprintf(text, size, "%sp%d", layout, depth);
    else if (!strcmp(layout, "420"))
        snprintf(text, size, "420%s",
                 location == AVCHROMA_LOC_LEFT      ? "mpeg2"
                 : location == AVCHROMA_LOC_TOPLEFT ? "paldv"
                                                    : "jpeg");
    else snprintf(text, size, "%s", layout);
}

static SnlsStatus check(SnlsWriter *w, const SnlsAvWriter *a)
{
    const int error = a->out->pb->error;
    return error < 0 ? snls_av_fail(w->ctx, SNLS_ERR_IO, !strcmp(w->path, "-") ? "standard output" : w->name,
                                    "cannot be written", error)
                     : SNLS_OK;
}

/* With the first frame: what fails before it leaves nothing on standard output. */
static void write_header(const SnlsWriter *w, SnlsAvWriter *a)
{
    if (a->header) return;
    char name[16], text[256];
    const AVRational rate = a->encoder->framerate, aspect = a->encoder->sample_aspect_ratio;
    name_of(&w->pixels, a->like->chroma_location, name, sizeof name);
    const int n = snprintf(text, sizeof text, "YUV4MPEG2 W%d H%d F%d:%d Ip A%d:%d C%s%s\n", a->like->width,
                           a->like->height, rate.num, rate.den, aspect.num > 0 ? aspect.num : 0,
                           aspect.num > 0 ? aspect.den : 0, name, /* 0:0 is unknown */
                           a->like->color_range == AVCOL_RANGE_JPEG   ? " XCOLORRANGE=FULL"
                           : a->like->color_range == AVCOL_RANGE_MPEG ? " XCOLORRANGE=LIMITED"
                                                                      : "");
    avio_write(a->out->pb, (const unsigned char *)text, n);
    a->header = true;
}

SnlsStatus snls_av_y4m_frame(SnlsWriter *w, SnlsAvWriter *a, const SnlsFrame *frame)
{
    const SnlsPixels *p = &frame->pixels;
    write_header(w, a);
    avio_write(a->out->pb, (const unsigned char *)"FRAME\n", 6);
    for (int32_t i = 0; i < snls_pixels_planes(p); i++) {
        int64_t rows, bytes;
        snls_pixels_plane(p, i, &rows, &bytes);
        for (int64_t y = 0; y < rows; y++)
            avio_write(a->out->pb, frame->planes.data[i] + y * frame->planes.stride[i], (int)bytes);
    }
    return check(w, a);
}

SnlsStatus snls_av_y4m_finish(SnlsWriter *w, SnlsAvWriter *a)
{
    write_header(w, a);
    avio_flush(a->out->pb);
    const SnlsStatus status = check(w, a);
    const int closed = avio_closep(&a->out->pb);
    if (status >= 0 && closed < 0) return snls_av_fail(w->ctx, SNLS_ERR_IO, w->name, "cannot be written", closed);
    return status;
}
