/* ffmpeg_write.c: frames into a file by libavcodec and libavformat. */
#include "video/ffmpeg.h"
#include "base/number.h"
#include "io/file.h"
#include <libavutil/opt.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static SnlsStatus no_memory(SnlsWriter *w)
{
    return snls_fail(w->ctx, SNLS_ERR_MEMORY, "%s: out of memory", snls_io_name(w->name).text);
}

/* A frame without samples that tells the encoder what comes: the reader's first, or of plain pixels the nearest format. */
static AVFrame *first_frame(const SnlsWriter *w, SnlsAvWriter *a)
{
    const SnlsReader *like = w->params.like;
    const SnlsFrame *peeked = like->peeked;
    if (peeked->owner) {
        a->from = ((const SnlsAvReader *)like->priv)->stream->time_base;
        return av_frame_clone(peeked->owner);
    }
    const int depth = peeked->pixels.component[0].depth, wide = depth > 8 && depth < 32;
    AVFrame *frame = av_frame_alloc();
    if (!frame) return NULL;
    frame->width = (int)peeked->pixels.width;
    frame->height = (int)peeked->pixels.height;
    frame->format = peeked->pixels.components == 1 ? (wide ? AV_PIX_FMT_GRAY16 : AV_PIX_FMT_GRAY8)
                                                   : (wide ? AV_PIX_FMT_RGB48 : AV_PIX_FMT_RGB24);
    frame->color_range = AVCOL_RANGE_JPEG;
    a->from = av_inv_q(snls_av_rate(like->info.rate > 0 ? like->info.rate : 25));
    return frame;
}

/* Standard output, and a pipe or a device, whose names have no ending. */
static bool is_stream(const char *path)
{
    struct stat info;
    return !strcmp(path, "-") || (!stat(path, &info) && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode));
}

static SnlsStatus open_muxer(SnlsWriter *w, SnlsAvWriter *a)
{
    const AVOutputFormat *format = strcmp(w->path, "-") ? av_guess_format(NULL, w->name, NULL) : NULL;
    if (!format && is_stream(w->path)) format = av_guess_format("yuv4mpegpipe", NULL, NULL);
    SNLS_REQUIRE(w->ctx, format && format->video_codec != AV_CODEC_ID_NONE, SNLS_ERR_UNSUPPORTED,
                 "%s: the ending tells no video format (.mp4, .mkv, .mov, .webm, .y4m, ...), nor a folder, a pattern "
                 "(%%05d.png) or .npy",
                 snls_io_name(w->name).text);
    SNLS_REQUIRE(w->ctx, strcmp(format->name, "image2"), SNLS_ERR_UNSUPPORTED, "%s: pictures are written as .png", snls_io_name(w->name).text);
    avformat_alloc_output_context2(&a->out, format, NULL, w->name);
    if (!a->out) return no_memory(w);
    a->out->strict_std_compliance = FF_COMPLIANCE_EXPERIMENTAL;
    a->out->flags |= AVFMT_FLAG_BITEXACT; /* no dates, no random numbers: the same run gives the same bytes */
    return SNLS_OK;
}

static SnlsStatus open_file(SnlsWriter *w, SnlsAvWriter *a)
{
    char url[SNLS_PATH_MAX + 8];
    snprintf(url, sizeof url, !strcmp(w->path, "-") ? "pipe:1" : "file:%s", w->path);
    if (a->out->oformat->flags & AVFMT_NOFILE) return SNLS_OK;
    const int error = avio_open(&a->out->pb, url, AVIO_FLAG_WRITE);
    return error < 0 ? snls_av_fail(w->ctx, SNLS_ERR_IO, w->path, "cannot be created", error) : SNLS_OK;
}

static SnlsStatus add_video(SnlsWriter *w, SnlsAvWriter *a, const AVFrame *first)
{
    a->stream = avformat_new_stream(a->out, NULL);
    if (!a->stream) return no_memory(w);
    SNLS_TRY(snls_av_encoder_open(w, a, first));
    if (avcodec_parameters_from_context(a->stream->codecpar, a->encoder) < 0) return no_memory(w);
    a->stream->time_base = a->encoder->time_base;
    a->stream->avg_frame_rate = a->encoder->framerate;
    a->stream->sample_aspect_ratio = a->encoder->sample_aspect_ratio;
    return SNLS_OK;
}

