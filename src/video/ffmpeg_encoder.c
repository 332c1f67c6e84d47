/* ffmpeg_encoder.c: which encoder, in which pixel format, with which options. */
#include "video/ffmpeg.h"
#include "base/number.h"
#include "io/file.h"
#include <stdio.h>
#include <string.h>

/* ---- the codec ---- */

static bool muxes(const SnlsAvWriter *a, const char *names)
{
    char list[64];
    snprintf(list, sizeof list, ",%s,", a->out->oformat->name);
    for (const char *at = names; *at; at += strlen(at) + 1) {
        char one[32];
        snprintf(one, sizeof one, ",%s,", at);
        if (strstr(list, one)) return true;
    }
    return false;
}

/* Lossless where the container takes FFV1, else a lossy encoder of the input's depth. */
static const char *usual_codec(const SnlsWriter *w, const SnlsAvWriter *a, const SnlsPixels *p)
{
    const int depth = p->component[0].depth;
    if (muxes(a, "yuv4mpegpipe\0")) return "wrapped_avframe";
    if (muxes(a, "matroska\0avi\0nut\0")) return "ffv1";
    if (muxes(a, "webm\0")) return "libvpx-vp9";
    if (!muxes(a, "mp4\0mov\0ipod\0ismv\0flv\0mpegts\0")) return NULL;
    if (w->params.lossless && p->rgb && depth == 8) return "libx264rgb";
    return depth > 10 && depth <= 16 ? "libx265" : "libx264";
}

static SnlsStatus choose_codec(SnlsWriter *w, SnlsAvWriter *a, const SnlsPixels *p, const AVCodec **codec)
{
    const char *asked = w->params.codec, *name = asked ? asked : usual_codec(w, a, p);
    *codec = name ? avcodec_find_encoder_by_name(name) : NULL;
    if (!*codec && asked) { /* "h264" is a codec, not an encoder */
        const AVCodecDescriptor *d = avcodec_descriptor_get_by_name(asked);
        *codec = d ? avcodec_find_encoder(d->id) : NULL;
    }
    SNLS_REQUIRE(w->ctx, (*codec && (*codec)->type == AVMEDIA_TYPE_VIDEO) || !asked, SNLS_ERR_UNSUPPORTED,
                 "writer: params.codec is %.60s, this FFmpeg has no such encoder of videos (ffmpeg -encoders lists them)", asked);
    if (!*codec) {
        const enum AVCodecID id = av_guess_codec(a->out->oformat, NULL, w->name, NULL, AVMEDIA_TYPE_VIDEO);
        *codec = id == AV_CODEC_ID_NONE ? NULL : avcodec_find_encoder(id);
    }
    SNLS_REQUIRE(w->ctx, *codec && (*codec)->type == AVMEDIA_TYPE_VIDEO, SNLS_ERR_UNSUPPORTED,
                 "%s: this FFmpeg has no video encoder for such a file", snls_io_name(w->name).text);
    return SNLS_OK;
}

/* ---- the pixel format ---- */

static const enum AVPixelFormat y4m_formats[] = {
    AV_PIX_FMT_YUV420P,   AV_PIX_FMT_YUV422P,   AV_PIX_FMT_YUV444P,   AV_PIX_FMT_YUV411P,   AV_PIX_FMT_GRAY8,
    AV_PIX_FMT_GRAY9,     AV_PIX_FMT_GRAY10,    AV_PIX_FMT_GRAY12,    AV_PIX_FMT_GRAY16,    AV_PIX_FMT_YUV420P9,
    AV_PIX_FMT_YUV422P9,  AV_PIX_FMT_YUV444P9,  AV_PIX_FMT_YUV420P10, AV_PIX_FMT_YUV422P10, AV_PIX_FMT_YUV444P10,
    AV_PIX_FMT_YUV420P12, AV_PIX_FMT_YUV422P12, AV_PIX_FMT_YUV444P12, AV_PIX_FMT_YUV420P14, AV_PIX_FMT_YUV422P14,
    AV_PIX_FMT_YUV444P14, AV_PIX_FMT_YUV420P16, AV_PIX_FMT_YUV422P16, AV_PIX_FMT_YUV444P16, AV_PIX_FMT_NONE
};