/* HDR tags that the file has only with its frames are for the container too. */
static void frame_tags(SnlsAvWriter *a, const AVFrame *first)
{
    static const int list[][2] = { { AV_FRAME_DATA_MASTERING_DISPLAY_METADATA, AV_PKT_DATA_MASTERING_DISPLAY_METADATA },
                                   { AV_FRAME_DATA_CONTENT_LIGHT_LEVEL, AV_PKT_DATA_CONTENT_LIGHT_LEVEL } };
    for (int i = 0; i < 2; i++) {
        const AVFrameSideData *side = av_frame_get_side_data(first, list[i][0]);
        if (side && !snls_av_stream_has(a->stream, list[i][1])) snls_av_stream_put(a->stream, list[i][1], side->data, side->size);
    }
}

static SnlsStatus write_header(SnlsWriter *w, SnlsAvWriter *a)
{
    if (snls_av_is_y4m(a)) return SNLS_OK; /* comes with the first frame */
    const int error = avformat_write_header(a->out, NULL);
    if (error == AVERROR(ENOSPC) || error == AVERROR(EPIPE) || error == AVERROR(EIO))
        return snls_av_fail(w->ctx, SNLS_ERR_IO, w->name, "cannot be written", error);
    if (error < 0)
        return snls_av_fail(w->ctx, SNLS_ERR_UNSUPPORTED, w->name,
                            "the container refuses these streams (another params.codec, params.no_copy, or .mkv)",
                            error);
    a->header = true;
    return SNLS_OK;
}

static SnlsStatus create(SnlsWriter *w)
{
    SnlsAvWriter *a = w->priv = snls_mem_alloc(&w->ctx->allocator, sizeof *a);
    if (!a) return no_memory(w);
    *a = (SnlsAvWriter){ .last = AV_NOPTS_VALUE };
    a->packet = av_packet_alloc();
    AVFrame *first = first_frame(w, a);
    SnlsStatus status = a->packet && first ? open_muxer(w, a) : no_memory(w);
    if (status >= 0) status = add_video(w, a, first);
    if (status >= 0) status = snls_av_copy_open(w, a);
    if (status >= 0) frame_tags(a, first);
    if (status >= 0) status = open_file(w, a);
    if (status >= 0) status = write_header(w, a);
    av_frame_free(&first);
    a->offset = llrint(w->params.like->origin / av_q2d(a->from));
    a->limited = w->params.like->params.count > 0;
    return status;
}

/* ---- frames ---- */

static AVFrame *new_frame(const SnlsAvWriter *a, const SnlsFrame *like)
{
    AVFrame *to = av_frame_alloc();
    if (!to) return NULL;
    const AVFrame *from = like->owner;
    to->format = a->like->format;
    to->width = a->like->width;
    to->height = a->like->height;
    if (av_frame_get_buffer(to, 0) >= 0 && (!from || av_frame_copy_props(to, from) >= 0)) return to;
    av_frame_free(&to);
    return NULL;
}

static SnlsStatus av_blank(SnlsWriter *w, const SnlsFrame *like, SnlsFrame **frame)
{
    SnlsAvWriter *a = w->priv;
    AVFrame *to = new_frame(a, like);
    if (!to) return no_memory(w);
    to->color_primaries = a->like->color_primaries;
    to->color_trc = a->like->color_trc;
    to->colorspace = a->like->colorspace;
    to->color_range = a->like->color_range;
    to->chroma_location = a->like->chroma_location;
    if (!like->owner) to->pts = llrint(like->time / av_q2d(a->from));
    for (int i = 0; i < 4 && to->data[i]; i++) { /* bits that belong to no sample */
        int64_t rows, bytes;
        snls_pixels_plane(&w->pixels, i, &rows, &bytes);
        for (int64_t y = 0; y < rows; y++) memset(to->data[i] + y * to->linesize[i], 0, (size_t)bytes);
    }
    return snls_av_wrap(w->ctx, to, a->from, frame);
}

/* The muxer wants to know how long a frame lasts, and encoders of this FFmpeg do not pass it on. */
static int64_t duration_of(const SnlsAvWriter *a, int64_t pts)
{
    for (int i = 0; i < 64; i++)
        if (a->pts[i] == pts) return a->duration[i];
    return 0;
}

/* Packets wait in the muxer for those of other streams: which one it does not take is not known here. */
static SnlsStatus write_error(SnlsWriter *w, int error)
{
    const SnlsAvWriter *a = w->priv;
    if ((error == AVERROR(EINVAL) || error == AVERROR_INVALIDDATA) && a->out->nb_streams > 1)
        return snls_av_fail(w->ctx, SNLS_ERR_UNSUPPORTED, w->name, "a packet does not fit, most likely of a stream that is copied (params.no_copy leaves those out)", error);
    return snls_av_fail(w->ctx, SNLS_ERR_IO, !strcmp(w->path, "-") ? "standard output" : w->name, "cannot be written",
                        error);
}

static SnlsStatus drain(SnlsWriter *w, SnlsAvWriter *a)
{
    for (;;) {
        const int error = avcodec_receive_packet(a->encoder, a->packet);
        if (error == AVERROR(EAGAIN) || error == AVERROR_EOF) return SNLS_OK;
        if (error < 0) return snls_av_fail(w->ctx, SNLS_ERR_IO, w->name, "the encoder fails", error);
        AVPacket *p = a->packet;
        if (p->duration <= 0) p->duration = duration_of(a, p->pts);
        av_packet_rescale_ts(p, a->encoder->time_base, a->stream->time_base);
        p->stream_index = a->stream->index;
        const double time = p->dts == AV_NOPTS_VALUE ? 0 : (double)p->dts * av_q2d(a->stream->time_base);
        SNLS_TRY(snls_av_copy_until(w, a, time));
        const int wrong = av_interleaved_write_frame(a->out, p);
        if (wrong < 0) return write_error(w, wrong);
        if (a->out->pb && a->out->pb->error) return write_error(w, a->out->pb->error);
    }
}

/* A single gap cannot be seen before it comes. A mean rate that is a thousandth wrong is none. */
static void watch_rate(SnlsWriter *w, SnlsAvWriter *a, double time)
{
    const double rate = w->info.rate > 0 ? w->info.rate : 25;
    if (!w->written) a->begin = time;
    const double told = (double)w->written / rate, late = fabs(time - a->begin - told);
    if (!a->counts || a->told_rate || late < 0.75 / rate + 1e-3 * told) return;
    a->told_rate = true;
    snls_av_note_rate(w);
}

/* Closed captions of broadcasts and DVDs are no stream but beside the samples of each frame, where few encoders have a place for them. */
static void watch_captions(SnlsWriter *w, SnlsAvWriter *a, const AVFrame *frame)
{
    const enum AVCodecID id = a->encoder ? a->encoder->codec_id : AV_CODEC_ID_NONE;
    if (a->told_captions || w->params.no_copy || id == AV_CODEC_ID_H264 || id == AV_CODEC_ID_MPEG2VIDEO) return;
    if (!av_frame_get_side_data(frame, AV_FRAME_DATA_A53_CC)) return;
    a->told_captions = true;
    snls_note(&w->info, "closed captions are left out: %s has no place for them, H.264 (.mp4, .ts) has", w->info.codec);
}

static SnlsStatus write_frame(SnlsWriter *w, const SnlsFrame *frame)
{
    SnlsAvWriter *a = w->priv;
    watch_rate(w, a, frame->time);
    watch_captions(w, a, frame->owner);
    if (snls_av_is_y4m(a)) return snls_av_y4m_frame(w, a, frame);
    AVFrame *f = av_frame_clone(frame->owner);
    if (!f) return no_memory(w);
    const AVRational base = a->encoder->time_base;
    int64_t pts = av_rescale_q(f->pts - a->offset, a->from, base);
    if (a->last != AV_NOPTS_VALUE && pts <= a->last) pts = a->last + 1; /* two frames of one time, in a coarser clock */
    a->pts[a->sent & 63] = pts;
    a->duration[a->sent++ & 63] = av_rescale_q(SNLS_FRAME_DURATION(f), a->from, base);
    a->last = f->pts = pts;
    f->pict_type = AV_PICTURE_TYPE_NONE; /* the encoder chooses its own key frames */
    f->quality = 0;
    const int error = avcodec_send_frame(a->encoder, f);
    av_frame_free(&f);
    return error < 0 ? snls_av_fail(w->ctx, SNLS_ERR_IO, w->name, "the encoder fails", error) : drain(w, a);
}