static const enum AVPixelFormat *formats_of(const AVCodec *codec)
{
    if (codec->id == AV_CODEC_ID_WRAPPED_AVFRAME) return y4m_formats;
#if LIBAVCODEC_VERSION_INT >= AV_VERSION_INT(61, 13, 100)
    const void *list = NULL;
    return avcodec_get_supported_config(NULL, codec, AV_CODEC_CONFIG_PIX_FORMAT, 0, &list, NULL) < 0 ? NULL : list;
#else
    return codec->pix_fmts;
#endif
}

static bool takes(const AVCodec *codec, enum AVPixelFormat format)
{
    const enum AVPixelFormat *list = formats_of(codec);
    for (; list && *list != AV_PIX_FMT_NONE; list++)
        if (*list == format) return true;
    return !formats_of(codec);
}

static bool odd_size(const AVCodec *codec, const SnlsPixels *p, enum AVPixelFormat format)
{
    SnlsPixels f;
    if ((codec->id != AV_CODEC_ID_H264 && codec->id != AV_CODEC_ID_HEVC) || !snls_av_pixels(format, &f)) return false;
    return (f.log2_w && p->width & 1) || (f.log2_h && p->height & 1);
}

/* FFmpeg's ffvhuff writes wrong colours where the last sample of colour reaches over the edge of the frame. */
static bool damages(const AVCodec *codec, const SnlsPixels *p, enum AVPixelFormat format)
{
    SnlsPixels f;
    if (codec->id != AV_CODEC_ID_FFVHUFF || !snls_av_pixels(format, &f)) return false;
    return p->width & ((1 << f.log2_w) - 1) || p->height & ((1 << f.log2_h) - 1);
}

/* Half floats and other formats that encoders may come to take are none of ours; palettes become RGB of a byte. */
static bool makes(enum AVPixelFormat format)
{
    SnlsPixels known;
    return format == AV_PIX_FMT_PAL8 || snls_av_pixels(format, &known);
}

/* The nearest of the encoder's formats that we make; AV_PIX_FMT_NONE where it has none for frames of this size. */
static enum AVPixelFormat nearest(const AVCodec *codec, const SnlsPixels *p, enum AVPixelFormat from)
{
    enum AVPixelFormat fit[AV_PIX_FMT_NB + 1];
    int count = 0;
    for (const enum AVPixelFormat *list = formats_of(codec); *list != AV_PIX_FMT_NONE && count < AV_PIX_FMT_NB; list++)
        if (makes(*list) && !damages(codec, p, *list)) fit[count++] = *list;
    fit[count] = AV_PIX_FMT_NONE;
    return count ? avcodec_find_best_pix_fmt_of_list(fit, from, snls_pixels_alpha(p), NULL) : AV_PIX_FMT_NONE;
}

/* RGB into a lossy YUV encoder, and grey where there is none of all depths: 4:2:0 of the same depth, which every player shows; 4:4:4 where a size is odd. */
static enum AVPixelFormat usual_yuv(const AVCodec *codec, const SnlsPixels *p, bool half)
{
    static const enum AVPixelFormat list[2][3] = { { AV_PIX_FMT_YUV444P, AV_PIX_FMT_YUV444P10, AV_PIX_FMT_YUV444P12 },
                                                   { AV_PIX_FMT_YUV420P, AV_PIX_FMT_YUV420P10, AV_PIX_FMT_YUV420P12 } };
    const int depth = p->component[0].depth, want = depth <= 8 || depth == 32 ? 0 : depth <= 10 ? 1 : 2;
    for (int i = want; i >= 0; i--)
        if (takes(codec, list[half][i]) && !odd_size(codec, p, list[half][i])) return list[half][i];
    return AV_PIX_FMT_NONE;
}

/* Made for RGB too, not only able to: what FFV1, PNG and the like are. y4m has no RGB, but is lossless: 4:4:4 is the nearest. */
static bool keeps_rgb(const AVCodec *codec)
{
    if (codec->id == AV_CODEC_ID_WRAPPED_AVFRAME) return true;
    return !takes(codec, AV_PIX_FMT_YUV420P) || takes(codec, AV_PIX_FMT_BGR0) || takes(codec, AV_PIX_FMT_GBRP16);
}

static SnlsStatus choose_format(SnlsWriter *w, const AVCodec *codec, const SnlsPixels *p, enum AVPixelFormat from,
                                enum AVPixelFormat *format)
{
    SnlsPixels known;
    *format = AV_PIX_FMT_NONE;
    if (w->params.format) {
        *format = av_get_pix_fmt(w->params.format);
        SNLS_REQUIRE(w->ctx, *format != AV_PIX_FMT_NONE, SNLS_ERR_ARG, "writer: params.format is %.60s, FFmpeg has no such pixel format",
                     w->params.format);
        SNLS_REQUIRE(w->ctx, takes(codec, *format), SNLS_ERR_UNSUPPORTED,
                     "writer: params.format is %.60s, the encoder %s does not take it", w->params.format, snls_av_encoder_name(codec));
        SNLS_REQUIRE(w->ctx, !damages(codec, p, *format), SNLS_ERR_UNSUPPORTED,
                     "writer: params.format is %.60s, the encoder %s damages it in frames of %lld x %lld; ffv1 does not", w->params.format, snls_av_encoder_name(codec), (long long)p->width, (long long)p->height);
    } else if (takes(codec, from) && !odd_size(codec, p, from) && !damages(codec, p, from)) *format = from;
    else if ((p->components < 3 && !takes(codec, AV_PIX_FMT_GRAY16)) || (p->rgb && !w->params.lossless && !keeps_rgb(codec)))
        *format = usual_yuv(codec, p, true);
    else if (p->rgb && p->component[0].depth <= 8 && takes(codec, AV_PIX_FMT_GBRP) && !takes(codec, AV_PIX_FMT_BGRA))
        *format = AV_PIX_FMT_GBRP;
    if (*format == AV_PIX_FMT_NONE && odd_size(codec, p, from)) *format = usual_yuv(codec, p, false);
    if (*format == AV_PIX_FMT_NONE && formats_of(codec)) *format = nearest(codec, p, from);
    if (*format == AV_PIX_FMT_PAL8) *format = AV_PIX_FMT_BGR8; /* GIF: fixed colours, no palette is made */
    SNLS_REQUIRE(w->ctx, *format != AV_PIX_FMT_NONE && snls_av_pixels(*format, &known), SNLS_ERR_UNSUPPORTED,
                 "%s: the encoder %s takes no pixel format we can make", snls_io_name(w->name).text, snls_av_encoder_name(codec));
    return SNLS_OK;
}

enum { TAG_RANGE = 1, TAG_MATRIX = 2, TAG_COLOURS = 4, TAG_HDR = 8, TAG_ALL = 15 };

/* What of colour the file says in its container or in the headers of its frames. What is in neither, players guess. */
static int tags_held(const SnlsAvWriter *a, enum AVCodecID id)
{
    const int container = muxes(a, "matroska\0webm\0mp4\0ipod\0") ? TAG_ALL
                          : muxes(a, "mov\0")                     ? TAG_ALL - TAG_RANGE
                          : muxes(a, "yuv4mpegpipe\0")            ? TAG_RANGE
                                                                  : 0;
    switch (id) {
    case AV_CODEC_ID_H264:
    case AV_CODEC_ID_HEVC:
    case AV_CODEC_ID_AV1: return container | TAG_RANGE | TAG_MATRIX | TAG_COLOURS;
    case AV_CODEC_ID_VP9: return container | TAG_RANGE | TAG_MATRIX;
    case AV_CODEC_ID_MPEG2VIDEO:
    case AV_CODEC_ID_PRORES: return container | TAG_MATRIX | TAG_COLOURS;
    case AV_CODEC_ID_MJPEG: return container | TAG_RANGE;
    default: return container;
    }
}