static double end_time(const SnlsAvWriter *a)
{
    const int64_t end = a->last + a->duration[(a->sent + 63) & 63];
    return a->sent ? (double)end * av_q2d(a->encoder->time_base) : 0;
}

/* GIF and APNG have how long a frame is to be seen in place of time stamps, and their muxers take the last as the one before unless told. */
static void set_last_delay(SnlsAvWriter *a)
{
    const AVRational base = a->encoder->time_base;
    const int64_t ms = a->sent ? av_rescale_q(a->duration[(a->sent + 63) & 63], base, (AVRational){ 1, 1000 }) : 0;
    if (ms <= 0) return;
    if (!strcmp(a->out->oformat->name, "gif")) av_opt_set_int(a->out->priv_data, "final_delay", FFMIN((ms + 5) / 10, 65535), 0);
    if (!strcmp(a->out->oformat->name, "apng") && ms <= 65535) av_opt_set_q(a->out->priv_data, "final_delay", (AVRational){ (int)ms, 1000 }, 0);
}

static SnlsStatus finish(SnlsWriter *w)
{
    SnlsAvWriter *a = w->priv;
    if (snls_av_is_y4m(a)) return snls_av_y4m_finish(w, a);
    const int sent = avcodec_send_frame(a->encoder, NULL);
    if (sent < 0 && sent != AVERROR_EOF) return snls_av_fail(w->ctx, SNLS_ERR_IO, w->name, "the encoder fails", sent);
    SNLS_TRY(drain(w, a));
    SNLS_TRY(snls_av_copy_until(w, a, a->limited ? end_time(a) : INFINITY));
    a->header = false;
    set_last_delay(a);
    int error = av_write_trailer(a->out);
    if (error >= 0 && a->out->pb) {
        avio_flush(a->out->pb);
        error = a->out->pb->error;
    }
    const int closed = a->out->pb && !(a->out->oformat->flags & AVFMT_NOFILE) ? avio_closep(&a->out->pb) : 0;
    if (error >= 0) error = closed;
    return error < 0 ? write_error(w, error) : SNLS_OK;
}

/* ---- the table's entries: encoders read their options, and write what they say of themselves into files, as the locale has it ---- */

static SnlsStatus av_create(SnlsWriter *w)
{
    const SnlsPlainLocale locale = snls_plain_begin();
    const SnlsStatus status = create(w);
    snls_plain_end(locale);
    return status;
}

static SnlsStatus av_write(SnlsWriter *w, const SnlsFrame *frame)
{
    const SnlsPlainLocale locale = snls_plain_begin();
    const SnlsStatus status = write_frame(w, frame);
    snls_plain_end(locale);
    return status;
}

static SnlsStatus av_finish(SnlsWriter *w)
{
    const SnlsPlainLocale locale = snls_plain_begin();
    const SnlsStatus status = finish(w);
    snls_plain_end(locale);
    return status;
}

/* FFmpeg's GIF muxer lets go of the frame that it holds back with its trailer alone, which here goes nowhere. */
static void drop_held(SnlsAvWriter *a)
{
    uint8_t *bytes = NULL;
    if (!a->header || strcmp(a->out->oformat->name, "gif")) return;
    avio_closep(&a->out->pb);
    if (avio_open_dyn_buf(&a->out->pb) < 0) return;
    av_write_trailer(a->out);
    avio_close_dyn_buf(a->out->pb, &bytes);
    a->out->pb = NULL;
    av_free(bytes);
}

static void av_end(SnlsWriter *w)
{
    SnlsAvWriter *a = w->priv;
    if (!a) return;
    drop_held(a);
    snls_av_copy_close(&a->copy);
    avcodec_free_context(&a->encoder);
    av_packet_free(&a->packet);
    av_frame_free(&a->like);
    if (a->out && a->out->pb && !(a->out->oformat->flags & AVFMT_NOFILE)) avio_closep(&a->out->pb);
    avformat_free_context(a->out);
    snls_mem_free(&w->ctx->allocator, a);
}

const SnlsWriterKind snls_av_writer = { av_create, av_blank, av_write, av_finish, av_end };