/* Tags stay; where RGB becomes YUV, the matrix that is used is written down. Numbers of full range that nothing marks as such would be shown
 * with too much contrast everywhere: they become those of limited range, which is what an unmarked file has. */
static void set_colours(AVFrame *like, const AVFrame *first, const SnlsPixels *from, int held)
{
    const AVPixFmtDescriptor *d = av_pix_fmt_desc_get(like->format);
    const bool rgb = d->flags & AV_PIX_FMT_FLAG_RGB;
    like->color_primaries = first->color_primaries;
    like->color_trc = first->color_trc;
    like->chroma_location = first->chroma_location;
    like->colorspace = first->colorspace;
    like->color_range = first->color_range;
    if (rgb) like->colorspace = AVCOL_SPC_RGB, like->color_range = from->rgb ? first->color_range : AVCOL_RANGE_JPEG;
    else if (d->nb_components >= 3 && (from->rgb || from->components < 3)) {
        like->colorspace = like->height >= 720 ? AVCOL_SPC_BT709 : AVCOL_SPC_SMPTE170M;
        like->color_range =
            from->rgb || !from->full ? AVCOL_RANGE_MPEG : AVCOL_RANGE_JPEG; /* grey stays the same numbers */
    }
    if (!rgb && d->nb_components >= 3 && like->color_range == AVCOL_RANGE_JPEG && !(held & TAG_RANGE))
        like->color_range = AVCOL_RANGE_MPEG;
}

/* ---- options ---- */

enum { SLICED_LEAST = 16 }; /* pixels of a side */

/* FFmpeg's FFV1 cuts a frame into four slices. Where a side has so few pixels that one of theirs is too short for it (1 to 4, by the sampling of
 * colour), it does not start, or writes what every decoder reads as black. Version 1 has no slices and takes every size. */
static bool too_small_for_slices(const SnlsWriter *w) { return w->pixels.width < SLICED_LEAST || w->pixels.height < SLICED_LEAST; }

/* 4:1:1 and 4:1:0: where slices meet between two samples of colour, samples at the end of a row are in none. 4:2:0 is cut elsewhere, but not by
 * FFmpeg 6: of 63 x 35 the last sample of colour of each row and column is lost there. */
static bool too_coarse_for_slices(const SnlsWriter *w)
{
    const SnlsPixels *p = &w->pixels;
    const bool odd = p->width & ((1 << p->log2_w) - 1) || p->height & ((1 << p->log2_h) - 1);
    return p->log2_w > 1 || p->log2_h > 1 || (LIBAVCODEC_VERSION_MAJOR == 60 && odd);
}

static void set_ffv1(const SnlsWriter *w, AVDictionary **options)
{
    const bool whole = too_small_for_slices(w) || too_coarse_for_slices(w);
    av_dict_set(options, "level", whole ? "1" : "3", 0);
    if (!whole) av_dict_set(options, "slicecrc", "1", 0); /* slices with check sums: a damaged spot stays small and is noticed */
}

/* Versions with slices, which options may ask for, write a header of their own. */
static SnlsStatus check_ffv1(SnlsWriter *w, const AVCodecContext *e)
{
    if (e->codec_id != AV_CODEC_ID_FFV1 || !e->extradata_size) return SNLS_OK;
    SNLS_REQUIRE(w->ctx, !too_small_for_slices(w), SNLS_ERR_UNSUPPORTED,
                 "%s: frames of %d x %d are too small for ffv1 with slices; leave out params.options level, slices and slicecrc",
                 snls_io_name(w->name).text, e->width, e->height);
    SNLS_REQUIRE(w->ctx, !too_coarse_for_slices(w), SNLS_ERR_UNSUPPORTED,
                 "%s: colour of %s is too coarse for ffv1 with slices, which would lose some of it; leave out params.options level, slices and slicecrc",
                 snls_io_name(w->name).text, av_get_pix_fmt_name(e->pix_fmt));
    return SNLS_OK;
}

enum { CUTREE_LEAST = 64 }; /* pixels of a side: one block of x265 */

static void set_x265(const SnlsWriter *w, AVDictionary **options)
{
    av_dict_set(options, "x265-params", w->params.lossless && w->params.crf < 0 ? "log-level=none:lossless=1" : "log-level=none", 0);
}

/* x265 3.5 writes behind its memory where it spreads costs over frames of less than a block. Behind what is asked for: the last word holds. */
static void guard_x265(const SnlsWriter *w, AVDictionary **options)
{
    const bool small = w->pixels.width < CUTREE_LEAST || w->pixels.height < CUTREE_LEAST;
    if (small) av_dict_set(options, "x265-params", ":cutree=0", AV_DICT_APPEND);
}

static int set_quality(const SnlsWriter *w, const char *name, AVDictionary **options)
{
    const bool x264 = !strncmp(name, "libx264", 7), x265 = !strcmp(name, "libx265"), vp9 = !strcmp(name, "libvpx-vp9");
    char text[32];
    int lossless = !strcmp(name, "ffv1") || !strcmp(name, "wrapped_avframe") || !strcmp(name, "rawvideo") ||
                   !strcmp(name, "png") || !strcmp(name, "utvideo") || !strcmp(name, "huffyuv") ||
                   !strcmp(name, "ffvhuff") || !strcmp(name, "apng");
    if (x265) set_x265(w, options);
    if (vp9) av_dict_set(options, "row-mt", "1", 0), av_dict_set(options, "b", "0", 0);
    if (w->params.crf >= 0) {
        snls_number_text(text, sizeof text, "%g", w->params.crf);
        av_dict_set(options, "crf", text, 0);
    } else if (w->params.lossless && (x264 || x265 || vp9)) {
        lossless = 1;
        if (x264) av_dict_set(options, "qp", "0", 0);
        if (vp9) av_dict_set(options, "lossless", "1", 0);
    } else if (x264 || x265) av_dict_set(options, "crf", "17", 0);
    else if (vp9) av_dict_set(options, "crf", "18", 0);
    if (!strcmp(name, "ffv1")) set_ffv1(w, options);
    return lossless;
}

/* That frames are whole ones is a mark, too. Where the input's says otherwise, it was called wrong (params.progressive). */
static bool is_marked(const SnlsReader *like)
{
    return like->kind == &snls_av_reader && ((const SnlsAvReader *)like->priv)->stream->codecpar->field_order != AV_FIELD_UNKNOWN;
}

static void set_context(const SnlsWriter *w, SnlsAvWriter *a, AVCodecContext *e, const AVFrame *first, AVRational base,
                        AVRational rate)
{
    e->width = a->like->width;
    e->height = a->like->height;
    e->pix_fmt = a->like->format;
    e->sample_aspect_ratio = first->sample_aspect_ratio;
    e->time_base = base;
    e->framerate = rate;
    e->color_primaries = a->like->color_primaries;
    e->color_trc = a->like->color_trc;
    e->colorspace = a->like->colorspace;
    e->color_range = a->like->color_range;
    e->chroma_sample_location = a->like->chroma_location;
    e->strict_std_compliance = FF_COMPLIANCE_EXPERIMENTAL;
    if (is_marked(w->params.like)) e->field_order = AV_FIELD_PROGRESSIVE;
    if (w->params.threads > 0) e->thread_count = w->params.threads;
    if (a->out->oformat->flags & AVFMT_GLOBALHEADER) e->flags |= AV_CODEC_FLAG_GLOBAL_HEADER;
}

static SnlsStatus make_encoder(SnlsWriter *w, SnlsAvWriter *a, const AVCodec *codec, const AVFrame *first, AVRational base, AVRational rate)
{
    avcodec_free_context(&a->encoder);
    a->encoder = avcodec_alloc_context3(codec);
    SNLS_REQUIRE(w->ctx, a->encoder, SNLS_ERR_MEMORY, "%s: out of memory", snls_io_name(w->name).text);
    set_context(w, a, a->encoder, first, base, rate);
    if (!strncmp(codec->name, "libx26", 6) || !strncmp(codec->name, "libvpx", 6))
        a->encoder->thread_count = w->params.threads;
    return SNLS_OK;
}

static int open_encoder(const SnlsWriter *w, SnlsAvWriter *a, const AVCodec *codec, AVDictionary **options, SnlsAvOpening *said)
{
    if (!strcmp(codec->name, "libx265")) guard_x265(w, options);
    if (w->params.listen) snls_av_opening_listen(said, a->encoder);
    const int error = avcodec_open2(a->encoder, codec, options);
    if (w->params.listen) snls_av_opening_end(said, a->encoder);
    return error;
}

/* SVT-AV1 never comes back from being closed where it has started and was given no frame. */
static bool may_be_closed(const AVCodec *codec) { return strcmp(codec->name, "libsvtav1") != 0; }

/* Does it start without what was asked for? If so, that is what is wrong. */
static bool starts_plain(SnlsWriter *w, SnlsAvWriter *a, const AVCodec *codec, const AVFrame *first, AVRational base, AVRational rate)
{
    AVDictionary *options = NULL;
    SnlsAvOpening said = { 0 };
    if (!w->params.options || !*w->params.options || !may_be_closed(codec) || make_encoder(w, a, codec, first, base, rate) < 0) return false;
    set_quality(w, codec->name, &options);
    const bool starts = open_encoder(w, a, codec, &options, &said) >= 0;
    av_dict_free(&options);
    return starts;
}

/* What the encoder has not taken, though it has started, is refused, not dropped. */
static SnlsStatus check_taken(SnlsWriter *w, const AVCodec *codec, const AVDictionary *left, const SnlsAvOpening *said)
{
    SNLS_REQUIRE(w->ctx, w->params.crf < 0 || !av_dict_get(left, "crf", NULL, 0), SNLS_ERR_ARG,
                 "writer: params.crf is %g, the encoder %s knows no such quality; params.codec libx264 does", w->params.crf, snls_av_encoder_name(codec));
    SNLS_REQUIRE(w->ctx, !*said->ignored || !may_be_closed(codec), SNLS_ERR_ARG, "writer: params.options holds something that the encoder %s does not take: %s", snls_av_encoder_name(codec),
                 said->ignored);
    return SNLS_OK;
}

static SnlsStatus try_open(SnlsWriter *w, SnlsAvWriter *a, const AVCodec *codec, const AVFrame *first, AVRational base,
                           AVRational rate)
{
    AVDictionary *options = NULL;
    SnlsAvOpening said = { 0 };
    char what[700], given[300] = "";
    SNLS_TRY(make_encoder(w, a, codec, first, base, rate));
    w->info.lossless = set_quality(w, codec->name, &options);
    SnlsStatus status = snls_av_options_add(w, codec, a->like->format, &options);
    const int error = status < 0 ? 0 : open_encoder(w, a, codec, &options, &said);
    if (status >= 0 && error >= 0) status = check_taken(w, codec, options, &said);
    av_dict_free(&options);
    if (error >= 0) return status < 0 ? status : check_ffv1(w, a->encoder);
    const bool plain = starts_plain(w, a, codec, first, base, rate);
    if (plain) snls_av_options_text(w, given, sizeof given);
    snprintf(what, sizeof what, "the encoder %s does not start%s%s%s", snls_av_encoder_name(codec), given, *said.failed ? ": " : "", said.failed);
    return snls_av_fail(w->ctx, plain ? SNLS_ERR_ARG : SNLS_ERR_UNSUPPORTED, w->name, what, error);
}

/* Colour in fewer places or in another space; both round. */
static void note_colour(SnlsWriter *w, const SnlsPixels *from)
{
    const SnlsPixels *to = &w->pixels;
    const bool coarser = to->log2_w > from->log2_w || to->log2_h > from->log2_h;
    if (from->components < 3 || to->components < 3) return;
    if (from->rgb && !to->rgb)
        snls_note(&w->info, "RGB becomes %s: colours are rounded%s; .mkv keeps RGB", w->info.pixel_format,
                  coarser ? " and one stands for several pixels" : "");
    else if (coarser) snls_note(&w->info, "colour becomes coarser: %s has it in fewer places; .mkv keeps it", w->info.pixel_format);
}

static void note_losses(SnlsWriter *w, const SnlsPixels *from, const char *codec)
{
    const int in = from->component[0].depth, out = w->pixels.component[0].depth;
    if (from->components > 2 && w->pixels.components < 3)
        snls_note(&w->info, "colour is lost: %s is grey", w->info.pixel_format);
    note_colour(w, from);
    if (in == 32 && out < in)
        snls_note(&w->info, "floats become %d bits a sample, and what lies outside 0 to 1 is cut; .npy keeps it", out);
    else if (out < in)
        snls_note(&w->info, "%d bits a sample become %d: %s has no more here; .mkv keeps all of them", in, out, codec);
    if (snls_pixels_alpha(from) && !snls_pixels_alpha(&w->pixels))
        snls_note(&w->info, "transparency is left out: %s has none", codec);
    if (!strcmp(codec, "gif")) snls_note(&w->info, "GIF has 256 fixed colours here; another container keeps them all");
}

static bool is_hdr(const SnlsReader *like, const AVFrame *first)
{
    const AVStream *s = like->kind == &snls_av_reader ? ((const SnlsAvReader *)like->priv)->stream : NULL;
    return av_frame_get_side_data(first, AV_FRAME_DATA_MASTERING_DISPLAY_METADATA) ||
           av_frame_get_side_data(first, AV_FRAME_DATA_CONTENT_LIGHT_LEVEL) ||
           (s &&
            (snls_av_stream_has(s, AV_PKT_DATA_MASTERING_DISPLAY_METADATA) || snls_av_stream_has(s, AV_PKT_DATA_CONTENT_LIGHT_LEVEL)));
}

/* Adds ", WHAT NAME"; the first without comma. */
static void add_tag(char *text, size_t size, const char *what, const char *name)
{
    const size_t used = strlen(text);
    snprintf(text + used, size - used, "%s%s%s%s", used ? ", " : "", what, name ? " " : "", name ? name : "");
}

static void note_tags(SnlsWriter *w, const SnlsAvWriter *a, const AVFrame *first, const SnlsPixels *from, int held)
{
    char text[160] = "";
    const AVFrame *f = a->like;
    const bool grey = w->pixels.components < 3;
    const char *container = snls_av_is_y4m(a) ? "y4m" : w->info.container;
    if (from->full && !from->rgb && !grey && !w->pixels.full)
        snls_note(&w->info, "full range becomes limited range: %s cannot mark it; .mkv can", container);
    if (grey && !from->full && !(held & TAG_RANGE)) add_tag(text, sizeof text, "range", "limited");
    if (!(held & TAG_MATRIX) && f->colorspace != AVCOL_SPC_UNSPECIFIED && !w->pixels.rgb && !grey)
        add_tag(text, sizeof text, "matrix", av_color_space_name(f->colorspace));
    if (!(held & TAG_COLOURS) && f->color_primaries != AVCOL_PRI_UNSPECIFIED &&
        f->color_primaries != AVCOL_PRI_RESERVED0)
        add_tag(text, sizeof text, "primaries", av_color_primaries_name(f->color_primaries));
    if (!(held & TAG_COLOURS) && f->color_trc != AVCOL_TRC_UNSPECIFIED && f->color_trc != AVCOL_TRC_RESERVED0)
        add_tag(text, sizeof text, "transfer", av_color_transfer_name(f->color_trc));
    if (!(held & TAG_HDR) && is_hdr(w->params.like, first)) add_tag(text, sizeof text, "HDR mastering data", NULL);
    if (*text) snls_note(&w->info, "not marked in the output: %s; %s has no place for it, .mkv does", text, container);
}

/* Files that know a rate, not the time of each frame: MPEG-1, MPEG-2 and Theora have it in their headers, and would take a fine
 * clock for it. AVI fills the gaps of a fine one, so clips of a varying rate keep their times there. */
static bool constant_rate(const SnlsWriter *w, const SnlsAvWriter *a, const AVCodec *codec)
{
    const bool header = codec->id == AV_CODEC_ID_MPEG1VIDEO || codec->id == AV_CODEC_ID_MPEG2VIDEO ||
                        codec->id == AV_CODEC_ID_THEORA || codec->id == AV_CODEC_ID_WRAPPED_AVFRAME;
    if (header || a->out->oformat->flags & AVFMT_NOTIMESTAMPS || muxes(a, "mxf\0gxf\0dv\0")) return true;
    return muxes(a, "avi\0") && !snls_av_rate_varies(w->params.like);
}

/* Nothing but the number of a frame tells its time. Others of one rate keep time stamps, in steps of a frame. */
static bool counts_frames(const SnlsAvWriter *a, const AVCodec *codec)
{
    return a->out->oformat->flags & AVFMT_NOTIMESTAMPS || muxes(a, "mxf\0gxf\0dv\0") ||
           codec->id == AV_CODEC_ID_THEORA || codec->id == AV_CODEC_ID_WRAPPED_AVFRAME;
}

void snls_av_note_rate(SnlsWriter *w)
{
    snls_note(&w->info, "the frame rate varies, and %s has one rate only: %.3f frames a second are written",
              w->info.codec, w->info.rate);
}

/* With the input's clock; with one of those that MPEG-4 and its kin take, which have 16 bits for it; with that of the frame rate. */
static SnlsStatus open_with_clock(SnlsWriter *w, SnlsAvWriter *a, const AVCodec *codec, const AVFrame *first)
{
    const AVRational rate = snls_av_rate(w->info.rate > 0 ? w->info.rate : 25), slow = av_inv_q(rate);
    const bool constant = constant_rate(w, a, codec), varies = snls_av_rate_varies(w->params.like);
    const AVRational clocks[] = { a->from, { 1, 60000 }, { 1, 1000 }, slow };
    SnlsStatus status = SNLS_ERR_UNSUPPORTED;
    for (int i = constant ? 3 : 0; i < 4 && status == SNLS_ERR_UNSUPPORTED; i++)
        if (varies || i == 0 || i == 3) status = try_open(w, a, codec, first, clocks[i], rate);
    SNLS_TRY(status);
    snprintf(w->info.codec, sizeof w->info.codec, "%s", snls_av_encoder_name(codec));
    a->counts = constant && counts_frames(a, codec);
    const bool rounds = !av_cmp_q(a->encoder->time_base, slow) && av_cmp_q(a->from, slow);
    if (a->counts && varies) a->told_rate = true, snls_av_note_rate(w);
    else if (rounds && varies)
        snls_note(&w->info, "the frame rate varies, and %s knows %.3f frames a second: times are rounded to that",
                  snls_av_encoder_name(codec), w->info.rate);
    return SNLS_OK;
}

SnlsStatus snls_av_encoder_open(SnlsWriter *w, SnlsAvWriter *a, const AVFrame *first)
{
    const AVCodec *codec;
    enum AVPixelFormat format;
    SnlsPixels from;
    snls_av_frame_pixels(first, &from);
    SNLS_TRY(choose_codec(w, a, &from, &codec));
    SNLS_TRY(choose_format(w, codec, &from, first->format, &format));
    a->like = av_frame_alloc();
    SNLS_REQUIRE(w->ctx, a->like, SNLS_ERR_MEMORY, "%s: out of memory", snls_io_name(w->name).text);
    a->like->format = format;
    a->like->width = first->width;
    a->like->height = first->height;
    const int held = tags_held(a, codec->id);
    set_colours(a->like, first, &from, held);
    snls_av_frame_pixels(a->like, &w->pixels);
    SNLS_TRY(open_with_clock(w, a, codec, first));
    w->info.depth = w->pixels.component[0].depth;
    w->info.channels = snls_pixels_channels(&w->pixels);
    snprintf(w->info.pixel_format, sizeof w->info.pixel_format, "%s", av_get_pix_fmt_name(format));
    snprintf(w->info.container, sizeof w->info.container, "%s", a->out->oformat->name);
    w->info.lossless = w->info.lossless && snls_pixels_hold(&w->pixels, &from);
    note_losses(w, &from, snls_av_encoder_name(codec));
    note_tags(w, a, first, &from, held);
    return SNLS_OK;
}
